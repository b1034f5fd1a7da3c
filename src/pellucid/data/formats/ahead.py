"""Read ahead: the next batches are read by a thread while the present one is worked on."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_AHEAD = 1  # batches that wait, besides the one that is made: memory follows it
_END = object()


@contextmanager
def ahead(items: Iterable[T]) -> Iterator[Iterator[T]]:
    """The same items in the same order, made by a thread, at most a few before they are asked for.

    What goes wrong there is raised here, behind the items that came before.  Leaving the block ends the thread.

    >>> with ahead(range(3)) as items:
    ...     list(items)
    [0, 1, 2]
    """
    waiting: queue.Queue[Any] = queue.Queue(_AHEAD)
    over = threading.Event()

    def put(item: Any) -> None:
        while not over.is_set():
            try:
                return waiting.put(item, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put((item, None))
                if over.is_set():
                    return
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    def found() -> Iterator[T]:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item

    said = contextvars.copy_context()  # who is spoken to: messages name options as that one writes them
    thread = threading.Thread(target=said.run, args=(make,), name="pellucid-read", daemon=True)
    thread.start()
    try:
        yield found()
    finally:
        over.set()
        thread.join()
