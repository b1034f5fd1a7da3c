"""Named moments at which a test can kill, hang or starve a run; for tests only.

The promise is about what happens *between* two lines of code, so the lines have names.  `point` costs one look at a
global while nothing is armed.  The environment variable ``PELLUCID_FAULTS`` (for tests, never for production) arms
them:

``POINT[TASK]=ACTION@HIT/GENERATION``, several parted by ``;``.

* ``[TASK]`` may be left out: then any task (each process counts its own hits);
* ``ACTION`` is ``kill`` (kill -9 of this process), ``tree`` (kill -9 of the coordinator and of this process; the other
  tasks die by themselves), ``group`` (kill -9 of this process group, with Spark's JVM in it), ``hang`` (do nothing for
  ever), ``enospc`` (no space left on the device), ``torn`` (only at ``snapshot:torn``: the file is cut in half, as
  after a power failure);
* ``@HIT``: the how-many-th time (1 if left out; ``*`` is every time);
* ``/GENERATION``: only in this generation (0 if left out; ``*`` is every one).
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from dataclasses import dataclass

from pellucid.errors import UsageError, nearest

VARIABLE = "PELLUCID_FAULTS"
ACTIONS = ("kill", "tree", "group", "hang", "enospc", "torn")

#: The points of a run with epochs: their names, and where they are.
RUNTIME: dict[str, str] = {
    "source:replay": "a source that was recovered, before it reads the first batch again",
    "source:read": "a source, before it sends a batch of events",
    "source:border": "a source, before it sends a border",
    "worker:event": "a worker, before the kernel takes a batch",
    "worker:border": "a worker, all borders of an epoch are in, before its state is copied",
    "sink:write": "a sink, before it stages a batch of rows",
    "sink:staged": "a sink, the rows of an epoch are on the disk, nothing is committed",
    "sink:before-commit": "a sink, told to commit, before it does",
    "sink:after-commit": "a sink, after its commit, before this is announced",
    "sink:merge": "a sink, committed parts are written as one, before it has its name",
    "sink:merged": "a sink, after that, before the parts that it has the rows of are removed",
    "sink:finish": "a sink, before it puts the whole file together",
    "sink:finished": "a sink, the whole file is in place, before this is announced",
    "snapshot:before-write": "any task, before the snapshot's file is written",
    "snapshot:torn": "any task, in the middle of writing the snapshot's file",
    "snapshot:after-write": "any task, the file is written, before it has its name",
    "snapshot:placed": "any task, the file is durable under its name, before that is recorded",
    "snapshot:before-ack": "any task, the snapshot is durable, before the coordinator hears of it",
    "snapshot:after-ack": "any task, after the coordinator was told",
    "recover:load": "any task that is started again, before it loads its snapshot",
    "recover:loaded": "any task that is started again, after it loaded its snapshot",
    "coordinator:start": "the coordinator, it holds the lock and has read the store",
    "coordinator:fork": "the coordinator, before the tasks are started",
    "coordinator:forked": "the coordinator, all tasks are started",
    "coordinator:complete": "the coordinator, an epoch is durable everywhere, before the sinks are notified",
    "coordinator:committed": "the coordinator, all sinks have committed an epoch, before it is recorded",
    "coordinator:recorded": "the coordinator, after it is recorded, before old snapshots are removed",
    "coordinator:recover": "the coordinator, all tasks are ended, before the recovery is recorded",
    "coordinator:finish": "the coordinator, all epochs are committed, before the sinks finish",
    "coordinator:finished": "the coordinator, the sinks have finished, before the run is marked as done",
}

#: What a place writes and says (tests hold these to its records and messages).
_RECORDS = (
    "boot begin send sent deposit take pending prepared given-up decide commit abort end hand refused met behind "
    "accepted"
)
_MESSAGES = "deposit deposited undeliverable ask told pushed prepare vote decided done outcome started met known lacks"

#: Every point: those of the sinks come in a run with epochs and in a query of Spark.
POINTS: dict[str, str] = {
    **RUNTIME,
    **{
        f"{sink}:{moment}-commit": f"the {sink} sink, {moment} a batch is committed"
        for sink in ("parquet", "postgres", "sqlite", "delta", "kafka")
        for moment in ("before", "after")
    },
    "parquet:between-moves": "the parquet sink, the batch is committed, and one of its files is where readers look",
    "postgres:staged": "the postgres sink, the executors have copied a batch, nothing is committed",
    "once:began": "the once sink, before the function is called",
    "once:before-end": "the once sink, the function has returned, before that is written down",
    "split:between": "the split sink, one of the outputs has the batch",
    "together:kept": "sinks together, the rows of a batch are kept beside the log",
    "together:prepare": "a member of sinks together, before what it has staged is prepared",
    "together:prepared": "a member of sinks together, it is prepared, before this is announced",
    "together:before-decision": "sinks together, all are prepared, before the decision is written",
    "together:decided": "sinks together, the decision is written, before a member commits",
    "together:committed": "sinks together, some or all members have committed",
    "together:recover": "sinks together, the log is taken, before the members are looked at",
    **{
        f"place:{moment}-{kind}": f"a place, {moment} a record '{kind}' is written"
        for kind in _RECORDS.split()
        for moment in ("before", "after")
    },
    **{f"place:said-{kind}": f"a place, a message '{kind}' is on its way to another" for kind in _MESSAGES.split()},
    "chain:ahead": "a source that reads another run, it has found rows that are not committed there",
    "chain:sure": "a source that reads another run, what an epoch read is committed there, before this is announced",
    "chain:undo": "the coordinator, an upstream has given up what was read, before anything is undone",
}

_SPEC = re.compile(
    r"(?P<point>[a-z-]+:[a-z-]+)(\[(?P<task>[^\]]+)\])?=(?P<action>\w+)(@(?P<hit>\d+|\*))?(/(?P<generation>\d+|\*))?"
)


@dataclass(frozen=True)
class Fault:
    """One armed point; ``hit`` and ``generation`` are None for every one."""

    point: str
    action: str
    task: str | None = None
    hit: int | None = 1
    generation: int | None = 0

    def __str__(self) -> str:
        task = f"[{self.task}]" if self.task is not None else ""
        hit, generation = ("*" if n is None else n for n in (self.hit, self.generation))
        return f"{self.point}{task}={self.action}@{hit}/{generation}"


def parse(text: str) -> list[Fault]:
    """The faults that a text (of ``PELLUCID_FAULTS``) arms.

    >>> [str(f) for f in parse("sink:before-commit=kill@2/0; snapshot:torn[worker]=torn")]
    ['sink:before-commit=kill@2/0', 'snapshot:torn[worker]=torn@1/0']
    >>> parse("sink:befor-commit=kill")
    Traceback (most recent call last):
    pellucid.errors.UsageError: PELLUCID_FAULTS: no point is called 'sink:befor-commit'; did you mean
    'sink:before-commit'?
    """
    out = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        match = _SPEC.fullmatch(part)
        if match is None:
            raise UsageError(f"{VARIABLE}: expected POINT[TASK]=ACTION@HIT/GENERATION, found {part!r}")
        if match["point"] not in POINTS:
            raise UsageError(
                f"{VARIABLE}: no point is called {match['point']!r}{nearest(match['point'], list(POINTS))}"
            )
        if match["action"] not in ACTIONS:
            raise UsageError(f"{VARIABLE}: no action is called {match['action']!r}: there are {', '.join(ACTIONS)}")
        hit, generation = (_number(match[name], default) for name, default in (("hit", 1), ("generation", 0)))
        out.append(Fault(match["point"], match["action"], match["task"], hit, generation))
    return out


def _number(text: str | None, default: int) -> int | None:
    return default if text is None else None if text == "*" else int(text)


class _Armed:
    """What this process has to do at which point."""

    def __init__(self, faults: list[Fault], task: str, generation: int, coordinator: int) -> None:
        self.coordinator = coordinator
        self.hits: dict[str, int] = {}
        self.faults = [
            f for f in faults if f.task in (None, task) and (f.generation is None or f.generation == generation)
        ]

    def hit(self, name: str) -> Fault | None:
        count = self.hits[name] = self.hits.get(name, 0) + 1
        return next((f for f in self.faults if f.point == name and f.hit in (None, count)), None)


_armed: _Armed | None = None


def arm(task: str, generation: int, coordinator: int, *, text: str | None = None) -> None:
    """Arm this process as the environment says; called by each task, and by the coordinator for each generation."""
    global _armed
    faults = parse(os.environ.get(VARIABLE, "") if text is None else text)
    _armed = _Armed(faults, task, generation, coordinator) if faults else None


def armed() -> bool:
    """Whether a test counts hits: then nothing is done in bunches, so that the counts are the same in every run."""
    return _armed is not None


def point(name: str) -> None:
    """A named moment.  It does nothing unless a test has armed it.

    >>> point("sink:before-commit")
    """
    if _armed is not None:
        fault = _armed.hit(name)
        if fault is not None:
            _act(fault, _armed.coordinator)


def torn(name: str) -> bool:
    """Whether the file that is being written shall be cut in half (a point with an action of its own)."""
    if _armed is None:
        return False
    fault = _armed.hit(name)
    if fault is not None and fault.action != "torn":
        _act(fault, _armed.coordinator)
    return fault is not None


def _act(fault: Fault, coordinator: int) -> None:
    if fault.action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if fault.action == "hang":
        while True:
            time.sleep(3600)
    if fault.action == "group":
        os.killpg(os.getpgid(0), signal.SIGKILL)
    if fault.action == "tree" and coordinator != os.getpid():
        os.kill(coordinator, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
