"""Windows and joins by event time, here and in peers, on the same events, in one run.

    python bench/time.py [--events 5000000] [--keys 1000 100000] [--peers polars] [--json FILE] [--growth]

Events come up to a minute out of order, over a day, for a thousand and for a hundred thousand keys.  Pellucid takes
them in batches (one, and fifty), as a stream with a lateness of a minute; polars and DuckDB have the whole table
before they begin; bytewax takes a stream, of the first 200,000 events, and pathway a table of as many.  Who is not
installed steps aside, and is named.  Every answer is compared with ours before any time counts.  Figures are events
for each second of processor time (of all threads), the best of ``--repeat`` runs.

``--growth`` measures what an event costs while more and more windows are open.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from time_events import DAY, LATE, MINUTE, Event, drawn, timed, total

from pellucid import Pipeline, join, pipeline
from pellucid.internal.data.columns import Batch, Output
from pellucid.internal.engine.timed.engine import TimedEngine

FEW = 200_000
PEERS = ["polars", "duckdb", "bytewax", "pathway"]

TUMBLING = pipeline(lambda x: timed(x).tumbling(timedelta(minutes=10), total), x=Event)
SLIDING = pipeline(lambda x: timed(x).sliding(timedelta(minutes=10), timedelta(minutes=5), total), x=Event)


def session(gap: int) -> Pipeline:
    """Sessions with this gap."""
    return pipeline(lambda x: timed(x).session(timedelta(microseconds=gap), total), x=Event)


def joined(within: int) -> Pipeline:
    """Pairs that are at most so far apart."""
    return pipeline(lambda a, b: join(timed(a), timed(b), within=timedelta(microseconds=within)), a=Event, b=Event)


@dataclass
class Data:
    """Columns in the order of arrival: times in microseconds, keys, amounts; of a join, two such tables, half each."""

    events: int
    keys: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.events + self.keys)
        half = self.events // 2
        self.tables = [drawn(rng, count, self.keys) for count in (self.events, half, self.events - half)]

    @property
    def apart(self) -> int:
        """How far apart the events of a key are, on the average."""
        return DAY * self.keys // self.events

    @property
    def gap(self) -> int:
        """A gap that makes sessions of a few events each."""
        return 2 * self.apart

    @property
    def within(self) -> int:
        """An interval in which an event finds about one partner."""
        return self.apart


# ---------------------------------------------------------------- ours


def ours(p: Pipeline, tables: list[list[Any]], batches: int) -> tuple[float, list[Output]]:
    """Seconds of processor time, and what came out."""
    engine = TimedEngine(p.graph)
    count = max(len(t[0]) for t in tables)
    size = -(-count // batches)
    start = time.process_time()
    out = []
    for at in range(0, count, size):
        columns: list[list[Any]] = [[c[at : at + size] for c in table] for table in tables]
        long = max(len(c[0]) for c in columns)
        masks = [None if len(tables) == 1 else np.arange(long) < len(c[0]) for c in columns]
        columns = [[np.resize(c, long) if len(c) < long else c for c in table] for table in columns]
        out += engine.push_batch(Batch(long, columns, masks))
    out += engine.finish_batch()
    return time.process_time() - start, out


def answer(outputs: list[Output], pair: bool) -> Any:
    """What came out in an order that everybody can make: rows of key, start and sum, or of both amounts and times."""
    columns = [np.concatenate([np.asarray(o.columns[j]) for o in outputs]) for j in range(len(outputs[0].columns))]
    if pair:
        columns = [columns[0], columns[1], columns[2], columns[3], columns[5]]
    else:
        keys = np.concatenate([np.asarray(o.keys[0]) for o in outputs if o.keys is not None])
        columns = [keys, columns[0], columns[2]]
    return ordered(columns)


def ordered(columns: list[Any]) -> Any:
    """Rows, sorted."""
    table = np.stack([np.asarray(c, dtype=np.int64) for c in columns], axis=1)
    return table[np.lexsort(table.T[::-1])]


# ---------------------------------------------------------------- polars


def in_polars(case: str, data: Data) -> Callable[[], list[Any]]:
    """The case over whole tables; the frames are made before the clock runs."""
    import polars as pl

    frames = [pl.DataFrame({"t": t, "key": k, "v": v}) for t, k, v in data.tables]
    whole, a, b = frames
    amount = pl.col("v").sum()

    def tumbling() -> list[Any]:
        out = whole.group_by("key", (pl.col("t") // (10 * MINUTE) * (10 * MINUTE)).alias("s")).agg(amount)
        return [out[c] for c in ("key", "s", "v")]

    def sliding() -> list[Any]:
        last = (pl.col("t") // (5 * MINUTE) * (5 * MINUTE)).alias("s")
        both = whole.select("key", last, "v")
        both = pl.concat([both, both.with_columns(pl.col("s") - 5 * MINUTE)])
        out = both.group_by("key", "s").agg(amount)
        return [out[c] for c in ("key", "s", "v")]

    def sessions() -> list[Any]:
        rows = whole.sort("key", "t")
        new = (pl.col("key") != pl.col("key").shift()) | (pl.col("t").diff() > data.gap)
        rows = rows.with_columns(new.fill_null(True).cum_sum().alias("n"))
        out = rows.group_by("n").agg(pl.col("key").first(), pl.col("t").first(), amount)
        return [out[c] for c in ("key", "t", "v")]

    def pairs() -> list[Any]:
        w = data.within
        near = pl.concat([b.with_columns((pl.col("t") // w + d).alias("near")) for d in (-1, 0, 1)])
        out = a.with_columns((pl.col("t") // w).alias("near")).join(near, on=["key", "near"])
        out = out.filter((pl.col("t_right") - pl.col("t")).abs() <= w)
        return [out[c] for c in ("t", "key", "v", "t_right", "v_right")]

    return {"tumbling": tumbling, "sliding": sliding, "session": sessions, "join": pairs}[case]


# ---------------------------------------------------------------- DuckDB


def in_duckdb(case: str, data: Data) -> Callable[[], list[Any]]:
    """The same in SQL, over tables of its own."""
    import duckdb
    import pyarrow as pa

    db = duckdb.connect()
    for name, (t, k, v) in zip(("x", "a", "b"), data.tables, strict=True):
        arrow = pa.table({"t": t, "key": k, "v": v})
        db.register("given", arrow)
        db.execute(f"create table {name} as select * from given")
    ten, five, gap, w = 10 * MINUTE, 5 * MINUTE, data.gap, data.within
    queries = {
        "tumbling": f"select key, t - t % {ten} s, sum(v)::bigint from x group by all",
        "sliding": (
            f"select key, s - d s, sum(v)::bigint from (select key, t - t % {five} s, v from x), "
            f"(values (0), ({five})) as o(d) group by all"
        ),
        "session": (
            f"with m as (select *, t - lag(t) over u > {gap} or lag(t) over u is null as new from x "
            "window u as (partition by key order by t)), "
            "n as (select *, sum(new::int) over (partition by key order by t rows unbounded preceding) n from m) "
            "select key, min(t), sum(v)::bigint from n group by key, n"
        ),
        "join": (
            "select a.t, a.key, a.v, b.t, b.v "
            "from (select *, unnest([t // {w} - 1, t // {w}, t // {w} + 1]) near from b) b "
            "join (select *, t // {w} near from a) a on a.key = b.key and a.near = b.near "
            "where b.t - a.t between -{w} and {w}"
        ).replace("{w}", str(w)),
    }

    def run() -> list[Any]:
        asked = db.sql(queries[case])
        found = asked.to_arrow_table() if hasattr(asked, "to_arrow_table") else asked.arrow()
        return [found.column(j).to_numpy() for j in range(found.num_columns)]

    return run


# ---------------------------------------------------------------- bytewax


def in_bytewax(case: str, data: Data) -> tuple[float, Any]:
    """Seconds and the sums of the first events, by key; ImportError where it is not installed, LookupError where it has
    no such thing."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing as win
    from bytewax.testing import TestingSink, TestingSource, run_main

    if case == "join":
        raise LookupError("it joins what is in one window, not what is within an interval")
    if data.keys > 10_000:
        raise LookupError(f"{data.keys:,} keys: 200,000 events of 100,000 keys took it more than seven minutes")
    start = datetime(1970, 1, 1, tzinfo=UTC)
    t, k, v = (c[:FEW] for c in data.tables[0])
    rows = [
        (str(key), (start + timedelta(microseconds=int(at)), int(amount)))
        for at, key, amount in zip(t.tolist(), k.tolist(), v.tolist(), strict=True)
    ]
    clock = win.EventClock(lambda e: e[0], wait_for_system_duration=2 * LATE)
    windower: Any = {
        "tumbling": win.TumblingWindower(length=timedelta(minutes=10), align_to=start),
        "sliding": win.SlidingWindower(length=timedelta(minutes=10), offset=timedelta(minutes=5), align_to=start),
        "session": win.SessionWindower(gap=timedelta(microseconds=data.gap)),
    }[case]
    out: list[Any] = []
    flow = Dataflow("bench")
    stream = op.input("in", flow, TestingSource(rows, batch_size=1000))
    sums = win.fold_window("sum", stream, clock, windower, lambda: 0, lambda s, e: s + e[1], lambda a, b: a + b)
    op.output("out", sums.down, TestingSink(out))
    begin = time.process_time()
    run_main(flow)
    seconds = time.process_time() - begin
    return seconds, ordered([[int(key) for key, _ in out], [amount for _, (_, amount) in out]])


# ---------------------------------------------------------------- pathway


def in_pathway(case: str, data: Data) -> tuple[float, Any]:
    """Seconds and the rows of the first events, as a table that is there; ImportError where it is not installed."""
    import pandas as pd
    import pathway as pw

    if not hasattr(pw, "temporal"):  # elsewhere than on Linux and macOS its name is there, and nothing behind it
        raise ImportError("it does not run here")
    few = FEW // 2 if case == "join" else FEW
    tables = data.tables[1:] if case == "join" else data.tables[:1]
    frames = [pd.DataFrame({"t": t[:few], "key": k[:few], "v": v[:few]}) for t, k, v in tables]
    begin = time.process_time()
    given = [pw.debug.table_from_pandas(frame) for frame in frames]
    if case == "join":
        a, b = given
        near = pw.temporal.interval(-data.within, data.within)
        pairs = a.interval_join(b, a.t, b.t, near, a.key == b.key)
        result = pairs.select(t=a.t, key=a.key, v=a.v, other=b.t, w=b.v)
        columns = ["t", "key", "v", "other", "w"]
    else:
        window = {
            "tumbling": lambda: pw.temporal.tumbling(duration=10 * MINUTE, origin=0),
            "sliding": lambda: pw.temporal.sliding(hop=5 * MINUTE, duration=10 * MINUTE, origin=-DAY),
            "session": lambda: pw.temporal.session(max_gap=data.gap + 1),  # it says: less than
        }[case]()
        (x,) = given
        sums = {"key": pw.this._pw_instance, "s": pw.this._pw_window_start, "v": pw.reducers.sum(pw.this.v)}
        result = x.windowby(x.t, window=window, instance=x.key).reduce(**sums)
        columns = ["key", "s", "v"]
    found = pw.debug.table_to_pandas(result, include_id=False)
    return time.process_time() - begin, ordered([found[c] for c in columns])


# ---------------------------------------------------------------- the cases


def measure(case: str, data: Data, repeat: int, peers: list[str], aside: dict[str, str]) -> dict[str, float]:
    """Events for each second of processor time, of ours and of the peers; who steps aside, and why, goes to
    ``aside``."""
    p = {
        "tumbling": lambda: TUMBLING,
        "sliding": lambda: SLIDING,
        "session": lambda: session(data.gap),
        "join": lambda: joined(data.within),
    }[case]()
    tables = data.tables[1:] if case == "join" else data.tables[:1]
    few = [[c[:50_000] for c in t] for t in tables]
    ours(p, few, 1)  # compile
    rates: dict[str, float] = {}
    seconds, found = ours(p, tables, 1)
    expected = answer(found, case == "join")
    del found
    for name, batches in (("pellucid", 1), ("in 50 batches", 50)):
        best = seconds if batches == 1 else float("inf")
        for _ in range(repeat - (batches == 1)):
            took, found = ours(p, tables, batches)
            if best == float("inf"):
                assert (answer(found, case == "join") == expected).all(), (
                    f"{case}: {batches} batches give another answer"
                )
            best = min(best, took)
        rates[name] = data.events / best
    for name, make in (("polars", in_polars), ("duckdb", in_duckdb)):
        if name not in peers:
            continue
        run = make(case, data)
        assert (ordered(run()) == expected).all(), f"{case}: {name}'s answer differs"
        best = float("inf")
        for _ in range(repeat):
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
        rates[name] = data.events / best
    few = [[c[: FEW // len(tables)] for c in t] for t in tables]
    for name, stream in (("bytewax", in_bytewax), ("pathway", in_pathway)):
        if name not in peers:
            continue
        try:
            seconds, theirs = stream(case, data)
        except (ImportError, LookupError) as why:
            aside[name if isinstance(why, ImportError) else f"{name}, {case}"] = str(why)
            continue
        mine = answer(ours(p, few, 1)[1], case == "join")
        if name == "bytewax":  # it puts out no starts
            mine = ordered([mine[:, 0], mine[:, 2]])
        assert (mine == theirs).all(), f"{case}: {name}'s answer differs"
        rates[name] = sum(len(t[0]) for t in few) / seconds
    return rates


def growth(repeat: int) -> dict[str, float]:
    """Nanoseconds for each event in batches of a thousand, while half of all events wait in open windows."""
    out = {}
    for count in (100_000, 200_000, 400_000, 800_000):
        t = np.arange(count) * 1000 - np.random.default_rng(1).integers(0, 20_000, count)
        columns = [t, np.random.default_rng(2).integers(0, 100, count), np.ones(count, np.int64)]
        wait = timedelta(microseconds=count * 500)
        for name, make in {
            "tumbling": lambda x: x.tumbling(timedelta(milliseconds=100), total),
            "sliding": lambda x: x.sliding(timedelta(milliseconds=100), timedelta(milliseconds=50), total),
            "session": lambda x: x.session(timedelta(milliseconds=50), total),
        }.items():
            p = pipeline(
                lambda x, make=make, wait=wait: make(x.at("when", lateness=wait).key_by(lambda e: e.user)), x=Event
            )
            ours(p, [[c[:50_000] for c in columns]], 1)
            took = min(ours(p, [columns], count // 1000)[0] for _ in range(repeat))
            out[f"{name}, {count // 2:,} events wait"] = 1e9 * took / count
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, nargs="*", default=[1000, 100_000])
    parser.add_argument("--cases", nargs="*", default=["tumbling", "sliding", "session", "join"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument(
        "--growth", action="store_true", help="what an event costs while more and more windows are open"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    args = parser.parse_args()
    print(
        f"{args.events:,} events, Python {platform.python_version()}, {platform.machine()}; millions of events for "
        "each second of processor time"
    )
    peers = ["pellucid", "in 50 batches", *args.peers]
    print(
        f"{'':22}" + "".join(f"{p:>15}" for p in peers) + f"{'us / polars':>13}{'us / duckdb':>13}{'us / bytewax':>14}"
    )
    figures: dict[str, Any] = {}
    aside: dict[str, str] = {}
    for keys in args.keys:
        data = Data(args.events, keys)
        for case in args.cases:
            rates = measure(case, data, args.repeat, args.peers, aside)
            figures[f"{case}, {keys} keys"] = rates
            cells = "".join(f"{rates[p] / 1e6:15.2f}" if p in rates else f"{'-':>15}" for p in peers)
            for peer, width in (("polars", 13), ("duckdb", 13), ("bytewax", 14)):
                cells += f"{rates['pellucid'] / rates[peer]:{width}.2f}" if peer in rates else f"{'-':>{width}}"
            print(f"{case + f', {keys:,} keys':22}{cells}", flush=True)
    for name, why in aside.items():
        print(f"{name}: not measured: {why}")
    if args.growth:
        figures["growth"] = growth(args.repeat)
        print("nanoseconds for each event, in batches of a thousand")
        for name, cost in figures["growth"].items():
            print(f"  {name:40}{cost:10,.0f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
