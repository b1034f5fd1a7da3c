"""Networks of the calculus of atomic failure: final outcomes, what is reachable, what can stick, violations.

A trace of a case is taken as one of the shortest: ours must be as long, and the case's own must be possible here and
end where the property breaks.  Of mutants, the case names the properties that fall; none other may.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pellucid.atomic import Atomic, Explored, Step, parse
from pellucid.atomic.question import Judge, explore
from tests.atomic.mutants import MUTANTS
from tests.conformance import Differs, Kind, expect

PROPERTIES = ("A1", "A2", "A3", "C1", "C2")
FALSE = ("F0", "F1")  # formulations that the corrected rules break, too


def _outcomes(found: Iterable[Any]) -> list[Any]:
    """Who committed and who aborted; children have no name of their own."""
    return sorted({tuple(tuple(sorted(map(_nameless, side))) for side in sides) for sides in found})


def _nameless(words: str) -> str:
    """A step without the numbers of private names, which everybody counts differently."""
    return re.sub(r"~\d+", "~", words)


def _words(step: Step) -> str:
    """A step in words; a private name is none, whatever the text calls it."""
    return _nameless(str(step._replace(about="~") if step.about.startswith("~") else step))


def _follows(machine: Atomic, name: str, trace: list[str]) -> bool:
    """Whether a trace in words is possible, and ends where the property breaks."""
    ends = {machine.start()}
    for words in map(_nameless, trace):
        ends = {then for at in ends for step, then in machine.steps(at) if _words(step) == words}
    judge = Judge(machine)
    return any(judge.broken(at, (name,)) for at in ends)


def _violations(what: str, found: Explored, wanted: dict[str, list[str]], asked: tuple[str, ...]) -> None:
    lengths = {name: len(found.trace(at)) for name, (at, _) in found.broken.items() if name in asked}
    expect(f"{what}: violations and their lengths", lengths, {name: len(trace) for name, trace in wanted.items()})
    for name, trace in wanted.items():
        if not _follows(found.machine, name, trace):
            raise Differs(f"{what}: {name} is to fall by {', '.join(trace)}, and does not")


def atf(case: dict[str, Any]) -> None:
    """A network under variants of the rules, and mutants."""
    network, unfold = parse(case["text"]), case.get("budget", 0)
    for variant, wanted in case["results"].items():
        found = explore(Atomic(network, rules=variant, unfold=unfold), (*PROPERTIES, *FALSE, "types"))
        expect(f"{variant}: final", _outcomes(found.final), _outcomes(wanted["final"]))
        expect(f"{variant}: reachable", _outcomes(found.reachable), _outcomes(wanted["reachable"]))
        expect(f"{variant}: can stick", sorted({*found.sticks, *found.maybe}), sorted(wanted["can_stick"]))
        _violations(variant, found, wanted["violations"], (*PROPERTIES, *FALSE, "types"))
    for mutant, traces in case["mutants"].items():
        found = explore(Atomic(network, rules=MUTANTS.get(mutant, mutant), unfold=unfold), PROPERTIES)
        _violations(mutant, found, {name: t for name, t in traces.items() if name not in FALSE}, PROPERTIES)
    for mutant in set(MUTANTS) - {"receive_after_commit", *case["mutants"]}:  # that one goes by "printed" there
        found = explore(Atomic(network, rules=MUTANTS.get(mutant, mutant), unfold=unfold), PROPERTIES)
        expect(f"{mutant}: violations", sorted(found.broken), [])


KINDS: dict[str, Kind] = {"atf": atf}
