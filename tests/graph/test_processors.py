"""What each processor accepts, and what it says when it does not."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pellucid import PipelineError, Stream, TypeMismatch, apply, merge, pipeline
from pellucid.internal.expr.types import BOOL, FLOAT, INT, TupleType


class Trade(NamedTuple):
    price: float
    size: int


class Light(enum.Enum):
    RED = 1
    GREEN = 2


def message(build: Callable[..., Any], **types: Any) -> str:
    with pytest.raises(PipelineError) as caught:
        pipeline(build, **types)
    return re.sub(r"test_processors\.py:\d+", "HERE", str(caught.value))


TYPE_OF_RESULT = [
    (lambda x: x.map(lambda v: v > 3), BOOL),
    (lambda x: x.map(lambda v: v / 2), FLOAT),
    (lambda x: x.map(lambda v: (v, v * 0.5)), TupleType((INT, FLOAT))),
    (lambda x: x.filter(lambda v: v % 2), INT),
    (lambda x: x.filter(x > 2), INT),
    (lambda x: x.cumulate(lambda t, v: t + v * 0.5, start=0), FLOAT),  # the start value grows into the type
    (lambda x: x.cumulate(lambda t, v: v, start=0.5), FLOAT),
    (
        lambda x: x.cumulate(lambda t, v: (t[0] + v * 0.5, t[0] + t[1], t[1] + t[2]), start=(0, 0, 0)),
        TupleType((FLOAT,) * 3),
    ),
    (lambda x: x.decimate(2), INT),
    (lambda x: x.trim(0), INT),
    (lambda x: x.lag(2), TupleType((INT, INT))),
    (lambda x: x.window(3, lambda w: w > 1), BOOL),
    (lambda x: x.task(lambda s, v: (s + v, [s > v]), initial=0), BOOL),
    (lambda x: x.task(lambda s, v: (s + 0.5, [s, v]), initial=0), FLOAT),
    (lambda x: apply(lambda a, b: a < b, x, x), BOOL),
    (lambda x: merge(x, x.trim(1)), INT),
    (lambda x: x.key_by(lambda v: v % 2), INT),
]


@pytest.mark.parametrize(("build", "t"), TYPE_OF_RESULT)
def test_types_follow(build: Callable[..., Any], t: Any) -> None:
    p = pipeline(build, x=int)
    assert p.graph.nodes[p.graph.outputs[0][1]].type == t


WRONG: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x: x.filter(x, id="f"),
        "step 'f' (filter, HERE) wants a stream of bool to filter by: expected bool, found int",
    ),
    (
        lambda x: x.cumulate(lambda t, v: "a", start=0),
        "cumulate (HERE) wants its function to return what it accumulates: expected int, found str",
    ),
    (
        lambda x: x.cumulate(lambda t, v: t, start=[]),
        "cumulate (HERE): the start value [] is a list, which cannot be an event; use a scalar, an enum, a record or a "
        "tuple of those, "
        "or a task, whose state may be anything",
    ),
    (
        lambda x: x.task(lambda s, v: ("a", [v]), initial=0),
        "task (HERE) wants its function to return a state like the initial one: expected int, found str",
    ),
    (
        lambda x: x.task(lambda s, v: (s, []), initial=0),
        "task (HERE): its function never puts out an event, so the stream has no type: pass to=…",
    ),
    (lambda x: merge(x, x > 1), "merge (HERE) wants all its inputs to carry the same type: expected int, found bool"),
    (lambda x: merge(), "merge (HERE) needs at least one stream"),
    (lambda x: apply(lambda: 1), "apply (HERE) needs at least one stream"),
    (lambda x: apply(lambda a, b: a, x, 3), "apply (HERE) wants streams, found int 3"),
    (lambda x: x.decimate(0), "decimate (HERE): k must be at least 1, found 0"),
    (lambda x: x.decimate(True), "decimate (HERE): k must be an int, found bool True"),
    (lambda x: x.trim(-1), "trim (HERE): k must be at least 0, found -1"),
    (lambda x: x.trim("2"), "trim (HERE): k must be an int, found str '2'"),
    (lambda x: x.lag(0), "lag (HERE): k must be at least 1, found 0"),
    (lambda x: x.lag(1.5, id="l"), "step 'l' (lag, HERE): k must be an int, found float 1.5"),
    (lambda x: x.window(0, lambda w: w), "window (HERE): k must be at least 1, found 0"),
    (lambda x: x.window(2, 3), "window (HERE): the sub-pipeline must be a pipeline or a function of a stream, found 3"),
    (
        lambda x: x.window(2, lambda w: (w, w)),
        "window (HERE): the sub-pipeline must return one stream, found (<Stream[int] of in>, <Stream[int] of in>)",
    ),
    (
        lambda x: x.window(2, lambda w: w + x, id="w"),
        "step 'w' (window, HERE) uses the stream 'x' of another pipeline; inside a sub-pipeline only its own input can "
        "be used",
    ),
    (lambda x: x.map(3), "map (HERE): expected a function, found int 3"),
    (
        lambda x: x.map(lambda a, b: a),
        "map (HERE): the function <lambda> gets 1 argument here, but: missing a required argument: 'b'",
    ),
    (
        lambda x: x.map(lambda v: v * 0.5, to=int),
        "map (HERE): this lambda returns float, not int: expected int, found float",
    ),
    (
        lambda x: x.map(lambda v: v, to=list),
        "map (HERE): a list needs the type of what it holds: write list[int]",
    ),
    (
        lambda x: x.map(lambda v: [v]),
        "map (HERE): this lambda returns a list, which is no event: expected a bool, an int, a float, a str, an enum's "
        "member, a record or a tuple "
        "of those; explode puts out the elements of a list; one that is an event itself needs to=list[…]",
    ),
    (lambda x: x.key_by(lambda v: v * 0.5), "key_by (HERE): a key must not contain a float, found float"),
    (
        lambda x: apply(lambda a, b: a, x, x.key_by(lambda v: v)),
        "apply (HERE) joins streams that are keyed differently: one by no key, another by int; use key_by on all of "
        "them with keys of one type",
    ),
    (
        lambda x: merge(x.key_by(lambda v: v > 0), x.key_by(lambda v: v), id="m"),
        "step 'm' (merge, HERE) joins streams that are keyed differently: one by bool, another by int; use key_by on "
        "all of them with keys of one type",
    ),
    (lambda x: x.map(lambda v: v, id="a b"), "map (HERE): an id is letters, digits, '-' and '_', found 'a b'"),
    (lambda x: x.map(lambda v: v, id="3a"), "map (HERE): an id is letters, digits, '-' and '_', found '3a'"),
    (lambda x: x.map(lambda v: v, id=""), "map (HERE): an id is letters, digits, '-' and '_', found ''"),
    (
        lambda x: x if x else x.trim(1),
        "HERE: a stream is not true or false: use x.filter(…) to choose events, and & | ~ on Boolean streams",
    ),
    (lambda x: list(x), "HERE: a stream cannot be looped over while the pipeline is built: use its processors"),
    (lambda x: x + None, "cannot use '+' between a stream of int and None"),
    (lambda x: 3, "pipeline pipeline must return a stream (or a tuple or dict of streams), found 3"),
    (lambda x: (x, 3), "pipeline pipeline: its output 'out2' is no stream but int 3"),
    (
        lambda x: x.map(lambda v: nope(v)),  # type: ignore[name-defined]  # noqa: F821
        "map (HERE): this lambda fails on every event that was tried, such as 1: "
        "NameError: name 'nope' "
        "is not defined (HERE). Correct it; if it works on other events, the type of its result must be given: "
        "annotate "
        "it (-> float) or pass to=…",
    ),
]


@pytest.mark.parametrize(("build", "text"), WRONG, ids=range(len(WRONG)))
def test_messages(build: Callable[..., Any], text: str) -> None:
    assert message(build, x=int) == text


def test_fields_and_attributes() -> None:
    p = pipeline(lambda t: t.price * t.size, t=Trade)
    assert p([Trade(1.5, 2)]) == [3.0]
    with pytest.raises(
        AttributeError,
        match=r"a stream of Trade\(price: float, size: int\) has no processor or field 'weight'; its events have "
        r"price, size",
    ):
        pipeline(lambda t: t.weight, t=Trade)
    with pytest.raises(AttributeError, match="it is a function, from pellucid import apply, as in apply"):
        pipeline(lambda x: x.apply(x, lambda a, b: a + b), x=int)
    with pytest.raises(AttributeError, match="a stream of int has no processor or field 'mapp'"):
        pipeline(lambda x: x.mapp(abs), x=int)


SUGAR: list[tuple[Callable[..., Any], list[Any]]] = [
    (lambda x: x + 1, [2, 0, 8]),
    (lambda x: 1 + x, [2, 0, 8]),
    (lambda x: x - 1, [0, -2, 6]),
    (lambda x: 1 - x, [0, 2, -6]),
    (lambda x: x * 2, [2, -2, 14]),
    (lambda x: 2 * x, [2, -2, 14]),
    (lambda x: x / 2, [0.5, -0.5, 3.5]),
    (lambda x: 7 / x, [7.0, -7.0, 1.0]),
    (lambda x: x // 2, [0, -1, 3]),
    (lambda x: 9 // x, [9, -9, 1]),
    (lambda x: x % 2, [1, 1, 1]),
    (lambda x: 9 % x, [0, 0, 2]),
    (lambda x: x & 6, [0, 6, 6]),
    (lambda x: 6 | x, [7, -1, 7]),
    (lambda x: x ^ 1, [0, -2, 6]),
    (lambda x: -x, [-1, 1, -7]),
    (lambda x: abs(x), [1, 1, 7]),
    (lambda x: ~x, [-2, 0, -8]),
    (lambda x: x < 1, [False, True, False]),
    (lambda x: x <= 1, [True, True, False]),
    (lambda x: x > 1, [False, False, True]),
    (lambda x: 1 >= x, [True, True, False]),
    (lambda x: x == 7, [False, False, True]),
    (lambda x: x != 7, [True, True, False]),
    (lambda x: ~(x > 1) & (x > -1), [True, False, False]),
    (lambda x: x + x * x, [2, 0, 56]),
]


@pytest.mark.parametrize(("build", "want"), SUGAR, ids=range(len(SUGAR)))
def test_operators(build: Callable[..., Any], want: list[Any]) -> None:
    assert repr(pipeline(build, x=int)([1, -1, 7])) == repr(want)


def test_enums_and_text() -> None:
    assert pipeline(lambda x: x == Light.RED, x=Light)([Light.RED, Light.GREEN]) == [True, False]
    assert pipeline(lambda x: x == "a", x=str)(["a", "b"]) == [True, False]


def test_opaque_functions_with_a_type() -> None:
    assert pipeline(lambda x: x.map(lambda v: math.log(v), to=float), x=float)([1.0]) == [0.0]
    assert pipeline(lambda x: x.task(lambda seen, v: (seen | {v}, [len(seen)]), initial=frozenset(), to=int), x=int)(
        [3, 3, 4]
    ) == [0, 1, 1]


def test_a_source_may_be_an_output() -> None:
    p = pipeline(lambda x: {"same": x, "next": x.trim(1)}, x=int)
    assert p([1, 2]) == {"same": [1, 2], "next": [2]}


def test_streams_have_a_text() -> None:
    seen: list[str] = []

    def build(x: Stream[int]) -> Stream[int]:
        seen.extend([repr(x), repr(x.map(abs)), repr(x.map(abs, id="size"))])
        return x

    pipeline(build)
    assert seen == ["<Stream[int] of x>", "<Stream[int] of map>", "<Stream[int] of size>"]


def test_type_errors_name_both_types() -> None:
    with pytest.raises(TypeMismatch, match="expected int, found bool"):
        pipeline(lambda x: merge(x, x > 1), x=int)
