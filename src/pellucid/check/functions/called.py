"""Functions that are called and not traced: their answers, and what a verdict may say about them.

All calls that one question makes are kept in its `Ledger`, each made once under the eyes of a
`Witness` (`expr.tracing`) and, before the answers are used, once more in another order.  A function that is fickle
(it reads a clock, draws random numbers, depends on the process, changes something, or answers differently the second
time) has no meaning that a proof could speak of: the verdict is *unknown*, in every process.  One whose
answers may change, or that reads what may change, is trusted, and the first line of the verdict says so.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias

from pellucid.check.question_arguments import check_arguments
from pellucid.check.system.variables import FALSE, TRUE
from pellucid.errors import Control, NotTraceable, PellucidError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call
from pellucid.internal.expr.function import Function, _samples, _spot_check, _widened
from pellucid.internal.expr.identity import identity_of
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import Pure, call, has_calls
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.tracing.purity import Witness, fickle_reason
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.textual import text_trace
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, INT, INT_MAX, INT_MIN, Type, simplest
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.search import CutShort, now, stopping
from pellucid.internal.model.verdict import Verdict

Leaves: TypeAlias = tuple[Any, ...]
P = ParamSpec("P")

_SECONDS = 10.0  # for all calls of one question
_USUAL = 60.0  # seconds of a question that sets no limit


class Fickle(NotTraceable):
    """A function that is no function of its arguments."""


class OutOfTime(Exception):  # noqa: N818 - it ends a search for arguments, and goes no further
    """The calls take too long."""


class Failed:
    """The function raised, or its result fits no event."""

    def __repr__(self) -> str:
        return "a failure"


def key_of(leaves: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Equal for the same values only: 1 is not True, 0.0 is not -0.0, and nan is nan."""
    return tuple((type(v).__name__, repr(v)) for v in leaves)


@dataclass
class Answers:
    """What one function answered: the leaves of its arguments and of its results, or a `Failed`.

    Of a task the results are its new state and a list of events.  A state that is any Python object goes by its number
    in ``states``.
    """

    fn: Function
    who: str
    witness: Witness
    ledger: Ledger
    modulus: int | None = None
    rows: dict[Any, tuple[Leaves, Any]] = field(default_factory=dict)
    states: list[Any] = field(default_factory=list)
    closed: bool = True  # whether every argument that can come is among the rows
    unlisted: bool = False  # its arguments cannot be listed at all
    confirmed: int = 0  # how many rows were asked again
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def of(self, args: Leaves) -> Any:
        """The answer to these leaves; called if it was not yet."""
        key = key_of(args)
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = (args, self._call(self.witness.call, args))
            if self.witness.fickle:
                raise Fickle(self.no_function(self.witness.fickle[0]))
        return found[1]

    def number(self, state: Any) -> int:
        """The number of a task's state that is any Python object."""
        try:
            form = pickle.dumps(state)
        except Exception as error:
            raise NotTraceable(
                f"{self.who}: {self.fn.name} {self.fn.reason}, and its states cannot be compared "
                f"({type(error).__name__}: {error}); use scalars, records or tuples, or containers of them"
            ) from None
        if form not in self._numbers:
            self._numbers[form] = len(self.states)
            self.states.append(pickle.loads(form))
        return self._numbers[form]

    def confirm(self) -> None:
        """Ask everything once more, last first: what is hidden may have moved meanwhile."""
        for args, known in list(self.rows.values())[self.confirmed :][::-1]:
            again = self._call(self.fn.plain, args)
            if repr(again) != repr(known):
                shown = ", ".join(map(repr, self._events(args)))
                raise Fickle(
                    self.no_function(f"answered {_told(known)} and then {_told(again)} when it was called with {shown}")
                )
        self.confirmed = len(self.rows)

    def _call(self, f: Callable[..., Any], args: Leaves) -> Any:
        if self.ledger.over:
            raise OutOfTime
        events = self._events(args)
        try:
            value = self.fn.conformed(self.fn.called(f, events))
        except (Control, KeyboardInterrupt):
            raise
        except BaseException as error:
            refuse_undefined(error, f"{self.who}: {self.fn.name}")
            value = Failed()
        self._as_built(events, value)
        if isinstance(value, Failed):
            return value
        if not self.fn.task:
            assert self.fn.result is not None
            return self._reduced(self.fn.result, value)
        state, emitted = value
        after = self._reduced(self.fn.result, state) if self.fn.result is not None else (self.number(state),)
        return after, [self._reduced(self.fn.event, e) for e in emitted]

    def _as_built(self, events: list[Any], value: Any) -> None:
        """Engines run what the function was when the pipeline was built: it must be the same now."""
        if self.fn.runs is None:
            return
        try:
            built = evaluate_call(self.fn.runs, events)
        except (UserRaise, Exception):
            built = Failed()
        if repr(built) != repr(value):
            shown = ", ".join(map(repr, events))
            raise Fickle(
                self.no_function(
                    f"answers {_told(value)} and answered {_told(built)} when the pipeline was built, called with "
                    f"{shown}"
                )
            )

    def _events(self, leaves: Leaves) -> list[Any]:
        """The arguments themselves; a state that could be changed as a copy."""
        out, at = [], 0
        for t in self.fn.params:
            if t is None:
                out.append(copy.deepcopy(self.states[leaves[at]]))
                at += 1
            else:
                many = t.width
                out.append(t.unflatten(list(leaves[at : at + many])))
                at += many
        return out

    def _reduced(self, t: Any, value: Any) -> Leaves:
        m = self.modulus
        return tuple(
            v if m is None or kind != INT else v % m for v, (_, kind) in zip(t.flatten(value), t.leaves(), strict=True)
        )

    def no_function(self, why: str) -> str:
        """Why nothing is proved of it."""
        return (
            f"{self.who}: {self.fn.name} {why}: what it answers says nothing about what it will answer, so nothing "
            "is proved of it"
        )


def _told(answer: Any) -> str:
    return str(answer[0]) if isinstance(answer, tuple) and len(answer) == 1 else str(answer)


@dataclass
class Ledger:
    """All that one question called."""

    timeout: float | None = None  # of the question
    answers: dict[Any, Answers] = field(default_factory=dict)
    tables: dict[Any, Any] = field(default_factory=dict)  # of whole graphs (`pellucid.check.functions.arguments`)
    # functions as data of a check (`pellucid.check.functions.called`)
    inside: dict[Any, Traced | None] = field(default_factory=dict)
    pure: dict[Any, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)  # what a proof must say beside
    assumed: list[str] = field(default_factory=list)  # what a verdict assumes, beyond what was seen in calls

    def __post_init__(self) -> None:
        self.until = now() + min(_SECONDS, self.timeout or _SECONDS)

    @property
    def over(self) -> bool:
        """Whether nothing more may be called."""
        return now() > self.until

    def of(self, fn: Function, who: str, modulus: int | None) -> Answers:
        """The answers of a function so far: one table for all its uses."""
        key = (fn, modulus)
        if key not in self.answers:
            self.answers[key] = Answers(fn, who, Witness(fn.plain), self, modulus)
        return self.answers[key]

    def assumptions(self) -> tuple[str, ...]:
        """What a verdict assumes of functions that were called: it stands in its first line."""
        found = [text for a in self.answers.values() for text in a.witness.assumptions(a.fn.name)]
        return tuple(dict.fromkeys([*found, *self.assumed]))


_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


def ledger() -> Ledger:
    """The ledger of the question that is being asked; outside of any, an empty one."""
    return _LEDGER.get() or Ledger()


@contextmanager
def _asking(timeout: float | None) -> Iterator[Ledger]:
    token = _LEDGER.set(found := Ledger(timeout))
    try:
        yield found
    finally:
        _LEDGER.reset(token)


def _not_asked(graphs: Sequence[Graph], said: str) -> tuple[str, ...]:
    """Of functions that are not pure and that no note speaks of: what was proved holds whatever they answer."""
    found = {
        f"{fn.name} is not pure (it {fn.reason}): this holds whatever it answers": None
        for g in graphs
        for _, fn in g.opaque()
        if fickle_reason(fn.reason) and fn.name not in said
    }
    return tuple(found)


def _changed(g: Graph) -> str:
    """What functions of a graph read that is another than when it was built; empty if nothing is."""
    for node, fn in g.functions():
        if change := fn.change:
            return (
                f"{node.describe()}: {change}; engines run it as it was, so the check says nothing of it: "
                "build the pipeline again"
            )
    return ""


def asks(question: Callable[..., str]) -> Callable[[Callable[P, Verdict]], Callable[P, Verdict]]:
    """Above a question: what it calls is written down, and its verdict says what may be said of that.

    ``question`` makes its text from its arguments, for the verdict where nothing can be said at all.
    """

    def around(ask: Callable[P, Verdict]) -> Callable[P, Verdict]:
        @functools.wraps(ask)
        def asked(*args: P.args, **named: P.kwargs) -> Verdict:
            check_arguments(ask, args, named)
            if _LEDGER.get() is not None:  # a question inside another
                return ask(*args, **named)
            started = time.perf_counter()
            graphs = [
                g for g in (getattr(given, "graph", None) for given in (*args, *named.values())) if isinstance(g, Graph)
            ]
            other = next(filter(None, (_changed(g) for g in graphs)), "")
            if other:
                return Verdict("unknown", question(*args, **named), "none", 0.0, None, (other,))
            limit = named.get("timeout")  # a wrong one is refused where the options are made
            seconds = limit if isinstance(limit, (int, float)) else None
            with _asking(seconds) as made:
                try:
                    with stopping(_USUAL if "timeout" not in named else seconds):
                        verdict = ask(*args, **named)
                except (Fickle, CutShort) as error:
                    return Verdict(
                        "unknown", question(*args, **named), "none", time.perf_counter() - started, None, (str(error),)
                    )
                if verdict.unknown:
                    return verdict
                assumed = made.assumptions()
                if assumed:
                    glue = " and " if ", assuming " in verdict.question else ", assuming "
                    verdict = dataclasses.replace(verdict, question=f"{verdict.question}{glue}{'; '.join(assumed)}")
                if verdict.refuted:
                    return verdict
                notes = (*verdict.notes, *made.words)
                said = " ".join((*notes, *assumed))
                return dataclasses.replace(verdict, notes=(*notes, *_not_asked(graphs, said)))

        return asked

    return around


# What a check knows of functions that engines call and do not trace, where their arguments cannot be listed.
#
# 1.  Traced once more, as a check sees it (`expr.tracing.textual`): it looks inside text, and into constant
#    dictionaries.  No engine runs that.
# 2.  Otherwise the function is **uninterpreted**: of its answers only this is used, that the same arguments give the
#    same one, also where it fails.  So what does not depend on them is decided.  In a counterexample it is really
#    called; a run that depends on an invented answer refutes nothing.
#
# Unlike a traced function one that is called computes in Python's own integers: only its results must have 64 bits.

_TRIED = 12  # calls of a function before anything is concluded about it


def inside(fn: Function, made: Ledger, who: str) -> Traced | None:
    """The function as data of a check, found once for each question; None if there is none.

    >>> from pellucid.internal.expr.types import STR
    >>> f = Function.make(lambda s: s.startswith("a") and "b" in s, (STR,), to=BOOL)
    >>> f.traced, inside(f, Ledger(), "a step").outputs
    (None, (starts(v0, 'a') and holds(v0, 'b'),))
    >>> split = Function.make(lambda s: s.split(",")[0], (STR,), to=STR)
    >>> inside(split, Ledger(), "a step").outputs
    (<lambda>(v0),)
    """
    if fn not in made.inside:
        made.inside[fn] = _traced(fn) or _uninterpreted(fn, made, who)
    return made.inside[fn]


def _traced(fn: Function) -> Traced | None:
    if any(p is None for p in fn.params) or fn.result is None:
        return None
    truth = fn.result == BOOL and not fn.task
    try:
        traced: Traced = text_trace(fn.plain, fn.params, task=fn.task, truth=truth)
        _spot_check(fn.plain, traced, truth)
        if fn.task and fn.event is None and traced.event is not None:
            return None
        return _widened(fn.plain, traced, fn.params, fn.event if fn.task else fn.result, True)
    except Untraceable:
        return None
    except PellucidError:  # its results are of another type than was said
        return None


def _uninterpreted(fn: Function, made: Ledger, who: str) -> Traced | None:
    """One pure function for each leaf of its result; the first says that it fails."""
    if fn.task or any(p is None for p in fn.params) or fn.result is None or fickle_reason(fn.reason):
        return None
    answers = made.of(fn, who, None)
    try:
        for args in _samples(fn.params, _TRIED, modest=True):
            answers.of(tuple(leaf for t, a in zip(fn.params, args, strict=True) for leaf in t.flatten(a)))
        answers.confirm()
    except OutOfTime:
        return None
    identity = identity_of(fn.plain, types_used=[*fn.params, fn.result])
    # two functions with the same code and surroundings are one
    key = id(fn) if identity.unseen else (identity.digest, fn.params, fn.result)
    if key not in made.pure:
        name = getattr(fn.plain, "__name__", "") or type(fn.plain).__name__
        leaves = list(fn.result.leaves())
        made.pure[key] = tuple(
            Pure(f"{name}.{path}" if len(leaves) > 1 else name, _leaf(answers, who, j), kind, j == 0)
            for j, (path, kind) in enumerate(leaves)
        )
        made.words.append(
            f"of {fn.name}, which {fn.reason}, only this was used: the same arguments give the same answer"
        )
    variables = [n.var(i, t) for i, t in enumerate(t for p in fn.params for _, t in p.leaves())]
    return Traced(fn.params, fn.result, tuple(call(f, variables) for f in made.pure[key]))


def _leaf(answers: Answers, who: str, at: int) -> Callable[..., Any]:
    def answer(*args: Any) -> Any:
        try:
            found: Leaves | Failed = answers.of(args)
        except OutOfTime:
            raise Fickle(f"{who}: {answers.fn.name} takes too long to be called again and again") from None
        if isinstance(found, Failed):
            raise ValueError("it fails")
        return found[at]

    return answer


def beyond(root: Expr) -> Expr:
    """Whether the integer that a function returns does not have 64 bits; on its way it may be larger.

    >>> x = n.var(0, INT)
    >>> beyond(n.ite(n.lt(x, n.const(0)), n.const(0), n.add(x, n.const(1))))
    not v0 < 0 and overflows(v0 + 1)
    """
    if root.op == "ite":
        return n.ite(root.args[0], beyond(root.args[1]), beyond(root.args[2]))
    if root.op == "after":
        return beyond(root.args[-1])
    if root.type != INT or root.op in ("const", "var", "raise", "length", "find", "call", "int_of_bool"):
        return n.FALSE
    large = n.or_(n.lt(n.const(INT_MAX), root), n.lt(root, n.const(INT_MIN)))
    return n.overflows(root) if n.overflows(root) is not n.FALSE else large


# A function that is called and not traced, over a finite domain: a table of its answers, as expressions.
#
# The arguments are those that can come (`pellucid.check.functions.arguments`).  Where that set does not close, an
# argument may come that is not in the table: that is a condition of its own, ``outside``, and about what follows
# nothing is claimed.

_OPEN = 256  # rows of a table that is not complete anyway


class Table:
    """The roots of a function as a traced one has them (results; of a task its state, a count and events), and when it
    is left."""

    def __init__(self, roots: tuple[Expr, ...], outside: Expr, slots: int) -> None:
        self.roots, self.outside, self.slots = roots, outside, slots


class Tables:
    """The tables of all functions of a system."""

    def __init__(self, answers: Callable[[Function], Answers] | None = None) -> None:
        self._answers = answers
        self._made: dict[Function, Table] = {}

    def __call__(self, fn: Function) -> Table:
        """The table of a function that is called and not traced."""
        if fn not in self._made:
            self._made[fn] = tabulate(self.answers(fn))
        return self._made[fn]

    def states(self, fn: Function, start: Any) -> tuple[int, int]:
        """The number of a task's start state, which is any Python object, and how many states there are."""
        answers = self.answers(fn)
        return answers.number(start), len(answers.states)

    def inside(self, fn: Function) -> Traced | None:
        """The function as data of a check, where it has no complete table; None: its table is all there is.

        Beside a table that is not complete only what is known in full counts: a call in it would know less than the
        table.
        """
        answers = self.answers(fn)
        if answers.modulus is not None or (answers.closed and not answers.unlisted):
            return None
        found = inside(fn, answers.ledger, answers.who)
        return found if answers.unlisted or found is None or not has_calls(*found.roots()) else None

    def doubts(self, fn: Function) -> list[str]:
        """Why a function may not always answer as it did."""
        return [f"if it always answers so: it {doubt}" for doubt in self.answers(fn).witness.doubts]

    def answers(self, fn: Function) -> Answers:
        """What the function answered."""
        if self._answers is None:
            raise NotTraceable(f"{fn.name} {fn.reason}, and was not called")
        return self._answers(fn)


def tabulate(answers: Answers) -> Table:
    """The table of these answers."""
    fn = answers.fn
    kinds = [kind for t in fn.params for kind in ([INT] if t is None else [k for _, k in t.leaves()])]
    variables = [n.var(i, t) for i, t in enumerate(kinds)]
    _refuse_two_zeros(answers)
    size = fn.event.width if fn.task and fn.event is not None else 0
    slots = 0
    if fn.task:
        slots = max((len(found[1]) for _, found in answers.rows.values() if not isinstance(found, Failed)), default=0)
    after: list[Type] = [INT] if fn.result is None else [k for _, k in fn.result.leaves()]
    emitted = [k for _, k in fn.event.leaves()] * slots if fn.event is not None else []
    results = [*after, INT, *emitted] if fn.task else after
    out: list[Expr] | None = None
    outside: Expr = TRUE
    rows = list(answers.rows.values())
    for args, found in reversed(rows if answers.closed else rows[:_OPEN]):
        values: list[Expr]
        if isinstance(found, Failed):
            values = [n.raise_(0, t) for t in results]
        elif fn.task:
            events = [leaf for e in found[1] for leaf in e]
            rest = [simplest(kind) for kind in results[len(after) + 1 + len(found[1]) * size :]]
            values = [n.const(v) for v in (*found[0], len(found[1]), *events, *rest)]
        else:
            values = [n.const(v) for v in found]
        test = TRUE
        for v, leaf in zip(variables, args, strict=True):
            test = n.and_(test, _is(v, leaf))
        outside = n.and_(outside, n.not_(test))
        out = values if out is None else [n.ite(test, a, b) for a, b in zip(values, out, strict=True)]
    if out is None:  # no event ever comes to it, or none could be tried
        out = [n.const(simplest(kind)) for kind in results]
    return Table(tuple(out), FALSE if answers.closed else outside, slots)


def _is(v: Expr, leaf: Any) -> Expr:
    if isinstance(leaf, float) and math.isnan(leaf):
        return n.not_(n.eq(v, v))
    return n.eq(v, n.const(leaf))


def _refuse_two_zeros(answers: Answers) -> None:
    """0.0 and -0.0 are equal to every engine here: a function that tells them apart has no table."""
    for args, found in list(answers.rows.values()):
        if any(isinstance(v, float) and v == 0 for v in args):
            for sign in (0.0, -0.0):
                same = tuple(sign if isinstance(v, float) and v == 0 else v for v in args)
                may_come = not answers.closed or key_of(same) in answers.rows
                if may_come and repr(answers.of(same)) != repr(found):
                    raise NotTraceable(
                        f"{answers.who}: {answers.fn.name} tells 0.0 from -0.0, which a check of called functions "
                        "cannot"
                    )
