"""The symbolic engine: invariants of a system over large or infinite domains, by z3.

* `search` looks for the shortest run that breaks a property, then for the smallest values in it.
* `prove` looks for a proof: k-induction, helped by lemmas that it finds itself; then z3's Spacer.
* `invariant` does both by turns, depth by depth, within one time budget.

A proof is a certificate that `check_certificate` accepts, with a fresh solver and from scratch, and that `certify` does
not find wrong on runs of the interpreter or by a second solver; without it the answer is *unknown*.  z3 is loaded when
it is first used.

>>> from pellucid import pipeline
>>> from pellucid.check.system.domains import domain_of
>>> from pellucid.check.system.build import build_system
>>> from pellucid.internal.expr import node as n
>>> total = pipeline(lambda x: x.cumulate(lambda so_far, v: so_far + v, 0), x=int)
>>> system = build_system(total.graph, domain_of(range(0, 8)))
>>> out, (value,) = system.present("out"), system.value("out")
>>> search(system, n.and_(out, n.lt(n.const(9), value)), max_depth=5)
FoundRun(trace=[{'x': 3}, {'x': 7}], smallest=True, replays=True, notes=())
>>> print(prove(system, n.and_(out, n.lt(value, n.const(0)))))
(cumulate-...:state >= 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pellucid.check.belief.certify import certify
from pellucid.check.explicit.program import computes_floats
from pellucid.check.smt.encode import Encoding, replay
from pellucid.check.smt.lemmas import bound_candidates, linear_lemmas, pair_candidates, sample_states, surviving
from pellucid.check.smt.order import Ordered
from pellucid.check.smt.search import BoundedSearch, FoundRun, Nothing, Unknown
from pellucid.check.smt.stumble import stumbled
from pellucid.check.smt.text import with_texts
from pellucid.check.smt.waiting import waiting_candidates, word_candidates
from pellucid.check.system.build import System
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import BOOL
from pellucid.internal.model import Budget, Status, now
from pellucid.internal.solve.certificate import Induction, Proof, check_certificate, shrink
from pellucid.internal.solve.spacer import spacer

_BITS = 1.5  # seconds for floats bit by bit: what z3 does not decide in them it does not decide in minutes


def search(
    system: System, bad: Expr, *, max_depth: int = 20, timeout: float | None = 30.0
) -> FoundRun | Nothing | Unknown:
    """The shortest run, of at most ``max_depth`` pushes, in whose last push ``bad`` holds, with the smallest values.

    `Nothing` means that there is none so short; `Unknown` that the time was up.
    """
    _check(bad, max_depth)
    system, clock = with_texts(system, bad), Budget(timeout)
    looking = BoundedSearch(Encoding(system), bad, clock)
    while looking.depth < max_depth:
        found = looking.deeper()
        if found is not None:
            return found
        if looking.stuck:
            return Unknown(_why(clock), looking.depth)
    return Nothing(looking.depth)


def prove(system: System, bad: Expr, *, max_k: int = 10, timeout: float | None = 30.0) -> Proof | Unknown:
    """A proof that ``bad`` never holds, checked; or `Unknown` (also where ``bad`` can in fact happen)."""
    status, _, proof, notes = _both(system, bad, max_k, timeout)
    if proof is not None:
        return proof
    return Unknown("it can happen: search finds the run" if status == "refuted" else "; ".join(notes))


def invariant(
    system: System,
    good: Expr,
    *,
    max_depth: int = 20,
    timeout: float | None = 30.0,
    progress: Callable[[str], None] | None = None,
) -> tuple[Status, list[dict[str, Any]] | None, Proof | None, tuple[str, ...]]:
    """Whether ``good`` holds in every push of every run: (status, trace, proof, notes).

    The status is ``"proved"`` (with a proof), ``"refuted"`` (with the shortest trace: for each push the events of the
    sources that are not silent) or ``"unknown"``; the notes say why.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> doubles = pipeline(lambda x: (x * 2).cumulate(lambda so_far, v: so_far + v, 0), x=int)
    >>> s = build_system(doubles.graph, domain_of(None))
    >>> even = n.eq(n.binary("mod", s.value("out")[0], n.const(2)), n.const(0))
    >>> status, trace, proof, notes = invariant(s, n.or_(n.not_(s.present("out")), even))
    >>> status, str(proof)
    ('proved', '(cumulate-...:state % 2 == 0)')
    """
    return _both(system, n.not_(good), max_depth, timeout, progress)


def _both(
    system: System, bad: Expr, max_depth: int, timeout: float | None, progress: Callable[[str], None] | None = None
) -> tuple[Status, list[dict[str, Any]] | None, Proof | None, tuple[str, ...]]:
    _check(bad, max_depth)
    system, clock = with_texts(system, bad), Budget(timeout)
    tell = progress or (lambda text: None)
    if not computes_floats(system, [bad]) or system.texts:  # text that becomes a float is no number of the order
        return _by_turns(Encoding(system), bad, max_depth, clock, tell)
    tell("floats as an order")
    found = _by_turns(Ordered(system, [bad]), bad, max_depth, clock.part(0.5), tell)
    if found[0] != "unknown":
        return found
    trace = stumbled(system, bad, clock.part(0.1))
    if trace is not None:
        return "refuted", trace, None, ()
    tell("floats bit by bit")
    return _by_turns(
        Encoding(system),
        bad,
        max_depth,
        Budget(min(_BITS, _BITS if clock.end is None else clock.left() or 0.0)),
        tell,
        search=0.9,
    )


def _by_turns(
    code: Encoding, bad: Expr, max_depth: int, clock: Budget, tell: Callable[[str], None], search: float = 0.4
) -> tuple[Status, list[dict[str, Any]] | None, Proof | None, tuple[str, ...]]:
    """Search and proofs by turns, depth by depth; a search takes this share of what is left at most."""
    looking = BoundedSearch(code, bad, clock)
    proofs = _Proofs(code, bad, clock, tell)
    for depth in range(1, max_depth + 1):
        tell(f"depth {depth}")
        if not looking.stuck:
            # Base cases get easier to answer once there are lemmas, but never wait for one for ever.
            found = looking.deeper(limit=_share(clock, search))
            if found is not None and isinstance(code, Ordered) and replay(code.system, bad, found.trace) is not True:
                looking.stuck = True  # a model that is none of doubles: there may be a proof all the same
            elif found is not None:
                if found.replays:
                    return ("refuted", found.trace, None, found.notes)
                return ("unknown", None, None, found.notes)
        proof = proofs.attempt(depth, looking.depth)
        if proof is not None:
            return "proved", None, proof, proof.notes
        if proofs.distrusted:
            return "unknown", None, None, proofs.distrusted
        if clock.over or (looking.stuck and proofs.spent):
            break
    while not proofs.spent and not clock.over:
        proof = proofs.attempt(max_depth, looking.depth)
        if proof is not None:
            return "proved", None, proof, proof.notes
        if proofs.distrusted:
            return "unknown", None, None, proofs.distrusted
    notes = [f"nothing bad within {looking.depth} pushes, and no proof was found"]
    if looking.invented and code.text is not None:
        names = ", ".join(dict.fromkeys(f"{e.value.name}()" for e in code.text.calls))
        notes.append(
            f"it could be refuted if {names} answered otherwise than in truth; no run with real answers was found"
        )
    elif looking.stuck or clock.over:
        notes.append(_why(clock))
    return "unknown", None, None, (*notes, *proofs.notes)


class _Proofs:
    """Ways to a proof, tried in turn: each adds lemmas, and starts a new induction over all of them."""

    def __init__(self, code: Encoding, bad: Expr, clock: Budget, tell: Callable[[str], None]) -> None:
        self.code, self.bad, self.clock, self.tell = code, bad, clock, tell
        self.lemmas: list[Expr] = []
        self.induction = Induction(code, bad, (), clock)
        self.notes: list[str] = []
        self.distrusted: tuple[
            str, ...
        ] = ()  # a proof that z3 accepts and that is wrong: no other is worth looking for
        self.spent = False
        self.started = now()
        self._plan = self._stages()

    def attempt(self, depth: int, base: int) -> Proof | None:
        """Try what is due at this depth, given that the first ``base`` pushes are known to be good."""
        if not self.spent and (self.induction.stuck or self.induction.k > 0):
            suggested = next(self._plan, None)
            self.spent = suggested is None
            if isinstance(suggested, Proof):
                return suggested
        while self.induction.k <= min(base, depth) and not self.induction.stuck and not self.clock.over:
            proof = self.induction.deeper(limit=_share(self.clock, 0.25))
            if proof is not None:
                return self._checked(replace(proof, lemmas=tuple(self.lemmas)))
        return None

    def _stages(self) -> Iterator[Proof | bool]:
        system, clock = self.code.system, self.clock
        states = sample_states(system, [self.bad], clock=clock.part(0.1, 1.0))
        self.tell("lemmas: bounds")
        candidates = bound_candidates(system, self.bad, states)
        yield self._add(surviving(self.code, candidates, [], clock.part(0.2, 2.0)))
        if some := [*word_candidates(system, self.bad, states), *waiting_candidates(system, self.bad, states)]:
            self.tell("lemmas: names, and what waits")
            yield self._add(surviving(self.code, some, self.lemmas, clock.part(0.2, 2.0)))
        self.tell("lemmas: linear relations")
        yield self._add(linear_lemmas(self.code, states, self.lemmas, clock.part(0.25, 2.0)))
        self.tell("lemmas: pairs")
        yield self._add(
            surviving(
                self.code,
                pair_candidates(system, states, floats=isinstance(self.code, Ordered)),
                self.lemmas,
                clock.part(0.2, 2.0),
            )
        )
        if system.domain.modulus is None:
            self.tell("lemmas: products")
            yield self._add(linear_lemmas(self.code, states, self.lemmas, clock.part(0.25, 2.0), products=True))
        self.tell("spacer")
        proof = spacer(self.code, self.bad, self.lemmas, clock.part(0.4, 2.0))
        proof = self._checked(proof) if proof is not None else None
        yield proof if proof is not None else True

    def _add(self, found: list[Expr]) -> bool:
        new = [e for e in found if e not in self.lemmas]
        if new:
            self.lemmas += new
            self.induction = Induction(self.code, self.bad, self.lemmas, self.clock)
        return True

    def _checked(self, proof: Proof) -> Proof | None:
        proof = shrink(self.code, self.bad, proof, self.clock)
        left = self.clock.left()
        again = self.code.again()
        if check_certificate(again, self.bad, proof, None if left is None else max(2.0, left)):
            certified = certify(
                again.system,
                self.bad,
                proof,
                spent=now() - self.started,
                left=self.clock.left(),
                code=self.code.again(),
            )
            if certified.passed:
                return replace(proof, checked=certified.words, notes=certified.notes)
            self.distrusted = certified.notes
            return None
        self.notes.append(f"a proof by {proof.found_by} did not pass its check, and does not count")
        return None


def _share(clock: Budget, share: float) -> float | None:
    left = clock.left()
    return None if left is None else max(0.2, left * share)


def _why(clock: Budget) -> str:
    return "the time was up" if clock.over else "z3 did not decide it in its share of the time"


def _check(bad: Expr, depth: int) -> None:
    if bad.type != BOOL:
        raise UsageError(f"a property is true or false, found one of type {bad.type}")
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise UsageError(f"the depth is a whole number of at least 1, found {depth!r}")
