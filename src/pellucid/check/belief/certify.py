"""What a proof has to pass before it counts: a bare "unsat", and a search that says "nothing found", are never
believed.

Of a proof by SMT (an inductive invariant, or k-induction with one):

1. z3, afresh, finds every obligation to hold (`solve.certificate.check_certificate`);
2. its **premises can be met**: z3 gives a state and a push, which plain Python finds to be ones of the system, in the
   invariant;
3. what z3 was told is what the expressions say, at values of real runs, in z3's own arithmetic against Python's;
4. it is **tried** on random runs of the literal interpreter (`pellucid.check.belief.trial`);
5. **cvc5**, where it is installed, finds the same obligations to hold, from a translation of its own
   (`pellucid.check.belief.second`).  Where z3 took floats for an order (`pellucid.check.smt.order`) and cvc5 does not
   decide about their bits, it is asked what z3 was asked; all that both were told of operations is looked at with the
   values of real runs (3).

Of a complete search: the set of states that it found is closed, push by push, computed again in plain Python, and
random runs of the interpreter stay in it, step as recorded and show what was recorded.

Where one of these disagrees the answer is *unknown*, and says so: something is wrong with Pellucid or with a solver.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pellucid.check.belief.second import second_opinion
from pellucid.check.belief.straight import straight
from pellucid.check.belief.trial import ENDS, Trial, budget, try_out
from pellucid.check.explicit.program import choices_of, encode
from pellucid.check.explicit.search import Space
from pellucid.check.smt.encode import Encoding
from pellucid.check.smt.order import Ordered
from pellucid.check.system.build import System
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.expr.types import BOOL, INT
from pellucid.internal.model.budget import Budget, now
from pellucid.internal.solve.certificate import Proof, check_certificate
from pellucid.internal.solve.second import opinion_on
from pellucid.internal.solve.session import ask


@dataclass(frozen=True)
class Certified:
    """Whether a proof passed, what was done in words, and what the verdict should say besides."""

    passed: bool
    words: str = ""
    notes: tuple[str, ...] = ()


def distrust(problem: str) -> str:
    """What a verdict says where a proof did not pass."""
    return (
        f"a proof was found and is not believed, because it did not pass its check: {problem}; this is a fault of "
        "Pellucid: please report it"
    )


def certify(
    system: System,
    bad: Expr,
    proof: Proof,
    *,
    spent: float = 0.0,
    left: float | None = None,
    code: Encoding | None = None,
) -> Certified:
    """Try a proof that z3 has accepted, found in ``spent`` seconds; ``code`` is how z3 was told, else bit by bit.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> right = certify(s, n.lt(total, n.const(0)), Proof(0, (n.le(n.const(0), total),)))
    >>> right.passed, right.words
    (True, 'premises can be met; tried on ... runs of the interpreter (... pushes)...')
    >>> certify(s, n.lt(n.const(8), total), Proof(0, (n.le(total, n.const(8)),))).notes[0][:95]
    'a proof was found and is not believed, because it did not pass its check: the invariant does no'
    """
    share = budget(spent, left, least=0.06)
    trial = try_out(system, bad, proof.lemmas, seconds=share)
    if trial.problem:
        return Certified(False, notes=(distrust(trial.problem),))
    code = Encoding(system) if code is None else code
    problem = _premises(code, proof) or _as_told(code, bad, proof, trial, share / 2)
    if problem:
        return Certified(False, notes=(distrust(problem),))
    ordered = isinstance(code, Ordered)
    opinion = second_opinion(system, bad, proof, max(0.2 if ordered else 0.8, share / 2 if ordered else share))
    if ordered and opinion.word in ("did not decide", "was not asked"):
        texts: list[str] = []
        check_certificate(code.again(), bad, proof, 2.0, texts=texts)
        opinion = opinion_on(
            [("what z3 was asked", f"(set-logic ALL)\n{text}") for text in texts],
            max(0.8, share),
            " (of floats as an order)",
        )
    if opinion.word == "contradicts":
        return Certified(False, notes=(distrust(f"z3 says that {opinion.why!r} holds, and cvc5 that it does not"),))
    words = ["premises can be met", str(trial)]
    notes: tuple[str, ...] = ()
    if opinion.word == "confirms":
        words.append("confirmed by cvc5" + opinion.why)
    else:
        words.append(f"not confirmed by a second solver ({opinion.why})")
        if opinion.word == "did not decide":
            notes = (f"cvc5 did not confirm the proof {opinion.why}: it rests on z3 and on {trial.runs:,} runs",)
    return Certified(True, "; ".join(words), notes)


def _premises(code: Encoding, proof: Proof) -> str:
    """What the step of the proof takes for granted can be met: z3's model of it, looked at in Python."""
    solver, system = code.z3.Solver(), code.system
    lemma = code.term(proof.lemma)
    solver.add(*code.typing(code.state), *code.allowed(), code.assume, lemma)
    answer = ask(solver, Budget(1.0))
    if answer is None:
        return ""  # that the premises are met at values of real runs is looked at all the same
    if answer is False:
        return "its premises contradict each other"
    model = solver.model()
    values = [
        code.python(v.type, model.eval(c, model_completion=True))
        for v, c in zip((*system.state, *system.inputs), (*code.state, *code.inputs), strict=True)
    ]
    holds = isinstance(code, Ordered) or straight([proof.lemma])(values)[0]  # a number of the order may be no double
    given, guards = system.domain.values, {name: t.guards() for name, t in system.sources}
    leaves = [(v, x) for v, x in zip(system.inputs, values[len(system.state) :], strict=True) if v.role == "leaf"]
    came = {(v.of, v.at): value for v, value in leaves}
    for v, value in leaves:
        if v.type == INT and given is not None and value not in given:
            if value == 0 and not all(came.get((v.of, i)) for i in guards[v.of][v.at]):
                continue  # of what is not there
            return f"z3 takes {v.name} = {value!r} for an event, which it is not"
    return "" if holds else "z3's model of its premises is none: the invariant does not hold there"


def _as_told(code: Encoding, bad: Expr, proof: Proof, trial: Trial, seconds: float) -> str:
    """At values of real runs, what z3 was told is so: the premises hold, and the state after is the one that Python
    computes."""
    z3, system = code.z3, code.system
    end = now() + seconds
    facts = [*code.typing(code.state), *code.allowed(), code.assume, code.term(proof.lemma), z3.Not(code.term(bad))]
    variables = [*zip((*system.state, *system.inputs), (*code.state, *code.inputs), strict=True)]
    points = trial.points[:]
    random.Random(0).shuffle(points)
    for leaves, after in points:
        if now() > end:
            break
        pairs = [(c, code.value(v.type, x)) for (v, c), x in zip(variables, leaves, strict=True)]
        settled = code.settled([*facts, *code.next], pairs)
        for fact, told in zip(facts, settled, strict=False):
            if z3.is_false(told):
                return f"z3 was told something that does not hold in a real run: {_brief(fact)}"
        for v, told, value in zip(system.state, settled[len(facts) :], after, strict=False):
            if v.type not in (BOOL, INT):
                continue
            if (z3.is_int_value(told) or z3.is_true(told) or z3.is_false(told)) and code.python(v.type, told) != value:
                return f"{v.name} becomes {code.python(v.type, told)!r} for z3, and {value!r} in a real run"
    return ""


def _brief(term: Any) -> str:
    text = " ".join(str(term).split())
    return text if len(text) <= 80 else text[:79] + "…"


def certify_space(space: Space, observed: list[Expr], *, spent: float = 0.0, never: tuple[int, ...] = ()) -> Certified:
    """Try a complete search that took ``spent`` seconds; the observations with a number in ``never`` must hold nowhere.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.explicit.search import explore
    >>> from pellucid.check.system.build import build_system
    >>> s = build_system(pipeline(lambda x: x.decimate(3), x=int).graph, domain_of(range(2)))
    >>> space = explore(s, [s.present("out")])
    >>> certify_space(space, [s.present("out")]).words
    'all 9 steps computed again in Python; tried on ... runs of the interpreter (... pushes)'
    """
    share = budget(spent, least=0.02)
    again, total, problem = _closed(space, observed, share)
    if problem:
        return Certified(False, notes=(distrust(problem),))
    for k in never:
        if space.holds(k).any():
            return Certified(False, notes=(distrust("what was not to be seen was recorded"),))
    follow = _Follow(space)
    trial = try_out(space.system, None, (), seconds=share, follow=follow, observed=observed)
    if trial.problem:
        return Certified(False, notes=(distrust(trial.problem),))
    computed = f"all {total:,} steps" if again == total else f"{again:,} of {total:,} steps"
    return Certified(True, f"{computed} computed again in Python; {trial}")


def _closed(space: Space, observed: list[Expr], seconds: float) -> tuple[int, int, str]:
    """Steps of the search, computed again: how many, of how many, and what is wrong."""
    system, end = space.system, now() + seconds
    compute = straight([*system.next, *observed, system.assume])
    _, rows = choices_of(system)
    many, states = len(rows), len(system.state)
    total = space.expanded * many
    if space.expanded != space.count:
        return 0, total, "not every state that was found was gone on from"
    if space.values(0) != [v.start for v in system.state]:
        return 0, total, "the search does not begin at the start"
    order: Any = range(space.expanded)
    if total > 5000:
        order = random.Random(0).sample(order, min(space.expanded, 5000))
    done = 0
    for s in order:
        if done >= 200 and now() > end:
            break
        before = space.values(s)
        for c, row in enumerate(rows):
            try:
                found = compute([*before, *row])
            except Overflow64:
                return done, total, f"an integer leaves 64 bits after {before}"
            if space.stands is not None:
                taken = int(space.stands[s, c]) == c
                if taken and not found[-1]:
                    return done, total, f"the search went on with a push that is not assumed, from {before}"
                if not taken:  # no run has this push
                    done += 1
                    continue
            marks = sum(1 << k for k, yes in enumerate(found[states:-1]) if yes)
            if list(found[:states]) != space.values(int(space.successor[s, c])) or marks != int(space.seen[s, c]):
                return (
                    done,
                    total,
                    "the search recorded another step from "
                    f"{dict(zip((v.name for v in system.state), before, strict=True))}",
                )
            done += 1
    return done, total, ""


class _Follow:
    """A random run beside the search: at every push the state must be the one that was recorded."""

    def __init__(self, space: Space) -> None:
        self.space, self.program = space, space.program
        self.strings = {text: i for i, text in enumerate(space.program.strings)}
        self.choice = {tuple(row): c for c, row in reversed(list(enumerate(space.program.choices.tolist())))}
        self.states = len(space.system.state)
        self.at = {tuple(v.start for v in space.system.state): 0}

    def __call__(self, leaves: list[Any], after: tuple[Any, ...], observed: tuple[Any, ...]) -> str:
        space = self.space
        here = self.at.get(tuple(leaves[: self.states]))
        if here is None:
            return "a run leaves the states that the search found"
        row = tuple(
            encode(v.type, x, self.strings) for v, x in zip(space.system.inputs, leaves[self.states :], strict=True)
        )
        c = self.choice.get(row)
        if c is None:
            return "a push was not among those of the search"
        if space.stands is not None and int(space.stands[here, c]) != c:
            return ENDS  # what is assumed lets it through, but no run goes on from there
        there = int(space.successor[here, c])
        if space.values(there) != list(after):
            return "a run goes on to another state than the search"
        if sum(1 << k for k, yes in enumerate(observed) if yes) != int(space.seen[here, c]):
            return "a run shows something else than the search"
        self.at[after] = there
        return ""
