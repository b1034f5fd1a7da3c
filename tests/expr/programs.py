"""Random programs: the text of a function with branches, loops, helpers and many operators."""

from __future__ import annotations

import random
from typing import Any

from pellucid.internal.expr.types import BOOL, FLOAT, INT, Type

HEAD = """
import math

def clamp(v, low=-9, high=9):
    if v < low:
        return low
    return min(v, high)

def sign(v):
    return (v > 0) - (v < 0)

K, WEIGHTS = 5, (3, -2, 7)
"""


class Program:
    """A function ``f(a, b, c, d)`` of two ints, a float and a bool."""

    params: tuple[Type, ...] = (INT, INT, FLOAT, BOOL)

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names: dict[str, list[str]] = {"int": ["a", "b"], "float": ["c"], "bool": ["d"]}
        self.count = 0
        self.lines: list[str] = []
        self.block(self.rng.randint(2, 5), 1, 2)
        self.lines.append(f"    return {self.expr(self.rng.choice(['int', 'float', 'bool']), 3)}")
        self.text = HEAD + "\ndef f(a, b, c, d):\n" + "\n".join(self.lines)

    def function(self) -> Any:
        space: dict[str, Any] = {"__name__": "random_program"}
        exec(compile(self.text, "<program>", "exec"), space)
        return space["f"]

    def block(self, size: int, indent: int, depth: int) -> None:
        for _ in range(size):
            pad, roll = "    " * indent, self.rng.random()
            if roll < 0.5 or depth == 0:
                self.assign(pad)
            elif roll < 0.75:
                saved = {k: list(v) for k, v in self.names.items()}
                self.lines.append(f"{pad}if {self.expr('bool', 2)}:")
                self.block(self.rng.randint(1, 2), indent + 1, depth - 1)
                self.names = {k: list(v) for k, v in saved.items()}
                if self.rng.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    if self.rng.random() < 0.3:
                        self.lines.append(f"{pad}    return {self.expr('int', 2)}")
                    else:
                        self.block(1, indent + 1, depth - 1)
                self.names = saved
            elif roll < 0.85:
                self.lines.append(f"{pad}for k in WEIGHTS[:{self.rng.randint(1, 3)}]:")
                name = self.rng.choice(["a", "b"])
                self.lines.append(f"{pad}    {name} = {self.expr('int', 1)} + {name} % 100 - k")
            elif roll < 0.93:
                self.lines.append(f"{pad}if {self.expr('bool', 1)}: raise ValueError('no')")
            else:
                self.lines.append(f"{pad}{self.expr('int', 2)}")  # only for its failure

    def assign(self, pad: str) -> None:
        kind = self.rng.choice(["int", "int", "float", "bool"])
        value = self.expr(kind, 2)
        if self.rng.random() < 0.4:
            name = self.rng.choice({"int": ["a", "b"], "float": ["c"], "bool": ["d"]}[kind])
        else:
            self.count += 1
            name = f"t{self.count}"
        self.lines.append(f"{pad}{name} = {value}")
        if name not in self.names[kind]:
            self.names[kind].append(name)

    def expr(self, kind: str, depth: int) -> str:
        r = self.rng
        if depth == 0 or r.random() < 0.15:
            if r.random() < 0.65:
                return r.choice(self.names[kind])
            return r.choice(
                {
                    "int": ["0", "1", "-1", "2", "7", "K", "-100", "2**40", "len(WEIGHTS)", "2**63 - 1"],
                    "float": ["0.0", "0.5", "-2.25", "1e10", "math.pi"],
                    "bool": ["True", "False"],
                }[kind]
            )
        i, f, b = (
            (lambda: self.expr("int", depth - 1)),
            (lambda: self.expr("float", depth - 1)),
            (lambda: self.expr("bool", depth - 1)),
        )
        n = lambda: r.choice([i, i, f])()
        if kind == "int":
            return r.choice(
                [
                    lambda: f"({i()} + {i()})",
                    lambda: f"({i()} - {i()})",
                    lambda: f"({i()} * {i()})",
                    lambda: f"({i()} // {i()})",
                    lambda: f"({i()} % {i()})",
                    lambda: f"({i()} & {i()})",
                    lambda: f"({i()} ^ {i()})",
                    lambda: f"({i()} | {i()})",
                    lambda: f"({i()} << ({i()} & 7))",
                    lambda: f"({i()} >> {i()})",
                    lambda: f"-{i()}",
                    lambda: f"abs({i()})",
                    lambda: f"~{i()}",
                    lambda: f"min({i()}, {i()})",
                    lambda: f"max({i()}, {i()}, {i()})",
                    lambda: f"({i()} if {b()} else {i()})",
                    lambda: f"clamp({i()})",
                    lambda: f"sign({n()})",
                    lambda: f"int({b()})",
                    lambda: f"({i()} or {i()})",
                    lambda: f"({i()} and {i()})",
                    lambda: f"sum([{i()}, {i()}])",
                    lambda: f"sorted([{i()}, {i()}, 3])[1]",
                    lambda: f"({i()} + {b()})",
                    lambda: f"divmod({i()}, {i()})[1]",
                    lambda: f"(clamp({i()}) ** 2)",
                    lambda: f"max(v for v in ({i()}, {i()}))",
                ]
            )()
        if kind == "float":
            return r.choice(
                [
                    lambda: f"({f()} + {n()})",
                    lambda: f"({n()} - {f()})",
                    lambda: f"({f()} * {n()})",
                    lambda: f"({i()} / {i()})",
                    lambda: f"({f()} / {n()})",
                    lambda: f"({f()} // {n()})",
                    lambda: f"({f()} % {n()})",
                    lambda: f"-{f()}",
                    lambda: f"abs({f()})",
                    lambda: f"min({f()}, {f()})",
                    lambda: f"float({i()})",
                    lambda: f"({f()} if {b()} else {f()})",
                    lambda: f"math.sqrt(abs({f()}))",
                    lambda: f"max({n()}, {f()}) * 1.0",
                ]
            )()
        return r.choice(
            [
                lambda: f"({n()} < {n()})",
                lambda: f"({n()} <= {n()} < {n()})",
                lambda: f"({n()} == {n()})",
                lambda: f"({n()} != {n()})",
                lambda: f"(not {b()})",
                lambda: f"({b()} and {b()})",
                lambda: f"({b()} or {b()})",
                lambda: f"({b()} ^ {b()})",
                lambda: f"({i()} in (1, K, {i()}))",
                lambda: f"bool({n()})",
                lambda: f"any((c > 0, {b()}))",
                lambda: f"({b()} is True)",
                lambda: f"isinstance({n()}, int)",
            ]
        )()
