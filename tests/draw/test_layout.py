"""Layers, order and heights."""

from __future__ import annotations

from itertools import pairwise

from pellucid.internal.draw.layout import Item, Wire, _crossings, arrange

BOX = Item(10, 10, (5,), 5)
JOIN = Item(10, 20, (5, 15), 10)
END = Item(10, 10, (5,), 5, last=True)


def test_a_chain_is_level() -> None:
    plan = arrange([BOX] * 5, [Wire(a, b, 0) for a, b in pairwise(range(5))], gap=4)
    assert [(v.layer, v.y) for v in plan.vertices] == [(i, 0.0) for i in range(5)]


def test_a_step_stands_after_the_last_of_its_inputs() -> None:
    plan = arrange([BOX, BOX, BOX, JOIN], [Wire(0, 1, 0), Wire(1, 2, 0), Wire(2, 3, 0), Wire(0, 3, 1)], gap=4)
    assert [v.layer for v in plan.vertices[:4]] == [0, 1, 2, 3]


def test_a_stream_has_one_pipe_for_all_its_far_readers() -> None:
    wires = [Wire(0, 1, 0), Wire(1, 2, 0), Wire(2, 3, 0), Wire(0, 3, 1), Wire(0, 4, 0)]
    plan = arrange([BOX, BOX, BOX, JOIN, END], wires, gap=4)
    joints = [v for v in plan.vertices if v.item is None]
    assert [v.layer for v in joints] == [1, 2]
    assert len({v.y for v in joints}) == 1  # and it is straight
    assert len(joints[-1].out) == 2


def test_outputs_stand_in_the_last_layer() -> None:
    plan = arrange([BOX, BOX, END, END], [Wire(0, 1, 0), Wire(0, 2, 0), Wire(1, 3, 0)], gap=4)
    assert [v.layer for v in plan.vertices[:4]] == [0, 1, 2, 2]


def test_inputs_are_ordered_so_that_pipes_do_not_cross() -> None:
    plan = arrange([BOX, BOX, JOIN], [Wire(0, 2, 1), Wire(1, 2, 0)], gap=4)
    assert plan.vertices[1].y < plan.vertices[0].y


def test_the_reader_that_means_cannot_place_is_exchanged() -> None:
    # k feeds m and the upper input of j; m feeds the output c and, by t, the lower input of j.
    k, m, c, t, j = range(5)
    wires = [Wire(k, m, 0), Wire(m, c, 0), Wire(m, t, 0), Wire(k, j, 0), Wire(t, j, 1)]
    plan = arrange([BOX, BOX, END, BOX, JOIN], wires, gap=4)
    assert plan.vertices[j].y < plan.vertices[c].y
    assert _crossings(plan.layers) == 0


def test_nothing_at_all() -> None:
    assert arrange([], [], gap=4).height == 0.0
