"""Random tasks as users write state machines: enums, optionals, times, nested branches, in under a hundred lines.

Each is the text of a module, since that is what a user has; it makes a pipeline ``p`` and a list ``rows(seed, n)``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

HEAD = """from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
import random
from typing import Annotated, NamedTuple
from pellucid import Stream, pipeline

Time = Annotated[datetime, UTC]
"""
NAMES = ["idle", "open", "paid", "sent", "done", "lost"]


class _Machine:
    """Writes one module."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.timed = draw.random() < 0.7
        self.members = {f"Kind{i}": NAMES[: draw.randint(2, 6)] for i in range(draw.randint(1, 2))}
        types = ["int", "Time", "bool", *self.members]
        self.event = self.fields("e", types, draw.randint(1, 4), 0.2)
        self.state = self.fields("s", types, draw.randint(2, 5), 0.5)
        self.alert = self.fields("a", types, draw.randint(1, 3), 0.4)
        self.form = draw.choice([*["tuple"] * 4, *["dataclass"] * 3, "dict"])
        self.lines: list[str] = []
        self.budget = 30

    def fields(self, stem: str, types: list[str], count: int, maybe: float) -> dict[str, str]:
        out = {}
        for i in range(count):
            t = self.draw.choice(types)
            out[f"{stem}{i}"] = f"{t} | None" if self.draw.random() < maybe else t
        return out

    def source(self) -> str:
        out = [HEAD]
        for name, members in self.members.items():
            out.append(f"class {name}(Enum):\n" + "".join(f"    {m} = {i}\n" for i, m in enumerate(members)))
        out.append(self.record("Event", {"key": "int", "ts": "Time", **self.event}, "NamedTuple"))
        if self.form != "dict":
            out.append(self.record("State", self.state, "NamedTuple" if self.form == "tuple" else self.form))
        out.append(self.record("Alert", {"key": "int", **self.alert}, "NamedTuple"))
        out += [*self.helpers(), self.function("on_event"), *([self.function("on_time")] if self.timed else [])]
        start = ", ".join(f"{n}={self.simplest(t)}" for n, t in self.state.items())
        start = f"dict({start}, key=0)" if self.form == "dict" else f"State({start})"
        task = f"task(on_event, {start}, {'on_time=on_time, ' if self.timed else ''}to=Alert, id='task')"
        at = "at('ts', lateness=timedelta(hours=1))." if self.timed else ""
        late = ', "late": t.late' if self.timed else ""
        out.append(
            f"@pipeline\ndef p(x: Stream[Event]):\n    t = x.{at}key_by('key').{task}\n"
            f"    return {{'alerts': t{late}}}\n"
        )
        out.append(self.rows())
        return "\n".join(out)

    def record(self, name: str, fields: dict[str, str], form: str) -> str:
        head = f"@dataclass(frozen=True)\nclass {name}:" if form == "dataclass" else f"class {name}(NamedTuple):"
        return "\n".join([head, *(f"    {n}: {t}" for n, t in fields.items()), ""])

    def simplest(self, t: str) -> str:
        if t.endswith("None"):
            return "None"
        if t in self.members:
            return f"{t}.{self.members[t][0]}"
        return {"int": "0", "bool": "False", "Time": "datetime(2024, 1, 1, tzinfo=UTC)"}[t]

    def rows(self) -> str:
        values = ["draw.randrange(5)", "at"]
        for t in self.event.values():
            base = t.removesuffix(" | None")
            drawn = {"int": "draw.randrange(10)", "bool": "draw.random() < 0.5", "Time": "at + timedelta(hours=1)"}
            value = drawn.get(base) or f"draw.choice(list({base}))"
            values.append(f"({value} if draw.random() < 0.7 else None)" if base != t else value)
        return (
            "def rows(seed, n):\n    draw, at, out = random.Random(seed), datetime(2024, 1, 1, tzinfo=UTC), []\n"
            "    for _ in range(n):\n        at += timedelta(minutes=draw.randrange(40))\n"
            f"        out.append(Event({', '.join(values)}))\n    return out\n"
        )

    # ------------------------------------------------------------ functions

    def helpers(self) -> Iterator[str]:
        """Functions of one or two enums, as ``legal`` and ``final`` are."""
        self.checks: list[tuple[str, list[str]]] = []
        for i in range(self.draw.randint(1, 2)):
            kinds = [self.draw.choice(list(self.members)) for _ in range(self.draw.randint(1, 2))]
            lines = [f"def check{i}({', '.join('ab'[: len(kinds)])}):"]
            for _ in range(self.draw.randint(1, 4)):
                lines.append(f"    if {self.of('a', kinds[0])}:")
                lines.append(f"        return {self.of('ab'[len(kinds) - 1], kinds[-1])}")
            self.checks.append((f"check{i}", kinds))
            yield "\n".join([*lines, f"    return {self.draw.random() < 0.5}", ""])

    def of(self, name: str, kind: str) -> str:
        some = self.draw.sample(self.members[kind], self.draw.randint(1, min(3, len(self.members[kind]))))
        if len(some) > 1 and self.draw.random() < 0.3:
            return f"{name} in ({', '.join(f'{kind}.{m}' for m in some)})"
        return " or ".join(f"{name} == {kind}.{m}" for m in some)

    def function(self, name: str) -> str:
        event = name == "on_event"
        self.budget = self.draw.randint(8, 26) if event else self.draw.randint(4, 10)
        self.now = "e.ts" if event else "now"
        at = (lambda n: f"s['{n}']") if self.form == "dict" else (lambda n: f"s.{n}")
        self.names = dict(self.state)
        self.readable = {**self.names, **({f"e.{n}": t for n, t in self.event.items()} if event else {})}
        self.lines = [f"def {name}(s, {'e' if event else 'now'}):"]
        self.key = "e.key" if event else ("s['key']" if self.form == "dict" else "0")
        self.lines += [f"    {n} = {at(n)}" for n in self.state]
        asked = f"[{self.now} + timedelta(hours={self.draw.randint(1, 9)})]" if event else "[]"
        self.lines.append(f"    alerts, times = [], {asked}" if self.timed else "    alerts = []")
        self.block(1, frozenset(), 3)
        self.give(1)
        return "\n".join([*self.lines, ""])

    def give(self, depth: int) -> None:
        state = ", ".join(f"{n}={n}" for n in self.state)
        made = f"dict({state}, key={self.key})" if self.form == "dict" else f"State({state})"
        self.lines.append("    " * depth + f"return {made}, alerts" + (", times" if self.timed else ""))

    def block(self, depth: int, there: frozenset[str], deeper: int) -> None:
        begin = len(self.lines)
        for _ in range(self.draw.randint(1, 3)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kind = self.draw.random()
            if deeper and kind < 0.6:
                test, sure = self.test(there)
                self.lines.append("    " * depth + f"if {test}:")
                self.block(depth + 1, there | sure, deeper - 1)
                if self.draw.random() < 0.4:
                    self.lines.append("    " * depth + "else:")
                    self.block(depth + 1, there, deeper - 1)
                there = frozenset()  # what a branch may have set to None
            elif kind < 0.85:
                there = self.assign(depth, there)
            elif kind < 0.95 or not self.timed:
                values = ", ".join([self.key, *(self.value(t, there) for t in self.alert.values())])
                self.lines.append("    " * depth + f"alerts.append(Alert({values}))")
            else:
                if self.now == "now":  # times that are asked for when one is told of have to end
                    self.lines.append("    " * depth + "if now < datetime(2024, 1, 9, tzinfo=UTC):")
                more = f"times.append({self.now} + timedelta(hours={self.draw.randint(1, 9)}))"
                self.lines.append("    " * (depth + (self.now == "now")) + more)
        if len(self.lines) == begin:
            there = self.assign(depth, there)
        if depth > 1 and self.draw.random() < 0.25:
            self.give(depth)

    def assign(self, depth: int, there: frozenset[str]) -> frozenset[str]:
        name = self.draw.choice(list(self.names))
        self.lines.append("    " * depth + f"{name} = {self.value(self.names[name], there - {name})}")
        return there - {name}

    def test(self, there: frozenset[str]) -> tuple[str, frozenset[str]]:
        """A condition, and which optional names are there where it holds."""
        parts, sure = [], there
        for _ in range(self.draw.choice([1, 1, 2, 3])):
            name, t = self.draw.choice(list(self.readable.items()))
            if t.endswith("None") and name not in sure:
                if self.draw.random() < 0.3 and not parts:
                    return f"{name} is None", there
                parts.append(f"{name} is not None")
                sure |= {name}
                if self.draw.random() < 0.4:
                    continue
            parts.append(self.ask(name, t.removesuffix(" | None")))
        return " and ".join(f"({p})" if " or " in p else p for p in parts), sure

    def ask(self, name: str, t: str) -> str:
        if t == "bool":
            return name
        if t == "int":
            return f"{name} {self.draw.choice(['<', '>', '==', '!='])} {self.draw.randint(0, 9)}"
        if t == "Time":
            return (
                f"{self.now} {self.draw.choice(['<', '>=', '=='])} {name} + timedelta(hours={self.draw.randint(1, 50)})"
            )
        fits = [check for check, kinds in self.checks if kinds == [t]]
        return f"{self.draw.choice(fits)}({name})" if fits and self.draw.random() < 0.5 else self.of(name, t)

    def value(self, t: str, there: frozenset[str]) -> str:
        base = t.removesuffix(" | None")
        if base != t and self.draw.random() < 0.25:
            return "None"
        same = [
            n
            for n, other in self.readable.items()
            if other == base or (other == t or (n in there and other == f"{base} | None"))
        ]
        two = [c for c, kinds in self.checks if len(kinds) == 2]
        if base == "bool" and two and self.draw.random() < 0.4:
            check, kinds = next((c, k) for c, k in self.checks if len(k) == 2)
            args = [
                n
                for k in kinds
                for n, other in self.readable.items()
                if other == k or (n in there and other == f"{k} | None")
            ][:2]
            if len(args) == 2:
                return f"{check}({', '.join(args)})"
        if base == "Time":
            return self.now if self.draw.random() < 0.6 or not same else self.draw.choice(same)
        if same and self.draw.random() < 0.6:
            name = self.draw.choice(same)
            sure = self.readable[name] == base or name in there
            if base == "int" and sure and self.draw.random() < 0.7:
                return self.draw.choice([f"{name} + 1", f"max({name}, 3)", f"{name} % 7", f"{name} * 2 % 11"])
            return name
        if base in self.members:
            return f"{base}.{self.draw.choice(self.members[base])}"
        return str(self.draw.randint(0, 9)) if base == "int" else str(self.draw.random() < 0.5)


def machine(seed: int) -> str:
    """The text of a module with a pipeline ``p`` and its ``rows``."""
    return _Machine(seed).source()
