"""Small languages: the message where their parser is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import UsageError
from pellucid.atomic import parse
from pellucid.capacity.arrays import read_text
from pellucid.internal.base import languages


@pytest.mark.parametrize(("read", "what"), [(parse, "a network"), (read_text, "a system in Cubicle's language")])
def test_without_lark(read: Callable[[str], Any], what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lark", None)
    languages._parser.cache_clear()
    with pytest.raises(UsageError) as caught:
        read("x")
    assert str(caught.value) == f"{what} is read by the library lark: pip install 'pellucid[check]'"
