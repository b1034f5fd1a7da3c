"""Runs with the incremental clock: each is a behaviour of the machine, all that was asked for comes, nothing goes
back.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pellucid.errors import PipelineError, StepError, UsageError
from pellucid.internal.model import follow
from pellucid.progress import Graph, Message, Node, Semantics, Tracker, buffer, conservative, run
from pellucid.progress.semantics import InitProp
from tests.progress.test_properties import mill
from tests.progress.test_question import count
from tests.progress.test_why import flights
from tests.seeds import seeds


def on_the_machine(graph: Graph, inputs: dict[str, list[Message]], steps: Any) -> Any:
    """The steps once more, where the clock is the closure under the relation by summaries; the situation at the end."""
    declared = graph.declaring()
    machine = Semantics(declared, conservative(declared, ports=True), inputs=inputs)
    start = next(label for label, _ in machine.steps(machine.start()) if isinstance(label, InitProp))
    return follow(machine, [start, *steps])[-1]


@pytest.mark.seeded
@pytest.mark.parametrize("graph", [mill(), flights()], ids=["mill", "flights"])
def test_a_run_is_a_behaviour_of_the_machine_and_nothing_is_left(graph: Graph) -> None:
    (edge,) = graph.inputs
    for seed in seeds(12):
        rng = Random(seed)
        inputs = {edge: [Message(rng.choice(graph.times)) for _ in range(rng.randint(0, 3))]}
        ran = run(graph, inputs, seed=seed)
        end = on_the_machine(graph, inputs, ran.steps)
        assert not any(end.requests) and {e for e, q in zip(graph.edges, end.queues, strict=True) if q} <= {
            *graph.outputs
        }
        assert {e: q for e, q in zip(graph.edges, end.queues, strict=True) if e in graph.outputs} == ran.outputs


def test_a_clock_that_runs_ahead_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says of every time that it is complete: the machine does not take such a step."""
    monkeypatch.setattr(Tracker, "complete", lambda *given: True)
    inputs = {"in": [Message(1), Message(1)]}
    steps = [run(flights(), inputs, seed=seed).steps for seed in range(10)]
    with pytest.raises(UsageError, match=r"Not\(node='count', time=1\) is not possible there"):
        _ = [on_the_machine(flights(), inputs, one) for one in steps]


def test_times_need_not_be_listed() -> None:
    """Days without end, a loop that adds one until it is enough, counts when a day is complete."""
    round_again = Node(
        lambda s, e, m: (s, [], {"done" if m.value == 0 else "more": [Message(m.time, max(m.value - 1, 0))]})
    )
    nodes = {
        "body": round_again,
        "later": buffer("back", to=lambda t: t + 1, summaries={"back": 1}),
        "count": count("out"),
    }
    edges = {
        "in": (None, "body"), "more": ("body", "later"), "back": ("later", "body"), "done": ("body", "count"),
        "out": ("count", None),
    }  # fmt: skip
    graph = Graph(nodes, edges)
    given = {"in": [Message(10, 3), Message(12, 0), Message(13, 0), Message(10**12, 1)]}
    told = (Message(12, 1), Message(13, 2), Message(10**12 + 1, 1))
    assert run(graph, given).outputs == {"out": told}
    assert all(run(graph, given, seed=seed).outputs == {"out": told} for seed in range(5))


def test_a_node_that_sends_into_the_past_is_refused_at_the_message() -> None:
    """Nothing is declared, so a time stays as it is; this one goes back on its way round."""
    nodes = {
        "p": buffer("e"),
        "q": buffer("f", to=lambda t: t - 1),
        "r": buffer("g", to=lambda t: t + 5, summaries={"g": 1}),
    }
    graph = Graph(nodes, {"i": (None, "p"), "e": ("p", "q"), "f": ("q", "r"), "g": ("r", "p")})
    with pytest.raises(StepError) as caught:
        run(graph, {"i": [Message(7)]})
    assert str(caught.value) == "node 'q', message 7 on e: sends 6 on f, earlier than it declares: +0, so at or after 7"
    worse = Graph({**nodes, "q": buffer("f", to=lambda t: t - 4)}, graph.edges)
    with pytest.raises(StepError, match=r"its own past \(Condition 2\): \(q, 7\) could result in \(e, 4\) by q → f"):
        run(worse, {"i": [Message(7)]})
    with pytest.raises(StepError, match="asks for 0, which is in the past"):
        run(Graph({"p": Node(lambda s, e, m: (s, [0], {}))}, {"i": (None, "p")}), {"i": [Message(1)]})


def test_a_loop_without_time_is_refused_before_it_runs() -> None:
    graph = Graph({"p": buffer("e"), "q": buffer("f")}, {"e": ("p", "q"), "f": ("q", "p"), "i": (None, "p")})
    with pytest.raises(PipelineError, match="no time passes on the way"):
        run(graph, {"i": [Message(0)]})


def test_what_never_ends_is_told() -> None:
    graph = Graph(
        {"p": buffer("e"), "q": buffer("f", to=lambda t: t + 1, summaries={"f": 1})},
        {"e": ("p", "q"), "f": ("q", "p"), "i": (None, "p")},
        name="mill",
    )
    with pytest.raises(
        StepError, match="mill: not done after 100 steps: a loop that never ends, or limit= is too small"
    ):
        run(graph, {"i": [Message(0)]}, limit=100)
    with pytest.raises(UsageError, match="inputs=: 'e' is no input edge of mill: i is"):
        run(graph, {"e": [Message(0)]})
    with pytest.raises(UsageError, match="inputs= of i: 'monday' is not a time of integers of 64 bits"):
        run(graph, {"i": [Message("monday")]})


def test_a_node_is_told_of_earlier_times_first() -> None:
    """Both days are complete, and the later one was asked for first: a reader expects its windows in their order."""
    daily = Graph(
        {"p": Node(lambda s, e, m: (s, [m.time], {}), lambda s, t: (s, [], {"o": [Message(t)]}))},
        {"i": (None, "p"), "o": ("p", None)},
    )
    found = run(daily, {"i": [Message(t) for t in (3, 1, 2, 1)]})
    assert [m.time for m in found.outputs["o"]] == [1, 2, 3]
