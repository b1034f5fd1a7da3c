"""What is so, and what is not, of all runs: Propositions 7 to 9, Theorem 2, completeness, liveness; and machines with a
mistake in them, which must be found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pellucid.internal.model import Budget, follow
from pellucid.progress.could_result_in import conservative, exact, inferred
from pellucid.progress.graph import Graph, Message, Node, Notified, Received, buffer
from pellucid.progress.question import PROPERTIES, condition_1, condition_2, decide
from pellucid.progress.semantics import Mess, Not, Semantics, Situation
from tests.progress.models import OneStepClock, WithoutTest
from tests.progress.random_graphs import random_graph
from tests.progress.test_could_result_in import past
from tests.seeds import HUNT, seeds

SMALL = Budget(None, 2_000)


def made(graph: Graph, kind: type[Semantics] = Semantics, **more: Any) -> Semantics:
    return kind(graph, exact(graph), **{"take": False, **more})


def shown(machine: Semantics, name: str) -> list[str]:
    """The shortest run that breaks a property; it can be replayed, and no shorter one does."""
    found = decide(machine, name)
    run = found.run(machine)
    assert found.status == "refuted" and run is not None and run.replay() and str(run)
    assert follow(machine, found.labels or ())
    return [str(label) for label in found.labels or ()]


# ---------------------------------------------------------------- Theorem 2


def asks_for_the_past() -> Graph:
    node = Node(lambda s, e, m: (s, [0], {}), lambda s, t: (s, [], {"o": [Message(t)]} if t == 0 else {}))
    return Graph({"p": node}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1])


def test_breaking_condition_1_breaks_theorem_2_in_two_steps() -> None:
    graph = asks_for_the_past()
    assert condition_1(graph) is not None and condition_2(exact(graph)) is None
    assert shown(made(graph), "theorem 2") == ["InitProp i holds 1", "Mess p: 1 on i", "Not p: 0"]
    assert shown(made(graph), "proposition 8") == ["InitProp i holds 1", "Mess p: 1 on i"]
    assert decide(made(graph), "theorem 2").why == "a message 0 is on o, and (o, 0) was not in the clock before"


def test_breaking_condition_2_does_not_break_theorem_2() -> None:
    graph = past()
    assert condition_1(graph) is None and condition_2(exact(graph)) is not None
    for name in ("theorem 2", "proposition 8", "proposition 9", "completeness"):
        assert decide(made(graph), name).status == "bounded"


def test_with_the_one_step_image_for_the_clock_it_does() -> None:
    """What Proposition 3 says that the closure is; and what summaries over simple paths compute."""
    assert shown(made(past(), OneStepClock), "theorem 2") == [
        "InitProp i holds 1", "Mess p: 1 on i", "Mess q: 0 on e", "Mess p: 0 on f",
    ]  # fmt: skip


def test_without_the_test_of_the_clock_theorem_2_holds_and_completeness_fails() -> None:
    graph = Graph({"p": Node(requests=[0])}, {"i": (None, "p")}, times=[0, 1])
    assert decide(made(graph, WithoutTest), "theorem 2").status == "bounded"
    assert decide(made(graph), "completeness").status == "bounded"
    machine = made(graph, WithoutTest)
    assert shown(machine, "completeness") == ["InitProp i holds 0; p asks for 0", "Not p: 0", "Mess p: 0 on i"]
    assert decide(machine, "completeness").why == "p was notified that 0 is complete, and now a message 0 comes"


def by_chance(drawn: range) -> Counter[Any]:
    """All statements on random graphs, by which conditions hold."""
    found: Counter[Any] = Counter()
    for seed in drawn:
        graph = random_graph(Random(seed), nodes=3, edges=5, late=seed % 3 > 0)
        relation = exact(graph)
        one, two = condition_1(graph) is None, condition_2(relation) is None
        for test in (True, False):
            kind = Semantics if test else WithoutTest
            machine = kind(graph, relation, take=False, reorder=seed % 5 == 0)
            for name in ("proposition 7", "proposition 8", "proposition 9", "theorem 2", "completeness"):
                status = decide(machine, name, SMALL).status
                found[name, one, two, test, status] += 1
                if name == "proposition 7" or (one and (test or name != "completeness")):
                    assert status != "refuted", (seed, name)
        for clock, other in (("ports", exact(graph, ports=True)), ("summaries", conservative(inferred(graph)))):
            for name in ("theorem 2", "completeness") if one else ():
                found[clock, name, status := decide(Semantics(graph, other, take=False), name, SMALL).status] += 1
                assert status != "refuted", (seed, clock, name)
        if one:
            status = decide(OneStepClock(graph, relation, take=False), "theorem 2", SMALL).status
            found["image", one, two, True, status] += 1
            assert not two or status != "refuted", seed
    return found


@pytest.mark.seeded
def test_all_statements_on_random_graphs() -> None:
    found = by_chance(seeds(16))
    assert HUNT or found["theorem 2", True, True, True, "bounded"] > 4


@pytest.mark.long
@pytest.mark.seeded
def test_all_statements_on_many_random_graphs() -> None:
    found = by_chance(seeds(400, 16))
    assert HUNT or found["theorem 2", True, False, True, "bounded"] > 10
    assert HUNT or found["theorem 2", False, True, True, "refuted"] > 2
    assert HUNT or found["completeness", True, True, False, "refuted"] > 50


# ---------------------------------------------------------------- inputs that grow


def test_theorem_2_needs_inputs_that_do_not_grow_or_grow_in_harmony() -> None:
    graph = Graph({"p": Node()}, {"i": (None, "p")}, times=[0, 1])
    grows = made(graph, inputs={"i": []}, arrivals=1)
    assert shown(grows, "theorem 2") == ["InitProp", "Inp i holds 0"]
    assert decide(grows, "proposition 8").status == "bounded"  # it speaks of steps in which no input grows
    for messages in ([], [0], [1]):
        tame = made(graph, inputs={"i": map(Message, messages)}, arrivals=2, harmonious=True)
        assert decide(tame, "theorem 2").status == "bounded"


# ---------------------------------------------------------------- liveness


def asking(to: Any = lambda t: t) -> Graph:
    """a passes on, asks for each time, and answers notifications round the loop, too; b goes back to a."""
    a = Node(
        lambda s, e, m: (s, [m.time], {}), lambda s, t: (s, [], {"e": [Message(u)] if (u := to(t)) is not None else []})
    )
    return Graph({"a": a, "b": Node()}, {"i": (None, "a"), "e": ("a", "b")}, times=[0, 1])


def ring(to: Any) -> Graph:
    """The same with b going back to a."""
    graph = asking(to)
    return Graph({**graph.nodes, "b": buffer("f")}, {**graph.edges, "f": ("b", "a")}, times=[0, 1])


def test_a_notification_in_a_zero_loop_never_comes() -> None:
    assert decide(made(asking()), "liveness").status == "bounded"
    assert decide(made(ring(lambda t: t + 1 if t < 1 else None)), "liveness").status == "bounded"
    machine = made(ring(lambda t: t))
    assert shown(machine, "liveness") == ["InitProp i holds 0", "Mess a: 0 on i"]
    assert decide(machine, "liveness").why == (
        "a waits for 0, and whatever happens from here it is never notified: (a, 0) could result in (f, 0)"
    )


def test_messages_that_go_round_for_ever_keep_a_notification_away() -> None:
    """b sends everything round at the same time."""
    graph = Graph(
        {"a": Node(lambda s, e, m: (s, [m.time], {"e": [m]})), "b": buffer("f")},
        {"i": (None, "a"), "e": ("a", "b"), "f": ("b", "a")},
        times=[0],
    )
    found = decide(made(graph), "liveness")
    assert found.status == "refuted" and len(found.labels or ()) == 2


def test_a_notification_that_asks_for_itself_comes() -> None:
    graph = Graph({"p": Node(None, lambda s, t: (s, [t], {}), requests=[0])}, {}, times=[0])
    assert decide(made(graph), "liveness").status == "bounded"


def test_a_bound_is_no_answer() -> None:
    grows = Node(lambda s, e, m: (s, [], {"e": [m, m]}))
    graph = Graph({"p": grows}, {"e": ("p", "p"), "i": (None, "p")}, times=[0])
    for name in ("liveness", "theorem 2"):
        found = decide(made(graph), name, Budget(None, 50))
        assert (found.status, found.cut) == ("unknown", "the limit of 50 states was reached")


# ---------------------------------------------------------------- the order of notifications


def orders(graph: Graph, relation: Any) -> set[tuple[str, ...]]:
    """In which orders notifications can come."""
    machine, found = Semantics(graph, relation), set()

    def go(at: Any, told: tuple[str, ...]) -> None:
        found.add(told)
        for label, then in machine.steps(at):
            go(then, (*told, str(label)) if isinstance(label, Not) else told)

    go(machine.start(), ())
    return {told for told in found if len(told) == max(map(len, found))}


def test_notifications_come_in_topological_order_under_summaries_only() -> None:
    """Up the stream p sends nothing when it is told: so q need not wait for that, unless it goes by summaries."""
    graph = Graph({"p": Node(requests=[0]), "q": Node(requests=[0])}, {"e": ("p", "q")}, times=[0])
    assert orders(graph, conservative(graph)) == {("Not p: 0", "Not q: 0")}
    assert orders(graph, exact(graph)) == {("Not p: 0", "Not q: 0"), ("Not q: 0", "Not p: 0")}


# ---------------------------------------------------------------- machines with a mistake


class LosesRequests(Semantics):
    """A message's requests replace those that wait."""

    def mess2(self, at: Situation, p: str, e: str, m: Message, rest: Any) -> Situation:
        then = super().mess2(at, p, e, m, rest)
        i = self.node[p]
        asked = self.graph.g1(p, at.local[i], Received(e, m)).requests
        return then._replace(requests=(*then.requests[:i], asked, *then.requests[i + 1 :]))


class KeepsRequests(Semantics):
    """A notification that was delivered waits on, and sends its messages again."""

    def not2(self, at: Situation, p: str, t: Any) -> Situation:
        then = super().not2(at, p, t)
        i = self.node[p]
        return then._replace(requests=(*then.requests[:i], at.requests[i], *then.requests[i + 1 :]))


class Forgets(Semantics):
    """The clock does not count requests."""

    def clock_bits(self, at: Situation) -> int:
        mask = 0
        for x, t in self.pending(at):
            mask |= self.rows[self.relation.number((x, t))] if x in self.edge else 0
        return mask


class LooksAtQueuesOnly(Semantics):
    """Not looks whether a message waits at the node, and not whether one can come."""

    def not1(self, at: Situation, p: str, clock: int) -> Iterator[tuple[Not, Situation]]:
        leq = self.graph.order.less_equal
        for t in at.requests[self.node[p]]:
            queues = [at.queues[self.edge[e]] for e in self.graph.into[p]]
            if not any(leq(m.time, t) for queue in queues for m in queue):
                yield Not(p, t), self.not2(at, p, t)


class NeverTells(Semantics):
    """No notification ever."""

    def not1(self, at: Situation, p: str, clock: int) -> Iterator[tuple[Not, Situation]]:
        return iter(())


class SendsTwice(Semantics):
    """A message that is taken stays in the queue."""

    def mess1(self, at: Situation, p: str) -> Iterator[tuple[Mess, Situation]]:
        for label, _ in super().mess1(at, p):
            yield label, self.mess2(at, p, label.edge, label.message, at.queues[self.edge[label.edge]])


def mill() -> Graph:
    """a tells b what it got when it is told; b asks for each time it gets.  Both remember what they wait for."""

    def node(out: str) -> Node:
        return Node(
            lambda s, e, m: (s | {m.time}, [m.time], {}),
            lambda s, t: (s - {t}, [], {out: [Message(t)]} if t in s else {}),
            state=frozenset([1]),
            requests=[1],
        )

    return Graph({"a": node("e"), "b": node("o")}, {"i": (None, "a"), "e": ("a", "b"), "o": ("b", None)}, times=[0, 1])


MUTANTS: dict[type[Semantics], dict[str, str]] = {
    LosesRequests: {"proposition 7": "refuted", "theorem 2": "bounded"},
    KeepsRequests: {"proposition 7": "refuted"},
    Forgets: {"proposition 8": "refuted", "theorem 2": "refuted", "completeness": "refuted"},
    LooksAtQueuesOnly: {"theorem 2": "bounded", "completeness": "refuted"},
    NeverTells: {"theorem 2": "bounded", "liveness": "refuted"},
    SendsTwice: {"liveness": "refuted"},
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_machine_with_a_mistake_is_found_out(mutant: type[Semantics]) -> None:
    machine = made(mill(), mutant, inputs={"i": [Message(0)]})
    for name, status in MUTANTS[mutant].items():
        found = decide(machine, name, Budget(None, 3_000))
        assert found.status == status, (name, found.why)
        if found.labels is not None:
            assert len(shown(machine, name)) <= 6


def test_the_machine_without_a_mistake_is_right() -> None:
    machine = made(mill(), inputs={"i": [Message(0), Message(1)]})
    assert {decide(machine, name).status for name in PROPERTIES} == {"bounded"}
    assert Notified(0) in set(machine.graph.events("a"))
