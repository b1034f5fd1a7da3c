"""What a kernel has Python do: functions that were not traced, windows with keys inside, and what a failure says.

A kernel hands over leaves, numbers all of them; the user's function gets the events that they stand for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pellucid.errors import StepError
from pellucid.internal.engine.failure import call, step_error
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.emit.timers import ENDLESS, NOT_AHEAD, Untimely
from pellucid.internal.engine.kernel.layout import KernelLayout, encode, is_float, leaf_types
from pellucid.internal.engine.kernel.undo import CALL_RAISED
from pellucid.internal.expr.codegen import OVERFLOW
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import BOOL, FLOAT, STR, EnumType, Type
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.internal.engine.kernel.emit import Kernel
    from pellucid.internal.engine.state import EngineState


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
