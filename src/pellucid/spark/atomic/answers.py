"""The questions of `pellucid.atomic.logs` about logs that are DataFrames: the same answers, as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from pellucid.atomic.logs.answers import NAMED, NO_ROW
from pellucid.atomic.logs.tables import COMMITTED, NAMES, PENDING, UNKNOWN, WORDS, Names
from pellucid.errors import DataError, UsageError, option
from pellucid.spark.atomic import finish, rounds
from pellucid.spark.atomic.tables import SparkLog, read_log
from pellucid.spark.atomic.work import FIT, ROUNDS, Saved, Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Found:
    """An answer: ``table`` is a DataFrame that reads files of a folder, which `close`, or the end of a ``with``,
    removes; ``counts`` is what a report says, ``rounds`` how many rounds each part took before it fit in one task;
    ``broken`` are some of the committed transactions that depend on one that is not."""

    def __init__(self, work: Work, table: DataFrame, counts: dict[str, int], broken: list[Any]) -> None:
        self.broken = broken
        self.table, self.counts, self.rounds, self._work = table, counts, dict(work.rounds), work

    def close(self) -> None:
        """Remove what the rounds wrote; the table cannot be read any more."""
        self._work.close()

    def __enter__(self) -> Found:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


def committable(
    transactions: DataFrame, dependencies: DataFrame, *, names: Names = NAMES, unknown: str = "block",
    work: str | None = None, fit: int = FIT, rounds: int = ROUNDS,
) -> Found:  # fmt: skip
    """The largest set of pending transactions that can commit now: a row for each, with the level and the least id of
    its set, and how many are in that; as `pellucid.atomic.logs.committable` says of the same tables::

        with committable(spark.table("transactions"), spark.table("dependencies")) as found:
            found.table.orderBy("level", "set").write.parquet("now")

    ``work`` is a folder that driver and executors see (a local Spark needs none), ``fit`` how many edges one task takes
    (some 100 bytes each); what is more is made less first, in at most so many ``rounds``.
    """
    return _answer(transactions, dependencies, names, unknown, work, fit, rounds, _committable)


def cascade(
    transactions: DataFrame, dependencies: DataFrame, abort: Iterable[Any] | DataFrame, *, names: Names = NAMES,
    unknown: str = "block", work: str | None = None, fit: int = FIT, rounds: int = ROUNDS,
) -> Found:  # fmt: skip
    """What is undone if these abort: a row for each, with its status, from whom it was reached (``via``; none for those
    that were asked for) and in how many steps by that way, which need not be the shortest.

    ``abort`` has ids, or is a DataFrame with a column of them, by the name that transactions have.
    """

    def asked(job: Work, log: SparkLog) -> tuple[DataFrame, dict[str, int], Saved]:
        return _cascade(job, log, abort)

    return _answer(transactions, dependencies, names, unknown, work, fit, rounds, asked)


def cycles(
    transactions: DataFrame, dependencies: DataFrame, *, names: Names = NAMES, unknown: str = "block",
    work: str | None = None, fit: int = FIT, rounds: int = ROUNDS,
) -> Found:  # fmt: skip
    """Transactions that depend on each other: a row for each, with its status, the least id of its cycle, and how many
    are in that."""
    return _answer(transactions, dependencies, names, unknown, work, fit, rounds, _cycles)


def _answer(
    transactions: DataFrame, dependencies: DataFrame, names: Names, unknown: str, folder: str | None, fit: int,
    most: int, ask: Callable[[Work, SparkLog], tuple[DataFrame, dict[str, int], Saved]],
) -> Found:  # fmt: skip
    from pellucid.spark.failure import explain

    job = Work(transactions.sparkSession, folder, fit, most)
    try:
        log = read_log(job, transactions, dependencies, names, unknown)
        table, counts, edges = ask(job, log)
        return Found(job, table, {**counts, **log.counts(edges.rows, edges.told["selves"])}, log.broken)
    except BaseException as error:
        job.abandon()
        ours = explain(error) if isinstance(error, Exception) else None
        if ours is None or ours is error:
            raise
        raise ours from error


# ---------------------------------------------------------------- committable


def _committable(job: Work, log: SparkLog) -> tuple[DataFrame, dict[str, int], Saved]:
    from pyspark.sql import functions as sql

    status = sql.col("status")
    good = status.isin(PENDING, COMMITTED)
    states = log.vertices.frame.select("v", "status")
    of_source = states.select(sql.col("v").alias("src"), "status")
    other = sql.col("src") != sql.col("dst")
    edges = job.save(log.edges.join(of_source, "src"), selves=_many(~other), doomed=_many(other & ~good))
    source = sql.when(good, sql.col("src")).otherwise(rounds.DOOMED).cast("long").alias("src")
    begun = edges.view(edges.frame.where(other).select(source, "dst"))
    free = states.where(good).join(rounds.reach(job, begun, "reach"), "v", "left_anti")
    pending = sql.sum((status == PENDING).cast("long"))
    kept = job.save(free, pending=pending)
    members = kept.frame.where(status == PENDING).select("v")
    # Whoever is needed by a member is a member or has committed.
    inner = edges.frame.where(other & (status == PENDING)).join(
        members.withColumnRenamed("v", "dst"), "dst", "left_semi"
    )
    after = _broken(job, log, edges.frame)
    if after is None:
        parts = _parts(job, job.save(inner.select("src", "dst")))
    else:
        parts = _parts_through(job, edges.frame.where(other), members, kept.frame, after)
    own, one = sql.col("v"), sql.lit(1).cast("long")
    level, part, size = (sql.col(name) for name in ("level", "part", "size"))
    every = members.join(parts, "v", "left").select(
        "v", sql.coalesce(level, sql.lit(0)).alias("level"), sql.coalesce(part, own).alias("part"),
        sql.coalesce(size, one).alias("size"),
    )  # fmt: skip
    found = job.save(every, sets=sql.sum((own == part).cast("long")), levels=sql.max(level) + 1, largest=sql.max(size))
    told = log.vertices.told
    counts = {
        "committable": found.rows, "sets": found.told["sets"], "levels": found.told["levels"],
        "largest set": found.told["largest"], "blocked": told["pending"] - kept.told["pending"],
        "broken": 0 if after is None else after.rows,
    }  # fmt: skip
    table = _labelled(log, found, ["id", "level", "set", "size"], "set")
    return table.select("id", "level", "set", "size"), counts, edges


def _parts(job: Work, inner: Saved) -> DataFrame:
    """The set, its size and its level of each that is on an edge, as (v, part, size, level)."""
    from pyspark.sql import functions as sql

    if inner.rows <= job.fit:
        job.rounds["sets"] = 0
        return finish.sets(inner.frame)
    levels, stuck = rounds.waves(job, inner, "sets")
    empty, one = sql.lit(None).cast("long"), sql.lit(1).cast("long")
    if not stuck.rows:
        return levels.select("v", empty.alias("part"), one.alias("size"), "level")
    parts = _cyclic(job, inner.frame, stuck)
    merged = job.save(_merged(inner.frame, parts.frame))
    levels, left = rounds.waves(job, merged, "sets, cycles as one")
    if left.rows:
        raise AssertionError("a graph of components has no cycle")
    sizes = parts.frame.groupBy("part").agg(sql.count(sql.lit(1)).alias("size"))
    alone = levels.join(parts.frame.select(sql.col("part").alias("v")).distinct(), "v", "left_anti")
    inside = parts.frame.join(sizes, "part").join(levels.withColumnRenamed("v", "part"), "part", "left")
    return alone.select("v", sql.col("v").alias("part"), one.alias("size"), "level").union(
        inside.select("v", "part", "size", "level")
    )


def _broken(job: Work, log: SparkLog, edges: DataFrame) -> Saved | None:
    """Which committed ones depend, through any number of others, on one that is not, as (v); None if none does.  Edges
    are (src, dst, status of src)."""
    from pyspark.sql import functions as sql

    if not log.vertices.told["committed"]:
        return None
    done = log.vertices.frame.where(sql.col("status") == COMMITTED).select("v")
    undone = sql.col("status") != COMMITTED
    crossing = edges.where(undone).join(done.withColumnRenamed("v", "dst"), "dst", "left_semi")
    if crossing.isEmpty():
        return None
    source = sql.when(undone, sql.lit(rounds.DOOMED)).otherwise(sql.col("src")).cast("long").alias("src")
    begun = job.save(edges.where("src != dst").select(source, "dst"), doomed=_many(sql.col("src") == rounds.DOOMED))
    found = job.save(done.join(rounds.reach(job, begun, "broken"), "v", "left_semi"))
    log.broken[:] = [row[0] for row in log.named(found.frame.orderBy("v").limit(NAMED), "v").collect()]
    return found


def _parts_through(job: Work, edges: DataFrame, members: DataFrame, free: DataFrame, after: Saved) -> DataFrame:
    """As `_parts`, of a log that breaks A3: a member needs another one also through committed ones."""
    from pyspark.sql import functions as sql

    between = after.frame.join(free.select("v"), "v", "left_semi")
    ends = members.select("v", sql.lit(0).alias("light")).union(between.select("v", sql.lit(1).alias("light")))
    sources, readers = (
        ends.select(sql.col("v").alias(end), sql.col("light").alias(f"{end}_light")) for end in ("src", "dst")
    )
    light = (sql.col("src_light") + 2 * sql.col("dst_light")).cast("long").alias("light")
    inner = job.save(edges.select("src", "dst").join(sources, "src").join(readers, "dst").select("src", "dst", light))
    if inner.rows <= job.fit:
        job.rounds["sets"] = 0
        return finish.sets(inner.frame)
    levels, stuck = rounds.waves(job, inner, "sets")
    empty, one = sql.lit(None).cast("long"), sql.lit(1).cast("long")
    if not stuck.rows:
        own = levels.join(members, "v", "left_semi")
        return own.select("v", empty.alias("part"), one.alias("size"), "level")
    parts = _cyclic(job, inner.frame.select("src", "dst"), stuck)
    placed = ends.join(parts.frame, "v", "left").select("v", "light", sql.coalesce("part", "v").alias("key"))
    member = sql.col("light") == 0
    known = job.save(
        placed.groupBy("key").agg(
            sql.min(sql.when(member, sql.col("v"))).alias("part"), _many(member).alias("size"),
            sql.min("light").cast("long").alias("light"),
        )
    ).frame  # fmt: skip
    heavy = known.select(sql.col("key").alias("src"), "light")
    levels, left = rounds.waves(
        job, job.save(_merged(inner.frame, parts.frame).join(heavy, "src")), "sets, cycles as one"
    )
    if left.rows:
        raise AssertionError("a graph of components has no cycle")
    named = known.select("key", "part", "size").join(levels.withColumnRenamed("v", "key"), "key", "left")
    return placed.where(member).select("v", "key").join(named, "key").select("v", "part", "size", "level")


def _merged(edges: DataFrame, parts: DataFrame) -> DataFrame:
    """The edges between components."""
    from pyspark.sql import functions as sql

    of_source, of_reader = (
        parts.select(sql.col("v").alias(end), sql.col("part").alias(f"{end}_part")) for end in ("src", "dst")
    )
    joined = edges.join(of_source, "src", "left").join(of_reader, "dst", "left")
    ends = (sql.coalesce(f"{end}_part", end).alias(end) for end in ("src", "dst"))
    return joined.select(*ends).where("src != dst")


# ---------------------------------------------------------------- cycles


def _cyclic(job: Work, edges: DataFrame, stuck: Saved) -> Saved:
    """The components of more than one, as (v, part).

    All lie among what cycles come before, and, of that, among what comes before cycles.  Cycles that lie inside a block
    are made one vertex each, again and again, until what is left fits in one task."""
    from pyspark.sql import functions as sql

    core, known, trimmed = job.save(_among(edges, stuck.frame)), None, False
    while core.rows > job.fit:
        found = job.save(finish.joined(rounds.blocks(job, core)))
        if found.rows:
            known = job.save(_composed(known, found))
            less = job.save(_merged(core.frame, found.frame))
        elif trimmed:
            raise DataError(
                f"cycles: {core.rows:,} edges lie on cycles or between them, more than one task takes "
                f"(fit={job.fit:,}): give fit={core.rows:,} where a task has {max(1, core.rows // 10_000_000)} GB"
            )
        else:
            less = core
            for turned in (True, False):
                ends = ("dst", "src") if turned else ("src", "dst")
                way = less.frame.select(
                    *(sql.col(end).alias(name) for end, name in zip(ends, ("src", "dst"), strict=True))
                )
                _, left = rounds.waves(job, less.view(way), f"cycles, {'backwards' if turned else 'again'}")
                less = job.save(_among(less.frame, left.frame))
        trimmed = not found.rows and less.rows == core.rows
        core = less
    last = job.save(finish.sets(core.frame).where(sql.col("size") > 1).select("v", "part"))
    return job.save(_composed(known, last))


def _composed(known: Saved | None, found: Saved) -> DataFrame:
    """Parts of which some are one now, as (v, part)."""
    from pyspark.sql import functions as sql

    if known is None:
        return found.frame
    more = found.frame.select(sql.col("v").alias("part"), sql.col("part").alias("now"))
    moved = known.frame.join(more, "part", "left").select("v", sql.coalesce("now", "part").alias("part"))
    return moved.union(found.frame.join(known.frame.select("v"), "v", "left_anti").select("v", "part"))


def _among(edges: DataFrame, inside: DataFrame) -> DataFrame:
    """The edges that begin and end inside."""
    for end in ("src", "dst"):
        edges = edges.join(inside.select(inside["v"].alias(end)), end, "left_semi")
    return edges.select("src", "dst")


def _cycles(job: Work, log: SparkLog) -> tuple[DataFrame, dict[str, int], Saved]:
    from pyspark.sql import functions as sql

    other = sql.col("src") != sql.col("dst")
    edges = job.save(log.edges, selves=_many(~other))
    inner = edges.view(edges.frame.where(other))
    if edges.rows <= job.fit:
        job.rounds["cycles"] = 0
        parts = job.save(finish.sets(inner.frame).where(sql.col("size") > 1).select("v", "part"))
    else:
        _, stuck = rounds.waves(job, inner, "cycles")
        parts = _cyclic(job, inner.frame, stuck)
    sizes = parts.frame.groupBy("part").agg(sql.count(sql.lit(1)).alias("size"))
    own = sql.sum((sql.col("v") == sql.col("part")).cast("long"))
    states = log.vertices.frame.select("v", _word().alias("status"))
    joined = parts.frame.join(sizes, "part").join(states, "v").select("v", "status", "part", "size")
    found = job.save(joined, cycles=own, largest=sql.max("size"))
    of_source = log.vertices.frame.select(sql.col("v").alias("src"), "status")
    after = _broken(job, log, edges.frame.join(of_source, "src")) if log.vertices.told["committed"] else None
    counts = {
        "cycles": found.told["cycles"], "in cycles": found.rows, "largest": found.told["largest"],
        "broken": 0 if after is None else after.rows,
    }  # fmt: skip
    return _labelled(log, found, ["id", "status", "cycle", "size"], "cycle"), counts, edges


# ---------------------------------------------------------------- cascade


def _cascade(job: Work, log: SparkLog, abort: Iterable[Any] | DataFrame) -> tuple[DataFrame, dict[str, int], Saved]:
    from pyspark.sql import functions as sql

    roots = _roots(job, log, abort)
    marks = roots.frame.select(sql.col("v").alias("src"), sql.lit(1).alias("root"))
    one, free = sql.lit(1).cast("long"), sql.col("root").isNull()
    other = sql.col("via") != sql.col("dst")
    edges = job.save(
        log.edges.join(marks, "src", "left").select(
            sql.when(free, sql.col("src")).otherwise(rounds.DOOMED).cast("long").alias("src"), "dst",
            sql.col("src").alias("via"), one.alias("w"),
        ),
        selves=_many(~other), doomed=_many(other & (sql.col("src") == rounds.DOOMED)),
    )  # fmt: skip
    begun = edges.view(edges.frame.where(other))
    if begun.rows > job.fit:  # first what is reached; then a way to each, among those
        reached = job.save(rounds.reach(job, begun.view(begun.frame.select("src", "dst")), "cascade"))
        inside = job.save(_hit(begun.frame, reached.frame, roots.frame), doomed=_many(sql.col("src") == rounds.DOOMED))
        hit = rounds.ways(job, inside, "cascade, ways")
    else:
        hit = rounds.ways(job, begun, "cascade")
    hit = hit.join(roots.frame.select("v"), "v", "left_anti")
    none, zero = sql.lit(None).cast("long"), sql.lit(0).cast("long")
    every = hit.select("v", "via", "steps").union(roots.frame.select("v", none.alias("via"), zero.alias("steps")))
    states = log.vertices.frame.select("v", "status")
    joined = every.join(states, "v").select("v", "status", "via", "steps")
    found = job.save(joined, farthest=sql.max("steps"), done=_many(sql.col("status") == COMMITTED))
    of_source = states.select(sql.col("v").alias("src"), "status")
    whole = edges.frame.select(sql.col("via").alias("src"), "dst").join(of_source, "src")
    after = _broken(job, log, whole)
    counts = {
        "undone": found.rows, "asked": roots.rows, "farthest": found.told["farthest"],
        "committed undone": found.told["done"], "broken": 0 if after is None else after.rows,
    }  # fmt: skip
    shown = found.frame.select(sql.col("v").alias("id"), _word().alias("status"), "via", "steps")
    return log.named(shown, "id", "via"), counts, edges


def _hit(edges: DataFrame, reached: DataFrame, roots: DataFrame) -> DataFrame:
    """The edges from roots (-1), or from what is reached, to what is reached and is no root."""
    from pyspark.sql import functions as sql

    readers, sources = (reached.select(reached["v"].alias(end)) for end in ("dst", "src"))
    inside = edges.join(readers, "dst", "left_semi").join(roots.select(roots["v"].alias("dst")), "dst", "left_anti")
    from_roots = inside.where(sql.col("src") == rounds.DOOMED)
    return from_roots.unionByName(inside.join(sources, "src", "left_semi"))


def _roots(job: Work, log: SparkLog, abort: Iterable[Any] | DataFrame) -> Saved:
    """The keys of what shall abort; refused if one is committed, or not there."""
    from pyspark.sql import functions as sql

    name = log.names.id
    if not hasattr(abort, "sparkSession"):
        if isinstance(abort, (str, bytes)):
            raise UsageError(f"{option('abort')}: expected several ids, as [{abort!r}], found one text")
        kind = log.transactions.schema[name].dataType
        ids = [(one,) for one in abort]
        if not ids:
            raise UsageError(f"{option('abort')}: expected the id of a transaction, or several")
        from pyspark.sql.types import StructField, StructType

        try:
            given = job.spark.createDataFrame(ids, StructType([StructField(name, kind)]))
        except Exception as error:
            raise UsageError(f"{option('abort')}: expected ids of the type {kind.simpleString()}: {error}") from None
    else:
        given = cast(Any, abort)
        if name not in given.columns:
            raise UsageError(f"{option('abort')}: there is no column {name!r}: there are {', '.join(given.columns)}")
    asked = given.select(log.key(name).alias("v"), sql.col(f"`{name}`").alias("_asked")).dropDuplicates(["v"])
    joined = asked.join(log.vertices.frame.select("v", "status"), "v", "left")
    missing, done = sql.col("status").isNull(), sql.col("status") == COMMITTED
    strange = sql.col("status") == UNKNOWN
    roots = job.save(joined, missing=_many(missing), strange=_many(strange), done=_many(done))
    for what, condition in (("missing", missing), ("strange", strange), ("done", done)):
        if roots.told[what]:
            row = roots.frame.where(condition).first()
            one = row["_asked"] if row else "?"
            raise DataError(
                f"there is no transaction {one!r}: expected an id of the log" if what == "missing"
                else NO_ROW.format(one) if what == "strange"
                else f"the transaction {one!r} is committed: it cannot abort any more"
            )  # fmt: skip
    if not roots.rows:
        raise UsageError(f"{option('abort')}: expected the id of a transaction, or several")
    return roots


# ---------------------------------------------------------------- names


def _many(condition: Column) -> Column:
    """How many rows."""
    from pyspark.sql import functions as sql

    return sql.sum(condition.cast("long"))


def _word() -> Column:
    """The word for a status."""
    from pyspark.sql import functions as sql

    return sql.element_at(sql.array(*(sql.lit(word) for word in WORDS)), sql.col("status") + 1)


def _labelled(log: SparkLog, found: Saved, columns: list[str], label: str) -> DataFrame:
    """With ids, and the least id of each part as its name."""
    from pyspark.sql import functions as sql

    frame = found.frame
    if log.seed is None:  # keys are in the order of ids: the least key is that of the least id
        frame = frame.withColumnsRenamed({"v": "id", "part": label})
        return log.named(frame, "id", label).select(*columns)
    named = log.named(frame.withColumn("id", sql.col("v")), "id")
    several = named.where(sql.col("size") > 1).groupBy("part").agg(sql.min("id").alias("_least"))
    joined = named.join(several, "part", "left")
    return joined.withColumn(label, sql.coalesce("_least", "id")).select(*columns)
