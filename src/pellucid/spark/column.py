"""A traced expression as a Catalyst ``Column``: exactly equal, failures included, or not at all.

The argument.  Catalyst takes an expression that may throw for one that may be dropped, moved and computed early.
Five of its habits would change an answer or a failure, and each has its counter here:

* ``(x + 1) + 2`` becomes ``x + 3`` (and ``(x * a) * 0`` becomes 0), which overflows elsewhere: a chain of sums or
  products with two constants is parted by a shift by 0, which Catalyst leaves alone;
* the right side of ``AND`` and ``OR`` is computed early where it occurs twice: what may fail stands in ``CASE WHEN``;
* a condition is dropped where both branches are equal, a comparison where both sides are: there, and for checks whose
  value is not used, the condition is made *nondeterministic* (``spark_partition_id() >= 0``, which costs nothing);
* a filter is pushed below joins and split at ``AND``: a filter that may fail is one nondeterministic condition
  (:func:`barrier`), which stays where it is;
* a constant that fails fails while the query is planned: it becomes ``raise_error``, which waits for a row.

And Spark differs from Python in what the operations mean: division truncates, NaN is equal to itself and above all
numbers, ``-0.0`` and ``0.0`` are one literal, a bigint is compared with a double as a double, a cast saturates.  What
cannot be written exactly is refused with :class:`NotNative` and its reason; the pipeline then runs in the kernel.

Values are ``bigint``, ``double``, ``boolean`` and ``string``; an enum is the name of its member.  Only
``pyspark.sql.functions`` is used, so all of this works over Spark Connect as well.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import known
from pellucid.internal.expr.evaluate import UserRaise, evaluate
from pellucid.internal.expr.node import Expr, fails, fails_here, walk
from pellucid.internal.expr.rewrite import EXACT, may_be_nan, within
from pellucid.internal.expr.types import BOOL, FLOAT, INT, EnumType, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

MARK = "[pellucid] "  # what every error that is raised on purpose begins with
MAX_SIZE = 2_000  # how many operations one column may have once every shared part is written out
MAX_DEPTH = 150  # how deep they may nest: Catalyst is recursive


@dataclass(frozen=True)
class NoColumn:
    """Stands for a leaf that Spark's expressions cannot read exactly."""

    reason: str


class NotNative(Exception):  # noqa: N818 - internal: the pipeline runs in the kernel instead
    """An expression has no exact counterpart in Catalyst; ``reason`` says why, in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def native_type(t: Type) -> str:
    """The Spark type of a leaf.

    >>> native_type(INT), native_type(FLOAT), native_type(BOOL)
    ('bigint', 'double', 'boolean')
    """
    names: dict[Type, str] = {INT: "bigint", FLOAT: "double", BOOL: "boolean"}
    return names.get(t, "string")


def failure(message: str, t: Type) -> Column:
    """A column of this type that fails with a message, where a row reaches it."""
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(MARK + message)).cast(native_type(t))


def barrier(condition: Column) -> Column:
    """The same condition, as one that Catalyst neither splits nor moves: for a filter that may fail."""
    from pyspark.sql import functions as F

    here = F.spark_partition_id()
    return here == F.when(condition, here).otherwise(F.lit(-1))


def checked(checks: Sequence[tuple[Column, Type]], value: Column) -> Column:
    """The value, once the checks (columns and their types) have been evaluated: Catalyst cannot drop them."""
    from pyspark.sql import functions as F

    never = F.spark_partition_id() < 0
    out: Column | None = None
    for made, t in checks:
        zero = made if t == BOOL else made == F.lit(0 if t == INT else 0.0 if t == FLOAT else "")
        unreachable = F.raise_error(F.lit(MARK + "unreachable"))
        out = F.when(zero & never, unreachable) if out is None else out.when(zero & never, unreachable)
    return value if out is None else out.otherwise(value)


def column(e: Expr, leaves: Sequence[Column], *, ansi: bool, raises: Sequence[str] = ()) -> Column:
    """The expression over these leaf columns, equal on every 64-bit input, or ``NotNative``.

    ``raises`` are the messages of the user's own ``raise`` places, by number.  The leaves hold no null and no NaN.  The
    column is for a projection; a filter takes it behind :func:`barrier` if it may fail::

        total = trace(lambda a, b: a + b, (INT, INT)).outputs[0]
        df.select(column(total, [F.col("a"), F.col("b")], ansi=True))   # a + b, an error where it overflows
    """
    reason = why_not(e, ansi=ansi)
    if reason is not None:
        raise NotNative(reason)
    return _Translation(leaves, raises).run(e)


def why_not(e: Expr, *, ansi: bool) -> str | None:
    """Why an expression has no exact counterpart; None if it has one.

    >>> from pellucid.internal.expr.node import binary, const, var
    >>> v = var(0, INT)
    >>> why_not(binary("truediv", v, const(3)), ansi=True)
    'divides integers that may be above 2**53, where Spark rounds twice'
    >>> why_not(binary("truediv", v, const(4)), ansi=True) is None
    True
    >>> why_not(binary("add", v, v), ansi=False)
    'may overflow (add), which only fails with spark.sql.ansi.enabled'
    """
    for part in walk(e):
        reason = _refused(part, ansi)
        if reason is not None:
            return reason
    if size(e) > MAX_SIZE:
        return f"is written out in more than {MAX_SIZE:,} operations"
    depth: dict[int, int] = {}
    for part in walk(e):
        depth[id(part)] = 1 + max((depth[id(a)] for a in part.args), default=0)
    return f"nests deeper than {MAX_DEPTH} operations" if depth[id(e)] > MAX_DEPTH else None


def size(e: Expr) -> int:
    """How many operations a column has once every shared part is written out.

    >>> from pellucid.internal.expr.node import add, var
    >>> v = var(0, INT)
    >>> size(add(add(v, v), add(v, v)))
    7
    """
    found: dict[int, int] = {}
    for part in walk(e):
        found[id(part)] = 1 + _copies(part) * sum(found[id(a)] for a in part.args)
    return found[id(e)]


_COPIES = {"floordiv": 3, "mod": 3, "trunc": 3, "floor": 3, "ceil": 3, "nearest": 3, "sqrt": 2, "shr": 2}


def _copies(e: Expr) -> int:
    """How often the translation writes each argument."""
    if e.op in ("eq", "lt", "le"):
        return 4 if _mixed(e) else 2 if any(map(may_be_nan, e.args)) else 1
    return _COPIES.get(e.op, 1)


def _mixed(e: Expr) -> bool:
    return {a.type for a in e.args} == {INT, FLOAT}


def _refused(e: Expr, ansi: bool) -> str | None:
    """Why this one operation has no exact counterpart."""
    op, args = e.op, e.args
    if op == "const":
        return _refused_constant(e.value)
    if op != "var" and op not in _Translation.STEPS:
        return f"uses the operation {op!r}, which Spark's expressions do not have"
    if not ansi and fails_here(e) and op in ("add", "sub", "mul", "neg", "abs", "floordiv", "mod", "truediv", "shl"):
        return f"may overflow ({op}), which only fails with spark.sql.ansi.enabled"
    if op == "floordiv" and e.type == FLOAT:
        return "uses // on floats, which Spark does not have"
    if op == "truediv" and args[0].type == INT and not _exact_quotient(e):
        return "divides integers that may be above 2**53, where Spark rounds twice"
    if op == "shl" and not (_constant_shift(e) or within(args[1], 0, 62)):
        return "shifts left by an amount that may be outside 0 to 62"
    if op in ("eq", "lt", "le"):
        if args[0].type != args[1].type and not _mixed(e):
            return f"compares {args[0].type} with {args[1].type}"
        if op != "eq" and isinstance(args[0].type, EnumType):
            return "asks which of two enum members is smaller"
        if all(a.args for a in args) and _shape(args[0]) == _shape(args[1]):
            return "compares two expressions that Catalyst may take for the same one"
    return None


def _refused_constant(value: Any) -> str | None:
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return "uses the constant -0.0, which Spark takes for 0.0"
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "uses a text that is not valid Unicode"
    return None


def _constant_shift(e: Expr) -> bool:
    return e.args[1].op == "const" and 0 <= e.args[1].value <= 62


def _exact_quotient(e: Expr) -> bool:
    """Whether ``a / b`` of two integers is that of two doubles: both exact, or a scaling by a power of two."""
    a, b = e.args
    if b.op == "const" and b.value != 0 and abs(b.value) & (abs(b.value) - 1) == 0:
        return True
    return within(a, -EXACT, EXACT) and within(b, -EXACT, EXACT)


def _shape(e: Expr) -> Counter[Any]:
    """What an expression is made of, whatever the order: equal for all that Catalyst could take for equal."""
    count: Counter[Any] = Counter()
    weight: dict[int, int] = {id(e): 1}
    for part in reversed(list(walk(e))):  # users before what they use
        times = weight.get(id(part), 0)
        count[(part.op, str(part.type), repr(part.value))] += times
        for a in part.args:
            weight[id(a)] = weight.get(id(a), 0) + times
    return count


class _Translation:
    def __init__(self, leaves: Sequence[Column], raises: Sequence[str]) -> None:
        from pyspark.sql import functions as F

        self.f = F
        self.leaves = leaves
        self.raises = raises
        self.made: dict[int, Column] = {}
        self.varies: dict[int, bool] = {}

    def run(self, e: Expr) -> Column:
        for part in walk(e):
            self.varies[id(part)] = part.op == "var" or any(self.varies[id(a)] for a in part.args)
            self.made[id(part)] = self.one(part)
        return self.made[id(e)]

    def one(self, e: Expr) -> Column:
        if e.op == "var":
            leaf = self.leaves[e.value]
            if isinstance(leaf, NoColumn):
                raise NotNative(leaf.reason)
            return leaf
        if e.op == "const":
            return self.literal(e.value)
        if fails(e) and not self.varies[id(e)]:
            return self.constant(e)
        rule = known(self.STEPS, e.op, "Spark's expressions", "operation")
        return rule(self, e, *[self.made[id(a)] for a in e.args])

    # -- constants

    def literal(self, value: Any) -> Column:
        if isinstance(value, enum.Enum):
            return self.f.lit(value.name)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.f.lit(value).cast("bigint")
        return self.f.lit(value)

    def constant(self, e: Expr) -> Column:
        """A constant that may fail: Catalyst would find out before there is a row."""
        try:
            return self.literal(evaluate(e, ()))
        except UserRaise as error:
            return failure(self.message(error.number), e.type)
        except Exception as error:
            return failure(f"{type(error).__name__}: {error}", e.type)

    def message(self, number: int) -> str:
        return self.raises[number] if number < len(self.raises) else "the pipeline raises here"

    # -- what Catalyst must not drop

    def kept(self, condition: Column) -> Column:
        """The condition, evaluated even where both answers lead to the same."""
        return condition & (self.f.spark_partition_id() >= 0)

    def checked(self, checks: Sequence[Expr], value: Column) -> Column:
        """The value, once the checks have been evaluated."""
        return checked([(self.made[id(e)], e.type) for e in checks], value)

    # -- the operations

    def _add(self, e: Expr, a: Column, b: Column) -> Column:
        a, b = self.parted(e, a, b)
        return a + b

    def _mul(self, e: Expr, a: Column, b: Column) -> Column:
        for zero, other in (e.args, e.args[::-1]):
            if zero.op == "const" and zero.type == INT and zero.value == 0:
                return self.checked([other], self.literal(0))
        a, b = self.parted(e, a, b)
        return a * b

    def parted(self, e: Expr, a: Column, b: Column) -> tuple[Column, Column]:
        """The operands, held apart from the operation if Catalyst would take constants out of them: the rest may
        overflow without."""
        if e.type != INT or not any(_joins(arg, e.op) for arg in e.args):
            return a, b
        first, second = (
            self.f.shiftright(c, 0) if _joins(arg, e.op) else c for arg, c in zip(e.args, (a, b), strict=True)
        )
        return first, second

    def _floordiv(self, e: Expr, a: Column, b: Column) -> Column:
        divisor = e.args[1]
        power = divisor.value.bit_length() - 1 if divisor.op == "const" and divisor.value > 0 else 0
        if power and divisor.value == 1 << power:
            return self.f.shiftright(a, power)
        quotient, rest = self.f.call_function("div", a, b), a % b
        return self.f.when(self.crossed(divisor, rest, b), quotient - self.literal(1)).otherwise(quotient)

    def _mod(self, e: Expr, a: Column, b: Column) -> Column:
        divisor, rest = e.args[1], a % b
        if e.type == FLOAT:
            zero = self.f.signum(b) * self.f.lit(0.0)  # with the divisor's sign; written so, as -0.0 is no literal
            wrong = (b < 0.0) != (rest < 0.0)
            return self.f.when(rest == 0.0, zero).when(wrong, rest + b).otherwise(rest)
        if divisor.op == "const" and divisor.value > 0:
            if divisor.value & (divisor.value - 1) == 0:
                return a.bitwiseAND(self.literal(divisor.value - 1))
            return self.f.pmod(a, b)
        return self.f.when(self.crossed(divisor, rest, b), rest + b).otherwise(rest)

    def crossed(self, divisor: Expr, rest: Column, b: Column) -> Column:
        """Whether truncation went the other way than Python: the rest has not the divisor's sign."""
        zero = self.literal(0)
        if divisor.op == "const":
            return rest < zero if divisor.value > 0 else rest > zero
        return (rest != zero) & ((rest < zero) != (b < zero))

    def _truediv(self, e: Expr, a: Column, b: Column) -> Column:
        return a.cast("double") / b.cast("double") if e.args[0].type == INT else a / b

    def _shl(self, e: Expr, a: Column, b: Column) -> Column:
        if e.args[1].op == "const":
            a = self.f.shiftright(a, 0) if _joins(e.args[0], "mul") else a
            return a * self.literal(1 << e.args[1].value)
        return a * self.f.call_function("shiftleft", self.literal(1), b.cast("int"))

    def _shr(self, e: Expr, a: Column, b: Column) -> Column:
        amount = e.args[1]
        bad = failure("ValueError: negative shift count", INT)
        if amount.op == "const":
            return bad if amount.value < 0 else self.f.shiftright(a, min(amount.value, 63))
        moved = self.f.call_function("shiftright", a, self.f.least(b, self.literal(63)).cast("int"))
        return self.f.when(b < self.literal(0), bad).otherwise(moved)

    def rounded(self, a: Column, whole: Column) -> Column:
        """Only where a double is in range: Spark's own functions saturate, in some versions silently."""
        fits = (a >= self.f.lit(-(2.0**63))) & (a < self.f.lit(2.0**63))  # NaN is above all numbers
        return self.f.when(fits, whole).otherwise(failure("a float that is no 64-bit integer was rounded to one", INT))

    def _sqrt(self, e: Expr, a: Column) -> Column:
        return self.f.when(a < 0.0, failure("ValueError: the square root of a negative number", FLOAT)).otherwise(
            self.f.sqrt(a)
        )

    # -- comparison

    def compared(self, e: Expr, a: Column, b: Column) -> Column:
        left, right = e.args
        if _mixed(e):
            return self.compared_exactly(e, a, b)
        answer = _sign(e.op, a, b)
        # Of two floats Spark is wrong where the right one is NaN (below it: everything; equal to it: NaN).
        return answer & ~self.f.isnan(b) if left.type == FLOAT and may_be_nan(right) else answer

    def compared_exactly(self, e: Expr, a: Column, b: Column) -> Column:
        """An int with a float.  As doubles, where they differ; where they are equal, the float is a whole number."""
        int_left = e.args[0].type == INT
        whole, real = (e.args[0], e.args[1]) if int_left else (e.args[1], e.args[0])
        i, f = (a, b) if int_left else (b, a)
        d = i.cast("double") if whole.op != "const" else self.f.lit(float(whole.value))
        exact = within(whole, -EXACT, EXACT) or (whole.op == "const" and float(whole.value) == whole.value)
        if exact:
            answer = _sign(e.op, *((d, f) if int_left else (f, d)))
        else:
            top, back = f >= self.f.lit(2.0**63), f.cast("bigint")
            tie = _sign(e.op, *((i, back) if int_left else (back, i)))
            at_top = self.f.lit(e.op != "eq" and int_left)
            answer = self.f.when(d < f, self.f.lit(e.op != "eq" and int_left)).when(
                d > f, self.f.lit(e.op != "eq" and not int_left)
            )
            answer = answer.when(top, at_top).otherwise(tie)
        wrong = may_be_nan(real) and e.op != "eq" and int_left
        return answer & ~self.f.isnan(f) if wrong else answer

    # -- control

    def _and(self, e: Expr, a: Column, b: Column) -> Column:
        if not fails(e):
            return a & b
        if e.args[1].op == "const":  # False: what was true is gone already
            return self.checked(e.args[:1], self.f.lit(False))
        return self.f.when(a, b).otherwise(self.f.lit(False))

    def _or(self, e: Expr, a: Column, b: Column) -> Column:
        if not fails(e):
            return a | b
        if e.args[1].op == "const":
            return self.checked(e.args[:1], self.f.lit(True))
        return self.f.when(a, self.f.lit(True)).otherwise(b)

    def _ite(self, e: Expr, c: Column, yes: Column, no: Column) -> Column:
        condition, then, other = e.args
        same = fails(condition) and _shape(then) == _shape(other)
        return self.f.when(self.kept(c) if same else c, yes).otherwise(no)

    STEPS: ClassVar[dict[str, Callable[..., Column]]] = {
        "add": _add, "mul": _mul, "floordiv": _floordiv, "mod": _mod, "truediv": _truediv, "shl": _shl, "shr": _shr,
        "sqrt": _sqrt, "eq": compared, "lt": compared, "le": compared, "and": _and, "or": _or, "ite": _ite,
        "trunc": lambda self, e, a: self.rounded(a, a.cast("bigint")),
        "floor": lambda self, e, a: self.rounded(a, self.f.floor(a)),
        "ceil": lambda self, e, a: self.rounded(a, self.f.ceil(a)),
        "nearest": lambda self, e, a: self.rounded(a, self.f.rint(a).cast("bigint")),
        "after": lambda self, e, *args: self.checked(e.args[:-1], args[-1]),
        "raise": lambda self, e: failure(self.message(e.value), e.type),
        "sub": lambda self, e, a, b: a - b,
        "band": lambda self, e, a, b: a.bitwiseAND(b),
        "bor": lambda self, e, a, b: a.bitwiseOR(b),
        "bxor": lambda self, e, a, b: a.bitwiseXOR(b),
        "neg": lambda self, e, a: -a,
        "abs": lambda self, e, a: self.f.abs(a),
        "invert": lambda self, e, a: self.f.bitwise_not(a),
        "not": lambda self, e, a: ~a,
        "int_of_bool": lambda self, e, a: a.cast("bigint"),
        "float_of_int": lambda self, e, a: a.cast("double"),
    }  # fmt: skip


def _joins(e: Expr, op: str) -> bool:
    """Whether Catalyst would find a constant in this chain of sums or products."""
    stack = [e]
    while stack:
        part = stack.pop()
        if part.op == "shl" and op == "mul" and part.args[1].op == "const":
            return True
        if part.op == op and part.type == INT:
            if any(a.op == "const" for a in part.args):
                return True
            stack.extend(part.args)
    return False


def _sign(op: str, a: Column, b: Column) -> Column:
    return a == b if op == "eq" else a < b if op == "lt" else a <= b
