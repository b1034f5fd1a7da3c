"""``pellucid net committable|cascade|cycles``: questions about the logs of real transactions."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import DataError, UsageError
from pellucid.internal.cli.progress import count_text, tell
from pellucid.internal.cli.repeated import gone

if TYPE_CHECKING:
    import pyarrow as pa

    from pellucid.atomic.logs import Committable, Cycles
    from pellucid.atomic.logs.answers import Cascade
    from pellucid.atomic.logs.tables import Log, Names

_SHOWN = 20  # rows that are printed
_FORMS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """What all three take."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr."),
        *(gone(name, "logs are read on this machine") for name in ("--on", "--master", "--conf", "--work", "--fit")),
        click.option(
            "--unknown", type=click.Choice(["block", "refuse"]), default="block", show_default=True,
            help="A dependency on an id that is in no row of TRANSACTIONS: its readers cannot commit; or an error.",
        ),
        click.option("--who", default="who", show_default=True, metavar="COLUMN", help="Who took a message."),
        click.option("--needs", default="needs", show_default=True, metavar="COLUMN", help="Of whom."),
        click.option("--status", default="status", show_default=True, metavar="COLUMN", help="Of the transaction."),
        click.option("--id", "key", default="id", show_default=True, metavar="COLUMN", help="Of the transaction."),
        click.option("--out", metavar="FILE", help="All rows: .parquet, .csv or .jsonl."),
        click.argument("dependencies", metavar="DEPENDENCIES"),
        click.argument("transactions", metavar="TRANSACTIONS"),
    ):  # fmt: skip
        command = option(command)
    return command


@dataclass
class _Asked:
    """The tables."""

    verb: str
    transactions: str
    dependencies: str
    names: Names
    unknown: str
    out: str | None
    as_json: bool
    nothing: str = "none"  # what is said of a way that is none

    @classmethod
    def of(cls, verb: str, options: dict[str, Any]) -> _Asked:
        from pellucid.atomic.logs import Names

        take = options.pop
        names = Names(take("key"), take("status"), take("needs"), take("who"))
        made = cls(verb, names=names, **options)
        if made.out is not None and _form(made.out) is None:
            raise UsageError(f"--out {made.out}: expected a name that ends in .parquet, .csv or .jsonl")
        if made.out is not None:
            for what, path in (("TRANSACTIONS", made.transactions), ("DEPENDENCIES", made.dependencies)):
                _refuse_own(made.out, what, path)
        return made

    def read(self) -> Log:
        """The log."""
        from pellucid.atomic.logs import read_log

        return read_log(self.transactions, self.dependencies, names=self.names, unknown=self.unknown)


def _refuse_own(out: str, what: str, path: str) -> None:
    """Whether the answer would be written over a table, by whatever name, or into its folder."""
    with contextlib.suppress(OSError, ValueError):  # one of them is not there, or not on this machine
        if os.path.exists(out) and os.path.samefile(out, path):
            raise UsageError(f"--out {out}: is the file of {what} ({path}): choose another name, or it would be lost")
        if os.path.isdir(path):
            folder, inside = os.path.realpath(path), os.path.dirname(os.path.realpath(out))
            if os.path.commonpath([folder, inside]) == folder:
                raise UsageError(
                    f"--out {out}: is in the folder of {what} ({path}): choose another place, or it would be a part of "
                    "the table"
                )


@click.command("committable")
@_common
@click.option("--why", metavar="ID", help="Whom this one waits for: a way from one that is not to be committed.")
def committable_verb(why: str | None, **options: Any) -> None:
    """The largest set of pending transactions that can commit now, in the order in which its parts can.

    TRANSACTIONS has the columns id and status (active, pending, committed, aborted), DEPENDENCIES needs and who: who
    took a message of needs. What can commit is what is pending, minus whatever depends, through any number of others,
    on one that is neither pending nor committed. It falls into least sets; those of one level can commit at the same
    time.

    \b
    Examples:
      pellucid net committable transactions.parquet dependencies.parquet --out now.parquet
      pellucid net committable transactions.csv dependencies.csv --why t17

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3), 2 bad usage or bad input.
    """
    asked = _Asked.of("committable", options)
    from pellucid.atomic.logs import Committable
    from pellucid.atomic.logs.tables import WORDS

    begin = time.monotonic()
    log = asked.read()
    found = Committable(log)
    more = {} if why is None else {"why": found.why(_value(log, why))}
    if why is not None:
        word = WORDS[log.status[log.number(_value(log, why))]]
        asked.nothing = "nothing: it can commit" if word == "pending" else f"nothing: it is {word}, not pending"
    _report(asked, found, begin, more)


@click.command("cascade")
@_common
@click.option("--abort", multiple=True, required=True, metavar="ID", help="What aborts; repeat it for more.")
@click.option("--path", "path_to", metavar="ID", help="A shortest way by which the abort reaches this one.")
def cascade_verb(abort: tuple[str, ...], path_to: str | None, **options: Any) -> None:
    """What is undone if these transactions abort: they, and whoever took a message of one that is undone.

    \b
    Examples:
      pellucid net cascade transactions.parquet dependencies.parquet --abort t17 --out undone.parquet
      pellucid net cascade transactions.csv dependencies.csv --abort t17 --path t99

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3; if the abort reaches it, it
    would have to be undone), 2 bad usage or bad input.
    """
    asked = _Asked.of("cascade", options)
    from pellucid.atomic.logs.answers import Cascade, roots_of

    begin = time.monotonic()
    log = asked.read()
    found = Cascade(log, roots_of(log, [_value(log, one) for one in abort]))
    more = {} if path_to is None else {"path": found.path(_value(log, path_to))}
    asked.nothing = f"none: the abort does not reach {path_to}"
    _report(asked, found, begin, more)


@click.command("cycles")
@_common
def cycles_verb(**options: Any) -> None:
    """Transactions that depend on each other: they commit together or not at all.

    \b
    Examples:
      pellucid net cycles transactions.parquet dependencies.parquet

    Exit codes: 0 done, 1 a committed one depends on one that is not (the log breaks A3), 2 bad usage or bad input.
    """
    asked = _Asked.of("cycles", options)
    from pellucid.atomic.logs import Cycles

    begin = time.monotonic()
    found = Cycles(asked.read())
    _report(asked, found, begin, {})


VERBS = (committable_verb, cascade_verb, cycles_verb)


# ---------------------------------------------------------------- ids


def _value(log: Log, text: str) -> Any:
    """An id as the log has it."""
    import pyarrow as pa

    kind = log.ids.type
    if pa.types.is_integer(kind):
        return _number(text)
    return text.encode() if pa.types.is_large_binary(kind) else text


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r}: the ids of this log are whole numbers") from None


# ---------------------------------------------------------------- what is said


def _report(asked: _Asked, found: Committable | Cascade | Cycles, begin: float, more: dict[str, list[Any]]) -> None:
    table, counts = found.table(), found.counts()
    if asked.out is not None:
        _write(asked.out, table)
    rows = table.slice(0, _SHOWN).to_pylist() if asked.out is None else []
    seconds, broken = time.monotonic() - begin, found.broken_ids()
    for words in _warnings(counts, broken):
        tell(f"pellucid: warning: {words}")
    if asked.as_json:
        document: dict[str, Any] = {"pellucid": 1, "verb": f"net {asked.verb}", "counts": counts, **more}
        document |= {"broken": broken} if counts.get("broken") else {}
        document |= {"out": asked.out} if asked.out is not None else {"rows": rows, "more": table.num_rows - len(rows)}
        document["seconds"] = round(seconds, 3)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))
    else:
        for line in _table(rows):
            click.echo(line)
        if rows and table.num_rows > len(rows):
            click.echo(f"… {table.num_rows - len(rows):,} more rows: --out FILE has all of them")
        for what, way in more.items():
            click.echo(f"{what}: {' ⇝ '.join(map(str, way)) or asked.nothing}")
        click.echo(("\n" if rows else "") + _line(asked, counts))
        needs = f"{counts['dependencies']:,} dependenc{'y' if counts['dependencies'] == 1 else 'ies'}"
        click.echo(f"{count_text(counts['transactions'], 'transaction')}, {needs}, {seconds:.1f} s")
    if counts.get("broken"):
        raise click.exceptions.Exit(1)


def _line(asked: _Asked, c: dict[str, int]) -> str:
    """The answer in a sentence."""
    if asked.verb == "committable":
        on = f"{count_text(c['sets'], 'set')} on {count_text(c['levels'], 'level')}"
        sets = f", as {on} (the largest has {c['largest set']:,})" if c["sets"] else ""
        return (
            f"{c['committable']:,} of {c['pending']:,} pending can commit{sets}; {c['blocked']:,} cannot yet, or never"
        )
    if asked.verb == "cascade":
        undone, back = c["undone"] - c["committed undone"], c["committed undone"]
        done = f"; {back:,} committed, and would have to be undone" if back else ""
        return (
            f"{undone:,} {'is' if undone == 1 else 'are'} undone: {c['asked']:,} asked for, the farthest "
            f"{count_text(c['farthest'], 'step')} away{done}"
        )
    if not c["cycles"]:
        return "none: no transactions depend on each other"
    inside = f"{count_text(c['in cycles'], 'transaction')} (the largest has {c['largest']:,})"
    return f"{count_text(c['cycles'], 'cycle')} with {inside}"


def _warnings(c: dict[str, int], broken: list[Any]) -> Iterator[str]:
    if c["unknown"]:
        yield (
            f"{c['unknown']:,} id{' of DEPENDENCIES is' if c['unknown'] == 1 else 's of DEPENDENCIES are'} in no row "
            "of TRANSACTIONS: neither pending nor committed, so that whoever needs one cannot commit"
        )
    if c["self-dependencies"]:
        many = "y" if c["self-dependencies"] == 1 else "ies"
        yield f"{c['self-dependencies']:,} dependenc{many} of a transaction on itself left out: it asks for nothing"
    if c["repeated"]:
        rows = "row of TRANSACTIONS says" if c["repeated"] == 1 else "rows of TRANSACTIONS say"
        yield f"{c['repeated']:,} {rows} once more what another row said"
    if c.get("broken"):
        yield (
            f"{c['broken']:,} committed transaction{' depends' if c['broken'] == 1 else 's depend'} on one that is "
            f"not: the log breaks A3 (what is committed is closed under what it needs): {', '.join(map(str, broken))}"
            f"{', …' if c['broken'] > len(broken) else ''}"
        )


def _table(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *(["" if row[name] is None else str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _form(path: str) -> str | None:
    return _FORMS.get(os.path.splitext(path.rstrip("/"))[1].lower())


def _write(path: str, table: pa.Table) -> None:
    """Whole, or not at all."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from pellucid.internal.base.files import output_draft

    if os.path.isdir(path):
        raise DataError(f"--out {path}: is a folder: expected the name of a file to write")
    target = os.path.realpath(path)
    try:
        with output_draft(target) as draft:
            if _form(path) == "parquet":
                pq.write_table(table, draft.file)
            elif _form(path) == "csv":
                pacsv.write_csv(table, draft.file)
            else:
                for batch in table.to_batches(max_chunksize=1 << 16):
                    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in batch.to_pylist())
                    draft.file.write("".join(f"{line}\n" for line in lines).encode())
            draft.place(target)
    except OSError as error:
        raise DataError(f"--out {path}: cannot be written: {error.strerror or error}") from None
