"""Code as a form that any process agrees on, and whose code it is.

The form is made of the instructions: where a line stands, comments, docstrings and annotations are not in it; every
constant, name and turn is.  It is that of one version of Python.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from pellucid.internal import PACKAGE

_SKIPPED = {"CACHE", "EXTENDED_ARG", "NOP", "RESUME"}
_JUMPS = set(dis.hasjrel) | set(dis.hasjabs)
_READS = {
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_FROM_DICT_OR_DEREF",
}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}


def sha(*texts: str) -> str:
    """A digest of texts, told apart.

    >>> sha("ab", "c") == sha("a", "bc")
    False
    """
    h = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A piece of code and those inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes(inner)


@functools.lru_cache(maxsize=4096)
def code_form(code: types.CodeType) -> str:
    """What the code does: equal wherever it is written, and whatever its comments say.

    >>> a, b = compile("x = 1 # one", "a.py", "exec"), compile("\\n\\nx = 1", "b.py", "exec")
    >>> code_form(a) == code_form(b), code_form(a) == code_form(compile("x = 2", "a.py", "exec"))
    (True, False)
    """
    ops = list(_instructions(code))
    place = {op.offset: i for i, op in enumerate(ops)}
    ends = [op.offset for op in ops]
    words = []
    for op in ops:
        if op.opcode in _JUMPS:
            target = int(op.argval)
            argument = place.get(target)
            if argument is None:  # at an instruction that says nothing: the next one that does
                argument = sum(1 for end in ends if end < target)
            words.append(f"{op.opname} {argument}")
        elif isinstance(op.argval, types.CodeType):
            words.append(f"{op.opname} {code_form(op.argval)}")
        else:
            words.append(f"{op.opname} {_constant(op.argval)}" if op.arg is not None else op.opname)
    shape = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags & 0x2AC,
        code.co_varnames[: _parameters(code)],
    )
    return sha(repr(shape), repr(code.co_freevars), code.co_exceptiontable.hex(), *words)


def _parameters(code: types.CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    return (op for op in dis.get_instructions(code) if op.opname not in _SKIPPED)


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(_constant(v) for v in value))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(_constant(v) for v in value)})"
    return f"{type(value).__name__} {value!r}"


@functools.lru_cache(maxsize=4096)
def chains(code: types.CodeType) -> frozenset[tuple[str, ...]]:
    """The globals and outer variables that code reads, each with the attributes that are asked of it at once.

    A name that is also used as a whole stands there alone, too.

    >>> sorted(chains((lambda v: rates.usd.today(v) + limit).__code__))
    [('limit',), ('rates', 'usd', 'today')]
    """
    found: set[tuple[str, ...]] = set()
    for one in codes(code):
        chain: list[str] = []
        for op in _instructions(one):
            if chain and op.opname in _ATTRIBUTES:
                chain.append(str(op.argval))
                continue
            if chain:
                found.add(tuple(chain))
            chain = [str(op.argval)] if op.opname in _READS else []
        if chain:
            found.add(tuple(chain))
    return frozenset(found)


@functools.lru_cache(maxsize=4096)
def imports(code: types.CodeType) -> frozenset[tuple[int, str, tuple[str, ...]]]:
    """The imports in code: (level, module, names)."""
    found = set()
    for one in codes(code):
        ops = list(_instructions(one))
        for i, op in enumerate(ops):
            if op.opname == "IMPORT_NAME" and i >= 2:
                level, names = ops[i - 2].argval, ops[i - 1].argval
                found.add(
                    (level if isinstance(level, int) else 0, str(op.argval), names if isinstance(names, tuple) else ())
                )
    return frozenset(found)


# ---------------------------------------------------------------- whose is it?


def _folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")


_HERE = _folder(os.path.dirname(PACKAGE))


@functools.cache
def _places() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders of the standard library, and those of installed packages."""
    import site
    import sysconfig

    standard = {_folder(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")} | {
        _folder(os.path.dirname(os.__file__))
    }
    installed = {_folder(sysconfig.get_path(name)) for name in ("purelib", "platlib")} | {
        _folder(site.getusersitepackages())
    }
    return tuple(standard), tuple(installed)


@functools.lru_cache(maxsize=4096)
def whose(file: str | None) -> str:
    """Whose code a file is: ``pellucid``'s, Python's (``standard``), of a package (``installed``), or the ``user``'s
    own.

    >>> whose(os.__file__), whose(__file__), whose("/home/me/project/rates.py")
    ('standard', 'pellucid', 'user')
    """
    if file is None or file.startswith("<frozen"):
        return "standard"
    if file.startswith("<"):
        return "user"
    real = os.path.realpath(file)
    if real.startswith(_HERE):
        return "pellucid"
    standard, installed = _places()
    if real.startswith(installed) or any(part in ("site-packages", "dist-packages") for part in real.split(os.sep)):
        return "installed"
    return "standard" if real.startswith(standard) else "user"


def file_of(module: str | None) -> str | None:
    """The file of a module that is loaded; None for what is built in."""
    found = sys.modules.get(module or "")
    if found is None or module == "__main__":
        return getattr(found, "__file__", None) or "<main>"
    file = getattr(found, "__file__", None)
    if file is None and list(getattr(found, "__path__", [])):
        return str(next(iter(found.__path__)))  # a package without __init__.py
    return file


@functools.lru_cache(maxsize=1024)
def version_of(package: str) -> str | None:
    """The version of an installed package, by the name that is imported.

    >>> import numpy
    >>> version_of("numpy") == numpy.__version__
    True
    """
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    for name in metadata.packages_distributions().get(package, ()):
        return metadata.version(name)
    found = vars(sys.modules[package]).get("__version__") if package in sys.modules else None
    return found if isinstance(found, str) else None


# Folders of users' files that were loaded as Python runs a program: first in line while they were, behind others now.
loaded_from: set[str] = set()


def another_of(name: str, file: str) -> tuple[str, str] | None:
    """The module of a name beside a user's file, and the one that an import of it would give now, if they are two."""
    folder, top = os.path.dirname(os.path.abspath(file)), name.partition(".")[0]
    if folder not in loaded_from:
        return None
    beside = importlib.machinery.PathFinder.find_spec(top, [folder])
    found = (
        file_of(top) if top in sys.modules else getattr(importlib.machinery.PathFinder.find_spec(top), "origin", None)
    )
    if (
        beside is None
        or beside.origin is None
        or found is None
        or os.path.realpath(found) == os.path.realpath(beside.origin)
    ):
        return None
    return beside.origin, found


def find_module(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where a module is, without importing it or what is above it."""
    path, spec = None, None
    parts = name.split(".")
    for i in range(len(parts)):
        whole = ".".join(parts[: i + 1])
        if i == 0 and (whole in sys.builtin_module_names or whole in sys.stdlib_module_names):
            return importlib.machinery.ModuleSpec(whole, None, origin=None)
        spec = importlib.machinery.PathFinder.find_spec(whole, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec
