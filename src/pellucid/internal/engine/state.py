"""The state of a running pipeline: rows of words for each key, and the cells of queues.

It has two forms with the same contents: lists for kernels that CPython runs, arrays for compiled ones.
Saved, it is one block of bytes that any process, on any machine, can load into the same pipeline (see
`engine.saved.form`), or carry over to a changed one (`engine.saved.carry`).
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError
from pellucid.internal.base.container import Buffer, Container
from pellucid.internal.engine.kernel.layout import KernelLayout, dense, is_float
from pellucid.internal.engine.saved.form import (
    BROKEN,
    DamagedState,
    check_words,
    compare,
    describe,
    pack,
    pack_texts,
    unpack,
    unpack_texts,
)
from pellucid.internal.engine.saved.own_types import OwnTypes
from pellucid.internal.expr.types import STR

if TYPE_CHECKING:
    from pellucid.internal.engine.saved.objects import ObjectWord

_FEW_TEXTS = 1024  # so many that nothing needs may stay in a saved state
_NEW_TEXT = threading.Lock()
_SOME_KEYS = 1024
_FIXED = 4  # M: position, code, site, spare


class TextTable(dict[str, int]):
    """The codes of texts, with the texts by their codes beside them; `setdefault` gives the next code."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(texts)
        super().__init__(zip(self.texts, range(len(self.texts)), strict=True))

    def setdefault(self, text: str, code: int = 0) -> int:
        """The text's code, a new one if need be."""
        found = self.get(text)
        if found is None:
            with _NEW_TEXT:  # kernels in several threads may share the texts
                found = self.get(text)
                if found is None:
                    found = len(self.texts)
                    self.texts.append(text)
                    self[text] = found
        return found


class EngineState:
    """All that a kernel remembers between two calls.  ``compiled`` tells which form it has now."""

    def __init__(self, layout: KernelLayout) -> None:
        self.layout = layout
        self.compiled = False
        self.pushed = 0
        self.strings = TextTable(layout.strings)
        regions, queues = layout.regions, layout.queues
        self.meta: Any = [0] * (_FIXED + len(regions) + len(layout.graph.outputs) + 3 * len(queues))
        for q in range(len(queues)):
            self.meta[self.queue_at(q)] = -1
        self.rows: list[Any] = [[] if r.keys else copy.deepcopy(r.template()) for r in regions]
        self.keys: list[Any] = [[] for _ in regions]
        self.table: list[Any] = [{} for _ in regions]  # None: to be made when a compiled kernel asks for it
        self.cells: list[list[Any]] = [[[] for _ in range(1 + len(q.leaves))] for q in queues]
        self.templates: list[Any] = [r.template() for r in regions]
        self.room: list[int] = [_SOME_KEYS] * len(regions)  # where keys are given up: rows before that is looked at
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
            self._index(r)
            out[f"SI{r}"] = self.rows[r]
            out[f"SF{r}"] = self.rows[r].view("float64") if self.compiled else self.rows[r]
            out[f"TI{r}"], out[f"K{r}"], out[f"H{r}"] = self.templates[r], self.keys[r], self.table[r]
            out[f"D{r}"], out[f"R{r}"] = self.dense[r], self.room[r]
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

        self.give_up()
        self.compiled = True
        self.meta = np.array(self.meta, dtype=np.int64)
        for r, region in enumerate(self.layout.regions):
            self.templates[r] = self._buffer(self.templates[r], r)
            self.rows[r] = self._buffer(self.rows[r], r)
            self.keys[r] = np.array(self.keys[r], dtype=np.int64)
            if region.keys:
                self._resize(r, max(1024, int(self.meta[self.region_at(r)])))
        for q in range(len(self.layout.queues)):
            self.cells[q] = [np.array(c, dtype=k) for c, k in zip(self.cells[q], self._kinds(q), strict=True)]

    def _kinds(self, q: int) -> list[str]:
        """The types of a queue's arrays: the links, and the leaves of an event."""
        return ["int64", *("float64" if is_float(t) else "int64" for t in self.layout.queues[q].leaves)]

    def _buffer(self, flat: list[Any], r: int) -> Any:
        """Rows of Python numbers as 64-bit words; a float keeps its bits.  What is any Python object is no word, and
        zero."""
        import numpy as np

        floats = self.float_words(r)
        width = max(self.layout.regions[r].width, 1)
        for word in self.objects:
            if word.region == r:
                flat = [*flat]
                flat[word.at :: width] = [0] * (len(flat) // width)
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
        self.give_up()
        self.compiled = False
        self.meta = self.meta.tolist()
        for r, region in enumerate(self.layout.regions):
            rows = self.meta[self.region_at(r)]
            self.templates[r] = region.template()
            self.rows[r] = self._lists(self.rows[r][: rows * region.width], r)
            self.keys[r] = self.keys[r][: rows * len(region.keys)].tolist()
            self.plain_table(r)
        for q in range(len(self.layout.queues)):
            used = self.meta[self.queue_at(q) + 1]
            self.cells[q] = [c[:used].tolist() for c in self.cells[q]]

    def plain_table(self, r: int) -> None:
        """Make the dictionary that finds the rows of a region's keys (plain form)."""
        size = len(self.layout.regions[r].keys)
        pairs = zip(*[self.keys[r][j::size] for j in range(size)], strict=True)
        self.table[r] = {key: i for i, key in enumerate(pairs)}

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
        if self.layout.regions[r].forgets:
            held, many = self._give_up(r), self.layout.regions[r].new_keys
            self.room[r] = 2 * max(_SOME_KEYS // 2, held)
            if self.compiled:
                self._resize(r, 2 * (held + many) + _SOME_KEYS)
            return
        self._resize(r, 2 * max(512, len(self.keys[r]) // size, self.layout.regions[r].new_keys))

    def _resize(self, r: int, rows: int) -> None:
        region = self.layout.regions[r]
        self.rows[r] = _longer(self.rows[r], rows * region.width)
        self.keys[r] = _longer(self.keys[r], rows * len(region.keys))
        self.table[r] = None

    def _index(self, r: int) -> None:
        """Make the table of a region's keys, if it is due: who only saves or reads a state needs none."""
        if self.table[r] is not None:
            return
        self._give_up(r)  # a key that started again has two rows
        import numpy as np

        from pellucid.internal.engine.kernel.prims import rehash

        size, have = len(self.layout.regions[r].keys), int(self.meta[self.region_at(r)])
        searched = max(len(self.keys[r]) // size - self.dense[r], 512)  # small whole keys are found without the table
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
        self.rows[r] = (
            np.tile(self.templates[r], rows)
            if self.templates[r].any()
            else np.zeros(rows * len(self.templates[r]), np.int64)
        )
        self.keys[r] = np.arange(rows, dtype=np.int64)
        self._resize(r, rows + 1024)

    def grow_queue(self, q: int) -> None:
        """Make room for twice as many waiting events."""
        room = 2 * max(64, len(self.cells[q][0]), self.layout.queues[q].burst or 1)
        self.cells[q] = [_longer(c, room) for c in self.cells[q]]

    # ------------------------------------------------------------ keys that are given up

    def give_up(self) -> None:
        """Take back the rows of all keys that would start again with the next event."""
        for r in range(len(self.layout.regions)):
            self._give_up(r)

    def given_up(self) -> dict[str, int]:
        """How many keys each ``forget`` has given up so far: those that began, without those that are held."""
        self.give_up()
        return {
            region.forgets: int(self._whole(region.forgets, "begun")) - int(self.meta[self.region_at(r)])
            for r, region in enumerate(self.layout.regions)
            if region.forgets
        }

    def _whole(self, step: str, label: str) -> Any:
        """A word that a step keeps once for the whole stream."""
        r = self.layout.region_of[None]
        words = [(w.step, w.label) for w in self.layout.regions[r].words for _ in range(w.count)]
        return self.rows[r][words.index((step, label))]

    def _give_up(self, r: int) -> int:
        """The same for one region; how many keys it holds."""
        region, rows = self.layout.regions[r], int(self.meta[self.region_at(r)])
        if not region.forgets:
            return rows
        now = int(self._whole(region.forgets, "events"))
        last = self.rows[r][region.last : rows * region.width : region.width]
        if self.compiled:
            held = (now - last - 1 < region.after).nonzero()[0]
        else:
            held = [s for s, at in enumerate(last) if now - at - 1 < region.after]
        return self.keep_rows(r, held)

    def keep_rows(self, r: int, held: Any) -> int:
        """Give up the keys of all rows of a region but these, which are in their order; how many it holds then.  The
        keys of a region whose keys are row numbers stay."""
        region, rows = self.layout.regions[r], int(self.meta[self.region_at(r)])
        width, size = region.width, len(region.keys)
        if len(held) == rows or self.dense[r]:
            return rows
        self._give_back(r, held)
        self.meta[self.region_at(r)] = len(held)
        if self.compiled:
            words, keys = self.rows[r][: rows * width], self.keys[r][: rows * size]
            self.put_region(r, words.reshape(rows, width)[held].ravel(), keys.reshape(rows, size)[held].ravel())
        else:
            self.rows[r] = [w for s in held for w in self.rows[r][s * width : (s + 1) * width]]
            self.keys[r] = [k for s in held for k in self.keys[r][s * size : (s + 1) * size]]
            self.plain_table(r)
        return len(held)

    def _give_back(self, r: int, held: Iterable[int]) -> None:
        """The cells of events that wait under other keys than these are free again."""
        region, rows = self.layout.regions[r], int(self.meta[self.region_at(r)])
        labels = [w.label for w in region.words for _ in range(w.count)]
        queues = [(q, queue.id) for q, queue in enumerate(self.layout.queues) if f"{queue.id}.head" in labels]
        kept = {int(s) for s in held} if queues else set()
        for q, id in queues:
            meta, links = self.queue_at(q), self.cells[q][0]
            head, tail, length = (labels.index(f"{id}.{end}") for end in ("head", "tail", "length"))
            words = self.rows[r]
            for row in [s for s in range(rows) if s not in kept and words[s * region.width + length]]:
                at = row * region.width
                links[int(words[at + tail])], self.meta[meta] = self.meta[meta], words[at + head]
                self.meta[meta + 2] -= words[at + length]

    # ------------------------------------------------------------ strings

    def texts(self) -> list[str]:
        """The texts by their codes."""
        return self.strings.texts

    def code(self, text: str) -> int:
        """The code of a text, a new one if need be."""
        return self.strings.setdefault(text, len(self.strings))

    def forget_strings(self, unless_used: float = 1.0, others: Sequence[EngineState] = ()) -> None:
        """Drop the texts that no word, key or queue mentions: memory follows the state, not the input.

        Where more than the share ``unless_used`` of them is in use, nothing is done.  ``others`` are states with the
        same texts.
        """
        if self.has_objects():
            return  # a state that is any Python object has no words to look into
        import numpy as np

        self.give_up()
        texts = self.strings.texts
        live = np.zeros(len(texts), dtype=np.bool_)
        live[: len(self.layout.strings)] = True
        for place in [place for state in (self, *others) for place in state._string_places()]:
            live[place[(place >= 0) & (place < len(texts))]] = True
        kept = np.flatnonzero(live).tolist()
        if len(kept) <= unless_used * len(texts):
            new = TextTable([texts[c] for c in kept])
            for state in (self, *others):
                state.recode(np.cumsum(live) - 1, new)

    def recode(self, table: Any, new: TextTable) -> None:
        """Change every stored code ``c`` to ``table[c]``, its number among other texts."""
        for place in self._string_places():
            inside = (place >= 0) & (place < len(table))
            place[inside] = table[place[inside]]
        self.strings = new
        for r, region in enumerate(self.layout.regions):
            if STR in region.keys:
                self.table[r] = None

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
        from pellucid.internal.engine.saved.objects import save_objects  # with NumPy: who saves nothing does without

        self.give_up()
        objects = self.has_objects()
        if not objects and len(self.strings) > len(self.layout.strings) + _FEW_TEXTS:
            was_compiled = self.compiled
            self.forget_strings(unless_used=0.5)
            if not was_compiled:
                self.to_plain()
        blocks = self._blocks() + [
            save_objects(self.layout.graph[o.step], o.of(self), self._types) for o in self.objects
        ]
        header = {"pipeline": self.layout.graph.name, "pushed": self.pushed, "objects": objects, "dense": self.dense}
        return pack(header, [*pack_texts(self.strings.texts), *blocks], about=self._about)

    @cached_property
    def _about(self) -> str:
        """What the words are; short epochs save often."""
        return json.dumps(describe(self.layout))

    @cached_property
    def objects(self) -> list[ObjectWord]:
        """Where the states are that are any Python object."""
        from pellucid.internal.engine.saved.objects import object_words

        return object_words(describe(self.layout))

    @cached_property
    def _types(self) -> OwnTypes:
        return OwnTypes.of(self.layout.graph)

    def has_objects(self) -> bool:
        """Whether some task's state is any Python object."""
        return bool(self.objects)

    def _blocks(self) -> list[Any]:
        """The words as arrays, in either form: meta; template, rows and keys of each region; cells of each queue."""
        import numpy as np

        out: list[Any] = [np.asarray(self.meta, dtype=np.int64)]
        for r, region in enumerate(self.layout.regions):
            rows = int(self.meta[self.region_at(r)])
            template, words, keys = self.templates[r], self.rows[r], self.keys[r]
            if not self.compiled:
                template, words, keys = (
                    self._buffer(template, r),
                    self._buffer(words, r),
                    np.array(keys, dtype=np.int64),
                )
            out += [template, words[: rows * region.width], keys[: rows * len(region.keys)]]
        for q in range(len(self.layout.queues)):
            used = int(self.meta[self.queue_at(q) + 1])
            out += [np.asarray(c[:used], dtype=k) for c, k in zip(self.cells[q], self._kinds(q), strict=True)]
        return out

    @staticmethod
    def load(layout: KernelLayout, data: Buffer) -> EngineState:
        """The state that was saved, for the pipeline with this layout."""
        saved = unpack(data)
        try:
            compare(saved.head, layout)
            return EngineState._loaded(layout, saved)
        except BROKEN as error:
            raise DamagedState(error) from None

    @staticmethod
    def _loaded(layout: KernelLayout, saved: Container) -> EngineState:
        import numpy as np

        from pellucid.internal.engine.saved.objects import load_objects

        state = EngineState(layout)
        state.pushed, state.dense = saved.head["pushed"], list(saved.head["dense"])
        if not isinstance(state.pushed, int) or state.pushed < 0:
            raise DamagedState("it has no number of pushes")
        old = unpack_texts(*saved.blocks[:2])
        if saved.head["objects"] and old[: len(layout.strings)] != layout.strings:
            raise StateError("the saved state was made with other constant texts: carry() takes it, load() does not")
        state.to_compiled()
        parts = iter(saved.blocks[2:])
        meta = np.frombuffer(next(parts), dtype=np.int64).copy()
        if len(meta) != len(state.meta) or len(state.dense) != len(layout.regions):
            raise DamagedState("it has other counters")
        state.meta = meta
        for r, region in enumerate(layout.regions):
            next(parts)  # the row as it started then: of no use to the same pipeline
            words, keys = (np.frombuffer(next(parts), dtype=np.int64) for _ in range(2))
            rows = int(meta[state.region_at(r)])
            if (len(words), len(keys)) != (rows * region.width, rows * len(region.keys)) or (
                rows != 1 and not region.keys
            ):
                raise DamagedState("it has not as many rows as it says")
            state.put_region(r, words, keys)
        for q in range(len(layout.queues)):
            state.cells[q] = [np.frombuffer(next(parts), dtype=k).copy() for k in state._kinds(q)]
            if any(len(c) != meta[state.queue_at(q) + 1] for c in state.cells[q]):
                raise DamagedState("it has not as many cells as it says")
        state.strings = TextTable(old)
        check_words(state)
        if old[: len(layout.strings)] != layout.strings:
            table, new = recoded(old, layout)
            state.recode(table, new)
        if state.objects:
            state.to_plain()
            for o, data in zip(state.objects, parts, strict=True):
                count = len(state.rows[o.region]) // o.width
                _, state.rows[o.region][o.at :: o.width] = load_objects(layout.graph[o.step], data, state._types, count)
        elif next(parts, None) is not None:
            raise DamagedState("it goes on behind its end")
        return state

    def put_region(self, r: int, words: Any, keys: Any) -> None:
        """Copy a region's rows and keys in (compiled form; the number of rows is in the meta words already)."""
        region, have = self.layout.regions[r], int(self.meta[self.region_at(r)])
        if not region.keys:
            self.rows[r] = words.copy()
            return
        # Room for some more keys at once: the next chunk is likely to bring some.
        room = max(1024, have + have // 4)
        self.rows[r], self.keys[r] = _roomy(words, room * region.width), _roomy(keys, room * len(region.keys))
        self.table[r] = None


def recoded(old: list[str], layout: KernelLayout) -> tuple[Any, TextTable]:
    """The new codes of old texts where a pipeline's own texts come first, and all texts by the new codes."""
    import numpy as np

    new = TextTable(layout.strings)
    return np.array([new.setdefault(text) for text in old], dtype=np.int64), new


def _longer(array: Any, size: int) -> Any:
    return array if len(array) >= size else _roomy(array, size)


def _roomy(array: Any, size: int) -> Any:
    """A copy with room: memory that is zero costs nothing until it is used."""
    import numpy as np

    out = np.zeros(size, dtype=array.dtype)
    out[: len(array)] = array
    return out
