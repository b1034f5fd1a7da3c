"""What every picture of a counterexample shows: a row for each stream and queue, a column for each push.

Sources first, then outputs and the steps that were asked about, then the queues whose contents change.  The text and
the SVG both read this sheet, so they cannot disagree.  Pushes are counted from 0, as in the messages of steps that
fail.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pellucid.check.verdict import Counterexample
from pellucid.draw.labels import clean, shorten
from pellucid.engine.interpreter import Interpreter
from pellucid.errors import StepError
from pellucid.graph.model import Graph

__all__ = [
    "FAILS",
    "REPEATS",
    "Row",
    "Sheet",
    "asked_about",
    "event_fields",
    "event_text",
    "first_difference",
    "sheet_of",
]

FAILS = "fails"
REPEATS = "from here on it repeats"
_DERIVED = re.compile(r"\w+-[0-9a-f]{6}(-\d+)?")  # an id that the user did not choose: filter-21ef3c


@dataclass(frozen=True)
class Row:
    """One stream or queue: ``cells[i]`` are its events in push i, or what waits after it; None after a failure."""

    kind: str  # source, output, step, queue
    name: str
    cells: tuple[list[Any] | None, ...]
    family: str  # the kind of processor, for its colour

    def changed(self, push: int) -> bool:
        """Whether a queue holds something else than before (at the start it is empty)."""
        return self.cells[push] != (self.cells[push - 1] if push else [])


@dataclass(frozen=True)
class Sheet:
    """A counterexample as a table."""

    rows: tuple[Row, ...]
    count: int
    loop: int | None
    marks: tuple[int, ...]  # the pushes in which it goes wrong
    words: str  # what is wrong there
    differ: frozenset[tuple[str, int]] = frozenset()  # (row, push) where compared pipelines do not agree


def event_text(value: Any) -> str:
    """An event, short and on one line.

    >>> from typing import NamedTuple
    >>> Payment = NamedTuple("Payment", [("user", str), ("cents", int)])
    >>> event_text(Payment("ada", -5)), event_text(1.5), event_text("a")
    ("(user='ada', cents=-5)", '1.5', "'a'")
    """
    fields = event_fields(value)
    if fields is not None:
        return "(" + ", ".join(f"{name}={event_text(part)}" for name, part in fields.items()) + ")"
    if isinstance(value, enum.Enum):
        return clean(value.name)
    try:
        return clean(repr(value))
    except Exception:  # the user's own __repr__
        return f"a {type(value).__name__}"


def event_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record, None for a scalar."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def asked_about(example: Counterexample, question: str) -> set[str]:
    """The streams that a question names, so that they are shown.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.map(abs, id="size").trim(1), x=int)
    >>> example = check.holds(p, "AG (size -> size.value < 3)").counterexample
    >>> sorted(asked_about(example, "AG (size -> size.value < 3)"))
    ['size']
    """
    words = set(re.findall(r"[\w/-]+", question))
    return {name for step in example.steps for name in step.streams if name in words}


def sheet_of(example: Counterexample, *, show: Collection[str] = (), steps: bool = False) -> Sheet:
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


def _row(example: Counterexample, kind: str, name: str, family: str) -> Row:
    own = f'{kind}("{name}")'  # where an output has the same name
    name = own if any(own in step.streams for step in example.steps) else name
    return Row(kind, name, tuple(step.streams.get(name) for step in example.steps), family)


def _sources(example: Counterexample, graph: Graph, before: list[Row] | None) -> list[Row]:
    """The sources; of the second of two graphs none is new, only its name may be."""
    names = [graph.nodes[at].id for at in graph.sources]
    if before is None:
        return [_row(example, "source", name, "source") for name in names]
    for i, name in enumerate(names):
        if before[i].name != name:
            before[i] = dataclasses.replace(before[i], name=f"{before[i].name} (2:{name})")
    return []


def first_difference(example: Counterexample) -> tuple[tuple[int, int], tuple[int, int]] | None:
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


def _marked(example: Counterexample, rows: tuple[Row, ...]) -> Sheet:
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


def _failure(example: Counterexample) -> str:
    """What the step that fails says: the pushes are run once more."""
    for graph in example.graphs:
        own = {graph.nodes[at].id for at in graph.sources}
        try:
            Interpreter(graph).run([{k: v for k, v in push.items() if k in own} for push in example.inputs])
        except StepError as error:
            return shorten(clean(str(error).partition("\n")[0]), 200)
    return "a step fails here"
