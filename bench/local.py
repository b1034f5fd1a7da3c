"""The local engine beside its peers, on the same data, in one run: events per second and ratios.

    python bench/local.py [--events 20000000] [--json FILE]

Peers: a plain Python loop, a Numba loop written by hand for the case, polars, and bytewax.  Slow peers get
a part of the data and are rated by events per second.  Every peer's answer is compared with ours.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from pellucid import Pipeline, Stream, pipeline
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import INT


@pipeline
def passthrough(x: Stream[int]) -> Stream[int]:
    return x


@pipeline
def running_sum(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda total, v: total + v, start=0)


@pipeline
def sum_of_odds(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1).cumulate(lambda total, v: total + v, start=0)


@pipeline
def window_3(x: Stream[int]) -> Stream[int]:
    return x.window(3, running_sum)


@pipeline
def window_1000(x: Stream[int]) -> Stream[int]:
    return x.window(1000, running_sum)


# ---------------------------------------------------------------- loops by hand


@njit
def hand_passthrough(x, out):
    for i in range(x.size):
        out[i] = x[i]
    return x.size


@njit
def hand_sum(x, out):
    total = 0
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return x.size


@njit
def hand_odds(x, out):
    total = n = 0
    for i in range(x.size):
        if x[i] % 2 == 1:
            total += x[i]
            out[n] = total
            n += 1
    return n


@njit
def hand_window(x, out, k):
    total = n = 0
    for i in range(x.size):
        total += x[i]
        if i >= k:
            total -= x[i - k]
        if i >= k - 1:
            out[n] = total
            n += 1
    return n


@njit
def hand_keyed(x, keys, out, count):
    totals = np.zeros(count, np.int64)
    for i in range(x.size):
        totals[keys[i]] += x[i]
        out[i] = totals[keys[i]]
    return x.size


def loop_passthrough(x: list[int], keys: list[int]) -> list[int]:
    out = []
    for v in x:
        out.append(v)
    return out


def loop_sum(x: list[int], keys: list[int]) -> list[int]:
    out, total = [], 0
    for v in x:
        total += v
        out.append(total)
    return out


def loop_odds(x: list[int], keys: list[int]) -> list[int]:
    out, total = [], 0
    for v in x:
        if v % 2 == 1:
            total += v
            out.append(total)
    return out


def loop_window(k: int) -> Callable[[list[int], list[int]], list[int]]:
    def loop(x: list[int], keys: list[int]) -> list[int]:
        out, total = [], 0
        for i, v in enumerate(x):
            total += v
            if i >= k:
                total -= x[i - k]
            if i >= k - 1:
                out.append(total)
        return out

    return loop


def loop_keyed(x: list[int], keys: list[int]) -> list[int]:
    out: list[int] = []
    totals: dict[int, int] = {}
    for v, key in zip(x, keys, strict=True):
        totals[key] = totals.get(key, 0) + v
        out.append(totals[key])
    return out


# ---------------------------------------------------------------- the cases


@dataclass
class Case:
    name: str
    pipeline: Pipeline
    hand: Callable[..., int]
    loop: Callable[[list[int], list[int]], list[int]]
    polars: Callable[[Any, Any], Any]
    keys: int = 0
    k: int = 0


def cases() -> list[Case]:
    import polars as pl

    c = pl.col("x")
    return [
        Case("passthrough", passthrough, hand_passthrough, loop_passthrough, lambda f, _: f.select(c + 0)),
        Case("running sum", running_sum, hand_sum, loop_sum, lambda f, _: f.select(c.cum_sum())),
        Case("odd, then sum", sum_of_odds, hand_odds, loop_odds, lambda f, _: f.filter(c % 2 == 1).select(c.cum_sum())),
        Case(
            "window sum, 3",
            window_3,
            hand_window,
            loop_window(3),
            lambda f, _: f.select(c.rolling_sum(3)).drop_nulls(),
            k=3,
        ),
        Case(
            "window sum, 1000",
            window_1000,
            hand_window,
            loop_window(1000),
            lambda f, _: f.select(c.rolling_sum(1000)).drop_nulls(),
            k=1000,
        ),
        Case(
            "keyed sum, 10^3",
            running_sum,
            hand_keyed,
            loop_keyed,
            lambda f, _: f.select(c.cum_sum().over("key")),
            keys=10**3,
        ),
        Case(
            "keyed sum, 10^6",
            running_sum,
            hand_keyed,
            loop_keyed,
            lambda f, _: f.select(c.cum_sum().over("key")),
            keys=10**6,
        ),
    ]


def best(run: Callable[[], Any], repeat: int = 5) -> tuple[float, Any]:
    """The shortest of a few runs, and the last result."""
    shortest, result = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        result = run()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def bytewax_rate(case: Case, x: list[int], keys: list[int]) -> tuple[float, list[int]] | None:
    """The same in bytewax, on one worker; None where it is not installed."""
    try:
        import bytewax.operators as op
        from bytewax.dataflow import Dataflow
        from bytewax.testing import TestingSink, TestingSource, run_main
    except ImportError:
        return None
    out: list[Any] = []
    flow = Dataflow("bench")
    stream = op.input("in", flow, TestingSource(list(zip(map(str, keys), x, strict=True)), batch_size=1000))

    def total(state: int | None, v: int) -> tuple[int, int]:
        new = (state or 0) + v
        return new, new

    def window(state: Any, v: int) -> tuple[Any, int | None]:
        items, running = state or ([], 0)
        items = [*items, v]
        running += v
        if len(items) > case.k:
            running -= items[0]
            items = items[1:]
        return (items, running), running if len(items) == case.k else None

    if case.pipeline is sum_of_odds:
        stream = op.filter("odd", stream, lambda kv: kv[1] % 2 == 1)
    if case.k:
        stream = op.stateful_map("window", stream, window)
        stream = op.filter("full", stream, lambda kv: kv[1] is not None)
    elif case.pipeline is not passthrough:
        stream = op.stateful_map("sum", stream, total)
    op.output("out", op.map("value", stream, lambda kv: kv[1]), TestingSink(out))
    start = time.perf_counter()
    run_main(flow)
    return time.perf_counter() - start, out


def measure(case: Case, events: int, seed: int) -> dict[str, Any]:
    import polars as pl

    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1000, events)
    keys = rng.integers(0, case.keys, events) if case.keys else np.zeros(events, np.int64)
    key_type = INT if case.keys else None
    columns = [[keys]] if case.keys else None

    def ours() -> Any:
        return (
            Engine(case.pipeline.graph, key=key_type, mode="numba")
            .push_batch(Batch(events, [[x]], [], columns))[0]
            .columns[0]
        )

    def hand() -> Any:
        out = np.empty(events, np.int64)
        more = (keys,) if case.keys else ()
        last = (case.keys,) if case.keys else (case.k,) if case.k else ()
        return out[: case.hand(x, *more, out, *last)]

    def polars() -> Any:
        return case.polars(frame, None).to_series().to_numpy()

    frame = pl.DataFrame({"x": x, "key": keys})
    ours(), hand()
    seconds = {}
    seconds["pellucid"], answer = best(ours)
    seconds["numba by hand"], by_hand = best(hand)
    seconds["polars"], by_polars = best(polars, 2)
    assert (answer == by_hand).all() and (answer == by_polars).all(), f"{case.name}: the answers differ"
    rates = {name: events / s for name, s in seconds.items()}
    some = min(events, 1_000_000)
    xs, ks = x[:some].tolist(), keys[:some].tolist()
    took, by_loop = best(lambda: case.loop(xs, ks), 2)
    rates["python loop"] = some / took
    assert by_loop == answer[: len(by_loop)].tolist(), f"{case.name}: the loop's answer differs"
    few = min(events, 100_000 if case.k < 100 else 20_000)
    waxed = bytewax_rate(case, x[:few].tolist(), keys[:few].tolist())
    if waxed is not None:
        rates["bytewax"] = few / waxed[0]
        assert case.keys or waxed[1] == answer[: len(waxed[1])].tolist(), f"{case.name}: bytewax's answer differs"
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    args = parser.parse_args()
    print(
        f"{args.events:,} events, Python {platform.python_version()}, {platform.machine()}; millions of events per "
        "second"
    )
    peers = ["pellucid", "numba by hand", "polars", "python loop", "bytewax"]
    print(f"{'':18}" + "".join(f"{p:>15}" for p in peers) + f"{'by hand / us':>15}{'us / loop':>12}")
    figures = {}
    for case in cases():
        rates = measure(case, args.events, args.seed)
        figures[case.name] = rates
        cells = "".join(f"{rates[p] / 1e6:15.2f}" if p in rates else f"{'-':>15}" for p in peers)
        print(
            f"{case.name:18}{cells}{rates['numba by hand'] / rates['pellucid']:14.2f}x"
            f"{rates['pellucid'] / rates['python loop']:11.0f}x",
            flush=True,
        )
    slower = figures["window sum, 3"]["pellucid"] / figures["window sum, 1000"]["pellucid"]
    print(f"a window of 1,000 takes {slower:.2f} times as long per event as one of 3")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"events": args.events, "events_per_second": figures}, f, indent=2)


if __name__ == "__main__":
    main()
