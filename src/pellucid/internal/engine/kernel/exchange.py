"""Columns between the outside and a kernel: events as the numbers that it reads, and its numbers as events again.

A kernel knows whole numbers, floats and Booleans; texts are codes of a table that the state keeps, enums places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError
from pellucid.internal.data.columns import Batch, Column, Output, Strings
from pellucid.internal.engine.kernel.layout import KernelLayout, dense, is_float, leaf_types
from pellucid.internal.engine.kernel.pieces import cut, head, shifted
from pellucid.internal.expr.types import BOOL, STR, EnumType, Type
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState


@dataclass
class Exchange:
    """For one graph, run with a key that comes with the data or without, and the state that has its texts and keys."""

    graph: Graph
    key: Type | None
    state: EngineState

    def inputs(self, kernel: Kernel, batch: Batch, start: int, stop: int) -> dict[str, Any]:
        """The arguments of a kernel that are columns of a batch: events, which sources are there, keys."""
        out: dict[str, Any] = {}
        whole = start == 0 and stop == batch.count
        for s, at in enumerate(self.graph.sources):
            for j, (t, column) in enumerate(zip(leaf_types(self.graph.nodes[at].type), batch.columns[s], strict=True)):
                out[f"in{s}_{j}"] = self._column(t, column if whole else cut(column, start, stop), kernel.numba)
            if kernel.masked:
                mask: Any = batch.masks[s] if batch.masks else None
                mask = _everywhere(batch.count, kernel.numba) if mask is None else mask
                out[f"mask{s}"] = self._column(BOOL, mask if whole else mask[start:stop], kernel.numba)
            if self.key is not None:
                if batch.keys is None:
                    raise UsageError(f"{self.graph.name} runs per key here, but the batch has no key columns")
                for j, (t, column) in enumerate(zip(leaf_types(self.key), batch.keys[s], strict=True)):
                    out[f"key{s}_{j}"] = self._column(t, column if whole else cut(column, start, stop), kernel.numba)
        return out

    def look_for_small_keys(self, layout: KernelLayout, columns: dict[str, Any], count: int) -> None:
        """Where keys are small whole numbers, let them be row numbers: a search costs more than the work."""
        for key, r in layout.region_of.items():
            if isinstance(key, str):  # its keys are given up
                continue
            name = "key0_0" if key is None else self._column_of_key(key)
            if not dense(layout.regions[r]) or name not in columns or not count:
                continue
            keys = columns[name][:: max(1, count >> 16)]  # a sample: a key beyond it is searched for
            least, most = int(keys.min()), int(keys.max())
            rows = 1 << most.bit_length()
            small = rows * max(layout.regions[r].width, 1) <= 1 << 24  # words
            if least >= 0 and rows <= max(4 * count, 1 << 12) and small:
                self.state.make_dense(r, rows)

    def _column_of_key(self, key: Type) -> str:
        """The input column that a key_by reads its key from, if it is a bare field of a source."""
        for node in self.graph.nodes:
            if node.processor.keyed and node.key == key and node.fn is not None and node.fn.traced is not None:
                (leaf, *rest), before = node.fn.traced.outputs, self.graph.nodes[node.inputs[0]]
                while before.processor.passes == "first":
                    before = self.graph.nodes[before.inputs[0]]
                if leaf.op == "var" and not rest and before.kind == "source":
                    return f"in{self.graph.sources.index(self.graph.position[before.id])}_{leaf.value}"
        return ""

    def _column(self, t: Type, column: Any, compiled: bool) -> Any:
        """A column as the kernel reads it: an array, or a list of numbers."""
        state = self.state
        if isinstance(column, Strings):
            import numpy as np

            table = np.array([state.code(v) for v in column.values] or [0], dtype=np.int64)
            codes = table[column.codes]
            return np.ascontiguousarray(codes) if compiled else codes.tolist()
        if isinstance(column, list):
            if t == STR:
                codes = state.strings
                column = [codes.setdefault(v, len(codes)) for v in column]
            elif isinstance(t, EnumType):
                places = {m: i for i, m in enumerate(t.members)}
                column = [places[v] for v in column]
            if not compiled:
                return column
        import numpy as np

        kind = np.float64 if is_float(t) else np.bool_ if t == BOOL else np.int64
        array: Any = np.ascontiguousarray(column, dtype=kind)
        return array if compiled else array.tolist()

    def room(self, kernel: Kernel, count: int) -> list[dict[str, Any]]:
        """Empty output columns."""
        outs: list[dict[str, Any]] = []
        for o, (_, at) in enumerate(self.graph.outputs):
            node = self.graph.nodes[at]
            names = [(f"O{o}_{j}", t) for j, t in enumerate(leaf_types(node.type))]
            extra = [name for name in (f"P{o}", f"G{o}") if name in kernel.params]
            if not kernel.numba:
                outs.append({name: [] for name in [*[n for n, _ in names], *extra]})
                continue
            import numpy as np

            room = count * (kernel.capacity[o] or 1)
            columns: dict[str, Any] = {
                n: np.empty(room, np.float64 if is_float(t) else np.bool_ if t == BOOL else np.int64) for n, t in names
            }
            outs.append(columns | {name: np.empty(room, np.int64) for name in extra})
        return outs

    @staticmethod
    def more_room(columns: dict[str, Any]) -> dict[str, Any]:
        """Make an output's columns longer, for a compiled kernel that may put out any number of events for a push."""
        import numpy as np

        for name, column in columns.items():
            columns[name] = np.concatenate([column, np.empty(max(len(column), 1024), column.dtype)])
        return columns

    def collected(self, kernel: Kernel, outs: list[dict[str, Any]], offset: int, numbers: Any) -> list[Output]:
        """What the kernel put out, with the positions of the pushes if it notes them."""
        results = []
        for o, (name, at) in enumerate(self.graph.outputs):
            node = self.graph.nodes[at]
            have = int(self.state.meta[self.state.output_at(o)])
            columns = [self._decoded(t, head(outs[o][f"O{o}_{j}"], have)) for j, t in enumerate(leaf_types(node.type))]
            output = Output(name, node.type, columns)
            if kernel.positions:
                at = head(outs[o][f"P{o}"], have)
                output.positions = shifted(at, offset) if numbers is None else numbers[at]
                if f"G{o}" in outs[o]:
                    rows = head(outs[o][f"G{o}"], have)
                    output.key_type, output.keys = self._keys_of(node, rows)
                    if self.key is not None and node.key is not None:
                        r = self.state.layout.region_of[node.key]
                        output.inner = self.key_columns(node.key, r, rows, 1)
            results.append(output)
        return results

    def _decoded(self, t: Type, column: Any) -> Column:
        """A kernel's column as the outside sees it."""
        if t == STR:
            texts = self.state.texts()
            if isinstance(column, list):
                return [texts[c] for c in column]
            return Strings(column, texts)
        if isinstance(column, list):
            if isinstance(t, EnumType):
                members = t.members
                return [members[c] for c in column]
            if t == BOOL:
                return [bool(v) for v in column]
        result: Column = column
        return result

    def _keys_of(self, node: Node, rows: Any) -> tuple[Type, list[Column]]:
        """The keys of these rows: the one that came with the data, if one did, else a key_by's own."""
        state, layout = self.state, self.state.layout
        key = self.key if self.key is not None else node.key
        assert key is not None
        r = layout.region_of[node.key]
        size = len(layout.regions[r].keys)
        # under a key_by: its rows know those of the key that came with the data
        if self.key is not None and node.key is not None:
            inner = state.keys[r]
            rows = [inner[row * size] for row in rows] if isinstance(rows, list) else inner[rows * size]
            r = layout.region_of[None]
        return key, self.key_columns(key, r, rows)

    def key_columns(self, key: Type, r: int, rows: Any, first: int = 0) -> list[Column]:
        """The leaves of the keys of these rows of a region; before them there may be others."""
        state, size = self.state, len(self.state.layout.regions[r].keys)
        columns: list[Column] = []
        for j, t in enumerate(leaf_types(key)):
            stored = state.keys[r]
            if isinstance(rows, list):
                values: Any = [stored[row * size + first + j] for row in rows]
                values = [bool(v) for v in values] if t == BOOL else values
            else:
                values = stored[rows * size + first + j]
                values = values.astype(bool) if t == BOOL else values
            columns.append(self._decoded(t, values))
        return columns


def _everywhere(count: int, compiled: bool) -> Any:
    """The mask of a source that is never silent."""
    if not compiled:
        return [True] * count
    import numpy as np

    return np.ones(count, dtype=np.bool_)
