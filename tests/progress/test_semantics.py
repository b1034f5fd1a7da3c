"""The machine: its actions, one by one, against the formulas of section 4.2."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.errors import PipelineError, UsageError
from pellucid.internal.model import Run, Search, follow
from pellucid.progress.could_result_in import exact
from pellucid.progress.graph import Graph, Message, Node, buffer, compose
from pellucid.progress.semantics import InitProp, Inp, Mess, Not, Outp, Semantics, Situation
from pellucid.progress.times import Integers, Product
from tests.progress.models import Both, Spec12, WithoutTest, visible_difference


def made(graph: Graph, **more: Any) -> Semantics:
    return Semantics(graph, exact(graph), **more)


def held(machine: Semantics, at: Any) -> dict[str, list[Any]]:
    return {e: [m.time for m in at.queues[machine.edge[e]]] for e in machine.edges if at.queues[machine.edge[e]]}


def reached(machine: Semantics, *labels: str) -> Any:
    """The state after the steps that read like this."""
    at = machine.start()
    for wanted in labels:
        (at,) = {then for label, then in machine.steps(at) if str(label) == wanted}
    return at


def offered(machine: Semantics, at: Any) -> list[str]:
    return [str(label) for label, _ in machine.steps(at)]


CHAIN = {"i": (None, "a"), "e": ("a", "b"), "o": ("b", None)}


def waiting() -> Graph:
    """a passes on; b waits for what it gets, and answers when told."""
    b = Node(lambda s, e, m: (s, [m.time], {}), lambda s, t: (s, [], {"o": [Message(t)]}))
    return Graph({"a": buffer("e"), "b": b}, CHAIN, times=range(2))


def test_every_start_and_every_content_is_a_first_step() -> None:
    graph = Graph({"p": Node(starts=[(0, []), (1, [0])])}, {"i": (None, "p")}, times=[0, 1])
    machine = made(graph, messages=2)
    first = list(machine.steps(machine.start()))
    assert len(first) == 2 * (1 + 2 + 4) and all(isinstance(label, InitProp) for label, _ in first)
    assert {str(label) for label, at in first if at.local == (1,)} >= {"InitProp i holds 0, 1; p asks for 0"}


def test_a_run_step_by_step() -> None:
    machine = made(waiting(), inputs={"i": [Message(0), Message(1)]}, take=False)
    at = reached(machine, "InitProp i holds 0, 1", "Mess a: 0 on i")
    assert held(machine, at) == {"i": [1], "e": [0]} and offered(machine, at) == ["Mess a: 1 on i", "Mess b: 0 on e"]
    at = reached(machine, "InitProp i holds 0, 1", "Mess a: 0 on i", "Mess b: 0 on e")
    assert offered(machine, at) == ["Mess a: 1 on i", "Not b: 0"]  # 1 on i cannot become 0
    (then,) = [x for label, x in machine.steps(at) if label == Not("b", 0)]
    assert held(machine, then) == {"i": [1], "o": [0]} and then.requests[1] == frozenset()
    assert ("o", 0) in machine.clock(then) and ("e", 0) not in machine.clock(then)


def test_not_waits_for_the_clock() -> None:
    machine = made(waiting(), inputs={"i": [Message(0), Message(0)]}, take=False)
    at = reached(machine, "InitProp i holds 0, 0", "Mess a: 0 on i", "Mess b: 0 on e")
    assert offered(machine, at) == ["Mess a: 0 on i"]
    assert "Not b: 0" in offered(WithoutTest(machine.graph, machine.relation), at)


def test_reordering_lets_a_message_overtake_only_what_is_not_at_or_before_it() -> None:
    order, times = Product(Integers(), Integers()), [(0, 0), (0, 1), (1, 0)]
    graph = Graph({"p": Node()}, {"i": (None, "p")}, order=order, times=times)
    queue = [Message((0, 1)), Message((1, 0)), Message((0, 1)), Message((0, 0))]
    plain, free = (made(graph, inputs={"i": queue}, reorder=reorder) for reorder in (False, True))
    ((_, at),) = plain.steps(None)
    assert [label.message.time for label, _ in plain.steps(at) if isinstance(label, Mess)] == [(0, 1)]
    assert [label.position for label, _ in free.steps(at) if isinstance(label, Mess)] == [0, 1, 3]


def test_inp_extends_anywhere_and_outp_takes_anything() -> None:
    graph = Graph({"p": buffer("o")}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1])
    machine = made(graph, inputs={"i": [Message(0)]}, arrivals=1)
    ((_, at),) = machine.steps(None)
    more = [held(machine, x)["i"] for label, x in machine.steps(at) if isinstance(label, Inp)]
    assert sorted(more) == [[0, 0], [0, 1], [1, 0]]
    full = Situation(((), (Message(0), Message(1))), (None,), (frozenset(),))
    left = [held(machine, x).get("o", []) for label, x in machine.steps(full) if isinstance(label, Outp)]
    assert sorted(left) == [[], [0], [1]]


def test_harmonious_input_keeps_within_the_clock() -> None:
    graph = Graph({"p": Node()}, {"i": (None, "p")}, times=[0, 1])
    machine = made(graph, inputs={"i": [Message(1)]}, arrivals=1, harmonious=True)
    ((_, at),) = machine.steps(None)
    assert {tuple(held(machine, x)["i"]) for label, x in machine.steps(at) if isinstance(label, Inp)} == {(1, 1)}


def test_what_is_seen_is_what_input_and_output_edges_hold() -> None:
    machine = made(waiting(), inputs={"i": [Message(0)]}, take=False)
    labels = ["InitProp i holds 0", "Mess a: 0 on i", "Mess b: 0 on e", "Not b: 0"]
    at = machine.start()
    seen = [machine.see(at)]
    for wanted in labels:
        at = next(then for label, then in machine.steps(at) if str(label) == wanted)
        seen.append(machine.see(at))
    assert seen[2] == seen[3] and len({seen[n] for n in (0, 1, 2, 4)}) == 4  # b's own step is not seen


def test_a_run_can_be_shown_and_replayed() -> None:
    machine = made(waiting(), inputs={"i": [Message(0)]}, take=False)
    search = Search([machine.start()], machine.steps)
    search.all()
    end = next(at for at in search.parents if at is not None and held(machine, at) == {"o": [0]})
    run = Run((), tuple(search.way(end)), None, "", machine)
    assert run.replay() and follow(machine, run.steps)[-1] == end


def test_inputs_are_looked_at() -> None:
    with pytest.raises(UsageError, match="inputs=: 'e' is no input edge of graph: i is"):
        made(waiting(), inputs={"e": [Message(0)]})
    with pytest.raises(UsageError, match="graph: 5 is not among its times: 0, 1"):
        made(waiting(), inputs={"i": [Message(5)]})


# Graphs put together: which ones, and how Spec₁₂ and the whole compare.


def half(p: str, before: str, inside: str, after: str, times: Any = (0, 1)) -> Graph:
    """before → p → p2 → after; p2 asks for each time it gets and sends when it is told."""
    late = Node(lambda s, e, m: (s, [m.time], {}), lambda s, t: (s, [], {after: [Message(t)]}))
    edges = {before: (None, p), inside: (p, p + "2"), after: (p + "2", None)}
    return Graph({p: buffer(inside), p + "2": late}, edges, times=times, name=p)


def machines(a: Graph, b: Graph, **more: Any) -> tuple[Semantics, Spec12]:
    relation = exact(compose(a, b))
    return Semantics(relation.graph, relation, **more), Spec12((a, b), relation, **more)


def test_the_whole_has_both_and_their_shared_edges_inside() -> None:
    a, b = half("p", "i", "d", "x"), half("q", "x", "e", "o")
    whole = compose(a, b)
    assert (whole.inputs, whole.internal, whole.outputs) == (("i",), ("d", "x", "e"), ("o",))
    assert whole.edges["x"] == ("p2", "q") == compose(b, a).edges["x"]
    ring = compose(a, half("q", "x", "e", "i"))
    assert (ring.inputs, ring.outputs) == ((), ()) and set(ring.internal) == {"d", "x", "e", "i"}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (half("p", "x", "e", "o"), "both have the node 'p': give one of them another name"),
        (half("q", "i", "e", "o"), "both have the input edge 'i': give one of them another name"),
        (half("q", "x", "d", "o"), "both have the internal edge 'd': give one of them another name"),
        (half("q", "y", "e", "x"), "both have the output edge 'x': give one of them another name"),
        (
            half("q", "d", "e", "o"),
            "'d' is inside one of them and stands in the other, too: give one of them another name",
        ),
        (
            half("q", "x", "p", "o"),
            "'p' is inside one of them and stands in the other, too: give one of them another name",
        ),
        (
            Graph({"q": Node()}, {"x": (None, "q")}, order=Product(Integers()), times=[(0,)]),
            "one has times of integers of 64 bits, the other of (integers of 64 bits)",
        ),
    ],
)
def test_what_is_not_disjoint_is_refused(other: Graph, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        compose(half("p", "i", "d", "x"), other)
    assert str(caught.value) == f"the graphs cannot be put together: {message}"


def test_from_outside_both_show_the_same() -> None:
    """Inputs that are there at the start, outputs that stay: externally visible behaviours, up to stuttering."""
    whole, both = machines(half("p", "i", "d", "x"), half("q", "x", "e", "o"), messages=2, take=False)
    assert visible_difference(whole, both) is None


def test_the_comparison_can_tell_them_apart() -> None:
    class Deaf(Spec12):
        """The second graph is never told anything."""

        def not1(self, at: Any, p: str, clock: int) -> Any:
            return iter(()) if p == "q2" else super().not1(at, p, clock)

    a, b = half("p", "i", "d", "x"), half("q", "x", "e", "o")
    relation = exact(compose(a, b))
    given: dict[str, Any] = {"inputs": {"i": [Message(0)]}, "take": False}
    found = visible_difference(Semantics(relation.graph, relation, **given), Deaf((a, b), relation, **given))
    assert found is not None and found.only == 0 and str(found.labels[-1]) == "Not q2: 0"


def test_inside_two_steps_come_at_once() -> None:
    """As complete behaviours Spec₁₂ has steps that the whole has not."""
    whole, both = machines(
        half("p", "i", "d", "x"), half("q", "x", "e", "o"), inputs={"i": [Message(0), Message(1)]}, take=False
    )
    search = Search([both.start()], both.steps)
    found = None
    for at, following in search:
        single = {then for _, then in whole.steps(at)}
        for label, then in following:
            if then not in single:
                found = found or label
    assert isinstance(found, Both) and isinstance(found.first, Mess | Not) and isinstance(found.second, Mess | Not)


def test_acts_at_once_are_excluded() -> None:
    """p taking an input and q2 putting out an output are both seen from outside."""
    _, both = machines(half("p", "i", "d", "x"), half("q", "x", "e", "o"), messages=2, take=False)
    for _, following in Search([both.start()], both.steps):
        for label, _ in following:
            if isinstance(label, Both) and label.first is not None and label.second is not None:
                assert not (str(label.first).startswith("Mess p:") and str(label.second).startswith("Not q2"))


def test_an_environment_that_acts_can_be_seen() -> None:
    """While one graph takes an input, outputs of the other may be taken: in the whole these are two steps."""
    whole, both = machines(
        half("p", "i", "d", "x"), half("q", "x", "e", "o"), inputs={"i": [Message(0), Message(1)]}, take=True
    )
    found = visible_difference(whole, both)
    assert found is not None and found.only == 1
    assert str(found.labels[-1]) == "Mess p: 1 on i & Outp o holds nothing"


def answering(buffered: bool) -> tuple[Graph, Graph]:
    """Each graph answers what it gets from the other; the first one by way of a buffer, or in the same step."""
    one = Graph(
        {"p": buffer("d" if buffered else "x"), "p1": buffer("x" if buffered else "y"), "s": buffer("z")},
        {
            "i": (None, "s"), "z": ("s", None), "b": (None, "p"), "x": ("p1" if buffered else "p", None),
            **({"d": ("p", "p1")} if buffered else {"y": ("p1", None)}),
        },
        times=[0],
    )  # fmt: skip
    two = Graph(
        {"q": buffer("c"), "q1": buffer("b"), "r": buffer("o")},
        {"z": (None, "q"), "c": ("q", "q1"), "b": ("q1", None), "x": (None, "r"), "o": ("r", None)},
        times=[0],
    )
    return one, two


def test_a_node_that_answers_in_the_same_step_is_stuck_in_the_conjunction() -> None:
    """The other graph would see an output get shorter and an input get longer at once: neither Inp nor Outp says so."""
    given: dict[str, Any] = {"inputs": {"i": [Message(0)]}, "take": False}
    found = visible_difference(*machines(*answering(buffered=False), **given))
    assert found is not None and found.only == 0
    assert [str(label) for label in found.labels][-2:] == ["Mess p: 0 on b", "Mess r: 0 on x"]
    assert visible_difference(*machines(*answering(buffered=True), **given)) is None
