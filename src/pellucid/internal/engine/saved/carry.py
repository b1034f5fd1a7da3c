"""Carrying a saved state over to a changed pipeline.

A job that runs for years changes while it runs.  Every word of a saved state is known by its step's id and its label,
so what a step remembered is found again wherever the step stands now:

* a step that is new starts as new, for all keys; a step whose function has changed goes on from what it remembered;
* steps may change their order, keys that several steps share may part or meet, texts may get other codes;
* events that wait in a queue go on waiting in the queue of the same step.

Refused is whatever would lose or misread something, with all the steps that are the reason: a step that is gone, words
of another type or number (also where both are whole numbers inside: a time, a decimal with other places), a value that
may be missing now, keys of another type, a step that is of another kind now.  ``drop`` names the steps whose
memory may be given up.

Three choices.  What a **window** keeps besides its events (running sums, and the like) is of use to the same
sub-pipeline only: if that has changed, the events are kept and the rest is rebuilt from them.  A **start value**
that has changed holds for keys that come later; a key all of whose words stand as they started counts as one that has
not come yet, because where small whole keys are row numbers the two cannot be told apart.  Whether a state is refused
depends on the two pipelines alone, never on the data in it: all parts of a job say the same.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import StateError, option
from pellucid.internal.base.container import Buffer, Container
from pellucid.internal.engine.kernel.layout import KernelLayout
from pellucid.internal.engine.saved.form import (
    BROKEN,
    DamagedState,
    check_words,
    describe,
    other_types,
    unpack,
    unpack_texts,
)
from pellucid.internal.engine.saved.objects import load_objects, object_words
from pellucid.internal.engine.saved.own_types import OwnTypes
from pellucid.internal.engine.state import EngineState, recoded
from pellucid.internal.graph.processors import PROCESSORS

if TYPE_CHECKING:
    import numpy as np


def carry(layout: KernelLayout, data: Buffer, *, drop: Collection[str] = ()) -> EngineState:
    """The saved state, for the changed pipeline with this layout.

    >>> from pellucid import pipeline
    >>> old = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int).engine()
    >>> old.push([1, 2, 3])
    [1, 3, 6]
    >>> more = lambda x: (x.cumulate(lambda t, v: t + v, start=0, id="sum"), x.trim(1, id="cut"))
    >>> new = pipeline(more, x=int).engine()
    >>> new.carry(old.save())
    >>> list(new.push([4, 5]).values())
    [[10, 15], [5]]
    """
    saved = unpack(data)
    try:
        plan = _plan(layout, saved.head["about"], drop, saved.head["pipeline"])
        state = EngineState(layout)
        state.pushed = saved.head["pushed"]
        if state.pushed == 0:
            return state  # nothing has come yet: all is as it starts
        if not isinstance(state.pushed, int) or state.pushed < 0:
            raise DamagedState("it has no number of pushes")
        state = _Carrier(state, saved, plan).run()
        check_words(state)
    except BROKEN as error:
        raise DamagedState(error) from None
    return state


# ---------------------------------------------------------------- what goes where


@dataclass(frozen=True)
class _Move:
    """The words from ``at`` on of a new row are those from ``was`` on of the old region's."""

    at: int
    count: int
    mark: str
    region: int
    was: int


@dataclass(frozen=True)
class _Plan:
    moves: list[list[_Move]]  # for each new region
    queues: dict[int, int]  # new queue: old one


@dataclass(frozen=True)
class _Place:
    """Where a word is, in one of the two descriptions."""

    region: int
    at: int
    mark: str
    count: int

    def __str__(self) -> str:
        return self.mark if self.count == 1 else f"{self.count} × {self.mark}"


def _places(about: dict[str, Any]) -> dict[str, dict[str, _Place]]:
    """All words by step and label."""
    out: dict[str, dict[str, _Place]] = {}
    for r, region in enumerate(about["regions"]):
        at = 0
        for step, label, mark, count in region["words"]:
            out.setdefault(step, {})[label] = _Place(r, at, mark, count)
            at += count
    return out


def _plan(layout: KernelLayout, old: dict[str, Any], drop: Collection[str], name: str) -> _Plan:
    new = describe(layout)
    if _outer(old) != _outer(new):
        was, now = (f"of type {_keys(a, 0)}" if a["external"] else "without" for a in (old, new))
        raise StateError(
            f"the saved state of {name!r} cannot be carried over to {layout.graph.name!r}: the key that comes with the "
            f"data has another type ({was} before, {now} now); go on with the key as it was, or start again"
        )
    before, now_ = _places(old), _places(new)
    problems: dict[str, str] = {}
    moves: list[list[_Move]] = [[] for _ in layout.regions]
    for step, words in before.items():
        if step in drop:
            continue
        kind = old["steps"][step][0]
        reason = _reason(layout, old, new, step, words, now_.get(step, {}))
        reason = reason or _given_up(old, new, words, now_[step], drop)
        if reason:
            problems[step] = f"step {step!r} ({kind}) {reason}"
            continue
        same_inside = old["steps"][step] == new["steps"][step] and _types(words) == _types(now_[step])
        for label, place in now_[step].items():
            if layout.graph[step].sub is None or same_inside or _is_event(label):
                source = words[label]
                moves[place.region].append(_Move(place.at, place.count, place.mark, source.region, source.at))
    if problems:
        steps = list(problems)
        them = ("it", "as it was", "it remembers") if len(steps) == 1 else ("them", "as they were", "they remember")
        raise StateError(
            f"the saved state of {name!r} cannot be carried over to {layout.graph.name!r}: "
            f"{'; '.join(problems.values())}; "
            f"bring {them[0]} back {them[1]}, or give up what {them[2]} with {option('drop', steps)}"
        )
    kept = {id: q for q, (id, _) in enumerate(old["queues"]) if id.rpartition(".")[0] not in drop}
    return _Plan(moves, {q: kept[id] for q, (id, _) in enumerate(new["queues"]) if id in kept})


def _outer(about: dict[str, Any]) -> tuple[Any, ...]:
    """The key that comes with the data."""
    return about["external"], about["regions"][0]["keys"], about.get("types", {}).get("")


def _reason(
    layout: KernelLayout,
    old: dict[str, Any],
    new: dict[str, Any],
    step: str,
    was: dict[str, _Place],
    now: dict[str, _Place],
) -> str | None:
    """Why a step's memory does not fit, in words."""
    if step not in layout.graph.position:
        return "is gone"
    kind, now_kind = old["steps"][step][0], layout.graph[step].kind
    if kind != now_kind and not _same_memory(kind, now_kind):
        return f"is a {now_kind} now"
    if not now:
        return "does not wait any more, so the events in its queues would be lost"
    region, now_region = next(iter(was.values())).region, next(iter(now.values())).region
    types = other_types(old, new, step)
    if types and (region == 0) == (now_region == 0):
        return f"has changed: {types}"
    if (region == 0) != (now_region == 0) or old["regions"][region]["keys"] != new["regions"][now_region]["keys"]:
        return f"was kept {_apart(old, region)}, and is now {_apart(new, now_region)}"
    if layout.graph[step].sub is not None:  # the rest can be had from the events
        was, now = ({label: p for label, p in words.items() if _is_event(label)} for words in (was, now))
    differ = []
    for label in dict.fromkeys([*was, *now]):
        a, b = was.get(label), now.get(label)
        if a is None or b is None:
            differ.append(f"{label} is new" if a is None else f"{label} is gone")
        elif (a.mark, a.count) != (b.mark, b.count):
            differ.append(f"{label} was {a}, and is now {b}")
    cells, now_cells = (dict(about["queues"]) for about in (old, new))
    for id in [id for id in cells if id.rpartition(".")[0] == step and cells[id] != now_cells.get(id, cells[id])]:
        differ.append(f"queue {id} held ({', '.join(cells[id])}), and now holds ({', '.join(now_cells[id])})")
    return "has changed: " + ", ".join(differ) if differ else None


def _given_up(
    old: dict[str, Any],
    new: dict[str, Any],
    was: dict[str, _Place],
    now: dict[str, _Place],
    drop: Collection[str],
) -> str | None:
    """Why what is kept for keys that a ``forget`` gives up does not fit, in words: it must know when each key came
    last."""
    for label in was.keys() & now.keys():
        before, after = old["regions"][was[label].region], new["regions"][now[label].region]
        by = after.get("forgets")
        if by is None:
            continue
        if before.get("forgets") != by or by in drop:
            return f"is given up by step {by!r} (forget) now, of which nothing is kept that says when a key came last"
        if before["keys"] != after["keys"]:
            return f"was kept {_apart(old, was[label].region)}, and is now {_apart(new, now[label].region)}"
    return None


def _same_memory(a: str, b: str) -> bool:
    """Whether two kinds of step remember the same things: a state that begins with the user's value, or what waits."""
    one, other = PROCESSORS.get(a), PROCESSORS.get(b)
    if one is None or other is None:
        return False
    return (one.starts and other.starts) or one.inputs == other.inputs == "together"


def _is_event(label: str) -> bool:
    """Whether a window's word belongs to its events: a ring of each leaf, the place in it, and how many there were."""
    return label.startswith("ring") or label in ("at", "seen")


def _types(words: dict[str, _Place]) -> dict[str, str]:
    return {label: str(place) for label, place in words.items()}


def _keys(about: dict[str, Any], region: int) -> str:
    if region == 0 and "" in about.get("types", {}):
        return str(about["types"][""]["key"])
    keys = about["regions"][region]["keys"]
    return f"({', '.join(keys[1:] if about['external'] and region else keys)})"


def _apart(about: dict[str, Any], region: int) -> str:
    if region == 0:
        return "by the key that comes with the data" if about["external"] else "once for the whole stream"
    return f"by keys of type {_keys(about, region)}"


# ---------------------------------------------------------------- doing it


class _Carrier:
    """Moves the words: 64-bit words as they are; Python values where some state is any Python object."""

    def __init__(self, state: EngineState, saved: Container, plan: _Plan) -> None:
        self.state, self.plan, self.header = state, plan, saved.head
        self.old: dict[str, Any] = saved.head["about"]
        self.objects: bool = saved.head["objects"] or state.has_objects()
        self.table, self.strings = recoded(unpack_texts(*saved.blocks[:2]), state.layout)
        widths = [sum(w[3] for w in region["words"]) for region in self.old["regions"]]
        meta, templates, rows, keys, self.cells = self._words(saved)
        self.rows = [w.reshape(-1, width) if width else w.reshape(0, 0) for w, width in zip(rows, widths, strict=True)]
        self.templates = templates
        self.keys = [
            k.reshape(-1, max(1, len(region["keys"]))) for k, region in zip(keys, self.old["regions"], strict=True)
        ]
        self.queue_meta = [int(v) for v in meta][len(meta) - 3 * len(self.old["queues"]) :]

    def _words(self, saved: Container) -> tuple[Any, ...]:
        parts = iter(saved.blocks[2:])
        meta = np.frombuffer(next(parts), dtype=np.int64)
        templates, rows, keys, cells = [], [], [], []
        for region in self.old["regions"]:
            marks = [mark for _, _, mark, count in region["words"] for _ in range(count)]
            template, words = (self._values(np.frombuffer(next(parts), dtype=np.int64), marks) for _ in range(2))
            templates.append(template)
            rows.append(words)
            keys.append(np.frombuffer(next(parts), dtype=np.int64))
        for _, leaves in self.old["queues"]:
            kinds = [np.int64, *(np.float64 if t == "float" else np.int64 for t in leaves)]
            cells.append([np.frombuffer(next(parts), dtype=k) for k in kinds])
        moved = {(move.region, move.was) for moves in self.plan.moves for move in moves}
        for o, data in zip(object_words(self.old), parts, strict=True):
            if (o.region, o.at) in moved:  # what is given up need not be read
                column = rows[o.region][o.at :: o.width]
                then, found = load_objects(
                    self.state.layout.graph[o.step], data, OwnTypes.of(self.state.layout.graph), len(column)
                )
                templates[o.region][o.at] = then
                column[:] = np.fromiter(found, dtype=object, count=len(found))
        return meta, templates, rows, keys, cells

    def _values(self, words: Any, marks: list[str]) -> Any:
        """The words of rows, as Python values where these are asked for."""
        if not self.objects or not marks:
            return words
        out = np.empty((len(words) // len(marks), len(marks)), dtype=object)
        for j, mark in enumerate(marks):
            out[:, j] = (words.view(np.float64) if mark == "float" else words)[j :: len(marks)].tolist()
        return out.ravel()

    def run(self) -> EngineState:
        state = self.state
        if not self.objects:
            state.to_compiled()
        state.strings = self.strings
        for r in range(len(state.layout.regions)):
            self._region(r)
        for q, was in self.plan.queues.items():
            at = state.queue_at(q)
            for j in range(3):
                state.meta[at + j] = self.queue_meta[3 * was + j]
            links, *leaves = self.cells[was]
            marks = self.old["queues"][was][1]
            cells = [links, *[self._recode(c, mark) for c, mark in zip(leaves, marks, strict=True)]]
            state.cells[q] = [_list(c) if self.objects else c.copy() for c in cells]
        return state

    def _region(self, r: int) -> None:
        state, region, moves = self.state, self.state.layout.regions[r], self.plan.moves[r]
        sources = sorted({move.region for move in moves})
        if r == 0:
            sources = [0]  # inner keys begin with the row numbers of this one
        if not sources:
            return
        into, keys = self._keys(sources) if region.keys else ({0: slice(None)}, None)
        count = 1 if keys is None else len(keys)
        matrix = self._fresh(r, count, {move.at + j for move in moves for j in range(move.count)})
        for move in moves:
            for j in range(move.count):
                column = self._recode(self.rows[move.region][:, move.was + j], move.mark)
                matrix[into[move.region], move.at + j] = self._started(r, move, j, column)
        state.meta[state.region_at(r)] = count
        state.dense[r] = self.header["dense"][sources[0]]  # whose keys stand first, in the same order
        if not self.objects:
            state.put_region(r, matrix.ravel(), keys.ravel() if keys is not None else None)
            return
        state.rows[r] = matrix.ravel().tolist()
        if keys is not None:
            state.keys[r] = keys.ravel().tolist()
            state.plain_table(r)

    def _keys(self, sources: list[int]) -> tuple[dict[int, Any], np.ndarray[Any, Any]]:
        """The keys of all these regions together, and the new row numbers of each region's rows."""
        found = []
        for r in sources:
            keys = self.keys[r].copy()
            for j, mark in enumerate(self.old["regions"][r]["keys"]):
                keys[:, j] = self._recode(keys[:, j], mark)
            found.append(keys)
        if len(found) == 1:
            return {sources[0]: slice(None)}, found[0]
        _, first, inverse = np.unique(np.concatenate(found), axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order in which the keys came
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        numbers = np.split(rank[inverse.ravel()], np.cumsum([len(k) for k in found])[:-1])
        return dict(zip(sources, numbers, strict=True)), np.concatenate(found)[first[order]]

    def _fresh(self, r: int, count: int, moved: set[int]) -> Any:
        """Rows as they start, but for the words that are moved."""
        template = self.state.templates[r]
        matrix: Any = np.zeros((count, len(template)), dtype=object if self.objects else np.int64)
        for j in [j for j in range(len(template)) if j not in moved]:
            if not self.objects:
                matrix[:, j] = template[j]
            for i in range(count if self.objects else 0):
                matrix[i, j] = copy.deepcopy(template[j])  # no two keys share an object
        return matrix

    def _recode(self, column: Any, mark: str) -> Any:
        """The column with the new codes, if it holds codes of texts."""
        if mark != "str":
            return column
        codes = np.array(column, dtype=np.int64)
        inside = (codes >= 0) & (codes < len(self.table))
        codes[inside] = self.table[codes[inside]]
        return codes.astype(object) if self.objects else codes

    def _started(self, r: int, move: _Move, j: int, column: Any) -> Any:
        """The column, where keys that have not come yet take a changed start value."""
        template, start = self.templates[move.region], self.state.templates[r][move.at + j]
        if not self.old["regions"][move.region]["keys"] or not len(column):
            return column
        then = self._recode(template[move.was + j : move.was + j + 1], move.mark)[0]
        if _equal(then, start):
            return column
        rows = self.rows[move.region]
        if not self.objects:
            return np.where((rows == template).all(axis=1), start, column)
        column = column.copy()
        for i, row in enumerate(rows):
            if all(map(_equal, row, template)):
                column[i] = copy.deepcopy(start)
        return column


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # any Python object at all
        return False


def _list(column: Any) -> list[Any]:
    return list(column) if isinstance(column, list) else list(column.tolist())
