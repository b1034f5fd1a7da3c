"""How a push that failed half-way is taken back.

A kernel that may have to notes what stands in a word or a queue's cell before it changes it, from the start of each
push on; what lives in local variables it copies.  If the push fails, the host puts all back, the last change first.
That costs what the push did, however large the state is.

Outputs need nothing: they are written behind all that can fail.  A key that is new stays, with the state that every key
begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.internal.engine.kernel.layout import (
    KernelLayout,
    Opened,
    QueueLayout,
    Region,
    Word,
    dense,
    is_float,
    leaf_types,
)
from pellucid.internal.expr.codegen import CodeWriter, TooLarge, look_name
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.rewrite import Pure
from pellucid.internal.expr.types import BOOL, INT, STR, Type
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState

CALL_RAISED = 3  # a code of failure: a function that Python called for a plain kernel raised


class UndoLog:
    """Writes the lines of a kernel that note what a push changes; none if it ``is_on`` not."""

    def __init__(self, is_on: bool, w: CodeWriter) -> None:
        self.is_on, self._w = is_on, w
        self.arrays: dict[str, int] = {}  # what the log of a compiled kernel speaks of, by numbers
        self.floats: set[str] = set()  # queues' columns that are arrays of floats
        self._sites = 0  # how often the text notes something, loops counted

    @property
    def catches(self) -> bool:
        """Whether the text itself sees to a function that raises; else the exception leaves the kernel."""
        return self.is_on and not self._w.numba

    def note(self, array: str, index: str, times: int = 1) -> None:
        """A place is about to change, at most so many times in a push for one event."""
        if not self.is_on:
            return
        if not self._w.numba:
            self._w.line(f"U.append(({array}, {index}, {array}[{index}]))")
            return
        if array.startswith("SF"):
            array = f"SI{array[2:]}"  # the same words: the bits of a float are kept
        number = self.arrays.setdefault(array, len(self.arrays))
        self._sites += times
        kind = "UF" if array in self.floats else "UI"
        self._w.line(f"UA[u] = {number}; UX[u] = {index}; {kind}[u] = {array}[{index}]; u += 1")

    def around(self, kept: Sequence[str], params: list[str]) -> tuple[list[str], list[str]]:
        """The lines with which a push begins, and those for one that failed; ``kept`` are the local variables that a
        push changes."""
        if not self.is_on:
            return [], []
        numba = self._w.numba
        params += ["UA", "UX", "UI", "UF"] if numba else ["U"]
        begin = [f"z{name} = {name}" for name in kept] + (["u = 0"] if numba else ["U.clear()"])
        back = "; ".join([f"{name} = z{name}" for name in kept] + (["M[3] = u"] if numba else []))
        return begin, [f"if 0 < code <= {CALL_RAISED}: {back or 'pass'}"]

    def room(self, capacities: Sequence[int | None]) -> int:
        """How many notes one push may make."""
        return self._sites * max(capacity or 1 for capacity in capacities)


def log_of(kernel: Kernel) -> dict[str, Any]:
    """Room for what a push changes, as arguments of the kernel."""
    if not kernel.undo:
        return {}
    if not kernel.numba:
        return {"U": []}
    import numpy as np

    room = max(kernel.log_room, 1)
    return {**{name: np.zeros(room, np.int64) for name in ("UA", "UX", "UI")}, "UF": np.zeros(room, np.float64)}


def undo_push(kernel: Kernel, state: EngineState, arguments: dict[str, Any]) -> None:
    """Put back what the push changed that failed."""
    if not kernel.numba:
        for array, index, old in reversed(arguments["U"]):
            array[index] = old
        for q, cells in enumerate(state.cells):  # those that it added
            for column in cells:
                del column[state.meta[state.queue_at(q) + 1] :]
        return
    numbers, places, words, floats = (arguments[name] for name in ("UA", "UX", "UI", "UF"))
    for at in reversed(range(int(state.meta[3]))):
        array = arguments[kernel.logged[numbers[at]]]
        array[places[at]] = (floats if array.dtype == floats.dtype else words)[at]
    state.meta[3] = 0


# Where a step's words live in a kernel: in rows of a region, in local variables, or in a window's inner run; how the
# row of a key is found, and queues.


class Storage:
    """Where a step's words live: in rows of a region, or in locals of a window's inner run."""

    def __init__(self, e: Pen, node: Node, region: int | None) -> None:
        self.e, self.node, self.region = e, node, region

    def word(self, label: str, t: Type, start: Any) -> StateCell:
        """One word of state."""
        e = self.e
        if self.region is None:
            name = e.w.fresh("s")
            e.resets.append((name, e.literal(t, start) if isinstance(start, (bool, int, float)) else e.object(start)))
            return StateCell(e, t, name, None)
        region = e.layout.regions[self.region]
        at = region.add(Word(self.node.id, label, t, start))
        if not region.keys:
            name = f"s{self.region}_{at}"
            e.locals_.append((name, self.region, at, t))
            return StateCell(e, t, name, None)
        return StateCell(e, t, f"{array_of(self.region, t)}", at, region)

    def ring(self, label: str, t: Type, size: int) -> Ring:
        """A row of words that is addressed by position."""
        e = self.e
        if self.region is None:
            name = e.w.fresh("Z")
            e.scratch.append((name, t, size))
            return Ring(name, t, 0, None, lasts=False)
        region = e.layout.regions[self.region]
        at = region.add(Word(self.node.id, label, t, 0, size))
        return Ring(array_of(self.region, t), t, at, region if region.keys else None)


def array_of(region: int, t: Type) -> str:
    return f"S{'F' if is_float(t) else 'I'}{region}"


@dataclass
class StateCell:
    e: Pen
    t: Type
    name: str
    at: int | None
    region: Region | None = None

    def place(self, key: str | None) -> str:
        if self.at is None:
            return self.name
        assert self.region is not None
        return f"{self.name}[{key} * {{W{self.region_number()}}} + {self.at}]"

    def region_number(self) -> int:
        assert self.region is not None
        return self.e.layout.regions.index(self.region)

    def load(self, key: str | None) -> str:
        """The word's value, as an expression."""
        place = self.place(key)
        return f"({place} != 0)" if self.t == BOOL and self.at is not None else place

    def store(self, key: str | None, value: str) -> None:
        """Set the word."""
        if self.t == BOOL and self.at is not None:
            value = f"int({value})"
        if self.at is not None:
            self.e.undo.note(self.name, self.place(key).removeprefix(f"{self.name}[")[:-1])
        self.e.w.line(f"{self.place(key)} = {value}")


@dataclass
class Ring:
    array: str
    t: Type
    at: int
    region: Region | None
    lasts: bool = True  # beyond the push: it is no scratch of a window's inner run

    def index(self, e: Pen, key: str | None, index: str) -> str:
        base = f"{key} * {{W{e.layout.regions.index(self.region)}}} + " if self.region is not None else ""
        return f"{base}{self.at} + {index}"

    def place(self, e: Pen, key: str | None, index: str) -> str:
        return f"{self.array}[{self.index(e, key, index)}]"

    def load(self, e: Pen, key: str | None, index: str) -> str:
        place = self.place(e, key, index)
        return f"({place} != 0)" if self.t == BOOL else place

    def store(self, e: Pen, key: str | None, index: str, value: str, times: int = 1) -> None:
        """Set a word; ``times``: how often at most in one push."""
        if self.lasts:
            e.undo.note(self.array, self.index(e, key, index), times)
        e.w.line(f"{self.place(e, key, index)} = {f'int({value})' if self.t == BOOL else value}")


# ---------------------------------------------------------------- the row of a key
# A hash table with linear probing when compiled, a dictionary when plain.


def finders(layout: KernelLayout, numba: bool) -> str:
    """For each keyed region: the function that finds a key's row, or makes one."""
    out = []
    for r, region in enumerate(layout.regions):
        if not region.keys:
            continue
        size = len(region.keys)
        args = ", ".join(f"a{j}" for j in range(size))
        if numba:
            # Two functions: the search is small enough to be put in place, the rest is called rarely.
            same = " and ".join(f"K[s * {size} + {j}] == a{j}" for j in range(size))
            mix = "".join(
                f"    h = (h ^ np.uint64(a{j})) * np.uint64(0x9E3779B97F4A7C15)\n    h ^= h >> np.uint64(29)\n"
                for j in range(size)
            )
            out.append(
                f"@njit\ndef find{r}(H, K, {args}):\n    h = np.uint64(0)\n{mix}"
                "    mask = np.uint64(H.size - 1)\n    h &= mask\n"
                "    while True:\n        s = H[h] - 1\n        if s < 0: return s\n"
                f"        if {same}: return s\n        h = (h + np.uint64(1)) & mask\n"
            )
            # A key that starts again takes its own place in the table again.
            taken = f"H[h] != 0 and not ({same.replace('[s *', '[(H[h] - 1) *')})" if region.forgets else "H[h] != 0"
            search = (
                f"    h = np.uint64(0)\n{mix}    mask = np.uint64(H.size - 1)\n    h &= mask\n"
                f"    while {taken}: h = (h + np.uint64(1)) & mask\n"
            )
            if region.forgets:
                out.append(f"@njit\ndef place{r}(H, K, {args}):\n{search}    return np.int64(h)\n")
            out.append(
                f"@njit\ndef make{r}(H, K, S, T, M, {args}):\n{search}"
                f"    s = M[{4 + r}]\n    M[{4 + r}] = s + 1\n    H[h] = s + 1\n"
                + "".join(f"    K[s * {size} + {j}] = a{j}\n" for j in range(size))
                + f"    for j in range({{W{r}}}): S[s * {{W{r}}} + j] = T[j]\n    return s\n"
            )
        elif region.forgets:
            out.append(
                f"def find{r}(H, K, {args}):\n    return H.get(({args},), -1)\n"
                f"def make{r}(H, K, S, T, M, {args}):\n    s = M[{4 + r}]; M[{4 + r}] = s + 1; H[({args},)] = s; "
                f"K.extend(({args},)); S.extend(_fresh(T))\n    return s\n"
            )
        else:
            out.append(
                f"def find{r}(H, K, S, T, M, {args}):\n    s = H.get(({args},))\n    if s is None:\n"
                f"        s = M[{4 + r}]; M[{4 + r}] = s + 1; H[({args},)] = s; K.extend(({args},)); "
                "S.extend(_fresh(T))\n"
                "    return s\n"
            )
    return "\n".join(out)


# ---------------------------------------------------------------- queues
# Linked cells in a pool, with the two ends and the length in the state's words.


class QueueWriter:
    """Writes the code of one queue.

    In a window's inner run the queue can hold no more than the window's events, so its pool is a scratch
    array that starts empty with every run; elsewhere the pool belongs to the state and may grow.
    """

    def __init__(self, e: Pen, store: Storage, id: str, leaves: tuple[Type, ...], burst: int | None) -> None:
        self.e, self.leaves = e, leaves
        self.head = store.word(f"{id}.head", INT, -1)
        self.tail = store.word(f"{id}.tail", INT, -1)
        self.count = store.word(f"{id}.length", INT, 0)
        if store.region is None:
            room = (burst or 1) * e.window_size()
            stem = e.w.fresh("q")
            self.free, self.bump, self.live = f"{stem}f", f"{stem}b", f"{stem}l"
            self.next, self.cells = f"{stem}n", [f"{stem}_{j}" for j in range(len(leaves))]
            e.resets += [(self.free, "-1"), (self.bump, "0"), (self.live, "0")]
            if e.numba:
                e.scratch.append((self.next, INT, room))
                e.scratch += [(cell, t, room) for cell, t in zip(self.cells, leaves, strict=True)]
            else:
                e.resets += [(name, "[]") for name in (self.next, *self.cells)]
            self.fixed = e.numba
        else:
            q = len(e.layout.queues)
            e.layout.queues.append(QueueLayout(id, leaves, burst))
            self.free, self.bump, self.live = f"qf{q}", f"qb{q}", f"ql{q}"
            self.next, self.cells = f"Q{q}n", [f"Q{q}_{j}" for j in range(len(leaves))]
            e.undo.floats |= {name for name, t in zip(self.cells, leaves, strict=True) if is_float(t)}
            self.fixed = e.numba
        self.lasts = store.region is not None

    def log(self, array: str, index: str) -> None:
        if self.lasts:
            self.e.undo.note(array, index)

    def length(self, key: str | None) -> str:
        """How many events wait."""
        return self.count.load(key)

    def put(self, values: list[str], key: str | None) -> None:
        """Add an event at the end."""
        w = self.e.w
        cell = w.fresh("c")
        stored = [f"int({v})" if t == BOOL else v for v, t in zip(values, self.leaves, strict=True)]
        with w.block(f"if {self.free} != -1:"):
            w.line(f"{cell} = {self.free}; {self.free} = {self.next}[{cell}]")
        with w.block("else:"):
            w.line(f"{cell} = {self.bump}; {self.bump} += 1")
            if not self.fixed:
                w.line(f"{self.next}.append(-1)")
                for name in self.cells:
                    w.line(f"{name}.append(0)")
        self.log(self.next, cell)
        w.line(f"{self.next}[{cell}] = -1; {self.live} += 1")
        for name, value in zip(self.cells, stored, strict=True):
            self.log(name, cell)
            w.line(f"{name}[{cell}] = {value}")
        with w.block(f"if {self.count.load(key)} == 0:"):
            self.head.store(key, cell)
        with w.block("else:"):
            self.log(self.next, self.tail.load(key))
            w.line(f"{self.next}[{self.tail.load(key)}] = {cell}")
        self.tail.store(key, cell)
        self.count.store(key, f"{self.count.load(key)} + 1")

    def take(self, key: str | None) -> list[str]:
        """Remove the first event; return its leaves."""
        w = self.e.w
        cell = w.fresh("c")
        w.line(f"{cell} = {self.head.load(key)}")
        out = []
        for name, t in zip(self.cells, self.leaves, strict=True):
            value = w.fresh("v")
            w.line(f"{value} = {name}[{cell}] != 0" if t == BOOL else f"{value} = {name}[{cell}]")
            out.append(value)
        self.head.store(key, f"{self.next}[{cell}]")
        self.log(self.next, cell)
        w.line(f"{self.next}[{cell}] = {self.free}; {self.free} = {cell}; {self.live} -= 1")
        self.count.store(key, f"{self.count.load(key)} - 1")
        return out


# How a compiled kernel finds an answer that only Python can give (see `engine.kernel.lookups`).


def by_code(kinds: tuple[Type, ...]) -> bool:
    """Whether the answers to these arguments stand in a list by the code of the one text, with no search."""
    return kinds == (STR,)


@contextmanager
def write_elements(w: CodeWriter, opened: Opened, code: str) -> Iterator[list[str]]:
    """A loop over the elements of the list that has this code: yields the leaves of one."""
    at = w.lookup(opened, (STR,))
    kinds = opened.list.kinds
    if not w.numba:
        row = w.fresh("r")
        with w.loop(f"for {row} in L{at}[{code}]:"):
            yield [f"{row}[{j}]" for j in range(len(kinds))]
        return
    begin, flag, place = w.fresh("b"), w.fresh("f"), w.fresh("e")
    w.line(f"{begin}, {flag} = look_code_i({at}, LA, LF, LP, LS{at}, LV{at}, LK{at}, {code})")
    with w.loop(f"for {place} in range({begin} + 1, {begin} + 1 + LN{at}[{begin}]):"):
        yield [f"LX{at}_{j}[{place}]" + (" != 0" if t == BOOL else "") for j, t in enumerate(kinds)]


def lookers(layout: KernelLayout, numba: bool) -> str:
    """For the functions that Python answers: how a compiled kernel finds an answer, and asks where there is none.

    They give the answer and how it went: 1, 2 where it raises, 3 where an int leaves 64 bits.
    """
    shapes = {look_name(f.result, kinds): (f, kinds) for f, kinds in layout.lookups} if numba else {}
    return "\n".join(_looker(name, f, kinds) for name, (f, kinds) in shapes.items())


def _looker(name: str, f: Pure, kinds: tuple[Type, ...]) -> str:
    names = [f"a{j}" for j in range(len(kinds))]
    given = "".join(f"    {'LF' if is_float(t) else 'LA'}[{j}] = a{j}\n" for j, t in enumerate(kinds))
    head = f"@njit\ndef {name}(at, LA, LF, LP, S, V, K, {', '.join(names)}):\n"
    answer = f"    return {'LF' if is_float(f.result) else 'LA'}[7], LA[6]\n"
    if by_code(kinds):
        return (
            f"{head}    if a0 < S.size:\n        s = S[a0]\n        if s != 0: return V[a0], s\n"
            f"{given}    _ask(LP, at, a0)\n{answer}"
        )
    size = len(kinds)
    words = [f"np.float64(a{j}).view(np.int64)" if is_float(t) else f"np.int64(a{j})" for j, t in enumerate(kinds)]
    own = "".join(f"    w{j} = {word}\n" for j, word in enumerate(words))
    mix = "".join(
        f"    h = (h ^ np.uint64(w{j})) * np.uint64(0x9E3779B97F4A7C15)\n    h ^= h >> np.uint64(29)\n"
        for j in range(size)
    )
    same = " and ".join(f"K[s * {size} + {j}] == w{j}" for j in range(size))
    return (
        f"{head}{own}    h = np.uint64(0)\n{mix}    mask = np.uint64(S.size - 1)\n    h &= mask\n"
        "    while True:\n        s = np.int64(h)\n        if S[s] == 0: break\n"
        f"        if {same}: return V[s], S[s]\n        h = (h + np.uint64(1)) & mask\n"
        f"{given}    _ask(LP, at, np.int64(h))\n{answer}"
    )


# What the steps of a kernel are written with: streams inside the loop, events put into them and visited, calls of
# functions.
#
# A stream that carries at most one event per push is a few local variables and a flag; one that can carry several is a
# small buffer.

_DEEP = 20  # levels: more than the steps of a loop stand in


@dataclass
class Flow:
    """A stream inside the loop."""

    present: str | None  # a flag; None: in every push; for a buffer unused
    values: list[str]  # local variables, or buffers
    key: str | None  # the variable (buffer) with the row number
    many: str | None = None  # the variable that counts events, if it is a buffer


class Pen:
    """The text of a kernel as it grows, and what it needs beside the loop: words of state, scratch room, sites."""

    def __init__(
        self,
        graph: Graph,
        numba: bool,
        external: Type | None,
        positions: bool,
        timed: bool,
        undo: bool,
        longest: int | None,
    ) -> None:
        self.graph, self.numba, self.positions, self.timed, self.longest = graph, numba, positions, timed, longest
        self.layout = KernelLayout(graph, external)
        self.w = CodeWriter(numba)
        self.undo = UndoLog(undo, self.w)
        self.locals_: list[tuple[str, int, int, Type]] = []  # words kept in local variables
        self.resets: list[tuple[str, str]] = []  # words of a window's inner run
        self.scratch: list[tuple[str, Type, int]] = []
        self.inner: list[Graph] = []  # the sub-pipelines of the windows being written
        self.windows: list[int] = []  # and their sizes
        self.sizes: dict[str, int] = {}  # how many lines the functions of a step make
        self._fits: dict[Function, bool] = {}
        self.opaque = False
        self.again = False  # whether a push may take several turns of the loop

    @contextmanager
    def when(self, flag: str | None) -> Iterator[None]:
        if flag is None:
            yield
        else:
            with self.w.block(f"if {flag}:"):
                yield

    def literal(self, t: Type, start: Any) -> str:
        if t == BOOL:
            return str(bool(start))
        if is_float(t):
            return (
                f"float('{start}')" if start != start or start in (float("inf"), float("-inf")) else repr(float(start))
            )
        return f"({start})" if start != -(2**63) else "_MIN"

    def object(self, start: Any) -> str:
        """A fresh copy of a state that is any Python object, from the host."""
        self.opaque = True
        self.layout.objects.append(start)
        return f"opaque[-{len(self.layout.objects)}]()"

    def find(self, r: int, name: str, keys: Sequence[str]) -> None:
        w = self.w
        if not self.numba:
            w.line(f"{name} = find{r}(H{r}, K{r}, SI{r}, TI{r}, M, {', '.join(f'int({k})' for k in keys)})")
            return
        leaves = self.copied([f"int({k})" for k in keys])

        def search() -> None:
            w.line(f"{name} = find{r}(H{r}, K{r}, {', '.join(leaves)})")
            with w.block(f"if _rare({name} < 0):"):
                w.line(f"{name} = make{r}(H{r}, K{r}, SI{r}, TI{r}, M, {', '.join(leaves)}); room{r} -= 1")

        if dense(self.layout.regions[r]):
            w.line(f"{name} = {leaves[0]}")
            with w.block(f"if _rare(not 0 <= {name} < D{r}):"):
                search()
        else:
            search()

    @contextmanager
    def each(self, flow: Flow) -> Iterator[tuple[list[str], str | None]]:
        """Visit every event of a stream: yields its leaves and its row number."""
        if flow.many is None:
            with self.when(flow.present):
                yield flow.values, flow.key
            return
        j = self.w.fresh("j")
        with self.w.loop(f"for {j} in range({flow.many}):"):
            yield [f"{v}[{j}]" for v in flow.values], f"{flow.key}[{j}]" if flow.key else None

    def fresh_flow(self, node: Node, cap: int | None, keyed: bool) -> Flow:
        """An empty output stream; `push` adds events to it."""
        w = self.w
        name = w.fresh("y")
        values = [f"{name}_{j}" for j in range(node.type.width)]
        key = f"{name}_k" if keyed else None
        if cap == 1:
            w.line(f"{name}_p = False")
            return Flow(f"{name}_p", values, key)
        w.line(f"{name}_c = 0")
        if self.numba:
            kinds = leaf_types(node.type)
            for value, t in zip(values, kinds, strict=True):
                self.scratch.append((value, t, cap or 1))
            if key:
                self.scratch.append((key, INT, cap or 1))
        else:
            for value in [*values, *([key] if key else [])]:
                w.line(f"{value} = []")
        return Flow(None, values, key, f"{name}_c")

    def push(self, flow: Flow, values: Sequence[str], key: str | None) -> None:
        w = self.w
        pairs = list(zip(flow.values, values, strict=True)) + ([(flow.key, key)] if flow.key and key else [])
        if flow.many is None:
            for name, value in pairs:
                if name != value:
                    w.line(f"{name} = {value}")
            w.line(f"{flow.present} = True")
            return
        for name, value in pairs:
            w.line(f"{name}[{flow.many}] = {value}" if self.numba else f"{name}.append({value})")
        w.line(f"{flow.many} += 1")

    def named(self, values: Sequence[str]) -> list[str]:
        """Values as plain names, so that they are computed once."""
        out = []
        for value in values:
            if value.isidentifier():
                out.append(value)
            else:
                name = self.w.fresh("v")
                self.w.line(f"{name} = {value}")
                out.append(name)
        return out

    def copied(self, values: Sequence[str]) -> list[str]:
        """Values in names of their own: a word of state may change before its old value is used."""
        out = []
        for value in values:
            name = self.w.fresh("v")
            self.w.line(f"{name} = {value}")
            out.append(name)
        return out

    def call(self, node: Node, fn: Function, leaves: Sequence[str]) -> list[str]:
        """Apply a function to an event's leaves; return the leaves of its result."""
        site = self.layout.site(node, fn)
        leaves = self.named(leaves)
        if self.written(fn):
            assert fn.runs is not None
            before = self.w.count
            results = self.w.function(fn.runs.roots(), leaves, _kinds(fn), site)
            self.sizes[node.describe()] = self.sizes.get(node.describe(), 0) + self.w.count - before
            return results
        assert not self.numba
        self.opaque = True
        assert fn.result is not None
        names = [self.w.fresh("t") for _ in range(fn.result.width)]
        self.w.line(f"{', '.join(names)}, = opaque[{site}]({', '.join(leaves)})")
        return names

    def written(self, fn: Function) -> bool:
        """Whether the function becomes part of the text; else it is called, event by event: because only Python can run
        it, or because it would be too much text, which is tried."""
        if fn.runs is None or self.numba:
            return fn.runs is not None
        if fn not in self._fits:
            trial = CodeWriter(False)
            trial.depth = _DEEP
            try:
                trial.function(fn.runs.roots(), [f"a{j}" for j in range(len(_kinds(fn)))], _kinds(fn), 0)
                self._fits[fn] = True
            except TooLarge:
                self._fits[fn] = False
        return self._fits[fn]

    def type_at(self, node: Node, j: int) -> Type:
        return self.current.nodes[node.inputs[j]].type

    @property
    def current(self) -> Graph:
        """The graph whose steps are being written: the innermost window's."""
        return self.inner[-1] if self.inner else self.graph

    def window_size(self) -> int:
        """How many events one run of the innermost sub-pipeline gets."""
        return self.windows[-1]

    @staticmethod
    def flow(present: str | None, values: list[str], key: str | None) -> Flow:
        """A stream that is there already."""
        return Flow(present, values, key)

    def same(self, flow: Flow, values: list[str]) -> Flow:
        return Flow(flow.present, values, flow.key)


def _kinds(fn: Function) -> list[Type]:
    return [t for p in fn.params for t in leaf_types(p)]
