"""What is asked of sinks together: agreement, once, no wrong abort, nothing lost, whole epochs for readers.

>>> {name: verdict.status for name, verdict in together_keeps(epochs=1, failures=1).items()}
{'agreement': 'proved', 'once': 'proved', 'no wrong abort': 'proved', 'nothing lost': 'proved', 'readers': 'proved',
'an end': 'proved'}
>>> lost = together_keeps(epochs=1, failures=1, rules=["recovery aborts all"])["no wrong abort"].counterexample
>>> lost.steps[5:], lost.replay()
(('decide 1', 'crash', 'start', 'recover m0'), True)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pellucid.errors import UsageError, nearest
from pellucid.model import Budget, CutShort, Run, Search, Verdict
from pellucid.sinks.group.machine import FAULTS, NONE, At, Together

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
    rules = tuple(rules)
    for rule in rules:
        if rule not in FAULTS:
            raise UsageError(f"rules: no fault is called {rule!r}{nearest(rule, list(FAULTS))}")
    machine = Together(kinds, epochs, failures, attempts, rules)
    began = time.monotonic()
    search: Search[At, str] = Search([machine.start()], machine.steps, Budget(None, states))
    broken: dict[str, At] = {}
    before: dict[At, list[At]] = {}
    ends = []
    cut = ""
    walk = iter(search)
    while True:
        try:
            at, after = next(walk)
        except StopIteration:
            break
        except CutShort as error:
            cut = str(error)
            break
        for name, holds in _HOLDS.items():
            if name not in broken and not holds(machine, at):
                broken[name] = at
        if machine.complete(at):
            ends.append(at)
        failing = {label for label, _ in after if label.startswith(("crash", "restart")) or label.endswith("unheard")}
        for label, then in after:
            if label not in failing:
                before.setdefault(then, []).append(at)
    stuck = None if cut else _stuck(machine, search, before, ends)
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
        made[name] = Verdict(
            "proved" if end is None else "refuted",
            says,
            "explicit",
            seconds,
            run,
            details={"states": len(search.parents)},
        )
    return made


def _stuck(machine: Together, search: Search[At, str], before: dict[At, list[At]], ends: list[At]) -> At | None:
    """The nearest state from which no end can be reached; attempts that are used up are no fault of the rules."""
    good, waiting = set(ends), list(ends)
    for at in waiting:
        for earlier in before.get(at, ()):
            if earlier not in good:
                good.add(earlier)
                waiting.append(earlier)

    def enough(at: At) -> bool:
        left = machine.epochs - max(at.done, at.log[0]) - (at.trying not in (NONE, at.log))
        return machine.attempts - at.attempts >= left

    return next((at for at in search.parents if at not in good and enough(at)), None)
