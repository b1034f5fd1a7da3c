"""``pellucid run``: a pipeline over files, pipes or tables: here, in epochs, or on Spark.

The options, and which way a run goes; the work is in `cli.running` and `cli.spark`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError
from pellucid.internal.address import from_environment
from pellucid.internal.cli.running import (
    Rows,
    bad_given,
    by_time,
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
from pellucid.internal.data.cells import said_nulls

if TYPE_CHECKING:
    from pellucid.internal.cli.spark import SparkOptions

_FORMATS = click.Choice(["csv", "tsv", "jsonl", "parquet", "arrow"])


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option(
    "--in",
    "inputs",
    multiple=True,
    metavar="[SOURCE=]FILE",
    help="Events to read: a file, a folder, a pattern such as '2013-*.csv', several in order; - is stdin, the default.",
)
@click.option(
    "--out", "outputs", multiple=True, metavar="[OUTPUT=]FILE", help="Where to write; - is stdout (the default)."
)
@click.option("--head", "limit", type=click.IntRange(min=0), metavar="N", help="Stop after the first N pushes.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN,…",
    help="Run once for each value of this column, or of several: a,b or --key a --key b.",
)
@click.option("--value", metavar="COLUMN", help="The column that holds the events of a scalar source.")
@click.option(
    "--short",
    type=click.Choice(["fail", "silent"]),
    default="fail",
    show_default=True,
    help="An input that ends before the others.",
)
@click.option(
    "--nan",
    type=click.Choice(["fail", "keep"]),
    default="fail",
    show_default=True,
    help="A NaN in a column of floats: an error, or a value like others.",
)
@click.option(
    "--null",
    "nulls",
    multiple=True,
    metavar="WORD",
    help="A cell of a CSV file that says nothing, as NA or -999: None where T | None is declared, as an empty cell is.",
)
@click.option("--in-format", type=_FORMATS, help="Instead of the ending of the name; stdin is jsonl.")
@click.option("--out-format", type=_FORMATS, help="Instead of the ending of the name; stdout is jsonl.")
@click.option(
    "--chunk", type=click.IntRange(min=1), default=1 << 17, show_default=True, metavar="N", help="Rows at a time."
)
@click.option(
    "--cores",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many cores to use; by default all, and for the keys of --key as many as pay. The output is the same.",
)
@click.option(
    "--on", "engine", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="Where to run."
)
@click.option(
    "--order",
    multiple=True,
    metavar="COLUMN,…",
    help="The columns that put rows in order: they are sorted by them; two rows of a key with one order are an error.",
)
@click.option(
    "--keep-columns",
    "keep",
    multiple=True,
    metavar="[SOURCE=]COLUMN,…",
    help="Columns of the row that put an event out, as they are; all for all of them.",
)
@click.option(
    "--bad",
    metavar="FILE",
    help="Where rows go that cannot be read, or on which a step fails; else the first of them ends the run.",
)
@click.option("--max-bad", type=click.IntRange(min=0), metavar="N", help="Give up when there are more than N of them.")
@click.option(
    "--time-format",
    "formats",
    multiple=True,
    metavar="COLUMN=FORM",
    help="How times are spelled in a column of texts, if not as in ISO 8601: when='%d/%m/%Y %H:%M'.",
)
@click.option(
    "--master", metavar="URL", help="Spark: the cluster, as in spark://host:7077; all cores of this machine by default."
)
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Spark: a setting of its own.")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="Spark: into how many parts a batch goes.")
@click.option(
    "--exists",
    type=click.Choice(["refuse", "overwrite", "append"]),
    help="An output file that is there already: refuse it (on Spark the default), overwrite it (here), or add to it.",
)
@click.option("--overwrite", is_flag=True, hidden=True)
@click.option("--stream", is_flag=True, help="Spark: a query that goes on as files are added to the input folder.")
@click.option(
    "--checkpoint", metavar="FOLDER", help="Spark, --stream: how far it has come; the same command goes on from there."
)
@click.option("--trigger", metavar="WHEN", help="Spark, --stream: once (all there is, then end), or '10 seconds'.")
@click.option(
    "--late",
    type=click.Choice(["fail", "drop", "keep"]),
    default="fail",
    show_default=True,
    help="A row that comes after a later one, or twice.",
)
@click.option("--wait", metavar="TIME", help="Spark, --stream: hold rows back until the order has gone on by so much.")
@click.option("--sequence", type=int, metavar="N", help="Spark: the order counts up by one from N; a gap is an error.")
@click.option(
    "--gaps",
    type=click.Choice(["fail", "wait"]),
    default="fail",
    show_default=True,
    help="Spark, --stream: if a number is missing.",
)
@click.option(
    "--drop", multiple=True, metavar="STEP", help="Spark, --stream: give up the state of a step that is gone."
)
@click.option(
    "--added",
    multiple=True,
    metavar="OUTPUT",
    help="Spark, --stream: a target that is new among several that commit together; it begins with the next rows.",
)
@click.option(
    "--removed",
    multiple=True,
    metavar="OUTPUT",
    help="Spark, --stream: a target that is not given any more among several that commit together.",
)
@click.option(
    "--pushes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Survive crashes: an epoch ends after N pushes (with --state).",
)
@click.option(
    "--every", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Epochs: one ends after so many seconds."
)
@click.option(
    "--state", metavar="FOLDER", help="Epochs: where the run keeps its snapshots; the same command goes on from there."
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Epochs: share the keys among N processes (with --key)."
)
@click.option(
    "--cut", multiple=True, metavar="STEP", help="Epochs: cut the pipeline after this step, into several processes."
)
@click.option("--record", is_flag=True, help="Epochs: record the trace of the run, for pellucid audit.")
@click.option("--snapshots", type=click.IntRange(min=1), metavar="N", help="Epochs: keep the last N of each task (3).")
@click.option(
    "--patience",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Epochs: a task that is busy for longer hangs (120); several --out: try a commit again for so long.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    help="Epochs: give up after N crashes without a new epoch (10).",
)
@click.option(
    "--from-start",
    is_flag=True,
    help="Epochs: if no snapshot is whole any more, or committed rows are lost, read all input again.",
)
@click.option(
    "--changed",
    multiple=True,
    metavar="STEP",
    help="Epochs: go on although what this step's function calls or reads has changed.",
)
@click.option("--measure", metavar="FILE", help="Write rates, times of steps and lag there, for pellucid capacity.")
@click.option("--json", "as_json", is_flag=True, help="Put a report about the run on stdout.")
@renamed("--engine", "--on")
@renamed("--limit", "--head")
@renamed("--epochs", "--pushes")
@renamed("--keep", "--snapshots")
def run(
    target: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    limit: int | None,
    keys: tuple[str, ...],
    value: str | None,
    short: str,
    nan: str,
    nulls: tuple[str, ...],
    in_format: str | None,
    out_format: str | None,
    chunk: int,
    cores: int | None,
    engine: str,
    as_json: bool,
    keep: tuple[str, ...],
    formats: tuple[str, ...],
    exists: str | None,
    bad: str | None,
    max_bad: int | None,
    measure: str | None,
    **others: Any,
) -> None:
    """Run a pipeline over events from files (CSV, JSON Lines, Parquet, Arrow; .gz) or from a pipe.

    A scalar source reads the column of its name, the one given by --value, or the only one; a record source reads
    one column for each field. Output files appear whole or not at all.

    With --pushes N --state FOLDER the run survives crashes: sources, workers and sinks are processes, each epoch is
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
      pellucid run pipeline.py:totals --in events.csv --out totals.csv --pushes 10000 --state state/
      pellucid run pipeline.py:alerts --in epochs:state/ --out sqlite:shop.db#alerts --every 0.1 --state alerts/
      pellucid run pipeline.py:totals --on spark --in events.parquet --key user --order seq --out totals.parquet
      pellucid run pipeline.py:totals --on spark --stream --in events/ --key user --order seq \\
        --checkpoint state/ --out sqlite:totals.db#totals
    """
    from pellucid.internal.load import load_pipeline

    key = columns(keys, "--key")
    aside = bad_given(bad, max_bad)
    p = load_pipeline(target)
    graph = p.graph
    from pellucid.internal.cli.running import EpochOptions, run_with_epochs
    from pellucid.internal.cli.spark import SparkOptions

    if others.pop("overwrite"):
        tell("pellucid: --overwrite is called --exists overwrite now")
        if exists not in (None, "overwrite"):
            raise UsageError(f"--overwrite is called --exists overwrite now, and --exists {exists} is given, too")
        exists = "overwrite"
    epochs = EpochOptions.taken_from(others)
    only: dict[str, Any] = {"exists": exists, "patience": epochs.patience} if engine == "spark" else {}
    settings = SparkOptions(verbose=_verbose(), **only, **others)

    def rows_given() -> Rows:
        order, kept = columns(settings.order, "--order"), kept_given(graph, keep)
        forms, words = formats_given(formats), said_nulls(nulls)
        return Rows(key, order, settings.late, kept, value, short, aside, nan, forms, words)

    if measure is not None and (engine == "spark" or epochs.wanted(engine)):
        raise UsageError(
            "--measure goes with a local run without epochs; a Spark query tells of itself: pellucid capacity reads "
            "its StreamingQueryProgress"
        )
    if epochs.wanted(engine):
        if _of_spark(settings):
            raise UsageError(f"--{_of_spark(settings)[0]} goes with --on spark")
        if cores is not None:
            raise UsageError("--cores goes with a run without epochs: here --workers N shares the keys among processes")
        targets, members = members_given(graph, outputs, folders=True)
        refuse_no_file(out_format, targets, folders=True)
        places = (files_given(graph, inputs), targets, in_format, out_format)
        run_with_epochs(graph, *places, rows_given(), chunk, limit, exists, epochs, as_json, members)
        return
    refuse_epochs(graph, inputs)
    if engine == "spark":
        _refuse_local_options()
    rows = rows_given()
    if engine != "spark":
        rows = by_time(graph, rows, measure) if graph.timed else rows
        rows.check()
    extra, members = ["late"] if settings.late == "keep" else [], None
    if engine == "spark" and settings.stream:
        sinks, members = members_given(graph, outputs, extra)
    else:
        sinks = targets_given(graph, outputs, extra)
    if engine != "spark":
        if _of_spark(settings):
            raise UsageError(f"--{_of_spark(settings)[0]} goes with --on spark")
        refuse_no_file(out_format, sinks)
    if as_json and "-" in sinks.values():
        raise UsageError("--json puts a report on stdout: send the events to a file with --out")
    stdout = sys.stdout.buffer
    # A user's function may print: stdout belongs to the result.
    with contextlib.redirect_stdout(sys.stderr):
        if engine == "spark":
            from pellucid.internal.cli.spark import Places, json_line, run_on_spark

            named = {"keep": rows.keep, "formats": rows.formats, "nan": nan, "nulls": rows.nulls, "bad": aside}
            named["members"] = members
            if aside.address is not None:
                refuse_bad_place(aside, sinks)
                sinks = {**sinks, "bad": from_environment(aside.address)}
            given = Places(inputs_given(graph, inputs), sinks, key, value, in_format, out_format, **named)
            done = run_on_spark(p, given, settings, stdout)
        else:
            files = files_given(graph, inputs)
            report = run_here(
                graph, files, sinks, limit, rows, in_format, out_format, exists or "overwrite", chunk, cores, stdout,
                _verbose(), measure,
            )  # fmt: skip
    if engine == "spark":
        tell(done.line())
        if as_json:
            click.echo(json_line(done))
        return
    if not as_json:
        tell_left_out([name for name, _ in graph.outputs], sinks)
    for line in report.told:
        tell(line)
    tell(report.line())
    if as_json:
        click.echo(json.dumps({"pellucid": 1, "verb": "run", **report.document(graph.name, inputs or ("-",), sinks)}))


def _of_spark(settings: SparkOptions) -> list[str]:
    """The options that were given and that only Spark has."""
    return [name for name in settings.given() if name not in ("order", "late")]


def _refuse_local_options() -> None:
    """Options that only the local engine has."""
    context = click.get_current_context()
    reasons = {
        "limit": "Spark has no first rows",
        "chunk": "Spark chooses how many rows go at a time",
        "cores": "Spark uses those of --master",
        "short": "on Spark the rows of several inputs are lined up by --order, not by their number",
    }
    for name, why in reasons.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            flag = "--head" if name == "limit" else f"--{name}"
            raise UsageError(f"{flag} goes with the local engine: {why}")


def _verbose() -> bool:
    context = click.get_current_context()
    return bool(context.find_root().params.get("verbose"))
