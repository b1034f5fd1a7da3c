"""``pellucid check``: ask every property that a file declares, or questions about one pipeline, or compare two."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import Control, PellucidError, UsageError
from pellucid.internal.cli.signals import checkpoint
from pellucid.internal.cli.terminal import StatusLine, bounded_is_enough, count_text, exit_code, once, rate_text, tell

if TYPE_CHECKING:
    from pellucid.check.questions import Property
    from pellucid.internal.model.verdict import Outcome
    from pellucid.internal.pipeline import Pipeline

_COLOURS = {"proved": "green", "refuted": "red", "bounded": "blue", "unknown": "yellow", "error": "red"}


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="FILE[:NAME] [FILE:NAME]")
@click.option(
    "--property", "formulas", multiple=True, metavar="FORMULA", help="Ask this of the pipeline; repeat it for more."
)
@click.option(
    "--equivalent",
    is_flag=False,
    flag_value="step",
    type=click.Choice(["step", "sequence", "paper"]),
    help="Compare two pipelines: in every step (the default), the same sequence in the end, or the paper's weaker "
    "formula for that.",
)
@click.option("--failures", is_flag=True, help="Ask whether crashes can be seen from outside, and all output comes.")
@click.option("--epochs", type=click.IntRange(min=1), help="With --failures: epochs of the input.  [default: 2]")
@click.option("--events", type=click.IntRange(min=0), help="With --failures: events of an epoch.  [default: 2]")
@click.option("--crashes", type=click.IntRange(min=0), help="With --failures: how many may come.  [default: 2]")
@click.option("--sink", metavar="KIND", help="With --failures: transactional (the default), idempotent or append.")
@click.option("--source", metavar="KIND", help="With --failures: replayable (the default) or not-replayable.")
@click.option("--protocol", metavar="NAME", help="With --failures: aligned (the default), unaligned or microbatch.")
@click.option("--ints", metavar="mod:N|LO..HI|exact", help="Which integers: modulo N, from LO to HI, or all of them.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="N|ID=N",
    help="The bound of every queue, or of one, for questions that speak of queues.  [default: 3]",
)
@click.option(
    "--assume",
    "assumed",
    multiple=True,
    metavar="FORMULA",
    help='What is taken for granted of the sources, as in "x.value >= Y x.value".',
)
@click.option(
    "--times", metavar="TIME,…", help="By event time: the times of events, as in 0,9,10 or 2024-05-01T10:00,…."
)
@click.option("--pushes", type=click.IntRange(min=1), metavar="N", help="By event time: events in a run, at most.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="By event time: rows in a batch, at most.  [1]")
@click.option("--arrival", type=click.Choice(["any", "in time"]), help="By event time: which orders of arrival.  [any]")
@click.option("--engine", metavar="NAME", help="auto, explicit or smt  [default: auto]")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each property.")
@click.option("--max-states", type=click.IntRange(min=1), metavar="N", help="For each property; more give unknown.")
@bounded_is_enough
@click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr.")
@click.option("--junit", metavar="FILE", help="Write a report for a build server.")
@click.option("--svg", metavar="DIR", help="Draw each counterexample into this folder.")
@click.option("--pytest", "tests", metavar="FILE", help="Write a test for each counterexample that reproduces it.")
def check(
    targets: tuple[str, ...],
    formulas: tuple[str, ...],
    equivalent: str | None,
    failures: bool,
    epochs: int | None,
    events: int | None,
    crashes: int | None,
    sink: str | None,
    source: str | None,
    protocol: str | None,
    ints: str | None,
    queues: tuple[str, ...],
    assumed: tuple[str, ...],
    times: str | None,
    pushes: int | None,
    batch: int | None,
    arrival: str | None,
    engine: str | None,
    timeout: float | None,
    max_states: int | None,
    enough: bool,
    as_json: bool,
    junit: str | None,
    svg: str | None,
    tests: str | None,
) -> None:
    """Prove or refute what must hold for all inputs; a no comes with the shortest input that shows it.

    FILE alone: every property that it declares with @check.property or check.properties. FILE:NAME: that property, or
    of that pipeline the formulas given by --property, or else liveness and no failure, and with --queue no full queue;
    with --failures, whether an observer of its outputs can tell that it has crashed. Of a pipeline by event
    time: whether it keeps the promises of event time in all runs of a few events.

    \b
    Examples:
      pellucid check pipeline.py
      pellucid check pipeline.py:totals --property "AG EF out" --ints mod:4
      pellucid check old.py:totals new.py:totals --equivalent sequence
      pellucid check pipeline.py:totals --failures --sink append --protocol microbatch
      pellucid check pipeline.py:hourly --pushes 3 --times 2024-05-01T09:59,2024-05-01T10:00,2024-05-01T10:06
      pellucid check pipeline.py --json --junit report.xml --svg pictures --pytest test_found.py

    Exit codes: 0 all proved, 1 one refuted, 2 bad usage or bad input, 3 one unknown or bounded and none refuted, 4
    internal error.
    """
    from pellucid.internal.model.verdict import junit as junit_text
    from pellucid.internal.model.verdict import outcomes_document

    files = _Files()
    when = None if times is None else _times(times)
    by_time = {"times": when, "pushes": pushes, "batch": batch, "arrival": arrival}
    options = _options(ints, assumed, engine, timeout, max_states)
    options |= {name: value for name, value in by_time.items() if value is not None}
    shape = {
        "epochs": epochs, "events": events, "crashes": crashes, "sink": sink, "source": source, "protocol": protocol,
    }  # fmt: skip
    given = {name: value for name, value in shape.items() if value is not None}
    if failures:
        unfit = {
            "--property": formulas,
            "--equivalent": equivalent,
            "--ints": ints,
            "--queue": queues,
            "--assume": assumed,
            "--engine": engine,
            **{f"--{name}": value for name, value in by_time.items()},
        }
        asked = [_about_failures(files, targets, given, [name for name, value in unfit.items() if value])]
    else:
        if given:
            raise UsageError(f"--{next(iter(given))} belongs to --failures: give that as well")
        asked = _asked(files, targets, formulas, equivalent, bounded=bool(queues))
    show = _Printer(as_json)
    outcomes: list[Outcome] = []
    for one in asked:
        outcomes.append(replace(_ask(one, options, queues, show), bounded_is_enough=enough or one.bounded_is_enough))
        show.line(outcomes[-1])
    show.counterexamples(outcomes)
    show.summary(outcomes)
    if as_json:
        click.echo(json.dumps(outcomes_document(targets, outcomes), indent=2, ensure_ascii=False, allow_nan=False))
    if junit is not None:
        _write(junit, junit_text(outcomes, suite=" ".join(targets)))
    if svg is not None:
        _draw(svg, outcomes)
    if tests is not None:
        _write_tests(tests, files, outcomes)
    raise click.exceptions.Exit(exit_code(outcomes))


# ---------------------------------------------------------------- what is asked


@dataclass
class _Files:
    """The user's files, each loaded once; and where every pipeline can be imported from."""

    modules: dict[str, Any] = field(default_factory=dict)

    def module(self, file: str) -> Any:
        from pellucid.internal.load import _load

        key = os.path.abspath(file) if os.path.exists(file) else file
        if key not in self.modules:
            self.modules[key] = (file, _load(file))
        return self.modules[key][1]

    def pipelines(self, file: str) -> dict[str, Pipeline]:
        from pellucid.internal.pipeline import Pipeline

        return {key: value for key, value in vars(self.module(file)).items() if isinstance(value, Pipeline)}

    def pipeline(self, target: str) -> Pipeline:
        from pellucid.internal.load import _named, _parts, load_pipeline

        file, name = _parts(target)
        found = self.pipelines(file)
        if name:
            return _named(file, name, self.module(file), found)
        return next(iter(found.values())) if len(found) == 1 else load_pipeline(target)

    def place(self, graph: Any) -> tuple[str, str] | None:
        """The file and the name of the pipeline with this graph."""
        for file, _ in self.modules.values():
            for key, p in self.pipelines(file).items():
                if p.graph is graph:
                    return file, key
        return None


def _asked(
    files: _Files, targets: tuple[str, ...], formulas: tuple[str, ...], how: str | None, *, bounded: bool
) -> list[Property]:
    from pellucid.check.formula.parse import parse
    from pellucid.check.questions import Property, declared
    from pellucid.internal.load import _parts

    if len(targets) > 2:
        raise UsageError(f"check takes one file, or two pipelines to compare, found {len(targets)}")
    if len(targets) == 2:
        if how is None:
            raise UsageError("two pipelines are compared: say so with --equivalent, or give one")
        if formulas:
            raise UsageError("--property asks about one pipeline, --equivalent compares two: give one of them")
        return [_comparison(files, targets, how)]
    if how is not None:
        raise UsageError("--equivalent compares two pipelines: give both, as in check a.py:old b.py:new --equivalent")
    (target,) = targets
    file, name = _parts(target)
    own = {found.name: found for found in declared(files.module(file))}
    if not formulas and name in own and name not in files.pipelines(file):
        return [own[name]]
    if not name and not formulas:
        if own:
            return list(own.values())
        pipelines = files.pipelines(file)
        or_name = ""
        if pipelines:
            or_name = f", or name a pipeline to ask the usual questions, as in {file}:{next(iter(pipelines))}"
        raise UsageError(f"{file}: declares no property: write @check.property above a function{or_name}")
    for text in formulas:
        parse(text)
    p = files.pipeline(target)
    if p.graph.timed and not formulas:
        return [_promises(p, target)]
    questions = {f"{p.name}: {text}": text for text in formulas} or _usual(p, bounded)
    return [Property(key, target, _question(p, text), p) for key, text in questions.items()]


def _usual(p: Pipeline, bounded: bool) -> dict[str, str]:
    """What is asked of a pipeline if nothing else is; queues have a bound only where one is given."""
    from pellucid.check.formula import stream

    outputs = [name for name, _ in p.graph.outputs]
    live = {
        f"liveness of {name}" if len(outputs) > 1 else "liveness": f"AG EF {stream(name).present}" for name in outputs
    }
    return live | ({"no full queue": "!EF full"} if bounded else {}) | {"no failure": "!EF failed"}


def _promises(p: Pipeline, target: str) -> Property:
    """What is asked of a pipeline by event time if nothing else is."""
    from pellucid.check.questions import Property
    from pellucid.check.timed.question import times

    takes = frozenset({"times", "pushes", "batch", "ints", "timeout", "max_states", "progress"})
    return Property(f"{p.name}: times", target, lambda **settings: times(p, **settings), p, takes)


def _question(p: Pipeline, formula: str) -> Any:
    from pellucid.check.questions import holds

    return lambda **settings: holds(p, formula, **settings)


def _about_failures(files: _Files, targets: tuple[str, ...], given: dict[str, Any], unfit: list[str]) -> Property:
    """Failure transparency of one pipeline; what is wrong with the options is told at once."""
    from pellucid.check.questions import Property
    from pellucid.failures.checker.question import failures

    if unfit:
        raise UsageError(f"--failures explores one made-up input with all its crashes: {unfit[0]} does not go with it")
    if len(targets) != 1:
        raise UsageError(f"--failures asks about one pipeline, found {len(targets)}")
    p = files.pipeline(targets[0])
    _fit(given)
    takes = frozenset({"timeout", "max_states", "progress"})
    return Property(f"{p.name}: failures", targets[0], lambda **settings: failures(p, **given, **settings), p, takes)


def _fit(given: dict[str, Any]) -> None:
    from pellucid.failures.checker.question import PROTOCOLS, SOURCES
    from pellucid.failures.checker.system import SINKS

    for name, known in (("sink", tuple(SINKS)), ("source", SOURCES), ("protocol", PROTOCOLS)):
        if name in given and given[name] not in known:
            raise UsageError(f"--{name} takes {', '.join(known)}, found {given[name]!r}")


def _comparison(files: _Files, targets: tuple[str, ...], how: str) -> Property:
    from pellucid.check.questions import Property, equivalent

    a, b = (files.pipeline(target) for target in targets)
    name = f"{a.name} and {b.name} are {how} equivalent"
    return Property(name, targets[0], lambda **more: equivalent(a, b, how=how, **more), (a, b))


# ---------------------------------------------------------------- options


def _options(
    ints: str | None, assumed: tuple[str, ...], engine: str | None, timeout: float | None, max_states: int | None
) -> dict[str, Any]:
    """What was given on the command line, and nothing else: it goes before what a file says."""
    given = {"engine": engine, "timeout": timeout, "max_states": max_states}
    out: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if engine is not None:
        from pellucid.check.decide import Options

        Options(engine=engine)  # a wrong name is told at once
    if assumed:
        from pellucid.check.system.assume import assumptions

        out["assume"] = assumptions(list(assumed))
    return out if ints is None else {**out, "ints": _ints(ints)}


def _ints(text: str) -> Any:
    from pellucid.check.system.domains import Mod

    if text == "exact":
        return None
    if found := re.fullmatch(r"mod:(\d+)", text):
        return Mod(int(found[1]))
    if found := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text):
        low, high = int(found[1]), int(found[2])
        if low > high:
            raise UsageError(f"--ints {text}: from {low} to {high} there is no integer: write the smaller one first")
        return range(low, high + 1)
    raise UsageError(f"--ints takes mod:4, 0..7 or exact, found {text!r}")


def _times(text: str) -> list[Any]:
    """``--times``: whole numbers, or times as ISO 8601 writes them."""
    from datetime import datetime

    found: list[Any] = []
    for word in (part.strip() for part in text.split(",")):
        if re.fullmatch(r"-?\d{1,15}", word):
            found.append(int(word))
            continue
        try:
            found.append(datetime.fromisoformat(word))
        except ValueError:
            raise UsageError(f"--times takes 0,9,10 or 2024-05-01T10:00,…, found {word!r}") from None
    return found


def _bounds(queues: tuple[str, ...], about: Any) -> dict[str, Any]:
    """``--queue``: one bound for all, or by id, or both."""
    pairs = []
    for text in queues:
        id, equals, number = text.rpartition("=")
        if not number.isdecimal() or (equals and not id):
            raise UsageError(f"--queue takes a number, or ID=NUMBER, found {text!r}")
        pairs.append((id, number))
    each = {id: int(number) for id, number in once(pairs, "--queue").items()}
    every = each.pop("", None)
    if not queues:
        return {}
    if not each:
        return {"queue": every}
    if every is None:
        return {"queue": each}
    if not hasattr(about, "graph"):
        raise UsageError("--queue N together with --queue ID=N needs one pipeline: name it, as in FILE:NAME")
    return {"queue": {id: every for id, _, _ in about.graph.queues()} | each}


# ---------------------------------------------------------------- asking and telling


def _ask(one: Property, options: dict[str, Any], queues: tuple[str, ...], show: _Printer) -> Outcome:
    from pellucid.internal import PACKAGE
    from pellucid.internal.load import _code_line, _last_frame
    from pellucid.internal.model.verdict import Outcome

    given = options | _bounds(queues, one.pipeline)
    deaf = sorted(set(given) - one.takes)
    if deaf:
        words = ", ".join(f"--{name.replace('_', '-')}" for name in deaf)
        show.log(f"{one.name} ({one.where}): {words} does not reach it: let it take **settings and hand that on")
    working = _Working(one.name)
    try:
        # A user's function may print: stdout belongs to the result.
        with contextlib.redirect_stdout(sys.stderr):
            return Outcome(one.name, one.where, one(**given, progress=working))
    except PellucidError as error:
        return Outcome(one.name, one.where, error=str(error))
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        return Outcome(
            one.name, one.where, error="this needs z3: pip install 'pellucid[check]', or give a finite --ints"
        )
    except (Control, KeyboardInterrupt):
        raise
    except BaseException as error:
        tb = error.__traceback__
        while tb is not None and tb.tb_next is not None:
            tb = tb.tb_next
        if tb is None or tb.tb_frame.f_code.co_filename.startswith(PACKAGE):
            raise  # ours
        place = _last_frame(error)
        where = f"{os.path.basename(place[0])}:{place[1]}" if place is not None else one.where
        return Outcome(one.name, one.where, error=f"{where}: {type(error).__name__}: {error}{_code_line(error)}")
    finally:
        working.clear()


class _Working(StatusLine):
    """States and states per second."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __call__(self, now: dict[str, Any]) -> None:
        checkpoint()
        if self.due():
            states = int(now.get("states", 0))
            rate = rate_text(states / max(self.seconds, 1e-9)).replace("events", "states")
            self.draw(self._name, count_text(states, "state"), rate, f"{now.get('waiting', 0):,} waiting")


class _Printer:
    """The lines for a person: on stdout, or on stderr where stdout has the report."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def echo(self, text: str = "", *, err: bool = False) -> None:
        click.echo(text, err=err or self.as_json, color=False if os.environ.get("NO_COLOR") else None)

    def log(self, text: str) -> None:
        tell(f"pellucid: {text}")

    def line(self, outcome: Outcome) -> None:
        from pellucid.internal.model.verdict import headline, remarks

        if outcome.verdict is None:
            self.echo(click.style(f"{'error':7}", fg="red", bold=True) + f"  {outcome.name}")
            self.log(f"{outcome.name} ({outcome.where}): {outcome.error}")
            return
        text = headline(outcome.verdict, _label(outcome))
        self.echo(click.style(text[:7], fg=_COLOURS.get(outcome.status), bold=True) + text[7:])
        for remark in remarks(outcome.verdict):
            self.echo(f"         {remark}")

    def counterexamples(self, outcomes: Sequence[Outcome]) -> None:
        for o in outcomes:
            if not self.as_json and o.verdict is not None and o.example is not None:
                self.echo("\n" + click.style(o.name, bold=True) + f" ({o.where})")
                self.echo(o.example.text(o.verdict.question))

    def summary(self, outcomes: Sequence[Outcome]) -> None:
        from pellucid.internal.model.verdict import summary

        if len(outcomes) > 1:
            self.echo("\n" + summary(outcomes))


def _label(outcome: Outcome) -> str:
    """The name where the question does not say it."""
    assert outcome.verdict is not None
    question = outcome.verdict.question
    return outcome.name.removesuffix(question).rstrip(": ") or question


# ---------------------------------------------------------------- reports


def _write(path: str, text: str) -> None:
    from pellucid.internal.base.files import write_whole

    write_whole(path, text)


def _draw(folder: str, outcomes: Sequence[Outcome]) -> None:
    from pellucid.internal.model.verdict import pictures

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror or error}") from None
    for name, picture in pictures(outcomes):
        _write(os.path.join(folder, name), picture)


def _write_tests(path: str, files: _Files, outcomes: Sequence[Outcome]) -> None:
    from pellucid.internal.model.pytest_file import Case, pytest_file, slug

    cases: list[Case] = []
    for o in outcomes:
        if o.verdict is None or o.example is None:
            continue
        places = [files.place(graph) for graph in o.example.graphs]
        found = [place for place in places if place is not None]
        if len(found) < len(places) or not found:
            tell(f"pellucid: {o.name}: no test is written: its pipeline has no name in the file")
            continue
        paths, names = (tuple(place[i] for place in found) for i in (0, 1))
        cases.append(Case(o.example, o.verdict.question, paths, names, "test_" + slug(o.name)))
    if not cases:
        tell(f"pellucid: {path}: not written: there is no counterexample to test")
        return
    _write(path, pytest_file(cases, folder=os.path.dirname(path) or "."))
