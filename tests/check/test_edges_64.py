"""Questions at the ends of 64 bits, and numbers of a formula that no float is."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import pytest

from pellucid import Scale, UsageError, check, pipeline

same, money = pipeline(lambda x: x, x=int), pipeline(lambda x: x, x=Annotated[Decimal, Scale(2)])
fits = pipeline(lambda x: x.filter(lambda v: v <= 2**63 - 1), x=int)
MOST = "92233720368547758.07"


@pytest.mark.parametrize("cents", ["90071992547409.93", "9007199254740993.01", "-9007199254740993.01"])
def test_beside_a_decimal_a_number_is_what_is_written(cents):
    assert check.holds(money, f"G !(x.value = {cents})").counterexample.inputs == [{"x": Decimal(cents)}]


def test_what_has_more_than_64_bits_is_no_event():
    assert check.holds(same, f"G (x -> x.value <= {2**63 - 1})").proved
    assert check.holds(same, f"G (x -> x.value < {2**63 - 1})").counterexample.inputs == [{"x": 2**63 - 1}]
    assert check.holds(money, f"G (x -> x.value <= {MOST})").proved
    assert check.holds(money, f"G (x -> x.value < {MOST})").counterexample.inputs == [{"x": Decimal(MOST)}]
    assert check.equivalent(same, fits).proved
    assert check.equivalent(same, fits, how="sequence").unknown
    assert check.live(fits).proved
    above = pipeline(lambda x: x.map(lambda v: v < 2**63), x=int)
    assert check.implies(pipeline(lambda x: x.map(lambda v: v == v), x=int), above).proved


def test_a_range_that_nobody_can_list_is_refused_with_its_size():
    with pytest.raises(UsageError, match="has 18,446,744,073,709,551,616 values: give at most"):
        check.live(same, ints=range(-(2**63), 2**63))
