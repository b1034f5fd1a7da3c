"""A pipeline as a model for NuSMV and nuXmv."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pellucid.check.formula import Formula, as_formula, is_invariant, terms
from pellucid.check.formula import kind as kind_of_formula
from pellucid.check.formula.nodes import Length
from pellucid.check.formula.resolve import resolve
from pellucid.check.functions.arguments import tables_of
from pellucid.check.functions.called import Tables
from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.run import SystemRun
from pellucid.check.system.variables import FALSE, TRUE, Slot
from pellucid.errors import UsageError
from pellucid.internal.export.language import SmvKind, SmvNames, SmvWriter, literal, plain
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, INT, EnumType, Type
from pellucid.internal.graph.model import Graph, Node, presence, refuse_timed
from pellucid.internal.graph.processors import Meaning, cells_of, made_of, meaning_of

# Which values each pipe and each state may carry, so that NuSMV's variables have a range.
#
# Modulo N every integer is one of 0 … N-1.  Over a bounded domain arithmetic is exact, so the values are found by
# calling the functions on everything that may come, until nothing new appears; a step whose values never stop growing
# is refused by its name.  Inside a window of width k a step sees at most k events before it is reset.

MOST = 4096  # values of a pipe, or arguments of a function

Leaves = tuple[Any, ...]


@dataclass
class Kinds:
    """For each step: what its events are, and its state; for each window the same of its sub-pipeline."""

    events: list[tuple[SmvKind, ...]] = field(default_factory=list)
    states: dict[int, tuple[SmvKind, ...]] = field(default_factory=dict)
    subs: dict[int, Kinds] = field(default_factory=dict)


def refuse_what_smv_cannot(graph: Graph) -> None:
    """The paper's pipes carry at most one event in a push, of scalars that NuSMV knows."""
    for node in graph.nodes:
        who = node.describe()
        if node.key is not None:
            raise UsageError(f"{who}: keyed steps cannot be exported; export the pipeline for one key")
        if node.processor.inputs == "apart" and len(node.inputs) > 1:
            raise UsageError(
                f"{who}: a merge may carry several events in one push, but a pipe of NuSMV's model carries at most one"
            )
        if node.kind == "explode":
            raise UsageError(
                f"{who}: emits as many events at once as its list has, but a pipe of NuSMV's model carries at most one"
            )
        if node.processor.puts == "many":
            assert node.fn is not None
            if node.fn.traced is None or node.state is None:
                raise UsageError(f"{who}: {node.fn.name} {node.fn.reason}; a task is exported as data only")
            if len(node.fn.traced.slots) > 1:
                raise UsageError(
                    f"{who}: emits up to {len(node.fn.traced.slots)} events at once, "
                    "but a pipe of NuSMV's model carries at most one"
                )
        for t in (node.type, *([node.state] if node.state is not None else [])):
            for path, leaf in t.columns():
                if leaf not in (BOOL, INT) and not isinstance(leaf, EnumType):
                    field = f" (field {path!r})" if path else ""
                    raise UsageError(
                        f"{who}: NuSMV has no {leaf}{field}: its scalars are Booleans, integers and symbolic constants"
                    )
        if node.sub is not None:
            refuse_what_smv_cannot(node.sub)


def kinds_of(graph: Graph, domain: Domain) -> Kinds:
    """The kinds of a whole pipeline.

    >>> from pellucid import Mod, pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> p = pipeline(lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: a + v, start=0)), x=int)
    >>> [str(kind) for kinds in kinds_of(p.graph, domain_of(Mod(4))).events for kind in kinds]
    ['0..3', '0..3']
    >>> [str(kind) for kinds in kinds_of(p.graph, domain_of(range(2))).events for kind in kinds]
    ['0..1', '0..3']
    """
    if domain.values is None and any(t == INT for node in graph.nodes for _, t in node.type.leaves()):
        raise UsageError("NuSMV's integers are bounded: give a domain, such as Mod(4) or range(0, 4)")
    if domain.modulus is not None or domain.values is None:
        return _modulo(graph, domain)
    sets: dict[int, set[Leaves]] = {}
    for i in graph.sources:
        events = domain.events(graph.nodes[i].type)
        assert events is not None
        sets[i] = set(events)
    return _Sets(graph, sets, None).kinds()


def _modulo(graph: Graph, domain: Domain) -> Kinds:
    values = tuple(range(domain.modulus)) if domain.modulus is not None else (0,)
    out = Kinds()
    for i, node in enumerate(graph.nodes):
        out.events.append(_of_type(node.type, values))
        if node.state is not None:
            out.states[i] = _of_type(node.state, values)
        if node.sub is not None:
            out.subs[i] = _modulo(node.sub, domain)
    return out


def _of_type(t: Type, values: tuple[int, ...]) -> tuple[SmvKind, ...]:
    return tuple(SmvKind(leaf, values if leaf == INT else ()) for _, leaf in t.leaves())


class _Sets:
    """The events that each step may emit, by calling its function on all that may come in."""

    def __init__(self, graph: Graph, sources: dict[int, set[Leaves]], rounds: int | None) -> None:
        self.graph, self.rounds, self.subs = graph, rounds, Kinds().subs
        self.events: list[set[Leaves]] = []
        self.states: dict[int, set[Leaves]] = {}
        for i, node in enumerate(graph.nodes):
            if node.kind == "source":
                self.events.append(sources[i])
            else:
                found = self.step(i, node, [self.events[j] for j in node.inputs])
                if len(found) > MOST:
                    raise self.too_many(node)
                self.events.append(found)

    def too_many(self, node: Node) -> UsageError:
        return UsageError(
            f"{node.describe()}: its values grow beyond {MOST:,}, but NuSMV's integers are bounded: "
            "use Mod(N), a smaller domain, or a function that stays within bounds"
        )

    def step(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        """What a step may emit, by what the table of processors says of its kind."""
        p = node.processor
        meaning_of(node, "NuSMV's model")  # or it is refused
        if node.sub is not None:
            return self.inside(i, node, ins)
        if p.starts:
            return self.stateful(i, node, ins)
        if p.passes:
            return ins[0]
        if node.fn is None:
            return self.kept(node, ins[0])
        assert node.fn.result is not None
        return {tuple(node.fn.result.flatten(value)) for value in self.calls(node, ins)}

    def kept(self, node: Node, events: set[Leaves]) -> set[Leaves]:
        """Events that are put together of those that came."""
        (leaves,) = made_of(node, [t for _, t in self.graph.nodes[node.inputs[0]].type.leaves()])
        places = {at: i for i, at in enumerate(sorted({at for at, _ in leaves}))}
        if len(events) ** len(places) > MOST:
            raise self.too_many(node)
        return {tuple(row[places[at]][j] for at, j in leaves) for row in product(events, repeat=len(places))}

    def inside(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        assert node.sub is not None and node.k is not None
        inner = _Sets(node.sub, {node.sub.sources[0]: ins[0]}, node.k)
        self.subs[i] = inner.kinds()
        return inner.events[node.sub.outputs[0][1]]

    def stateful(self, i: int, node: Node, ins: list[set[Leaves]]) -> set[Leaves]:
        assert node.state is not None and node.fn is not None
        reached: set[Leaves] = {tuple(node.state.flatten(node.start))}
        fresh, out, turn = set(reached), set[Leaves](), 0
        while fresh and (self.rounds is None or turn < self.rounds):
            new: set[Leaves] = set()
            for value in self.calls(node, [fresh, ins[0]]):
                state, emitted = value if node.processor.puts == "many" else (value, [])
                new.add(tuple(node.state.flatten(state)))
                out |= {tuple(node.type.flatten(e)) for e in emitted}
            fresh, turn = new - reached, turn + 1
            reached |= new
            if len(reached) > MOST or len(out) > MOST:
                raise self.too_many(node)
        self.states[i] = reached
        return out if node.processor.puts == "many" else reached

    def calls(self, node: Node, pools: list[set[Leaves]]) -> Iterable[Any]:
        assert node.fn is not None
        many = 1
        for pool in pools:
            many *= len(pool)
        if many > 64 * MOST:
            raise self.too_many(node)
        for row in product(*pools):
            try:
                yield node.fn.call(*[t.unflatten(list(leaves)) for t, leaves in zip(node.fn.params, row, strict=True)])
            except Exception:  # the function fails here: the model stops, and no value is needed
                continue

    def kinds(self) -> Kinds:
        events = [_hull(node.type, found) for node, found in zip(self.graph.nodes, self.events, strict=True)]
        states = {i: _hull(self.graph.nodes[i].state, found) for i, found in self.states.items()}
        return Kinds(events, states, self.subs)


def _hull(t: Type | None, found: set[Leaves]) -> tuple[SmvKind, ...]:
    assert t is not None
    out = []
    for j, (_, leaf) in enumerate(t.leaves()):
        values = tuple(sorted({leaves[j] for leaves in found})) if leaf == INT else ()
        out.append(SmvKind(leaf, values or ((0,) if leaf == INT else ())))
    return tuple(out)


# One NuSMV module for each processor (Model Checking of Stream Processing Pipelines, 2021, sections 3.2 and 3.3).
#
# A module of an m:n processor has 3m + 3n + 1 parameters: for each input and output pipe its event ``c``, its presence
# ``b`` and its flag ``l`` (the event is the last), and a reset flag. (An event that is a record has one ``c`` for each
# leaf.) A module writes its output pipes; it also *defines*, where it can be so, ``failed`` (a function fails on what
# it gets) and ``overflow`` (a queue would have to grow beyond its bound), for the main module to read.


@dataclass(frozen=True)
class Pipe:
    """The variables of one pipe, by name: event, presence, last."""

    c: tuple[str, ...]
    b: str
    l: str  # noqa: E741 - the paper's name
    kinds: tuple[SmvKind, ...]

    @property
    def names(self) -> list[str]:
        """As parameters."""
        return [*self.c, self.b, self.l]


def pipe(form: str, kinds: tuple[SmvKind, ...]) -> Pipe:
    """A pipe whose variables are named by a form such as ``p{}_1``.

    >>> from pellucid.internal.expr.types import BOOL
    >>> pipe("p{}_1", (SmvKind(BOOL),)).names
    ['pc_1', 'pb_1', 'pl_1']
    """
    c = (form.format("c"),) if len(kinds) == 1 else tuple(f"{form.format('c')}_{j + 1}" for j in range(len(kinds)))
    return Pipe(c, form.format("b"), form.format("l"), kinds)


@dataclass(frozen=True)
class BuiltModule:
    """A module: its name, and which definitions it has for others to read."""

    name: str
    fails: bool = False
    queues: bool = False  # it has queues with a bound, so it may overflow


@dataclass
class Library:
    """The modules so far.  Equal modules are written once."""

    domain: Domain
    tables: Tables = field(default_factory=Tables)  # of the functions that are called and not traced
    names: SmvNames = field(default_factory=lambda: SmvNames(["main"]))
    modules: dict[tuple[str, str], str] = field(default_factory=dict)  # stem and text → name
    texts: list[str] = field(default_factory=list)

    def add(
        self, stem: str, params: Sequence[str], sections: dict[str, list[str]], note: str, *, numbered: bool = True
    ) -> str:
        """Write a module, unless an equal one is there; return its name."""
        lines: list[str] = []
        for title, content in sections.items():
            if content:
                lines += [title, *(f"  {line}" for line in content)]
        key = stem, "\n".join((", ".join(params), *lines))
        if key not in self.modules:
            name = self.names(f"{stem}_{sum(s == stem for s, _ in self.modules) + 1}" if numbered else stem)
            self.modules[key] = name
            head = "\n".join(f"-- {line}" for line in note.splitlines())
            self.texts.append("\n".join((head, f"MODULE {name}({', '.join(params)})", *lines)))
        return self.modules[key]

    # ------------------------------------------------------------ functions

    def function(self, fn: Function, who: str, ins: Sequence[SmvKind], outs: Sequence[SmvKind]) -> BuiltModule:
        """A function as a stateless module of m + n arguments."""
        run = SystemRun(self.domain, tables=self.tables)
        results = run.call(fn, [n.var(i, kind.type) for i, kind in enumerate(ins)], TRUE, who)
        if run.outside is not FALSE:
            raise UsageError(
                f"{who}: {fn.name} {fn.reason}, and what it answers could not be asked for every argument that can "
                "come: give a smaller domain, or a function that is traced"
            )
        given, made = [f"a_{i + 1}" for i in range(len(ins))], [f"r_{i + 1}" for i in range(len(outs))]
        write = SmvWriter(given, ins, who)
        texts = write.all(results)
        assigns = []
        for name, text, kind, e in zip(made, texts, outs, results, strict=True):
            if e.type == INT and not set(range(*_span(write, e))) <= set(kind.values):
                text = self._into(kind, write.define(text), write._range[id(e)][0])
            assigns.append(f"{name} := {plain(text)};")
        fails = run.failed is not n.const(False)
        failed = write(run.failed) if fails else ""
        defines = [f"{name} := {text};" for name, text in write.definitions]
        defines += [f"failed := {failed};"] if fails else []
        note = f"Function (section 3.3): {fn}; stateless, {len(ins)} + {len(outs)} arguments"
        if fn.traced is None:
            note = "\n".join([note, "a table of what it answered when it was called", *self.tables.doubts(fn)])
        sections = {"DEFINE": defines, "ASSIGN": assigns}
        return BuiltModule(self.add("Function", [*given, *made], sections, note), fails)

    def _into(self, kind: SmvKind, text: str, low: int) -> str:
        """An integer as a value of this kind: modulo N, or as it is; what cannot come must be some value as well."""
        m = self.domain.modulus
        if m is not None and len(kind.values) == m:
            return f"(({text} + {-(low // m) * m}) mod {m})"
        return f"({text} in {{{', '.join(map(str, kind.values))}}} ? {text} : {kind.default})"

    # ------------------------------------------------------------ processors

    def start(self, t: Type, value: Any) -> str:
        """The start value of a cell; modulo N, where that is asked for."""
        m = self.domain.modulus
        return literal(value % m if m is not None and t == INT else value)

    def fork(self, kinds: tuple[SmvKind, ...], count: int) -> str:
        """Fork: every event to each of its outputs."""
        i = pipe("i_{}", kinds)
        outs = [pipe(f"o{j + 1}_{{}}", kinds) for j in range(count)]
        lines = [f"{to} := {a};" for o in outs for a, to in zip(i.names, o.names, strict=True)]
        params = [*i.names, *(name for o in outs for name in o.names), "rst"]
        stem = f"Fork_{count}" if len(kinds) == 1 else f"Fork_{count}_of_{len(kinds)}"
        note = f"Fork 1:{count} (section 2): the same event on every output"
        return self.add(stem, params, {"ASSIGN": lines}, note, numbered=False)

    def processor(
        self,
        node: Node,
        ins: list[Pipe],
        out: tuple[SmvKind, ...],
        state: tuple[SmvKind, ...],
        bounds: list[int] | None,
    ) -> BuiltModule:
        """The module of a step that is no window; ``bounds`` of its queues, None where its inputs come together."""
        means = meaning_of(node, "NuSMV's model")
        inputs = [pipe("i_{}" if len(ins) == 1 else f"i{j + 1}_{{}}", p.kinds) for j, p in enumerate(ins)]
        o, there, fronts = pipe("o_{}", out), inputs[0].b, [p.c for p in inputs]
        sections: dict[str, list[str]] = {"VAR": [], "DEFINE": [], "ASSIGN": []}
        waits = node.queued and bounds is not None
        if waits:
            there, fronts = _queues(inputs, bounds or [], sections)
        step = _Step(self, node, [c for front in fronts for c in front], [k for p in inputs for k in p.kinds], state)
        step.write(means, there, " | ".join(p.l for p in inputs), o, sections)
        stem = _PAPER.get(node.kind, node.kind.capitalize()) + (f"_{node.k}" if node.k is not None else "")
        stem += f"_of_{len(out)}" if node.k is not None and len(out) > 1 else ""
        note = f"{stem.split('_')[0]} (sections 2 and 3.3): {node.processor.words}"
        if waits:
            note += f"\nqueues as arrays q_c, q_b of {', '.join(map(str, bounds or []))} cells"
        elif node.queued:
            note += "\nits inputs always come together, so its queues stay empty"
        params = [name for p in (*inputs, o) for name in p.names]
        name = self.add(stem, [*params, "rst"], sections, note, numbered=node.k is None)
        return BuiltModule(name, bool(step.fails), waits)


#: What section 3.3 calls a kind, where it has another name for it.
_PAPER = {"map": "ApplyFunction", "apply": "ApplyFunction", "filter_by": "Filter", "merge": "Passthrough"}


class _Step:
    """Writes a step as the table of processors defines it: its cells, the results of its function, what it emits."""

    def __init__(
        self, library: Library, node: Node, event: Sequence[str], kinds: Sequence[SmvKind], state: Sequence[SmvKind]
    ) -> None:
        self.library, self.node = library, node
        self.names: list[str] = []  # of all variables
        self.kinds: list[SmvKind] = []
        self.calls: list[tuple[list[Expr], list[Expr], Expr]] = []  # arguments, results, where the function is called
        self.fails: list[str] = []
        self.cells: list[tuple[Expr, str]] = []  # variable and start
        for at, cell in enumerate(cells_of(node, [kind.type for kind in kinds])):
            if cell.size == 1:  # it never changes
                self.cells.append((n.const(cell.start), ""))
            elif cell.role == "count":
                self.cells.append((self.variable("n", SmvKind(INT, tuple(range(cell.size or 0)))), str(cell.start)))
            elif cell.role == "event":  # kept leaf by leaf, behind the count of those that are kept
                kind = kinds[(at - 1) % len(kinds)]
                self.cells.append((self.variable(f"h_{at}", kind), kind.default))
            else:
                held = self.variable(f"s_{at + 1}", state[at])
                self.cells.append((held, library.start(cell.type, cell.start)))
        self.event = [self.variable(name, kind) for name, kind in zip(event, kinds, strict=True)]

    def variable(self, name: str, kind: SmvKind) -> Expr:
        self.names.append(name)
        self.kinds.append(kind)
        return n.var(len(self.names) - 1, kind.type)

    def call(self, leaves: Sequence[Expr], when: Expr = TRUE) -> list[Expr]:
        """The step's function; which variables hold its results is known when all of the step is."""
        fn = self.node.fn
        assert fn is not None and fn.result is not None
        types = [t for _, t in fn.result.leaves()]
        if fn.task:
            assert fn.traced is not None
            types += [INT, *(e.type for slot in fn.traced.slots for e in slot)]
        first = len(self.names)
        several = tuple(range(len(fn.traced.slots) + 1)) if fn.task and fn.traced is not None else (0,)
        results = [self.variable(f"r_{i - first + 1}", SmvKind(t, several)) for i, t in enumerate(types, first)]
        self.calls.append((list(leaves), results, when))
        return results

    def write(self, means: Meaning, there: str, last: str, o: Pipe, sections: dict[str, list[str]]) -> None:
        var, define, assign = sections["VAR"], sections["DEFINE"], sections["ASSIGN"]
        made = means(self.node, [cell for cell, _ in self.cells], self.event, self.call)
        when, leaves = made.emits[0] if made.emits else (FALSE, [])
        known = {id(e) for e in self.event} | {id(e) for e, _ in self.cells}
        for after, (cell, _) in zip(made.after, self.cells, strict=True):
            if after.op == "var" and id(after) not in known and cell.op == "var":
                self.kinds[after.value] = self.kinds[cell.value]
        placed = set()
        for leaf, name, kind in zip(leaves, o.c, o.kinds, strict=False):
            if leaf.op == "var" and id(leaf) not in known:  # a result that is emitted is the output's own variable
                self.names[leaf.value], self.kinds[leaf.value] = name, kind
                known.add(id(leaf))
                placed.add(name)
        write = SmvWriter(self.names, self.kinds, self.node.describe())
        for cell, _ in self.cells:
            if cell.op == "var":
                var.append(f"{self.names[cell.value]} : {self.kinds[cell.value]};")
        for args, results, called in self.calls:
            assert self.node.fn is not None
            own = [r.value for r in results]
            var += [f"{self.names[r]} : {self.kinds[r]};" for r in own if self.names[r] not in placed]
            inputs = [self.kinds[a.value] for a in args]
            f = self.library.function(self.node.fn, self.node.describe(), inputs, [self.kinds[r] for r in own])
            var.append(f"f : {f.name}({', '.join([*map(write, args), *(self.names[r] for r in own)])});")
            if f.fails:
                guard = f"{there} & " + (f"{_closed(write(called))} & " if called is not TRUE else "")
                self.fails.append(f"{guard}f.failed")
        for (cell, start), after in zip(self.cells, made.after, strict=True):
            if cell.op == "var":
                name, rows = self.names[cell.value], []
                while after.op == "ite":
                    rows.append(f"{there} & {_closed(write(after.args[0]))} : {write(after.args[1])};")
                    after = after.args[2]
                rows.append(f"{there} : {write(after)};")
                assign += [
                    f"init({name}) := {start};",
                    f"next({name}) := case rst : {start}; {' '.join(rows)} TRUE : {name}; esac;",
                ]
        texts = [write(leaf) for leaf in leaves] or [kind.default for kind in o.kinds]
        assign += [f"{to} := {text};" for to, text in zip(o.c, texts, strict=True) if to not in placed]
        passes = there if when is TRUE else "FALSE" if when is FALSE else f"{there} & {_closed(write(when))}"
        assign += [f"{o.b} := {passes};", f"{o.l} := {passes} & {_closed(last)};"]
        define += [f"{name} := {text};" for name, text in write.definitions]
        define += [f"failed := {' | '.join(self.fails)};"] if self.fails else []


def _closed(text: str) -> str:
    """The text as an operand.

    >>> _closed("n = 2"), _closed("(a) | (b)"), _closed("(a | b)"), _closed("!ready")
    ('(n = 2)', '((a) | (b))', '(a | b)', '!ready')
    """
    return text if text.lstrip("!").isidentifier() or plain(text) != text else f"({text})"


def _queues(inputs: list[Pipe], bounds: list[int], sections: dict[str, list[str]]) -> tuple[str, list[tuple[str, ...]]]:
    """The queues of a step that waits for its inputs: when an event of each is there, and the names of their leaves."""
    queues = [_Queue(j + 1, p, bound) for j, (p, bound) in enumerate(zip(inputs, bounds, strict=True))]
    sections["DEFINE"].append(f"ready := {' & '.join(q.some for q in queues)};")
    for q in queues:
        q.write(sections)
    sections["DEFINE"].append(f"overflow := {' | '.join(f'over_{q.j}' for q in queues)};")
    return "ready", [q.front for q in queues]


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


def _span(write: SmvWriter, e: n.Expr) -> tuple[int, int]:
    low, high = write._range[id(e)]
    return low, min(high, low + 10_000) + 1


# Pipes between processors, Group and Window (Model Checking of Stream Processing Pipelines, 2021, sections 3.2 and
# 3.3).
#
# A graph is wired by a triplet of variables for each pipe and an instance of a module for each processor.  A stream
# that several processors read goes through a Fork.  A Group, the sub-pipeline of a window, is wired in a module of its
# own.


@dataclass
class Wiring:
    """What a graph becomes: declarations of pipes and of processors, and what these define."""

    pipes: list[tuple[Pipe, str]] = field(default_factory=list)  # to be declared, with what each carries
    processors: list[tuple[str, str, str]] = field(default_factory=list)  # name, module with arguments, what it is
    streams: list[Pipe] = field(default_factory=list)  # the pipe of each node
    failed: list[str] = field(default_factory=list)
    overflow: list[str] = field(default_factory=list)
    lengths: dict[str, tuple[str, str]] = field(default_factory=dict)  # of each queue: before and after the push

    def variables(self) -> list[str]:
        """Declarations, pipes first."""
        out = []
        for p, what in self.pipes:
            out += [f"{name} : {kind};" for name, kind in zip(p.c, p.kinds, strict=True)]
            out[-len(p.c)] += f"  -- {what}"
            out += [f"{p.b} : boolean;", f"{p.l} : boolean;"]
        return out + [f"{name} : {module};  -- {what}" for name, module, what in self.processors]


def wire(
    library: Library,
    graph: Graph,
    kinds: Kinds,
    bound: Callable[[str], int],
    *,
    ends: tuple[Pipe, Pipe] | None = None,
    outer: bool = True,
) -> Wiring:
    """Wire a graph.  The ``ends`` of a Group are its parameters: its input and its output pipe."""
    w = Wiring()
    together = presence(graph)
    reads: dict[tuple[int, int], Pipe] = {}  # the pipe that a node's input reads

    def fresh(kinds_: tuple[SmvKind, ...], what: str) -> Pipe:
        p = pipe(f"p{{}}_{len(w.pipes) + 1}", kinds_)
        w.pipes.append((p, what))
        return p

    def place(module: str, pipes: list[Pipe], what: str) -> str:
        name = f"pi_{len(w.processors) + 1}"
        args = [variable for p in pipes for variable in p.names]
        w.processors.append((name, f"{module}({', '.join([*args, 'prst' if outer else 'rst'])})", what))
        return name

    for i, node in enumerate(graph.nodes):
        readers: list[tuple[int, int] | None] = [*graph.readers(i)]
        is_end = ends is not None and i == graph.outputs[0][1]
        if is_end:
            readers.append(None)
        if node.kind == "source" and ends is not None:
            p = ends[0]
        elif is_end and ends is not None and len(readers) == 1:
            p = ends[1]
        else:
            p = fresh(kinds.events[i], f"{'source' if node.kind == 'source' else 'step'} {node.id}")
        w.streams.append(p)
        if node.kind != "source":
            ins = [reads[i, at] for at in range(len(node.inputs))]
            built = _build(library, node, i, ins, kinds, bound, len({together[j] for j in node.inputs}) == 1)
            name = place(built.name, [*ins, p], f"{node.kind} {node.fn or ''}".strip())
            if built.fails:
                w.failed.append(f"{name}.failed")
            if built.queues:
                w.overflow.append(f"{name}.overflow")
            if node.queued:
                for at in range(len(node.inputs)):
                    ends_ = (f"{name}.len_{at + 1}", f"{name}.after_{at + 1}") if built.queues else ("0", "0")
                    w.lengths[f"{node.id}.{at}"] = ends_
        if len(readers) == 1 and (readers[0] is not None or node.kind != "source"):
            copies = [p]
        else:
            copies = [
                ends[1] if r is None and ends is not None else fresh(p.kinds, f"{node.id}, copied") for r in readers
            ]
            if copies:
                place(library.fork(p.kinds, len(copies)), [p, *copies], f"fork of {node.id}")
        for reader, copy in zip(readers, copies, strict=True):
            if reader is not None:
                reads[reader] = copy
    return w


def _build(
    library: Library, node: Node, i: int, ins: list[Pipe], kinds: Kinds, bound: Callable[[str], int], together: bool
) -> BuiltModule:
    if node.sub is not None:
        return _window(library, node, ins[0], kinds.subs[i])
    bounds = None if together else [bound(f"{node.id}.{at}") for at in range(len(ins))]
    return library.processor(node, ins, kinds.events[i], kinds.states.get(i, ()), bounds)


def _group(library: Library, graph: Graph, kinds: Kinds, k: int) -> BuiltModule:
    """Group: a pipeline as one processor.  It sees at most k events between resets, so k-1 may wait in a queue."""
    i, o = pipe("i_{}", kinds.events[graph.sources[0]]), pipe("o_{}", kinds.events[graph.outputs[0][1]])
    w = wire(library, graph, kinds, lambda _: k - 1, ends=(i, o), outer=False)
    sections = {"VAR": w.variables(), "DEFINE": [f"failed := {' | '.join(w.failed)};"] if w.failed else []}
    note = f"Group (section 3.3): the pipeline {graph.name} as a processor"
    return BuiltModule(library.add("Group", [*i.names, *o.names, "rst"], sections, note), bool(w.failed))


def _window(library: Library, node: Node, source: Pipe, kinds: Kinds) -> BuiltModule:
    """Window: k instances of the sub-pipeline, each reset when its k events are over."""
    assert node.sub is not None and node.k is not None
    sub, k = node.sub, node.k
    group = _group(library, sub, kinds, k)
    end = sub.outputs[0][1]
    out = kinds.events[end]
    i, o = pipe("i_{}", source.kinds), pipe("o_{}", out)
    when = presence(sub)
    # The last event of a run is its output for the k-th event, unless the sub-pipeline may be silent then.
    latched = when[end] != when[sub.sources[0]] and k > 1
    fails = group.fails
    var, define, assign = (
        [f"seen : 0..{max(k - 1, 1)};", f"c : 1..{max(k, 2)};"],
        [f"closes := {i.b} & seen = {k - 1};"],
        [],
    )
    grows = [f"{i.b} & seen < {k - 1} : seen + 1;"] if k > 1 else []
    assign += ["init(seen) := 0;", f"next(seen) := case {' '.join(['rst : 0;', *grows, 'TRUE : seen;'])} esac;"]
    turn = [f"closes & c < {k} : c + 1;"] if k > 1 else []
    assign += ["init(c) := 1;", f"next(c) := case {' '.join(['rst : 1;', *turn, 'closes : 1;', 'TRUE : c;'])} esac;"]
    here: list[list[str]] = [[] for _ in out]
    has, bad = [], []
    for at in range(1, k + 1):
        p = pipe(f"p{at}_{{}}", out)
        var += [f"{name} : {kind};" for name, kind in zip(p.c, out, strict=True)]
        var += [f"{p.b} : boolean;", f"{p.l} : boolean;"]
        define += [
            f"b_{at} := {i.b} & seen >= {at - 1};",  # P_at gets all but the first at-1 events
            f"due_{at} := closes & c = {at};",
            f"l_{at} := b_{at} & ({i.l} | due_{at});",  # the last event of its window
            f"rst_{at} := rst | due_{at};",
        ]
        args = [*i.c, f"b_{at}", f"l_{at}", *p.names, f"rst_{at}"]
        var.append(f"P_{at} : {group.name}({', '.join(args)});")
        values, there = list(p.c), p.b
        if latched:
            var.append(f"has_{at} : boolean;")
            assign += [
                f"init(has_{at}) := FALSE;",
                f"next(has_{at}) := case rst_{at} : FALSE; {p.b} : TRUE; TRUE : has_{at}; esac;",
            ]
            there = f"({p.b} | has_{at})"
            for j, (name, kind) in enumerate(zip(p.c, out, strict=True)):
                held = f"held_{at}" if len(out) == 1 else f"held_{at}_{j + 1}"
                var.append(f"{held} : {kind};")
                assign += [
                    f"init({held}) := {kind.default};",
                    f"next({held}) := case rst_{at} : {kind.default}; {p.b} : {name}; TRUE : {held}; esac;",
                ]
                values[j] = f"({p.b} ? {name} : {held})"
        if fails:
            bad.append(f"(c = {at} & {f'(P_{at}.failed | bad_{at})' if k > 1 else f'P_{at}.failed'})")
            if k > 1:
                var.append(f"bad_{at} : boolean;")
                assign += [
                    f"init(bad_{at}) := FALSE;",
                    f"next(bad_{at}) := case rst_{at} : FALSE; P_{at}.failed : TRUE; TRUE : bad_{at}; esac;",
                ]
        due = f"c = {at}" if at < k else "TRUE"
        has.append(f"{due} : {there};")
        for j, value in enumerate(values):
            here[j].append(f"{due} : {value};")
    define.append(f"has := case {' '.join(has)} esac;")
    if fails:
        define.append(f"failed := closes & ({' | '.join(bad)});")
    assign += [f"{name} := case {' '.join(rows)} esac;" for name, rows in zip(o.c, here, strict=True)]
    assign += [f"{o.b} := closes & has;", f"{o.l} := closes & has & {i.l};"]
    note = (
        f"Window of width {k} (section 3.3): {k} instances of {group.name}, "
        "each fed one event later than the one before;\n"
        "c tells which of them is due; after its k events its last output is taken and it is reset"
    )
    params = [*i.names, *o.names, "rst"]
    stem = f"Window_{k}"
    name = library.add(stem, params, {"VAR": var, "DEFINE": define, "ASSIGN": assign}, note)
    return BuiltModule(name, fails)


# A pipeline as a model for NuSMV and nuXmv, the way Model Checking of Stream Processing Pipelines (2021) does it
# (section 3).
#
# Each pipe is three variables ``c, b, l`` (event, presence, last); each processor an instance of a module with 3m + 3n
# + 1 parameters; everything that one push causes happens in one transition.  The meaning is that of
# `pellucid.check.system.build`, which the tests hold it to by running both.
#
# Choices where the paper is silent, the same as in the system:
#
# * a source may be silent in a step; our streams do not end, so the flag ``l`` of a source is false (a window tells its
#   instances which event is their last one);
# * an event that finds its queue full leads to the **overflow** state, a function that fails to the **failed** state.
#   From there on, and in the push that leads there, all streams are silent.  The pipes themselves cannot tell: they are
#   what the verdict is computed from.  So properties speak of the definitions ``NAME_b``, which are false then;
# * the global reset flag ``prst``, which the paper declares, is raised by such a push: one state for each reason is
#   enough.

PAPER = "Model Checking of Stream Processing Pipelines (2021)"
_MAIN = ["main", "stopped", "running", "overflowed", "broken", "stop", "halted", "live", "prst"]


def export(
    graph: Graph | Any, *, domain: Any, queue: int | Mapping[str, int] = 3, properties: Sequence[str | Formula] = ()
) -> str:
    """The model's text, with a ``CTLSPEC``, ``LTLSPEC`` or ``INVARSPEC`` for each property.

    ``domain`` is ``Mod(N)`` or a bounded one (``range(lo, hi)``, a set); ``queue`` the bound of every queue, or of each
    by its id.

    >>> from pellucid import Mod, pipeline
    >>> p = pipeline(lambda x: x.decimate(3) + x, x=int)
    >>> text = export(p, domain=Mod(4), queue=2, properties=["!EF full", "AG EF out"])
    >>> print(*[line for line in text.splitlines() if "pi_2" in line or "SPEC" in line], sep="\\n")
      pi_2 : Decimate_3(pc_2, pb_2, pl_2, pc_4, pb_4, pl_4, prst);  -- decimate
    INVARSPEC NAME p_1 := !full;
    CTLSPEC NAME p_2 := AG (EF out_b);
    """
    graph = graph if isinstance(graph, Graph) else graph.graph
    refuse_timed(graph, "NuSMV")
    where = domain_of(domain)
    formulas = [as_formula(f) for f in properties]
    bound = _bounds(graph, queue)
    refuse_what_smv_cannot(graph)
    kinds = kinds_of(graph, where)
    library = Library(where, Tables(tables_of(graph, where)))
    w = wire(library, graph, kinds, bound)
    main = _Main(graph, where, w, {id: bound(id) for id in w.lengths})
    specs = [main.spec(f, i + 1) for i, f in enumerate(formulas)]
    return "\n".join(
        [*_header(graph, where, main), "", *main.text(formulas), *specs, "", "\n\n".join(library.texts), ""]
    )


def _bounds(graph: Graph, queue: int | Mapping[str, int]) -> Any:
    known = {id for id, _, _ in graph.queues()}
    given = {"queue": queue} if isinstance(queue, int) else queue
    for id, size in given.items():
        if id not in known and not isinstance(queue, int):
            raise UsageError(f"{graph.name} has no queue {id!r}: it has {', '.join(sorted(known)) or 'none'}")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise UsageError(f"a queue's bound is a whole number of at least 0, found {size!r}")
    return lambda id: queue if isinstance(queue, int) else queue.get(id, 3)


def _header(graph: Graph, domain: Domain, main: _Main) -> list[str]:
    """What the names stand for."""
    out = [f"-- {graph.name}: {domain}; written by pellucid as in {PAPER}, section 3", "--", "-- streams:"]
    for name, stream in main.named.items():
        pipe = main.wiring.streams[main.position[name]]
        node = graph.nodes[main.position[name]]
        out.append(
            f"--   {stream} is {name!r} (pipe {pipe.b.split('_')[1]}: {node.kind}{f' {node.fn}' if node.fn else ''})"
        )
    out += ["-- queues:"] * bool(main.lengths)
    out += [
        f"--   {length} is the length of {id!r} after the push (bound {main.bounds[id]})"
        for id, length in main.lengths.items()
    ]
    return ["".join(c if c.isprintable() else " " for c in line) for line in out]


class _Main:
    """The main module: the pipes and processors, what stops them, and the streams by name."""

    def __init__(self, graph: Graph, domain: Domain, wiring: Wiring, bounds: dict[str, int]) -> None:
        self.graph, self.domain, self.wiring, self.bounds = graph, domain, wiring, bounds
        names = SmvNames(_MAIN)
        for word in ("failed", "overflow", "full"):
            names(word)
        outputs = {name: graph.nodes[i].id for name, i in graph.outputs}
        hidden = {f"{HIDDEN}{id}": i for id, i in graph.position.items() if outputs.get(id, id) != id}
        self.position = graph.position | hidden | dict(graph.outputs)
        self.named = {name: names(f"{name}_b") for name in self.position}
        self.values = {
            name: [names(f"{name}_c" + (f"_{path}" if path else "")) for path, _ in graph.nodes[i].type.leaves()]
            for name, i in self.position.items()
        }
        self.lengths = {id: names(f"len_{id}") for id in wiring.lengths}
        self.kept = {id: names(f"kept_{id}") for id in wiring.lengths}
        self.write, self.system = self._observed()

    def _observed(self) -> tuple[SmvWriter, System]:
        """The observations as variables of a system of their own, so that formulas are read as everywhere."""
        texts: list[str] = []
        kinds: list[SmvKind] = []

        def var(text: str, kind: SmvKind) -> Expr:
            texts.append(text)
            kinds.append(kind)
            return n.var(len(texts) - 1, kind.type)

        streams: dict[str, tuple[Type, tuple[Slot, ...]]] = {}
        for name, i in self.position.items():
            own = self.wiring.streams[i].kinds
            leaves = [var(text, kind) for text, kind in zip(self.values[name], own, strict=True)]
            streams[name] = self.graph.nodes[i].type, (Slot(var(self.named[name], SmvKind(BOOL)), tuple(leaves)),)
        lengths = {id: var(text, SmvKind(INT, tuple(range(self.bounds[id] + 2)))) for id, text in self.lengths.items()}
        sources = tuple((self.graph.nodes[i].id, self.graph.nodes[i].type) for i in self.graph.sources)
        overflow, failed = var("overflow", SmvKind(BOOL)), var("failed", SmvKind(BOOL))
        system = System(
            self.graph.name, self.domain, (), (), (), streams, lengths, self.bounds, overflow, failed, sources,
            outputs={name: self.graph.nodes[i].id for name, i in self.graph.outputs},
        )  # fmt: skip
        return SmvWriter(texts, kinds, "a property", "q"), system

    def spec(self, f: Formula, number: int) -> str:
        """A property in NuSMV's words; invariants as such, which NuSMV decides much faster than AG."""
        resolved = resolve(f, self.system)
        body = is_invariant(resolved)
        if body is not None:
            return f"-- {f}\nINVARSPEC NAME p_{number} := {self.formula(body)};"
        word = kind_of_formula(resolved)
        if word == "state":
            raise UsageError(f"{f} speaks of one step only: write AG ({f}) or G ({f}) for every step")
        return f"-- {f}\n{word.upper()}SPEC NAME p_{number} := {self.formula(resolved)};"

    def formula(self, f: Formula) -> str:
        """A resolved formula as text."""
        if f.op in ("true", "false"):
            return f.op.upper()
        if f.op == "atom":
            assert isinstance(f.body, Expr)
            return "full" if f.text in ("full", 'flag("full")') else self.write(f.body)
        args = [_closed(self.formula(a)) for a in f.args]
        if f.op in ("AU", "EU"):
            return f"{f.op[0]} [{args[0]} U {args[1]}]"
        if len(args) == 1:
            return f"!{args[0]}" if f.op == "!" else f"{f.op} {args[0]}"
        if f.op == "W":  # NuSMV has no weak until
            return f"({args[0]} U {args[1]}) | G {args[0]}"
        return f"{args[0]} {'V' if f.op == 'R' else f.op} {args[1]}"

    def text(self, formulas: Iterable[Formula]) -> list[str]:
        """The main module without its properties."""
        w = self.wiring
        # Once it has stopped, the system shows queues as they were before the push that stopped it.  All queues are
        # reset then, so where a property could tell the difference their lengths are kept.
        asked = any(isinstance(term, Length) for f in formulas for term in terms(f))
        kept = list(w.lengths) if asked or w.failed else []
        var = [*w.variables(), "stopped : {running, overflowed, broken};"]
        var += [f"{self.kept[id]} : 0..{max(self.bounds[id], 1)};" for id in kept]
        define = [
            f"stop := case {f'{_any(w.failed)} : broken; ' if w.failed else ''}"
            f"{f'{_any(w.overflow)} : overflowed; ' if w.overflow else ''}TRUE : stopped; esac;",
            "halted := stop != running;",
            "live := !halted;",
            "prst := halted;",
            "overflow := stop = overflowed;",
            "failed := stop = broken;",
        ]
        for name, i in self.position.items():
            define.append(f"{self.named[name]} := live & {w.streams[i].b};")
            define += [f"{to} := {c};" for to, c in zip(self.values[name], w.streams[i].c, strict=True)]
        for id, (_, after) in w.lengths.items():
            shown = f"(stopped = running ? {after} : {self.kept[id]})" if id in kept else after
            define.append(f"{self.lengths[id]} := {shown};")
        is_full = [f"{self.lengths[id]} = {self.bounds[id]}" for id in w.lengths]
        define.append(f"full := {' | '.join(['overflow', *is_full])};")
        define += [f"{name} := {text};" for name, text in self.write.definitions]
        assign = ["init(stopped) := running;", "next(stopped) := stop;"]
        for id in kept:
            before = w.lengths[id][0]
            assign.append(f"init({self.kept[id]}) := 0;")
            assign.append(f"next({self.kept[id]}) := (stopped = running & halted) ? {before} : {self.kept[id]};")
        invar = []
        for i in self.graph.sources:
            p = w.streams[i]
            assign.append(f"{p.l} := FALSE;")
            idle = " & ".join(f"{c} = {kind_.default}" for c, kind_ in zip(p.c, p.kinds, strict=True))
            invar += [f"INVAR {p.b} -> stopped = running;", f"INVAR !{p.b} -> ({idle});"]
            invar += [f"INVAR {c} = {kind_.default};" for c, kind_ in zip(p.c, p.kinds, strict=True) if kind_.single]
        out = ["MODULE main", "VAR", *(f"  {line}" for line in var), "DEFINE", *(f"  {line}" for line in define)]
        return [*out, "ASSIGN", *(f"  {line}" for line in assign), *invar, ""]


def _any(parts: list[str]) -> str:
    return " | ".join(parts)
