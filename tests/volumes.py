"""How much of a random test every run has, and how much the long one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.seeds import HUNT, seeds


def volumes(few: int, many: int) -> pytest.MarkDecorator:
    """A test with an argument ``examples``: few in every run, many among the long ones (``make test-long``)."""
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.long)])


def some_seeds(few: int, many: int) -> list[Any]:
    """Seeds for a random test that takes seconds each (it compiles, say): few in every run, the others among the long
    ones."""
    return [*seeds(few), *(pytest.param(seed, marks=pytest.mark.long) for seed in seeds(many - few, few))]


def examples(few: int, many: int) -> int:
    """For ``max_examples`` of a test that takes a tenth of a second and more for each: few in every run, many in a
    hunt.

    >>> examples(8, 25)
    8
    """
    return few if HUNT is None else many
