"""States that are not columns: a task's state that is any Python object, in a saved state.

Each such step has a block of its own (`values`): how its state starts, and the states of all keys.  What may be kept is
data, and the dataclasses, named tuples and enums of the pipeline; anything else is refused by name: when a run that
saves its state is prepared, as far as it can be known from the start value and the annotations (`check_states`), else
when it turns up.
"""

from __future__ import annotations

import abc
import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError, option
from pellucid.internal.engine.saved.form import DamagedState
from pellucid.internal.engine.saved.own_types import OwnTypes
from pellucid.internal.engine.saved.values import Damage, Misfit, Unfit, decode, encode, kind_of

if TYPE_CHECKING:
    from pellucid.internal.engine.state import EngineState
    from pellucid.internal.graph.model import Graph, Node

_DATA = (
    "data (numbers, texts, bytes, dates, tuples, lists, dicts, sets, deques) and the pipeline's own dataclasses, "
    "named tuples and enums"
)


class Changed(StateError):  # noqa: N818 - reads as what it is
    """A saved state is whole, but holds values of a type that the pipeline does not have any more."""


@dataclass(frozen=True)
class ObjectWord:
    """Where a step's state stands in the rows of its region."""

    step: str
    region: int
    at: int
    width: int  # of a row

    def of(self, state: EngineState) -> list[Any]:
        """How it starts, and the states of all keys."""
        return [state.templates[self.region][self.at], *state.rows[self.region][self.at :: self.width]]


def object_words(about: dict[str, Any]) -> list[ObjectWord]:
    """The states in a description (`saved.describe`) that are any Python object, in the order of their blocks."""
    out = []
    for r, region in enumerate(about["regions"]):
        at, width = 0, sum(word[3] for word in region["words"])
        for step, _, mark, count in region["words"]:
            if mark == "object":
                out.append(ObjectWord(step, r, at, width))
            at += count
    return out


def save_objects(node: Node, values: list[Any], own: OwnTypes) -> bytes:
    """The states as bytes, or an error that says what is no data, and where."""
    try:
        return encode(values, own)
    except Unfit as error:
        raise _refused(node, error) from None


def _refused(node: Node, error: Unfit) -> StateError:
    advice = f"{error.advice}; " if error.advice else ""
    return StateError(f"{node.describe()}: its state cannot be saved: {error}: {advice}a saved state holds {_DATA}")


def load_objects(node: Node, data: bytes | memoryview, own: OwnTypes, count: int) -> tuple[Any, list[Any]]:
    """How the state started, and so many states."""
    try:
        start, *values = decode(data, own)
        if len(values) != count:
            raise Damage(f"{len(values)} states for {count} keys")
    except Misfit as error:
        raise Changed(
            f"{node.describe()}: its saved state does not fit: {error}; bring the type back as it was, or start again; "
            f"on Spark, or with carry, {option('drop', [node.id])} gives up what the step remembers"
        ) from None
    except ValueError as error:
        raise DamagedState(f"what step {node.id!r} remembers: {error}") from None
    return start, values


# ---------------------------------------------------------------- before anything runs


def check_states(graph: Graph) -> None:
    """Refuse a pipeline whose states cannot be saved, as far as its start values and annotations tell.

    >>> from pellucid import pipeline
    >>> check_states(pipeline(lambda x: x.task(lambda s, v: (s | {v}, [len(s)]), set(), to=int), x=int).graph)
    >>> check_states(pipeline(lambda x: x.task(lambda f, v: (f, [f(v)]), abs, to=int, id="f"), x=int).graph)
    Traceback (most recent call last):
    pellucid.errors.StateError: step 'f' (task λ, <doctest ...>:1): its state cannot be saved: state is a
    builtin_function_or_method, which is not data: ...
    """
    own = OwnTypes.of(graph)
    for node in graph.nodes:
        if node.kind == "iterate" and node.sub is not None:  # what its body remembers is saved, unlike that of a window
            check_states(node.sub)
        if not node.any_object or node.fn is None:
            continue
        save_objects(node, [node.start], own)
        for cls in [cls for fn in node.functions for cls in _named(_annotation(fn.plain))]:
            try:
                kind_of(cls, own)
            except Unfit as error:
                raise _refused(node, error.at("its annotation says that it")) from None


def _annotation(f: Any) -> Any:
    """What a task's function says of its state."""
    try:
        hints = typing.get_type_hints(f)
        first = next(iter(inspect.signature(f).parameters))
    except Exception:  # no annotations, or names that are not there
        return None
    return hints.get(first)


def _named(annotation: Any) -> Iterator[type]:
    """The types that a value of this annotation surely is of, or holds if it holds anything; what is open is left
    out."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return
    for part in typing.get_args(annotation):
        yield from _named(part)
    if origin is not None and origin not in (types.UnionType, typing.Union):
        yield from _named(origin)
    if isinstance(annotation, type) and origin is None and not _open(annotation):
        yield annotation


def _open(cls: type) -> bool:
    """Whether a value may be of another class than it is annotated with."""
    return cls in (object, typing.Any) or isinstance(cls, abc.ABCMeta) or bool(type.__subclasses__(cls))
