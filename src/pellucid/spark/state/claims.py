"""Whose a state folder is: one query's, one start of it at a time, with what was given up on the way.

=====================  =============================================================================================
``identity.json``      the query, and what must not change while it lives: buckets, key, order
``owner.json``         the newest start of the query.  A start is numbered one higher than the owner that it finds, so a
                       driver that is believed dead and still runs (a zombie) has the lower number and is refused
``start-N-….json``     written by the driver before the query starts, and read by tasks, which never make one: so a task
                       whose folder is another one, on a disk of its own, finds none and is refused
``dropped-N-….json``   steps whose memory was given up at micro-batch N: in all buckets, also in those without a row
                       then
=====================  =============================================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Iterable
from typing import Any

from pellucid.errors import StateError
from pellucid.internal.base.container import VERSION, refused
from pellucid.internal.base.identity import refuse_other
from pellucid.spark.state.files import Files, open_files

_READ = (1, VERSION)  # 1: the version before
_FACTS = (
    ("query", "the query", "A new checkpoint needs a new state folder, and an old checkpoint its own"),
    ("buckets", "the number of buckets", "It decides where a key is kept: go on with the number as it was"),
)
_STARTED = re.compile(r"start-(\d+)-[0-9a-zA-Z-]+\.json")
_DROPPED = re.compile(r"dropped-(\d{20})-[0-9a-f]{8}\.json")


class Claims:
    """A folder that belongs to a query.  It can be pickled: a task opens the folder anew."""

    def __init__(self, path: str) -> None:
        # A task's working folder is another one than the driver's.
        self.path = path if "://" in path or path.startswith("file:") else os.path.abspath(path)
        self._opened: Files | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _files(self) -> Files:
        if self._opened is None:
            self._opened = open_files(self.path)
        return self._opened

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            return dict(json.loads(self._files.read(name)))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(
                f"{self.path}/{name} is damaged ({error}): put it back from a copy of the folder, or start anew with a "
                "new checkpoint and a new state folder"
            ) from None

    # ------------------------------------------------------------ the query

    def identity(self) -> dict[str, Any] | None:
        """What `claim` wrote, or None if nobody has claimed the folder yet."""
        found = self._json("identity.json")
        if found is not None and found.get("format") not in _READ:
            raise StateError(refused(f"the state folder {self.path}", found.get("format")))
        return found

    def claim(self, query: str, described: dict[str, Any]) -> dict[str, Any]:
        """Make the folder this query's own, or find that it is; returns its identity as first written.

        ``described`` says what lies in it, such as ``buckets``, ``pipeline``, ``key``.  All tasks of a query may claim
        at once.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.claim("q1", {"buckets": 4})["buckets"], claims.claim("q1", {"buckets": 4})["query"]
        (4, 'q1')
        """
        found = self.identity()
        if found is None:
            self._files.create("identity.json", _dumps({"format": VERSION, "query": query} | described))
            found = self.identity()
            assert found is not None
        was = {"query": found["query"], "buckets": found.get("buckets")}
        now = {"query": query, "buckets": described.get("buckets")}
        for name, word, advice in _FACTS:
            refuse_other(f"the state folder {self.path}", was, now, {name: word}, advice)
        return found

    # ------------------------------------------------------------ its newest start

    def next_start(self) -> int:
        """The number of a start that begins now.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.announce(claims.next_start(), "a")
        >>> claims.own(1, "a", version=5), claims.next_start()
        (5, 2)
        """
        owner = self._json("owner.json")
        return 1 if owner is None else int(owner["start"]) + 1

    def announce(self, start: int, token: str) -> None:
        """Write, on the driver, what every task of this start must find."""
        self._files.create(_started(start, token), _dumps({"token": token}))

    def find(self, start: int, token: str) -> None:
        """Refuse a folder in which the driver has not announced this start: it is another one than the driver's."""
        found = self._json(_started(start, token))
        if found is None or found.get("token") != token:
            raise StateError(
                f"the state folder {self.path} that this task sees on {socket.gethostname()} is not the one in which "
                "p.spark has announced the query: the state folder must be on a file system that the driver and all "
                "workers share, mounted under this path on each of them, and must not be removed or replaced while the "
                "query runs"
            )

    def owned(self, start: int, token: str) -> int | None:
        """Since which micro-batch each bucket says that it has run, if the newest start is this one; None if this one
        has not taken over yet.  Refused if a later one has."""
        owner = self._json("owner.json")
        if owner is None or owner["start"] < start:
            return None
        if (owner["start"], owner["token"]) != (start, token):
            raise StateError(
                f"the state folder {self.path} has been taken over by a later start of the query, so this one ends: "
                "one that was believed dead and went on, a DataFrame from before that start (call p.spark again), or "
                "two calls of p.spark with the same folder (give each its own)"
            )
        return int(owner["since"])

    def own(self, start: int, token: str, version: int = 0) -> int:
        """Go on if no later start than this one has taken over; ``token`` tells apart two that began at the same
        moment.  Gives since which micro-batch each bucket says that it has run: where an older version of Pellucid,
        which did not say it, had the folder before, since this one.

        ``version`` is the micro-batch at which this start begins: what an earlier one gave up then or later, it tried
        in vain.
        """
        since = self.owned(start, token)
        if since is None:
            self.find(start, token)
            self._forget_drops(version, start)
            since = min(version, (self._json("owner.json") or {}).get("since", version))
            self._files.write("owner.json", [_dumps({"start": start, "token": token, "since": since})])
            for name, at in self._numbered(_STARTED):
                if at < start:
                    self._files.remove(name)
        return since

    # ------------------------------------------------------------ what was given up

    def note_drop(self, version: int, steps: Iterable[str], start: int = 0) -> None:
        """The memory of these steps ends at this micro-batch; said before the first bucket without it is saved."""
        data = _dumps({"version": version, "steps": sorted(steps), "start": start})
        self._files.create(f"dropped-{version:020d}-{hashlib.sha256(data).hexdigest()[:8]}.json", data)

    def dropped(self, after: int, before: int) -> set[str]:
        """The steps whose memory ended after the micro-batch ``after`` and before ``before``.

        >>> import tempfile
        >>> claims = Claims(tempfile.mkdtemp())
        >>> claims.note_drop(7, ["total"])
        >>> claims.dropped(6, 9), claims.dropped(7, 9), claims.dropped(2, 7)
        ({'total'}, set(), set())
        """
        found: set[str] = set()
        for name, version in self._numbered(_DROPPED):
            if after < version < before:
                found |= set((self._json(name) or {}).get("steps", ()))
        return found

    def _numbered(self, form: re.Pattern[str]) -> list[tuple[str, int]]:
        names = ((name, form.fullmatch(name)) for name in self._files.names(""))
        return [(name, int(match[1])) for name, match in names if match]

    def _forget_drops(self, version: int, start: int | None = None) -> None:
        """Of this micro-batch and later, and of earlier starts if one is named."""
        for name, at in self._numbered(_DROPPED):
            if at >= version and (start is None or (self._json(name) or {}).get("start", 0) < start):
                self._files.remove(name)


def _started(start: int, token: str) -> str:
    return f"start-{start}-{token}.json"


def _dumps(what: dict[str, Any]) -> bytes:
    return json.dumps(what, indent=1, sort_keys=True).encode()
