"""How a file declares what must hold: ``@check.property`` above a function, or a list of formulas.

::

    @check.property
    def always_another_output():
        return check.live(sum_of_odds, ints=Mod(4))

    check.properties(sum_of_odds, ["AG EF out", "!EF full"], ints=Mod(4), queue=3)

A bounded answer does not pass, unless the declaration says that it is enough: ``within=3`` (runs of at most three
events) for formulas, ``@check.property(bounded_is_enough=True)`` for a function.

They are kept in the module that declares them, in the order of its lines, and run by ``pellucid check FILE``.  A
function stays what it was, so a test can call it: ``assert always_another_output()``.  One that takes ``**settings``,
or ``timeout``, ``engine``, … by name, is given the options of the command line.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, overload

from pellucid.check.formula.parse import parse
from pellucid.check.questions import holds
from pellucid.errors import UsageError
from pellucid.internal.model.verdict import Verdict

_KEPT = "__pellucid_properties__"
_OPTIONS = (
    "ints", "queue", "assume", "times", "pushes", "batch", "arrival", "engine", "timeout", "max_states", "max_depth",
    "progress",
)  # fmt: skip
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Property:
    """Something that must hold: its name, the file and line where it is written, and how to ask."""

    name: str
    where: str
    ask: Callable[..., Any]
    pipeline: Any = None  # of a formula in a list
    takes: frozenset[str] = frozenset(_OPTIONS)  # the options that reach it
    code: Any = field(default=None, repr=False, compare=False)  # what declared it
    bounded_is_enough: bool = False  # whether nothing found within a bound is an answer that passes

    def __call__(self, **options: Any) -> Verdict:
        """Ask, with these options in place of the declared ones.

        >>> Property("sure", "p.py:1", lambda: True, takes=frozenset())().status
        'proved'
        """
        started = time.perf_counter()
        answer = self.ask(**{name: value for name, value in options.items() if name in self.takes})
        if isinstance(answer, Verdict):
            return answer
        if isinstance(answer, bool):
            return Verdict("proved" if answer else "refuted", self.name, "python", time.perf_counter() - started)
        raise UsageError(
            f"property {self.name} ({self.where}) returned {_short(answer)}: expected a verdict, as in "
            "return check.live(…), or True or False"
        )


@overload
def property(function: _F) -> _F: ...
@overload
def property(*, bounded_is_enough: bool) -> Callable[[_F], _F]: ...
def property(function: Any = None, *, bounded_is_enough: bool = False) -> Any:
    """Declare that a function, which returns a verdict or a bool, must say yes; with ``bounded_is_enough`` also that
    nothing was found within a bound.

    >>> from pellucid import check, pipeline
    >>> doubled = pipeline(lambda x: x * 2, x=int)
    >>> @property
    ... def something_comes_out():
    ...     return check.live(doubled)
    >>> something_comes_out().proved
    True
    """
    if function is None:
        return partial(property, bounded_is_enough=bounded_is_enough)
    if isinstance(function, Verdict):
        raise UsageError(
            "@check.property stands above a function that returns a verdict; it was given the verdict itself"
        )
    if not callable(function) or not hasattr(function, "__code__"):
        raise UsageError(f"@check.property stands above a function, found {_short(function)}")
    parameters = inspect.signature(function).parameters.values()
    takes: set[str] = set()
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            takes |= set(_OPTIONS)
        elif p.kind is not p.POSITIONAL_ONLY and p.name in _OPTIONS:
            takes.add(p.name)
        elif p.default is p.empty and p.kind is not p.VAR_POSITIONAL:
            raise UsageError(
                f"property {function.__name__} wants an argument {p.name!r}, which nobody gives it: "
                f"a property takes none, or some of {', '.join(_OPTIONS)}"
            )
    code = function.__code__
    where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    found = Property(
        function.__name__, where, function, takes=frozenset(takes), code=code, bounded_is_enough=bounded_is_enough
    )
    _keep(function.__globals__, found)
    return function


def properties(
    p: Any,
    formulas: Iterable[str] | Mapping[str, str],
    *,
    name: str = "",
    within: int | None = None,
    **settings: Any,
) -> None:
    """Declare that formulas must hold in every run of a pipeline: a list, or a dict of names and formulas.

    ``within=N`` declares that runs of at most so many events are enough: where no more can be had than *bounded*, as
    by event time, that passes, unless the bound is of shorter runs (then it is *unknown*).  ``settings`` is what
    `pellucid.check.holds` takes.  They are read now, so that a mistake shows where it was made, and asked later.

    >>> from pellucid import pipeline
    >>> doubled = pipeline(lambda x: x * 2, x=int)
    >>> properties(doubled, {"something comes out": "AG EF out"})
    >>> [found.name for found in declared(globals())][-1]
    'pipeline: something comes out'
    """
    if not hasattr(p, "graph"):
        raise UsageError(f"check.properties wants a pipeline first, found {_short(p)}")
    if isinstance(formulas, str):
        raise UsageError(f"check.properties wants a list of formulas: write [{formulas!r}]")
    unknown = sorted(set(settings) - set(_OPTIONS))
    if unknown:
        raise UsageError(f"check.properties takes {', '.join(_OPTIONS)}, found {unknown[0]!r}")
    if within is not None and (isinstance(within, bool) or not isinstance(within, int) or within < 1):
        raise UsageError(f"within= takes a number of events of at least 1, found {_short(within)}")
    if within is not None and "pushes" in settings:
        raise UsageError("within= is how many events a run has, as pushes= is: give one of them")
    if within is not None and p.graph.timed:
        settings["pushes"] = within
    frame = sys._getframe(1)
    where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    named = formulas.items() if isinstance(formulas, Mapping) else [(str(f), f) for f in formulas]
    for label, formula in named:
        if isinstance(formula, str):
            parse(formula)

        def ask(formula: Any = formula, **more: Any) -> Verdict:
            answer = holds(p, formula, **{**settings, **more})
            reached = answer.details.get("pushes") if answer.bounded else None  # how far a bound on pushes reaches
            if within is None or reached is None or reached >= within:
                return answer
            note = f"nothing was found in {answer.bound}, which is less than within={within:,}"
            return replace(answer, status="unknown", bound="", notes=(*answer.notes, note))

        _keep(
            frame.f_globals,
            Property(
                f"{name or p.name}: {label}", where, ask, p, code=frame.f_code, bounded_is_enough=within is not None
            ),
        )


def declared(module: Any) -> list[Property]:
    """What a module declares, in the order of its lines: a module, its name or its namespace.

    >>> declared("json")
    []
    """
    if isinstance(module, str):
        module = sys.modules[module]
    space = module if isinstance(module, dict) else vars(module)
    return list(space.get(_KEPT, {}).values())


def _keep(space: dict[str, Any], found: Property) -> None:
    """In the module itself, so a file that is loaded again begins anew.

    The same code may declare a name twice, as a loop does: the second gets a number, and none is lost.  Other code
    at the same place, or in a notebook, is the same declaration run again.
    """
    kept: dict[str, Property] = space.setdefault(_KEPT, {})
    before, name, more = kept.get(found.name), found.name, 2
    if before is not None and before.code is found.code:
        while name in kept:
            name, more = f"{found.name} ({more})", more + 1
    elif before is not None and before.where != found.where and space.get("__file__"):
        raise UsageError(f"two properties are called {name!r} ({before.where} and {found.where}): rename one")
    kept[name] = replace(found, name=name)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
