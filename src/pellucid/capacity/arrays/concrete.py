"""From the steps of a run to the run itself: values for everything that the steps leave open, and its replay.

A search knows which transitions lead to an unsafe state, and for which processes.  z3 finds values to start with, and
those that are chosen on the way, for exactly so many processes; then the literal interpreter (`interpreter`) makes
every step, guards about all other processes included.  What it refuses is no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

from pellucid.capacity.arrays.language.interpreter import Datum, Instance, State, Step
from pellucid.capacity.arrays.language.system import System
from pellucid.capacity.arrays.search.backward import Node
from pellucid.capacity.arrays.smt import Encoding, ordered
from pellucid.internal.model.budget import Budget, patiently
from pellucid.internal.model.counterexample import Run

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
