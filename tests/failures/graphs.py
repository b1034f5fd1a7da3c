"""Random acyclic graphs of tasks, inputs and schedules, shared by the tests of failures."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.failures.model import Configuration, FFail, FRecover, IBorder, IEvent, Task, TraceStep, initial, steps
from pellucid.failures.model.explain import CausalOrder, InvalidTrace, apply_trace
from pellucid.failures.model.tasks import TaskGraph


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


def random_trace(
    c: Configuration, rng: random.Random, *, fail: float = 0.05, failures: int = 3, length: int = 10**9
) -> list[TraceStep]:
    """The trace of a random execution: with this chance a step is a failure; it goes on until it ends or is long
    enough.

    A failed task is recovered with chance 1/2 at each step, so others go on for a while.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, []), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> print(*random_trace(c, random.Random(0), fail=0), sep="; ")
    I-EVENT t  -i ⟨1, EV(1)⟩; I-BORDER t  -i ⟨1, BD⟩  +o ⟨1, BD⟩
    """
    Z: list[TraceStep] = []  # noqa: N806 - the paper's letter
    while len(Z) < length:
        enabled = steps(c)
        work = [e for e in enabled if isinstance(e[0], IEvent | IBorder)]
        failing = [e for e in enabled if isinstance(e[0], FFail)]
        recovering = [e for e in enabled if isinstance(e[0], FRecover)]
        if failing and failures > 0 and rng.random() < fail:
            failures -= 1
            label, c = rng.choice(failing)
        elif recovering and (not work or rng.random() < 0.5):
            label, c = recovering[0]
        elif work:
            label, c = rng.choice(work)
        else:
            break
        Z.append(label)
    return Z


def shuffled(order: CausalOrder, rng: random.Random) -> list[int]:
    """A random permutation of the steps that preserves their causal order."""
    missing = [len(before) for before in order.edges]
    after: list[list[int]] = [[] for _ in order.edges]
    for i, before in enumerate(order.edges):
        for j in before:
            after[j].append(i)
    ready = [(rng.random(), i) for i, n in enumerate(missing) if n == 0]
    heapq.heapify(ready)
    done: list[int] = []
    while ready:
        _, j = heapq.heappop(ready)
        done.append(j)
        for i in after[j]:
            missing[i] -= 1
            if missing[i] == 0:
                heapq.heappush(ready, (rng.random(), i))
    return done


def order_dependent(model: TaskGraph) -> tuple[str, ...]:
    """The steps whose order of outputs may depend on the schedule; with none, one result is possible."""
    if len(model.tasks) == 1 and len(model.graph.sources) == 1:
        return ()  # then a push of the pipeline is a step of the task
    several = [n for n in model.graph.nodes if len(n.inputs) > 1]
    return tuple(n.id for n in several if not n.queued or (n.key is not None and len(set(n.inputs)) > 1))


def is_valid(Z: Sequence[TraceStep], c: Configuration) -> bool:  # noqa: N803 - the paper's letter
    """Whether Z is valid from c, Definition 6.3."""
    try:
        apply_trace(Z, c)
    except InvalidTrace:
        return False
    return True


# Small graphs of tasks, shared by the tests of the checker.


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
