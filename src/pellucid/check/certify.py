"""What an answer has to pass before it is believed: proofs are tried, counterexamples are run."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.check.explicit import Space, choices_of, encode
from pellucid.check.smt.encode import Encoding, calls_in, known_answers
from pellucid.check.smt.lemmas import Ordered
from pellucid.check.system.build import System
from pellucid.check.trial_runs import ENDS, Trial, budget, straight, try_out
from pellucid.internal.expr.node import Expr, Overflow64, walk
from pellucid.internal.expr.rewrite import Pure
from pellucid.internal.expr.types import BOOL, FLOAT, INT, INT_MAX, INT_MIN, STR, EnumType, Type, simplest
from pellucid.internal.model.search import Budget, now
from pellucid.internal.solve.certificate import Opinion, Proof, check_certificate, has_cvc5, opinion_on
from pellucid.internal.solve.terms import ask

# Systems and what a proof owes, as SMT-LIB text: read from the expressions, not from what z3 was told.
#
# `pellucid.check.smt.encode` says the same to z3; the two share no line, so that a mistake in one of them shows as a
# disagreement.


class NotWritten(Exception):  # noqa: N818
    """This cannot be said in the part of SMT-LIB that is used here."""


_INFIX = {
    "add": "(+ {} {})", "sub": "(- {} {})", "mul": "(* {} {})", "neg": "(- {})", "abs": "(ite (< {0} 0) (- {0}) {0})",
    "invert": "(- (- {}) 1)", "floordiv": "(ite (> {1} 0) (div {0} {1}) (ite (< {1} 0) (div (- {0}) (- {1})) 0))",
    "mod": "(ite (> {1} 0) (mod {0} {1}) (ite (< {1} 0) (- (mod (- {0}) (- {1}))) 0))",
}  # fmt: skip
_REAL = {
    "add": "(fp.add RNE {} {})", "sub": "(fp.sub RNE {} {})", "mul": "(fp.mul RNE {} {})",
    "truediv": "(fp.div RNE {} {})", "neg": "(fp.neg {})", "abs": "(fp.abs {})", "sqrt": "(fp.sqrt RNE {})",
}  # fmt: skip
_LOGIC = {"and": "(and {} {})", "or": "(or {} {})", "not": "(not {})", "ite": "(ite {} {} {})"}
_ORDER = {"eq": "(fp.eq {} {})", "lt": "(fp.lt {} {})", "le": "(fp.leq {} {})"}
_TEXT = {
    "length": "(str.len {})", "concat": "(str.++ {} {})", "starts": "(str.prefixof {1} {0})",
    "ends": "(str.suffixof {1} {0})", "holds": "(str.contains {} {})", "find": "(str.indexof {} {} 0)",
    "part": "(str.substr {0} {1} (- {2} {1}))",
}  # fmt: skip
_WHOLE = {"eq": "(= {} {})", "lt": "(< {} {})", "le": "(<= {} {})"}


def obligations(system: System, bad: Expr, proof: Proof) -> list[tuple[str, str]]:
    """What has to be impossible if the proof is one: each by its name, as a text that must not be satisfiable.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> [name for name, _ in obligations(s, n.lt(total, n.const(0)), Proof(0, (n.le(n.const(0), total),)))]
    ['it holds at the start', 'a push keeps it', 'it excludes what is bad']
    """
    lemma = proof.lemma
    out = [
        ("it holds at the start", _Text(system, True).push().claim(0, lemma, False).done()),
        ("a push keeps it", _Text(system, False).push().claim(0, lemma, True).push().claim(1, lemma, False).done()),
    ]
    for t in range(proof.k):
        text = _Text(system, True)
        for _ in range(t + 1):
            text.push()
        out.append((f"nothing bad in push {t + 1}", text.claim(t, bad, True).done()))
    text = _Text(system, False)
    for t in range(proof.k + 1):
        text.push().claim(t, lemma, True).claim(t, bad, t == proof.k)
    if proof.simple:
        for t in range(1, proof.k + 1):
            for before in range(t):
                text.differ(before, t)
    return [*out, ("it excludes what is bad", text.done())]


class _Text:
    """Pushes in a row as declarations and assertions."""

    def __init__(self, system: System, start: bool) -> None:
        self.system, self.lines = system, ["(set-logic ALL)"]
        self.states: list[list[str]] = []
        self.inputs: list[list[str]] = []
        self._made: dict[tuple[int, int], str] = {}
        self._functions: dict[Pure, str] = {}
        for f, given, failed, value in known_answers(system) if system.texts else ():
            self._answer(f, calls_in(system)[f], given, failed, value)
        if start:
            self.states.append([_value(v.type, v.start) for v in system.state])
        else:
            self.states.append([self._declare(f"s{i}", v.type) for i, v in enumerate(system.state)])

    def push(self) -> _Text:
        """One more push: its inputs; from the second on, the state is the one after the push before."""
        t = len(self.inputs)
        if t:
            self.states.append([self.term(t - 1, e) for e in self.system.next])
        self.inputs.append([self._declare(f"i{i}_{t}", v.type) for i, v in enumerate(self.system.inputs)])
        named = dict(zip([(v.role, v.of, v.at) for v in self.system.inputs], self.inputs[t], strict=True))
        guards = {name: kind.guards() for name, kind in self.system.sources}
        for v, c in zip(self.system.inputs, self.inputs[t], strict=True):
            if v.role == "leaf":
                flags = [named.get(("leaf", v.of, i)) for i in guards[v.of][v.at]]
                self._of_source(v.type, c, named.get(("present", v.of, 0)), flags)
            elif v.size is not None:
                self._add(f"(and (<= 0 {c}) (< {c} {v.size}))")
        return self.claim(t, self.system.assume, True)

    def _of_source(self, t: Type, c: str, present: str | None, flags: list[str | None]) -> None:
        """What is asserted of a leaf; ``flags`` say whether it is there, None if that was cut away."""
        values = self.system.domain.values if t == INT else None
        nothing = f"(= {c} {_value(t, simplest(t))})"
        there = f"(and true {' '.join(flag for flag in flags if flag is not None)})"
        if values is not None:
            low, high = self.system.domain.span or (0, 0)
            among = f"(or {' '.join(f'(= {c} {_value(INT, v)})' for v in values)} false)"
            if len(values) == high - low + 1:
                among = f"(and (<= {_value(INT, low)} {c}) (<= {c} {_value(INT, high)}))"
            if None in flags:
                among = f"(or {nothing} {among})"
            self._add(f"(=> {there} {among})" if flags else among)
        if flags:
            silent = f"(not {present})" if present is not None else "false"
            if present is not None or values is None:
                self._add(f"(or {silent} {there} {nothing})")
        if t == FLOAT:
            self._add(f"(not (fp.isNaN {c}))")
        if present is not None:
            zero = values[0] if values else simplest(t)
            self._add(f"(or {present} (= {c} {_value(t, zero)}))")

    def claim(self, t: int, e: Expr, yes: bool) -> _Text:
        """That an expression holds, or does not hold, at push t."""
        self._add(self.term(t, e) if yes else f"(not {self.term(t, e)})")
        return self

    def differ(self, t: int, u: int) -> None:
        """That two states are not the same."""
        pairs = " ".join(f"(not (= {a} {b}))" for a, b in zip(self.states[t], self.states[u], strict=True))
        self._add(f"(or {pairs} false)")

    def done(self) -> str:
        """The whole text."""
        return "\n".join([*self.lines, "(check-sat)"])

    def _add(self, term: str) -> None:
        self.lines.append(f"(assert {term})")

    def _declare(self, name: str, t: Type) -> str:
        self.lines.append(f"(declare-const {name} {_sort(t)})")
        if isinstance(t, EnumType):
            self._add(f"(and (<= 0 {name}) (< {name} {len(t.members)}))")
        if t == INT and self.system.strict:
            self._add(f"(and (<= {_value(INT, INT_MIN)} {name}) (<= {name} {INT_MAX}))")
        return name

    def term(self, t: int, e: Expr) -> str:
        """The name of an expression's value at push t."""
        for part in walk(e):
            if (t, id(part)) not in self._made:
                args = [self._made[t, id(a)] for a in part.args]
                self._made[t, id(part)] = self._one(t, part, args)
        return self._made[t, id(e)]

    def _function(self, f: Pure, kinds: Sequence[Type]) -> str:
        """The name of a function of which only its consistency is known; the one that says whether it fails ends in
        "fails"."""
        if f not in self._functions:
            name = self._functions[f] = f"call{len(self._functions)}"
            sorts = " ".join(map(_sort, kinds))
            self.lines += [
                f"(declare-fun {name} ({sorts}) {_sort(f.result)})",
                f"(declare-fun {name}fails ({sorts}) Bool)",
            ]
        return self._functions[f]

    def _answer(self, f: Pure, kinds: Sequence[Type], given: Sequence[Any], failed: bool, value: Any) -> None:
        try:
            args = " ".join(_value(k, v) for k, v in zip(kinds, given, strict=True))
            answer = _value(f.result, value)
        except NotWritten:
            return
        name = self._function(f, kinds)
        if f.may_fail:
            self._add(f"({name}fails {args})" if failed else f"(not ({name}fails {args}))")
        if not failed:
            self._add(f"(= ({name} {args}) {answer})")

    def _one(self, t: int, e: Expr, args: list[str]) -> str:
        if e.op == "var":
            at, many = int(e.value), len(self.states[t])
            return self.states[t][at] if at < many else self.inputs[t][at - many]
        if e.op in ("const", "raise"):
            return _value(e.type, e.value if e.op == "const" else simplest(e.type))
        if e.op == "after":
            return args[-1]
        called = ""
        if e.op in ("call", "call_fails"):
            called = (
                f"({self._function(e.value, [a.type for a in e.args])}{'fails' if e.op == 'call_fails' else ''} "
                f"{' '.join(args)})"
            )
        name = f"v{len(self._made)}"
        self.lines.append(f"(define-fun {name} () {_sort(e.type)} {called or _apply(e, args)})")
        return name


def _apply(e: Expr, args: Sequence[str]) -> str:
    op, kinds = e.op, [a.type for a in e.args]
    if op in _LOGIC:
        return _LOGIC[op].format(*args)
    if op == "overflows":
        return f"(or (< {args[0]} {_value(INT, INT_MIN)}) (> {args[0]} {INT_MAX}))"
    if op in _WHOLE and kinds[0] == kinds[1]:
        if op != "eq" and kinds[0] == STR:
            return f"(str.<{'=' if op == 'le' else ''} {args[0]} {args[1]})"
        if op != "eq" and kinds[0] not in (INT, FLOAT):
            raise NotWritten(f"{op} of {kinds[0]}")
        return (_ORDER if kinds[0] == FLOAT else _WHOLE)[op].format(*args)
    if op in _TEXT:
        return _TEXT[op].format(*args)
    if op == "int_of_bool":
        return f"(ite {args[0]} 1 0)"
    if set(kinds) == {INT} and e.type == INT:
        if op in _INFIX:
            return _INFIX[op].format(*args)
        fixed = e.args[-1]
        if op in ("shl", "shr") and fixed.op == "const" and 0 <= fixed.value <= 256:
            return f"({'*' if op == 'shl' else 'div'} {args[0]} {2**fixed.value})"
        for x, mask in ((args[0], e.args[-1]), (args[-1], e.args[0])):
            if op == "band" and mask.op == "const" and mask.value >= 0 and mask.value & (mask.value + 1) == 0:
                return f"(mod {x} {mask.value + 1})"
    if set(kinds) == {FLOAT} and e.type == FLOAT and op in _REAL:
        return _REAL[op].format(*args)
    raise NotWritten(f"{op} of {' and '.join(map(str, kinds))}")


def _sort(t: Type) -> str:
    if t == INT or isinstance(t, EnumType):
        return "Int"
    names = {BOOL: "Bool", FLOAT: "Float64", STR: "String"}
    if t not in names:
        raise NotWritten(str(t))
    return names[t]


def _value(t: Type, v: Any) -> str:
    """A constant.

    >>> _value(INT, -3), _value(BOOL, True), _value(STR, 'a"ß')
    ('(- 3)', 'true', '"a""\\\\u{df}"')
    """
    if t == BOOL:
        return "true" if v else "false"
    if isinstance(t, EnumType):
        return str(t.members.index(v))
    if t == INT:
        return str(v) if v >= 0 else f"(- {-v})"
    if t == STR:
        return '"' + "".join(_letter(c) for c in v) + '"'
    if t != FLOAT:
        raise NotWritten(str(t))
    if math.isnan(v):
        return "(_ NaN 11 53)"
    if math.isinf(v):
        return f"(_ {'+' if v > 0 else '-'}oo 11 53)"
    bits = f"{struct.unpack('>Q', struct.pack('>d', v))[0]:064b}"
    return f"(fp #b{bits[0]} #b{bits[1:12]} #b{bits[12:]})"


def _letter(c: str) -> str:
    if ord(c) > 0x2FFFF:
        raise NotWritten(f"the character {c!r}")
    if c == '"':
        return '""'
    return c if " " <= c <= "~" and c != "\\" else f"\\u{{{ord(c):x}}}"


# A second solver: what a proof owes, asked of cvc5 where it is installed, from the expressions alone.


def second_opinion(system: System, bad: Expr, proof: Proof, seconds: float) -> Opinion:
    """Whether cvc5 finds the proof to be one, from the expressions alone.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda a, v: a + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> wrong = Proof(0, (n.le(n.const(-1), total),))
    >>> second_opinion(s, n.lt(total, n.const(0)), wrong, 1.0).word if has_cvc5() else "contradicts"
    'contradicts'
    """
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    try:
        owed = obligations(system, bad, proof)
    except NotWritten as error:
        return Opinion("was not asked", f"cvc5 does not do {error}")
    return opinion_on(owed, seconds)


# What a proof has to pass before it counts: a bare "unsat", and a search that says "nothing found", are never believed.
#
# Of a proof by SMT (an inductive invariant, or k-induction with one):
#
# 1. z3, afresh, finds every obligation to hold (`solve.certificate.check_certificate`);
# 2. its **premises can be met**: z3 gives a state and a push, which plain Python finds to be ones of the system, in the
#   invariant;
# 3. what z3 was told is what the expressions say, at values of real runs, in z3's own arithmetic against Python's;
# 4. it is **tried** on random runs of the literal interpreter (`pellucid.check.trial_runs`);
# 5. **cvc5**, where it is installed, finds the same obligations to hold, from a translation of its own
#   (`pellucid.check.certify`). Where z3 took floats for an order (`pellucid.check.smt.lemmas`) and cvc5 does not decide
#   about their bits, it is asked what z3 was asked; the facts about operations that both received are checked with
#   the values of real runs (3).
#
# Of a complete search: the set of states that it found is closed, push by push, computed again in plain Python, and
# random runs of the interpreter stay in it, step as recorded and show what was recorded.
#
# Where one of these disagrees the answer is *unknown*, and says so: something is wrong with Pellucid or with a solver.


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
    >>> from pellucid.check.explicit import explore
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
