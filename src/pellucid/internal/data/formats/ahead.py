"""Read ahead: the next batches are read by a thread while the present one is worked on."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_AHEAD = 1  # items that are made or wait: memory follows it
_END = object()


@contextmanager
def ahead(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """The same items in the same order, made by a thread, each while the one before is used.

    What goes wrong there is raised here, behind the items that came before.  Leaving the block ends the thread.

    >>> with ahead(range(3)) as items:
    ...     list(items)
    [0, 1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue()
    room = threading.Semaphore(_AHEAD)
    over = threading.Event()

    def make() -> None:
        made = iter(items)
        try:
            while room.acquire() and not over.is_set():
                waiting.put([next(made, _END)])  # nothing here keeps an item: it may be large
        except BaseException as error:
            waiting.put(error)

    def found() -> Iterator[T]:
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if item[0] is _END:
                return
            room.release()
            yield item.pop()

    said = contextvars.copy_context()  # who is spoken to: messages name options as that one writes them
    thread = threading.Thread(target=said.run, args=(make,), name="pellucid-read", daemon=True)
    thread.start()
    try:
        yield found()
    finally:
        over.set()
        room.release()
        thread.join()
