"""What a pipeline means, push by push, told from ``docs/explanation/meaning.md`` alone: nothing of Pellucid is imported
here.

A pipeline is a `Spec`: sources, steps in order, outputs.  A function is an expression (nested tuples), which is
evaluated here and written out as Python elsewhere.  A state is one hashable value, so that runs can be explored;
``FAILED`` is the state after a failure, in which all is silent.

Integers have 64 bits: each operation of a function that can be traced must fit; of one that cannot, only the result.
With ``mod`` all is modulo N.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

LOW, HIGH = -(2**63), 2**63 - 1
FAILED = "failed"


class Color(enum.Enum):
    """A type of events."""

    RED = 1
    GREEN = 2


@dataclass(frozen=True)
class Pair:
    """A type of events."""

    a: int
    b: bool


@dataclass(frozen=True)
class Odd:
    """A type of events whose fields have the names of other things."""

    present: int
    value: int


CLASSES: dict[str, Any] = {
    "int": int,
    "bool": bool,
    "float": float,
    "str": str,
    "Color": Color,
    "Pair": Pair,
    "Odd": Odd,
}
FIELDS: dict[str, dict[str, str]] = {"Pair": {"a": "int", "b": "bool"}, "Odd": {"present": "int", "value": "int"}}


class Fails(Exception):  # noqa: N818 - what a push does
    """A function raises."""


class Leaves(Fails):
    """An integer leaves 64 bits."""


@dataclass(frozen=True)
class Fn:
    """A function: guards that must hold, then an expression; ``style`` says how it is written: ``""``, or why it cannot
    be traced."""

    args: tuple[str, ...]
    result: str
    body: Any
    guards: tuple[Any, ...] = ()
    style: str = ""  # "" traced; "text", "table": not traced; "counter", "random": not even pure

    @property
    def pure(self) -> bool:
        """Whether it means anything."""
        return self.style not in ("counter", "random")


@dataclass(frozen=True)
class Task:
    """``f(state, event)``: by a condition one of two branches, each the new state and the events that are put out."""

    event: str
    result: str
    condition: Any
    yes: tuple[Any, tuple[Any, ...]]
    no: tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class Step:
    """A processor; its inputs are numbers of streams: the sources first, then the steps."""

    kind: str
    inputs: tuple[int, ...]
    type: str
    key: str | None = None  # the type of the key of what it puts out
    id: str | None = None
    fn: Fn | None = None
    task: Task | None = None
    k: int = 0
    start: Any = None
    sub: Spec | None = None


@dataclass(frozen=True)
class Spec:
    """A pipeline: ``outputs`` are names and streams; a single one is called ``out``."""

    sources: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, int], ...]

    def type_of(self, stream: int) -> str:
        """Of its events."""
        n = len(self.sources)
        return self.sources[stream][1] if stream < n else self.steps[stream - n].type

    def key_of(self, stream: int) -> str | None:
        """The type of its key, if it has one."""
        n = len(self.sources)
        return None if stream < n else self.steps[stream - n].key

    def walk(self) -> list[Step]:
        """All steps, those of pipelines within included."""
        return [s for step in self.steps for s in (step, *(step.sub.walk() if step.sub else ()))]

    @property
    def pure(self) -> bool:
        """Whether all its functions mean something."""
        return all(step.fn is None or step.fn.pure for step in self.walk())


# ---------------------------------------------------------------- functions

Fit = Callable[[int], int]


def checked(value: int) -> int:
    """Of 64 bits."""
    if not LOW <= value <= HIGH:
        raise Leaves
    return value


def plain(value: int) -> int:
    """Of Python."""
    return value


def modulo(n: int) -> Fit:
    """Of the paper."""
    return lambda value: value % n


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(e: Any, args: Sequence[Any], fit: Fit) -> Any:
    """The value of an expression; `Fails` where Python raises, `Leaves` where an integer does not fit."""

    def value(x: Any) -> Any:
        return fit(x) if isinstance(x, int) and not isinstance(x, bool) else x

    match e:
        case ("arg", i):
            return args[i]
        case ("const", c):
            return value(c)
        case ("if", c, a, b):
            return evaluate(a if evaluate(c, args, fit) else b, args, fit)
        case ("and", a, b):
            return evaluate(a, args, fit) and evaluate(b, args, fit)
        case ("or", a, b):
            return evaluate(a, args, fit) or evaluate(b, args, fit)
        case ("not", a):
            return not evaluate(a, args, fit)
        case ("neg", a):
            return value(-evaluate(a, args, fit))
        case ("abs", a):
            return value(abs(evaluate(a, args, fit)))
        case ("len", a):
            return value(len(evaluate(a, args, fit)))
        case ("field", a, name):
            return getattr(evaluate(a, args, fit), name)
        case ("record", name, parts):
            return CLASSES[name](*(evaluate(part, args, fit) for part in parts))
        case ("table", rows, default, a):
            found = dict(rows).get(evaluate(a, args, fit), default)
            if found is None:
                raise Fails
            return value(found)
        case ("need", c, a):
            holds, result = evaluate(c, args, fit), evaluate(a, args, fit)
            if not holds:
                raise Fails
            return result
        case ("compare", op, a, b):
            return COMPARE[op](evaluate(a, args, fit), evaluate(b, args, fit))
        case (op, a, b):
            left, right = evaluate(a, args, fit), evaluate(b, args, fit)
            try:
                return value(BINARY[op](left, right))
            except (ArithmeticError, ValueError) as error:
                raise Fails from error
    raise AssertionError(e)


def _fits(value: Any, fit: Fit) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return fit(value)
    if is_dataclass(value):
        for part in fields(value):
            _fits(getattr(value, part.name), fit)
    return value


def call(fn: Fn, args: Sequence[Any], fit: Fit) -> Any:
    """What a function answers."""
    inner = plain if fn.style and fit is checked else fit
    for guard in fn.guards:
        if not evaluate(guard, args, inner):
            raise Fails
    return _fits(evaluate(fn.body, args, inner), fit)


# ---------------------------------------------------------------- processors

Events = list[tuple[Any, Any]]  # keys and values


def begin(spec: Spec) -> tuple[Any, ...]:
    """The state before the first push."""
    return tuple(begin(step.sub) if step.kind == "call" and step.sub else () for step in spec.steps)


def _frozen(state: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(state.items()) if len(state) < 2 else tuple(sorted(state.items(), key=repr))


def _one(step: Step, held: Any, ins: list[Events], fit: Fit) -> tuple[Any, Events]:
    """A step in one push: what it keeps, and what it puts out."""
    out: Events = []
    if step.kind == "call":
        assert step.sub is not None
        held, streams = _steps(step.sub, held, ins, fit)
        return held, streams[step.sub.outputs[0][1]]
    if step.kind == "merge":
        return held, [event for events in ins for event in events]
    if step.kind in ("map", "key_by", "filter"):
        assert step.fn is not None
        for key, value in ins[0]:
            result = call(step.fn, (value,), fit)
            if step.kind == "map":
                out.append((key, result))
            elif step.kind == "key_by":
                out.append((result, value))
            elif result:
                out.append((key, value))
        return held, out
    state = dict(held)
    if step.kind in ("apply", "filter_by"):
        for place, events in enumerate(ins):
            for key, value in events:
                queues = list(state.get(key, ((),) * len(ins)))
                queues[place] = (*queues[place], value)
                if all(queues):
                    first = tuple(queue[0] for queue in queues)
                    queues = [queue[1:] for queue in queues]
                    if step.kind == "apply":
                        assert step.fn is not None
                        out.append((key, call(step.fn, first, fit)))
                    elif first[1]:
                        out.append((key, first[0]))
                state[key] = tuple(queues)
        return _frozen({key: queues for key, queues in state.items() if any(queues)}), out
    for key, value in ins[0]:
        now = state.get(key)
        if step.kind == "cumulate":
            assert step.fn is not None
            now = call(step.fn, (_fits(step.start, fit) if now is None else now, value), fit)
            out.append((key, now))
        elif step.kind == "decimate":
            if not now:
                out.append((key, value))
            now = ((now or 0) + 1) % step.k
        elif step.kind == "trim":
            if (now or 0) >= step.k:
                out.append((key, value))
            now = min((now or 0) + 1, step.k)
        elif step.kind == "lag":  # a pair, and a function of the two
            assert step.fn is not None
            last = (*(now or ()), value)
            if len(last) > step.k:
                out.append((key, call(step.fn, (value, last[0]), fit)))
            now = last[-step.k :]
        elif step.kind == "window":
            assert step.sub is not None
            last = (*(now or ()), value)
            if len(last) == step.k:
                inside, said = begin(step.sub), None
                for event in last:
                    inside, streams = _steps(step.sub, inside, [[(None, event)]], fit)
                    for _, told in streams[step.sub.outputs[0][1]]:
                        said = (told,)
                if said:
                    out.append((key, said[0]))
                last = last[1:]
            now = last
        elif step.kind == "task":
            assert step.task is not None
            before = _fits(step.start, fit) if now is None else now
            after, said = step.task.yes if evaluate(step.task.condition, (before, value), fit) else step.task.no
            now = _fits(evaluate(after, (before, value), fit), fit)
            out.extend((key, evaluate(e, (before, value), fit)) for e in said)
        else:
            raise AssertionError(step.kind)
        state[key] = now
    return _frozen(state), out


def _steps(spec: Spec, state: Any, sources: list[Events], fit: Fit) -> tuple[Any, list[Events]]:
    streams, kept = list(sources), []
    for step, held in zip(spec.steps, state, strict=True):
        held, out = _one(step, held, [streams[i] for i in step.inputs], fit)
        kept.append(held)
        streams.append(out)
    return tuple(kept), streams


@dataclass(frozen=True)
class Seen:
    """What can be seen of a push: the events of each stream, whether the pipeline has failed, and whether by leaving 64
    bits."""

    streams: tuple[tuple[Any, ...], ...]
    failed: bool = False
    left: bool = False

    def of(self, stream: int) -> tuple[Any, ...]:
        """The events of a stream."""
        return self.streams[stream]


def push(spec: Spec, state: Any, events: Mapping[str, Any], fit: Fit = checked) -> tuple[Any, Seen]:
    """One push: ``events`` by the names of sources, one that is left out is silent."""
    nothing = ((),) * (len(spec.sources) + len(spec.steps))
    if state == FAILED:
        return FAILED, Seen(nothing, failed=True)
    try:
        state, streams = _steps(
            spec, state, [[(None, events[name])] if name in events else [] for name, _ in spec.sources], fit
        )
    except Fails as error:
        return FAILED, Seen(nothing, failed=True, left=isinstance(error, Leaves))
    return state, Seen(tuple(tuple(value for _, value in events) for events in streams))


def queues(spec: Spec, state: Any) -> dict[str, int]:
    """The lengths of queues, by the id of the step and the number of the input (the longest of all keys); steps without
    an id are left out."""
    found: dict[str, int] = {}
    if state == FAILED:
        return found
    for step, held in zip(spec.steps, state, strict=True):
        if step.kind in ("apply", "filter_by") and step.id is not None:
            for place in range(len(step.inputs)):
                found[f"{step.id}.{place}"] = max((len(waiting[place]) for _, waiting in held), default=0)
    return found


def longest(spec: Spec, state: Any) -> int:
    """The length of the longest queue of all, those of pipelines that are called included."""
    if state == FAILED:
        return 0
    found = 0
    for step, held in zip(spec.steps, state, strict=True):
        if step.kind in ("apply", "filter_by"):
            found = max([found, *(len(queue) for _, waiting in held for queue in waiting)])
        elif step.kind == "call" and step.sub:
            found = max(found, longest(step.sub, held))
    return found


def run(spec: Spec, pushes: Sequence[Mapping[str, Any]], fit: Fit = checked) -> list[Seen]:
    """All that is seen of a run that ends."""
    state, seen = begin(spec), []
    for events in pushes:
        state, now = push(spec, state, events, fit)
        seen.append(now)
    return seen
