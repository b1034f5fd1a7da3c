"""Which arguments can come to the functions that are called and not traced: every value that a stream may carry, step
by step.

For each stream that leads to such a function the set of its possible events is found, beginning with the events of the
sources; a step that remembers is followed from its start value until no new state comes.  What belongs together is not
looked at: the sets may hold more than can really come, never less.  So a function that was called on all of them has a
complete table.

A set that does not close (a sum grows for ever) is cut off, and is **open**: an argument that is not in the table then
leads to a state about which nothing is claimed (`pellucid.check.functions.called`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from pellucid.check.functions.called import Answers, Failed, Fickle, Leaves, Ledger, OutOfTime, inside, key_of, ledger
from pellucid.check.system.domains import Domain
from pellucid.errors import NotTraceable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr, Overflow64
from pellucid.internal.expr.rewrite import substitute
from pellucid.internal.expr.tracing.purity import fickle_reason
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type
from pellucid.internal.graph.model import Graph, Node, refuse_timed
from pellucid.internal.graph.processors import made_of, meaning_of

_EVENTS = 50_000  # of a source
_MOST = 4096  # events in a set, and arguments of a function
_STATES = 1024  # of a step that remembers
_KEPT = 256  # of a set that is larger


@dataclass
class Values:
    """The events that a stream may carry, as leaves; None where they cannot be listed.  ``most`` is how many come in
    all, if that is known."""

    events: dict[Any, Leaves] | None
    open: bool = False
    most: int | None = None

    def all(self) -> list[Leaves]:
        """The events."""
        return list((self.events or {}).values())

    @property
    def rows(self) -> list[Leaves] | None:
        """The same as arguments of a function; None where they cannot be listed."""
        return None if self.events is None else self.all()


def tables_of(
    graph: Graph, domain: Domain, sources: Mapping[str, Iterable[Leaves]] | None = None
) -> Callable[[Function], Answers]:
    """The answers of every opaque function of a graph, called on all that can come.

    ``sources`` are the events of the sources where they are not those of the domain.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> p = pipeline(lambda x: x.map(lambda v: v * 10).map(lambda v: int(str(v)), to=int, id="same"), x=int)
    >>> same = p.graph["same"].fn
    >>> [args for args, _ in tables_of(p.graph, domain_of(range(3)))(same).rows.values()]
    [(0,), (10,), (20,)]
    """
    refuse_timed(graph, "a check")
    made = ledger()
    if graph.opaque():
        given = None if sources is None else {name: tuple(events) for name, events in sources.items()}
        key = (id(graph), domain.values, domain.modulus, repr(given))
        if key not in made.tables:
            made.tables[key] = graph  # kept, so that its id stays its own
            _Search(made, domain).top(graph, given)
    return lambda fn: made.of(fn, fn.name, domain.modulus)


def closed_list(node: Node) -> NotTraceable:
    """A step that emits the elements of a list which a check cannot look into."""
    assert node.fn is not None
    why = f"{node.fn.name} {node.fn.reason}" if node.fn.reason else f"{node.fn.name} gives a {node.fn.result}"
    return NotTraceable(
        f"{node.describe()}: {why}, and a check cannot look inside a list: it does not know how many events come out, "
        "and which; check what comes before and after the explode as pipelines of their own"
    )


class _Search:
    """One search for arguments."""

    def __init__(self, made: Ledger, domain: Domain) -> None:
        self.made, self.domain, self.late = made, domain, False
        self.roots: dict[Function, Sequence[Expr]] = {}
        self.touched: dict[int, Answers] = {}
        self.comes_in: list[Type] = []  # the types of the sources

    def top(self, graph: Graph, given: Mapping[str, Iterable[Leaves]] | None) -> None:
        pools = []
        self.comes_in = [graph.nodes[at].type for at in graph.sources]
        for at in graph.sources:
            node = graph.nodes[at]
            if given is not None:
                pools.append(Values({key_of(e): e for e in given.get(node.id, ())}))
                continue
            leaves = [self.domain.leaf(kind) for _, kind in node.type.leaves()]
            known = [pool for pool in leaves if pool is not None]
            cut = math.prod(map(len, known)) > _EVENTS
            pools.append(
                Values({key_of(e): e for e in map(node.type.tidy, islice(product(*known), _EVENTS))}, cut)
                if len(known) == len(leaves)
                else Values(None)
            )
        self.graph(graph, pools, every=False)
        for answers in self.touched.values():
            try:
                answers.confirm()
            except OutOfTime:
                answers.closed = False  # not all of it could be asked twice

    def graph(self, g: Graph, sources: list[Values], *, every: bool) -> list[Values | None]:
        """What each stream may carry; ``every`` also of those that lead to no opaque function."""
        needed = set(range(len(g.nodes))) if every else _leading(g)
        streams: list[Values | None] = []
        given = iter(sources)
        for i, node in enumerate(g.nodes):
            if node.kind == "source":
                streams.append(next(given))
                continue
            ins = [streams[j] for j in node.inputs]
            if not (i in needed or _calls(node)):
                streams.append(None)
                continue
            given_to = [v for v in ins if v is not None]
            assert len(given_to) == len(ins)
            found = self.step(node, given_to, [t for _, t in g.nodes[node.inputs[0]].type.leaves()])
            streams.append(self.limited(found, node.type))
        return streams

    def limited(self, found: Values, t: Type) -> Values:
        """A set that is cut off or unknown may have a type with few values: then it is all of them."""
        if found.events is not None and not found.open:
            return found
        leaves = [_all(kind, self.domain) for _, kind in t.leaves()]
        if any(pool is None for pool in leaves):
            return found
        pool = list(islice(product(*[pool for pool in leaves if pool is not None]), _MOST + 1))
        if len(pool) > _MOST:
            return found
        return Values({key_of(e): e for e in map(t.tidy, pool)}, False, found.most)

    # ------------------------------------------------------------ calling

    def answers(self, node: Node) -> Answers:
        assert node.fn is not None
        made = self.made.of(node.fn, node.describe(), self.domain.modulus)
        self.touched[id(made)] = made
        return made

    def result(self, node: Node, args: Leaves) -> Any:
        """The leaves of a function's result, or `Failed`; None where the call is not made any more."""
        fn = node.fn
        assert fn is not None
        if fn.traced is None:
            answers = self.answers(node)
            if self.late or (len(answers.rows) >= _MOST and key_of(args) not in answers.rows):
                answers.closed = False
                return None
            try:
                return answers.of(args)
            except OutOfTime:
                self.late = True
                answers.closed = False
                return None
        if fn not in self.roots:
            roots = fn.traced.roots()
            if self.domain.modulus is not None:
                kinds = [t for p in fn.params for _, t in p.leaves()]
                roots = tuple(substitute(roots, [n.var(i, t) for i, t in enumerate(kinds)], self.domain.reduce))
            self.roots[fn] = roots
        memo: dict[int, Any] = {}
        try:
            flat = [evaluate(e, args, memo) for e in self.roots[fn]]
        except Overflow64:
            return None  # exact integers go on where 64 bits end
        except (UserRaise, ArithmeticError, ValueError):
            return Failed()
        flat = [
            v % self.domain.modulus if self.domain.modulus and e.type == INT else v
            for e, v in zip(self.roots[fn], flat, strict=True)
        ]
        if fn.traced.count is None:
            return tuple(flat)
        many, size = fn.traced.result.width, fn.event.width if fn.event is not None else 0
        count, rest = evaluate(self.roots[fn][many], args, memo), flat[many + 1 :]
        return tuple(flat[:many]), [tuple(rest[i * size : (i + 1) * size]) for i in range(count)]

    def image(self, node: Node, rows: Iterable[Leaves] | None, open: bool, most: int | None) -> Values:
        """A function of each of these arguments."""
        assert node.fn is not None
        if rows is None:
            if node.fn.traced is None:
                self.answers(node).unlisted = True
                if self.domain.modulus is not None or inside(node.fn, self.made, node.describe()) is None:
                    if fickle_reason(node.fn.reason):
                        raise Fickle(self.answers(node).no_function(str(node.fn.reason)))
                    raise self.cannot_list(node)
            return Values(None, True, most)
        out = Values({}, open, most)
        assert out.events is not None
        for args in rows:
            found = self.result(node, args)
            if found is None:
                out.open = True
            elif not isinstance(found, Failed):
                out.events[key_of(found)] = found
        if open and node.fn.traced is None:
            self.answers(node).closed = False
        return out

    def cannot_list(self, node: Node) -> NotTraceable:
        assert node.fn is not None
        return NotTraceable(
            f"{node.describe()}: {node.fn.name} {node.fn.reason}, and its arguments cannot be listed; "
            f"{self.domain.listing(self.comes_in, 'ints=range(0, 8)')}"
        )

    # ------------------------------------------------------------ the steps, one function each

    def step(self, node: Node, ins: list[Values], kinds: Sequence[Type]) -> Values:
        """What a step may emit, by what the table of processors says of its kind."""
        p, x, most = node.processor, ins[0], _least(*(v.most for v in ins))
        meaning_of(node, "the search for arguments")  # or it is refused
        if node.sub is not None:
            return self.window(node, x)
        if p.inputs == "apart":
            return self.union(ins)
        if p.starts:
            return self.followed(node, x)
        if node.fn is None:
            return Values(x.events, x.open, most) if p.passes else self.kept(node, x, kinds)
        if p.puts == "many":
            return self.elements(node, x)
        rows, open = self.side_by_side(ins)
        found = self.image(node, rows, open, most)
        if not p.passes:
            return found
        return x if p.keyed or x.events is None else self.filtered(node, x)

    def side_by_side(self, ins: list[Values]) -> tuple[list[Leaves] | None, bool]:
        """One event of each input: what a function is called with, and whether there may be more."""
        if len(ins) == 1:
            return ins[0].rows, ins[0].open
        if any(v.events is None for v in ins):
            return None, True
        rows = [tuple(leaf for e in row for leaf in e) for row in islice(product(*[v.all() for v in ins]), _MOST + 1)]
        return rows[:_MOST], len(rows) > _MOST or any(v.open for v in ins)

    def filtered(self, node: Node, x: Values) -> Values:
        kept = {}
        for e in x.all():
            keep = self.result(node, e)
            if keep is None or (not isinstance(keep, Failed) and keep[0]):
                kept[key_of(e)] = e
        return Values(kept, x.open, x.most)

    def union(self, ins: list[Values]) -> Values:
        most = None if any(v.most is None for v in ins) else sum(v.most or 0 for v in ins)
        if any(v.events is None for v in ins):
            return Values(None, True, most)
        found = {key: e for v in ins for key, e in (v.events or {}).items()}
        return _cut(found, any(v.open for v in ins), most)

    def elements(self, node: Node, x: Values) -> Values:
        assert node.fn is not None
        if node.fn.traced is None or not node.fn.traced.many:
            raise closed_list(node)
        if x.events is None:
            return Values(None, True, None)
        out, busiest = Values({}, x.open), 0
        assert out.events is not None
        for event in x.all():
            found = self.result(node, event)
            if found is None:
                out.open = True
            elif not isinstance(found, Failed):
                made = [(*event, *item) if node.beside else item for item in found[1]]
                out.events |= {key_of(e): e for e in made}
                busiest = max(busiest, len(made))
        most = None if x.most is None or out.open else x.most * busiest
        return _cut(out.events, out.open, most)

    def followed(self, node: Node, x: Values) -> Values:
        """A step that remembers: from its start value on until no new state comes, or as many rounds as there are
        events."""
        assert node.fn is not None
        if x.events is None:
            return self.image(node, None, True, None)
        start = (
            tuple(node.state.flatten(node.start))
            if node.state is not None
            else (self.answers(node).number(node.start),)
        )
        states, fresh, out = {key_of(start)}, [start], Values({}, x.open)
        assert out.events is not None
        busiest, rounds = 0, 0
        while fresh and not self.late and (x.most is None or rounds < x.most):
            rounds += 1
            later: list[Leaves] = []
            for state in fresh:
                for event in x.all():
                    found = self.result(node, (*state, *event))
                    if found is None:
                        out.open = True
                    if found is None or isinstance(found, Failed):
                        continue
                    after, events = found if node.processor.puts == "many" else (found, [found])
                    busiest = max(busiest, len(events))
                    out.events |= {key_of(e): e for e in events}
                    if key_of(after) not in states:
                        states.add(key_of(after))
                        later.append(after)
            fresh = later
            if len(states) > _STATES or len(states) * len(x.events) > _MOST or len(out.events) > _MOST:
                out.open = out.open or bool(fresh)
                break
        out.open = out.open or (self.late and bool(fresh))
        if out.open and node.fn.traced is None:
            self.answers(node).closed = False
        out.most = None if x.most is None or out.open else x.most * busiest
        return _cut(out.events, out.open, out.most)

    def kept(self, node: Node, x: Values, kinds: Sequence[Type]) -> Values:
        """Events that are put together of those that came."""
        most = None if x.most is None else max(0, x.most - node.earlier)
        if x.events is None:
            return Values(None, True, most)
        (leaves,) = made_of(node, kinds)
        places = {at: i for i, at in enumerate(sorted({at for at, _ in leaves}))}
        rows = islice(product(x.all(), repeat=len(places)), _MOST + 1)
        made = [tuple(row[places[at]][j] for at, j in leaves) for row in rows]
        return _cut({key_of(e): e for e in made}, x.open, most)

    def window(self, node: Node, x: Values) -> Values:
        assert node.sub is not None and node.k is not None
        inner = self.graph(node.sub, [Values(x.events, x.open, node.k)], every=True)
        found = inner[node.sub.outputs[0][1]]
        assert found is not None
        return Values(found.events, found.open, x.most)


def _cut(events: dict[Any, Leaves], open: bool, most: int | None) -> Values:
    if len(events) <= (_KEPT if open else _MOST):
        return Values(events, open, most)
    return Values(dict(islice(events.items(), _KEPT)), True, most)


def _least(*many: int | None) -> int | None:
    known = [v for v in many if v is not None]
    return min(known) if known else None


def _all(kind: Type, domain: Domain) -> list[Any] | None:
    """All values that a leaf can have anywhere in the system."""
    if kind == BOOL or isinstance(kind, EnumType) or (kind == INT and domain.modulus is not None):
        return domain.leaf(kind)
    return None


def _calls(node: Node) -> bool:
    return (node.fn is not None and node.fn.traced is None) or (node.sub is not None and bool(node.sub.opaque()))


def _leading(g: Graph) -> set[int]:
    """The steps whose events a step with an opaque function depends on."""
    out: set[int] = set()
    for i in reversed(range(len(g.nodes))):
        if i in out or _calls(g.nodes[i]):
            out |= set(g.nodes[i].inputs)
    return out
