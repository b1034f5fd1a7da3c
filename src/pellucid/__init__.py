"""Write a stateful stream pipeline once, as plain Python; Pellucid proves it, crashes it, and runs it on Spark."""

from pellucid.internal.cli import first

if first.is_command():
    first.begin()  # before what is imported below, which takes a while

from pellucid.check.system.domains import Mod
from pellucid.errors import (
    CycleError,
    DataError,
    IntOverflow,
    LateError,
    NotTraceable,
    PellucidError,
    PipelineError,
    StateError,
    StepError,
    TypeMismatch,
    UsageError,
)
from pellucid.internal.expr.types import Scale
from pellucid.internal.graph.stream import Stream, apply, merge, silent
from pellucid.internal.graph.timed import as_of, iterate, join, lookup
from pellucid.internal.graph.timing import Late, Windowed
from pellucid.internal.pipeline import Pipeline, pipeline

__version__ = "0.1.0"

__all__ = [
    "CycleError",
    "DataError",
    "IntOverflow",
    "Late",
    "LateError",
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
    "Windowed",
    "apply",
    "as_of",
    "check",
    "iterate",
    "join",
    "lookup",
    "merge",
    "pipeline",
    "silent",
]
