"""A streaming query that remembers: it stops, goes on, and every row is in the database once."""

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from pellucid import Stream, pipeline, sinks
from pellucid.spark.session import session, stop_if_ours


@pipeline
def balance(amount: Stream[int]) -> Stream[int]:
    return amount.cumulate(lambda total, v: total + v, start=0, id="total")


FOLDER = Path(tempfile.mkdtemp())


def arrive(name: str, *rows: tuple[str, int, int]) -> None:
    """A file of events comes in."""
    folder = FOLDER / "in"
    folder.mkdir(exist_ok=True)
    lines = (json.dumps({"account": a, "seq": s, "amount": v}) for a, s, v in rows)
    (folder / f".{name}").write_text("\n".join(lines))
    (folder / f".{name}").rename(folder / name)  # Spark must not see half of it


def run(spark) -> None:
    """Read all that is new; a query without availableNow would go on for ever."""
    stream = spark.readStream.schema("account string, seq bigint, amount bigint").json(str(FOLDER / "in"))
    out = balance.spark(stream, key="account", order="seq", state=str(FOLDER / "state"), buckets=2)
    query = (
        out.writeStream.foreachBatch(sinks.sqlite(FOLDER / "bank.db", "balances"))
        .option("checkpointLocation", str(FOLDER / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def show(title: str) -> None:
    with closing(sqlite3.connect(FOLDER / "bank.db")) as database:
        rows = database.execute("SELECT account, seq, out FROM balances ORDER BY account, seq").fetchall()
    print(f"{title}: {rows}")


if __name__ == "__main__":
    spark = session()
    arrive("1.json", ("ada", 1, 100), ("bob", 1, 50), ("ada", 2, -30))
    run(spark)
    show("after the first start")
    arrive("2.json", ("ada", 3, 5), ("bob", 2, -50))
    run(spark)
    show("after the second")  # the totals go on from what was remembered
    stop_if_ours(spark)
