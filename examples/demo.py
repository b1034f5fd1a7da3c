"""A pipeline drawn, run on data, asked a question about all its inputs, and run on Spark: `make demo`."""

from pathlib import Path

from pellucid import Stream, UsageError, check, pipeline


@pipeline
def sum_of_odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda total, v: total + v, start=0)


@pipeline
def wrong_sum(x: Stream[int]) -> Stream[int]:  # a "simplification" that forgets which numbers are odd
    return x.filter(lambda v: v != 0).cumulate(lambda total, v: total + v, start=0)


def on_spark() -> None:
    from pellucid.spark import java
    from pellucid.spark.session import session, stop_if_ours

    try:
        java.find()
    except UsageError as error:
        print(f"Spark is left out of this demo, because it runs on Java:\n{error}")
        return
    print(sum_of_odds.spark_plan(key="user", order="seq"), "\n\nSpark is starting …", flush=True)
    spark = session()
    rows = [(user, n, n * (i + 1)) for i, user in enumerate(["ada", "bob", "eve"]) for n in range(1, 1001)]
    df = spark.createDataFrame(rows, "user string, seq bigint, x bigint").repartition(4)  # in no order at all
    found = sum_of_odds.spark(df, value="x", key="user", order="seq").collect()
    here = {user: sum_of_odds([x for u, _, x in rows if u == user]) for user in ("ada", "bob", "eve")}
    there = {user: [row.out for row in sorted(found, key=lambda r: r.seq) if row.user == user] for user in here}
    last = {u: v[-1:] for u, v in there.items()}
    print(f"In go {len(rows):,} rows of 3 users, out come {len(found):,}; the last sums: {last}")
    print(f"The answers of Spark and of the local engine are the same: {there == here}")
    stop_if_ours(spark)


if __name__ == "__main__":
    print("This pipeline keeps the odd numbers and adds them up:\n")
    print("   ", sum_of_odds.show())

    picture = Path("out/sum_of_odds.svg")
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(sum_of_odds.show("svg"), encoding="utf-8")
    print(f"\nThe same as a picture, to open in a browser: {picture}")
    numbers = range(1, 1001)
    sums = sum_of_odds(numbers)
    first = ", ".join(map(str, sums[:8]))
    print(f"\nIn go the numbers {numbers[0]} to {numbers[-1]}; out come {len(sums)} sums: {first}, …")
    print(f"They are the squares of 1, 2, 3, …, as they should be: {sums == [n * n for n in range(1, 501)]}")

    print("\nA colleague suggests a simpler one. Is it the same, for every stream of integers?\n")
    print(check.equivalent(sum_of_odds, wrong_sum))

    print("\nThe same pipeline on Spark, once for each user:\n")
    on_spark()
