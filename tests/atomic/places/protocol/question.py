"""What is asked of committing together: agreement, a decision that lasts, no wrong abort, readers, an end.

>>> {name: verdict.status for name, verdict in places_keep().items()}
{'agreement': 'bounded', 'one attempt': 'bounded', 'the decision lasts': 'bounded', 'no wrong abort': 'bounded',
'nobody waits for another': 'bounded', 'readers': 'bounded', 'an end': 'bounded'}
>>> early = places_keep(members=3, attempts=1, rules=["decide early"])["agreement"].counterexample
>>> early.steps, early.replay()
(('try 1', '1 prepares 1', 'yes to 1 from 1', 'decide 1', 'abort 2'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pellucid.errors import UsageError
from pellucid.internal.model import Verdict
from tests.atomic.places.protocol.machine import FAULTS, At, committing
from tests.model.keeps import keeps, planted

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
