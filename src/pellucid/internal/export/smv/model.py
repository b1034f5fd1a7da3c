"""A pipeline as a model for NuSMV and nuXmv, the way Model Checking of Stream Processing Pipelines (2021) does it
(section 3).

Each pipe is three variables ``c, b, l`` (event, presence, last); each processor an instance of a module with
3m + 3n + 1 parameters; everything that one push causes happens in one transition.  The meaning is that of
`pellucid.check.system.build`, which the tests hold it to by running both.

Choices where the paper is silent, the same as in the system:

* a source may be silent in a step; our streams do not end, so the flag ``l`` of a source is false (a window tells its
  instances which event is their last one);
* an event that finds its queue full leads to the **overflow** state, a function that fails to the **failed** state.
  From there on, and in the push that leads there, all streams are silent.  The pipes themselves cannot tell: they are
  what the verdict is computed from.  So properties speak of the definitions ``NAME_b``, which are false then;
* the global reset flag ``prst``, which the paper declares, is raised by such a push: one state for each reason is
  enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pellucid.check.formula import Formula, as_formula, is_invariant, kind, terms
from pellucid.check.formula.resolve import resolve
from pellucid.check.formula.terms import Length
from pellucid.check.functions.arguments import tables_of
from pellucid.check.functions.tabulate import Tables
from pellucid.check.system.build import HIDDEN, System
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.variable import Slot
from pellucid.errors import UsageError
from pellucid.internal.export.smv.expr import SmvKind, SmvNames, SmvWriter, plain
from pellucid.internal.export.smv.kinds import kinds_of, refuse_what_smv_cannot
from pellucid.internal.export.smv.modules import Library
from pellucid.internal.export.smv.wiring import Wiring, wire
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL, INT, Type
from pellucid.internal.graph.memory import refuse_timed
from pellucid.internal.graph.model import Graph

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
        word = kind(resolved)
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


def _closed(text: str) -> str:
    return text if text.lstrip("!").isidentifier() or plain(text) != text else f"({text})"


def _any(parts: list[str]) -> str:
    return " | ".join(parts)
