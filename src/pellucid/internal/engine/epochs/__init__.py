"""The local engine as a system of tasks that survives crashes: asynchronous barrier snapshots with processes.

* ``plan``: which tasks there are, and which streams between them; ``cut`` makes several of one pipeline
* ``messages``, ``channels``: batches and borders, and what they go through
* ``source`` (``lanes``), ``worker``, ``sink`` (``targets``): the three kinds of task; ``task``, ``process``: the
  process around them; ``timed_worker``, ``times``: pipelines by event time
* ``store``: the state folder: the lock, snapshots that are whole or not there; ``job``: what a run is, and whether it
  is the same
* ``coordinator``: starts, watches, commits, recovers
* ``recording``: the trace of a run
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.coordinator import Report
    from pellucid.internal.request import Request
    from pellucid.sinks.interface import Sink

__all__ = ["run_epochs"]

RENAMED = {"epochs": "pushes", "keep": "snapshots"}  # the names that options had, and have now


def run_epochs(
    pipeline: Any,
    inputs: str | os.PathLike[str] | Sequence[Any] | Mapping[Any, Any],
    outputs: str | os.PathLike[str] | Sink | Mapping[str, Any],
    *,
    state: str | os.PathLike[str],
    say: Callable[[str], None] | None = None,
    progress: Callable[[int, float | None, int], None] | None = None,
    idle: Callable[[], None] | None = None,
    members: Mapping[str, str] | None = None,
    **settings: Any,
) -> Report:
    """Run a pipeline over files so that crashes do not show: the same call goes on where the last one was.

    ``inputs`` is a file, a folder, a pattern or a list of them (or one for each source),
    ``outputs`` a file, the address of a table, a folder of Parquet (it ends in ``/``) or a sink (or one
    for each output; `pellucid.sinks.together` for several that have an epoch all or none), ``state`` a folder of the
    run's own; ``members`` says that the outputs are such a group, and the output whose rows each gets; ``settings``
    are fields of `pellucid.internal.request.Request` (``pushes=10_000``, ``key``, ``workers``, ``cut``, ``every``, …).

    >>> import tempfile, pathlib
    >>> from pellucid import pipeline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.jsonl").write_text("1\\n2\\n3\\n4\\n5\\n")
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> report = run_epochs(total, folder / "in.jsonl", folder / "out.csv", state=folder / "state", pushes=2)
    >>> report.epochs, (folder / "out.csv").read_text().split()
    (3, ['out', '1', '3', '6', '10', '15'])
    """
    from pellucid.errors import by_new_names
    from pellucid.internal.request import EPOCHS, asked

    kept = settings.get("keep")
    if isinstance(kept, int) and not isinstance(kept, bool):  # what snapshots= was called
        settings = by_new_names("run_epochs", RENAMED, settings)
    else:
        others = {name: value for name, value in settings.items() if name != "keep"}
        settings = {**by_new_names("run_epochs", RENAMED, others), "keep": kept}
    request = asked(EPOCHS, settings)
    return run_request(
        pipeline, inputs, outputs, request, state, say=say, progress=progress, idle=idle, members=members
    )


def run_request(
    pipeline: Any,
    inputs: Any,
    outputs: Any,
    request: Request,
    state: str | os.PathLike[str],
    *,
    say: Callable[[str], None] | None = None,
    progress: Callable[[int, float | None, int], None] | None = None,
    idle: Callable[[], None] | None = None,
    members: Mapping[str, str] | None = None,
) -> Report:
    """The same for what is asked of it as one record."""
    from pellucid.internal.address import from_environment
    from pellucid.internal.engine.epochs.coordinator import Coordinator
    from pellucid.internal.engine.epochs.group_commit import members_of
    from pellucid.internal.engine.epochs.job import prepare
    from pellucid.sinks.group import TogetherSink
    from pellucid.sinks.interface import Sink

    graph = getattr(pipeline, "graph", pipeline)
    given: dict[str | None, str | tuple[str, ...]] = (
        {k: _paths(v) for k, v in inputs.items()} if isinstance(inputs, Mapping) else {None: _paths(inputs)}
    )
    if len(graph.sources) == 1 and None in given:
        given = {graph.nodes[graph.sources[0]].id: given[None]}
    if isinstance(outputs, TogetherSink):
        outputs, members = members_of(graph, outputs)
    names = [name for name, _ in graph.outputs]
    wanted = {
        name: place if isinstance(place, Sink) else _target(from_environment(os.fspath(place)))
        for name, place in (outputs if isinstance(outputs, Mapping) else {names[0]: outputs}).items()
    }
    if request.aside.address is not None and not isinstance(request.bad, Sink):
        request = replace(request, bad=_target(from_environment(os.fspath(request.bad))))
    job = prepare(graph, given, wanted, state, request, members)
    say, idle = say or (lambda text: print(text, file=sys.stderr)), idle or (lambda: None)
    return Coordinator(job, say=say, progress=progress or (lambda pushes, share, epoch: None), idle=idle).run()


def _paths(given: Any) -> str | tuple[str, ...]:
    """A file, a folder or a pattern; or several, one after the other."""
    if isinstance(given, (list, tuple)):
        return tuple(os.fspath(one) for one in given)
    return str(os.fspath(given))


def _target(path: str) -> str | Sink:
    """A file or the address of a table as it is; a folder of Parquet or a Delta table as its sink.

    >>> _target("out.csv"), _target("sqlite:shop.db#t"), _target("out/sums/").kind, _target("delta:lake").kind
    ('out.csv', 'sqlite:shop.db#t', 'parquet', 'delta')
    """
    from pellucid.internal.address import Address
    from pellucid.sinks.interface import is_folder, sink_of

    return sink_of(path) if Address.of(path).kind == "delta" or is_folder(path) else path
