"""``check.holds`` of a pipeline by event time: a formula of LTL on all its runs, each of which ends.

A step of a run is a batch, and the last one is the end of the input: ``X p`` is false there, ``F p`` means now (the
finite reading, as in `check.holds_on`).  The formula goes along with the run: after each step it is what is still to be
asked of the rest, so that runs which lead to the same state and leave the same to ask are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pellucid.check.belief.observe import _judged, _Seen
from pellucid.check.belief.vacuity import premises
from pellucid.check.formula import FALSE, TRUE, And, F, Formula, Not, Or, as_formula, is_invariant, kind, terms
from pellucid.check.formula.nodes import PAST
from pellucid.check.formula.terms import Before, Flag
from pellucid.check.timed.inputs import Finish, Inputs, Move
from pellucid.check.timed.machine import Seen, TimedMachine
from pellucid.check.timed.question import Spot, arriving, budget_of, decided
from pellucid.check.timed.reached import Reached
from pellucid.errors import UsageError
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Search, Verdict, now

YES, NO = TRUE, FALSE
SOME = F(TRUE)  # there is another step


def holds_in_time(
    p: Any,
    formula: Any,
    *,
    arrival: str = "any",
    events: Any = None,
    times: Any = None,
    ints: Any = None,
    pushes: int = 3,
    batch: int = 1,
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Any = None,
) -> Verdict:
    """The verdict on one formula."""
    f, said = linear(as_formula(formula)), f"{as_formula(formula)}{arriving(arrival)}"
    inputs = Inputs.of(p.graph, events=events, ints=ints, times=times, pushes=pushes, batch=batch)
    reached, began = Reached(p.graph, inputs), now()
    machine, premise_held = TimedMachine(reached.graph, inputs), dict.fromkeys(premises(f), False)
    found: list[tuple[Spot, Move, str]] = []

    def steps(spot: Spot) -> Iterator[tuple[Move, Spot]]:
        for move, pushed in machine.moves(spot.at):
            then, seen = machine.take(spot.at, move, pushed)
            if arrival == "in time" and seen.behind:
                continue
            reached.saw(seen)
            atoms = atoms_of(p.graph, f, seen)
            for premise in premise_held:
                premise_held[premise] |= progressed(premise, atoms) != NO
            rest = progressed(spot.past.rest, atoms)
            ends = isinstance(move, Finish) or seen.failed is not None
            if not found and (rest == NO or (ends and not at_the_end(rest))):
                found.append((spot, move, "here" if rest == NO else "the run ends, and it has not come"))
            if rest != NO and rest != YES:
                yield move, Spot(then, _Rest(rest))

    search: Search[Spot, Move] = Search(
        [Spot(machine.start(), _Rest(f))], steps, budget_of(timeout, max_states, progress)
    )
    return decided(search, found, (p.graph,), said, [reached], began, premise_held)


class _Rest:
    """What is still to be asked."""

    __slots__ = ("rest",)

    def __init__(self, rest: Formula) -> None:
        self.rest = rest

    def key(self) -> Any:
        """As a value."""
        return self.rest


def linear(f: Formula) -> Formula:
    """A formula that can be asked of runs that end; others are refused by name."""
    body = is_invariant(f)
    if body is not None:
        f = Formula("G", (body,))
    if kind(f) == "ctl":
        raise UsageError(
            f"{f} asks for runs that there may be: by event time a formula is asked of all runs, each of which ends; "
            "write G, F, X, U, W or R, or AG of a formula without them"
        )
    if kind(f) == "state":
        raise UsageError(f"{f} speaks of one step only: write G ({f}) for every step")
    for part in f.walk():
        if part.op in PAST:
            raise UsageError(
                f"{f}: {part.op} looks back, which is not asked by event time yet: write it with U, W or R"
            )
    for term in terms(f):
        if isinstance(term, Before):
            raise UsageError(f"{f}: Y looks back, which is not asked by event time yet")
        if isinstance(term, Flag) and term.name != "failed":
            raise UsageError(
                f"{f}: no queue has a bound by event time, so nothing is ever full: ask check.buffers what is held"
            )
    return f


def atoms_of(graph: Graph, f: Formula, seen: Seen) -> Mapping[Formula, bool]:
    """Which atoms hold of a batch."""
    values = _Seen()
    failed = seen.failed is not None
    system = values.system(graph, {} if failed else seen.streams, {}, {}, failed)
    return _judged(f, values, system)


def progressed(f: Formula, holds: Mapping[Formula, bool]) -> Formula:
    """What is to be asked of the rest of a run after a step in which these atoms hold; ``X p`` that there is a rest.

    >>> from pellucid.check.formula.parse import parse
    >>> f = parse("G (p -> X q)")
    >>> progressed(f, {parse("p"): True, parse("q"): False}) == parse("(F true) & (G (p -> X q)) & q")
    True
    """
    op, args = f.op, f.args
    if op in ("true", "false"):
        return f
    if op == "atom":
        return YES if holds.get(f, False) else NO
    if op == "X":
        return _and(SOME, args[0])
    now_ = [progressed(a, holds) for a in args]
    if op == "!":
        return _not(now_[0])
    if op == "&":
        return _and(now_[0], now_[1])
    if op == "|":
        return _or(now_[0], now_[1])
    if op == "->":
        return _or(_not(now_[0]), now_[1])
    if op == "<->":
        return _or(_and(now_[0], now_[1]), _and(_not(now_[0]), _not(now_[1])))
    if op == "G":
        return _and(now_[0], f)
    if op == "F":
        return _or(now_[0], f)
    if op in ("U", "W"):
        return _or(now_[1], _and(now_[0], f))
    assert op == "R", op
    return _and(now_[1], _or(now_[0], f))


def at_the_end(f: Formula) -> bool:
    """Whether what was still to be asked holds where nothing comes any more."""
    op, args = f.op, f.args
    if op == "!":
        return not at_the_end(args[0])
    if op == "&":
        return at_the_end(args[0]) and at_the_end(args[1])
    if op == "|":
        return at_the_end(args[0]) or at_the_end(args[1])
    if op == "->":
        return not at_the_end(args[0]) or at_the_end(args[1])
    if op == "<->":
        return at_the_end(args[0]) == at_the_end(args[1])
    return op in ("true", "G", "W", "R")


def _not(f: Formula) -> Formula:
    return NO if f == YES else YES if f == NO else f.args[0] if f.op == "!" else Not(f)


def _and(a: Formula, b: Formula) -> Formula:
    return _joined("&", a, b, YES, NO)


def _or(a: Formula, b: Formula) -> Formula:
    return _joined("|", a, b, NO, YES)


def _joined(op: str, a: Formula, b: Formula, nothing: Formula, all_: Formula) -> Formula:
    """Each part once, in one order: so that what is still to be asked does not grow."""
    parts = {part: str(part) for f in (a, b) for part in _parts(op, f) if part != nothing}
    if all_ in parts:
        return all_
    ordered = sorted(parts, key=lambda part: parts[part])
    found = ordered[0] if ordered else nothing
    for part in ordered[1:]:
        found = (And if op == "&" else Or)(found, part)
    return found


def _parts(op: str, f: Formula) -> list[Formula]:
    return [p for arg in f.args for p in _parts(op, arg)] if f.op == op else [f]
