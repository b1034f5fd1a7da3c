"""Types and expressions in NuSMV's language.

NuSMV divides as C does, has no bit operations on integers, and refuses an assignment if any of its values, reachable or
not, lies outside a variable's range.  So remainders are made non-negative, bit operations become tables, and a
divisor that may be 0 is replaced by 1 (a definition of its own says where it fails).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.errors import UsageError
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type

Interval = tuple[int, int]

_WORDS = """
MODULE DEFINE MDEFINE CONSTANTS VAR IVAR FROZENVAR INIT TRANS INVAR SPEC CTLSPEC LTLSPEC PSLSPEC COMPUTE NAME
INVARSPEC FAIRNESS JUSTICE COMPASSION ISA ASSIGN CONSTRAINT SIMPWFF CTLWFF LTLWFF PSLWFF COMPWFF IN MIN MAX MIRROR
PRED PREDICATES process array of boolean integer real word word1 bool signed unsigned extend resize sizeof uwconst
swconst EX AX EF AF EG AG E F O G H X Y Z A U S V T BU EBF ABF EBG ABG case esac mod next init union in xor xnor
self TRUE FALSE count abs max min toint floor W R
"""


class SmvNames:
    """Names for NuSMV: letters, digits and ``_``, none twice, none a word of the language.

    >>> names = SmvNames()
    >>> names("cumulate-3fa2c1"), names("cumulate_3fa2c1"), names("U"), names("2nd")
    ('cumulate_3fa2c1', 'cumulate_3fa2c1_2', 'U_2', 'n_2nd')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*taken, *_WORDS.split()}

    def __call__(self, wish: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_]", "_", wish)
        name = name if name[:1].isalpha() else f"n_{name}"
        out, number = name, 1
        while out in self.taken:
            number += 1
            out = f"{name}_{number}"
        self.taken.add(out)
        return out


def literal(value: Any) -> str:
    """A constant of NuSMV; members of enums are symbolic constants.

    >>> literal(True), literal(-3)
    ('TRUE', '-3')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    name = f"{type(value).__name__}_{value.name}"
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        return name
    return re.sub(r"\W", "_", f"n_{name}_{EnumType(type(value)).members.index(value) + 1}", flags=re.ASCII)


def plain(text: str) -> str:
    """The text without the parentheses around all of it.

    >>> plain("(a + (b))"), plain("(a) + (b)")
    ('a + (b)', '(a) + (b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


@dataclass(frozen=True)
class SmvKind:
    """What a variable may hold: its type, and for an int the values themselves.

    >>> print(SmvKind(INT, (0, 1, 2)), SmvKind(INT, (0, 2)), SmvKind(BOOL))
    0..2 {0, 2} boolean
    """

    type: Type
    values: tuple[int, ...] = ()  # of an int, in order

    def __str__(self) -> str:
        if self.type == BOOL:
            return "boolean"
        if isinstance(self.type, EnumType):
            members = [*map(literal, self.type.members), *["no_other"] * self.single]
            return "{" + ", ".join(members) + "}"
        if self.single:
            return f"{self.values[0]}..{self.values[0] + 1}"
        if len(self.values) == self.values[-1] - self.values[0] + 1:
            return f"{self.values[0]}..{self.values[-1]}"
        return "{" + ", ".join(map(str, self.values)) + "}"

    @property
    def single(self) -> bool:
        """Whether there is one value only.  NuSMV would make the variable a constant and take no assignment to it,

        so it is declared with one value more, which is never used.
        """
        return len(self.type.members) == 1 if isinstance(self.type, EnumType) else len(self.values) == 1

    @property
    def default(self) -> str:
        """A value for where it does not matter."""
        if self.type == BOOL:
            return "FALSE"
        if isinstance(self.type, EnumType):
            return literal(self.type.members[0])
        return "0" if 0 in self.values else str(self.values[0])

    @property
    def interval(self) -> Interval:
        """The least and the greatest value that NuSMV sees."""
        return (self.values[0], self.values[-1] + self.single) if self.type == INT else (0, 1)


_BITS: dict[str, Callable[[int, int], int]] = {
    "band": operator.and_,
    "bor": operator.or_,
    "bxor": operator.xor,
    "shl": lambda a, b: a << b if 0 <= b < 63 else 0,
    "shr": lambda a, b: a >> b if b >= 0 else 0,
}


_ONE: dict[str, Callable[[int], int]] = {"neg": operator.neg, "invert": operator.invert, "abs": abs}


class SmvWriter:
    """Writes expressions over named variables; what is used twice, or long, becomes a definition.

    >>> from pellucid.internal.expr import node as n
    >>> a, b = n.var(0, INT), n.var(1, INT)
    >>> w = SmvWriter(["a", "b"], [SmvKind(INT, (0, 1, 2, 3))] * 2)
    >>> w(n.binary("mod", n.sub(a, b), n.const(4)))
    '((a - b) + 4) mod 4'
    """

    def __init__(
        self, names: Sequence[str], kinds: Sequence[SmvKind], who: str = "a function", prefix: str = "t"
    ) -> None:
        self.names, self.kinds, self.who, self.prefix = names, kinds, who, prefix
        self.definitions: list[tuple[str, str]] = []
        self._text: dict[int, str] = {}
        self._range: dict[int, Interval] = {}

    def __call__(self, e: Expr) -> str:
        return plain(self.all([e])[0])

    def all(self, roots: Sequence[Expr]) -> list[str]:
        """Several expressions, which may share parts."""
        uses: dict[int, int] = {}
        parts = list(walk(*roots))
        for part in parts:
            for arg in part.args:
                uses[id(arg)] = uses.get(id(arg), 0) + 1
        for part in parts:
            if id(part) in self._text:
                continue
            self._range[id(part)] = self._interval(part)
            text = self._write(part)
            if part.args and ((uses.get(id(part), 0) > 1 and len(text) > 12) or len(text) > 90):
                text = self.define(text)
            self._text[id(part)] = text
        return [self._text[id(r)] for r in roots]

    def define(self, text: str) -> str:
        """A name for a text."""
        if not re.search(r"\W", text):
            return text
        name = f"{self.prefix}_{len(self.definitions) + 1}"
        self.definitions.append((name, plain(text)))
        return name

    def _write(self, e: Expr) -> str:
        op = e.op
        if op == "var":
            return self.names[int(e.value)]
        if op == "raise":
            return SmvKind(e.type, (0,)).default
        if op == "const":
            if e.type != BOOL and e.type != INT and not isinstance(e.type, EnumType):
                raise self._unknown(e)
            text = literal(e.value)
            return f"({text})" if text.startswith("-") else text
        args = [self._text[id(a)] for a in e.args]
        if op == "after":
            return args[-1]
        if any(a.type != BOOL and a.type != INT and not isinstance(a.type, EnumType) for a in (e, *e.args)):
            raise self._unknown(e)
        infix = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "and": "&", "or": "|"}
        if op in infix:
            return f"({args[0]} {infix[op]} {args[1]})"
        if op == "eq":
            return f"({args[0]} {'<->' if e.args[0].type == BOOL else '='} {args[1]})"
        if op == "not":
            return f"!{args[0]}"
        if op == "ite":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if op == "int_of_bool":
            return f"({args[0]} ? 1 : 0)"
        if op == "neg":
            return f"(0 - {args[0]})"
        if op == "invert":
            return f"(-1 - {args[0]})"
        if op == "abs":
            return args[0] if self._range[id(e.args[0])][0] >= 0 else f"({args[0]} < 0 ? 0 - {args[0]} : {args[0]})"
        if op in ("floordiv", "mod"):
            return self._divide(op, e.args[0], e.args[1])
        if op in _BITS:
            return self._table(op, e.args[0], e.args[1])
        raise self._unknown(e)

    def _unknown(self, e: Expr) -> UsageError:
        return UsageError(
            f"{self.who}: NuSMV has Booleans, integers and symbolic constants only, but a function computes {e}"
        )

    def _divide(self, op: str, a: Expr, b: Expr) -> str:
        """Python's ``//`` and ``%``, in terms of C's ``/`` and ``mod``."""
        left, right = self._text[id(a)], self._text[id(b)]
        (low, _), (least, most) = self._range[id(a)], self._range[id(b)]
        if least <= 0 <= most:
            right = self.define(f"({right} = 0 ? 1 : {right})")
        if least >= 0 and low >= 0:
            return f"({left} {'/' if op == 'floordiv' else 'mod'} {right})"
        if least == most > 0:  # the dividend is moved up by a multiple of the divisor
            shift = -(low // most) * most
            if op == "mod":
                return f"(({left} + {shift}) mod {right})"
            return f"((({left} + {shift}) / {right}) - {shift // most})"
        rest = self.define(f"((({left} mod {right}) + {right}) mod {right})")
        return rest if op == "mod" else f"(({left} - {rest}) / {right})"

    def _table(self, op: str, a: Expr, b: Expr) -> str:
        (low, high), (least, most) = self._range[id(a)], self._range[id(b)]
        if (high - low + 1) * (most - least + 1) > 1024:
            raise UsageError(
                f"{self.who}: NuSMV has no bit operations on integers, and a table of {op} would be too long"
            )
        left, right = self.define(self._text[id(a)]), self.define(self._text[id(b)])
        rows = []
        for x in range(low, high + 1):
            for y in range(least, most + 1):
                value = _BITS[op](x, y)
                if value:
                    rows.append(f"{left} = {x} & {right} = {y} : {value};")
        return f"case {' '.join(rows)} TRUE : 0; esac"

    def _interval(self, e: Expr) -> Interval:
        """Between which integers the expression lies."""
        args = [self._range[id(a)] for a in e.args]
        op = e.op
        if e.type != INT:
            return (0, 1)
        if op == "const":
            return (int(e.value), int(e.value))
        if op == "var":
            return self.kinds[int(e.value)].interval
        if op == "raise":
            return (0, 0)
        if op == "after":
            return args[-1]
        if op == "ite":
            return min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
        if op == "add":
            return args[0][0] + args[1][0], args[0][1] + args[1][1]
        if op == "sub":
            return args[0][0] - args[1][1], args[0][1] - args[1][0]
        if op == "int_of_bool":
            return (0, 1)
        if op in ("neg", "invert", "abs"):
            one = _ONE[op]
            ends = [one(args[0][0]), one(args[0][1])] + [0] * (op == "abs" and args[0][0] <= 0 <= args[0][1])
            return min(ends), max(ends)
        if op == "mod":
            return min(0, args[1][0] + 1), max(0, args[1][1] - 1)
        if op == "mul":
            ends = [x * y for x in args[0] for y in args[1]]
        elif op == "floordiv":
            by = [y for y in (*args[1], -1, 1) if args[1][0] <= y <= args[1][1] and y] or [1]
            ends = [x // y for x in args[0] for y in [*by, 1]]
        elif op in _BITS and (args[0][1] - args[0][0] + 1) * (args[1][1] - args[1][0] + 1) <= 1024:
            ends = [
                _BITS[op](x, y) for x in range(args[0][0], args[0][1] + 1) for y in range(args[1][0], args[1][1] + 1)
            ]
            ends.append(0)
        else:
            raise self._unknown(e)
        return min(ends), max(ends)
