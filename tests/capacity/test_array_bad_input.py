"""Texts in Cubicle's language that are hostile: told with their place, in no time, and never an internal error."""

from __future__ import annotations

import pytest

from pellucid.capacity.arrays import decide, read_text
from pellucid.errors import DataError

HEAD = """type state = Idle | Want | Crit
array S[proc] : state
var N : int
init (z) { S[z] = Idle && N = 0 }
unsafe (x y) { S[x] = Crit && S[y] = Crit }
"""


def _guard(formula: str, update: str = "S[i] := Want") -> str:
    return f"{HEAD}transition a (i) requires {{ {formula} }} {{ {update} }}"


_TWICE = "".join(f"predicate p{i + 1} (x) {{ p{i}(x) && p{i}(x) }}\n" for i in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "predicate p (x) { p(x) }\n" + _guard("p(i)")[len(HEAD) :], "the predicate p is made of itself"),
        (
            HEAD + "predicate p (x) { q(x) }\npredicate q (x) { p(x) }\n" + _guard("p(i)")[len(HEAD) :],
            "line 7, column 19: the predicate p is made of itself",
        ),
        (
            HEAD + "predicate p0 (x) { S[x] = Idle }\n" + _TWICE + _guard("p40(i)")[len(HEAD) :],
            "with its predicates put in, the system has more than 100,000 formulas: too many",
        ),
        (_guard(" => ".join(["S[i] = Idle"] * 2000)), "formulas in formulas are read 100 deep, and this is deeper"),
        (_guard("not (" * 200 + "S[i] = Idle" + ")" * 200), "formulas in formulas are read 100 deep"),
        (_guard("N = 1" + "0" * 5000), "a number of 5,001 digits: 15 are the most"),
        (_guard("S[i] = Idle", "N := N + 1000000000000000"), "a number of 16 digits: 15 are the most"),
        (_guard("S[#99999] = Idle"), "certain processes are #1 to #8, not #99999"),
        (_guard("i = #9"), "certain processes are #1 to #8, not #9"),
    ],
)
def test_hostile_texts_are_refused_at_their_place(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_text(text, "bad.cub")
    assert message in str(caught.value)
    assert str(caught.value).startswith("bad.cub, line ")


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    with pytest.raises(DataError) as caught:
        read_text(_guard(" && ".join(["S[i] = Idle"] * 50 + ["Q[i] = Idle"] + ["S[i] = Idle"] * 50)), "bad.cub")
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 130 and shown.startswith("  …") and shown.endswith("…")
    assert shown[caret.index("^") :].startswith("Q[i] = Idle")


def test_parentheses_and_long_formulas_are_no_depth() -> None:
    system = read_text(_guard("(" * 3000 + "S[i] = Idle" + ")" * 3000))
    assert system.transitions == read_text(_guard("S[i] = Idle")).transitions
    assert read_text(_guard(" && ".join(["S[i] = Idle"] * 2000))).transitions


@pytest.mark.parametrize("by", [20_000, 40_000, 300_000_000_000_000])
def test_numbers_beyond_sixteen_bits(by: int) -> None:
    """The states that a few processes reach are columns of numbers, which must not run over."""
    text = f"""var N : int
    array S[proc] : bool
    init (z) {{ S[z] = False && N = 0 }}
    unsafe () {{ N = {3 * by} }}
    transition a () requires {{ N < {3 * by} }} {{ N := N + {by} }}"""
    found = decide(read_text(text))
    assert found.refuted and found.counterexample is not None and len(found.counterexample.steps) == 3
    assert decide(read_text(text.replace("unsafe () { N =", "unsafe () { N < 0 && N <>"))).proved
