"""A run as a space-time picture: a lane for each place, a column for each step.

An arrow is a message that leaves or enters a place; a filled dot is a message that is taken, with a dashed line from
where it came from; a ring is a commit, and members of one commit are joined; a cross is an abort.  What
aborted or depends on it is grey: that is what is undone.  No script, no font and no file from elsewhere.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from pellucid.atomic.layout import TAKES
from pellucid.atomic.machine import Atomic, Step
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.theme import CHAR, STYLE, document
from pellucid.internal.draw.theme import number as _n

if TYPE_CHECKING:
    from pellucid.atomic.running import NetworkRun

_MORE = """
.plc .plc-lane{stroke:var(--pipe);stroke-width:1.2;opacity:.5}
.plc .plc-name{font-weight:700;text-anchor:end}
.plc .plc-title{font-size:12px;font-weight:700;text-anchor:start}
.plc .plc-says{text-anchor:start;fill:var(--soft);font-size:9.5px}
.plc .plc-says.plc-is-bad{fill:var(--badge);font-weight:700}
.plc .plc-hop{fill:none;stroke:var(--plain);stroke-width:1.6}
.plc .plc-point{fill:var(--plain)}
.plc .plc-need{fill:none;stroke:var(--state);stroke-width:1.2;stroke-dasharray:4 3}
.plc .plc-dot{fill:var(--plain)}
.plc .plc-small{fill:var(--pipe)}
.plc .plc-ring{fill:var(--page);stroke:var(--route);stroke-width:2.2}
.plc .plc-join{stroke:var(--route);stroke-width:1.6}
.plc .plc-cross{fill:none;stroke:var(--badge);stroke-width:2.6;stroke-linecap:round}
.plc .plc-gone path,.plc .plc-gone circle{opacity:.4}
.plc .plc-gone .plc-word{fill:var(--soft)}
.plc .plc-word{font-size:9.5px;paint-order:stroke;stroke:var(--page);stroke-width:3px}
"""
_MARGIN, _LANE, _COLUMN, _WORDS, _MOST = 16.0, 58.0, 64.0, 32, 120  # the least width of a column, its longest words
_ENDS = ("COMMIT", "ABORT", "CRASH", "CASCADE", "RECV TIMEOUT", "FORWARD TIMEOUT", "OPEN TIMEOUT")
_LEGEND = (
    "→ a message enters or leaves a place · ● a message is taken, ┄ from whom · ◯ commit · ✕ abort",
    "grey: undone (aborted, or dependent on an aborted one)",
)


def spacetime_svg(run: NetworkRun, *, title: str = "", most: int = _MOST) -> str:
    """The picture of a run, of at most so many steps (the last ones).

    >>> from pellucid.atomic import run
    >>> found = run("new t: Trans. new p: Place. p[ t{commit} ]")
    >>> "COMMIT t" in spacetime_svg(found)
    True
    """
    machine = run.machine
    assert isinstance(machine, Atomic)
    states = run.states()
    doomed = machine.view(states[-1]).doomed()
    first = max(0, len(run.steps) - most)
    steps: list[Step] = list(run.steps[first:])
    used = {place for step in steps for place in _places(machine, states[-1], step)}
    used |= {place for place, soup in enumerate(states[0].soups) if soup}
    lanes = {place: row for row, place in enumerate(sorted(used or {0}))}
    labels = machine.layout.labels
    left = _MARGIN + CHAR * max(cells(labels[place]) for place in lanes) + 14
    title = shorten(clean(title), 110)
    top = _MARGIN + (22.0 if title else 0.0) + 14
    ends = [left]  # of columns: each is as wide as its words
    for step in steps:
        ends.append(ends[-1] + max(_COLUMN, CHAR * 0.92 * max(map(cells, _lines(step))) + 14))
    width = max(ends[-1], left + _COLUMN) + _MARGIN
    out = [f'<text class="plc-title" x="{_n(_MARGIN)}" y="{_n(_MARGIN + 8)}">{escape(title)}</text>\n'] if title else []

    def y(place: int) -> float:
        return top + _LANE * lanes[place] + 16

    for place in lanes:
        out.append(f'<path class="plc-lane" d="M{_n(left)} {_n(y(place))}H{_n(width - _MARGIN)}"/>\n')
        out.append(f'<text class="plc-name" x="{_n(left - 8)}" y="{_n(y(place) + 4)}">{escape(labels[place])}</text>\n')
    last: dict[str, tuple[float, float]] = {}
    for column, step in enumerate(steps):
        x = (ends[column] + ends[column + 1]) / 2
        places = _places(machine, states[first + column + 1], step)
        grey = " plc-gone" if set(step.who) <= doomed else ""
        marks = [_need(last[step.source], (x, y(places[0])))] if step.rule in TAKES and step.source in last else []
        marks += _mark(step, x, [y(place) for place in places])
        words = f"step {first + column}: {step}"
        said = _said(step, x, y(places[-1]) - 11)
        out.append(f'<g class="{grey.strip()}"><title>{escape(words)}</title>{"".join(marks)}{said}</g>\n')
        for t in step.who:
            if step.rule not in _ENDS:  # what a message left from: the last hop, or what its sender did before
                last[t] = x, y(places[-1])
    why = run.ending() if run.ended else run.why
    below = [*([why] if why else []), *([f"{first} steps before are not shown"] if first else []), *_LEGEND]
    bottom = top + _LANE * len(lanes) + 12
    for k, words in enumerate(below):
        bad = " plc-is-bad" if k == 0 and why and not run.ended else ""
        text = escape(shorten(clean(words), 180))
        out.append(f'<text class="plc-says{bad}" x="{_n(_MARGIN)}" y="{_n(bottom + 16 * k)}">{text}</text>\n')
    width = max(
        width, *(CHAR * 0.92 * min(180, cells(words)) + 2 * _MARGIN for words in below), CHAR * 1.25 * cells(title)
    )
    told = "; ".join(str(step) for step in run.steps)
    mark = "plc-" + hashlib.sha256(f"{title}|{told}".encode()).hexdigest()[:10]
    size = width, bottom + 16 * len(below)
    return document(mark, size, title or "Space-time picture of a run", told or "no step", "".join(out), STYLE + _MORE)


def _places(machine: Atomic, after: object, step: Step) -> list[int]:
    """The lanes that a step touches; of a message the one that it comes from first."""
    if step.rule == "IN":
        return [machine.layout.parents[step.place], step.place]
    if step.rule == "OUT":
        return [step.place, machine.layout.parents[step.place]]
    if step.rule == "COMMIT":
        return sorted({machine.home(after, t) for t in step.who})  # type: ignore[arg-type]
    return [step.place]


def _lines(step: Step) -> list[str]:
    """The rule, and below it who took it."""
    rest = str(step).removeprefix(step.rule).strip()
    return [step.rule, *([shorten(rest, _WORDS)] if rest else [])]


def _said(step: Step, x: float, y: float) -> str:
    lines = _lines(step)
    words = "".join(
        f'<tspan x="{_n(x)}" dy="{_n(10 if k else 0)}">{escape(line)}</tspan>' for k, line in enumerate(lines)
    )
    return f'<text class="plc-word" x="{_n(x)}" y="{_n(y - 10 * (len(lines) - 1))}">{words}</text>'


def _need(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    bend = min(y1, y2) - 18 if y1 == y2 else (y1 + y2) / 2
    return f'<path class="plc-need" d="M{_n(x1)} {_n(y1)}Q{_n((x1 + x2) / 2)} {_n(bend)} {_n(x2)} {_n(y2)}"/>'


def _mark(step: Step, x: float, ys: list[float]) -> list[str]:
    if step.rule in ("IN", "OUT"):
        y1, y2 = ys
        down = 1 if y2 > y1 else -1
        point = f"M{_n(x)} {_n(y2)}l-4 {_n(-8 * down)}h8z"
        line = f'<path class="plc-hop" d="M{_n(x)} {_n(y1)}V{_n(y2 - 6 * down)}"/>'
        return [line, f'<path class="plc-point" d="{point}"/>']
    if step.rule == "COMMIT":
        join = [f'<path class="plc-join" d="M{_n(x)} {_n(min(ys))}V{_n(max(ys))}"/>'] if len(ys) > 1 else []
        return [*join, *(f'<circle class="plc-ring" cx="{_n(x)}" cy="{_n(y)}" r="6.5"/>' for y in ys)]
    y = ys[0]
    if step.rule in ("ABORT", "CRASH", "CASCADE"):
        return [f'<path class="plc-cross" d="M{_n(x - 5)} {_n(y - 5)}l10 10m0 -10l-10 10"/>']
    if step.rule in TAKES:
        return [f'<circle class="plc-dot" cx="{_n(x)}" cy="{_n(y)}" r="5"/>']
    return [f'<circle class="plc-small" cx="{_n(x)}" cy="{_n(y)}" r="2.6"/>']
