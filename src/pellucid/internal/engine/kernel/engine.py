"""The kernel engine: runs a pipeline's fused loop over columns, whole or chunk by chunk.

Small inputs run in CPython at once; from some ten thousand events on, the loop is compiled (or read from the
cache on disk).  State carries over from one form to the other.

>>> from pellucid import pipeline
>>> engine = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int).engine()
>>> engine.push([1, 2, 3]), engine.push([4])
([1, 3, 6], [10])
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.errors import StateError, StepError, UsageError
from pellucid.internal.data.bind import keeps_nan
from pellucid.internal.data.columns import Batch, Output, Strings
from pellucid.internal.engine.interpreter import Interpreter, call, step_error
from pellucid.internal.engine.kernel.compile import compile_numba, compile_plain
from pellucid.internal.engine.kernel.emit import GROW_LOOKUP, GROW_OUTPUT, GROW_QUEUE, GROW_REGION, Kernel, emit
from pellucid.internal.engine.kernel.emit.pen import CALL_RAISED, log_of, undo_push
from pellucid.internal.engine.kernel.emit.steps import ENDLESS, NOT_AHEAD, Untimely
from pellucid.internal.engine.kernel.emit.window import needs_interpreter
from pellucid.internal.engine.kernel.exchange import Exchange, batch_given, joined, shown
from pellucid.internal.engine.kernel.layout import KernelLayout, encode, is_float, leaf_types, opens
from pellucid.internal.engine.kernel.lookups import Lookups
from pellucid.internal.engine.state import EngineState
from pellucid.internal.expr.codegen import OVERFLOW, TooLarge
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.types import BOOL, FLOAT, STR, EnumType, ListType, OptionalType, Type
from pellucid.internal.graph.model import Graph, Node, refuse_key, refuse_timed

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState

# How long each step of a running pipeline takes, measured in the loop itself.
#
# All steps are one loop, so there is nothing to time from outside.  A timed kernel looks at the clock behind every
# step, in one push of 32 (the clock takes longer than most steps); what looking at it costs is measured in the same
# pushes and taken off.  Events are counted in every push.


@dataclass(frozen=True)
class StepTime:
    """One step: its kind, the events that came in and went out, its part of the loop's time."""

    step: str
    kind: str
    came: int
    put: int
    share: float
    seconds: float

    @property
    def rate(self) -> float | None:
        """Events that it takes in a second; None if it took less than the clock can tell.

        >>> StepTime("total", "cumulate", 600, 600, 0.5, 0.25).rate, StepTime("x", "source", 600, 600, 0.0, 0.0).rate
        (2400.0, None)
        """
        return self.came / self.seconds if self.seconds > 0 else None

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "step": self.step or None,
            "kind": self.kind,
            "events_in": self.came,
            "events_out": self.put,
            "share": round(self.share, 4),
            "events_per_second": None if self.rate is None else round(self.rate, 1),
        }


class StepTimes:
    """The times of the steps of one engine, or of several."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seconds = 0.0  # in the loop
        self._ticks = [0] * (len(graph.nodes) + 2)
        self._events = [0] * len(graph.nodes)

    def arguments(self, compiled: bool) -> dict[str, Any]:
        """Where a kernel writes its times and counts."""
        ticks, events = [0] * len(self._ticks), [0] * len(self._events)
        if not compiled:
            return {"T": ticks, "C": events}
        import numpy as np

        return {"T": np.array(ticks, np.int64), "C": np.array(events, np.int64)}

    def add(self, written: dict[str, Any], seconds: float) -> None:
        """What a kernel has written in a call that took so long."""
        self.seconds += seconds
        for own, name in ((self._ticks, "T"), (self._events, "C")):
            for at, found in enumerate(written[name]):
                own[at] += int(found)
                written[name][at] = 0

    def join(self, other: StepTimes) -> None:
        """Add the times of another engine of the same pipeline."""
        self.seconds += other.seconds
        self._ticks = [a + b for a, b in zip(self._ticks, other._ticks, strict=True)]
        self._events = [a + b for a, b in zip(self._events, other._events, strict=True)]

    def steps(self) -> list[StepTime]:
        """Each step's part of the time; last, under the name '', what it takes to write the columns that go out."""
        *ticks, clock = self._ticks
        own = [max(t - clock, 0) for t in ticks]
        whole = sum(own) or 1
        out = []
        for at, node in enumerate(self.graph.nodes):
            came = sum(self._events[i] for i in node.inputs) if node.inputs else self._events[at]
            share = own[at] / whole
            out.append(StepTime(node.id, node.kind, came, self._events[at], share, share * self.seconds))
        put = sum(self._events[at] for _, at in self.graph.outputs)
        out.append(StepTime("", "out", put, put, own[-1] / whole, own[-1] / whole * self.seconds))
        return out


# What a kernel has Python do: functions that were not traced, windows with keys inside, and what a failure says.
#
# A kernel hands over leaves, numbers all of them; the user's function gets the events that they stand for.


class Calls:
    """The functions that Python calls for one run of a kernel."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._raised: StepError | None = None  # of a function that a plain kernel called

    def of(self, kernel: Kernel) -> list[Any]:
        """What the text calls as ``opaque``: a function for each site, and from the end fresh copies of objects."""
        if "opaque" not in kernel.params:
            return []
        copies = [partial(copy.deepcopy, start) for start in reversed(kernel.layout.objects)]
        calls = [self._caller(node, fn, kernel.undo) for node, fn in kernel.layout.sites]
        return [self._noting(call) if kernel.undo else call for call in calls] + copies

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call; of one that fails the error is kept."""

        def noting(*leaves: Any) -> Any:
            try:
                return call(*leaves)
            except StepError as error:
                self._raised = error
                raise

        return noting

    def _caller(self, node: Node, fn: Any, undo: bool) -> Any:
        """What the kernel calls for an opaque function: leaves in, leaves out."""
        state = self.state

        def encoded(t: Type, value: Any) -> tuple[Any, ...]:
            return tuple(encode(k, v, state.strings) for k, v in zip(leaf_types(t), t.flatten(value), strict=True))

        if fn is None:
            return self._window_caller(node, encoded)
        kinds = list(fn.params)

        def one(*leaves: Any) -> Any:
            args, at = [], 0
            for p in kinds:
                if p is None:  # a state that is any Python object; what the function does to it may have to be undone
                    args.append(copy.deepcopy(leaves[at]) if undo else leaves[at])
                    at += 1
                else:
                    args.append(value_of(self.state, p, leaves[at : at + p.width]))
                    at += p.width
            result = call(node, fn, args, state.pushed + state.meta[0])
            if fn.runs is not None and fn.runs.many:
                return [encoded(fn.runs.event, e) for e in result]
            if not fn.task:
                return encoded(fn.result, result)
            new, events, *asked = result
            rows = [encoded(node.type if fn.asks is None else fn.event, e) for e in events]
            times = [[fn.asks.flatten(t)[0] for t in some] for some in asked]
            return (*(encoded(node.state, new) if node.state is not None else (new,)), rows, *times)

        return one

    def _window_caller(self, node: Node, encoded: Any) -> Any:
        assert node.sub is not None
        sub = node.sub
        t = sub.nodes[sub.sources[0]].type

        def run(rows: list[tuple[Any, ...]]) -> tuple[bool, tuple[Any, ...]]:
            inner = Interpreter(sub)
            inner.pushed = self.state.pushed + self.state.meta[0]
            last: list[Any] = []
            for row in rows:
                last = inner.push({"in": value_of(self.state, t, row)})["out"][-1:] or last
                inner.pushed -= 1  # failures are those of the present push
            return (True, encoded(node.type, last[0])) if last else (False, ())

        return run

    def fail(self, layout: KernelLayout, code: int, site: int, position: int, ei: Any, ef: Any) -> None:
        """The kernel stopped in a function: call the user's own on the same arguments for the message."""
        if code == CALL_RAISED and self._raised is not None:
            raise self._raised
        node, fn = layout.sites[site]
        assert fn is not None
        if code in (NOT_AHEAD, ENDLESS):
            raise Untimely(code == ENDLESS, fn is node.on_time, int(ei[0]), int(ei[1]), position)
        args, at = [], 0
        for p in fn.params:
            kinds = leaf_types(p)
            args.append(value_of(self.state, p, [(ef if is_float(t) else ei)[at + j] for j, t in enumerate(kinds)]))
            at += len(kinds)
        call(node, fn, args, position)
        if code == OVERFLOW:
            raise step_error(node, args, position, Overflow64("in the middle of an expression"))
        changed = (
            "it failed here when the pipeline was built, and does not now: it depends on something that has "
            "changed since"
        )
        raise step_error(node, args, position, RuntimeError(changed))


def value_of(state: EngineState, t: Type, leaves: Sequence[Any]) -> Any:
    """Stored leaves as an event."""
    out: list[Any] = []
    for kind, leaf in zip(leaf_types(t), leaves, strict=True):
        if kind == STR:
            out.append(state.texts()[leaf])
        elif isinstance(kind, EnumType):
            out.append(kind.members[int(leaf)])
        elif kind == BOOL:
            out.append(bool(leaf))
        else:
            out.append(float(leaf) if kind == FLOAT else int(leaf))
    return t.unflatten(out)


COMPILE_FROM = 30_000  # events: below, compiling costs more than it saves
_CHUNK = 1 << 20  # events per call where a push may emit several events
_MANY_STRINGS = 1 << 20
_SHORT, _LONG = 16, 1 << 14  # elements of lists: what a kernel is compiled for at first, and beyond what none is

#: Compiled, with positions, timed, with undoing, and how many elements a list has at most.
_Which: TypeAlias = tuple[bool, bool, bool, bool, int]


def plain_reasons(graph: Graph) -> list[tuple[Node, Node, str]]:
    """Why a pipeline runs in plain Python: for each reason the step, the same or the one inside its window, and what
    is the matter with it.

    >>> from pellucid import pipeline
    >>> plain_reasons(pipeline(lambda x: x.map(lambda v: v + 1), x=int).graph)
    []
    """
    out = []
    for outer in graph.nodes:
        own = [(outer, fn) for fn in outer.functions if fn.runs is None]
        for node, fn in [*own, *(outer.sub.plain() if outer.sub is not None else [])]:
            out.append((outer, node, f"{fn.name} {fn.reason}"))
    for node in graph.nodes:
        if node.sub is not None and needs_interpreter(node.sub):
            out.append((node, node, "has a key_by inside its window"))
    return out


class Engine:
    """A running pipeline.

    ``key`` is the type of a key that comes with the data: then the whole pipeline runs once per key.
    ``mode`` is ``auto``, ``numba`` (compile at once) or ``python`` (never compile).  While ``timed`` is true, ``times``
    has how long each step takes.  ``nan`` is what `push` makes of a NaN: an error (``fail``) or a value (``keep``).
    """

    def __init__(
        self, graph: Graph, *, key: Type | None = None, mode: str = "auto", timed: bool = False, nan: str = "fail"
    ) -> None:
        if mode not in ("auto", "numba", "python"):
            raise UsageError(f"mode must be 'auto', 'numba' or 'python', found {mode!r}")
        refuse_timed(graph, "the kernel")
        if key is not None:
            refuse_key(graph)
        self.graph, self.key, self.mode, self.timed, self._nan = graph, key, mode, timed, keeps_nan(nan)
        self.times = StepTimes(graph)
        self._kernels: dict[_Which, Kernel]
        self._calls: dict[_Which, Callable[..., None]]
        self._kernels, self._calls = graph.derived.setdefault(key, ({}, {}))
        self._lookups: dict[_Which, Lookups] = {}
        if "opens lists" not in graph.derived:
            graph.derived["opens lists"] = any(map(opens, _all_nodes(graph)))
        self.opens_lists: bool = graph.derived["opens lists"]
        self._counted: tuple[Any, int] = None, 0  # the table of texts, and how many of them were looked at
        self._longest = _SHORT  # how many elements a list may have
        if mode == "numba" and self.why_plain is not None:
            raise UsageError(f"{graph.name} cannot be compiled: {self.why_plain.splitlines()[0]}")
        self.state = EngineState(self._kernel(mode == "numba", False).layout)
        self._failed: str | None = None
        self._enough_strings: float = _MANY_STRINGS

    def sibling(self) -> Engine:
        """Another engine for other keys of the same run: as new, with the same kernels, and with the same texts, so
        that the columns of both can be put together."""
        other = copy.copy(self)
        other.state = EngineState(self.state.layout)
        other.state.strings = self.state.strings
        other.times, other._lookups, other._failed = StepTimes(self.graph), {}, None
        other._enough_strings = self._enough_strings = math.inf  # the engine that has all of them forgets texts
        return other

    @property
    def why_plain(self) -> str | None:
        """Why the pipeline cannot be compiled and so is slower, a line for each step that is a reason; None if it
        can."""
        known = ("why plain", self.key)
        if known not in self.graph.derived:
            self.graph.derived[known] = self._why_plain()
        found: str | None = self.graph.derived[known]
        return found

    def _why_plain(self) -> str | None:
        lines = [f"{node.describe()}: {why}" for _, node, why in plain_reasons(self.graph)]
        if lines:
            return "\n".join(lines)
        try:
            self._kernel(True, False)
        except TooLarge as large:
            return str(large)
        return None

    @property
    def exchange(self) -> Exchange:
        """Columns as the kernels of this engine read them, and back."""
        return Exchange(self.graph, self.key, self.state)

    @property
    def pushed(self) -> int:
        """How many pushes there have been."""
        return self.state.pushed

    def _kernel(self, numba: bool, positions: bool, undo: bool = False) -> Kernel:
        which = self._which(numba, positions, undo)
        if which not in self._kernels:
            self._kernels[which] = emit(
                self.graph,
                numba=numba,
                external=self.key,
                positions=positions,
                timed=self.timed,
                undo=undo,
                longest=which[-1] or None,
            )
        return self._kernels[which]

    def _which(self, numba: bool, positions: bool, undo: bool = False) -> _Which:
        return numba, positions, self.timed, undo, self._longest if numba and self.opens_lists else 0

    def _measure_lists(self) -> bool:
        """Find out how long a list may be, for the kernel that is compiled for that; whether it is not too long."""
        table, seen = self._counted
        texts = self.state.strings.texts
        seen = seen if table is texts else 0
        found = max((text.count(",") for text in texts[seen:]), default=0) + 1
        self._counted = texts, len(texts)
        while self._longest < found:
            self._longest *= 4
        return self._longest <= _LONG

    # ------------------------------------------------------------ data in, data out

    def push(self, *data: Any, **named: Any) -> Any:
        """Push a chunk of events for each source; returns what the chunk emits.

        Lists give lists, NumPy arrays give arrays.  Several outputs come as a dict by name.  Of several sources one may
        bring fewer events than another: it is silent in the rest of the chunk.  An engine that runs per key takes
        ``key``, the key of each push: a list of keys, of tuples for a key of several parts.

        >>> from pellucid import pipeline
        >>> engine = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int).engine(key=(str, int))
        >>> engine.push([1, 2, 3], key=[("a", 1), ("a", 2), ("a", 1)])
        [1, 2, 4]
        """
        batch, arrays = batch_given(self.graph, self.key, self.pushed, self._nan, data, named)
        return shown(self.push_batch(batch), arrays)

    def push_batch(
        self, batch: Batch, *, positions: bool = False, failed: list[StepError] | None = None
    ) -> list[Output]:
        """Push columns; the general entrance (see `data.columns`).

        With ``failed`` a push on which a step fails is undone whole, as if it had not been, and its error is added
        there; the others go on.
        """
        if not isinstance(batch, Batch):
            raise UsageError(
                f"push_batch takes a Batch of columns, found {type(batch).__name__}: lists and arrays go to "
                "push, a table to the pipeline itself, as in p(table, key='user')"
            )
        if self._failed is not None:
            raise StateError(f"this engine was stopped {self._failed}: load a saved state, or make a new one")
        compiled = self._choose(batch.count)
        if compiled and self.opens_lists:
            self._intern_lists(batch)
            compiled = self._measure_lists()
        kernel = self._kernel(compiled, positions, failed is not None)
        several = any(c != 1 for c in kernel.capacity)
        step = _CHUNK if compiled and several else max(batch.count, 1)
        if compiled and self.opens_lists:
            step = max(1, _CHUNK // max(c or 1 for c in kernel.capacity))
        parts = []
        try:
            for start in range(0, max(batch.count, 1), step):
                stop = min(start + step, batch.count)
                self._to_form(compiled)
                fixed = self.exchange.inputs(kernel, batch, start, stop)
                parts.append(self._run(kernel, fixed, stop - start, failed=failed))
        except BaseException as error:  # also Ctrl-C: what was done of the push cannot be undone
            position = error.position if isinstance(error, StepError) else self.pushed
            self._failed = (
                f"at push {position:,}"
                if isinstance(error, StepError)
                else f"by {type(error).__name__} after push {position:,}"
            )
            raise
        outputs = [joined(p) for p in zip(*parts, strict=True)]
        if len(self.state.strings) > self._enough_strings:
            self.state.forget_strings()
            self._enough_strings = max(_MANY_STRINGS, 2 * len(self.state.strings))
        return outputs

    def _intern_lists(self, batch: Batch) -> None:
        """Give every text of the batch its code: then all lists that can come are known."""
        for columns in batch.columns:
            for column in columns:
                if isinstance(column, Strings) or (isinstance(column, list) and column and type(column[0]) is str):
                    for text in column.values if isinstance(column, Strings) else column:
                        self.state.code(text)

    def _fill_lists(self, lookups: Lookups, columns: dict[str, Any]) -> None:
        for s, source in enumerate(self.graph.sources):
            at = 0
            for _, t in self.graph.nodes[source].type.columns():
                at += t.width
                inner = t.inner if isinstance(t, OptionalType) else t
                if isinstance(inner, ListType):
                    lookups.fill(inner, columns[f"in{s}_{at - 1}"])

    def _choose(self, count: int) -> bool:
        if self.mode == "python" or (self.mode == "auto" and self.why_plain is not None):
            return False
        return self.mode == "numba" or self.state.compiled or self.pushed + count >= COMPILE_FROM

    # ------------------------------------------------------------ one call of the kernel

    def _to_form(self, compiled: bool) -> None:
        if compiled:
            self.state.to_compiled()
        else:
            self.state.to_plain()

    def _called(self, kernel: Kernel) -> Callable[..., None]:
        which = (kernel.numba, kernel.positions, kernel.timed, kernel.undo, kernel.longest)
        if which not in self._calls:
            self._calls[which] = compile_numba(kernel) if kernel.numba else compile_plain(kernel)
        return self._calls[which]

    def _run(
        self,
        kernel: Kernel,
        fixed: dict[str, Any],
        count: int,
        numbers: Any = None,
        failed: list[StepError] | None = None,
    ) -> list[Output]:
        """Run the kernel over columns that it can read; ``numbers`` are the numbers of the pushes in the whole stream,
        where others have the rest of it."""
        compiled = kernel.numba
        state = self.state
        called = self._called(kernel)
        exchange, calls = self.exchange, Calls(state)
        if compiled and state.pushed == 0:
            exchange.look_for_small_keys(kernel.layout, fixed, count)
        outs = exchange.room(kernel, count)
        for o in range(len(self.graph.outputs)):
            state.meta[state.output_at(o)] = 0
        fixed |= {name: column for columns in outs for name, column in columns.items()}
        size = 2
        for _, fn in kernel.layout.sites:
            size = max(size, sum([p.width for p in fn.params if p is not None]) if fn is not None else 0)
        fixed["n"] = count
        fixed["ei"], fixed["ef"] = self._scratch(size, compiled)
        fixed["opaque"] = calls.of(kernel)
        fixed |= self.times.arguments(compiled) if kernel.timed else {}
        which = (compiled, kernel.positions, kernel.timed, kernel.undo, kernel.longest)
        if which not in self._lookups:
            self._lookups[which] = Lookups(kernel.layout.lookups, compiled, kernel.longest)
        lookups = self._lookups[which]
        lookups.of(state.strings)
        if compiled and self.opens_lists:
            self._fill_lists(lookups, fixed)
        fixed |= log_of(kernel)
        at = 0
        while True:
            arguments = fixed | state.arrays() | lookups.arguments() | {"i": at}
            begin = time.perf_counter()
            called(*[arguments[name] for name in kernel.params])
            if kernel.timed:
                self.times.add(fixed, time.perf_counter() - begin)
            lookups.check()
            at, code, site = (int(v) for v in state.meta[:3])
            if code == GROW_REGION:
                state.grow_region(site)
            elif code == GROW_QUEUE:
                state.grow_queue(site)
            elif code == GROW_LOOKUP:
                lookups.grow(site)
            elif code == GROW_OUTPUT:
                fixed |= exchange.more_room(outs[site])
            elif code:
                position = state.pushed + at if numbers is None else int(numbers[at])
                try:
                    calls.fail(kernel.layout, code, site, position, fixed["ei"], fixed["ef"])
                except StepError as error:
                    if failed is None:
                        raise
                    failed.append(error)
                undo_push(kernel, state, arguments)
                at += 1
            else:
                break
        results = exchange.collected(kernel, outs, state.pushed, numbers)
        state.pushed += count
        return results

    @staticmethod
    def _scratch(size: int, compiled: bool) -> tuple[Any, Any]:
        if not compiled:
            return [0] * size, [0.0] * size
        import numpy as np

        return np.zeros(max(size, 1), np.int64), np.zeros(max(size, 1), np.float64)

    # ------------------------------------------------------------ state

    def save(self) -> bytes:
        """The state as bytes, for this or another process.

        >>> from pellucid import pipeline
        >>> engine = pipeline(lambda x: x.trim(2), x=int).engine()
        >>> engine.push([1])
        []
        >>> len(engine.save()) > 0
        True
        """
        if self._failed is not None:
            raise StateError("the state of an engine that stopped in the middle of a push is not saved")
        return self.state.save()

    def load(self, data: bytes | memoryview) -> None:
        """Go on from a saved state; refused if it is damaged or of another pipeline."""
        self._go_on(EngineState.load(self.state.layout, data))

    def carry(self, data: bytes | memoryview, *, drop: Collection[str] = ()) -> None:
        """Go on from the saved state of another version of this pipeline (see `engine.saved.carry`).

        What a step remembered is found by the step's id.  Steps that are new start as new; a step that is gone, or does
        not fit any more, is refused unless ``drop`` names it.

        >>> from pellucid import pipeline
        >>> old = pipeline(lambda x: x.trim(2, id="cut"), x=int).engine()
        >>> old.push([1])
        []
        >>> new = pipeline(lambda x: x.trim(2, id="cut").decimate(2, id="half"), x=int).engine()
        >>> new.carry(old.save())
        >>> new.push([2, 3, 4, 5])
        [3, 5]
        """
        from pellucid.internal.engine.saved.carry import carry

        self._go_on(carry(self.state.layout, data, drop=drop))

    def _go_on(self, state: EngineState) -> None:
        self.state = state
        self._failed = None
        self._calls = {k: v for k, v in self._calls.items() if k[0]}
        # a saved state is in the compiled form, however small
        worth_it = self.mode == "numba" or self.pushed >= COMPILE_FROM
        if not (worth_it and self._choose(0)):
            self.state.to_plain()

    @property
    def forgotten(self) -> dict[str, int]:
        """How many keys each ``forget`` has given up so far; one that starts again may be given up again.

        >>> from pellucid import pipeline
        >>> p = pipeline(lambda x: x.key_by(lambda v: v).forget(after=2, id="users").decimate(2), x=int)
        >>> engine = p.engine()
        >>> engine.push([7, 8, 9, 7])
        [7, 8, 9, 7]
        >>> engine.forgotten
        {'users': 2}
        """
        return self.state.given_up()

    @property
    def queues(self) -> dict[str, int]:
        """How many events wait in each queue (of all keys together)."""
        self.state.give_up()
        return {q.id: int(self.state.meta[self.state.queue_at(i) + 2]) for i, q in enumerate(self.state.layout.queues)}


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        if node.sub is not None:
            yield from _all_nodes(node.sub)
