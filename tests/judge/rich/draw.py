"""Random pipelines over rich types, as Python text, and variants of them that are the same or nearly so.

The text is all that Pellucid is given; the meaning (`meaning.Pipe`) calls the same functions, as plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.judge.rich.kinds import FIELDS, ORDERED, SPACE, TIMES, annotation, of_number, values, written
from tests.judge.rich.meaning import Pipe, Step

Env = Sequence[tuple[str, str]]  # what can be used in an expression: its text and its type

CALLED = {  # what only Python computes: of {0}, which is of the type itself; {1} is an int | None, {2} a Kind | None
    "int": [
        "int(str({0}))",
        "{{None: 1, 0: 2, 1: 0}}.get({1}, 3)",
        "sum(1 for k in Kind if k is {2})",
        "len(str({1}))",
    ],
    "bool": ["(str({0}) == 'True')", "({1} in (None, 1, 2))", "isinstance({1}, int)", "({2} in {{Kind.IN, None}})"],
    "Kind": ["Kind[{0}.name]", "Kind({0}.value)", "{{None: Kind.OUT}}.get({2}, Kind.IN)"],
    "int?": ["{{None: 1, 1: None}}.get({1}, 2)", "next((n for n in (1, 2) if n == {0}), None)"],
    "Kind?": ["next((k for k in Kind if k is {2}), None)"],
    "date": ["date.fromisoformat({0}.isoformat())", "date.fromordinal({0}.toordinal())"],
    "cents": ["Decimal(str({0}))", "({0} / 3).quantize(Decimal('0.01'))"],
    "timedelta": ["timedelta(microseconds=int(str({0} // timedelta(microseconds=1))))"],
}


@dataclass
class Text:
    """The text of a function: its arguments, what it answers and its lines."""

    args: tuple[tuple[str, str], ...]
    to: str
    lines: tuple[str, ...]

    def source(self, name: str) -> str:
        """As Python."""
        head = ", ".join(f"{arg}: {annotation(kind)}" for arg, kind in self.args)
        return f"def {name}({head}) -> {self.to}:\n" + "".join(f"    {line}\n" for line in self.lines)


@dataclass
class Drawn:
    """A pipeline as text: steps without functions, the functions' text, and pipelines of windows."""

    sources: tuple[tuple[str, str], ...]
    steps: list[Step] = field(default_factory=list)
    texts: dict[int, Text] = field(default_factory=dict)  # by step
    subs: dict[int, Drawn] = field(default_factory=dict)
    out: int = 0

    def type_of(self, at: int) -> str:
        """What a stream carries."""
        n = len(self.sources)
        return self.sources[at][1] if at < n else self.steps[at - n].type

    def key_of(self, at: int) -> int:
        """Whose keys a stream is under."""
        n = len(self.sources)
        return -1 if at < n else self.steps[at - n].key

    def source(self, name: str) -> str:
        """As Python: functions, then the pipeline."""
        code, lines = "", []
        names = [s for s, _ in self.sources]
        for i, step in enumerate(self.steps):
            f = f"{name}_f{i}"
            if i in self.texts:
                code += self.texts[i].source(f) + "\n\n"
            if i in self.subs:
                code += self.subs[i].source(f"{name}_w{i}")
            a = names[step.inputs[0]]
            id = f"id={step.id!r}"
            match step.kind:
                case "map" | "filter" | "key_by" | "explode":
                    said = f"{a}.{step.kind}({f}, {id})"
                case "cumulate":
                    to = f", to={annotation(step.type)}" if step.type.endswith("?") else ""
                    said = f"{a}.cumulate({f}, start={written(step.start)}{to}, {id})"
                case "task":
                    said = f"{a}.task({f}, initial={written(step.start)}, {id})"
                case "decimate" | "trim":
                    said = f"{a}.{step.kind}({step.k}, {id})"
                case "forget":
                    said = f"{a}.forget(after={step.k}, {id})"
                case "lag":
                    said = f"{a}.lag({step.k}).map({f}, {id})"
                case "window":
                    said = f"{a}.window({step.k}, {name}_w{i}, {id})"
                case "apply":
                    said = f"apply({f}, {a}, {names[step.inputs[1]]}, {id})"
                case "filter_by":
                    said = f"{a}.filter({names[step.inputs[1]]}, {id})"
                case _:
                    said = f"merge({a}, {names[step.inputs[1]]}, {id})"
            names.append(f"t{i}")
            lines.append(f"    t{i} = {said}\n")
        heads = ", ".join(s for s, _ in self.sources)
        types = ", ".join(f"{s}={annotation(kind)}" for s, kind in self.sources)
        body = "".join(lines) + f"    return {names[self.out]}\n"
        return f"{code}def {name}_build({heads}):\n{body}\n\n{name} = pipeline({name}_build, {types})\n\n\n"

    def pipe(self, name: str, space: dict[str, Any]) -> Pipe:
        """Its meaning, with the functions of a namespace in which its source was run."""
        steps = []
        for i, step in enumerate(self.steps):
            sub = self.subs[i].pipe(f"{name}_w{i}", space) if i in self.subs else None
            steps.append(replace(step, f=space.get(f"{name}_f{i}"), sub=sub))
        return Pipe(self.sources, tuple(steps), self.out)


class Draw:
    """Draws from a generator."""

    def __init__(
        self, r: random.Random, *, failures: bool, times: bool, called: bool = False, low: int = -1, high: int = 4
    ) -> None:
        self.r, self.failures, self.times, self.called, self.low, self.high = r, failures, times, called, low, high

    def pick(self, *choices: tuple[float, Any]) -> Any:
        """One of them, by weight."""
        return self.r.choices([c for _, c in choices], [w for w, _ in choices])[0]

    # ------------------------------------------------------------ expressions

    def constant(self, kind: str) -> Any:
        """A value."""
        if kind.endswith("?") and self.r.random() < 0.4:
            return None
        kind = kind.rstrip("?")
        if kind.startswith("tup("):
            return tuple(self.constant(k) for k in kind[4:-1].split(","))
        if kind in FIELDS:
            return SPACE[kind](*(self.constant(k) for k in FIELDS[kind].values()))
        if kind in ("bool", "Kind"):
            return self.r.choice(values(kind, ()))
        return of_number(kind, self.r.randint(self.low, self.high))

    def around(self, env: Env) -> list[tuple[str, str]]:
        """What can be used, with the fields of records."""
        found = list(env)
        for text, kind in env:
            if kind in FIELDS:
                found += self.around([(f"{text}.{name}", k) for name, k in FIELDS[kind].items()])
            elif kind.startswith("tup("):
                found += self.around([(f"{text}[{i}]", k) for i, k in enumerate(kind[4:-1].split(","))])
        return found

    def expr(self, kind: str, env: Env, depth: int) -> str:
        """An expression of a type."""
        r = self.r
        if self.called and depth > 0 and kind in CALLED and r.random() < 0.12:
            return r.choice(CALLED[kind]).format(*(self.expr(k, env, depth - 1) for k in (kind, "int?", "Kind?")))
        here = self.around(env)
        fit = [text for text, k in here if k == kind]
        asked = [(text, k) for text, k in here if k.endswith("?")]
        ways: list[tuple[float, str]] = [(1.0, "const")]
        if fit:
            ways.append((5.0 if depth == 0 else 2.5, "use"))
        if depth > 0:
            sub = lambda k=kind, e=env: self.expr(k, e, depth - 1)
            ways += [(1.0, "if")]
            if asked:
                ways.append((3.0, "ask"))
            if kind.endswith("?"):
                ways.append((3.0, "sure"))
            if kind in FIELDS:
                ways += [(3.0, "record"), (1.5 if fit else 0, "replace")]
            if kind == "bool":
                ways += [(4, "compare"), (1.5, "logic"), (1.5 if asked else 0, "is")]
                if any(k.rstrip("?") == "Kind" for _, k in here):
                    ways.append((2.0, "member"))
            if kind == "int":
                ways += [(4, "sum"), (0.7, "minmax"), (0.6, "bool"), (0.5 if self.failures else 0, "divide")]
                ways += [(1.5, "or")] if any(k == "int?" for _, k in here) else []
                ways += [(1.5, "of time")] if any(k in TIMES for _, k in here) else []
            if kind in TIMES:
                ways += [(3, "time sum"), (0.7, "minmax")]
        way = self.pick(*ways)
        match way:
            case "const":
                return written(self.constant(kind))
            case "use":
                return r.choice(fit)
            case "if":
                return f"({sub()} if {sub('bool')} else {sub()})"
            case "ask":
                text, k = r.choice(asked)
                sure = [(t, n) for t, n in env if t != text] + [(text, k[:-1])]
                if r.random() < 0.5:
                    return f"({self.without(text, kind, env, depth)} if {text} is None else {sub(e=sure)})"
                return f"({sub(e=sure)} if {text} is not None else {self.without(text, kind, env, depth)})"
            case "sure":
                return sub(kind[:-1])
            case "record":
                return f"{kind}({', '.join(sub(k) for k in FIELDS[kind].values())})"
            case "replace":
                name = r.choice(list(FIELDS[kind]))
                new = sub(FIELDS[kind][name])
                text = r.choice(fit)
                named = kind in ("Pos", "Stamp")
                return f"{text}._replace({name}={new})" if named else f"replace({text}, {name}={new})"
            case "compare":
                k = r.choice([k for _, k in here if not k.startswith("tup(")])
                if k in ORDERED and r.random() < 0.7:
                    return f"({sub(k)} {r.choice(['<', '<=', '>', '>='])} {sub(k)})"
                return f"({sub(k)} {r.choice(['==', '!='])} {sub(k)})"
            case "logic":
                word = r.choice(["and", "or", "not"])
                return f"(not {sub()})" if word == "not" else f"({sub()} {word} {sub()})"
            case "is":
                text, k = r.choice(asked)
                if r.random() < 0.4:
                    return f"({text} is {r.choice(['', 'not '])}None)"
                sure = [(t, n) for t, n in env if t != text] + [(text, k[:-1])]
                if r.random() < 0.5:
                    return f"({text} is not None and {sub(e=sure)})"
                return f"({text} is None or {sub(e=sure)})"
            case "member":
                text = r.choice([t for t, k in here if k.rstrip("?") == "Kind"])
                member = r.choice(["Kind.IN", "Kind.OUT", "Kind.BACK"])
                return f"({text} {r.choice(['is', '==', '!=', 'is not'])} {member})"
            case "sum":
                return f"({sub()} {r.choice(['+', '-', '+', '*'])} {sub()})"
            case "minmax":
                return f"{r.choice(['min', 'max'])}({sub()}, {sub()})"
            case "bool":
                return f"int({sub('bool')})"
            case "divide":
                return f"({sub()} {r.choice(['//', '%'])} {sub()})"
            case "or":
                return f"({r.choice([t for t, k in here if k == 'int?'])} or {sub()})"
            case "of time":
                text, k = r.choice([(t, k) for t, k in here if k in TIMES])
                match k:
                    case "date":
                        return r.choice([f"{text}.day", f"{text}.weekday()", f"({text} - {sub('date')}).days"])
                    case "datetime":
                        return r.choice([f"{text}.microsecond", f"{text}.day"])
                    case "timedelta":
                        return f"({text} // timedelta(microseconds=1))"
                return f"int({text} * 100)"
            case "time sum":
                match kind:
                    case "date":
                        return f"({sub()} + timedelta(days={self.expr('int', (), 0)}))"
                    case "datetime":
                        return f"({sub()} {r.choice('+-')} {sub('timedelta')})"
                    case "timedelta":
                        return r.choice(
                            [f"({sub()} + {sub()})", f"({sub('datetime')} - {sub('datetime')})", f"(-{sub()})"]
                        )
                return r.choice([f"({sub()} + {sub()})", f"({sub()} - {sub()})", f"({sub()} * 2)", f"abs({sub()})"])
        raise AssertionError(way)

    def without(self, text: str, kind: str, env: Env, depth: int) -> str:
        """An expression where something is missing: it is not looked at."""
        return self.expr(kind, [(t, k) for t, k in env if t != text or k.endswith("?")], depth - 1)

    def closing(self, kind: str, env: Env, depth: int) -> str:
        """A next state that stays small, mostly."""
        text = self.expr(kind, env, depth)
        if kind == "int" and self.r.random() < 0.85:
            return f"({text}) % 3" if self.r.random() < 0.6 else f"min(max({text}, -1), 3)"
        if kind in TIMES and self.r.random() < 0.85:
            low, high = written(of_number(kind, 0)), written(of_number(kind, 2))
            return f"min(max({text}, {low}), {high})"
        return text

    def text(self, args: tuple[tuple[str, str], ...], to: str, *, state: bool = False) -> Text:
        """A function of events."""
        depth = self.pick((2, 1), (4, 2), (1, 3))
        make = self.closing if state else self.expr
        lines: list[str] = []
        for name, kind in args:
            if kind.endswith("?") and self.r.random() < 0.4:  # asked first, in a line of its own
                there = [(n, k[:-1] if n == name else k) for n, k in args]
                lines = [f"if {name} is None:", f"    return {self.without(name, to, args, depth)}"]
                lines.append(f"return {make(to, there, depth)}")
                return Text(args, annotation(to), tuple(lines))
        return Text(args, annotation(to), (f"return {make(to, args, depth)}",))

    def task(self, event: str, to: str) -> tuple[str, Text]:
        """A task: the type of its state, and its function."""
        held = self.pick((3, "int"), (2, "tup(int?,bool)"), (1, "Pos"), (1, "tup(int,Kind?)"), (1, "bool"))
        args = (("s", held), ("e", event))

        def branch() -> str:
            if held.startswith("tup("):
                new = f"({', '.join(self.closing(k, args, 1) for k in held[4:-1].split(','))})"
            elif held == "Pos":
                new = f"Pos({self.closing('int', args, 1)}, {self.expr('bool', args, 1)})"
            else:
                new = self.closing(held, args, 1)
            new = self.pick((1, "s"), (2, new))
            said = ", ".join(self.expr(to, args, 1) for _ in range(self.pick((1, 0), (4, 1), (1, 2))))
            return f"return {new}, [{said}]"

        lines = (f"if {self.expr('bool', args, 2)}:", "    " + branch(), branch())
        return held, Text(args, f"tuple[{annotation(held)}, list[{annotation(to)}]]", lines)

    # ------------------------------------------------------------ pipelines

    def a_type(self) -> str:
        """For a source."""
        kinds = [
            (1.5, "int?"),
            (1, "Kind?"),
            (2, "Pos"),
            (3, "Sale"),
            (1.5, "Nest"),
            (1, "bool"),
            (1, "int"),
            (1, "Kind"),
        ]
        if self.times:
            kinds += [(2, "Bill"), (2, "Stamp"), (1, "Deep"), (0.7, "date"), (0.7, "cents?"), (0.7, "datetime?")]
        return str(self.pick(*kinds))

    def result(self) -> str:
        """For what a function answers."""
        kinds = [
            (4, "int"),
            (2, "bool"),
            (2, "int?"),
            (1, "Kind"),
            (1, "Kind?"),
            (1, "Pos"),
            (0.7, "Nest"),
            (0.7, "Sale"),
        ]
        if self.times:
            kinds += [(0.7, "date"), (0.7, "cents"), (0.5, "timedelta?"), (0.4, "datetime"), (0.4, "Bill")]
        return str(self.pick(*kinds))

    def drawn(
        self, sources: tuple[tuple[str, str], ...] | None = None, *, inner: bool = False, result: str | None = None
    ) -> Drawn:
        """A pipeline."""
        r = self.r
        if sources is None:
            sources = tuple((name, self.a_type()) for name in ("x", "y")[: self.pick((4, 1), (1, 2))])
            if len(sources) == 2:
                sources = tuple((n, r.choice(["int", "bool", "int?", "Kind?", "Kind"])) for n, _ in sources)
        drawn = Drawn(sources)
        for _ in range(self.pick((3, 1), (4, 2), (2, 3)) if not inner else self.pick((2, 1), (1, 2))):
            self.more(drawn, inner)
        if result is not None and drawn.type_of(len(sources) + len(drawn.steps) - 1) != result:
            a = len(sources) + len(drawn.steps) - 1
            drawn.texts[len(drawn.steps)] = self.text((("e", drawn.type_of(a)),), result)
            drawn.steps.append(Step("map", (a,), result, f"s{len(drawn.steps)}", drawn.key_of(a)))
        drawn.out = len(sources) + len(drawn.steps) - 1
        return drawn

    def more(self, drawn: Drawn, inner: bool) -> None:
        """One more step."""
        r, at = self.r, len(drawn.steps)
        n = len(drawn.sources) + at
        while True:
            a = r.choices(range(n), [1 + 3 * i for i in range(n)])[0]
            kind, key = drawn.type_of(a), drawn.key_of(a)
            id = f"s{at}"
            way = self.pick(
                (4, "map"), (3, "filter"), (3, "cumulate"), (3, "task"), (1, "decimate"), (1, "trim"), (1.5, "lag"),
                (1.5, "apply"), (1, "filter_by"), (1, "merge"), (0.7, "explode"),
                (0 if inner else 1, "window"), (0 if inner else 2, "key_by"),
            )  # fmt: skip
            e = (("e", kind),)
            step, text = Step(way, (a,), kind, id, key), None
            match way:
                case "map" | "explode":
                    to = self.result()
                    step, text = replace(step, type=to), self.text(e, to)
                    if way == "explode":
                        said = ", ".join(self.expr(to, e, 1) for _ in range(r.randint(1, 2)))
                        text = Text(e, f"list[{annotation(to)}]", (f"return [{said}]",))
                case "filter":
                    text = self.text(e, "bool")
                case "cumulate":
                    to = self.pick((3, "int"), (1, "int?"), (1, "bool"), (1, "Pos"), (0.7, "Kind?"), (0.5, "Sale"))
                    if self.times:
                        to = self.pick((3, to), (1, r.choice(["date", "cents", "timedelta", "datetime"])))
                    step, text = (
                        replace(step, type=to, start=self.constant(to)),
                        self.text((("s", to), *e), to, state=True),
                    )
                case "task":
                    to = self.result()
                    held, text = self.task(kind, to)
                    step = replace(step, type=to, start=self.constant(held))
                case "decimate" | "trim":
                    step = replace(step, k=r.randint(1 if way == "trim" else 2, 2))
                case "lag":
                    to = self.result()
                    step = replace(step, type=to, k=self.pick((3, 1), (1, 2)))
                    text = self.text((("e", f"tup({kind},{kind})"),), to)
                case "window":
                    sub = self.drawn((("w", kind),), inner=True)
                    drawn.subs[at] = sub
                    step = replace(step, type=sub.type_of(sub.out), k=2)
                case "key_by":
                    to = self.pick(
                        (2, "Kind"), (2, "bool"), (2, "int?"), (1, "Kind?"), (1, "Pos"), (1, "int"), (0.7, "Sale")
                    )
                    here = [(t, k) for t, k in self.around(e) if not k.startswith("tup(")]
                    use = r.choice(here)
                    text = Text(e, annotation(use[1]), (f"return {use[0]}",))
                    if r.random() < 0.5:
                        text = self.text(e, to)
                    step = replace(step, key=n)
                case _:
                    others = [
                        b
                        for b in range(n)
                        if drawn.key_of(b) == key
                        and (way != "filter_by" or drawn.type_of(b) == "bool")
                        and (way != "merge" or (drawn.type_of(b) == kind and b != a))
                    ]
                    if not others:
                        continue
                    b = r.choice(others)
                    step = replace(step, inputs=(a, b))
                    if way == "apply":
                        to = self.result()
                        text = self.text((("e", kind), ("g", drawn.type_of(b))), to)
                        step = replace(step, type=to)
            drawn.steps.append(step)
            if text is not None:
                drawn.texts[at] = text
            if way == "key_by" and r.random() < 0.3:
                drawn.steps.append(Step("forget", (n,), kind, f"s{at + 1}", n + 1, k=r.randint(1, 2)))
            return
