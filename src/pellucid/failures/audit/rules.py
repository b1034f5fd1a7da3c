"""The rules of the model, asked of a recorded trace with NumPy: no step is looked at on its own in Python.

Each rule is local: it compares a step with the one before it in the same task, or a message with its producer.  So one
broken step is reported once, where it is broken, and not again at every step after it.  What holds for every such pair
holds for the whole trace: numbers that go up by one from the right start are 0, 1, 2, …; epochs that go up exactly at
borders are aligned; and steps ordered in each task, with messages that only go down an acyclic graph within one
generation, have a causal order (Definition 6.4), because a cycle would have to go up the graph again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pellucid.failures.audit import recorded as rec
from pellucid.failures.audit.arrays import Array, Columns, Messages, reordered
from pellucid.failures.audit.recorded import FIRST_EPOCH
from pellucid.failures.audit.words import Violation
from pellucid.internal.engine.epochs.recording import COORDINATOR, RULES

NEVER = np.int64(1) << 62  # an epoch after all others
UNKNOWN = -NEVER
Node = TypeVar("Node", int, str)


@dataclass
class Findings:
    """Violations: how many of each kind, and the first few of each."""

    limit: int = 5
    counts: dict[tuple[bool, str], int] = field(default_factory=dict)
    first: list[Violation] = field(default_factory=list)
    kept: bool = False  # whether it is the failure-free trace that is looked at

    def add(self, kind: str, c: Columns, steps: Array, **more: Any) -> None:
        """One violation for each of these steps; ``more`` has arrays as long, or one value for all."""
        if not len(steps):
            return
        key = (self.kept, kind)
        self.counts[key] = self.counts.get(key, 0) + len(steps)
        order = np.argsort(steps, kind="stable")[: self.limit] if len(steps) > 1 else [0]
        some = []
        for at in order:
            step = int(steps[at])
            values = {
                name: _plain(value[at]) if isinstance(value, np.ndarray | list) else value
                for name, value in more.items()
            }
            if "stream" in values:
                values["stream"] = c.streams[values["stream"]]
            if isinstance(values.get("other"), int):
                values["other"] = c.tasks[values["other"]]
            some.append(
                Violation(
                    kind,
                    c.tasks[int(c.task[step])],
                    int(c.generation[step]),
                    int(c.index[step]),
                    **values,
                    kept=self.kept,
                )
            )
        self._keep(key, some)

    def say(self, violation: Violation) -> None:
        """One violation that was found otherwise."""
        key = (violation.kept, violation.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        self._keep(key, [violation])

    def _keep(self, key: tuple[bool, str], some: list[Violation]) -> None:
        """The first of each kind, in the order of the trace: a rule may be asked of one stream after the other."""
        mine = [v for v in self.first if (v.kept, v.kind) == key]
        if mine:  # in place: what is asked of the kept steps goes into the same list
            self.first[:] = [v for v in self.first if (v.kept, v.kind) != key]
        self.first += sorted([*mine, *some], key=lambda v: v.place)[: self.limit]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class TraceFrame:
    """What the rules share about one trace: its generations, who talks to whom, which border comes next."""

    c: Columns
    work: Array  # SOURCE, I-EVENT, I-BORDER: the steps of the failure-free model
    border: Array  # steps that end an epoch of their task
    durable: Array  # SNAPSHOT steps; without any on record an I-BORDER is one, as in the paper
    segment: Array  # one number for each task in each generation
    starts: Array  # by generation: the epoch that it went back to; UNKNOWN without an F-RECOVER
    ends: Array  # by generation: the epoch that the recovery at its end went to; NEVER for the last
    cuts: Array  # by generation: the last epoch of it that was kept
    next_border: Array  # by step: the epoch of the snapshot that has it, NEVER if none
    last_border: Array  # by task and generation: the epoch of its last border, UNKNOWN if none
    consumers: Array  # pairs of task and stream, one row for each

    @property
    def generations(self) -> int:
        return len(self.starts)


def frame(c: Columns, targets: dict[int, int]) -> TraceFrame:
    """``targets``: by generation, the epoch that its F-RECOVER went back to."""
    generations = int(max(c.generation.max(initial=0), max(targets, default=0))) + 1
    starts, ends = limits(targets, generations)
    segment = c.task.astype(np.int64) * generations + c.generation
    border = borders(c)
    at = np.where(border, np.arange(len(c)), len(c))
    following = np.minimum.accumulate(at[::-1])[::-1] if len(c) else at
    inside = following < len(c)
    safe = np.where(inside, following, 0)
    inside &= segment[safe] == segment if len(c) else inside
    durable = c.rule == rec.SNAPSHOT
    last = np.full(len(c.tasks) * generations, UNKNOWN, dtype=np.int64)
    np.maximum.at(last, segment[border], c.epoch[border])
    consumers, _ = _pairs(c, c.consumed)
    work = (c.rule == rec.SOURCE) | (c.rule == rec.EVENT) | (c.rule == rec.BORDER)
    next_border = np.where(inside, c.epoch[safe] if len(c) else 0, NEVER)
    return TraceFrame(
        c,
        work,
        border,
        durable if durable.any() else border,
        segment,
        starts,
        ends,
        later_cuts(ends),
        next_border,
        last,
        consumers,
    )


def limits(targets: dict[int, int], generations: int) -> tuple[Array, Array]:
    """By generation: the epoch that it went back to, and the epoch that the recovery at its end went to."""
    starts = np.full(generations, UNKNOWN, dtype=np.int64)
    ends = np.full(generations, NEVER, dtype=np.int64)
    for generation, epoch in targets.items():
        starts[generation] = epoch
        ends[max(generation - 1, 0)] = epoch
    starts[0] = FIRST_EPOCH - 1
    return starts, ends


def later_cuts(ends: Array) -> Array:
    """By generation: the least epoch that a recovery after it went to."""
    out: Array = np.minimum.accumulate(ends[::-1])[::-1]
    return out


def borders(c: Columns) -> Array:
    """The steps that end an epoch: I-BORDER, and a SOURCE that sends borders."""
    out: Array = c.rule == rec.BORDER
    sent = c.produced.step[c.produced.border]
    out[sent[c.rule[sent] == rec.SOURCE]] = True
    return out


def well_formed(c: Columns, found: Findings, generations: set[int]) -> Columns:
    """Indices without holes, generations that go up, steps of the right shape.  The trace sorted by generation, too,
    where a negative one counts as the first."""
    first = np.ones(len(c), dtype=bool)
    first[1:] = c.task[1:] != c.task[:-1]
    wanted = np.where(first, 0, np.concatenate([[0], c.index[:-1] + 1]) if len(c) else 0)
    bad = np.flatnonzero(c.index != wanted)
    found.add("index", c, bad, a=wanted[bad])
    before = np.concatenate([c.generation[:1], c.generation[:-1]])
    back = np.flatnonzero(~first & (c.generation < before))
    found.add("generation-back", c, back, a=before[back])
    # Each generation but the first begins with an F-RECOVER.
    known = np.array(sorted({0} | generations), dtype=np.int64)
    # A coordinator may die between two generations: then one of them has nothing but failures.
    acts = (c.rule != rec.FAIL) & (c.rule != rec.LOST)
    found.add("generation-unknown", c, np.flatnonzero(~np.isin(c.generation, known) & acts))
    if len(back) or c.generation.min(initial=0) < 0:
        generation = np.maximum(c.generation, 0)
        order = np.lexsort((c.index, generation, c.task))
        c = reordered(c, order, generation[order])
    shapes(c, found)
    return c


def shapes(c: Columns, found: Findings) -> None:
    """Each step has the shape of its rule, and none comes after the failure of its task."""
    size = len(c)
    taken, took_borders = (
        np.bincount(c.consumed.step, minlength=size),
        np.bincount(c.consumed.step[c.consumed.border], minlength=size),
    )
    made, made_borders = (
        np.bincount(c.produced.step, minlength=size),
        np.bincount(c.produced.step[c.produced.border], minlength=size),
    )
    rule = c.rule
    bad = np.flatnonzero(rule == rec.UNKNOWN_RULE)
    found.add("unknown-rule", c, bad, other=", ".join(sorted(c.unknown)))
    bad = np.flatnonzero((rule == rec.EVENT) & ((taken == 0) | (took_borders != 0)))
    found.add("event-shape", c, bad, a=(taken - took_borders)[bad], b=took_borders[bad])
    bad = np.flatnonzero((rule == rec.BORDER) & ((taken != took_borders) | (made != made_borders)))
    found.add("border-shape", c, bad, a=(taken - took_borders)[bad], b=(made - made_borders)[bad])
    bad = np.flatnonzero((rule == rec.SOURCE) & ((taken != 0) | (made_borders * (made - made_borders) != 0)))
    found.add("source-shape", c, bad, a=taken[bad], b=made_borders[bad])
    silent = np.isin(np.arange(rec.UNKNOWN_RULE + 1), (rec.SNAPSHOT, rec.COMMIT, rec.FAIL, rec.LOST, rec.RECOVER))
    bad = np.flatnonzero(silent[rule])
    bad = bad[taken[bad] + made[bad] != 0]
    found.add("quiet-shape", c, bad, a=(taken + made)[bad], other=[RULES[of] for of in rule[bad].tolist()])
    bad = np.flatnonzero((rule == rec.BORDER) & ~c.stored)
    found.add("no-snapshot", c, bad)
    early = np.flatnonzero(c.produced.border & (rule[c.produced.step] == rec.EVENT))
    found.add("border-early", c, c.produced.step[early], stream=c.produced.stream[early], n=c.produced.n[early])
    failed = rule == rec.FAIL
    if failed.any():
        segment = c.task.astype(np.int64) * (int(c.generation.max()) + 1) + c.generation
        gone = np.zeros(int(segment.max()) + 1, dtype=np.int64)
        np.maximum.at(gone, segment[failed], size - np.flatnonzero(failed))  # the first F-FAIL is the greatest of these
        after = (gone[segment] > 0) & (np.arange(size) > size - gone[segment])
        found.add("after-fail", c, np.flatnonzero(after & (rule != rec.FAIL) & (rule != rec.LOST)))


def streams(f: TraceFrame, found: Findings) -> None:
    """One producer for each stream; the graph of tasks has no cycle."""
    c = f.c
    producers: dict[int, list[int]] = {}
    pairs, first = _pairs(c, c.produced)
    for (task, stream), at in zip(pairs.tolist(), first.tolist(), strict=True):
        before = producers.setdefault(stream, [])
        if before:
            found.add("two-producers", c, c.produced.step[[at]], stream=np.array([stream]), other=c.tasks[before[-1]])
        before.append(task)
    above: dict[int, set[int]] = {}
    for t, s in f.consumers.tolist():
        above.setdefault(t, set()).update(producers.get(s, []))
    for task_number in sorted(above):
        way = way_back(task_number, above)
        if way:
            found.say(Violation("cycle", c.tasks[task_number], 0, -1, other=" → ".join(c.tasks[t] for t in way)))
            break


def _pairs(c: Columns, m: Messages) -> tuple[Array, Array]:
    """Which task has which stream, and the first message of each pair."""
    width = max(len(c.streams), 1)
    key = c.task[m.step].astype(np.int64) * width + m.stream
    first = np.full(max(len(c.tasks), 1) * width, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(m))[::-1]  # the last to be written stays
    there = np.flatnonzero(first >= 0)
    return np.stack(np.divmod(there, width), axis=1), first[there]


def way_back(start: Node, above: dict[Node, set[Node]]) -> list[Node] | None:
    """A path from a task over its producers back to itself."""
    came: dict[Node, Node] = {}
    todo = [start]
    while todo:
        task = todo.pop(0)
        for producer in sorted(above.get(task, ())):
            if producer == start:
                way: list[Node] = [task]
                while way[-1] != start:
                    way.append(came[way[-1]])
                way.insert(0, start)
                return way
            if producer not in came:
                came[producer] = task
                todo.append(producer)
    return None


def degrees(c: Columns) -> tuple[Array, Array]:
    """By task: how many streams it takes from, and how many it sends to."""
    taken, made = (np.bincount(_pairs(c, m)[0][:, 0], minlength=len(c.tasks)) for m in (c.consumed, c.produced))
    return taken, made


def alignment(f: TraceFrame, found: Findings) -> None:
    """Epochs go up by one, exactly at borders; a border moves on all inputs and outputs at once."""
    c = f.c
    inputs, outputs = degrees(c)
    steps = np.flatnonzero(f.work)
    if not len(steps):
        return
    same = np.zeros(len(steps), dtype=bool)
    same[1:] = f.segment[steps[1:]] == f.segment[steps[:-1]]
    wanted = np.empty(len(steps), dtype=np.int64)
    wanted[1:] = c.epoch[steps[:-1]] + f.border[steps[:-1]]
    begin = np.flatnonzero(~same)
    start = f.starts[c.generation[steps[begin]]]
    wanted[begin] = np.where(start == UNKNOWN, c.epoch[steps[begin]], start + 1)
    for first, kind in ((False, "epoch"), (True, "epoch-start")):
        bad = np.flatnonzero((c.epoch[steps] != wanted) & (same != first))
        found.add(kind, c, steps[bad], a=wanted[bad], b=c.epoch[steps[bad]])
    borders = np.flatnonzero(f.border)
    for messages, of, kind in ((c.consumed, inputs, "border-inputs"), (c.produced, outputs, "border-outputs")):
        all_of = of[c.task[borders]]
        moved = np.bincount(messages.step, minlength=len(c))[borders]
        bad = np.flatnonzero(moved != all_of)
        found.add(kind, c, borders[bad], a=moved[bad], b=all_of[bad])


def tasks_of(c: Columns) -> list[int]:
    """The numbers of the tasks, without the coordinator."""
    return [number for number, name in enumerate(c.tasks) if name != COORDINATOR]
