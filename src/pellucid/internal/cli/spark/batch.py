"""A batch on Spark, for the command line: every output is written whole, then all of them appear."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from typing import Any

from pellucid.internal.base.files import sync, temporary_name
from pellucid.internal.cli.signals import Stopped, checkpoint, woken
from pellucid.internal.cli.spark.places import target
from pellucid.internal.cli.spark.run import Work
from pellucid.sinks.address import absolute, on_this_machine, sink_of
from pellucid.spark.files.csv import WRITTEN, as_cells
from pellucid.spark.files.json import json_text
from pellucid.spark.job import BAD


def batch(work: Work) -> None:
    """All that there is, once."""
    begin = time.monotonic()
    made = work.frame(partitions=work.options.partitions)
    if work.options.late == "keep" or work.places.bad:
        made = {name: made.filter(made["output"] == name).select(*_own(made, name)) for name in work.outputs()}
    frames = made if isinstance(made, dict) else {work.outputs()[0]: made}
    with contextlib.ExitStack() as stack:
        finish = []
        try:
            with woken(work.cancel):
                for name, path in work.places.outputs.items():
                    checkpoint()
                    rows, done = _write(work, frames[name], name, path, stack)
                    if work.places.bad and name == BAD:
                        work.report.bad = rows
                    else:
                        work.report.rows_out += rows
                    finish.append(done)
            checkpoint(last=True)
        except Stopped:
            work.leave()  # before the unfinished files go: its tasks would write more of them
            raise
        for done in finish:  # all of them appear, or none
            done()
    work.report.seconds = time.monotonic() - begin


def _write(work: Work, df: Any, name: str, path: str, stack: contextlib.ExitStack) -> tuple[int, Callable[[], None]]:
    """Write one output; how many rows, and what makes it appear."""
    kind, place = target(path, False, work.places.form_of(name), work.options.exists)
    if kind == "print":
        return work.print(df), lambda: None
    if kind == "sink":
        sink = sink_of(path)
        stack.callback(sink.close)
        return sink.write(df, f"batch-{uuid.uuid4().hex}", 0).rows, lambda: None
    counted, rows = _counted(df)
    local = on_this_machine(place)
    whole = absolute(place)
    written = temporary_name(whole) if local else place
    if local:
        stack.callback(shutil.rmtree, written, ignore_errors=True)
    if kind == "csv":
        counted = as_cells(counted)
    elif kind == "json" and any(f.dataType.typeName() in ("double", "float", "struct") for f in counted.schema.fields):
        counted, kind = counted.select(json_text(counted.schema).alias("value")), "text"
    writer = counted.write.mode("overwrite" if local or work.options.exists == "overwrite" else "errorifexists")
    for word, option in (WRITTEN if kind == "csv" else {}).items():
        writer = writer.option(word, option)
    writer.format(kind).save(written)
    if kind == "text" and local:
        _call_json(written)

    def appear() -> None:
        if local:
            _remove(whole)
            os.replace(written, whole)
            sync(os.path.dirname(whole))

    return rows(), appear


def _call_json(folder: str) -> None:
    """Name files of lines as Spark names those of JSON; Hadoop's checksums beside them, too."""
    for name in os.listdir(folder):
        for ending in (".txt", ".txt.crc"):
            if name.endswith(ending):
                os.rename(
                    os.path.join(folder, name),
                    os.path.join(folder, name.removesuffix(ending) + ending.replace("txt", "json")),
                )


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)


def _own(df: Any, name: str) -> list[Any]:
    """The columns of one output of a tagged DataFrame."""
    from pyspark.sql import functions as F

    at = df.columns.index("output")
    kept = [F.col(f"`{c}`") for c in df.columns[:at]] + [F.col("nth")] * (
        "nth" in df.columns and name not in ("late", BAD)
    )
    struct = type(df.schema[name].dataType).__name__ == "StructType"
    return [*kept, F.col(f"`{name}`.*") if struct else F.col(f"`{name}`")]


def _counted(df: Any) -> tuple[Any, Callable[[], int]]:
    """The DataFrame, and how many rows of it were written, without a second pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    return df.observe(seen, F.count(F.lit(1)).alias("rows")), lambda: int(seen.get["rows"])
