"""Is a system safe, for any number of processes?  The parts, in the order in which they are tried.

1. A few processes are run forwards (`oracle`).  An unsafe state that they reach gives a run.
2. The search backwards guesses from what they reached (`backward`); what it ends with is an invariant.
3. Without guesses, if they led nowhere.
4. Where only runs are found in which somebody has stopped, once more, with what is true of somebody (`somebody`).

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
from pellucid.capacity.arrays.language.interpreter import Instance
from pellucid.capacity.arrays.language.printing import formula_text
from pellucid.capacity.arrays.language.reading import read_text
from pellucid.capacity.arrays.language.system import Formula, Not, States, System
from pellucid.capacity.arrays.search.backward import Backward, Node
from pellucid.capacity.arrays.search.compiled import Compiled
from pellucid.capacity.arrays.search.oracle import Guesses, Oracle, countable
from pellucid.capacity.arrays.search.somebody import Lemma, lemmas
from pellucid.capacity.arrays.search.told import impossible, states_of
from pellucid.errors import DataError
from pellucid.internal.model.budget import Budget, CutShort, now, on_time
from pellucid.internal.model.counterexample import Run
from pellucid.internal.model.verdict import Verdict

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
        with work.budget.kept():
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
        details["processes"] = _count(run)
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
    oracles: dict[int, Oracle] = field(default_factory=dict)
    stopped: bool = False  # a run was found in which somebody has stopped, which is none
    lemmas: list[Lemma] | None = None

    def decide(self) -> Run | list[States] | None:
        """Each way for a moment, then for longer, and so on: most systems need one way and little time."""
        self.compiled = Compiled(self.system)
        least, limit = max(1, self.system.rigid), self.system.processes
        counts = [n for n in _PROCESSES if n >= least and (limit is None or n <= limit)] or [least]
        types = {of for _, of in self.system.symbols.values()}
        whole = "int" in types or ("real" in types and countable(self.system))
        ways: list[tuple[int, bool]] = [
            (n, numbers) for n in counts for numbers in ((False, True) if whole else (False,))
        ]
        real = "real" in types and not countable(self.system)
        ways.insert(0 if real else len(ways), (0, False))  # of reals a few processes show nothing
        every, seconds = tuple(ways), 0.3
        while ways:
            for way in list(ways):
                part = _within(self.budget, seconds)
                found = self.try_(way, part)
                if found is not None:
                    return found
                on_time()
                if self.stopped and self.lemmas is None and self.somebody(counts[0]):
                    ways, seconds = list(every), 0.3 / 4
                    break
                if not part.over and way in ways:
                    ways.remove(way)  # it ended, with nothing
                self.budget.look(self.visited, len(ways))
            seconds *= 4
        raise CutShort(
            "a run was found only with processes that stop while others go on, which guards about all others forbid"
        )

    def somebody(self, n: int) -> bool:
        """Whether something is true of somebody that the search can make use of."""
        few = list(self.oracles.values()) or [self.explore(n)]
        self.lemmas = lemmas(self.compiled, few, self.budget.part(0.3))
        besides: dict[int, list[Formula]] = {}
        for lemma in self.lemmas:
            for t in lemma.transitions:
                besides.setdefault(t, []).append(Not(lemma.values))
        self.compiled = Compiled(self.system, besides)
        return bool(self.lemmas)

    def explore(self, n: int) -> Oracle:
        """What so many processes reach, in a moment."""
        oracle = Oracle(self.system, n)
        whole = {"int", "real"} & {of for _, of in self.system.symbols.values()}
        try:
            oracle.explore(_within(self.budget, 4.0), _STATES if not whole else _STATES // 40)
        except CutShort:
            oracle.settle()
        return oracle

    def try_(self, way: tuple[int, bool], part: Budget) -> Run | list[States] | None:
        """A search backwards, with guesses from so many processes (0: without), about numbers or not."""
        n, numbers = way
        if n and n not in self.oracles:
            self.oracles[n] = oracle = self.explore(n)
            if oracle.unsafe_at is not None:
                steps, unsafe = oracle.way()
                run = concrete_run(self.system, steps, n, unsafe, self.budget)
                if run is not None:
                    return self.shorter(run)
            part = _within(self.budget, part.timeout or 1.0)
        return self.backward(Guesses(self.oracles[n], self.compiled.layout) if n else None, part, numbers)

    def backward(self, guesser: Guesses | None, part: Budget, numbers: bool) -> Run | list[States] | None:
        """A search backwards; what it finds is checked."""
        runs: list[Run] = []

        def believed(node: Node) -> bool:
            run = run_of(self.system, node, part)
            if run is not None:
                runs.append(run)
            return run is not None

        search = Backward(self.compiled, part, guesser=guesser, numbers=numbers, believed=believed)
        guesses = [
            Node(cube, 0, guess=True) for states in self.system.invariants for cube in self.compiled.states(states)
        ]
        try:
            outcome = search.run(guesses)
        except CutShort:
            return None
        finally:
            self.visited += search.count
            self.restarts += search.restarts
            self.stopped = self.stopped or search.spurious > 0
        if outcome.reached is not None:
            return self.shorter(runs[-1])
        assert outcome.cubes is not None
        wrong = [g.cube for g in guesses if g.cube in search.bad]
        if wrong:
            self.notes.append(f"{len(wrong)} of the invariants in the text could not be confirmed and were not used")
        never = [*(states_of(self.compiled, c) for c in outcome.cubes), *impossible(self.compiled)]
        never += [lemma.states for lemma in self.lemmas or ()]
        fault = check_certificate(self.system, never, self.budget)
        if fault is not None:
            raise CutShort(f"the invariant that was found is not accepted by the checker: {fault}")
        return never

    def shorter(self, run: Run) -> Run:
        """A shortest run of any number of processes, as far as that can be said in time."""
        if not self.shortest or not run.steps:
            return run
        tried, limit = set[int](), self.system.processes
        for n in (1, 2, 3):
            if n < self.system.rigid or (limit is not None and n > limit):
                continue
            oracle = Oracle(self.system, n)
            try:
                oracle.explore(self.budget.part(0.1), _STATES, deepest=len(run.steps) - 1)
            except CutShort:
                continue
            if oracle.exact and (oracle.complete or oracle.levels[-1] <= _STATES):
                tried.add(n)
            if oracle.unsafe_at is not None and oracle.unsafe_at < len(run.steps):
                steps, unsafe = oracle.way()
                run = concrete_run(self.system, steps, n, unsafe, self.budget) or run
        length, found = len(run.steps), list[Run]()

        def believed(node: Node) -> bool:
            other = run_of(self.system, node, self.budget) if node.depth < length else None
            if other is not None:
                found.append(other)
            return other is not None

        search = Backward(self.compiled, self.budget.part(0.3), shortest=True, believed=believed)
        search.deepest = length - 1
        ended = True
        try:
            search.run()
        except CutShort:
            ended = bool(search.spurious) and not self.budget.over
        self.visited += search.count
        if found:
            run = found[-1]
        if ended and (found or not search.spurious):
            self.notes.append("no run is shorter, for any number of processes")
        else:
            few = ", ".join(map(str, sorted(tried)))
            known = f"no run of {few} processes is shorter; " if tried else ""
            self.notes.append(f"{known}whether there is a shorter run{' of others' if tried else ''} was not decided")
        return run


def _within(budget: Budget, seconds: float) -> Budget:
    """So many seconds of what is left."""
    left = budget.left()
    if left is None:
        return Budget(seconds, None, budget.progress)
    return budget.part(min(1.0, seconds / left) if left else 1.0, least=0.0)


def _count(run: Run) -> int:
    assert isinstance(run.machine, Instance)
    return run.machine.count


def explain(never: Sequence[States]) -> list[str]:
    """The formulas of a proof, as text.

    >>> explain(decide(read_text("var X : bool init () { X = False } unsafe () { X = True }")).details["never"])
    ['X = True']
    """
    return [formula_text(s.formula) for s in never]
