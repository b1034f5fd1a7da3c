"""The judge is judged: every step on random walks against a second telling of both semantics, and mutants of the
transitions, which the same walks must refute."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from pellucid.capacity import Literal, Step, Topology, Urgent, Worker
from pellucid.capacity.steps.machine import Situation, Steps
from pellucid.capacity.steps.step import FLAGS
from tests.capacity.oracle import Told
from tests.capacity.random_topologies import topology


def candidates(t: Topology, told: Told, chance: random.Random) -> Iterator[Step]:
    """Steps that may be right, and some that are nearly so."""
    places = list(dict.fromkeys(map(told.source, told.people)))
    for s in t.spouts:
        heard = [p for p in places if (p if isinstance(p, str) else p[0]) in t.listeners(s)]
        if t.routing == "one":
            for p in [*heard, chance.choice(places)]:
                yield Step("spout_emit", s, (p,))
        else:
            yield Step("spout_emit", s, one_each(t, s, 1, places, chance))
        yield Step("spout_emit", s, tuple(chance.choices(places, k=chance.randint(0, 2))))
    for b, n in told.people:
        yield Step("bolt_take", Worker(b, n))
        many = told.due(b)
        heard = [p for p in places if (p if isinstance(p, str) else p[0]) in t.listeners(b)]
        if t.routing == "all":
            yield Step("bolt_emit", Worker(b, n), one_each(t, b, many, places, chance))
        elif heard:
            yield Step("bolt_emit", Worker(b, n), tuple(chance.choices(heard, k=many)))
            yield Step("bolt_emit", Worker(b, n), tuple(chance.choices(heard, k=many + 1)))
    delays = {Fraction(0), Fraction(chance.randint(1, 9), chance.randint(1, 9))}
    for p in told.people:
        if told.does[p] == "X":
            delays.add(told.begun[p] + t.bolts[p[0]].time - told.now)
    for s, spout in t.spouts.items():
        delays |= {
            told.emitted_at[s] + spout.gap - told.now,
            told.emitted_at[s] + spout.gap - told.now + Fraction(1, 7),
        }
    for delay in sorted(delays):
        yield Step("time_elapse", by=delay)
    for flag in FLAGS:
        yield Step(flag)


def one_each(t: Topology, sender: str, many: int, places: list[Any], chance: random.Random) -> tuple[Any, ...]:
    to: list[Any] = []
    for b in t.listeners(sender):
        to += chance.choices([p for p in places if (p if isinstance(p, str) else p[0]) == b], k=many)
    return tuple(to)


def disagreement(make: Callable[[Topology, str | None], Steps], number: int, literal: bool, steps: int = 60) -> str:
    """Where a machine and the second telling differ on one walk; nothing if they do not."""
    t = topology(number, single=True)
    chance = random.Random(number)
    bolt = chance.choice(list(t.bolts)) if literal else None
    machine, told = make(t, bolt), Told(t, bolt)
    at: Situation = machine.start()
    for _ in range(steps):
        possible = []
        for step in candidates(t, told, chance):
            said, meant = machine.why_not(at, step) is None, told.allowed(step)
            if said != meant:
                return f"{t.name}: {step}: {said}, {meant}"
            possible += [step] if meant else []
        if not possible:
            return ""
        # Time passes rarely if something else can happen, or nothing would pile up.
        busy = [s for s in possible if s.action != "time_elapse"]
        step = chance.choice(busy if busy and chance.random() < 0.8 else possible)
        at = machine.after(at, step)
        told.change(step)
        if machine.settled(at) != told.settled():
            return f"{t.name}: {step}: settled"
        if [machine.length(at, b) for b in t.bolts] != [told.length(b) for b in t.bolts]:
            return f"{t.name}: {step}: lengths"
        if list(at.status) != [told.does[p] for p in told.people]:
            return f"{t.name}: {step}: {at.status}"
    return ""


def urgent(t: Topology, bolt: str | None) -> Steps:
    return Urgent(t)


def literal(t: Topology, bolt: str | None) -> Steps:
    assert bolt is not None
    return Literal(t, bolt)


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_both_machines_are_what_they_mean(first: int) -> None:
    for number in range(first, first + 30):
        assert disagreement(urgent, number, False) == ""
        assert disagreement(literal, number, True) == ""


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 500))
def test_both_machines_are_what_they_mean_at_length(first: int) -> None:
    for number in range(first, first + 500):
        assert disagreement(urgent, number, False) == ""
        assert disagreement(literal, number, True) == ""


# ---------------------------------------------------------------- mutants


def guard(
    base: type[Steps], action: str, change: Callable[[Any, Situation, Step, str | None], str | None]
) -> type[Steps]:
    """A machine with another guard for an action."""

    class Mutant(base):  # type: ignore[misc, valid-type]
        def why_not(self, at: Situation, step: Step) -> str | None:
            why = super().why_not(at, step)
            return change(self, at, step, why) if step.action.startswith(action) else why

    return Mutant


def effect(
    base: type[Steps], action: str, change: Callable[[Any, Situation, Situation, Step], Situation]
) -> type[Steps]:
    """A machine in which an action does something else."""

    class Mutant(base):  # type: ignore[misc, valid-type]
        def after(self, at: Situation, step: Step) -> Situation:
            then = super().after(at, step)
            return change(self, at, then, step) if step.action == action else then

    return Mutant


def without(*words: str) -> Callable[[Any, Situation, Step, str | None], str | None]:
    """The guard without the objection that has these words."""
    return lambda machine, at, step, why: None if why and any(w in why for w in words) else why


def at_the_gap(machine: Any, at: Situation, step: Step, why: str | None) -> str | None:
    s = machine.spouts[step.who]
    return None if why and ("it needs more than" in why) and at.stime[s] == machine.gap[s] else why


URGENT = {
    "a spout emits at its gap": guard(Urgent, "spout_emit", at_the_gap),
    "a spout emits whenever it likes": guard(Urgent, "spout_emit", without("it needs more than")),
    "a spout does not wait for bolts": guard(Urgent, "spout_emit", without("which comes first")),
    "time does not wait for bolts": guard(Urgent, "time_elapse", without("which comes first")),
    "time passes beyond the end of a tuple": guard(Urgent, "time_elapse", without("ends its tuple")),
    "time stands still": guard(Urgent, "time_elapse", without("time passes by more than 0")),
    "a busy worker takes": guard(Urgent, "bolt_take", without("it executes")),
    "takes from an empty queue": guard(Urgent, "bolt_take", without("is empty")),
    "emits before the end": guard(Urgent, "bolt_emit", without("it executes")),
    "tuples go to anybody": guard(Urgent, "spout_emit", without("is no queue that hears")),
    "more tuples than are due": guard(Urgent, "bolt_emit", without("puts out")),
    "Stime is not reset": effect(Urgent, "spout_emit", lambda m, at, then, step: then._replace(stime=at.stime)),
    "nobody gets the tuple": effect(Urgent, "spout_emit", lambda m, at, then, step: then._replace(lengths=at.lengths)),
    "a take leaves the tuple": effect(Urgent, "bolt_take", lambda m, at, then, step: then._replace(lengths=at.lengths)),
    "a take needs no time": effect(Urgent, "bolt_take", lambda m, at, then, step: then._replace(left=at.left)),
    "the ratio is forgotten": effect(Urgent, "bolt_emit", lambda m, at, then, step: then._replace(owed=at.owed)),
    "who emits stays": effect(Urgent, "bolt_emit", lambda m, at, then, step: then._replace(status=at.status)),
    "nobody ends": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(status=at.status)),
    "spouts have no clock": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(stime=at.stime)),
    "work has no clock": effect(Urgent, "time_elapse", lambda m, at, then, step: then._replace(left=at.left)),
}


def flags(**changed: Any) -> Callable[[Any, Situation, Situation, Step], Situation]:
    return lambda machine, at, then, step: then._replace(flags=then.flags._replace(**changed))


# That an emit asks DoEmit changes nothing: whenever SetFlags is No, the flag has just been set, and it is true if any
# worker of the bolt is in state E.
LITERAL = {
    "time passes twice": guard(Literal, "time_elapse", without("CanTimeElapse")),
    "time waits for flags": guard(
        Literal,
        "time_elapse",
        lambda m, at, step, why: why or (None if at.flags.set_flags == "No" else "flags first"),
    ),
    "spouts do not ask DoTake": guard(Literal, "spout_emit", without("DoTake is true")),
    "spouts do not ask DoEmit": guard(Literal, "spout_emit", without("DoEmit is true")),
    "spouts do not ask SetFlags": guard(Literal, "spout_emit", without("SetFlags")),
    "a spout emits at its gap": guard(Literal, "spout_emit", at_the_gap),
    "a take does not ask DoTake": guard(Literal, "bolt_take", without("DoTake is false")),
    "a take does not ask SetFlags": guard(Literal, "bolt_take", without("SetFlags")),
    "DoTake is set with an empty queue": guard(Literal, "setDoTake_T", without("no worker is idle")),
    "DoTake is taken back always": guard(Literal, "setDoTake_F1", without("the queue is not empty")),
    "F2 for one worker": guard(Literal, "setDoTake_F2", without("it is for several")),
    "F2a for several": guard(Literal, "setDoTake_F2a", without("it is for one")),
    "DoEmit is set always": guard(Literal, "setDoEmit_T", without("no worker is in state E")),
    "DoEmit is taken back always": guard(Literal, "setDoEmit_F1a", without("it is for one")),
    "flags in any order": guard(Literal, "setDoEmit", without("SetFlags")),
    "a take does not let time pass": effect(Literal, "bolt_take", flags(can_time_elapse=False)),
    "a spout does not set flags": effect(Literal, "spout_emit", flags(set_flags="No")),
    "time does not set flags": effect(Literal, "time_elapse", flags(set_flags="No")),
    "time lets time pass": effect(Literal, "time_elapse", flags(can_time_elapse=True)),
    "DoTake sets nothing": effect(Literal, "setDoTake_T", flags(do_take=False)),
    "DoEmit sets nothing": effect(Literal, "setDoEmit_T", flags(do_emit=False)),
    "DoEmit first": effect(Literal, "setDoTake_F1", flags(set_flags="No")),
}


@pytest.mark.parametrize("name", URGENT)
def test_a_mutant_of_the_urgent_semantics_is_refuted(name: str) -> None:
    mutant: Any = URGENT[name]
    assert any(disagreement(lambda t, bolt: mutant(t), number, False) for number in range(40)), name


@pytest.mark.parametrize("name", LITERAL)
def test_a_mutant_of_the_literal_semantics_is_refuted(name: str) -> None:
    mutant: Any = LITERAL[name]
    assert any(disagreement(lambda t, bolt: mutant(t, bolt), number, True) for number in range(40)), name
