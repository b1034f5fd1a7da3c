"""What the steps of a kernel are written with: streams inside the loop, events put into them and visited, calls of
functions.

A stream that carries at most one event per push is a few local variables and a flag; one that can carry several is a
small buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pellucid.internal.engine.kernel.layout import KernelLayout, dense, is_float, leaf_types
from pellucid.internal.engine.kernel.undo import UndoLog
from pellucid.internal.expr.codegen import CodeWriter, TooLarge
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, INT, Type
from pellucid.internal.graph.model import Graph, Node

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
