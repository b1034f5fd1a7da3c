"""The sheet of a pipeline's counterexample: sources first, then outputs and the steps that were asked about, then the
queues whose contents change."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pellucid.errors import StepError
from pellucid.internal.draw.labels import clean, shorten
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.sheet import Row, Sheet

if TYPE_CHECKING:
    from pellucid.check.counterexample.pushes import Pushes

_DERIVED = re.compile(r"\w+-[0-9a-f]{6}(-\d+)?")  # an id that the user did not choose: filter-21ef3c


def asked_about(example: Pushes, question: str) -> set[str]:
    """The streams that a question names, so that they are shown.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.map(abs, id="size").trim(1), x=int)
    >>> example = check.holds(p, "AG (size -> size.value < 3)").counterexample
    >>> sorted(asked_about(example, "AG (size -> size.value < 3)"))
    ['size']
    """
    words = set(re.findall(r"[\w/-]+", question))
    return {name for step in example.steps for name in step.streams if name in words}


def sheet_of(example: Pushes, *, show: Collection[str] = (), steps: bool = False) -> Sheet:
    """The table of a counterexample; ``show`` names more streams, ``steps`` shows all that the user gave an id.

    >>> from pellucid import check, pipeline
    >>> late = pipeline(lambda x: x.trim(1) - x, x=int)
    >>> sheet = sheet_of(check.holds(late, "G (x -> out)").counterexample)
    >>> [(row.kind, row.cells) for row in sheet.rows if row.kind != "queue"]
    [('source', ([0],)), ('output', ([],))]
    """
    two = len(example.graphs) > 1
    rows: list[Row] = []
    for i, graph in enumerate(example.graphs, 1):
        mark = f"{i}:" if two else ""
        rows += _sources(example, graph, rows if i > 1 else None)
        outputs = {name: graph.nodes[at].kind for name, at in graph.outputs}
        rows += [_row(example, "output", f"{mark}{name}", kind) for name, kind in outputs.items()]
        named = {n.id: n.kind for n in graph.nodes if n.kind != "source" and n.id not in outputs}
        for id, kind in named.items():
            wanted = f"{mark}{id}" in show or id in show or (steps and not _DERIVED.fullmatch(id))
            if wanted and id not in {graph.nodes[at].id for _, at in graph.outputs}:
                rows.append(_row(example, "step", f"{mark}{id}", kind))
    for id in dict.fromkeys(id for step in example.steps for id in step.queues):
        cells = tuple(step.queues.get(id, []) for step in example.steps)
        if any(cells):
            rows.append(Row("queue", id, cells, "queue"))
    order = {"source": 0, "output": 1, "step": 2, "queue": 3}
    rows.sort(key=lambda row: order[row.kind])
    return _marked(example, tuple(rows))


def _row(example: Pushes, kind: str, name: str, family: str) -> Row:
    own = f'{kind}("{name}")'  # where an output has the same name
    name = own if any(own in step.streams for step in example.steps) else name
    return Row(kind, name, tuple(step.streams.get(name) for step in example.steps), family)


def _sources(example: Pushes, graph: Graph, before: list[Row] | None) -> list[Row]:
    """The sources; of the second of two graphs none is new, only its name may be."""
    names = [graph.nodes[at].id for at in graph.sources]
    if before is None:
        return [_row(example, "source", name, "source") for name in names]
    for i, name in enumerate(names):
        if before[i].name != name:
            before[i] = dataclasses.replace(before[i], name=f"{before[i].name} (2:{name})")
    return []


def first_difference(example: Pushes) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the i-th events of two pipelines' first outputs differ: (push, place in it) in each.

    >>> from pellucid import check, pipeline
    >>> a, b = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda x: x.trim(2), x=int)
    >>> first_difference(check.equivalent(a, b, how="sequence").counterexample)
    ((1, 0), (2, 0))
    """
    places = []
    for i, graph in enumerate(example.graphs, 1):
        name = f"{i}:{graph.outputs[0][0]}"
        carried = [step.streams.get(name) or [] for step in example.steps]
        places.append([(push, at, event) for push, events in enumerate(carried) for at, event in enumerate(events)])
    for (p, i, left), (q, j, right) in zip(*places, strict=False):
        if left != right:
            return (p, i), (q, j)
    return None


def _marked(example: Pushes, rows: tuple[Row, ...]) -> Sheet:
    last = len(example.steps) - 1
    failed = [row.name for row in rows if row.kind == "output" and row.cells and row.cells[-1] is None]
    sheet = Sheet(rows, len(example.steps), example.loop, (last,) if last >= 0 else (), example.why)
    if len(example.graphs) == 2:
        names = [f"{i}:{graph.outputs[0][0]}" for i, graph in enumerate(example.graphs, 1)]
        pairs = [(step.streams.get(names[0]), step.streams.get(names[1])) for step in example.steps]
        apart = [push for push, (a, b) in enumerate(pairs) if a != b]
        found = first_difference(example)
        # Of a shortest step-wise difference only the last push differs; earlier ones are a delay, which is allowed.
        if apart and (apart[0] == last or found is None):
            differ = frozenset((name, apart[0]) for name in names)
            return dataclasses.replace(
                sheet,
                marks=(apart[0],),
                differ=differ,
                words=example.why or (_failure(example) if failed else "they differ here"),
            )
        if found is not None:
            (p, _), (q, _) = found
            marks = tuple(sorted({p, q}))
            differ = frozenset([(names[0], p), (names[1], q)])
            return dataclasses.replace(sheet, marks=marks, differ=differ, words=example.why or "these should be equal")
    if failed:
        return dataclasses.replace(sheet, words=example.why or _failure(example))
    if example.loop is not None:
        return dataclasses.replace(sheet, marks=())
    return dataclasses.replace(sheet, words=example.why or "here")


def _failure(example: Pushes) -> str:
    """What the step that fails says: the pushes are run once more."""
    for graph in example.graphs:
        own = {graph.nodes[at].id for at in graph.sources}
        try:
            Interpreter(graph).run([{k: v for k, v in push.items() if k in own} for push in example.inputs])
        except StepError as error:
            return shorten(clean(str(error).partition("\n")[0]), 200)
    return "a step fails here"
