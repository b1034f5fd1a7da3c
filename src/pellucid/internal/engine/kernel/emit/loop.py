"""A whole pipeline as the text of one fused loop.

One turn of the loop is one push.  The steps stand in the order of the graph (`engine.kernel.emit.steps`),
with streams between them (`engine.kernel.emit.flows`).

The text comes in two dialects (see `expr.codegen`): compiled by Numba, or run by CPython
for small inputs and for functions that could not be traced.  Both keep state in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pellucid.internal.engine.kernel.emit.pen import CALL_RAISED, Flow, Pen, Storage, array_of, finders, lookers
from pellucid.internal.engine.kernel.emit.steps import STEPS, do_step
from pellucid.internal.engine.kernel.layout import KernelLayout, Opened, capacity, dense, is_float
from pellucid.internal.expr.codegen import TooLarge
from pellucid.internal.expr.types import BOOL, Type
from pellucid.internal.graph.model import Graph, Node

MOST_LINES = 600  # of code of functions that are compiled: two seconds of a processor
GROW_REGION = 10  # codes above the failures: the host makes room and comes back
GROW_QUEUE = 11
GROW_LOOKUP = 12
GROW_OUTPUT = 13
#: Whether a push is timed: one of 32, and not always the same of those, as steps may have a rhythm of their own.
SAMPLED = "((i * 2654435769) >> 27) & 31 == 0"


@dataclass(frozen=True)
class Kernel:
    """The text of a kernel and what the host must know to call it."""

    source: str
    layout: KernelLayout
    numba: bool
    positions: bool
    params: tuple[str, ...]  # names of the arguments, in order
    capacity: tuple[int | None, ...]  # of each output: events per push
    masked: bool  # sources may be silent in a push
    timed: bool = False  # it tells how long its steps take
    undo: bool = False  # a push that fails can be undone: it leaves a log of what it changed
    logged: tuple[str, ...] = ()  # the arrays that the log of a compiled kernel speaks of, by their numbers
    log_room: int = 0  # how many entries one push may have there
    longest: int = 0  # how many elements of a list it is made for


def emit(
    graph: Graph,
    *,
    numba: bool,
    external: Type | None = None,
    positions: bool = False,
    timed: bool = False,
    undo: bool = False,
    longest: int | None = None,
) -> Kernel:
    """Write the kernel of a graph.  ``external`` is the type of a key column that comes with the data; a ``timed`` one
    looks at the clock behind each step, in some of the pushes; with ``undo`` it notes what a push changes, so that the
    host can take a push back that failed half-way.  ``longest`` is how many elements a list in the data has at most:
    the compiled form needs to know that."""
    return Emitter(graph, numba, external, positions, timed, undo, longest).run()


class Emitter(Pen):
    """Writes the kernel of one graph."""

    def run(self) -> Kernel:
        g, w = self.graph, self.w
        external = self.layout.external
        root = self.layout.region(None)
        masked = len(g.sources) > 1 or self.undo.is_on  # a row that could not be read is no event
        caps: list[int | None] = [1] * len(g.nodes)
        w.depth = 3 if self.undo.catches else 2
        flows: dict[int, Flow] = {}
        params = ["n", "i", "M", "ei", "ef"]
        if self.timed:
            params += ["T", "C"]
            w.line(f"tick = {SAMPLED}")
            w.line("if tick: last = _clock()")
        for s, at in enumerate(g.sources):
            node = g.nodes[at]
            flow = Flow(f"has{s}" if masked else None, [f"x{s}_{j}" for j in range(node.type.width)], None)
            columns = [f"in{s}_{j}" for j in range(node.type.width)]
            params += columns
            if masked:
                params.append(f"mask{s}")
                w.line(f"has{s} = mask{s}[i]")
            with self.when(flow.present):
                for name, column in zip(flow.values, columns, strict=True):
                    w.line(f"{name} = {column}[i]")
                if external is not None:
                    keys = [f"key{s}_{j}" for j in range(external.width)]
                    params += keys
                    flow.key = f"row{s}"  # no fresh name begins like this
                    self.find(root, flow.key, [f"{k}[i]" for k in keys])
            self.layout.regions[root].new_keys += external is not None
            flows[at] = flow
            self.clock(at, flow)
        self.nodes(g, caps, flows, root_of=self.layout.region)
        for o, (_, at) in enumerate(g.outputs):
            self.output(o, g.nodes[at], flows[at])
        self.refuse_large()
        if self.timed:
            self.clock(len(g.nodes), None)
            self.clock(len(g.nodes) + 1, None)  # nothing in between: what looking at the clock costs
        w.line("if not again: i += 1" if self.again else "i += 1")
        body = w.lines
        self.layout.lookups = list(w.lookups.items())
        source = self.assemble(body, params, caps)
        self.layout.strings = list(w.strings)
        return Kernel(
            source,
            self.layout,
            self.numba,
            self.positions,
            tuple(params),
            tuple(caps[at] for _, at in g.outputs),
            masked,
            self.timed,
            self.undo.is_on,
            tuple(self.undo.arrays),
            self.undo.room(caps),
            self.longest or 0,
        )

    def refuse_large(self) -> None:
        """Compile no more than takes a few seconds.  That goes by the lines, and by no clock, so that a pipeline is
        always run in the same way."""
        total = sum(self.sizes.values())
        if self.numba and total > MOST_LINES:
            step, lines = max(self.sizes.items(), key=lambda found: found[1])
            raise TooLarge(
                f"{step}: its functions have so many branches that they make {lines:,} lines of code to compile"
                + (f" ({total:,} with the other steps)" if lines < total else "")
                + f", and more than {MOST_LINES:,} take too long; fewer branches, or several steps, are compiled"
            )

    def clock(self, at: int, flow: Flow | None) -> None:
        """Behind a step: count its events, and, in a push that is timed, note how long it took."""
        if not self.timed:
            return
        if flow is not None:
            with self.when(flow.present):
                self.w.line(f"C[{at}] += {flow.many or 1}")
        self.w.line(f"if tick: now = _clock(); T[{at}] += now - last; last = now")

    def assemble(self, body: list[str], params: list[str], caps: list[int | None]) -> str:
        g, layout = self.graph, self.layout
        head: list[str] = []
        tail: list[str] = []
        checks: list[str] = []
        kept: list[str] = []  # what is in local variables, and changes in a push
        m = 4  # M: 0 position, 1 code, 2 site, 3 unused; then regions, outputs, queues
        for r, region in enumerate(layout.regions):
            params += [f"SI{r}", f"SF{r}"]
            if region.keys:
                params += [f"TI{r}", f"K{r}", f"H{r}"]
                params += [f"D{r}"] if self.numba and dense(region) else []
                if self.numba:
                    head.append(f"room{r} = K{r}.size // {len(region.keys)} - M[{m + r}]")
                    checks.append(f"if _rare(room{r} < {region.new_keys}): code = {GROW_REGION}; site = {r}; break")
                elif region.forgets:  # the host looks which keys are given up
                    params.append(f"R{r}")
                    checks.append(f"if M[{m + r}] > R{r}: code = {GROW_REGION}; site = {r}; break")
        for name, r, at, t in self.locals_:
            array = array_of(r, t)
            head.append(f"{name} = ({array}[{at}] != 0)" if t == BOOL else f"{name} = {array}[{at}]")
            tail.append(f"{array}[{at}] = int({name})" if t == BOOL else f"{array}[{at}] = {name}")
            kept.append(name)
        m += len(layout.regions)
        for o, (_, at) in enumerate(g.outputs):
            params += [f"O{o}_{j}" for j in range(g.nodes[at].type.width)]
            params += [f"P{o}"] if self.positions else []
            params += [f"G{o}"] if self.positions and self.keyed(g.nodes[at]) else []
            head.append(f"no{o} = M[{m + o}]")
            tail.append(f"M[{m + o}] = no{o}")
            if self.again and self.numba:
                checks.append(f"if _rare(no{o} + {caps[at]} > O{o}_0.size): code = {GROW_OUTPUT}; site = {o}; break")
        m += len(g.outputs)
        for q, queue in enumerate(layout.queues):
            params += [f"Q{q}n", *[f"Q{q}_{j}" for j in range(len(queue.leaves))]]
            at = m + 3 * q
            head.append(f"qf{q} = M[{at}]; qb{q} = M[{at + 1}]; ql{q} = M[{at + 2}]")
            tail.append(f"M[{at}] = qf{q}; M[{at + 1}] = qb{q}; M[{at + 2}] = ql{q}")
            kept += [f"qf{q}", f"qb{q}", f"ql{q}"]
            if self.numba:
                checks.append(f"if _rare(ql{q} + {queue.burst} > Q{q}n.size): code = {GROW_QUEUE}; site = {q}; break")
        for name, t, size in self.scratch:
            if self.numba:
                head.append(f"{name} = np.zeros({size}, np.{'float64' if is_float(t) else 'int64'})")
            else:
                head.append(f"{name} = [0] * {size}")
        params += ["opaque"] if self.opaque else []
        if layout.lookups and self.numba:
            params += ["LA", "LF", "LP", "LR"]
            checks += [
                f"if _rare(LR[{at}] <= 0): code = {GROW_LOOKUP}; site = {at}; break"
                for at in range(len(layout.lookups))
            ]
        for at in range(len(layout.lookups)):
            params += [f"LS{at}", f"LV{at}", f"LK{at}"] if self.numba else [f"L{at}"]
            f = layout.lookups[at][0]
            if self.numba and isinstance(f, Opened):
                params += [f"LN{at}", *(f"LX{at}_{j}" for j in range(len(f.list.kinds)))]
        begin, undone = self.undo.around(kept, params)
        head += begin  # so that they have a type, whatever happens
        lines = [
            finders(self.layout, self.numba),
            lookers(self.layout, self.numba),
            *self.w.functions,
            f"def kernel({', '.join(params)}):",
            "    code = 0; site = 0" + "; again = False" * self.again,
            *(["    last = 0; now = 0"] if self.timed else []),
        ]
        lines += ["    " + text for text in head]
        lines += ["    while i < n:"]
        lines += ["        " + text for text in checks]
        lines += ["        M[0] = i"] if self.opaque else []
        lines += ["        " + text for text in begin]
        lines += (
            ["        try:", *body, f"        except _StepError: code = {CALL_RAISED}; break"]
            if self.undo.catches
            else body
        )
        lines += ["    " + text for text in [*undone, *tail]]
        lines += ["    M[0] = i; M[1] = code; M[2] = site"]
        text = "\n".join(lines) + "\n"
        for r, region in enumerate(layout.regions):
            text = text.replace(f"{{W{r}}}", str(region.width))
        return text

    def keyed(self, node: Node) -> bool:
        if self.graph.forgotten_by[self.graph.position[node.id]] is not None:
            return False  # the row of a key that is given up becomes that of another
        return node.key is not None or self.layout.external is not None

    def nodes(self, g: Graph, caps: list[int | None], flows: dict[int, Flow], root_of: Any) -> None:
        for i, node in enumerate(g.nodes):
            if node.kind == "source":
                continue
            forgets = g.forgotten_by[i]
            region = None
            if root_of is not None:
                region = root_of(node.key, None if forgets is None else g.nodes[forgets])
            store = Storage(self, node, region)
            ins = [flows[j] for j in node.inputs]
            keyed = node.key is not None or (root_of is not None and self.layout.external is not None)
            caps[i] = capacity(node, [caps[j] for j in node.inputs], keyed, self.longest)
            flows[i] = STEPS.get(node.kind, do_step)(self, node, ins, caps, i, store)
            if flows[i].many is None:
                caps[i] = 1
            if g is self.graph:  # not the steps inside a window: they are part of its time
                self.clock(i, flows[i])

    def output(self, o: int, node: Node, flow: Flow) -> None:
        with self.each(flow) as (values, key):
            for j, value in enumerate(values):
                self.w.line(f"O{o}_{j}[no{o}] = {value}" if self.numba else f"O{o}_{j}.append({value})")
            if self.positions:
                self.w.line(f"P{o}[no{o}] = i" if self.numba else f"P{o}.append(i)")
                if self.keyed(node):
                    self.w.line(f"G{o}[no{o}] = {key}" if self.numba else f"G{o}.append({key})")
            self.w.line(f"no{o} += 1")
