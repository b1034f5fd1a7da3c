"""The snippets of docs/how-to-sinks.md run as they are printed, except Kafka's, which needs a broker."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sinks.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to-sinks.md"
ROWS = [("ada", 3), ("bob", 5), ("ada", 40)]


def snippets() -> list[str]:
    return [
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if ">>>" not in block
    ]


def streaming(spark: SparkSession, folder: Path) -> Any:
    spark.createDataFrame(ROWS, "user string, sum bigint").write.json(str(folder / "in"))
    return spark.readStream.schema("user string, sum bigint").json(str(folder / "in"))


def test_snippets_run(spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"spark": spark, "df": streaming(spark, tmp_path), "dsn": postgres.database()}
    for block in snippets():
        if "sinks.kafka" in block:
            continue
        # Spark resolves a relative checkpoint against the JVM's own folder, which is not the test's.
        exec(compile(block.replace('"state/', f'"{tmp_path}/state/'), PAGE.name, "exec"), space)
        sink = space["sink"]
        if sink.kind not in ("once", "split"):
            assert sorted((row["user"], row["sum"]) for row in sink.read().to_pylist()) == sorted(ROWS), block
    assert space["frame"].count() == space["table"].num_rows == 3
    assert space["done"] == [(0, 3)] and len(list(Path("lines").glob("*/0.lines"))) == 1
    with closing(sqlite3.connect("own.db")) as db:
        assert dict(db.execute("SELECT user, sum FROM totals")) == {"ada": 43, "bob": 5}
    split = space["sink"].read()
    assert sorted(split["small"]["small"].to_pylist()) == [3, 5] and split["large"].to_pylist() == [
        {"user": "ada", "large": 40}
    ]


def test_each_guarantee_is_on_the_page() -> None:
    from pellucid import sinks

    page = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8").replace("`", "")).lower()
    page = re.sub(r" ?\([^)]*\)", "", page)  # what is in brackets explains
    for sink in (
        sinks.parquet("x"),
        sinks.postgres("", "t"),
        sinks.sqlite("x", "t"),
        sinks.delta("x"),
        sinks.kafka("h", "t"),
        sinks.once(lambda df, batch_id: None, ledger="x"),
        sinks.split(sinks={"a": None}),
    ):
        assert "guarantee.** " + sink.guarantee.replace("()", "").lower() in page, sink.kind
