"""Steps that wait for all their inputs: ApplyFunction with m > 1 inputs, and Filter (Model Checking of Stream
Processing Pipelines, 2021, section 3.3).

The queue of an input pipe is two arrays: ``q_c`` holds its events, ``q_b`` tells at which positions there is one; what
waits always stands at the front.  In a push the step fires if every input has an event, waiting or just come: it
takes the oldest of each.  What the paper leaves undefined, an event for a queue that is full, is ``overflow`` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.errors import NotNamed
from pellucid.internal.export.smv.expr import SmvKind
from pellucid.internal.export.smv.modules import BuiltModule, pipe
from pellucid.internal.graph.model import Node

if TYPE_CHECKING:
    from pellucid.internal.export.smv.modules import BuiltModule, Library, Pipe


def waiting(
    library: Library, node: Node, ins: list[Pipe], out: tuple[SmvKind, ...], bounds: list[int] | None
) -> BuiltModule:
    """The module of a step with several inputs; where these always come together (no bounds) it has no queues."""
    inputs = [pipe(f"i{j + 1}_{{}}", p.kinds) for j, p in enumerate(ins)]
    o = pipe("o_{}", out)
    queues = [_Queue(j + 1, p, bound) for j, (p, bound) in enumerate(zip(inputs, bounds or [], strict=bool(bounds)))]
    sections: dict[str, list[str]] = {"VAR": [], "DEFINE": [], "ASSIGN": []}
    if bounds is None:
        ready, fronts = inputs[0].b, [p.c for p in inputs]
    else:
        ready, fronts = "ready", [q.front for q in queues]
        sections["DEFINE"].append(f"ready := {' & '.join(q.some for q in queues)};")
        for q in queues:
            q.write(sections)
        sections["DEFINE"].append(f"overflow := {' | '.join(f'over_{q.j}' for q in queues)};")
    fails = False
    last = " | ".join(p.l for p in inputs)
    if node.kind == "filter_by":
        (flag,) = fronts[1]
        passes = f"{ready} & {flag}"
        sections["ASSIGN"] += [f"{to} := {a};" for a, to in zip(fronts[0], o.c, strict=True)]
        stem, what = "Filter", "Filter (section 2) by a Boolean stream"
    elif node.kind == "apply":
        assert node.fn is not None
        passes = ready
        kinds = [kind for p in inputs for kind in p.kinds]
        f = library.function(node.fn, node.describe(), kinds, out)
        args = ", ".join([*(c for front in fronts for c in front), *o.c])
        sections["VAR"].append(f"f : {f.name}({args});")
        fails = f.fails
        if fails:
            sections["DEFINE"].append(f"failed := {ready} & f.failed;")
        stem, what = "ApplyFunction", f"ApplyFunction {len(ins)}:1 (section 3.3)"
    else:
        raise NotNamed(f"NuSMV's model does not know the processor {node.kind!r}: it has apply, filter_by")
    sections["ASSIGN"] += [f"{o.b} := {passes};", f"{o.l} := {passes} & ({last});"]
    note = f"{what}: its inputs always come together, so its queues stay empty"
    if bounds is not None:
        note = f"{what}: queues as arrays q_c, q_b of {', '.join(map(str, bounds))} cells"
    params = [name for p in (*inputs, o) for name in p.names]
    return BuiltModule(library.add(stem, [*params, "rst"], sections, note), fails, bounds is not None)


class _Queue:
    """The queue before input ``j``: its variables and how a push changes them."""

    def __init__(self, j: int, p: Pipe, bound: int) -> None:
        self.j, self.p, self.bound = j, p, bound
        self.b = [f"q{j}_b[{i}]" for i in range(bound)]
        leaves = [f"q{j}_c"] if len(p.c) == 1 else [f"q{j}_c_{k + 1}" for k in range(len(p.c))]
        self.arrays = leaves
        # An input without room to wait is its own front.
        self.front = tuple(f"front{j}" + (f"_{k + 1}" if len(p.c) > 1 else "") for k in range(len(p.c)))

    @property
    def some(self) -> str:
        """An event waits or has just come."""
        return f"({self.b[0]} | {self.p.b})" if self.bound else self.p.b

    def write(self, sections: dict[str, list[str]]) -> None:
        j, p, b, bound = self.j, self.p, self.b, self.bound
        define, assign = sections["DEFINE"], sections["ASSIGN"]
        if bound:
            sections["VAR"] += [
                f"{name} : array 0..{bound - 1} of {kind};" for name, kind in zip(self.arrays, p.kinds, strict=True)
            ]
            sections["VAR"].append(f"q{j}_b : array 0..{bound - 1} of boolean;")
        for name, array, came in zip(self.front, self.arrays, p.c, strict=True):
            define.append(f"{name} := {f'({b[0]} ? {array}[0] : {came})' if bound else came};")
        before = " + ".join(f"({x} ? 1 : 0)" for x in b) or "0"
        define.append(f"len_{j} := {before};")
        define.append(f"after_{j} := len_{j} + ({p.b} ? 1 : 0) - (ready ? 1 : 0);")
        define.append(f"over_{j} := {' & '.join([p.b, '!ready', *b[-1:]])};")
        for i in range(bound):
            behind = b[i + 1] if i + 1 < bound else "FALSE"
            ahead = b[i - 1] if i else "TRUE"
            assign.append(f"init({b[i]}) := FALSE;")
            assign.append(
                f"next({b[i]}) := case rst : FALSE; ready & {p.b} : {b[i]}; ready : {behind}; {p.b} : {ahead}; "
                f"TRUE : {b[i]}; esac;"
            )
            for array, came, kind in zip(self.arrays, p.c, p.kinds, strict=True):
                here, rest = f"{array}[{i}]", kind.default
                later = f"{array}[{i + 1}]" if i + 1 < bound else rest
                moved = f"({behind} ? {later} : {came})" if behind != "FALSE" else came
                assign.append(f"init({here}) := {rest};")
                assign.append(
                    f"next({here}) := case rst : {rest}; ready & {p.b} & {b[i]} : {moved}; ready & {p.b} : {here}; "
                    f"ready : {later}; {p.b} & !{b[i]} & {ahead} : {came}; TRUE : {here}; esac;"
                )
