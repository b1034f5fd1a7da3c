"""Sequence equivalence, whatever the delay between two pipelines.

Two ways.  **Shared input, bounded delay**: both get the same events, and an equality step compares their i-th outputs
(seed 001, Figure 4b); this refutes, and proves where the queues before it never overflow.  **Output by output**: each
pipeline is advanced, on events of its own, until it has its next output; the two are compared and both go on.  If they
agree for all events, they agree for equal ones, whatever the delay: this proves where one runs ahead for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pellucid.check.compare import beside
from pellucid.check.decide import Answer, Options, decide_invariant
from pellucid.check.domains import Domain
from pellucid.check.system import System, Variable, build_system
from pellucid.expr import node as n
from pellucid.expr.node import Expr
from pellucid.expr.rewrite import substitute
from pellucid.expr.types import BOOL

__all__ = ["decide_sequence", "output_by_output"]


def decide_sequence(a: Any, b: Any, domain: Domain, queue: int | Mapping[str, int], options: Options) -> Answer:
    """Whether the i-th outputs of two pipelines are always equal."""
    graph = beside(a, b, joined=True)
    bounds = {id: (queue if isinstance(queue, int) else queue.get(id, 3)) for id, _, _ in graph.queues()}
    for delay in (1, 2, 4, 8):
        bounds |= {"same.0": delay, "same.1": delay}
        system = build_system(graph, domain, bounds)
        equal = n.or_(n.not_(system.present("same")), system.value("same")[0])
        if delay == 1:
            proof = _proof_by_outputs(a, b, domain, queue, options)
            if proof is not None:
                return proof
        answer = decide_invariant(system, equal, options)
        if answer.status == "refuted":
            return answer
        fits = decide_invariant(system, n.not_(system.overflow), options)
        if answer.status == "proved" and fits.status == "proved":
            note = f"neither runs ahead of the other by more than {delay} output(s)"
            return dataclasses.replace(answer, notes=(note,))
    return Answer(
        "unknown",
        answer.engine,
        notes=(f"equal as long as neither runs ahead by more than {delay} outputs; no proof beyond that was found",),
        details=answer.details,
    )


def _proof_by_outputs(a: Any, b: Any, domain: Domain, queue: Any, options: Options) -> Answer | None:
    left, right = (build_system(p.graph, domain, queue) for p in (a, b))
    if any(len(s.streams[s_out][1]) != 1 for s, s_out in ((left, _out(a)), (right, _out(b)))):
        return None
    system, good = output_by_output(left, _out(a), right, _out(b))
    answer = decide_invariant(system, good, dataclasses.replace(options, timeout=min(options.timeout or 20.0, 20.0)))
    if answer.status != "proved":
        return None
    for s in (left, right):  # a queue of one of them that overflows would end its outputs: then nothing is proved
        if decide_invariant(s, n.not_(s.overflow), options).status != "proved":
            return None
    return dataclasses.replace(answer, notes=("compared output by output: one may run ahead of the other for ever",))


def _out(p: Any) -> str:
    name: str = p.graph.outputs[0][0]
    return name


def output_by_output(left: System, out_a: str, right: System, out_b: str) -> tuple[System, Expr]:
    """A system that advances two others, each on its own events, to their next outputs; and *they are equal*."""
    sides = [(left, out_a, "1:"), (right, out_b, "2:")]
    kinds = [t for _, t in left.streams[out_a][0].leaves()]
    state: list[Variable] = []
    inputs: list[Variable] = []
    for s, _, mark in sides:
        state += [dataclasses.replace(v, name=mark + v.name) for v in s.state]
        state.append(Variable(f"{mark}has", BOOL, False))
        for j, t in enumerate(kinds):
            size = s.domain.modulus if str(t) == "int" else None
            state.append(Variable(f"{mark}held{j}", t, _zero(t), size))
        inputs += [dataclasses.replace(v, name=mark + v.name) for v in s.inputs]
    following: list[Expr] = [n.const(False)] * len(state)
    at, into = 0, len(state)
    held: list[tuple[Expr, list[Expr]]] = []
    news: list[tuple[int, Expr, list[Expr]]] = []
    for s, out, _ in sides:
        variables = [n.var(at + i, v.type) for i, v in enumerate(s.state)]
        variables += [n.var(into + i, v.type) for i, v in enumerate(s.inputs)]
        slot = s.streams[out][1][0]
        moved = substitute([*s.next, slot.present, *slot.leaves], variables)
        own, present, leaves = moved[: len(s.state)], moved[len(s.state)], moved[len(s.state) + 1 :]
        flag = at + len(s.state)
        has = n.var(flag, BOOL)
        for i, e in enumerate(own):  # one that has its output waits for the other
            following[at + i] = n.ite(has, n.var(at + i, s.state[i].type), e)
        now = n.or_(has, present)
        values = [n.ite(has, n.var(flag + 1 + j, t), leaves[j]) for j, t in enumerate(kinds)]
        held.append((now, values))
        news.append((flag, now, values))
        at, into = flag + 1 + len(kinds), into + len(s.inputs)
    both = n.and_(held[0][0], held[1][0])
    for flag, now, values in news:
        following[flag] = n.and_(now, n.not_(both))
        for j, value in enumerate(values):
            kept = n.and_(now, n.not_(both))
            following[flag + 1 + j] = n.ite(kept, value, n.const(_zero(kinds[j])))
    equal: Expr = n.const(True)
    for x, y in zip(held[0][1], held[1][1], strict=True):
        equal = n.and_(equal, n.eq(x, y))
    sources = tuple((mark + name, t) for s, _, mark in sides for name, t in s.sources)
    system = dataclasses.replace(
        left, name=f"{left.name} beside {right.name}", state=tuple(state), inputs=tuple(inputs), next=tuple(following),
        streams={}, lengths={}, bounds={}, overflow=n.const(False), failed=n.const(False), sources=sources,
    )  # fmt: skip
    return system, n.or_(n.not_(both), equal)


def _zero(t: Any) -> Any:
    return getattr(t, "members", [None])[0] or {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]
