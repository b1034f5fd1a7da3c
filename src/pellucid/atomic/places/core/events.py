"""What comes to a place and what it does about it: values only, no socket, no disk, no clock.

**Events.**  `Asked` by a client, `Heard` from another place, `Tick` of the clock, `Refused` and `Noted` by the host.

**Operations of clients** (``args`` and the reply; every reply may instead be ``{"error": CODE, "message": TEXT}``, with
the codes ``usage`` (a wrong call), ``path`` (no such way), ``timeout``, ``aborted`` (and ``why``), ``state``, ``copy``
(the log is an older copy)):

=============  =======================================  ================================================================
``begin``      ``parent`` (or None)                     ``{"t": ID}``
``send``       ``t, path, value``                       ``{"mid": MID}``; ``path`` is ``[[MOVE, NAME, TOKEN], …]``
``receive``    ``t, channel, timeout`` (seconds; None   ``{"value", "mid", "sender"}``; no message until then: error
               waits, 0 does not)                       ``timeout``, and the transaction goes on
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
``vote``           ``attempt, yes, statuses``        yes: it lasts that they wait for your word alone; no: statuses say
                                                     why
``decided``        ``attempt, outcome``              ``commit`` or ``given up``
``done``           ``attempt``                       the commit lasts here
``outcome``        ``attempt``                       what became of this attempt of yours?
``started``        ``start``                         to all: a place has started; what have you heard of it?
``met``            (none)                            the answer: it shows what was heard of the start before
``known``          ``stand``                         that is in the log
``lacks``          ``stand``                         that is not in the log: it is an older copy
=================  ================================  ===================================================================

Each may show *stands* (`pellucid.atomic.places.core.copies`): ``at`` of who says it, ``after`` of its starts before
this one, ``saw`` of who hears it.

**Effects.**  The host carries them out *in order*: ``writes`` are written, and if ``sync`` everything written so far
lasts, before any of its ``sends`` and ``replies`` go out; nothing of later effects goes out before that, either.
Several effects may share one write and one sync.  If writing fails the host must stop the place: what is in memory is
ahead of what lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.atomic.places.records import Record, fits, shortly

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
    """The host did not take something from somebody: to be written down."""

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
