"""States: a network up to structural congruence, as one value.

A state has, for each position, the items that stand there (a sorted multiset) and the log (a sequence), the types of
private names, and how often ``!`` may still unfold.  Items and records are numbered by a `Store`, so that states are
small and quick to compare.  Private names are called ``~0``, ``~1`` … in an order that depends on nothing but where
they stand: states that differ in them only are one.  Behind a prefix the order of parallel parts is that of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations, product
from math import factorial, prod
from typing import NamedTuple, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.layout import Entry, Item, Layout
from pellucid.atomic.names import free, put, spoken
from pellucid.atomic.printing import process_text
from pellucid.internal.model import CutShort

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
            found.append(min(self._told(soups, logs, fresh, order) for order in product(*map(permutations, groups))))
        return ([name for *_, names in sorted(found) for name in names],)

    def _told(
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
