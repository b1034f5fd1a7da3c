"""What is asked of a run that reads others: which runs these are, and what does not go together with that.

A circle of runs without a delay is refused.  It could never begin: push *i* takes row *i* of every input, a row comes
out of a push, and a run that is read ends only when its own inputs have; so the first push of each run in a circle
would wait for the first row of the next, all the way round (`pellucid.engine.epochs.chain.question` has it as a machine
without a step).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pellucid.address import epochs_of
from pellucid.data.arrow import source_columns
from pellucid.data.binary import row_place
from pellucid.data.bind import Binding
from pellucid.data.feed import wanted_columns
from pellucid.engine.epochs.chain.circle import Around, around, refuse_no_lead, there
from pellucid.engine.epochs.chain.upstream import Upstream
from pellucid.errors import DataError, UsageError, option
from pellucid.graph.memory import why_cut
from pellucid.graph.model import Graph

if TYPE_CHECKING:
    from pellucid.engine.epochs.job import Settings

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
            found[name] = _placed(there(chained[0], os.path.realpath(state)), os.path.realpath(state))
    refuse_no_lead(inputs, found)
    return found


def _placed(upstream: Upstream, state: str) -> Upstream:
    """An upstream that knows whether it is in a circle with the run that reads it; what goes round is read when it is
    committed."""
    found = around(upstream, state)
    if not upstream.after:
        _refuse_circle(upstream, found, state)
    upstream.circle, upstream.follows = found.circle, bool(found.begins)
    upstream.ahead = upstream.ahead and not (upstream.after and upstream.circle)
    return upstream


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


def _refuse_circle(upstream: Upstream, found: Around, state: str) -> None:
    here = option("in", upstream.name)
    if not found.begins:
        return
    never = (
        "push i of a run takes row i of each input, so its first push would wait for its own first row, and neither "
        "would ever come"
    )
    folder, mark, output = upstream.name.rpartition("#") if "#" in upstream.name else (upstream.name, "", "")
    later = f"Let a push take an earlier row, {folder}?after=1{mark}{output}"
    if found.begins == state:
        raise UsageError(
            f"{here}: is the state folder of this very run: {never}. {later}; what goes round inside one push is a "
            "loop: iterate(…)"
        )
    raise UsageError(
        f"{here}: a circle: the run in {found.begins} reads this one ({state}): {never}. {later}; or put the two "
        "pipelines into one, with iterate(…) for what goes round"
    )


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
