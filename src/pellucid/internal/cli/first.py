"""What the command does before it loads anything: whatever happens from then on ends with one line and an exit code.

Python's own start comes before.
"""

from __future__ import annotations

import os
import sys

from pellucid.internal.cli.signals import listen

_NAMES = {"pellucid", "pellucid.exe"}
_MODULES = {"pellucid", "pellucid.internal.cli.main"}


def is_command() -> bool:
    """Whether this process is the command: ``pellucid …`` or ``python -m pellucid …``, and not a program of the user's
    that imports Pellucid."""
    name = sys.argv[0] if sys.argv else ""
    return os.path.basename(name) in _NAMES or (name == "-m" and not _MODULES.isdisjoint(sys.orig_argv))


def begin() -> None:
    """Open descriptors that are closed, before anything else takes their numbers, and note signals."""
    open_closed()
    listen()


def open_closed() -> None:
    """Open what is closed of the standard input, output and error, so that no file that is opened later takes its
    number, and gets what is meant for it.

    To write to the output fails as if it was closed.  The input is empty, and who wants events of it asks
    ``sys.__stdin__``, which is None.  The rest of the messages go nowhere.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, flags)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)  # a child process must not take the number either
        if getattr(sys, name) is None:  # Python has found it closed
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
