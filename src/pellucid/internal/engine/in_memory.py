"""Data in memory: lists, NumPy arrays, pandas, polars and Arrow objects in, the same kind out.

The first input decides the kind of the result.  Lists stay plain Python from end to end: NumPy, pandas and Arrow are
only touched where the data is theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from pellucid.errors import DataError, PellucidError, StepError, UsageError, option
from pellucid.internal.data.bind import type_of_key
from pellucid.internal.data.columns import Batch, Column, Given, Output
from pellucid.internal.data.inputs import (
    KEPT,
    Input,
    Ready,
    by_source,
    chosen,
    letters,
    make_ready,
    refuse_kept,
    shown_letters,
    write_letters,
)
from pellucid.internal.engine.kernel.engine import Engine, StepTimes
from pellucid.internal.engine.kernel.exchange import cut
from pellucid.internal.expr.types import Type
from pellucid.internal.graph.model import Graph, refuse_answer_names
from pellucid.internal.request import CALL, Request, asked, by_time, in_python, words_of

# On how many cores a run goes: on all of them where that pays, with the same events out.
#
# A run per key can be shared among cores (`engine.kernel.buckets`).  Sharing out costs some nanoseconds for each row,
# more than a cheap pipeline takes for its work: so it is tried with the first rows, and the faster way is taken.

_FROM = 1 << 17  # rows in the first batch: below, it is not worth a thought
_TRIED = 1 << 15
_PAYS = 0.9  # of the time on one core: less counts as faster


def cores_here() -> int:
    """How many cores this process may use.

    >>> cores_here() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_cores(cores: Any) -> int | None:
    """What a user may say: a number, or None for as many as pay.

    >>> check_cores(2), check_cores(None)
    (2, None)
    >>> check_cores(0)
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: cores=0: expected a whole number from 1 on, or None for as many as pay
    """
    if cores is None or (type(cores) is int and cores >= 1):
        return cores
    raise UsageError(f"{option('cores', cores)}: expected a whole number from 1 on, or None for as many as pay")


class OnCores:
    """An engine for one run, on one core or on several, which the first batch decides; ``push_batch`` is that of
    `Engine`.

    ``cores`` is how many are wanted, None: as many as pay.  ``one_key`` says that all sources have the same key in a
    push, so that a push is of one bucket.

    >>> from pellucid import pipeline
    >>> from pellucid.internal.expr.types import INT
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> run = OnCores(total.graph, key=INT, cores=2)
    >>> run.push_batch(Batch(3, [[[1, 2, 3]]], keys=[[[7, 8, 7]]]))[0].events(), run.cores
    ([1, 2, 4], 2)
    """

    def __init__(
        self, graph: Graph, *, key: Type | None, cores: int | None = None, one_key: bool = True, timed: bool = False
    ) -> None:
        self.graph, self.key, self.wanted = graph, key, check_cores(cores)
        self._engine: Any = Engine(graph, key=key, timed=timed)
        self.why_plain: str | None = self._engine.why_plain
        self.cores = 1
        self.why_one = self._why_one(one_key)
        self._decided = False

    def _why_one(self, one_key: bool) -> str | None:
        """Why it goes on one core whatever comes, or None."""
        if self.wanted == 1 or (self.wanted is None and cores_here() == 1):
            return "there is one" if self.wanted is None else "so it was said"
        if self.key is None:
            return f"only the keys of a run with {option('key')} can be shared among cores"
        if self.why_plain is not None:
            return "a step is called in plain Python, which runs on one"
        if self._engine.opens_lists:
            return "it emits the elements of lists, and how long they are is found out on one"
        if len(self.graph.sources) > 1 and not one_key:
            return f"its inputs go row by row, and a row's keys may differ; with {option('order')} they are the same"
        return None

    @property
    def compiled(self) -> bool:
        """Whether the loop is compiled by now."""
        return self.cores > 1 or bool(self._engine.state.compiled)

    @property
    def forgotten(self) -> dict[str, int]:
        """How many keys each ``forget`` has given up, of which there is none in a run per key."""
        return {} if self.key is not None else dict(self._engine.forgotten)

    @property
    def times(self) -> StepTimes:
        """How long each step took, if it was asked for."""
        found: StepTimes = self._engine.times
        return found

    def stop_timing(self) -> None:
        """Run the rest without looking at the clock."""
        if self.cores == 1:
            self._engine.timed = False

    def push_batch(
        self, batch: Batch, *, positions: bool = False, failed: list[StepError] | None = None
    ) -> list[Output]:
        """Push columns."""
        if not self._decided and batch.count:
            self._decided = True
            self._decide(batch, failed is not None)
        outputs: list[Output] = self._engine.push_batch(batch, positions=positions, failed=failed)
        return outputs

    def _decide(self, batch: Batch, undo: bool) -> None:
        if self.why_one is not None:
            return
        if self.wanted is None:
            if batch.count < _FROM:
                self.why_one = "there are few rows"
                return
            self.why_one = self._try(batch, cores_here(), undo)
            if self.why_one is not None:
                return
        from pellucid.internal.engine.kernel.buckets import KeyBuckets

        self.cores = self.wanted or cores_here()
        self._engine = KeyBuckets(Engine(self.graph, key=self.key, mode="numba", timed=self._engine.timed), self.cores)

    def _try(self, batch: Batch, cores: int, undo: bool) -> str | None:
        """Run the first rows in both ways, and throw away what comes out; why not on several cores, or None.

        With many keys each has few of the first rows, and what it remembers is nearly empty; so they are also run as
        rows of one key, and the longer time counts for the work.
        """
        from pellucid.internal.engine.kernel.buckets import KeyBuckets

        base = Engine(self.graph, key=self.key, mode="numba")
        some, few = _first(batch, _TRIED), _first(batch, 16)

        def seconds(trial: Any, rows: Batch, clock: Callable[[], float]) -> float:
            failed: list[StepError] | None = [] if undo else None
            trial.push_batch(few, positions=True, failed=failed)  # compile, start the threads
            start = clock()
            trial.push_batch(rows, positions=True, failed=failed)
            return clock() - start

        try:
            # of one thread its own time, whatever else the machine does; of several what it takes until they are done
            one, full = (seconds(base.sibling(), rows, time.thread_time) for rows in (some, _of_one_key(some)))
            several = min(seconds(KeyBuckets(base.sibling(), cores), some, time.perf_counter) for _ in range(2))
            sharing = max(several - one / cores, 0.0)
        except PellucidError:
            return "a step fails at once"
        work = max(one, full)
        if sharing + work / cores < _PAYS * work:
            return None
        return (
            f"sharing the keys out takes longer than it saves: {1000 * sharing:.1f} ms for {1000 * work:.1f} ms of "
            f"work on the first {some.count:,} rows"
        )


def _of_one_key(batch: Batch) -> Batch:
    """The same rows as if all had the key of the first."""
    same = [[chosen(c, [0] * batch.count) for c in columns] for columns in batch.keys or []]
    return Batch(batch.count, batch.columns, batch.masks, same)


def _first(batch: Batch, count: int) -> Batch:
    """The first rows of a batch."""
    count = min(count, batch.count)
    return Batch(
        count,
        [[cut(c, 0, count) for c in columns] for columns in batch.columns],
        [None if m is None else m[:count] for m in batch.masks],
        None if batch.keys is None else [[cut(c, 0, count) for c in columns] for columns in batch.keys],
    )


def run_in_memory(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Run a graph on data; the result is of the kind of the first input.

    >>> from pellucid import pipeline
    >>> run_in_memory(pipeline(lambda x: x.trim(1), x=int).graph, ([1, 2, 3],), {})
    [2, 3]
    """
    options, inputs = _asked(graph, data, named)
    bad = options.aside if options.sets_aside else None
    if bad is not None:
        refuse_kept([name for name, _ in graph.outputs], bad)
    if graph.timed:
        options = by_time(graph, options, CALL)
        refuse_answer_names(graph, options.key)
    run = make_ready(graph, inputs, options)
    first = next(iter(run.inputs))
    shows = run.inputs[first].shows
    along = bool(options.order or run.kept.columns)
    positions = shows in ("Series", "DataFrame") or bool(options.key) or along
    failed: list[StepError] | None = [] if bad is not None else None
    outputs, pushed = _push_given(run, positions=positions, failed=failed)
    aside = letters(run, failed or [], pushed, bad) if bad is not None else []
    results = []
    for output in outputs:
        if shows == "list":
            results.append(output.events())
            continue
        from pellucid.internal.data.frames import result

        if graph.timed:
            said: dict[str, Any] = {"formats": options.time_format}
            results.append(result(shows, output, run.inputs[first].data, _no_rows(len(output)), options.key, **said))
            continue
        pushes = output.positions if pushed is None or not positions else [pushed[int(p)] for p in output.positions]
        rows = run.rows(first, pushes) if shows in ("Series", "DataFrame") else None
        extra = run.along(output, pushes) if along else []
        said = {"where": run.where(pushes), "formats": options.time_format}
        results.append(result(shows, output, run.inputs[first].data, rows, options.key, extra, **said))
    names = [o.name for o in outputs]
    if bad is not None and bad.to == "keep":
        names, results = [*names, KEPT], [*results, shown_letters(aside, shows)]
        return dict(zip(names, results, strict=True))
    if bad is not None and bad.address is not None:
        write_letters(aside, bad.address)
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
    options, inputs = _asked(graph, data, named)
    if options.sets_aside:
        raise UsageError(f"{graph.name}.trace gives events, push by push: bad= goes with a run, as in p(table, bad=…)")
    if options.keep:
        raise UsageError(
            f"{graph.name}.trace gives events, push by push: keep= goes with a run, as in p(table, keep=…)"
        )
    if graph.timed:
        options = by_time(graph, options, CALL, but="order")
        refuse_answer_names(graph, options.key)
    run = make_ready(graph, inputs, options)
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


def _asked(graph: Graph, data: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Request, dict[str, Input]]:
    """What these keywords ask for, and the inputs; a source of the name of an option comes first."""
    sources = {graph.nodes[i].id for i in graph.sources}
    words = {name: value for name, value in named.items() if name not in sources and in_python(name)}
    rest = {name: value for name, value in named.items() if name not in words}
    return asked(CALL, words), by_source(graph, data, rest, words_of)


def _no_rows(count: int) -> Any:
    import numpy as np

    return np.full(count, -1, dtype=np.int64)


def _trace_by_time(run: Ready, count: int) -> list[Any]:
    from pellucid.internal.engine.timed.engine import trace_batch

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
            from pellucid.internal.engine.timed.engine import run_batch

            return run_batch(graph, key, batch), rows

        if key is None:
            return Engine(graph).push_batch(batch, positions=positions, failed=failed), rows
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
