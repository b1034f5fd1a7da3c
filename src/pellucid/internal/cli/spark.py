"""``pellucid run`` on Spark."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid import sinks
from pellucid.errors import DataError, UsageError
from pellucid.internal.address import Address, alike
from pellucid.internal.base.files import sync, temporary_name, write_lasting
from pellucid.internal.cli.signals import Stopped, checkpoint, woken
from pellucid.internal.cli.spark_places import delimiter_of, format_of, reader, refuse_unwritable, target
from pellucid.internal.cli.terminal import (
    StatusLine,
    TellPlain,
    count_text,
    once,
    rate_text,
    tell,
    tell_left_out,
)
from pellucid.internal.data.bind import BadRow, too_many
from pellucid.internal.data.cells import check_nulls, missing_in
from pellucid.internal.graph.model import refuse_answer_names
from pellucid.internal.request import SPARK, Request, by_time
from pellucid.internal.secrets import redact
from pellucid.sinks.decisions import DecisionLog
from pellucid.sinks.interface import absolute, on_this_machine, sink_of
from pellucid.sinks.once_sink import OnceSink
from pellucid.spark.api import kept_names, refuse_keep, refuse_letter_names
from pellucid.spark.failure import explain
from pellucid.spark.files import (
    WRITTEN,
    as_cells,
    json_text,
    look_at,
    refuse_streamed_words,
    remember,
    remembered,
    wanted_of,
)
from pellucid.spark.frames import BAD

if TYPE_CHECKING:
    from pellucid.internal.expr.types import Type
    from pellucid.internal.graph.model import Graph
    from pellucid.internal.pipeline import Pipeline
    from pellucid.spark.plan import SparkPlan

# ``pellucid run --on spark``: the same pipeline as a Spark job, over files or tables, or as a never-ending query.
#
# What can be found wrong without Spark is reported before Spark starts, which takes seconds.


@dataclass(frozen=True)
class Places:
    """What is read and written."""

    inputs: Mapping[str | None, str] = field(repr=False)  # may have a password in them
    outputs: Mapping[str, str] = field(repr=False)
    members: Mapping[str, str] | None = None  # targets that commit together, and whose rows each gets


def _form_of(request: Request, output: str) -> str | None:
    """The format that is asked for an output; dead letters have that of their file."""
    return None if request.aside and output == BAD else request.out_format


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
    forgets: bool = False  # keys are given up, and are not counted: what holds them is on the executors

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


def run_on_spark(p: Pipeline, places: Places, request: Request, stdout: Any, *, verbose: bool) -> SparkReport:
    """Run, and say what was done; whatever Spark throws becomes one clear message."""
    from pellucid.spark.session import session

    with _explained(p, places, request, verbose):
        plan = _check(p, places, request)
        shown = {name: redact(place) for name, place in places.outputs.items()}
        report = SparkReport(p.name, plan.way, [redact(place) for place in places.inputs.values()], shown)
        report.forgets = any(node.kind == "forget" for node in p.graph.nodes)
        before = signal.getsignal(signal.SIGINT)
        there = _session_is_there()
        spark = session(master=request.master, conf=conf(request.conf), name=f"pellucid {p.name}", verbose=verbose)
        with contextlib.suppress(ValueError):  # in another thread there are no signals
            # PySpark puts its own there, which calls the JVM in the middle of a call
            signal.signal(signal.SIGINT, before)
        work = Work(p, spark, places, request, stdout, report, left=there)
        try:
            _ship(p)
            work.tell_what_is_left_out()
            if verbose:
                for line in (f"{p.name} on Spark", *str(plan).splitlines()):
                    tell(line)
            if request.stream:
                stream(work)
            else:
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
    """Whether the caller in this process has a session: it belongs to the caller, and stays."""
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
    request: Request
    stdout: Any
    report: SparkReport
    left: bool = False  # its session is stopped, or is not ours to stop

    def outputs(self) -> list[str]:
        """The names of all outputs, also of those that are not wanted."""
        late = ["late"] if self.request.late == "keep" else []
        return [*[name for name, _ in self.p.graph.outputs], *late, *([BAD] if self.request.aside else [])]

    @cached_property
    def tell_plain(self) -> TellPlain:
        """Says which steps run in plain Python on the executors."""
        return TellPlain("\n".join(f"{node.describe()}: {fn.name} {fn.reason}" for node, fn in self.p.graph.plain()))

    def tell_what_is_left_out(self) -> None:
        """A line about outputs that are not wanted: it may have been forgotten."""
        context = click.get_current_context(silent=True)
        if not (context and context.params.get("as_json")):
            members = self.places.members or {}
            tell_left_out(self.outputs(), [members.get(name, name) for name in self.places.outputs])

    def frame(self, **more: Any) -> Any:
        """The DataFrame that comes out; a dict of them for several outputs, or one with the column ``output``."""
        o, places = self.request, self.places
        frames = {}
        folder = absolute(o.checkpoint) if o.stream and o.checkpoint else None
        begun = remembered(folder) if folder else {}
        for name, path in places.inputs.items():
            order, keep = o.order, kept_names(self.p.graph, places.inputs, o.keep)
            wanted = wanted_of(self.p.graph, name, o.value, list(o.key), order, keep, o.nulls)
            frames[name] = reader(self.spark, path, o.in_format, o.stream, wanted, begun=begun.get(name))
        if o.late == "keep" or o.aside:
            more["tag"] = "output"
        if o.aside:
            more |= {"bad": "keep", "max_bad": None if o.stream else o.aside.most}
        given: list[Any] = [frames[None]] if None in frames else [frames]
        words = ("key", "order", "value", "late", "sequence", "gaps", "keep", "time_format", "nan")
        made = self.p.spark(*given, **{word: getattr(o, word) for word in words}, **more)
        if folder and not begun:
            remember(folder, {name: df.schema for name, df in frames.items()})
        return made

    def print(self, df: Any) -> int:
        """Rows as JSON Lines on stdout, in their order; how many."""
        from pyspark.sql import functions as F

        by = [F.col(f"`{c}`") for c in [*self.request.order, *self.request.key, "nth"] if c in df.columns]
        lines = (df.orderBy(*by) if by else df).select(json_text(df.schema).alias("line"))
        count = 0
        for row in lines.toLocalIterator():
            self.stdout.write(row.line.encode() + b"\n")
            count += 1
        self.stdout.flush()
        return count

    def cancel(self) -> None:
        """End the jobs that run: a thread that waits for one finds that it failed."""
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
def _explained(p: Pipeline, places: Places, request: Request, verbose: bool) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader of our output has seen enough
        raise
    except Exception as error:
        ours = explain(error)
        if ours is None:
            raise
        if verbose and not isinstance(error, UsageError):
            click.echo(redact(traceback.format_exc()), err=True, nl=False)
        said = str(ours)
        if isinstance(ours, DataError):
            from pellucid.spark.files import blamed

            missing = missing_in(request.nulls, _declared(p.graph, places, request).items())
            said = blamed(said, places.inputs.values(), request.in_format, missing)
        if len(places.inputs) == 1:
            said = said.replace("the DataFrame: ", f"{next(iter(places.inputs.values()))}: ")
        raise type(ours)(said) from None


def _check(p: Pipeline, places: Places, o: Request) -> SparkPlan:
    """Refuse what is wrong before Spark starts; the plan otherwise."""
    from pellucid.spark.plan import choose

    refuse_keep(p.graph, places.inputs, o.keep, waits=o.wait is not None or o.gaps == "wait")
    if "-" in places.inputs.values():
        raise UsageError("Spark does not read the standard input: give a file or a folder with --in")
    if o.stream and o.checkpoint is None:
        raise UsageError(
            "--stream needs --checkpoint FOLDER: there it keeps how far it has come, and goes on after a stop"
        )
    if o.late == "keep" and "late" not in places.outputs:
        raise UsageError("--late keep needs a place for late rows: give --out late=FILE")
    if o.stream and (o.master or "").startswith("sc://"):
        raise UsageError(
            "--stream does not go with Spark Connect (sc://…), whose queries live on the server: use spark://…, or "
            "write the query in Python"
        )
    refuse_group(places, o)
    conf(o.conf), wait(o.wait), trigger(o.trigger)
    kinds = [_kind(path, o) for path in places.inputs.values()]
    texts = [kind in ("csv", "tsv") for kind in kinds]
    check_nulls(o.nulls, _declared(p.graph, places, o).items(), p.name, text=any(texts))
    if o.nulls and o.stream and any(texts):
        refuse_streamed_words(o.nulls)
    if o.aside:
        _check_bad(p, places, o)
    for name, path in places.outputs.items():
        target(path, o.stream, _form_of(o, name), o.exists)
        refuse_unwritable("--out", path, into=o.stream)
    if o.checkpoint is not None:
        refuse_unwritable("--checkpoint", o.checkpoint, into=True)
    if p.graph.timed:
        by_time(p.graph, o, SPARK)
        refuse_answer_names(p.graph, o.key)
    tagged = len(places.inputs) > 1
    plan = choose(
        p.graph, key=bool(o.key), order=bool(o.order), streaming=o.stream, tagged=tagged, nan=o.nan == "keep",
        bad=bool(o.aside), wide=not tagged and len(p.graph.sources) > 1,
    )  # fmt: skip
    if plan.problem is not None:
        raise UsageError(plan.problem)
    return plan


def _check_bad(p: Pipeline, places: Places, o: Request) -> None:
    """Refuse what cannot be done with rows that are set aside."""
    if BAD in [name for name, _ in p.graph.outputs]:
        raise UsageError(f"--bad makes an output called {BAD!r}, and {p.name} has one: rename it")
    if o.sequence is not None:
        raise UsageError("--bad does not go with --sequence: a row that is set aside would be missing in the sequence")
    for path in places.inputs.values():
        kind = _kind(path, o)
        if kind in ("csv", "tsv", "jsonl"):
            raise UsageError(
                f"--bad: {path} is {kind}, which Spark itself reads, and fails on a row as a whole: give Parquet or a "
                "table, or run it on this machine, without --on spark"
            )
    refuse_letter_names([*o.key, *o.order])


def _kind(path: str, o: Request) -> str:
    """The format of an input; empty if it is no file."""
    return "" if path.startswith(("table:", "kafka://")) else format_of(path, o.in_format)


def _declared(graph: Graph, places: Places, o: Request) -> dict[str, Type]:
    """The columns of all inputs, as what sources declare them."""
    found = [wanted_of(graph, name, o.value, (), ()).types for name in places.inputs]
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
    """Ship the user's own file along with its functions: executors do not have it."""
    from pyspark import cloudpickle

    module = sys.modules.get(p.__module__)
    if module is not None and not p.__module__.startswith("pellucid."):
        with contextlib.suppress(Exception):
            cloudpickle.register_pickle_by_value(module)


# Several ``--out`` of a streaming query, one of them a table: a micro-batch is in all of them, or in none.
#
# The decisions are in ``CHECKPOINT/pellucid-together``.  What cannot be one of a group (a Kafka topic, the standard
# output, the rows that ``--bad`` sets aside) is written beside it, once, as before.

FOLDER = "pellucid-together"  # in the checkpoint
_TAG = "output"


def can_be_members(places: Places) -> list[str]:
    """The targets that commit together; none if there are fewer than two, or if none of them is a table."""
    known = {name: Address.of(places.outputs[name]).kind for name in places.members or () if name in places.outputs}
    fit = [name for name, kind in known.items() if kind != "kafka" and places.outputs[name] != "-" and name != BAD]
    return fit if len(fit) > 1 and any(known[name] for name in fit) else []


def refuse_group(places: Places, o: Request) -> None:
    """Refuse, before Spark starts, what does not go with several targets that commit together, or needs them."""
    fit = can_be_members(places) if o.stream else []
    if not fit:
        for name in ("patience", "added", "removed"):
            if getattr(o, name):
                raise UsageError(
                    f"--{name} is for several --out that commit together, of which at least one is a table, with "
                    "--stream"
                )
        if _all_get_all(places.members):
            raise UsageError(
                "several --out of one output are for targets that commit together: at least one is a table "
                "(sqlite:FILE#TABLE, postgresql://…#TABLE, delta:FOLDER), and none is a topic or the standard output"
            )
        return
    for name in places.members or ():
        if name not in fit and _all_get_all(places.members):
            what = "the standard output" if places.outputs[name] == "-" else "a Kafka topic"
            raise UsageError(
                f"--out {Address.of(places.outputs[name])}: {what} cannot be one of several targets that commit "
                "together: write to it from a query of its own"
            )
    there: dict[str, str] = {}
    for name in fit:
        place = places.outputs[name]
        other = there.setdefault(alike(Address.of(place).identity) if Address.of(place).kind else absolute(place), name)
        if other != name:
            raise UsageError(f"--out: {other!r} and {name!r} are the same target: name it once")
    if not on_this_machine(o.checkpoint or ""):
        raise UsageError(
            f"--checkpoint {o.checkpoint}: outputs that commit together keep their decisions there, and need a folder "
            "of this machine, or one that is mounted; or give each output a query of its own"
        )


def _all_get_all(members: Mapping[str, str] | None) -> bool:
    """Whether all targets are of one output."""
    return bool(members) and any(name != output for name, output in (members or {}).items())


def group_of(work: Work) -> Any:
    """What ``foreachBatch`` gets; None if the outputs do not commit together."""
    o, places = work.request, work.places
    fit = can_be_members(places)
    folder = absolute(str(o.checkpoint))
    log = os.path.join(folder, FOLDER)
    if not fit:
        _refuse_alone(log, str(o.checkpoint))
        return None
    if not os.path.isdir(log):
        offsets = os.path.join(folder, "offsets")
        if os.path.isdir(offsets) and any(name.isdigit() for name in os.listdir(offsets)):
            if _all_get_all(places.members):
                raise UsageError(f"--checkpoint {o.checkpoint}: is of a query with one --out: give a new one")
            tell(
                "this query began when its outputs were not committed together: each of them has a micro-batch once, "
                "and not all at once; a new checkpoint, with new targets, begins with that",
            )
            return None
        os.makedirs(log, mode=0o700)  # before the first offset: so a start that was killed is told from an old query
    parts: dict[str, Any] = {name: _patient(sink_of(places.outputs[name]), o.patience) for name in fit}
    settings: dict[str, Any] = {"log": log, "added": o.added, "removed": o.removed}
    if o.patience is not None:
        settings["patience"] = o.patience
    same, rest = _all_get_all(places.members), [n for n in work.outputs() if n in places.outputs and n not in fit]
    if not same:
        settings["by"] = _TAG
        parts = {**dict.fromkeys(work.outputs()), **parts}
    group = sinks.together(parts, **settings)
    group.say = lambda text: tell(f"pellucid: {text}")
    return Outputs(group, rest, work, same=same)


def _refuse_alone(log: str, checkpoint: str) -> None:
    """A query whose outputs commit together does not go on with one of them: the others would stay behind."""
    found = DecisionLog(log).read() if os.path.isdir(log) else None
    if found is not None:
        known = ", ".join(f"{name}: {place}" for name, (place, _) in found.members.items())
        raise UsageError(
            f"--checkpoint {checkpoint}: the outputs of this query commit together ({known}): give at least two of "
            "them, or begin with a new checkpoint"
        )


def _patient(sink: Any, patience: float | None) -> Any:
    if patience is not None:
        sink.wait_at_most(patience)
    return sink


class Outputs:
    """A group, and beside it the outputs that cannot be members; where rows are counted, it is a sink."""

    def __init__(self, group: Any, rest: list[str], work: Work, *, same: bool) -> None:

        self.group, self._same = group, same
        self.last_written: Any = None
        known: dict[str, Any] = dict.fromkeys(work.outputs())
        others = {name: place_of(work, work.places.outputs[name]) for name in rest}
        self.rest = sinks.split(_TAG, sinks={**known, **others}) if rest else None
        self._output = next(iter((work.places.members or {}).values()))

    def __call__(self, df: Any, batch: int) -> None:
        if self.rest is None:
            self.group(df, batch)
            self.last_written = self.group.last_written
            return
        df.persist()  # computed once, for both
        try:
            self.group(self._own(df), batch)
            self.rest(df, batch)
        finally:
            df.unpersist()
        mine, others = self.group.last_written, self.rest.last_written
        assert mine is not None
        assert others is not None
        count = sum(done.rows for done in (mine, others) if not done.skipped)
        self.last_written = sinks.Written(mine.query, batch, count, mine.skipped and others.skipped)

    def _own(self, df: Any) -> Any:
        """The rows of the group: with a column that names the member, or all of the one output."""
        if not self._same:
            return df
        from pyspark.sql import functions as F

        return df.where(F.col(_TAG) == self._output).drop(_TAG, BAD)

    def close(self) -> None:
        """Let go of connections."""
        for sink in (self.group, self.rest):
            with suppress(Exception):
                if sink is not None:
                    sink.close()


# A batch on Spark, for the command line: every output is written whole, then all of them appear.


def batch(work: Work) -> None:
    """All that there is, once."""
    begin = time.monotonic()
    made = work.frame(partitions=work.request.partitions)
    if work.request.late == "keep" or work.request.aside:
        made = {name: made.filter(made["output"] == name).select(*_own(made, name)) for name in work.outputs()}
    frames = made if isinstance(made, dict) else {work.outputs()[0]: made}
    with contextlib.ExitStack() as stack:
        finish = []
        try:
            with woken(work.cancel):
                for name, path in work.places.outputs.items():
                    checkpoint()
                    rows, done = _write(work, frames[name], name, path, stack)
                    if work.request.aside and name == BAD:
                        work.report.bad = rows
                    else:
                        work.report.rows_out += rows
                    finish.append(done)
            checkpoint(last=True)
        except Stopped:
            work.leave()  # before the unfinished files go: its tasks would write more of them
            raise
        for done in finish:  # all of them appear, or none
            done()
    work.report.seconds = time.monotonic() - begin


def _write(work: Work, df: Any, name: str, path: str, stack: contextlib.ExitStack) -> tuple[int, Callable[[], None]]:
    """Write one output; how many rows, and what makes it appear."""
    kind, place = target(path, False, _form_of(work.request, name), work.request.exists)
    if kind == "print":
        return work.print(df), lambda: None
    if kind == "sink":
        sink = sink_of(path)
        stack.callback(sink.close)
        return sink.write(df, f"batch-{uuid.uuid4().hex}", 0).rows, lambda: None
    counted, rows = _counted(df)
    local = on_this_machine(place)
    whole = absolute(place)
    written = temporary_name(whole) if local else place
    if local:
        stack.callback(shutil.rmtree, written, ignore_errors=True)
    if kind == "csv":
        counted = as_cells(counted)
    elif kind == "json" and any(f.dataType.typeName() in ("double", "float", "struct") for f in counted.schema.fields):
        counted, kind = counted.select(json_text(counted.schema).alias("value")), "text"
    writer = counted.write.mode("overwrite" if local or work.request.exists == "overwrite" else "errorifexists")
    for word, option in (WRITTEN if kind == "csv" else {}).items():
        writer = writer.option(word, option)
    writer.format(kind).save(written)
    if kind == "text" and local:
        _call_json(written)

    def appear() -> None:
        if local:
            _remove(whole)
            os.replace(written, whole)
            sync(os.path.dirname(whole))

    return rows(), appear


def _call_json(folder: str) -> None:
    """Name files of lines as Spark names those of JSON; Hadoop's checksums beside them, too."""
    for name in os.listdir(folder):
        for ending in (".txt", ".txt.crc"):
            if name.endswith(ending):
                os.rename(
                    os.path.join(folder, name),
                    os.path.join(folder, name.removesuffix(ending) + ending.replace("txt", "json")),
                )


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def _own(df: Any, name: str) -> list[Any]:
    """The columns of one output of a tagged DataFrame."""
    from pyspark.sql import functions as F

    at = df.columns.index("output")
    kept = [F.col(f"`{c}`") for c in df.columns[:at]] + [F.col("nth")] * (
        "nth" in df.columns and name not in ("late", BAD)
    )
    struct = type(df.schema[name].dataType).__name__ == "StructType"
    return [*kept, F.col(f"`{name}`.*") if struct else F.col(f"`{name}`")]


def _counted(df: Any) -> tuple[Any, Callable[[], int]]:
    """The DataFrame, and how many rows of it were written, without a second pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    return df.observe(seen, F.count(F.lit(1)).alias("rows")), lambda: int(seen.get["rows"])


# A streaming query on Spark, for the command line: until it has read all there is, or a signal stops it.
#
# A signal is noted, not raised: an exception in the middle of a call to the JVM would leave the connection half read,
# and the next call would get the answer of the last one.


def stream(work: Work) -> None:
    """A query, until it is stopped or (``--trigger once``) has read all there is."""
    o, report = work.request, work.report
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
            if not signals:  # else the JVM got the signal too, and was gone before we could ask it to stop
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
            """What was printed before this start is not lost: a query may have written somewhere else until
            now."""

    def show(df: Any, batch: int) -> None:
        work.report.rows_out += work.print(df)

    return Printed(show, ledger=_under(absolute(str(work.request.checkpoint)), "pellucid-printed"))


def _counting(work: Work, sink: Any) -> Any:
    texts = {
        d: [p for p in work.places.inputs.values() if delimiter_of(p, work.request.in_format) == d] for d in (",", "\t")
    }

    aside = _BadRows(work) if work.request.aside else None

    def write(df: Any, batch: int) -> None:
        for delimiter, places in texts.items():
            if places:
                look_at(absolute(str(work.request.checkpoint)), batch, places, delimiter)
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
        self._work, self._most = work, work.request.aside.most
        self._file = Path(absolute(str(work.request.checkpoint))) / "pellucid-bad.json"
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
