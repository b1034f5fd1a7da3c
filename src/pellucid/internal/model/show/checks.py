"""The checks of an audit as lines: yes or no, how often not, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def check_lines(
    checks: Iterable[str], says: Mapping[str, str], counts: Mapping[str, int], violations: Iterable[Any]
) -> list[str]:
    """A line for each check, and below it what violates it (``.check`` is the name of its check).

    >>> print(*check_lines(["order", "once"], {"order": "in order", "once": "each once"}, {"once": 2}, []), sep=chr(10))
      yes  order: in order
      no   once: each once (2 times not)
    """
    lines = []
    violations = list(violations)
    for check in checks:
        wrong = counts.get(check, 0)
        often = f" ({wrong:,} time{'s' if wrong > 1 else ''} not)" if wrong else ""
        lines.append(f"  {'no ' if wrong else 'yes'}  {check}: {says[check]}{often}")
        lines += [f"         {v}" for v in violations if v.check == check]
    return lines
