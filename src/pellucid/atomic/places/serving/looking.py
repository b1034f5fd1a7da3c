"""What operators see of a place: of one that runs from its process, of one that does not from its log, in one form."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.atomic.places.client import NotReached, Place
from pellucid.atomic.places.core import Asked, Core
from pellucid.atomic.places.core.copies import an_older_copy
from pellucid.atomic.places.core.state import State
from pellucid.atomic.places.log import each_record
from pellucid.atomic.places.network import BadSecretsError, Network
from pellucid.atomic.places.records import Record, in_words, place_of, stand_of
from pellucid.atomic.places.serving.lock import running
from pellucid.atomic.places.serving.lost import lost_log
from pellucid.atomic.places.serving.newest import noted
from pellucid.atomic.places.serving.view import MINUTE, commits_a_second, view
from pellucid.errors import PellucidError, UsageError

LITTLE = 1_000_000  # bytes: with less, a place may have ended because it could not write


@dataclass(frozen=True)
class Looked:
    """A place as it was found: ``state`` is running, stopped, new (it has no log yet), lost (it had one)
    or unseen (and ``why``)."""

    name: str
    state: str
    address: str
    pid: int | None = None
    seen: dict[str, Any] | None = None
    why: str = ""
    room: int | None = None  # bytes that are free where its log is

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"place": self.name, "state": self.state, "address": self.address, "pid": self.pid,
                "process": None, "why": self.why or None, "free_bytes": self.room, **(self.seen or {})}  # fmt: skip

    def lines(self) -> list[str]:
        """For people."""
        process = f" (process {self.pid})" if self.pid else ""
        out = [f"{self.name:12} {self.state}{process}, {self.address}{f': {self.why}' if self.why else ''}"]
        if self.seen is None or self.state == "lost":
            return out
        s = self.seen
        for one in s["behind"]:
            out.append(f"  older copy    {an_older_copy(self.name, one['stand'], one['by'])}: it does nothing")
        for stand in s["accepted"]:
            out.append(f"  lost          {in_words(stand)}: the log is an older copy, which was accepted")
        if self.state == "stopped" and self.room is not None and self.room < LITTLE:
            out.append(f"  disk          {self.room:,} bytes are free: perhaps it ended for want of room")
        undecided = ", ".join(f"{n:,} {word}" for word, n in s["undecided"].items() if n) or "none"
        aborted = sum(s["aborted"].values())
        out.append(f"  transactions {s['committed']:,} committed, {aborted:,} aborted; not decided: {undecided}")
        for channel, found in s["channels"].items():
            taken = f", and {found['taken']:,} taken by who has not committed yet" if found["taken"] else ""
            many = "message" if found["waiting"] == 1 else "messages"
            out.append(f"  {channel:12} {up_to(found['waiting'], found['at_least'])} {many}{taken}")
        if s["outbox"]:
            sure = 0 if self.state == "stopped" else s["outbox"]
            many = "message" if s["outbox"] == 1 else "messages"
            out.append(f"  on their way  {up_to(s['outbox'], sure)} {many} to other places")
        if s["refused"]:
            out.append(f"  refused       {s['refused']:,}: see its said.log")
        return out


def up_to(most: int, least: int) -> str:
    """How many there are, as far as is known.

    >>> up_to(1200, 1200), up_to(3, 0)
    ('1,200', 'up to 3')
    """
    return f"{most:,}" if least >= most else f"up to {most:,}"


def looked_at(network: Network, name: str) -> Looked:
    """A place: its process is asked; if there is none, its log is read.  Nothing is changed."""
    place = network.place(name)
    try:
        secrets = network.secrets(name)
    except BadSecretsError:
        raise
    except PellucidError as error:
        return Looked(name, "unseen", place.address, why=str(error))
    pid = running(network, name)
    try:
        with Place(network, name) as connection:
            return Looked(name, "running", place.address, pid, connection.ask("view"))
    except NotReached as error:
        if (pid := running(network, name)) is not None:  # it may have been about to end
            return Looked(name, "unseen", place.address, pid, why=str(error))
    target = network.log_of(name)
    try:
        lost, stand = lost_log(network, name), noted(network.folder_of(name))  # before the log, which only grows
        if lost is None and isinstance(target, Path) and not target.exists():
            return Looked(name, "new", place.address, why="it has never run here")
        now = time.time()
        commits: list[Record] = []
        records = iter(()) if lost else _keeping(each_record(target, name), commits, now - MINUTE)
        core = Core(name, network.tree_of(name, secrets), records)
        stand = lost.stand if lost else stand
        if stand is not None and not core.state.has(stand):
            start, n = stand_of(stand)
            core.state.behind[start] = name, n  # as it will write down when it is started
        doubt = dict(core.handle(Asked(1, 0, "doubt", {})).replies)[1]
        seen = view(core.state, doubt, place.channels, core.met)
    except PellucidError as error:
        return Looked(name, "unseen", place.address, why=str(error))
    if lost:
        return Looked(name, "lost", place.address, seen=seen, why=str(lost))
    for channel, numbers in seen["channels"].items():
        numbers["at_least"] = _sure(core.state, channel)
    seen["commits_per_second"] = commits_a_second(commits, now)
    return Looked(name, "stopped", place.address, seen=seen, room=_room(target))


def _keeping(records: Iterator[Record], commits: list[Record], since: float) -> Iterator[Record]:
    """The same records; the commits since a time are kept."""
    for record in records:
        if record.kind == "commit" and record.when >= since:
            commits.append(record)
        yield record


def _sure(state: State, channel: str) -> int:
    """How many messages are there for good, as far as the log alone says: of a sender elsewhere it does not say whether
    it has aborted, and an own one that is not committed may abort at the next start."""
    own = (one.sender for one in state.channels.get(channel, {}).values() if place_of(one.sender) == state.place)
    return sum(state.status(sender) == "committed" for sender in own)


def lost_at(network: Network, home: Looked, ids: Sequence[str]) -> list[str]:
    """Which of these transactions of a place are lost: its log, whose loss was accepted, cannot say what became of
    them."""
    if home.seen is None or not home.seen["accepted"] or home.seen["behind"]:
        return []
    out = []
    try:
        if home.state == "running":
            with Place(network, home.name) as connection:
                for t in ids:
                    try:
                        connection.status(t)
                    except UsageError:
                        out.append(t)
            return out
        state = State(home.name)
        for record in each_record(network.log_of(home.name), home.name):
            state.apply(record)
        return [t for t in ids if state.lost(t)]
    except PellucidError:  # it has ended meanwhile
        return out


def _room(target: Path | str) -> int | None:
    """What is free on the disk of a log: a place that found it full may have had no room to say so."""
    if not isinstance(target, Path):
        return None
    with contextlib.suppress(OSError):
        return shutil.disk_usage(target.parent).free
    return None


def metrics(network: Network, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Numbers of each place, for whoever watches.  Of one that is stopped its log does not know whether senders
    elsewhere have aborted: there are at most ``messages``, and at least ``messages_at_least``."""
    out: dict[str, dict[str, Any]] = {}
    now = time.time()
    for name in names:
        one = looked_at(network, name)
        numbers: dict[str, Any] = {"state": one.state}
        if one.seen is not None and one.state != "lost":
            s = one.seen
            waits = [*s["doubt"]["doubt"], *s["doubt"]["deciding"], *s["doubt"]["pending"]]
            numbers |= {
                "in_doubt": len(s["doubt"]["doubt"]),
                "deciding": len(s["doubt"]["deciding"]),
                "pending": len(s["doubt"]["pending"]),
                "oldest_seconds": round(max(0.0, now - min(w["since"] for w in waits)), 3) if waits else None,
                "commits_per_second": s["commits_per_second"],
                "committed": s["committed"],
                "aborted": s["aborted"],
                "messages": sum(c["waiting"] for c in s["channels"].values()),
                "messages_at_least": sum(c["at_least"] for c in s["channels"].values()),
                "on_their_way": s["outbox"],
                "refused": s["refused"],
                "starts": s["starts"],
            }
            numbers |= s.get("process", {})
        out[name] = numbers
    return out
