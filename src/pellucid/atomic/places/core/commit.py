"""How transactions of a place are decided: alone, with others of the place, or with other places in two phases.

- What can commit is found by `pellucid.atomic.places.core.commit`.  A component that is all of this place is one synced
  write.  Of one over several places the home of its least member is the *coordinator*.
- The coordinator asks the others to prepare, in an *attempt* with a name of its own that is known only in memory
  until all have said yes: then ``decide`` is written, and durable before any other hears of it.  An attempt that the
  coordinator's log does not know was given up (presumed abort).
- Giving up an attempt undoes nothing: its members are pending as before, and are tried again under another name.  No
  transaction aborts because of a time-out.
- What others know is asked at their places again and again until they have told; that they tell it by themselves is a
  hint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from pellucid.atomic.places.core.events import MOST, Asked, Speaker, Timing, Tree
from pellucid.atomic.places.core.state import Record, fits, in_words, order, place_of, stand_of, start_of

# Who waits for whom: finds sets of transactions that can commit together, without going over everything each time.
#
# ``t`` needs ``u`` if it took a message of it or is its child.  A pending transaction's needs do not change any more,
# so a strongly connected component of pending ones stays as it is.  It can commit if whatever it needs outside of
# itself is committed: such a component is *ready*.
#
# A search begins at the transaction about which there is something new, and follows what is not committed yet.  It ends
# at the first one that is neither pending nor decided (or whose status is not known yet), or that waits in a ready
# component: everything on the way there is blocked by it and remembers so.  A later search that comes to one of these
# does not go further as long as that is still true.  A new ready component is always found from the last of its members
# (or of its needs) that changed: nothing else has to be looked at again.


class Node:
    """A transaction, of here or elsewhere, that is not decided as far as is known here."""

    __slots__ = ("asked", "blocker", "needs", "readers", "ready", "state", "told")

    def __init__(self, state: str) -> None:
        self.state = state  # unknown, active, pending
        self.needs: set[str] = set()  # that are not committed as far as is known
        self.readers: set[str] = set()
        self.told: tuple[str, ...] = ()  # what its place told that it needs
        self.ready = False
        self.blocker: str | None = None
        self.asked = False  # its place is asked about it


class Graph:
    """Transactions and what they need.

    >>> graph = Graph()
    >>> graph.need("b", "a"), graph.need("a", "b")
    (None, None)
    >>> graph.pending("a"), graph.search("a")
    (None, None)
    >>> graph.pending("b"), sorted(graph.search("b"))
    (None, ['a', 'b'])
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.looked = 0  # how many were visited: what searches cost

    def node(self, t: str, state: str = "unknown") -> Node:
        """The node of a transaction; ``state`` if it is new."""
        found = self.nodes.get(t)
        if found is None:
            found = self.nodes[t] = Node(state)
        return found

    def need(self, t: str, u: str) -> None:
        """t needs u, which is not decided as far as is known."""
        if t != u:
            self.node(t).needs.add(u)
            self.node(u).readers.add(t)

    def pending(self, t: str) -> None:
        """t needs nothing more than it does now."""
        node = self.node(t)
        if node.state != "pending":
            node.state, node.blocker = "pending", None  # who blocked it when it was pending before may wait for it now

    def remove(self, t: str) -> set[str]:
        """t is decided; these needed it, and are freed of it."""
        node = self.nodes.pop(t, None)
        if node is None:
            return set()
        for u in node.needs:
            found = self.nodes.get(u)
            if found is not None:
                found.readers.discard(t)
                if found.state == "unknown" and not (found.readers or found.needs or found.asked):
                    del self.nodes[u]  # of elsewhere, and none here needs it any more
        for r in node.readers:
            self.nodes[r].needs.discard(t)
        return node.readers

    def blocked(self, t: str) -> str | None:
        """By whom t is known to be blocked: one that is neither pending nor decided, or ready; None if not known."""
        nodes, way = self.nodes, dict[str, None]()
        at = t
        while True:
            node = nodes.get(at)
            if node is None:  # decided meanwhile: those that needed it are looked at, but not all on the way
                end = None
                break
            if node.state != "pending" or node.ready:
                end = at
                break
            if node.blocker is None or at in way:  # they point at each other: each was something else then
                end = None
                break
            way[at] = None
            at = node.blocker
        for passed in way:
            nodes[passed].blocker = end
        return end

    def search(self, root: str) -> list[str] | None:
        """A ready component that t is in or waits for, unless t is blocked by something else; it is marked ready."""
        nodes = self.nodes
        if root not in nodes or nodes[root].state != "pending" or nodes[root].ready:
            return None
        nodes[root].blocker = None
        index: dict[str, int] = {root: 0}
        low: dict[str, int] = {root: 0}
        stack, work = [root], [(root, iter(nodes[root].needs))]
        while work:
            at, more = work[-1]
            self.looked += 1
            following = next(more, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:  # the first component that is whole: below it is nothing
                    part = stack[stack.index(at) :] if at != root else stack
                    self._block(stack[: len(stack) - len(part)], at)
                    for member in part:
                        nodes[member].ready, nodes[member].blocker = True, None
                    return part
            elif following in index:
                low[at] = min(low[at], index[following])
            else:
                block = self.blocked(following)
                if block is not None:
                    self._block(stack, block)
                    return None
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(nodes[following].needs)))
        return None

    def _block(self, which: list[str], blocker: str) -> None:
        for t in which:
            self.nodes[t].blocker = blocker


# A log that came back from an older copy: how a place notices, and what it does then.
#
# A copy lacks records that lasted, and others may rely on them.  A place cannot see that in its log; others can.  What
# a place says to another carries its *stand*: its start, and how many of its records last.  Who hears it keeps the
# highest (and writes it down with what is synced anyway), and shows it in whatever it says to that place.  No crash
# loses what is durable, so a place that is shown a stand that its log lacks knows: the log is an older copy.
#
# From then on it does nothing that others or programs could rely on: it says what its log knows to be committed, and
# presumes nothing.  An operator brings back the newer log, or accepts the loss, which is written down.
#
# A new start is believed only if its log has the last stand that was heard of the one before: who could speak against a
# copy never takes the copy's word.  What comes from a start that is not believed is dropped, whatever it is: all of it
# is sent again, or asked for again.  So that a start is believed with its first word, a place says how long its earlier
# starts were (``after``) to a place that has not shown that it has heard of this one; else it is asked.

RELIED_ON = frozenset(  # what others do something about: it shows how far the log of who says it is
    ["deposit", "deposited", "undeliverable", "told", "pushed", "prepare", "vote", "decided", "done", "known"]
)
SAID_MOST = 10_000  # refusals that are remembered so as not to be said again
EARLIER = 500  # starts before this one, of which others hear; about more they ask
HELD = ("begin", "send", "receive", "commit", "hand")  # operations that wait for the newer log
WHAT_TO_DO = (
    "stop the place and bring its newer log back; if there is none, `pellucid net accept {} {}` resumes without what "
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
        """At the end of an event: what was heard is written down, and messages show stands."""
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
        """Whether an operation has to wait for the newer log; the one who asked gets an error."""
        if asked.op not in HELD or not self.state.behind:
            return False
        start, (source, n) = next(iter(self.state.behind.items()))
        self._error(
            asked.request, "copy",
            f"{an_older_copy(self.name, f'{start}/{n}', source)}: {WHAT_TO_DO.format(self.folder, self.name)}",
        )  # fmt: skip
        return True

    def _op_accept(self, asked: Asked, args: Mapping[str, Any]) -> None:
        """An operator accepts that what the copy lacks is lost."""
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
            self._error(asked.request, "state", f"no place has shown that the log of {self.name!r} is an older copy")
        else:
            stands = [f"{start}/{n}" for start, (_, n) in self.state.behind.items()]
            self._write("accepted", sync=True, stands=stands, who=args["who"], when=args["when"])
            self._resume()
            self._reply(asked.request, stands=stands)

    def _pay(self) -> None:
        """Answer what could not be answered yet."""

    def _resume(self) -> None:
        """Go on, after a start or after a loss was accepted."""


Statuses = Iterable[tuple[str, str, list[str]]]
SELDOM = 15.0  # seconds: what is not answered is repeated at least so often
SOON = 0.1  # seconds between two of many questions
LARGEST = 500_000  # characters of the names of a set that is asked to prepare


class Attempt:
    """What a coordinator has in memory of an attempt; ``since`` is when it began."""

    __slots__ = ("members", "missing", "needs", "since")

    def __init__(self, members: list[str], needs: list[str], missing: set[str], since: float) -> None:
        self.members, self.needs, self.missing, self.since = members, needs, missing, since


class Commits(Copies):
    """Pending transactions and their fate."""

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], timing: Timing) -> None:
        super().__init__(name, tree, records, timing)
        self.graph = Graph()
        self.foreign: dict[str, bool] = {}  # decided transactions of other places: whether committed
        self.attempts: dict[str, Attempt] = {}
        self.tried = self.gave_up = 0
        self.held: dict[str, str] = {}  # own members of own attempts
        self.doomed: dict[str, str] = {}  # prepared ones, and of whom they would abort by cascade
        self.targets: dict[str, set[str]] = {}  # places to which undecided transactions sent something
        self.watchers: dict[str, set[str]] = {}  # places that asked
        self.deciders: dict[str, list[Any]] = {}  # clients that wait for a commit
        self._look: deque[str] = deque()
        self._dooms: deque[tuple[str, str]] = deque()
        self._again: set[str] = set()
        self._asking: set[str] = set()  # transactions of other places about which is asked
        self._to_ask: dict[str, list[str]] = {}
        self._stale = False  # something may lie in a channel whose sender is known to have aborted

    # ------------------------------------------------------------ after a start

    def _rebuild(self) -> None:
        """Who waits for whom, from the durable state."""
        for t, own in self.state.live.items():
            node = self.graph.node(t)
            node.state = "pending" if own.pending else "active"
            node.ready = own.attempt is not None
            for u in own.needs:
                self._needs(t, u)
            if own.pending:
                self._look.append(t)
        for t in self._look:
            self._ask_for(t)

    def _resume(self) -> None:
        """Say again what others may not have heard, and ask what was not told."""
        for attempt in list(self.state.decisions):
            self._tell_decision(attempt, self.timing.resend)
        for attempt in [*self.state.prepared, *self.state.handed]:
            self._ask_outcome(attempt, self.timing.ask)
        lying = (one.sender for channel in self.state.channels.values() for one in channel.values())
        senders = sorted({u for u in lying if place_of(u) != self.name}, key=order)
        for n, start in enumerate(range(0, len(senders), MOST)):
            self._ask_lying(senders[start : start + MOST], 0.0 if n == 0 else n * SOON, self.timing.ask)

    def _ask_lying(self, senders: list[str], wait: float, then: float) -> None:
        """No log has that a sender of elsewhere aborted: of what lies here at a start it is asked until it answers."""
        if wait:
            self._later(wait, lambda: self._ask_lying(senders, 0.0, then))
            return
        senders = [u for u in senders if u not in self.foreign]
        if senders:
            self._ask_about(set(senders))
            self._ask_lying(senders, then, min(2 * then, SELDOM))

    def _sweep(self) -> None:
        """What can never be taken is forgotten, which changes nothing; before a look at it, for it costs a walk."""
        if self._stale:
            self._stale = False
            for channel in self.state.channels.values():
                for mid in [mid for mid, one in channel.items() if self.foreign.get(one.sender) is False]:
                    del channel[mid]

    # ------------------------------------------------------------ what depends on what

    def _needs(self, t: str, u: str) -> None:
        """t took something of u, or is its child."""
        if place_of(u) == self.name:
            if u in self.state.live:
                self.graph.need(t, u)
            elif self.state.status(u) == "aborted":
                self._dooms.append((t, u))
        elif u not in self.foreign:
            self.graph.need(t, u)
        elif not self.foreign[u]:
            self._dooms.append((t, u))

    def _pend(self, t: str) -> None:
        self._write("pending", t=t)
        self.graph.node(t)
        self.graph.pending(t)
        self._ask_for(t)
        self._look.append(t)

    def _ask_for(self, t: str) -> None:
        """t waits for what it needs: the places of those are asked."""
        for u in self.graph.nodes[t].needs:
            self._ask_one(u)

    def _ask_one(self, u: str) -> None:
        node = self.graph.nodes.get(u)
        if node is not None and not node.asked and place_of(u) != self.name:
            node.asked = True
            self._asking.add(u)
            self._to_ask.setdefault(place_of(u), []).append(u)

    def _settle(self) -> None:
        """Decide whatever can be decided now."""
        while self._dooms or self._look:
            if self._dooms:
                self._doom(*self._dooms.popleft())
                continue
            part = self.graph.search(self._look.popleft())
            if part is not None:
                self._ready(part)
        for peer, ids in self._to_ask.items():
            for start in range(0, len(ids), MOST):
                self._send(peer, "ask", ids=ids[start : start + MOST])
        self._to_ask.clear()

    def _ready(self, part: list[str]) -> None:
        members = sorted(part, key=order)
        if all(t in self.state.live for t in members):
            self._write("commit", sync=True, members=members)
            for t in members:
                self._committed(t)
        elif place_of(members[0]) == self.name:
            if sum(map(len, members)) > LARGEST:
                text = "transactions at several places need each other, too many for one message: abort one of them"
                self._refuse(f"{members[0]} and {len(members) - 1} more {text}", self.name)
            else:
                self._try(members)

    def _committed(self, t: str) -> None:
        for request in self.deciders.pop(t, ()):
            self._reply(request, status="committed")
        self._forget(t)
        for reader in self.graph.remove(t):
            self._look.append(reader)

    def _forget(self, t: str) -> None:
        """It is decided: those that may need it are notified."""
        self._push(t)
        self.targets.pop(t, None)
        self.watchers.pop(t, None)
        self.doomed.pop(t, None)
        self._again.discard(t)

    def _push(self, t: str) -> None:
        """A hint to the places that may wait for it."""
        told = self.targets.get(t, set()) | self.watchers.get(t, set())
        if told:
            status = self._status(t)
            for peer in sorted(told):
                self._send(peer, "pushed", statuses=[status])

    def _abort(self, t: str, why: str) -> None:
        """t is undone; those that needed it follow."""
        attempt = self.held.get(t)
        if attempt is not None:
            self._give_up(attempt)
        channels = {lying.channel for lying in self.state.live[t].takes.values()}
        # A pending one must not come back to life after another heard that it is aborted; an active one cannot.
        own = self.state.live[t]
        self._write("abort", sync=own.pending, t=t, why=why, back=list(own.takes))
        self._ask_about({lying.sender for lying in own.takes.values()})
        self._stale |= bool(own.takes)
        for request in self.deciders.pop(t, ()):
            self._error(request, "aborted", f"{t} was aborted: {why}", why=why)
        self._forget(t)
        self._dooms.extend((reader, t) for reader in sorted(self.graph.remove(t)))
        self._undone(t, why, channels)

    def _ask_about(self, senders: set[str]) -> None:
        """What lies in a channel again may be of one that has aborted elsewhere while this place did not hear of it:
        programs would take it, find it of no use and put it back for ever.  Once that is known, it is forgotten."""
        for u in sorted(senders):
            if place_of(u) != self.name and u not in self.foreign:
                self._to_ask.setdefault(place_of(u), []).append(u)

    def _undone(self, t: str, why: str, channels: set[str]) -> None:
        """A transaction is gone, and messages lie again in these channels."""

    def _doom(self, t: str, cause: str) -> None:
        """CASCADE: t needed one that has aborted.  What is prepared waits until its attempt is given up."""
        own = self.state.live.get(t)
        if own is None:
            node = self.graph.nodes.get(t)
            if node is not None:  # of another place, which will find out: it has to be asked again
                node.state, node.ready = "unknown", False
        elif own.attempt is not None:
            self.doomed[t] = cause
        else:
            self._abort(t, f"cascade from {cause}")

    # ------------------------------------------------------------ what others know

    def _status(self, t: str) -> list[Any]:
        """Of an own transaction, as others hear it."""
        state = self.state.status(t)
        waits = state in ("pending", "prepared")
        needs = sorted(self.graph.nodes[t].needs | ({self.doomed[t]} if t in self.doomed else set())) if waits else []
        return [t, state, needs]

    def _heard_ask(self, peer: str, message: Any) -> None:
        told: list[Any] = []
        names = 0
        for t in message["ids"]:
            if not self.state.could_be(t):
                self._refuse_once(f"asked about {t}, {self._beyond(t)}", peer)
                continue
            status = self._status(t)
            if status[1] == "aborted" and not self._may_presume(t):
                self._owed.append((peer, t))
                continue
            told.append(status)
            names += 1 + len(told[-1][2])
            if names >= MOST:  # messages are bounded
                self._send(peer, "told", statuses=told)
                told, names = [], 0
            if t in self.state.live:
                self.watchers.setdefault(t, set()).add(peer)
        if told:
            self._send(peer, "told", statuses=told)

    def _pay(self) -> None:
        """What was asked before others had shown what they know is answered."""
        owed, self._owed = self._owed, []
        for peer, t in owed:
            self._heard_ask(peer, {"ids": [t]})

    def _beyond(self, name: str) -> str:
        """Why nothing can be said about a name that this log does not have: to presume an abort could be wrong."""
        known = place_of(name) != self.name or start_of(name) in self.state.starts
        of = "" if known else f"of start {start_of(name)}, "
        return f"{of}which is not in this log (is it an older copy?): what became of it is not known"

    def _heard_told(self, peer: str, message: Any) -> None:
        self._learn(peer, message["statuses"])

    _heard_pushed = _heard_told

    def _learn(self, peer: str, statuses: Statuses) -> None:
        for u, state, needs in statuses:
            if place_of(u) != peer:
                self._refuse(f"told about {u}, which is not of {peer!r}", peer)
            elif u in self.foreign:
                if state in ("committed", "aborted") and self.foreign[u] != (state == "committed"):
                    self._refuse(f"told that {u} is {state}, after it was the opposite", peer)
            elif state in ("committed", "aborted"):
                self._learn_decided(u, state == "committed")
            elif u in self.graph.nodes:
                self._learn_open(peer, u, state, needs)

    def _learn_decided(self, u: str, committed: bool) -> None:
        self.foreign[u] = committed
        self._asking.discard(u)
        readers = self.graph.remove(u)
        if committed:
            self._look.extend(readers)
        else:
            self._stale = True
            self._dooms.extend((reader, u) for reader in sorted(readers))

    def _learn_open(self, peer: str, u: str, state: str, needs: list[str]) -> None:
        node = self.graph.nodes[u]
        if state == "active":
            if node.state == "unknown":
                node.state = "active"
            return
        if node.state == "pending":
            return
        for v in needs:
            if place_of(v) == self.name and not self.state.could_be(v):
                self._refuse(f"told that {u} needs {v}, which is none of this place's", peer)
                return
            if place_of(v) not in self.tree.parents:
                self._refuse(f"told that {u} needs {v}, which is of no place of the network", peer)
                return
            if self._aborted(v):  # u will be aborted at its place: nothing to follow
                node.state = "unknown"
                return
        node.state, node.told = "pending", tuple(needs)
        for v in needs:
            if v != u:
                self._needs(u, v)
        self._ask_for(u)
        self._look.append(u)

    def _aborted(self, v: str) -> bool:
        if place_of(v) == self.name:
            return self.state.status(v) == "aborted"
        return self.foreign.get(v) is False

    # ------------------------------------------------------------ the coordinator

    def _try(self, members: list[str]) -> None:
        self.tried += 1
        attempt = f"{self.name}:{self.state.start}:a{self.tried}"
        inside = set(members)
        needs = {u for t in members for u in self.graph.nodes[t].told} - inside
        others = {place_of(t) for t in members} - {self.name}
        self.attempts[attempt] = Attempt(members, sorted(needs), others, self.clock)
        for t in members:
            if t in self.state.live:
                self.held[t] = attempt
        self._ask_votes(attempt)

    def _ask_votes(self, attempt: str) -> None:
        """Asked again until all have voted, or it has taken too long."""
        trying = self.attempts.get(attempt)
        if trying is None:
            return
        if self.clock - trying.since >= self.timing.attempt:
            self._give_up(attempt)
            return
        for peer in sorted(trying.missing):
            self._send(peer, "prepare", attempt=attempt, members=trying.members, needs=trying.needs)
        self._later(self.timing.resend, lambda: self._ask_votes(attempt))

    def _heard_vote(self, peer: str, message: Any) -> None:
        attempt = message["attempt"]
        trying = self.attempts.get(attempt)
        if trying is None:
            self._answer(peer, attempt)
        elif peer not in {place_of(t) for t in trying.members}:
            self._refuse(f"a vote on {attempt} by one who has no part in it", peer)
        elif not message["yes"]:
            self._give_up(attempt)
            self._learn(peer, message["statuses"])
        else:
            trying.missing.discard(peer)
            if not trying.missing:
                self._decide(attempt)

    def _decide(self, attempt: str) -> None:
        """All have said yes.  It is durable before any other hears of it."""
        trying = self.attempts.pop(attempt)
        participants = sorted({place_of(t) for t in trying.members} - {self.name})
        own = [t for t in trying.members if place_of(t) == self.name]
        self._write("decide", sync=True, attempt=attempt, members=trying.members, participants=participants)
        self._write("commit", sync=True, members=own, attempt=attempt)
        for t in own:
            del self.held[t]
            self._committed(t)
        self._tell_decision(attempt, self.timing.resend)

    def _tell_decision(self, attempt: str, wait: float) -> None:
        """Until all have it; more and more seldom, for a place may be down for long."""
        decision = self.state.decisions.get(attempt)
        if decision is not None:
            for peer in sorted(decision.missing):
                self._send(peer, "decided", attempt=attempt, outcome="commit")
            self._later(wait, lambda: self._tell_decision(attempt, min(2 * wait, SELDOM)))

    def _give_up(self, attempt: str) -> None:
        """Nothing is undone: the members are pending as before, and are tried again later."""
        trying = self.attempts.pop(attempt)
        self.gave_up += 1
        for t in trying.members:
            self.held.pop(t, None)
            if t in self.graph.nodes:
                self.graph.nodes[t].ready = False
        for peer in sorted({place_of(t) for t in trying.members}):
            self._send(peer, "decided", attempt=attempt, outcome="given up")
        self._again.update(t for t in trying.members if t in self.state.live)

    def _heard_outcome(self, peer: str, message: Any) -> None:
        if message["attempt"] not in self.attempts:
            self._answer(peer, message["attempt"])

    def _answer(self, peer: str, attempt: str) -> None:
        """What became of an attempt that is over."""
        ours = place_of(attempt) == self.name and self.state.has_all_of(
            start_of(attempt), order(attempt)[3] <= self.tried
        )
        if attempt in self.state.decided:
            self._send(peer, "decided", attempt=attempt, outcome="commit")
        elif not ours:
            self._refuse_once(f"asked about {attempt}, {self._beyond(attempt)}", peer)
        elif self._may_presume(attempt):
            self._send(peer, "decided", attempt=attempt, outcome="given up")

    def _heard_done(self, peer: str, message: Any) -> None:
        attempt = message["attempt"]
        decision = self.state.decisions.get(attempt)
        if decision is not None:
            decision.missing.discard(peer)
            if not decision.missing:
                self._write("end", attempt=attempt)

    # ------------------------------------------------------------ a participant

    def _heard_prepare(self, peer: str, message: Any) -> None:
        attempt, members = message["attempt"], message["members"]
        mine = sorted((t for t in members if place_of(t) == self.name), key=order)
        if place_of(attempt) != peer or not mine or place_of(min(members, key=order)) != peer:
            self._refuse(f"asked to prepare {attempt}, which is not {peer!r}'s to ask", peer)
        elif attempt in self.state.prepared:
            self._send(peer, "vote", attempt=attempt, yes=True, statuses=[])
        elif self.state.over.get(attempt) == "commit":
            self._send(peer, "done", attempt=attempt)
        elif attempt not in self.state.over and self._can(mine, {*members, *message["needs"]}):
            self._write("prepared", sync=True, attempt=attempt, coordinator=peer, members=mine, needs=message["needs"])
            for t in mine:
                self.graph.nodes[t].ready = True
            self._send(peer, "vote", attempt=attempt, yes=True, statuses=[])
            self._later(self.timing.ask, lambda: self._ask_outcome(attempt, self.timing.ask))
        else:
            known = [t for t in mine if self.state.could_be(t)]
            self._send(peer, "vote", attempt=attempt, yes=False, statuses=[self._status(t) for t in known])
            for other in {o.attempt for t in mine if (o := self.state.live.get(t)) is not None} - {None, attempt}:
                assert other is not None
                self._send(place_of(other), "outcome", attempt=other)

    def _can(self, mine: list[str], together: set[str]) -> bool:
        """Whether these can commit if all of those do."""
        for t in mine:
            own = self.state.live.get(t)
            if own is None or own.state != "pending" or t in self.held or not self.graph.nodes[t].needs <= together:
                return False
        return True

    def _ask_outcome(self, attempt: str, wait: float) -> None:
        """In doubt: the coordinator is asked until it answers."""
        if attempt in self.state.prepared or attempt in self.state.handed:
            self._send(place_of(attempt), "outcome", attempt=attempt)
            self._later(wait, lambda: self._ask_outcome(attempt, min(2 * wait, SELDOM)))

    def _heard_decided(self, peer: str, message: Any) -> None:
        attempt, outcome = message["attempt"], message["outcome"]
        if place_of(attempt) != peer or outcome not in ("commit", "given up"):
            self._refuse(f"told {outcome!r} of {attempt}, which is not {peer!r}'s to say", peer)
        elif attempt in self.state.handed:
            self._compare(peer, attempt, outcome)
        elif attempt in self.state.prepared:
            members = self.state.prepared[attempt].members
            if outcome == "commit":
                self._write("commit", sync=True, members=list(members), attempt=attempt)
                self._send(peer, "done", attempt=attempt)
                for t in members:
                    self._committed(t)
            else:
                self._write("given_up", attempt=attempt)
                self._released(members)
        elif outcome == "commit":
            if self.state.over.get(attempt) in ("commit", "by hand"):
                self._send(peer, "done", attempt=attempt)
            else:
                self._refuse(f"told to commit {attempt}, which was never prepared here", peer)

    def _released(self, members: Iterable[str]) -> None:
        """Pending again; and if one of their needs has aborted meanwhile, CASCADE."""
        for t in members:
            if t in self.state.live:
                self.graph.nodes[t].ready = False
                if t in self.doomed:
                    self._dooms.append((t, self.doomed.pop(t)))
                else:
                    self._look.append(t)

    def _compare(self, peer: str, attempt: str, outcome: str) -> None:
        """The coordinator's word on what was decided here by hand."""
        by_hand = self.state.handed.pop(attempt)
        if (by_hand == "commit") != (outcome == "commit"):
            said = "committed" if outcome == "commit" else "given up"
            self._refuse(f"{attempt} was {said} by its coordinator, but here {by_hand} was chosen by hand", peer)
        if outcome == "commit":
            self._send(peer, "done", attempt=attempt)

    # ------------------------------------------------------------ time

    def _ask_again(self) -> None:
        by_place: dict[str, list[str]] = {}
        for u in sorted(self._asking):
            node = self.graph.nodes.get(u)
            if node is None or not node.readers:
                self._asking.discard(u)
                self.graph.remove(u)
            else:
                by_place.setdefault(place_of(u), []).append(u)
        for peer, ids in by_place.items():
            for start in range(0, len(ids), MOST):
                self._send(peer, "ask", ids=ids[start : start + MOST])

    def _try_again(self) -> None:
        self._look.extend(sorted(self._again, key=order))
        self._again.clear()
