"""Where a kernel keeps things: regions of state, queues, inputs, outputs.

A **region** is a set of state rows, one row for each key (one row in all where there is no key).  A row is
a list of 64-bit **words**; each word belongs to a step, so a saved state can be matched by step id.
A **queue** is a pool of linked cells shared by all keys: memory follows what is really waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pellucid.internal.expr.function import Function
from pellucid.internal.expr.rewrite import Pure
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType, ListType, Type
from pellucid.internal.graph.model import Graph, Node

NEVER = -(2**62)  # the last event of a key that has none, or was given up


@dataclass(frozen=True)
class Word:
    """One word of a row: the step that it belongs to, what it is, and how it starts."""

    step: str
    label: str
    type: Type
    start: Any  # a number; for a state that is any Python object, the object
    count: int = 1  # rings take several words


@dataclass(eq=False)
class Region:
    """The rows of state of all steps that are kept apart by the same keys."""

    keys: tuple[Type, ...]  # leaves of the key; empty: one row
    words: list[Word] = field(default_factory=list)
    width: int = 0
    new_keys: int = 0  # how many keys one push may add
    forgets: str = ""  # the step that gives its keys up
    after: int = 0  # events that are not the key's own
    last: int = 0  # the word with the number of the key's last event

    def add(self, word: Word) -> int:
        """Reserve room; return the word's offset in a row."""
        at = self.width
        self.words.append(word)
        self.width += word.count
        return at

    def template(self) -> list[Any]:
        """A row as it starts."""
        return [start for w in self.words for start in [w.start] * w.count]


@dataclass(frozen=True)
class QueueLayout:
    """The queue before one input of a step."""

    id: str
    leaves: tuple[Type, ...]
    burst: int | None  # how many events one push may add


@dataclass
class KernelLayout:
    """All of the above for one kernel."""

    graph: Graph
    external: Type | None  # the type of a key that comes with the data
    regions: list[Region] = field(default_factory=list)
    region_of: dict[Type | str | None, int] = field(default_factory=dict)  # by key, or by the step that gives it up
    queues: list[QueueLayout] = field(default_factory=list)
    sites: list[tuple[Node, Function | None]] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    lookups: list[tuple[Pure, tuple[Type, ...]]] = field(default_factory=list)  # functions that Python answers
    objects: list[Any] = field(default_factory=list)  # initial states inside windows that are any Python object

    def region(self, key: Type | None, forgets: Node | None = None) -> int:
        """The number of the region for steps with this key, under the step that gives it up."""
        name = key if forgets is None else forgets.id
        if name not in self.region_of:
            leaves: tuple[Type, ...] = ()
            if self.external is not None:
                # A key inside one that comes with the data: the outer row's number stands in front.
                leaves = leaf_types(self.external) if key is None else (INT,)
            if key is not None:
                leaves += leaf_types(key)
            self.region_of[name] = len(self.regions)
            self.regions.append(Region(leaves))
            if forgets is not None and forgets.k is not None:
                self.regions[-1].forgets, self.regions[-1].after = forgets.id, forgets.k
        return self.region_of[name]

    def site(self, node: Node, fn: Function | None) -> int:
        """The number under which failures of this function are reported."""
        self.sites.append((node, fn))
        return len(self.sites) - 1


class Opened(Pure):
    """What a kernel asks for the elements of a list: where they begin among those of all lists that came."""

    def __init__(self, t: ListType, lists: int) -> None:
        super().__init__("elements", t.rows, INT, False)
        self.list, self.lists = t, lists  # of how many lists a push may ask

    @staticmethod
    def of(t: ListType, lists: int | None) -> Opened:
        """For a step of which so many events can come in one push."""
        return Opened(t, lists or 1)


def leaf_types(t: Type) -> tuple[Type, ...]:
    """The types of an event's leaves."""
    return tuple(kind for _, kind in t.leaves())


def dense(region: Region) -> bool:
    """Whether small whole keys can be row numbers themselves, with no search."""
    return region.keys == (INT,) and not region.forgets


def is_float(t: Type) -> bool:
    """Whether a leaf is stored as a float; all others are stored as integers."""
    return t == FLOAT


def opens(node: Node) -> bool:
    """Whether it emits the elements of lists that come as data: as many as each of them has."""
    return node.kind == "explode" and not (node.fn is not None and node.fn.runs is not None and node.fn.runs.many)


def capacity(node: Node, ins: list[int | None], keyed: bool, longest: int | None = None) -> int | None:
    """How many events a step can emit in one push, given its inputs'; None where a function cannot be read.

    ``longest`` is how many elements a list in the data has at most, if that is known.
    """
    known, p = [c for c in ins if c is not None], node.processor
    if p.inputs == "none":
        return 1
    if len(known) < len(ins):
        return None
    if p.puts == "many":
        assert node.fn is not None
        if node.on_time is not None:  # of one call, of which there may be several in a push
            most = [len(fn.runs.slots) if fn.runs else None for fn in (node.fn, node.on_time)]
            return None if None in most else max(1, *(m for m in most if m is not None))
        if opens(node):
            return None if longest is None else longest * known[0]
        return len(node.fn.runs.slots) * known[0] if node.fn.runs else None
    if p.inputs == "apart" or (keyed and node.queued):
        # Under keys, each event that comes can complete a set of its own key.
        return sum(known)
    # A step that waits for its inputs had an empty queue before the push, so it fires at most as often as that
    # input brought events.
    return max(known)


def capacities(graph: Graph) -> list[int | None]:
    """How many events each stream can carry in one push."""
    caps: list[int | None] = []
    for node in graph.nodes:
        caps.append(capacity(node, [caps[i] for i in node.inputs], node.key is not None))
    return caps


def encode(t: Type, value: Any, strings: dict[str, int]) -> Any:
    """A leaf as a kernel stores it: enums by number, strings by their code in the table."""
    if isinstance(t, EnumType):
        return t.members.index(value)
    if isinstance(value, str):
        return strings.setdefault(value, len(strings))
    if t == BOOL:
        return int(value)
    return value
