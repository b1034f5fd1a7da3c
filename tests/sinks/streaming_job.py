"""A program of its own: streaming queries from a folder of files to sinks, which kills itself where it is told to.

``python -m tests.sinks.streaming_job CONFIG.json`` with::

    {"source": folder, "work": folder, "sinks": {name: ["sqlite", {arguments}], …}, "kill": [name, point, nth] or null,
     "kafka": {options} (the source is a topic, by the reader in kafka_source.py, or by Spark's own with "format":
     "kafka")}

Each sink has a checkpoint of its own below ``work``; the queries run one after another until their input is used up.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pellucid import sinks
from pellucid.internal.base import faults
from pellucid.spark.session import session

SCHEMA = "id bigint, user string, x double, note string, at timestamp"


def main(config: dict[str, Any]) -> None:
    spark = session(
        master="local[2,4]",
        conf={"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", **config.get("conf", {})},
    )
    for name, (kind, arguments) in config["sinks"].items():
        sink = getattr(sinks, kind)(**arguments)
        running, point, nth = config["kill"] or ("", "", 0)
        faults.arm(name, 0, os.getpid(), text=f"{point}[{running}]=kill@{nth}" if running else "")
        started = (
            rows_of(spark, config)
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(Path(config["work"]) / name / "checkpoint"))
        )
        if config.get("kafka"):
            query = started.start()
            query.processAllAvailable()
            query.stop()
        else:
            started.trigger(availableNow=True).start().awaitTermination()
        sink.close()
    spark.stop()


def rows_of(spark: Any, config: dict[str, Any]) -> Any:
    """The streaming DataFrame: some of the rows of the files, or all records of the topic."""
    if not config.get("kafka"):
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(config["source"])
        return stream.where("x < 900").repartition(2, "user")
    options = dict(config["kafka"])
    form = options.pop("format", "kafka-for-tests")
    if form == "kafka-for-tests":
        from tests.sinks.kafka_source import KafkaForTests

        spark.dataSource.register(KafkaForTests)
    return spark.readStream.format(form).options(**options).load().select("key", "value")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
