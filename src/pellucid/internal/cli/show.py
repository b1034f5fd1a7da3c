"""``pellucid show``: the pipeline as a picture."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "mermaid", "svg", "json"]),
    help="How to draw  [default: text, or by --out]",
)
@click.option("--out", metavar="FILE", default="-", help="Where to write; - is stdout (the default).")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def show(target: str, style: str | None, out: str, as_json: bool) -> None:
    """Draw a pipeline: in the terminal, as Mermaid, as SVG, or as JSON.

    \b
    Examples:
      pellucid show pipeline.py:totals
      pellucid show pipeline.py:totals --out totals.svg
      pellucid show pipeline.py:totals --format mermaid >> README.md
    """
    from pellucid.internal.load import load_pipeline

    graph = load_pipeline(target).graph
    if style is None:
        by_ending = {".svg": "svg", ".mmd": "mermaid", ".json": "json"}
        style = "json" if as_json else next((s for end, s in by_ending.items() if out.endswith(end)), "text")
    if style == "json":
        text = json.dumps(_document(graph), indent=2, ensure_ascii=False)
    else:
        from pellucid.internal.draw.graph import draw

        text = draw(graph, style)
    if out == "-":
        click.echo(text)
        return
    from pellucid.internal.base.files import write_whole

    write_whole(out, text.rstrip("\n") + "\n")


def _document(graph: object) -> dict[str, object]:
    """The graph as a versioned document."""
    from pellucid.internal.graph.model import Graph

    assert isinstance(graph, Graph)
    nodes: list[dict[str, object]] = []
    for node in graph.nodes:
        entry: dict[str, object] = {"id": node.id, "kind": node.kind, "type": str(node.type)}
        entry["inputs"] = [graph.nodes[i].id for i in node.inputs]
        if node.fn is not None:
            entry["function"] = str(node.fn)
            entry["traced"] = node.fn.traced is not None
            if node.fn.traced is None:
                entry["reason"] = f"{node.fn.name} {node.fn.reason}"
        if node.on_time is not None:
            entry["on_time"] = str(node.on_time)
        if node.key is not None:
            entry["key"] = str(node.key)
        if node.k is not None:
            entry["k"] = node.k
        if node.timing is not None:
            entry["timing"] = {name: v if isinstance(v, int) else str(v) for name, v in node.timing.said()}
        if node.starts:
            entry["start"] = repr(node.start)
        if node.sub is not None:
            entry["over"] = _document(node.sub)["graph"]
        if node.where:
            entry["where"] = node.where
        nodes.append(entry)
    outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
    sources = [graph.nodes[i].id for i in graph.sources]
    inner = {"name": graph.name, "sources": sources, "outputs": outputs, "nodes": nodes}
    return {"pellucid": 1, "verb": "show", "graph": inner}
