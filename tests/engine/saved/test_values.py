"""Values as bytes: what comes back is the same, type by type and bit by bit; what is damaged or hostile is refused;
nothing runs.
"""

from __future__ import annotations

import collections
import datetime as dt
import enum
import json
import math
import os
import pickle
import random
import struct
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, Scale, apply, merge, pipeline
from pellucid.errors import StateError
from pellucid.internal.engine.saved.own_types import OwnTypes
from pellucid.internal.engine.saved.values import DEEPEST, FIXED, MANY, Damage, Misfit, Unfit, decode, encode
from tests.engine.epochs.rich_rows import Row, many, tale, told
from tests.volumes import examples


class Mode(enum.Enum):
    OPEN = "open"
    SHUT = "shut"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any = 0


class Empty(NamedTuple):
    pass


@dataclass
class Account:
    name: Any
    held: Any = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    a: Any
    b: Any = None

    @cached_property
    def twice(self) -> Any:
        return (self.a, self.a)


@dataclass(frozen=True, slots=True)
class Slim:
    a: Any
    b: Any = None


@dataclass(eq=False, slots=True)
class Alone:
    a: Any


OWN = OwnTypes([], [Mode, Level, Rights, Point, Empty, Account, Fixed, Slim, Alone])


def back(value: Any) -> Any:
    return decode(encode([value], OWN), OWN)[0]


def same(a: Any, b: Any, seen: set[tuple[int, int]] | None = None) -> bool:
    """Equal type by type and bit by bit: an oracle that shares nothing with the format."""
    seen = set() if seen is None else seen
    if (id(a), id(b)) in seen:
        return True
    seen.add((id(a), id(b)))
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, enum.Enum):
        return a is b
    if isinstance(a, dict):
        factory = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return factory and len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a.items(), b.items(), strict=True))
    if isinstance(a, (set, frozenset)):
        rest = list(b)
        for x in a:
            found = [i for i, y in enumerate(rest) if same(x, y)]
            if not found:
                return False
            rest.pop(found[0])
        return not rest
    if isinstance(a, deque):
        return a.maxlen == b.maxlen and same(list(a), list(b), seen)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y, seen) for x, y in zip(a, b, strict=True))
    if isinstance(a, (Account, Fixed)):
        return same(
            {k: vars(a)[k] for k in a.__dataclass_fields__}, {k: vars(b)[k] for k in b.__dataclass_fields__}, seen
        )
    if isinstance(a, Slim):
        return same((a.a, a.b), (b.a, b.b), seen)
    if isinstance(a, Alone):
        return same(a.a, b.a, seen)
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, (dt.datetime, dt.time)):
        return (a.replace(tzinfo=None), a.fold, a.tzinfo) == (b.replace(tzinfo=None), b.fold, b.tzinfo)
    return bool(a == b)


ODD_FLOATS = [
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0x7FF8000000000001, 0xFFF8000000000123, 0x7FF0000000000001)
]
PLAIN: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**63) - 1,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    1.0,
    math.inf,
    *ODD_FLOATS,
    1j,
    complex(-0.0, math.nan),
    "",
    "größer",
    "\ud800",
    "a\0b",
    b"",
    b"\0\xff",
    bytearray(b"abc"),
    range(3, -9, -2),
    Decimal("-0.00"),
    Decimal("NaN123"),
    Decimal("sNaN"),
    Decimal("1E+999999"),
    Fraction(-3, 7),
    uuid.UUID(int=7),
    dt.date(1, 1, 1),
    dt.time(3, 4, 5, 6, fold=1),
    dt.datetime(2024, 10, 27, 2, 30, fold=1),
    dt.datetime.max,
    dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
    dt.datetime(2020, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-3), "X")),
    dt.timedelta(-1, 2, 3),
    Mode.SHUT,
    Level.HIGH,
    Rights.READ | Rights.WRITE,
    Rights(0),
    Point(1, "b"),
    Empty(),
    Account("a", [1]),
    Fixed(1, (2, 3)),
    Slim("s", None),
    Alone(7),
    (),
    (1, True, 1.0),
    [],
    {},
    set(),
    frozenset(),
    {1: "a", "b": 2, (1, Mode.OPEN): {}},
    {Fixed(1, 2): 3, Slim(1): 4},
    {3, "x", None, (1, 2)},
    frozenset({1.5, b"x"}),
    deque([1, 2], maxlen=3),
    deque(),
    Counter("abca"),
    defaultdict(list, a=[1]),
    defaultdict(None, b=2),
    OrderedDict(z=1, a=2),
]


@pytest.mark.parametrize(
    "value", PLAIN, ids=[f"{n} {type(v).__name__}" for n, v in enumerate(PLAIN)]
)  # no repr: a set has another one in each process
def test_every_kind_comes_back(value: Any) -> None:
    assert same(back(value), value)


def test_all_kinds_together_and_very_many() -> None:
    assert same(back(PLAIN), PLAIN)
    many = [PLAIN[i % len(PLAIN)] for i in range(3 * MANY)]
    assert same(back(many), many)


def test_time_zones_by_name() -> None:
    names = zoneinfo.available_timezones()
    if not names:
        pytest.skip("this machine has no time zones")
    value = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo(min(names)))
    assert same(back(value), value)
    text = with_head(encode(["x/../y"]), kinds=["ZoneInfo", "str"])
    with pytest.raises(Damage):
        decode(text)
    unknown = with_head(encode([Slim("x/../y", 1)], OWN), kinds=[["dataclass", "Slim", ["a", "b"]], "ZoneInfo", "int"])
    with pytest.raises(Damage):
        decode(unknown, OWN)
    with pytest.raises(Damage, match="there is no time zone 'os/path' on this machine"):
        FIXED[zoneinfo.ZoneInfo].build(1, None, [["os/path"]], [])  # type: ignore[attr-defined]


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.sampled_from([*Mode, *Level, Rights.READ]),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.dates(),
    st.timedeltas(),
    st.complex_numbers(),
    st.fractions(),
)
hashables = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.frozensets(inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Fixed, inner, inner),
    ),
    max_leaves=4,
)
anything = st.recursive(
    hashables,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(hashables, inner),
        st.sets(hashables),
        st.tuples(inner, inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Account, inner, inner),
        st.builds(Slim, inner, inner),
        st.builds(Alone, inner),
        st.lists(inner).map(deque),
        st.dictionaries(st.text(), inner).map(OrderedDict),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(40, 60))
@given(st.lists(anything, max_size=4), st.integers(1, 40))
def test_any_values_come_back(values: list[Any], times: int) -> None:
    many = values * times  # what is held often is shared
    found = decode(encode(many, OWN), OWN)
    assert same(found, many)
    mutable = (list, dict, set, Account, Alone, deque)
    assert [[a is b for b in found] for a in found if isinstance(a, mutable)] == [
        [a is b for b in many] for a in many if isinstance(a, mutable)
    ]


def test_what_many_boxes_of_one_length_hold() -> None:
    for value in (
        {i: (i, i / 2, str(i)) for i in range(MANY)},
        {(i, "k"): {"n": i, "of": [i, Mode.OPEN]} for i in range(MANY + 1)},
        [Account(f"u{i % 5}", {i, -i}) for i in range(MANY)],
        [[i] * (i % 3) for i in range(2 * MANY)],
        [(1, None)] * MANY,
        [deque([i], maxlen=2) for i in range(MANY)],
        [2**70 + i if i % 7 == 0 else i for i in range(MANY)],
    ):
        assert same(back(value), value)


# ---------------------------------------------------------------- what is held twice


def test_what_can_be_changed_stays_one_thing() -> None:
    shared: list[Any] = [1]
    first, second = back([shared, {"deep": (shared, shared)}])
    assert second["deep"][0] is second["deep"][1] is first
    alone = Alone(1)
    found = back({"by": {alone: 1}, "it": [alone]})
    assert found["by"][found["it"][0]] == 1


def test_what_holds_itself() -> None:
    ring: list[Any] = []
    ring.append((ring, {"self": ring}))
    found = back(ring)
    assert found[0][0] is found and found[0][1]["self"] is found
    node = Account("a")
    node.held = node
    again = back(node)
    assert again.held is again


def test_shared_parts_do_not_multiply() -> None:
    pair: Any = ()
    for _ in range(60):
        pair = (pair, pair)
    assert len(encode([pair])) < 10_000
    box: Any = []
    for _ in range(60):
        box = [box, box]
    assert len(encode([box])) < 10_000


# ---------------------------------------------------------------- what is refused


class Plain:
    def __repr__(self) -> str:
        return "Plain()"


class Words(list[str]):
    pass


@dataclass
class NotFound:
    a: int


@dataclass(unsafe_hash=True)
class Loose:
    a: int


@dataclass
class Both(dict):  # type: ignore[type-arg]
    a: int = 0


def _made() -> Account:
    account = Account("a")
    account.extra = 1  # type: ignore[attr-defined]
    return account


def _half() -> Account:
    return object.__new__(Account)


UNFIT: list[tuple[Any, str]] = [
    ({"a": [1, Plain()]}, "state['a'][1] is a tests.engine.saved.test_values.Plain, which is not data"),
    ([(1, print)], "state[0][1] is a builtin_function_or_method, which is not data"),
    (Account("x", {"f": len}), "state.held['f'] is a builtin_function_or_method"),
    (Point(0, object), "state.y is a type, which is not data"),
    ({Point: 1}, "a key of state is a type"),
    ({1, Plain}, "something in state is a type"),
    (Words(["a"]), "state is a tests.engine.saved.test_values.Words, which is not data"),
    (NotFound(1), "state is a tests.engine.saved.test_values.NotFound, which is not found from the pipeline"),
    (_made(), "state is a Account with the attribute 'extra', which is no field of it"),
    (_half(), "state is a Account that lacks a field"),
    (defaultdict(lambda: 0, a=1), "state is a defaultdict that calls <lambda>, which is not data"),
    (iter([1]), "state is a list_iterator, which is not data"),
    (open(os.devnull), "state is a _io.TextIOWrapper, which is not data"),  # noqa: SIM115 - closed below
]


@pytest.mark.parametrize(("value", "words"), UNFIT, ids=lambda v: v[:40] if isinstance(v, str) else None)
def test_what_is_no_data_is_named_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(Unfit) as found:
        encode([None, value], OWN)
    assert str(found.value).startswith(words)
    assert found.value.advice
    if hasattr(value, "close"):
        value.close()


@pytest.mark.parametrize(
    ("value", "words"),
    [(Loose(1), "hashed by what it holds and can be changed"), (Both(1), "a dataclass that is something else besides")],
)
def test_own_types_whose_fields_are_not_all(value: Any, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        encode([value], OwnTypes([], [Loose, Both]))


def test_numpy_is_told_what_to_keep() -> None:
    import numpy as np

    for value in (np.float64(1), np.zeros(3)):
        with pytest.raises(Unfit) as found:
            encode([value])
        assert found.value.advice == "keep Python's own numbers and lists (.item(), .tolist())"


def test_too_deep() -> None:
    chain: Any = ()
    for _ in range(DEEPEST - 2):
        chain = (chain, 1)
    assert back(chain) == chain
    for _ in range(3):
        chain = (chain, 1)
    with pytest.raises(Unfit, match=f"state nests more than {DEEPEST} levels deep"):
        encode([chain])


def test_a_cached_property_is_no_field() -> None:
    value = Fixed(1)
    assert value.twice == (1, 1)
    assert same(back(value), Fixed(1))


# ---------------------------------------------------------------- what is read


class Boom:
    def __reduce__(self) -> Any:
        return (os.mkdir, (Boom.where,))

    where = ""


def test_an_evil_pickle_is_never_run(tmp_path: Path) -> None:
    Boom.where = str(tmp_path / "ran")
    evil = pickle.dumps(Boom())
    for data in (evil, struct.pack("<I", len(evil)) + evil, encode([evil])[:-3] + evil):
        with pytest.raises(Damage):
            decode(data)
    assert not (tmp_path / "ran").exists()


def head_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = 4 + struct.unpack_from("<I", data)[0]
    return json.loads(data[4:size]), data[size:]


def with_head(data: bytes, **changes: Any) -> bytes:
    head, rest = head_of(data)
    text = json.dumps(head | changes).encode()
    return struct.pack("<I", len(text)) + text + rest


@pytest.mark.parametrize(
    "label",
    [
        "os.system",
        "subprocess.Popen",
        "builtins.eval",
        "Popen",
        "__main__.x",
        "Boom",
        "tests.engine.saved.test_values.Boom",
    ],
)
@pytest.mark.parametrize("what", ["dataclass", "namedtuple", "enum", "flag"])
def test_a_name_in_the_file_is_never_imported(label: str, what: str) -> None:
    before = set(sys.modules)
    data = encode([Account(1, 2)], OWN)
    with pytest.raises(Misfit, match=f"the pipeline has no type '{label}'"):
        decode(with_head(data, kinds=[[what, label, ["name", "held"]], "int"]), OWN)
    with pytest.raises((Damage, Misfit)):
        decode(with_head(data, kinds=[label, "int"]), OWN)
    assert set(sys.modules) == before


def test_a_type_that_has_changed() -> None:
    data = encode([Account("a", 1), Mode.SHUT], OWN)
    other = dataclass(type("Account", (), {"__annotations__": {"name": str, "total": int}, "__module__": __name__}))
    fewer = enum.Enum("Mode", {"OPEN": 1}, module=__name__)
    with pytest.raises(
        Misfit,
        match="the type Account has changed: it was a dataclass with the fields name, held, and is now a dataclass "
        "with the fields name, total",
    ):
        decode(data, OwnTypes([], [other, Mode]))
    with pytest.raises(Misfit, match="the enum Mode has no member 'SHUT' any more"):
        decode(data, OwnTypes([], [Account, fewer]))
    swapped = enum.Enum("Mode", {"SHUT": 9, "MORE": 8, "OPEN": 7}, module=__name__)
    assert decode(data, OwnTypes([], [Account, swapped]))[1] is swapped.SHUT  # by its name, wherever it stands now


def test_two_types_of_one_name_are_told_apart() -> None:
    one, two = (collections.namedtuple("Pair", "a b", module=m) for m in ("here", "there"))
    own = OwnTypes([], [one, two])
    assert [type(v) for v in decode(encode([one(1, 2), two(1, 2)], own), own)] == [one, two]
    with pytest.raises(Misfit, match=r"no type 'there.Pair'"):
        decode(encode([two(1, 2)], own), OwnTypes([], [one]))


HOSTILE: dict[str, Any] = {
    "no head": b"",
    "short": b"\x01",
    "long head": struct.pack("<I", 1 << 31) + b"{}",
    "deep json": (lambda t: struct.pack("<I", len(t)) + t)(b"[" * 100_000),
    "many values": with_head(encode([None, None]), count=1 << 40),
    "fewer values": with_head(encode([None, None]), count=-1),
    "kinds": with_head(encode([1]), kinds=[]),
    "kind": with_head(encode([1]), kinds=[{"a": 1}]),
    "column types": with_head(encode([1]), columns=[["O", 8]] * 3),
    "column sizes": with_head(encode([1]), columns=[["i8", -8]] * 3),
    "other kind": with_head(encode([[1, 2]]), kinds=["int", "list"]),
    "list as a key": with_head(encode([{(1,): 2}]), kinds=["dict", "list", "int"]),
    "key twice": encode([{1: 0, 2: 0}]).replace(b"\x01\x02\x00\x00", b"\x01\x01\x00\x00"),
    "behind": encode([1]) + b"x",
    "a date": with_head(encode([(1, 2, 3)] * MANY), kinds=["date", "int"]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes(name: str) -> None:
    with pytest.raises((Damage, Misfit)):
        decode(HOSTILE[name], OWN)


def test_damaged_bytes_are_refused_or_read_as_data() -> None:
    """Whatever is changed: data comes back or an error that names damage; no other exception, no great memory."""
    rng = random.Random(20_261_116)
    whole = encode([PLAIN, {i: (i, str(i)) for i in range(30)}, [Account(i, [i]) for i in range(5)]], OWN)
    refused = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    data[at] ^= 1 << rng.randrange(8)
                case 2:
                    del data[at : at + rng.randrange(1, 9)]
                case 3:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
        try:
            decode(bytes(data), OWN)
        except (Damage, Misfit):
            refused += 1
    assert refused > 1000


def test_the_collector_is_left_as_it_was() -> None:
    import gc

    assert gc.isenabled()
    decode(encode([1]))
    assert gc.isenabled()
    gc.disable()
    try:
        decode(encode([1]))
        assert not gc.isenabled()
    finally:
        gc.enable()


# Saved states with times, decimals and values that may be missing: cut anywhere and gone on, the answer is that of the
# whole run; what would be read as something else is refused with the types.

Cents = Annotated[Decimal, Scale(2)]
Finer = Annotated[Decimal, Scale(4)]
ROWS = many(40)


def waits(x: Any) -> Any:
    """Events of all kinds wait in queues."""
    late = x.map(lambda r: r.oat, id="oat").decimate(3, id="some")
    return apply(lambda r, t: (r.fee, r.ofee, t, r.os, r.otook), x, late, id="pair")


def remembers(x: Any) -> Any:
    """The event three events ago, and a window over the last four."""
    before = x.map(lambda r: (r.otook, r.oday), id="two").lag(3, id="ago")
    longest = x.map(lambda r: r.ofee, id="fee").window(
        4, lambda y: y.cumulate(lambda m, v: v if m is None or (v is not None and v > m) else m, None), id="most"
    )
    return {"before": before, "longest": longest}


def keyed(x: Any) -> Any:
    """A state for each day that may be missing."""
    return x.key_by(lambda r: r.oday, id="day").cumulate(
        lambda t, r: r.oat if r.oat is not None else t, None, id="last"
    )


PIPELINES: dict[str, Pipeline] = {
    "told": told,
    "waits": pipeline(waits, x=Row),
    "remembers": pipeline(remembers, x=Row),
    "keyed": pipeline(keyed, x=Row),
}


def flat(found: Any) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in found.items()} if isinstance(found, dict) else {"out": list(found)}


def test_the_whole_run_is_by_the_book() -> None:
    assert list(told(ROWS)) == tale(ROWS, keyed=False)


@pytest.mark.parametrize("modes", [("numba", "python"), ("python", "numba"), ("python", "python")])
@pytest.mark.parametrize("name", PIPELINES)
def test_saved_and_loaded_it_goes_on(name: str, modes: tuple[str, str]) -> None:
    p = PIPELINES[name]
    whole = flat(p.engine(mode=modes[0]).push(ROWS))
    for cut in (0, 1, 5, 17, 39) if "numba" not in modes else (17,):
        first = p.engine(mode=modes[0])
        before = flat(first.push(ROWS[:cut]))
        for how in ("load", "carry"):
            second = p.engine(mode=modes[1])
            getattr(second, how)(first.save())
            after = flat(second.push(ROWS[cut:]))
            assert {n: before[n] + after[n] for n in whole} == whole, (cut, how)


def sums(t: Any) -> Pipeline:
    return pipeline(lambda x: x.cumulate(lambda s, v: v, start=None, id="last"), x=t)


def queue(t: Any) -> Pipeline:
    return pipeline(
        lambda x, y: apply(lambda a, b: b, x.map(lambda v: v, id="same"), y.decimate(3, id="few"), id="wait"),
        x=t,
        y=int,
    )


def lags(t: Any) -> Pipeline:
    return pipeline(lambda x: x.lag(2, id="ago"), x=t)


def keys(t: Any) -> Pipeline:
    return pipeline(lambda x: x.key_by(lambda v: v, id="key").cumulate(lambda n, v: n + 1, 0, id="count"), x=t)


VALUES: dict[Any, Any] = {
    int: 5, int | None: 5, datetime: datetime(2013, 1, 1), date: date(2013, 1, 1), timedelta: timedelta(1),
    Cents: Decimal("1.25"), Finer: Decimal("1.25"), datetime | None: datetime(2013, 1, 1), float: 1.5,
}  # fmt: skip
CHANGES = [
    (Cents, Finer, "Decimal(2)", "Decimal(4)"),
    (datetime, timedelta, "datetime", "timedelta"),
    (datetime, date, "datetime", "date"),
    (datetime, int, "datetime", "int"),
    (int, Cents, "int", "Decimal(2)"),
    (int, int | None, "int", "int | None"),
    (datetime | None, int | None, "datetime | None", "int | None"),
]


@pytest.mark.parametrize("how", ["load", "carry"])
@pytest.mark.parametrize(("was", "now", "before", "after"), CHANGES)
@pytest.mark.parametrize(
    ("make", "what", "step"), [(queue, "input 1", "wait"), (lags, "input", "ago"), (keys, "key", "count")]
)
def test_another_type_is_refused_by_name(
    make: Any, what: str, step: str, was: Any, now: Any, before: str, after: str, how: str
) -> None:
    old = make(was).engine()
    one = [VALUES[was]] * 4
    old.push(x=one, y=[1] * 4) if make is queue else old.push(one)
    with pytest.raises(StateError) as said:
        getattr(make(now).engine(), how)(old.save())
    assert f"its {what} was {before}, and is now {after}" in str(said.value) and step in str(said.value)


@pytest.mark.parametrize("how", ["load", "carry"])
@pytest.mark.parametrize(("was", "now"), [(c[0], c[1]) for c in CHANGES[:5]])
def test_so_is_another_state(was: Any, now: Any, how: str) -> None:
    old = sums(was).engine()
    old.push([VALUES[was]])
    with pytest.raises(StateError, match=r"its state was .* \| None, and is now .* \| None") as said:
        getattr(sums(now).engine(), how)(old.save())
    assert how == "load" or "give up what it remembers with drop=['last']" in str(said.value)


def test_what_is_given_up_starts_anew() -> None:
    old, new = sums(Cents).engine(), sums(Finer).engine()
    old.push([Decimal("1.25")])
    new.carry(old.save(), drop=["last"])
    assert list(new.push([Decimal("0.0001")])) == [Decimal("0.0001")]


def test_a_name_is_no_type() -> None:
    """A state of the same columns is carried, whatever its class is called."""
    first = pipeline(lambda x: x.cumulate(lambda s, v: v, start=datetime(2013, 1, 1), id="last"), x=datetime)
    second = pipeline(
        lambda x: merge(x.cumulate(lambda s, v: max(s, v), start=datetime(1, 1, 1), id="last"), id="all"), x=datetime
    )
    old, new = first.engine(), second.engine()
    old.push([datetime(2014, 1, 1)])
    new.carry(old.save())
    assert list(new.push([datetime(2012, 1, 1)])) == [datetime(2014, 1, 1)]
