"""``check.progress``: does a graph keep its promises about times?

Six parts, each with a verdict of its own: Conditions 1 and 2; that no time goes round a cycle unchanged; and, of all
runs, Theorem 2, completeness of notifications, and liveness.  The whole is refuted if one part is, and proved if all
are.  A graph is looked at for the times and values that it lists, and in runs of a few messages: what holds there is
*bounded* by them, unless the summaries of its nodes show it for all times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pellucid.errors import UsageError, nearest
from pellucid.internal.model import Budget, CutShort, Run, Verdict, combined, now
from pellucid.internal.model.stopping import stopping
from pellucid.progress.given import several, whole
from pellucid.progress.graph import LISTED, Graph, Message
from pellucid.progress.loops import Loop, standing_loop
from pellucid.progress.reach.conditions import Walk, condition_1, condition_2, no_time_passes, walk
from pellucid.progress.reach.declared import builder_of, conservative
from pellucid.progress.reach.exact import exact
from pellucid.progress.reach.relation import Relation, within
from pellucid.progress.semantics.machine import Semantics
from pellucid.progress.semantics.properties import PROPERTIES, decide

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
        return _whole(question, _for_all_times(graph.declaring(), asked), began, 0)
    try:
        with stopping(timeout):
            relation, said = _relation(graph, clock, ports, budget)
    except CutShort as cut:
        parts = {name: Verdict("unknown", SAYS[name], "explicit", 0.0, notes=(str(cut),)) for name in asked}
        return _whole(question, parts, began, 0)
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
    return _whole(question, parts, began, states, said)


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
        run, states, all_histories = _condition_1(machine, budget)
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


def _condition_1(machine: Semantics, budget: Budget) -> tuple[Run | None, int, bool]:
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
            run = Run((), tuple(map(str, found.places[1:])), None, found.reason, Round(found))
            parts[name] = Verdict("refuted", SAYS[name], "summaries", 0.0, run, (found.reason,))
    return parts


class Round:
    """A way round a graph as a machine: from port to port."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def start(self) -> int:
        """At the first port."""
        return 0

    def steps(self, at: int, *, failures: bool = True) -> Iterator[tuple[str, int]]:
        """To the next one."""
        if at + 1 < len(self.loop.places):
            yield str(self.loop.places[at + 1]), at + 1

    def see(self, at: int) -> Any:
        """The time, where it is known: at the beginning and at the end."""
        return {"time": self.loop.time if at == 0 else self.loop.then if at + 1 == len(self.loop.places) else "…"}

    def complete(self, at: int) -> bool:
        """It may end anywhere."""
        return True


def _whole(
    question: str, parts: Mapping[str, Verdict], began: float, states: int, said: tuple[str, ...] = ()
) -> ProgressVerdict:
    status = combined(part.status for part in parts.values())
    first = next((part for part in parts.values() if part.refuted), None)
    notes = tuple(
        f"{name}: {part.status}" + (f": {part.notes[0]}" if part.notes else f", {part.question}")
        for name, part in parts.items()
    )
    return ProgressVerdict(
        status,
        question,
        "explicit",
        now() - began,
        first.counterexample if first is not None else None,
        (*said, *notes),
        {"states": states, "parts": {name: part.status for name, part in parts.items()}},
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
