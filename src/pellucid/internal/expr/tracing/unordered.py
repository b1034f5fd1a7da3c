"""Where a function depends on the order of a set, which is another one in each process.

The hash of a text, and so the order of a set with texts in it, changes from process to process (``PYTHONHASHSEED``).
What is asked of a set without its order (``in``, ``len``, ``sorted``, another set) is the same in all of them.  A set
is seen by how it is written: ``{a, b}``, ``set(…)``, a comprehension, a union of those, a name that one is given to, or
a name that is a set when the function is called.  The function's source is read for that; where that is not there, a
function that has a set and goes through anything is taken to depend on its order.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import functools
import inspect
import itertools
import linecache
import types
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

from pellucid.internal.expr.identity import codes

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


# Where a function makes a text of an object whose text is its address, which is another one in each process.
#
# ``repr`` of an object that has none of its own, of a function or of an iterator reads ``<Ob object at 0x7f…>``; so do
# ``str``, ``format``, an f-string and ``%``, and the text of a list with such an object in it.  What is shown is seen
# by how it is written: a name or an attribute that has such a value when the function is called, a local name that one
# is given to, a call of such a class.  Where the function's source is not there, any text that is made beside such a
# value is taken to show it.

ADDRESS = "in which is an address that differs from process to process"
_TEXTS = frozenset({"str", "repr", "ascii", "format"})
_METHODS_ADDRESSES = frozenset({"format", "format_map", "__repr__", "__str__", "__format__"})
_WRITES = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"}
_FUNCTIONS = (
    types.FunctionType, types.MethodType, types.MethodWrapperType, types.CodeType, types.CellType, functools.partial,
)  # fmt: skip
_MANY = (list, tuple, set, frozenset, dict)
_PLAIN_REPR: Any = object.__repr__
_MOST_ADDRESSES, _DEEP = 1000, 5
_NOTHING = object()


def shows_address(frame: types.FrameType) -> str:
    """Why the answer of a function that is being called depends on an address; empty if that is not seen.

    >>> import sys
    >>> def told(thing): return shows_address(sys._getframe()) or f"{thing}"
    >>> told(object()), told(3)
    ('makes a text of thing, in which is an address that differs from process to process', '3')
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED or not makes_text(code):
        return ""
    source = source_of(code)
    if source is None:
        values = {**{name: frame.f_globals.get(name) for name in code.co_names}, **frame.f_locals}
        shown = [k for k, v in values.items() if k[:1] != "." and not isinstance(v, _FUNCTIONS) and has_address(v)]
        found = shown[0] if shown else ""
    else:
        parts = _parts(code)
        found = next(map(ast.unparse, _AddressesLook(frame, parts).wrong()), "") if parts.written else ""
    return f"makes a text of {found}, {ADDRESS}" if found else ""


@functools.lru_cache(maxsize=4096)
def calls_shown(code: types.CodeType) -> frozenset[str]:
    """The names of functions, methods and properties whose answer code makes a text of."""
    if not makes_text(code) or source_of(code) is None:
        return frozenset()
    parts = _parts(code)
    given = {name: value for names, value in parts.given for name in names}
    shown = [*parts.written, *(e for some in parts.written if isinstance(some, ast.List) for e in some.elts)]
    shown = [given.get(e.id, e) if isinstance(e, ast.Name) else e for e in shown]
    asked = [e.func if isinstance(e, ast.Call) else e for e in shown]
    return frozenset(
        e.id if isinstance(e, ast.Name) else e.attr for e in asked if isinstance(e, (ast.Name, ast.Attribute))
    )


@functools.lru_cache(maxsize=4096)
def makes_text(code: types.CodeType) -> bool:
    """Whether code makes a text of anything."""
    for one in codes(code):
        if (_TEXTS | _METHODS_ADDRESSES) & set(one.co_names):
            return True
        if any(op.opname in _WRITES or op.argrepr in ("%", "%=") for op in dis.get_instructions(one)):
            return True
    return False


def has_address(value: Any, deep: int = _DEEP) -> bool:
    """Whether an address stands in the text of a value.

    >>> has_address(object()), has_address([len, print]), has_address((1, {"a": lambda: 0}))
    (True, False, True)
    """
    kind = type(value)
    if deep == 0 or kind.__module__.startswith("pellucid."):
        return False
    if isinstance(value, _FUNCTIONS) or kind.__repr__ is _PLAIN_REPR:
        return True
    if isinstance(value, _MANY):
        held = itertools.chain.from_iterable(value.items()) if isinstance(value, dict) else value
        return any(has_address(v, deep - 1) for v in itertools.islice(held, _MOST_ADDRESSES))
    if isinstance(value, BaseException):
        return has_address(value.args, deep - 1)
    if dataclasses.is_dataclass(kind):
        fields = (inspect.getattr_static(value, f.name, None) for f in dataclasses.fields(kind) if f.repr)
        return any(has_address(v, deep - 1) for v in fields)
    return False


@dataclasses.dataclass(frozen=True)
class _Parts:
    """What is looked at of a function's source."""

    written: list[ast.AST]  # what texts are made of
    given: list[tuple[set[str], ast.AST]]  # names, and what they are given
    loops: list[tuple[set[str], ast.AST]]  # names, and what is gone through
    functions: set[str]  # those that are made inside


@functools.lru_cache(maxsize=4096)
def _parts(code: types.CodeType) -> _Parts:
    source = source_of(code)
    parts = _Parts([], [], [], set())
    for node in ast.walk(source) if source is not None else ():
        parts.written.extend(_written(node))
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts.given.append(({name for target in targets for name in _names(target)}, node.value))
        elif isinstance(node, (ast.For, ast.comprehension)):
            parts.loops.append((set(_names(node.target)), node.iter))
        elif isinstance(node, ast.FunctionDef) and node is not source:
            parts.functions.add(node.name)
    return parts


class _AddressesLook:
    """One function that is being called: what of it has an address in its text."""

    def __init__(self, frame: types.FrameType, parts: _Parts) -> None:
        self.frame, self.parts = frame, parts
        self.made = set(parts.functions)
        self.held: set[str] = set()  # local names of lists and the like
        while True:
            before = len(self.made | self.held)
            for names, value in parts.given:
                if next(self.shown(value), None) is not None:
                    self.made |= names
                    self.held |= set() if isinstance(value, (ast.Call, ast.GeneratorExp)) else names
            for names, over in parts.loops:
                if self.gives(over):
                    self.made |= names
            if len(self.made | self.held) == before:
                return

    def value(self, e: ast.AST) -> Any:
        """What a name or an attribute is when the function is called, as far as that can be seen."""
        if isinstance(e, ast.Name):
            names = self.frame.f_locals
            found = names[e.id] if e.id in names else self.frame.f_globals.get(e.id, _NOTHING)
            return getattr(builtins, e.id, _NOTHING) if found is _NOTHING and e.id not in names else found
        if isinstance(e, ast.Attribute):
            base = self.value(e.value)
            if base is _NOTHING or type(base).__module__.startswith("pellucid."):
                return _NOTHING
            found = inspect.getattr_static(base, e.attr, _NOTHING)
            if isinstance(found, types.MemberDescriptorType):
                found = getattr(base, e.attr, _NOTHING)
            return found
        return _NOTHING

    def shown(self, e: ast.AST) -> Iterator[ast.AST]:
        """What stands in the text of an expression and has an address in its own."""
        if isinstance(e, (ast.Name, ast.Attribute)):
            value = self.value(e)
            name = e.id if isinstance(e, ast.Name) else ""
            if name in self.made or (value is not _NOTHING and has_address(value)):
                yield e
        elif isinstance(e, ast.Call):
            kind = self.value(e.func)
            if isinstance(kind, type):
                if kind.__repr__ is _PLAIN_REPR:
                    yield e
                elif kind in _MANY or issubclass(kind, BaseException):
                    for given in e.args:
                        yield from self.shown(given)
        elif isinstance(e, (ast.Lambda, ast.GeneratorExp)):
            yield e
        elif isinstance(e, (ast.ListComp, ast.SetComp)):
            yield from self.shown(e.elt)
        elif isinstance(e, ast.Subscript):
            yield from self.shown(e.value)
        elif isinstance(e, ast.IfExp):
            yield from itertools.chain(self.shown(e.body), self.shown(e.orelse))
        elif isinstance(e, (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.DictComp, ast.BoolOp, ast.BinOp, ast.Starred)):
            for child in ast.iter_child_nodes(e):
                yield from self.shown(child)
        elif isinstance(e, (ast.NamedExpr, ast.keyword)):
            yield from self.shown(e.value)

    def gives(self, e: ast.AST) -> bool:
        """Whether a loop over it takes such things out of it."""
        if isinstance(e, (ast.Name, ast.Attribute)):
            value = self.value(e)
            return (isinstance(e, ast.Name) and e.id in self.held) or (isinstance(value, _MANY) and has_address(value))
        if isinstance(e, ast.Call):
            return any(map(self.gives, e.args)) or (isinstance(e.func, ast.Attribute) and self.gives(e.func.value))
        return not isinstance(e, ast.GeneratorExp) and next(self.shown(e), None) is not None

    def wrong(self) -> Iterator[ast.AST]:
        """What a text is made of that has an address in it."""
        for e in self.parts.written:
            if not self.own_text(e):
                yield from self.shown(e)

    def own_text(self, e: ast.AST) -> bool:
        """Whether it is of a class that has a text for str(), and none for repr()."""
        kind = self.value(e.func) if isinstance(e, ast.Call) else type(self.value(e))
        if not isinstance(kind, type) or issubclass(kind, BaseException):
            return False
        return kind.__str__ is not object.__str__


def _names(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _listed(e: ast.expr) -> ast.expr:
    """In a list: there str() says of it what repr() does."""
    return ast.List([e], ast.Load())


def _written(node: ast.AST) -> Iterator[ast.AST]:
    """What a node of a function makes a text of."""
    if isinstance(node, ast.FormattedValue):
        yield _listed(node.value) if node.conversion in (ord("r"), ord("a")) else node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield node.right
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mod):
        yield node.value
    elif isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        f = node.func
        if isinstance(f, ast.Name) and f.id in _TEXTS:
            yield from map(_listed, given) if f.id in ("repr", "ascii") else given
        elif isinstance(f, ast.Attribute) and f.attr in _METHODS_ADDRESSES:
            yield from (f.value, *given)
        elif any(isinstance(e, ast.Name) and e.id in _TEXTS for e in given):  # map(repr, things)
            yield from (e for e in given if not isinstance(e, ast.Name) or e.id not in _TEXTS)
