"""Code whose f-strings, and what else Python does behind a trace's back, are calls that a trace can answer.

``f"{s}-{n}"`` must have real strings, and ``{"a": 1}[s]`` a key that has a hash: no value of a trace can stand for
them.  So for running, such code is compiled once more from its source, with a call in their place.  That is done only
if the source, compiled as it is, gives the very code that the function has; otherwise it stays as it is.

>>> def f(s: str) -> str: return f"{s}!"
>>> with_calls(f.__code__).co_names
('__pellucid_text__',)
"""

from __future__ import annotations

import ast
import functools
import linecache
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from pellucid.internal.expr.tracing.running import Pieces, _mark, ask, method, unknown
from pellucid.internal.expr.tracing.tables import run_stand_in
from pellucid.internal.expr.types import STR

# ---------------------------------------------------------------- what stands in their place


def joined(*parts: Any) -> str:
    """An f-string: its texts, and its values with their conversions and formats.

    >>> joined("<", (1.5, "", ".2f"), (None, "r", ""), ">")
    '<1.50None>'
    """
    return "".join(part if isinstance(part, str) else _formatted(*part) for part in parts)


def _formatted(value: Any, conversion: str, spec: str) -> str:
    convert: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
    return format(convert[conversion](value) if conversion else value, spec)


def _text(*parts: Any) -> Any:
    if not any(map(unknown, parts)):
        return joined(*parts)
    plain = all(isinstance(p, str) or (p[2] == "" and type(p[2]) is str) for p in parts if type(p) in (str, tuple))
    return ask("text", joined, parts, STR, fails=not plain)


def _percent(s: str, values: Any) -> Any:
    return ask("percent", operator.mod, [s, values], STR) if unknown(values) else s % values


def pieces_joined(s: str, name: str, *args: Any, **named: Any) -> str:
    """The pieces of a string, put together again."""
    return s.join(getattr(str, name)(*args, **named))


def _method(s: str, name: str) -> Callable[..., Any]:
    def called(*args: Any, **named: Any) -> Any:
        if name == "join" and len(args) == 1 and isinstance(args[0], Pieces):
            given = args[0]
            return ask("join", pieces_joined, [s, given.name, *given.given], STR, named=given.named)
        args = tuple(list(a) if isinstance(a, Iterator) else a for a in args)
        if any(map(unknown, (*args, *named.values()))):
            return method(s, name)(*args, **named)
        return getattr(s, name)(*args, **named)

    return called


_tables: dict[Any, Any] = {}


def _table(values: Any) -> Any:
    """A dictionary, set or list that the function makes each time: the same one on every path."""
    items = list(values.items()) if isinstance(values, dict) else list(values)
    items = sorted(items, key=repr) if isinstance(values, set) else items
    if any(map(unknown, (v for i in items for v in (i if isinstance(values, dict) else (i,))))):
        return values
    mark = type(values), tuple(_known_by(i) for i in items)
    return _tables.setdefault(mark, run_stand_in(values))


def _known_by(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_known_by, value))
    return _mark(value) if isinstance(value, (bool, int, float, str, type(None))) else id(value)


#: The names by which the code calls them.
NAMES: dict[str, Any] = {
    "__pellucid_text__": _text,
    "__pellucid_percent__": _percent,
    "__pellucid_method__": _method,
    "__pellucid_table__": _table,
}


# ---------------------------------------------------------------- the code


class _Calls(ast.NodeTransformer):
    def made(self, name: str, args: list[ast.expr], at: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(name, ast.Load()), args, [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                conversion = ast.Constant("" if part.conversion < 0 else chr(part.conversion))
                spec: ast.expr = ast.Constant("") if part.format_spec is None else self.visit(part.format_spec)
                parts.append(ast.Tuple([self.visit(part.value), conversion, spec], ast.Load()))
            else:
                parts.append(part)
        return self.made("__pellucid_text__", parts, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return self.made("__pellucid_percent__", [node.left, node.right], node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Attribute):
            if f.attr in ("join", "format") and isinstance(f.value, ast.Constant) and isinstance(f.value.value, str):
                node.func = self.made("__pellucid_method__", [f.value, ast.Constant(f.attr)], f)
            elif f.attr == "get" and isinstance(f.value, ast.Dict):
                f.value = self.made("__pellucid_table__", [f.value], f.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, (ast.Dict, ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load):
            node.value = self.made("__pellucid_table__", [node.value], node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Dict, ast.Set)):
                node.comparators[i] = self.made("__pellucid_table__", [right], right)
        return node


_HINTS = frozenset(
    [
        "FORMAT_VALUE",
        "FORMAT_SIMPLE",
        "FORMAT_WITH_SPEC",
        "BUILD_STRING",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
        "BUILD_SET",
        "BINARY_SUBSCR",
    ]
)


@functools.lru_cache(maxsize=64)
def _compiled(filename: str, text: str) -> tuple[types.CodeType, types.CodeType] | None:
    """The code of a whole file, as it is and with the calls."""
    try:
        plain = compile(text, filename, "exec", dont_inherit=True)
        tree = ast.fix_missing_locations(_Calls().visit(ast.parse(text)))
        return plain, compile(tree, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _form(code: types.CodeType) -> Any:
    """What a piece of code is and where it stands; not which file it was part of, whose flags it has."""
    constants = [
        _form(c)
        if isinstance(c, types.CodeType)
        else (type(c), sorted(map(repr, c)) if type(c) is frozenset else repr(c))
        for c in code.co_consts
    ]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_firstlineno, code.co_code, names, constants, list(code.co_positions())


def _found(plain: types.CodeType, changed: types.CodeType, code: types.CodeType) -> types.CodeType | None:
    """The changed code that stands where the code stands in the plain one."""
    stack = [(plain, changed)]
    while stack:
        one, other = stack.pop()
        if (one.co_name, one.co_firstlineno) == (code.co_name, code.co_firstlineno) and _form(one) == _form(code):
            return other if (one.co_freevars, one.co_varnames) == (other.co_freevars, other.co_varnames) else None
        below, others = _inner(one), _inner(other)
        if [c.co_name for c in below] != [c.co_name for c in others]:
            return None
        stack += zip(below, others, strict=True)
    return None


def with_calls(code: types.CodeType) -> types.CodeType | None:
    """The code with calls of `NAMES`; None if it needs none, or its source is not at hand."""
    if not _needs(code):
        return None
    text = "".join(linecache.getlines(code.co_filename))
    both = _compiled(code.co_filename, text) if text else None
    return _found(*both, code) if both is not None else None


@functools.lru_cache(maxsize=4096)
def _needs(code: types.CodeType) -> bool:
    import dis

    for op in dis.get_instructions(code):
        if op.opname in _HINTS or (op.opname.startswith("LOAD_") and op.argval in ("join", "format")):
            return True
        if op.opname == "BINARY_OP" and op.argrepr.startswith(("%", "[")):
            return True
    return any(map(_needs, _inner(code)))
