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

from pellucid.failures.audit import record as rec
from pellucid.failures.audit.findings import KINDS, Violation
from pellucid.failures.audit.record import FIRST_EPOCH, Array, Columns, Messages, reordered
from pellucid.internal.engine.epochs.recording import ACK, COORDINATOR, RULES

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


# The messages of a recorded trace: their order on each stream, and what was sent against what was received.


def stream_starts(f: TraceFrame) -> Array:
    """By stream and generation: the first number (Definition 4.5), which is the one after the border gone back to;
    UNKNOWN if not on record."""
    c = f.c
    out = np.full((max(len(c.streams), 1), f.generations), UNKNOWN, dtype=np.int64)
    out[:, f.starts == FIRST_EPOCH - 1] = 0
    wanted = f.starts[(f.starts != FIRST_EPOCH - 1) & (f.starts != UNKNOWN)]
    chosen = (
        np.flatnonzero(c.produced.border & np.isin(c.epoch[c.produced.step], wanted))
        if len(wanted)
        else np.zeros(0, dtype=np.int64)
    )
    epoch, made = c.epoch[c.produced.step[chosen]], c.generation[c.produced.step[chosen]]
    order = np.lexsort((c.produced.n[chosen], made, epoch))
    epoch, made, chosen = epoch[order], made[order], chosen[order]
    for generation in range(1, f.generations):
        start = f.starts[generation]
        low, high = np.searchsorted(epoch, start, "left"), np.searchsorted(epoch, start, "right")
        part = chosen[low:high][made[low:high] < generation]
        out[c.produced.stream[part], generation] = c.produced.n[part] + 1  # later ones win: they come last
    return out


def fifo(f: TraceFrame, found: Findings) -> None:
    """The messages of a stream are numbered, and taken by each consumer, in order and without holes."""
    starts = stream_starts(f)
    for messages, kind in ((f.c.consumed, "fifo-consumed"), (f.c.produced, "fifo-produced")):
        _in_order(f, messages, starts, kind, found)


def _in_order(f: TraceFrame, m: Messages, starts: Array, kind: str, found: Findings) -> None:
    c = f.c
    if not len(m):
        return
    order = _stable_order(c.task[m.step].astype(np.int64) * len(c.streams) + m.stream, len(c.tasks) * len(c.streams))
    step, stream, n = m.step[order], m.stream[order], m.n[order]
    same = np.zeros(len(m), dtype=bool)
    same[1:] = (stream[1:] == stream[:-1]) & (f.segment[step[1:]] == f.segment[step[:-1]])
    wanted = np.empty(len(m), dtype=np.int64)
    wanted[1:] = n[:-1] + 1
    begin = np.flatnonzero(~same)
    wanted[begin] = starts[stream[begin], c.generation[step[begin]]]
    wrong = (n != wanted) & (wanted != UNKNOWN)
    for first, name in ((False, kind), (True, f"{kind}-start")):
        bad = np.flatnonzero(wrong & (same != first))
        found.add(name, c, step[bad], stream=stream[bad], n=n[bad], a=wanted[bad])


def _stable_order(key: Array, size: int) -> Array:
    """A stable sort of small numbers: by counting (radix) where they fit into 16 bits, which is linear."""
    return np.argsort(key.astype(np.uint16) if size < 1 << 16 else key, kind="stable")


class _Sent:
    """The produced messages by stream, generation and number: found by arithmetic, since numbers have no holes."""

    def __init__(self, f: TraceFrame) -> None:
        c, m = f.c, f.c.produced
        self.generations = f.generations
        group = m.stream.astype(np.int64) * f.generations + c.generation[m.step]
        order = _stable_order(group, len(c.streams) * f.generations)
        group, n = group[order], m.n[order]
        down = (group[1:] == group[:-1]) & (n[1:] <= n[:-1])
        if down.any():
            order = np.lexsort(
                (c.index[m.step], c.task[m.step], m.n, m.stream.astype(np.int64) * f.generations + c.generation[m.step])
            )
            group, n = (m.stream.astype(np.int64) * f.generations + c.generation[m.step])[order], m.n[order]
            twice = np.concatenate([[False], (group[1:] == group[:-1]) & (n[1:] == n[:-1])])
            order, group, n = order[~twice], group[~twice], n[~twice]
        self.at, self.group, self.n = order, group, n
        size = max(len(c.streams), 1) * f.generations
        self.low = np.searchsorted(group, np.arange(size), "left")
        self.high = np.searchsorted(group, np.arange(size), "right")

    def find(self, stream: Array, generation: Array, n: Array) -> Array:
        """The position in this order for each message, -1 for one that was not produced."""
        group = stream.astype(np.int64) * self.generations + generation
        low, high = self.low[group], self.high[group]
        if not len(self.n):
            return np.full(len(n), -1, dtype=np.int64)
        guess = low + n - self.n[np.minimum(low, len(self.n) - 1)]
        fits = (guess >= low) & (guess < high)
        fits &= self.n[np.where(fits, guess, 0)] == n
        out = np.where(fits, guess, -1)
        for at in np.flatnonzero(~fits & (low < high)).tolist():  # only where a trace is wrong
            found = int(low[at] + np.searchsorted(self.n[low[at] : high[at]], n[at]))
            if found < high[at] and self.n[found] == n[at]:
                out[at] = found
        return out


def delivery(f: TraceFrame, found: Findings) -> None:
    """What was consumed had been produced, and was the same; with the epochs and snapshots on both sides."""
    c, m = f.c, f.c.consumed
    sent = _Sent(f)
    where = sent.find(m.stream, c.generation[m.step], m.n)
    lost = np.flatnonzero(where < 0)
    found.add("never-sent", c, m.step[lost], stream=m.stream[lost], n=m.n[lost])
    got = np.flatnonzero(where >= 0)
    p = sent.at[where[got]]
    made = c.produced.step[p]
    taken, stream, n = m.step[got], m.stream[got], m.n[got]

    def bad(kind: str, mask: Array, a: Array, b: Array | None = None) -> None:
        at = np.flatnonzero(mask)
        if len(at):
            more = {} if b is None else {"b": b[at]}
            found.add(kind, c, taken[at], stream=stream[at], n=n[at], a=a[at], other=c.task[made[at]].tolist(), **more)

    bad("altered", c.produced.digest[p] != m.digest[got], c.produced.digest[p], m.digest[got])
    bad(
        "kind-changed",
        c.produced.border[p] != m.border[got],
        c.produced.border[p].astype(np.int64),
        m.border[got].astype(np.int64),
    )
    bad("epoch-crossed", c.epoch[made] != c.epoch[taken], c.epoch[made], c.epoch[taken])
    with_it, sent_in = f.next_border[taken], f.next_border[made]
    bad("orphan", with_it < sent_in, with_it)
    _in_flight(f, sent, got, where, found)


def _in_flight(f: TraceFrame, sent: _Sent, got: Array, where: Array, found: Findings) -> None:
    """Sent in a snapshot that its consumer has taken, too, without having received it."""
    c, m = f.c, f.c.consumed
    made = c.produced.step[sent.at]
    sent_in = f.next_border[made]
    bounds = np.searchsorted(sent.group, np.arange(len(c.streams) + 1) * f.generations)
    several = (
        np.bincount(f.consumers[:, 1], minlength=max(len(c.streams), 1)) > 1
        if len(f.consumers)
        else np.zeros(1, dtype=bool)
    )
    received = np.full(len(sent.at), NEVER, dtype=np.int64)
    alone = got if not several.any() else got[~several[m.stream[got]]]
    place, when = where[alone], f.next_border[m.step[alone]]
    if _twice(place):
        np.minimum.at(received, place, when)
    else:
        received[place] = when
    for task, number in f.consumers.tolist():
        low, high = bounds[number], bounds[number + 1]
        if several[number]:
            mine = got[(m.stream[got] == number) & (c.task[m.step[got]] == task)]
            seen = np.full(high - low, NEVER, dtype=np.int64)
            np.minimum.at(seen, where[mine] - low, f.next_border[m.step[mine]])
        else:
            seen = received[low:high]
        # few: only these need a look at the consumer's last border
        late = low + np.flatnonzero(seen > sent_in[low:high])
        bad = late[f.last_border[task * f.generations + c.generation[made[late]]] >= sent_in[late]]
        found.add(
            "in-flight",
            c,
            made[bad],
            stream=np.full(len(bad), number),
            n=sent.n[bad],
            a=sent_in[bad],
            other=c.tasks[task],
        )


def _twice(places: Array) -> bool:
    """Whether a message is consumed twice (only in a wrong trace)."""
    return len(places) > 0 and int(np.bincount(places).max(initial=0)) > 1


# What a trace says about its crashes: recoveries, snapshots and commits.


def recoveries(c: Columns, found: Findings) -> dict[int, int]:
    """By generation, the epoch that its F-RECOVER went back to: an F-RECOVER is the first thing of its generation."""
    steps = np.flatnonzero(c.rule == rec.RECOVER)
    steps = steps[np.lexsort((c.index[steps], c.generation[steps]))]
    targets: dict[int, int] = {}
    for step in steps.tolist():
        generation = max(int(c.generation[step]), 0)
        if generation in targets:
            found.add("recovery-twice", c, np.array([step]))
        else:
            targets[generation] = int(c.epoch[step])
    return targets


@dataclass(frozen=True)
class Archives:
    """What is durable at the end of each generation: what a recovery can go back to."""

    common: Array  # gce of what is on record
    ever: Array  # the greatest epoch that was common at some time in it: also what was found damaged afterwards
    lost: tuple[bool, ...]  # whether a snapshot turned out to be damaged


def archives(f: TraceFrame) -> Archives:
    """The snapshots on record, generation by generation."""
    c = f.c
    mask = f.durable
    tasks = np.array(tasks_of(c), dtype=np.int64)
    low = int(c.epoch.min(initial=0))
    width = int(c.epoch.max(initial=0)) - low + 1
    lost = [(int(c.generation[s]), int(c.task[s]), int(c.epoch[s])) for s in np.flatnonzero(c.rule == rec.LOST)]
    key = (c.generation[mask] * width + c.epoch[mask] - low) * len(c.tasks) + c.task[mask]
    place, count = np.unique(np.unique(key) // max(len(c.tasks), 1), return_counts=True)
    whole = place[count == len(tasks)]
    return common_epochs(f.starts, whole // width, whole % width + low, lost)


def common_epochs(starts: Array, generation: Array, epoch: Array, lost: list[tuple[int, int, int]]) -> Archives:
    """The greatest common epoch at the end of each generation (Definition 4.2).

    ``generation`` and ``epoch`` name the snapshots that every task stored, ``lost`` those (generation, task, epoch)
    that were damaged.  Of a damaged one that is newer than its generation's start one heard when that generation began.

    >>> common_epochs(np.array([0, 2]), np.array([0, 0, 1]), np.array([1, 2, 3]), [(1, 0, 2)]).common
    array([2, 3])
    >>> common_epochs(np.array([0, 1]), np.array([0, 0]), np.array([1, 2]), [(1, 0, 2)]).common
    array([1, 1])
    """
    common = np.empty(len(starts), dtype=np.int64)
    gone: dict[int, set[int]] = {}
    for when, _, of in lost:
        gone.setdefault(when - 1 if of > starts[when] else when, set()).add(of)
    have: set[int] = {FIRST_EPOCH - 1}
    bounds = np.searchsorted(generation, np.arange(len(starts) + 1))
    for at in range(len(starts)):
        if starts[at] != UNKNOWN:
            have = {e for e in have if e <= starts[at]} | {int(starts[at])}
        have |= set(epoch[bounds[at] : bounds[at + 1]].tolist())
        have -= gone.get(at, set())
        common[at] = max(have, default=FIRST_EPOCH - 1)
    ever = common
    if gone:
        ever = np.maximum(common, starts)
        np.maximum.at(ever, generation, epoch)
    return Archives(common, ever, tuple(bool(gone.get(at)) for at in range(len(starts))))


def recovery(f: TraceFrame, found: Findings, stored: Archives) -> None:
    """Every recovery goes to ``gce`` (Definition 4.2), after a failure.

    A snapshot may be durable although the task died before it could say so; then its border is on record, and a
    recovery may go to it.  What is on record as durable must be there.
    """
    c = f.c
    failed = set(c.generation[(c.rule == rec.FAIL)].tolist()) | {at for at, gone in enumerate(stored.lost) if gone}
    tasks = tasks_of(c)
    last = f.last_border.reshape(len(c.tasks), f.generations)
    undone = {int(g) for g in np.unique(c.generation[f.work & (c.epoch > f.cuts[c.generation])])}
    # A run that was stopped before its first snapshot has borders on record and nothing to go back to.
    durable_on_record = bool(((c.rule == rec.SNAPSHOT) | (c.rule == rec.COMMIT)).any())
    seen: set[int] = set()
    before = 0  # the generation that it ends: those without a step do not count
    steps = np.flatnonzero(c.rule == rec.RECOVER)
    for step in steps[np.lexsort((c.index[steps], c.generation[steps]))].tolist():
        generation, epoch = int(c.generation[step]), int(c.epoch[step])
        if generation in seen or generation == 0:
            continue
        seen.add(generation)
        ended = range(before, generation)
        common = int(stored.common[generation - 1])
        if epoch < common and durable_on_record:
            found.add("recovery-low", c, np.array([step]), a=epoch, b=common)
        for task in tasks if epoch > common else ():
            reached = int(max(last[task, g] for g in ended))
            if reached < epoch:
                known = max(reached, int(f.starts[before]), FIRST_EPOCH - 1)
                found.add("recovery-high", c, np.array([step]), a=epoch, b=known, other=c.tasks[task])
                break
        if not failed & set(ended) and undone & set(ended):
            found.add("recovery-idle", c, np.array([step]))
        before = generation


def snapshots(f: TraceFrame, found: Findings) -> None:
    """A snapshot is stored after the border of its epoch, once in a generation."""
    c = f.c
    steps = np.flatnonzero(c.rule == rec.SNAPSHOT)
    bad = steps[_reached(f, f.border, steps) < c.epoch[steps]]
    found.add("snapshot-early", c, bad, a=c.epoch[bad])
    order = np.lexsort((steps, c.epoch[steps], f.segment[steps]))
    o = steps[order]
    again = np.concatenate([[False], (f.segment[o[1:]] == f.segment[o[:-1]]) & (c.epoch[o[1:]] == c.epoch[o[:-1]])])[
        : len(o)
    ]
    found.add("snapshot-twice", c, np.sort(o[again]), a=c.epoch[np.sort(o[again])])


def _reached(f: TraceFrame, mask: Array, steps: Array) -> Array:
    """For each of these steps: the greatest epoch of the masked steps of the same task before it."""
    c = f.c
    marked = np.flatnonzero(mask)
    out = np.full(len(steps), FIRST_EPOCH - 1, dtype=np.int64)
    for number in np.unique(c.task[steps]).tolist():
        mine, own = np.flatnonzero(c.task[steps] == number), marked[c.task[marked] == number]
        reached = np.concatenate([[FIRST_EPOCH - 1], np.maximum.accumulate(c.epoch[own])])
        out[mine] = reached[np.searchsorted(own, steps[mine])]
    return out


def commits(f: TraceFrame, found: Findings, stored: Archives) -> int:
    """Each epoch becomes visible once, in order, when all tasks have its snapshot; the last one that every sink has."""
    c = f.c
    if len(c.heard) or len(c.told):
        deaf(f, found)
        unfounded(f, found)
    return visible(f, found, stored, np.unique(c.task[f.durable]))


def visible(f: TraceFrame, found: Findings, stored: Archives, storing: Array) -> int:
    """The epochs of the commits against each other and against the snapshots; ``storing`` are the tasks that have any
    on record."""
    c = f.c
    steps = np.flatnonzero(c.rule == rec.COMMIT)
    if not len(steps):
        return FIRST_EPOCH - 1
    task, epoch, generation = c.task[steps], c.epoch[steps], c.generation[steps]
    new = epoch > f.starts[generation]  # what was gone back to is durable everywhere
    bad = np.flatnonzero((_reached(f, f.durable, steps) < epoch) & new & np.isin(task, storing))
    found.add("commit-before-own", c, steps[bad], a=epoch[bad])
    bad = np.flatnonzero((stored.ever[generation] < epoch) & new)
    found.add("commit-early", c, steps[bad], a=epoch[bad], b=stored.common[generation[bad]])
    # A snapshot that was damaged may take a recovery below what is visible: then it stays visible, and is replayed.
    cuts = later_cuts(np.where(np.array([*stored.lost], dtype=bool), NEVER, f.ends))
    back = np.flatnonzero(cuts[generation] < epoch)
    found.add("commit-back", c, steps[back], a=epoch[back], b=cuts[generation[back]])
    ends_of = []
    for number in np.unique(task).tolist():
        mine = np.flatnonzero(task == number)
        before = np.concatenate([[FIRST_EPOCH - 1], np.maximum.accumulate(epoch[mine])[:-1]])
        # A commit is on record before it is done: the last one may be done again after a crash.
        later = np.concatenate([[False], generation[mine][1:] > generation[mine][:-1]])
        twice = (epoch[mine] == before) & ~later
        found.add("commit-twice", c, steps[mine[twice]], a=epoch[mine[twice]])
        down = epoch[mine] < before
        found.add("commit-order", c, steps[mine[down]], a=epoch[mine[down]], b=before[down])
        ends_of.append(int(epoch[mine].max()))
    return min(ends_of)


def deaf(f: TraceFrame, found: Findings) -> None:
    """The causal order of a commit: it comes after the snapshots of all tasks, because it has heard of each."""
    c = f.c
    steps = np.flatnonzero(c.rule == rec.COMMIT)
    tasks = tasks_of(c)
    number = {f"{ACK}{name}": at for at, name in enumerate(c.tasks)}
    of = np.array([number.get(name, -1) for name in c.streams] or [-1], dtype=np.int64)
    place = np.full(len(c), -1, dtype=np.int64)
    place[steps] = np.arange(len(steps))
    right = (place[c.heard.step] >= 0) & (of[c.heard.stream] >= 0) & (c.heard.n == c.epoch[c.heard.step])
    heard = np.zeros((len(steps), len(c.tasks)), dtype=bool)
    heard[place[c.heard.step[right]], of[c.heard.stream[right]]] = True
    for task in tasks:
        bad = steps[~heard[:, task]]
        found.add("commit-deaf", c, bad, a=c.epoch[bad], other=c.tasks[task])


def unfounded(f: TraceFrame, found: Findings) -> None:
    """An ack that was heard has been told in this generation, or a recovery has found the snapshot."""
    c = f.c
    low = int(min(c.told.n.min(initial=0), c.heard.n.min(initial=0)))
    width = int(max(c.told.n.max(initial=0), c.heard.n.max(initial=0))) - low + 1

    def key(m: Messages, generation: Array) -> Array:
        out: Array = (m.stream.astype(np.int64) * width + (m.n - low)) * f.generations + generation
        return out

    told = c.told.chosen(c.rule[c.told.step] == rec.SNAPSHOT)
    now = np.isin(key(c.heard, c.generation[c.heard.step]), key(told, c.generation[told.step]))
    kept = c.heard.n <= f.starts[c.generation[c.heard.step]]
    bad = np.flatnonzero(~now & ~kept)
    found.add(
        "commit-unfounded",
        c,
        c.heard.step[bad],
        a=c.epoch[c.heard.step[bad]],
        stream=c.heard.stream[bad],
        n=c.heard.n[bad],
    )


# What was done again after a recovery: from the same snapshot and the same messages it must be the same.


def replay(f: TraceFrame, found: Findings) -> None:
    """From the same snapshot and the same messages a task does the same again.

    Two runs of the same epoch of a task are compared step by step for as long as they took the same messages: a merge
    may take its inputs in another order the second time, and that is no fault of the task.
    """
    c = f.c
    discarded = f.work & (c.epoch > f.cuts[c.generation])
    if not discarded.any():
        return
    low = int(c.epoch.min())
    width = int(c.epoch.max()) - low + 1
    key = c.task.astype(np.int64) * width + (c.epoch - low)
    part = np.flatnonzero(f.work & np.isin(key, np.unique(key[discarded])))
    # a run of an epoch: also of a wrong trace, which may have its steps apart
    one = key[part] * f.generations + c.generation[part]
    if (one[1:] < one[:-1]).any():
        part = part[np.lexsort((part, one))]
    begin = np.ones(len(part), dtype=bool)
    begin[1:] = (key[part[1:]] != key[part[:-1]]) | (c.generation[part[1:]] != c.generation[part[:-1]])
    run = np.cumsum(begin) - 1
    first = np.flatnonzero(begin)
    ordinal = (np.arange(len(part)) - first[run]) * 2
    # Where borders come by time, a source may end its epoch earlier or later the second time: that is no other message.
    ordinal += (c.rule[part] == rec.SOURCE) & f.border[part]
    taken, made = _digests(c, part, c.consumed), _digests(c, part, c.produced)
    sums = np.cumsum(_mixed(taken, ordinal))
    with np.errstate(over="ignore"):
        history = sums - (sums[first] - _mixed(taken, ordinal)[first])[run]
        history = history + _mixed(_before(f, part, first)[run], np.uint64(0))
    order = np.lexsort((c.generation[part], history, ordinal, key[part]))
    o, same = part[order], np.zeros(len(part), dtype=bool)
    same[1:] = (
        (key[o[1:]] == key[o[:-1]])
        & (ordinal[order[1:]] == ordinal[order[:-1]])
        & (history[order[1:]] == history[order[:-1]])
    )
    group = np.flatnonzero(~same)[np.cumsum(~same) - 1]  # the first run that did this step
    other = made[order] != made[order][group]
    state = ~other & ~_visible(f, o) & ((c.state[o] != c.state[o][group]) | (c.stored[o] != c.stored[o][group]))
    source = c.rule[o] == rec.SOURCE
    for kind, mask in (("source-differs", other & source), ("task-differs", other & ~source), ("state-differs", state)):
        bad = np.flatnonzero(mask)
        found.add(kind, c, o[bad], a=c.generation[o][group][bad], b=c.epoch[o][bad])


def _visible(f: TraceFrame, steps: Array) -> Array:
    """Steps of a sink in an epoch that it had made visible in an earlier generation: it leaves out what is there
    already."""
    c = f.c
    most = np.full(len(c.tasks) * (f.generations + 1), UNKNOWN, dtype=np.int64)
    commits = np.flatnonzero(c.rule == rec.COMMIT)
    np.maximum.at(
        most, c.task[commits].astype(np.int64) * (f.generations + 1) + c.generation[commits] + 1, c.epoch[commits]
    )
    until = np.maximum.accumulate(most.reshape(len(c.tasks), f.generations + 1), axis=1)
    again: Array = c.epoch[steps] <= until[c.task[steps], c.generation[steps]]
    return again


def _mixed(value: Array, salt: Array | np.uint64) -> Array:
    """A good mix of 64 bits (the end of splitmix64)."""
    with np.errstate(over="ignore"):
        x = value.astype(np.uint64) + (np.asarray(salt).astype(np.uint64) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out: Array = x ^ (x >> np.uint64(31))
    return out


def _digests(c: Columns, part: Array, m: Messages) -> Array:
    """One number for the messages of each of these steps."""
    chosen = np.zeros(len(c), dtype=bool)
    chosen[part] = True
    mine = np.flatnonzero(chosen[m.step])
    step = m.step[mine]
    first = np.searchsorted(step, step)
    one = _mixed(m.digest[mine], m.n[mine])
    one = _mixed(one, m.stream[mine].astype(np.int64) * 2 + m.border[mine])
    one = _mixed(one, np.arange(len(mine)) - first)
    out = np.zeros(len(c), dtype=np.uint64)
    with np.errstate(over="ignore"):
        np.add.at(out, step, one)
    return out[part]


def _before(f: TraceFrame, part: Array, first: Array) -> Array:
    """The state that each run of an epoch began with: the digest of the snapshot before, the latest that was on
    record."""
    c = f.c
    borders = np.flatnonzero(f.border)
    generations = f.generations + 1
    low = int(c.epoch.min()) - 1
    width = int(c.epoch.max()) - low + 2
    have = (c.task[borders].astype(np.int64) * width + c.epoch[borders] - low) * generations + c.generation[borders]
    order = np.argsort(have, kind="stable")
    have, borders = have[order], borders[order]
    steps = part[first]
    want = (c.task[steps].astype(np.int64) * width + c.epoch[steps] - 1 - low) * generations + c.generation[steps]
    at = np.searchsorted(have, want, "right") - 1
    ok = (
        (at >= 0) & (have[np.maximum(at, 0)] // generations == want // generations)
        if len(have)
        else np.zeros(len(at), dtype=bool)
    )
    return np.where(ok, c.state[borders[np.maximum(at, 0)]] if len(borders) else 0, 0).astype(np.int64)


# The failure-free run that explains a recorded one (Theorem 6.9).
#
# The proof of Theorem 6.9 splits a trace into generations, moves the steps of epochs above the greatest common epoch to
# the end of each, drops them, and joins what is left.  On a trace with an order in each task only, this comes down to
# one mask: a step is *kept* if its epoch is not above any epoch that a later recovery went back to.  What is kept must
# be, on its own, a run of the rules without failures.  Where every generation is right this is a matter of its ends
# (`goes_on`); else the same rules are asked again of what is kept, as one generation.


@dataclass(frozen=True)
class Explained:
    """The failure-free trace of Theorem 6.9, counted: what is kept of each generation, and what the recoveries
    undid."""

    kept: tuple[int, ...]  # steps, by generation
    discarded: tuple[int, ...]
    recovered: tuple[int, ...]  # the epochs that the recoveries went to
    epochs: int  # complete everywhere at the end: gce
    committed: int  # the last epoch that every sink has made visible


def explanation(f: TraceFrame, found: Findings, committed: int, stored: Archives) -> Explained:
    """Build the failure-free trace and ask the rules of it (Theorem 6.9)."""
    c = f.c
    kept = kept_steps(f)
    by = [np.bincount(c.generation[mask], minlength=f.generations).tolist() for mask in (kept, f.work & ~kept)]
    if not kept.all() and f.generations > 1 and not goes_on(f, kept, found):
        asked_again(f, kept, Findings(found.limit, found.counts, found.first, kept=True))
    return Explained(
        tuple(by[0]),
        tuple(by[1]),
        tuple(int(e) for e in f.starts[1:] if e != UNKNOWN),
        int(stored.common[-1]),
        committed,
    )


def kept_steps(f: TraceFrame) -> Array:
    """The steps that no later recovery undid."""
    out: Array = f.work & (f.c.epoch <= f.cuts[f.c.generation])
    return out


def asked_again(f: TraceFrame, kept: Array, found: Findings) -> None:
    """The rules of every kept step and message, as one generation."""
    joined = frame(f.c.where(kept, generation=0), {})
    fifo(joined, found)
    delivery(joined, found)
    alignment(joined, found)


def goes_on(f: TraceFrame, kept: Array, found: Findings) -> bool:
    """Whether the kept steps are right because each generation is, and one goes on where the one before it ended.

    Epochs only go up, so within a generation the kept steps of a task come first: neighbours stay neighbours, and what
    was right in the generation is right without the others.  A message is of the epoch of both its ends, so both are
    kept, or none. What remains: every kept step is in a kept snapshot; all tasks end a generation with the same border;
    and from one generation to the next epochs and numbers go on.  If any of this is uncertain, the rules are asked of
    every step.
    """
    asked = {"well-formed", "streams", "fifo", "messages", "alignment", "snapshot"}
    if any(KINDS[kind][0] in asked for _, kind in found.counts):
        return False
    c = f.c
    steps = np.flatnonzero(kept)
    cut = f.cuts[c.generation[steps]]
    if ((cut != NEVER) & (f.next_border[steps] > cut)).any():
        return False
    segment = f.segment[steps]
    change = np.flatnonzero(segment[1:] != segment[:-1])
    if not len(steps):
        return True
    first, last = steps[np.append(0, change + 1)], steps[np.append(change, len(steps) - 1)]
    busy = set(np.unique(c.task[f.work]).tolist())
    for generation in np.flatnonzero(f.cuts != NEVER).tolist():
        ends = last[c.generation[last] == generation]  # each of them a border: its snapshot is kept, so it is, too
        if len(ends) and (set(c.task[ends].tolist()) != busy or len(set(c.epoch[ends].tolist())) > 1):
            return False
    due = np.full(len(first), FIRST_EPOCH, dtype=np.int64)
    after = c.task[first[1:]] == c.task[last[:-1]]
    due[1:][after] = (c.epoch[last] + f.border[last])[:-1][after]
    return bool((c.epoch[first] == due).all()) and all(_numbers_go_on(f, kept, m) for m in (c.consumed, c.produced))


def _numbers_go_on(f: TraceFrame, kept: Array, m: Messages) -> bool:
    """Whether the numbers of each stream in each task, of the kept steps, begin with 0 and go on in the next
    generation."""
    c = f.c
    mine = np.flatnonzero(kept[m.step])
    if not len(mine):
        return True
    step, n = m.step[mine], m.n[mine]
    pair = c.task[step].astype(np.int64) * len(c.streams) + m.stream[mine]
    number = np.zeros(len(c.tasks) * len(c.streams), dtype=np.int64)
    number[pair] = 1
    group = (np.cumsum(number) - 1)[pair] * f.generations + c.generation[step]
    low, high = np.full((2, int(number.sum()) * f.generations), UNKNOWN, dtype=np.int64)
    high[group] = n  # in the order of the steps: the last one stays
    low[group[::-1]] = n[::-1]
    there = np.flatnonzero(low != UNKNOWN)
    due = np.zeros(len(there), dtype=np.int64)
    after = there[1:] // f.generations == there[:-1] // f.generations
    due[1:][after] = high[there[:-1]][after] + 1
    return bool((low[there] == due).all())
