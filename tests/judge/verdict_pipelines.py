"""What the judge of verdicts asks about: random small pipelines and formulas, as data (`Spec`, tuples) and as Python
text.

The text is all that Pellucid is given, so what is found can be printed as a script that stands alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.judge.verdict_meaning import (
    CLASSES,
    FIELDS,
    HIGH,
    LOW,
    Color,
    Fails,
    Fn,
    Odd,
    Pair,
    Spec,
    Step,
    Task,
    evaluate,
    plain,
)

PRELUDE = """import enum, random
from dataclasses import dataclass
from pellucid import Mod, Stream, apply, check, merge, pipeline, silent


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@dataclass(frozen=True)
class Pair:
    a: int
    b: bool


@dataclass(frozen=True)
class Odd:
    present: int
    value: int


def need(condition, value):
    if not condition:
        raise ValueError("needed")
    return value


CALLS = [0]
"""

HOSTILE = ["full", "G", "present", "out", "value", "failed", "overflow", "first", "count", "U", "step", "any"]
HOSTILE_IDS = [*HOSTILE, "in", "a-b", "x", "EF"]
WORDS = {
    "full",
    "overflow",
    "failed",
    "in",
    "out",
    "true",
    "false",
    "X",
    "F",
    "G",
    "U",
    "W",
    "R",
    "Y",
    "O",
    "H",
    "S",
    "A",
    "E",
    "EX",
    "EF",
    "EG",
    "AX",
    "AF",
    "AG",
    "any",
    "queue",
    "stream",
    "source",
    "output",
    "step",
    "flag",
}
EDGES = [2**63 - 1, -(2**63), 2**62, -(2**62), 2**31, 2**32, 2**32 - 1, -(2**31), 3037000500, 2**63 - 2]


@dataclass
class Style:
    """What may be drawn."""

    mod: int | None = None  # modulo N: only what the paper's arithmetic means without doubt
    finite: bool = True  # events can be listed
    big: bool = False
    opaque: bool = False
    impure: bool = False
    keys: bool = False
    hostile: bool = False
    several: bool = True
    failures: bool = True
    low: int = -2
    high: int = 4


class Draw:
    """Draws pipelines, functions and formulas from a generator."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self.r, self.style = rng, style
        if style.mod:
            style.low, style.high = 0, style.mod - 1

    def pick(self, *choices: tuple[float, Any]) -> Any:
        """One of them, by weight."""
        return self.r.choices([c for _, c in choices], [w for w, _ in choices])[0]

    # ------------------------------------------------------------ functions

    def constant(self, kind: str) -> Any:
        """A value of a type."""
        if kind == "int":
            if self.style.big and self.r.random() < 0.3:
                return self.r.choice(EDGES)
            return self.r.randint(self.style.low, self.style.high)
        if kind == "bool":
            return self.r.random() < 0.5
        if kind == "float":
            return self.r.choice([0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e9])
        if kind == "str":
            return self.r.choice(["", "a", "b", "ab", "G"])
        if kind == "Color":
            return self.r.choice(list(Color))
        return CLASSES[kind](*(self.constant(t) for t in FIELDS[kind].values()))

    def tame(self, e: Any) -> Any:
        """What Python computes of constants alone, before any event comes, it computes exactly: no push is where such
        a number leaves 64 bits.  Such a one is not drawn."""
        try:
            value = evaluate(e, (), plain)
        except (Fails, IndexError):  # IndexError: it asks for an event
            return e
        return e if LOW <= value <= HIGH else e[1]

    def expr(self, kind: str, args: tuple[str, ...], depth: int) -> Any:
        """An expression of a type."""
        r = self.r
        ways: list[tuple[float, Any]] = [(1.0, "const")]
        here = [("arg", i) for i, t in enumerate(args) if t == kind]
        here += [
            ("field", ("arg", i), name)
            for i, t in enumerate(args)
            for name, ft in FIELDS.get(t, {}).items()
            if ft == kind
        ]
        if here:
            ways.append((3.0 if depth else 6.0, "arg"))
        if depth > 0:
            if kind == "int":
                ways += [(4, "arith"), (0.7, "minmax"), (0.4, "neg"), (1, "if")]
                if self.style.failures:
                    ways += [(0.8, "divide"), (0.3, "need")]
            elif kind == "bool":
                ways += [(4, "compare"), (0.7, "logic"), (0.4, "not")]
            elif kind == "float":
                ways += [(3, "float"), (0.7, "minmax"), (0.7, "if")]
            else:
                ways += [(2, "if")]
            if kind in FIELDS:
                ways += [(3, "record")]
        way = self.pick(*ways)
        sub = lambda t=kind: self.expr(t, args, depth - 1)
        if way == "const":
            return ("const", self.constant(kind))
        if way == "arg":
            return r.choice(here)
        if way == "arith":
            ops = ["+", "+", "-", "*"] if self.style.mod else ["+", "+", "-", "-", "*", "&", "|", "^"]
            return self.tame((r.choice(ops), sub(), sub()))
        if way == "divide":
            right = (
                ("const", r.choice([c for c in range(self.style.low, self.style.high + 1) if c]))
                if r.random() < 0.6
                else sub()
            )
            return self.tame((r.choice(["//", "%"]), sub(), right))
        if way == "float":
            return (r.choice(["+", "-", "*", "/"] if self.style.failures else ["+", "-", "*"]), sub(), sub())
        if way == "minmax":
            return (r.choice(["min", "max"]), sub(), sub())
        if way == "neg":
            return self.tame((r.choice(["neg", "abs"]), sub()))
        if way == "if":
            return ("if", sub("bool"), sub(), sub())
        if way == "need":
            return ("need", sub("bool"), sub())
        if way == "compare":
            types = [
                t for t in {*args, *(ft for a in args for ft in FIELDS.get(a, {}).values())} if t not in FIELDS
            ] or ["int"]
            t = r.choice(sorted(types))
            ops = ["==", "!=", "<", "<=", ">", ">="] if t in ("int", "float") else ["==", "!="]
            return ("compare", r.choice(ops), sub(t), sub(t))
        if way == "logic":
            return (r.choice(["and", "or"]), sub(), sub())
        if way == "not":
            return ("not", sub())
        return ("record", kind, tuple(self.expr(t, args, depth - 1) for t in FIELDS[kind].values()))

    def fn(self, args: tuple[str, ...], result: str) -> Fn:
        """A function of events."""
        r, s = self.r, self.style
        depth = self.pick((2, 1), (3, 2), (1, 3))
        body = self.expr(result, args, depth)
        guards = (self.expr("bool", args, 2),) if s.failures and r.random() < 0.07 else ()
        plain = all(t in ("int", "bool") for t in args)
        if s.impure and r.random() < 0.3 and result == "int":
            return Fn(args, result, body, guards, r.choice(["counter", "random"]))
        if s.opaque and plain and r.random() < 0.45:
            if len(args) == 1 and args[0] == "int" and result != "float" and r.random() < 0.5:
                rows = tuple((k, self.constant(result)) for k in range(s.low, s.high + 1) if r.random() < 0.9)
                default = self.constant(result) if r.random() < 0.7 or not s.failures else None
                return Fn(args, result, ("table", rows, default, self.expr("int", args, 1)), guards, "table")
            return Fn(args, result, body, guards, "text")
        return Fn(args, result, body, guards)

    def task(self, event: str, result: str) -> tuple[Task, Any]:
        """A task and its first state, a small number."""
        args = ("int", event)
        state = lambda: self.pick(
            (3, ("arg", 0)),
            (3, ("%", ("+", ("arg", 0), ("const", 1)), ("const", 2 if self.style.mod else 3))),
            (1, ("const", 0)),
            (1, self.expr("int", args, 1)),
        )
        if self.style.mod:
            state = lambda: self.pick(
                (3, ("arg", 0)), (2, ("const", 0)), (2, ("const", 1)), (1, self.expr("int", args, 1))
            )
        count = lambda: self.pick(
            (2, 0), (4, 1), (3 if self.style.several else 0, 2), (1 if self.style.several else 0, 3)
        )
        branch = lambda: (state(), tuple(self.expr(result, args, 1) for _ in range(count())))
        return Task(event, result, self.expr("bool", args, 2), branch(), branch()), self.r.choice([0, 0, 1])

    # ------------------------------------------------------------ pipelines

    def a_type(self) -> str:
        """For a source."""
        if self.style.mod:
            return str(self.pick((6, "int"), (2, "bool"), (0.7, "Color"), (0.7, "Odd")))
        if self.style.finite:
            return str(self.pick((7, "int"), (2, "bool"), (1, "Color"), (1, "Pair"), (0.7, "Odd")))
        return str(
            self.pick((8, "int"), (1, "bool"), (0.7, "Color"), (1, "Pair"), (0.7, "Odd"), (0.8, "float"), (0.8, "str"))
        )

    def result_type(self, given: str) -> str:
        """For what a function answers."""
        others = [(1.0, "bool"), (0.3, "Color"), (0.3, "Pair"), (0.2, "Odd"), (0.2, "str")]
        return str(self.pick((5, given if given in ("int", "float") else "int"), *others))

    def spec(
        self,
        sources: tuple[tuple[str, str], ...] | None = None,
        steps: int = 4,
        *,
        inner: bool = False,
        result: str | None = None,
    ) -> Spec:
        """A pipeline."""
        r = self.r
        if sources is None:
            names = ["x", "y", "z"]
            if self.style.hostile:
                names = r.sample(HOSTILE, 3)
            sources = tuple((n, self.a_type()) for n in names[: self.pick((6, 1), (3, 2), (0.4, 3))])
        spec = Spec(sources, (), ())
        ids = r.sample(HOSTILE_IDS, len(HOSTILE_IDS)) if self.style.hostile else [f"s{i}" for i in range(20)]
        made = r.randint(1, steps)
        for n in range(made):
            final = result if n == made - 1 else None
            step = self.step(spec, inner, final)
            if (
                not inner
                and step.kind != "call"
                and (self.style.hostile or r.random() < 0.6 or step.kind in ("apply", "filter_by"))
            ):
                name = ids.pop()
                if name not in dict(sources):
                    step = replace(step, id=name)
            spec = replace(spec, steps=(*spec.steps, step))
        last = len(sources) + len(spec.steps) - 1
        outputs: tuple[tuple[str, int], ...] = (("out", last),)
        if not inner and result is None and r.random() < 0.12 and last > 1:
            names = r.sample(HOSTILE_IDS, 2) if self.style.hostile else ["left", "right"]
            outputs = ((names[0], last), (names[1], r.randrange(last)))
        return pruned(replace(spec, outputs=outputs))

    def stream(self, spec: Spec, want: str | None = None, key: Any = "any") -> int | None:
        """One of the streams so far, later ones more likely."""
        n = len(spec.sources) + len(spec.steps)
        fit = [
            i for i in range(n) if (want is None or spec.type_of(i) == want) and (key == "any" or spec.key_of(i) == key)
        ]
        return self.r.choices(fit, [1 + 2 * i for i in range(len(fit))])[0] if fit else None

    def step(self, spec: Spec, inner: bool, final: str | None) -> Step:
        """One more step."""
        r = self.r
        kinds = [
            (4, "map"),
            (3, "filter"),
            (2, "cumulate"),
            (1, "decimate"),
            (1, "trim"),
            (1, "lag"),
            (3, "apply"),
            (1.5, "filter_by"),
        ]
        kinds += [(2 if self.style.several else 0, "merge"), (2, "task"), (0.8, "window"), (0.7, "call")]
        kinds += [(2.5 if self.style.keys else 0, "key_by")]
        for _ in range(50):
            kind = self.pick(*kinds)
            a = self.stream(spec)
            assert a is not None
            t, key = spec.type_of(a), spec.key_of(a)
            if final and kind not in ("map", "apply", "task", "lag"):
                if t != final:
                    continue
                if kind in ("key_by", "call", "window", "cumulate"):
                    continue
            if kind == "map":
                to = final or self.result_type(t)
                return Step("map", (a,), to, key, fn=self.fn((t,), to))
            if kind == "filter":
                return Step("filter", (a,), t, key, fn=self.fn((t,), "bool" if r.random() < 0.9 else "int"))
            if kind == "cumulate":
                to = self.pick((5, "int" if t != "float" else "float"), (1, "bool"))
                body = self.fn((to, t), to)
                if r.random() < 0.3 and to == "int":
                    body = Fn((to, t), to, ("+", ("arg", 0), ("arg", 1) if t == "int" else ("const", 1)))
                return Step(
                    "cumulate",
                    (a,),
                    to,
                    key,
                    fn=body,
                    start=self.constant(to) if r.random() < 0.5 else (0 if to == "int" else self.constant(to)),
                )
            if kind == "decimate":
                return Step("decimate", (a,), t, key, k=r.randint(2, 3))
            if kind == "trim":
                return Step("trim", (a,), t, key, k=self.pick((4, 1), (3, 2), (1, 3), (0.7, 5)))
            if kind == "lag":
                to = final or self.result_type(t)
                return Step("lag", (a,), to, key, k=r.randint(1, 2), fn=self.fn((t, t), to))
            if kind == "key_by" and t != "float":
                to = self.pick((3, "int"), (2, "bool"), (1, "Color"))
                return Step("key_by", (a,), t, to, fn=self.fn((t,), to))
            if kind == "task":
                to = final or self.result_type(t)
                task, start = self.task(t, to)
                if not task.yes[1] and not task.no[1] and r.random() < 0.8:
                    continue
                return Step("task", (a,), to, key, task=task, start=start)
            if kind == "window" and not inner:
                sub = self.spec((("w", t),), 2, inner=True)
                return Step("window", (a,), sub.type_of(sub.outputs[0][1]), key, k=r.randint(2, 3), sub=sub)
            if kind == "call" and not inner:
                sub = self.spec((("w", t),), 3, inner=True)
                at = sub.outputs[0][1]
                return Step("call", (a,), sub.type_of(at), sub.key_of(at) or key, sub=sub)
            if kind == "filter_by" and (b := self.stream(spec, "bool", key)) is not None:
                return Step("filter_by", (a, b), t, key)
            if kind == "merge" and (b := self.stream(spec, t, key)) is not None:
                return Step("merge", (a, b), t, key)
            if kind == "apply":
                b = self.stream(spec, None, key)
                assert b is not None
                given = tuple(spec.type_of(i) for i in (a, b))
                to = final or self.result_type(t)
                if r.random() < 0.4 and given == ("int", "int") and final in (None, "int"):
                    return Step(
                        "apply",
                        (a, b),
                        "int",
                        key,
                        fn=Fn(given, "int", (r.choice(["+", "-", "max", "min"]), ("arg", 0), ("arg", 1))),
                    )
                return Step("apply", (a, b), to, key, fn=self.fn(given, to))
        a = len(spec.sources) + len(spec.steps) - 1
        return Step("map", (a,), final or "int", spec.key_of(a), fn=self.fn((spec.type_of(a),), final or "int"))


def pruned(spec: Spec) -> Spec:
    """Without the steps that no output is made of."""
    n = len(spec.sources)
    needed = set(range(n))
    todo = [at for _, at in spec.outputs]
    while todo:
        at = todo.pop()
        if at not in needed:
            needed.add(at)
            todo += spec.steps[at - n].inputs
    order = [i for i in range(n + len(spec.steps)) if i in needed]
    place = {old: new for new, old in enumerate(order)}
    steps = tuple(
        replace(spec.steps[i - n], inputs=tuple(place[j] for j in spec.steps[i - n].inputs)) for i in order if i >= n
    )
    return Spec(spec.sources, steps, tuple((name, place[at]) for name, at in spec.outputs))


# ---------------------------------------------------------------- as Python


def value_text(value: Any) -> str:
    """As Python writes it."""
    if isinstance(value, Color):
        return str(value)
    if isinstance(value, (Pair, Odd)):
        return (
            f"{type(value).__name__}({', '.join(value_text(getattr(value, f)) for f in FIELDS[type(value).__name__])})"
        )
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"float({str(value)!r})"
    return repr(value)


def expr_text(e: Any, names: tuple[str, ...]) -> str:
    """An expression as Python."""
    t = lambda part: expr_text(part, names)
    match e:
        case ("arg", i):
            return names[i]
        case ("const", c):
            return (
                f"({value_text(c)})"
                if isinstance(c, (int, float)) and not isinstance(c, bool) and c < 0
                else value_text(c)
            )
        case ("if", c, a, b):
            return f"({t(a)} if {t(c)} else {t(b)})"
        case ("and" | "or", a, b):
            return f"({t(a)} {e[0]} {t(b)})"
        case ("not", a):
            return f"(not {t(a)})"
        case ("neg", a):
            return f"(-{t(a)})"
        case ("abs" | "len", a):
            return f"{e[0]}({t(a)})"
        case ("field", a, name):
            return f"{t(a)}.{name}"
        case ("record", name, parts):
            return f"{name}({', '.join(t(p) for p in parts)})"
        case ("table", rows, default, a):
            table = "{" + ", ".join(f"{value_text(k)}: {value_text(v)}" for k, v in rows) + "}"
            return f"{table}[{t(a)}]" if default is None else f"{table}.get({t(a)}, {value_text(default)})"
        case ("need", c, a):
            return f"need({t(c)}, {t(a)})"
        case ("compare", op, a, b):
            return f"({t(a)} {op} {t(b)})"
        case ("min" | "max", a, b):
            return f"{e[0]}({t(a)}, {t(b)})"
        case (op, a, b):
            return f"({t(a)} {op} {t(b)})"
    raise AssertionError(e)


class Writer:
    """Writes pipelines as Python: functions first, then the pipelines that use them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def name(self, word: str) -> str:
        """A new one."""
        self.count += 1
        return f"{word}_{self.count}"

    def function(self, fn: Fn) -> str:
        """Its name."""
        name = self.name("f")
        args = tuple(f"v{i}" for i in range(len(fn.args)))
        body = expr_text(fn.body, args)
        self.lines.append(f"def {name}({', '.join(args)}) -> {fn.result}:")
        self.lines += [f"    assert {expr_text(guard, args)}" for guard in fn.guards]
        if fn.style == "text":
            self.lines.append(f"    {args[0]} = {fn.args[0]}({{'True': 1, 'False': 0}}.get(str({args[0]}), {args[0]}))")
        elif fn.style == "counter":
            self.lines.append("    CALLS[0] += 1")
            body = f"CALLS[0] + {body}"
        elif fn.style == "random":
            body = f"random.randrange(3) + {body}"
        self.lines += [f"    return {body}", ""]
        return name

    def task(self, task: Task) -> str:
        """Its name."""
        name = self.name("t")
        args = ("s", "v")
        branch = lambda b: f"{expr_text(b[0], args)}, [{', '.join(expr_text(e, args) for e in b[1])}]"
        self.lines += [
            f"def {name}(s, v):",
            f"    if {expr_text(task.condition, args)}:",
            f"        return {branch(task.yes)}",
            f"    return {branch(task.no)}",
            "",
        ]
        return name

    def pipeline(self, spec: Spec, name: str) -> None:
        """A pipeline and all that it needs."""
        names = [n for n, _ in spec.sources]
        body = []
        for step in spec.steps:
            ins = [names[i] for i in step.inputs]
            end = f", id={step.id!r})" if step.id is not None else ")"
            match step.kind:
                case "map" | "filter" | "key_by":
                    assert step.fn is not None
                    line = f"{ins[0]}.{step.kind}({self.function(step.fn)}{end}"
                case "filter_by":
                    line = f"{ins[0]}.filter({ins[1]}{end}"
                case "cumulate":
                    assert step.fn is not None
                    line = f"{ins[0]}.cumulate({self.function(step.fn)}, start={value_text(step.start)}{end}"
                case "decimate" | "trim":
                    line = f"{ins[0]}.{step.kind}({step.k}{end}"
                case "lag":
                    assert step.fn is not None
                    of_two, of_pair = self.function(step.fn), self.name("f")
                    self.lines += [f"def {of_pair}(p) -> {step.fn.result}:", f"    return {of_two}(p[0], p[1])", ""]
                    line = f"{ins[0]}.lag({step.k}).map({of_pair}{end}"
                case "merge":
                    line = f"merge({', '.join(ins)}{end}"
                case "apply":
                    assert step.fn is not None
                    line = f"apply({self.function(step.fn)}, {', '.join(ins)}{end}"
                case "task":
                    assert step.task is not None
                    line = f"{ins[0]}.task({self.task(step.task)}, {step.start}, to={step.type}{end}"
                case "window" | "call":
                    assert step.sub is not None
                    sub = self.name("q")
                    self.pipeline(step.sub, sub)
                    line = f"{ins[0]}.window({step.k}, {sub}{end}" if step.kind == "window" else f"{sub}({ins[0]})"
                case _:
                    raise AssertionError(step.kind)
            var = f"r{len(body)}"
            names.append(var)
            body.append(f"    {var} = {line}")
        at = dict(spec.outputs)
        result = (
            names[at["out"]]
            if list(at) == ["out"]
            else "{" + ", ".join(f"{n!r}: {names[i]}" for n, i in spec.outputs) + "}"
        )
        self.lines += [
            "@pipeline",
            f"def {name}({', '.join(f'{n}: Stream[{t}]' for n, t in spec.sources)}):",
            *body,
            f"    return {result}",
            "",
        ]


def script(pipelines: dict[str, Spec]) -> str:
    """Pipelines as Python, without the prelude."""
    writer = Writer()
    for name, spec in pipelines.items():
        writer.pipeline(spec, name)
    return "\n".join(writer.lines)


# Random questions: formulas about the streams of a pipeline, second pipelines to compare with, systems to observe.


def references(spec: Spec, draw: Draw) -> list[tuple[int, str]]:
    """Streams that a formula can speak of, each with the text that means it and nothing else."""
    single = len(spec.sources) == 1
    at = dict(spec.outputs)
    named: list[tuple[str, str, int]] = [("source", name, i) for i, (name, _) in enumerate(spec.sources)]
    named += [("step", step.id, len(spec.sources) + i) for i, step in enumerate(spec.steps) if step.id is not None]
    named += [("output", name, i) for name, i in at.items()]
    found = []
    for kind, name, i in named:
        others = {j for _, other, j in named if other == name}
        if single and name == "in":
            others.add(0)
        bare = name.isidentifier() and len(others) == 1 and (name not in WORDS or (name == "out" and kind == "output"))
        if bare and draw.r.random() < 0.9:
            found.append((i, name))
        elif draw.r.random() < 0.3 and len(others) == 1:
            found.append((i, f'stream("{name}")'))
        else:
            found.append((i, f'{kind}("{name}")'))
    if single and all(name != "in" for _, name, _ in named):
        found.append((0, "in"))
    return found


def two_meanings(spec: Spec) -> list[str]:
    """Names that could mean two streams, or a stream and a word of formulas."""
    named: dict[str, set[Any]] = {}
    for i, (name, _) in enumerate(spec.sources):
        named.setdefault(name, set()).add(i)
    for i, step in enumerate(spec.steps):
        if step.id is not None:
            named.setdefault(step.id, set()).add(len(spec.sources) + i)
    for name, i in spec.outputs:
        named.setdefault(name, set()).add(i)
    if len(spec.sources) == 1:
        named.setdefault("in", set()).add(0)
    for word in ("full", "overflow", "failed"):
        named.setdefault(word, set()).add(word)
    return sorted(
        name
        for name, means in named.items()
        if len(means) > 1
        and name.isidentifier()
        and (name not in WORDS or name in ("out", "in", "full", "overflow", "failed"))
    )


class Ask:
    """Draws formulas about a pipeline."""

    def __init__(self, spec: Spec, draw: Draw) -> None:
        self.spec, self.draw, self.r = spec, draw, draw.r
        self.refs = references(spec, draw)
        self.taken = "failed" in {*dict(spec.sources), *dict(spec.outputs), *(step.id for step in spec.steps)}
        self.outs = [ref for ref in self.refs if ref[0] in dict(spec.outputs).values()] or self.refs

    def ref(self) -> tuple[int, str]:
        """A stream, outputs more likely."""
        return self.r.choice(self.outs if self.r.random() < 0.6 else self.refs)

    def values(self, ref: tuple[int, str]) -> list[tuple[tuple[str, ...], str]]:
        """Paths to what can be compared, and their types."""
        kind = self.spec.type_of(ref[0])
        return [((name,), t) for name, t in FIELDS[kind].items()] if kind in FIELDS else [((), kind)]

    def atom(self) -> Any:
        """An atom of a push."""
        r = self.r
        way = self.draw.pick(
            (4, "present"), (5, "value"), (1.5, "any"), (1, "firstlast"), (1, "count"), (1, "two"), (1, "failed")
        )
        ref = self.ref()
        if way == "present":
            return ("atom", ("present", ref))
        if way == "failed":
            return ("atom", ("failed", 'flag("failed")' if self.taken else "failed"))
        if way == "count":
            return ("atom", ("compare", r.choice(["=", "<", ">=", "!="]), ("count", ref), ("lit", r.randint(0, 3))))
        path, kind = r.choice(self.values(ref))
        word = r.choice(["first", "last"]) if way == "firstlast" else "value"
        left: Any = (word, ref, path)
        ops = ["=", "!=", "<", "<=", ">", ">="] if kind in ("int", "float") else ["=", "!="]
        right: Any = ("lit", self.draw.constant(kind))
        if way == "two":
            other = self.ref()
            same = [p for p, t in self.values(other) if t == kind]
            if same:
                right = (r.choice(["value", "value", "first"]), other, same[0])
        if kind == "int" and not self.draw.style.mod and not self.draw.style.big and r.random() < 0.2:
            left = ("calc", r.choice(["+", "-", "*", "%"]), left, ("lit", r.randint(1, 3)))
        return ("atom", ("any" if way == "any" else "compare", r.choice(ops), left, right))

    def simple(self, depth: int = 1) -> Any:
        """A condition of one push."""
        if depth == 0 or self.r.random() < 0.5:
            atom = self.atom()
            return ("!", atom) if self.r.random() < 0.25 else atom
        return (self.r.choice(["&", "|", "->", "<->"]), self.simple(depth - 1), self.simple(depth - 1))

    def branching(self, depth: int = 2) -> Any:
        """A formula of CTL."""
        r = self.r
        if r.random() < 0.35:
            p, q = self.simple(), self.simple(0)
            return r.choice(
                [
                    ("AG", ("EF", p)),
                    ("AG", p),
                    ("!", ("EF", p)),
                    ("EF", p),
                    ("AG", ("->", q, ("EX", p))),
                    ("AF", p),
                    ("AG", ("->", q, ("AF", p))),
                ]
            )
        if depth == 0:
            return self.simple(0)
        op = r.choice(["EX", "EF", "EG", "AX", "AF", "AG", "EU", "AU", "!", "&", "|", "->"])
        return (op, *(self.branching(depth - 1) for _ in range(2 if op in ("EU", "AU", "&", "|", "->") else 1)))

    def linear(self, depth: int = 3) -> Any:
        """A formula of LTL, with past."""
        r = self.r
        if depth == 3 and r.random() < 0.45:
            p, q = self.simple(), self.simple(0)
            return r.choice(
                [
                    ("G", p),
                    ("G", ("->", q, p)),
                    ("G", ("->", q, ("X", p))),
                    ("G", ("->", q, ("F", p))),
                    ("F", p),
                    ("G", ("F", p)),
                    ("F", ("G", p)),
                ]
                + [
                    ("G", ("->", p, ("O", q))),
                    ("G", ("->", q, ("Y", p))),
                    ("U", p, q),
                    ("W", p, q),
                    ("G", ("->", q, ("S", p, q))),
                    ("G", ("->", ("Y", q), p)),
                ]
            )
        if depth == 0:
            return self.simple(0)
        op = self.draw.pick(
            *((1, o) for o in ["X", "F", "G", "U", "W", "R", "!", "&", "|", "->", "G", "F"]),
            *((0.5, o) for o in ["Y", "O", "H", "S"]),
        )
        return (op, *(self.linear(depth - 1) for _ in range(2 if op in ("U", "W", "R", "S", "&", "|", "->") else 1)))


# ---------------------------------------------------------------- second pipelines


def relative(spec: Spec, draw: Draw) -> Spec:
    """A pipeline with the same sources that is the same, nearly the same or another one."""
    r = draw.r
    way = draw.pick(
        (3, "rewrite"), (3, "mutate"), (2, "identity"), (1, "delay"), (1, "other"), (1, "swap"), (1, "style")
    )
    n = len(spec.sources)
    if way == "other":
        return draw.spec(spec.sources, 3, result=spec.type_of(spec.outputs[0][1]))
    steps = list(spec.steps)
    if way in ("identity", "delay"):  # one more step on the way to the output
        at = spec.outputs[0][1]
        kind, key = spec.type_of(at), spec.key_of(at)
        more = Step("map", (at,), kind, key, fn=Fn((kind,), kind, ("arg", 0)))
        if way == "delay":
            more = draw.pick(
                (1, Step("trim", (at,), kind, key, k=1)),
                (1, Step("filter", (at,), kind, key, fn=draw.fn((kind,), "bool"))),
                (1, Step("decimate", (at,), kind, key, k=2)),
            )
        return replace(spec, steps=(*steps, more), outputs=((spec.outputs[0][0], n + len(steps)), *spec.outputs[1:]))
    for i in r.sample(range(len(steps)), len(steps)):
        step = steps[i]
        if way == "swap" and len(step.inputs) == 2 and step.kind in ("merge", "apply"):
            fn = step.fn and replace(
                step.fn,
                args=step.fn.args[::-1],
                body=_swapped(step.fn.body),
                guards=tuple(_swapped(g) for g in step.fn.guards),
            )
            steps[i] = replace(step, inputs=step.inputs[::-1], fn=fn)
            break
        if (
            way == "style"
            and step.fn
            and not step.fn.style
            and all(t in ("int", "bool") for t in step.fn.args)
            and draw.style.opaque
        ):
            steps[i] = replace(step, fn=replace(step.fn, style="text"))
            break
        if way == "rewrite" and step.fn:
            steps[i] = replace(step, fn=replace(step.fn, body=_rewritten(step.fn.body, draw)))
            break
        if way == "mutate":
            if step.fn:
                steps[i] = replace(step, fn=draw.fn(step.fn.args, step.fn.result))
            elif step.k:
                steps[i] = replace(step, k=max(1 if step.kind == "trim" else 2, step.k + r.choice([-1, 1])))
            elif step.task:
                task, start = draw.task(step.task.event, step.task.result)
                steps[i] = replace(
                    step,
                    task=replace(step.task, **{r.choice(["yes", "no"]): task.yes}) if r.random() < 0.7 else task,
                    start=start,
                )
            else:
                continue
            break
    return pruned(replace(spec, steps=tuple(steps)))


def _swapped(e: Any) -> Any:
    if e[0] == "arg":
        return ("arg", 1 - e[1])
    if e[0] == "table":
        return (*e[:3], _swapped(e[3]))
    return tuple(
        _swapped(part)
        if isinstance(part, tuple) and part and isinstance(part[0], str)
        else tuple(map(_swapped, part))
        if isinstance(part, tuple)
        else part
        for part in e
    )


def _rewritten(e: Any, draw: Draw) -> Any:
    """The same in other words, in exact arithmetic."""
    match e:
        case ("+" | "*" | "&" | "|" | "^", a, b):
            return (e[0], b, a)
        case ("if", c, a, b):
            return ("if", ("not", c), b, a)
        case ("compare", op, a, b):
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op, op)
            return ("compare", turned, b, a)
        case ("not", a):
            return ("if", a, ("const", False), ("const", True))
        case ("-", a, b):
            return ("+", a, ("neg", b))
        case ("neg", a):
            return ("-", ("const", 0), a)
        case (op, a, b) if op in ("//", "%", "min", "max", "and", "or"):
            return (op, _rewritten(a, draw), _rewritten(b, draw))
    return e


def observed(
    spec: Spec, draw: Draw, values: dict[str, list[Any]]
) -> tuple[list[int], dict[int, list[int]], dict[int, dict[str, Any]]]:
    """A finite system: initial states, successors, and what is seen."""
    r = draw.r
    n = r.randint(1, 4)
    see = {s: {name: r.choice(values[name]) for name, _ in spec.sources if r.random() < 0.85} for s in range(n)}
    return (
        sorted(r.sample(range(n), r.randint(1, min(2, n)))),
        {s: sorted(r.sample(range(n), r.choice([0, 1, 1, 2]) if n > 1 else r.choice([0, 1]))) for s in range(n)},
        see,
    )


def colors() -> list[Color]:
    """All of them."""
    return list(Color)
