"""``pellucid run --on spark`` in a folder with pipelines, on the tests' own session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pellucid.internal.cli.main import cli

PIPELINES = """\
from pellucid import Stream, apply, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="total")


@pipeline
def changed(x: Stream[int]) -> Stream[int]:
    return x.trim(1, id="cut")


@pipeline
def doubled(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 2 * v)


@pipeline
def inverse(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: 10 // v, id="invert").cumulate(lambda t, v: t + v, start=0)


@pipeline
def words(w: Stream[str]) -> Stream[str]:
    return w.cumulate(lambda t, v: t + v, start=">")


@pipeline
def two(x: Stream[int]):
    return {"sums": x.cumulate(lambda t, v: t + v, start=0), "evens": x.filter(lambda v: v % 2 == 0)}


@pipeline
def difference(left: Stream[int], right: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a - b, left, right)
"""

EVENTS = "user,seq,x\nb,1,5\na,2,20\na,1,1\n"
TOTALS = [("a", 1, 1), ("a", 2, 21), ("b", 1, 5)]
KEYED = ["--key", "user", "--order", "seq"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    (tmp_path / "events.csv").write_text(EVENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Command = Callable[..., Result]


@pytest.fixture
def run(folder: Path) -> Command:
    """``pellucid run pipes.py:NAME --on spark …``."""

    def call(name: str, *args: Any, before: tuple[str, ...] = ()) -> Result:
        result = CliRunner().invoke(cli, [*before, "run", f"pipes.py:{name}", "--on", "spark", *map(str, args)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())
