"""``pellucid net``, of networks of places: make one, start and end its places, see what is in doubt and decide it."""

from __future__ import annotations

import getpass
import json
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import UsageError
from pellucid.internal.cli.models.net import _print, net
from pellucid.internal.cli.terminal import tell

if TYPE_CHECKING:
    from pellucid.atomic.places.network import Network, PlaceInfo
    from pellucid.sinks.unresolved import GroupDoubt

__all__ = ["net"]

# ``pellucid net unresolved FOLDER`` where the folder is of a group of sinks: what is decided and not everywhere.


def is_group(folder: str) -> bool:
    """Whether a group of sinks keeps its decisions in this folder, state folder or checkpoint."""
    from pellucid.sinks.unresolved import log_of_group

    return log_of_group(folder) is not None


_INSTEAD = {
    "metrics": "`pellucid net unresolved {}` says what is in doubt, and since when; numbers are for networks of places",
    "accept": "`pellucid net unresolved {}` says who has less than was decided, and what to do about it",
    "status": "`pellucid net unresolved {}` says what is decided, and who has it",
}
_BY_HAND = (
    "nothing is decided by hand in a group: its log has the decision, and whoever has the log brings it to its end: "
    "run the same command again (`pellucid run`, the query), or sinks.together(…, log=…).recover(); "
    "`pellucid net unresolved {}` says what is in doubt. Without its log: docs/how-to-together.md, 'The driver is "
    "gone, and does not come back'"
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
    from pellucid.sinks.decisions import NAME
    from pellucid.sinks.unresolved import PLACES

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
    from pellucid.sinks.unresolved import doubt_of_group

    found = doubt_of_group(folder)
    if as_json:
        click.echo(json.dumps({"pellucid": 1, "verb": "net doubt", "group": found.document()}, indent=2))
    else:
        for line in found.lines():
            click.echo(line)
    return found


TOLD = 10  # tenths of a second in which a place that was started is told by others that its log is an older copy

_folder = click.argument("folder", metavar="DIR")
_places = click.argument("names", metavar="[PLACE]…", nargs=-1)
_json = click.option("--json", "as_json", is_flag=True, help="Put a report on stdout, and every other line on stderr.")


def _network(folder: str, names: Sequence[str] = (), verb: str = "") -> tuple[Network, list[str]]:
    """The network, and the places that are meant: all, if none is named.  Of a group of sinks, what to do instead of
    the ``verb``."""
    from pellucid.atomic.places.network import Network

    if verb:
        refuse_group(folder, verb)
    found = Network.load(folder)
    for name in names:
        found.place(name)
    return found, list(dict.fromkeys(names)) or list(found.places)


# ---------------------------------------------------------------- new


@net.command("new")
@_folder
@click.option(
    "--place", "places", multiple=True, required=True, metavar="NAME[@HOST:PORT][=CHANNEL,…]",
    help="A place and its channels; repeat it. Without an address: loopback, at a port that is free now.",
)  # fmt: skip
@click.option("--inside", multiple=True, metavar="PLACE=AROUND", help="A place that is inside another; repeat it.")
@click.option(
    "--may", multiple=True, metavar="PLACE=OTHER.CHANNEL,…",
    help="The channels that a place has capabilities for; repeat it. Without it, all.",
)  # fmt: skip
@click.option("--log", "logs", multiple=True, metavar="PLACE=ADDRESS", help="A log in PostgreSQL instead of a file.")
def new_verb(folder: str, places: Sequence[str], **more: Sequence[str]) -> None:
    """Make the folder of a network: places, channels, fresh certificates and tokens.

    \b
    Examples:
      pellucid net new trips --place agent=answers --place airline=requests,seats --place hotel=requests,rooms
      pellucid net new trips --place corp --place host=orders --inside host=corp
    """
    from pellucid.atomic.places.network import new_network

    given = {what: _pairs(texts, what.rstrip("s")) for what, texts in more.items()}
    found = _described(places, given)
    made = new_network(folder, found)
    for name, place in made.places.items():
        channels = ", ".join(place.channels) or "none"
        click.echo(f"{name:12} {place.address:21} channels {channels}")
    click.echo(f"start its places with: pellucid net up {folder}")


def _pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"--{what} {text}: expected PLACE=…")
        if name in out:
            raise UsageError(f"--{what}: {name} is given twice: leave one out")
        out[name] = value
    return out


def _described(texts: Sequence[str], given: dict[str, dict[str, str]]) -> list[PlaceInfo]:
    from pellucid.atomic.places.network import HERE, PlaceInfo, address_of, free_ports

    out: list[PlaceInfo] = []
    ports = free_ports(len(texts))
    for text, port in zip(texts, ports, strict=True):
        head, _, channels = text.partition("=")
        name, at, address = head.partition("@")
        if name in [place.name for place in out]:
            raise UsageError(f"--place {text}: {name} is given twice: leave one out")
        host = HERE
        if at:
            host, port = address_of(address, f"--place {text}")
        may = given["may"].pop(name, None)
        inside, log = given["inside"].pop(name, None), given["logs"].pop(name, None)
        listed = tuple(channel.strip() for channel in channels.split(",") if channel.strip())
        allowed = None if may is None else tuple(one.strip() for one in may.split(",") if one.strip())
        out.append(PlaceInfo(name, host, port, inside, listed, allowed, log))
    for what, left in given.items():
        for name in left:
            raise UsageError(f"--{what.rstrip('s')} {name}=…: there is no --place {name}")
    return out


# ---------------------------------------------------------------- up and down


@net.command("up")
@_folder
@click.argument("name", metavar="[PLACE]", required=False)
@click.option("--background", is_flag=True, help="One PLACE as a process of its own; come back when it answers.")
def up_verb(folder: str, name: str | None, background: bool) -> None:
    """Start all places of a network as processes of their own; or be one PLACE, until SIGTERM.

    \b
    Examples:
      pellucid net up trips                 all of them, in the background
      pellucid net up trips airline         this one, here: for systemd, containers, other machines
    """
    from pellucid.atomic.places import host
    from pellucid.atomic.places import processes as starting
    from pellucid.atomic.places.operators import doubts

    network, names = _network(folder, [name] if name else [])
    if name and not background:
        host.serve(folder, name)
        return
    here = names if name else [one for one in names if network.has_secrets(one)]
    if not here:
        network.secrets(names[0])  # says what is missing
    for one in names:
        if one not in here:
            click.echo(f"{one:12} {network.place(one).address:21} elsewhere: its keys are not here")
    for one, pid in starting.start(network, here).items():
        click.echo(f"{one:12} {network.place(one).address:21} process {pid}")
    copies = doubts(network, here).copies
    for _ in range(TOLD):  # who runs and has heard of it tells the place within a moment
        if all(copy.held for copy in copies):
            break
        time.sleep(0.1)
        copies = doubts(network, here).copies
    if copies:
        for copy in copies:
            what = "runs and does nothing" if copy.held else "runs, and nobody has told it"
            tell(f"pellucid: {copy.place} {what}: {copy.words()}")
        raise click.exceptions.Exit(2)


@net.command("down")
@_folder
@_places
def down_verb(folder: str, names: Sequence[str]) -> None:
    """End the places of a network that run on this machine, in good order.

    \b
    Example:
      pellucid net down trips
    """
    from pellucid.atomic.places import processes as starting

    network, chosen = _network(folder, names)
    ended = starting.end(network, chosen)
    for name in chosen:
        click.echo(f"{name:12} {'ended' if name in ended else 'did not run'}")


# ---------------------------------------------------------------- see


@net.command("status")
@_folder
@_places
@_json
def status_verb(folder: str, names: Sequence[str], as_json: bool) -> None:
    """Which places run, and what is in them; of one that does not run, from its log.

    \b
    Example:
      pellucid net status trips
    """
    from pellucid.atomic.places.operators import looked_at

    network, chosen = _network(folder, names, "status")
    found = [looked_at(network, name) for name in chosen]
    if as_json:
        _print("status", {"network": folder, "places": [one.document() for one in found]})
        return
    for one in found:
        click.echo("\n".join(one.lines()))


@net.command("unresolved")
@_folder
@_places
@_json
def doubt_verb(folder: str, names: Sequence[str], as_json: bool) -> None:
    """What is not decided: who waits for whom, since when, and what would resolve it.

    Reads running places and the logs of those that do not run. DIR may also be the folder of the decisions of a group
    of sinks (sinks.together), a --state folder or a checkpoint.

    Exit codes: 0 nothing waits, 1 something does, 2 bad usage or bad input, 3 not everything can be seen from here.

    \b
    Examples:
      pellucid net unresolved trips
      pellucid net unresolved state/
    """
    from pellucid.atomic.places.operators import doubts

    if is_group(folder):
        if names:
            raise UsageError(f"{folder}: is of a group of sinks, which has no places: leave {' '.join(names)} out")
        group = show_group_doubt(folder, as_json)
        raise click.exceptions.Exit({True: 1, False: 0, None: 3}[group.in_doubt])
    refuse_nothing(folder)
    network, chosen = _network(folder, names)
    found = doubts(network, chosen)
    if as_json:
        _print("doubt", {"network": folder, **found.document()})
    else:
        for line in found.lines():
            click.echo(line)
    raise click.exceptions.Exit(found.code)


@net.command("metrics")
@_folder
@_places
@_json
def metrics_verb(folder: str, names: Sequence[str], as_json: bool) -> None:
    """Numbers: in doubt, the oldest, commits a second, aborts and why.

    Of a place that does not run, from its log: "up to" so many messages, where their senders may have aborted, or where
    they may have arrived.

    \b
    Example:
      pellucid net metrics trips --json
    """
    from pellucid.atomic.places.operators import metrics, up_to

    network, chosen = _network(folder, names, "metrics")
    found = metrics(network, chosen)
    if as_json:
        _print("metrics", {"network": folder, "places": found})
        return
    for name, numbers in found.items():
        click.echo(name)
        if (least := numbers.pop("messages_at_least", None)) is not None:
            numbers["messages"] = up_to(numbers["messages"], least)
            numbers["on_their_way"] = up_to(numbers["on_their_way"], 0 if numbers["state"] == "stopped" else 2**63)
        for what, value in numbers.items():
            click.echo(f"  {what.replace('_', ' '):22} {_number(value)}")


def _number(value: Any) -> str:
    """Of the metrics, for people.

    >>> [_number(one) for one in (None, 1234, 0.25, {"crash": 1200}, {}, "up to 3")]
    ['-', '1,234', '0.2', 'crash: 1,200', 'none', 'up to 3']
    """
    if isinstance(value, dict):
        return ", ".join(f"{why}: {n:,}" for why, n in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


# ---------------------------------------------------------------- by hand


def _who(warning: str, question: str, yes: bool) -> str:
    """Who does this, as it is written down, after a warning and unless told to be sure."""
    tell(f"pellucid: warning: {warning}")
    if not yes:
        try:
            click.confirm(question, abort=True, err=True)
        except click.Abort:
            raise UsageError("nothing was done; --yes does it without asking") from None
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _by_hand(outcome: str) -> Callable[..., None]:
    @_folder
    @click.argument("what", metavar="ID")
    @click.option("--place", metavar="PLACE", help="Where; needed if several places are in doubt about it.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @_json
    def verb(folder: str, what: str, place: str | None, yes: bool, as_json: bool) -> None:
        from pellucid.atomic.places.operators import decide_by_hand, warning

        network, _ = _network(folder, [place] if place else [], outcome)
        where, words = warning(network, what, outcome, place)
        answer = decide_by_hand(
            network, where, what, outcome, _who(words, f"{outcome} {what} at {where} by hand?", yes)
        )
        if as_json:
            _print(outcome, {"network": folder, "place": where, "what": what, "status": answer, "warning": words})
            return
        click.echo(f"{what} at {where}: {answer}, by hand; it is written down")

    return verb


@net.command("accept")
@_folder
@click.argument("name", metavar="PLACE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
def accept_verb(folder: str, name: str, yes: bool, as_json: bool) -> None:
    """Go on with a log that came back from an older copy, without what it lacks: a last resort, which is written down.

    The place must run, unless its log is gone: then this begins a new one, and the place can be started. What others
    have committed with it stays committed there; what the copy lacks never comes back.

    \b
    Example:
      pellucid net accept trips hotel
    """
    from pellucid.atomic.places.operators import accept_loss, doubts

    network, _ = _network(folder, [name], "accept")
    words = "; ".join(one.lines()[0] for one in doubts(network, [name]).copies)
    if not words:
        raise UsageError(f"{name}: no place has heard of a record that its log lacks: there is nothing to accept")
    words += ". What it lacks is lost for good, and others may have committed with it: `pellucid audit` will name it"
    stands = accept_loss(network, name, _who(words, f"go on at {name} without it?", yes))
    if as_json:
        _print("accept", {"network": folder, "place": name, "lost": stands, "warning": words})
        return
    click.echo(f"{name}: goes on without {', '.join(map(_in_words, stands))}; it is written down")


def _in_words(stand: str) -> str:
    from pellucid.atomic.places.core.state import in_words

    return in_words(stand)


for _outcome, _help in {
    "commit": "Commit by hand what is in doubt at a place: a last resort, which is written down.",
    "abort": "Undo by hand what is in doubt at a place: a last resort, which is written down.",
}.items():
    _callback: Any = _by_hand(_outcome)
    _callback.__doc__ = f"""{_help}

    ID is an attempt or a transaction, as `pellucid net unresolved` lists them. Also of a place that does not run.

    \b
    Example:
      pellucid net {_outcome} trips agent:1:a7
    """
    net.command(_outcome)(_callback)
