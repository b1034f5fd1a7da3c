"""Reasoning on buffers (Model Checking of Stream Processing Pipelines, 2021, section 4.2): the least bound of each
queue, or a proof that there is none.

With a bound Q for every queue the system is searched; if no queue ever needs more, the longest it got is its least
bound. If one overflows, however large Q is, we look on the way there for a **loop that grows**: two states that differ
in the lengths of queues only, none of which got shorter.  Steps ask of a queue only whether it is empty; so if a queue
that grows is never empty in the loop, and nothing depends on what it holds, the loop can be gone round for ever, and
every round adds as much: no bound exists.  The loop is then run on the real engine, several times round, and must do
what is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pellucid.check.advice import suggested
from pellucid.check.counterexample.pushes import Pushes
from pellucid.check.counterexample.replay import replay
from pellucid.check.decide import Options, decide_invariant, listable
from pellucid.check.explicit.search import Space, explore
from pellucid.check.functions.called import asks
from pellucid.check.system.build import System, build_system
from pellucid.check.system.cone import cone
from pellucid.check.system.domains import Domain, domain_of
from pellucid.errors import UsageError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Budget, Status, Verdict

_SIZES = (1, 2, 4, 8, 16, 32)
_FEW_STATES = 20_000


@asks(lambda p, **settings: f"every queue of {p.name} has a bound")
def buffers(
    p: Any, *, ints: Any = None, assume: Any = None, skew: Any = None, rate: Any = None, **settings: Any
) -> Verdict:
    """The least bound for each queue: proved, with ``details["bounds"]``; refuted where one has none.

    A bound counts the events that wait after a push, so 0 means that the queue is never needed.

    Of a pipeline by event time: how far apart what each timed step holds can be (`pellucid.check.timed.held`); ``skew``
    is how far one source may be ahead of another, ``rate`` how many events of a key come at one time.

    >>> from pellucid import check, pipeline
    >>> step = pipeline(lambda x: x.trim(1) - x, x=int)
    >>> list(check.buffers(step).details["bounds"].values())
    [0, 1]
    >>> endless = check.buffers(pipeline(lambda x: x.decimate(3) + x, x=int))      # Figure 2a
    >>> endless.refuted, len(endless.counterexample.steps), endless.counterexample.loop
    (True, 5, 2)
    """
    if p.graph.timed:
        from pellucid.check.timed.held import held_in_time

        return held_in_time(p, skew=skew, rate=rate)
    if skew is not None or rate is not None:
        raise UsageError("skew= and rate= are of pipelines by event time")
    started = time.perf_counter()
    options, domain = Options(**settings), domain_of(ints, assume)
    graph: Graph = p.graph
    question = f"every queue of {p.name} has a bound"
    ids = [id for id, _, _ in graph.queues()]

    def verdict(status: Status, engine: str, **more: Any) -> Verdict:
        return Verdict(status, question, engine, time.perf_counter() - started, **more)

    if not ids:
        return verdict("proved", "simplification", details={"bounds": {}})
    for size in _SIZES:
        system = build_system(graph, domain, size)
        room = [n.lt(n.const(j), system.lengths[id]) for id in ids for j in range(size)]
        if len(room) > 62:
            break
        small, (over, *atoms) = cone(system, [system.overflow, *room])
        if not listable(small) or (system.keys is not None and not system.keys.enough):
            break
        space = explore(small, [over, *atoms], budget=options.budget())
        if space.why:
            break
        if not space.holds(0).any():
            bounds = {}
            for k, id in enumerate(ids):
                reached = [bool(space.holds(1 + k * size + j).any()) for j in range(size)]
                bounds[id] = sum(reached)
            return verdict("proved", "explicit", details={"bounds": bounds, "states": space.count})
        loop = _growing_loop(graph, small, space)
        if loop is not None:
            example = Pushes((graph,), replay([graph], loop.pushes), loop.start, loop.words)
            return verdict(
                "refuted", "explicit", counterexample=example, notes=(loop.words,), details={"grows": loop.grows}
            )
    found = _with_few_events(graph, domain, options)
    if found is not None:
        example = Pushes((graph,), replay([graph], found.pushes), found.start, found.words)
        return verdict(
            "refuted", "explicit", counterexample=example, notes=(found.words,), details={"grows": found.grows}
        )
    return _by_invariants(graph, domain, ids, options, verdict)


def _with_few_events(graph: Graph, domain: Domain, options: Options) -> _Loop | None:
    """A loop that grows with events that tell the pipeline's cases apart, where all of them cannot be listed: it is one
    whatever else may come."""
    if domain.values is not None or domain.modulus is not None or domain.assume:
        return None
    events = suggested(build_system(graph, domain, 1))
    for many, size in ((2, 2), (2, 4), (4, 4)):
        system = build_system(graph, Domain(tuple(events[:many])), size)
        small, (over,) = cone(system, [system.overflow])
        if not listable(small) or (system.keys is not None and not system.keys.exact):
            continue
        space = explore(small, [over], budget=Budget(min(options.left or 5.0, 5.0), _FEW_STATES))
        loop = _growing_loop(graph, small, space) if space.holds(0).any() else None
        if loop is not None:
            return loop
    return None


def _by_invariants(
    graph: Graph, domain: Any, ids: list[str], options: Options, verdict: Callable[..., Verdict]
) -> Verdict:
    """Where states cannot be listed: a size that suffices for all, then the least for each, as invariants."""
    for size in (1, 2, 3, 4, 6, 8):
        system = build_system(graph, domain, size)
        fits = decide_invariant(system, n.not_(system.overflow), options)
        if fits.status != "refuted":
            break
    if fits.status != "proved":
        why = f"no bound up to {size} was proved, and no growing loop was found"
        return verdict("unknown", fits.engine, notes=(why, *fits.notes), details={"bounds": {}})
    bounds: dict[str, int] = {}
    for id in ids:
        for least in range(size + 1):
            answer = decide_invariant(system, n.le(system.lengths[id], n.const(least)), options)
            if answer.status != "refuted":
                break
        if answer.status == "unknown":
            note = f"queue {id}: {size} suffices, but whether {least} does is not known"
            return verdict("unknown", answer.engine, notes=(note, *answer.notes), details={"bounds": bounds})
        bounds[id] = least
    return verdict("proved", fits.engine, details={"bounds": bounds})


@dataclass(frozen=True)
class _Loop:
    pushes: list[dict[str, Any]]
    start: int
    grows: dict[str, int]
    words: str


def _growing_loop(graph: Graph, system: System, space: Space) -> _Loop | None:
    """A loop on a shortest way to an overflow in which queues only get longer."""
    lengths = {i: v.of for i, v in enumerate(system.state) if v.role == "length"}
    if any(v.role == "item" for v in system.state):
        return None  # what a queue holds matters here: no loop is sure to repeat
    s, c = (int(v[0]) for v in space.holds(0).nonzero())
    choices = [*space.path(s), c]
    states = [0]
    for choice in choices[:-1]:
        states.append(int(space.successor[states[-1], choice]))
    views = [space.values(state) for state in states]
    for start in range(len(views)):
        for end in range(start + 1, len(views)):
            before, after = views[start], views[end]
            control = all(a == b for i, (a, b) in enumerate(zip(before, after, strict=True)) if i not in lengths)
            deltas = {i: after[i] - before[i] for i in lengths}
            if not control or min(deltas.values()) < 0 or max(deltas.values()) == 0:
                continue
            # A queue that grows must not be empty anywhere in the loop, else the next round may go another way.
            if any(views[k][i] == 0 for i, d in deltas.items() if d for k in range(start, end + 1)):
                continue
            grows = {lengths[i]: d for i, d in deltas.items() if d}
            pushes = space.pushes(choices[:end])
            if _really(graph, pushes, start, grows):
                said = ", ".join(f"{id} by {d}" for id, d in grows.items())
                words = f"no bound exists: every round of the last {end - start} push(es) makes a queue longer ({said})"
                return _Loop(pushes, start, grows, words)
    return None


def _really(graph: Graph, pushes: Sequence[dict[str, Any]], start: int, grows: dict[str, int]) -> bool:
    """Go round the loop on the real engine: each round must add as much."""
    run = Interpreter(graph)
    for push in pushes[:start]:
        run.push(push)
    sizes = []
    for _ in range(6):
        sizes.append({id: len(run.queues[id]) for id in grows})
        for push in pushes[start:]:
            run.push(push)
    return all(b[id] - a[id] == d for a, b in pairwise(sizes) for id, d in grows.items())
