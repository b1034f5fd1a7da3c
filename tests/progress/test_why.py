"""`why_not`: what holds a time back, and by which way; of graphs and of clocks that run."""

from __future__ import annotations

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from random import Random

import pytest

from pellucid import UsageError
from pellucid.progress import (
    Builder,
    Graph,
    Message,
    Node,
    Operator,
    Source,
    Target,
    buffer,
    builder_of,
    conservative,
    exact,
    why_not,
)
from pellucid.progress.running import frontier
from tests.progress.test_could_result_in import past, shifted
from tests.seeds import seeds


def flights() -> Graph:
    """Flights are read, corrected in a loop that takes a day, and counted when a day is complete."""
    count = Node(lambda n, e, m: (n, [m.time], {}), lambda n, t: (n, [], {"out": [Message(t)]}))
    nodes = {
        "read": buffer("raw"),
        "correct": Node(lambda s, e, m: (s, [], {"good": [m], "again": [m]} if e == "raw" else {"good": [m]})),
        "later": buffer("back", to=lambda t: t + 1 if t < 3 else None, summaries={"back": 1}),
        "count": count,
    }
    edges = {
        "in": (None, "read"), "raw": ("read", "correct"), "good": ("correct", "count"), "again": ("correct", "later"),
        "back": ("later", "correct"), "out": ("count", None),
    }  # fmt: skip
    return Graph(nodes, edges, times=[1, 2, 3], name="flights")


def test_in_words() -> None:
    why = why_not(flights(), "count", 2, pending=[("in", 1), ("count", 2), ("again", 1), ("good", 3)])
    assert bool(why)
    assert str(why).splitlines()[:6] == [
        "count is not notified of 2: 2 pointstamps hold it back",
        "  a message at 1 on in: in at 1 → read at 1 → raw at 1 → correct at 1 → good at 1",
        "    read, at its start, on message 1 on in sends 1 on raw",
        "    correct, at its start, on message 1 on raw sends 1 on good",
        "  a message at 1 on again: again at 1 → later at 1 → back at 2 → correct at 2 → good at 2",
        "    later, at its start, on message 1 on again sends 2 on back",
    ]
    assert "  count    1  ← here" in str(why) and "  back     2" in str(why) and "  in       1" in str(why)
    done = why_not(flights(), "count", 2, pending=[("count", 2), ("good", 3)])
    assert not done and str(done) == "count can be notified of 2: nothing that is pending could still reach it"


def test_of_an_edge_and_of_the_start() -> None:
    why = why_not(flights(), "good", 1, inputs={"in": [Message(1)]})
    assert str(why).startswith(
        "good may still get messages at or before 1: 1 pointstamp holds it back\n  a message at 1 on in"
    )
    assert not why_not(flights(), "good", 1, inputs={"in": [Message(2)]})
    assert (
        str(why_not(flights(), "out", 1))
        == "out gets no more messages at or before 1: nothing that is pending could still reach it"
    )


def test_a_request_that_waits_for_itself() -> None:
    again = Node(lambda s, e, m: (s, [m.time], {}), lambda s, t: (s, [], {"e": [Message(t)]}))
    graph = Graph({"p": again, "q": buffer("f")}, {"e": ("p", "q"), "f": ("q", "p")}, times=[0])
    assert "  p itself waits for 0: p at 0 → e at 0 → q at 0 → f at 0" in str(
        why_not(graph, "p", 0, pending=[("p", 0)])
    )


def test_what_the_closure_adds_is_explained_too() -> None:
    """Where Condition 2 fails, the way may come to a location twice."""
    (held,) = why_not(past(), "o", 0, pending=[("i", 1)]).holds
    assert [x for x, _ in held[1].path] == ["i", "p", "e", "q", "f", "p", "o"]


def test_a_node_that_counts_goes_by_its_summaries() -> None:
    count = Node(lambda n, e, m: (n + 1, [m.time], {}), lambda n, t: (0, [], {"o": [Message(t, n)]}), state=0)
    graph = Graph({"count": count}, {"i": (None, "count"), "o": ("count", None)}, times=[0, 1])
    assert "  a message at 0 on i: i at 0 → count at 0 → o at 0\n    count passes 0 on as 0, by +0" in str(
        why_not(graph, "o", 1, pending=[("i", 0)])
    )
    with pytest.raises(UsageError) as caught:
        exact(graph)
    assert str(caught.value) == (
        "graph: what its nodes can do cannot be listed: the limit of 1,000 states was reached; let them have fewer "
        "states and list values=, or take the relation by summaries, conservative(graph)"
    )


def test_as_a_picture() -> None:
    picture = ET.fromstring(why_not(flights(), "count", 2, pending=[("in", 1), ("count", 2)]).picture())
    kind = {g.get("data-location"): g.get("class") or "" for g in picture.iter() if g.get("data-location")}
    assert set(kind) == set(flights().locations)
    assert "plc-held" in kind["in"] and "plc-here" in kind["count"] and "plc-held" not in kind["good"]
    words = " ".join(picture.itertext())
    assert "count is not notified of 2" in words and "pending 1" in words
    ways = [p for p in picture.iter() if p.get("class") == "plc-way"]
    assert len(ways) == 4  # in → read → raw → correct → good


def test_nothing_in_the_picture_lies_on_something_else() -> None:
    picture = ET.fromstring(why_not(flights(), "count", 2, pending=[("in", 1), ("again", 1)]).picture())
    boxes = [
        tuple(float(rect.get(k) or 0) for k in ("x", "y", "width", "height"))
        for rect in picture.iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("class") == "plc-box"
    ]
    assert len(boxes) == len(flights().locations)
    for i, (x, y, w, h) in enumerate(boxes):
        assert all(x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y for x2, y2, w2, h2 in boxes[:i])
        assert (
            0 <= x and x + w < float(picture.get("width") or 0) and 0 <= y and y + h < float(picture.get("height") or 0)
        )


def test_the_picture_in_the_docs_is_what_the_example_draws() -> None:
    root = Path(__file__).parents[2]
    daily = runpy.run_path(str(root / "examples" / "timely.py"))["daily"]
    drawn = why_not(daily, "count", 2, pending=[("again", 1), ("count", 2)]).picture()
    assert (root / "docs" / "images" / "frontier.svg").read_text(encoding="utf-8") == drawn


def test_as_plain_data() -> None:
    document = why_not(flights(), "count", 2, pending=[("in", 1)]).document()
    assert document["complete"] is False and document["holds"][0]["path"][-1] == {"location": "good", "time": "1"}


def test_of_a_clock_that_runs() -> None:
    builder = Builder()
    for n, by in enumerate([0, 0, 1]):
        builder.add_node(n, 1, 1, [[by]])
    for n in range(3):
        builder.add_edge(Source(n), Target((n + 1) % 3))
    clock = builder.build()
    clock.update_source(Source(0), 17, 1)
    clock.propagate_all()
    why = why_not(clock, "0", 18)
    assert str(why).splitlines()[:2] == [
        "0 may still get messages at or before 18: 1 pointstamp holds it back",
        "  0.out0 may still send at 17: 0.out0 at 17 → 1.in0 at 17 → 1.out0 at 17 → 2.in0 at 17 → 2.out0 at 18 → "
        "0.in0 at 18",
    ]
    assert not why_not(clock, "0", 17) and why_not(clock, "2.in0", 17) and ET.fromstring(why.picture()) is not None
    with pytest.raises(UsageError, match=r"'4' is no location of the clock: its nodes and ports are 0, 1, 2, 0.in0"):
        why_not(clock, "4", 1)
    with pytest.raises(UsageError, match="a clock knows what is pending"):
        why_not(clock, "0", 1, pending=[])


@pytest.mark.seeded
def test_an_idle_source_that_may_still_send_is_named() -> None:
    builder = Builder()
    for name in ("busy", "idle"):
        builder.add_node(name, 0, 1, [])
    builder.add_node("join", 2, 1, [[0], [0]])
    for port, name in enumerate(("busy", "idle")):
        builder.add_edge(Source(name), Target("join", port))
    clock = builder.build()
    busy, idle = (Operator(clock, name).start(0, 1) for name in ("busy", "idle"))
    busy.downgrade(4)
    clock.propagate_all()
    assert str(why_not(clock, "join", 2)).splitlines() == [
        "join may still get messages at or before 2: 1 pointstamp holds it back",
        "  idle.out0 may still send at 1: idle.out0 at 1 → join.in1 at 1",
        "the frontier, the least times that may still come:",
        "  join.in0   4  ← here",
        "  join.in1   1  ← here",
        "  busy.out0  4",
        "  idle.out0  1",
        "  join.out0  1",
    ]
    idle.drop()
    clock.propagate_all()
    assert not why_not(clock, "join", 2) and why_not(clock, "join", 4)


def test_the_clock_of_a_graph_has_the_frontier_of_its_relation() -> None:
    """The tracker against the closure under the relation with ports, on graphs whose summaries say it all."""
    for seed in seeds(15):
        graph = shifted(seed)
        if not builder_of(graph).is_acyclic():
            continue
        rng = Random(seed)
        pending = [
            (e, rng.choice(graph.times)) for e in graph.edges if graph.target[e] is not None and rng.random() < 0.6
        ]
        clock = builder_of(graph).build()
        for e, t in pending:
            p = graph.target[e]
            assert p is not None
            clock.update_target(Target(p, graph.into[p].index(e)), t, 1)
        clock.propagate_all()
        least = frontier(conservative(graph, ports=True), pending)
        for e, (a, b) in graph.edges.items():
            if b is not None:
                assert list(clock.frontier(Target(b, graph.into[b].index(e)))) == list(least[e]), (seed, e)
            else:
                assert a is not None and list(clock.frontier(Source(a, graph.out[a].index(e)))) == list(least[e])


def test_what_is_not_there_is_refused() -> None:
    for location, time, message in (
        ("cuont", 1, "'cuont' is no location of flights: "),
        ("count", 9, "flights: 9 is not among its times: 1, 2, 3"),
        ("count", "monday", "'monday' is not a time of integers of 64 bits: times of two domains cannot be compared"),
    ):
        with pytest.raises(UsageError) as caught:
            why_not(flights(), location, time)
        assert message in str(caught.value)
    with pytest.raises(UsageError, match="leave inputs= out"):
        why_not(flights(), "count", 1, pending=[], inputs={"in": []})
    assert exact(flights()).not_transitive() is None
