"""When spouts emit: at a constant gap, by chance, in bursts, or as it was recorded.

A spout of a topology needs strictly more than its gap between two tuples, and worst cases are about such runs.  What is
measured or drawn by chance need not keep to that: `Simulation.kept_gaps` says which spouts did.  Chance is that of
NumPy's `RandomState`, whose numbers never change between versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.capacity.topology import Number, Spout, exact
from pellucid.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ticks = NDArray[np.int64]


class Arrivals(Protocol):
    """How a spout emits."""

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The times that have to be whole ticks."""

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """The times of the first ``many`` emits, in ticks of ``unit``."""


@dataclass(frozen=True)
class Constant:
    """A tuple every so often; without a number, as often as the spout may: one tick more than its gap.

    >>> Constant(2).every
    Fraction(2, 1)
    """

    every: Fraction | None = None

    def __init__(self, every: Number | None = None) -> None:
        object.__setattr__(self, "every", None if every is None else exact(every, "every"))

    def numbers(self, spout: Spout) -> list[Fraction]:
        """Its period."""
        return [self.every or spout.gap]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """Multiples of the period."""
        import numpy as np

        period = _whole(self.every / unit) if self.every is not None else _whole(spout.gap / unit) + 1
        _near(period * many)
        return period * np.arange(1, many + 1, dtype=np.int64)


@dataclass(frozen=True)
class Poisson:
    """Tuples by chance, one in ``every`` on average, each independent of the others; with ``keep_gap`` the gap of the
    spout passes first, and what remains is by chance.

    >>> Poisson("0.5").keep_gap
    False
    """

    every: Fraction
    keep_gap: bool = False

    def __init__(self, every: Number, *, keep_gap: bool = False) -> None:
        object.__setattr__(self, "every", exact(every, "every"))
        object.__setattr__(self, "keep_gap", keep_gap)

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The gap, if it is kept."""
        return [spout.gap] if self.keep_gap else []

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """Sums of exponential times, each rounded to a tick."""
        import numpy as np

        mean, least = self.every / unit, 0
        if self.keep_gap:
            least = _whole(spout.gap / unit) + 1
            if self.every <= spout.gap:
                raise UsageError(f"one in {self.every} on average cannot be with more than {spout.gap} between two.")
            mean -= least
        times = np.random.RandomState(seed).standard_exponential(many) * float(mean)
        _near(int(times.sum()) + least * many)
        return np.cumsum(np.rint(times).astype(np.int64) + least)


@dataclass(frozen=True)
class Bursts:
    """``size`` tuples at once (as fast as the spout may, a tick more than its gap apart), and again ``every`` so often.

    >>> Bursts(10, every=60).size
    10
    """

    size: int
    every: Fraction

    def __init__(self, size: int, every: Number) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"the size of a burst: expected 1 or more, got {size!r}.")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "every", exact(every, "every"))

    def numbers(self, spout: Spout) -> list[Fraction]:
        """The gap and the time between bursts."""
        return [spout.gap, self.every]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """One burst after another."""
        import numpy as np

        step, every = _whole(spout.gap / unit) + 1, _whole(self.every / unit)
        if step * self.size > every:
            raise UsageError(
                f"a burst of {self.size} tuples, more than {spout.gap} apart, does not fit into {self.every}."
            )
        _near(every * (1 + many // self.size))
        number = np.arange(many, dtype=np.int64)
        return every * (number // self.size) + step * (1 + number % self.size)


@dataclass(frozen=True)
class Recorded:
    """The times at which tuples came, in the unit of the topology, none before the one before it.

    >>> Recorded([0, "0.5", 2]).times
    (Fraction(0, 1), Fraction(1, 2), Fraction(2, 1))
    >>> Recorded([3, 2])
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: recorded time 1: 2 comes after 3.
    """

    times: tuple[Fraction, ...]

    def __init__(self, times: Sequence[Number]) -> None:
        found = tuple(exact(t, f"recorded time {i}", least=Fraction(0)) for i, t in enumerate(times))
        for i in range(1, len(found)):
            if found[i] < found[i - 1]:
                raise UsageError(f"recorded time {i}: {found[i]} comes after {found[i - 1]}.")
        object.__setattr__(self, "times", found)

    def numbers(self, spout: Spout) -> list[Fraction]:
        """All of them."""
        return [t for t in self.times if t]

    def ticks(self, spout: Spout, many: int, unit: Fraction, seed: Any) -> Ticks:
        """All of them, however many are asked for."""
        import numpy as np

        _near(_whole(max(self.times, default=Fraction(0)) / unit))
        return np.array([_whole(t / unit) for t in self.times], dtype=np.int64)


def _whole(number: Fraction) -> int:
    assert number.denominator == 1, number  # the unit divides all that `numbers` has
    return number.numerator


FAR = 1 << 61


def _near(tick: int) -> None:
    """Whether a time can be counted in ticks."""
    if tick >= FAR:
        raise OverflowError(tick)
