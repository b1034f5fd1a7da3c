"""What the judges of kills share: the processes of a session, and how one is killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def members(leader: int) -> list[int]:
    """The living processes of a session, whoever their parents are."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(rest[3]) == leader and rest[0] != "Z":
                    found.append(int(entry))
    return sorted(found)


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
