"""Proofs that say nothing: a premise that never comes true, pipelines that never speak.

``G (out -> out.value > 0)`` holds of a pipeline that never puts anything out, and nobody who asked it wanted to know
that.  So of every premise of a proved formula it is asked whether there is a run in which it holds.  Random runs mostly
say so at once; where they do not, it is asked as any other question, with little time; and only where it is *proved*
that there is none, the verdict says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from pellucid.check.belief.trial import try_out
from pellucid.check.decide import Options, decide_invariant
from pellucid.check.endless.history import as_invariant
from pellucid.check.endless.unbounded import speaks_of_queues
from pellucid.check.formula import Formula, G, Not, Or, resolve
from pellucid.check.system.build import System
from pellucid.check.system.cone import cone
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr

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
            continue  # everybody sees what G (false -> p) is worth
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
    except UsageError:  # an engine cannot do what is written there: then nothing is said
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
    >>> idle_notes(s, [(s.present("out"), "it never puts anything out")], Options())
    ('it says nothing: it never puts anything out',)
    """
    for case, words in cases:
        try:
            how = _nowhere(system, case, options)
        except UsageError:
            continue
        if how is not None:
            return (f"it says nothing: {words}{how}",)
    return ()
