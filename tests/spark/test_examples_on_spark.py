"""Every pipeline of the examples: interpreter = Spark batch = Spark streaming, with keys."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from pellucid import Pipeline
from pellucid.spark import session
from tests.spark.test_equal import collected, frames, outcome, streamed_outcome
from tests.spark.worlds import rows_of
from tests.strategies import EVENTS, Seeded, make_input
from tests.test_examples import ON_SPARK, right_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[2] / "examples"


def pipelines() -> list[Any]:
    out = []
    for file in [*sorted(FOLDER.glob("failure_*.py")), *sorted(FOLDER.glob("stream_*.py"))]:
        name = f"example_{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        cloudpickle.register_pickle_by_value(module)  # workers cannot import it, as `pellucid run` has it
        for label, value in vars(module).items():
            known = isinstance(value, Pipeline) and value.__module__ == name
            if known and all(value.graph.nodes[i].type in EVENTS for i in value.graph.sources):
                out.append(pytest.param(value, id=f"{file.stem}:{label}"))
    return out


ALL = pipelines()


def test_those_that_start_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the session that is there; tests/test_examples.py runs them as programs, which is long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(session, "_ours", None)  # somebody else's: they leave it alone
    for name in ON_SPARK:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capfd.readouterr()
    assert not said.err
    right_on_spark(said.out)
    assert spark.range(3).count() == 3


def test_there_are_examples() -> None:
    assert len(ALL) >= 10


@pytest.mark.parametrize("p", ALL)
def test_batch(spark: SparkSession, p: Pipeline) -> None:
    c = Seeded(len(p.graph.nodes))
    rows = rows_of(make_input(c, p, 60), [1, 2, 3], c.rng)
    made = p.spark(*frames(spark, p, rows, c.rng), key="user", order="seq", tag="output")
    assert collected(p, made.collect) == outcome(p, rows)


@pytest.mark.parametrize(
    "p", [pytest.param(*p.values, id=p.id, marks=() if at % 9 == 0 else pytest.mark.long) for at, p in enumerate(ALL)]
)
def test_streaming(spark: SparkSession, p: Pipeline, tmp_path: Path) -> None:
    c = Seeded(len(p.graph.nodes))
    rows = rows_of(make_input(c, p, 60), [1, 2, 3], c.rng)
    assert streamed_outcome(spark, p, rows, c.rng, tmp_path, "own") == outcome(p, rows)
