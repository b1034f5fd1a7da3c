"""Functions that look inside text: compiled, with answers looked up, against a call for every event.

    .venv/bin/python bench/text.py [EVENTS]

Few different texts is what tables have (carriers, airports, states); all different is the worst case: then every event
is a call, and the table is in vain.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid import pipeline
from pellucid.internal.data.columns import Batch, Strings
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.graph.model import Graph

NAMES = {f"C{i}": f"Carrier {i}" for i in range(300)}
FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "s.upper()": lambda s: s.upper(),
    "NAMES.get(s, '?')": lambda s: NAMES.get(s, "?"),
    "s in NAMES": lambda s: s in NAMES,
    "s.lower()[1:] + '-x'": lambda s: s.lower()[1:] + "-x",
    "int(s[1:]) % 7 if …": lambda s: int(s[1:]) % 7 if s.startswith("C") and s.strip()[1:].isdigit() else 0,
}


def called(graph: Graph) -> Graph:
    """The same, with every function called for every event."""
    nodes = [
        node if node.fn is None else dataclasses.replace(node, fn=dataclasses.replace(node.fn, looked_up=None))
        for node in graph.nodes
    ]
    return dataclasses.replace(graph, nodes=tuple(nodes))


def rate(engine: Engine, codes: Any, texts: list[str]) -> float:
    """Million events a second of processor time, once it is warm."""
    engine.push_batch(Batch(1000, [[Strings(codes[:1000], texts)]]))
    start = time.process_time()
    engine.push_batch(Batch(len(codes), [[Strings(codes, texts)]]))
    return len(codes) / (time.process_time() - start) / 1e6


def main(events: int) -> None:
    few, many = [f"C{i}" for i in range(300)], [f"C{i}" for i in range(events // 4)]
    rng = np.random.default_rng(1)
    print(f"million events/s of processor time, {events:,} events")
    print(f"{'':24}{'300 texts':>12}{'called':>10}{'times':>8}{'all different':>16}{'called':>10}{'times':>8}")
    for name, f in FUNCTIONS.items():
        graph = pipeline(lambda x, f=f: x.map(f), x=str).graph
        a = rate(Engine(graph, mode="numba"), rng.integers(0, 300, events), few)
        b = rate(Engine(called(graph)), rng.integers(0, 300, events // 10), few)
        c = rate(Engine(graph, mode="numba"), np.arange(len(many)), many)
        d = rate(Engine(called(graph)), np.arange(len(many) // 4), many)
        print(f"{name:24}{a:12.1f}{b:10.2f}{a / b:8.0f}{c:16.2f}{d:10.2f}{c / d:8.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
