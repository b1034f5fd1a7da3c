"""What a timeline shows: when spouts emit, how long queues are, when workers work.

Both pictures read this, so they cannot disagree.  It is made of a `Replay`, that is of steps that were applied one by
one: nothing is drawn that did not happen.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pellucid.capacity.steps import Replay, Worker
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.draw.lanes import Curve, Item, Lane, Mark, Span, Strip, Upright, label_room, page

__all__ = ["Timeline", "timeline", "timeline_svg", "timeline_text"]


@dataclass(frozen=True)
class Timeline:
    """Times are exact.  ``queues`` has for each bolt its length after each step, with the time of that step; ``lanes``
    from when to when each worker is busy."""

    end: Fraction
    emits: Mapping[str, tuple[Fraction, ...]]
    queues: Mapping[str, tuple[tuple[Fraction, int], ...]]
    lanes: Mapping[Worker, tuple[tuple[Fraction, Fraction], ...]]
    limits: Mapping[str, int]  # the queues that should stay below that
    over: Fraction | None  # when the first of them did not
    title: str = ""

    def length(self, bolt: str, begin: Fraction, end: Fraction) -> int:
        """The longest that a queue is between two times, the second one left out."""
        steps = self.queues[bolt]
        inside = [n for at, n in steps if begin <= at < end]
        before = [n for at, n in steps if at < begin]
        return max([*inside, *before[-1:]], default=0)

    def longest(self, bolt: str) -> int:
        """The longest that it is at all."""
        return max((n for _, n in self.queues[bolt]), default=0)


def timeline(run: Replay, limits: Mapping[str, int] | None = None, *, title: str = "") -> Timeline:
    """The timeline of a run; ``limits`` are those that the question was about.

    >>> from fractions import Fraction
    >>> from pellucid.capacity import Bolt, Spout, Step, Topology, replay
    >>> t = Topology({"S": Spout(gap=1)}, {"B": Bolt(time=1, hears="S")})
    >>> wait = Step("time_elapse", by=Fraction(3, 2))
    >>> found = timeline(replay(t, [wait, Step("spout_emit", "S", ("B",)), Step("bolt_take", Worker("B", 0))]))
    >>> found.end, found.emits["S"], found.lanes[Worker("B", 0)]
    (Fraction(3, 2), (Fraction(3, 2),), ((Fraction(3, 2), Fraction(3, 2)),))
    """
    limits = dict(limits or {})
    end = run.times[-1]
    emits: dict[str, list[Fraction]] = {s: [] for s in run.topology.spouts}
    for step, at in zip(run.steps, run.times, strict=False):
        if step.action == "spout_emit":
            emits[str(step.who)].append(at)
    queues = {b: tuple(zip(run.times, run.lengths(b), strict=True)) for b in run.topology.bolts}
    lanes = {w: tuple((a, min(b, end)) for a, b in spans) for w, spans in run.busy().items()}
    over = [at for b, limit in limits.items() for at, n in queues[b] if n >= limit]
    return Timeline(
        end, {s: tuple(at) for s, at in emits.items()}, queues, lanes, limits, min(over, default=None),
        title or run.topology.name,
    )  # fmt: skip


def ticks(end: Fraction, most: int) -> Sequence[Fraction]:
    """Round times from 0 to ``end``, not more than so many.

    >>> [str(t) for t in ticks(Fraction(7), 5)], [str(t) for t in ticks(Fraction(3, 10), 4)]
    (['0', '2', '4', '6'], ['0', '1/10', '1/5', '3/10'])
    """
    if end <= 0:
        return [Fraction(0)]
    power = Fraction(1, 10**6)
    while True:
        for digit in (1, 2, 5):
            gap = digit * power
            if end / gap + 1 <= max(2, most):
                return [gap * i for i in range(int(end / gap) + 1)]
        power *= 10


def number(value: Fraction) -> str:
    """A time for people: as a decimal where that is exact and short, else as a fraction.

    >>> number(Fraction(5, 2)), number(Fraction(1, 3)), number(Fraction(4))
    ('2.5', '1/3', '4')
    """
    for digits in range(5):
        if value.denominator and (value * 10**digits).denominator == 1:
            return f"{float(value):.{digits}f}" if digits else str(int(value))
    return str(value)


# The timeline in a terminal: a column is a stretch of time.

_MOST_LANES = 6  # of one bolt: more look all the same


def timeline_text(line: Timeline, *, width: int | None = None) -> str:
    """Queues over time (the longest in each column, `·` for none, and at the end of all), workers as lanes.

    >>> from pellucid.capacity import Bolt, Spout, Topology, grow, replay
    >>> from pellucid.capacity.picture import timeline
    >>> t = Topology({"S": Spout(gap="0.5")}, {"B": Bolt(time=1, hears="S")})
    >>> print(timeline_text(timeline(replay(t, grow(t, "B", 3).steps), {"B": 3}), width=40))
    time     0        2         4
    S           ↓  ↓  ↓   ↓  ↓  ↓  ↓   ↓
    B queue  ···1··111111111122122222223 3
    B[0]        ████████████████████████
                                       ^ B 3
    """
    size = width or min(100, shutil.get_terminal_size((80, 24)).columns)
    names = [*line.emits, *(f"{b} queue" for b in line.queues), *(str(w) for w in line.lanes), "time"]
    first = min(24, max(len(clean(name)) for name in names)) + 2
    columns = max(10, size - first - 4)
    step = line.end / (columns - 1) if line.end else Fraction(1)

    def column(at: Fraction) -> int:
        return min(columns - 1, int(at / step))

    def row(name: str, cells: list[str]) -> str:
        return (shorten(clean(name), first - 2).ljust(first) + "".join(cells)).rstrip()

    out = [row("time", _axis(line, columns, step))]
    for spout, emits in line.emits.items():
        cells = [" "] * columns
        for at in emits:
            cells[column(at)] = "↓" if cells[column(at)] == " " else "⇊"
        out.append(row(spout, cells))
    for bolt in line.queues:
        lengths = [line.length(bolt, i * step, (i + 1) * step) for i in range(columns)]
        out.append(row(f"{bolt} queue", [*(_digit(n) for n in lengths), f" {line.longest(bolt)}"]))
        lanes = [(w, spans) for w, spans in line.lanes.items() if w.bolt == bolt]
        for worker, spans in lanes[:_MOST_LANES]:
            cells = [" "] * columns
            for a, b in spans:
                for i in range(column(a), max(column(a) + 1, column(b) + (b >= line.end))):
                    cells[i] = "█"
            out.append(row(str(worker), cells))
        if len(lanes) > _MOST_LANES:
            out.append(row("", [f"… and {len(lanes) - _MOST_LANES} more workers"]))
    if line.over is not None:
        said = ", ".join(f"{b} {line.longest(b)}" for b, n in line.limits.items() if line.longest(b) >= n)
        place = first + column(line.over)
        out.append(" " * place + f"^ {said}" if place + len(said) + 2 <= size else f"{said + ' ^':>{place + 1}}")
    return "\n".join(out)


def _axis(line: Timeline, columns: int, step: Fraction) -> list[str]:
    cells = [" "] * columns
    for at in ticks(line.end, max(2, columns // 6)):
        text = number(at)
        place = min(columns - 1, int(at / step))
        for i, letter in enumerate(text):
            if place + i < columns:
                cells[place + i] = letter
    return cells


def _digit(length: int) -> str:
    return "·" if length == 0 else str(length) if length < 10 else "+"


def timeline_svg(line: Timeline) -> str:
    """One self-contained picture: a step curve for each queue, its limit dashed, and a lane for each worker.

    >>> from pellucid.capacity import Bolt, Spout, Topology, grow, replay
    >>> from pellucid.capacity.picture import timeline
    >>> t = Topology({"S": Spout(gap="0.5")}, {"B": Bolt(time=1, hears="S")})
    >>> picture = timeline_svg(timeline(replay(t, grow(t, "B", 3).steps), {"B": 3}))
    >>> picture[:4], 'data-bolt="B"' in picture
    ('<svg', True)
    """
    end = line.end or Fraction(1)
    lanes: list[Lane] = []
    items: list[Item] = [Upright(float(at), "grid", number(at), "id") for at in ticks(end, 12)]
    for spout, emits in line.emits.items():
        lanes.append(Lane(f"spout {spout}", shorten(spout, 12), 18.0, kind="", data={"spout": clean(spout)}))
        items += [Mark(f"spout {spout}", float(at), "emit") for at in emits]
    for bolt, points in line.queues.items():
        key, limit = f"bolt {bolt}", line.limits.get(bolt)
        lanes.append(Lane(f"above {bolt}", "", 10.0, kind=""))
        lanes.append(Lane(key, shorten(bolt, 12), 46.0, kind="", data={"bolt": clean(bolt)}))
        most = max(line.longest(bolt), limit or 0, 1)
        items.append(Curve(key, [(float(at), n) for at, n in points], float(end), most, limit))
        for worker, spans in line.lanes.items():
            if worker.bolt == bolt:
                lanes.append(Lane(str(worker), "", 12.0, kind="", under=str(worker)))
                items.append(Span(str(worker), 0.0, float(end), "idle", 8.0))
                items += [Span(str(worker), float(a), float(b), "busy", 8.0) for a, b in spans if b > a]
    notes: list[str] = []
    if line.over is not None:
        items.append(Upright(float(line.over), "over"))
        over = [f"{b}: {line.longest(b)} of {n}" for b, n in line.limits.items() if line.longest(b) >= n]
        notes = [clean(", ".join(over))]
    left, wide = label_room([lane.name for lane in lanes], 80.0), 760.0
    strip = Strip(lanes, lambda at: left + wide * at / float(end), left, left + wide, 16.0)
    return page(
        [(strip.draw(items), strip.bottom + 6)],
        strip.right + 10,
        named=line.title or "timeline",
        words="; ".join(f"{b}: the queue gets {line.longest(b)} long" for b in line.queues),
        title=shorten(clean(line.title), 100),
        notes=notes,
        bad=1,
    )
