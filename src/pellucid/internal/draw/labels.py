"""The words on a drawing, the same in every style."""

from __future__ import annotations

import unicodedata
from typing import Any

from pellucid.internal.graph.model import Node

OPAQUE = " (?)"  # behind a step whose function could not be traced


def clean(text: str) -> str:
    r"""The text on one line: what cannot be printed, or stand in XML, becomes an escape.

    >>> clean("+ a\nb\x00")
    '+ a\\nb\\x00'
    """
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes.

    >>> cells("λ v"), cells("流"), cells("e\u0301")
    (3, 2, 1)
    """
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def shorten(text: str, limit: int) -> str:
    """The text cut to so many columns, the cut shown.

    >>> shorten("a long function text", 10)
    'a long fu…'
    """
    if cells(text) <= limit:
        return text
    kept = ""
    for ch in text:
        if cells(kept + ch) > limit - 1:
            break
        kept += ch
    return kept.rstrip() + "…"


def wrap(text: str, width: int, lines: int) -> list[str]:
    """The text on at most so many lines, broken at spaces where that is possible.

    >>> wrap("v * 2 if v % 2 == 1 else v", 12, 2)
    ['v * 2 if v %', '2 == 1 else…']
    """
    out: list[str] = []
    rest = text
    while rest and len(out) < lines - 1 and cells(rest) > width:
        cut = rest.rfind(" ", 0, width + 1)
        cut = cut if cut > width // 3 else width
        out.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*out, shorten(rest, width)] if rest else out


def start_text(value: Any, limit: int = 24) -> str:
    """A start value or an initial state, short.

    >>> start_text((0, 0.0))
    '(0, 0.0)'
    """
    try:
        return shorten(clean(repr(value)), limit)
    except Exception:  # the user's own __repr__: a picture must not fail for it
        return f"a {type(value).__name__}"


def label(node: Node, *, inner: str | None = None) -> str:
    """What a step does, in a few words; ``inner`` stands for a window's sub-pipeline.

    >>> from pellucid import pipeline
    >>> graph = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=7), x=int).graph
    >>> [label(node) for node in graph.nodes]
    ['x', 'cumulate t + v from 7']
    """
    if node.kind == "source":
        return clean(node.id)
    words = [node.kind.replace("_", " ") if not node.processor.forgets else "key by"]
    if node.fn is not None:
        words.append(clean(str(node.fn)))
    if node.on_time is not None:
        words.append(f"and on time {clean(str(node.on_time))}")
    if node.timing is not None and node.timing.words():
        words.append(node.timing.words())
    if node.k is not None:
        words.append(str(node.k) if not node.processor.forgets else f"and forget after {node.k}")
    if node.sub is not None:
        words.append(inner if inner is not None else clean(node.sub.name))
    if node.starts and not _is_nothing(node.start):
        words.append(f"from {start_text(node.start)}")
    return " ".join(words)


def frame_title(node: Node, name: str) -> str:
    """What stands over a frame: which windows, and the name of what is inside.

    >>> from pellucid import pipeline
    >>> slid = lambda x: x.at(lambda v: v).sliding(9, 3, lambda w: w).window(2, lambda w: w)
    >>> [frame_title(node, "total") for node in pipeline(slid, x=int).graph.nodes if node.sub is not None]
    ['sliding 9 every 3 of total', 'window 2 of total']
    """
    return f"{node.kind} {node.k if node.timing is None else node.timing.words(late=False)} of {name}"


def _is_nothing(start: Any) -> bool:
    """Whether a start value is what one expects anyway: 0, "", False, a tuple of those."""
    if type(start) is tuple:
        return all(map(_is_nothing, start))
    return start is None or (type(start) in (bool, int, float, str) and not start)


def describe(node: Node) -> str:
    """Everything about a step, for a tooltip; one line for each thing.

    >>> from pellucid import pipeline
    >>> graph = pipeline(lambda x: x.trim(2, id="late"), x=int).graph
    >>> print(describe(graph["late"]).rsplit("written", 1)[0])
    late: trim, all but the first k events
    k = 2
    emits int
    """
    lines = [f"{node.id}: {node.kind.replace('_', ' ')}, {node.processor.words}"]
    for fn in node.functions:
        lines.append(f"function {fn}" if fn is node.fn else f"on time {fn}")
        if fn.runs is None:
            lines.append(f"opaque: it {fn.reason}")
    if node.k is not None:
        lines.append(
            f"k = {node.k}" if not node.processor.forgets else f"gives up a key after {node.k} events of others"
        )
    if node.timing is not None and node.timing.words():
        lines.append(node.timing.words())
    if node.starts:
        lines.append(f"starts from {start_text(node.start, 80)}")
    if node.sub is not None:
        lines.append(f"over {node.sub.name}")
    lines.append(f"emits {node.type}" + (f", kept apart by {node.key}" if node.key is not None else ""))
    if node.where:
        lines.append(f"written at {node.where}")
    return "\n".join(map(clean, lines))
