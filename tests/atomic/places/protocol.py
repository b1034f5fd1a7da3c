"""The meaning of committing together: members of one component at several places, as a machine for the shared search.

One member at each place; place 0 has the least and is the coordinator.  Each place has a log that lasts and a memory
that ends with it.  Messages that were ever sent are a set that only grows: a message may be heard at any later time,
any number of times, in any order, or never, so loss, doubling, reordering and delay need no steps of their own.

=========================  ============================================================================================
``try a``                  the coordinator asks all to prepare, in an attempt that only its memory knows
``m prepares a``           the request is heard: it lasts that the member waits for the coordinator's word; it votes yes
``m refuses a``            the request is heard by one that cannot: it votes no
``yes to a from m``        the coordinator hears a vote; ``no to a from m``: it gives the attempt up
``decide a``               all have said yes: the decision is written, with the coordinator's own commit
``m commits a``            the decision is heard
``m releases a``           it is heard that the attempt was given up; this is remembered, but may not last
``done a from m``          the coordinator hears that m has it; when all have, it need not say it any more
``m asks about a``         who is in doubt asks; its log answers: what it does not know was given up
``give up a``              a time-out of the coordinator: the members are pending as before
``abort m``                a member that is not prepared is aborted, for a reason of its own
``m cascades``             it is heard that another member was aborted
``told m``, ``r commits``  a reader of the last member asks for it, and commits when it is told so
``crash p``, ``start p``   memory is gone; what lasts is read again
=========================  ============================================================================================

``rules`` names classic faults, each of which breaks something (`tests.atomic.places.protocol`).

What is asked of committing together: agreement, a decision that lasts, no wrong abort, readers, an end.

>>> {name: verdict.status for name, verdict in places_keep().items()}
{'agreement': 'bounded', 'one attempt': 'bounded', 'the decision lasts': 'bounded', 'no wrong abort': 'bounded',
'nobody waits for another': 'bounded', 'readers': 'bounded', 'an end': 'bounded'}
>>> early = places_keep(members=3, attempts=1, rules=["decide early"])["agreement"].counterexample
>>> early.steps, early.replay()
(('try 1', '1 prepares 1', 'yes to 1 from 1', 'decide 1', 'abort 2'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.internal.model import Verdict
from tests.model.keeps import keeps, planted

__all__ = ["FAULTS", "SAYS", "Committing", "committing", "places_keep"]

FAULTS = {
    "decision in memory": "the decision is heard before it lasts",
    "vote before the log": "a member votes yes before it lasts that it is prepared",
    "decide early": "one yes is enough",
    "a doubled vote counts twice": "as many yes as there are members decide, whoever they are from",
    "a time-out aborts what is prepared": "who waits too long for the coordinator aborts",
    "a time-out commits what is prepared": "who waits too long for the coordinator commits",
    "recovery aborts what is prepared": "after a crash a place aborts what it has prepared",
    "unknown means commit": "an attempt that the coordinator's log does not know is answered with commit",
    "give up what is decided": "who waits too long for acknowledgements gives up, whatever the log says",
    "forget at the first done": "the decision is forgotten when the first member has it",
    "attempts have no names": "votes and words of one attempt are taken for another",
    "prepared ones can be aborted": "a client's abort does not ask whether the member is prepared",
    "one failing commit stops the others": "the decision goes to the next member only when the one before has it",
    "readers look between the phases": "that a member is prepared is told as committed",
    "the aborted prepare": "a member that is aborted votes yes",
    "an older copy is believed": "after a crash the coordinator's log is a copy of before, and it presumes",
    "an attempt is never given up": "after a crash of the coordinator nobody is told that its attempts are over",
}


class Place(NamedTuple):
    """What lasts of a member, and what its place remembers."""

    status: str = "pending"  # pending, prepared, committed, aborted; lasts
    attempt: int = 0  # in which it is prepared or committed
    alive: bool = True
    released: bool = False  # remembered: the attempt was given up


class At(NamedTuple):
    """A state of the whole."""

    places: tuple[Place, ...]
    log: int = 0  # the attempt that is decided; lasts
    trying: int = 0  # the coordinator's memory
    yes: frozenset[int] = frozenset()
    votes: int = 0  # how many were heard, for a rule that counts
    told: int = 0  # the decision that its memory knows
    done: frozenset[int] = frozenset()
    said: frozenset[tuple[str, int, int]] = frozenset()  # every message: what, attempt, member
    attempts: int = 0
    crashes: int = 0
    aborts: int = 0
    reader: str = "pending"
    wronged: bool = False  # something that was decided, or prepared, was aborted


class Committing(NamedTuple):
    """The machine: so many members, attempts, crashes, and aborts for a reason of their own."""

    members: int = 2
    attempts: int = 2
    crashes: int = 1
    aborts: int = 1
    rules: frozenset[str] = frozenset()

    def start(self) -> At:
        return At(tuple(Place() for _ in range(self.members)))

    def complete(self, at: At) -> bool:
        """Everything is decided."""
        decided = all(p.status in ("committed", "aborted") for p in at.places)
        return decided and all(p.alive for p in at.places) and at.reader != "pending"

    def see(self, at: At) -> Any:
        names = {f"m{m}": f"{p.status} {p.attempt or ''}".strip() for m, p in enumerate(at.places)}
        return {"log": at.log, **names, "reader": at.reader}

    # ------------------------------------------------------------ steps

    def steps(self, at: At, *, failures: bool = True) -> Iterator[tuple[str, At]]:
        if at.places[0].alive:
            yield from self._coordinator(at)
        for m in range(1, self.members):
            if at.places[m].alive:
                yield from self._member(at, m)
        yield from self._reader(at)
        for m, place in enumerate(at.places):
            if not place.alive:
                yield f"start {m}", self._started(at, m)
            elif failures:
                if at.crashes < self.crashes:
                    yield f"crash {m}", self._crashed(at, m)
                yield from self._own_abort(at, m)

    def _coordinator(self, at: At) -> Iterator[tuple[str, At]]:
        own = at.places[0]
        if own.status == "pending":
            if not at.trying and not at.told and at.attempts < self.attempts:
                a = at.attempts + 1
                asked = {("prepare", a, m) for m in range(1, self.members)}
                yield f"try {a}", at._replace(trying=a, attempts=a, yes=frozenset(), votes=0, said=at.said | asked)
            if at.trying:
                yield from self._trying(at)
            else:
                yield from self._cascade(at, 0)
        if at.told:
            for m in range(1, self.members):
                if ("done", at.told, m) in at.said and m not in at.done:
                    yield f"done {at.told} from {m}", self._acknowledged(at, m)
            if "give up what is decided" in self.rules and len(at.done) < self.members - 1:
                yield f"give up {at.told}", at._replace(said=at.said | {("given up", at.told, 0)}, told=0, log=0)

    def _trying(self, at: At) -> Iterator[tuple[str, At]]:
        a = at.trying
        for what, b, m in sorted(at.said):
            mine = b == a or "attempts have no names" in self.rules
            if what == "yes" and mine and (m not in at.yes or self._counts(at)):
                yield f"yes to {b} from {m}", at._replace(yes=at.yes | {m}, votes=min(at.votes + 1, self.members))
            if what == "no" and mine:
                yield f"no to {b} from {m}", self._given_up(at)
        enough = len(at.yes) == self.members - 1
        if "decide early" in self.rules:
            enough = bool(at.yes)
        if "a doubled vote counts twice" in self.rules:
            enough = at.votes >= self.members - 1
        if enough:
            yield f"decide {a}", self._decided(at)
        if at.attempts < self.attempts:
            yield f"give up {a}", self._given_up(at)

    def _counts(self, at: At) -> bool:
        return "a doubled vote counts twice" in self.rules and at.votes < self.members

    def _decided(self, at: At) -> At:
        a = at.trying
        own = at.places[0]._replace(status="committed", attempt=a)
        said = {("commit", a, m) for m in range(1, self.members)}
        if "one failing commit stops the others" in self.rules:
            said = {("commit", a, 1)}
        if "decision in memory" in self.rules:  # neither the decision nor the own commit lasts yet
            return at._replace(trying=0, told=a, said=at.said | said)
        return self._with(at, 0, own)._replace(log=a, trying=0, told=a, said=at.said | said)

    def _given_up(self, at: At) -> At:
        return at._replace(trying=0, yes=frozenset(), votes=0, said=at.said | {("given up", at.trying, 0)})

    def _acknowledged(self, at: At, m: int) -> At:
        at = at._replace(done=at.done | {m})
        if "one failing commit stops the others" in self.rules and m + 1 < self.members:
            at = at._replace(said=at.said | {("commit", at.told, m + 1)})
        if "forget at the first done" in self.rules:
            at = at._replace(log=0, told=0)
        return at

    def _answer(self, at: At, a: int) -> At:
        """What the coordinator says of an attempt that is not in its hands any more."""
        known = at.log == a or at.told == a
        if known:
            said = {("commit", a, m) for m in range(1, self.members)}
            if "one failing commit stops the others" in self.rules:
                said = {("commit", a, 1 + len(at.done))}
        elif "unknown means commit" in self.rules:
            said = {("commit", a, m) for m in range(1, self.members)}
        elif "an attempt is never given up" in self.rules:
            said = set()
        else:
            said = {("given up", a, 0)}
        return at._replace(said=at.said | said)

    def _member(self, at: At, m: int) -> Iterator[tuple[str, At]]:
        place = at.places[m]
        unbound = place.status == "pending" or place.released
        for what, a, to in sorted(at.said):
            if what == "prepare" and to == m:
                yield from self._asked(at, m, a, unbound)
            mine = place.status == "prepared" and (a == place.attempt or "attempts have no names" in self.rules)
            if what == "commit" and to == m and mine and not place.released:
                yield f"{m} commits {a}", self._commits(at, m, a)
            if what == "given up" and mine and not place.released:
                yield f"{m} releases {a}", self._with(at, m, place._replace(released=True))
        if place.status == "prepared" and not place.released:
            a = place.attempt
            if at.places[0].alive and at.trying != a:
                answered = self._answer(at, a)
                if answered != at:
                    yield f"{m} asks about {a}", answered
            if "a time-out aborts what is prepared" in self.rules:
                yield f"{m} waits too long", self._aborted(at, m)
            if "a time-out commits what is prepared" in self.rules:
                yield f"{m} waits too long", self._commits(at, m, a)
        elif place.status in ("pending", "prepared"):
            yield from self._cascade(at, m)

    def _asked(self, at: At, m: int, a: int, unbound: bool) -> Iterator[tuple[str, At]]:
        """A request to prepare is heard, perhaps late, perhaps again."""
        place = at.places[m]
        yes, no = ("yes", a, m), ("no", a, m)
        if place.status == "prepared" and place.attempt == a and not place.released:
            if yes not in at.said:
                yield f"{m} prepares {a}", at._replace(said=at.said | {yes})
        elif unbound and not (place.released and place.attempt == a):
            lasting = place._replace(status="prepared", attempt=a, released=False)
            if "vote before the log" in self.rules:
                lasting = place._replace(released=False)
            yield f"{m} prepares {a}", self._with(at, m, lasting)._replace(said=at.said | {yes})
        elif "the aborted prepare" in self.rules and place.status == "aborted":
            if yes not in at.said:
                yield f"{m} prepares {a}", at._replace(said=at.said | {yes})
        elif no not in at.said and not (place.status == "committed" and place.attempt == a):
            yield f"{m} refuses {a}", at._replace(said=at.said | {no})

    def _commits(self, at: At, m: int, a: int) -> At:
        place = at.places[m]._replace(status="committed", attempt=a)
        return self._with(at, m, place)._replace(said=at.said | {("done", a, m)})

    def _cascade(self, at: At, m: int) -> Iterator[tuple[str, At]]:
        if any(what == "aborted" and b != m for what, _, b in at.said):
            yield f"{m} cascades", self._aborted(at, m)

    def _aborted(self, at: At, m: int) -> At:
        place = at.places[m]
        wrong = place.status == "committed" or (place.status == "prepared" and not place.released)
        at = self._with(at, m, Place("aborted", 0, place.alive))
        return at._replace(said=at.said | {("aborted", 0, m)}, wronged=at.wronged or wrong)

    # ------------------------------------------------------------ a reader, and what goes wrong

    def _reader(self, at: At) -> Iterator[tuple[str, At]]:
        """A transaction of a place that does not crash, which took a message of the last member."""
        last = at.places[-1]
        if at.reader == "pending":
            early = last.status == "prepared" and "readers look between the phases" in self.rules
            if last.alive and (last.status == "committed" or early):
                yield "r commits", at._replace(reader="committed")
            if last.alive and last.status == "aborted":
                yield "r cascades", at._replace(reader="aborted")

    def _own_abort(self, at: At, m: int) -> Iterator[tuple[str, At]]:
        place = at.places[m]
        free = place.status == "pending" or place.released
        if place.status == "prepared" and "prepared ones can be aborted" in self.rules:
            free = True
        if at.aborts < self.aborts and free:
            if m == 0 and (at.trying or at.told):  # the coordinator gives its attempt up first
                if not at.trying:
                    return
                at = self._given_up(at)
            yield f"abort {m}", self._aborted(at, m)._replace(aborts=at.aborts + 1)

    def _crashed(self, at: At, m: int) -> At:
        place = at.places[m]._replace(alive=False, released=False)
        at = self._with(at, m, place)._replace(crashes=at.crashes + 1)
        if m == 0:
            at = at._replace(trying=0, yes=frozenset(), votes=0, told=0, done=frozenset())
        return at

    def _started(self, at: At, m: int) -> At:
        place = at.places[m]._replace(alive=True)
        at = self._with(at, m, place)
        if m == 0 and at.log and "an older copy is believed" in self.rules:
            at = self._with(at, 0, Place())._replace(log=0)
        if m == 0 and at.log:
            at = at._replace(told=at.log)
        if place.status == "prepared" and "recovery aborts what is prepared" in self.rules:
            at = self._aborted(at, m)
        return at

    @staticmethod
    def _with(at: At, m: int, place: Place) -> At:
        return at._replace(places=(*at.places[:m], place, *at.places[m + 1 :]))


def committing(
    members: int = 2, attempts: int = 2, crashes: int = 1, aborts: int = 1, rules: Iterable[str] = ()
) -> Committing:
    """The machine with these bounds.

    >>> sorted(label for label, _ in committing().steps(committing().start()))
    ['abort 0', 'abort 1', 'crash 0', 'crash 1', 'try 1']
    """
    return Committing(members, attempts, crashes, aborts, frozenset(rules))


SAYS = {
    "agreement": "no member is aborted while another is committed",
    "one attempt": "all members that are committed are so by the same attempt",
    "the decision lasts": "what a member committed by is in the coordinator's log",
    "no wrong abort": "what is prepared or committed is not aborted",
    "nobody waits for another": "once it is decided the word goes to every member, whether or not the others have it",
    "readers": "who read from a member commits only if every member does",
    "an end": "from everywhere, without further failures, everything can be decided",
}


def _agree(at: At) -> bool:
    return not {"committed", "aborted"} <= {p.status for p in at.places}


def _one_attempt(at: At) -> bool:
    return len({p.attempt for p in at.places if p.status == "committed"}) <= 1


def _lasts(at: At) -> bool:
    return all(at.log == p.attempt for p in at.places if p.status == "committed")


def _readers(at: At) -> bool:
    fate = {p.status for p in at.places}
    if at.reader == "committed":
        return bool(at.log) and "aborted" not in fate
    return at.reader != "aborted" or "committed" not in fate


_HOLDS: dict[str, Callable[[At], bool]] = {
    "agreement": _agree,
    "one attempt": _one_attempt,
    "the decision lasts": _lasts,
    "no wrong abort": lambda at: not at.wronged,
    "nobody waits for another": lambda at: all(
        ("commit", at.log, m) in at.said for m in range(1, len(at.places)) if at.log
    ),
    "readers": _readers,
}


def places_keep(
    *, members: int = 2, attempts: int = 2, crashes: int = 1, aborts: int = 1, rules: Iterable[str] = (),
    states: int = 2_000_000,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for each question, of all runs within these bounds; ``rules`` plants classic faults."""
    rules = planted(rules, FAULTS)
    if members < 2:
        raise UsageError(f"members={members}: two places at least commit together")
    machine = committing(members, attempts, crashes, aborts, rules)

    def enough(at: At) -> bool:
        """Attempts that are used up are no fault of the rules."""
        more = at.log or at.trying or at.attempts < machine.attempts
        return bool(more) or any(p.status == "aborted" for p in at.places)

    bound = f"runs of {members} places with at most {attempts} attempts, {crashes} crashes, {aborts} aborts"
    fails: Callable[[str], bool] = lambda label: label.startswith(("crash", "abort"))
    return keeps(machine, SAYS, _HOLDS, fails=fails, states=states, counts=enough, bound=bound)
