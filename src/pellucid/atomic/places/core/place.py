"""A place: channels, transactions, and what it says to clients and to other places.

It has neither socket nor disk nor clock: `Core.handle` takes an event and gives what is to be written, sent and
replied, in that order.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from pellucid.atomic.places.core.commit import Commits
from pellucid.atomic.places.core.events import (
    DEFAULT,
    MESSAGES,
    MOST,
    OPERATIONS,
    VIEWS,
    Arrived,
    Asked,
    Effects,
    Event,
    Heard,
    Noted,
    NoWay,
    Refused,
    Tick,
    Timing,
    Tree,
    ends_in,
    walk,
    wrong,
)
from pellucid.atomic.places.core.state import Record, fits, place_of, plain, sender_of, start_of, summed
from pellucid.errors import UsageError

# What people ask about a place, and what they decide by hand.

SOME = 100  # transactions of a start, of which something is here, that are named


class Operators(Commits):
    """Views of what waits, and for whom; a decision by hand, which is written down with a name."""

    clients: dict[Any, set[str]]

    def _told_client(self, t: str) -> dict[str, Any]:
        """What has become of a transaction of this place."""
        own = self.state.live.get(t)
        if own is None:
            why = self.state.outcomes.get(t, "crash")
            return {"status": "committed" if why is None else "aborted", "why": why or "", "waits": [], "attempt": None}
        node = self.graph.nodes.get(t)
        waits = sorted(node.needs)[:MOST] if node is not None else []
        return {"status": own.state, "why": "", "waits": waits, "attempt": own.attempt or self.held.get(t)}

    def _op_doubt(self, asked: Asked, args: Mapping[str, Any]) -> None:
        self._sweep()  # the host counts what lies in channels with it
        state = self.state
        doubt = [
            {"attempt": attempt, "members": list(p.members), "coordinator": p.coordinator, "since": p.since,
             "waits": sorted({u for t in p.members for u in self.graph.nodes[t].needs})[:MOST]}
            for attempt, p in state.prepared.items()
        ]  # fmt: skip
        deciding = [
            {"attempt": attempt, "missing": sorted(d.missing), "since": d.since}
            for attempt, d in state.decisions.items()
        ]
        pending = [
            {"t": t, "waits": sorted(self.graph.nodes[t].needs)[:MOST], "since": own.since}
            for t, own in state.live.items()
            if own.state == "pending"
        ]
        self._reply(
            asked.request,
            doubt=doubt[:MOST],
            deciding=deciding[:MOST],
            pending=pending[:MOST],
            untold=self._undecided_elsewhere(),
        )

    def _undecided_elsewhere(self) -> dict[str, list[str]]:
        """Transactions of other places that have something here, and of which it is not known that they are decided:
        some of each start.  Whether one is lost is for its place to say."""
        out: dict[str, dict[str, None]] = {}
        lying = (one.sender for channel in self.state.channels.values() for one in channel.values())
        for u in itertools.chain(lying, (u for own in self.state.live.values() for u in own.needs)):
            if u not in self.foreign and place_of(u) != self.name:
                some = out.setdefault(u.rpartition(":")[0], {})
                if len(some) < SOME:
                    some[u] = None
        return {start: list(some) for start, some in itertools.islice(out.items(), MOST)}

    def _op_hand(self, asked: Asked, args: Mapping[str, Any]) -> None:
        what, outcome, who, when = args["what"], args["outcome"], args["who"], args["when"]
        request, state = asked.request, self.state
        right = isinstance(what, str) and isinstance(who, str) and fits("time", when)
        if not right or outcome not in ("commit", "abort"):
            self._error(request, "usage", "hand: what (an attempt or a transaction), commit or abort, who, when")
        elif what in state.prepared:
            members = state.prepared[what].members
            self._write("hand", sync=True, what=what, outcome=outcome, who=who, when=when)
            if outcome == "commit":
                self._write("commit", sync=True, members=list(members), attempt=what)
                for t in members:
                    self._committed(t)
            else:
                for t in members:
                    self._abort(t, "by hand")
            self._later(0, lambda: self._ask_outcome(what, self.timing.ask))
            self._reply(request, status="committed" if outcome == "commit" else "aborted", members=list(members))
        elif what in self.attempts:
            if outcome == "commit":
                missing = ", ".join(sorted(self.attempts[what].missing))
                self._error(request, "state", f"{what} is not decided: there is no vote of {missing} yet")
            else:
                self._give_up(what)
                self._reply(request, status="given up")
        elif fits("id", what) and state.lost(what):
            self._write("hand", sync=True, what=what, outcome=outcome, who=who, when=when)
            for peer in self.tree.parents:  # who waits for it asks again, but seldom
                self._send(peer, "pushed", statuses=[self._status(what)])
            self._reply(request, status="committed" if outcome == "commit" else "aborted", members=[what])
        elif what not in state.live:
            self._error(request, "state", f"{what!r} is nothing that is undecided at {self.name!r}")
        elif state.live[what].attempt is not None:
            text = f"{what} is prepared together with others: decide the attempt {state.live[what].attempt} as a whole"
            self._error(request, "state", text)
        elif outcome == "commit":
            text = (
                f"{what} is not prepared: it commits by itself once what it waits for is committed; it can be aborted"
            )
            self._error(request, "state", text, **{k: v for k, v in self._told_client(what).items() if k == "waits"})
        else:
            self._write("hand", sync=True, what=what, outcome=outcome, who=who, when=when)
            self._abort(what, "by hand")
            self._reply(request, status="aborted", members=[what])

    def _op_metrics(self, asked: Asked, args: Mapping[str, Any]) -> None:
        self._sweep()
        state = self.state
        states = [own.state for own in state.live.values()]
        oldest = min((p.since for p in state.prepared.values()), default=None)
        self._reply(
            asked.request, boot=state.boot, commits=state.commits, aborts=dict(state.why),
            active=states.count("active"), pending=states.count("pending"), in_doubt=states.count("prepared"),
            oldest_doubt=oldest, attempts=self.tried, given_up=self.gave_up, deciding=len(state.decisions),
            outbox=len(state.outbox), refused=state.refused, refused_now=self.refusals, clients=len(self.clients),
            messages={name: len(lying) for name, lying in state.channels.items()},
        )  # fmt: skip

    def _op_look(self, asked: Asked, args: Mapping[str, Any]) -> None:
        self._sweep()
        lying = self.state.channels.get(args["channel"], OrderedDict())
        seen = []
        for mid, message in list(lying.items())[:MOST]:
            sender = message.sender
            if place_of(sender) == self.name:
                status = self.state.status(sender)
            else:
                status = {True: "committed", False: "aborted", None: "unknown"}[self.foreign.get(sender)]
            if status != "aborted":  # it cannot be taken
                seen.append([mid, sender, status, message.value])
        self._reply(asked.request, messages=seen)


class Waiting(NamedTuple):
    """A client that waits for a message."""

    request: Any
    t: str


class Core(Operators):
    """A place; ``records`` are what its log has, oldest first.

    >>> from pellucid.atomic.places.core.events import Tree
    >>> core = Core("p", Tree({"p": None}, {"p": ["c"]}, {("in", "c"): b"token"}), [])
    >>> core.start(mark="x").writes
    [boot(n=1, mark='x')]
    >>> core.handle(Asked(1, "me", "begin", {"parent": None})).replies
    [(1, {'t': 'p:1-x:1'})]
    >>> core.handle(Asked(2, "me", "send", {"t": "p:1-x:1", "path": [["in", "c", b"token"]], "value": 7})).replies
    [(2, {'mid': 'p:1-x:1/1'})]
    >>> done = core.handle(Asked(3, "me", "commit", {"t": "p:1-x:1", "timeout": None}))
    >>> done.writes, done.sync, done.replies
    ([pending(t='p:1-x:1'), commit(members=['p:1-x:1'], attempt=None)], True, [(3, {'status': 'committed'})])
    """

    def __init__(self, name: str, tree: Tree, records: Iterable[Record], *, timing: Timing = DEFAULT) -> None:
        super().__init__(name, tree, records, timing)
        self.clients: dict[Any, set[str]] = {}
        self.owners: dict[str, Any] = {}
        self.waiting: dict[str, OrderedDict[int, Waiting]] = {}
        self._waits: dict[str, set[tuple[str, int]]] = {}  # of a transaction: channel, key
        self._serve: set[str] = set()
        self._acks: dict[str, list[str]] = {}
        self._unheard: OrderedDict[str, float] = OrderedDict()  # messages on their way, and since when
        self._asked_at = 0.0
        self._started = False
        self._operations: dict[str, Callable[[Asked, Mapping[str, Any]], None]] = {
            op: getattr(self, f"_op_{op}") for op in OPERATIONS
        }
        self._hear: dict[str, Callable[[str, Any], None]] = {kind: getattr(self, f"_heard_{kind}") for kind in MESSAGES}
        self._rebuild()

    # ------------------------------------------------------------ in and out

    def start(self, now: float = 0.0, *, mark: str | None) -> Effects:
        """To be called once, and carried out, before anything is handled: the start's number, crashed transactions.
        ``mark`` is one that was never used (`pellucid.atomic.places.core.state.new_mark`): it is part of every name."""
        if self._started:
            raise UsageError(f"the place {self.name!r} has been started already")
        self._started, self.now = True, now
        self._write("boot", sync=True, n=self.state.boot + 1, mark=mark)
        for t in [t for t, own in self.state.live.items() if not own.pending]:
            if t in self.state.live:  # not by cascade
                self._abort(t, "crash")
        self._unheard.update(dict.fromkeys(self.state.outbox, -math.inf))  # at the first tick
        self._say_started()
        if not self.state.behind:
            self._resume()
        return self._finish()

    def handle(self, event: Event) -> Effects:
        """What to do about it."""
        if not self._started:
            return self._look_only(event)
        if isinstance(event, Tick):
            self._tick(event.now)
        elif isinstance(event, Noted):
            self._noted(event.stand)
        elif isinstance(event, Refused):
            self._refuse(event.what, event.source)
        elif isinstance(event, Heard):
            problem = wrong(event.message)
            if event.peer == self.name or event.peer not in self.tree.parents:
                self._refuse(f"{event.peer!r} is not another place of the network", event.peer)
            elif problem:
                self._refuse(problem, event.peer)
            else:
                message = self._shown(event.peer, event.message)
                if message is not None and (not self.state.behind or message["kind"] in ("ask", "outcome")):
                    self._hear[message["kind"]](event.peer, message)
        else:
            self._ask_op(event)
        return self._finish()

    def _look_only(self, event: Event) -> Effects:
        """Of a place that is not started, only what is asked about it: nothing changes."""
        if isinstance(event, Tick):
            self.now = event.now
        elif isinstance(event, Asked) and event.op in VIEWS:
            self._ask_op(event)
        else:
            raise UsageError(f"the place {self.name!r} has not been started: call start() first")
        made, self._out = self._out, Effects()
        return made

    def _finish(self) -> Effects:
        """Decide what can be decided; who waits for messages gets them; what is durable now is acknowledged."""
        if not self.state.behind:
            self._settle()
            while self._serve:
                self._serve_waiting(self._serve.pop())
                self._settle()
        if self._out.sync and self._acks:
            for peer, mids in self._acks.items():
                for start in range(0, len(mids), MOST):
                    self._send(peer, "deposited", mids=mids[start : start + MOST])
            self._acks = {}
        self._stands()
        made, self._out = self._out, Effects()
        return made

    def _tick(self, now: float) -> None:
        self._pass_time(now)
        if self.state.behind:
            return
        self._try_again()
        if self._acks:
            self._out.sync = True
        if self.clock - self._asked_at >= self.timing.ask:
            self._asked_at = self.clock
            self._ask_again()
        for mid in list(itertools.islice(self._unheard, MOST)):
            if self._unheard[mid] > self.clock - self.timing.resend:
                break
            if mid in self.state.outbox:
                self._carry(mid)
            else:
                del self._unheard[mid]

    # ------------------------------------------------------------ messages on their way

    def _carry(self, mid: str) -> None:
        """A message of this place begins its way, or begins it again."""
        path, value = self.state.outbox[mid]
        self._unheard[mid] = self.clock
        self._unheard.move_to_end(mid)
        self._go(self.name, {"kind": "deposit", "mid": mid, "sender": sender_of(mid)[0], "value": value, "path": path})

    def _heard_deposit(self, peer: str, message: Mapping[str, Any]) -> None:
        if sender_of(message["mid"])[0] != message["sender"]:
            self._refuse(f"the message {message['mid']} is not of {message['sender']}", peer)
        elif not self._can_bring(peer, place_of(message["mid"])):
            self._refuse(f"the message {message['mid']} is not {peer!r}'s to bring", peer)
        else:
            self._go(peer, message)

    def _can_bring(self, peer: str, home: str) -> bool:
        """Who brings a message is its place, or a place around that, or the place around here."""
        tree = self.tree
        return home in tree.parents and (peer in tree.outward(home) or tree.parents[self.name] == peer)

    def _go(self, peer: str, message: Mapping[str, Any]) -> None:
        """As far as this place has the say."""
        mid, path, inside = message["mid"], message["path"], peer == self.name or self.tree.parents[peer] == self.name
        try:
            found = walk(self.tree, self.name, path, inside=inside)
            while not isinstance(found, Arrived) and found.place == self.name:  # out of here and in again
                found = walk(self.tree, self.name, found.rest, inside=False)
        except NoWay as error:
            self._refuse(f"{mid}: {error}", peer)
            if place_of(mid) == self.name:
                self._stuck(mid, str(error))
            else:
                self._send(place_of(mid), "undeliverable", mid=mid, why=str(error)[:300])
            return
        if not isinstance(found, Arrived):
            self._send(found.place, **{**message, "path": found.rest})
            return
        known = self.state.known.get(mid)
        if known is not None and known != summed(message["value"]):  # to acknowledge it would be to lose it
            why = f"{self.name!r} has had another message of this name: is the log of {place_of(mid)!r} an older copy?"
            self._refuse(f"{mid}: {why}", peer)
            self._send(place_of(mid), "undeliverable", mid=mid, why=why)
            return
        if known is None:
            sender = message["sender"]
            self._write("deposit", channel=found.channel, mid=mid, sender=sender, value=message["value"])
            self._stale |= self.foreign.get(sender) is False
            self._serve.add(found.channel)
        if place_of(mid) != self.name:
            self._acks.setdefault(place_of(mid), []).append(mid)

    def _heard_deposited(self, peer: str, message: Mapping[str, Any]) -> None:
        for mid in message["mids"]:
            if mid not in self.state.outbox:
                continue
            if not self._ends_at(mid, peer):
                self._refuse(f"told that {mid} has come by one to whom it does not go", peer)
                continue
            t, seq = sender_of(mid)
            self._write("sent", t=t, seq=seq)
            self._unheard.pop(mid, None)

    def _ends_at(self, mid: str, place: str) -> bool:
        try:
            return ends_in(self.tree, self.name, self.state.outbox[mid][0])[0] == place
        except NoWay:  # the network is another one since the last start
            return False

    def _heard_undeliverable(self, peer: str, message: Mapping[str, Any]) -> None:
        mid = message["mid"]
        if mid in self.state.outbox:
            if all(name != peer for _, name, _ in self.state.outbox[mid][0]):
                self._refuse(f"told that {mid} does not arrive by one who is not on its way", peer)
            else:
                self._stuck(mid, message["why"])

    def _stuck(self, mid: str, why: str) -> None:
        """It will not be taken: its transaction aborts if it can; else it stays where it is, and that is reported."""
        t = sender_of(mid)[0]
        own = self.state.live.get(t)
        self._unheard.pop(mid, None)
        if own is not None and own.attempt is None:
            self._abort(t, f"refused: {why}")
        else:
            self._refuse(f"{mid}, of a transaction that is {self.state.status(t)}, does not arrive: {why}", self.name)

    # ------------------------------------------------------------ clients

    def _ask_op(self, asked: Asked) -> None:
        do = self._operations.get(asked.op)
        if self._held(asked):
            return
        if do is None:
            self._error(asked.request, "usage", f"no operation is called {asked.op!r}: {', '.join(OPERATIONS)}")
            return
        try:
            do(asked, asked.args)
        except KeyError as error:
            self._error(asked.request, "usage", f"{asked.op}: {error.args[0]!r} is missing")

    def _own(self, asked: Asked, t: Any, *, active: bool = True) -> bool:
        """Whether this client may do this with the transaction now; else it gets the reason."""
        request = asked.request
        if not fits("id", t) or not self.state.could_be(t):
            self._not_here(request, t)
        elif t not in self.state.live:
            why = self.state.outcomes.get(t, "crash")
            if why is None:
                self._error(
                    request, "state", f"{t} is committed: nothing can be done in it any more", status="committed"
                )
            else:
                self._error(request, "aborted", f"{t} was aborted: {why}", why=why)
        elif self.owners.get(t, asked.client) != asked.client:
            self._error(request, "usage", f"{t} is the transaction of another client")
        elif active and self.state.live[t].pending:
            state = self.state.live[t].state
            self._error(request, "state", f"{t} is {state}: nothing can be added to it any more", status=state)
        else:
            return True
        return False

    def _not_here(self, request: Any, t: Any) -> None:
        text = f"{str(t)[:80]!r} is not a transaction of {self.name!r}"
        if fits("id", t) and place_of(t) == self.name and not self.state.has_all_of(start_of(t), now=True):
            text += " that its log knows (is it an older copy?): what became of it is not known"
        self._error(request, "usage", text)

    def _op_begin(self, asked: Asked, args: Mapping[str, Any]) -> None:
        parent = args.get("parent")
        if parent is not None:
            committed = fits("id", parent) and self.state.could_be(parent) and self.state.status(parent) == "committed"
            if not committed and not self._own(asked, parent, active=False):
                return
        t = f"{self.name}:{self.state.start}:{self.state.count + 1}"
        self._write("begin", t=t, parent=parent)
        self.clients.setdefault(asked.client, set()).add(t)
        self.owners[t] = asked.client
        if parent is not None:
            self.graph.node(t, "active")
            self._needs(t, parent)
        self._reply(asked.request, t=t)

    def _op_send(self, asked: Asked, args: Mapping[str, Any]) -> None:
        t, path = args["t"], args["path"]
        if not self._own(asked, t):
            return
        if not fits("path", path):
            self._error(asked.request, "usage", "send: a path is a list of [in or out, a name, a token]")
            return
        try:
            place, _ = ends_in(self.tree, self.name, path)
            walk(self.tree, self.name, path, inside=True)
        except NoWay as error:
            self._refuse(f"{plain(path)}: {error}", f"client of {self.name}")
            self._error(asked.request, "path", f"{plain(path)}: {error}")
            return
        seq = self.state.live[t].seq + 1
        mid = f"{t}/{seq}"
        self._write("send", t=t, seq=seq, path=[list(step) for step in path], value=args["value"])
        if place != self.name:
            self.targets.setdefault(t, set()).add(place)
        self._carry(mid)
        if mid not in self.state.outbox:
            self._unheard.pop(mid, None)
        self._reply(asked.request, mid=mid)

    def _op_receive(self, asked: Asked, args: Mapping[str, Any]) -> None:
        t, channel, timeout = args["t"], args["channel"], args.get("timeout")
        if not self._own(asked, t):
            return
        if channel not in self.tree.channels.get(self.name, ()):
            there = ", ".join(sorted(self.tree.channels.get(self.name, ()))) or "none"
            message = f"{self.name!r} has no channel {str(channel)[:80]!r}; its channels: {there}"
            self._error(asked.request, "path", message)
            return
        if not self._seconds(asked, timeout):
            return
        if not self.waiting.get(channel) and self._take(t, channel, asked.request):
            return
        if timeout == 0:
            self._error(asked.request, "timeout", f"no message in {channel!r} of {self.name!r}")
            return
        key = next(self._number)
        self.waiting.setdefault(channel, OrderedDict())[key] = Waiting(asked.request, t)
        self._waits.setdefault(t, set()).add((channel, key))
        if timeout is not None:
            text = f"no message in {channel!r} of {self.name!r} for {timeout:g} seconds"
            self._later(timeout, lambda: self._stop_waiting(channel, key, "timeout", text))

    def _seconds(self, asked: Asked, timeout: Any) -> bool:
        right = timeout is None or (type(timeout) in (int, float) and timeout >= 0)
        if not right:
            text = f"{asked.op}: a timeout is a number of seconds or None, not {str(timeout)[:80]!r}"
            self._error(asked.request, "usage", text)
        return right

    def _take(self, t: str, channel: str, request: Any) -> bool:
        """The first message whose sender is not known to have aborted."""
        lying = self.state.channels.get(channel)
        while lying:
            mid, message = next(iter(lying.items()))
            if self.foreign.get(message.sender) is False:
                del lying[mid]  # it can never be taken: forgotten, which changes nothing
                continue
            self._write("take", t=t, channel=channel, mid=mid, sender=message.sender)
            if message.sender != t:
                self.graph.node(t, "active")
                self._needs(t, message.sender)
                self._ask_one(message.sender)  # early: who took from one that aborted unseen hears of it before its end
            self._reply(request, value=message.value, mid=mid, sender=message.sender)
            return True
        return False

    def _serve_waiting(self, channel: str) -> None:
        waiting = self.waiting.get(channel)
        while waiting:
            key, one = next(iter(waiting.items()))
            if not self._take(one.t, channel, one.request):
                return
            del waiting[key]
            self._waits[one.t].discard((channel, key))

    def _stop_waiting(self, channel: str, key: int, code: str, text: str, **more: Any) -> None:
        one = self.waiting.get(channel, OrderedDict()).pop(key, None)
        if one is not None:
            self._waits[one.t].discard((channel, key))
            self._error(one.request, code, text, **more)

    def _undone(self, t: str, why: str, channels: Collection[str]) -> None:
        for channel, key in sorted(self._waits.get(t, ())):
            self._stop_waiting(channel, key, "aborted", f"{t} was aborted: {why}", why=why)
        self._waits.pop(t, None)
        self._serve.update(channels)

    def _forget(self, t: str) -> None:
        super()._forget(t)
        client = self.owners.pop(t, None)
        if client in self.clients:
            self.clients[client].discard(t)

    def _op_commit(self, asked: Asked, args: Mapping[str, Any]) -> None:
        t, timeout = args["t"], args.get("timeout")
        if fits("id", t) and self.state.could_be(t) and self.state.status(t) == "committed":
            self._reply(asked.request, status="committed")
            return
        if not self._own(asked, t, active=False) or not self._seconds(asked, timeout):
            return
        self.deciders.setdefault(t, []).append(asked.request)
        if not self.state.live[t].pending:
            for channel, key in sorted(self._waits.get(t, ())):
                self._stop_waiting(channel, key, "state", f"{t} is to be committed: it receives nothing any more")
            self._pend(t)
            self._settle()
            if t in self.state.live:
                self._push(t)
        if timeout is not None and t in self.state.live:
            if timeout > 0:
                self._later(timeout, lambda: self._not_yet(t, asked.request))
            else:
                self._not_yet(t, asked.request)

    def _not_yet(self, t: str, request: Any) -> None:
        """A client waits no longer: that it is pending is durable, and it is decided some time."""
        if request in self.deciders.get(t, ()):
            self.deciders[t].remove(request)
            self._out.sync = True
            self._reply(request, **self._told_client(t))

    def _op_abort(self, asked: Asked, args: Mapping[str, Any]) -> None:
        t = args["t"]
        if fits("id", t) and self.state.could_be(t) and self.state.status(t) == "aborted":
            self._reply(asked.request, status="aborted", why=self.state.outcomes.get(t, "crash"))
        elif self._own(asked, t, active=False):
            attempt = self.state.live[t].attempt
            if attempt is not None:
                text = f"{t} is prepared in {attempt}: what becomes of it is for {place_of(attempt)!r} to say"
                self._error(asked.request, "state", text, status="prepared")
            else:
                self._abort(t, "asked")
                self._reply(asked.request, status="aborted", why="asked")

    def _op_status(self, asked: Asked, args: Mapping[str, Any]) -> None:
        t = args["t"]
        if not fits("id", t) or not self.state.could_be(t):
            self._not_here(asked.request, t)
        else:
            self._reply(asked.request, **self._told_client(t))

    def _op_gone(self, asked: Asked, args: Mapping[str, Any]) -> None:
        """CRASH of a client: what it has not asked to commit is undone; the rest is decided without it."""
        for t in sorted(self.clients.pop(asked.client, ())):
            self.owners.pop(t, None)
            if t in self.state.live and not self.state.live[t].pending:
                self._abort(t, "crash")
