"""Tables on Spark that are not as they were declared: the messages name the row, the column, the step, and what to
write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pytest

from pellucid import Scale, pipeline
from pellucid.spark import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Flight(NamedTuple):
    carrier: str
    at: Annotated[dt.datetime, dt.UTC]
    fee: Annotated[Decimal, Scale(2)]


AIRLINES = {"UA": "United"}
names = pipeline(lambda f: f.map(lambda e: AIRLINES[e.carrier], id="name"), f=Flight)
AT = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)


def test_each_is_named(spark: SparkSession) -> None:
    def rows(*values: Any, at: str = "timestamp", carrier: str = "string") -> Any:
        return spark.createDataFrame([values], f"carrier {carrier}, at {at}, fee decimal(10,3), CARRIER2 int")

    good = ("UA", AT, Decimal("1.500"), 1)
    said: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: names.spark(rows(*good).withColumnRenamed("CARRIER2", "Carrier")),
            "the DataFrame: the columns 'carrier' and 'Carrier' differ only in case, which Spark does not tell apart: "
            "rename one, or drop it",
        ),
        (
            lambda: names.spark(rows(*good, at="timestamp").withColumn("at", _naive())),
            "column 'at' holds timestamp[us]: expected datetime[UTC]; its times have no time zone: declare the field "
            "as datetime",
        ),
        (
            lambda: names.spark(rows("UA", AT, Decimal("1.505"), 1)).collect(),
            "column 'fee': 1.505 has more than 2 places after the point: round it first, or declare Scale(3)",
        ),
        (
            lambda: names.spark(rows(None, AT, Decimal("1.500"), 1)).collect(),
            "column 'carrier' is null: expected str; fill it, remove the row, or declare it as str | None",
        ),
        (lambda: names.spark(rows("ZZ", *good[1:])).collect(), "KeyError: 'ZZ'"),
        (
            lambda: names.spark(rows(*good).selectExpr("*", "array(carrier) k"), key="k"),
            "the key column 'k' is array<string>: a key is a whole number, a text, a truth value, a date, a timestamp "
            "or a decimal",
        ),
        (
            lambda: names.spark(rows(*good).selectExpr("*", "1 out"), keep=["out"]),
            "keep='out': the output 'out' has a column of this name itself",
        ),
    ]
    for call, message in said:
        with pytest.raises(Exception) as caught:
            call()
        assert message in str(explain(caught.value) or caught.value)


def _naive() -> Any:
    from pyspark.sql import functions as F

    return F.col("at").cast("timestamp_ntz")
