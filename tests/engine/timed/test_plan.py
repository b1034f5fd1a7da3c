"""How a graph is cut at its timed steps."""

from __future__ import annotations

from typing import Any

from pellucid import Stream, join, merge, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.timed.plan import Segment, Timed, levels, plan_of
from pellucid.internal.expr.types import INT, STR, TupleType


def count(w: Stream[Any]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def text(fn: Any, **types: Any) -> list[str]:
    return str(plan_of(pipeline(fn, **types).graph)).splitlines()


def test_ordinary_steps_of_one_level_that_a_stream_joins_are_a_segment() -> None:
    def p(x: Stream[int], y: Stream[int]) -> Any:
        a = x.map(lambda v: v + 1, id="inc").filter(lambda v: v > 0, id="some").at(lambda v: v, id="a")
        b = y.map(lambda v: v, id="same").at(lambda v: v, id="b")
        both = merge(a, b, id="both").tumbling(5, count, id="w")
        return both.map(lambda w: w.value, id="value"), both.late.map(lambda e: e.value, id="missed")  # type: ignore[arg-type,return-value]

    assert text(p, x=int, y=int)[:-2] == [
        "[inc, some] ← x",
        "[same] ← y",
        "a ← some",
        "b ← same",
        "[both] ← a, b",
        "w ← both",
        "[value] ← w",
    ]
    late, missed = text(p, x=int, y=int)[-2:]
    assert late.endswith("← w") and missed.startswith("[missed] ← late-")


def test_windows_of_windows_stand_one_level_higher() -> None:
    def p(x: Stream[int]) -> Any:
        return (
            x.at(lambda v: v).tumbling(5, count).tumbling(10, lambda w: w.cumulate(lambda t, v: t + v.value, start=0))
        )

    graph = pipeline(p, x=int).graph
    assert levels(graph) == [0, 0, 1, 2]
    assert all(isinstance(stage, Timed) for stage in plan_of(graph).stages)


def test_whose_late_events_are_taken() -> None:
    def p(x: Stream[int]) -> Any:
        w = x.at(lambda v: v).tumbling(5, count, id="w")
        return w, w.late, x.at(lambda v: v).session(5, count, id="s")

    graph = pipeline(p, x=int).graph
    taken = {graph.nodes[s.step].id: s.late_taken for s in plan_of(graph).stages if isinstance(s, Timed)}
    assert taken["w"] and not taken["s"]


def test_a_stream_under_a_key_goes_into_a_segment_with_its_key() -> None:
    def p(x: Stream[tuple[str, int]]) -> Any:
        keyed = x.at(lambda e: e[1]).key_by(lambda e: e[0], id="key")
        return keyed.tumbling(5, count, id="w").cumulate(lambda t, w: t + w.value, start=0, id="sum")

    graph = pipeline(p, x=tuple[str, int]).graph
    first, second = (s for s in plan_of(graph).stages if isinstance(s, Segment))
    assert [c.keyed for c in first.inputs] == [None] and first.outputs == (graph.position["key"],)
    (crossing,) = second.inputs
    assert (crossing.name, crossing.keyed) == ("w", STR)
    window = graph["w"].type
    assert second.graph.nodes[0].type == TupleType((STR, window))
    assert [node.key for node in second.graph.nodes] == [None, STR, STR, STR]
    run = Interpreter(second.graph)
    events = [("ada", (0, 5, 2)), ("bob", (0, 5, 7)), ("ada", (5, 10, 3))]
    found = [run.push_keyed({"w": (key, window.unflatten(e))})["sum"] for key, e in events]
    assert found == [[("ada", 2)], [("bob", 7)], [("ada", 5)]]


def test_a_segment_puts_out_what_others_want() -> None:
    def p(x: Stream[int]) -> Any:
        inc = x.map(lambda v: v + 1, id="inc")
        hidden = inc.map(lambda v: v, id="hidden")
        return inc, hidden.at(lambda v: v, id="at"), hidden.map(lambda v: v, id="end")

    graph = pipeline(p, x=int).graph
    (segment,) = (s for s in plan_of(graph).stages if isinstance(s, Segment))
    assert [name for name, _ in segment.graph.outputs] == ["inc", "hidden", "end"]
    assert [segment.graph.nodes[i].type for i in segment.graph.sources] == [INT]


def test_a_join_reads_two_streams() -> None:
    graph = pipeline(lambda x, y: join(x.at(lambda v: v), y.at(lambda v: v), within=1), x=int, y=int).graph
    stage = plan_of(graph).stages[-1]
    assert isinstance(stage, Timed) and stage.inputs == graph.nodes[stage.step].inputs and len(stage.inputs) == 2
