"""A recorded run as columns: what the audit reads.

A trace (Definition 6.1) of a real run is one row for each step, in Parquet; `docs/explanation/failures.md` has the
columns.  The rows of one task are in the order of its ``index``; between tasks there is no order but the causal one
(Definition 6.4): a message is produced before it is consumed, and a recovery separates generations.  That is all that a
distributed system can know about itself, and all that the audit needs.

Here a trace is read, its columns are checked, and it is turned into plain NumPy arrays in which one position is one step
(or one message), sorted by task and index.  Nothing here is done step by step in Python, so ten million steps are fine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["COORDINATOR", "FIRST_EPOCH", "RULES", "Columns", "Messages", "columns", "read_trace", "schema", "tasks_on_record",
           "trace_files", "trace_table", "unfinished"]  # fmt: skip

COORDINATOR = "coordinator"
FIRST_EPOCH = 1  # as in Figure 10: the archive's epoch 0 is the initial state
RULES = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER")
SOURCE, EVENT, BORDER, SNAPSHOT, COMMIT, FAIL, LOST, RECOVER = range(len(RULES))
UNKNOWN_RULE = len(RULES)
ACK = "ack:"  # the streams on which a task says that its snapshot of an epoch is durable


def schema() -> pa.Schema:
    """The columns of a recorded trace.

    >>> schema().names
    ['task', 'generation', 'index', 'rule', 'epoch', 'consumed', 'produced', 'state', 'time']
    """
    import pyarrow as pa

    message = pa.struct([("stream", pa.string()), ("n", pa.int64()), ("border", pa.bool_()), ("digest", pa.int64())])
    return pa.schema([
        ("task", pa.string()), ("generation", pa.int32()), ("index", pa.int64()), ("rule", pa.string()), ("epoch", pa.int64()),
        ("consumed", pa.list_(message)), ("produced", pa.list_(message)), ("state", pa.int64()), ("time", pa.int64()),
    ])  # fmt: skip


def trace_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A trace from rows; a message is ``(stream, n, border, digest)`` or a mapping of these.  What is left out is empty.

    >>> trace = trace_table([{"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, False, 7)]}])
    >>> trace["produced"][0].as_py()
    [{'stream': 's', 'n': 0, 'border': False, 'digest': 7}]
    """
    import pyarrow as pa

    whole = schema()
    names = ("stream", "n", "border", "digest")

    def message(m: Any) -> dict[str, Any]:
        return dict(m) if isinstance(m, Mapping) else dict(zip(names, m, strict=True))

    filled = [
        {"generation": 0, "state": None, "time": at, **row,
         "consumed": [message(m) for m in row.get("consumed", ())], "produced": [message(m) for m in row.get("produced", ())]}
        for at, row in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(filled, schema=whole)


def trace_files(place: str | os.PathLike[str]) -> list[Path]:
    """The Parquet files of a recorded run: ``place`` is a file, a folder of files, or a state directory."""
    path = Path(place)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no such file or folder: expected a recorded trace, or the state directory of a run with --record")
    for folder in (path / "trace", path):
        found = sorted(folder.glob("*.parquet"))
        if found:
            return found
    raise UsageError(f"{path}: has no recorded trace (no .parquet file, and none in trace/): run with --record")


def unfinished(place: str | os.PathLike[str]) -> bool:
    """Whether a state directory has steps on record that are not in Parquet yet: the run was killed, or is still going on."""
    folder = Path(place) / "trace"
    steps = [file.stat().st_mtime_ns for file in folder.glob("*.steps")] if folder.is_dir() else []
    made = [file.stat().st_mtime_ns for file in folder.glob("*.parquet")] if steps else []
    return bool(steps) and max(steps) >= min(made, default=0)  # clocks of files are coarse: if in doubt, the steps themselves


def read_trace(place: str | os.PathLike[str]) -> pa.Table:
    """The trace of a recorded run, with its columns checked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if unfinished(place):
        from pellucid.engine.epochs import recording

        return _checked(recording.trace_table(place), str(place))
    tables = []
    for file in trace_files(place):
        try:
            # Names repeat in every row: keep them as numbers with a dictionary.
            columns = ["task", "rule", "consumed.list.element.stream", "produced.list.element.stream"]
            table = pq.read_table(file, read_dictionary=columns, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{file}: cannot be read as Parquet: {error}") from error
        tables.append(_checked(table, str(file)))
    return pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]


def _checked(table: pa.Table, where: str) -> pa.Table:
    """The columns of the layout, of the right types, without nulls where there can be none."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

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
            raise DataError(f"{where}: row {at}: column {name!r} is empty")
    return table


@dataclass(frozen=True)
class Messages:
    """All messages that were consumed, or all that were produced: one position for each, in the order of the steps."""

    step: np.ndarray[Any, Any]  # the position of its step
    stream: np.ndarray[Any, Any]  # a number in Columns.streams
    n: np.ndarray[Any, Any]
    border: np.ndarray[Any, Any]
    digest: np.ndarray[Any, Any]

    def __len__(self) -> int:
        return len(self.step)

    def chosen(self, which: np.ndarray[Any, Any]) -> Messages:
        """Some of them: by a mask or by positions."""
        return Messages(self.step[which], self.stream[which], self.n[which], self.border[which], self.digest[which])

    def where(self, keep: np.ndarray[Any, Any], renumber: np.ndarray[Any, Any]) -> Messages:
        """Those of the kept steps, with the steps' new positions."""
        chosen = keep[self.step]
        return Messages(renumber[self.step[chosen]], self.stream[chosen], self.n[chosen], self.border[chosen], self.digest[chosen])


@dataclass(frozen=True)
class Columns:
    """A trace as arrays, sorted by task and index; ``tasks`` and ``streams`` are the names behind the numbers."""

    tasks: list[str]
    streams: list[str]
    task: np.ndarray[Any, Any]
    generation: np.ndarray[Any, Any]
    index: np.ndarray[Any, Any]
    rule: np.ndarray[Any, Any]  # a number in RULES, or UNKNOWN_RULE
    epoch: np.ndarray[Any, Any]
    state: np.ndarray[Any, Any]
    stored: np.ndarray[Any, Any]  # whether there is a state
    consumed: Messages
    produced: Messages
    heard: Messages  # what a COMMIT waited for: the acks of snapshots, numbered by epoch
    told: Messages  # what a SNAPSHOT says: its own ack
    unknown: list[str]  # names of rules that are no rules

    def __len__(self) -> int:
        return len(self.task)

    def where(self, keep: np.ndarray[Any, Any], generation: int | None = None) -> Columns:
        """The same trace with some steps only (in one generation, if so wished)."""
        import numpy as np

        renumber = np.cumsum(keep) - 1
        of = self.generation[keep]
        sides = [m.where(keep, renumber) for m in (self.consumed, self.produced, self.heard, self.told)]
        return Columns(
            self.tasks, self.streams, self.task[keep], of if generation is None else np.full_like(of, generation),
            self.index[keep], self.rule[keep], self.epoch[keep], self.state[keep], self.stored[keep],
            sides[0], sides[1], sides[2], sides[3], self.unknown,
        )  # fmt: skip


def tasks_on_record(place: str | os.PathLike[str]) -> list[str]:
    """The tasks that a state directory names: one that died before its first step has no row."""
    try:
        return [str(name) for name in json.loads((Path(place) / "run.json").read_text(encoding="utf-8"))["tasks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def columns(table: pa.Table, tasks: Iterable[str] = ()) -> Columns:
    """The arrays of a trace; ``tasks`` names those that may have no step.

    >>> c = columns(trace_table([{"task": "b", "index": 0, "rule": "I-EVENT", "epoch": 1, "consumed": [("s", 0, False, 7)]},
    ...                          {"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, False, 7)]}]))
    >>> [c.tasks[t] for t in c.task], c.streams, c.consumed.n.tolist()
    (['a', 'b'], ['s'], [0])
    """
    import numpy as np
    import pyarrow as pa

    table = _checked(table, "trace").combine_chunks()
    names, task = _coded(table["task"])
    known = sorted({*names, *tasks})
    task = np.array([known.index(name) for name in names] or [0], dtype=np.int32)[task]
    streams: dict[str, int] = {}
    index = _ints(table["index"])
    order = None
    if len(task) and not _sorted(task, index):
        order = np.lexsort((index, task))
        table = table.take(pa.array(order))
        task, index = task[order], index[order]
    names, raw = _coded(table["rule"])
    code = {name: at for at, name in enumerate(RULES)}
    rule = np.array([code.get(name, UNKNOWN_RULE) for name in names] or [0], dtype=np.int8)[raw]
    state = table["state"]
    stored = ~np.asarray(state.is_null().combine_chunks().to_numpy(zero_copy_only=False), dtype=bool)
    numbers = _ints(state.fill_null(0)) if not pa.types.is_null(state.type) else np.zeros(len(task), dtype=np.int64)
    consumed, produced = _messages(table["consumed"], streams), _messages(table["produced"], streams)
    # Names in the order of the alphabet, so that both engines name the same first violation.
    ordered = sorted(streams)
    rank = np.array([ordered.index(s) for s in streams] or [0], dtype=np.int32)
    consumed, produced = (Messages(m.step, rank[m.stream], m.n, m.border, m.digest) for m in (consumed, produced))
    acks = np.array([name.startswith(ACK) for name in ordered] or [False], dtype=bool)
    sides = [side for m in (consumed, produced) for side in _parted(m, acks[m.stream])]
    return Columns(known, ordered, task, _ints(table["generation"]), index, rule, _ints(table["epoch"]), numbers, stored,
                   sides[0], sides[2], sides[1], sides[3], [n for n in names if n not in code])  # fmt: skip


def _parted(m: Messages, mask: np.ndarray[Any, Any]) -> tuple[Messages, Messages]:
    """The messages of the graph, and the acks of snapshots."""
    if not mask.any():
        return m, m.chosen(mask)
    return m.chosen(~mask), m.chosen(mask)


def _sorted(task: np.ndarray[Any, Any], index: np.ndarray[Any, Any]) -> bool:
    step = task[1:] - task[:-1]
    return bool(((step > 0) | ((step == 0) & (index[1:] >= index[:-1]))).all())


def _ints(column: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _coded(column: Any) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Strings as numbers in their alphabetical order."""
    import numpy as np
    import pyarrow as pa

    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], pa.string())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values = array.dictionary.to_pylist()
    names = sorted(set(values))
    rank = np.array([names.index(v) for v in values] or [0], dtype=np.int32)
    return names, rank[array.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)]


def _messages(column: Any, streams: dict[str, int]) -> Messages:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    lengths = np.asarray(pc.list_value_length(array).to_numpy(zero_copy_only=False)).astype(np.int64)
    step = np.repeat(np.arange(len(array), dtype=np.int64), lengths)
    flat = array.flatten()
    for name in ("stream", "n", "border", "digest"):
        part = flat.field(name)
        if part.null_count:
            at = int(np.flatnonzero(np.asarray(part.is_null()))[0])
            raise DataError(f"trace: step {int(step[at])}: a message without {name!r}")
    names, code = _coded(flat.field("stream"))
    numbers = np.array([streams.setdefault(name, len(streams)) for name in names] or [0], dtype=np.int32)
    border = np.asarray(flat.field("border").to_numpy(zero_copy_only=False), dtype=bool)
    return Messages(step, numbers[code], _ints(flat.field("n")), border, _ints(flat.field("digest")))
