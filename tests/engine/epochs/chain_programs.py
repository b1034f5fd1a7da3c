"""Runs that read one another's epochs before they are committed."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine.epochs.chain_job import run

# The runs of `chain_job` in processes of their own, forked so that nothing has to be loaded again.


class Program:
    """A run in a process (and a session) of its own; what it says is added to a file."""

    def __init__(
        self, said: Path, role: str, folder: Path, environment: dict[str, str], settings: Any,
        run: Callable[..., Any] = run,
    ) -> None:  # fmt: skip
        self.said, self.pid = said, 0
        self.code: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            code = 2
            try:
                os.setsid()
                os.environ.update(environment)
                os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
                sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115 - not that of the tests
                report = run(folder, role, say=lambda text: print(text, file=sys.stderr), **settings)
                print(f"undone {report.undone}", file=sys.stderr)
                code = 0
            except BaseException:  # the parent reads it
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def text(self) -> str:
        """What was said."""
        return self.said.read_text() if self.said.exists() else ""

    def end(self) -> tuple[int, str]:
        """The exit code, and what was said."""
        until = time.monotonic() + 600
        while (code := self.poll()) is None:
            assert time.monotonic() < until, self.text()
            time.sleep(0.01)
        return code, self.text()
