"""For how long a member that cannot be reached is tried again *before* anything is decided.

Nothing is lost by waiting, and nothing by giving up: until the decision nobody has the epoch.  So it is tried again for
some seconds, as a server that is started anew is back by then; after that the epoch is given up everywhere, and said.
(After the decision nothing is given up, however long it takes.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pellucid.errors import Unreachable

AGAIN = (0.05, 0.2, 0.5, 1.0)  # seconds between two attempts

T = TypeVar("T")


class Patience:
    """So many seconds for one attempt at an epoch; ``tell`` is told once why somebody waits, ``back`` is called if that
    is over, ``alive`` before each wait, and ``stop`` ends it: another member has refused, and nobody waits for this one
    any more.

    >>> tries = iter([True, True, False])
    >>> def reach() -> str:
    ...     if next(tries):
    ...         raise Unreachable("no server")
    ...     return "there"
    >>> patience = Patience(10, print, back=lambda: print("it is there again"))
    >>> patience.until_reached(reach, lambda: print("what may be left is taken back"))
    no server
    what may be left is taken back
    what may be left is taken back
    it is there again
    'there'
    """

    def __init__(
        self,
        seconds: float,
        tell: Callable[[Unreachable], object],
        alive: Callable[[], object] = lambda: None,
        back: Callable[[], object] = lambda: None,
    ) -> None:
        self.seconds, self._tell, self._alive, self._back = seconds, tell, alive, back
        self.stop = threading.Event()

    def until_reached(self, what: Callable[[], T], again: Callable[[], object]) -> T:
        """Do it; where the target cannot be reached, ``again`` and it once more, until the time is over."""
        until, turn = time.monotonic() + self.seconds, 0
        while True:
            try:
                if turn:
                    again()
                done = what()
                if turn:
                    self._back()
                return done
            except Unreachable as error:
                left = until - time.monotonic()
                if left <= 0:
                    raise
                if turn == 0:
                    self._tell(error)
                self._alive()
                if self.stop.wait(min(AGAIN[min(turn, len(AGAIN) - 1)], left)):
                    raise
                turn += 1
