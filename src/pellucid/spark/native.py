"""Pipelines, or their beginnings, as Spark's own expressions.

Pipelines that remember nothing, as guarded expressions of one event.

What a step puts out in one push is a list of **slots**: an expression that says whether the event comes, and one
for each of its leaves, all over the leaves of the source.  A map substitutes, a filter adds to the condition, a merge
puts lists one behind the other.  A step whose answer depends on earlier pushes has no slots: :class:`Remembers`.

>>> from pellucid import pipeline
>>> p = pipeline(lambda x: x.map(lambda v: v + 1).filter(lambda v: v > 3), x=int)
>>> slots(p.graph, 2)
[RowSlot(when=v0 + 1 > 3, leaves=(v0 + 1,), key=())]

Failures keep their place.  A step that fails fails the push, even if no output reads it or a later filter drops the
event.  Most of that happens by itself, since Spark computes the same expressions; what the outputs do not compute
(:func:`obligations`) is evaluated in the filter, for its failure only.  As everywhere in Spark, columns and rows that a
later query does not ask for are not computed, and do not fail.

One push with one possible event is a filter and a projection, the plan that one would write by hand; with several it
is an array that is exploded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError
from pellucid.internal.data.bind import Binding, own_paths
from pellucid.internal.data.cells import inner_type
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import FALSE, LAZY, TRUE, Expr, fails, fails_here, walk
from pellucid.internal.expr.rewrite import rebuild, substitute
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, RecordType, TupleType, Type, conform
from pellucid.internal.graph.model import Graph, Node, inner_key, refuse_timed, remembers
from pellucid.internal.graph.processors import Meaning, cells_of, meaning_of
from pellucid.spark.column import NoColumn, NotNative, barrier, checked, column, size, why_not
from pellucid.spark.frames import Frame, FrameSource, SparkJob, column_at
from pellucid.spark.reading import column_of, event_columns, never_null, pack, source_leaves, surely_events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_SLOTS = 64  # how many events one push may put out natively
MAX_TOTAL = 10_000  # how many operations all columns together may have


class Remembers(PellucidError):  # noqa: N818
    """A step's events depend on more than the present push; ``node`` is the step and ``why`` the reason."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(f"{node.describe()} {why}")
        self.node = node
        self.why = why


@dataclass(frozen=True)
class RowSlot:
    """One event that a push may put out: when it comes, its leaves, and the leaves of its key if it has one."""

    when: Expr
    leaves: tuple[Expr, ...]
    key: tuple[Expr, ...] = ()


@dataclass
class Stateless:
    """A graph as slots: those of every step, what each push evaluates, and the messages of the users' raises."""

    graph: Graph
    slots: list[list[RowSlot]] = field(default_factory=list)
    evaluated: list[tuple[Expr, Expr]] = field(default_factory=list)  # (when, what): may fail
    raises: list[str] = field(default_factory=list)


def slots(graph: Graph, at: int) -> list[RowSlot]:
    """The events that the step at this position puts out in one push."""
    return stateless(graph, at).slots[at]


def stateless(graph: Graph, at: int | None = None) -> Stateless:
    """The whole graph (or all up to one position) as slots; raises ``Remembers`` where a step has memory.

    >>> from pellucid import pipeline
    >>> stateless(pipeline(lambda x: x.decimate(2, id="half"), x=int).graph)
    Traceback (most recent call last):
    ...
    pellucid.spark.native.Remembers: step 'half' (decimate, ...) remembers how many events it has seen
    """
    refuse_timed(graph, "Spark")
    out = Stateless(graph)
    for i, node in enumerate(graph.nodes if at is None else graph.nodes[: at + 1]):
        if node.kind == "source":
            if i != graph.sources[0]:
                raise Remembers(node, "is a second source, which may be silent")
            out.slots.append([RowSlot(TRUE, tuple(n.var(k, t) for k, (_, t) in enumerate(node.type.leaves())))])
        else:
            out.slots.append(step(out, node, [out.slots[j] for j in node.inputs]))
        if len(out.slots[-1]) > MAX_SLOTS:
            raise Remembers(node, f"may put out more than {MAX_SLOTS} events in one push")
    return out


def step(out: Stateless, node: Node, inputs: list[list[RowSlot]]) -> list[RowSlot]:
    """The slots of one step from those of its inputs; what it evaluates is noted in ``out``."""
    if node.processor.keeps in _KEPT and remembers(node):
        raise Remembers(node, f"remembers {_KEPT[node.processor.keeps]}")
    meaning = meaning_of(node, "Spark's plan of expressions")
    if node.processor.inputs == "apart":
        return [slot for events in inputs for slot in events]
    events = _together(node, inputs) if node.queued else inputs[0]
    if node.sub is not None:
        return [_one_event(out, node, slot) for slot in events]
    return _function(out, node, events) if node.fn is not None else _defined(node, meaning, events)


_KEPT = {"value": "its last value", "count": "how many events it has seen", "events": "the last events"}


def _defined(node: Node, meaning: Meaning, events: list[RowSlot]) -> list[RowSlot]:
    """A step without a function, as the table of processors defines it; what it remembers never changes."""
    made = []
    for slot in events:
        cells = cells_of(node, [leaf.type for leaf in slot.leaves])
        emits = meaning(node, [n.const(cell.start) for cell in cells], slot.leaves, None).emits
        made += [replace(slot, when=n.and_(slot.when, when), leaves=tuple(leaves)) for when, leaves in emits]
    return made


def _function(out: Stateless, node: Node, events: list[RowSlot]) -> list[RowSlot]:
    assert node.fn is not None
    if node.fn.traced is None:
        raise Remembers(node, f"cannot be traced: {node.fn.name} {node.fn.reason}")
    traced = _numbered(out, node, node.fn.traced)
    if node.processor.puts != "many":
        return [_called(out, node, traced, slot) for slot in events]
    one = _task if node.processor.keeps else _elements
    return [made for slot in events for made in one(out, node, traced, slot)]


def _numbered(out: Stateless, node: Node, traced: Traced) -> Traced:
    """The trace with its raises numbered on from those of the other steps."""
    if not traced.raises:
        return traced
    first = len(out.raises)
    out.raises += [f"{node.describe()} failed: {text}" for text in traced.raises]
    made: dict[int, Expr] = {}
    for e in walk(*traced.roots()):
        if e.op == "raise":
            made[id(e)] = n.raise_(first + e.value, e.type)
        else:
            made[id(e)] = rebuild(e, [made[id(a)] for a in e.args]) if e.args else e
    return replace(
        traced,
        outputs=tuple(made[id(e)] for e in traced.outputs),
        count=None if traced.count is None else made[id(traced.count)],
        slots=tuple(tuple(made[id(e)] for e in slot) for slot in traced.slots),
    )


def _evaluates(out: Stateless, when: Expr, *whats: Expr) -> None:
    out.evaluated += [(when, what) for what in whats if fails(what) and (when, what) not in out.evaluated]


def _called(out: Stateless, node: Node, traced: Traced, slot: RowSlot) -> RowSlot:
    made = tuple(substitute(traced.outputs, slot.leaves))
    _evaluates(out, slot.when, *made)
    if node.processor.puts == "some":
        return replace(slot, when=n.and_(slot.when, made[0]))
    return replace(slot, key=made) if node.processor.keyed else replace(slot, leaves=made)


def _together(node: Node, inputs: list[list[RowSlot]]) -> list[RowSlot]:
    """The inputs side by side, if they always come together: slot by slot under the same condition and key."""
    first = inputs[0]
    for other in inputs[1:]:
        if [(s.when, s.key) for s in other] != [(s.when, s.key) for s in first]:
            raise Remembers(node, "waits for its inputs, which do not always come together")
    return [replace(row[0], leaves=tuple(e for s in row for e in s.leaves)) for row in zip(*inputs, strict=True)]


def _task(out: Stateless, node: Node, traced: Traced, slot: RowSlot) -> list[RowSlot]:
    if node.state is None or traced.count is None:
        raise Remembers(node, "keeps a state")
    start = tuple(n.const(v) for v in node.state.flatten(conform(node.state, node.start)))
    roots = substitute(traced.roots(), (*start, *slot.leaves))
    states = roots[: len(start)]
    if not all(_is(e, value) for e, value in zip(states, start, strict=True)):
        raise Remembers(node, "remembers its state")
    _evaluates(out, slot.when, *states)
    return _several(out, traced, slot, roots[len(start) :], ())


def _elements(out: Stateless, node: Node, traced: Traced, slot: RowSlot) -> list[RowSlot]:
    if not traced.many:
        raise Remembers(node, "puts out the elements of a list, of any length")
    roots = substitute(traced.roots(), slot.leaves)
    return _several(out, traced, slot, roots, slot.leaves if node.beside else ())


def _several(
    out: Stateless, traced: Traced, slot: RowSlot, roots: Sequence[Expr], head: tuple[Expr, ...]
) -> list[RowSlot]:
    """The events of which there are as many as the first expression says, each behind what goes before it."""
    count, *rest = roots
    _evaluates(out, slot.when, count)
    width = traced.event.width if traced.event is not None else 0
    made = []
    for i in range(len(traced.slots)):
        when = n.and_(slot.when, _more_than(count, i))
        leaves = tuple(rest[i * width : (i + 1) * width])
        if when is not FALSE:
            _evaluates(out, when, *leaves)  # on a path with fewer events they are constant
            made.append(RowSlot(when, (*head, *leaves), slot.key))
    return made


def _is(e: Expr, value: Expr) -> bool:
    """Whether an expression has this value wherever it does not fail."""
    if e.op == "ite":
        return _is(e.args[1], value) and _is(e.args[2], value)
    return e is value or e.op == "raise" or (e.op == "after" and _is(e.args[-1], value))


def _more_than(count: Expr, i: int) -> Expr:
    """``count > i``, told apart where the count is: there it is a constant."""
    made: dict[int, Expr] = {}
    for e in walk(count):
        if e.type != INT:
            continue
        if e.op == "const":
            made[id(e)] = n.const(e.value > i)
        elif e.op == "ite":
            made[id(e)] = n.ite(e.args[0], made[id(e.args[1])], made[id(e.args[2])])
        elif e.op == "after":
            made[id(e)] = n.after(e.args[:-1], made[id(e.args[-1])])
        elif e.op == "raise":
            made[id(e)] = n.raise_(e.value, BOOL)
        else:
            made[id(e)] = n.lt(n.const(i), e)
    return made[id(count)]


def _one_event(out: Stateless, node: Node, slot: RowSlot) -> RowSlot:
    """A window of one event: the last event of a sub-pipeline that starts again with each."""
    assert node.sub is not None
    inner = stateless(node.sub)
    first = len(out.raises)
    out.raises += inner.raises

    def inside(e: Expr) -> Expr:
        made: dict[int, Expr] = {}
        for part in walk(e):
            if part.op == "raise":
                made[id(part)] = n.raise_(first + part.value, part.type)
            elif part.op == "var":
                made[id(part)] = slot.leaves[part.value]
            else:
                made[id(part)] = rebuild(part, [made[id(a)] for a in part.args]) if part.args else part
        return made[id(e)]

    for when, what in inner.evaluated:
        _evaluates(out, n.and_(slot.when, inside(when)), inside(what))
    events = inner.slots[node.sub.outputs[0][1]]
    comes: Expr = FALSE
    leaves: list[Expr] = []
    for event in events:  # the last one that comes counts
        when = inside(event.when)
        made = [inside(e) for e in event.leaves]
        leaves = [n.ite(when, new, old) for new, old in zip(made, leaves, strict=True)] if leaves else made
        comes = n.or_(when, comes) if comes is not FALSE else when
    return replace(slot, when=n.and_(slot.when, comes), leaves=tuple(leaves) or slot.leaves)


# ---------------------------------------------------------------- failures


def obligations(found: Stateless, outputs: Sequence[int], read: Sequence[Expr] = ()) -> tuple[list[Expr], list[Expr]]:
    """What a push evaluates for its failure only: parts that may fail, and leaves, that the outputs do not compute.

    ``read`` are the leaves whose reading may fail (a null): a row is read whether or not a step looks at it.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.map(lambda v: v * v).filter(lambda v: v > 3), x=int)
    >>> obligations(stateless(p.graph), [2])
    ([], [])
    >>> q = pipeline(lambda x: (x.map(lambda v: v * v), x.map(lambda v: v + 1)), x=int)
    >>> obligations(stateless(q.graph), [2], [n.var(0, INT), n.var(1, INT)])  # only the second output is asked for
    ([after(v0 * v0, True)], [v1])
    """
    events = [slot for at in outputs for slot in found.slots[at]]
    always = _computed(
        [slot.when for slot in events] + [e for slot in events if slot.when is TRUE for e in slot.leaves]
    )
    out: list[Expr] = []
    for when, what in found.evaluated:
        known = always
        if when is not TRUE:
            known = always | _computed([e for slot in events if slot.when is when for e in slot.leaves])
        lazily = what.type == BOOL and n.and_(when, what) in always
        if not lazily and not _covered(what, known):
            out.append(n.and_(when, _for_failure(what)))
    return out, [leaf for leaf in read if leaf not in always]


def _for_failure(e: Expr) -> Expr:
    """A truth value that fails where the expression does."""
    return e if e.type == BOOL else n.after((e,), TRUE)


def _computed(roots: Sequence[Expr]) -> frozenset[Expr]:
    """Every part that is evaluated whenever these are."""
    must: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in must:
            continue
        must.add(e)
        stack.extend(e.args[:1] if e.op in LAZY else e.args)
    return frozenset(must)


def _covered(e: Expr, known: frozenset[Expr]) -> bool:
    """Whether everything in an expression that may fail is evaluated anyway."""
    covered: dict[int, bool] = {}
    for part in walk(e):
        rest = all(covered[id(a)] for a in part.args)
        covered[id(part)] = part in known or not fails(part) or (rest and not fails_here(part))
    return covered[id(e)]


# ---------------------------------------------------------------- the DataFrame

_EVENT = "pellucid_event"


def frame(
    graph: Graph,
    df: DataFrame,
    leaves: Sequence[Column],
    keep: Sequence[Column],
    *,
    outputs: Sequence[str] | None = None,
    nth: str | None = None,
    ansi: bool,
    sure: Sequence[bool] = (),
    tag: str | None = None,
) -> DataFrame:
    """The events of a pipeline that remembers nothing, one row each, as a DataFrame of Spark's own expressions.

    ``leaves`` are the source's leaf columns (`pellucid.spark.reading.source_leaves`), ``sure[i]`` says that reading
    the i-th never fails; ``keep`` are columns that every event carries along.  ``nth`` names a column that numbers the
    events of one push.  With ``tag`` there is a column with the output's name and one column for each output; without
    it one output gives the columns of its events.  Raises ``Remembers`` or ``NotNative`` if it cannot be done exactly.
    """
    found = stateless(graph)
    source = found.slots[graph.sources[0]][0]
    return RowFrame(found, source.leaves, leaves, outputs=outputs, ansi=ansi, sure=sure, tag=tag).over(df, keep, nth)


class RowFrame:
    """Makes the DataFrame of slots: ``leaves`` are the columns of the variables that the slots are written in."""

    def __init__(
        self,
        found: Stateless,
        variables: Sequence[Expr],
        leaves: Sequence[Column],
        *,
        outputs: Sequence[str] | None,
        ansi: bool,
        sure: Sequence[bool],
        tag: str | None,
    ) -> None:
        from pyspark.sql import functions as F

        graph = found.graph
        names = [name for name, _ in graph.outputs] if outputs is None else list(outputs)
        if tag is None and len(names) != 1:
            raise ValueError("several outputs need a column that tells them apart")
        self.f, self.found, self.leaves, self.ansi, self.tag = F, found, leaves, ansi, tag
        at = dict(graph.outputs)
        self.types = {name: graph.nodes[at[name]].type for name in names}
        self.events = [(name, slot) for name in names for slot in found.slots[at[name]]]
        self.sure = {i for i, yes in enumerate(sure) if yes}
        unsure = [v for v in variables if v.value not in self.sure]
        self.due, reads = obligations(found, [at[name] for name in names], unsure)
        self.checks = [(leaves[v.value], v.type) for v in reads]
        hidden = next((leaf for leaf, _ in self.checks if isinstance(leaf, NoColumn)), None)
        if hidden is not None:
            raise NotNative(hidden.reason)
        total = sum(size(e) for _, slot in self.events for e in (slot.when, slot.when, *slot.leaves)) + sum(
            map(size, self.due)
        )
        if total > MAX_TOTAL:
            raise NotNative(f"is written out in more than {MAX_TOTAL:,} operations")
        if not self.events:
            raise NotNative("never puts out an event")

    def over(self, df: DataFrame, keep: Sequence[Column], nth: str | None) -> DataFrame:
        """The events of all rows."""
        if len(self.events) == 1:
            name, slot = self.events[0]
            number = [self.f.lit(0).alias(nth)] if nth is not None else []
            return self.filtered(df, slot.when).select(*keep, *self.label(name), *number, *self.columns(name, slot))
        exploded = self.filtered(df, TRUE).select(*keep, self.f.explode(self.f.array(*self.items())).alias(_EVENT))
        event = column_of(_EVENT)
        if any(slot.when is not TRUE for _, slot in self.events):
            exploded = exploded.filter(event.isNotNull())
        kept = [column_of(name) for name in exploded.columns[: len(keep)]]
        shown = [name for name in self.shown() if nth is not None or name != _NTH]
        return exploded.select(*kept, *[event.getField(x).alias(nth if x == _NTH and nth else x) for x in shown])

    def made(self, e: Expr) -> Column:
        return column(e, self.leaves, ansi=self.ansi, raises=self.found.raises)

    def filtered(self, df: DataFrame, when: Expr) -> DataFrame:
        """The rows with an event; and what can only fail is evaluated here, where no later step can drop it."""
        condition = n.after(tuple(self.due), when)
        if condition is when and not self.checks:
            for part in _conjuncts(when):  # what cannot fail comes first, so that Spark may move it
                if fails(part) or any(e.op == "var" and e.value not in self.sure for e in walk(part)):
                    break
                df = df.filter(self.made(part)) if part is not TRUE else df
                condition = _without(condition, part)
        if condition is TRUE and not self.checks:
            return df
        return df.filter(barrier(checked(self.checks, self.made(condition))))

    def items(self) -> list[Column]:
        """The possible events of a push, each a struct or null."""
        counts: dict[str, Column] = {}
        out = []
        for name, slot in self.events:
            number = counts.get(name, self.f.lit(0))
            item = self.f.struct(*self.label(name), number.alias(_NTH), *self.columns(name, slot))
            comes = self.made(slot.when)
            out.append(item if slot.when is TRUE else self.f.when(comes, item))
            counts[name] = number + (self.f.lit(1) if slot.when is TRUE else comes.cast("int"))
        return out

    def label(self, name: str) -> list[Column]:
        return [self.f.lit(name).alias(self.tag)] if self.tag is not None else []

    def columns(self, name: str, slot: RowSlot) -> list[Column]:
        """The columns of one event; with a tag, one column for each output, null for the others."""
        mine = pack(self.types[name], [self.made(e) for e in slot.leaves], name)
        if self.tag is None:
            return mine
        own = mine[0] if _one_column(self.types[name]) else self.f.struct(*mine).alias(name)
        return [
            own if other == name else self.f.lit(None).cast(_column_type(t, other)).alias(other)
            for other, t in self.types.items()
        ]

    def shown(self) -> list[str]:
        if self.tag is not None:
            return [self.tag, _NTH, *self.types]
        name, t = next(iter(self.types.items()))
        return [_NTH, *[f.name for f in event_columns(t, name)]]


_NTH = "pellucid_nth"


def _one_column(t: Type) -> bool:
    return not isinstance(t, (RecordType, TupleType))


def _column_type(t: Type, name: str) -> Any:
    from pyspark.sql.types import StructType

    fields = event_columns(t, name)
    return fields[0].dataType if _one_column(t) else StructType(fields)


def _conjuncts(e: Expr) -> list[Expr]:
    """The parts of a conjunction, in the order of their evaluation."""
    out, stack = [], [e]
    while stack:
        part = stack.pop()
        if part.op == "and":
            stack += [part.args[1], part.args[0]]
        else:
            out.append(part)
    return out


def _without(e: Expr, first: Expr) -> Expr:
    """A conjunction without its first part."""
    rest = _conjuncts(e)[1:]
    out: Expr = TRUE
    for part in rest:
        out = n.and_(out, part)
    return out


# The steps before anything is remembered, as Spark's own expressions: what a filter drops is not shuffled.
#
# A pipeline that begins with maps and filters is cut behind them: the front becomes a filter and a projection of the
# user's DataFrame, before the shuffle; the rest is a pipeline of its own, whose source is what the front puts out. A
# push whose event the front drops does nothing in the rest, so the answers are the same.

stateless_frame = frame


def front(graph: Graph, *, ansi: bool = True) -> list[Node]:
    """The steps that run before the shuffle; none, if that would save nothing.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.map(lambda v: v + 1).filter(lambda v: v > 3).map(lambda v: v * 2).trim(1), x=int)
    >>> [node.kind for node in front(p.graph)]
    ['map', 'filter', 'map']
    >>> front(pipeline(lambda x: x.map(lambda v: v + 1).trim(1), x=int).graph)
    []
    """
    if len(graph.sources) != 1:
        return []
    outputs = {at for _, at in graph.outputs}
    at = graph.sources[0]
    chain: list[Node] = []
    best = 0
    width = graph.nodes[at].type.width
    while at not in outputs:
        readers = graph.readers(at)
        node = graph.nodes[readers[0][0]] if len(readers) == 1 else None
        if node is None or not node.processor.plain:
            break
        at = graph.position[node.id]
        try:
            if any(why_not(e, ansi=ansi) for slot in slots(graph, at) for e in (slot.when, *slot.leaves)):
                break
        except Remembers:
            break
        chain.append(node)
        filtered = any(n.processor.puts == "some" for n in chain)
        if (filtered and node.type.width <= width) or node.type.width < width:
            best = len(chain)
    return chain[:best]


def split(graph: Graph, chain: Sequence[Node]) -> tuple[Graph, Graph]:
    """The front as a pipeline, and the rest as one whose source is what the front puts out."""
    source = graph.nodes[graph.sources[0]]
    last = graph.position[chain[-1].id]
    inside = [graph.sources[0], *(graph.position[n.id] for n in chain)]
    at = {old: new for new, old in enumerate(inside)}
    nodes = [replace(graph.nodes[old], inputs=tuple(at[i] for i in graph.nodes[old].inputs)) for old in inside]
    first = Graph(graph.name, tuple(nodes), (0,), (("out", len(nodes) - 1),))
    rest = [replace(source, type=chain[-1].type)]
    moved = {last: 0}
    for i, node in enumerate(graph.nodes):
        if i not in at:
            moved[i] = len(rest)
            rest.append(replace(node, inputs=tuple(moved[j] for j in node.inputs)))
    outputs = tuple((name, moved[i]) for name, i in graph.outputs)
    return first, Graph(graph.name, tuple(rest), (0,), outputs)


def cut(
    job: SparkJob, frame: Frame, leaves: Sequence[Column], sure: Sequence[bool], *, ansi: bool
) -> tuple[SparkJob, Frame]:
    """The job and its frame with the front done by Spark; as they are, if there is none."""
    late = job.late
    whole = (
        late.policy != "fail" or late.wait or late.sequence is not None
    )  # rows are compared as they came, or counted
    chain = [] if whole or job.fields.tagged or job.fields.wide else front(job.graph, ansi=ansi)
    if not chain:
        return job, frame
    first, rest = split(job.graph, chain)
    kept = [*job.fields.keys, *job.fields.orders, *job.fields.keeps]
    columns = frame.columns[: len(kept)]
    try:
        df = stateless_frame(first, frame.raw, leaves, columns, ansi=ansi, sure=sure)
    except (NotNative, Remembers):
        return job, frame
    t = chain[-1].type
    names = [field.name for field in event_columns(t, "out")]
    paths = [path or "out" for path, _ in t.columns()] if names != ["out"] else ["out"]
    if any(p.split(".")[0] not in names for p in paths):  # a tuple: its items have names of their own
        return job, frame
    values = [column_at(df.schema, path).alias(f"v0_{j}") for j, path in enumerate(paths)]
    source = FrameSource(
        job.fields.sources[0].name,
        t,
        tuple(f"{chain[-1].id}.{p}" if p != "out" else chain[-1].id for p in paths),
        nan=True,  # what the front has computed is an event, whatever it is
    )
    fields = replace(job.fields, sources=(source,))
    return replace(job, graph=rest, fields=fields), replace(frame, df=df.select(*kept, *values), fields=fields)


# Frames made of Spark's own expressions: whole pipelines that remember nothing, and keys that a pipeline makes
# itself.

stateless_frame = frame


def native_frame(job: SparkJob, frame: Frame, *, ansi: bool) -> DataFrame:
    """A pipeline that remembers nothing, as a filter and a projection of the user's DataFrame."""
    if not _surely_met(job, frame):
        raise NotNative("has a field with the name of a column of the key or the order, which may be something else")
    schema = frame.raw.schema
    keys = {name for name, t in frame.fields.key if not isinstance(t, OptionalType)}
    whole = set(frame.fields.along)  # such a column is taken as it is, whatever is in its name
    kept = {n: frame.raw[f"`{n}`"] if n in whole else column_at(schema, n) for n, _ in job.kept}
    keep = [(never_null(c, "key", name, frame.raw) if name in keys else c).alias(name) for name, c in kept.items()]
    names = [name for name, _ in job.outputs]
    leaves, sure = leaves_of(frame)
    return stateless_frame(
        job.graph, frame.raw, leaves, keep, outputs=names, nth=job.nth, ansi=ansi, sure=sure, tag=job.tag
    )


def _surely_met(job: SparkJob, frame: Frame) -> bool:
    """Whether the fields named like a column of the key or the order are that column, as the source reads
    it: else rows are looked at."""
    if not job.met:
        return True
    (source,) = frame.fields.sources
    places, at = {}, 0
    for read, (_, t) in zip(source.columns, source.type.columns(), strict=True):
        places[read] = t, at
        at += t.width
    found, graph = stateless(job.graph), job.graph
    for name, _ in job.outputs:
        output = dict(graph.outputs)[name]
        own = own_paths(graph.nodes[output].type, name)
        for met in job.met:
            (t, first), (found_as, leaf) = own[met.name], places.get(met.name, (None, 0))
            if t != found_as or inner_type(t) == FLOAT:  # a whole number may have been rounded
                return False
            for slot in found.slots[output]:
                leaves = slot.leaves[first : first + t.width]
                if any(e.op != "var" or e.value != leaf + i for i, e in enumerate(leaves)):
                    return False
    return True


def leaves_of(frame: Frame) -> tuple[list[Column], list[bool]]:
    """The leaves of the one source, as columns of the user's DataFrame, and which of them never fail to be read."""
    (source,) = frame.fields.sources
    binding = Binding(source.name, source.type, source.columns, nan=source.nan)
    schema = frame.raw.schema
    return source_leaves(binding, schema, "the DataFrame"), surely_events(binding, schema, "the DataFrame")


def with_inner_key(graph: Graph, frame: Frame, job: SparkJob, *, ansi: bool) -> tuple[Frame, SparkJob]:
    """The frame with the key that the pipeline makes by ``key_by`` as its key; the engine makes it again for itself."""
    leaves, _ = leaves_of(frame)
    found = inner_key(graph)
    assert found is not None
    columns = [column(e, leaves, ansi=ansi).alias(f"k{i}") for i, e in enumerate(found)]
    kept = [e.type if e.type in (INT, BOOL, STR) else STR for e in found]
    key = tuple((f"key_by {i}" if len(found) > 1 else "key_by", t) for i, t in enumerate(kept))
    fields = replace(frame.fields, key=key)
    chosen = (*columns, *frame.columns)
    made = replace(frame, df=frame.raw.select(*chosen), fields=fields, columns=chosen)
    return made, replace(job, fields=fields, external=False)
