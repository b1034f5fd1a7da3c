"""Where a step's words live in a kernel: in rows of a region, in local variables, or in a window's inner run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.engine.kernel.layout import Region, Word, is_float
from pellucid.expr.types import BOOL, Type
from pellucid.graph.model import Node

if TYPE_CHECKING:
    from pellucid.engine.kernel.emit import Emitter


class Storage:
    """Where a step's words live: in rows of a region, or in locals of a window's inner run."""

    def __init__(self, e: Emitter, node: Node, region: int | None) -> None:
        self.e, self.node, self.region = e, node, region

    def word(self, label: str, t: Type, start: Any) -> StateCell:
        """One word of state."""
        e = self.e
        if self.region is None:
            name = e.w.fresh("s")
            e.resets.append((name, e.literal(t, start) if isinstance(start, (bool, int, float)) else e.object(start)))
            return StateCell(e, t, name, None)
        region = e.layout.regions[self.region]
        at = region.add(Word(self.node.id, label, t, start))
        if not region.keys:
            name = f"s{self.region}_{at}"
            e.locals_.append((name, self.region, at, t))
            return StateCell(e, t, name, None)
        return StateCell(e, t, f"{array_of(self.region, t)}", at, region)

    def ring(self, label: str, t: Type, size: int) -> Ring:
        """A row of words that is addressed by position."""
        e = self.e
        if self.region is None:
            name = e.w.fresh("Z")
            e.scratch.append((name, t, size))
            return Ring(name, t, 0, None)
        region = e.layout.regions[self.region]
        at = region.add(Word(self.node.id, label, t, 0, size))
        return Ring(array_of(self.region, t), t, at, region if region.keys else None)


def array_of(region: int, t: Type) -> str:
    return f"S{'F' if is_float(t) else 'I'}{region}"


@dataclass
class StateCell:
    e: Emitter
    t: Type
    name: str
    at: int | None
    region: Region | None = None

    def place(self, key: str | None) -> str:
        if self.at is None:
            return self.name
        assert self.region is not None
        return f"{self.name}[{key} * {{W{self.region_number()}}} + {self.at}]"

    def region_number(self) -> int:
        assert self.region is not None
        return self.e.layout.regions.index(self.region)

    def load(self, key: str | None) -> str:
        """The word's value, as an expression."""
        place = self.place(key)
        return f"({place} != 0)" if self.t == BOOL and self.at is not None else place

    def store(self, key: str | None, value: str) -> None:
        """Set the word."""
        if self.t == BOOL and self.at is not None:
            value = f"int({value})"
        self.e.w.line(f"{self.place(key)} = {value}")


@dataclass
class Ring:
    array: str
    t: Type
    at: int
    region: Region | None

    def place(self, e: Emitter, key: str | None, index: str) -> str:
        base = f"{key} * {{W{e.layout.regions.index(self.region)}}} + " if self.region is not None else ""
        return f"{self.array}[{base}{self.at} + {index}]"

    def load(self, e: Emitter, key: str | None, index: str) -> str:
        place = self.place(e, key, index)
        return f"({place} != 0)" if self.t == BOOL else place

    def store(self, e: Emitter, key: str | None, index: str, value: str) -> None:
        e.w.line(f"{self.place(e, key, index)} = {f'int({value})' if self.t == BOOL else value}")
