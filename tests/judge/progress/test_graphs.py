"""A judge of graphs whose nodes do something: the paper's relation path by path, and all runs."""

from __future__ import annotations

import itertools
import random

import pytest

from pellucid import check
from pellucid.progress import Graph, Message, Node, Own, conservative, exact, inferred, why_not
from tests.judge.progress.tables import Model
from tests.seeds import seeds


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(16, 7000))
def test_a_graph_is_what_the_paper_says(seed):
    r = random.Random(seed)
    model = Model(r, tame=seed % 3 > 0)
    relation, le = model.relation(), model.le
    told = exact(model.graph)
    summed = conservative(inferred(model.graph))
    stamps = list(itertools.product([*model.names, *model.edges], model.times))
    for a, b in itertools.product(stamps, stamps):
        assert told.holds(a, b) is ((a, b) in relation), (a, b)
        assert (a, b) not in relation or summed.holds(a, b), (a, b)
    condition1 = all(
        le(event[1], t)
        for n in model.names
        for s, asked in model.local(n)
        for event in model.events(n)
        for t in model.table[n, s, event][1] - asked
    )
    internal = [(e, b) for e, (a, b) in model.edges.items() if a and b]
    condition2 = all(
        le(t, u) for e, n in internal for t in model.times for u in model.times if ((n, t), (e, u)) in relation
    )
    transitive = all((a, c) in relation for a, b in relation for x, c in relation if x == b)
    assert transitive is condition2  # Theorem 1
    assert (told.not_transitive() is None) is transitive
    start = r.choice(stamps)
    assert set(told.close([start])) == model.closed(relation, [start])

    inputs = [r.choice(model.times) for _ in range(r.randrange(3))]
    verdict = check.progress(model.graph, inputs={"i": [Message(t) for t in inputs]}, max_states=300)
    parts = {name: part.status for name, part in verdict.parts.items()}
    said = {"condition 1": condition1, "condition 2": condition2}
    if condition2:
        said["acyclic"] = not any(((n, t), (e, t)) in relation for e, n in internal for t in model.times)
    mine = model.runs(relation, inputs, 150)
    for name, holds in {**said, **(mine or {})}.items():
        assert parts[name] in (("proved", "bounded") if holds else ("refuted",)), (name, parts, holds)
    if mine is not None and condition1:
        assert mine["theorem 2"]  # Condition 1 alone

    for _ in range(3):
        pending = r.sample(stamps, 3)
        location, t = r.choice(stamps)
        ends = (
            [(e, t) for e, (_, b) in model.edges.items() if b == location]
            if location in model.names
            else [(location, t)]
        )
        why = why_not(model.graph, location, t, pending=pending)
        blocking = {x for x in pending if any(y in model.closed(relation, [x]) for y in ends)}
        assert {x for x, _ in why.holds} == blocking and bool(why) is bool(blocking), (location, t, pending)


def test_a_bound_is_kept_where_one_state_has_more_steps_than_can_be_listed():
    echo = Node(lambda s, e, m: (s, [], {"x": [Message(1 - m.time)], "o": [m]}))
    edges = {"i": (None, "a"), "x": ("a", "a"), "o": ("a", None)}
    graph = Graph({"a": echo}, edges, times=[0, 1], order=Own(lambda a, b: a == b, [0, 1]))
    verdict = check.progress(graph, about=["theorem 2"], inputs={"i": [Message(0)]}, max_states=100)
    assert verdict.status == "unknown" and "limit of 100 states" in verdict.parts["theorem 2"].notes[0]
