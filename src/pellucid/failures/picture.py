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

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import BD, EV, RULE, Configuration, Consume, FFail, FRecover, IBorder
from pellucid.failures.model.explain import Explanation, NotExplained
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.theme import CHAR, STYLE, document
from pellucid.internal.draw.theme import number as _n
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
    cut: Mapping[str, float] = field(default_factory=dict)  # a snapshot: where its line crosses each lane, in columns
    judged: str = ""  # what it is worth
    marked: Mapping[Ref, str] = field(default_factory=dict)  # messages in another colour

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
# Each task wrote its own steps; between tasks there is only the causal order: a message is sent before it is
# received,
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


# The space-time diagram as a picture: a lane for each task, arrows for messages, what was discarded in grey.
#
# Time goes to the right.  A dot is an event that is taken, a diamond a border (with its snapshot; a square where a
# real
# run stores it later), a ring a commit, a cross a crash; an upright line is a recovery.  Colours tell epochs apart.
# Below the run stands its explanation, the steps that remain, and between the two thin lines lead from each column
# to its
# place in the explanation; those of commits are strong: what is observed changes only there.  What does not fit on a
# line
# goes on below; what is more than a page can hold is folded, and then cut, with the number of steps that are left
# out.
# The theme is that of the pictures of pipelines, light and dark; no script, no font and no file from elsewhere.

_PAGE = 1180.0
_MARGIN = 16.0
_HEAD = 42.0
_LANE = 46.0
_GAP = 44.0  # between a run and its explanation: the lines that lead from one to the other
_BETWEEN = 22.0
_FOOT = 12.0
_LONGEST = 9  # of a message's label
_APART = 56.0  # what the words "commit 12" need
_COLORS = ("plain", "state", "route", "frame")

_MORE = """
.plc .plc-lane{stroke:var(--pipe);stroke-width:1.2;opacity:.5}
.plc .plc-dead{stroke-dasharray:2 5;opacity:.35}
.plc .plc-name{font-weight:700;text-anchor:end}
.plc .plc-sort{fill:var(--soft);font-size:9.5px;text-anchor:end}
.plc .plc-title{font-size:12px;font-weight:700;text-anchor:start}
.plc .plc-sent{fill:none;stroke:currentColor;stroke-width:1.3}
.plc .plc-sent.plc-border{stroke-dasharray:4 3}
.plc .plc-sent.plc-ack{stroke-dasharray:1.5 3.5;stroke-width:1.1;opacity:.8}
.plc .plc-point{fill:currentColor}
.plc .plc-value{fill:currentColor;font-size:9.5px;paint-order:stroke;stroke:var(--page);stroke-width:3px}
.plc .plc-dot{fill:currentColor}
.plc .plc-many{fill:var(--box);stroke:currentColor;stroke-width:1.8}
.plc .plc-mark{fill:var(--box);stroke:currentColor;stroke-width:1.8}
.plc .plc-ring{fill:none;stroke:currentColor;stroke-width:1.6}
.plc .plc-gone{opacity:.4;color:var(--soft)}
.plc .plc-crash{color:var(--badge)}
.plc .plc-cross{fill:none;stroke:var(--badge);stroke-width:2.6;stroke-linecap:round}
.plc .plc-back{stroke:var(--badge);stroke-width:1.6;stroke-dasharray:6 4}
.plc .plc-bad{fill:var(--badge);opacity:.15}
.plc .plc-is-bad,.plc .plc-says.plc-is-bad{fill:var(--badge);font-weight:700}
.plc .plc-maps{stroke:var(--soft);stroke-width:.8;opacity:.5}
.plc .plc-maps.plc-strong{stroke:var(--ink);stroke-width:1.3;opacity:.9}
.plc .plc-says{text-anchor:start;fill:var(--soft);font-size:9.5px}
.plc .plc-cut{fill:none;stroke:currentColor;stroke-width:2;stroke-dasharray:7 4}
.plc .plc-commit{font-size:9.5px;font-weight:700;fill:currentColor}
"""


@dataclass(frozen=True)
class _Part:
    """Some columns of the run, from one up to another."""

    start: int
    stop: int
    marks: tuple[Mark, ...]
    below: dict[int, int]  # the columns that the explanation has, and where they stand in it


def spacetime_svg(run: DrawnRun, *, title: str = "", most: int = 240, around: int | None = None) -> str:
    """The picture as an SVG document, of at most so many columns; ``around``: the step that must be on it.

    >>> from pellucid.failures.model.explain import explain
    >>> from pellucid.failures.model.notation import read_run
    >>> from pellucid.failures.picture import from_trace
    >>> c, Z = read_run("a: i -> m copy\\nb: m -> o copy\\ni: 1 | 2 |\\na a| b b| a b! ^ a")
    >>> picture = spacetime_svg(from_trace(Z, c, explain(Z, c)), title="two tasks")
    >>> picture[:4], "step 5: F-FAIL b" in picture
    ('<svg', True)
    """
    whole, run = run, fold(run, most)
    shown = _window(run, most, around)
    plan = _Plan(run, shown)
    title = shorten(clean(title), 110)
    notes = _notes(whole, run, shown)
    words = _words(whole)
    top = _MARGIN + (22.0 if title else 0.0)
    below = [*notes, _CUT_LEGEND if run.cut else _LEGEND]
    width = max(plan.width, CHAR * 1.25 * cells(title), *(CHAR * cells(n) for n in below)) + 2 * _MARGIN
    height = top + sum(map(plan.height, plan.parts)) + 16.0 * len(below) + _MARGIN
    mark = "plc-" + hashlib.sha256(f"{title}|{words}".encode()).hexdigest()[:10]
    named = f"Space-time diagram: {title}" if title else "Space-time diagram"
    out = []
    if title:
        out.append(f'<text class="plc-title" x="{_n(_MARGIN)}" y="{_n(_MARGIN + 8)}">{escape(title)}</text>\n')
    y = top
    for part in plan.parts:
        out.append(f'<g transform="translate({_n(_MARGIN)} {_n(y)})">\n{plan.draw(part)}</g>\n')
        y += plan.height(part)
    for k, note in enumerate(below):
        bad = " plc-is-bad" if k < len(notes) and note.startswith(("step ", "inconsistent")) else ""
        out.append(f'<text class="plc-says{bad}" x="{_n(_MARGIN)}" y="{_n(y + 10 + 16 * k)}">{escape(note)}</text>\n')
    return document(mark, (width, height), named, words, "".join(out), STYLE + _MORE)


_LEGEND = (
    "● event · ◇ border and snapshot · □ snapshot stored · ◎ commit · ✕ crash · ┆ recovery · grey: discarded · "
    "dashed arrow: a border · dotted: a snapshot is stored"
)

_CUT_LEGEND = "● event · □ snapshot · red arrow: received, but not sent · violet arrow: in flight"


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
    notes = [f"step {m.at}: {m.wrong}" for m in whole.marks if m.wrong] + ([whole.judged] if whole.judged else [])
    if run.folded:
        notes.append("folded: a mark with a number stands for so many events of one task in one epoch")
    before = sum(m.count for m in run.marks if m.column < shown[0])
    after = sum(m.count for m in run.marks if m.column >= shown[1])
    if before or after:
        parts = [f"{n:,} steps {where}" for n, where in ((before, "before"), (after, "after")) if n]
        notes.append(f"not shown: {' and '.join(parts)}, of {whole.steps:,}")
    return [shorten(clean(note), 180) for note in notes]


class _Plan:
    """Where everything stands."""

    def __init__(self, run: DrawnRun, shown: tuple[int, int]) -> None:
        self.run = run
        self.lane = {name: k for k, name in enumerate(run.lanes)}
        longest = max([cells(shorten(v, _LONGEST)) for v in run.labels.values()], default=0)
        self.step = min(max(50.0 if run.cut else 34.0, CHAR * longest + 16.0), 78.0)
        self.left = max([CHAR * 1.08 * cells(shorten(clean(name), 30)) for name in run.lanes], default=0.0)
        self.left = max(self.left, CHAR * 11) + 16.0
        fits = max(int((_PAGE - self.left) // self.step), 4)
        start, stop = shown
        rows = max(-(-(stop - start) // fits), 1)
        each = -(-(stop - start) // rows) if stop > start else 0  # rows of about one length
        self.parts = (
            [self._part(a, min(a + each, stop)) for a in range(start, stop, each)] if each else [_Part(0, 0, (), {})]
        )
        self.width = self.left + self.step * max(p.stop - p.start for p in self.parts) + 24.0
        self.sender = {ref: m for m in run.marks for ref in m.produced}
        self.readers: dict[Ref, list[Mark]] = {}
        for m in run.marks:
            for ref in m.consumed:
                self.readers.setdefault(ref, []).append(m)

    def height(self, part: _Part) -> float:
        """Of these columns, with their explanation; it takes one line if nothing of them remains."""
        lanes = _LANE * len(self.run.lanes)
        below = 0.0 if not self.run.explained else _GAP + lanes if part.below else 20.0
        return _HEAD + lanes + below + _FOOT + _BETWEEN

    def _part(self, start: int, stop: int) -> _Part:
        marks = tuple(m for m in self.run.marks if start <= m.column < stop)
        remaining = sorted({m.column for m in marks if m.kept and m.lane is not None})
        return _Part(start, stop, marks, {column: k for k, column in enumerate(remaining)})

    def x(self, part: _Part, column: int) -> float:
        """Where a column stands."""
        return self.left + self.step * (column - part.start + 0.6)

    def draw(self, part: _Part) -> str:
        """The run, and below it the explanation."""
        out = [self._lanes(part, _HEAD, alive=self._alive(part))]
        place = {m.column: self.x(part, m.column) for m in part.marks}
        out += [self._recovery(part, m) for m in part.marks if m.lane is None]
        out.append(self._arrows(part, [m for m in part.marks if m.lane], _HEAD, place))
        out += [self._mark(m, place[m.column], _HEAD) for m in part.marks if m.lane is not None]
        out.append(self._commits(part) + self._cut(part))
        if not self.run.explained:
            return "".join(out)
        top = _HEAD + _LANE * len(self.run.lanes) + _GAP
        if not part.below and part.marks:
            y = top - _GAP + 16.0
            out.append(
                f'<text class="plc-says" x="{_n(self.left)}" y="{_n(y)}">explanation: nothing of this remains</text>\n'
            )
        if not part.below:
            return "".join(out)
        below = {column: self.left + self.step * (k + 0.6) for column, k in part.below.items()}
        stop = self.left + self.step * len(below) + 8.0
        out.append(self._maps(part, below))
        out.append(f'<text class="plc-sort" x="{_n(self.left - 8)}" y="{_n(top - 6)}">explanation</text>\n')
        out.append(self._lanes(part, top, stop=stop))
        kept = [m for m in part.marks if m.kept and m.lane is not None]
        out.append(self._arrows(part, kept, top, below))
        out += [self._mark(m, below[m.column], top) for m in kept]
        return "".join(out)

    # ------------------------------------------------------------ lanes and lines

    def _alive(self, part: _Part) -> dict[str, list[tuple[float, float]]]:
        """For each lane the stretches in which its task is down."""
        down: dict[str, list[tuple[float, float]]] = {name: [] for name in self.run.lanes}
        right = self.x(part, part.stop)
        since: dict[str, float] = {}
        for m in self.run.marks:
            if m.column >= part.stop:
                break
            x = self.x(part, max(m.column, part.start - 1))
            if m.rule == "F-FAIL" and m.lane is not None:
                since.setdefault(m.lane, max(x, self.left))
            elif m.lane is None:
                for name, start in since.items():
                    down[name] += [(start, x)] if x > self.left else []
                since = {}
        for name, start in since.items():
            down[name].append((start, right))
        return down

    def _lanes(
        self,
        part: _Part,
        top: float,
        *,
        alive: dict[str, list[tuple[float, float]]] | None = None,
        stop: float | None = None,
    ) -> str:
        out = []
        right = stop if stop is not None else self.left + self.step * (part.stop - part.start) + 8.0
        for name, k in self.lane.items():
            y = top + _LANE * (k + 0.5)
            shown = shorten(clean(name), 30)
            out.append(f'<text class="plc-name" x="{_n(self.left - 8)}" y="{_n(y + 4)}">{escape(shown)}</text>')
            at = self.left
            for a, b in (alive or {}).get(name, []):
                if a > at:
                    out.append(f'<path class="plc-lane" d="M{_n(at)} {_n(y)}H{_n(a)}"/>')
                out.append(f'<path class="plc-lane plc-dead" d="M{_n(max(a, at))} {_n(y)}H{_n(min(b, right))}"/>')
                at = b
            if at < right:
                out.append(f'<path class="plc-lane" d="M{_n(at)} {_n(y)}H{_n(right)}"/>')
        return "".join(out) + "\n"

    def _cut(self, part: _Part) -> str:
        """The line of a snapshot through all lanes."""
        if not self.run.cut:
            return ""
        points = [
            (self.x(part, 0) + self.step * self.run.cut[name], _HEAD + _LANE * (k + 0.5))
            for name, k in self.lane.items()
        ]
        (first, y0), (last, y1) = points[0], points[-1]
        corners = [(first, y0 - 0.5 * _LANE), *points, (last, y1 + 0.45 * _LANE)]
        path = " ".join(f"{'L' if i else 'M'}{_n(x)} {_n(y)}" for i, (x, y) in enumerate(corners))
        dots = "".join(
            f'<rect class="plc-mark" x="{_n(x - 4)}" y="{_n(y - 4)}" width="8" height="8" rx="1.5"/>' for x, y in points
        )
        label = f'<text class="plc-commit" x="{_n(first)}" y="{_n(_HEAD - 10)}">snapshot</text>'
        return f'<g class="plc-frame"><title>snapshot</title><path class="plc-cut" d="{path}"/>{dots}{label}</g>\n'

    def _recovery(self, part: _Part, m: Mark) -> str:
        x, bottom = self.x(part, m.column), _HEAD + _LANE * len(self.run.lanes)
        to = f" to epoch {m.epoch}" if m.epoch is not None else ""
        bad = f'<text class="plc-is-bad" x="{_n(x)}" y="10">?</text>' if m.wrong else ""
        return (
            f'<g class="plc-crash"><title>{escape(clean(f"step {m.at}: recovery{to}"))}</title>{bad}'
            f'<path class="plc-back" d="M{_n(x)} {_n(_HEAD - 8)}V{_n(bottom)}"/>'
            f'<text class="plc-commit" x="{_n(x)}" y="{_n(_HEAD - 26)}">recovery{to.replace(" epoch", "")}</text></g>\n'
        )

    def _maps(self, part: _Part, below: dict[int, float]) -> str:
        top = _HEAD + _LANE * len(self.run.lanes)
        commits = {m.column for m in part.marks if m.commit and m.kept}
        return (
            "".join(
                f'<path class="plc-maps{" plc-strong" if column in commits else ""}" '
                f'd="M{_n(self.x(part, column))} {_n(top + 2)}L{_n(x)} {_n(top + _GAP - 12)}"/>'
                for column, x in below.items()
            )
            + "\n"
        )

    # ------------------------------------------------------------ messages

    def _arrows(self, part: _Part, marks: Sequence[Mark], top: float, place: dict[int, float]) -> str:
        """The messages between these marks; those that come from or go to another row, or the outside, as stubs."""
        here = {m.at for m in marks}
        out: list[str] = []
        done: set[tuple[int, int, bool]] = set()
        for m in marks:
            for ref in m.consumed:
                made = self.sender.get(ref)
                border = ref in self.run.borders
                if made is not None and made.at in here:
                    if (made.at, m.at, border) not in done:
                        done.add((made.at, m.at, border))
                        out.append(self._arrow(made, m, ref, top, place))
                else:
                    stub = (m.at, -1, border)  # of folded marks one is enough
                    out += [self._stub(m, ref, top, place, into=True, outside=made is None)] if stub not in done else []
                    done |= {stub} if m.count > 1 else set()
            for ref in m.produced:
                readers = self.readers.get(ref, [])
                stub = (m.at, -2, ref in self.run.borders)
                if stub not in done and not any(r.at in here for r in readers):
                    out.append(self._stub(m, ref, top, place, into=False, outside=not readers))
                    done |= {stub} if m.count > 1 else set()
        return "".join(dict.fromkeys(out)) + "\n"

    def _ends(self, m: Mark, top: float, place: dict[int, float]) -> tuple[float, float]:
        assert m.lane is not None
        return place[m.column], top + _LANE * (self.lane[m.lane] + 0.5)

    def _arrow(self, a: Mark, b: Mark, ref: Ref, top: float, place: dict[int, float]) -> str:
        (x1, y1), (x2, y2) = self._ends(a, top, place), self._ends(b, top, place)
        length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1.0)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        x1, y1, x2, y2 = x1 + 7 * dx, y1 + 7 * dy, x2 - 9 * dx, y2 - 9 * dy
        text = shorten(self.run.labels.get(ref, ""), _LONGEST)
        far = min(11.0, 0.4 * length)
        label = ""
        if text:
            label = f'<text class="plc-value" x="{_n(x1 + far * dx)}" y="{_n(y1 + far * dy + 3)}">{escape(text)}</text>'
        return self._drawn(
            a.kept and b.kept, a, ref, f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}", _tip(x2, y2, dx, dy), label
        )

    def _stub(self, m: Mark, ref: Ref, top: float, place: dict[int, float], *, into: bool, outside: bool) -> str:
        """A short arrow into or out of a mark."""
        if outside and ref in self.run.borders and not into:
            return ""
        x, y = self._ends(m, top, place)
        dx, dy = (0.5, 0.87) if outside else (0.96, 0.28)
        far, near = (20.0, 8.0) if into else (7.0, 17.0)
        x1, y1, x2, y2 = (x - far * dx, y - far * dy, x - near * dx, y - near * dy) if into else (
            x + far * dx, y + far * dy, x + near * dx, y + near * dy
        )  # fmt: skip
        text = shorten(self.run.labels.get(ref, ""), _LONGEST) if outside else ""
        at = (x1 - 1, y1 - 1) if into else (x2 + 2, y2 + 9)
        label = f'<text class="plc-value" x="{_n(at[0])}" y="{_n(at[1])}">{escape(text)}</text>' if text else ""
        return self._drawn(m.kept, m, ref, f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}", _tip(x2, y2, dx, dy), label)

    def _drawn(self, kept: bool, m: Mark, ref: Ref, path: str, tip: str, label: str) -> str:
        border = ref in self.run.borders
        what = "border" if border else "message"
        kind = " plc-ack" if ref[1].startswith(ACK) else " plc-border" if border else ""
        color = f"plc-{self.run.marked[ref]}" if ref in self.run.marked else _color(m.epoch)
        title = escape(clean(f"{what} {ref[2]} on {ref[1]}"))
        return (
            f'<g class="{color}{"" if kept else " plc-gone"}"><title>{title}</title>'
            f'<path class="plc-sent{kind}" d="{path}"/>{tip}{label}</g>'
        )

    # ------------------------------------------------------------ steps

    def _commits(self, part: _Part) -> str:
        """The words above commits; where they stand close, only the epochs."""
        out, last = [], -1e9
        for m in sorted((m for m in part.marks if m.commit and m.kept), key=lambda m: m.column):
            x = self.x(part, m.column)
            words = f"commit {m.epoch}" if x - last >= _APART else f"{m.epoch}"
            out.append(
                f'<g class="{_color(m.epoch)}"><text class="plc-commit" x="{_n(x)}" '
                f'y="{_n(_HEAD - 10)}">{words}</text></g>\n'
            )
            last = x
        return "".join(out)

    def _mark(self, m: Mark, x: float, top: float) -> str:
        assert m.lane is not None
        y = top + _LANE * (self.lane[m.lane] + 0.5)
        words = f"step {m.at}: {m.text}" + ("" if m.kept or not self.run.explained else ", discarded")
        words += f": {m.wrong}" if m.wrong else ""
        crash = m.rule in ("F-FAIL", "F-LOST")
        kind = "plc-crash" if crash else _color(m.epoch) + ("" if m.kept else " plc-gone")
        out = [f'<g class="{kind}" data-step="{m.at}"><title>{escape(clean(words))}</title>']
        if m.wrong:
            out.append(f'<circle class="plc-bad" cx="{_n(x)}" cy="{_n(y)}" r="16"/>')
        if m.rule == "F-LOST":  # a snapshot that is damaged or gone
            out.append(f'<rect class="plc-mark" x="{_n(x - 5.5)}" y="{_n(y - 5.5)}" width="11" height="11" rx="1.5"/>')
            out.append(f'<path class="plc-cross" d="M{_n(x - 8)} {_n(y + 8)}l16-16"/>')
        elif crash:
            out.append(f'<path class="plc-cross" d="M{_n(x - 6)} {_n(y - 6)}l12 12m0-12l-12 12"/>')
        elif m.rule == "SNAPSHOT":
            out.append(f'<rect class="plc-mark" x="{_n(x - 5.5)}" y="{_n(y - 5.5)}" width="11" height="11" rx="1.5"/>')
        elif m.border:
            out.append(f'<path class="plc-mark" d="M{_n(x)} {_n(y - 7)}l7 7l-7 7l-7-7z"/>')
        elif m.count > 1:
            text = f"{m.count:,}" if m.count < 10_000 else f"{m.count // 1000:,}k"
            w = CHAR * len(text) + 10.0
            out.append(
                f'<rect class="plc-many" x="{_n(x - w / 2)}" y="{_n(y - 8)}" width="{_n(w)}" height="16" rx="8"/>'
                f'<text x="{_n(x)}" y="{_n(y + 3.6)}">{text}</text>'
            )
        else:
            out.append(f'<circle class="plc-dot" cx="{_n(x)}" cy="{_n(y)}" r="4.5"/>')
        if m.commit and m.kept:
            out.append(f'<circle class="plc-ring" cx="{_n(x)}" cy="{_n(y)}" r="11"/>')
        return "".join(out) + "</g>\n"


def _tip(x: float, y: float, dx: float, dy: float) -> str:
    """The head of an arrow that ends here in this direction."""
    a, b = x - 6 * dx + 3 * dy, y - 6 * dy - 3 * dx
    c, d = x - 6 * dx - 3 * dy, y - 6 * dy + 3 * dx
    return f'<path class="plc-point" d="M{_n(x)} {_n(y)}L{_n(a)} {_n(b)}L{_n(c)} {_n(d)}z"/>'


def _color(epoch: int | None) -> str:
    return f"plc-{_COLORS[(epoch or 0) % len(_COLORS)]}"


def _words(run: DrawnRun) -> str:
    """The picture in words: the lanes, and what happened besides events."""
    told = []
    for m in run.marks:
        if m.wrong:
            told.append(f"step {m.at} cannot be explained: {m.wrong}")
        elif m.lane is None:
            told.append(f"step {m.at}: recovery" + (f" to epoch {m.epoch}" if m.epoch is not None else ""))
        elif m.rule.startswith("F-"):
            what = "crashes" if m.rule == "F-FAIL" else f"has lost its snapshot of epoch {m.epoch}"
            told.append(f"step {m.at}: {m.lane} {what}")
        elif m.commit:
            told.append(f"step {m.at}: {m.lane} commits epoch {m.epoch}")
    rest = len(told) - 40
    kept = sum(m.count for m in run.marks if m.kept and m.lane is not None)
    told += [f"the snapshot is {run.judged}"] if run.judged else []
    text = f"{run.steps:,} steps of {', '.join(run.lanes)}. {'; '.join(told[:40])}"
    text += f"; and {rest:,} more" if rest > 0 else ""
    return clean(text + (f". The explanation has {kept:,} of the steps." if run.explained else "."))
