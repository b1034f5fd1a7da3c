"""Whether the words of a state that was read can be what a kernel left: a compiled kernel believes them when it looks
into memory.

A checksum finds what went wrong by itself, not what somebody wrote on purpose.  So every word that is used as an index
is looked at: the cells of queues and the links between them, the places in windows' rings, the numbers of texts and of
enum members.

>>> from pellucid import pipeline
>>> engine = pipeline(lambda x: x.window(3, lambda y: y.cumulate(lambda t, v: t + v, start=0), id="w"), x=int).engine()
>>> check_words(engine.state)
>>> engine.state.rows[0][3] = 7
>>> check_words(engine.state)
Traceback (most recent call last):
pellucid.internal.engine.saved.form.DamagedState: the saved state is damaged (step 'w': at is out of ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pellucid.internal.engine.saved.form import DamagedState
from pellucid.internal.expr.types import BOOL, STR, EnumType, Type

if TYPE_CHECKING:
    from pellucid.internal.engine.state import EngineState

#: What Python says of a header or of blocks that were written by somebody else.
BROKEN = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, StopIteration, RecursionError)


def check_words(state: EngineState) -> None:
    """Refuse words that are no index where an index must be."""
    layout = state.layout
    used = [int(state.meta[state.queue_at(q) + 1]) for q in range(len(layout.queues))]
    ends: dict[str, int] = {}
    for q, queue in enumerate(layout.queues):
        free, _, waiting = (int(v) for v in state.meta[state.queue_at(q) : state.queue_at(q) + 3])
        if not (0 <= used[q] <= len(state.cells[q][0]) and -1 <= free < used[q] and 0 <= waiting <= used[q]):
            raise DamagedState(f"queue {queue.id} has no such cells")
        links, *leaves = (cells[: used[q]] for cells in state.cells[q])
        _within(links, -1, used[q], f"queue {queue.id}: a link")
        for t, column in zip(queue.leaves, leaves, strict=True):
            _coded(state, t, column, f"queue {queue.id}")
        ends |= {f"{queue.id}.head": used[q], f"{queue.id}.tail": used[q], f"{queue.id}.length": used[q] + 1}
    for r, region in enumerate(layout.regions):
        rows = int(state.meta[state.region_at(r)])
        if not 0 <= rows * max(region.width, 1) <= max(len(state.rows[r]), rows) or len(state.keys[r]) < rows * len(
            region.keys
        ):
            raise DamagedState("it has not as many rows as it says")
        if not 0 <= state.dense[r] <= rows:
            raise DamagedState("keys that are row numbers have no rows")
        sizes = {(w.step, w.label): w.count for w in region.words}
        objects = {o.at for o in state.objects if o.region == r}
        at = 0
        for word in region.words:
            where = f"step {word.step!r}: {word.label}"
            for j in range(at, at + word.count):
                if j in objects:
                    continue
                column = state.rows[r][j : rows * region.width : region.width]
                if word.label in ends:
                    _within(column, 0 if word.label.endswith(".length") else -1, ends[word.label], where)
                elif word.label == "at" and (word.step, "ring0") in sizes:
                    _within(column, 0, sizes[word.step, "ring0"], where)
                else:
                    _coded(state, word.type, column, where)
            at += word.count
        for j, t in enumerate(region.keys):
            _coded(state, t, state.keys[r][j : rows * len(region.keys) : len(region.keys)], "a key")


def _coded(state: EngineState, t: Type, column: Any, where: str) -> None:
    """The numbers of texts and members stand for something."""
    if t == STR:
        _within(column, 0, max(len(state.strings), 1), where)  # a place that was never used is 0
    elif isinstance(t, EnumType):
        _within(column, 0, len(t.members), where)
    elif t == BOOL:
        _within(column, 0, 2, where)


def _within(column: Any, low: int, stop: int, where: str) -> None:
    import numpy as np  # not before a state is loaded

    array = np.asarray(column, dtype=np.int64)
    if len(array) and not (array.min() >= low and array.max() < stop):
        raise DamagedState(f"{where} is out of its bounds")
