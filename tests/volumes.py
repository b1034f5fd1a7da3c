"""How much of a random test every run has, and how much the long one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.seeds import seeds


def volumes(few: int, many: int) -> pytest.MarkDecorator:
    """A test with an argument ``examples``: few in every run, many among the long ones (``make test-long``)."""
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.long)])


def some_seeds(few: int, many: int) -> list[Any]:
    """Seeds for a random test that takes seconds each (it compiles, say): few in every run, the others among the long ones."""
    return [*seeds(few), *(pytest.param(seed, marks=pytest.mark.long) for seed in seeds(many - few, few))]
