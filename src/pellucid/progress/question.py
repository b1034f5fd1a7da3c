"""``check.progress``: does a graph keep its promises about times?

Six parts, each with a verdict of its own: Conditions 1 and 2; that no time goes round a cycle unchanged; and, of all
runs, Theorem 2, completeness of notifications, and liveness.  The whole is refuted if one part is, and proved if all
are.  A graph is looked at for the times and values that it lists, and in runs of a few messages: what holds there is
*bounded* by them, unless the summaries of its nodes show it for all times.

*Definition 3 is misprinted*: it says "x = t′ for some t″ such that t ≤ t″".  Read "x = t″ for some t″ with t ≤ t″": as
printed it refuses nodes that only ask again for the time of which they are notified, and accepts others that ask for
the past.  A way round in which the time stays the same *satisfies* Condition 2; it is refused nevertheless, because a
notification inside would wait for itself.

What must be true of every run is decided by going through all that the machine can do, nearest states first, so that
what breaks it is a shortest run.  Theorem 2 and completeness speak of two moments of a run: the search goes through
pairs of a situation and what was outside the clock, or was notified, on the way there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from pellucid.errors import UsageError, nearest
from pellucid.internal.model import Budget, CutShort, Run, Search, Verdict, combined, now
from pellucid.internal.model.search import stopping
from pellucid.progress.could_result_in import (
    Pointstamp,
    Proof,
    Relation,
    Request,
    bits,
    builder_of,
    conservative,
    doings,
    exact,
    within,
)
from pellucid.progress.graph import LISTED, Event, Graph, Message, pending
from pellucid.progress.reachability import Location, standing_loop
from pellucid.progress.semantics import Inside, Mess, Not, Semantics, Situation
from pellucid.progress.times import Time, several, whole

# ---------------------------------------------------------------- Condition 1


def condition_1(graph: Graph, *, budget: Budget | None = None) -> Run | None:
    """An event at one time asks for notifications of that time or later; the history that breaks it, or None.

    >>> from pellucid.progress.graph import Node
    >>> late = Node(lambda s, edge, m: (s, [0], {}))
    >>> print(condition_1(Graph({"p": late}, {"i": (None, "p")}, times=[0, 1])))
    step     0          1
             Starts     message 1 on i
    state
    pending  'none'     '0'
    sent     'nothing'
                        ^ p, at its start, on message 1 on i asks for 0, which is in the past: 1 is not at or before 0
    """
    for node in graph.nodes:
        for found in doings(graph, node, budget):
            if isinstance(found, Request) and not graph.order.less_equal(found.event.time, found.time):
                why = f"{found}, which is in the past: {found.event.time} is not at or before {found.time}"
                return _story(graph, found, why)
    return None


def _story(graph: Graph, found: Request, why: str) -> Run:
    labels = (Starts(found.history.state, found.history.requests), *found.history.events, found.event)
    return Run((), labels, None, why, LocalMachine(graph, found.node))


class Starts(NamedTuple):
    """The first entry of a local history."""

    state: Any
    requests: frozenset[Time]

    def __str__(self) -> str:
        return "Starts"


class LocalMachine:
    """One node by itself, taking any events in any order: its runs are its local histories."""

    def __init__(self, graph: Graph, node: str) -> None:
        self.graph, self.node = graph, node

    def start(self) -> Any:
        """Before the first entry."""
        return None

    def steps(self, at: Any, *, failures: bool = True) -> Iterator[tuple[Starts | Event, Any]]:
        """Its starts, then all its events."""
        if at is None:
            for state, requests in self.graph.starts(self.node):
                yield Starts(state, requests), (state, requests, ())
            return
        for event in self.graph.events(self.node):
            result = self.graph.g1(self.node, at[0], event)
            yield event, (result.state, pending(at[1], event, result), result.messages)

    def see(self, at: Any) -> Any:
        """Its state, what it waits for and what it sent last."""
        if at is None:
            return {}
        state, requests, sent = at
        edges = zip(self.graph.out[self.node], sent, strict=False)
        sent_now = [f"{edge}: {', '.join(map(str, several))}" for edge, several in edges if several]
        return {
            "state": state,
            "pending": ", ".join(sorted(map(str, requests))) or "none",
            "sent": "; ".join(sent_now) or "nothing",
        }

    def complete(self, at: Any) -> bool:
        """A history may end anywhere."""
        return True


# ---------------------------------------------------------------- Condition 2, and cycles that take no time


def condition_2(relation: Relation) -> Proof | None:
    """What a node does at a time reaches its own inputs only at that time or later; the proof of one that is earlier,
    or not comparable, or None.

    >>> from pellucid.progress.could_result_in import exact
    >>> from pellucid.progress.graph import Message, Node, buffer
    >>> back = Node(lambda s, edge, m: (s, [], {"e": [Message(max(m.time - 1, 0))]}))
    >>> graph = Graph({"p": back, "q": buffer("f")}, {"e": ("p", "q"), "f": ("q", "p")}, times=[0, 1])
    >>> print(condition_2(exact(graph)))
    (p, 1) could result in (f, 0):
      (p, 1)
      (e, 0): p, at its start, on message 1 on f sends 0 on e
      (q, 0): e leads to q
      (f, 0): q, at its start, on message 0 on e sends 0 on f
    """
    everything = (1 << len(relation.times)) - 1
    return _first_round(relation, [everything & ~later for later in relation.up])


def no_time_passes(relation: Relation) -> Proof | None:
    """A way from a node to one of its own inputs on which no time passes, or None: a notification at the node for the
    time of the proof would never come."""
    return _first_round(relation, relation.down)


def _first_round(relation: Relation, wrong: Sequence[int]) -> Proof | None:
    """A shortest proof that leads from a node to an edge into it at a time that is wrong (a bit of ``wrong`` at the
    time where it begins); with ports also from an edge back to itself."""
    graph, times, best = relation.graph, relation.times, None
    for node in graph.nodes:
        for edge in graph.into[node]:
            if graph.source[edge] is None:
                continue
            for i, t in enumerate(times):
                for j in bits(relation.then(node, i, edge) & wrong[i]):
                    proof = relation.prove((node, t), (edge, times[j]))
                    if proof is not None and (best is None or len(proof) < len(best)):
                        best = proof
    return best or _edge_rounds(relation, wrong)


def _edge_rounds(relation: Relation, wrong: Sequence[int]) -> Proof | None:
    for edge in relation.graph.internal:
        for link in relation.links.get(edge, ()):
            for (a, b), why in (link.because or {}).items():
                pairs = ((t, relation.times[j]) for i, t in enumerate(relation.times) for j in bits(wrong[i]))
                for t, u in pairs:
                    if not relation.graph.order.less_equal(t, a):
                        continue
                    rest = relation.prove((link.target, b), (edge, u))
                    if rest is not None:
                        start = Pointstamp(edge, t)
                        return Proof(start, rest.end, (start, *rest.path), (why, *rest.because))
    return None


class Walk:
    """A relation as a machine: from pointstamp to pointstamp, link by link; its runs are the proofs of Definition 2
    without the demand that locations differ."""

    def __init__(self, relation: Relation, start: Pointstamp) -> None:
        self.relation, self.first = relation, start

    def start(self) -> Pointstamp:
        """Where it begins."""
        return self.first

    def steps(self, at: Pointstamp, *, failures: bool = True) -> Iterator[tuple[str, Pointstamp]]:
        """The links from here."""
        return self.relation.follow(at)

    def see(self, at: Pointstamp) -> Any:
        """The location and the time."""
        return {"at": at.location, "time": at.time}

    def complete(self, at: Pointstamp) -> bool:
        """It may end anywhere."""
        return True


def walk(relation: Relation, proof: Proof, why: str) -> Run:
    """A proof as a run that can be shown and replayed."""
    return Run((), proof.because, None, why, Walk(relation, proof.path[0]))


# ---------------------------------------------------------------- properties of all runs

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
        return Run((), self.labels, None, self.why, Inside(machine))


def decide(machine: Semantics, name: str, budget: Budget | None = None) -> Finding:
    """One property of a machine, by its name.

    >>> from pellucid.progress.could_result_in import exact
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
        situation, notified = at
        for label, then in machine.steps(situation):
            yield label, (then, notified | {label} if isinstance(label, Not) else notified)

    def wrong(at: tuple[Situation, frozenset[Not]], label: Any, then: Any) -> str:
        if isinstance(label, Mess):
            for notified in at[1]:
                if notified.node == label.node and leq(label.message.time, notified.time):
                    before = f"{label.node} was notified that {notified.time} is complete"
                    return f"{before}, and now a message {label.message} comes"
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
    notified: dict[tuple[str, Any], list[Any]] = {}
    try:
        for state, following in search:
            for label, then in following:
                before.setdefault(then, []).append(state)
                if isinstance(label, Not):
                    notified.setdefault((label.node, label.time), []).append(state)
    except CutShort as cut:
        return Finding("liveness", None, "", len(search.parents), str(cut))
    good = {wait: _backwards(states, before) for wait, states in notified.items()}
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
    return f"{p} waits for {t}, and whatever happens from here it is never notified{because}"


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


# ---------------------------------------------------------------- the question

USUAL = ("condition 1", "condition 2", "acyclic", "theorem 2", "completeness", "liveness")
ALL = (*USUAL[:3], "transitive", *PROPERTIES)
_AFTER_A_NO = 1.0  # seconds of each search where the graph is refuted already
SAYS = {
    "condition 1": "no event asks for a notification in the past",
    "condition 2": "no node sends into its own past",
    "acyclic": "no time goes round a cycle unchanged",
    "transitive": "could-result-in is transitive",
    "proposition 7": "every local state comes from a local history",
    "proposition 8": "the clock never grows",
    "proposition 9": "what left the clock on an edge does not come back",
    "theorem 2": "what left the clock is not seen again",
    "completeness": "after a notification no message of its time comes",
    "liveness": "every notification that is asked for can come",
}


@dataclass(frozen=True)
class ProgressVerdict(Verdict):
    """The verdict of `check.progress`; ``parts`` are those of its questions."""

    parts: Mapping[str, Verdict] = field(default_factory=dict)


def progress(
    graph: Graph,
    *,
    about: str | Sequence[str] = USUAL,
    inputs: Mapping[str, Iterable[Message]] | None = None,
    messages: int = 1,
    arrivals: int = 0,
    harmonious: bool = True,
    reorder: bool = False,
    clock: Literal["auto", "exact", "summaries"] = "auto",
    ports: bool = False,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> ProgressVerdict:
    """Whether a graph keeps its promises about times: Conditions 1 and 2, no cycle without time, Theorem 2,
    completeness of notifications, liveness; a no comes with a shortest run.

    Runs start with ``inputs`` on the input edges; without it, with every content of up to ``messages`` messages on
    each. ``arrivals`` more may come, ``harmonious`` ones only where the clock still has their time.  ``clock`` says
    what the clock is made of: the exact relation, or the nodes' summaries; the exact one, if the local histories of all
    nodes can be listed. ``ports`` says that it tells apart on which edge a message came.

    >>> from pellucid.progress.graph import Graph, Message, Node
    >>> count = Node(lambda n, edge, m: (n + 1, [m.time], {}), lambda n, t: (0, [], {"out": [Message(t, n)]}), state=0)
    >>> graph = Graph({"count": count}, {"in": (None, "count"), "out": ("count", None)}, times=[0, 1], name="count")
    >>> print(progress(graph, messages=2))
    bounded  progress of count: nothing found in runs of at most 2 messages on each input, of the times 0, 1  (...)
      not proved: what is beyond this bound was not looked at
      by the summaries of the nodes, which are held to at every message: the limit of 1,000 states was reached
      condition 1: bounded, no event asks for a notification in the past
      condition 2: proved: by the summaries of its nodes, for all times: a message that does not keep to them is refused
      acyclic: proved: by the summaries of its nodes, for all times: a message that does not keep to them is refused
      theorem 2: bounded, what left the clock is not seen again
      completeness: bounded, after a notification no message of its time comes
      liveness: bounded, every notification that is asked for can come
    """
    if not isinstance(graph, Graph):
        raise UsageError(f"check.progress takes a progress.Graph, found a {type(graph).__name__}")
    asked = asked_about(about)
    for given, name in ((messages, "messages="), (arrivals, "arrivals=")):
        whole(given, name, 0)
    if max_states is not None:
        whole(max_states, "max_states=", 1)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise UsageError(f"timeout= takes a number of seconds above 0, or None for no limit; found {timeout!r}")
    began = now()
    budget = Budget(timeout, max_states, progress)
    question = f"progress of {graph.name}"
    if not graph.finite:
        return whole_verdict(question, _for_all_times(graph.declaring(), asked), began, states=0)
    try:
        with stopping(timeout):
            relation, said = _relation(graph, clock, ports, budget)
    except CutShort as cut:
        parts = {name: Verdict("unknown", SAYS[name], "explicit", 0.0, notes=(str(cut),)) for name in asked}
        return whole_verdict(question, parts, began, states=0)
    graph = relation.graph
    machine = Semantics(
        graph, relation, inputs=inputs, messages=messages, arrivals=arrivals, harmonious=harmonious, reorder=reorder
    )
    listed = _listed_times(graph)
    runs = f"{_runs(graph, inputs, messages, arrivals)}, of {listed}"
    parts, states = {}, 0
    for n, name in enumerate(asked):
        before = now()
        share = _share(budget, parts, asked[n:])
        try:
            with stopping(share.timeout):
                part = _part(name, relation, machine, share, listed, runs)
        except CutShort as cut:
            part = Verdict("unknown", SAYS[name], "explicit", notes=(str(cut),))
        states = max(states, part.details.get("states", 0))
        parts[name] = replace(part, seconds=now() - before)
    return whole_verdict(question, parts, began, said=said, states=states)


def _share(budget: Budget, parts: Mapping[str, Verdict], left: Sequence[str]) -> Budget:
    """What one question may take of what is left for them all: none of them eats the others' time.  Where a time goes
    round a cycle unchanged, messages may go round for ever: then the searches are short, as the graph is refuted."""
    share = budget.part(1 / len(left))
    if share.end is not None and any(name in parts and parts[name].refuted for name in ("acyclic", "condition 2")):
        share.timeout = min(share.left() or 0.0, _AFTER_A_NO)
        share.end = now() + share.timeout
    return share


def _part(name: str, relation: Relation, machine: Semantics, budget: Budget, listed: str, runs: str) -> Verdict:
    run: Run | None = None
    states = 0
    bound = runs if name in PROPERTIES else listed
    if name == "condition 1":
        run, states, all_histories = _asks_for_no_past(machine, budget)
        bound = listed if all_histories else runs
    elif name == "transitive":
        three = relation.not_transitive()
        if three is not None:
            a, b, c = three
            proofs = [relation.prove(a, b), relation.prove(b, c)]
            why = f"{a} could result in {b}, and that in {c}, but {a} not in {c}"
            run = Run((), tuple(w for p in proofs if p for w in p.because), None, why, Walk(relation, a))
    elif name == "condition 2":
        proof = condition_2(relation)
        if proof is not None:
            start, end = proof.start, proof.end
            why = f"{start.location} sends into its own past: {start} could result in {end}"
            why += f", and {start.time} is not at or before {end.time}"
            run = walk(relation, proof, why)
    elif name == "acyclic":
        proof = no_time_passes(relation)
        if proof is not None:
            why = f"a notification of {proof.start.location} for {proof.start.time} would wait for itself: "
            run = walk(relation, proof, why + f"{proof.start} could result in {proof.end}")
    else:
        found = decide(machine, name, budget)
        run, states = found.run(machine), found.states
        if found.cut:
            return Verdict("unknown", SAYS[name], "explicit", notes=(found.cut,), details={"states": states})
    details = {"states": states}
    if run is not None:
        return Verdict("refuted", SAYS[name], "explicit", 0.0, run, (run.why,), details)
    if name in ("condition 2", "acyclic"):
        shown = _for_all_times(machine.graph.declaring(), [name])[name]
        if shown.proved:
            return replace(shown, details=details)
    notes: tuple[str, ...] = ()
    if name in ("completeness", "liveness") and not machine.graph.asks:
        notes = ("no node asks for a notification, so this says nothing",)
    return Verdict("bounded", SAYS[name], "explicit", 0.0, None, notes, details, bound=bound)


def _asks_for_no_past(machine: Semantics, budget: Budget) -> tuple[Run | None, int, bool]:
    """Condition 1 for all local histories; where they cannot be listed, for those of the runs."""
    try:
        return condition_1(machine.graph, budget=Budget(None, LISTED)), 0, True
    except CutShort:
        found = decide(machine, "condition 1", budget)
        if found.cut:
            raise CutShort(found.cut) from None
        return found.run(machine), found.states, False


def _for_all_times(graph: Graph, asked: Sequence[str]) -> dict[str, Verdict]:
    """Where times are not listed, the summaries still say what goes round a cycle; for the rest there are too many."""
    found = standing_loop(builder_of(graph).arcs())
    parts = {}
    for name in asked:
        if name not in ("condition 2", "acyclic"):
            why = "its times are not listed: give times=, for as many as are to be looked at"
            parts[name] = Verdict("unknown", SAYS[name], "summaries", notes=(why,))
        elif found is None or (name == "condition 2" and not found.back):
            note = "by the summaries of its nodes, for all times: a message that does not keep to them is refused"
            parts[name] = Verdict("proved", SAYS[name], "summaries", notes=(note,))
        else:
            run = run_along(found.places, found.time, found.then, found.reason)
            parts[name] = Verdict("refuted", SAYS[name], "summaries", 0.0, run, (found.reason,))
    return parts


class Way:
    """A way through a graph as a machine, from port to port: its time is known at the beginning and at the end."""

    def __init__(self, places: Sequence[Location], time: Time, then: Time) -> None:
        self.places, self.time, self.then = places, time, then

    def start(self) -> int:
        """At the first port."""
        return 0

    def steps(self, at: int, *, failures: bool = True) -> Iterator[tuple[str, int]]:
        """To the next one."""
        if at + 1 < len(self.places):
            yield str(self.places[at + 1]), at + 1

    def see(self, at: int) -> Any:
        """The time, where it is known."""
        return {"time": self.time if at == 0 else self.then if at + 1 == len(self.places) else "…"}

    def complete(self, at: int) -> bool:
        """It may end anywhere."""
        return True


def run_along(places: Sequence[Location], time: Time, then: Time, why: str) -> Run:
    """A way through a graph that shows what is wrong, as a run."""
    return Run((), tuple(map(str, places[1:])), None, why, Way(places, time, then))


def whole_verdict(
    question: str,
    parts: Mapping[str, Verdict],
    began: float,
    *,
    engine: str = "explicit",
    said: tuple[str, ...] = (),
    **details: Any,
) -> ProgressVerdict:
    """One verdict of the verdicts on the parts."""
    status = combined(part.status for part in parts.values())
    first = next((part for part in parts.values() if part.refuted), None)
    notes = tuple(
        f"{name}: {part.status}" + (f": {part.notes[0]}" if part.notes else f", {part.question}")
        for name, part in parts.items()
    )
    return ProgressVerdict(
        status,
        question,
        engine,
        now() - began,
        first.counterexample if first is not None else None,
        (*said, *notes),
        {**details, "parts": {name: part.status for name, part in parts.items()}},
        parts,
        bound=max((part.bound for part in parts.values()), key=len) if status == "bounded" else "",
    )


def _relation(graph: Graph, clock: str, ports: bool, budget: Budget) -> tuple[Relation, tuple[str, ...]]:
    """What the clock is made of, and what is to be said about that."""
    if clock not in ("auto", "exact", "summaries"):
        raise UsageError(f"clock={clock!r}: expected 'auto', 'exact' or 'summaries'")
    why = ""
    try:
        literal = exact(graph, ports=ports, budget=budget if clock == "exact" else _listed(budget))
    except CutShort as cut:
        if clock == "exact" or budget.over:
            raise
        literal, why = None, str(cut)
    if literal is not None and clock != "summaries":
        return literal, ()
    relation = conservative(graph.declaring(), ports=ports, budget=budget)
    if literal is None:
        return relation, (f"by the summaries of the nodes, which are held to at every message: {why}",)
    beyond = within(literal, relation)
    if beyond is not None:
        raise UsageError(
            f"{graph.name}: the summaries of its nodes do not say that {literal.prove(*beyond)}\n"
            "let the node declare it, or leave clock='summaries' out"
        )
    return relation, ("by the summaries of the nodes",)


def _listed(budget: Budget) -> Budget:
    """The same time, for as many states as are listed."""
    listed = Budget(budget.timeout, LISTED)
    listed.end = budget.end
    return listed


def asked_about(about: str | Sequence[str]) -> tuple[str, ...]:
    """The names of questions, each of which must be known.

    >>> asked_about("livness")
    Traceback (most recent call last):
    pellucid.errors.UsageError: about='livness': the questions are condition 1, ...
    """
    names = (about,) if isinstance(about, str) else tuple(several(about, "about=", "['liveness']"))
    if not names:
        raise UsageError(f"about= is empty: nothing is asked; the questions are {', '.join(ALL)}")
    for name in names:
        if name not in ALL:
            raise UsageError(f"about={name!r}: the questions are {', '.join(ALL)}{nearest(str(name), ALL)}")
    return names


def _listed_times(graph: Graph) -> str:
    """The times that are looked at, in words."""
    words = [str(time) for time in graph.times]
    return (
        f"the times {', '.join(words)}" if len(", ".join(words)) <= 60 else f"the {len(words):,} times that are listed"
    )


def _runs(graph: Graph, inputs: Mapping[str, Any] | None, messages: int, arrivals: int) -> str:
    """The runs that are looked at, in words."""
    if not graph.inputs:
        return "runs"
    each = f"at most {messages} message{'' if messages == 1 else 's'} on each input"
    return f"runs of {'these inputs' if inputs is not None else each}" + (f" and {arrivals} later" if arrivals else "")
