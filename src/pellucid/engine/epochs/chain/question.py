"""What is asked of chained runs: nothing committed on what was given up, each epoch once, one history, an end.

>>> {name: verdict.status for name, verdict in chain_keeps(epochs=1, failures=1).items()}
{'no orphan': 'proved', 'once': 'proved', 'one history': 'proved', 'an end': 'proved'}
>>> orphan = chain_keeps(epochs=1, failures=1, rules=["commit without asking"])["no orphan"].counterexample
>>> orphan.steps, orphan.replay()
(('make 1 at p0 as a', 'make 1 at p1', 'complete 1 at p1', 'commit 1 at p1'), True)

A circle of pipelines has no first epoch: push *i* of each needs row *i* of the other.

>>> circle = chain_keeps(((1,), (0,)), epochs=1, failures=0)["an end"]
>>> circle.status, circle.counterexample.steps
('refuted', ())
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pellucid.engine.epochs.chain.machine import FAULTS, At, Chained
from pellucid.errors import UsageError, nearest
from pellucid.model import Budget, CutShort, Run, Search, Verdict

SAYS = {
    "no orphan": "whatever is committed was made from what the upstreams have committed",
    "once": "every pipeline commits each epoch once, in order, and leaves none out",
    "one history": "nobody reads on over rows that are not there any more",
    "an end": "from everywhere, without further crashes, all epochs can be committed everywhere",
}


def _no_orphan(machine: Chained, at: At) -> bool:
    for line, above in zip(at.lines, machine.reads, strict=True):
        for number, rows in line.committed:
            if above and rows != tuple(dict(at.lines[up].committed).get(number) for up in above):
                return False
    return True


def _once(machine: Chained, at: At) -> bool:
    return all([n for n, _ in line.committed] == list(range(1, len(line.committed) + 1)) for line in at.lines)


_HOLDS: dict[str, Callable[[Chained, At], bool]] = {
    "no orphan": _no_orphan,
    "once": _once,
    "one history": lambda machine, at: not at.mixed,
}


def chain_keeps(
    reads: tuple[tuple[int, ...], ...] = ((), (0,)), *, epochs: int = 2, failures: int = 2, variants: str = "ab",
    rules: Iterable[str] = (), states: int = 2_000_000,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for each question, of all runs of pipelines that read one another so; ``rules`` plants faults."""
    rules = tuple(rules)
    for rule in rules:
        if rule not in FAULTS:
            raise UsageError(f"rules: no fault is called {rule!r}{nearest(rule, list(FAULTS))}")
    machine = Chained(reads, epochs, failures, variants, rules)
    began = time.monotonic()
    search: Search[At, str] = Search([machine.start()], machine.steps, Budget(None, states))
    broken: dict[str, At] = {}
    before: dict[At, list[At]] = {}
    ends, cut = [], ""
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
        for label, then in after:
            if not label.startswith("crash"):
                before.setdefault(then, []).append(at)
    if not cut and (stuck := _stuck(search, before, ends)) is not None:
        broken["an end"] = stuck
    seconds = time.monotonic() - began
    return {name: _verdict(machine, search, name, broken.get(name), cut, seconds) for name in SAYS}


def _verdict(
    machine: Chained, search: Search[At, str], name: str, end: At | None, cut: str, seconds: float
) -> Verdict:  # fmt: skip
    says = SAYS[name]
    if end is None and cut:
        return Verdict("unknown", says, "explicit", seconds, notes=(cut,))
    run = None if end is None else Run((), tuple(search.way(end)), None, f"not so: {says}", machine)
    return Verdict(
        "proved" if end is None else "refuted", says, "explicit", seconds, run, details={"states": len(search.parents)}
    )


def _stuck(search: Search[At, str], before: dict[At, list[At]], ends: list[At]) -> At | None:
    """The nearest state from which no end can be reached."""
    good, waiting = set(ends), list(ends)
    for at in waiting:
        for earlier in before.get(at, ()):
            if earlier not in good:
                good.add(earlier)
                waiting.append(earlier)
    return next((at for at in search.parents if at not in good), None)
