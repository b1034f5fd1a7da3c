"""Traces: application, validity, the causal order and Lemma 6.5."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pellucid.failures.model.explain as explain_module
from pellucid.errors import DataError, UsageError
from pellucid.failures.model import (
    EV,
    Configuration,
    Consume,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Map,
    Message,
    Normal,
    Produce,
    State,
    Task,
    TraceStep,
    initial,
    lcs,
    out,
    steps,
)
from pellucid.failures.model.explain import (
    CausalOrder,
    Explanation,
    InvalidTrace,
    NotExplained,
    Stepwise,
    apply_trace,
    explain,
)
from pellucid.failures.model.notation import read, read_run, write
from tests.failures.graphs import is_valid, random_graph, random_run, random_trace, shuffled
from tests.seeds import HUNT, seeds

# ruff: noqa: N803, N806 - the paper's letters


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
        ("b[m:0,j:0,o:0]-m@1=1+o@1=1", "unsent", "b consumes message 0 m ⟨1, EV(1)⟩, which was not sent before"),
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


# The construction of Theorem 6.9 on random faulty traces, tampered ones, and traces of broken protocols.

# ruff: noqa: N803, N806 - the paper's letters


Observation = frozenset[Message]


def searched(c: Configuration, observations: list[Observation]) -> bool:
    """Whether some failure-free execution from c shows all of these, in this order: by trying all."""
    wanted = [o for i, o in enumerate(observations) if i == 0 or observations[i - 1] != o]
    stack, seen = [(c, 0)], set()
    while stack:
        at, k = stack.pop()
        while k < len(wanted) and out(at) == wanted[k]:
            k += 1
        if k == len(wanted):
            return True
        if (at, k) not in seen:
            seen.add((at, k))
            stack += [(after, k) for _, after in steps(at, failures=False)]
    return False


def explained(Z: list[TraceStep], c: Configuration, *, literally: bool = False) -> Explanation:
    found = explain(Z, c, literally=literally)
    assert isinstance(found, Explanation), found
    return found


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(8))
def test_every_faulty_trace_is_explained(block: int) -> None:
    """Linear and literal checks agree; the explanation is failure-free, valid, and shows the same at every point."""
    for seed in seeds(60, block * 60):
        c, Z = random_run(seed, length=50)
        found = explained(Z, c, literally=seed % 3 == 0)
        assert not any(isinstance(z, FFail | FRecover) for z in found.explaining)
        faulty, ideal = apply_trace(Z, c), apply_trace(found.explaining, c)
        assert len(found.mapping) == len(faulty)
        assert all(out(faulty[m]) == out(ideal[h]) for m, h in enumerate(found.mapping))
        assert list(found.mapping) == sorted(found.mapping)
        assert ideal[-1] == lcs(faulty[-1])


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(4))
def test_the_explainer_and_the_search_agree(block: int) -> None:
    for seed in seeds(150, block * 150):
        c, Z = random_run(seed, most_tasks=2, most_events=1, most_epochs=2, length=24)
        assert explain(Z, c)
        assert searched(c, [out(at) for at in apply_trace(Z, c)])


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("block", range(8))
def test_the_explainer_and_the_search_agree_on_thousands(block: int) -> None:
    for seed in seeds(1000, 10_000 + block * 1000):
        c, Z = random_run(seed, most_tasks=3, most_events=1, most_epochs=2, length=40)
        assert explain(Z, c, literally=seed % 5 == 0)
        assert searched(c, [out(at) for at in apply_trace(Z, c)])


# ---------------------------------------------------------------- tampered traces


def moved(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    i, k = rng.randrange(len(Z)), rng.randrange(len(Z))
    rest = [*Z[:i], *Z[i + 1 :]]
    return [*rest[:k], Z[i], *rest[k:]]


def dropped(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    i = rng.randrange(len(Z))
    return [*Z[:i], *Z[i + 1 :]]


def doubled(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    i = rng.randrange(len(Z))
    return [*Z[: i + 1], *Z[i:]]


def altered(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    """A message's value is changed where it is consumed or produced."""
    places = [(i, k) for i, z in enumerate(Z) if isinstance(z, IEvent) for k in range(len(z.X))]
    if not places:
        return Z
    i, k = rng.choice(places)
    z = Z[i]
    assert isinstance(z, IEvent)
    x = z.X[k]
    assert isinstance(x.d, EV)
    return [*Z[:i], replace(z, X=(*z.X[:k], replace(x, d=EV(x.d.w + 1)), *z.X[k + 1 :])), *Z[i + 1 :]]


def skipped(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    """A step claims to be of the next epoch."""
    places = [i for i, z in enumerate(Z) if isinstance(z, IEvent | IBorder)]
    if not places:
        return Z
    i = rng.choice(places)
    z = Z[i]
    assert isinstance(z, IEvent | IBorder)
    return [*Z[:i], replace(z, X=tuple(replace(x, e=x.e + 1) for x in z.X)), *Z[i + 1 :]]


def unclosed(rng: random.Random, Z: list[TraceStep]) -> list[TraceStep]:
    """A task's border is gone."""
    places = [i for i, z in enumerate(Z) if isinstance(z, IBorder)]
    gone = rng.choice(places) if places else None
    return [z for i, z in enumerate(Z) if i != gone]


TAMPERED: list[tuple[Callable[[random.Random, list[TraceStep]], list[TraceStep]], set[str]]] = [
    (moved, {"numbers", "unsent", "altered", "epoch", "failed", "recover", "outputs"}),
    (dropped, {"numbers", "unsent", "altered", "epoch", "failed", "recover", "outputs"}),
    (doubled, {"numbers", "recover"}),
    (altered, {"altered", "outputs"}),
    (skipped, {"epoch"}),
    (unclosed, {"numbers", "unsent", "altered", "epoch", "outputs"}),
]


@pytest.mark.seeded
@pytest.mark.parametrize(("tamper", "kinds"), TAMPERED, ids=[t.__name__ for t, _ in TAMPERED])
def test_tampered_traces_are_rejected_for_the_right_reason(
    tamper: Callable[[random.Random, list[TraceStep]], list[TraceStep]], kinds: set[str]
) -> None:
    rejected = 0
    for seed in seeds(150):
        rng = random.Random(seed)
        c, Z = random_run(seed, length=40)
        if not Z:
            continue
        changed = tamper(rng, Z)
        found = explain(changed, c)
        assert bool(found) == is_valid(
            changed, c
        )  # some changes are harmless: causally unrelated steps may change places
        if changed == Z or tamper in (altered, skipped):
            assert bool(found) == (changed == Z)
        if isinstance(found, NotExplained):
            rejected += 1
            assert found.kind in kinds, found
            first = next(i for i, (a, b) in enumerate(zip(changed, [*Z, None], strict=False)) if a != b)
            assert found.at >= first
            assert is_valid(changed[: found.at], c) and not is_valid(changed[: found.at + 1], c)
            assert str(found) == f"not explained: step {found.at}: {found.reason}"
    assert HUNT or rejected > 60


# ---------------------------------------------------------------- broken protocols


def not_purged(c: Configuration) -> Configuration:
    return replace(lcs(c), M=c.M)


def not_reset(c: Configuration) -> Configuration:
    return replace(lcs(c), N=c.N)


def one_left_out(c: Configuration) -> Configuration:
    p = next(iter(c.Pi))
    back = lcs(c)
    state = c.Sigma[p] if isinstance(c.Sigma[p].volatile, Normal) else back.Sigma[p]
    return replace(back, Sigma=back.Sigma.updated({p: state}))


def not_common(c: Configuration) -> Configuration:
    """Each task goes back to its own latest snapshot."""
    states = {p: State(s.archive, Normal(max(s.archive) + 1, s.archive[max(s.archive)])) for p, s in c.Sigma.items()}
    return replace(lcs(c), Sigma=Map(states))


@pytest.mark.seeded
@pytest.mark.parametrize("broken", [not_purged, not_reset, one_left_out, not_common])
def test_what_the_search_cannot_explain_the_explainer_does_not_explain(
    broken: Callable[[Configuration], Configuration],
) -> None:
    """Executions of a broken recovery: the explainer never accepts what has no failure-free execution."""
    rejected = unexplainable = 0
    for seed in seeds(150):
        rng = random.Random(seed)
        c = at = random_graph(rng, most_tasks=2, most_events=2, most_epochs=2)
        Z: list[TraceStep] = []
        seen = [out(c)]
        crashes = 1
        while len(Z) < 30:
            enabled = [(z, d) for z, d in steps(at) if not isinstance(z, FFail) or (crashes and rng.random() < 0.3)]
            enabled = [(z, broken(at) if isinstance(z, FRecover) else d) for z, d in enabled]
            if not enabled:
                break
            z, at = rng.choice(enabled)
            crashes -= isinstance(z, FFail)
            Z.append(z)
            seen.append(out(at))
        fine = searched(c, seen)
        found = explain(Z, c, observed=seen)
        assert fine or not found
        unexplainable += not fine
        rejected += not found
    assert HUNT or (rejected >= 8 and unexplainable >= 3)


@pytest.mark.parametrize("broken", [not_purged, not_reset, one_left_out, not_common])
def test_each_literal_check_can_fail(
    broken: Callable[[Configuration], Configuration], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another latest common snapshot the proof's third step does not hold, and the check says so."""
    monkeypatch.setattr(explain_module, "lcs", broken)
    failed = [found for seed in range(80) if not (found := explain(*reversed(random_run(seed)), literally=True))]
    assert failed
    assert {found.kind for found in failed if isinstance(found, NotExplained)} == {"construction"}
    assert any("does not end in the latest common snapshot" in str(found) for found in failed)


def test_the_linear_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    original = explain_module._generation

    def one_too_few(
        Z: tuple[TraceStep, ...], start: int, stop: int, recovered: bool, epoch: int
    ) -> explain_module.ExplainedGeneration:
        g = original(Z, start, stop, recovered, epoch)
        return replace(g, kept=g.kept[:-1], discarded=(*g.kept[-1:], *g.discarded))

    def one_too_many(
        Z: tuple[TraceStep, ...], start: int, stop: int, recovered: bool, epoch: int
    ) -> explain_module.ExplainedGeneration:
        g = original(Z, start, stop, recovered, epoch)
        more = [i for i in g.discarded if not isinstance(Z[i], FFail)][:1]
        return replace(g, kept=(*g.kept, *more), discarded=tuple(i for i in g.discarded if i not in more))

    for wrong in (one_too_few, one_too_many):
        monkeypatch.setattr(explain_module, "_generation", wrong)
        reasons = [str(found) for seed in range(60) if not (found := explain(*reversed(random_run(seed))))]
        assert reasons and not any("was not sent" in r and "without failures" not in r for r in reasons)


# ---------------------------------------------------------------- shapes at the edges


RUN_EXPLAIN = "a: i -> m  sum\nb: m -> o  sum\ni: 1 2 | 3 |"


def test_an_empty_trace_is_explained_by_itself() -> None:
    c, _ = read_run(RUN_EXPLAIN)
    found = explained([], c, literally=True)
    assert found.explaining == () and found.mapping == (0,) and len(found.generations) == 1


def test_the_last_generation_is_stripped_as_printed_even_if_nothing_failed() -> None:
    c, Z = read_run(RUN_EXPLAIN + "\na a a| b")
    found = explained(Z, c, literally=True)
    assert found.explaining == () and found.generations[0].discarded == (0, 1, 2, 3)


def test_a_recovery_at_the_end_leaves_an_empty_generation() -> None:
    c, Z = read_run(RUN_EXPLAIN + "\na a a| b b b| a b! ^")
    found = explained(Z, c, literally=True)
    assert write(found.explaining, c) == "a a a| b b b|"
    assert [(g.start, g.stop, g.kept, g.discarded) for g in found.generations] == [
        (0, 8, (0, 1, 2, 3, 4, 5), (6, 7)),
        (9, 9, (), ()),
    ]
    assert found.commits == (5,) and found.mapping == (0,) * 6 + (6,) * 4


def test_steps_of_the_next_epoch_are_moved_over_commits() -> None:
    """a runs ahead into epoch 2 before b commits epoch 1; then a fails."""
    c, Z = read_run(RUN_EXPLAIN + "\na a a| a b b b| a! ^ a b")
    found = explained(Z, c, literally=True)
    assert write(found.explaining, c) == "a a a| b b b|"
    order = CausalOrder(Z[:9])
    assert order.keeps(found.generations[0].reordered)


def test_what_was_seen_must_be_what_the_explanation_shows() -> None:
    c, Z = read_run(RUN_EXPLAIN + "\na a a| b b b| a b! ^")
    seen = [out(at) for at in apply_trace(Z, c)]
    assert explain(Z, c, observed=seen)
    early = [*seen[:2], frozenset({Message(0, "o", 1, EV(1))}), *seen[3:]]
    assert str(explain(Z, c, observed=early)) == (
        "not explained: step 1: after it the output shows 0 o ⟨1, EV(1)⟩, which the explanation does not show there"
    )
    lost = [*seen[:-1], seen[-1] - {Message(1, "o", 1, EV(4))}]
    assert str(explain(Z, c, observed=lost)) == (
        "not explained: step 8: after it the output does not show 1 o ⟨1, EV(4)⟩, which the explanation shows there"
    )
    with pytest.raises(
        UsageError, match="10 observations are needed for 9 steps, one before each and one after the last; found 1"
    ):
        explain(Z, c, observed=seen[:1])


def test_a_function_that_is_not_deterministic_is_found() -> None:
    ticks = iter(range(100))
    c = initial({"t": Task(lambda v, w: (v, [next(ticks)]), ("i",), "o")}, {"i": [[5], []]}, {"t": 0})
    z, after = steps(c)[0]
    border = next(z for z, _ in steps(after) if isinstance(z, IBorder))
    found = explain([z, border], c)
    assert isinstance(found, NotExplained) and found.kind == "outputs"
    assert found.reason.endswith("the trace was altered, or the function is not deterministic")
