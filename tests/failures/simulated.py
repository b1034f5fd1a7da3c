"""Random runs of the protocol, recorded: graphs of tasks, schedules, crashes and recoveries, from one seed.

Independent of the model and of the runtime: a direct simulation with lists, so that it can be an oracle for the audit.
A task adds up what it takes and sends sums on; sources replay a log.  ``faults`` breaks the protocol on purpose.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
BORDER = 0  # the digest of every border


@dataclass
class Task:
    name: str
    inputs: list[str]
    output: str | None
    log: list[list[int]] = field(default_factory=list)  # a source's epochs
    epoch: int = 1
    state: int = 0
    place: int = 0  # a source's position in its epoch
    numbers: dict[str, int] = field(default_factory=dict)
    archive: dict[int, tuple[int, dict[str, int]]] = field(default_factory=dict)
    alive: bool = True
    committed: int = 0
    copies: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)  # snapshots that are not yet durable


class World:
    """A graph of tasks that runs step by step at random, and its recorded rows."""

    def __init__(
        self,
        rng: random.Random,
        *,
        sources: int = 2,
        tasks: int = 3,
        epochs: int = 3,
        events: int = 3,
        faults: frozenset[str] = frozenset(),
        atomic: bool = False,
    ) -> None:
        self.atomic = (
            atomic  # a border stores its snapshot, as in the paper; else a SNAPSHOT follows, as in the runtime
        )
        self.rng, self.epochs, self.faults = rng, epochs, faults
        self.tasks: list[Task] = []
        self.rows: list[Row] = []
        self.indices: dict[str, int] = {}
        self.generation, self.clock = 0, 0
        streams: list[str] = []
        for at in range(sources):
            log = [[rng.randrange(1, 1000) for _ in range(rng.randrange(events + 1))] for _ in range(epochs)]
            self.tasks.append(Task(f"source{at}", [], f"in{at}", log))
            streams.append(f"in{at}")
        for at in range(tasks):
            inputs = sorted(rng.sample(streams, min(len(streams), rng.randrange(1, 4))))
            last = at == tasks - 1
            self.tasks.append(Task(f"task{at}", inputs, None if last else f"out{at}"))
            if not last:
                streams.append(f"out{at}")
        used = {s for t in self.tasks for s in t.inputs}
        for t in self.tasks:  # what is not read is no stream of the trace's graph: the last task takes it
            if t.output and t.output not in used:
                self.tasks[-1].inputs = sorted({*self.tasks[-1].inputs, t.output})
        for t in self.tasks:
            t.numbers = dict.fromkeys([*t.inputs, *([t.output] if t.output else [])], 0)
            t.archive = {0: (0, dict(t.numbers))}
        self.sinks = [t for t in self.tasks if t.output is None]
        self.streams: dict[str, list[tuple[bool, int, int]]] = {t.output: [] for t in self.tasks if t.output}

    def record(self, task: str, rule: str, epoch: int, **more: Any) -> None:
        index = self.indices.get(task, 0)
        self.indices[task] = index + 1
        self.clock += 1
        self.rows.append(
            {
                "task": task,
                "generation": self.generation,
                "index": index,
                "rule": rule,
                "epoch": epoch,
                "consumed": [],
                "produced": [],
                "state": None,
                "time": self.clock,
                **more,
            }
        )

    def send(self, t: Task, border: bool, digest: int) -> list[tuple[str, int, bool, int]]:
        if t.output is None:
            return []
        n = t.numbers[t.output]
        t.numbers[t.output] = n + 1
        self.streams[t.output].append((border, digest, t.epoch))
        return [(t.output, n, border, digest)]

    def head(self, t: Task, stream: str) -> tuple[bool, int, int] | None:
        waiting = self.streams[stream]
        return waiting[t.numbers[stream]] if t.numbers[stream] < len(waiting) else None

    def moves(self, t: Task) -> list[Any]:
        if not t.alive:
            return []
        if not t.inputs:
            if t.epoch > self.epochs:
                return []
            return ["source"] if t.place < len(t.log[t.epoch - 1]) else ["border"]
        heads = {s: self.head(t, s) for s in t.inputs}
        if all(h is not None and h[0] for h in heads.values()):
            return ["border"]
        return [("event", s) for s, h in heads.items() if h is not None and not h[0]]

    def step(self, t: Task, move: Any) -> None:
        if move == "source":
            value = t.log[t.epoch - 1][t.place]
            t.place += 1
            t.state = (t.state * 31 + value) % (1 << 40)
            noise = self.generation if "unreplayable" in self.faults and t.name == "source0" else 0
            self.record(t.name, "SOURCE", t.epoch, produced=self.send(t, False, value + noise))
        elif move == "border":
            self.border(t)
        else:
            stream = move[1]
            _, digest, _ = self.head(t, stream)  # type: ignore[misc]
            consumed = [(stream, t.numbers[stream], False, digest)]
            t.numbers[stream] += 1
            t.state = (t.state * 31 + digest) % (1 << 40)
            noise = self.generation if "clock" in self.faults and t.name == "task0" else 0
            produced = [m for k in range(digest % 3) for m in self.send(t, False, (t.state + k + noise) % (1 << 40))]
            self.record(t.name, "I-EVENT", t.epoch, consumed=consumed, produced=produced)

    def border(self, t: Task) -> None:
        consumed = []
        for stream in t.inputs:
            consumed.append((stream, t.numbers[stream], True, BORDER))
            t.numbers[stream] += 1
        if "commit-first" in self.faults and t in self.sinks and t.committed < t.epoch:
            t.committed = t.epoch
            self.record(t.name, "COMMIT", t.epoch)
        produced = self.send(t, True, BORDER)
        if not t.inputs and not self.atomic:
            self.record(t.name, "SOURCE", t.epoch, produced=produced)
        else:
            self.record(t.name, "I-BORDER", t.epoch, consumed=consumed, produced=produced, state=t.state)
        t.copies.append((t.epoch, t.state, dict(t.numbers)))
        if self.atomic:
            self.durable(t)
        t.epoch, t.place = t.epoch + 1, 0

    def durable(self, t: Task) -> None:
        epoch, state, numbers = t.copies.pop(0)
        t.archive[epoch] = (state, numbers)
        if not self.atomic:
            self.record(t.name, "SNAPSHOT", epoch, produced=[(f"ack:{t.name}", epoch, False, state)])

    def commit(self, t: Task) -> None:
        t.committed += 1
        acks = (
            []
            if self.atomic
            else [(f"ack:{o.name}", t.committed, False, o.archive[t.committed][0]) for o in self.tasks]
        )
        self.record(t.name, "COMMIT", t.committed, consumed=acks)

    def common(self) -> int:
        return min(max(t.archive) for t in self.tasks)

    def commits(self) -> list[Task]:
        return (
            [t for t in self.sinks if t.alive and t.committed < self.common()]
            if "commit-first" not in self.faults
            else []
        )

    def recover(self) -> None:
        to = self.common()
        self.generation += 1
        self.record("coordinator", "F-RECOVER", to)
        for t in self.tasks:
            t.copies = []
            t.archive = {e: a for e, a in t.archive.items() if e <= to}
            t.state, numbers = t.archive[to]
            t.numbers, t.epoch, t.place, t.alive = dict(numbers), to + 1, 0, True
        for stream, messages in self.streams.items():
            self.streams[stream] = [m for m in messages if m[2] <= to]

    def run(self, crashes: int) -> list[Row]:
        """Until nothing can move; the rows of each task together."""
        while True:
            moves: list[tuple[Task, Any]] = [(t, m) for t in self.tasks for m in self.moves(t)]
            commits = self.commits()
            copies = [t for t in self.tasks if t.alive and t.copies]
            dead = [t for t in self.tasks if not t.alive]
            if dead and (self.rng.random() < 0.3 or not moves):
                self.recover()
            elif crashes and self.rng.random() < 0.05:
                crashes -= 1
                victim = self.rng.choice(self.tasks)
                if victim.alive:
                    victim.alive = False
                    self.record(victim.name, "F-FAIL", victim.epoch)
            elif commits and self.rng.random() < 0.5:
                self.commit(self.rng.choice(commits))
            elif copies and (self.rng.random() < 0.4 or not moves):
                self.durable(self.rng.choice(copies))
            elif moves:
                self.step(*self.rng.choice(moves))
            elif not commits and not dead and not copies:
                return sorted(self.rows, key=lambda r: (r["task"], r["index"]))


def simulated(
    seed: int, *, crashes: int = 2, faults: frozenset[str] = frozenset(), epochs: int = 3, events: int = 3
) -> list[Row]:
    """A random run, from its seed."""
    rng = random.Random(seed)
    world = World(
        rng,
        sources=rng.randrange(1, 3),
        tasks=rng.randrange(1, 5),
        epochs=epochs,
        events=events,
        faults=faults,
        atomic=rng.random() < 0.3,
    )
    return world.run(crashes)


# Ways to falsify a recorded trace, each with the reasons for which it must be refused.

Change = Callable[[list[Row], int, random.Random], None]
Tamper = Callable[[list[Row], random.Random], "list[Row] | None"]
WORK = ("SOURCE", "I-EVENT", "I-BORDER")


def tampering(wanted: Callable[[list[Row], int], bool], *, renumber: bool = False) -> Callable[[Change], Tamper]:
    """Change a row that is drawn among those that are wanted; None where there is none.  ``renumber``: the indices hide
    it."""

    def made(change: Change) -> Tamper:
        def tamper(rows: list[Row], rng: random.Random) -> list[Row] | None:
            found = [at for at in range(len(rows)) if wanted(rows, at)]
            if not found:
                return None
            change(rows, rng.choice(found), rng)
            return renumbered(rows) if renumber else rows

        return tamper

    return made


def renumbered(rows: list[Row]) -> list[Row]:
    """Indices without holes, in the order of the rows."""
    counts: dict[str, int] = {}
    for row in rows:
        row["index"] = counts.get(row["task"], 0)
        counts[row["task"]] = row["index"] + 1
    return rows


def _same(rows: list[Row], i: int, *names: str) -> bool:
    """Whether a row has the same values as the one before it."""
    return i > 0 and all(rows[i][name] == rows[i - 1][name] for name in ("task", "generation", *names))


def _goes_on(rows: list[Row], i: int) -> bool:
    return i + 1 < len(rows) and rows[i + 1]["task"] == rows[i]["task"]


def _missed(rows: list[Row], i: int) -> bool:
    """Whether a later step of the task in this generation has a stream in common with this one."""
    return rows[i]["rule"] in WORK and any(
        r["rule"] in WORK
        and (r["task"], r["generation"]) == (rows[i]["task"], rows[i]["generation"])
        and any({m[0] for m in rows[i][side]} & {m[0] for m in r[side]} for side in ("consumed", "produced"))
        for r in rows[i + 1 :]
    )


@tampering(
    lambda rows, i: (
        rows[i]["rule"] == "I-EVENT"
        and _same(rows, i, "rule")
        and rows[i]["consumed"][0][0] == rows[i - 1]["consumed"][0][0]
    ),
    renumber=True,
)
def moved(rows: list[Row], at: int, rng: random.Random) -> None:
    """Two events that a task took from the same stream change their places."""
    rows[at - 1], rows[at] = rows[at], rows[at - 1]


@tampering(lambda rows, i: rows[i]["rule"] == "I-EVENT")
def altered(rows: list[Row], at: int, rng: random.Random) -> None:
    """A message arrives as another."""
    stream, n, border, digest = rows[at]["consumed"][0]
    rows[at]["consumed"][0] = (stream, n, border, digest + 1)


@tampering(lambda rows, i: rows[i]["rule"] == "I-BORDER" and _goes_on(rows, i))
def skipped_epoch(rows: list[Row], at: int, rng: random.Random) -> None:
    """A task counts one epoch too far from some border on."""
    task, generation = rows[at]["task"], rows[at]["generation"]
    for row in rows[at:]:
        if row["task"] == task and row["generation"] == generation:
            row["epoch"] += 1


@tampering(lambda rows, i: rows[i]["rule"] == "COMMIT", renumber=True)
def commit_again(rows: list[Row], at: int, rng: random.Random) -> None:
    """An epoch is committed twice."""
    rows.insert(at + 1, copy.deepcopy(rows[at]))


@tampering(_missed, renumber=True)
def dropped(rows: list[Row], at: int, rng: random.Random) -> None:
    """A step is missing, and the indices hide it; the last steps of a generation may be missing in any trace."""
    del rows[at]


@tampering(_goes_on)
def hole(rows: list[Row], at: int, rng: random.Random) -> None:
    """A step is missing."""
    del rows[at]


@tampering(
    lambda rows, i: rows[i]["rule"] == "I-BORDER" and _same(rows, i) and rows[i - 1]["rule"] == "I-EVENT",
    renumber=True,
)
def early_snapshot(rows: list[Row], at: int, rng: random.Random) -> None:
    """A task takes its border before the last event of the epoch."""
    rows[at - 1], rows[at] = rows[at], rows[at - 1]


@tampering(lambda rows, i: rows[i]["rule"] == "F-RECOVER")
def other_recovery(rows: list[Row], at: int, rng: random.Random) -> None:
    """A recovery goes to an epoch that is not the common one."""
    rows[at]["epoch"] += rng.choice([1, -1]) if rows[at]["epoch"] else 1


@tampering(lambda rows, i: rows[i]["rule"] == "COMMIT")
def early_commit(rows: list[Row], at: int, rng: random.Random) -> None:
    """A sink commits an epoch further than it may."""
    rows[at]["epoch"] += 100


@tampering(lambda rows, i: rows[i]["rule"] == "I-BORDER" and len(rows[i]["consumed"]) > 1)
def unaligned(rows: list[Row], at: int, rng: random.Random) -> None:
    """A border is taken on all inputs but one."""
    del rows[at]["consumed"][rng.randrange(len(rows[at]["consumed"]))]


@tampering(lambda rows, i: rows[i]["rule"] == "I-EVENT" and bool(rows[i]["produced"]))
def early_border(rows: list[Row], at: int, rng: random.Random) -> None:
    """A border goes out with an event, before the snapshot."""
    stream, n, _, digest = rows[at]["produced"][-1]
    rows[at]["produced"][-1] = (stream, n, True, digest)


@tampering(lambda rows, i: True)
def unknown_rule(rows: list[Row], at: int, rng: random.Random) -> None:
    """A step of a rule that there is not."""
    rows[at]["rule"] = "I-GUESS"


@tampering(lambda rows, i: rows[i]["rule"] in WORK and rows[i]["generation"] > 0 and _same(rows, i))
def back_in_time(rows: list[Row], at: int, rng: random.Random) -> None:
    """A step after a recovery says that it was before."""
    rows[at]["generation"] -= 1


@tampering(lambda rows, i: rows[i]["rule"] in ("SOURCE", "I-EVENT") and bool(rows[i]["produced"]), renumber=True)
def second_producer(rows: list[Row], at: int, rng: random.Random) -> None:
    """Another task sends on a stream, too."""
    rows[at]["task"] += "'"
    rows.sort(key=lambda row: (row["task"], row["index"]))


# name: (the falsification, the checks of which one at least must say no, the kinds of which one at least must be named)
TAMPERINGS: dict[str, tuple[Tamper, set[str]]] = {
    "a step moved": (moved, {"fifo-consumed", "fifo-consumed-start"}),
    "a message altered": (altered, {"altered"}),
    "an epoch skipped": (skipped_epoch, {"epoch", "epoch-start"}),
    "a duplicate commit": (commit_again, {"commit-twice"}),
    "a step dropped": (
        dropped,
        {"fifo-consumed", "fifo-consumed-start", "fifo-produced", "fifo-produced-start", "never-sent"},
    ),
    "a hole": (hole, {"index"}),
    "a snapshot before the last event": (early_snapshot, {"epoch", "in-flight", "fifo-consumed"}),
    "another recovery": (other_recovery, {"recovery-high", "recovery-low", "epoch-start"}),
    "a commit too early": (early_commit, {"commit-early", "commit-before-own"}),
    "a border without alignment": (unaligned, {"border-inputs"}),
    "a border before the snapshot": (early_border, {"border-early"}),
    "an unknown rule": (unknown_rule, {"unknown-rule"}),
    "a generation that goes back": (back_in_time, {"generation-back"}),
    "a second producer": (second_producer, {"two-producers", "fifo-produced", "fifo-produced-start", "index"}),
}
