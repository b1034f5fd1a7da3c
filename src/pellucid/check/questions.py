"""Questions with a name (Model Checking of Stream Processing Pipelines, 2021, sections 4.1 to 4.3): each returns a
`Verdict`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, overload

from pellucid.check.answer import Answer, are_events, domain_notes, expression
from pellucid.check.caveats import (  # fmt: skip
    BEYOND,
    UNCLEAR,
    decide_failing,
    idle_notes,
    in_64_bits,
    run_beyond,
    vacuity_notes,
    wide_notes,
)
from pellucid.check.certify import distrust
from pellucid.check.counterexample import (
    Pushes,
    Violated,
    atoms_on,
    disagreement,
    emitted,
    formula_violated,
    implication_violated,
    paper_violated,
    replay,
    sequence_violated,
    step_violated,
)
from pellucid.check.decide import NO_RUN, Options, ending
from pellucid.check.formula import (
    AG,
    CTL,
    EF,
    LTL,
    And,
    Atom,
    Formula,
    G,
    X,
    as_formula,
    evaluate_finite,
    is_invariant,
    output,
    source,
    stream,
)
from pellucid.check.formula.nodes import mentions_failed
from pellucid.check.formula.parse import parse
from pellucid.check.functions.called import asks, ledger
from pellucid.check.history import as_invariant, normal
from pellucid.check.question_arguments import short
from pellucid.check.sequences import by_keys, decide_paper, decide_sequence
from pellucid.check.side_by_side import apart, beside, differs, fitted, no_longer_implied, side_by_side, with_missing
from pellucid.check.system.assume import assumed_text
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.same import same_graph
from pellucid.check.trial_runs import budget, try_out
from pellucid.check.unbounded import Systems, decide_about, decide_unbounded, speaks_of_queues
from pellucid.errors import NotTraceable, PellucidError, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.tracing.purity import fickle_reason
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import silent
from pellucid.internal.model import Status, Verdict

# Proofs over systems that are not the pipeline itself: the property is tried on the interpreter all the same.
#
# A system that knows only the first events of a queue, or one that leaves queues out, does more than the pipeline;
# integers modulo N are none of its integers. No interpreter can run beside those. So a system that *is* the pipeline,
# up to the first push that needs longer queues, is tried in their place: its streams and its state against the
# interpreter's, and the property on what is seen.


def on_interpreter(answer: Answer, system: System, wrong: Formula | Expr, spent: float) -> Answer:
    """A proof, once it was tried on the interpreter: where it was found, or here, on a system of the same pipeline.

    ``wrong`` is what must not happen in a push, or the formula that is proved; of a formula that no push alone can
    break, only the system is tried.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> s = build_system(pipeline(lambda a, b: a + b, a=int, b=int).graph, domain_of(range(4)))
    >>> large = n.and_(s.present("out"), n.lt(n.const(5), s.value("out")[0]))
    >>> on_interpreter(Answer("proved", "smt"), s, large, 0.1).status
    'unknown'
    """
    if (
        answer.status != "proved"
        or system.graph is None
        or "of the interpreter" in str(answer.details.get("checked", ""))
    ):
        return answer
    try:
        if system.domain.modulus is not None:
            tried, bad = _exact(system), n.FALSE
        elif isinstance(wrong, Formula):
            made = as_invariant(system, wrong)
            tried, bad = (made[0], n.not_(made[1])) if made is not None else (system, n.FALSE)
        else:
            tried, bad = system, wrong
        judged = n.not_(
            n.or_(tried.overflow, tried.partial)
        )  # what a push shows of keys that are not tracked is not known
        trial = try_out(tried, n.and_(bad, judged), seconds=budget(spent))
    except PellucidError:  # an exact system cannot be made of it: there is nothing to try it on
        return answer
    if trial.problem:
        return dataclasses.replace(answer, status="unknown", notes=(distrust(trial.problem),))
    done = "; ".join(filter(None, [answer.details.get("checked"), str(trial)]))
    return dataclasses.replace(answer, details={**answer.details, "checked": done})


def _exact(system: System) -> System:
    """The system of the same pipeline over exact integers: what a step does with them is all that is different."""
    assert system.graph is not None
    lossy = [v.of for v in system.inputs if v.role == "lost"]
    return build_system(system.graph, Domain(system.domain.values), dict(system.bounds), lossy, strict=system.strict)


#: What every proof about a pipeline that reads floats assumes: checks do not see the options of runs.
NO_NAN = "of floats that are not NaN: it says nothing about a run with nan='keep' in which one comes"


@asks(lambda p, formula, **settings: str(as_formula(formula)))
def holds(
    p: Any,
    formula: str | Formula,
    *,
    ints: Any = None,
    queue: int | Mapping[str, int] = 3,
    lossy: Sequence[str] = (),
    assume: Any = None,
    warn: bool = True,
    **settings: Any,
) -> Verdict:
    """Whether a formula of CTL or LTL holds in every run of a pipeline.

    ``ints`` is the domain (exact integers, ``Mod(N)``, ``range(lo, hi)`` or a set).  Queues have no bound, unless the
    formula speaks of them (``full``, ``overflow``, ``queue(ID).length``): then ``queue`` is the bound of every queue,
    or of each by its id; else it is where the search for a bound that suffices begins.  The streams in ``lossy`` may
    lose events.  ``assume`` is what is taken for granted of the events: a formula about sources (``"x.value >= Y
    x.value"``), or a predicate of one event, or of two that follow each other.  ``failed`` holds where a function
    fails, also because an integer leaves 64 bits.  Where arithmetic modulo N turns the verdict round, or where what is
    proved of exact integers may fail in 64 bits first, a note says so (``warn``).  ``settings``: ``engine``,
    ``timeout`` in seconds, ``max_states``, ``max_depth``, ``progress``.

    >>> from pellucid import Mod, check, pipeline
    >>> first = pipeline(lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= 3), x=int)
    >>> check.holds(first, "AG EF out", ints=Mod(4)).proved    # modulo 4 the counter wraps …
    True
    >>> check.holds(first, "AG EF out").refuted                # … but it really falls silent
    True
    >>> rises = pipeline(lambda x: x.trim(1) - x, x=int)
    >>> check.holds(rises, "G (out -> out.value >= 0)", assume="x.value >= Y x.value").proved
    True
    """
    f = as_formula(formula)
    if p.graph.timed:
        from pellucid.check.timed.question import holds_in_time

        _not_by_time("check.holds", queue=queue != 3, lossy=bool(lossy), assume=assume is not None, settings=settings)
        return holds_in_time(p, f, ints=ints, **settings)
    started = time.perf_counter()
    domain, options = domain_of(ints, assume), Options(**settings)
    failing, systems = mentions_failed(f), Systems(p.graph, domain, queue, lossy)

    def ask(part: Formula) -> Answer:
        return decide_failing(systems, part, options) if failing else decide_about(systems, part, options)

    def proof(part: Formula) -> Answer:
        begun, answer = time.perf_counter(), ask(part)
        return on_interpreter(answer, *systems.of(part, strict=failing), time.perf_counter() - begun)

    system, resolved = systems.of(f, strict=failing)
    answer = by_negation(ask(f), f, proof, domain, options)
    exact = not failing and domain.modulus is None
    if exact and answer.pushes is not None and not are_events(p.graph, answer.pushes):
        # only integers beyond 64 bits refute it, and those are no events
        failing = True
        system, resolved = systems.of(f, strict=True)
        answer = decide_failing(systems, f, options)
    answer = on_interpreter(answer, system, resolved, time.perf_counter() - started)
    notes = _only(system, resolved, answer)
    if answer.status == "proved" and warn:
        notes += vacuity_notes(system, f, options)
    if (answer.status == "proved" or answer.negated) and not failing and warn:
        notes += wide_notes(systems, options)
    if warn and domain.modulus is not None and answer.status != "unknown":
        notes += _in_truth(systems, f, options, answer)
    if _no_run(p.graph, domain, answer):
        answer, notes = dataclasses.replace(answer, notes=()), (NO_RUN,)
    bounds = None
    if speaks_of_queues(f):
        bounds = {id: queue if isinstance(queue, int) else queue.get(id, 3) for id, _, _ in p.graph.queues()}
    judge = formula_violated(p.graph, f, domain, bounds) if domain.modulus is None else None
    return _verdict(_assuming(str(f), domain), answer, [p.graph], started, notes, judge)


def by_negation(
    answer: Answer, f: Formula, proof: Callable[[Formula], Answer], domain: Domain, options: Options
) -> Answer:
    """An answer that is *unknown*, unless the negation can be proved.

    A formula holds if it holds wherever a run may begin.  So where its negation holds everywhere a run may begin, the
    formula holds nowhere, and is refuted, given that there is a run at all.  The reverse is not so: of a formula and
    its negation both may be refuted.
    """
    if answer.status != "unknown" or options.over or NO_RUN in answer.notes:
        return answer
    opposite = f.args[0] if f.op == "!" else normal(f, negated=True)
    ops = {part.op for part in opposite.walk()}
    if ops & {"AR", "ER"} or not ops & (CTL | LTL):
        return answer
    proofs = []
    for part in _conjuncts(opposite):
        try:
            proofs.append(proof(part))
        except (NotTraceable, UsageError):
            return answer
        if proofs[-1].status != "proved" or proofs[-1].bound:
            return answer
    notes = tuple(note for proof in proofs for note in proof.notes)
    engine = ", ".join(dict.fromkeys(proof.engine for proof in proofs))
    return Answer(
        "refuted", engine, None if domain.assume else [], notes=(f"its negation is proved: {opposite}", *notes),
        details=proofs[0].details, negated=True,
    )  # fmt: skip


def _conjuncts(f: Formula) -> list[Formula]:
    return [part for a in f.args for part in _conjuncts(a)] if f.op == "&" else [f]


def _no_run(graph: Graph, domain: Domain, answer: Answer) -> tuple[str, ...]:
    """That no run satisfies what is assumed, where something else was said about why it is not decided."""
    if not domain.assume or answer.status != "unknown" or NO_RUN in answer.notes:
        return ()
    return (NO_RUN,) if ending(build_system(graph, domain, 1)) == "none" else ()


def _assuming(question: str, domain: Domain) -> str:
    return f"{question}, assuming {assumed_text(domain)}" if domain.assume else question


def _only(system: System, f: Formula, answer: Answer) -> tuple[str, ...]:
    """Which events were asked about, where others might change the verdict: a run that breaks a property of all runs is
    one with any domain."""
    asks_for_a_run = is_invariant(f) is None and any(part.op in ("EX", "EF", "EG", "EU") for part in f.walk())
    if answer.status == "unknown" or (answer.status == "refuted" and not asks_for_a_run):
        return ()
    return domain_notes(system, [expression(a) for a in f.atoms()])


def _in_truth(systems: Systems, f: Formula, options: Options, answer: Answer) -> tuple[str, ...]:
    """A word of warning where arithmetic modulo N turns the verdict round."""
    quick = dataclasses.replace(options, timeout=min(options.left or 5.0, 5.0), max_states=100_000)
    unbounded = Systems(systems.graph, Domain(assume=systems.domain.assume), systems.queue, systems.lossy)
    exact = decide_failing(unbounded, f, quick) if mentions_failed(f) else decide_about(unbounded, f, quick)
    if exact.status not in ("unknown", answer.status):
        return (f"over exact integers it is {exact.status}: arithmetic modulo N turned the verdict round",)
    return ()


@asks(lambda p, formula, *streams, **named: f"{formula} on a stream")
def holds_on(p: Any, formula: str | Formula, *streams: Any, **named: Any) -> Verdict:
    """Whether a formula of LTL holds on one stream that ends: the finite-trace reading (LTLf).

    The streams are given as for calling the pipeline, ``silent`` where a source has no event.  In the last step ``X p``
    is false and ``F p`` means now; a formula of CTL speaks of all runs and cannot be asked here.

    >>> from pellucid import check, pipeline
    >>> p = pipeline(lambda x: x.decimate(2), x=int)
    >>> bool(check.holds_on(p, "G (in -> out | X out)", [1, 2, 3])), bool(check.holds_on(p, "X X X in", [1, 2, 3]))
    (True, False)
    """
    started = time.perf_counter()
    f = as_formula(formula)
    names = [p.graph.nodes[i].id for i in p.graph.sources]
    given = dict(zip(names, streams, strict=False)) | named
    if set(given) != set(names) or len(streams) > len(names):
        raise UsageError(f"holds_on wants one stream for each source of {p.name}: {', '.join(names)}")
    for name, events in given.items():
        if isinstance(events, (str, bytes)) or not isinstance(events, Iterable):
            raise UsageError(f"holds_on takes a list of events for {name}, found {short(events)}")
    rows = [list(given[name]) for name in names]
    pushes = [
        {name: row[i] for name, row in zip(names, rows, strict=True) if i < len(row) and row[i] is not silent}
        for i in range(max(map(len, rows)))
    ]
    fickle = [f"{fn.name} {fn.reason}" for _, fn in p.graph.opaque() if fickle_reason(fn.reason)]
    for words in fickle:
        ledger().words.append(f"of this one run: {words}, so it is not pure and may answer otherwise in another")
    status: Status = "proved" if evaluate_finite(f, atoms_on(p.graph, f, pushes)) else "refuted"
    answer = Answer(status, "finite trace", pushes if status == "refuted" else None)
    if fickle and status == "refuted":  # the run that was made cannot be made again, so none could be shown
        notes = tuple(f"it does not hold in the run that was made, but {words}: in another it may" for words in fickle)
        answer = Answer("unknown", "finite trace", notes=notes)
    return _verdict(f"{f} on {len(pushes)} pushes", answer, [p.graph], started)


@asks(lambda p, **settings: f"{p.name} is live")
def live(p: Any, *, within: int | None = None, output: str = "out", **settings: Any) -> Verdict:
    """Whether another output is always possible; with ``within``, whether no run is silent for that many steps.

    >>> from pellucid import check, pipeline
    >>> check.live(pipeline(lambda x: x.decimate(3), x=int)).proved
    True
    >>> check.live(pipeline(lambda x: x.decimate(3), x=int), within=2).counterexample.inputs
    [{'x': 0}, {'x': 0}, {'x': 0}]
    """
    out = _named(p.graph, "output", output)
    if within is None:
        return holds(p, AG(EF(out)), **settings)
    # The useful form: while events come in, one comes out within so many of them.
    sources = functools.reduce(And, (_named(p.graph, "source", p.graph.nodes[i].id) for i in p.graph.sources))
    spoken, heard = [sources], out
    for _ in range(within - 1):
        spoken.append(X(spoken[-1]))
        heard = out | X(heard)
    return holds(p, G(functools.reduce(And, spoken) >> heard), **settings)


def _named(graph: Graph, kind: str, name: str) -> Formula:
    """That a source or an output carries an event; by its bare name where that says which."""
    at = {node.id: {i} for i, node in enumerate(graph.nodes)}
    for called, i in graph.outputs:
        at.setdefault(called, set()).add(i)
    clear = (
        len(at.get(name, ())) == 1
        and name not in ("in", "value", "full", "overflow", "failed")
        and (name != "out" or name in dict(graph.outputs))
    )
    if not clear and (kind == "source" or name in dict(graph.outputs)):
        return (source(name) if kind == "source" else output(name)).present
    return stream(name).present


@asks(lambda a, b, how="step", **more: f"{a.name} and {b.name} are {how} equivalent")
def equivalent(
    a: Any,
    b: Any,
    *,
    how: str = "step",
    ints: Any = None,
    queue: int | Mapping[str, int] | None = None,
    assume: Any = None,
    **more: Any,
) -> Verdict:
    """Whether two pipelines emit the same: in every step, or (``how="sequence"``) the same sequence in the end,
    whatever the delay.

    A sequence is asked of runs in which each source brings events again and again: each output of one must come in the
    other, at the same place, and so must a failure, which is the last thing in a sequence.  ``how="paper"`` is the
    weaker formula of Model Checking of Stream Processing Pipelines (2021): wherever both have an i-th output, the two
    are equal; a pipeline that never speaks satisfies it beside any other.

    Queues have no bound; ``queue`` is where the search for one that suffices begins.  ``assume`` is what is taken for
    granted of the events, as for `holds`.

    >>> from pellucid import check, pipeline
    >>> one = pipeline(lambda x: x.map(lambda v: v + v), x=int)
    >>> two = pipeline(lambda x: x * 2, x=int)
    >>> check.equivalent(one, two).proved
    True
    >>> late, never = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda x: x.filter(lambda v: v != v), x=int)
    >>> [check.equivalent(late, never, how=how).status for how in ("step", "sequence", "paper")]
    ['refuted', 'refuted', 'proved']
    """
    if how not in ("step", "sequence", "paper"):
        raise UsageError(f"how= takes 'step', 'sequence' or 'paper', found {how!r}")
    if a.graph.timed or b.graph.timed:
        from pellucid.check.timed.compare import equivalent_in_time

        _not_by_time("check.equivalent", queue=queue is not None, assume=assume is not None, settings=more)
        return equivalent_in_time(a, fitted(a, b), how=how, ints=ints, **more)
    started = time.perf_counter()
    options = Options(**more)
    domain = domain_of(ints, assume)
    paper = "Model Checking of Stream Processing Pipelines (2021)"
    manner = f"sequence equivalent as in {paper}" if how == "paper" else f"{how} equivalent"
    question = _assuming(f"{a.name} and {b.name} are {manner}", domain)
    b = fitted(a, b)
    a, b = with_missing(a, b), with_missing(b, a)
    if options.engine == "auto" and same_graph(a.graph, b.graph, domain):
        answer = Answer("proved", "simplification", notes=("they are the same graph",))
        if domain.assume and ending(build_system(a.graph, domain, 1)) == "none":
            answer = Answer("unknown", "simplification", notes=(NO_RUN,))
    elif how == "step":
        answer = _beside(a, b, differs, domain, queue, options)
    elif any(node.key is not None for p in (a, b) for node in p.graph.nodes):
        answer = by_keys(a, b, _beside(a, b, differs, domain, queue, options), paper=how == "paper")
    elif how == "paper":
        answer = decide_paper(a, b, domain, queue, options)
    else:
        answer = decide_sequence(
            a, b, domain, queue, options, lambda quick: _beside(a, b, differs, domain, queue, quick)
        )
        answer = _sequence_in_64_bits(a, b, answer, domain, queue, options)
    notes = (*_idle(a, b, domain, options, answer), *_of_both(a, b, domain, options, answer, how == "paper"))
    notes = (*_no_run(a.graph, domain, answer), *notes)
    judge = {"step": step_violated, "sequence": sequence_violated, "paper": paper_violated}[how]
    return _verdict(question, answer, [a.graph, b.graph], started, notes, judge if domain.modulus is None else None)


def _sequence_in_64_bits(a: Any, b: Any, answer: Answer, domain: Domain, queue: Any, options: Options) -> Answer:
    """Of sequences that are the same over exact integers: a failure ends a sequence, and one of the two may fail with
    an overflow where the other does not."""
    graph = beside(a, b)
    run = run_beyond(Systems(graph, domain, 1), options) if answer.status == "proved" else None
    if not run:
        return answer if run is None else dataclasses.replace(answer, notes=(*answer.notes, UNCLEAR))

    def really(pushes: list[dict[str, Any]]) -> bool:
        first, second = (emitted(p.graph, pushes, a.graph) for p in (a, b))
        return any(x != y for x, y in zip(first, second, strict=False))

    return in_64_bits(
        answer, graph, domain, lambda within: _beside(a, b, differs, domain, queue, within), really, options
    )


def _not_by_time(who: str, *, settings: Mapping[str, Any], **given: bool) -> None:
    """Refuse what has no meaning by event time, where what comes is searched through."""
    whys = {
        "queue": "no queue has a bound there", "lossy": "no stream loses events there",
        "assume": "say which events there are, with events=, ints= and times=",
        "engine": "there is one, explicit search", "max_depth": "say how many events come, with pushes=",
    }  # fmt: skip
    for word in (*(w for w, said in given.items() if said), *(w for w in ("engine", "max_depth") if w in settings)):
        raise UsageError(f"{who}: {word}= does not go with a pipeline by event time: {whys[word]}")


def _idle(
    a: Any, b: Any, domain: Domain, options: Options, answer: Answer, *, implies: bool = False
) -> tuple[str, ...]:
    """A word for a proof about pipelines that never speak; of one and the same pipeline it is true all the same, and
    plain to see."""
    if answer.status != "proved" or a.graph.digest == b.graph.digest:
        return ()
    system = side_by_side(beside(a, b), domain, 3)
    both = n.or_(system.present("a"), system.present("b"))
    cases = [
        (
            both,
            f"neither {a.name} nor {b.name} ever emits anything" if a.name != b.name else "neither ever emits anything",
        )
    ]
    if implies:
        true = n.any_of(n.and_(slot.present, slot.leaves[0]) for slot in system.streams["a"][1])
        cases.append((true, f"{a.name} never says true"))
    return idle_notes(system, cases, options)


def _of_both(
    a: Any, b: Any, domain: Domain, options: Options, answer: Answer, sequence: bool = False
) -> tuple[str, ...]:
    """What a proof about two pipelines leaves out: other integers, and 64 bits."""
    if answer.status != "proved" or answer.engine == "simplification":
        return ()
    graph = beside(a, b)
    system = side_by_side(graph, domain, 1)
    return (
        *domain_notes(system, [differs(system)]),
        *(wide_notes(Systems(graph, domain, 1), options) if sequence else ()),
    )


def _beside(a: Any, b: Any, wrong: Callable[..., Any], domain: Domain, queue: Any, options: Options) -> Answer:
    """Whether nothing goes wrong between two pipelines, step by step."""
    graph = beside(a, b)

    def never(system: System) -> Formula:
        return AG(Atom(n.not_(wrong(system)), "they agree"))

    def ask(within: Options, strict: bool) -> Answer:
        return decide_unbounded(
            lambda room: side_by_side(graph, domain, room, strict=strict), never, 3 if queue is None else queue, within
        )

    def really(pushes: list[dict[str, Any]]) -> bool:
        return apart([a.graph, b.graph], pushes, implied=wrong is no_longer_implied)

    started = time.perf_counter()
    answer = in_64_bits(ask(options, False), graph, domain, lambda within: ask(within, True), really, options)
    # up to the first failure of either it is both, and an interpreter runs beside it
    system = build_system(graph, domain, 3)
    return on_interpreter(answer, system, wrong(system), time.perf_counter() - started)


@asks(lambda a, b, **settings: f"{a.name} implies {b.name}")
def implies(
    a: Any,
    b: Any,
    *,
    ints: Any = None,
    queue: int | Mapping[str, int] | None = None,
    assume: Any = None,
    **settings: Any,
) -> Verdict:
    """Whether ``b`` says true wherever ``a`` does, step by step: ``b`` is a conservative approximation of ``a``.

    >>> from pellucid import check, pipeline
    >>> strict = pipeline(lambda x: x > 5, x=int)
    >>> loose = pipeline(lambda x: x > 3, x=int)
    >>> bool(check.implies(strict, loose)), check.implies(loose, strict).counterexample.inputs
    (True, [{'x': 4}])
    """
    started = time.perf_counter()
    domain = domain_of(ints, assume)
    options = Options(**settings)
    b = fitted(a, b)
    answer = _beside(a, b, no_longer_implied, domain, queue, options)
    notes = (*_idle(a, b, domain, options, answer, implies=True), *_of_both(a, b, domain, options, answer))
    notes = (*_no_run(a.graph, domain, answer), *notes)
    return _verdict(
        _assuming(f"{a.name} implies {b.name}", domain),
        answer,
        [a.graph, b.graph],
        started,
        notes,
        implication_violated,
    )


def _verdict(
    question: str,
    answer: Answer,
    graphs: Sequence[Graph],
    started: float,
    notes: tuple[str, ...] = (),
    judge: Violated | None = None,
) -> Verdict:
    """The answer with its counterexample, which counts only if ``judge`` finds the property violated on the
    interpreter."""
    shown = None
    if answer.status == "refuted" and not are_events(graphs[0], answer.pushes or []):
        answer = dataclasses.replace(answer, status="unknown", pushes=None, notes=(BEYOND,))
    if answer.status == "refuted" and answer.pushes is not None:
        steps = replay(graphs, answer.pushes)
        shown = Pushes(tuple(graphs), steps, answer.loop if answer.loop is None or answer.loop < len(steps) else None)
        if judge is not None and judge(shown, answer.pushes, answer.loop) is False:
            return Verdict(
                "unknown",
                question,
                answer.engine,
                time.perf_counter() - started,
                None,
                (disagreement(graphs, answer.pushes),),
                answer.details,
            )
    if answer.status == "proved" and any(g.reads_floats for g in graphs):
        notes = (*notes, NO_NAN)
    within = answer.bound if answer.status == "proved" else ""
    return Verdict(
        "bounded" if within else answer.status,
        question,
        answer.engine,
        time.perf_counter() - started,
        shown,
        (*answer.notes, *notes),
        answer.details,
        bound=within,
    )


# How a file declares what must hold: ``@check.property`` above a function, or a list of formulas.
#
# ::
#
#     @check.property
#     def always_another_output():
#         return check.live(sum_of_odds, ints=Mod(4))
#
#     check.properties(sum_of_odds, ["AG EF out", "!EF full"], ints=Mod(4), queue=3)
#
# A bounded answer does not pass, unless the declaration says that it is enough: ``within=3`` (runs of at most three
# events) for formulas, ``@check.property(bounded_is_enough=True)`` for a function.
#
# They are kept in the module that declares them, in the order of its lines, and run by ``pellucid check FILE``. A
# function stays what it was, so a test can call it: ``assert always_another_output()``. One that takes ``**settings``,
# or ``timeout``, ``engine``, … by name, is given the options of the command line.

_KEPT = "__pellucid_properties__"
_OPTIONS = (
    "ints", "queue", "assume", "times", "pushes", "batch", "arrival", "engine", "timeout", "max_states", "max_depth",
    "progress",
)  # fmt: skip
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Property:
    """Something that must hold: its name, the file and line where it is written, and how to ask."""

    name: str
    where: str
    ask: Callable[..., Any]
    pipeline: Any = None  # of a formula in a list
    takes: frozenset[str] = frozenset(_OPTIONS)  # the options that reach it
    code: Any = field(default=None, repr=False, compare=False)  # what declared it
    bounded_is_enough: bool = False  # whether nothing found within a bound is an answer that passes

    def __call__(self, **options: Any) -> Verdict:
        """Ask, with these options in place of the declared ones.

        >>> Property("sure", "p.py:1", lambda: True, takes=frozenset())().status
        'proved'
        """
        started = time.perf_counter()
        answer = self.ask(**{name: value for name, value in options.items() if name in self.takes})
        if isinstance(answer, Verdict):
            return answer
        if isinstance(answer, bool):
            return Verdict("proved" if answer else "refuted", self.name, "python", time.perf_counter() - started)
        raise UsageError(
            f"property {self.name} ({self.where}) returned {short(answer)}: expected a verdict, as in "
            "return check.live(…), or True or False"
        )


@overload
def property(function: _F) -> _F: ...
@overload
def property(*, bounded_is_enough: bool) -> Callable[[_F], _F]: ...
def property(function: Any = None, *, bounded_is_enough: bool = False) -> Any:
    """Declare that a function, which returns a verdict or a bool, must say yes; with ``bounded_is_enough`` also that
    nothing was found within a bound.

    >>> from pellucid import check, pipeline
    >>> doubled = pipeline(lambda x: x * 2, x=int)
    >>> @property
    ... def something_comes_out():
    ...     return check.live(doubled)
    >>> something_comes_out().proved
    True
    """
    if function is None:
        return partial(property, bounded_is_enough=bounded_is_enough)
    if isinstance(function, Verdict):
        raise UsageError(
            "@check.property stands above a function that returns a verdict; it was given the verdict itself"
        )
    if not callable(function) or not hasattr(function, "__code__"):
        raise UsageError(f"@check.property stands above a function, found {short(function)}")
    parameters = inspect.signature(function).parameters.values()
    takes: set[str] = set()
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            takes |= set(_OPTIONS)
        elif p.kind is not p.POSITIONAL_ONLY and p.name in _OPTIONS:
            takes.add(p.name)
        elif p.default is p.empty and p.kind is not p.VAR_POSITIONAL:
            raise UsageError(
                f"property {function.__name__} wants an argument {p.name!r}, which it does not get: "
                f"a property takes none, or some of {', '.join(_OPTIONS)}"
            )
    code = function.__code__
    where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    found = Property(
        function.__name__, where, function, takes=frozenset(takes), code=code, bounded_is_enough=bounded_is_enough
    )
    _keep(function.__globals__, found)
    return function


def properties(
    p: Any,
    formulas: Iterable[str] | Mapping[str, str],
    *,
    name: str = "",
    within: int | None = None,
    **settings: Any,
) -> None:
    """Declare that formulas must hold in every run of a pipeline: a list, or a dict of names and formulas.

    ``within=N`` declares that runs of at most so many events are enough: where no more can be had than *bounded*, as
    by event time, that passes, unless the bound is of shorter runs (then it is *unknown*).  ``settings`` is what
    `pellucid.check.holds` takes.  They are read now, so that a mistake shows where it was made, and asked later.

    >>> from pellucid import pipeline
    >>> doubled = pipeline(lambda x: x * 2, x=int)
    >>> properties(doubled, {"something comes out": "AG EF out"})
    >>> [found.name for found in declared(globals())][-1]
    'pipeline: something comes out'
    """
    if not hasattr(p, "graph"):
        raise UsageError(f"check.properties wants a pipeline first, found {short(p)}")
    if isinstance(formulas, str):
        raise UsageError(f"check.properties wants a list of formulas: write [{formulas!r}]")
    unknown = sorted(set(settings) - set(_OPTIONS))
    if unknown:
        raise UsageError(f"check.properties takes {', '.join(_OPTIONS)}, found {unknown[0]!r}")
    if within is not None and (isinstance(within, bool) or not isinstance(within, int) or within < 1):
        raise UsageError(f"within= takes a number of events of at least 1, found {short(within)}")
    if within is not None and "pushes" in settings:
        raise UsageError("within= is how many events a run has, as pushes= is: give one of them")
    if within is not None and p.graph.timed:
        settings["pushes"] = within
    frame = sys._getframe(1)
    where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    named = formulas.items() if isinstance(formulas, Mapping) else [(str(f), f) for f in formulas]
    for label, formula in named:
        if isinstance(formula, str):
            parse(formula)

        def ask(formula: Any = formula, **more: Any) -> Verdict:
            answer = holds(p, formula, **{**settings, **more})
            reached = answer.details.get("pushes") if answer.bounded else None  # how far a bound on pushes reaches
            if within is None or reached is None or reached >= within:
                return answer
            note = f"nothing was found in {answer.bound}, which is less than within={within:,}"
            return replace(answer, status="unknown", bound="", notes=(*answer.notes, note))

        _keep(
            frame.f_globals,
            Property(
                f"{name or p.name}: {label}", where, ask, p, code=frame.f_code, bounded_is_enough=within is not None
            ),
        )


def declared(module: Any) -> list[Property]:
    """What a module declares, in the order of its lines: a module, its name or its namespace.

    >>> declared("json")
    []
    """
    if isinstance(module, str):
        module = sys.modules[module]
    space = module if isinstance(module, dict) else vars(module)
    return list(space.get(_KEPT, {}).values())


def _keep(space: dict[str, Any], found: Property) -> None:
    """In the module itself, so a file that is loaded again starts empty.

    The same code may declare a name twice, as a loop does: the second gets a number, and none is lost.  Other code
    at the same place, or in a notebook, is the same declaration run again.
    """
    kept: dict[str, Property] = space.setdefault(_KEPT, {})
    before, name, more = kept.get(found.name), found.name, 2
    if before is not None and before.code is found.code:
        while name in kept:
            name, more = f"{found.name} ({more})", more + 1
    elif before is not None and before.where != found.where and space.get("__file__"):
        raise UsageError(f"two properties are called {name!r} ({before.where} and {found.where}): rename one")
    kept[name] = replace(found, name=name)
