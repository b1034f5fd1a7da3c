"""A transition system as a straight-line program: what the explicit search runs.

Every expression is computed, eagerly, into a register: first those that depend on the state alone, then those that
depend on the input.  A bounded register machine in one precompiled loop runs it, so a new model starts at once
and needs no compiler.  Values are integers: Booleans 0 and 1, enums by place, texts by code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from pellucid.check.system.build import System
from pellucid.errors import UsageError, known
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import among_ints
from pellucid.internal.expr.text import TEXT_OPS, has_text, order_of_text
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type, simplest

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
