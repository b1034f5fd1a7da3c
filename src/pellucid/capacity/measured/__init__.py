"""Measured jobs: what a run of Spark, of Flink or of the local engine tells of itself, as one kind of data.

`read_jobs` takes a file, `of_query` a Spark query that runs; `scale` says how many workers each step needs, `curves`
how long a queue can get for the bursts that were seen.
"""

from pellucid.capacity.measured.batches import BatchCost, batch_cost
from pellucid.capacity.measured.curves import Curve, arrival_curve
from pellucid.capacity.measured.job import Job, MeasuredStep, Sample
from pellucid.capacity.measured.read import jobs_of, read_jobs
from pellucid.capacity.measured.scale import Scaling, scale
from pellucid.capacity.measured.spark import of_progress, of_query

__all__ = [
    "BatchCost",
    "Curve",
    "Job",
    "MeasuredStep",
    "Sample",
    "Scaling",
    "arrival_curve",
    "batch_cost",
    "jobs_of",
    "of_progress",
    "of_query",
    "read_jobs",
    "scale",
]
