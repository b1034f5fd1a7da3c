"""Random cases held against the rules: a call on all rows, the trace row by row, an engine with batches, states that
are saved and loaded, and sources that are declared idle.

``python -m tests.judge.time --minutes 5 --seed 1`` goes on for as long as it is told; a case that differs is printed as
a script that stands alone, with what the rules say.
"""

from __future__ import annotations

import argparse
import math
import random
import time
import traceback
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pellucid import silent
from tests.judge.time.cases import Case, as_rows, draw_case
from tests.judge.time.rules import Early, Late, Node, Run, Sessions

__all__ = ["Fault", "judge", "main", "plain"]

Out = dict[str, list[Any]]
LATE = "all that was late"
MODE = "auto"  # of engines: as in `Pipeline.engine`


class Fault(AssertionError):  # noqa: N818 - an answer
    """What a case does, and what it should."""


class Batch(NamedTuple):
    """Who is declared idle, then rows that come together; then perhaps the state is saved and loaded."""

    rows: list[tuple[str, int, Any]]
    idle: tuple[str, ...] = ()
    saved: bool = False


def plain(value: Any) -> Any:
    """Any event as tuples, whole numbers and texts, so that equal means equal: NaN is itself, and -0.0 is not 0.0."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC if value.tzinfo else None)) // timedelta(microseconds=1)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, (tuple, list)):
        if len(value) >= 3 and _gone(value):
            return None  # a record that is missing: each field is
        return tuple(plain(part) for part in value)
    return value


def _gone(value: Any) -> bool:
    return value is None or (isinstance(value, tuple) and all(_gone(part) for part in value))


def wanted(case: Case, batches: list[Batch], keyed: bool = False) -> list[Out | None]:
    """What the rules say comes out of each batch and of the end; None for a batch that fails, which is the last."""
    run = Run(case.nodes)
    said: list[Out | None] = []
    for batch in [*batches, None]:
        if batch is None:
            out = run.end()
        else:
            rows = as_rows(batch.rows, keyed)
            idle = [case.sources[name] for name in batch.idle]
            out = run.batch({case.sources[name]: its for name, its in rows.items()}, idle)
        if any(out[node][1] and how == "fail" for node, how in case.policies.items()):
            return [*said, None]
        found: Out = {LATE: [late.time for _, its in out.values() for late in its]}
        for name, (node, late, _) in case.outputs.items():
            rows_out, its_late = out[node]
            found[name] = [_late(node, one) for one in its_late] if late else [plain(row.value) for row in rows_out]
        said.append(found)
    return said


def _late(node: Node, late: Late) -> Any:
    clock = int(late.clock) if math.isfinite(late.clock) else late.clock
    value = {None: late.value, 0: (late.value, None), 1: (None, late.value)}[late.side]
    return plain((value, late.time, clock, *([] if isinstance(node, Sessions) else [late.start, late.end])))


def came(case: Case, out: Any) -> Out:
    """What the product put out, in the same form."""
    if not isinstance(out, dict):
        (name,) = case.outputs
        out = {name: out}
    found: Out = {}
    for name, (node, late, _) in case.outputs.items():
        events = [plain(event) for event in out[name]]
        found[name] = [event[:3] for event in events] if late and isinstance(node, Sessions) else events
    return found


def pushes(case: Case, rows: list[tuple[str, int, Any]]) -> list[dict[str, Any]]:
    """Rows as pushes: one each, or (if that is the order in which they come) one of several sources together."""
    names = list(case.sources)
    found: list[dict[str, Any]] = []
    for source, _, event in rows:
        if case.together and found and names.index(source) > names.index(next(reversed(found[-1]))):
            found[-1][source] = event
        else:
            found.append({source: event})
    return found


def columns(case: Case, rows: list[tuple[str, int, Any]]) -> dict[str, list[Any]]:
    """The source that an event comes from has it, the others are silent in that push."""
    return {name: [push.get(name, silent) for push in pushes(case, rows)] for name in case.sources}


def compare(case: Case, what: str, found: Out, said: Out, ordered: bool = True) -> None:
    for name, (_, late, order) in case.outputs.items():
        if Counter(found[name]) != Counter(said[name]):
            more = list((Counter(found[name]) - Counter(said[name])).elements())
            less = list((Counter(said[name]) - Counter(found[name])).elements())
            raise Fault(f"{what}: {name}: came but should not: {more}; should come and did not: {less}")
        if order and ordered and not late and found[name] != said[name]:
            raise Fault(f"{what}: {name}: in another order: {found[name]}, should be {said[name]}")


def late_is_told(error: BaseException) -> bool:
    return type(error).__name__ == "LateError"


def judge(case: Case, draw: random.Random, kind: str | None = None, large: bool = False) -> str:
    """One way of running one case on rows of its own; what was tried, or a `Fault`."""
    rows = case.rows(large)
    kind = kind or draw.choice(["call", "trace", "engine", "engine", "keyed"])
    if kind == "keyed" and (case.together or any("key_by" in line for line in case.lines)):
        kind = "engine"
    if kind == "call":
        batches = [Batch(rows)]
    elif kind == "trace":
        batches = [Batch([row]) for row in rows]
    else:
        cuts = sorted(
            draw.randint(0, len(rows)) for _ in range(draw.choice([5, 50, 300] if large else [0, 1, 2, 4, 8]))
        )
        chunks = [rows[i:j] for i, j in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        quiet = 0.2 if draw.random() < 0.3 else 0
        batches = [
            Batch(chunk, tuple(s for s in case.sources if draw.random() < quiet), draw.random() < 0.3)
            for chunk in chunks
        ]
    said = wanted(draw_case(case.seed, build=False), batches, kind == "keyed")  # rules that remember no other run
    try:
        RUN[kind](case, batches, said)
    except Fault as fault:
        raise Fault(f"{fault}\n{script(case, kind, batches, said)}") from None
    except Exception as error:
        raise Fault(f"{kind}: {type(error).__name__}: {error}\n{script(case, kind, batches, said)}") from error
    return kind


def _call(case: Case, batches: list[Batch], said: list[Out | None]) -> None:
    whole: Out = {name: [event for out in said if out for event in out[name]] for name in case.outputs}
    whole |= {name: [] for name, (node, _, _) in case.outputs.items() if isinstance(node, Early)}  # all is complete
    found = case.pipeline(**columns(case, batches[0].rows))
    compare(case, "call", came(case, found), whole, ordered=False)


def _trace(case: Case, batches: list[Batch], said: list[Out | None]) -> None:
    data = columns(case, [row for batch in batches for row in batch.rows])
    try:
        found = case.pipeline.trace(**data)
    except Exception as error:
        if None not in said or not late_is_told(error):
            raise
        return
    if None in said:
        raise Fault(f"trace: no LateError, though row {said.index(None)} is late")
    each = pushes(case, [row for batch in batches for row in batch.rows])
    if len(found) != len(each) + 1:
        raise Fault(f"trace: {len(found)} entries for {len(each)} pushes and the end")
    rest = iter(said)
    for i, (out, push) in enumerate(zip(found, [*each, {"the end": None}], strict=True)):
        parts = [part for part in (next(rest) for _ in push) if part is not None]
        want = {name: [event for part in parts for event in part[name]] for name in case.outputs}
        compare(case, f"trace, entry {i}", came(case, out), want)


def _keyed(case: Case, batches: list[Batch], said: list[Out | None]) -> None:
    """Each push under a key that comes with it."""
    _engine(case, batches, said, key=str)


def _engine(case: Case, batches: list[Batch], said: list[Out | None], key: Any = None) -> None:
    engine = case.pipeline.engine(mode=MODE, key=key)
    late = 0
    for i, want in enumerate(said):
        try:
            if i < len(batches):
                for name in batches[i].idle:
                    engine.idle(name)
                out = came(case, engine.push(**columns(case, batches[i].rows), **keys(batches[i], key)))
            else:
                out = came(case, engine.finish())
        except Exception as error:
            if want is None and late_is_told(error):
                return
            raise
        if want is None:
            raise Fault(f"engine: no LateError in batch {i}")
        compare(case, f"engine, batch {i}", out, want)
        late += len(want[LATE])
        if i < len(batches) and batches[i].saved:
            again = case.pipeline.engine(mode=MODE, key=key)
            again.load(engine.save())
            engine = again
    if sum(engine.late.values()) != late:
        raise Fault(f"engine: counted {engine.late} late rows, there were {late}")


def keys(batch: Batch, key: Any) -> dict[str, list[str]]:
    return {} if key is None else {"key": [event.k for _, _, event in batch.rows]}


RUN = {"call": _call, "trace": _trace, "engine": _engine, "keyed": _keyed}


def script(case: Case, kind: str, batches: list[Batch], said: list[Out | None]) -> str:
    """The same to be run by hand."""
    lines = [f"# case {case.seed}", case.text]
    if kind in ("engine", "keyed"):
        made = "p.engine(key=str)" if kind == "keyed" else "p.engine()"
        lines.append(f"e = {made}")
        for batch in batches:
            lines += [f'e.idle("{name}")' for name in batch.idle]
            under = f", key={keys(batch, str)['key']}" if kind == "keyed" else ""
            lines.append(f"print(e.push({_written(case, batch.rows)}{under}))")
            if batch.saved:
                lines.append(f"saved = e.save(); e = {made}; e.load(saved)")
        lines.append("print(e.finish())")
    else:
        data = _written(case, [row for batch in batches for row in batch.rows])
        lines.append(f"print(p{'.trace' if kind == 'trace' else ''}({data}))")
    lines += ["# the rules say, batch by batch and at the end (None: LateError):", *(f"# {out}" for out in said)]
    return "\n".join(lines)


def _written(case: Case, rows: list[tuple[str, int, Any]]) -> str:
    """Rows as arguments of a call."""
    texts = []
    for name, events in columns(case, rows).items():
        said = ["silent" if event is silent else repr(event) for event in events]
        texts.append(
            f"{name}=[{', '.join(said)}]".replace("datetime.date", "date").replace("datetime.timezone.utc", "UTC")
        )
    return ", ".join(texts)


def main() -> int:
    """Until the minutes are over."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge.time", description="The judge of event time.")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=3, help="stop after so many")
    parser.add_argument("--runs", type=int, default=4, help="of each case")
    parser.add_argument("--way", choices=[*RUN], help="only this one")
    parser.add_argument("--mode", default=MODE, help="of engines: auto, numba or python")
    parser.add_argument("--large", action="store_true", help="hundreds and thousands of rows")
    given = parser.parse_args()
    globals()["MODE"] = given.mode
    until, number, tried, faults = time.monotonic() + given.minutes * 60, 0, Counter[str](), 0
    while time.monotonic() < until and faults < given.faults:
        seed = f"{given.seed}.{number}"
        number += 1
        draw = random.Random(f"runs of {seed}")
        try:
            case = draw_case(seed)
            for _ in range(given.runs):
                tried[judge(case, draw, given.way, given.large)] += 1
        except Fault as fault:
            faults += 1
            print(f"\n{'-' * 100}\n{fault}")
        except Exception:
            faults += 1
            print(f"\n{'-' * 100}\ncase {seed} was not built")
            traceback.print_exc(limit=-4)
    print(f"{number} cases, seed {given.seed}: {dict(tried)}, {faults} faults")
    return 1 if faults else 0
