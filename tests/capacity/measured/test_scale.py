"""How many workers: the formula by hand, limits, hot keys, and what a bottleneck does to the steps before it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pellucid.capacity.measured import Job, MeasuredStep, Scaling, scale
from pellucid.capacity.measured.scale import needed_capacity, round_workers, workers_for
from pellucid.errors import DataError, UsageError

NOW = Scaling(target=1.0, catch_up=0)


def chain(*steps: MeasuredStep) -> Job:
    return Job("job", "flink", {step.name: step for step in steps})


def test_the_formula_by_hand() -> None:
    # 6000 wait: 3.33 a second for half an hour; 5 minutes of 100 a second for half an hour: 16.67; 100 / 0.7: 142.86
    assert needed_capacity(100, 6000 / 1800, target=0.7, catch_up=1800, restart=300) == 163
    step = MeasuredStep("s", rate=100.0, processed=100.0, busy=0.8, workers=2, lag=6000.0)
    assert scale(chain(step))["s"].wanted == 3  # 2 * 163 / 125 = 2.6
    assert needed_capacity(100, 0, target=-1, catch_up=0) == float("inf")
    assert needed_capacity(100, 0, target=7, catch_up=0) == 100  # nobody works more than always


def test_numbers_are_exact() -> None:
    """1.1 * 30 is 33.00000000000000355 in floats: rounded up, a worker too many."""
    assert round_workers(30, 1.1) == 33 == round_workers(30, Fraction(11, 10))
    assert workers_for(3, 70, 21) == 10
    with pytest.raises(UsageError, match="a capacity of 0 events per second cannot be scaled"):
        workers_for(3, 70, 0)
    with pytest.raises(UsageError, match="at least 3 and at most 2 workers: there is no such number"):
        round_workers(1, 1, lower=3, upper=2)


def test_never_above_partitions_or_keys() -> None:
    for limit in ({"partitions": 3}, {"keys": 3}, {"partitions": 3, "keys": 50}):
        step = MeasuredStep("s", rate=100.0, processed=50.0, busy=1.0, **limit)  # type: ignore[arg-type]
        found = scale(chain(step), Scaling(target=0.4, catch_up=0))["s"]
        assert found.needed == 250 and found.wanted == 3 and found.possible == pytest.approx(100 * 150 / 250)
        word = "partitions" if "partitions" in limit else "keys"
        assert found.limited == f"3 {word} are not enough: 5 workers would be needed"


def test_a_hot_key_is_one_worker() -> None:
    step = MeasuredStep("s", rate=100.0, processed=25.0, busy=1.0, skew=0.4, partitions=64)
    found = scale(chain(step), NOW)["s"]
    assert found.wanted == 3 and found.limited.startswith("40 % of its events have one key or partition")
    assert found.possible == pytest.approx(25 / 0.4)  # that worker takes 25 a second, which are 40 % of all


def test_a_bottleneck_passes_its_limit_upstream() -> None:
    first = MeasuredStep("first", rate=90.0, processed=30.0, busy=1.0, out=60.0)
    slow = MeasuredStep("slow", processed=60.0, busy=1.0, partitions=2, out=60.0, hears=("first",))
    last = MeasuredStep("last", processed=60.0, busy=0.5, hears=("slow",))
    found = scale(chain(first, slow, last), NOW)
    assert found["slow"].needed == 180 and found["slow"].wanted == 2 and found["slow"].possible == 120
    assert found["first"].possible == 60 and found["first"].wanted == 2  # instead of 3
    assert found["first"].limited == found["last"].limited == "slow cannot take more, and holds the sources back"
    assert found["last"].possible == 120 and found["last"].wanted == 1


def test_only_those_that_feed_the_bottleneck_are_held_back() -> None:
    def source(name: str) -> MeasuredStep:
        return MeasuredStep(name, rate=100.0, processed=100.0, busy=0.5, out=100.0)

    slow = MeasuredStep("slow", processed=100.0, busy=1.0, keys=1, hears=("a",))
    free = MeasuredStep("free", processed=100.0, busy=1.0, hears=("b",))
    found = scale(chain(source("a"), source("b"), slow, free), Scaling(target=0.5, catch_up=0))
    assert found["slow"].limited == "1 key is not enough: 2 workers would be needed"
    assert found["a"].possible == 50 and found["b"].possible is None and found["free"].wanted == 2
    assert found["b"].limited == ""


def test_lag_goes_down_the_stream() -> None:
    first = MeasuredStep("first", processed=100.0, growth=50.0, lag=1000.0, busy=0.6, out=200.0)
    found = scale(chain(first, MeasuredStep("last", processed=200.0, busy=0.3, hears=("first",))), Scaling(1.0, 2, 0))
    assert (found["first"].rate, found["first"].catch_up) == (150, 500)
    assert (found["last"].rate, found["last"].catch_up) == (300, 1000)


def test_what_is_not_measured_is_not_guessed() -> None:
    found = scale(chain(MeasuredStep("s", rate=5.0)))["s"]
    assert found.capacity is None and found.wanted is None and found.limited == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"busy": -0.1}, "step s: busy is -0.1: expected a number that is not below 0"),
        ({"rate": float("inf")}, "step s: rate is inf"),
        ({"workers": 0}, "step s: workers is 0: expected 1 or more"),
        ({"skew": 1.5}, "step s: skew is 1.5: expected a part of all events, up to 1"),
    ],
)
def test_what_cannot_be(values: dict[str, float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        MeasuredStep("s", **values)  # type: ignore[arg-type]


def test_steps_that_are_not_there_or_go_in_a_circle() -> None:
    with pytest.raises(DataError, match="step a hears b, which is not there"):
        chain(MeasuredStep("a", hears=("b",)))
    with pytest.raises(DataError, match="the steps a, b hear each other in a circle"):
        chain(MeasuredStep("a", hears=("b",)), MeasuredStep("b", hears=("a",)))


@pytest.mark.parametrize("wanted", [{"target": 0}, {"target": 1.2}, {"catch_up": -1}, {"restart": float("nan")}])
def test_wishes_that_make_no_sense(wanted: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wanted))):
        Scaling(**wanted)
