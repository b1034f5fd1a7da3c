"""The logs of a network, read without disturbing it.

Places may be running.  First it is noted how far each log is, then all are read: whatever a record that was there at
the first look depends on was there before it, and so is there at the second.  Only what was there at the first is
judged; the rest serves as evidence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.atomic.places.log import read_log
from pellucid.atomic.places.network import Network
from pellucid.atomic.places.serving.lost import lost_log
from pellucid.errors import StateError

Record = tuple[int, str, Mapping[str, Any]]


def read_network(
    folder: str | os.PathLike[str],
) -> tuple[dict[str, str | None], dict[str, list[Record]], dict[str, int]]:
    """The tree of a network, the records of every log, and how far each log was before any was read."""
    network = Network.load(folder)
    for name in network.places:
        if (lost := lost_log(network, name)) is not None:
            raise StateError(str(lost))
    there = [name for name in network.places if _there(network, name)]
    if not there:
        raise StateError(f"{folder}: no place of this network has a log: none was ever started")
    upto = {name: len(_records(network, name)) for name in there}
    logs = {name: _records(network, name) for name in there}
    return network.tree, {name: logs.get(name, []) for name in network.places}, upto


def _there(network: Network, name: str) -> bool:
    where = network.log_of(name)
    return "://" in str(where) or Path(where).exists()


def _records(network: Network, name: str) -> list[Record]:
    found = read_log(network.log_of(name), name)
    return [(number, record.kind, record.fields) for number, record in enumerate(found, 1)]
