"""Running NuSMV or nuXmv on an exported model: verdicts and counterexamples.

NuSMV is not a part of Pellucid.  It is found by the variable ``PELLUCID_NUSMV`` (the path of the program), on the
``PATH`` as ``NuSMV`` or ``nuXmv``, or in the folder where ``python -m tests.export.nusmv --install`` (``make
setup``) puts the one that a package for Python carries.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.internal.export.language import literal
from pellucid.internal.expr.types import BOOL, EnumType
from pellucid.internal.graph.model import Graph

__all__ = ["MISSING", "Checked", "find_nusmv", "install", "parse_output", "pushes_of", "run_nusmv"]

PACKAGE = "pyboolnet==3.0.16"  # its wheel carries NuSMV 2.6 for Linux
SHA256 = "cae53535da1b29cd2cb41ba115753098236e310bf1c8efd3d2f1f4bd68d80906"
PROGRAM = Path(sys.prefix) / "nusmv" / "NuSMVa_linux64"
MISSING = (
    "no NuSMV was found: set PELLUCID_NUSMV, put NuSMV or nuXmv on the PATH, or say (on Linux, x86-64) "
    "python -m tests.export.nusmv --install"
)

_SPEC = re.compile(r"^(CTL|LTL|INVAR)SPEC NAME (\w+) := (.*);$", re.MULTILINE)
_COMMAND = {"CTL": "check_ctlspec", "LTL": "check_ltlspec", "INVAR": "check_invar"}
_MARK = "@@ property"


class Checked(NamedTuple):
    """What NuSMV says about one property; where it does not hold, the states of a counterexample (all variables each).

    ``loop`` is the state from which on it repeats for ever, None where it ends.
    """

    spec: str
    holds: bool
    states: tuple[dict[str, str], ...] = ()
    loop: int | None = None


def find_nusmv() -> str | None:
    """The path of a NuSMV that starts, or None.

    >>> path = find_nusmv()
    >>> path is None or os.path.exists(path)
    True
    """
    named = os.environ.get("PELLUCID_NUSMV")
    if named and shutil.which(named) is None:
        raise UsageError(f"PELLUCID_NUSMV is {named!r}, but there is no program of that name")
    candidates = [shutil.which(named)] if named else [shutil.which("NuSMV"), shutil.which("nuXmv"), str(PROGRAM)]
    return next((path for path in candidates if path is not None and _starts(path)), None)


@functools.cache
def _starts(path: str) -> bool:
    try:
        done = subprocess.run([path, "-h"], env=_environment(path), capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "usage" in (done.stdout + done.stderr).lower()


def _environment(path: str) -> dict[str, str]:
    """The variables with which the program starts: what `install` brings has its libraries beside it."""
    return os.environ | ({"LD_LIBRARY_PATH": str(PROGRAM.parent)} if path == str(PROGRAM) else {})


def install() -> None:
    """Put the NuSMV of a package into its folder.  Only the program is taken, so that neither the package's Python code
    nor what that needs is installed.

    The program is of 2016 and names libraries that machines of today do not have, for a dialogue and for XML.  It calls
    nothing of them here, so each is a library without a content.
    """
    with tempfile.TemporaryDirectory(prefix="pellucid-nusmv-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--dest", folder, PACKAGE]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            raise UsageError(f"pip cannot bring {PACKAGE}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        if hashlib.sha256(wheels[0].read_bytes()).hexdigest() != SHA256:
            raise UsageError(f"the {wheels[0].name} that pip brought is not the one that these tests know")
        with zipfile.ZipFile(wheels[0]) as wheel:
            program = wheel.read(f"pyboolnet/binaries/linux64/NuSMV-a/{PROGRAM.name}")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    PROGRAM.write_bytes(program)
    PROGRAM.chmod(0o755)
    for library in ("libreadline.so.6", "libxml2.so.2"):
        (PROGRAM.parent / library).write_bytes(_stand_in())
    _starts.cache_clear()


def _stand_in() -> bytes:
    """A shared library for Linux on x86-64 with the variables of libreadline that the program sets when it starts, and
    nothing else: the header of ELF, three headers of what is loaded, the table of its parts, and these."""
    names = [b"rl_attempted_completion_function", b"rl_readline_name", b"rl_completion_type"]
    strings = b"\0" + b"\0".join(names) + b"\0"
    strings += bytes(-len(strings) % 8)
    table = 64 + 3 * 56
    at_strings = table + 6 * 16
    at_symbols = at_strings + len(strings)
    at_hash = at_symbols + 24 * (1 + len(names))
    at_data = at_hash + 32
    end = at_data + 8 * len(names)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    loaded = [(1, 0, end, 4096), (2, table, 6 * 16, 8), (0x6474E551, 0, 0, 16)]  # all; the table; a stack without code
    parts = [(4, at_hash), (5, at_strings), (6, at_symbols), (10, len(strings)), (11, 24), (0, 0)]
    symbols = [(0, 0, 0, 0, 0, 0)]
    symbols += [(strings.index(name), 0x11, 0, 1, at_data + 8 * n, 8) for n, name in enumerate(names)]
    return b"".join(
        [
            header,
            *(struct.pack("<IIQQQQQQ", kind, 6, at, at, at, size, size, by) for kind, at, size, by in loaded),
            *(struct.pack("<QQ", *part) for part in parts),
            strings,
            *(struct.pack("<IBBHQQ", *symbol) for symbol in symbols),
            struct.pack("<8I", 1, 4, 1, 0, 2, 3, 0, 0),  # one chain of all names
            bytes(8 * len(names)),
        ]
    )


def run_nusmv(text: str, timeout: float = 60.0) -> list[Checked]:
    """NuSMV's answers to the properties of a model, in their order.

    Raises ``TimeoutError`` when the time is up, ``UsageError`` when there is no NuSMV or it does not take the model.
    """
    program = find_nusmv()
    if program is None:
        raise UsageError(MISSING)
    specs = _SPEC.findall(text)
    with tempfile.TemporaryDirectory(prefix="pellucid-smv-") as folder:
        model, script = Path(folder) / "model.smv", Path(folder) / "script"
        model.write_text(text, encoding="utf-8")
        lines = ["set on_failure_script_quits", "go"]
        for kind, name, _ in specs:
            lines += [f'echo "{_MARK} {name}"', f'{_COMMAND[kind]} -P "{name}"']
        script.write_text("\n".join([*lines, f'echo "{_MARK} end"', "quit", ""]))
        command = [program, "-dynamic", "-source", str(script), str(model)]
        try:
            done = subprocess.run(
                command, env=_environment(program), cwd=folder, timeout=timeout,
                capture_output=True, text=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"NuSMV was not done after {timeout:g} s") from None
    if f"{_MARK} end" not in done.stdout:
        trouble = [line for line in done.stderr.splitlines() if line.strip() and "reorder" not in line.lower()]
        raise UsageError("NuSMV does not take the model: " + " ".join(trouble[-6:]))
    answers = dict(parse_output(done.stdout))
    return [answers[name]._replace(spec=spec) for _, name, spec in specs]


def parse_output(output: str) -> list[tuple[str, Checked]]:
    """The answers in what NuSMV printed, by the names of the properties.

    >>> parse_output('''@@ property p_1
    ... -- invariant !full  is false
    ... -- as demonstrated by the following execution sequence
    ... Trace Type: Counterexample
    ...   -> State: 1.1 <-
    ...     pb_1 = FALSE
    ...     pc_1 = 0
    ...   -> State: 1.2 <-
    ...     pb_1 = TRUE
    ... @@ property end''')[0][1].states
    ({'pb_1': 'FALSE', 'pc_1': '0'}, {'pb_1': 'TRUE', 'pc_1': '0'})
    """
    out = []
    for part in output.split(_MARK)[1:]:
        name, _, rest = part.strip().partition("\n")
        name = name.strip()
        if name == "end":
            break
        verdict = re.search(r"^-- (?:specification|invariant) (.*?)\s+is (true|false)$", rest, re.MULTILINE | re.DOTALL)
        if verdict is None:
            raise UsageError(f"NuSMV says nothing about {name}: {rest[:200]!r}")
        states: list[dict[str, str]] = []
        loop = None
        for line in rest[verdict.end() :].splitlines():
            line = line.strip()
            if line.startswith("-- Loop starts here"):
                loop = len(states) if loop is None else loop
            elif line.startswith("-> State:"):
                states.append(dict(states[-1]) if states else {})
            elif " = " in line and states:
                variable, _, value = line.partition(" = ")
                states[-1][variable] = value
        if loop is not None and len(states) > loop + 1:
            states.pop()  # the first state of the loop, shown again
        out.append((name, Checked(verdict[1], verdict[2] == "true", tuple(states), loop)))
    return out


def pushes_of(graph: Graph, states: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """The pushes of a counterexample: for each state the events that came in, by the names of their sources.

    >>> from pellucid import pipeline
    >>> states = [{"pb_1": "FALSE", "pc_1": "0"}, {"pb_1": "TRUE", "pc_1": "2"}]
    >>> pushes_of(pipeline(lambda x: x.trim(1), x=int).graph, states)
    [{}, {'x': 2}]
    """
    out = []
    for state in states:
        push: dict[str, Any] = {}
        for i, pipe in _source_pipes(graph).items():
            node = graph.nodes[i]
            if state[f"pb_{pipe}"] != "TRUE":
                continue
            leaves: list[Any] = []
            kinds = [t for _, t in node.type.leaves()]
            for j, t in enumerate(kinds):
                text = state[f"pc_{pipe}" if len(kinds) == 1 else f"pc_{pipe}_{j + 1}"]
                if isinstance(t, EnumType):
                    leaves.append(next(m for m in t.members if literal(m) == text))
                else:
                    leaves.append(text == "TRUE" if t == BOOL else int(text))
            push[node.id] = node.type.unflatten(leaves)
        out.append(push)
    return out


def _source_pipes(graph: Graph) -> dict[int, int]:
    """The number of each source's pipe: each node has one, and one more for each of several readers."""
    out, number = {}, 0
    for i, node in enumerate(graph.nodes):
        number += 1
        if node.kind == "source":
            out[i] = number
        readers = len(graph.readers(i))
        number += readers if readers > 1 else 0
    return out


def main(arguments: list[str]) -> int:
    """Say which NuSMV there is; ``--install`` brings one where there is none."""
    try:
        if find_nusmv() is None and arguments == ["--install"]:
            install()
    except (UsageError, OSError) as error:
        print(error, file=sys.stderr)
    found = find_nusmv()
    print(found or f"{MISSING}. The tests that run it are skipped.", file=sys.stdout if found else sys.stderr)
    return 0 if found else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
