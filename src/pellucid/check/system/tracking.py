"""Which keys a question has to track: all of them, or as many as can be seen together.

What a step keeps for a key depends on that key's events alone.  So what a push shows depends on what is kept for the
keys **of that push**, and on what is kept under no key.  A push has at most as many keys as there are different keys
asked for in it (one for ``x.key_by(f)``, two for a merge of two keyed sources); a formula that looks at m pushes
together sees at most m times as many.  Let K be that number.

* If the keys can be listed and are few, each has a lane, and nothing else need be said.  Of keys that are given up
  (``forget(after=N)``) no more than N are held at a time: with N lanes nothing is left out, however many there are.
* Else a question about single pushes (or m together) is asked of systems that know **K arbitrary keys**.  If some run
  breaks it, take the keys of the pushes in which that is seen: a system that tracks these does in those pushes what the
  run does.  So if none of these systems breaks it, no run does.

  - Where every event of a source matters for its own key only, the other keys' events can be left out of the run (their
    sources are silent there): it is enough to look at runs that have K keys at all (`Came`).  A run that breaks the
    property is one as it stands.
  - Else other keys' events come, and what is made of them is not known (`Chosen`); pushes that show them are not
    judged.

  A formula may look at all pushes before (``O``, ``H``, ``S``), if that which it wants of them holds in silence: see
  `pellucid.check.keyed`.

* Where a key is computed from what is kept under another key, and where a formula looks at all pushes in another way,
  no number is enough: K keys then refute and do not prove, unless the keys can be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from pellucid.check.system.variables import Came, Chosen, Held, Lanes, Listed, groups
from pellucid.errors import UsageError
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.check.system.run import SystemRun

_ALL, _FEW, _TRIED = 12, 4, 4096


@dataclass(frozen=True)
class Track:
    """What a question looks at: so many pushes together (None: all), with so many more keys; or a number of lanes that
    is known to be enough.

    With ``whole`` no event may be left out of a run: something is assumed about what comes.  ``thinned``: so many
    pushes are enough only where events may be.
    """

    pushes: int | None = 1
    more: int = 0
    lanes: int | None = None
    whole: bool = False
    thinned: bool = False


@dataclass(frozen=True)
class Keys:
    """What the lanes of a system are worth.

    ``exact``: every key has a lane.  ``enough``: what holds of the tracked keys holds of all, for the question that
    they were planned for. ``chosen``: other keys' events come, too.
    """

    graph: Graph
    exact: bool
    enough: bool
    chosen: bool
    lanes: int
    why: str = ""
    apart: bool = False  # every event of a source matters for its own key only
    sources: tuple[str, ...] = ()  # whose events are under keys that are not all tracked


@dataclass(frozen=True)
class Asked:
    """A key that is asked for in a push: by the steps of which group, its leaves, and when."""

    group: int
    key: tuple[Expr, ...]
    present: Expr


class KeyRecorder(Came):
    """One lane, and a list of what is asked for."""

    def __init__(self, group: int, asked: list[Asked]) -> None:
        super().__init__(f"key {group}", 1)
        self.group, self.asked = group, asked

    def _find(self, run: SystemRun, key: tuple[Expr, ...], present: Expr) -> tuple[Expr, ...]:
        if present.op != "const" or present.value:
            self.asked.append(Asked(self.group, key, present))
        return super()._find(run, key, present)


@dataclass
class KeyPlan:
    """The lanes of each group of steps, to be made afresh for every system."""

    number: list[int]  # of each step, its group
    make: dict[int, Callable[[], Lanes]]
    chosen: dict[int, list[tuple[Type, ...]]]  # the keys to choose, by group
    keys: Keys


def plan(
    graph: Graph,
    track: Track,
    asked: Sequence[Asked],
    source_of: Mapping[int, str],
    step_of: Mapping[int, str],
    pool: Callable[[int], Sequence[Any] | None],
    guessed: int,
) -> KeyPlan:
    """What to track, from what a first run on symbolic events asked for.

    ``source_of`` has the source of each input variable, ``step_of`` the step of each state variable; ``pool`` the
    values of a variable.  From ``guessed`` on, variables are of events that may wait where a queue is not followed.
    """
    forgets = {i: node for i, node in enumerate(graph.nodes) if node.processor.forgets}
    number = _joined(groups(graph), [a for a in asked if a.group not in forgets])
    of = {g: list(dict.fromkeys(a.key for a in asked if number[a.group] == g)) for g in sorted(set(number) - {-1})}
    step_group = {node.id: g for node, g in zip(graph.nodes, number, strict=True)}
    fed = {number[a.group]: set[int]() for a in asked}
    for a in asked:
        fed[number[a.group]] |= {
            step_group.get(step_of[v], -1) for v in _variables(a.key, a.present) if v in step_of
        } - {-1}
        if any(v >= guessed for v in _variables(a.key, a.present)):
            fed[number[a.group]] |= set(step_group.values()) - {-1}  # a guess stands for what any step may keep
    feeding = set().union(*fed.values()) if fed else set()
    apart = not track.whole and _apart(graph, asked, source_of, step_of, step_group, guessed)
    all_together = track.pushes is None or (track.thinned and not apart)
    make: dict[int, Callable[[], Lanes]] = {}
    chosen: dict[int, list[tuple[Type, ...]]] = {}
    inexact: list[int] = []
    for g, keys in of.items():
        need = max(1, len(keys)) * (track.pushes or 2) + track.more
        values = possible(keys, pool)
        if g in forgets:
            make[g] = _held(g, forgets[g], None if values is None else len(values))
            continue
        most = _ALL if all_together or g in feeding else need if apart else max(need, _FEW)
        if track.lanes is not None:
            make[g] = _came(g, track.lanes)
        elif values is not None and len(values) <= most:
            make[g] = partial(Listed, values)
        else:
            inexact.append(g)
            make[g] = _came(g, need)
            chosen[g] = [tuple(e.type for e in keys[0])] * need if keys else []
    lanes = max((len(made().marks) for made in make.values()), default=0)
    if track.lanes is not None or not inexact:
        return KeyPlan(number, make, {}, Keys(graph, True, True, False, lanes))
    open_ = {a.key for a in asked if number[a.group] in inexact}
    keyed = tuple(sorted({source_of[v] for key in open_ for v in _variables(key) if v in source_of}))
    blind = bool(feeding & set(inexact))
    enough = not all_together and not blind
    if apart or not enough:
        why = ""
        if blind:
            why = "a key is computed from what is kept under another key, of which there are too many to list"
        elif not enough:
            why = "it looks at all pushes together, and there are too many keys to list"
        return KeyPlan(number, make, {}, Keys(graph, False, enough, False, lanes, why, apart, keyed))
    return KeyPlan(number, make, chosen, Keys(graph, False, True, True, lanes, "", apart, keyed))


def _held(group: int, node: Node, keys: int | None) -> Callable[[], Lanes]:
    """As many lanes as keys can be held at a time, which is exact."""
    after = node.k or 1
    many = after if keys is None else max(1, min(keys, after))
    if many > _ALL:
        raise UsageError(
            f"{node.describe()}: up to {many:,} keys are held at a time, and a check follows {_ALL} of them: ask it "
            f"with after={_ALL} or less, or with fewer keys, as in ints=range(0, 4)"
        )
    return lambda: Held(_name(group), many, after)


def _came(group: int, many: int) -> Callable[[], Lanes]:
    return lambda: Came(_name(group), many)


def chosen_lanes(group: int, inputs: Sequence[Sequence[Expr]]) -> Lanes:
    """Lanes of keys that come with the first push."""
    return Chosen(_name(group), inputs)


def _name(group: int) -> str:
    return f"key {group}"


def _variables(*roots: Expr | tuple[Expr, ...]) -> set[int]:
    flat = [e for root in roots for e in (root if isinstance(root, tuple) else (root,))]
    return {e.value for e in walk(*flat) if e.op == "var"}


def _joined(number: list[int], asked: Sequence[Asked]) -> list[int]:
    """Groups in which the same key is asked for share their lanes: two pipelines side by side."""
    first: dict[tuple[Expr, ...], int] = {}
    other: dict[int, int] = {}

    def find(g: int) -> int:
        while g in other:
            g = other[g]
        return g

    for a in asked:
        here, there = find(a.group), find(first.setdefault(a.key, a.group))
        if here != there:
            other[max(here, there)] = min(here, there)
    return [find(g) for g in number]


def _apart(
    graph: Graph,
    asked: Sequence[Asked],
    source_of: Mapping[int, str],
    step_of: Mapping[int, str],
    group: Mapping[str, int],
    guessed: int,
) -> bool:
    """Whether every event of a source matters for its own key only, so that other keys' events can be left out of a
    run."""
    keys: dict[str, tuple[Expr, ...]] = {}
    for a in asked:
        used = _variables(a.key, a.present)
        sources = {source_of[v] for v in used if v in source_of}
        if any(v in step_of or v >= guessed for v in used) or len(sources) != 1:
            return False
        if keys.setdefault(sources.pop(), a.key) != a.key:
            return False
    # steps that remember something under no key
    keeps = {step for step in step_of.values() if group.get(step, 0) == -1}
    reached: list[set[str]] = []
    for node in graph.nodes:
        from_ = {node.id} if node.kind == "source" else set().union(*(reached[j] for j in node.inputs))
        reached.append(from_)
        if node.id in keeps and from_ & set(keys):
            return False
    return True


def possible(
    keys: Sequence[tuple[Expr, ...]], pool: Callable[[int], Sequence[Any] | None]
) -> list[tuple[Any, ...]] | None:
    """All values that these keys can have; None if they are too many, or not known.

    >>> from pellucid.internal.expr import node as n
    >>> v = n.var(0, INT)
    >>> possible([(n.binary("mod", v, n.const(3)),)], lambda i: None)
    [(0,), (1,), (2,)]
    """
    found: dict[tuple[Any, ...], None] = {}
    for key in keys:
        used = sorted(_variables(key))
        pools = [pool(v) for v in used]
        rows = 1
        for p in pools:
            rows = rows * len(p) if p is not None else _TRIED + 1
        if rows <= _TRIED:
            for row in product(*[p or () for p in pools]):
                leaves: Any = dict(zip(used, row, strict=True))
                try:
                    found[tuple(evaluate(e, leaves) for e in key)] = None
                except (ArithmeticError, ValueError, UserRaise):
                    continue
        else:
            parts = [_values(e, pool) for e in key]
            if any(p is None for p in parts):
                return None
            found |= dict.fromkeys(product(*[p or () for p in parts]))
        if len(found) > 4 * _ALL:
            return None
    return list(found)


def _values(e: Expr, pool: Callable[[int], Sequence[Any] | None]) -> list[Any] | None:
    """The values that an expression can have, or more; None: too many."""
    if e.op == "const":
        return [e.value]
    if e.op == "ite":
        yes, no = (_values(a, pool) for a in e.args[1:])
        return None if yes is None or no is None else list(dict.fromkeys([*yes, *no]))
    if e.type == BOOL:
        return [False, True]
    if isinstance(e.type, EnumType):
        return list(e.type.members)
    if e.op == "var":
        known = pool(e.value)
        return list(known) if known is not None else None
    if e.op == "after":
        return _values(e.args[-1], pool)
    if e.op == "mod" and e.args[1].op == "const" and e.type == INT and 0 < abs(e.args[1].value) <= 4 * _ALL:
        d = e.args[1].value
        return list(range(d)) if d > 0 else list(range(d + 1, 1))
    return None
