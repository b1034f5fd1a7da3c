"""Data in memory: lists, NumPy arrays, pandas, polars and Arrow objects in, the same kind out.

The first input decides the kind of the result.  Lists stay plain Python from end to end: NumPy, pandas and Arrow are
only touched where the data is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pellucid.errors import DataError, StepError, UsageError, option
from pellucid.internal.data.bind import type_of_key
from pellucid.internal.data.columns import Batch, Column, Output
from pellucid.internal.data.events import Given
from pellucid.internal.data.tables.letters import KEPT, letters, refuse_kept, shown_letters, write_letters
from pellucid.internal.data.tables.ready import Ready, RunOptions, by_source, chosen, make_ready
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.memory import refuse_answer_names, why_cut
from pellucid.internal.graph.model import Graph


def run_in_memory(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Run a graph on data; the result is of the kind of the first input.

    >>> from pellucid import pipeline
    >>> run_in_memory(pipeline(lambda x: x.trim(1), x=int).graph, ([1, 2, 3],), {})
    [2, 3]
    """
    options, named = RunOptions.taken_from(graph, named)
    refuse_kept([name for name, _ in graph.outputs], options.bad)
    options = _by_time(graph, options)
    run = make_ready(graph, by_source(graph, data, named), options)
    first = next(iter(run.inputs))
    shows = run.inputs[first].shows
    along = bool(options.order or run.kept.columns)
    positions = shows in ("Series", "DataFrame") or bool(options.key) or along
    failed: list[StepError] | None = [] if options.bad else None
    outputs, pushed = _push_given(run, positions=positions, failed=failed)
    aside = letters(run, failed or [], pushed, options.bad)
    results = []
    for output in outputs:
        if shows == "list":
            results.append(output.events())
            continue
        from pellucid.internal.data.kinds import result

        if graph.timed:
            said: dict[str, Any] = {"formats": options.formats}
            results.append(result(shows, output, run.inputs[first].data, _no_rows(len(output)), options.key, **said))
            continue
        pushes = output.positions if pushed is None or not positions else [pushed[int(p)] for p in output.positions]
        rows = run.rows(first, pushes) if shows in ("Series", "DataFrame") else None
        extra = run.along(output, pushes) if along else []
        said = {"where": run.where(pushes), "formats": options.formats}
        results.append(result(shows, output, run.inputs[first].data, rows, options.key, extra, **said))
    names = [o.name for o in outputs]
    if options.bad.to == "keep":
        names, results = [*names, KEPT], [*results, shown_letters(aside, shows)]
        return dict(zip(names, results, strict=True))
    if options.bad.address is not None:
        write_letters(aside, options.bad.address)
    if len(results) == 1:
        return results[0]
    if names == [f"out{i + 1}" for i in range(len(names))]:
        return tuple(results)
    return dict(zip(names, results, strict=True))


def trace_in_memory(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    """Push by push, the list of events that came out; for several outputs a dict of such lists.

    >>> from pellucid import pipeline
    >>> trace_in_memory(pipeline(lambda x: x.decimate(2), x=int).graph, ([1, 2, 3],), {})
    [[1], [], [3]]
    """
    options, named = RunOptions.taken_from(graph, named)
    if options.bad:
        raise UsageError(f"{graph.name}.trace gives events, push by push: bad= goes with a run, as in p(table, bad=…)")
    if options.keep:
        raise UsageError(
            f"{graph.name}.trace gives events, push by push: keep= goes with a run, as in p(table, keep=…)"
        )
    run = make_ready(graph, by_source(graph, data, named), _by_time(graph, options, pushes=True))
    count = max(g.count for g in run.given)
    if graph.timed:
        return _trace_by_time(run, count)
    outputs, rows = _push_given(run, positions=True)
    traces: dict[str, list[list[Any]]] = {o.name: [[] for _ in range(count)] for o in outputs}
    for o in outputs:
        for position, event in zip(o.positions, o.events(), strict=True):
            traces[o.name][int(position) if rows is None else rows[int(position)]].append(event)
    if len(outputs) == 1:
        return traces[outputs[0].name]
    return [{name: trace[i] for name, trace in traces.items()} for i in range(count)]


def _by_time(graph: Graph, options: RunOptions, *, pushes: bool = False) -> RunOptions:
    """What is said, for a pipeline by event time: there the inputs meet by time, and not row by row.  Which row comes
    first counts only push by push."""
    if not graph.timed:
        return options
    if options.order and not pushes:
        raise UsageError(
            f"{option('order')} does not go with {graph.name}, which works by event time: rows count by their times, "
            "whatever order they come in"
        )
    if options.keep:
        raise UsageError(
            f"{graph.name} {why_cut(graph)}, where an answer is of many rows: keep= has no one row to take columns "
            "from; put the fields that you want into the events"
        )
    refuse_answer_names(graph, options.key)
    return replace(options, short="silent")


def _no_rows(count: int) -> Any:
    import numpy as np

    return np.full(count, -1, dtype=np.int64)


def _trace_by_time(run: Ready, count: int) -> list[Any]:
    from pellucid.internal.engine.timed.running import trace_batch

    batch, rows = _batch(run)
    try:
        found = trace_batch(run.graph, _key_type(run), batch)
    except StepError as error:
        raise _found(run, rows, error) from error.__cause__
    if rows is not None:  # silent pushes were left out
        nothing: dict[str, list[Any]] = {name: [] for name, _ in run.graph.outputs}
        at = dict(zip(rows, found, strict=False))
        found = [*(at.get(i, nothing) for i in range(count)), found[-1]]
    return [next(iter(entry.values())) for entry in found] if len(run.graph.outputs) == 1 else list(found)


def _key_type(run: Ready) -> Type | None:
    """The type of the key that comes with the data, which is one in all inputs."""
    kinds = {name: t for name, (t, _) in run.given[0].key.items()}
    for g in run.given[1:]:
        for name, (t, _) in g.key.items():
            if t != kinds[name]:
                raise DataError(
                    f"{run.graph.name}: the key column {name!r} holds {kinds[name]} in one input and {t} in another: "
                    "they must be of one type"
                )
    return type_of_key(kinds)


def _push_given(
    run: Ready, *, positions: bool, failed: list[StepError] | None = None
) -> tuple[list[Output], list[int] | None]:
    """Push all at once.  The second result tells the push of each row, where silent rows were left out."""
    graph, key = run.graph, _key_type(run)
    batch, rows = _batch(run)
    try:
        if graph.timed:
            from pellucid.internal.engine.cores import check_cores
            from pellucid.internal.engine.timed.running import run_batch

            check_cores(run.options.cores)  # it goes on one, and the result would be the same
            return run_batch(graph, key, batch), rows
        from pellucid.internal.engine.cores import OnCores

        one_key = "" in run.inputs or run.lineup is not None
        engine = OnCores(graph, key=key, cores=run.options.cores, one_key=one_key)
        return engine.push_batch(batch, positions=positions, failed=failed), rows
    except StepError as error:
        found = _found(run, rows, error)
        if found is error:
            raise
        raise found from error.__cause__


def _batch(run: Ready) -> tuple[Batch, list[int] | None]:
    """All rows as one batch; and the push of each row, where silent rows were left out."""
    given = run.given
    rows: list[int] | None = None
    if len(given) == 1 and given[0].mask is not None:
        # A push in which the only source is silent does nothing: leave it out.
        rows = [i for i, here in enumerate(given[0].mask) if here]
        key = {name: (t, [chosen(c, rows) for c in leaves]) for name, (t, leaves) in given[0].key.items()}
        given = [Given(len(rows), [chosen(c, rows) for c in given[0].columns], key=key)]
    count = max(g.count for g in given)
    columns, masks = [], []
    for g in given:
        mask = g.mask
        if g.count < count:
            silence = count - g.count
            mask = [*(mask if mask is not None else [True] * g.count), *[False] * silence]
            columns.append([_longer(c, silence) for c in g.columns])
        else:
            columns.append(g.columns)
        masks.append(mask)
    leaves = [[c for _, leaves in g.key.values() for c in leaves] for g in given]
    keys = [[_longer(c, count - g.count) for c in cs] for g, cs in zip(given, leaves, strict=True)]
    return Batch(count, columns, masks, keys if given[0].key else None), rows


def _found(run: Ready, rows: list[int] | None, error: StepError) -> StepError:
    """The error at the push at which the user finds it."""
    at = error.position
    if rows is not None and 0 <= at < len(rows):
        at = rows[at]
    if run.lineup is not None and len(run.inputs) == 1 and 0 <= at < run.lineup.count:
        at = int(run.lineup.rows[0][at])  # where the user finds it: as the rows came
    return error if at == error.position else _moved(error, at)


def _moved(error: StepError, position: int) -> StepError:
    """The same error at another push: silent ones count, though the engine has not seen them."""
    said, meant = (f"failed at push {at:,} " for at in (error.position, position))
    return type(error)(str(error).replace(said, meant, 1), step=error.step, position=position)


def _longer(column: Any, silence: int) -> Column:
    """A column with rows added that are no events."""
    from pellucid.internal.data.columns import Strings

    if isinstance(column, list):
        filler = column[-1] if column else 0
        return column + [filler] * silence
    import numpy as np

    if isinstance(column, Strings):
        return Strings(np.pad(column.codes, (0, silence)), column.values or [""])
    return np.pad(column, (0, silence))
