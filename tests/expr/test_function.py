from __future__ import annotations

import datetime
import functools
import itertools
import math
import os
import random
import re
import subprocess
import sys
import time
import types
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pellucid import PipelineError, TypeMismatch, apply, pipeline
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.trace import _Explorer, trace
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, TupleType, Type
from tests.expr.functions import Side


def test_call_conforms_the_result() -> None:
    assert repr(Function.make(lambda v: v > 3 and v, (INT,)).call(2)) == "0"
    assert repr(Function.make(lambda v: v if v > 3 else 0.5, (INT,)).call(7)) == "7.0"
    assert Function.make(lambda v: [] if v else "x", (INT,), truth=True).call(0) is True


def test_names_and_places() -> None:
    def double(v: int) -> int:
        return v * 2

    f = Function.make(double, (INT,))
    assert (str(f), f.name) == ("double", "double()") and f.where.startswith("test_function.py:")
    assert Function.make(lambda v: v, (INT,)).name == "a lambda"
    assert Function.make(abs, (INT,)).where == "built in"


def test_arity_is_checked_first() -> None:
    with pytest.raises(
        PipelineError, match=r"the function <lambda> gets 2 arguments here, but: too many positional arguments"
    ):
        Function.make(lambda v: v, (INT, INT))

    def f(a: int, b: int) -> int:
        return a + b

    with pytest.raises(
        PipelineError, match=r"the function f gets 1 argument here, but: missing a required argument: 'b'"
    ):
        Function.make(f, (INT,))
    with pytest.raises(PipelineError, match="expected a function, found int 3"):
        Function.make(3, (INT,))  # type: ignore[arg-type]


def test_equal_meaning_equal_digest() -> None:
    def clamp(v: int) -> int:
        if v < 0:
            return 0
        return v

    one = Function.make(clamp, (INT,)).digest
    assert one == Function.make(lambda v: 0 if v < 0 else v, (INT,)).digest
    assert one != Function.make(lambda v: 0 if v < 1 else v, (INT,)).digest
    assert Function.make(lambda v: v, (INT,)).digest != Function.make(lambda v: v, (FLOAT,)).digest
    assert Function.make(functools.partial(pow, 2), (INT,), to=INT).digest != one


SCRIPT = """
from pellucid.internal.expr.evaluate import Overflow64
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import STR
print(Function.make(lambda s: s.upper() in {"a", "b", "c", "d", "e"}, (STR,), truth=True).digest)
"""


def test_digest_of_an_opaque_function_is_the_same_in_every_process() -> None:
    def digest(seed: str) -> str:
        import os

        env: dict[str, Any] = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert digest("1") == digest("2")


def test_the_spot_check_catches_what_the_watch_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function whose trace is wrong at a number it mentions does not get through."""
    from pellucid.internal.expr import function as module

    def f(v: int) -> bool:
        return v == 54321

    real = module.trace
    monkeypatch.setattr(module, "trace", lambda g, params, **kw: real(lambda v: v != v, params, **kw))
    made = Function.make(f, (INT,))
    assert made.traced is None
    assert made.reason == "gives True when called with [54321] where its trace gives False"


def test_two_failures_at_once_are_no_difference() -> None:
    def f(a: int, b: int) -> int:
        q = a // b
        return a * a + q

    assert Function.make(f, (INT, INT)).traced is not None


@pytest.mark.parametrize(
    ("f", "v"),
    [
        (lambda v: int(v) * int(v) % 7, 2**40),
        (lambda v: int(v * 1e10) - int(v * 1e10), 2**40),
        (lambda v: ((v > 0) + v) - 1, 2**63 - 1),
        (lambda v: (min(2**63 - 1, v) + True) - 1, 2**63 - 1),
    ],
)
def test_an_overflow_on_the_way_counts_also_where_python_has_larger_numbers(f: Any, v: int) -> None:
    made = Function.make(f, (INT,))
    assert made.traced is not None and isinstance(made.call(1), int)
    with pytest.raises(Overflow64):
        made.call(v)


def test_filters_ask_for_truth_only() -> None:
    f = Function.make(lambda v: v % 3, (INT,), truth=True)
    assert f.result == BOOL and f.call(4) is True and f.call(3) is False


# What cannot be traced: each reason, and the proof that nothing happened while the pipeline was built.

COUNT = 0
HISTORY: list[Any] = []
TABLE: dict[Any, int] = {1: 2}
WORDS = {"a", "b"}
NESTED: dict[str, list[Any]] = {"seen": []}
NUMBERS = np.zeros(3)
TICKETS = itertools.count()
SPACE = types.SimpleNamespace(items=[])


class Counter:
    def __init__(self) -> None:
        self.n = 0
        self.items: list[Any] = []
        self.table = {"n": 0}

    def attribute(self, v: int) -> int:
        self.n += 1
        return v

    def method(self, v: int) -> int:
        self.items.append(v)
        return v

    def item(self, v: int) -> int:
        self.table["n"] += 1
        return v


COUNTER = Counter()


def set_global(v: int) -> int:
    global COUNT
    COUNT += 1
    return v


def _helper(v: Any) -> Any:
    NESTED["seen"].append(v)
    return v


def call_helper(v: int) -> int:
    return _helper(v) + 1


def with_default(v: int, seen: list[Any] = []) -> int:  # noqa: B006 - the point
    seen.append(v)
    return v


def store_item(v: int) -> int:
    HISTORY[len(HISTORY) :] = [v]
    return v


def store_key(v: int) -> int:
    TABLE["x"] = v
    return v


def store_array(v: int) -> int:
    NUMBERS[0] += 1
    return v


def in_comprehension(v: int) -> int:
    return [HISTORY.append(k) for k in (1, 2)] and v  # type: ignore[func-returns-value]


def makes_outer() -> Callable[[int], int]:
    n = 0

    def count(v: int) -> int:
        nonlocal n
        n += 1
        return v + n

    return count


def caught(v: int) -> int:
    try:
        return 10 // (v - 777)
    except ZeroDivisionError:
        return -1


def caught_all(v: int) -> int:
    try:
        return TABLE[v]
    except:  # noqa: E722
        return 0


def unbounded(v: int) -> int:
    while v > 0:
        v = v // 2
    return v


def recursive(v: int) -> int:
    return 0 if v <= 0 else 1 + recursive(v - 1)


def text_decides(v: int) -> int:
    if str(v) != "5":
        raise ValueError(f"{v}")
    return v


def _described(v: int) -> str:
    return f"<{v}>"


def text_of_helper(v: int) -> int:
    if v > 3:
        raise ValueError(_described(v))
    return v


def imports(v: int) -> int:
    import math

    return math.floor(v)


OUTSIDE = "which may read or change the outside world"
EFFECTS: list[tuple[str, Callable[..., Any], str]] = [
    ("clock", lambda v: v + int(time.time()), f"calls time.time(), {OUTSIDE}"),
    ("now", lambda v: v + datetime.datetime.now().year, f"calls datetime.now(), {OUTSIDE}"),
    ("random", lambda v: v + random.random(), f"calls Random.random(), {OUTSIDE}"),
    ("randint", lambda v: v + random.randint(1, 6), f"calls Random.getrandbits(), {OUTSIDE}"),
    ("print", lambda v: print("PRINTED") or v, f"calls print(), {OUTSIDE}"),
    ("input", lambda v: input() or v, f"calls input(), {OUTSIDE}"),
    ("open", lambda v: open("effect.txt", "w") and v, f"calls io.open(), {OUTSIDE}"),  # noqa: SIM115
    ("path", lambda v: Path("effect.txt").write_text("x") and v, f"calls posix.fspath(), {OUTSIDE}"),
    ("environment", lambda v: v + len(os.environ["HOME"]), "reads an environment variable"),
    ("hash", lambda v: hash(v), "uses hash(), which differs from process to process"),
    ("hash of a text", lambda v: v + hash("a"), "uses hash(), which differs from process to process"),
    ("process", lambda v: v + os.getpid(), "calls posix.getpid(), which differs from process to process"),
    (
        "order of a set",
        lambda v: v + len(next(iter(WORDS))),
        "depends on the order of the set WORDS, which differs from process to process (use sorted())",
    ),
    ("global", set_global, "sets the global variable 'COUNT'"),
    ("nonlocal", makes_outer(), "sets the outer variable 'n'"),
    ("attribute", COUNTER.attribute, "sets the attribute 'n'"),
    ("own list", COUNTER.method, "changes 'Counter', which it did not make"),
    ("own dict", COUNTER.item, "changes 'Counter', which it did not make"),
    (
        "append",
        lambda v: HISTORY.append(v) or v,  # type: ignore[func-returns-value]
        "changes 'HISTORY', which it did not make",
    ),
    ("comprehension", in_comprehension, "changes 'HISTORY', which it did not make"),
    ("slice", store_item, "changes 'HISTORY', which it did not make"),
    ("key", store_key, "changes 'TABLE', which it did not make"),
    (
        "nested",
        lambda v: NESTED["seen"].append(v) or v,  # type: ignore[func-returns-value]
        "changes 'NESTED', which it did not make",
    ),
    ("helper", call_helper, "changes 'NESTED', which it did not make"),
    ("namespace", lambda v: SPACE.items.append(v) or v, "changes 'SPACE', which it did not make"),
    ("default", with_default, "changes 'seen', which it did not make"),
    ("array", store_array, "may change 'NUMBERS', which it did not make"),
    ("deque", (lambda d: lambda v: d.append(v) or v)(deque()), f"calls deque.append(), {OUTSIDE}"),
    ("iterator", lambda v: v + next(TICKETS), "uses the iterator 'TICKETS', which it did not make"),
    ("setattr", lambda v: setattr(COUNTER, "n", 5) or v, f"calls setattr(), {OUTSIDE}"),
    ("key function", lambda v: max((1, 2), key=lambda k: print("PRINTED") or k) + v, f"calls print(), {OUTSIDE}"),
    ("in a generator", lambda v: max(k + random.random() for k in (1, 2)) + v, f"calls Random.random(), {OUTSIDE}"),
    ("import", imports, "imports 'math' while it runs"),
    ("try", caught, "has a 'try' or a 'with', which hides where it fails"),
    ("bare except", caught_all, "has a 'try' or a 'with', which hides where it fails"),
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Nothing that a function could do shows afterwards."""
    monkeypatch.chdir(tmp_path)

    def state() -> tuple[Any, ...]:
        lists = [list(map(id, x)) for x in (HISTORY, NESTED["seen"], COUNTER.items, SPACE.items)]
        return (
            COUNT,
            lists,
            dict(TABLE),
            COUNTER.n,
            dict(COUNTER.table),
            NUMBERS.tolist(),
            with_default.__defaults__,
            repr(TICKETS),
        )

    before = state()
    yield
    assert state() == before
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("f", "reason"), [e[1:] for e in EFFECTS], ids=[e[0] for e in EFFECTS])
def test_effects_are_refused_before_they_happen(f: Callable[..., Any], reason: str, world: Any) -> None:
    made = Function.make(f, (INT,), to=INT)
    assert made.traced is None
    assert made.reason == reason


@pytest.mark.parametrize("f", [e[1] for e in EFFECTS if e[0] not in ("try", "bare except")])
def test_effects_are_not_tried_to_find_a_type(f: Callable[..., Any], world: Any) -> None:
    if not getattr(f, "__annotations__", None):
        with pytest.raises(PipelineError, match="must be given: annotate it"):
            Function.make(f, (INT,))


def test_an_effect_behind_another_reason_is_not_run(world: Any) -> None:
    def f(v):  # type: ignore[no-untyped-def]
        text = str(v)
        print("PRINTED", text)
        return 1

    with pytest.raises(
        PipelineError,
        match=r"^f\(\) cannot be traced: it turns an event's value into text\. It can still run, but then the type of "
        r"its result must be given: annotate it \(-> float\) or pass to=…$",
    ):
        Function.make(f, (INT,))


def test_an_opaque_task_says_in_its_annotation_what_it_puts_out(world: Any) -> None:
    def seen(state: dict, v: int) -> tuple[dict, list[float]]:
        state[v] = len(state)
        return state, [state[v] / 2]

    assert Function.make(seen, (None, INT), task=True).event == FLOAT


VALUE = "uses an event's value as a dictionary key or in a set (a tuple `in (1, 2)` works)"
PURE: list[tuple[str, Callable[..., Any], tuple[Type, ...], str]] = [
    ("numpy", lambda v: np.log(v), (FLOAT,), "calls NumPy or another library that works on arrays"),
    (
        "log",
        lambda v: math.log(v),
        (FLOAT,),
        "hands an event's value to code that is not plain Python (it asked for a float)",
    ),
    ("gcd", lambda v: math.gcd(v, 4), (INT,), "uses an event's value as an index or as the bound of a loop"),
    ("upper", lambda s: s.upper(), (STR,), "uses the method str.upper"),
    ("bit_length", lambda v: v.bit_length(), (INT,), "uses the method int.bit_length"),
    ("is_integer", lambda v: v.is_integer(), (FLOAT,), "uses the method float.is_integer"),
    ("format", lambda v: f"{v}", (INT,), "turns an event's value into text"),
    (
        "percent",
        lambda v: "%d" % v,  # noqa: UP031
        (INT,),
        "hands an event's value to code that is not plain Python (it asked for an int)",
    ),
    ("text in a test", text_decides, (INT,), "turns an event's value into text"),
    ("text in a helper", text_of_helper, (INT,), "turns an event's value into text"),
    ("str", lambda v: str(v), (INT,), "turns an event's value into text"),
    ("join", lambda s: s + "!", (STR,), "uses '+' on str and str, which is not arithmetic"),
    ("len", lambda s: len(s), (STR,), "asks for the length of an event's value"),
    ("part", lambda s: s[0], (STR,), "takes a part of an event's value"),
    ("search", lambda s: "a" in s, (STR,), "searches inside an event's value"),
    ("order", lambda s: s < "b", (STR,), "orders strings; a trace can only compare them for equality"),
    ("key", lambda v: {1: 2}.get(v, 0), (INT,), VALUE),
    ("set", lambda v: v in {1, 2}, (INT,), VALUE),
    ("range", lambda v: sum(range(v)), (INT,), "uses an event's value as an index or as the bound of a loop"),
    ("index", lambda v: (1, 2, 3)[v], (INT,), "uses an event's value as an index or as the bound of a loop"),
    ("round", lambda v: round(v, 2), (FLOAT,), "calls round() with a number of digits, which only engines compute"),
    ("power", lambda v: v**0.5, (FLOAT,), "uses '**' with an exponent that is not a small whole constant"),
    (
        "float power",
        lambda v: v**2,
        (FLOAT,),
        "uses '**' on a float, whose last digit differs between engines; write x * x",
    ),
    ("exponent", lambda v: 2**v, (INT,), "uses '**' with an exponent that is not a constant"),
    ("complex", lambda v: v == 1j, (INT,), "compares with a complex number"),
    ("constant", lambda v: v + 2**63, (INT,), "uses the number 9223372036854775808, which does not fit in 64 bits"),
    ("type", lambda v: type(v) is int, (INT,), "uses type(), which cannot tell a symbolic value from a plain one"),
    (
        "class",
        lambda v: v.__class__ is int,
        (INT,),
        "uses __class__, which cannot tell a symbolic value from a plain one",
    ),
    (
        "identity",
        lambda a, b: a is b,
        (INT, INT),
        "compares with 'is', which has no meaning for numbers and text; use ==",
    ),
    (
        "while",
        unbounded,
        (INT,),
        "asks for more than 400 truth values on one path (a loop whose end depends on an event?)",
    ),
    ("recursion", recursive, (INT,), "calls itself too deeply (a recursion whose end depends on an event?)"),
    ("two types", lambda v: 1 if v == 0 else "a", (INT,), "returns int on one path and str on another"),
    (
        "two shapes",
        lambda v: (1, 2) if v == 0 else (1, 2, 3),
        (INT,),
        "returns (int, int) on one path and (int, int, int) on another",
    ),
    ("none", lambda v: None, (INT,), "returns None on every path, which is no event"),
    ("list", lambda v: [v], (INT,), "returns a list, which is no event"),
    ("object", lambda v: Counter, (INT,), "returns a type, which is no event"),
    ("always raises", lambda v: 1 // 0, (INT,), "raises on every path"),
    (
        "type error",
        lambda v: v + None,
        (INT,),
        "fails on a symbolic value: TypeError: unsupported operand type(s) for +: 'Sym' and 'NoneType'",
    ),
    (
        "attribute",
        lambda v: v.nope,
        (INT,),
        "fails on a symbolic value: AttributeError: 'int' object has no attribute 'nope'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("f", "params", "reason"), [p[1:] for p in PURE], ids=[p[0] for p in PURE])
def test_reasons(f: Callable[..., Any], params: tuple[Type, ...], reason: str) -> None:
    with pytest.raises(Untraceable) as caught:
        trace(f, params)
    assert caught.value.reason == reason
    assert not caught.value.effect


def test_a_long_loop_is_refused() -> None:
    def long(v: int) -> int:
        for _ in range(100_000):
            v = v + 1
        return v

    with pytest.raises(
        Untraceable, match=r"does more than 1,000 operations that may fail on one path \(a long loop\?\)"
    ):
        trace(long, (INT,))


def test_the_work_of_a_trace_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, runs = _Explorer.run, []

    def run(self: Any, prefix: Any) -> Any:
        runs.append(prefix)
        return plain(self, prefix)

    monkeypatch.setattr(_Explorer, "run", run)
    monkeypatch.setattr("pellucid.internal.expr.tracing.trace.MAX_WORK", 2_500)
    with pytest.raises(Untraceable, match=r"has too many paths: together they ask for more than 2,500 truth values"):
        trace(lambda v: sum(k if v % k == 1 else v for k in range(2, 102)), (INT,))
    assert len(runs) < 30  # each asks for a hundred


def test_a_task_must_return_a_pair() -> None:
    with pytest.raises(
        PipelineError, match=r"this lambda must return a pair \(state, \[events\]\), but returns an int"
    ):
        trace(lambda s, v: s + v, (INT, INT), task=True)
    with pytest.raises(Untraceable, match="emits 65 events at once; a trace takes at most 64"):
        trace(lambda s, v: (s, [v] * 65), (INT, INT), task=True)


def test_a_function_that_is_not_the_same_twice_is_refused() -> None:
    clock = iter(range(100))

    with pytest.raises(Untraceable, match="uses the iterator 'clock', which it did not make"):
        trace(lambda v: v if v > next(clock) else 0, (INT,))
    assert next(clock) == 0


# ---------------------------------------------------------------- opaque functions run


def test_opaque_functions_still_run() -> None:
    made = Function.make(lambda v: math.log(v), (FLOAT,), to=FLOAT)
    assert made.call(1.0) == 0.0
    assert Function.make(caught, (INT,)).call(777) == -1
    with pytest.raises(ValueError, match="expected int, found str 'a'"):
        Function.make(lambda v: "a" if v > 5 else str(v), (INT,), to=INT).call(9)


def test_the_type_of_an_opaque_function() -> None:
    def annotated(v: int) -> float:
        return math.log(v)

    def wrong(v: int) -> list:  # type: ignore[type-arg]
        return [math.log(v)]

    assert Function.make(annotated, (INT,)).result == FLOAT
    assert Function.make(annotated, (INT,), to=INT).result == INT  # to= is stronger
    assert Function.make(lambda v: math.log(abs(v) + 1), (INT,)).result == FLOAT  # found by trying: it is pure
    assert Function.make(lambda s: s.upper(), (STR,)).result == STR
    assert Function.make(lambda v: time.time() > v, (FLOAT,), truth=True).result == BOOL
    with pytest.raises(TypeMismatch, match="a list needs the type of what it holds"):
        Function.make(wrong, (INT,))


def test_to_on_a_traced_function() -> None:
    made = Function.make(lambda v: v + 1, (INT,), to=FLOAT)
    assert made.result == FLOAT and made.traced is not None and repr(made.call(1)) == "2.0"
    with pytest.raises(TypeMismatch, match="this lambda returns float, not int: expected int, found float"):
        Function.make(lambda v: v / 2, (INT,), to=INT)


def test_to_on_a_traced_task() -> None:
    made = Function.make(lambda s, v: (0, [v]), (FLOAT, INT), task=True, to=FLOAT)
    assert (made.result, made.event) == (FLOAT, FLOAT)
    assert repr(made.call(0.5, 3)) == "(0.0, [3.0])"
    with pytest.raises(TypeMismatch, match="returns int, not bool"):
        Function.make(lambda s, v: (0, [v]), (INT, INT), task=True, to=BOOL)


def test_a_state_of_any_kind_is_opaque() -> None:
    made = Function.make(lambda seen, v: ({*seen, v}, [len(seen)]), (None, INT), task=True, to=INT)
    assert made.reason == "keeps a state that is not made of scalars"
    assert made.call(set(), 3) == ({3}, [0])


def test_enums_never_need_a_trick() -> None:
    made = Function.make(lambda s: s.value == "b", (EnumType(Side),))
    assert made.traced is not None and made.call(Side.BUY) is True
    named = Function.make(lambda s: (s.name, 1), (EnumType(Side),))
    assert named.result == TupleType((STR, INT)) and named.call(Side.SELL) == ("SELL", 1)


def test_what_needs_data_says_which_function_and_why() -> None:
    from pellucid import NotTraceable

    def smooth(v: float) -> float:
        return math.exp(v)

    with pytest.raises(
        NotTraceable,
        match=r"^the checker needs smooth\(\) as data, but smooth\(\) hands an event's value to code .* "
        r"\(test_function\.py:\d+\)$",
    ):
        Function.make(smooth, (FLOAT,)).need("the checker")


def test_effects_run_once_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    def note(v: int) -> int:
        seen.append(v)
        return v

    p = pipeline(lambda x: x.map(note), x=int)
    assert seen == []
    assert p([1, 2, 3]) == [1, 2, 3]
    assert seen == [1, 2, 3]


class Ticket(NamedTuple):
    TICKETS: int  # there is a global of this name, which is none of the function's business
    price: int


def test_a_field_is_no_global_of_the_same_name() -> None:
    made = pipeline(lambda t: t.map(lambda v: v.price if v.TICKETS > 1 else 0), t=Ticket)
    assert not made.graph.opaque()
    with pytest.raises(PipelineError, match="TICKETS"):
        pipeline(lambda t: t.map(lambda v: v.price + next(TICKETS)), t=Ticket)


# ---------------------------------------------------------------- the type of the result


class Visit(NamedTuple):
    page: str | None
    score: int | None
    parts: list[str | None]
    day: datetime.date


VISITS = [
    Visit("a", 1, ["x"], datetime.date(2024, 1, 1)),
    Visit(None, None, [None, "y"], datetime.date(2024, 1, 2)),
    Visit("b", None, [], datetime.date(2024, 1, 3)),
    Visit(None, 3, [None], datetime.date(9999, 12, 31)),
]


def iso(e: Visit) -> str:
    return e.day.isoformat()  # which no trace sees through


def count(n: int, e: Any) -> int:
    return n + 1


TAKERS: dict[str, Callable[..., Any]] = {
    "map": lambda x, to: x.map(lambda e: e.page if iso(e) else "", to=to),
    "map to a tuple": lambda x, to: x.map(lambda e: (e.page, iso(e)), to=to),
    "map by branches": lambda x, to: x.map(lambda e: 1 if iso(e) < "2024-01-03" else 1.5, to=to),
    "key_by": lambda x, to: x.key_by(lambda e: (e.page, iso(e)), to=to).cumulate(count, start=0),
    "explode": lambda x, to: x.explode(lambda e: [w for w in (e.page, iso(e)) if w != "?"], to=to),
    "explode a list": lambda x, to: x.explode(lambda e: e.parts if iso(e) else [], to=to),
    "apply": lambda x, to: apply(lambda a, b: a.score if iso(b) else b.score, x, x, to=to),
    "task": lambda x, to: x.task(lambda n, e: (n + 1, [e.score] if iso(e) else []), 0, to=to),
    "cumulate": lambda x, to: x.cumulate(lambda n, e: e.score if iso(e) else n, start=0, to=to),
    "cumulate from None": lambda x, to: x.cumulate(lambda n, e: e.page if iso(e) else n, start=None, to=to),
    "cumulate a float": lambda x, to: x.cumulate(lambda n, e: n + 0.5 if iso(e) else n, start=0, to=to),
    "inside a window": lambda x, to: x.window(1, lambda w: w.map(lambda e: (e.score, iso(e)), to=to)),
}


@pytest.mark.parametrize("name", TAKERS)
def test_a_type_is_declared_or_asked_for_when_the_pipeline_is_built(name: str) -> None:
    """What a few events gave is proposed, and never relied on; with the proposal the nulls go through."""
    build = TAKERS[name]
    with pytest.raises(
        PipelineError, match=r"test_function.py:\d+.*: this lambda cannot be traced: .* must be given"
    ) as e:
        pipeline(lambda x: build(x, None), x=Visit)
    proposed = re.search(r"such as to=(.*) if what it gave", str(e.value))
    assert proposed is not None, str(e.value)
    found = pipeline(lambda x: build(x, eval(proposed[1])), x=Visit)(VISITS)
    assert len(found) >= len(VISITS)


def test_the_state_of_an_opaque_task_is_anything_that_is_not_said() -> None:
    """The initial state is one of its states, and says nothing of the others."""
    p = pipeline(lambda x: x.task(lambda s, e: (e.page if iso(e) else s, [1]), 0, to=int), x=Visit)
    assert p.graph.nodes[-1].state is None and p(VISITS) == [1, 1, 1, 1]

    def said(s: str | None, e: Visit) -> tuple[str | None, list[str | None]]:
        return (e.page if iso(e) else s), [s]

    p = pipeline(lambda x: x.task(said, None), x=Visit)
    assert str(p.graph.nodes[-1].state) == "str | None" and p(VISITS) == [None, "a", None, "b"]


def test_an_annotation_declares_what_is_accumulated() -> None:
    def mean(n: float, e: Visit) -> float:
        return n + 0.5 if iso(e) else n

    def last(n: Any, e: Visit) -> int | None:
        return e.score if iso(e) else n

    assert pipeline(lambda x: x.cumulate(mean, start=0), x=Visit)(VISITS) == [0.5, 1.0, 1.5, 2.0]
    assert pipeline(lambda x: x.cumulate(last, start=0), x=Visit)(VISITS) == [1, None, None, 3]
