"""Reasoning on buffers (Model Checking of Stream Processing Pipelines, 2021, section 4.2): the least bound of each
queue, or a proof that there is none.

With a bound Q for every queue the system is searched; if no queue ever needs more, the longest it got is its least
bound. If one overflows, however large Q is, we look on the way there for a **loop that grows**: two states that differ
in the lengths of queues only, none of which got shorter.  Steps ask of a queue only whether it is empty; so if a queue
that grows is never empty in the loop, and nothing depends on what it holds, the loop can be gone round for ever, and
every round adds as much: no bound exists.  The loop is then run on the real engine, several times round, and must do
what is reported.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from pellucid.check.answer import Answer, suggested
from pellucid.check.counterexample import Pushes, replay
from pellucid.check.decide import Options, decide_invariant, listable
from pellucid.check.explicit import Space, explore
from pellucid.check.formula import AG, Atom, Formula
from pellucid.check.functions.called import asks
from pellucid.check.side_by_side import differs, fail_apart
from pellucid.check.system.build import System, build_system, cone
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.queues import Room
from pellucid.check.unbounded import decide_unbounded
from pellucid.errors import UsageError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.graph.build import assemble, instantiate, source
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

    For an event-time pipeline: how far apart what each timed step holds can be (`pellucid.check.timed.question`);
    ``skew`` is how far one source may be ahead of another, ``rate`` how many events of a key come at one time.

    >>> from pellucid import check, pipeline
    >>> step = pipeline(lambda x: x.trim(1) - x, x=int)
    >>> list(check.buffers(step).details["bounds"].values())
    [0, 1]
    >>> endless = check.buffers(pipeline(lambda x: x.decimate(3) + x, x=int))      # Figure 2a
    >>> endless.refuted, len(endless.counterexample.steps), endless.counterexample.loop
    (True, 5, 2)
    """
    if p.graph.timed:
        from pellucid.check.timed.question import held_in_time

        return held_in_time(p, skew=skew, rate=rate)
    if skew is not None or rate is not None:
        raise UsageError("skew= and rate= are for pipelines by event time")
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
    """A loop that grows with events that tell the pipeline's cases apart, where not all events can be listed: it is one
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


# Dead paths (Model Checking of Stream Processing Pipelines, 2021, sections 1 and 4.1): parts of a pipeline that cannot
# influence any output.
#
# Each finding is proved: a stream that never carries an event, by an invariant; a step that could be left out, by
# comparing the pipeline with a copy of itself from which the step was deleted.


@asks(lambda p, **settings: f"every step of {p.name} matters")
def dead_paths(p: Any, *, ints: Any = None, queue: int = 3, assume: Any = None, **settings: Any) -> Verdict:
    """Whether every step matters: refuted with the list of those that do not, in ``details["dead"]``.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.filter(lambda v: v % 3 < 3, id="always").trim(1, id="rest"), x=int)
    >>> check.dead_paths(p).details["dead"]
    {'always': 'it lets every event through: without it the outputs are the same'}
    """
    started = time.perf_counter()
    options, domain, graph = Options(**settings), domain_of(ints, assume), p.graph
    dead: dict[str, str] = {}
    unsure: list[str] = []

    def build(room: Room) -> System:
        return build_system(graph, domain, room)

    for i, node in enumerate(graph.nodes):
        if node.kind == "source":
            if not graph.readers(i) and all(at != i for _, at in graph.outputs):
                dead[node.id] = "nothing reads this source"
            continue
        if options.over:
            unsure.append(node.id)
            continue
        never = decide_unbounded(build, partial(_silent, node.id), queue, options)
        if never.status == "proved":
            dead[node.id] = "it never carries an event"
            continue
        if never.status == "unknown":
            unsure.append(node.id)
        for without, words in _deletions(graph, i):
            answer = _compare(graph, without, domain, queue, options) if not options.over else Answer("unknown", "none")
            if answer is not None and answer.status == "proved":
                same = without[i] is not None and _carries_the_same(build, graph, i, without[i], queue, options)
                words = words if same else "what it does is not seen"
                dead[node.id] = f"{words}: {'; '.join(('without it the outputs are the same', *answer.notes))}"
                break
            if answer is not None and answer.status == "unknown":
                unsure.append(node.id)
    notes = [f"{id}: {words}" for id, words in dead.items()]
    status: Status = "refuted" if dead else "unknown" if unsure else "proved"
    if unsure:
        notes.append(f"not decided: {', '.join(dict.fromkeys(unsure))}")
    return Verdict(
        status,
        f"every step of {p.name} matters",
        "deletion",
        time.perf_counter() - started,
        None,
        tuple(notes),
        {"dead": dead},
    )


def _deletions(graph: Graph, i: int) -> list[tuple[dict[int, int | None], str]]:
    """Ways to leave a step out that keep the types right."""
    node = graph.nodes[i]
    out: list[tuple[dict[int, int | None], str]] = []
    for at, j in enumerate(node.inputs):
        if graph.nodes[j].type == node.type and node.key == graph.nodes[j].key:
            words = {"filter": "it lets every event through", "merge": f"it carries what its input {at + 1} does"}
            out.append(({i: j}, words.get(node.kind, "it changes nothing")))
    if any(graph.nodes[r].processor.inputs == "apart" for r, _ in graph.readers(i)):
        out.append(({i: None}, "what it does is not seen"))
    return out


def _compare(
    graph: Graph, bypass: dict[int, int | None], domain: Domain, queue: int, options: Options
) -> Answer | None:
    """Whether the outputs stay the same, step by step, with a step left out."""
    sources = [source(graph.nodes[at].id, graph.nodes[at].type) for at in graph.sources]
    whole = instantiate(graph, sources, ids=False)
    less = instantiate(graph, sources, bypass=bypass, ids=False)
    if set(whole) != set(less):
        return None
    pairs = {f"{side}{name}": s for side, made in (("a", whole), ("b", less)) for name, s in made.items()}
    both = assemble(graph.name, sources, pairs)
    # a step that fails matters, whatever it emits
    sides = {side: [f"{side}{name}" for name in whole] for side in "ab"}

    def same(system: System) -> Formula:
        out = n.not_(fail_apart(system))
        for name in whole:
            out = n.and_(out, n.not_(differs(system, f"a{name}", f"b{name}")))
        return AG(Atom(out, "the outputs are the same"))

    def ask(options: Options, *, strict: bool) -> Answer:
        return decide_unbounded(
            lambda room: build_system(both, domain, room, strict=strict, sides=sides), same, queue, options
        )

    answer = ask(options, strict=False)
    narrow = build_system(both, domain, 1, strict=True, sides=sides).wide.op == "const"
    if answer.status != "proved" or domain.modulus is not None or narrow:
        return answer
    # A step that leaves 64 bits where nothing else does makes the pipeline fail, and matters.
    quick = dataclasses.replace(
        options, timeout=min(options.left or 5.0, 5.0), max_states=min(options.max_states, 50_000)
    )
    in_64_bits = ask(quick, strict=True)
    if in_64_bits.status == "unknown":
        return dataclasses.replace(
            answer, notes=("for exact integers; whether it leaves 64 bits where nothing else does is not known",)
        )
    return in_64_bits


def _carries_the_same(
    build: Callable[[Room], System], graph: Graph, i: int, j: int | None, queue: int, options: Options
) -> bool:
    """Whether a step carries in every push what its input carries, so that this may be given as the reason."""

    def same(system: System) -> Formula:
        one, other = (system.node(graph.nodes[at].id) for at in (i, j or 0))
        return AG(Atom(n.not_(differs(system, one, other)), "they carry the same"))

    return decide_unbounded(build, same, queue, options).status == "proved"


def _silent(id: str, system: System) -> Formula:
    return AG(Atom(n.not_(system.present(id)), f"{id} is silent"))
