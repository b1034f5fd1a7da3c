"""`check.progress`: six questions, each proved or refuted by a run that can be replayed; and what it cannot say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid import UsageError, check
from pellucid.errors import StepError
from pellucid.progress import Domains, Graph, Integers, Loop, Message, Node, Own, buffer, why_not
from tests.progress.test_properties import asks_for_the_past, mill, past, ring


def count(out: str = "o", **more: Any) -> Node:
    """Counts the messages of each time, and tells when it is told: more states than can be listed."""

    def told(n: dict[int, int] | Any, t: int) -> Any:
        have = dict(n)
        return tuple(sorted((k, v) for k, v in have.items() if k != t)), [], {out: [Message(t, have.get(t, 0))]}

    def got(n: Any, edge: str, m: Message) -> Any:
        have = dict(n)
        return tuple(sorted({**have, m.time: have.get(m.time, 0) + 1}.items())), [m.time], {}

    return Node(got, told, state=(), **more)


def test_a_graph_that_keeps_its_promises() -> None:
    verdict = check.progress(mill())
    assert verdict.bounded and not verdict and verdict.counterexample is None
    bounded = dict.fromkeys(["condition 1", "theorem 2", "completeness", "liveness"], "bounded")
    assert verdict.details["parts"] == bounded | dict.fromkeys(["condition 2", "acyclic"], "proved")
    assert verdict.question == "progress of graph"
    runs = "runs of at most 1 message on each input, of the times 0, 1"
    assert verdict.bound == runs == verdict.parts["liveness"].bound
    assert verdict.parts["condition 1"].bound == "the times 0, 1"
    everything = ["transitive", "proposition 7", "proposition 8", "proposition 9"]
    assert check.progress(mill(), about=everything, messages=2, reorder=True).bounded


def parts(graph: Graph, **more: Any) -> dict[str, str]:
    verdict = check.progress(graph, **more)
    for part in verdict.parts.values():
        assert (part.counterexample is not None) == part.refuted
        if part.counterexample is not None:
            assert part.counterexample.replay() and str(part) and part.counterexample.picture()
    return {name: part.status for name, part in verdict.parts.items()}


def test_each_question_can_say_no() -> None:
    proved = dict.fromkeys(["condition 1", "theorem 2", "completeness", "liveness"], "bounded")
    proved |= dict.fromkeys(["condition 2", "acyclic"], "proved")  # by summaries, for all times
    assert parts(asks_for_the_past()) == {**proved, "condition 1": "refuted", "theorem 2": "refuted"}
    assert parts(past()) == {**proved, "condition 2": "refuted", "acyclic": "refuted"}
    assert parts(ring(lambda t: t)) == {**proved, "acyclic": "refuted", "liveness": "refuted"}
    assert parts(past(), about=["transitive"]) == {"transitive": "refuted"}
    assert parts(asks_for_the_past(), about=["proposition 8", "proposition 9"]) == {
        "proposition 8": "refuted", "proposition 9": "refuted",
    }  # fmt: skip
    open_ended = Graph({"p": Node(requests=[0])}, {"i": (None, "p")}, times=[0, 1])
    late: dict[str, Any] = {"inputs": {"i": []}, "arrivals": 1}
    assert parts(open_ended, **late)["completeness"] == "bounded"
    assert parts(open_ended, **late, harmonious=False) == {**proved, "theorem 2": "refuted", "completeness": "refuted"}


def test_the_answer_in_words() -> None:
    verdict = check.progress(ring(lambda t: t))
    text = str(verdict)
    assert text.startswith("refuted  progress of graph  (")
    assert "acyclic: refuted: a notification of a for 0 would wait for itself: (a, 0) could result in (f, 0)" in text
    assert "liveness: refuted: a waits for 0, and whatever happens from here it is never notified" in text
    document = json.loads(verdict.to_json())["verdict"]
    assert document["status"] == "refuted" and document["details"]["parts"]["liveness"] == "refuted"


def iterated() -> Graph:
    """Into a loop, twice round, and out again: the times inside are days with a counter, and in no order with those
    outside."""
    days, rounds = (0, 1), (0, 1, 2)
    outside, inside = [("day", d) for d in days], [("round", (d, k)) for d in days for k in rounds]

    def body(s: Any, edge: str, m: Message) -> Any:
        return s, [m.time], {"done" if m.time[1][1] == 2 else "more": [m]}

    def once_more(time: Any) -> Any:
        tag, (day, k) = time
        return (tag, (day, k + 1)) if k < 2 else None

    nodes = {
        "enter": buffer("first", to=lambda t: ("round", (t[1], 0)) if t[0] == "day" else None),
        "body": Node(body),
        "feedback": buffer("back", to=once_more),
        "leave": buffer("out", to=lambda t: ("day", t[1][0]) if t[0] == "round" else None),
    }
    edges = {
        "in": (None, "enter"), "first": ("enter", "body"), "more": ("body", "feedback"), "back": ("feedback", "body"),
        "done": ("body", "leave"), "out": ("leave", None),
    }  # fmt: skip
    times = {
        **dict.fromkeys(["in", "out", "enter", "leave"], outside),
        **dict.fromkeys(["first", "more", "back", "done", "body", "feedback"], inside),
    }
    order = Domains({"day": Integers(), "round": Loop(Integers())})
    return Graph(nodes, edges, order=order, times=times, name="iterated")


def test_a_loop_with_counters_in_a_domain_of_its_own() -> None:
    graph = iterated()
    verdict = check.progress(graph, inputs={"in": [Message(("day", 0)), Message(("day", 1))]})
    assert verdict.bounded, str(verdict)
    why = why_not(graph, "out", ("day", 0), pending=[("back", ("round", (0, 2)))])
    assert [t for _, t in why.holds[0][1].path][-3:] == [("round", (0, 2)), ("round", (0, 2)), ("day", 0)]
    assert not why_not(graph, "out", ("day", 0), pending=[("back", ("round", (1, 2)))])


def chain(**more: Any) -> Graph:
    nodes = {"read": buffer("e"), "count": count(**more)}
    return Graph(nodes, {"i": (None, "read"), "e": ("read", "count"), "o": ("count", None)}, times=[0, 1], name="chain")


def test_nodes_with_too_many_states_go_by_their_summaries() -> None:
    verdict = check.progress(chain(), messages=2)
    assert verdict.bounded
    assert verdict.notes[0] == (
        "by the summaries of the nodes, which are held to at every message: the limit of 1,000 states was reached"
    )
    exactly = check.progress(chain(), clock="exact", max_states=300)
    assert (
        exactly.unknown
        and not exactly
        and exactly.notes[0] == "condition 1: unknown: the limit of 300 states was reached"
    )


def test_summaries_are_held_to_at_every_message() -> None:
    early = Node(lambda n, e, m: (n + 1, [], {"o": [Message(0, n)]}), state=0)
    graph = Graph({"p": early}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1])
    with pytest.raises(StepError) as caught:
        check.progress(graph)
    assert str(caught.value) == (
        "node 'p', message 1 on i: sends 0 at 0 on o, earlier than it declares: +0, so at or after 1"
    )


def test_summaries_that_are_too_late_are_refused() -> None:
    graph = Graph({"p": buffer("o", to=lambda t: 0)}, {"i": (None, "p"), "o": ("p", None)}, times=[0, 1])
    with pytest.raises(UsageError) as caught:
        check.progress(graph, clock="summaries")
    assert str(caught.value) == (
        "graph: the summaries of its nodes do not say that (p, 1) could result in (o, 0):\n"
        "  (p, 1)\n"
        "  (o, 0): p, at its start, on message 1 on i sends 0 on o\n"
        "let the node declare it, or leave clock='summaries' out"
    )


def test_a_request_for_the_past_is_found_where_histories_cannot_be_listed() -> None:
    """A message carries what nobody listed: so its reader is looked at only in the runs."""
    nodes = {
        "p": Node(lambda s, e, m: (s, [], {"e": [Message(m.time, "new")]})),
        "q": Node(lambda s, e, m: (s, [0], {})),
    }
    verdict = check.progress(Graph(nodes, {"i": (None, "p"), "e": ("p", "q")}, times=[0, 1]))
    assert "sends 'new' at 0 on e, a value that values= does not list" in verdict.notes[0]
    assert verdict.parts["condition 1"].notes == ("q asks for 0 at 1, which is in the past",)
    run = verdict.parts["condition 1"].counterexample
    assert run is not None and run.replay()
    assert [str(x) for x in run.steps] == ["InitProp i holds 1", "Mess p: 1 on i", "Mess q: 'new' at 1 on e"]


def test_times_that_are_not_listed() -> None:
    """What goes round is told from the summaries, for all times; the rest is not known."""
    endless = Graph({"p": buffer("o")}, {"i": (None, "p"), "o": ("p", None)})
    verdict = check.progress(endless)
    assert verdict.unknown and "its times are not listed" in verdict.notes[0]
    assert verdict.parts["acyclic"].proved and verdict.parts["condition 2"].proved
    assert check.progress(endless, about=["condition 2", "acyclic"]).proved
    loop = Graph({"p": buffer("e"), "q": buffer("f")}, {"e": ("p", "q"), "f": ("q", "p")})
    assert parts(loop, about=["condition 2", "acyclic"]) == {"condition 2": "proved", "acyclic": "refuted"}
    back = {"p": buffer("e", summaries={"e": 1}), "q": buffer("f", summaries={"f": -2})}
    past = Graph(back, loop.edges, checked=False)
    assert parts(past, about=["condition 2", "acyclic"]) == {"condition 2": "refuted", "acyclic": "refuted"}
    assert "leads into the past" in str(check.progress(past, about="condition 2"))


def test_unknown_is_never_a_pass() -> None:
    few = check.progress(mill(), max_states=3)
    assert few.unknown and few.parts["condition 1"].bounded and few.parts["theorem 2"].unknown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"about": "theorem 3"},
            "about='theorem 3': the questions are condition 1, condition 2, acyclic, transitive, ",
        ),
        ({"clock": "wall"}, "clock='wall': expected 'auto', 'exact' or 'summaries'"),
        ({"inputs": {"o": []}}, "inputs=: 'o' is no input edge of graph: i is"),
    ],
)
def test_a_wrong_question_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check.progress(mill(), **given)
    assert str(caught.value).startswith(message)
    with pytest.raises(UsageError, match=r"check.progress takes a progress.Graph, found a list"):
        check.progress([])  # type: ignore[arg-type]


def test_a_bound_is_kept_where_one_state_has_more_steps_than_can_be_listed() -> None:
    echo = Node(lambda s, e, m: (s, [], {"x": [Message(1 - m.time)], "o": [m]}))
    edges = {"i": (None, "a"), "x": ("a", "a"), "o": ("a", None)}
    graph = Graph({"a": echo}, edges, times=[0, 1], order=Own(lambda a, b: a == b, [0, 1]))
    verdict = check.progress(graph, about=["theorem 2"], inputs={"i": [Message(0)]}, max_states=100)
    assert verdict.status == "unknown" and "limit of 100 states" in verdict.parts["theorem 2"].notes[0]
