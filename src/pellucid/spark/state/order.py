"""Whether the rows of a key come in order: what is fresh, late, doubled, or after a gap.

The judge is itself a pipeline, run per key by the same engine: its state is the last order that was applied, and it
puts out an event only for a row that must not be applied now.

>>> judge = Judge((("seq", INT),), None)
>>> judge.refused(3, [[1, 3, 2]], None)  # 2 comes after 3
[Refusal(row=2, why='late', last=(3,))]
>>> judge = Judge((("seq", INT),), None, sequence=1)
>>> judge.refused(2, [[1, 3]], None)
[Refusal(row=1, why='gap', last=(1,))]

Two rows of one key and one order are the same row twice only if they are equal; else nothing says which is first, and
the answers would depend on how they came.  Where late rows are left out, the judge therefore remembers a digest of the
last row of each key: a row of the same order with another digest is ``different``, in one micro-batch or in several.

>>> judge = Judge((("seq", INT),), None, sources=1)
>>> judge.refused(3, [[1, 2, 2]], None, [[7, 8, 8]])
[Refusal(row=2, why='late', last=(2,))]
>>> judge.refused(1, [[2]], None, [[9]])
[Refusal(row=0, why='different', last=(2,))]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.data.columns import Batch, Column
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT, TupleType, Type
from pellucid.internal.graph.build import build
from pellucid.internal.graph.model import Graph

_APPLIED, _LATE, _GAP, _DIFFERENT = range(4)
_WHY = {_LATE: "late", _GAP: "gap", _DIFFERENT: "different"}


@dataclass(frozen=True)
class Refusal:
    """A row that must not be applied now: it is ``late`` (or doubled), it stands after a ``gap``, or it is
    ``different`` from the last row that was applied, whose key and order it has."""

    row: int
    why: str
    last: tuple[Any, ...] | None  # the order applied before it; None: none of this key


class Judge:
    """The last applied order of each key.

    ``sequence`` is the first number of a sequence that has no gaps: then a row is applied only if its number is the
    next.  ``sources`` is how many digests a row comes with (0: rows are not compared): one, or one for each source, 0
    where a source has no row.
    """

    def __init__(
        self, order: tuple[tuple[str, Type], ...], key: Type | None, *, sequence: int | None = None, sources: int = 0
    ) -> None:
        self._engine = Engine(_graph(tuple(t for _, t in order), sequence, sources), key=key)
        self.sources = sources

    def refused(
        self, count: int, order: Sequence[Column], keys: list[Column] | None, digests: Sequence[Column] = ()
    ) -> list[Refusal]:
        """Take rows in this order; return those that were refused, by row. All others are applied."""
        base = self._engine.pushed
        batch = Batch(count, [[*order, *digests]], [None], [keys] if keys is not None else None)
        (output,) = self._engine.push_batch(batch, positions=True)
        if not len(output):
            return []
        out = []
        for event, position in zip(output.events(), output.positions, strict=True):
            code, seen, *last = event
            out.append(Refusal(int(position) - base, _WHY[code], tuple(last) if seen else None))
        return out

    def save(self) -> bytes:
        """The state as bytes."""
        return bytes(self._engine.save())

    def load(self, data: bytes) -> None:
        """Go on from a saved state, also of a judge that did not compare rows, or that this one need not."""
        try:
            self._engine.load(data)
        except StateError:  # of another pipeline
            self._engine.carry(data, drop=["row"])


@lru_cache(maxsize=64)
def _graph(kinds: tuple[Type, ...], sequence: int | None, sources: int = 0) -> Graph:
    """The judge's pipeline for orders of these types."""
    zero = tuple(0 if t == INT else "" for t in kinds)
    width = len(kinds)

    def judged(seen: Any, last: Sequence[Any], order: Sequence[Any]) -> Any:
        """What a row of this order is after that one."""
        if sequence is None:
            return _LATE if seen and not _after(order, last) else _APPLIED
        due = last[0] + 1 if seen else sequence
        return _APPLIED if order[0] == due else _LATE if order[0] < due else _GAP

    def alone(state: Any, row: Any) -> Any:
        seen, *last = state
        order = (row,) if width == 1 else row
        code = judged(seen, last, order)
        if code == _APPLIED:
            return (True, *order), []
        return state, [(code, seen, *last)]

    def with_digests(state: Any, row: Any) -> Any:
        seen, *last = state
        order, digests = row[:width], row[width:]
        code = judged(seen, last, order)
        said = (code, seen, *last, *order, *digests)
        return ((True, *order) if code == _APPLIED else state), [said]

    def compared(known: Any, said: Any) -> Any:
        code, seen = said[:2]
        last, order, digests = said[2 : 2 + width], said[2 + width : 2 + 2 * width], said[2 + 2 * width :]
        if code == _APPLIED:
            return digests, []
        differs = False
        for now, then in zip(digests, known, strict=True):
            differs = differs or (now != 0 and then != 0 and now != then)  # 0: none, or of a time when none was kept
        same = code == _LATE
        for a, b in zip(order, last, strict=True):
            same = same and a == b
        return known, [(_DIFFERENT if same and differs else code, seen, *last)]

    if not sources:
        row = kinds[0] if width == 1 else TupleType(kinds)
        return build(lambda o: o.task(alone, (False, *zero), id="order"), "pipeline", {"o": row})[0]

    def both(o: Any) -> Any:
        return o.task(with_digests, (False, *zero), id="order").task(compared, (0,) * sources, id="row")

    return build(both, "pipeline", {"o": TupleType((*kinds, *[INT] * sources))})[0]


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
