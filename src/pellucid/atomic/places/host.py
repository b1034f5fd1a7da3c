"""The process of a place: it has the log and the sockets, and runs no code of users.

One loop: what has come in meanwhile is handled by the core, one after the other; all that the core wants written is
written at once, with one sync for all of it; then answers and messages go out.  So many clients share one sync, and
nothing is sent before it is durable.  If the log cannot be written the process ends: what it has in memory is ahead of
what is durable, and a restart begins with that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pellucid.atomic.places.connections import CLIENT, PLACE, Connection, Listening, Outgoing
from pellucid.atomic.places.core import Asked, Core, Effects, Event, Heard, Noted, Refused, Tick
from pellucid.atomic.places.core.commit import WHAT_TO_DO, an_older_copy
from pellucid.atomic.places.core.state import MINUTE, in_words, new_mark, view
from pellucid.atomic.places.log import LISTENS, SAID, Newest, lost_log, open_log
from pellucid.atomic.places.network import Network, needed_here
from pellucid.atomic.places.processes import only_one
from pellucid.atomic.places.wire import MOST, ROOM, BadFrame, fits, pack, unpack
from pellucid.errors import PellucidError, StateError, UsageError, from_outside, printable
from pellucid.internal.base import faults
from pellucid.internal.base.files import no_links, own_folder

TICK = 0.1  # seconds
SOON = 0.005  # after something was done: what can wait for others to share a sync waits no longer than that
CROWDED = 20_000  # events that wait: who sends more is not read until there are fewer
REPORTED = 100  # refusals that are reported in a minute; the others are counted
SAID_MOST = 10_000_000  # bytes, after which a start begins a new one
FROM_CLIENTS: dict[str, dict[str, tuple[type, ...]]] = {  # what a client may ask, and of which types
    "begin": {"parent": (str, type(None))},
    "send": {"t": (str,), "path": (str,), "value": (bytes,), "tokens": (dict, type(None))},
    "receive": {"t": (str,), "channel": (str,), "timeout": (int, float, type(None))},
    "commit": {"t": (str,), "timeout": (int, float, type(None))},
    "abort": {"t": (str,)},
    "status": {"t": (str,)},
    "doubt": {},
    "metrics": {},
    "look": {"channel": (str,)},
    "view": {},
    "hand": {"what": (str,), "outcome": (str,), "who": (str,)},
    "accept": {"who": (str,), "heard": (list,)},
}  # fmt: skip


class Host:
    """A place that is running.  `serve` returns when ``stop`` is set."""

    def __init__(self, network: Network, name: str) -> None:
        needed_here()
        self.network, self.name = network, name
        self.secrets = network.secrets(name)
        self._tls = network.tls(name)
        if (lost := lost_log(network, name)) is not None:
            raise StateError(str(lost))
        self.log = open_log(network.log_of(name), name)
        try:
            self.core = Core(name, network.tree_of(name, self.secrets), self.log.records())
            self.core.folder = str(network.folder)
            own_folder(network.folder_of(name), "DIR", "lock")
            self.newest = Newest(network.folder_of(name))
        except BaseException:
            self.log.close()
            raise
        self.stop = asyncio.Event()
        self._inbox: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self._clients: dict[int, Connection] = {}
        self._connected: set[Connection] = set()
        self._numbers = 0
        self._paused: list[Connection] = []
        self._paths: dict[str, list[list[Any]]] = {}
        self._outgoing: dict[str, Outgoing] = {}
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="log")
        self._reported, self._unreported, self._minute = 0, 0, 0
        self._commits: deque[tuple[float, int]] = deque()  # of the last minute
        self.counts = {"events": 0, "writes": 0, "records": 0, "syncs": 0, "refused": 0}
        self._ticked = 0.0
        self.began = time.time()

    # ---------------------------------------------------------------- its life

    async def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Start, listen, and work until it is stopped."""
        faults.arm(self.name, 0, os.getpid())
        effects = [self.core.start(time.time(), mark=new_mark())]
        if self.newest.stand is not None:
            effects.append(self.core.handle(Noted(self.newest.stand)))
        await self._carry_out([*effects, self.core.handle(Tick(time.time()))])
        for start, (source, n) in self.core.state.behind.items():  # also what an earlier start was told
            self._say_copy(f"{start}/{n}", source)
        listening = Listening(self.network, self.name, self)
        try:
            await listening.start()
            say(f"{LISTENS}{self.network.place(self.name).address}")
            ready()
            work = asyncio.create_task(self._work())
            ticking = asyncio.create_task(self._tick())
            stopping = asyncio.create_task(self.stop.wait())
            try:
                await asyncio.wait({work, ticking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (work, ticking, stopping):
                    task.cancel()
                ended = await asyncio.gather(work, ticking, stopping, return_exceptions=True)
            for one in ended:
                if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError):
                    raise one
        finally:
            listening.close()
            for peer in self._outgoing.values():
                peer.close()
            for connection in list(self._connected):
                connection.end()
            self._disk.shutdown()
            self.newest.close()
            self.log.close()
        say("ended")

    def _now(self) -> None:
        self._ticked = time.time()
        self._event(Tick(self._ticked))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._now()

    def _tick_soon(self) -> None:
        self._soon = None
        self._now()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            events, self._inbox = self._inbox, deque()
            self.counts["events"] += len(events)
            effects = [self.core.handle(event) for event in events]
            await self._carry_out(effects)
            for event, one in zip(events, effects, strict=True):
                if not isinstance(event, Refused):  # which was told when it was refused
                    self._report(one)
            if self._soon is None and any(not isinstance(event, Tick) for event in events):
                self._soon = asyncio.get_running_loop().call_later(SOON, self._tick_soon)
            if self._paused and len(self._inbox) < CROWDED // 2:
                paused, self._paused = self._paused, []
                for connection in paused:
                    with contextlib.suppress(RuntimeError):
                        connection.transport.resume_reading()

    async def _carry_out(self, effects: list[Effects]) -> None:
        """Write all that is to be written, with one sync; only then say what is to be said."""
        writes = [record for one in effects for record in one.writes]
        sync = any(one.sync for one in effects)
        if faults.armed():
            for record in writes:
                faults.point(f"place:before-{_dashed(record.kind)}")
        if sync:
            await asyncio.get_running_loop().run_in_executor(self._disk, self._append, writes, True)
            self.newest.write(self.core.state)  # nothing is handled meanwhile: all that it has is durable
        elif writes:
            self._append(writes, False)
        if faults.armed():
            for record in writes:
                faults.point(f"place:after-{_dashed(record.kind)}")
        for one in effects:
            for peer, message in one.sends:
                self._say(peer, message)
            for request, reply in one.replies:
                self._answer(request, reply)

    def _report(self, effects: Effects) -> None:
        """What the core has written down that operators have to know."""
        for record in effects.writes:
            if record.kind == "refused" and self._may_report():
                say(f"refused: {record['source']}: {record['what']}")
            elif record.kind == "behind":
                self._say_copy(record["stand"], record["source"])
            elif record.kind == "accepted":
                say(f"{record['who']} has accepted the loss of {', '.join(map(in_words, record['stands']))}: resumes")

    def _say_copy(self, stand: str, source: str) -> None:
        say(f"{an_older_copy(self.name, stand, source)}: {WHAT_TO_DO.format(self.network.folder, self.name)}")

    def _append(self, records: list[Any], sync: bool) -> None:
        self.log.append(records, sync=sync)
        self.counts["writes"] += 1
        self.counts["records"] += len(records)
        self.counts["syncs"] += sync
        now = time.time()
        for record in records:
            if record.kind == "commit":
                self._commits.append((now, len(record["members"])))
        while self._commits and self._commits[0][0] < now - MINUTE:
            self._commits.popleft()

    # ---------------------------------------------------------------- out

    def _say(self, peer: str, message: dict[str, Any]) -> None:
        if peer == self.name:
            self._event(Heard(peer, message))
            return
        if peer not in self._outgoing:
            if peer not in self.network.places:
                return
            self._outgoing[peer] = Outgoing(self.network, self._tls, self.name, peer, self)
        packed = pack(message)
        if len(packed) > MOST:
            self._say_in_parts(peer, message)
            return
        self._outgoing[peer].send(packed)
        if faults.armed():
            faults.point(f"place:said-{message['kind']}")

    def _say_in_parts(self, peer: str, message: dict[str, Any]) -> None:
        """What is longer than a frame: a list of things that can be said one after the other is."""
        for name in ("statuses", "ids", "mids"):
            if len(parts := message.get(name, ())) > 1:
                half = len(parts) // 2
                self._say(peer, {**message, name: parts[:half]})
                self._say(peer, {**message, name: parts[half:]})
                return
        self.refused(f"a '{message['kind']}' for {peer} that is longer than a frame", self.name)

    def _answer(self, request: Any, reply: dict[str, Any]) -> None:
        number, asked, *view = request
        connection = self._clients.get(number)
        if connection is not None:
            if view:
                reply = self._view(reply)
            packed = pack({"n": asked, **reply})
            if len(packed) > MOST:
                said = f"the answer takes {len(packed):,} bytes, and a frame has {MOST:,} at most"
                packed = pack({"n": asked, "error": "usage", "message": said})
            connection.send(packed)

    # ---------------------------------------------------------------- in

    def _event(self, event: Event) -> None:
        self._inbox.append(event)
        self._wake.set()

    def opened(self, connection: Connection) -> None:
        """A client or a place has shown its certificate."""
        self._connected.add(connection)
        if connection.link.peer_role == CLIENT:
            self._numbers += 1
            connection.number = self._numbers
            self._clients[self._numbers] = connection

    def closed(self, connection: Connection) -> None:
        """What a client had begun and not asked to commit is undone."""
        self._connected.discard(connection)
        if connection.open and connection.link.peer_role == CLIENT:
            self._clients.pop(connection.number, None)
            self._event(Asked((connection.number, 0), connection.number, "gone"))

    def heard(self, connection: Connection, payload: bytes) -> None:
        """A request of a client, or a message of a place."""
        try:
            message = unpack(payload)
        except BadFrame as error:
            connection.end(str(error))
            return
        if connection.link.peer_role == PLACE:
            self._event(Heard(connection.link.peer, message))
        else:
            self._asked(connection, message)
        if len(self._inbox) > CROWDED:
            connection.transport.pause_reading()
            self._paused.append(connection)

    def _asked(self, connection: Connection, message: dict[str, Any]) -> None:
        op, number = message.pop("op", None), message.pop("n", None)
        if op == "send":
            message.setdefault("tokens", None)
        elif op == "accept":
            message.setdefault("heard", [])
        kinds = FROM_CLIENTS.get(op) if isinstance(op, str) else None
        if kinds is None or type(number) is not int or not 0 < number < 2**63 or message.keys() != kinds.keys():
            connection.end("asks for what there is not")
            return
        for name, value in message.items():
            if type(value) not in kinds[name]:
                connection.end(f"{op}: {name} is a {type(value).__name__}")
                return
        request: tuple[Any, ...] = (connection.number, number)
        try:
            if op == "send":
                message["path"] = self._path(message["path"], message.pop("tokens"))
                if len(message["value"]) > MOST - ROOM:
                    raise UsageError(f"the value takes {len(message['value']):,} bytes: at most {MOST - ROOM:,}")
            elif op == "look":
                self.network.route(self.name, message["channel"])
            elif op in ("hand", "accept"):
                message["when"] = time.time()
            elif op == "view":
                op, request = "doubt", (*request, op)
        except PellucidError as error:
            self._answer(request, {"error": "path", "message": str(error)})
            return
        if message.get("timeout") and time.time() - self._ticked > TICK / 10:
            self._now()  # so that it is counted from now
        self._event(Asked(request, connection.number, op, message))

    def _view(self, doubt: dict[str, Any]) -> dict[str, Any]:
        now = time.time()
        commits = sum(n for at, n in list(self._commits) if at >= now - MINUTE)
        return {
            **view(self.core.state, doubt, self.network.place(self.name).channels, self.core.met),
            "commits_per_second": commits / min(max(now - self.began, 1.0), MINUTE),
            "process": {
                "seconds_up": round(now - self.began, 3), "clients": len(self._clients),
                "records": self.counts["records"], "writes": self.counts["writes"], "syncs": self.counts["syncs"],
                "refused_connections": self.counts["refused"],
            },
        }  # fmt: skip

    def _path(self, text: str, given: dict[str, bytes] | None) -> list[list[Any]]:
        if given is not None:
            if not fits(given):
                raise UsageError(
                    "no capability: expected one that was sent in a message, or that Place.capability gave"
                )
            return self.network.path(self.secrets, self.name, text, given)
        found = self._paths.get(text)
        if found is None:
            if len(self._paths) > 1000:
                self._paths.clear()
            found = self._paths[text] = self.network.path(self.secrets, self.name, text)
        return found

    def refused(self, what: str, source: str) -> None:
        """Input that was not taken: reported and written down, so many times a minute, and counted."""
        self.counts["refused"] += 1
        if self._may_report():
            say(f"refused: {source}: {what}")
            self._event(Refused(what, source))

    def _may_report(self) -> bool:
        """Whether one more is reported in this minute."""
        minute = int(time.time() // 60)
        if minute != self._minute:
            if self._unreported:
                say(f"refused {self._unreported:,} more in that minute")
            self._minute, self._reported, self._unreported = minute, 0, 0
        if self._reported < REPORTED:
            self._reported += 1
            return True
        self._unreported += 1
        return False


# ---------------------------------------------------------------- the process


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


def say(text: str) -> None:
    """One line, with the time."""
    with contextlib.suppress(OSError, ValueError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


def serve(folder: str | os.PathLike[str], name: str, ready: Callable[[], None] = lambda: None) -> None:
    """Be the place ``name`` until SIGTERM or SIGINT; ``ready`` is called when it listens."""
    network = Network.load(folder)
    network.place(name)
    with only_one(network, name):
        asyncio.run(_until_stopped(network, name, ready))


async def _until_stopped(network: Network, name: str, ready: Callable[[], None]) -> None:
    host = Host(network, name)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.stop.set)
    await host.serve(ready)


def main(args: list[str]) -> int:
    """``python -m pellucid.atomic.places.host DIR PLACE`` is that place, until it is stopped.

    With ``--tell FD`` and several places (what `pellucid net up` does) each becomes a process in the background, and
    says there whether it listens, or why it does not.
    """
    if len(args) > 3 and args[0] == "--tell":
        for name in args[3:]:
            if os.fork() == 0:
                os._exit(_in_background(int(args[1]), args[2], name))
        return 0
    try:
        if len(args) != 2:
            raise UsageError("expected DIR and PLACE")
        serve(args[0], args[1])
    except Exception as error:
        print(printable(f"pellucid: {_words(error)}"), file=sys.stderr)
        return 2
    return 0


def _in_background(tell: int, folder: str, name: str) -> int:
    """The rest of a process that was forked for one place; what it prints is in its folder."""

    def answer(text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(tell, f"{name} {text}\n".encode())
            os.close(tell)

    try:
        os.setsid()
        own = Network.load(folder).folder_of(name)
        own_folder(own, "DIR", "lock")
        _make_room(own / SAID)
        said = no_links(own / SAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for handle in (1, 2):
            os.dup2(said, handle)
        os.close(said)
        serve(folder, name, lambda: answer("listens"))
        return 0
    except BaseException as error:
        words = " ".join(_words(error).split())
        say(f"ends: {words}")
        answer(words)
        return 2


def _make_room(file: Path) -> None:
    """What a process printed long ago goes into a second file, and what was there is gone."""
    with contextlib.suppress(OSError):
        if file.stat().st_size > SAID_MOST:
            os.replace(file, file.with_suffix(".log.old"))


def _words(error: BaseException) -> str:
    """One line about what ended a place; of a bug with the traceback, where it is printed."""
    if isinstance(error, PellucidError):
        return str(error)
    outside = from_outside(error)
    if outside is not None:
        return str(outside)
    traceback.print_exception(error)
    return f"internal error: {type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
