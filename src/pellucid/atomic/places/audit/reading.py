"""The logs of a network, read without disturbing it.

Places may be running.  First it is noted how far each log is, then all are read: whatever a record that was there at
the first look depends on was there before it, and so is there at the second.  Only what was there at the first is
judged; the rest serves as evidence.  How far each log was, by the note beside it and by what processes that run have
heard, is asked before that: a log that has less is an older copy.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.atomic.places.audit.facts import Stand
from pellucid.atomic.places.client import Place
from pellucid.atomic.places.log import count_records, each_record
from pellucid.atomic.places.network import Network
from pellucid.atomic.places.serving.lock import running
from pellucid.atomic.places.serving.lost import lost_log
from pellucid.atomic.places.serving.newest import noted
from pellucid.errors import PellucidError, StateError

Record = tuple[int, str, Mapping[str, Any]]


class Logs(NamedTuple):
    """What there is of a network: its tree, the records of every log, how far each was before any was read, and how
    far each must be."""

    tree: dict[str, str | None]
    records: dict[str, list[Record]]
    upto: dict[str, int]
    stands: list[Stand]


def read_network(folder: str | os.PathLike[str]) -> Logs:
    """All that the audit looks at."""
    network = Network.load(folder)
    for name in network.places:
        if (lost := lost_log(network, name)) is not None:
            raise StateError(str(lost))
    there = [name for name in network.places if _there(network, name)]
    if not there:
        raise StateError(f"{folder}: no place of this network has a log: none was ever started")
    stands = list(_stands(network))
    upto = {name: _count(network, name) for name in there}
    logs = {name: _records(network, name) for name in there}
    return Logs(network.tree, {name: logs.get(name, []) for name in network.places}, upto, stands)


def _stands(network: Network) -> Iterator[Stand]:
    """How far logs were, beside what other logs say of that; notes first."""
    for name in network.places:
        if (stand := noted(network.folder_of(name))) is not None:
            yield Stand(name, stand, name)
    for name in network.places:
        if running(network, name):
            with suppress(PellucidError), Place(network, name) as connection:  # it has heard more than it has written
                for other, stand in connection.ask("view")["met"].items():
                    yield Stand(other, stand, name)


def _there(network: Network, name: str) -> bool:
    where = network.log_of(name)
    return "://" in str(where) or Path(where).exists()


def _count(network: Network, name: str) -> int:
    where = network.log_of(name)
    if isinstance(where, Path):
        with suppress(sqlite3.Error):  # who reads it says what is wrong
            return count_records(where)
    return sum(1 for _ in each_record(where, name))


def _records(network: Network, name: str) -> list[Record]:
    found = each_record(network.log_of(name), name)
    return [(number, record.kind, record.fields) for number, record in enumerate(found, 1)]
