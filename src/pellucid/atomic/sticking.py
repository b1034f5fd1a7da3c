"""Why a transaction sticks: the reason, at the end of a run in which it is neither committed nor aborted."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import Atomic, Step, View
from pellucid.atomic.printing import process_text
from pellucid.atomic.state import State
from pellucid.model import follow


def why_stuck(machine: Atomic, at: State, trans: str, way: Sequence[Step]) -> str:
    """The reason in words.

    >>> from pellucid.atomic import explore, parse
    >>> found = explore(Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) commit, abort)} ]''')))
    >>> at = found.sticks["t2"]
    >>> why_stuck(found.machine, at, "t2", found.search.way(at))
    't2 took a message of t1, which aborted: it can never commit, and does not abort'
    """
    if any(machine.store.items[i].trans == trans for i in at.soups[0]) and not machine.home(at, trans):
        return f"{trans} runs outside every place, where there is no log: nothing is decided there"
    view = machine.view(at)
    items = [machine.store.items[i] for soup in at.soups for i in soup]
    pending = {item.trans for soup in at.soups[1:] for i in soup if isinstance((item := machine.store.items[i]).process,
                                                                               s.Commit)}  # fmt: skip
    needs = _needs(view, trans)
    dead = sorted(needs & view.aborted)
    if dead:
        via = "" if (dead[0], trans) in view.depends else ", by way of others"
        took = "is a child of" if _child(machine, at, dead[0], trans) else "took a message of"
        return f"{trans} {took} {dead[0]}{via}, which aborted: it can never commit, and does not abort"
    if trans in pending:
        never = sorted(u for u in needs - view.committed if u not in pending and u != trans)
        partners = [u for u in never if trans in _needs(view, u)]
        if partners:
            return f"{trans} is ready, and in a cycle with {partners[0]}, which never commits"
        if never:
            return f"{trans} is ready, and depends on {never[0]}, which never decides"
        return f"{trans} is ready, and what it depends on cannot commit with it"
    mine = [
        machine.store.said(at, item).process
        for item in items
        if item.trans == trans and not isinstance(item.process, s.Send)
    ]
    if any(isinstance(p, s.Replicate) for p in mine) and at.left == 0:
        return f"the budget of {machine.unfold} unfoldings is spent, and {trans} has a ! left"
    if mine:
        return f"{trans} has {process_text(mine[0])} left, and nothing more can happen to it"
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


def _needs(view: View, trans: str) -> set[str]:
    """All that a transaction depends on."""
    found: set[str] = set()
    todo = {trans}
    while todo:
        todo = {u for u, t in view.depends if t in todo} - found
        found |= todo
    return found
