"""Frontiers: the least times that are still possible.

An `Antichain` is a set of times of which none is before another: the frontier of all times that are at or after one of
them.  A `MutableAntichain` has times with counts, such as the messages that are under way, and knows the frontier of
those that have a positive count; an update returns how the *frontier* changed, not the counts.  A `ChangeBatch` is a
list of changes of counts in which opposite ones cancel.  Names and meanings are those of timely-dataflow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from pellucid.errors import UsageError
from pellucid.progress.times import NATURAL, Order, Time, several, whole

Change = tuple[Time, int]


def _order(order: Order) -> Order:
    if not isinstance(order, Order):
        raise UsageError(f"order={order!r}: an order of times is expected, such as Integers()")
    return order


def _pairs(changes: Iterable[Change]) -> Iterable[Change]:
    """Changes, each of which must be a pair; all are looked at before the first one counts."""
    if isinstance(changes, ChangeBatch):
        return changes
    known = several(changes, "changes: ", "[(17, 1)]")
    for change in known:
        if not isinstance(change, (tuple, list)) or len(change) != 2:
            raise UsageError(f"the change {change!r}: a pair of a time and a number is expected, as in (17, 1)")
    return known


class ChangeBatch:
    """Changes of counts, opposite ones cancelled.

    >>> batch = ChangeBatch()
    >>> batch.update(17, 1); batch.update(17, -1); batch.update(14, -1)
    >>> len(batch), batch.drain(), batch.is_empty()
    (1, [(14, -1)], True)
    """

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._net: dict[Time, int] = {}
        self.extend(changes)

    @classmethod
    def new_from(cls, key: Time, value: int) -> ChangeBatch:
        """A batch of one change.

        >>> ChangeBatch.new_from(17, 1).into_inner()
        [(17, 1)]
        """
        return cls([(key, value)])

    def update(self, item: Time, value: int) -> None:
        """One more change.

        >>> batch = ChangeBatch(); batch.update(17, 1); batch.is_empty()
        False
        """
        if type(value) is not int:
            whole(value, "the change of a count: ")
        try:
            net = self._net.get(item, 0) + value
        except TypeError:
            raise UsageError(f"{item!r} can change, so nothing can be counted for it: give a tuple or a text") from None
        if net:
            self._net[item] = net
        else:
            self._net.pop(item, None)

    def extend(self, changes: Iterable[Change]) -> None:
        """More changes.

        >>> batch = ChangeBatch([(17, 1)]); batch.extend([(17, 2), (3, 1)]); batch.into_inner()
        [(3, 1), (17, 3)]
        """
        for item, value in _pairs(changes):
            self.update(item, value)

    def iter(self) -> Iterator[Change]:
        """The net changes, in Python's order of the items where they have one.

        >>> list(ChangeBatch([(17, 1), (3, 1)]).iter())
        [(3, 1), (17, 1)]
        """
        return iter(self.into_inner())

    __iter__ = iter

    def into_inner(self) -> list[Change]:
        """The net changes as a list.

        >>> ChangeBatch([(17, 1)]).into_inner()
        [(17, 1)]
        """
        return in_order(self._net.items())

    def drain(self) -> list[Change]:
        """The net changes; the batch is empty afterwards.

        >>> batch = ChangeBatch([(17, 1)]); batch.drain(), batch.drain()
        ([(17, 1)], [])
        """
        out = self.into_inner()
        self._net.clear()
        return out

    def drain_into(self, other: ChangeBatch) -> None:
        """All changes go to another batch.

        >>> one, two = ChangeBatch([(17, 1)]), ChangeBatch()
        >>> one.drain_into(two); one.is_empty(), two.is_empty()
        (True, False)
        """
        other.extend(self._net.items())
        self._net.clear()

    def clear(self) -> None:
        """No change any more.

        >>> batch = ChangeBatch([(17, 1)]); batch.clear(); batch.is_empty()
        True
        """
        self._net.clear()

    def is_empty(self) -> bool:
        """Whether nothing is changed in all.

        >>> ChangeBatch([(17, 1), (17, -1)]).is_empty()
        True
        """
        return not self._net

    def __len__(self) -> int:
        return len(self._net)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangeBatch) and self._net == other._net

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"ChangeBatch({self.into_inner()!r})"


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Changes by their items, where Python has an order of these; as they came otherwise.

    >>> in_order([((2, 1), 1), ((1, 5), -1)])
    [((1, 5), -1), ((2, 1), 1)]
    """
    known = list(changes)
    try:
        return sorted(known)
    except TypeError:
        return known


class Antichain:
    """Times of which none is before another.

    >>> frontier = Antichain([3, 5, 2]); frontier
    Antichain([2])
    >>> from pellucid.progress import Integers, Product
    >>> Antichain([(1, 2), (2, 1), (2, 2)], order=Product(Integers(), Integers())).elements()
    [(1, 2), (2, 1)]

    Two are equal if they have the same elements, in whatever order:

    >>> Antichain([(1, 2), (2, 1)]) == Antichain([(2, 1), (1, 2)])
    True
    """

    def __init__(self, elements: Iterable[Time] = (), order: Order = NATURAL) -> None:
        self.order = _order(order)
        self._elements: list[Time] = []
        self.extend(elements)

    @classmethod
    def from_elem(cls, element: Time, order: Order = NATURAL) -> Antichain:
        """The antichain of one time.

        >>> Antichain.from_elem(2).elements()
        [2]
        """
        return cls([element], order)

    def insert(self, element: Time) -> bool:
        """Add a time, unless one that is there is before it; whether it was added.  What it is before goes.

        >>> frontier = Antichain(); frontier.insert(2), frontier.insert(3)
        (True, False)
        """
        self.order.check(element)
        le = self.order.le
        if any(le(known, element) for known in self._elements):
            return False
        self._elements = [known for known in self._elements if not le(element, known)]
        self._elements.append(element)
        return True

    def extend(self, elements: Iterable[Time]) -> bool:
        """Add times; whether any was added.

        >>> frontier = Antichain([3]); frontier.extend([2, 5]), frontier.extend([3, 4])
        (True, False)
        """
        added = [self.insert(element) for element in several(elements, "an antichain of ", "[(1, 2), (2, 1)]")]
        return any(added)

    def less_equal(self, time: Time) -> bool:
        """Whether some element is before the time, or is it: the time is still possible.

        >>> [Antichain([2]).less_equal(t) for t in (1, 2, 3)]
        [False, True, True]
        """
        self.order.check(time)
        return any(self.order.le(known, time) for known in self._elements)

    def less_than(self, time: Time) -> bool:
        """Whether some element is before the time, and is not it.

        >>> [Antichain([2]).less_than(t) for t in (1, 2, 3)]
        [False, False, True]
        """
        self.order.check(time)
        le = self.order.le
        return any(le(known, time) and not le(time, known) for known in self._elements)

    def dominates(self, other: Antichain) -> bool:
        """Whether every time of the other one is at or after one of this.

        >>> Antichain([2]).dominates(Antichain([3])), Antichain([2]).dominates(Antichain([1]))
        (True, False)
        """
        return all(self.less_equal(time) for time in other)

    def elements(self) -> list[Time]:
        """Its times, in Python's order where they have one.

        >>> Antichain([2]).elements()
        [2]
        """
        try:
            return sorted(self._elements)
        except TypeError:
            return list(self._elements)

    def is_empty(self) -> bool:
        """Whether it has no time: nothing is possible any more.

        >>> Antichain().is_empty()
        True
        """
        return not self._elements

    def clear(self) -> None:
        """No time any more.

        >>> frontier = Antichain([2]); frontier.clear(); frontier.elements()
        []
        """
        self._elements.clear()

    def as_option(self) -> Time | None:
        """The one time of an antichain that has no more than one; None if it has none.

        >>> Antichain([2]).as_option(), Antichain().as_option()
        (2, None)
        """
        if len(self._elements) > 1:
            raise ValueError(f"{self!r} has more than one element")
        return self._elements[0] if self._elements else None

    into_option = as_option

    def join(self, other: Antichain) -> Antichain:
        """The frontier of what is at or after a time of both.

        >>> Antichain([(3, 7), (5, 6)]).join(Antichain([(4, 6)])).elements()
        [(4, 7), (5, 6)]
        """
        return Antichain((self.order.join(a, b) for a in self for b in other), self.order)

    def meet(self, other: Antichain) -> Antichain:
        """The frontier of what is at or after a time of either.

        >>> Antichain([(3, 7), (5, 6)]).meet(Antichain([(4, 6)])).elements()
        [(3, 7), (4, 6)]
        """
        return Antichain([*self, *other], self.order)

    def advance(self, time: Time) -> Time:
        """The representative of a time for all that see only what is at or after this frontier: the two look the same
        there.  An empty frontier leaves the time as it is.

        >>> Antichain([(4, 8), (5, 3)]).advance((3, 7))
        (4, 7)
        """
        self.order.check(time)
        joins = [self.order.join(time, element) for element in self._elements]
        if not joins:
            return time
        out = joins[0]
        for later in joins[1:]:
            out = self.order.meet(out, later)
        return out

    def __iter__(self) -> Iterator[Time]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __contains__(self, time: Time) -> bool:
        return time in self._elements

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Antichain):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(t in other or any(self.order.same(t, u) for u in other) for t in self)

    __hash__ = None  # type: ignore[assignment]  # it changes; frozenset(a) is a key

    def __repr__(self) -> str:
        return f"Antichain({self.elements()!r})"


class _Counted:
    """A time with its count; the times under it are after it."""

    __slots__ = ("count", "placed", "time", "under")

    def __init__(self, time: Time, count: int) -> None:
        self.time, self.count, self.placed = time, count, False
        self.under: list[_Counted] = []


class MutableAntichain:
    """Times with counts, and the frontier of those whose count is positive.

    An update returns the changes of the frontier, not of the counts:

    >>> pending = MutableAntichain([1])
    >>> pending.update_iter([(1, -1), (2, 7)])
    [(1, -1), (2, 1)]
    >>> pending.frontier()
    Antichain([2])

    Counts may be negative for a while (a worker may hear that a message was taken before it hears that it was sent):

    >>> pending.update_iter([(5, -1), (2, -7)]), pending.update_iter([(5, 2)])
    ([(2, -1)], [(5, 1)])

    What is after an element of the frontier hangs below it, in a pairing heap for partial orders: a time that leaves
    the frontier shows those that were waiting for it without a look at all the others.
    """

    def __init__(self, elements: Iterable[Time] = (), order: Order = NATURAL) -> None:
        self.order = _order(order)
        self._known: dict[Time, _Counted] = {}
        self._roots: list[_Counted] = []  # the frontier: no time of them is before another, every count is positive
        self._idle = 0  # how many hang in the heap without a positive count
        self._failed = ""
        self.update_iter((element, 1) for element in elements)

    @classmethod
    def new_bottom(cls, bottom: Time, order: Order = NATURAL) -> MutableAntichain:
        """With one time, once.

        >>> MutableAntichain.new_bottom(0).frontier().elements()
        [0]
        """
        return cls([bottom], order)

    def update_iter(self, updates: Iterable[Change]) -> list[Change]:
        """Change counts; how the frontier changed, net, by time.

        >>> MutableAntichain().update_iter([(7, 1), (8, 1), (8, -1)])
        [(7, 1)]
        """
        if self._failed:
            raise UsageError(f"this antichain stopped when times could not be compared: {self._failed}")
        known = [
            (self.order.check(time), diff if type(diff) is int else whole(diff, f"the change of {time!r}: "))
            for time, diff in _pairs(updates)
        ]
        changes = ChangeBatch()
        try:
            for time, diff in known:
                self._update(time, diff, changes)
        except Exception as error:  # half done: what it would say from now on would be wrong
            self._failed = str(error)
            raise
        return changes.drain()

    def _update(self, time: Time, diff: int, changes: ChangeBatch) -> None:
        node = self._known.get(time)
        if node is None:
            node = self._known[time] = _Counted(time, 0)
        before, node.count = node.count, node.count + diff
        if before <= 0 < node.count:
            if node.placed:  # something that is before it is there
                self._idle -= 1
            else:
                self._place(node, changes)
        elif node.count <= 0 < before:
            if node in self._roots:
                self._roots.remove(node)
                changes.update(time, -1)
                self._uncover(self._given_up(node), changes)
            else:
                self._idle += 1
                if self._idle > len(self._known) // 2 + 8:
                    self._sweep()
        elif node.count == 0 and not node.placed:
            del self._known[time]

    def _place(self, node: _Counted, changes: ChangeBatch) -> None:
        le = self.order.le
        node.placed = True
        for root in self._roots:
            if le(root.time, node.time):
                root.under.append(node)
                return
        stay = []
        for root in self._roots:
            if le(node.time, root.time):
                node.under.append(root)
                changes.update(root.time, -1)
            else:
                stay.append(root)
        self._roots = [*stay, node]
        changes.update(node.time, 1)

    def _given_up(self, node: _Counted) -> list[_Counted]:
        """What was below a node that leaves the heap; nodes without a positive count leave with it."""
        found, todo = [], [node]
        while todo:
            gone = todo.pop()
            below, gone.under, gone.placed = gone.under, [], False
            if gone.count == 0:
                del self._known[gone.time]
            for child in below:
                if child.count > 0:
                    found.append(child)
                else:
                    self._idle -= 1
                    todo.append(child)
        return found

    def _uncover(self, nodes: list[_Counted], changes: ChangeBatch) -> None:
        """What is below no other of these nodes and of the roots is a root now."""
        le = self.order.le
        queue = deque([node] for node in nodes)
        while len(queue) > 1:
            one, two = queue.popleft(), queue.popleft()
            for node in two:
                for other in one:
                    if le(other.time, node.time):
                        other.under.append(node)
                        break
                else:
                    for other in one:
                        if le(node.time, other.time):
                            node.under.append(other)
                    one = [other for other in one if not le(node.time, other.time)] + [node]
            queue.append(one)
        new = []
        for node in queue[0] if queue else ():
            for root in self._roots:
                if le(root.time, node.time):
                    root.under.append(node)
                    break
            else:
                new.append(node)
                changes.update(node.time, 1)
        self._roots += new

    def _sweep(self) -> None:
        """Forget what has no count; its cost is paid by as many updates as there are to forget."""
        for root in self._roots:
            found, todo = [], [root]
            while todo:
                node = todo.pop()
                todo += node.under
                node.under = []
                if node.count > 0:
                    found.append(node)
                else:
                    node.placed = False
                    if node.count == 0:
                        del self._known[node.time]
            root.under = found[1:]
        self._idle = 0

    def frontier(self) -> Antichain:
        """The least times with a positive count.

        >>> MutableAntichain([3, 2]).frontier()
        Antichain([2])
        """
        out = Antichain(order=self.order)
        out._elements = [root.time for root in self._roots]
        return out

    def less_equal(self, time: Time) -> bool:
        """Whether an element of the frontier is before the time, or is it.

        >>> [MutableAntichain([1]).less_equal(t) for t in (0, 1, 2)]
        [False, True, True]
        """
        return self.frontier().less_equal(time)

    def less_than(self, time: Time) -> bool:
        """Whether an element of the frontier is before the time, and is not it.

        >>> [MutableAntichain([1]).less_than(t) for t in (0, 1, 2)]
        [False, False, True]
        """
        return self.frontier().less_than(time)

    def is_empty(self) -> bool:
        """Whether no time has a positive count.

        >>> MutableAntichain().is_empty()
        True
        """
        return not self._roots

    def count_for(self, time: Time) -> int:
        """The count of a time.

        >>> MutableAntichain([1, 1]).count_for(1)
        2
        """
        node = self._known.get(self.order.check(time))
        return 0 if node is None else node.count

    def updates(self) -> list[Change]:
        """All times with their counts.

        >>> MutableAntichain([1, 1, 5]).updates()
        [(1, 2), (5, 1)]
        """
        return in_order((time, node.count) for time, node in self._known.items() if node.count)

    def clear(self) -> None:
        """No time any more.

        >>> pending = MutableAntichain([1]); pending.clear(); pending.is_empty()
        True
        """
        self._known.clear()
        self._roots, self._idle = [], 0

    def __len__(self) -> int:
        """How many times are kept: no more than are counted, and a few."""
        return len(self._known)

    def __repr__(self) -> str:
        return f"MutableAntichain({self.updates()!r})"
