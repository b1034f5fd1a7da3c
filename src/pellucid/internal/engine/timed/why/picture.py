"""The answer as a picture: event time from left to right, a lane for each source and each step.

A source's lane is full up to its watermark, and light from there to the greatest time seen: there events may still
come.  A step's lane has its clock, and what waits there; from what is held back a line leads to the watermark that
holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from xml.sax.saxutils import escape, quoteattr

from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.draw.theme import STYLE, document
from pellucid.internal.draw.theme import number as _n
from pellucid.internal.engine.timed.why.answer import Progress, StepNow, head
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.timing import shown_time

_LEFT, _RIGHT, _TOP, _WIDE, _LANE = 150.0, 120.0, 58.0, 720.0, 26.0
_MORE = """
.plc .plc-name{text-anchor:end;font-weight:700}
.plc .plc-side{text-anchor:start;fill:var(--soft);font-size:9.5px}
.plc .plc-done{fill:var(--route);opacity:.55}
.plc .plc-may{fill:var(--route);opacity:.18}
.plc .plc-mark{stroke:var(--route);stroke-width:2.2}
.plc .plc-clock{stroke:var(--time);stroke-width:2.2}
.plc .plc-open{fill:var(--state);opacity:.3;stroke:var(--state)}
.plc .plc-kept{fill:var(--soft);opacity:.15;stroke:var(--soft)}
.plc .plc-hold{fill:none;stroke:var(--badge);stroke-width:1.2;stroke-dasharray:4 3}
.plc .plc-grid{stroke:var(--soft);stroke-width:.5;opacity:.5}
"""


def lanes_svg(found: Progress) -> str:
    """One self-contained picture.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.at(lambda v: v, lateness=5, id="at").tumbling(10, lambda w: w, id="tens"), x=int)
    >>> engine = p.engine()
    >>> engine.push([3, 14])
    []
    >>> picture = lanes_svg(p.progress(engine))
    >>> picture[:4], 'data-source="x"' in picture, 'data-step="tens"' in picture
    ('<svg', True, True)
    """
    title = head(found)
    kinds = list(dict.fromkeys([at.times for s in found.sources for at in s.ats] + [s.times for s in found.steps]))
    parts, y, said = [], _TOP, []
    for times in kinds:  # events of two types of times never meet: each has an axis of its own
        text, y, words = _section(found, times, y)
        parts.append(text)
        said += words
        y += 34
    heading = f'<text class="plc-head" x="14" y="20">{escape(shorten(clean(title), 130))}</text>\n'
    size = (_LEFT + _WIDE + _RIGHT, max(y - 20, 60.0))
    body = heading + "".join(parts)
    return document("plc-waits", size, clean(found.pipeline), clean("; ".join(said) or title), body, STYLE + _MORE)


def _section(found: Progress, times: Type, y: float) -> tuple[str, float, list[str]]:
    lanes = [(source, at) for source in found.sources for at in source.ats if at.times == times]
    steps = [step for step in found.steps if step.times == times]
    low, high = _range(found, times)

    def x(time: int) -> float:
        return _LEFT + _WIDE * min(max((time - low) / max(high - low, 1), 0.0), 1.0)

    top, parts, said = y, [], []
    marks: dict[str, tuple[float, float]] = {}
    drawn: set[str] = set()
    for source, at in lanes:
        name = source.name if len(source.ats) == 1 else f"{source.name}: {at.step}"
        parts.append(_name(y, name, at.status + (", silent" if source.silent else "")))
        bar = ""
        if at.watermark is not None and at.greatest is not None:
            bar = (
                _box("plc-done", x(low), x(at.watermark), y)
                + _box("plc-may", x(at.watermark), x(at.greatest), y)
                + f'<path class="plc-mark" d="M{_n(x(at.watermark))} {_n(y - 2)}v18"/>'
            )
            said.append(f"{name}: watermark {shown_time(times, at.watermark)}, {at.status}")
        else:
            said.append(f"{name}: no event yet, {at.status}")
        if at.step not in drawn:
            marks[at.step] = (x(at.watermark) if at.watermark is not None else x(low), y + 14)
            drawn.add(at.step)
        parts.append(f"<g data-source={quoteattr(clean(source.name))}>{bar}</g>\n")
        y += _LANE
    for step in steps:
        text, words = _step(step, x, y, marks)
        parts.append(text)
        said.append(words)
        y += _LANE
    ends = [low + (high - low) * i // 4 for i in range(5)]
    grid = "".join(
        f'<path class="plc-grid" d="M{_n(x(at))} {_n(top - 8)}V{_n(y)}"/>'
        f'<text class="plc-id" x="{_n(x(at))}" y="{_n(top - 12)}">{escape(shown_time(times, at))}</text>'
        for at in dict.fromkeys(ends)
    )
    return f"{grid}\n{''.join(parts)}", y, said


def _step(step: StepNow, x: Callable[[int], float], y: float, marks: dict[str, tuple[float, float]]) -> tuple[str, str]:
    boxes, ways = [], []
    for waits in step.waits:
        left, right = x(waits.first[0]), x(waits.last[1])
        boxes.append(_box("plc-open" if waits.comes else "plc-kept", left, max(right, left + 2), y))
        for hold in waits.holds if waits.comes else ():
            if hold.at in marks:
                across, down = marks[hold.at]
                ways.append(f'<path class="plc-hold" d="M{_n(across)} {_n(down)}L{_n((left + right) / 2)} {_n(y)}"/>')
    clocks = "".join(
        f'<path class="plc-clock" d="M{_n(x(clock))} {_n(y - 3)}v20"/>' for clock in step.clocks if clock is not None
    )
    count = sum(waits.count for waits in step.waits if waits.comes)
    text = _name(y, step.step, f"{count:,} wait{'s' * (count == 1)}" if count else "nothing waits")
    inner = f"<g data-step={quoteattr(clean(step.step))}>{''.join(boxes)}{clocks}{''.join(dict.fromkeys(ways))}</g>\n"
    return text + inner, f"{step.step}: {count:,} waiting"


def _name(y: float, name: str, side: str) -> str:
    return (
        f'<text class="plc-name" x="{_n(_LEFT - 10)}" y="{_n(y + 11)}">{escape(shorten(clean(name), 20))}</text>'
        f'<text class="plc-side" x="{_n(_LEFT + _WIDE + 8)}" y="{_n(y + 11)}">{escape(shorten(clean(side), 18))}</text>'
    )


def _box(kind: str, left: float, right: float, y: float) -> str:
    return f'<rect class="{kind}" x="{_n(left)}" y="{_n(y)}" width="{_n(max(right - left, 0.5))}" height="14"/>'


def _range(found: Progress, times: Type) -> tuple[int, int]:
    """The first and the last time that is shown."""
    known: list[int] = []
    for source in found.sources:
        for at in source.ats:
            known += [t for t in (at.watermark, at.greatest) if t is not None and at.times == times]
    for step in found.steps:
        if step.times == times:
            known += [t for waits in step.waits for t in (*waits.first, *waits.last)]
            known += [c for c in step.clocks if c is not None and abs(c) < 2**63]
    if not known:
        return 0, 1
    low, high = min(known), max(known)
    edge = max((high - low) // 20, 1)
    return low - edge, high + edge
