"""The machine: its actions, one by one, against the formulas of section 4.2."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.errors import UsageError
from pellucid.internal.model import Run, Search, follow
from pellucid.progress.graph import Graph, Message, Node, buffer
from pellucid.progress.reach.exact import exact
from pellucid.progress.semantics.machine import InitProp, Inp, Mess, Not, Outp, Semantics, Situation, stutter_free
from pellucid.progress.times import Integers, Product


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
    assert "Not b: 0" in offered(made(waiting(), inputs={"i": []}, test=False), at)


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
    assert stutter_free(seen) == [seen[0], seen[1], seen[2], seen[4]]  # b's own step is not seen


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
