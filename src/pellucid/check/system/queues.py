"""A queue of a system during one push (of a keyed step: the queue of one key), and what becomes of what does not fit.

A system has finitely many variables, a queue of a pipeline holds whatever comes.  Three ways to deal with that:

* ``overflow``: a push that needs more than the bound stops the system, and says so; what happens up to there is exact;
* ``deep``: the length is any number, and exact; of the events only the first few are known.  One that moves up from
  behind them is
  **any** event that the stream could have carried: the system can do all that the pipeline can, and perhaps more;
* ``many``: the same with a length that is known up to the bound only, so that there are finitely many states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.check.system.domains import Domain
from pellucid.check.system.variables import FALSE, Lanes, Slot, Variable, untracked
from pellucid.errors import PellucidError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import substitute, tidy
from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type, simplest
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.check.system.run import SystemRun

# Events that a system does not know: any that a stream could have carried.
#
# Behind the first events of a queue there are others, of which nothing is kept.  When one moves up it is guessed: an
# event of the stream, computed as the stream computes it, from sources and state that may be anything.  Each guess is
# an input of the system, in the form of a source of its own, so that every engine knows what to do with it; `only`
# takes them out of a push again.

_MARK = " ~ "  # no id of a step or a source begins so


class NoGuessError(PellucidError):
    """An event depends on something whose values are not known."""


def is_guess(name: str) -> bool:
    """Whether a source is none of the pipeline, but a guess.

    >>> is_guess(" ~ join.0 behind 3: x"), is_guess("x")
    (True, False)
    """
    return name.startswith(_MARK)


class Guess:
    """The guesses of one system: sources beside its own, whose variables are numbered from ``mark`` on."""

    def __init__(
        self,
        domain: Domain,
        state: Sequence[Variable],
        inputs: Sequence[Variable],
        sources: Mapping[str, Type],
        first: int,
        mark: int,
    ) -> None:
        self.domain, self.state, self.real, self.types, self.first, self.mark = (
            domain,
            state,
            inputs,
            sources,
            first,
            mark,
        )
        self.sources: list[tuple[str, Type]] = []
        self.inputs: list[Variable] = []
        self._owner: list[tuple[Type, int]] = []  # of each input: the type of its source, and its place there
        self._stand_in: dict[
            str, tuple[Any, str]
        ] = {}  # of a source that is guessed: in which push, and for which source it stands
        self._copies = 0

    def source(self, name: str, t: Type) -> list[Expr]:
        """One more source: its presence and the leaves of its event."""
        name = f"{_MARK}{name}"
        while any(name == known for known, _ in self.sources):
            name += "'"
        self.sources.append((name, t))
        kinds = [(BOOL, "present", 0), *((kind, "leaf", j) for j, (_, kind) in enumerate(t.leaves()))]
        made: list[Expr] = []
        for at, (kind, role, j) in enumerate(kinds):
            made.append(n.var(self.mark + len(self.inputs), kind))
            self.inputs.append(Variable(f"{name}.{role}{j}", kind, role=role, of=name, at=j))
            self._owner.append((t, at))
        return [made[0], *tidy(t, made[1:])]

    def chance(self, name: str) -> Expr:
        """Something that may be so or not."""
        return self.source(name, BOOL)[0]

    def event(self, name: str, slots: Sequence[Slot], otherwise: Sequence[Expr]) -> tuple[Expr, ...]:
        """Any event that one of the slots could carry in some push; where what was guessed makes none, the other
        one."""
        out = tuple(otherwise)
        for k, slot in enumerate(slots):
            taken = self.chance(f"{name}: event {k}") if k else n.TRUE
            present, *leaves = self._copied(name, [slot.present, *slot.leaves])
            here = n.and_(taken, present)
            out = tuple(n.ite(here, a, b) for a, b in zip(leaves, out, strict=True))
        return out

    @property
    def pushes(self) -> list[dict[str, str]]:
        """For each push that is guessed, in part, what stands there for which of the pipeline's sources: what is
        assumed of a push holds of these, too."""
        out: dict[Any, dict[str, str]] = {}
        for guessed, (push, real) in self._stand_in.items():
            out.setdefault(push, {})[real] = guessed
        return list(out.values())

    def _copied(self, name: str, roots: Sequence[Expr]) -> list[Expr]:
        """The same over other sources and another state."""
        made: dict[int, Expr] = {}
        self._copies += 1
        for e in list(walk(*roots)):
            if e.op != "var" or e.value in made:
                continue
            i = e.value
            if i >= self.mark:
                self._copy_guess(name, i - self.mark, made)
            elif i >= self.first:
                self._copy_input(name, i - self.first, made)
            else:
                made[i] = self._any_state(name, i)
        return substitute(roots, _By(made))

    def _copy_guess(self, name: str, i: int, made: dict[int, Expr]) -> None:
        t, at = self._owner[i]
        copied = self.inputs[i].of
        for j, e in enumerate(self.source(f"{name}: guess", t)):
            made[self.mark + i - at + j] = e
        if copied in self._stand_in:  # it was guessed for a guess: of yet another push
            push, real = self._stand_in[copied]
            self._stands_for(real, (self._copies, push))

    def _copy_input(self, name: str, i: int, made: dict[int, Expr]) -> None:
        v = self.real[i]
        if v.role not in ("present", "leaf"):
            made[self.first + i] = self.chance(f"{name}: {v.name}") if v.type == BOOL else self._any_of(name, v)
            return
        head = next(j for j, w in enumerate(self.real) if w.role == "present" and w.of == v.of)
        for j, e in enumerate(self.source(f"{name}: {v.of}", self.types[v.of])):
            made[self.first + head + j] = e
        self._stands_for(v.of, self._copies)

    def _stands_for(self, real: str, push: Any) -> None:
        """The last source that was made stands for one of the pipeline's, in a push that is guessed."""
        self._stand_in[self.sources[-1][0]] = push, real

    def _any_state(self, name: str, i: int) -> Expr:
        """Any value of a variable of the state."""
        v = self.state[i]
        if v.role == "stopped":
            return n.const(0)  # an event came while nothing had stopped
        if v.type == INT and v.size is not None and self.domain.modulus is None:
            value: Expr = n.const(0)
            for bit in range((v.size - 1).bit_length()):
                value = n.add(value, n.ite(self.chance(f"{name}: {v.name} bit {bit}"), n.const(1 << bit), n.const(0)))
            return n.ite(n.lt(value, n.const(v.size)), value, n.const(0))
        return self._any_of(name, v)

    def _any_of(self, name: str, v: Variable) -> Expr:
        """Any value of a variable without a bound."""
        if v.type == FLOAT or (v.type == INT and self.domain.values is not None and self.domain.modulus is None):
            raise NoGuessError(f"{v.name} may have any value, which no source of this domain brings")
        _, leaf = self.source(f"{name}: {v.name}", v.type)
        return leaf


class _By(list[Expr]):
    """Variables by number."""

    def __init__(self, made: dict[int, Expr]) -> None:
        super().__init__()
        self.made = made

    def __getitem__(self, i: Any) -> Any:
        return self.made[i]


@dataclass(frozen=True)
class Room:
    """How many events of each queue a system knows, and what it does with more.

    ``watch`` are the queues that may stop the system, None all of them: what a question does not depend on may overflow
    unseen.

    >>> Room({"join.0": 5}).of("join.0"), Room({"join.0": 5}).of("join.1"), Room(2).of("join.1")
    (5, 3, 2)
    """

    bounds: int | Mapping[str, int] = 3
    beyond: str = "overflow"  # or deep, many
    watch: frozenset[str] | None = None

    def of(self, id: str) -> int:
        """The bound of one queue."""
        return self.bounds if isinstance(self.bounds, int) else self.bounds.get(id, 3)


class Queue:
    """A queue during one push: what it held, then what came, then what is left.

    ``slots`` come at once; or one by one (`add`), where the queue is that of a key: those of any key are ``like`` them.
    """

    def __init__(
        self,
        run: SystemRun,
        id: str,
        step: str,
        kinds: Sequence[Type],
        slots: Sequence[Slot] = (),
        takes: int = 0,
        mark: str = "",
        like: Sequence[Slot] = (),
        anew: Expr | None = None,
    ) -> None:
        self.run, self.id, self.step, self.kinds, self.mark = run, id, step, kinds, mark
        self.inner = run.room is None
        self.beyond = "overflow" if run.room is None else run.room.beyond
        self.many = FALSE  # more wait than are counted
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        behind = 0
        if run.room is None:  # a window's inner run: the queue is a list that starts empty with the run
            self.length: Expr = run.cells.get((step, f"{id}.length{mark}"), n.const(0))
            self.items = list(run.held.get(id + mark, []))
            self.bound = len(self.items) + len(slots)
        else:
            self.bound = run.room.of(id)
            size = {"overflow": self.bound + 1, "many": self.bound + 2}.get(self.beyond)
            self.length = run.cell(step, f"{id}.length{mark}", INT, 0, size, "length", id, anew)
            self.items = [
                tuple(
                    run.cell(
                        step,
                        f"{id}.{i}.{j}{mark}",
                        t,
                        simplest(t),
                        run.domain.modulus if t == INT else None,
                        "item",
                        id,
                        anew,
                    )
                    for j, t in enumerate(self.kinds)
                )
                for i in range(self.bound)
            ]
            if self.beyond == "many":
                self.many = n.lt(n.const(self.bound), self.length)
            if self.beyond != "overflow":  # room for all that may be taken: what moves up was not known
                assert run.guess is not None
                behind = max(takes, len(slots), len(like))
                for j in range(behind):
                    there = n.or_(self.many, n.lt(n.const(self.bound + j), self.length))
                    some = run.guess.event(
                        f"{id}{mark} behind {self.bound + j}", slots or like, self.items[-1] if self.items else empty
                    )
                    self.items.append(tuple(n.ite(there, a, b) for a, b in zip(some, empty, strict=True)))
        for at, s in enumerate(slots):
            self.add(s.present, s.leaves, room=at < behind)

    def add(self, present: Expr, leaves: Sequence[Expr], *, room: bool = False) -> None:
        """An event that may come.  There is room for all that comes, beyond the bound; what stays must fit again."""
        if not room:
            self.items.append(tuple(n.const(simplest(t)) for t in self.kinds))
        known = n.and_(present, n.not_(self.many))  # else it is one of those behind, of which any may be any event
        for i in range(len(self.items)):
            here = n.and_(known, n.eq(self.length, n.const(i)))
            self.items[i] = tuple(n.ite(here, a, b) for a, b in zip(leaves, self.items[i], strict=True))
        self.length = n.ite(present, n.add(self.length, n.const(1)), self.length)

    @property
    def front(self) -> tuple[Expr, ...]:
        """The event that came first of those that wait."""
        return self.items[0] if self.items else tuple(n.const(simplest(t)) for t in self.kinds)

    @property
    def some(self) -> Expr:
        return n.not_(n.eq(self.length, n.const(0)))

    def take(self, when: Expr) -> None:
        empty = tuple(n.const(simplest(t)) for t in self.kinds)
        shifted = [*self.items[1:], empty][: len(self.items)]  # of a window's inner run there may be no room at all
        self.items = [
            tuple(n.ite(when, a, b) for a, b in zip(new, old, strict=True))
            for new, old in zip(shifted, self.items, strict=True)
        ]
        less = n.sub(self.length, n.const(1))
        if self.beyond == "many":  # there were more than the bound: as many may be left, or the bound
            assert self.run.guess is not None
            more = n.and_(self.many, n.lt(n.const(self.bound), self.length))
            less = n.ite(n.and_(more, self.run.guess.chance(f"{self.id} has more")), self.length, less)
        self.length = n.ite(when, less, self.length)

    def store(self) -> None:
        run = self.run
        if self.beyond == "many":
            most = n.const(self.bound + 1)
            self.length = n.ite(n.lt(most, self.length), most, self.length)
        run.cells[self.step, f"{self.id}.length{self.mark}"] = self.length
        if self.inner:
            run.held[self.id + self.mark] = self.items
            return
        assert run.room is not None
        if self.beyond == "overflow" and (run.room.watch is None or self.id in run.room.watch):
            run.overflow = n.or_(run.overflow, n.lt(n.const(self.bound), self.length))
        for i in range(self.bound):
            for j in range(len(self.kinds)):
                run.cells[self.step, f"{self.id}.{i}.{j}{self.mark}"] = self.items[i][j]


def fronts_of(
    run: SystemRun, node: Node, ins: list[list[Slot]], lanes: Lanes | None
) -> list[tuple[Slot, list[tuple[Expr, ...]]]]:
    """What a step consumes: from each input one event, wherever all have one.  The slots have no leaves yet."""
    first = ins[0][0]
    together = all(
        len(slots) == 1
        and slots[0].present is first.present
        and slots[0].lanes == first.lanes
        and slots[0].unsure is first.unsure
        for slots in ins
    )
    ids = [f"{node.id}.{at}" for at in range(len(ins))]
    # In a window's inner run presence may agree in one push and not in another: then something may wait.
    if together and not any(held.startswith(f"{node.id}.") for held in run.held):
        run.lengths |= {id: n.const(0) for id in ids if node.queued}
        return [(first, [slots[0].leaves for slots in ins])]
    kinds = [[e.type for e in slots[0].leaves] for slots in ins]
    if lanes is None:
        mine = [tuple(slots) for slots in ins]
        key = None
        if run.room is not None:
            key = frozenset((slots, run.room.of(id)) for slots, id in zip(mine, ids, strict=True))
        if key is not None and key in run.joined:  # `a + b` and `b + a`: the same events wait, and meet
            lengths, met = run.joined[key]
            run.lengths |= {id: lengths[slots] for id, slots in zip(ids, mine, strict=True)}
            return [(slot, [fronts[slots] for slots in mine]) for slot, fronts in met]
        takes = max(len(slots) for slots in ins)
        queues = [Queue(run, id, node.id, t, slots, takes) for id, t, slots in zip(ids, kinds, ins, strict=True)]
        made = _all_first(queues, takes)
        run.lengths |= {q.id: q.length for q in queues}
        if key is not None:
            lengths = {slots: q.length for slots, q in zip(mine, queues, strict=True)}
            run.joined[key] = lengths, [(slot, dict(zip(mine, fronts, strict=True))) for slot, fronts in made]
        return made
    most = sum(len(slots) for slots in ins)  # each that comes completes a front at most once
    queues_of = [
        [
            Queue(run, id, node.id, t, takes=most, mark=mark, like=slots, anew=lanes.anew.get(mark))
            for id, t, slots in zip(ids, kinds, ins, strict=True)
        ]
        for mark in lanes.marks
    ]
    return _by_lane(run, node, ins, lanes.marks, queues_of)


def _all_first(queues: list[Queue], takes: int) -> list[tuple[Slot, list[tuple[Expr, ...]]]]:
    """Without keys: in a push no step fires more often than its busiest input brings events, so all that came is queued
    first."""
    out = []
    for _ in range(takes):
        ready = n.all_of(q.some for q in queues)
        out.append((Slot(ready, ()), [q.front for q in queues]))
        for q in queues:
            q.take(ready)
    for q in queues:
        q.store()
    return out


def _by_lane(
    run: SystemRun, node: Node, ins: list[list[Slot]], marks: Sequence[str], queues: list[list[Queue]]
) -> list[tuple[Slot, list[tuple[Expr, ...]]]]:
    """With keys: input by input and event by event, as the step fires with the event that completes a front of its
    key."""
    out = []
    for at, slots in enumerate(ins):
        for s in slots:
            ready_somewhere: Expr = FALSE
            fronts: list[tuple[Expr, ...]] | None = None
            for here, lane in zip(s.lanes, queues, strict=False):
                lane[at].add(n.and_(s.present, here), s.leaves, room=lane[at].beyond != "overflow")
                ready = n.and_(s.present, here)
                for q in lane:
                    ready = n.and_(ready, q.some)
                now = [q.front for q in lane]
                fronts = (
                    now
                    if fronts is None
                    else [
                        tuple(n.ite(ready, a, b) for a, b in zip(x, y, strict=True))
                        for x, y in zip(now, fronts, strict=True)
                    ]
                )
                ready_somewhere = n.or_(ready_somewhere, ready)
                for q in lane:
                    q.take(ready)
            assert fronts is not None
            out.append((Slot(ready_somewhere, (), s.lanes, untracked(s)), fronts))
    for at in range(len(ins)):
        longest: Expr = n.const(0)
        for lane in queues:
            lane[at].store()
            longest = n.ite(n.lt(longest, lane[at].length), lane[at].length, longest)
        run.lengths[f"{node.id}.{at}"] = longest
    return out
