"""The identity of a state folder: what it says about the run that made it, held against the run that is asked for.

A run resumes in a state folder only if it is the same run: the same pipeline step by step, the same inputs and outputs,
the same key, cuts and workers.  How often borders come, and how large batches are, may change.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError, UsageError, option
from pellucid.internal.address import Address, in_one_form
from pellucid.internal.base.container import VERSION, other_columns, refuse_other, refused
from pellucid.internal.data.outputs import refuse_there
from pellucid.internal.engine.epochs.group_commit import sinks_of
from pellucid.internal.engine.epochs.plan import steps_of
from pellucid.internal.engine.epochs.store import READ, Store
from pellucid.internal.expr.identity import differences
from pellucid.internal.graph.model import Graph
from pellucid.sinks.group import refuse_one_twice
from pellucid.sinks.interface import Sink

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Files, Job

# Of a run that was killed before it had written who it is.
_LEFT = re.compile(r"\.+(run\.json|outputs\.json|lock)\..*\.tmp")


def identify(job: Job) -> bool:
    """Give the run its name: the one in the state folder, if that is of this very run.  True if it goes on."""
    refuse_one_twice(sinks_of(job), option("out"))  # before anything is written
    now = _identity(job)
    before = job.store.read("run.json")
    if before is None:
        _refuse_folder(job.store)
        _refuse_outputs(job)
        job.run = uuid.uuid4().hex
        job.store.write("run.json", {"run": job.run, **now})
        return False
    accepted = _joined(job, _accepted(before, now, job.settings.changed), now)
    _compare(accepted, now, str(job.store.root))
    job.run = before["run"]
    if accepted != before:
        job.store.write("run.json", accepted)
    return True


def _refuse_folder(store: Store) -> None:
    """Refuse a folder for a run that begins: one that holds something else."""
    found = [name for name in os.listdir(store.root) if name != "lock" and not _LEFT.fullmatch(name)]
    if "generation" in found:
        raise StateError(
            f"{store.root / 'run.json'}: is missing, without which the run cannot go on: bring it back from a "
            "copy, or start anew in another folder"
        )
    if found:
        raise UsageError(
            f"{option('state', store.root)}: is not empty, and holds no run of Pellucid: choose a folder of its own"
        )


def _joined(job: Job, before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What the folder says, with members that are new in a group: they get all rows, if all is read again."""
    was, new = before.get("out", {}), now["out"]
    if not job.members or was == new or {**new, **was} not in (was, new) or len(was) == len(new):
        return before
    gone, more = [n for n in was if n not in new], [n for n in new if n not in was]
    if gone:
        raise StateError(
            f"{job.store.root}: the member {gone[0]!r} ({was[gone[0]]}) of this group is not given any more, and may "
            "not have all that is decided: go on with it, or start anew in another folder, which writes all rows "
            "again: to other tables, or to these when they are empty"
        )
    if not job.settings.from_start:
        raise StateError(
            f"{job.store.root}: the member {more[0]!r} ({new[more[0]]}) is new in this group, and would lack what was "
            f"committed before: read all input again with {option('from_start', True)} (what the others have is not "
            "written twice), or go on without it"
        )
    return {**before, "out": new, "tasks": now["tasks"]}


def _refuse_outputs(job: Job) -> None:
    """A run begins: its outputs must not be there, if that is asked for."""
    exists = job.settings.exists
    for name, place in job.outputs.items():
        if isinstance(place, Sink) or Address.of(place).kind:
            if exists is not None:
                raise UsageError(
                    f"{option('exists', exists)} is for files: rows are added to the output {name!r}; empty it first "
                    "if you want it new"
                )
        elif exists == "refuse":
            refuse_there(place)


def _accepted(before: dict[str, Any], now: dict[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """What the folder says, with what these steps call and read as it is now."""
    outs = {name: in_one_form(place) for name, place in before.get("out", {}).items()}
    before = {**before, "out": outs, "places": now["places"]}  # another user may log in now
    also = [s for s in changed if s in before.get("steps", {}) and s in before.get("reads", {})]
    return {
        **before,
        **{what: {**before[what], **{s: now[what][s] for s in also}} for what in ("steps", "reads") if also},
    }


def _identity(job: Job) -> dict[str, Any]:
    s = job.settings
    return {
        "format": VERSION,
        "pipeline": job.graph.name,
        "steps": steps_of(job.graph),
        "types": {n.id: {path: str(t) for path, t in n.type.columns()} for n in job.graph.nodes},
        "reads": {step: dict(identity.parts) for step, identity in job.graph.reads.items()},
        "results": [[name, job.graph.nodes[i].id] for name, i in job.graph.outputs],
        "in": {name: _place_of(job, name, path) for name, path in _given(job).items()},
        "out": {name: identity_of(path) for name, path in job.outputs.items()},
        "places": {name: identity_of(path, stored=True) for name, path in job.outputs.items()},
        "key": s.key[0] if len(s.key) == 1 else list(s.key) or None, "value": s.value, "workers": s.workers,
        "cut": list(s.cut), "in_format": s.in_format, "out_format": s.out_format,
        "keep": [list(one) for one in job.along.kept.columns] or None,
        "order": list(s.order) or None, "late": s.late if s.order else None, "time_format": s.time_format or None,
        "null": sorted(s.nulls) or None,
        "columns": {name: [list(b.columns) for b in bound] for name, (_, bound) in job.lanes.items()},
        "tasks": [t.name for t in job.plan.tasks],
    }  # fmt: skip


def _given(job: Job) -> dict[str, Files]:
    """What each input was said to be."""
    given = list(job.inputs.values())
    return {name: given[0] if job.wide else job.inputs.get(name, given[0]) for name in job.lanes}


def _place_of(job: Job, name: str, path: Files) -> str | list[str]:
    if name in job.chained:
        return job.chained[name].identity
    return os.path.abspath(path) if isinstance(path, str) else [os.path.abspath(one) for one in path]


def identity_of(place: str | Sink, *, stored: bool = False) -> str:
    """Which file or target it is; neither a password nor who logs in is part of it."""
    if isinstance(place, Sink):
        return place.identity
    found = Address.of(place)
    if not found.kind:
        return os.path.abspath(place)
    return found.stored if stored else found.identity


def _compare(before: dict[str, Any], now: dict[str, Any], root: str) -> None:
    place = option("state", root)
    if before.get("format") not in READ:
        raise StateError(refused(place, before.get("format")))
    refuse_other(
        place,
        before,
        now,
        {name: word or option(name) for name, word in _WORDS.items()},
        "Go on as before, or start anew in another folder",
        why=lambda step: _why(before, now, step),
        also=lambda step: other_columns(*(of.get("types", {}).get(step) for of in (before, now))),
        accept=lambda steps: (
            "; or, if it is meant and the rows so far may stay as they are, go on with " + option("changed", steps)
        ),
    )


def _why(before: dict[str, Any], now: dict[str, Any], step: str) -> str:
    """What of an opaque function is another one now, if it is that."""
    was, new = before.get("reads", {}).get(step), now["reads"].get(step)
    text = differences(was, new) if was and new else ""
    return f" ({text})" if text else ""


def note_uncomparable(graph: Graph) -> str:
    """One line about what opaque functions use that a state folder cannot compare; empty if there is nothing.

    >>> import random
    >>> from pellucid import pipeline
    >>> dice = random.Random(1)
    >>> throw = pipeline(lambda x: x.map(lambda v: v + dice.randint(1, 6), to=int, id="throw"), x=int)
    >>> print(note_uncomparable(throw.graph))
    step 'throw' uses what a state folder cannot compare (...state_identity.dice: a source of random
    numbers): if it changes before the run resumes, that is not noticed
    """
    steps = graph.unseen
    if not steps:
        return ""
    names = ", ".join(map(repr, steps))
    what = "; ".join(dict.fromkeys(one for found in steps.values() for one in found))
    return (f"step{'s' if len(steps) > 1 else ''} {names} use{'' if len(steps) > 1 else 's'} what a state folder "
            f"cannot compare ({what}): "
            "if it changes before the run resumes, that is not noticed")  # fmt: skip


# What must be as it was; where there is no word for it, it is an option.
_WORDS = {
    "results": "the outputs", "in": "", "out": "", "key": "", "order": "", "late": "", "time_format": "", "value": "",
    "null": "",
    "workers": "", "cut": "", "in_format": "",
    "out_format": "", "columns": "the columns that are read", "keep": "the list of passthrough columns",
    "tasks": "the list of tasks (where an epoch ends after so many seconds it is another one)",
}  # fmt: skip
