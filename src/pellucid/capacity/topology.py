"""Topologies: spouts, bolts, who hears whom, and how many workers there are.

A *spout* brings tuples in, at most one per ``gap`` (strictly more time than that has to pass, as in the paper); a
*bolt* has workers that take a tuple from its queue, are busy for ``time`` and then put out ``ratio`` tuples for each
one.  Which semantics and which observation is meant is part of the topology, since the answers differ:

- ``routing="one"``: a tuple goes to one of those who hear it, whoever chooses; ``"all"``: each gets a copy.
- ``semantics="urgent"``: whoever can take or emit does so before time passes and before a spout emits; ``"literal"``:
  as printed in the appendix of the paper.
- ``observe="any"``: a queue is looked at in every state; ``"settled"``: after the takes of that instant.

All numbers are exact: integers, fractions, or decimals written as text (``"0.8"``); a float is taken for the decimal
that it is printed as.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from pellucid.errors import UsageError, nearest

Routing: TypeAlias = Literal["one", "all"]
Semantics: TypeAlias = Literal["urgent", "literal"]
Observation: TypeAlias = Literal["any", "settled"]
Queue: TypeAlias = Literal["shared", "per worker"]
Number: TypeAlias = "int | str | float | Fraction"


class AnyNumber(enum.Enum):
    """Of workers: one or more, nobody knows how many."""

    ANY = "any"

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = AnyNumber.ANY
MOST_WORKERS = 32_768  # as many as Flink lets a step have
Workers: TypeAlias = int | Literal[AnyNumber.ANY]


def exact(value: Number, what: str, *, least: Fraction | None = None) -> Fraction:
    """A number as it is written, exactly.

    >>> exact(0.8, "gap"), exact("2/3", "gap"), exact(2, "gap")
    (Fraction(4, 5), Fraction(2, 3), Fraction(2, 1))
    >>> exact(0, "time of bolt B1")
    Traceback (most recent call last):
        ...
    pellucid.errors.UsageError: time of bolt B1: 0 is not above 0.
    """
    try:
        if isinstance(value, bool):
            raise ValueError
        found = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError):
        raise UsageError(f"{what}: expected a number such as 1, 0.8 or 2/3, got {value!r}.") from None
    if least is None and found <= 0:
        raise UsageError(f"{what}: {value} is not above 0.")
    if least is not None and found < least:
        raise UsageError(f"{what}: {value} is below {least}.")
    return found


@dataclass(frozen=True)
class Spout:
    """A source of tuples: more than ``gap`` passes between two of them.

    >>> Spout(gap=0.8).gap
    Fraction(4, 5)
    """

    gap: Fraction

    def __init__(self, gap: Number) -> None:
        object.__setattr__(self, "gap", exact(gap, "the gap of a spout"))


@dataclass(frozen=True)
class Bolt:
    """A step with a queue: ``workers`` that are busy for ``time`` with each tuple and put out ``ratio`` for each.

    >>> Bolt(time=1, hears=["S1"])
    Bolt(time=Fraction(1, 1), hears=('S1',), workers=1, ratio=Fraction(1, 1), queue='shared', initial=0)
    """

    time: Fraction
    hears: tuple[str, ...]
    workers: Workers = 1
    ratio: Fraction = Fraction(1)
    queue: Queue = "shared"
    initial: int = 0

    def __init__(
        self,
        time: Number,
        hears: str | Iterable[str],
        *,
        workers: Workers = 1,
        ratio: Number = 1,
        queue: Queue = "shared",
        initial: int = 0,
    ) -> None:
        put = object.__setattr__
        put(self, "time", exact(time, "the time of a bolt"))
        put(self, "hears", (hears,) if isinstance(hears, str) else tuple(hears))
        if workers is not ANY and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise UsageError(f"the workers of a bolt: expected 1 or more, or ANY, got {workers!r}.")
        if workers is not ANY and workers > MOST_WORKERS:
            raise UsageError(f"the workers of a bolt: {workers:,} are too many: {MOST_WORKERS:,} are the most.")
        put(self, "workers", workers)
        put(self, "ratio", exact(ratio, "the ratio of a bolt", least=Fraction(0)))
        if queue not in get_args(Queue):
            raise UsageError(f'the queue of a bolt: expected "shared" or "per worker", got {queue!r}.')
        put(self, "queue", queue)
        if isinstance(initial, bool) or not isinstance(initial, int) or initial < 0:
            raise UsageError(f"the initial queue of a bolt: expected 0 or more tuples, got {initial!r}.")
        put(self, "initial", initial)


@dataclass(frozen=True)
class Topology:
    """Spouts and bolts by name.

    >>> t = Topology(spouts={"S1": Spout(gap=1)}, bolts={"B1": Bolt(time=1, workers=2, hears=["S1"])})
    >>> t.listeners("S1"), t.routing, t.semantics, t.observe
    (('B1',), 'one', 'urgent', 'any')
    """

    spouts: Mapping[str, Spout]
    bolts: Mapping[str, Bolt]
    routing: Routing = "one"
    semantics: Semantics = "urgent"
    observe: Observation = "any"
    name: str = field(default="topology", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spouts", dict(self.spouts))
        object.__setattr__(self, "bolts", dict(self.bolts))
        for word, value, known in (
            ("routing", self.routing, get_args(Routing)),
            ("semantics", self.semantics, get_args(Semantics)),
            ("observe", self.observe, get_args(Observation)),
        ):
            if value not in known:
                raise UsageError(f"{word}: expected {' or '.join(map(repr, known))}, got {value!r}.")
        if not self.spouts:
            raise UsageError("a topology needs a spout: nothing else brings tuples in.")
        for name in (*self.spouts, *self.bolts):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise UsageError(f"a spout or bolt is called {name!r}: expected a name that can be printed on a line.")
        for both in sorted(self.spouts.keys() & self.bolts.keys()):
            raise UsageError(f"{both} is a spout and a bolt: rename one of them.")
        names = [*self.spouts, *self.bolts]
        for name, bolt in self.bolts.items():
            if not bolt.hears:
                raise UsageError(f"bolt {name} hears nobody: nothing would come to its queue.")
            for heard in bolt.hears:
                if heard not in names:
                    raise UsageError(f"bolt {name} hears {heard}, which is not there{nearest(heard, names)}")
            if len(set(bolt.hears)) < len(bolt.hears):
                raise UsageError(f"bolt {name} hears {max(bolt.hears, key=bolt.hears.count)} twice.")
        fed = list(self.spouts)
        for name in fed:  # it grows meanwhile
            fed += [b for b in self.listeners(name) if b not in fed]
        alone = [b for b in self.bolts if b not in fed]
        if alone:
            raise UsageError(f"no spout feeds {', '.join(alone)}: they hear only each other.")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(self.spouts.items()), tuple(self.bolts.items()), self.routing, self.semantics, self.observe))

    def listeners(self, name: str) -> tuple[str, ...]:
        """The bolts that hear a spout or a bolt, in the order in which they are written."""
        return self._listeners.get(name, ())

    @cached_property
    def _listeners(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for b, bolt in self.bolts.items():
            for heard in dict.fromkeys(bolt.hears):
                found.setdefault(heard, []).append(b)
        return {name: tuple(bolts) for name, bolts in found.items()}

    def bolt(self, name: str) -> Bolt:
        """A bolt by its name."""
        if name not in self.bolts:
            what = " (it is a spout, which has no queue)" if name in self.spouts else ""
            near = (
                nearest(name, list(self.bolts))
                or f": {', '.join(self.bolts)} {'is' if len(self.bolts) == 1 else 'are'}"
            )
            raise UsageError(f"there is no bolt {name}{what}{near}")
        return self.bolts[name]

    def given(
        self,
        *,
        workers: Workers | Mapping[str, Workers] | None = None,
        gap: Number | Mapping[str, Number] | None = None,
        **changes: Any,
    ) -> Topology:
        """The same with other numbers: ``workers`` and ``gap`` for all or by name; ``routing``, ``semantics``,
        ``observe``, ``name``, ``spouts``, ``bolts`` as they are given.

        >>> t = Topology({"S1": Spout(gap=1)}, {"B1": Bolt(time=1, hears=["S1"])})
        >>> u = t.given(workers={"B1": 2}, gap="0.8", observe="settled")
        >>> u.bolts["B1"].workers, u.spouts["S1"].gap, u.observe
        (2, Fraction(4, 5), 'settled')
        >>> t.given(workers={"B2": 2})
        Traceback (most recent call last):
            ...
        pellucid.errors.UsageError: workers: there is no bolt B2: B1 is.
        """
        spouts: dict[str, Spout] = dict(changes.pop("spouts", self.spouts))
        bolts: dict[str, Bolt] = dict(changes.pop("bolts", self.bolts))
        for name, many in _each(workers, bolts, "workers: there is no bolt"):
            b = bolts[name]
            bolts[name] = Bolt(b.time, b.hears, workers=many, ratio=b.ratio, queue=b.queue, initial=b.initial)
        for name, least in _each(gap, spouts, "gap: there is no spout"):
            spouts[name] = Spout(least)
        return replace(self, spouts=spouts, bolts=bolts, **changes)

    @staticmethod
    def read(path: str | Path) -> Topology:
        """A topology from a TOML file (`pellucid.capacity.files` shows one); what is wrong is told with its line.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "shop.toml")
        ...     _ = file.write_text('[spouts.S]\\ngap = 0.5\\n[bolts.B]\\ntime = 1\\nhears = ["S"]\\n')
        ...     Topology.read(file).name, Topology.read(file).spouts
        ('shop', {'S': Spout(gap=Fraction(1, 2))})
        """
        from pellucid.capacity.files import read_topology  # it needs this module

        return read_topology(path)

    def to_toml(self) -> str:
        """The text of a file that `read` reads.

        >>> print(Topology({"S": Spout("0.5")}, {"B": Bolt(time=1, hears="S")}, name="shop").to_toml())
        name = "shop"
        routing = "one"
        semantics = "urgent"
        observe = "any"
        <BLANKLINE>
        [spouts.S]
        gap = "1/2"
        <BLANKLINE>
        [bolts.B]
        time = 1
        hears = ["S"]
        workers = 1
        <BLANKLINE>
        """
        from pellucid.capacity.files import to_toml

        return to_toml(self)

    @staticmethod
    def of(
        pipeline: Any,
        *,
        rates: Number | Mapping[str, Number],
        times: Number | Mapping[str, Number],
        workers: Workers | Mapping[str, Workers] = 1,
        ratios: Mapping[str, Number] | None = None,
    ) -> Topology:
        """The topology of a pipeline: ``rates`` are the most events per unit of time that its sources bring.

        With **one number** for ``times`` the pipeline runs as one task, as it does here and in one stage of Spark: all
        steps in one loop, one queue before it.  With **a table of steps**, each of them has a queue and ``workers`` of
        its own, and the others take no time and run with whoever is before them.  A stream that is used twice gives a
        copy to each (routing ``all``).  ``ratios`` says how many events a step puts out for each one that comes: needed
        for tasks and explodes; of a filter all pass, unless it says less.

        >>> from pellucid import Stream, pipeline
        >>> @pipeline
        ... def big(x: Stream[int]) -> Stream[int]:
        ...     large = x.map(lambda v: v * 2, id="price").filter(lambda v: v > 9, id="large")
        ...     return large.map(lambda v: v + 1, id="tax")
        >>> Topology.of(big, rates=100, times="0.004").bolts
        {'big': Bolt(time=Fraction(1, 250), hears=('x',), workers=1, ratio=Fraction(1, 1), queue='shared', initial=0)}
        >>> t = Topology.of(big, rates=100, times={"price": "0.02", "tax": "0.1"}, workers={"price": 2},
        ...                 ratios={"large": "1/10"})
        >>> t.bolts["price"].ratio, t.bolts["price"].workers, t.bolts["tax"].hears
        (Fraction(1, 10), 2, ('price',))
        """
        from pellucid.capacity.derive import topology_of

        return topology_of(pipeline, rates=rates, times=times, workers=workers, ratios=ratios)

    def order(self) -> Sequence[str] | None:
        """The bolts, each after all those it hears; None if they go in a circle."""
        left, done = dict(self.bolts), list[str]()
        while left:
            ready = [b for b, bolt in left.items() if not any(h in left for h in bolt.hears)]
            if not ready:
                return None
            done += ready
            for b in ready:
                del left[b]
        return done


def _each(given: Any, names: Mapping[str, Any], missing: str) -> Iterator[tuple[str, Any]]:
    """What is given for all of them, or for some by name."""
    if given is None:
        return
    table = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, value in table.items():
        if name not in names:
            raise UsageError(f"{missing} {name}: {', '.join(names)} {'is' if len(names) == 1 else 'are'}.")
        yield name, value
