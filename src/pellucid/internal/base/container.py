"""One form for all that is saved: what a state, a snapshot of a task and a snapshot of a bucket are inside.

::

    PELLUCID, version, checksum of the head, checksum of the blocks, length of the head  (8 bytes, 4 numbers of 4 bytes)
    the head: JSON, padded so that the blocks begin at a multiple of 64 bytes
    the blocks, each at a multiple of 64 bytes; the head has their lengths ("blocks")

A head can be looked at without what follows.  A block that is a container itself has its own checksum: a second one
would only take time.

The version is one for everything that is saved.  Before 4 there were three forms, which are still read: a state (3, and
2 where nothing in it was pickled), a task's snapshot (2) and a bucket's (1).

>>> data = pack("state", {"pushed": 3}, [b"abc", b""])
>>> found = unpack(data, "state")
>>> found.head["pushed"], [bytes(block) for block in found.blocks], len(data) % 64
(3, [b'abc', b''], 0)
>>> unpack(data[:-1] + b"!", "state")
Traceback (most recent call last):
pellucid.internal.base.container.Broken: its checksum is wrong
>>> unpack(data, "bucket")
Traceback (most recent call last):
pellucid.internal.base.container.Broken: it holds a state

State identity: a run is known by facts (the pipeline step by step, inputs, key, …), and resumes only if they are the
same.

>>> was = {"pipeline": "total", "steps": {"sum": "a1", "cut": "b2"}, "key": "user"}
>>> refuse_other("--state run", was, was, {"key": "--key"}, "Go back")
>>> refuse_other("--state run", was, {**was, "key": None}, {"key": "--key"}, "Go back")
Traceback (most recent call last):
pellucid.errors.StateError: --state run: belongs to another run: --key was user when it began, and is not given now. Go
back
>>> refuse_other("--state run", was, {**was, "steps": {"sum": "a2"}}, {}, "Go back")
Traceback (most recent call last):
pellucid.errors.StateError: --state run: belongs to another run: it is of 'total' as it was before a change; steps that
differ: gone: cut; changed: sum. Go back
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pellucid.errors import StateError

VERSION = 4
MAGIC = b"PELLUCID"
_START = struct.Struct("<8sIIII")
_PAIR = struct.Struct("<II")
_BEFORE = {"state": b"PELLUCID STATE\n", "task": b"PELLUCID EPOCH\n\0", "bucket": b"PELLUCID SNAPSHOT\n"}
_READ = {"state": (2, 3), "task": (2,), "bucket": (1,)}
_ALIGN = 64
_NEAR = 4096  # so far behind something else a container is looked for
#: Enough to know how long the head is, in every version.
START = 32

Buffer: TypeAlias = "bytes | bytearray | memoryview"


class Broken(ValueError):  # noqa: N818 - reads as what it is
    """The bytes are not those that were written."""


class OtherVersion(ValueError):  # noqa: N818 - reads as what it is
    """The bytes were written by a version of Pellucid whose form this one does not read; its text is the version."""


def refused(place: str, found: object) -> str:
    """The one line about what another version wrote.

    >>> refused("run.json", 7).partition(": go on")[0]
    'run.json: was written by another version of Pellucid (format 7, this one has 4)'
    """
    return (
        f"{place}: was written by another version of Pellucid (format {found}, this one has {VERSION}): go on with "
        "that version, or start again in another folder"
    )


def checksum(parts: Iterable[Any], start: int = 0) -> int:
    """Of pieces of memory one after another."""
    for part in parts:
        start = zlib.crc32(part, start)
    return start


# ---------------------------------------------------------------- writing


def pieces(
    kind: str, fields: dict[str, Any], blocks: Sequence[Any], *, also: str = "{}", checked: bool = True
) -> list[Any]:
    """A container as pieces of memory, with no block copied.

    ``also`` is JSON already (the field ``about``): it is long, and always the same.  Without ``checked`` the blocks
    have checksums of their own.
    """
    views = [memoryview(b).cast("B") if len(b) else memoryview(b"") for b in blocks]
    about = {"kind": kind, **fields, "blocks": [len(v) for v in views], "checked": checked}
    text = f'{json.dumps(about)[:-1]}, "about": {also}}}'.encode() if also != "{}" else json.dumps(about).encode()
    text += b" " * (-(_START.size + len(text)) % _ALIGN)
    body = [piece for view in views for piece in (view, bytes(-len(view) % _ALIGN))]
    start = _START.pack(MAGIC, VERSION, zlib.crc32(text, VERSION), checksum(body) if checked else 0, len(text))
    return [start, text, *body]


def pack(kind: str, fields: dict[str, Any], blocks: Sequence[Any], *, also: str = "{}") -> bytes:
    """The same as bytes; every block is copied once."""
    return b"".join(pieces(kind, fields, blocks, also=also))


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class Head:
    """What a container says of itself: its fields, where its blocks are, and which bytes have which checksum."""

    fields: dict[str, Any]
    places: list[tuple[int, int]]  # of the blocks
    end: int  # with what fills up the last one
    checked: tuple[int, int]
    check: int | None  # None: the blocks know better


@dataclass(frozen=True)
class Container:
    """One taken apart, with nothing copied: the blocks are views of the bytes."""

    head: dict[str, Any]
    blocks: list[memoryview]


def is_one(data: Buffer) -> bool:
    """Whether this begins as a container does."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def _start(view: memoryview) -> tuple[str | None, int, int, int, int, int]:
    """Of which of the earlier forms it is, where the head begins and ends, its checksum, that of the blocks, and the
    version."""
    if not is_one(view):
        raise Broken("it does not begin as it must")
    try:
        for kind, magic in _BEFORE.items():
            if bytes(view[: len(magic)]) == magic:
                at = len(magic) + _PAIR.size
                first, second = _PAIR.unpack_from(view, len(magic))
                return (kind, at, at + second, 0, first, 0) if kind == "state" else (kind, at, at + first, second, 0, 0)
        _, version, check, body, size = _START.unpack_from(view)
    except struct.error:
        raise Broken("it is cut") from None
    return None, _START.size, _START.size + size, check, body, version


def front(data: Buffer) -> int:
    """How many bytes there are up to the end of the head, given the first ones (`START`)."""
    return _start(memoryview(data).cast("B"))[2]


def head(data: Buffer, kind: str) -> Head:
    """The head, checked; of the blocks only where they are."""
    view = memoryview(data).cast("B")
    before, at, begin, check, body, version = _start(view)
    if len(view) < begin or (before != "state" and zlib.crc32(view[at:begin], version) != check):
        raise Broken("its head is torn" if len(view) < begin else "the checksum of its head is wrong")
    if before is None and version != VERSION:  # it is what that version wrote: its number is part of the checksum
        raise OtherVersion(version)
    try:
        fields = json.loads(bytes(view[at:begin]))
        if (before or fields["kind"]) != kind:
            raise Broken(f"it holds a {before or fields['kind']}")
        if before is not None and fields["format"] not in _READ[before]:
            raise OtherVersion(fields["format"])
        if before == "bucket":  # one block, and nothing is filled up
            stop = begin + fields["body"]
            return Head(fields, [(begin, stop)], stop, (begin, stop), fields["body_check"])
        lengths = [fields["size"]] if before == "task" else fields["blocks"]
        places = []
        end = begin
        for size in lengths:
            if not isinstance(size, int) or size < 0:
                raise ValueError("a block has no length")
            places.append((end, end + size))
            end += size + -size % _ALIGN
        if before == "task":
            return Head(fields, places, end, places[0], fields["crc"])
        since = len(_BEFORE["state"]) + 4 if before else begin  # a state had one checksum, over head and blocks
        return Head(fields, places, end, (since, end), body if before or fields["checked"] else None)
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Broken(f"its head cannot be read: {error!r}") from None


def unpack(data: Buffer, kind: str) -> Container:
    """Head and blocks, after the checksums were found right."""
    view = memoryview(data).cast("B")
    found = head(view, kind)
    if found.end != len(view):
        raise Broken(f"expected {found.end:,} bytes, found {len(view):,}")
    if found.check is not None and zlib.crc32(view[slice(*found.checked)]) != found.check:
        raise Broken("its checksum is wrong")
    return Container(found.fields, [view[start:stop] for start, stop in found.places])


def parts(data: Buffer) -> list[int]:
    """Where the parts of saved states end: two states are compared part by part, since each grows at its end.

    They are found also a little way behind something else, and behind one another.  Anything else is one part.

    >>> data = pack("state", {}, [bytes(100), bytes(5)])
    >>> [stop - len(data) for stop in parts(data)], parts(b"something else")
    ([-320, -192, -64, 0, 0], [14])
    >>> [stop - len(data) for stop in parts(b"head" + data + b"tail")]
    [-316, -188, -60, 4, 8]
    """
    view = memoryview(data).cast("B")
    stops: list[int] = []
    at = 0
    while (found := bytes(view[at : at + _NEAR]).find(MAGIC)) >= 0:
        start = at + found
        try:
            one = head(view[start:], "state")
        except (Broken, OtherVersion):
            break  # it only looks like one
        if start + one.end > len(view):
            break
        stops += [
            start,
            *[start + begin for begin, _ in one.places],
            start + one.end,
        ]  # empty parts count: they may grow
        at = start + one.end
    return [*stops, len(view)]


def refuse_other(
    place: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    words: Mapping[str, str],
    advice: str,
    *,
    why: Callable[[str], str] = lambda step: "",
    also: Callable[[str], str] = lambda step: "",
    accept: Callable[[list[str]], str] = lambda steps: "",
) -> None:
    """Refuse what belongs to another run: other steps, or another of the facts that ``words`` has a word for.

    ``why`` says what differs in a step; if it can for all that differ, ``accept`` says how to resume with them.
    ``also`` says what else differs, with which a run cannot resume.
    """
    was, new = before.get("steps", {}), now.get("steps", {})
    if was != new:
        changed = [step for step in was if was[step] != new.get(step)]
        listed = {
            "gone": sorted(was.keys() - new.keys()),
            "new": sorted(new.keys() - was.keys()),
            "changed": sorted(step + (why(step) or also(step)) for step in changed if step in new),
        }
        text = "; ".join(f"{what}: {', '.join(steps)}" for what, steps in listed.items() if steps)
        if was.keys() == new.keys() and all(map(why, changed)) and not any(map(also, changed)):
            advice += accept(changed)
        other = (
            f", not of {now['pipeline']!r}" if before["pipeline"] != now["pipeline"] else " as it was before a change"
        )
        raise _other(place, f"it is of {before['pipeline']!r}{other}; steps that differ: {text}", advice)
    for name, word in words.items():
        if before.get(name) != now.get(name):
            changes = f"{word} was {_shown(before.get(name))} when it began, and is {_shown(now.get(name))} now"
            raise _other(place, changes, advice)


def other_columns(was: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    """Which columns of a step's events are of another type now; nothing where it was not written down.

    >>> other_columns({"at": "datetime", "fee": "int"}, {"at": "datetime", "fee": "int | None"})
    ' (fee was int, and is now int | None)'
    """
    if was is None or now is None:
        return ""
    if list(was) == list(now) == [""]:
        return f" (was {was['']}, and is now {now['']})" if was != now else ""
    changes = [f"{path or 'its value'} is gone" for path in was if path not in now]
    changes += [f"{path or 'its value'} is new" for path in now if path not in was]
    other = [path for path in was if now.get(path, was[path]) != was[path]]
    changes += [f"{path} was {was[path]}, and is now {now[path]}" for path in other]
    return f" ({', '.join(changes[:3])}{', …' if len(changes) > 3 else ''})" if changes else ""


def _other(place: str, what: str, advice: str) -> StateError:
    return StateError(f"{place}: belongs to another run: {what}. {advice}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(v[0] if isinstance(v, list) and v else v) for v in value) or "empty"
    return "not given" if value is None else str(value)
