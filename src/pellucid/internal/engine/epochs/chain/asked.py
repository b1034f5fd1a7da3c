"""What is asked of a run that reads others: which runs these are, and what does not go together with that.

Runs that read one another in a circle are refused, and so is one that reads itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pellucid.errors import DataError, StateError, UsageError, option
from pellucid.internal.address import epochs_of
from pellucid.internal.data.arrow import source_columns
from pellucid.internal.data.binary import row_place
from pellucid.internal.data.bind import Binding
from pellucid.internal.data.feed import wanted_columns
from pellucid.internal.engine.epochs.chain.upstream import Upstream
from pellucid.internal.engine.epochs.store import READ, Store
from pellucid.internal.graph.memory import why_cut
from pellucid.internal.graph.model import Graph

if TYPE_CHECKING:
    from pellucid.internal.engine.epochs.job import Settings

Upstreams: TypeAlias = "dict[Any, Upstream]"


def by_chain(
    graph: Graph, inputs: Mapping[str | None, Any], settings: Settings, state: str | os.PathLike[str]
) -> Upstreams:
    """The runs that are read, by the name of the input; refused where that cannot be."""
    found: Upstreams = {}
    for name, given in inputs.items():
        several = (given,) if isinstance(given, str) else given
        chained = [place for place in several if epochs_of(place) is not None]
        if chained and not isinstance(given, str):
            raise UsageError(
                f"{option('in', chained[0])}: the rows of a run are an input of their own: no file and no other run "
                "comes before or after them"
            )
        if chained:
            _refuse_with(graph, settings, chained[0])
            found[name] = Upstream(chained[0])
            _refuse_circle(found[name], os.path.realpath(state))
    if found and all(name in found and found[name].after for name in inputs):
        first = next(iter(found.values()))
        raise UsageError(
            f"{option('in', first.name)}: a run needs an input without a delay: it ends when all of those have ended"
        )
    return found


def _refuse_with(graph: Graph, settings: Settings, place: str) -> None:
    if graph.timed:
        raise UsageError(
            f"{option('in', place)}: {graph.name} {why_cut(graph)}, and such a pipeline reads files: an epoch that is "
            "made again must find the border and the clock where they were, and rows of another run may have been "
            "given up meanwhile. Let that run write a file, and read it when it has ended"
        )
    for name, given, why in (
        ("order", settings.orders, "rows of another run are read as they come, and cannot be sorted before"),
        ("keep_columns", settings.keep, "put the fields that you want into the events of the first pipeline"),
        ("bad", settings.aside, "a row that was set aside may be given up by the other run: leave it out there"),
        ("record", settings.record, "an audit takes it that an epoch that is made again reads the same rows"),
    ):
        if given:
            raise UsageError(f"{option(name)} does not go with {option('in', place)}: {why}")


def _refuse_circle(upstream: Upstream, state: str) -> None:
    """Follow what an upstream reads, and what that reads, back to the run in a state folder, if it comes there."""
    here, first = option("in", upstream.name), os.path.realpath(upstream.root)
    if first == state:
        raise UsageError(
            f"{here}: is the state folder of this very run, and a run cannot read its own rows: what goes round is a "
            "loop of the pipeline, iterate(…)"
        )
    seen, waiting = {first}, [first]
    while waiting:
        folder = waiting.pop()
        for above in _read_by(folder):
            if above == state:
                raise UsageError(
                    f"{here}: a circle: the run in {folder} reads this one ({state}), and runs cannot read one another "
                    "in a circle: put the pipelines into one, with iterate(…) for what goes round"
                )
            if above not in seen:
                seen.add(above)
                waiting.append(above)


def _read_by(folder: str) -> list[str]:
    """The state folders of the runs that the run in a folder reads, as far as it says."""
    run = None
    with contextlib.suppress(StateError):  # of one farther up: whoever reads it finds that
        run = Store(folder).read("run.json") if Path(folder).is_dir() else None
    if run is None or run.get("format") not in READ:
        return []
    found = [epochs_of(place) for place in run.get("in", {}).values() if isinstance(place, str)]
    return [os.path.realpath(one.folder) for one in found if one is not None]


def fits_types(chained: Upstreams, lanes: Mapping[str, tuple[str, list[Binding]]], wide: bool) -> None:
    """Refuse an output whose columns are of other types than the sources that read it."""
    for name, upstream in chained.items():
        bound = lanes[name][1]
        read = [*wanted_columns(bound, {}), *(column for binding in bound for column in binding.key)]
        heads = {column.split(".")[0] for column in read}
        empty = pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in upstream.schema if field.name in heads],
            schema=pa.schema([field for field in upstream.schema if field.name in heads]),
        )
        for binding in bound:
            try:
                source_columns(binding, empty, row_place(upstream.name, 0), silent=wide)
            except DataError as error:
                raise DataError(
                    f"{error}: the output {upstream.output!r} of the run there is not what the source "
                    f"{binding.source!r} takes"
                ) from None
