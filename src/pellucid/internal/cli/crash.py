"""``pellucid crash``: kill a run again and again, and see whether it shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from pellucid.errors import UsageError
from pellucid.internal.address import from_environment
from pellucid.internal.base.files import scratch_folder
from pellucid.internal.cli.progress import tell
from pellucid.internal.cli.repeated import code_of, columns, once, renamed
from pellucid.internal.cli.signals import Stopped, checkpoint


@click.command()
@click.argument("target", metavar="FILE[:NAME]")
@click.option("--in", "inputs", multiple=True, required=True, metavar="[SOURCE=]FILE", help="Events to read.")
@click.option(
    "--out",
    "outputs",
    multiple=True,
    metavar="[OUTPUT=]PLACE",
    help="A place like the one you use (x.csv, sqlite:x.db#t, postgresql://…#t); the test writes to its own. JSON "
    "Lines by default.",
)
@click.option(
    "--kills", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="How many kills must hit."
)
@click.option("--seed", type=int, metavar="N", help="Draw the same kills as another time; a new one by default.")
@click.option(
    "--points",
    multiple=True,
    metavar="WHERE",
    help="Only there: snapshot, commit, recovery, work, finish, moment, or a point's name. Repeat it for more.",
)
@click.option("--replay", metavar="FILE", help="Play a schedule again that an earlier test has left.")
@click.option(
    "--pushes", type=click.IntRange(min=1), metavar="N", help="Pushes in an epoch; a twentieth of the input by default."
)
@click.option(
    "--chunk", type=click.IntRange(min=1), metavar="N", help="Rows at a time; a quarter of an epoch by default."
)
@click.option("--key", "keys", multiple=True, metavar="COLUMN,…", help="As for run.")
@click.option("--value", metavar="COLUMN", help="As for run.")
@click.option("--short", type=click.Choice(["fail", "silent"]), default="fail", help="As for run.")
@click.option("--nan", type=click.Choice(["fail", "keep"]), default="fail", help="As for run.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="As for run.")
@click.option("--cut", multiple=True, metavar="STEP", help="As for run.")
@click.option("--keep-going", is_flag=True, help="Do not end with the first run that is wrong.")
@click.option("--folder", "kept", metavar="FOLDER", help="Leave all runs, their logs and traces here.")
@click.option("--json", "as_json", is_flag=True, help="Put the answer on stdout as JSON.")
@renamed("--epochs", "--pushes")
@renamed("--keep", "--folder")
def crash(
    target: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    kills: int,
    seed: int | None,
    points: tuple[str, ...],
    replay: str | None,
    pushes: int | None,
    chunk: int | None,
    keys: tuple[str, ...],
    value: str | None,
    short: str,
    nan: str,
    workers: int | None,
    cut: tuple[str, ...],
    keep_going: bool,
    kept: str | None,
    as_json: bool,
) -> None:
    """Run a pipeline under kill -9 of tasks, coordinator and the whole tree, and compare with the failure-free run.

    Kills come at chosen points of the protocol (before and after a snapshot is written, between a sink's write and its
    commit, during a recovery) and at random moments. Whenever the command dies it is started again as it was. The
    output must be that of the failure-free run, byte by byte, and every recorded trace must pass the audit. Exit code 1
    if not; the schedule is kept and can be played again. Exit code 0 says that these kills did not show (bounded: it is
    no proof for others), 3 that none hit.

    \b
    Examples:
      pellucid crash pipeline.py:totals --in events.csv --kills 50
      pellucid crash pipeline.py:totals --in events.csv --key user --out sqlite:t.db#totals --points commit --kills 20
      pellucid crash pipeline.py:totals --in events.csv --replay crash-4711/schedule.json
    """
    from pellucid.failures.crash import crash as crash_it
    from pellucid.failures.crash.schedule import load_rounds
    from pellucid.failures.testing import command_for, refuse_wall_clock
    from pellucid.internal.load import load_pipeline

    graph = load_pipeline(target).graph
    refuse_wall_clock(graph)
    if graph.timed and (cut or (workers or 1) > 1):
        word = "--cut" if cut else "--workers"
        raise UsageError(
            f"{word} does not go with {graph.name}, which works by event time: such a pipeline is one worker, in which "
            "the clock moves"
        )
    names = [name for name, _ in graph.outputs]
    pairs: list[tuple[str, str]] = []
    for given in outputs:
        name, equals, place = given.partition("=")
        if equals and name in names:
            pairs.append((name, from_environment(place)))
        elif len(names) == 1:
            pairs.append((names[0], from_environment(given)))
        else:
            raise UsageError(
                f"--out {given}: {graph.name} has several outputs ({', '.join(names)}): write {names[0]}={given}"
            )
    places = once(pairs, "--out")
    rounds = None
    if replay is not None:
        seed, rounds = load_rounds(replay)
    folder = Path(kept) if kept else Path(scratch_folder("pellucid-crash-"))
    if kept and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--folder {kept}: is not empty: choose a folder of its own")
    key = columns(keys, "--key")
    more = [
        *(["--key", ",".join(key)] if key else []),
        *(["--value", value] if value else []),
        *(["--workers", str(workers)] if workers else []),
    ]
    more += ["--short", short] if short != "fail" else []
    more += ["--nan", nan] if nan != "fail" else []
    more += [word for step in cut for word in ("--cut", step)]
    stays = True
    try:
        command = command_for(
            target, inputs, names, places, folder, pushes=pushes, chunk=chunk, more=tuple(more), idle=checkpoint
        )
        report = crash_it(
            command,
            folder,
            kills=kills,
            seed=seed,
            points=points,
            replay=rounds,
            keep_going=keep_going,
            say=tell,
            idle=checkpoint,
        )
        stays = kept is not None or report.refuted
    except (UsageError, Stopped):
        stays = kept is not None
        raise
    finally:
        if not stays:
            shutil.rmtree(folder, ignore_errors=True)
    click.echo(json.dumps({"pellucid": 1, "verb": "crash", **report.document()}) if as_json else str(report))
    # these kills were asked for, and no others: that nothing shows is what was asked
    raise click.exceptions.Exit(code_of([report.status], bounded_is_enough=True))
