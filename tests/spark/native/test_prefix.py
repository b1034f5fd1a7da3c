"""A pipeline cut behind its first maps and filters is the same pipeline."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import StepError, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.graph.model import Graph
from pellucid.spark.native.prefix import front, split
from tests.strategies import MAPS, PREDICATES, Seeded, add_steps, make_input


def run(graph: Graph, pushes: list[dict[str, Any]]) -> list[dict[str, list[Any]]] | str:
    try:
        return Interpreter(graph).run(pushes)
    except StepError:
        return "fails"


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_front_and_rest_equal_the_whole(seed: int) -> None:
    c = Seeded(seed)

    def build(x: Any) -> Any:
        for _ in range(c.of([1, 2, 3])):
            x = x.map(c.of(MAPS[x.type])) if c.of([True, False]) else x.filter(c.of(PREDICATES[x.type]))
        return add_steps(c, [x], c.of([1, 3, 5]), 1, c.of([True, False]))[-1]

    p = pipeline(build, x=c.of([int, float, str]))
    chain = front(p.graph)
    if not chain:
        return
    first, rest = split(p.graph, chain)
    pushes = make_input(c, p, 15)
    between = run(first, pushes)
    whole = run(p.graph, pushes)
    if between == "fails":
        assert whole == "fails"
        return
    after = run(rest, [{"x": step["out"][0]} for step in between if step["out"]])  # type: ignore[index]
    if after == "fails" or whole == "fails":
        assert after == whole
        return
    steps = list(zip(whole, between, strict=True))
    assert [step for step, push in steps if push["out"]] == after  # type: ignore[index]
    dropped = [step for step, push in steps if not push["out"]]  # type: ignore[index]
    assert all(events == [] for step in dropped for events in step.values())  # type: ignore[union-attr]


def test_what_saves_nothing_stays_behind_the_shuffle() -> None:
    assert front(pipeline(lambda x: x.map(lambda v: (v, v)).trim(1), x=int).graph) == []
    assert front(pipeline(lambda x: x.filter(lambda v: v > 0), x=int).graph) != []
    both = pipeline(lambda x: x.filter(lambda v: v > 0) + x, x=int)  # the source is used twice
    assert front(both.graph) == []


def test_ids_of_steps_stay() -> None:
    p = pipeline(lambda x: x.filter(lambda v: v > 0).cumulate(lambda t, v: t + v, start=0, id="total"), x=int)
    _, rest = split(p.graph, front(p.graph))
    assert [node.id for node in rest.nodes] == ["x", "total"]
