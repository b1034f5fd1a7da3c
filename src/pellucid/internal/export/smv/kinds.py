"""Which values each pipe and each state may carry, so that NuSMV's variables have a range.

Modulo N every integer is one of 0 … N-1.  Over a bounded domain arithmetic is exact, so the values are found by calling
the functions on everything that may come, until nothing new appears; a step whose values never stop growing is
refused by its name.  Inside a window of width k a step sees at most k events before it is reset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

from pellucid.check.system.domains import Domain
from pellucid.errors import UsageError, known
from pellucid.internal.export.smv.expr import SmvKind
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type
from pellucid.internal.graph.model import Graph, Node

MOST = 4096  # values of a pipe, or arguments of a function

Leaves = tuple[Any, ...]


@dataclass
class Kinds:
    """For each step: what its events are, and its state; for each window the same of its sub-pipeline."""

    events: list[tuple[SmvKind, ...]] = field(default_factory=list)
    states: dict[int, tuple[SmvKind, ...]] = field(default_factory=dict)
    subs: dict[int, Kinds] = field(default_factory=dict)


def refuse_what_smv_cannot(graph: Graph) -> None:
    """The paper's pipes carry at most one event in a push, of scalars that NuSMV knows."""
    for node in graph.nodes:
        who = node.describe()
        if node.key is not None:
            raise UsageError(f"{who}: keyed steps cannot be exported; export the pipeline for one key")
        if node.processor.inputs == "apart" and len(node.inputs) > 1:
            raise UsageError(
                f"{who}: a merge may carry several events in one push, but a pipe of NuSMV's model carries at most one"
            )
        if node.kind == "explode":
            raise UsageError(
                f"{who}: puts out as many events at once as its list has, but a pipe of NuSMV's model carries at most "
                "one"
            )
        if node.processor.puts == "many":
            assert node.fn is not None
            if node.fn.traced is None or node.state is None:
                raise UsageError(f"{who}: {node.fn.name} {node.fn.reason}; a task is exported as data only")
            if len(node.fn.traced.slots) > 1:
                raise UsageError(
                    f"{who}: puts out up to {len(node.fn.traced.slots)} events at once, "
                    "but a pipe of NuSMV's model carries at most one"
                )
        for t in (node.type, *([node.state] if node.state is not None else [])):
            for path, leaf in t.columns():
                if leaf not in (BOOL, INT) and not isinstance(leaf, EnumType):
                    field = f" (field {path!r})" if path else ""
                    raise UsageError(
                        f"{who}: NuSMV has no {leaf}{field}: its scalars are Booleans, integers and symbolic constants"
                    )
        if node.sub is not None:
            refuse_what_smv_cannot(node.sub)


def kinds_of(graph: Graph, domain: Domain) -> Kinds:
    """The kinds of a whole pipeline.

    >>> from pellucid import Mod, pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> p = pipeline(lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: a + v, start=0)), x=int)
    >>> [str(kind) for kinds in kinds_of(p.graph, domain_of(Mod(4))).events for kind in kinds]
    ['0..3', '0..3']
    >>> [str(kind) for kinds in kinds_of(p.graph, domain_of(range(2))).events for kind in kinds]
    ['0..1', '0..3']
    """
    if domain.values is None and any(t == INT for node in graph.nodes for _, t in node.type.leaves()):
        raise UsageError("NuSMV's integers are bounded: give a domain, such as Mod(4) or range(0, 4)")
    if domain.modulus is not None or domain.values is None:
        return _modulo(graph, domain)
    sets: dict[int, set[Leaves]] = {}
    for i in graph.sources:
        events = domain.events(graph.nodes[i].type)
        assert events is not None
        sets[i] = set(events)
    return _Sets(graph, sets, None).kinds()


def _modulo(graph: Graph, domain: Domain) -> Kinds:
    values = tuple(range(domain.modulus)) if domain.modulus is not None else (0,)
    out = Kinds()
    for i, node in enumerate(graph.nodes):
        out.events.append(_of_type(node.type, values))
        if node.state is not None:
            out.states[i] = _of_type(node.state, values)
        if node.sub is not None:
            out.subs[i] = _modulo(node.sub, domain)
    return out


def _of_type(t: Type, values: tuple[int, ...]) -> tuple[SmvKind, ...]:
    return tuple(SmvKind(leaf, values if leaf == INT else ()) for _, leaf in t.leaves())


class _Sets:
    """The events that each step may put out, by calling its function on all that may come in."""

    def __init__(self, graph: Graph, sources: dict[int, set[Leaves]], rounds: int | None) -> None:
        self.graph, self.rounds, self.subs = graph, rounds, Kinds().subs
        self.events: list[set[Leaves]] = []
        self.states: dict[int, set[Leaves]] = {}
        for i, node in enumerate(graph.nodes):
            if node.kind == "source":
                self.events.append(sources[i])
            else:
                found = self.step(i, node, [self.events[j] for j in node.inputs])
                if len(found) > MOST:
                    raise self.too_many(node)
                self.events.append(found)

    def too_many(self, node: Node) -> UsageError:
        return UsageError(
            f"{node.describe()}: its values grow beyond {MOST:,}, but NuSMV's integers are bounded: "
            "use Mod(N), a smaller domain, or a function that stays within bounds"
        )

    def step(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        return known(self.STEPS, node.kind, "NuSMV's ranges of values")(self, i, node, ins)

    def handed(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        return ins[0]

    def image(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        assert node.fn is not None and node.fn.result is not None
        return {tuple(node.fn.result.flatten(value)) for value in self.calls(node, ins)}

    def pairs(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        if len(ins[0]) ** 2 > MOST:
            raise self.too_many(node)
        return {(*now, *before) for now, before in product(ins[0], repeat=2)}

    def inside(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        assert node.sub is not None and node.k is not None
        inner = _Sets(node.sub, {node.sub.sources[0]: ins[0]}, node.k)
        self.subs[i] = inner.kinds()
        return inner.events[node.sub.outputs[0][1]]

    def stateful(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        assert node.state is not None and node.fn is not None
        reached: set[Leaves] = {tuple(node.state.flatten(node.start))}
        fresh, out, turn = set(reached), set[Leaves](), 0
        while fresh and (self.rounds is None or turn < self.rounds):
            new: set[Leaves] = set()
            for value in self.calls(node, [fresh, ins[0]]):
                state, emitted = value if node.processor.puts == "many" else (value, [])
                new.add(tuple(node.state.flatten(state)))
                out |= {tuple(node.type.flatten(e)) for e in emitted}
            fresh, turn = new - reached, turn + 1
            reached |= new
            if len(reached) > MOST or len(out) > MOST:
                raise self.too_many(node)
        self.states[i] = reached
        return out if node.processor.puts == "many" else reached

    STEPS: ClassVar[dict[str, Callable[..., set[Leaves]]]] = {
        "map": image, "apply": image, "cumulate": stateful, "task": stateful, "window": inside, "filter": handed,
        "filter_by": handed, "decimate": handed, "trim": handed, "lag": pairs, "merge": handed,
    }  # fmt: skip

    def calls(self, node: Node, pools: list[set[Leaves]]) -> Iterable[Any]:
        assert node.fn is not None
        many = 1
        for pool in pools:
            many *= len(pool)
        if many > 64 * MOST:
            raise self.too_many(node)
        for row in product(*pools):
            try:
                yield node.fn.call(*[t.unflatten(list(leaves)) for t, leaves in zip(node.fn.params, row, strict=True)])
            except Exception:  # the function fails here: the model stops, and no value is needed
                continue

    def kinds(self) -> Kinds:
        events = [_hull(node.type, found) for node, found in zip(self.graph.nodes, self.events, strict=True)]
        states = {i: _hull(self.graph.nodes[i].state, found) for i, found in self.states.items()}
        return Kinds(events, states, self.subs)


def _hull(t: Type | None, found: set[Leaves]) -> tuple[SmvKind, ...]:
    assert t is not None
    out = []
    for j, (_, leaf) in enumerate(t.leaves()):
        values = tuple(sorted({leaves[j] for leaves in found})) if leaf == INT else ()
        out.append(SmvKind(leaf, values or ((0,) if leaf == INT else ())))
    return tuple(out)
