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
import itertools
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
    """``f(state, event)``: by a condition one of two branches, each the new state and the events that are emitted."""

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
    key: str | None = None  # the type of the key of what it emits
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
    """A step in one push: what it keeps, and what it emits."""
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


# What a formula means: atoms of a push, CTL by fixpoints, LTL with past by a tableau, LTL on streams that end.
# Nothing of Pellucid is imported here.
#
# A formula is nested tuples: ``("atom", …)``, ``("!", f)``, ``("&", f, g)``, ``("AG", f)``, ``("U", f, g)`` …  A part
# of a graph of runs may be unknown (it was not explored to its end): then CTL gives what is certain and what is
# possible, and LTL only violations that are certain.

PAST = {"Y", "O", "H", "S"}
FUTURE = {"X", "F", "G", "U", "W", "R"}
BRANCHING = {"EX", "EF", "EG", "AX", "AF", "AG", "EU", "AU"}
EQUAL = {"=": "=="}


# ---------------------------------------------------------------- atoms


class Undefined(Exception):  # noqa: N818 - not an error
    """The calculation of an atom fails."""


def _term(term: Any, event: dict[int, Any], seen: Seen) -> Any:
    match term:
        case ("lit", value):
            return value
        case ("value", ref, path):
            return _path(event[ref[0]], path)
        case ("first", ref, path):
            return _path(seen.of(ref[0])[0], path)
        case ("last", ref, path):
            return _path(seen.of(ref[0])[-1], path)
        case ("count", ref):
            return len(seen.of(ref[0]))
        case ("neg", a):
            return -_term(a, event, seen)
        case ("calc", op, a, b):
            left, right = _term(a, event, seen), _term(b, event, seen)
            if op == "%":
                if right == 0:
                    raise Undefined
                return left % right
            return {"+": left + right, "-": left - right, "*": left * right}[op]
    raise AssertionError(term)


def _path(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def refs(term: Any) -> list[tuple[str, Any]]:
    """The streams that a term or an atom speaks of, each with how."""
    if term[0] in ("value", "first", "last", "count"):
        return [(term[0], term[1])]
    return [found for part in term if isinstance(part, tuple) for found in refs(part)]


def atom_holds(atom: Any, seen: Seen) -> bool:
    """Of a push."""
    match atom:
        case ("true",):
            return True
        case ("false",):
            return False
        case ("present", ref):
            return bool(seen.of(ref[0]))
        case ("failed", _):
            return seen.failed
        case ("compare", op, a, b):
            return _choices(op, a, b, seen, all)
        case ("any", op, a, b):
            return _choices(op, a, b, seen, any)
    raise AssertionError(atom)


def _choices(op: str, a: Any, b: Any, seen: Seen, how: Callable[..., bool]) -> bool:
    spoken = refs(a) + refs(b)
    if any(kind != "count" and not seen.of(ref[0]) for kind, ref in spoken):
        return False
    streams = sorted({ref[0] for kind, ref in spoken if kind == "value"})

    def holds(choice: tuple[Any, ...]) -> bool:
        event = dict(zip(streams, choice, strict=True))
        try:
            return COMPARE[EQUAL.get(op, op)](_term(a, event, seen), _term(b, event, seen))
        except Undefined:
            return False

    return how(holds(choice) for choice in itertools.product(*(seen.of(s) for s in streams)))


def atoms(f: Any) -> list[Any]:
    """All atoms of a formula, in order, each once."""
    if f[0] == "atom":
        return [f[1]]
    return list(dict.fromkeys(a for g in f[1:] for a in atoms(g)))


def operators(f: Any) -> set[str]:
    """All operators of a formula."""
    return set() if f[0] == "atom" else {f[0]}.union(*(operators(g) for g in f[1:]))


# ---------------------------------------------------------------- as text


def literal(value: Any) -> str:
    """As formulas write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, CLASSES["Color"]):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value)


def text(f: Any) -> str:
    """As it is asked, with brackets everywhere."""
    match f:
        case ("atom", ("present", ref)):
            return str(ref[1])
        case ("atom", ("compare", op, a, b)):
            return f"({_text(a)} {op} {_text(b)})"
        case ("atom", ("any", op, a, b)):
            return f"any({_text(a)} {op} {_text(b)})"
        case ("atom", ("failed", word) | (word,)):
            return str(word)
        case ("EU" | "AU", a, b):
            return f"{f[0][0]} [{text(a)} U {text(b)}]"
        case ("!", a):
            return f"!{text(a)}" if a[0] == "!" or (a[0] == "atom" and a[1][0] != "present") else f"!({text(a)})"
        case (op, a):
            return f"{op} ({text(a)})"
        case (op, a, b):
            return f"({text(a)} {op} {text(b)})"
    raise AssertionError(f)


def _text(term: Any) -> str:
    match term:
        case ("lit", value):
            return literal(value)
        case ("value", ref, path):
            return ".".join((ref[1], "value", *path))
        case ("first" | "last", ref, path):
            return ".".join((ref[1], term[0], *path))
        case ("count", ref):
            return f"{ref[1]}.count"
        case ("neg", a):
            return f"-({_text(a)})"
        case ("calc", op, a, b):
            return f"({_text(a)} {op} {_text(b)})"
    raise AssertionError(term)


# ---------------------------------------------------------------- graphs of runs


@dataclass
class Graph:
    """Pushes and what may follow them; ``labels`` says which atoms hold.  A node that is not ``done`` has successors
    that are not known."""

    labels: list[tuple[bool, ...]]
    next: list[list[int]]
    done: list[bool]
    first: list[int]
    path: list[Any]  # how each node was reached: the node before, and the events

    @property
    def complete(self) -> bool:
        """Whether all runs are known."""
        return all(self.done)

    def way(self, node: int | None) -> list[Any]:
        """The events that lead to a node."""
        found = []
        while node is not None:
            node, events = self.path[node]
            found.append(events)
        return found[::-1]


Sure = tuple[set[int], set[int]]  # where it holds for certain, and where it may


def ctl(f: Any, graph: Graph) -> bool | None:
    """Whether a formula of CTL holds in every first push; None where that is not known."""
    names = atoms(f)
    everywhere = set(range(len(graph.next)))
    before: list[list[int]] = [[] for _ in graph.next]
    for n, following in enumerate(graph.next):
        for m in following:
            before[m].append(n)
    open_ = {n for n in everywhere if not graph.done[n]}

    def inverse(s: Sure) -> Sure:
        return everywhere - s[1], everywhere - s[0]

    def ex(s: set[int]) -> set[int]:
        return {n for m in s for n in before[m]}

    def eu(f: set[int], g: set[int], more: set[int]) -> set[int]:
        found = g | (f & more)
        todo = list(found)
        while todo:
            for n in before[todo.pop()]:
                if n in f and n not in found:
                    found.add(n)
                    todo.append(n)
        return found

    def eg(f: set[int], more: set[int]) -> set[int]:
        found = set(f)
        degree = {n: sum(m in found for m in graph.next[n]) for n in found}
        todo = [n for n in found if not degree[n] and n not in more]
        while todo:
            n = todo.pop()
            if n not in found:
                continue
            found.discard(n)
            for m in before[n]:
                if m in found:
                    degree[m] -= 1
                    if degree[m] == 0 and m not in more:
                        todo.append(m)
        return found

    def value(f: Any) -> Sure:
        match f:
            case ("atom", a):
                at = names.index(a)
                found = {n for n in everywhere if graph.labels[n][at]}
                return found, found
            case ("!", a):
                return inverse(value(a))
            case ("&", a, b):
                x, y = value(a), value(b)
                return x[0] & y[0], x[1] & y[1]
            case ("|", a, b):
                x, y = value(a), value(b)
                return x[0] | y[0], x[1] | y[1]
            case ("->", a, b):
                return value(("|", ("!", a), b))
            case ("<->", a, b):
                return value(("|", ("&", a, b), ("&", ("!", a), ("!", b))))
            case ("EX", a):
                x = value(a)
                return ex(x[0]), ex(x[1]) | open_
            case ("EU", a, b):
                x, y = value(a), value(b)
                return eu(x[0], y[0], set()), eu(x[1], y[1], open_)
            case ("EF", a):
                x = value(a)
                return eu(everywhere, x[0], set()), eu(everywhere, x[1], open_)
            case ("EG", a):
                x = value(a)
                return eg(x[0], set()), eg(x[1], open_)
            case ("AX", a):
                return inverse(value(("EX", ("!", a))))
            case ("AF", a):
                return inverse(value(("EG", ("!", a))))
            case ("AG", a):
                return inverse(value(("EF", ("!", a))))
            case ("AU", a, b):  # not (never b, or not b until neither)
                never = ("EG", ("!", b))
                neither = ("EU", ("!", b), ("&", ("!", a), ("!", b)))
                return inverse(value(("|", never, neither)))
        raise AssertionError(f)

    sure, maybe = value(f)
    if set(graph.first) <= sure:
        return True
    return None if set(graph.first) <= maybe else False


# ---------------------------------------------------------------- LTL


def core(f: Any) -> Any:
    """In terms of atoms, ``! &``, ``X U`` and ``Y S``."""
    true = ("atom", ("true",))

    def no(g: Any) -> Any:
        return g[1] if g[0] == "!" else ("!", g)

    def either(a: Any, b: Any) -> Any:
        return no(("&", no(a), no(b)))

    if f[0] == "atom":
        return f
    parts = [core(g) for g in f[1:]]
    match f[0], parts:
        case "!", [a]:
            return no(a)
        case ("&" | "X" | "U" | "Y" | "S") as op, _:
            return (op, *parts)
        case "|", [a, b]:
            return either(a, b)
        case "->", [a, b]:
            return either(no(a), b)
        case "<->", [a, b]:
            return either(("&", a, b), ("&", no(a), no(b)))
        case "F", [a]:
            return ("U", true, a)
        case "G", [a]:
            return no(("U", true, no(a)))
        case "R", [a, b]:
            return no(("U", no(a), no(b)))
        case "W", [a, b]:
            return no(("U", no(b), ("&", no(a), no(b))))
        case "O", [a]:
            return ("S", true, a)
        case "H", [a]:
            return no(("S", true, no(a)))
    raise AssertionError(f)


class Tableau:
    """The runs that satisfy a formula: promises for the next push, memories of the last one, and what must come at
    last."""

    def __init__(self, f: Any) -> None:
        self.f, self.names = core(f), atoms(f)
        self.promised: list[Any] = []
        self.kept: list[Any] = []
        self._collect(self.f)
        self.choices = list(itertools.product((False, True), repeat=len(self.promised)))
        self.cache: dict[Any, Any] = {}

    def _collect(self, f: Any) -> None:
        if f[0] == "atom":
            return
        for g in f[1:]:
            self._collect(g)
        if f[0] in ("X", "U") and f not in self.promised:
            self.promised.append(f)
        if f[0] in ("Y", "S") and f not in self.kept:
            self.kept.append(f)

    def judge(
        self, label: tuple[bool, ...], promises: tuple[bool, ...], memory: tuple[bool, ...]
    ) -> tuple[bool, tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]:
        """Whether the formula holds here; what the push before must have promised; the memory for the next; which fair
        sets it is in."""
        key = label, promises, memory
        if key not in self.cache:
            known: dict[Any, bool] = {}

            def value(f: Any) -> bool:
                if f not in known:
                    known[f] = now(f)
                return known[f]

            def now(f: Any) -> bool:
                match f:
                    case ("atom", ("true",)):
                        return True
                    case ("atom", a):
                        return label[self.names.index(a)]
                    case ("!", a):
                        return not value(a)
                    case ("&", a, b):
                        return value(a) and value(b)
                    case ("X", _):
                        return promises[self.promised.index(f)]
                    case ("U", a, b):
                        return value(b) or (value(a) and promises[self.promised.index(f)])
                    case ("Y", _):
                        return memory[self.kept.index(f)]
                    case ("S", a, b):
                        return value(b) or (value(a) and memory[self.kept.index(f)])
                raise AssertionError(f)

            said = tuple(value(f[1]) if f[0] == "X" else value(f) for f in self.promised)
            keep = tuple(value(f[1]) if f[0] == "Y" else value(f) for f in self.kept)
            fair = tuple(not value(f) or value(f[2]) for f in self.promised if f[0] == "U")
            self.cache[key] = value(self.f), said, keep, fair
        return self.cache[key]  # type: ignore[no-any-return]


def ltl_violated(f: Any, graph: Graph, limit: int = 20_000) -> tuple[bool, bool, int | None]:
    """Whether a run violates a formula, whether the search was complete, and a node of the graph where such a run's
    loop begins."""
    tableau = Tableau(("!", f))
    index: dict[Any, int] = {}
    follow: list[list[int]] = []
    todo: list[Any] = []
    full = graph.complete

    def node(n: int, promises: tuple[bool, ...], memory: tuple[bool, ...]) -> int:
        key = n, promises, memory
        if key not in index:
            index[key] = len(follow)
            follow.append([])
            todo.append(key)
        return index[key]

    nothing = (False,) * len(tableau.kept)
    for n in graph.first:
        for promises in tableau.choices:
            if tableau.judge(graph.labels[n], promises, nothing)[0]:
                node(n, promises, nothing)
    while todo:
        if len(follow) > limit:
            full = False
            break
        key = todo.pop()
        n, promises, memory = key
        keep = tableau.judge(graph.labels[n], promises, memory)[2]
        mine = follow[index[key]]
        for m in graph.next[n]:
            for choice in tableau.choices:
                if tableau.judge(graph.labels[m], choice, keep)[1] == promises:
                    mine.append(node(m, choice, keep))
    keys = list(index)
    for component in components(follow):
        if len(component) == 1 and component[0] not in follow[component[0]]:
            continue
        met = [False] * sum(g[0] == "U" for g in tableau.promised)
        for c in component:
            n, promises, memory = keys[c]
            for i, ok in enumerate(tableau.judge(graph.labels[n], promises, memory)[3]):
                met[i] = met[i] or ok
        if all(met):
            return True, full, keys[component[0]][0]
    return False, full, None


def components(follow: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components (Tarjan, without recursion)."""
    number: list[int] = [-1] * len(follow)
    low = [0] * len(follow)
    on, stack, found, count = [False] * len(follow), [], [], 0
    for root in range(len(follow)):
        if number[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            n, at = work.pop()
            if at == 0:
                number[n] = low[n] = count
                count += 1
                stack.append(n)
                on[n] = True
            for i in range(at, len(follow[n])):
                m = follow[n][i]
                if number[m] < 0:
                    work += [(n, i + 1), (m, 0)]
                    break
                if on[m]:
                    low[n] = min(low[n], number[m])
            else:
                if low[n] == number[n]:
                    component = []
                    while True:
                        m = stack.pop()
                        on[m] = False
                        component.append(m)
                        if m == n:
                            break
                    found.append(component)
                if work:
                    up = work[-1][0]
                    low[up] = min(low[up], low[n])
    return found


def on_lasso(f: Any, seen: Sequence[Seen], loop: int) -> bool:
    """Whether a formula of LTL holds on the run whose pushes repeat from ``loop`` on."""
    names = atoms(f)
    labels = [tuple(atom_holds(a, s) for a in names) for s in seen]
    last = len(seen) - 1
    graph = Graph(labels, [[i + 1] if i < last else [loop] for i in range(len(seen))], [True] * len(seen), [0], [])
    return not ltl_violated(f, graph)[0]


def on_finite(f: Any, seen: Sequence[Seen]) -> bool:
    """Whether a formula of LTL holds on a run that ends (LTLf): in the last push ``X p`` is false."""
    known: dict[Any, bool] = {}
    end = len(seen)

    def at(f: Any, i: int) -> bool:
        if (f, i) not in known:
            known[f, i] = now(f, i)
        return known[f, i]

    def now(f: Any, i: int) -> bool:
        match f:
            case ("atom", a):
                return atom_holds(a, seen[i])
            case ("!", a):
                return not at(a, i)
            case ("&", a, b):
                return at(a, i) and at(b, i)
            case ("X", a):
                return i + 1 < end and at(a, i + 1)
            case ("U", a, b):
                return at(b, i) or (at(a, i) and i + 1 < end and at(f, i + 1))
            case ("Y", a):
                return i > 0 and at(a, i - 1)
            case ("S", a, b):
                return at(b, i) or (at(a, i) and i > 0 and at(f, i - 1))
        raise AssertionError(f)

    return at(core(f), 0)
