"""Sinks that keep exactly-once: each micro-batch of a streaming query is in the target once, whatever crashes.

A sink is what ``foreachBatch`` takes::

    from pellucid import sinks

    query = df.writeStream.foreachBatch(sinks.parquet("out/sums")).option("checkpointLocation", "state/sums").start()

=============  ====================================================================================================
``parquet``    files by the executors, a manifest as the commit; ``read``, ``read_spark`` follow the manifest
``postgres``   rows by COPY and the batch's number in one transaction
``sqlite``     the same in a file
``delta``      a commit of Delta's log that carries the query and the batch
``kafka``      a transaction of Kafka that carries the batch's number
``once``       a function of one's own, with a ledger
``split``      several outputs, each to a sink of its own
``together``   several sinks that have a batch all, or none; ``read_together`` shows what all have
=============  ====================================================================================================

Every sink has ``guarantee`` (a sentence), ``write(data, query, batch_id)``, ``last(query)`` and ``read()``; and, for
who commits several together, ``stage``, ``prepare``, ``commit`` and ``abort`` (`pellucid.sinks.interface`).
``sink_of`` is the sink at an address.  One of one's own is a subclass of ``Sink``; runs with epochs take any as
an output.
"""

from __future__ import annotations

from pellucid.sinks.delta_sink import delta
from pellucid.sinks.group import together
from pellucid.sinks.interface import Sink, Staged, Written, sink_of
from pellucid.sinks.kafka_sink import kafka
from pellucid.sinks.once_sink import once, split
from pellucid.sinks.parquet_sink import parquet, read, read_spark
from pellucid.sinks.postgres_sink import postgres
from pellucid.sinks.rows import rows_of
from pellucid.sinks.sqlite_sink import sqlite
from pellucid.sinks.unresolved import read_together

__all__ = [
    "Sink",
    "Staged",
    "Written",
    "delta",
    "kafka",
    "once",
    "parquet",
    "postgres",
    "read",
    "read_spark",
    "read_together",
    "rows_of",
    "sink_of",
    "split",
    "sqlite",
    "together",
]
