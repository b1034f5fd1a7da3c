"""What sticks: transactions that can never be decided any more, and why; messages that wait for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.atomic import syntax as s
from pellucid.atomic.layout import Item
from pellucid.atomic.machine import Atomic, Step, View
from pellucid.atomic.printing import process_text
from pellucid.atomic.reduction import may_abort
from pellucid.atomic.state import State
from pellucid.atomic.typing import unfolded
from pellucid.internal.model import follow


def hopeless(machine: Atomic, at: State, trans: str) -> bool:
    """Whether a transaction that is not decided can never be, whatever happens, and however often ``!`` unfolds: it
    depends on an aborted one, or nothing but messages is left of it, and no abort can come out of it.

    >>> from pellucid.atomic import parse
    >>> text = "new t, u: Trans. new p: Place. new c: Chan[<>]. p[ t{send(in c, <>)} | u{commit} ]"
    >>> machine = Atomic(parse(text))
    >>> hopeless(machine, machine.start(), "t"), hopeless(machine, machine.start(), "u")
    (True, False)
    """
    rules = machine.rules
    if rules.cascade or rules.crash:
        return False  # others may abort it
    items = [machine.store.items[i] for soup in at.soups for i in soup]
    mine = [p for t, p in items if t == trans and not isinstance(p, s.Send)]
    if not mine:
        return True
    if rules.commit != "closed" or rules.abort_committed or not rules.mobile_received:
        return False  # who depends on an aborted one may commit
    return trans in machine.doomed(at) and not any(map(may_abort, mine))


def lost(machine: Atomic, at: State, place: int) -> Iterator[str]:
    """The messages of a place that can neither go on from there nor be read there, in words.

    >>> from pellucid.atomic import parse
    >>> text = "new t: Trans. new p, q: Place. new c: Chan[<>]. p[ q[ t{send(out p.in c, <>)} ] ]"
    >>> machine = Atomic(parse(text))
    >>> list(lost(machine, machine.start(), 2))
    ['t sent a message that waits for ever at q: send(out p.in c, <>) cannot leave p from there']
    """
    store = machine.store
    for i in dict.fromkeys(at.soups[place]):
        trans, p = store.items[i]
        if isinstance(p, s.Send) and (why := _why_lost(machine, at, place, p)):
            words = process_text(store.said(at, store.items[i]).process)
            yield f"{trans} sent a message that waits for ever at {machine.layout.labels[place]}: {words} {why}"


def _why_lost(machine: Atomic, at: State, place: int, p: s.Send) -> str:
    """Why a message stays where it is, whoever came; nothing if it can go on or be read."""
    layout, called = machine.layout, machine.store.called(at)
    parts = p.to.parts if isinstance(p.to, s.Path) else (p.to,)
    steps = [part for part in parts if isinstance(part, (s.In, s.Out)) and isinstance(part.of, s.Param)]
    if len(steps) < len(parts):
        return ""  # outside the grammar: that it has no type is told

    def name(step: s.In | s.Out) -> str:
        assert isinstance(step.of, s.Param)
        return step.of.name

    first, own = steps[0], name(steps[0])
    shown = called.get(own, own)
    kind = unfolded(at.fresh[int(own[1:])] if own.startswith("~") else layout.gamma[own])
    if isinstance(kind, s.PlaceType):
        if isinstance(first, s.Out):
            return "" if place and layout.names[place] == own else f"cannot leave {shown} from there"
        inside = any(layout.names[inner] == own for inner in machine.inside[place])
        return "" if inside else f"finds no place {shown} there"
    if not place:
        return "is outside every place, where nothing is read"
    for step in steps:  # it has arrived: in c, or in c.in k if it is a process
        if isinstance(step, s.Out):
            word = called.get(name(step), name(step))
            return f"can be read by nobody: it has out {word}, and a message has in {word}"
    if not isinstance(kind, s.ChanType):
        return f"can be read by nobody: it has no channel before the key {shown}"
    return ""


def why_stuck(machine: Atomic, at: State, trans: str, way: Sequence[Step]) -> str:
    """The reason in words.

    >>> from pellucid.atomic import explore, parse
    >>> found = explore(Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) commit, abort)} ]''')))
    >>> at = found.sticks["t2"]
    >>> why_stuck(found.machine, at, "t2", found.search.way(at))
    't2 took a message of t1, which aborted: it can never commit, and does not abort'
    """
    items = [machine.store.items[i] for soup in at.soups for i in soup]
    mine = [p for t, p in items if t == trans and not isinstance(p, s.Send)]
    if mine and not machine.home(at, trans):
        return f"{trans} runs outside every place, where there is no log: nothing is decided there"
    view = machine.view(at)
    pending = {item.trans for soup in at.soups[1:] for i in soup if isinstance((item := machine.store.items[i]).process,
                                                                               s.Commit)}  # fmt: skip
    needs = _needs(view, trans)
    dead = sorted(needs & view.aborted)
    if dead:
        near = next((u for u in dead if (u, trans) in view.depends), "")
        if near:
            took = "is a child of" if _child(machine, at, near, trans) else "took a message of"
            how = f"{took} {near}, which"
        else:
            how = f"depends on {dead[0]}, by way of {' and '.join(_between(view, dead[0], trans))}, and {dead[0]}"
        return f"{trans} {how} aborted: it can never commit, and does not abort"
    if trans in pending:
        never = sorted(u for u in needs - view.committed if u not in pending and u != trans)
        partners = [u for u in never if trans in _needs(view, u)]
        if partners:
            return f"{trans} is ready, and in a cycle with {partners[0]}, which never commits"
        if never:
            return f"{trans} is ready, and depends on {never[0]}, which never decides"
        return f"{trans} is ready, and what it depends on cannot commit with it"
    if any(isinstance(p, s.Replicate) for p in mine) and at.left == 0:
        return f"the budget of {machine.unfold} unfoldings is spent, and {trans} has a ! left"
    if mine:
        words = process_text(machine.store.said(at, Item(trans, mine[0])).process)
        return f"{trans} has {words} left, and nothing more can happen to it"
    if _timed_out(machine, trans, way):
        return f"a time-out of {trans} ends in 0: nothing is left of it that would commit or abort"
    return f"nothing is left of {trans} that would commit or abort"


def _timed_out(machine: Atomic, trans: str, way: Sequence[Step]) -> bool:
    """Whether nothing came after a time-out on the way."""
    states = follow(machine, way)
    sizes = [sum(map(len, at.soups)) for at in states]
    return any(
        step.rule.endswith("TIMEOUT") and step.who == (trans,) and after < before
        for step, before, after in zip(way, sizes, sizes[1:], strict=False)
    )


def _child(machine: Atomic, at: State, parent: str, trans: str) -> bool:
    entries = [machine.store.entries[e] for log in at.logs for e in log]
    return any(e.kind == "CHILD" and e.subject == trans and e.message and e.message.trans == parent for e in entries)


def _between(view: View, source: str, trans: str) -> list[str]:
    """Over whom one depends on another, by a shortest way; the nearest first."""
    ways = {trans: [trans]}
    for t in (todo := [trans]):
        for u in sorted(u for u, v in view.depends if v == t and u not in ways):
            ways[u] = [*ways[t], u]
            todo.append(u)
    return ways[source][1:-1]


def _needs(view: View, trans: str) -> set[str]:
    """All that a transaction depends on."""
    found: set[str] = set()
    todo = {trans}
    while todo:
        todo = {u for u, t in view.depends if t in todo} - found
        found |= todo
    return found
