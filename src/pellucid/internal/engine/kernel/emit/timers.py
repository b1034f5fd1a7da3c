"""A task that is told of times, in a kernel: one turn of the loop is one call of one of its two functions.

Its events are ``(tick, time, event)``: an event and its time, or (``tick``) only the news that a time is complete.  Of
each key they come in the order of time.  The times that a key has asked for wait in a list, the first one in front.  In
a turn that one is told of if it is due, which it is before the time of what came (of a tick: not after it), and then
the same push takes another turn; otherwise the event is taken.  So any number of times may be told of in a push, while
a turn needs no more room than one call does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pellucid.internal.engine.kernel.emit.flows import Flow
from pellucid.internal.engine.kernel.emit.state import QueueWriter, StateCell, Storage
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Node
from pellucid.internal.graph.timers import MOST_ALONE

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit.flows import Pen

NOT_AHEAD = 4  # codes of failure: a time was asked for that is over,
ENDLESS = 5  # or one after the other, without an event between


class Untimely(Exception):  # noqa: N818 - reads as what it is
    """A kernel stopped at a time: whether it asked on and on, in which function, what for and when."""

    def __init__(self, endless: bool, told: bool, asked: int, now: int, position: int) -> None:
        super().__init__(f"push {position:,}")
        self.endless, self.told, self.asked, self.now, self.position = endless, told, asked, now, position


class TimesWriter(QueueWriter):
    """Writes the code of the times that wait: in their order, each once."""

    def first(self, key: str | None) -> str:
        """The first of them, if there is one."""
        return f"{self.cells[0]}[{self.head.load(key)}]"

    def ask(self, time: str, key: str | None) -> None:
        """Add a time, if it is not there already.  Most are later than all that wait, so the end is tried first."""
        w, (cell,), link = self.e.w, self.cells, self.next
        before, at, new = w.fresh("c"), w.fresh("c"), w.fresh("c")
        w.line(f"{before} = -1; {at} = -1")
        with w.block(f"if {self.count.load(key)} > 0:"):
            with w.block(f"if {cell}[{self.tail.load(key)}] < {time}:"):
                w.line(f"{before} = {self.tail.load(key)}")
            with w.block("else:"):
                w.line(f"{at} = {self.head.load(key)}")
                with w.block(f"while {cell}[{at}] < {time}:"):
                    w.line(f"{before} = {at}; {at} = {link}[{at}]")
        with w.block(f"if {at} == -1 or {cell}[{at}] != {time}:"):
            with w.block(f"if {self.free} != -1:"):
                w.line(f"{new} = {self.free}; {self.free} = {link}[{new}]")
            with w.block("else:"):
                w.line(f"{new} = {self.bump}; {self.bump} += 1")
                if not self.fixed:
                    w.line(f"{link}.append(-1); {cell}.append(0)")
            w.line(f"{link}[{new}] = {at}; {cell}[{new}] = {time}; {self.live} += 1")
            with w.block(f"if {before} == -1:"):
                self.head.store(key, new)
            with w.block("else:"):
                w.line(f"{link}[{before}] = {new}")
            with w.block(f"if {at} == -1:"):
                self.tail.store(key, new)
            self.count.store(key, f"{self.count.load(key)} + 1")


def write_timers(e: Pen, node: Node, flow: Flow, out: Flow, store: Storage, cells: list[StateCell]) -> Flow:
    """The step that takes events and tells of times."""
    assert node.fn is not None and node.on_time is not None and not e.undo.is_on
    w, key = e.w, flow.key
    e.again = True
    most = max(len(fn.runs.times) if fn.runs is not None else 1 for fn in (node.fn, node.on_time))
    waiting = TimesWriter(e, store, f"{node.id}.0", (INT,), most)
    alone = store.word("alone", INT, 0)
    tick, time, *event = flow.values
    due, first = w.fresh("p"), w.fresh("v")
    w.line(f"again = False; {due} = False; {first} = 0")
    with w.block(f"if {waiting.length(key)} > 0:"):
        w.line(f"{first} = {waiting.first(key)}")
        w.line(f"{due} = {first} < {time} or ({tick} and {first} == {time})")
    with w.block(f"if {due}:"):
        w.line("again = True")
        waiting.take(key)
        with w.block(f"if {alone.load(key)} >= {MOST_ALONE}:"):
            _fail(e, ENDLESS, e.layout.site(node, node.on_time), first, first)
        alone.store(key, f"{alone.load(key)} + 1")
        _turn(e, node, node.on_time, [first], first, out, key, cells, waiting)
    with w.block(f"elif not {tick}:"):
        alone.store(key, "0")
        _turn(e, node, node.fn, event, time, out, key, cells, waiting)
    return out


def _turn(
    e: Pen,
    node: Node,
    fn: Function,
    args: Sequence[str],
    now: str,
    out: Flow,
    key: str | None,
    cells: list[StateCell],
    waiting: TimesWriter,
) -> None:
    """One call: the state, what it puts out, and the times that it asks for."""
    w, width, size = e.w, len(cells), node.type.width - 1
    old = e.copied([c.load(key) for c in cells])
    if not e.written(fn):
        assert not e.numba
        e.opaque = True
        site = e.layout.site(node, fn)
        new, events, times = [w.fresh("t") for _ in cells], w.fresh("t"), w.fresh("t")
        w.line(f"{', '.join(new)}, {events}, {times} = opaque[{site}]({', '.join([*old, *args])})")
        for cell, value in zip(cells, new, strict=True):
            cell.store(key, value)
        row, asked = w.fresh("r"), w.fresh("r")
        with w.loop(f"for {row} in {events}:"):
            e.push(out, [now, *(f"{row}[{j}]" for j in range(size))], key)
        with w.loop(f"for {asked} in {times}:"):
            _ask(e, node, fn, asked, now, key, waiting, site)
        return
    assert fn.runs is not None
    results = e.named(e.call(node, fn, [*old, *args]))
    site = len(e.layout.sites) - 1
    for cell, value in zip(cells, results[:width], strict=True):
        cell.store(key, value)
    count, rest, slots = results[width], results[width + 1 :], len(fn.runs.slots)
    for s in range(slots):
        with w.block(f"if {count} > {s}:"):
            e.push(out, [now, *rest[s * size : (s + 1) * size]], key)
    many, wanted = rest[slots * size], rest[slots * size + 1 :]
    for s, asked in enumerate(wanted):
        with w.block(f"if {many} > {s}:"):
            _ask(e, node, fn, asked, now, key, waiting, site)


def _ask(
    e: Pen, node: Node, fn: Function, asked: str, now: str, key: str | None, waiting: TimesWriter, site: int
) -> None:
    """A time that is asked for: not before the present one, and if that is told of now, after it."""
    over = "<=" if fn is node.on_time else "<"
    with e.w.block(f"if {asked} {over} {now}:"):
        _fail(e, NOT_AHEAD, site, asked, now)
    waiting.ask(asked, key)


def _fail(e: Pen, code: int, site: int, asked: str, now: str) -> None:
    e.w.line(f"code = {code}; site = {site}; ei[0] = {asked}; ei[1] = {now}")
    e.w.line("break")
