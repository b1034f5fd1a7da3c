"""The manifests of a Parquet target: the list of files that count.

``_manifest/<query>-<batch>.json`` is the commit of one batch; it is created exclusively, so of two drivers one wins.
Every 100 batches the manifests are folded into ``<query>-<first>..<last>.json``, every 10,000 batches the folds are
folded again, so that a folder of *n* batches has about 200 + n/10,000 manifests and each entry is rewritten once per
level.

A fold decides for its whole range: it is created before the single manifests go, so a zombie that creates a single
manifest for a batch long folded creates something that no reader looks at.  A listing taken while a fold appears may
show neither the fold nor the singles; hence a listing counts only if a second one shows no new fold.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import StateError
from pellucid.internal.base.files import read_own
from pellucid.internal.base.small import parsed
from pellucid.sinks.files import folder

FOLD = 100
_LEVELS = 3
_NAME = re.compile(r"(?P<query>.+)-(?P<first>\d{20})(?:\.\.(?P<last>\d{20}))?\.json")


@dataclass(frozen=True)
class DataFile:
    """One data file: its name below the target, where it was staged, its rows, its bytes and their SHA-256 (None: an
    earlier version)."""

    name: str
    staged: str
    rows: int
    bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class Manifest:
    """The commit of one batch: the files of the attempt that won, and the query's batch before it (-1: none; None: not
    kept, by an earlier version).

    >>> Manifest("orders", 7, "a1", (DataFile("batch-7.parquet", "part-0.parquet", 3, 800),)).rows
    3
    """

    query: str
    batch: int
    attempt: str
    files: tuple[DataFile, ...]
    previous: int | None = None

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def document(self) -> dict[str, Any]:
        return {
            "format": 2,
            "query": self.query,
            "batch": self.batch,
            "attempt": self.attempt,
            "rows": self.rows,
            "previous": self.previous,
            "files": [asdict(file) for file in self.files],
        }

    @staticmethod
    def parse(document: dict[str, Any]) -> Manifest:
        if document["format"] not in (1, 2):
            raise ValueError(f"format {document['format']!r}, from a later version")
        files = tuple(
            DataFile(f["name"], f["staged"], f["rows"], f["bytes"], f.get("sha256")) for f in document["files"]
        )
        made = Manifest(document["query"], document["batch"], document["attempt"], files, document.get("previous"))
        if made.rows != document["rows"]:
            raise ValueError(f"{document['rows']} rows, but {made.rows} in its files")
        return made


@dataclass(frozen=True)
class _Entry:
    """A file of the log, known by its name alone."""

    name: str
    query: str
    first: int
    last: int
    single: bool


class ManifestLog:
    """The manifests of one target, of all queries that write to it."""

    def __init__(self, target: Path) -> None:
        self.folder = target / "_manifest"

    def is_empty(self) -> bool:
        """Whether no batch of any query is committed yet."""
        return not self._entries()

    def last(self, query: str) -> int | None:
        """The number of the last batch of the query that is committed; names alone tell it."""
        return max((entry.last for entry in self._entries() if entry.query == query), default=None)

    def commit(self, manifest: Manifest) -> bool:
        """Make this attempt the batch's one; False if another attempt is that already."""
        path = self.folder / f"{manifest.query}-{manifest.batch:020d}.json"
        if not folder.create(path, _bytes(manifest.document())):
            return False
        if any(
            not entry.single and entry.query == manifest.query and entry.first <= manifest.batch <= entry.last
            for entry in self._entries()
        ):
            folder.remove(path)  # the batch was committed and folded long ago: this driver slept
            return False
        return True

    def get(self, query: str, batch: int) -> Manifest | None:
        """The manifest of one batch."""
        for manifest in self._of([e for e in self._deciding() if e.query == query and e.first <= batch <= e.last]):
            if manifest.batch == batch:
                return manifest
        return None

    def all(self) -> list[Manifest]:
        """Every batch that counts, by query and number."""
        return sorted(self._of(None), key=lambda manifest: (manifest.query, manifest.batch))

    def newest(self) -> set[tuple[str, int]]:
        """The last batch of each query: the only ones whose files may still be on their way."""
        found: dict[str, int] = {}
        for entry in self._entries():
            found[entry.query] = max(entry.last, found.get(entry.query, -1))
        return set(found.items())

    def fold(self, query: str, batch: int) -> None:
        """After ``batch`` was committed: fold what is due."""
        for level in range(1, _LEVELS + 1):
            size = FOLD**level
            if (batch + 1) % size:
                return
            first = batch + 1 - size
            inside = [e for e in self._entries() if e.query == query and first <= e.first and e.last <= batch]
            manifests = self._of([entry for entry in self._deciding() if entry in inside])
            name = f"{query}-{first:020d}..{batch:020d}.json"
            folder.create(
                self.folder / name,
                _bytes(
                    {
                        "format": 1,
                        "query": query,
                        "first": first,
                        "last": batch,
                        "batches": [manifest.document() for manifest in sorted(manifests, key=lambda m: m.batch)],
                    }
                ),
            )
            for entry in inside:
                if entry.name != name:
                    folder.remove(self.folder / entry.name)

    def _of(self, entries: list[_Entry] | None) -> list[Manifest]:
        """The manifests in these entries (all that decide, if None), read again where a fold took one away."""
        for _ in range(100):
            try:
                return [m for entry in (self._deciding() if entries is None else entries) for m in self._read(entry)]
            except FileNotFoundError:
                entries = None if entries is None else self._refreshed(entries)
        raise StateError(f"{self.folder}: the manifests change faster than they can be read; try again")

    def _refreshed(self, entries: list[_Entry]) -> list[_Entry]:
        return [
            new
            for new in self._deciding()
            if any(new.query == old.query and new.first <= old.last and old.first <= new.last for old in entries)
        ]

    def _read(self, entry: _Entry) -> list[Manifest]:
        path = self.folder / entry.name
        content = read_own(path, links=True)
        try:
            document = parsed(content)
            made = [Manifest.parse(one) for one in ([document] if entry.single else document["batches"])]
            for one in made:
                if one.query != entry.query or not entry.first <= one.batch <= entry.last:
                    raise ValueError(f"it speaks of batch {one.batch} of query {one.query!r}")
            return made
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StateError(
                f"{path}: not a manifest of pellucid ({error!r}): the file is damaged; restore it from a copy"
            ) from None

    def _deciding(self) -> list[_Entry]:
        """The entries that count: those that no larger fold covers.  Folds lie on multiples of their size."""
        entries = self._entries()
        folds = {(entry.query, entry.first, entry.last) for entry in entries if not entry.single}

        def covered(entry: _Entry) -> bool:
            width = 0 if entry.single else entry.last - entry.first + 1
            sizes = [FOLD**level for level in range(1, _LEVELS + 1) if FOLD**level > width]
            starts = [(entry.first // size * size, size) for size in sizes]
            return any((entry.query, start, start + size - 1) in folds for start, size in starts)

        return [entry for entry in entries if not covered(entry)]

    def _entries(self) -> list[_Entry]:
        listing = _parsed(folder.names(self.folder))
        while True:
            again = _parsed(folder.names(self.folder))
            if {e for e in again if not e.single} <= {e for e in listing if not e.single}:
                return listing
            listing = again


def _parsed(names: list[str]) -> list[_Entry]:
    entries = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match and not name.startswith("."):
            first = int(match["first"])
            entries.append(_Entry(name, match["query"], first, int(match["last"] or first), match["last"] is None))
    return entries


def _bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
