"""Reading ahead: the same items in the same order, errors behind them, and no thread that is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pellucid.internal.data.formats.ahead import ahead


def _noted(items: Iterator[int], seen: list[int]) -> Iterator[int]:
    for item in items:
        seen.append(item)
        yield item


def test_an_error_comes_behind_what_was_read_before() -> None:
    def read() -> Iterator[int]:
        yield from range(5)
        raise ValueError("row 6")

    seen: list[int] = []
    with ahead(read()) as items, pytest.raises(ValueError, match="row 6"):
        list(_noted(items, seen))
    assert seen == [0, 1, 2, 3, 4]


def test_whoever_leaves_early_leaves_no_thread() -> None:
    made = []

    def read() -> Iterator[int]:
        for i in range(1000):
            made.append(i)
            yield i

    with ahead(read()) as items:
        assert next(items) == 0
    assert len(made) < 10
    assert not [t for t in threading.enumerate() if t.name == "pellucid-read"]
