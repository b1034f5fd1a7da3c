"""``pellucid run --pushes``: the options, the line of progress and the report; the work is `engine.epochs`."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError
from pellucid.internal.cli.progress import Progress, TellPlain, count_text, rate_text, tell
from pellucid.internal.cli.signals import checkpoint, stopping_means
from pellucid.internal.secrets import redact

if TYPE_CHECKING:
    from pellucid.internal.cli.running.given import Rows
    from pellucid.internal.engine.epochs.generation import Report
    from pellucid.internal.graph.model import Graph


@dataclass(frozen=True)
class EpochOptions:
    """The options that only a run with epochs has; None or empty where they were not given.

    >>> EpochOptions(pushes=100, state="state").wanted("local")
    True
    >>> EpochOptions(pushes=100).wanted("local")
    Traceback (most recent call last):
    pellucid.errors.UsageError: --pushes needs a folder for the snapshots: give --state FOLDER
    """

    pushes: int | None = None
    every: float | None = None
    state: str | None = None
    workers: int | None = None
    cut: tuple[str, ...] = ()
    record: bool = False
    snapshots: int | None = None
    patience: float | None = None
    retries: int | None = None
    from_start: bool = False
    changed: tuple[str, ...] = ()

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> EpochOptions:
        """Take these options out of all."""
        return cls(**{field.name: options.pop(field.name) for field in fields(cls)})

    def wanted(self, engine: str) -> bool:
        """Whether this is a run with epochs; refused where the options do not go together."""
        given = [f.name.replace("_", "-") for f in fields(self) if getattr(self, f.name) not in (None, (), False)]
        if engine == "spark":  # there it is for outputs that commit together
            given = [name for name in given if name != "patience"]
        if not given:
            return False
        if engine != "local":
            raise UsageError(
                f"--{given[0]} goes with the local engine: with --on spark give --stream --checkpoint FOLDER"
            )
        for name in ("every", "patience"):
            if getattr(self, name) is not None and math.isnan(getattr(self, name)):
                raise UsageError(f"--{name} nan: expected a number of seconds")
        if self.pushes is None and self.every is None:
            raise UsageError(f"--{given[0]} is for a run with epochs: give --pushes N, or --every SECONDS")
        if self.state is None:
            raise UsageError(f"--{given[0]} needs a folder for the snapshots: give --state FOLDER")
        return True

    def settings(self) -> dict[str, Any]:
        """What was given, for `Settings`."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "state"}
        return {name: value for name, value in found.items() if value is not None}


def run_with_epochs(
    graph: Graph,
    inputs: dict[str | None, str | tuple[str, ...]],
    outputs: dict[str, str],
    in_format: str | None,
    out_format: str | None,
    rows: Rows,
    chunk: int,
    limit: int | None,
    exists: str | None,
    options: EpochOptions,
    as_json: bool,
    members: dict[str, str] | None = None,
) -> None:
    """Run, say what happened, and how to go on."""
    from pellucid.internal.engine.epochs import run_epochs
    from pellucid.internal.engine.explain import why_plain

    progress = _Progress()
    progress.tell_plain = TellPlain(why_plain(graph))

    def say(text: str) -> None:
        progress.clear()
        tell(text)

    assert options.state is not None
    drops = stopping_means("the epoch that was open is dropped; the same command goes on")
    try:
        with contextlib.redirect_stdout(sys.stderr), drops:
            report = run_epochs(
                graph, inputs, outputs, state=options.state, say=say, progress=progress.show,
                idle=checkpoint, key=rows.key or None, order=rows.order or None, late=rows.late, value=rows.value,
                in_format=in_format, out_format=out_format, chunk=chunk, limit=limit, short=rows.short, exists=exists,
                keep=rows.keep or None, time_format=rows.formats or None, nan=rows.nan, bad=rows.bad.address,
                nulls=rows.nulls or None, max_bad=rows.bad.most, members=members, **options.settings(),
            )  # fmt: skip
    finally:
        progress.clear()
    progress.tell_plain()
    tell(_line(report, members))
    if as_json:
        click.echo(
            json.dumps({"pellucid": 1, "verb": "run", **_document(graph.name, inputs, outputs, options.state, report)})
        )


class _Progress(Progress):
    """The usual line, with the epoch."""

    tell_plain = TellPlain(None)

    def show(self, events: int, share: float | None, epoch: int) -> None:
        """Draw it again, if it is time to."""
        if events:
            self.tell_plain()
        self.label = f"epoch {epoch:,}"
        self.update(events, share)


def _line(report: Report, members: dict[str, str] | None = None) -> str:
    """One line for a person; of a run that went on, what is of all of it and what is of this command, each said."""
    new, again = report.pushes - report.began_at, report.resumed_from is not None
    words = ["pushes in", "rows out"] if again else ["in", "out"]
    parts = [f"{report.pushes:,} {words[0]}", f"{_rows_out(report.rows, members)} {words[1]}"]
    parts.append(count_text(report.epochs, "epoch"))
    if report.bad is not None:
        parts.insert(2, f"{report.bad:,} bad")
    if report.forgotten:
        parts.insert(2, f"{count_text(sum(report.forgotten.values()), 'key')} forgotten")
    if report.late:
        parts.insert(2, f"{sum(report.late.values()):,} late")
    now = [f"{report.seconds:.2f} s", rate_text(report.rate)]
    if report.recoveries:
        now.insert(0, f"{report.recoveries} recover{'y' if report.recoveries == 1 else 'ies'}")
    if report.undone:
        now.insert(0, f"undone {report.undone} time{'s' * (report.undone > 1)}")
    if not again:
        return ", ".join([*parts, *now])
    since = f"now, after epoch {report.resumed_from:,}"
    return f"in all {', '.join(parts)}; {since}: {', '.join([f'{new:,} pushes in', *now])}"


def _rows_out(rows: dict[str, int], members: dict[str, str] | None) -> str:
    """How many rows came out, those of an output that several members take once; each where they differ.

    >>> _rows_out({"a": 5, "b": 5, "c": 2}, {"a": "x", "b": "x", "c": "y"}), _rows_out({"x": 5, "y": 2}, None)
    ('7', '7')
    >>> _rows_out({"a": 5, "b": 4}, {"a": "x", "b": "x"})
    '5 (a: 5, b: 4)'
    """
    takes, most, differ = members or {}, dict[str, int](), False
    for name, many in rows.items():
        output = takes.get(name, name)
        differ |= most.get(output, many) != many
        most[output] = max(most.get(output, 0), many)
    each = f" ({', '.join(f'{name}: {many:,}' for name, many in rows.items())})" if differ else ""
    return f"{sum(most.values()):,}{each}"


def _document(
    name: str, inputs: dict[str | None, str | tuple[str, ...]], outputs: dict[str, str], state: str, report: Report
) -> dict[str, Any]:
    return {
        "pipeline": name,
        "in": [redact(one) for path in inputs.values() for one in ([path] if isinstance(path, str) else path)],
        "out": {output: redact(place) for output, place in outputs.items()},
        "state": state,
        "pushes": report.pushes,
        "pushes_now": report.pushes - report.began_at,
        "events_out": report.rows,
        **({} if report.bad is None else {"bad": report.bad}),
        **({"forgotten": report.forgotten} if report.forgotten else {}),
        **({"late": report.late} if report.late else {}),
        "epochs": report.epochs,
        "resumed_from": report.resumed_from,
        "recoveries": report.recoveries,
        **({"undone": report.undone} if report.undone else {}),
        "recovery_seconds": [round(s, 6) for s in report.recovery_seconds],
        "trace": report.trace,
        "seconds": round(report.seconds, 6),
        "events_per_second": round(report.rate, 1),
    }
