"""Recorded traces of any size, made quickly: a chain of tasks with epochs, snapshots, commits and crashes.

The rows are those that the runtime would record (`engine.epochs.recording`); they are made segment by segment
with NumPy, since ten million steps of a real run would take an hour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.internal.engine.epochs.recording import RULES, schema

__all__ = ["large_trace"]

SOURCE, EVENT, BORDER, SNAPSHOT, COMMIT, FAIL, LOST, RECOVER = range(len(RULES))


def _digest(stream: int, n: np.ndarray) -> np.ndarray:
    return (n * 2654435761 + stream * 40503) % (1 << 61)


class _Rows:
    """Columns that grow by segments."""

    def __init__(self, names: list[str], streams: list[str]) -> None:
        self.names, self.streams = names, streams
        self.parts: dict[str, list[np.ndarray]] = {
            k: [] for k in ("task", "generation", "rule", "epoch", "state", "stored")
        }
        self.sides: dict[str, dict[str, list[np.ndarray]]] = {
            side: {k: [] for k in ("count", "stream", "n", "border", "digest")} for side in ("consumed", "produced")
        }

    def add(
        self,
        task: int,
        generation: int,
        rule: np.ndarray,
        epoch: np.ndarray,
        *,
        consumed: dict[str, Any],
        produced: dict[str, Any],
        stored: np.ndarray,
    ) -> None:
        size = len(rule)
        values = {
            "task": np.full(size, task),
            "generation": np.full(size, generation),
            "rule": rule,
            "epoch": epoch,
            "state": epoch * 7919 + task,
            "stored": stored,
        }
        for name, value in values.items():
            self.parts[name].append(value)
        for side, messages in (("consumed", consumed), ("produced", produced)):
            for name, value in messages.items():
                self.sides[side][name].append(value)

    def table(self) -> pa.Table:
        whole = {name: np.concatenate(part) for name, part in self.parts.items()}
        task = whole["task"]
        begin = np.searchsorted(task, task)
        size = len(task)

        def named(codes: np.ndarray, names: list[str]) -> pa.Array:
            return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))

        def listed(side: dict[str, list[np.ndarray]]) -> pa.Array:
            flat = {name: np.concatenate(part) for name, part in side.items()}
            offsets = np.concatenate([[0], np.cumsum(flat["count"])]).astype(np.int32)
            fields = [
                named(flat["stream"], self.streams),
                pa.array(flat["n"]),
                pa.array(flat["border"].astype(bool)),
                pa.array(flat["digest"]),
            ]
            return pa.ListArray.from_arrays(
                pa.array(offsets), pa.StructArray.from_arrays(fields, ["stream", "n", "border", "digest"])
            )

        state = pa.array(whole["state"], mask=~whole["stored"].astype(bool))
        return pa.table(
            [
                named(task, self.names),
                pa.array(whole["generation"].astype(np.int32)),
                pa.array(np.arange(size) - begin),
                named(whole["rule"], list(RULES)),
                pa.array(whole["epoch"]),
                listed(self.sides["consumed"]),
                listed(self.sides["produced"]),
                state,
                pa.array(np.arange(size)),
            ],
            names=schema().names,
        )


def large_trace(steps: int = 10_000_000, *, workers: int = 3, events: int = 1000, crashes: int = 20) -> pa.Table:
    """About so many steps of a source, a chain of workers and a sink, with so many events in an epoch.

    >>> trace = large_trace(2_000, events=10, crashes=2)
    >>> 1_500 < len(trace) < 3_000
    True
    """
    names = ["coordinator", "sink", "source", *(f"worker{i}" for i in range(workers))]
    chain = [2, *range(3, 3 + workers), 1]  # the source, the workers, the sink
    acks = len(chain)
    streams = [*(f"s{i}" for i in range(len(chain) - 1)), *(f"ack:{names[t]}" for t in chain)]
    epochs = max(steps // (len(chain) * (events + 2)), crashes + 1)
    ends = np.linspace(0, epochs, crashes + 2).astype(np.int64)
    rows = _Rows(names, streams)
    for task in range(len(names)):
        for generation in range(crashes + 1):
            start, end = int(ends[generation]), int(ends[generation + 1])
            last = generation == crashes
            if task == 0:
                _coordinator(rows, generation, start)
            else:
                place = chain.index(task)
                partial = 0 if last else max(events // 2 - place, 0)
                _segment(
                    rows, task, place, acks, generation, start, end, events, partial, fails=place == 1 and not last
                )
    return rows.table()


_NOTHING = {name: np.zeros(0, dtype=np.int64) for name in ("stream", "n", "border", "digest")}


def _coordinator(rows: _Rows, generation: int, start: int) -> None:
    size = 1 if generation else 0
    none = {"count": np.zeros(size, dtype=np.int64), **_NOTHING}
    rows.add(
        0,
        generation,
        np.full(size, RECOVER),
        np.full(size, start),
        consumed=none,
        produced=none,
        stored=np.zeros(size, dtype=bool),
    )


def _segment(
    rows: _Rows,
    task: int,
    place: int,
    acks: int,
    generation: int,
    start: int,
    end: int,
    events: int,
    partial: int,
    *,
    fails: bool,
) -> None:
    sink, source = place == acks - 1, place == 0
    block = events + 2 + sink
    at = np.arange((end - start) * block + partial)
    r, epoch = at % block, start + 1 + at // block
    rule = np.select(
        [r < events, r == events, r == events + 1],
        [SOURCE if source else EVENT, SOURCE if source else BORDER, SNAPSHOT],
        COMMIT,
    )
    if fails:
        rule, epoch, r = np.append(rule, FAIL), np.append(epoch, end + 1), np.append(r, block + 1)
    moves = r <= events
    n = (epoch - 1) * (events + 1) + r
    border = r == events

    def side(stream: int | None, acking: int, own: int) -> dict[str, Any]:
        """Messages of the graph, and the acks of a rule."""
        count = np.where(moves & (stream is not None), 1, 0)
        mine = rule == acking
        count[mine] = acks if acking == COMMIT else 1
        step = np.repeat(np.arange(len(rule)), count)
        ack = mine[step]
        which = np.arange(len(step)) - np.searchsorted(step, step)
        first = acks - 1  # the acks' streams come after those of the graph
        number = np.where(ack, first + (which if acking == COMMIT else own), stream or 0)
        value = np.where(ack, epoch[step], n[step])
        sent = np.where(border[step], 0, _digest(stream or 0, n[step]))
        return {
            "count": count,
            "stream": number,
            "n": value,
            "border": border[step] & ~ack,
            "digest": np.where(ack, epoch[step], sent),
        }

    consumed = side(None if source else place - 1, COMMIT, place)
    produced = side(None if sink else place, SNAPSHOT, place)
    rows.add(task, generation, rule, epoch, consumed=consumed, produced=produced, stored=rule == BORDER)
