"""The sinks by the name that they had here first: they are `pellucid.sinks`."""

from pellucid.sinks import Sink, Written, delta, kafka, once, parquet, postgres, read, read_spark, split, sqlite

__all__ = ["Sink", "Written", "delta", "kafka", "once", "parquet", "postgres", "read", "read_spark", "split", "sqlite"]
