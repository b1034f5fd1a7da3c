"""What ``pellucid run`` does on this machine: ``given`` reads the options, ``local`` runs over files and pipes and
``writing`` writes what comes out, ``epochs`` is the run that survives ``kill -9``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import StepError, UsageError, nearest
from pellucid.internal.address import Address, epochs_of, from_environment
from pellucid.internal.cli.signals import checkpoint, stopping_means
from pellucid.internal.cli.terminal import Progress, TellPlain, columns, count_text, once, rate_text, tell
from pellucid.internal.data.bind import BadOption, BadRows
from pellucid.internal.secrets import redact
from pellucid.sinks.interface import is_folder

if TYPE_CHECKING:
    from pellucid.capacity.measured.read import Recorder
    from pellucid.internal.data.bind import BadRow
    from pellucid.internal.data.columns import Output
    from pellucid.internal.data.feed import Fed, Feed
    from pellucid.internal.data.outputs import Writer
    from pellucid.internal.engine.epochs.coordinator import Report
    from pellucid.internal.engine.kernel.engine import StepTime
    from pellucid.internal.graph.model import Graph
    from pellucid.internal.request import Request

# What the options of ``pellucid run`` say: which file is for which source, and how rows are read.


def refuse_bad_place(bad: BadOption, sinks: dict[str, str]) -> None:
    """Refuse to write bad rows where an output goes."""
    for name, path in sinks.items():
        if bad.address is not None and os.path.realpath(bad.address) == os.path.realpath(path):
            raise UsageError(f"--bad {bad.address}: is where the output {name!r} goes: give another file")


def files_given(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str | tuple[str, ...]]:
    """The files of each source; several for one are read one after the other."""
    sources = [graph.nodes[i].id for i in graph.sources]
    parted: dict[str | None, list[str]] = {}
    for text in given:
        name, path = _split(text, sources, "source", graph.name)
        parted.setdefault(name, []).append(path)
    if len(parted) == 1 and None in parted and len(sources) == 1 and len(given) > 1:
        return {None: tuple(parted[None])}
    once = tuple(f"{name}={paths[0]}" if name is not None else paths[0] for name, paths in parted.items())
    alone = inputs_given(graph, once if None not in parted or len(parted[None]) == 1 else given)
    return {name: tuple(parted[name]) if len(parted.get(name, ())) > 1 else path for name, path in alone.items()}


def refuse_epochs(graph: Graph, given: tuple[str, ...]) -> None:
    """Refuse the rows of another run where what depends on them is not kept."""
    sources = [graph.nodes[i].id for i in graph.sources]
    for _, path in [_split(text, sources, "source", graph.name) for text in given]:
        if epochs_of(path) is not None:
            raise UsageError(
                f"--in {path}: the rows of another run are read by a run with epochs, which can undo what depends on "
                "them: give --epoch-size N (or --every SECONDS) and --state FOLDER"
            )


def inputs_given(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str]:
    sources = [graph.nodes[i].id for i in graph.sources]
    pairs = [_split(text, sources, "source", graph.name) for text in given or ("-",)]
    if len(pairs) == 1:
        return dict(pairs)
    out: dict[str | None, str] = {}
    for name, path in pairs:
        if name is None:
            raise UsageError(
                f"{graph.name} has {count_text(len(sources), 'source')} ({', '.join(sources)}): with several --in say "
                f"which each is for, as in --in {sources[0]}={path}"
            )
        if name in out:
            raise UsageError(f"the source {name!r} has two inputs: {out[name]} and {path}")
        out[name] = path
    if list(out.values()).count("-") > 1:
        raise UsageError("only one source can read the standard input")
    return out


def targets_given(graph: Graph, given: tuple[str, ...], extra: list[str] | None = None) -> dict[str, str]:
    names = [*[name for name, _ in graph.outputs], *(extra or [])]
    pairs = [_split(text, names, "output", graph.name) for text in given or ("-",)]
    pairs = [(name, from_environment(path)) for name, path in pairs]
    if len(pairs) == 1 and pairs[0][0] is None:
        path = pairs[0][1]
        if len(names) == 1 or path == "-":
            return dict.fromkeys(names, path)
        raise UsageError(
            f"{graph.name} has {count_text(len(names), 'output')} ({', '.join(names)}): give a file for each, as in "
            f"--out {names[0]}={path}"
        )
    out: dict[str, str] = {}
    for name, path in pairs:
        if name is None:
            raise UsageError(_which_each(names, path))
        if name in out or (path in out.values() and path != "-"):
            raise UsageError(f"--out {name}={path}: an output and a file go together only once")
        out[name] = path
    return out


def _which_each(names: list[str], path: str) -> str:
    """What to do about several ``--out`` that do not say whose rows they get."""
    if len(names) > 1:
        return f"with several --out say which each is for, as in --out {names[0]}={path}"
    return (
        f"--out {path}: there is one output ({names[0]}), and several targets are given: a run with epochs writes it "
        "to all of them (--epoch-size N --state FOLDER), and so does a query (--on spark --stream); else give one --out"
    )


def refuse_no_file(out_format: str | None, places: Mapping[str, str], *, folders: bool = False) -> None:
    """``--out-format`` is of files: refused where there is none, since it would have no effect (``folders``: a folder
    can be written to).

    >>> refuse_no_file("csv", {"hot": "sqlite:shop.db#hot", "cold": "cold.csv"})
    >>> refuse_no_file("csv", {"out": "archive/"}, folders=True)
    Traceback (most recent call last):
    pellucid.errors.UsageError: --out-format csv: no output is a file: a table has no format, and a folder is Parquet
    """
    if out_format is not None and all(_is_table(place, folders) for place in places.values()):
        raise UsageError(
            f"--out-format {out_format}: no output is a file: a table has no format, and a folder is Parquet"
        )


def _is_table(place: str, folders: bool) -> bool:
    return bool(Address.of(place).kind) or (folders and is_folder(place))


def members_given(
    graph: Graph, given: tuple[str, ...], extra: list[str] | None = None, *, folders: bool = False
) -> tuple[dict[str, str], dict[str, str] | None]:
    """The targets of a run with epochs or of a query, and if they are several of which one is a table (or a folder, if
    ``folders``), whose rows each gets: then an epoch is in all of them, or in none.

    >>> from pellucid import pipeline
    >>> members_given(pipeline(lambda x: x.trim(1), x=int).graph, ("a.csv", "sqlite:b.db#t"))
    ({'out-1': 'a.csv', 'out-2': 'sqlite:b.db#t'}, {'out-1': 'out', 'out-2': 'out'})
    """
    names = [*[name for name, _ in graph.outputs], *(extra or [])]
    pairs = [_split(text, names, "output", graph.name) for text in given]
    if len(pairs) > 1 and len(names) == 1 and all(name is None for name, _ in pairs):
        places = [from_environment(path) for _, path in pairs]
        for place in places:
            if places.count(place) > 1:
                raise UsageError(f"--out {place}: is given twice: an output and a target go together only once")
        found = {f"{names[0]}-{i}": place for i, place in enumerate(places, 1)}
        return found, dict.fromkeys(found, names[0])
    found = targets_given(graph, given, extra)
    several = len(found) > 1 and any(_is_table(place, folders) for place in found.values())
    return found, {name: name for name in found} if several else None


def _split(text: str, known: list[str], what: str, graph: str) -> tuple[str | None, str]:
    """``NAME=FILE`` or just ``FILE``."""
    name, equals, path = text.partition("=")
    if equals and name in known:
        return name, path
    if equals and name.isidentifier():
        raise UsageError(f"{graph} has no {what} {name!r}: it has {', '.join(known)}{nearest(name, known)}")
    return None, text


def kept_given(graph: Graph, given: tuple[str, ...]) -> Any:
    """What ``--keep-columns`` says: names, all, or either for each source."""
    from pellucid.internal.data.bind import said_keep

    sources = [graph.nodes[i].id for i in graph.sources]
    parted: dict[str | None, list[str]] = {}
    for text in given:
        name, equals, rest = text.partition("=")
        mine, rest = (name, rest) if equals and name in sources else (None, text)
        parted.setdefault(mine, []).append(rest)
    said = {mine: True if texts == ["all"] else columns(texts, "--keep-columns") for mine, texts in parted.items()}
    if None in said and len(said) > 1:
        raise UsageError(
            f"--keep-columns: say of which source each is ({', '.join(sources)}), as in --keep-columns {sources[0]}=all"
        )
    return said_keep(said.get(None, said), who="--keep-columns")


def formats_given(given: tuple[str, ...]) -> dict[str, str]:
    """What ``--time-format`` says: the form of each column."""
    pairs = []
    for text in given:
        column, equals, form = text.partition("=")
        if not equals or not column.strip():
            raise UsageError(f"--time-format {text}: expected COLUMN=FORM, as in --time-format 'when=%d/%m/%Y %H:%M'")
        pairs.append((column.strip(), form))
    return once(pairs, "--time-format")


# The outputs of a run over files: written as they come, and there whole or not at all.


class Writing:
    """The writers of all outputs; several outputs on stdout share its lines, in the order of the pushes."""

    def __init__(
        self,
        graph: Graph,
        sinks: dict[str, str],
        out_format: str | None,
        exists: str,
        feed: Feed,
        stdout: Any,
        stack: contextlib.ExitStack,
    ) -> None:
        from pellucid.internal.data.outputs import open_writer

        key = feed.key
        types = {name: graph.nodes[i].type for name, i in graph.outputs}
        self.counts = dict.fromkeys(types, 0)
        self._key, self._along, self._timed = key, feed.along, graph.timed
        self._schemas = {name: feed.along.schema(types[name], name, key) for name in sinks}
        shared = [name for name, path in sinks.items() if path == "-"]
        self._shared = shared if len(shared) > 1 else []
        if self._shared and out_format not in (None, "jsonl"):
            raise UsageError(f"{graph.name} has several outputs: on stdout only jsonl can hold them together")
        self.needs_positions = bool(self._shared) or bool(key) or bool(feed.along)
        self._letters: Any = None
        self._writers: dict[str, Writer] = {}
        for name, path in sinks.items():
            if name in self._shared and name != self._shared[0]:
                self._writers[name] = self._writers[self._shared[0]]
                continue
            writer = open_writer(path, self._schemas[name], out_format, stdout=stdout, exists=exists)
            self._writers[name] = stack.enter_context(writer)

    def open_bad(self, bad: BadOption, exists: str, stack: contextlib.ExitStack) -> None:
        """Where rows go that are set aside: beside the outputs, and with them whole or not at all."""
        self.bad = BadRows(bad.most)
        if bad.address is not None:
            from pellucid.internal.data.bind import schema
            from pellucid.internal.data.outputs import open_writer

            self._letters = stack.enter_context(open_writer(bad.address, schema(), None, exists=exists))

    def set_aside(self, rows: list[BadRow]) -> None:
        """Write rows down that were not pushed."""
        from pellucid.internal.data.bind import table_of

        self.bad.add(rows)
        self._letters.write(table_of(rows))

    def __call__(self, outputs: list[Output], fed: Fed | None) -> None:
        import numpy as np

        lines: list[tuple[int, int, str]] = []
        ready: list[tuple[str, Any]] = []  # written when all of them are whole
        for at, output in enumerate(outputs):
            self.counts[output.name] += len(output)
            if output.name not in self._writers or not len(output):
                continue
            rows: Any = ()
            if self._along and fed is not None:
                rows = np.asarray(output.positions, dtype=np.int64) - fed.first
            along = fed.along if fed is not None else {}
            where = _where(output, fed) if fed is not None and not self._timed else None
            batch = self._along.batch(output, self._key, along, rows, self._schemas[output.name], where)
            if output.name in self._shared:
                texts = _shared_lines(output.name, batch)
                lines += [(int(p), at, text) for p, text in zip(output.positions, texts, strict=True)]
            else:
                ready.append((output.name, batch))
        for name, batch in ready:
            self._writers[name].write(batch)
        if lines:
            lines.sort(key=lambda line: line[:2])
            self._writers[self._shared[0]].write_lines([text for _, _, text in lines])

    def at_the_end(self, outputs: list[Output], pushes: int) -> None:
        """Write what the end of the input puts out, after so many pushes."""
        import numpy as np

        for output in outputs:
            output.positions = np.full(len(output), pushes, dtype=np.int64)
        self(outputs, None)

    def prepare(self) -> None:
        """Finish every file before the first takes its name: all of them appear, or none."""
        for writer in [*self._writers.values(), *([self._letters] if self._letters is not None else [])]:
            writer.prepare()


def _where(output: Output, fed: Fed) -> Callable[[int], str]:
    """Names the rows whose push put the i-th event out."""

    def at(i: int) -> str:
        push = int(output.positions[i]) - fed.first
        return "; ".join(place.at(push) for place in fed.places)

    return at


def _shared_lines(name: str, batch: Any) -> list[str]:
    """Lines that say which output they are of: ``{"sums": 3}``, ``{"trades": {"price": 1.5}}``."""
    from pellucid.internal.data.outputs import json_texts

    names = batch.schema.names
    columns = [json_texts(column, n) for n, column in zip(names, batch.columns, strict=True)]
    label = json.dumps(name)
    if names == [name]:
        return [f"{{{label}: {text}}}" for text in columns[0]]
    form = f"{{{label}: {{" + ", ".join(json.dumps(n).replace("%", "%%") + ": %s" for n in names) + "}}"
    return [form % row for row in zip(*columns, strict=True)]


# A run over files or pipes on this machine, in chunks.


@dataclass
class LocalReport:
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
    request: Request,
    stdout: Any,
    *,
    verbose: bool,
) -> LocalReport:
    """Read, push and write, chunk by chunk; the output files appear at the end, all of them or none; ``measure`` is a
    file for what `pellucid.capacity.measured` reads."""
    # Heavy imports only here, so that --help and a wrong name answer at once.
    import pyarrow as pa

    from pellucid.internal.base.files import write_whole
    from pellucid.internal.data.feed import Feed, ahead
    from pellucid.internal.data.files import flows, open_reader, paths_of
    from pellucid.internal.data.outputs import refuse_same_file
    from pellucid.internal.engine.in_memory import OnCores, cores_here
    from pellucid.internal.engine.kernel.engine import plain_reasons

    bad, limit, cores, measure = request.aside, request.limit, request.cores, request.measure
    exists, out_format = request.exists or "overwrite", request.out_format
    refuse_bad_place(bad, sinks)
    paths = [one for given in inputs.values() for one in paths_of(given)]
    for path in [*sinks.values(), *(extra for extra in (bad.address, measure) if extra)]:
        refuse_same_file(path, paths)
    progress, report = Progress(), LocalReport()
    try:
        with contextlib.ExitStack() as stack:
            if cores is not None:  # Arrow has threads of its own
                stack.callback(pa.set_cpu_count, pa.cpu_count())
                pa.set_cpu_count(cores)
            readers = {}
            for source, given in inputs.items():
                reader = open_reader(given, request.in_format, idle=checkpoint)
                readers[source] = stack.enter_context(contextlib.closing(reader))
            places = {id(reader): inputs[source] for source, reader in readers.items()}
            pipes = any(one == "-" or flows(one) for one in paths)
            again = None if pipes else lambda reader: open_reader(places[id(reader)], request.in_format)
            feed = Feed(
                graph, readers, value=request.value, key=request.key, rows=request.chunk, limit=limit,
                short=request.short, order=request.order, late=request.late, keep=request.keep, nan=request.nan,
                formats=request.time_format, again=again, nulls=request.nulls, lenient=bool(bad),
            )  # fmt: skip
            if graph.timed:
                write = Writing(graph, sinks, out_format, exists, feed, stdout, stack)
                write.open_bad(bad, exists, stack)
                _by_time(graph, feed, write, progress, report, limit)
                report.bad = write.bad.count if bad else None
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
            write.open_bad(bad, exists, stack)
            several = (cores or cores_here()) > 1 and not pipes
            for fed in stack.enter_context(ahead(feed)) if several else feed:
                checkpoint()
                failed: list[StepError] | None = [] if bad else None
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
    report.bad = write.bad.count if bad else None
    report.cores = engine.cores
    if cores is not None and cores > engine.cores:
        report.told.append(f"on one core, not {cores}: {engine.why_one}")
    if verbose:
        from pellucid.internal.cli.show import step_lines

        report.steps = engine.times.steps()
        report.told += step_lines(engine, report.seconds)
    report.forgotten = engine.forgotten
    if measure is not None and recorder is not None:
        steps = [{**step.document(), "seconds": round(step.seconds, 6)} for step in engine.times.steps()]
        found = recorder.document(graph.name, report.pushes, steps, report.out, engine.cores)
        write_whole(measure, json.dumps(found, indent=1) + "\n")
    return report


def _by_time(
    graph: Graph, feed: Feed, write: Writing, progress: Progress, report: LocalReport, limit: int | None
) -> None:
    """A pipeline by event time: what is read is one batch, which knows all rows, and then the end of the input."""
    import numpy as np

    from pellucid.internal.engine.timed.engine import Finite

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


def _done(
    report: LocalReport, write: Writing, sinks: dict[str, str], progress: Progress, cores: int | None
) -> LocalReport:
    report.out, report.written, report.seconds = write.counts, list(sinks), progress.seconds
    if cores is not None and cores > 1:
        report.told.append(f"on one core, not {cores}: by event time the clock is of all keys together")
    return report


def _share(pushes: int, limit: int | None, share: float | None) -> float | None:
    return max(pushes / limit, share or 0.0) if limit else share


def _recorder(piped: bool) -> Recorder:
    from pellucid.capacity.measured.read import Recorder

    return Recorder(piped=piped)


@contextlib.contextmanager
def _placed(feed: Feed, fed: Fed) -> Iterator[None]:
    """A step that fails is reported with the row it failed on."""
    try:
        yield
    except StepError as error:
        at = error.position - fed.first
        if 0 <= at < fed.batch.count and fed.places:
            where = "; ".join(place.at(at) for place in fed.places)
            raise type(error)(f"{error}\n  from {where}", step=error.step, position=error.position) from None
        raise


# ``pellucid run --epoch-size``: the options, the line of progress and the report; the work is `engine.epochs`.


def run_with_epochs(
    graph: Graph,
    inputs: dict[str | None, str | tuple[str, ...]],
    outputs: dict[str, str],
    request: Request,
    as_json: bool,
    members: dict[str, str] | None = None,
) -> None:
    """Run, say what happened, and how to resume."""
    from pellucid.internal.engine.epochs import run_request
    from pellucid.internal.engine.explain import why_plain

    progress = _Progress()
    progress.tell_plain = TellPlain(why_plain(graph))

    def say(text: str) -> None:
        progress.clear()
        tell(text)

    assert request.state is not None
    drops = stopping_means("the epoch that was open is dropped; the same command goes on")
    try:
        with contextlib.redirect_stdout(sys.stderr), drops:
            report = run_request(
                graph, inputs, outputs, request, request.state, say=say, progress=progress.show, idle=checkpoint,
                members=members,
            )  # fmt: skip
    finally:
        progress.clear()
    progress.tell_plain()
    tell(_line(report, members))
    if as_json:
        click.echo(
            json.dumps({"pellucid": 1, "verb": "run", **_document(graph.name, inputs, outputs, request.state, report)})
        )


class _Progress(Progress):
    """The usual line, with the epoch."""

    tell_plain = TellPlain(None)

    def show(self, events: int, share: float | None, epoch: int) -> None:
        """Draw it again, if it is time to."""
        if events:
            self.tell_plain()
        self.label = f"epoch {epoch:,}"
        self.update(events, share)


def _line(report: Report, members: dict[str, str] | None = None) -> str:
    """One line for a person; of a run that went on, what is of all of it and what is of this command, each said."""
    new, again = report.pushes - report.began_at, report.resumed_from is not None
    words = ["pushes in", "rows out"] if again else ["in", "out"]
    parts = [f"{report.pushes:,} {words[0]}", f"{_rows_out(report.rows, members)} {words[1]}"]
    parts.append(count_text(report.epochs, "epoch"))
    if report.bad is not None:
        parts.insert(2, f"{report.bad:,} bad")
    if report.forgotten:
        parts.insert(2, f"{count_text(sum(report.forgotten.values()), 'key')} forgotten")
    if report.late:
        parts.insert(2, f"{sum(report.late.values()):,} late")
    now = [f"{report.seconds:.2f} s", rate_text(report.rate)]
    if report.recoveries:
        now.insert(0, f"{report.recoveries} recover{'y' if report.recoveries == 1 else 'ies'}")
    if report.undone:
        now.insert(0, f"undone {report.undone} time{'s' * (report.undone > 1)}")
    if not again:
        return ", ".join([*parts, *now])
    since = f"now, after epoch {report.resumed_from:,}"
    return f"in all {', '.join(parts)}; {since}: {', '.join([f'{new:,} pushes in', *now])}"


def _rows_out(rows: dict[str, int], members: dict[str, str] | None) -> str:
    """How many rows came out, those of an output that several members take once; each where they differ.

    >>> _rows_out({"a": 5, "b": 5, "c": 2}, {"a": "x", "b": "x", "c": "y"}), _rows_out({"x": 5, "y": 2}, None)
    ('7', '7')
    >>> _rows_out({"a": 5, "b": 4}, {"a": "x", "b": "x"})
    '5 (a: 5, b: 4)'
    """
    takes, most, differ = members or {}, dict[str, int](), False
    for name, many in rows.items():
        output = takes.get(name, name)
        differ |= most.get(output, many) != many
        most[output] = max(most.get(output, 0), many)
    each = f" ({', '.join(f'{name}: {many:,}' for name, many in rows.items())})" if differ else ""
    return f"{sum(most.values()):,}{each}"


def _document(
    name: str, inputs: dict[str | None, str | tuple[str, ...]], outputs: dict[str, str], state: str, report: Report
) -> dict[str, Any]:
    return {
        "pipeline": name,
        "in": [redact(one) for path in inputs.values() for one in ([path] if isinstance(path, str) else path)],
        "out": {output: redact(place) for output, place in outputs.items()},
        "state": state,
        "pushes": report.pushes,
        "pushes_now": report.pushes - report.began_at,
        "events_out": report.rows,
        **({} if report.bad is None else {"bad": report.bad}),
        **({"forgotten": report.forgotten} if report.forgotten else {}),
        **({"late": report.late} if report.late else {}),
        "epochs": report.epochs,
        "resumed_from": report.resumed_from,
        "recoveries": report.recoveries,
        **({"undone": report.undone} if report.undone else {}),
        "recovery_seconds": [round(s, 6) for s in report.recovery_seconds],
        "trace": report.trace,
        "seconds": round(report.seconds, 6),
        "events_per_second": round(report.rate, 1),
    }
