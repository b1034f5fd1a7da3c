"""Times: partial orders as values.

A time says which part of the work a message belongs to: an epoch, an epoch and how often a loop went round, a moment of
a clock in some time zone, the stack of the calls that are open.  Times need not be in one line, so what a graph's times
are is a value, an `Order`, which says what is a time (`holds`) and which is before which (`less_equal`):

- `Integers`: whole numbers, by default of 64 bits with a sign, as everywhere in Pellucid;
- `Ordered`: values of one type of Python's that has an order, such as texts, days and moments;
- `Product`: tuples, before where every part is before; `Lexicographic`: tuples, the first part that differs decides;
- `Loop`: the times of an outer graph and how often the loop went round (counters of loops inside loops compare
  lexicographically, as in Naiad: only so is the inner loop's ``(1, 5)`` before ``(2, 0)``, one round of the outer
  later);
- `Domains`: several domains of times side by side, each time with its tag; two of different domains are in no order;
- `Stacks`: the open calls of a recursion, by the order of one node;
- `Own`: your own, tried on samples before it is believed;
- `Natural`: what Python's values say of themselves, for short examples.

A time that is not of the order is refused by name, and never answered with *not before*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import product
from typing import Any

from pellucid.errors import PellucidError, PipelineError, UsageError

# ---------------------------------------------------------------- arguments: each refusal says what is expected


def several(given: Any, where: str, such: str) -> list[Any]:
    """Some things, as a list.

    >>> several(5, "times=", "[1, 2]")
    Traceback (most recent call last):
    pellucid.errors.UsageError: times=5: several are expected, as in [1, 2]
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise UsageError(f"{where}{given!r}: several are expected, as in {such}")
    return list(given)


def named(given: Any, where: str, such: str) -> Mapping[Any, Any]:
    """Things by name, as a dict.

    >>> named([1], "nodes=", "{'read': Node()}")
    Traceback (most recent call last):
    pellucid.errors.UsageError: nodes=[1]: a dict is expected, as in {'read': Node()}
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}{given!r}: a dict is expected, as in {such}")
    return given


def whole(given: Any, where: str, least: int | None = None) -> int:
    """A whole number.

    >>> whole(-1, "messages=", 0)
    Traceback (most recent call last):
    pellucid.errors.UsageError: messages=-1: a whole number from 0 on is expected
    """
    if isinstance(given, bool) or not isinstance(given, int) or (least is not None and given < least):
        raise UsageError(f"{where}{given!r}: a whole number {'' if least is None else f'from {least} on '}is expected")
    return given


def hashed(given: Any) -> bool:
    """Whether Python can look it up: what is compared and kept must not change.

    >>> hashed((1, "a")), hashed([1])
    (True, False)
    """
    try:
        hash(given)
    except Exception:  # whatever a class of one's own raises
        return False
    return True


def kept(given: Any) -> bool:
    """Whether it stays what it is: it can be looked up, by what it says and not by where it lies, and is not
    used up by reading.  An iterator, or an object of a class without ``__eq__``, may be another one tomorrow.

    >>> kept((1, "a")), kept(iter([1])), kept([1])
    (True, False, False)
    """
    if isinstance(given, (tuple, frozenset)):
        return all(map(kept, given))
    hashes: Any = type(given).__hash__
    nameless = hashes is object.__hash__ and hasattr(given, "__dict__") and not callable(given)
    return hashed(given) and not nameless and not isinstance(given, Iterator)


def told_apart(given: Iterable[Any], where: str) -> tuple[Any, ...]:
    """Each thing once; two that Python takes for one although they are not, such as 1 and True, are refused.

    >>> told_apart([1, 2, 1], "values=")
    (1, 2)
    >>> told_apart([1, True], "values=")
    Traceback (most recent call last):
    pellucid.errors.UsageError: values=: Python takes 1 and True for one thing: leave one of them out
    """
    known: dict[Any, Any] = {}
    for one in given:
        if not hashed(one):
            raise UsageError(f"{where}: {one!r} can change, so it cannot be compared: give a tuple or a text")
        first = known.setdefault(one, one)
        if type(first) is not type(one):
            raise UsageError(f"{where}: Python takes {first!r} and {one!r} for one thing: leave one of them out")
    return tuple(known)


Time = Any  # what an order holds: hashable, and never changed

_NO_ORDER = object.__dict__["__le__"]
LEAST, MOST = -(2**63), 2**63 - 1


class Order:
    """A partial order of times."""

    def holds(self, time: Time) -> bool:
        """Whether this is one of its times.

        >>> Integers(0, 9).holds(10), Product(Integers(), Integers()).holds((1, 2))
        (False, True)
        """
        raise NotImplementedError

    def le(self, a: Time, b: Time) -> bool:
        """Whether ``a`` is before ``b`` or the same, for two that are known to be its times."""
        raise NotImplementedError

    def check(self, time: Time, where: str = "") -> Time:
        """The time, if it is one; otherwise an error that names both.

        >>> Integers().check((1, 2), "update at node 3")
        Traceback (most recent call last):
        pellucid.errors.UsageError: update at node 3: (1, 2) is not a time of integers of 64 bits: ...
        """
        try:
            hash(time)
            known = self.holds(time)
        except Exception:  # what a class or a function of one's own raises: it is no time that is known
            known = False
        if not known:
            at = f"{where}: " if where else ""
            example = self.example()
            such = "" if example is None else f"; give a time of this domain, such as {example!r}"
            raise UsageError(f"{at}{time!r} is not a time of {self}: times of two domains cannot be compared{such}")
        return time

    def less_equal(self, a: Time, b: Time) -> bool:
        """Whether ``a`` is before ``b`` or the same.

        >>> pairs = Product(Integers(), Integers())
        >>> pairs.less_equal((1, 2), (1, 3)), pairs.less_equal((1, 2), (2, 1))
        (True, False)
        >>> pairs.less_equal(1, (2, 1))
        Traceback (most recent call last):
        pellucid.errors.UsageError: 1 is not a time of (integers of 64 bits × integers of 64 bits): ...
        """
        return self.le(self.check(a), self.check(b))

    def less_than(self, a: Time, b: Time) -> bool:
        """Whether ``a`` is before ``b`` and not the same.

        >>> Integers().less_than(1, 1), Integers().less_than(1, 2)
        (False, True)
        """
        return self.less_equal(a, b) and not self.le(b, a)

    def same(self, a: Time, b: Time) -> bool:
        """Whether each is before the other: one time, however it is written.

        >>> Integers().same(1, 1)
        True
        """
        return self.le(a, b) and self.le(b, a)

    def example(self) -> Time:
        """Some time, for messages; None if none is known.

        >>> Loop(Integers()).example()
        (0, 0)
        """
        return None

    def minimum(self) -> Time | None:
        """The least time, if there is one.

        >>> Integers(0).minimum(), Domains({"gmt": Integers(0), "pst": Integers(0)}).minimum()
        (0, None)
        """
        return None

    def join(self, a: Time, b: Time) -> Time:
        """The least time that is after both, where the order has one.

        >>> Product(Integers(), Integers()).join((3, 7), (4, 6))
        (4, 7)
        """
        if self.less_equal(a, b):
            return b
        if self.le(b, a):
            return a
        raise UsageError(f"{a!r} and {b!r} have no least time after both that {self} knows of")

    def meet(self, a: Time, b: Time) -> Time:
        """The greatest time that is before both, where the order has one.

        >>> Product(Integers(), Integers()).meet((3, 7), (4, 6))
        (3, 6)
        """
        if self.less_equal(a, b):
            return a
        if self.le(b, a):
            return b
        raise UsageError(f"{a!r} and {b!r} have no greatest time before both that {self} knows of")

    def _key(self) -> tuple[Any, ...]:
        """What makes it the order that it is."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        return str(self)


class Integers(Order):
    """Whole numbers from ``low`` to ``high``, both included.

    >>> Integers().less_equal(3, 5), Integers(0, 2**64 - 1).holds(-1)
    (True, False)
    >>> Integers(5, 2)
    Traceback (most recent call last):
    pellucid.errors.UsageError: integers from 5 to 2: there is none
    """

    def __init__(self, low: int = LEAST, high: int = MOST) -> None:
        for end in (low, high):
            if isinstance(end, bool) or not isinstance(end, int):
                raise UsageError(f"Integers({low!r}, {high!r}): the ends are whole numbers, as in Integers(0, 9)")
        if low > high:
            raise UsageError(f"integers from {low} to {high}: there is none")
        self.low, self.high = low, high

    def holds(self, time: Time) -> bool:
        return isinstance(time, int) and not isinstance(time, bool) and self.low <= time <= self.high

    def le(self, a: Time, b: Time) -> bool:
        return bool(a <= b)

    def example(self) -> Time:
        return min(max(0, self.low), self.high)

    def minimum(self) -> Time | None:
        return self.low

    def _key(self) -> tuple[Any, ...]:
        return self.low, self.high

    def __str__(self) -> str:
        if (self.low, self.high) == (LEAST, MOST):
            return "integers of 64 bits"
        if self.high == MOST:
            return f"integers from {self.low}"
        return f"integers from {self.low} to {self.high}"


class Ordered(Order):
    """The values of a type that Python compares in one line: texts, days, moments, spans of time.

    >>> from datetime import date
    >>> Ordered(date).less_equal(date(2013, 1, 1), date(2013, 1, 2)), Ordered(str).less_equal("b", "a")
    (True, False)
    """

    def __init__(self, kind: type) -> None:
        name = getattr(kind, "__name__", repr(kind))
        lined = isinstance(kind, type) and getattr(kind, "__le__", _NO_ORDER) is not _NO_ORDER
        if not lined or kind in (int, bool, float) or issubclass(kind, (set, frozenset)):
            raise UsageError(
                f"Ordered({name}): a type whose values are in one line is needed, such as str, date or "
                "datetime; whole numbers are Integers()"
            )
        self.kind = kind

    def example(self) -> Time:
        least = getattr(self.kind, "min", "" if self.kind is str else None)
        return least if isinstance(least, self.kind) else None

    def holds(self, time: Time) -> bool:
        if not isinstance(time, self.kind) or (self.kind is date and isinstance(time, datetime)):
            return False
        known: Any = time
        return bool(known <= known)  # not so of what is no time, such as NaN and NaT

    def le(self, a: Time, b: Time) -> bool:
        try:
            return bool(a <= b)
        except Exception as error:  # such as a moment with a time zone beside one without
            raise UsageError(f"{a!r} and {b!r} cannot be compared: {type(error).__name__}: {error}") from None

    def _key(self) -> tuple[Any, ...]:
        return (self.kind,)

    def __str__(self) -> str:
        return f"values of {self.kind.__name__}"


class _Tuples(Order):
    """Orders whose times are tuples with a part for each of some orders."""

    _sign = ""

    def __init__(self, *parts: Order) -> None:
        if not parts or not all(isinstance(part, Order) for part in parts):
            raise UsageError(f"{type(self).__name__}{parts!r}: one or more orders are needed, such as Integers()")
        self.parts = parts

    def holds(self, time: Time) -> bool:
        return (
            isinstance(time, tuple)
            and len(time) == len(self.parts)
            and all(part.holds(t) for part, t in zip(self.parts, time, strict=True))
        )

    def example(self) -> Time:
        return tuple(part.example() for part in self.parts)

    def minimum(self) -> Time | None:
        least = tuple(part.minimum() for part in self.parts)
        return None if None in least else least

    def _key(self) -> tuple[Any, ...]:
        return self.parts

    def __str__(self) -> str:
        return f"({self._sign.join(str(part) for part in self.parts)})"


class Product(_Tuples):
    """Tuples; one is before another where every part of it is.

    >>> epochs_and_shards = Product(Integers(), Integers())
    >>> epochs_and_shards.less_equal((1, 5), (2, 5)), epochs_and_shards.less_equal((1, 5), (2, 4))
    (True, False)
    """

    _sign = " × "

    def le(self, a: Time, b: Time) -> bool:
        return all(part.le(x, y) for part, x, y in zip(self.parts, a, b, strict=True))

    def join(self, a: Time, b: Time) -> Time:
        return tuple(p.join(x, y) for p, x, y in zip(self.parts, self.check(a), self.check(b), strict=True))

    def meet(self, a: Time, b: Time) -> Time:
        return tuple(p.meet(x, y) for p, x, y in zip(self.parts, self.check(a), self.check(b), strict=True))


class Lexicographic(_Tuples):
    """Tuples; the first part that differs decides.

    >>> Lexicographic(Integers(), Integers()).less_equal((1, 5), (2, 4))
    True
    """

    _sign = " then "

    def le(self, a: Time, b: Time) -> bool:
        for part, x, y in zip(self.parts, a, b, strict=True):
            if not part.same(x, y):
                return part.le(x, y)
        return True


class Loop(Order):
    """The times inside a loop: a time of the graph around it, and how often it went round, as one flat tuple.

    Counters of loops inside loops compare lexicographically: one more round of the outer loop is later than any number
    of the inner one.  The time around them must be before, too.

    >>> Loop(Integers()).example(), Loop(Loop(Integers())).example()
    ((0, 0), (0, 0, 0))
    >>> inner = Loop(Loop(Integers()))
    >>> inner.less_equal((7, 1, 5), (7, 2, 0)), inner.less_equal((8, 1, 0), (7, 2, 0))
    (True, False)
    """

    def __init__(self, outer: Order) -> None:
        if not isinstance(outer, Order):
            raise UsageError(f"Loop({outer!r}): the order of the times around the loop is needed, such as Integers()")
        self.outer = outer
        self.root: Order = outer.root if isinstance(outer, Loop) else outer
        self.depth: int = outer.depth + 1 if isinstance(outer, Loop) else 1
        self.flat = isinstance(self.root, _Tuples)
        self.width = len(self.root.parts) if isinstance(self.root, _Tuples) else 1

    def _around(self, time: Time) -> Time:
        return time[: self.width] if self.flat else time[0]

    def holds(self, time: Time) -> bool:
        return (
            isinstance(time, tuple)
            and len(time) == self.width + self.depth
            and self.root.holds(self._around(time))
            and all(_COUNTER.holds(n) for n in time[self.width :])
        )

    def le(self, a: Time, b: Time) -> bool:
        return bool(a[self.width :] <= b[self.width :]) and self.root.le(self._around(a), self._around(b))

    def example(self) -> Time:
        around = self.root.example()
        return (around if self.flat else (around,)) + (0,) * self.depth

    def minimum(self) -> Time | None:
        around = self.root.minimum()
        return None if around is None else (around if self.flat else (around,)) + (0,) * self.depth

    def join(self, a: Time, b: Time) -> Time:
        around = self.root.join(self._around(self.check(a)), self._around(self.check(b)))
        return (around if self.flat else (around,)) + max(a[self.width :], b[self.width :])

    def meet(self, a: Time, b: Time) -> Time:
        around = self.root.meet(self._around(self.check(a)), self._around(self.check(b)))
        return (around if self.flat else (around,)) + min(a[self.width :], b[self.width :])

    def _key(self) -> tuple[Any, ...]:
        return (self.outer,)

    def __str__(self) -> str:
        return f"{self.root} with {self.depth} loop counter{'s' if self.depth > 1 else ''}"


_COUNTER = Integers(0)


class Domains(Order):
    """Several domains of times: a time is a pair of its domain's name and a time there.  Times of different domains
    are in no order.

    >>> clocks = Domains({"gmt": Integers(), "pst": Integers()})
    >>> clocks.less_equal(("gmt", 1), ("gmt", 2)), clocks.less_equal(("gmt", 1), ("pst", 2))
    (True, False)
    >>> clocks.less_equal(("utc", 1), ("gmt", 2))
    Traceback (most recent call last):
    pellucid.errors.UsageError: ('utc', 1) is not a time of the domains gmt, pst: ...
    """

    def __init__(self, domains: Mapping[str, Order]) -> None:
        given = isinstance(domains, Mapping) and all(
            isinstance(name, str) and isinstance(order, Order) for name, order in domains.items()
        )
        if not domains or not given:
            raise UsageError(f"Domains({domains!r}): an order for each name is needed, such as {{'gmt': Integers()}}")
        self.domains = dict(domains)

    def holds(self, time: Time) -> bool:
        if not (isinstance(time, tuple) and len(time) == 2 and isinstance(time[0], str)):
            return False
        return time[0] in self.domains and self.domains[time[0]].holds(time[1])

    def le(self, a: Time, b: Time) -> bool:
        return bool(a[0] == b[0]) and self.domains[a[0]].le(a[1], b[1])

    def example(self) -> Time:
        name, order = next(iter(self.domains.items()))
        return (name, order.example())

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.domains.items())

    def __str__(self) -> str:
        return f"the domains {', '.join(self.domains)}"


class Stacks(Order):
    """The calls that are open in a recursion, the innermost last, as tuples of their names.

    ``before`` is the order at one node (section 3.4 has one for each); without it a stack is before those that it
    begins.
    Where ``before`` holds both ways, two stacks are the `same` time there.

    >>> fib = Stacks(["left", "right"])
    >>> fib.less_equal(("left",), ("left", "right")), fib.less_equal(("right",), ("left", "right"))
    (True, False)
    >>> fib.less_equal(("middle",), ())
    Traceback (most recent call last):
    pellucid.errors.UsageError: ('middle',) is not a time of stacks of left, right: ...
    """

    def __init__(self, calls: Iterable[str], before: Callable[[Time, Time], bool] | None = None) -> None:
        if isinstance(calls, str) or not isinstance(calls, Iterable):
            raise UsageError(f"Stacks({calls!r}): the names of the calls are needed, as in Stacks(['left', 'right'])")
        self.calls = tuple(calls)
        self.before = before

    def holds(self, time: Time) -> bool:
        return isinstance(time, tuple) and all(call in self.calls for call in time)

    def le(self, a: Time, b: Time) -> bool:
        return bool(b[: len(a)] == a) if self.before is None else bool(self.before(a, b))

    def example(self) -> Time:
        return self.calls[:1]

    def minimum(self) -> Time | None:
        return () if self.before is None else None

    def _key(self) -> tuple[Any, ...]:
        return self.calls, self.before

    def __str__(self) -> str:
        return f"stacks of {', '.join(self.calls)}"


class Own(Order):
    """Your own order, tried on ``samples``: reflexive, antisymmetric and transitive, or refused with the elements that
    show it.

    >>> divides = Own(lambda a, b: b % a == 0, samples=range(1, 13), name="divisibility")
    >>> divides.less_equal(3, 12), divides.less_equal(3, 10)
    (True, False)
    >>> Own(lambda a, b: abs(a - b) <= 1, samples=[0, 1, 2], name="near")
    Traceback (most recent call last):
    pellucid.errors.PipelineError: near is not an order: it is not antisymmetric: 0 ≤ 1 and 1 ≤ 0, but they differ
    """

    def __init__(
        self,
        less_equal: Callable[[Time, Time], bool],
        samples: Iterable[Time],
        *,
        name: str = "your order",
        holds: Callable[[Time], bool] | None = None,
    ) -> None:
        self.before, self.name, self.within = less_equal, name, holds
        if not callable(less_equal):
            raise UsageError(f"{name}: {less_equal!r} cannot be called: give a function of two times")
        self.samples: Sequence[Time] = list(samples) if isinstance(samples, Iterable) else []
        if not self.samples:
            raise UsageError(f"{name}: samples= is empty: give some times on which the order is tried, three at least")
        for a in self.samples:
            if not hashed(a):
                raise UsageError(f"{name}: samples=: {a!r} can change, so it can be no time: give a tuple or a text")
            if holds is not None:
                self.check(a, "samples=")
        wrong = not_an_order(self.le, self.samples)
        if wrong is not None:
            raise PipelineError(f"{name} is not an order: {wrong[0]}")

    def holds(self, time: Time) -> bool:
        if self.within is not None:
            return bool(self.within(time))
        try:
            return bool(self.before(time, time))
        except Exception:  # whatever a function of one's own raises about what it does not know
            return False

    def le(self, a: Time, b: Time) -> bool:
        try:
            return bool(self.before(a, b))
        except PellucidError:
            raise
        except Exception as error:
            raise UsageError(
                f"{self.name} does not tell whether {a!r} ≤ {b!r}: {type(error).__name__}: {error}"
            ) from error

    def example(self) -> Time:
        return self.samples[0]

    def _key(self) -> tuple[Any, ...]:
        return self.before, self.name

    def __str__(self) -> str:
        return self.name


def not_an_order(
    less_equal: Callable[[Time, Time], bool], samples: Iterable[Time]
) -> tuple[str, tuple[Time, ...]] | None:
    """Why this is no partial order, and the one, two or three elements that show it; None if these samples do not.

    >>> not_an_order(lambda a, b: a < b, [1, 2])
    ('it is not reflexive: 1 ≤ 1 does not hold', (1,))
    >>> beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    >>> not_an_order(lambda a, b: a == b or (a, b) in beats, ["rock", "paper", "scissors"])[1]
    ('rock', 'scissors', 'paper')
    >>> not_an_order(lambda a, b: a <= b, [1, 2, 3])
    """
    known = list(samples)
    for a in known:
        if not less_equal(a, a):
            return f"it is not reflexive: {a!r} ≤ {a!r} does not hold", (a,)
    after = [[j for j, b in enumerate(known) if less_equal(a, b)] for a in known]
    for i, j in product(range(len(known)), repeat=2):
        if j in after[i] and i in after[j] and known[i] != known[j]:
            a, b = known[i], known[j]
            return f"it is not antisymmetric: {a!r} ≤ {b!r} and {b!r} ≤ {a!r}, but they differ", (a, b)
    for i, a in enumerate(known):
        for j in after[i]:
            for k in after[j]:
                if k not in after[i]:
                    b, c = known[j], known[k]
                    return (
                        f"it is not transitive: {a!r} ≤ {b!r} and {b!r} ≤ {c!r}, but {a!r} ≤ {c!r} does not hold",
                        (a, b, c),
                    )
    return None


class Natural(Order):
    """What Python's values say of themselves: whole numbers, texts and moments in their line, tuples part by part.  For
    examples and antichains on their own; a graph says what its times are.

    >>> NATURAL.less_equal(1, 2), NATURAL.less_equal(("a", 2), ("b", 1))
    (True, False)
    >>> NATURAL.less_equal(1, "b")
    Traceback (most recent call last):
    pellucid.errors.UsageError: 1 and 'b' are times of two domains: they cannot be compared
    """

    def holds(self, time: Time) -> bool:
        if isinstance(time, tuple):
            return all(self.holds(part) for part in time)
        ordered = getattr(type(time), "__le__", _NO_ORDER) is not _NO_ORDER
        if not ordered or isinstance(time, (set, frozenset, list, dict, float)):
            return False
        return bool(time <= time)

    def le(self, a: Time, b: Time) -> bool:
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            parts = [self.le(x, y) for x, y in zip(a, b, strict=True)]  # all of them: a mixture is refused
            return all(parts)
        whole = (isinstance(a, int), isinstance(b, int))
        if (type(a) is not type(b) and whole != (True, True)) or isinstance(a, tuple):
            raise UsageError(f"{a!r} and {b!r} are times of two domains: they cannot be compared")
        try:
            return bool(a <= b)
        except Exception as error:  # such as a moment with a time zone beside one without
            raise UsageError(f"{a!r} and {b!r} cannot be compared: {type(error).__name__}: {error}") from None

    def join(self, a: Time, b: Time) -> Time:
        self.less_equal(a, b)
        return tuple(map(self.join, a, b)) if isinstance(a, tuple) else max(a, b)

    def meet(self, a: Time, b: Time) -> Time:
        self.less_equal(a, b)
        return tuple(map(self.meet, a, b)) if isinstance(a, tuple) else min(a, b)

    def example(self) -> Time:
        return 0

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __str__(self) -> str:
        return "the values that Python orders"


NATURAL = Natural()
