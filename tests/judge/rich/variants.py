"""Second pipelines for the judge of rich verdicts: the same as a first one in other words, or broken in one place."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from tests.judge.rich.draw import Draw, Drawn, Text
from tests.judge.rich.kinds import annotation
from tests.judge.rich.meaning import Step


def variant(draw: Draw, drawn: Drawn) -> Drawn:
    """One that is the same in other words, or broken in one place."""
    r = draw.r
    new = Drawn(drawn.sources, list(drawn.steps), dict(drawn.texts), dict(drawn.subs), drawn.out)
    for _ in range(20):
        way = draw.pick((3, "words"), (3, "broken"), (1, "identity"), (1, "k"), (1, "start"), (1, "helper"))
        at = r.randrange(len(new.steps))
        step = new.steps[at]
        if way == "identity" and not new.type_of(new.out).startswith("tup("):
            kind = new.type_of(new.out)
            new.texts[len(new.steps)] = Text((("e", kind),), annotation(kind), ("return e",))
            new.steps.append(Step("map", (new.out,), kind, f"s{len(new.steps)}", new.key_of(new.out)))
            new.out = len(new.sources) + len(new.steps) - 1
            return new
        if way == "k" and step.k:
            new.steps[at] = replace(step, k=step.k + 1)
            return new
        if way == "start" and step.kind == "cumulate":
            new.steps[at] = replace(step, start=draw.constant(step.type))
            return new
        if way in ("words", "broken", "helper") and at in new.texts:
            text = new.texts[at]
            lines = tuple(words(r, line) if way == "words" else broken(r, line) for line in text.lines)
            if way == "helper":
                only = text.lines[-1].removeprefix("return ")
                lines = (*text.lines[:-1], f"answer = {only}", "return answer")
            if lines == text.lines:
                continue
            new.texts[at] = Text(text.args, text.to, lines)
            return new
    return new


def words(r: random.Random, line: str) -> str:
    """The same in other words."""
    swaps = [
        (r"\((\S+) is None or ", r"(not (\1 is not None) or "),
        (r"(\S+) is not None else", r"not (\1 is None) else"),
        (r" is Kind\.", " == Kind."),
        (r" if (\([^()]*\)) else ", r" if not (not \1) else "),
        (r"\((\w[\w.]*) \+ (\w[\w.]*)\)", r"(\2 + \1)"),
        (r"\((\w[\w.]*) < (\w[\w.]*)\)", r"(\2 > \1)"),
        (r"\((\w[\w.]*) == (\w[\w.]*)\)", r"(\2 == \1)"),
    ]
    for before, after in r.sample(swaps, len(swaps)):
        new = re.sub(before, after, line, count=1)
        if new != line:
            return new
    return line


def broken(r: random.Random, line: str) -> str:
    """Nearly the same."""
    swaps = [
        ("<=", "<"), (" < ", " <= "), (">=", ">"), (" > ", " >= "), ("==", "!="), (" + ", " - "),
        ("Kind.IN", "Kind.OUT"), ("Kind.BACK", "Kind.IN"), ("True", "False"), (" and ", " or "), ("min(", "max("),
        ("1", "2"), (" 0", " 1"), ("days=", "days=1 + "), ("'0.01'", "'0.02'"), ("[0]", "[1]"),
    ]  # fmt: skip
    for before, after in r.sample(swaps, len(swaps)):
        if before in line:
            places = [m.start() for m in re.finditer(re.escape(before), line)]
            i = r.choice(places)
            return line[:i] + after + line[i + len(before) :]
    return line
