"""``pellucid explain``: what becomes of each step, here and on Spark; and how long each took in a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pellucid.internal.cli.progress import count_text, rate_text
from pellucid.internal.cli.repeated import columns

if TYPE_CHECKING:
    from pellucid.internal.engine.cores import OnCores


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
    found = _document(graph, bool(key), bool(ordered))
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found, bool(key), graph.timed)))


def _document(graph: Any, key: bool, order: bool) -> dict[str, Any]:
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
