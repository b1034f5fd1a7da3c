"""Sequence equivalence as Model Checking of Stream Processing Pipelines (2021) has it: wherever both pipelines have an
i-th output, the two are equal.

Both get the same events, and an equality step compares their i-th outputs (Model Checking of Stream Processing
Pipelines, 2021, Figure 4b).  A pipeline that never speaks satisfies this beside any other; what users mean is in
`pellucid.check.compare.sequence`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.compare.outputs import proof_by_outputs
from pellucid.check.compare.products import beside
from pellucid.check.decide import Options, decide_invariant
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain
from pellucid.expr import node as n
from pellucid.expr.node import Expr


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
