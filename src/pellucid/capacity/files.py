"""Topologies in files: TOML in, TOML out, numbers as they are written.

::

    name = "orders"
    routing = "all"                  # "one" unless told; likewise semantics = "urgent", observe = "any"

    [spouts.orders]
    gap = 0.8                        # or "4/5"

    [bolts.price]
    time = 1
    hears = ["orders"]
    workers = 2                      # or "any"; 1 unless told
    ratio = "3/2"                    # 1 unless told
    queue = "per worker"             # "shared" unless told
    initial = 4                      # 0 unless told

What is wrong is told with the file, the line and the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.capacity.topology import ANY, Bolt, Spout, Topology
from pellucid.errors import DataError, UsageError, nearest

_TOP = ("name", "routing", "semantics", "observe", "spouts", "bolts")
_SPOUT = ("gap",)
_BOLT = ("time", "hears", "workers", "ratio", "queue", "initial")


def read_topology(path: str | Path) -> Topology:
    """A topology from a TOML file; see the module's docstring for what stands in it."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text in UTF-8: {error.reason} at byte {error.start}") from None
    return parse_topology(text, str(path))


def parse_topology(text: str, name: str = "topology") -> Topology:
    """A topology from the text of such a file, which goes by this name in messages.

    >>> t = parse_topology('''
    ... [spouts.S1]
    ... gap = 0.8
    ... [bolts.B1]
    ... time = 1
    ... hears = ["S1"]
    ... workers = "any"
    ... ''')
    >>> t.spouts["S1"].gap, t.bolts["B1"].workers
    (Fraction(4, 5), ANY)
    >>> parse_topology('[spouts.S1]\\ngap = 0', "queues.toml")
    Traceback (most recent call last):
        ...
    pellucid.errors.DataError: queues.toml, line 2, [spouts.S1]: the gap of a spout: 0 is not above 0.
    """
    try:
        found = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: no TOML: {error}") from None
    reader = _Reader(text, name)
    reader.fields(found, (), _TOP)
    spouts = {s: reader.spout(s, given) for s, given in reader.tables(found, "spouts").items()}
    bolts = {b: reader.bolt(b, given) for b, given in reader.tables(found, "bolts").items()}
    if not bolts:
        raise DataError(f"{name}: no bolts: a table such as [bolts.B1] with time and hears describes one")
    words = {key: found[key] for key in ("name", "routing", "semantics", "observe") if key in found}
    for key, value in words.items():
        if not isinstance(value, str):
            raise reader.wrong((), key, f"{key}: expected a text, got {value!r}.")
        if key != "name":
            reader.judge((), key, lambda key=key, value=value: Topology({"S": Spout(1)}, {}, **{key: value}))
    try:
        return Topology(spouts, bolts, **{"name": Path(name).stem, **words})
    except UsageError as error:
        raise DataError(f"{name}: {error}") from None


class _Reader:
    """What stands where in a file."""

    def __init__(self, text: str, name: str) -> None:
        self.lines, self.name = text.splitlines(), name

    def wrong(self, table: tuple[str, ...], key: str, what: str) -> DataError:
        """The message with its place."""
        line = self._line(table, key)
        places = [self.name, *([f"line {line}"] if line else []), *([f"[{'.'.join(table)}]"] if table else [])]
        return DataError(f"{', '.join(places)}: {what}")

    def _line(self, table: tuple[str, ...], key: str) -> int | None:
        """The line of a field, or of its table; None where it is written in another way (as an inline table)."""
        at: tuple[str, ...] = ()
        header = None
        for number, line in enumerate(self.lines, 1):
            if found := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
                at = tuple(part.strip().strip("\"'") for part in re.findall(r'"[^"]*"|\'[^\']*\'|[^.]+', found[1]))
                header = number if at == table else header
            elif at == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return number
        return header

    def tables(self, found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """The tables below one."""
        tables = found.get(key, {})
        if not isinstance(tables, dict):
            raise self.wrong((), key, f"{key}: expected tables such as [{key}.{key[0].upper()}1], got {tables!r}.")
        for name, given in tables.items():
            if not isinstance(given, dict):
                raise self.wrong((key,), name, f"{key}.{name}: expected a table, got {given!r}.")
        return tables

    def fields(self, found: Mapping[str, Any], table: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Every field is one that is known."""
        for key in found:
            if key not in known:
                others = f": {', '.join(known)} {'is' if len(known) == 1 else 'are'}"
                raise self.wrong(table, key, f"there is no field {key}{nearest(key, known) or others}")

    def judge(self, table: tuple[str, ...], key: str, attempt: Any) -> Any:
        """What it makes; what is wrong with it is said with its place."""
        try:
            return attempt()
        except UsageError as error:
            raise self.wrong(table, key, str(error)) from None

    def spout(self, name: str, given: Mapping[str, Any]) -> Spout:
        """A spout from its table."""
        table = ("spouts", name)
        self.fields(given, table, _SPOUT)
        if "gap" not in given:
            raise self.wrong(table, "", "a spout needs a gap: the least time between two of its tuples.")
        spout: Spout = self.judge(table, "gap", lambda: Spout(given["gap"]))
        return spout

    def bolt(self, name: str, given: Mapping[str, Any]) -> Bolt:
        """A bolt from its table."""
        table = ("bolts", name)
        self.fields(given, table, _BOLT)
        for key, what in (("time", "how long a tuple takes"), ("hears", "whose tuples it gets")):
            if key not in given:
                raise self.wrong(table, "", f"a bolt needs {key}: {what}.")
        values = dict(given)
        hears = values["hears"]
        if isinstance(hears, str):
            values["hears"] = [hears]
        elif not isinstance(hears, list) or not all(isinstance(h, str) for h in hears):
            raise self.wrong(table, "hears", f"hears: expected a list of names, got {hears!r}.")
        if isinstance(values.get("workers"), str) and values["workers"].lower() == "any":
            values["workers"] = ANY
        for key in values:  # one by one, so that the message has the line
            self.judge(table, key, lambda key=key: Bolt(**{"time": 1, "hears": ["S"], key: values[key]}))
        return Bolt(**values)


def to_toml(topology: Topology) -> str:
    """A topology as the text of a file that `read_topology` reads.

    >>> from pellucid.capacity import figure_1
    >>> text = to_toml(figure_1(gap="0.8", workers={"B2": ANY}))
    >>> parse_topology(text) == figure_1(gap="0.8", workers={"B2": ANY})
    True
    """
    lines = [f"name = {_text(topology.name)}", f'routing = "{topology.routing}"', f'semantics = "{topology.semantics}"',
             f'observe = "{topology.observe}"']  # fmt: skip
    for name, spout in topology.spouts.items():
        lines += ["", f"[spouts.{_key(name)}]", f"gap = {_number(spout.gap)}"]
    for name, bolt in topology.bolts.items():
        lines += ["", f"[bolts.{_key(name)}]", f"time = {_number(bolt.time)}"]
        lines.append(f"hears = [{', '.join(map(_text, bolt.hears))}]")
        lines.append('workers = "any"' if bolt.workers is ANY else f"workers = {bolt.workers}")
        if bolt.ratio != 1:
            lines.append(f"ratio = {_number(bolt.ratio)}")
        if bolt.queue != "shared":
            lines.append(f'queue = "{bolt.queue}"')
        if bolt.initial:
            lines.append(f"initial = {bolt.initial}")
    return "\n".join(lines) + "\n"


def _number(number: Any) -> str:
    return str(number) if number.denominator == 1 else f'"{number}"'


def _text(text: str) -> str:
    return json.dumps(text)  # the escapes of JSON are those of TOML


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
