"""Columns between the outside and a kernel: events as the numbers that it reads, and its numbers as events again.

A kernel knows whole numbers, floats and Booleans; texts are codes of a table that the state keeps, enums places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError
from pellucid.internal.data.bind import no_nan
from pellucid.internal.data.columns import Batch, Column, Output, Strings, columns_of
from pellucid.internal.engine.kernel.layout import KernelLayout, dense, is_float, leaf_types
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, ScalarType, Type, conform
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.stream import silent

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState

# Columns on their way into a kernel and out of it: checked, cut, filled up, joined.


def conformed(name: str, t: Type, events: list[Any], offset: int, nan: bool = True) -> list[Any]:
    """Events that fit a type; the first that does not is refused with its number."""
    out = []
    floats = not nan and any(leaf == FLOAT for _, leaf in t.leaves())
    for i, event in enumerate(events):
        try:
            out.append(conform(t, event))
            if floats and any(leaf != leaf for leaf in t.flatten(out[-1])):
                raise ValueError(no_nan(t))
        except ValueError as error:
            raise DataError(f"source {name!r}, event {offset + i:,}: {error}") from None
    return out


def checked(name: str, t: Type, array: Any, offset: int, nan: bool) -> Any:
    """An array whose numbers fit the source's type; nothing is cut off in silence."""
    import numpy as np

    kind = np.dtype({"bool": np.bool_, "int": np.int64, "float": np.float64}[str(t)])
    if array.ndim != 1 or not (array.dtype == kind or (t != BOOL and np.can_cast(array.dtype, kind, "safe"))):
        raise DataError(
            f"source {name!r}: expected a one-dimensional array of {t}, found {array.ndim} dimension(s) of "
            f"{array.dtype}"
        )
    if t == FLOAT and not nan and np.isnan(array).any():
        raise DataError(f"source {name!r}, event {offset + int(np.isnan(array).argmax()):,}: {no_nan(t)}")
    return array


def as_array(column: Any) -> Any:
    """A column as one array; texts as objects."""
    import numpy as np

    return np.asarray([column.values[c] for c in column.codes] if isinstance(column, Strings) else column)


def padded(t: Type, column: Any, count: int) -> Any:
    """A column with rows added that are no events."""
    missing = count - len(column)
    if isinstance(column, list):
        zero = t.members[0] if isinstance(t, EnumType) else "" if t == STR else 0
        return column + [column[0] if column else zero] * missing
    import numpy as np

    return np.concatenate([column, np.zeros(missing, column.dtype)])


def cut(column: Any, start: int, stop: int) -> Any:
    """Some rows of a column."""
    return Strings(column.codes[start:stop], column.values) if isinstance(column, Strings) else column[start:stop]


def head(column: Any, have: int) -> Any:
    """The filled part; a copy where that frees much memory."""
    if isinstance(column, list):
        return column
    return column[:have].copy() if have < len(column) // 2 else column[:have]


def shifted(positions: Any, offset: int) -> Any:
    """Positions in a chunk as positions in the stream."""
    if isinstance(positions, list):
        return [p + offset for p in positions] if offset else positions
    return positions + offset


def joined(parts: Sequence[Output]) -> Output:
    """What an output emitted, part after part, as one."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    def join(columns: list[Any]) -> Any:
        if isinstance(columns[0], Strings):
            if any(c.values is not columns[0].values for c in columns):  # the table was rebuilt in between
                return [c.values[code] for c in columns for code in c.codes.tolist()]
            return Strings(np.concatenate([c.codes for c in columns]), columns[-1].values)
        if isinstance(columns[0], list):
            return [v for c in columns for v in c]
        return np.concatenate(columns)

    first = parts[0]
    joined = Output(first.name, first.type, [join([p.columns[j] for p in parts]) for j in range(len(first.columns))])
    if first.positions is not None:
        joined.positions = join([p.positions for p in parts])
    if first.keys is not None:
        joined.key_type = first.key_type
        joined.keys = [join([p.keys[j] for p in parts if p.keys is not None]) for j in range(len(first.keys))]
    if first.inner is not None:
        joined.inner = [join([p.inner[j] for p in parts if p.inner is not None]) for j in range(len(first.inner))]
    return joined


# Chunks of events that a user pushes, as a batch of columns; and what comes out, as the user's kind of data.


def batch_given(
    graph: Graph, key: Type | None, pushed: int, nan: bool, data: Sequence[Any], named: dict[str, Any]
) -> tuple[Batch, bool]:
    """One chunk for each source, by position or by name, as a batch; and whether all of them are arrays.

    ``key`` is the type of a key that comes with the data, ``pushed`` how many pushes there have been, ``nan`` whether a
    NaN is a value.
    """
    names = [graph.nodes[i].id for i in graph.sources]
    keys = named.pop("key", None) if key is not None else None
    given = dict(zip(names, data, strict=False)) | named
    if len(data) > len(names) or set(given) != set(names):
        raise UsageError(f"{graph.name} wants one chunk for each source: {', '.join(names)}")
    key_columns = None
    if key is not None:
        given = {name: events if hasattr(events, "__len__") else list(events) for name, events in given.items()}
        key_columns = _keys_given(graph, key, pushed, keys, given)
    arrays = all(type(d).__module__ == "numpy" for d in given.values())
    columns: list[list[Any]] = []
    masks: list[Any] = []
    for name in names:
        t = graph[name].type
        events = given[name]
        if type(events).__module__ == "numpy" and t in (BOOL, INT, FLOAT):
            columns.append([checked(name, t, events, pushed, nan)])
            masks.append([True] * len(events) if len(names) > 1 else None)
            continue
        if hasattr(events, "columns") or isinstance(events, Mapping):  # whose items are columns, or their names
            raise UsageError(
                f"source {name!r}: a chunk is a list of events, found {type(events).__name__}: call the pipeline "
                "itself on a table, or push its rows as events"
            )
        events = list(events)
        masks.append([e is not silent for e in events])
        if len(names) == 1:  # a push in which nothing comes in does nothing
            events, masks[-1] = [e for e in events if e is not silent], None
        fill = next((e for e in events if e is not silent), silent)
        events = [fill if e is silent else e for e in events]
        columns.append(
            columns_of(t, conformed(name, t, events, pushed, nan))
            if fill is not silent
            else [[] for _ in range(t.width)]
        )
    count = max([len(m) for m in masks if m is not None], default=len(columns[0][0]))
    for s, mask in enumerate(masks):
        if mask is not None and (len(mask) < count or len(columns[s][0]) < count):
            masks[s] = mask + [False] * (count - len(mask))
            columns[s] = [
                padded(t, c, count) for (_, t), c in zip(graph[names[s]].type.leaves(), columns[s], strict=True)
            ]
    return Batch(count, columns, masks, key_columns), arrays


def shown(outputs: Sequence[Output], arrays: bool) -> Any:
    """What outputs emit: lists, or arrays; several by name."""
    results = {
        o.name: as_array(o.columns[0]) if arrays and isinstance(o.type, (ScalarType, EnumType)) else o.events()
        for o in outputs
    }
    return next(iter(results.values())) if len(results) == 1 else results


def _keys_given(graph: Graph, key: Type, pushed: int, keys: Any, given: dict[str, Any]) -> list[list[Column]]:
    """The columns of the keys of a chunk, for each source; a key stands beside each push."""
    who, count = f"{graph.name} runs per key here ({key})", max(map(len, given.values()))
    if keys is None or isinstance(keys, str) or not hasattr(keys, "__len__"):
        raise UsageError(
            f"{who}: expected the key of each push, as in push(events, key=[…]), found "
            f"{'none' if keys is None else repr(keys)}"
        )
    if len(keys) != count:
        raise UsageError(f"{who}: expected {count:,} keys, one for each push, found {len(keys):,}")
    plain = [k.item() if type(k).__module__ == "numpy" else k for k in keys]
    if len(given) == 1:  # as for the events: a push in which nothing comes in is left out
        (events,) = given.values()
        plain = [k for k, event in zip(plain, events, strict=True) if event is not silent]
    columns = columns_of(key, conformed("key", key, plain, pushed))
    return [columns for _ in given]


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
        """Make an output's columns longer, for a compiled kernel that may emit any number of events for a push."""
        import numpy as np

        for name, column in columns.items():
            columns[name] = np.concatenate([column, np.empty(max(len(column), 1024), column.dtype)])
        return columns

    def collected(self, kernel: Kernel, outs: list[dict[str, Any]], offset: int, numbers: Any) -> list[Output]:
        """What the kernel emitted, with the positions of the pushes if it notes them."""
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
