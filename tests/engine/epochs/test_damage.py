"""Any file of a state folder cut, altered or lost: the run recovers, or refuses by name and goes on when the file is
back; never other rows."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.errors import PellucidError, StateError
from pellucid.failures.audit import audit
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.outputs import Chain, PartName, parts_in, survey
from pellucid.internal.engine.epochs.recording import last_generation, trace_table
from pellucid.internal.load import load_pipeline
from tests.engine.epochs.conftest import Runs

# ---------------------------------------------------------------- committed parts

WHOSE, TAIL = "run out", b"end"


def put(folder: Path, first: int, until: int, data: bytes) -> Path:
    import zlib

    name = PartName.of(WHOSE, first, until, until // 10, data.count(b"\n"), len(data), zlib.crc32(data))
    (folder / str(name)).write_bytes(data + TAIL)
    return folder / str(name)


def chain_in(folder: Path, parts: int = 3) -> list[Path]:
    return [put(folder, 10 * i, 10 * i + 10, b"head" + f"{i}\n".encode() * (i + 1)) for i in range(parts)]


def content(folder: Path) -> bytes:
    chain = Chain(folder, WHOSE, b"head", TAIL)
    found = chain.survey()
    if found.why:
        raise StateError(found.why)
    return b"".join(path.read_bytes()[4 : -len(TAIL)] for _, path in chain.checked())


def test_no_flipped_or_missing_byte_of_a_part_goes_unnoticed(tmp_path: Path) -> None:
    paths = chain_in(tmp_path)
    assert content(tmp_path) == b"0\n1\n1\n2\n2\n2\n"
    for path in paths:
        whole = path.read_bytes()
        for at in range(len(whole) - len(TAIL)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(StateError, match=rf"{path.name}: is damaged: its checksum is wrong"):
                content(tmp_path)
        for changed in (*(whole[:at] for at in range(len(whole))), whole + b"x"):
            path.write_bytes(changed)
            with pytest.raises(
                StateError, match=rf"{path.name}: is damaged: expected {len(whole)} bytes, found {len(changed)}"
            ):
                content(tmp_path)
        path.write_bytes(whole)


def test_parts_that_are_missing_swapped_doubled_or_foreign(tmp_path: Path) -> None:
    one, two, three = chain_in(tmp_path)
    two.rename(tmp_path / "kept")
    with pytest.raises(
        StateError,
        match=rf"{three.name}: the rows of pushes 10 to 20 are missing: the part before it ends with push 10",
    ):
        content(tmp_path)
    shutil.copy(one, two)  # one under another's name
    with pytest.raises(StateError, match=rf"{two.name}: is damaged"):
        content(tmp_path)
    two.unlink()
    name = PartName.read(one.name)
    assert name is not None
    shutil.copy(one, tmp_path / str(name._replace(first=10, until=20)))  # and with its push numbers
    with pytest.raises(StateError, match="is damaged: its checksum is wrong"):
        content(tmp_path)
    (tmp_path / str(name._replace(first=10, until=20))).unlink()
    (tmp_path / "kept").rename(two)
    for foreign in ("0000000000000001-0000000001-1.part", str(name._replace(until=5))):
        (tmp_path / foreign).write_bytes(b"head999\n" + TAIL)
        with pytest.raises(StateError, match=rf"{foreign}: is no part of this run.*take it away"):
            content(tmp_path)
        (tmp_path / foreign).unlink()
    for path in (one, two):  # without the first, and without the first two
        path.unlink()
        with pytest.raises(StateError, match=r"the rows of pushes 0 to [12]0 are missing"):
            content(tmp_path)


@pytest.mark.parametrize("left", ["all", "some", "damaged"])
def test_what_a_killed_merge_leaves(tmp_path: Path, left: str) -> None:
    """The merged part and those that it was made of: rows are there once, whichever of the two is whole."""
    olds = {path: path.read_bytes() for path in chain_in(tmp_path, 9)}
    whole = content(tmp_path)
    chain = Chain(tmp_path, WHOSE, b"head", TAIL)
    chain.survey()
    assert chain.merge() and not chain.merge()
    assert len(parts_in(tmp_path)) == 2 and content(tmp_path) == whole
    merged = chain.parts[0][1]
    for path in [*olds][: 3 if left == "some" else None]:
        path.write_bytes(olds[path])
    if left == "damaged":
        merged.write_bytes(merged.read_bytes()[:-9] + b"y" + merged.read_bytes()[-8:])
        with pytest.raises(StateError, match=rf"{merged.name}: .*take it away"):
            survey(tmp_path, WHOSE, len(TAIL))
        merged.unlink()
    assert content(tmp_path) == whole
    assert len(survey(tmp_path, WHOSE, len(TAIL)).inside) == {"all": 8, "some": 3, "damaged": 0}[left]


def test_an_endless_run_has_few_parts(tmp_path: Path) -> None:
    chain = Chain(tmp_path, WHOSE, b"head", TAIL)
    written = 0
    for i in range(600):
        data = b"head" + b"x" * (30 * (i % 7)) + b"\n"
        path = put(tmp_path, 10 * i, 10 * i + 10, data)
        name = PartName.read(path.name)
        assert name is not None
        chain.parts.append((name, path))
        before = {p: p.stat().st_size for _, p in chain.parts}
        while chain.merge():
            pass
        written += sum(p.stat().st_size for _, p in chain.parts if p not in before)
    assert len(parts_in(tmp_path)) < 24
    assert written < 8 * sum(p.stat().st_size for _, p in chain.parts)
    assert content(tmp_path).count(b"\n") == 600


# ---------------------------------------------------------------- a whole folder

ARGS = (
    "p.py:total",
    "--in",
    "x.jsonl",
    "--out",
    "out.csv",
    "--epoch-size",
    "60",
    "--chunk",
    "30",
    "--state",
    "state",
    "--record",
)


class Killed:
    """A run that was killed with rows committed (some of them merged) and staged; its folder can be had again."""

    def __init__(self, runs: Runs) -> None:
        self.folder = runs.folder
        self.state = self.folder / "state"
        self.expected = runs.plain("p.py:total", "--in", "x.jsonl", out="plain.csv")
        done = runs(*ARGS, faults="sink:before-commit=tree@12/1;worker:event=kill@5")
        assert done.returncode == -signal.SIGKILL, done.stderr
        self._end_a_merge()
        shutil.copytree(self.state, self.folder / "kept")
        self.total = load_pipeline(f"{self.folder}/p.py:total")

    def _end_a_merge(self) -> None:
        """Parts that a merged one has as well: the kill may have come before they were taken away, or after."""
        parts = parts_in(self.state / "committed/out")
        for name, path in parts:
            if any(other.first <= name.first and name.until <= other.until for other, at in parts if at != path):
                path.unlink()

    def again(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        (self.folder / "out.csv").unlink(missing_ok=True)
        shutil.copytree(self.folder / "kept", self.state)

    def go(self, *, from_start: bool = False) -> list[str]:
        said: list[str] = []
        run_epochs(
            self.total,
            self.folder / "x.jsonl",
            self.folder / "out.csv",
            state=self.state,
            pushes=60,
            chunk=30,
            record=True,
            say=said.append,
            from_start=from_start,
        )
        assert (self.folder / "out.csv").read_bytes() == self.expected
        return said

    def kinds(self) -> dict[str, Path]:
        """A file of each kind; of those of which there are several the first and the last."""
        found: dict[str, list[Path]] = {}
        for path in sorted(p for p in (self.folder / "kept").rglob("*") if p.is_file()):
            kind = (
                str(path.parent.relative_to(self.folder / "kept")) + "/*" + path.suffix
                if path.suffix in (".snap", ".part", ".steps")
                else path.name
            )
            found.setdefault(kind, []).append(self.state / path.relative_to(self.folder / "kept"))
        return {
            f"{kind} {end}": paths[i]
            for kind, paths in found.items()
            for end, i in (("first", 0), ("last", -1))
            if i == 0 or len(paths) > 1
        }


def flip(share: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        if data:
            data[min(int(share * len(data)), len(data) - 1)] ^= 4
        path.write_bytes(data)

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


WAYS: dict[str, Callable[[Path], None]] = {"flipped": flip(0.6), "lost": lambda path: path.unlink()}
MORE: dict[str, Callable[[Path], None]] = {
    **WAYS,
    "cut": cut,
    **{f"flipped at {share}": flip(share) for share in (0.0, 0.05, 0.2, 0.4, 0.8, 0.95, 1.0)},
    "emptied": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\xffmore"),
}


def damaged(killed: Killed, ways: dict[str, Callable[[Path], None]], *, last: bool) -> None:
    kinds = killed.kinds()
    assert {
        "run.json first",
        "generation first",
        "lock first",
        "staged/out/*.part first",
        "committed/out/*.part last",
        "snapshots/worker/*.snap last",
        "trace/*.steps last",
        "sealed.json first",
    } <= set(kinds)
    for kind, path in kinds.items():
        if last and kind.endswith("first") and kind.replace("first", "last") in kinds:
            continue
        for how, change in ways.items():
            killed.again()
            whole = path.read_bytes()
            change(path)
            try:
                killed.go()
            except PellucidError as error:
                refused = str(error)
                assert path.name in refused or path.parent.name in refused, f"{kind} {how}: {refused}"
                path.write_bytes(whole)
                killed.go()
            try:
                found = audit(killed.state)
            except StateError as error:
                assert path.name in str(error) and path.suffix == ".steps", f"{kind} {how}: {error}"  # noqa: PT017
            else:
                # The last part of all may be lost without a trace: then it is made again, and the record says that it
                # was.  A record that is cut before the coordinator wrote down how long it was says that something is
                # wrong with it.
                excused = {
                    "committed/out/*.part last": ("lost",),
                    "trace/*.steps last": ("lost", "cut", "emptied"),
                    "trace/*.steps first": ("cut",),
                }
                assert found.holds or how in excused.get(kind, ()), f"{kind} {how}: {found}"
            assert not list(killed.state.rglob("*.tmp"))


def test_every_kind_of_file(runs: Runs) -> None:
    damaged(Killed(runs), WAYS, last=True)


@pytest.mark.long
def test_every_kind_of_file_in_more_ways(runs: Runs) -> None:
    damaged(Killed(runs), MORE, last=False)


def test_damaged_parts_are_made_again_from_the_start(runs: Runs) -> None:
    killed = Killed(runs)
    first = parts_in(killed.state / "committed/out")[0][1]
    flip(0.5)(first)
    with pytest.raises(
        StateError,
        match=rf"{first.name}: is damaged: its checksum is wrong\. Bring it back from a copy, or read all input again "
        r"with from_start=True",
    ):
        killed.go()
    said = killed.go(from_start=True)
    assert any("its checksum is wrong; taking an earlier epoch" in text for text in said)
    steps, last = trace_table(killed.state).to_pylist(), last_generation(killed.state)
    committed = [step for step in steps if step["rule"] == "COMMIT" and step["generation"] < last]
    assert audit(killed.state).holds == (not committed), "rows that the record says were visible were taken back"


def test_a_table_that_lost_what_was_committed(runs: Runs) -> None:
    """Its mark is behind the snapshots: it was emptied, or brought back from an older copy."""
    from pellucid.sinks.interface import sink_of

    total = load_pipeline(f"{runs.folder}/p.py:total")
    options: dict[str, Any] = {"state": runs.folder / "state", "pushes": 300, "say": lambda text: None}
    places = runs.folder / "x.jsonl", f"sqlite:{runs.folder}/out.db#t"
    run_epochs(total, *places, **options)
    (runs.folder / "out.db").unlink()
    with pytest.raises(
        StateError, match=r"table 't'(: the rows of pushes 0 to 1,000 were committed| has them not).* from_start=True"
    ):
        run_epochs(total, *places, **options)
    report = run_epochs(total, *places, from_start=True, **options)
    assert report.rows == {"out": 1000}
    assert sink_of(f"sqlite:{runs.folder}/out.db#t").read().num_rows == 1000
