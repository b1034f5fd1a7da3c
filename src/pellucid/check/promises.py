"""``check.progress``: of a graph with times, or of a pipeline by event time."""

from __future__ import annotations

from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.graph.model import Graph
from pellucid.progress.question import ProgressVerdict
from pellucid.progress.question import progress as of_graph


def progress(graph: Any, **options: Any) -> ProgressVerdict:
    """Whether a graph with times keeps its promises about them, as `pellucid.progress.question.progress` has it; or
    whether a pipeline by event time does, whose own graph is asked for all times: ``about`` are then *condition 2*,
    *acyclic* and *clock* (nothing comes behind the clock of what follows).

    >>> from pellucid import join, pipeline
    >>> def pairs(x, y):
    ...     found = join(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), within=(5, 10), how="full", id="pair")
    ...     return found.dedup(by=lambda p: p[0], within=1, id="once")
    >>> progress(pipeline(pairs, x=int, y=int)).parts["clock"].proved
    True
    """
    inner = getattr(graph, "graph", None)
    if not isinstance(inner, Graph):
        return of_graph(graph, **options)
    from pellucid.internal.engine.timed.why.flow import ASKED, pipeline_progress

    about = options.pop("about", ASKED)
    if options:
        raise UsageError(
            f"check.progress: {sorted(options)[0]}= is for graphs with times; of a pipeline only about= can be said"
        )
    return pipeline_progress(inner, about)
