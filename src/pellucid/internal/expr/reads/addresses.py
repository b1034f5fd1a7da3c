"""Where a function makes a text of an object whose text is its address, which is another one in each process.

``repr`` of an object that has none of its own, of a function or of an iterator reads ``<Ob object at 0x7f…>``; so do
``str``, ``format``, an f-string and ``%``, and the text of a list with such an object in it.  What is shown is seen by
how it is written: a name or an attribute that has such a value when the function is called, a local name that one is
given to, a call of such a class.  Where the function's source is not there, any text that is made beside such a value
is taken to show it.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import dis
import functools
import inspect
import itertools
import types
from collections.abc import Iterator
from typing import Any

from pellucid.internal.expr.reads.unordered import source_of
from pellucid.internal.expr.stable import codes

ADDRESS = "in which is an address that differs from process to process"
_TEXTS = frozenset({"str", "repr", "ascii", "format"})
_METHODS = frozenset({"format", "format_map", "__repr__", "__str__", "__format__"})
_WRITES = {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"}
_FUNCTIONS = (
    types.FunctionType, types.MethodType, types.MethodWrapperType, types.CodeType, types.CellType, functools.partial,
)  # fmt: skip
_MANY = (list, tuple, set, frozenset, dict)
_PLAIN_REPR: Any = object.__repr__
_MOST, _DEEP = 1000, 5
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
        found = next(map(ast.unparse, _Look(frame, parts).wrong()), "") if parts.written else ""
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
        if (_TEXTS | _METHODS) & set(one.co_names):
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
        return any(has_address(v, deep - 1) for v in itertools.islice(held, _MOST))
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


class _Look:
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
        elif isinstance(f, ast.Attribute) and f.attr in _METHODS:
            yield from (f.value, *given)
        elif any(isinstance(e, ast.Name) and e.id in _TEXTS for e in given):  # map(repr, things)
            yield from (e for e in given if not isinstance(e, ast.Name) or e.id not in _TEXTS)
