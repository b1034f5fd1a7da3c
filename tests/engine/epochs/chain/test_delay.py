"""Real runs that take the rows of another one some pushes later: equal to plain Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid import merge, pipeline
from pellucid.errors import DataError, StateError, UsageError
from tests.engine.epochs.chain.test_chain import silent


def rows_of(path: Path) -> list[int]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [one["out"] if isinstance(one, dict) else one for one in found]


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


def test_what_of_the_delay_has_gone_is_in_the_snapshots(tmp_path: Path) -> None:
    """A run that goes on in the middle of its first pushes, when the file has grown."""
    for rows in (5, 9, 20):
        assert chained(tmp_path, 12, rows=rows)[1] == late(12, rows, 10)


# ---------------------------------------------------------------- refused


def refused(tmp_path: Path, place: str, name: str = "y") -> str:
    (tmp_path / "x.jsonl").write_text("1\n2\n")
    inputs = {"x": str(tmp_path / "x.jsonl"), "y": place} if name == "y" else {"x": place}
    two = pipeline(lambda x, y: merge(x, y), x=int, y=int)
    made = two if name == "y" else pipeline(lambda x: x.map(lambda v: v), x=int)
    with pytest.raises(UsageError) as error:
        made.run_epochs(inputs, tmp_path / "o.arrow", state=tmp_path / "b", pushes=2, say=silent)
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
    chained(tmp_path, 2)
    shutil.rmtree(tmp_path / "b")
    text = refused(tmp_path, f"epochs:{tmp_path / 'a'}?after=1", "x")
    assert "a run needs an input without a delay: it ends when all of those have ended" in text


def test_a_delay_belongs_to_the_run(tmp_path: Path) -> None:
    chained(tmp_path, 2)
    with pytest.raises(StateError, match=r"after=2.*after=3|after=3.*after=2"):
        chained(tmp_path, 3)


def test_rows_of_another_run_by_key(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("who,x\nann,1\nbob,2\nann,3\n")
    sums = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    sums.run_epochs(tmp_path / "x.csv", tmp_path / "a.csv", state=tmp_path / "a", pushes=2, key="who")
    sums.run_epochs(f"epochs:{tmp_path / 'a'}", tmp_path / "b.csv", state=tmp_path / "b", pushes=2, key="who")
    assert (tmp_path / "b.csv").read_text().split() == ["who,out", '"ann",1', '"bob",2', '"ann",5']
