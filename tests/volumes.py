"""How much of a random test every run has, and how much the long one."""

from __future__ import annotations

import pytest


def volumes(few: int, many: int) -> pytest.MarkDecorator:
    """A test with an argument ``examples``: few in every run, many among the long ones (``make test-long``)."""
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.long)])
