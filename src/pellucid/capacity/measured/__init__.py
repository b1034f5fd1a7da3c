"""Measured jobs: what a run of Spark, of Flink or of the local engine tells of itself, as one kind of data.

`read_jobs` takes a file, `of_query` a Spark query that runs; `plan_job` says who keeps up and what to change, with
the production formula (`scale`) and what bursts do to a queue (`curves`) beside each other.
"""

from pellucid.capacity.measured.job import BatchCost, Job, MeasuredStep, Sample, batch_cost
from pellucid.capacity.measured.plan import Curve, JobPlan, Scaling, StepPlan, arrival_curve, plan_job, scale
from pellucid.capacity.measured.read import jobs_of, of_progress, of_query, read_jobs

__all__ = [
    "BatchCost",
    "Curve",
    "Job",
    "JobPlan",
    "MeasuredStep",
    "Sample",
    "Scaling",
    "StepPlan",
    "arrival_curve",
    "batch_cost",
    "jobs_of",
    "of_progress",
    "of_query",
    "plan_job",
    "read_jobs",
    "scale",
]
