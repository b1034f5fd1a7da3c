"""The size of each room against ``budget.toml``: ``make lint`` fails where a room has grown beyond it.

A number there may go down at any time.  One that goes up needs a sentence in ``why`` that says what for.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def size(place: Path) -> tuple[int, int]:
    """Lines and files of Python in a folder or a module; words and files of a folder of pages."""
    if place.name in ("docs", "README.md"):
        pages = [place] if place.is_file() else sorted(place.rglob("*.md"))
        return sum(len(page.read_text(encoding="utf-8").split()) for page in pages), len(pages)
    files = [place] if place.is_file() else [file for file in place.rglob("*.py") if "__pycache__" not in file.parts]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files), len(files)


def rooms(root: Path) -> set[str]:
    """Every folder that must have a budget: those of the package, those behind them, and those of the tests."""
    package = root / "src" / "pellucid"
    folders = [p for top in (package, package / "internal", root / "tests") for p in top.iterdir()]
    return {str(p.relative_to(root)) for p in folders if any(p.glob("*.py")) and p != package / "internal"}


def excess(root: Path, budget: Mapping[str, Mapping[str, object]]) -> list[str]:
    """A line for each room that is larger than its budget, has none, or is gone.

    >>> excess(ROOT, {"src": {"lines": 1, "files": 9999, "why": "an example"}})[0].startswith("src: ")
    True
    """
    out = []
    for room, entry in budget.items():
        if not (root / room).exists():
            out.append(f"{room}: there is no such folder; take it out of budget.toml")
            continue
        for what, found in zip(("lines", "files"), size(root / room), strict=True):
            most = entry.get(what, 0)
            if isinstance(most, int) and found > most:
                out.append(f"{room}: {found:,} {what}, and its budget is {most:,}: delete some, or say why")
        if not str(entry.get("why", "")).strip():
            out.append(f"{room}: its budget has no `why`")
    return out + [f"{room}: it has no budget in budget.toml" for room in sorted(rooms(root) - set(budget))]


if __name__ == "__main__":
    found = excess(ROOT, tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8")))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
