"""Arrow arrays to leaf columns and back."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.internal.data.arrow import array_of, column_at, leaf_column, numpy_of
from pellucid.internal.data.bind import Place
from pellucid.internal.data.columns import Strings, values_of
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type

PLACE = Place("t", lambda i: f"row {i + 1}")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def there(t: Type, array: Any, silent: bool = False) -> Any:
    return leaf_column(t, array, column="c", place=PLACE, silent=silent)


def test_no_copy_where_none_is_needed() -> None:
    array = pa.array([1, 2, 3])
    column, mask = there(INT, array.slice(1))
    assert mask is None and column.tolist() == [2, 3]
    assert column.__array_interface__["data"][0] == array.buffers()[1].address + 8


@pytest.mark.parametrize(
    ("t", "array"),
    [
        (INT, pa.array([None, 2])),
        (INT, pa.array([None, None])),
        (FLOAT, pa.array([None, 1.5])),
        (BOOL, pa.array([None, True])),
        (STR, pa.array([None, "a"])),
        (STR, pa.array([None, None], pa.string())),
        (EnumType(Color), pa.array([None, "RED"])),
    ],
)
def test_a_null_can_be_silence(t: Type, array: Any) -> None:
    column, mask = there(t, array, silent=True)
    assert mask.tolist() == array.is_valid().to_pylist()
    assert len(values_of(t, column)) == 2
    if mask[1]:
        assert values_of(t, column)[1] in (array[1].as_py(), Color.RED)


def test_a_null_struct_has_null_fields() -> None:
    table = pa.table({"p": pa.array([{"a": {"b": 1}}, None])})
    assert column_at(table, "p.a.b").to_pylist() == [1, None]
    assert column_at(pa.table({"p.a": [1]}), "p.a").to_pylist() == [1]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=6))
def test_texts_there_and_back(texts: list[str]) -> None:
    column, _ = there(STR, pa.array(texts, pa.string()))
    assert array_of(STR, column).to_pylist() == texts
    assert array_of(STR, texts).to_pylist() == texts


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 20))
def test_truth_values_there_and_back(values: list[bool], start: int) -> None:
    assert numpy_of(pa.array(values, pa.bool_()).slice(start)).tolist() == values[start:]
    assert array_of(BOOL, values).to_pylist() == values


def test_columns_back() -> None:
    assert array_of(INT, [1, 2]).equals(pa.array([1, 2]))
    assert array_of(FLOAT, np.array([1.5])[::-1]).equals(pa.array([1.5]))
    assert array_of(EnumType(Color), np.array([1, 0])).to_pylist() == ["BLUE", "RED"]
    assert array_of(EnumType(Color), [Color.RED]).to_pylist() == ["RED"]
    assert array_of(STR, Strings(np.array([2, 2]), ["x", "y", "z"])).to_pylist() == ["z", "z"]
