"""Dead paths (Model Checking of Stream Processing Pipelines, 2021, sections 1 and 4.1): parts of a pipeline that cannot
influence any output.

Each finding is proved: a stream that never carries an event, by an invariant; a step that could be left out, by
comparing the pipeline with a copy of itself from which the step was deleted.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.compare.products import differs, fail_apart
from pellucid.check.decide import Options
from pellucid.check.endless.unbounded import decide_unbounded
from pellucid.check.formula import AG, Atom, Formula
from pellucid.check.functions.called import asks
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.queues import Room
from pellucid.internal.expr import node as n
from pellucid.internal.graph.build import assemble, instantiate, source
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Status, Verdict


@asks(lambda p, **settings: f"every step of {p.name} matters")
def dead_paths(p: Any, *, ints: Any = None, queue: int = 3, assume: Any = None, **settings: Any) -> Verdict:
    """Whether every step matters: refuted with the list of those that do not, in ``details["dead"]``.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.filter(lambda v: v % 3 < 3, id="always").trim(1, id="rest"), x=int)
    >>> check.dead_paths(p).details["dead"]
    {'always': 'it lets every event through: without it the outputs are the same'}
    """
    started = time.perf_counter()
    options, domain, graph = Options(**settings), domain_of(ints, assume), p.graph
    dead: dict[str, str] = {}
    unsure: list[str] = []

    def build(room: Room) -> System:
        return build_system(graph, domain, room)

    for i, node in enumerate(graph.nodes):
        if node.kind == "source":
            if not graph.readers(i) and all(at != i for _, at in graph.outputs):
                dead[node.id] = "nothing reads this source"
            continue
        if options.over:
            unsure.append(node.id)
            continue
        never = decide_unbounded(build, partial(_silent, node.id), queue, options)
        if never.status == "proved":
            dead[node.id] = "it never carries an event"
            continue
        if never.status == "unknown":
            unsure.append(node.id)
        for without, words in _deletions(graph, i):
            answer = _compare(graph, without, domain, queue, options) if not options.over else Answer("unknown", "none")
            if answer is not None and answer.status == "proved":
                same = without[i] is not None and _carries_the_same(build, graph, i, without[i], queue, options)
                words = words if same else "what it does is not seen"
                dead[node.id] = f"{words}: {'; '.join(('without it the outputs are the same', *answer.notes))}"
                break
            if answer is not None and answer.status == "unknown":
                unsure.append(node.id)
    notes = [f"{id}: {words}" for id, words in dead.items()]
    status: Status = "refuted" if dead else "unknown" if unsure else "proved"
    if unsure:
        notes.append(f"not decided: {', '.join(dict.fromkeys(unsure))}")
    return Verdict(
        status,
        f"every step of {p.name} matters",
        "deletion",
        time.perf_counter() - started,
        None,
        tuple(notes),
        {"dead": dead},
    )


def _deletions(graph: Graph, i: int) -> list[tuple[dict[int, int | None], str]]:
    """Ways to leave a step out that keep the types right."""
    node = graph.nodes[i]
    out: list[tuple[dict[int, int | None], str]] = []
    for at, j in enumerate(node.inputs):
        if graph.nodes[j].type == node.type and node.key == graph.nodes[j].key:
            words = {"filter": "it lets every event through", "merge": f"it carries what its input {at + 1} does"}
            out.append(({i: j}, words.get(node.kind, "it changes nothing")))
    if any(graph.nodes[r].processor.inputs == "apart" for r, _ in graph.readers(i)):
        out.append(({i: None}, "what it does is not seen"))
    return out


def _compare(
    graph: Graph, bypass: dict[int, int | None], domain: Domain, queue: int, options: Options
) -> Answer | None:
    """Whether the outputs stay the same, step by step, with a step left out."""
    sources = [source(graph.nodes[at].id, graph.nodes[at].type) for at in graph.sources]
    whole = instantiate(graph, sources, ids=False)
    less = instantiate(graph, sources, bypass=bypass, ids=False)
    if set(whole) != set(less):
        return None
    pairs = {f"{side}{name}": s for side, made in (("a", whole), ("b", less)) for name, s in made.items()}
    both = assemble(graph.name, sources, pairs)
    # a step that fails matters, whatever it puts out
    sides = {side: [f"{side}{name}" for name in whole] for side in "ab"}

    def same(system: System) -> Formula:
        out = n.not_(fail_apart(system))
        for name in whole:
            out = n.and_(out, n.not_(differs(system, f"a{name}", f"b{name}")))
        return AG(Atom(out, "the outputs are the same"))

    def ask(options: Options, *, strict: bool) -> Answer:
        return decide_unbounded(
            lambda room: build_system(both, domain, room, strict=strict, sides=sides), same, queue, options
        )

    answer = ask(options, strict=False)
    narrow = build_system(both, domain, 1, strict=True, sides=sides).wide.op == "const"
    if answer.status != "proved" or domain.modulus is not None or narrow:
        return answer
    # A step that leaves 64 bits where nothing else does makes the pipeline fail, and matters.
    quick = dataclasses.replace(
        options, timeout=min(options.left or 5.0, 5.0), max_states=min(options.max_states, 50_000)
    )
    in_64_bits = ask(quick, strict=True)
    if in_64_bits.status == "unknown":
        return dataclasses.replace(
            answer, notes=("of exact integers; whether it leaves 64 bits where nothing else does was not found out",)
        )
    return in_64_bits


def _carries_the_same(
    build: Callable[[Room], System], graph: Graph, i: int, j: int | None, queue: int, options: Options
) -> bool:
    """Whether a step carries in every push what its input carries, so that this may be given as the reason."""

    def same(system: System) -> Formula:
        one, other = (system.node(graph.nodes[at].id) for at in (i, j or 0))
        return AG(Atom(n.not_(differs(system, one, other)), "they carry the same"))

    return decide_unbounded(build, same, queue, options).status == "proved"


def _silent(id: str, system: System) -> Formula:
    return AG(Atom(n.not_(system.present(id)), f"{id} is silent"))
