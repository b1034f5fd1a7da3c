"""The literal interpreter: the meaning of a pipeline, word by word.

One push gives each source one event or silence.  The steps are then visited in the order of the graph; each takes the
events that its inputs carry in this push and emits its own, as the definitions of Model Checking of Stream
Processing Pipelines (2021, section 2) say: one function per processor below.  It calls the user's plain functions,
keeps queues where everybody can see them, and is slow.  It is the oracle for every other engine.

Choices where the paper is silent: a push may bring an event to several sources at once; a step may
emit several events; a step with several inputs takes them input by input, and fires as soon as it can;
after ``key_by`` every processor has one state per key, after ``forget`` one for each session of a key.

>>> from pellucid import pipeline, apply
>>> p = pipeline(lambda x: apply(lambda a, b: a + b, x.decimate(3), x), x=int)  # Figure 2a
>>> run = Interpreter(p.graph)
>>> [run.push(x=v)["out"] for v in range(4)]
[[0], [], [], [4]]
>>> [len(queue) for queue in run.queues.values()]
[0, 2]
"""

from __future__ import annotations

import copy
import linecache
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pellucid.errors import Control, DataError, IntOverflow, PellucidError, StepError, UsageError
from pellucid.internal import PACKAGE
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import TRUE, Expr, Overflow64, var
from pellucid.internal.expr.types import INT, ListType, Type, conform
from pellucid.internal.graph.model import Graph, Node, refuse_timed
from pellucid.internal.graph.processors import Cell, cells_of, meaning_of

# A step that fails on an event: what the message says.
#
# The message names the step, the event and its position, and the line of the user's own code.


def call(node: Node, fn: Function, args: Sequence[Any], position: int) -> Any:
    """Call a step's function as the meaning has it; a failure becomes a ``StepError``."""
    try:
        return fn.call(*args)
    except (PellucidError, Control, KeyboardInterrupt):
        raise
    except BaseException as error:  # also sys.exit(), which would end the program as if all were done
        raise step_error(node, args, position, error) from error


def step_error(node: Node, args: Sequence[Any], position: int, error: BaseException) -> StepError:
    """The error for a step that failed with ``error`` on these arguments."""
    overflow = isinstance(error, Overflow64) or (isinstance(error, ValueError) and "64 bits" in str(error))
    what = "an integer left the signed 64-bit range" if overflow else f"{type(error).__name__}: {error}"
    if overflow and "does not fit" in str(error):
        what += f" ({error})"
    shown = ", ".join(short(a) for a in args)
    arguments = "on the event" if len(args) == 1 else "on the arguments"
    why = f"{arguments} {shown}: {what}{_line(error)}"
    cls = IntOverflow if overflow else StepError
    return cls(f"{node.describe()} failed at push {position:,} {why}", step=node.id, position=position, why=why)


def short(value: Any) -> str:
    """A value for a message, of at most 80 characters.

    >>> short("ada")
    "'ada'"
    """
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _line(error: BaseException) -> str:
    """The last line of the user's own code that the error passed through."""
    found, tb = None, error.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not name.startswith((PACKAGE, "<pellucid ")):
            found = (name, tb.tb_lineno, tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    if found is None:
        return ""
    name, number, function = found
    code = linecache.getline(name, number).strip()
    place = f"{os.path.basename(name)}:{number}"
    return f"\n  {place}, in {function}" + (f": {code}" if code else "")


Event = tuple[Any, Any]  # (key, value); the key is None where there is none


class Interpreter:
    """Runs a graph push by push.

    ``state[step][key]`` and ``queues[id]`` can be looked at after every push.  What works by event time is run by
    `engine.timed.literal`.
    """

    def __init__(self, graph: Graph, *, ordinary: bool = False) -> None:
        if not ordinary:  # such a caller runs the timed steps itself, and uses `step` for the others
            refuse_timed(graph, "the interpreter of single pushes")
        self.graph = graph
        self.pushed = 0
        self.state: dict[str, dict[Any, Any]] = {node.id: {} for node in graph.nodes}
        self._waiting: dict[str, dict[Any, list[deque[Any]]]] = {n.id: {} for n in graph.nodes if n.queued}

    @property
    def queues(self) -> dict[str, list[Any]]:
        """The events that wait, for each queue by its id (of all keys together)."""
        return {
            id: [event for queues in self._waiting[self.graph.nodes[i].id].values() for event in queues[at]]
            for id, i, at in self.graph.queues()
        }

    def lengths(self) -> dict[str, int]:
        """How many events wait in each queue; of a keyed step, which has a queue for each key, in the longest."""
        return {
            id: max((len(queues[at]) for queues in self._waiting[self.graph.nodes[i].id].values()), default=0)
            for id, i, at in self.graph.queues()
        }

    def push(self, events: Mapping[str, Any] | None = None, **more: Any) -> dict[str, list[Any]]:
        """One push: an event for each source named, silence for the others.  Returns the outputs' events."""
        return {
            name: [value for _, value in events] for name, events in self.push_keyed({**(events or {}), **more}).items()
        }

    def push_keyed(self, events: Mapping[str, Any]) -> dict[str, list[Event]]:
        """Like ``push``, with each event's key beside it."""
        names = {self.graph.nodes[i].id for i in self.graph.sources}
        for name in events:
            if name not in names:
                raise UsageError(f"{self.graph.name} has no source {name!r}: it has {', '.join(sorted(names))}")
        streams: list[list[Event]] = []
        for node in self.graph.nodes:
            if node.kind == "source":
                streams.append([(None, self._event(node, events[node.id]))] if node.id in events else [])
            else:
                streams.append(self.step(node, [streams[i] for i in node.inputs]))
        self.pushed += 1
        self.give_up()
        return {name: streams[i] for name, i in self.graph.outputs}

    def step(self, node: Node, inputs: Sequence[list[Event]]) -> list[Event]:
        """What one step emits, given what its inputs carry."""
        if node.kind in self.STEPS:
            return self.STEPS[node.kind](self, node, *inputs)
        return self.defined(node, *inputs)

    def _event(self, node: Node, event: Any) -> Any:
        try:
            return conform(node.type, event)
        except ValueError as error:
            raise DataError(f"source {node.id!r}, push {self.pushed:,}: {error}") from None

    def run(self, steps: Iterable[Mapping[str, Any]]) -> list[dict[str, list[Any]]]:
        """Push step after step; the outputs of each."""
        return [self.push(step) for step in steps]

    def _call(self, node: Node, *args: Any) -> Any:
        assert node.fn is not None
        return call(node, node.fn, args, self.pushed)

    # ------------------------------------------------------------ the processors

    def map(self, node: Node, events: list[Event]) -> list[Event]:
        """ApplyFunction with one input: π(v·σ) = π(v)·f(σ)."""
        return [(key, self._call(node, value)) for key, value in events]

    def filter(self, node: Node, events: list[Event]) -> list[Event]:
        """Filter by a predicate: the events for which it holds."""
        return [(key, value) for key, value in events if self._call(node, value)]

    def apply(self, node: Node, *inputs: list[Event]) -> list[Event]:
        """ApplyFunction: a computation step is done iff an event can be consumed from each input."""
        return [(key, self._call(node, *front)) for key, front in self._fronts(node, *inputs)]

    def filter_by(self, node: Node, *inputs: list[Event]) -> list[Event]:
        """Filter: π(v·(σ, b)) = π(v)·σ if b, and π(v) otherwise."""
        return [(key, front[0]) for key, front in self._fronts(node, *inputs) if front[1]]

    def _fronts(self, node: Node, *inputs: list[Event]) -> list[tuple[Any, list[Any]]]:
        """Queue what came; consume one event from each input wherever all have one."""
        if len(inputs) == 1:
            return [(key, [value]) for key, value in inputs[0]]
        fronts = []
        for at, events in enumerate(inputs):
            for key, value in events:
                queues = self._waiting[node.id].setdefault(key, [deque() for _ in inputs])
                queues[at].append(value)
                while all(queues):
                    fronts.append((key, [queue.popleft() for queue in queues]))
        return fronts

    def cumulate(self, node: Node, events: list[Event]) -> list[Event]:
        """Cumulate: π(σ̄·σ) = π(σ̄)·f(π(σ̄)[-1], σ), beginning with the start value."""
        out = []
        for key, value in events:
            last = self.state[node.id].get(key, node.start)
            last = self.state[node.id][key] = self._call(node, last, value)
            out.append((key, last))
        return out

    def decimate(self, node: Node, events: list[Event]) -> list[Event]:
        """CountDecimate: π(v) = ⟨v[0], v[k], v[2k], …⟩."""
        return [(key, value) for key, value, i in self._numbered(node, events) if i % node.k == 0]

    def trim(self, node: Node, events: list[Event]) -> list[Event]:
        """Trim: π(v) = ⟨v[k], v[k+1], …⟩."""
        return [(key, value) for key, value, i in self._numbered(node, events) if i >= node.k]

    def _numbered(self, node: Node, events: list[Event]) -> list[tuple[Any, Any, Any]]:
        out = []
        for key, value in events:
            i = self.state[node.id].get(key, 0)
            self.state[node.id][key] = i + 1
            out.append((key, value, i))
        return out

    def lag(self, node: Node, events: list[Event]) -> list[Event]:
        """Lag: π(v) = ⟨(v[k], v[0]), (v[k+1], v[1]), …⟩."""
        assert node.k is not None
        out = []
        for key, value in events:
            recent = (*self.state[node.id].get(key, ()), value)
            self.state[node.id][key] = recent[-node.k :]
            if len(recent) > node.k:
                out.append((key, (value, recent[0])))
        return out

    def window(self, node: Node, events: list[Event]) -> list[Event]:
        """Window: the i-th output is π'(⟨σ_i … σ_{i+k-1}⟩)[-1], if π' emits anything there."""
        assert node.sub is not None and node.k is not None
        out = []
        for key, value in events:
            recent = (*self.state[node.id].get(key, ()), value)[-node.k :]
            self.state[node.id][key] = recent
            if len(recent) == node.k:
                inner = Interpreter(node.sub)
                try:
                    produced = [e for v in recent for e in inner.push({"in": v})["out"]]
                except StepError as error:  # the push that failed is this one, not one of the window's
                    text = str(error).replace(f"push {error.position:,} ", f"push {self.pushed:,} ", 1)
                    raise type(error)(text, step=error.step, position=self.pushed) from error.__cause__
                if produced:
                    out.append((key, produced[-1]))
        return out

    def task(self, node: Node, events: list[Event]) -> list[Event]:
        """The stateful task of Failure Transparency in Stateful Dataflow Systems (2024), section 3.1: f(state, event)
        gives the new state and the outputs."""
        out = []
        for key, value in events:
            if key not in self.state[node.id]:
                self.state[node.id][key] = copy.deepcopy(node.start)  # no two keys or runs share a state
            state = self.state[node.id][key]
            self.state[node.id][key], produced = self._call(node, state, value)
            out += [(key, event) for event in produced]
        return out

    def explode(self, node: Node, events: list[Event]) -> list[Event]:
        """Each element of the list that the function gives for an event, in order; beside the event, if so asked."""
        return [
            (key, (value, item) if node.beside else item) for key, value in events for item in self._call(node, value)
        ]

    def merge(self, node: Node, *inputs: list[Event]) -> list[Event]:
        """Asynchronous union: what comes, in the order of the inputs."""
        return [event for events in inputs for event in events]

    def key_by(self, node: Node, events: list[Event]) -> list[Event]:
        """The same events under the key that the function gives them."""
        return [(self._call(node, value), value) for _, value in events]

    def forget(self, node: Node, events: list[Event]) -> list[Event]:
        """key_by, where a key starts again of which the last k events were not: an event is under its key and the
        number of the event with which that began."""
        assert node.k is not None
        kept, out = self.state[node.id], []  # for each key: the first event since it began, and its last
        for _, value in events:
            key, now = self._call(node, value), _next(kept)
            first, last = kept.get(key, (now, now))
            kept[key] = (first if now - last - 1 < node.k else now, now)
            out.append(((key, kept[key][0]), value))
        return out

    def defined(self, node: Node, *inputs: list[Event]) -> list[Event]:
        """A step as the table of processors defines it: the meaning of a kind that has no method of its own here."""
        means, out = meaning_of(node, "the interpreter"), []
        types = [self.graph.nodes[i].type for i in node.inputs]
        kinds = [kind for t in types for _, kind in t.leaves()]
        cells = [Cell("state", INT, node.start)] if node.any_object else cells_of(node, kinds)
        for key, front in self._fronts(node, *inputs):
            at = _Leaves(self, node)
            now = at.variables(self._held(node, key, cells), [cell.type for cell in cells])
            event = at.variables([v for t, e in zip(types, front, strict=True) for v in t.flatten(e)], kinds)
            made = means(node, now, event, at.call)
            emitted = [leaves for when, leaves in made.emits if at.value(when)]
            out += [(key, node.type.unflatten([at.value(leaf) for leaf in leaves])) for leaves in emitted]
            if cells:
                self.state[node.id][key] = self._kept(node, [at.value(e) for e in made.after])
        return out

    def _held(self, node: Node, key: Any, cells: Sequence[Cell]) -> list[Any]:
        """The cells of a step, for a key, from what is kept for it."""
        if key not in self.state[node.id]:
            return [copy.deepcopy(cell.start) for cell in cells]  # no two keys or runs share a state
        kept = self.state[node.id][key]
        if node.processor.keeps == "events":
            leaves = [v for event in kept for v in self.graph.nodes[node.inputs[0]].type.flatten(event)]
            return [len(kept), *leaves, *(cell.start for cell in cells[1 + len(leaves) :])]
        return list(node.state.flatten(kept)) if node.state is not None else [kept]

    def _kept(self, node: Node, cells: Sequence[Any]) -> Any:
        """What is kept, as the methods below keep it: a count, a state, or the last events."""
        if node.processor.keeps != "events":
            return node.state.unflatten(cells) if node.state is not None else cells[0]
        t = self.graph.nodes[node.inputs[0]].type
        return tuple(t.unflatten(cells[1 + i * t.width : 1 + (i + 1) * t.width]) for i in range(cells[0]))

    def give_up(self) -> None:
        """After a push: what is kept for keys that would start again with the next event is gone."""
        for at, node in enumerate(self.graph.nodes):
            if node.processor.forgets and node.k is not None:
                kept = self.state[node.id]
                now = _next(kept)
                kept = self.state[node.id] = {key: of for key, of in kept.items() if now - of[1] - 1 < node.k}
                held = {(key, first) for key, (first, _) in kept.items()}
                for step in [n.id for n, by in zip(self.graph.nodes, self.graph.forgotten_by, strict=True) if by == at]:
                    if step != node.id:
                        self.state[step] = {key: value for key, value in self.state[step].items() if key in held}
                    if step in self._waiting:
                        self._waiting[step] = {k: q for k, q in self._waiting[step].items() if k in held}

    STEPS: ClassVar[dict[str, Callable[..., list[Event]]]] = {
        "map": map, "filter": filter, "filter_by": filter_by, "apply": apply, "cumulate": cumulate,
        "decimate": decimate, "trim": trim, "lag": lag, "window": window, "task": task, "merge": merge,
        "key_by": key_by, "forget": forget, "explode": explode,
    }  # fmt: skip


class _Leaves:
    """The values of the variables of a definition, at one event."""

    def __init__(self, run: Interpreter, node: Node) -> None:
        self.run, self.node, self.values = run, node, list[Any]()

    def variables(self, values: Sequence[Any], kinds: Sequence[Type]) -> list[Expr]:
        first = len(self.values)
        self.values += values
        return [var(i, t) for i, t in enumerate(kinds, first)]

    def value(self, e: Expr) -> Any:
        return evaluate(e, self.values)

    def call(self, leaves: Sequence[Expr], when: Expr = TRUE) -> list[Expr]:
        """The step's function, called on what these leaves are."""
        fn = self.node.fn
        assert fn is not None and self.value(when)
        values = iter([self.value(leaf) for leaf in leaves])
        args = [next(values) if t is None else t.unflatten([next(values) for _ in t.leaves()]) for t in fn.params]
        result = self.run._call(self.node, *args)
        if not fn.task and not isinstance(fn.result, ListType):
            return self.leaves_of(fn.result, result)
        state, events = result if fn.task else (None, result)
        item = fn.event if fn.task else fn.result.item  # type: ignore[union-attr]
        kept = self.leaves_of(fn.result, state) if fn.task else []
        return [*kept, *self.variables([len(events)], [INT]), *(e for v in events for e in self.leaves_of(item, v))]

    def leaves_of(self, t: Type | None, value: Any) -> list[Expr]:
        """A result as variables; one that is any Python object is one of its own."""
        return self.variables(*([value], [INT]) if t is None else (t.flatten(value), [kind for _, kind in t.leaves()]))


def _next(kept: dict[Any, tuple[int, int]]) -> int:
    """The number of the next event: the key of the last one is always held."""
    return 1 + max((last for _, last in kept.values()), default=-1)
