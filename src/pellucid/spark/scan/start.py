"""Where a chunk starts: what each step remembers there, put into the words of an engine (see
`pellucid.engine.kernel.layout`).

A count and a fold are a word or a few.  What a window remembers is its own affair (rings, running sums, blocks), so its
last events are pushed through the window alone, and its words are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pellucid.data.columns import Batch, Column
from pellucid.engine.kernel.engine import Engine
from pellucid.engine.kernel.layout import Word, encode, leaf_types
from pellucid.engine.state import EngineState
from pellucid.errors import DataError, IntOverflow
from pellucid.expr.types import STR, EnumType, Type, fits_int
from pellucid.graph.folds import FoldPart
from pellucid.graph.model import Graph, Node
from pellucid.spark.scan.parts import Cut, ScanStep
from pellucid.spark.scan.summary import JOIN, Summary, keeps_order, merged
from pellucid.spark.state.order import Judge
from pellucid.spark.step import Runner


def begin(runner: Runner, cut: Cut, level: int, summaries: Mapping[int, Summary], chunk: int) -> None:
    """Make a new runner start where this chunk does, in all steps below the level."""
    earlier = [summaries[c] for c in sorted(summaries) if c < chunk]
    steps = [s for steps in cut.levels[:level] for s in steps]
    before = merged(earlier, steps)
    if before.failed is not None:
        # in an earlier chunk, whose task says the same: whichever is first is what the user reads
        raise DataError(before.failed)
    state = runner.engine.state
    state.to_plain()
    state.pushed = before.rows
    for step in steps:
        # else the level does not need it
        if step.node.id in before.steps and step.node.id in state.layout.graph.position:
            _start(state, step, before.steps[step.node.id])
    if runner.job.late.sequence is not None and before.last is not None:
        runner.judge = Judge(runner.fields.order, None, sequence=before.last)
        runner.judge.refused(1, [[before.last]], None)


def _start(state: EngineState, step: ScanStep, found: list[Any]) -> None:
    """Set what a step remembers."""
    r = state.layout.region_of[None]
    words = _words(state, step.node)
    node, row = step.node, state.rows[r]
    if step.how == "count":
        assert node.k is not None and node.processor.counted is not None
        row[words["count"][0]] = node.processor.counted(found[0], node.k)
    elif step.how == "tail":
        _start_window(state, node, found[0])
    else:
        assert node.state is not None
        leaves = zip(node.state.leaves(), node.state.flatten(node.start), step.parts, found, strict=True)
        for (path, t), start, part, total in leaves:
            if total is not None:
                value = _from_start(part, start, total)
                if isinstance(value, int) and not fits_int(value):
                    raise IntOverflow(f"{node.describe()}: an integer left the signed 64-bit range", step=node.id)
                row[words[f"state{'.' + path if path else ''}"][0]] = encode(t, value, state.strings)


def _from_start(part: FoldPart, start: Any, total: Any) -> Any:
    """The value after a chunk, from that before it."""
    if not keeps_order(part):
        return JOIN[part.op](start, total)
    value = _values(part.type, total.column("v0"))[0]
    if part.op == "last":
        return value
    ahead = value < start if part.op == "min" else value > start
    if start != start or value != value:  # NaN: the old value is kept, or never
        return start if part.nan_kept else value
    return value if ahead or (value == start and not part.first) else start


def _start_window(state: EngineState, node: Node, tail: Any) -> None:
    """Push the last events through the window alone, and copy what it remembers then."""
    graph = state.layout.graph
    t = graph.nodes[graph[node.id].inputs[0]].type
    tail = tail.sort_by([(c, "ascending") for c in tail.schema.names if c[0] in "on"])
    source = Node("in" if node.id != "in" else "source", "source", (), t)
    alone = Engine(Graph("window", (source, replace(node, inputs=(0,))), (0,), (("out", 1),)), mode="python")
    columns: list[Column] = [_values(leaf, tail.column(f"v{j}")) for j, leaf in enumerate(leaf_types(t))]
    alone.push_batch(Batch(tail.num_rows, [columns], [None]))
    texts = alone.state.texts()
    there, here = _words(alone.state, node), _words(state, node)
    rows, row = alone.state.rows[alone.state.layout.region_of[None]], state.rows[state.layout.region_of[None]]
    for label, (at, word) in there.items():
        values = rows[at : at + word.count]
        if word.type == STR:
            values = [state.code(texts[c]) if c < len(texts) else 0 for c in values]
        row[here[label][0] : here[label][0] + word.count] = values


def _words(state: EngineState, node: Node) -> dict[str, tuple[int, Word]]:
    """Where a step's words are in the row of what has no key, by their labels."""
    out: dict[str, tuple[int, Word]] = {}
    at = 0
    for word in state.layout.regions[state.layout.region_of[None]].words:
        if word.step == node.id:
            out[word.label] = (at, word)
        at += word.count
    return out


def _values(t: Type, array: Any) -> list[Any]:
    """An Arrow column as Python values."""
    values: list[Any] = array.to_pylist()
    if isinstance(t, EnumType):
        members = {m.name: m for m in t.members}
        return [members[v] for v in values]
    return values
