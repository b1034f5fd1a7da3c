"""A pipeline drawn, run on data, and asked a question about all its inputs: `make demo`."""

from pathlib import Path

from pellucid import Stream, check, pipeline


@pipeline
def sum_of_odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda total, v: total + v, start=0)


@pipeline
def wrong_sum(x: Stream[int]) -> Stream[int]:  # a "simplification" that forgets which numbers are odd
    return x.filter(lambda v: v != 0).cumulate(lambda total, v: total + v, start=0)


if __name__ == "__main__":
    print("This pipeline keeps the odd numbers and adds them up:\n")
    print("   ", sum_of_odds.show())

    picture = Path("out/sum_of_odds.svg")
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(sum_of_odds.show("svg"), encoding="utf-8")
    print(f"\nThe same as a picture, to open in a browser: {picture}")

    numbers = range(1, 1001)
    sums = sum_of_odds(numbers)
    shown = ", ".join(map(str, sums[:8]))
    print(f"\nIn go the numbers {numbers[0]} to {numbers[-1]}; out come {len(sums)} sums: {shown}, …")
    print(f"They are the squares of 1, 2, 3, …, as they should be: {sums == [n * n for n in range(1, 501)]}")

    print("\nA colleague suggests a simpler one. Is it the same, for every stream of integers?\n")
    print(check.equivalent(sum_of_odds, wrong_sum))
