"""Reachability and levels of a graph that no machine holds, in rounds that do not count the length of a chain.

What a round uses:

- whoever needs a doomed one is doomed, who needs nothing (any more) is free;
- one whose needs are all *the same* vertex p is doomed if and only if p is: whoever needs it may need p instead.

So each edge is carried from p to what p points to: ways get twice as short in every round (pointer jumping), and edges
never become more.  A chain or a tree of depth d takes log₂ d rounds.  `reach` and `waves` do more in a round: edges are
cut into blocks by the key of who needs, and each block is made as small as it can be, in one task, by the compiled
`pellucid.atomic.logs.contraction`.  Where keys grow with time, a chain lies in few blocks, and so does a deep graph in
which everybody needs several others: it takes the logarithm of the number of blocks, as a rule, and no more rounds than
there are blocks.

Before each round, what is left goes to one task if it fits (`finish`).  What neither fits nor shrinks, a deep graph of
several needs each whose keys are in no order, goes down by a level in each round, and by no more than ``rounds=``.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError
from pellucid.spark.atomic import finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pellucid.spark.atomic.work import Saved, Work

DOOMED, FREE = -1, -2  # no key is below 0


def reach(work: Work, at: Saved, what: str) -> DataFrame:
    """Of (src, dst), src -1 for a root, told how many (``doomed``): all that is reached, as (v)."""
    from pyspark.sql import functions as sql

    src, dst = sql.col("src"), sql.col("dst")
    doomed = sql.sum((src == DOOMED).cast("int"))
    answers, number = [], 0
    while at.told["doomed"]:  # else nothing that is left can be reached
        if at.rows <= work.fit:
            answers.append(finish.reach(at.frame))
            work.rounds[what] = number
            return _all(work, answers, "v long")  # which reads what is left
        number = _next(work, number, what, at)
        smaller = work.save(finish.contracted(blocks(work, at), levels=False))
        found = smaller.frame.where("edge = 0").select(sql.col("b").alias("v"), sql.col("a").alias("ptr"))
        answers.append(found.where(sql.col("ptr") == DOOMED).select("v"))
        left = smaller.frame.where("a >= 0 and a != b").select(sql.col("a").alias("src"), sql.col("b").alias("dst"))
        # Who points to one that is settled since this round, or that needs nothing, is settled, too.
        ptr, beyond = sql.col("ptr"), sql.col("beyond")
        there = found.select(sql.col("v").alias("ptr"), ptr.alias("beyond"))
        settled = sql.when((ptr >= 0) & beyond.isNull(), sql.lit(FREE)).when(beyond < 0, beyond).otherwise(ptr)
        ahead = found.join(there, "ptr", "left").select(sql.col("v").alias("src"), settled.alias("ptr"))
        # An edge from a free vertex finds no pointer, or FREE: it goes, and so does one to itself.
        more = left.join(ahead, "src").select(sql.col("ptr").cast("long").alias("src"), "dst")
        before, at = at, work.save(more.where((src != FREE) & (src != dst)), doomed=doomed)
        before.drop()
    at.drop()
    work.rounds[what] = number
    return _all(work, answers, "v long")


def waves(work: Work, edges: Saved, what: str) -> tuple[DataFrame, Saved]:
    """Of (src, dst): the level of each vertex that needs any (the longest way to it), as (v, level), of those that no
    cycle comes before; and the others, as (v).

    An edge says level(dst) ≥ max(c, level(src) + w); functions of that form compose, so that they can be carried along
    a chain as pointers are."""
    from pyspark.sql import functions as sql

    level = sql.col("level")
    one, none = sql.lit(1).cast("long"), sql.lit(0).cast("long")
    if "light" in edges.frame.columns:  # 1, 3: src only comes between, and counts for nothing
        one = one - sql.col("light") % 2
    at = edges.view(edges.frame.select("src", "dst", one.alias("w"), none.alias("c")))
    answers, number = [], 0
    stuck = None
    while at.rows:
        if at.rows <= work.fit:
            last = work.save(finish.waves(at.frame), stuck=sql.sum(level.isNull().cast("int")))
            answers.append(last.frame.where(level.isNotNull()))
            stuck = last.frame.where(level.isNull()).select("v") if last.told["stuck"] else None
            break
        number = _next(work, number, what, at)
        made = finish.contracted(blocks(work, at), levels=True)
        smaller = work.save(made, free=sql.sum(((sql.col("edge") == 0) & (sql.col("a") == FREE)).cast("int")))
        found = smaller.frame.where("edge = 0").selectExpr("b as v", "a as ptr", "w as pw", "c as pc")
        if number > 1 and not smaller.told["free"]:  # who stands first would be free by now: there are only cycles
            stuck = found.select("v")
            break
        answers.append(found.where(sql.col("ptr") == FREE).select("v", sql.col("pc").alias("level")))
        left = smaller.frame.where("edge = 1 or (a >= 0 and a != b)").selectExpr("a as src", "b as dst", "w", "c")
        more = left.join(_ahead(found), "src", "left").select(*_carried())
        before, at = at, work.save(more)
        before.drop()
    at.drop()
    work.rounds[what] = number
    return _all(work, answers, "v long, level long"), work.save(
        stuck if stuck is not None else work.spark.createDataFrame([], "v long")
    )


def _ahead(found: DataFrame) -> DataFrame:
    """Pointers by (src), and of those to one that has its level since this round, or that needs nothing: the level."""
    from pyspark.sql import functions as sql

    ptr, pw, pc, beyond = (sql.col(name) for name in ("ptr", "pw", "pc", "beyond"))
    there = found.select(sql.col("v").alias("ptr"), ptr.alias("beyond"), pc.alias("reached"))
    first = (ptr >= 0) & beyond.isNull()
    known = first | (beyond == FREE)
    level = sql.when(first, sql.lit(0)).otherwise(sql.col("reached"))
    return found.join(there, "ptr", "left").select(
        sql.col("v").alias("src"), sql.when(known, sql.lit(FREE)).otherwise(ptr).cast("long").alias("ptr"), "pw",
        sql.when(known, sql.greatest(pc, _capped(pw + level))).otherwise(pc).alias("pc"),
    )  # fmt: skip


def _carried() -> list[Any]:
    """An edge, from the pointer of where it came from: max(c, level(src) + w), where level(src) is
    max(pc, level(ptr) + pw)."""
    from pyspark.sql import functions as sql

    src, w, c, ptr, pw, pc = (sql.col(name) for name in ("src", "w", "c", "ptr", "pw", "pc"))
    known = src == FREE  # no edge any more, only c
    first = ptr.isNull()  # who needs nothing is on level 0
    stays = (ptr == src) | ((ptr >= 0) & (pc == 0))  # what it points to says it all
    return [
        sql.when(known | first, sql.lit(FREE)).otherwise(ptr).cast("long").alias("src"),
        "dst",
        sql.when(known | first | (ptr == src) | (ptr == FREE), w).otherwise(_capped(w + pw)).alias("w"),
        sql.when(known, c).when(first, sql.greatest(c, w)).when(stays, c).otherwise(sql.greatest(c, _capped(w + pc)))
        .alias("c"),
    ]  # fmt: skip


def reach_with_ways(work: Work, at: Saved, what: str) -> DataFrame:
    """Of (src, dst, via, w), src -1 for a root, told how many (``doomed``): all that is reached, from whom,
    and in how many steps, as (v, via, steps); following ``via`` leads to a root in so many steps.

    ``via`` is the vertex that was really needed, ``w`` how many steps src is away by that edge now.  Of equal ones the
    shortest counts, in every round, so that the steps of v are one more than those of its ``via``."""
    from pyspark.sql import functions as sql

    src, dst, ptr = sql.col("src"), sql.col("dst"), sql.col("ptr")
    doomed = sql.sum((src == DOOMED).cast("int"))
    answers, number = [], 0
    while at.told["doomed"]:
        if at.rows <= work.fit:
            answers.append(finish.reach_with_ways(at.frame))
            work.rounds[what] = number
            return _all(work, answers, "v long, via long, steps long")
        number = _next(work, number, what, at)
        found = work.save(_pointers_with_ways(at.frame)).frame
        hit = found.where(ptr == DOOMED)
        answers.append(hit.select("v", sql.col("pvia").alias("via"), sql.col("pw").alias("steps")))
        left = at.frame.join(hit.select(sql.col("v").alias("dst")), "dst", "left_anti")
        # Who points to one that is doomed since this round is doomed, too, that many steps farther.
        settled = hit.select(sql.col("v").alias("ptr"), sql.col("pw").alias("farther"))
        farther = sql.col("farther")
        ahead = found.join(settled, "ptr", "left").select(
            sql.col("v").alias("src"), sql.when(farther.isNull(), ptr).otherwise(DOOMED).cast("long").alias("ptr"),
            (sql.col("pw") + sql.coalesce(farther, sql.lit(0))).alias("pw"),
        )  # fmt: skip
        joined = left.join(ahead, "src")
        more = sql.when(ptr == src, sql.lit(0)).otherwise(sql.col("pw"))
        carried = joined.select(ptr.alias("src"), "dst", "via", _capped(sql.col("w") + more).alias("w"))
        before, at = at, work.save(carried.where(src != dst), doomed=doomed)
        before.drop()
    at.drop()
    work.rounds[what] = number
    return _all(work, answers, "v long, via long, steps long")


def _pointers_with_ways(edges: DataFrame) -> DataFrame:
    """Whom a vertex is doomed with: -1 if it is, p if p is all that it needs, else itself; and by which edge."""
    from pyspark.sql import functions as sql

    src, lo = sql.col("src"), sql.col("lo")
    way, real = sql.struct("w", "via"), src >= 0
    grouped = edges.groupBy(sql.col("dst").alias("v")).agg(
        sql.min(sql.when(real, src)).alias("lo"), sql.max(sql.when(real, src)).alias("hi"),
        sql.min(sql.when(src == DOOMED, way)).alias("hit"), sql.min(sql.when(real, way)).alias("by"),
    )  # fmt: skip
    pointer = (
        sql.when(sql.col("hit").isNotNull(), sql.lit(DOOMED)).when(lo == sql.col("hi"), lo).otherwise(sql.col("v"))
    )
    best = sql.coalesce("hit", "by")
    return grouped.select("v", pointer.cast("long").alias("ptr"), best["w"].alias("pw"), best["via"].alias("pvia"))


# ---------------------------------------------------------------- for all


def blocks(work: Work, at: Saved) -> DataFrame:
    """All edges to a vertex in one partition, those to its neighbours by key too.  Partitions are as large as a task
    can take, whatever the number of cores: the first of what is in order is settled in a round, and each shrinks the
    more."""
    return at.frame.repartitionByRange(max(1, math.ceil(at.rows / work.block)), "dst")


def _capped(steps: Any) -> Any:
    """No way is longer than this; only around a cycle, whose members never get a level, sums would grow on and on."""
    from pyspark.sql import functions as sql

    return sql.least(steps, sql.lit(1 << 40))


def _all(work: Work, answers: list[DataFrame], schema: str) -> DataFrame:
    return reduce(lambda a, b: a.union(b), answers) if answers else work.spark.createDataFrame([], schema)


def _next(work: Work, number: int, what: str, at: Saved) -> int:
    if number >= work.most:
        raise DataError(
            f"{what}: after {number} rounds {at.rows:,} edges are left, more than one task takes (fit={work.fit:,}): "
            "the log is deep, most of its transactions need several others, and its ids do not grow with time. Give "
            f"fit={at.rows:,} where a task has {max(1, at.rows // 10_000_000)} GB, or more rounds="
        )
    return number + 1
