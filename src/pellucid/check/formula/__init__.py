"""Formulas of CTL and LTL: one import for writing, reading, explaining and evaluating them.

As text, by `parse`:

>>> from pellucid.check.formula.parse import parse
>>> liveness = parse("AG EF out")

and as Python, with ``& | ~ >>`` (implies), comparisons, and constructors named as the operators:

>>> x, out = stream("x"), stream("out")
>>> answered = G(x.present >> F(out.value > 3))
>>> answered == parse("G (x -> F out.value > 3)")
True

What they mean is explained by `explain`, defined by `evaluate_lasso` and `evaluate_finite`, and tied to a
pipeline's streams by `resolve`:

>>> print(explain(liveness))
From every state that can be reached, it is possible to reach one in which out carries an event.

The parts: ``formula_terms`` (what atoms are about), ``formula_nodes`` (the tree and its constructors), ``parse``,
``formula_explain``, ``formula_evaluate`` (reference semantics), ``formula_resolve`` (names to variables), and
``buchi`` (LTL to automata).
"""

from __future__ import annotations

from pellucid.check.formula.explain import explain
from pellucid.check.formula.nodes import (
    AF,
    AG,
    AU,
    AX,
    CTL,
    EF,
    EG,
    EU,
    EX,
    FALSE,
    LTL,
    PAST,
    TRUE,
    And,
    Atom,
    F,
    Formula,
    G,
    H,
    Iff,
    Implies,
    Not,
    O,
    Or,
    R,
    S,
    U,
    W,
    X,
    Y,
    any_,
    as_formula,
    evaluate_finite,
    evaluate_lasso,
    failed,
    flag,
    full,
    is_invariant,
    kind,
    output,
    overflow,
    queue,
    source,
    step,
    stream,
    terms,
)
from pellucid.check.formula.resolve import resolve

__all__ = [
    "AF", "AG", "AU", "AX", "CTL", "EF", "EG", "EU", "EX", "FALSE", "LTL", "PAST", "TRUE", "And", "Atom", "F",
    "Formula", "G", "H", "Iff", "Implies", "Not", "O", "Or", "R", "S", "U", "W", "X", "Y", "any_", "as_formula",
    "evaluate_finite", "evaluate_lasso", "explain", "failed", "flag", "full", "is_invariant", "kind",
    "output", "overflow", "queue", "resolve", "source", "step", "stream", "terms",
]  # fmt: skip
