"""How far a log was, noted beside it: for the common case that only the log is put back from an older copy.

The note is written after each sync, without a sync of its own: it never says more than what lasts, so that no crash
makes it speak against the log.  If it says less, nothing is wrong either; then only other places can notice.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pellucid.atomic.places.core.state import State
from pellucid.atomic.places.records import fits
from pellucid.errors import StateError
from pellucid.internal.base.files import no_links, read_own

FILE = "newest"
_WIDTH = 80  # a longer number would otherwise leave the rest of one before


def noted(folder: Path) -> str | None:
    """How far the log was, as the note says; None if there is none."""
    try:
        return _read(read_own(folder / FILE)[:_WIDTH])
    except OSError:
        return None


def _read(found: bytes) -> str | None:
    text = found.decode("ascii", "replace").strip()
    return text if fits("stand", text) else None


class Newest:
    """The note of a place.

    >>> import tempfile
    >>> from pellucid.atomic.places.records import make
    >>> folder, state = Path(tempfile.mkdtemp()), State("p")
    >>> state.apply(make("boot", n=1, mark="x"))
    >>> note = Newest(folder)
    >>> note.stand, note.write(state), note.close()
    (None, None, None)
    >>> Newest(folder).stand
    '1-x/1'
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._handle = no_links(folder / FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StateError(f"{folder / FILE}: cannot be used: {error.strerror or error}") from None
        self.stand = _read(os.pread(self._handle, _WIDTH, 0))

    def write(self, state: State) -> None:
        """All records of this state last.  Of an older copy: what it lacks, so that the newer log is right again."""
        start, n = next(((s, m) for s, (_, m) in state.behind.items()), (state.start, state.records))
        with contextlib.suppress(OSError):  # no room for it: only the log has to be written
            os.pwrite(self._handle, f"{start}/{n}".ljust(_WIDTH - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)
