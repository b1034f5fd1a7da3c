"""A pipeline beside one whose records are declared elsewhere.

Of two versions of a job, in two files, each has its own ``class Flight``: to Python two classes, to whoever compares
the versions one.  Where they are alike (the same name, fields and types; of enums the same members), the second
pipeline is asked over the first one's: its sources make its own records of them, its outputs the first one's again.
Of two versions one may also put out None, and the other never does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pellucid.internal.expr.types import EnumType, OptionalType, RecordType, TupleType, Type
from pellucid.internal.graph.build import assemble, instantiate, source
from pellucid.internal.graph.model import Graph


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A pipeline over another one's records."""

    name: str
    graph: Graph


def alike(a: Type, b: Type) -> bool:
    """Whether two types are written the same, wherever they are.

    >>> from pellucid.internal.expr.types import type_of
    >>> one, other = (type_of(dataclasses.make_dataclass("P", [("x", int)], frozen=True)) for _ in range(2))
    >>> one == other, alike(one, other)
    (False, True)
    """
    if isinstance(a, EnumType) and isinstance(b, EnumType):
        return a.cls.__name__ == b.cls.__name__ and [(m.name, m.value) for m in a.members] == [
            (m.name, m.value) for m in b.members
        ]
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        return alike(a.inner, b.inner)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.items) == len(b.items) and all(map(alike, a.items, b.items))
    if isinstance(a, RecordType) and isinstance(b, RecordType):
        return (
            a.cls.__name__ == b.cls.__name__
            and [name for name, _ in a.fields] == [name for name, _ in b.fields]
            and all(alike(s, t) for (_, s), (_, t) in zip(a.fields, b.fields, strict=True))
        )
    return a == b


def fitted(a: Any, b: Any) -> Any:
    """The second pipeline, over the records of the first if its own are alike; else as it is."""
    mine, theirs = ([p.graph.nodes[i].type for i in p.graph.sources] for p in (a, b))
    outs = [[p.graph.nodes[i].type for _, i in p.graph.outputs] for p in (a, b)]
    if (mine, outs[0]) == (theirs, outs[1]) or (len(mine), len(outs[0])) != (len(theirs), len(outs[1])):
        return b
    if not all(map(alike, [*mine, *outs[0]], [*theirs, *outs[1]])):
        return b
    names = [b.graph.nodes[i].id for i in b.graph.sources]
    sources = [source(name, t) for name, t in zip(names, mine, strict=True)]
    own = [s if u == v else s.map(_other(u, v)) for s, u, v in zip(sources, mine, theirs, strict=True)]
    made = instantiate(b.graph, own)
    outputs = {
        name: s if u == v else s.map(_other(v, u))
        for (name, s), u, v in zip(made.items(), outs[0], outs[1], strict=True)
    }
    return Fitted(b.name, assemble(b.graph.name, sources, outputs))


def with_missing(p: Any, other: Any) -> Any:
    """A pipeline as one that may put out None, too, if the other may: so ``int`` is compared with ``int | None``.

    >>> from pellucid import pipeline
    >>> maybe = pipeline(lambda x: x.map(lambda v: v if v > 0 else None), x=int)
    >>> never = with_missing(pipeline(lambda x: x.map(lambda v: v), x=int), maybe)
    >>> never.graph.nodes[never.graph.outputs[0][1]].type
    int | None
    """
    mine, theirs = ([q.graph.nodes[i].type for _, i in q.graph.outputs] for q in (p, other))
    if len(mine) != 1 or len(theirs) != 1 or theirs[0] != OptionalType(mine[0]):
        return p
    sources = [source(p.graph.nodes[i].id, p.graph.nodes[i].type) for i in p.graph.sources]
    ((name, out),) = instantiate(p.graph, sources).items()
    return Fitted(p.name, assemble(p.graph.name, sources, {name: out.map(lambda event: event, to=theirs[0])}))


def _other(a: Type, b: Type) -> Callable[[Any], Any]:
    """An event of one type as the other, by what it holds: plain Python, traced as a user's function is."""
    if isinstance(a, EnumType) and isinstance(b, EnumType):
        pairs = list(zip(a.members, b.members, strict=True))

        def member(value: Any) -> Any:
            for mine, theirs in pairs[:-1]:
                if value == mine:
                    return theirs
            return pairs[-1][1]

        return member
    if isinstance(a, OptionalType) and isinstance(b, OptionalType):
        inner = _other(a.inner, b.inner)
        return lambda value: None if value is None else inner(value)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        each = [_other(s, t) for s, t in zip(a.items, b.items, strict=True)]
        return lambda value: tuple(other(item) for other, item in zip(each, value, strict=True))
    if isinstance(a, RecordType) and isinstance(b, RecordType):
        fields = [(name, _other(s, t)) for (name, s), (_, t) in zip(a.fields, b.fields, strict=True)]
        return lambda value: b.cls(**{name: other(getattr(value, name)) for name, other in fields})
    return lambda value: value
