# ruff: noqa: N803, N806 - the paper's letters
"""Runs and traces as short texts, both ways: for tests, documents and messages.

A step is one word.  In the order of a run most of it follows from the rules, so the word says only which step it is::

    a       I-EVENT of task a (which has one input)       a<i     I-EVENT of a from its input i
    a|      I-BORDER of a                                 a!      F-FAIL of a
    ^       F-RECOVER

A step that the rules do not give where it stands (a trace that was tampered with) is written out, with its numbers
and actions: ``a[i:0,m:0]-i@1=5+m@1=6`` for an event of epoch 1, ``a|[i:1,m:1]-i@1|+m@1|`` for a border.

A whole run has a line for each task and each input before it; ``|`` ends an epoch.  Functions go by name:

>>> c, Z = read_run('''
...     a: i -> m     copy
...     b: m -> sums  sum
...     i: 1 2 | 3 |
...     a a a| b a b! ^ a
... ''')
>>> print(Z[-1])
I-EVENT a  -i ⟨1, EV(1)⟩  +m ⟨1, EV(1)⟩
>>> write(Z, c)
'a a a| b a b! ^ a'
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from pellucid.errors import UsageError
from pellucid.failures.model import (
    BD,
    EV,
    Actions,
    Configuration,
    Consume,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Map,
    Produce,
    Task,
    TraceStep,
    initial,
    steps,
)
from pellucid.failures.model.explain import InvalidTrace, Trace, apply_trace

Function = tuple[Callable[[Any, Any], tuple[Any, list[Any]]], Any]

FUNCTIONS: dict[str, Function] = {
    "copy": (lambda v, w: (v, [w]), 0),
    "sum": (lambda v, w: (v + w, [v + w]), 0),
    "count": (lambda v, w: (v + 1, [v + 1]), 0),
    "twice": (lambda v, w: (v, [w, w]), 0),
    "keep": (lambda v, w: (v + w, []), 0),
    "last": (lambda v, w: (w, [v]), 0),
}

_NAME = r"""(?:[^\W\d][\w.'/#]*)"""
_SHORT = re.compile(rf"(?P<p>{_NAME})(?:(?P<border>\|)|(?P<fail>!)|<(?P<s>{_NAME}))?$")
_FULL = re.compile(rf"(?P<p>{_NAME})(?P<border>\|?)\[(?P<N>[^\]]*)\](?P<X>[-+].*)?$")
_ACTION = re.compile(rf"(?P<sign>[-+])(?P<s>{_NAME})@(?P<e>-?\d+)(?P<d>\||=)")


def read(text: str, c: Configuration) -> list[TraceStep]:
    """The trace that a text says, from a configuration.

    >>> c, Z = read_run("a: i -> o copy\\ni: 7 |")
    >>> print(*read("a a| a! ^", c), sep="; ")
    I-EVENT a  -i ⟨1, EV(7)⟩  +o ⟨1, EV(7)⟩; I-BORDER a  -i ⟨1, BD⟩  +o ⟨1, BD⟩; F-FAIL a; F-RECOVER
    """
    Z: list[TraceStep] = []
    here: Configuration | None = c  # None after a step that cannot be taken: then every step must be written out
    for word in _words(text):
        z = FRecover() if word == "^" else _full(word)
        after: Configuration | None = None
        if z is None:
            z, after = _short(word, here)
        elif here is not None:
            after = _after(here, z)
        Z.append(z)
        here = after
    return Z


def write(Z: Trace, c: Configuration) -> str:
    """The text of a trace, each step in its shortest form: ``read`` gives the same trace again.

    >>> c, Z = read_run("a: i -> o copy\\ni: 7 |\\na a|")
    >>> write(Z[1:], c)
    'a|[i:1,o:1]-i@1|+o@1|'
    """
    words: list[str] = []
    here: Configuration | None = c
    for z in Z:
        after = _after(here, z) if here is not None else None
        words.append(_word(z, c) if after is not None or isinstance(z, FFail | FRecover) else _written_out(z))
        here = after
    return " ".join(words)


def read_run(text: str, functions: Mapping[str, Function] | None = None) -> tuple[Configuration, list[TraceStep]]:
    """A whole run: tasks, inputs, steps.  ``functions``: more functions by name, each with its initial state.

    >>> c, Z = read_run("t: i -> o  half\\ni: 8 |\\nt", {"half": (lambda v, w: (v, [w // 2]), 0)})
    >>> print(Z[0])
    I-EVENT t  -i ⟨1, EV(8)⟩  +o ⟨1, EV(4)⟩
    """
    known = {**FUNCTIONS, **(functions or {})}
    tasks: dict[str, Task] = {}
    states: dict[str, Any] = {}
    inputs: dict[str, list[list[Any]]] = {}
    rest: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip() if " #" in f" {line}" else line.strip()
        if task := re.match(rf"({_NAME}):\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*->\s*({_NAME})\s+(\S+)$", line):
            p, reads, output, name = task.groups()
            if name not in known:
                raise UsageError(f"line {number}: no function is called {name!r}: there are {', '.join(sorted(known))}")
            tasks[p] = Task(known[name][0], tuple(re.split(r"\s*,\s*", reads)), output)
            states[p] = known[name][1]
        elif given := re.match(rf"({_NAME}):\s*(.*)$", line):
            inputs[given[1]] = _epochs(given[2], number)
        elif line:
            rest.append(line)
    c = initial(tasks, inputs, states)
    return c, read(" ".join(rest), c)


def write_run(c: Configuration, Z: Trace, functions: Mapping[str, Function] | None = None) -> str:
    """A whole run as text; the tasks' functions by the names they have in ``functions``.

    >>> print(write_run(*read_run("a: i -> o sum\\ni: 1 2 | |\\na a a| a! ^")))
    a: i -> o  sum
    i: 1 2 | |
    a a a| a! ^
    """
    names = {f: name for name, (f, _) in {**FUNCTIONS, **(functions or {})}.items()}
    lines = []
    for p, task in c.Pi.items():
        if task.f not in names:
            raise UsageError(f"task {p!r}: its function has no name: give it in functions=")
        lines.append(f"{_named(p)}: {', '.join(map(_named, task.inputs))} -> {_named(task.output)}  {names[task.f]}")
    for s in sorted({m.s for m in c.D}):
        on = sorted((m for m in c.D if m.s == s), key=lambda m: m.n)
        lines.append(f"{_named(s)}: {' '.join('|' if m.d == BD else _value(m.d) for m in on)}")
    return "\n".join([*lines, write(Z, c)])


# ---------------------------------------------------------------- words


def _words(text: str) -> list[str]:
    """The words of a text; blanks inside quotes or brackets do not part them."""
    words, word, depth, quote = [], "", 0, ""
    for ch in text:
        if quote:
            escaped = (len(word) - len(word.rstrip("\\"))) % 2
            quote = "" if ch == quote and not escaped else quote
        elif ch in "'\"" and word[-1:] in ("", "=", "(", ",", " ", "["):
            quote = ch
        elif ch in "([{":
            depth += 1
        elif ch in ")]}":
            depth -= 1
        if ch.isspace() and not quote and depth == 0:
            words += [word] if word else []
            word = ""
        else:
            word += ch
    return [*words, word] if word else words


def _short(word: str, c: Configuration | None) -> tuple[TraceStep, Configuration | None]:
    found = _SHORT.match(word)
    if not found:
        raise UsageError(
            f"{word!r} is no step: write a, a<i, a|, a!, ^, or a step in full (see pellucid.failures.model.notation)"
        )
    p = found["p"]
    if found["fail"]:
        return FFail(p), _after(c, FFail(p)) if c is not None else None
    if c is None:
        raise UsageError(f"{word!r}: after a step that cannot be taken, steps must be written out in full")
    if p not in c.Pi:
        raise UsageError(f"{word!r}: there is no task {p!r}: there are {', '.join(c.Pi)}")
    if not found["border"] and not found["s"] and len(c.Pi[p].inputs) > 1:
        raise UsageError(
            f"{word!r}: task {p!r} has the inputs {', '.join(c.Pi[p].inputs)}: say which, as {p}<{c.Pi[p].inputs[0]}"
        )
    stream = found["s"] or c.Pi[p].inputs[0]
    for z, after in steps(c, failures=False):
        match z:
            case IBorder() if z.p == p and found["border"]:
                return z, after
            case IEvent() if z.p == p and not found["border"] and z.X[0].s == stream:
                return z, after
    enabled = ", ".join(_word(z, c) for z, _ in steps(c, failures=False))
    raise UsageError(f"{word!r} cannot be taken here; what can: {enabled or 'nothing'}")


def _full(word: str) -> TraceStep | None:
    found = _FULL.match(word)
    if not found:
        return None
    try:
        numbers = Map({s: int(n) for s, n in (part.rsplit(":", 1) for part in found["N"].split(",") if part)})
        actions, text = [], found["X"] or ""
        while text:
            action = _ACTION.match(text)
            if not action:
                raise ValueError(f"no action at {text!r}")
            text = text[action.end() :]
            data: Any = BD
            if action["d"] == "=":
                value, text = _literal(text)
                data = EV(value)
            actions.append((Produce if action["sign"] == "+" else Consume)(action["s"], int(action["e"]), data))
    except (ValueError, SyntaxError) as error:
        raise UsageError(f"{word!r} is no step: {error}") from None
    X: Actions = tuple(actions)
    return (IBorder if found["border"] else IEvent)(found["p"], numbers, X)


def _literal(text: str) -> tuple[Any, str]:
    """The longest value that a text begins with, and the rest."""
    ends = [m.start() for m in re.finditer(rf"[-+]{_NAME}@", text)] + [len(text)]
    for end in ends:
        try:
            return ast.literal_eval(text[:end]), text[end:]
        except (ValueError, SyntaxError):
            continue
    raise ValueError(f"no value at {text!r}")


def _word(z: TraceStep, c: Configuration) -> str:
    match z:
        case FRecover():
            return "^"
        case FFail(p):
            return f"{_named(p)}!"
        case IBorder(p):
            return f"{_named(p)}|"
    return _named(z.p) + (f"<{_named(z.X[0].s)}" if len(c.Pi[z.p].inputs) > 1 else "")


def _written_out(z: IEvent | IBorder) -> str:
    numbers = ",".join(f"{_named(s)}:{n}" for s, n in z.N.items())
    actions = "".join(
        f"{'+' if isinstance(x, Produce) else '-'}{_named(x.s)}@{x.e}" + ("|" if x.d == BD else f"={_value(x.d)}")
        for x in z.X
    )
    return f"{_named(z.p)}{'|' if isinstance(z, IBorder) else ''}[{numbers}]{actions}"


def _named(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise UsageError(
            f"the name {name!r} cannot be written: a name has letters, digits, _ . ' / # and begins with a letter"
        )
    return name


def _value(data: Any) -> str:
    assert isinstance(data, EV)
    text = repr(data.w)
    try:
        same = ast.literal_eval(text) == data.w
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise UsageError(
            f"the event {text} cannot be written: only numbers, texts, None, and tuples or lists of them can"
        )
    return text


def _epochs(text: str, number: int) -> list[list[Any]]:
    epochs: list[list[Any]] = [[]]
    for word in _words(text):
        if word == "|":
            epochs.append([])
        else:
            try:
                epochs[-1].append(ast.literal_eval(word))
            except (ValueError, SyntaxError):
                raise UsageError(
                    f"line {number}: {word!r} is no event: write numbers, 'texts', or tuples of them"
                ) from None
    if epochs.pop():
        raise UsageError(f"line {number}: the last epoch is without a border: end it with |")
    return epochs


def _after(c: Configuration, z: TraceStep) -> Configuration | None:
    try:
        return apply_trace([z], c)[-1]
    except InvalidTrace:
        return None
