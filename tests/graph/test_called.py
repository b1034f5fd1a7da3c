"""Steps that are called wrongly: what to write is said, and no plain TypeError comes out; one's own stay one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from pellucid import PipelineError, UsageError, join, pipeline

H = timedelta(hours=1)


class Paid(NamedTuple):
    when: datetime
    user: str
    cents: int


def count(w: Any) -> Any:
    return w.cumulate(lambda n, e: n + 1, start=0)


def _own(a: int) -> int:
    return a


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "lateness on a window": (
        lambda x: x.at("when").tumbling(H, count, lateness=H),
        "tumbling (HERE): there is no lateness= here: write tumbling(size, sub), with origin=, tz=, late=, "
        "allowed_lateness=, early=, id=; how late events may come is said where their times are, as in x.at('when', "
        "lateness=…)",
    ),
    "no sub": (
        lambda x: x.at("when").tumbling(H),
        "tumbling (HERE): sub is missing: write tumbling(size, sub), as in x.tumbling(timedelta(hours=1), total) with "
        "a pipeline total",
    ),
    "two missing": (
        lambda x: x.at("when").sliding(H),
        "sliding (HERE): every and sub are missing: write sliding(size, every, sub), as in ",
    ),
    "by keyword only": (
        lambda x: x.at("when").dedup(by="user"),
        "dedup (HERE): within is missing: write dedup(within=…), as in x.dedup(by='order', within=timedelta(days=1))",
    ),
    "too many": (
        lambda x: x.at("when", H),
        "at (HERE): takes 2 positional arguments but 3 were given: write at(f), as in x.at('when', "
        "lateness=timedelta(minutes=5)); the others by their names: lateness=, idle=, to=, id=",
    ),
    "misspelled": (
        lambda x: x.at("when").tumbling(H, count, allowed_latenes=H),
        "tumbling (HERE): there is no allowed_latenes= here: write tumbling(size, sub), with origin=, tz=, late=, "
        "allowed_lateness=, early=, id=; did you mean 'allowed_lateness'?",
    ),
    "in a sub-pipeline": (
        lambda x: x.at("when").tumbling(H, lambda w: w.cumulate()),
        "cumulate (HERE): f and start are missing: write cumulate(f, start), as in ",
    ),
    "a function": (
        lambda x: join(x.at("when")),  # type: ignore[call-arg]
        "join (HERE): b is missing: write join(a, b)",
    ),
}


@pytest.mark.parametrize("which", list(WRONG))
def test_what_to_write(which: str) -> None:
    f, message = WRONG[which]
    with pytest.raises(UsageError) as refused:
        pipeline(f, x=Paid)
    assert re.sub(r"test_called\.py:\d+", "HERE", str(refused.value)).startswith(message), str(refused.value)
    assert refused.value.__cause__ is None


def test_ones_own_mistakes_are_ones_own() -> None:
    with pytest.raises(TypeError, match=r"_own\(\) missing 1 required positional argument"):
        pipeline(lambda x: x.map(lambda e: e.cents) if _own() else x, x=Paid)  # type: ignore[call-arg]

    def at(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match="unexpected keyword argument 'lateness'"):
        pipeline(lambda x: at(x, lateness=H), x=Paid)  # type: ignore[call-arg]


def test_lengths_are_said_as_lengths() -> None:
    second = timedelta(seconds=1)
    for f, message in (
        (lambda x: x.at("when", lateness=-second), "lateness must be at least 0, found -1 s"),
        (lambda x: x.at("when").tumbling(-90 * second, count), "size must be positive, found -1 min 30 s"),
        (lambda x: x.at("when").session(0 * second, count), "gap must be positive, found 0 s"),
        (
            lambda x: join(x.at("when"), x.at("when"), within=(second, -second)),
            "within=(low, high): low must be at most high, found (1 s, -1 s)",
        ),
    ):
        with pytest.raises(PipelineError) as refused:
            pipeline(f, x=Paid)
        assert str(refused.value).endswith(message)


def test_keys_by_name() -> None:
    rows = ((1, "a", 3), (2, "b", 3), (3, "a", 4), (4, "a", 3))
    paid = [Paid(datetime(2024, 5, day), user, cents) for day, user, cents in rows]

    def by(key: Any) -> Any:
        return pipeline(lambda x: count(x.key_by(key)), x=Paid)(paid)

    assert by("user") == by(lambda e: e.user) == [1, 1, 2, 3]
    assert by(["user", "cents"]) == by(lambda e: (e.user, e.cents)) == [1, 1, 1, 2]
    assert by(["user"]) == by("user")
    for key, message in (
        ("usr", "have no field 'usr': its events have when, user, cents; did you mean 'user'?"),
        (["user", 3], "the events of this stream have no field 3: its events have when, user, cents"),
        ([], "no field is named: name one, or give a function"),
    ):
        with pytest.raises(PipelineError) as refused:
            by(key)
        assert str(refused.value).endswith(message)
    with pytest.raises(PipelineError, match="no field 'user': its events are int"):
        pipeline(lambda x: x.key_by("user"), x=int)


def test_keys_by_name_in_checks() -> None:
    from pellucid import check

    class Small(NamedTuple):
        user: bool
        cents: bool

    named = pipeline(lambda x: x.key_by("user").trim(1), x=Small)
    other = pipeline(lambda x: x.key_by(lambda e: e.cents).trim(1), x=Small)
    assert check.equivalent(named, other).refuted
