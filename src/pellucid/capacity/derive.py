"""A topology from a pipeline: its sources are spouts, and its steps are bolts, together or apart.

How steps become bolts depends on how they run, and the caller says it by ``times``:

- **one number**: the pipeline runs as one task, as it does here and in one stage of Spark: all steps are fused into one
  loop, so there is one bolt, one queue, and the time is that of one event through all of it.
- **a table of steps**: each step in it has a queue and workers of its own (a process, a service, a stage).  A step that
  is not in the table takes no time and runs with whoever is before it.

A stream that is used twice gives a copy to each reader, so the routing is ``all``.  How many events a step puts out for
one that comes is known of most: one for one; of ``decimate(k)`` one in k; of a step that waits for one event from each
of n inputs, one in n.  Of a filter the worst case is assumed (all pass), unless ``ratios`` says less; of a task or an
explode, which put out what they like, ``ratios`` has to say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pellucid.capacity.topology import Bolt, Number, Spout, Topology, Workers, exact
from pellucid.errors import UsageError, nearest

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph, Node


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
    """How many events each who hears a sender gets for one of its: the same for all, or it cannot be told as one
    ratio."""
    found = {b: comes[sender] for b, comes in hears.items() if sender in comes}
    if len(set(found.values())) > 1:
        words = ", ".join(f"{b} gets {many}" for b, many in found.items())
        raise UsageError(
            f"for each event of {sender}, {words}: give the steps between them a time, so that each has its own ratio."
        )
    return next(iter(found.values()), Fraction(1))


def _ratio(node: Node, ratios: Mapping[str, Number]) -> Fraction:
    """How many events a step puts out for each one that comes to it."""
    if node.id in ratios:
        return exact(ratios[node.id], f"the ratio of {node.id}", least=Fraction(0))
    processor = node.processor
    if processor.puts == "many":
        raise UsageError(
            f"{node.describe()} puts out as many events as it likes: ratios={{{node.id!r}: …}} says how many for one."
        )
    if node.kind == "decimate":
        assert node.k is not None
        return Fraction(1, node.k)
    return Fraction(1, len(node.inputs)) if processor.inputs == "together" else Fraction(1)
