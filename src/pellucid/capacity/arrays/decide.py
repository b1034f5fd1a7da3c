"""Is a system safe, for any number of processes?  The parts, in the order in which they are tried.

1. A few processes are run forwards (`oracle`).  An unsafe state that they reach gives a run.
2. The search backwards guesses from what they reached (`backward`); what it ends with is an invariant.
3. Without guesses, if they led nowhere.
4. Where only runs are found in which a process has stopped, once more, with lemmas about all processes (`lemmas`).

The answer is *proved* when the independent checker (`certificate`) accepts the invariant, *refuted* when the literal
interpreter has made the run; anything else is *unknown*, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.capacity.arrays import system as y
from pellucid.capacity.arrays.backward import Backward, Node
from pellucid.capacity.arrays.certificate import Encoding, check_certificate, ordered
from pellucid.capacity.arrays.formulas import Compiled, conjuncts, impossible, renamed, states_of
from pellucid.capacity.arrays.forward import Guesses, Oracle, countable
from pellucid.capacity.arrays.system import Datum, Formula, Instance, Not, State, States, Step, System
from pellucid.capacity.arrays.text import formula_text, read_text
from pellucid.errors import DataError
from pellucid.internal.model.counterexample import Run
from pellucid.internal.model.search import Budget, CutShort, now, on_time, patiently
from pellucid.internal.model.verdict import Verdict

# Lemmas that some process is so: statements that no cube can make, found where a guard speaks of all processes.
#
# Backwards, a guard about *all other* processes is forgotten for those that are not named, as if they had stopped.  So
# a run may be found in which the owner of a line has stopped, and another one is given the line as if none had it.
# What forbids that is a statement such as *whenever the line is granted, some process is in the set of sharers*: the
# states in which it is granted and **every process** is outside that set are never reached.  Candidates are made from
# the guards (all are so) and from the values of variables; those that a few processes never reached and that the
# checker of certificates accepts by themselves are used from then on: wherever the guard says that all are so, the
# variables do not have these values.  As with any proof, the checker has the last word.

_WHO = "y1"
_MOST, _TRIED = 3, 60  # lemmas that are used, and candidates that are looked at


class Lemma(NamedTuple):
    """States that are never reached: all processes are so, and variables have these values; and the transitions whose
    guard says that all are so."""

    states: y.States
    values: y.Formula
    transitions: tuple[int, ...]


def of_everybody(compiled: Compiled, t: int) -> list[y.Formula]:
    """What the guard of a transition says of all processes, its own and all others: formulas about ``y1``.

    >>> from pellucid.capacity.arrays import read_text
    >>> s = read_text("array X[proc] : bool init (z) { X[z] = False } unsafe (x y) { X[x] = True && X[y] = True }"
    ...               "transition go (x) requires { X[x] = False && forall_other y. X[y] = False } { X[x] := True }"
    ...               "transition stay (x) requires { forall_other y. X[y] = False } { X[x] := True }")
    >>> compiled = Compiled(s)
    >>> [[len(of_everybody(compiled, t))] for t in (0, 1)]
    [[1], [0]]
    """
    transition = compiled.system.transitions[t]
    own = tuple(range(compiled.layout.rigid + 1, compiled.layout.rigid + len(transition.parameters) + 1))
    guard = compiled.guard(t, own, compiled.layout.rigid + len(own))
    if guard is None:
        return []
    (simple,), out = guard[0], list[y.Formula]()
    for part in conjuncts(transition.requires):
        if not isinstance(part, y.Quantified) or part.kind != "forall" or len(part.names) != 1:
            continue
        for inner in conjuncts(part.part):
            said = renamed(inner, {part.names[0]: _WHO})
            if any(isinstance(p, y.Quantified) for p in y.inside(inner)) or not _about(said, {_WHO}):
                continue
            if not part.other or all(
                any(compiled.layout.covers(cube, simple) for cube in compiled.cubes(said, {_WHO: p}, len(own)))
                for p in own
            ):
                out.append(said)
    return out


def _about(formula: y.Formula, names: set[str]) -> bool:
    """Whether a formula speaks of these processes only, and of one of them at all."""
    found = {
        name
        for part in y.inside(formula)
        if isinstance(part, y.Compare)
        for term in (part.left, part.right)
        for name in y.processes_of(term)
    }
    return bool(found) and found <= names


def _values(compiled: Compiled, size: int) -> Iterator[tuple[y.Compare, ...]]:
    """What so many variables may be."""
    system = compiled.system
    changed = {u.name for t in system.transitions for u in t.updates}
    each = [
        [y.Compare("=", y.Cell(name), y.Value(value)) for value in compiled.layout.values[name]]
        for name, of in system.variables
        if name in changed and system.values(of)
    ]
    for chosen in combinations(each, size):
        yield from product(*chosen)


def candidates(compiled: Compiled, oracles: Sequence[Oracle], budget: Budget) -> Iterator[Lemma]:
    """What a few processes never reached, as long as there is time: about one variable, then about two."""
    said: dict[y.Formula, list[int]] = {}
    for t in range(len(compiled.system.transitions)):
        for formula in of_everybody(compiled, t):
            said.setdefault(formula, []).append(t)
    known: dict[y.Formula, list[frozenset[y.Compare]]] = {formula: [] for formula in said}
    for size in (1, 2):
        for formula, transitions in said.items():
            for values in _values(compiled, size):
                if budget.over:
                    return
                if any(less <= set(values) for less in known[formula]):
                    continue
                useful = tuple(t for t in transitions if _possible(compiled, t, values))
                states = y.States((), y.And((*values, y.Quantified("forall", False, (_WHO,), formula))))
                if useful and not any(oracle.reached(states) for oracle in oracles):
                    known[formula].append(frozenset(values))
                    yield Lemma(states, y.And(values) if size > 1 else values[0], useful)


def _possible(compiled: Compiled, t: int, values: Sequence[y.Compare]) -> bool:
    """Whether a guard leaves it open that variables have these values."""
    own = tuple(range(compiled.layout.rigid + 1, compiled.layout.rigid + compiled.parameters[t] + 1))
    guard = compiled.guard(t, own, compiled.layout.rigid + len(own))
    if guard is None:
        return False
    cubes = compiled.layout.product([guard[0][0]], compiled.cubes(y.And(tuple(values)), {}, 0))
    return bool(cubes)


def lemmas(compiled: Compiled, oracles: Sequence[Oracle], budget: Budget) -> list[Lemma]:
    """Those that are never reached, by the checker of certificates: each with those before it."""
    safe = replace(compiled.system, unsafe=())
    known, out = impossible(compiled), list[Lemma]()
    for lemma in islice(candidates(compiled, oracles, budget), _TRIED):
        try:
            fault = check_certificate(safe, [*known, lemma.states], budget)
        except CutShort:  # not known: then it is not used
            continue
        if fault is None:
            out.append(lemma)
            known.append(lemma.states)
            if len(out) == _MOST:
                break
    return out


# From the steps of a run to the run itself: values for everything that the steps leave open, and its replay.
#
# A search knows which transitions lead to an unsafe state, and for which processes.  z3 finds values to start with, and
# those that are chosen on the way, for exactly so many processes; then the literal interpreter (`interpreter`) makes
# every step, guards about all other processes included.  What it refuses is no run.

Choice = tuple[int, tuple[int, ...]]  # a transition and its processes


def steps_of(node: Node) -> tuple[list[Choice], int]:
    """The steps from a node to its root, for processes that keep their names all the way, and how many there are."""
    now = {i: i for i in range(1, node.cube.width + 1)}
    steps, most = list[Choice](), node.cube.width
    while node.parent is not None:
        assert node.step is not None
        t, chosen = node.step
        here = set(range(1, node.parent.cube.width + 1)) | set(chosen)
        names = {p: now[node.names[p]] for p in here if p in node.names}
        free = (p for p in range(1, 1000) if p not in names.values())
        for p in sorted(here - names.keys()):
            names[p] = next(free)
            free = (q for q in range(1, 1000) if q not in names.values())
        most = max(most, *names.values()) if names else most
        steps.append((t, tuple(names[p] for p in chosen)))
        now = {p: names[p] for p in range(1, node.parent.cube.width + 1)}
        node = node.parent
    return steps, most


def concrete_run(
    system: System, steps: Sequence[Choice], count: int, unsafe: int, budget: Budget, *, free: bool = False
) -> Run | None:
    """A run of these steps that ends in these unsafe states, with exactly so many processes, replayed; None if there is
    none.  With ``free`` the processes of each step are any."""
    for first in (1, 0) if ordered(system) and not system.rigid else (1,):
        run = _run(system, [(t, tuple(p - 1 + first for p in c)) for t, c in steps], count, unsafe, budget, free, first)
        if run is not None:
            return run
    return None


def _run(
    system: System, steps: Sequence[Choice], count: int, unsafe: int, budget: Budget, free: bool, first: int
) -> Run | None:
    e = Encoding(system, count, first)
    z3 = e.z3
    begin, facts = e.frame("start")
    facts.append(e.initial(begin))
    frame, selected = begin, list[Any]()
    for i, (t, chosen) in enumerate(steps):
        transition = system.transitions[t]
        ways = list(permutations(e.processes, len(chosen))) if free else [chosen]
        which = z3.Int(f"which.{i}")
        facts += [which >= 0, which < len(ways)]
        made, values = None, dict[str, Any]()
        for w, way in enumerate(ways):
            after, more, values = e.after(transition, way, frame, f"step{i}")
            facts += more
            facts.append(z3.Implies(which == w, e.guard(transition, way, frame)))
            same = made is None
            made = after if same or made is None else {p: z3.If(which == w, a, made[p]) for p, a in after.items()}
        assert made is not None
        selected.append((which, ways, values))
        frame = {}
        for place, term in made.items():  # a name for each value: terms stay small
            name = z3.Const(f"at{i}.{'.'.join(map(str, place))}", e.sort(system.type_of(place[0])))
            facts.append(name == term)
            frame[place] = name
    facts.append(e.met(system.unsafe[unsafe], frame))
    left = budget.left()

    def solve(seconds: float) -> Any:
        solver = z3.Solver()
        solver.set("timeout", max(1, int(seconds * 1000)))
        solver.add(*facts)
        answer = solver.check()
        return (solver.model() if answer == z3.sat else False) if answer != z3.unknown else None

    model = patiently(min(20.0, 20.0 if left is None else left), solve)
    if not model:
        return None

    def value(term: Any, of: str) -> Datum:
        v = model.eval(term, model_completion=True)
        if of == "bool":
            return "True" if z3.is_true(v) else "False"
        if of == "proc":
            return int(v.as_long())
        names = system.values(of)
        return (
            names[v.as_long()]
            if names
            else Fraction(v.numerator_as_long(), v.denominator_as_long())
            if of == "real"
            else Fraction(v.as_long())
        )

    instance = Instance(system, count, first=first)
    start: State = tuple(value(begin[p], system.type_of(p[0])) for p in instance.places)
    taken = []
    for (t, _), (which, ways, values) in zip(steps, selected, strict=True):
        chosen = ways[model.eval(which, model_completion=True).as_long()]
        known = tuple((name, value(term, system.type_of(name))) for name, term in values.items())
        taken.append(Step(system.labels[t], chosen, known))
    return replayed(system, count, start, taken, unsafe, first)


def replayed(
    system: System, count: int, start: State, steps: Sequence[Step], unsafe: int, first: int = 1
) -> Run | None:
    """The run, if the interpreter makes every step of it and its last state is unsafe."""
    called = dict(zip(system.labels, system.transitions, strict=True))
    numbers = sorted({v for s in steps for _, v in s.chosen if isinstance(v, Fraction)}) or [Fraction(0)]
    instance = Instance(system, count, start, tuple(numbers), first)
    if not instance.initial(start):
        return None
    state = start
    for step in steps:
        t = called[step.transition]
        if not instance.enabled(t, step.processes, state):
            return None
        state = instance.after(t, step.processes, state, dict(step.chosen))
    who = instance.met(system.unsafe[unsafe], state)
    if who is None:
        return None
    names = ", ".join(f"{n} = #{p}" for n, p in zip(system.unsafe[unsafe].names, who, strict=True))
    line = system.unsafe[unsafe].line
    why = f"unsafe{f' (line {line})' if line else ''}{f': {names}' if names else ''}"
    return Run((), tuple(steps), None, why, instance)


def run_of(system: System, node: Node, budget: Budget) -> Run | None:
    """The run that a node of a search backwards stands for: with as few processes as it names, or one or two more."""
    steps, count = steps_of(node)
    unsafe = node.origin.unsafe
    assert unsafe is not None
    count = max(count, 1, len(system.unsafe[unsafe].names), *(len(c) for _, c in steps), system.rigid)
    if system.processes is not None:
        count = min(count, system.processes)
    for free in (False, True):
        for more in (0, 1):
            if system.processes is not None and count + more > system.processes:
                continue
            found = concrete_run(system, steps, count + more, unsafe, budget, free=free)
            if found is not None:
                return found
    return None


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
    was established is in the notes.

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
    stopped: bool = False  # a run was found in which a process has stopped, which is none
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
                if self.stopped and self.lemmas is None and self.find_lemmas(counts[0]):
                    ways, seconds = list(every), 0.3 / 4
                    break
                if not part.over and way in ways:
                    ways.remove(way)  # it ended, with nothing
                self.budget.look(self.visited, len(ways))
            seconds *= 4
        raise CutShort(
            "a run was found only with processes that stop while others go on, which guards about all others forbid"
        )

    def find_lemmas(self, n: int) -> bool:
        """Whether there are lemmas that the search can make use of."""
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
