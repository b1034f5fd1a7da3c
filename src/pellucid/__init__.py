"""Write a stateful stream pipeline once, as plain Python; Pellucid proves it, crashes it, and runs it on Spark."""

from pellucid.check.system.domains import Mod
from pellucid.errors import (
    CycleError,
    DataError,
    IntOverflow,
    NotTraceable,
    PellucidError,
    PipelineError,
    StateError,
    StepError,
    TypeMismatch,
    UsageError,
)
from pellucid.expr.types import Scale
from pellucid.graph.stream import Stream, apply, merge, silent
from pellucid.pipeline import Pipeline, pipeline

__version__ = "0.1.0"

__all__ = [
    "CycleError",
    "DataError",
    "IntOverflow",
    "Mod",
    "NotTraceable",
    "PellucidError",
    "Pipeline",
    "PipelineError",
    "Scale",
    "StateError",
    "StepError",
    "Stream",
    "TypeMismatch",
    "UsageError",
    "apply",
    "check",
    "merge",
    "pipeline",
    "silent",
]
