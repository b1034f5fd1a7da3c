"""A recorded run as columns: what the audit reads.

A trace (Definition 6.1) of a real run is one row for each step, in Parquet; `docs/explanation/failures.md` has the
columns.  The rows of one task are in the order of its ``index``; between tasks there is no order but the causal one
(Definition 6.4): a message is produced before it is consumed, and a recovery separates generations.  That is all that a
distributed system can know about itself, and all that the audit needs.

Here a trace is read, part by part, and its columns are checked; `pellucid.failures.audit.arrays` makes plain arrays of
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.base.small import read_small
from pellucid.internal.engine.epochs.recording import RULES, schema

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
    # clocks of files are coarse: if in doubt, the steps themselves
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
