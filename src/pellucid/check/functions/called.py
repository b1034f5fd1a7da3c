"""Functions that are called and not traced: their answers, and what a verdict may say about them.

All calls that one question makes are kept in its `Ledger`, each made once under the eyes of a
`Witness` (`expr.tracing`) and, before the answers are used, once more in another order.  A function that is fickle
(it reads a clock, draws random numbers, depends on the process, changes something, or answers differently the second
time) has no meaning that a proof could speak of: the verdict is *unknown*, in every process.  One that is in doubt, or
that reads what may change, is taken at its word, and the first line of the verdict says so.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias

from pellucid.check.given import check_arguments
from pellucid.errors import Control, NotTraceable
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.tracing.witness import Witness, fickle_reason
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.budget import CutShort, now
from pellucid.internal.model.stopping import stopping
from pellucid.internal.model.verdict import Verdict

Leaves: TypeAlias = tuple[Any, ...]
P = ParamSpec("P")

_SECONDS = 10.0  # for all calls of one question
_USUAL = 60.0  # seconds of a question of which nothing else is said


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
        state, put_out = value
        after = self._reduced(self.fn.result, state) if self.fn.result is not None else (self.number(state),)
        return after, [self._reduced(self.fn.event, e) for e in put_out]

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
    # functions as data of a check (`pellucid.check.functions.inside`)
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
                f"{node.describe()}: {change}; engines run it as it was, so nothing is said of it: build the pipeline "
                "again"
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
            limit = named.get("timeout")  # a wrong one is told of where the options are made
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
