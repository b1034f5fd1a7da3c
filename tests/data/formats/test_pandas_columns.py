"""Columns of pandas frames: objects one by one, dicts as records, columns without a value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import pytest

from pellucid import DataError, Scale, pipeline


class Spot(NamedTuple):
    x: int
    y: int | None
    due: Annotated[Decimal, Scale(2)] | None


class Row(NamedTuple):
    at: Annotated[datetime, UTC] | None
    spot: Spot


same = pipeline(lambda x: x.map(lambda e: repr(e), to=str), x=Row)


def test_dicts_are_records_and_their_whole_numbers_may_be_floats():
    spots = [{"x": 1, "y": 2.0, "due": Decimal("1.5")}, {"x": 3, "y": np.nan, "due": None}, {"x": 2**53 + 1, "y": 4}]
    frame = pd.DataFrame({"at": pd.Series([None] * 3, dtype="float64"), "spot": spots})
    wanted = [
        Row(None, Spot(1, 2, Decimal("1.50"))),
        Row(None, Spot(3, None, None)),
        Row(None, Spot(2**53 + 1, 4, None)),
    ]
    assert same(frame)["out"].tolist() == list(map(repr, wanted))


def test_a_frame_without_rows_has_records_too():
    assert same(pd.DataFrame(columns=["at", "spot"])).empty
    keyed = pipeline(lambda x: x.cumulate(lambda n, e: n + 1, start=0), x=Row)
    assert keyed(pd.DataFrame(columns=["at", "spot", "who", "n"]), key="who", order="n").empty


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [{"x": 1, "y": 1.5, "due": None}],
            "position 0: column 'spot.y': expected a whole number or null, but 1.5 is none",
        ),
        ([{"x": 1, "y": 1, "due": None}, {"y": 1}], "column 'spot.x' is null"),
        ([{"x": 1, "y": 1, "due": Decimal("1.505")}], "column 'spot.due': 1.505 has more than 2 places"),
        ([{"y": 1, "due": None}], "no column 'spot.x'"),
        ([5], "no column 'spot.x'"),
    ],
)
def test_a_record_that_is_none_is_told_with_its_place(values, said):
    frame = pd.DataFrame(
        {"at": [datetime(2013, 1, 1, tzinfo=UTC)] * len(values), "spot": pd.Series(values, dtype=object)}
    )
    with pytest.raises(DataError, match=said):
        same(frame)


@pytest.mark.parametrize(
    "values", [[datetime(2013, 1, 1), datetime(2013, 1, 1, tzinfo=UTC)], [datetime(2013, 1, 1), date(2013, 1, 1)]]
)
def test_times_of_two_kinds_in_one_column_are_not_one_kind(values):
    class At(NamedTuple):
        at: datetime

    with pytest.raises(DataError, match="position 1: column 'at': expected"):
        pipeline(lambda x: x, x=At)(pd.DataFrame({"at": pd.Series(values, dtype=object)}))


def test_a_text_keeps_its_end():
    ends = pipeline(lambda x: x.map(lambda s: s + "\0"), x=str)
    assert ends(pd.DataFrame({"x": ["a"]}))["out"].tolist() == ["a\0"]
    assert ends(np.array(["a"])).tolist() == ["a\0"]
