"""The user's functions, called as rarely as possible and watched: is a task a function of its state and its event?

The paper assumes pure functions (section 4.3), for after a crash they are called again.  A search needs each result
once, so results are kept by (state, event); and each first call is made **twice**, on copies, before it is believed.  A
function that answers differently (it reads a clock, draws a number, keeps something hidden) is not refused: its answers
are kept in their order, a situation counts the calls that were made, and no recovery takes that count back.  So the
search sees what the task really does when an event is processed again.

>>> import itertools
>>> from pellucid.failures.model import Task
>>> clock = itertools.count(100)
>>> calls = Calls({"stamp": Task(lambda v, w: (v, [(w, next(clock))]), ("i",), "o")}, crashes=1)
>>> f = calls.tasks(Map())["stamp"].f
>>> try: f(0, "a")
... except FoundImpure as found: print(found.evidence)
task 'stamp' is not a function of its state and event: f(0, 'a') gave (0, [('a', 100)]) and then (0, [('a', 101)])
>>> f(0, "a")
(0, (('a', 100),))
>>> calls.tasks(calls.counted(Map(), "stamp"))["stamp"].f(0, "a")
(0, (('a', 101),))
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.errors import PellucidError, StepError, UsageError
from pellucid.failures.model.syntax import Map, Task

Answer = tuple[Any, tuple[Any, ...]]
Made = Map[tuple[str, Any, Any], int]  # how often each call (task, state, event) was made


class FoundImpure(Exception):  # noqa: N818 - not an error: the search begins again with what is now known
    """A task turned out not to be a function."""

    def __init__(self, task: str, evidence: str) -> None:
        super().__init__(evidence)
        self.task, self.evidence = task, evidence


class Calls:
    """The answers of every task's function; ``tasks(made)`` are the tasks as they behave after these calls."""

    def __init__(self, tasks: Mapping[str, Task], *, crashes: int) -> None:
        self._real = dict(tasks)
        self._most = crashes + 1  # calls of the same thing
        self._answers: dict[str, dict[tuple[Any, Any], list[Answer]]] = {p: {} for p in tasks}
        self._tasks: dict[Made, Map[str, Task]] = {}
        self._asked: list[tuple[str, Any, Any]] = []  # of tasks that are not functions, since they were last counted
        self.impure: dict[str, str] = {}  # the task and the evidence
        self.count = 0

    def tasks(self, made: Made) -> Map[str, Task]:
        """Π after these calls; of tasks that are functions no calls are counted."""
        found = self._tasks.get(made)
        if found is None:
            tasks = {p: Task(self._function(p, made), task.inputs, task.output) for p, task in self._real.items()}
            found = self._tasks[made] = Map(tasks)
        return found

    def repeated(self, times: int) -> Map[str, Task]:
        """Π where every call was already made so often."""
        key: Made = Map({("", None, None): times})
        if key not in self._tasks:
            tasks = {p: Task(self._function(p, _Always(times)), t.inputs, t.output) for p, t in self._real.items()}
            self._tasks[key] = Map(tasks)
        return self._tasks[key]

    def forget(self) -> None:
        """Begin to note calls."""
        self._asked.clear()

    def counted(self, made: Made, p: str) -> Made:
        """The calls after the step of task p that made the next of the noted ones."""
        if p not in self.impure:
            return made
        at = next(i for i, (task, _, _) in enumerate(self._asked) if task == p)
        call = self._asked.pop(at)
        return made.updated({call: min(made.get(call, 0) + 1, self._most - 1)})

    def ask_again(self) -> None:
        """Call everything once more, in another order: what is hidden may have moved meanwhile."""
        for p, answers in self._answers.items():
            if p not in self.impure:
                for (v, w), known in reversed(list(answers.items())):
                    self._compare(p, v, w, known, self._call(p, v, w))

    def _function(self, p: str, made: Made) -> Callable[[Any, Any], Answer]:
        answers = self._answers[p]

        def f(v: Any, w: Any) -> Answer:
            known = answers.get((v, w))
            if known is None:
                known = self._learn(p, v, w)
            if p not in self.impure:
                return known[0]
            self._asked.append((p, v, w))
            return known[min(made.get((p, v, w), 0), len(known) - 1)]

        f.__name__ = getattr(self._real[p].f, "__name__", "f")
        return f

    def _learn(self, p: str, v: Any, w: Any) -> list[Answer]:
        known = [self._call(p, v, w)]
        self._answers[p][v, w] = known
        self._compare(p, v, w, known, self._call(p, v, w))
        if p in self.impure:
            known += [self._call(p, v, w) for _ in range(self._most - len(known))]
        return known

    def _compare(self, p: str, v: Any, w: Any, known: list[Answer], again: Answer) -> None:
        if _same(known[0], again):
            return
        known.append(again)
        if p in self.impure:
            return
        self.impure[p] = (
            f"task {p!r} is not a function of its state and event: f({v!r}, {w!r}) gave {_told(known[0])} and then "
            f"{_told(again)}"
        )
        known += [self._call(p, v, w) for _ in range(self._most - len(known))]
        raise FoundImpure(p, self.impure[p])

    def _call(self, p: str, v: Any, w: Any) -> Answer:
        self.count += 1
        try:
            given = copy.deepcopy((v, w))
        except Exception:  # a value that cannot be copied is given as it is
            given = (v, w)
        try:
            answer = self._real[p].f(*given)
        except PellucidError:
            raise
        except Exception as error:
            raise StepError(f"task {p!r} failed on f({v!r}, {w!r}): {type(error).__name__}: {error}", step=p) from error
        return self._checked(p, v, w, answer)

    def _checked(self, p: str, v: Any, w: Any, answer: Any) -> Answer:
        if not isinstance(answer, Sequence) or isinstance(answer, str) or len(answer) != 2:
            raise UsageError(f"task {p!r}: f({v!r}, {w!r}) must give (state, [outputs]), found {answer!r}")
        after, outputs = answer[0], tuple(answer[1])
        try:
            hash((after, outputs))
        except TypeError:
            raise UsageError(
                f"task {p!r}: f({v!r}, {w!r}) gave {answer!r}, which cannot be hashed: "
                "a search compares states; use tuples and frozensets instead of lists, dicts and sets"
            ) from None
        return after, outputs


class _Always(Map[Any, int]):
    """The same number of every call."""

    def __init__(self, times: int) -> None:
        super().__init__({"times": times})

    def get(self, key: Any, default: Any = None) -> int:
        return self["times"]


def _same(a: Answer, b: Answer) -> bool:
    return a == b or repr(a) == repr(b)  # repr: nan is not equal to itself


def _told(answer: Answer) -> str:
    return f"({answer[0]!r}, {list(answer[1])!r})"
