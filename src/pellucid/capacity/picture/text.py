"""The timeline in a terminal: a column is a stretch of time."""

from __future__ import annotations

import shutil
from fractions import Fraction

from pellucid.capacity.picture.timeline import Timeline, number, ticks
from pellucid.internal.draw.labels import clean, shorten

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
