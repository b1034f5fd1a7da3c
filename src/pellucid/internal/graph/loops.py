"""Loops: what goes through a pipeline again and again, until nothing changes or to a bound.

What a loop means is in ``docs/how-to-loops.md`` and, word by word, in ``engine/timed/literal.py``.  Here its body is
built, as a graph of its own, and what is asked of it is checked.

The body's graph has one source, ``in``, and the outputs ``again`` and ``out``, or ``again`` alone where what is in the
loop when it ends leaves it.  If a step of it waits for the end of a round (`Stream.each_round`, a loop inside), rounds
are its times: events are pairs of a round and an event then, a step ``at`` says so, and its clock is beyond a round as
soon as that is over.  So a body is a pipeline like any other, and whatever runs pipelines by event time runs it.

>>> from pellucid import iterate, pipeline
>>> iterate(5, lambda x: x)
Traceback (most recent call last):
pellucid.errors.TypeMismatch: iterate (...) wants streams, found int 5
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pellucid.errors import PipelineError, TypeMismatch
from pellucid.internal.expr.tracing.mistakes import refuse_undone, refuse_undone_value
from pellucid.internal.expr.types import INT, TupleType, Type
from pellucid.internal.graph.build import _running, assemble, instantiate, source, sub_graph
from pellucid.internal.graph.memory import forgetting
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import (
    LoopBody,
    Stream,
    _function,
    _make,
    _need_streams,
    _title,
    body_of,
    inside_of,
    scope,
    widened,
)
from pellucid.internal.graph.timed import LATE
from pellucid.internal.graph.timing import ROUND, Timing, windowed

T = TypeVar("T")

#: So many rounds are enough for what ends, unless a loop says something else.
LIMIT = 10_000
#: No round has more events than this: what grows like that does not end.
MOST_EVENTS = 20_000_000

IN, AGAIN, OUT = "in", "again", "out"


def iterate(
    x: Stream[T],
    body: Callable[[Stream[T]], Any] | None = None,
    *,
    limit: int | None = None,
    rounds: int | None = None,
    late: str = "fail",
    id: str | None = None,
) -> Stream[Any]:
    """What goes round: the events of one time go through ``body``, a pipeline; what it puts out goes in again.

    Events of one time are those of one push, or, where events have times (``at``), all of one complete time, in the one
    order of events, whatever order they came in.  The body's state lasts, from round to round and from time to time.

    A body that returns two streams ``(again, out)`` sends events round with the first and out of the loop with the
    second; the loop is over when nothing goes round any more.  A body that returns one stream is over when a round puts
    out what it took, in any order (or nothing); that leaves the loop.

    More than ``limit`` rounds (10,000 if nothing is said) are an error that shows what still goes round.  ``rounds``
    says that the loop stops after so many: what is in it then leaves it, or, with ``(again, out)``, is gone.

    >>> from pellucid import iterate, pipeline
    >>> def halved(x):
    ...     return x.map(lambda n: n // 2 if n > 10 else n)
    >>> pipeline(lambda x: iterate(x, halved), x=int)([100, 7])
    [6, 7]
    >>> def collatz(x):
    ...     after = x.map(lambda n: n // 2 if n % 2 == 0 else 3 * n + 1)
    ...     return after.filter(lambda n: n > 1), after
    >>> pipeline(lambda x: iterate(x, collatz, limit=200), x=int)([6])
    [3, 10, 5, 16, 8, 4, 2, 1]
    >>> pipeline(lambda x: iterate(x, lambda n: n * 2, rounds=10), x=int)([1, 3])
    [1024, 3072]
    """
    _need_streams("iterate", id, (x,))
    title = _title("iterate", id)
    bound = _bound(title, limit, "limit")
    exact = _bound(title, rounds, "rounds")
    if bound is not None and exact is not None:
        raise PipelineError(
            f"{title}: limit= says that more rounds are an error, and rounds= that it stops after so many: leave one "
            "out"
        )
    if late not in LATE:
        raise PipelineError(f"{title}: late={late!r}: expected 'fail', or 'drop' if events that come too late are gone")
    graph = body_graph(body, x.type, title)
    timing = Timing(
        times=x._step.clock or INT, late=late, limit=bound or LIMIT if exact is None else None, rounds=exact
    )
    return _make("iterate", (x,), graph.nodes[graph.outputs[-1][1]].type, sub=graph, id=id, timing=timing)


def _bound(title: str, given: Any, word: str) -> int | None:
    """A number of rounds."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeMismatch(f"{title}: {word} is a number of rounds, found {type(given).__name__} {given!r}")
    if given < 1:
        raise PipelineError(f"{title}: {word} is a number of rounds, at least 1, found {given}")
    return given


def body_graph(body: Any, t: Type, title: str) -> Graph:
    """The graph of a loop's body over events of this type."""
    if not callable(body):
        raise PipelineError(
            f"{title}: the body must be a pipeline or a function of a stream, as in iterate(x, lambda x: x.map(…)), "
            f"found {body!r}"
        )
    refuse_undone(body, f"{title}: the body")
    name = str(getattr(body, "name", None) or getattr(body, "__name__", "body"))
    name = "body" if name == "<lambda>" else name
    pair = TupleType((INT, t))
    told = Timing(times=INT, lateness=-1, how=ROUND)  # when a round has been, its time is over
    tokens = scope.set(()), inside_of.set(""), body_of.set(LoopBody(title))  # ids inside stand on their own
    try:
        came = source(IN, pair)
        at = _make("at", (came,), pair, fn=_function("at", None, round_of, (pair,)), timing=told)
        event = _make("map", (at,), t, fn=_function("map", None, event_of, (pair,)))
        if hasattr(body, "__wrapped__"):  # a pipeline, which looks after itself
            result = body(event)
        else:
            with _running(body, name):
                result = body(event)
        refuse_undone_value(f"{title}: the body", result)
        outputs = _outputs(result, t, title)
        graph = assemble(name, [came], outputs, title)
        if forgets := forgetting(graph):
            raise PipelineError(
                f"{title}: {forgets.describe()} gives keys up by counting events, and how often an event goes round is "
                "not up to the stream: use key_by alone in the body"
            )
        if any(node.processor.timed for node in graph.nodes if node.kind != "at"):
            return graph
        plain = source(IN, t)  # nothing waits for the end of a round
        i, j = (next(n for n, node in enumerate(graph.nodes) if node.kind == kind) for kind in ("source", "at"))
        # The event of a pair is read by whoever reads the body's input: the source itself stands for it.
        k = next(n for n, node in enumerate(graph.nodes) if node.inputs == (j,))
        made = instantiate(graph, [plain], bypass={j: i, k: j})
        return assemble(name, [plain], made, title)
    finally:
        scope.reset(tokens[0])
        inside_of.reset(tokens[1])
        body_of.reset(tokens[2])


def _outputs(result: Any, t: Type, title: str) -> dict[str, Stream[Any]]:
    """What a body returned: what goes round, and what leaves the loop if that is something else."""
    streams = result if isinstance(result, tuple) else (result,)
    if len(streams) not in (1, 2) or not all(isinstance(s, Stream) for s in streams):
        raise PipelineError(
            f"{title}: its body must return a stream, or two, (again, out): what goes round, and what leaves the loop; "
            f"found {result!r}"
        )
    again = widened(streams[0], t)
    if again.type != t:
        raise TypeMismatch(
            f"{title}: what goes round goes into the body again, so it must be of the type that the body takes: "
            f"expected {t}, found {again.type}"
        )
    return {AGAIN: again, OUT: streams[1]} if len(streams) == 2 else {AGAIN: again}


def round_of(pair: Any) -> Any:
    """The round of an event in a body with times."""
    return pair[0]


def event_of(pair: Any) -> Any:
    """The event itself."""
    return pair[1]


def value_in(window: Any) -> Any:
    """What a round came to."""
    return window.value


def make_each_round(x: Stream[Any], sub: Any, id: str | None) -> Stream[Any]:
    """The last event of a sub-pipeline over the events of each round, by key."""
    title = _title("each_round", id)
    if body_of.get() is None or inside_of.get():
        raise PipelineError(
            f"{title} goes in the body of a loop, as in iterate(x, body) with def body(x): return x.each_round(total): "
            "elsewhere there are no rounds"
        )
    graph = sub_graph(sub, x.type, title)
    value = graph.nodes[graph.outputs[0][1]].type
    timing = Timing(times=INT, size=1, every=1, how=ROUND)
    made = _make("tumbling", (x,), windowed(INT, value), sub=graph, id=id, timing=timing)
    return made.map(value_in)


def pair_form(graph: Graph) -> bool:
    """Whether a body says itself what leaves the loop."""
    return len(graph.outputs) == 2
