"""Pipes between processors, Group and Window (Model Checking of Stream Processing Pipelines, 2021, sections 3.2 and
3.3).

A graph is wired by a triplet of variables for each pipe and an instance of a module for each processor.  A stream that
several processors read goes through a Fork.  A Group, the sub-pipeline of a window, is wired in a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pellucid.internal.export.smv.expr import SmvKind
from pellucid.internal.export.smv.kinds import Kinds
from pellucid.internal.export.smv.modules import BuiltModule, Library, Pipe, pipe
from pellucid.internal.graph.memory import presence
from pellucid.internal.graph.model import Graph, Node


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
