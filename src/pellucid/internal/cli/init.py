"""``pellucid init``: a small project that runs at once."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from pellucid.errors import UsageError
from pellucid.internal.cli.terminal import count_text, tell

if TYPE_CHECKING:
    from pellucid.internal.data.describe import TableFound

# ``pellucid schema``: what a file holds, as a record class in Python.

_FORMATS = click.Choice(["csv", "tsv", "jsonl", "parquet", "arrow"])


def tell_bad(found: TableFound) -> None:
    """Name the rows that the class does not count."""
    for place in found.left_out:
        tell(f"pellucid: left out: {place}")
    more = found.bad - len(found.left_out)
    if more:
        tell(f"pellucid: left out: {count_text(more, 'more row')} that cannot be read")


@click.command()
@click.argument("path", metavar="FILE")
@click.option("--name", metavar="NAME", help="The name of the class; else one is made from that of the file.")
@click.option("--out", metavar="FILE.py", help="Write it there, if nothing is there; else to standard output.")
@click.option("--in-format", "form", type=_FORMATS, help="Instead of the ending of the name.")
def schema(path: str, name: str | None, out: str | None, form: str | None) -> None:
    """Look at every row of a file, a folder or a pattern, and write the record class for it: a field for each column,
    its type, how many nulls it has. A row that cannot be read, as one with too many fields, is left out, and named.

    A column that cannot be part of an event is named in a comment; it can come along with --keep-columns.

    \b
    Examples:
      pellucid schema flights.parquet
      pellucid schema 'data/2013-*.csv' --name Flight --out flight.py
    """
    if name is not None and not name.isidentifier():
        raise UsageError(f"--name {name}: is no name that a class in Python can have")
    if path == "-":
        raise UsageError("schema looks at files: put what comes from the pipe in a file first")
    from pellucid.internal.data.describe import describe, record_source

    found = describe(path, form)
    tell_bad(found)
    text = record_source(found, name)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"--out {out}: is there already: nothing was written; give another name") from None
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror or error}") from None


_PIPELINE = '''\
"""Running totals of what each user paid, without refunds and without payments that failed."""

from datetime import datetime
from typing import NamedTuple

from pellucid import Stream, check, pipeline


class Payment(NamedTuple):
    user: str
    at: datetime
    cents: int | None  # None: it failed


class Total(NamedTuple):
    at: datetime
    cents: int


def added(total: Total, payment: Payment) -> Total:
    return Total(payment.at, total.cents + (payment.cents or 0))


@pipeline
def totals(payments: Stream[Payment]) -> Stream[Total]:
    paid = payments.filter(lambda p: p.cents is not None and p.cents > 0)
    return paid.cumulate(added, start=Total(datetime(1970, 1, 1), 0))


# For every stream of payments there can be: one of these is true, and one is not. Ask which: pellucid check pipeline.py
check.properties(
    totals,
    {
        "a total is never negative": "G (out -> out.value.cents >= 0)",
        "every payment counts": "G (payments -> out)",
    },
)


@pipeline
def running(cents: Stream[int]) -> Stream[int]:
    return cents.filter(lambda c: c > 0).cumulate(lambda total, c: total + c, start=0)
'''

_EVENTS = """\
user,at,cents
ada,2026-01-05T09:00:00,500
bob,2026-01-05T09:12:30,120
ada,2026-01-05T10:40:00,-500
bob,2026-01-05T11:00:00,
ada,2026-01-06T08:15:00,250
bob,2026-01-06T17:59:59,80
"""

_TEST = """\
from datetime import datetime

from pipeline import Payment, Total, totals

MORNING, NOON = datetime(2026, 1, 5, 9), datetime(2026, 1, 5, 12)


def test_refunds_and_failures_do_not_count() -> None:
    payments = [Payment("ada", MORNING, 500), Payment("ada", NOON, -500), Payment("ada", NOON, None)]
    assert totals(payments) == [Total(MORNING, 500)]


def test_push_by_push() -> None:
    assert totals.trace([Payment("ada", MORNING, None), Payment("ada", NOON, 2)]) == [[], [Total(NOON, 2)]]
"""

_README = """\
# A pipeline

    pellucid show pipeline.py:totals                        # draw it
    pellucid run pipeline.py:totals --in events.csv         # one total of all users
    pellucid run pipeline.py:totals --in events.csv --key user --keep-columns all --out totals.parquet
    pellucid check pipeline.py                              # prove or refute what the file declares
    pellucid crash pipeline.py:totals --in events.csv       # kill it, again and again: what comes out stays the same
    python -m pytest                                        # test it
"""

FILES = {"pipeline.py": _PIPELINE, "events.csv": _EVENTS, "test_pipeline.py": _TEST, "README.md": _README}


_FROM_README = """\
# A pipeline over {file}

    pellucid show pipeline.py:counted                            # draw it
    pellucid run pipeline.py:counted --in {path} --head 10       # the first rows
    pellucid run pipeline.py:counted --in {path} --out counted.parquet --keep-columns all
"""

_FROM_PIPELINE = '''

@pipeline
def counted(rows: Stream[{name}]) -> Stream[int]:
    """The number of each row: begin here."""
    return rows.map(lambda row: 1).cumulate(lambda count, one: count + one, start=0)
'''


def files_from(path: str) -> dict[str, str]:
    """A project for a file of one's own: its record class and a pipeline over it."""
    from pellucid.internal.data.describe import class_name, describe, record_source

    found = describe(path)
    tell_bad(found)
    text = record_source(found)
    imports, sep, body = text.partition("\n\n\n")
    ours = (
        "from pellucid import Scale, Stream, pipeline"
        if "import Scale" in imports
        else "from pellucid import Stream, pipeline"
    )
    imports = imports.replace("\n\nfrom pellucid import Scale", "").rstrip()
    whole = f"{imports}\n\n{ours}{sep}{body}{_FROM_PIPELINE.format(name=class_name(path))}"
    shown = shlex.quote(os.path.abspath(path))  # a pattern is ours to expand, not the shell's
    return {"pipeline.py": whole, "README.md": _FROM_README.format(file=os.path.basename(path), path=shown)}


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--from", "source", metavar="FILE", help="With the record class of this file, and a pipeline over it.")
def init(folder: str, source: str | None) -> None:
    """Write a small starter project: a pipeline, events, a test. Nothing is overwritten.

    \b
    Examples:
      pellucid init demo
      pellucid init .
      pellucid init demo --from flights.parquet
    """
    files = FILES if source is None else files_from(source)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is a file: give the name of a folder")
    taken = [name for name in files if os.path.lexists(os.path.join(folder, name))]
    if taken:
        raise UsageError(f"{folder}: already has {', '.join(taken)}: nothing was written; give another folder")
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(folder, name), "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None
    click.echo(f"Wrote {', '.join(files)} into {folder}. Try:\n")
    if os.path.abspath(folder) != os.getcwd():
        click.echo(f"  cd {folder}")
    if source is not None:
        click.echo("  pellucid show pipeline.py:counted")
        click.echo(f"  pellucid run pipeline.py:counted --in {shlex.quote(os.path.abspath(source))} --head 10")
        return
    click.echo("  pellucid show pipeline.py:totals")
    click.echo("  pellucid run pipeline.py:totals --in events.csv")
    click.echo("  pellucid run pipeline.py:totals --in events.csv --key user")
    click.echo("  pellucid check pipeline.py")
    click.echo("  python -m pytest")
