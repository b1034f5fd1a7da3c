"""``pellucid capacity``: how long can a queue get, how many workers are enough, and what to change first?"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError, nearest
from pellucid.internal.cli.terminal import StatusLine, bounded_is_enough, code_of, renamed, tell

if TYPE_CHECKING:
    from pellucid.capacity import Topology
    from pellucid.internal.model import Budget

_JSON = (".json", ".jsonl", ".ndjson", ".log", ".json.gz", ".jsonl.gz", ".log.gz")
_PLAN_ONLY = ("gaps", "backlog", "simulate", "semantics", "observe", "routing")


@click.command()
@click.argument("target", metavar="[FILE[:NAME]]", required=False)
@click.option(
    "--queue-limit",
    "limits",
    multiple=True,
    metavar="BOLT=N",
    help="Shall the queue of a bolt stay below so many tuples?",
)
@click.option(
    "--parallelism",
    "workers",
    multiple=True,
    metavar="BOLT=N",
    help="Workers of a bolt, instead of those in the file; ANY for any number. Measured: how many it had.",
)
@click.option("--gap", "gaps", multiple=True, metavar="SPOUT=TIME", help="Another least time between two tuples.")
@click.option("--semantics", type=click.Choice(["urgent", "literal"]), help="Instead of what the file says.")
@click.option("--observe", type=click.Choice(["any", "settled"]), help="Instead of what the file says.")
@click.option("--routing", type=click.Choice(["one", "all"]), help="Instead of what the file says.")
@click.option("--backlog", multiple=True, metavar="BOLT=N", help="So many tuples wait: how long until they are done?")
@click.option(
    "--simulate", type=click.IntRange(1, 10_000_000), metavar="N", help="Percentiles for N tuples of each spout, too."
)
@click.option(
    "--target", "busy", type=float, default=0.7, show_default=True, help="Measured: how busy a worker may be, up to 1."
)
@click.option(
    "--catch-up", type=float, default=1800.0, show_default=True, metavar="SECONDS", help="Measured: to work off a lag."
)
@click.option(
    "--restart", type=float, default=300.0, show_default=True, metavar="SECONDS", help="Measured: a change of workers."
)
@click.option("--rate", "rates", multiple=True, metavar="STEP=N", help="Measured: if N events came in a second.")
@click.option("--paper", is_flag=True, help="The paper's table, both semantics, both readings; takes no FILE.")
@click.option("--out", metavar="FILE", help="The timeline as a picture (SVG).")
@bounded_is_enough
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, metavar="SECONDS", help="In all.")
@click.option("--max-states", type=click.IntRange(min=1), default=2_000_000, metavar="N", help="More give unknown.")
@click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr.")
@renamed("--limit", "--queue-limit")
@renamed("--workers", "--parallelism")
def capacity(target: str | None, paper: bool, as_json: bool, **options: Any) -> None:
    """How long can a queue get, how many workers are enough, and what to change first?

    FILE is a topology in TOML, a Python file with a pellucid.capacity.Topology, a system in Cubicle's language (.cub),
    or what was measured: the StreamingQueryProgress of Spark queries as JSON (one, a list, or a line each), a job of
    Flink with its metrics, or what pellucid run --measure wrote.

    \b
    Examples:
      pellucid capacity shop.toml
      pellucid capacity shop.toml --queue-limit enrich=10 --parallelism enrich=ANY
      pellucid capacity flow.py:nightly --queue-limit load=100 --backlog load=5000 --out run.svg
      pellucid capacity progress.jsonl --queue-limit late=10000 --target 0.8
      pellucid capacity german.cub
      pellucid capacity --paper

    Exit codes: 0 proved (no queue grows without end, and each stays below its limit), 1 refuted, 2 bad usage or bad
    input, 3 unknown, or bounded by what was measured: a recording is no proof; 4 internal error.
    """
    from pellucid.internal.model import Budget, CutShort

    if options["timeout"] != options["timeout"]:
        raise UsageError("--timeout nan: expected a number of seconds above 0")
    budget = Budget(options["timeout"], options["max_states"])
    try:
        with budget.kept():
            _answer(target, paper, as_json, options, budget)
    except CutShort as cut:  # before anything was known: while a large file was read
        click.echo(f"unknown: {target or '--paper'}: {cut}; --timeout gives more", err=as_json)
        if as_json:
            _print({"file": target, "status": "unknown", "why": str(cut)})
        _end("unknown")


def _answer(target: str | None, paper: bool, as_json: bool, options: Mapping[str, Any], budget: Budget) -> None:
    """By what is asked about."""
    if paper:
        if target is not None:
            raise UsageError(f"--paper takes no FILE: leave {target} out")
        _paper(as_json, options)
        return
    if options["out"] is not None and not options["out"].endswith(".svg"):
        raise UsageError(f"--out {options['out']}: the picture is SVG: expected a name that ends in .svg")
    if target is None:
        raise UsageError("FILE is missing: a topology (.toml, .py), a .cub file or measurements (.json); or --paper")
    if options["rates"] and not target.endswith(_JSON):
        raise UsageError("--rate goes with measurements: of a topology --gap says how fast a spout is")
    if target.endswith(".cub"):
        _refuse(
            options, ("limits", "workers", "gaps", "backlog", "simulate", "semantics", "observe", "routing"), ".cub"
        )
        _measured_only("a .cub file")
        _cubicle(target, as_json, options)
    elif target.endswith(_JSON):
        _refuse(options, _PLAN_ONLY, "measurements")
        _measured(target, as_json, options)
    else:
        _measured_only("a topology")
        _topology(target, as_json, options, budget)


# ---------------------------------------------------------------- what is given


def _refuse(options: Mapping[str, Any], names: tuple[str, ...], what: str) -> None:
    """Options that say nothing about this kind of question."""
    flags = {"limits": "--queue-limit", "workers": "--parallelism", "gaps": "--gap", "rates": "--rate"}
    for name in names:
        if options[name]:
            raise UsageError(f"{flags.get(name, '--' + name)} goes with a plan of a topology, not with {what}")


def _measured_only(what: str) -> None:
    """Options with defaults that say something about measurements, and about nothing else."""
    context = click.get_current_context()
    for name, flag in (("busy", "--target"), ("catch_up", "--catch-up"), ("restart", "--restart")):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"{flag} goes with measurements, not with {what}")


def _pairs(given: tuple[str, ...], option: str, form: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """``NAME=VALUE`` as often as it is said; a name that comes twice is refused."""
    out: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text}: expected {form}")
        if name in out:
            raise UsageError(f"{option} {text}: {name} is given twice")
        try:
            out[name] = read(value)
        except ValueError:
            raise UsageError(f"{option} {text}: {value!r} is no number: expected {form}") from None
    return out


def _count(value: str) -> int:
    return int(value)


def _workers(value: str) -> Any:
    from pellucid.capacity import ANY

    return ANY if value.upper() == "ANY" else int(value)


def _load(target: str) -> Topology:
    """The topology that is meant."""
    from pellucid.capacity import Topology

    if target.endswith(".toml"):
        return Topology.read(target)
    name = Path(target).name.partition(":")[0]
    if ".py" not in name and (Path(name).suffix or Path(target).is_file()):
        ending = f"the ending {Path(name).suffix} is not known here" if Path(name).suffix else "it has no ending"
        if name.endswith((".toml", ".cub", *_JSON)):
            raise UsageError(f"{target}: there is one in the file: leave the part after the colon out")
        raise UsageError(
            f"{target}: {ending}: expected .toml or .py for a topology, .cub, or .json, .jsonl, .log for measurements"
        )
    from pellucid.internal.load import _load as load
    from pellucid.internal.load import _parts

    file, name = _parts(target)
    module = load(file)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Topology)}
    found = {key: t.given(name=key) if t.name == "topology" else t for key, t in found.items()}
    if name and name in found:
        return found[name]
    if name and hasattr(module, name):
        kind = type(getattr(module, name)).__name__
        raise UsageError(f"{file}: {name!r} is no pellucid.capacity.Topology but a {kind}")
    if name:
        have = f"its topologies are {', '.join(found)}" if found else "it has none"
        raise UsageError(f"{file}: no topology {name!r}: {have}{nearest(name, list(found))}")
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise UsageError(f"{file}: has no topology: make one, as in shop = pellucid.capacity.Topology(…)")
    raise UsageError(f"{file}: has {len(found)} topologies ({', '.join(found)}): say which, as in {file}:NAME")


def _given(topology: Topology, options: Mapping[str, Any]) -> Topology:
    """With what the command line says instead."""
    changes = {name: options[name] for name in ("semantics", "observe", "routing") if options[name]}
    workers = _pairs(options["workers"], "--parallelism", "BOLT=N or BOLT=ANY, as in --parallelism B1=3", _workers)
    gaps = _pairs(options["gaps"], "--gap", "SPOUT=TIME, as in --gap S1=0.8", str)
    return topology.given(workers=workers or None, gap=gaps or None, **changes)


class _Status(StatusLine):
    """What is being worked on, where a person is looking."""

    words = ""

    def __call__(self, words: str) -> None:
        self.words = words
        self._again("")

    def states(self, counts: Mapping[str, Any]) -> None:
        """A search tells how far it is."""
        self._again(", ".join(f"{value:,} {name}" for name, value in counts.items() if isinstance(value, int)))

    def _again(self, counts: str) -> None:
        if self.seconds > 1 and self.due():
            self.draw(f"{self.seconds:.0f} s", *(part for part in (self.words, counts) if part))


# ---------------------------------------------------------------- answers


def _end(status: str, *, enough: bool = False) -> None:
    raise click.exceptions.Exit(code_of([status], bounded_is_enough=enough))


def _print(document: Mapping[str, Any]) -> None:
    whole = {"pellucid": 1, "verb": "capacity", **document}
    click.echo(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False))


def _paper(as_json: bool, options: Mapping[str, Any]) -> None:
    """The table of the paper; its verdicts are answers, not failures."""
    from pellucid.capacity import paper_table
    from pellucid.capacity.zones.question import READINGS

    _refuse(options, (*_PLAN_ONLY, "limits", "workers", "rates", "out"), "--paper")
    status = _Status()
    status("the paper's table: limits 2 and 3, both semantics, both readings")
    try:
        found = paper_table()
    finally:
        status.clear()
    if as_json:
        rows = [
            {
                "semantics": row.semantics, "bolt": row.bolt, "reading": READINGS[row.bolt], "limit": row.limit,
                "below_1": row.below, "above_1": row.above, "any_workers": row.any_number,
                "threshold": {"status": row.threshold.status, "gap": _text(row.threshold.gap)},
                "zones": row.zones, "checked": row.wrong is None, "seconds": round(row.seconds, 6),
            }
            for row in found.rows
        ]  # fmt: skip
        _print({"paper": rows})
    else:
        click.echo(str(found))
    unknown = any(row.threshold.status == "unknown" or row.any_workers.status == "unknown" for row in found.rows)
    _end("unknown" if unknown else "proved")


def _text(number: Any) -> str | None:
    return None if number is None else str(number)


def _any_number(
    target: str, topology: Topology, limits: Mapping[str, int], as_json: bool, options: Mapping[str, Any]
) -> None:
    """Some bolts have any number of workers: a verdict for all numbers at once, and no plan."""
    from pellucid.capacity import ANY, replay
    from pellucid.capacity.picture import timeline, timeline_svg, timeline_text
    from pellucid.capacity.zones.question import capacity as ask
    from pellucid.internal.cli.check import _Printer, _write
    from pellucid.internal.model.verdict import Outcome, verdict_document

    if not limits:
        free = next(name for name, bolt in topology.bolts.items() if bolt.workers is ANY)
        raise UsageError(f"any number of workers is a question about a limit: give one, as in --queue-limit {free}=2")
    _refuse(options, ("backlog", "simulate"), "ANY workers")
    status = _Status()
    try:
        verdict = ask(
            topology, limits, timeout=options["timeout"], max_states=options["max_states"], progress=status.states
        )
    finally:
        status.clear()
    trace = next((part.trace for part in verdict.parts.values() if part.refuted and part.trace is not None), None)
    line = None
    if trace is not None:
        run = replay(trace.topology, trace.steps, bolt=trace.bolt)
        line = timeline(run, {trace.bolt: trace.limit}, title=f"{topology.name}: {trace.why}")
    if options["out"] is not None:
        if line is None:
            raise UsageError(f"--out {options['out']}: there is no run to draw: the answer is {verdict.status}")
        _write(options["out"], timeline_svg(line))
    if as_json:
        parts = {bolt: verdict_document(part) for bolt, part in verdict.parts.items()}
        _print({"file": target, "status": verdict.status, "bolts": parts})
    else:
        show = _Printer(as_json)
        for part in verdict.parts.values():
            show.line(Outcome(part.question, target, part))
        if line is not None:
            click.echo(f"\n{line.title}\n{timeline_text(line)}")
    _end(verdict.status)


def _topology(target: str, as_json: bool, options: Mapping[str, Any], budget: Budget) -> None:
    from pellucid.capacity import ANY, flows
    from pellucid.capacity.planning import changes, plan, plan_text
    from pellucid.internal.model import CutShort

    with contextlib.redirect_stdout(sys.stderr):  # a user's file may print
        topology = _given(_load(target), options)
    limits = _pairs(options["limits"], "--queue-limit", "BOLT=N, as in --queue-limit B1=2", _count)
    backlog = _pairs(options["backlog"], "--backlog", "BOLT=N, as in --backlog B1=100", _count)
    if any(bolt.workers is ANY for bolt in topology.bolts.values()):
        _any_number(target, topology, limits, as_json, options)
        return
    warning = ""
    with contextlib.suppress(CutShort):  # the plan says so
        warning = flows(topology).warning if topology.semantics == "urgent" else ""
    if warning:  # before anything is searched
        tell(warning)
    status = _Status()
    budget.progress = status.states
    try:
        found = plan(topology, limits, backlog=backlog, budget=budget, tell=status)
        advice = changes(found, budget=budget, tell=status)
    finally:
        status.clear()
    _picture(found, options["out"])
    simulated = _simulated(topology, options["simulate"])
    if as_json:
        more = {"advice": [str(change) for change in advice], "simulation": simulated and simulated[1]}
        _print({"file": target, **found.document(), **more})
    else:
        click.echo(plan_text(replace(found, warning=""), advice))
        for note in _notes(topology, found, advice):
            click.echo(f"note: {note}")
        _timeline(found)
        if simulated:
            click.echo("\n" + simulated[0])
    _end(found.status)


def _notes(topology: Topology, found: Any, advice: Sequence[Any]) -> list[str]:
    """What a reader of the file, or its author at the first attempt, may misread."""
    out = []
    shared = [(source, topology.listeners(source)) for source in (*topology.spouts, *topology.bolts)]
    shared = [(source, listeners) for source, listeners in shared if len(listeners) > 1]
    if topology.routing == "one" and shared:
        source, listeners = shared[0]
        others = f", and likewise for {', '.join(name for name, _ in shared[1:])}" if shared[1:] else ""
        choice = f"{', '.join(listeners[:-1])} or {listeners[-1]}"
        out.append(f"a tuple of {source} goes to {choice}, not to all{others}: --routing all gives a copy to each")
    if topology.semantics == "literal":
        out.append("literal: each row has that bolt under analysis, and the others take and emit when they like")
    if found.status == "refuted" and not advice:
        out.append("nothing that was tried fixes this: neither more workers nor slower spouts")
    if any(bolt.status == "unknown" and "time limit" in bolt.why for bolt in found.bolts.values()):
        out.append("the time was shared by all queues: --timeout gives more")
    return out


def _line(found: Any) -> Any:
    from pellucid.capacity.picture import timeline

    shown = found.shown
    if shown is None:
        return None
    limits = {shown.bolt: shown.limit} if shown.limit is not None and shown.status == "refuted" else {}
    observed = shown.run.longest(shown.bolt)
    title = f"{found.topology.name}: a run in which the queue of {shown.bolt} is {observed} long"
    return timeline(shown.run, limits, title=title)


def _timeline(found: Any) -> None:
    from pellucid.capacity.picture import timeline_text

    line = _line(found)
    if line is not None:
        click.echo(f"\n{line.title}\n{timeline_text(line)}")


def _picture(found: Any, out: str | None) -> None:
    if out is None:
        return
    from pellucid.capacity.picture import timeline_svg
    from pellucid.internal.base.files import write_whole

    line = _line(found)
    if line is None:
        raise UsageError(f"--out {out}: there is no run to draw: no queue gets longer than 0, or nothing was decided")
    write_whole(out, timeline_svg(line))


def _simulated(topology: Topology, tuples: int | None) -> tuple[str, dict[str, Any]] | None:
    """Percentiles beside the worst case."""
    if tuples is None:
        return None
    from pellucid.capacity import simulate
    from pellucid.capacity.report import amount, table
    from pellucid.internal.model import CutShort

    try:
        run = simulate(topology, tuples=tuples, choose="random")
    except CutShort as cut:
        return f"simulated: {cut} before the run was done", {"tuples": tuples, "why": str(cut)}
    rows, document = [], dict[str, Any]()
    for name in topology.bolts:
        lengths = {f"p{p}": run.length(name, p) for p in (50, 95, 99)}
        latency = {f"p{p}": str(run.latency(p, name)) for p in (50, 95, 99)}
        document[name] = {"length": lengths, "latency": latency, "longest": run.longest(name)}
        times = [amount(run.latency(p, name)) for p in (50, 99)]
        rows.append([name, *(str(n) for n in lengths.values()), str(run.longest(name)), *times])
    head = ["simulated", "50 %", "95 %", "99 %", "longest", "time 50 %", "time 99 %"]
    return table(head, rows), {"tuples": tuples, "bolts": document}


def _measured(target: str, as_json: bool, options: Mapping[str, Any]) -> None:
    from pellucid.capacity.measured import Scaling, plan_job, read_jobs
    from pellucid.capacity.measured.plan import plan_text
    from pellucid.internal.model import combined

    if options["out"]:
        raise UsageError("--out goes with a topology: measurements have no run to draw")
    jobs = read_jobs(target)
    limits = _pairs(options["limits"], "--queue-limit", "STEP=N, as in --queue-limit late=10000", _count)
    workers = _pairs(options["workers"], "--parallelism", "STEP=N, as in --parallelism late=8", _count)
    rates = _pairs(options["rates"], "--rate", "STEP=N, as in --rate late=500", float)
    scaling = Scaling(options["busy"], options["catch_up"], options["restart"])
    known = [name for job in jobs for name in job.steps]
    for option, given in (("--queue-limit", limits), ("--parallelism", workers), ("--rate", rates)):
        for name in given:
            if name not in known:
                raise UsageError(f"{option} {name}: {target} has no step {name}{nearest(name, known)}")
    plans = []
    for job in jobs:
        mine = job.with_workers({name: n for name, n in workers.items() if name in job.steps})
        mine = mine.with_rates({name: n for name, n in rates.items() if name in job.steps})
        plans.append(plan_job(mine, limits={n: v for n, v in limits.items() if n in job.steps}, scaling=scaling))
    if as_json:
        _print({"file": target, "jobs": [found.document() for found in plans]})
    else:
        click.echo("\n\n".join(plan_text(found) for found in plans))
    _end(combined(found.status for found in plans), enough=options["enough"])


def _cubicle(target: str, as_json: bool, options: Mapping[str, Any]) -> None:
    """A system in Cubicle's language."""
    from pellucid.capacity.arrays import decide, explain, read
    from pellucid.internal.cli.check import _Printer, _write
    from pellucid.internal.model.verdict import Outcome, verdict_document

    system = read(target)
    status = _Status()
    try:
        verdict = decide(system, timeout=options["timeout"], name=Path(target).stem, progress=status.states)
    finally:
        status.clear()
    outcome = Outcome(verdict.question, target, verdict)
    never = explain(verdict.details["never"]) if "never" in verdict.details else []
    if options["out"] is not None:
        if verdict.counterexample is None:
            raise UsageError(f"--out {options['out']}: there is no run to draw: the system is {verdict.status}")
        _write(options["out"], verdict.counterexample.picture(verdict.question))
    if as_json:
        _print({"file": target, **verdict_document(verdict), "never": never})
    else:
        show = _Printer(as_json)
        show.line(outcome)
        if never:
            show.echo("never reached, for any number of processes (an independent checker accepts it):")
            for formula in never:
                show.echo(f"  {formula}")
        show.counterexamples([outcome])
    _end(verdict.status)
