"""The state of a running pipeline: rows of words for each key, and the cells of queues.

It has two forms with the same contents: lists for kernels that CPython runs, arrays for compiled ones.
Saved, it is one block of bytes that any process, on any machine, can load into the same pipeline: a
header that says what each word is (step by step), the words, and a checksum.
"""

from __future__ import annotations

import copy
import json
import pickle
import struct
import zlib
from collections.abc import Iterable
from typing import Any

from pellucid.engine.layout import Layout, dense, is_float
from pellucid.errors import StateError
from pellucid.expr.types import STR, EnumType, Type

__all__ = ["FORMAT", "State"]

FORMAT = 1
_MAGIC = b"PELLUCID STATE\n"
_FIXED = 4  # M: position, code, site, spare


class Texts(dict[str, int]):
    """The codes of texts, with the texts by their codes beside them; `setdefault` gives the next code."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)
        super().__init__((text, i) for i, text in enumerate(self.texts))

    def setdefault(self, text: str, code: int = 0) -> int:
        """The text's code, a new one if need be."""
        found = self.get(text)
        if found is None:
            found = self[text] = len(self.texts)
            self.texts.append(text)
        return found


class State:
    """All that a kernel remembers between two calls.  ``compiled`` tells which form it has now."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.compiled = False
        self.pushed = 0
        self.strings = Texts(layout.strings)
        regions, queues = layout.regions, layout.queues
        self.meta: Any = [0] * (_FIXED + len(regions) + len(layout.graph.outputs) + 3 * len(queues))
        for q in range(len(queues)):
            self.meta[self.queue_at(q)] = -1
        self.rows: list[Any] = [[] if r.keys else copy.deepcopy(r.template()) for r in regions]
        self.keys: list[Any] = [[] for _ in regions]
        self.table: list[Any] = [{} for _ in regions]
        self.cells: list[list[Any]] = [[[] for _ in range(1 + len(q.leaves))] for q in queues]
        self.templates: list[Any] = [r.template() for r in regions]
        self.dense: list[int] = [0] * len(regions)  # keys below it are their own row numbers
        for r, region in enumerate(regions):
            if not region.keys:
                self.meta[self.region_at(r)] = 1

    # ------------------------------------------------------------ where things are

    @staticmethod
    def region_at(r: int) -> int:
        """Where the number of rows stands in the meta words."""
        return _FIXED + r

    def output_at(self, o: int) -> int:
        """Where the number of an output's events stands."""
        return _FIXED + len(self.layout.regions) + o

    def queue_at(self, q: int) -> int:
        """Where a queue's free list, first unused cell and number of events stand."""
        return _FIXED + len(self.layout.regions) + len(self.layout.graph.outputs) + 3 * q

    def float_words(self, r: int) -> list[int]:
        """The words of a region's row that hold floats."""
        flags = [is_float(w.type) for w in self.layout.regions[r].words for _ in range(w.count)]
        return [j for j, flag in enumerate(flags) if flag]

    def arrays(self) -> dict[str, Any]:
        """The kernel's arguments by name."""
        out: dict[str, Any] = {"M": self.meta}
        for r in range(len(self.layout.regions)):
            out[f"SI{r}"] = self.rows[r]
            out[f"SF{r}"] = self.rows[r].view("float64") if self.compiled else self.rows[r]
            out[f"TI{r}"], out[f"K{r}"], out[f"H{r}"] = self.templates[r], self.keys[r], self.table[r]
            out[f"D{r}"] = self.dense[r]
        for q, cells in enumerate(self.cells):
            out[f"Q{q}n"] = cells[0]
            for j, cell in enumerate(cells[1:]):
                out[f"Q{q}_{j}"] = cell
        return out

    # ------------------------------------------------------------ the two forms

    def to_compiled(self) -> None:
        """Change lists into arrays."""
        if self.compiled:
            return
        import numpy as np

        self.compiled = True
        self.meta = np.array(self.meta, dtype=np.int64)
        for r, region in enumerate(self.layout.regions):
            self.templates[r] = self._buffer(self.templates[r], r)
            self.rows[r] = self._buffer(self.rows[r], r)
            self.keys[r] = np.array(self.keys[r], dtype=np.int64)
            if region.keys:
                self._resize(r, max(1024, int(self.meta[self.region_at(r)])))
        for q, queue in enumerate(self.layout.queues):
            kinds = ["int64", *("float64" if is_float(t) else "int64" for t in queue.leaves)]
            self.cells[q] = [np.array(c, dtype=k) for c, k in zip(self.cells[q], kinds, strict=True)]

    def _buffer(self, flat: list[Any], r: int) -> Any:
        """Rows of Python numbers as 64-bit words; a float keeps its bits."""
        import numpy as np

        floats = self.float_words(r)
        width = max(self.layout.regions[r].width, 1)
        if not floats:
            return np.array(flat, dtype=np.int64)
        out = np.zeros(len(flat), dtype=np.int64)
        matrix, source = out.reshape(-1, width), list(flat)
        for j in range(width):
            column = source[j::width]
            if j in floats:
                matrix.view(np.float64)[:, j] = column
            else:
                matrix[:, j] = column
        return out

    def to_plain(self) -> None:
        """Change arrays into lists."""
        if not self.compiled:
            return
        self.compiled = False
        self.meta = self.meta.tolist()
        for r, region in enumerate(self.layout.regions):
            rows = self.meta[self.region_at(r)]
            self.templates[r] = region.template()
            self.rows[r] = self._lists(self.rows[r][: rows * region.width], r)
            size = len(region.keys)
            self.keys[r] = self.keys[r][: rows * size].tolist()
            if size:
                pairs = zip(*[self.keys[r][j::size] for j in range(size)], strict=True)
                self.table[r] = {key: i for i, key in enumerate(pairs)}
        for q in range(len(self.layout.queues)):
            used = self.meta[self.queue_at(q) + 1]
            self.cells[q] = [c[:used].tolist() for c in self.cells[q]]

    def _lists(self, buffer: Any, r: int) -> list[Any]:
        width = self.layout.regions[r].width
        floats = self.float_words(r)
        flat: list[Any] = buffer.tolist()
        if floats:
            as_floats = buffer.view("float64").tolist()
            for j in floats:
                flat[j::width] = as_floats[j::width]
        return flat

    # ------------------------------------------------------------ growth (compiled form)

    def grow_region(self, r: int) -> None:
        """Make room for twice as many keys."""
        size = len(self.layout.regions[r].keys)
        self._resize(r, 2 * max(512, len(self.keys[r]) // size, self.layout.regions[r].new_keys))

    def _resize(self, r: int, rows: int) -> None:
        import numpy as np

        from pellucid.engine.prims import rehash

        region = self.layout.regions[r]
        size, have = len(region.keys), int(self.meta[self.region_at(r)])
        self.rows[r] = _longer(self.rows[r], rows * region.width)
        self.keys[r] = _longer(self.keys[r], rows * size)
        searched = max(rows - self.dense[r], 512)  # small whole keys are found without the table
        self.table[r] = np.zeros(1 << (2 * searched - 1).bit_length(), dtype=np.int64)
        rehash(self.table[r], self.keys[r], size, self.dense[r], have)

    def make_dense(self, r: int, rows: int) -> None:
        """Give the keys 0 … rows-1 the rows of the same numbers, while there is none yet.

        A row that is never used is as it starts, which is what its key's state is.
        """
        import numpy as np

        self.to_compiled()
        if self.meta[self.region_at(r)] or not dense(self.layout.regions[r]):
            return
        self.dense[r] = int(rows)
        self.meta[self.region_at(r)] = rows
        self.rows[r] = np.tile(self.templates[r], rows) if self.templates[r].any() else np.zeros(rows * len(self.templates[r]), np.int64)
        self.keys[r] = np.arange(rows, dtype=np.int64)
        self._resize(r, rows + 1024)

    def grow_queue(self, q: int) -> None:
        """Make room for twice as many waiting events."""
        room = 2 * max(64, len(self.cells[q][0]), self.layout.queues[q].burst or 1)
        self.cells[q] = [_longer(c, room) for c in self.cells[q]]

    # ------------------------------------------------------------ strings

    def texts(self) -> list[str]:
        """The texts by their codes."""
        return self.strings.texts

    def code(self, text: str) -> int:
        """The code of a text, a new one if need be."""
        return self.strings.setdefault(text, len(self.strings))

    def forget_strings(self) -> None:
        """Drop the texts that no word, key or queue mentions: memory follows the state, not the input."""
        if self._objects():
            return  # a state that is any Python object has no words to look into
        live: set[int] = set(range(len(self.layout.strings)))
        for place in self._string_places():
            live.update(place.ravel().tolist())
        texts = list(self.strings)
        kept = [texts[c] for c in sorted(live) if 0 <= c < len(texts)]
        self._recode(texts, Texts(kept))

    def _recode(self, old: list[str], new: Texts) -> None:
        """Change every stored code from one table of texts to another."""
        import numpy as np

        table = np.array([new.get(text, -1) for text in old] or [0], dtype=np.int64)
        self.to_compiled()
        for place in self._string_places():
            inside = (place >= 0) & (place < len(old))
            place[inside] = table[place[inside]]
        self.strings = new
        for r, region in enumerate(self.layout.regions):
            if STR in region.keys:
                self._resize(r, max(1, len(self.keys[r]) // len(region.keys)))

    def _string_places(self) -> list[Any]:
        """Views of all words, keys and cells that hold codes of texts."""
        self.to_compiled()
        places = []
        for r, region in enumerate(self.layout.regions):
            rows = int(self.meta[self.region_at(r)])
            matrix = self.rows[r][: rows * region.width].reshape(-1, max(region.width, 1))
            at = 0
            for word in region.words:
                if word.type == STR:
                    places.append(matrix[:, at : at + word.count])
                at += word.count
            size = len(region.keys)
            places += [self.keys[r][j : rows * size : size] for j, t in enumerate(region.keys) if t == STR]
        for q, queue in enumerate(self.layout.queues):
            used = int(self.meta[self.queue_at(q) + 1])
            places += [c[:used] for c, t in zip(self.cells[q][1:], queue.leaves, strict=True) if t == STR]
        return places

    # ------------------------------------------------------------ saved

    def save(self) -> bytes:
        """The state as bytes."""
        objects = self._objects()
        was_compiled = self.compiled
        if not objects:
            self.to_compiled()
            blocks = self._blocks()
            if not was_compiled:
                self.to_plain()
        else:
            try:
                blocks = [pickle.dumps((self.meta, self.rows, self.keys, self.cells))]
            except Exception as error:
                steps = ", ".join(n.id for n in self.layout.graph.nodes if n.kind == "task" and n.state is None)
                raise StateError(f"the state of step {steps} cannot be saved: {error}; keep something that pickle takes") from None
        header = {
            "format": FORMAT,
            "pipeline": self.layout.graph.name,
            "pushed": self.pushed,
            "steps": self._described(),
            "strings": list(self.strings),
            "objects": objects,
            "dense": self.dense,
            "blocks": [len(b) for b in blocks],
        }
        head = json.dumps(header).encode()
        body = struct.pack("<I", len(head)) + head + b"".join(blocks)
        return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    def _objects(self) -> bool:
        """Whether some task's state is any Python object."""
        return any(n.kind == "task" and n.state is None for n in self.layout.graph.nodes)

    def _blocks(self) -> list[bytes]:
        out = [self.meta.tobytes()]
        for r, region in enumerate(self.layout.regions):
            rows = int(self.meta[self.region_at(r)])
            out += [self.rows[r][: rows * region.width].tobytes(), self.keys[r][: rows * len(region.keys)].tobytes()]
        for q in range(len(self.layout.queues)):
            used = int(self.meta[self.queue_at(q) + 1])
            out += [c[:used].tobytes() for c in self.cells[q]]
        return out

    def _described(self) -> list[Any]:
        """What each word is: compared when a state is loaded."""
        out: list[Any] = []
        for r, region in enumerate(self.layout.regions):
            keys = [_mark(t) for t in region.keys]
            out += [[w.step, w.label, _mark(w.type), w.count, keys] for w in region.words]
            out += [["", f"region {r}", "", region.width, keys]]
        out += [[q.id, "queue", [_mark(t) for t in q.leaves], 0, []] for q in self.layout.queues]
        return out

    @staticmethod
    def load(layout: Layout, data: bytes) -> State:
        """The state that was saved, for the pipeline with this layout."""
        import numpy as np

        if not data.startswith(_MAGIC):
            raise StateError("this is no saved state of Pellucid: expected what save() returned")
        start = len(_MAGIC) + 4
        (checksum,) = struct.unpack("<I", data[len(_MAGIC) : start].ljust(4, b"\0"))
        body = data[start:]
        if zlib.crc32(body) != checksum or len(body) < 4:
            raise StateError("the saved state is damaged (its checksum is wrong): use an older one")
        (size,) = struct.unpack("<I", body[:4])
        header = json.loads(body[4 : 4 + size])
        if header["format"] != FORMAT:
            raise StateError(f"the saved state has format {header['format']}, this version reads {FORMAT}")
        state = State(layout)
        _compare(header, state._described(), layout.graph.name)
        blocks, at = [], 4 + size
        for length in header["blocks"]:
            blocks.append(body[at : at + length])
            at += length
        state.pushed = header["pushed"]
        state.dense = header["dense"]
        if header["objects"]:
            state.meta, state.rows, state.keys, state.cells = pickle.loads(blocks[0])
            for r, region in enumerate(layout.regions):
                width = len(region.keys)
                if width:
                    pairs = zip(*[state.keys[r][j::width] for j in range(width)], strict=True)
                    state.table[r] = {key: i for i, key in enumerate(pairs)}
            state.strings = Texts(header["strings"])
            if list(state.strings)[: len(layout.strings)] != layout.strings:
                raise StateError("the saved state was made with other constant texts: save it anew")
            return state
        state.to_compiled()
        parts = iter(blocks)
        state.meta = np.frombuffer(next(parts), dtype=np.int64).copy()
        for r, region in enumerate(layout.regions):
            state.rows[r] = np.frombuffer(next(parts), dtype=np.int64).copy()
            state.keys[r] = np.frombuffer(next(parts), dtype=np.int64).copy()
            if region.keys:
                state._resize(r, max(1024, int(state.meta[state.region_at(r)])))
        for q, queue in enumerate(layout.queues):
            kinds = ["int64", *("float64" if is_float(t) else "int64" for t in queue.leaves)]
            state.cells[q] = [np.frombuffer(next(parts), dtype=k).copy() for k in kinds]
        old: list[str] = header["strings"]
        if old[: len(layout.strings)] != layout.strings:
            new = Texts(layout.strings)
            for text in old:
                new.setdefault(text, len(new))
            state._recode(old, new)
        else:
            state.strings = Texts(old)
        return state


def _longer(array: Any, size: int) -> Any:
    import numpy as np

    if len(array) >= size:
        return array
    out = np.zeros(size, dtype=array.dtype)
    out[: len(array)] = array
    return out


def _mark(t: Type) -> str:
    """A type with the names of an enum's members: their numbers are what is stored."""
    if isinstance(t, EnumType):
        return f"{t}{{{','.join(m.name for m in t.members)}}}"
    return str(t)


def _compare(header: dict[str, Any], wanted: list[Any], name: str) -> None:
    found = header["steps"]
    if found == wanted:
        return
    before = {(s[0], s[1]): s for s in found if s[0]}
    now = {(s[0], s[1]): s for s in wanted if s[0]}
    gone = sorted({k[0] for k in before.keys() - now.keys()})
    new = sorted({k[0] for k in now.keys() - before.keys()})
    changed = sorted({k[0] for k in before.keys() & now.keys() if before[k] != now[k]})
    parts = [
        f"{what}: {', '.join(steps)}" for what, steps in (("gone", gone), ("new", new), ("changed", changed)) if steps
    ]
    raise StateError(
        f"the saved state is of another pipeline ({header['pipeline']!r}) than {name!r}; steps that differ: "
        + ("; ".join(parts) or "their order")
    )
