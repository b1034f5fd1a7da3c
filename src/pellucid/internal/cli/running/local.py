"""A run over files or pipes on this machine, in chunks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.errors import StepError
from pellucid.internal.cli.progress import Progress, TellPlain, count_text, rate_text
from pellucid.internal.cli.running.given import Rows, refuse_bad_place
from pellucid.internal.cli.running.writing import Writing
from pellucid.internal.cli.signals import checkpoint
from pellucid.internal.secrets import redact

if TYPE_CHECKING:
    from pellucid.capacity.measured.recorder import Recorder
    from pellucid.internal.data.columns import Output
    from pellucid.internal.data.feed import Fed, Feed
    from pellucid.internal.engine.kernel.times import StepTime
    from pellucid.internal.graph.model import Graph


@dataclass
class Report:
    """What a run did."""

    pushes: int = 0
    out: dict[str, int] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cores: int = 1  # that the keys were shared among
    steps: list[StepTime] = field(default_factory=list)  # with --verbose
    told: list[str] = field(default_factory=list)
    bad: int | None = None  # rows that were set aside
    forgotten: dict[str, int] = field(default_factory=dict)  # keys that were given up, by step
    events: int | None = None  # by event time: of all inputs, which meet by time and not push by push

    @property
    def taken(self) -> int:
        """What came in."""
        return self.pushes if self.events is None else self.events

    @property
    def rate(self) -> float:
        return self.taken / self.seconds if self.seconds > 0 else 0.0

    def line(self) -> str:
        """One line for a person."""
        out = sum(self.out[name] for name in self.written)
        bad = "" if self.bad is None else f", {self.bad:,} bad"
        forgotten = f", {count_text(sum(self.forgotten.values()), 'key')} forgotten" if self.forgotten else ""
        return f"{self.taken:,} in, {out:,} out{bad}{forgotten}, {self.seconds:.2f} s, {rate_text(self.rate)}"

    def document(self, name: str, inputs: tuple[str, ...], sinks: dict[str, str]) -> dict[str, Any]:
        """The same for a program."""
        steps = {"steps": [step.document() for step in self.steps]} if self.steps else {}
        return steps | {
            "pipeline": name,
            "in": [redact(path) for path in inputs],
            "out": {output: redact(path) for output, path in sinks.items()},
            "pushes": self.pushes,
            **({} if self.events is None else {"events_in": self.events}),
            "events_out": self.out,
            "cores": self.cores,
            **({} if self.bad is None else {"bad": self.bad}),
            **({"forgotten": self.forgotten} if self.forgotten else {}),
            "seconds": round(self.seconds, 6),
            "events_per_second": round(self.rate, 1),
        }


def run_here(
    graph: Graph,
    inputs: dict[str | None, str | tuple[str, ...]],
    sinks: dict[str, str],
    limit: int | None,
    rows: Rows,
    in_format: str | None,
    out_format: str | None,
    exists: str,
    chunk: int,
    cores: int | None,
    stdout: Any,
    verbose: bool,
    measure: str | None = None,
) -> Report:
    """Read, push and write, chunk by chunk; the output files appear at the end, all of them or none; ``measure`` is a
    file for what `pellucid.capacity.measured` reads."""
    # Heavy imports only here, so that --help and a wrong name answer at once.
    import pyarrow as pa

    from pellucid.internal.base.files import write_whole
    from pellucid.internal.data.feed import Feed
    from pellucid.internal.data.files import flows, open_reader, paths_of
    from pellucid.internal.data.formats.ahead import ahead
    from pellucid.internal.data.writers import refuse_same_file
    from pellucid.internal.engine.cores import OnCores, cores_here
    from pellucid.internal.engine.kernel.engine import plain_reasons

    refuse_bad_place(rows.bad, sinks)
    paths = [one for given in inputs.values() for one in paths_of(given)]
    for path in [*sinks.values(), *(extra for extra in (rows.bad.address, measure) if extra)]:
        refuse_same_file(path, paths)
    progress, report = Progress(), Report()
    try:
        with contextlib.ExitStack() as stack:
            if cores is not None:  # Arrow has threads of its own
                stack.callback(pa.set_cpu_count, pa.cpu_count())
                pa.set_cpu_count(cores)
            readers = {}
            for source, given in inputs.items():
                reader = open_reader(given, in_format, idle=checkpoint)
                readers[source] = stack.enter_context(contextlib.closing(reader))
            places = {id(reader): inputs[source] for source, reader in readers.items()}
            pipes = any(one == "-" or flows(one) for one in paths)
            again = None if pipes else lambda reader: open_reader(places[id(reader)], in_format)
            feed = Feed(
                graph, readers, value=rows.value, key=rows.key, rows=chunk, limit=limit, short=rows.short,
                order=rows.order, late=rows.late, keep=rows.keep, nan=rows.nan, formats=rows.formats, again=again,
                nulls=rows.nulls, lenient=bool(rows.bad),
            )  # fmt: skip
            if graph.timed:
                write = Writing(graph, sinks, out_format, exists, feed, stdout, stack)
                write.open_bad(rows.bad, exists, stack)
                _by_time(graph, feed, write, progress, report, limit)
                report.bad = write.bad.count if rows.bad else None
                if verbose:
                    report.told.append("how long each step took is not measured by event time yet")
                return _done(report, write, sinks, progress, cores)
            timed = verbose or measure is not None
            engine = OnCores(
                graph, key=feed.key_type, cores=cores, one_key=feed.one_key, timed=timed or bool(plain_reasons(graph))
            )
            recorder = _recorder(pipes) if measure is not None else None
            tell_plain = TellPlain(engine.why_plain, [step.id for step, _, _ in plain_reasons(graph)])
            write = Writing(graph, sinks, out_format, exists, feed, stdout, stack)
            write.open_bad(rows.bad, exists, stack)
            several = (cores or cores_here()) > 1 and not pipes
            for fed in stack.enter_context(ahead(feed)) if several else feed:
                checkpoint()
                failed: list[StepError] | None = [] if rows.bad else None
                results: list[Output] = []
                if fed.batch.count:
                    watched = recorder.batch(fed.batch.count, fed.share) if recorder else contextlib.nullcontext()
                    with watched, _placed(feed, fed):
                        results = engine.push_batch(fed.batch, positions=write.needs_positions, failed=failed)
                        write(results, fed)
                if failed or fed.bad:
                    write.set_aside(fed.letters(failed or []))
                report.pushes += fed.batch.count
                tell_plain({step.step: step.share for step in engine.times.steps()})
                if not timed:
                    engine.stop_timing()
                progress.update(report.pushes, _share(report.pushes, limit, fed.share))
                del fed, results  # while the next ones are read
            write.prepare()
            checkpoint(last=True)
    finally:
        progress.clear()
    report.out, report.written, report.seconds = write.counts, list(sinks), progress.seconds
    report.bad = write.bad.count if rows.bad else None
    report.cores = engine.cores
    if cores is not None and cores > engine.cores:
        report.told.append(f"on one core, not {cores}: {engine.why_one}")
    if verbose:
        from pellucid.internal.cli.explain import step_lines

        report.steps = engine.times.steps()
        report.told += step_lines(engine, report.seconds)
    report.forgotten = engine.forgotten
    if measure is not None and recorder is not None:
        steps = [{**step.document(), "seconds": round(step.seconds, 6)} for step in engine.times.steps()]
        found = recorder.document(graph.name, report.pushes, steps, report.out, engine.cores)
        write_whole(measure, json.dumps(found, indent=1) + "\n")
    return report


def _by_time(graph: Graph, feed: Feed, write: Writing, progress: Progress, report: Report, limit: int | None) -> None:
    """A pipeline by event time: what is read is one batch, which knows all rows, and then the end of the input."""
    import numpy as np

    from pellucid.internal.engine.timed.running import Finite

    run, report.events = Finite(graph, feed.key_type), 0
    tell_plain = TellPlain(run.engine.why_plain)
    for fed in feed:
        checkpoint()
        if fed.batch.count:
            with _placed(feed, fed):
                write(run.take(fed.batch, positions=write.needs_positions), fed)
        if fed.bad:
            write.set_aside(fed.letters([]))
        report.pushes += fed.batch.count
        there = [fed.batch.count if mask is None else int(np.count_nonzero(mask)) for mask in fed.batch.masks]
        report.events += sum(there) + len(fed.bad)
        tell_plain()
        progress.update(report.events, _share(report.pushes, limit, fed.share))
    write.at_the_end(run.end(), report.pushes)
    report.forgotten = run.engine.forgotten
    write.prepare()
    checkpoint(last=True)


def _done(report: Report, write: Writing, sinks: dict[str, str], progress: Progress, cores: int | None) -> Report:
    report.out, report.written, report.seconds = write.counts, list(sinks), progress.seconds
    if cores is not None and cores > 1:
        report.told.append(f"on one core, not {cores}: by event time the clock is of all keys together")
    return report


def _share(pushes: int, limit: int | None, share: float | None) -> float | None:
    return max(pushes / limit, share or 0.0) if limit else share


def _recorder(piped: bool) -> Recorder:
    from pellucid.capacity.measured.recorder import Recorder

    return Recorder(piped=piped)


@contextlib.contextmanager
def _placed(feed: Feed, fed: Fed) -> Iterator[None]:
    """A step that fails is told with the row it failed on."""
    try:
        yield
    except StepError as error:
        at = error.position - fed.first
        if 0 <= at < fed.batch.count and fed.places:
            where = "; ".join(place.at(at) for place in fed.places)
            raise type(error)(f"{error}\n  from {where}", step=error.step, position=error.position) from None
        raise
