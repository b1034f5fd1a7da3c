"""Topologies: spouts, bolts, who hears whom, and how many workers there are.

A *spout* brings tuples in, at most one per ``gap`` (strictly more time than that has to pass, as in the paper); a
*bolt* has workers that take a tuple from its queue, are busy for ``time`` and then put out ``ratio`` tuples for each
one.  Which semantics and which observation is meant is part of the topology, since the answers differ:

- ``routing="one"``: a tuple goes to one of the listeners, in any choice; ``"all"``: each gets a copy.
- ``semantics="urgent"``: a bolt that can take or emit does so before time passes and before a spout emits;
  ``"literal"``: as printed in the appendix of the paper.
- ``observe="any"``: a queue is looked at in every state; ``"settled"``: after the takes of that instant.

All numbers are exact: integers, fractions, or decimals written as text (``"0.8"``); a float is taken for the decimal
that it is printed as.
"""

from __future__ import annotations

import enum
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from pellucid.errors import DataError, UsageError, nearest

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph, Node

Routing: TypeAlias = Literal["one", "all"]
Semantics: TypeAlias = Literal["urgent", "literal"]
Observation: TypeAlias = Literal["any", "settled"]
Queue: TypeAlias = Literal["shared", "per worker"]
Number: TypeAlias = "int | str | float | Fraction"


class AnyNumber(enum.Enum):
    """Of workers: one or more, in any number."""

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
                raise UsageError(f"bolt {name} hears no spout and no bolt: nothing would come to its queue.")
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
        """A topology from a TOML file (`pellucid.capacity.topology` shows one); mistakes are reported with their line.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "shop.toml")
        ...     _ = file.write_text('[spouts.S]\\ngap = 0.5\\n[bolts.B]\\ntime = 1\\nhears = ["S"]\\n')
        ...     Topology.read(file).name, Topology.read(file).spouts
        ('shop', {'S': Spout(gap=Fraction(1, 2))})
        """

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
        its own, and the others take no time and run with the step before them.  A stream that is used twice gives a
        copy to each (routing ``all``).  ``ratios`` says how many events a step emits for each one that comes: needed
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


# A topology from a pipeline: its sources are spouts, and its steps are bolts, together or apart.
#
# How steps become bolts depends on how they run, and the caller says it by ``times``:
#
# - **one number**: the pipeline runs as one task, as it does here and in one stage of Spark: all steps are fused into
#   one loop, so there is one bolt, one queue, and the time is that of one event through all of it.
# - **a table of steps**: each step in it has a queue and workers of its own (a process, a service, a stage).  A step
#   that is not in the table takes no time and runs with the step before it.
#
# A stream that is used twice gives a copy to each reader, so the routing is ``all``.  How many events a step puts out
# for one that comes is known of most: one for one; of ``decimate(k)`` one in k; of a step that waits for one event from
# each of n inputs, one in n.  Of a filter the worst case is assumed (all pass), unless ``ratios`` says less; of a task
# or an explode, which put out what they like, ``ratios`` has to say it.


def topology_of(
    pipeline: Any,
    *,
    rates: Number | Mapping[str, Number],
    times: Number | Mapping[str, Number],
    workers: Workers | Mapping[str, Workers] = 1,
    ratios: Mapping[str, Number] | None = None,
) -> Topology:
    """See `Topology.of`."""
    graph: Graph = getattr(pipeline, "graph", pipeline)
    if not hasattr(graph, "nodes") or not hasattr(graph, "sources"):
        raise UsageError(f"Topology.of: expected a pipeline, got {type(pipeline).__name__}.")
    names = [graph.nodes[i].id for i in graph.sources]
    given = rates if isinstance(rates, Mapping) else dict.fromkeys(names, rates)
    _known(given, names, "rates", "source")
    missing = [s for s in names if s not in given]
    if missing:
        raise UsageError(f"rates: how many events does {missing[0]} bring per unit of time?")
    spouts = {s: Spout(1 / exact(given[s], f"the rate of {s}")) for s in names}
    steps = [n.id for n in graph.nodes if n.kind != "source"]
    _known(ratios or {}, steps, "ratios", "step")
    if not isinstance(times, Mapping):
        if isinstance(workers, Mapping):
            _known(workers, [graph.name], "workers", "bolt")
            workers = workers.get(graph.name, 1)
        bolt = Bolt(exact(times, f"the time of {graph.name}"), names, workers=workers)
        return Topology(spouts, {graph.name: bolt}, routing="all", name=graph.name)
    _known(times, steps, "times", "step")
    if not times:
        raise UsageError("times: no step takes any time, so that there is no queue: name one, or give one number.")
    if isinstance(workers, Mapping):
        _known(workers, list(times), "workers", "step with a time")
    return _apart(graph, spouts, times, workers, ratios or {})


def _known(given: Mapping[str, Any], names: list[str], argument: str, what: str) -> None:
    for name in given:
        if name not in names:
            meant = nearest(name, names) or f": {', '.join(names)} {'is' if len(names) == 1 else 'are'}"
            raise UsageError(f"{argument}: there is no {what} {name}{meant}")


def _apart(
    graph: Graph,
    spouts: Mapping[str, Spout],
    times: Mapping[str, Number],
    workers: Workers | Mapping[str, Workers],
    ratios: Mapping[str, Number],
) -> Topology:
    """A bolt for each step that has a time."""
    # For each stream: who sends its events, and how many for each one that the sender has done.
    sent: list[dict[str, Fraction]] = []
    hears: dict[str, dict[str, Fraction]] = {}
    for node in graph.nodes:
        if node.kind == "source":
            sent.append({node.id: Fraction(1)})
            continue
        comes: dict[str, Fraction] = {}
        for i in node.inputs:
            for sender, many in sent[i].items():
                comes[sender] = comes.get(sender, Fraction(0)) + many
        if node.id in times:
            hears[node.id] = comes
            sent.append({node.id: _ratio(node, ratios)})
        else:
            sent.append({sender: many * _ratio(node, ratios) for sender, many in comes.items()})
    slower = {s: _same(graph, s, hears) for s in spouts}
    for s, many in slower.items():
        if many > 1:
            raise UsageError(f"for each event of {s}, {many} come to one step: give the steps between them a time.")
    bolts = {}
    for b, comes in hears.items():
        bolts[b] = Bolt(
            exact(times[b], f"the time of {b}"),
            list(comes),
            workers=workers.get(b, 1) if isinstance(workers, Mapping) else workers,
            ratio=_same(graph, b, hears),
        )
    gaps = {s: Spout(spout.gap / slower[s]) if slower[s] else spout for s, spout in spouts.items()}
    return Topology(gaps, bolts, routing="all", name=graph.name)


def _same(graph: Graph, sender: str, hears: Mapping[str, Mapping[str, Fraction]]) -> Fraction:
    """How many events each who hears a sender gets for one of its: the same for all, or it cannot be given as one
    ratio."""
    found = {b: comes[sender] for b, comes in hears.items() if sender in comes}
    if len(set(found.values())) > 1:
        words = ", ".join(f"{b} gets {many}" for b, many in found.items())
        raise UsageError(
            f"for each event of {sender}, {words}: give the steps between them a time, so that each has its own ratio."
        )
    return next(iter(found.values()), Fraction(1))


def _ratio(node: Node, ratios: Mapping[str, Number]) -> Fraction:
    """How many events a step emits for each one that comes to it."""
    if node.id in ratios:
        return exact(ratios[node.id], f"the ratio of {node.id}", least=Fraction(0))
    processor = node.processor
    if processor.puts == "many":
        raise UsageError(
            f"{node.describe()} emits as many events as it likes: ratios={{{node.id!r}: …}} says how many for one."
        )
    if node.kind == "decimate":
        assert node.k is not None
        return Fraction(1, node.k)
    return Fraction(1, len(node.inputs)) if processor.inputs == "together" else Fraction(1)


# Topologies in files: TOML in, TOML out, numbers as they are written.
#
# ::
#
#     name = "orders"
#     routing = "all"                  # "one" by default; likewise semantics = "urgent", observe = "any"
#
#     [spouts.orders]
#     gap = 0.8                        # or "4/5"
#
#     [bolts.price]
#     time = 1
#     hears = ["orders"]
#     workers = 2                      # or "any"; 1 by default
#     ratio = "3/2"                    # 1 by default
#     queue = "per worker"             # "shared" by default
#     initial = 4                      # 0 by default
#
# What is wrong is reported with the file, the line and the table.

_TOP = ("name", "routing", "semantics", "observe", "spouts", "bolts")
_SPOUT = ("gap",)
_BOLT = ("time", "hears", "workers", "ratio", "queue", "initial")


def read_topology(path: str | Path) -> Topology:
    """A topology from a TOML file; see the module's docstring for what stands in it."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text in UTF-8: {error.reason} at byte {error.start}") from None
    return parse_topology(text, str(path))


def parse_topology(text: str, name: str = "topology") -> Topology:
    """A topology from the text of such a file, which goes by this name in messages.

    >>> t = parse_topology('''
    ... [spouts.S1]
    ... gap = 0.8
    ... [bolts.B1]
    ... time = 1
    ... hears = ["S1"]
    ... workers = "any"
    ... ''')
    >>> t.spouts["S1"].gap, t.bolts["B1"].workers
    (Fraction(4, 5), ANY)
    >>> parse_topology('[spouts.S1]\\ngap = 0', "queues.toml")
    Traceback (most recent call last):
        ...
    pellucid.errors.DataError: queues.toml, line 2, [spouts.S1]: the gap of a spout: 0 is not above 0.
    """
    try:
        found = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: no TOML: {error}") from None
    reader = _Reader(text, name)
    reader.fields(found, (), _TOP)
    spouts = {s: reader.spout(s, given) for s, given in reader.tables(found, "spouts").items()}
    bolts = {b: reader.bolt(b, given) for b, given in reader.tables(found, "bolts").items()}
    if not bolts:
        raise DataError(f"{name}: no bolts: a table such as [bolts.B1] with time and hears describes one")
    words = {key: found[key] for key in ("name", "routing", "semantics", "observe") if key in found}
    for key, value in words.items():
        if not isinstance(value, str):
            raise reader.wrong((), key, f"{key}: expected a text, got {value!r}.")
        if key != "name":
            reader.judge((), key, lambda key=key, value=value: Topology({"S": Spout(1)}, {}, **{key: value}))
    try:
        return Topology(spouts, bolts, **{"name": Path(name).stem, **words})
    except UsageError as error:
        raise DataError(f"{name}: {error}") from None


class _Reader:
    """What stands where in a file."""

    def __init__(self, text: str, name: str) -> None:
        self.lines, self.name = text.splitlines(), name

    def wrong(self, table: tuple[str, ...], key: str, what: str) -> DataError:
        """The message with its place."""
        line = self._line(table, key)
        places = [self.name, *([f"line {line}"] if line else []), *([f"[{'.'.join(table)}]"] if table else [])]
        return DataError(f"{', '.join(places)}: {what}")

    def _line(self, table: tuple[str, ...], key: str) -> int | None:
        """The line of a field, or of its table; None where it is written in another way (as an inline table)."""
        at: tuple[str, ...] = ()
        header = None
        for number, line in enumerate(self.lines, 1):
            if found := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
                at = tuple(part.strip().strip("\"'") for part in re.findall(r'"[^"]*"|\'[^\']*\'|[^.]+', found[1]))
                header = number if at == table else header
            elif at == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return number
        return header

    def tables(self, found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """The tables below one."""
        tables = found.get(key, {})
        if not isinstance(tables, dict):
            raise self.wrong((), key, f"{key}: expected tables such as [{key}.{key[0].upper()}1], got {tables!r}.")
        for name, given in tables.items():
            if not isinstance(given, dict):
                raise self.wrong((key,), name, f"{key}.{name}: expected a table, got {given!r}.")
        return tables

    def fields(self, found: Mapping[str, Any], table: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Every field is one that is known."""
        for key in found:
            if key not in known:
                others = f": {', '.join(known)} {'is' if len(known) == 1 else 'are'}"
                raise self.wrong(table, key, f"there is no field {key}{nearest(key, known) or others}")

    def judge(self, table: tuple[str, ...], key: str, attempt: Any) -> Any:
        """What it makes; what is wrong with it is reported with its place."""
        try:
            return attempt()
        except UsageError as error:
            raise self.wrong(table, key, str(error)) from None

    def spout(self, name: str, given: Mapping[str, Any]) -> Spout:
        """A spout from its table."""
        table = ("spouts", name)
        self.fields(given, table, _SPOUT)
        if "gap" not in given:
            raise self.wrong(table, "", "a spout needs a gap: the least time between two of its tuples.")
        spout: Spout = self.judge(table, "gap", lambda: Spout(given["gap"]))
        return spout

    def bolt(self, name: str, given: Mapping[str, Any]) -> Bolt:
        """A bolt from its table."""
        table = ("bolts", name)
        self.fields(given, table, _BOLT)
        for key, what in (("time", "how long a tuple takes"), ("hears", "whose tuples it gets")):
            if key not in given:
                raise self.wrong(table, "", f"a bolt needs {key}: {what}.")
        values = dict(given)
        hears = values["hears"]
        if isinstance(hears, str):
            values["hears"] = [hears]
        elif not isinstance(hears, list) or not all(isinstance(h, str) for h in hears):
            raise self.wrong(table, "hears", f"hears: expected a list of names, got {hears!r}.")
        if isinstance(values.get("workers"), str) and values["workers"].lower() == "any":
            values["workers"] = ANY
        for key in values:  # one by one, so that the message has the line
            self.judge(table, key, lambda key=key: Bolt(**{"time": 1, "hears": ["S"], key: values[key]}))
        return Bolt(**values)


def to_toml(topology: Topology) -> str:
    """A topology as the text of a file that `read_topology` reads.

    >>> from pellucid.capacity import figure_1
    >>> text = to_toml(figure_1(gap="0.8", workers={"B2": ANY}))
    >>> parse_topology(text) == figure_1(gap="0.8", workers={"B2": ANY})
    True
    """
    lines = [f"name = {_text(topology.name)}", f'routing = "{topology.routing}"', f'semantics = "{topology.semantics}"',
             f'observe = "{topology.observe}"']  # fmt: skip
    for name, spout in topology.spouts.items():
        lines += ["", f"[spouts.{_key(name)}]", f"gap = {_number(spout.gap)}"]
    for name, bolt in topology.bolts.items():
        lines += ["", f"[bolts.{_key(name)}]", f"time = {_number(bolt.time)}"]
        lines.append(f"hears = [{', '.join(map(_text, bolt.hears))}]")
        lines.append('workers = "any"' if bolt.workers is ANY else f"workers = {bolt.workers}")
        if bolt.ratio != 1:
            lines.append(f"ratio = {_number(bolt.ratio)}")
        if bolt.queue != "shared":
            lines.append(f'queue = "{bolt.queue}"')
        if bolt.initial:
            lines.append(f"initial = {bolt.initial}")
    return "\n".join(lines) + "\n"


def _number(number: Any) -> str:
    return str(number) if number.denominator == 1 else f'"{number}"'


def _text(text: str) -> str:
    return json.dumps(text)  # the escapes of JSON are those of TOML


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


# The topology of the paper's Figure 1.


def figure_1(gap: Number, *, workers: Workers | Mapping[str, Workers] = 1) -> Topology:
    """Two spouts and three bolts, a tuple takes 1: B1 hears S1, B2 hears both spouts, B3 hears B1 and B2.

    The paper's question is about "bolt 1", which is B1 by its text (one spout feeds it) and B2 by the indices of its
    appendix (both do): the answers differ.

    >>> figure_1(gap="0.8", workers={"B1": 2}).bolts["B3"].hears
    ('B1', 'B2')
    """
    spouts = {"S1": Spout(gap), "S2": Spout(gap)}
    bolts = {
        "B1": Bolt(time=1, hears=["S1"]),
        "B2": Bolt(time=1, hears=["S1", "S2"]),
        "B3": Bolt(time=1, hears=["B1", "B2"]),
    }
    return Topology(spouts, bolts, name="Figure 1").given(workers=workers)
