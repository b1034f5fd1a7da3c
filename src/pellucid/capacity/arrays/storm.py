"""A topology as an array-based system: the appendix of the paper, for any topology, in Cubicle's language.

Bolts, spouts and workers are numbered from 1 and are certain processes: ``B[#2,x]`` is the state of worker *x* of the
second bolt (``I`` idle, ``X`` executing, ``E`` about to emit), ``P[#2,x]`` the time that is left of its tuple,
``L[#2]`` the queue, ``Stime[#1]`` the time since the first spout emitted, ``N_proc[#2]`` the bolt's last worker:
those up to it work.  The flags *CanTimeElapse*, *DoTake*, *DoEmit*, *SetFlags* and the names of the transitions are
the paper's.

Four things are not as printed, since the language is as it is.  Parameters of a transition are distinct processes, so
a spout 1 could never emit to a bolt 1: there is a transition for each pair (``spout_emit_S1_B2``).  Numbers count
from 1.  Queues are integers.  The delay ``C`` is chosen again whenever time has passed, or every delay would be the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pellucid.capacity.arrays.system import (  # fmt: skip
    And,
    Anything,
    Cases,
    Cell,
    Compare,
    Formula,
    Number,
    Op,
    Or,
    Process,
    Quantified,
    States,
    Sum,
    System,
    Term,
    Transition,
    Truth,
    Update,
    Value,
)
from pellucid.capacity.topology import ANY, Topology
from pellucid.capacity.zones.network import cone
from pellucid.errors import UsageError

_ONE = Fraction(1)


def _is(cell: Cell, value: str) -> Compare:
    return Compare("=", cell, Value(value))


def _real(value: Fraction) -> Number:
    return Number(value, True)


def _int(value: int) -> Number:
    return Number(Fraction(value))


def _flag(name: str, value: str) -> Compare:
    return _is(Cell(name), value)


def _plus(cell: Cell, number: int) -> Sum:
    return Sum(((_ONE, cell),), Fraction(number))


class _Storm:
    """One topology, one bolt under analysis, and who is looked at."""

    def __init__(self, topology: Topology, bolt: str, spouts: Sequence[str], bolts: Sequence[str]) -> None:
        self.topology, self.bolt, self.looked_at = topology, bolt, bolts
        self.whole = len(bolts) == len(topology.bolts) and len(spouts) == len(topology.spouts)
        self.sources = {s: topology.spouts[s] for s in spouts}
        self.workers = {b: topology.bolts[b] for b in bolts}
        self.number = {b: i + 1 for i, b in enumerate(bolts)} | {s: i + 1 for i, s in enumerate(spouts)}
        self.me = f"#{self.number[bolt]}"

    def at(self, name: str, who: str, *more: str) -> Cell:
        return Cell(name, (f"#{self.number[who]}", *more))

    def works(self, bolt: str, worker: str) -> Compare:
        """It is one of the bolt's workers."""
        return Compare("<=", Process(worker), self.at("N_proc", bolt))

    # flags, (6) to (9) and those of DoEmit

    def flags(self) -> list[Transition]:
        queue, here, one = self.at("L", self.bolt), self.me, self.at("B", self.bolt, "#1")
        several = Compare("<", Process("#1"), self.at("N_proc", self.bolt))
        single = Compare("=", self.at("N_proc", self.bolt), Process("#1"))
        waiting = Compare(">", queue, _int(0))

        def none_is(state: str) -> Formula:
            idle = Compare("<>", Cell("B", (here, "y")), Value(state))
            return Quantified(
                "forall", False, ("y",), Or((Compare("<", self.at("N_proc", self.bolt), Process("y")), idle))
            )

        def set_(name: str, value: str, then: str, *guard: Formula, x: bool = False) -> Transition:
            before = _flag("SetFlags", "DT" if then == "DE" else "DE")
            flag = "DoTake" if then == "DE" else "DoEmit"
            updates = (Update(flag, (), Value(value)), Update("SetFlags", (), Value(then)))
            return Transition(name, ("x",) if x else (), And((before, *guard)), updates)

        mine = Cell("B", (here, "x"))
        return [
            set_("setDoTake_T", "True", "DE", self.works(self.bolt, "x"), waiting, _is(mine, "I"), x=True),
            set_("setDoTake_F1", "False", "DE", Compare("=", queue, _int(0))),
            set_("setDoTake_F2", "False", "DE", waiting, several, none_is("I")),
            set_("setDoTake_F2a", "False", "DE", waiting, single, Compare("<>", one, Value("I"))),
            set_("setDoEmit_T", "True", "No", self.works(self.bolt, "x"), _is(mine, "E"), x=True),
            set_("setDoEmit_F1", "False", "No", several, none_is("E")),
            set_("setDoEmit_F1a", "False", "No", single, Compare("<>", one, Value("E"))),
        ]

    # the system, (10) to (13)

    def groups(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """Who gets a tuple, and how that is called: one of those who hear it, or all; of those who are looked at."""
        heard = self.topology.listeners(name)
        known = tuple(b for b in heard if b in self.looked_at)
        if self.topology.routing == "all":
            return [("", known)] if heard else []
        return [(f"_{b}", (b,)) for b in known] + ([("_elsewhere", ())] if len(known) < len(heard) else [])

    def delivered(self, to: tuple[str, ...]) -> tuple[Update, ...]:
        if not to:
            return ()
        if len(to) == 1:
            cell = self.at("L", to[0])
            return (Update("L", cell.indices, _plus(cell, 1)),)
        each = Cell("L", ("l",))
        cases: list[tuple[Formula, Term]] = [
            (Compare("=", Process("l"), Process(f"#{self.number[b]}")), _plus(each, 1)) for b in to
        ]
        return (Update("L", ("l",), Cases((*cases, (Truth(True), each)))),)

    @property
    def done(self) -> tuple[Update, ...]:
        return Update("CanTimeElapse", (), Value("True")), Update("SetFlags", (), Value("DT"))

    def spouts(self) -> list[Transition]:
        out = []
        for s, spout in self.sources.items():
            stime = self.at("Stime", s)
            guard = And((
                Compare("<", _real(spout.gap), stime), _flag("DoTake", "False"), _flag("DoEmit", "False"),
                _flag("SetFlags", "No"),
            ))  # fmt: skip
            for name, to in self.groups(s):
                reset = Update("Stime", stime.indices, _real(Fraction(0)))
                out.append(Transition(f"spout_emit_{s}{name}", (), guard, (*self.delivered(to), reset, *self.done)))
        return out

    def bolts(self) -> list[Transition]:
        out = []
        for b, bolt in self.workers.items():
            state, left, queue = self.at("B", b, "x"), self.at("P", b, "x"), self.at("L", b)
            works, free = self.works(b, "x"), _flag("SetFlags", "No")
            for name, to in self.groups(b):
                flag = (_flag("DoEmit", "True"),) if b == self.bolt else ()
                idle = Update("B", state.indices, Value("I"))
                guard = And((_is(state, "E"), works, free, *flag))
                updates = (*self.delivered(to), idle, *self.done)
                out.append(Transition(f"bolt_emit_{b}{name}", ("x",), guard, updates))
            flag = (_flag("DoTake", "True"),) if b == self.bolt else ()
            guard = And((_is(state, "I"), Compare(">=", queue, _int(1)), works, free, *flag))
            updates = (
                Update("L", queue.indices, _plus(queue, -1)), Update("B", state.indices, Value("X")),
                Update("P", left.indices, _real(bolt.time)), *self.done,
            )  # fmt: skip
            out.append(Transition(f"bolt_take_{b}", ("x",), guard, updates))
        if not self.whole:  # a step of another one, which may be able to do one whenever flags are set
            out.append(Transition("elsewhere", (), _flag("SetFlags", "No"), self.done))
        return out

    def time(self) -> Transition:
        left, state, stime, delay = Cell("P", ("i", "z")), Cell("B", ("i", "z")), Cell("Stime", ("i",)), Cell("C")
        ends: list[tuple[Formula, Term]] = []
        for b in self.looked_at:
            ended = And((
                _is(state, "X"), Compare("=", Process("i"), Process(f"#{self.number[b]}")),
                Compare("<=", Process("z"), Cell("N_proc", ("i",))), Compare("<=", left, delay),
            ))  # fmt: skip
            ends.append((ended, Value("E" if self.topology.listeners(b) else "I")))
        minus = Sum(((_ONE, left), (-_ONE, delay)))
        updates = (
            Update("T", (), Sum(((_ONE, Cell("T")), (_ONE, delay)))),
            Update("P", ("i", "z"), Cases(((Compare("<=", delay, left), minus), (Truth(True), _real(Fraction(0)))))),
            Update("B", ("i", "z"), Cases((*ends, (Truth(True), state)))),
            Update("Stime", ("i",), Cases(((Truth(True), Sum(((_ONE, stime), (_ONE, delay)))),))),
            Update("CanTimeElapse", (), Value("False")),
            Update("SetFlags", (), Value("DT")),
            Update("C", (), Anything()),
        )
        guard = And((Compare("<", _real(Fraction(0)), delay), _flag("CanTimeElapse", "True")))
        return Transition("time_elapse", (), guard, updates)

    def start(self) -> States:
        zero = _real(Fraction(0))
        parts: list[Formula] = [
            Compare("=", Cell("T"), zero), _flag("CanTimeElapse", "True"), _flag("DoTake", "False"),
            _flag("DoEmit", "False"), _flag("SetFlags", "No"), _is(Cell("B", ("i", "x")), "I"),
            Compare("=", Cell("P", ("i", "x")), zero), Compare("=", Cell("Stime", ("i",)), zero),
        ]  # fmt: skip
        for b, bolt in self.workers.items():
            parts.append(Compare("=", self.at("L", b), _int(bolt.initial)))
            if bolt.workers is not ANY:
                parts.append(Compare("=", self.at("N_proc", b), Process(f"#{bolt.workers}")))
        return States(("i", "x"), And(tuple(parts)))


def storm_system(topology: Topology, bolt: str, limit: int, *, upstream: bool = False) -> System:
    """The array-based system of a topology with ``semantics="literal"``; unsafe is a queue of ``limit`` or more at
    ``bolt``, which is the one under analysis.

    With ``upstream`` only those are in it from whom tuples come to the bolt.  The others can do nothing to its queue
    but let time go on by their steps, so they are one step, *elsewhere*, which can always happen: what is proved of
    that system is true of the whole one.

    >>> from pellucid.capacity import figure_1
    >>> from pellucid.capacity.arrays import read_text, write_text
    >>> import dataclasses
    >>> system = storm_system(dataclasses.replace(figure_1(gap="0.8"), semantics="literal"), "B1", 2)
    >>> [t.name for t in system.transitions][:9]
    ['setDoTake_T', 'setDoTake_F1', 'setDoTake_F2', 'setDoTake_F2a', 'setDoEmit_T', 'setDoEmit_F1', 'setDoEmit_F1a',
     'spout_emit_S1_B1', 'spout_emit_S1_B2']
    >>> read_text(write_text(system)) == system
    True
    >>> small = storm_system(dataclasses.replace(figure_1(gap="1.2"), semantics="literal"), "B1", 2, upstream=True)
    >>> [t.name for t in small.transitions][7:]
    ['spout_emit_S1_B1', 'spout_emit_S1_elsewhere', 'bolt_emit_B1_elsewhere', 'bolt_take_B1', 'elsewhere',
     'time_elapse']
    """
    topology.bolt(bolt)
    if topology.semantics != "literal":
        raise UsageError('the array-based system is that of the paper: it needs a topology with semantics="literal".')
    if topology.observe != "any":
        raise UsageError('the array-based system looks at every state, as the paper does: observe="any".')
    for name, b in topology.bolts.items():
        if b.ratio != 1:
            raise UsageError(f"bolt {name} emits {b.ratio} tuples for each: the paper's system has one for one only.")
        if b.queue != "shared":
            raise UsageError(f"bolt {name} has a queue per worker: the paper's system has one that all share.")
    if limit < 1:
        raise UsageError(f"limit: expected 1 or more tuples, got {limit}.")
    who = cone(topology, bolt) if upstream else (tuple(topology.spouts), tuple(topology.bolts))
    storm = _Storm(topology, bolt, *who)
    op: Op = ">="
    return System(
        (("state", ("I", "E", "X")), ("flag", ("DT", "DE", "No"))),
        (),
        (
            ("T", "real"), ("C", "real"), ("CanTimeElapse", "bool"), ("DoTake", "bool"), ("DoEmit", "bool"),
            ("SetFlags", "flag"),
        ),
        (("B", 2, "state"), ("L", 1, "int"), ("P", 2, "real"), ("Stime", 1, "real"), ("N_proc", 1, "proc")),
        storm.start(),
        (States((), Compare(op, storm.at("L", bolt), _int(limit))),),
        (),
        (*storm.flags(), *storm.spouts(), *storm.bolts(), storm.time()),
    )  # fmt: skip
