"""What a function does beside answering: watched while it is called on real events.

A function that is called and not traced means what it answers.  That is a meaning only if it always answers the same;
so every call is watched, and what was seen is one of two things:

* it is **fickle**: it reads a clock or draws random numbers, it depends on what differs from process to process (the
  hash of a text, the order of a set, an address, the environment), or it changes something that it did not make.  Its
  answers say nothing about later ones.
* it is in **doubt**: it calls something behind which nothing can be seen (a file, a library in C), or sets an
  attribute.  It may well be a function.

Changes of lists, dicts, sets and objects that it can reach are put back after each call.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pellucid.internal import PACKAGE
from pellucid.internal.expr.reads.outside import changing
from pellucid.internal.expr.tracing.purity import (
    differs_by_process,
    of_the_process,
    reads_environment,
    troubles,
    watched,
)
from pellucid.internal.expr.tracing.reach import Captured
from pellucid.internal.expr.tracing.symbolic import Untraceable

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
        """What one assumes who relies on its answers: that what it reads stays as it is, and what is in doubt.

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

    def tell(self, reason: str) -> None:
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
