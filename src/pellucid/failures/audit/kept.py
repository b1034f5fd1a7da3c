"""The failure-free run that explains a recorded one (Theorem 6.9).

The proof of Theorem 6.9 splits a trace into generations, moves the steps of epochs above the greatest common epoch to
the end of each, drops them, and joins what is left.  On a trace with an order in each task only, this comes down to one
mask: a step is *kept* if its epoch is not above any epoch that a later recovery went back to.  What is kept must be, on
its own, a run of the rules without failures.  Where every generation is right this is a matter of its ends (`goes_on`);
else the same rules are asked again of what is kept, as one generation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.failures.audit import messages, rules
from pellucid.failures.audit.arrays import Array, Messages
from pellucid.failures.audit.crashes import Archives
from pellucid.failures.audit.recorded import FIRST_EPOCH
from pellucid.failures.audit.rules import NEVER, UNKNOWN, Findings, TraceFrame
from pellucid.failures.audit.words import KINDS


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
    joined = rules.frame(f.c.where(kept, generation=0), {})
    messages.fifo(joined, found)
    messages.delivery(joined, found)
    rules.alignment(joined, found)


def goes_on(f: TraceFrame, kept: Array, found: Findings) -> bool:
    """Whether the kept steps are right because each generation is, and one goes on where the one before it ended.

    Epochs only go up, so within a generation the kept steps of a task come first: neighbours stay neighbours, and what
    was right in the generation is right without the others.  A message is of the epoch of both its ends, so both are
    kept, or none. What remains: every kept step is in a kept snapshot; all tasks end a generation with the same border;
    and from one generation to the next epochs and numbers go on.  If any of this is in doubt, the rules are asked of
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
