# ruff: noqa: N803, N806 - the paper's letters
"""Traces: application, validity, the causal order and Lemma 6.5."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import DataError
from pellucid.failures.model import Configuration, Consume, FFail, FRecover, IEvent, Produce, TraceStep
from pellucid.failures.model.notation import read, read_run
from pellucid.failures.model.stepwise import Stepwise
from pellucid.failures.model.trace import CausalOrder, InvalidTrace, apply_trace
from tests.failures.random_graphs import is_valid, random_run, random_trace, shuffled
from tests.seeds import HUNT, seeds


def closure(Z: list[TraceStep]) -> list[list[bool]]:
    """Definition 6.4 word by word: all pairs, and then transitivity."""
    produced: list[dict[tuple[str, int], Any]] = []
    consumed: list[set[tuple[str, int]]] = []
    generation, generations = 0, []
    for z in Z:
        generations.append(generation)
        made, taken = {}, set()
        if isinstance(z, FRecover):
            generation += 1
        elif not isinstance(z, FFail):
            numbers = dict(z.N)
            for x in z.X:
                if isinstance(x, Consume):
                    taken.add((x.s, numbers[x.s]))
                else:
                    made[x.s, numbers[x.s]] = x
                numbers[x.s] += 1
        produced.append(made)
        consumed.append(taken)
    n = len(Z)
    before = [[False] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            zi, zj = Z[i], Z[j]
            recovery = isinstance(zi, FRecover) or isinstance(zj, FRecover)
            same = not recovery and zi.p == zj.p  # type: ignore[union-attr]
            message = generations[i] == generations[j] and bool(produced[i].keys() & consumed[j])
            before[i][j] = recovery or same or message
    for k in range(n):
        for i in range(n):
            if before[i][k]:
                for j in range(n):
                    before[i][j] |= before[k][j]
    return before


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(4))
def test_vector_clocks_are_the_causal_order(block: int) -> None:
    for seed in seeds(15, block * 15):
        _, Z = random_run(seed, length=25)
        wanted, order = closure(Z), CausalOrder(Z)
        for i in range(len(Z)):
            for j in range(len(Z)):
                assert order.before(i, j) == wanted[i][j], (seed, i, j)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_lemma_6_5(seed: int, shuffle: int) -> None:
    """A permutation that keeps the causal order is valid and ends in the same configuration."""
    c, Z = random_run(seed, length=40)
    order = CausalOrder(Z)
    permutation = shuffled(order, random.Random(shuffle))
    assert order.keeps(permutation)
    assert apply_trace([Z[i] for i in permutation], c)[-1] == apply_trace(Z, c)[-1]


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_swap_that_breaks_the_order_of_a_message_is_not_valid(seed: int, chosen: int) -> None:
    c, Z = random_run(seed, length=30)
    order = CausalOrder(Z)
    pairs = [i for i in range(len(Z) - 1) if order.before(i, i + 1)]
    messages = [i for i in pairs if isinstance(Z[i], IEvent) and isinstance(Z[i + 1], IEvent)]
    if messages:
        i = messages[chosen % len(messages)]
        swapped = [*range(i), i + 1, i, *range(i + 2, len(Z))]
        assert not order.keeps(swapped)
        assert not is_valid([Z[k] for k in swapped], c)


def test_only_permutations_are_permutations() -> None:
    _, Z = random_run(3)
    order = CausalOrder(Z)
    assert order.keeps(range(len(Z)))
    assert not order.keeps(range(len(Z) - 1))
    assert not order.keeps([0] * len(Z))


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(4))
def test_stepwise_is_the_model(block: int) -> None:
    """Each configuration of the linear replay is the one that the literal rules give; also after a step is changed."""
    for seed in seeds(40, block * 40):
        rng = random.Random(seed)
        c, Z = random_run(seed, length=40)
        run = Stepwise(c)
        for z, after in zip(Z, apply_trace(Z, c)[1:], strict=True):
            assert run.take(z) is None
            assert run.configuration() == after
        if Z:
            i, k = rng.randrange(len(Z)), rng.randrange(len(Z))
            changed = [*Z[:i], Z[k], *Z[i:]]
            assert first_fault(changed, c) == literal_fault(changed, c)


def first_fault(Z: list[TraceStep], c: Configuration) -> tuple[int, str, str] | None:
    run = Stepwise(c)
    for i, z in enumerate(Z):
        if wrong := run.take(z):
            return (i, *wrong)
    return None


def literal_fault(Z: list[TraceStep], c: Configuration) -> tuple[int, str, str] | None:
    try:
        apply_trace(Z, c)
    except InvalidTrace as error:
        return error.fault.at, error.fault.kind, error.fault.reason
    return None


RUN = """
    a: i -> m      sum
    b: m, j -> o   sum
    i: 1 2 | 3 |
    j: 10 | |
"""


@pytest.mark.parametrize(
    ("steps", "kind", "reason"),
    [
        ("z!", "task", "there is no task 'z': there are a, b"),
        ("^", "recover", "F-RECOVER, but no task has failed"),
        ("a! a[i:0,m:0]-i@1=1+m@1=1", "failed", "a has failed and was not recovered, so it cannot take I-EVENT"),
        ("a[i:0,m:0]+m@1=1-i@1=1", "shape", "I-EVENT of a must consume first and produce then"),
        ("a[i:0,m:0]", "shape", "I-EVENT of a must consume first and produce then"),
        ("a[i:0,m:0]-j@1=10", "shape", "I-EVENT of a consumes from stream 'j', which is not its own"),
        ("a[i:0,m:0]-i@1=1+o@1=1", "shape", "I-EVENT of a produces to stream 'o', which is not its own"),
        ("a[i:0,m:0]-i@1=1+m@1|", "shape", "I-EVENT of a must consume one event and produce only events"),
        (
            "b|[m:0,j:0,o:0]-j@1|+o@1|",
            "alignment",
            "I-BORDER of b takes a border not from m: it must take one from every input at once",
        ),
        (
            "b|[m:0,j:0,o:0]-j@1|-m@1|+o@1|",
            "alignment",
            "I-BORDER of b takes a border not from each input once, in the order of the inputs: it must take one from "
            "every input at once",
        ),
        ("a|[i:0,m:0]-i@1=1+m@1|", "shape", "I-BORDER of a must consume borders and produce one border"),
        ("a[i:0,m:0]-i@1=1+m@2=1", "epoch", "I-EVENT of a has actions of several epochs: [1, 2]"),
        (
            "a[i:1,m:0]-i@1=2+m@1=2",
            "numbers",
            "I-EVENT of a is at number 1 of stream 'i', but the task is at 0: an earlier step of this task is missing",
        ),
        (
            "a a[i:0,m:0]-i@1=1+m@1=1",
            "numbers",
            "I-EVENT of a is at number 0 of stream 'i', but the task is at 1: this step was taken before, or steps "
            "changed places",
        ),
        ("a[i:0]-i@1=1", "numbers", "I-EVENT of a has no number for stream 'm'"),
        (
            "a[i:0,m:0]-i@2=1+m@2=1",
            "epoch",
            "I-EVENT of a is of epoch 2, but the task is in epoch 1: the border of epoch 1 was not taken",
        ),
        (
            "a a a| a|[i:3,m:3]-i@1|+m@1|",
            "epoch",
            "I-BORDER of a is of epoch 1, but the task is in epoch 2: epoch 1 is closed already",
        ),
        ("b[m:0,j:0,o:0]-m@1=1+o@1=1", "unsent", "b consumes message 0 m ⟨1, EV(1)⟩, which nobody has sent before"),
        (
            "a b[m:0,j:0,o:0]-m@1=2+o@1=2",
            "altered",
            "b consumes message 0 m ⟨1, EV(2)⟩, but what was sent is ⟨1, EV(1)⟩",
        ),
        ("a|[i:0,m:0]-i@1|+m@1|", "altered", "a consumes message 0 i ⟨1, BD⟩, but what was sent is ⟨1, EV(1)⟩"),
        (
            "a[i:0,m:0]-i@1=1+m@1=5",
            "outputs",
            "a produces [EV(5)] from EV(1), but its function gives [EV(1)]: the trace was altered, or the function is "
            "not deterministic",
        ),
    ],
)
def test_why_a_step_cannot_be_taken(steps: str, kind: str, reason: str) -> None:
    c, _ = read_run(RUN)
    Z = read(steps, c)
    with pytest.raises(InvalidTrace) as caught:
        apply_trace(Z, c)
    assert isinstance(caught.value, DataError)
    fault = caught.value.fault
    assert (fault.at, fault.kind, fault.reason) == (len(Z) - 1, kind, reason)
    assert str(caught.value) == f"step {len(Z) - 1}: {reason}"
    assert first_fault(Z, c) == (len(Z) - 1, kind, reason)


@pytest.mark.seeded
def test_random_traces_are_valid_and_do_fail() -> None:
    kinds = set()
    for seed in seeds(30):
        c, Z = random_run(seed)
        assert is_valid(Z, c)
        kinds |= {type(z).__name__ for z in Z}
    assert HUNT or kinds == {"IEvent", "IBorder", "FFail", "FRecover"}
    c, _ = read_run(RUN)
    whole = random_trace(c, random.Random(0), fail=0)
    assert len(whole) == 3 + 2 + 4 + 2
    assert sum(len([x for x in z.X if isinstance(x, Produce)]) for z in whole if isinstance(z, IEvent)) == 7
