"""Which files an input is: a file, a folder, a pattern, or several of these, in the order in which they are read.

Files of a folder come in the order of their names; folders like ``month=2`` say the value of a column, and whole
numbers among them come in the order of numbers (``month=2`` before ``month=10``).  Names that begin with ``_`` or ``.``
are no data.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pellucid.errors import DataError
from pellucid.internal.data.bind import some

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WILD = re.compile(r"[*?\[]")
_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class Found:
    """A file, and what the names of its folders say of its rows."""

    path: str
    parts: Mapping[str, str] = field(default_factory=dict)


def is_several(path: str) -> bool:
    """Whether a path names files, not one file.

    >>> is_several("/"), is_several("no such/2013-*.csv"), is_several("events.csv")
    (True, True, False)
    """
    return os.path.isdir(path) or (not os.path.lexists(path) and _WILD.search(path) is not None)


def files_of(path: str) -> list[Found]:
    """The files that a path names, in order."""
    if os.path.isdir(path):
        return _in_folder(path, path)
    if not is_several(path):
        return [Found(path)]
    steps = path.split(os.sep)
    wild = next(i for i, step in enumerate(steps) if _WILD.search(step))
    base = os.sep.join(steps[:wild]) or (os.sep if path.startswith(os.sep) else "")
    matches = glob.glob(path, recursive=True)
    out: list[Found] = []
    parts: dict[str, dict[str, str]] = {}
    for match in matches:
        if os.path.isdir(match):
            out += _in_folder(match, base)
            continue
        folder = os.path.dirname(match)
        if folder not in parts:
            parts[folder] = _parts(match, base)
        out.append(Found(match, parts[folder]))
    if not out:
        raise DataError(f"{path}: no file matches")
    if len(out) > 1:
        for found in out:
            refuse_no_file(found.path)
    return _ordered(list({found.path: found for found in out}.values()), base)


def _in_folder(folder: str, base: str) -> list[Found]:
    if os.path.isdir(os.path.join(folder, "_manifest")):
        raise DataError(
            f"{folder}: is written by a sink, whose manifests say which files count: read it with "
            "pellucid.sinks.parquet(…).read(), or give --on spark"
        )
    out = []
    for root, folders, files in os.walk(folder):
        parts: dict[str, str] | None = None  # looked up once for all files of a folder: there may be many
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in files:
            if not name.startswith(("_", ".")):
                path = os.path.join(root, name)
                refuse_no_file(path)
                parts = _parts(path, base) if parts is None else parts
                out.append(Found(path, parts))
    if not out:
        raise DataError(f"{folder}: is a folder without files: expected one or more to read")
    return _ordered(out, base)


_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def refuse_no_file(path: str) -> None:
    """Refuse what is no file where files are read one after the other: a pipe would be waited for, maybe for ever.

    >>> refuse_no_file("/dev/null")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: /dev/null: is a device, no file: take it out of the folder, or give it alone
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except FileNotFoundError:
        refuse_dead_link(path)
        return
    except OSError:
        return  # said when it is read
    if kind is not None:
        raise DataError(f"{path}: is {kind}, no file: take it out of the folder, or give it alone")


def refuse_dead_link(path: str) -> None:
    """Say of a file that is not there that it is a link, if it is one.

    >>> import tempfile
    >>> link = os.path.join(tempfile.mkdtemp(), "x.csv")
    >>> os.symlink("gone.csv", link)
    >>> refuse_dead_link(link)
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: ...x.csv: is a link to gone.csv, which does not exist: bring that file back, or take the
    link away
    """
    if os.path.islink(path):
        target = os.readlink(path)
        raise DataError(
            f"{path}: is a link to {target}, which does not exist: bring that file back, or take the link away"
        )


def _parts(path: str, base: str) -> dict[str, str]:
    """The columns that folders say.

    >>> _parts("data/year=2013/month=1/x.parquet", "data")
    {'year': '2013', 'month': '1'}
    >>> _parts("data/who=%FF/x.parquet", "data")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: data/who=%FF/x.parquet: the folder 'who=%FF' says a value that is no UTF-8: rename it
    """
    out: dict[str, str] = {}
    for step in os.path.relpath(os.path.dirname(path) or ".", base or ".").split(os.sep):
        name, equals, value = step.partition("=")
        if not equals:
            continue
        try:
            name, value = (unquote(part, errors="strict") for part in (name, value))
            (name + value).encode()
        except UnicodeError:
            shown = path.encode("utf-8", "backslashreplace").decode()
            raise DataError(f"{shown}: the folder {step!r} says a value that is no UTF-8: rename it") from None
        if name in out:
            raise DataError(f"{path}: its folders say {name!r} twice, {out[name]!r} and {value!r}: rename one")
        out[name] = value
    return out


def _ordered(found: list[Found], base: str) -> list[Found]:
    whole = {
        name
        for name in {name for one in found for name in one.parts}
        if all(_WHOLE.fullmatch(one.parts.get(name, "0")) for one in found)
    }

    def by_step(step: str) -> tuple[int, int, str]:
        name, equals, value = step.partition("=")
        number = int(value) if equals and unquote(name) in whole and _WHOLE.fullmatch(value) else None
        return (0, number, "") if number is not None else (1, 0, step)

    folders: dict[str, list[tuple[int, int, str]]] = {}

    def place(one: Found) -> list[tuple[int, int, str]]:
        folder, name = os.path.split(one.path)
        if folder not in folders:
            steps = os.path.relpath(folder or ".", base or ".").split(os.sep)
            folders[folder] = [by_step(step) for step in steps if step != "."]
        return [*folders[folder], by_step(name)]

    return sorted(found, key=place)


def parts_of(found: Sequence[Found]) -> dict[str, Any]:
    """The columns that the folders of some files say, and their Arrow types: int32 where all are such numbers, else
    text.

    >>> parts_of([Found("a", {"year": "2013", "who": "x"}), Found("b", {"year": "2014", "who": "7"})])
    {'year': DataType(int32), 'who': DataType(string)}
    """
    import pyarrow as pa

    names = list(found[0].parts)
    for one in found:
        if list(one.parts) != names:
            raise DataError(
                f"{one.path}: its folders say {some(list(one.parts)) or 'nothing'}, but those of {found[0].path} "
                f"{some(names) or 'nothing'}: all must say the same columns"
            )
    small = pa.int32(), -(2**31), 2**31
    out = {}
    for name in names:
        values = [one.parts[name] for one in found if one.parts[name] != _NULL]
        fits = all(_WHOLE.fullmatch(v) and small[1] <= int(v) < small[2] for v in values) and bool(values)
        out[name] = small[0] if fits else pa.string()
    return out


def part_value(one: Found, name: str, kind: Any) -> Any:
    """The value of such a column in a file; None for the folder of what has none."""
    import pyarrow as pa

    text = one.parts[name]
    return None if text == _NULL else int(text) if pa.types.is_integer(kind) else text
