"""All of several choices in every run, each beside another; all their combinations in the long run.

>>> [(p.values, [m.name for m in p.marks]) for p in diagonal("ab", "xy")]
[(('a', 'x'), []), (('a', 'y'), ['long']), (('b', 'x'), ['long']), (('b', 'y'), [])]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def diagonal(*choices: Iterable[Any]) -> list[Any]:
    """The combinations as parameters of a test; those beside the diagonal are for the long run."""
    axes = [list(choice) for choice in choices]
    chosen = {tuple(i % len(axis) for axis in axes) for i in range(max(map(len, axes)))}
    out = []
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        values = [axis[i] for axis, i in zip(axes, places, strict=True)]
        out.append(pytest.param(*values, marks=[] if places in chosen else [pytest.mark.long]))
    return out
