"""Parquet files with a manifest: the executors write, the manifest commits."""
