"""``pellucid run --engine spark``: the same pipeline as a Spark job, over files or tables, or as a never-ending query."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pellucid.cli.progress import count_text, rate_text
from pellucid.cli.signals import Stopped, checkpoint
from pellucid.cli.spark_places import reader, sink_of, target
from pellucid.errors import UsageError

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline

__all__ = ["SparkOptions", "run_on_spark"]


@dataclass(frozen=True)
class SparkOptions:
    """The options of ``run`` that are for Spark."""

    master: str | None = None
    conf: tuple[str, ...] = ()
    order: str | None = None
    late: str = "fail"
    wait: str | None = None
    sequence: int | None = None
    gaps: str = "fail"
    partitions: int | None = None
    stream: bool = False
    trigger: str | None = None
    checkpoint: str | None = None
    drop: tuple[str, ...] = ()
    overwrite: bool = False
    verbose: bool = False

    def given(self) -> list[str]:
        """The names of those that differ from their defaults."""
        return [name for name, value in vars(self).items() if value != getattr(SparkOptions, name) and name != "verbose"]


@dataclass
class Report:
    """What a run on Spark did."""

    pipeline: str
    plan: str
    out: dict[str, str]
    rows_out: int | None = None
    seconds: float = 0.0
    batches: int | None = None
    rows_in: int | None = None
    stopped: bool = False

    def line(self) -> str:
        """One line for a person."""
        parts = [f"on Spark ({self.plan})"]
        if self.batches is not None:
            parts.append(count_text(self.batches, "micro-batch").replace("batchs", "batches"))
        if self.rows_in is not None:
            parts.append(f"{self.rows_in:,} in")
        if self.rows_out is not None:
            parts.append(f"{self.rows_out:,} out")
        parts.append(f"{self.seconds:.2f} s")
        return ", ".join(parts)

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        return {k: v for k, v in vars(self).items() if v is not None} | {"engine": "spark", "seconds": round(self.seconds, 6)}


def run_on_spark(
    p: Pipeline,
    inputs: Mapping[str | None, str],
    outputs: Mapping[str, str],
    key: str | None,
    value: str | None,
    in_format: str | None,
    out_format: str | None,
    options: SparkOptions,
    stdout: Any,
) -> Report:
    """Run, and say what was done; whatever Spark throws becomes one clear message."""
    from pellucid.spark.session import session, stop_if_ours

    _check(p, inputs, outputs, options)
    for name, path in outputs.items():
        target(path, options.stream, out_format, options.overwrite)  # a bad place is told before Spark starts
        del name
    _ship(p)
    spark = None
    try:
        with _explained(options.verbose):
            spark = session(master=options.master, conf=_conf(options.conf), name=f"pellucid {p.name}", verbose=options.verbose)
            work = _Work(p, spark, inputs, outputs, key, value, in_format, out_format, options, stdout)
            return work.stream() if options.stream else work.batch()
    finally:
        if spark is not None:
            with contextlib.suppress(Exception):
                stop_if_ours(spark)


@contextlib.contextmanager
def _explained(verbose: bool) -> Iterator[None]:
    from pellucid.spark.failure import explain

    try:
        yield
    except BrokenPipeError:  # whoever read our output has seen enough
        raise
    except Exception as error:
        ours = explain(error)
        if ours is None:
            raise
        if verbose and ours is not error:
            traceback.print_exc()
        raise ours from None


def _check(p: Pipeline, inputs: Mapping[str | None, str], outputs: Mapping[str, str], options: SparkOptions) -> None:
    if "-" in inputs.values():
        raise UsageError("Spark does not read the standard input: give a file or a folder with --in")
    if options.stream and options.checkpoint is None:
        raise UsageError("--stream needs --checkpoint FOLDER: there it keeps how far it has come, and goes on after a stop")
    if not options.stream:
        for name in ("trigger", "checkpoint", "wait"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} goes with --stream")
    if options.late == "keep" and "late" not in outputs:
        raise UsageError("--late keep needs a place for late rows: give --out late=FILE")
    del p


def _conf(pairs: tuple[str, ...]) -> dict[str, str]:
    out = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--conf {pair}: expected NAME=VALUE, as in --conf spark.executor.memory=4g")
        out[name.strip()] = value
    return out


def _ship(p: Pipeline) -> None:
    """Let the user's own file go along with its functions: executors do not have it."""
    from pyspark import cloudpickle

    module = sys.modules.get(p.__module__)
    if module is not None and not p.__module__.startswith("pellucid."):
        with contextlib.suppress(Exception):
            cloudpickle.register_pickle_by_value(module)


@dataclass
class _Work:
    p: Pipeline
    spark: Any
    inputs: Mapping[str | None, str]
    outputs: Mapping[str, str]
    key: str | None
    value: str | None
    in_format: str | None
    out_format: str | None
    options: SparkOptions
    stdout: Any
    begin: float = field(default_factory=time.monotonic)

    def frame(self, **more: Any) -> Any:
        """The DataFrame that comes out."""
        o = self.options
        frames = {name: reader(self.spark, path, self.in_format, o.stream) for name, path in self.inputs.items()}
        if o.late == "keep":
            more["step"] = "output"
        given: list[Any] = [frames[None]] if None in frames else [frames]
        return self.p.spark(
            *given,
            key=_names(self.key),
            order=_names(o.order),
            value=self.value,
            late=o.late,
            sequence=o.sequence,
            gaps=o.gaps,
            **more,
        )

    def report(self) -> Report:
        from pellucid.spark.plan import choose

        plan = choose(self.p.graph, key=self.key is not None, order=self.options.order is not None, streaming=self.options.stream)
        return Report(self.p.name, plan.way, dict(self.outputs))

    # ------------------------------------------------------------ batch

    def batch(self) -> Report:
        """All that there is, once."""
        report = self.report()
        made = self.frame(partitions=self.options.partitions)
        if self.options.late == "keep":
            made = {name: made.filter(made.output == name).select(*_own(made, name)) for name in [*self.names(), "late"]}
        frames = made if isinstance(made, dict) else {self.names()[0]: made}
        report.rows_out = 0
        with contextlib.ExitStack() as stack:
            finish = []
            for name, path in self.outputs.items():
                checkpoint()
                rows, done = self.write(frames[name], path, stack)
                report.rows_out += rows
                finish.append(done)
            checkpoint()
            for done in finish:  # all of them appear, or none
                done()
        report.seconds = time.monotonic() - self.begin
        return report

    def names(self) -> list[str]:
        return [name for name, _ in self.p.graph.outputs]

    def write(self, df: Any, path: str, stack: contextlib.ExitStack) -> tuple[int, Any]:
        """Write one output; how many rows, and what makes it appear."""
        if path == "-":
            return self.print(df), lambda: None
        kind, place = target(path, False, self.out_format, self.options.overwrite)
        if kind == "sink":
            sink = sink_of(path)
            stack.callback(sink.close)
            return sink.write(df, f"batch-{uuid.uuid4().hex}", 0).rows, lambda: None
        counted, rows = _counted(df)
        local = "://" not in place
        written = f"{os.path.join(os.path.dirname(place), '.' + os.path.basename(place))}.{os.getpid()}.part" if local else place
        if local:
            stack.callback(shutil.rmtree, written, ignore_errors=True)
        writer = counted.write.mode("overwrite" if local or self.options.overwrite else "errorifexists")
        (writer.option("header", True) if kind == "csv" else writer).format(kind).save(written)

        def appear() -> None:
            if local:
                if os.path.isdir(place):
                    shutil.rmtree(place)
                os.replace(written, place)

        return rows(), appear

    def print(self, df: Any) -> int:
        """Rows as JSON Lines on stdout, in their order."""
        from pyspark.sql import functions as F  # noqa: N812

        by = [c for c in [*_names(self.options.order), *_names(self.key), "nth"] if c in df.columns]
        lines = (df.orderBy(*by) if by else df).select(F.to_json(F.struct("*")).alias("line"))
        count = 0
        for row in lines.toLocalIterator():
            self.stdout.write(row.line.encode() + b"\n")
            count += 1
        self.stdout.flush()
        return count

    # ------------------------------------------------------------ streaming

    def stream(self) -> Report:
        """A query, until it is stopped or (``--trigger once``) has read all there is."""
        from pellucid.spark import sinks

        report, o = self.report(), self.options
        assert o.checkpoint is not None
        several = len(self.names()) > 1 or o.late == "keep"
        made = self.frame(state=os.path.join(o.checkpoint, "pellucid"), drop=o.drop, wait=_wait(o.wait), **({"step": "output"} if several else {}))
        parts = {name: self.place(path) for name, path in self.outputs.items()}
        sink: Any = sinks.split("output", sinks={n: parts.get(n) for n in [*self.names(), *(["late"] if o.late == "keep" else [])]}) if several else next(iter(parts.values()))
        writer = made.writeStream.foreachBatch(sink).option("checkpointLocation", o.checkpoint).queryName(self.p.name)
        query = writer.trigger(**_trigger(o.trigger)).start()
        watch = _Watch(query)
        try:
            watch.run()
        except Stopped:
            report.stopped = True
            with contextlib.suppress(Exception):
                query.stop()
        finally:
            watch.clear()
            if hasattr(sink, "close"):
                sink.close()
        report.batches, report.rows_in = watch.batches, watch.rows
        report.seconds = time.monotonic() - self.begin
        if not report.stopped and query.exception() is not None:
            raise query.exception()
        if report.stopped:
            click.echo(f"stopped after {count_text(watch.batches, 'micro-batch').replace('batchs', 'batches')}; the same command goes on from there", err=True)
        return report

    def place(self, path: str) -> Any:
        if path != "-":
            return sink_of(path)
        from pellucid.spark.sinks import once

        return once(lambda df, batch: self.print(df), ledger=os.path.join(str(self.options.checkpoint), "pellucid-printed"))


class _Watch:
    """A query's progress events, drawn on one line, until it ends."""

    def __init__(self, query: Any) -> None:
        self.query, self.rows, self.batches = query, 0, 0
        self._last = -1
        self._shown = sys.stderr.isatty()
        self._width = 0

    def run(self) -> None:
        """Wait for the end."""
        while self.query.isActive:
            checkpoint()
            self.look()
            time.sleep(0.1)
        self.look()
        self.query.awaitTermination()

    def look(self) -> None:
        """Take in new progress events."""
        for event in self.query.recentProgress:
            if event.batchId > self._last and event.numInputRows > 0:
                self._last = event.batchId
                self.batches += 1
                self.rows += event.numInputRows
                if self._shown:
                    self.draw(event)

    def draw(self, event: Any) -> None:
        """One line: batch, rows, rate, watermark."""
        parts = [f"micro-batch {event.batchId}", count_text(event.numInputRows, "row"), rate_text(event.processedRowsPerSecond)]
        watermark = (event.eventTime or {}).get("watermark")
        parts += [f"watermark {watermark}"] if watermark else []
        states = sum(s.numRowsTotal for s in event.stateOperators or [])
        parts += [f"{states:,} state rows"] if states else []
        line = "  ".join(parts)
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = len(line)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _own(df: Any, name: str) -> list[Any]:
    """The columns of one output of a tagged DataFrame."""
    from pyspark.sql import functions as F  # noqa: N812

    at = df.columns.index("output")
    kept = [F.col(f"`{c}`") for c in df.columns[:at]] + [F.col("nth")] * ("nth" in df.columns)
    struct = type(df.schema[name].dataType).__name__ == "StructType"
    return [*kept, F.col(f"`{name}`.*") if struct else F.col(f"`{name}`")]


def _wait(text: str | None) -> Any:
    """A number, or a time such as ``10s``, ``5m``, ``2h``, ``1d``."""
    if text is None:
        return None
    from datetime import timedelta

    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    with contextlib.suppress(ValueError):
        return int(text)
    if text[-1:] in units:
        with contextlib.suppress(ValueError):
            return timedelta(**{units[text[-1]]: float(text[:-1])})
    raise UsageError(f"--wait {text}: expected a number, in the unit of the order column, or a time such as 10s, 5m, 2h, 1d")


def _trigger(text: str | None) -> dict[str, Any]:
    if text is None:
        return {"processingTime": "0 seconds"}
    if text in ("once", "available-now"):
        return {"availableNow": True}
    number, _, unit = text.partition(" ")
    if not number.isdigit() or unit.rstrip("s") not in ("second", "minute", "hour", "millisecond"):
        raise UsageError(f"--trigger {text}: expected once, or an interval such as '10 seconds'")
    return {"processingTime": text}


def _counted(df: Any) -> tuple[Any, Any]:
    """The DataFrame, and how many rows of it were written, without a second pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    seen = Observation()
    return df.observe(seen, F.count(F.lit(1)).alias("rows")), lambda: int(seen.get["rows"])


def json_line(report: Report) -> str:
    """The report as a versioned document."""
    return json.dumps({"pellucid": 1, "verb": "run", **report.document()})
