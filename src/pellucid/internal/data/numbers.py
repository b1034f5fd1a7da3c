r"""How a number or a truth value is spelled in a cell of text: one grammar for every engine.

============  ==========================================================================================================
``int``       digits ``0``-``9`` with an optional sign: ``7``, ``+7``, ``-0``, ``007``; within 64 bits
``float``     digits with an optional sign, point and exponent: ``1``, ``1.``, ``.5``, ``-1.5e3``; what is too large is
an
              infinity; ``inf`` and ``infinity`` in any case, with an optional sign; ``nan``, a value if one
              says so
``int|None``  also a whole number with a point, ``3.0``, up to 2**53: so programs write ints with holes in between
``bool``      ``true``, ``True``, ``TRUE``, ``1``; ``false``, ``False``, ``FALSE``, ``0``
============  ==========================================================================================================

Blanks and tabs around it do not count.  Nothing else is a number: no ``0x10``, ``1_000``, ``1e3`` (as an int), digits
of other scripts. JSON has a grammar of its own, in which an int has neither point nor exponent.  The patterns mean the
same in Python, in Java (Spark) and in RE2 (Arrow).
"""

from __future__ import annotations

import re

from pellucid.internal.data.bind import shorten
from pellucid.internal.expr.types import fits_int

BLANKS = " \t"
TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
INT_CELL = r"[ \t]*[+-]?[0-9]+[ \t]*"
WHOLE_CELL = r"[ \t]*[+-]?[0-9]+\.0*[ \t]*"
FLOAT_CELL = (
    r"[ \t]*[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])[ \t]*"
)
_INT, _WHOLE, _FLOAT = re.compile(INT_CELL), re.compile(WHOLE_CELL), re.compile(FLOAT_CELL)
EXACT = 2**53  # up to here every whole number is a double
_BOOLS = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
_DIGITS = 19  # of the largest int


def int_of(text: str) -> int:
    """The int that a cell spells; a ``ValueError`` says what is wrong.

    >>> int_of(" +7 "), int_of("-0"), int_of("007")
    (7, 0, 7)
    >>> int_of("0x10")
    Traceback (most recent call last):
    ...
    ValueError: expected int, found '0x10'
    """
    if not _INT.fullmatch(text):
        raise ValueError(f"expected int, found {shorten(text)}")
    bare = text.strip(BLANKS)
    digits = bare.lstrip("+-").lstrip("0")
    # Python refuses to convert thousands of digits, be they zeros.
    value = int(f"{bare[0] if bare[0] == '-' else ''}{digits or 0}") if len(digits) <= _DIGITS else None
    if value is None or not fits_int(value):
        shown = bare if len(bare) <= 40 else bare[:39] + "…"
        raise ValueError(f"{shown} does not fit in 64 bits: make the source float or str")
    return value


def whole_of(text: str) -> int:
    """The int of a cell that may also be empty: there a whole number may have a point.

    >>> whole_of("7"), whole_of(" -3.0"), whole_of("5.")
    (7, -3, 5)
    >>> whole_of("9007199254740993.0")
    Traceback (most recent call last):
    ...
    ValueError: 9007199254740993.0 has a point, and is beyond 2**53, from where on doubles skip whole numbers: write it
    without the point
    """
    if not _WHOLE.fullmatch(text):
        return int_of(text)
    bare = text.strip(BLANKS)
    value = int_of(bare.partition(".")[0])
    if abs(value) > EXACT:
        raise ValueError(
            f"{shorten(bare)[1:-1]} has a point, and is beyond 2**53, from where on doubles skip whole numbers: write "
            "it without the point"
        )
    return value


def float_of(text: str) -> float:
    """The float that a cell spells.

    >>> float_of("1."), float_of(".5"), float_of("-1e999"), float_of("Infinity")
    (1.0, 0.5, -inf, inf)
    """
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"expected float, found {shorten(text)}")
    return float(text)


def bool_of(text: str) -> bool:
    """The truth value that a cell spells.

    >>> bool_of(" TRUE"), bool_of("0")
    (True, False)
    """
    bare = text.strip(BLANKS)
    if bare not in _BOOLS:
        raise ValueError(f"expected bool (true or false), found {shorten(text)}")
    return _BOOLS[bare]
