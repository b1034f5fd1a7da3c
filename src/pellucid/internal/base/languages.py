"""Texts of small languages: a parser by lark, which is loaded when it is used, and mistakes shown at their place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError, UsageError, nearest

if TYPE_CHECKING:
    from lark import Lark, Tree


def caret(text: str, line: int, column: int, message: str, name: str = "") -> DataError:
    """A mistake in a text, with the line and a caret below the place; of a long line the part around it.

    >>> print(caret("p[ t{commit ]", 1, 13, "`]` is not expected here", "a.atf"))
    a.atf, line 1, column 13: `]` is not expected here
      p[ t{commit ]
                  ^
    """
    lines = text.split("\n")
    shown = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    shown = "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in shown)  # one sign for each
    begin = max(0, column - 80) if len(shown) > 120 else 0
    shown = ("…" if begin else "") + shown[begin + bool(begin) : begin + 120] + ("…" if shown[begin + 120 :] else "")
    where = f"{name}, line {line}" if name else f"line {line}"
    return DataError(f"{where}, column {column}: {message}\n  {shown}\n  {' ' * (column - 1 - begin)}^")


class _Looking:
    """Calls back at each word, so that reading a long text can be stopped."""

    always_accept = ()

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def process(self, words: Iterator[Any]) -> Iterator[Any]:
        for word in words:
            self.look()
            yield word


def _sign(c: str) -> str:
    return f"`{c}`" if c.isprintable() else f"the sign U+{ord(c):04X}"


@functools.cache
def _parser(grammar: str, what: str, gaps: bool, look: Callable[[], None] | None) -> Lark:
    try:
        from lark import Lark
    except ImportError:
        raise UsageError(f"{what} is read by the library lark: pip install 'pellucid[check]'") from None
    looking: Any = None if look is None else _Looking(look)
    return Lark(grammar, parser="lalr", maybe_placeholders=gaps, propagate_positions=True, postlex=looking)


def parsed(
    text: str,
    grammar: str,
    what: str,
    *,
    words: Mapping[str, str],
    name: str = "",
    shown: str | None = None,
    gaps: bool = False,
    look: Callable[[], None] | None = None,
    hint: str = "",
) -> Tree[Any]:
    """The tree of a text; a mistake says what would be expected, in ``words`` for the grammar's terminals (an empty one
    is not told).  ``shown`` is the text as it was written, if comments were taken out of it; with ``gaps`` an optional
    part that is left out has its place in the tree; ``hint`` is reported where a sign means nothing.  ``look`` is
    called at each word, and may stop it by an exception.

    >>> grammar = 'start: INT ("+" INT)*\\n%import common.INT\\n%ignore " "'
    >>> parsed("1 + ", grammar, "a sum", words={"INT": "a number"})
    Traceback (most recent call last):
    pellucid.errors.DataError: line 1, column 4: the text ends here: a number would be
      1 +
         ^
    """
    parser = _parser(grammar, what, gaps, look)
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    whole = text if shown is None else shown
    try:
        return parser.parse(text)
    except UnexpectedToken as e:
        ends = e.token.type == "$END"
        lines = text.rstrip().split("\n")
        line, column = (len(lines), len(lines[-1]) + 1) if ends else (e.line, e.column)
        found = "the text ends here" if ends else f"`{e.token}` is not expected here"
        expected = sorted({w for t in e.accepts or e.expected if (w := words.get(t, t.lower()))})
        quoted = [w if w[0].isalnum() else f"`{w}`" for w in expected[:16]]
        mean = "" if ends else nearest(str(e.token), [w for w in expected if w.isalpha()])
        raise caret(whole, line, column, f"{found}: {', '.join(quoted)} would be{mean}", name) from None
    except UnexpectedCharacters as e:
        also = f": {hint}" if hint else ""
        raise caret(whole, e.line, e.column, f"{_sign(e.char)} means nothing here{also}", name) from None
