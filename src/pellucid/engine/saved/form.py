"""The saved form of a state: one block of bytes that says itself what it holds.

A header (JSON) describes every region, word and queue by the ids of the steps; blocks of raw words follow, each
at a multiple of 64 bytes; a checksum covers everything.  The texts are two blocks (lengths in characters, and
one long UTF-8 text), because a million texts in JSON take longer than all the rest.  States that are any Python object
come last, each step's in a block (`values`).

The formats: 3 is this one.  2 was the same, except that a pipeline with states that are Python objects had one block in
place of all words, made by pickle; reading that may run code, so it is refused, and without such states 2 is read.

What is saved is described so exactly that a strict `load` can compare descriptions, and `carry` can find each word
again in a pipeline that has changed.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pellucid.engine.kernel.layout import Layout
from pellucid.errors import StateError
from pellucid.expr.types import EnumType, Type

__all__ = [
    "FORMAT",
    "Buffer",
    "Damaged",
    "Saved",
    "compare",
    "describe",
    "mark",
    "pack",
    "pack_texts",
    "parts",
    "unpack",
    "unpack_texts",
]

FORMAT = 3
MAGIC = b"PELLUCID STATE\n"
_ALIGN = 64
_NEAR = 4096  # so far behind something else a saved state is looked for
_START = len(MAGIC) + 8  # checksum, length of the header

Buffer: TypeAlias = "bytes | bytearray | memoryview"


class Damaged(StateError):  # noqa: N818 - reads as what it is
    """The bytes are not those that were saved."""

    def __init__(self, what: object) -> None:
        super().__init__(f"the saved state is damaged ({what}): use an older one")


@dataclass(frozen=True)
class Saved:
    """A saved state taken apart, with nothing copied: the blocks are views of the bytes."""

    header: dict[str, Any]
    blocks: list[memoryview]


def pack(header: dict[str, Any], blocks: Sequence[Any], *, about: str = "{}") -> bytes:
    """Header and blocks as bytes; every block is copied once.  ``about`` is JSON already: it is long, and always the
    same.

    >>> unpack(pack({"pushed": 3}, [b"abc", b""])).header["pushed"]
    3
    """
    views = [memoryview(b).cast("B") if len(b) else memoryview(b"") for b in blocks]
    text = json.dumps({"format": FORMAT} | header | {"blocks": [len(v) for v in views]})
    head = f'{text[:-1]}, "about": {about}}}'.encode()
    head += b" " * (-(_START + len(head)) % _ALIGN)
    pieces: list[Any] = [struct.pack("<I", len(head)), head]
    for view in views:
        pieces += [view, bytes(-len(view) % _ALIGN)]
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return b"".join([MAGIC, struct.pack("<I", checksum), *pieces])


def unpack(data: Buffer) -> Saved:
    """The header and the blocks, after the checksum was found right."""
    view = memoryview(data).cast("B")
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise StateError("this is no saved state of Pellucid: expected what save() returned")
    rest = view[len(MAGIC) + 4 :]
    if len(rest) < 4 or zlib.crc32(rest) != struct.unpack_from("<I", view, len(MAGIC))[0]:
        raise Damaged("its checksum is wrong")
    try:
        header = _header(view)
        places = _places(view, header)
        form, pickled = header["format"], header.get("objects", False)
        if places and places[-1][1] > len(view):
            raise ValueError("its blocks are longer than it is")
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise Damaged(f"its header cannot be read: {error}") from None
    if form == 2 and pickled:
        raise StateError(
            "the saved state was written by an older version of Pellucid with pickle, which could run code when it is "
            "read, so this version does not read it: go on with the version that saved it, or start anew"
        )
    if form not in (2, FORMAT):
        raise StateError(
            f"the saved state has format {form}, this version of Pellucid reads {FORMAT}: "
            "go on with the version that saved it, or start anew"
        )
    return Saved(header, [view[start:stop] for start, stop in places])


def _header(view: memoryview) -> dict[str, Any]:
    (size,) = struct.unpack_from("<I", view, len(MAGIC) + 4)
    header: dict[str, Any] = json.loads(bytes(view[_START : _START + size]))
    return header


def _places(view: memoryview, header: dict[str, Any]) -> list[tuple[int, int]]:
    (size,) = struct.unpack_from("<I", view, len(MAGIC) + 4)
    out, at = [], _START + size
    for length in header["blocks"]:
        if not isinstance(length, int) or length < 0:
            raise ValueError("a block has no length")
        out.append((at, at + length))
        at += _padded(length)
    return out


def parts(data: Buffer) -> list[int]:
    """Where the parts of a saved state end: two states are compared part by part, since each grows at its end.

    Saved states are found also a little way behind something else, and behind one another.  Anything else is one part.

    >>> data = pack({}, [bytes(100), bytes(5)])
    >>> [stop - len(data) for stop in parts(data)], parts(b"something else")
    ([-320, -192, -64, 0, 0], [14])
    >>> [stop - len(data) for stop in parts(b"head" + data + b"tail")]
    [-316, -188, -60, 4, 8]
    """
    view = memoryview(data).cast("B")
    stops: list[int] = []
    at = 0
    while (found := bytes(view[at : at + _NEAR]).find(MAGIC)) >= 0:
        try:
            start = at + found
            places = _places(view[start:], _header(view[start:]))
            size = _padded(places[-1][1])
        except (ValueError, KeyError, TypeError, IndexError, struct.error):
            break  # it only looks like one
        if start + size > len(view):
            break
        stops += [start, *[start + begin for begin, _ in places], start + size]  # empty parts count: they may grow
        at = start + size
    return [*stops, len(view)]


def _padded(size: int) -> int:
    return size + -size % _ALIGN


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


def describe(layout: Layout) -> dict[str, Any]:
    """What the state of a pipeline is made of, as plain data (the same in any process).

    ``steps`` has for every step that remembers something its kind, and for a window what runs inside, since what a
    window keeps besides its events is of use to the same sub-pipeline only.

    >>> from pellucid import pipeline
    >>> engine = pipeline(lambda x: x.trim(2, id="cut"), x=int).engine()
    >>> about = describe(engine.state.layout)
    >>> about["regions"], about["steps"]
    ([{'keys': [], 'words': [['cut', 'count', 'int', 1]]}], {'cut': ['trim', '']})
    """
    graph = layout.graph
    objects = {n.id for n in graph.nodes if n.kind == "task" and n.state is None}
    regions = []
    for region in layout.regions:
        words = [[w.step, w.label, "object" if w.step in objects else mark(w.type), w.count] for w in region.words]
        regions.append({"keys": [mark(t) for t in region.keys], "words": words})
    remembering = dict.fromkeys(w.step for region in layout.regions for w in region.words)
    nodes = [graph[step] for step in remembering]
    return {
        "external": layout.external is not None,
        "regions": regions,
        "queues": [[q.id, [mark(t) for t in q.leaves]] for q in layout.queues],
        "steps": {n.id: [n.kind, n.sub.shape if n.sub is not None else ""] for n in nodes},
    }


def mark(t: Type) -> str:
    """A leaf's type, with the names of an enum's members: their numbers are what is stored."""
    if isinstance(t, EnumType):
        return f"{t}{{{','.join(m.name for m in t.members)}}}"
    return str(t)


def compare(header: dict[str, Any], layout: Layout) -> None:
    """Refuse a state of another pipeline, with the steps that differ."""
    found, wanted, name = header["about"], describe(layout), layout.graph.name
    if found == wanted:
        return
    before, now = _by_step(found), _by_step(wanted)
    listed = {
        "gone": sorted(before.keys() - now.keys()),
        "new": sorted(now.keys() - before.keys()),
        "changed": sorted(step for step in before.keys() & now.keys() if before[step] != now[step]),
    }
    text = "; ".join(f"{what}: {', '.join(steps)}" for what, steps in listed.items() if steps)
    if not text:
        same_key = (
            found["external"] == wanted["external"] and found["regions"][0]["keys"] == wanted["regions"][0]["keys"]
        )
        text = "their order" if same_key else "the type of the key that comes with the data"
    was = header["pipeline"]
    which = f"{was!r} as it was before a change" if was == name else f"{was!r}, not of {name!r}"
    raise StateError(f"the saved state is of {which}; steps that differ: {text}")


def _by_step(about: dict[str, Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {step: [what] for step, what in about["steps"].items()}
    for region in about["regions"]:
        for word in region["words"]:
            out[word[0]].append([word, region["keys"]])
    for id, leaves in about["queues"]:
        out[id.rpartition(".")[0]].append([id, leaves])
    return out
