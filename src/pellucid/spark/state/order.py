"""Whether the rows of a key come in order: what is fresh, late, doubled, or after a gap.

The judge is itself a pipeline, run per key by the same engine: its state is the last order that was applied, and it
puts out an event only for a row that must not be applied now.

>>> judge = Judge((("seq", INT),), None)
>>> judge.refused(3, [[1, 3, 2]], None)  # 2 comes after 3
[Refusal(row=2, why='late', last=(3,))]
>>> judge = Judge((("seq", INT),), None, sequence=1)
>>> judge.refused(2, [[1, 3]], None)
[Refusal(row=1, why='gap', last=(1,))]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pellucid.data.columns import Batch, Column
from pellucid.engine.kernel.engine import Engine
from pellucid.errors import UsageError, option
from pellucid.expr.types import INT, TupleType, Type
from pellucid.graph.build import build
from pellucid.graph.model import Graph

_LATE, _GAP = 1, 2


@dataclass(frozen=True)
class Refusal:
    """A row that must not be applied now: it is ``late`` (or doubled), or it stands after a ``gap``."""

    row: int
    why: str
    last: tuple[Any, ...] | None  # the order applied before it; None: none of this key


class Judge:
    """The last applied order of each key.

    ``sequence`` is the first number of a sequence that has no gaps: then a row is applied only if its number is the
    next.
    """

    def __init__(self, order: tuple[tuple[str, Type], ...], key: Type | None, *, sequence: int | None = None) -> None:
        self._engine = Engine(_graph(tuple(t for _, t in order), sequence), key=key)
        self._sequence = sequence

    def refused(self, count: int, order: Sequence[Column], keys: list[Column] | None) -> list[Refusal]:
        """Take rows in this order; return those that were refused, by row. All others are applied."""
        base = self._engine.pushed
        batch = Batch(count, [list(order)], [None], [keys] if keys is not None else None)
        (output,) = self._engine.push_batch(batch, positions=True)
        if not len(output):
            return []
        out = []
        for event, position in zip(output.events(), output.positions, strict=True):
            code, seen, *last = event
            why = "late" if code == _LATE else "gap"
            out.append(Refusal(int(position) - base, why, tuple(last) if seen else None))
        return out

    def save(self) -> bytes:
        """The state as bytes."""
        return bytes(self._engine.save())

    def load(self, data: bytes) -> None:
        """Go on from a saved state."""
        self._engine.load(data)


@lru_cache(maxsize=64)
def _graph(kinds: tuple[Type, ...], sequence: int | None) -> Graph:
    """The judge's pipeline for orders of these types."""
    zero = tuple(0 if t == INT else "" for t in kinds)
    if len(kinds) == 1:
        first = sequence

        def one(state: Any, o: Any) -> Any:
            seen, last = state
            if first is None:
                if not seen or o > last:
                    return (True, o), []
                return state, [(_LATE, seen, last)]
            due = last + 1 if seen else first
            if o == due:
                return (True, o), []
            if o < due:
                return state, [(_LATE, seen, last)]
            return state, [(_GAP, seen, last)]

        return build(lambda o: o.task(one, (False, zero[0]), id="order"), "pipeline", {"o": kinds[0]})[0]

    def several(state: Any, o: Any) -> Any:
        seen, *last = state
        if not seen or _after(o, last):
            return (True, *o), []
        return state, [(_LATE, seen, *last)]

    return build(lambda o: o.task(several, (False, *zero), id="order"), "pipeline", {"o": TupleType(kinds)})[0]


def _after(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Whether one order comes after another, column by column."""
    for x, y in zip(a, b, strict=True):
        if x != y:
            return x > y
    return False


def check_sequence(order: tuple[tuple[str, Type], ...], sequence: int | None, gaps: str) -> None:
    """Whether these arguments go together."""
    if gaps not in ("fail", "wait"):
        raise UsageError(f"{option('gaps')} must be 'fail' or 'wait', found {gaps!r}")
    if sequence is None:
        if gaps == "wait":
            raise UsageError(
                f"{option('gaps', 'wait')} needs {option('sequence', any='N')}, the first number of each key's sequence"
            )
        return
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise UsageError(
            f"{option('sequence')} is the first number of each key's sequence, a whole number, found {sequence!r}"
        )
    if len(order) != 1 or order[0][1] != INT:
        raise UsageError(f"{option('sequence')} needs {option('order')} to be one column of whole numbers")


def shown(value: object, kind: Any = None) -> str:
    """A key or an order as its user would write it; ``kind`` is the Arrow type of its column, if it is given as the
    engine keeps it.

    >>> import pyarrow as pa
    >>> shown("a"), shown(7), shown(None)
    ("'a'", '7', 'None')
    >>> shown(19723, pa.date32()), shown(1704153600000000, pa.timestamp("us", tz="UTC"))
    ('2024-01-01', '2024-01-02 00:00:00+00:00')
    """
    import pyarrow as pa

    if kind is not None and pa.types.is_date(kind):
        value = pa.scalar(value, pa.int32()).cast(pa.date32()).as_py()
    elif kind is not None and pa.types.is_timestamp(kind):
        value = pa.scalar(value, pa.int64()).cast(kind).as_py()
    return repr(value) if isinstance(value, (str, int)) or value is None else str(value)
