"""Pipelines, or their beginnings, as Spark's own expressions."""
