"""What an opaque function is: its code, and all that it calls and reads, as marks that any process agrees on.

A function that is traced is its expression.  One that is not is its instructions, those of the functions and classes of
the user's own project that it reaches (helpers, methods, what modules and containers hold), and the values of its
globals, defaults and closures.  The standard library counts by name, with Python's version; an installed package by
name and version; an import inside a function by the source of the module and of what that imports.  Each of them is a
*part* with a name, so that it can be said which one has changed.

What has no stable form (an open file, a lock, a source of random numbers, a package without a version) is *unseen*: a
change there is not noticed, and who relies on the identity says so.  What a function reads while it runs (files, the
network, a clock) is no part of it.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import importlib
import importlib.machinery
import os
import random
import re
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.errors import UsageError
from pellucid.internal import PACKAGE

# Code as a form that any process agrees on, and whose code it is.
#
# The form is made of the instructions: where a line stands, comments, docstrings and annotations are not in it; every
# constant, name and turn is.  It is that of one version of Python.

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


# ---------------------------------------------------------------- who owns the code


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
def owner_of(file: str | None) -> str:
    """Who wrote a file: ``pellucid``, Python (``standard``), a package (``installed``) or the ``user``.

    >>> owner_of(os.__file__), owner_of(__file__), owner_of("/home/me/project/rates.py")
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


_MOST = 200_000  # objects to look at in one value
_SCALARS = frozenset({bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented)})
_BLIND = {
    "eval",
    "exec",
    "compile",
    "globals",
    "__import__",
    "open",
    "input",
}  # builtins behind which nothing can be seen
_MARK = 16  # digits of a digest are enough to see a change
_NOT_OF_A_CLASS = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__dataclass_fields__",
    "__dataclass_params__", "_abc_impl", "__match_args__",
}  # fmt: skip
_METHODS = (types.FunctionType, property, classmethod, staticmethod)
_C_FUNCTIONS = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """``parts``: a mark for each thing by its name; ``unseen``: what cannot be seen, with the reason."""

    parts: Mapping[str, str]
    unseen: tuple[str, ...] = ()

    @functools.cached_property
    def digest(self) -> str:
        """Equal if all that can be seen is equal."""
        return sha(*(f"{name} {mark}" for name, mark in sorted(self.parts.items())), *self.unseen)


def identity_of(value: Any, name: str = "the function", types_used: Iterable[Any] = ()) -> Identity:
    """The identity of all that can be reached from a function, or from a value of this name.

    ``types_used`` are the types of events: a function may call their methods without naming their classes.

    >>> def scaled(by):
    ...     def f(v): return len(str(v)) * by
    ...     return f
    >>> a, b, c = (identity_of(scaled(by)) for by in (2, 2, 3))
    >>> a.digest == b.digest, differences(a.parts, c.parts)
    (True, 'by in pellucid.internal.expr.identity.scaled.<locals>.f() has changed')
    """
    walk = _Walk()
    parts = [walk.value(name, value)]
    parts += [walk.value(called, cls) for called, cls in sorted(_classes(types_used).items())]
    walk.finish()
    if name not in walk.parts:
        walk.parts[name] = sha(*parts)[:_MARK]
    return Identity(
        dict(sorted(walk.parts.items())), tuple(f"{what}: {why}" for what, why in sorted(walk.unseen.items()))
    )


def differences(before: Mapping[str, str], now: Mapping[str, str], most: int = 4) -> str:
    """Which parts have changed, in words; empty if none has.

    >>> differences({"q.K": "1", "q.f()": "a"}, {"q.K": "2", "q.f()": "a", "q.g()": "b"})
    'q.K has changed, q.g() is new'
    """
    found = [f"{name} has changed" for name in sorted(before.keys() & now.keys()) if before[name] != now[name]]
    found += [f"{name} is gone" for name in sorted(before.keys() - now.keys())]
    found += [f"{name} is new" for name in sorted(now.keys() - before.keys())]
    more = f", and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


class _Unseen(Exception):  # noqa: N818 - it is no error, and never leaves this file
    """Has no stable form, for this reason."""


class _TooMuch(Exception):  # noqa: N818 - as above
    """There are too many objects to look at all."""


class _Walk:
    """One walk over all that can be reached."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        self.unseen: dict[str, str] = {}
        self._names: dict[int, str] = {}  # of functions, classes and modules, by id
        self._kept: list[Any] = []  # so that an id stays its own
        self._todo: list[tuple[str, Any]] = []
        self._above: list[int] = []  # the containers that we are in
        self._known: dict[int, str] = {}  # forms of containers and objects
        self._count = 0

    def finish(self) -> None:
        """Look at all that was found on the way."""
        while self._todo:
            name, found = self._todo.pop()
            if isinstance(found, types.FunctionType):
                self._function(name, found)
            elif isinstance(found, type):
                self._class(name, found)
            else:
                self._module(name, found)

    def part(self, called: str, found: Any) -> str:
        """The name of a function, class or module of the user's, which becomes a part of its own."""
        if id(found) not in self._names:
            name, more = called, 2
            while name in self.parts:
                name, more = f"{called} #{more}", more + 1
            self.parts[name] = ""  # taken
            self._names[id(found)] = name
            self._kept.append(found)
            self._todo.append((name, found))
        return self._names[id(found)]

    def value(self, name: str, value: Any) -> str:
        """A value as a part of this name; returns what stands for it where it is read."""
        self._count = 0
        if any(value is one for one in _DYNAMIC):
            self.unseen[name] = _LATER
            return "unseen"
        try:
            form = self._form(value, name)
        except _TooMuch:
            self.unseen[name], form = f"holds more than {_MOST:,} objects", "unseen"
        except RecursionError:
            self.unseen[name], form = "is nested too deeply", "unseen"
        self._above.clear()
        if form.startswith("="):  # it has parts of its own
            return form
        self.parts[name] = sha(form)[:_MARK]
        return f"the value {name}"

    # ------------------------------------------------------------ what becomes a part

    def _function(self, name: str, f: types.FunctionType) -> None:
        held = {}
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not set yet
                held[variable] = cell.cell_contents
        parts = []
        for chain in sorted(chains(f.__code__)):
            first = chain[0]
            if first in held:
                parts.append(self._read(f"{first} in {name}", held[first], chain))
            elif first in f.__globals__:
                parts.append(self._read(f"{_module_name(f)}{first}", f.__globals__[first], chain))
            elif first in _BLIND:
                self.unseen[f"{first}() in {name}"] = _LATER
        for variable in sorted(held.keys() - {chain[0] for chain in chains(f.__code__)}):
            parts.append(self._read(f"{variable} in {name}", held[variable], (variable,)))
        parts += [self._imported(f, *found) for found in sorted(imports(f.__code__))]
        arguments = f.__code__.co_varnames[: f.__code__.co_argcount]
        defaults = dict(zip(arguments[::-1], (f.__defaults__ or ())[::-1], strict=False)) | (f.__kwdefaults__ or {})
        parts += [
            self._read(f"the default of {given} in {name}", value, (given,))
            for given, value in sorted(defaults.items())
        ]
        parts += [self._read(f"{name}.{key}", value, (key,)) for key, value in sorted(vars(f).items())]
        self.parts[name] = sha(code_form(f.__code__), *parts)[:_MARK]

    def _read(self, name: str, value: Any, chain: tuple[str, ...]) -> str:
        """What code reads by a name and attributes: of a module only what it asks for, of all else the whole."""
        for attribute in chain[1:]:
            if not isinstance(value, types.ModuleType):
                break
            owner = owner_of(_module_file(value))
            found = vars(value).get(attribute, self)
            if owner == "installed":
                self._package(value.__name__)
            if owner == "user" and found is self:  # a module may make its names when they are asked for
                found = getattr(value, attribute, self)
            elif owner != "user" and not isinstance(found, types.ModuleType):
                if any(found is one for one in _DYNAMIC):
                    self.unseen[f"{value.__name__}.{attribute}"] = _LATER
                return f"{'.'.join(chain)} by name"
            name = f"{value.__name__}.{attribute}"
            if found is self:
                return f"{name} is not there"
            value = found
        return f"{'.'.join(chain)} is {self.value(name, value)}"

    def _class(self, name: str, cls: type) -> None:
        words = [self._named(base) or "" for base in (*cls.__bases__, type(cls))]
        if issubclass(cls, enum.Enum):
            words += [f"{key} = {self.value(f'{name}.{key}', member.value)}" for key, member in cls.__members__.items()]
            contents = {key: value for key, value in vars(cls).items() if isinstance(value, _METHODS)}
        else:
            contents = {key: value for key, value in vars(cls).items() if key not in _NOT_OF_A_CLASS}
        words += [f"{key} = {self.value(f'{name}.{key}', value)}" for key, value in sorted(contents.items())]
        self.parts[name] = sha(*words)[:_MARK]

    def _module(self, name: str, module: types.ModuleType) -> None:
        """A module that is used as a whole: all that it has."""
        contents = {
            key: value for key, value in vars(module).items() if not (key.startswith("__") and key.endswith("__"))
        }
        words = [f"{key} = {self.value(f'{module.__name__}.{key}', value)}" for key, value in sorted(contents.items())]
        self.parts[name] = sha(*words)[:_MARK]

    def _imported(self, f: types.FunctionType, level: int, module: str, names: tuple[str, ...]) -> str:
        """An import inside a function: the module by its source, with what that imports."""
        base = ".".join(str(f.__globals__.get("__package__") or "").split(".")[: -(level - 1) or None]) if level else ""
        whole = ".".join(filter(None, (base, module)))
        two = None if level else another_of(whole, f.__code__.co_filename)
        if two:
            raise UsageError(
                f"{f.__qualname__}() imports {whole} when it is called, and there are two: {two[0]} and {two[1]}: "
                "Python would give it either; import it at the top of the file"
            )
        for name in [whole, *(f"{whole}.{name}" for name in names)]:
            self._source(name)
        return f"imports {whole} {' '.join(names)}"

    def _source(self, name: str) -> None:
        part = f"module {name}"
        if part in self.parts:
            return
        spec = None
        with contextlib.suppress(Exception):  # whatever a finder of the user's says
            spec = find_module(name)
        if spec is None or spec.origin is None or owner_of(spec.origin) in ("standard", "pellucid"):
            return  # a name inside a module; or Python's own
        if owner_of(spec.origin) == "installed":
            self._package(name)
            return
        try:
            data = _bytes_of(spec.origin)
            if not spec.origin.endswith(".py"):
                self.parts[part] = sha(data.hex())[:_MARK]
                return
            code = compile(data, spec.origin, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            self.unseen[part] = f"its source cannot be read: {type(error).__name__}"
            return
        self.parts[part] = code_form(code)[:_MARK]
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        for level, module, names in sorted(imports(code)):
            base = ".".join(package.split(".")[: -(level - 1) or None]) if level else ""
            whole = ".".join(filter(None, (base, module)))
            for inner in [whole, *(f"{whole}.{name}" for name in names)]:
                self._source(inner)

    def _package(self, module: str) -> None:
        package = module.partition(".")[0]
        version = version_of(package)
        self.parts[f"package {package}"] = version or "?"
        if version is None:
            self.unseen[f"package {package}"] = "it tells no version"

    # ------------------------------------------------------------ values

    def _form(self, value: Any, at: str) -> str:
        """A text for a value, which starts with "=" if it is the name of something."""
        if type(value) in _SCALARS:
            if not isinstance(value, (str, bytes)) or len(value) < 200:
                return f"{type(value).__name__} {value!r}"
            return _long(value)
        name = self._named(value)
        if name is not None:
            return name
        if id(value) in self._above:
            return f"the one {len(self._above) - self._above.index(id(value))} above"
        if id(value) in self._known:
            return self._known[id(value)]
        self._count += 1
        if self._count > _MOST:
            raise _TooMuch
        self._above.append(id(value))
        try:
            form = self._contents(value, at)
        except _Unseen as reason:
            self.unseen.setdefault(at, str(reason))
            form = "unseen"
        self._above.pop()
        self._kept.append(value)
        self._known[id(value)] = form
        return form

    def _forms(self, values: Iterable[Any], at: str) -> list[str]:
        return [self._form(value, at) for value in values]

    def _contents(self, value: Any, at: str) -> str:
        kind = type(value)
        if kind in (tuple, list):
            plain = all(type(v) in _SCALARS for v in value)
            return sha(kind.__name__, repr(value)) if plain else sha(kind.__name__, *self._forms(value, at))
        if kind in (dict, types.MappingProxyType):
            plain = all(type(k) in _SCALARS and type(v) in _SCALARS for k, v in value.items())
            if plain:
                return sha("dict", repr(dict(value)))
            return sha("dict", *self._forms((x for item in value.items() for x in item), at))
        if kind in (set, frozenset):
            return sha(kind.__name__, *sorted(self._forms(value, at)))
        if kind is bytearray:
            return sha("bytearray", value.hex())
        if kind is types.MethodType:
            return sha("method", *self._forms((value.__func__, value.__self__), at))
        if kind in (staticmethod, classmethod):
            return sha(kind.__name__, self._form(value.__func__, at))
        if kind is property:
            return sha("property", *self._forms((value.fget, value.fset, value.fdel), at))
        if isinstance(value, enum.Enum):
            return sha(
                "member", self._form(kind, at), repr(value.name), repr(value.value) if value.name is None else ""
            )
        if isinstance(value, re.Pattern):
            return sha("pattern", repr((value.pattern, value.flags)))
        if isinstance(value, types.FunctionType):
            return self._made_around(value, at)
        if isinstance(value, _C_FUNCTIONS):
            return sha("bound", self._form(value.__self__, at), value.__name__)  # type: ignore[union-attr]
        if kind.__module__.startswith("pellucid."):
            graph = getattr(value, "graph", value)
            if hasattr(graph, "opaque") and hasattr(graph, "shape"):
                return sha("pipeline", graph.shape, *self._forms((fn.plain for _, fn in graph.opaque()), at))
        return self._object(value, at)

    def _made_around(self, f: types.FunctionType, at: str) -> str:
        """A function of Python's own or of a package that holds something of the user's, such as a decorator's inner
        one."""
        if f.__code__.co_qualname == "singledispatch.<locals>.wrapper":
            return sha("singledispatch", *sorted(sha(*self._forms(item, at)) for item in vars(f)["registry"].items()))
        held = []
        for cell in f.__closure__ or ():
            with contextlib.suppress(ValueError):
                held.append(cell.cell_contents)
        return sha(
            f.__code__.co_qualname, *self._forms(held, at), *self._forms((v for _, v in sorted(vars(f).items())), at)
        )

    def _object(self, value: Any, at: str) -> str:
        """Any object, as it would be copied: by its class and its state."""
        kind = type(value)
        if isinstance(value, random.Random) or kind.__module__.startswith("numpy.random"):
            raise _Unseen("a source of random numbers")
        inner = getattr(value, "__wrapped__", None) or getattr(value, "py_func", None)
        if isinstance(inner, types.FunctionType) and owner_of(file_of(kind.__module__)) != "user":
            # such as lru_cache's: what it remembers is left out
            return sha(f"{kind.__module__}.{kind.__qualname__}", self._form(inner, at))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = value.__reduce_ex__(4)
        except Exception:
            raise _Unseen(f"{_article(kind.__name__)} has no stable form") from None
        if isinstance(found, str):
            return f"{kind.__module__}.{kind.__qualname__} {found}"
        make, args, state, items, pairs = (*found, None, None, None)[:5]
        words = self._forms((make, args, state), at)
        return sha(*words, *(sha(*self._forms(more, at)) if more is not None else "" for more in (items, pairs)))

    def _named(self, value: Any) -> str | None:
        """A function, class or module by its name; None for other values."""
        if isinstance(value, types.FunctionType):
            name = self._by_owner(value, f"{_qualified(value)}()")
            return name if id(value) in self._names or (value.__closure__ is None and not vars(value)) else None
        if isinstance(value, type):
            return self._by_owner(value, f"class {_qualified(value)}")
        if isinstance(value, types.ModuleType):
            owner = owner_of(_module_file(value))
            if owner == "installed":
                self._package(value.__name__)
            if owner == "user":
                return f"={self.part(f'module {value.__name__} as a whole', value)}"
            return f"=module {value.__name__}"
        return self._c_function(value) if isinstance(value, _C_FUNCTIONS) else None

    def _by_owner(self, found: Any, called: str) -> str:
        file = found.__code__.co_filename if isinstance(found, types.FunctionType) else file_of(found.__module__)
        if file == "<string>" or (file or "").startswith("<attrs"):  # generated for a class: whose that is
            file = file_of(found.__module__)
        if isinstance(found, type) and found.__module__ == "builtins":
            file = None
        owner = owner_of(file)
        if owner == "user":
            return f"={self.part(called, found)}"
        if owner == "installed":
            self._package(found.__module__)
        return f"={called} of {owner}"

    def _c_function(self, f: Any) -> str | None:
        holder = getattr(f, "__self__", None)
        if holder is not None and not isinstance(holder, types.ModuleType):
            return None
        name = str(getattr(f, "__qualname__", None) or f.__name__)
        cls = getattr(f, "__objclass__", None)
        if cls is not None:
            return f"={name} of {cls.__module__}"
        module = str(getattr(f, "__module__", None) or "")
        file = file_of(module) if module and module != "builtins" else None
        if owner_of(file) == "installed":
            self._package(module)
        elif owner_of(file) == "user" and file is not None and os.path.isfile(file):
            self.parts[f"module {module}"] = sha(_bytes_of(file).hex())[:_MARK]
        return f"={module}.{name}"


def _bytes_of(file: str) -> bytes:
    with open(file, "rb") as found:
        return found.read()


def _long(value: str | bytes) -> str:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return f"{type(value).__name__} {hashlib.sha256(data).hexdigest()}"


_DYNAMIC: tuple[Any, ...] = (os.environ, os.getenv, importlib.import_module)
_LATER = "what it reads is known only when it does"


def _qualified(found: Any) -> str:
    name = found.__qualname__
    if hasattr(found, "__wrapped__") and hasattr(found, "__code__"):
        name = found.__code__.co_qualname
    return f"{_module_name(found)}{name}"


def _module_name(found: Any) -> str:
    """The module for messages, with a dot; the same whether a file was given by its name or imported."""
    module = str(getattr(found, "__module__", None) or "")
    if module in ("", "__main__", "builtins"):
        return ""
    return module.removeprefix("pellucid_user_") + "."


def _module_file(module: types.ModuleType) -> str | None:
    if sys.modules.get(module.__name__) is module:
        return file_of(module.__name__)
    return getattr(module, "__file__", None) or "<main>"


def _article(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def _classes(found: Iterable[Any]) -> dict[str, type]:
    """The classes of events, whose methods a function may call without naming them."""
    out: dict[str, type] = {}
    stack = list(found)
    while stack:
        t = stack.pop()
        cls = getattr(t, "cls", None)
        if isinstance(cls, type):
            out[f"class {_qualified(cls)}"] = cls
        stack += [inner for _, inner in getattr(t, "fields", ())]
        stack += getattr(t, "items", ())
    return out
