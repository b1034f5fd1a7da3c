"""States: a network up to structural congruence, as one value.

A state has, for each position, the items that stand there (a sorted multiset) and the log (a sequence), the types of
private names, and how often ``!`` may still unfold.  Items and records are numbered by a `Store`, so that states are
small and quick to compare.  Private names are called ``~0``, ``~1`` … in an order that depends on nothing but where
they stand: states that differ in them only are one.  Behind a prefix the order of parallel parts is that of the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, permutations, product
from math import factorial, prod
from typing import NamedTuple, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.syntax import network_text, process_text
from pellucid.errors import DataError
from pellucid.internal.base.languages import caret
from pellucid.internal.model import CutShort

# Names: which are free, what is put for them, and binders with names that depend on nothing but their bodies.
#
# The variables of continuations and ``let``, and names that a process makes later, are called by their *height*: how
# many binders stand below them.  A binder's name is then the same wherever it stands, so processes that differ in the
# names of bound variables only are equal, and a closed value can be put in without a clash: no value has such a name in
# it.

Swap = Mapping[str, s.Value]


# ---------------------------------------------------------------- values


def value_names(v: s.Value) -> Iterator[str]:
    """The names in a value, as often as they stand there."""
    match v:
        case s.Param(name):
            yield name
        case s.In(of) | s.Out(of):
            yield from value_names(of)
        case s.Path(parts) | s.Tuple(parts):
            for part in parts:
                yield from value_names(part)
        case s.Packet(key, value):
            yield from value_names(key)
            yield from value_names(value)


def path_of(parts: tuple[s.Value, ...]) -> s.Value:
    """Capabilities one after another, flat.

    >>> path_of((s.Path((s.Out(s.Param("p")), s.In(s.Param("q")))), s.In(s.Param("c")))) == s.Path(
    ...     (s.Out(s.Param("p")), s.In(s.Param("q")), s.In(s.Param("c"))))
    True
    """
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, s.Path) else (p,)))
    return flat[0] if len(flat) == 1 else s.Path(flat)


def value_with(v: s.Value, swap: Swap) -> s.Value:
    """A value with other values for some names."""
    match v:
        case s.Param(name):
            return swap.get(name, v)
        case s.In(of):
            return s.In(value_with(of, swap), v.at)
        case s.Out(of):
            return s.Out(value_with(of, swap), v.at)
        case s.Path(parts):
            return path_of(tuple(value_with(part, swap) for part in parts))
        case s.Packet(key, value):
            return s.Packet(value_with(key, swap), value_with(value, swap), v.at)
        case s.Tuple(parts):
            return s.Tuple(tuple(value_with(part, swap) for part in parts), v.at)


# ---------------------------------------------------------------- processes


def rebuild(
    p: s.Process, value: Callable[[s.Value], s.Value], cont: Callable[[s.Cont], s.Cont],
    process: Callable[[s.Process], s.Process],
) -> s.Process:  # fmt: skip
    """A process whose parts were changed; ``let`` and ``new``, which bind, are the caller's."""
    match p:
        case s.Send(to, what):
            return s.Send(value(to), cont(what) if isinstance(what, s.Cont) else value(what), p.at)
        case s.Receive(source, then, otherwise):
            return s.Receive(value(source), cont(then), process(otherwise), p.at)
        case s.Crypt(key, inside, then):
            return s.Crypt(value(key), value(inside), cont(then), p.at)
        case s.Decrypt(key, inside, then):
            return s.Decrypt(value(key), value(inside), cont(then), p.at)
        case s.Continue(f, given):
            return s.Continue(cont(f), value(given), p.at)
        case s.Replicate(body):
            return s.Replicate(process(body), p.at)
        case s.Par(parts):
            return s.Par(tuple(process(part) for part in parts), p.at)
        case s.Forward(source, to, then, otherwise):
            return s.Forward(value(source), value(to), process(then), process(otherwise), p.at)
        case s.Open(source, give, then, otherwise):
            return s.Open(value(source), value(give), process(then), process(otherwise), p.at)
        case s.Child(body):
            return s.Child(process(body), p.at)
        case s.Let() | s.NewIn():
            raise AssertionError("a binder")
        case _:
            return p


def put(p: s.Process, swap: Swap) -> s.Process:
    """{V/x}P: closed values for variables.

    >>> put(s.Send(s.In(s.Param("x")), s.Param("y")), {"x": s.Param("c")})
    Send(to=In(of=Param(name='c')), what=Param(name='y'))
    """
    if not swap:
        return p
    match p:
        case s.Let(names, value, body):
            return s.Let(names, value_with(value, swap), put(body, _without(swap, *names)), p.at, p.said)
        case s.NewIn(name, kind, body):
            return s.NewIn(name, kind, put(body, _without(swap, name)), p.at, p.said)
        case _:
            return rebuild(p, lambda v: value_with(v, swap), lambda f: put_cont(f, swap), lambda q: put(q, swap))


def put_cont(f: s.Cont, swap: Swap) -> s.Cont:
    """The same in a continuation."""
    return s.Cont(f.name, f.type, put(f.body, _without(swap, f.name)), f.at, f.said)


def _without(swap: Swap, *names: str) -> Swap:
    return {name: v for name, v in swap.items() if name not in names} if any(n in swap for n in names) else swap


def free(p: s.Process) -> Iterator[str]:
    """The free names of a process, as often as they stand there, from left to right."""
    match p:
        case s.Send(to, what):
            yield from value_names(to)
            yield from free_cont(what) if isinstance(what, s.Cont) else value_names(what)
        case s.Receive(source, then, otherwise):
            yield from value_names(source)
            yield from free_cont(then)
            yield from free(otherwise)
        case s.Crypt(key, value, then) | s.Decrypt(key, value, then):
            yield from value_names(key)
            yield from value_names(value)
            yield from free_cont(then)
        case s.Continue(cont, value):
            yield from free_cont(cont)
            yield from value_names(value)
        case s.Let(names, value, body):
            yield from value_names(value)
            yield from (name for name in free(body) if name not in names)
        case s.Replicate(body) | s.Child(body):
            yield from free(body)
        case s.Par(parts):
            for part in parts:
                yield from free(part)
        case s.NewIn(name, _, body):
            yield from (other for other in free(body) if other != name)
        case s.Forward(source, value, then, otherwise) | s.Open(source, value, then, otherwise):
            yield from value_names(source)
            yield from value_names(value)
            yield from free(then)
            yield from free(otherwise)


def free_cont(f: s.Cont) -> Iterator[str]:
    """The free names of a continuation."""
    return (name for name in free(f.body) if name != f.name)


# ---------------------------------------------------------------- binders by their height


def height(p: s.Process) -> int:
    """How many binders stand in each other."""
    match p:
        case s.Let(_, _, body) | s.NewIn(_, _, body):
            return 1 + height(body)
        case s.Send(_, what):
            return 1 + height(what.body) if isinstance(what, s.Cont) else 0
        case s.Receive(_, then, otherwise):
            return max(1 + height(then.body), height(otherwise))
        case s.Crypt(_, _, then) | s.Decrypt(_, _, then) | s.Continue(then, _):
            return 1 + height(then.body)
        case s.Replicate(body) | s.Child(body):
            return height(body)
        case s.Par(parts):
            return max((height(part) for part in parts), default=0)
        case s.Forward(_, _, then, otherwise) | s.Open(_, _, then, otherwise):
            return max(height(then), height(otherwise))
        case _:
            return 0


def by_height(p: s.Process) -> s.Process:
    """The process with canonical names for what it binds.

    >>> from pellucid.atomic.syntax import parse
    >>> a, b = (parse(f"t{{receive(out c, ({x}: <>) send(in c, {x}), 0)}}") for x in "xy")
    >>> a == b, by_height(a.process) == by_height(b.process)
    (False, True)
    """
    match p:
        case s.Let(names, value, body):
            new = tuple(f"x'{height(body) + 1}'{i}" for i in range(len(names)))
            return s.Let(new, value, _bound(body, names, new), p.at, p.said or names)
        case s.NewIn(name, kind, body):
            new = (f"n'{height(body) + 1}",)
            return s.NewIn(new[0], kind, _bound(body, (name,), new), p.at, p.said or name)
        case _:
            return rebuild(p, lambda v: v, cont_by_height, by_height)


def cont_by_height(f: s.Cont) -> s.Cont:
    """A continuation with canonical names for what it binds."""
    name = f"x'{height(f.body) + 1}"
    return s.Cont(name, f.type, _bound(f.body, (f.name,), (name,)), f.at, f.said or f.name)


def _bound(body: s.Process, names: tuple[str, ...], new: tuple[str, ...]) -> s.Process:
    """A body with canonical names, also for what is bound around it.  The names in the text may look like canonical
    ones: they are replaced before those of the inside come, by names that no text can have."""
    between = [f"\0{height(body)}.{i}" for i in range(len(names))]
    apart = put(body, {old: s.Param(name) for old, name in zip(names, between, strict=True)})
    return put(by_height(apart), {old: s.Param(name) for old, name in zip(between, new, strict=True)})


# ---------------------------------------------------------------- binders as they were written


def spoken(p: s.Process) -> s.Process:
    """The process with the names of the text for what it binds, from outside in; where such a name would be taken for
    another one that stands there, it gets a number.

    >>> from pellucid.atomic.syntax import parse
    >>> spoken(by_height(parse("t{receive(out c, (paid: <>) send(in c, paid), 0)}").process)).then.name
    'paid'
    """
    match p:
        case s.Let(names, value, body, at, said):
            new: list[str] = []
            for own, name in zip(names, said or names, strict=True):
                new.append(_apart(name, {*free(body)} - {own} | {*new}))
            swap = {old: s.Param(name) for old, name in zip(names, new, strict=True)}
            return s.Let(tuple(new), value, spoken(put(body, swap)), at)
        case s.NewIn(name, kind, body, at, said):
            own = _apart(said or name, {*free(body)} - {name})
            return s.NewIn(own, kind, spoken(put(body, {name: s.Param(own)})), at)
        case _:
            return rebuild(p, lambda v: v, spoken_cont, spoken)


def spoken_cont(f: s.Cont) -> s.Cont:
    """A continuation with the names of the text."""
    own = _apart(f.said or f.name, {*free(f.body)} - {f.name})
    return s.Cont(own, f.type, spoken(put(f.body, {f.name: s.Param(own)})), f.at)


def _apart(name: str, taken: set[str]) -> str:
    if re.match(r"[nx]'\d", name):  # looks canonical: others inside may be called so until their turn comes
        name = name.replace("'", "_")
    own, count = name, 1
    while own in taken:
        count += 1
        own = f"{name}_{count}"
    return own


# What of a network never changes: its tree of places and its declared names; and what stands where at the start.
#
# Steps make no places, so a place is its position in the tree, from 1 on; 0 is outside every place.  Two places with
# one name are two positions.  Declared names that shadow others get names of their own, so that every ``new`` of the
# network can stand outside it: this is scope extrusion, done once.


class Item(NamedTuple):
    """t{P} with a P that is no parallel composition, no ``new`` and not 0."""

    trans: str
    process: s.Process

    def __str__(self) -> str:
        return f"{self.trans}{{{process_text(self.process)}}}"


class Entry(NamedTuple):
    """A record of a log.  COMMIT and ABORT have a subject; of the others the subject took what ``message`` is (RECV,
    FORWARD, OPEN), or was made by it (CHILD)."""

    kind: str
    subject: str
    process: s.Process
    message: Item | None = None

    def network(self) -> s.Network:
        """As the paper writes it."""
        mine = s.Running(self.subject, self.process)
        return mine if self.message is None else s.Wire((mine, s.Running(*self.message)))


TAKES = ("RECV", "FORWARD", "OPEN")
Found: TypeAlias = "tuple[int, Item]"


class Where(NamedTuple):
    """The text that a network was read from, for messages."""

    text: str = ""
    name: str = ""

    def no(self, at: s.At, message: str) -> DataError:
        """A mistake, with its place as far as it is known."""
        if at is not None and self.text:
            return caret(self.text, *at, message, self.name)
        line = f"line {at[0]}, column {at[1]}" if at else ""
        return DataError(": ".join(filter(None, [", ".join(filter(None, [self.name, line])), message])))


_UNKNOWN = Where()


@dataclass
class Layout:
    """The tree of places, declared names, and what stands at the start: items with their position, logs."""

    names: list[str] = field(default_factory=lambda: [""])
    parents: list[int] = field(default_factory=lambda: [-1])
    gamma: dict[str, s.Type] = field(default_factory=dict)
    items: list[Found] = field(default_factory=list)
    logs: list[list[Entry]] = field(default_factory=lambda: [[]])
    fresh: dict[str, s.Type] = field(default_factory=dict)  # names that processes made
    where: Where = _UNKNOWN

    @cached_property
    def labels(self) -> list[str]:
        """A name for each position: the place's own, with a number where there are several of that name."""
        count, before = Counter(self.names[1:]), Counter[str]()
        out = ["outside"]
        for name in self.names[1:]:
            before[name] += 1
            out.append(name if count[name] == 1 else f"{name}({before[name]})")
        return out

    def above(self, place: int) -> Iterator[int]:
        """The places around this one, and itself."""
        while place > 0:
            yield place
            place = self.parents[place]


def layout_of(network: s.Network, where: Where = _UNKNOWN) -> Layout:
    """A network in pieces; it has been type checked.

    >>> from pellucid.atomic import parse
    >>> text = "new t: Trans. new p: Place. p[ t{commit | new c: Chan[<>]. send(in c, <>)} ] | p[ 0 ]"
    >>> found = layout_of(parse(text))
    >>> found.labels, [(where, str(item)) for where, item in found.items]
    (['outside', 'p(1)', 'p(2)'], [(1, 't{commit}'), (1, 't{send(in ~0, <>)}')])
    """
    layout = Layout(where=where)
    _network(layout, network, 0, {})
    return layout


def _network(layout: Layout, n: s.Network, here: int, renamed: Mapping[str, str]) -> None:
    match n:
        case s.Place(name, log, body):
            layout.names.append(renamed.get(name, name))
            layout.parents.append(here)
            layout.logs.append([_entry(layout.where, entry, renamed) for entry in log])
            _network(layout, body, len(layout.names) - 1, renamed)
        case s.Running(trans, process):
            for item in opened(layout.fresh, renamed.get(trans, trans), _closed(process, renamed)):
                layout.items.append((here, item))
        case s.Wire(parts):
            for part in parts:
                _network(layout, part, here, renamed)
        case s.New(name, kind, body):
            if name.startswith("~") and not isinstance(kind, s.TransType) and not _stands(name, body):
                own = _number(layout.fresh)  # a state that was printed: this name is one that a process made
                layout.fresh[own] = kind
                _network(layout, body, here, {**renamed, name: own})
                return
            # who was made before the start, and a place that stands, are known by name from now on
            base = name.replace("~", "child_" if isinstance(kind, s.TransType) else "place_")
            own, number = base, 1
            while own in layout.gamma:
                number += 1
                own = f"{base}_{number}"
            layout.gamma[own] = kind
            _network(layout, body, here, {**renamed, name: own})
        case s.Empty():
            pass


def _stands(name: str, n: s.Network) -> bool:
    """Whether there is a place of this name."""
    match n:
        case s.Place(own, _, body):
            return own == name or _stands(name, body)
        case s.Wire(parts):
            return any(_stands(name, part) for part in parts)
        case s.New(own, _, body):
            return own != name and _stands(name, body)
        case _:
            return False


def _closed(process: s.Process, renamed: Mapping[str, str]) -> s.Process:
    return put(by_height(process), {old: s.Param(new) for old, new in renamed.items() if old != new})


def opened(fresh: dict[str, s.Type], trans: str, process: s.Process) -> list[Item]:
    """t{P | Q} ≡ t{P} | t{Q}, t{new n. P} ≡ new n. t{P}, t{0} ≡ 0: what a process is made of; ``fresh`` gets its
    private names, which leave it."""
    match process:
        case s.Par(parts):
            return [item for part in parts for item in opened(fresh, trans, part)]
        case s.NewIn(name, kind, body):
            if name not in free(body):
                return opened(fresh, trans, body)
            own = _number(fresh)
            assert not isinstance(kind, (s.CapType, s.TupleType, s.ContType, s.TypeName, s.TransType))
            fresh[own] = replace(kind, said=process.said or name)
            return opened(fresh, trans, put(body, {name: s.Param(own)}))
        case s.Stop():
            return []
        case _:
            return [Item(trans, process)]


def _number(fresh: Mapping[str, s.Type]) -> str:
    """A private name that is not taken."""
    return next(name for n in count() if (name := f"~{n}") not in fresh)


def _entry(text: Where, n: s.Network, renamed: Mapping[str, str]) -> Entry:
    match n:
        case s.Running(trans, s.Commit() as process):
            return Entry("COMMIT", renamed.get(trans, trans), process)
        case s.Running(trans, s.Abort() as process):
            return Entry("ABORT", renamed.get(trans, trans), process)
        case s.Wire((s.Running(t, taker), s.Running(u, message))):
            kind = {s.Receive: "RECV", s.Forward: "FORWARD", s.Open: "OPEN"}.get(type(taker), "")
            if isinstance(taker, s.Stop) and isinstance(message, s.Child):
                kind = "CHILD"
            if kind and (kind == "CHILD" or isinstance(message, s.Send)):
                sent = Item(renamed.get(u, u), _closed(message, renamed))
                return Entry(kind, renamed.get(t, t), _closed(taker, renamed), sent)
        case _:
            pass
    raise text.no(
        n.at,
        f"a log has no entry {network_text(n)}: it has t{{commit}}, t{{abort}}, what was received beside its "
        "message as in t{receive(…)} | u{send(…)}, and a child beside what made it as in t{0} | u{child(P)}",
    )


# ---------------------------------------------------------------- what is asked before anything runs


def homes(layout: Layout) -> dict[str, int]:
    """The place of each transaction, where it runs or its log has it; none for those that have only messages at several
    places.  One transaction at two places is refused; messages on their way are exempt."""
    found: dict[str, int] = {}
    sends: dict[str, set[int]] = {}
    for where, log in enumerate(layout.logs):
        for entry in log:
            if found.setdefault(entry.subject, where) != where:
                one, two = layout.labels[found[entry.subject]], layout.labels[where]
                raise layout.where.no(
                    entry.process.at,
                    f"one place per transaction: {entry.subject} is in the logs of {one} and of {two}: what it did is "
                    "in the log of the place at which it runs",
                )
    logged = {*found}
    for where, item in layout.items:
        if isinstance(item.process, s.Send):
            sends.setdefault(item.trans, set()).add(where)
            continue
        before = found.setdefault(item.trans, where)
        if before != where:
            one, two = layout.labels[before], layout.labels[where]
            what = "is in the log of" if item.trans in logged else "has processes at"
            also = "and has processes" if item.trans in logged else "and"
            raise layout.where.no(
                item.process.at,
                f"one place per transaction: {item.trans} {what} {one} {also} at {two}: give each place "
                "a transaction of its own (they can commit together), or send a message",
            )
    for trans, places in sends.items():
        if trans not in found and len(places) == 1:
            found[trans] = places.copy().pop()
    return found


def missing_places(layout: Layout) -> list[str]:
    """Names of places that are declared, and of which there is none."""
    return [name for name, kind in layout.gamma.items() if isinstance(kind, s.PlaceType) and name not in layout.names]


def nowhere(layout: Layout) -> list[str]:
    """Warnings: capabilities for places that do not exist; such a message waits for ever."""
    known = set(missing_places(layout))
    out = []
    for _, item in layout.items:
        for name in dict.fromkeys(name for name in free(item.process) if name in known):
            out.append(f"{item.trans} has a capability for {name}, and no place is called {name}: "
                       "a message on its way there waits for ever")  # fmt: skip
    return list(dict.fromkeys(out))


ALIKE = 6  # orders of private names that look alike which are tried; of more, those that stand together
WITHIN = 5040  # orders of those


Soups: TypeAlias = "list[list[int]]"


class State(NamedTuple):
    """Items and records by their numbers in the `Store`; position 0 is outside every place and has no log."""

    soups: tuple[tuple[int, ...], ...]
    logs: tuple[tuple[int, ...], ...]
    fresh: tuple[s.Type, ...] = ()
    left: int = 0


class Store:
    """Numbers for items and records, and what is known of each."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.items: list[Item] = []
        self.entries: list[Entry] = []
        self._item: dict[Item, int] = {}
        self._entry: dict[Entry, int] = {}
        self.item_fresh: list[tuple[str, ...]] = []
        self.entry_fresh: list[tuple[str, ...]] = []
        self._renamed: dict[tuple[str, int, tuple[tuple[str, str], ...]], int] = {}
        self._looks: dict[tuple[str, int, str], str] = {}

    def item(self, item: Item) -> int:
        """Its number."""
        number = self._item.get(item)
        if number is None:
            number = self._item[item] = len(self.items)
            self.items.append(item)
            self.item_fresh.append(_fresh(item))
        return number

    def entry(self, entry: Entry) -> int:
        """Its number."""
        number = self._entry.get(entry)
        if number is None:
            number = self._entry[entry] = len(self.entries)
            self.entries.append(entry)
            own = _fresh(Item(entry.subject, entry.process))
            sent = _fresh(entry.message) if entry.message is not None else ()
            self.entry_fresh.append(tuple(dict.fromkeys((*own, *sent))))
        return number

    # ---------------------------------------------------------------- canonical form

    def state(
        self, soups: Iterable[Iterable[int]], logs: Iterable[Sequence[int]], fresh: Mapping[str, s.Type], left: int
    ) -> State:
        """The state of these parts."""
        if not fresh:
            return State(tuple([tuple(sorted(soup)) for soup in soups]), tuple([tuple(log) for log in logs]), (), left)
        return self._with_fresh([list(soup) for soup in soups], [list(log) for log in logs], fresh, left)

    def _with_fresh(self, soups: Soups, logs: Soups, fresh: Mapping[str, s.Type], left: int) -> State:
        """The same, where there are private names."""
        looks: dict[str, list[str]] = {}
        for where, soup in enumerate(soups):
            for i in soup:
                for name in self.item_fresh[i]:
                    looks.setdefault(name, []).append(f"{where} {self._look('item', i, name)}")
        for where, log in enumerate(logs):
            for row, e in enumerate(log):
                for name in self.entry_fresh[e]:
                    looks.setdefault(name, []).append(f"{where}.{row} {self._look('entry', e, name)}")
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, seen in looks.items():
            groups.setdefault((str(fresh[name]), *sorted(seen)), []).append(name)
        ordered = [groups[key] for key in sorted(groups)]
        orders: Iterable[tuple[Sequence[str], ...]]
        if prod(factorial(len(group)) for group in ordered) > ALIKE:
            orders = [self._apart(soups, logs, fresh, ordered)]
        else:
            orders = product(*(permutations(group) for group in ordered))
        best: State | None = None
        for order in orders:
            names = [name for group in order for name in group]
            swap = {name: f"~{i}" for i, name in enumerate(names)}
            found = State(
                tuple(tuple(sorted(self._item_with(i, swap) for i in soup)) for soup in soups),
                tuple(tuple(self._entry_with(e, swap) for e in log) for log in logs),
                tuple(fresh[name] for name in names), left,
            )  # fmt: skip
            if best is None or found[:2] < best[:2]:
                best = found
        assert best is not None
        return best

    def _apart(
        self, soups: Soups, logs: Soups, fresh: Mapping[str, s.Type], ordered: list[list[str]]
    ) -> tuple[list[str], ...]:
        """The private names in a canonical order, where those that look alike are many: names that stand in no item
        and no record together do not matter to each other.  So each family of names that do is put in order by
        itself, and families by what becomes of them; which of two that become the same comes first changes nothing."""
        family = {name: [name] for group in ordered for name in group}
        there = [self.item_fresh[i] for soup in soups for i in soup]
        there += [self.entry_fresh[e] for log in logs for e in log]
        for names in there:
            for other in names[1:]:
                if family[names[0]] is not family[other]:
                    family[names[0]] += family[other]
                    for name in family[other]:
                        family[name] = family[names[0]]
        found = []
        for one in {id(names): set(names) for names in family.values()}.values():
            groups = [mine for group in ordered if (mine := [name for name in group if name in one])]
            if prod(factorial(len(group)) for group in groups) > WITHIN:
                raise CutShort(f"{max(map(len, groups))} private names look alike: too many orders to compare")
            found.append(
                min(self._in_order(soups, logs, fresh, order) for order in product(*map(permutations, groups)))
            )
        return ([name for *_, names in sorted(found) for name in names],)

    def _in_order(
        self, soups: Soups, logs: Soups, fresh: Mapping[str, s.Type], order: tuple[Sequence[str], ...]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]], list[str], list[str]]:
        """What a family of names is, in this order: where its items and records stand, and its types."""
        names = [name for group in order for name in group]
        swap = {name: f"~{i}" for i, name in enumerate(names)}
        items = sorted(
            (where, self._item_with(i, swap))
            for where, soup in enumerate(soups) for i in soup if self.item_fresh[i] and self.item_fresh[i][0] in swap
        )  # fmt: skip
        rows = [
            (where, row, self._entry_with(e, swap))
            for where, log in enumerate(logs) for row, e in enumerate(log)
            if self.entry_fresh[e] and self.entry_fresh[e][0] in swap
        ]  # fmt: skip
        return items, rows, [str(fresh[name]) for name in names], names

    def _look(self, what: str, number: int, name: str) -> str:
        """How an item or a record looks from one of its private names, by canonical names and not as it was written."""
        key = what, number, name
        if key not in self._looks:
            entry = self.entries[number] if what == "entry" else None
            parts = [self.items[number]] if entry is None else [Item(entry.subject, entry.process), entry.message]
            words = []
            for part in (part for part in parts if part is not None):
                trans, process = _renamed(part, {other: "§" if other == name else "°" for other in _fresh(part)})
                words.append(f"{trans} {process_text(process)}")
            self._looks[key] = " ".join(words)
        return self._looks[key]

    def _item_with(self, i: int, swap: Mapping[str, str]) -> int:
        key = ("item", i, tuple((name, swap[name]) for name in self.item_fresh[i] if swap[name] != name))
        if not key[2]:
            return i
        if key not in self._renamed:
            self._renamed[key] = self.item(_renamed(self.items[i], swap))
        return self._renamed[key]

    def _entry_with(self, e: int, swap: Mapping[str, str]) -> int:
        key = ("entry", e, tuple((name, swap[name]) for name in self.entry_fresh[e] if swap[name] != name))
        if not key[2]:
            return e
        if key not in self._renamed:
            kind, subject, process, message = self.entries[e]
            own = _renamed(Item(subject, process), swap)
            sent = None if message is None else _renamed(message, swap)
            self._renamed[key] = self.entry(Entry(kind, own.trans, own.process, sent))
        return self._renamed[key]

    # ---------------------------------------------------------------- back to a network

    def start(self, left: int) -> State:
        """What the layout says stands where at the start."""
        soups: list[list[int]] = [[] for _ in self.layout.names]
        for where, item in self.layout.items:
            soups[where].append(self.item(item))
        logs = [[self.entry(entry) for entry in log] for log in self.layout.logs]
        return self.state(soups, logs, self.layout.fresh, left)

    def called(self, at: State) -> dict[str, str]:
        """What the text calls private names, where that is one of them only."""
        words = [getattr(kind, "said", "") for kind in at.fresh]
        return {
            f"~{i}": word
            for i, word in enumerate(words)
            if word and words.count(word) == 1 and word not in self.layout.gamma and not {"~", "'"} & {*word}
        }

    def said(self, at: State, item: Item) -> Item:
        """An item of a state with the names of the text."""
        swap = {own: s.Param(name) for own, name in self.called(at).items()}
        return Item(item.trans, spoken(put(item.process, swap)))

    def record(self, at: State, e: int) -> s.Network:
        """A record of a state with the names of the text."""
        kind, subject, process, message = self.entries[e]
        own = self.said(at, Item(subject, process))
        return Entry(kind, subject, own.process, None if message is None else self.said(at, message)).network()

    def network(self, at: State) -> s.Network:
        """A state as a network, with the names of the text."""
        layout = self.layout
        bodies: list[list[s.Network]] = [[s.Running(*self.said(at, self.items[i])) for i in soup] for soup in at.soups]
        for place in range(len(layout.names) - 1, 0, -1):
            log = tuple(self.record(at, e) for e in at.logs[place])
            bodies[layout.parents[place]].insert(0, s.Place(layout.names[place], log, _wire(bodies[place])))
        whole = _wire(bodies[0])
        for i in range(len(at.fresh) - 1, -1, -1):
            whole = s.New(self.called(at).get(f"~{i}", f"~{i}"), at.fresh[i], whole)
        for name, kind in reversed(layout.gamma.items()):
            whole = s.New(name, kind, whole)
        return whole

    def gamma(self, at: State) -> dict[str, s.Type]:
        """The types of all names of a state."""
        return {**self.layout.gamma, **{f"~{i}": kind for i, kind in enumerate(at.fresh)}}


def _wire(parts: list[s.Network]) -> s.Network:
    return s.Empty() if not parts else parts[0] if len(parts) == 1 else s.Wire(tuple(parts))


def _fresh(item: Item) -> tuple[str, ...]:
    names = (item.trans, *free(item.process))
    return tuple(dict.fromkeys(name for name in names if name.startswith("~")))


def _renamed(item: Item, swap: Mapping[str, str]) -> Item:
    values = {old: s.Param(new) for old, new in swap.items()}
    return Item(swap.get(item.trans, item.trans), put(item.process, values))
