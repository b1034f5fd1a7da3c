"""What is asked of committing together: agreement, a decision that lasts, no wrong abort, readers, an end.

>>> {name: verdict.status for name, verdict in places_keep().items()}
{'agreement': 'proved', 'one attempt': 'proved', 'the decision lasts': 'proved', 'no wrong abort': 'proved',
'nobody waits for another': 'proved', 'readers': 'proved', 'an end': 'proved'}
>>> early = places_keep(members=3, attempts=1, rules=["decide early"])["agreement"].counterexample
>>> early.steps, early.replay()
(('try 1', '1 prepares 1', 'yes to 1 from 1', 'decide 1', 'abort 2'), True)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pellucid.atomic.places.protocol.machine import FAULTS, At, Committing, committing
from pellucid.errors import UsageError, nearest
from pellucid.model import Budget, CutShort, Run, Search, Verdict

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
    rules = tuple(rules)
    for rule in rules:
        if rule not in FAULTS:
            raise UsageError(f"rules: no fault is called {rule!r}{nearest(rule, list(FAULTS))}")
    if members < 2:
        raise UsageError(f"members={members}: two places at least commit together")
    machine = committing(members, attempts, crashes, aborts, rules)
    began = time.monotonic()
    search: Search[At, str] = Search([machine.start()], machine.steps, Budget(None, states))
    broken: dict[str, At] = {}
    before: dict[At, list[At]] = {}
    ends, cut = [], ""
    try:
        for at, after in search:
            for name, holds in _HOLDS.items():
                if name not in broken and not holds(at):
                    broken[name] = at
            if machine.complete(at):
                ends.append(at)
            for label, then in after:
                if not label.startswith(("crash", "abort")):
                    before.setdefault(then, []).append(at)
    except CutShort as error:
        cut = str(error)
    if not cut:
        stuck = _stuck(machine, search, before, ends)
        if stuck is not None:
            broken["an end"] = stuck
    seconds = time.monotonic() - began
    made = {}
    for name, says in SAYS.items():
        end = broken.get(name)
        if end is None and cut:
            made[name] = Verdict("unknown", says, "explicit", seconds, notes=(cut,))
            continue
        run = None if end is None else Run((), tuple(search.way(end)), None, f"not so: {says}", machine)
        details = {"states": len(search.parents)}
        made[name] = Verdict("proved" if end is None else "refuted", says, "explicit", seconds, run, details=details)
    return made


def _stuck(machine: Committing, search: Search[At, str], before: dict[At, list[At]], ends: list[At]) -> At | None:
    """The nearest state from which no end can be reached; attempts that are used up are no fault of the rules."""
    good, waiting = set(ends), list(ends)
    for at in waiting:
        for earlier in before.get(at, ()):
            if earlier not in good:
                good.add(earlier)
                waiting.append(earlier)

    def enough(at: At) -> bool:
        return (
            bool(at.log or at.trying) or at.attempts < machine.attempts or any(p.status == "aborted" for p in at.places)
        )

    return next((at for at in search.parents if at not in good and enough(at)), None)
