"""The graph as a Mermaid flowchart: for Markdown pages, where a picture is made by the page that shows it."""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.internal.draw.labels import OPAQUE, clean, frame_title, label
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.graph.processors import PROCESSORS

# Inside quotes Mermaid knows HTML's names and numbers, written with # instead of &.
_NAMES = {'"': "quot", "#": "35", "&": "amp", "<": "lt", ">": "gt", "`": "96", "\\": "92"}
_ESCAPES = {ord(ch): f"#{name};" for ch, name in _NAMES.items()}


def draw_mermaid(graph: Graph) -> str:
    r"""The graph as a Mermaid flowchart; the label of a pipe is the type of its events.

    >>> from pellucid import pipeline
    >>> print(draw_mermaid(pipeline(lambda x: x.trim(2, id="late"), x=int).graph))
    flowchart LR
      n0(["x"])
      n1[/"trim 2<br/><small>late</small>"/]
      out0(["out"])
      n0 -->|"int"| n1
      n1 -->|"int"| out0
    """
    return "\n".join(["flowchart LR", *(f"  {line}" for line in _lines(graph, ""))])


def _lines(graph: Graph, prefix: str) -> Iterator[str]:
    for i, node in enumerate(graph.nodes):
        if node.sub is not None:
            yield from _window(node, node.sub, f"{prefix}n{i}")
        else:
            yield _shape(f"{prefix}n{i}", node.processor.shape, _caption(node))
    for n, (name, _) in enumerate(graph.outputs):
        yield _shape(f"{prefix}out{n}", PROCESSORS["source"].shape, _escape(name))
    for i, node in enumerate(graph.nodes):
        for source in node.inputs:
            yield _pipe(graph, prefix, source, _entry(graph, i, prefix), node.queued)
    for n, (_, source) in enumerate(graph.outputs):
        yield _pipe(graph, prefix, source, f"{prefix}out{n}", False)


def _window(node: Node, sub: Graph, name: str) -> Iterator[str]:
    """A subgraph; pipes go to its source and come from its output, as Mermaid lays out both sides then."""
    title = f"{frame_title(node, sub.name)} · {node.id}"  # one line: Mermaid leaves no room for two
    yield f'subgraph {name}["{_escape(title)}"]'
    yield "  direction LR"
    yield from (f"  {line}" for line in _lines(sub, f"{name}_"))
    if node.kind == "iterate":  # the way back
        yield f"  {name}_out0 -.-> {_entry(sub, sub.sources[0], f'{name}_')}"
    yield "end"


def _caption(node: Node) -> str:
    opaque = OPAQUE if any(fn.runs is None for fn in node.functions) else ""
    words = _escape(label(node)) + opaque
    return words if node.kind == "source" else f"{words}<br/><small>{_escape(node.id)}</small>"


def _shape(name: str, shape: tuple[str, str], caption: str) -> str:
    opening, closing = shape
    return f'{name}{opening}"{caption}"{closing}'


def _pipe(graph: Graph, prefix: str, source: int, target: str, queued: bool) -> str:
    t = _escape(str(graph.nodes[source].type))
    return f'{_exit(graph, source, prefix)} -->|"{t}{" · queue" if queued else ""}"| {target}'


def _entry(graph: Graph, i: int, prefix: str) -> str:
    """Where a pipe into a step ends: at a window, the source of its sub-pipeline."""
    sub = graph.nodes[i].sub
    return f"{prefix}n{i}" if sub is None else _entry(sub, sub.sources[0], f"{prefix}n{i}_")


def _exit(graph: Graph, i: int, prefix: str) -> str:
    sub = graph.nodes[i].sub  # of a loop, the last output is what leaves it
    return f"{prefix}n{i}" if sub is None else f"{prefix}n{i}_out{len(sub.outputs) - 1}"


def _escape(text: str) -> str:
    return clean(text).translate(_ESCAPES)
