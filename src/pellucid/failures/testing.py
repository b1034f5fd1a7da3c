"""Crash tests in your own tests: one call that kills your pipeline and raises what shows.

::

    from pellucid.failures.testing import crash_test

    def test_totals_survive(tmp_path):
        crash_test("pipeline.py:totals", "events.csv", kills=10, folder=tmp_path / "crash")
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError, by_new_names
from pellucid.failures.crash import Command, CrashReport, crash, default_outputs
from pellucid.internal.load import load_pipeline

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph
    from pellucid.internal.pipeline import Pipeline

EPOCHS = 20  # in a run, unless told otherwise
BATCHES = 4  # in an epoch


def crash_test(
    pipeline: str | Pipeline,
    inputs: str | os.PathLike[str] | Mapping[str, Any],
    *,
    outputs: str | Mapping[str, str] | None = None,
    kills: int = 10,
    seed: int | None = None,
    points: Sequence[str] = (),
    pushes: int | None = None,
    chunk: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> CrashReport:
    """Kill a pipeline so often and raise `AssertionError`, with the report, if it shows.

    ``pipeline`` is ``"FILE:NAME"``, or a pipeline that has a name in a module with a file; ``inputs`` is a file, or one
    for each source; ``outputs`` are places like yours (``"x.csv"``, ``"sqlite:x.db#t"``); ``options`` are options of
    ``pellucid run`` (``key="user"``, ``workers=2``, ``cut=["step"]``).  A failure names its seed: give it as ``seed``
    to draw the same kills.

    >>> crash_test("nowhere.py:totals", "events.csv", kills=0)
    Traceback (most recent call last):
    pellucid.errors.UsageError: kills=0: expected at least 1
    """
    if kills < 1:
        raise UsageError(f"kills={kills}: expected at least 1")
    pushes = by_new_names("crash_test", {"epochs": "pushes"}, options).pop("pushes", pushes)
    options.pop("epochs", None)
    target, names = _named(pipeline)
    refuse_wall_clock(load_pipeline(target).graph)
    given = [f"{k}={os.fspath(v)}" for k, v in inputs.items()] if isinstance(inputs, Mapping) else [os.fspath(inputs)]
    places = {names[0]: outputs} if isinstance(outputs, str) else dict(outputs or {})
    more: list[str] = []
    for option, value in options.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            more += [f"--{option.replace('_', '-')}", str(one)]
    place = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="pellucid-crash-"))
    command = command_for(
        target, given, names, places, place, pushes=pushes, chunk=chunk, more=tuple(more), environment=environment or {}
    )
    report = crash(command, place, kills=kills, seed=seed, points=points)
    if not report.bounded:  # a crash shows, or none hit
        raise AssertionError(str(report))
    return report


def refuse_wall_clock(graph: Graph) -> None:
    """Refuse a pipeline by event time whose answers depend on the clock on the wall: two runs of it may differ without
    any crash, so nothing could be compared.

    >>> from datetime import timedelta
    >>> from pellucid import pipeline
    >>> refuse_wall_clock(pipeline(lambda x: x.at(lambda v: v, idle=timedelta(seconds=9), id="when"), x=int).graph)
    Traceback (most recent call last):
    pellucid.errors.UsageError: step 'when' (at v, ...) has idle=, and when a source is idle the clock on the wall says:
    two runs may differ without any crash, so a crash test has nothing to compare with; leave idle= out for the test
    """
    for node in graph.nodes:
        if node.timing is not None and node.timing.idle is not None:
            raise UsageError(
                f"{node.describe()} has idle=, and when a source is idle the clock on the wall says: two runs may "
                "differ without any crash, so a crash test has nothing to compare with; leave idle= out for the test"
            )


def command_for(
    target: str,
    inputs: Sequence[str],
    names: Sequence[str],
    outputs: Mapping[str, str],
    folder: Path,
    *,
    pushes: int | None = None,
    chunk: int | None = None,
    more: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Command:
    """The command to be killed; without ``pushes`` the pipeline is run once to see how long its input is.  ``idle`` is
    called again and again meanwhile."""
    unknown = [name for name in outputs if name not in names]
    if unknown:
        raise UsageError(f"{target} has no output {unknown[0]!r}: it has {', '.join(names)}")
    places = default_outputs(names, outputs)
    folder.mkdir(parents=True, exist_ok=True)
    if pushes is None:
        pushes = max(1, _pushes(target, inputs, names, folder, more, idle) // EPOCHS)
    return Command(
        target, tuple(inputs), places, pushes, chunk or max(1, pushes // BATCHES), more, dict(environment or {})
    )


def _pushes(
    target: str,
    inputs: Sequence[str],
    names: Sequence[str],
    folder: Path,
    more: tuple[str, ...],
    idle: Callable[[], None],
) -> int:
    """How many pushes the input has, as a plain run counts them."""
    local = [
        w
        for i, w in enumerate(more)
        if not (w in ("--cut", "--workers") or (i and more[i - 1] in ("--cut", "--workers")))
    ]
    argv = [
        sys.executable,
        "-m",
        "pellucid",
        "run",
        target,
        *(w for given in inputs for w in ("--in", given)),
        *local,
        "--json",
    ]
    for name in names:
        argv += [
            "--out",
            f"{name}={folder / f'plain-{name}.jsonl'}" if len(names) > 1 else str(folder / f"plain-{name}.jsonl"),
        ]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = process.communicate(timeout=0.1)
                    break
                idle()
        finally:
            process.kill()
    idle()  # what stops us may have stopped it as well
    if process.returncode != 0:
        raise UsageError(f"without any crash the run does not come to its end: {err.strip()}")
    return int(json.loads(out.splitlines()[-1])["pushes"])


def _named(pipeline: str | Pipeline) -> tuple[str, list[str]]:
    """``FILE:NAME`` and the names of the outputs."""
    if isinstance(pipeline, str):
        return pipeline, [name for name, _ in load_pipeline(pipeline).graph.outputs]
    module = sys.modules.get(pipeline.__module__)
    file = getattr(module, "__file__", None)
    name = (
        next((name for name, value in vars(module).items() if value is pipeline), None) if module is not None else None
    )
    if file is None or name is None:
        raise UsageError(
            f"{pipeline!r} has no name in a module with a file, so no other process can load it: give it as 'FILE:NAME'"
        )
    return f"{file}:{name}", [output for output, _ in pipeline.graph.outputs]
