"""What becomes of each step here: compiled or called, and why; what it remembers."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.internal.engine.kernel.emit import emit
from pellucid.internal.engine.kernel.engine import Engine, plain_reasons
from pellucid.internal.engine.kernel.layout import KernelLayout
from pellucid.internal.engine.timed.plan import Segment, plan_of
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph, Node


@dataclass(frozen=True)
class StepFacts:
    """One step: what it does, why it is called instead of compiled (None: it is compiled), what it remembers, if
    anything."""

    step: str
    what: str
    where: str
    called: str | None
    remembers: str


def step_facts(graph: Graph, *, key: bool = False) -> list[StepFacts]:
    """Every step but the sources; ``key`` says that the pipeline is run per key.

    >>> from pellucid import pipeline
    >>> p = pipeline(lambda x: x.trim(1, id="rest").cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    >>> [(f.step, f.what, f.remembers) for f in step_facts(p.graph)]
    [('rest', 'trim 1', 'a count'), ('sum', 'cumulate t + v', 'its last value (int)')]
    """
    if graph.timed:
        return _by_time(graph, key)
    layout = emit(graph, numba=False, external=INT if key else None).layout  # of which type does not matter here
    called: dict[str, list[str]] = {}
    for step, node, why in plain_reasons(graph):
        called.setdefault(step.id, []).append(why if node is step else f"{node.describe()}: {why}")
    out = []
    for node in graph.nodes:
        if node.kind == "source":
            continue
        what = " ".join(str(part) for part in (node.kind, node.k, node.fn) if part is not None)
        reason = "; ".join(called[node.id]) if node.id in called else None
        out.append(StepFacts(node.id, what, node.where, reason, _remembered(graph, node, layout, key)))
    return out


def why_plain(graph: Graph) -> str | None:
    """Why the loop is run by CPython however long the input; None: it is compiled."""
    if graph.timed:
        from pellucid.internal.engine.timed.engine import TimedEngine

        return TimedEngine(graph).why_plain
    return Engine(graph).why_plain


def _by_time(graph: Graph, key: bool) -> list[StepFacts]:
    """The steps of a pipeline by event time: ordinary ones are compiled segment by segment."""
    found: dict[str, StepFacts] = {}
    for stage in plan_of(graph).stages:
        if isinstance(stage, Segment):
            own = {graph.nodes[i].id for i in stage.steps}
            for facts in step_facts(stage.graph, key=key):
                if facts.step in own:
                    found[facts.step] = facts
            continue
        node = graph.nodes[stage.step]
        told = node.timing.words() if node.timing is not None else ""
        on_time = f"and on time {node.on_time}" if node.on_time is not None else ""
        what = " ".join(str(part) for part in (node.kind, node.fn, on_time, told) if part)
        reasons = [reason for step, _, reason in plain_reasons(graph) if step is node]
        apart = ", for each key" if node.key is not None or key else ""
        kept = f"{REMEMBERED[node.kind]}{apart}" if node.processor.keeps else ""
        kept = "the greatest time that it has seen" if node.kind == "at" else kept
        if node.kind == "iterate" and graph.clocks[stage.step] is None:
            kept = f"what the steps of its body keep{apart}"
        if node.timing is not None and node.timing.allowed:
            kept = kept.replace("are not complete", "can still be corrected")
        found[node.id] = StepFacts(node.id, what, node.where, "; ".join(reasons) or None, kept)
    return [found[node.id] for node in graph.nodes if node.kind != "source"]


#: What timed steps keep, until the clock says that it is needed no more.
REMEMBERED = {
    "iterate": "events that wait until their time is complete, and what the steps of its body keep",
    "tumbling": "the events of windows that are not complete",
    "sliding": "the events of windows that are not complete",
    "session": "the events of sessions that are not complete",
    "join": "the events of both streams that can still find a partner",
    "as_of": "events that wait for their answer, and those of the other stream that can still be one",
    "lookup": "events that wait for their answer, and the changes that can still be one",
    "dedup": "events that wait until no earlier one can come, and when the last of each kind was",
    "timers": "events that wait until no earlier one can come, its state, and the times that it has asked for",
}


def _remembered(graph: Graph, node: Node, layout: KernelLayout, key: bool) -> str:
    """What a step keeps from push to push, by the words that the kernel has for it."""
    own = [word for region in layout.regions for word in region.words if word.step == node.id]
    waits = [queue.id for queue in layout.queues if queue.id in {f"{node.id}.{j}" for j in range(len(node.inputs))}]
    if not own and not waits:
        return ""
    if node.processor.forgets:
        return (
            f"when each key came last, of {node.k:,} keys at most: a key is given up after {node.k:,} events of others"
        )
    kinds = {
        "value": f"its last value ({node.state})",
        "count": "a count",
        "state": "a state of any Python object" if node.any_object else f"a state ({node.state})",
        "events": "",
    }
    if node.processor.keeps == "events":
        kinds["events"] = f"its last {node.earlier} events ({graph.nodes[node.inputs[0]].type})"
    parts = [kinds[node.processor.keeps]] if node.processor.keeps else []
    parts += ["events that wait for their partners"] if waits else []
    return " and ".join(parts) + (", for each key" if key or node.key is not None else "")
