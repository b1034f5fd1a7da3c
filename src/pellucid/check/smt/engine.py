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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pellucid.check.certify import certify
from pellucid.check.explicit import computes_floats
from pellucid.check.smt.encode import (
    Encoding,
    about_constants,
    about_words,
    input_leaves,
    pushes_of,
    replay,
    with_texts,
    words_near,
)
from pellucid.check.smt.lemmas import (
    Ordered,
    bound_candidates,
    linear_lemmas,
    pair_candidates,
    sample_states,
    surviving,
    waiting_candidates,
    word_candidates,
)
from pellucid.check.system.build import System
from pellucid.check.trial_runs import DrawnPushes, straight
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.node import Expr, Overflow64
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, Type
from pellucid.internal.model import Status, now
from pellucid.internal.model.search import Budget
from pellucid.internal.solve.certificate import Induction, Proof, check_certificate, shrink, spacer
from pellucid.internal.solve.terms import Frames, ask

# Bounded search: the shortest run that breaks a property, then the smallest values in it.


@dataclass(frozen=True)
class FoundRun:
    """A run in whose last push the bad thing holds: for each push the events of the sources that are not silent."""

    trace: list[dict[str, Any]]
    smallest: bool = True  # its values were made as small as they can be
    replays: bool = True  # plain evaluation agrees (or an integer leaves 64 bits on the way: see the notes)
    notes: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        """The number of pushes."""
        return len(self.trace)


@dataclass(frozen=True)
class Nothing:
    """No run of at most ``depth`` pushes."""

    depth: int


@dataclass(frozen=True)
class Unknown:
    """The time or a bound was reached, or z3 gave up; nothing is known beyond ``depth`` pushes."""

    reason: str
    depth: int = 0


_ROUNDS = 40  # in which the real answers of functions are learnt


class BoundedSearch:
    """Looks for a run, one push deeper at a time."""

    def __init__(self, code: Encoding, bad: Expr, clock: Budget) -> None:
        self.code, self.bad, self.clock = code, bad, clock
        self.term = code.term(bad)
        self.solver = code.z3.Solver()
        self.frames = Frames(code, self.solver, start=True)
        self.depth = 0  # no run of so many pushes is bad
        self.stuck = False
        self.invented = False  # the runs that were found depend on answers of functions that are not their real ones

    def deeper(self, limit: float | None = None) -> FoundRun | None:
        """Look at runs of one push more; sets ``stuck`` where z3 has no answer."""
        if self.depth > 0 and len(self.frames.states) == self.depth:
            self.frames.extend()
        (bad,) = self.frames.at(self.depth, [self.term])
        answer = ask(self.solver, self.clock, bad, limit=limit)
        if answer is None:
            self.stuck = True
        elif not answer:
            self.solver.add(self.code.z3.Not(bad))
            self.depth += 1
        else:
            model = self._real(self.solver.model(), bad, limit)
            if model is not None:
                self.solver.add(bad)
                return self._found(model)
        return None

    def _real(self, model: Any, bad: Any, limit: float | None) -> Any:
        """A model in which the functions that are called answer as they really do; None if there is none, or none was
        found (then it is stuck)."""
        text, system = self.code.text, self.code.system
        if text is None or not text.calls:
            return model
        for i in range(_ROUNDS):
            if replay(system, self.bad, pushes_of(self.frames, system, model)) is not False:
                return model
            if i == 0:
                self.solver.add(
                    *about_constants(text, system, self.bad),
                    *about_words(text, system, words_near(system, self.bad), self.bad),
                )
            for t in range(len(self.frames.inputs)):
                self.solver.add(*text.learn(partial(self._value, model, t)))
            answer = ask(self.solver, self.clock, bad, *self._of_constants(), limit=limit) if i % 2 == 0 else None
            if not answer:  # not with the pipeline's own strings alone
                answer = ask(self.solver, self.clock, bad, limit=limit)
            if answer is False:
                self.solver.add(self.code.z3.Not(bad))
                self.depth += 1
                return None
            if answer is None:
                break
            model = self.solver.model()
        self.stuck = self.invented = True
        return None

    def _value(self, model: Any, t: int, term: Any) -> Any:
        return model.eval(self.frames.at(t, [term])[0], model_completion=True)

    def _of_constants(self) -> list[Any]:
        """That every string that comes in is one of those that the pipeline or the property names, or close to one."""
        text, z3, kinds = self.code.text, self.code.z3, [v.type for v in self.code.system.inputs]
        assert text is not None
        known = [text.value(t) for t in words_near(self.code.system, self.bad)]
        return [
            z3.Or([c == t for t in known])
            for inputs in self.frames.inputs
            for c, kind in zip(inputs, kinds, strict=True)
            if kind == STR
        ]

    def _found(self, model: Any) -> FoundRun:
        smaller = _Smaller(self.code, self.solver, self.clock, model)
        smaller.run(self.frames)
        trace = pushes_of(self.frames, self.code.system, smaller.model)
        holds = replay(self.code.system, self.bad, trace)
        # with smaller values an answer was invented
        if holds is False and smaller.model is not model and self.code.text is not None:
            trace = pushes_of(self.frames, self.code.system, model)
            holds = replay(self.code.system, self.bad, trace)
        notes = []
        if holds is None:
            notes.append("on the way an integer leaves 64 bits: an engine stops there with an overflow")
        elif not holds:
            notes.append("the run does not replay: the property looks at a value where there is no event")
        return FoundRun(trace, smaller.whole, holds is not False, tuple(notes))


class _Smaller:
    """Makes the inputs of a run as small as they can be: first silent where possible, then value by value."""

    def __init__(self, code: Encoding, solver: Any, clock: Budget, model: Any) -> None:
        self.code, self.solver, self.model = code, solver, model
        self.clock = clock.part(0.5, least=2.0)
        self.whole = True

    def run(self, frames: Frames) -> None:
        system, z3 = self.code.system, self.code.z3
        events: list[tuple[Any, Type]] = []
        for inputs in frames.inputs:
            at = 0
            for _, event in system.sources:
                if self.can(z3.Not(inputs[at])):
                    self.solver.add(z3.Not(inputs[at]))
                else:
                    self.solver.add(inputs[at])
                    kinds = [t for _, t in event.leaves()]
                    events += zip(inputs[at + 1 :], kinds, strict=False)
                at += 1 + event.width
        for leaf, t in events:
            self.leaf(leaf, t)

    def now(self, leaf: Any) -> Any:
        return self.model.eval(leaf, model_completion=True)

    def can(self, wish: Any) -> bool:
        """Whether the wish can be granted; if so it is in the model."""
        if self.code.z3.is_true(self.model.eval(wish, model_completion=True)):
            return True
        answer = ask(self.solver, self.clock, wish, limit=2.0)
        if answer:
            self.model = self.solver.model()
        self.whole = self.whole and answer is not None
        return bool(answer)

    def leaf(self, leaf: Any, t: Type) -> None:
        if t == BOOL:
            self.can(self.code.z3.Not(leaf))
        elif t == FLOAT:
            simple = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 10.0, -10.0, 100.0, 1e3)
            if not any(self.can(self.code.same(leaf, self.code.value(FLOAT, f))) for f in simple):
                self.whole = False
        elif t == STR and self.code.text is not None:
            self.text(leaf)
        else:
            self.number(leaf, t)
        self.solver.add(self.code.same(leaf, self.now(leaf)))

    def text(self, leaf: Any) -> None:
        """A short string, of letters or at least of what can be read, where there is one."""
        z3, text = self.code.z3, self.code.text
        assert text is not None
        size = len(text.python(self.now(leaf)))
        for short in range(min(size, 8)):
            if self.can(z3.Length(leaf) == short):
                break
        self.solver.add(z3.Length(leaf) == len(text.python(self.now(leaf))))
        for first, last in (("a", "c"), ("a", "z"), ("A", "Z"), (" ", "~"), (" ", "\ud7ff")):
            if self.can(z3.InRe(leaf, z3.Star(z3.Range(text.value(first), text.value(last))))):
                return

    def number(self, leaf: Any, t: Type) -> None:
        """The least absolute value, by doubling and halving; of two, the one that is not negative."""
        if self.now(leaf).as_long() == 0:
            return
        z3 = self.code.z3
        low, reach = -1, 0  # nothing is possible up to low
        while not self.can(z3.And(leaf <= reach, leaf >= -reach)):
            if reach >= abs(self.now(leaf).as_long()) or self.clock.over:
                return
            low, reach = reach, 2 * reach + 1
        high = abs(self.now(leaf).as_long())
        while high - low > 1:
            middle = (low + high) // 2
            if self.can(z3.And(leaf <= middle, leaf >= -middle)):
                high = abs(self.now(leaf).as_long())
            else:
                low = middle
        if t == INT and self.now(leaf).as_long() < 0:
            self.can(leaf == high)


# Runs that are drawn until one breaks a property: for floats, where a solver finds few.
#
# Rounding, infinities and NaN break many a property that holds of real numbers, and a run that shows it is often near
# the pipeline's own constants or the edges of doubles, where `pellucid.check.trial_runs` draws.

_FEWEST, _RUNS = 300, 4000  # however little time there is, and however much
_EVENTS, _LONG = 12, 80  # tried again and again, and how often
_SIMPLE = (0.0, 1.0, -1.0, 2.0, 10.0, 100.0)


def stumbled(system: System, bad: Expr, clock: Budget) -> list[dict[str, Any]] | None:
    """The shortest run that was drawn in whose last push ``bad`` holds; None: there was none.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.map(lambda v: v - v), x=float).graph, domain_of(None))
    >>> (value,) = s.value("out")
    >>> [[abs(push["x"]) for push in stumbled(s, n.and_(s.present("out"), n.not_(n.eq(value, value))), Budget(5.0))]]
    [[inf]]
    """
    compute = straight([*system.next, system.assume, system.partial, bad])
    drawn, many = DrawnPushes(system, [bad]), len(system.state)
    if any(v.role not in ("present", "leaf", "lost") for v in system.inputs):
        return None  # choices that no source makes cannot be replayed from what is drawn
    best: list[dict[str, Any]] | None = None
    for i in range(_RUNS):
        if (i > _FEWEST and clock.over) or (best is not None and len(best) == 1):
            break
        state: list[Any] = [v.start for v in system.state]
        trace: list[dict[str, Any]] = []
        for _ in range(min(drawn.begin(), len(best) - 1 if best is not None else 60)):
            push, inputs = drawn.draw()
            try:
                found = compute([*state, *inputs])
            except Overflow64:
                break
            if not found[many] or found[many + 1]:
                break
            trace.append(push)
            if found[-1]:
                if replay(system, bad, trace) is True:
                    best = trace
                break
            state = list(found[:many])
    return best if best is None else _simpler(system, bad, best)


def repeated(system: System, bad: Expr) -> bool:
    """Whether ``bad`` comes about when one source brings the same event again and again, and the others are silent: a
    queue that fills.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda a, b: a + b, a=float, b=float).graph, domain_of(None), 3)
    >>> repeated(s, s.overflow)
    True
    """
    if system.keys is not None or any(v.role not in ("present", "leaf", "lost") for v in system.inputs):
        return False
    compute, many = straight([*system.next, system.assume, bad]), len(system.state)
    drawn = DrawnPushes(system, [bad])
    drawn.begin()
    for _ in range(_EVENTS):
        push, _ = drawn.draw()
        for name in push:
            inputs = input_leaves(system, {name: push[name]}) if "." not in name else []
            state: list[Any] = [v.start for v in system.state]
            for _ in range(_LONG if inputs else 0):
                try:
                    found = compute([*state, *inputs])
                except Overflow64:
                    break
                if not found[many] or (list(found[:many]) == state and not found[-1]):
                    break
                if found[-1]:
                    return True
                state = list(found[:many])
    return False


def _simpler(system: System, bad: Expr, trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The run without pushes and events that can be spared, and with simple numbers where they do."""

    def better(changed: list[dict[str, Any]]) -> bool:
        return replay(system, bad, changed) is True

    for i in reversed(range(len(trace) - 1)):
        fewer = [*trace[:i], *trace[i + 1 :]]
        trace = fewer if better(fewer) else trace
    for i in range(len(trace)):
        for name, event in list(trace[i].items()):
            spared = [*trace[:i], {k: v for k, v in trace[i].items() if k != name}, *trace[i + 1 :]]
            if better(spared):
                trace = spared
            elif isinstance(event, float):
                tried = ([*trace[:i], {**trace[i], name: v}, *trace[i + 1 :]] for v in _SIMPLE if v != event)
                trace = next((t for t in tried if better(t)), trace)
    return trace


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
