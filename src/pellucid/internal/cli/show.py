"""``pellucid show``: the pipeline as a picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pellucid.internal.cli.terminal import columns, count_text, rate_text

if TYPE_CHECKING:
    from pellucid.internal.engine.in_memory import OnCores


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


# ``pellucid explain``: what becomes of each step, here and on Spark; and how long each took in a run.


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--key", "keys", multiple=True, metavar="COLUMN,…", help="As for run: it runs once for each key.")
@click.option("--order", multiple=True, metavar="COLUMN,…", help="As for run: the columns that put rows in order.")
@click.option("--json", "as_json", is_flag=True, help="A versioned document on stdout.")
def explain(target: str, keys: tuple[str, ...], order: tuple[str, ...], as_json: bool) -> None:
    """Say what becomes of each step: compiled or called, and why; what it remembers; what Spark does with it.

    Nothing is run. How long each step takes is told by pellucid --verbose run.

    \b
    Examples:
      pellucid explain pipeline.py:totals
      pellucid explain pipeline.py:totals --key user --order seq
      pellucid --verbose run pipeline.py:totals --in events.csv --out totals.csv
    """
    from pellucid.internal.load import load_pipeline

    key, ordered = columns(keys, "--key"), columns(order, "--order")
    graph = load_pipeline(target).graph
    found = _document_explain(graph, bool(key), bool(ordered))
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found, bool(key), graph.timed)))


def _document_explain(graph: Any, key: bool, order: bool) -> dict[str, Any]:
    from pellucid.internal.engine.explain import step_facts, why_plain

    on_spark, spark = _on_spark(graph, key, order)
    steps = [
        {
            "step": facts.step,
            "what": facts.what,
            "where": facts.where,
            "compiled": facts.called is None,
            "why": facts.called,
            "remembers": facts.remembers or None,
            "spark": on_spark.get(facts.step),
        }
        for facts in step_facts(graph, key=key)
    ]
    why = why_plain(graph)
    return {
        "pellucid": 1, "verb": "explain", "pipeline": graph.name, "compiled": why is None, "why": why, "steps": steps,
        "event_time": graph.timed, "spark": spark,
    }  # fmt: skip


def _on_spark(graph: Any, key: bool, order: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """What becomes of each step on Spark, and of all of them."""
    from pellucid.spark.plan import choose

    plan = choose(graph, key=key, order=order)
    return dict(plan.steps), {"way": plan.way, "reasons": list(plan.reasons), "problem": plan.problem}


def _lines(found: dict[str, Any], key: bool, timed: bool) -> list[str]:
    from pellucid.spark.plan import TIMED_WAYS, WAYS

    called = [step for step in found["steps"] if not step["compiled"]]
    count = count_text(len(found["steps"]), "step")
    if found["compiled"]:
        out = [f"{found['pipeline']}: {count}, compiled into one loop"]
    elif called:
        names = ", ".join(step["step"] for step in called)
        out = [f"{found['pipeline']}: {count}, run by CPython event by event, because of {names}"]
    else:
        out = [f"{found['pipeline']}: {count}, run by CPython event by event: {found['why']}"]
    for step in found["steps"]:
        out.append(f"  {step['step']}: {step['what']}" + (f"  ({step['where']})" if step["where"] else ""))
        plain = (
            "called for each event: " + step["why"] if not step["compiled"] else "a part of the loop in plain Python"
        )
        out.append(f"    here: {'compiled' if step['compiled'] and found['compiled'] else plain}")
        out.append(f"    remembers: {step['remembers'] or 'nothing'}")
        out.append(f"    on Spark: {step['spark'] or 'see below'}")
    if found["event_time"]:
        out.append("cores here: one, as the clock is of all keys together; so with epochs it is one worker")
    elif key and found["compiled"]:
        out.append("cores here: all that pay, as keys can be shared among them")
    elif key:
        out.append("cores here: one, as a step is called in plain Python")
    else:
        out.append("cores here: one for the steps (with --key all that pay), the others for reading and writing files")
    ways = TIMED_WAYS if timed else WAYS
    out.append(f"on Spark: {ways[found['spark']['way']]}")
    out += [f"  because {reason}" for reason in found["spark"]["reasons"]]
    if found["spark"]["problem"] is not None:
        out.append(f"  but: {found['spark']['problem']}")
    return out


def step_lines(run: OnCores, seconds: float) -> list[str]:
    """For ``--verbose``: how long each step of a run took, and on how many cores."""
    times = run.times
    form = "compiled" if run.compiled else "in plain Python" + (" (few events)" if run.why_plain is None else "")
    where = (
        f"on {run.cores} cores" if run.cores > 1 else f"on one core ({run.why_one})" if run.why_one else "on one core"
    )
    out = [f"steps: {times.seconds:.2f} s of processors in them, {seconds:.2f} s in all; {form}, {where}"]
    table = [("step", "events in", "events out", "time", "speed")]
    for step in times.steps():
        name = f"{step.step} ({step.kind})" if step.step else "columns written"
        speed = "-" if step.rate is None else rate_text(step.rate)
        table.append((name, f"{step.came:,}", f"{step.put:,}", f"{100 * step.share:.0f} %", speed))
    widths = [max(len(row[i]) for row in table) for i in range(5)]
    for row in table:
        name, *rest = (
            cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        out.append("  " + "  ".join([name, *rest]))
    out.append("  measured behind each step of the loop in one push of 32, without what the clock itself takes")
    return out


# ``pellucid export``: a pipeline in another tool's language.


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option(
    "--format", "style", type=click.Choice(["smv"]), default="smv", show_default=True, help="NuSMV and nuXmv."
)
@click.option(
    "--ints",
    default="mod:4",
    show_default=True,
    metavar="mod:N|LO..HI",
    help="Which integers: modulo N, or from LO to HI.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="N|ID=N", help="The bound of every queue, or of one.  [default: 3]"
)
@click.option("--property", "formulas", multiple=True, metavar="FORMULA", help="A property to ask; repeat it for more.")
@click.option("--out", metavar="FILE", default="-", help="Where to write; - is stdout (the default).")
def export(target: str, style: str, ints: str, queues: tuple[str, ...], formulas: tuple[str, ...], out: str) -> None:
    """Write a pipeline as a model for NuSMV or nuXmv, with properties to ask of it.

    \b
    Examples:
      pellucid export pipeline.py:totals --property "AG EF out" --out totals.smv
      pellucid export pipeline.py:totals --ints 0..7 --queue 2 --property "!EF full"
    """
    from pellucid.internal.cli.check import _bounds, _ints
    from pellucid.internal.export.smv import export as smv
    from pellucid.internal.load import load_pipeline

    pipeline = load_pipeline(target)
    text = smv(pipeline.graph, domain=_ints(ints), properties=formulas, **_bounds(queues, pipeline))
    if out == "-":
        click.echo(text, nl=False)
        return
    from pellucid.internal.base.files import write_whole

    write_whole(out, text)
