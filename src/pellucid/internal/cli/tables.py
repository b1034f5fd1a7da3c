"""``pellucid tables``: what a file holds, as a record class in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pellucid.errors import UsageError
from pellucid.internal.cli.progress import count_text, tell

if TYPE_CHECKING:
    from pellucid.internal.data.tables.describe import TableFound

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
def tables(path: str, name: str | None, out: str | None, form: str | None) -> None:
    """Look at every row of a file, a folder or a pattern, and write the record class for it: a field for each column,
    its type, how many nulls it has. A row that cannot be read, as one with too many fields, is left out, and named.

    A column that cannot be part of an event is named in a comment; it can come along with --keep-columns.

    \b
    Examples:
      pellucid tables flights.parquet
      pellucid tables 'data/2013-*.csv' --name Flight --out flight.py
    """
    if name is not None and not name.isidentifier():
        raise UsageError(f"--name {name}: is no name that a class in Python can have")
    if path == "-":
        raise UsageError("tables looks at files: put what comes from the pipe in a file first")
    from pellucid.internal.data.tables.describe import describe, record_source

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
