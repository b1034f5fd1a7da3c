"""Ways to falsify a recorded trace, each with the reasons for which it must be refused."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Tamper = Callable[[list[Row], random.Random], list[Row] | None]


def renumbered(rows: list[Row]) -> list[Row]:
    """Indices without holes, in the order of the rows."""
    counts: dict[str, int] = {}
    for row in rows:
        row["index"] = counts.get(row["task"], 0)
        counts[row["task"]] = row["index"] + 1
    return rows


def _choose(rows: list[Row], rng: random.Random, wanted: Callable[[int], bool]) -> int | None:
    found = [at for at in range(len(rows)) if wanted(at)]
    return rng.choice(found) if found else None


def moved(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """Two events that a task took from the same stream change their places."""
    at = _choose(
        rows,
        rng,
        lambda i: (
            i > 0
            and rows[i]["rule"] == rows[i - 1]["rule"] == "I-EVENT"
            and rows[i]["task"] == rows[i - 1]["task"]
            and rows[i]["generation"] == rows[i - 1]["generation"]
            and rows[i]["consumed"][0][0] == rows[i - 1]["consumed"][0][0]
        ),
    )
    if at is None:
        return None
    rows[at - 1], rows[at] = rows[at], rows[at - 1]
    return renumbered(rows)


def altered(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A message arrives as another."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "I-EVENT")
    if at is None:
        return None
    stream, n, border, digest = rows[at]["consumed"][0]
    rows[at]["consumed"][0] = (stream, n, border, digest + 1)
    return rows


def skipped_epoch(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A task counts one epoch too far from some border on."""
    at = _choose(
        rows,
        rng,
        lambda i: rows[i]["rule"] == "I-BORDER" and i + 1 < len(rows) and rows[i + 1]["task"] == rows[i]["task"],
    )
    if at is None:
        return None
    task, generation = rows[at]["task"], rows[at]["generation"]
    for row in rows[at:]:
        if row["task"] == task and row["generation"] == generation:
            row["epoch"] += 1
    return rows


def commit_again(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """An epoch is committed twice."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "COMMIT")
    if at is None:
        return None
    rows.insert(at + 1, copy.deepcopy(rows[at]))
    return renumbered(rows)


def dropped(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A step is missing, and the indices hide it; the last steps of a generation may be missing in any trace."""
    at = _choose(
        rows,
        rng,
        lambda i: (
            rows[i]["rule"] in ("SOURCE", "I-EVENT", "I-BORDER")
            and any(
                r["rule"] in ("SOURCE", "I-EVENT", "I-BORDER")
                and r["task"] == rows[i]["task"]
                and r["generation"] == rows[i]["generation"]
                and _shares(rows[i], r)
                for r in rows[i + 1 :]
            )
        ),
    )
    if at is None:
        return None
    del rows[at]
    return renumbered(rows)


def _shares(a: Row, b: Row) -> bool:
    return any({m[0] for m in a[side]} & {m[0] for m in b[side]} for side in ("consumed", "produced"))


def hole(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A step is missing."""
    at = _choose(rows, rng, lambda i: i + 1 < len(rows) and rows[i + 1]["task"] == rows[i]["task"])
    if at is None:
        return None
    del rows[at]
    return rows


def early_snapshot(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A task takes its border before the last event of the epoch."""
    at = _choose(
        rows,
        rng,
        lambda i: (
            i > 0
            and rows[i]["rule"] == "I-BORDER"
            and rows[i - 1]["rule"] == "I-EVENT"
            and rows[i]["task"] == rows[i - 1]["task"]
            and rows[i]["generation"] == rows[i - 1]["generation"]
        ),
    )
    if at is None:
        return None
    rows[at - 1], rows[at] = rows[at], rows[at - 1]
    return renumbered(rows)


def other_recovery(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A recovery goes to an epoch that is not the common one."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "F-RECOVER")
    if at is None:
        return None
    rows[at]["epoch"] += rng.choice([1, -1]) if rows[at]["epoch"] else 1
    return rows


def early_commit(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A sink commits an epoch further than it may."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "COMMIT")
    if at is None:
        return None
    rows[at]["epoch"] += 100
    return rows


def unaligned(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A border is taken on all inputs but one."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "I-BORDER" and len(rows[i]["consumed"]) > 1)
    if at is None:
        return None
    del rows[at]["consumed"][rng.randrange(len(rows[at]["consumed"]))]
    return rows


def early_border(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A border goes out with an event, before the snapshot."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] == "I-EVENT" and bool(rows[i]["produced"]))
    if at is None:
        return None
    stream, n, _, digest = rows[at]["produced"][-1]
    rows[at]["produced"][-1] = (stream, n, True, digest)
    return rows


def unknown_rule(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A step of a rule that there is not."""
    rows[rng.randrange(len(rows))]["rule"] = "I-GUESS"
    return rows


def back_in_time(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """A step after a recovery says that it was before."""
    at = _choose(
        rows,
        rng,
        lambda i: (
            i > 0
            and rows[i]["generation"] > 0
            and rows[i]["generation"] == rows[i - 1]["generation"]
            and rows[i]["task"] == rows[i - 1]["task"]
            and rows[i]["rule"] in ("SOURCE", "I-EVENT", "I-BORDER")
        ),
    )
    if at is None:
        return None
    rows[at]["generation"] -= 1
    return rows


def second_producer(rows: list[Row], rng: random.Random) -> list[Row] | None:
    """Somebody else sends on a stream, too."""
    at = _choose(rows, rng, lambda i: rows[i]["rule"] in ("SOURCE", "I-EVENT") and bool(rows[i]["produced"]))
    if at is None:
        return None
    rows[at]["task"] += "'"
    rows.sort(key=lambda row: (row["task"], row["index"]))
    return renumbered(rows)


# name: (the falsification, the checks of which one at least must say no, the kinds of which one at least must be named)
TAMPERINGS: dict[str, tuple[Tamper, set[str]]] = {
    "a step moved": (moved, {"fifo-consumed", "fifo-consumed-start"}),
    "a message altered": (altered, {"altered"}),
    "an epoch skipped": (skipped_epoch, {"epoch", "epoch-start"}),
    "a duplicate commit": (commit_again, {"commit-twice"}),
    "a step dropped": (
        dropped,
        {"fifo-consumed", "fifo-consumed-start", "fifo-produced", "fifo-produced-start", "never-sent"},
    ),
    "a hole": (hole, {"index"}),
    "a snapshot before the last event": (early_snapshot, {"epoch", "in-flight", "fifo-consumed"}),
    "another recovery": (other_recovery, {"recovery-high", "recovery-low", "epoch-start"}),
    "a commit too early": (early_commit, {"commit-early", "commit-before-own"}),
    "a border without alignment": (unaligned, {"border-inputs"}),
    "a border before the snapshot": (early_border, {"border-early"}),
    "an unknown rule": (unknown_rule, {"unknown-rule"}),
    "a generation that goes back": (back_in_time, {"generation-back"}),
    "a second producer": (second_producer, {"two-producers", "fifo-produced", "fifo-produced-start", "index"}),
}
