"""Is a function a pure function of its arguments?  Watched while it is traced.

Tracing a function that reads a clock would freeze one instant into the trace.  So while a trace runs, a
profile hook looks at every call before it happens: C functions must be on the list below, and Python
code must not set globals, outer variables or attributes, nor catch errors (it would catch those that a
symbolic value cannot have).  `expr.tracing.reach` guards what the function did not make itself.
Anything else makes the function opaque, with the reason.
"""

from __future__ import annotations

import builtins
import datetime as dt
import dis
import enum
import functools
import gc
import math
import operator
import os
import random
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pellucid.errors import Control
from pellucid.internal import PACKAGE
from pellucid.internal.expr.identity import chains, imports
from pellucid.internal.expr.tracing.reach import MUTATORS, Captured, changing, global_names
from pellucid.internal.expr.tracing.symbolic import Untraceable
from pellucid.internal.expr.tracing.unordered import ADDRESS, calls_shown, depends_on_order, has_address, shows_address

MAX_RECURSION = 100  # how often a function may be inside itself

_PURE_BUILTINS = {
    "abs", "all", "any", "ascii", "bin", "callable", "chr", "divmod", "format", "getattr", "hasattr", "hash", "hex",
    "isinstance", "issubclass", "iter", "len", "max", "min", "next", "oct", "ord", "pow", "repr", "round", "sorted",
    "sum",
}  # fmt: skip
_PURE_TYPES = (
    int, float, bool, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, object, type,
    type(None), types.MappingProxyType, dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, Decimal,
)  # fmt: skip
_OF_THE_CLOCK = {"now", "today", "utcnow", "fromtimestamp", "utcfromtimestamp"}  # also the machine's own time zone
_OF_THE_PROCESS = {
    "getpid", "getppid", "getpgid", "getpgrp", "getsid", "getcwd", "getcwdb", "getlogin", "getuid", "geteuid", "getgid",
    "getegid", "uname", "times", "getloadavg", "cpu_count", "sched_getaffinity", "get_ident", "get_native_id",
    "gethostname", "getrusage",
}  # fmt: skip
#: What differs by process or machine of modules that hold other things as well, and modules that hold nothing else.
_SOME_OF_THE_PROCESS = {
    "sys": frozenset({
        "argv", "orig_argv", "path", "modules", "meta_path", "executable", "flags", "platform", "prefix", "exec_prefix",
        "base_prefix", "base_exec_prefix", "version", "version_info", "hexversion", "implementation", "warnoptions",
        "_xoptions", "dont_write_bytecode", "pycache_prefix",
    }),
    "os": frozenset({"name"}),
    "time": frozenset({"timezone", "altzone", "daylight", "tzname"}),
}  # fmt: skip
_ALL_OF_THE_PROCESS = frozenset({"platform", "socket", "locale", "tempfile", "getpass", "sysconfig", "site"})
_PURE_OBJECTS = {id(getattr(builtins, name)) for name in _PURE_BUILTINS}
_PURE_OBJECTS |= {id(f) for f in vars(math).values() if callable(f)}
_PURE_OBJECTS |= {id(f) for f in vars(operator).values() if callable(f)}
_PURE_OBJECTS.add(id(functools.reduce))
_IMPURE_CODE = {m.__code__ for m in (os._Environ.__getitem__, os._Environ.__iter__, os._Environ.__len__)}
_NOTHING = object()
_MAKERS = ("__init__", "__post_init__", "__new__", "__setstate__", "__set_name__")


def _pure_c(f: Any) -> bool:
    if id(f) in _PURE_OBJECTS:
        return True
    owner = getattr(f, "__objclass__", None)
    if owner is None:
        holder = getattr(f, "__self__", None)
        owner = holder if isinstance(holder, type) else type(holder)
        if isinstance(holder, types.ModuleType) or holder is None:
            return False
    if getattr(f, "__name__", "") in _OF_THE_CLOCK:
        return False
    return owner in _PURE_TYPES or (isinstance(owner, type) and issubclass(owner, BaseException))


@functools.lru_cache(maxsize=4096)
def troubles(code: types.CodeType) -> tuple[str, ...]:
    """What a piece of Python code does that a pure function does not, in the order of its instructions."""
    return tuple(dict.fromkeys(filter(None, (_trouble(code, op) for op in dis.get_instructions(code)))))


def _trouble(code: types.CodeType, op: dis.Instruction) -> str | None:
    if op.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
        return f"sets the global variable {op.argval!r}"
    if op.opname in ("STORE_DEREF", "DELETE_DEREF") and op.argval in code.co_freevars:
        return f"sets the outer variable {op.argval!r}"
    if op.opname in ("STORE_ATTR", "DELETE_ATTR") and code.co_name not in _MAKERS:
        return f"sets the attribute {op.argval!r}"
    if op.opname == "IMPORT_NAME":
        return f"imports {op.argval!r} while it runs"
    if op.opname == "PUSH_EXC_INFO":
        return "has a 'try' or a 'with', which hides where it fails"
    if op.opname in ("LOAD_GLOBAL", "LOAD_NAME") and op.argval in ("type", "globals", "locals", "vars"):
        return f"uses {op.argval}(), which cannot tell a symbolic value from a plain one"
    if op.opname in ("LOAD_ATTR", "LOAD_METHOD") and op.argval == "__class__" and not _generated(code):
        return "uses __class__, which cannot tell a symbolic value from a plain one"
    return None


def of_the_process(f: Any) -> bool:
    """Whether a function in C answers otherwise in another process, or on another machine.

    >>> of_the_process(os.getpid), of_the_process(os.fspath)
    (True, False)
    """
    name, module = getattr(f, "__name__", ""), getattr(f, "__module__", None)
    return name in _OF_THE_PROCESS and module in ("posix", "nt", "_thread", "_socket", "resource")


def differs_by_process(frame: types.FrameType) -> str:
    """Why what is being called answers otherwise in another process: a hash, an address, the order of a set; empty if
    that is not seen.

    A hash that a class computes to be found in a dict is no answer, and is not meant.
    """
    code = frame.f_code
    if code.co_name == "__hash__":
        return ""
    for name in ("hash", "id"):
        if name in code.co_names and name in global_names(code) and name not in frame.f_globals:
            return f"uses {name}(), which differs from process to process"
    if "__hash__" in code.co_names:
        return "uses __hash__(), which differs from process to process"
    read = _process_read(frame)
    if read:
        return f"reads {read}, which differs from process to process"
    return depends_on_order(frame) or shows_address(frame)


def _process_read(frame: types.FrameType) -> str:
    """What a function that is being called reads of modules that tell of the process or the machine, such as
    ``sys.argv``; empty if nothing is seen."""
    code = frame.f_code
    for chain in chains(code):
        value = frame.f_globals.get(chain[0], frame.f_locals.get(chain[0]))
        for at, attribute in enumerate(chain[1:], 1):
            if not isinstance(value, types.ModuleType):
                break
            if _tells_of_process(value.__name__, attribute):
                return ".".join(chain[: at + 1])
            value = vars(value).get(attribute)
        if not isinstance(value, types.ModuleType) and chain[0] in frame.f_globals:
            found = _taken_from(chain[0], frame.f_globals[chain[0]])
            if found:
                return found
    for _, module, names in imports(code):
        for name in names or code.co_names:
            if _tells_of_process(module, name):
                return f"{module}.{name}"
    return ""


def _tells_of_process(module: str, name: str) -> bool:
    return module in _ALL_OF_THE_PROCESS or name in _SOME_OF_THE_PROCESS.get(module, ())


def _taken_from(name: str, value: Any) -> str:
    """What a global is that was imported by ``from sys import argv``."""
    if isinstance(value, types.FunctionType):
        return f"{value.__module__}.{value.__name__}" if value.__module__ in _ALL_OF_THE_PROCESS else ""
    for module, names in _SOME_OF_THE_PROCESS.items():
        plain = isinstance(value, (str, int, type(None)))  # there are others that are the same object
        for one in names & {name} if plain else names:
            if getattr(sys.modules.get(module), one, _NOTHING) is value:
                return f"{module}.{one}"
    return ""


def reads_environment(code: types.CodeType) -> bool:
    """Whether it is the code that reads an environment variable."""
    return code in _IMPURE_CODE


def _generated(code: types.CodeType) -> bool:
    """Whether ``dataclasses`` or ``namedtuple`` wrote it."""
    return code.co_filename.startswith("<string>") or code.co_filename.startswith("<string ")


class AsksIdentity(Control):
    """The code uses ``is``: the trace must start again with truth values that are real."""


@functools.lru_cache(maxsize=4096)
def _identity_tests(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """What follows each ``is``, apart from ``None``: a constant, a global, a class's member, or anything else."""
    found = []
    ops = [op for op in dis.get_instructions(code) if op.opname not in ("CACHE", "EXTENDED_ARG")]
    for i, op in enumerate(ops):
        if op.opname != "IS_OP" or _generated(code):
            continue
        last = ops[i - 1]
        if last.opname == "LOAD_COMMON_CONSTANT":
            continue  # not the user's: Python 3.14 asks whether `any` and `all` are its own
        if op.is_jump_target:
            found.append(("value", ""))
        elif last.opname == "LOAD_CONST":
            if last.argval is not None:
                found.append(("constant" if isinstance(last.argval, bool) else "value", ""))
        elif last.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.append(("global", str(last.argval)))
        elif last.opname == "LOAD_ATTR" and ops[i - 2].opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            found.append(("member", str(last.argval)))
        else:
            found.append(("value", ""))
    return tuple(found)


def _standard(filename: str) -> bool:
    if filename.startswith("<frozen"):
        return True
    return filename.startswith(_STDLIB) and "site-packages" not in filename and "dist-packages" not in filename


_OWNERS: dict[str, str] = {}


def _owner(filename: str) -> str:
    """Who owns the code of a file: the trace (``ours``), Python (``standard``) or the user."""
    found = "ours" if filename.startswith(_HERE) else "standard" if _standard(filename) else "user"
    _OWNERS[filename] = found
    return found


_STDLIB = os.path.dirname(functools.__file__) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class watched:  # noqa: N801 - used as `with watched(f):`
    """Run a trace of ``f`` inside: raises ``Untraceable`` at the first impure call.

    A class and not a generator: the hook must not see the context manager's own machinery.  With
    ``effects_only`` it lets pass what is pure but cannot be traced.
    """

    def __init__(
        self, f: Callable[..., Any], *, identity: bool = True, only_names: bool = True, effects_only: bool = False
    ) -> None:
        self.f = f
        self.identity = identity  # truth values are real already
        self.only_names = only_names  # all values are enums and Booleans, for which `is` has a meaning
        self.effects_only = effects_only
        self.inside = 0  # how deep in Pellucid's own code: what it does is its own business
        self.guard = Captured(f)

    def captured(self) -> Captured:
        """Guard the mutable things that the function can reach."""
        return self.guard

    def hook(self, frame: types.FrameType, event: str, arg: Any) -> None:
        filename = frame.f_code.co_filename
        by = _OWNERS.get(filename) or _owner(filename)
        if by == "ours":
            if event == "call":
                self.inside += 1
            elif event == "return":
                self.inside -= 1
            return
        standard = by == "standard"
        if standard and self.inside > 0:
            return
        if event == "call":
            self.look_at(frame, standard)
            at = self.active[frame.f_code] = self.active.get(frame.f_code, 0) + 1
            if at > MAX_RECURSION and not self.effects_only:
                raise Untraceable("calls itself too deeply (a recursion whose end depends on an event?)")
        elif event == "return":
            self.active[frame.f_code] = self.active.get(frame.f_code, 1) - 1
            back = None if standard or arg is None else frame.f_back
            if back is not None and frame.f_code.co_name in calls_shown(back.f_code) and has_address(arg):
                self.reports(f"makes a text of what {frame.f_code.co_name}() returns, {ADDRESS}")
        elif event == "c_call":
            if arg is id and standard:
                return  # to find what was copied already, say
            if of_the_process(arg):
                raise Untraceable(f"calls {_name(arg)}(), which differs from process to process", effect=True)
            if not _pure_c(arg):
                raise Untraceable(f"calls {_name(arg)}(), which may read or change the outside world", effect=True)
            name = getattr(arg, "__name__", "")
            if name in MUTATORS:
                owner = self.guard.name_of(getattr(arg, "__self__", None))
                if owner is not None:
                    raise Untraceable(f"changes {owner!r}, which it did not make", effect=True)

    def reports(self, reason: str) -> None:
        """Report that the function depends on the process."""
        raise Untraceable(reason, effect=True)

    def look_at(self, frame: types.FrameType, standard: bool) -> None:
        code = frame.f_code
        if code in _IMPURE_CODE:
            raise Untraceable("reads an environment variable", effect=True)
        process = "" if standard else differs_by_process(frame)
        if process:
            raise Untraceable(process, effect=True)
        trouble = None if standard else next(iter(troubles(code)), None)
        if trouble and not (self.effects_only and trouble.startswith("uses")):
            raise Untraceable(trouble, effect=not trouble.startswith("uses"))
        if self.effects_only or standard:
            return
        tests = _identity_tests(code)
        if not tests:
            return
        if not self.only_names:
            for kind, name in tests:
                if kind == "value" or (kind == "global" and not _named_value(frame.f_globals.get(name))):
                    raise Untraceable("compares with 'is', which has no meaning for numbers and text; use ==")
        if not self.identity:
            raise AsksIdentity

    def __enter__(self) -> None:
        self.old = sys.getprofile()
        self.inside = 0
        self.active: dict[types.CodeType, int] = {}  # how often each piece of code is running now
        self.collecting = gc.isenabled()
        gc.disable()  # a finaliser that happens to run now is not the function's doing
        sys.setprofile(self.hook)

    def __exit__(self, *error: object) -> None:
        if self.old is None or callable(self.old):
            sys.setprofile(self.old)
        else:  # cProfile's: it is no function, and comes back by itself only
            sys.setprofile(None)
            self.old.enable()
        if self.collecting:
            gc.enable()


def _named_value(value: Any) -> bool:
    return value is None or isinstance(value, (bool, enum.Enum))


def _name(f: Any) -> str:
    module = getattr(f, "__module__", None) or getattr(getattr(f, "__self__", None), "__name__", None)
    if module is None and hasattr(f, "__self__"):
        module = type(f.__self__).__name__
    name = str(getattr(f, "__qualname__", None) or getattr(f, "__name__", repr(f)))
    public = str(module).lstrip("_")  # what Python 3.14 calls _io.open is io.open to users
    if getattr(sys.modules.get(public), name, None) is f:
        module = public
    return name if module in (None, "builtins") or "." in name else f"{module}.{name}"


# What a function does beside answering: watched while it is called on real events.
#
# A function that is called and not traced means what it answers.  That is a meaning only if it always answers the same;
# so every call is watched, and what was seen is one of two things:
#
# * it is **fickle**: it reads a clock or draws random numbers, it depends on what differs from process to process
# (the
#   hash of a text, the order of a set, an address, the environment), or it changes something that it did not make.
# Its
#   answers say nothing about later ones.
# * it is in **doubt**: it calls something behind which nothing can be seen (a file, a library in C), or sets an
#   attribute.  It may well be a function.
#
# Changes of lists, dicts, sets and objects that it can reach are put back after each call.

_CLOCKS = frozenset({
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns",
})  # fmt: skip
_NOWS = frozenset({"now", "utcnow", "today"})
_DICE = frozenset(
    {
        "urandom",
        "getrandom",
        "uuid1",
        "uuid4",
        "random",
        "getrandbits",
        "randbytes",
        "randint",
        "token_bytes",
        "token_hex",
    }
)
#: Modules in C whose functions and types answer by their arguments alone, clocks apart.
_PURE_MODULES = frozenset({
    "re", "_sre", "zlib", "binascii", "_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2",
    "_json", "_struct", "struct", "math", "cmath", "decimal", "_decimal", "datetime", "_datetime", "itertools",
    "_itertools", "unicodedata", "_bisect", "_heapq", "_collections", "collections", "_functools", "functools",
    "_operator", "_statistics", "_string", "array", "fractions", "_abc", "abc",
})  # fmt: skip
_IGNORED = ("has a 'try' or a 'with'", "imports ", "uses ")  # why it is not traced; no effect


@dataclass
class Witness:
    """Who calls a function, and what it saw: ``fickle`` and ``doubts`` are reasons that follow its name ("calls
    time.time()").  ``taken`` is what becomes of its answer: a generator, say, works only where it is asked.

    >>> import time
    >>> seen = Witness(lambda v: v + int(time.time()))
    >>> _ = seen.call(1)
    >>> seen.fickle
    ['calls time.time()']
    >>> text = Witness(lambda v: len(str(v)))
    >>> text.call(123), text.fickle, text.doubts
    (3, [], [])
    """

    f: Callable[..., Any]
    taken: Callable[[Any], Any] | None = None
    fickle: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    calls: int = 0

    def assumptions(self, name: str) -> tuple[str, ...]:
        """What one assumes who relies on its answers: that what it reads stays as it is, and what is uncertain.

        >>> limits = [1, 2]
        >>> Witness(lambda v: v in limits).assumptions("a lambda")[0].partition(" (")[0]
        'that limits stays as it is, which a lambda'
        """
        found = [f"that {name} always answers as it did when it was called: it {doubt}" for doubt in self.doubts[:1]]
        return (*found, *(f"that {read.name} stays as it is, which {read.who} reads" for read in changing(self.f)))

    def call(self, *args: Any) -> Any:
        """What it returns, or raises, on these arguments."""
        self.calls += 1
        watch = _Noted(self.f)
        guard = Captured(self.f)
        try:
            guard.__enter__()
        except Untraceable as error:  # an iterator that it did not make: there is no putting back
            self._add(self.fickle, error.reason)
        try:
            with watch:
                answer = self.f(*args)
                return answer if self.taken is None else self.taken(answer)
        finally:
            try:
                guard.__exit__()
            except Untraceable as error:
                self._add(self.fickle, error.reason)
            if not any(reason.startswith("imports ") for reason in watch.seen) or self.calls > 1:
                # what the first import of a module does is no part of the answer; the next call shows what is
                for reason in watch.fickle:
                    self._add(self.fickle, reason)
                for reason in watch.doubts:
                    self._add(self.doubts, reason)

    @staticmethod
    def _add(to: list[str], reason: str) -> None:
        if reason not in to:
            to.append(reason)


class _Noted(watched):
    """Watches as for a trace, but lets everything pass and notes it."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__(f, effects_only=True)
        self.own = getattr(getattr(f, "__func__", f), "__code__", None)
        self.seen: list[str] = []
        self.fickle: list[str] = []
        self.doubts: list[str] = []

    def hook(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return  # that it looks at the clock, say, whether there is time left, is not the function's doing
        try:
            super().hook(frame, event, arg)
        except Untraceable as error:
            if event == "c_call":
                if _tells_the_time(arg) or of_the_process(arg):
                    self.fickle.append(error.reason.partition(", which may")[0])
                elif not _pure(arg):
                    self.doubts.append(error.reason)

    def reports(self, reason: str) -> None:
        self.fickle.append(reason)

    def look_at(self, frame: types.FrameType, standard: bool) -> None:
        code = frame.f_code
        if reads_environment(code):
            self.fickle.append("reads an environment variable")
        process = "" if standard else differs_by_process(frame)
        if process:
            self.fickle.append(process)
        for trouble in () if standard else troubles(code):
            self.seen.append(trouble)
            if trouble.startswith("sets the global") or (trouble.startswith("sets the outer") and code is self.own):
                self.fickle.append(trouble)
            elif not trouble.startswith(_IGNORED):
                self.doubts.append(trouble)


def _tells_the_time(f: Any) -> bool:
    """Whether a function in C reads a clock or draws random numbers."""
    holder, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
    if isinstance(holder, random.Random) or type(holder).__module__.startswith("numpy.random"):
        return name not in ("seed", "getstate", "setstate")
    module = holder.__name__ if isinstance(holder, types.ModuleType) else str(getattr(f, "__module__", None) or "")
    if module == "time":
        return name in _CLOCKS
    if isinstance(holder, type) and holder.__module__ == "datetime":
        return name in _NOWS
    return name in _DICE and module in ("posix", "nt", "os", "_uuid", "uuid", "_random", "random", "secrets", "")


def _pure(f: Any) -> bool:
    holder = getattr(f, "__self__", None)
    owner = getattr(f, "__objclass__", None) or (holder if isinstance(holder, type) else type(holder))
    module = (
        holder.__name__ if isinstance(holder, types.ModuleType) else owner.__module__ if owner is not type(None) else ""
    )
    return (module or str(getattr(f, "__module__", None) or "")) in _PURE_MODULES


def fickle_reason(reason: str | None) -> bool:
    """Whether the reason why a function was not traced shows that it is fickle, where it was not called.

    >>> fickle_reason("calls time.time(), which may read the outside world"), fickle_reason("calls str() on an event")
    (True, False)
    """
    text = reason or ""
    if text.startswith("changes ") and text.endswith(("which it did not make", "that it did not make", "of an event")):
        return True
    if text.startswith(
        (
            "sets the global ",
            "sets the outer ",
            "uses the iterator ",
            "depends on the order",
            "reads an env",
        )
    ) or text.endswith("differs from process to process"):
        return True
    if not text.startswith("calls "):
        return False
    path = text.removeprefix("calls ").partition("(")[0].split(".")
    return path[-1] in (_NOWS | _DICE) or "Random" in path or (path[0] == "time" and path[-1] in _CLOCKS)
