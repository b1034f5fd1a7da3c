"""Runs: a seeded scheduler, and a run with its picture, its document, its test and its replay."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.printing import network_text
from pellucid.atomic.reading import parse
from pellucid.atomic.rules import Rules
from pellucid.atomic.typing import System
from pellucid.errors import UsageError
from pellucid.model import Run, follow
from pellucid.model.show.pytest_file import Case, Imports, literal


def network_of(given: s.Network | str) -> tuple[s.Network, str]:
    """A network, or its text; and the text."""
    if isinstance(given, str):
        return parse(given), given
    if not isinstance(given, (s.Place, s.Running, s.Wire, s.New, s.Empty)):
        raise UsageError(f"a network is expected, or its text; found a {type(given).__name__}")
    return given, ""


@dataclass(frozen=True)
class NetworkRun(Run):
    """A run of a network: its steps in words, and a space-time picture with places as lanes."""

    def states(self) -> list[Any]:
        """The states on the way, the first one first."""
        assert self.machine is not None
        return follow(self.machine, self.steps)

    def outcome(self) -> tuple[list[str], list[str]]:
        """Who is committed at the end, and who aborted."""
        assert isinstance(self.machine, Atomic)
        view = self.machine.view(self.states()[-1])
        return sorted(view.committed), sorted(view.aborted)

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
        imports.ours |= {"from pellucid.atomic import Atomic, parse", "from pellucid.model import follow"}
        labels = ", ".join(literal(label, case.files[0] if case.files else "", imports) for label in self.steps)
        options = f"rules={m.rules.name!r}, unfold={m.unfold}, system={m.system!r}"
        return [
            f"    network = parse({network_text(m.network)!r})",
            f"    machine = Atomic(network, {options})",
            f"    *_, last = follow(machine, [{labels}])",
            f"    assert machine.see(last) == {m.see(self.states()[-1])!r}",
        ]


def run(
    network: s.Network | str,
    *,
    seed: int = 0,
    steps: int = 1000,
    rules: str | Rules = "corrected",
    unfold: int = 2,
    system: System = "corrected",
) -> NetworkRun:
    """Run a network: in each state one of its steps is drawn, by the seed, until there is none.

    >>> found = run('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | commit} | t2{receive(out c, (x) commit, abort)} ]''', seed=3)
    >>> found.trace(), found.outcome()
    (['RECV t2 from t1 c', 'APP t2', 'COMMIT t1 t2'], (['t1', 't2'], []))
    """
    for name, value in (("seed", seed), ("steps", steps)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"{name}= is a whole number, 0 or more: found {value!r}")
    given, text = network_of(network)
    machine = Atomic(given, rules=rules, unfold=unfold, system=system, text=text)
    chance, at = random.Random(seed), machine.start()
    taken: list[Step] = []
    while len(taken) < steps and (offered := list(machine.steps(at))):
        step, at = chance.choice(offered)
        taken.append(step)
    more = len(taken) == steps and any(True for _ in machine.steps(at))
    why = f"{steps} steps were taken, and more are possible" if more else "no step is left"
    return NetworkRun((), tuple(taken), None, why, machine)
