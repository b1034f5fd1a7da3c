"""A folder with a file of pipelines, and a way to run the command in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pellucid.internal.cli.main import cli

PIPELINES = """\
import enum
from dataclasses import dataclass
from typing import NamedTuple

from pellucid import Stream, merge, pipeline


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: float
    y: int


@dataclass(frozen=True)
class Tagged:
    name: str
    at: Point
    color: Color


def helper(v):
    return v


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def halves(x: Stream[float]) -> Stream[float]:
    return x.map(lambda v: v / 2)


@pipeline
def same(x: Stream[Tagged]) -> Stream[Tagged]:
    return x.map(lambda v: v)


@pipeline
def words(w: Stream[str]) -> Stream[str]:
    return w.trim(1)


@pipeline
def colors(c: Stream[Color]) -> Stream[Color]:
    return c.map(lambda v: v)


@pipeline
def flags(b: Stream[bool]) -> Stream[bool]:
    return b.map(lambda v: not v)


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return merge(a, b)


@pipeline
def two(a: Stream[int], b: Stream[int]):
    return {"sums": a + b, "firsts": a}


@pipeline
def inverse(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 10 // v, id="invert")


@pipeline
def points(x: Stream[Point], y: Stream[Point]) -> Stream[float]:
    return merge(x.map(lambda p: p.x), y.map(lambda p: -p.x))


@pipeline
def noisy(x: Stream[int]) -> Stream[int]:
    def loud(v: int) -> int:
        print("hello from the user", [v])
        return int(str(v))

    return x.map(loud)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pellucid(folder: Path) -> Callable[..., Result]:
    def call(*args: Any, **more: Any) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in args], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call
