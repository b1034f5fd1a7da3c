"""Statements for an expression: the code generator of the fused loops.

The text is Python.  In the **numba** dialect it is compiled, and integer operations use the overflow
flags of the processor; in the **plain** dialect CPython runs it, and results are range-checked.  Both keep
the meaning of the DAG: a part that may fail is evaluated only where the function would have done so,
shared parts once.

A failure sets ``code`` (what went wrong) and ``site`` (in which function), keeps the function's arguments
in ``ei`` / ``ef``, and leaves the loop: the host then calls the user's own function on them for the message.

What looks inside text, as engines run it: calls of pure functions, whose answers they keep.

A text is a number in a kernel, and many events have the same one.  So every part of a function that depends on one text
alone becomes one call, `Inner`: Python's own methods, in the order of the trace, and lazily as there.  What needs two
texts, or a text and a number (``a + b``, ``a < b``, ``s[:n]``), becomes a call of both.

>>> from pellucid.internal.expr.tracing.trace import trace
>>> from pellucid.internal.expr.types import INT, STR
>>> f = trace(lambda s, n: n + 1 if s[:2].upper() == "AB" and s.isalpha() else n, (STR, INT), text=True)
>>> lowered(f).outputs[0]
v1 + 1 if looked_up(v0) else v1
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pellucid.errors import NotNamed, known
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import LAZY, Expr, Overflow64, fails, fails_here, surely, walk
from pellucid.internal.expr.rewrite import TEXT_OPS, CallFails, Direct, Pure, call, order_of_text, rebuild, replaced
from pellucid.internal.expr.tracing.running import MOST_ARGUMENTS
from pellucid.internal.expr.tracing.trace import Traced
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, fits_int

OVERFLOW = 1  # an integer left 64 bits
RAISED = 2  # Python would raise here: the user's own raise, a division by zero, …

_MAX_INDENT = 80  # CPython reads at most 100 levels
_MAX_LINES = 20_000  # CPython takes a second to compile so many
_MAX_LOOPS = 10  # and 20 loops, one in the other
_LARGE = 60  # operations of a function that is compiled by itself
_SMALL = 8  # operations: what is sooner done, or written twice, than kept


class TooLarge(Exception):  # noqa: N818
    """There would be too much code, or it nests too deeply: says why it is not compiled."""


def look_name(result: Type, kinds: tuple[Type, ...]) -> str:
    """The compiled function that finds an answer to arguments of these types: by a text's code, or by a search.

    >>> look_name(INT, (STR,)), look_name(STR, (STR, FLOAT))
    ('look_code_i', 'look_if_i')
    """
    how = "code" if kinds == (STR,) else "".join("f" if t == FLOAT else "i" for t in kinds)
    return f"look_{how}_{'f' if result == FLOAT else 'i'}"


class CodeWriter:
    """Collects lines; knows the dialect, the indentation and how to leave on a failure."""

    def __init__(self, numba: bool) -> None:
        self.numba = numba
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0  # of all lines
        self.names = 0
        self.strings: dict[str, int] = {}
        self.functions: list[str] = []  # the text of those that are called
        self.on_fail: list[str] | None = None  # instead of leaving the loop
        self.lookups: dict[
            Pure, tuple[Type, ...]
        ] = {}  # functions that are looked up, with the types of their arguments

    # -- text
    def line(self, text: str) -> None:
        """Add one line at the present indentation."""
        if self.depth > _MAX_INDENT:
            raise TooLarge("one of its functions nests too deeply")
        self.count += 1
        if self.count > _MAX_LINES:
            raise TooLarge(f"one of its functions makes more than {_MAX_LINES:,} lines of code")
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; an empty one gets ``pass``."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A block that is a loop: a failure inside leaves the outer loop as well."""
        before = len(self.lines)
        with self.block(head):
            yield
        if self.on_fail is None and any(text.endswith("break") for text in self.lines[before:]):
            self.line("if code != 0: break")

    def fresh(self, stem: str = "t") -> str:
        """A name that is not used yet."""
        self.names += 1
        return f"{stem}{self.names}"

    def rare(self, condition: str) -> str:
        """A Boolean condition that hardly ever holds: the compiler keeps what follows out of the way."""
        return f"_rare({condition})" if self.numba else condition

    def string(self, text: str) -> int:
        """The code of a constant string: constants come first in every table of strings."""
        return self.strings.setdefault(text, len(self.strings))

    def lookup(self, f: Pure, kinds: tuple[Type, ...]) -> int:
        """The number of a function whose answers the host keeps (`engine.kernel.lookups`)."""
        self.lookups.setdefault(f, kinds)
        return list(self.lookups).index(f)

    # -- expressions
    def function(self, roots: Sequence[Expr], leaves: Sequence[str], kinds: Sequence[Type], site: int) -> list[str]:
        """Emit the expressions of one function over the named leaves; return where the results are."""
        code = ExpressionCode(self, roots, leaves, kinds, site)
        if not self.numba or len(code.order) <= _LARGE:
            return code.run()
        self.functions.append(code.apart(f"apart{len(self.functions)}"))
        return code.results

    def constant(self, e: Expr) -> str:
        """A constant as text."""
        value = e.value
        if isinstance(value, enum.Enum):
            assert isinstance(e.type, EnumType)
            return str(e.type.members.index(value))
        if isinstance(value, str):
            return str(self.string(value))
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, int):
            return "_MIN" if value == INT_MIN else f"({value})" if value < 0 else str(value)
        if math.isinf(value) or math.isnan(value):
            return "_NAN" if math.isnan(value) else "_INF" if value > 0 else "(-_INF)"
        return f"({value!r})" if value < 0 or str(value).startswith("-") else repr(value)


class _Block:
    """A block of the code that is going to be written: of a branch, or the outermost."""

    def __init__(self, outer: _Block | None) -> None:
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.inner: dict[tuple[int, int], _Block] = {}
        self.ahead: list[Expr] = []  # what is evaluated before its first branch

    def of(self, branch: int, side: int) -> _Block:
        """The block of one side of a branch."""
        return self.inner.setdefault((branch, side), _Block(self))

    def common(self, other: _Block) -> _Block:
        """The innermost block that both are in."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.outer is not None
            a = a.outer
        return a


def _size(e: Expr, known: Mapping[int, int]) -> int:
    """How many operations it is, or more than `_SMALL`; a call is many.  Of its arguments that is known."""
    if any(known[id(a)] > _SMALL for a in e.args):
        return _SMALL + 1
    return sum(100 if part.op == "call" else 1 for part in walk(e))


class ExpressionCode:
    """The statements for the expressions of one function: about as many as the DAG has nodes, not as it has paths.

    Results that branch by the same condition share the branch.  A larger part that several blocks need is evaluated
    before the branch that they are in, once; if it fails, that is kept in a flag, which is looked at where the part is
    needed.
    """

    def __init__(
        self, w: CodeWriter, roots: Sequence[Expr], leaves: Sequence[str], kinds: Sequence[Type], site: int
    ) -> None:
        self.w, self.roots, self.leaves, self.kinds, self.site = w, roots, leaves, kinds, site
        self.flag: str | None = None  # where a failure is noted; None: it leaves the loop
        self.within = 0  # how many blocks that a failure leaves there are around
        self.order = list(walk(*roots))
        uses: dict[int, int] = {}
        for used in [*roots, *(a for e in self.order for a in e.args)]:
            uses[id(used)] = uses.get(id(used), 0) + 1
        self.shared = {i for i, count in uses.items() if count > 1}
        self.must: dict[int, frozenset[Expr]] = {}
        self.small: dict[int, bool] = {}
        sizes: dict[int, int] = {}
        for e in self.order:
            self.must[id(e)] = self._must(e)
            sizes[id(e)] = _size(e, sizes)
            self.small[id(e)] = not fails(e) and sizes[id(e)] <= _SMALL
        self._place(uses)

    def _must(self, e: Expr) -> frozenset[Expr]:
        """The shared parts that are evaluated whenever ``e`` is."""
        out = surely(e, [self.must[id(a)] for a in e.args])
        return out | {e} if e.args and id(e) in self.shared else out

    def _place(self, uses: dict[int, int]) -> None:
        """Find the block of each part, the branches that results share, and what is evaluated before a branch."""
        self.top = _Block(None)
        home: dict[int, _Block] = {}
        spread: set[int] = set()  # what several blocks need
        listed: dict[int, int] = {}  # how often a part is one of several results that are wanted in one block

        def wanted(e: Expr, block: _Block) -> None:
            found = home.setdefault(id(e), block)
            if found is not block:
                spread.add(id(e))
                home[id(e)] = found.common(block)

        for r in self.roots:
            wanted(r, self.top)
            listed[id(r)] = listed.get(id(r), 0) + 1
        self.together: set[int] = set()
        self.home = home
        for e in reversed(self.order):
            block = home[id(e)]
            if e.op == "ite" and listed.get(id(e)) == uses[id(e)] and id(e) not in spread:
                self.together.add(id(e))
            for side, a in enumerate(e.args):
                wanted(a, self._block(e, side, block))
            if id(e) in self.together:
                for a in e.args[1:]:
                    listed[id(a)] = listed.get(id(a), 0) + 1
        cost: dict[int, int] = {}
        ahead: set[int] = set()
        for e in self.order:
            most = 10**9 if e.op == "call" else 1 + sum(1 if id(a) in ahead else cost[id(a)] for a in e.args)
            cost[id(e)] = min(most, 10**9)
            kept = _SMALL < cost[id(e)] < 10**9  # what only Python can answer is asked where it must be
            if id(e) in spread and (kept or (e.op in _SUMS and e.type == INT and cost[id(e)] < 10**9)):
                ahead.add(id(e))
                home[id(e)].ahead.append(e)

    def _block(self, e: Expr, side: int, block: _Block) -> _Block:
        """The block in which an argument is evaluated, of an operation that stands in ``block``."""
        if e.op not in LAZY or side == 0 or e.op == "after" or all(self.small[id(a)] for a in e.args[1:]):
            return block
        return block.of(id(e.args[0] if id(e) in self.together else e), side)

    def run(self) -> list[str]:
        """Write all; return where the results are."""
        if sum(map(fails_here, self.order)) < 2:
            return self.several(self.roots, {}, self.top)
        flag = self.w.fresh("b")
        out = self.noting(flag)
        self._pass_on(flag)
        return out

    def noting(self, flag: str) -> list[str]:
        """The same, with a failure noted in a flag."""
        with self._until_failure(flag):
            return self.several(self.roots, {}, self.top)

    def apart(self, name: str) -> str:
        """The same as a call of a compiled function, whose text is returned: text that is twice as long takes more than
        twice as long to compile."""
        w, flag, leaves = self.w, self.w.fresh("b"), self.leaves
        outer, w.lines, depth, w.depth = w.lines, [], w.depth, 1
        self.leaves = [f"a{j}" for j in range(len(leaves))]
        found = self.noting(flag)
        body, w.lines, w.depth = w.lines, outer, depth
        tables = sorted(set(re.findall(r"\b(?:L[AFP]|L[SVK]\d+)\b", "\n".join(body))))
        own = list(dict.fromkeys(f for f, r in zip(found, self.roots, strict=True) if r.args))
        given = dict(zip(self.leaves, leaves, strict=True)) | {f: w.fresh() for f in own}
        w.line(f"{', '.join(given[f] for f in own)}, {flag} = {name}({', '.join([*leaves, *tables])})")
        head = f"@_function\ndef {name}({', '.join([*self.leaves, *tables])}):"
        self.leaves = leaves
        self._pass_on(flag)
        self.results = [given.get(f, f) for f in found]
        return "\n".join([head, *body, f"    return {', '.join(own)}, {flag}", ""])

    # -- failures
    @contextmanager
    def _until_failure(self, flag: str) -> Iterator[None]:
        """A block that a failure leaves at once, with its code in the flag."""
        w, outer = self.w, self.flag
        if self.within == _MAX_LOOPS:
            raise TooLarge("one of its functions nests too deeply")
        w.line(f"{flag} = 0")
        self.flag = flag
        self.within += 1
        with w.block("while True:"):
            yield
            w.line("break")
        self.within -= 1
        self.flag = outer

    def _pass_on(self, flag: str) -> None:
        if flag[0] == "f":
            return self.fail_if(flag, OVERFLOW)
        with self.w.block(f"if {self.w.rare(f'{flag} != 0')}:"):
            self.fail(flag)

    def fail(self, code: int | str) -> None:
        """Fail here, with a code or one that is in a variable."""
        if self.flag is not None:
            self.w.line(f"{self.flag} = {code}; break")
        else:
            self.leave(code)

    def leave(self, code: int | str) -> None:
        w = self.w
        if w.on_fail is not None:
            for text in w.on_fail:
                w.line(text)
            return
        w.line(f"code = {code}; site = {self.site}")
        for i, t in enumerate(self.kinds):
            w.line(f"{'ef' if t == FLOAT else 'ei'}[{i}] = {self.leaves[i]}")
        w.line("break")

    def fail_if(self, condition: str, code: int) -> None:
        with self.w.block(f"if {self.w.rare(condition)}:"):
            self.fail(code)

    # -- values
    def several(self, wanted: Sequence[Expr], env: dict[int, str], block: _Block) -> list[str]:
        """Results that are all wanted in a block: those that branch by the same condition do so together."""
        for e in wanted:
            if id(e) in self.together and id(e) not in env and not self._selects(e, env):
                alike = dict.fromkeys(
                    o
                    for o in wanted
                    if id(o) in self.together
                    and id(o) not in env
                    and o.args[0] is e.args[0]
                    and not self._selects(o, env)
                )
                self._branch(list(alike), env, block)
            else:
                self.gen(e, env)
        return [self.gen(e, env) for e in wanted]

    def gen(self, e: Expr, env: dict[int, str]) -> str:
        if e.op == "const":
            return self.w.constant(e)
        if e.op == "var":
            return str(self.leaves[e.value])
        stack = [(e, False)]  # what is evaluated in any case comes first, without recursion: chains may be long
        while stack:
            part, ready = stack.pop()
            if part.op in ("const", "var") or self._there(part, env):
                continue
            if ready:
                env[id(part)] = self._emit(part, env)
                continue
            stack.append((part, True))
            first = part.args[:1] if part.op in LAZY else part.args
            stack.extend((a, False) for a in reversed(first))
        return env[id(e)]

    def _there(self, e: Expr, env: dict[int, str]) -> bool:
        """Whether it was evaluated already; if it failed then, it fails now."""
        if id(e) not in env:
            return False
        flag = env.pop(-id(e), None)
        if flag is not None:
            self._pass_on(flag)
        return True

    def _emit(self, e: Expr, env: dict[int, str]) -> str:
        w = self.w
        if e.op == "raise":
            name = w.fresh()
            w.line(f"{name} = {_ZERO.get(str(e.type), '0')}")
            self.fail(RAISED)
            return name
        if e.op == "ite":
            if not self._selects(e, env):
                self._branch([e], env, self.home[id(e)])
                return env[id(e)]
            name = w.fresh()
            c, a, b = (self.gen(part, env) for part in e.args)
            w.line(f"{name} = {a} if {c} else {b}")
            return name
        if e.op in ("and", "or"):
            return self._short(e, env)
        if e.op == "after":
            for part in e.args[:-1]:
                self.gen(part, env)
            return self.gen(e.args[-1], env)
        args = [self.gen(a, env) for a in e.args]
        return self._operation(e, args)

    def _light(self, e: Expr, env: dict[int, str]) -> bool:
        """Whether what is not evaluated yet of it is small and never fails: better computed than jumped over."""
        if self.small[id(e)]:
            return True
        stack, count = [e], 0
        while stack:
            part = stack.pop()
            if id(part) in env and -id(part) not in env:
                continue
            count += 1
            if count > _SMALL or part.op == "call" or fails_here(part):
                return False
            stack.extend(part.args)
        return True

    def _selects(self, e: Expr, env: dict[int, str]) -> bool:
        return self._light(e.args[1], env) and self._light(e.args[2], env)

    def _branch(self, alike: list[Expr], env: dict[int, str], block: _Block) -> None:
        """Branches of one condition."""
        w = self.w
        test = self.gen(alike[0].args[0], env)
        sides = [[e.args[side] for e in alike] for side in (1, 2)]
        yes, no = (frozenset().union(*(self.must[id(a)] for a in side)) for side in sides)
        for part in sorted(yes & no, key=lambda p: len(self.must[id(p)])):
            self.gen(part, env)
        self._ahead(env, block)
        for side, raises in enumerate(any(e.op == "raise" for e in side) for side in sides):
            if raises:  # only the other side continues
                with w.block(f"if {test if side == 0 else f'not {test}'}:"):
                    self.fail(RAISED)
                for e, value in zip(alike, self.several(sides[1 - side], env, block), strict=True):
                    env[id(e)] = value
                return
        names = [w.fresh() for _ in alike]
        for side, head in enumerate((f"if {test}:", "else:")):
            with w.block(head):
                found = self.several(sides[side], dict(env), self._block(alike[0], side + 1, block))
                for name, value in zip(names, found, strict=True):
                    w.line(f"{name} = {value}")
        for e, name in zip(alike, names, strict=True):
            env[id(e)] = name

    def _ahead(self, env: dict[int, str], block: _Block) -> None:
        """Evaluate what several branches of a block need, whether they will be taken or not."""
        parts, block.ahead = block.ahead, []  # not again, inside of what is evaluated now
        for part in parts:
            if id(part) in env:
                continue
            if not fails(part):
                self.gen(part, env)
                continue
            name = self.w.fresh()
            if part.op in _SUMS and part.type == INT and not any(map(fails, part.args)):
                flag = self.w.fresh("f")
                self._sum(part, name, [self.gen(a, env) for a in part.args], flag)
                env[id(part)], env[-id(part)] = name, flag
                continue
            flag = self.w.fresh("b")
            self.w.line(f"{name} = {_ZERO.get(str(part.type), '0')}")
            with self._until_failure(flag):
                self.w.line(f"{name} = {self.gen(part, dict(env))}")
            env[id(part)], env[-id(part)] = name, flag  # the flag is there until it has been looked at
        block.ahead = parts

    def _short(self, e: Expr, env: dict[int, str]) -> str:
        w = self.w
        a, b = e.args
        first = self.gen(a, env)
        name = w.fresh()
        if self._light(b, env):
            w.line(f"{name} = {first} {e.op} {self.gen(b, env)}")
            return name
        self._ahead(env, self.home[id(e)])
        w.line(f"{name} = {first}")
        with w.block(f"if {name}:" if e.op == "and" else f"if not {name}:"):
            w.line(f"{name} = {self.gen(b, dict(env))}")
        return name

    def _operation(self, e: Expr, args: list[str]) -> str:
        w, op = self.w, e.op
        name = w.fresh()
        a = args[0] if args else ""
        b = args[1] if len(args) > 1 else ""
        kinds = [x.type for x in e.args]
        if order_of_text(e):  # texts are numbers here, in the order in which they came
            raise NotNamed(f"the kernel's code does not know the operation {op!r} of two texts")
        if op in _SUMS and e.type == INT:
            if w.numba:
                flag = w.fresh("f")
                self._sum(e, name, args, flag)
                self.fail_if(flag, OVERFLOW)
            else:
                w.line(f"{name} = {a} {_SUMS[op]} {b}")
                self.fail_if(f"not {INT_MIN} <= {name} <= {INT_MAX}", OVERFLOW)
        elif op in ("floordiv", "mod"):
            self._divide(e, name, a, b)
        elif op == "truediv":
            if fails_here(e):
                self.fail_if(f"{b} == 0", RAISED)
            w.line(f"{name} = _idiv({a}, {b})" if kinds[0] == INT and w.numba else f"{name} = {a} / {b}")
        elif op in ("neg", "abs"):
            if e.type == INT:
                self.fail_if(f"{a} == _MIN", OVERFLOW)
            w.line(f"{name} = -{a}" if op == "neg" else f"{name} = abs({a})")
        elif op == "digits":
            places = e.args[1].value
            w.line(f"{name} = _digits({a}, {10.0**places!r}, {10**places})" if w.numba else f"{name} = round({a}, {b})")
        elif op in ("shl", "trunc", "floor", "ceil", "nearest"):
            flag = w.fresh("f")
            w.line(f"{name}, {flag} = _{op}({', '.join(args)})")
            self.fail_if(f"{flag} == 1", OVERFLOW)
            self.fail_if(f"{flag} == 2", RAISED)
        elif op == "shr":
            if fails_here(e):
                self.fail_if(f"{b} < 0", RAISED)
            w.line(f"{name} = {a} >> min({b}, 63)")
        elif op == "sqrt":
            self.fail_if(f"{a} < 0", RAISED)
            w.line(f"{name} = _sqrt({a})")
        elif op == "call":
            self._look_up(e, name, args)
        elif op in ("eq", "lt", "le") and w.numba and {INT, FLOAT} == set(kinds):
            mixed = "if" if kinds[0] == INT else "fi"
            w.line(f"{name} = _{op}_{mixed}({a}, {b})")
        else:
            w.line(f"{name} = " + known(_TEXT, op, "the kernel's code", "operation").format(a=a, b=b))
        return name

    def _sum(self, e: Expr, name: str, args: list[str], flag: str) -> None:
        """A sum, a difference or a product, and whether it left 64 bits, which is `OVERFLOW`."""
        a, b = args
        if self.w.numba:
            self.w.line(f"{name}, {flag} = _{e.op}({a}, {b})")
        else:
            self.w.line(f"{name} = {a} {_SUMS[e.op]} {b}; {flag} = not {INT_MIN} <= {name} <= {INT_MAX}")

    def _look_up(self, e: Expr, name: str, args: list[str]) -> None:
        """A function that only Python can answer, asked once for each arguments: the host keeps a table."""
        w, kinds = self.w, tuple(x.type for x in e.args)
        at = w.lookup(e.value, kinds)
        if w.numba:
            flag = w.fresh("f")
            found = name if e.type != BOOL else w.fresh("v")
            look = look_name(e.type, kinds)
            w.line(f"{found}, {flag} = {look}({at}, LA, LF, LP, LS{at}, LV{at}, LK{at}, {', '.join(args)})")
            if fails_here(e):
                self.fail_if(f"{flag} == 3", OVERFLOW)
                self.fail_if(f"{flag} == 2", RAISED)
            if e.type == BOOL:
                w.line(f"{name} = {found} != 0")
            return
        whole = [f"int({a})" if t == BOOL else a for a, t in zip(args, kinds, strict=True)]
        if FLOAT in kinds:  # -0.0 and 0.0 are one key of a dictionary, and nan is none
            w.line(f"{name} = L{at}.asked({', '.join(whole)})")
        else:
            w.line(f"{name} = L{at}[{', '.join(whole)}]")
        if fails_here(e):
            self.fail_if(f"{name} is None", RAISED)
            self.fail_if(f"{name} is L{at}", OVERFLOW)

    def _divide(self, e: Expr, name: str, a: str, b: str) -> None:
        w = self.w
        sign = "//" if e.op == "floordiv" else "%"
        divisor = e.args[1]
        if divisor.op != "const" or divisor.value == 0:
            self.fail_if(f"{b} == 0", RAISED)
        if e.type == FLOAT:
            w.line(f"{name} = _f{e.op}({a}, {b})" if w.numba else f"{name} = {a} {sign} {b}")
        elif divisor.op == "const" and divisor.value != -1:
            w.line(f"{name} = {a} {sign} {b}")
        elif e.op == "floordiv":
            self.fail_if(f"{b} == -1 and {a} == _MIN", OVERFLOW)
            w.line(f"{name} = {a} // {b}")
        else:  # INT_MIN % -1 traps in hardware; it is 0
            w.line(f"{name} = 0")
            with w.block(f"if {b} != -1:"):
                w.line(f"{name} = {a} % {b}")


_SUMS = {"add": "+", "sub": "-", "mul": "*"}
_ZERO = {"bool": "False", "int": "0", "float": "0.0", "str": "0"}
_TEXT = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "invert": "~{a}",
    "band": "{a} & {b}",
    "bor": "{a} | {b}",
    "bxor": "{a} ^ {b}",
    "eq": "{a} == {b}",
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "not": "not {a}",
    "int_of_bool": "int({a})",
    "float_of_int": "float({a})",
}


def _shl(a: int, b: int) -> tuple[int, int]:
    if b < 0:
        return 0, 2
    if a != 0 and b > 64:
        return 0, 1
    value = a << min(b, 64)
    return (value, 0) if fits_int(value) else (0, 1)


def _rounded(f: Callable[[float], int]) -> Callable[[float], tuple[int, int]]:
    def rounded(x: float) -> tuple[int, int]:
        try:
            value = f(x)
        except (ValueError, OverflowError):
            return 0, 2
        return (value, 0) if fits_int(value) else (0, 1)

    return rounded


#: What the plain dialect names beyond Python's own.
PLAIN: dict[str, Any] = {
    "_MIN": INT_MIN,
    "_INF": math.inf,
    "_NAN": math.nan,
    "_shl": _shl,
    "_trunc": _rounded(math.trunc),
    "_floor": _rounded(math.floor),
    "_ceil": _rounded(math.ceil),
    "_nearest": _rounded(round),
    "_sqrt": math.sqrt,
}


class Inner:
    """An expression over a few leaves as a function of Python's own values."""

    def __init__(self, e: Expr, kinds: Sequence[Type]) -> None:
        self.e, self.kinds = e, tuple(kinds)
        self._f: Callable[..., Any] | None = None

    def __call__(self, *leaves: Any) -> Any:
        if self._f is None:
            self._f = _function(self.e, self.kinds)
        return self._f(*leaves)

    def __reduce__(self) -> tuple[Any, ...]:
        return Inner, (self.e, self.kinds)


# ---------------------------------------------------------------- the function of an expression


_TEXT_LOOKUP = {
    "length": "len({0})",
    "concat": "{0} + {1}",
    "starts": "{0}.startswith({1})",
    "ends": "{0}.endswith({1})",
    "holds": "{1} in {0}",
    "find": "{0}.find({1})",
    "part": "{0}[{1}:{2}]",
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
}


class _Writer(CodeWriter):
    """Writes with the values themselves, where a kernel has their codes."""

    def __init__(self) -> None:
        super().__init__(False)
        self.space: dict[str, Any] = {**PLAIN, "_Overflow64": Overflow64, "_CallFails": CallFails}

    def named(self, value: Any) -> str:
        """A name for an object."""
        name = self.fresh("g")
        self.space[name] = value
        return name

    def constant(self, e: Expr) -> str:
        """A constant as text."""
        if isinstance(e.value, enum.Enum):
            return self.named(e.value)
        return repr(e.value) if isinstance(e.value, str) else super().constant(e)


class _Code(ExpressionCode):
    w: _Writer

    def leave(self, code: int | str) -> None:
        self.w.line(f"raise _Overflow64 if {code} == {OVERFLOW} else _CallFails")

    def _operation(self, e: Expr, args: list[str]) -> str:
        if e.op == "call":
            name = self.w.fresh()
            self.w.line(f"{name} = {self.w.named(e.value.f)}({', '.join(args)})")
            if e.type == INT:
                self.fail_if(f"not {INT_MIN} <= {name} <= {INT_MAX}", OVERFLOW)
            return name
        if e.op == "call_fails":
            name = self.w.fresh()
            self.w.line(f"{name} = {self.w.named(e.value.answer)}({', '.join(args)})[0]")
            return name
        if e.op in TEXT_OPS or (e.args and e.args[0].type == STR and e.op in _TEXT_LOOKUP):
            name = self.w.fresh()
            self.w.line(f"{name} = {_TEXT_LOOKUP[e.op].format(*args)}")
            return name
        return super()._operation(e, args)


def _function(e: Expr, kinds: Sequence[Type]) -> Callable[..., Any]:
    if e.op == "call" and [a.value for a in e.args] == list(range(len(e.args))) and all(a.op == "var" for a in e.args):
        return e.value  # type: ignore[no-any-return]
    w = _Writer()
    names = [f"v{i}" for i in range(len(kinds))]
    try:
        (result,) = _Code(w, [e], names, kinds, 0).run()
    except TooLarge:
        return lambda *leaves: evaluate(e, leaves)
    text = "\n".join([f"def f({', '.join(names)}):", *w.lines, f"    return {result}"])
    exec(compile(text, "<pellucid text>", "exec"), w.space)
    return w.space["f"]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- which parts are looked up


_made: dict[
    tuple[Expr, tuple[Type, ...]], Direct
] = {}  # one function for one expression: a kernel has one table for it


def _call(e: Expr, inputs: Sequence[Expr], args: Sequence[Expr]) -> Expr:
    """A call of the expression as a function of ``inputs``, which are parts of it; ``args`` stand for these."""
    kinds = tuple(i.type for i in inputs)
    inner = replaced(e, {id(i): n.var(at, i.type) for at, i in enumerate(inputs)})
    if inner.op == "const":
        return inner
    key = inner, kinds
    if key not in _made:
        _made[key] = Direct("looked_up", Inner(inner, kinds), e.type, n.fails(inner))
    return call(_made[key], args)


def _asks(e: Expr) -> bool:
    """Whether only Python can do the operation itself."""
    return e.op in TEXT_OPS or order_of_text(e)


class _Lowering:
    def __init__(self, roots: Sequence[Expr]) -> None:
        self.leaves: dict[int, frozenset[Expr]] = {}
        self.deep: set[int] = set()
        self.apart: set[int] = set()
        for e in walk(*roots):
            of = [self.leaves[id(a)] for a in e.args]
            self.leaves[id(e)] = frozenset((e,)) if e.op == "var" else frozenset().union(*of)
            if _asks(e) or any(id(a) in self.deep for a in e.args):
                self.deep.add(id(e))
            if (e.op == "call" and e.value.apart) or any(id(a) in self.apart for a in e.args):
                self.apart.add(id(e))
        self.made: dict[int, Expr] = {}
        for root in roots:
            self.lower(root)

    def lower(self, e: Expr) -> None:
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in self.made:
                stack.pop()
                continue
            needs = self.inputs(top)
            missing = [a for a in needs if id(a) not in self.made]
            if missing:
                stack += missing
                continue
            stack.pop()
            args = [self.made[id(a)] for a in needs]
            if id(top) not in self.deep:
                self.made[id(top)] = top
            elif self.alone(top) or _asks(top):
                self.made[id(top)] = _call(top, needs, args) if needs else _settled(top)
            else:
                self.made[id(top)] = rebuild(top, args)

    def alone(self, e: Expr) -> bool:
        """Whether it depends on one leaf only, and not on a float: of those there are too many."""
        leaves = self.leaves[id(e)]
        return id(e) not in self.apart and len(leaves) <= 1 and all(v.type != FLOAT for v in leaves)

    def inputs(self, e: Expr) -> list[Expr]:
        """What must be computed before it."""
        if id(e) not in self.deep:
            return []
        if self.alone(e):
            return list(self.leaves[id(e)])
        if not _asks(e):
            return list(e.args)
        found: dict[Expr, None] = {}
        stack = list(reversed(e.args))
        while stack:  # f"{a}-{b}-{c}" is one call of three texts
            a = stack.pop()
            if _asks(a) and a.type == STR:
                stack.extend(reversed(a.args))
            elif a.op != "const":
                found[a] = None
        few = found if len(found) <= MOST_ARGUMENTS else dict.fromkeys(a for a in e.args if a.op != "const")
        return list(few)


def _settled(e: Expr) -> Expr:
    """What depends on nothing: its value, or that it fails."""
    try:
        return n.const(evaluate(e, []))
    except Exception:
        return n.raise_(0, e.type)


def lowered(traced: Traced) -> Traced:
    """The trace with calls alone where it looked inside text: an engine can run that."""
    made = _Lowering(traced.roots()).made

    def of(roots: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(made[id(r)] for r in roots)

    return dataclasses.replace(
        traced,
        outputs=of(traced.outputs),
        count=None if traced.count is None else made[id(traced.count)],
        slots=tuple(map(of, traced.slots)),
        asked=None if traced.asked is None else made[id(traced.asked)],
        times=of(traced.times),
    )
