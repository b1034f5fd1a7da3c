"""``pellucid crash``: kill a run again and again, and see whether it shows."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import DataError, UsageError
from pellucid.internal.address import from_environment
from pellucid.internal.base.files import read_small, scratch_folder
from pellucid.internal.cli.run import as_words, flags, read_flags
from pellucid.internal.cli.signals import Stopped, checkpoint
from pellucid.internal.cli.terminal import code_of, gone, once, renamed, tell
from pellucid.internal.request import EPOCHS, asked, by_time

if TYPE_CHECKING:
    from pellucid.failures.audit import Audit


_OWN = {
    "pushes": "Pushes in an epoch; a twentieth of the input by default.",
    "chunk": "Rows at a time; a quarter of an epoch by default.",
}


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
@flags("pushes", "chunk", "key", "value", "short", "nan", "workers", "cut", helps=_OWN)
@click.option("--keep-going", is_flag=True, help="Do not end with the first run that is wrong.")
@click.option("--folder", "kept", metavar="FOLDER", help="Leave all runs, their logs and traces here.")
@click.option("--json", "as_json", is_flag=True, help="Put the answer on stdout as JSON.")
@renamed("--epochs", "--epoch-size")
@renamed("--pushes", "--epoch-size")
@renamed("--short", "--uneven")
@renamed("--keep", "--folder")
def crash(
    target: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    kills: int,
    seed: int | None,
    points: tuple[str, ...],
    replay: str | None,
    keep_going: bool,
    kept: str | None,
    as_json: bool,
    **given: Any,
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
    from pellucid.failures.crash import load_rounds
    from pellucid.failures.testing import command_for, refuse_wall_clock
    from pellucid.internal.load import load_pipeline

    graph = load_pipeline(target).graph
    refuse_wall_clock(graph)
    pushes, chunk = given.pop("pushes"), given.pop("chunk")
    request = asked(EPOCHS, read_flags(graph, given), command=True)
    if graph.timed:
        by_time(graph, request, EPOCHS)
    names = [name for name, _ in graph.outputs]
    pairs: list[tuple[str, str]] = []
    for text in outputs:
        name, equals, place = text.partition("=")
        if equals and name in names:
            pairs.append((name, from_environment(place)))
        elif len(names) == 1:
            pairs.append((names[0], from_environment(text)))
        else:
            raise UsageError(
                f"--out {text}: {graph.name} has several outputs ({', '.join(names)}): write {names[0]}={text}"
            )
    places = once(pairs, "--out")
    rounds = None
    if replay is not None:
        seed, rounds = load_rounds(replay)
    folder = Path(kept) if kept else Path(scratch_folder("pellucid-crash-"))
    if kept and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--folder {kept}: is not empty: choose a folder of its own")
    stays = True
    try:
        command = command_for(
            target,
            inputs,
            names,
            places,
            folder,
            pushes=pushes,
            chunk=chunk,
            more=tuple(as_words(request)),
            idle=checkpoint,
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


# ``pellucid audit``: did a recorded run keep the promise?


@click.command()
@click.argument("place", metavar="DIR")
@gone("--on", "a run is audited on this machine")
@gone("--engine", "a run is audited on this machine")
@gone("--master", "a run is audited on this machine")
@renamed("--limit", "--violations")
@click.option(
    "--against",
    multiple=True,
    metavar="[OUTPUT=]PLACE",
    help="The output of a failure-free run: that of this run must be the same.",
)
@click.option("--picture", metavar="FILE.svg", help="Draw the run in space and time, with what is wrong.")
@click.option(
    "--violations",
    "limit",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="How many violations of each kind to tell.",
)
@click.option("--json", "as_json", is_flag=True, help="Put the answer on stdout as JSON.")
def audit(
    place: str,
    against: tuple[str, ...],
    picture: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Audit a recorded run: FIFO, alignment, snapshots, recoveries, commits, replays, and the explanation of its
    crashes; or a network of places: messages, takes, commits, aborts, sets that commit together.

    DIR is the state folder of a run with --record, a recorded trace (Parquet), or the folder of a network of places
    (pellucid net new), which may be running. Each check can say no, and then says
    which task, step and message, and why. Exit code 0 if all hold, 1 if one does not.

    \b
    Examples:
      pellucid run pipeline.py:totals --in events.csv --out totals.csv --epoch-size 10000 --state state/ --record
      pellucid audit state/
      pellucid audit state/ --against totals-without-crash.csv --picture run.svg
    """
    from pellucid.failures.audit import audit as audit_here

    if "://" not in place and (Path(place) / "network.toml").is_file():
        _network(place, against, picture, limit, as_json)
        return
    found = audit_here(place, limit=limit)
    if against:
        found = _compared(found, place, against)
    if picture is not None:
        _draw(found, place, picture)
    click.echo(found.to_json() if as_json else str(found))
    raise click.exceptions.Exit(code_of([found.status]))


def _network(place: str, against: tuple[str, ...], picture: str | None, limit: int, as_json: bool) -> None:
    """The logs of a network of places."""
    from pellucid.atomic.places.audit import audit as audit_places

    if against:
        raise UsageError(f"--against: {place} is a network of places, whose logs are audited on their own")
    found = audit_places(place, limit=limit)
    if picture is not None:
        if found.replay is None:
            why = next((note for note in found.notes if note.startswith("not replayed")), "it is not small")
            raise UsageError(f"--picture: the run cannot be drawn: {why}")
        _write(picture, found.replay.picture(place))
    click.echo(found.to_json() if as_json else str(found))
    raise click.exceptions.Exit(code_of([found.status]))


def _compared(found: Audit, place: str, against: tuple[str, ...]) -> Audit:
    """The same answer, with the outputs compared."""
    from pellucid.failures.audit.findings import Violation
    from pellucid.failures.crash import difference, is_table, read_existing
    from pellucid.sinks.interface import parsed

    try:
        outputs: dict[str, str] = read_small(Path(place) / "run.json")["places"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"--against: {place} does not say where its run has put its output: expected the state folder of a run "
            "(with run.json)"
        ) from None
    wrong = []
    for given in against:
        name, equals, other = given.partition("=")
        if not (equals and name in outputs):
            if len(outputs) > 1:
                raise UsageError(
                    f"--against {given}: which output? The run has {', '.join(outputs)}: write "
                    f"{next(iter(outputs))}={given}"
                )
            name, other = next(iter(outputs)), given
        other = from_environment(other, "against")
        parsed(other, "against")
        if is_table(other) != is_table(outputs[name]):
            raise UsageError(
                f"--against {given}: the rows of a table and the bytes of a file cannot be compared: output "
                f"{name!r} of this run is {outputs[name]}"
            )
        # the run's own address is written down without its password
        wanted, had = read_existing(other), read_existing(outputs[name], login=other)
        if wanted is None or had is None:
            where, whose = (other, "the failure-free run") if wanted is None else (outputs[name], "this run")
            what = "table" if is_table(other) else "file"
            raise DataError(f"{where}: there is no such {what}: expected the output of {whose}")
        said = difference(wanted, had, name)
        if said is not None:
            wrong.append(Violation("output-differs", f"sink.{name}", 0, -1, other=said))
    counts = {**found.counts, "output": len(wrong)} if wrong else found.counts
    return replace(found, checks=(*found.checks, "output"), counts=counts, violations=(*found.violations, *wrong))


_DRAWN = 20_000  # steps; a picture of more tells nobody anything


def _draw(found: Audit, place: str, picture: str) -> None:
    from pellucid.failures.audit.record import read_trace
    from pellucid.failures.picture import from_recorded, spacetime_svg

    if "://" in place:
        raise UsageError("--picture: the trace must be on this machine")
    trace = read_trace(place)
    if len(trace) > _DRAWN:
        raise UsageError(
            f"--picture: the run has {len(trace):,} steps, more than {_DRAWN:,}: record a shorter one to look at"
        )
    rows: list[dict[str, Any]] = trace.to_pylist()
    wrong = {(v.task, v.index): v.why for v in found.violations if v.index >= 0}
    svg = spacetime_svg(from_recorded(rows, wrong=wrong), title=place)
    _write(picture, svg)


def _write(picture: str, svg: str) -> None:
    try:
        Path(picture).write_text(svg, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{picture}: cannot be written: {error.strerror or error}") from None
