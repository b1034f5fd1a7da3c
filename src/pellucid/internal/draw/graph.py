"""One door to all drawings of a graph."""

from __future__ import annotations

from pellucid.errors import UsageError
from pellucid.internal.graph.model import Graph

#: The styles of drawing, and what each is for.
STYLES = {
    "text": "box-drawing characters, for a terminal",
    "mermaid": "a Mermaid flowchart, for Markdown",
    "svg": "a picture with a pictogram for each kind of processor, for papers and pages",
}


def draw(graph: Graph, style: str = "text") -> str:
    """The graph in one of the `STYLES`.

    >>> from pellucid import pipeline
    >>> small = pipeline(lambda x: x.filter(lambda v: v < 9), x=int).graph
    >>> print(draw(small))
    x ─▶ filter v < 9 ─▶ out
    >>> draw(small, "svg").startswith("<svg")
    True
    >>> draw(small, "png")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: no style of drawing is called 'png': use text, mermaid or svg
    """
    # Each style is loaded when it is first asked for: a run in production draws nothing.
    if style == "text":
        from pellucid.internal.draw.text import draw_text, why_opaque

        return "\n\n".join(part for part in (draw_text(graph), why_opaque(graph)) if part)
    if style == "mermaid":
        from pellucid.internal.draw.mermaid import draw_mermaid

        return draw_mermaid(graph)
    if style == "svg":
        from pellucid.internal.draw.svg import draw_svg

        return draw_svg(graph)
    *most, last = STYLES
    raise UsageError(f"no style of drawing is called {style!r}: use {', '.join(most)} or {last}")
