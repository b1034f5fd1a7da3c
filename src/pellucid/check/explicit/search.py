"""Explicit-state search: every reachable state, breadth first, so the first way to a bad one is a shortest.

Real pipelines have few reachable states, whatever their number of state bits, so this beats symbolic engines wherever
the events can be listed.  Opaque functions are called once for each of their arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.check.explicit.program import Program, compile_program, decode
from pellucid.check.system.build import System
from pellucid.check.system.variable import FALSE
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.model.budget import Budget

_NO_RUN = "no run satisfies what is assumed"


@dataclass
class Space:
    """The reachable states: ``successor[s, c]`` after the choice ``c``, with the observations ``seen[s, c]`` (bits).

    ``why`` is empty where the space is complete; else it says what cut it short.  ``found`` is the first (state,
    choice) that showed an observation to stop on.
    """

    system: System
    program: Program
    count: int
    parent: Any
    chosen: Any
    successor: Any
    seen: Any
    packed: Any
    expanded: int
    found: tuple[int, int] | None = None
    why: str = ""
    stands: Any = None  # where something is assumed: for which choice a choice stands, in each state

    @property
    def complete(self) -> bool:
        """Whether every reachable state was seen."""
        return not self.why and self.found is None

    def path(self, state: int) -> list[int]:
        """The choices on a shortest way from the initial state."""
        out: list[int] = []
        while state:
            out.append(int(self.chosen[state]))
            state = int(self.parent[state])
        return out[::-1]

    def pushes(self, choices: Sequence[int]) -> list[dict[str, Any]]:
        """Choices from the initial state on, as events."""
        if self.stands is None:
            return [self.program.pushes[c] for c in choices]
        out, state = [], 0
        for c in choices:
            if state < self.expanded:
                out.append(self.program.pushes[int(self.stands[state, c])])
                state = int(self.successor[state, c])
            else:  # the last push, which ended the search
                out.append(self.program.pushes[c])
        return out

    def holds(self, observation: int) -> Any:
        """Where an observation holds: a Boolean array over states and choices."""
        import numpy as np

        return (self.seen >> np.uint64(observation)) & np.uint64(1) == 1

    def values(self, state: int) -> list[Any]:
        """The values of a state's variables, in their order."""
        import numpy as np

        out = []
        word, shift, bits, _ = _layout(self.program.bits)
        for i, v in enumerate(self.system.state):
            raw = int(self.packed[state, word[i]]) >> int(shift[i])
            raw = raw & ((1 << int(bits[i])) - 1) if bits[i] < 64 else int(np.int64(np.uint64(raw)))
            out.append(decode(v.type, raw, self.program.strings))
        return out


def _layout(bits: list[int]) -> tuple[Any, Any, Any, int]:
    """Word and shift of each variable; none crosses a word."""
    import numpy as np

    word, shift, at, used = [], [], 0, 0
    for b in bits:
        if used + b > 64:
            at, used = at + 1, 0
        word.append(at)
        shift.append(used)
        used += b
    return np.array(word, np.int64), np.array(shift, np.int64), np.array(bits, np.int64), at + 1


def explore(
    system: System, observed: Sequence[Expr], *, stop_on: Sequence[int] = (), budget: Budget | None = None
) -> Space:
    """Search the states of a system; observations with a number in ``stop_on`` end the search where they hold.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import Mod, domain_of
    >>> from pellucid.check.system.build import build_system
    >>> p = pipeline(lambda x: x.decimate(3), x=int)
    >>> explore(build_system(p.graph, domain_of(Mod(2))), []).count
    3
    """
    import numpy as np

    from pellucid.check.explicit import machine

    budget = budget or Budget()
    guarded = system.outside is not FALSE  # nobody took care of it: then a space that goes there is not all there is
    if guarded:
        observed = [*[n.and_(o, n.not_(system.outside)) for o in observed], system.outside]
    if len(observed) > 64:
        raise UsageError(
            f"explicit search looks at no more than {64 - guarded} different atoms at once, and the formula has "
            f"{len(observed) - guarded}: ask its parts one by one"
        )
    program = compile_program(system, observed)
    word, shift, bits, words = _layout(program.bits)
    many = len(program.pushes)
    most = budget.max_states or 20_000_000
    room = max(min(1024, most), 2 * many)
    registers = np.zeros(program.registers, np.int64)
    at = len(system.state) + len(system.inputs)
    registers[at : at + len(program.constants)] = program.constants
    states = np.zeros((room, words), np.uint64)
    machine._pack(program.start, np.arange(len(program.start)), word, shift, bits, states[0])
    parent, chosen = np.zeros(room, np.int64), np.zeros(room, np.int32)
    successor, seen = np.zeros((room, many), np.int32), np.zeros((room, many), np.uint64)
    table = np.zeros(4096, np.int64)
    while table.size < 4 * room:
        table = np.zeros(2 * table.size, np.int64)
    machine.rehash(table, states, 1)
    marks = np.uint64(sum(1 << k for k in stop_on))
    progress = np.array([0, 1, 0, 0], np.int64)
    found, why = None, ""
    while True:
        outcome = machine.search(
            program.code, program.first, registers, len(system.inputs), program.choices, program.next, program.observed,
            word, shift, bits, states, table, parent, chosen, successor, seen, progress, marks, 1 << 16, system.strict,
            program.assumed,
        )  # fmt: skip
        count = int(progress[1])
        if budget.progress is not None:
            budget.progress({"states": count, "waiting": count - int(progress[0])})
        if outcome == machine.FOUND:
            found = (int(progress[0]), int(progress[2]))
        elif outcome == machine.OVERFLOW:
            why = "a value left its range (integers here have 64 bits)"
        elif outcome == machine.MORE_STATES:
            if budget.over:
                why = f"the time of {budget.timeout:g} s was up after {count:,} states"
            elif count >= most:
                why = f"the limit of {most:,} states was reached"
            elif count + many > len(states):
                room = 2 * room + many
                states, parent, chosen = (_more(a, room) for a in (states, parent, chosen))
                successor, seen = _more(successor, room), _more(seen, room)
                table = np.zeros(1 << (4 * room - 1).bit_length(), np.int64)
                machine.rehash(table, states, count)
                continue
            else:
                continue
        break
    done = int(progress[0])
    if guarded and not why and found is None and (seen[:done] >> np.uint64(len(observed) - 1)).any():
        why = "a function got an argument on which it was not called"
    space = Space(
        system,
        program,
        count,
        parent[:count],
        chosen[:count],
        successor[:done],
        seen[:done],
        states[:count],
        done,
        found,
        why,
    )
    return space if system.assume is n.TRUE else _of_runs(space)


def _of_runs(space: Space) -> Space:
    """The space with runs that go on for ever only, where all of it is known; a push that is in no run stands for one
    that is.

    So every state has a successor for each choice, as the fixpoints want it, and `Space.pushes` shows the one that is
    meant.
    """
    import numpy as np

    to, seen = space.successor, space.seen
    alive = np.ones(space.count, bool)
    while space.complete:
        goes_on = ((to >= 0) & alive[to]).any(axis=1)
        if (goes_on == alive).all():
            break
        alive = goes_on
    fits = (to >= 0) & alive[to]
    first, some, rows = fits.argmax(axis=1)[:, None], fits.any(axis=1)[:, None], np.arange(len(to))[:, None]
    stands = np.where(fits, np.arange(to.shape[1]), first).astype(np.int32)
    stands = np.where(some, stands, np.int32(-1))
    # where no run goes on: nothing leads there, so it may stay where it is
    to = np.where(some, to[rows, stands], rows).astype(np.int32)
    seen = np.where(some, seen[rows, stands], np.uint64(0))
    why = space.why or ("" if alive[0] else _NO_RUN)
    return dataclasses.replace(space, successor=to, seen=seen, stands=stands, why=why)


def _more(array: Any, room: int) -> Any:
    import numpy as np

    out = np.zeros((room, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
