"""The timeline as SVG: a step curve for each queue, its limit dashed, and a lane for each worker."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from xml.sax.saxutils import escape, quoteattr

from pellucid.capacity.picture.timeline import Timeline, number, ticks
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.draw.theme import STYLE, document
from pellucid.internal.draw.theme import number as _n

_LEFT, _RIGHT, _TOP, _WIDE = 96.0, 26.0, 44.0, 760.0
_QUEUE, _LANE, _GAP, _SPOUT = 46.0, 11.0, 14.0, 18.0
_MORE = """
.plc .plc-name{text-anchor:end;font-weight:700}
.plc .plc-small{text-anchor:end;fill:var(--soft);font-size:9.5px}
.plc .plc-fill{fill:var(--state);opacity:.22}
.plc .plc-line{fill:none;stroke:var(--state);stroke-width:1.8}
.plc .plc-busy{fill:var(--plain);opacity:.75}
.plc .plc-lane{fill:var(--plain);opacity:.1}
.plc .plc-limit{stroke:var(--badge);stroke-width:1.2;stroke-dasharray:5 3}
.plc .plc-grid{stroke:var(--soft);stroke-width:.5;opacity:.5}
.plc .plc-emit{stroke:var(--route);stroke-width:1.6;fill:none}
.plc .plc-over{stroke:var(--badge);stroke-width:1.6}
.plc .plc-note{fill:var(--badge);font-weight:700}
"""


def timeline_svg(line: Timeline) -> str:
    """One self-contained picture.

    >>> from pellucid.capacity import Bolt, Spout, Topology, grow, replay
    >>> from pellucid.capacity.picture import timeline
    >>> t = Topology({"S": Spout(gap="0.5")}, {"B": Bolt(time=1, hears="S")})
    >>> picture = timeline_svg(timeline(replay(t, grow(t, "B", 3).steps), {"B": 3}))
    >>> picture[:4], 'data-bolt="B"' in picture
    ('<svg', True)
    """
    end = line.end or Fraction(1)

    def x(at: Fraction) -> float:
        return _LEFT + _WIDE * float(at / end)

    parts, y = [], _TOP
    for spout, emits in line.emits.items():
        marks = "".join(f"M{_n(x(at))} {_n(y)}v10m-3-4l3 4 3-4" for at in emits)
        parts.append(
            f'<g data-spout={quoteattr(clean(spout))}><text class="plc-name" x="{_n(_LEFT - 8)}" y="{_n(y + 9)}">'
            f'{escape(shorten(clean(spout), 12))}</text><path class="plc-emit" d="{marks}"/></g>\n'
        )
        y += _SPOUT
    y += _GAP / 2
    for bolt in line.queues:
        text, y = _bolt(line, bolt, x, y, end)
        parts.append(text)
    grid = "".join(
        f'<path class="plc-grid" d="M{_n(x(at))} {_n(_TOP - 6)}V{_n(y)}"/>'
        f'<text class="plc-id" x="{_n(x(at))}" y="{_n(_TOP - 10)}">{number(at)}</text>'
        for at in ticks(end, 12)
    )
    note = ""
    if line.over is not None:
        over = [f"{b}: {line.longest(b)} of {n}" for b, n in line.limits.items() if line.longest(b) >= n]
        note = (
            f'<path class="plc-over" d="M{_n(x(line.over))} {_n(_TOP - 6)}V{_n(y)}"/>'
            f'<text class="plc-note" style="text-anchor:end" x="{_n(_LEFT + _WIDE)}" y="{_n(y + 12)}">'
            f"{escape(clean(', '.join(over)))}</text>\n"
        )
        y += 14
    head = f'<text class="plc-head" x="{_n(14)}" y="18">{escape(shorten(clean(line.title), 100))}</text>\n'
    words = "; ".join(f"{b}: the queue gets {line.longest(b)} long" for b in line.queues)
    size = (_LEFT + _WIDE + _RIGHT, y + 10)
    body = f"{head}{grid}\n{''.join(parts)}{note}"
    return document("plc-timeline", size, clean(line.title or "timeline"), clean(words), body, STYLE + _MORE)


def _bolt(line: Timeline, bolt: str, x: Callable[[Fraction], float], y: float, end: Fraction) -> tuple[str, float]:
    """A queue and the lanes below it; and where the next begins."""
    most = max(line.longest(bolt), line.limits.get(bolt, 0), 1)

    def height(n: int) -> float:
        return y + _QUEUE * (1 - n / most)

    points = line.queues[bolt]
    moves = "".join(f"H{_n(x(at))}V{_n(height(n))}" for at, n in points) + f"H{_n(x(end))}"
    path = f"M{_n(_LEFT)} {_n(height(points[0][1]))}{moves}"
    area = f"M{_n(_LEFT)} {_n(y + _QUEUE)}{moves}V{_n(y + _QUEUE)}Z"
    out = [
        f'<text class="plc-name" x="{_n(_LEFT - 8)}" y="{_n(y + _QUEUE / 2 + 4)}">{escape(shorten(clean(bolt), 12))}'
        f'</text><text class="plc-small" x="{_n(_LEFT - 4)}" y="{_n(y + 6)}">{most}</text>'
        f'<path class="plc-fill" d="{area}"/><path class="plc-line" d="{path}"/>'
    ]
    if bolt in line.limits:
        at = _n(height(line.limits[bolt]))
        out.append(f'<path class="plc-limit" d="M{_n(_LEFT)} {at}H{_n(_LEFT + _WIDE)}"/>')
    y += _QUEUE + 4
    for worker, spans in line.lanes.items():
        if worker.bolt != bolt:
            continue
        boxes = "".join(
            f'<rect class="plc-busy" x="{_n(x(a))}" y="{_n(y)}" width="{_n(max(0.6, x(b) - x(a) - 0.8))}" '
            f'height="{_n(_LANE - 3)}"/>'
            for a, b in spans
            if b > a
        )
        out.append(
            f'<rect class="plc-lane" x="{_n(_LEFT)}" y="{_n(y)}" width="{_n(_WIDE)}" height="{_n(_LANE - 3)}"/>'
            f'<text class="plc-small" x="{_n(_LEFT - 4)}" y="{_n(y + 7)}">{escape(clean(str(worker)))}</text>{boxes}'
        )
        y += _LANE
    return f"<g data-bolt={quoteattr(clean(bolt))}>{''.join(out)}</g>\n", y + _GAP
