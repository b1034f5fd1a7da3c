"""What a run is asked to do, bound and checked before anything starts.

Whether the state folder is of this very run is asked in `engine.epochs.state_identity`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.internal.address import Address, alike, epochs_of
from pellucid.internal.data.bind import Binding
from pellucid.internal.data.bind import schema as bad_schema
from pellucid.internal.data.cells import Missing
from pellucid.internal.data.feed import Feed
from pellucid.internal.data.files import Found, flows, format_of, input_files, open_reader, paths_of, said_files
from pellucid.internal.data.outputs import Along, refuse_no_cells, refuse_packing, refuse_same_file
from pellucid.internal.engine.epochs.chain import ChainLane, Upstreams, by_chain, fits_types
from pellucid.internal.engine.epochs.dead_letters import BAD
from pellucid.internal.engine.epochs.inputs import (
    THERE,
    InputLane,
    Lane,
    ManyLane,
    Reading,
    check_files,
    check_unchanged,
    look_at_order,
)
from pellucid.internal.engine.epochs.outputs import FileTarget, Target
from pellucid.internal.engine.epochs.plan import Plan, make_plan
from pellucid.internal.engine.epochs.state_identity import identity_of
from pellucid.internal.engine.epochs.store import Store
from pellucid.internal.engine.saved.objects import check_states
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, refuse_key
from pellucid.internal.request import EPOCHS, Request, by_time
from pellucid.sinks.interface import Sink, parsed, sink_of
from pellucid.sinks.postgres_sink import PostgresSink

_ANSWERS = 0.9  # of the patience: a server that says nothing is named before its task is taken for one that hangs
Files: TypeAlias = "str | tuple[str, ...]"  # a file, a folder, a pattern; or several


def _check(settings: Request) -> None:
    """Refuse what does not go together in a run with epochs."""
    if settings.aside.to == "keep":
        raise UsageError(
            f"{option('bad', 'keep')}: with epochs rows that are set aside go to a file or a table: say where"
        )
    for name, given, why in (
        ("cut", settings.cut, "a push that fails in one process has gone through others, and cannot be undone there"),
        ("record", settings.record, "a recorded trace tells nothing of rows that are set aside"),
        ("order", settings.order, "with epochs all rows are sorted before the first is looked at; sort the file first"),
    ):
        if settings.aside and given:
            raise UsageError(f"{option('bad')} does not go with {option(name)}: {why}")
    if settings.exists == "append":
        raise UsageError(
            f"{option('exists', 'append')}: with epochs a file is made of its own run's rows: write to a table, to "
            "which rows are added, or to another file"
        )
    if settings.pushes is None and settings.every is None:
        one, other = option("pushes", any="N"), option("every", any="SECONDS")
        raise UsageError(f"when does an epoch end? Give {one}, or {other}")


@dataclass
class Job:
    """A run that can be started: everything is bound and checked."""

    graph: Graph
    inputs: dict[str | None, Files]
    outputs: dict[str, str | Sink] = field(repr=False)  # may have a password in them
    settings: Request
    store: Store
    plan: Plan
    lanes: dict[str, tuple[str, list[Binding]]]  # by the input's name: the file, and what is read from it
    wide: bool
    key: Mapping[str, Type]  # the key's columns and what they hold
    run: str = ""
    schemas: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[Found]] = field(default_factory=dict)  # by the input's name, in order
    along: Along = field(default_factory=Along)  # the passthrough columns
    kept_as: dict[str, dict[str, Type]] = field(default_factory=dict)  # of each input those that a source reads, too
    order_as: dict[str, Type] = field(default_factory=dict)  # the order's columns, as what a text is read
    is_sorted: bool = False  # the rows were not in order: what is read is a copy that is
    count: int | None = None  # of the pushes, where an order says it
    missing: dict[str, Missing] = field(default_factory=dict)  # by the input's name: its words for nothing
    members: dict[str, str] = field(
        default_factory=dict
    )  # outputs that commit together, and the output whose rows each gets
    chained: Upstreams = field(default_factory=dict)  # by the input's name: the run whose rows are read

    def open_lanes(self, task: str, offsets: Sequence[Mapping[str, Any]] | None, *, thorough: bool) -> list[InputLane]:
        """The inputs of a source task, where a snapshot left them."""
        own = next(t for t in self.plan.tasks if t.name == task)
        names = list(self.lanes) if own.lane == "*" else [str(own.lane)]
        return self._opened({name: self._of_sources(name) for name in names}, offsets, thorough)

    def open_all(self, offsets: Sequence[Mapping[str, Any]] | None) -> list[InputLane]:
        """All inputs as the source tasks read them, for a sink that looks for their rows."""
        return self._opened({name: self._of_sources(name) for name in self.lanes}, offsets, True)

    def open_kept(self, offsets: Sequence[Mapping[str, Any]] | None) -> list[tuple[InputLane, list[str]]]:
        """The inputs that have passthrough columns, with these columns."""
        found = {name: self.along.kept.from_input("*" if self.wide else name) for name in self.lanes}
        first = next(iter(found))
        found[first] = [*found[first], *self.along.order]
        found = {name: columns for name, columns in found.items() if columns}
        lanes = self._opened({name: self._kept_from(name, columns) for name, columns in found.items()}, offsets, True)
        return list(zip(lanes, found.values(), strict=True))

    def _of_sources(self, name: str) -> Reading:
        most = [n for n in (self.settings.limit, self.count) if n is not None]  # what came later was not looked at
        # a passthrough column may be what cannot be read of a row
        aside = bool(self.settings.aside)
        kept = self._kept_from(name, self.along.kept.from_input("*" if self.wide else name) if aside else [])
        keep = [THERE] if self.is_sorted and not self.wide else kept.keep
        return replace(
            kept, bound=self.lanes[name][1], key=self.key, wide=self.wide, limit=min(most, default=None), keep=keep
        )

    def _kept_from(self, name: str, columns: Sequence[str]) -> Reading:
        typed = {column: t for column, t in self.kept_as.get(name, {}).items() if column in columns}
        typed |= {column: t for column, t in self.order_as.items() if column in columns}
        return Reading(
            self.settings.chunk, keep=[c for c in columns if c not in typed], typed=typed,
            lenient=bool(self.settings.aside), missing=self.missing[name], whole=self.graph.timed,
        )  # fmt: skip

    def _opened(
        self, readings: Mapping[str, Reading], offsets: Sequence[Mapping[str, Any]] | None, thorough: bool
    ) -> list[InputLane]:
        places = offsets if offsets is not None else [None] * len(readings)
        return [self._lane(n, r, at, thorough) for (n, r), at in zip(readings.items(), places, strict=True)]

    def _lane(self, name: str, reading: Reading, at: Mapping[str, Any] | None, thorough: bool) -> InputLane:
        if name in self.chained:
            return ChainLane(self.chained[name], reading, at)
        (path, _), files = self.lanes[name], self.files[name]
        form = "arrow" if self.is_sorted else self.settings.in_format
        one = is_one(path, files)
        if at is not None and one:
            check_unchanged(path, at, thorough=thorough, form=form)
        elif at is not None:
            check_files(path, files, at, thorough=thorough, form=form)
        return Lane(path, form, reading, at) if one else ManyLane(path, files, form, reading, at)

    def _sink(self, output: str, path: str) -> Sink:
        """The sink at an address; dead letters that were dealt with may be taken out of their table, all of them."""
        sink = sink_of(path)
        sink.wait_at_most(
            self.settings.busy_at_most / 2
        )  # who is kept waiting says so before it is taken for one that hangs
        if output == BAD and self.settings.aside and isinstance(getattr(sink, "drained", None), bool):
            setattr(sink, "drained", True)  # noqa: B010 - only tables know it
        return sink

    @property
    def log_folder(self) -> Path:
        """Where the decisions are of outputs that commit together."""
        return self.store.root / "together"

    def sink_at(self, output: str) -> Sink | None:
        """The sink of an output; None if it is a file."""
        place = self.outputs[output]
        if not isinstance(place, Sink) and not Address.of(place).kind:
            return None
        sink = place if isinstance(place, Sink) else self._sink(output, place)
        sink.grouped = output in self.members
        if isinstance(sink, PostgresSink):
            sink.answers_within = _ANSWERS * self.settings.busy_at_most
        return sink

    def target(self, output: str) -> Target:
        """Where an output's committed rows go."""
        path, schema, s = self.outputs[output], self.schemas[output], self.settings
        form = None if output == BAD and s.aside else s.out_format
        sink = self.sink_at(output)
        if sink is not None:
            return Target(sink, schema, rebuilds=s.from_start)
        assert isinstance(path, str)
        return FileTarget(self.store, output, path, form, schema, run=self.run, rebuilds=s.from_start)


def prepare(
    graph: Graph,
    inputs: Mapping[str | None, Files],
    outputs: Mapping[str, str | Sink],
    state: str | os.PathLike[str],
    settings: Request,
    members: Mapping[str, str] | None = None,
) -> Job:
    """Bind and check everything; nothing is written."""
    _check(settings)
    upstreams = by_chain(graph, inputs, settings, state)
    if graph.timed:
        settings = by_time(graph, settings, EPOCHS)
    check_states(graph)
    if settings.key:
        refuse_key(graph)
    for path in [one for given in inputs.values() for one in ([given] if isinstance(given, str) else given)]:
        if path == "-" or flows(path):
            raise UsageError(
                f"{option('in', path)}: a pipe cannot be read again after a crash: put its events in a file first"
            )
    known = [name for name, _ in graph.outputs]
    for name in outputs if not members else ():
        if name not in known:
            raise UsageError(
                f"{graph.name} has no output {name!r}: its outputs are {', '.join(known)}{nearest(str(name), known)}"
            )
    _check_changed(graph, settings.changed)
    for name, place in outputs.items():
        if not isinstance(place, Sink):
            _check_output(name, place, inputs, settings.out_format)
    _refuse_twice(outputs if members else {})
    if settings.aside:
        _check_bad(settings, [*known, *outputs], outputs, inputs)
    with contextlib.ExitStack() as stack:
        files_read = {
            s: stack.enter_context(contextlib.closing(open_reader(p, settings.in_format)))
            for s, p in inputs.items()
            if s not in upstreams
        }
        readers = {s: upstreams[s].reader() if s in upstreams else files_read[s] for s in inputs}
        feed = Feed(
            graph, readers, value=settings.value, key=settings.key, keep=settings.keep,
            order=settings.order, late=settings.late, formats=settings.time_format, nan=settings.nan,
            nulls=settings.nulls,
        )  # fmt: skip
        bound = [bindings for _, bindings in feed._lanes]
    paths = list(inputs.values()) if feed.wide else [inputs[s] if s in inputs else inputs[None] for s in feed.sources]
    names = ["all"] if feed.wide else list(feed.sources)
    lanes = {name: (said_files(path), b) for name, path, b in zip(names, paths, bound, strict=True)}
    at = {name: name if name in inputs else None for name in names}
    chained = {name: upstreams[given] for name, given in at.items() if given in upstreams}
    fits_types(chained, lanes, feed.wide)
    files = {
        name: input_files(path, settings.in_format) if name not in chained else []
        for name, path in zip(names, paths, strict=True)
    }
    # Borders by time must come at the same push in all inputs: then one task reads them all.
    # So must all read them that have to leave out a push because of a row of another input.
    # By event time what a border tells is of all of them, and rows of other runs come when they come.
    lockstep = settings.every is not None or bool(settings.aside) or graph.timed or bool(chained)
    together = lockstep and len(lanes) > 1
    tasks: dict[str | None, list[str]] = (
        {"*": list(feed.sources)} if together else {n: [x.source for x in b] for n, (_, b) in lanes.items()}
    )
    plan = make_plan(
        graph, tasks, outputs=list(outputs), cut=settings.cut, workers=settings.workers, keyed=bool(settings.key),
        bad=bool(settings.aside), members=members,
    )  # fmt: skip
    schemas = {name: feed.along.schema(graph.nodes[i].type, name, feed.key) for name, i in graph.outputs}
    if members:
        schemas = {member: schemas[output] for member, output in members.items()}
    for name, place in outputs.items():
        if not isinstance(place, Sink) and not Address.of(place).kind:
            refuse_no_cells(place, format_of(place, settings.out_format, asked="out_format")[0], schemas[name])
    if settings.aside:
        outputs, schemas = {**outputs, BAD: settings.bad}, {**schemas, BAD: bad_schema()}
    job = Job(
        graph,
        dict(inputs),
        dict(outputs),
        settings,
        Store(state),
        plan,
        lanes,
        feed.wide,
        feed.key,
        schemas=schemas,
        files=files,
        along=feed.along,
        kept_as=dict(zip(names, feed.kept_as, strict=True)),
        order_as=feed.order_as,
        missing=dict(zip(names, feed.missing, strict=True)),
        members=dict(members or {}),
        chained=chained,
    )
    look_at_order(job)
    return job


def is_one(path: str, files: Sequence[Found]) -> bool:
    """Whether an input is a single file, by its own name."""
    return [one.path for one in files] == [path] and not files[0].parts


def _check_bad(
    settings: Request, known: Sequence[str], outputs: Mapping[str, str | Sink], inputs: Mapping[str | None, Files]
) -> None:
    if BAD in known:
        raise UsageError(
            f"{option('bad')} makes an output called {BAD!r} of rows that are set aside, and there is one: rename it"
        )
    place = settings.bad
    if not isinstance(place, Sink):
        _check_output(BAD, str(place), inputs, None)
    for name, other in outputs.items():
        if alike(identity_of(other)) == alike(identity_of(place)):
            raise UsageError(f"{option('bad', place)}: is where the output {name!r} goes: give another")


def _refuse_twice(members: Mapping[str, str | Sink]) -> None:
    """One target is one member of a group."""
    there: dict[str, str] = {}
    for name, place in members.items():
        other = there.setdefault(alike(identity_of(place)), name)
        if other != name:
            raise UsageError(f"{option('out')}: {other!r} and {name!r} are the same target: name it once")


def _check_output(name: str, path: str, inputs: Mapping[str | None, Files], form: str | None) -> None:
    kind, _, _ = parsed(path)  # says what is wrong with an address
    if epochs_of(path) is not None:
        raise UsageError(
            f"{option('out', path)}: other runs read the rows of this one from its own state folder, if they go to a "
            "file: give a file, such as rows.arrow"
        )
    if kind in ("sqlite", "postgres"):
        return
    if kind:
        raise UsageError(
            f"{option('out', path)}: goes with Spark: with epochs give a file, a folder of Parquet (FOLDER/), "
            "delta:FOLDER, sqlite:FILE#TABLE or postgresql://…#TABLE"
        )
    if path == "-" or flows(path):
        raise UsageError(
            f"{option('out', f'{name}={path}')}: what is written to a pipe cannot be taken back: with epochs give a "
            "file or a table"
        )
    if path.endswith("/") or os.path.isdir(path):
        raise DataError(
            f"{path}: is a folder: expected the name of a file to write, such as rows.parquet, or {path.rstrip('/')}/ "
            "for a folder of Parquet, to which each epoch adds files"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise DataError(f"{path}: cannot be written: there is no folder {os.path.dirname(path)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(
            f"{path}: cannot be written: its folder is not yours to write in; choose another, or ask for the right to"
        )
    format_of(path, form, asked="out_format")
    refuse_packing(path)
    refuse_same_file(path, [one for given in inputs.values() for one in paths_of(given)])


def _check_changed(graph: Graph, changed: Sequence[str]) -> None:
    for step in changed:
        if step not in graph.reads:
            known = list(graph.reads)
            have = (
                f"those of {graph.name} are {', '.join(known)}{nearest(step, known)}"
                if known
                else f"{graph.name} has none"
            )
            raise UsageError(f"{option('changed', step)}: is no step with a function that cannot be traced: {have}")
