"""A keyed batch on Spark: records in, records out, and what the local engine says about the same rows."""

from dataclasses import dataclass

from pellucid import Stream, pipeline
from pellucid.spark.session import session, stop_if_ours


@dataclass(frozen=True)
class Trade:
    price: float
    size: int


@dataclass(frozen=True)
class Level:
    volume: int  # traded so far
    best: float  # the highest price so far


@pipeline
def levels(trade: Stream[Trade]) -> Stream[Level]:
    def step(level: Level, t: Trade) -> tuple[Level, list[Level]]:
        new = Level(level.volume + t.size, max(level.best, t.price))
        return new, [new]

    return trade.task(step, Level(0, 0.0), id="level")


ROWS = [  # symbol, number, price, size: in no order, as Spark gives them
    ("SUN", 2, 10.5, 300),
    ("MOON", 1, 4.0, 50),
    ("SUN", 1, 11.0, 100),
    ("SUN", 3, 12.0, 20),
    ("MOON", 2, 3.5, 70),
]

if __name__ == "__main__":
    spark = session()
    df = spark.createDataFrame(ROWS, "symbol string, number bigint, price double, size bigint")
    out = levels.spark(df, key="symbol", order="number")  # a record reads the columns with its fields' names
    out.printSchema()
    found = out.orderBy("symbol", "number").collect()
    for row in found:
        print(f"{row.symbol:>5} {row.number}: volume {row.volume}, best {row.best}")

    here = []
    for symbol in ("MOON", "SUN"):
        trades = [Trade(price, size) for s, _, price, size in sorted(ROWS) if s == symbol]
        here += [(symbol, n, e.volume, e.best) for n, e in enumerate(levels(trades), start=1)]
    print("the same as here:", [tuple(row) for row in found] == here)
    stop_if_ours(spark)
