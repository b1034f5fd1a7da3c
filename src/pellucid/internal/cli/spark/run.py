"""``pellucid run --on spark``: the same pipeline as a Spark job, over files or tables, or as a never-ending query.

What can be known to be wrong without Spark is told before Spark starts, which takes seconds.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import DataError, UsageError
from pellucid.internal.cli.progress import TellPlain, tell, tell_left_out
from pellucid.internal.cli.repeated import columns, once
from pellucid.internal.cli.spark.options import SparkOptions
from pellucid.internal.cli.spark.places import format_of, reader, refuse_unwritable, target
from pellucid.internal.data.formats.missing import check_nulls, missing_in
from pellucid.internal.data.tables.bad import FAIL, BadOption
from pellucid.internal.graph.memory import refuse_answer_names
from pellucid.internal.secrets import redact
from pellucid.sinks.address import absolute
from pellucid.spark.api import kept_names, refuse_keep, refuse_letter_names
from pellucid.spark.failure import explain
from pellucid.spark.files.columns import remember, remembered
from pellucid.spark.files.csv import refuse_streamed_words, wanted_of
from pellucid.spark.files.json import json_text
from pellucid.spark.job import BAD

if TYPE_CHECKING:
    from pellucid.internal.expr.types import Type
    from pellucid.internal.graph.model import Graph
    from pellucid.internal.pipeline import Pipeline
    from pellucid.spark.plan import SparkPlan


@dataclass(frozen=True)
class Places:
    """What is read and written, and what the columns mean."""

    inputs: Mapping[str | None, str] = field(repr=False)  # may have a password in them
    outputs: Mapping[str, str] = field(repr=False)
    key: tuple[str, ...] = ()
    value: str | None = None
    in_format: str | None = None
    out_format: str | None = None
    nan: str = "fail"
    keep: Any = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    nulls: tuple[str, ...] = ()
    bad: BadOption = FAIL
    members: Mapping[str, str] | None = None  # targets that commit together, and whose rows each gets

    def form_of(self, output: str) -> str | None:
        """The format that was said for an output; rows that are set aside have that of their file."""
        return None if self.bad and output == BAD else self.out_format


@dataclass
class SparkReport:
    """What a run on Spark did."""

    pipeline: str
    plan: str
    inputs: list[str]
    out: dict[str, str]
    rows_out: int = 0
    seconds: float = 0.0
    rows_in: int | None = None  # of a query; a batch does not count what it reads
    batches: int | None = None
    stopped: bool | None = None
    bad: int | None = None  # rows that were set aside
    forgets: bool = False  # keys are given up, and nobody counts them: what holds them is on the executors

    def line(self) -> str:
        """One line for a person.

        >>> SparkReport("totals", "keys", ["in"], {"out": "out"}, 12, 3.4, rows_in=12, batches=2, stopped=True).line()
        'on Spark (keys), 2 micro-batches, 12 in, 12 out, 3.40 s; stopped: the same command goes on from there'
        >>> SparkReport("visits", "one", ["in"], {"out": "out"}, 12, 3.4, forgets=True).line()
        'on Spark (one), 12 out, forgotten keys not counted, 3.40 s'
        """
        parts = [f"on Spark ({self.plan})"]
        if self.batches is not None:
            parts.append(f"{self.batches:,} micro-batch{'es' * (self.batches != 1)}")
        if self.rows_in is not None:
            parts.append(f"{self.rows_in:,} in")
        parts += [f"{self.rows_out:,} out", *([] if self.bad is None else [f"{self.bad:,} bad"])]
        parts += ["forgotten keys not counted"] if self.forgets else []
        parts.append(f"{self.seconds:.2f} s")
        return ", ".join(parts) + ("; stopped: the same command goes on from there" if self.stopped else "")

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        made: dict[str, Any] = {
            "engine": "spark",
            "pipeline": self.pipeline,
            "plan": self.plan,
            "in": self.inputs,
            "out": self.out,
        }
        counts = {k: getattr(self, k) for k in ("rows_in", "rows_out", "bad", "batches", "stopped")}
        made |= {"forgotten": None} if self.forgets else {}
        return made | {k: v for k, v in counts.items() if v is not None} | {"seconds": round(self.seconds, 6)}


def json_line(report: SparkReport) -> str:
    """The report as a versioned document."""
    return json.dumps({"pellucid": 1, "verb": "run", **report.document()})


def run_on_spark(p: Pipeline, places: Places, options: SparkOptions, stdout: Any) -> SparkReport:
    """Run, and say what was done; whatever Spark throws becomes one clear message."""
    from pellucid.spark.session import session

    with _explained(p, places, options.verbose):
        plan = _check(p, places, options)
        shown = {name: redact(place) for name, place in places.outputs.items()}
        report = SparkReport(p.name, plan.way, [redact(place) for place in places.inputs.values()], shown)
        report.forgets = any(node.kind == "forget" for node in p.graph.nodes)
        before = signal.getsignal(signal.SIGINT)
        there = _session_is_there()
        spark = session(
            master=options.master, conf=conf(options.conf), name=f"pellucid {p.name}", verbose=options.verbose
        )
        with contextlib.suppress(ValueError):  # in another thread there are no signals
            # PySpark puts its own there, which calls the JVM in the middle of a call
            signal.signal(signal.SIGINT, before)
        work = Work(p, spark, places, options, stdout, report, left=there)
        try:
            _ship(p)
            work.tell_what_is_left_out()
            if options.verbose:
                for line in (f"{p.name} on Spark", *str(plan).splitlines()):
                    tell(line)
            if options.stream:
                from pellucid.internal.cli.spark.stream import stream

                stream(work)
            else:
                from pellucid.internal.cli.spark.batch import batch

                batch(work)
            work.tell_plain()
        finally:
            work.leave()
    return report


def cancel_jobs(spark: Any) -> None:
    """End all jobs of a session, from another thread."""
    if hasattr(spark, "interruptAll") and "connect" in type(spark).__module__:
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def _session_is_there() -> bool:
    """Whether whoever called us in this process has a session: it is theirs, and stays."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@dataclass
class Work:
    """One run: the pipeline, the session, where it reads and writes."""

    p: Pipeline
    spark: Any
    places: Places
    options: SparkOptions
    stdout: Any
    report: SparkReport
    left: bool = False  # its session is stopped, or is not ours to stop

    def outputs(self) -> list[str]:
        """The names of all outputs, also of those that nobody wants."""
        late = ["late"] if self.options.late == "keep" else []
        return [*[name for name, _ in self.p.graph.outputs], *late, *([BAD] if self.places.bad else [])]

    @cached_property
    def tell_plain(self) -> TellPlain:
        """Says which steps run in plain Python on the executors."""
        return TellPlain("\n".join(f"{node.describe()}: {fn.name} {fn.reason}" for node, fn in self.p.graph.plain()))

    def tell_what_is_left_out(self) -> None:
        """A line about outputs that nobody wants: it may have been forgotten."""
        context = click.get_current_context(silent=True)
        if not (context and context.params.get("as_json")):
            members = self.places.members or {}
            tell_left_out(self.outputs(), [members.get(name, name) for name in self.places.outputs])

    def frame(self, **more: Any) -> Any:
        """The DataFrame that comes out; a dict of them for several outputs, or one with the column ``output``."""
        o, places = self.options, self.places
        frames = {}
        folder = absolute(o.checkpoint) if o.stream and o.checkpoint else None
        begun = remembered(folder) if folder else {}
        for name, path in places.inputs.items():
            order, keep = columns(o.order, "--order"), kept_names(self.p.graph, places.inputs, places.keep)
            wanted = wanted_of(self.p.graph, name, places.value, list(places.key), order, keep, places.nulls)
            frames[name] = reader(self.spark, path, places.in_format, o.stream, wanted, begun=begun.get(name))
        if o.late == "keep" or places.bad:
            more["tag"] = "output"
        if places.bad:
            more |= {"bad": "keep", "max_bad": None if o.stream else places.bad.most}
        given: list[Any] = [frames[None]] if None in frames else [frames]
        chosen: dict[str, Any] = {"value": places.value, "late": o.late, "sequence": o.sequence, "gaps": o.gaps}
        chosen |= {"keep": places.keep or None, "time_format": places.formats, "nan": places.nan}
        made = self.p.spark(*given, key=list(places.key), order=list(columns(o.order, "--order")), **chosen, **more)
        if folder and not begun:
            remember(folder, {name: df.schema for name, df in frames.items()})
        return made

    def print(self, df: Any) -> int:
        """Rows as JSON Lines on stdout, in their order; how many."""
        from pyspark.sql import functions as F

        by = [
            F.col(f"`{c}`")
            for c in [*columns(self.options.order, "--order"), *self.places.key, "nth"]
            if c in df.columns
        ]
        lines = (df.orderBy(*by) if by else df).select(json_text(df.schema).alias("line"))
        count = 0
        for row in lines.toLocalIterator():
            self.stdout.write(row.line.encode() + b"\n")
            count += 1
        self.stdout.flush()
        return count

    def cancel(self) -> None:
        """End the jobs that run: whoever waits for one finds that it failed."""
        cancel_jobs(self.spark)

    def leave(self) -> None:
        """Stop Spark, if it was started here, whatever it is doing."""
        from pellucid.spark.session import stop_if_ours

        def stop() -> None:
            with contextlib.suppress(Exception):
                stop_if_ours(self.spark)

        if not self.left:
            self.left = True
            # From a thread of its own: the connection of this one may wait for the answer of a job that was
            # interrupted.
            thread = threading.Thread(target=stop, daemon=True)
            thread.start()
            thread.join(20)


# ------------------------------------------------------------------ what is wrong, in the words of the command line


@contextlib.contextmanager
def _explained(p: Pipeline, places: Places, verbose: bool) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever read our output has seen enough
        raise
    except Exception as error:
        ours = explain(error)
        if ours is None:
            raise
        if verbose and not isinstance(error, UsageError):
            click.echo(redact(traceback.format_exc()), err=True, nl=False)
        said = str(ours)
        if isinstance(ours, DataError):
            from pellucid.spark.files.blame import blamed

            missing = missing_in(places.nulls, _declared(p.graph, places).items())
            said = blamed(said, places.inputs.values(), places.in_format, missing)
        if len(places.inputs) == 1:
            said = said.replace("the DataFrame: ", f"{next(iter(places.inputs.values()))}: ")
        raise type(ours)(said) from None


def _check(p: Pipeline, places: Places, o: SparkOptions) -> SparkPlan:
    """Refuse what is wrong before Spark starts; the plan otherwise."""
    from pellucid.internal.cli.spark.together import refuse_group
    from pellucid.spark.plan import choose

    refuse_keep(p.graph, places.inputs, places.keep, waits=o.wait is not None or o.gaps == "wait")
    if "-" in places.inputs.values():
        raise UsageError("Spark does not read the standard input: give a file or a folder with --in")
    if o.stream and o.checkpoint is None:
        raise UsageError(
            "--stream needs --checkpoint FOLDER: there it keeps how far it has come, and goes on after a stop"
        )
    for name in ("trigger", "checkpoint", "wait", "drop") if not o.stream else ("partitions", "exists"):
        if name in o.given():
            raise UsageError(f"--{name} {'goes' if not o.stream else 'does not go'} with --stream")
    if not o.stream and o.gaps == "wait":
        raise UsageError("--gaps wait goes with --stream: in a batch, what is missing does not come any more")
    if o.late == "keep" and "late" not in places.outputs:
        raise UsageError("--late keep needs a place for late rows: give --out late=FILE")
    if o.stream and (o.master or "").startswith("sc://"):
        raise UsageError(
            "--stream does not go with Spark Connect (sc://…), whose queries live on the server: use spark://…, or "
            "write the query in Python"
        )
    refuse_group(places, o)
    conf(o.conf), wait(o.wait), trigger(o.trigger)
    kinds = [_kind(path, places) for path in places.inputs.values()]
    texts = [kind in ("csv", "tsv") for kind in kinds]
    check_nulls(places.nulls, _declared(p.graph, places).items(), p.name, text=any(texts))
    if places.nulls and o.stream and any(texts):
        refuse_streamed_words(places.nulls)
    if places.bad:
        _check_bad(p, places, o)
    for name, path in places.outputs.items():
        target(path, o.stream, places.form_of(name), o.exists)
        refuse_unwritable("--out", path, into=o.stream)
    if o.checkpoint is not None:
        refuse_unwritable("--checkpoint", o.checkpoint, into=True)
    if p.graph.timed:
        _check_times(p, places, o)
    tagged = len(places.inputs) > 1
    plan = choose(
        p.graph, key=bool(places.key), order=bool(o.order), streaming=o.stream, tagged=tagged, nan=places.nan == "keep",
        bad=bool(places.bad), wide=not tagged and len(p.graph.sources) > 1,
    )  # fmt: skip
    if plan.problem is not None:
        raise UsageError(plan.problem)
    return plan


def _check_times(p: Pipeline, places: Places, o: SparkOptions) -> None:
    """Refuse what does not go with event time."""
    from pellucid.spark.timed.plan import refuse_options

    names = ("late", "wait", "sequence", "gaps", "drop")
    given = [(name, getattr(o, name), getattr(SparkOptions, name)) for name in names]
    refuse_options(p.graph, [*given, ("keep", places.keep, ()), ("bad", bool(places.bad), False)])
    refuse_answer_names(p.graph, places.key)


def _check_bad(p: Pipeline, places: Places, o: SparkOptions) -> None:
    """Refuse what cannot be done with rows that are set aside."""
    if BAD in [name for name, _ in p.graph.outputs]:
        raise UsageError(f"--bad makes an output called {BAD!r}, and {p.name} has one: rename it")
    if o.sequence is not None:
        raise UsageError("--bad does not go with --sequence: a row that is set aside would be missing in the sequence")
    for path in places.inputs.values():
        kind = _kind(path, places)
        if kind in ("csv", "tsv", "jsonl"):
            raise UsageError(
                f"--bad: {path} is {kind}, which Spark itself reads, and fails on a row as a whole: give Parquet or a "
                "table, or run it on this machine, without --on spark"
            )
    refuse_letter_names([*places.key, *columns(o.order, "--order")])


def _kind(path: str, places: Places) -> str:
    """The format of an input; empty if it is no file."""
    return "" if path.startswith(("table:", "kafka://")) else format_of(path, places.in_format)


def _declared(graph: Graph, places: Places) -> dict[str, Type]:
    """The columns of all inputs, as what sources declare them."""
    found = [wanted_of(graph, name, places.value, (), ()).types for name in places.inputs]
    return {column: t for types in found for column, t in types.items()}


def conf(pairs: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark by name.

    >>> conf(("spark.executor.memory=4g", "spark.app.name=a=b"))
    {'spark.executor.memory': '4g', 'spark.app.name': 'a=b'}
    """
    out = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name.strip()):
            raise UsageError(f"--conf {pair}: expected NAME=VALUE, as in --conf spark.executor.memory=4g")
        out.append((name.strip(), value))
    return once(out, "--conf")


def wait(text: str | None) -> int | timedelta | None:
    """A number, or a time such as ``10s``, ``5m``, ``2h``, ``1d``.

    >>> wait("100"), wait("1.5h")
    (100, datetime.timedelta(seconds=5400))
    """
    if text is None:
        return None
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    with contextlib.suppress(ValueError, OverflowError):
        if re.fullmatch(r"\d+", text):
            return int(text)
        if text[-1:] in units and re.fullmatch(r"\d+(\.\d+)?", text[:-1]):
            return timedelta(**{units[text[-1]]: float(text[:-1])})
    raise UsageError(
        f"--wait {text}: expected a number, in the unit of the order column, or a time such as 10s, 5m, 2h, 1d"
    )


def trigger(text: str | None) -> dict[str, Any]:
    """What Spark's ``trigger`` takes.

    >>> trigger("once"), trigger("10 seconds")
    ({'availableNow': True}, {'processingTime': '10 seconds'})
    """
    if text is None:
        return {"processingTime": "0 seconds"}
    if text in ("once", "available-now"):
        return {"availableNow": True}
    if not re.fullmatch(r"\d+ (millisecond|second|minute|hour)s?", text):
        raise UsageError(f"--trigger {text}: expected once, or an interval such as '10 seconds'")
    return {"processingTime": text}


def _ship(p: Pipeline) -> None:
    """Let the user's own file go along with its functions: executors do not have it."""
    from pyspark import cloudpickle

    module = sys.modules.get(p.__module__)
    if module is not None and not p.__module__.startswith("pellucid."):
        with contextlib.suppress(Exception):
            cloudpickle.register_pickle_by_value(module)
