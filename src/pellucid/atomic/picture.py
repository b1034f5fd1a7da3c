"""A network, or a state of it, as nested places: a box for each, with its log and what runs there."""

from __future__ import annotations

import hashlib
import textwrap
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.state import TAKES, State
from pellucid.atomic.syntax import network_text
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.theme import CHAR, STYLE, document
from pellucid.internal.draw.theme import number as _n

if TYPE_CHECKING:
    from pellucid.atomic.running import NetworkRun

__all__ = ["nested_svg", "nested_text", "spacetime_svg"]

_MORE = """
.plc .plc-line{text-anchor:start}
.plc .plc-log{text-anchor:start;fill:var(--soft)}
.plc .plc-room{fill:var(--box);stroke:var(--plain);stroke-width:1.4}
.plc .plc-roomname{text-anchor:start;font-weight:700;fill:var(--plain)}
"""
_ROW, _PAD, _LONGEST, _ROWS = 16.0, 12.0, 100, 6


def _contents(machine: Atomic, at: State, place: int) -> tuple[list[str], list[str]]:
    """The log and the items of a place, in words."""
    store = machine.store
    log = [clean(network_text(store.record(at, e))) for e in at.logs[place]]
    return log, [clean(str(store.said(at, store.items[i]))) for i in at.soups[place]]


def _wrapped(words: str) -> list[str]:
    """A long line in several, broken at blanks; of a very long one the beginning."""
    lines = textwrap.wrap(words, _LONGEST - 2, break_on_hyphens=False) or [""]
    return lines if len(lines) <= _ROWS else [*lines[: _ROWS - 1], shorten(" ".join(lines[_ROWS - 1 :]), _LONGEST - 2)]


def nested_text(machine: Atomic, at: State | None = None) -> str:
    """For a terminal.

    >>> from pellucid.atomic import parse
    >>> print(nested_text(Atomic(parse("new t: Trans. new p, q: Place. p[ q[ t{commit} ] ] | t{0}"))))
    p
      └ q
        · t{commit}
    """
    state = machine.start() if at is None else at

    def place(number: int, pad: str) -> list[str]:
        log, items = _contents(machine, state, number)
        lines = [f"{pad}log {entry}" for entry in log] + [f"{pad}· {item}" for item in items]
        for inner in machine.inside[number]:
            lines += [f"{pad}{'└ ' if number else ''}{machine.layout.labels[inner]}", *place(inner, pad + "  ")]
        return lines

    return "\n".join(place(0, "")) or "0"


def nested_svg(machine: Atomic, at: State | None = None, *, title: str = "") -> str:
    """As a picture.

    >>> from pellucid.atomic import parse
    >>> nested_svg(Atomic(parse("new t: Trans. new p: Place. p[ t{commit} ]")))[:4]
    '<svg'
    """
    state = machine.start() if at is None else at

    rows: list[list[tuple[str, float, str]]] = []  # of each place: class, indent, words
    widths = []
    for number in range(len(machine.layout.names)):
        log, items = _contents(machine, state, number)
        lines = [("plc-log", f"log: {entry}") for entry in log] + [("plc-line", item) for item in items]
        rows.append([(kind, 2 * CHAR * (k > 0), w) for kind, line in lines for k, w in enumerate(_wrapped(line))])
        texts = [indent + CHAR * cells(words) for _, indent, words in rows[-1]]
        widths.append(max([CHAR * cells(machine.layout.labels[number]), *texts]) + 2 * _PAD)
    for number in range(len(widths) - 1, 0, -1):  # what is inside comes after what is around it
        outer = machine.layout.parents[number]
        widths[outer] = max(widths[outer], widths[number] + 2 * _PAD)

    def box(number: int, x: float, y: float, wide: float) -> tuple[str, float]:
        out, row = [], y + (_ROW + 6 if number else 0)
        for kind, indent, words in rows[number]:
            out.append(f'<text class="{kind}" x="{_n(x + _PAD + indent)}" y="{_n(row + 10)}">{escape(words)}</text>\n')
            row += _ROW
        for inner in machine.inside[number]:  # places beside each other are equally wide
            body, high = box(inner, x + _PAD, row + 4, wide - 2 * _PAD)
            out.append(body)
            row += high + 10
        high = row - y + 8
        if number:
            name = escape(machine.layout.labels[number])
            frame = f'<rect class="plc-room" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" rx="6"/>\n'
            frame += f'<text class="plc-roomname" x="{_n(x + 8)}" y="{_n(y + 15)}">{name}</text>\n'
            out.insert(0, frame)
        return "".join(out), high

    title = shorten(clean(title), 110)
    top = 34.0 if title else 14.0
    wide = widths[0]
    body, high = box(0, 4.0, top, wide)
    if title:
        body = f'<text class="plc-head" x="16" y="22">{escape(title)}</text>\n' + body
    words = nested_text(machine, state)
    mark = "plc-" + hashlib.sha256(words.encode()).hexdigest()[:10]
    size = max(wide, CHAR * 1.25 * cells(title)) + 16, top + high + 8
    return document(mark, size, title or "A network as nested places", words, body, STYLE + _MORE)


# A run as a space-time picture: a lane for each place, a column for each step.
#
# An arrow is a message that leaves or enters a place; a filled dot is a message that is taken, with a dashed line
# from
# where it came from; a ring is a commit, and members of one commit are joined; a cross is an abort.  What
# aborted or depends on it is grey: that is what is undone.  No script, no font and no file from elsewhere.

_MORE_SPACETIME = """
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
    return document(
        mark, size, title or "Space-time picture of a run", told or "no step", "".join(out), STYLE + _MORE_SPACETIME
    )


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
