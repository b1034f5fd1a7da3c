"""The rules of the model, asked of a recorded trace with NumPy: no step is looked at on its own in Python.

Each rule is local: it compares a step with the one before it in the same task, or a message with its producer.  So one
broken step is reported once, where it is broken, and not again at every step after it.  What holds for every such pair
holds for the whole trace: numbers that go up by one from the right start are 0, 1, 2, …; epochs that go up exactly at
borders are aligned; and steps ordered in each task, with messages that only go down an acyclic graph within one generation,
have a causal order (Definition 6.4), because a cycle would have to go up the graph again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from pellucid.failures.audit import recorded as rec
from pellucid.failures.audit.recorded import COORDINATOR, FIRST_EPOCH, Columns, Messages
from pellucid.failures.audit.words import Violation

__all__ = ["Found", "Frame", "alignment", "delivery", "fifo", "frame", "streams", "tasks_of", "well_formed"]

Array: TypeAlias = "np.ndarray[Any, Any]"
NEVER = np.int64(1) << 62  # an epoch after all others
UNKNOWN = -NEVER
Node = TypeVar("Node", int, str)


@dataclass
class Found:
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
        room = self.limit - sum(1 for v in self.first if (v.kept, v.kind) == key)
        if room <= 0:
            return
        order = np.argsort(steps, kind="stable")[:room] if len(steps) > 1 else [0]
        for at in order:
            step = int(steps[at])
            values = {name: _plain(value[at]) if isinstance(value, np.ndarray | list) else value for name, value in more.items()}
            if "stream" in values:
                values["stream"] = c.streams[values["stream"]]
            if isinstance(values.get("other"), int):
                values["other"] = c.tasks[values["other"]]
            self.first.append(Violation(kind, c.tasks[int(c.task[step])], int(c.generation[step]), int(c.index[step]), **values, kept=self.kept))

    def say(self, violation: Violation) -> None:
        """One violation that was found otherwise."""
        key = (violation.kept, violation.kind)
        self.counts[key] = self.counts.get(key, 0) + 1
        if sum(1 for v in self.first if (v.kept, v.kind) == key) < self.limit:
            self.first.append(violation)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Frame:
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


def frame(c: Columns, targets: dict[int, int]) -> Frame:
    """``targets``: by generation, the epoch that its F-RECOVER went back to."""
    generations = int(max(c.generation.max(initial=0), max(targets, default=0))) + 1
    starts = np.full(generations, UNKNOWN, dtype=np.int64)
    ends = np.full(generations, NEVER, dtype=np.int64)
    for generation, epoch in targets.items():
        starts[generation] = epoch
        ends[max(generation - 1, 0)] = epoch
    starts[0] = FIRST_EPOCH - 1
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
    return Frame(c, work, border, durable if durable.any() else border, segment, starts, ends, later_cuts(ends), next_border, last, consumers)


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


def well_formed(c: Columns, found: Found, generations: set[int]) -> Columns:
    """Indices without holes, generations that go up, steps of the right shape.  The trace sorted by generation, too."""
    first = np.ones(len(c), dtype=bool)
    first[1:] = c.task[1:] != c.task[:-1]
    wanted = np.where(first, 0, np.concatenate([[0], c.index[:-1] + 1]) if len(c) else 0)
    bad = np.flatnonzero(c.index != wanted)
    found.add("index", c, bad, a=wanted[bad])
    before = np.concatenate([c.generation[:1], c.generation[:-1]])
    back = np.flatnonzero(~first & (c.generation < before))
    found.add("generation-back", c, back, a=before[back])
    known = np.array(sorted({0} | generations), dtype=np.int64)
    # A coordinator may die between two generations: then one of them has nothing but failures.
    acts = (c.rule != rec.FAIL) & (c.rule != rec.LOST)
    found.add("generation-unknown", c, np.flatnonzero(~np.isin(c.generation, known) & acts))
    if len(back) or c.generation.min(initial=0) < 0:
        c = _resorted(c)
    _shapes(c, found)
    return c


def _resorted(c: Columns) -> Columns:
    """By task, generation and index; a negative generation counts as the first."""
    order = np.lexsort((c.index, c.generation, c.task))
    place = np.empty(len(c), dtype=np.int64)
    place[order] = np.arange(len(c))

    def moved(m: Messages) -> Messages:
        step = place[m.step]
        to = np.argsort(step, kind="stable")
        return replace(m.chosen(to), step=step[to])

    return Columns(c.tasks, c.streams, c.task[order], np.maximum(c.generation[order], 0), c.index[order], c.rule[order], c.epoch[order],
                   c.state[order], c.stored[order], moved(c.consumed), moved(c.produced), moved(c.heard), moved(c.told), c.unknown)  # fmt: skip


def _shapes(c: Columns, found: Found) -> None:
    size = len(c)
    taken, took_borders = np.bincount(c.consumed.step, minlength=size), np.bincount(c.consumed.step[c.consumed.border], minlength=size)
    made, made_borders = np.bincount(c.produced.step, minlength=size), np.bincount(c.produced.step[c.produced.border], minlength=size)
    rule = c.rule
    bad = np.flatnonzero(rule == rec.UNKNOWN_RULE)
    found.add("unknown-rule", c, bad, other=", ".join(sorted(c.unknown)))
    bad = np.flatnonzero((rule == rec.EVENT) & ((taken == 0) | (took_borders != 0)))
    found.add("event-shape", c, bad, a=(taken - took_borders)[bad], b=took_borders[bad])
    bad = np.flatnonzero((rule == rec.BORDER) & ((taken != took_borders) | (made != made_borders)))
    found.add("border-shape", c, bad, a=(taken - took_borders)[bad], b=(made - made_borders)[bad])
    bad = np.flatnonzero((rule == rec.SOURCE) & ((taken != 0) | (made_borders * (made - made_borders) != 0)))
    found.add("source-shape", c, bad, a=taken[bad], b=made_borders[bad])
    for quiet in (rec.SNAPSHOT, rec.COMMIT, rec.FAIL, rec.LOST, rec.RECOVER):
        bad = np.flatnonzero((rule == quiet) & (taken + made != 0))
        found.add("quiet-shape", c, bad, a=(taken + made)[bad], other=rec.RULES[quiet])
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


def streams(f: Frame, found: Found) -> None:
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


def stream_starts(f: Frame) -> Array:
    """By stream and generation: the first number (Definition 4.5), which is the one after the border gone back to; UNKNOWN if not on record."""
    c = f.c
    out = np.full((max(len(c.streams), 1), f.generations), UNKNOWN, dtype=np.int64)
    out[:, f.starts == FIRST_EPOCH - 1] = 0
    wanted = f.starts[(f.starts != FIRST_EPOCH - 1) & (f.starts != UNKNOWN)]
    chosen = np.flatnonzero(c.produced.border & np.isin(c.epoch[c.produced.step], wanted)) if len(wanted) else np.zeros(0, dtype=np.int64)
    epoch, made = c.epoch[c.produced.step[chosen]], c.generation[c.produced.step[chosen]]
    order = np.lexsort((c.produced.n[chosen], made, epoch))
    epoch, made, chosen = epoch[order], made[order], chosen[order]
    for generation in range(1, f.generations):
        start = f.starts[generation]
        low, high = np.searchsorted(epoch, start, "left"), np.searchsorted(epoch, start, "right")
        part = chosen[low:high][made[low:high] < generation]
        out[c.produced.stream[part], generation] = c.produced.n[part] + 1  # later ones win: they come last
    return out


def fifo(f: Frame, found: Found) -> None:
    """The messages of a stream are numbered, and taken by each consumer, in order and without holes."""
    starts = stream_starts(f)
    for messages, kind in ((f.c.consumed, "fifo-consumed"), (f.c.produced, "fifo-produced")):
        _in_order(f, messages, starts, kind, found)


def _in_order(f: Frame, m: Messages, starts: Array, kind: str, found: Found) -> None:
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

    def __init__(self, f: Frame) -> None:
        c, m = f.c, f.c.produced
        self.generations = f.generations
        group = m.stream.astype(np.int64) * f.generations + c.generation[m.step]
        order = _stable_order(group, len(c.streams) * f.generations)
        group, n = group[order], m.n[order]
        down = (group[1:] == group[:-1]) & (n[1:] <= n[:-1])
        if down.any():
            order = np.lexsort((c.index[m.step], c.task[m.step], m.n, m.stream.astype(np.int64) * f.generations + c.generation[m.step]))
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


def delivery(f: Frame, found: Found) -> None:
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
    bad("kind-changed", c.produced.border[p] != m.border[got], c.produced.border[p].astype(np.int64), m.border[got].astype(np.int64))
    bad("epoch-crossed", c.epoch[made] != c.epoch[taken], c.epoch[made], c.epoch[taken])
    with_it, sent_in = f.next_border[taken], f.next_border[made]
    bad("orphan", with_it < sent_in, with_it)
    _in_flight(f, sent, got, where, found)


def _in_flight(f: Frame, sent: _Sent, got: Array, where: Array, found: Found) -> None:
    """Sent in a snapshot that its consumer has taken, too, without having received it."""
    c, m = f.c, f.c.consumed
    made = c.produced.step[sent.at]
    sent_in = f.next_border[made]
    bounds = np.searchsorted(sent.group, np.arange(len(c.streams) + 1) * f.generations)
    several = np.bincount(f.consumers[:, 1], minlength=max(len(c.streams), 1)) > 1 if len(f.consumers) else np.zeros(1, dtype=bool)
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
        late = low + np.flatnonzero(seen > sent_in[low:high])  # few: only these need a look at the consumer's last border
        bad = late[f.last_border[task * f.generations + c.generation[made[late]]] >= sent_in[late]]
        found.add("in-flight", c, made[bad], stream=np.full(len(bad), number), n=sent.n[bad], a=sent_in[bad], other=c.tasks[task])


def _twice(places: Array) -> bool:
    """Whether a message is consumed twice (only in a wrong trace)."""
    return len(places) > 0 and int(np.bincount(places).max(initial=0)) > 1


def alignment(f: Frame, found: Found) -> None:
    """Epochs go up by one, exactly at borders; a border moves on all inputs and outputs at once."""
    c = f.c
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
    for messages, kind in ((c.consumed, "border-inputs"), (c.produced, "border-outputs")):
        all_of = np.bincount(_pairs(c, messages)[0][:, 0], minlength=len(c.tasks))[c.task[borders]]
        moved = np.bincount(messages.step, minlength=len(c))[borders]
        bad = np.flatnonzero(moved != all_of)
        found.add(kind, c, borders[bad], a=moved[bad], b=all_of[bad])


def tasks_of(c: Columns) -> list[int]:
    """The numbers of the tasks, without the coordinator."""
    return [number for number, name in enumerate(c.tasks) if name != COORDINATOR]
