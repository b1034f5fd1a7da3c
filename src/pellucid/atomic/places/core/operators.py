"""What people ask about a place, and what they decide by hand."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pellucid.atomic.places.core.commit import Commits
from pellucid.atomic.places.core.events import Asked
from pellucid.atomic.places.core.speaking import MOST
from pellucid.atomic.places.records import fits, place_of

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
            asked.request, doubt=doubt[:MOST], deciding=deciding[:MOST], pending=pending[:MOST], untold=self._untold()
        )

    def _untold(self) -> dict[str, list[str]]:
        """Transactions of other places of which something is here, and which nobody has told to be decided: some of
        each start.  Whether one is lost is for its place to say."""
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
            if status != "aborted":  # nobody can take it
                seen.append([mid, sender, status, message.value])
        self._reply(asked.request, messages=seen)
