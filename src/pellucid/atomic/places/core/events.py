"""What comes to a place and what it does about it: values only, no socket, no disk, no clock.

**Events.**  `Asked` by a client, `Heard` from another place, `Tick` of the clock, `Refused` and `Noted` by the host.

**Operations of clients** (``args`` and the reply; every reply may instead be ``{"error": CODE, "message": TEXT}``, with
the codes ``usage`` (a wrong call), ``path`` (no such way), ``timeout``, ``aborted`` (and ``why``), ``state``, ``copy``
(the log is an older copy)):

=============  =======================================  ================================================================
``begin``      ``parent`` (or None)                     ``{"t": ID}``
``send``       ``t, path, value``                       ``{"mid": MID}``; ``path`` is ``[[MOVE, NAME, TOKEN], …]``
``receive``    ``t, channel, timeout`` (seconds; None   ``{"value", "mid", "sender"}``; no message until then: error
               waits, 0 does not)                       ``timeout``, and the transaction stays open
``commit``     ``t, timeout``                           ``{"status": "committed"}``; aborted: error ``aborted``; else
                                                        after the timeout ``{"status": "pending" or "prepared", …}``
``abort``      ``t``                                    ``{"status": "aborted"}``; of a committed or prepared one: error
                                                        ``state``
``status``     ``t``                                    ``{"status", "why", "waits", "attempt"}`` of a transaction of
                                                        this place
``gone``       (none)                                   no reply; the client's active transactions abort
``doubt``      (none)                                   ``{"doubt": [{"attempt", "members", "coordinator", "since",
                                                        "waits": [ids]}], "deciding": [{"attempt", "missing": [places],
                                                        "since"}], "pending": [{"t", "waits", "since"}]}``
``hand``       ``what, outcome, who, when``             ``{"status": …}``; ``what``: an attempt or a transaction,
                                                        ``outcome``: ``commit`` or ``abort``
``accept``     ``who, when``                            ``{"stands": […]}``: what the log, an older copy, lacks is lost
``metrics``    (none)                                   numbers by name
``look``       ``channel``                              ``{"messages": [[mid, sender, status, value], …]}``, as they lie
=============  =======================================  ================================================================

**Messages between places** (each ``{"kind": …}``; lost, doubled, late and out of order are all harmless):

=================  ================================  ===================================================================
``deposit``        ``mid, sender, value, path``      a message, and the rest of its path; who hears it passes it on
``deposited``      ``mids``                          to the sender's place: they last
``undeliverable``  ``mid, why``                      to the sender's place: a hop refused it
``ask``            ``ids``                           what has become of these transactions of yours?
``told``           ``statuses`` of ``[id, state,     the answer; ``needs`` of pending and prepared ones: what they wait
                   needs]``                          for
``pushed``         ``statuses``                      the same without having been asked: a hint
``prepare``        ``attempt, members, needs``       can you commit your members, if all these do and ``needs`` are
                                                     committed?
``vote``           ``attempt, yes, statuses``        yes: it is durable that they wait for your word alone; no:
                                                     statuses say why
``decided``        ``attempt, outcome``              ``commit`` or ``given up``
``done``           ``attempt``                       the commit is durable here
``outcome``        ``attempt``                       what became of this attempt of yours?
``started``        ``start``                         to all: a place has started; what have you heard of it?
``met``            (none)                            the answer: it shows what was heard of the start before
``known``          ``stand``                         that is in the log
``lacks``          ``stand``                         that is not in the log: it is an older copy
=================  ================================  ===================================================================

Each may show *stands* (`pellucid.atomic.places.core.commit`): ``at`` of who says it, ``after`` of its starts before
this one, ``saw`` of who hears it.

**Effects.**  The host carries them out *in order*: ``writes`` are written, and if ``sync`` everything written so far
is durable, before any of its ``sends`` and ``replies`` go out; nothing of later effects goes out before that, either.
Several effects may share one write and one sync.  If writing fails the host must stop the place: what is in memory is
ahead of what is durable.
"""

from __future__ import annotations

import heapq
import hmac
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pellucid.atomic.places.core.state import NAME, Record, State, fits, make, plain, shortly
from pellucid.errors import PellucidError, UsageError

Message = dict[str, Any]

VIEWS = ("status", "doubt", "metrics", "look")  # also of a place that is not started: nothing is written
OPERATIONS = (
    "begin",
    "send",
    "receive",
    "commit",
    "abort",
    "status",
    "gone",
    "doubt",
    "hand",
    "accept",
    "metrics",
    "look",
)

MESSAGES: dict[str, dict[str, str]] = {
    "deposit": {"mid": "mid", "sender": "id", "value": "any", "path": "path"},
    "deposited": {"mids": "mids"},
    "undeliverable": {"mid": "mid", "why": "text"},
    "ask": {"ids": "ids"},
    "told": {"statuses": "statuses"},
    "pushed": {"statuses": "statuses"},
    "prepare": {"attempt": "attempt", "members": "ids", "needs": "ids"},
    "vote": {"attempt": "attempt", "yes": "flag", "statuses": "statuses"},
    "decided": {"attempt": "attempt", "outcome": "text"},
    "done": {"attempt": "attempt"},
    "outcome": {"attempt": "attempt"},
    "started": {"start": "start"},
    "met": {},
    "known": {"stand": "stand"},
    "lacks": {"stand": "stand"},
}

SHOWN = {"at": "stand", "after": "stands", "saw": "stand"}


@dataclass(frozen=True)
class Asked:
    """A client asks; ``request`` comes back with the reply, ``client`` is one connection of a client."""

    request: Any
    client: Any
    op: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Heard:
    """Another place says something; ``peer`` is who it proved to be."""

    peer: str
    message: Mapping[str, Any]


@dataclass(frozen=True)
class Tick:
    """The time, in seconds since 1970; a clock that jumps does no harm."""

    now: float


@dataclass(frozen=True)
class Refused:
    """The host did not take something: to be written down."""

    what: str
    source: str


@dataclass(frozen=True)
class Noted:
    """The host has found how far the log was, noted beside it."""

    stand: str


Event = Asked | Heard | Noted | Refused | Tick


@dataclass
class Effects:
    """What has to be done, in this order: write, sync, send and reply."""

    writes: list[Record] = field(default_factory=list)
    sync: bool = False
    sends: list[tuple[str, Message]] = field(default_factory=list)
    replies: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.sends or self.replies or self.sync)


def wrong(message: Any) -> str:
    """What is wrong with a message of a place; nothing, if it is one.

    >>> wrong({"kind": "done", "attempt": "p:1:a1"}), wrong({"kind": "done", "attempt": 7}), wrong({"kind": "dance"})
    ('', "the attempt of a 'done' is 7", "no message is of the kind 'dance'")
    >>> wrong({"kind": "deposited", "mids": [["in", "hotel", b"a token"]]})
    "the mids of a 'deposited' is a list"
    """
    if not isinstance(message, Mapping):
        return f"a message is a mapping, not a {type(message).__name__}"
    kind = message.get("kind")
    fields = MESSAGES.get(kind) if isinstance(kind, str) else None
    if fields is None:
        return f"no message is of the kind {shortly(kind)[:40]!r}"
    shown = [name for name in SHOWN if name in message]
    if len(message) != len(fields) + 1 + len(shown):
        return f"a {kind!r} has the fields {', '.join(fields) or ', '.join(SHOWN)}"
    for name in shown:
        if not fits(SHOWN[name], message[name]):
            return f"the {name} of a {kind!r} is {shortly(message[name])}"
    for name, what in fields.items():
        if name not in message:
            return f"a {kind!r} has a field {name}"
        if not fits(what, message[name]):
            return f"the {name} of a {kind!r} is {shortly(message[name])}"
    return ""


# Where places are, and the ways of messages: ``out p . in q . in c``, each step with the token that allows it.
#
# A path is a list of ``[move, name, token]``.  A place checks the steps that are its own: ``out`` of it, ``in`` to it,
# ``in`` to one of its channels; the rest it passes on.  Who may leave out ``in q``?  Only who is inside of q already: a
# client of q, or a message that has just left a place inside of q.  All others have to show the token at the door.

Step = Sequence[Any]


class NoWay(PellucidError):  # noqa: N818 - reads as what it is
    """A path leads nowhere, or a token is not the right one."""


@dataclass(frozen=True)
class Tree:
    """The places of a network, what each is inside of (None: at the top), their channels; the tokens of *one* place.

    >>> tree = Tree({"agent": None, "airline": None}, {"agent": ["answers"], "airline": ["requests"]})
    >>> tree.route("agent", "airline", "requests")
    [('out', 'agent'), ('in', 'airline'), ('in', 'requests')]
    """

    parents: Mapping[str, str | None]
    channels: Mapping[str, Collection[str]]
    tokens: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)  # of (move, name)

    def __post_init__(self) -> None:
        named = [*self.parents, *(c for channels in self.channels.values() for c in channels)]
        for name in named:
            if not isinstance(name, str) or not re.fullmatch(NAME, name):
                raise UsageError(f"{name!r} is not a name: letters, digits, _ and -, not a digit first, at most 64")
        for place, channels in self.channels.items():
            if place not in self.parents:
                raise UsageError(f"channels are given for {place!r}, which is not a place of the network")
            for channel in channels:
                if channel in self.parents:
                    raise UsageError(f"{place}: the channel {channel!r} has the name of a place: give it another")
        for place in self.parents:
            self.outward(place)

    def outward(self, place: str) -> list[str]:
        """The place, what it is inside of, and so on to the top."""
        way = [place]
        while (parent := self.parents[way[-1]]) is not None:
            if parent not in self.parents:
                raise UsageError(f"{way[-1]!r} is inside of {parent!r}, which is not a place of the network")
            if parent in way:
                raise UsageError(f"{place!r} is inside of itself: {' in '.join([*way, parent])}")
            way.append(parent)
        return way

    def route(self, start: str, place: str, channel: str) -> list[tuple[str, str]]:
        """The way from inside of a place to a channel of another: out as far as needed, then in."""
        for name in (start, place):
            if name not in self.parents:
                raise NoWay(f"{name!r} is not a place of the network; there are: {', '.join(sorted(self.parents))}")
        if channel not in self.channels.get(place, ()):
            there = ", ".join(sorted(self.channels.get(place, ()))) or "none"
            raise NoWay(f"{place!r} has no channel {channel!r}; its channels: {there}")
        out, into = self.outward(start), self.outward(place)
        while out and into and out[-1] == into[-1]:
            out.pop()
            into.pop()
        return [*(("out", p) for p in out), *(("in", p) for p in reversed(into)), ("in", channel)]

    def opens(self, step: Step) -> bool:
        """Whether the step's token is the one that is asked for here; takes as long for a wrong one."""
        known = self.tokens.get((step[0], step[1]))
        return known is not None and hmac.compare_digest(known, step[2])


class Arrived(NamedTuple):
    """The path ends in a channel of this place."""

    channel: str


class Onward(NamedTuple):
    """The rest of the path begins at another place."""

    place: str
    rest: list[Step]


def walk(tree: Tree, here: str, path: Sequence[Step], *, inside: bool) -> Arrived | Onward:
    """Go along a path as far as this place has the say; `NoWay` if a token is wrong or the path leads nowhere.

    >>> tokens = {("in", "q"): b"1", ("in", "c"): b"2"}
    >>> tree = Tree({"p": None, "q": None}, {"q": ["c"]}, tokens)
    >>> walk(tree, "q", [["in", "q", b"1"], ["in", "c", b"2"]], inside=False)
    Arrived(channel='c')
    >>> walk(tree, "q", [["in", "q", b"3"], ["in", "c", b"2"]], inside=False)
    Traceback (most recent call last):
    pellucid.atomic.places.core.events.NoWay: 'q' was shown a wrong token for 'in q'
    """
    rest = list(path)
    if not inside:
        if not rest or tuple(rest[0][:2]) != ("in", here):
            raise NoWay(f"{here!r} lies at the path's next step, which is {plain(rest[:1]) or 'missing'!r}, not in it")
        _check(tree, here, rest.pop(0))
    while rest:
        move, name = rest[0][:2]
        if move == "out" and name == here:
            _check(tree, here, rest.pop(0))
            return _outside(tree, here, rest)
        if move == "in" and name in tree.channels.get(here, ()):
            _check(tree, here, rest.pop(0))
            if rest:
                raise NoWay(f"the path continues behind the channel {name!r} of {here!r}: {plain(rest)}")
            return Arrived(name)
        if move == "in" and name in tree.parents and tree.parents[name] == here:
            return Onward(name, rest)
        raise NoWay(f"inside of {here!r} there is no way {plain(rest[:1])!r}")
    raise NoWay(f"the path ends inside of {here!r} and not in a channel")


def ends_in(tree: Tree, here: str, path: Sequence[Step]) -> tuple[str, str]:
    """The place and the channel in which a path from inside of a place ends, whatever its tokens; else `NoWay`.

    >>> tree = Tree({"p": None, "q": None, "r": "q"}, {"q": ["c"], "r": ["d"]})
    >>> ends_in(tree, "p", [["out", "p", b""], ["in", "q", b""], ["in", "r", b""], ["in", "d", b""]])
    ('r', 'd')
    >>> ends_in(tree, "p", [["in", "q", b""], ["in", "c", b""]])
    Traceback (most recent call last):
    pellucid.atomic.places.core.events.NoWay: inside of 'p' there is no way 'in q'
    """
    at: str | None = here
    for number, (move, name, _) in enumerate(path):
        if move == "out" and at == name:
            at = tree.parents[name]
        elif move == "in" and name in tree.parents and tree.parents[name] == at:
            at = name
        elif move == "in" and at is not None and name in tree.channels.get(at, ()):
            if number + 1 < len(path):
                raise NoWay(f"the path continues behind the channel {name!r} of {at!r}: {plain(path[number + 1 :])}")
            return at, name
        else:
            where = f"inside of {at!r}" if at else "outside of all places"
            raise NoWay(f"{where} there is no way {f'{move} {name}'!r}")
    raise NoWay(f"the path ends {f'inside of {at!r}' if at else 'outside of all places'} and not in a channel")


def _outside(tree: Tree, here: str, rest: list[Step]) -> Onward:
    """A message has left this place: who has the say next?"""
    around = tree.parents[here]
    if around is not None:
        return Onward(around, rest)
    if rest and rest[0][0] == "in" and rest[0][1] in tree.parents and tree.parents[rest[0][1]] is None:
        return Onward(rest[0][1], rest)
    raise NoWay(f"outside of {here!r} there is no way {plain(rest[:1])!r}" if rest else "the path ends outside")


def _check(tree: Tree, here: str, step: Step) -> None:
    if not tree.opens(step):
        raise NoWay(f"{here!r} was shown a wrong token for {plain([step])!r}")


# What every part of a place does: write, send, reply, refuse, wake up later.

KEPT = 1000  # refusals that are written down
_LONGEST = 60.0  # what a jump of the clock may count for
MOST = 1000  # names in one message


@dataclass(frozen=True)
class Timing:
    """How long to wait before something is sent again, in seconds."""

    resend: float = 0.5  # what was not acknowledged
    ask: float = 0.5  # what others have not told yet
    greet: float = 3.0  # after a start, for places to show what they have heard of earlier ones
    attempt: float = 10.0  # a vote that does not come: the attempt is given up, and nothing else


DEFAULT = Timing()


class Speaker:
    """The state, the effects of the event that is being handled, and alarms."""

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], timing: Timing) -> None:
        if name not in tree.parents:
            raise UsageError(f"{name!r} is not a place of the network; there are: {', '.join(sorted(tree.parents))}")
        self.name, self.tree, self.timing = name, tree, timing
        self.state = State(name)
        for record in records:
            self.state.apply(record)
        self.now = self.clock = 0.0  # as told, and as counted here: it never goes back
        self.refusals = 0  # of this start
        self._out = Effects()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def _write(self, kind: str, *, sync: bool = False, **fields: Any) -> None:
        record = make(kind, **fields)
        record.when = self.now
        self.state.apply(record)
        self._out.writes.append(record)
        self._out.sync |= sync

    def _send(self, peer: str, kind: str, **fields: Any) -> None:
        if peer != self.name and peer in self.tree.parents:
            self._out.sends.append((peer, {"kind": kind, **fields}))

    def _reply(self, request: Any, **answer: Any) -> None:
        self._out.replies.append((request, answer))

    def _error(self, request: Any, code: str, message: str, **more: Any) -> None:
        self._out.replies.append((request, {"error": code, "message": message, **more}))

    def _refuse(self, what: str, source: str) -> None:
        """Said once in the log, as long as it is not full of that; nothing else happens."""
        self.refusals += 1
        if self.state.refused < KEPT:
            self._write("refused", what=what[:300], source=source[:100])

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._alarms, (self.clock + seconds, next(self._number), do))

    def _pass_time(self, now: float) -> None:
        if self.now:
            self.clock += min(max(now - self.now, 0.0), _LONGEST)
        self.now = now
        while self._alarms and self._alarms[0][0] <= self.clock:
            heapq.heappop(self._alarms)[2]()
