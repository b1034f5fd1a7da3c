"""``pellucid init``: a small project that runs at once."""

from __future__ import annotations

import os

import click

from pellucid.errors import UsageError

_PIPELINE = '''\
"""Running totals of the payments of each user, without the refunds."""

from typing import NamedTuple

from pellucid import Stream, pipeline


class Payment(NamedTuple):
    user: str
    cents: int


@pipeline
def totals(payments: Stream[Payment]) -> Stream[int]:
    paid = payments.filter(lambda p: p.cents > 0)
    return paid.map(lambda p: p.cents).cumulate(lambda total, cents: total + cents, start=0)
'''

_EVENTS = """\
user,cents
ada,500
bob,120
ada,-500
ada,250
bob,80
"""

_TEST = """\
from pipeline import Payment, totals


def test_refunds_do_not_count() -> None:
    assert totals([Payment("ada", 500), Payment("ada", -500), Payment("ada", 250)]) == [500, 750]


def test_push_by_push() -> None:
    assert totals.trace([Payment("ada", -1), Payment("ada", 2)]) == [[], [2]]
"""

_README = """\
# A pipeline

    pellucid show pipeline.py:totals                        # draw it
    pellucid run pipeline.py:totals --in events.csv         # one total of all users
    pellucid run pipeline.py:totals --in events.csv --key user --out totals.parquet
    python -m pytest                                        # test it
"""

FILES = {"pipeline.py": _PIPELINE, "events.csv": _EVENTS, "test_pipeline.py": _TEST, "README.md": _README}


_FROM_README = """\
# A pipeline over {file}

    pellucid show pipeline.py:counted                            # draw it
    pellucid run pipeline.py:counted --in {path} --limit 10      # the first rows
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
    from pellucid.data.tables.describe import class_name, describe, record_source

    text = record_source(describe(path))
    imports, sep, body = text.partition("\n\n\n")
    ours = (
        "from pellucid import Scale, Stream, pipeline"
        if "import Scale" in imports
        else "from pellucid import Stream, pipeline"
    )
    imports = imports.replace("\n\nfrom pellucid import Scale", "").rstrip()
    whole = f"{imports}\n\n{ours}{sep}{body}{_FROM_PIPELINE.format(name=class_name(path))}"
    shown = os.path.abspath(path)
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
        click.echo(f"  pellucid run pipeline.py:counted --in {os.path.abspath(source)} --limit 10")
        return
    click.echo("  pellucid show pipeline.py:totals")
    click.echo("  pellucid run pipeline.py:totals --in events.csv")
    click.echo("  pellucid run pipeline.py:totals --in events.csv --key user")
    click.echo("  python -m pytest")
