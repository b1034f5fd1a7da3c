"""What PostgreSQL says of a row that it refuses, as one line that names the table, the column and what was expected;
and a connection that notices when it says nothing."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

_SHOWN = 120  # characters of a row
_SOON = ("starting up", "shutting down", "in recovery mode", "not yet accepting connections", "too many clients",
         "remaining connection slots")  # fmt: skip
_VALUE = re.compile(r"""['"$]|\b\d|--|/\*""")  # where a text, a number or a comment begins


def refusal(table: str, batch: int, error: psycopg.Error) -> str:
    """A refused value, or a null where the table takes none, in words."""
    import psycopg

    said = error.diag
    if isinstance(error, psycopg.errors.NotNullViolation) and said.column_name:
        row = re.search(r"\(.*\)", said.message_detail or "", re.DOTALL)
        shown = f" ({shortened(row[0][1:-1])})" if row else ""
        return (
            f"table {table!r}: column {said.column_name!r} is NOT NULL there, and a row of batch {batch} has None for "
            f"it{shown}: give every row a value before the sink, or ALTER TABLE … ALTER COLUMN … DROP NOT NULL"
        )
    why = ": ".join(" ".join(part.split()) for part in (said.message_primary, said.message_detail) if part)
    found = re.search(r'COPY .*?, line \d+, column (?P<column>.+?): "(?P<value>.*)"', said.context or "", re.DOTALL)
    if found is None:
        return f"table {table!r}: PostgreSQL refuses a value of batch {batch}: {why or type(error).__name__}"
    return (
        f"table {table!r}: column {found['column']!r} does not take {shortened(found['value'])}, a value of batch "
        f"{batch}: {why}"
    )


def may_come_back(said: str) -> bool:
    """Whether what is said where nobody could log in may be over soon: nobody is there, or the server is starting or
    ending; not where it answers and says no.

    >>> may_come_back("connection failed: Connection refused")
    True
    >>> may_come_back("FATAL:  the database system is starting up")
    True
    >>> may_come_back('FATAL:  password authentication failed for user "shop"')
    False
    """
    return "FATAL" not in said or any(words in said for words in _SOON)


@functools.cache
def answering() -> Any:
    """A class of connections with ``answers_within``: for so many seconds a server that is asked may be silent (None:
    for ever).  Then the connection is given up, and is ``silent``; ``heard`` is called whenever there is a sign of
    life."""
    import psycopg

    class Answering(psycopg.Connection[Any]):  # type: ignore[misc]  # it may not be installed
        answers_within: float | None = None
        silent = False

        @staticmethod
        def heard() -> None:
            """Nobody wants to know."""

        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            if self.answers_within is None:
                return super().wait(gen, *more, **named)
            try:
                return super().wait(_heard(gen, self.answers_within, self.heard), *more, **named)
            except _NoAnswerError:
                self.silent = True
                self.pgconn.finish()
                raise psycopg.OperationalError("no answer") from None

    return Answering


class _NoAnswerError(Exception):
    """A server says nothing."""


def _heard(asked: Any, within: float, heard: Callable[[], None]) -> Generator[Any, Any, Any]:
    """What asks a server, with an eye on how long it has said nothing.

    >>> def asked():
    ...     return (yield "ready to read?")
    >>> one = _heard(asked(), 0.0, lambda: print("heard"))
    >>> next(one)
    'ready to read?'
    >>> one.send(0)
    Traceback (most recent call last):
    pellucid.sinks.postgres_words._NoAnswerError
    """
    since = time.monotonic()
    try:
        wants = next(asked)
        while True:
            ready = yield wants
            if ready:
                since = time.monotonic()
                heard()
            elif time.monotonic() - since > within:
                raise _NoAnswerError
            wants = asked.send(ready)
    except StopIteration as done:
        return done.value


def shortened(text: str) -> str:
    """A text on one line, not too long.

    >>> shortened("1,\\n2"), len(shortened("x" * 1000))
    ('1, 2', 121)
    """
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


def beginning(statement: str) -> str:
    """A statement of somebody else, up to its first text or number: what comes there may be data, or a password.

    >>> beginning("ALTER ROLE shop PASSWORD 'S3cret'"), beginning("LOCK TABLE orders")
    ('ALTER ROLE shop PASSWORD …', 'LOCK TABLE orders')
    >>> beginning("SELECT * FROM t1 WHERE card = 4111"), beginning("SELECT $$S3cret$$"), beginning("/* S3cret */ BEGIN")
    ('SELECT * FROM t1 WHERE card = …', 'SELECT …', '…')
    """
    shown = _VALUE.split(statement, maxsplit=1)[0]
    return shortened(shown if shown == statement else shown.rstrip() + " …").strip()
