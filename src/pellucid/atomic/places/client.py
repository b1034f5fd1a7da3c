"""Programs at places: connect to the process of one's own place, and run transactions there.

A transaction that is left without a commit, by an exception or otherwise, is undone; one whose program dies, too.  Once
`commit` was asked for, the place brings it to an end, whatever becomes of the program: `Place.status` says which.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from pellucid.atomic.places.connections import Link, keep_alive
from pellucid.atomic.places.network import Network, needed_here
from pellucid.atomic.places.wire import BadFrame, Capability, pack, pack_value, unpack, unpack_value
from pellucid.errors import DataError, PellucidError, StateError, UsageError

_SECONDS_TO_GREET = 10.0
_GRACE = 30.0  # seconds that an answer may take beyond what was asked for
COMMIT_SECONDS = 60.0
_UNDONE = ": what was begun and not asked to commit is undone"
_TEXTS = {"t": "a transaction", "path": "a path", "channel": "a channel"}


class Aborted(PellucidError):  # noqa: N818 - reads as what it is
    """The transaction was undone; ``why`` says by whom or by what."""

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why


class NothingCame(PellucidError, TimeoutError):  # noqa: N818
    """No message came in time; the transaction stays open, and the program decides what to do."""


class InDoubt(PellucidError, TimeoutError):  # noqa: N818
    """It is not known yet whether the transaction is committed: it will be decided; ask `Place.status` later."""


class NotReached(DataError):  # noqa: N818
    """The process of the place does not run, or ended, or (``silent``) does not answer."""

    silent = False


def connect(folder: str | os.PathLike[str], place: str, *, patience: float = 0.0) -> Place:
    """A connection to the process of one's own place; with ``patience`` it is waited for so many seconds.

    One connection does one thing at a time: threads that shall work side by side have one each.

    >>> connect("/nowhere", "agent")
    Traceback (most recent call last):
    pellucid.errors.UsageError: /nowhere: is no network: it has no network.toml; make one with `pellucid net new
    /nowhere --place …`
    """
    network = Network.load(folder)
    needed_here()
    found = Place(network, place)
    found.reach(patience)
    return found


class Place:
    """A connection to a place; use it in a ``with`` block.

    ::

        with connect(DIR, "agent") as place, place.transaction() as t:
            t.send("airline.requests", {"seat": 12})
            answer = t.receive("answers", timeout=5)
            t.commit()
    """

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, network.place(name).name
        self._secrets = network.secrets(name)
        self._tls = network.tls(name)
        self._turn = threading.Lock()
        self._socket: socket.socket | None = None
        self._link: Any = None
        self._asked = 0
        self._came: list[bytes] = []

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Place({str(self.network.folder)!r}, {self.name!r})"

    # ---------------------------------------------------------------- for programs

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: undone at the end of the block, unless it was committed."""
        with self.begin() as t:
            yield t

    def begin(self, parent: Transaction | None = None) -> Transaction:
        """A transaction, without a block; `Transaction.child` gives one that depends on another."""
        if parent is not None and not isinstance(parent, Transaction):
            raise UsageError(f"begin: a parent is a transaction that begin() or transaction() gave, not {parent!r:.60}")
        answer = self.ask("begin", parent=None if parent is None else parent.id)
        return Transaction(self, answer["t"])

    def status(self, transaction: str) -> str:
        """What became of a transaction of this place: active, pending, prepared, committed or aborted."""
        return str(self.ask("status", t=transaction)["status"])

    def capability(self, path: str) -> Capability:
        """The way to a channel as a value: who gets it in a message can send there, also if it could not before."""
        return self.network.capability(self._secrets, self.name, path)

    def messages(self, channel: str) -> list[Any]:
        """The values of the messages that lie in a channel of this place, the first 1,000; to look takes nothing, and
        promises nothing: they may be of transactions that will be undone."""
        return [unpack_value(one[3]) for one in self.ask("look", channel=channel)["messages"]]

    # ---------------------------------------------------------------- the connection

    def reach(self, patience: float = 0.0) -> None:
        """Connect, again if need be; it is tried for so many seconds."""
        until = time.monotonic() + patience
        while True:
            try:
                with self._turn:
                    self._connect()
                return
            except NotReached:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        """Let go: what was begun here and not asked to commit is undone."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None

    def ask(self, op: str, seconds: float | None = _GRACE, **args: Any) -> dict[str, Any]:
        """Ask the place; its answer, or what it refuses as an exception."""
        for name, given in args.items():
            if name in _TEXTS:
                _text(given, f"{op}: {_TEXTS[name]}")
        with self._turn:
            if self._socket is None:
                self._connect()
            self._asked += 1
            try:
                self._send(self._link.seal(pack({"n": self._asked, "op": op, **args})))
                answer = self._answer(self._asked, seconds)
            except BadFrame as error:
                self.close()
                raise NotReached(f"{self.name}: the connection was disturbed: {error}") from None
            except BaseException:
                self.close()  # an answer that comes later belongs to no call: what was begun is undone
                raise
        return _good(answer, args.get("t"))

    def _connect(self) -> None:
        self.close()
        place = self.network.place(self.name)
        try:
            made = self._socket = socket.create_connection((place.host, place.port), _SECONDS_TO_GREET)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(made)
        except TimeoutError:
            self.close()
            raise self._silent(place.address) from None
        except OSError as error:
            self.close()
            raise NotReached(
                f"{self.name}: no process answers at {place.address} ({error.strerror or error}): start the place with "
                f"`pellucid net up {self.network.folder}`"
            ) from None
        self._link = Link(self._tls, self.name, self.name)
        self._came = []
        try:
            self._send(self._link.opening())
            while not self._link.ready:
                self._hear(_SECONDS_TO_GREET)
        except NotReached as error:
            self.close()
            if error.silent:
                raise self._silent(place.address) from None
            raise NotReached(
                f"{self.name}: who listens at {place.address} hung up: it is of another network than "
                f"{self.network.folder}, or is no place; see {self.network.folder_of(self.name)}/said.log"
            ) from None
        except BadFrame as error:
            self.close()
            raise NotReached(f"{self.name}: who listens at {place.address} is not that place: {error}") from None

    def _send(self, data: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(_GRACE)
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from None

    def _hear(self, seconds: float | None) -> None:
        """Read what is there, and wait for it at most so long."""
        assert self._socket is not None
        try:
            self._socket.settimeout(None if seconds is None else max(seconds, 0.001))
            data = self._socket.recv(1 << 18)
        except OSError as error:
            raise self._lost(error) from None
        if not data:
            raise self._lost(None)
        payloads, back = self._link.receive(data)
        self._came += payloads
        if back:
            self._send(back)

    def _answer(self, number: int, seconds: float | None) -> dict[str, Any]:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            while self._came:
                answer = unpack(self._came.pop(0))
                if answer.pop("n", None) == number:
                    return answer
            self._hear(None if until is None else until - time.monotonic())

    def _lost(self, error: OSError | None) -> NotReached:
        silent = isinstance(error, TimeoutError)
        lost = NotReached(f"{self.name}: {'it gave no answer in time' if silent else 'the connection ended'}{_UNDONE}")
        lost.silent = silent
        return lost

    def _silent(self, address: str) -> NotReached:
        lost = NotReached(
            f"{self.name}: does not answer at {address} ({_SECONDS_TO_GREET:g} s): its process is stopped or has too "
            "much to do, or the way there is cut"
        )
        lost.silent = True
        return lost


class Transaction:
    """A transaction of a place; made by `Place.transaction`."""

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.id = place, name
        self._left = False  # to the place: committed, aborted, or asked to commit

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *about: object) -> None:
        if not self._left:
            with contextlib.suppress(NotReached, Aborted):  # without a connection it is undone, too
                self.abort()

    def __repr__(self) -> str:
        return f"Transaction({self.id!r})"

    def send(self, path: str | Capability, value: Any) -> None:
        """Send a value along a path: ``airline.requests``, ``out agent.in airline.in requests``, a channel of one's own
        place, or a `Capability` that came in a message.  Readers may take it at once, and then depend on this
        transaction."""
        packed = pack_value(value)
        if isinstance(path, Capability):
            self._ask("send", path=f"{path.to}.{path.channel}", value=packed, tokens=path.tokens)
        else:
            self._ask("send", path=path, value=packed)

    def receive(self, channel: str, timeout: float | None = None) -> Any:
        """Take a message of a channel of one's own place; this transaction then depends on its sender.

        `NothingCame` (a `TimeoutError`) after so many seconds; None waits for ever.
        """
        seconds = _seconds(timeout, "receive")
        answer = self._ask("receive", None if seconds is None else seconds + _GRACE, channel=channel, timeout=seconds)
        return unpack_value(answer["value"])

    def child(self) -> Transaction:
        """A transaction that depends on this one."""
        return self.place.begin(self)

    def commit(self, timeout: float | None = COMMIT_SECONDS) -> str:
        """Commit, together with all that depend on each other: ``committed``; `Aborted` if it was undone.

        `InDoubt` (a `TimeoutError`) if it is not decided in time: then it stays what it is, and is decided later.
        """
        seconds = _seconds(timeout, "commit")
        self._left = True
        try:
            answer = self._ask("commit", None if seconds is None else seconds + _GRACE, timeout=seconds)
        except NotReached as error:
            raise InDoubt(
                f"{self.id}: {str(error).removesuffix(_UNDONE)}; if the place has heard that it is to be committed it "
                f"is decided, else it is undone: ask status({self.id!r})"
            ) from None
        if answer["status"] == "committed":
            return "committed"
        waits = ", ".join(map(str, answer.get("waits") or ())) or "an answer"
        raise InDoubt(
            f"{self.id}: is {answer['status']} after {seconds:g} seconds, and waits for {waits}: it is decided later; "
            f"ask status({self.id!r}), or see `pellucid net unresolved {self.place.network.folder}`"
        )

    def abort(self) -> None:
        """Undo it: what it took lies in its channels again, and who took its messages is undone, too."""
        self._left = True
        self._ask("abort")

    def _ask(self, op: str, seconds: float | None = _GRACE, **args: Any) -> dict[str, Any]:
        return self.place.ask(op, seconds, t=self.id, **args)


def _seconds(given: float | None, who: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < 1e9:
        raise UsageError(f"{who}: timeout={given!r}: expected a number of seconds, 0 or more, or None")
    return float(given)


def _text(given: Any, what: str) -> None:
    """Refuse here what the place would end the connection for: a mistake in a call undoes nothing."""
    if not isinstance(given, str):
        raise UsageError(f"{what} is a text, not {given!r:.60}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} {given!r:.60} has half of a pair of surrogates, which UTF-8 does not have") from None


def _good(answer: dict[str, Any], t: str | None) -> dict[str, Any]:
    code = answer.get("error")
    if code is None:
        return answer
    message = str(answer.get("message", code))
    if code == "aborted":
        why = str(answer.get("why", ""))
        raise Aborted(f"{t} was undone: {why or message}", why)
    if code == "timeout":
        raise NothingCame(message)
    if code == "copy":
        raise StateError(message)
    raise UsageError(message)
