"""Sequence equivalence: both pipelines put out the same sequence of events, whatever the delay between them.

Asked of every run in which each source brings events again and again.  Two halves: what is at the same place of the two
sequences is equal, and each output of one comes in the other in the end.  Tried in turn, from what is cheap to what
decides more:

1. **The same in every push**: then nothing ever waits.
2. **Bounded delay** (`pellucid.check.compare.race`): what one is ahead waits, at most so much, and is compared.  A
   difference refutes.  If nothing more ever waits, the other half is decided by a loop, or by a number of rounds within
   which one catches up (`pellucid.check.compare.waiting`).
3. **One falls silent for ever** while the other speaks again and again: refuted by a loop.
4. **Output by output** (`pellucid.check.compare.outputs`), where one runs ahead for ever; both must be proved to speak
   again and again.

What none of them decides is *unknown*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.belief.certify import distrust
from pellucid.check.belief.trial import budget, try_out
from pellucid.check.belief.violated import put_out
from pellucid.check.compare.outputs import proof_by_outputs
from pellucid.check.compare.race import Pair, Race, pair, race
from pellucid.check.compare.waiting import again_and_again, falls_silent, trapped, waits_for_ever, within_rounds
from pellucid.check.decide import Options, decide_invariant, if_refuted
from pellucid.check.endless.keyed import sequence_of_keyed
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import FALSE
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.model.budget import Budget

_ROOM = (1, 2, 4, 8)


def decide_sequence(
    a: Any,
    b: Any,
    domain: Domain,
    queue: int | Mapping[str, int] | None,
    options: Options,
    step: Callable[[Options], Answer],
) -> Answer:
    """Whether two pipelines put out the same sequence in the end; ``step`` says whether they do so in every push.

    ``queue`` is how much room the queues of the two pipelines get in the search; the answer does not depend on it.
    """
    clock = Budget(options.left)
    both = pair(a, b, domain, 3 if queue is None else queue)
    if any(side.outside is not FALSE for side in both.sides):
        return if_refuted(Answer("unknown", "none"))
    for side in both.sides:  # each does what its own interpreter does; for the two together there is none
        problem = try_out(side, seconds=budget(0.0), most=200).problem
        if problem:
            return Answer("unknown", "none", notes=(distrust(problem),))
    hurried = both.hurried()
    if both.fails:  # each fails for itself, and that is compared
        every = race(both, 0)
        answer = decide_invariant(every.system, n.not_(n.or_(every.differs, every.beyond)), _part(options, clock, 0.2))
    else:
        answer = step(_part(options, clock, 0.3))
    if answer.status == "proved":
        return dataclasses.replace(answer, notes=(*answer.notes, "the same in every push"))
    why: list[str] = []
    for room in _ROOM:
        running = race(both, room)
        runs = [race(hurried, room), running] if hurried is not None else [running]
        answer = _always(runs, lambda r: n.not_(r.differs), options, clock)
        if answer.status == "refuted":
            return answer
        if answer.status == "proved" and _always(runs, lambda r: n.not_(r.beyond), options, clock).status == "proved":
            return _in_the_end(runs, room, answer, _part(options, clock, 0.9))
        found = _one_ahead_for_ever(a, b, both, running, domain, options, clock, first=room == _ROOM[0])
        if found is not None:
            return found
        if clock.over:
            why.append("the time was up")
            break
    why.insert(0, f"equal as long as neither runs ahead by more than {room} outputs; no proof beyond that was found")
    if both.queues:
        why.append("within the room that the search gives to queues: a larger queue= may decide it")
    return Answer("unknown", answer.engine, notes=tuple(why), details=answer.details)


def by_keys(a: Any, b: Any, step: Answer, *, paper: bool = False) -> Answer:
    """Of pipelines with keys, from the answer about single pushes: a run that shows a difference there may show one in
    the sequences.

    For ``paper`` (Model Checking of Stream Processing Pipelines, 2021) a failure is no part of a sequence.
    """
    if step.status == "refuted" and step.pushes is not None:
        first, second = (put_out(p.graph, step.pushes, a.graph, failures=not paper) for p in (a, b))
        if any(x != y for x, y in zip(first, second, strict=False)):
            return step
    return sequence_of_keyed(step)


def _always(runs: list[Race], good: Callable[[Race], Expr], options: Options, clock: Budget) -> Answer:
    """Whether something holds in every push: proved of any of the runs, or what is said of the last, which leaves
    nothing out."""
    for at, running in enumerate(runs):
        answer = decide_invariant(running.system, good(running), _part(options, clock, 0.3 if at else 0.2))
        if answer.status == "proved":
            break
    return answer


def _part(options: Options, clock: Budget, share: float) -> Options:
    left = clock.part(share, least=1.0).left()
    return dataclasses.replace(options, timeout=left)


def _one_ahead_for_ever(
    a: Any, b: Any, both: Pair, running: Race, domain: Domain, options: Options, clock: Budget, *, first: bool
) -> Answer | None:
    """What is found where no room is enough: one falls silent, or both speak again and again and agree output by
    output."""
    searches: tuple[Callable[[Options], Answer | None], ...] = (
        lambda o: falls_silent(both, o),
        lambda o: waits_for_ever(running, o)[1],
        lambda o: trapped(running, o),
    )
    for search in searches if first else searches[1:2]:
        found = search(_part(options, clock, 0.3))
        if found is not None:
            return _silenced(found)
    if not first or not all(
        again_and_again(both, slots, _part(options, clock, 0.3)) for slots in (both.first, both.second)
    ):
        return None
    return proof_by_outputs(a, b, domain, _part(options, clock, 0.6))


def _in_the_end(runs: list[Race], room: int, equal: Answer, options: Options) -> Answer:
    """The second half, where at most so much ever waits and all that is compared is equal."""
    running = runs[-1]
    note = f"neither runs ahead of the other by more than {room} output(s)"
    found, lasso = waits_for_ever(running, options)
    if lasso is not None:
        return _silenced(lasso)
    if found == "none":
        return dataclasses.replace(equal, notes=(note, "and what one has put out comes in the other in the end"))
    rounds = next((k for r in runs if (k := within_rounds(r.system, r.stuck, r.comes, options)) is not None), None)
    if rounds is not None:
        catches_up = f"and what waits goes on within {rounds} event(s) of every source"
        return dataclasses.replace(equal, notes=(note, catches_up))
    end = trapped(running, options)
    if end is not None:
        return _silenced(end)
    why = (
        f"{note} and they are equal there; that each output of one comes in the other in the end was neither proved "
        "nor refuted"
    )
    return Answer("unknown", equal.engine, notes=(why,), details=equal.details)


def _silenced(found: Answer) -> Answer:
    """A run that refutes: what one puts out never comes in the other."""
    note = "in this run one puts out something that never comes in the other"
    return dataclasses.replace(found, notes=(note, *found.notes))
