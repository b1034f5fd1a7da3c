"""Topologies from files and from pipelines: what is read was written, and what is wrong is told with its place."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid import Stream, apply, merge, pipeline
from pellucid.capacity import ANY, Bolt, Spout, Topology, check_flows, figure_1, flows
from pellucid.capacity.flow.bounds import ONE, Network
from pellucid.capacity.flow.linear import certified, maximum
from pellucid.capacity.planning import changes, plan
from pellucid.capacity.topology import parse_topology
from pellucid.capacity.zones.decide import decide
from pellucid.errors import DataError, UsageError
from pellucid.internal.cli.main import cli
from pellucid.internal.model import Budget
from tests.capacity.topologies import topology

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
    ('["orders", "price it"]', "[]", "bolt store hears no spout"),
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

    with pytest.raises(UsageError, match=r"emits as many events as it likes: ratios=\{'twice': …\} says how many"):
        Topology.of(told, rates=1, times={"twice": 1, "after": 1})
    t = Topology.of(told, rates=1, times={"twice": 1, "after": 1}, ratios={"twice": 2})
    assert t.bolts["twice"].ratio == 2
    with pytest.raises(UsageError, match=r"Topology\.of: expected a pipeline, got int"):
        Topology.of(3, rates=1, times=1)


# `pellucid capacity` with what a user may get wrong: the message that helps, exit code 2, nothing half done.

GOOD_BAD_INPUT = '[spouts.S]\ngap = 1\n[bolts.B]\ntime = 1\nhears = ["S"]\n'


def _asked(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli, ["capacity", *arguments])
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            GOOD_BAD_INPUT + "workers = 1_000_000_000",
            (),
            "line 6, [bolts.B]: the workers of a bolt: 1,000,000,000 are too many",
        ),
        (
            GOOD_BAD_INPUT.replace("bolts.B", 'bolts."x\\ny"'),
            (),
            "a spout or bolt is called 'x\\ny': expected a name that can",
        ),
        (
            GOOD_BAD_INPUT.replace("gap = 1", "gap = 1e300"),
            (),
            "the longest would have a number of units with 301 digits. Round",
        ),
        (
            GOOD_BAD_INPUT,
            ("--gap", "S=0.33333333333333333333"),
            "would have 100,000,000,000,000,000,000 units. Round them, or",
        ),
        (
            GOOD_BAD_INPUT,
            ("--parallelism", "B=ANY"),
            "any number of workers is a question about a limit: give one, as in --queue-limit B=2",
        ),
        (GOOD_BAD_INPUT, ("--backlog", "B=-1"), "the backlog of B: expected 0 or more tuples, got -1."),
        (GOOD_BAD_INPUT, ("--timeout", "nan"), "--timeout nan: expected a number of seconds above 0"),
        (GOOD_BAD_INPUT, ("--out", "run.png"), "--out run.png: the picture is SVG: expected a name that ends in .svg"),
        (GOOD_BAD_INPUT, ("--target", "0.5"), "--target goes with measurements, not with a topology"),
        (GOOD_BAD_INPUT, ("--queue-limit", "price=2"), "there is no bolt price: B is"),
    ],
)
def test_a_wrong_topology_or_option(tmp_path: Path, text: str, options: tuple[str, ...], message: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    code, out, said = _asked(str(file), *options)
    assert (code, out) == (2, "") and message in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == [file]


def test_files_that_are_called_otherwise(tmp_path: Path) -> None:
    bare = tmp_path / "topology"
    bare.write_text(GOOD_BAD_INPUT)
    assert _asked(str(bare))[::2] == (
        2,
        f"pellucid: {bare}: it has no ending: expected .toml or .py for a topology, .cub, or .json, .jsonl, .log for "
        "measurements\n",
    )
    named = tmp_path / "t.toml"
    named.write_text(GOOD_BAD_INPUT)
    assert "there is one in the file: leave the part after the colon out" in _asked(f"{named}:B")[2]
    python = tmp_path / "wrong.py"
    python.write_text("from pellucid.capacity import Bolt, Spout, Topology\n\nS = Spout(gap=-1)\n")
    assert _asked(str(python))[::2] == (2, f"pellucid: {python}:3: the gap of a spout: -1 is not above 0.\n")


def test_a_file_from_windows(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD_BAD_INPUT.replace("\n", "\r\n").encode())
    assert Topology.read(file) == Topology({"S": Spout(1)}, {"B": Bolt(1, "S")}, name="t")


def test_a_topology_of_a_python_file_goes_by_its_name_and_routing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from pellucid.capacity import Bolt, Spout, Topology\n"
        "nightly = Topology({'S': Spout(gap=1)}, {'A': Bolt(1, 'S'), 'B': Bolt(1, 'S'), 'C': Bolt(1, ['A', 'B'])})\n"
    )
    code, out, _ = _asked(str(file))
    assert code == 0 and "\nnightly: a run in which the queue of" in out
    assert "note: a tuple of S goes to A or B, not to all: --routing all gives a copy to each\n" in out
    assert "note:" not in _asked(str(file), "--routing", "all")[1]


def test_more_workers_than_zones_can_have_is_unknown_and_no_memory() -> None:
    t = Topology({"S": Spout(1)}, {"B": Bolt(1, "S", workers=30_000)})
    found = decide(t, "B", 2, budget=Budget(5.0, 1000))
    assert found.status == "unknown"
    assert found.why == "30,001 workers and spouts are more than the 256 for which runs are searched"
    with pytest.raises(UsageError, match=r"32,769 are too many: 32,768 are the most\.$"):
        Bolt(1, "S", workers=32_769)


def test_advice_that_makes_a_queue_unbounded_is_never_the_first_if_there_is_better() -> None:
    """Whatever was known of that queue before: here its length was not, for want of time."""
    bolts: dict[str, Any] = {
        "parse": Bolt("0.1", ["cards", "sepa"]), "fraud": Bolt("0.5", "parse", workers=2), "fx": Bolt("0.3", "sepa"),
        "split": Bolt("0.05", ["fraud", "fx"], ratio=2), "ledger": Bolt("0.1", "split"),
    }  # fmt: skip
    t = Topology({"cards": Spout("0.2"), "sepa": Spout(1)}, bolts)
    found = plan(t, budget=Budget(20.0, 300))
    advice = changes(found, budget=Budget(20.0, 300))
    assert advice[0].words == "3 workers for fraud and 2 for ledger (instead of 2 and 1)" and not advice[0].broken
    (harmful,) = [change for change in advice if change.words == "3 workers for fraud (instead of 2)"]
    assert harmful.broken == ("ledger",) and advice[-1] is harmful and "ledger gets worse by that" in str(harmful)


def test_what_solves_nothing_is_no_advice(tmp_path: Path) -> None:
    file = tmp_path / "self.toml"
    file.write_text('[spouts.S]\ngap = 1\n[bolts.A]\ntime = 0.1\nhears = ["S", "A"]\n')
    code, out, said = _asked(str(file), "--timeout", "4")
    assert code == 1 and "first:" not in out and "every queue is unbounded" in said
    assert "note: nothing that was tried mends this: neither more workers nor slower spouts\n" in out


def test_many_bolts_beside_each_other() -> None:
    """What is not upstream of a queue is no part of its linear program."""
    t = Topology({"S": Spout(1)}, {f"b{i}": Bolt("0.5", "S") for i in range(24)}, routing="all")
    limits = Network(t).limits({"S": Fraction(1)}, ())
    found = maximum(Network(t).goal("b7"), limits)
    assert found is not None and found.value == 1 and certified(Network(t).goal("b7"), limits, ONE, found.prices)
    known = flows(t)
    assert {flow.status for flow in known.values()} == {"bounded"} and check_flows(known)
