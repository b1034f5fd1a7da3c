"""Formulas as invariants with history: the same verdicts as the automaton, shortest runs, exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pellucid import Stream, check, pipeline
from pellucid.check.decide import Options, decide, decide_invariant
from pellucid.check.endless.history import History, as_invariant, linear
from pellucid.check.formula import Atom, Formula, evaluate_lasso, is_invariant, resolve
from pellucid.check.formula.parse import parse
from pellucid.check.formula.terms import Ref
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.internal.expr.evaluate import evaluate
from tests.check.test_agree import atom, small_pipeline
from tests.seeds import seeds
from tests.strategies import Seeded

P, Q = Atom(Ref("p")), Atom(Ref("q"))
EXPLICIT = Options(engine="explicit", max_states=4000)


@pipeline
def free(p: Stream[bool], q: Stream[bool]) -> Stream[bool]:
    return p.filter(lambda v: v)


def formula(c: Seeded, atoms: list[Formula], depth: int, ops: str) -> Formula:
    if depth == 0 or c.of([True, False, False, False]):
        return c.of(atoms)  # type: ignore[no-any-return]
    op = c.of(ops.split())
    return Formula(
        op,
        tuple(
            formula(c, atoms, depth - 1, ops)
            for _ in range(2 if op in ("&", "|", "->", "<->", "S", "W", "R", "U") else 1)
        ),
    )


def judged(f: Formula, trace: list[set[Formula]]) -> list[bool]:
    """Whether ``f`` was seen to be broken in each push of a trace, by the bits of a history."""
    system = build_system(free.graph, domain_of(None))
    history = History(system)
    names = {P: system.present("p"), Q: system.present("q")}
    placed = _placed(f, names)
    extended, (good,) = history.cells.done([history.always(placed)])
    state, out = [v.start for v in extended.state], []
    for label in trace:
        leaves = [*state, P in label, False, Q in label, False]
        out.append(bool(evaluate(good, leaves)))
        state = [evaluate(e, leaves) for e in extended.next]
    return out


def _placed(f: Formula, names: dict[Formula, Any]) -> Formula:
    if f.op == "atom":
        return Atom(names[f], str(f))
    return Formula(f.op, tuple(_placed(a, names) for a in f.args))


def ahead(f: Formula) -> int:
    inner = max((ahead(a) for a in f.args), default=0)
    return inner + 1 if f.op == "X" else max(0, inner - 1) if f.op == "Y" else inner


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(120))
def test_a_history_says_what_the_formula_said(seed: int) -> None:
    c = Seeded(seed)
    f = formula(c, [P, Q], 3, "! & | -> <-> X X Y O H S")
    trace = [{a for a in (P, Q) if c.of([True, False])} for _ in range(7)]
    # The truth of f in step i is that of X…X f in step 0; the last step repeats, and none that is judged looks so far.
    truth = []
    for i in range(7 - ahead(f)):
        at = f
        for _ in range(i):
            at = Formula("X", (at,))
        truth.append(evaluate_lasso(at, trace, 6))
    assert judged(f, trace) == [True] * ahead(f) + truth, str(f)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_the_automaton_and_the_history_agree(seed: int) -> None:
    c = Seeded(seed)
    p = small_pipeline(c)
    system = build_system(p.graph, domain_of(range(2)), 2)
    atoms = [parse(atom(c, p, system)) for _ in range(2)]
    for shape in ("! & | -> X X Y O H S", "& | -> G X W R ! Y O", "AX AG & | -> !"):
        f = formula(c, atoms, 3, shape)
        f = f if f.op in ("G", "AG") else Formula("AG" if "AX" in shape else "G", (f,))
        resolved = resolve(f, system)
        if resolved.op in ("true", "false") or is_invariant(resolved) is not None:
            continue
        made = as_invariant(system, resolved)
        if made is None:
            continue
        one = decide(system, resolved, EXPLICIT)
        two = decide_invariant(*made, EXPLICIT)
        if "unknown" not in (one.status, two.status):
            assert one.status == two.status, (p.graph, str(f))


def test_branching_that_is_linear() -> None:
    told = {
        text: linear(parse(text))
        for text in ("AG (p -> AX q)", "AG (p -> AG q)", "A [p U q]", "!EF (p & EX q)", "AX p & AX q")
    }
    assert {text: str(f) for text, f in told.items()} == {
        "AG (p -> AX q)": "G (!p | X q)",
        "AG (p -> AG q)": "G (!p | G q)",
        "A [p U q]": "p U q",
        "!EF (p & EX q)": "G (!p | X !q)",
        "AX p & AX q": "X p & X q",
    }
    for text in ("AG (AX p | AX q)", "AG EF p", "AF AG p", "AG (p -> EX q)", "A [AX p U q]"):
        assert linear(parse(text)) is None, text


@dataclass(frozen=True)
class Reading:
    sensor: str
    degrees: int


@pipeline
def alarms(r: Stream[Reading]) -> Stream[Reading]:
    def cool(left: int, e: Reading) -> tuple[int, list[Reading]]:
        if left > 0:
            return left - 1, []
        return (2, [e]) if e.degrees > 80 else (0, [])

    return r.task(cool, initial=0)


@pytest.mark.parametrize(
    ("formula", "pushes"),
    [
        ("G (out -> X !out)", None),
        ("G (out -> X (!out & X !out))", None),
        ("G (out -> X X X !out)", 4),
        ("G (r.degrees > 80 -> out | X out)", 3),  # two that the pause swallows, after the first
        ("G (out -> r.degrees > 79 & X !out)", None),
        ("G (out -> r.degrees > 85 & X !out)", 1),  # seen at once: no need to wait for the next push
        ("G (out -> O r.degrees > 80)", None),
        ("G (out -> Y O out)", 1),
        ("G (out.degrees > 90 -> H r.degrees != 85)", 2),  # silence before it is no reading that differs
        ("G (Y out -> !out)", None),
        ("!out W r.degrees > 80", None),
        ("AG (out -> AX (!out & AX !out))", None),
        ("AG (out -> AX AX AX !out)", 4),
        ('G (out.sensor = "cellar" -> X !out.sensor = "cellar")', None),
        ("X X !out", 3),
        ("G (r.degrees > 90 -> G !out.degrees = 81)", 4),  # the pause lies between
    ],
)
def test_over_exact_integers_and_strings(formula: str, pushes: int | None) -> None:
    verdict = check.holds(alarms, formula)
    assert verdict.status == ("proved" if pushes is None else "refuted"), verdict
    if pushes is not None:
        assert len(verdict.counterexample.inputs) == pushes, verdict  # type: ignore[union-attr]


def test_within_over_thresholds() -> None:
    hot = pipeline(lambda x: x.filter(lambda v: v > 80), x=int)
    assert check.live(hot, within=2).counterexample.inputs == [{"x": 0}, {"x": 0}]  # type: ignore[union-attr]
    clipped = pipeline(lambda x: x.map(lambda v: v if v < 9 else 9).decimate(2), x=int)
    assert check.holds(clipped, "G (x & X x -> out.value < 10 | X out.value < 10)").proved
