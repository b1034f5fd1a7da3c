"""Keys and nested pipelines in every shape that we could think of: each as a pipeline that calls others, and written
out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pellucid import Pipeline, Stream, apply, merge, pipeline


def add(total: int, v: int) -> int:
    return total + v


def parity(v: int) -> int:
    return v % 2


def third(v: int) -> int:
    return v % 3


def size(v: int) -> str:
    return "big" if v > 5 else "small"


@pipeline
def running(x: Stream[int]) -> Stream[int]:
    return x.cumulate(add, start=0)


@pipeline
def keyed_inside(x: Stream[int]) -> Stream[int]:
    return x.key_by(parity).cumulate(add, start=0)


@pipeline
def two_levels(x: Stream[int]) -> Stream[int]:
    return running(x.trim(1))


@pipeline
def pairs(x: Stream[int], y: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: 100 * a + b, x, y)


@pipeline
def changes(x: Stream[int]) -> Stream[int]:
    return x.task(lambda last, v: (v, [] if v == last else [last, v]), initial=0)


@pipeline
def every(x: Stream[int], k: int = 2) -> Stream[int]:
    return x.decimate(k)


@pipeline
def smooth(x: Stream[int]) -> Stream[int]:
    return x.window(2, running)


@pipeline
def both(x: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    return x.trim(1), x.cumulate(add, start=0)


@pipeline
def as_it_is(x: Stream[int]) -> Stream[int]:
    return x


#: name: (what calls other pipelines, the same written out).  Both over x: int.
SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a key before": (lambda x: running(x.key_by(parity)), lambda x: x.key_by(parity).cumulate(add, start=0)),
    "a key before two levels": (
        lambda x: two_levels(x.key_by(parity)),
        lambda x: x.key_by(parity).trim(1).cumulate(add, start=0),
    ),
    "a key inside, used outside": (
        lambda x: keyed_inside(x).cumulate(add, start=0),
        lambda x: x.key_by(parity).cumulate(add, start=0).cumulate(add, start=0),
    ),
    "a key inside of a key": (
        lambda x: keyed_inside(x.key_by(third)).trim(1),
        lambda x: x.key_by(third).key_by(parity).cumulate(add, start=0).trim(1),
    ),
    "a key of another type inside": (
        lambda x: running(keyed_inside(x).key_by(size)),
        lambda x: x.key_by(parity).cumulate(add, start=0).key_by(size).cumulate(add, start=0),
    ),
    "a pipeline that does nothing": (
        lambda x: as_it_is(x.key_by(parity)).cumulate(add, start=0),
        lambda x: x.key_by(parity).cumulate(add, start=0),
    ),
    "a constant": (lambda x: every(x.key_by(parity), k=3), lambda x: x.key_by(parity).decimate(3)),
    "no constant": (lambda x: every(x.key_by(parity)), lambda x: x.key_by(parity).decimate(2)),
    "a task": (
        lambda x: changes(x.key_by(third)),
        lambda x: x.key_by(third).task(lambda last, v: (v, [] if v == last else [last, v]), initial=0),
    ),
    "the argument of a window": (
        lambda x: x.key_by(parity).window(2, running),
        lambda x: x.key_by(parity).window(2, lambda w: w.cumulate(add, start=0)),
    ),
    "a window inside": (
        lambda x: smooth(x.key_by(parity)),
        lambda x: x.key_by(parity).window(2, lambda w: w.cumulate(add, start=0)),
    ),
    "a key inside a window": (
        lambda x: x.window(3, keyed_inside).cumulate(add, start=0),
        lambda x: x.window(3, lambda w: w.key_by(parity).cumulate(add, start=0)).cumulate(add, start=0),
    ),
    "a key inside a window under a key": (
        lambda x: running(x.key_by(third).window(2, keyed_inside)),
        lambda x: x.key_by(third).window(2, lambda w: w.key_by(parity).cumulate(add, start=0)).cumulate(add, start=0),
    ),
    "a nested pipeline over a key inside a window": (
        lambda x: x.window(3, lambda w: running(w.key_by(parity))),
        lambda x: x.window(3, lambda w: w.key_by(parity).cumulate(add, start=0)),
    ),
    "a window in a window": (
        lambda x: x.key_by(parity).window(2, lambda w: w.window(2, running)),
        lambda x: x.key_by(parity).window(2, lambda w: w.window(2, lambda v: v.cumulate(add, start=0))),
    ),
    "two outputs": (
        lambda x: merge(*both(x.key_by(parity))),
        lambda x: merge(x.key_by(parity).trim(1), x.key_by(parity).cumulate(add, start=0)),
    ),
    "queues for each key": (
        lambda x: pairs(x.key_by(parity).trim(1), x.key_by(parity)),
        lambda x: apply(lambda a, b: 100 * a + b, x.key_by(parity).trim(1), x.key_by(parity)),
    ),
    "two keys of one type meet": (
        lambda x: pairs(x.key_by(parity), x.key_by(third)),
        lambda x: apply(lambda a, b: 100 * a + b, x.key_by(parity), x.key_by(third)),
    ),
    "two keys of one type merge": (
        lambda x: running(merge(x.key_by(parity), x.map(lambda v: -v).key_by(third))),
        lambda x: merge(x.key_by(parity), x.map(lambda v: -v).key_by(third)).cumulate(add, start=0),
    ),
    "beside a stream without a key": (
        lambda x: (running(x), running(x.key_by(parity))),
        lambda x: (x.cumulate(add, start=0), x.key_by(parity).cumulate(add, start=0)),
    ),
    "one pipeline under two keys": (
        lambda x: (running(x.key_by(size)), running(x.key_by(parity))),
        lambda x: (x.key_by(size).cumulate(add, start=0), x.key_by(parity).cumulate(add, start=0)),
    ),
}

EVENTS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]


def made(shape: str) -> tuple[Pipeline, Pipeline]:
    """Both forms of a shape."""
    nested, written = SHAPES[shape]
    return pipeline(nested, x=int), pipeline(written, x=int)
