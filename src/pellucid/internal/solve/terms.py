"""Expressions as z3 terms.

* An int is a mathematical integer (of a strict system: what comes in and what is kept has 64 bits), ``//`` and ``%`` as
  in Python (z3's own differ where the divisor is negative).
* A bool is a Bool.  An enum is its member's place in the class, a str a number in a table (where it is only compared
  for equality): both are bounded integers, and every variable of such a type is known to be in its bounds.
* A str that is looked into is a string of the solver (`solve.text`).
* A float is an IEEE double, rounded to nearest even, bit by bit, which is slow; `pellucid.check.smt.lemmas` takes them
  for an order first.
* Bits of ints are refused, but for ``~a``, shifts by a constant and masks ``a & (2**k - 1)``, which are arithmetic.
* Where an operation fails, its value is a fixed one (0, False, the first member): its failure is a term of its own.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.errors import UsageError, known
from pellucid.internal.expr.node import Expr, walk
from pellucid.internal.expr.rewrite import TEXT_OPS, Pure, order_of_text
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type
from pellucid.internal.model.search import Budget, patiently

# The solver itself: z3, asked within a budget.


def load_z3() -> Any:
    """The z3 module, or a clear word on how to get it."""
    try:
        import z3
    except ImportError:
        raise UsageError("the symbolic engine needs the z3 solver: pip install 'pellucid[check]'") from None
    return z3


def ask(solver: Any, clock: Budget, *assumptions: Any, limit: float | None = None) -> bool | None:
    """Whether it can be satisfied; None if the time was not enough (or z3 gave up)."""
    left = clock.left()
    if limit is not None:
        left = limit if left is None else min(left, limit)
    if left is None:
        return _check(solver, 2**32 - 1, assumptions)
    return patiently(left, lambda seconds: _check(solver, max(1, int(seconds * 1000)), assumptions))


def _check(solver: Any, milliseconds: int, assumptions: tuple[Any, ...]) -> bool | None:
    solver.set("timeout", milliseconds)
    answer = str(solver.check(*assumptions))
    if answer == "unknown" and "interrupt" in solver.reason_unknown():
        raise KeyboardInterrupt  # z3 swallows Ctrl-C
    return {"sat": True, "unsat": False}.get(answer)


# Strings that are looked into, as z3's strings; and functions of which only their consistency is known, as
# uninterpreted ones.
#
# Both are sequences of code points.  z3 has those below 0x30000 only, Python all below 0x110000; no operation here can
# tell: each of them stays the same if the characters that no constant has are renamed one by one, in their order, and
# 65,536 are left above those that a constant may have.  So a run with stranger characters has a twin among z3's
# strings, unless more different characters than that matter in it.  Constants beyond are refused.
#
# ``facts`` are true of the real functions: their answers to the constants of the system, and what a search has learnt
# from calling them.

HIGHEST = 0x1FFFF  # the largest code point of a constant


class Texts:
    """The strings of terms."""

    def __init__(self, code: Terms) -> None:
        self.code, self.z3 = code, code.z3
        self._functions: dict[Pure, tuple[Any, Any]] = {}
        self.facts: list[Any] = []
        self.calls: dict[Expr, list[Any]] = {}  # every call, with its arguments

    def learn(self, evaluated: Callable[[Any], Any]) -> list[Any]:
        """What the functions really answer where a model, which has invented their answers, calls them."""
        learnt: list[Any] = []
        for e, terms in self.calls.items():
            kinds = [a.type for a in e.args]
            args = tuple(self.code.python(t, evaluated(term)) for t, term in zip(kinds, terms, strict=True))
            learnt += self.fact(e.value, kinds, args, *e.value.answer(*args))
        return learnt

    def value(self, text: str) -> Any:
        """A Python string as a z3 one, code point by code point (z3's own reading of a text has escapes)."""
        if any(ord(c) > HIGHEST for c in text):
            raise UsageError(
                f"the symbolic engine takes characters up to U+{HIGHEST:X}, found {text!r}: use another character, or "
                "an enum in place of the text"
            )
        z3, points = self.z3, [ord(c) for c in text]
        ctx = z3.main_ctx()
        return z3.SeqRef(z3.Z3_mk_u32string(ctx.ref(), len(points), (ctypes.c_uint * len(points))(*points)), ctx)

    def python(self, v: Any) -> str:
        """A z3 string as a Python one; what is no plain value becomes the empty one, and is not believed before it was
        run."""
        z3 = self.z3
        v = v if z3.is_string_value(v) else z3.simplify(v)
        if not z3.is_string_value(v):
            return ""
        size = z3.Z3_get_string_length(v.ctx_ref(), v.as_ast())
        points = (ctypes.c_uint * size)()
        z3.Z3_get_string_contents(v.ctx_ref(), v.as_ast(), size, points)
        return "".join(map(chr, points))

    def sort(self, t: Type) -> Any:
        """The sort of a type's terms; floats may be doubles, or numbers with an order."""
        return self.code.constant("sort", t).sort()

    def function(self, f: Pure, kinds: list[Type]) -> tuple[Any, Any]:
        """A pure function and whether it fails, uninterpreted."""
        if f not in self._functions:
            sorts, i = [self.sort(t) for t in kinds], len(self._functions)
            self._functions[f] = (
                self.z3.Function(f"call{i}", *sorts, self.sort(f.result)),
                self.z3.Function(f"fails{i}", *sorts, self.z3.BoolSort()),
            )
        return self._functions[f]

    def fact(self, f: Pure, kinds: list[Type], args: tuple[Any, ...], failed: bool, value: Any) -> list[Any]:
        """What a function really answers; nothing about strings that z3 does not have."""
        texts = [v for v in (*args, value) if isinstance(v, str)]
        if any(ord(c) > HIGHEST for t in texts for c in t):
            return []
        value_of, fails = self.function(f, kinds)
        given = [self.code.value(t, a) for t, a in zip(kinds, args, strict=True)]
        out = [fails(*given) if failed else self.z3.Not(fails(*given))] if f.may_fail else []
        return out if failed else [*out, self.code.same(value_of(*given), self.code.value(f.result, value))]

    def term(self, e: Expr, args: list[Any]) -> Any:
        """An operation on strings, or a call."""
        if e.op in ("call", "call_fails"):
            self.calls[e] = args
            return self.function(e.value, [a.type for a in e.args])[e.op == "call_fails"](*args)
        return known(_TERMS, e.op, "the solver's text", "operation")(self.z3, *args)


_TERMS: dict[str, Callable[..., Any]] = {
    "length": lambda z3, s: z3.Length(s),
    "concat": lambda z3, a, b: z3.Concat(a, b),
    "starts": lambda z3, s, t: z3.PrefixOf(t, s),
    "ends": lambda z3, s, t: z3.SuffixOf(t, s),
    "holds": lambda z3, s, t: z3.Contains(s, t),
    "find": lambda z3, s, t: z3.IndexOf(s, t, 0),
    "part": lambda z3, s, a, b: z3.SubString(s, a, b - a),
    "lt": lambda z3, a, b: a < b,
    "le": lambda z3, a, b: a <= b,
}


class Terms:
    """Expressions over ``variables`` as z3 terms; ``texts``: strings are looked into; ``strict``: ints have 64 bits.

    >>> from pellucid.internal.expr import node as n
    >>> from pellucid.internal.model import Budget
    >>> from pellucid.internal.solve.terms import ask
    >>> code = Terms()
    >>> code.variables = [code.constant("a", INT), code.constant("b", INT)]
    >>> a, b = n.var(0, INT), n.var(1, INT)
    >>> solver = code.z3.Solver()
    >>> solver.add(code.term(n.lt(n.add(a, b), n.add(b, a))))
    >>> ask(solver, Budget(10.0))
    False
    """

    def __init__(self, *, texts: bool = False, strict: bool = False) -> None:
        self.z3 = z3 = load_z3()
        self.strict = strict
        self.variables: list[Any] = []
        self.strings: dict[str, int] = {"": 0}
        self._made: dict[int, Any] = {}
        self._double, self._near = z3.Float64(), z3.RNE()
        self.text = Texts(self) if texts else None

    def default(self, t: Type) -> Any:
        """The value of an operation that fails."""
        return t.members[0] if isinstance(t, EnumType) else {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]

    def where(self, e: Expr) -> str:
        """Where an expression is from, for a message."""
        return ""

    def listing(self) -> str:
        """What lists the events, so that explicit search can try them, for a message."""
        return "give a finite domain, such as ints=range(0, 8)"

    # ------------------------------------------------------------ values and variables

    def constant(self, name: str, t: Type) -> Any:
        """A z3 constant for a variable of this type."""
        if t == BOOL:
            return self.z3.Bool(name)
        if t == STR and self.text is not None:
            return self.z3.String(name)
        return self.z3.FP(name, self._double) if t == FLOAT else self.z3.Int(name)

    def value(self, t: Type, v: Any) -> Any:
        """A Python value as a z3 one."""
        if t == BOOL:
            return self.z3.BoolVal(v)
        if t == FLOAT:
            return self.z3.FPVal(v, self._double)
        if isinstance(t, EnumType):
            return self.z3.IntVal(t.members.index(v))
        if t == STR and self.text is not None:
            return self.text.value(v)
        return self.z3.IntVal(v if t == INT else self.strings.setdefault(v, len(self.strings)))

    def python(self, t: Type, v: Any) -> Any:
        """A z3 value as a Python one; a string that no constant names becomes one of its own."""
        z3 = self.z3
        if t == BOOL:
            return bool(z3.is_true(v))
        if t == FLOAT:
            if v.isNaN():
                return float("nan")
            if v.isInf() or v.isZero():
                return float(("-" if v.isNegative() else "") + ("inf" if v.isInf() else "0.0"))
            exact = z3.simplify(z3.fpToReal(v))
            return exact.numerator_as_long() / exact.denominator_as_long()
        if t == STR and self.text is not None:
            return self.text.python(v)
        number = v.as_long()
        if isinstance(t, EnumType):
            return t.members[number]
        if t == INT:
            return number
        for text, code in self.strings.items():
            if code == number:
                return text
        return f"other {number - len(self.strings) + 1}"

    def bounds(self, t: Type, v: Any) -> list[Any]:
        """What holds of every value of the type."""
        if isinstance(t, EnumType):
            return [v >= 0, v < len(t.members)]
        if t == INT and self.strict:
            return [v >= INT_MIN, v <= INT_MAX]
        return [v >= 0] if t == STR and self.text is None else []

    def not_nan(self, v: Any) -> Any:
        """That a float is a number."""
        return self.z3.Not(self.z3.fpIsNaN(v))

    def settled(self, terms: Sequence[Any], pairs: list[tuple[Any, Any]]) -> list[Any]:
        """Terms with values in place of variables, as far as they have a value then."""
        return [self.z3.simplify(self.z3.substitute(term, *pairs)) for term in terms]

    def same(self, a: Any, b: Any) -> Any:
        """Identity (of floats, too: NaN is itself, and 0.0 is not -0.0)."""
        z3 = self.z3
        return z3.BoolRef(z3.Z3_mk_eq(a.ctx_ref(), a.as_ast(), b.as_ast()), a.ctx) if z3.is_fp(a) else a == b

    # ------------------------------------------------------------ expressions

    def term(self, e: Expr) -> Any:
        """An expression over state and input as a z3 term."""
        return self.terms([e])[0]

    def terms(self, roots: Sequence[Expr]) -> list[Any]:
        """Expressions as z3 terms; a shared part is translated once."""
        for e in walk(*roots):
            if id(e) not in self._made:
                args = [self._made[id(a)] for a in e.args]
                text = e.op in TEXT_OPS or (e.op in ("lt", "le") and order_of_text(e))
                self._made[id(e)] = self._text_one(e, args) if text else self._one(e, args)
        return [self._made[id(r)] for r in roots]

    def _one(self, e: Expr, args: list[Any]) -> Any:
        z3, op = self.z3, e.op
        if op == "var":
            return self.variables[e.value]
        if op in ("const", "raise"):
            return self.value(e.type, e.value if op == "const" else self.default(e.type))
        if op in _LOGIC:
            return _LOGIC[op](z3, *args)
        if op == "after":
            return args[-1]
        if op == "overflows":
            return z3.Or(args[0] > INT_MAX, args[0] < INT_MIN)
        kinds = [a.type for a in e.args]
        if op in ("eq", "lt", "le"):
            to_constant = self._to_constant(e, args, kinds)
            return self._compare(op, args, kinds) if to_constant is None else to_constant
        made = self._int(e, args) if e.type == INT and INT in kinds else self._float(op, args, kinds)
        if made is None:
            instead = f"{self.listing()}, for the explicit engine, or write it with + - * // %"
            if FLOAT in (e.type, *kinds):
                instead = "explicit search takes no floats either; compute it with ints, such as cents or milliseconds"
            raise UsageError(
                f"{self.where(e)}the symbolic engine does not do {op!r} of {' and '.join(map(str, kinds))}: {instead}"
            )
        return made

    def _text_one(self, e: Expr, args: list[Any]) -> Any:
        if self.text is None:
            raise UsageError(
                f"{self.where(e)}the symbolic engine was not told that {e} looks inside text; please report this"
            )
        return self.text.term(e, args)

    def _int(self, e: Expr, args: list[Any]) -> Any:
        z3, op, a = self.z3, e.op, args[0]
        b: Any = args[1] if len(args) > 1 else None
        fixed = e.args[1].value if b is not None and e.args[1].op == "const" else None
        if op in _INT:
            return _INT[op](z3, a, b)
        if op in ("floordiv", "mod"):
            up = a / b if op == "floordiv" else a % b  # for b > 0 as in Python
            down = (-a) / (-b) if op == "floordiv" else -((-a) % (-b))
            if fixed:
                return up if fixed > 0 else down
            return z3.If(b > 0, up, z3.If(b < 0, down, z3.IntVal(0)))
        # beyond that nothing is left, but the number is long
        if op in ("shl", "shr") and fixed is not None and 0 <= fixed <= 1024:
            return a * 2**fixed if op == "shl" else a / 2**fixed
        if op == "band":
            for x, mask in ((args[0], e.args[1]), (args[1], e.args[0])):
                if mask.op == "const" and mask.value >= 0 and mask.value & (mask.value + 1) == 0:
                    return x % (mask.value + 1)
        return None

    def _to_constant(self, e: Expr, args: list[Any], kinds: list[Type]) -> Any:
        """A float compared with an int that is a constant, among doubles, because z3's reals of doubles are slow; None:
        something else.

        Between two neighbouring doubles lie many ints: ``x > c`` is then ``x >= `` the upper one.
        """
        at = kinds.index(INT) if set(kinds) == {FLOAT, INT} else None
        if at is None or e.args[at].op != "const":
            return None
        z3, c, x = self.z3, e.args[at].value, args[1 - at]
        low = high = float(c)
        if int(low) != c:
            low, high = (low, math.nextafter(low, math.inf)) if int(low) < c else (math.nextafter(low, -math.inf), low)
        below, above = self.value(FLOAT, low), self.value(FLOAT, high)
        if e.op == "eq":
            return z3.fpEQ(x, below) if low == high else z3.BoolVal(False)
        strict = e.op == "lt" and low == high
        if at == 0:  # c < x, c <= x
            return z3.fpLT(above, x) if strict else z3.fpLEQ(above, x)
        return z3.fpLT(x, below) if strict else z3.fpLEQ(x, below)

    def _compare(self, op: str, args: list[Any], kinds: list[Type]) -> Any:
        z3, (a, b) = self.z3, args
        if kinds[0] == kinds[1] == FLOAT:
            return {"eq": z3.fpEQ, "lt": z3.fpLT, "le": z3.fpLEQ}[op](a, b)
        if FLOAT not in kinds:
            return {"eq": lambda: a == b, "lt": lambda: a < b, "le": lambda: a <= b}[op]()
        # An int and a float are compared exactly, as reals; infinity and NaN have no real.
        double, left = (a, True) if kinds[0] == FLOAT else (b, False)
        reals = [z3.fpToReal(v) if t == FLOAT else z3.ToReal(v) for v, t in zip(args, kinds, strict=True)]
        exact = self._compare(op, reals, [INT, INT])
        above = z3.BoolVal(False) if op == "eq" else z3.fpIsNegative(double) == z3.BoolVal(left)
        return z3.If(z3.fpIsNaN(double), z3.BoolVal(False), z3.If(z3.fpIsInf(double), above, exact))

    def _float(self, op: str, args: list[Any], kinds: list[Type]) -> Any:
        z3, a, near = self.z3, args[0], self._near
        b: Any = args[1] if len(args) > 1 else None
        if op == "int_of_bool":
            return z3.If(a, z3.IntVal(1), z3.IntVal(0))
        if op == "float_of_int":
            return z3.fpRealToFP(near, z3.ToReal(a), self._double)
        if op == "truediv" and kinds[0] == INT:
            quotient = z3.fpRealToFP(near, z3.ToReal(a) / z3.ToReal(z3.If(b == 0, z3.IntVal(1), b)), self._double)
            nothing = z3.If(b < 0, self.value(FLOAT, -0.0), self.value(FLOAT, 0.0))  # 0 / -5 is -0.0, which no real is
            return z3.If(z3.Or(a == 0, b == 0), nothing, quotient)
        if op in ("add", "mul") and b.get_id() < a.get_id():
            a, b = b, a  # they commute: so a + b and b + a are one term
        if op in ("add", "sub", "mul", "truediv"):
            return {"add": z3.fpAdd, "sub": z3.fpSub, "mul": z3.fpMul, "truediv": z3.fpDiv}[op](near, a, b)
        if op in ("neg", "abs"):
            return z3.fpNeg(a) if op == "neg" else z3.fpAbs(a)
        if op == "sqrt":
            return z3.fpSqrt(near, a)
        if op in ("trunc", "floor", "ceil", "nearest"):
            mode = {"trunc": z3.RTZ, "floor": z3.RTN, "ceil": z3.RTP, "nearest": z3.RNE}[op]()
            whole = z3.ToInt(z3.fpToReal(z3.fpRoundToIntegral(mode, a)))
            return z3.If(z3.Or(z3.fpIsNaN(a), z3.fpIsInf(a)), z3.IntVal(0), whole)
        return None


_LOGIC: Mapping[str, Callable[..., Any]] = {
    "and": lambda z3, a, b: z3.And(a, b),
    "or": lambda z3, a, b: z3.Or(a, b),
    "not": lambda z3, a: z3.Not(a),
    "ite": lambda z3, c, a, b: z3.If(c, a, b),
}
_INT: Mapping[str, Callable[..., Any]] = {
    "add": lambda z3, a, b: a + b,
    "sub": lambda z3, a, b: a - b,
    "mul": lambda z3, a, b: a * b,
    "neg": lambda z3, a, b: -a,
    "abs": lambda z3, a, b: z3.If(a >= 0, a, -a),
    "invert": lambda z3, a, b: -a - 1,
}


# Transition systems in a solver: one frame as terms, and runs of them push by push.


class Transition(Terms):
    """States with a start, inputs, and what comes next, as terms over one frame.

    Expressions number the variables: those of the state first, then the inputs.

    >>> from pellucid.internal.expr import node as n
    >>> from pellucid.internal.expr.types import INT
    >>> counter = Transition([("count", INT, 0)], [INT])
    >>> counter.define([n.add(n.var(0, INT), n.const(1))])
    >>> counter.next
    [s0 + 1]
    """

    def __init__(
        self,
        state: Sequence[tuple[str, Type, Any]],
        inputs: Sequence[Type],
        *,
        texts: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__(texts=texts, strict=strict)
        self.names = tuple(name for name, _, _ in state)
        self.state_types, self.input_types = [t for _, t, _ in state], list(inputs)
        self.sizes: list[int | None] = [None] * len(state)  # of variables with so many values
        self.state = [self.constant(f"s{i}", t) for i, t in enumerate(self.state_types)]
        self.inputs = [self.constant(f"i{i}", t) for i, t in enumerate(inputs)]
        self.variables = [*self.state, *self.inputs]
        self.start = [self.value(t, v) for _, t, v in state]
        self.next: list[Any] = []
        self.assume: Any = self.z3.BoolVal(True)

    def define(self, following: Sequence[Expr], assume: Expr | None = None) -> None:
        """What each variable of the state is next, and what is assumed of a frame."""
        self.next = self.terms(following)
        if assume is not None:
            self.assume = self.term(assume)

    def typing(self, state: Sequence[Any]) -> list[Any]:
        """What the types alone say of a state."""
        return [b for t, c in zip(self.state_types, state, strict=True) for b in self.bounds(t, c)]

    def allowed(self, inputs: Sequence[Any] | None = None) -> list[Any]:
        """What may come in."""
        inputs = self.inputs if inputs is None else inputs
        return [b for t, c in zip(self.input_types, inputs, strict=True) for b in self.bounds(t, c)]

    def again(self) -> Transition:
        """The same afresh."""
        raise NotImplementedError


class Frames:
    """A run of a system as constraints: frame t has a state and the inputs of a push.

    With ``start`` the first state is the system's own, otherwise any state of the right types.
    """

    def __init__(self, code: Transition, solver: Any, *, start: bool) -> None:
        self.code, self.solver = code, solver
        self.states: list[list[Any]] = [code.start] if start else []
        self.inputs: list[list[Any]] = []
        self._made: dict[tuple[int, int], tuple[Any, Any]] = {}
        if not start:
            self._state()
        self._input()

    def _state(self) -> list[Any]:
        t = len(self.states)
        made = [self.code.constant(f"s{i}@{t}", kind) for i, kind in enumerate(self.code.state_types)]
        self.states.append(made)
        self.solver.add(*self.code.typing(made))
        return made

    def _input(self) -> None:
        t = len(self.inputs)
        made = [self.code.constant(f"i{i}@{t}", kind) for i, kind in enumerate(self.code.input_types)]
        self.inputs.append(made)
        self.solver.add(*self.code.allowed(made), *self.at(t, [self.code.assume]))

    def extend(self) -> None:
        """One more push."""
        t = len(self.states) - 1
        values = self.at(t, self.code.next)
        for c, v in zip(self._state(), values, strict=True):
            self.solver.add(self.code.same(c, v))
        self._input()

    def at(self, t: int, terms: Sequence[Any]) -> list[Any]:
        """Terms of one frame, at frame t."""
        pairs = list(zip(self.code.state, self.states[t], strict=True))
        pairs += zip(self.code.inputs, self.inputs[t], strict=True)
        out = []
        for term in terms:
            key = t, term.get_id()
            if key not in self._made:  # z3 numbers live terms: the term is kept beside its copy
                self._made[key] = term, self.code.z3.substitute(term, *pairs)
            out.append(self._made[key][1])
        return out

    def distinct(self, t: int) -> Any:
        """State t differs from all the states before it."""
        z3, code = self.code.z3, self.code
        return z3.And([
            z3.Or([z3.Not(code.same(a, b)) for a, b in zip(self.states[t], before, strict=True)])
            for before in self.states[:t]
        ])  # fmt: skip
