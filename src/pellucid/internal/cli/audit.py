"""``pellucid audit``: did a recorded run keep the promise?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import DataError, UsageError
from pellucid.internal.address import from_environment
from pellucid.internal.base.small import read_small
from pellucid.internal.cli.repeated import code_of, gone, renamed

if TYPE_CHECKING:
    from pellucid.failures.audit import Audit


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
      pellucid run pipeline.py:totals --in events.csv --out totals.csv --pushes 10000 --state state/ --record
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
    from pellucid.failures.audit.words import Violation
    from pellucid.failures.crash.contents import difference, is_table, read_existing
    from pellucid.sinks.address import parsed

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
    from pellucid.failures.audit.recorded import read_trace
    from pellucid.failures.picture.recorded import from_recorded
    from pellucid.failures.picture.svg import spacetime_svg

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
