"""The messages of a recorded trace: their order on each stream, and what was sent against what was received."""

from __future__ import annotations

import numpy as np

from pellucid.failures.audit.arrays import Array, Messages
from pellucid.failures.audit.recorded import FIRST_EPOCH
from pellucid.failures.audit.rules import NEVER, UNKNOWN, Findings, TraceFrame


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
