"""Topologies from files and from pipelines: what is read was written, and what is wrong is told with its place."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from pellucid import Stream, apply, merge, pipeline
from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1
from pellucid.capacity.files import parse_topology
from pellucid.errors import DataError, UsageError
from tests.capacity.random_topologies import topology

GOOD = """
name = "orders"
routing = "all"

[spouts.orders]
gap = 0.8

[bolts."price it"]
time = 0.1
hears = "orders"
workers = "any"
ratio = "3/2"

[bolts.store]
time = 1
hears = ["orders", "price it"]
workers = 2
queue = "per worker"
initial = 4
"""


def test_a_file_has_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(GOOD)
    t = Topology.read(file)
    bolts = {
        "price it": Bolt("0.1", "orders", workers=ANY, ratio="3/2"),
        "store": Bolt(1, ["orders", "price it"], workers=2, queue="per worker", initial=4),
    }
    assert t == Topology({"orders": Spout(Fraction(4, 5))}, bolts, routing="all", name="orders")
    assert parse_topology(t.to_toml()) == t
    file.write_text(GOOD.replace('name = "orders"', ""))
    assert Topology.read(str(file)).name == "shop"


def test_what_is_written_is_read_again() -> None:
    for number in range(100):
        t = topology(number, single=True)
        assert parse_topology(t.to_toml()) == t
    odd = figure_1(gap="1/3", workers=ANY).given(semantics="literal", observe="settled", name='a "b" \\ c\n')
    assert parse_topology(odd.to_toml()) == odd


@pytest.mark.parametrize(("old", "new", "why"), [
    ("gap = 0.8", "gap = 0", "shop.toml, line 6, [spouts.orders]: the gap of a spout: 0 is not above 0."),
    ("gap = 0.8", "gap = -1.5", "shop.toml, line 6, [spouts.orders]: the gap of a spout: -1.5 is not above 0."),
    ("gap = 0.8", "gap = inf", "line 6, [spouts.orders]: the gap of a spout: expected a number such as 1, 0.8 or 2/3"),
    ("gap = 0.8", "gap = true", "the gap of a spout: expected a number such as 1, 0.8 or 2/3, got True."),
    ("gap = 0.8", "", "shop.toml, line 5, [spouts.orders]: a spout needs a gap: the least time between two"),
    ("gap = 0.8", "gap = 0.8\ntime = 1", "shop.toml, line 7, [spouts.orders]: there is no field time: gap is"),
    ("time = 0.1", 'time = "fast"', "shop.toml, line 9, [bolts.price it]: the time of a bolt: expected a number"),
    ("time = 0.1", "", "shop.toml, line 8, [bolts.price it]: a bolt needs time: how long a tuple takes."),
    ("workers = 2", "workers = 0", "shop.toml, line 17, [bolts.store]: the workers of a bolt: expected 1 or more"),
    ("workers = 2", "workers = 1.5", "shop.toml, line 17, [bolts.store]: the workers of a bolt: expected 1 or more"),
    ("workers = 2", "worker = 2", "line 17, [bolts.store]: there is no field worker; did you mean 'workers'?"),
    ("initial = 4", "initial = -4", "line 19, [bolts.store]: the initial queue of a bolt: expected 0 or more tuples"),
    ('"per worker"', '"each"', 'line 18, [bolts.store]: the queue of a bolt: expected "shared" or "per worker"'),
    ('["orders", "price it"]', "[1]", "line 16, [bolts.store]: hears: expected a list of names, got [1]."),
    ('["orders", "price it"]', '["order"]', "bolt store hears order, which is not there; did you mean 'orders'?"),
    ('["orders", "price it"]', '["orders", "orders"]', "bolt store hears orders twice."),
    ('["orders", "price it"]', '["store"]', "no spout feeds store"),
    ('["orders", "price it"]', "[]", "bolt store hears nobody"),
    ('routing = "all"', 'routing = "some"', "shop.toml, line 3: routing: expected 'one' or 'all', got 'some'."),
    ('routing = "all"', "routing = 1", "shop.toml, line 3: routing: expected a text, got 1."),
    ('routing = "all"', 'rooting = "all"', "shop.toml, line 3: there is no field rooting; did you mean 'routing'?"),
    ('routing = "all"', "routing = all", "shop.toml: no TOML: Invalid value (at line 3, column 11)"),
    ("[spouts.orders]\ngap = 0.8", "spouts = 3", "line 5: spouts: expected tables such as [spouts.S1], got 3."),
    ("[spouts.orders]\ngap = 0.8", "[spouts]\norders = 3", "line 6, [spouts]: spouts.orders: expected a table"),
    ("[spouts.orders]\ngap = 0.8", "", "a topology needs a spout"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, old: str, new: str, why: str) -> None:
    file = tmp_path / "shop.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(DataError) as error:
        Topology.read(file)
    assert str(error.value).startswith(f"{tmp_path}/shop.toml") and why in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.toml: No such file or directory"):
        Topology.read(tmp_path / "nothing.toml")
    file = tmp_path / "bytes.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(DataError, match=r"bytes\.toml: not a text in UTF-8: invalid start byte at byte 8"):
        Topology.read(file)
    file.write_text("[spouts.S]\ngap = 1")
    with pytest.raises(DataError, match=r"bytes\.toml: no bolts: a table such as \[bolts\.B1\]"):
        Topology.read(file)


# ---------------------------------------------------------------- from pipelines


@pipeline
def shop(orders: Stream[int], returns: Stream[int]) -> Stream[int]:
    priced = orders.map(lambda v: v * 2, id="price")
    large = priced.filter(lambda v: v > 10, id="large").map(lambda v: v + 1, id="tax")
    return merge(large, returns, id="both").map(lambda v: -v, id="book")


def test_a_pipeline_as_one_task() -> None:
    t = Topology.of(shop, rates={"orders": 100, "returns": 5}, times="0.004", workers=2)
    assert t.spouts == {"orders": Spout("0.01"), "returns": Spout("0.2")}
    assert t.bolts == {"shop": Bolt("0.004", ["orders", "returns"], workers=2)} and t.routing == "all"


def test_steps_with_a_time_are_bolts_and_the_others_run_with_those_before_them() -> None:
    t = Topology.of(shop, rates=100, times={"price": 1, "book": 2}, ratios={"large": "1/10"}, workers={"book": 3})
    assert t.bolts == {"price": Bolt(1, "orders", ratio="1/10"), "book": Bolt(2, ["price", "returns"], workers=3)}
    every = Topology.of(shop, rates=1, times={"price": 1, "large": 1, "tax": 1, "both": 1, "book": 1})
    assert {b: bolt.hears for b, bolt in every.bolts.items()} == {
        "price": ("orders",), "large": ("price",), "tax": ("large",), "both": ("tax", "returns"), "book": ("both",),
    }  # fmt: skip
    assert {bolt.ratio for bolt in every.bolts.values()} == {1}


def test_ratios_that_are_known() -> None:
    @pipeline
    def pairs(x: Stream[int]) -> Stream[int]:
        third = x.decimate(3, id="third")
        return apply(
            lambda a, b: a + b, third.map(lambda v: v, id="left"), third.map(lambda v: v, id="right"), id="sum"
        )

    t = Topology.of(pairs, rates=6, times={"left": 1, "right": 1, "sum": 1})
    assert t.spouts["x"].gap == Fraction(1, 2)  # one in three
    assert t.bolts["sum"].ratio == 1 and t.bolts["left"].ratio == 1  # sum is final
    t = Topology.of(pairs, rates=6, times={"third": 1, "sum": 1})
    assert t.bolts["third"].ratio == Fraction(2, 3)  # two events to the sum for each third


@pytest.mark.parametrize(("given", "why"), [
    ({"rates": {"orders": 1}, "times": 1}, "rates: how many events does returns bring per unit of time?"),
    ({"rates": {"order": 1}, "times": 1}, "rates: there is no source order; did you mean 'orders'?"),
    ({"rates": 0, "times": 1}, "the rate of orders: 0 is not above 0."),
    ({"rates": 1, "times": 0}, "the time of shop: 0 is not above 0."),
    ({"rates": 1, "times": {"prize": 1}}, "times: there is no step prize; did you mean 'price'?"),
    ({"rates": 1, "times": {"orders": 1}}, "times: there is no step orders: price, large, tax, both, book are"),
    ({"rates": 1, "times": {}}, "times: no step takes any time"),
    ({"rates": 1, "times": {"price": 1}, "workers": {"tax": 2}}, "workers: there is no step with a time tax: price is"),
    ({"rates": 1, "times": 1, "workers": {"tax": 2}}, "workers: there is no bolt tax: shop is"),
    ({"rates": 1, "times": {"price": 1}, "ratios": {"orders": 2}}, "ratios: there is no step orders"),
    ({"rates": 1, "times": {"price": 1}, "ratios": {"large": -1}}, "the ratio of large: -1 is below 0."),
])  # fmt: skip
def test_what_is_wrong_about_a_pipelines_numbers(given: dict, why: str) -> None:
    with pytest.raises(UsageError) as error:
        Topology.of(shop, **given)
    assert why in str(error.value)


def test_what_one_ratio_cannot_say() -> None:
    @pipeline
    def forked(x: Stream[int]) -> Stream[int]:
        first = x.map(lambda v: v, id="first")
        few = first.decimate(2, id="few").map(lambda v: v, id="slow")
        return merge(few, first.map(lambda v: v, id="quick"))

    with pytest.raises(
        UsageError, match="for each event of first, slow gets 1/2, quick gets 1: give the steps between"
    ):
        Topology.of(forked, rates=1, times={"first": 1, "slow": 1, "quick": 1})
    t = Topology.of(forked, rates=1, times={"first": 1, "few": "0.001", "slow": 1, "quick": 1})
    assert t.bolts["few"].ratio == Fraction(1, 2)

    @pipeline
    def doubled(x: Stream[int]) -> Stream[int]:
        return merge(x, x.map(lambda v: v, id="copy"), id="both").map(lambda v: v, id="slow")

    with pytest.raises(UsageError, match="for each event of x, 2 come to one step"):
        Topology.of(doubled, rates=1, times={"slow": 1})

    @pipeline
    def told(x: Stream[int]) -> Stream[int]:
        return x.task(lambda s, v: (s, [v, v]), 0, id="twice").map(lambda v: v, id="after")

    with pytest.raises(UsageError, match=r"puts out as many events as it likes: ratios=\{'twice': …\} says how many"):
        Topology.of(told, rates=1, times={"twice": 1, "after": 1})
    t = Topology.of(told, rates=1, times={"twice": 1, "after": 1}, ratios={"twice": 2})
    assert t.bolts["twice"].ratio == 2
    with pytest.raises(UsageError, match=r"Topology\.of: expected a pipeline, got int"):
        Topology.of(3, rates=1, times=1)
