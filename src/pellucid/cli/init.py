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


@click.command()
@click.argument("folder", metavar="DIR")
def init(folder: str) -> None:
    """Write a small starter project: a pipeline, events, a test. Nothing is overwritten.

    \b
    Examples:
      pellucid init demo
      pellucid init .
    """
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder}: is a file: give the name of a folder")
    taken = [name for name in FILES if os.path.lexists(os.path.join(folder, name))]
    if taken:
        raise UsageError(f"{folder}: already has {', '.join(taken)}: nothing was written; give another folder")
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in FILES.items():
            with open(os.path.join(folder, name), "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None
    click.echo(f"Wrote {', '.join(FILES)} into {folder}. Try:\n")
    if os.path.abspath(folder) != os.getcwd():
        click.echo(f"  cd {folder}")
    click.echo("  pellucid show pipeline.py:totals")
    click.echo("  pellucid run pipeline.py:totals --in events.csv")
    click.echo("  pellucid run pipeline.py:totals --in events.csv --key user")
    click.echo("  python -m pytest")
