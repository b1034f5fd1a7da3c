"""Runs: a seeded scheduler, and a run with its picture, its document, its test and its replay."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import Atomic, Rules, Step, gracefully
from pellucid.atomic.state import State
from pellucid.atomic.syntax import network_text, parse
from pellucid.atomic.typing import System
from pellucid.errors import UsageError
from pellucid.internal.model import Run, follow
from pellucid.internal.model.pytest_file import Case, Imports, literal
from pellucid.internal.model.sheet import Sheet

MOST = 1000  # next steps among which a run chooses


def network_of(given: s.Network | str, name: str = "") -> tuple[s.Network, str]:
    """A network, or its text; and the text.  ``name`` is that of its file."""
    if isinstance(given, str):
        return parse(given, name), given
    if not isinstance(given, (s.Place, s.Running, s.Wire, s.New, s.Empty)):
        raise UsageError(f"a network is expected, or its text; found a {type(given).__name__}")
    return given, ""


@dataclass(frozen=True)
class NetworkRun(Run):
    """A run of a network: its steps in words, and a space-time picture with places as lanes.  ``ended``: it is a run by
    chance or by hand, and refutes nothing."""

    ended: bool = False

    def states(self) -> list[Any]:
        """The states on the way, the first one first."""
        assert self.machine is not None
        return follow(self.machine, self.steps)

    def outcome(self) -> tuple[list[str], list[str]]:
        """Who is committed at the end, and who aborted."""
        assert isinstance(self.machine, Atomic)
        view = self.machine.view(self.states()[-1])
        return sorted(view.committed), sorted(view.aborted)

    def ending(self) -> str:
        """What it came to, in words."""
        came = zip(("committed", "aborted"), self.outcome(), strict=True)
        words = [f"{word} {', '.join(names)}" for word, names in came if names]
        return " · ".join([*words, self.why])

    def sheet(self, question: str = "", *, everything: bool = False) -> Sheet:
        """The steps, and what is seen where it changes; what never changes is left out."""
        whole = super().sheet(question, everything=everything)
        return replace(whole, rows=tuple(row for row in whole.rows if row.kind == "label" or any(row.cells)))

    def trace(self) -> list[str]:
        """The steps in words."""
        return [str(step) for step in self.steps]

    def picture(self, question: str = "") -> str:
        """A space-time picture: places are lanes, messages arrows; what was undone is grey."""
        from pellucid.atomic.picture import spacetime_svg

        return spacetime_svg(self, title=question)

    def test(self, case: Case, imports: Imports) -> list[str]:
        """It makes the network from its text, and follows the steps."""
        assert isinstance(self.machine, Atomic)
        m = self.machine
        imports.ours |= {"from pellucid.atomic import Atomic, parse", "from pellucid.internal.model import follow"}
        labels = ", ".join(literal(label, case.files[0] if case.files else "", imports) for label in self.steps)
        options = f"rules={m.rules.name!r}, unfold={m.unfold}, system={m.system!r}"
        return [
            f"    network = parse({network_text(m.network)!r})",
            f"    machine = Atomic(network, {options})",
            f"    *_, last = follow(machine, [{labels}])",
            f"    assert machine.see(last) == {m.see(self.states()[-1])!r}",
        ]


def offers(machine: Atomic, at: State, most: int = MOST) -> tuple[list[tuple[Step, State]], bool]:
    """The next steps, and whether there are more than so many: n transactions may commit in 2ⁿ sets.

    >>> machine = Atomic(parse("new t, u: Trans. new p: Place. p[ t{commit} | u{commit} ]"))
    >>> offered, more = offers(machine, machine.start(), most=2)
    >>> [str(step) for step, _ in offered], more
    (['COMMIT t', 'COMMIT t u'], True)
    """
    found = list(islice(machine.steps(at), most + 1))
    return found[:most], len(found) > most


def drawn(machine: Atomic, at: State, chance: random.Random, *, patient: bool = False) -> tuple[Step, State] | None:
    """One of the next steps by chance; None if there is none.  ``patient``: a time-out or a crash only where nothing
    else is possible."""
    offered, _ = offers(machine, at)
    waiting = [one for one in offered if patient and not one[0].fails]
    return chance.choice(waiting or offered) if offered else None


def run(
    network: s.Network | str,
    *,
    seed: int = 0,
    steps: int = 1000,
    patient: bool = False,
    rules: str | Rules = "corrected",
    unfold: int = 2,
    system: System = "corrected",
) -> NetworkRun:
    """Run a network: in each state one of its steps is drawn, by the seed, until there is none.  ``patient``: none
    gives up waiting, or crashes, where anything else can happen.

    >>> text = '''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | commit} | t2{receive(out c, (x) commit, abort)} ]'''
    >>> found = run(text, seed=3)
    >>> found.trace(), found.outcome()
    (['RECV t2 from t1 c', 'APP t2', 'COMMIT t1 t2'], (['t1', 't2'], []))
    >>> {run(text, seed=seed, patient=True).outcome()[1] == [] for seed in range(20)}
    {True}
    """
    for name, value in (("seed", seed), ("steps", steps)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"{name}= is a whole number, 0 or more: found {value!r}")
    given, text = network_of(network)
    machine = Atomic(given, rules=rules, unfold=unfold, system=system, text=text)
    taken: list[Step] = []
    with gracefully("the network"):
        chance, at = random.Random(seed), machine.start()
        while len(taken) < steps and (one := drawn(machine, at, chance, patient=patient)):
            step, at = one
            taken.append(step)
        more = len(taken) == steps and any(True for _ in machine.steps(at))
    why = f"{steps} steps were taken, and more are possible" if more else "no step is left"
    return NetworkRun((), tuple(taken), None, why, machine, ended=True)
