"""Lists as values: what they are to an engine, what a trace does with them, and what is refused."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import Scale, pipeline
from pellucid.errors import PipelineError, TypeMismatch
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import INT, ListType, TupleType, conform, type_of


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"


class Item(NamedTuple):
    sku: str
    n: int | None
    tags: list[str]


class Order(NamedTuple):
    id: int
    items: list[Item]
    sizes: tuple[int, ...]
    note: list[str] | None


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ELEMENTS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    str: TEXTS,
    Color: st.sampled_from(list(Color)),
    dt.date: st.dates(),
    dt.datetime: st.datetimes(),
    Annotated[dt.datetime, dt.UTC]: st.datetimes(timezones=st.just(dt.UTC)),
    dt.timedelta: st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
    Annotated[Decimal, Scale(2)]: st.decimals(-(10**9), 10**9, places=2),
    int | None: st.none() | st.integers(-5, 5),
    Item: st.builds(Item, TEXTS, st.none() | st.integers(-5, 5), st.lists(TEXTS, max_size=2)),
    list[int]: st.lists(st.integers(-5, 5), max_size=3),
    tuple[int, str]: st.tuples(st.integers(-5, 5), TEXTS),
}


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@given(data=st.data())
def test_a_list_is_a_text_and_back(element: Any, data: st.DataObject) -> None:
    t = type_of(list[element])
    a, b = (data.draw(st.lists(ELEMENTS[element], max_size=4)) for _ in range(2))
    (text,) = t.flatten(conform(t, a))
    assert repr(t.unflatten((text,))) == repr(conform(t, a))
    assert (t.flatten(conform(t, b)) == (text,)) == (repr(conform(t, a)) == repr(conform(t, b)))
    assert t.size(text) == len(a) and (text == "") == (not a)
    assert t.canonical((text,))


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@given(text=TEXTS)
def test_any_text_stands_for_a_list(element: Any, text: str) -> None:
    """A solver knows nothing of what a list's text is like."""
    t = type_of(list[element])
    tidy = t.tidy((text,))
    assert t.tidy(tidy) == tidy and t.flatten(t.event((text,))) == tidy
    assert bool(t.event((text,))) == (text != "")


def test_types_by_their_names() -> None:
    assert str(type_of(list[int])) == "list[int]" and str(type_of(tuple[str, ...])) == "tuple[str, ...]"
    assert type_of(tuple[int, str]) == TupleType((type_of(int), type_of(str)))
    assert str(type_of(list[int | None] | None)) == "list[int | None] | None"
    assert type_of(list[list[float]]) == ListType(ListType(type_of(float)))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "expected list[int], found int 3"),
        ("ab", "expected list[int], found str 'ab'"),
        ([1, "a"], "element 1: expected int, found str 'a'"),
        ([1, None], "element 1: expected int, found NoneType None"),
        ([2**63], f"element 0: {2**63} does not fit in 64 bits"),
        (Item("a", 1, []), "expected list[int], found Item Item(sku='a', n=1, tags=[])"),
    ],
)
def test_what_is_no_list(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        conform(type_of(list[int]), value)
    assert str(caught.value) == message


ORDER = type_of(Order)


@pytest.mark.parametrize(
    ("f", "how"),
    [
        (lambda e: e.items, "traced"),
        (lambda e: Order(e.id + 1, e.items, e.sizes, None), "traced"),
        (lambda e: e._replace(sizes=(), note=[]), "traced"),
        (lambda e: 1 if e.items else 0, "traced"),
        (lambda e: e.note is None or not e.note, "traced"),
        (lambda e: len(e.items), "looked up"),
        (lambda e: e.items[0].sku if e.items else "", "looked up"),
        (lambda e: e.sizes[e.id] + e.sizes[-1], "looked up"),
        (lambda e: len(e.items[-1].tags) + len(e.items[0].tags[0]), "looked up"),
        (lambda e: 0 if e.items[0].n is None else e.items[0].n, "looked up"),
        (lambda e: e.items[0], "looked up"),
    ],
)
def test_what_is_traced(f: Any, how: str) -> None:
    made = Function.make(f, (ORDER,))
    assert ("traced" if made.traced is not None else "looked up" if made.runs is not None else made.reason) == how


@pytest.mark.parametrize(
    ("f", "how"),
    [
        (lambda e: sum(e.sizes), "loops over a list, whose length is not known"),
        (lambda e: int(3 in e.sizes), "searches in a list"),
        (lambda e: int(e.sizes == (1, 2)), "compares a list"),
        (lambda e: len(e.sizes[1:]), "takes an element of a list, which only engines can look into"),
    ],
)
def test_what_is_opaque(f: Any, how: str) -> None:
    with pytest.raises(PipelineError, match=r"the type of its result must be given: .* such as to=int if"):
        Function.make(f, (ORDER,))
    made = Function.make(f, (ORDER,), to=INT)
    assert made.runs is None and made.reason == how


def test_messages() -> None:
    for f, kind, message in [
        (lambda x: x.explode(lambda e: e.id), PipelineError, "returns an int: expected a list of events"),
        (
            lambda x: x.explode(lambda e: e.note),
            TypeMismatch,
            "returns list[str] | None, and None is no list of events",
        ),
        (lambda x: x.explode(lambda e: e.note, to=str), TypeMismatch, "write `… or []` for none"),
        (lambda x: x.map(lambda e: e.note[0]), TypeMismatch, "it uses the field 'note', which may be None"),
        (lambda x: x.key_by(lambda e: (e.id, e.sizes)), PipelineError, "a key must not contain a list"),
        (lambda x: x.explode(lambda e: []), PipelineError, "the type of its events must be given"),
        (lambda x: x.map(lambda e: e.items[0].skew), PipelineError, "skew"),
    ]:
        with pytest.raises(kind) as caught:
            pipeline(f, x=Order)
        assert message in str(caught.value), str(caught.value)


def test_an_index_that_is_not_there_fails_as_in_python() -> None:
    from pellucid import StepError

    first = pipeline(lambda x: x.map(lambda e: e.sizes[1], id="second"), x=Order)
    assert first([Order(1, [], (3, 4), None)]) == [4]
    for mode in ("python", "auto"):
        engine = first.engine(mode=mode)
        with pytest.raises(StepError, match=r"'second'.*failed at push 1 .*IndexError: tuple index out of range"):
            engine.push([Order(1, [], (3, 4), None), Order(2, [], (3,), None)])
