"""What must be true of every run: Propositions 7 to 9, Theorem 2, completeness of notifications, liveness.

Each is decided by going through all that the machine can do, nearest states first, so that what breaks it is a shortest
run.  Theorem 2 and completeness speak of two moments of a run: the search goes through pairs of a situation and what
was outside the clock, or was told, on the way there.

- *Theorem 2*: once (e, t) is not in the clock, no message of a time ≤ t is on e.
- *Completeness*: after Not(p, t), p receives no message of a time ≤ t.
- *Liveness*: whatever happened, a notification that was asked for can still come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pellucid.internal.model import Budget, CutShort, Run, Search
from pellucid.progress.reach.relation import Pointstamp, Proof, bits
from pellucid.progress.semantics.machine import Inside, Mess, Not, Semantics, Situation

PROPERTIES = ("proposition 7", "proposition 8", "proposition 9", "theorem 2", "completeness", "liveness")


@dataclass(frozen=True)
class Finding:
    """What became of a property: refuted by a run; bounded, as no run of the machine speaks against it; or unknown,
    where not all were looked at."""

    name: str
    labels: tuple[Any, ...] | None = None
    why: str = ""
    states: int = 0
    cut: str = ""

    @property
    def status(self) -> str:
        """refuted, bounded or unknown."""
        return "refuted" if self.labels is not None else "unknown" if self.cut else "bounded"

    def run(self, machine: Semantics) -> Run | None:
        """The run that refutes it."""
        if self.labels is None:
            return None
        return Run((), self.labels, None, self.why, _seen_inside(machine))


def decide(machine: Semantics, name: str, budget: Budget | None = None) -> Finding:
    """One property of a machine, by its name.

    >>> from pellucid.progress.reach.exact import exact
    >>> from pellucid.progress.graph import Graph, Node
    >>> past = Node(lambda s, edge, m: (s, [0], {}), lambda s, t: (s, [], {}))
    >>> graph = Graph({"p": past}, {"i": (None, "p")}, times=[0, 1])
    >>> decide(Semantics(graph, exact(graph)), "proposition 8").why
    'the clock has (p, 0) now, and had not before'
    """
    budget = budget or Budget(None, 200_000)
    if name == "liveness":
        return _live(machine, budget)
    start, steps, wrong = _QUESTIONS[name](machine, budget)
    search: Search[Any, Any] = Search([start], steps, budget)
    try:
        for state, following in search:
            for label, then in following:
                why = wrong(state, label, then)
                if why:
                    return Finding(name, (*search.way(state), label), why, len(search.parents))
    except CutShort as cut:
        return Finding(name, None, "", len(search.parents), str(cut))
    return Finding(name, None, "", len(search.parents))


Question = tuple[Any, Callable[[Any], Iterable[tuple[Any, Any]]], Callable[[Any, Any, Any], str]]


def _condition_1(machine: Semantics, budget: Budget) -> Question:
    """Condition 1, of the local histories of the runs: what is newly asked for is at or after the event."""
    leq = machine.graph.order.less_equal

    def wrong(at: Situation, label: Any, then: Situation) -> str:
        if not isinstance(label, Mess | Not):
            return ""
        i, time = machine.node[label.node], label.message.time if isinstance(label, Mess) else label.time
        early = [t for t in then.requests[i] - at.requests[i] if not leq(time, t)]
        return f"{label.node} asks for {early[0]} at {time}, which is in the past" if early else ""

    return machine.start(), machine.steps, wrong


def _proposition_7(machine: Semantics, budget: Budget) -> Question:
    """LocState(p) and NotRequests(p) are what some local history leads to."""
    known = {p: machine.graph.histories(p, budget).all() for p in machine.graph.nodes}

    def wrong(at: Situation, label: Any, then: Situation) -> str:
        for p, state, requests in zip(machine.graph.nodes, then.local, then.requests, strict=True):
            if (state, requests) not in known[p]:
                waits = ", ".join(map(str, requests)) or "nothing"
                return f"no local history leads {p} to state {state!r} waiting for {waits}"
        return ""

    return machine.start(), machine.steps, wrong


def _proposition_8(machine: Semantics, budget: Budget) -> Question:
    """Where no input edge becomes longer, Clock′ ⊆ Clock."""
    return machine.start(), machine.steps, lambda at, label, then: _grows(machine, at, then, edges_only=False)


def _proposition_9(machine: Semantics, budget: Budget) -> Question:
    """If that holds, and inputs do not grow, an (e, t) that left the clock does not come back."""
    return machine.start(), machine.steps, lambda at, label, then: _grows(machine, at, then, edges_only=True)


def _grows(machine: Semantics, at: Situation | None, then: Situation, *, edges_only: bool) -> str:
    if at is None or any(
        len(then.queues[machine.edge[i]]) > len(at.queues[machine.edge[i]]) for i in machine.graph.inputs
    ):
        return ""
    new = machine.clock_bits(then) & ~machine.clock_bits(at)
    found = next((point for point in _points(machine, new) if not edges_only or point.location in machine.edge), None)
    return f"the clock has {found} now, and had not before" if found else ""


def _theorem_2(machine: Semantics, budget: Budget) -> Question:
    relation = machine.relation
    count, edges = len(relation.times), _edge_bits(machine)

    def steps(at: tuple[Situation | None, int]) -> Iterator[tuple[Any, tuple[Situation, int]]]:
        situation, gone = at
        for label, then in machine.steps(situation):
            yield label, (then, gone | (edges & ~machine.clock_bits(then)))

    def wrong(at: tuple[Situation, int], label: Any, then: tuple[Situation, int]) -> str:
        gone = at[1]
        for e, queue in zip(machine.edges, then[0].queues, strict=True):
            for m in queue:
                later = relation.up[relation.at[m.time]] << (relation.index[e] * count)
                for point in _points(machine, gone & later):
                    return f"a message {m} is on {e}, and {point} was not in the clock before"
        return ""

    return (machine.start(), 0), steps, wrong


def _completeness(machine: Semantics, budget: Budget) -> Question:
    leq = machine.graph.order.less_equal

    def steps(at: tuple[Situation | None, frozenset[Not]]) -> Iterator[tuple[Any, tuple[Situation, frozenset[Not]]]]:
        situation, told = at
        for label, then in machine.steps(situation):
            yield label, (then, told | {label} if isinstance(label, Not) else told)

    def wrong(at: tuple[Situation, frozenset[Not]], label: Any, then: Any) -> str:
        if isinstance(label, Mess):
            for told in at[1]:
                if told.node == label.node and leq(label.message.time, told.time):
                    return (
                        f"{label.node} was told that {told.time} is complete, and now a message {label.message} comes"
                    )
        return ""

    return (machine.start(), frozenset()), steps, wrong


_QUESTIONS = {
    "condition 1": _condition_1,
    "proposition 7": _proposition_7,
    "proposition 8": _proposition_8,
    "proposition 9": _proposition_9,
    "theorem 2": _theorem_2,
    "completeness": _completeness,
}


# ---------------------------------------------------------------- liveness


def _live(machine: Semantics, budget: Budget) -> Finding:
    """From every situation in which p waits for t, Not(p, t) can be reached."""
    search: Search[Any, Any] = Search([machine.start()], machine.steps, budget)
    before: dict[Any, list[Any]] = {}
    told: dict[tuple[str, Any], list[Any]] = {}
    try:
        for state, following in search:
            for label, then in following:
                before.setdefault(then, []).append(state)
                if isinstance(label, Not):
                    told.setdefault((label.node, label.time), []).append(state)
    except CutShort as cut:
        return Finding("liveness", None, "", len(search.parents), str(cut))
    good = {wait: _backwards(states, before) for wait, states in told.items()}
    for state in search.parents:
        for wait in _waits(machine, state):
            if state not in good.get(wait, ()):
                why = _never(machine, state, *wait)
                return Finding("liveness", tuple(search.way(state)), why, len(search.parents))
    return Finding("liveness", None, "", len(search.parents))


def _backwards(states: Iterable[Any], before: dict[Any, list[Any]]) -> set[Any]:
    return Search(states, lambda state: ((None, other) for other in before.get(state, ()))).all()


def _waits(machine: Semantics, at: Situation | None) -> Iterator[tuple[str, Any]]:
    if at is not None:
        for p, times in zip(machine.graph.nodes, at.requests, strict=True):
            for t in sorted(times, key=machine.relation.times.index):
                yield p, t


def _never(machine: Semantics, at: Situation, p: str, t: Any) -> str:
    held = next(holds_back(machine, at, p, t), None)
    because = "" if held is None else f": {held[0]} could result in {held[1].end}"
    return f"{p} waits for {t}, and whatever happens from here it is never told{because}"


def holds_back(machine: Semantics, at: Situation, node: str, time: Any) -> Iterator[tuple[Pointstamp, Proof]]:
    """The pointstamps because of which a node is not notified of a time, each with the proof that it could reach an
    edge into it."""
    for point in machine.pending(at):
        for e in machine.graph.into[node]:
            proof = machine.relation.prove(point, (e, time), closed=True)
            if proof is not None:
                yield point, proof
                break


# ---------------------------------------------------------------- shared


def _points(machine: Semantics, mask: int) -> Iterator[Pointstamp]:
    return map(machine.relation.pointstamp, bits(mask))


def _edge_bits(machine: Semantics) -> int:
    count = len(machine.relation.times)
    ones = (1 << count) - 1
    return sum(ones << (machine.relation.index[e] * count) for e in machine.edges)


def _seen_inside(machine: Semantics) -> Semantics:
    """The same machine, with everything to be seen."""
    kind: Any = type("Inside" + type(machine).__name__, (Inside, type(machine)), {})
    shown: Semantics = kind.__new__(kind)
    shown.__dict__.update(machine.__dict__)
    return shown
