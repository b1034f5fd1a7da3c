"""What a Python worker of Spark remembers from one micro-batch to the next, and a test must not hand on to another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pellucid.spark import stream


@pytest.fixture(autouse=True)
def worker() -> Iterator[None]:
    """A fresh worker for each test of the module that imports this."""
    new_worker()
    yield
    new_worker()


def new_worker() -> None:
    """What a process remembers is gone."""
    stream._cache.clear()
    stream._claimed.clear()
