"""A judge of functions over rows of real tables: plain Python in a loop against Pellucid, by its public names alone.

Each function is text.  It is run by Python over every row, with integers that end at 64 bits; Pellucid gets the same
text as ``x.map(f)`` and must give the same values of the same types, fail on the same rows and name the same error, or
refuse the function when the pipeline is built.  Anything else is printed with the row that shows it.
"""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import (
    ROUND_05UP,
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_UP,
    ROUND_UP,
    Decimal,
)
from typing import Any
from zoneinfo import ZoneInfo

from pellucid import PellucidError, StepError, pipeline
from tests.judge import row_values as values
from tests.judge.row_functions import Text, drawn
from tests.judge.row_values import CheckedMath, Color, E, Int64, Point, checked, judged_row, plain, rows

__all__ = ["Wrong", "compiled", "judge", "told"]

NAMES = {
    "E": E, "Color": Color, "Point": Point, "Cents": values.Cents, "Instant": values.Instant, "Decimal": Decimal,
    "math": math,
    "datetime": datetime, "date": date, "timedelta": timedelta, "UTC": UTC, "BERLIN": ZoneInfo("Europe/Berlin"),
    "KATHMANDU": ZoneInfo("Asia/Kathmandu"), "ROUND_HALF_UP": ROUND_HALF_UP, "ROUND_DOWN": ROUND_DOWN,
    "ROUND_UP": ROUND_UP,
    "ROUND_CEILING": ROUND_CEILING, "ROUND_FLOOR": ROUND_FLOOR, "ROUND_HALF_DOWN": ROUND_HALF_DOWN,
    "ROUND_05UP": ROUND_05UP,
    "DAYS": {0: 7, 1: 8, -1: 9, 60: 1}, "CODES": {"a": 1, "": 2, "ß": 3, "AA": 4, "12": 5}, "NAMES": {"AA": "American",
    "ß": "ss", "": "none"},
    "NAMES_N": {("a", 1): 5, ("", 0): 6}, "PLACES": (5, 7, 11), "RANK": {Color.RED: 1, Color.GREEN: 2, Color.BLUE: 3},
    "KNOWN": frozenset({"a", "AA", "", "🙂"}), "MAYBE": {"a": 1, None: 2, 1: 3},
}  # fmt: skip
HELPERS = """
def twice_n(n):
    if n > 1000 or n < -1000:
        return n
    return n + n

def twice_same(v):
    if v == v:
        return v
    return v
"""


class Wrong(Exception):  # noqa: N818 - what is said of an answer
    """Pellucid and the judge differ."""


ORACLE = {"int": Int64, "math": CheckedMath, "round": checked(round)}


def made(text: Text, *, oracle: bool = False) -> Callable[[Any], Any]:
    """The function of a text, as Pellucid gets it or with integers of 64 bits."""
    space: dict[str, Any] = dict(NAMES)
    if oracle and "isinstance" not in text.source:
        space.update(ORACLE)
    source = HELPERS + text.source
    name = f"<judged {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)
    return space["f"]


def declared(kind: str, value: Any) -> Any:
    """A result as it is declared: more places are an error, an instant is one in UTC, a naive time has no fold."""
    if kind.lower().startswith("cents") and isinstance(value, Decimal) and value != round(value, 2):
        raise ValueError(f"{value} has more than two places")
    if isinstance(value, datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{value} is no time in UTC") from None
    return value.replace(fold=0) if isinstance(value, datetime) else value


def told(text: Text, events: Sequence[E]) -> list[tuple[bool, Any]]:
    """What Python says of each row: true and the value, or false and the error."""
    f, answers = made(text, oracle=True), []
    for e in events:
        try:
            answers.append((True, declared(text.result, plain(f(judged_row(e))))))
        except RecursionError:
            raise
        except Exception as error:
            answers.append((False, error))
    return answers


def same(kind: str, found: Any, wanted: Any) -> bool:
    """The same value of the same type; a decimal whatever its places, a float that is declared for an int."""
    if wanted is None or found is None:
        return found is wanted
    if isinstance(wanted, tuple):
        kinds = _parts(kind, wanted)
        return isinstance(found, tuple) and len(found) == len(wanted) and all(map(same, kinds, found, wanted))
    if "float" in kind and isinstance(wanted, int):
        return found == wanted or found == float(wanted)
    if "cents" in kind.lower() or isinstance(wanted, Decimal):
        return isinstance(found, Decimal) and found == wanted and not (found == 0 and found.is_signed())
    if (kind == "int" and isinstance(wanted, bool)) or kind == "bool | None":
        return found == wanted
    if isinstance(wanted, datetime) and wanted.tzinfo is not None:
        return isinstance(found, datetime) and found.tzinfo is UTC and found == wanted.astimezone(UTC)
    return type(found) is type(wanted) and repr(found) == repr(wanted)


def _parts(kind: str, wanted: tuple[Any, ...]) -> list[str]:
    if isinstance(wanted, E | Point):
        return ["" for _ in wanted]
    return [""] * len(wanted)


def judge(text: Text, events: Sequence[E], mode: str = "python") -> str:
    """How the two agree, in a word, or `Wrong`."""
    answers = told(text, events)
    try:
        p = pipeline(lambda x: x.map(made(text)), x=E)
    except PellucidError as error:
        return f"refused: {type(error).__name__}: {_short(str(error))}"
    good = [n for n, (fine, _) in enumerate(answers) if fine]
    # what leaves 64 bits as a decimal or a span, and not in Python, is an error there: each row for itself
    try:
        out = p.engine(mode=mode).push([events[n] for n in good])
    except StepError as error:
        if not _overflow(error):
            raise Wrong(f"fails, Python does not: {error}\non {events[good[error.position]]}") from error
        out, kept = [], []
        for n in good:
            try:
                out += p([events[n]])
                kept.append(n)
            except StepError as one:
                if not _overflow(one):
                    raise Wrong(f"fails, Python does not: {one}\non {events[n]}") from one
        good = kept
    if len(out) != len(good):
        raise Wrong(f"{len(out)} events of {len(good)}")
    for n, found in zip(good, out, strict=True):
        if not same(text.result, found, answers[n][1]):
            raise Wrong(f"{found!r}, Python has {answers[n][1]!r}\non {events[n]}")
    bad = [n for n, (fine, _) in enumerate(answers) if not fine]
    for n in bad[:6]:
        try:
            out = p([events[n]])
        except StepError as error:
            if type(answers[n][1]).__name__ not in str(error) and not _overflow(error):
                raise Wrong(f"the error is {error}\nPython has {answers[n][1]!r}\non {events[n]}") from error
        else:
            if p.why_plain and isinstance(answers[n][1], OverflowError):
                continue  # a function that is called computes with Python's own integers
            raise Wrong(f"{out!r}, Python has {answers[n][1]!r}\non {events[n]}")
    return "plain" if p.why_plain else "compiled"


def _overflow(error: StepError) -> bool:
    return "64" in str(error) or "Overflow" in str(error) or "does not fit" in str(error)


def _short(text: str) -> str:
    return text.replace("\n", " ")[:300]


def compiled(texts: Sequence[Text], events: Sequence[E]) -> int:
    """Several functions in one compiled pipeline, on the rows on which none fails; how many rows."""
    answers = [told(t, events) for t in texts]
    good = [n for n in range(len(events)) if all(a[n][0] for a in answers)]
    p = pipeline(lambda x: {f"o{n}": x.map(made(t)) for n, t in enumerate(texts)}, x=E)
    out = p.engine(mode="numba").push([events[n] for n in good])
    for m, t in enumerate(texts):
        for n, found in zip(good, out[f"o{m}"], strict=True):
            if not same(t.result, found, answers[m][n][1]):
                raise Wrong(f"compiled: {found!r}, Python has {answers[m][n][1]!r}\non {events[n]}\n{t.source}")
    return len(good)


def is_compiled(text: Text) -> bool:
    """Whether Pellucid takes the function, and compiles it."""
    try:
        return pipeline(lambda x: x.map(made(text)), x=E).why_plain is None
    except PellucidError:
        return False


def drawn_case(seed: int) -> tuple[Text, list[E]]:
    """A function and rows."""
    r = random.Random(seed)
    text = drawn(r, failing=r.random() < 0.6)
    return text, rows(r, 40, calm=r.random() < 0.5)


def verdict(text: Text, events: Sequence[E]) -> str:
    """`judge`, with what is wrong in words."""
    try:
        return judge(text, events)
    except Wrong as wrong:
        return f"WRONG {wrong}"
    except Exception as error:
        return f"CRASH {type(error).__name__}: {error}"
