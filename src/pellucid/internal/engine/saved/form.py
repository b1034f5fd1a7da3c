"""The saved form of a state: one block of bytes that says itself what it holds (`base.container`).

The head describes every region, word and queue by the ids of the steps; blocks of raw words follow.  The texts are two
blocks (lengths in characters, and one long UTF-8 text), because a million texts in JSON take longer than all the rest.
States that are any Python object come last, each step's in a block (`values`).

What is saved is described so exactly that a strict `load` can compare descriptions, and `carry` can find each word
again in a pipeline that has changed.

Whether the words of a state that was read can be what a kernel left: a compiled kernel believes them when it looks
into memory.

A checksum finds what went wrong by itself, not what was written on purpose.  So every word that is used as an index
is looked at: the cells of queues and the links between them, the places in windows' rings, the numbers of texts and of
enum members.

>>> from pellucid import pipeline
>>> engine = pipeline(lambda x: x.window(3, lambda y: y.cumulate(lambda t, v: t + v, start=0), id="w"), x=int).engine()
>>> check_words(engine.state)
>>> engine.state.rows[0][3] = 7
>>> check_words(engine.state)
Traceback (most recent call last):
pellucid.internal.engine.saved.form.DamagedState: the saved state is damaged (step 'w': at is out of ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.errors import StateError
from pellucid.internal.base import container
from pellucid.internal.base.container import Buffer, Container, refuse_other
from pellucid.internal.engine.kernel.layout import KernelLayout
from pellucid.internal.expr.types import BOOL, STR, EnumType, ListType, OptionalType, ScalarType, Type
from pellucid.internal.graph.model import Graph, Node

if TYPE_CHECKING:
    from pellucid.internal.engine.state import EngineState


class DamagedState(StateError):  # noqa: N818 - reads as what it is
    """The bytes are not those that were saved."""

    def __init__(self, what: object) -> None:
        super().__init__(f"the saved state is damaged ({what}): use an older one")


def pack(header: dict[str, Any], blocks: Sequence[Any], *, about: str = "{}") -> bytes:
    """Header and blocks as bytes.  ``about`` is JSON already: it is long, and always the same.

    >>> unpack(pack({"pushed": 3}, [b"abc", b""])).head["pushed"]
    3
    """
    return container.pack("state", header, blocks, also=about)


def unpack(data: Buffer) -> Container:
    """The header and the blocks, after the checksum was found right."""
    if not container.is_one(data):
        raise StateError("this is no saved state of Pellucid: expected what save() returned")
    try:
        found = container.unpack(data, "state")
    except container.OtherVersion as error:
        raise StateError(container.refused("the saved state", error)) from None
    except container.Broken as error:
        raise DamagedState(error) from None
    if found.head.get("format") == 2 and found.head.get("objects"):
        raise StateError(
            "the saved state was written by an older version of Pellucid with pickle, which could run code when it is "
            "read, so this version does not read it: go on with the version that saved it, or start again"
        )
    return found


# ---------------------------------------------------------------- texts


def pack_texts(texts: Sequence[str]) -> list[Any]:
    """Texts as two blocks."""
    import numpy as np

    lengths = np.fromiter(map(len, texts), dtype=np.uint32, count=len(texts))
    return [lengths, "".join(texts).encode("utf-8", "surrogatepass")]


def unpack_texts(lengths: memoryview, text: memoryview) -> list[str]:
    """The texts of two blocks.

    >>> unpack_texts(*[memoryview(b).cast("B") for b in pack_texts(["a", "", "größer"])])
    ['a', '', 'größer']
    """
    import numpy as np

    stops = np.cumsum(np.frombuffer(lengths, dtype=np.uint32), dtype=np.int64).tolist()
    whole = str(text, "utf-8", "surrogatepass")
    out, start = [], 0
    for stop in stops:
        out.append(whole[start:stop])
        start = stop
    return out


# ---------------------------------------------------------------- descriptions


def describe(layout: KernelLayout) -> dict[str, Any]:
    """What the state of a pipeline is made of, as plain data (the same in any process).

    ``steps`` has for every step that remembers something its kind, and for a window what runs inside, since what a
    window keeps besides its events is of use to the same sub-pipeline only.  ``types`` has what words alone do not
    tell: a time and a decimal are whole numbers there, whatever they count.

    >>> from pellucid import pipeline
    >>> engine = pipeline(lambda x: x.trim(2, id="cut"), x=int).engine()
    >>> about = describe(engine.state.layout)
    >>> about["regions"], about["steps"]
    ([{'keys': [], 'words': [['cut', 'count', 'int', 1]]}], {'cut': ['trim', '']})
    """
    graph = layout.graph
    objects = {n.id for n in graph.nodes if n.any_object}
    regions = []
    for region in layout.regions:
        words = [
            [w.step, w.label, "object" if w.step in objects and w.label == "state" else mark(w.type), w.count]
            for w in region.words
        ]
        forgets = {"forgets": region.forgets} if region.forgets else {}
        regions.append({"keys": [mark(t) for t in region.keys], "words": words, **forgets})
    remembering = dict.fromkeys(w.step for region in layout.regions for w in region.words)
    nodes = [graph[step] for step in remembering]
    types = {n.id: found for n in nodes if (found := _rich(graph, n))}
    if layout.external is not None and _is_rich(layout.external):
        types[""] = {"key": columns_text(layout.external)}
    return {
        "external": layout.external is not None,
        "regions": regions,
        "queues": [[q.id, [mark(t) for t in q.leaves]] for q in layout.queues],
        "steps": {n.id: [n.kind, n.sub.shape if n.sub is not None else ""] for n in nodes},
        **({"types": types} if types else {}),
    }


def _rich(graph: Graph, node: Node) -> dict[str, str]:
    """What a step remembers, where it is more than its words: the state, the events that it keeps, its key."""
    kept: dict[str, Type | None] = {"state": node.state, "key": node.key}
    if node.queued or node.processor.keeps == "events":
        inputs = [graph.nodes[i].type for i in node.inputs]
        kept |= {f"input {i + 1}" if len(inputs) > 1 else "input": t for i, t in enumerate(inputs)}
    return {what: columns_text(t) for what, t in kept.items() if t is not None and _is_rich(t)}


def _is_rich(t: Type) -> bool:
    return any(not isinstance(column, (ScalarType, EnumType)) for _, column in t.columns())


def columns_text(t: Type) -> str:
    """The types of the columns; neither the names of fields nor of classes are part of what is remembered.

    >>> from pellucid.internal.expr.types import DATETIME, INT, OptionalType, TupleType
    >>> columns_text(TupleType((OptionalType(DATETIME), INT)))
    '(datetime | None, int)'
    """
    found = [_column_text(column) for _, column in t.columns()]
    return found[0] if len(found) == 1 else f"({', '.join(found)})"


def _column_text(t: Type) -> str:
    if isinstance(t, OptionalType):
        return f"{_column_text(t.inner)} | None"
    return f"list[{columns_text(t.item)}]" if isinstance(t, ListType) else str(t)


def other_types(old: dict[str, Any], new: dict[str, Any], step: str) -> str:
    """In words, what a step remembers as another type now; empty if nothing that words do not tell.

    >>> was, now = ({"types": {"sum": {"state": t}}} for t in ("Decimal(2)", "Decimal(4)"))
    >>> other_types(was, now, "sum")
    'its state was Decimal(2), and is now Decimal(4)'
    """
    was, now = (about.get("types", {}).get(step, {}) for about in (old, new))
    differ = [what for what in dict.fromkeys([*was, *now]) if was.get(what) != now.get(what)]
    return ", ".join(
        f"its {what} was {was.get(what) or _plain(old, step, what)}, and is now "
        f"{now.get(what) or _plain(new, step, what)}"
        for what in differ
    )


def _plain(about: dict[str, Any], step: str, what: str) -> str:
    """The type of what a step remembers, where its words say all of it."""
    if what == "state":
        marks = [
            w[2] for r in about.get("regions", ()) for w in r["words"] if w[0] == step and w[1].startswith("state")
        ]
    elif what.startswith("input"):
        queues = [leaves for id, leaves in about.get("queues", ()) if id.rpartition(".")[0] == step]
        number = int(what[6:] or 1) - 1
        rings = [w[2] for r in about.get("regions", ()) for w in r["words"] if w[0] == step and w[1].startswith("ring")]
        marks = queues[number] if number < len(queues) else rings
    else:
        marks = next((r["keys"] for r in about.get("regions", ()) if any(w[0] == step for w in r["words"])), [])
    return (marks[0] if len(marks) == 1 else f"({', '.join(marks)})") if marks else "another"


def mark(t: Type) -> str:
    """A leaf's type, with the names of an enum's members: their numbers are what is stored."""
    if isinstance(t, EnumType):
        return f"{t}{{{','.join(m.name for m in t.members)}}}"
    return str(t)


def compare(header: dict[str, Any], layout: KernelLayout) -> None:
    """Refuse a state of another pipeline, with the steps that differ."""
    found, wanted = header["about"], describe(layout)
    if found != wanted:
        words = {"key": "the type of the key that comes with the data", "order": "the order of the steps"}
        before, now = _facts(header["pipeline"], found), _facts(layout.graph.name, wanted)
        refuse_other(
            "the saved state",
            before,
            now,
            words,
            "carry() takes a state over to a changed pipeline",
            why=lambda step: f" ({text})" if (text := other_types(found, wanted, step)) else "",
        )


def _facts(name: str, about: dict[str, Any]) -> dict[str, Any]:
    key = about["regions"][0]["keys"] if about["external"] else None
    key = about.get("types", {}).get("", {}).get("key", key)
    return {"pipeline": name, "steps": _by_step(about), "key": key, "order": list(about["steps"])}


def _by_step(about: dict[str, Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {step: [what] for step, what in about["steps"].items()}
    for region in about["regions"]:
        for word in region["words"]:
            out[word[0]].append([word, region["keys"]])
    for id, leaves in about["queues"]:
        out[id.rpartition(".")[0]].append([id, leaves])
    for step, types in about.get("types", {}).items():
        if step:
            out.setdefault(step, []).append(types)
    return out


#: What Python says of a header or of blocks that were written by another program.
BROKEN = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, StopIteration, RecursionError)


def check_words(state: EngineState) -> None:
    """Refuse words that are no index where an index must be."""
    layout = state.layout
    used = [int(state.meta[state.queue_at(q) + 1]) for q in range(len(layout.queues))]
    ends: dict[str, int] = {}
    for q, queue in enumerate(layout.queues):
        free, _, waiting = (int(v) for v in state.meta[state.queue_at(q) : state.queue_at(q) + 3])
        if not (0 <= used[q] <= len(state.cells[q][0]) and -1 <= free < used[q] and 0 <= waiting <= used[q]):
            raise DamagedState(f"queue {queue.id} has no such cells")
        links, *leaves = (cells[: used[q]] for cells in state.cells[q])
        _within(links, -1, used[q], f"queue {queue.id}: a link")
        for t, column in zip(queue.leaves, leaves, strict=True):
            _coded(state, t, column, f"queue {queue.id}")
        ends |= {f"{queue.id}.head": used[q], f"{queue.id}.tail": used[q], f"{queue.id}.length": used[q] + 1}
    for r, region in enumerate(layout.regions):
        rows = int(state.meta[state.region_at(r)])
        if not 0 <= rows * max(region.width, 1) <= max(len(state.rows[r]), rows) or len(state.keys[r]) < rows * len(
            region.keys
        ):
            raise DamagedState("it has not as many rows as it says")
        if not 0 <= state.dense[r] <= rows:
            raise DamagedState("keys that are row numbers have no rows")
        sizes = {(w.step, w.label): w.count for w in region.words}
        objects = {o.at for o in state.objects if o.region == r}
        at = 0
        for word in region.words:
            where = f"step {word.step!r}: {word.label}"
            for j in range(at, at + word.count):
                if j in objects:
                    continue
                column = state.rows[r][j : rows * region.width : region.width]
                if word.label in ends:
                    _within(column, 0 if word.label.endswith(".length") else -1, ends[word.label], where)
                elif word.label == "at" and (word.step, "ring0") in sizes:
                    _within(column, 0, sizes[word.step, "ring0"], where)
                else:
                    _coded(state, word.type, column, where)
            at += word.count
        for j, t in enumerate(region.keys):
            _coded(state, t, state.keys[r][j : rows * len(region.keys) : len(region.keys)], "a key")


def _coded(state: EngineState, t: Type, column: Any, where: str) -> None:
    """The numbers of texts and members stand for something."""
    if t == STR:
        _within(column, 0, max(len(state.strings), 1), where)  # a place that was never used is 0
    elif isinstance(t, EnumType):
        _within(column, 0, len(t.members), where)
    elif t == BOOL:
        _within(column, 0, 2, where)


def _within(column: Any, low: int, stop: int, where: str) -> None:
    import numpy as np  # not before a state is loaded

    array = np.asarray(column, dtype=np.int64)
    if len(array) and not (array.min() >= low and array.max() < stop):
        raise DamagedState(f"{where} is out of its bounds")
