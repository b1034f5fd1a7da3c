"""A judge of verdicts about pipelines over rows: what is proved is tried on thousands of rows in plain Python, what is
refuted is replayed there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from pellucid import PellucidError, check, pipeline
from tests.judge.row_functions import Draw
from tests.judge.row_judge import Wrong
from tests.judge.row_streams import FOLDS, _value, function
from tests.judge.row_values import E, judged_row, plain, rows

KINDS = ["int", "bool", "datetime", "instant", "date", "timedelta", "cents", "color"]
_NOT = re.compile(
    r"e\.[sfgt]\b|float|str|len\(|find|count\(|CODES|isnan|isinf|isfinite|"
    r"'[^']*'\.|/ |\.total_sec|timestamp|astimezone|NAMES|KNOWN|MAYBE|isdigit|sqrt|ord\(|seconds=\("
)
SWAPS = {
    "<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "!=", "+": "-", "-": "+", "*": "+", "and": "or", "or": "and",
    "is None": "is not None",
    "is not None": "is None", "hours": "minutes", "days": "hours", "True": "False", "min": "max", "max": "min",
    "//": "%", "60": "61", "0": "1", "year": "month",
    "ROUND_HALF_UP": "ROUND_HALF_DOWN", "minute=0, ": "", "weekday()": "isoweekday()", "abs": "", "e.un": "e.u",
}  # fmt: skip


def plain_text(r: random.Random, kind: str, depth: int) -> str:
    """An expression that a solver may follow."""
    while True:
        text = Draw(r, failing=r.random() < 0.3).of(kind, depth)
        if not _NOT.search(text) and len(text) < 220:
            return text


def changed(r: random.Random, text: str) -> str:
    """A text with one thing changed, or with nothing changed but its form."""
    way = r.random()
    if way < 0.25:
        return f"({text} if not (not e.b) else {text})"
    if way < 0.35:
        return f"(lambda v: v)({text})"
    places = [
        (m.start(), a) for a in SWAPS for m in re.finditer(re.escape(a) if not a.isalnum() else rf"\b{a}\b", text)
    ]
    for _ in range(10):
        if not places:
            break
        at, old = r.choice(places)
        new = text[:at] + SWAPS[old] + text[at + len(old) :]
        try:
            compile(new, "changed", "eval")
        except SyntaxError:
            continue
        return new
    return text


def outcome(step: Callable[[E], list[Any]], e: E) -> Any:
    """What a push puts out, or that it fails."""
    try:
        return [plain(v) for v in step(judged_row(e))]
    except Exception:
        return "failed"


class Plain:
    """A pipeline of one function, or of a filter and a fold, in plain Python."""

    def __init__(self, f: str | None, where: str | None = None, fold: tuple[str, str] | None = None) -> None:
        self.f = function(f"lambda e: {f}", oracle=True) if f else None
        self.where = function(f"lambda e: {where}", oracle=True) if where else None
        self.fold = function(fold[1], oracle=True) if fold else None
        self.start = _value(fold[0]) if fold else None

    def run(self, events: list[E | None]) -> list[Any]:
        """What each push puts out; after a failure nothing."""
        state, failed, out = self.start, False, []
        for e in events:
            if failed or e is None:
                out.append("failed" if failed else [])
                continue
            try:
                seen = judged_row(e)
                if self.where is not None and not self.where(seen):
                    out.append([])
                    continue
                if self.fold is not None:
                    state = self.fold(state, seen)
                    out.append([plain(state)])
                else:
                    assert self.f is not None
                    out.append([plain(self.f(seen))])
            except Exception:
                failed = True
                out.append("failed")
        return out


def built(f: str | None, where: str | None = None, fold: tuple[str, str] | None = None) -> Any:
    """The same with Pellucid."""

    def body(x: Any) -> Any:
        if where:
            x = x.filter(function(f"lambda e: {where}"))
        if fold:
            return x.cumulate(function(fold[1]), start=_value(fold[0], plain=True))
        return x.map(function(f"lambda e: {f}"))

    return pipeline(body, x=E)


def judge(seed: int, timeout: float = 5.0) -> str:
    """One question."""
    r = random.Random(seed)
    where = plain_text(r, "bool", 2) if r.random() < 0.4 else None
    implies = r.random() < 0.15
    if r.random() < 0.3:
        start, text, kind = r.choice([f for f in FOLDS if not _NOT.search(f[1])])
        one = (None, where, (start, text))
        other_text = text
        if r.random() < 0.6:
            head, _, tail = text.partition(":")
            other_text = f"{head}: {changed(r, tail.strip())}"
        two = (None, changed(r, where) if where and r.random() < 0.5 else where, (start, other_text))
        implies = implies and kind == "bool"
    else:
        kind = "bool" if implies else r.choice(KINDS)
        f = plain_text(r, kind, r.choice([1, 2, 3]))
        one, two = (f, where, None), (changed(r, f), changed(r, where) if where and r.random() < 0.3 else where, None)
    words = f"{one}\n{two}"
    try:
        a, b = built(*one), built(*two)
    except PellucidError as error:
        return f"refused: {str(error)[:120]}"
    try:
        verdict = (check.implies if implies else check.equivalent)(a, b, timeout=timeout)
    except PellucidError as error:
        return f"refused: {str(error)[:160]}"
    p, q = Plain(*one), Plain(*two)
    if verdict.proved:
        for n in range(400):
            events = rows(random.Random(seed * 1000 + n), 6, calm=n % 2 == 0)
            if bad := differs(p.run(events), q.run(events), implies):
                raise Wrong(f"proved {'implies' if implies else ''}, but push {bad[0]} of {events}: {bad[1:]}\n{words}")
        return "proved"
    if verdict.refuted:
        events = [step.get("x") for step in verdict.counterexample.inputs]
        if not differs(p.run(events), q.run(events), implies):
            seen = [_engine(a, events), _engine(b, events)]
            if seen[0] == seen[1] or not any("failed" in s for s in seen):
                raise Wrong(f"refuted by {events}: {p.run(events)} and {q.run(events)}\n{seen}\n{words}")
            return "refuted by 64 bits"
        str(verdict)
        return "refuted"
    return f"unknown: {str(verdict.notes)[:150]}"


def _engine(p: Any, events: list[Any]) -> Any:
    out = []
    for n in range(len(events)):
        try:
            out = p.trace([e for e in events[: n + 1] if e is not None])
        except PellucidError:
            return [*out, "failed"]
    return out


def differs(one: list[Any], two: list[Any], implies: bool) -> tuple[Any, ...] | None:
    """The first push in which two runs are not as they should be."""
    for n, (a, b) in enumerate(zip(one, two, strict=True)):
        if (a == "failed") != (b == "failed") or len(a) != len(b):
            return n, a, b
        if a == "failed":
            return None
        if (
            any(x and not y for x, y in zip(a, b, strict=True))
            if implies
            else list(map(_value_of, a)) != list(map(_value_of, b))
        ):
            return n, a, b
    return None


def _value_of(v: Any) -> Any:
    return (type(v).__name__, v)
