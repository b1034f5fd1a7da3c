"""What a transition system is made of: its variables, and the events that its streams may carry in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type, simplest
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.processors import Cell

if TYPE_CHECKING:
    from pellucid.check.system.run import SystemRun


@dataclass(frozen=True)
class Variable:
    """A variable of the state or of the input.

    ``name`` is for people; ``role`` says what a variable is, and ``of`` what it belongs to:

    * of the input: ``present`` (of a source), ``leaf`` (the ``at``-th part of a source's event), ``lost`` (whether a
      step loses its events), ``choice`` (anything else);
    * of the state: ``stopped``, ``state`` and ``event`` (of a step), ``number`` (of a state that is any object),
      ``count`` (of a step: how many events it has seen), ``length`` and ``item`` (of a queue); ``came`` and ``before``
      (whether there was an event of a stream, a part of the last one) and ``memory`` (other bits of the past); ``key``
      (which keys are tracked; of the input: the key that is chosen before the first push).

    ``size`` is the number of its values 0 … size-1 where it is a bounded counter.
    """

    name: str
    type: Type
    start: Any = None
    size: int | None = None
    role: str = "choice"
    of: str = ""
    at: int = 0


TRUE, FALSE = n.const(True), n.const(False)


@dataclass(frozen=True)
class Slot:
    """An event that a stream may carry in a step: whether it does, and its leaves.

    Of a keyed stream ``lanes`` says which of the tracked keys the event is under (at most one), and ``unsure`` where
    nothing is known of the event, because it comes from what a step keeps for a key that is not tracked.
    """

    present: Expr
    leaves: tuple[Expr, ...]
    lanes: tuple[Expr, ...] = ()
    unsure: Expr = FALSE

    @property
    def known(self) -> Expr:
        """It is there, and it is what its leaves say."""
        return n.and_(self.present, n.not_(self.unsure))


# Which keys are tracked, and what a step keeps for each of them: a lane is the state of one key.
#
# Four ways to give keys a lane:
#
# * `Listed`: there are few keys, and each has its lane: nothing is left out;
# * `Came`: the first keys that come get the lanes, in that order; a push with one key more ends the run there
#   (``run.beyond``), so what is left are the runs with that many keys, exactly as they are;
# * `Chosen`: keys that are chosen before the run begins have a lane; events under other keys come and go, and nothing
#   is known of what steps emit for them (``Slot.unsure``);
# * `Held`: keys that a ``forget`` holds, of which there are never more than it says.


class Lanes:
    """The lanes of streams that are under the same keys; ``marks`` tell their variables apart."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.anew: dict[str, Expr] = {}  # of each lane, whether what is kept there starts again in this push
        self._found: dict[tuple[int, ...], tuple[Expr, ...]] = {}

    def find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        """For each lane, whether it is that of this key."""
        asked = (run.pushed, *map(id, key), id(present))  # what is found in one push is not so in the next
        if asked not in self._found:
            self._found[asked] = self._find(run, key, present)
        return self._found[asked]

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        raise NotImplementedError


class Listed(Lanes):
    """One lane for each key."""

    def __init__(self, values: Sequence[tuple[Any, ...]]) -> None:
        super().__init__()
        self.values = values
        self.marks = [f"[{', '.join(str(getattr(v, 'name', v)) for v in key)}]" for key in values]

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        return tuple(_same(key, [n.const(v) for v in value]) for value in self.values)


class Came(Lanes):
    """A lane for each of the first keys that come; with no limit, for all of them (in a window, where few events
    come)."""

    def __init__(self, name: str, many: int | None) -> None:
        super().__init__()
        self.name, self.limit = name, many
        if many is not None:
            self.marks = _marks(many)

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        if self.limit is None:
            self.marks.append(f"@{len(self.marks) + 1}")
        out = []
        missing = n.and_(present, _is_a_key(key))
        known = []
        for mark in self.marks:
            used = run.cell(self.name, f"used{mark}", BOOL, False, None, "key")
            held = _key_cells(run, self.name, mark, key)
            known.append((used, held))
            hit = n.and_(used, _same(key, held))
            missing = n.and_(missing, n.not_(hit))
            out.append(hit)
        before: Expr = TRUE
        for i, (mark, (used, held)) in enumerate(zip(self.marks, known, strict=True)):
            takes = n.and_(missing, n.and_(before, n.not_(used)))
            out[i] = n.or_(out[i], takes)
            run.cells[self.name, f"used{mark}"] = n.or_(used, takes)
            for j, (new, old) in enumerate(zip(key, held, strict=True)):
                run.cells[self.name, f"key{mark}.{j}"] = n.ite(takes, new, old)
            before = n.and_(before, used)
        run.beyond = n.or_(run.beyond, n.and_(present, n.not_(n.any_of(out))))
        return tuple(out)


class Chosen(Lanes):
    """A lane for each of some keys that are chosen when the run begins."""

    def __init__(self, name: str, keys: Sequence[Sequence[Expr]]) -> None:
        super().__init__()
        self.name, self.given = name, keys  # what is chosen in the first push, as inputs
        self.marks = _marks(len(keys))
        self._keys: list[list[Expr]] = []

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        if not self._keys:
            begun = run.cell(self.name, "begun", BOOL, False, None, "key")
            for mark, given in zip(self.marks, self.given, strict=True):
                old = _key_cells(run, self.name, mark, key)
                self._keys.append([n.ite(begun, a, b) for a, b in zip(old, given, strict=True)])
                for j, e in enumerate(self._keys[-1]):
                    run.cells[self.name, f"key{mark}.{j}"] = e
            run.cells[self.name, "begun"] = TRUE
        out: list[Expr] = []
        free = _is_a_key(key)  # not found yet: two lanes may have been given the same key
        for held in self._keys:
            out.append(n.and_(free, _same(key, held)))
            free = n.and_(free, n.not_(out[-1]))
        return tuple(out)


class Held(Lanes):
    """A lane for each key that a ``forget`` holds.  There are never more than ``after`` of them, so with as many
    lanes, or one for each key, nothing is left out; a key that is given up leaves its lane as it was at first."""

    def __init__(self, name: str, many: int, after: int) -> None:
        super().__init__()
        self.name, self.after = name, after
        self.marks = _marks(many)

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        none, known = n.const(self.after), []
        for mark in self.marks:  # how many events came since the key's last one; as many as that: there is no key
            since = run.cell(self.name, f"since{mark}", INT, self.after, self.after + 1, "key")
            known.append((since, _key_cells(run, self.name, mark, key)))
        hits = [n.and_(n.lt(since, none), _same(key, held)) for since, held in known]
        missing = n.not_(n.any_of(hits))
        out = []
        for mark, hit, (since, held) in zip(self.marks, hits, known, strict=True):
            free = n.and_(missing, n.le(n.const(self.after - 1), since))  # also one that this event gives up
            takes, missing = free, n.and_(missing, n.not_(free))
            out.append(n.or_(hit, takes))
            ends = n.and_(n.not_(out[-1]), n.le(n.const(self.after - 1), since))
            later = n.ite(out[-1], n.const(0), n.ite(ends, none, n.add(since, n.const(1))))
            run.cells[self.name, f"since{mark}"] = n.ite(present, later, since)
            for j, (new, old) in enumerate(zip(key, held, strict=True)):
                after = n.ite(takes, new, n.ite(ends, n.const(simplest(old.type)), old))
                run.cells[self.name, f"key{mark}.{j}"] = n.ite(present, after, old)
            self.anew[mark] = n.and_(present, n.or_(takes, ends))
        return tuple(out)


class Memory:
    """What a step remembers, at the event of a slot: of the event's key, where the stream is keyed."""

    def __init__(
        self,
        run: SystemRun,
        step: str,
        slot: Slot,
        lanes: Lanes | None,
        cells: Sequence[Cell],
    ) -> None:
        self._run, self._step, self._slot = run, step, slot
        self._labels = [cell.label for cell in cells]
        self._places: list[tuple[Expr, str, list[Expr]]] = []
        marks = lanes.marks if lanes is not None else ()
        for mark, here in zip(marks, slot.lanes, strict=False) if slot.lanes else [("", TRUE)]:
            anew = lanes.anew.get(mark) if lanes is not None else None
            now = [run.cell(step, f"{c.label}{mark}", c.type, c.start, c.size, c.role, anew=anew) for c in cells]
            self._places.append((here, mark, now))
        self.now = list(self._places[-1][2])
        for here, _, values in reversed(self._places[:-1]):
            self.now = [n.ite(here, a, b) for a, b in zip(values, self.now, strict=True)]
        self.unsure = untracked(slot)
        self.known = n.and_(slot.present, n.not_(self.unsure))  # it is there, and what is remembered is that of its key

    def keep(self, values: Sequence[Expr]) -> None:
        """What the step remembers after the event."""
        for here, mark, before in self._places:
            when = n.and_(self._slot.present, here)
            for label, new, old in zip(self._labels, values, before, strict=True):
                self._run.cells[self._step, f"{label}{mark}"] = n.ite(when, new, old)


def untracked(slot: Slot) -> Expr:
    """Nothing is known of what a step makes of the event: it is under a key without a lane."""
    if not slot.lanes:
        return slot.unsure
    return n.or_(slot.unsure, n.and_(slot.present, n.not_(n.any_of(slot.lanes))))


def groups(graph: Graph) -> list[int]:
    """For each step the number of the lanes that it shares with all steps whose streams meet its own under a key; -1:
    it is under no key.

    >>> from pellucid import merge, pipeline
    >>> p = pipeline(lambda x, y: merge(x.key_by(lambda v: v % 2), y.key_by(lambda v: v % 2)), x=int, y=int)
    >>> groups(p.graph)
    [-1, -1, 2, 2, 2]
    """
    root = list(range(len(graph.nodes)))

    def find(i: int) -> int:
        while root[i] != i:
            i = root[i]
        return i

    for i, node in enumerate(graph.nodes):
        if node.key is not None and not node.processor.keyed:
            for j in node.inputs:
                a, b = find(i), find(j)
                root[max(a, b)] = min(a, b)
    return [find(i) if node.key is not None else -1 for i, node in enumerate(graph.nodes)]


def _marks(many: int) -> list[str]:
    return [""] if many == 1 else [f"@{i + 1}" for i in range(many)]


def _key_cells(run: SystemRun, name: str, mark: str, key: tuple[Expr, ...]) -> list[Expr]:
    return [
        run.cell(name, f"key{mark}.{j}", e.type, simplest(e.type), run.size(e.type), "key") for j, e in enumerate(key)
    ]


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    return n.all_of(n.eq(x, y) for x, y in zip(a, b, strict=True))


def _is_a_key(key: Sequence[Expr]) -> Expr:
    """NaN is equal to nothing, so no two events are under it: it is not tracked."""
    out: Expr = TRUE
    for e in key:
        if e.type == FLOAT:
            zero = n.const(0.0)
            out = n.and_(out, n.or_(n.le(e, zero), n.lt(zero, e)))
    return out
