"""Two pipelines compared output by output, whatever the delay between them.

Each pipeline is advanced, on events of its own, until it has its next output; the two are compared and both go on.  If
they agree for all events, they agree for equal ones, whatever the delay: so this proves where one runs ahead for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.belief.certify import distrust
from pellucid.check.belief.trial import budget, try_out
from pellucid.check.compare.products import beside
from pellucid.check.decide import Options, decide_invariant
from pellucid.check.system.build import System, build_system
from pellucid.check.system.cone import cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.variable import Slot, Variable
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.rewrite import substitute


def proof_by_outputs(a: Any, b: Any, domain: Domain, options: Options) -> Answer | None:
    """A proof that the i-th outputs of two pipelines are equal wherever both have one; None if there is none of this
    kind."""
    quick = dataclasses.replace(options, timeout=options.left or 120.0)
    left, right = _never_stops(a, domain, quick), _never_stops(b, dataclasses.replace(domain, assume=()), quick)
    if left is None or right is None:
        return None
    if any(len(s.streams[_out(p)][1]) != 1 for s, p in ((left, a), (right, b))):
        return None
    for side in (left, right):  # each does what its own interpreter does; for the two together there is none
        problem = try_out(side, seconds=budget(0.0), most=200).problem
        if problem:
            return Answer("unknown", "smt", notes=(distrust(problem),))
    system, good = output_by_output(left, _out(a), right, _out(b))
    answer = decide_invariant(system, good, quick)
    if answer.status != "proved":
        return None
    return dataclasses.replace(answer, notes=("compared output by output: one may run ahead of the other for ever",))


def _never_stops(p: Any, domain: Domain, options: Options) -> System | None:
    """The pipeline's system with the least queues that suffice, where it is proved that none overflows and nothing
    fails.

    So it never stops, and the variable that says so can be taken for a constant.
    """
    for size in (1, 2, 4):
        system = build_system(p.graph, domain, size)
        stopped = n.or_(system.overflow, system.failed)
        if decide_invariant(system, n.not_(stopped), options).status == "proved":
            first = n.var(0, system.state[0].type)
            return dataclasses.replace(system, next=(first, *system.next[1:]))
    return None


def _out(p: Any) -> str:
    name: str = p.graph.outputs[0][0]
    return name


@n.values_only()
def output_by_output(left: System, out_a: str, right: System, out_b: str) -> tuple[System, Expr]:
    """A system that advances two others, each on events of its own; and *what they put out together is equal*.

    A push in which only one of them would put out something is taken by the other alone: so their i-th outputs always
    come together.  Every pair of runs has such a schedule, so if the outputs agree here they agree always.  A push
    without any event is left out where it changes nothing.
    """
    # Each has events of its own: what is assumed of both together is left out, so more is proved than was asked.
    left, right = (_folded(dataclasses.replace(s, assume=n.TRUE), out) for s, out in ((left, out_a), (right, out_b)))
    state: list[Variable] = []
    inputs: list[Variable] = []
    for s, mark in ((left, "1:"), (right, "2:")):
        state += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in s.state]
        inputs += [dataclasses.replace(v, name=mark + v.name, of=mark + v.of) for v in s.inputs]
    at, into = 0, len(state)
    sides: list[tuple[list[Expr], list[Expr], Expr, list[Expr]]] = []
    for s, out in ((left, out_a), (right, out_b)):
        own: list[Expr] = [n.var(at + i, v.type) for i, v in enumerate(s.state)]
        given: list[Expr] = [n.var(into + i, v.type) for i, v in enumerate(s.inputs)]
        if len(s.sources) == 1 and _stutters(s, out):
            given[0] = n.const(True)
        slot = s.streams[out][1][0]
        moved = substitute([*s.next, slot.present, *slot.leaves], [*own, *given])
        many = len(s.state)
        sides.append((own, moved[:many], moved[many], moved[many + 1 :]))
        at, into = at + many, into + len(s.inputs)
    (own_a, next_a, now_a, values_a), (own_b, next_b, now_b, values_b) = sides
    wait_a, wait_b = n.and_(now_a, n.not_(now_b)), n.and_(now_b, n.not_(now_a))
    following = [n.ite(wait_a, old, new) for old, new in zip(own_a, next_a, strict=True)]
    following += [n.ite(wait_b, old, new) for old, new in zip(own_b, next_b, strict=True)]
    equal: Expr = n.const(True)
    for x, y in zip(values_a, values_b, strict=True):
        equal = n.and_(equal, n.eq(x, y))
    sources = tuple((mark + name, t) for s, mark in ((left, "1:"), (right, "2:")) for name, t in s.sources)
    system = dataclasses.replace(
        left, name=f"{left.name} beside {right.name}", state=tuple(state), inputs=tuple(inputs), next=tuple(following),
        streams={}, lengths={}, bounds={}, overflow=n.const(False), failed=n.const(False), sources=sources, graph=None,
    )  # fmt: skip
    return system, n.or_(n.not_(n.and_(now_a, now_b)), equal)


def _folded(system: System, out: str) -> System:
    """What the output depends on, constants put in place."""
    slot = system.streams[out][1][0]
    small, (present, *leaves) = cone(system, [slot.present, *slot.leaves], all_inputs=True)
    return dataclasses.replace(small, streams={out: (system.streams[out][0], (Slot(present, tuple(leaves)),))})


def _stutters(system: System, out: str) -> bool:
    """Whether a push in which the only source is silent changes nothing and puts out nothing."""
    leaves: list[Expr] = [n.var(i, v.type) for i, v in enumerate((*system.state, *system.inputs))]
    leaves[len(system.state)] = n.const(False)
    present, *after = substitute([system.streams[out][1][0].present, *system.next], leaves)
    return present is n.const(False) and all(e is leaf for e, leaf in zip(after, leaves, strict=False))


# ---------------------------------------------------------------- as the paper has it
# Wherever both pipelines have an i-th output, the two are equal: both get the same events, and an equality step
# compares their i-th outputs (Model Checking of Stream Processing Pipelines, 2021, Figure 4b). A pipeline that never
# speaks satisfies this beside any other; what users mean is in `pellucid.check.compare.sequence`.


def decide_paper(a: Any, b: Any, domain: Domain, queue: int | Mapping[str, int] | None, options: Options) -> Answer:
    """Whether the i-th outputs of two pipelines are always equal; with a bound for queues, within it, as in the
    paper."""
    graph = beside(a, b, joined=True)
    if queue is not None:
        system = build_system(graph, domain, queue)
        return within_bounds(system, decide_invariant(system, all_equal(system), options), options)
    bounds = {id: 3 for id, _, _ in graph.queues()}
    for delay in (1, 2, 4, 8):
        bounds |= {"same.0": delay, "same.1": delay}
        system = build_system(graph, domain, bounds)
        if delay == 1:
            proof = proof_by_outputs(a, b, domain, options)
            if proof is not None:
                return proof
        answer = decide_invariant(system, all_equal(system), options)
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


@n.values_only()
def all_equal(system: System) -> Expr:
    """Every event of the equality step is true, also where it compares several in one push."""
    out = n.TRUE
    for slot in system.streams["same"][1]:
        out = n.and_(out, n.or_(n.not_(slot.present), slot.leaves[0]))
    return out


def within_bounds(system: System, answer: Answer, options: Options) -> Answer:
    """The answer with a note where some input needs longer queues: it then holds within the bounds only."""
    if answer.status == "proved" and decide_invariant(system, n.not_(system.overflow), options).status != "proved":
        sizes = sorted(set(system.bounds.values()))
        note = f"within queues of {' and '.join(map(str, sizes))} event(s): some inputs need more, and stop there"
        return dataclasses.replace(answer, notes=(*answer.notes, note))
    return answer
