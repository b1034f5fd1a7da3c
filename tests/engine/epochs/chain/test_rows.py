"""The checksum by which rows are known again: equal for equal rows, whatever lies below what is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pellucid.internal.engine.epochs.chain.rows import Digest


def digest(*arrays: Any) -> str:
    found = Digest()
    for array in arrays:
        found.add(pa.RecordBatch.from_arrays([array], ["x"]))
    return found.text()


def record(numbers: list[int | None], texts: list[str | None], null: list[bool]) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(numbers), pa.array(texts)], names=["n", "t"], mask=pa.array(null))


NULL_RECORD = record([1, None, 3], ["a", None, "c"], [False, True, False])
NULL_LIST = pa.array([[1, 2], None, [3]])
EQUAL = {
    "values below a null record": (NULL_RECORD, record([1, 2, 3], ["a", "b", "c"], [False, True, False])),
    "values below a null list": (
        NULL_LIST,
        pa.ListArray.from_arrays([0, 2, 4, 5], pa.array([1, 2, 8, 9, 3]), mask=pa.array([False, True, False])),
    ),
    "a record in a list": (
        pa.array([[{"n": 1}, None], []], pa.list_(pa.struct([("n", pa.int64())]))),
        pa.ListArray.from_arrays(
            [0, 2, 2],
            pa.StructArray.from_arrays([pa.array([1, 7])], names=["n"], mask=pa.array([False, True])),
        ),
    ),
    "an offset": (pa.array([1, None, 3]), pa.array([9, 1, None, 3, 9]).slice(1, 3)),
}
DIFFERENT = {
    "a record of nulls is no null": (NULL_RECORD, record([1, None, 3], ["a", None, "c"], [False, False, False])),
    "an empty list is no null": (NULL_LIST, pa.array([[1, 2], [], [3]])),
    "where a list ends": (pa.array([[1], [2, 3]]), pa.array([[1, 2], [3]])),
    "the order in a list": (pa.array([[1], [2, 3]]), pa.array([[1], [3, 2]])),
    "a null and a nought": (pa.array([1, None]), pa.array([1, 0])),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_rows_have_equal_checksums(name: str) -> None:
    one, other = EQUAL[name]
    assert one.equals(other)
    assert digest(one) == digest(other)
    assert digest(other.slice(0, 1), other.slice(1)) == digest(one)


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_rows_have_other_checksums(name: str) -> None:
    one, other = DIFFERENT[name]
    assert digest(one) != digest(other)


def test_a_bare_column_has_the_checksum_that_saved_states_have() -> None:
    assert digest(pa.array([1, None, 3])) == "1295b809f4ef56acea11dc185f232634"
