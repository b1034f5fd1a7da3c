# ruff: noqa: N803, N806 - the paper's letters
"""The explanation of a faulty trace: the four steps of the proof of Theorem 6.9, carried out and checked.

Given a trace Z valid from c, there is a failure-free trace Z' from c that shows the same:

1. *split* Z at its recoveries into generations;
2. *reorder* each generation: first the steps of epochs up to the greatest common epoch e at its end, then the others;
3. *discard* the others, the failures and the recovery;
4. *concatenate* what is left.

Every configuration of Z maps to the one after the closest committing border before it (a border that raises the
greatest common epoch), wherever that step now stands in Z'; before the first commit, to the first configuration.

It takes time linear in the trace.  Z and Z' are replayed side by side (`stepwise`): each step must be valid where it
stands, each commit must commit the same epoch in both, and after each generation what Z' has reached must be the latest
common snapshot of what Z had reached.  ``literally=True`` checks each of the four steps on whole configurations with
the definitions of `model` instead.  Where a step fails, `NotExplained` says at which step of Z and why.

What does not work as printed: ``epoch(x)`` is not defined for F-FAIL and F-RECOVER (here: such steps are always
discarded); ``gce(g_{|g|-1})`` takes a step where it needs a configuration, and an empty generation has none (here: the
generation's last configuration, which is its first if it is empty); the last generation may end without a recovery and
without a failure, and then the filter throws away its steps after the last commit although nothing failed (here as
printed: nothing of them can be observed).  Definition 5.2 asks for C_{i-1} at i = 0.  Observations are those of
``out``, which also shows the input streams up to the greatest common epoch; so the message that Theorem 6.10 finds in
the output may be the input message itself.  Lemma 5.7 (an explanation can always be made monotone) needs one partial
order for both observability functions: with a ⊑ b on one side and b ⊑ a on the other it is false; here both are ``out``
with ⊆.

>>> from pellucid.failures.model import Task, initial
>>> from pellucid.failures.model.notation import read
>>> c = initial({"t": Task(lambda v, w: (v + w, [v + w]), ("i",), "o")}, {"i": [[1], [2, 3]]}, {"t": 0})
>>> found = explain(read("t t| t t t! ^ t t t|", c), c)
>>> print(found)
explained: 5 of 9 steps remain, in 2 generations
generation 0: steps 0-5, recovery to epoch 1 by step 5; 2 kept, discarded: 2 (I-EVENT t of epoch 2), 3 (I-EVENT t of
epoch 2), 4 (F-FAIL t)
generation 1: steps 6-8, ends after epoch 2; 3 kept, discarded: none
>>> found.steps, found.mapping
((0, 1, 6, 7, 8), (0, 0, 2, 2, 2, 2, 2, 2, 2, 5))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.errors import UsageError
from pellucid.failures.model import RULE, Configuration, FFail, FRecover, IBorder, Messages, TraceStep, gce, lcs, out
from pellucid.failures.model.stepwise import Stepwise
from pellucid.failures.model.trace import CausalOrder, InvalidTrace, Trace, apply_trace


@dataclass(frozen=True)
class ExplainedGeneration:
    """The steps between two recoveries, by their positions in the trace."""

    start: int
    stop: int  # the recovery's position, or the trace's length
    recovered: bool  # whether a recovery ends it
    epoch: int  # the greatest common epoch at its end
    kept: tuple[int, ...]
    discarded: tuple[int, ...]

    @property
    def reordered(self) -> tuple[int, ...]:
        """The steps after the reordering: those that are kept, those that are not, the recovery."""
        return (*self.kept, *self.discarded, *([self.stop] if self.recovered else []))


@dataclass(frozen=True)
class Explanation:
    """A failure-free trace that explains a faulty one; true, as `NotExplained` is false."""

    trace: tuple[TraceStep, ...]
    start: Configuration
    generations: tuple[ExplainedGeneration, ...]
    commits: tuple[int, ...]  # the committing border steps: that of epoch 1, of epoch 2, …
    mapping: tuple[int, ...]  # for each configuration of the trace, the one of the explanation that shows the same

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the explanation, by their positions in the trace."""
        return tuple(i for g in self.generations for i in g.kept)

    @property
    def explaining(self) -> tuple[TraceStep, ...]:
        """Z', the failure-free trace."""
        return tuple(self.trace[i] for i in self.steps)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        kept = sum(len(g.kept) for g in self.generations)
        lines = [f"explained: {kept:,} of {len(self.trace):,} steps remain, in {len(self.generations):,} generations"]
        for k, g in enumerate(self.generations):
            end = f"recovery to epoch {g.epoch} by step {g.stop}" if g.recovered else f"ends after epoch {g.epoch}"
            last = g.stop if g.recovered else g.stop - 1
            span = f"steps {g.start}-{last}" if last >= g.start else "no steps"
            lines.append(f"generation {k}: {span}, {end}; {len(g.kept):,} kept, discarded: {self._names(g.discarded)}")
        return "\n".join(lines)

    def _names(self, steps: Sequence[int], most: int = 5) -> str:
        if not steps:
            return "none"
        named = [f"{i} ({_short(self.trace[i])})" for i in steps[:most]]
        rest = len(steps) - most
        return ", ".join(named) + (f" and {rest:,} more" if rest > 0 else "")


@dataclass(frozen=True)
class NotExplained:
    """Why a trace has no explanation: the first step that cannot be explained, what kind of fault, and why, in words.

    Kinds are those of `pellucid.failures.model.trace.TraceFault`; ``observation`` where something else was seen than
    the explanation shows; and ``construction`` where all steps are valid and yet one of the four steps of the proof
    does not do what the theorem says.
    """

    at: int
    kind: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"not explained: step {self.at}: {self.reason}"


def explain(
    Z: Trace, c: Configuration, *, observed: Sequence[Messages] | None = None, literally: bool = False
) -> Explanation | NotExplained:
    """The explanation of a trace from a valid initial configuration, checked; or the first step that has none.

    ``observed``: what was seen of the output before each step and after the last, if something other than the rules
    made it (a real system, a broken protocol): then the explanation must show that, too.

    >>> from pellucid.failures.model import FFail, FRecover, Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> explain([FFail("t"), FRecover()], c).explaining
    ()
    >>> print(explain([FRecover()], c))
    not explained: step 0: F-RECOVER, but no task has failed
    """
    Z = tuple(Z)
    try:
        found = _construct(Z, c)
        if observed is not None:
            _check_observed(found, observed)
        if literally:
            _check_literally(found)
    except _Failed as failed:
        return failed.why
    return found


class _Failed(Exception):  # noqa: N818
    def __init__(self, at: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.why = NotExplained(at, kind, reason)


def _short(z: TraceStep) -> str:
    if isinstance(z, FFail | FRecover):
        return str(z)
    return f"{RULE[type(z)]} {z.p} of epoch {z.epoch}"


def _construct(Z: tuple[TraceStep, ...], c: Configuration) -> Explanation:
    """The construction, with the replay of both traces side by side."""
    faulty, ideal = Stepwise(c), Stepwise(c)
    generations: list[ExplainedGeneration] = []
    commits: list[int] = []
    recommitted: list[int] = []  # the same in the explanation
    new_place: dict[int, int] = {}  # where a step stands in the explanation
    start = shown = 0  # the generation's first step; the epoch that both had reached
    stops = [i for i, z in enumerate(Z) if isinstance(z, FRecover)]
    for stop in [*stops, len(Z)]:
        recovered = stop < len(Z)
        for i in range(start, stop):  # (1) the generation is valid from where the last one ended
            before = faulty.gce
            _take(faulty, Z[i], i, "")
            if faulty.gce != before:
                commits.append(i)
        if recovered and (wrong := faulty.take(Z[stop])):
            raise _Failed(stop, *wrong)
        generation = _generation(Z, start, stop, recovered, faulty.gce)  # (2)
        generations.append(generation)
        for i in generation.kept:  # (3), (4)
            before = ideal.gce
            new_place[i] = len(new_place)
            _take(ideal, Z[i], i, "without failures and discarded steps, ")
            if ideal.gce != before:
                recommitted.append(i)
        if commits != recommitted:
            i = next(iter(set(commits) ^ set(recommitted)))
            raise _Failed(i, "construction", "it commits an epoch in the trace only, or in the explanation only")
        faulty.recover()  # of a recovered configuration: itself
        if difference := faulty.differs(ideal, shown):
            raise _Failed(
                max(stop - 1, start),
                "construction",
                f"generation {len(generations) - 1} does not end in the latest common snapshot of the trace: "
                f"{difference}",
            )
        start, shown = stop + 1, faulty.gce
    return Explanation(Z, c, tuple(generations), tuple(commits), _mapping(len(Z), commits, new_place))


def _take(run: Stepwise, z: TraceStep, i: int, where: str) -> None:
    if wrong := run.take(z):
        raise _Failed(i, "construction" if where else wrong[0], where + wrong[1])


def _generation(Z: tuple[TraceStep, ...], start: int, stop: int, recovered: bool, epoch: int) -> ExplainedGeneration:
    """Step 2: the steps of epochs up to the common one before the others; failures are among the others."""
    kept: list[int] = []
    discarded: list[int] = []
    for i in range(start, stop):
        z = Z[i]
        keep = not isinstance(z, FFail | FRecover) and z.epoch <= epoch
        (kept if keep else discarded).append(i)
    return ExplainedGeneration(start, stop, recovered, epoch, tuple(kept), tuple(discarded))


def _mapping(n: int, commits: Sequence[int], new_place: dict[int, int]) -> tuple[int, ...]:
    """For each of the n + 1 configurations: the one after the closest commit before it."""
    mapping, committing, at = [0], set(commits), 0
    for i in range(n):
        at = new_place[i] + 1 if i in committing else at
        mapping.append(at)
    return tuple(mapping)


def _check_observed(found: Explanation, observed: Sequence[Messages]) -> None:
    """Whether what was seen is what the explanation shows, at each configuration."""
    n = len(found.trace)
    if len(observed) != n + 1:
        raise UsageError(
            f"{n + 1} observations are needed for {n} steps, one before each and one after the last; found "
            f"{len(observed)}"
        )
    ideal, shown, at = Stepwise(found.start), out(found.start), 0
    for m, seen in enumerate(observed):
        if found.mapping[m] != at:
            for z in found.explaining[at : found.mapping[m]]:
                ideal.take(z)
            at, shown = found.mapping[m], out(ideal.configuration())
        if seen != shown:
            extra = sorted(map(str, seen - shown))
            what = f"shows {extra[0]}" if extra else f"does not show {min(map(str, shown - seen))}"
            where = "which the explanation does not show there" if extra else "which the explanation shows there"
            raise _Failed(
                max(m - 1, 0), "observation", f"{'after it' if m else 'before it'} the output {what}, {where}"
            )


# ---------------------------------------------------------------- the same, on whole configurations


def _check_literally(found: Explanation) -> None:
    """Each of the four steps as the proof words it, with the definitions of the model; quadratic in the trace."""
    Z, c = found.trace, found.start
    C = _apply(Z, range(len(Z)), c)
    first = c
    for k, g in enumerate(found.generations):
        steps = range(g.start, g.stop + g.recovered)
        executed = _apply(Z, steps, first)  # (1) a contiguous part of a valid trace is valid
        last = executed[len(steps) - g.recovered]  # before the recovery
        if gce(last) != g.epoch:
            raise _Failed(g.start, "construction", f"generation {k} ends with epoch {gce(last)}, not {g.epoch}")
        moved = [i - g.start for i in g.reordered]  # (2) keeps the causal order, so it is valid and ends in the same
        if not CausalOrder([Z[i] for i in steps]).keeps(moved):
            raise _Failed(g.start, "construction", f"the reordering of generation {k} breaks the causal order")
        reordered = _apply(Z, g.reordered, first)
        if reordered[-1] != executed[-1]:
            raise _Failed(g.start, "construction", f"the reordering of generation {k} ends in another configuration")
        stripped = _apply(Z, g.kept, first)  # (3) a prefix; it ends in the latest common snapshot
        if stripped[-1] != lcs(last):
            raise _Failed(
                g.start, "construction", f"generation {k}, stripped, does not end in the latest common snapshot"
            )
        if g.recovered and executed[-1] != stripped[-1]:
            raise _Failed(
                g.stop, "construction", f"the recovery of generation {k} does not go to the latest common snapshot"
            )
        first = stripped[-1]
    explaining = _apply(Z, found.steps, c)  # (4)
    if any(a > b for a, b in zip(found.mapping, found.mapping[1:], strict=False)):
        raise _Failed(0, "construction", "the mapping of observations is not monotone")
    for m, at in enumerate(found.mapping):
        if out(C[m]) != out(explaining[at]):
            raise _Failed(
                max(m - 1, 0), "construction", f"configurations {m} and {at} of the explanation show different outputs"
            )
    for i in found.commits:
        if not isinstance(Z[i], IBorder) or gce(C[i]) == gce(C[i + 1]):
            raise _Failed(i, "construction", "it is no committing border step")


def _apply(Z: Sequence[TraceStep], chosen: Sequence[int], c: Configuration) -> list[Configuration]:
    """These steps, applied in this order."""
    try:
        return apply_trace([Z[i] for i in chosen], c)
    except InvalidTrace as error:
        raise _Failed(chosen[error.fault.at], error.fault.kind, error.fault.reason) from None
