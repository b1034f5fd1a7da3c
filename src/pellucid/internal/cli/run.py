"""``pellucid run``: a pipeline over files, pipes or tables: here, in epochs, or on Spark.

The options come from `pellucid.internal.request`; the work is in `cli.running` and `cli.spark`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError, option
from pellucid.internal.address import from_environment
from pellucid.internal.cli.running import (
    files_given,
    formats_given,
    inputs_given,
    kept_given,
    members_given,
    refuse_bad_place,
    refuse_epochs,
    refuse_no_file,
    run_here,
    targets_given,
)
from pellucid.internal.cli.terminal import columns, renamed, tell, tell_left_out
from pellucid.internal.request import (
    BATCH,
    EPOCHS,
    FIELDS,
    FILES,
    STREAM,
    About,
    Kind,
    Mode,
    Request,
    asked,
    by_time,
)

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph

_ALL = [name for name, one in FIELDS.items() if one.command]


def flags(*names: str, helps: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """For a verb: the flags of these fields of a request.  With ``helps`` it is another verb than ``run``, which says
    only what it does otherwise."""

    def mark(verb: Any) -> Any:
        for name in reversed(names):
            verb = _flag(FIELDS[name], None if helps is None else helps.get(name, "As for run."))(verb)
        return verb

    return mark


def as_words(request: Request) -> list[str]:
    """What was asked for, as the words of a command line.

    >>> as_words(Request(key=("shop", "user"), short="silent", cut=("a", "b"), workers=2))
    ['--key', 'shop,user', '--uneven', 'silent', '--workers', '2', '--cut', 'a', '--cut', 'b']
    """
    out: list[str] = []
    for name in request.given():
        one, value = FIELDS[name], getattr(request, name)
        values = value if one.kind is Kind.TEXTS else [",".join(value) if one.kind is Kind.COLUMNS else value]
        out += [word for part in values for word in (str(one.flag), str(part))]
    return out


def _flag(one: About, said: str | None) -> Callable[[Any], Any]:
    """The flag of a field.  It has no default of its own: what was not given is None or empty."""
    more: dict[str, Any] = {}
    if one.kind is Kind.SWITCH:
        more["is_flag"] = True
    elif one.kind is Kind.CHOICE:
        more["type"] = click.Choice(one.choices)
    elif one.kind is Kind.WHOLE:
        more["type"] = click.INT if one.least is None else click.IntRange(min=int(one.least))
    elif one.kind is Kind.NUMBER:
        more["type"] = click.FloatRange(min=one.least)
    more["multiple"] = one.kind in (Kind.TEXTS, Kind.COLUMNS)
    shown = (one.kind is Kind.CHOICE and one.default) or (one.name == "chunk" and one.default)
    text = said or f"{one.help}{f'  [default: {shown}]' if shown else ''}"
    return click.option(str(one.flag), one.name, metavar=one.metavar, help=text, **more)


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@flags(*_ALL)
@click.option(
    "--on", "engine", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="Where to run."
)
@click.option("--json", "as_json", is_flag=True, help="Put a report about the run on stdout.")
@renamed("--engine", "--on")
@renamed("--limit", "--head")
@renamed("--epochs", "--epoch-size")
@renamed("--pushes", "--epoch-size")
@renamed("--short", "--uneven")
@renamed("--changed", "--allow-changed")
@renamed("--keep", "--snapshots")
@renamed("--overwrite", "--exists=overwrite")
def run(target: str, engine: str, as_json: bool, **given: Any) -> None:
    """Run a pipeline over events from files (CSV, JSON Lines, Parquet, Arrow; .gz) or from a pipe.

    A scalar source reads the column of its name, the one given by --value, or the only one; a record source reads
    one column for each field. Output files appear whole or not at all.

    With --epoch-size N --state FOLDER the run survives crashes: sources, workers and sinks are processes, each epoch is
    committed once, and the same command goes on after a kill -9; --out can then also be sqlite:FILE#TABLE,
    postgresql://…#TABLE, delta:FOLDER, or FOLDER/ for Parquet files. With several --out, of which one is no file, an
    epoch is in all of them, or in none. An input epochs:STATE#OUTPUT is the rows of another such run, before they are
    committed there.

    With --on spark, inputs are files, folders, table:NAME or kafka://HOST/TOPIC, outputs are folders,
    postgresql://…#TABLE, sqlite:FILE#TABLE, delta:FOLDER or kafka://HOST/TOPIC.

    \b
    Examples:
      pellucid run pipeline.py:totals --in events.csv --out totals.parquet
      pellucid run pipeline.py:totals --in trades.parquet --value price --key symbol --head 1000
      pellucid run pipeline.py:joined --in left=a.csv --in right=b.csv --out joined.jsonl
      seq 1 10 | pellucid run pipeline.py:totals | head -3
      pellucid run pipeline.py:totals --in events.csv --out totals.csv --epoch-size 10000 --state state/
      pellucid run pipeline.py:alerts --in epochs:state/ --out sqlite:shop.db#alerts --every 0.1 --state alerts/
      pellucid run pipeline.py:totals --on spark --in events.parquet --key user --order seq --out totals.parquet
      pellucid run pipeline.py:totals --on spark --stream --in events/ --key user --order seq \\
        --checkpoint state/ --out sqlite:totals.db#totals
    """
    from pellucid.internal.load import load_pipeline

    p = load_pipeline(target)
    graph = p.graph
    mode = _mode(engine, given)
    request = asked(mode, read_flags(graph, given), command=True)
    if mode is EPOCHS:
        _run_with_epochs(graph, request, as_json)
        return
    refuse_epochs(graph, request.inputs)
    if mode is FILES and graph.timed:
        request = by_time(graph, request, mode)
    extra, members = ["late"] if request.late == "keep" else [], None
    if mode is STREAM:
        sinks, members = members_given(graph, request.outputs, extra)
    else:
        sinks = targets_given(graph, request.outputs, extra)
    if mode is FILES:
        refuse_no_file(request.out_format, sinks)
    if as_json and "-" in sinks.values():
        raise UsageError("--json puts a report on stdout: send the events to a file with --out")
    stdout, verbose = sys.stdout.buffer, _verbose()
    # A user's function may print: stdout belongs to the result.
    with contextlib.redirect_stdout(sys.stderr):
        if mode is FILES:
            report = run_here(graph, files_given(graph, request.inputs), sinks, request, stdout, verbose=verbose)
        else:
            from pellucid.internal.cli.spark import Places, run_on_spark

            if request.aside.address is not None:
                refuse_bad_place(request.aside, sinks)
                sinks = {**sinks, "bad": from_environment(request.aside.address)}
            places = Places(inputs_given(graph, request.inputs), sinks, members)
            done = run_on_spark(p, places, request, stdout, verbose=verbose)
    if mode is not FILES:
        tell(done.line())
        document = done.document()
    else:
        if not as_json:
            tell_left_out([name for name, _ in graph.outputs], sinks)
        for line in report.told:
            tell(line)
        tell(report.line())
        document = report.document(graph.name, request.inputs or ("-",), sinks)
    if as_json:
        click.echo(json.dumps({"pellucid": 1, "verb": "run", **document}))


def _mode(engine: str, given: dict[str, Any]) -> Mode:
    """How it runs: what is given beside must hold there."""
    if engine == "spark":
        return STREAM if given["stream"] else BATCH
    return FILES if given["pushes"] is None and given["every"] is None else EPOCHS


def read_flags(graph: Graph, given: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as a call in Python gives it."""
    found = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    for name in ("key", "order"):
        if name in found:
            found[name] = columns(found[name], option(name))
    if "keep" in found:
        found["keep"] = kept_given(graph, found["keep"])
    if "time_format" in found:
        found["time_format"] = formats_given(found["time_format"])
    if found.get("bad") == "keep":
        raise UsageError("--bad keep: here rows that are set aside go to a file: give its name, as in --bad bad.csv")
    if found.get("bad") in ("-", ""):
        raise UsageError(f"--bad {found['bad'] or repr('')}: expected the name of a file, as in --bad bad.csv")
    return found


def _run_with_epochs(graph: Graph, request: Request, as_json: bool) -> None:
    from pellucid.internal.cli.running import run_with_epochs

    if request.state is None:
        first = "pushes" if request.pushes is not None else "every"
        raise UsageError(f"{option(first)} needs a folder for the snapshots: give --state FOLDER")
    targets, members = members_given(graph, request.outputs, folders=True)
    refuse_no_file(request.out_format, targets, folders=True)
    run_with_epochs(graph, files_given(graph, request.inputs), targets, request, as_json, members)


def _verbose() -> bool:
    context = click.get_current_context()
    return bool(context.find_root().params.get("verbose"))
