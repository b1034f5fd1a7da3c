"""The upstream of a chain: what a run tells others about its outputs, and what a reader finds in its state folder.

Nothing is written there by a reader, and no lock is taken.  The rows of an output lie in parts: those of epochs that
are not committed in ``staged/``, the others in ``committed/``; a commit moves a part from the one to the other under
the same name, and committed neighbours are merged.  So a reader looks at the names, in this order, and finds a part in
both folders rather than in none.  A part's name has a seal of its content, so two parts of one name have the same rows.

When an upstream goes back, its staged parts of epochs that are not complete are removed before any new one is there:
who has read one of them, and opens another, sees that the first is gone.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pellucid.errors import StateError, UsageError, nearest, option
from pellucid.internal.address import Address, epochs_of
from pellucid.internal.base.container import refused
from pellucid.internal.data import writers
from pellucid.internal.data.binary import ArrowReader
from pellucid.internal.data.files import format_of
from pellucid.internal.engine.epochs.letters import BAD
from pellucid.internal.engine.epochs.lock import running_in
from pellucid.internal.engine.epochs.parts import PartName, parts_in
from pellucid.internal.engine.epochs.store import READ, Store
from pellucid.internal.engine.epochs.targets import whose
from pellucid.sinks.interface import Sink

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Job

OUTPUTS = "outputs.json"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream


def publish(job: Job) -> None:
    """Write down which outputs of a run keep their rows in the state folder, how, and their columns: for its
    readers."""
    found = outputs_of(job)
    if job.store.hint(OUTPUTS) != {"outputs": found}:
        job.store.write(OUTPUTS, {"outputs": found})


def outputs_of(job: Job) -> dict[str, Any]:
    """The outputs of a run: how their rows are kept, and their columns; or the table that they go to."""
    found: dict[str, Any] = {}
    for name, place in job.outputs.items():
        if isinstance(place, Sink):
            found[name] = {"table": place.identity}
        elif Address.of(place).kind:
            found[name] = {"table": Address.of(place).identity}
        else:
            asked = None if name == BAD and job.settings.aside else job.settings.out_format
            schema = base64.b64encode(job.schemas[name].serialize()).decode()
            found[name] = {"form": format_of(place, asked, asked="out_format")[0], "schema": schema}
    return found


class View(NamedTuple):
    """What there is of an output at one moment: its parts in a row, each with the number of its first row."""

    parts: list[tuple[int, PartName, Path]]
    committed: int  # rows
    until: int  # the push up to which they go
    names: frozenset[str]  # of all parts that lie there
    shown: frozenset[str]  # of those that are committed

    def at(self, row: int) -> tuple[int, PartName, Path] | None:
        """The part that has a row."""
        return next((part for part in self.parts if part[0] <= row < part[0] + part[1].rows), None)


class Upstream:
    """An output of another run, as ``epochs:STATE#OUTPUT`` names it."""

    def __init__(self, place: str) -> None:
        found = epochs_of(place)
        assert found is not None
        self.name, self.ahead, self.after = place, found.ahead, found.after
        self._store = Store(found.folder)
        self.root = self._store.root
        run = self._run()
        outputs = self._store.hint(OUTPUTS).get("outputs")
        if outputs is None:
            raise StateError(
                f"{option('in', place)}: the run in {found.folder} does not say how its rows are kept (it was begun by "
                "an earlier version, or has not started yet): give its own command once more, then this one"
            )
        self.run, self.output = str(run["run"]), _choose(place, found.output, outputs, str(run.get("pipeline")))
        self.identity = found._replace(output=self.output).identity
        about = outputs[self.output]
        self.form: str = about["form"]
        self.schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["schema"])))
        self.whose = whose(self.run, self.output)

    def _run(self) -> dict[str, Any]:
        place = option("in", self.name)
        run = self._store.read("run.json") if self._store.root.is_dir() else None
        if run is None:
            raise UsageError(
                f"{place}: {self.root} holds no run with epochs: give the state folder of the run whose rows are to be "
                "read, and start that run first"
            )
        if run.get("format") not in READ:
            raise StateError(refused(place, run.get("format")))
        return run

    # ------------------------------------------------------------ for who binds it

    def reader(self) -> ArrowReader:
        """A reader without rows, which knows the columns."""
        data = bytes(self.schema.serialize()) + _END
        return ArrowReader(self.name, pa.BufferReader(data), len(data))

    def head(self) -> bytes:
        """What stands before the rows where they are kept as text."""
        buffer = io.BytesIO()
        writers._SINKS[self.form](buffer, self.schema)
        return buffer.getvalue()

    @property
    def is_text(self) -> bool:
        """Whether its parts are lines of text."""
        return self.form in ("csv", "tsv", "jsonl")

    # ------------------------------------------------------------ for who reads it

    def look(self) -> View:
        """What is there now."""
        staged = parts_in(self.root / "staged" / self.output) if self.ahead else []
        committed = parts_in(self.root / "committed" / self.output)
        shown = frozenset(path.name for _, path in committed)
        names = shown | {path.name for _, path in staged}
        parts, until, row = _in_a_row(committed, 0, 0)
        ahead, _, _ = _in_a_row(staged, until, row)
        return View([*parts, *ahead], row, until, names, shown)

    def same_run(self) -> bool:
        """Whether it is still the run that was opened; also true while its file cannot be read."""
        return bool(self._store.hint("run.json").get("run", self.run) == self.run)

    def mended(self) -> list[str]:
        """Committed parts that were set aside because they were damaged: their rows were made again."""
        folder = self.root / "committed" / self.output
        return sorted(path.name for path in folder.glob("*.damaged")) if folder.is_dir() else []

    def finished(self) -> bool:
        """Whether the run has come to the end of its inputs."""
        return bool(self._store.hint("progress.json").get("finished"))

    def lacks(self, view: View) -> bool:
        """Whether committed parts of a run that has ended are gone: its record says how far it came."""
        said = self._store.hint("progress.json")
        return bool(said.get("finished")) and view.until < int(said.get("until", 0))

    def running(self) -> bool:
        """Whether somebody runs there now; to find out takes some milliseconds."""
        return running_in(self.root) is not None


def _choose(place: str, wanted: str, outputs: dict[str, Any], pipeline: str) -> str:
    """The output that is meant, which must be one that keeps its rows."""
    kept = [name for name, about in outputs.items() if "form" in about]
    if not wanted and len(kept) == 1:
        return kept[0]
    if not wanted and len(kept) > 1:
        raise UsageError(
            f"{option('in', place)}: which output of {pipeline}? It has {', '.join(kept)}: give {place}#{kept[0]}"
        )
    if wanted and wanted not in outputs:
        raise UsageError(
            f"{option('in', place)}: the run of {pipeline} there has no output {wanted!r}: it has "
            f"{', '.join(outputs)}{nearest(wanted, list(outputs))}"
        )
    if wanted in kept:
        return wanted
    name = wanted or next(iter(outputs))
    raise UsageError(
        f"{option('in', place)}: the rows of {name!r} go to {outputs[name]['table']}, and are not kept when they are "
        "committed: let that run write them to a file as well (a second --out, such as rows.arrow: the two have an "
        "epoch all, or none), and read that"
    )


def _in_a_row(found: list[tuple[PartName, Path]], until: int, row: int) -> tuple[list[Any], int, int]:
    """The parts that follow one another from a push on; of several that begin there the one that goes farthest.  Also
    the push and the row that come after them."""
    first: dict[int, tuple[PartName, Path]] = {}
    for name, path in found:
        if name.until > name.first and (name.first not in first or name.until > first[name.first][0].until):
            first[name.first] = (name, path)
    out = []
    while until in first:
        name, path = first[until]
        out.append((row, name, path))
        until, row = name.until, row + name.rows
    return out, until, row
