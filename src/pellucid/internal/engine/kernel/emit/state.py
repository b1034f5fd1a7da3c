"""Where a step's words live in a kernel: in rows of a region, in local variables, or in a window's inner run; how the
row of a key is found, and queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.internal.engine.kernel.layout import KernelLayout, QueueLayout, Region, Word, is_float
from pellucid.internal.expr.types import BOOL, INT, Type
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.flows import Pen


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
            # A key that begins anew takes its own place in the table again.
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
