"""A log that is gone: missing, empty or without records, though its place has run.

To begin a new one in its place would lose in silence what was committed.  The signs that a place has run are the note
beside its log (`pellucid.atomic.places.serving.newest`), and what its process printed.  What only other places have
heard of, they tell when the place has started.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from pellucid.atomic.places.log import check_regular, count_records
from pellucid.atomic.places.network import Network
from pellucid.atomic.places.serving.newest import noted
from pellucid.internal.base.files import no_links

SAID = "said.log"  # in the folder of a place: what its process prints
LISTENS = "listens at "  # what it prints after its first record lasts
FIRST = "1/1"  # the first record of its first start, whose mark is not known


@dataclass(frozen=True)
class Lost:
    """What is wrong, and a record that was there."""

    folder: Path
    place: str
    stand: str
    what: str

    def __str__(self) -> str:
        return f"{self.what}: bring it back; {self.without}"

    @property
    def without(self) -> str:
        """What to do if it cannot be brought back."""
        return f"if there is none, `pellucid net accept {self.folder} {self.place}` goes on without what is lost"


def lost_log(network: Network, name: str) -> Lost | None:
    """Whether the log of a place, as a file, is gone though the place has run; nothing is changed."""
    folder, log = network.folder_of(name), network.log_of(name)
    if not isinstance(log, Path):
        return None
    stand = noted(folder)
    check_regular(log)
    if not log.exists():
        how = "is not there"
    elif not log.stat().st_size:
        how = "is empty"
    else:
        try:
            if count_records(log):
                return None
        except sqlite3.Error:
            return None  # it is another file, or damaged: who opens it says so
        how = "has no records"
    if stand is not None:
        note = "the note beside it says that it had some"
        return Lost(network.folder, name, stand, f"{log}: the log of {name!r} {how}, and {note}")
    if _listened(folder / SAID):
        note = f"{SAID} beside it says that the place has run"
        return Lost(network.folder, name, FIRST, f"{log}: the log of {name!r} {how}, and {note}")
    return None


def _listened(said: Path) -> bool:
    try:
        with open(said, "rb", opener=no_links) as file:
            return any(LISTENS.encode() in line for line in file)
    except OSError:
        return False
