"""A function that is wrong is told where the pipeline is built, with the field or name that was meant; one that only
cannot be traced is not."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from pellucid import PipelineError, StepError, apply, iterate, pipeline

LABELS = {"a": 1}


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Plane(NamedTuple):
    seats: int


class Flight(NamedTuple):
    dep_delay: int
    colour: Colour
    plane: Plane
    carrier: str

    @property
    def late(self) -> bool:
        return self.dep_delay > 15


@dataclass(frozen=True)
class Bag:
    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", self.weight * 2)


def helper(v: Any) -> Any:
    return v.dep_dely


FIELD = (
    "reads the field 'dep_dely' (HERE), which Flight does not have: its fields are dep_delay, colour, plane, "
    "carrier; did you mean 'dep_delay'?"
)
WRONG: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda x: x.map(lambda v: v.dep_dely), Flight, f"map (HERE): this lambda {FIELD}"),
    (
        lambda x: x.map(lambda v: v.dep_dely, to=int, id="delay"),
        Flight,
        f"step 'delay' (map, HERE): this lambda {FIELD}",
    ),
    (lambda x: x.map(helper, to=int), Flight, f"map (HERE): helper() {FIELD}"),
    (lambda x: x.filter(lambda v: v.dep_dely > 3), Flight, f"filter (HERE): this lambda {FIELD}"),
    (lambda x: x.cumulate(lambda t, v: t + v.dep_dely, start=0), Flight, f"cumulate (HERE): this lambda {FIELD}"),
    (lambda x: x.key_by(lambda v: v.dep_dely), Flight, f"key_by (HERE): this lambda {FIELD}"),
    (
        lambda x: apply(lambda a, b: a.dep_delay - b.dep_dely, x, x.trim(1)),
        Flight,
        f"apply (HERE): this lambda {FIELD}",
    ),
    (lambda x: x.task(lambda s, v: (s, [v.dep_dely]), initial=0), Flight, f"task (HERE): this lambda {FIELD}"),
    (lambda x: x.window(2, lambda w: w.map(lambda v: v.dep_dely)), Flight, f"map (HERE): this lambda {FIELD}"),
    (lambda x: x.map(lambda v: v.dep_dely if v.dep_delay > 10**6 else 0), Flight, f"map (HERE): this lambda {FIELD}"),
    (
        lambda x: x.map(lambda v: v.plane.seat),
        Flight,
        "map (HERE): this lambda reads the field 'seat' (HERE), which "
        "Plane does not have: its only field is seats; did you mean "
        "'seats'?",
    ),
    (
        lambda x: x.map(lambda v: v.double),
        Bag,
        "map (HERE): this lambda reads the field 'double' (HERE), which Bag does not have: its only field is weight",
    ),
    (
        lambda x: x.map(lambda v: v.colour is Colour.REED),
        Flight,
        "map (HERE): this lambda asks for Colour.REED (HERE), "
        "but the members of Colour are RED, BLUE; did you "
        "mean 'RED'?",
    ),
    (
        lambda x: x.map(lambda v: v.colour.nam),
        Flight,
        "map (HERE): this lambda asks a Colour for 'nam' (HERE), which it does not have; did you mean 'name'?",
    ),
    (
        lambda x: x.map(lambda v: v.carrier.uper(), to=str),
        Flight,
        "map (HERE): this lambda asks an event's str for 'uper' (HERE), which it does not have; did you mean 'upper'?",
    ),
    (
        lambda x: x.filter(lambda v: v.real_part > 0),
        int,
        "filter (HERE): this lambda asks an event's int for "
        "'real_part' (HERE), which it does not have; did you mean "
        "'real'?",
    ),
    (
        lambda x: x.task(lambda s, v: [v], initial=0),
        int,
        "task (HERE): this lambda must return a pair (state, [events]), but returns a list of 1",
    ),
    (
        lambda x: x.task(lambda s, v: s + v, initial=0, to=int),
        int,
        "task (HERE): this lambda must return a pair (state, [events]), but returns an int",
    ),
    (
        lambda x: x.task(lambda s, v: (s, v), initial=0),
        int,
        "task (HERE): this lambda must return a pair (state, "
        "[events]), but returns a tuple whose second item is an "
        "int instead of a list",
    ),
    (
        lambda x: x.task(lambda s, v: (s, [v], 1), initial=0),
        int,
        "task (HERE): this lambda must return a pair (state, [events]), but returns a tuple of 3",
    ),
    (
        lambda x: x.task(lambda s, v: None, initial=0),
        int,
        "task (HERE): this lambda must return a pair (state, [events]), but returns None",
    ),
    (
        lambda x: x.task(lambda s, v: (s, [v]) if v else None, initial=0),
        int,
        "task (HERE): this lambda must return a pair (state, [events]), but returns None",
    ),
    (
        lambda x: x.map(lambda v: math.squirt(v)),
        int,
        "map (HERE): this lambda fails on every event that was tried, "
        "such as 1: AttributeError: module 'math' has no attribute "
        "'squirt' (HERE). "  # type: ignore[attr-defined]
        "Correct it; if it works on other events, the type of its result must be given: annotate it (-> float) or pass "
        "to=…",
    ),
    (
        lambda x: x.map(lambda v: v + "a"),
        int,
        "map (HERE): this lambda fails on every event that was tried, such as 1: "
        "TypeError: unsupported operand type(s) for +: 'int' and 'str' (HERE). "
        "Correct it; if it works on other events, the type of its result must be given: annotate it (-> float) or pass "
        "to=…",
    ),
]


@pytest.mark.parametrize(("build", "t", "said"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_told_where_it_is_built(build: Callable[[Any], Any], t: Any, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        pipeline(build, x=t)
    assert re.sub(r"test_mistakes\.py:\d+", "HERE", str(caught.value)) == said


def upper(v: Any) -> int:
    """Takes another way on what is no int: a symbolic value, but no event."""
    return v + 1 if isinstance(v, int) else v.value


STILL_RUN: list[tuple[Callable[[Any], Any], Any, list[Any], list[Any]]] = [
    (lambda x: x.map(lambda v: v.carrier.upper(), to=str), Flight, [Flight(1, Colour.RED, Plane(2), "ua")], ["UA"]),
    (lambda x: x.map(lambda v: getattr(v, "dep_dely", 7)), Flight, [Flight(1, Colour.RED, Plane(2), "ua")], [7]),
    (lambda x: x.map(lambda v: 1 if v.late else 0), Flight, [Flight(16, Colour.RED, Plane(2), "ua")], [1]),
    (lambda x: x.map(upper), int, [1], [2]),
    (lambda x: x.map(lambda s: LABELS[s], to=int), str, ["a"], [1]),
    (lambda x: x.task(lambda s, v: (s, [LABELS[v]]), initial=0, to=int), str, ["a"], [1]),
]


@pytest.mark.parametrize(("build", "t", "events", "out"), STILL_RUN, ids=range(len(STILL_RUN)))
def test_what_is_only_not_traced_still_runs(
    build: Callable[[Any], Any], t: Any, events: list[Any], out: list[Any]
) -> None:
    assert pipeline(build, x=t)(events) == out


def test_a_task_with_a_state_of_any_kind_is_told_at_its_first_event() -> None:
    p = pipeline(lambda x: x.task(lambda s, v: [v], initial=[], to=int), x=int)
    with pytest.raises(StepError, match=r"a task must return \(state, \[events\]\), a list of them, found \[1\]"):
        p([1])


# ---------------------------------------------------------------- functions whose call does not run them


async def waits(*args: Any) -> Any:
    return args[-1]


def yields(*args: Any) -> Any:
    yield args[-1]


async def streams(*args: Any) -> Any:
    yield args[-1]


class Fetcher:
    async def __call__(self, *args: Any) -> Any:
        return args[-1]

    async def fetch(self, *args: Any) -> Any:
        return args[-1]

    @classmethod
    def several(cls, *args: Any) -> Any:
        yield args[-1]


def _wrapped(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def inner(*args: Any) -> Any:
        return f(*args)

    return inner


UNDONE: dict[str, Any] = {
    "async": waits,
    "generator": yields,
    "async generator": streams,
    "callable object": Fetcher(),
    "method": Fetcher().fetch,
    "class method": Fetcher.several,
    "partial": functools.partial(waits, 1),
    "partial of an object": functools.partial(Fetcher(), 1),
    "decorated": _wrapped(waits),
    "decorated generator": _wrapped(yields),
    "lambda": lambda *args: waits(*args),
    "inside a tuple": lambda *args: (1, waits(*args)),
    "one path": lambda *args: waits(*args) if args[-1] > 3 else args[-1],
}
UNDONE_TAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda x, f: x.map(f, to=int),
    "map without to": lambda x, f: x.map(f),
    "filter": lambda x, f: x.filter(f),
    "key_by": lambda x, f: x.key_by(f, to=int).cumulate(lambda n, e: n + 1, start=0),
    "cumulate": lambda x, f: x.cumulate(f, start=0, to=int),
    "task": lambda x, f: x.task(f, 0, to=int),
    "task with any state": lambda x, f: x.task(f, {}, to=int),
    "on_time": lambda x, f: x.at(lambda v: v).task(lambda s, v: (s, [1], [v]), 0, on_time=f, to=int),
    "explode": lambda x, f: x.explode(f, to=int),
    "apply": lambda x, f: apply(f, x, x, to=int),
    "at": lambda x, f: x.at(f, to=int).tumbling(1, lambda w: w),
    "dedup": lambda x, f: x.at(lambda v: v).dedup(by=f, within=1, to=int),
    "inside a window": lambda x, f: x.window(2, lambda w: w.map(f, to=int)),
    "a window": lambda x, f: x.window(2, f),
    "a loop": lambda x, f: iterate(x, f),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("taker", UNDONE_TAKERS)
@pytest.mark.parametrize("kind", UNDONE)
def test_a_function_whose_call_does_not_run_it_is_refused_when_the_pipeline_is_built(kind: str, taker: str) -> None:
    later = taker == "task with any state"  # there, functions are not called while the pipeline is built
    other = taker in ("a window", "a loop", "filter")  # a stream is asked for its truth; a tuple is true
    if (later and kind in list(UNDONE)[8:]) or (other and kind in ("inside a tuple", "one path")):
        return
    said = r"is an async function|is a generator function|returns a coroutine|returns a generator"
    with pytest.raises(PipelineError, match=said):
        pipeline(lambda x: UNDONE_TAKERS[taker](x, UNDONE[kind]), x=int)


def test_a_pipeline_is_no_async_function() -> None:
    async def late(x: Any) -> Any:
        return x

    with pytest.raises(PipelineError, match="pipeline late is an async function"):
        pipeline(late, x=int)
    with pytest.raises(PipelineError, match="pipeline pipeline returns a coroutine"):
        pipeline(lambda x: late(x), x=int)


def test_what_is_seen_only_when_it_runs_is_refused_there() -> None:
    """A filter takes nothing for true that nobody runs."""
    p = pipeline(lambda x: x.filter(lambda v: (i for i in range(v))), x=int)
    with pytest.raises(StepError, match="found a generator, which nobody runs"):
        p([1])
