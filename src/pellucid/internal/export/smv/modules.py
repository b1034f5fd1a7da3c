"""One NuSMV module for each processor (Model Checking of Stream Processing Pipelines, 2021, sections 3.2 and 3.3).

A module of an m:n processor has 3m + 3n + 1 parameters: for each input and output pipe its event ``c``, its presence
``b`` and its flag ``l`` (the event is the last), and a reset flag.  (An event that is a record has one ``c`` for each
leaf.)  A module writes its output pipes; it also *defines*, where it can be so, ``failed`` (a function fails on what it
gets) and ``overflow`` (a queue would have to grow beyond its bound), for the main module to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pellucid.check.functions.tabulate import Tables
from pellucid.check.system.domains import Domain
from pellucid.check.system.run import SystemRun
from pellucid.check.system.variable import FALSE, TRUE
from pellucid.errors import UsageError, known
from pellucid.internal.export.smv.expr import SmvKind, SmvNames, SmvWriter, literal, plain
from pellucid.internal.expr import node as n
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import BOOL, INT, Type
from pellucid.internal.graph.model import Node


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
        if node.processor.inputs == "together":
            from pellucid.internal.export.smv.queues import waiting

            return waiting(self, node, ins, out, bounds)
        return known(self.STEPS, node.kind, "NuSMV's model")(self, node, ins[0].kinds, out, state)

    def _map(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        i, o = pipe("i_{}", kinds), pipe("o_{}", out)
        assigns = [f"{o.b} := {i.b};", f"{o.l} := {i.b} & {i.l};"]
        if node.fn is None:  # a merge of one stream
            assigns += [f"{to} := {a};" for a, to in zip(i.c, o.c, strict=True)]
            note = "Passthrough: every event as it is"
            return BuiltModule(self.add("Passthrough", [*i.names, *o.names, "rst"], {"ASSIGN": assigns}, note))
        f = self.function(node.fn, node.describe(), i.kinds, out)
        sections = {
            "VAR": [f"f : {f.name}({', '.join([*i.c, *o.c])});"],
            "DEFINE": [f"failed := {i.b} & f.failed;"] if f.fails else [],
            "ASSIGN": assigns,
        }
        note = "ApplyFunction 1:1 (section 3.3): a function of each event; one input, so no queue"
        return BuiltModule(self.add("ApplyFunction", [*i.names, *o.names, "rst"], sections, note), f.fails)

    def _filter(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        assert node.fn is not None
        i, o = pipe("i_{}", kinds), pipe("o_{}", out)
        f = self.function(node.fn, node.describe(), kinds, [SmvKind(BOOL)])
        sections = {
            "VAR": ["keep : boolean;", f"f : {f.name}({', '.join([*i.c, 'keep'])});"],
            "DEFINE": [f"failed := {i.b} & f.failed;"] if f.fails else [],
            "ASSIGN": [
                *(f"{to} := {a};" for a, to in zip(i.c, o.c, strict=True)),
                f"{o.b} := {i.b} & keep;",
                f"{o.l} := {i.b} & keep & {i.l};",
            ],
        }
        note = "Filter (section 2) by a predicate of the event itself"
        return BuiltModule(self.add("Filter", [*i.names, *o.names, "rst"], sections, note), f.fails)

    def _counted(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        """CountDecimate and Trim: straightforward, says section 3.3."""
        assert node.k is not None
        i, o, k = pipe("i_{}", kinds), pipe("o_{}", out), node.k
        every = node.kind == "decimate"
        last, passes = (k - 1, "n = 0") if every else (k, f"n = {k}")
        step = f"{i.b} & n < {last} : n + 1;" if last else ""
        cases = [line for line in ("rst : 0;", step, f"{i.b} : 0;" if every else "", "TRUE : n;") if line]
        sections = {
            "VAR": [f"n : 0..{max(last, 1)};"],
            "ASSIGN": [
                "init(n) := 0;",
                f"next(n) := case {' '.join(cases)} esac;",
                *(f"{to} := {a};" for a, to in zip(i.c, o.c, strict=True)),
                f"{o.b} := {i.b} & {passes};",
                f"{o.l} := {i.b} & {passes} & {i.l};",
            ],
        }
        stem, note = (
            (f"Decimate_{k}", f"CountDecimate (section 2): one event in {k}")
            if every
            else (f"Trim_{k}", f"Trim (section 2): all but the first {k} events")
        )
        stem += "" if len(kinds) == 1 else f"_of_{len(kinds)}"
        return BuiltModule(self.add(stem, [*i.names, *o.names, "rst"], sections, note, numbered=False))

    def _lag(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        """Not in the paper: the last k events, which move up with each that comes."""
        assert node.k is not None
        i, o, k = pipe("i_{}", kinds), pipe("o_{}", out), node.k
        held = [pipe(f"h{j + 1}_{{}}", kinds).c for j in range(k)]
        sections = {
            "VAR": [f"n : 0..{k};", *(f"{name} : {t};" for c in held for name, t in zip(c, kinds, strict=True))],
            "ASSIGN": ["init(n) := 0;", f"next(n) := case rst : 0; {i.b} & n < {k} : n + 1; TRUE : n; esac;"],
        }
        for here, later in zip(held, [*held[1:], i.c], strict=True):
            for name, after, kind in zip(here, later, kinds, strict=True):
                sections["ASSIGN"] += [
                    f"init({name}) := {kind.default};",
                    f"next({name}) := case rst : {kind.default}; {i.b} : {after}; TRUE : {name}; esac;",
                ]
        sections["ASSIGN"] += [
            *(f"{to} := {a};" for a, to in zip([*i.c, *held[0]], o.c, strict=True)),
            f"{o.b} := {i.b} & n = {k};",
            f"{o.l} := {i.b} & n = {k} & {i.l};",
        ]
        note = f"Lag: each event beside the one {k} before it"
        return BuiltModule(self.add("Lag", [*i.names, *o.names, "rst"], sections, note))

    def _cumulate(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        assert node.fn is not None and node.state is not None
        i, o = pipe("i_{}", kinds), pipe("o_{}", out)
        f = self.function(node.fn, node.describe(), [*state, *kinds], out)
        last = ["last"] if len(state) == 1 else [f"last_{j + 1}" for j in range(len(state))]
        starts = self.starts(node.state, node.start)
        sections = {
            "VAR": [
                *(f"{name} : {kind};" for name, kind in zip(last, state, strict=True)),
                f"f : {f.name}({', '.join([*last, *i.c, *o.c])});",
            ],
            "DEFINE": [f"failed := {i.b} & f.failed;"] if f.fails else [],
            "ASSIGN": [f"{o.b} := {i.b};", f"{o.l} := {i.b} & {i.l};"],
        }
        for name, start, new in zip(last, starts, o.c, strict=True):
            sections["ASSIGN"] += [
                f"init({name}) := {start};",
                f"next({name}) := case rst : {start}; {i.b} : {new}; TRUE : {name}; esac;",
            ]
        note = "Cumulate (section 3.3): the variable last holds what the function gave on the last push of an event"
        return BuiltModule(self.add("Cumulate", [*i.names, *o.names, "rst"], sections, note), f.fails)

    def _task(
        self, node: Node, kinds: tuple[SmvKind, ...], out: tuple[SmvKind, ...], state: tuple[SmvKind, ...]
    ) -> BuiltModule:
        assert node.fn is not None and node.fn.traced is not None and node.state is not None
        i, o = pipe("i_{}", kinds), pipe("o_{}", out)
        puts = len(node.fn.traced.slots)
        f = self.function(
            node.fn, node.describe(), [*state, *kinds], [*state, SmvKind(INT, (0, 1)), *(out if puts else ())]
        )
        held, new = [f"s_{j + 1}" for j in range(len(state))], [f"new_{j + 1}" for j in range(len(state))]
        args = [*held, *i.c, *new, "many", *(o.c if puts else ())]
        sections = {
            "VAR": [
                *(f"{name} : {kind};" for name, kind in zip([*held, *new], [*state, *state], strict=True)),
                "many : 0..1;",
                f"f : {f.name}({', '.join(args)});",
            ],
            "DEFINE": [f"failed := {i.b} & f.failed;"] if f.fails else [],
            "ASSIGN": [f"{o.b} := {i.b} & many = 1;", f"{o.l} := {i.b} & many = 1 & {i.l};"],
        }
        if not puts:
            sections["ASSIGN"] += [f"{name} := {kind.default};" for name, kind in zip(o.c, out, strict=True)]
        for name, fresh, start in zip(held, new, self.starts(node.state, node.start), strict=True):
            sections["ASSIGN"] += [
                f"init({name}) := {start};",
                f"next({name}) := case rst : {start}; {i.b} : {fresh}; TRUE : {name}; esac;",
            ]
        note = "Task: state and event to state and at most one event"
        return BuiltModule(self.add("Task", [*i.names, *o.names, "rst"], sections, note), f.fails)

    STEPS: ClassVar[dict[str, Callable[..., BuiltModule]]] = {
        "map": _map, "filter": _filter, "cumulate": _cumulate, "decimate": _counted, "trim": _counted, "lag": _lag,
        "task": _task, "merge": _map,
    }  # fmt: skip

    def starts(self, t: Type, start: object) -> list[str]:
        """The start values of a state's leaves; modulo N, where that is asked for."""
        m = self.domain.modulus
        leaves = zip(t.flatten(start), t.leaves(), strict=True)
        return [literal(leaf % m if m is not None and kind == INT else leaf) for leaf, (_, kind) in leaves]


def _span(write: SmvWriter, e: n.Expr) -> tuple[int, int]:
    low, high = write._range[id(e)]
    return low, min(high, low + 10_000) + 1
