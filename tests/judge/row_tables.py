"""A judge of pipelines over real tables: random ones, in every kind of table, with keys, an order, other columns."""

from __future__ import annotations

import random
from typing import Any

import pyarrow.dataset  # noqa: F401 - pa.dataset

from pellucid import PellucidError, StepError, UsageError
from tests.judge.row_frames import FRAMES, as_dict, equal, plain_rows, wanted_rows
from tests.judge.row_judge import Wrong, same
from tests.judge.row_streams import Blank, Both, Builder, drawn_pipeline, failing_pipeline, told_alone
from tests.judge.row_values import E, plain, rows

# of what may be missing null is a key
KEYS = [
    ["t"],
    ["j"],
    ["dn"],
    ["un"],
    ["c", "t"],
    ["j", "d"],
    ["an", "s"],
    [],
    [],
    ["s"],
    ["i"],
    ["b"],
    ["d"],
    ["at"],
    ["col"],
    ["s", "b"],
    ["i", "d"],
    ["u"],
]


def judge(seed: int) -> str:
    """One pipeline in several engines and tables."""
    r = random.Random(seed)
    calm = True
    events = rows(r, r.choice([0, 1, 5, 20, 40]), calm=calm)
    try:
        p, told, log = drawn_pipeline(seed, events)
    except PellucidError as error:
        return f"refused: {str(error)[:160]}"
    except (ArithmeticError, ValueError) as error:
        return f"no telling: {type(error).__name__}"
    words = "\n  ".join(log)
    try:
        found = p(events)
        _lists(found, told, "list", words)
        pushes = p.trace(events)
        by_push: list[list[Any]] = [[] for _ in events]
        for e in told:
            by_push[e.push].append(e.value)
        for n, (a, b) in enumerate(zip(pushes, by_push, strict=True)):
            if len(a) != len(b) or not all(same("", x, y) for x, y in zip(a, b, strict=True)):
                raise Wrong(f"trace, push {n}: {a}, wanted {b}\n  {words}")
        first = p.engine(mode="python")
        at = r.randrange(len(events) + 1)
        parts = list(first.push(events[:at]))
        second = p.engine(mode="python")
        second.load(first.save())
        parts += second.push(events[at:])
        _lists(parts, told, f"saved at {at} and loaded", words)
        _table(seed, r, events)
    except StepError as error:
        if "64" in str(error) or "verflow" in str(error):
            return "overflow"
        raise Wrong(f"fails: {error}\n  {words}") from error
    return "plain" if p.why_plain else "fine"


def judge_bad(seed: int) -> str:
    """Rows on which a step fails are set aside, and it is as if they had never been there."""
    events = rows(random.Random(seed), 14)
    good: list[int] = []
    bad: list[int] = []
    for n in range(len(events)):
        try:
            told_alone(seed, [events[k] for k in [*good, n]])
            good.append(n)
        except Exception:
            bad.append(n)
    try:
        p = failing_pipeline(seed)
    except PellucidError as error:
        return f"refused: {str(error)[:160]}"
    if p.why_plain and any("64 bits" in str(b) for b in bad):
        return "plain"
    found = p(events, bad="keep")
    letters = [(row if isinstance(row, dict) else row._asdict()) for row in found["bad"]]
    rows_bad = [row["row"] for row in letters]
    if rows_bad != bad:
        if any("64" in row["reason"] or "verflow" in row["reason"] for row in letters):
            return "overflow"
        raise Wrong(f"bad rows {rows_bad}, wanted {bad}: {[row['reason'][:200] for row in letters]}\n{_steps(seed)}")
    told = [e._replace(value=plain(e.value)) for e in told_alone(seed, [events[k] for k in good])]
    _lists(found["out"], told, "without the bad", _steps(seed))
    return f"{min(len(bad), 1)} bad"


def _steps(seed: int) -> str:
    b = Builder(random.Random(seed), failing=True)
    b.build(Both(Blank(), ()))
    return "\n  ".join(b.log)


def _lists(found: list[Any], told: list[Any], where: str, words: str) -> None:
    wanted = [e.value for e in told]
    if len(found) != len(wanted):
        raise Wrong(f"{where}: {len(found)} events, wanted {len(wanted)}: {found[:5]} … {wanted[:5]}\n  {words}")
    for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if not same("", a, b):
            raise Wrong(f"{where}, event {n}: {a!r}, wanted {b!r}\n  {words}")


def _table(seed: int, r: random.Random, events: list[E]) -> None:
    key = r.choice(KEYS)
    order = r.choice([[], ["id"], ["d", "id"], ["s", "id"], ["u", "m", "id"], ["at", "id"]])
    keep = r.choice([[], [], ["note"], ["t", "note"], ["p"], ["wn", "k"]])
    dicts = [as_dict(e, (n * 7) % max(1, len(events)) if order else n) for n, e in enumerate(events)]
    if order and len({d["id"] for d in dicts}) < len(dicts):
        for n, d in enumerate(dicts):
            d["id"] = -n
    order_of = (
        sorted(range(len(dicts)), key=lambda n: tuple(dicts[n][c] for c in order)) if order else list(range(len(dicts)))
    )
    ordered = [events[n] for n in order_of]
    keys = [tuple(dicts[n][c] for c in key) for n in order_of] if key else None
    p, told, log = drawn_pipeline(seed, ordered, keys)
    own = set(E._fields) if told and isinstance(told[0].value, E) else set()
    keep = [c for c in keep if c not in own and c not in key and c not in order]
    wanted = wanted_rows(told, dicts, order_of, key, order, keep)
    named: dict[str, Any] = {}
    if key:
        named["key"] = key[0] if len(key) == 1 else key
    if order:
        named["order"] = order[0] if len(order) == 1 else order
    if keep:
        named["keep"] = keep
    whole = [f for f in sorted(FRAMES) if not (f.startswith("pandas") and "p" in keep)]  # there y is a float already
    for name in r.sample(whole, 2):
        try:
            columns, found = plain_rows(p(FRAMES[name](dicts), **named))
        except UsageError as error:
            if "has a column of this name itself" in str(error) and not told:
                continue
            raise
        words = f"{name} {named}\n  " + "\n  ".join(log)
        if len(found) != len(wanted):
            raise Wrong(f"{len(found)} rows, wanted {len(wanted)}\n{words}")
        if wanted and columns != list(wanted[0]):
            raise Wrong(f"columns {columns}, wanted {list(wanted[0])}\n{words}")
        for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
            if not equal(a, b):
                diff = {c: (a[c], b[c]) for c in b if not equal(a.get(c), b[c])}
                raise Wrong(f"row {n}: {diff}\n{words}")
