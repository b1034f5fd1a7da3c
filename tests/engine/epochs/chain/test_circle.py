"""Real runs with a delay, and in circles: equal to plain Python, whoever is killed and whenever."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid import Stream, merge, pipeline
from pellucid.base.container import VERSION
from pellucid.engine.epochs.chain.circle import around
from pellucid.engine.epochs.chain.upstream import Upstream
from pellucid.engine.epochs.store import Store
from pellucid.errors import DataError, StateError, UsageError
from tests.engine.epochs.chain.chain_job import committed
from tests.engine.epochs.chain.circle_job import (
    OF_THREE,
    OF_TWO,
    ROWS,
    asks,
    grants,
    grow,
    run,
    wrong,
    wrong_at_the_end,
)
from tests.engine.epochs.chain.programs import Program
from tests.engine.epochs.chain.test_chain import Programs, silent


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path, run)
    yield made
    made.kill()


def all_of(programs: Programs, roles: tuple[str, ...] = OF_TWO, **said: Any) -> dict[str, Program]:
    """Start the runs of a circle: the first waits for the last, the others for the one before."""
    made = {}
    for role in roles:
        made[role] = programs.start(role, **said)
        wait_until(lambda role=role: (programs.folder / role / "outputs.json").exists(), made[role])
    return made


def wait_until(holds: Any, program: Program) -> None:
    until = time.monotonic() + 600
    while not holds():
        assert program.poll() is None or holds(), program.text()
        assert time.monotonic() < until, program.text()
        time.sleep(0.01)


def to_the_end(programs: Programs, made: dict[str, Program], **said: Any) -> dict[str, str]:
    """Start again whoever was killed, until all have ended; what each said."""
    until = time.monotonic() + 600
    while any(program.poll() != 0 for program in made.values()):
        assert time.monotonic() < until, [program.text() for program in made.values()]
        for role, program in list(made.items()):
            assert program.poll() in (None, 0, -9), program.text()
            if program.poll() == -9:
                made[role] = programs.start(role, **said)
        time.sleep(0.02)
    return {role: program.text() for role, program in made.items()}


# ---------------------------------------------------------------- nobody is killed


@pytest.mark.parametrize(
    ("roles", "after", "pushes"),
    [(OF_TWO, 1, 5), (OF_THREE, 7, 3), pytest.param(OF_TWO, 9, 100, marks=pytest.mark.long)],
)
def test_a_circle_is_what_plain_python_says(
    programs: Programs, roles: tuple[str, ...], after: int, pushes: int
) -> None:
    three = roles == OF_THREE
    said = to_the_end(programs, all_of(programs, roles, after=after, three=three, pushes=pushes))
    assert wrong_at_the_end(programs.folder, after, three=three) == ""
    assert "grants: waiting for the run in" not in said["grants"]
    assert (
        f"grants?after={after}: waiting for the run in {programs.folder}/grants, which this one reads" in said["asks"]
    )
    assert all("undone 0" in text for text in said.values())


@pytest.mark.long
def test_a_circle_that_goes_on_when_its_file_has_grown(programs: Programs) -> None:
    folder = programs.folder
    to_the_end(programs, all_of(programs, after=3))
    grow(folder, ROWS + 20)
    first = programs.start("asks", after=3)
    wait_until(lambda: "going on after epoch" in first.text(), first)
    to_the_end(programs, {"asks": first, "grants": programs.start("grants", after=3)})
    assert wrong_at_the_end(folder, 3, rows=ROWS + 20) == ""


def test_a_run_that_reads_itself(tmp_path: Path) -> None:
    """Each row is the one before it and the next of the file."""
    (tmp_path / "x.jsonl").write_text("".join(f"{i}\n" for i in range(12)))
    inputs = {"x": str(tmp_path / "x.jsonl"), "y": f"epochs:{tmp_path / 'a'}?after=2#out"}
    total.run_epochs(inputs, tmp_path / "a.jsonl", state=tmp_path / "a", pushes=10, say=silent)
    assert rows_of(tmp_path / "a.jsonl") == [0, 1, 2, 4, 6, 9, 12, 16, 20, 25, 30, 36]


@pipeline
def total(x: Stream[int], y: Stream[int]) -> Stream[int]:
    both = merge(y.map(lambda v: (v, False)), x.map(lambda v: (v, True)))
    kept = both.cumulate(lambda s, e: (s[0] + e[0] if e[1] else e[0], e[1]), start=(0, False), id="kept")
    return kept.filter(lambda s: s[1]).map(lambda s: s[0])


def rows_of(path: Path) -> list[int]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [one["out"] if isinstance(one, dict) else one for one in found]


# ---------------------------------------------------------------- a delay without a circle


def chained(tmp_path: Path, after: int, *, rows: int = 10, above: int = 10, scheme: str = "epochs", **more: Any) -> Any:
    """A run that takes a file and, later, the rows of another run."""
    (tmp_path / "x.jsonl").write_text("".join(f"{100 * i}\n" for i in range(rows)))
    (tmp_path / "y.jsonl").write_text("".join(f"{i}\n" for i in range(above)))
    one = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    one.run_epochs(tmp_path / "y.jsonl", tmp_path / "a.arrow", state=tmp_path / "a", pushes=4, say=silent)
    both = pipeline(lambda x, y: merge(x, y), x=int, y=int)
    inputs = {"x": str(tmp_path / "x.jsonl"), "y": f"{scheme}:{tmp_path / 'a'}?after={after}"}
    report = both.run_epochs(
        inputs, tmp_path / "b.jsonl", state=tmp_path / "b", say=silent, **{"pushes": 3, **more}
    )  # fmt: skip
    return report, rows_of(tmp_path / "b.jsonl")


def late(after: int, rows: int, above: int) -> list[int]:
    """What comes out: in push i the i-th row of the file and, if there is one, the (i - after)-th of the run."""
    pairs = [[100 * i, *([i - after + 1] if 0 <= i - after < above else [])] for i in range(rows)]
    return [value for pair in pairs for value in pair]


@pytest.mark.parametrize(("after", "scheme"), [(1, "epochs"), (4, "committed"), (50, "epochs")])
def test_a_delay_in_a_chain(tmp_path: Path, after: int, scheme: str) -> None:
    """The last rows of the upstream are not used, wherever epochs end; also where there is none at all."""
    report, rows = chained(tmp_path, after, scheme=scheme)
    assert rows == late(after, 10, 10)
    assert report.pushes == 10


def test_an_upstream_with_a_delay_that_ends_before(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\?after=2: ends after 4 rows, but .*x.jsonl goes on"):
        chained(tmp_path, 2, above=4)


def test_an_upstream_with_a_delay_that_is_silent_at_its_end(tmp_path: Path) -> None:
    assert chained(tmp_path, 2, above=4, short="silent")[1] == late(2, 10, 4)


def test_one_that_ends_just_in_time(tmp_path: Path) -> None:
    assert chained(tmp_path, 2, above=8)[1] == late(2, 10, 8)


def test_a_limit_counts_pushes(tmp_path: Path) -> None:
    assert chained(tmp_path, 2, limit=5)[1] == late(2, 5, 10)


def test_killed_in_the_first_pushes_and_later(tmp_path: Path, programs: Programs) -> None:
    """What of the delay has gone is in the snapshots."""
    made = all_of(programs, after=12, pushes=5, faults="source:border=tree@2")
    assert to_the_end(programs, made, after=12, pushes=4)
    assert wrong_at_the_end(tmp_path, 12) == ""


# ---------------------------------------------------------------- kills

BOTH = ("sink:staged[sink.out]=tree@4", "chain:announced=tree@1")
MORE = (
    "source:border=tree@6", "sink:before-commit=tree@3", "sink:after-commit=tree@3", "worker:border=kill@4",
    "snapshot:after-write=tree@9", "coordinator:complete=kill@5", "coordinator:committed=kill@4", "chain:sure=tree@4",
    "sink:staged=kill@6", "recover:loaded=tree@1/1", "coordinator:finish=kill@1", "coordinator:finished=kill@1",
    "sink:merged=tree@1",
)  # fmt: skip


def _killed(programs: Programs, victim: str, faults: str) -> None:
    """One of the two dies, and makes other rows when it is back; the other goes on, or undoes what it has read."""
    folder, made = programs.folder, {}
    for role in OF_TWO:
        made[role] = programs.start(role, faults=faults if role == victim else "")
        if role == "asks":
            until = time.monotonic() + 600
            while not (folder / "asks" / "outputs.json").exists() and time.monotonic() < until:
                time.sleep(0.01)
    until = time.monotonic() + 600
    while made[victim].poll() is None and time.monotonic() < until:
        assert wrong(folder, 1) == ""
    to_the_end(programs, made, salt=7)
    assert wrong_at_the_end(folder, 1) == ""


@pytest.mark.parametrize("faults", BOTH)
def test_the_first_of_a_circle_is_killed(programs: Programs, faults: str) -> None:
    _killed(programs, "asks", faults)


@pytest.mark.long
@pytest.mark.parametrize("victim", OF_TWO)
@pytest.mark.parametrize("faults", [*MORE, BOTH[0]])
def test_one_of_a_circle_is_killed(programs: Programs, victim: str, faults: str) -> None:
    _killed(programs, victim, faults)


def test_what_was_given_up_in_a_circle_is_undone(programs: Programs) -> None:
    """The first dies with rows on the disk that the second reads, and makes others."""
    all_of(programs, after=3)
    programs.kill()
    folder = programs.folder
    again = {"grants": programs.start("grants", after=3)}
    first = programs.start("asks", after=3, faults="sink:staged[sink.out]=tree@3/*", pause=0.001)
    assert first.end()[0] != 0
    have = len(committed(folder, "asks"))
    programs_read(folder, have + 1, again["grants"])
    again["asks"] = programs.start("asks", after=3, salt=5)
    said = to_the_end(programs, again)
    assert "were given up by the upstream after they were read here" in said["grants"]
    assert wrong_at_the_end(folder, 3) == ""
    assert 5 in {row // 1000 % 10 for row in committed(folder, "asks")}


def programs_read(folder: Path, rows: int, program: Program) -> None:
    """Wait until the second run has a snapshot behind so many rows of the first."""
    store = Store(folder / "grants")

    def holds() -> bool:
        epochs, run = store.epochs("source.x"), store.hint("run.json").get("run", "")
        return bool(epochs) and store.peek("source.x", epochs[-1], run=run)["about"]["lanes"][0]["row"] >= rows

    wait_until(holds, program)


# ---------------------------------------------------------------- refused, and said


def test_who_is_in_a_circle(tmp_path: Path) -> None:
    """Also where nobody knows yet what a run reads that is waited for; not where one was taken away that is done."""

    def said(name: str, *reads: str, began: bool) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "run.json").unlink(missing_ok=True)
        about = {"format": VERSION, "in": {f"x{i}": f"epochs:{tmp_path}/{one}#out" for i, one in enumerate(reads)}}
        outputs = {"out": {"form": "arrow", "schema": base64.b64encode(pa.schema([]).serialize()).decode()}}
        Store(tmp_path / name).write("outputs.json", {"outputs": outputs, **({} if began else {"run": name, **about})})
        if began:
            Store(tmp_path / name).write("run.json", {"run": name, **about})

    def found(name: str) -> tuple[bool, str]:
        at = around(Upstream(f"epochs:{tmp_path / name}"), os.path.realpath(tmp_path / "me"))
        return at.circle, at.begins.rpartition("/")[2]

    said("a", "gone", began=True)
    said("b", "a", began=True)
    assert found("b") == (False, "")
    said("w", "later?after=1", began=False)
    said("c", "w", "b", began=True)
    assert found("c") == (True, "")
    said("later", "a", began=True)
    assert found("c") == (False, "")
    said("later", "me", began=False)
    assert found("c") == (True, "")
    assert found("later") == (True, "later")
    said("w", "later", began=True)
    assert found("c") == (True, "later")
    (tmp_path / "later" / "outputs.json").write_text("torn")
    (tmp_path / "later" / "run.json").write_text("torn")
    assert found("c") == (False, "")


def test_types_are_checked_when_the_run_appears(programs: Programs) -> None:
    """The first has waited, and refuses the second then."""
    waiting = programs.start("asks")
    wait_until(lambda: "waiting for the run in" in waiting.text(), waiting)
    loud = pipeline(lambda x: x.map(lambda v: f"{v}!", to=str), x=int)
    folder = programs.folder
    loud.run_epochs(folder / "x.jsonl", folder / "loud.arrow", state=folder / "grants", pushes=9, say=silent)
    code, said = waiting.end()
    assert code == 2
    assert "DataError" in said
    assert "the output 'out' of the run there is not what the source 'y' takes" in said
    assert not (folder / "asks" / "run.json").exists()


def test_a_run_that_has_waited_is_the_same_when_it_begins(programs: Programs) -> None:
    """Who has read what it puts out before it began knows its rows."""
    waiting = programs.start("asks")
    wait_until(lambda: "waiting for the run in" in waiting.text(), waiting)
    folder = programs.folder
    said = Store(folder / "asks").hint("outputs.json")["run"]
    programs.kill()
    made = all_of(programs)
    assert Store(folder / "asks").hint("outputs.json").get("run", said) == said
    to_the_end(programs, made)
    assert Store(folder / "asks").hint("run.json")["run"] == said
    assert wrong_at_the_end(folder, 1) == ""


@pytest.mark.long
def test_a_circle_that_puts_out_too_little_says_so(programs: Programs) -> None:
    """A filter in a circle: at some time all wait for a row that nobody makes."""
    folder = programs.folder
    grow(folder, ROWS)
    waiting = programs.start("asks")
    wait_until(lambda: (folder / "asks" / "outputs.json").exists(), waiting)
    some = pipeline(lambda x: x.filter(lambda v: v % 3 != 0), x=int)
    told: list[str] = []

    def enough() -> None:
        if told and "in a circle each push of each run must put out one" in waiting.text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        some.run_epochs(
            f"epochs:{folder / 'asks'}", folder / "g.arrow", state=folder / "grants", pushes=5, say=told.append,
            idle=enough,
        )  # fmt: skip
    assert any("waiting for row" in text for text in told)


def refused(tmp_path: Path, place: str, name: str = "y") -> str:
    (tmp_path / "x.jsonl").write_text("1\n2\n")
    inputs = {"x": str(tmp_path / "x.jsonl"), name: place} if name == "y" else {"x": place}
    with pytest.raises(UsageError) as error:
        (asks if name == "y" else grants).run_epochs(
            inputs, tmp_path / "o.arrow", state=tmp_path / "b", pushes=2, say=silent
        )
    assert not (tmp_path / "b").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("epochs:a?afer=1", "?afer=: the one option of such an address is ?after=K, for rows that are taken K pushes"),
        ("epochs:a?after=0", "?after=0: expected a whole number of pushes, at least 1 (without it push i takes row i)"),
        ("committed:a?after=-1", "?after=-1: expected a whole number of pushes"),
        ("epochs:a?after=x#out", "?after=x: expected a whole number of pushes"),
        ("epochs:a?after=", "?after=: expected a whole number of pushes"),
        ("epochs:a#out?after=1", "?after=1 belongs to the folder, before the #: expected epochs:STATE?after=K#OUTPUT"),
        ("epochs:?after=1", "expected epochs:STATE#OUTPUT, the state folder of another run"),
    ],
)
def test_an_address_that_is_wrong(tmp_path: Path, place: str, why: str) -> None:
    assert why in refused(tmp_path, place)


def test_a_run_without_an_input_that_leads(tmp_path: Path) -> None:
    text = refused(tmp_path, f"epochs:{tmp_path / 'a'}?after=1", "x")
    assert "a run needs an input without a delay: it ends when all of those have ended" in text


def test_a_delay_belongs_to_the_run(tmp_path: Path) -> None:
    chained(tmp_path, 2)
    with pytest.raises(StateError, match=r"after=2.*after=3|after=3.*after=2"):
        chained(tmp_path, 3)


def test_rows_of_another_run_by_key(tmp_path: Path) -> None:
    """With a key, also in a circle: the run that waits takes the key to be as its own file has it."""
    (tmp_path / "x.csv").write_text("who,x\nann,1\nbob,2\nann,3\n")
    sums = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    sums.run_epochs(tmp_path / "x.csv", tmp_path / "a.csv", state=tmp_path / "a", pushes=2, key="who")
    sums.run_epochs(f"epochs:{tmp_path / 'a'}", tmp_path / "b.csv", state=tmp_path / "b", pushes=2, key="who")
    assert (tmp_path / "b.csv").read_text().split() == ["who,out", '"ann",1', '"bob",2', '"ann",5']
    inputs = {"x": str(tmp_path / "x.csv"), "y": f"epochs:{tmp_path / 'c'}?after=1"}
    total.run_epochs(inputs, tmp_path / "c.csv", state=tmp_path / "c", pushes=2, key="who", say=silent)
    assert (tmp_path / "c.csv").read_text().split() == ["who,out", '"ann",1', '"bob",2', '"ann",4']
