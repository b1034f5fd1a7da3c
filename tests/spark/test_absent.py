"""Records that may be missing, as columns of a DataFrame: a struct that is null, or null in each field."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pellucid import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Quote(NamedTuple):
    at: int
    price: float


class Seen(NamedTuple):
    at: int
    quote: Quote | None


def test_a_struct_that_is_null_has_null_in_each_field(spark: SparkSession) -> None:
    rows = [(1, None), (2, (3, 4.0)), (5, (None, None))]
    df = spark.createDataFrame(rows, "at bigint, quote struct<at bigint, price double>")
    price = pipeline(lambda x: x.at("at").tumbling(10, lambda w: w.map(lambda e: e.quote.price)), x=Seen)
    known = pipeline(lambda x: x.filter(lambda e: e.quote.price is not None).map(lambda e: e.quote.price), x=Seen)
    assert [row["out"] for row in known.spark(df).collect()] == [4.0]
    here = [Seen(1, None), Seen(2, Quote(3, 4.0)), Seen(5, None)]
    assert known(here) == [4.0]
    assert [tuple(row) for row in price.spark(df).collect()] == [tuple(w) for w in price(here)] == [(0, 10, None)]
