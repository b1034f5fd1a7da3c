"""The two tables of a log as DataFrames: looked at, and their ids as keys of 64 bits, not below 0.

Whole numbers that are not negative are their own keys.  Other ids are hashed; a second hash tells if two different ids
have one key, and then all of them are hashed anew: no two transactions are ever taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.atomic.logs.tables import STATUSES, UNKNOWN, WORDS, Names
from pellucid.errors import DataError, UsageError, nearest, option
from pellucid.spark.atomic.work import Saved, Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MASK = 2**63 - 1
_WRONG = 9  # a word that is no status
_TRIES = 8


@dataclass(frozen=True, eq=False)
class SparkLog:
    """A log, checked: ``vertices`` (v, status) and the names that keys stand for."""

    transactions: DataFrame
    dependencies: DataFrame
    names: Names
    seed: int | None  # of the hash; None: ids are keys
    vertices: Saved
    broken: list[Any] = field(default_factory=list)  # some of the committed ones that need one that is not, once found

    @property
    def edges(self) -> DataFrame:
        """All dependencies, as (src, dst)."""
        needs, who = self.key(self.names.needs), self.key(self.names.who)
        return self.dependencies.select(needs.alias("src"), who.alias("dst"))

    def counts(self, dependencies: int, selves: int) -> dict[str, int]:
        """What is counted of every log."""
        told = self.vertices.told
        each = {word: told[word] for word in WORDS}
        return {
            "transactions": told["transactions"], **each, "dependencies": dependencies,
            "self-dependencies": selves, "repeated": told["said"] - told["transactions"],
        }  # fmt: skip

    def key(self, name: str) -> Column:
        """The key of a column of ids."""
        return key(name, self.seed)

    def named(self, frame: DataFrame, *columns: str) -> DataFrame:
        """The frame with ids instead of keys in these columns; a key that is missing stays so."""
        if self.seed is None:
            kind = self.transactions.schema[self.names.id].dataType
            return frame.withColumns({name: frame[name].cast(kind) for name in columns})
        for name in columns:
            found = self._ids()
            ids = found.select(found["v"].alias(name), found["id"].alias("_id"))
            joined = frame.join(ids, name, "left")
            frame = joined.select(*(joined["_id"].alias(c) if c == name else joined[c] for c in frame.columns))
        return frame

    def _ids(self) -> DataFrame:
        """The id of each key: of transactions, and of those that only dependencies know."""
        from pyspark.sql import functions as sql

        def of(frame: DataFrame, name: str) -> DataFrame:
            return frame.select(self.key(name).alias("v"), _column(frame, name).alias("id"))

        ids = of(self.transactions, self.names.id)
        if self.vertices.told["said"] > self.vertices.told["transactions"]:
            ids = ids.dropDuplicates(["v"])
        if not self.vertices.told["unknown"]:
            return ids
        strange = self.vertices.frame.where(sql.col("status") == UNKNOWN).select("v")
        ends = of(self.dependencies, self.names.needs).union(of(self.dependencies, self.names.who))
        return ids.union(ends.join(strange, "v", "left_semi").dropDuplicates(["v"]))


def key(name: str, seed: int | None) -> Column:
    """A key of 64 bits, not below 0, for the ids of a column."""
    from pyspark.sql import functions as sql

    column = sql.col(_quoted(name))
    if seed is None:
        return column.cast("long")
    hashed = sql.xxhash64(sql.lit(seed), column).bitwiseAND(sql.lit(_MASK))
    return sql.when(~_empty(column), hashed)


def read_log(work: Work, transactions: DataFrame, dependencies: DataFrame, names: Names, unknown: str) -> SparkLog:
    """Look at both tables, refuse what is wrong, and write them down as keys."""
    if unknown not in ("block", "refuse"):
        raise UsageError(f"{option('unknown')}: expected block or refuse, found {unknown!r}")
    seed = _kind(transactions, dependencies, names)
    vertices = _vertices(work, transactions, dependencies, names, seed)
    while seed is not None and vertices.told["collisions"]:
        seed += 2  # two hashes are used of each
        if seed > 2 * _TRIES:
            raise DataError(
                f"transactions: after {_TRIES} tries different ids still have one hash: this cannot be chance"
            )
        vertices.drop()
        vertices = _vertices(work, transactions, dependencies, names, seed)
    _refuse(vertices, transactions, dependencies, names, unknown, seed)
    return SparkLog(transactions, dependencies, names, seed, vertices)


def _kind(transactions: DataFrame, dependencies: DataFrame, names: Names) -> int | None:
    """None if ids are whole numbers not below 0, else the first seed; refused if they are of different kinds."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType, IntegralType, StringType

    kinds = []
    for frame, what, columns in (
        (transactions, "transactions", (names.id, names.status)),
        (dependencies, "dependencies", (names.needs, names.who)),
    ):
        if getattr(frame, "isStreaming", False):
            raise UsageError(f"{what}: is a stream: expected a table that is whole")
        for name in columns:
            if name not in frame.columns:
                there = ", ".join(frame.columns) or "none"
                raise DataError(f"{what}: there is no column {name!r}: there are {there}{nearest(name, frame.columns)}")
            if frame.columns.count(name) > 1:
                raise DataError(f"{what}: there are {frame.columns.count(name)} columns {name!r}: expected one")
    for frame, what, name in (
        (transactions, "transactions", names.id),
        (dependencies, "dependencies", names.needs),
        (dependencies, "dependencies", names.who),
    ):
        t = frame.schema[name].dataType
        kind = next((k for k in (IntegralType, StringType, BinaryType) if isinstance(t, k)), None)
        if kind is None:
            raise DataError(f"{what}: {name!r} has {t.simpleString()}: expected whole numbers, text or bytes as ids")
        kinds.append((kind, what, name, t.simpleString()))
    for kind, what, name, words in kinds[1:]:
        if kind is not kinds[0][0]:
            raise DataError(
                f"{what}: {name!r} has {words}, and {kinds[0][2]!r} has {kinds[0][3]}: expected ids of one kind; "
                "cast one of the columns"
            )
    words = transactions.schema[names.status].dataType
    if not isinstance(words, StringType):
        raise DataError(f"transactions: {names.status!r} has {words.simpleString()}: expected {', '.join(STATUSES)}")
    if kinds[0][0] is not IntegralType:
        return 0
    least = transactions.agg(sql.min(_column(transactions, names.id))).first()
    ends = dependencies.agg(
        sql.min(_column(dependencies, names.needs)), sql.min(_column(dependencies, names.who))
    ).first()
    below = [value for row in (least, ends) if row for value in row if value is not None and value < 0]
    return 0 if below else None


def _vertices(work: Work, transactions: DataFrame, dependencies: DataFrame, names: Names, seed: int | None) -> Saved:
    """All that either table names, once, with what was said of them."""
    from pyspark.sql import functions as sql

    word = _column(transactions, names.status)
    code = sql.lit(_WRONG)
    for number, status in enumerate(STATUSES):
        code = sql.when(word == status, number).otherwise(code)

    def ends(frame: DataFrame, name: str, status: Any) -> DataFrame:
        second = sql.lit(0).cast("long") if seed is None else sql.xxhash64(sql.lit(seed + 1), sql.col(_quoted(name)))
        return frame.select(key(name, seed).alias("v"), second.alias("other"), status.cast("int").alias("status"))

    nothing = sql.lit(None)
    every = (
        ends(transactions, names.id, code)
        .union(ends(dependencies, names.needs, nothing))
        .union(ends(dependencies, names.who, nothing))
    )
    lo, hi, v = sql.col("lo"), sql.col("hi"), sql.col("v")
    grouped = every.groupBy("v").agg(
        sql.min("status").alias("lo"), sql.max("status").alias("hi"), sql.count("status").alias("said"),
        (sql.min("other") != sql.max("other")).alias("collides"),
    )  # fmt: skip
    status = sql.coalesce(lo, sql.lit(UNKNOWN))
    made = grouped.select("v", status.alias("status"), "hi", "said", "collides")

    def many(condition: Any) -> Any:
        return sql.sum(condition.cast("long"))

    found, there = sql.col("status"), v.isNotNull()
    told = {word: many(there & (found == number)) for number, word in enumerate(WORDS)}
    return work.save(
        made, nulls=many(v.isNull()), wrong=many(hi == _WRONG), apart=many((hi < _WRONG) & (hi != found) & there),
        collisions=many(sql.col("collides") & there), said=sql.sum("said"), transactions=many(sql.col("said") > 0),
        **told,
    )  # fmt: skip


def _refuse(
    vertices: Saved, transactions: DataFrame, dependencies: DataFrame, names: Names, unknown: str, seed: int | None
) -> None:
    """Say what is wrong with a log, with an example."""
    from pyspark.sql import functions as sql

    told = vertices.told
    if told["nulls"]:
        for frame, what, name in (
            (transactions, "transactions", names.id),
            (dependencies, "dependencies", names.needs),
            (dependencies, "dependencies", names.who),
        ):
            if frame.where(_empty(_column(frame, name))).limit(1).count():
                raise DataError(f"{what}: {name!r} is empty in a row: expected an id")
    if told["wrong"]:
        word = _column(transactions, names.status)
        one = transactions.where(word.isNull() | ~word.isin(*STATUSES)).select(
            _column(transactions, names.id).alias("id"), word.alias("status")
        ).first()  # fmt: skip
        found = one["status"] if one else None
        raise DataError(
            f"transactions: {names.status!r} of {one['id'] if one else '?'!r} is {found!r}: expected "
            f"{', '.join(STATUSES)}{nearest(found, STATUSES) if isinstance(found, str) else ''}"
        )
    if told["apart"]:
        apart = vertices.frame.where(sql.col("hi") != sql.col("status")).where(sql.col("said") > 0).limit(1)
        row = transactions.join(apart, key(names.id, seed) == apart["v"]).select(
            _column(transactions, names.id).alias("id"), apart["status"].alias("lo"), apart["hi"].alias("hi")
        ).first()  # fmt: skip
        said = f"{row['id']!r} is {WORDS[row['lo']]} and {WORDS[row['hi']]}" if row else "one has two statuses"
        raise DataError(
            f"transactions: {names.id!r} {said}: expected one status for each transaction; keep the last row of each"
        )
    if told["unknown"] and unknown == "refuse":
        many = told["unknown"]
        raise DataError(
            f"dependencies: {many:,} id{'s are' if many > 1 else ' is'} in no row of the transactions: add them, or "
            f"say {option('unknown', 'block')}: whoever needs one cannot commit then"
        )


def _empty(column: Column) -> Column:
    """Whether it is no id: missing, or a text, or bytes, without a letter."""
    return column.isNull() | (column.cast("string") == "")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(frame: DataFrame, name: str) -> Column:
    return frame[_quoted(name)]
