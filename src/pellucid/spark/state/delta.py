"""What changed between two snapshots, in blocks of 64 bytes.

A saved state has parts (rows, keys, texts, …), each of which grows at its end; so two states are compared part by
part, and a key that is added moves nothing.  The comparison reads both once, in slices that fit the caches.
"""

from __future__ import annotations

from typing import Any

from pellucid.internal.base.container import Buffer, parts

BLOCK = 64
_SLICE = 1 << 20  # bytes compared at once


def split(data: Buffer) -> list[memoryview]:
    """A saved state in its parts; anything else is one part."""
    view, start, out = memoryview(data).cast("B"), 0, []
    for stop in parts(view):
        out.append(view[start:stop])
        start = stop
    return out


def changes(old: Buffer, new: Buffer, limit: int) -> tuple[list[list[int]], list[Any]] | None:
    """How to make ``new`` from ``old``: for each part its numbers, and the pieces to store; None beyond ``limit``
    bytes.

    >>> old = bytes(640)
    >>> new = old[:100] + b"!" + old[101:] + b"more"
    >>> about, pieces = changes(old, new, 1000)
    >>> about, sum(len(bytes(p)) for p in pieces)
    ([[10, 1, 4]], 72)
    >>> bytes(patch([bytearray(old)], about, b"".join(pieces))[0]) == new
    True
    """
    import numpy as np

    before, after = split(old), split(new)
    if len(before) != len(after):
        before, after = [memoryview(old).cast("B")], [memoryview(new).cast("B")]
    about: list[list[int]] = []
    pieces: list[Any] = []
    size = 0
    for a, b in zip(before, after, strict=True):
        blocks = min(len(a), len(b)) // BLOCK
        found = []
        x, y = (np.frombuffer(v[: blocks * BLOCK], dtype=np.uint64) for v in (a, b))
        step = _SLICE // 8
        for start in range(0, blocks * BLOCK // 8, step):
            # Eight words are a block: their eight answers, read as one word, are zero where all are equal.
            differ = (x[start : start + step] != y[start : start + step]).view(np.uint64)
            found.append(np.flatnonzero(differ) + start // (BLOCK // 8))
        where: Any = np.concatenate(found).astype(np.uint32) if found else np.zeros(0, dtype=np.uint32)
        tail = b[blocks * BLOCK :]
        size += len(where) * (BLOCK + 4) + len(tail)
        if size > limit:
            return None
        about.append([blocks, len(where), len(tail)])
        changed: Any = y.reshape(-1, BLOCK // 8)[where]
        pieces += [memoryview(where).cast("B"), memoryview(changed).cast("B"), tail] if len(where) else [tail]
    return about, pieces


def patch(old: list[bytearray], about: list[list[int]], body: Buffer) -> list[bytearray]:
    """The parts after the changes; the old ones are changed in place, so that a chain costs no more than its
    changes."""
    import numpy as np

    view, at = memoryview(body).cast("B"), 0
    if len(old) != len(about):
        whole = bytearray().join(old)  # the two states had other parts, and were compared as a whole
        old = [whole] if len(about) == 1 else [bytearray(part) for part in split(whole)]
    for part, (blocks, count, tail) in zip(old, about, strict=True):
        del part[blocks * BLOCK :]
        if count:
            where = np.frombuffer(view[at : at + 4 * count], dtype=np.uint32)
            at += 4 * count
            words = np.frombuffer(part, dtype=np.uint64).reshape(-1, BLOCK // 8)
            words[where] = np.frombuffer(view[at : at + BLOCK * count], dtype=np.uint64).reshape(-1, BLOCK // 8)
            del words  # a bytearray that is looked at cannot grow
            at += BLOCK * count
        part += view[at : at + tail]
        at += tail
    return old
