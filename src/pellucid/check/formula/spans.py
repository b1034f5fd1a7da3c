"""How many pushes together show that a formula is broken: so many keys have to be tracked at once (see
`pellucid.check.system.tracking`).

``G (out -> X !out)`` is broken in two pushes that follow each other.  ``G (out -> Y O paid)`` is broken in **one**,
before which nothing was paid: a push in which nothing was paid stays such a one if the events of other keys are left
out of the run, for then it is silent.  ``G (shipped -> H !shipped)`` is broken in two, however far apart.  So for a
formula of ``X`` and the past, to be broken in some push,

* an atom is looked at in that push, and ``X`` and ``Y`` move it;
* ``O p`` needs one push with ``p``, and ``p S q`` one with ``q``, wherever it is;
* what has to hold in **all** pushes before (``H p``, ``!O p``, the ``p`` of ``p S q``) needs none, if it holds in
  silence.  It must speak of single pushes, and, where a push may have events of several sources, only say that
  something is not there: then some of them may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.check.endless.history import pieces
from pellucid.check.formula import CTL, LTL, And, Formula, Not, Or, is_invariant, terms
from pellucid.check.formula.nodes import Some
from pellucid.check.formula.terms import Before, Flag, Length, Ref
from pellucid.internal.graph.model import Graph


@dataclass(frozen=True)
class Span:
    """So many pushes; ``thinned``: only if the events of other keys may be left out of a run."""

    pushes: int
    thinned: bool = False


def looks_at(f: Formula) -> int | None:
    """How many pushes in a row show that a formula is broken; None: any number."""
    if is_invariant(f) is not None:
        return 1
    found = pieces(f)
    if found is None:
        return None
    rows = [row for piece in found if (row := _row(piece)) is not None]
    return max((last - first + 1 for first, last in rows), default=1) if len(rows) == len(found) else None


def _row(f: Formula) -> tuple[int, int] | None:
    """The first and the last push that a formula speaks of, counted from now; None: it has no first."""
    if f.op in ("atom", "true", "false"):
        return 0, 0
    if f.op in ("O", "H", "S"):
        return None
    inner = [row for a in f.args if (row := _row(a)) is not None]
    if len(inner) < len(f.args):
        return None
    first, last = min(a for a, _ in inner), max(b for _, b in inner)
    moved = {"X": 1, "Y": -1}.get(f.op, 0)
    return first + moved, last + moved


def span_of(f: Formula, graph: Graph) -> Span | None:
    """The pushes that show that a formula about a pipeline is broken; None: any number.

    >>> from pellucid import pipeline
    >>> from pellucid.check.formula.parse import parse
    >>> p = pipeline(lambda x: x.key_by(lambda v: v).decimate(2), x=int)
    >>> formulas = "G (out -> X !out)", "G (out -> Y O x.value > 3)", "G (out -> X G !out)"
    >>> [span_of(parse(text), p.graph) for text in formulas]
    [Span(pushes=2, thinned=False), Span(pushes=1, thinned=True), Span(pushes=2, thinned=True)]
    >>> span_of(parse("G (out -> Y O !x)"), p.graph), span_of(parse("G F out"), p.graph)
    (None, None)
    """
    pushes = looks_at(f)
    if pushes is not None:
        return Span(pushes)
    # what failed, and what waits, may be under a key of an earlier push
    if any(isinstance(t, (Flag, Length)) for t in terms(f)):
        return None
    needs = [_Broken(graph).needs(piece, False) for piece in pieces(f) or [f]]
    return (
        None if None in needs else Span(max((_sum(need) for need in needs if need is not None), default=1) or 1, True)
    )


@dataclass(frozen=True)
class _Need:
    """Pushes at these distances from one, and so many others."""

    at: frozenset[int] = frozenset()
    others: int = 0


def _sum(need: _Need) -> int:
    return len(need.at) + need.others


class _Broken:
    """The pushes that it takes so that a formula holds, or does not, in some push of a run and of the same run with
    less in it."""

    def __init__(self, graph: Graph) -> None:
        self.streams = {node.id for node in graph.nodes} | {name for name, _ in graph.outputs} | {"in", "out", "value"}
        self.sources = {graph.nodes[i].id for i in graph.sources}
        self.one = len(graph.sources) == 1

    def needs(self, f: Formula, wanted: bool) -> _Need | None:
        if f.op in ("true", "false"):
            return _Need()
        if f.op == "atom":
            return _Need(frozenset((0,)))
        a = f.args[0]
        match f.op:
            case "!":
                return self.needs(a, not wanted)
            case "->":
                return self.needs(Or(Not(a), f.args[1]), wanted)
            case "<->":
                return self.needs(And(Or(Not(a), f.args[1]), Or(a, Not(f.args[1]))), wanted)
            case "&" | "|":
                parts = [self.needs(part, wanted) for part in f.args]
                others = [part.others for part in parts if part is not None]
                if None in parts:
                    return None
                at = frozenset(i for part in parts if part is not None for i in part.at)
                return _Need(at, sum(others) if (f.op == "&") == wanted else max(others))
            case "X" | "Y":
                inner = self.needs(a, wanted)
                if inner is None:
                    return None
                return _Need(frozenset(i + (1 if f.op == "X" else -1) for i in inner.at), inner.others)
            case "O" | "H":
                if (f.op == "O") == wanted:
                    return self.somewhere(a, wanted)
                return _Need() if self.lasts(a, wanted) else None
            case "S":
                p, q = f.args
                if wanted:
                    return self.somewhere(q, True) if self.lasts(p, True) else None
                # q never, or not since p failed
                return self.somewhere(And(Not(p), Not(q)), True) if self.lasts(q, False) else None
        return None

    def somewhere(self, f: Formula, wanted: bool) -> _Need | None:
        inner = self.needs(f, wanted)
        return None if inner is None else _Need(others=_sum(inner))

    def lasts(self, f: Formula, wanted: bool) -> bool:
        """Whether what holds in every push of a run still does when events are left out of it."""
        if any(part.op in CTL | LTL for part in f.walk()) or not all(map(self.falls, f.atoms())):
            return False
        return self.silent(f) == wanted and (self.one or self.only(f, not wanted))

    def silent(self, f: Formula) -> bool:
        """The value of a formula about one push where nothing is there."""
        parts = [self.silent(a) for a in f.args]
        match f.op:
            case "!":
                return not parts[0]
            case "&":
                return all(parts)
            case "|":
                return any(parts)
            case "->":
                return not parts[0] or parts[1]
            case "<->":
                return parts[0] == parts[1]
        return f.op == "true"

    def only(self, f: Formula, wanted: bool) -> bool:
        """Whether atoms help a formula to hold (or not to), never the other way."""
        match f.op:
            case "!":
                return self.only(f.args[0], not wanted)
            case "->":
                return self.only(f.args[0], not wanted) and self.only(f.args[1], wanted)
            case "<->":
                return False
            case "atom":
                return wanted and self.shrinks(f)
        return all(self.only(a, wanted) for a in f.args)

    def falls(self, atom: Formula) -> bool:
        """Whether an atom is false where the streams are silent of which it speaks."""
        found = list(terms(atom))
        if any(isinstance(t, Before) or (isinstance(t, Ref) and t.path[:1] == ("count",)) for t in found):
            return False
        return any(isinstance(t, Ref) and t.name in self.streams for t in found)

    def shrinks(self, atom: Formula) -> bool:
        """Whether an atom that is false stays so where events are left out: of a source, which has one at most, or that
        any is there."""
        refs = [t for t in terms(atom) if isinstance(t, Ref) and t.name in self.streams]
        return isinstance(atom.body, Some) or all(not t.path or t.name in self.sources for t in refs)
