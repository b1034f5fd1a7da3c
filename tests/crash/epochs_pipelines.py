"""Twenty pipelines for the crash tests of runs with epochs: each kind of processor and state, one source or two, with
keys and without."""

from __future__ import annotations

from typing import NamedTuple

from pellucid import Stream, apply, merge, pipeline


class Sale(NamedTuple):
    item: str
    price: float


@pipeline
def totals(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda t, v: t + v, start=0)


@pipeline
def windows(x: Stream[int]) -> Stream[int]:
    return x.window(5, lambda w: w.cumulate(lambda t, v: t + v, start=0))


@pipeline
def every_third(x: Stream[int]) -> Stream[int]:
    return x.decimate(3)


@pipeline
def later(x: Stream[int]) -> Stream[int]:
    return x.trim(70).map(lambda v: v * 2)


@pipeline
def steps(x: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: b - a, x, x.trim(1))


@pipeline
def both_ways(x: Stream[int]) -> Stream[int]:
    return merge(x.map(lambda v: v + 1), x.filter(lambda v: v % 3 == 0))


@pipeline
def doubled(x: Stream[int]) -> Stream[int]:
    return x.task(lambda s, v: (s + v, [s, v] if v % 2 else []), 0)


@pipeline
def halves(x: Stream[int]) -> Stream[float]:
    return x.map(lambda v: v / 2).cumulate(lambda t, v: t * 0.5 + v, start=0.0)


@pipeline
def words(x: Stream[int]) -> Stream[str]:
    return x.map(lambda v: "even" if v % 2 == 0 else "odd")


@pipeline
def flags(x: Stream[int]) -> Stream[bool]:
    return x.cumulate(lambda seen, v: seen or v > 300, start=False)


@pipeline
def sums(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return x + y


@pipeline
def merged(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return merge(x, y.map(lambda v: -v))


@pipeline
def two_outputs(x: Stream[int]):
    return {"sums": x.cumulate(lambda t, v: t + v, start=0), "firsts": x.decimate(4)}


@pipeline
def wide(x: Stream[int]) -> Stream[int]:
    a = x.map(lambda v: v + 1, id="a")
    b = x.filter(lambda v: v % 2 == 0, id="b")
    return merge(a, b, id="meet").cumulate(lambda t, v: t + v, start=0)


@pipeline
def long_chain(x: Stream[int]) -> Stream[int]:
    y = x.map(lambda v: v * 3, id="triple")
    z = y.cumulate(lambda t, v: t + v, start=0, id="sum")
    return z.filter(lambda v: v % 2 == 0, id="even").map(lambda v: v // 2, id="half")


@pipeline
def kept_by_key(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def shared_by_key(x: Stream[int]) -> Stream[int]:
    return x.window(3, lambda w: w.cumulate(lambda t, v: t + v, start=0))


@pipeline
def records(x: Stream[int]) -> Stream[Sale]:
    return x.map(lambda v: Sale("tea" if v % 2 == 0 else "cake", v / 4))


@pipeline
def quiet(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v > 10_000)


# name: (sources, output, options of run)
CASES: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "totals": (1, "x.csv", ()),
    "odds": (1, "x.jsonl", ()),
    "windows": (1, "x.parquet", ()),
    "every_third": (1, "x.csv.gz", ()),
    "later": (1, "sqlite:x.db#t", ()),
    "steps": (1, "x.csv", ()),
    "both_ways": (1, "x.jsonl", ()),
    "doubled": (1, "sqlite:x.db#t", ()),
    "halves": (1, "x.arrow", ()),
    "words": (1, "x.tsv", ()),
    "flags": (1, "x.csv", ()),
    "sums": (2, "x.csv", ()),
    "merged": (2, "sqlite:x.db#t", ()),
    "two_outputs": (1, "x.csv", ()),
    "wide": (1, "x.csv", ("--cut", "a", "--cut", "b")),
    "long_chain": (1, "x.jsonl", ("--cut", "sum", "--cut", "even")),
    "kept_by_key": (1, "POSTGRES", ("--key", "k")),
    "shared_by_key": (1, "x.csv", ("--key", "k", "--workers", "2")),
    "records": (1, "POSTGRES", ()),
    "quiet": (1, "x.csv", ()),
}
