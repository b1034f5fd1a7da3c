"""A network, or a state of it, as nested places: a box for each, with its log and what runs there."""

from __future__ import annotations

import hashlib
import textwrap
from xml.sax.saxutils import escape

from pellucid.atomic.machine import Atomic
from pellucid.atomic.printing import network_text
from pellucid.atomic.state import State
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.theme import CHAR, STYLE, document
from pellucid.internal.draw.theme import number as _n

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
