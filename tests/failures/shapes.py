"""Small graphs of tasks, shared by the tests of the checker."""

from __future__ import annotations

from typing import Any

from pellucid.failures.model import Configuration, Task, initial


def add(v: int, w: int) -> tuple[int, list[int]]:
    return v + w, [v + w]


def passes(v: int, w: int) -> tuple[int, list[int]]:
    return v, [w]


def tenfold(v: int, w: int) -> tuple[int, list[int]]:
    return v, [10 * w]


def weigh(v: int, w: int) -> tuple[int, list[int]]:
    return 2 * v + w, [2 * v + w]  # the order of its events matters


def epochs_of(epochs: int, events: int) -> list[list[int]]:
    return [[e * events + i + 1 for i in range(events)] for e in range(epochs)]


def chain(epochs: int = 2, events: int = 2, length: int = 3) -> Configuration:
    tasks = {f"t{i}": Task(add, (f"s{i}",), f"s{i + 1}") for i in range(length)}
    return initial(tasks, {"s0": epochs_of(epochs, events)}, dict.fromkeys(tasks, 0))


def diamond(epochs: int = 2, events: int = 2) -> Configuration:
    tasks = {
        "split": Task(passes, ("in",), "a"),
        "left": Task(add, ("a",), "l"),
        "right": Task(tenfold, ("a",), "r"),
        "join": Task(add, ("l", "r"), "out"),
    }
    return initial(tasks, {"in": epochs_of(epochs, events)}, dict.fromkeys(tasks, 0))


def merged(epochs: int = 2, events: int = 2) -> Configuration:
    """Two sources, a task for each, and one that takes from both."""
    tasks = {
        "left": Task(add, ("a",), "l"),
        "right": Task(tenfold, ("b",), "r"),
        "join": Task(weigh, ("l", "r"), "out"),
    }
    inputs: dict[str, Any] = {"a": epochs_of(epochs, events), "b": epochs_of(epochs, events)}
    return initial(tasks, inputs, dict.fromkeys(tasks, 0))
