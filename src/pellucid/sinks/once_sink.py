"""``once``: the guard for a function of one's own, with what can honestly be promised from outside.

Nobody but the function can put its effects and the batch's number into one transaction.  From outside, a ledger can do
two things: note *before* the call that the batch began, and *after* it that the batch ended.  A batch that ended is
never given to the function again.  A batch that began and did not end is given again, with ``again=True``: only then
may something of it be there already, so only then need the function look (delete by batch id, upsert, compare).  A
function that uses this well is exactly-once; one that ignores it is at-least-once, and repeats at most one batch per
crash.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from pellucid.errors import StateError, UsageError
from pellucid.internal.base import faults
from pellucid.internal.base.small import read_small
from pellucid.sinks import interface
from pellucid.sinks.files import folder
from pellucid.sinks.rows import computed

_WAIT = 60.0  # seconds for the function to end that a stopped query in this process still runs


class OnceSink(interface.Sink):
    """Call ``fn(df, batch_id)``, or ``fn(df, batch_id, again=…)`` if it takes that, once for each batch that did not
    fail.

    ``ledger`` is a folder for one small file per query, on a disk that outlives the driver.  ``first_batch`` says that
    the sink begins with this batch of an older checkpoint.

    >>> import tempfile
    >>> seen = []
    >>> sink = once(lambda df, batch_id, again: seen.append((batch_id, again)), ledger=tempfile.mkdtemp())
    >>> for batch in (0, 1, 1):
    ...     print(sink.write([], "orders", batch).skipped)
    False
    False
    True
    >>> seen
    [(0, False), (1, False)]
    """

    kind: ClassVar[str] = "once"
    guarantee: ClassVar[str] = (
        "a batch for which the function returned is never given to it again; one that a crash interrupted is given "
        "again, with again=True, so its effects are there at least once"
    )

    def __init__(
        self,
        fn: Callable[..., object],
        *,
        ledger: str | os.PathLike[str],
        first_batch: int | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.fn = fn
        self.ledger = folder.local_folder(ledger)
        self.tells_again = _takes_again(fn)
        self._turns = interface.Turns()

    @property
    def place(self) -> str:
        return f"ledger {self.ledger}"

    def last(self, query: str) -> int | None:
        return self._state(query)["ended"]

    def read(self) -> Any:
        raise UsageError("once: only your function knows where its rows are; read them there")

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The batch is computed, and kept."""
        with ExitStack() as stack:
            stack.enter_context(self._turns.taken(query, "once", _WAIT))
            state = self._state(query)
            if state["ended"] is not None and batch <= state["ended"]:
                return interface.Staged(query, batch, skipped=True)
            stack.enter_context(computed(data))
            return interface.Staged(query, batch, held=(data, state, stack.pop_all()))

    def prepare(self, staged: interface.Staged) -> None:
        """That the batch begins is written down; whether the function will fail nobody can know."""
        self._note(staged.query, began=staged.batch, ended=staged.held[1]["ended"])
        faults.point("once:began")

    def commit(self, staged: interface.Staged) -> None:
        """The function is called."""
        (data, state, stack), batch = staged.held, staged.batch
        with stack:
            self.fn(data, batch, **({"again": state["began"] == batch} if self.tells_again else {}))
            faults.point("once:before-end")
            self._note(staged.query, began=batch, ended=batch)

    def abort(self, staged: interface.Staged) -> None:
        staged.held[2].close()

    def _state(self, query: str) -> dict[str, int | None]:
        path = self._path(query)
        try:
            found = read_small(path, links=True)
            return {"began": found["began"], "ended": found["ended"]}
        except FileNotFoundError:
            return {"began": None, "ended": None}
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"{path}: not a ledger of pellucid ({error!r}): the file is damaged; restore it from a copy"
            ) from None

    def _note(self, query: str, *, began: int, ended: int | None) -> None:
        folder.replace(
            self._path(query), json.dumps({"format": 1, "query": query, "began": began, "ended": ended}).encode()
        )

    def _path(self, query: str) -> Path:
        return self.ledger / f"{query}.json"


def _takes_again(fn: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError) as error:
        raise UsageError(f"once: {fn!r} is not a function of (df, batch_id) or (df, batch_id, *, again)") from error
    return "again" in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


once = OnceSink
