"""Outputs that are committed together: the coordinator's side of it.

A round brings the sinks of the group to one epoch.  All prepare it; when the last has, the decision is written into the
log in the state folder, and only then the members receive the command to commit.  The next round begins when all have:
an epoch that is unresolved keeps later ones waiting, which queue in the state folder meanwhile.  After a crash the
decided epoch is committed first; what was only prepared is taken back by its own sink, and prepared anew, since its
rows are staged in the state folder.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pellucid.errors import DataError, StateError, Unreachable, UsageError, nearest, option
from pellucid.internal.address import Address
from pellucid.internal.base import faults
from pellucid.sinks.decisions import FILE, NOTHING, DecisionLog
from pellucid.sinks.group import Member, told_once, users_of
from pellucid.sinks.interface import Sink
from pellucid.sinks.sqlite_sink import SQLiteSink

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job
    from pellucid.internal.graph.model import Graph

_LOOK = 2.0  # seconds to wait for a lock where it is only looked
_GIVE_UP = 5.0  # seconds for the other members to take back what they have prepared


class Span(NamedTuple):
    """Epochs that are committed as one, in words.

    >>> print(Span(14, 14), Span(14, 14).it, Span(14, 14).are), print(Span(2, 14), Span(2, 14).it, Span(2, 14).are)
    epoch 14 it is
    epochs 2 to 14 them are
    (None, None)
    """

    first: int
    last: int

    def __str__(self) -> str:
        return f"epoch {self.last:,}" if self.first >= self.last else f"epochs {self.first:,} to {self.last:,}"

    @property
    def it(self) -> str:
        return "it" if self.first >= self.last else "them"

    @property
    def are(self) -> str:
        return "is" if self.first >= self.last else "are"


class GroupTask(Protocol):
    """What of a watched task is used here."""

    name: str
    committed: int
    commanded: int
    link: Any


class Rounds:
    """The rounds of a generation, from one epoch to the next."""

    def __init__(self, job: Job, tasks: Mapping[str, GroupTask], say: Callable[[str], None]) -> None:
        self._tasks, self._say, self.names = tasks, say, frozenset(tasks)
        self._log = DecisionLog(job.log_folder)
        self._record = self._log.take(job.run, places(job))
        self._epoch = 0  # of the round that is open
        self._first = 0  # the first that the round brings; 0 where that was another start's
        self._attempt = ""
        self._votes: dict[str, int | None] = {}
        self._deciding = False  # whether the round that is open is not decided
        self._acks: Callable[[int], list[list[Any]]] = lambda epoch: []
        self._unresolved: set[tuple[str, int]] = set()
        self._offered = self._from = 0
        self._reached = NOTHING  # up to where all have it, when the round that is open is over

    def begin(self, complete: int, acks: Callable[[int], list[list[Any]]], allowed: int) -> None:
        """All tasks are where they were: what is decided is committed first, then what is allowed."""
        self._acks, self._from = acks, complete - 1
        if 0 < self._record.epoch <= complete and self._record.attempt:
            self._epoch, self._reached, self._first = self._record.epoch, self._record.batch, 0
            self._send_commit()
        self.offer(allowed)

    def offer(self, epoch: int) -> None:
        """So far all tasks have their snapshots: the next round may go there."""
        self._offered = max(self._offered, epoch)
        have = min(task.committed for task in self._tasks.values())
        if self._epoch or self._offered <= have:
            return
        # Many short epochs go in one round; one by one where a test counts.
        self._epoch = max(have, self._from) + 1 if faults.armed() else self._offered
        decided = self._record.epoch if self._record.epoch < self._epoch else 0
        self._first = min(max(have, decided) + 1, self._epoch)
        self._attempt, self._votes = uuid.uuid4().hex[:16], {}
        self._deciding = True
        for task in self._tasks.values():
            task.link.send(prepare=self._epoch, first=self._first, attempt=self._attempt)

    def prepared(self, task: str, epoch: int, until: int | None) -> None:
        """A member can commit; when all can, it is decided."""
        if not self._deciding or epoch != self._epoch:
            return
        self._votes[task] = until
        if len(self._votes) < len(self._tasks):
            return
        batch = max((vote for vote in self._votes.values() if vote is not None), default=NOTHING)
        self._reached = batch
        if batch != NOTHING:
            self._record = self._log.decide(batch, self._attempt, self._epoch)
        self._deciding = False
        self._send_commit()

    def _send_commit(self) -> None:
        for task in self._tasks.values():
            task.commanded = self._epoch
            task.link.send(commit=self._epoch, first=self._first, acks=self._acks(self._epoch))

    def committed(self) -> None:
        """A member has it; when all have, the next round may begin."""
        if self._epoch and not self._deciding and min(t.committed for t in self._tasks.values()) >= self._epoch:
            if any(epoch == self._epoch for _, epoch in self._unresolved):
                self._say(f"{Span(self._first or self._epoch, self._epoch)}: committed everywhere now")
            self._epoch = 0
            if self._reached != NOTHING:
                self._log.note_whole(self._record.query, self._reached)
            self.offer(self._offered)

    def unresolved(self, task: str, span: Span, why: str) -> None:
        """A commit failed after the decision: said once."""
        if (task, span.last) not in self._unresolved:
            self._unresolved.add((task, span.last))
            self._say(
                f"{span} {span.are} decided, and unresolved at {task.partition('.')[2]} ({why}): it is tried again; "
                "later epochs wait"
            )

    def give_up(self, failed: str) -> None:
        """A member cannot prepare: the others take back what they have, if nothing is decided."""
        if not self._deciding:
            return
        waiting = [task for name, task in self._tasks.items() if name != failed]
        for task in waiting:
            task.link.send(abort=True)
        until = time.monotonic() + _GIVE_UP
        while waiting and time.monotonic() < until:
            for task in list(waiting):
                messages = task.link.receive()
                if messages is None or any("aborted" in message for message in messages):
                    waiting.remove(task)
            time.sleep(0.01)

    def finish(self) -> None:
        """All that the inputs hold is in every member."""
        self._log.note_whole(self._record.query, self._record.batch)


# ---------------------------------------------------------------- before anything starts


def members_of(graph: Graph, given: Any) -> tuple[dict[str, Sink], dict[str, str]]:
    """The sinks of a group, and the output whose rows each gets: the one of its name, or the single output."""
    for name, why in (("log", given.log), ("by", given.by), ("added", given.added), ("removed", given.removed)):
        if why:
            raise UsageError(
                f"together: {name}= is for queries of Spark: with epochs the decisions are in the state folder, and "
                "rows go to the member that has the output's name"
            )
    taken = takes(graph, [m.name for m in given.members])
    for name, _ in graph.outputs:
        if name not in taken.values() and name not in given.outputs:
            raise UsageError(
                f"together: nobody takes the output {name!r} of {graph.name}: name a member {name}=…, or say "
                f"{name}=None to leave its rows out"
            )
    return {m.name: m.sink for m in given.members}, taken


def takes(graph: Graph, members: list[str]) -> dict[str, str]:
    """Which output each member takes.

    >>> from pellucid import pipeline
    >>> takes(pipeline(lambda x: x.trim(1), x=int).graph, ["orders", "archive"])
    {'orders': 'out', 'archive': 'out'}
    """
    known = [name for name, _ in graph.outputs]
    if set(members) <= set(known):
        return {name: name for name in members}
    if len(known) == 1 and known[0] not in members:
        return dict.fromkeys(members, known[0])
    wrong = next(name for name in members if name not in known)
    raise UsageError(
        f"together: {graph.name} has no output {wrong!r} for the member of that name: its outputs are "
        f"{', '.join(known)}{nearest(wrong, known)}"
        + (" (the single output goes to all members if none has its name)" if len(known) == 1 else "")
    )


def places(job: Job) -> dict[str, str]:
    """The members and their targets, for the log."""
    return {name: _place(job.outputs[name]) for name in job.members}


def _place(place: str | Sink) -> str:
    if isinstance(place, Sink):
        return place.identity
    found = Address.of(place)
    return found.identity if found.kind else FILE + os.path.abspath(place)


def keeps_open(job: Job, member: str) -> bool:
    """Whether a member's transaction can stay open until the decision: a SQLite file has one writer."""
    files = {name: sink.file for name, sink in sinks_of(job).items() if isinstance(sink, SQLiteSink)}
    return member not in files or list(files.values()).count(files[member]) == 1


def sinks_of(job: Job) -> dict[str, Sink]:
    """The members that are no files."""
    return {name: sink for name in job.members if (sink := job.sink_at(name)) is not None}


def open_group(job: Job, say: Callable[[str], None]) -> None:
    """Make the log, settle what an earlier start has left prepared, and see that every target is of this group alone;
    what servers cannot do is reported once."""
    log, sinks = DecisionLog(job.log_folder), sinks_of(job)
    if job.settings.from_start and log.set_aside():
        say(f"{log.folder}: the log was damaged, and is set aside: what the members have is decided")
    most = _refuse_older_log(job, log, sinks)
    drained = [name for name, sink in sinks.items() if getattr(sink, "drained", False)]
    record = log.take(job.run, places(job), drained=drained, users=users_of(sinks))
    if most > record.batch:
        log.adopt(most, max(1, record.epoch, job.store.number("progress.json", "epoch")))
        say(f"{log.folder}: the log is older than its members: what they have, up to push {most:,}, is decided")
    away: dict[str, Unreachable] = {}
    for name, sink in sinks.items():
        with suppress(DataError, OSError):  # of one that is wrong its own task says so
            try:
                _settle_left(log, sink, job.run)
            except Unreachable as error:
                away[name] = error
    for name, sink in sinks.items():
        try:
            if name in away:
                raise away[name]
            other = sink.claim(record.group, str(log.folder))
        except Unreachable as error:
            raise Unreachable(
                f"the member {name!r} cannot be reached ({error}). Nothing is lost, and nothing was begun: when it is "
                "up, the same command goes on"
            ) from None
        if other == str(log.folder) and job.settings.from_start:
            sink.unclaim(None)  # the group's own log was lost, and is restarted at the same place
            other = sink.claim(record.group, str(log.folder))
        if other is not None:
            raise StateError(
                f"{option('out', name)}: {sink.place} belongs to another group of outputs, whose log is {other}: an "
                "epoch would be of two groups. Give this one a target of its own; or, if that run is over, give it "
                f"free: {getattr(sink, 'forget', 'as its author says')}"
            )
    told = told_once([Member(name, sink) for name, sink in sinks.items()])
    if told:
        say(told)


def _refuse_older_log(job: Job, log: DecisionLog, sinks: Mapping[str, Sink]) -> int:
    """No member commits what is not decided: one that has more than the log says tells that the log is an older one.

    If input may be read again, that is no harm: what a member has was decided, and what another lacks is written there.
    What is returned is the most that one has.
    """
    most, record = NOTHING, log.read()
    decided = NOTHING if record is None or record.query != job.run else record.batch
    for name, sink in sinks.items():
        try:
            with _soon(sink):
                last = sink.last(job.run) if sink.forks else _asked_apart(sink, job.run)
        except (DataError, OSError):
            continue  # who cannot be reached, or is held by others, says so later
        most = most if last is None else max(most, last)
        if most > decided and not job.settings.from_start:
            what = "nothing" if decided == NOTHING else f"push {decided:,}"
            raise StateError(
                f"the member {name!r} ({sink.place}) has the rows up to push {most:,}, and the last that {log.folder} "
                f"has decided is {what}: the log is an older copy, or another one: bring back the right one, or read "
                f"all input again with {option('from_start', True)} (what is there is not written twice)"
            )
    return most


def _asked_apart(sink: Sink, run: str) -> int | None:
    """What a sink has, asked in a process of its own: what is used here could not be used in the tasks any more."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            said = json.dumps({"last": sink.last(run)})
        except BaseException as error:
            said = json.dumps({"error": str(error)})
        os.write(there, said.encode())
        os._exit(0)
    os.close(there)
    with open(here, "rb") as file:
        found = json.loads(file.read() or b'{"error": "it died"}')
    os.waitpid(pid, 0)
    if "error" in found:
        raise DataError(found["error"])
    return None if found["last"] is None else int(found["last"])


def _settle_left(log: DecisionLog, sink: Sink, run: str) -> None:
    """What is decided is committed and what is not is taken back, before anything that could wait for its locks."""
    for batch, attempt in sink.held(run):
        with log.owned() as record:
            sink.settle(run, batch, attempt, commit=(batch, attempt) == (record.batch, record.attempt))


@contextmanager
def _soon(sink: Sink) -> Iterator[None]:
    """Ask a sink that does not wait long for locks."""
    wait = sink.wait
    sink.wait_at_most(_LOOK)
    try:
        yield
    finally:
        sink.wait = wait


def close_group(job: Job) -> None:
    """The run is over: other groups may have the targets."""
    record = DecisionLog(job.log_folder).read()
    if record is not None:
        for sink in sinks_of(job).values():
            sink.unclaim(record.group)
