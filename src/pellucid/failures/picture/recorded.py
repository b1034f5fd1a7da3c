"""A recorded trace in the form from which it is drawn: rows put in a causal order, and what of them remains.

Each task wrote its own steps; between tasks there is only the causal order: a message is sent before it is received,
and a recovery stands between generations.  Within that, the recorded times decide.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pellucid.errors import DataError
from pellucid.failures.picture.run import DrawnRun, Mark, Ref, by_flow, placed
from pellucid.internal.engine.epochs.recording import ACK

_RULES = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER")
_WORK = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT")
_MESSAGE = ("stream", "n", "border", "digest")
_NEEDED = ("task", "generation", "index", "rule", "epoch", "consumed", "produced")


def from_recorded(rows: Any, *, wrong: Mapping[tuple[str, int], str] | None = None) -> DrawnRun:
    """A recorded trace: an Arrow table, a pandas frame, or rows as mappings.

    ``wrong``: steps that cannot be explained, by task and index, with the reason; then nothing is greyed.

    >>> event, first = {"stream": "m", "n": 0, "border": False, "digest": 0}, {"generation": 0, "index": 0, "epoch": 1}
    >>> run = from_recorded([
    ...     {"task": "b", "rule": "I-EVENT", "consumed": [event], "produced": [], **first},
    ...     {"task": "a", "rule": "SOURCE", "consumed": [], "produced": [event], **first},
    ... ])
    >>> run.lanes, [(m.lane, m.column) for m in run.marks]
    (('a', 'b'), [('a', 0), ('b', 1)])
    """
    if hasattr(rows, "to_pylist"):
        rows = rows.to_pylist()
    elif hasattr(rows, "to_dict") and not isinstance(rows, Mapping):
        rows = rows.to_dict("records")
    rows = list(rows)
    for i, row in enumerate(rows):
        if missing := [name for name in _NEEDED if name not in row]:
            raise DataError(f"recorded trace, row {i}: no column {missing[0]!r}: it needs {', '.join(_NEEDED)}")
        if row["rule"] not in _RULES:
            raise DataError(f"recorded trace, row {i}: unknown rule {row['rule']!r}: there are {', '.join(_RULES)}")
    rows = [{**row, "consumed": _messages(row["consumed"]), "produced": _messages(row["produced"])} for row in rows]
    upto = _kept_up_to(rows)
    marks: list[Mark] = []
    borders: set[Ref] = set()
    acked: dict[tuple[str, int], int] = {}  # a commit may wait for snapshots that were stored before a recovery
    for i in _causally(rows):
        row = rows[i]
        task, generation, rule = row["task"], row["generation"], row["rule"]
        consumed = tuple((acked.get((m["stream"], m["n"]), generation), m["stream"], m["n"]) for m in row["consumed"])
        produced = tuple((generation, m["stream"], m["n"]) for m in row["produced"])
        acked |= {(m["stream"], m["n"]): generation for m in row["produced"] if m["stream"].startswith(ACK)}
        borders |= {(generation, m["stream"], m["n"]) for m in [*row["consumed"], *row["produced"]] if m["border"]}
        kept = bool(wrong) or rule == "COMMIT" or (not rule.startswith("F-") and row["epoch"] <= upto[generation])
        marks.append(
            Mark(
                len(marks), None if rule == "F-RECOVER" else task, rule, row["epoch"], generation, consumed, produced,
                kept, rule == "COMMIT", _passes_border(row), (wrong or {}).get((task, row["index"]), ""),
                f"{rule} {task}, step {row['index']}, epoch {row['epoch']}",
            )
        )  # fmt: skip
    if not any(m.commit for m in marks):
        marks = _committing(marks)
    return placed(by_flow(marks), marks, borders, {}, not wrong)


def _messages(found: Any) -> list[Mapping[str, Any]]:
    """Messages as mappings; they may come as ``(stream, n, border, digest)``."""
    return [
        m if isinstance(m, Mapping) else dict(zip(_MESSAGE, m, strict=True)) for m in ([] if found is None else found)
    ]


def _passes_border(row: Mapping[str, Any]) -> bool:
    return row["rule"] == "I-BORDER" or (row["rule"] == "SOURCE" and any(m["border"] for m in row["produced"]))


def _kept_up_to(rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """By generation, the last epoch of it that remains: no later recovery goes behind it, and the end has it
    everywhere.

    An F-RECOVER is the first step of its generation and says how far the one before is kept.  What the end has is the
    greatest common epoch (Definition 4.2) of the snapshots that are stored: SNAPSHOT rows without F-LOST, or borders
    where a trace has none of these.
    """
    back = {row["generation"]: row["epoch"] for row in rows if row["rule"] == "F-RECOVER"}
    last = max((row["generation"] for row in rows), default=0)
    stored = any(row["rule"] == "SNAPSHOT" for row in rows)
    have: dict[str, set[int]] = {row["task"]: {0} for row in rows if row["rule"] in _WORK}
    seen = dict.fromkeys(have, 0)
    for row in sorted(rows, key=lambda row: row["index"]):
        task = row["task"]
        if task not in have:
            continue
        if row["generation"] > seen[task]:
            have[task] = {e for e in have[task] if e <= back.get(row["generation"], e)}
            seen[task] = row["generation"]
        if row["rule"] == "F-LOST":
            have[task].discard(row["epoch"])
        elif row["rule"] == "SNAPSHOT" if stored else _passes_border(row):
            have[task].add(row["epoch"])
    for task, epochs in have.items():
        have[task] = {e for e in epochs if seen[task] == last or e <= back.get(last, e)}
    upto = {last: max(set.intersection(*have.values()), default=0) if have else 0}
    for generation in range(last - 1, -1, -1):
        upto[generation] = min(upto[generation + 1], back.get(generation + 1, upto[generation + 1]))
    return upto


def _causally(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """An order of the rows in which causes come first, by time where there is a choice."""

    def by(i: int) -> tuple[int, int, str, int]:
        row = rows[i]
        return row["generation"], row.get("time") or 0, row["task"], row["index"]

    sender: dict[Ref, int] = {}
    lanes: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        lanes.setdefault(row["task"], []).append(i)
        sender |= {(row["generation"], m["stream"], m["n"]): i for m in row["produced"]}
    after: list[list[int]] = [[] for _ in rows]
    missing = [0] * len(rows)

    def edge(a: int, b: int) -> None:
        after[a].append(b)
        missing[b] += 1

    for lane in lanes.values():
        lane.sort(key=lambda i: rows[i]["index"])
        for a, b in pairwise(lane):
            edge(a, b)
    for i, row in enumerate(rows):
        for m in row["consumed"]:
            if (made := sender.get((row["generation"], m["stream"], m["n"]))) not in (None, i):
                assert made is not None
                edge(made, i)
    recovery = {row["generation"]: i for i, row in enumerate(rows) if row["rule"] == "F-RECOVER"}
    for i, row in enumerate(rows):
        if row["generation"] + 1 in recovery:
            edge(i, recovery[row["generation"] + 1])
        if recovery.get(row["generation"], i) != i:
            edge(recovery[row["generation"]], i)
    ready = [(by(i), i) for i, n in enumerate(missing) if n == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for j in after[i]:
            missing[j] -= 1
            if missing[j] == 0:
                heapq.heappush(ready, (by(j), j))
    left = set(range(len(rows))) - set(order)  # only in a trace that was tampered with: a cycle
    return [*order, *sorted(left, key=by)]


def _committing(marks: Sequence[Mark]) -> list[Mark]:
    """Where no step says that it commits: the last border of an epoch does."""
    last: dict[int, int] = {}
    for k, m in enumerate(marks):
        if m.border and m.kept and m.epoch is not None:
            last[m.epoch] = k
    commits = set(last.values())
    return [replace(m, commit=k in commits) for k, m in enumerate(marks)]
