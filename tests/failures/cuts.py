# ruff: noqa: N803 - the paper's letters
"""Is a snapshot any good?  A cut through a run in space and time, judged (Failure Transparency in Stateful Dataflow
Systems, 2024, section 3.2, Figure 3).

A run has for each process its events in order: messages sent, messages received, and what concerns nobody else.  A
snapshot cuts each process at one point: what is before it is in the snapshot.  It is

* **inconsistent** if a message is received before the cut that is sent after it (3a): no execution ever was in that
  state;
* **in flight** if it is consistent, but messages are sent before the cut and received after it (3b, Chandy and
  Lamport): good for recovery only if these messages are kept, too;
* **complete** if neither happens (3c): what Asynchronous Barrier Snapshotting takes, and all that recovery by
  Definition 4.5 needs.

>>> run = SpaceTime({"p": [Send("m"), Send("n")], "q": [Receive("m"), Receive("n")]})
>>> print(judge(run, {"p": 1, "q": 2}))
inconsistent: message n is received by q, but not sent by p
>>> print(judge(run, {"p": 2, "q": 1}))
consistent, with 1 message in flight: n from p to q
>>> print(judge(run, {"p": 1, "q": 1}))
complete: consistent, and nothing is in flight
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import Configuration, Consume, FFail, FRecover, IBorder, Produce
from pellucid.failures.model.explain import Trace


@dataclass(frozen=True)
class Send:
    """A process sends a message."""

    message: Any


@dataclass(frozen=True)
class Receive:
    """A process receives a message."""

    message: Any


@dataclass(frozen=True)
class Local:
    """Something that concerns the process alone."""

    name: str = ""


Event = Send | Receive | Local


@dataclass(frozen=True)
class SpaceTime:
    """A run: the events of each process in their order.  ``inputs`` are messages that come from outside.

    ``readers`` says who must receive a message, where the run itself does not show it (it may end before).
    """

    processes: Mapping[str, Sequence[Event]]
    inputs: frozenset[Any] = frozenset()
    readers: Mapping[Any, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        senders: dict[Any, str] = {}
        for p, events in self.processes.items():
            for event in events:
                if isinstance(event, Send):
                    if event.message in senders:
                        first = senders[event.message]
                        raise DataError(
                            f"message {_text(event.message)} is sent twice, by {first} and by {p}: give each its own "
                            "name"
                        )
                    senders[event.message] = p
        for p, events in self.processes.items():
            taken: set[Any] = set()
            for event in events:
                if isinstance(event, Receive):
                    if event.message not in senders and event.message not in self.inputs:
                        raise DataError(
                            f"message {_text(event.message)} is received by {p}, but nobody sends it in this run"
                        )
                    if event.message in taken:
                        raise DataError(f"message {_text(event.message)} is received twice by {p}")
                    taken.add(event.message)


@dataclass(frozen=True)
class Flight:
    """A message over the cut."""

    message: Any
    sender: str
    receiver: str | None


@dataclass(frozen=True)
class CutJudgement:
    """What a snapshot is worth: ``kind`` is ``inconsistent``, ``in flight`` or ``complete``."""

    not_sent: tuple[Flight, ...]
    in_flight: tuple[Flight, ...]

    @property
    def kind(self) -> str:
        """In a word."""
        return "inconsistent" if self.not_sent else "in flight" if self.in_flight else "complete"

    @property
    def consistent(self) -> bool:
        """Whether no message is received that is not sent."""
        return not self.not_sent

    def __str__(self) -> str:
        if self.not_sent:
            return "inconsistent: " + "; ".join(
                f"message {_text(f.message)} is received by {f.receiver}, but not sent by {f.sender}"
                for f in self.not_sent
            )
        if not self.in_flight:
            return "complete: consistent, and nothing is in flight"
        count = len(self.in_flight)
        listed = "; ".join(
            f"{_text(f.message)} from {f.sender} to {f.receiver or 'nobody yet'}" for f in self.in_flight
        )
        return f"consistent, with {count} message{'s' if count > 1 else ''} in flight: {listed}"


def judge(run: SpaceTime, cut: Mapping[str, int]) -> CutJudgement:
    """Judge a cut: for each process, how many of its events are before it.

    >>> judge(SpaceTime({"p": [Local()]}), {"p": 1}).kind
    'complete'
    """
    for p in run.processes:
        if p not in cut:
            raise UsageError(f"the cut says nothing about process {p!r}: give the number of its events in the snapshot")
    for p, n in cut.items():
        if p not in run.processes:
            raise UsageError(
                f"the cut names process {p!r}, which is not in the run: there are {', '.join(run.processes)}"
            )
        if not 0 <= n <= len(run.processes[p]):
            raise UsageError(f"the cut of process {p!r} is at {n}: it has {len(run.processes[p])} events")
    sent: dict[Any, tuple[str, bool]] = {}  # who sends it, and whether before the cut
    received: dict[Any, list[tuple[str, bool]]] = {}
    for p, events in run.processes.items():
        for i, event in enumerate(events):
            if isinstance(event, Send):
                sent[event.message] = (p, i < cut[p])
            elif isinstance(event, Receive):
                received.setdefault(event.message, []).append((p, i < cut[p]))
    not_sent: list[Flight] = []
    in_flight: list[Flight] = []
    for message, (sender, early) in sent.items():
        by = received.get(message, [])
        if not early:
            not_sent += [Flight(message, sender, p) for p, before in by if before]
            continue
        in_flight += [Flight(message, sender, p) for p, before in by if not before]
        there = {p for p, _ in by}
        late = [p for p in run.readers.get(message, ()) if p not in there]
        in_flight += [Flight(message, sender, p) for p in late]
        if not by and message not in run.readers:
            in_flight.append(Flight(message, sender, None))
    return CutJudgement(tuple(not_sent), tuple(in_flight))


def read_cut(text: str) -> tuple[SpaceTime, dict[str, int]]:
    """A run in space and time with a snapshot of each process: ``p: >m | <n``; a word alone concerns nobody else.

    >>> run, cut = read_cut("p: >m x |  q: <m | y")
    >>> cut, run.processes["q"]
    ({'p': 2, 'q': 1}, [Receive(message='m'), Local(name='y')])
    """
    processes: dict[str, list[Send | Receive | Local]] = {}
    cut: dict[str, int] = {}
    at = ""
    for word in text.split():
        if word.endswith(":") and word[:-1]:
            at = word[:-1]
            processes[at] = []
        elif not at:
            raise UsageError(f"{word!r} comes before the first process: begin with 'name:'")
        elif word == "|":
            if at in cut:
                raise UsageError(f"process {at!r} has two snapshots: put one | into its line")
            cut[at] = len(processes[at])
        else:
            kind = {"<": Receive, ">": Send}.get(word[0], Local)
            processes[at].append(kind(word.lstrip("<>")))  # type: ignore[arg-type]
    for p in processes:
        if p not in cut:
            raise UsageError(f"process {p!r} has no snapshot: put a | into its line")
    return SpaceTime(processes), cut


def snapshot_of(Z: Trace, c: Configuration, epoch: int) -> tuple[SpaceTime, dict[str, int]]:
    """The run of a trace's last generation, and the cut at the tasks' snapshots of an epoch.

    Messages of earlier generations that were kept are before every cut and are left out, as are outputs that no task
    reads.  With `judge` this shows that a trace's snapshots are complete:

    >>> from pellucid.failures.model import Task, initial, steps
    >>> c = d = initial({"a": Task(lambda v, w: (v, [w]), ("i",), "m"), "b": Task(lambda v, w: (v, [w]), ("m",), "o")},
    ...                 {"i": [[1]]}, {"a": 0, "b": 0})
    >>> Z = []
    >>> while enabled := steps(d, failures=False):
    ...     z, d = enabled[0]
    ...     Z.append(z)
    >>> print(judge(*snapshot_of(Z, c, 1)))
    complete: consistent, and nothing is in flight
    """
    readers = {s: tuple(p for p, task in c.Pi.items() if s in task.inputs) for s in [t.output for t in c.Pi.values()]}
    last = max((i + 1 for i, z in enumerate(Z) if isinstance(z, FRecover)), default=0)
    events: dict[str, list[Event]] = {p: [] for p in c.Pi}
    inputs: set[Any] = set()
    cut: dict[str, int] = {}
    for z in Z[last:]:
        if isinstance(z, FRecover):
            continue
        if isinstance(z, FFail):
            events[z.p].append(Local("F-FAIL"))
            continue
        numbers = dict(z.N)
        for x in z.X:
            message = (x.s, numbers[x.s])
            numbers[x.s] += 1
            if isinstance(x, Consume):
                events[z.p].append(Receive(message))
                inputs |= set() if x.s in readers else {message}
            elif isinstance(x, Produce) and readers[x.s]:
                events[z.p].append(Send(message))
        if isinstance(z, IBorder) and z.epoch == epoch:
            cut[z.p] = len(events[z.p])
    missing = [p for p in c.Pi if p not in cut]
    if missing:
        raise DataError(f"epoch {epoch}: {missing[0]} has no snapshot of it in the last generation of the trace")
    sent = {
        event.message: readers[event.message[0]]
        for list_ in events.values()
        for event in list_
        if isinstance(event, Send)
    }
    return SpaceTime(events, frozenset(inputs), sent), cut


def _text(message: Any) -> str:
    return f"{message[1]} on {message[0]}" if isinstance(message, tuple) and len(message) == 2 else str(message)
