"""A streaming query on Spark, for the command line: until it has read all there is, or a signal stops it.

A signal is noted, not raised: an exception in the middle of a call to the JVM would leave the connection half read, and
the next call would get the answer of the last one.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pellucid import sinks
from pellucid.internal.base.files import write_lasting
from pellucid.internal.cli.progress import StatusLine, count_text, rate_text, tell
from pellucid.internal.cli.signals import checkpoint
from pellucid.internal.cli.spark.places import delimiter_of
from pellucid.internal.cli.spark.run import Work, trigger, wait
from pellucid.internal.cli.spark.together import group_of
from pellucid.internal.data.tables.bad import BadRow, too_many
from pellucid.sinks.address import absolute, sink_of
from pellucid.sinks.once_sink import OnceSink
from pellucid.spark.files.looks import look_at
from pellucid.spark.job import BAD


def stream(work: Work) -> None:
    """A query, until it is stopped or (``--trigger once``) has read all there is."""
    o, report = work.options, work.report
    assert o.checkpoint is not None
    folder = absolute(o.checkpoint)
    begin = time.monotonic()
    several = len(work.outputs()) > 1
    own: dict[str, Any] = {"tag": "output"} if several else {}
    made = work.frame(state=_under(folder, "pellucid"), drop=o.drop, wait=wait(o.wait), **own)
    sink = _sink(work, several)
    with _noted() as signals:
        checkpoint()
        query = (
            made.writeStream.foreachBatch(_counting(work, sink))
            .option("checkpointLocation", folder)
            .queryName(work.p.name)
            .trigger(**trigger(o.trigger))
            .start()
        )
        watch = _Watch(query, signals)
        if o.trigger not in ("once", "available-now"):
            tell("streaming; an interrupt (Ctrl-C) or a SIGTERM stops it, and the same command goes on")
        try:
            watch.run()
        except Exception:
            if not signals:  # else the signal went to the JVM as well, and it is gone before we could ask it to stop
                raise
        finally:
            watch.clear()
            with contextlib.suppress(Exception):
                sink.close()
        report.stopped = bool(signals)
    report.batches, report.rows_in = watch.batches, watch.rows
    report.seconds = time.monotonic() - begin


def _under(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name if folder != "/" else f"/{name}"


def _sink(work: Work, several: bool) -> Any:
    group = group_of(work)
    if group is not None:
        return group
    parts = {name: place_of(work, path) for name, path in work.places.outputs.items()}
    if several:
        return sinks.split("output", sinks={name: parts.get(name) for name in work.outputs()})
    return parts[work.outputs()[0]]


def place_of(work: Work, path: str) -> Any:
    """The sink at a place; what is printed is kept in mind."""
    if path != "-":
        return sink_of(path)

    class Printed(OnceSink):
        def check_turn(self, query: str, batch: int) -> None:
            """What was printed before this start is nobody's loss: a query may have written somewhere else until
            now."""

    def show(df: Any, batch: int) -> None:
        work.report.rows_out += work.print(df)

    return Printed(show, ledger=_under(absolute(str(work.options.checkpoint)), "pellucid-printed"))


def _counting(work: Work, sink: Any) -> Any:
    texts = {
        d: [p for p in work.places.inputs.values() if delimiter_of(p, work.places.in_format) == d] for d in (",", "\t")
    }

    aside = _BadRows(work) if work.places.bad else None

    def write(df: Any, batch: int) -> None:
        for delimiter, places in texts.items():
            if places:
                look_at(absolute(str(work.options.checkpoint)), batch, places, delimiter)
        with aside.counted(df, batch) if aside is not None else contextlib.nullcontext(0) as bad:
            sink(df, batch)
        work.report.rows_out += sink.last_written.rows - (0 if sink.last_written.skipped else bad)
        work.tell_plain()

    return write


class _BadRows:
    """How many rows a query has set aside, micro-batch by micro-batch; too many end it before they are written.

    The count is kept beside the checkpoint, with the micro-batch that it is of: one that is run again counts once.
    """

    def __init__(self, work: Work) -> None:
        self._work, self._most = work, work.places.bad.most
        self._file = Path(absolute(str(work.options.checkpoint))) / "pellucid-bad.json"
        work.report.bad = 0

    @contextlib.contextmanager
    def counted(self, df: Any, batch: int) -> Iterator[int]:
        """The bad rows of a micro-batch, while it is written; counted when it is."""
        from pyspark.sql import functions as F

        df.persist()  # looked at more than once
        try:
            letters = df.where(F.col("output") == BAD)
            count = letters.count()
            known = json.loads(self._file.read_text()) if self._file.exists() else {"batch": -1, "before": 0, "bad": 0}
            before = known["before"] if known["batch"] == batch else known["bad"]
            if self._most is not None and before + count > self._most:
                some = [BadRow(*row[BAD]) for row in letters.select(BAD).limit(3).collect()]
                raise too_many(before + count, self._most, some)
            yield count
            document = {"batch": batch, "before": before, "bad": before + count}
            write_lasting(self._file, [json.dumps(document).encode()])
            self._work.report.bad = before + count
        finally:
            df.unpersist()


@contextlib.contextmanager
def _noted() -> Iterator[list[int]]:
    """The signals that ask for an end, as they come."""
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                before[number] = signal.signal(number, lambda n, _: came.append(n))
    except ValueError:  # not in the main thread
        pass
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Watch(StatusLine):
    """A query's progress events, drawn on one line, until it ends."""

    def __init__(self, query: Any, signals: list[int]) -> None:
        super().__init__()
        self.query, self.signals = query, signals
        self.rows = self.batches = 0
        self._newest = -1

    def run(self) -> None:
        """Wait for the end, or for a signal, and then for the query to have stopped."""
        while self.query.isActive and not self.signals:
            self.look()
            time.sleep(0.1)
        if self.signals:
            self.query.stop()
            self.look()
            return
        self.look()
        self.query.awaitTermination()  # raises what ended it

    def look(self) -> None:
        """Take in new progress events."""
        for event in self.query.recentProgress:
            if event.batchId > self._newest and event.numInputRows > 0:
                self._newest = event.batchId
                self.batches += 1
                self.rows += event.numInputRows
                if self.shown:
                    self.tell(event)

    def tell(self, event: Any) -> None:
        """One line: batch, rows, rate, watermark, state."""
        parts = [
            f"micro-batch {event.batchId}",
            count_text(event.numInputRows, "row"),
            rate_text(event.processedRowsPerSecond),
        ]
        watermark = (event.eventTime or {}).get("watermark")
        parts += [f"watermark {watermark}"] if watermark else []
        states = sum(s.numRowsTotal for s in event.stateOperators or [])
        parts += [f"{states:,} state rows"] if states else []
        self.draw(*parts)
