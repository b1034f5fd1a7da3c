"""A recorded run as columns: what the audit reads.

A trace (Definition 6.1) of a real run is one row for each step, in Parquet; `docs/explanation/failures.md` has the
columns.  The rows of one task are in the order of its ``index``; between tasks there is no order but the causal one
(Definition 6.4): a message is produced before it is consumed, and a recovery separates generations.  That is all that a
distributed system can know about itself, and all that the audit needs.

Here a trace is read, part by part, and its columns are checked; `pellucid.failures.audit.record` makes plain arrays of
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.base.files import read_small
from pellucid.internal.engine.epochs.recording import ACK, RULES, schema

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_EPOCH = 1  # as in Figure 10: the archive's epoch 0 is the initial state
SOURCE, EVENT, BORDER, SNAPSHOT, COMMIT, FAIL, LOST, RECOVER = range(len(RULES))
UNKNOWN_RULE = len(RULES)
PART = 1 << 18  # rows that are read at a time


def trace_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A trace from rows; a message is ``(stream, n, border, digest)`` or a mapping of these.  What is left out is
    empty.

    >>> trace = trace_table([{"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, False, 7)]}])
    >>> trace["produced"][0].as_py()
    [{'stream': 's', 'n': 0, 'border': False, 'digest': 7}]
    """
    whole = schema()
    names = ("stream", "n", "border", "digest")

    def message(m: Any) -> dict[str, Any]:
        return dict(m) if isinstance(m, Mapping) else dict(zip(names, m, strict=True))

    filled = [
        {"generation": 0, "state": None, "time": at, **row,
         "consumed": [message(m) for m in row.get("consumed", ())],
         "produced": [message(m) for m in row.get("produced", ())]}
        for at, row in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(filled, schema=whole)


def trace_files(place: str | os.PathLike[str]) -> list[Path]:
    """The Parquet files of a recorded run: ``place`` is a file, a folder of files, or a state directory."""
    path = Path(place)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(
            f"{path}: no such file or folder: expected a recorded trace, or the state directory of a run with "
            f"{option('record', True)}"
        )
    for folder in (path / "trace", path):
        found = sorted(folder.glob("*.parquet"))
        if found:
            return found
    raise UsageError(
        f"{path}: has no recorded trace (no .parquet file, and none in trace/): run with {option('record', True)}"
    )


def unfinished(place: str | os.PathLike[str]) -> bool:
    """Whether a state directory has steps on record that are not in Parquet yet: the run was killed, or is still going
    on."""
    folder = Path(place) / "trace"
    steps = [file.stat().st_mtime_ns for file in folder.glob("*.steps")] if folder.is_dir() else []
    made = [file.stat().st_mtime_ns for file in folder.glob("*.parquet")] if steps else []
    # clocks of files are coarse: if unsure, the steps themselves
    return bool(steps) and max(steps) >= min(made, default=0)


def read_trace(place: str | os.PathLike[str]) -> pa.Table:
    """The trace of a recorded run, with its columns checked."""
    parts = list(parts_of(place, None))
    parts = [part for part in parts if len(part)] or parts[:1]
    return pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]


def parts_of(place: str | os.PathLike[str], names: Sequence[str] | None) -> Iterator[pa.Table]:
    """The same part by part, in the order of the files, with these columns only (None: all): no more than one part need
    be in memory."""
    if unfinished(place):
        from pellucid.internal.engine.epochs import recording

        yield checked(recording.trace_table(place), str(place))
        return
    for file in trace_files(place):
        try:
            described = pq.read_metadata(file)
            whole = described.schema.to_arrow_schema()
            yield checked(whole.empty_table(), str(file))
            # Names repeat in every row: keep them as numbers with a dictionary.
            paths = [described.schema.column(at).path for at in range(described.num_columns)]
            coded = [path for path in paths if path in ("task", "rule") or path.endswith(".stream")]
            with pq.ParquetFile(file, metadata=described, read_dictionary=coded) as source:
                row = 0
                wanted = [name for name in whole.names if names is None or name in names]
                for batch in source.iter_batches(PART, columns=wanted):
                    yield checked(pa.Table.from_batches([batch]), str(file), row)
                    row += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file}: cannot be read as Parquet: {error}") from error


def checked(table: pa.Table, where: str, row: int = 0) -> pa.Table:
    """The columns of the layout, of the right types, without nulls where there can be none; ``row`` is the number of
    its first."""
    wanted = schema()
    missing = [name for name in wanted.names if name not in table.schema.names and name != "time"]
    if missing:
        raise DataError(f"{where}: no column {missing[0]!r}: a trace has {', '.join(wanted.names)}")
    for name in wanted.names:
        if name == "time":
            continue
        want, found = wanted.field(name).type, table.schema.field(name).type
        plain = found.value_type if kinds.is_dictionary(found) else found
        if kinds.is_list(want):
            fits = (kinds.is_list(plain) or kinds.is_large_list(plain)) and kinds.is_struct(plain.value_type) and \
                {f.name for f in plain.value_type} >= {"stream", "n", "border", "digest"}  # fmt: skip
        elif kinds.is_integer(want):
            fits = kinds.is_integer(plain) or (kinds.is_null(plain) and name == "state")
        else:
            fits = kinds.is_string(plain) or kinds.is_large_string(plain)
        if not fits:
            raise DataError(f"{where}: column {name!r} is {found}, expected {want}")
        if name != "state" and table[name].null_count:
            at = pc.index(pc.is_null(table[name]), True).as_py()
            raise DataError(f"{where}: row {row + at}: column {name!r} is empty")
    return table


def tasks_on_record(place: str | os.PathLike[str]) -> list[str]:
    """The tasks that a state directory names: one that died before its first step has no row."""
    try:
        return [str(name) for name in read_small(Path(place) / "run.json")["tasks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


# A trace as plain NumPy arrays: one position is one step (or one message), sorted by task and index.
#
# Names become numbers at once, and the trace is taken part by part, so that a trace is in memory once, as numbers, and
# its text never.  Nothing here is done step by step in Python: ten million steps are fine.

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

    >>> from pellucid.failures.audit.record import trace_table
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
