"""Running NuSMV or nuXmv on an exported model: verdicts and counterexamples.

NuSMV is not a part of Pellucid.  It is found by the variable ``PELLUCID_NUSMV`` (the path of the program), on the
``PATH`` as ``NuSMV`` or ``nuXmv``, or inside an installed ``pyboolnet`` package, which ships one.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.base.cache import cache_folder, own_cache
from pellucid.errors import UsageError
from pellucid.export.smv.expr import literal
from pellucid.expr.types import BOOL, EnumType
from pellucid.graph.model import Graph

__all__ = ["Checked", "find_nusmv", "parse_output", "pushes_of", "run_nusmv"]

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
    candidates = [shutil.which(named)] if named else [shutil.which("NuSMV"), shutil.which("nuXmv"), _shipped()]
    return next((path for path in candidates if path is not None and _environment(path) is not None), None)


def _shipped() -> str | None:
    """The program in the wheel of pyboolnet, made executable."""
    spec = importlib.util.find_spec("pyboolnet")
    if spec is None or not spec.submodule_search_locations or not sys.platform.startswith("linux"):
        return None
    path = Path(spec.submodule_search_locations[0]) / "binaries/linux64/NuSMV-a/NuSMVa_linux64"
    if path.exists() and not os.access(path, os.X_OK):
        try:
            path.chmod(0o755)
        except OSError:
            return None
    return str(path) if path.exists() else None


@functools.cache
def _environment(path: str) -> dict[str, str] | None:
    """The variables with which the program starts, or None if it does not.

    The shipped program is old: it wants a libreadline.so.6 (beside it) and a libtinfo.so.5, for which today's do.
    """
    folders = ["", str(Path(path).parent)]
    stand_ins = cache_folder() / "nusmv"
    for folder in [*folders, str(stand_ins)]:
        if folder == str(stand_ins) and not _make_stand_ins():
            continue
        more = (
            {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))}
            if folder
            else {}
        )
        try:
            done = subprocess.run([path, "-h"], env=os.environ | more, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if "usage" in (done.stdout + done.stderr).lower():
            return more
    return None


def _make_stand_ins() -> bool:
    """A private folder in which newer libraries go by the old names."""
    try:
        folder = own_cache("nusmv")
        for old, new in (("libtinfo.so.5", "libtinfo.so.6"), ("libreadline.so.6", "libreadline.so.8")):
            for place in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"):
                if (Path(place) / new).exists() and not (folder / old).exists():
                    (folder / old).symlink_to(Path(place) / new)
    except OSError:
        return False
    return True


def run_nusmv(text: str, timeout: float = 60.0) -> list[Checked]:
    """NuSMV's answers to the properties of a model, in their order.

    Raises ``TimeoutError`` when the time is up, ``UsageError`` when there is no NuSMV or it does not take the model.
    """
    program = find_nusmv()
    if program is None:
        raise UsageError("no NuSMV was found: set PELLUCID_NUSMV, put NuSMV or nuXmv on the PATH, or install pyboolnet")
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
                command, env=os.environ | (_environment(program) or {}), cwd=folder, timeout=timeout,
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
