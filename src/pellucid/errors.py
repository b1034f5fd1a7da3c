"""The exception tree, drawn in one place.

::

    PellucidError              anything Pellucid says no to; the message is for the user
    ├── PipelineError          the pipeline itself is wrong (found when it is built)
    │   ├── TypeMismatch       two types do not fit; names the step and both types
    │   └── CycleError         a pipeline depends on itself; names the path
    ├── NotTraceable           a part needs a function as data, but the function is opaque
    ├── DataError              the input or output data is wrong (file, column, row, value)
    │   └── Unreachable        a server does not answer: the same again may go through
    ├── StepError              a step failed on an event (the user's function raised)
    │   ├── IntOverflow        an integer left the signed 64-bit range
    │   └── LateError          an event came after its time was complete, and nothing was said about such events
    ├── StateError             a saved state does not fit this pipeline or is damaged
    └── UsageError             a call or a command line is wrong

    NotNamed                   a mistake of Pellucid's own: a back-end does not know a processor or an operation

Every message says what was found, what was expected and what to do.  The command line prints it
alone and exits with 2: a user's mistake never shows a traceback.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from pellucid.internal.secrets import redact

Listener = Literal["Python", "command line"]
_to: Listener = "Python"
_PLAIN = (bool, int, float, list, tuple)
#: The flags of options whose names in Python are others; a test holds them to `pellucid.internal.request`.
FLAGS = {
    "inputs": "in",
    "outputs": "out",
    "limit": "head",
    "nulls": "null",
    "keep": "keep-columns",
    "short": "uneven",
    "pushes": "epoch-size",
    "changed": "allow-changed",
}
_BY_FLAG = {flag.replace("-", "_"): name for name, flag in FLAGS.items()}


def option(name: str, value: object = None, *, any: str = "") -> str:
    """An option in a message, as its reader writes it: with a value, or a word for any.

    >>> option("late"), option("late", "drop"), option("state", any="FOLDER"), option("drop", ["a", "b"])
    ('late=', "late='drop'", 'state=FOLDER', "drop=['a', 'b']")
    >>> with speaking_to("command line"):
    ...     option("late"), option("late", "drop"), option("drop", ["a", "b"]), option("from_start", True)
    ...     option("DIR", "net")
    ('--late', '--late drop', '--drop a --drop b', '--from-start')
    'DIR net'
    """
    name = _BY_FLAG.get(name, name)
    if _to == "Python":
        shown = any if value is None else repr(value if isinstance(value, _PLAIN) else str(value))
        return f"{name}={shown}"
    flag = name if name.isupper() else f"--{FLAGS.get(name, name.replace('_', '-'))}"  # in capitals: no flag, as DIR
    if isinstance(value, (list, tuple)):
        return " ".join(f"{flag} {part}" for part in value)
    return f"{flag} {any}".strip() if value is None or value is True else f"{flag} {value}"


def listener() -> Listener:
    """Who reads the messages of this process."""
    return _to


def speak_to(who: Listener) -> None:
    """From here on: for a process that works for another one."""
    global _to
    _to = who


@contextmanager
def speaking_to(who: Listener) -> Iterator[None]:
    """Set in which language users are addressed: that of Python or that of the command line."""
    before = _to
    speak_to(who)
    try:
        yield
    finally:
        speak_to(before)


class PellucidError(Exception):
    """The root of all errors that Pellucid raises on purpose.

    >>> try:
    ...     raise DataError("events.csv: row 3: column 'x' is empty")
    ... except PellucidError as error:
    ...     print(error)
    events.csv: row 3: column 'x' is empty

    No message has a password in it, whatever address it tells:

    >>> str(DataError("postgresql://me:S3cret@db/shop: no such table"))
    'postgresql://me:***@db/shop: no such table'
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(redact(message) if isinstance(message, str) else message)


class PipelineError(PellucidError):
    """The pipeline is wrong; found when it is built, before any event."""


class TypeMismatch(PipelineError):  # noqa: N818 - reads as what it is
    """Two types do not fit: the message names the step and both types."""


class CycleError(PipelineError):
    """A pipeline depends on its own output; the message gives the path."""


class NotTraceable(PellucidError):  # noqa: N818
    """A function is opaque where a function as data is needed."""


class DataError(PellucidError):
    """The data is wrong: the message names the file, the row and the column."""


class Unreachable(DataError):  # noqa: N818
    """A server does not answer, or went away: nothing is wrong with the data, and the same again may go through."""


class StepError(PellucidError):
    """A step failed on an event.

    ``position`` is the 0-based position of the push at which it failed, ``step`` the step's id, ``why`` the message
    without the two.
    """

    def __init__(self, message: str, *, step: str = "", position: int = -1, why: str = "") -> None:
        super().__init__(message)
        self.step = step
        self.position = position
        self._why = why or message

    @property
    def why(self) -> str:
        """What went wrong, on which event; asked of rows that are set aside, of which there may be many."""
        return redact(self._why)


class IntOverflow(StepError):  # noqa: N818
    """An integer left the signed 64-bit range: never a silent wrap."""


class LateError(StepError):
    """An event came when its time was complete already, and nothing was said about late events."""


class StateError(PellucidError):
    """A saved state is damaged, of another version, or of another pipeline."""


class UsageError(PellucidError):
    """A call or a command line is wrong."""


class Control(BaseException):
    """What Pellucid itself raises through a user's function to end it: no failure of that function.

    Whatever else it raises is its failure, also what is no ``Exception``, such as ``asyncio.CancelledError``.

    >>> from pellucid.internal.expr.tracing.symbolic import Untraceable
    >>> issubclass(Untraceable, Control), issubclass(Control, Exception)
    (True, False)
    """


class NotNamed(NotImplementedError):  # noqa: N818
    """A back-end was given a processor or an operation that its table does not name."""


T = TypeVar("T")
_LONG = 200  # characters: to compare longer names takes very long


def known(table: Mapping[str, T], name: str, where: str, what: str = "processor") -> T:
    """What a back-end's table has for this name; one that is not there is refused, and never taken for another.

    >>> known({"map": 1}, "fold", "the kernel")
    Traceback (most recent call last):
    pellucid.errors.NotNamed: the kernel does not know the processor 'fold': it has map
    """
    if name not in table:
        raise NotNamed(f"{where} does not know the {what} {name!r}: it has {', '.join(table)}")
    return table[name]


def from_outside(error: BaseException) -> PellucidError | None:
    """What the user's machine refused (a disk, a folder, a connection, a database), in one line; None if it is
    something else.

    Such an error is no bug: the message says what the system says, and about which file.

    >>> str(from_outside(OSError(28, "No space left on device", "out.csv")))
    'out.csv: No space left on device'
    >>> import sqlite3
    >>> str(from_outside(sqlite3.DatabaseError("file is not a database")))
    'SQLite: file is not a database'
    >>> from_outside(ValueError("x")) is None
    True
    """
    if isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = error.strerror or str(error) or type(error).__name__
        return DataError(f"{' and '.join(names)}: {text}" if names else text)
    kinds = {kind.__module__.partition(".")[0] + "." + kind.__name__ for kind in type(error).__mro__}
    text = " ".join(str(error).split()) or type(error).__name__
    if "sqlite3.DatabaseError" in kinds and not {"sqlite3.ProgrammingError", "sqlite3.InterfaceError"} & kinds:
        return DataError(f"SQLite: {text}")
    if "psycopg.Error" in kinds:
        return DataError(f"PostgreSQL: {text}")
    return None


def out_of_memory(error: MemoryError) -> str:
    """What is known of it: how much was asked for, if the library says so.  Not what holds the rest, which no library
    measured: the state of many keys, rows that are sorted, a chunk, another program.

    >>> out_of_memory(MemoryError("Unable to allocate 8.00 GiB for an array")), out_of_memory(MemoryError())
    ('not enough memory: Unable to allocate 8.00 GiB for an array', 'not enough memory')
    """
    said = " ".join(str(error).split())
    return f"not enough memory: {said}" if said else "not enough memory"


def by_new_names(caller: str, names: Mapping[str, str], given: Mapping[str, Any], *, level: int = 4) -> dict[str, Any]:
    """Keywords with the names that they have now; one by its old name is taken, with a warning at the frame ``level``.

    >>> by_new_names("run_epochs", {"keep": "snapshots"}, {"snapshots": 3, "keep": 2})
    Traceback (most recent call last):
    pellucid.errors.UsageError: run_epochs: keep= is called snapshots= now, and both are given: leave one out
    """
    out = dict(given)
    for old, new in names.items():
        if old in out:
            said = f"{caller}: {old}= is called {new}= now"
            if out.get(new) is not None:
                raise UsageError(f"{said}, and both are given: leave one out")
            warnings.warn(said, DeprecationWarning, stacklevel=level)
            out[new] = out.pop(old)
    return out


def printable(text: str) -> str:
    r"""A message as it can be shown: a character that is not printed, as one that steers a terminal, is an escape.
    Lines are kept where the next one is indented, as in all messages of several lines; other line ends are of a name.

    >>> print(printable("a\x1b[31m\nb.csv: no such file\n  in x.py"))
    a\x1b[31m\nb.csv: no such file
      in x.py
    """
    if text.isprintable():
        return text
    return "".join(
        ch
        if ch.isprintable() or (ch == "\n" and text.startswith("  ", i + 1))
        else ch.encode("unicode_escape").decode()
        for i, ch in enumerate(text)
    )


def nearest(name: str, options: Sequence[str]) -> str:
    """A question that suggests the nearest name, or nothing.

    >>> nearest("prise", ["price", "size"])
    "; did you mean 'price'?"
    >>> nearest("q", ["price", "size"])
    ''
    """
    import difflib  # only after a mistake

    if len(name) > _LONG:
        return ""
    lower = {o.lower(): o for o in options if len(o) <= _LONG}  # what is longer is data where a name belongs
    found = difflib.get_close_matches(name.lower(), list(lower), n=1, cutoff=0.6)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""
