"""What operators see of a place: of one that runs from its process, of one that does not from its log, in one form."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.atomic.places.client import NotReached, Place
from pellucid.atomic.places.core import Asked, Core
from pellucid.atomic.places.log import read_log
from pellucid.atomic.places.network import Network
from pellucid.atomic.places.serving.lock import running
from pellucid.atomic.places.serving.view import commits_a_second, view
from pellucid.errors import PellucidError


@dataclass(frozen=True)
class Looked:
    """A place as it was found: ``state`` is running, stopped, new (it has no log yet) or unseen (and ``why``)."""

    name: str
    state: str
    address: str
    pid: int | None = None
    seen: dict[str, Any] | None = None
    why: str = ""

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {"place": self.name, "state": self.state, "address": self.address, "process": self.pid,
                "why": self.why or None, **(self.seen or {})}  # fmt: skip

    def lines(self) -> list[str]:
        """For people."""
        process = f" (process {self.pid})" if self.pid else ""
        out = [f"{self.name:12} {self.state}{process}, {self.address}{f': {self.why}' if self.why else ''}"]
        if self.seen is None:
            return out
        s = self.seen
        undecided = ", ".join(f"{n:,} {word}" for word, n in s["undecided"].items() if n) or "none"
        aborted = sum(s["aborted"].values())
        out.append(f"  transactions {s['committed']:,} committed, {aborted:,} aborted; not decided: {undecided}")
        for channel, found in s["channels"].items():
            taken = f", and {found['taken']:,} taken by who has not committed yet" if found["taken"] else ""
            many = "message" if found["waiting"] == 1 else "messages"
            out.append(f"  {channel:12} {found['waiting']:,} {many}{taken}")
        if s["outbox"]:
            out.append(f"  on their way  {s['outbox']:,} messages to other places")
        if s["refused"]:
            out.append(f"  refused       {s['refused']:,}: see its said.log")
        return out


def looked_at(network: Network, name: str) -> Looked:
    """A place: its process is asked; if there is none, its log is read.  Nothing is changed."""
    place = network.place(name)
    try:
        secrets = network.secrets(name)
    except PellucidError as error:
        return Looked(name, "unseen", place.address, why=str(error))
    pid = running(network, name)
    try:
        with Place(network, name) as connection:
            return Looked(name, "running", place.address, pid, connection.ask("view"))
    except NotReached as error:
        if pid is not None:
            return Looked(name, "unseen", place.address, pid, why=str(error))
    target = network.log_of(name)
    if isinstance(target, Path) and not target.exists():
        return Looked(name, "new", place.address, why="it has never run here")
    try:
        records = read_log(target, name)
        core = Core(name, network.tree_of(name, secrets), records)
        doubt = dict(core.handle(Asked(1, 0, "doubt", {})).replies)[1]
        seen = view(core.state, doubt, place.channels)
    except PellucidError as error:
        return Looked(name, "unseen", place.address, why=str(error))
    seen["commits_per_second"] = commits_a_second(records, time.time())
    return Looked(name, "stopped", place.address, seen=seen)


def metrics(network: Network, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Numbers of each place, for whoever watches."""
    out: dict[str, dict[str, Any]] = {}
    now = time.time()
    for name in names:
        one = looked_at(network, name)
        numbers: dict[str, Any] = {"state": one.state}
        if one.seen is not None:
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
                "on_their_way": s["outbox"],
                "refused": s["refused"],
                "starts": s["starts"],
            }
            numbers |= s.get("process", {})
        out[name] = numbers
    return out
