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


def ways(work: Work, at: Saved, what: str) -> DataFrame:
    """Of (src, dst, via, w), src -1 for a root, told how many (``doomed``): from whom each was reached, and in how many
    steps, as (v, via, steps); following ``via`` leads to a root in so many steps.  What is more than one task takes
    must have nothing in it that is not reached.

    One need of each is enough, so each keeps one: a root if it needs one, else the least key, which is the oldest where
    keys grow with time.  What then leads to a root is a forest, whose depth takes its logarithm of rounds.  What does
    not leads into a cycle of such choices: some of it needs one that is in the forest by now, and chooses that."""
    from pyspark.sql import functions as sql

    work.rounds[what] = 0
    if not at.told["doomed"]:
        return _all(work, [], "v long, via long, steps long")
    if at.rows <= work.fit:
        return finish.reach_with_ways(at.frame)
    src, steps = sql.col("src"), sql.col("steps")
    away = sql.when(src == DOOMED, sql.lit(0).cast("long")).otherwise(steps)
    doomed = sql.sum((src == DOOMED).cast("long"))
    answers: list[DataFrame] = []
    number, passes, left = 0, 0, at
    while left.rows:
        passes = _next(work, passes, what, left)
        known = _all(work, answers, "v long, via long, steps long").select(sql.col("v").alias("src"), "steps")
        chosen = left.frame.join(known, "src", "left").groupBy("dst").agg(
            sql.min(sql.when(away.isNotNull(), sql.struct((away + 1).alias("w"), "via"))).alias("hit"),
            sql.min("src").alias("least"),
        )  # fmt: skip
        hit, least = sql.col("hit"), sql.col("least")
        one = sql.lit(1).cast("long")
        climbing = work.save(
            chosen.select(
                sql.when(hit.isNull(), least).otherwise(DOOMED).cast("long").alias("src"), "dst",
                sql.coalesce(hit["via"], least).alias("via"), sql.coalesce(hit["w"], one).alias("w"),
            ),
            doomed=doomed,
        )  # fmt: skip
        found, more = _climbed(work, climbing)
        number += more
        work.rounds[what] = number
        answers.append(found.frame)
        if found.rows == climbing.rows:
            break
        rest = left.frame.join(found.frame.select(sql.col("v").alias("dst")), "dst", "left_anti")
        before, left = left, work.save(rest)
        before.drop()
    return _all(work, answers, "v long, via long, steps long")


def _climbed(work: Work, at: Saved) -> tuple[Saved, int]:
    """Of (src, dst, via, w), one row for each dst: those that lead to -1, as (v, via, steps), and in how many rounds.

    Each row goes from src to where src leads, so that ways get twice as short; what goes round in a circle is left."""
    from pyspark.sql import functions as sql

    src = sql.col("src")
    doomed = sql.sum((src == DOOMED).cast("long"))
    answers, number, made = [], 0, [at]
    while at.told["doomed"]:
        if at.rows <= work.fit:
            answers.append(finish.reach_with_ways(at.frame))
            break
        number += 1
        answers.append(at.frame.where(src == DOOMED).selectExpr("dst as v", "via", "w as steps"))
        # Who leads to one that has come to -1 by now is there, too: that one has no row any more in the next round.
        there = at.frame.where(src == DOOMED).selectExpr("dst as beyond", "w as rest")
        ahead = at.frame.selectExpr("dst as src", "src as beyond", "w as farther").join(there, "beyond", "left")
        more = at.frame.where(src != DOOMED).join(ahead, "src").selectExpr(
            f"if(rest is null, beyond, {DOOMED}L) as src", "dst", "via", "w + farther + coalesce(rest, 0) as w"
        )  # fmt: skip
        at = work.save(more, doomed=doomed)
        made.append(at)
    found = work.save(_all(work, answers, "v long, via long, steps long"))
    for one in made:
        one.drop()
    return found, number


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
