"""Tables and numbers for people."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pellucid.internal.draw.labels import cells, clean


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their names, numbers to the right; a column that is empty everywhere is left out.

    >>> print(table(["bolt", "queue", "note"], [["B1", "12", ""], ["second", "7", ""]]))
    bolt    queue
    B1         12
    second      7
    """
    keep = [i for i in range(len(head)) if any(row[i] for row in rows)]
    shown = [[clean(row[i]) for i in keep] for row in (head, *rows)]
    widths = [max(cells(row[i]) for row in shown) for i in range(len(keep))]
    right = [all(_is_number(row[i]) for row in shown[1:] if row[i]) for i in range(len(keep))]
    lines = []
    for row in shown:
        padded = [
            " " * (widths[i] - cells(text)) + text if right[i] else text + " " * (widths[i] - cells(text))
            for i, text in enumerate(row)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


_WORDS = ("-", "any", "bounded", "none", "unbounded", "unknown", "never", "∞")


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text.startswith("≤") or text in _WORDS


def amount(value: float | Fraction | None, *, none: str = "-") -> str:
    """A number that fits a column.

    >>> amount(1234567.0), amount(0.12345), amount(42), amount(None), amount(Fraction(4, 5)), amount(Fraction(1, 3))
    ('1.23 M', '0.123', '42', '-', '0.8', '1/3')
    """
    if value is None:
        return none
    if isinstance(value, Fraction):
        short = f"{float(value):.4g}"
        return short if Fraction(short) == value else str(value)
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == ' k' else size):.3g}{letter}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def percent(value: float | Fraction | None) -> str:
    """
    >>> percent(0.256), percent(None)
    ('26 %', '-')
    """
    return "-" if value is None else f"{100 * float(value):.0f} %"


def seconds_text(seconds: float | None) -> str:
    """
    >>> seconds_text(0.25), seconds_text(90), seconds_text(7200), seconds_text(None)
    ('0.25 s', '1.5 min', '2 h', '-')
    """
    if seconds is None:
        return "-"
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
