"""The pipeline object: one graph, and a door to everything that is a function of it."""

from __future__ import annotations

import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from pellucid.errors import PipelineError, TypeMismatch, UsageError, by_new_names, option
from pellucid.internal.expr.types import FLOAT, TupleType, Type, type_of
from pellucid.internal.graph.build import Built, as_declared, build, call, check_call, instantiate, stream_types
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import Stream, scope
from pellucid.internal.graph.timing import maybe, swapped

if TYPE_CHECKING:
    from datetime import timedelta

    from pellucid.internal.engine.epochs.coordinator import Report
    from pellucid.internal.engine.timed.why.answer import Progress
    from pellucid.sinks.interface import Sink


class Pipeline(Built):
    """A function from streams to streams, made by ``@pipeline``.

    Called on streams it is part of another pipeline; called on data it runs here and now.

    >>> from pellucid import Stream, pipeline
    >>> @pipeline
    ... def sum_of_odds(x: Stream[int]) -> Stream[int]:
    ...     return x.filter(lambda v: v % 2 == 1).cumulate(lambda total, v: total + v, start=0)
    >>> sum_of_odds([1, 2, 3, 4, 5])
    [1, 4, 9]
    """

    def __init__(self, fn: Callable[..., Any], types: dict[str, Type], returns: Any = None) -> None:
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = self.name = "pipeline" if fn.__name__ == "<lambda>" else fn.__name__
        self.__module__ = fn.__module__
        self._types = types
        self._returns = returns
        self.graph, self._shape = build(fn, self.name, types, returns)
        _check_returns(self.name, self.graph, returns)

    def __call__(self, *data: Any, **named: Any) -> Any:
        """Run on data, or, given streams, become part of another pipeline.

        Data is a list or other iterable, a list of dicts, a NumPy array, a pandas or polars frame or series, a lazy
        frame, an Arrow table, dataset or stream, a DuckDB relation; the result is of the same kind (an Arrow table for
        the last three).  For several sources give several, by position or by name: the i-th
        push takes the i-th event of each, ``silent`` where there is none; one that ends before the others is refused,
        unless ``short="silent"`` says that it is silent from then on.

        * ``key``: the column of a table that keeps events apart, or a list of several: the pipeline runs once for each
          key.
        * ``order``: the columns that put rows in order, the later ones breaking ties: rows are sorted by them, and rows
          of several inputs with equal key and order are one push.  Two rows of one key and order are an error;
          ``late="drop"`` keeps the first.
        * ``keep``: columns of the row whose push put an event out, by name, or True for all; for several inputs
          ``keep={"left": ["note"]}``.
        * ``time_format``: of columns of texts that hold times in another form than ISO 8601, as in
          ``{"when": "%d/%m/%Y %H:%M"}``.
        * ``bad``: what becomes of rows that cannot be read, or on which a step fails: ``fail``, ``keep`` them as an
          output called ``bad``, or the name of a file; ``max_bad``: how many there may be.
        * ``nan``: what a NaN in a column of floats is: an error (``fail``), or a value (``keep``).  What pandas has for
          nothing is None in a field that may be None, in either case.

        * ``cores``: on how many cores a run per key goes; as many as pay, if it is not said.  The result is the same.

        The result has the columns of the key, of the order, those that are kept, and the event's own.  (A source called
        ``key``, ``order``, … comes before these words.)  Parameters of the function that are no
        streams (``k: int = 3``) can be given where the pipeline is called on streams.

        >>> import pyarrow as pa
        >>> from pellucid import pipeline
        >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
        >>> total(pa.table({"user": ["ada", "bob", "ada"], "x": [1, 2, 3]}), key="user").to_pydict()
        {'user': ['ada', 'bob', 'ada'], 'out': [1, 2, 4]}
        >>> total([{"seq": 2, "x": 10, "note": None}, {"seq": 1, "x": 1, "note": "hi"}], order="seq", keep=["note"])
        [{'seq': 1, 'note': 'hi', 'out': 1}, {'seq': 2, 'note': None, 'out': 11}]
        """
        if any(isinstance(d, Stream) for d in (*data, *named.values())):
            given = dict(zip(self._types, data, strict=False)) | named
            streams = {p: given.pop(p) for p in self._types if p in given}
            fitted = check_call(self.name, self._types, (*streams.values(), *data[len(self._types) :]))
            if given:  # other constants make another pipeline: run the function again
                again = call(self.__wrapped__, self.name, **dict(zip(self._types, fitted, strict=True)), **given)
                return as_declared(again, self._returns)
            # The graph as it was built: the function might see other closures now.
            prefix = (*scope.get(), self.name)[1:]
            return self._shaped(instantiate(self.graph, fitted, prefix=prefix))
        from pellucid.internal.engine.in_memory import run_in_memory

        return run_in_memory(self.graph, data, named)

    def _shaped(self, outputs: dict[str, Stream[Any]]) -> Any:
        """Outputs as the function returned them: one stream, a tuple, a named tuple or a dict."""
        if self._shape is Stream:
            return outputs["out"]
        if issubclass(self._shape, tuple):
            return self._shape(*outputs.values()) if hasattr(self._shape, "_fields") else tuple(outputs.values())
        return outputs

    def trace(self, *data: Any, **named: Any) -> list[Any]:
        """Push by push: the list of events that each push puts out (a dict of lists for several outputs).

        >>> from pellucid import pipeline
        >>> pipeline(lambda x: x.trim(1), x=int).trace([1, 2, 3])
        [[], [2], [3]]
        """
        from pellucid.internal.engine.in_memory import trace_in_memory

        return trace_in_memory(self.graph, data, named)

    def engine(self, *, key: Any = None, mode: str = "auto", nan: str = "fail") -> Any:
        """A running instance that is pushed chunk by chunk, saved and loaded.

        ``key`` is the type of a key that comes with the data: ``str``, or ``(str, int)`` for a key of several parts.
        The pipeline then runs once for each key, and every push says its keys, one for each event.  With ``nan="keep"``
        NaN is a value of float.

        By event time a chunk is a batch: its events are judged by the clock at its beginning, which moves at its end.
        ``finish()`` is the end of the input, ``late`` counts the events that came too late, ``idle("x")`` says that a
        source has been silent for long.

        >>> from pellucid import pipeline
        >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
        >>> first = total.engine()
        >>> first.push([1, 2, 3])
        [1, 3, 6]
        >>> second = total.engine()
        >>> second.load(first.save())
        >>> second.push([4])
        [10]
        >>> each = total.engine(key=str)
        >>> each.push([1, 2, 3], key=["ada", "bob", "ada"])
        [1, 2, 4]
        """
        if self.graph.timed:
            from pellucid.internal.engine.timed.engine import TimedEngine

            return TimedEngine(self.graph, key=_key_type(self.name, key), mode=mode, nan=nan)
        from pellucid.internal.engine.kernel.engine import Engine

        return Engine(self.graph, key=_key_type(self.name, key), mode=mode, nan=nan)

    @property
    def why_plain(self) -> str | None:
        """Why it runs in plain Python, event by event, which is slower: a line for each step that is a reason; None if
        it is compiled.

        >>> from pellucid import pipeline
        >>> print(pipeline(lambda x: x.map(lambda v: v + 1), x=int).why_plain)
        None
        >>> names = {"UA": "United"}
        >>> print(pipeline(lambda c: c.map(lambda v: names[v], to=str, id="name"), c=str).why_plain)
        step 'name' (map λ, ...): a lambda uses an event's value as a dictionary key or in a set (a tuple `in (1, 2)`
        works)
        """
        from pellucid.internal.engine.explain import why_plain

        return why_plain(self.graph)

    def run_epochs(
        self,
        inputs: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Any],
        outputs: str | os.PathLike[str] | Sink | Mapping[str, Any],
        *,
        state: str | os.PathLike[str],
        pushes: int | None = None,
        **settings: Any,
    ) -> Report:
        """Run over files so that crashes do not show: what is killed goes on with the same call, to the same output.

        ``inputs`` is a file, a folder, a pattern or a list of them (or one for each source), ``outputs`` a file, a
        table (``sqlite:FILE#TABLE``) or a sink (`pellucid.sinks`; or one for each output), ``state`` a folder of the
        run's own, ``pushes`` the pushes of an epoch.  ``settings`` are the options of ``pellucid run``: of
        rows ``key``, ``order``, ``keep``, ``bad``, ``max_bad``, ``late``, ``value``, ``nan``, ``nulls``, ``short``,
        ``time_format``, ``in_format``, ``out_format``, ``exists``, ``limit``, ``chunk``; of the run ``every``,
        ``workers``, ``cut``, ``record``, ``snapshots``, ``patience``, ``retries``, ``from_start``, ``changed``.

        >>> import pathlib, tempfile
        >>> from pellucid import pipeline
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "in.csv").write_text("x\\n1\\n2\\n3\\n")
        >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
        >>> report = total.run_epochs(folder / "in.csv", folder / "out.csv", state=folder / "state", pushes=2)
        >>> report.epochs, (folder / "out.csv").read_text().split()
        (2, ['out', '1', '3', '6'])
        """
        from pellucid.internal.engine.epochs import run_epochs

        return run_epochs(self, inputs, outputs, state=state, pushes=pushes, **settings)

    def spark(
        self,
        *frames: Any,
        value: str | Mapping[str, str] | None = None,
        key: str | Sequence[str] | None = None,
        order: str | Sequence[str] | None = None,
        tag: str | None = None,
        nth: str | None = None,
        late: str = "fail",
        wait: int | timedelta | None = None,
        sequence: int | None = None,
        gaps: str = "fail",
        state: str | None = None,
        store: str = "own",
        buckets: int | None = None,
        drop: Sequence[str] = (),
        partitions: int | None = None,
        native: str = "auto",
        keep: Any = None,
        nan: str = "fail",
        time_format: Mapping[str, str] | None = None,
        bad: str = "fail",
        max_bad: int | None = None,
        **sources: Any,
    ) -> Any:
        """The pipeline on Spark: a DataFrame in, a DataFrame out, lazily; batch or streaming as the input is.

        Several sources take several DataFrames, by position or by name, or one with a column for each.

        * ``value``: the column of a scalar source (a record reads one column for each field).
        * ``key``: the columns that keep events apart: the pipeline runs once for each key.
        * ``order``: the columns that put the events of a key in order; needed if the pipeline remembers anything, other
          than by event time, where the order of rows does not count.
        * ``keep``: columns of the row that put an event out, by name, or True for all; of one DataFrame.
        * ``time_format``: the forms of times in texts, by column, as in ``{"when": "%d/%m/%Y %H:%M"}``.
        * ``bad``: rows that cannot be read, or on which a step fails, end the job (``fail``), or ``keep`` them as an
          output called ``bad``; ``max_bad``: in a batch, how many there may be (they are counted first).
        * ``tag``: give all outputs as one DataFrame with this column, which tells the output of a row.
        * ``nth``: the column that numbers the events of one push (``nth`` where a push can put out several).
        * ``late``: what is done about an event that comes after a later one: ``fail``, ``drop``, or ``keep`` it as an
          output called ``late``.  ``wait``: hold events back until the order has gone on by so much (a number or a
          timedelta).
        * ``sequence``: the order counts up by one from this number; ``gaps`` (``fail`` or ``wait``) if a number is
          missing.
        * ``state``: the folder in which a streaming query keeps its snapshots; ``store="spark"``: let Spark keep them;
          ``buckets``: into how many parts the keys go; ``drop``: steps whose state is given up after a change.
        * ``nan``: what a NaN is: an error (``fail``), or a value (``keep``).
        * ``partitions``: into how many parts a batch goes.  ``native``: ``auto`` or ``off``.

        .. code-block:: python

            totals = sum_of_odds.spark(df, value="x", key="user", order="seq")
        """
        from pellucid.spark.api import run

        words = {name: value for name, value in locals().items() if name not in ("self", "frames", "sources", "run")}
        if isinstance(sources.get("step"), str):  # no DataFrame, but a column
            words |= by_new_names("spark", {"step": "tag"}, {"step": sources.pop("step"), "tag": tag})
        return run(self.graph, frames, sources, words)

    def spark_plan(self, *, key: Any = None, order: Any = None, streaming: bool = False, native: str = "auto") -> str:
        """In words: what becomes of the pipeline on Spark, step by step, and why.

        >>> from pellucid import pipeline
        >>> print(pipeline(lambda x: x.map(lambda v: v + 1, id="inc"), x=int).spark_plan())
        pipeline on Spark
        native: Spark's own expressions, no Python worker, no shuffle
          because it remembers nothing, and every function has an exact equal in Spark
          inc  map: a Column expression
        """
        from pellucid.spark.plan import explain

        given = None if key is None else bool(key)
        return explain(
            self.graph, key=given, order=None if order is None else bool(order), streaming=streaming, native=native
        )

    def progress(self, of: Any = None) -> Progress:
        """Why is it not done?  How far a run by event time is, and for each window or row that waits, who holds it back
        and by which way.

        ``of`` is an engine of this pipeline that is under way, or the state folder of a run with epochs or of a
        streaming query on Spark, which may be running: it is only read.  Without it: which clock each step waits for.
        What is returned has ``sources``, ``steps``, ``waiting(step)``, ``document()`` and ``picture()``; printed, it
        says all of it.

        >>> from pellucid import merge, pipeline
        >>> def tens(x, y):
        ...     both = merge(x.at(lambda v: v, id="x-at"), y.at(lambda v: v, id="y-at"), id="both")
        ...     return both.tumbling(10, lambda w: w.cumulate(lambda n, v: n + 1, start=0), id="tens")
        >>> p = pipeline(tens, x=int, y=int)
        >>> engine = p.engine()
        >>> engine.push([3, 14], y=[7])
        []
        >>> print(p.progress(engine))
        tens: 2 wait for the clock
        sources
          x: greatest event time 14, watermark 14, active
          y: greatest event time 7, watermark 7, active
        steps
          tens (tumbling 10): clock at 7
            1 window is open: 0 to 10
              source y could still send an event of 7, through both (y → y-at → both → tens)
              it comes once y has sent an event of 10 or later, has ended, or is idle
            1 window is open: 10 to 20
              source x could still send an event of 14, through both (x → x-at → both → tens)
              source y could still send an event of 10, through both (y → y-at → both → tens)
              it comes once x has sent an event of 20 or later and y one of 20 or later; a source that has ended ...
        """
        from pellucid.internal.engine.timed.why.answer import progress_of

        if of is None:
            return progress_of(self.graph)
        if isinstance(of, (str, os.PathLike)):
            return self._progress_in(of)
        if getattr(getattr(of, "graph", None), "digest", None) != self.graph.digest:
            raise UsageError(
                f"{self.name}.progress: an engine of this pipeline or a state folder is expected, found "
                f"{type(of).__name__}"
            )
        if not self.graph.timed:
            raise UsageError(f"{self.name} knows no event time, so nothing in an engine of it waits for a clock")
        return progress_of(self.graph, [of])

    def _progress_in(self, folder: str | os.PathLike[str]) -> Progress:
        from pellucid.internal.engine.epochs.status import is_run, look
        from pellucid.spark.timed import look_at_query, query_folder

        place = option("state", folder)
        if not os.path.isdir(folder):
            what = "is no folder" if os.path.exists(folder) else "no such folder"
            raise UsageError(f"{place}: {what}: give the state folder of a run")
        if is_run(folder):
            return look(self.graph, folder)
        if query_folder(folder) is not None:
            return look_at_query(self.graph, folder)
        there = os.listdir(folder)
        if not there:
            raise UsageError(f"{place}: is empty: no run has begun there yet")
        if {"offsets", "commits"} <= set(there):
            raise UsageError(
                f"{place}: is a checkpoint of Spark, which does not know what waits: give the folder that was state= "
                "in p.spark"
            )
        raise UsageError(f"{place}: holds no run of Pellucid: give the state folder of a run with epochs or on Spark")

    def show(self, style: str = "text") -> str:
        """The graph as ``text``, ``mermaid`` or ``svg``.

        >>> from pellucid import pipeline
        >>> "trim" in pipeline(lambda x: x.trim(1), x=int).show()
        True
        """
        from pellucid.internal.draw.graph import draw

        return draw(self.graph, style)

    def _repr_html_(self) -> str:
        return self.show("svg")

    def __repr__(self) -> str:
        ins = ", ".join(f"{name}: {t}" for name, t in self._types.items())
        outs = ", ".join(str(self.graph.nodes[i].type) for _, i in self.graph.outputs)
        return f"<pipeline {self.name}({ins}) -> {outs}>"


def _key_type(name: str, key: Any) -> Type | None:
    """The type of the keys that an engine is told of."""
    if key is None:
        return None
    parts = key if isinstance(key, (tuple, list)) else [key]
    try:
        kinds = [type_of(part) for part in parts]
        if not kinds or any(leaf == FLOAT for kind in kinds for _, leaf in kind.leaves()):
            raise TypeMismatch("a key has parts, and none of them is a float")
    except (TypeMismatch, TypeError):  # unhashable things, too
        raise UsageError(
            f"{name}.engine(key={key!r}): key= is the type of the key that comes with every event: str, int, bool, an "
            "enum, or (str, int) for a "
            "key of several parts; to run a table by its columns, call the pipeline on it, as in p(table, key='user')"
        ) from None
    return kinds[0] if not isinstance(key, (tuple, list)) else TupleType(tuple(kinds))


def _check_returns(name: str, graph: Graph, returns: Any) -> None:
    """Whether the declared result is the one that was built."""
    if returns is None:
        return
    args = typing.get_args(returns)
    wanted = list(args) if typing.get_origin(returns) is tuple else [returns]
    found = [graph.nodes[i] for _, i in graph.outputs]
    if any(typing.get_origin(w) is not Stream for w in wanted):
        return  # dicts and named tuples say their types elsewhere
    if len(wanted) != len(found):
        raise PipelineError(f"pipeline {name} declares {len(wanted)} output(s), but returns {len(found)}")
    for want, node in zip(wanted, found, strict=True):
        t = type_of(typing.get_args(want)[0])
        wrong = swapped(t)
        if wrong is not None:
            raise TypeMismatch(f"pipeline {name} declares {wrong}")
        if t != node.type:
            hint = ""
            if isinstance(t, TupleType) and isinstance(node.type, TupleType) and maybe(t) == maybe(node.type):
                hint = "; what a join may not find is declared as its type | None"
            raise TypeMismatch(
                f"pipeline {name} declares -> Stream[{t}], but its {node.describe()} puts out {node.type}: "
                f"expected {t}, found {node.type}{hint}"
            )


@overload
def pipeline(fn: Callable[..., Any], /, **types: Any) -> Pipeline: ...


@overload
def pipeline(**types: Any) -> Callable[[Callable[..., Any]], Pipeline]: ...


def pipeline(fn: Callable[..., Any] | None = None, /, **types: Any) -> Any:
    """Make a pipeline from a function over streams; its sources are the function's parameters.

    Their types come from the annotations (``x: Stream[int]``) or from the keywords.

    >>> from pellucid import Stream, pipeline
    >>> @pipeline
    ... def doubled(x: Stream[int]) -> Stream[int]:
    ...     return x.map(lambda v: 2 * v)
    >>> doubled([1, 2])
    [2, 4]
    >>> pipeline(lambda x: x * 2, x=int)([1, 2])
    [2, 4]
    """
    local = dict(sys._getframe(1).f_locals)

    def make(f: Callable[..., Any]) -> Pipeline:
        if isinstance(f, Pipeline):
            return f
        if not callable(f) or not hasattr(f, "__code__"):
            raise PipelineError(f"@pipeline wants a function over streams, found {f!r}")
        name = "pipeline" if f.__name__ == "<lambda>" else f.__name__
        sources = stream_types(f, name, types, local)
        unknown = set(types) - set(sources)
        if unknown:
            raise PipelineError(f"pipeline {name} has no source {sorted(unknown)[0]!r}: it has {', '.join(sources)}")
        returns = f.__annotations__.get("return")
        if isinstance(returns, str):
            returns = typing.get_type_hints(f, localns=local, include_extras=True).get("return")
        return Pipeline(f, sources, returns)

    return make if fn is None else make(fn)
