"""The meaning of sinks together: a coordinator, members, and what can crash, as a machine for the shared search.

An epoch is tried in *attempts*: one that was given up may come back with other rows, so two members agree on an epoch
only if they have it from the same attempt.  What lasts: the log (the last decision, with which the attempt's rows are
kept), the rows of members, and what a member of the kind ``lasting`` has prepared (``PREPARE TRANSACTION``).  A member
of the kind ``held`` prepares in a transaction that ends with its connection; after a crash it takes a decided epoch
from the rows that are kept.

======================  ==============================================================================================
``prepare e at m``      the coordinator asks; what is on its way may arrive after the coordinator has died
``prepared e at m``     it arrived: the member can commit, and has told so; ``late`` if that attempt is over
``refused e at m``      the member says no: the attempt is given up
``decide e``            all have said yes: the decision is written down, and lasts
``commit e at m``       a member makes the epoch visible; one that has it already leaves it
``whole e``             all have it, and the next epoch may begin
``give up e``           a time-out: an attempt that is not decided is aborted
``crash``, ``start``    the coordinator dies, and looks at the log when it is there again
``recover m``           what a member has prepared is committed if the log says so, and aborted if not
``clear m``             what an earlier attempt left prepared, also after the recovery made its list, is aborted
``ghost decides e``     a coordinator that was believed dead lives on, and nobody has taken the log from it yet
``ghost gives up e``    the same gives up its own attempt, if that is not decided
``restart m``           a member dies and is there again: what it held is gone
``commit … unheard``    a member commits, and the answer is lost
======================  ==============================================================================================

``rules`` names classic faults, each of which breaks something (`tests.sinks.group.machine`).

What is asked of sinks together: agreement, once, no wrong abort, nothing lost, whole epochs for readers.

>>> {name: verdict.status for name, verdict in together_keeps(epochs=1, failures=1).items()}
{'agreement': 'bounded', 'once': 'bounded', 'no wrong abort': 'bounded', 'nothing lost': 'bounded',
'readers': 'bounded', 'an end': 'bounded'}
>>> lost = together_keeps(epochs=1, failures=1, rules=["recovery aborts all"])["no wrong abort"].counterexample
>>> lost.steps[5:], lost.replay()
(('decide 1', 'crash', 'start', 'recover m0'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from pellucid.internal.model import Verdict
from tests.model.keeps import keeps, planted

Attempt = tuple[int, int]  # an epoch, and which attempt at it
NONE: Attempt = (0, 0)

FAULTS = {
    "decision in memory": "the decision is not written down before members commit",
    "commit when prepared": "a member commits as soon as it has prepared",
    "decide early": "one yes is enough",
    "time-out aborts what is decided": "who waits too long gives up, whatever the log says",
    "recovery aborts all": "after a crash everything that is prepared is aborted",
    "recovery commits all": "after a crash everything that is prepared is committed",
    "commit without looking": "a commit does not ask whether the epoch is there",
    "a failed commit counts": "a member whose commit failed is taken for one that has it",
    "attempts have no names": "what an earlier attempt prepared is taken for this one's",
    "readers look at each": "a reader takes all that each member has",
    "the dead take back": "who was believed dead takes back what its successor has prepared",
}


class Member(NamedTuple):
    """What a member has: rows of epochs, each from an attempt, and what it has prepared."""

    rows: tuple[Attempt, ...] = ()
    prepared: Attempt = NONE

    @property
    def last(self) -> int:
        return self.rows[-1][0] if self.rows else 0


class At(NamedTuple):
    """A state of the whole."""

    members: tuple[Member, ...]
    log: Attempt = NONE  # lasts
    alive: bool = True
    looked: frozenset[int] = frozenset()  # members that the recovery has looked at
    trying: Attempt = NONE  # what the coordinator works on
    asked: frozenset[int] = frozenset()
    voted: frozenset[int] = frozenset()
    decided: bool = False  # the coordinator knows so
    have: frozenset[int] = frozenset()  # members of which it knows that they have the epoch
    done: int = 0  # epochs that were told to be whole
    flying: frozenset[tuple[int, Attempt]] = frozenset()  # requests to prepare on their way
    attempts: int = 0
    failures: int = 0
    unfit: frozenset[tuple[int, Attempt]] = frozenset()  # rows that a member does not take
    ghost: Attempt = NONE  # what a coordinator works on that was believed dead, and lives on
    ready: bool = False  # whether all had said yes to that
    wronged: bool = False  # something that was decided, or that a member shows, was given up


class Together:
    """The machine; ``kinds`` are those of its members."""

    def __init__(
        self, kinds: tuple[str, ...] = ("lasting", "held"), epochs: int = 2, failures: int = 2, attempts: int = 4,
        rules: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.kinds, self.epochs, self.failures, self.attempts = kinds, epochs, failures, attempts
        self.rules = frozenset(rules)
        self._all = frozenset(range(len(kinds)))

    def start(self) -> At:
        return At(tuple(Member() for _ in self.kinds), looked=self._all)

    def complete(self, at: At) -> bool:
        return at.done == self.epochs

    def see(self, at: At) -> Any:
        names = {f"m{m}": member.rows for m, member in enumerate(at.members)}
        return {"log": at.log, **names, "read": self.read(at)}

    def read(self, at: At) -> tuple[tuple[Attempt, ...], ...]:
        """What `read_together` gives: each member cut at the last epoch that all have."""
        if "readers look at each" in self.rules:
            return tuple(member.rows for member in at.members)
        cut = min(member.last for member in at.members)
        return tuple(tuple(row for row in member.rows if row[0] <= cut) for member in at.members)

    # ------------------------------------------------------------ steps

    def steps(self, at: At, *, failures: bool = True) -> Iterator[tuple[str, At]]:
        yield from self._arrivals(at)
        if at.alive and at.looked != self._all:
            for m in sorted(self._all - at.looked):
                if (m, at.log) not in at.unfit:
                    yield f"recover m{m}", self._recovered(at, m)
        elif at.alive and at.trying == NONE:
            if at.done < self.epochs and at.attempts < self.attempts:
                yield from self._begin(at)
        elif at.alive:
            yield from self._work(at)
        if not at.alive:
            yield "start", at._replace(alive=True)
        yield from self._ghost(at)
        if failures and at.failures < self.failures:
            if at.alive:
                yield "crash", self._crashed(at)
            yield from self._restarts(at)
            yield from self._unheard(at)

    def _begin(self, at: At) -> Iterator[tuple[str, At]]:
        """The next epoch; after a recovery, the one that is decided is known to be everywhere."""
        epoch = at.done + 1
        yield f"begin {epoch}", at._replace(trying=(epoch, at.attempts + 1), attempts=at.attempts + 1)

    def _work(self, at: At) -> Iterator[tuple[str, At]]:
        epoch = at.trying[0]
        for m, member in enumerate(at.members):
            if m not in at.asked:
                yield f"prepare {epoch} at m{m}", at._replace(asked=at.asked | {m}, flying=at.flying | {(m, at.trying)})
            left = member.prepared not in (NONE, at.trying, at.log)
            if left and "attempts have no names" not in self.rules:
                yield f"clear m{m}", self._abort(at, {m})
            if left and "attempts have no names" in self.rules and member.prepared[0] == epoch and not at.decided:
                yield f"taken {epoch} at m{m}", at._replace(voted=at.voted | {m})
            if at.decided and m not in at.have:
                if (m, at.trying) not in at.unfit:
                    yield f"commit {epoch} at m{m}", self._committed(at, m)
                if "a failed commit counts" in self.rules:
                    yield f"commit {epoch} fails at m{m}", at._replace(have=at.have | {m})
            if "commit when prepared" in self.rules and m in at.voted and member.prepared == at.trying:
                yield f"commit {epoch} at m{m}", self._committed(at, m)
        if at.decided:
            if at.have == self._all:
                yield (
                    f"whole {epoch}",
                    at._replace(
                        done=epoch, trying=NONE, asked=frozenset(), voted=frozenset(), have=frozenset(), decided=False
                    ),
                )
            if "time-out aborts what is decided" in self.rules:
                yield f"give up {epoch}", self._give_up(at)
            return
        enough = bool(at.voted) if "decide early" in self.rules else at.voted == self._all
        if enough:
            log = at.log if "decision in memory" in self.rules else at.trying
            yield f"decide {epoch}", at._replace(log=log, decided=True)
        if at.attempts < self.attempts:
            yield f"give up {epoch}", self._give_up(at)

    def _arrivals(self, at: At) -> Iterator[tuple[str, At]]:
        for m, attempt in sorted(at.flying):
            member = at.members[m]
            rest = at._replace(flying=at.flying - {(m, attempt)})
            late = "" if attempt == at.trying else " late"
            if member.last >= attempt[0]:  # it has the epoch: there is nothing to prepare
                yield f"prepared {attempt[0]} at m{m}{late}", self._heard(rest, m, attempt)
            elif member.prepared == NONE:
                ready = self._with(rest, m, member._replace(prepared=attempt))
                yield f"prepared {attempt[0]} at m{m}{late}", self._heard(ready, m, attempt)
                if at.alive and at.trying == attempt and at.attempts < self.attempts:
                    no = rest._replace(unfit=at.unfit | {(m, attempt)})
                    yield f"refused {attempt[0]} at m{m}", no if at.decided else self._give_up(no)

    def _heard(self, at: At, m: int, attempt: Attempt) -> At:
        return at._replace(voted=at.voted | {m}) if at.alive and at.trying == attempt else at

    def _committed(self, at: At, m: int) -> At:
        """The member makes the attempt visible: what it has prepared, or the rows that are kept."""
        member, epoch = at.members[m], at.trying[0]
        known = at._replace(have=at.have | {m})
        if member.last >= epoch and "commit without looking" not in self.rules:
            return known
        row = member.prepared if "attempts have no names" in self.rules and member.prepared != NONE else at.trying
        left = NONE if member.prepared == row else member.prepared
        return self._with(known, m, Member((*member.rows, row), left))

    def _give_up(self, at: At) -> At:
        given = self._abort(at, {m for m, member in enumerate(at.members) if member.prepared == at.trying})
        if at.log == at.trying or any(at.trying in member.rows for member in at.members):
            given = given._replace(wronged=True)
        return given._replace(trying=NONE, asked=frozenset(), voted=frozenset(), have=frozenset(), decided=False)

    def _abort(self, at: At, which: Iterable[int]) -> At:
        for m in which:
            prepared = at.members[m].prepared
            shown = any(prepared in member.rows for member in at.members)
            at = self._with(at, m, at.members[m]._replace(prepared=NONE))
            if prepared != NONE and (prepared == at.log or shown):
                at = at._replace(wronged=True)
        return at

    def _recovered(self, at: At, m: int) -> At:
        """A decided epoch is committed, from what is prepared or from the rows that are kept; the rest is aborted."""
        member = at.members[m]
        commit = member.prepared == at.log != NONE
        if "recovery aborts all" in self.rules:
            commit = False
        if "recovery commits all" in self.rules:
            commit = member.prepared != NONE
        if commit and (member.last < member.prepared[0] or "commit without looking" in self.rules):
            at = self._with(at, m, Member((*member.rows, member.prepared)))
        else:
            at = self._abort(at, {m})
            member = at.members[m]
            behind = member.last < at.log[0] or ("commit without looking" in self.rules and at.log != NONE)
            if behind and "recovery aborts all" not in self.rules:
                at = self._with(at, m, Member((*member.rows, at.log)))
        looked = at.looked | {m}
        return at._replace(looked=looked, done=max(at.done, at.log[0]) if looked == self._all else at.done)

    # ------------------------------------------------------------ what goes wrong

    def _crashed(self, at: At) -> At:
        members = tuple(self._lost(member, kind) for member, kind in zip(at.members, self.kinds, strict=True))
        flying = frozenset((m, a) for m, a in at.flying if self.kinds[m] == "lasting")
        ghost = NONE if at.decided else at.trying
        return At(
            members, at.log, False, done=at.done, flying=flying, attempts=at.attempts, failures=at.failures + 1,
            unfit=at.unfit, ghost=ghost, ready=ghost != NONE and at.voted == self._all, wronged=at.wronged,
        )  # fmt: skip

    def _restarts(self, at: At) -> Iterator[tuple[str, At]]:
        for m, member in enumerate(at.members):
            if member.prepared != NONE and self.kinds[m] == "held":
                lost = self._with(at, m, self._lost(member, "held"))
                yield f"restart m{m}", lost._replace(failures=at.failures + 1)

    def _unheard(self, at: At) -> Iterator[tuple[str, At]]:
        """A member commits, and the answer is lost with the connection."""
        for m, member in enumerate(at.members):
            lacks = at.alive and at.decided and m not in at.have and member.last < at.trying[0]
            if lacks and (m, at.trying) not in at.unfit:
                done = self._committed(at, m)._replace(have=at.have, failures=at.failures + 1)
                yield f"commit {at.trying[0]} at m{m} unheard", done

    def _ghost(self, at: At) -> Iterator[tuple[str, At]]:
        """The log has the name of whoever took it last: before that a ghost may decide, and after it only give up."""
        if at.ghost == NONE:
            return
        gone = at._replace(ghost=NONE, ready=False)
        if at.ready and not at.alive and at.log[0] < at.ghost[0]:
            yield f"ghost decides {at.ghost[0]}", gone._replace(log=at.ghost)
        if at.ghost != at.log:
            mine = {m for m, member in enumerate(at.members) if member.prepared == at.ghost}
            yield f"ghost gives up {at.ghost[0]}", self._abort(gone, mine)
        if "the dead take back" in self.rules:
            for m, member in enumerate(at.members):
                if member.prepared not in (NONE, at.ghost):
                    yield f"ghost clears m{m}", self._abort(at, {m})

    @staticmethod
    def _lost(member: Member, kind: str) -> Member:
        return member if kind == "lasting" else member._replace(prepared=NONE)

    @staticmethod
    def _with(at: At, m: int, member: Member) -> At:
        return at._replace(members=(*at.members[:m], member, *at.members[m + 1 :]))


SAYS = {
    "agreement": "of an epoch all members that have it have the same attempt",
    "once": "a member has each epoch once, in order, and none is left out",
    "no wrong abort": "what is decided, or what a member shows, is never given up",
    "nothing lost": "an epoch that was told to be whole is in every member",
    "readers": "a reader sees the same epochs in every member",
    "an end": "from everywhere, without further failures, all epochs can become whole",
}


def _agree(machine: Together, at: At) -> bool:
    seen: dict[int, int] = {}
    return all(seen.setdefault(e, a) == a for member in at.members for e, a in member.rows)


def _once(machine: Together, at: At) -> bool:
    return all([e for e, _ in m.rows] == list(range(1, len(m.rows) + 1)) for m in at.members)


def _nothing_lost(machine: Together, at: At) -> bool:
    return all(member.last >= at.done for member in at.members)


def _readers(machine: Together, at: At) -> bool:
    return len({tuple(e for e, _ in rows) for rows in machine.read(at)}) == 1


_HOLDS: dict[str, Callable[[Together, At], bool]] = {
    "agreement": _agree,
    "once": _once,
    "no wrong abort": lambda machine, at: not at.wronged,
    "nothing lost": _nothing_lost,
    "readers": _readers,
}


def together_keeps(
    kinds: tuple[str, ...] = ("lasting", "held"), *, epochs: int = 2, failures: int = 2, attempts: int = 3,
    rules: Iterable[str] = (), states: int = 2_000_000,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for each question, of all runs with so many epochs and failures; ``rules`` plants classic faults."""
    machine = Together(kinds, epochs, failures, attempts, planted(rules, FAULTS))

    def enough(at: At) -> bool:
        """Attempts that are used up are no fault of the rules."""
        left = machine.epochs - max(at.done, at.log[0]) - (at.trying not in (NONE, at.log))
        return machine.attempts - at.attempts >= left

    return keeps(
        machine,
        SAYS,
        {name: partial(holds, machine) for name, holds in _HOLDS.items()},
        fails=lambda label: label.startswith(("crash", "restart")) or label.endswith("unheard"),
        states=states,
        counts=enough,
        bound=f"runs of {len(kinds)} members with {epochs} epochs and at most {failures} failures, {attempts} attempts",
    )
