"""What docs/how-to-together.md says is said when something goes wrong, for tests that make it go wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REFUSES = "a member refuses the rows (a `NOT NULL`, a missing right, a full disk, another program that holds the table)"
PAGE = Path(__file__).parents[3] / "docs" / "how-to-together.md"


def table() -> dict[str, list[str]]:
    """The rows of the table: what goes wrong, and the texts in italics."""
    part = PAGE.read_text(encoding="utf-8").partition("## When something goes wrong")[2].partition("\n## ")[0]
    found = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] not in ("what", "---"):
            found[cells[0]] = re.findall(r"(?<!\*)\*(?!\*)(.+?)(?<!\*)\*(?!\*)", cells[1])
    return found


def assert_told(what: str, message: str) -> None:
    """The message is one of those that the docs tell of, where this goes wrong."""
    texts = table()[what]
    assert texts, f"the docs tell nothing about: {what}"
    for text in texts:
        pattern = ".*".join(re.escape(piece) for piece in text.split("…"))
        if re.search(pattern, message, re.DOTALL):
            return
    raise AssertionError(f"{what}: the docs say {texts}, and it is said: {message}")


@contextmanager
def documented(what: str, kind: type[Exception], match: str | None = None) -> Iterator[None]:
    """What is raised is of this kind, says this, and is in the docs where this goes wrong."""
    with pytest.raises(kind, match=match) as caught:
        yield
    assert_told(what, str(caught.value))
