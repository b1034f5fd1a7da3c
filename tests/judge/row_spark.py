"""The same functions and pipelines on Spark, a few wide jobs in one session: native, and in the kernel.

python -m tests.judge.row_spark --seed 1 --jobs 6
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pellucid import PellucidError, pipeline
from tests.judge.row_frames import _cell, as_dict, equal, wanted_rows
from tests.judge.row_functions import PICKED, Text, drawn
from tests.judge.row_judge import made, same, told
from tests.judge.row_streams import drawn_pipeline
from tests.judge.row_values import E, rows

__all__ = ["SCHEMA", "functions", "keyed"]

SCHEMA = (
    "i bigint, j bigint, f double, g double, s string, t string, b boolean, c boolean, "
    "at timestamp_ntz, an timestamp_ntz, u timestamp, un timestamp, "
    "d date, dn date, w interval day to second, wn interval day to second, "
    "m decimal(18,2), k decimal(18,4), col string, cn string, "
    "p struct<x: bigint, y: bigint>, id bigint, note string"
)


def frame(spark: Any, dicts: list[dict[str, Any]]) -> Any:
    """A DataFrame of the rows."""
    names = [part.split()[0] for part in SCHEMA.replace("struct<x: bigint, y: bigint>", "struct").split(", ")]
    data = [tuple(tuple(d[n].values()) if n == "p" else d[n] for n in names) for d in dicts]
    return spark.createDataFrame(data, SCHEMA)


def functions(spark: Any, texts: list[Text], seed: int, native: str) -> Iterator[str]:
    """Many functions in one job, on rows on which none fails."""
    events = rows(random.Random(seed), 150, calm=True)
    known = []
    for t in texts:
        answers = told(t, events)
        if sum(fine for fine, _ in answers) < 100:
            continue
        try:
            pipeline(lambda x, t=t: x.map(made(t)), x=E)
        except PellucidError:
            continue
        known.append((t, answers))
    good = [n for n in range(len(events)) if all(a[n][0] for _, a in known)]
    df = frame(spark, [as_dict(events[n], n) for n in good])
    p = pipeline(lambda x: {f"o{m}": x.map(made(t)) for m, (t, _) in enumerate(known)}, x=E)
    out = p.spark(df, key="id", order="id", native=native, tag="output")
    found: dict[tuple[int, str], Any] = {}
    for row in out.collect():
        found[row.id, row.output] = row
    for m, (t, answers) in enumerate(known):
        for n in good:
            row = found.get((n, f"o{m}"))
            if row is None:
                yield f"{native}: no row\n{t.source}"
                break
            value = row.asDict(recursive=True).get(f"o{m}")
            if not _same(t.result, value, answers[n][1]):
                yield f"{native}: {value!r}, Python has {answers[n][1]!r} on {events[n]}\n{t.source}"
                break


def _same(kind: str, found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and not isinstance(found, dict):
        return same(kind, found, wanted)
    wanted = _cell(wanted)
    if hasattr(wanted, "astimezone") and wanted.tzinfo is not None:
        return found is not None and found.astimezone(wanted.tzinfo) == wanted
    if isinstance(wanted, tuple):
        found = tuple(found.values()) if isinstance(found, dict) else found
        return len(found) == len(wanted) and all(_same("", a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(wanted, dict):
        return all(_same("", found[k], wanted[k]) for k in wanted)
    return same(kind, found, wanted)


def _equal(found: Any, wanted: Any) -> bool:
    """Spark gives an instant by the clock of this machine, without a zone."""
    if isinstance(found, datetime) and isinstance(wanted, datetime) and wanted.tzinfo is not None:
        return found.astimezone(UTC) == wanted
    return equal(found, wanted)


def keyed(spark: Any, seed: int, native: str = "auto") -> Iterator[str]:
    """A random pipeline with a key, an order and columns that come along."""
    r = random.Random(seed)
    events = rows(r, 120, calm=True)
    key = r.choice([["s"], ["i"], ["b"], ["d"], ["s", "b"], ["m"], ["u"], ["col"], []])
    dicts = [as_dict(e, (n * 7) % 120 if n % 7 else 120 + n) for n, e in enumerate(events)]
    for n, d in enumerate(dicts):
        d["id"] = (n * 77) % 1201
    order = r.choice([["id"], ["d", "id"], ["at", "id"], ["u", "id"]])
    order_of = sorted(range(len(dicts)), key=lambda n: tuple(dicts[n][c] for c in order))
    keys = [tuple(dicts[n][c] for c in key) for n in order_of] if key else None
    try:
        p, stream, log = drawn_pipeline(seed, [events[n] for n in order_of], keys)
    except (PellucidError, ArithmeticError, ValueError):
        return  # it is refused, or nobody can tell what comes out
    keep = ["note"]
    wanted = wanted_rows(stream, dicts, order_of, key, order, keep)
    out = p.spark(frame(spark, dicts), key=key or None, order=order, keep=keep, native=native)
    columns = out.columns
    found = [row.asDict(recursive=True) for row in out.collect()]
    names = list(wanted[0]) if wanted else None
    if names and [c for c in columns if c != "nth"] != names:
        yield f"columns {columns}, wanted {names}\n  {log}"
        return
    found = [{k: _cell(v) for k, v in row.items() if k != "nth"} for row in found]
    rest = list(wanted)
    if len(found) != len(wanted):
        yield f"seed {seed}: {len(found)} rows, wanted {len(wanted)}\n  {log}"
        return
    for row in found:
        at = next((n for n, w in enumerate(rest) if all(_equal(row[k], w[k]) for k in w)), None)
        if at is None:
            yield f"seed {seed}: {row} is not wanted; wanted e.g. {rest[0]}\n  {log}"
            return
        rest.pop(at)


def main() -> int:
    """A few jobs."""
    from pellucid.spark.session import session, stop_if_ours

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    spark = session()
    wrong = 0
    try:
        r = random.Random(options.seed)
        for n in range(options.jobs):
            texts = [drawn(r, failing=False) for _ in range(20)] + r.sample(PICKED, 30)
            for native in ("auto", "off") if n == 0 else ("auto",):
                for word in functions(spark, texts, options.seed + n, native):
                    wrong += 1
                    print(word, flush=True)
        for n in range(options.jobs * 3):
            try:
                for word in keyed(spark, options.seed + n):
                    wrong += 1
                    print(word, flush=True)
            except Exception as error:
                # an int that leaves 64 bits may come
                wrong += not any(word in str(error) for word in ("64 bits", "64-bit", "verflow"))
                print(f"seed {options.seed + n}: {type(error).__name__}: {str(error)[:600]}", flush=True)
    finally:
        stop_if_ours(spark)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
