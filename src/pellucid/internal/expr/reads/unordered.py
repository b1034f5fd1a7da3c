"""Where a function depends on the order of a set, which is another one in each process.

The hash of a text, and so the order of a set with texts in it, changes from process to process (``PYTHONHASHSEED``).
What is asked of a set without its order (``in``, ``len``, ``sorted``, another set) is the same in all of them.  A set
is seen by how it is written: ``{a, b}``, ``set(…)``, a comprehension, a union of those, a name that one is given to, or
a name that is a set when the function is called.  The function's source is read for that; where that is not there, a
function that has a set and goes through anything is taken to depend on its order.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import types
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

from pellucid.internal.expr.stable import codes

_SETS = (set, frozenset)
_MAKES = {"BUILD_SET", "SET_ADD", "SET_UPDATE"}
_GOES = {"GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "FORMAT_VALUE", "FORMAT_SIMPLE", "YIELD_FROM"}
_MOST = 1000  # elements of a set to look at
_UNIONS = {"union", "intersection", "difference", "symmetric_difference"}
_FREE = {"len", "sorted", "min", "max", "sum", "any", "all", "set", "frozenset", "bool", "isinstance", "type"}
_METHODS = _UNIONS | {
    "add", "discard", "remove", "clear", "copy", "update", "intersection_update", "difference_update",
    "symmetric_difference_update", "issubset", "issuperset", "isdisjoint", "append", "get", "setdefault",
}  # fmt: skip
_STEADY = (bool, int, float, complex, Decimal, Fraction)
_WITH_CODE = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ALLOWED = (
    ast.Compare, ast.BoolOp, ast.IfExp, ast.Return, ast.Expr, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.If,
    ast.While, ast.Assert, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda, ast.Subscript, ast.keyword,
)  # fmt: skip


def depends_on_order(frame: types.FrameType) -> str:
    """Why the answer of a function that is being called depends on the order of a set; empty if that is not seen.

    >>> import sys
    >>> def first(words): return depends_on_order(sys._getframe()) or next(iter(words))
    >>> first({1, 2}), first(["a"])
    (1, 'a')
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return ""  # a module or a class that is being made
    given = frozenset(_given(frame))
    if not given and not _makes_sets(code):
        return ""
    return _looked_at(code, given)


def _given(frame: types.FrameType) -> Iterator[str]:
    """The names that are a set when the function is called, of what has another order in each process."""
    named = ((name, frame.f_globals.get(name)) for name in frame.f_code.co_names)
    for name, value in (*frame.f_locals.items(), *named):
        if isinstance(value, _SETS) and not all(map(_steady, islice(value, _MOST))):
            yield name


def _steady(value: Any) -> bool:
    """Whether its hash is the same in every process."""
    return all(map(_steady, value)) if isinstance(value, tuple) else type(value) in _STEADY


@functools.lru_cache(maxsize=4096)
def _makes_sets(code: types.CodeType) -> bool:
    for one in codes(code):
        if {"set", "frozenset"} & set(one.co_names) or any(op.opname in _MAKES for op in dis.get_instructions(one)):
            return True
        if any(_loads_set(op) and after.opname != "CONTAINS_OP" for op, after in pairwise(dis.get_instructions(one))):
            return True  # Python keeps the set of `for c in {"a", "b"}` as a constant
        if {"keys", "items"} & set(one.co_names) and any(op.opname == "BINARY_OP" for op in dis.get_instructions(one)):
            return True
    return False


def _loads_set(op: dis.Instruction) -> bool:
    return op.opname == "LOAD_CONST" and isinstance(op.argval, frozenset) and not all(map(_steady, op.argval))


@functools.lru_cache(maxsize=4096)
def _looked_at(code: types.CodeType, given: frozenset[str]) -> str:
    source = source_of(code)
    if source is None:
        ops = {op.opname for one in codes(code) for op in dis.get_instructions(one)}
        goes = ops & _GOES or _ORDERED & {name for one in codes(code) for name in one.co_names}
        return "depends on the order of a set, for all that is seen without its source" if goes else ""
    look = _Look(given)
    look.learn(source)
    found = next(look.wrong(source), None)
    if found is None:
        return ""
    return f"depends on the order of the set {ast.unparse(found)}, which differs from process to process (use sorted())"


@functools.lru_cache(maxsize=4096)
def source_of(code: types.CodeType) -> ast.AST | None:
    """The function, lambda or comprehension of this code, in the tree of its file."""
    tree = _tree(code.co_filename, len(linecache.getlines(code.co_filename)))
    if tree is None:
        return None
    spots = [(line, column) for line, _, column, _ in code.co_positions() if line and column is not None]
    best: ast.AST | None = None
    begins = (0, 0)
    for node in ast.walk(tree):
        if not isinstance(node, _WITH_CODE):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if first != code.co_firstlineno or (isinstance(node, ast.FunctionDef) and node.name != code.co_name):
            continue
        begin, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
        inside = all(begin <= spot <= end for spot in spots if spot[0] >= node.lineno and spot[1])
        if inside and begin >= begins:  # of two that hold it the inner one
            best, begins = node, begin
    return best


@functools.lru_cache(maxsize=64)
def _tree(filename: str, lines: int) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(filename))) if lines else None
    except SyntaxError:
        return None


class _Look:
    """One function: which of its names are sets, and what becomes of them."""

    def __init__(self, given: frozenset[str]) -> None:
        self.names = set(given)

    def learn(self, source: ast.AST) -> None:
        """The names that a set is given to, until no more are found."""
        while True:
            before = len(self.names)
            for node in ast.walk(source):
                if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or node.value is None:
                    continue
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if self.is_set(node.value):
                    self.names |= {t.id for t in targets if isinstance(t, ast.Name)}
            if len(self.names) == before:
                return

    def is_set(self, e: ast.AST) -> bool:
        """Whether an expression is a set, as it is written."""
        if isinstance(e, ast.Set):
            return not all(isinstance(v, ast.Constant) and type(v.value) in _STEADY for v in e.elts)
        if isinstance(e, ast.SetComp):
            return True
        if isinstance(e, ast.Name):
            return e.id in self.names
        if isinstance(e, ast.BoolOp):
            return any(map(self.is_set, e.values))
        if isinstance(e, ast.IfExp):
            return self.is_set(e.body) or self.is_set(e.orelse)
        if isinstance(e, ast.NamedExpr):
            return self.is_set(e.value)
        if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
            return any(self.is_set(side) or _view(side) for side in (e.left, e.right))
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
            return e.func.id in ("set", "frozenset")
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute):
            return e.func.attr in (*_UNIONS, "copy") and self.is_set(e.func.value)
        return False

    def wrong(self, source: ast.AST) -> Iterator[ast.AST]:
        """The sets whose order matters."""
        for node in ast.walk(source):
            for name, field in ast.iter_fields(node):
                for child in field if isinstance(field, list) else [field]:
                    if isinstance(child, ast.AST) and self.is_set(child) and not self.fits(node, name, child):
                        yield child
                    over = child.iter if isinstance(child, ast.comprehension) else None
                    if over is not None and self.is_set(over) and not _free_inside(source, node):
                        yield over

    def fits(self, node: ast.AST, field: str, child: ast.AST) -> bool:
        """Whether a set may stand there whatever its order is."""
        if isinstance(node, ast.comprehension):
            return True  # judged by the whole comprehension
        if isinstance(node, ast.Call):
            if field == "func" or not isinstance(node.func, (ast.Name, ast.Attribute)):
                return False
            if isinstance(node.func, ast.Attribute):
                return node.func.attr in _METHODS
            ordered = any(k.arg == "key" for k in node.keywords) and node.func.id in ("min", "max", "sorted")
            return (node.func.id in _FREE and not ordered) or node.func.id not in _ORDERED
        if isinstance(node, ast.Attribute):
            return node.attr in _METHODS
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor))
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not)
        if isinstance(node, ast.AugAssign):
            return not isinstance(node.op, ast.Add)
        if isinstance(node, ast.Assign):  # a, b = s goes through it
            return field == "targets" or not any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets)
        return isinstance(node, _ALLOWED)


#: What is called by a name and goes through its argument; a function of the user's is looked at when it is called.
_ORDERED = {
    "list", "tuple", "iter", "next", "enumerate", "zip", "map", "filter", "reversed", "str", "repr", "format", "ascii",
    "dict", "deque", "Counter", "OrderedDict", "chain", "reduce", "islice", "print", "hash", "array", "bytes", "min",
    "max", "sorted",
}  # fmt: skip


def _view(e: ast.AST) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute) and e.func.attr in ("keys", "items")


def _free_inside(source: ast.AST, comprehension: ast.AST) -> bool:
    """Whether what a comprehension over a set makes has no order either."""
    if isinstance(comprehension, ast.SetComp):
        return True
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and comprehension in node.args:
            return node.func.id in _FREE and not any(k.arg == "key" for k in node.keywords)
    return False
