"""SIGINT, SIGTERM and SIGHUP: noted when they come, obeyed at safe points.

The handler raises nothing.  An exception that comes out of nowhere leaves half of what was being done behind, in our
code or in a library's, and a library may swallow it.  So the handler notes the signal, and `checkpoint` stands where
the program can end.

A thread sees to it that the end comes: if no safe point is reached soon (the main thread waits for a pipe, a solver, a
compiler), or if a second signal comes, it ends the process itself.  Nothing is lost by that: an output has no name
before it is whole, and its draft is removed.

This module is loaded before all others of the command, so it imports little.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from pellucid.errors import Control

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):
    _WORDS[signal.SIGHUP] = "hung up"

_SOON = 1.0  # seconds in which a safe point must be reached; a chunk of a run takes less
_TIDY = 30.0  # seconds for what is done from there to the end: Spark takes its unfinished files away

_came: list[int] = []
_means = ""  # what a stop means for what is being done now
_wakers: list[Callable[[], None]] = []
_obeyed = _finishing = _listening = False
_last_word = threading.RLock()  # its holder decides how the process ends
_code: int | None = None  # with which the main thread is about to end it


class Stopped(Control):
    """A signal wants the program to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.code = 128 + number
        self.word = _WORDS[signal.Signals(number)] + _means


def checkpoint(*, last: bool = False) -> None:
    """A safe point: stop here if a signal came.  After the ``last`` one what is being done is brought to its end."""
    global _obeyed, _finishing
    if _came:
        _obeyed = True
        raise Stopped(_came[0])
    if last and _listening:
        with _last_word:
            _finishing = True


@contextmanager
def stopping_means(words: str) -> Iterator[None]:
    """What is said beside the word for the signal that ends this block."""
    global _means
    _means = f": {words}"
    try:
        yield
    finally:
        _means = ""


@contextmanager
def woken(wake: Callable[[], None]) -> Iterator[None]:
    """The main thread waits for something that does not look around; ``wake``, called by another thread again and
    again from a signal on, ends the waiting.  Whatever comes of that is not what is wrong."""
    _wakers.append(wake)
    try:
        yield
    except Exception:
        checkpoint()
        raise
    finally:
        _wakers.remove(wake)


def listen() -> None:
    """Note signals from now on, for as long as the process lives; only once, and only in the main thread."""
    global _listening
    if _listening or threading.current_thread() is not threading.main_thread():
        return
    for number in _WORDS:
        # one that was started so that a hangup does not end it, as with nohup, goes on
        if signal.getsignal(number) is not signal.SIG_IGN or _WORDS[number] != "hung up":
            signal.signal(number, _note)
    _listening = True
    if os.name == "posix":
        here, there = os.pipe()
        os.set_blocking(there, False)
        signal.set_wakeup_fd(there, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=_deaf)
        threading.Thread(target=_watch, args=(here,), name="pellucid-signals", daemon=True).start()


def settle(code: int) -> None:
    """From here on the main thread says how the process ends: with this code."""
    global _code
    if _listening:
        _last_word.acquire()
        _code = code


def _deaf() -> None:
    signal.set_wakeup_fd(-1)  # the pipe's other end is the parent's


def _note(number: int, frame: Any) -> None:
    _came.append(number)


def _watch(end: int) -> NoReturn:
    import select

    while True:
        number = os.read(end, 1)[0]
        if number not in _WORDS or signal.getsignal(number) is not _note:  # who has a handler of his own sees to it
            continue
        again, began = False, time.monotonic()
        while not again and (_finishing or time.monotonic() - began < (_TIDY if _obeyed or _wakers else _SOON)):
            for wake in list(_wakers):
                with suppress(Exception):
                    wake()
            again = bool(select.select([end], [], [], 0.1)[0])
        _end(number, again)


def _end(number: int, at_once: bool) -> None:
    """End the process, unless what it does is being brought to its end."""
    stop = Stopped(number)
    if _last_word.acquire(blocking=False):
        if _finishing and not at_once:
            _last_word.release()
            return
        files = sys.modules.get("pellucid.internal.base.files")
        if files is not None:
            files.discard_drafts()
        with suppress(OSError):
            if os.isatty(2):
                os.write(2, b"\r\x1b[K")  # where a line of progress may stand
            os.write(2, f"pellucid: {stop.word}\n".encode())
    else:
        time.sleep(0.5)  # the main thread is about to end it
    os._exit(stop.code if _code is None else _code)
