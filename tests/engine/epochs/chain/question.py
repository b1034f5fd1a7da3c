"""What is asked of chained runs: nothing committed on what was given up, each epoch once, one history, an end.

>>> {name: verdict.status for name, verdict in chain_keeps(epochs=1, failures=1).items()}
{'no orphan': 'bounded', 'once': 'bounded', 'one history': 'bounded', 'an end': 'bounded'}
>>> orphan = chain_keeps(epochs=1, failures=1, rules=["commit without asking"])["no orphan"].counterexample
>>> orphan.steps, orphan.replay()
(('make 1 at p0 as a', 'make 1 at p1', 'complete 1 at p1', 'commit 1 at p1'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pellucid.internal.model import Verdict
from tests.engine.epochs.chain.machine import FAULTS, At, Chained, Reads
from tests.model.keeps import keeps, planted

SAYS = {
    "no orphan": "whatever is committed was made from what the upstreams have committed",
    "once": "every pipeline commits each epoch once, in order, and leaves none out",
    "one history": "nobody reads on over rows that are not there any more",
    "an end": "from everywhere, without further crashes, all epochs can be committed everywhere",
}


def _no_orphan(machine: Chained, at: At) -> bool:
    return all(
        machine.read(p, rows) == machine.shown(at, p, number)
        for p, line in enumerate(at.lines)
        for number, rows in line.committed
    )


def _once(machine: Chained, at: At) -> bool:
    return all([n for n, _ in line.committed] == list(range(1, len(line.committed) + 1)) for line in at.lines)


_HOLDS: dict[str, Callable[[Chained, At], bool]] = {
    "no orphan": _no_orphan,
    "once": _once,
    "one history": lambda machine, at: not at.mixed,
}


def chain_keeps(
    reads: Reads = ((), (0,)), *, epochs: int = 2, failures: int = 2, variants: str = "ab",
    rules: Iterable[str] = (), states: int = 2_000_000,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for each question, of all runs of pipelines that read one another so; ``rules`` plants faults."""
    machine = Chained(reads, epochs, failures, variants, planted(rules, FAULTS))
    return keeps(
        machine,
        SAYS,
        {name: partial(holds, machine) for name, holds in _HOLDS.items()},
        fails=lambda label: label.startswith("crash"),
        states=states,
        bound=f"runs of {len(reads)} pipelines with {epochs} epochs and at most {failures} crashes",
    )
