"""The answer as a picture: event time from left to right, a lane for each source and each step.

A source's lane is full up to its watermark, and light from there to the greatest time seen: there events may still
come.  A step's lane has its clock, and what waits there; from what is held back a line leads to the watermark that
holds it.
"""

from __future__ import annotations

from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.draw.lanes import Arrow, Item, Lane, Mark, Point, Span, Strip, Upright, page
from pellucid.internal.engine.timed.why.answer import Progress, head
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.timing import shown_time

_LEFT, _WIDE = 150.0, 720.0


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
    sections = [_section(found, times) for times in kinds]  # events of two types of times never meet: each has an axis
    words = "; ".join(word for _, _, said in sections for word in said) or title
    blocks = [(block, height) for block, height, _ in sections]
    return page(blocks, _LEFT + _WIDE + 100.0, named=found.pipeline, words=words, title=title)


def _section(found: Progress, times: Type) -> tuple[str, float, list[str]]:
    """The lanes of one axis: what is drawn, its height, and the same in words."""
    low, high = _range(found, times)
    lanes: list[Lane] = []
    items: list[Item] = [
        Upright(at, "grid", shown_time(times, at), "id")
        for at in dict.fromkeys(low + (high - low) * i // 4 for i in range(5))
    ]
    words: list[str] = []
    clocks: dict[str, Point] = {}  # of each step that reads times: where its watermark stands
    for source in found.sources:
        for at in source.ats:
            if at.times != times:
                continue
            name = source.name if len(source.ats) == 1 else f"{source.name}: {at.step}"
            key, side = f"source {name}", at.status + (", silent" if source.silent else "")
            lanes.append(_lane(key, name, side, {"source": clean(source.name)}))
            words.append(f"{name}: no event yet, {at.status}")
            if at.watermark is not None and at.greatest is not None:
                items += [
                    Span(key, low, at.watermark, "done"),
                    Span(key, at.watermark, at.greatest, "may"),
                    Mark(key, at.watermark, "tick", "route"),
                ]
                words[-1] = f"{name}: watermark {shown_time(times, at.watermark)}, {at.status}"
            clocks.setdefault(at.step, (key, low if at.watermark is None else at.watermark))
    for step in (step for step in found.steps if step.times == times):
        key, count = f"step {step.step}", sum(waits.count for waits in step.waits if waits.comes)
        side = f"{count:,} wait{'s' * (count == 1)}" if count else "nothing waits"
        lanes.append(_lane(key, step.step, side, {"step": clean(step.step)}))
        words.append(f"{step.step}: {count:,} waiting")
        items += [Mark(key, clock, "tick", "time") for clock in step.clocks if clock is not None]
        for waits in step.waits:
            first, last = waits.first[0], waits.last[1]
            items.append(Span(key, first, last, "open" if waits.comes else "kept"))
            items += [
                Arrow(clocks[hold.at], (key, (first + last) / 2), "hold", tip=False)
                for hold in (waits.holds if waits.comes else ())
                if hold.at in clocks
            ]

    def x(time: float) -> float:
        return _LEFT + _WIDE * min(max((time - low) / max(high - low, 1), 0.0), 1.0)

    strip = Strip(lanes, x, _LEFT, _LEFT + _WIDE, 26.0)
    return strip.draw(items), strip.bottom + 10.0, words


def _lane(key: str, name: str, side: str, data: dict[str, str]) -> Lane:
    return Lane(key, shorten(clean(name), 20), 26.0, kind="", side=side, data=data)


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
