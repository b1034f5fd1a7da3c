"""``check.failures``: may the user of this pipeline forget that it can crash?

It builds the system (`system`, `rules`, `sinks`; or `microbatch`), searches it (`explore`, reduced; `literal` for
micro-batches), and answers with a verdict.  A "no" is made as short as possible by a second search in which nothing is
reduced, then replayed on the literal rules and judged there once more before it is told.  A search looks at one input
and so many crashes, so where it finds nothing the answer is *bounded*; and *unknown* where a task is no function
(`calls`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from pellucid.errors import UsageError
from pellucid.failures.checker.arguments import GivenArguments
from pellucid.failures.checker.calls import Calls, MayDiffer
from pellucid.failures.checker.given import configuration_of
from pellucid.failures.checker.microbatch import MicroBatch, batch_variant
from pellucid.failures.checker.rules import NotReplayable, Rules
from pellucid.failures.checker.search.explore import Explored, explore, labels_to
from pellucid.failures.checker.search.literal import judge, search
from pellucid.failures.checker.search.liveness import check_monotone, fair_cycle
from pellucid.failures.checker.sinks import SINKS, Observation, Own
from pellucid.failures.checker.story import FaultyExecution, differs, told
from pellucid.failures.checker.system import CrashSystem
from pellucid.failures.checker.unaligned import UnalignedRules
from pellucid.failures.checker.variants import variant as rules_of
from pellucid.failures.model import EV, Configuration
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Budget, CutShort, Machine, Status, Verdict, follow
from pellucid.internal.model.stopping import stopping

S = TypeVar("S", CrashSystem, MicroBatch)


def failures(
    p: Any,
    *,
    epochs: int | None = None,
    events: int | None = None,
    crashes: int = 2,
    sink: str | Observation | None = None,
    source: str = "replayable",
    protocol: str = "aligned",
    observe: Callable[[Configuration], Hashable] | None = None,
    inputs: Any = None,
    variant: str | Rules | None = None,
    fuse: bool | Mapping[str, Sequence[str]] = False,
    timeout: float | None = 60.0,
    max_states: int = 2_000_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Verdict:
    """Whether crashes cannot be told from the outside (Definition 5.10), and all output comes at last (Theorem 6.10).

    ``p`` is a pipeline, or a bare graph of tasks as an initial configuration (`pellucid.failures.model.initial`).
    Every interleaving of its tasks is tried, with up to ``crashes`` crashes anywhere, on one input of ``epochs`` epochs
    of ``events`` events each (2 and 2, made up, unless ``inputs`` gives them: a list of epochs, by name if there are
    several sources).  So where nothing is found the answer is *bounded* by that, and never *proved*.

    ``sink`` is ``transactional`` (the default), ``idempotent``, ``append`` or an `Observation` of one's own; ``source``
    is ``replayable`` or ``not-replayable``; ``protocol`` is ``aligned`` (the paper), ``unaligned`` or ``microbatch``
    (Spark).  ``observe`` is an observability function of one's own, from a `Configuration` to a value; it must be
    monotone.  ``variant`` names rules with a mistake in them (`pellucid.failures.checker.variants`), ``fuse`` puts
    steps together into one task.

    >>> from pellucid import check, pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    >>> print(check.failures(total))
    bounded  crashes cannot be seen (aligned, transactional sink, replayable source): nothing found in an input of 2
    epochs of 2 events each (made up), with at most 2 crashes  (explicit, interleavings, ...)
      not proved: what is beyond this bound was not looked at
    >>> print(check.failures(total, sink="append", epochs=1, events=1).counterexample)
    1  sum takes 1 from x and gives 1 to sum
         seen: sum: 1
    2  sum crashes
    3  all recover (greatest common epoch: 0)
    4  sum takes 1 from x and gives 1 to sum
         seen: sum: 1, 1
    no failure-free execution shows this: sum: 1, 1; the nearest that one shows is: sum: 1
    """
    given = GivenArguments(
        p,
        epochs,
        events,
        crashes,
        sink,
        source,
        protocol,
        observe,
        inputs,
        variant,
        fuse,
        timeout,
        max_states,
        progress,
    )
    observation = given.observation()
    c, sinks = configuration_of(p, given.many_epochs, given.many_events, inputs, fuse)
    budget = Budget(timeout, max_states, progress)
    shown = f"seen through {observation.name}" if observe is not None else f"{observation.name} sink"
    mistake = "" if variant is None else f", variant {variant.name if isinstance(variant, Rules) else variant}"
    how = f"{protocol}{mistake}, {shown}, {source} source"
    bound = f"{_size(c)}{'' if inputs is not None or isinstance(p, Configuration) else ' (made up)'}, with "
    bound += f"at most {_count(crashes, 'crash', 'crashes')}" if crashes else "no crash"
    asked = _Asked(
        f"crashes cannot be seen ({how})", bound, budget, time.perf_counter(), getattr(p, "graph", p), given.said()
    )
    if protocol == "microbatch":
        query = (batch_variant(variant) if isinstance(variant, str) else MicroBatch)(
            c,
            sink=given.batch_sink(observation),
            crashes=crashes,
            replayable=source == "replayable",
            sinks=tuple(sinks),
        )
        return asked.answer(query, partial(_microbatch, observation=observation))
    rules = variant if isinstance(variant, Rules) else rules_of(variant) if variant is not None else given.rules()
    if variant is not None and isinstance(rules, UnalignedRules) != (protocol == "unaligned"):
        raise UsageError(
            f"variant={rules.name!r} is no variant of the protocol {protocol!r}: leave one of them out, or take another"
        )
    if source == "not-replayable":
        rules = NotReplayable(rules)
    return asked.answer(CrashSystem(c, crashes=crashes, rules=rules, observation=observation, sinks=sinks), _decide)


# ---------------------------------------------------------------- what was asked


@dataclass
class _Asked:
    """The question, and how its verdicts are made."""

    question: str
    bound: str
    budget: Budget
    started: float
    graph: Any
    said: dict[str, Any]
    states: int = 0
    transitions: int = 0
    free: int = 0

    def saw(self, found: Any) -> None:
        """Count what a search saw."""
        self.states, self.transitions, self.free = found.states, found.transitions, found.failure_free

    def answer(self, system: S, decide: Callable[[_Asked, S], Verdict]) -> Verdict:
        """What is decided, unless time is up, or a task turns out to be no function."""
        try:
            with self.budget.kept(), stopping(self.budget.timeout):
                verdict: Verdict = decide(self, system)
                system.calls.ask_again()
        except (MayDiffer, CutShort) as why:
            return self.verdict("unknown", notes=(str(why),))
        return _assuming(verdict, system.calls)

    def verdict(
        self, status: Status, example: FaultyExecution | None = None, notes: tuple[str, ...] = (), **details: Any
    ) -> Verdict:
        seconds = time.perf_counter() - self.started
        counted = {"states": self.states, "transitions": self.transitions, "failure_free_states": self.free}
        engine = "explicit, interleavings"
        bound = self.bound if status == "bounded" else ""
        return Verdict(status, self.question, engine, seconds, example, notes, {**counted, **details}, bound=bound)

    def example(
        self, machine: Machine, labels: Sequence[Any], observation: Observation, why: str, loop: int | None = None,
        *, start: Configuration | None = None, live: bool = True,
    ) -> FaultyExecution:  # fmt: skip
        """A faulty execution, told as the literal rules see it."""
        lines, seen, _ = told(machine, labels, observation)
        about = (self.graph,) if isinstance(self.graph, Graph) else ()
        kind = "not explained" if live else "not live"
        return FaultyExecution(
            about, tuple(labels), loop, why, start, (*lines, why), tuple(seen), kind,
            lambda steps: told(machine, steps, observation), self.said,
        )  # fmt: skip


def _assuming(verdict: Verdict, calls: Any) -> Verdict:
    """A verdict with what it assumes of the functions that were called, in its first line."""
    if verdict.unknown:
        return verdict
    assumed = f", assuming {'; '.join(calls.assumptions)}" if calls.assumptions else ""
    never = _never(calls) if verdict.bounded else ()
    return replace(verdict, question=verdict.question + assumed, notes=(*verdict.notes, *never))


# ---------------------------------------------------------------- tasks that exchange messages


def _decide(asked: _Asked, system: CrashSystem) -> Verdict:
    if isinstance(system.observation, Own):
        check_monotone(system, asked.budget)
    found = explore(system, asked.budget)
    asked.saw(found)
    if found.unexplained is not None:
        short = explore(system, asked.budget, reduce=False, reduce_free=True)
        best, note = (
            (short, ()) if short.unexplained is not None else (found, ("there may be a shorter one: " + short.why,))
        )
        example = _unexplained(asked, system, best)
        return asked.verdict("refuted", example, note, explained=False)
    if found.why:
        return asked.verdict("unknown", notes=(found.why,))
    if found.dead_end is not None:
        short = explore(system, asked.budget, reduce=False, reduce_free=True)
        best = short if short.dead_end is not None else found
        return asked.verdict("refuted", _dead_end(asked, system, best), explained=True, live=False)
    if not system.rules.paper_recovery:
        stuck = fair_cycle(system, asked.budget)
        if stuck is not None:
            return asked.verdict("refuted", _cycle(asked, system, *stuck), explained=True, live=False)
    return asked.verdict("bounded", explained=True, live=True)


def _unexplained(asked: _Asked, system: CrashSystem, found: Explored) -> FaultyExecution:
    assert found.unexplained is not None
    labels = labels_to(found, found.unexplained)
    try:
        judged = judge(system, labels, Budget(30.0, 100_000))
    except CutShort:  # too many failure-free executions to list literally; the trace itself is still replayed
        last = system.see(follow(system, labels)[-1])
        why = f"no failure-free execution shows this: {system.observation.tell(last)}"
    else:
        if judged.empty_at != len(labels) - 1:
            raise AssertionError(f"the literal rules explain what the search could not: {[str(z) for z in labels]}")
        why = differs(judged, system.observation)
    return asked.example(system, labels, system.observation, why, start=system.c)


def _dead_end(asked: _Asked, system: CrashSystem, found: Explored) -> FaultyExecution:
    assert found.dead_end is not None
    labels = labels_to(found, found.dead_end)
    reached, behind = _reached(system, labels)
    why = (
        f"nothing can be done any more, and epoch {reached + 1} never appears in the output: "
        f"{', '.join(behind)} {'waits' if len(behind) == 1 else 'wait'} for ever"
    )
    return asked.example(system, labels, system.observation, why, start=system.c, live=False)


def _cycle(asked: _Asked, system: CrashSystem, way: list[Any], loop: list[Any]) -> FaultyExecution:
    labels = [*way, *loop]
    why = (
        f"from step {len(way) + 1} on this repeats for ever, fairly, and epoch {_reached(system, labels)[0] + 1} never "
        "appears in the output"
    )
    return asked.example(system, labels, system.observation, why, len(way), start=system.c, live=False)


def _reached(system: CrashSystem, labels: Sequence[Any]) -> tuple[int, list[str]]:
    """The last epoch that all tasks have, and who is not beyond it."""
    tasks = follow(system, labels)[-1].c.Sigma
    reached = min(max(state.archive) for state in tasks.values())
    return reached, [p for p, state in tasks.items() if max(state.archive) == reached]


# ---------------------------------------------------------------- micro-batches


def _microbatch(asked: _Asked, query: MicroBatch, observation: Observation) -> Verdict:
    found = search(query, asked.budget)
    asked.saw(found)
    labels = found.unexplained or found.dead_end
    if labels is None:
        if found.why:
            return asked.verdict("unknown", notes=(found.why,))
        return asked.verdict("bounded", explained=True, live=True)
    shows = _Shown(observation)
    if found.unexplained is not None:
        judged = judge(query, labels, Budget())
        assert judged.empty_at == len(labels) - 1
        why = differs(judged, shows)
    else:
        why = "the query has nothing more to do, and not all of its input is in the sink"
    example = asked.example(query, labels, shows, why, live=found.unexplained is not None)
    return asked.verdict("refuted", example, explained=found.unexplained is None, live=found.dead_end is None)


class _Shown(Observation):
    """What the sink of a query holds, in words."""

    def __init__(self, sink: Observation) -> None:
        self.sink = SINKS["append"]() if type(sink) is SINKS["transactional"] else sink

    def tell(self, seen: Any) -> str:
        return self.sink.tell(seen)


def _size(c: Configuration) -> str:
    """How much input there is, in words."""
    sizes: dict[tuple[str, int], int] = {}
    for m in c.D:
        sizes[m.s, m.e] = sizes.get((m.s, m.e), 0) + isinstance(m.d, EV)
    epochs = _count(max((e for _, e in sizes), default=0), "epoch")
    one_each = len(set(sizes.values())) == 1
    many = (
        f" of {_count(sizes.popitem()[1], 'event')} each" if one_each else f", {_count(sum(sizes.values()), 'event')}"
    )
    return f"an input of {epochs}{many}"


def _never(calls: Calls) -> tuple[str, ...]:
    """What could not be seen because it never happened."""
    if not calls.silent:
        return ()
    verb = "puts" if len(calls.silent) == 1 else "put"
    return (
        f"{', '.join(calls.silent)} {verb} out nothing for this input, so nothing was tried of what would follow: "
        "inputs= gives another",
    )


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
