"""Integers that leave 64 bits: a failure that ``failed`` knows about, and a word for verdicts over exact integers.

Checks reason over exact integers, because that is simpler and decides more.  A run of the real pipeline stops with an
overflow where an integer leaves 64 bits.  So

* a question that mentions ``failed`` is asked of the strict system, in which leaving 64 bits is a failure;
* a property that is proved over exact integers says so if a run leaves 64 bits, or if that was not found out; it says
  nothing where that takes a billion pushes or more;
* two pipelines that are compared must leave 64 bits in the same pushes: what is found over exact integers is asked of
  64 bits as well;
* a sum of small numbers leaves 64 bits only after more pushes than anybody makes.  That is neither refuted (no run
  could be shown) nor proved; it is *bounded*, by the number of pushes that it takes at least.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.check.answer import Answer
from pellucid.check.belief.growth import long_run, pushes_before
from pellucid.check.compare.products import side_by_side
from pellucid.check.decide import Options
from pellucid.check.endless.keyed import track_of
from pellucid.check.endless.unbounded import decide_about
from pellucid.check.formula import Formula, is_invariant, resolve, terms
from pellucid.check.formula.terms import Flag
from pellucid.check.smt.encode import Encoding
from pellucid.check.smt.engine import search
from pellucid.check.smt.search import FoundRun, Nothing
from pellucid.check.system.assume import remembering
from pellucid.check.system.build import System, build_system
from pellucid.check.system.cone import cone
from pellucid.check.system.domains import Domain
from pellucid.errors import UsageError
from pellucid.internal.expr.node import walk
from pellucid.internal.expr.types import INT
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.budget import Budget
from pellucid.internal.model.sheet import event_text
from pellucid.internal.solve.session import ask

_HALF = 2**62
_FEW = 6  # pushes that are searched for a run that leaves 64 bits
_MANY = 10**9  # pushes: beyond, no word is said
_SHOWN = 6  # pushes, or groups of equal ones, of such a run


def mentions_failed(f: Formula) -> bool:
    """Whether a formula speaks of failures.

    >>> from pellucid.check.formula.parse import parse
    >>> mentions_failed(parse("G (out -> !failed)")), mentions_failed(parse("G out"))
    (True, False)
    """
    return any(isinstance(term, Flag) and term.name == "failed" for term in terms(f))


def decide_failing(
    graph: Graph, f: Formula, domain: Domain, queue: int | Mapping[str, int], lossy: Sequence[str], options: Options
) -> Answer:
    """A formula that speaks of failures, leaving 64 bits among them."""
    strict = remembering(build_system(graph, domain, queue, lossy, strict=True, track=track_of(f, graph)), f)
    resolved = resolve(f, strict)
    far = pushes_at_least(strict) if options.engine == "auto" and is_invariant(resolved) is not None else None
    if far is None:
        return decide_about(graph, f, domain, queue, lossy, options, strict=True)
    # No run that anybody can make leaves 64 bits: what is found quickly counts, else exact integers decide about the
    # rest.
    quick = dataclasses.replace(
        options, timeout=min(options.left or 5.0, 5.0), max_states=min(options.max_states, 50_000)
    )
    answer = decide_about(graph, f, domain, queue, lossy, quick, strict=True)
    if answer.status != "unknown":
        return answer
    answer = decide_about(graph, f, domain, queue, lossy, options)
    if answer.status != "proved":
        return answer
    note = "in these no integer can leave 64 bits; that none ever does is not proved"
    bound = f"runs of fewer than {far:,} pushes"
    return dataclasses.replace(
        answer, notes=(*answer.notes, note), bound=bound, details={**answer.details, "pushes": far - 1}
    )


#: Why a run of exact integers refutes nothing.
BEYOND = "of exact integers it is refuted, but only by such as have more than 64 bits, which are no events"


#: What a proof about exact integers leaves open.
UNCLEAR = 'of exact integers; whether a run leaves 64 bits first was not found out: ask "G !failed"'


def are_events(graph: Graph, pushes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what the sources bring in a run of exact integers has 64 bits."""
    types = {graph.nodes[i].id: graph.nodes[i].type for i in graph.sources}
    return not any(t.problem(push[name]) for push in pushes for name, t in types.items() if name in push)


def in_64_bits(
    answer: Answer,
    graph: Graph,
    domain: Domain,
    ask: Callable[[Options], Answer],
    really: Callable[[list[dict[str, Any]]], bool],
    options: Options,
) -> Answer:
    """What was found of two pipelines over exact integers, judged in 64 bits: a failure is seen, and one may leave 64
    bits where the other does not.

    ``ask`` is the same question in 64 bits, ``really`` whether the two come apart on some pushes when they are run.
    """
    if answer.status == "unknown" or domain.modulus is not None:
        return answer
    beyond = answer.status == "refuted" and not are_events(graph, answer.pushes or [])
    if answer.status == "refuted" and not beyond and really(answer.pushes or []):
        return answer
    if not beyond and side_by_side(graph, domain, 1, strict=True).wide.op == "const":
        return answer
    quick = dataclasses.replace(
        options, timeout=min(options.left or 10.0, 10.0), max_states=min(options.max_states, 50_000)
    )
    exact, answer = answer, ask(quick)
    if answer.status == "refuted" and not really(answer.pushes or []):
        answer = dataclasses.replace(
            answer, status="unknown", pushes=None, notes=("a difference was found that is none when it is run",)
        )
    if answer.status == "refuted" and exact.status == "proved":
        note = "in 64 bits: of exact integers they are the same, but one leaves 64 bits where the other does not"
        return dataclasses.replace(answer, notes=tuple(dict.fromkeys((*answer.notes, note))))
    if exact.status == "refuted" or answer.status != "unknown":
        return answer
    note = "that both fail in the same pushes where an integer leaves 64 bits is not proved"
    return dataclasses.replace(exact, notes=(*exact.notes, note), bound="runs in which no integer leaves 64 bits")


def pushes_at_least(system: System) -> int | None:
    """How many pushes it takes at least until an integer leaves 64 bits, if the integers grow by steps; None if that is
    not known.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    >>> pushes_at_least(build_system(total.graph, domain_of(range(10)), strict=True))
    512409557603043099
    >>> pushes_at_least(build_system(total.graph, domain_of(None), strict=True)) is None  # one push may do
    True
    """
    if system.wide.op == "const" or importlib.util.find_spec("z3") is None:
        return None
    small, (wide,) = cone(system, [system.wide], all_inputs=True)
    grows = [i for i, v in enumerate(small.state) if v.type == INT and v.size is None]
    given = [abs(v) for v in system.domain.span or ()]
    constants = [abs(e.value) for e in walk(wide, *small.next) if e.op == "const" and e.type == INT]
    largest = max([1, *given, *(c for c in constants if c < 2**40), *(abs(small.state[i].start) for i in grows)])
    if not grows or largest >= _HALF:
        return None
    try:
        code = Encoding(small)
        term, following = code.term(wide), code.next
    except UsageError:  # floats or bits that z3 is not asked about
        return None
    z3, clock = code.z3, Budget(1.0)
    reach = z3.Int("reach")
    solver = z3.Solver()
    solver.add(reach >= largest, reach <= _HALF, *code.typing(code.state), *code.allowed(), code.assume)
    solver.add(*[z3.And(code.state[i] >= -reach, code.state[i] <= reach) for i in grows])
    solver.add(
        *[z3.And(c >= 0, c < v.size) for c, v in zip(code.state, small.state, strict=True) if v.size is not None]
    )
    for step in sorted({1, max([1, *given]), largest, 4 * largest, 64 * largest}):
        outside = [z3.Or(following[i] > reach + step, following[i] < -reach - step) for i in grows]
        if ask(solver, clock, z3.Or(term, *outside)) is False:
            return int((_HALF - largest) // step)
    return None


def run_beyond(
    graph: Graph, domain: Domain, queue: int | Mapping[str, int], lossy: Sequence[str], options: Options
) -> Sequence[dict[str, Any]] | None:
    """A run in which an integer leaves 64 bits; an empty one, where none was found and there may be one; None, if no
    run of fewer than a billion pushes does."""
    if domain.modulus is not None or importlib.util.find_spec("z3") is None:
        return None
    strict = build_system(graph, domain, queue, lossy, strict=True)
    small, (wide,) = cone(strict, [strict.wide], all_inputs=True)
    if wide.op == "const" or (pushes_before(small, wide) or 0) >= _MANY:
        return None
    try:
        found = search(small, wide, max_depth=_FEW, timeout=min(1.5, options.left or 1.5))
    except UsageError:  # bits, which z3 is not asked about
        found = None
    if isinstance(found, FoundRun) and found.replays:
        return found.trace
    run = long_run(small, wide, graph)
    if run is not None:
        return run
    far = pushes_at_least(strict) if isinstance(found, Nothing) else None
    return None if far is not None and far >= _MANY else ()


def wide_notes(
    graph: Graph, domain: Domain, queue: int | Mapping[str, int], lossy: Sequence[str], options: Options
) -> tuple[str, ...]:
    """A note for a property that is proved over exact integers, unless no run of fewer than a billion pushes leaves 64
    bits; pushes that come again and again are counted."""
    run = run_beyond(graph, domain, queue, lossy, options)
    if run is None:
        return ()
    if not run:
        return (UNCLEAR,)
    sources = {graph.nodes[i].id for i in graph.sources}
    told = [
        ", ".join(f"{name} = {event_text(value)}" for name, value in push.items() if name in sources) or "silence"
        for push in run
    ]
    shown = [(text, len(list(same))) for text, same in itertools.groupby(told)]
    parts = [f"{text} ({many} times)" if many > 2 else "; ".join([text] * many) for text, many in shown]
    if len(parts) > _SHOWN:
        parts = [*parts[: _SHOWN - 1], f"… ({len(run)} pushes)"]
    return (
        f'of exact integers; in 64 bits a run may fail with an overflow first, as on {"; ".join(parts)}: ask "G '
        '!failed"',
    )
