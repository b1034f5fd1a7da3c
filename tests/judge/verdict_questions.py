"""Random questions: formulas about the streams of a pipeline, second pipelines to compare with, systems to observe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .verdict_meaning import FIELDS, Color, Fn, Spec, Step
from .verdict_pipelines import WORDS, Draw, pruned


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
