"""Which tasks there are, and which streams between them.

The plain plan: a source task for each input, one worker that runs the whole pipeline as one fused kernel (with a key: N
workers, each for its share of the keys), a sink task for each output.  ``cut`` names steps after which the pipeline is
cut, so that it becomes several workers.

How it is cut: two steps go to the same worker if the same cut steps lie before them and a stream that is not cut joins
them.  What lies before a step only grows along a stream, so there is no cycle between workers.  Every stream between
two workers carries events with their push numbers, and a worker that has several takes them push by push, as the whole
pipeline would.  A kernel takes one event of a source in a push; so a stream that may carry several events in one push
can only go to a worker that has no other stream and no step in which streams meet, where it makes no difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pellucid.errors import UsageError, nearest, option
from pellucid.internal.engine.epochs.dead_letters import BAD, DEAD_LETTER, STREAM
from pellucid.internal.engine.kernel.layout import capacities
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, Node, node_digest


@dataclass(frozen=True)
class Channel:
    """A FIFO stream of messages from one task to another; ``streams`` are the steps whose events it carries."""

    sender: str
    receiver: str
    streams: tuple[str, ...]
    share: tuple[int, int] | None = None  # (i, n): only the keys of the i-th of n workers

    @property
    def name(self) -> str:
        return f"{self.sender}>{self.receiver}"


@dataclass(frozen=True)
class TaskPlan:
    """A task: its name, its kind, and what it runs."""

    name: str
    kind: str  # source | worker | sink
    graph: Graph | None = None  # of a worker
    sources: tuple[str, ...] = ()  # of a source task: the sources that its input feeds
    lane: str | None = None  # of a source task: which input
    output: str = ""  # of a sink
    place: str = ""  # of a sink: the name of the target, where several take one output
    step: str = ""  # of a sink: the step that emits its events


@dataclass
class Plan:
    """The tasks in an order in which messages flow, and the channels between them."""

    tasks: list[TaskPlan]
    channels: list[Channel]
    types: dict[str, Type] = field(default_factory=dict)  # of each step that a channel carries

    def inputs(self, task: str) -> list[Channel]:
        """The channels into a task."""
        return [c for c in self.channels if c.receiver == task]

    def outputs(self, task: str) -> list[Channel]:
        """The channels out of a task."""
        return [c for c in self.channels if c.sender == task]

    def named(self, kind: str) -> list[TaskPlan]:
        """The tasks of a kind."""
        return [t for t in self.tasks if t.kind == kind]

    def __str__(self) -> str:
        lines = []
        for task in self.tasks:
            inside = ", ".join(n.id for n in task.graph.nodes if n.kind != "source") if task.graph else ""
            reads = ", ".join(c.sender for c in self.inputs(task.name))
            lines.append(f"{task.name}: {task.kind}{f' of {inside}' if inside else ''}{f' ← {reads}' if reads else ''}")
        return "\n".join(lines)


def steps_of(graph: Graph) -> dict[str, str]:
    """What each step does, as a digest that any process agrees on.

    >>> from pellucid import pipeline
    >>> list(steps_of(pipeline(lambda x: x.trim(2, id="cut"), x=int).graph))
    ['x', 'cut']
    """
    return {n.id: node_digest(n, [graph.nodes[i].id for i in n.inputs])[:16] for n in graph.nodes}


def make_plan(
    graph: Graph,
    lanes: Mapping[str | None, Sequence[str]],
    *,
    outputs: Sequence[str] = (),
    cut: Sequence[str] = (),
    workers: int = 1,
    keyed: bool = False,
    bad: bool = False,
    members: Mapping[str, str] | None = None,
) -> Plan:
    """The tasks and channels of a pipeline.

    ``lanes`` maps each input to the sources that it feeds; with ``bad`` there is a sink for rows that are set aside;
    ``members`` are targets that commit together, and which output each takes.

    >>> from pellucid import merge, pipeline
    >>> p = pipeline(lambda x: merge(x.trim(1, id="a"), x.map(lambda v: -v, id="b"), id="both"), x=int)
    >>> print(make_plan(p.graph, {"x": ["x"]}, cut=["a", "b"]))
    source.x: source
    worker.a: worker of a ← source.x
    worker.b: worker of b ← source.x
    worker.both: worker of both ← worker.a, worker.b
    sink.out: sink ← worker.both
    """
    if workers > 1 and not keyed:
        raise UsageError(
            f"{option('workers', workers)}: several workers share the work by a key: give {option('key', any='COLUMN')}"
        )
    if workers > 1 and len(lanes) > 1:
        raise UsageError(
            f"{option('workers', workers)}: the inputs of {graph.name} ({', '.join(map(str, lanes))}) have a key each "
            "in one push, so no worker is the one for it: put them in one file, or use one worker"
        )
    parts = fragments(graph, cut)
    wanted = list(outputs) or [name for name, _ in graph.outputs]
    plan = Plan([], [])
    makers: dict[str, list[str]] = {}  # the tasks that emit a step's events
    for lane, sources in lanes.items():
        name = "source." + _plain(str(lane) if lane is not None else "all")
        plan.tasks.append(TaskPlan(name, "source", sources=tuple(sources), lane=lane))
        makers |= {s: [name] for s in sources}
    shares = [(i, workers) for i in range(workers)] if workers > 1 else [None]
    for part in parts:
        base = "worker" if len(parts) == 1 else "worker." + _plain(part.nodes[-1].id)
        names = [f"{base}.{share[0]}" if share else base for share in shares]
        plan.tasks += [TaskPlan(name, "worker", part) for name in names]
        reads = [part.nodes[i].id for i in part.sources]
        for name, share in zip(names, shares, strict=True):
            _connect(plan, makers, name, reads, share)
        makers |= {step: names for step, _ in part.outputs}
    takes = dict(members) if members else {output: output for output, _ in graph.outputs if output in wanted}
    steps = {output: graph.nodes[at].id for output, at in graph.outputs}
    for place, output in takes.items():
        name = sink_name(place)
        plan.tasks.append(TaskPlan(name, "sink", output=output, step=steps[output], place=place))
        _connect(plan, makers, name, [steps[output]], None)
    plan.types = {n.id: n.type for n in graph.nodes}
    if bad:
        senders = [task.name for task in plan.tasks if task.kind != "sink"]
        plan.tasks.append(TaskPlan(f"sink.{BAD}", "sink", output=BAD, step=STREAM, place=BAD))
        plan.channels += [Channel(sender, f"sink.{BAD}", (STREAM,)) for sender in senders]
        plan.types[STREAM] = DEAD_LETTER
    return plan


def _connect(
    plan: Plan, makers: Mapping[str, list[str]], name: str, steps: Sequence[str], share: tuple[int, int] | None
) -> None:
    """Channels into a task: one from each task that makes some of these streams."""
    found: dict[str, list[str]] = {}
    for step in steps:
        senders = makers[step]
        for sender in senders:
            if share is None or len(senders) == 1 or sender.endswith(f".{share[0]}"):
                found.setdefault(sender, []).append(step)
    for sender, streams in found.items():
        parted = share if sender.startswith("source.") else None
        plan.channels.append(Channel(sender, name, tuple(streams), parted))


def sink_name(place: str) -> str:
    """The task that writes to a target."""
    return f"sink.{_plain(place)}"


def _plain(name: str) -> str:
    """A name that is good in a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


# ---------------------------------------------------------------- cutting


def fragments(graph: Graph, cut: Sequence[str]) -> list[Graph]:
    """The pipeline cut after these steps, as graphs whose outputs are named by their steps, in the order of the
    flow."""
    for step in cut:
        if step not in graph.position:
            known = [n.id for n in graph.nodes]
            raise UsageError(
                f"cut={step!r}: {graph.name} has no such step{nearest(step, known)}: it has {', '.join(known)}"
            )
        if graph[step].kind == "source":
            raise UsageError(
                f"cut={step!r}: is a source of {graph.name}, which is a task of its own already: leave it out"
            )
    before: list[frozenset[str]] = []  # the cut steps that lie before each node
    for node in graph.nodes:
        ins = [before[i] | ({graph.nodes[i].id} & set(cut)) for i in node.inputs]
        before.append(frozenset().union(*ins))
    inner = [i for i, n in enumerate(graph.nodes) if n.kind != "source"]
    group = {i: i for i in inner}

    def find(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    for i in inner:
        for j in graph.nodes[i].inputs:
            if j in group and before[i] == before[j] and graph.nodes[j].id not in cut:
                group[find(i)] = find(j)
    if not cut:  # one worker, also where parts of the pipeline have nothing to do with each other
        group = dict.fromkeys(inner, inner[0] if inner else 0)
    members: dict[int, list[int]] = {}
    for i in inner:
        members.setdefault(find(i), []).append(i)
    out = [_fragment(graph, part) for part in _ordered(graph, list(members.values()))]
    if cut:
        _check(graph, out)
    return out


def _ordered(graph: Graph, parts: list[list[int]]) -> list[list[int]]:
    """Parts before the parts that read them."""
    of = {i: n for n, part in enumerate(parts) for i in part}
    done: list[int] = []

    def visit(n: int) -> None:
        if n not in done:
            for i in parts[n]:
                for j in graph.nodes[i].inputs:
                    if j in of and of[j] != n:
                        visit(of[j])
            done.append(n)

    for n in range(len(parts)):
        visit(n)
    return [parts[n] for n in done]


def _fragment(graph: Graph, part: list[int]) -> Graph:
    inside = set(part)
    reads = sorted({j for i in part for j in graph.nodes[i].inputs if j not in inside})
    outer = {i for _, i in graph.outputs}
    outer |= {j for i, node in enumerate(graph.nodes) if i not in inside for j in node.inputs}
    place = {old: new for new, old in enumerate([*reads, *part])}
    nodes: list[Node] = []
    for old in place:
        node = graph.nodes[old]
        if old in inside:
            nodes.append(replace(node, inputs=tuple(place[j] for j in node.inputs)))
        elif node.key is not None:
            raise UsageError(
                f"cut: the stream of {node.describe()} is under a key_by, and would go to another worker without its "
                "key: cut before the key_by"
            )
        else:
            nodes.append(Node(node.id, "source", (), node.type, where=node.where))
    outputs = tuple((graph.nodes[i].id, place[i]) for i in part if i in outer)
    return Graph(graph.name, tuple(nodes), tuple(range(len(reads))), outputs)


def _check(graph: Graph, parts: list[Graph]) -> None:
    """Refuse a cut that would change the meaning."""
    most = dict(zip([n.id for n in graph.nodes], capacities(graph), strict=True))
    for part in parts:
        sources = [part.nodes[i] for i in part.sources]
        meets = next((n for n in part.nodes if len(n.inputs) > 1), None)
        for source in sources:
            if graph[source.id].kind == "source":
                continue
            if most[source.id] != 1 and (len(sources) > 1 or meets is not None):
                why = (
                    f"other streams ({', '.join(s.id for s in sources if s is not source)})"
                    if len(sources) > 1
                    else meets.describe()
                    if meets
                    else ""
                )
                raise UsageError(
                    f"cut: the stream of {graph[source.id].describe()} may carry several events in one push, which "
                    f"would meet {why} in another order than in the whole pipeline: cut elsewhere"
                )
