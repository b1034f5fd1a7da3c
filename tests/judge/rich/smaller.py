"""The same disagreement about shorter functions: parts of expressions are left out, as long as what was found stays."""

from __future__ import annotations

import ast
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.judge.rich import judge as rich


def smaller_texts(source: str) -> Iterator[str]:
    """The text with one expression instead of a larger one, the largest first."""
    tree = ast.parse(source)
    places = []
    for f in tree.body:
        if isinstance(f, ast.FunctionDef) and not f.name.endswith("_build"):
            for node in (node for line in f.body for node in ast.walk(line)):
                if isinstance(node, ast.If):
                    places.append((f, node, [*node.body], "if"))
                if isinstance(
                    node, (ast.Return, ast.IfExp, ast.BoolOp, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Call, ast.Tuple)
                ):
                    places.append((f, node, [], "expr"))
    for f, node, body, how in places:
        if how == "if":
            before = f.body[:]
            f.body = body  # type: ignore[assignment]
            yield ast.unparse(tree)
            f.body = [s for s in before if s is not node]
            yield ast.unparse(tree)
            f.body = before
            continue
        for name, value in ast.iter_fields(node):
            many = value if isinstance(value, list) else [value]
            for i, part in enumerate(many):
                if not isinstance(part, ast.expr):
                    continue
                less = [c for c in ast.iter_child_nodes(part) if isinstance(c, ast.expr)]
                less += (
                    [ast.Constant(v) for v in (True, False, 0, None)]
                    if not isinstance(part, (ast.Constant, ast.Name))
                    else []
                )
                for new in less:
                    if isinstance(value, list):
                        value[i] = new
                    else:
                        setattr(node, name, new)
                    with contextlib.suppress(Exception):  # no text has such a tree
                        yield ast.unparse(tree)
                if isinstance(value, list):
                    value[i] = part
                else:
                    setattr(node, name, part)


def shrunk(case: rich.Case, still: Callable[[rich.Case], bool], seconds: float = 60) -> rich.Case:
    """The smallest case that is found in time of which it is still so."""
    until, again = time.monotonic() + seconds, True
    while again:
        again = False
        for text in smaller_texts(case.source):
            if time.monotonic() > until:
                return case
            if len(text) >= len(ast.unparse(ast.parse(case.source))):
                continue
            try:
                space = rich.built(text + "\n\n\n")
                pipes = tuple(p.pipe(name, space) for name, p in zip("pq", case.drawn, strict=False))
                less = replace(case, source=text + "\n\n\n", space=space, pipes=pipes)
                if still(less):
                    case, again = less, True
                    break
            except Exception:
                continue
    return case
