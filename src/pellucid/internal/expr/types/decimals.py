"""Money: ``Decimal`` with a fixed number of places, as an exact 64-bit integer.

``Annotated[Decimal, Scale(2)]`` has two places after the point; 12.50 is the integer 1250.  Any number of up to 18
digits fits; one that does not is an error, as with ``int``.

>>> t = DecimalType(2)
>>> t, t.flatten(Decimal("12.5")), t.unflatten((1250,))
(Decimal(2), (1250,), Decimal('12.50'))
>>> t.problem(Decimal("0.125"))
'0.125 has more than 2 places after the point: round it first, or declare Scale(3)'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from pellucid.errors import TypeMismatch
from pellucid.internal.expr.types.base import INT, Type, fits_int

MOST_PLACES = 18
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Scale:
    """How many places after the point a ``Decimal`` has.

    >>> from typing import Annotated, NamedTuple
    >>> from decimal import Decimal
    >>> class Payment(NamedTuple):
    ...     amount: Annotated[Decimal, Scale(2)]
    """

    places: int

    def __post_init__(self) -> None:
        if isinstance(self.places, bool) or not isinstance(self.places, int) or not 0 <= self.places <= MOST_PLACES:
            raise TypeMismatch(f"Scale(n) wants a whole number from 0 to {MOST_PLACES}, found {self.places!r}")


@dataclass(frozen=True, repr=False)
class DecimalType(Type):
    """A ``Decimal`` with a fixed number of places."""

    places: int

    def __str__(self) -> str:
        return f"Decimal({self.places})"

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, Type]]:
        yield prefix, INT

    def flatten(self, value: Any) -> tuple[Any, ...]:
        return (int(Decimal(value).scaleb(self.places, _EXACT)),)

    def _build(self, leaves: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return self.value(leaves[0]), leaves[1:]

    def value(self, number: int) -> Decimal:
        """The decimal that a number is.

        >>> DecimalType(2).value(-5)
        Decimal('-0.05')
        """
        return Decimal(int(number)).scaleb(-self.places, _EXACT)

    def problem(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (Decimal, int)):
            return f"expected {self}, found {type(value).__name__} {value!r}"
        number = Decimal(value)
        if not number.is_finite():
            return f"expected {self}, found {value}, which is no number"
        places = _places(number)
        if places > self.places:
            return (
                f"{value} has more than {self.places} places after the point: round it first"
                + (f", or declare Scale({places})" if places <= MOST_PLACES else "")
            )  # fmt: skip
        fits = number.is_zero() or (number.adjusted() <= MOST_PLACES and fits_int(self.flatten(number)[0]))
        return None if fits else f"{value} with {self.places} places does not fit in 64 bits"

    def plain(self, value: Any) -> Decimal:
        """The same number with exactly these places."""
        return self.value(self.flatten(value)[0])


def _places(number: Decimal) -> int:
    """How many places after the point a number needs; looked at digit by digit, as arithmetic rounds long ones.

    >>> _places(Decimal("12.500")), _places(Decimal("0.00")), _places(Decimal("1E+5"))
    (1, 0, -5)
    """
    _, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    return 0 if number.is_zero() else -int(exponent) - (len(text) - len(text.rstrip("0")))
