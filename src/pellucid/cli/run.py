"""``pellucid run``: a pipeline over files or pipes, in chunks."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pellucid.address import from_environment
from pellucid.cli.progress import Progress, TellPlain, count_text, rate_text, tell_left_out
from pellucid.cli.repeated import columns, once, renamed
from pellucid.cli.signals import checkpoint
from pellucid.data.tables.bad import FAIL, BadOption, BadRows, said_bad
from pellucid.errors import StepError, UsageError, nearest
from pellucid.secrets import redact

if TYPE_CHECKING:
    from pellucid.cli.spark.run import SparkOptions
    from pellucid.data.columns import Output
    from pellucid.data.feed import Fed, Feed
    from pellucid.data.tables.bad import BadRow
    from pellucid.data.writers import Writer
    from pellucid.engine.kernel.times import StepTime
    from pellucid.graph.model import Graph

_FORMATS = click.Choice(["csv", "tsv", "jsonl", "parquet", "arrow"])


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option(
    "--in",
    "inputs",
    multiple=True,
    metavar="[SOURCE=]FILE",
    help="Events to read: a file, a folder, a pattern such as '2013-*.csv', several in order; - is stdin, the default.",
)
@click.option(
    "--out", "outputs", multiple=True, metavar="[OUTPUT=]FILE", help="Where to write; - is stdout (the default)."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N pushes.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN,…",
    help="Run once for each value of this column, or of several: a,b or --key a --key b.",
)
@click.option("--value", metavar="COLUMN", help="The column that holds the events of a scalar source.")
@click.option(
    "--short",
    type=click.Choice(["fail", "silent"]),
    default="fail",
    show_default=True,
    help="An input that ends before the others.",
)
@click.option(
    "--nan",
    type=click.Choice(["fail", "keep"]),
    default="fail",
    show_default=True,
    help="A NaN in a column of floats: an error, or a value like others.",
)
@click.option("--in-format", type=_FORMATS, help="Instead of the ending of the name; stdin is jsonl.")
@click.option("--out-format", type=_FORMATS, help="Instead of the ending of the name; stdout is jsonl.")
@click.option(
    "--chunk", type=click.IntRange(min=1), default=1 << 17, show_default=True, metavar="N", help="Rows at a time."
)
@click.option(
    "--cores",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many cores to use; by default all, and for the keys of --key as many as pay. The output is the same.",
)
@click.option(
    "--on", "engine", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="Where to run."
)
@click.option(
    "--order",
    multiple=True,
    metavar="COLUMN,…",
    help="The columns that put rows in order: they are sorted by them; two rows of a key with one order are an error.",
)
@click.option(
    "--keep-columns",
    "keep",
    multiple=True,
    metavar="[SOURCE=]COLUMN,…",
    help="Columns of the row that put an event out, as they are; all for all of them.",
)
@click.option(
    "--bad",
    metavar="FILE",
    help="Where rows go that cannot be read, or on which a step fails; else the first of them ends the run.",
)
@click.option("--max-bad", type=click.IntRange(min=0), metavar="N", help="Give up when there are more than N of them.")
@click.option(
    "--time-format",
    "formats",
    multiple=True,
    metavar="COLUMN=FORM",
    help="How times are spelled in a column of texts, if not as in ISO 8601: when='%d/%m/%Y %H:%M'.",
)
@click.option(
    "--master", metavar="URL", help="Spark: the cluster, as in spark://host:7077; all cores of this machine by default."
)
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Spark: a setting of its own.")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="Spark: into how many parts a batch goes.")
@click.option(
    "--exists",
    type=click.Choice(["refuse", "overwrite", "append"]),
    help="An output file that is there already: refuse it (on Spark the default), overwrite it (here), or add to it.",
)
@click.option("--overwrite", is_flag=True, hidden=True)
@click.option("--stream", is_flag=True, help="Spark: a query that goes on as files are added to the input folder.")
@click.option(
    "--checkpoint", metavar="FOLDER", help="Spark, --stream: how far it has come; the same command goes on from there."
)
@click.option("--trigger", metavar="WHEN", help="Spark, --stream: once (all there is, then end), or '10 seconds'.")
@click.option(
    "--late",
    type=click.Choice(["fail", "drop", "keep"]),
    default="fail",
    show_default=True,
    help="A row that comes after a later one, or twice.",
)
@click.option("--wait", metavar="TIME", help="Spark, --stream: hold rows back until the order has gone on by so much.")
@click.option("--sequence", type=int, metavar="N", help="Spark: the order counts up by one from N; a gap is an error.")
@click.option(
    "--gaps",
    type=click.Choice(["fail", "wait"]),
    default="fail",
    show_default=True,
    help="Spark, --stream: if a number is missing.",
)
@click.option(
    "--drop", multiple=True, metavar="STEP", help="Spark, --stream: give up the state of a step that is gone."
)
@click.option(
    "--pushes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Survive crashes: an epoch ends after N pushes (with --state).",
)
@click.option(
    "--every", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Epochs: one ends after so many seconds."
)
@click.option(
    "--state", metavar="FOLDER", help="Epochs: where the run keeps its snapshots; the same command goes on from there."
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Epochs: share the keys among N processes (with --key)."
)
@click.option(
    "--cut", multiple=True, metavar="STEP", help="Epochs: cut the pipeline after this step, into several processes."
)
@click.option("--record", is_flag=True, help="Epochs: record the trace of the run, for pellucid audit.")
@click.option("--snapshots", type=click.IntRange(min=1), metavar="N", help="Epochs: keep the last N of each task (3).")
@click.option(
    "--patience",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Epochs: a task that is busy for longer hangs (120).",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    help="Epochs: give up after N crashes without a new epoch (10).",
)
@click.option(
    "--from-start",
    is_flag=True,
    help="Epochs: if no snapshot is whole any more, or committed rows are lost, read all input again.",
)
@click.option(
    "--changed",
    multiple=True,
    metavar="STEP",
    help="Epochs: go on although what this step's function calls or reads has changed.",
)
@click.option("--json", "as_json", is_flag=True, help="Put a report about the run on stdout.")
@renamed("--engine", "--on")
@renamed("--epochs", "--pushes")
@renamed("--keep", "--snapshots")
def run(
    target: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    limit: int | None,
    keys: tuple[str, ...],
    value: str | None,
    short: str,
    nan: str,
    in_format: str | None,
    out_format: str | None,
    chunk: int,
    cores: int | None,
    engine: str,
    as_json: bool,
    keep: tuple[str, ...],
    formats: tuple[str, ...],
    exists: str | None,
    bad: str | None,
    max_bad: int | None,
    **others: Any,
) -> None:
    """Run a pipeline over events from files (CSV, JSON Lines, Parquet, Arrow; .gz) or from a pipe.

    A scalar source reads the column of its name, the one given by --value, or the only one; a record source reads
    one column for each field. Output files appear whole or not at all.

    With --pushes N --state FOLDER the run survives crashes: sources, workers and sinks are processes, each epoch is
    committed once, and the same command goes on after a kill -9; --out can then also be sqlite:FILE#TABLE or
    postgresql://…#TABLE.

    With --on spark, inputs are files, folders, table:NAME or kafka://HOST/TOPIC, outputs are folders,
    postgresql://…#TABLE, sqlite:FILE#TABLE, delta:FOLDER or kafka://HOST/TOPIC.

    \b
    Examples:
      pellucid run pipeline.py:totals --in events.csv --out totals.parquet
      pellucid run pipeline.py:totals --in trades.parquet --value price --key symbol --limit 1000
      pellucid run pipeline.py:joined --in left=a.csv --in right=b.csv --out joined.jsonl
      seq 1 10 | pellucid run pipeline.py:totals | head -3
      pellucid run pipeline.py:totals --in events.csv --out totals.csv --pushes 10000 --state state/
      pellucid run pipeline.py:totals --on spark --in events.parquet --key user --order seq --out totals.parquet
      pellucid run pipeline.py:totals --on spark --stream --in events/ --key user --order seq \
        --checkpoint state/ --out sqlite:totals.db#totals
    """
    from pellucid.load import load_pipeline

    key = columns(keys, "--key")
    aside = _bad(bad, max_bad)
    p = load_pipeline(target)
    graph = p.graph
    from pellucid.cli.run_epochs import EpochOptions, run_with_epochs
    from pellucid.cli.spark.run import SparkOptions

    if others.pop("overwrite"):
        click.echo("pellucid: --overwrite is called --exists overwrite now", err=True)
        if exists not in (None, "overwrite"):
            raise UsageError(f"--overwrite is called --exists overwrite now, and --exists {exists} is given, too")
        exists = "overwrite"
    epochs = EpochOptions.taken_from(others)
    settings = SparkOptions(verbose=_verbose(), exists=exists if engine == "spark" else None, **others)
    if epochs.wanted(engine):
        if _of_spark(settings):
            raise UsageError(f"--{_of_spark(settings)[0]} goes with --on spark")
        if cores is not None:
            raise UsageError("--cores goes with a run without epochs: here --workers N shares the keys among processes")
        order = columns(settings.order, "--order")
        said = Rows(
            key, order, settings.late, _kept(graph, keep), value, short, nan=nan, formats=_formats(formats), bad=aside
        )
        places = (_files(graph, inputs), _targets(graph, outputs), in_format, out_format)
        run_with_epochs(graph, *places, said, chunk, limit, exists, epochs, as_json)
        return
    if engine == "spark":
        _refuse_local_options()
    order = columns(settings.order, "--order")
    rows = Rows(key, order, settings.late, _kept(graph, keep), value, short, aside, nan, _formats(formats))
    if engine != "spark":
        rows.check()
    sinks = _targets(graph, outputs, extra=["late"] if settings.late == "keep" else [])
    if engine != "spark" and _of_spark(settings):
        raise UsageError(f"--{_of_spark(settings)[0]} goes with --on spark")
    if as_json and "-" in sinks.values():
        raise UsageError("--json puts a report on stdout: send the events to a file with --out")
    stdout = sys.stdout.buffer
    # A user's function may print: stdout belongs to the result.
    with contextlib.redirect_stdout(sys.stderr):
        if engine == "spark":
            from pellucid.cli.spark.run import Places, json_line, run_on_spark

            named = {"keep": rows.keep, "formats": rows.formats, "nan": nan, "bad": aside}
            if aside.address is not None:
                _refuse_bad_place(aside, sinks)
                sinks = {**sinks, "bad": from_environment(aside.address)}
            given = Places(_inputs(graph, inputs), sinks, key, value, in_format, out_format, **named)
            done = run_on_spark(p, given, settings, stdout)
        else:
            report = _run(
                graph, _files(graph, inputs), sinks, limit, rows, in_format, out_format, exists or "overwrite", chunk,
                cores, stdout,
            )  # fmt: skip
    if engine == "spark":
        click.echo(done.line(), err=True)
        if as_json:
            click.echo(json_line(done))
        return
    if not as_json:
        tell_left_out([name for name, _ in graph.outputs], sinks)
    for line in report.told:
        click.echo(line, err=True)
    click.echo(report.line(), err=True)
    if as_json:
        click.echo(json.dumps({"pellucid": 1, "verb": "run", **report.document(graph.name, inputs or ("-",), sinks)}))


def _of_spark(settings: SparkOptions) -> list[str]:
    """The options that were given and that only Spark has."""
    return [name for name in settings.given() if name not in ("order", "late")]


@dataclass(frozen=True)
class Rows:
    """What is said of the rows: their key, their order, what comes along, the column of a scalar."""

    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    late: str = "fail"
    keep: Any = ()
    value: str | None = None
    short: str = "fail"
    bad: BadOption = FAIL
    nan: str = "fail"
    formats: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what only Spark has."""
        if self.late == "fail":
            return
        if not self.order:
            raise UsageError(f"--late {self.late} needs --order, the columns that say which row comes first")
        from pellucid.data.tables.lineup import check_late

        check_late(self.late)


@dataclass
class _Report:
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

    @property
    def rate(self) -> float:
        return self.pushes / self.seconds if self.seconds > 0 else 0.0

    def line(self) -> str:
        """One line for a person."""
        out = sum(self.out[name] for name in self.written)
        bad = "" if self.bad is None else f", {self.bad:,} bad"
        forgotten = f", {count_text(sum(self.forgotten.values()), 'key')} forgotten" if self.forgotten else ""
        return f"{self.pushes:,} in, {out:,} out{bad}{forgotten}, {self.seconds:.2f} s, {rate_text(self.rate)}"

    def document(self, name: str, inputs: tuple[str, ...], sinks: dict[str, str]) -> dict[str, Any]:
        """The same for a program."""
        steps = {"steps": [step.document() for step in self.steps]} if self.steps else {}
        return steps | {
            "pipeline": name,
            "in": [redact(path) for path in inputs],
            "out": {output: redact(path) for output, path in sinks.items()},
            "pushes": self.pushes,
            "events_out": self.out,
            "cores": self.cores,
            **({} if self.bad is None else {"bad": self.bad}),
            **({"forgotten": self.forgotten} if self.forgotten else {}),
            "seconds": round(self.seconds, 6),
            "events_per_second": round(self.rate, 1),
        }


def _run(
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
) -> _Report:
    # Heavy imports only here, so that --help and a wrong name answer at once.
    import pyarrow as pa

    from pellucid.data.feed import Feed
    from pellucid.data.files import flows, open_reader, paths_of
    from pellucid.data.formats.ahead import ahead
    from pellucid.data.writers import refuse_same_file
    from pellucid.engine.cores import OnCores, cores_here
    from pellucid.engine.kernel.engine import plain_reasons

    verbose = _verbose()
    _refuse_bad_place(rows.bad, sinks)
    for path in [*sinks.values(), *([rows.bad.address] if rows.bad.address else [])]:
        refuse_same_file(path, [one for given in inputs.values() for one in paths_of(given)])
    progress, report = Progress(), _Report()
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
            pipes = any(one == "-" or flows(one) for given in inputs.values() for one in paths_of(given))
            again = None if pipes else lambda reader: open_reader(places[id(reader)], in_format)
            feed = Feed(
                graph, readers, value=rows.value, key=rows.key, rows=chunk, limit=limit, short=rows.short,
                order=rows.order, late=rows.late, keep=rows.keep, nan=rows.nan, formats=rows.formats, again=again,
                lenient=bool(rows.bad),
            )  # fmt: skip
            engine = OnCores(
                graph, key=feed.key_type, cores=cores, one_key=feed.one_key, timed=verbose or bool(plain_reasons(graph))
            )
            tell_plain = TellPlain(engine.why_plain, [step.id for step, _, _ in plain_reasons(graph)])
            write = _Writing(graph, sinks, out_format, exists, feed, stdout, stack)
            write.open_bad(rows.bad, exists, stack)
            several = (cores or cores_here()) > 1 and not pipes
            for fed in stack.enter_context(ahead(feed)) if several else feed:
                checkpoint()
                failed: list[StepError] | None = [] if rows.bad else None
                results: list[Output] = []
                if fed.batch.count:
                    with _placed(feed, fed):
                        results = engine.push_batch(fed.batch, positions=write.needs_positions, failed=failed)
                    write(results, fed)
                if failed or fed.bad:
                    write.set_aside(fed.letters(failed or []))
                report.pushes += fed.batch.count
                tell_plain({step.step: step.share for step in engine.times.steps()})
                if not verbose:
                    engine.stop_timing()
                progress.update(report.pushes, _share(report.pushes, limit, fed.share))
                del fed, results  # while the next ones are read
            write.prepare()
            checkpoint()
    finally:
        progress.clear()
    report.out, report.written, report.seconds = write.counts, list(sinks), progress.seconds
    report.bad = write.bad.count if rows.bad else None
    report.cores = engine.cores
    if cores is not None and cores > engine.cores:
        report.told.append(f"on one core, not {cores}: {engine.why_one}")
    if verbose:
        from pellucid.cli.explain import step_lines

        report.steps = engine.times.steps()
        report.told += step_lines(engine, report.seconds)
    report.forgotten = engine.forgotten
    return report


def _bad(bad: str | None, most: int | None) -> BadOption:
    """What ``--bad`` and ``--max-bad`` say."""
    if bad == "keep":
        raise UsageError("--bad keep: here rows that are set aside go to a file: give its name, as in --bad bad.csv")
    if bad in ("-", ""):
        raise UsageError(f"--bad {bad or repr(bad)}: expected the name of a file, as in --bad bad.csv")
    return said_bad(bad, most)


def _refuse_bad_place(bad: BadOption, sinks: dict[str, str]) -> None:
    for name, path in sinks.items():
        if bad.address is not None and os.path.realpath(bad.address) == os.path.realpath(path):
            raise UsageError(f"--bad {bad.address}: is where the output {name!r} goes: give another file")


def _share(pushes: int, limit: int | None, share: float | None) -> float | None:
    return max(pushes / limit, share or 0.0) if limit else share


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


class _Writing:
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
        from pellucid.data.writers import open_writer

        key = feed.key
        types = {name: graph.nodes[i].type for name, i in graph.outputs}
        self.counts = dict.fromkeys(types, 0)
        self._key, self._along = key, feed.along
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
            from pellucid.data.tables.bad import schema
            from pellucid.data.writers import open_writer

            self._letters = stack.enter_context(open_writer(bad.address, schema(), None, exists=exists))

    def set_aside(self, rows: list[BadRow]) -> None:
        """Write rows down that were not pushed."""
        from pellucid.data.tables.bad import table_of

        self.bad.add(rows)
        self._letters.write(table_of(rows))

    def __call__(self, outputs: list[Output], fed: Fed) -> None:
        import numpy as np

        lines: list[tuple[int, int, str]] = []
        for at, output in enumerate(outputs):
            self.counts[output.name] += len(output)
            if output.name not in self._writers or not len(output):
                continue
            rows = np.asarray(output.positions, dtype=np.int64) - fed.first if self._along else ()
            batch = self._along.batch(output, self._key, fed.along, rows, self._schemas[output.name])
            if output.name in self._shared:
                texts = _shared_lines(output.name, batch)
                lines += [(int(p), at, text) for p, text in zip(output.positions, texts, strict=True)]
            else:
                self._writers[output.name].write(batch)
        if lines:
            lines.sort(key=lambda line: line[:2])
            self._writers[self._shared[0]].write_lines([text for _, _, text in lines])

    def prepare(self) -> None:
        """Finish every file before the first takes its name: all of them appear, or none."""
        for writer in [*self._writers.values(), *([self._letters] if self._letters is not None else [])]:
            writer.prepare()


def _shared_lines(name: str, batch: Any) -> list[str]:
    """Lines that say which output they are of: ``{"sums": 3}``, ``{"trades": {"price": 1.5}}``."""
    from pellucid.data.writers import json_texts

    names = batch.schema.names
    columns = [json_texts(column, n) for n, column in zip(names, batch.columns, strict=True)]
    label = json.dumps(name)
    if names == [name]:
        return [f"{{{label}: {text}}}" for text in columns[0]]
    form = f"{{{label}: {{" + ", ".join(json.dumps(n).replace("%", "%%") + ": %s" for n in names) + "}}"
    return [form % row for row in zip(*columns, strict=True)]


def _split(text: str, known: list[str], what: str, graph: str) -> tuple[str | None, str]:
    """``NAME=FILE`` or just ``FILE``."""
    name, equals, path = text.partition("=")
    if equals and name in known:
        return name, path
    if equals and name.isidentifier():
        raise UsageError(f"{graph} has no {what} {name!r}: it has {', '.join(known)}{nearest(name, known)}")
    return None, text


def _files(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str | tuple[str, ...]]:
    """The files of each source; several for one are read one after the other."""
    sources = [graph.nodes[i].id for i in graph.sources]
    parted: dict[str | None, list[str]] = {}
    for text in given:
        name, path = _split(text, sources, "source", graph.name)
        parted.setdefault(name, []).append(path)
    if len(parted) == 1 and None in parted and len(sources) == 1 and len(given) > 1:
        return {None: tuple(parted[None])}
    once = tuple(f"{name}={paths[0]}" if name is not None else paths[0] for name, paths in parted.items())
    alone = _inputs(graph, once if None not in parted or len(parted[None]) == 1 else given)
    return {name: tuple(parted[name]) if len(parted.get(name, ())) > 1 else path for name, path in alone.items()}


def _inputs(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str]:
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


def _kept(graph: Graph, given: tuple[str, ...]) -> Any:
    """What ``--keep-columns`` says: names, all, or either for each source."""
    from pellucid.data.tables.keep import said_keep

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


def _formats(given: tuple[str, ...]) -> dict[str, str]:
    """What ``--time-format`` says: the form of each column."""
    pairs = []
    for text in given:
        column, equals, form = text.partition("=")
        if not equals or not column.strip():
            raise UsageError(f"--time-format {text}: expected COLUMN=FORM, as in --time-format 'when=%d/%m/%Y %H:%M'")
        pairs.append((column.strip(), form))
    return once(pairs, "--time-format")


def _refuse_local_options() -> None:
    """Options that only the local engine has."""
    context = click.get_current_context()
    reasons = {
        "limit": "Spark has no first rows",
        "chunk": "Spark chooses how many rows go at a time",
        "cores": "Spark uses those of --master",
        "short": "on Spark the rows of several inputs are lined up by --order, not by their number",
    }
    for name, why in reasons.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name} goes with the local engine: {why}")


def _verbose() -> bool:
    context = click.get_current_context()
    return bool(context.find_root().params.get("verbose"))


def _targets(graph: Graph, given: tuple[str, ...], extra: list[str] | None = None) -> dict[str, str]:
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
            raise UsageError(f"with several --out say which each is for, as in --out {names[0]}={path}")
        if name in out or (path in out.values() and path != "-"):
            raise UsageError(f"--out {name}={path}: an output and a file go together only once")
        out[name] = path
    return out
