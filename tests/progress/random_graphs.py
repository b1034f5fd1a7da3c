"""Small graphs by chance: tables say what each node does, so that everything about them can be looked up."""

from __future__ import annotations

from random import Random
from typing import Any

from pellucid.progress.graph import Graph, Message, Node
from pellucid.progress.times import Domains, Integers, Order, Product

ORDERS: tuple[tuple[Order, tuple[Any, ...]], ...] = (
    (Integers(), (0, 1)),
    (Integers(), (0, 1, 2)),
    (Product(Integers(), Integers()), ((0, 0), (0, 1), (1, 0), (1, 1))),
    (Domains({"a": Integers(), "b": Integers()}), (("a", 0), ("a", 1), ("b", 0))),
)


def random_graph(
    rng: Random, *, nodes: int = 3, edges: int = 4, self_loops: bool = False, asks: float = 0.15,
    kind: int | None = None, late: bool = False,
) -> Graph:  # fmt: skip
    """A graph of at most so many nodes and edges; with ``late`` no request is in the past (Condition 1)."""
    order, times = ORDERS[rng.randrange(len(ORDERS)) if kind is None else kind]
    names = [f"n{i}" for i in range(rng.randint(1, nodes))]
    ends: dict[str, tuple[str | None, str | None]] = {}
    for i in range(rng.randint(1, edges)):
        kinds = ["in", "out"] + ["internal"] * (4 if len(names) > 1 or self_loops else 0)
        a, b = rng.choice(names), rng.choice(names)
        what = rng.choice(kinds)
        if what == "internal" and (a != b or self_loops):
            ends[f"e{i}"] = (a, b)
        else:
            ends[f"e{i}"] = (None, b) if what == "in" else (a, None)
    made = {p: random_node(rng, [e for e, (a, _) in ends.items() if a == p], order, times, asks, late) for p in names}
    return Graph(made, ends, order=order, times=times)


def random_node(
    rng: Random, out: list[str], order: Order, times: tuple[Any, ...], asks: float, late: bool = False
) -> Node:
    """A node of one or two states."""
    states = rng.randint(1, 2)
    table: dict[Any, Any] = {}

    def result(state: int, came: Any, time: Any) -> Any:
        key = state, came, time
        if key not in table:
            sent = {e: [Message(rng.choice(times))] for e in out if rng.random() < 0.4}
            allowed = [t for t in times if not late or order.less_equal(time, t)]
            table[key] = rng.randrange(states), [rng.choice(allowed)] if rng.random() < asks else [], sent
        return table[key]

    return Node(
        lambda state, edge, message: result(state, edge, message.time),
        lambda state, time: result(state, None, time),
        state=0,
        requests=[rng.choice(times)] if rng.random() < asks * 2 else [],
    )
