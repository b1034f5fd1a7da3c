"""The audit on Spark answers as the local one does: on right traces, faulty systems and tampered traces."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import audit
from pellucid.failures.audit.recorded import trace_table
from tests.failures.simulated import simulated
from tests.failures.tampered import TAMPERINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# All kinds of tampering in a few traces, since an audit on Spark takes seconds; the long test has them one by one, and
# `test_pieces` many more without Spark.
TOGETHER = (
    ("a message altered", "a duplicate commit", "a border without alignment", "another recovery", "a step moved"),
    ("a step dropped", "a commit too early", "a border before the snapshot"),
    ("an epoch skipped", "an unknown rule", "a second producer"),
    ("a snapshot before the last event", "a generation that goes back", "a hole"),
)


@pytest.fixture(autouse=True)
def small_plans(spark: SparkSession) -> Iterator[None]:
    """A trace of a hundred steps is not worth compiled code; and it shall come in many batches."""
    small = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    }
    before = {name: spark.conf.get(name) for name in small}
    for name, value in small.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def both(spark: SparkSession, trace: pa.Table, folder: Path, piece: int = 9) -> tuple[Any, Any]:
    from pellucid.spark.audit import audit_on_spark

    place = folder / "trace.parquet"
    pq.write_table(trace, place)
    return audit_on_spark(place, spark=spark, limit=1000, piece=piece), audit(trace, limit=1000)


def agree(there: Any, here: Any, name: str) -> None:
    assert there.holds == here.holds, name
    assert {v.check for v in there.violations} == {v.check for v in here.violations}, name
    for kind in {v.kind for v in (*there.violations, *here.violations)}:
        assert {v for v in there.violations if v.kind == kind} == {v for v in here.violations if v.kind == kind}, (
            f"{name}: {kind}"
        )
    assert there.counts == here.counts and there.explained == here.explained, name
    assert (there.steps, there.messages, there.tasks) == (here.steps, here.messages, here.tasks)


def test_a_right_run_with_crashes(spark: SparkSession, tmp_path: Path) -> None:
    there, here = both(spark, trace_table(simulated(7, crashes=3)), tmp_path)
    assert there.holds and there.engine == "spark" and sum(there.explained.discarded) > 0
    agree(there, here, "right")


def test_a_long_run(spark: SparkSession, tmp_path: Path) -> None:
    """One that is cut within its tasks, too, and whose rows come in no order."""
    from pellucid.spark.audit import audit_on_spark

    rows = simulated(5, crashes=4, epochs=25, events=12)
    pq.write_table(
        trace_table(random.Random(1).sample(rows, len(rows))), tmp_path / "trace.parquet", row_group_size=500
    )
    there = audit_on_spark(tmp_path, spark=spark, piece=100)
    here = audit(trace_table(rows))
    assert there.holds and here.steps > 500
    agree(there, here, "long")


def test_a_run_that_is_not_in_parquet_yet_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pellucid.spark.audit import audit_on_spark

    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "a.steps").write_bytes(b"")
    with pytest.raises(UsageError, match=r"its last steps are not in Parquet yet.*without Spark"):
        audit_on_spark(tmp_path, spark=spark)


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_a_tampered_run(spark: SparkSession, tmp_path: Path, names: tuple[str, ...]) -> None:
    """Several falsifications at once, so that one audit sees many kinds."""
    rows: list[Any] = copy.deepcopy(simulated(11, crashes=3))
    for name in names:
        changed = TAMPERINGS[name][0](rows, random.Random(1))
        assert changed is not None, name
        rows = changed
    there, here = both(spark, trace_table(rows), tmp_path)
    assert not there.holds and len({v.kind for v in there.violations}) >= len(names)
    agree(there, here, " and ".join(names))


def test_all_kinds_of_tampering_are_there() -> None:
    assert sorted(name for names in TOGETHER for name in names) == sorted(TAMPERINGS)


def test_what_is_no_trace_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pellucid.spark.audit import audit_on_spark

    with pytest.raises(DataError, match="no column 'generation'"):
        audit_on_spark(spark.createDataFrame([("a", 1)], "task string, epoch long"))
    with pytest.raises(UsageError, match="no such file or folder"):
        audit_on_spark(tmp_path / "nowhere", spark=spark)


@pytest.mark.long
@pytest.mark.parametrize("name", ["right", "unreplayable", "clock", "commit-first", *TAMPERINGS])
def test_every_kind_of_trace(spark: SparkSession, tmp_path: Path, name: str) -> None:
    done = 0
    for seed in range(40):
        if name in TAMPERINGS:
            rows = TAMPERINGS[name][0](copy.deepcopy(simulated(seed, crashes=3)), random.Random(seed))
        else:
            rows = simulated(seed, crashes=3, faults=frozenset({name} - {"right"}))
        if rows is None:
            continue
        agree(*both(spark, trace_table(rows), tmp_path), f"{name}, seed {seed}")
        done += 1
        if done == 3:
            break
