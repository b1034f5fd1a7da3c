"""A log that came back from an older copy: how a place is told, and what it does then.

A copy lacks records that lasted, and others may rely on them.  A place cannot see that in its log; others can.  What a
place says to another carries its *stand*: its start, and how many of its records last.  Who hears it keeps the highest
(and writes it down with what is synced anyway), and shows it in whatever it says to that place.  No crash loses what
lasts, so a place that is shown a stand that its log lacks knows: the log is an older copy.

From then on it does nothing that others or programs could rely on: it says what its log knows to be committed, and
presumes nothing.  Somebody brings back the newer log, or accepts the loss, which is written down.

A new start is believed only if its log has the last stand that was heard of the one before: who could speak against a
copy never takes the copy's word.  What comes from a start that is not believed is dropped, whatever it is: all of it is
said again, or asked for again.  So that a start is believed with its first word, a place says how long its earlier
starts were (``after``) to whoever has not shown that it has heard of this one; else it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pellucid.atomic.places.core.events import Asked
from pellucid.atomic.places.core.paths import Tree
from pellucid.atomic.places.core.speaking import Speaker, Timing
from pellucid.atomic.places.records import Record, fits, in_words, stand_of, start_of

RELIED_ON = frozenset(  # what others do something about: it shows how far the log of who says it is
    ["deposit", "deposited", "undeliverable", "told", "pushed", "prepare", "vote", "decided", "done", "known"]
)
SAID_MOST = 10_000  # refusals that are remembered so as not to be said again
EARLIER = 500  # starts before this one, of which others are told; about more they ask
HELD = ("begin", "send", "receive", "commit", "hand")  # operations that wait for the newer log
WHAT_TO_DO = (
    "stop the place and bring its newer log back; if there is none, `pellucid net accept {} {}` goes on without what "
    "is lost"
)


def an_older_copy(place: str, stand: str, source: str) -> str:
    """What is wrong, in words.

    >>> an_older_copy("hotel", "3-k7q2mx/120", "agent")
    "the log of 'hotel' is an older copy: it lacks records up to 120 of start 3-k7q2mx, which 'agent' has heard of"
    >>> an_older_copy("hotel", "3-k7q2mx/120", "hotel")
    "the log of 'hotel' is an older copy: it lacks records up to 120 of start 3-k7q2mx, which is noted beside it"
    """
    known = "which is noted beside it" if source == place else f"which {source!r} has heard of"
    return f"the log of {place!r} is an older copy: it lacks {in_words(stand)}, {known}"


def _pairs(heard: Any) -> bool:
    return isinstance(heard, (list, tuple)) and all(
        isinstance(one, (list, tuple)) and len(one) == 2 and fits("stand", one[0]) and isinstance(one[1], str)
        for one in heard
    )


class Copies(Speaker):
    """Stands of this place and of others."""

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], timing: Timing) -> None:
        super().__init__(name, tree, records, timing)
        self.folder = "DIR"  # of the network, for people; who has one says so
        self.lasting = 0  # records that last
        self.met: dict[str, tuple[str, int]] = dict(self.state.met)  # of other places: start, records
        self._asked_met: dict[str, float] = {}
        self._heard_of_this: set[str] = set()  # have shown a stand of this start
        self._greeted: set[str] = set()  # have shown what they heard of starts before this one
        self._owed: list[tuple[str, str]] = []  # questions about transactions, and of whom
        self._said_once: set[tuple[str, str]] = set()

    def _refuse_once(self, what: str, source: str) -> None:
        """What would be refused again and again, because it is asked again and again."""
        if (what, source) not in self._said_once:
            if len(self._said_once) >= SAID_MOST:  # who asks about ever new names must not fill the memory
                self._said_once.clear()
            self._said_once.add((what, source))
            self._refuse(what, source)

    # ------------------------------------------------------------ out

    def _stands(self) -> None:
        """At the end of an event: what was heard is written down, and what is said shows stands."""
        out = self._out
        if out.sync:
            if not self.state.behind:
                for place, (start, n) in self.met.items():
                    if self.state.met.get(place) != (start, n):
                        self._write("met", place=place, stand=f"{start}/{n}")
            self.lasting = self.state.records
        if self.state.behind:
            out.sends = [(peer, sure) for peer, message in out.sends if (sure := self._sure(message)) is not None]
        for peer, message in out.sends:
            if message["kind"] in RELIED_ON and not self.state.behind:
                message["at"] = f"{self.state.start}/{self.lasting}"
                if peer not in self._heard_of_this and (after := self.state.earlier(EARLIER)):
                    message["after"] = after
            if peer in self.met:
                message["saw"] = "{}/{}".format(*self.met[peer])

    def _sure(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """What of a message is so in any later log, too."""
        kind = message["kind"]
        if kind == "told":
            committed = [status for status in message["statuses"] if status[1] == "committed"]
            return {**message, "statuses": committed} if committed else None
        sure = kind in ("known", "lacks") or (kind == "decided" and message["outcome"] == "commit")
        return message if sure else None

    def _say_started(self) -> None:
        """So that others show what they have heard of starts before this one."""
        self._later(self.timing.greet, self._pay)
        for peer in self.tree.parents:
            self._send(peer, "started", start=self.state.start)

    # ------------------------------------------------------------ in

    def _shown(self, peer: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The stands that a message shows are looked at; the rest of it, or None if its start is not believed."""
        rest = dict(message)
        saw, at, after = (rest.pop(name, None) for name in ("saw", "at", "after"))
        if saw is not None and not self.state.has(saw):
            self._lacks(saw, peer)
            self._send(peer, "lacks", stand=saw)
        elif saw is not None and rest["kind"] == "met":
            self._send(peer, "known", stand=saw)
        if saw is not None and stand_of(saw)[0] == self.state.start:
            self._heard_of_this.add(peer)
        if at is not None:
            known = [rest["stand"]] if rest["kind"] == "known" else []
            if not self._believed(peer, *stand_of(at), dict(map(stand_of, [*(after or ()), *known]))):
                self._ask_met(peer)
                return None
        return rest

    def _lacks(self, stand: str, source: str) -> None:
        start, n = stand_of(stand)
        if self.state.behind.get(start, ("", 0))[1] < n:
            self._write("behind", sync=True, stand=stand, source=source)

    def _noted(self, stand: str) -> None:
        """What the host found beside the log."""
        if not self.state.has(stand):
            self._lacks(stand, self.name)

    def _believed(self, peer: str, start: str, n: int, after: Mapping[str, int]) -> bool:
        """Whether what was heard of a place is in its log, now that it shows this stand, which is then remembered."""
        before = self.met.get(peer)
        if before is not None and before[0] != start and after.get(before[0], 0) < before[1]:
            return False
        self.met[peer] = start, max(n, before[1]) if before is not None and before[0] == start else n
        return True

    def _ask_met(self, peer: str) -> None:
        """Its start is new: is what was heard of the last one in its log?"""
        if self.clock - self._asked_met.get(peer, -self.timing.ask) >= self.timing.ask:
            self._asked_met[peer] = self.clock
            self._send(peer, "met")

    def _heard_started(self, peer: str, message: Any) -> None:
        self._send(peer, "met")

    def _heard_met(self, peer: str, message: Any) -> None:
        """What it shows has been looked at."""
        self._greeted.add(peer)
        self._pay()

    def _may_presume(self, name: str) -> bool:
        """Whether what the log does not know of an earlier start is taken for lost with a crash: not before the places
        that run have shown what they have heard of it.  Who is down does not keep it from that for long."""
        if start_of(name) == self.state.start or self.clock >= self.timing.greet:
            return True
        return self._greeted >= self.tree.parents.keys() - {self.name}

    def _heard_known(self, peer: str, message: Any) -> None:
        """Its stand, which comes with it, has been taken."""

    def _heard_lacks(self, peer: str, message: Any) -> None:
        self._refuse_once(
            f"{an_older_copy(peer, message['stand'], self.name)}: bring its newer log back, or accept the loss there",
            peer,
        )

    # ------------------------------------------------------------ what is not done with an older copy

    def _held(self, asked: Asked) -> bool:
        """Whether an operation has to wait for the newer log; who asked is told."""
        if asked.op not in HELD or not self.state.behind:
            return False
        start, (source, n) = next(iter(self.state.behind.items()))
        self._error(
            asked.request, "copy",
            f"{an_older_copy(self.name, f'{start}/{n}', source)}: {WHAT_TO_DO.format(self.folder, self.name)}",
        )  # fmt: skip
        return True

    def _op_accept(self, asked: Asked, args: Mapping[str, Any]) -> None:
        """Somebody accepts that what the copy lacks is lost."""
        if not isinstance(args["who"], str) or not fits("time", args["when"]):
            self._error(asked.request, "usage", "accept: who, when")
            return
        heard = args.get("heard", ())
        if not _pairs(heard):
            self._error(asked.request, "usage", "accept: heard is a list of stands, each with who has heard of it")
            return
        for stand, source in heard:  # what others have written down, and perhaps not said
            if not self.state.has(stand):
                self._lacks(stand, source)
        if not self.state.behind:
            self._error(asked.request, "state", f"nobody has shown that the log of {self.name!r} is an older copy")
        else:
            stands = [f"{start}/{n}" for start, (_, n) in self.state.behind.items()]
            self._write("accepted", sync=True, stands=stands, who=args["who"], when=args["when"])
            self._resume()
            self._reply(asked.request, stands=stands)

    def _pay(self) -> None:
        """Answer what could not be answered yet."""

    def _resume(self) -> None:
        """Go on, after a start or after a loss was accepted."""
