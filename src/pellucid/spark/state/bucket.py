"""A bucket of keys between two micro-batches: its engine, what was applied of each key, and the rows that wait.

It holds no Spark and no files: `pellucid.spark.stream` keeps it in snapshots, `pellucid.spark.state.managed` in Spark's
own store.

Rows that wait are kept as they came, in columns that have only numbers (``v0_0``).  So what they were read as goes with
them (:func:`held_about`): a query that reads other columns, or reads them otherwise, would take them for what they are
not.
"""

from __future__ import annotations

import io
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.errors import DataError, StateError, option
from pellucid.internal.graph.memory import inner_key
from pellucid.spark.job import SparkJob
from pellucid.spark.step import Runner

_ABOUT = b"pellucid.read_as"  # in the metadata of the table of rows that wait


@dataclass
class Bucket:
    """The state of a bucket: the engine, the judge of order, and rows that wait."""

    runner: Runner
    held: Any = None  # an Arrow table of rows that wait, or None
    high: int | None = None  # the greatest first order seen
    snapshot: Any = None  # the one it was loaded from, for its keeper

    @property
    def read_as(self) -> dict[str, Any] | None:
        """What the rows that wait were read as; None if none waits."""
        return None if self.held is None else held_about(self.runner.job)

    def save(self) -> tuple[bytes, bytes]:
        """The state, and what else there is to keep."""
        extra = b"" if self.runner.judge is None else self.runner.judge.save()
        held = b""
        if self.held is not None:
            held = table_bytes(
                self.held.replace_schema_metadata({_ABOUT: json.dumps(self.read_as, sort_keys=True).encode()})
            )
        head = struct.pack("<QQ?q", len(extra), len(held), self.high is not None, self.high or 0)
        return self.runner.engine.save(), head + extra + held

    def load(self, state: Any, extra: Any, *, same: bool, drop: tuple[str, ...] = ()) -> None:
        """Go on from there; of another version of the pipeline, step by step.

        A :class:`~pellucid.errors.StateError` says what does not fit: steps, or rows that wait and were read otherwise.
        """
        if same:
            self.runner.engine.load(state)
        else:
            self.runner.engine.carry(state, drop=drop)
        size = struct.calcsize("<QQ?q")
        judge, held, known, high = struct.unpack("<QQ?q", extra[:size])
        if self.runner.judge is not None and judge:
            self.runner.judge.load(bytes(extra[size : size + judge]))
        self.held = table_of(extra[size + judge : size + judge + held]) if held else None
        self.high = high if known else None
        if self.held is not None:
            _check_held(self.runner, self.held, same)


def held_about(job: SparkJob) -> dict[str, Any]:
    """What a row of this job is read as: equal for two jobs if one may take the rows that wait for the other.

    ``columns`` are those of the frame, each with what it is for, the user's name and the type that it has there;
    ``front`` says which steps had been applied to a row, if any, ``key_by`` what made the key, if the pipeline makes it
    itself.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT, STR
    >>> from pellucid.spark.frames import Fields, FrameSource
    >>> p = pipeline(lambda amount: amount.cumulate(lambda t, v: t + v, start=0), amount=int)
    >>> fields = Fields((FrameSource("amount", INT, ("fee",)),), (("account", STR),), (("seq", INT),))
    >>> held_about(SparkJob(p.graph, fields, (), ()))["columns"]
    [['k0', 'key account', 'str'], ['o0', 'order seq', 'int'], ['v0_0', 'fee', 'int']]
    """
    fields = job.fields
    types = dict(fields.types)
    named = [(c, f"key {n}", t) for c, (n, t) in zip(fields.keys, fields.key, strict=True)]
    named += [(c, f"order {n}", t) for c, (n, t) in zip(fields.orders, fields.order, strict=True)]
    for s, source in enumerate(fields.sources):
        prefix = f"{source.name}: " if len(fields.sources) > 1 else ""
        held = [t for _, t in source.type.columns()]
        named += [(c, prefix + path, t) for c, path, t in zip(fields.values(s), source.columns, held, strict=True)]
    return {
        "columns": [[column, name, types.get(column, str(t))] for column, name, t in named],
        "front": job.front,
        "key_by": made_key(job),
        "rows": "of one source" if fields.tagged else "of all sources" if fields.wide else "",
    }


def made_key(job: SparkJob) -> list[str]:
    """The key that the pipeline makes itself by ``key_by``, as expressions; empty if it comes with the data."""
    return [] if job.external else [repr(e) for e in inner_key(job.graph) or ()]


_SAME = {  # types between which a value that waits does not change
    "tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double", "str": "string", "bool": "boolean",
}  # fmt: skip


def _kind(name: str) -> str:
    text = name.startswith(("string collate ", "varchar(", "char("))
    return "string" if text else _SAME.get(name, name)


def _check_held(runner: Runner, held: Any, same: bool) -> None:
    """Whether rows that wait are what this job would take them for."""
    data = (held.schema.metadata or {}).get(_ABOUT)
    if data is None:
        return  # of a version that did not say
    then, now = json.loads(data), held_about(runner.job)
    if then["front"] != now["front"]:
        if then["front"]:
            raise _other_rows(
                held,
                "other first steps had been applied to a row when it came",
                "with pipeline and options as they were",
            )
        raise _other_rows(
            held,
            "as the DataFrame has them, but now Spark does the first steps before a row comes here",
            "with native='off'",
        )
    kinds = [[[c, n, _kind(t)] for c, n, t in about["columns"]] for about in (then, now)]
    if kinds[0] != kinds[1] or then["rows"] != now["rows"]:
        raise _other_rows(
            held, f"read as {_words(then)}, but now rows are read as {_words(now)}", "with the columns as they were"
        )
    if then["key_by"] != now["key_by"]:
        found = ", but now by ".join(", ".join(about["key_by"]) or "nothing" for about in (then, now))
        raise _other_rows(held, f"key_by made the key by {found}", "with key_by as it was")
    if not same:
        try:
            runner.check(held)
        except DataError as error:
            raise _other_rows(
                held, f"what waits does not fit the pipeline any more ({error})", "with the pipeline as it was"
            ) from None


def _other_rows(held: Any, found: str, how: str) -> StateError:
    many = f"{held.num_rows} row{'s wait' if held.num_rows > 1 else ' waits'}"
    return StateError(
        f"{many} in a bucket of the state: {found}; go on {how} until none waits (without {option('wait')} all go on "
        "with the next rows of their bucket), or begin anew with a new state folder and a new checkpoint"
    )


def _words(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} ({kind})" for _, name, kind in about["columns"]) + (
        f", each row {about['rows']}" if about["rows"] else ""
    )


def run_bucket(job: SparkJob, bucket: Bucket, rows: Any) -> list[Any]:
    """New rows, with those that waited, through the bucket's pipeline."""
    rows, letters = bucket.runner.set_aside(rows)
    if bucket.held is not None:
        # as rows are now, but for what else Spark says of its columns
        schema = pa.schema([(f.name, f.type) for f in rows.schema])
        rows = pa.concat_tables([_cast(bucket.held, schema), rows.cast(schema)]).combine_chunks()
    rows = in_order(job, rows)
    later = None
    if job.late.wait:
        rows, later = _ready(job, bucket, rows)
        bucket.runner.check(later)
    out: list[Any] = []
    held = []
    if rows.num_rows:
        done = bucket.runner.push(rows, readable=True)
        out = done.out
        if done.held is not None:
            held.append(done.held)
    if later is not None and later.num_rows:
        held.append(later)
    bucket.held = pa.concat_tables(held).combine_chunks() if held else None
    return [*letters, *out]


def _ready(job: SparkJob, bucket: Bucket, rows: Any) -> tuple[Any, Any]:
    """The rows that need not wait any more, and the others."""
    first = _plain(rows.column("o0"))
    if first is None:
        bucket.runner.check(rows)  # says which row has no order
        raise DataError(
            f"{option('wait')} needs an order of whole numbers or times, but the order column "
            f"{job.fields.order[0][0]!r} is a text"
        )
    high = max(int(first[-1]), bucket.high if bucket.high is not None else int(first[-1]))
    bucket.high = high
    ready = int((first <= high - job.late.wait).sum())  # they are sorted
    return rows.slice(0, ready), rows.slice(ready)


def _cast(held: Any, schema: Any) -> Any:
    """Rows that waited, in the types that rows have now."""
    try:
        return held.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        what = " ".join(str(error).split())
        raise _other_rows(
            held, f"what waits cannot be read as new rows are ({what})", "with the columns as they were"
        ) from None


def in_order(job: SparkJob, rows: Any) -> Any:
    """Rows by order, then key (then source): the same way however they came, so that a repeated step gives the same
    bytes."""
    fields = job.fields
    if not job.ordered or rows.num_rows < 2:
        return rows
    columns = [*fields.orders, *fields.keys, *(["s"] if fields.tagged else [])]
    numbers = [_plain(rows.column(c)) for c in columns]
    if numbers[0] is not None:
        first = numbers[0]
        rising = first[1:] > first[:-1]
        if rising.all():
            return rows
        if all(n is not None for n in numbers):
            rows = rows.take(pa.array(np.lexsort(numbers[::-1])))
        elif len(np.unique(first)) == len(first):
            rows = rows.take(pa.array(np.argsort(first, kind="stable")))
        else:
            rows = rows.sort_by([(c, "ascending") for c in columns])
    else:
        rows = rows.sort_by([(c, "ascending") for c in columns])
    return rows


def _plain(column: Any) -> Any:
    """A column of whole numbers or times as an array; None if it is something else."""
    if column.null_count:
        return None  # the step says what is wrong
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_numpy()
    return None


def table_bytes(table: Any) -> bytes:
    """A table as bytes (an Arrow stream)."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(data: bytes) -> Any:
    """The table again."""
    return pa.ipc.open_stream(pa.py_buffer(bytes(data))).read_all()
