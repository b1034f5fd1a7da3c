"""One function, four ways to run it: as the user wrote it, its trace, and the code written for it in two dialects.

An outcome is ``("value", text)``, ``("overflow",)`` or ``("raise",)``; the text is a ``repr``, so that ``-0.0`` and NaN
count.
"""

from __future__ import annotations

import hashlib
import linecache
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from pellucid import pipeline
from pellucid.internal.engine.kernel.compile import _HEAD, _PLAIN
from pellucid.internal.engine.kernel.emit.pen import lookers
from pellucid.internal.engine.kernel.layout import KernelLayout
from pellucid.internal.engine.kernel.lookups import Lookups
from pellucid.internal.engine.state import TextTable
from pellucid.internal.expr.codegen import OVERFLOW, RAISED, CodeWriter
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call, wrap
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, conform

# Random programs: the text of a function with branches, loops, helpers and many operators.

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


# Texts that are awkward in Unicode, and random functions of them, as the text of a lambda.

TEXTS = [
    "", "a", "AbC,d", "x y", " 7 ", "-3", "1_000", "a,b,c", "ß", "İ", "ı", "ǆ", "e\u0301", "é", "𝔘x", "٣", "１２", "ﬁn",
    "\u1c90", "Σς", "²", "\u2028line", "tab\tx", "C1", "9223372036854775808", "1e3", "nan", "0x1f", "%s", "{}",
]  # fmt: skip
NAMES = {"a": "Alpha", "ß": "sharp", "C1": "Carrier", "": "empty", "x y": "İ"}
NUMBERS = {"a": 1, "b": -5, "٣": 3, "AbC,d": 2**62}
BY_NUMBER = {0: "none", 1: "one", -3: "minus", 7: "sieben"}
PAIRS = {("a", "a"): 1, ("a", "ß"): 2, ("", "a"): 3}
CODES = {"a", "C1", "ß"}
FEW = frozenset({1, 2, 7})
SPACE: dict[str, Any] = {
    "NAMES": NAMES, "NUMBERS": NUMBERS, "BY_NUMBER": BY_NUMBER, "PAIRS": PAIRS, "CODES": CODES, "FEW": FEW,
}  # fmt: skip

texts = st.one_of(
    st.sampled_from(TEXTS),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6),
    st.text("ab,1 ß", max_size=6),
)


def made_of(source: str) -> Any:
    """The lambda of a source, which can be read again: as if it stood in a file."""
    name = f"<made {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(source), None, [source + "\n"], name)
    return eval(compile(source, name, "eval"), dict(SPACE))


_constants = st.sampled_from(['"a"', '"ß"', '","', '" "', '"1"', '""', '"İ"', '"ab"'])
_places = st.sampled_from(["0", "1", "2", "-1", "-2"])


def _of(strategy: Any, form: str, *others: Any) -> Any:
    return st.tuples(strategy, *others).map(lambda parts: form.format(*parts))


def _grown(inner: Any) -> Any:
    strings, numbers, truths = inner
    more_strings = st.one_of(
        *[
            _of(strings, f"{{0}}.{m}()")
            for m in ("upper", "lower", "strip", "title", "casefold", "swapcase", "capitalize")
        ],
        _of(strings, "{0}.replace({1}, {2})", _constants, strings),
        _of(strings, "({0} + {1})", strings),
        _of(strings, "{0}[{1}:{2}]", _places, _places),
        _of(strings, "{0}[::{1}]", st.sampled_from(["2", "-1"])),
        _of(strings, "{0}[{1}]", _places),
        _of(strings, "{0}[:{1}]", numbers),
        _of(strings, "{0}.split({1})[{2}]", st.sampled_from(['","', '"a"', ""]), _places),
        _of(strings, "{0}.partition({1})[{2}]", st.sampled_from(['","', '"a"']), st.sampled_from("012")),
        _of(strings, "NAMES.get({0}, {1})", _constants),
        _of(strings, "NAMES.get({0}, {1})", strings),
        _of(strings, "NAMES[{0}]"),
        _of(numbers, "BY_NUMBER.get({0}, '?')"),
        _of(numbers, "str({0})"),
        _of(strings, 'f"{{{0}}}-{{{1}}}"', numbers),
        _of(strings, 'f"{{{0}!r}}{{{1}:>4}}"', strings),
        _of(strings, '"%s|%s" % ({0}, {1})', numbers),
        _of(strings, '",".join([{0}, {1}])', strings),
        _of(strings, '" ".join({0}.split())'),
        _of(strings, '"<{{}}>".format({0})'),
        _of(strings, "{0}.zfill({1})", st.sampled_from(["0", "3", "5"])),
        _of(strings, "{0}.removeprefix({1})", strings),
        _of(strings, "({0} if {1} else {2})", truths, strings),
    )
    more_numbers = st.one_of(
        _of(strings, "len({0})"),
        _of(strings, "{0}.find({1})", strings),
        _of(strings, "{0}.index({1})", _constants),
        _of(strings, "{0}.count({1})", _constants),
        _of(strings, "int({0})"),
        _of(strings, "NUMBERS[{0}]"),
        _of(strings, "PAIRS.get(({0}, {1}), 0)", strings),
        _of(strings, "ord({0})"),
        _of(strings, '{{"a": 1, "ß": 2}}.get({0}, 0)'),
        _of(strings, '{{"a": 1, "": 3}}[{0}]'),
        _of(numbers, "({0} + {1})", numbers),
        _of(numbers, "({0} * {1})", numbers),
        _of(numbers, "({0} if {1} else {2})", truths, numbers),
    )
    more_truths = st.one_of(
        _of(strings, "{0}.startswith({1})", strings),
        _of(strings, "{0}.endswith(({1}, {2}))", strings, _constants),
        _of(strings, "({0} < {1})", strings),
        _of(strings, "({0} >= {1})", strings),
        _of(strings, "({0} == {1})", strings),
        _of(strings, "({1} in {0})", strings),
        _of(strings, "({0} in CODES)"),
        _of(strings, "({0} not in NAMES)"),
        _of(strings, '({0} in {{"a", "ß"}})'),
        _of(numbers, "({0} in FEW)"),
        *[_of(strings, f"{{0}}.{m}()") for m in ("isdigit", "isalpha", "isupper", "isspace", "isdecimal", "isascii")],
        _of(truths, "({0} and {1})", truths),
        _of(truths, "(not {0})"),
    )
    return st.one_of(strings, more_strings), st.one_of(numbers, more_numbers), st.one_of(truths, more_truths)


_levels = (st.one_of(st.sampled_from(["s", "t"]), _constants), st.sampled_from(["n", "1", "7"]), st.just("(s == t)"))
for _ in range(2):
    _levels = _grown(_levels)


#: A lambda of two texts and a number.
def _is_python(source: str) -> bool:
    """Not a quote within an f-string of such quotes, which Python takes from 3.12 on."""
    try:
        compile(source, "<made>", "eval")
    except SyntaxError:
        return False
    return True


functions = st.one_of(*_levels).map(lambda body: f"lambda s, t, n: {body}").filter(_is_python)


SITE = 7
Outcome = tuple[str, ...]


def values(t: Type) -> st.SearchStrategy[Any]:
    """Events of a type, with the awkward ones often."""
    if t == INT:
        edges = [
            0,
            1,
            -1,
            2,
            -2,
            3,
            7,
            -7,
            10,
            100,
            200,
            987654,
            2**31,
            -(2**31),
            2**53 + 1,
            INT_MAX,
            INT_MAX - 1,
            INT_MIN,
            INT_MIN + 1,
        ]
        return st.one_of(st.sampled_from(edges), st.integers(-20, 20), st.integers(INT_MIN, INT_MAX))
    if t == FLOAT:
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.5,
            1e16,
            2.0**53,
            2.0**63,
            -(2.0**63),
            1e300,
            5e-324,
            math.inf,
            -math.inf,
            math.nan,
        ]
        return st.one_of(st.sampled_from(edges), st.floats(-10, 10), st.floats())
    if t == BOOL:
        return st.booleans()
    if t == STR:
        return st.sampled_from(["", "a", "buy", "sell", "é", "x y"])
    if isinstance(t, EnumType):
        return st.sampled_from(t.members)
    return st.tuples(*(values(kind) for _, kind in t.leaves())).map(t.unflatten)


def arguments(params: Sequence[Type]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(values, params))


def plain(f: Callable[..., Any], traced: Traced, args: Sequence[Any]) -> Outcome:
    try:
        value = f(*[wrap(t, a) for t, a in zip(traced.params, args, strict=True)])
        if traced.count is None:
            return ("value", repr(conform(traced.result, value)))
        events = [conform(traced.event, e) for e in value[1]] if traced.event else []
        return ("value", repr((conform(traced.result, value[0]), events)))
    except Overflow64:
        return ("overflow",)
    except ValueError as error:
        return ("overflow",) if "64 bits" in str(error) else ("raise",)
    except Exception:
        return ("raise",)


def evaluated(traced: Traced, args: Sequence[Any]) -> Outcome:
    try:
        return ("value", repr(evaluate_call(traced, args)))
    except Overflow64:
        return ("overflow",)
    except (UserRaise, Exception):
        return ("raise",)


class Compiled:
    """The statements that ``Writer`` writes for a trace, as a function."""

    def __init__(self, traced: Traced, numba: bool) -> None:
        self.traced = traced
        w = CodeWriter(numba)
        w.depth = 2
        kinds = [kind for t in traced.params for _, kind in t.leaves()]
        names = [f"a{i}" for i in range(len(kinds))]
        roots = traced.roots()
        results = w.function(roots, names, kinds, SITE)
        zeros = {FLOAT: "0.0", BOOL: "False"}
        lookups = list(w.lookups.items())
        self.lookups = Lookups(lookups, numba)
        self.more = ["LA", "LF", "LP"] if numba and lookups else []
        for at in range(len(lookups)):
            self.more += [f"LS{at}", f"LV{at}", f"LK{at}"] if numba else [f"L{at}"]
        lines = [f"def f({', '.join([*names, 'ei', 'ef', *self.more])}):", "    code = 0; site = 0"]
        lines += [f"    r{i} = {zeros.get(e.type, '0')}" for i, e in enumerate(roots)]
        lines += ["    while True:", *w.lines]
        lines += [f"        r{i} = {text}" for i, text in enumerate(results)]
        lines += ["        break", f"    return code, site, {', '.join(f'r{i}' for i in range(len(roots)))}"]
        self.text = "\n".join(lines)
        self.strings, self.kinds, self.roots, self.numba = dict(w.strings), kinds, roots, numba
        space: dict[str, Any] = dict(_PLAIN)
        if numba:
            looking = lookers(KernelLayout(pipeline(lambda x: x, x=int).graph, None, lookups=lookups), True)
            text = "\n".join([_HEAD, looking, *w.functions, "@njit(error_model='numpy')", self.text])
            space = {"__name__": "kernel_text"}
            exec(compile(text, "<kernel>", "exec"), space)
        else:
            exec(self.text, space)
        self.call = space["f"]

    def __call__(self, args: Sequence[Any]) -> Outcome:
        import numpy as np

        leaves = [leaf for t, a in zip(self.traced.params, args, strict=True) for leaf in t.flatten(a)]
        table = TextTable(self.strings)
        codes: list[Any] = []
        for kind, leaf in zip(self.kinds, leaves, strict=True):
            if isinstance(kind, EnumType):
                codes.append(kind.members.index(leaf))
            else:
                codes.append(table.setdefault(leaf, len(table)) if kind == STR else leaf)
        size = len(codes)
        ei, ef = (np.zeros(size, "int64"), np.zeros(size)) if self.numba else ([None] * size, [None] * size)
        self.lookups.of(table)
        known = self.lookups.arguments()
        code, site, *results = self.call(*codes, ei, ef, *[known[name] for name in self.more])
        self.lookups.check()
        if code:
            assert site == SITE and code in (OVERFLOW, RAISED)
            if not self.numba:  # the arguments are kept for the message
                assert all((ef if k == FLOAT else ei)[i] is codes[i] for i, k in enumerate(self.kinds))
            return ("overflow",) if code == OVERFLOW else ("raise",)
        words = {i: text for text, i in table.items()}
        decoded: list[Any] = []
        for e, r in zip(self.roots, results, strict=True):
            if isinstance(e.type, EnumType):
                decoded.append(e.type.members[r])
            elif e.type == STR:
                decoded.append(words[int(r)])
            else:
                decoded.append({BOOL: bool, INT: int, FLOAT: float}[e.type](r))
        return ("value", repr(self._result(decoded)))

    def _result(self, leaves: list[Any]) -> Any:
        t = self.traced
        width = len(t.outputs)
        result = t.result.unflatten(leaves[:width])
        if t.count is None:
            return result
        count, rest = leaves[width], leaves[width + 1 :]
        size = t.event.width if t.event else 0
        return result, [t.event.unflatten(rest[i * size : (i + 1) * size]) for i in range(count) if t.event]


def agree(one: Outcome, other: Outcome, *, strict: bool) -> bool:
    """Equal; where two things fail at once, the trace may come to the other one first."""
    return one == other or (not strict and one[0] != "value" and other[0] != "value")
