"""``pellucid net doubt FOLDER`` where the folder is of a group of sinks: what is decided and not everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pellucid.errors import UsageError

if TYPE_CHECKING:
    from pellucid.sinks.group.doubt import GroupDoubt


def is_group(folder: str) -> bool:
    """Whether a group of sinks keeps its decisions in this folder, state folder or checkpoint."""
    from pellucid.sinks.group.doubt import log_of_group

    return log_of_group(folder) is not None


_INSTEAD = {
    "metrics": "`pellucid net doubt {}` says what is in doubt, and since when; numbers are for networks of places",
    "accept": "`pellucid net doubt {}` says who has less than was decided, and what to do about it",
    "status": "`pellucid net doubt {}` says what is decided, and who has it",
}
_BY_HAND = (
    "nothing is decided by hand in a group: its log has the decision, and whoever has the log brings it to its end: "
    "run the same command again (`pellucid run`, the query), or sinks.together(…, log=…).recover(); "
    "`pellucid net doubt {}` says what is in doubt. Without its log: docs/how-to-together.md, 'The driver is gone, and "
    "does not come back'"
)


def refuse_group(folder: str, verb: str) -> None:
    """Refuse the folder of a group of sinks for a verb of networks, and say what to do instead."""
    if is_group(folder):
        instead = _INSTEAD.get(verb, _BY_HAND).format(folder)
        raise UsageError(f"{folder}: is of a group of sinks, and no network of places: {instead}")


def refuse_nothing(folder: str) -> None:
    """Refuse a folder in which there is neither a log of decisions nor a network, and say what was looked for."""
    from pathlib import Path

    from pellucid.atomic.places.network import FILE
    from pellucid.sinks.group.doubt import PLACES
    from pellucid.sinks.group.log import NAME

    root = Path(folder)
    if (root / "run.json").is_file() and not (root / FILE).is_file():
        raise UsageError(
            f"{folder}: is of a run with epochs whose outputs are no group, so nothing can be in doubt between them: "
            f"`pellucid progress FILE:NAME --state {folder}` says how far it is"
        )
    if not (root / FILE).is_file():
        looked = ", ".join(str(root / inner / NAME) for inner in PLACES)
        raise UsageError(
            f"{folder}: is no network: it has no {FILE}; and no log of decisions is there ({looked}): name the folder "
            "of a network, the log= of a group of sinks, a --state or a --checkpoint. If a group's log was here, bring "
            "it back from a copy: nothing else knows what was decided"
        )


def show_group_doubt(folder: str, as_json: bool) -> GroupDoubt:
    """Print it, for a person or for a program; the exit code is 1 where ``in_doubt`` is true, 3 where nobody knows."""
    from pellucid.sinks.group.doubt import doubt_of_group

    found = doubt_of_group(folder)
    if as_json:
        click.echo(json.dumps({"pellucid": 1, "verb": "net doubt", "group": found.document()}, indent=2))
    else:
        for line in found.lines():
            click.echo(line)
    return found
