r"""Space-time pictures of runs with crashes.

A run in space and time, in the one form from which it is drawn: marks on lanes, in an order that respects causality.

Both kinds of traces become this form: those of the model (`from_trace`, with an explanation if there is one), and
recorded ones (`spacetime_recorded.from_recorded`, rows with the columns of docs/explanation/failures.md).  A mark is a
step; what it consumed and produced are references to messages: the generation, the stream and the number on it.  Each
mark has a column: the length of the longest causal chain that leads to it, so steps that do not depend on each other
may stand one above the other and an arrow always points to the right.  A trace that was tampered with may have messages
that arrive before they are sent: such arrows point back, which is what is wrong with them.

A long run is folded: the events that a task takes in one epoch become one mark with their number.

>>> from pellucid.failures.model.notation import read_run
>>> from pellucid.failures.model.explain import explain
>>> c, Z = read_run("a: i -> m copy\nb: m -> o copy\ni: 1 | 2 |\na a| b b| a b! ^ a")
>>> run = from_trace(Z, c, explain(Z, c))
>>> [(m.lane, m.rule, m.column, m.kept) for m in run.marks][3:7]
[('b', 'I-BORDER', 2, True), ('a', 'I-EVENT', 2, False), ('b', 'F-FAIL', 3, False), (None, 'F-RECOVER', 4, False)]
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import BD, EV, RULE, Configuration, Consume, FFail, FRecover, IBorder
from pellucid.failures.model.explain import Explanation, NotExplained
from pellucid.internal.draw import lanes
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.lanes import Arrow, Item, Lane, Point, Span, Strip, Upright, label_room, page, rows
from pellucid.internal.draw.svg import CHAR, path, text
from pellucid.internal.engine.epochs.recording import ACK

if TYPE_CHECKING:
    from pellucid.failures.model.explain import Trace

# ruff: noqa: N803 - the paper's letters


Ref = tuple[int, str, int]  # generation, stream, number

_EVENTS = ("SOURCE", "I-EVENT")


@dataclass(frozen=True)
class Mark:
    """A step, or several steps folded to one.  ``at`` is its position in the trace, ``lane`` None for a recovery."""

    at: int
    lane: str | None
    rule: str
    epoch: int | None
    generation: int
    consumed: tuple[Ref, ...] = ()
    produced: tuple[Ref, ...] = ()
    kept: bool = True  # whether it is in the explanation
    commit: bool = False  # whether it makes an epoch visible
    border: bool = False  # whether it passes a border on
    wrong: str = ""  # why it cannot be explained
    text: str = ""
    count: int = 1
    column: int = 0


@dataclass(frozen=True)
class DrawnRun:
    """Marks in an order that respects causality, their lanes, and what is known of their messages."""

    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    borders: frozenset[Ref]
    labels: Mapping[Ref, str]
    explained: bool
    folded: bool = False

    @property
    def steps(self) -> int:
        """How many steps there are, folded ones counted."""
        return sum(m.count for m in self.marks)


# ---------------------------------------------------------------- from the model


def from_trace(Z: Trace, c: Configuration, explanation: Explanation | NotExplained | None = None) -> DrawnRun:
    """A trace of the model; with its explanation the discarded steps are known, with `NotExplained` the wrong one
    is."""
    kept = set(explanation.steps) if isinstance(explanation, Explanation) else None
    commits = set(explanation.commits) if isinstance(explanation, Explanation) else set()
    targets = {g.stop: g.epoch for g in explanation.generations} if isinstance(explanation, Explanation) else {}
    at_fault = {explanation.at: explanation.reason} if isinstance(explanation, NotExplained) else {}
    marks: list[Mark] = []
    borders: set[Ref] = set()
    labels: dict[Ref, str] = {}
    generation = 0
    for i, z in enumerate(Z):
        consumed: list[Ref] = []
        produced: list[Ref] = []
        if not isinstance(z, FFail | FRecover):
            numbers = dict(z.N)
            for x in z.X:
                ref = (generation, x.s, numbers.get(x.s, 0))
                numbers[x.s] = ref[2] + 1
                (consumed if isinstance(x, Consume) else produced).append(ref)
                if x.d == BD:
                    borders.add(ref)
                elif isinstance(x.d, EV):
                    labels.setdefault(ref, str(x.d.w))  # as it was sent
        lane: str | None = None
        epoch: int | None = None
        if isinstance(z, FRecover):
            epoch = targets.get(i)
        else:
            lane, epoch = z.p, None if isinstance(z, FFail) or not z.X else z.epoch
        marks.append(
            Mark(
                i, lane, RULE[type(z)], epoch, generation + isinstance(z, FRecover), tuple(consumed), tuple(produced),
                kept is None or i in kept, i in commits, isinstance(z, IBorder), at_fault.get(i, ""), str(z),
            )
        )  # fmt: skip
        generation += isinstance(z, FRecover)
    return placed(tuple(c.Pi), marks, borders, labels, kept is not None)


# ---------------------------------------------------------------- columns


def by_flow(marks: Sequence[Mark]) -> tuple[str, ...]:
    """The lanes, those that send above those that receive.

    >>> heard = Mark(0, "sink", "I-EVENT", 1, 0, consumed=((0, "m", 0),))
    >>> by_flow([heard, Mark(1, "a", "SOURCE", 1, 0, produced=((0, "m", 0),))])
    ('a', 'sink')
    """
    sender = {ref: m.lane for m in marks for ref in m.produced}
    depth = dict.fromkeys((m.lane for m in marks if m.lane is not None), 0)
    edges = {(sender[ref], m.lane) for m in marks for ref in m.consumed if ref in sender and not ref[1].startswith(ACK)}
    for _ in depth:
        for a, b in edges:
            if a is not None and b is not None and a != b:
                depth[b] = min(max(depth[b], depth[a] + 1), len(depth))
    return tuple(sorted(depth, key=lambda lane: (depth[lane], lane)))


def placed(
    lanes: tuple[str, ...], marks: Iterable[Mark], borders: Iterable[Ref], labels: Mapping[Ref, str], explained: bool
) -> DrawnRun:
    """The marks with their columns; they come in an order that respects causality.

    >>> run = placed(("a",), [Mark(0, "a", "F-FAIL", None, 0), Mark(1, None, "F-RECOVER", 0, 1)], (), {}, False)
    >>> [m.column for m in run.marks]
    [0, 1]
    """
    marks = list(marks)
    unknown = next((m.lane for m in marks if m.lane is not None and m.lane not in lanes), None)
    if unknown is not None:
        lanes = (*lanes, unknown)
    first, furthest = 0, -1  # nothing stands left of the last recovery
    last: dict[str | None, int] = {}
    sent: dict[Ref, int] = {}
    placed: list[Mark] = []
    for m in marks:
        if m.lane is None:
            column = furthest + 1
            first, last = column + 1, {}
        else:
            column = max([first, last.get(m.lane, -1) + 1, *(sent[ref] + 1 for ref in m.consumed if ref in sent)])
            last[m.lane] = column
            sent |= dict.fromkeys(m.produced, column)
        furthest = max(furthest, column)
        placed.append(replace(m, column=column))
    return DrawnRun(lanes, tuple(placed), frozenset(borders), dict(labels), explained)


def fold(run: DrawnRun, most: int) -> DrawnRun:
    """The run as it is if it has at most so many columns; otherwise with the events of each epoch of a task as one
    mark.

    >>> from pellucid.failures.model.notation import read_run
    >>> c, Z = read_run("a: i -> m copy\\ni: 1 2 3 | 4 |\\na a a a| a a|")
    >>> [(m.rule, m.count) for m in fold(from_trace(Z, c), 4).marks]
    [('I-EVENT', 3), ('I-BORDER', 1), ('I-EVENT', 1), ('I-BORDER', 1)]
    """
    if most < 1:
        raise UsageError(f"a picture needs at least one column, found most={most}")
    if not run.marks or max(m.column for m in run.marks) < most:
        return run
    groups: dict[Any, list[Mark]] = {}
    for m in run.marks:
        plain = m.rule in _EVENTS and not m.border and not m.wrong
        key: Any = (m.lane, m.generation, m.epoch, m.rule, m.kept) if plain else m.at
        groups.setdefault(key, []).append(m)
    ordered = _in_order(run, [_one(several) for several in groups.values()])
    return replace(placed(run.lanes, ordered, run.borders, {}, run.explained), folded=True)


def _one(marks: Sequence[Mark]) -> Mark:
    """These events as one mark."""
    first, count = marks[0], sum(m.count for m in marks)
    if len(marks) == 1:
        return first
    return replace(
        first, count=count, text=f"{count:,} × {first.rule} {first.lane}, epoch {first.epoch}",
        consumed=tuple(ref for m in marks for ref in m.consumed),
        produced=tuple(ref for m in marks for ref in m.produced),
    )  # fmt: skip


def _in_order(run: DrawnRun, groups: list[Mark]) -> list[Mark]:
    """Folded marks, causes first: by generation, epoch and lane, borders after the events of their epoch."""
    lane = {name: k for k, name in enumerate(run.lanes)}
    flow = _flow_depth(run, lane)

    def key(m: Mark) -> tuple[int, int, int, int, int, int]:
        if m.lane is None:  # a recovery begins its generation
            return m.generation, 0, 0, 0, 0, m.at
        fails = m.rule.startswith("F-")
        rank = 0 if m.rule in _EVENTS and not m.border else 1 if m.border else 2
        epoch = m.epoch if m.epoch is not None and not fails else 0
        return m.generation, 2 if fails else 1, epoch, flow.get(m.lane, 0) if rank < 2 else len(flow), rank, m.at

    return sorted(groups, key=key)


def _flow_depth(run: DrawnRun, lane: Mapping[str, int]) -> dict[str | None, int]:
    """How far down the flow a lane is; the lanes of the model need not be in that order."""
    flow = {name: k for k, name in enumerate(by_flow(run.marks))}
    return {name: flow.get(name, lane[name]) for name in lane}


# A recorded trace in the form from which it is drawn: rows put in a causal order, and what of them remains.
#
# Each task wrote its own steps; between tasks there is only the causal order: a message is sent before it is received,
# and a recovery stands between generations.  Within that, the recorded times decide.

_RULES = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT", "COMMIT", "F-FAIL", "F-LOST", "F-RECOVER")
_WORK = ("SOURCE", "I-EVENT", "I-BORDER", "SNAPSHOT")
_MESSAGE = ("stream", "n", "border", "digest")
_NEEDED = ("task", "generation", "index", "rule", "epoch", "consumed", "produced")


def from_recorded(rows: Any, *, wrong: Mapping[tuple[str, int], str] | None = None) -> DrawnRun:
    """A recorded trace: an Arrow table, a pandas frame, or rows as mappings.

    ``wrong``: steps that cannot be explained, by task and index, with the reason; then nothing is greyed.

    >>> event, first = {"stream": "m", "n": 0, "border": False, "digest": 0}, {"generation": 0, "index": 0, "epoch": 1}
    >>> run = from_recorded([
    ...     {"task": "b", "rule": "I-EVENT", "consumed": [event], "produced": [], **first},
    ...     {"task": "a", "rule": "SOURCE", "consumed": [], "produced": [event], **first},
    ... ])
    >>> run.lanes, [(m.lane, m.column) for m in run.marks]
    (('a', 'b'), [('a', 0), ('b', 1)])
    """
    if hasattr(rows, "to_pylist"):
        rows = rows.to_pylist()
    elif hasattr(rows, "to_dict") and not isinstance(rows, Mapping):
        rows = rows.to_dict("records")
    rows = list(rows)
    for i, row in enumerate(rows):
        if missing := [name for name in _NEEDED if name not in row]:
            raise DataError(f"recorded trace, row {i}: no column {missing[0]!r}: it needs {', '.join(_NEEDED)}")
        if row["rule"] not in _RULES:
            raise DataError(f"recorded trace, row {i}: unknown rule {row['rule']!r}: there are {', '.join(_RULES)}")
    rows = [{**row, "consumed": _messages(row["consumed"]), "produced": _messages(row["produced"])} for row in rows]
    upto = _kept_up_to(rows)
    marks: list[Mark] = []
    borders: set[Ref] = set()
    acked: dict[tuple[str, int], int] = {}  # a commit may wait for snapshots that were stored before a recovery
    for i in _causally(rows):
        row = rows[i]
        task, generation, rule = row["task"], row["generation"], row["rule"]
        consumed = tuple((acked.get((m["stream"], m["n"]), generation), m["stream"], m["n"]) for m in row["consumed"])
        produced = tuple((generation, m["stream"], m["n"]) for m in row["produced"])
        acked |= {(m["stream"], m["n"]): generation for m in row["produced"] if m["stream"].startswith(ACK)}
        borders |= {(generation, m["stream"], m["n"]) for m in [*row["consumed"], *row["produced"]] if m["border"]}
        kept = bool(wrong) or rule == "COMMIT" or (not rule.startswith("F-") and row["epoch"] <= upto[generation])
        marks.append(
            Mark(
                len(marks), None if rule == "F-RECOVER" else task, rule, row["epoch"], generation, consumed, produced,
                kept, rule == "COMMIT", _passes_border(row), (wrong or {}).get((task, row["index"]), ""),
                f"{rule} {task}, step {row['index']}, epoch {row['epoch']}",
            )
        )  # fmt: skip
    if not any(m.commit for m in marks):
        marks = _committing(marks)
    return placed(by_flow(marks), marks, borders, {}, not wrong)


def _messages(found: Any) -> list[Mapping[str, Any]]:
    """Messages as mappings; they may come as ``(stream, n, border, digest)``."""
    return [
        m if isinstance(m, Mapping) else dict(zip(_MESSAGE, m, strict=True)) for m in ([] if found is None else found)
    ]


def _passes_border(row: Mapping[str, Any]) -> bool:
    return row["rule"] == "I-BORDER" or (row["rule"] == "SOURCE" and any(m["border"] for m in row["produced"]))


def _kept_up_to(rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """By generation, the last epoch of it that remains: no later recovery goes behind it, and the end has it
    everywhere.

    An F-RECOVER is the first step of its generation and says how far the one before is kept.  What the end has is the
    greatest common epoch (Definition 4.2) of the snapshots that are stored: SNAPSHOT rows without F-LOST, or borders
    where a trace has none of these.
    """
    back = {row["generation"]: row["epoch"] for row in rows if row["rule"] == "F-RECOVER"}
    last = max((row["generation"] for row in rows), default=0)
    stored = any(row["rule"] == "SNAPSHOT" for row in rows)
    have: dict[str, set[int]] = {row["task"]: {0} for row in rows if row["rule"] in _WORK}
    seen = dict.fromkeys(have, 0)
    for row in sorted(rows, key=lambda row: row["index"]):
        task = row["task"]
        if task not in have:
            continue
        if row["generation"] > seen[task]:
            have[task] = {e for e in have[task] if e <= back.get(row["generation"], e)}
            seen[task] = row["generation"]
        if row["rule"] == "F-LOST":
            have[task].discard(row["epoch"])
        elif row["rule"] == "SNAPSHOT" if stored else _passes_border(row):
            have[task].add(row["epoch"])
    for task, epochs in have.items():
        have[task] = {e for e in epochs if seen[task] == last or e <= back.get(last, e)}
    upto = {last: max(set.intersection(*have.values()), default=0) if have else 0}
    for generation in range(last - 1, -1, -1):
        upto[generation] = min(upto[generation + 1], back.get(generation + 1, upto[generation + 1]))
    return upto


def _causally(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """An order of the rows in which causes come first, by time where there is a choice."""

    def by(i: int) -> tuple[int, int, str, int]:
        row = rows[i]
        return row["generation"], row.get("time") or 0, row["task"], row["index"]

    sender: dict[Ref, int] = {}
    lanes: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        lanes.setdefault(row["task"], []).append(i)
        sender |= {(row["generation"], m["stream"], m["n"]): i for m in row["produced"]}
    after: list[list[int]] = [[] for _ in rows]
    missing = [0] * len(rows)

    def edge(a: int, b: int) -> None:
        after[a].append(b)
        missing[b] += 1

    for lane in lanes.values():
        lane.sort(key=lambda i: rows[i]["index"])
        for a, b in pairwise(lane):
            edge(a, b)
    for i, row in enumerate(rows):
        for m in row["consumed"]:
            if (made := sender.get((row["generation"], m["stream"], m["n"]))) not in (None, i):
                assert made is not None
                edge(made, i)
    recovery = {row["generation"]: i for i, row in enumerate(rows) if row["rule"] == "F-RECOVER"}
    for i, row in enumerate(rows):
        if row["generation"] + 1 in recovery:
            edge(i, recovery[row["generation"] + 1])
        if recovery.get(row["generation"], i) != i:
            edge(recovery[row["generation"]], i)
    ready = [(by(i), i) for i, n in enumerate(missing) if n == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for j in after[i]:
            missing[j] -= 1
            if missing[j] == 0:
                heapq.heappush(ready, (by(j), j))
    left = set(range(len(rows))) - set(order)  # only in a trace that was tampered with: a cycle
    return [*order, *sorted(left, key=by)]


def _committing(marks: Sequence[Mark]) -> list[Mark]:
    """Where no step says that it commits: the last border of an epoch does."""
    last: dict[int, int] = {}
    for k, m in enumerate(marks):
        if m.border and m.kept and m.epoch is not None:
            last[m.epoch] = k
    commits = set(last.values())
    return [replace(m, commit=k in commits) for k, m in enumerate(marks)]


# ---------------------------------------------------------------- the picture

# A lane for each task, arrows for messages, what was discarded in grey.  A dot is an event that is taken, a diamond a
# border (with its snapshot; a square where a real run stores it later), a ring a commit, a cross a crash; an upright
# line is a recovery.  Colours tell epochs apart.  Below the run stands its explanation, the steps that remain, and
# between the two thin lines lead from each column to its place in the explanation; those of commits are strong: what is
# observed changes only there.  What does not fit on a row continues below; what is more than a page can hold is folded,
# and then cut, with the number of steps that are left out.

_LANE, _HEAD = 46.0, 42.0
_GAP = 44.0  # between a run and its explanation: the lines that lead from one to the other
_FOOT = 34.0
_LONGEST = 9  # of a message's label
_APART = 56.0  # what the words "commit 12" need
_COLORS = ("plain", "state", "route", "frame")
_LEGEND = (
    "● event · ◇ border and snapshot · □ snapshot stored · ◎ commit · ✕ crash · ┆ recovery · grey: discarded · "
    "dashed arrow: a border · dotted: a snapshot is stored"
)


def spacetime_svg(run: DrawnRun, *, title: str = "", most: int = 240, around: int | None = None) -> str:
    """The picture as an SVG document, of at most so many columns; ``around``: the step that must be on it.

    >>> from pellucid.failures.model.explain import explain
    >>> from pellucid.failures.model.notation import read_run
    >>> c, Z = read_run("a: i -> m copy\\nb: m -> o copy\\ni: 1 | 2 |\\na a| b b| a b! ^ a")
    >>> picture = spacetime_svg(from_trace(Z, c, explain(Z, c)), title="two tasks")
    >>> picture[:4], "step 5: F-FAIL b" in picture
    ('<svg', True)
    """
    whole, run = run, fold(run, most)
    start, stop = _window(run, most, around)
    longest = max([cells(shorten(v, _LONGEST)) for v in run.labels.values()], default=0)
    step = min(max(34.0, CHAR * longest + 16.0), 78.0)
    left = label_room(run.lanes, CHAR * 11)
    parts = [(start + a, start + b) for a, b in rows([step] * (stop - start), left)]
    blocks = [_Part(run, a, b, left, step).draw() for a, b in parts]
    notes, wrong = _notes(whole, run, (start, stop)), sum(1 for m in whole.marks if m.wrong)
    return page(
        blocks,
        left + step * max(b - a for a, b in parts) + 24.0,
        named=f"Space-time diagram: {shorten(clean(title), 110)}" if title else "Space-time diagram",
        words=_words(whole),
        title=shorten(clean(title), 110),
        notes=[*notes, _LEGEND],
        bad=wrong,
    )


def _window(run: DrawnRun, most: int, around: int | None) -> tuple[int, int]:
    """The first column that is drawn, and the one after the last."""
    count = max((m.column for m in run.marks), default=-1) + 1
    if count <= most:
        return 0, count
    where = next((m.column for m in run.marks if around is not None and m.at <= around < m.at + m.count), None)
    wrong = next((m.column for m in run.marks if m.wrong), None)
    centre = where if where is not None else wrong
    start = 0 if centre is None else min(max(centre - most // 2, 0), count - most)
    return start, start + most


def _notes(whole: DrawnRun, run: DrawnRun, shown: tuple[int, int]) -> list[str]:
    notes = [f"step {m.at}: {m.wrong}" for m in whole.marks if m.wrong]
    if run.folded:
        notes.append("folded: a mark with a number stands for so many events of one task in one epoch")
    before = sum(m.count for m in run.marks if m.column < shown[0])
    after = sum(m.count for m in run.marks if m.column >= shown[1])
    if before or after:
        parts = [f"{n:,} steps {where}" for n, where in ((before, "before"), (after, "after")) if n]
        notes.append(f"not shown: {' and '.join(parts)}, of {whole.steps:,}")
    return [shorten(clean(note), 180) for note in notes]


class _Part:
    """Some columns of a run, from one up to another, and below them what of them remains."""

    def __init__(self, run: DrawnRun, start: int, stop: int, left: float, step: float) -> None:
        self.run, self.start, self.stop, self.left, self.step = run, start, stop, left, step
        self.marks = [m for m in run.marks if start <= m.column < stop]
        self.kept = [m for m in self.marks if m.kept and m.lane is not None]
        self.sender = {ref: m for m in run.marks for ref in m.produced}
        self.readers: dict[Ref, list[Mark]] = {}
        for m in run.marks:
            for ref in m.consumed:
                self.readers.setdefault(ref, []).append(m)

    def strip(self, top: float, columns: float, first: int = 0) -> Strip:
        lanes = [Lane(name, shorten(clean(name), 30), _LANE) for name in self.run.lanes]
        x = lambda column: self.left + self.step * (column - first + 0.6)
        return Strip(lanes, x, self.left, self.left + self.step * columns + 8.0, top)

    def draw(self) -> tuple[str, float]:
        """The run, and below it the explanation; and how high both are."""
        strip = self.strip(_HEAD, self.stop - self.start, self.start)
        items: list[Item] = [*self._down(), *self._uprights()]
        tasks = [m for m in self.marks if m.lane is not None]
        out = [strip.draw([*items, *self._arrows(tasks, {}), *(self._mark(m, m.column) for m in tasks)])]
        if not self.run.explained:
            return "".join(out), strip.bottom + _FOOT
        if not self.kept:
            nothing = "explanation: nothing of this remains"
            out += [text("says", self.left, strip.bottom + 16, nothing)] if self.marks else []
            return "".join(out), strip.bottom + 20 + _FOOT
        place = {column: k for k, column in enumerate(sorted({m.column for m in self.kept}))}
        below = self.strip(strip.bottom + _GAP, len(place))
        commits = {m.column for m in self.kept if m.commit}
        out += [
            path(
                "maps strong" if a in commits else "maps",
                "M",
                strip.x(a),
                strip.bottom + 2,
                "L",
                below.x(b),
                below.top - 12,
            )
            for a, b in place.items()
        ]
        out.append(text("under", self.left - 8, below.top - 6, "explanation"))
        out.append(below.draw([*self._arrows(self.kept, place), *(self._mark(m, place[m.column]) for m in self.kept)]))
        return "".join(out), below.bottom + _FOOT

    def _down(self) -> list[Item]:
        """The stretches in which a task is down: from its crash to the next recovery."""
        spans: list[Item] = []
        since: dict[str, int] = {}
        for m in self.run.marks:
            if m.rule == "F-FAIL" and m.lane is not None:
                since.setdefault(m.lane, m.column)
            elif m.lane is None:
                spans += [Span(lane, at, m.column, "dead", 0) for lane, at in since.items() if m.column >= self.start]
                since = {}
        spans += [Span(lane, at, self.stop, "dead", 0) for lane, at in since.items()]
        return [span for span in spans if isinstance(span, Span) and span.start < self.stop]

    def _uprights(self) -> list[Item]:
        """Recoveries, and the words above commits; where these stand close, only the epochs."""
        found: list[Item] = []
        for m in self.marks:
            if m.lane is None:
                to = f" to epoch {m.epoch}" if m.epoch is not None else ""
                words, title = f"recovery{to.replace(' epoch', '')}", f"step {m.at}: recovery{to}"
                found.append(Upright(m.column, "back", words, colour="alarm", title=title, higher=16.0))
                if m.wrong:
                    found.append(Upright(m.column, "", "?", "is-bad", higher=26.0))
        last = -1e9
        for m in sorted((m for m in self.kept if m.commit), key=lambda m: m.column):
            words = f"commit {m.epoch}" if self.step * (m.column - last) >= _APART else f"{m.epoch}"
            found.append(Upright(m.column, "", words, colour=_color(m.epoch)))
            last = m.column
        return found

    def _arrows(self, marks: Sequence[Mark], place: Mapping[int, int]) -> list[Item]:
        """The messages between these marks; those that come from or go to another row, or the outside, are short."""
        here = {m.at for m in marks}
        out: list[Item] = []
        done: set[tuple[int, int, bool]] = set()  # of folded marks one arrow is enough

        def add(m: Mark, other: Mark | int, ref: Ref, start: Point | None, end: Point | None, **more: Any) -> None:
            key = (m.at, other if isinstance(other, int) else other.at, ref in self.run.borders)
            if key not in done:
                out.append(self._arrow(m, ref, start, end, **more))
                if not isinstance(other, int) or m.count > 1:
                    done.add(key)

        def point(m: Mark) -> Point:
            assert m.lane is not None
            return m.lane, place.get(m.column, m.column)

        for m in marks:
            for ref in m.consumed:
                made = self.sender.get(ref)
                if made is not None and made.at in here:
                    add(made, m, ref, point(made), point(m), kept=made.kept and m.kept)
                else:
                    add(m, -1, ref, None, point(m), kept=m.kept, steep=made is None)
            for ref in m.produced:
                readers = self.readers.get(ref, [])
                if not any(r.at in here for r in readers) and (readers or ref not in self.run.borders):
                    add(m, -2, ref, point(m), None, kept=m.kept, steep=not readers)
        return out

    def _arrow(
        self, m: Mark, ref: Ref, start: Point | None, end: Point | None, *, kept: bool, steep: bool = False
    ) -> Arrow:
        border = ref in self.run.borders
        kind = "sent ack" if ref[1].startswith(ACK) else "sent border" if border else "sent"
        whole = start is not None and end is not None
        label = shorten(self.run.labels.get(ref, ""), _LONGEST) if whole or steep else ""
        title = clean(f"{'border' if border else 'message'} {ref[2]} on {ref[1]}")
        return Arrow(start, end, kind, _color(m.epoch) + ("" if kept else " gone"), title, label, steep=steep)

    def _mark(self, m: Mark, at: int) -> lanes.Mark:
        assert m.lane is not None
        words = f"step {m.at}: {m.text}" + ("" if m.kept or not self.run.explained else ", discarded")
        words += f": {m.wrong}" if m.wrong else ""
        colour = (
            "alarm" if m.rule in _SHAPES and m.rule != "SNAPSHOT" else _color(m.epoch) + ("" if m.kept else " gone")
        )
        shape = _SHAPES.get(m.rule) or ("diamond" if m.border else "count" if m.count > 1 else "dot")
        shape = ("halo " if m.wrong else "") + shape + (" ring" if m.commit and m.kept else "")
        count = f"{m.count:,}" if m.count < 10_000 else f"{m.count // 1000:,}k"
        return lanes.Mark(m.lane, at, shape, colour, clean(words), (count,), step=m.at)


_SHAPES = {"F-FAIL": "cross", "F-LOST": "square slash", "SNAPSHOT": "square"}


def _color(epoch: int | None) -> str:
    return _COLORS[(epoch or 0) % len(_COLORS)]


def _words(run: DrawnRun) -> str:
    """The picture in words: the lanes, and what happened besides events."""
    found = []
    for m in run.marks:
        if m.wrong:
            found.append(f"step {m.at} cannot be explained: {m.wrong}")
        elif m.lane is None:
            found.append(f"step {m.at}: recovery" + (f" to epoch {m.epoch}" if m.epoch is not None else ""))
        elif m.rule.startswith("F-"):
            what = "crashes" if m.rule == "F-FAIL" else f"has lost its snapshot of epoch {m.epoch}"
            found.append(f"step {m.at}: {m.lane} {what}")
        elif m.commit:
            found.append(f"step {m.at}: {m.lane} commits epoch {m.epoch}")
    rest = len(found) - 40
    kept = sum(m.count for m in run.marks if m.kept and m.lane is not None)
    text = f"{run.steps:,} steps of {', '.join(run.lanes)}. {'; '.join(found[:40])}"
    text += f"; and {rest:,} more" if rest > 0 else ""
    return clean(text + (f". The explanation has {kept:,} of the steps." if run.explained else "."))
