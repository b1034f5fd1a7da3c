"""What a trace says about its crashes: recoveries, snapshots and commits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.failures.audit import recorded as rec
from pellucid.failures.audit import rules
from pellucid.failures.audit.arrays import Array, Columns, Messages
from pellucid.failures.audit.recorded import FIRST_EPOCH
from pellucid.failures.audit.rules import NEVER, UNKNOWN, Findings, TraceFrame
from pellucid.internal.engine.epochs.recording import ACK


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
    tasks = np.array(rules.tasks_of(c), dtype=np.int64)
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
    tasks = rules.tasks_of(c)
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
    cuts = rules.later_cuts(np.where(np.array([*stored.lost], dtype=bool), NEVER, f.ends))
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
    tasks = rules.tasks_of(c)
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
