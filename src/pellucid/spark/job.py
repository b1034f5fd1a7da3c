"""What is shipped to the workers: the pipeline, what the frame's columns mean, what is to come out.

A job travels as bytes and is unpacked once in each worker process, however many tasks it runs there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import UsageError, listener, option, speak_to
from pellucid.internal.data.tables.bad import COLUMNS
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph
from pellucid.spark.daemon import modules_stay
from pellucid.spark.frames import Fields, Frame
from pellucid.spark.reading import event_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LATE = "late"  # the name of the output that late rows go to
BAD = "bad"  # and of the one for rows that are set aside
FILE = "f"  # the column of a frame that says which file a row is from


@dataclass(frozen=True)
class Late:
    """What is done about rows that are not in order (see `pellucid.spark.state.order`)."""

    policy: str = "fail"  # or "drop", "keep"
    wait: int = 0  # how far the order must have gone on before a row is applied
    sequence: int | None = None
    gaps: str = "fail"  # or "wait"

    def __post_init__(self) -> None:
        if self.policy not in ("fail", "drop", "keep"):
            raise UsageError(f"{option('late')} must be 'fail', 'drop' or 'keep', found {self.policy!r}")
        if isinstance(self.wait, bool) or not isinstance(self.wait, int) or self.wait < 0:
            raise UsageError(
                f"{option('wait')} must not be negative, and in whole units of the order column, found {self.wait!r}"
            )


class Met(NamedTuple):
    """A column of the key or the order of whose name an event has a field: both must be the same."""

    what: str  # "key" or "order"
    name: str
    column: str  # of the frame
    form: str | None = None  # of times in texts

    @property
    def formats(self) -> dict[str, str]:
        """By the name of the column."""
        return {} if self.form is None else {self.name: self.form}


@dataclass(frozen=True)
class SparkJob:
    """The work of one task."""

    graph: Graph
    fields: Fields
    outputs: tuple[tuple[str, Type], ...]  # those that are wanted
    kept: tuple[
        tuple[str, str], ...
    ]  # (the user's name, the column of the frame), of key and order, and of what comes along
    external: bool = True  # the key comes with the data, and the whole pipeline runs once for each
    ordered: bool = True  # rows come in order, and are judged
    late: Late = Late()
    nth: str | None = None  # the column that numbers the events of one push
    tag: str | None = None  # the column that says which output an event is of
    engine: str = "auto"  # the engine's mode
    met: tuple[Met, ...] = ()  # columns of key and order that the event has itself: they stand once
    bad: str = "fail"  # or rows that cannot be read, or on which a step fails, are left out ("drop"), or told ("keep")
    asked: str = (
        ""  # the digest of the pipeline as the user has it, which stays when its first steps are cut off (`prefix.cut`)
    )

    def __post_init__(self) -> None:
        if not self.asked:
            object.__setattr__(self, "asked", self.graph.digest)
        first = dict(self.fields.types).get("o0", "bigint")
        if self.late.sequence is not None and first.startswith(("date", "timestamp")):
            raise UsageError(
                f"{option('sequence')} needs {option('order')} to be one column of whole numbers, but "
                f"{self.fields.order[0][0]!r} is a {first}"
            )

    @property
    def front(self) -> str:
        """What was applied to the rows before they got here; empty if they come as the user has them."""
        return "" if self.asked == self.graph.digest else self.asked

    @property
    def counted(self) -> bool:
        """Whether the engine's count of pushes is the stream's: it gets every push, as it came, in order (a chunk knows
        how many came before it)."""
        return self.ordered and not self.fields.key and not self.front


def packed(job: SparkJob) -> bytes:
    """The job as bytes; functions of modules that executors do not have go along."""
    from pyspark import cloudpickle

    _ = job.graph.digest  # goes along: what opaque functions call and read is found here, where the user's files are
    try:
        return cloudpickle.dumps((listener(), job))  # type: ignore[no-any-return]
    except Exception as error:
        raise UsageError(
            f"{job.graph.name} cannot be sent to Spark's workers: {error}; one of its functions holds something that "
            "cannot be pickled, such as an open file or a connection"
        ) from None


def unpacked(data: bytes) -> SparkJob:
    """The job again; asked for when a task begins."""
    modules_stay()
    return _unpacked(data)


@lru_cache(maxsize=32)
def _unpacked(data: bytes) -> SparkJob:
    import pickle

    who, job = pickle.loads(data)
    speak_to(who)  # a worker's messages are read where the job came from
    return job  # type: ignore[no-any-return]


def output_schema(job: SparkJob, frame: Frame) -> StructType:
    """The schema of what comes out: key, order, output, number, events."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    types, along = dict(frame.kept), dict(frame.along)
    bad = job.bad == "keep"  # a bad row may have no key
    nulls = {*along, *(name for name, column in job.kept if bad or column in job.fields.missing)}
    fields = [StructField(name, along[name] if name in along else types[name], name in nulls) for name, _ in job.kept]
    if job.tag is not None:
        fields.append(StructField(job.tag, StringType(), False))
    if job.nth is not None:
        fields.append(StructField(job.nth, IntegerType(), False))
    for name, t in job.outputs:
        if job.tag is None:
            fields += event_columns(t, name)
            continue
        inner = event_columns(t, name)
        scalar = len(inner) == 1 and inner[0].name == name
        fields.append(StructField(name, inner[0].dataType if scalar else StructType(inner), True))
    if job.late.policy == "keep":
        fields.append(StructField(LATE, late_struct(job, frame), True))
    if bad:
        texts = [StructField(name, LongType() if name == "row" else StringType(), True) for name in COLUMNS]
        fields.append(StructField(BAD, StructType(texts), True))
    return StructType(fields)


def late_struct(job: SparkJob, frame: Frame) -> StructType:
    """A late row as it came in: the columns of its source."""
    from pyspark.sql.types import StructField, StructType

    types: dict[str, Any] = {f.name: f.dataType for f in frame.df.schema.fields}
    return StructType([StructField(name, types[column], True) for name, column in late_columns(job.fields)])


def late_columns(fields: Fields) -> list[tuple[str, str]]:
    """(name, column of the frame) of what a late row holds besides key and order.

    >>> from pellucid.internal.expr.types import INT
    >>> from pellucid.spark.frames import FrameSource
    >>> late_columns(Fields((FrameSource("x", INT, ("v",)),)))
    [('v', 'v0_0')]
    """
    out: list[tuple[str, str]] = []
    for s, source in enumerate(fields.sources):
        for path, column in zip(source.columns, fields.values(s), strict=True):
            name = path if len(fields.sources) == 1 else f"{source.name}_{path}"
            out.append((name.replace(".", "_"), column))
    return out
