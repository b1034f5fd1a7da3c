"""Two pipelines on the same events, and what one of them has emitted ahead of the other.

Each keeps its own state and fails for itself.  What one emits waits until the other emits its own at the same
place of the sequence; the two are compared and both are taken away.  A failure is the last thing in a sequence: it
waits and is compared like an event.

So two pipelines emit the same sequence in a run iff no two things that are compared differ, and nothing waits for
ever: it is not so that from some push on something waits and nothing is compared (`Race.stuck`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pellucid.check.answer import Answer, suggested
from pellucid.check.certify import distrust
from pellucid.check.counterexample import emitted
from pellucid.check.decide import Options, decide, decide_invariant, if_refuted, listable
from pellucid.check.explicit import accepting_lasso, explore
from pellucid.check.formula import FALSE as NEVER
from pellucid.check.formula import TRUE as ALWAYS
from pellucid.check.formula import And, Atom, F, Formula, G, Not, Or
from pellucid.check.formula.buchi import automaton
from pellucid.check.keyed import sequence_of_keyed
from pellucid.check.side_by_side import beside, same_leaf
from pellucid.check.system.build import Cells, System, build_system, cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.variables import FALSE, TRUE, Slot, Variable
from pellucid.check.trial_runs import budget, try_out
from pellucid.errors import TypeMismatch
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.types import BOOL, INT, simplest
from pellucid.internal.model.search import Budget


@dataclass(frozen=True)
class Pair:
    """Two systems on the same events: ``first`` and ``second`` are what each may emit in a push, its failure
    last."""

    system: System
    first: tuple[Slot, ...]
    second: tuple[Slot, ...]
    fails: bool  # whether one of them might
    queues: bool  # whether one of them has queues, for which a search has room for so many events only
    stutters: bool  # a push in which all sources are silent changes nothing
    sides: tuple[System, System]  # each by itself

    @n.values_only()
    def hurried(self) -> Pair | None:
        """The pair with an event in every push, where that leaves out nothing that matters.  It is for proofs: a run of
        it shows no silence."""
        if not self.stutters or len(self.comes) != 1 or self.system.assume is not n.TRUE:
            return None
        system = self.system
        leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
        leaves[self.comes[0].value] = TRUE

        def moved(slots: Sequence[Slot]) -> tuple[Slot, ...]:
            return tuple(Slot(e[0], tuple(e[1:])) for e in (substitute([s.present, *s.leaves], leaves) for s in slots))

        return dataclasses.replace(
            self,
            system=system.mapped(lambda exprs: substitute(exprs, leaves)),
            first=moved(self.first),
            second=moved(self.second),
        )

    def speaks(self, slots: Sequence[Slot]) -> Expr:
        """In this push something is emitted, or it fails."""
        return n.any_of(s.present for s in slots)

    @property
    def comes(self) -> list[Expr]:
        """Of each source whether it brings an event."""
        have = len(self.system.state)
        return [n.var(have + i, v.type) for i, v in enumerate(self.system.inputs) if v.role == "present"]


@dataclass(frozen=True)
class Race:
    """A pair with what waits: at most so much, beyond it the system stops."""

    system: System
    differs: Expr  # two things at the same place of the sequences are not equal
    beyond: Expr  # more waits, here or in a queue of the two, than there is room for
    stuck: Expr  # something waits after this push, and nothing was compared in it
    comes: tuple[Expr, ...]


@n.values_only()
def pair(a: Any, b: Any, domain: Domain, queue: int | Mapping[str, int]) -> Pair:
    """Two pipelines with the same sources, side by side.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> one, two = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda x: x.decimate(2), x=int)
    >>> [v.name.split("-")[0] for v in pair(one, two, domain_of(None), 3).system.state]
    ['1::stopped', '1:trim', '2::stopped', '2:decimate']
    """
    # What is assumed is assumed of the events of both: the first system knows it, under its own names of the sources.
    left = build_system(a.graph, domain, _own(a, queue))
    right = build_system(b.graph, dataclasses.replace(domain, assume=()), _own(b, queue))
    if [t for _, t in left.sources] != [t for _, t in right.sources]:
        shown = ["(" + ", ".join(f"{name}: {t}" for name, t in s.sources) + ")" for s in (left, right)]
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: their sources are {shown[0]} and {shown[1]}")
    outs = [[p.graph.nodes[i].type for _, i in p.graph.outputs] for p in (a, b)]
    if outs[0] != outs[1] or len(outs[0]) != 1:
        raise TypeMismatch(f"{a.name} and {b.name} cannot be compared: they emit {outs[0]} and {outs[1]}")
    have = len(left.state) + len(right.state)
    given: list[Expr] = [n.var(have + i, v.type) for i, v in enumerate(left.inputs)]
    moved, state, at = [], [], 0
    for system, mark in ((left, "1:"), (right, "2:")):
        own: list[Expr] = [n.var(at + i, v.type) for i, v in enumerate(system.state)]
        moved.append(system.mapped(partial(substitute, leaves=[*own, *given])))
        state += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in system.state]
        at += len(own)
    one, two = moved
    # Once one of them has come to the end of a queue nothing more is known of either.
    queues = bool(a.graph.queues() or b.graph.queues())
    stop = n.or_(one.overflow, two.overflow) if queues else FALSE
    before: list[Expr] = [n.var(i, v.type) for i, v in enumerate(state)]
    following = [n.ite(stop, old, new) for old, new in zip(before, (*one.next, *two.next), strict=True)]
    for i in (0, len(left.state)):
        following[i] = n.ite(stop, n.const(1), following[i])
    sides = []
    fails = any(s.failed.op != "const" or s.failed.value for s in moved)
    for s, p, stopped in ((one, a, before[0]), (two, b, before[len(left.state)])):
        slots = [Slot(n.and_(slot.present, n.not_(stop)), slot.leaves) for slot in s.streams[p.graph.outputs[0][0]][1]]
        if fails:
            nothing = tuple(n.const(simplest(t)) for _, t in outs[0][0].leaves())
            slots = [Slot(slot.present, (FALSE, *slot.leaves)) for slot in slots]
            now = n.and_(n.and_(s.failed, n.not_(n.eq(stopped, n.const(2)))), n.not_(stop))
            slots.append(Slot(now, (TRUE, *nothing)))
        sides.append(tuple(slots))
    system = dataclasses.replace(
        one, name=f"{a.name} and {b.name}", state=tuple(state), next=tuple(following), streams={}, lengths={},
        bounds={}, overflow=stop, failed=n.or_(one.failed, two.failed), graph=None,
    )  # fmt: skip
    return Pair(system, sides[0], sides[1], fails, queues, all(map(_stutters, (left, right))), (left, right))


def _stutters(system: System) -> bool:
    """Whether a push in which every source is silent changes nothing and emits nothing, as simplification shows."""
    variables = (*system.state, *system.inputs)
    leaves: list[Expr] = [FALSE if v.role == "present" else n.var(i, v.type) for i, v in enumerate(variables)]
    there = [s.present for _, slots in system.streams.values() for s in slots]
    after = substitute([*there, *system.next], leaves)
    still = zip(after[len(there) :], leaves, strict=False)
    return all(e is FALSE for e in after[: len(there)]) and all(e is leaf for e, leaf in still)


def _own(p: Any, queue: int | Mapping[str, int]) -> int | Mapping[str, int]:
    if isinstance(queue, int):
        return queue
    known = {id for id, _, _ in p.graph.queues()}
    return {id: size for id, size in queue.items() if id in known}


@n.values_only()
def race(both: Pair, room: int) -> Race:
    """The pair with room for so many outputs of one that the other has not come to yet."""
    cells = Cells(both.system)
    lines = [
        _Line(cells, mark, slots, room, both.system.domain.modulus)
        for mark, slots in (("1", both.first), ("2", both.second))
    ]
    differs = compared = FALSE
    for at, slots in enumerate((both.first, both.second)):
        own, other = lines[at], lines[1 - at]
        for s in slots:
            waits = n.and_(s.present, other.some)
            same = n.all_of(same_leaf(x, y) for x, y in zip(s.leaves, other.items[0], strict=True))
            differs = n.or_(differs, n.and_(waits, n.not_(same)))
            compared = n.or_(compared, waits)
            other.take(waits)
            own.append(n.and_(s.present, n.not_(waits)), s.leaves)
    beyond = n.or_(both.system.overflow, n.or_(*[n.lt(n.const(room), line.length) for line in lines]))
    ended = cells.add("ended", BOOL, False)
    beyond = n.or_(ended, beyond)
    cells.follow(ended, beyond)
    for line in lines:
        line.store()
    stuck = n.and_(n.and_(n.or_(lines[0].some, lines[1].some), n.not_(compared)), n.not_(beyond))
    roots = [n.and_(differs, n.not_(beyond)), beyond, stuck, *both.comes]
    system, (differs, beyond, stuck, *comes) = cells.done(roots)
    # What goes beyond stops all: there is one state for it.
    last = next(i for i, v in enumerate(system.state) if v.name == "ended")
    following = [
        e if i == last else n.ite(beyond, n.var(i, v.type), e)
        for i, (v, e) in enumerate(zip(system.state, system.next, strict=True))
    ]
    return Race(
        dataclasses.replace(system, next=tuple(following), overflow=beyond), differs, beyond, stuck, tuple(comes)
    )


class _Line:
    """What one of the two has emitted and the other has not, during one push."""

    def __init__(self, cells: Cells, mark: str, slots: Sequence[Slot], room: int, modulus: int | None) -> None:
        self.cells, self.room = cells, room
        kinds = [e.type for e in slots[0].leaves]
        self.nothing = tuple(n.const(simplest(t)) for t in kinds)
        self.cell = cells.add(f"ahead{mark}:length", INT, 0, size=room + 1)
        sizes = [modulus if t == INT else None for t in kinds]
        self.held = [
            tuple(
                cells.add(f"ahead{mark}:{i}.{j}", t, simplest(t), size=size)
                for j, (t, size) in enumerate(zip(kinds, sizes, strict=True))
            )
            for i in range(room)
        ]
        self.length, self.items = self.cell, [*self.held, *[self.nothing for _ in slots]]

    @property
    def some(self) -> Expr:
        return n.not_(n.eq(self.length, n.const(0)))

    def take(self, when: Expr) -> None:
        shifted = [*self.items[1:], self.nothing]
        self.items = [
            tuple(n.ite(when, x, y) for x, y in zip(new, old, strict=True))
            for new, old in zip(shifted, self.items, strict=True)
        ]
        self.length = n.ite(when, n.sub(self.length, n.const(1)), self.length)

    def append(self, when: Expr, leaves: Sequence[Expr]) -> None:
        for i in range(len(self.items)):
            here = n.and_(when, n.eq(self.length, n.const(i)))
            self.items[i] = tuple(n.ite(here, x, y) for x, y in zip(leaves, self.items[i], strict=True))
        self.length = n.ite(when, n.add(self.length, n.const(1)), self.length)

    def store(self) -> None:
        self.cells.follow(self.cell, self.length)
        for held, items in zip(self.held, self.items[: self.room], strict=True):
            for cell, item in zip(held, items, strict=True):
                self.cells.follow(cell, item)


# Whether what one pipeline has emitted comes in the other in the end: the half of sequence equivalence that speaks of
# for ever.
#
# Only runs count in which each source brings events again and again. Proved by a number of **rounds** (in a round each
# source brings an event at least once) within which something is compared as long as anything waits; refuted by a run
# that repeats: a way, and a loop in which each source brings an event, and in which one of the two speaks while the
# other does not, or something waits and nothing is compared.

_ROUNDS = (1, 2, 4, 8, 16)
_PART = 2000  # states that are searched for a loop where there are too many


def _fair(comes: Sequence[Expr]) -> list[Formula]:
    return [G(F(Atom(e, f"source {i}"))) for i, e in enumerate(comes)]


def fair_lasso(system: System, bad: Formula, options: Options) -> tuple[str, Answer | None]:
    """A run that satisfies a formula of LTL: ``"found"`` with it, ``"none"`` if there is none, or ``"unknown"``.

    Where the events cannot be listed, a few are tried that tell the pipelines' cases apart.
    """
    atoms = bad.atoms()
    roots = [a.body for a in atoms if isinstance(a.body, Expr)]
    small, observed = cone(system, roots)
    whole = listable(small, observed)
    if not whole:
        events = [v for v in suggested(system, roots) if system.domain.values is None or v in system.domain.values]
        few = dataclasses.replace(
            system, domain=dataclasses.replace(system.domain, values=tuple(sorted(events, key=abs)))
        )
        small, observed = cone(few, roots)
        if not listable(small, observed):
            return "unknown", None
    endless = any(v.type == INT and v.size is None for v in small.state)
    many = min(options.max_states, 50_000) if endless else options.max_states
    space = explore(small, observed, budget=Budget(options.left, many if whole else _PART))
    if not space.complete:
        space = explore(small, observed, budget=Budget(max_states=_PART))
    found = accepting_lasso(space, automaton(bad), {a: i for i, a in enumerate(atoms)})
    details = {"states": space.count, "variables": len(small.state)}
    if found is not None:
        choices, loop = found
        return "found", Answer("refuted", "explicit, automaton", space.pushes(choices), loop, details=details)
    return "none" if whole and space.complete else "unknown", None


def _atom(e: Expr, words: str) -> Formula:
    if e.op == "const":
        return ALWAYS if e.value else NEVER
    return Atom(e, words)


def falls_silent(both: Pair, options: Options) -> Answer | None:
    """A run in which one of the two falls silent for ever while the other speaks again and again."""
    first, second = (_atom(both.speaks(slots), words) for slots, words in ((both.first, "1"), (both.second, "2")))
    one = And(G(F(first)), F(G(Not(second))))
    other = And(G(F(second)), F(G(Not(first))))
    bad = And(And(*_fair(both.comes), G(Not(_atom(both.system.overflow, "overflow")))), Or(one, other))
    return fair_lasso(both.system, bad, options)[1]


def waits_for_ever(race: Race, options: Options) -> tuple[str, Answer | None]:
    """A run in which from some push on something waits and nothing is compared."""
    return fair_lasso(race.system, And(*_fair(race.comes), F(G(_atom(race.stuck, "waits")))), options)


def trapped(race: Race, options: Options) -> Answer | None:
    """A state that can be reached and in which something waits for ever, whatever comes."""
    if race.system.assume is not n.TRUE:
        return None  # what comes then must be such as is assumed
    goes_on = Not(_atom(race.stuck, "waits"))
    answer = decide(race.system, Formula("AG", (Formula("EF", (goes_on,)),)), options)
    if answer.status != "refuted" or answer.pushes is None:
        return None
    # Whatever comes then: to be a run of those that count, an event of each source, again and again.
    event = {name: t.event([_some(race.system, kind) for _, kind in t.leaves()]) for name, t in race.system.sources}
    note = "after these pushes it never does, whatever comes"
    return dataclasses.replace(answer, pushes=[*answer.pushes, event], loop=len(answer.pushes), notes=(note,))


def _some(system: System, kind: Any) -> Any:
    pool = system.domain.leaf(kind)
    return pool[0] if pool else simplest(kind)


def again_and_again(both: Pair, slots: Sequence[Slot], options: Options) -> bool:
    """Whether it is proved that one of the two speaks again and again in every run that counts."""
    speaks = both.speaks(slots)
    found, _ = fair_lasso(both.system, And(*_fair(both.comes), F(G(Not(_atom(speaks, "speaks"))))), options)
    if found != "unknown":
        return found == "none"
    return within_rounds(both.system, n.not_(speaks), both.comes, options) is not None


@n.values_only()
def within_rounds(system: System, waits: Expr, comes: Sequence[Expr], options: Options) -> int | None:
    """A number of rounds within which, as it is proved, waiting comes to an end in every run; None if none is found."""
    for rounds in _ROUNDS:
        cells = Cells(system)
        age = cells.add("rounds", INT, 0, size=rounds + 1)
        done, seen = n.TRUE, []
        for i, e in enumerate(comes):
            came = cells.add(f"came{i}", BOOL, False) if len(comes) > 1 else n.FALSE
            seen.append((came, n.or_(came, e)))
            done = n.and_(done, seen[-1][1])
        older = n.ite(n.lt(age, n.const(rounds)), n.add(age, n.const(1)), age)
        now = n.ite(waits, n.ite(done, older, age), n.const(0))
        cells.follow(age, now)
        for came, after in seen:
            if came is not n.FALSE:
                cells.follow(came, n.and_(n.and_(waits, n.not_(done)), after))
        # What waits after a push may have come in it: it waits for the rounds that follow.
        extended, (late,) = cells.done([n.and_(waits, n.eq(now, n.const(rounds)))])
        answer = decide_invariant(extended, n.not_(late), options)
        if answer.status == "proved":
            return rounds
        if answer.status == "unknown":
            return None
    return None


# Two pipelines compared output by output, whatever the delay between them.
#
# Each pipeline is advanced, on events of its own, until it has its next output; the two are compared and both go on. If
# they agree for all events, they agree for equal ones, whatever the delay: so this proves where one runs ahead for
# ever.


def proof_by_outputs(a: Any, b: Any, domain: Domain, options: Options) -> Answer | None:
    """A proof that the i-th outputs of two pipelines are equal wherever both have one; None if there is none of this
    kind."""
    quick = dataclasses.replace(options, timeout=options.left or 120.0)
    left, right = _never_stops(a, domain, quick), _never_stops(b, dataclasses.replace(domain, assume=()), quick)
    if left is None or right is None:
        return None
    if any(len(s.streams[_out(p)][1]) != 1 for s, p in ((left, a), (right, b))):
        return None
    for side in (left, right):  # each does what its own interpreter does; for the two together there is none
        problem = try_out(side, seconds=budget(0.0), most=200).problem
        if problem:
            return Answer("unknown", "smt", notes=(distrust(problem),))
    system, good = output_by_output(left, _out(a), right, _out(b))
    answer = decide_invariant(system, good, quick)
    if answer.status != "proved":
        return None
    return dataclasses.replace(answer, notes=("compared output by output: one may run ahead of the other for ever",))


def _never_stops(p: Any, domain: Domain, options: Options) -> System | None:
    """The pipeline's system with the least queues that suffice, where it is proved that none overflows and nothing
    fails.

    So it never stops, and the variable that says so can be taken for a constant.
    """
    for size in (1, 2, 4):
        system = build_system(p.graph, domain, size)
        stopped = n.or_(system.overflow, system.failed)
        if decide_invariant(system, n.not_(stopped), options).status == "proved":
            first = n.var(0, system.state[0].type)
            return dataclasses.replace(system, next=(first, *system.next[1:]))
    return None


def _out(p: Any) -> str:
    name: str = p.graph.outputs[0][0]
    return name


@n.values_only()
def output_by_output(left: System, out_a: str, right: System, out_b: str) -> tuple[System, Expr]:
    """A system that advances two others, each on events of its own; and *what they emit together is equal*.

    A push in which only one of them would emit something is taken by the other alone: so their i-th outputs always
    come together.  Every pair of runs has such a schedule, so if the outputs agree here they agree always.  A push
    without any event is left out where it changes nothing.
    """
    # Each has events of its own: what is assumed of both together is left out, so more is proved than was asked.
    left, right = (_folded(dataclasses.replace(s, assume=n.TRUE), out) for s, out in ((left, out_a), (right, out_b)))
    state: list[Variable] = []
    inputs: list[Variable] = []
    for s, mark in ((left, "1:"), (right, "2:")):
        state += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in s.state]
        inputs += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in s.inputs]
    at, into = 0, len(state)
    sides: list[tuple[list[Expr], list[Expr], Expr, list[Expr]]] = []
    for s, out in ((left, out_a), (right, out_b)):
        own: list[Expr] = [n.var(at + i, v.type) for i, v in enumerate(s.state)]
        given: list[Expr] = [n.var(into + i, v.type) for i, v in enumerate(s.inputs)]
        if len(s.sources) == 1 and _stutters_outputs(s, out):
            given[0] = n.const(True)
        slot = s.streams[out][1][0]
        moved = substitute([*s.next, slot.present, *slot.leaves], [*own, *given])
        many = len(s.state)
        sides.append((own, moved[:many], moved[many], moved[many + 1 :]))
        at, into = at + many, into + len(s.inputs)
    (own_a, next_a, now_a, values_a), (own_b, next_b, now_b, values_b) = sides
    wait_a, wait_b = n.and_(now_a, n.not_(now_b)), n.and_(now_b, n.not_(now_a))
    following = [n.ite(wait_a, old, new) for old, new in zip(own_a, next_a, strict=True)]
    following += [n.ite(wait_b, old, new) for old, new in zip(own_b, next_b, strict=True)]
    equal = n.all_of(n.eq(x, y) for x, y in zip(values_a, values_b, strict=True))
    sources = tuple((mark + name, t) for s, mark in ((left, "1:"), (right, "2:")) for name, t in s.sources)
    system = dataclasses.replace(
        left, name=f"{left.name} beside {right.name}", state=tuple(state), inputs=tuple(inputs), next=tuple(following),
        streams={}, lengths={}, bounds={}, overflow=n.const(False), failed=n.const(False), sources=sources, graph=None,
    )  # fmt: skip
    return system, n.or_(n.not_(n.and_(now_a, now_b)), equal)


def _folded(system: System, out: str) -> System:
    """What the output depends on, constants put in place."""
    slot = system.streams[out][1][0]
    small, (present, *leaves) = cone(system, [slot.present, *slot.leaves], all_inputs=True)
    return dataclasses.replace(small, streams={out: (system.streams[out][0], (Slot(present, tuple(leaves)),))})


def _stutters_outputs(system: System, out: str) -> bool:
    """Whether a push in which the only source is silent changes nothing and emits nothing."""
    leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
    leaves[len(system.state)] = n.const(False)
    present, *after = substitute([system.streams[out][1][0].present, *system.next], leaves)
    return present is n.const(False) and all(e is leaf for e, leaf in zip(after, leaves, strict=False))


# ---------------------------------------------------------------- as the paper has it
# Wherever both pipelines have an i-th output, the two are equal: both get the same events, and an equality step
# compares their i-th outputs (Model Checking of Stream Processing Pipelines, 2021, Figure 4b). A pipeline that never
# speaks satisfies this beside any other; what users mean is in `pellucid.check.sequences`.


def decide_paper(a: Any, b: Any, domain: Domain, queue: int | Mapping[str, int] | None, options: Options) -> Answer:
    """Whether the i-th outputs of two pipelines are always equal; with a bound for queues, within it, as in the
    paper."""
    graph = beside(a, b, joined=True)
    if queue is not None:
        system = build_system(graph, domain, queue)
        return within_bounds(system, decide_invariant(system, all_equal(system), options), options)
    bounds = {id: 3 for id, _, _ in graph.queues()}
    for delay in (1, 2, 4, 8):
        bounds |= {"same.0": delay, "same.1": delay}
        system = build_system(graph, domain, bounds)
        if delay == 1:
            proof = proof_by_outputs(a, b, domain, options)
            if proof is not None:
                return proof
        answer = decide_invariant(system, all_equal(system), options)
        if answer.status == "refuted":
            return answer
        fits = decide_invariant(system, n.not_(system.overflow), options)
        if answer.status == "proved" and fits.status == "proved":
            note = f"neither runs ahead of the other by more than {delay} output(s)"
            return dataclasses.replace(answer, notes=(note,))
    return Answer(
        "unknown",
        answer.engine,
        notes=(f"equal as long as neither runs ahead by more than {delay} outputs; no proof beyond that was found",),
        details=answer.details,
    )


@n.values_only()
def all_equal(system: System) -> Expr:
    """Every event of the equality step is true, also where it compares several in one push."""
    return n.all_of(n.or_(n.not_(slot.present), slot.leaves[0]) for slot in system.streams["same"][1])


def within_bounds(system: System, answer: Answer, options: Options) -> Answer:
    """The answer with a note where some input needs longer queues: it then holds within the bounds only."""
    if answer.status == "proved" and decide_invariant(system, n.not_(system.overflow), options).status != "proved":
        sizes = sorted(set(system.bounds.values()))
        note = f"within queues of {' and '.join(map(str, sizes))} event(s): some inputs need more, and stop there"
        return dataclasses.replace(answer, notes=(*answer.notes, note))
    return answer


# Sequence equivalence: both pipelines emit the same sequence of events, whatever the delay between them.
#
# Asked of every run in which each source brings events again and again. Two halves: what is at the same place of the
# two sequences is equal, and each output of one comes in the other in the end. Tried in turn, from what is cheap to
# what decides more:
#
# 1. **The same in every push**: then nothing ever waits.
# 2. **Bounded delay** (`pellucid.check.sequences`): what one is ahead waits, at most so much, and is compared. A
#   difference refutes. If nothing more ever waits, the other half is decided by a loop, or by a number of rounds within
#   which one catches up (`pellucid.check.sequences`).
# 3. **One falls silent for ever** while the other speaks again and again: refuted by a loop.
# 4. **Output by output** (`pellucid.check.sequences`), where one runs ahead for ever; both must be proved to speak
#   again and again.
#
# What none of them decides is *unknown*.

_ROOM = (1, 2, 4, 8)


def decide_sequence(
    a: Any,
    b: Any,
    domain: Domain,
    queue: int | Mapping[str, int] | None,
    options: Options,
    step: Callable[[Options], Answer],
) -> Answer:
    """Whether two pipelines emit the same sequence in the end; ``step`` says whether they do so in every push.

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
        first, second = (emitted(p.graph, step.pushes, a.graph, failures=not paper) for p in (a, b))
        if any(x != y for x, y in zip(first, second, strict=False)):
            return step
    return sequence_of_keyed(step)


def _always(runs: list[Race], good: Callable[[Race], Expr], options: Options, clock: Budget) -> Answer:
    """Whether something holds in every push: proved of any of the runs, or the answer about the last, which leaves
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
        return dataclasses.replace(equal, notes=(note, "and what one has emitted comes in the other in the end"))
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
    """A run that refutes: what one emits never comes in the other."""
    note = "in this run one emits something that never comes in the other"
    return dataclasses.replace(found, notes=(note, *found.notes))
