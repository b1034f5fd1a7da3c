"""The user's functions, called as rarely as possible and watched: is a task a function of its state and its event?

The paper assumes pure functions (section 4.3), for after a crash they are called again.  A search needs each result
once, so answers are kept by (task, state, event): what is explored is a function, whatever the task is.  Whether it
says anything about the task is another question.  Each call is made **twice**, on copies, before it is believed, and
once more at the end, in another order; what a function does meanwhile is watched (`expr.tracing.witness`).  Of
one that answers differently, or that reads a clock, draws a number or keeps something hidden, nothing is known: whoever
calls it is stopped by `MayDiffer`, before any answer of it is used.  So no counterexample rests on it, and it is no
matter of chance whether there is one.

>>> import time
>>> from pellucid.failures.model import Task
>>> calls = Calls({"stamp": Task(lambda v, w: (v, [(w, time.time())]), ("i",), "o")})
>>> calls.tasks["stamp"].f(0, "a")
Traceback (most recent call last):
pellucid.failures.checker.calls.MayDiffer: task 'stamp': a lambda calls time.time(): after a crash it may answer
otherwise, so nothing is known of it; what it reads must come with the events, or be in its state
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pellucid.errors import Control, PellucidError, StepError, UsageError
from pellucid.failures.model.syntax import Map, Task
from pellucid.internal.expr.tracing.mistakes import refuse_undefined
from pellucid.internal.expr.tracing.witness import Witness
from pellucid.internal.model import CutShort, on_time

Answer = tuple[Any, tuple[Any, ...]]
MOST_OUTPUTS = 10_000  # of one call: a search keeps each as a message, so whoever gives more gives without end
MORE_CALLS = 20  # of what cannot be looked into, such as a library in C


class MayDiffer(Exception):  # noqa: N818 - not an error of anybody: it is not known
    """A task need not answer after a crash as it did before."""


class Calls:
    """The answers of every task's function; ``tasks`` are the tasks with them."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._real = dict(tasks)
        self._answers: dict[str, dict[tuple[Any, Any], Answer]] = {p: {} for p in tasks}
        self._watched: dict[str, Sequence[tuple[str, Witness]]] = {}  # the functions behind each, by their names
        self._run: dict[str, Callable[[Any, Any], Answer]] = {}
        for p, task in tasks.items():
            whole = partial(_whole, p)
            inside: Sequence[tuple[str, Witness]] | None = getattr(task.f, "watched", None)  # of steps of a pipeline
            witness = Witness(task.f, whole)
            self._watched[p] = [(f"task {p!r}: {_name(task.f)}", witness)] if inside is None else inside
            self._run[p] = witness.call if inside is None else _then(whole, task.f)
        self.tasks = Map({p: Task(self._function(p), t.inputs, t.output) for p, t in tasks.items()})
        self.count = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What one assumes who believes these answers."""
        said = [
            text
            for watched in self._watched.values()
            for name, witness in watched
            for text in witness.assumptions(name.rpartition(": ")[2])
        ]
        return tuple(dict.fromkeys(said))

    @property
    def silent(self) -> tuple[str, ...]:
        """The tasks that gave nothing in any call."""
        return tuple(p for p, answers in self._answers.items() if not any(outputs for _, outputs in answers.values()))

    def ask_again(self) -> None:
        """Call everything once more, in another order: what is hidden may have moved meanwhile."""
        for p, answers in self._answers.items():
            for (v, w), known in reversed(list(answers.items())):
                self._same(p, v, w, known, self._call(p, v, w))

    def _function(self, p: str) -> Callable[[Any, Any], Answer]:
        answers = self._answers[p]

        def f(v: Any, w: Any) -> Answer:
            known = answers.get((v, w))
            if known is None:
                first = self._call(p, v, w)
                self._same(p, v, w, first, self._call(p, v, w))
                if any(witness.doubts for _, witness in self._watched[p]):  # a coin may fall the same way twice
                    for _ in range(MORE_CALLS):
                        self._same(p, v, w, first, self._call(p, v, w))
                if isinstance(first, PellucidError):
                    raise first
                known = answers[v, w] = first
            return known

        f.__name__ = getattr(self._real[p].f, "__name__", "f")
        return f

    def _same(self, p: str, v: Any, w: Any, first: Answer | PellucidError, second: Answer | PellucidError) -> None:
        for name, witness in self._watched[p]:
            if witness.fickle:
                raise MayDiffer(
                    f"{name} {witness.fickle[0]}: after a crash it may answer otherwise, so nothing is known of it; "
                    "what it reads must come with the events, or be in its state"
                )
        if repr(first) != repr(second) and (isinstance(first, PellucidError) or first != second):  # nan is not nan
            raise MayDiffer(
                f"task {p!r} is not a function of its state and event: f({v!r}, {w!r}) gave {_told(first)} and then "
                f"{_told(second)}"
            )

    def _call(self, p: str, v: Any, w: Any) -> Answer | PellucidError:
        """What the task answers; a failure is an answer, too: one that fails now and then is no function."""
        self.count += 1
        try:
            given = copy.deepcopy((v, w))
        except Exception:  # a value that cannot be copied is given as it is
            given = (v, w)
        try:
            answer = self._run[p](*given)
        except (CutShort, UsageError, Control, KeyboardInterrupt):
            raise
        except PellucidError as error:
            refuse_undefined(error, f"task {p!r}")
            return error
        except BaseException as error:
            refuse_undefined(error, f"task {p!r}")
            failed = StepError(f"task {p!r} failed on f({v!r}, {w!r}): {type(error).__name__}: {error}", step=p)
            failed.__cause__ = error
            return failed
        try:
            hash(answer)
        except TypeError:
            raise UsageError(
                f"task {p!r}: f({v!r}, {w!r}) gave ({answer[0]!r}, {list(answer[1])!r}), which cannot be hashed: "
                "a search compares states; use tuples and frozensets instead of lists, dicts and sets"
            ) from None
        return answer


def _name(f: Callable[..., Any]) -> str:
    name = getattr(f, "__name__", type(f).__name__)
    return "a lambda" if name == "<lambda>" else f"{name}()"


def _then(g: Callable[[Any], Answer], f: Callable[..., Any]) -> Callable[..., Answer]:
    return lambda *args: g(f(*args))


def _whole(p: str, answer: Any) -> Answer:
    """A task's answer with its outputs, which may be a generator: asked one by one, for they need not end."""
    if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
        raise UsageError(f"task {p!r} must give (state, [outputs]), found {answer!r}")
    outputs: list[Any] = []
    if not isinstance(answer[1], Iterable):
        raise UsageError(f"task {p!r} must give (state, [outputs]), found {answer!r}")
    try:
        for output in answer[1]:
            if len(outputs) == MOST_OUTPUTS:
                raise CutShort(f"the limit of {MOST_OUTPUTS:,} outputs was reached")
            on_time()
            outputs.append(output)
    except CutShort as cut:
        raise CutShort(f"{cut} while task {p!r} gave its outputs for one event (do they end?)") from None
    return answer[0], tuple(outputs)


def _told(answer: Answer | PellucidError) -> str:
    return str(answer) if isinstance(answer, PellucidError) else f"({answer[0]!r}, {list(answer[1])!r})"
