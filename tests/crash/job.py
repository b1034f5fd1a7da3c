"""A program of its own: one pipeline as several streaming queries, one for each sink, all at once; made to be killed.

``python -m tests.crash.job CONFIG.json`` with::

    {"case": name of the pipeline, "source": folder, "work": folder, "master": …, "conf": {…}, "mode": "stream" |
    "batch",
     "sinks": {name: {"kind": …, "arguments": {…}, "store": "own" | "spark"}},
     "kill": [point, nth] or null, "broken": "state" or null}

Each query has ``work/NAME/checkpoint`` and ``work/NAME/state``.  ``work/ready`` appears once the queries have started.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pellucid import sinks
from pellucid.internal.base import faults
from pellucid.spark.session import session
from tests.crash import pipelines as broken
from tests.crash.pipelines import CASES, MISBEHAVING, Case

SMALL = {
    "spark.driver.memory": "700m",
    # A JVM that lives for seconds: most of its work would be its own optimising compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "tests.spark.warm_daemon",  # many workers are killed, and others come
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "64k",
}


def main(config: dict[str, Any]) -> None:
    work = Path(config["work"])
    spark = session(
        master=config["master"],
        conf={
            **SMALL,
            "spark.local.dir": str(work / "local"),
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            **config["conf"],
        },
    )
    case = {**CASES, **MISBEHAVING}[config["case"]]
    if config["mode"] == "batch":
        result = case.pipeline.spark(spark.read.parquet(config["source"]), **case.spark)
        (work / "ready").touch()
        result.write.mode("overwrite").parquet(str(work / "batch"))
        spark.stop()
        return
    from pyspark.sql.pandas.types import from_arrow_schema

    if config["kill"]:  # die, with everything in this process group
        point, nth = config["kill"]
        faults.arm("driver", 0, os.getpid(), text=f"{point}=group@{nth}")
    if config["broken"] == "state":
        broken.break_the_state()
    schema = from_arrow_schema(pq.read_schema(min(Path(config["source"]).glob("*.parquet"))))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(config["source"])
    queries = [started(stream, case, config, name) for name in config["sinks"]]
    (work / "ready").touch()
    for query in queries:
        query.awaitTermination()
    spark.stop()


def started(stream: Any, case: Case, config: dict[str, Any], name: str) -> Any:
    """The query that feeds one sink."""
    folder, wanted = Path(config["work"]) / name, config["sinks"][name]
    where = {"store": "spark"} if wanted.get("store") == "spark" else {"state": str(folder / "state")}
    writer = case.pipeline.spark(stream, buckets=2, **case.spark, **where).writeStream
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    if wanted["kind"] == "files":  # Spark's own file sink
        return writer.format("parquet").option("path", wanted["arguments"]["path"]).start()
    return writer.foreachBatch(sink_of(wanted["kind"], wanted["arguments"], folder)).start()


def sink_of(kind: str, arguments: dict[str, Any], folder: Path) -> Callable[[Any, int], Any]:
    """A sink of the library, the recipe for one's own function, or one that is wrong on purpose."""
    if kind == "append":
        return broken.append_to_sqlite(arguments["path"])
    if kind == "once":
        return sinks.once(append_lines(Path(arguments["path"])), ledger=str(folder / "ledger"))
    sink: Callable[[Any, int], Any] = getattr(sinks, kind)(**arguments)
    return sink


def append_lines(path: Path) -> Callable[[Any, int], None]:
    """A function of one's own that ignores ``again``: each row at least once."""

    def write(df: Any, batch: int) -> None:
        text = "".join(f"{line}\n" for line in df.toJSON().collect())
        with path.open("a") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())

    return write


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
