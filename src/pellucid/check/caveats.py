"""How soon an integer can leave 64 bits: never, after very many pushes, or in a run that is found by making it.

* `pushes_before` bounds the size of every integer from the expressions alone.  Where those that grow do so by steps (a
  count, a sum of small numbers), it takes at least so many pushes; what is doubled or squared has no such bound.
* `long_run` makes runs: the same push again and again, and the push that makes the numbers largest.  What doubles
  leaves 64 bits after 63 of them, which no search for a shortest run looks at.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pellucid.check.answer import Answer, are_events
from pellucid.check.decide import Options, decide_invariant
from pellucid.check.formula import Formula, G, Not, Or, is_invariant, resolve
from pellucid.check.history import as_invariant
from pellucid.check.side_by_side import side_by_side
from pellucid.check.smt.encode import Encoding
from pellucid.check.smt.engine import FoundRun, Nothing, search
from pellucid.check.system.build import System, build_system, cone
from pellucid.check.system.domains import Domain
from pellucid.check.trial_runs import DrawnPushes, straight, try_out
from pellucid.check.unbounded import Systems, decide_about, speaks_of_queues
from pellucid.errors import DataError, IntOverflow, StepError, UsageError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, Overflow64, walk
from pellucid.internal.expr.types import INT, INT_MAX
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.search import Budget
from pellucid.internal.model.sheet import event_text
from pellucid.internal.solve.terms import ask

_Size = tuple[float, float]  # (a, c): an integer is at most a * R + c, where R is the largest of those that grow
_ANY: _Size = (math.inf, math.inf)
_LONG = 400  # pushes of one run
_KINDS = 12  # of pushes


def pushes_before(system: System, wide: Expr) -> float | None:
    """How many pushes it takes at least until an integer leaves 64 bits; infinity where none ever does, None where that
    is not known.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> def far(f, ints):
    ...     s = build_system(pipeline(f, x=int).graph, domain_of(ints), strict=True)
    ...     return pushes_before(s, s.wide)
    >>> far(lambda x: x.trim(1) * x, range(100)), far(lambda x: x * x, None)
    (inf, None)
    >>> far(lambda x: x.cumulate(lambda t, v: t + v, start=0), range(9)) > 10**17
    True
    >>> far(lambda x: x.cumulate(lambda t, v: t + t + v, start=0), range(9)) is None
    True
    """
    given = 2**63 if system.domain.values is None else max(map(abs, system.domain.span or (0,)))
    own = [i for i, v in enumerate(system.state) if v.type == INT]
    fixed: dict[int, float] = {
        i: float((system.state[i].size or 1) - 1) for i in own if system.state[i].size is not None
    }
    free = [i for i in own if i not in fixed]
    bound = {i: float(abs(system.state[i].start)) for i in free}
    for _ in range(len(free) + 2):  # what is only handed on is as large as what comes in
        found = _sizes(system, [system.next[i] for i in free], fixed | bound, given, {})
        bound = {i: max(bound[i], c) for i, (_, c) in zip(free, found, strict=True)}
    growing: set[int] = set()
    while True:
        kept = fixed | {i: c for i, c in bound.items() if i not in growing}
        sizes = dict(
            zip(
                free,
                _sizes(system, [system.next[i] for i in free], kept, given, dict.fromkeys(growing, (1.0, 0.0))),
                strict=True,
            )
        )
        more = {i for i in free if i not in growing and (sizes[i][0] > 0 or sizes[i][1] > bound[i])}
        if not more:
            break
        growing |= more
    if any(sizes[i][0] > 1 for i in growing):
        return None
    step = max((sizes[i][1] for i in growing), default=0.0)
    start = max((float(abs(system.state[i].start)) for i in growing), default=0.0)
    far = math.inf
    watched = [e.args[0] for e in walk(wide) if e.op == "overflows"]
    if any(e.type != INT for e in watched) or not watched:
        return None
    for a, c in _sizes(system, watched, kept, given, dict.fromkeys(growing, (1.0, 0.0))):
        if a == 0:
            far = far if c < INT_MAX / 2 else 0.0
        else:
            far = min(far, ((INT_MAX / 2 - c) / a - start) / max(step, 1.0))
    return far if far > 0 else None


def _sizes(
    system: System, roots: Sequence[Expr], kept: Mapping[int, float], given: float, growing: Mapping[int, _Size]
) -> list[_Size]:
    """How large these integers can be."""
    made: dict[int, _Size] = {}
    states = len(system.state)
    for e in walk(*roots):
        if e.type != INT:
            continue
        if e.op == "var":
            variable = (*system.state, *system.inputs)[e.value]
            here = float(variable.size - 1) if variable.size is not None else given
            made[id(e)] = growing.get(e.value) or (0.0, kept[e.value] if e.value < states else here)
        elif e.op == "const":
            made[id(e)] = (0.0, float(abs(e.value)))
        else:
            made[id(e)] = _size(e, [made[id(a)] for a in e.args if a.type == INT])
    return [made[id(e)] for e in roots]


def _size(e: Expr, args: list[_Size]) -> _Size:
    if e.op in ("int_of_bool", "raise"):
        return (0.0, 1.0)
    if math.isinf(sum(a + c for a, c in args)):
        return _ANY
    if e.op in ("neg", "abs", "after", "shr"):
        return args[-1] if e.op == "after" else args[0]
    if e.op == "invert":
        return (args[0][0], args[0][1] + 1)
    if e.op == "floordiv":
        return args[0]
    if e.op == "mod":
        return args[1]
    if e.op == "ite":
        return (max(a for a, _ in args), max(c for _, c in args))
    if e.op in ("add", "sub"):
        return (sum(a for a, _ in args), sum(c for _, c in args))
    if e.op in ("band", "bor", "bxor"):  # at most twice as large as the larger of the two
        return (2 * max(a for a, _ in args), 2 * max(c for _, c in args) + 1)
    if e.op == "mul" and not (args[0][0] and args[1][0]):
        (a, c), (b, d) = args
        return (a * d + b * c, c * d)
    if e.op == "shl" and e.args[1].op == "const" and 0 <= e.args[1].value < 64:
        return (args[0][0] * 2.0 ** e.args[1].value, args[0][1] * 2.0 ** e.args[1].value)
    return _ANY


def long_run(system: System, wide: Expr, graph: Graph) -> list[dict[str, Any]] | None:
    """Pushes after which the interpreter stops with an overflow, of the runs that were made; None: none of them did.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> doubles = pipeline(lambda x: x.cumulate(lambda t, v: t + t + v, start=0), x=int).graph
    >>> s = build_system(doubles, domain_of({2}), strict=True)
    >>> len(long_run(s, s.wide, doubles))
    63
    """
    drawn = DrawnPushes(system, [wide])
    drawn.begin()
    kinds: dict[str, tuple[dict[str, Any], list[Any]]] = {}
    for _ in range(20 * _KINDS):
        push, leaves = drawn.draw()
        if push and not any(name.startswith("lost.") for name in push):
            kinds.setdefault(repr(leaves), (push, leaves))
        if len(kinds) == _KINDS:
            break
    compute = straight([*system.next, wide, system.assume])
    large = [i for i, v in enumerate(system.state) if v.type == INT and v.size is None]
    chosen = list(kinds.values())
    for some in ([kind] for kind in chosen) if len(chosen) > 1 else ():
        found = _made(system, compute, large, some, graph)
        if found is not None:
            return found
    return _made(system, compute, large, chosen, graph)


def _made(
    system: System, compute: Any, large: list[int], kinds: Sequence[tuple[dict[str, Any], list[Any]]], graph: Graph
) -> list[dict[str, Any]] | None:
    """A run that takes each time the push after which the numbers are largest."""
    state: list[Any] = [v.start for v in system.state]
    pushes: list[dict[str, Any]] = []
    for _ in range(_LONG):
        best, most, wide = None, -1, False
        for push, leaves in kinds:
            try:
                *after, leaves_64_bits, assumed = compute([*state, *leaves])
            except Overflow64:
                continue
            size = sum(abs(after[i]) for i in large)
            if assumed and (size > most or leaves_64_bits):
                best, most, wide = (push, after), size, bool(leaves_64_bits)
                if wide:
                    break
        if best is None or (len(kinds) == 1 and best[1] == state):
            return None
        pushes.append(best[0])
        if wide:
            return pushes if _overflows(graph, pushes) else None
        state = best[1]
    return None


def _overflows(graph: Graph, pushes: Sequence[dict[str, Any]]) -> bool:
    """Whether the interpreter says so."""
    run = Interpreter(graph)
    try:
        for push in pushes:
            run.push(push)
    except IntOverflow:
        return True
    except (StepError, DataError):
        return False
    return False


# Integers that leave 64 bits: a failure that ``failed`` knows about, and a word for verdicts over exact integers.
#
# Checks reason over exact integers, because that is simpler and decides more. A run of the real pipeline stops with an
# overflow where an integer leaves 64 bits. So
#
# * a question that mentions ``failed`` is asked of the strict system, in which leaving 64 bits is a failure;
# * a property that is proved over exact integers says so if a run leaves 64 bits, or if that was not found out; it says
#   nothing where that takes a billion pushes or more;
# * two pipelines that are compared must leave 64 bits in the same pushes: what is found over exact integers is asked of
#   64 bits as well;
# * a sum of small numbers leaves 64 bits only after more pushes than any run has. That is neither refuted (no run
#   could be shown) nor proved; it is *bounded*, by the number of pushes that it takes at least.

_HALF = 2**62
_FEW = 6  # pushes that are searched for a run that leaves 64 bits
_MANY = 10**9  # pushes: beyond, no note is made
_SHOWN = 6  # pushes, or groups of equal ones, of such a run


def decide_failing(systems: Systems, f: Formula, options: Options) -> Answer:
    """A formula that speaks of failures, leaving 64 bits among them."""
    strict, resolved = systems.of(f, strict=True)
    far = pushes_at_least(strict) if options.engine == "auto" and is_invariant(resolved) is not None else None
    if far is None:
        return decide_about(systems, f, options, strict=True)
    # Leaving 64 bits takes more pushes than any run has: what is found quickly counts, else exact integers decide about
    # the rest.
    quick = dataclasses.replace(
        options, timeout=min(options.left or 5.0, 5.0), max_states=min(options.max_states, 50_000)
    )
    answer = decide_about(systems, f, quick, strict=True)
    if answer.status != "unknown":
        return answer
    answer = decide_about(systems, f, options)
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


def run_beyond(systems: Systems, options: Options) -> Sequence[dict[str, Any]] | None:
    """A run in which an integer leaves 64 bits; an empty one, where none was found and there may be one; None, if no
    run of fewer than a billion pushes does."""
    if systems.domain.modulus is not None or importlib.util.find_spec("z3") is None:
        return None
    strict = build_system(systems.graph, systems.domain, systems.queue, systems.lossy, strict=True)
    small, (wide,) = cone(strict, [strict.wide], all_inputs=True)
    if wide.op == "const" or (pushes_before(small, wide) or 0) >= _MANY:
        return None
    try:
        found = search(small, wide, max_depth=_FEW, timeout=min(1.5, options.left or 1.5))
    except UsageError:  # bits, which z3 is not asked about
        found = None
    if isinstance(found, FoundRun) and found.replays:
        return found.trace
    run = long_run(small, wide, systems.graph)
    if run is not None:
        return run
    far = pushes_at_least(strict) if isinstance(found, Nothing) else None
    return None if far is not None and far >= _MANY else ()


def wide_notes(systems: Systems, options: Options) -> tuple[str, ...]:
    """A note for a property that is proved over exact integers, unless no run of fewer than a billion pushes leaves 64
    bits; pushes that come again and again are counted."""
    run = run_beyond(systems, options)
    if run is None:
        return ()
    if not run:
        return (UNCLEAR,)
    sources = {systems.graph.nodes[i].id for i in systems.graph.sources}
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


# Proofs that say nothing: a premise that never comes true, pipelines that never speak.
#
# ``G (out -> out.value > 0)`` holds of a pipeline that never emits anything, which is not what was meant by asking
# it. So of every premise of a proved formula it is asked whether there is a run in which it holds. Random runs mostly
# say so at once; where they do not, it is asked as any other question, with little time; and only where it is *proved*
# that there is none, the verdict says so.

_SECONDS = 1.0  # for each premise that no random run shows
_MOST = 6  # premises of a formula that are asked about
_INWARD = ("G", "F", "X", "U", "R", "W", "H", "O", "Y", "S", "AG", "AF", "AX", "AU", "EG", "EF", "EX", "EU", "&", "|")


def premises(f: Formula) -> list[Formula]:
    """What a formula takes for granted somewhere: the left sides of its implications, as they are written; of ``<->``,
    that a side holds.

    >>> from pellucid.check.formula.parse import parse
    >>> [str(p) for p in premises(parse("G (out & x.value > 3 -> X (full -> F out)) & !(x -> out)"))]
    ['out & x.value > 3', 'full']
    """
    return list(dict.fromkeys(_premises(f)))


def _premises(f: Formula) -> Iterator[Formula]:
    if f.op == "->":
        yield f.args[0]
        yield from _premises(f.args[1])
    elif f.op == "<->":
        yield Or(*f.args)
    elif f.op in _INWARD:
        for part in f.args:
            yield from _premises(part)


def vacuity_notes(system: System, f: Formula, options: Options) -> tuple[str, ...]:
    """A word for each premise of a proved formula that never holds; within bounds of queues only where the formula
    speaks of them.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.formula.parse import parse
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.filter(lambda v: v > v + 1), x=int).graph, domain_of(None))
    >>> vacuity_notes(s, parse("G (out -> out.value = 7)"), Options())
    ('it says nothing: out never holds, so what follows from it is never asked for',)
    >>> vacuity_notes(s, parse("G (x -> !out)"), Options())
    ()
    """
    out, bounded = [], speaks_of_queues(f)
    for premise in premises(f)[:_MOST]:
        if not premise.atoms():
            continue  # that G (false -> p) is empty is plain to see
        how = _never(system, premise, options, bounded)
        if how is not None:
            least = next((part for part in _parts(premise) if _never(system, part, options, bounded) == how), premise)
            said = f"{least} never holds"
            if premise.op == "|" and premise not in list(f.walk()):
                said = "neither side of <-> ever holds"
            out.append(f"it says nothing: {said}{how}, so what follows from it is never asked for")
    return tuple(dict.fromkeys(out))


def _parts(f: Formula) -> list[Formula]:
    """What all has to hold, part by part; nothing where it is one."""
    if f.op != "&":
        return []
    return [p for part in f.args for p in (_parts(part) or [part]) if p.atoms()]


def _never(system: System, f: Formula, options: Options, bounded: bool) -> str | None:
    """Whether it is proved that a formula never holds: ``""``, or within which bounds; None where it may."""
    try:
        made = as_invariant(system, resolve(G(Not(f)), system))
        return _nowhere(made[0], n.not_(made[1]), options, bounded) if made is not None else None
    except UsageError:  # an engine cannot do what is written there: then there is no note
        return None


def _nowhere(system: System, aim: Expr, options: Options, bounded: bool = False) -> str | None:
    stops = system.overflow
    small, (wanted, over) = cone(system, [aim, stops], all_inputs=True)
    if wanted.op == "const" and wanted.value:
        return None
    # runs of the system itself: what they show is possible, no more is claimed of it
    alone = dataclasses.replace(small, graph=None)
    found, stopped = try_out(alone, seconds=0.02, questions=[wanted, over], most=150).seen
    if found:
        return None
    quick = dataclasses.replace(
        options,
        timeout=min(options.left or _SECONDS, _SECONDS),
        max_states=min(options.max_states, 50_000),
        progress=None,
    )
    if not stopped and decide_invariant(system, n.not_(n.or_(aim, stops)), quick).status == "proved":
        return ""
    if not bounded or decide_invariant(system, n.not_(aim), quick).status != "proved":
        return None  # longer queues may show it
    sizes = sorted(set(system.bounds.values()))
    return f" within queues of {' and '.join(map(str, sizes))} event(s)"


def idle_notes(system: System, cases: Sequence[tuple[Expr, str]], options: Options) -> tuple[str, ...]:
    """The words of the first case that never comes about, of those that a proof needs to say anything.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.filter(lambda v: v > v + 1), x=int).graph, domain_of(None))
    >>> idle_notes(s, [(s.present("out"), "it never emits anything")], Options())
    ('it says nothing: it never emits anything',)
    """
    for case, words in cases:
        try:
            how = _nowhere(system, case, options)
        except UsageError:
            continue
        if how is not None:
            return (f"it says nothing: {words}{how}",)
    return ()
