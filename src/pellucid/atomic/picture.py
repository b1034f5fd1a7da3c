"""A network, or a state of it, as nested places: a box for each, with its log and what runs there."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.state import TAKES, State
from pellucid.atomic.syntax import network_text
from pellucid.internal.draw.labels import cells, clean, shorten
from pellucid.internal.draw.lanes import Arrow, Item, Lane, Mark, Point, Strip, label_room, page
from pellucid.internal.draw.svg import CHAR, document, rect, text

if TYPE_CHECKING:
    from pellucid.atomic.running import NetworkRun

__all__ = ["nested_svg", "nested_text", "spacetime_svg"]

_MORE = """
.plc .plc-line-of-text{text-anchor:start}
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
        lines = [("log", f"log: {entry}") for entry in log] + [("line-of-text", item) for item in items]
        rows.append([(kind, 2 * CHAR * (k > 0), w) for kind, line in lines for k, w in enumerate(_wrapped(line))])
        texts = [indent + CHAR * cells(words) for _, indent, words in rows[-1]]
        widths.append(max([CHAR * cells(machine.layout.labels[number]), *texts]) + 2 * _PAD)
    for number in range(len(widths) - 1, 0, -1):  # what is inside comes after what is around it
        outer = machine.layout.parents[number]
        widths[outer] = max(widths[outer], widths[number] + 2 * _PAD)

    def box(number: int, x: float, y: float, wide: float) -> tuple[str, float]:
        out, row = [], y + (_ROW + 6 if number else 0)
        for kind, indent, words in rows[number]:
            out.append(text(kind, x + _PAD + indent, row + 10, words) + "\n")
            row += _ROW
        for inner in machine.inside[number]:  # places beside each other are equally wide
            body, high = box(inner, x + _PAD, row + 4, wide - 2 * _PAD)
            out.append(body)
            row += high + 10
        high = row - y + 8
        if number:
            frame = rect("room", x, y, wide, high, 6)
            out.insert(0, frame + text("roomname", x + 8, y + 15, machine.layout.labels[number]) + "\n")
        return "".join(out), high

    title = shorten(clean(title), 110)
    top, wide = 34.0 if title else 14.0, widths[0]
    body, high = box(0, 4.0, top, wide)
    if title:
        body = text("head", 16, 22, title) + "\n" + body
    size = max(wide, CHAR * 1.25 * cells(title)) + 16, top + high + 8
    return document(size, title or "A network as nested places", nested_text(machine, state), body, _MORE)


# ---------------------------------------------------------------- a run

# A lane for each place, a column for each step.  An arrow is a message that leaves or enters a place; a filled dot is a
# message that is taken, with a dashed line from where it came from; a ring is a commit, and members of one commit are
# joined; a cross is an abort.  What aborted or depends on it is grey: that is what is undone.

_WORDS, _MOST = 32, 120  # the longest words of a step, and the most steps
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
    steps = run.steps[first:]
    used = {place for step in steps for place in _places(machine, states[-1], step)}
    used |= {place for place, soup in enumerate(states[0].soups) if soup}
    labels = machine.layout.labels
    lanes = [Lane(str(place), labels[place], 58.0) for place in sorted(used or {0})]
    left = label_room([lane.name for lane in lanes])
    widths = [max(64.0, CHAR * 0.92 * max(map(cells, _lines(step))) + 14) for step in steps]
    edges = list(accumulate(widths, initial=left))
    items: list[Item] = []
    last: dict[str, Point] = {}
    for column, step in enumerate(steps):
        places = [(str(place), column) for place in _places(machine, states[first + column + 1], step)]
        grey = "gone" if set(step.who) <= doomed else ""
        if step.rule in TAKES and step.source in last:
            items.append(Arrow(last[step.source], places[0], "need", grey, tip=False, curved=True))
        items += _drawn(step, places, grey, f"step {first + column}: {step}")
        if step.rule not in _ENDS:  # what a message left from: the last hop, or what its sender did before
            last |= dict.fromkeys(step.who, places[-1])
    strip = Strip(lanes, lambda at: (edges[int(at)] + edges[int(at) + 1]) / 2, left, max(edges[-1], left + 64.0), 14.0)
    why = run.ending() if run.ended else run.why
    notes = [*([why] if why else []), *([f"{first} steps before are not shown"] if first else []), *_LEGEND]
    words = "; ".join(str(step) for step in run.steps)
    return page(
        [(strip.draw(items), strip.bottom)],
        strip.right,
        named=shorten(clean(title), 110) or "Space-time picture of a run",
        words=words or "no step",
        title=shorten(clean(title), 110),
        notes=[shorten(clean(note), 180) for note in notes],
        bad=int(bool(why) and not run.ended),
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


def _lines(step: Step) -> tuple[str, ...]:
    """The rule, and below it who took it."""
    rest = str(step).removeprefix(step.rule).strip()
    return (step.rule, *([shorten(rest, _WORDS)] if rest else []))


def _drawn(step: Step, places: Sequence[Point], grey: str, title: str) -> list[Item]:
    """A step on its lanes, with its words above the last of them."""
    (lane, at), shape = places[-1], "small"
    words = Mark(lane, at, "words", grey, title, _lines(step))
    if step.rule in ("IN", "OUT"):
        return [Arrow(places[0], places[1], "hop", f"plain {grey}", title), words]
    if step.rule == "COMMIT":
        join: list[Item] = [Arrow(places[0], places[-1], "join", grey, tip=False)] if len(places) > 1 else []
        return [*join, *(Mark(lane, at, "commit", grey, title) for lane, at in places), words]
    if step.rule in ("ABORT", "CRASH", "CASCADE"):
        shape = "cross"
    elif step.rule in TAKES:
        shape = "dot"
    return [Mark(lane, at, shape, f"plain {grey}", title), words]
