"""The explicit engine: every state, one by one."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from pellucid.check.formula import Formula
from pellucid.check.system.build import System
from pellucid.check.system.variables import FALSE
from pellucid.errors import UsageError, known
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import TEXT_OPS, among_ints, has_text, order_of_text
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, simplest
from pellucid.internal.model.search import Budget

# A transition system as a straight-line program: what the explicit search runs.
#
# Every expression is computed, eagerly, into a register: first those that depend on the state alone, then those that
# depend on the input.  A bounded register machine in one precompiled loop runs it, so a new model starts at once
# and needs no compiler.  Values are integers: Booleans 0 and 1, enums by place, texts by code.

OPS = [
    "copy", "add", "sub", "mul", "floordiv", "mod", "neg", "abs", "invert", "band", "bor", "bxor", "shl", "shr",
    "eq", "lt", "le", "and", "or", "not", "ite", "overflows add", "overflows sub", "overflows mul", "overflows neg",
    "overflows abs", "overflows shl", "overflows floordiv",
]  # fmt: skip
_MOST = 3000  # pushes that are tried in each state
_NUMBER = {name: i for i, name in enumerate(OPS)} | {"int_of_bool": 0}


class TooManyPushes(UsageError):  # noqa: N818 - a kind of answer
    """Explicit search cannot try every push: what was asked is well formed, and not decided."""


@dataclass(frozen=True)
class Program:
    """Registers: state, inputs, constants, then results; ``first`` instructions need no input."""

    code: Any  # int64 [instructions, 5]: op, target, a, b, c
    first: int
    constants: Any  # int64: the registers after state and inputs
    registers: int
    next: Any  # int64: where the new state stands
    observed: Any  # int64: where the observations stand
    assumed: int  # where it stands whether the push is one of those that are assumed
    choices: Any  # int64 [choices, inputs]: every possible input
    pushes: list[dict[str, Any]]  # the same as events
    start: Any  # int64: the initial state
    bits: list[int]  # how many bits each state variable takes; 64 where it is not known
    strings: list[str]


def encode(t: Type, value: Any, strings: dict[str, int]) -> int:
    """A leaf as an integer."""
    if isinstance(t, EnumType):
        return t.members.index(value)
    if t == STR:
        return strings.setdefault(value, len(strings))
    return int(value)


def decode(t: Type, value: int, strings: Sequence[str]) -> Any:
    """An integer as a leaf."""
    if isinstance(t, EnumType):
        return t.members[value]
    if t == STR:
        return strings[value]
    return bool(value) if t == BOOL else int(value)


_Choice: TypeAlias = dict[tuple[str, str, int], Any]  # of values, by what the variables are


def choices_of(system: System) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Every possible push, the smallest first: as events, and as values of the system's input variables.

    Each source is silent or brings one of its events.  Of a source whose value does not matter (it was cut away with
    the cone of influence) one event stands for all.
    """
    kept = {(v.of, v.at) for v in system.inputs if v.role == "leaf"}
    pushes: list[tuple[dict[str, Any], _Choice]] = [({}, {})]
    for source, t in system.sources:
        pools = []
        for j, (_, kind) in enumerate(t.leaves()):
            if (source, j) in kept:
                pool = system.domain.leaf(kind)
            else:
                pool = [True] if _is_there(t, j, {at for of, at in kept if of == source}) else [_any(kind, system)]
            if pool is None:
                raise UsageError(
                    f"the events of the source {source!r} ({t}) cannot be listed, so explicit search cannot try them "
                    f"all: {system.domain.listing([t], 'ints=range(0, 4) or ints=Mod(4)')}, or use engine='smt'"
                )
            pools.append(pool)
        if math.prod(map(len, pools)) * len(pushes) > _MOST:
            raise TooManyPushes(
                f"one push has more than {_MOST:,} possible events, too many for explicit search to try: give a "
                "smaller domain, or use engine='smt'"
            )
        here = [("leaf", source, j) for j in range(len(pools))]
        options: list[tuple[dict[str, Any], _Choice]] = []
        silent = dict(zip(here, (_any(kind, system) for _, kind in t.leaves()), strict=True))
        options.append(({}, {**silent, ("present", source, 0): False}))
        for drawn in product(*pools):
            leaves = t.tidy(drawn)  # what is not there has one form, whatever the domain is
            values = dict(zip(here, leaves, strict=True))
            options.append(({source: t.event(list(leaves))}, {**values, ("present", source, 0): True}))
        pushes = [(a | c, b | d) for a, b in pushes for c, d in options]
    for i, v in enumerate(system.inputs):  # choices that no source makes, such as an event that gets lost
        if v.role == "key":
            raise TooManyPushes(
                "explicit search cannot try every key, and here other keys' events matter: give a domain with fewer "
                "keys, or use engine='smt'"
            )
        if v.role not in ("present", "leaf"):
            pool = system.domain.leaf(v.type) if v.size is None else list(range(v.size))
            assert pool is not None
            lost = v.role == "lost"
            key = (v.role, v.of or str(i), v.at)
            pushes = [
                (a | {f"lost.{v.of}": True} if lost and value else a, b | {key: value})
                for a, b in pushes
                for value in pool
            ]
    rows, seen, events_of = [], set(), []
    for events, choice in pushes:
        row = [choice[v.role, v.of or str(i), v.at] for i, v in enumerate(system.inputs)]
        if repr(row) not in seen:
            seen.add(repr(row))
            rows.append(row)
            events_of.append(events)
    return events_of, rows


def _is_there(t: Type, j: int, kept: set[int]) -> bool:
    """Whether a leaf, which was cut away, says that a value is there of which some leaf was not: it is, then, since
    what is not there has no other form than one."""
    guards = t.guards()
    return any(j in guards[i] for i in kept)


def looks_inside_text(system: System, observed: Sequence[Expr] = ()) -> bool:
    """Whether a string is looked into, ordered or made, or a function is called, which the register machine cannot
    do."""
    return has_text(*system.next, *observed, system.assume)


def computes_floats(system: System, observed: Sequence[Expr] = ()) -> bool:
    """Whether a float is computed anywhere, which the register machine cannot do; a constant that ints are compared
    with is none."""
    kinds = {v.type for v in (*system.state, *system.inputs)}
    return FLOAT in kinds or any(e.type == FLOAT for e in walk(*among_ints([*system.next, *observed, system.assume])))


def _any(t: Type, system: System) -> Any:
    """A value that stands for all of them."""
    pool = system.domain.leaf(t)
    return pool[0] if pool else simplest(t)


def compile_program(system: System, observed: Sequence[Expr]) -> Program:
    """The program that computes the next state and these observations."""
    import numpy as np

    strings: dict[str, int] = {}
    states, inputs = len(system.state), len(system.inputs)
    roots = among_ints([*system.next, *observed, system.assume])
    for v in (*system.state, *system.inputs):
        if v.type == FLOAT:
            raise UsageError(f"explicit search takes no floats, but {v.name} is one")
    place: dict[int, int] = {}
    constants: list[int] = []
    early: list[tuple[int, Expr]] = []
    late: list[tuple[int, Expr]] = []
    needs: dict[int, bool] = {}
    parts = list(walk(*roots))
    for e in parts:
        if e.op in TEXT_OPS or order_of_text(e):
            raise UsageError(
                f"explicit search does not look inside text, but a function computes {e}: use engine='smt'"
            )
        if e.op == "var":
            place[id(e)], needs[id(e)] = e.value, e.value >= states
        elif FLOAT in (e.type, *(a.type for a in e.args)):
            raise UsageError(f"explicit search takes no floats, but a function computes {e}")
        elif e.op in ("const", "raise"):
            place[id(e)], needs[id(e)] = states + inputs + len(constants), False
            constants.append(encode(e.type, e.value, strings) if e.op == "const" else 0)
        else:
            needs[id(e)] = any(needs[id(a)] for a in e.args)
            (late if needs[id(e)] else early).append((0, e))
    at = states + inputs + len(constants)
    code = []
    for _, e in (*early, *late):
        if e.op == "after":
            place[id(e)] = place[id(e.args[-1])]
            continue
        name, operands = (f"overflows {e.args[0].op}", e.args[0].args) if e.op == "overflows" else (e.op, e.args)
        args = [place[id(a)] for a in operands]
        code.append([known(_NUMBER, name, "explicit search", "operation"), at, *args, *[0] * (3 - len(args))])
        place[id(e)] = at
        at += 1
    first = sum(1 for _, e in early if e.op != "after")
    pushes, values = choices_of(system)
    rows = [[encode(v.type, x, strings) for v, x in zip(system.inputs, row, strict=True)] for row in values]
    bits = []
    for v in system.state:
        if v.type == BOOL:
            bits.append(1)
        elif isinstance(v.type, EnumType):
            bits.append(max(1, (len(v.type.members) - 1).bit_length()))
        elif v.type == INT and v.size is not None:
            bits.append(max(1, (v.size - 1).bit_length()))
        else:
            bits.append(64)
    return Program(
        np.array(code, dtype=np.int64).reshape(-1, 5),
        first,
        np.array(constants, dtype=np.int64),
        at,
        np.array([place[id(e)] for e in roots[:states]], dtype=np.int64),
        np.array([place[id(e)] for e in roots[states:-1]], dtype=np.int64),
        place[id(roots[-1])],
        np.array(rows, dtype=np.int64).reshape(len(rows), inputs),
        pushes,
        np.array([encode(v.type, v.start, strings) for v in system.state], dtype=np.int64),
        bits,
        list(strings),
    )


# Explicit-state search: every reachable state, breadth first, so the first way to a bad one is a shortest.
#
# Real pipelines have few reachable states, whatever their number of state bits, so this beats symbolic engines wherever
# the events can be listed. Opaque functions are called once for each of their arguments.

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

    from pellucid.check import explicit_compiled as machine

    budget = budget or Budget()
    guarded = system.outside is not FALSE  # not excluded by the caller: a space that goes there is incomplete
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


# CTL: where a formula holds, and a way to see that it does not.


class Branching:
    """Evaluates CTL on an explored space; a set of points is a Boolean array over states and choices."""

    def __init__(self, space: Space, number: dict[Any, int]) -> None:
        self.space, self.number = space, number
        self.known: dict[Formula, Any] = {}

    def where(self, f: Formula) -> Any:
        """The points at which the formula holds."""
        if f not in self.known:
            self.known[f] = self._where(f)
        return self.known[f]

    def _where(self, f: Formula) -> Any:
        import numpy as np

        space = self.space
        if f.op == "atom":
            return space.holds(self.number[f])
        if f.op in ("true", "false"):
            return np.full(space.seen.shape, f.op == "true")
        parts = [self.where(a) for a in f.args]
        everywhere = np.ones(space.seen.shape, bool)
        match f.op:
            case "!":
                return ~parts[0]
            case "&":
                return parts[0] & parts[1]
            case "|":
                return parts[0] | parts[1]
            case "->":
                return ~parts[0] | parts[1]
            case "<->":
                return parts[0] == parts[1]
            case "EX":
                return ex(space, parts[0])
            case "AX":
                return ~ex(space, ~parts[0])
            case "EF":
                return eu(space, everywhere, parts[0])
            case "AG":
                return ~eu(space, everywhere, ~parts[0])
            case "EG":
                return eg(space, parts[0])
            case "AF":
                return ~eg(space, ~parts[0])
            case "EU":
                return eu(space, parts[0], parts[1])
        assert f.op == "AU"
        p, q = parts
        return ~(eu(space, ~q, ~p & ~q) | eg(space, ~q))

    def refute(self, f: Formula) -> tuple[list[int], int | None] | None:
        """None if the formula holds at every initial point; else choices that show that it does not, and their loop."""
        import numpy as np

        wrong = np.flatnonzero(~self.where(f)[0])
        if not len(wrong):
            return None
        return self._against(f, 0, int(wrong[0]))

    def _against(self, f: Formula, state: int, choice: int) -> tuple[list[int], int | None]:
        """From a point at which the formula fails, steps that show it as far as one run can."""
        match f.op:
            case "&":
                failing = next(a for a in f.args if not self.where(a)[state, choice])
                return self._against(failing, state, choice)
            case "|" | "->":
                return self._against(f.args[-1], state, choice)
            case "AX":
                state = int(self.space.successor[state, choice])
                after = int((~self.where(f.args[0])[state]).nonzero()[0][0])
                more, loop = self._against(f.args[0], state, after)
                return [choice, *more], None if loop is None else loop + 1
            case "AG":
                way, s, c = self._nearest(state, choice, ~self.where(f.args[0]))
                more, loop = self._against(f.args[0], s, c)
                return [*way, *more], None if loop is None else loop + len(way)
            case "AF":
                return self._stay(state, choice, eg(self.space, ~self.where(f.args[0])))
        return [choice], None

    def _nearest(self, state: int, choice: int, target: Any) -> tuple[list[int], int, int]:
        """The choices before the nearest point of the target, starting at a point; and that point."""
        if target[state, choice]:
            return [], state, choice
        first = int(self.space.successor[state, choice])
        # At the initial state every first choice is possible: take the best of all.
        waiting: deque[tuple[int, list[int]]] = deque([(state, [])] if state == 0 else [(first, [choice])])
        seen = {waiting[0][0]}
        while waiting:
            s, way = waiting.popleft()
            here = target[s].nonzero()[0]
            if len(here):
                return way, s, int(here[0])
            for c in range(target.shape[1]):
                after = int(self.space.successor[s, c])
                if after not in seen:
                    seen.add(after)
                    waiting.append((after, [*way, c]))
        raise AssertionError("the target cannot be reached")

    def _stay(self, state: int, choice: int, inside: Any) -> tuple[list[int], int]:
        """Stay inside a set, from one of its points, until a state repeats."""
        place: dict[int, int] = {}
        choices: list[int] = []
        while state not in place:
            place[state] = len(choices)
            if choices:
                options = [int(c) for c in inside[state].nonzero()[0]]
                back = [c for c in options if int(self.space.successor[state, c]) in place]
                choice = (back or options)[0]
            choices.append(choice)
            state = int(self.space.successor[state, choice])
        return choices, place[state]


# ---------------------------------------------------------------- fixpoints over arrays
# A point of the Kripke structure is a state together with the push that leaves it, since that is where streams are
# seen; it is one cell of a Boolean array over states and choices. After the push ``c`` in the state ``s`` every
# choice is possible in the state ``successor[s, c]``.


def ex(space: Space, p: Any) -> Any:
    """EX p: some next point satisfies p."""
    return p.any(axis=1)[space.successor]


def eu(space: Space, p: Any, q: Any) -> Any:
    """E [p U q]: the least fixpoint of q or (p and EX)."""
    found = q.copy()
    while True:
        more = found | (p & ex(space, found))
        if (more == found).all():
            return found
        found = more


def eg(space: Space, p: Any) -> Any:
    """EG p: the greatest fixpoint of p and EX."""
    found = p.copy()
    while True:
        less = found & ex(space, found)
        if (less == found).all():
            return found
        found = less


# LTL on an explored space: is there a run that an automaton accepts?
#
# The product of the space with a Büchi automaton for the negation of the property has an accepting lasso iff the
# property fails. Points that lie on a fair cycle, or lead to one, are found by the Emerson-Lei fixpoint; then the lasso
# is made short: the way to it, and the loop through an accepting state.


def accepting_lasso(space: Space, automaton: Any, atom_number: dict[Any, int]) -> tuple[list[int], int | None] | None:
    """Choices and the start of the loop of an accepted run, or None.

    Where a beginning is enough, whatever follows, there is no loop.

    ``atom_number`` gives the observation (bit) of each atom of the automaton's guards.
    """
    import numpy as np

    size = automaton.states
    sources, targets, labels = [], [], []
    for q, (positive, negative), q2 in automaton.transitions:
        yes = np.uint64(sum(1 << atom_number[a] for a in positive))
        no = np.uint64(sum(1 << atom_number[a] for a in negative))
        s, c = np.nonzero((space.seen & (yes | no)) == yes)
        sources.append(s * size + q)
        targets.append(space.successor[s, c].astype(np.int64) * size + q2)
        labels.append(c)
    if not sources:
        return None
    src, dst, lab = (np.concatenate(a) for a in (sources, targets, labels))
    nodes = space.count * size
    start = list(automaton.initial)
    reach = _reachable(nodes, src, dst, start)
    keep = reach[src]
    src, dst, lab = src[keep], dst[keep], lab[keep]
    fair = np.zeros(nodes, bool)
    for q in automaton.accepting:
        fair[q::size] = True
    core = _fair_core(nodes, src, dst, reach, fair)
    if not core.any():
        return None
    # An accepting state that can always be kept: what has led there refutes the property by itself.
    sinks = {
        q for q, (yes, no), q2 in automaton.transitions if q == q2 and not yes and not no and q in automaton.accepting
    }
    kept = [v for v in core.nonzero()[0].tolist() if v % size in sinks]
    return _short_lasso(src, dst, lab, start, core, fair, set(kept))


def _reachable(nodes: int, src: Any, dst: Any, start: list[int]) -> Any:
    import numpy as np

    order = np.argsort(src, kind="stable")
    first = np.searchsorted(src[order], np.arange(nodes + 1))
    seen = np.zeros(nodes, bool)
    seen[start] = True
    frontier = np.array(start, np.int64)
    while len(frontier):
        spans = [order[first[v] : first[v + 1]] for v in frontier.tolist()]
        nxt = np.unique(dst[np.concatenate(spans)]) if spans else frontier[:0]
        frontier = nxt[~seen[nxt]]
        seen[frontier] = True
    return seen


def _before(nodes: int, src: Any, dst: Any, target: Any) -> Any:
    import numpy as np

    out = np.zeros(nodes, bool)
    out[src[target[dst]]] = True
    return out


def _fair_core(nodes: int, src: Any, dst: Any, inside: Any, fair: Any) -> Any:
    """Emerson-Lei: the nodes that can for ever come back to a fair one, staying inside."""
    z = inside.copy()
    while True:
        goal = z & fair
        y = z & _before(nodes, src, dst, goal)
        while True:
            more = y | (z & _before(nodes, src, dst, y))
            if (more == y).all():
                break
            y = more
        if (y == z).all():
            return z
        z = y


def _short_lasso(
    src: Any, dst: Any, lab: Any, start: list[int], core: Any, fair: Any, enough: set[int]
) -> tuple[list[int], int | None] | None:
    edges: dict[int, list[tuple[int, int]]] = {}
    for s, d, c in sorted(zip(src.tolist(), dst.tolist(), lab.tolist(), strict=True), key=lambda e: (e[0], e[2], e[1])):
        edges.setdefault(s, []).append((d, c))
    far, back = _bfs(edges, start, None)
    candidates = sorted((far[v], v) for v in far if core[v] and fair[v])
    best: tuple[list[int], int | None] | None = None
    for distance, v in candidates[:200]:
        if best is not None and distance + 1 >= len(best[0]):
            break
        if v in enough and distance:
            return _way(back, v), None
        first = {d: (v, c) for d, c in reversed(edges.get(v, [])) if core[d]}
        loop = [first[v][1]] if v in first else None
        if loop is None:
            steps, parents = _bfs(edges, list(first), core)
            if v not in steps:
                continue
            loop, at = [], v
            while parents[at] is not None:
                at, c = parents[at]  # type: ignore[misc]
                loop.append(c)
            loop.append(first[at][1])
            loop.reverse()
        way = _way(back, v)
        if best is None or len(way) + len(loop) < len(best[0]):
            best = (way + loop, len(way))
    return best


def _way(back: dict[int, tuple[int, int] | None], at: int) -> list[int]:
    way = []
    while (before := back[at]) is not None:
        at, c = before
        way.append(c)
    return way[::-1]


def _bfs(
    edges: dict[int, list[tuple[int, int]]], start: list[int], inside: Any
) -> tuple[dict[int, int], dict[int, tuple[int, int] | None]]:
    distance = dict.fromkeys(start, 0)
    parent: dict[int, tuple[int, int] | None] = dict.fromkeys(start)
    waiting = deque(start)
    while waiting:
        v = waiting.popleft()
        for d, c in edges.get(v, []):
            if d not in distance and (inside is None or inside[d]):
                distance[d] = distance[v] + 1
                parent[d] = (v, c)
                waiting.append(d)
    return distance, parent
