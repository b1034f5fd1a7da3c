"""What fits in one task is answered there, by the compiled loops of `pellucid.atomic.logs`: edges in, rows out.

A task holds its edges and some numbers for each; how many edges that may be is said by ``fit=``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH = 1 << 20


def in_one_task(frame: DataFrame, function: Callable[[dict[str, Any]], dict[str, Any]], schema: str) -> DataFrame:
    """The function of all columns, as arrays, in one task; its answer as rows."""
    return frame.repartition(1).mapInArrow(_task(frame.columns, function), schema)


def _task(
    names: list[str], function: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A partition as arrays, through the function."""

    def task(batches: Iterable[Any]) -> Iterator[Any]:
        import numpy as np
        import pyarrow as pa

        parts: dict[str, list[Any]] = {name: [] for name in names}
        for batch in batches:
            for name in names:
                parts[name].append(np.asarray(batch.column(name)))
        columns = {name: np.concatenate(found) if found else np.zeros(0, np.int64) for name, found in parts.items()}
        parts.clear()
        if not len(columns[names[0]]):
            return
        answer = function(columns)
        length = len(next(iter(answer.values())))
        for at in range(0, length, _BATCH):
            piece = {name: pa.array(column[at : at + _BATCH]) for name, column in answer.items()}
            yield pa.RecordBatch.from_pydict(piece)

    return task


def _numbered(src: Any, dst: Any) -> tuple[Any, Any, Any]:
    """All keys in order, and the places of both columns among them."""
    import numpy as np

    keys = np.unique(np.concatenate([src, dst]))
    return keys, np.searchsorted(keys, src).astype(np.int32), np.searchsorted(keys, dst).astype(np.int32)


def reach(frame: DataFrame) -> DataFrame:
    """Of (src, dst): what is reached from -1, as (v)."""
    return in_one_task(frame, _reach, "v long")


def _reach(columns: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from pellucid.atomic.logs.kernels import reached, readers

    keys, src, dst = _numbered(columns["src"], columns["dst"])
    start, out = readers(len(keys), src, dst)
    via, _ = reached(start, out, np.zeros(1, np.int32))  # -1 is the least of the keys
    return {"v": keys[via >= 0]}


def reach_with_ways(frame: DataFrame) -> DataFrame:
    """Of (src, dst, via, w): what is reached from -1, from whom and in how many steps, as (v, via, steps)."""
    return in_one_task(frame, _reach_with_ways, "v long, via long, steps long")


def _reach_with_ways(columns: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from pellucid.atomic.logs.kernels import reached_by_rows, readers

    keys, src, dst = _numbered(columns["src"], columns["dst"])
    via, weight = columns["via"], columns["w"]
    # Of edges between the same two the shortest: what they stand for was shortened by the same rule.
    order = np.lexsort((via, weight, dst, src))
    src, dst, via, weight = src[order], dst[order], via[order], weight[order]
    first = np.ones(len(src), np.bool_)
    first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    src, dst, via, weight = src[first], dst[first], via[first], weight[first]
    start, rows = readers(len(keys), src, np.arange(len(src), dtype=np.int32))
    by, steps = reached_by_rows(start, rows, dst, weight, 0)
    hit = np.flatnonzero(by >= 0)
    return {"v": keys[hit], "via": via[by[hit]], "steps": steps[hit]}


def waves(frame: DataFrame) -> DataFrame:
    """Of (src, dst, w, c): level(dst) is the greatest of all c and level(src) + w; src is -2 where only c counts.  As
    (v, level), with no level where a cycle comes before it."""
    return in_one_task(frame, _waves, "v long, level long")


def _waves(columns: dict[str, Any]) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    from pellucid.atomic.logs.kernels import readers
    from pellucid.atomic.logs.kernels import waves as compiled

    keys, src, dst = _numbered(columns["src"], columns["dst"])
    least = np.zeros(len(keys), np.int64)
    np.maximum.at(least, dst, columns["c"])
    real = columns["src"] >= 0
    src, dst, weight = src[real], dst[real], columns["w"][real]
    start, rows = readers(len(keys), src, np.arange(len(src), dtype=np.int32))
    level, done = compiled(start, rows, dst, weight, least)
    shown = keys >= 0
    return {"v": keys[shown], "level": pa.array(level[shown], mask=~done[shown])}


def sets(frame: DataFrame) -> DataFrame:
    """Of (src, dst): the strongly connected component of each (its least key), its size and its level, as
    (v, part, size, level).  A column ``light`` says which ends only come between (1: src, 2: dst, 3: both)."""
    return in_one_task(frame, _sets, "v long, part long, size long, level long")


def _sets(columns: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from pellucid.atomic.logs.kernels import components, levels, readers

    keys, src, dst = _numbered(columns["src"], columns["dst"])
    start, out = readers(len(keys), src, dst)
    found, count = components(start, out, np.ones(len(keys), np.bool_))
    solid = np.ones(len(keys), np.bool_)
    if "light" in columns:
        solid[src[columns["light"] & 1 > 0]] = False
        solid[dst[columns["light"] & 2 > 0]] = False
    level = levels(start, out, found, count, solid)
    keys, found = keys[solid], found[solid]
    least = np.zeros(count, np.int64)
    least[found[::-1]] = keys[::-1]  # keys are in order: the least is written last
    sizes = np.bincount(found, minlength=count)
    return {"v": keys, "part": least[found], "size": sizes[found], "level": level[found].astype(np.int64)}


def contracted(frame: DataFrame, *, levels: bool) -> DataFrame:
    """Of the edges (src, dst) or (src, dst, w, c), all to a vertex in one partition: each partition made smaller by
    `pellucid.atomic.logs.contraction`, as (edge, a, b, w, c): edge 0: b points to a; edge 1: an edge from a to b."""

    def smaller(columns: dict[str, Any]) -> dict[str, Any]:
        import numpy as np

        from pellucid.atomic.logs import contraction

        src, dst = columns["src"], columns["dst"]
        none = np.zeros(len(src), np.int64)
        found, edges = contraction.contracted(src, dst, columns.get("w", none), columns.get("c", none), levels=levels)
        kind = np.repeat(np.array([0, 1], np.int64), [len(found["v"]), len(edges["src"])])
        pairs = {"a": ("ptr", "src"), "b": ("v", "dst"), "w": ("pw", "w"), "c": ("pc", "c")}
        return {"edge": kind, **{name: np.concatenate([found[p], edges[e]]) for name, (p, e) in pairs.items()}}

    return frame.mapInArrow(_task(frame.columns, smaller), "edge long, a long, b long, w long, c long")


def joined(frame: DataFrame) -> DataFrame:
    """Of the edges (src, dst), all to a vertex in one partition: who depends on each other inside a partition, as
    (v, part), called by the least."""
    return frame.mapInArrow(_task(frame.columns, _joined), "v long, part long")


def _joined(columns: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from pellucid.atomic.logs.kernels import components, readers

    src, dst = columns["src"], columns["dst"]
    keys = np.unique(dst)
    at = np.minimum(np.searchsorted(keys, src), len(keys) - 1)
    inside = keys[at] == src
    ends = at[inside].astype(np.int32), np.searchsorted(keys, dst[inside]).astype(np.int32)
    start, out = readers(len(keys), *ends)
    found, count = components(start, out, np.ones(len(keys), np.bool_))
    least = np.zeros(count, np.int64)
    least[found[::-1]] = keys[::-1]
    several = np.bincount(found, minlength=count)[found] > 1
    return {"v": keys[several], "part": least[found][several]}
