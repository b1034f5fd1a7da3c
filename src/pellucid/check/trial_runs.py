"""Expressions as one plain Python function: many values at once, quickly, and by no solver.

Every part is computed, eagerly, in the order of the expression; where an operation fails, its value is the simplest one
of its type (a failure shows in ``System.failed``).  Integers are exact.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.variables import Variable
from pellucid.errors import DataError, IntOverflow, StepError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import evaluate as _evaluate
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, Overflow64, walk
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, fits_int, simplest
from pellucid.internal.graph.model import Graph, Node
from pellucid.internal.model.search import now

_MOST = 6000  # parts: beyond, compiling them takes longer than evaluating them
_PLAIN = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}", "abs": "abs({})", "invert": "~{}",
    "eq": "{} == {}", "lt": "{} < {}", "le": "{} <= {}", "not": "not {}", "and": "{} and {}", "or": "{} or {}",
    "ite": "{1} if {0} else {2}", "int_of_bool": "int({})",
}  # fmt: skip


def straight(roots: Sequence[Expr]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from the variables' values to those of the roots.

    >>> from pellucid.internal.expr import node as n
    >>> from pellucid.internal.expr.types import INT
    >>> with n.values_only():
    ...     half = n.binary("floordiv", n.const(10), n.var(0, INT))
    >>> both = straight([n.add(n.var(0, INT), n.const(2)), half])
    >>> both([4]), both([0])
    ((6, 2), (2, 0))
    """
    parts = list(walk(*roots))
    known = set(_evaluate._OPS) | set(_PLAIN) | {"var", "const", "raise", "after", "overflows", "call", "call_fails"}
    if len(parts) > _MOST or any(e.op not in known for e in parts):
        return lambda leaves: _one_by_one(roots, leaves)
    space: dict[str, Any] = {}
    lines, name = ["def compute(leaves):"], dict[int, str]()
    for i, e in enumerate(parts):
        me, args = f"v{i}", [name[id(a)] for a in e.args]
        name[id(e)] = me
        if e.op == "var":
            lines.append(f" {me} = leaves[{e.value}]")
        elif e.op in ("const", "raise"):
            space[me] = e.value if e.op == "const" else simplest(e.type)
        elif e.op == "after":
            name[id(e)] = args[-1]
        elif e.op == "overflows":
            space[f"f{i}"] = _overflows(e.args[0].op)
            lines.append(f" {me} = f{i}({', '.join(name[id(a)] for a in e.args[0].args)})")
        elif e.op in ("call", "call_fails"):
            space[f"f{i}"] = e.value.answer  # what it really answers
            lines.append(f" {me} = f{i}({', '.join(args)})[{int(e.op == 'call')}]")
        elif e.op in _PLAIN:
            lines.append(f" {me} = {_PLAIN[e.op].format(*args)}")
        else:
            space[f"f{i}"] = _total(_evaluate._OPS[e.op], simplest(e.type))
            lines.append(f" {me} = f{i}({', '.join(args)})")
    lines.append(f" return ({''.join(name[id(r)] + ', ' for r in roots)})")
    exec("\n".join(lines), space)  # only names made here, and values that are looked up by them
    made: Callable[[Sequence[Any]], tuple[Any, ...]] = space["compute"]
    return made


def _one_by_one(roots: Sequence[Expr], leaves: Sequence[Any]) -> tuple[Any, ...]:
    memo: dict[int, Any] = {}
    out = []
    for e in roots:
        try:
            out.append(evaluate(e, leaves, memo))
        except Overflow64:
            raise
        except (ArithmeticError, ValueError, UserRaise):
            out.append(simplest(e.type))
    return tuple(out)


def _total(op: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return op(*args)
        except (ArithmeticError, ValueError, UserRaise):
            return otherwise

    return call


def _overflows(op: str) -> Callable[..., bool]:
    return lambda *args: _evaluate._overflows(op, list(args))


# Random pushes for a system, always the same ones: what a certificate is tried on.
#
# Events are drawn near the pipeline's own constants and the edges of their types, because that is where a wrong
# operation shows; silence, lost events and events that repeat are drawn as well. Runs are short and long in turn: a
# wrong step shows soon, a full window late.

_FIRST = 64  # of the events of a domain, the smallest
_EDGES = (0, 1, -1, 2**31, -(2**31), 2**32, 2**62, -(2**62), INT_MAX, INT_MIN)
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 1e300, -1e300, 5e-324, math.inf, -math.inf, 100.0)


class DrawnPushes:
    """Draws pushes for a system: events by source, and the values of the system's input variables.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x > 80, x=int).graph, domain_of({79, 80, 81}))
    >>> pushes = DrawnPushes(s)
    >>> length = pushes.begin()
    >>> push, leaves = pushes.draw()
    >>> leaves == [True, push["x"]] if push else leaves[0] is False
    True
    """

    def __init__(self, system: System, exprs: Sequence[Expr] = (), seed: int = 0) -> None:
        self.system, self.rng = system, random.Random(seed)
        constants: dict[Type, list[Any]] = {INT: [], FLOAT: [], STR: []}
        for e in walk(*system.next, *exprs, *(s.present for _, many in system.streams.values() for s in many)):
            if e.op == "const" and e.type in constants and e.value not in constants[e.type]:
                constants[e.type].append(e.value)
        near = sorted({c + d for c in constants[INT] for d in (-1, 0, 1) if fits_int(c + d)}, key=lambda v: (abs(v), v))
        given = system.domain.values
        among = set(given or ())
        self._near = [v for v in near if given is None or v in among] or list(given or (0,))[:_FIRST]
        self._reals = [
            *_REALS,
            *(
                v
                for c in (*map(float, near), *constants[FLOAT])
                for v in (c, math.nextafter(c, math.inf), math.nextafter(c, -math.inf))
            ),
        ]
        self._reals = [v for v in self._reals if v == v]
        texts = constants[STR]
        self._texts = list(
            dict.fromkeys(
                ["", "a", *texts, *(made for t in texts for made in (t[:-1], t + "x", "x" + t, t.upper())), "é😀"]
            )
        )
        self._sizes = [v.size for v in system.state if v.size is not None]
        self._places = {
            (v.role, v.of or (str(i) if v.role == "choice" else ""), v.at): i for i, v in enumerate(system.inputs)
        }
        self._sources = [
            (name, t, [self._drawer(kind) for _, kind in t.leaves()], [_silent(system, kind) for _, kind in t.leaves()])
            for name, t in system.sources
        ]
        self._often, self._mode, self._pool = 1.0, 0, dict[Any, list[Any]]()

    def begin(self) -> int:
        """A new run, in a mood of its own; how many pushes it has."""
        rng = self.rng
        self._often, self._mode = rng.choice((1.0, 1.0, 0.9, 0.6)), rng.randrange(4)
        self._pool = {}
        long = 2 * max(self._sizes, default=0) + 4
        return rng.choice((3, 6, 6, 12, min(long, 60)))

    def draw(self) -> tuple[dict[str, Any], list[Any]]:
        """One push: events by source (``lost.STEP`` where a step loses its events), and the input variables' values."""
        rng, push = self.rng, dict[str, Any]()
        leaves: list[Any] = [None] * len(self.system.inputs)
        for name, t, drawers, silent in self._sources:
            there = rng.random() < self._often
            values = [self._leaf(draw) for draw in drawers] if there else silent
            if there:  # what is not there has one form, and a text that says no list is none of the system's events
                values = list(t.tidy(values))
            self._put(leaves, ("present", name, 0), there)
            for j, v in enumerate(values):
                self._put(leaves, ("leaf", name, j), v)
            if there:
                push[name] = t.event(values)
        for i, v in enumerate(self.system.inputs):
            if v.role == "lost":
                leaves[i] = rng.random() < 0.2
                if leaves[i]:
                    push[f"lost.{v.of}"] = True
            elif leaves[i] is None:
                leaves[i] = rng.randrange(v.size) if v.size is not None else self._drawer(v.type)()
        return push, leaves

    def runs(self, most: int) -> Iterator[int]:
        """So many runs, each by its length."""
        for _ in range(most):
            yield self.begin()

    def _put(self, leaves: list[Any], what: tuple[str, str, int], value: Any) -> None:
        at = self._places.get(what)
        if at is not None:
            leaves[at] = value

    def _leaf(self, draw: Callable[[], Any]) -> Any:
        if self._mode == 0:  # few different values: so that equal ones meet
            if draw not in self._pool:
                self._pool[draw] = [draw(), draw()]
            return self.rng.choice(self._pool[draw])
        return draw()

    def _drawer(self, t: Type) -> Callable[[], Any]:
        """What draws leaves of this type."""
        rng, given = self.rng, self.system.domain.values
        if t == BOOL or isinstance(t, EnumType):
            members = t.members if isinstance(t, EnumType) else [False, True]
            return lambda: rng.choice(members)
        if t == FLOAT:
            return self._real
        if t != INT:
            return lambda: rng.choice(self._texts) if t == STR else simplest(t)
        return self._whole if given is None else lambda: rng.choice(given if rng.random() < 0.6 else self._near)

    def _real(self) -> float:
        rng, which = self.rng, self.rng.randrange(4)
        return (
            rng.choice(self._reals)
            if which < 2
            else float(rng.randint(-20, 20))
            if which == 2
            else rng.uniform(-100, 100)
        )

    def _whole(self) -> int:
        rng, which = self.rng, self.rng.randrange(4)
        if self._mode == 1 and rng.random() < 0.2:
            return rng.choice(_EDGES)
        return rng.choice(self._near) if which == 0 else rng.randint(*((-3, 4), (-30, 30), (-2000, 2000))[which - 1])


def _silent(system: System, t: Type) -> Any:
    """What the leaf of a silent source is taken for."""
    if t == INT and system.domain.values:
        return system.domain.values[0]
    return t.members[0] if isinstance(t, EnumType) else simplest(t)


# The literal interpreter beside a system: what every stream carried, and the system's own variables read off its
# state.
#
# Nothing here is computed from the system's expressions: they are what is held to account.

Reader = Callable[["LiteralRun"], Any]


class LiteralRun(Interpreter):
    """An interpreter that keeps what every stream carried in the last push; ``lost.STEP`` in a push makes that stream
    lose its events.

    >>> from pellucid import pipeline
    >>> run = LiteralRun(pipeline(lambda x: x.decimate(2), x=int).graph)
    >>> run.observe({"x": 7})["out"], run.observe({"x": 8})["out"]
    ([7], [])
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        steps, outputs = {node.id: i for i, node in enumerate(graph.nodes)}, dict(graph.outputs)
        self._names = steps | {f"{HIDDEN}{id}": i for id, i in steps.items() if outputs.get(id, i) != i} | outputs

    def observe(self, push: Mapping[str, Any]) -> dict[str, list[Any]]:
        """One push; the events of every stream, by the ids of steps and the names of outputs, as `System.streams` has
        them."""
        lost = {key[5:] for key in push if key.startswith("lost.")}
        streams: list[list[tuple[Any, Any]]] = []
        for node in self.graph.nodes:
            if node.kind == "source":
                made = [(None, self._event(node, push[node.id]))] if node.id in push else []
            else:
                made = self.step(node, [streams[i] for i in node.inputs])
            streams.append([] if node.id in lost else made)
        self.pushed += 1
        self.give_up()
        return {name: [value for _, value in streams[i]] for name, i in self._names.items()}


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two events have the same leaves: a float is itself also where it is NaN, and 0.0 is not -0.0.

    >>> same((1, float("nan")), (1, float("nan"))), same((0.0,), (-0.0,)), same((2,), (3,))
    (True, False, False)
    """
    if a == b:
        return 0 not in a or repr(a) == repr(b) or all(_same(x, y) for x, y in zip(a, b, strict=True))
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(x: Any, y: Any) -> bool:
    return repr(x) == repr(y) if isinstance(x, float) and isinstance(y, float) else bool(x == y)


def state_readers(system: System) -> list[tuple[int, Variable, Reader]]:
    """For each variable of the state that an interpreter has as well: its number, and how it is read off there.

    What an interpreter does not have is left out: history that a question adds, and states by key.
    """
    graph = system.graph
    if graph is None:
        return []
    nodes = {node.id: node for node in graph.nodes}
    queues = {id: (graph.nodes[i], at) for id, i, at in graph.queues()}
    out = []
    for i, v in enumerate(system.state):
        reader = None
        if v.role in ("length", "item") and v.of in queues:
            node, at = queues[v.of]
            reader = _of_queue(v, node, at)
        elif v.role in ("state", "count", "event") and v.of in nodes:
            reader = _of_step(v, nodes[v.of])
        if reader is not None:
            out.append((i, v, reader))
    return out


def _of_queue(v: Variable, node: Node, at: int) -> Reader | None:
    if node.key is not None:
        return None

    def waiting(run: LiteralRun) -> Sequence[Any]:
        held: Sequence[Any] = run._waiting[node.id].get(None, [()] * len(node.inputs))[at]
        return held

    if v.role == "length":
        return lambda run: len(waiting(run))
    place, leaf = map(int, v.name.rsplit(".", 2)[-2:])
    t = run_type(node, at)

    def item(run: LiteralRun) -> Any:
        held = waiting(run)
        return t(run, held[place])[leaf] if place < len(held) else _ABSENT

    return item


def run_type(node: Node, at: int) -> Callable[[LiteralRun, Any], tuple[Any, ...]]:
    """The leaves of an event in a queue of this step."""
    return lambda run, event: run.graph.nodes[node.inputs[at]].type.flatten(event)


_ABSENT: Any = object()  # a place of a queue or window in which nothing stands: the system may have anything there


def is_absent(value: Any) -> bool:
    """Whether the interpreter has nothing in this place."""
    return value is _ABSENT


def _of_step(v: Variable, node: Node) -> Reader | None:
    if node.key is not None or not v.name.startswith(f"{node.id}:"):
        return None
    label, k = v.name[len(node.id) + 1 :], node.k
    p = node.processor
    if v.role == "state" and node.state is not None and p.starts:
        t = node.state
        labels = [f"state.{path}" if path else "state" for path, _ in t.leaves()]
        if label not in labels:
            return None
        at = labels.index(label)
        return lambda run: t.flatten(run.state[node.id].get(None, node.start))[at]
    if v.role == "count" and k is not None and p.counted is not None:
        left = p.counted
        return lambda run: left(run.state[node.id].get(None, 0), k)
    if v.role == "count" and p.keeps == "events":
        return lambda run: min(len(run.state[node.id].get(None, ())), node.earlier)
    if v.role == "event" and p.keeps == "events":
        place, leaf = map(int, label.removeprefix("event").split("."))
        leaves = run_type(node, 0)

        def event(run: LiteralRun) -> Any:
            kept = run.state[node.id].get(None, ())[-node.earlier :]
            return leaves(run, kept[place])[leaf] if place < len(kept) else _ABSENT

        return event
    return None


# A proof is tried: random runs of the literal interpreter, and the system beside it, must do what the proof says.
#
# In every push of every run: the streams of the system carry what the interpreter's carry; its state is the one that is
# read off the interpreter; the invariant holds in it; and nothing bad happens. So an operation, a queue or a window
# that is encoded wrongly, and a solver or a search that is wrong, is noticed where a short run shows it. Trying proves
# nothing; it can only take a proof away.

_FEWEST, _MOST_TRIAL = 40, 4000  # runs: however little time there is, and however much
_HUGE = 2**512


@dataclass
class Trial:
    """What was tried, and what went wrong, in words; ``seen`` says of each question whether it held in some push."""

    runs: int = 0
    pushes: int = 0
    beside: bool = False  # an interpreter ran beside the system
    problem: str = ""
    seen: list[bool] = field(default_factory=list)
    # some values of state and input, with the state after
    points: list[tuple[list[Any], tuple[Any, ...]]] = field(default_factory=list)

    def __str__(self) -> str:
        where = "of the interpreter" if self.beside else "of the system"
        return f"tried on {self.runs:,} runs {where} ({self.pushes:,} pushes)"


def budget(spent: float, left: float | None = None, *, least: float = 0.03) -> float:
    """How long a proof is tried that took so many seconds: about half as long, and never long.

    >>> budget(0.0), budget(1.0), budget(100.0), budget(1.0, left=0.01)
    (0.03, 0.5, 1.0, 0.03)
    """
    share = min(1.0, max(least, 0.5 * spent))
    return share if left is None else max(least, min(share, left))


def try_out(
    system: System,
    bad: Expr | None = None,
    invariant: Sequence[Expr] = (),
    *,
    seconds: float = 0.1,
    questions: Sequence[Expr] = (),
    follow: Callable[[list[Any], tuple[Any, ...], tuple[Any, ...]], str] | None = None,
    observed: Sequence[Expr] = (),
    most: int = _MOST_TRIAL,
) -> Trial:
    """Run a system beside the interpreter of its pipeline for so many seconds, and look at every push.

    ``follow`` receives for each push: the values of state and input, the state after, the values of ``observed``; it
    returns what is wrong. ``questions`` are things that may hold; whether they ever do is in ``Trial.seen``.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda t, v: t + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> try_out(s, n.lt(total, n.const(0))).problem
    ''
    >>> try_out(s, n.lt(n.const(3), total)).problem
    'what cannot happen happens on ...x = 2; x = 1'
    """
    return _Runs(system, bad, invariant, questions, follow, observed).go(seconds, most)


class _Runs:
    def __init__(
        self,
        system: System,
        bad: Expr | None,
        invariant: Sequence[Expr],
        questions: Sequence[Expr],
        follow: Callable[[list[Any], tuple[Any, ...], tuple[Any, ...]], str] | None,
        observed: Sequence[Expr],
    ) -> None:
        self.system, self.follow = system, follow
        self.beside = system.graph is not None and system.domain.modulus is None
        own = (
            {*system.graph.position, *(name for name, _ in system.graph.outputs)} if system.graph is not None else set()
        )
        self.streams = [(name, of) for name, of in system.streams.items() if name in own] if self.beside else []
        parts: list[list[Expr]] = [
            list(system.next), list(invariant), [bad] if bad is not None else [], list(questions), list(observed),
            [system.assume, system.overflow, system.failed, system.partial],
            [e for _, (_, slots) in self.streams for s in slots for e in (s.present, *s.leaves)],
        ]  # fmt: skip
        self.compute = straight([e for part in parts for e in part])
        ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        self.cuts = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        self.readers = state_readers(system) if self.beside else []
        self.pushes = DrawnPushes(system, [*invariant, *([bad] if bad is not None else []), *questions, *observed])
        self.others_come = system.keys is not None and system.keys.chosen
        self.trial = Trial(beside=self.beside, seen=[False] * len(questions))

    def go(self, seconds: float, most: int) -> Trial:
        end, trial = now() + seconds, self.trial
        while trial.runs < most and (trial.runs < _FEWEST or now() < end):
            if now() > end + max(0.5, 2 * seconds):
                break
            trial.runs += 1
            trail: list[dict[str, Any]] = []
            wrong = self._run(trail)
            if wrong:
                shown = "; ".join(
                    ", ".join(f"{name} = {value!r}" for name, value in push.items()) or "silence"
                    for push in trail[-12:]
                )
                trial.problem = f"{wrong} on {'… ' if len(trail) > 12 else ''}{shown}"
                break
        return trial

    def _run(self, trail: list[dict[str, Any]]) -> str:
        system, trial = self.system, self.trial
        state: list[Any] = [v.start for v in system.state]
        literal = LiteralRun(system.graph) if self.beside and system.graph is not None else None
        try:
            for push in system.lead if literal is not None else ():
                literal.observe(push)  # type: ignore[union-attr]
        except (StepError, DataError):  # it leads to a failure: from there on the interpreter does nothing more
            literal = None
        for _ in range(self.pushes.begin()):
            drawn = self._allowed(state)
            if drawn is None:
                return ""
            push, leaves, (after, facts, bad, asked, observed, (_, overflow, failed, partial), carried) = drawn
            trail.append(push)
            trial.pushes += 1
            if len(trial.points) < 64:
                trial.points.append((leaves, after))
            if not all(facts):
                return "the invariant does not hold"
            if any(bad):
                return "what cannot happen happens"
            for i, yes in enumerate(asked):
                trial.seen[i] = trial.seen[i] or bool(yes)
            wrong = self.follow(leaves, after, observed) if self.follow is not None else ""
            if not wrong and literal is not None:
                wrong = self._compare(
                    literal, push, after, bool(overflow), bool(failed), carried, partial=bool(partial)
                )
            if wrong:
                return "" if wrong == ENDS else wrong
            if overflow or failed:  # it stays as it is
                literal = None
            state = list(after)
            if any(isinstance(v, int) and abs(v) > _HUGE for v in state):
                return ""
        return ""

    def _allowed(self, state: list[Any]) -> Any:
        """A push that the assumption lets through; None: none was found, or a number got too large to go on."""
        for _ in range(20):
            push, inputs = self.pushes.draw()
            leaves = [*state, *inputs]
            try:
                values = self.compute(leaves)
            except Overflow64:
                return None
            found = [values[cut] for cut in self.cuts]
            # a run with more keys than are tracked is none of this system's
            if found[5][0] and (not found[5][3] or self.others_come):
                return push, leaves, found
        return None

    def _compare(
        self,
        literal: LiteralRun,
        push: dict[str, Any],
        after: tuple[Any, ...],
        overflow: bool,
        failed: bool,
        carried: tuple[Any, ...],
        *,
        partial: bool = False,
    ) -> str:
        """The interpreter does the same: what is different, or `ENDS` where it has no way on."""
        knows_failures = self.system.failed.op != "const"
        try:
            streams = literal.observe(push)
        except IntOverflow:
            if self.system.strict and knows_failures and not failed and not partial:
                return "the interpreter fails with an overflow and the system does not"
            return "" if failed else ENDS
        except DataError:
            return ENDS
        except StepError:
            if knows_failures and not failed and not partial:
                return "the interpreter fails and the system does not"
            return ENDS
        if failed:
            return "the system fails and the interpreter does not"
        if overflow:
            return ""
        at = 0
        for name, (t, slots) in () if partial else self.streams:
            made: list[tuple[Any, ...]] = []
            for s in slots:
                if carried[at]:
                    made.append(carried[at + 1 : at + 1 + len(s.leaves)])
                at += 1 + len(s.leaves)
            expected = [t.flatten(event) for event in streams[name]]
            if len(made) != len(expected) or not all(map(same, made, expected)):
                return (
                    f"{name} carries {streams[name]} in the interpreter and {[t.unflatten(x) for x in made]} in the "
                    "system"
                )
        for i, v, reader in self.readers:
            there = reader(literal)
            if not is_absent(there) and not same((there,), (after[i],)):
                return f"{v.name} is {there!r} in the interpreter and {after[i]!r} in the system"
        return ""


ENDS = "the run ends here"
