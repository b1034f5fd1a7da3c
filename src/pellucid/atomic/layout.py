"""What of a network never changes: its tree of places and its declared names; and what stands where at the start.

Steps make no places, so a place is its position in the tree, from 1 on; 0 is outside every place.  Two places with one
name are two positions.  Declared names that shadow others get names of their own, so that every ``new`` of the network
can stand outside it: this is scope extrusion, done once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.names import by_height, free, put
from pellucid.atomic.printing import network_text, process_text
from pellucid.errors import DataError
from pellucid.internal.base.languages import caret


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
