"""What a question is given: each argument is looked at before anything is asked, and a wrong one is one message.

The options that every question takes (``engine``, ``timeout``, …) are checked where they are kept, in
`pellucid.check.decide.Options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.graph.model import Graph, refuse_timed

OPTIONS = ("engine", "timeout", "max_states", "max_depth", "progress")
#: What questions about a pipeline by event time are asked with, and which ones know such pipelines.
TIMED = ("events", "times", "pushes", "batch", "arrival", "rate")
BY_TIME = ("check.holds", "check.equivalent", "check.buffers")


def short(value: Any) -> str:
    """A value for a message.

    >>> short(list(range(100)))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, …'
    """
    try:
        text = repr(value)
    except Exception:  # the user's own
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def check_arguments(ask: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuse what the question cannot be asked with.

    >>> from pellucid import check
    >>> check.live(3)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: check.live wants a pipeline as p, found 3
    """
    signature, name = inspect.signature(ask), f"check.{ask.__name__}"
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError as error:
        takes = ", ".join(p.name for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD)
        raise UsageError(f"{name}: {error}; it takes {takes}") from None
    about = [value.graph for value in given.values() if isinstance(getattr(value, "graph", None), Graph)]
    by_time = name in BY_TIME and any(graph.timed for graph in about)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name != "named":  # holds_on names its streams there
            others = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
            more = TIMED if by_time else ()
            _check_names(name, given.get(parameter.name, {}), [*others, *more, *OPTIONS])
    for argument, value in given.items():
        if argument in ("p", "a", "b") and not isinstance(getattr(value, "graph", None), Graph):
            raise UsageError(f"{name} wants a pipeline as {argument}, found {short(value)}")
        if argument in ("p", "a", "b") and not by_time:
            refuse_timed(value.graph, name)
        if argument in _CHECKS:
            _CHECKS[argument](value)


def _check_names(name: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    import difflib

    for word in given:
        if word not in known and not (name == "check.live" and word in ("ints", "queue", "lossy", "warn", "assume")):
            near = difflib.get_close_matches(word, known, 1)
            raise UsageError(
                f"{name} has no argument {word!r}{f': did you mean {near[0]!r}?' if near else ''}: it takes "
                f"{', '.join(known)}"
            )


def _queue(value: Any) -> None:
    sizes = value if isinstance(value, Mapping) else {"": value}
    for id, size in sizes.items():
        if value is not None and (
            isinstance(size, bool) or not isinstance(size, int) or size < 0 or not isinstance(id, str)
        ):
            raise UsageError(
                f"queue= takes a whole number of events, or one for each queue by its id, as in {{'join.0': 2}}; found "
                f"{short(value)}"
            )


def _lossy(value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(id, str) for id in value):
        hint = f": write [{value!r}]" if isinstance(value, str) else ""
        raise UsageError(f"lossy= takes a list of the streams that may lose events, found {short(value)}{hint}")


def _within(value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UsageError(f"within= takes a number of steps of at least 1, found {short(value)}")


def _output(value: Any) -> None:
    if not isinstance(value, str):
        raise UsageError(f"output= takes the name of an output, found {short(value)}")


_CHECKS: dict[str, Callable[[Any], None]] = {"queue": _queue, "lossy": _lossy, "within": _within, "output": _output}
