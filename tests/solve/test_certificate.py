"""A transition system that is no pipeline is proved and refuted by the same layer: two clocks that tick together."""

from __future__ import annotations

import pytest

from pellucid.internal.expr import node as n
from pellucid.internal.expr.types import BOOL, INT
from pellucid.internal.model import Budget

pytest.importorskip("z3")

from pellucid.internal.solve.certificate import Induction, Proof, check_certificate, shrink, spacer
from pellucid.internal.solve.terms import Frames, Transition, ask

A, B, RESET = n.var(0, INT), n.var(1, INT), n.var(2, BOOL)


class Clocks(Transition):
    """Both tick; a reset sets both back."""

    def __init__(self) -> None:
        super().__init__([("a", INT, 0), ("b", INT, 0)], [BOOL])
        self.define([n.ite(RESET, n.const(0), n.add(clock, n.const(1))) for clock in (A, B)])

    def again(self) -> Clocks:
        return Clocks()


APART = n.not_(n.eq(A, B))


def test_clocks_stay_together() -> None:
    proof = Induction(Clocks(), APART, [n.eq(A, B)], Budget(30.0)).deeper()
    assert proof is not None and proof.names == ("a", "b") and str(proof) == "(a == b)"
    assert check_certificate(Clocks(), APART, proof)
    assert not check_certificate(Clocks(), APART, Proof(0, (n.le(A, B),)))  # inductive, and not enough
    assert not check_certificate(Clocks(), n.lt(A, n.const(0)), Proof(0, (n.le(n.const(1), A),)))  # not at the start


def test_no_term_becomes_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """z3 writes a term out with all that it shares: where records are keyed, that took longer than the proof."""
    import z3

    def written(term: object) -> str:
        raise AssertionError("a term is written out")

    monkeypatch.setattr(z3.AstRef, "__str__", written)
    lemmas = [n.eq(A, B), n.le(n.const(0), A), n.le(n.const(0), B)]
    proof = Induction(Clocks(), APART, lemmas, Budget(30.0)).deeper()
    assert proof is not None and proof.lemmas == (n.eq(A, B),)  # those of the core, and no others
    whole = shrink(Clocks(), APART, Proof(proof.k, tuple(lemmas)), Budget(30.0))
    assert whole.lemmas == (n.eq(A, B),)


def test_spacer_finds_it_too() -> None:
    proof = spacer(Clocks(), APART, [], Budget(30.0))
    assert proof is None or check_certificate(Clocks(), APART, proof)


def test_a_run_is_found() -> None:
    code = Clocks()
    solver = code.z3.Solver()
    frames = Frames(code, solver, start=True)
    for _ in range(3):
        frames.extend()
    solver.add(*frames.at(3, [code.term(n.eq(A, n.const(2)))]))
    assert ask(solver, Budget(30.0)) is True
    model = solver.model()
    resets = [code.python(BOOL, model.eval(inputs[0], model_completion=True)) for inputs in frames.inputs[:3]]
    assert resets == [True, False, False]
