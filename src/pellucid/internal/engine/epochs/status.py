"""A run with epochs, looked at from outside: while it runs, after it ended, after it was killed.

Nothing is written and no lock is taken.  A run that goes on may remove a snapshot between the moment at which it is
listed and the one at which it is read: then it is looked for again.  What is reported is of the last epoch that all
tasks have a snapshot of, which is what the run would go back to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.base import container
from pellucid.internal.base.container import refuse_other, refused
from pellucid.internal.engine.epochs.plan import _plain, fragments, steps_of
from pellucid.internal.engine.epochs.store import READ, Damaged, Snapshot, Store, running_in
from pellucid.internal.engine.timed.engine import TimedEngine
from pellucid.internal.engine.timed.why.answer import Progress, SourceNow, moment, progress_of
from pellucid.internal.expr.types import BOOL, DATE, DATETIME, FLOAT, INSTANT, INT, STR, TIMEDELTA, TupleType, Type
from pellucid.internal.graph.model import Graph

_TRIES = 8  # looks at a folder that changes meanwhile
_NAMED = {str(t): t for t in (BOOL, INT, FLOAT, STR, DATE, DATETIME, INSTANT, TIMEDELTA)}


def is_run(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has the state of a run with epochs."""
    return (Path(folder) / "run.json").is_file()


def look(graph: Graph, folder: str | os.PathLike[str]) -> Progress:
    """How far the run in a state folder is, and why what is not done is not.

    >>> import pathlib, tempfile
    >>> from pellucid import pipeline
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.csv").write_text("x\\n3\\n14\\n")
    >>> tens = pipeline(lambda x: x.at(lambda v: v, id="at").tumbling(10, lambda w: w, id="tens"), x=int)
    >>> _ = tens.run_epochs(folder / "in.csv", folder / "out.csv", state=folder / "state", pushes=1)
    >>> look(tens.graph, folder / "state").complete
    True
    """
    place, store = option("state", folder), Store(folder)
    run = store.read("run.json")
    if run is None:
        raise UsageError(f"{place}: holds no run of Pellucid: give the folder that `pellucid run` was given")
    if run.get("format") not in READ:
        raise StateError(refused(place, run.get("format")))
    now = {"pipeline": graph.name, "steps": steps_of(graph)}
    refuse_other(place, run, now, {}, "Give the pipeline as it was when it ran")
    hint, process = store.hint("progress.json"), running_in(store.root)
    if graph.timed:
        (graph,) = fragments(graph, ())  # as the worker has it
    engine: TimedEngine | None = None

    def taken(found: list[Snapshot]) -> None:
        """What is inside has a checksum of its own: one that is not whole is found when it is loaded."""
        nonlocal engine
        worker = next((s for s in found if s.task == "worker"), None)
        engine = engine_at(graph, worker.payload, place) if worker is not None and graph.timed else None

    epoch, found = _newest(store, run, taken)
    about = _about(os.fspath(folder), run, hint, process, epoch, found)
    if not graph.timed:
        return Progress(graph.name, graph, _plain_sources(graph, run, found), (), about, True)
    engine = engine or TimedEngine(graph, mode="python")
    met: dict[str, Any] = next((s.about["sources"] for s in found if "sources" in s.about), {})
    rows = {source: int(known["rows"]) for source, known in met.items() if known["rows"] is not None}
    heard = {source: float(known["heard"]) for source, known in met.items() if known["heard"] is not None}
    silent = [source for source, known in met.items() if not known["here"]]
    return progress_of(graph, [engine], rows=rows, heard=heard, silent=silent, about=about)


def _newest(store: Store, run: dict[str, Any], taken: Callable[[list[Snapshot]], None]) -> tuple[int, list[Snapshot]]:
    """The last epoch that all tasks have a snapshot of, and what those of sources and workers say; 0: there is none.
    ``taken`` refuses (`Damaged`) what is not whole inside: then the epoch before may be."""
    tasks = list(run.get("tasks", ()))
    wanted = [task for task in tasks if task.startswith(("source.", "worker"))]
    wrong: set[int] = set()
    why: Damaged | None = None
    tries = 0
    while tries < _TRIES:
        there = [set(store.epochs(task)) for task in tasks]
        common = set.intersection(*there) - wrong if there else set()
        if not common:
            if why is not None and there and set.intersection(*there):
                raise StateError(f"{why}; no epoch is whole that could be looked at")
            return 0, []
        epoch = max(common)
        try:
            found = [store.load(task, epoch, run=run["run"]) for task in wanted]
            taken(found)
            return epoch, found
        except FileNotFoundError:
            tries += 1  # it was removed meanwhile: there is a later one
        except Damaged as error:
            if any(epoch not in store.epochs(task) for task in tasks):
                tries += 1
            else:
                wrong.add(epoch)
                why = error
    raise StateError(f"{store.root}: changes faster than it can be read: look again")


def engine_at(graph: Graph, state: container.Buffer, place: str) -> TimedEngine:
    """An engine with a saved state of it, to be looked at."""
    try:
        head = container.unpack(state, "times").head
    except container.OtherVersion as error:
        raise StateError(refused(place, error)) from None
    except container.Broken as error:
        raise Damaged(f"{place}: a snapshot is damaged: {error}") from None
    engine = TimedEngine(graph, key=type_named(head["key"], place), mode="python")
    try:
        engine.load(state)
    except StateError as error:
        raise Damaged(f"{place}: a snapshot cannot be read: {error}") from None
    return engine


def type_named(name: str, place: str) -> Type | None:
    """The type of a key, by the name under which it was saved.

    >>> type_named("(str, int)", "state"), type_named("None", "state")
    ((str, int), None)
    >>> type_named("Colour", "state")
    Traceback (most recent call last):
    pellucid.errors.StateError: state: its key is a 'Colour', which cannot be shown from outside; ...
    """
    if name == "None":
        return None
    if name in _NAMED:
        return _NAMED[name]
    if name.startswith("(") and name.endswith(")"):
        parts = [type_named(part, place) for part in name[1:-1].rstrip(",").split(", ")]
        return TupleType(tuple(part for part in parts if part is not None))
    known = ", ".join(_NAMED)
    raise StateError(
        f"{place}: its key is a {name!r}, which cannot be shown from outside; keys of {known} and tuples of them can be"
    )


def _about(
    folder: str, run: dict[str, Any], hint: dict[str, Any], process: int | None, epoch: int, found: list[Snapshot]
) -> dict[str, Any]:
    finished = bool(hint.get("finished")) and process is None
    committed = max(int(hint.get("epoch", 0)), 0)
    sources = [s for s in found if s.task.startswith("source.")]
    pushes = max((s.until for s in sources), default=0)
    at = max((s.about["at"] for s in sources if "at" in s.about), default=None)
    state = f"running (process {process})" if process is not None else "finished" if finished else "not running"
    words = [state, f"epoch {epoch} complete" if epoch else "no epoch complete yet"]
    if epoch:
        words.append(f"{pushes:,} push{'es' * (pushes != 1)}" + (f" by {moment(at)}" if at is not None else ""))
    if committed < epoch:
        words.append(f"epoch {committed} is the last that is known to be committed")
    return {
        "folder": folder, "kind": "epochs", "pipeline": run["pipeline"], "running": process is not None,
        "process": process, "finished": finished, "epoch": epoch, "committed": committed, "pushes": pushes,
        "at": None if at is None else moment(at), "words": words,
    }  # fmt: skip


def _plain_sources(graph: Graph, run: dict[str, Any], found: list[Snapshot]) -> tuple[SourceNow, ...]:
    """Of a run that knows no event time: how many rows of each source were read."""
    rows: dict[str, int] = {}
    names = list(run.get("in", {}))
    for snapshot in found:
        lanes = snapshot.about.get("lanes", [])
        own = names if len(lanes) == len(names) else [n for n in names if snapshot.task == f"source.{_plain(n)}"]
        with contextlib.suppress(ValueError):
            rows |= {name: int(lane["row"]) for name, lane in zip(own, lanes, strict=True)}
    shared = rows.get("all")
    return tuple(SourceNow(graph.nodes[i].id, (), rows.get(graph.nodes[i].id, shared)) for i in graph.sources)
