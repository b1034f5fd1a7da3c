"""Runs that read one another in a circle: which circles can go, and how their runs find one another.

A circle goes if some input in it has a delay (``epochs:STATE?after=K``): else push *i* of each run would wait for row
*i* of the next, all the way round, and none would ever have a row.  What goes round is then read when it is
*committed*, never ahead of that.  So no two epochs wait for each other, and each is committed, as in any chain, after
what it has read:

* an epoch can be read when it has ended, so it never has read a row that was made from its own;
* rows of the others that were made from rows which this run has given up are never committed, so it never builds on its
  own past;
* were the epochs of a circle committed all at once, when all are complete, one that is lost then (a damaged snapshot,
  ``--from-start``) would leave the others committed on rows that nobody has.

`pellucid.engine.epochs.chain.question` proves it of small runs, and shows what becomes of the other ways.

Nobody can start first in a circle, as each wants to know the columns of what it reads.  So a run with a delay whose
upstream is not there says what it puts out (`announce`), and waits.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pellucid.address import EpochsOf, epochs_of
from pellucid.base import faults
from pellucid.data.feed import source_types
from pellucid.data.formats.outputs import arrow_type
from pellucid.engine.epochs.chain.upstream import OUTPUTS, Upstream, outputs_of, said_by
from pellucid.engine.epochs.store import READ, Store
from pellucid.errors import StateError, UsageError, option

if TYPE_CHECKING:
    from pellucid.engine.epochs.job import Job
    from pellucid.graph.model import Graph

_LOOK = 0.05  # seconds between two looks whether a run is there


class Around(NamedTuple):
    """How an input's upstream depends on the run that reads it."""

    begins: str = ""  # a circle without a delay but that of this input: who reads this run in it
    circle: bool = False  # what it puts out depends on what this run puts out, or may


def around(upstream: Upstream, state: str) -> Around:
    """Follow what an upstream reads, and what that reads, back to the run in a state folder, if it comes there."""
    first, begins = os.path.realpath(upstream.root), ""
    if first == state:
        return Around(state, True)
    circle, seen, waiting = False, {(first, 0)}, [(first, 0)]
    while waiting:
        folder, delay = waiting.pop()
        read, began = _read_by(folder)
        for found in read:
            above, late = os.path.realpath(found.folder), min(1, delay + found.after)
            if above == state:
                circle, begins = True, begins if late else folder
            elif not began and said_by(Store(above)) is None:
                circle = True  # it is waited for, and nobody knows yet what it will read
            elif (above, late) not in seen:
                seen.add((above, late))
                waiting.append((above, late))
    return Around(begins, circle)


def _read_by(folder: str) -> tuple[list[EpochsOf], bool]:
    """What the run in a folder reads of others, as far as it says, and whether it has begun; one that has, has found
    all that it reads."""
    run = None
    with contextlib.suppress(StateError):  # of one farther up: whoever reads it finds that
        run = said_by(Store(folder))
    if run is None or run.get("format") not in READ:
        return [], True
    inputs: Mapping[str, Any] = run.get("in", {})
    found = [epochs_of(place) for place in inputs.values() if isinstance(place, str)]
    return [one for one in found if one is not None], (Path(folder) / "run.json").exists()


# ---------------------------------------------------------------- a run that is not there yet


class Expected(Upstream):
    """An upstream with a delay that is not there yet: it stands for one that has what the source takes."""

    def __init__(self, place: str, found: EpochsOf) -> None:
        self.name, self.ahead, self.after = place, found.ahead, found.after
        self.circle = self.follows = False
        self._store = Store(found.folder)
        self.root = self._store.root
        self.run, self.output, self.form = "", found.output, "arrow"
        self.identity, self.whose = found.identity, ""
        self.schema = pa.schema([])

    def take_for(self, source: str, columns: list[tuple[str, Any]], key: Mapping[str, Any]) -> None:
        """Have the columns of a source, and those of the key."""
        fields = [(path or source, arrow_type(t)) for path, t in columns]
        self.schema = pa.schema([*fields, *((n, t) for n, t in key.items() if n not in dict(fields))])


def there(place: str, state: str) -> Upstream:
    """The run that an address names; `Expected` if it is not there, its rows have a delay, and the run that wants to
    read it has not begun."""
    found = epochs_of(place)
    assert found is not None
    if found.after and not _is_there(Store(found.folder)) and not (Path(state) / "run.json").exists():
        return Expected(place, found)
    return Upstream(place)


def expect(graph: Graph, upstreams: Mapping[Any, Upstream], files: Mapping[Any, Any], keys: Sequence[str]) -> None:
    """Runs that are not there yet are taken to have what their sources take, and a key as the first input has it."""
    known = [*files.values(), *(one.reader() for one in upstreams.values() if not isinstance(one, Expected))]
    types = source_types(graph)
    for source, one in upstreams.items():
        if isinstance(one, Expected) and source in types:
            one.take_for(source, list(types[source].columns()), {key: known[0].field_type(key) for key in keys})


def announce(job: Job, identity: Mapping[str, Any]) -> None:
    """Say in the state folder what this run puts out, for the runs that it waits for and that want to read it."""
    job.store.write(
        OUTPUTS,
        {
            **{name: identity[name] for name in ("format", "pipeline", "in")},
            "outputs": outputs_of(job),
            "run": name_of(job),
        },
    )
    faults.point("chain:announced")


def name_of(job: Job) -> str:
    """The name of a run that begins: the one under which it has announced itself, if it has, and as what it is."""
    said = job.store.hint(OUTPUTS)
    same = "run" in said and said.get("pipeline") == job.graph.name and said["outputs"] == outputs_of(job)
    return str(said["run"]) if same else uuid.uuid4().hex


def wait_for(job: Job, say: Callable[[str], None], idle: Callable[[], None]) -> None:
    """Wait until the runs are there that a run reads with a delay."""
    for one in _missing(job):
        say(f"{one.name}: waiting for the run in {one.root}, which this one reads: start it with its own command")
    while list(_missing(job)):
        idle()
        time.sleep(_LOOK)


def _missing(job: Job) -> Iterator[Upstream]:
    for one in job.chained.values():
        if isinstance(one, Expected) and not _is_there(Store(one.root)):
            yield one


def _is_there(store: Store) -> bool:
    """Whether a run has said what it is, and what it puts out."""
    return said_by(store) is not None and "outputs" in store.hint(OUTPUTS)


def refuse_no_lead(inputs: Mapping[str | None, Any], chained: Mapping[Any, Upstream]) -> None:
    """Refuse a run all of whose inputs have a delay: nothing would say when it ends."""
    if chained and all(name in chained and chained[name].after for name in inputs):
        first = next(iter(chained.values()))
        raise UsageError(
            f"{option('in', first.name)}: a run needs an input without a delay: it ends when all of those have ended"
        )
