"""What is asked of sinks together: agreement, once, no wrong abort, nothing lost, whole epochs for readers.

>>> {name: verdict.status for name, verdict in together_keeps(epochs=1, failures=1).items()}
{'agreement': 'bounded', 'once': 'bounded', 'no wrong abort': 'bounded', 'nothing lost': 'bounded',
'readers': 'bounded', 'an end': 'bounded'}
>>> lost = together_keeps(epochs=1, failures=1, rules=["recovery aborts all"])["no wrong abort"].counterexample
>>> lost.steps[5:], lost.replay()
(('decide 1', 'crash', 'start', 'recover m0'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pellucid.internal.model import Verdict
from tests.model.keeps import keeps, planted
from tests.sinks.group.machine import FAULTS, NONE, At, Together

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
