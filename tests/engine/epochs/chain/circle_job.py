"""Runs that read one another in a circle, as functions that can be called in processes of their own.

``asks`` takes a file and, some pushes later, what ``grants`` put out for its rows; ``grants`` sums what ``asks`` put
out.  With three, ``passes`` stands between the two.  ``asks`` adds the environment's ``SALT`` to each row, so that an
epoch which it makes again has other rows.  What must come out is told by plain Python (`wrong`, `wrong_at_the_end`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid import Stream, merge, pipeline
from tests.engine.epochs.chain.chain_job import committed, given, salted

ROWS = 60
OF_TWO = ("asks", "grants")
OF_THREE = ("asks", "passes", "grants")


@pipeline
def asks(x: Stream[int], y: Stream[int]) -> Stream[int]:
    order = x.map(salted, to=int, id="salted").map(lambda v: (v, True), id="order")
    both = merge(y.map(lambda v: (v, False), id="back"), order, id="both")
    kept = both.cumulate(lambda s, e: (s[0] if e[1] else e[0], e[0], e[1]), start=(0, 0, False), id="kept")
    return kept.filter(lambda s: s[2], id="orders").map(lambda s: s[1] * 1000 + s[0] % 1000, id="row")


@pipeline
def grants(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def passes(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: v + 1, id="one")


def run(folder: Path, role: str, pushes: int = 5, after: int = 1, three: bool = False, **more: Any) -> Any:
    """One of the runs, or the same again."""
    if not (folder / "x.jsonl").exists():
        grow(folder, ROWS)
    made: dict[str, Any] = {"asks": asks, "grants": grants, "passes": passes}
    inputs: Any = {
        "asks": {"x": str(folder / "x.jsonl"), "y": f"epochs:{folder / 'grants'}?after={after}"},
        "passes": f"epochs:{folder / 'asks'}",
        "grants": f"epochs:{folder / ('passes' if three else 'asks')}",
    }[role]
    target = folder / f"{role}.arrow"
    return made[role].run_epochs(inputs, target, state=folder / role, **{"pushes": pushes, **more})


def grow(folder: Path, rows: int) -> None:
    """So many rows in the file."""
    (folder / "x.jsonl").write_text("".join(f"{given(i)}\n" for i in range(rows)))


def grants_of(rows: list[int], three: bool = False) -> list[int]:
    """What ``grants`` must make of the rows of ``asks``."""
    out, total = [], 0
    for row in rows:
        total += row + three
        out.append(total)
    return out


def wrong(folder: Path, after: int, three: bool = False) -> str:
    """What is committed now and does not follow from what is committed of the others; empty if nothing is.

    Whoever depends is looked at first, so that nothing can come between."""
    mine, theirs = committed(folder, "asks"), committed(folder, "grants")
    for i, row in enumerate(mine):
        if row // 10000 != given(i):
            return f"row {i} of asks is {row}"
        if i >= after and (len(theirs) <= i - after or theirs[i - after] % 1000 != row % 1000):
            return f"row {i} of asks is {row}, and grants has {theirs[i - after : i - after + 1]}"
    theirs = committed(folder, "grants")
    should = grants_of(committed(folder, "asks"), three)
    return "" if theirs == should[: len(theirs)] else f"grants has {theirs}, and should have {should}"


def wrong_at_the_end(folder: Path, after: int, rows: int = ROWS, three: bool = False) -> str:
    """The same, and all rows are there."""
    have = [len(committed(folder, role)) for role in ("asks", "grants")]
    return wrong(folder, after, three) or ("" if have == [rows, rows] else f"there are {have} rows")
