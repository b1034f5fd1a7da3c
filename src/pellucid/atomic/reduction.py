"""Fewer states for the same answer: partial-order reduction and symmetry.

*Order*: a step that nothing else can touch is taken at once, alone.  Such are local steps, and the next hop of a
message that has one way to go: if nothing else can abort the transaction, or if the message neither is nor comes to the
place of its own transaction, where an abort would remove it.  They change no log, so who is committed and aborted, and
in which order, stays the same, and so do the states without steps.

*Symmetry*: transactions that can be exchanged at the start, at one place or at places that look alike from outside, can
be exchanged everywhere; of states that differ in that only one is kept.  Names in its traces are then those of
representatives.

Both keep A1 to A3, C1, and what sticks; C2 and types, which speak about whole states, are asked without them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from itertools import permutations

from pellucid.atomic import syntax as s
from pellucid.atomic.layout import Entry, Item
from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.state import State
from pellucid.errors import UsageError

KEPT = ("A1", "A2", "A3", "C1")
_LOCAL = (s.Continue, s.Let, s.Crypt, s.Decrypt)
_MOST = 5  # transactions whose orders are all tried


@cache
def may_abort(p: s.Process) -> bool:
    """Whether an abort could come out of a process: one stands in it, or it opens what others sent.

    >>> may_abort(s.Receive(s.Out(s.Param("c")), s.Cont("x", None, s.Abort()), s.Stop())), may_abort(s.Commit())
    (True, False)
    """
    match p:
        case s.Abort() | s.Open():
            return True
        case s.Receive(_, then, otherwise):
            return may_abort(then.body) or may_abort(otherwise)
        case s.Crypt(_, _, then) | s.Decrypt(_, _, then) | s.Continue(then, _):
            return may_abort(then.body)
        case s.Let(_, _, body) | s.Replicate(body) | s.NewIn(_, _, body):
            return may_abort(body)
        case s.Par(parts):
            return any(may_abort(part) for part in parts)
        case s.Forward(_, _, then, otherwise):
            return may_abort(then) or may_abort(otherwise)
        case _:
            return False  # a message's process and a child's run in other transactions


class Reduced:
    """A network's machine with fewer steps (``order``) or fewer states (``symmetry``).

    >>> from pellucid.atomic import parse
    >>> machine = Atomic(parse('''new t, u: Trans. new p, q: Place. new c: Chan[<>].
    ...     p[ t{send(out p.in q.in c, <>) | commit} ] | q[ u{receive(out c, (x) commit, 0)} ]'''))
    >>> from pellucid.internal.model import Search
    >>> [len(Search([m.start()], m.steps).all()) for m in (machine, Reduced(machine))]
    [17, 11]
    """

    def __init__(self, machine: Atomic, *, order: bool = True, symmetry: bool = False) -> None:
        if machine.rules.drop_messages and order:
            raise UsageError(f"the rules {machine.rules.name} remove messages on their way: order=False is needed")
        self.machine, self.order = machine, order
        self.swaps = self._symmetries() if symmetry else []
        self._swapped: dict[tuple[str, int, int], int] = {}

    def start(self) -> State:
        """The start, or what stands for it."""
        return self._one(self.machine.start())

    def see(self, at: State) -> Hashable:
        """As of the machine."""
        return self.machine.see(at)

    def complete(self, at: State) -> bool:
        """A run may end anywhere."""
        return True

    def steps(self, at: State, *, failures: bool = True) -> Iterator[tuple[Step, State]]:
        """The one step that nothing else touches, or all."""
        alone = self._alone(at) if self.order else None
        offered = [alone] if alone is not None else self.machine.steps(at, failures=failures)
        for step, then in offered:
            yield step, self._one(then)

    # ---------------------------------------------------------------- order

    def _alone(self, at: State) -> tuple[Step, State] | None:
        machine, items = self.machine, self.machine.store.items
        aborts = machine.rules.cascade or machine.rules.crash
        for place, soup in enumerate(at.soups):
            for i in dict.fromkeys(soup):
                t, p = items[i]
                if isinstance(p, s.Send):
                    hops = list(machine.red_in_out(at, place, i, [])) if isinstance(p.to, s.Path) else []
                    if len(hops) == 1:
                        to = hops[0][0].place if hops[0][0].rule == "IN" else machine.layout.parents[place]
                        away = machine.home(at, t) not in (place, to)
                        if away or (not aborts and not self._others_abort(at, t, i)):
                            return hops[0]
                elif isinstance(p, _LOCAL) and not aborts and not self._others_abort(at, t, i):
                    local = list(_RULE[type(p)](machine, at, place, i, []))
                    if len(local) == 1:
                        return local[0]
        return None

    def _others_abort(self, at: State, t: str, i: int) -> bool:
        items = self.machine.store.items
        mine = [j for soup in at.soups for j in soup if items[j].trans == t]
        mine.remove(i)
        return any(may_abort(items[j].process) for j in mine)

    # ---------------------------------------------------------------- symmetry

    def _symmetries(self) -> list[Mapping[str, str]]:
        """Exchanges of transactions, and no others, that leave the start as it is."""
        names, start = self.machine.transactions, self.machine.start()
        if len(names) > _MOST:
            raise UsageError(f"symmetry tries all orders of transactions: {len(names)} are more than {_MOST}")
        found: list[Mapping[str, str]] = []
        for order in permutations(names):
            swap = dict(zip(names, order, strict=True))
            if swap and any(a != b for a, b in swap.items()) and self._with(start, swap) == start:
                found.append(swap)
        return found

    def _one(self, at: State) -> State:
        return min([at, *(self._with(at, swap) for swap in self.swaps)], key=lambda state: state[:2])

    def _with(self, at: State, swap: Mapping[str, str]) -> State:
        store = self.machine.store

        def item(i: int) -> int:
            trans, process = store.items[i]
            return i if trans not in swap else store.item(Item(swap[trans], process))

        def entry(e: int) -> int:
            kind, subject, process, message = store.entries[e]
            sent = None if message is None else Item(swap.get(message.trans, message.trans), message.process)
            return store.entry(Entry(kind, swap.get(subject, subject), process, sent))

        soups = tuple(tuple(sorted(map(item, soup))) for soup in at.soups)
        return at._replace(soups=soups, logs=tuple(tuple(map(entry, log)) for log in at.logs))


_RULE = {s.Continue: Atomic.red_app, s.Let: Atomic.red_let, s.Crypt: Atomic.red_crypt, s.Decrypt: Atomic.red_decrypt}
