"""What operators see of a place: of one that runs from its process, of one that does not from its log, in one form."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.atomic.places.client import NotReached, Place
from pellucid.atomic.places.core import Asked, Core, Noted
from pellucid.atomic.places.core.commit import WHAT_TO_DO, an_older_copy
from pellucid.atomic.places.core.state import (
    MINUTE,
    Record,
    State,
    commits_a_second,
    has_record,
    in_words,
    new_mark,
    place_of,
    stand_of,
    start_of,
    view,
)
from pellucid.atomic.places.log import each_record, lost_log, noted, open_log
from pellucid.atomic.places.network import BadSecretsError, Network
from pellucid.atomic.places.processes import only_one, running
from pellucid.errors import PellucidError, StateError, UsageError

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
    """Numbers of each place, for monitoring.  Of one that is stopped its log does not know whether senders
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


# What is not decided in a network: who waits for whom, since when, what would resolve it; and deciding it by hand.


@dataclass(frozen=True)
class Doubt:
    """One thing that waits at a place: ``kind`` is prepared (unresolved), deciding, pending or lost (its place has
    lost it with its log, which was accepted, and cannot say what became of it)."""

    place: str
    what: str
    kind: str
    members: tuple[str, ...]
    since: float | None
    waits: tuple[tuple[str, str], ...]  # for whom (a place or a transaction), and what is known of that
    resolve: str

    def document(self, now: float) -> dict[str, Any]:
        """As plain data."""
        return {
            "place": self.place, "what": self.what, "kind": self.kind, "members": list(self.members),
            "since": None if self.since is None else _time(self.since),
            "seconds": None if self.since is None else round(max(0.0, now - self.since), 3),
            "waits": [{"for": one, "known": known} for one, known in self.waits], "resolve": self.resolve,
        }  # fmt: skip

    def lines(self, now: float) -> list[str]:
        """For people."""
        if self.since is None:
            out = [f"{self.what}  lost with the log of {self.place}, which cannot say what became of it"]
            out += [f"  waits      {one}: {known}" for one, known in self.waits]
            return [*out, f"  resolve    {self.resolve}"]
        word = {"prepared": "unresolved", "deciding": "decided, not everywhere", "pending": "waits"}[self.kind]
        out = [f"{self.what}  {word} at {self.place} since {_time(self.since)} ({_span(now - self.since)})"]
        if self.members and self.members != (self.what,):
            out.append(f"  members    {', '.join(self.members)}")
        out += [f"  waits for  {one}: {known}" for one, known in self.waits]
        return [*out, f"  resolve    {self.resolve}"]


@dataclass(frozen=True)
class Copy:
    """A log that lacks what another place has heard of; ``by`` is that place.  ``held``: the place knows it, and does
    nothing."""

    folder: Path
    place: str
    stand: str
    by: str
    held: bool
    lost: str = ""  # all of it, in words

    def lines(self) -> list[str]:
        """For people."""
        if self.lost:
            return [self.lost]
        what_to_do = WHAT_TO_DO.format(self.folder, self.place)
        return [an_older_copy(self.place, self.stand, self.by), f"  resolve    {what_to_do}"]

    def words(self) -> str:
        """In one line."""
        what_to_do = WHAT_TO_DO.format(self.folder, self.place)
        return self.lost or f"{an_older_copy(self.place, self.stand, self.by)}: {what_to_do}"


@dataclass(frozen=True)
class Doubts:
    """All of a network."""

    found: tuple[Doubt, ...]
    unseen: tuple[Looked, ...]
    now: float
    copies: tuple[Copy, ...] = ()

    @property
    def code(self) -> int:
        """The exit code: 0 nothing waits, 1 something does, 3 a place could not be seen."""
        return 1 if self.found or self.copies else 3 if self.unseen else 0

    def document(self) -> dict[str, Any]:
        """As plain data."""
        unseen = [{"place": one.name, "why": one.why} for one in self.unseen]
        copies = [{"place": one.place, "stand": one.stand, "by": one.by} for one in self.copies]
        return {"doubts": [one.document(self.now) for one in self.found], "unseen": unseen, "copies": copies}

    def lines(self) -> list[str]:
        """For people."""
        out = [line for one in self.copies for line in one.lines()]
        out += [line for one in self.found for line in one.lines(self.now)]
        out += [f"{one.name}: cannot be seen: {one.why}" for one in self.unseen]
        return out or ["nothing is unresolved, and nothing waits"]


def doubts(network: Network, names: Sequence[str]) -> Doubts:
    """What waits at these places, the longest first; the others are looked at, too, to say what would help."""
    places = _all_places(network)
    lost = _lost(network, places)
    found = [one for one in lost.values() if {one.place, *(who for who, _ in one.waits)} & set(names)]
    for name in names:
        seen = places[name].seen
        if seen is None:
            continue
        told = seen["doubt"]
        found += [_prepared(network, places, name, one) for one in told["doubt"]]
        found += [_deciding(network, places, name, one) for one in told["deciding"]]
        found += [_pending(network, places, name, one, lost) for one in told["pending"]]
    unseen = tuple(places[name] for name in names if places[name].state == "unseen")
    copies = tuple(copy for name in names for copy in _copies(network, places, name))
    return Doubts(tuple(sorted(found, key=lambda one: one.since or 0.0)), unseen, time.time(), copies)


def _lost(network: Network, places: dict[str, Looked]) -> dict[str, Doubt]:
    """Transactions that are lost with a log, and of which others have something: who takes that waits for ever."""
    asked: dict[str, dict[str, list[str]]] = {}  # by home and transaction: who has something of it
    for name, one in places.items():
        for start, some in one.seen["doubt"]["untold"].items() if one.seen is not None else ():
            for u in some:
                asked.setdefault(place_of(start), {}).setdefault(u, []).append(name)
    out: dict[str, Doubt] = {}
    for home in asked.keys() & places.keys():
        for u in lost_at(network, places[home], list(asked[home])):
            waits = tuple((name, "has a message of it, or has taken one") for name in asked[home][u])
            resolve = (
                f"by hand: `pellucid net commit {network.folder} {u}`, if others have committed with it; else abort, "
                "which undoes who took its messages"
            )
            out[u] = Doubt(home, u, "lost", (u,), None, waits, resolve)
    return out


def _copies(network: Network, places: dict[str, Looked], name: str) -> list[Copy]:
    """Whether the log of a place is an older copy: it was told so, or what others have written down says so.

    Places are looked at one after the other, and go on meanwhile: what another has heard of can be newer than the look
    at this one.  So this one is looked at again, after the others: a log that is no copy has it by then.
    """
    seen = places[name].seen
    if seen is None:
        return []
    lost = places[name].why if places[name].state == "lost" else ""
    if told := [Copy(network.folder, name, one["stand"], one["by"], True, lost) for one in seen["behind"]]:
        return told
    heard = _heard_of(name, places)
    if not any(_lacks(seen, stand) for stand in heard.values()):
        return []
    again = looked_at(network, name).seen
    if again is None:
        return []
    if told := [Copy(network.folder, name, one["stand"], one["by"], True) for one in again["behind"]]:  # meanwhile
        return told
    return [Copy(network.folder, name, stand, other, False) for other, stand in heard.items() if _lacks(again, stand)][
        :1
    ]


def _all_places(network: Network) -> dict[str, Looked]:
    return {name: looked_at(network, name) for name in network.places}


def _heard_of(name: str, places: Mapping[str, Looked]) -> dict[str, str]:
    """How far the log of a place was, as the others have heard."""
    return {other: one.seen["met"][name] for other, one in places.items() if one.seen and name in one.seen["met"]}


def _lacks(seen: Mapping[str, Any], stand: str) -> bool:
    """Whether a log, as it was looked at, lacks a record that another place has heard of; what was accepted counts."""
    return not has_record(stand, seen["ends"], dict(map(stand_of, seen["accepted"])), seen["accepted_in"])


def _prepared(network: Network, places: dict[str, Looked], name: str, one: dict[str, Any]) -> Doubt:
    who, what = one["coordinator"], one["attempt"]
    here, decided = _runs(places, name, network), _decided(network, places, who, what)
    if _state(places, who) == "running":
        missing = _missing(places, who, one["members"])
        resolve = here or "; ".join(_start(network, places, place) for place in missing)
        if missing and not here:
            resolve = f"{who} cannot decide it without {', '.join(missing)}: {resolve}"
        resolve = resolve or f"{who} is asked until it answers; if that takes long, see whether {name} can reach it"
    else:
        by_hand = f"`pellucid net {'abort' if decided is False else 'commit'} {network.folder} {what} --place {name}`"
        resolve = f"{_start(network, places, who)}; if it never comes back, by hand: {by_hand}"
        resolve += {None: ", or abort", True: ", as its log says", False: ", as its log says nothing else"}[decided]
    known = _known(places, who)
    if decided is not None:
        known += "; its log says that it is committed" if decided else "; its log has no decision about it"
    return Doubt(name, what, "prepared", tuple(one["members"]), one["since"], ((who, known),), resolve)


def _decided(network: Network, places: dict[str, Looked], coordinator: str, attempt: str) -> bool | None:
    """Whether the log of a coordinator that does not run has a decision to commit; None where it cannot be read or
    lacks records, or where the coordinator may write one now."""
    one = places.get(coordinator)
    if one is None or one.seen is None or one.state in ("running", "lost"):
        return None
    if any(other["attempt"] == attempt for other in one.seen["doubt"]["deciding"]):
        return True
    return None if _copies(network, places, coordinator) else False


def _missing(places: dict[str, Looked], coordinator: str, members: Sequence[str]) -> list[str]:
    """Places that do not run, and have transactions that commit together with these, as the coordinator knows it."""
    seen = places[coordinator].seen
    pending = seen["doubt"]["pending"] if seen is not None else ()
    together = {place_of(u) for one in pending if set(members) & {*one["waits"]} for u in one["waits"]}
    return sorted(place for place in together if _state(places, place) != "running")


def _deciding(network: Network, places: dict[str, Looked], name: str, one: dict[str, Any]) -> Doubt:
    waits = tuple((place, _known(places, place)) for place in one["missing"])
    down = [place for place, _ in waits if _state(places, place) != "running"]
    resolve = _runs(places, name, network) or (
        f"it is committed; start {', '.join(down)}, which will be told"
        if down
        else "it is committed; they are being told"
    )
    return Doubt(name, one["attempt"], "deciding", tuple(one.get("members", ())), one["since"], waits, resolve)


def _pending(
    network: Network, places: dict[str, Looked], name: str, one: dict[str, Any], lost: Mapping[str, Doubt]
) -> Doubt:
    waits = tuple((u, _known_of(network, places, u)) for u in one["waits"])
    down = sorted({place_of(u) for u, _ in waits if _state(places, place_of(u)) != "running"})
    resolve = _runs(places, name, network)
    if not resolve and down:
        resolve = "; ".join(_start(network, places, place) for place in down)
    if not resolve and (never := [u for u, _ in waits if u in lost]):
        resolve = f"decide {', '.join(never)}, which {'is' if len(never) == 1 else 'are'} lost"
    resolve = resolve or (
        "it is decided when these are: their programs commit or abort; by hand: "
        f"`pellucid net abort {network.folder} {one['t']}`"
    )
    return Doubt(name, one["t"], "pending", (one["t"],), one["since"], waits, resolve)


def _runs(places: dict[str, Looked], name: str, network: Network) -> str:
    """What to do first, if the place itself does not run."""
    if places[name].state == "running":
        return ""
    return f"start {name}: `pellucid net up {network.folder} {name} --background`; it then asks those it waits for"


def _start(network: Network, places: dict[str, Looked], name: str) -> str:
    """What to do about a place that is waited for; one that hangs has to end first."""
    command = f"`pellucid net up {network.folder} {name} --background`"
    if name in places and (pid := places[name].pid):
        return f"see why process {pid} of {name} does not answer; kill -9 loses nothing, then {command}"
    return f"start {name}: {command}"


def _known(places: dict[str, Looked], name: str) -> str:
    state = _state(places, name)
    if state == "unseen" and places[name].pid:
        return "does not answer"
    known = {
        "running": "runs",
        "stopped": "does not run",
        "new": "does not run",
        "lost": "has lost its log",
        "gone": "is not in this network",
    }
    return known.get(state, "cannot be seen")


def _state(places: dict[str, Looked], name: str) -> str:
    """Of a place; a log can name one that network.toml does not have any more."""
    return places[name].state if name in places else "gone"


def _known_of(network: Network, places: dict[str, Looked], t: str) -> str:
    """What the home of a transaction says of it, as far as it was looked at.

    It may have been looked at before the start in which the transaction began, while who waits was looked at after
    that: then it is looked at again.
    """
    home = place_of(t)
    if home in places and not _has_start(places[home], t):
        places[home] = looked_at(network, home)
    one = places.get(home)
    if one is None or one.seen is None or one.state == "lost":
        return f"of {home}, which {_known(places, home)}"
    if not _has_start(one, t):
        return f"of a start of {home} that its log does not have: it is an older copy, and cannot say what became of it"
    for kind in ("pending", "doubt"):
        for item in one.seen["doubt"][kind]:
            if t in (item.get("t"), *item.get("members", ())):
                state = "pending" if kind == "pending" else "prepared"
                return f"{state} at {home}, which {_known(places, home)}"
    if one.state != "running":
        return f"of {home}, which {_known(places, home)}: it says what became of it when it is started"
    return f"of {home}, which {_known(places, home)}: its program has not ended it, or it is decided by now"


def _has_start(one: Looked, t: str) -> bool:
    """Whether the log of a place, as it was looked at, has the start in which a transaction began."""
    return one.seen is not None and start_of(t) in one.seen["ends"]


# ---------------------------------------------------------------- by hand


def warning(network: Network, what: str, outcome: str, place: str | None) -> tuple[str, str]:
    """Where an attempt or a transaction is to be decided by hand, and what must be known before."""
    every = doubts(network, list(network.places))
    about = [one for one in every.found if what == one.what or (one.kind == "prepared" and what in one.members)]
    decided = [one for one in about if one.kind == "deciding"]
    about = [one for one in about if one.kind != "deciding"] or about
    if place is not None:
        about = [one for one in about if one.place == place]
    if not about:
        where = f" at {place}" if place else ""
        raise UsageError(
            f"{what}: nothing of that name waits to be decided{where}: `pellucid net unresolved {network.folder}` "
            "lists what does"
        )
    if len({one.place for one in about}) > 1:
        listed = ", ".join(sorted({one.place for one in about}))
        raise UsageError(f"{what}: waits at {listed}: say where, with --place")
    one = about[0]
    if one.what != what:
        raise UsageError(f"{what}: is prepared together with others: decide the attempt {one.what} as a whole")
    if decided and outcome == "abort":
        raise UsageError(
            f"{what}: {decided[0].place} has decided to commit it, and it is written down there: to undo it here would "
            f"leave half of it. {decided[0].resolve[0].upper()}{decided[0].resolve[1:]}"
        )
    if one.kind == "deciding":
        raise UsageError(f"{what}: is decided: committed. {one.resolve[0].upper()}{one.resolve[1:]}")
    if one.kind == "pending" and outcome == "commit":
        others = ", ".join(u for u, _ in one.waits) or "others"
        raise UsageError(f"{what}: is not prepared: it commits by itself once {others} commit; it can only be aborted")
    if one.kind == "prepared":
        who = one.waits[0][0]
        said = (
            f"{who} may have decided otherwise, or will: then some members of {one.what} are committed and others are "
            f"undone, and nothing mends that. Do this only if {who} never comes back; `pellucid audit "
            f"{network.folder}` will name it"
        )
    elif one.kind == "lost":
        said = (
            f"what became of {what} is lost with the log of {one.place}: if it was the opposite, others have committed "
            f"with it or have undone it, and nothing mends that; what it did at {one.place} does not come back"
        )
    else:
        said = f"{what} is undone, with all that took its messages"
    return one.place, said


def decide_by_hand(network: Network, place: str, what: str, outcome: str, who: str) -> str:
    """Decide it, and have that written down; also at a place that does not run.  What became of it."""
    if looked_at(network, place).state == "running":
        with Place(network, place) as connection:
            return str(connection.ask("hand", what=what, outcome=outcome, who=who)["status"])
    secrets = network.secrets(place)
    with only_one(network, place):
        if (lost := lost_log(network, place)) is not None:
            raise StateError(str(lost))  # a log that began again here would hide the loss
        log = open_log(network.log_of(place), place)
        try:
            core = Core(place, network.tree_of(place, secrets), log.records())
            now = time.time()
            log.append(core.start(now, mark=new_mark()).writes, sync=True)
            if stand := noted(network.folder_of(place)):
                log.append(core.handle(Noted(stand)).writes, sync=True)  # an older copy decides nothing
            done = core.handle(Asked(1, 0, "hand", {"what": what, "outcome": outcome, "who": who, "when": now}))
            log.append(done.writes, sync=True)
        finally:
            log.close()
    answer = dict(done.replies)[1]
    if "error" in answer:
        raise StateError(str(answer.get("message", answer["error"])))
    return str(answer["status"])


def accept_loss(network: Network, place: str, who: str) -> list[str]:
    """Have a place whose log is an older copy go on without what it lacks; that is written down.  What is lost.

    What others have heard of is accepted with it, also if they have not told the place: else they would say it later,
    and it would stop once more.
    """
    heard = [(stand, other) for other, stand in _heard_of(place, _all_places(network)).items()]
    if looked_at(network, place).state != "lost":
        with Place(network, place) as connection:
            return list(map(str, connection.ask("accept", who=who, heard=heard)["stands"]))
    secrets = network.secrets(place)
    with only_one(network, place):
        lost = lost_log(network, place)
        if lost is None:
            raise StateError(f"{place}: its log is back: nothing was done")
        log = open_log(network.log_of(place), place)
        try:
            core = Core(place, network.tree_of(place, secrets), log.records())
            now = time.time()
            effects = [core.start(now, mark=new_mark()), core.handle(Noted(lost.stand))]
            effects.append(core.handle(Asked(1, 0, "accept", {"who": who, "when": now, "heard": heard})))
            log.append([record for one in effects for record in one.writes], sync=True)  # all of it or nothing
        finally:
            log.close()
    return list(map(str, dict(effects[-1].replies)[1]["stands"]))


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _span(seconds: float) -> str:
    """A span of time in words.

    >>> _span(3.2), _span(190), _span(7300), _span(200_000)
    ('3 s', '3 min', '2 h', '2 days')
    """
    for most, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{max(seconds, 0) / unit:.0f} {word}"
    return f"{seconds / 86400:.0f} days"
