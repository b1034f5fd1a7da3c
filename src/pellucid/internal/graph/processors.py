"""The table of processors: each kind once, with what every back-end asks about it.

What a kind *is* stands here: how its inputs come, how many events it emits, what it remembers, what it
looks like, and what it **means**: one function that says, for one event, what the step remembers
next and which events it emits, as expressions over what it remembers now and the leaves of the event.

>>> PROCESSORS["trim"].keeps, PROCESSORS["apply"].inputs, PROCESSORS["merge"].inputs
('count', 'together', 'apart')
>>> from pellucid import pipeline
>>> trim = pipeline(lambda x: x.trim(3), x=int).graph.nodes[1]
>>> trim.processor.means(trim, [n.var(0, INT)], [n.var(1, INT)], None)
Outcome(after=[v0 if v0 >= 3 else v0 + 1], emits=[(v0 >= 3, [v1])])

The checks' system, the NuSMV export, Spark's plans of expressions and the search for arguments derive from that
definition; so do the kernel and the interpreter for each kind that they have no method of their own for.  Where a
back-end does have one, for speed or as the literal second reading, `tests/graph/test_table.py` holds it to the
definition.

To add a kind: a row here with its definition, a method of `Stream`, and a pictogram; `tests/graph/test_table.py` says
what is missing.  A timed kind, which waits for event time, has its meaning in ``engine/timed/literal.py``; a back-end
that knows no event time refuses it by name (`refuse_timed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.errors import NotNamed
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import TRUE, Expr
from pellucid.internal.expr.types import INT, Type, simplest

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Node


class Call(Protocol):
    """How a back-end applies the step's own function: to these leaves, where ``when`` holds.

    It returns the leaves of the result; of a task the new state, how many events there are, and the leaves of each
    event that is possible.  Of a window it runs the sub-pipeline over its events, and returns whether that emitted
    anything, and the leaves of the last event.
    """

    def __call__(self, leaves: Sequence[Expr], when: Expr = TRUE) -> Sequence[Expr]: ...


@dataclass(frozen=True)
class Cell:
    """A piece of what a step remembers (for each key, where its stream is keyed)."""

    label: str
    type: Type
    start: Any
    size: int | None = None  # of a counter: its values are 0 … size-1
    role: str = "state"  # or a count, or a part of an event


@dataclass(frozen=True)
class Outcome:
    """What a step does with one event: what each of its cells holds next, and which events it emits, each where its
    condition holds."""

    after: Sequence[Expr]
    emits: Sequence[tuple[Expr, Sequence[Expr]]]


#: The meaning of a kind: of a step, what its cells hold now, the leaves of the event, and its function.
Meaning = Callable[["Node", Sequence[Expr], Sequence[Expr], Any], Outcome]


def cells_of(node: Node, event: Sequence[Type]) -> list[Cell]:
    """What a step remembers, given the types of the leaves of an event.  The state of a task that is any Python object
    has no cells: back-ends keep it as they can.

    >>> from pellucid import pipeline
    >>> [(cell.label, cell.size) for cell in cells_of(pipeline(lambda x: x.lag(2), x=int).graph.nodes[1], [INT])]
    [('seen', 3), ('event0.0', None), ('event1.0', None)]
    """
    p = node.processor
    if p.keeps in ("value", "state"):
        if node.state is None:
            return []
        leaves = zip(node.state.leaves(), node.state.flatten(node.start), strict=True)
        return [Cell(f"state.{path}" if path else "state", t, leaf) for (path, t), leaf in leaves]
    if p.keeps == "count":
        assert p.counted is not None and node.k is not None
        return [Cell("count", INT, 0, 1 + max(p.counted(i, node.k) for i in range(node.k + 1)), "count")]
    if p.keeps == "events":
        places = [(i, j) for i in range(node.earlier) for j in range(len(event))]
        held = [Cell(f"event{i}.{j}", event[j], simplest(event[j]), role="event") for i, j in places]
        return [Cell("seen", INT, 0, node.earlier + 1, "count"), *held]
    return []


def meaning_of(node: Node, who: str) -> Meaning:
    """What a step means; ``who`` refuses, by name, a kind that has no definition."""
    means = node.processor.means
    if means is None:
        raise NotNamed(f"{who} does not know the processor {node.kind!r}")
    return means


def made_of(node: Node, event: Sequence[Type]) -> list[list[tuple[int, int]]]:
    """Of each event that a step without a function emits: for each of its leaves, of which event that is a leaf (0 the
    present one, 1 … those that are kept), and which of its leaves.

    >>> from pellucid import pipeline
    >>> made_of(pipeline(lambda x: x.lag(2), x=int).graph.nodes[1], [INT])
    [[(0, 0), (1, 0)]]
    """
    cells, width = cells_of(node, event), len(event)
    now = [n.var(i, cell.type) for i, cell in enumerate(cells)]
    came = [n.var(len(cells) + j, t) for j, t in enumerate(event)]
    held = [e for e, cell in zip(now, cells, strict=True) if cell.role == "event"]
    place = {id(e): divmod(i, width) for i, e in enumerate([*came, *held])}
    emits = meaning_of(node, "a step without a function")(node, now, came, None).emits
    return [[place[id(leaf)] for leaf in leaves] for _, leaves in emits]


def _hand_on(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    return Outcome([], [(TRUE, event)])


def _map(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    return Outcome([], [(TRUE, call(event))])


def _filter(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    (keep,) = call(event)
    return Outcome([], [(keep, event)])


def _filter_by(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    return Outcome([], [(event[-1], event[:-1])])


def _cumulate(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    new = call([*now, *event])
    return Outcome(new, [(TRUE, new)])


def _decimate(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    assert node.k is not None
    (count,) = now
    turn = n.eq(count, n.const(node.k - 1))
    return Outcome([n.ite(turn, n.const(0), n.add(count, n.const(1)))], [(n.eq(count, n.const(0)), event)])


def _trim(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    (count,), done = now, n.le(n.const(node.k), now[0])
    return Outcome([n.ite(done, count, n.add(count, n.const(1)))], [(done, event)])


def _take(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    (count,), done = now, n.le(n.const(node.k), now[0])
    return Outcome([n.ite(done, count, n.add(count, n.const(1)))], [(n.not_(done), event)])


def _lag(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    full, earlier, after = _recent(node, now, event)
    return Outcome(after, [(full, [*event, *earlier[: len(event)]])])


def _window(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    full, earlier, after = _recent(node, now, event)
    some, *last = call([*earlier, *event], full)
    return Outcome(after, [(n.and_(full, some), last)])


def _recent(node: Node, now: Sequence[Expr], event: Sequence[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
    """Whether as many events came before as the step looks back on, their leaves, the earliest first, and what is
    remembered after this one."""
    many, width = node.earlier, len(event)
    count, *held = now
    full = n.eq(count, n.const(many))
    after = [n.ite(full, count, n.add(count, n.const(1)))]
    for i in range(many):
        later = held[(i + 1) * width : (i + 2) * width] if i + 1 < many else event
        here = n.eq(count, n.const(i))
        own = held[i * width : (i + 1) * width]
        after += [n.ite(full, a, n.ite(here, new, old)) for a, new, old in zip(later, event, own, strict=True)]
    return full, held, after


def _task(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    results = call([*now, *event])
    return Outcome(results[: len(now)], _several(node, results[len(now) :], []))


def _explode(node: Node, now: Sequence[Expr], event: Sequence[Expr], call: Call) -> Outcome:
    return Outcome([], _several(node, call(event), event if node.beside else []))


def _several(node: Node, results: Sequence[Expr], head: Sequence[Expr]) -> list[tuple[Expr, Sequence[Expr]]]:
    """The events of which there are as many as the first result says, each behind what goes before it."""
    count, *rest = results
    width = node.type.width - len(head)
    return [(n.lt(n.const(i), count), [*head, *rest[i * width : (i + 1) * width]]) for i in range(len(rest) // width)]


@dataclass(frozen=True)
class Processor:
    """One kind of processor."""

    words: str  # what it emits
    #: Its colour in pictures: without memory, with memory, a frame around others, a router of events, by event time.
    family: str
    shape: tuple[str, str]  # what opens and closes its box in Mermaid
    #: How events come to it: ``none`` (a source), ``one`` input, several ``together`` (it waits for one of each), or
    #: ``apart`` (each as it comes).
    inputs: str = "one"
    #: What it emits for an event that comes: one for ``each``, one for ``some``, as ``many`` as its function says.
    puts: str = "each"
    #: Whose events it hands on as they are: those of its ``first`` input, those of ``all``, or none's.
    passes: str = ""
    #: What it remembers: its last ``value``, a ``count`` of its events, its last ``events``, a ``state``, events
    #: by their ``times``, or nothing.
    keeps: str = ""
    idle: int | None = None  # the k with which it lets every event through and remembers nothing
    counted: Callable[[int, int], int] | None = None  # what is left of the count of n events, given k
    beside: int = 0  # of one that keeps events: at how many more than k, the present one among them, it looks
    keyed: bool = False  # it makes the key of what follows
    forgets: bool = False  # and gives up what is kept for a key of which k events have not been

    #: It works by event time, or is a loop: engines cut the graph at it, and tell it when times are complete.
    timed: bool = False
    #: What becomes of the times of events: it ``makes`` them, ``drops`` them, hands them on where there are some
    #: (``may``), or else wants some and hands them on.
    clock: str = ""
    #: Of a timed one: whether an event can come too late for it, so that it has a ``late`` stream.
    judges: bool = False
    #: What it means (see the top); None: it has no step of single events.
    means: Meaning | None = None

    @property
    def starts(self) -> bool:
        """Whether it begins with a start value of the user's."""
        return self.keeps in ("value", "state")

    @property
    def hands_on(self) -> bool:
        """Whether the events that it emits are events of its one input, as they are."""
        return self.passes == "first" and self.inputs == "one" and not self.forgets

    @property
    def plain(self) -> bool:
        """Whether what it does with an event depends on that event alone, whatever its parameters, and emits one at
        most."""
        return self.inputs == "one" and self.puts != "many" and not self.keeps and not self.keyed and not self.timed


PROCESSORS = {
    "source": Processor("events come in", "edge", ("([", "])"), inputs="none"),  # a stadium
    "map": Processor("a function of each event", "plain", ("[", "]"), means=_map),
    "filter": Processor(  # a funnel: wide above, narrow below
        "the events for which a predicate holds", "plain", ("[\\", "/]"), puts="some", passes="first", means=_filter,
    ),
    "filter_by": Processor(
        "the events whose partner in a Boolean stream is true", "plain", ("{", "}"),
        inputs="together", puts="some", passes="first", means=_filter_by,
    ),
    "apply": Processor(
        "a function of one event from each input, synchronously", "plain", ("[[", "]]"),
        inputs="together", means=_map,
    ),
    "cumulate": Processor(
        "the successive values of a binary function", "state", ("(", ")"), keeps="value", means=_cumulate,
    ),
    "decimate": Processor(
        "one event in k", "state", (">", "]"),
        puts="some", passes="first", keeps="count", idle=1, counted=lambda n, k: n % k, means=_decimate,
    ),
    "trim": Processor(
        "all but the first k events", "state", ("[/", "/]"),
        puts="some", passes="first", keeps="count", idle=0, counted=min, means=_trim,
    ),
    "take": Processor(
        "the first k events", "state", ("[/", "/]"),
        puts="some", passes="first", keeps="count", counted=min, means=_take,
    ),
    "lag": Processor(
        "each event beside the one k events before it", "state", ("[\\", "\\]"),
        puts="some", keeps="events", beside=1, means=_lag,
    ),
    "window": Processor(
        "the last event of a sub-pipeline over each k successive events", "frame", ("[", "]"),
        puts="some", keeps="events", idle=1, means=_window,
    ),
    "task": Processor(  # a store
        "the general stateful task: state and event to state and events", "state", ("[(", ")]"),
        puts="many", keeps="state", means=_task,
    ),
    "explode": Processor(  # it widens
        "each element of a list, in order", "plain", ("[/", "\\]"), puts="many", means=_explode,
    ),
    "merge": Processor(
        "the events of all inputs, as they come", "route", ("((", "))"), inputs="apart", passes="all", means=_hand_on,
    ),
    "key_by": Processor(
        "the same events, with what follows kept apart by key", "route", ("{{", "}}"),
        passes="first", keyed=True, means=_hand_on,
    ),
    "forget": Processor(
        "the same events, kept apart by key, where a key starts again after k events that are not its own",
        "route", ("(((", ")))"), passes="first", keyed=True, forgets=True, means=_hand_on,
    ),
    "at": Processor(  # a flag on an axis
        "the same events, each with its time", "time", (">", "]"),
        passes="first", timed=True, clock="makes",
    ),
    "tumbling": Processor(
        "the last event of a sub-pipeline over each window of time, once, when the window is complete",
        "time", ("[", "]"), puts="many", keeps="times", timed=True, judges=True,
    ),
    "sliding": Processor(
        "the same over windows of time that overlap", "time", ("[", "]"),
        puts="many", keeps="times", timed=True, judges=True,
    ),
    "session": Processor(
        "the last event of a sub-pipeline over events that are no further apart than a gap",
        "time", ("[", "]"), puts="many", keeps="times", timed=True, judges=True,
    ),
    "join": Processor(
        "pairs of events whose times are within an interval", "time", ("[[", "]]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True,
    ),
    "as_of": Processor(
        "each event beside the latest of another stream that is not after it", "time", ("[[", "]]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True,
    ),
    "lookup": Processor(
        "each event beside what a table that changes held at its time", "time", ("[(", ")]"),
        inputs="apart", puts="many", keeps="times", timed=True, judges=True,
    ),
    "dedup": Processor(
        "the events of which there was no like one shortly before", "time", ("{", "}"),
        puts="many", keeps="times", timed=True, judges=True,
    ),
    "timers": Processor(
        "the general stateful task by event time, notified of the times that it asks for", "time", ("[(", ")]"),
        puts="many", keeps="times", timed=True, judges=True,
    ),
    "late": Processor(
        "the events that came too late for a step", "time", ("[/", "\\]"),
        puts="many", timed=True, clock="drops",
    ),
    "early": Processor(
        "the answers that windows have so far, before they are complete", "time", ("[\\", "/]"),
        puts="many", timed=True, clock="drops",
    ),
    "iterate": Processor(
        "what goes round through a sub-pipeline until nothing changes, or to a bound", "frame", ("[", "]"),
        puts="many", keeps="times", timed=True, clock="may", judges=True,
    ),
}  # fmt: skip
