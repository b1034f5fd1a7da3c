"""Questions with a name (Model Checking of Stream Processing Pipelines, 2021, sections 4.1 to 4.3): each returns a
`Verdict`."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pellucid.check.advice import domain_notes
from pellucid.check.answer import Answer, expression
from pellucid.check.belief.companion import on_interpreter
from pellucid.check.belief.observe import atoms_on
from pellucid.check.belief.vacuity import idle_notes, vacuity_notes
from pellucid.check.belief.violated import (
    Violated,
    disagreement,
    formula_violated,
    implication_violated,
    paper_violated,
    put_out,
    sequence_violated,
    step_violated,
)
from pellucid.check.belief.wide import (
    BEYOND,
    UNCLEAR,
    are_events,
    decide_failing,
    in_64_bits,
    mentions_failed,
    run_beyond,
    wide_notes,
)  # fmt: skip
from pellucid.check.compare.fitted import fitted, with_missing
from pellucid.check.compare.outputs import decide_paper
from pellucid.check.compare.products import apart, beside, differs, no_longer_implied, side_by_side
from pellucid.check.compare.sequence import by_keys, decide_sequence
from pellucid.check.counterexample.pushes import Pushes
from pellucid.check.counterexample.replay import replay
from pellucid.check.decide import Options
from pellucid.check.endless.assumed_runs import NO_RUN, ending
from pellucid.check.endless.history import normal
from pellucid.check.endless.keyed import track_of
from pellucid.check.endless.unbounded import decide_about, decide_unbounded, speaks_of_queues
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
    resolve,
    source,
    stream,
)
from pellucid.check.functions.called import asks, ledger
from pellucid.check.given import short
from pellucid.check.system.assume import assumed_text, remembering
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.same import same_graph
from pellucid.errors import NotTraceable, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.tracing.witness import fickle_reason
from pellucid.internal.graph.model import Graph
from pellucid.internal.graph.stream import silent
from pellucid.internal.model import Status, Verdict

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
        from pellucid.check.timed.formulas import holds_in_time

        _not_by_time("check.holds", queue=queue != 3, lossy=bool(lossy), assume=assume is not None, settings=settings)
        return holds_in_time(p, f, ints=ints, **settings)
    started = time.perf_counter()
    domain, options = domain_of(ints, assume), Options(**settings)
    failing = mentions_failed(f)

    def built(strict: bool, part: Formula = f) -> System:
        track = track_of(part, p.graph)
        return remembering(build_system(p.graph, domain, queue, lossy, strict=strict, track=track), part)

    def ask(part: Formula) -> Answer:
        if failing:
            return decide_failing(p.graph, part, domain, queue, lossy, options)
        return decide_about(p.graph, part, domain, queue, lossy, options)

    def proof(part: Formula) -> Answer:
        begun, answer = time.perf_counter(), ask(part)
        beside = built(failing, part)
        return on_interpreter(answer, beside, resolve(part, beside), time.perf_counter() - begun)

    system = built(failing)
    resolved = resolve(f, system)
    answer = by_negation(ask(f), f, proof, domain, options)
    exact = not failing and domain.modulus is None
    if exact and answer.pushes is not None and not are_events(p.graph, answer.pushes):
        # only integers beyond 64 bits refute it, and those are no events
        failing, system = True, built(True)
        resolved = resolve(f, system)
        answer = decide_failing(p.graph, f, domain, queue, lossy, options)
    answer = on_interpreter(answer, system, resolved, time.perf_counter() - started)
    notes = _only(system, resolved, answer)
    if answer.status == "proved" and warn:
        notes += vacuity_notes(system, f, options)
    if (answer.status == "proved" or answer.negated) and not failing and warn:
        notes += wide_notes(p.graph, domain, queue, lossy, options)
    if warn and domain.modulus is not None and answer.status != "unknown":
        notes += _in_truth(p.graph, f, domain, queue, options, answer, lossy)
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
    opposite = f.args[0] if f.op == "!" else normal(f, negated=True)
    if (
        answer.status != "unknown"
        or options.over
        or NO_RUN in answer.notes
        or any(part.op in ("AR", "ER") for part in opposite.walk())
        or not any(part.op in CTL | LTL for part in opposite.walk())
    ):
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


def _in_truth(
    graph: Graph, f: Formula, domain: Domain, queue: Any, options: Options, answer: Answer, lossy: Sequence[str]
) -> tuple[str, ...]:
    """A word of warning where arithmetic modulo N turns the verdict round."""
    quick = dataclasses.replace(options, timeout=min(options.left or 5.0, 5.0), max_states=100_000)
    unbounded = Domain(assume=domain.assume)
    if mentions_failed(f):
        exact = decide_failing(graph, f, unbounded, queue, lossy, quick)
    else:
        exact = decide_about(graph, f, unbounded, queue, lossy, quick)
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
    """Whether two pipelines put out the same: in every step, or (``how="sequence"``) the same sequence in the end,
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
    run = run_beyond(graph, domain, 1, (), options) if answer.status == "proved" else None
    if not run:
        return answer if run is None else dataclasses.replace(answer, notes=(*answer.notes, UNCLEAR))

    def really(pushes: list[dict[str, Any]]) -> bool:
        first, second = (put_out(p.graph, pushes, a.graph) for p in (a, b))
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
            f"neither {a.name} nor {b.name} ever puts anything out"
            if a.name != b.name
            else "neither ever puts anything out",
        )
    ]
    if implies:
        true = n.FALSE
        for slot in system.streams["a"][1]:
            true = n.or_(true, n.and_(slot.present, slot.leaves[0]))
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
    return (*domain_notes(system, [differs(system)]), *(wide_notes(graph, domain, 1, (), options) if sequence else ()))


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
