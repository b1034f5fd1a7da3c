"""A trace as plain NumPy arrays: one position is one step (or one message), sorted by task and index.

Names become numbers at once, and the trace is taken part by part, so that a trace is in memory once, as numbers, and
its text never.  Nothing here is done step by step in Python: ten million steps are fine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError
from pellucid.failures.audit.recorded import UNKNOWN_RULE
from pellucid.internal.engine.epochs.recording import ACK, RULES

if TYPE_CHECKING:
    import pyarrow as pa

Array: TypeAlias = "np.ndarray[Any, Any]"
USED = ("task", "generation", "index", "rule", "epoch", "consumed", "produced", "state")


@dataclass(frozen=True)
class Messages:
    """All messages that were consumed, or all that were produced: one position for each, in the order of the steps."""

    step: Array  # the position of its step
    stream: Array  # a number in Columns.streams
    n: Array
    border: Array
    digest: Array

    def __len__(self) -> int:
        return len(self.step)

    def chosen(self, which: Array) -> Messages:
        """Some of them: by a mask or by positions."""
        return Messages(self.step[which], self.stream[which], self.n[which], self.border[which], self.digest[which])

    def where(self, keep: Array, renumber: Array) -> Messages:
        """Those of the kept steps, with the steps' new positions."""
        chosen = keep[self.step]
        return Messages(
            renumber[self.step[chosen]], self.stream[chosen], self.n[chosen], self.border[chosen], self.digest[chosen]
        )


@dataclass(frozen=True)
class Columns:
    """A trace as arrays, sorted by task and index; ``tasks`` and ``streams`` are the names behind the numbers."""

    tasks: list[str]
    streams: list[str]
    task: Array
    generation: Array
    index: Array
    rule: Array  # a number in RULES, or UNKNOWN_RULE
    epoch: Array
    state: Array
    stored: Array  # whether there is a state
    consumed: Messages
    produced: Messages
    heard: Messages  # what a COMMIT waited for: the acks of snapshots, numbered by epoch
    told: Messages  # what a SNAPSHOT says: its own ack
    unknown: list[str]  # names of rules that are no rules

    def __len__(self) -> int:
        return len(self.task)

    def where(self, keep: Array, generation: int | None = None) -> Columns:
        """The same trace with some steps only (in one generation, if so wished)."""
        renumber = np.cumsum(keep) - 1
        of = self.generation[keep]
        sides = [m.where(keep, renumber) for m in (self.consumed, self.produced, self.heard, self.told)]
        return Columns(
            self.tasks, self.streams, self.task[keep], of if generation is None else np.full_like(of, generation),
            self.index[keep], self.rule[keep], self.epoch[keep], self.state[keep], self.stored[keep],
            sides[0], sides[1], sides[2], sides[3], self.unknown,
        )  # fmt: skip


def reordered(c: Columns, order: Array, generation: Array) -> Columns:
    """The steps in another order, and their messages with them; ``generation`` is already in that order."""
    place = np.empty(len(c), dtype=np.int64)
    place[order] = np.arange(len(c))

    def moved(m: Messages) -> Messages:
        step = place[m.step]
        to = np.argsort(step, kind="stable")
        return replace(m.chosen(to), step=step[to])

    return Columns(c.tasks, c.streams, c.task[order], generation, c.index[order], c.rule[order], c.epoch[order],
                   c.state[order], c.stored[order], moved(c.consumed), moved(c.produced), moved(c.heard), moved(c.told),
                   c.unknown)  # fmt: skip


class _Names:
    """Names as numbers, in the order in which they come; in the end in the order of the alphabet."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def coded(self, array: Any) -> Array:
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        own = np.array(
            [self.codes.setdefault(name, len(self.codes)) for name in array.dictionary.to_pylist()] or [0],
            dtype=np.int32,
        )
        numbers: Array = own[array.indices.to_numpy(zero_copy_only=False)]
        return numbers

    def sorted(self, more: Iterable[str] = ()) -> tuple[list[str], Array]:
        """The names, and the number of each code among them."""
        names = sorted({*self.codes, *more})
        number = {name: at for at, name in enumerate(names)}
        return names, np.array([number[name] for name in self.codes] or [0], dtype=np.int32)


class _Side:
    """The messages on one side, as they come."""

    def __init__(self) -> None:
        self.fields: dict[str, list[Array]] = {name: [] for name in ("step", "stream", "n", "border", "digest")}

    def add(self, array: Any, streams: _Names, before: int) -> None:
        step = np.repeat(
            np.arange(before, before + len(array), dtype=np.int64),
            np.diff(array.offsets.to_numpy(zero_copy_only=False)),
        )
        flat = array.flatten()
        for name in ("stream", "n", "border", "digest"):
            part = flat.field(name)
            if part.null_count:
                at = int(np.flatnonzero(np.asarray(part.is_null()))[0])
                raise DataError(f"trace: step {int(step[at])}: a message without {name!r}")
        self.fields["step"].append(step)
        self.fields["stream"].append(streams.coded(flat.field("stream")))
        self.fields["n"].append(_ints(flat.field("n")).copy())  # a view would keep the part in memory
        self.fields["border"].append(np.asarray(flat.field("border").to_numpy(zero_copy_only=False), dtype=bool))
        self.fields["digest"].append(_ints(flat.field("digest")).copy())

    def parted(self, rank: Array, acks: Array) -> tuple[Messages, Messages]:
        """The messages of the graph, and the acks of snapshots."""
        stream = rank[_joined(self.fields["stream"], np.int32)]
        ack = acks[stream]
        if not ack.any():
            rest = [
                _joined(self.fields[name], bool if name == "border" else np.int64) for name in ("n", "border", "digest")
            ]
            m = Messages(_joined(self.fields["step"], np.int64), stream, *rest)
            return m, m.chosen(ack)
        graph = ~ack
        sides: list[list[Array]] = [[], []]
        for name in ("step", "stream", "n", "border", "digest"):
            field = stream if name == "stream" else _joined(self.fields[name], bool if name == "border" else np.int64)
            sides[0].append(field[graph])
            sides[1].append(field[ack])
        return Messages(*sides[0]), Messages(*sides[1])


def columns(parts: pa.Table | Iterable[pa.Table], tasks: Iterable[str] = ()) -> Columns:
    """The arrays of a trace, whole or in parts (with their columns checked); ``tasks`` names those that may not occur.

    >>> from pellucid.failures.audit.recorded import trace_table
    >>> heard = {"task": "b", "index": 0, "rule": "I-EVENT", "epoch": 1, "consumed": [("s", 0, False, 7)]}
    >>> told = {"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, False, 7)]}
    >>> c = columns(trace_table([heard, told]))
    >>> [c.tasks[t] for t in c.task], c.streams, c.consumed.n.tolist()
    (['a', 'b'], ['s'], [0])
    """
    names, rules, streams = _Names(), _Names(), _Names()
    known_rules = {name: at for at, name in enumerate(RULES)}
    own: dict[str, list[Array]] = {
        name: [] for name in ("task", "generation", "index", "rule", "epoch", "state", "stored")
    }
    consumed, produced = _Side(), _Side()
    size = 0
    for table in [parts] if isinstance(parts, pa.Table) else parts:
        for batch in table.to_batches():
            own["task"].append(names.coded(batch["task"]))
            codes = rules.coded(batch["rule"])
            own["rule"].append(
                np.array([known_rules.get(name, UNKNOWN_RULE) for name in rules.codes] or [0], dtype=np.int8)[codes]
            )
            for name in ("generation", "index", "epoch"):
                own[name].append(_ints(batch[name]).copy())
            state = batch["state"]
            own["stored"].append(np.asarray(state.is_valid().to_numpy(zero_copy_only=False), dtype=bool))
            own["state"].append(
                np.zeros(len(batch), dtype=np.int64)
                if pa.types.is_null(state.type)
                else _ints(state.fill_null(0)).copy()
            )
            consumed.add(batch["consumed"], streams, size)
            produced.add(batch["produced"], streams, size)
            size += len(batch)
    pa.default_memory_pool().release_unused()
    known, rank = names.sorted(tasks)
    task = rank[_joined(own["task"], np.int32)]
    rule, stored = _joined(own["rule"], np.int8), _joined(own["stored"], bool)
    index, generation, epoch, state = (
        _joined(own[name], np.int64) for name in ("index", "generation", "epoch", "state")
    )
    ordered, rank = streams.sorted()
    acks = np.array([name.startswith(ACK) for name in ordered] or [False], dtype=bool)
    (took, heard), (made, told) = consumed.parted(rank, acks), produced.parted(rank, acks)
    c = Columns(known, ordered, task, generation, index, rule, epoch, state, stored, took, made, heard, told,
                [name for name in rules.codes if name not in known_rules])  # fmt: skip
    if _sorted(task, index):
        return c
    order = np.lexsort((index, task))
    return reordered(c, order, generation[order])


def _joined(parts: list[Array], kind: Any) -> Array:
    """One array of the parts, which are given up."""
    out = np.concatenate(parts) if parts else np.zeros(0, dtype=kind)
    parts.clear()
    return out


def _sorted(task: Array, index: Array) -> bool:
    step = task[1:] - task[:-1]
    return bool(((step > 0) | ((step == 0) & (index[1:] >= index[:-1]))).all())


def _ints(array: Any) -> Array:
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
