"""Random acyclic graphs of tasks, inputs and schedules, shared by the tests of failures."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pellucid.failures.model import Configuration, Task, TraceStep, initial
from pellucid.failures.model.trace import random_trace


def mixing(salt: int) -> Callable[[int, int], tuple[int, list[int]]]:
    """A function whose state and outputs depend on the order of its events; it puts out none, one or two."""

    def f(v: int, w: int) -> tuple[int, list[int]]:
        after = (3 * v + w + salt) % 17
        return after, [(after + i) % 17 for i in range((v + w + salt) % 3)]

    return f


def random_graph(
    rng: random.Random, *, most_tasks: int = 4, most_events: int = 2, most_epochs: int = 3
) -> Configuration:
    """A valid initial configuration."""
    sources = [f"i{k}" for k in range(rng.randint(1, 2))]
    streams = list(sources)
    tasks: dict[str, Task] = {}
    for k in range(rng.randint(1, most_tasks)):
        inputs = rng.sample(streams, rng.randint(1, min(2, len(streams))))
        tasks[f"t{k}"] = Task(mixing(rng.randint(0, 5)), tuple(inputs), f"s{k}")
        streams.append(f"s{k}")
    epochs = rng.randint(1, most_epochs)
    inputs_of: dict[str, list[list[Any]]] = {
        s: [[rng.randint(0, 9) for _ in range(rng.randint(0, most_events))] for _ in range(epochs)] for s in sources
    }
    return initial(tasks, inputs_of, {p: rng.randint(0, 3) for p in tasks})


def random_run(seed: int, **limits: Any) -> tuple[Configuration, list[TraceStep]]:
    """A configuration and a faulty trace from it, cut off at some point."""
    rng = random.Random(seed)
    length = limits.pop("length", 60)
    c = random_graph(rng, **limits)
    fail = rng.choice([0.02, 0.1, 0.3])
    return c, random_trace(c, rng, fail=fail, failures=4, length=rng.randint(0, length))
