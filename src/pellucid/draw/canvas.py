"""A sheet of characters on which pipes meet, turn, fork and cross as box-drawing characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from pellucid.draw.labels import cells

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_GLYPHS = {
    _LEFT: "─",
    _RIGHT: "─",
    _LEFT | _RIGHT: "─",
    _UP: "│",
    _DOWN: "│",
    _UP | _DOWN: "│",
    _DOWN | _RIGHT: "╭",
    _DOWN | _LEFT: "╮",
    _UP | _RIGHT: "╰",
    _UP | _LEFT: "╯",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}


class Canvas:
    """Draw pipes by their owner: those of one owner join where they meet, others pass over each other.

    >>> sheet = Canvas()
    >>> sheet.across(0, 0, 4, owner=1)
    >>> sheet.down(4, [0, 1], owner=1)
    >>> sheet.across(1, 4, 6, owner=1)
    >>> print(sheet)
    ────╮
        ╰──
    """

    def __init__(self) -> None:
        self._arms: dict[tuple[int, int], dict[int, int]] = {}
        self._text: dict[tuple[int, int], str] = {}

    def across(self, row: int, start: int, stop: int, owner: int) -> None:
        """A level pipe between two columns, both included."""
        for x in range(start, stop + 1):
            arms = (_LEFT if x > start else 0) | (_RIGHT if x < stop else 0)
            self._add(x, row, arms, owner)

    def down(self, column: int, rows: Iterable[int], owner: int) -> None:
        """An upright pipe through all of these rows."""
        rows = list(rows)
        for y in range(min(rows), max(rows) + 1):
            arms = (_UP if y > min(rows) else 0) | (_DOWN if y < max(rows) else 0)
            self._add(column, y, arms, owner)

    def _add(self, x: int, y: int, arms: int, owner: int) -> None:
        if arms:
            cell = self._arms.setdefault((y, x), {})
            cell[owner] = cell.get(owner, 0) | arms

    def write(self, x: int, y: int, text: str) -> None:
        """Text over whatever is there."""
        for ch in text:
            if unicodedata.combining(ch):
                self._text[y, x - 1] = self._text.get((y, x - 1), "") + ch
                continue
            self._text[y, x] = ch
            for more in range(1, cells(ch)):
                self._text[y, x + more] = ""  # the second half of a wide character
            x += max(1, cells(ch))

    def bracket(self, x: int, top: int, height: int, ports: list[int]) -> None:
        """What joins the inputs of a step: pipes come in from the left at its ports, the step stands at its middle."""
        for y in range(height):
            glyph = "┐" if y == 0 else "┘" if y == height - 1 else "┤" if y in ports else "│"
            if y == height // 2:
                glyph = "┼" if y in ports else "├"
            self.write(x, top + y, glyph)

    def __str__(self) -> str:
        spots = [*self._arms, *self._text]
        lines = []
        for y in range(max((y for y, _ in spots), default=-1) + 1):
            end = max((x for row, x in spots if row == y), default=-1)
            lines.append("".join(self._glyph(y, x) for x in range(end + 1)).rstrip())
        return "\n".join(lines)

    def _glyph(self, y: int, x: int) -> str:
        if (y, x) in self._text:
            return self._text[y, x]
        owners = list(self._arms.get((y, x), {}).values())
        if not owners:
            return " "
        if len(owners) == 1:
            return _GLYPHS[owners[0]]
        # Two streams cross: the upright one passes over, so that it cannot be taken for a fork.
        return next((_GLYPHS[arms] for arms in owners if arms & (_UP | _DOWN)), "─")
