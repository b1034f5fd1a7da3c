"""Is a system safe, for any number of processes?  The parts, in the order in which they are tried.

1. A few processes are run forwards (`oracle`).  An unsafe state that they reach gives a run.
2. The search backwards guesses from what they reached (`backward`); what it ends with is an invariant.
3. Without guesses, if they led nowhere.

*Proved* is said when the independent checker (`certificate`) accepts the invariant, *refuted* when the literal
interpreter has made the run; anything else is *unknown*, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.capacity.arrays.certificate import check_certificate
from pellucid.capacity.arrays.concrete import concrete_run, run_of
from pellucid.capacity.arrays.language.printing import formula_text
from pellucid.capacity.arrays.language.reading import read_text
from pellucid.capacity.arrays.language.system import States, System
from pellucid.capacity.arrays.search.backward import Backward, Node
from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.oracle import Guesses, Oracle
from pellucid.capacity.arrays.search.told import impossible, states_of
from pellucid.errors import DataError
from pellucid.model.budget import Budget, CutShort, now
from pellucid.model.counterexample import Run
from pellucid.model.verdict import Verdict

_STATES = 400_000  # of an oracle
_PROCESSES = (2, 3)  # of an oracle


def read(file: str | Path) -> System:
    """A system from a file in Cubicle's language (`read_text` has an example)."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"{file} cannot be read: {getattr(e, 'strerror', None) or 'it is not text (UTF-8)'}.") from None
    return read_text(text, str(file))


def decide(
    system: System, *, timeout: float | None = 60.0, progress: Any = None, name: str = "", shortest: bool = True
) -> Verdict:
    """Whether no unsafe state is reached, for any number of processes.

    A proof's formulas are in ``details["never"]`` (states that are never reached, as `States`); a run is the
    counterexample.  With ``shortest`` a run is a shortest one of all numbers of processes, as far as time allows; what
    was established is said in the notes.

    >>> system = read_text('''
    ... type state = Idle | Busy
    ... array S[proc] : state
    ... init (z) { S[z] = Idle }
    ... unsafe (x y) { S[x] = Busy && S[y] = Busy }
    ... transition go (x) requires { S[x] = Idle && forall_other y. S[y] = Idle } { S[x] := Busy }
    ... ''')
    >>> verdict = decide(system)
    >>> verdict.status, [formula_text(s.formula) for s in verdict.details["never"]]
    ('proved', ['S[x1] = Busy && S[x2] = Busy'])
    >>> broken = read_text('''
    ... array S[proc] : bool
    ... init (z) { S[z] = False }
    ... unsafe (x y) { S[x] = True && S[y] = True }
    ... transition go (x) requires { S[x] = False } { S[x] := True }
    ... ''')
    >>> print(decide(broken).counterexample)
    step   0       1
           go(#2)  go(#1)
    S[#1]          'True'
    S[#2]  'True'
                   ^ unsafe (line 4): x = #1, y = #2
    """
    began = now()
    work = _Work(system, Budget(timeout, progress=progress), shortest)
    status, run, never = "unknown", None, None
    try:
        found = work.decide()
        if isinstance(found, Run):
            status, run = "refuted", found
        elif found is not None:
            status, never = "proved", found
    except CutShort as e:
        work.notes.append(str(e))
    details: dict[str, Any] = {"visited": work.visited, "restarts": work.restarts}
    if never is not None:
        details["never"] = never
    if run is not None:
        details["processes"] = run.machine.count  # type: ignore[union-attr]
    question = f"{name or 'the system'}: no unsafe state, for any number of processes"
    return Verdict(status, question, "arrays", now() - began, run, tuple(work.notes), details)  # type: ignore[arg-type]


@dataclass
class _Work:
    """What is tried, one after another."""

    system: System
    budget: Budget
    shortest: bool
    notes: list[str] = field(default_factory=list)
    visited: int = 0
    restarts: int = 0
    spurious: int = 0

    def decide(self) -> Run | list[States] | None:
        self.compiled = Compiled(self.system)
        least = max(1, self.system.rigid)
        oracles: list[Oracle] = []
        limit = self.system.processes
        for n in [n for n in _PROCESSES if n >= least and (limit is None or n <= limit)] or [least]:
            oracle = Oracle(self.system, n)
            try:
                oracle.explore(self.budget.part(0.15), _STATES)
            except CutShort:
                oracle.settle()
            oracles.append(oracle)
            if oracle.unsafe_at is not None:
                steps, unsafe = oracle.way()
                run = concrete_run(self.system, steps, n, unsafe, self.budget)
                if run is not None:
                    return self.shorter(run, n)
            found = self.backward(Guesses(oracle, self.compiled.layout), 0.3 if n == least or n == 2 else 0.6)
            if found is not None:
                return found
        return self.backward(None, 1.0)

    def backward(self, guesser: Guesses | None, share: float) -> Run | list[States] | None:
        """A search backwards, within a share of what is left."""
        part = self.budget.part(share)
        runs: list[Run] = []

        def believed(node: Node) -> bool:
            run = run_of(self.system, node, part)
            if run is not None:
                runs.append(run)
            return run is not None

        search = Backward(self.compiled, part, guesser=guesser, believed=believed)
        guesses = [
            Node(cube, 0, guess=True) for states in self.system.invariants for cube in self.compiled.states(states)
        ]
        try:
            outcome = search.run(guesses)
        except CutShort as e:
            if guesser is None:
                raise
            self.notes.append(f"with guesses from {guesser.processes} processes: {e}") if "stop" in str(e) else None
            return None
        finally:
            self.visited += search.count
            self.restarts += search.restarts
        if outcome.reached is not None:
            return self.shorter(runs[-1], runs[-1].machine.count) if guesser is not None else runs[-1]  # type: ignore[union-attr]
        assert outcome.cubes is not None
        wrong = [g.cube for g in guesses if g.cube in search.bad]
        if wrong:
            self.notes.append(f"{len(wrong)} of the invariants in the text could not be confirmed and were not used")
        never = [*(states_of(self.compiled, c) for c in outcome.cubes), *impossible(self.compiled)]
        fault = check_certificate(self.system, never, self.budget)
        if fault is not None:
            raise CutShort(f"the invariant that was found is not accepted by the checker: {fault}")
        return never

    def shorter(self, run: Run, count: int) -> Run:
        """A shortest run of any number of processes, if the search for it ends in time."""
        length = len(run.steps)
        if not self.shortest or not length:
            return run
        found: list[Run] = []

        def believed(node: Node) -> bool:
            if node.depth >= length:
                return True
            other = run_of(self.system, node, self.budget)
            if other is not None:
                found.append(other)
            return other is not None

        search = Backward(self.compiled, self.budget.part(0.3), shortest=True, believed=believed)
        search.deepest = length - 1
        try:
            search.run()
        except CutShort as e:
            if "stop" not in str(e):
                self.notes.append(
                    f"a shortest run for {count} processes; whether more processes have a shorter one was not decided"
                )
                return run
        self.visited += search.count
        if found and len(found[-1].steps) < length:
            return found[-1]
        self.notes.append("a shortest run, for any number of processes")
        return run


def explain(never: Sequence[States]) -> list[str]:
    """The formulas of a proof, as text.

    >>> explain(decide(read_text("var X : bool init () { X = False } unsafe () { X = True }")).details["never"])
    ['X = True']
    """
    return [formula_text(s.formula) for s in never]
