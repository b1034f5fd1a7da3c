"""What was done again after a recovery: from the same snapshot and the same messages it must be the same."""

from __future__ import annotations

import numpy as np

from pellucid.failures.audit import recorded as rec
from pellucid.failures.audit.arrays import Array, Columns, Messages
from pellucid.failures.audit.rules import UNKNOWN, Findings, TraceFrame


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
