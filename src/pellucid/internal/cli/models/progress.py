"""``pellucid progress``: does a graph with times keep its promises, and why is a time not complete?  Of a pipeline by
event time: what waits for which clock, and, in the state folder of a run, why it is not done."""

from __future__ import annotations

import ast
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import PellucidError, UsageError, nearest
from pellucid.internal.cli.terminal import bounded_is_enough, exit_code

if TYPE_CHECKING:
    from types import ModuleType

    from pellucid.internal.pipeline import Pipeline
    from pellucid.progress import Graph


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--state", metavar="FOLDER", help="Of a pipeline: the state folder of its run, which may be running.")
@click.option("--about", "questions", multiple=True, metavar="QUESTION", help="Only this question; repeat it for more.")
@click.option(
    "--messages",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Runs begin with every content of up to so many messages on each input edge.",
)
@click.option("--arrivals", type=click.IntRange(min=0), default=0, show_default=True, help="How many may come later.")
@click.option("--reorder", is_flag=True, help="A message may overtake others that are not at or before its time.")
@click.option(
    "--clock",
    type=click.Choice(["auto", "exact", "summaries"]),
    default="auto",
    show_default=True,
    help="What the clock is made of: what nodes do, or the summaries that they declare.",
)
@click.option("--ports", is_flag=True, help="Tell apart on which edge a message came.")
@click.option("--why", metavar="LOCATION@TIME", help="Say what holds this time back there, and ask nothing else.")
@click.option(
    "--pending",
    "pending",
    multiple=True,
    metavar="LOCATION@TIME",
    help="With --why: a message on an edge, or a request of a node; without any, the graph at its start.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS", help="For each graph."
)
@click.option(
    "--max-states", type=click.IntRange(min=1), default=200_000, metavar="N", help="For each graph; more give unknown."
)
@bounded_is_enough
@click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr.")
@click.option("--junit", metavar="FILE", help="Write a report for a build server.")
@click.option("--svg", metavar="PLACE", help="Draw each counterexample into this folder; with --why, this file.")
def progress(
    target: str,
    state: str | None,
    questions: tuple[str, ...],
    messages: int,
    arrivals: int,
    reorder: bool,
    clock: str,
    ports: bool,
    why: str | None,
    pending: tuple[str, ...],
    timeout: float,
    max_states: int,
    enough: bool,
    as_json: bool,
    junit: str | None,
    svg: str | None,
) -> None:
    """Ask of a graph with times whether it keeps its promises; a no comes with a shortest run.  Of a pipeline by event
    time: which clock each step waits for; with --state, why what is not done in its run is not.

    FILE alone: of every pellucid.progress.Graph in it; one that is refused is told, and the others are asked. The
    questions: condition 1, condition 2, acyclic, theorem 2, completeness and liveness; by name also transitive and
    proposition 7, 8 and 9.

    \b
    Examples:
      pellucid progress graph.py
      pellucid progress graph.py:daily --messages 2 --about liveness
      pellucid progress graph.py:daily --why count@2 --pending in@1 --svg frontier.svg
      pellucid progress pipeline.py:hourly --state state --svg waiting.svg

    Exit codes: 0 all proved, 1 one refuted, 2 bad usage or bad input, 3 one unknown or bounded and none refuted, 4
    internal error.
    """
    module, file, name = _loaded(target)
    found = _pipeline(module, file, name, state is not None)
    if found is not None:
        if why is not None or pending:
            raise UsageError(
                f"{'--why' if why is not None else '--pending'} is for graphs with times, and {found.name} is a "
                "pipeline: give --state, the folder of its run, and all that waits there is told"
            )
        _of_pipeline(found, state, questions, as_json, junit, svg)
        return
    graphs = _graphs(module, file, name)
    if why is not None:
        _why(target, graphs, why, pending, as_json, svg)
        return
    if pending:
        raise UsageError("--pending belongs to --why: give that as well, as in --why count@2")
    from pellucid.internal.cli.check import _draw, _Printer, _write
    from pellucid.internal.model.verdict import Outcome, outcomes_document
    from pellucid.internal.model.verdict import junit as junit_text
    from pellucid.progress.question import USUAL, asked_about
    from pellucid.progress.question import progress as ask

    show = _Printer(as_json)
    outcomes = []
    asked_about(questions or USUAL)  # an unknown question is no graph's fault
    for name, (where, graph) in graphs.items():
        try:
            with contextlib.redirect_stdout(sys.stderr):  # a user's function may print
                verdict = ask(
                    graph, about=questions or USUAL, messages=messages, arrivals=arrivals, reorder=reorder,
                    clock=clock, ports=ports, timeout=timeout, max_states=max_states,  # type: ignore[arg-type]
                )  # fmt: skip
        except PellucidError as error:  # this graph is refused; the others are asked nevertheless
            outcomes.append(Outcome(name, where, error=str(error)))
            show.line(outcomes[-1])
            continue
        for note in verdict.notes[: len(verdict.notes) - len(verdict.parts)]:
            show.log(f"{name}: {note}")
        for question, part in verdict.parts.items():
            outcomes.append(Outcome(f"{name}: {question}", where, part, bounded_is_enough=enough))
            show.line(outcomes[-1])
    show.counterexamples(outcomes)
    show.summary(outcomes)
    if as_json:
        document = {**outcomes_document((target,), outcomes), "verb": "progress"}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    if junit is not None:
        _write(junit, junit_text(outcomes, suite=target))
    if svg is not None:
        _draw(svg, outcomes)
    raise click.exceptions.Exit(exit_code(outcomes))


def _loaded(target: str) -> tuple[ModuleType, str, str]:
    from pellucid.internal.load import _load, _parts

    file, name = _parts(target)
    return _load(file), file, name


def _pipeline(module: ModuleType, file: str, name: str, run: bool) -> Pipeline | None:
    """The pipeline that is meant; None if graphs with times are."""
    from pellucid.internal.graph.build import Built
    from pellucid.internal.load import pipeline_in
    from pellucid.progress import Graph

    there = {key: value for key, value in vars(module).items() if isinstance(value, (Built, Graph))}
    if not run and (isinstance(there.get(name), Graph) or not any(isinstance(one, Built) for one in there.values())):
        return None
    if not run and (not name or name not in there) and any(isinstance(one, Graph) for one in there.values()):
        return None
    return pipeline_in(file, name, module)


def _of_pipeline(
    p: Pipeline, state: str | None, questions: tuple[str, ...], as_json: bool, junit: str | None, svg: str | None
) -> None:
    """What waits for which clock, and whether its times stay in order; or why a run is not done."""
    from pellucid.internal.base.files import write_whole

    if state is not None and (questions or junit is not None):
        raise UsageError(f"--state tells how far a run is: leave {'--about' if questions else '--junit'} out")
    with contextlib.redirect_stdout(sys.stderr):  # a user's function may print
        found = p.progress(state)
    if svg is not None:
        write_whole(svg, found.picture())
    document: dict[str, Any] = {"pellucid": 1, "verb": "progress", "progress": found.document()}
    if not as_json:
        click.echo(str(found))
    code = 0
    if state is None and p.graph.timed:
        from pellucid.check.promises import progress as ask
        from pellucid.internal.cli.check import _Printer, _write
        from pellucid.internal.model.verdict import Outcome, outcomes_document
        from pellucid.internal.model.verdict import junit as junit_text

        verdict = ask(p, **({"about": questions} if questions else {}))
        outcomes = [Outcome(f"{p.name}: {question}", "", part) for question, part in verdict.parts.items()]
        show = _Printer(as_json)
        for outcome in outcomes:
            show.line(outcome)
        show.counterexamples(outcomes)
        document |= {key: value for key, value in outcomes_document((p.name,), outcomes).items() if key == "results"}
        if junit is not None:
            _write(junit, junit_text(outcomes, suite=p.name))
        code = exit_code(outcomes)
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    raise click.exceptions.Exit(code)


def _graphs(module: ModuleType, file: str, name: str) -> dict[str, tuple[str, Graph]]:
    """The graphs that are meant, by name, each with the place where it stands."""
    from pellucid.progress import Graph

    found = {key: value for key, value in vars(module).items() if isinstance(value, Graph)}
    if not name:
        if not found:
            raise UsageError(f"{file}: has no graph with times: make one, as in daily = pellucid.progress.Graph(…)")
        return {key: (file, graph) for key, graph in found.items()}
    if name in found:
        return {name: (file, found[name])}
    if hasattr(module, name):
        raise UsageError(f"{file}: {name!r} is no pellucid.progress.Graph but a {type(getattr(module, name)).__name__}")
    have = f"its graphs are {', '.join(found)}" if found else "it has none"
    raise UsageError(f"{file}: no graph {name!r}: {have}{nearest(name, list(found))}")


def _why(
    target: str,
    graphs: dict[str, tuple[str, Graph]],
    why: str,
    pending: tuple[str, ...],
    as_json: bool,
    svg: str | None,
) -> None:
    from pellucid.progress import why_not

    if len(graphs) > 1:
        raise UsageError(f"{target}: has {len(graphs)} graphs ({', '.join(graphs)}): say which, as in {target}:NAME")
    ((_, graph),) = graphs.values()
    location, time = _place(graph, "--why", why)
    with contextlib.redirect_stdout(sys.stderr):
        given = [_place(graph, "--pending", place) for place in pending] or None
        answer = why_not(graph, location, time, pending=given)
    if svg is not None:
        from pellucid.internal.base.files import write_whole

        write_whole(svg, answer.picture())
    if as_json:
        document = {"pellucid": 1, "verb": "progress", "why": answer.document()}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(str(answer))


def _place(graph: Graph, option: str, text: str) -> tuple[str, Any]:
    location, at, time = text.rpartition("@")
    if not at or not location:
        raise UsageError(f"{option} {text}: expected LOCATION@TIME, as in count@2")
    if graph.finite:
        shown = [t for t in graph.times if str(t) == time]  # as the answer shows it: a day is 2013-01-31
        if len(shown) == 1:
            return location, shown[0]
    try:
        return location, ast.literal_eval(time)
    except (ValueError, SyntaxError):
        return location, time  # a text is a time, too
