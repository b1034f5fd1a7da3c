"""A user's function that does not return is stopped when the time of a question is up.

What knows of budgets looks at them itself; a ``while True`` in a function that a check calls does not.  So where a
question may call such functions it is asked in a block of `stopping`.  When its time is up a second thread looks
whether the question is in a function of the user's, and has Python raise an exception there.  That reaches whatever
runs as Python; one long call of C (``sum(range(10**15))``, ``time.sleep``) ends first.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pellucid.errors import Control
from pellucid.internal import PACKAGE
from pellucid.internal.model.budget import CutShort, Spent

_AGAIN = 0.2  # seconds between two looks
_NOT_THE_USERS = (
    PACKAGE,
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


class _Stop(Control):
    """Raised in a function that does not return; no ``except Exception`` of the user's own takes it."""


class _Watch:
    def __init__(self, seconds: float, base: FrameType) -> None:
        self.seconds, self.thread, self.base = seconds, threading.get_ident(), base
        self.done, self.lock, self.where = threading.Event(), threading.Lock(), ""

    def run(self) -> None:
        spent, end = Spent(), self.seconds + _AGAIN  # what knows of budgets has stopped by then
        while not self.done.wait(max(_AGAIN, end - spent())):
            frame = self._of_the_user(sys._current_frames().get(self.thread)) if spent() >= end else None
            if frame is None:
                continue
            code = frame.f_code
            with self.lock:
                if self.done.is_set():
                    return
                self.where = f"{code.co_qualname}() ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(_Stop))

    def _of_the_user(self, frame: FrameType | None) -> FrameType | None:
        """The user's function that was called in the block and has not returned, if there is one."""
        found = None
        while frame is not None and frame is not self.base:
            if not os.path.abspath(frame.f_code.co_filename).startswith(_NOT_THE_USERS):
                found = frame
            frame = frame.f_back
        return found

    def end(self) -> None:
        """From here on nothing is raised any more; what was raised and has not arrived arrives here."""
        with self.lock:
            self.done.set()
        if self.where:
            with suppress(_Stop):
                for _ in range(1000):
                    pass


_here = threading.local()


@contextmanager
def stopping(seconds: float | None) -> Iterator[None]:
    """In this block a user's function that goes on when so many seconds of work are done is stopped: `CutShort`, which
    names it.  Inside another such block, and with no limit, it does nothing.

    >>> with stopping(0.1):  # what our own code waits for is stopped; what stands in the block itself is not
    ...     done = sum(range(10))
    """
    if seconds is None or getattr(_here, "watch", None) is not None:
        yield
        return
    watch = _here.watch = _Watch(seconds, sys._getframe(2))
    _thread.start_new_thread(watch.run, ())  # not waited for: most questions are over before it begins
    try:
        try:
            yield
        finally:
            watch.end()
            _here.watch = None
    except _Stop:
        raise CutShort(
            f"the time limit of {seconds:g} s was reached in {watch.where}, which had not returned"
        ) from None
