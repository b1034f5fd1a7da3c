"""A second solver: what a proof owes, asked of cvc5 where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial

from pellucid.internal.model.budget import now, patiently


@dataclass(frozen=True)
class Opinion:
    """What another solver says of a proof: ``"confirms"``, ``"contradicts"``, ``"did not decide"`` or ``"was not
    asked"``; and where or why."""

    word: str
    why: str = ""


@cache
def has_cvc5() -> bool:
    """Whether the second solver is installed."""
    return importlib.util.find_spec("cvc5") is not None


def ask_cvc5(text: str, seconds: float) -> bool | None:
    """Whether an SMT-LIB text can be satisfied; None if the time was not enough or it cannot be read.

    >>> ask_cvc5("(set-logic ALL)(declare-const x Int)(assert (< x x))(check-sat)", 1.0) if has_cvc5() else False
    False
    """
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(max(1, int(seconds * 1000))))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    answers = []
    try:
        while not (command := parser.nextCommand()).isNull():
            answers.append(str(command.invoke(solver, parser.getSymbolManager())).strip())
    except RuntimeError:  # it has no way to say this
        return None
    return {"sat": True, "unsat": False}.get(answers[-1] if answers else "")


def opinion_on(owed: Iterable[tuple[str, str]], seconds: float, confirmed: str = "") -> Opinion:
    """Whether cvc5 finds all of these impossible: names of obligations, and their texts."""
    if not has_cvc5():
        return Opinion("was not asked", "cvc5 is not installed")
    end = now() + seconds
    for name, text in owed:
        answer = patiently(end - now(), partial(ask_cvc5, text))
        if answer is None:
            return Opinion("did not decide", f"in {seconds:.1f} s")
        if answer:
            return Opinion("contradicts", name)
    return Opinion("confirms", confirmed)
