"""Reachability and levels of a graph that no machine holds, in rounds that do not count the length of a chain.

A round groups the edges by who needs, and joins them by what is needed; nothing else.  What it uses:

- of a vertex that needs a doomed one, we know: it is doomed;
- one that needs nothing (any more) is free;
- one whose needs are all *the same* vertex p is doomed if and only if p is: whoever needs it may need p instead.

So an edge is carried from p to the p of p in every round: ways get twice as short each time (pointer jumping).  A chain
or a tree of depth d takes log₂ d rounds, also where branches meet again under the same p; edges never become more.
Before each round, what is left goes to one task if it fits (`finish`).  A graph in which everybody needs two or more
that stay different goes down by a level in each round until it fits, and by no more than ``rounds=`` levels.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError
from pellucid.spark.atomic import finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pellucid.spark.atomic.work import Saved, Work

DOOMED, FREE = -1, -2  # no key is below 0


def reach(work: Work, edges: DataFrame, what: str) -> DataFrame:
    """Of (src, dst), src -1 for a root: all that is reached, as (v)."""
    from pyspark.sql import functions as sql

    src, dst = sql.col("src"), sql.col("dst")

    def pointers(at: Saved) -> DataFrame:
        other = sql.when((src >= 0) & (src != dst), src)
        grouped = at.frame.groupBy(dst.alias("v")).agg(
            sql.max(sql.when(src == DOOMED, 1)).alias("hit"), sql.min(other).alias("lo"), sql.max(other).alias("hi")
        )
        return grouped.select("v", _pointer().alias("ptr"))

    def following(at: Saved, found: DataFrame) -> DataFrame:
        ptr = found.select(sql.col("v").alias("src"), "ptr")
        return _left(at, found).join(ptr, "src").select(sql.col("ptr").alias("src"), "dst")

    def answer(found: DataFrame) -> DataFrame:
        return found.where(sql.col("ptr") == DOOMED).select("v")

    return _reach(work, edges, what, pointers, following, answer, finish.reach, "v long")


def reach_with_ways(work: Work, edges: DataFrame, what: str) -> DataFrame:
    """Of (src, dst, via, w), src -1 for a root: all that is reached, from whom, and in how many steps, as
    (v, via, steps); following ``via`` leads to a root in so many steps.

    ``via`` is the vertex that was really needed, ``w`` how many steps src is away by that edge now.  Of equal ones the
    shortest counts, in every round, so that the steps of v are one more than those of its ``via``."""
    from pyspark.sql import functions as sql

    src, dst = sql.col("src"), sql.col("dst")

    def pointers(at: Saved) -> DataFrame:
        way = sql.struct("w", "via")
        other = (src >= 0) & (src != dst)
        grouped = at.frame.groupBy(dst.alias("v")).agg(
            sql.max(sql.when(src == DOOMED, 1)).alias("hit"),
            sql.min(sql.when(other, src)).alias("lo"), sql.max(sql.when(other, src)).alias("hi"),
            sql.min(sql.when(src == DOOMED, way)).alias("doomed_by"), sql.min(sql.when(other, way)).alias("by"),
        )  # fmt: skip
        best = sql.coalesce("doomed_by", "by")
        return grouped.select("v", _pointer().alias("ptr"), best["w"].alias("pw"), best["via"].alias("pvia"))

    def following(at: Saved, found: DataFrame) -> DataFrame:
        ptr = found.select(sql.col("v").alias("src"), "ptr", "pw")
        more = sql.when(sql.col("ptr") == src, sql.lit(0)).otherwise(sql.col("pw"))
        joined = _left(at, found).join(ptr, "src")
        return joined.select(sql.col("ptr").alias("src"), "dst", "via", _capped(sql.col("w") + more).alias("w"))

    def answer(found: DataFrame) -> DataFrame:
        hit = found.where(sql.col("ptr") == DOOMED)
        return hit.select("v", sql.col("pvia").alias("via"), sql.col("pw").alias("steps"))

    done = finish.reach_with_ways
    return _reach(work, edges, what, pointers, following, answer, done, "v long, via long, steps long")


def _pointer() -> Any:
    """Whom a vertex is doomed with: -1 if it is, p if p is all that it needs, else itself.  One that needs only itself
    has no pointer that anybody follows: whoever needs it needs nothing by that edge."""
    from pyspark.sql import functions as sql

    lo, hi = sql.col("lo"), sql.col("hi")
    return (
        sql.when(sql.col("hit") == 1, sql.lit(DOOMED))
        .when(lo.isNull(), sql.lit(FREE))
        .when(lo == hi, lo)
        .otherwise(sql.col("v"))
        .cast("long")
    )


def _left(at: Saved, found: DataFrame) -> DataFrame:
    """The edges to those that are not known to be doomed."""
    from pyspark.sql import functions as sql

    hit = found.where(sql.col("ptr") == DOOMED).select(sql.col("v").alias("dst"))
    return at.frame.join(hit, "dst", "left_anti")


def _reach(
    work: Work, edges: DataFrame, what: str, pointers: Any, following: Any, answer: Any, done: Any, schema: str
) -> DataFrame:
    from pyspark.sql import functions as sql

    src, dst = sql.col("src"), sql.col("dst")
    doomed = sql.sum((src == DOOMED).cast("int"))
    at = work.save(edges.where(src != dst), doomed=doomed)
    answers, number = [], 0
    while at.told["doomed"]:  # else nothing that is left can be reached
        if at.rows <= work.fit:
            last = work.save(done(at.frame))
            answers.append(last.frame)
            break
        number = _next(work, number, what, at)
        found = work.save(pointers(at))
        answers.append(answer(found.frame))
        # An edge from a free vertex finds no pointer, or FREE: it goes, and so does one to itself.
        more = following(at, found.frame).where((src != FREE) & (src != dst))
        before, at = at, work.save(more, doomed=doomed)
        before.drop()
    at.drop()
    work.rounds[what] = number
    return reduce(lambda a, b: a.union(b), answers) if answers else work.spark.createDataFrame([], schema)


def waves(work: Work, edges: DataFrame, what: str) -> tuple[DataFrame, Saved]:
    """Of (src, dst): the level of each vertex that needs any (the longest way to it), as (v, level), of those that no
    cycle comes before; and the others, as (v).

    An edge says level(dst) ≥ max(c, level(src) + w); functions of that form compose, so that they can be carried along a
    chain as pointers are."""
    from pyspark.sql import functions as sql

    src, dst, w, c, v = (sql.col(name) for name in ("src", "dst", "w", "c", "v"))
    one, none = sql.lit(1).cast("long"), sql.lit(0).cast("long")
    at = work.save(edges.where(src != dst).select("src", "dst", one.alias("w"), none.alias("c")))
    answers, number = [], 0
    stuck = None
    while at.rows:
        if at.rows <= work.fit:
            last = work.save(finish.waves(at.frame), stuck=sql.sum(sql.col("level").isNull().cast("int")))
            answers.append(last.frame.where(sql.col("level").isNotNull()))
            stuck = last.frame.where(sql.col("level").isNull()).select("v") if last.told["stuck"] else None
            break
        number = _next(work, number, what, at)
        real = sql.when(src >= 0, src)
        grouped = at.frame.groupBy(dst.alias("v")).agg(
            sql.min(real).alias("lo"), sql.max(real).alias("hi"), sql.max(sql.when(src >= 0, w)).alias("pw"),
            sql.max(c).alias("pc"),
        )  # fmt: skip
        lo = sql.col("lo")
        ptr = sql.when(lo.isNull(), sql.lit(FREE)).when(lo == sql.col("hi"), lo).otherwise(v).cast("long")
        free = sql.sum((sql.col("ptr") == FREE).cast("int"))
        found = work.save(grouped.select("v", ptr.alias("ptr"), "pw", "pc"), free=free)
        if number > 1 and not found.told["free"]:  # who stands first would be free by now: there are only cycles
            stuck = found.frame.select("v")
            break
        done = found.frame.where(sql.col("ptr") == FREE)
        answers.append(done.select("v", sql.col("pc").alias("level")))
        left = at.frame.join(done.select(v.alias("dst")), "dst", "left_anti")
        more = left.join(found.frame.withColumnRenamed("v", "src"), "src", "left").select(*_carried())
        before, at = at, work.save(more)
        before.drop()
    at.drop()
    work.rounds[what] = number
    levels = reduce(lambda a, b: a.union(b), answers) if answers else work.spark.createDataFrame([], "v long, level long")
    return levels, work.save(stuck if stuck is not None else work.spark.createDataFrame([], "v long"))


def _carried() -> list[Any]:
    """An edge, from the pointer of where it came from: max(c, level(src) + w) with level(src) = max(pc, level(ptr) + pw)."""
    from pyspark.sql import functions as sql

    src, w, c, ptr, pw, pc = (sql.col(name) for name in ("src", "w", "c", "ptr", "pw", "pc"))
    known = src == FREE  # no edge any more, only c
    first = ptr.isNull()  # who needs nothing is on level 0
    stays = ptr == src
    return [
        sql.when(known | first, sql.lit(FREE)).otherwise(ptr).cast("long").alias("src"),
        "dst",
        sql.when(known | first | stays | (ptr == FREE), w).otherwise(_capped(w + pw)).alias("w"),
        sql.when(known | stays, c).when(first, sql.greatest(c, w)).otherwise(sql.greatest(c, _capped(w + pc))).alias("c"),
    ]


def _next(work: Work, number: int, what: str, at: Saved) -> int:
    if number >= work.most:
        raise DataError(
            f"{what}: after {number} rounds {at.rows:,} edges are left, more than one task takes (fit={work.fit:,}): the "
            f"log is deep, and most of its transactions need several others. Give fit={at.rows:,} where a task has "
            f"{max(1, at.rows // 10_000_000)} GB, or more rounds="
        )
    return number + 1


def _capped(steps: Any) -> Any:
    """No way is longer than this; only around a cycle, whose members never get a level, sums would grow on and on."""
    from pyspark.sql import functions as sql

    return sql.least(steps, sql.lit(1 << 40))
