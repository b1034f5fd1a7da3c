"""A trace is its function: the same values, and failures in the same places, however it is run."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pellucid import (
    DataError,
    Late,
    PipelineError,
    StepError,
    Stream,
    TypeMismatch,
    Windowed,
    apply,
    as_of,
    iterate,
    join,
    pipeline,
)
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, TupleType, Type, type_of
from tests.expr import functions as fs
from tests.expr.compare import Compiled, agree, arguments, evaluated, plain, values
from tests.expr.written import Program
from tests.volumes import some_seeds, volumes


@pytest.mark.seeded
@volumes(40, 150)
@pytest.mark.parametrize("name", fs.SHAPES)
def test_trace_and_plain_code_equal_the_function(name: str, examples: int) -> None:
    f, params, strict = fs.SHAPES[name]
    made = Function.make(f, params)
    assert made.traced is not None, made.reason
    traced = made.traced
    code = Compiled(traced, numba=False)

    @settings(max_examples=examples)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        want = plain(f, traced, args)
        got = evaluated(traced, args)
        assert agree(want, got, strict=strict), (want, got)
        assert agree(code(args), got, strict=strict), code.text

    same()


@pytest.mark.seeded
@pytest.mark.parametrize(
    ("f", "params"),
    [(fs.running_mean, (TupleType((INT, INT)), INT)), (fs.split, (INT, INT))],
    ids=["running_mean", "split"],
)
def test_tasks(f: Callable[..., Any], params: tuple[Type, ...]) -> None:
    traced = trace(f, params, task=True)
    code = Compiled(traced, numba=False)

    @settings(max_examples=150)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        assert plain(f, traced, args) == evaluated(traced, args) == code(args)

    same()


COMPILED = [
    "floor_division", "true_division", "mixed_arithmetic", "float_floor_division", "int_against_float", "shift_left",
    "match_on_record", "text_equality", "early_raise", "boolean_arithmetic",
]  # fmt: skip


@pytest.mark.seeded
@pytest.mark.numba
@pytest.mark.parametrize("name", COMPILED)
def test_machine_code_equals_the_function(name: str) -> None:
    f, params, strict = fs.SHAPES[name]
    traced = trace(f, params)
    code = Compiled(traced, numba=True)

    @settings(max_examples=100)
    @given(arguments(params))
    def same(args: tuple[Any, ...]) -> None:
        want = plain(f, traced, args)
        assert agree(want, code(args), strict=strict), (want, code(args))

    same()


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(40, 100))
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    f = program.function()
    try:
        traced = trace(f, program.params)
    except Untraceable as refused:
        why = refused.reason
        assert why == "raises on every path" or "64 bits" in why or "paths" in why
        return
    code = Compiled(traced, numba=False)

    @settings(max_examples=25, phases=[Phase.explicit, Phase.generate])
    @given(arguments(program.params))
    def same(args: tuple[Any, ...]) -> None:
        want, got = plain(f, traced, args), evaluated(traced, args)
        assert agree(code(args), got, strict=False), program.text
        # Constants and Booleans are plain ints, so plain Python may pass 2**63 on its way where the trace says
        # overflow.
        assert agree(want, got, strict=False) or got == ("overflow",), (want, got, program.text)

    same()


# ---------------------------------------------------------------- what once went wrong


@pytest.mark.parametrize(
    ("f", "params", "args", "want"),
    [
        (lambda v: 1 if v == fs.Level.HIGH else 0, (INT,), (200,), "1"),  # an IntEnum is its number
        (lambda s: 1 if s == fs.Word.BUY else 0, (STR,), ("buy",), "1"),
        (lambda v: (2 if (v > 3) is True else 3) if v > 50_000 else 0, (INT,), (60_000,), "2"),
        (lambda v, b: 1 if v == 60_000 and _is_true(b) else 0, (INT, BOOL), (60_000, True), "1"),  # `is` in a helper
        (lambda v: max((k for k in (1, 2, 3)), default=0) if v == 60_000 else 1, (INT,), (60_000,), "3"),
        (lambda v: min(k for k in (4, v)) if v == 60_000 else 1, (INT,), (60_000,), "4"),
        (lambda f: f < 2**63 + 1, (FLOAT,), (2.0**63,), "True"),  # exact, also beyond 64 bits
        (lambda f: f < 10**400, (FLOAT,), (math.inf,), "False"),
        (lambda f: 10**400 > f, (FLOAT,), (1e308,), "True"),
    ],
)
def test_regressions(f: Callable[..., Any], params: tuple[Type, ...], args: tuple[Any, ...], want: str) -> None:
    traced = trace(f, params)
    assert plain(f, traced, args) == evaluated(traced, args) == ("value", want)


def _is_true(b: bool) -> bool:
    return b is True


def test_paths_that_cannot_be_are_not_taken() -> None:
    def sign(v: int) -> int:  # type: ignore[return]
        if v > 0:
            return 1
        elif v <= 0:
            return 0

    assert str(trace(sign, (INT,)).outputs[0]) == "1 if v0 > 0 else 0"
    assert str(trace(fs.early_returns, (INT, INT)).outputs[0]) == "0 if v0 == v1 else 1 if v1 < v0 else -1"


Month = enum.Enum("Month", "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC ANY")


class Span(NamedTuple):
    first: Month
    last: Month
    due: Month
    n: int


@dataclasses.dataclass(frozen=True)
class Range:
    first: Month
    last: Month
    due: Month
    n: int


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda e: e.n, "v3"),
        (lambda e: e, "v0 v1 v2 v3"),
        (lambda e: dataclasses.replace(e, n=1) if isinstance(e, Range) else e._replace(n=1), "v0 v1 v2 1"),
        (lambda e: e.last == Month.JAN, "v1 == Month.JAN"),
        (lambda e: (e.due, e.n), "v2 v3"),
    ],
)
@pytest.mark.parametrize("cls", [Span, Range])
def test_an_enum_is_tested_where_it_is_read(cls: type, f: Callable[..., Any], want: str) -> None:
    assert " ".join(map(str, trace(f, (type_of(cls),)).outputs)) == want


@pytest.mark.parametrize(
    "f",
    [
        lambda e: e[2] == fs.Side.BUY,
        lambda e: e[-1:] == (fs.Side.BUY,),
        lambda e: [s for _, _, s in (e,)] == [fs.Side.BUY],
        lambda e: e._asdict()["side"] == fs.Side.BUY,
        lambda e: (1, *e)[3] == fs.Side.BUY,
        lambda e: ((1,) + e)[3] == fs.Side.BUY,
        lambda e: (2 * e)[5] == fs.Side.BUY,
        lambda e: f"{e.side}" == "Side.BUY",
        lambda e: fs.Side.BUY in e[2:],
        lambda e: {fs.Side.BUY: True}.get(e.side, False),
    ],
)
def test_each_way_to_read_a_field_tests_it(f: Callable[..., Any]) -> None:
    assert str(trace(f, (fs.TRADE,)).outputs[0]) == "v2 == Side.BUY"


def test_floats_may_be_neither_less_nor_more() -> None:
    traced = trace(fs.float_branches, (FLOAT, FLOAT))
    assert evaluated(traced, (math.nan, 1.0)) == ("value", "4")


# ---------------------------------------------------------------- the primitives of compiled code


@pytest.fixture(scope="module")
def prims() -> Any:
    return pytest.importorskip("pellucid.internal.engine.kernel.prims")


SMALL = [*range(-9, 10), 2**53 - 1, 2**53, 2**53 + 1, 2**62, INT_MAX - 1, INT_MAX, INT_MIN, INT_MIN + 1]
FLOATS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.5, 1e-320, 5e-324, 1e16, 2.0**53, 2.0**62, 2.0**63, 1e300, math.inf]
FLOATS = [s * f for f in FLOATS for s in (1.0, -1.0)]


@pytest.mark.numba
def test_small_values(prims: Any) -> None:
    for a in SMALL:
        for b in SMALL:
            if b:
                assert prims._idiv(a, b) == a / b, (a, b)
        for s in range(-2, 70):
            _check_shl(prims, a, s)
        for f in FLOATS:
            _check_compare(prims, a, f)
    for x in FLOATS:
        for y in FLOATS:
            if y:
                _check_floats(prims, x, y)
        _check_round(prims, x)


@pytest.mark.numba
@settings(max_examples=250)
@given(values(INT), values(INT), values(FLOAT), values(FLOAT), st.integers(-3, 80))
def test_random_values(a: int, b: int, x: float, y: float, s: int) -> None:
    from pellucid.internal.engine.kernel import prims

    if b:
        assert prims._idiv(a, b) == a / b
    _check_shl(prims, a, s)
    _check_compare(prims, a, x)
    if y:
        _check_floats(prims, x, y)
    _check_round(prims, x)
    _check_round(prims, y)


def _check_shl(prims: Any, a: int, s: int) -> None:
    if s < 0:
        want = (0, 2)
    elif not INT_MIN <= a << s <= INT_MAX:
        want = (0, 1)
    else:
        want = (a << s, 0)
    assert prims._shl(a, s) == want, (a, s)


def _check_compare(prims: Any, i: int, f: float) -> None:
    assert (prims._lt_if(i, f), prims._le_if(i, f), prims._eq_if(i, f)) == (i < f, i <= f, i == f), (i, f)
    assert (prims._lt_fi(f, i), prims._le_fi(f, i), prims._eq_fi(f, i)) == (f < i, f <= i, f == i), (i, f)
    if not math.isnan(f):
        assert prims._cmp_if(i, f) == (i > f) - (i < f)


def _check_floats(prims: Any, x: float, y: float) -> None:
    assert repr(float(prims._ffloordiv(x, y))) == repr(x // y), (x, y)
    assert repr(float(prims._fmod(x, y))) == repr(x % y), (x, y)


def _check_round(prims: Any, x: float) -> None:
    for name, f in (
        ("_trunc", math.trunc),
        ("_floor", math.floor),
        ("_ceil", math.ceil),
        ("_nearest", round),
        ("_to_int", math.trunc),
    ):
        try:
            want = (f(x), 0) if INT_MIN <= f(x) <= INT_MAX else (0, 1)
        except (ValueError, OverflowError):
            want = (0, 2)
        assert getattr(prims, name)(x) == want, (name, x)


# A function that is wrong is reported where the pipeline is built, with the field or name that was meant; one that only
# cannot be traced is not.

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
PAIR = "must return a pair (state, [events]), but returns"
FAILS = "fails on every event that was tried, such as 1:"
DECLARE = (
    "(HERE). Correct it; if it works on other events, the type of its result must be given: annotate it (-> float) or "
    "pass to=…"
)
#: How a pipeline is built, of which events, which step is wrong, and the message about its function.
WRONG: list[tuple[Callable[[Any], Any], Any, str, str]] = [
    (lambda x: x.map(lambda v: v.dep_dely), Flight, "map (HERE)", FIELD),
    (lambda x: x.map(lambda v: v.dep_dely, to=int, id="delay"), Flight, "step 'delay' (map, HERE)", FIELD),
    (lambda x: x.map(helper, to=int), Flight, "map (HERE)", FIELD),
    (lambda x: x.cumulate(lambda t, v: t + v.dep_dely, start=0), Flight, "cumulate (HERE)", FIELD),
    (lambda x: apply(lambda a, b: a.dep_delay - b.dep_dely, x, x.trim(1)), Flight, "apply (HERE)", FIELD),
    (lambda x: x.task(lambda s, v: (s, [v.dep_dely]), initial=0), Flight, "task (HERE)", FIELD),
    (lambda x: x.window(2, lambda w: w.map(lambda v: v.dep_dely)), Flight, "map (HERE)", FIELD),
    (lambda x: x.map(lambda v: v.dep_dely if v.dep_delay > 10**6 else 0), Flight, "map (HERE)", FIELD),
    (
        lambda x: x.map(lambda v: v.double), Bag, "map (HERE)",
        "reads the field 'double' (HERE), which Bag does not have: its only field is weight",
    ),
    (
        lambda x: x.map(lambda v: v.colour is Colour.REED), Flight, "map (HERE)",
        "asks for Colour.REED (HERE), but the members of Colour are RED, BLUE; did you mean 'RED'?",
    ),
    (
        lambda x: x.map(lambda v: v.colour.nam), Flight, "map (HERE)",
        "asks a Colour for 'nam' (HERE), which it does not have; did you mean 'name'?",
    ),
    (
        lambda x: x.map(lambda v: v.carrier.uper(), to=str), Flight, "map (HERE)",
        "asks an event's str for 'uper' (HERE), which it does not have; did you mean 'upper'?",
    ),
    (lambda x: x.task(lambda s, v: [v], initial=0), int, "task (HERE)", f"{PAIR} a list of 1"),
    (lambda x: x.task(lambda s, v: s + v, initial=0, to=int), int, "task (HERE)", f"{PAIR} an int"),
    (
        lambda x: x.task(lambda s, v: (s, v), initial=0), int, "task (HERE)",
        f"{PAIR} a tuple whose second item is an int instead of a list",
    ),
    (lambda x: x.task(lambda s, v: (s, [v], 1), initial=0), int, "task (HERE)", f"{PAIR} a tuple of 3"),
    (lambda x: x.task(lambda s, v: (s, [v]) if v else None, initial=0), int, "task (HERE)", f"{PAIR} None"),
    (
        lambda x: x.map(lambda v: math.squirt(v)), int, "map (HERE)",  # type: ignore[attr-defined]
        f"{FAILS} AttributeError: module 'math' has no attribute 'squirt' {DECLARE}",
    ),
    (
        lambda x: x.map(lambda v: v + "a"), int, "map (HERE)",
        f"{FAILS} TypeError: unsupported operand type(s) for +: 'int' and 'str' {DECLARE}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("build", "t", "step", "message"), WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_reported_where_the_pipeline_is_built(
    build: Callable[[Any], Any], t: Any, step: str, message: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        pipeline(build, x=t)
    who = "helper()" if "helper" in build.__code__.co_names else "this lambda"
    assert re.sub(r"test_trace\.py:\d+", "HERE", str(caught.value)) == f"{step}: {who} {message}"


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
    "class method": Fetcher.several,
    "partial": functools.partial(waits, 1),
    "decorated": _wrapped(waits),
    "lambda": lambda *args: waits(*args),
    "inside a tuple": lambda *args: (1, waits(*args)),
    "one path": lambda *args: waits(*args) if args[-1] > 3 else args[-1],
}
TAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda x, f: x.map(f, to=int),
    "filter": lambda x, f: x.filter(f),
    "key_by": lambda x, f: x.key_by(f, to=int).cumulate(lambda n, e: n + 1, start=0),
    "task": lambda x, f: x.task(f, 0, to=int),
    "task with any state": lambda x, f: x.task(f, {}, to=int),
    "on_time": lambda x, f: x.at(lambda v: v).task(lambda s, v: (s, [1], [v]), 0, on_time=f, to=int),
    "explode": lambda x, f: x.explode(f, to=int),
    "apply": lambda x, f: apply(f, x, x, to=int),
    "at": lambda x, f: x.at(f, to=int).tumbling(1, lambda w: w),
    "inside a window": lambda x, f: x.window(2, lambda w: w.map(f, to=int)),
    "a window": lambda x, f: x.window(2, f),
    "a loop": lambda x, f: iterate(x, f),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("taker", TAKERS)
def test_a_function_whose_call_does_not_run_it_is_refused_when_the_pipeline_is_built(taker: str) -> None:
    messages = r"is an async function|is a generator function|returns a coroutine|returns a generator"
    for kind, f in UNDONE.items():
        later = taker == "task with any state"  # there, functions are not called while the pipeline is built
        other = taker in ("a window", "a loop", "filter")  # a stream is asked for its truth; a tuple is true
        if (later and kind in list(UNDONE)[6:]) or (other and kind in ("inside a tuple", "one path")):
            continue
        with pytest.raises(PipelineError, match=messages):
            pipeline(lambda x, f=f: TAKERS[taker](x, f), x=int)


def test_a_pipeline_is_no_async_function() -> None:
    async def late(x: Any) -> Any:
        return x

    with pytest.raises(PipelineError, match="pipeline late is an async function"):
        pipeline(late, x=int)
    with pytest.raises(PipelineError, match="pipeline pipeline returns a coroutine"):
        pipeline(lambda x: late(x), x=int)


def test_what_is_seen_only_when_it_runs_is_refused_there() -> None:
    """A filter takes nothing for true that is never run."""
    p = pipeline(lambda x: x.filter(lambda v: (i for i in range(v))), x=int)
    with pytest.raises(StepError, match="found a generator, which is never run"):
        p([1])


# Records that a join did not find: a function that asks whether one is None is refused, as it never is; one that asks
# for its fields, or hands it on, is not.  And how such a result is declared.


class Trade(NamedTuple):
    at: int
    price: float


@dataclasses.dataclass(frozen=True)
class Quote:
    at: int
    price: float


TRADES = [Trade(1, 2.0), Trade(5, 3.0)]
QUOTES = [Quote(2, 1.0)]


def after(f: Callable[[Any], Any], **more: Any) -> list[Any]:
    built = pipeline(lambda t, q: as_of(t.at("at"), q.at("at")).map(f, **more), t=Trade, q=Quote)
    return list(built(TRADES, QUOTES))


def looked_up(both: Any) -> str:
    """Not traced: a dictionary is asked for by what an event has."""
    return {True: "none", False: "some"}[bool(both[1] is None)] + str(both[0])


ASKING: list[Callable[[Any], Any]] = [
    lambda both: both[1] is None,
    lambda both: both[1] is not None and both[0].at > 0,
    lambda both: both[1].price if both[1] else 0.0,
    lambda both: 0.0 if both[1] is None else (both[1].price if both[1].price is not None else -1.0),
    looked_up,
    lambda both: len([side for side in both if side is not None]),
    lambda both: both[1] == None,  # noqa: E711
]


@pytest.mark.parametrize("f", ASKING)
def test_a_function_that_asks_whether_a_record_is_none_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(PipelineError) as caught:
        after(f)
    said = str(caught.value)
    assert "asks whether the Quote in an event is None, or true, and a record always is there" in said
    assert "where a join found no match, each of its fields is None; ask for one of them, as in e[1].at is None" in said
    assert said.startswith("map (test_trace.py:")


@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda both: both[1].at is None, [True, False]),
        (lambda both: both[1] is None or both[1].at is None, [True, False]),
        (lambda both: both[1].price if both[1].price is not None else 0.0, [0.0, 1.0]),
        (lambda both: (both[0].at, both[1]), [(1, Quote(None, None)), (5, Quote(2, 1.0))]),  # type: ignore[arg-type]
        (lambda both: both[0].at, [1, 5]),
    ],
)
def test_others_are_not(f: Callable[[Any], Any], found: list[Any]) -> None:
    assert after(f) == found


@pytest.mark.parametrize(
    "f",
    [
        lambda both: str(both[1]),
        lambda both: f"{both[1]!r} of {both[0]}",
        lambda both: json.dumps(both[1].price) + type(both[1]).__name__,
        lambda both: json.dumps(both[0]) + str(isinstance(both[1], Quote)),
    ],
)
def test_one_that_shows_a_record_does_not_ask(f: Callable[[Any], Any]) -> None:
    assert len(after(f, to=str)) == 2


def test_a_tuple_is_never_none_either() -> None:
    with pytest.raises(PipelineError, match=r"asks whether a tuple in an event is None.*as in e\[0\]\[0\] is None"):
        pipeline(
            lambda x, y: join(x.at(lambda e: e[0]), y.at(lambda e: e[0]), within=1, how="full").filter(
                lambda both: both[0] is None
            ),
            x=tuple[int, str],
            y=tuple[int, str],
        )


def test_what_a_join_may_not_find_is_declared_with_none() -> None:
    @pipeline
    def found(t: Stream[Trade], q: Stream[Quote]) -> Stream[tuple[Trade, Quote | None]]:
        return as_of(t.at("at"), q.at("at"))

    assert found(TRADES, QUOTES)[1] == (Trade(5, 3.0), Quote(2, 1.0))
    with pytest.raises(TypeMismatch, match=r"what a join may not find is declared as its type \| None"):

        @pipeline
        def wrong(t: Stream[Trade], q: Stream[Quote]) -> Stream[tuple[Trade, Quote]]:
            return as_of(t.at("at"), q.at("at"))


class Seen(NamedTuple):
    at: int
    quote: Quote | None


NOBODY = Quote(None, None)  # type: ignore[arg-type]


def test_a_record_that_may_be_missing_comes_in_as_one_that_a_join_did_not_find() -> None:
    """As a field, as an item and as the whole event: None in its place is the record with None in each field."""
    field = pipeline(lambda x: x.map(lambda e: (e.at, e.quote.price)), x=Seen)
    assert field([Seen(1, None), Seen(2, Quote(3, 4.0)), Seen(5, NOBODY)]) == [(1, None), (2, 4.0), (5, None)]
    handed = pipeline(lambda x: x.map(lambda e: e[1]), x=tuple[int, Quote | None])
    assert handed([(1, None), (2, Quote(3, 4.0))]) == [NOBODY, Quote(3, 4.0)]
    whole = pipeline(lambda x: x.filter(lambda q: q.at is not None), x=Quote | None)
    assert whole([None, Quote(3, 4.0), NOBODY]) == [Quote(3, 4.0)]
    timed = pipeline(lambda x: x.filter(lambda q: q.at is not None).at("at").tumbling(5, lambda w: w), x=Quote | None)
    assert timed([None, Quote(3, 4.0)]) == [(0, 5, Quote(3, 4.0))]


def test_what_a_join_puts_out_goes_into_the_next_pipeline() -> None:
    found = pipeline(lambda t, q: as_of(t.at("at"), q.at("at")), t=Trade, q=Quote)(TRADES, QUOTES)
    later = pipeline(lambda x: x.map(lambda both: both[1].at), x=tuple[Trade, Quote | None])
    assert later(found) == [None, 2]


def test_a_table_with_nulls_in_all_fields_of_a_record() -> None:
    quotes = pa.array([None, {"at": 2, "price": 1.0}], pa.struct([("at", pa.int64()), ("price", pa.float64())]))
    later = pipeline(lambda x: x.map(lambda e: (e.at, e.quote.price)), x=Seen)
    assert later(pa.table({"at": [1, 5], "quote": quotes})).to_pydict() == {"out_0": [1, 5], "out_1": [None, 1.0]}


def test_only_where_it_is_declared() -> None:
    class Open(NamedTuple):
        """All of it may be None, and still it is there."""

        at: int | None

    plain = pipeline(lambda x: x, x=Open)
    with pytest.raises(DataError, match="expected Open, found NoneType None"):
        plain([None])
    with pytest.raises(PipelineError, match="asks whether the Quote in an event is None, or true"):
        pipeline(lambda x: x.map(lambda e: e.quote is None), x=Seen)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (Late[Trade, int], r"Late\[Trade, int\]: the type of the times comes first, .* as in Late\[int, Trade\]"),
        (Late[float, int], r"Late\[float, int\]: the type of the times comes first"),
        (Windowed[Trade, float], r"Windowed\[Trade, float\]: the type .* as in Windowed\[datetime, float\]"),
    ],
)
def test_the_type_of_times_comes_first(declared: Any, said: str) -> None:
    def late(x: Any) -> Any:
        return x.at("at").tumbling(5, lambda w: w).late

    late.__annotations__ = {"x": Stream[Trade], "return": Stream[declared]}
    with pytest.raises(TypeMismatch, match=rf"pipeline late declares {said}"):
        pipeline(late)
    with pytest.raises(TypeMismatch, match=rf"the source 'x': {said}"):
        pipeline(lambda x: x, x=declared)
