"""The few file operations on which the Parquet sink rests, on a local (or mounted) folder.

The manifest is the commit, so one operation must be both *atomic* (a file is there whole or not at all, also after a
power failure) and *exclusive* (of two writers one succeeds and the other notices).  Writing a temporary file, syncing
it and making a hard link gives both: ``link`` fails where the name is taken, which ``rename`` does not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import StateError, UsageError
from pellucid.internal.base.files import PUBLIC, make_lasting, parsed, read_own, read_small, write_lasting


def local_folder(path: str | os.PathLike[str]) -> Path:
    """The folder that a path or a ``file:`` URI names.

    >>> local_folder("file:///data/sums").as_posix()
    '/data/sums'
    >>> local_folder("s3a://bucket/sums")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: path='s3a://bucket/sums': the parquet sink needs a local or mounted folder (its commit
    is a hard link); for an object store use pellucid.sinks.delta
    """
    text = os.fspath(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    elif "://" in text:
        raise UsageError(
            f"path={text!r}: the parquet sink needs a local or mounted folder (its commit is a hard link); "
            "for an object store use pellucid.sinks.delta"
        )
    return Path(os.path.abspath(text))  # without '..', as Spark takes it, too


def create(path: Path, content: bytes) -> bool:
    """Make the file, whole and lasting, or return False because it exists already."""
    make_lasting(path.parent)
    return write_lasting(path, [content], mode=PUBLIC, exclusive=True)


def replace(path: Path, content: bytes) -> None:
    """Make the file, whole and lasting, in the place of one that may be there."""
    make_lasting(path.parent)
    write_lasting(path, [content], mode=PUBLIC)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Alone among those who ask for this folder, where the system and the disk have locks."""
    make_lasting(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def move(source: Path, target: Path) -> None:
    """Move a file if it is still at its source; another process, or an earlier attempt, may have moved it.  The caller
    syncs the folders."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if not target.exists():
            raise


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted; none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def files_below(folder: Path, suffix: str) -> Iterator[Path]:
    """The files with this ending that Spark counts as data: nothing below a name with a leading '_' or '.'."""
    for name in names(folder):
        if name.startswith(("_", ".")):
            continue
        path = folder / name
        if path.is_dir():
            yield from files_below(path, suffix)
        elif name.endswith(suffix):
            yield path


def folds_case(folder: Path) -> bool:
    """Whether the file system takes ``A`` and ``a`` for one name.

    >>> folds_case(Path("/proc"))
    False
    """
    name = folder.name.swapcase()
    return name != folder.name and folder.exists() and (folder.parent / name).exists()


def remove(path: Path) -> None:
    """Remove a file that may be gone."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder that may be gone, or that another process is removing."""
    shutil.rmtree(path, ignore_errors=True)


# Which group of sinks a folder belongs to: a small file in it, made by the first that asks.

_NAME = "_group.json"  # Spark, Arrow and Delta skip names with a leading underscore


def claim(path: Path, group: str, where: str) -> str | None:
    """Say that the folder is of this group, whose log is at ``where``; where the other has its log, if it is another's.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> claim(path, "g1", "one/log"), claim(path, "g1", "one/log"), claim(path, "g2", "two/log")
    (None, None, 'one/log')
    """
    create(path / _NAME, json.dumps({"name": group, "place": where}).encode())
    name, place = _claimed(path / _NAME)
    return None if name == group else place


def unclaim(path: Path, group: str | None) -> None:
    """The group is over, or with None whichever group has the folder: another may have it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> claim(path, "g1", "one/log"), unclaim(path, "g1"), claim(path, "g2", "two/log")
    (None, None, None)
    """
    if (path / _NAME).exists() and group in (None, _claimed(path / _NAME)[0]):
        remove(path / _NAME)


def forget(path: Path) -> str:
    """What gives the folder free again.

    >>> forget(Path("/data/sums"))
    'rm /data/sums/_group.json'
    """
    return f"rm {path / _NAME}"


def _claimed(path: Path) -> tuple[str, str]:
    """The group that a folder belongs to, and where its log is."""
    try:
        found = read_small(path, links=True)
        name, place = found["name"], found["place"]
        if not (isinstance(name, str) and isinstance(place, str)):
            raise ValueError("it names no group")
        return name, place
    except (ValueError, KeyError) as error:
        raise StateError(
            f"{path}: does not say which group of sinks the folder belongs to ({error}): the file is damaged; bring it "
            f"back from a copy, or, if the folder belongs to the group that writes now, `rm {path}`: it is made again"
        ) from None


# The manifests of a Parquet target: the list of files that count.
#
# ``_manifest/<query>-<batch>.json`` is the commit of one batch; it is created exclusively, so of two drivers one wins.
# Every 100 batches the manifests are folded into ``<query>-<first>..<last>.json``, every 10,000 batches the folds are
# folded again, so that a folder of *n* batches has about 200 + n/10,000 manifests and each entry is rewritten once per
# level.
#
# A fold decides for its whole range: it is created before the single manifests go, so a zombie that creates a single
# manifest for a batch long folded creates something that no reader looks at.  A listing taken while a fold appears may
# show neither the fold nor the singles; hence a listing counts only if a second one shows no new fold.

FOLD = 100
_LEVELS = 3
_NAME_MANIFEST = re.compile(r"(?P<query>.+)-(?P<first>\d{20})(?:\.\.(?P<last>\d{20}))?\.json")


@dataclass(frozen=True)
class DataFile:
    """One data file: its name below the target, where it was staged, its rows, its bytes and their SHA-256."""

    name: str
    staged: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The commit of one batch: the files of the attempt that won, and the query's batch before it (-1: none).

    >>> Manifest("orders", 7, "a1", (DataFile("batch-7.parquet", "part-0.parquet", 3, 800, "9f"),)).rows
    3
    """

    query: str
    batch: int
    attempt: str
    files: tuple[DataFile, ...]
    previous: int = -1

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
        if document["format"] != 2:
            raise ValueError(f"format {document['format']!r}, of another version of Pellucid: use that one")
        files = tuple(DataFile(f["name"], f["staged"], f["rows"], f["bytes"], f["sha256"]) for f in document["files"])
        made = Manifest(document["query"], document["batch"], document["attempt"], files, document["previous"])
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
        if not create(path, _bytes(manifest.document())):
            return False
        if any(
            not entry.single and entry.query == manifest.query and entry.first <= manifest.batch <= entry.last
            for entry in self._entries()
        ):
            remove(path)  # the batch was committed and folded long ago: this driver slept
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
            create(
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
                    remove(self.folder / entry.name)

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
        listing = _parsed(names(self.folder))
        while True:
            again = _parsed(names(self.folder))
            if {e for e in again if not e.single} <= {e for e in listing if not e.single}:
                return listing
            listing = again


def _parsed(names: list[str]) -> list[_Entry]:
    entries = []
    for name in names:
        match = _NAME_MANIFEST.fullmatch(name)
        if match and not name.startswith("."):
            first = int(match["first"])
            entries.append(_Entry(name, match["query"], first, int(match["last"] or first), match["last"] is None))
    return entries


def _bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


# Whether the files of a Parquet target are still what the manifests say.
#
# A manifest lists each file of its batch with its bytes, its rows and its SHA-256, and names the batch before it. So a
# file that is missing, cut off, changed or exchanged is noticed, and so is a manifest that is missing in the middle. A
# file that no manifest lists is refused as well: readers that do not know the manifests would count its rows, and if it
# is of the last batch, its manifest is what is missing.
#

_RESTORE = "restore it from a copy, or write to a new folder from a new checkpoint"
_TRIES = 5


@dataclass(frozen=True)
class Placed:
    """A file that counts: where it is at this moment, and the folder below which its partitions are."""

    path: Path
    base: Path
    file: DataFile
    batch: str
    query: str = ""
    number: int = -1

    def refused(self, what: str) -> StateError:
        """The refusal: what is wrong with this file, and what to do."""
        return StateError(f"{self.path}: {what} ({self.batch}): {_RESTORE}")


def checked_places(target: Path) -> list[Placed]:
    """The files that count, after a look at their names and sizes: whole chain, each file there, no other file between
    them."""
    for attempt in range(_TRIES):
        # Files come to their places after their manifest: what is listed before the manifests are read must be in them.
        there = {str(path) for path in files_below(target, ".parquet")}
        log = ManifestLog(target)
        manifests = log.all()
        check_chain(log.folder, manifests)
        found = [placed for manifest in manifests for placed in _of(target, manifest, log.newest())]
        try:
            for placed in found:
                _check_size(placed)
        except FileNotFoundError as error:
            if attempt == _TRIES - 1:
                lost = next(placed for placed in found if str(placed.path) == error.filename)
                raise lost.refused(f"the file is missing; {lost.file.rows} rows were committed in it") from None
            time.sleep(0.05)  # the writer moved it from staging to its place while we looked
            continue
        _refuse_foreign(there, found, manifests)
        return found
    raise AssertionError("unreachable")


def check_chain(where: Path, manifests: list[Manifest]) -> None:
    """Refuse a missing manifest: each names the batch before it.

    >>> made = [Manifest("q", batch, "a", (), previous=batch - 1) for batch in (0, 1, 2)]
    >>> check_chain(Path("out/_manifest"), made)
    >>> check_chain(Path("out/_manifest"), [made[0], made[2]])
    Traceback (most recent call last):
    pellucid.errors.StateError: out/_manifest/q-00000000000000000001.json: the manifest of batch 1 of query 'q' is
    missing; batch 2 was committed after it: restore it from a copy, or write to a new folder from a new checkpoint
    """
    known = {(manifest.query, manifest.batch) for manifest in manifests}
    for manifest in manifests:
        before = manifest.previous
        if before >= 0 and (manifest.query, before) not in known:
            raise StateError(
                f"{where}/{manifest.query}-{before:020d}.json: the manifest of batch {before} of query "
                f"{manifest.query!r} is missing; batch {manifest.batch} was committed after it: {_RESTORE}"
            )


def _of(target: Path, manifest: Manifest, newest: set[tuple[str, int]]) -> Iterable[Placed]:
    staging = target / "_staging" / manifest.attempt
    on_its_way = (manifest.query, manifest.batch) in newest and staging.exists()
    if on_its_way:
        time.sleep(0.05)  # mostly the writer is just moving them; give it the moment
    words = f"batch {manifest.batch} of query {manifest.query!r}"
    for file in manifest.files:
        staged = on_its_way and not (target / file.name).exists() and (staging / file.staged).exists()
        yield (
            Placed(staging / file.staged, staging, file, words, manifest.query, manifest.batch)
            if staged
            else Placed(target / file.name, target, file, words, manifest.query, manifest.batch)
        )


def _check_size(placed: Placed) -> None:
    size = os.stat(placed.path).st_size
    if size != placed.file.bytes:
        raise placed.refused(
            f"the file has {size} bytes, and {placed.file.bytes} were committed; it was cut off or replaced"
        )


def _refuse_foreign(there: set[str], found: list[Placed], manifests: list[Manifest]) -> None:
    foreign = min(there - {str(placed.path) for placed in found}, default=None)
    if foreign is None:
        return
    number = re.match(r"batch-(\d{20})-", os.path.basename(foreign))
    if number and not any(manifest.batch == int(number[1]) for manifest in manifests):
        raise StateError(
            f"{foreign}: no manifest lists this file, and the folder has no manifest of batch {int(number[1])}: was a "
            "file of _manifest lost? Restore it from a copy; if the file is not of this folder, move it away"
        )
    raise StateError(
        f"{foreign}: no manifest lists this file, so its rows do not count here, but other readers would count them: "
        "move it away"
    )


def check_contents(target: Path, found: list[Placed]) -> None:
    """Compare every file whole with what was committed, several at a time."""

    def check(placed: Placed) -> None:
        with placed.path.open("rb") as file:
            _compare(placed, hashlib.file_digest(file, "sha256").hexdigest())

    with ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2))) as threads:
        list(threads.map(check, found))


def check_on_spark(spark: Any, target: Path, found: list[Placed]) -> None:
    """The same by the executors, which have more hands than the driver."""
    by_path = {str(placed.path): placed for placed in found}
    paths = spark.createDataFrame([(path,) for path in by_path], "path string").repartition(
        min(len(by_path), spark.sparkContext.defaultParallelism)
    )
    for path, digest in paths.mapInArrow(_digester(), "path string, digest string").collect():
        if digest is None:
            raise by_path[path].refused(
                "the file was there a moment ago, and an executor does not find it; it was removed, or the folder is "
                "not shared"
            )
        _compare(by_path[path], digest)


def _digester() -> Callable[[Any], Any]:
    def run(batches: Any) -> Any:
        import hashlib

        import pyarrow as pa

        for batch in batches:
            paths = batch.column(0).to_pylist()
            digests: list[str | None] = []
            for path in paths:
                try:
                    with open(path, "rb") as file:
                        digests.append(hashlib.file_digest(file, "sha256").hexdigest())
                except FileNotFoundError:
                    digests.append(None)
            yield pa.RecordBatch.from_pydict(
                {"path": paths, "digest": digests}, pa.schema({"path": pa.string(), "digest": pa.string()})
            )

    return run


def _compare(placed: Placed, digest: str) -> None:
    if digest != placed.file.sha256:
        raise placed.refused(
            "the file's SHA-256 is not the one that was committed; its content was changed, or it is another file"
        )
