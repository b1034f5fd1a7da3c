"""Büchi automata against the definition: on every short lasso, on random formulas, and against Spin."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.check.formula import (
    FALSE,
    TRUE,
    And,
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
    evaluate_finite,
    evaluate_lasso,
    stream,
)
from pellucid.check.formula.buchi import Buchi, automaton
from pellucid.check.formula.parse import parse
from pellucid.errors import UsageError
from tests.check.reference import accepts

P, Q = stream("p").present, stream("q").present
LETTERS = [{P: p, Q: q} for p in (False, True) for q in (False, True)]


def lassos(longest: int):
    for length in range(1, longest + 1):
        for word in itertools.product(LETTERS, repeat=length):
            for loop in range(length):
                yield word, loop


SHORT, LONG = list(lassos(3)), list(lassos(5))


def agree(formula: Formula, words) -> None:
    made = automaton(formula)
    well_formed(made)
    for word, loop in words:
        assert accepts(made, word, loop) == evaluate_lasso(formula, word, loop), (str(formula), word, loop)


def well_formed(made: Buchi) -> None:
    states = set(range(made.states))
    assert made.initial <= states and made.accepting <= states
    assert {s for s, _, _ in made.transitions} == states  # no dead end
    reached = set(made.initial)
    while more := {t for s, _, t in made.transitions if s in reached} - reached:
        reached |= more
    assert reached == states
    assert all(not yes & no for _, (yes, no), _ in made.transitions)
    assert len(set(made.transitions)) == len(made.transitions)


FORMULAS = [
    "true", "false", "p", "!p", "X p", "F p", "G p", "p U q", "p W q", "p R q", "G F p", "F G p", "G (p -> F q)",
    "G F p -> G F q", "G (p | X (p | X p))", "p U (q U p)", "!(p U (q U X p))", "(p U q) U p", "p <-> X q", "X X X p",
    "F (p U q)", "G (p R q)",
]  # fmt: skip
PAST = [
    "Y p", "F Y p", "G (p -> O q)", "G (p -> Y q)", "F (p & H q)", "G (p S q)", "O F p", "F (p & O (q & Y p))",
    "G (q -> (p S X q))", "H X p", "G F (p & Y !p)", "F G (p S Y q)", "F O (p S q)",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS + PAST)
def test_on_every_lasso_up_to_length_4(text):
    agree(parse(text), lassos(4))
    agree(Not(parse(text)), SHORT)


@pytest.mark.parametrize("text", ["G (p -> F q)", "F (p & O (q & Y p))", "p U X (q R p)"])
def test_on_every_lasso_up_to_length_5(text):
    agree(parse(text), LONG)


@pytest.mark.long
@pytest.mark.parametrize("text", FORMULAS + PAST)
def test_every_formula_on_every_lasso_up_to_length_5(text):
    agree(parse(text), LONG)


@pytest.mark.parametrize(
    ("text", "states", "edges"),
    [
        ("true", 1, 1),
        ("false", 0, 0),
        ("G p", 1, 1),
        ("F p", 2, 3),
        ("p U q", 2, 3),
        ("G F p", 2, 4),
        ("F G p", 2, 3),
        ("G (p -> F q)", 2, 5),
        ("G (p -> O q)", 2, 3),
        ("G (in -> out | X (out | X out))", 3, 6),
        ("!G (in -> out | X (out | X out))", 4, 5),
    ],
)
def test_sizes_are_pinned(text, states, edges):
    made = automaton(parse(text))
    assert (made.states, len(made.transitions)) == (states, edges)


def test_many_untils_stay_small():
    made = automaton(parse("!(G F a & G F b & G F c & G F d -> G (r -> F s))"))
    assert made.states == 6


def test_a_ctl_formula_is_refused():
    with pytest.raises(UsageError, match="found AG in AG EF out"):
        automaton(parse("AG EF out"))


def test_the_automaton_does_not_depend_on_the_order_of_hashes():
    text = "G (p -> F q) & (p U q | O q)"
    assert str(automaton(parse(text))) == str(automaton(parse(str(parse(text)))))


# ---------------------------------------------------------------- random formulas


def formulas(past: bool = True, next_: bool = True, depth: int = 4) -> st.SearchStrategy[Formula]:
    one = [Not, F, G, *([X] if next_ else []), *([Y, O, H] if past else [])]
    two = [And, Or, Implies, Iff, U, W, R, *([S] if past else [])]
    made = st.sampled_from([P, Q, P, Q, TRUE, FALSE])
    for _ in range(depth):
        made = st.one_of(
            st.sampled_from([P, Q]),
            st.builds(lambda op, a: op(a), st.sampled_from(one), made),
            st.builds(lambda op, a, b: op(a, b), st.sampled_from(two), made, made),
        )
    return made


@settings(max_examples=150)
@given(formulas(depth=3))
def test_random_formulas(formula):
    agree(formula, SHORT)


@settings(max_examples=60)
@given(formulas(depth=4), st.lists(st.sampled_from(LONG), min_size=30, max_size=60))
def test_random_deeper_formulas_on_longer_lassos(formula, words):
    agree(formula, words)


@settings(max_examples=100)
@given(formulas(), st.sampled_from(LONG))
def test_a_lasso_means_the_same_however_it_is_written(formula, lasso):
    word, loop = lasso
    turned = (*word, word[loop])  # one step further round
    twice = (*word, *word[loop:])
    truth = evaluate_lasso(formula, word, loop)
    assert evaluate_lasso(formula, turned, loop + 1) == truth
    assert evaluate_lasso(formula, twice, loop) == truth


@settings(max_examples=100)
@given(formulas(past=False, next_=False), st.sampled_from(LONG))
def test_without_next_a_finite_trace_is_one_that_stutters(formula, lasso):
    word, _ = lasso
    assert evaluate_finite(formula, word) == evaluate_lasso(formula, word, len(word) - 1)


# ---------------------------------------------------------------- Spin


def spin(text: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """The never claim of ``spin -f``: its first state, and from each state (condition, next state)."""
    words = re.sub(r"\bG\b", "[]", re.sub(r"\bF\b", "<>", text)).replace("&", "&&").replace("|", "||")
    out = subprocess.run(["spin", "-f", words], capture_output=True, text=True, check=True).stdout
    states: dict[str, list[tuple[str, str]]] = {}
    alias: dict[str, str] = {}
    at = ""
    for line in out.splitlines()[1:]:
        line = line.strip()
        if found := re.fullmatch(r"(\w+):.*", line):
            at = at if at in states and not states[at] else found[1]  # a second label of the same state
            alias[found[1]] = at
            states.setdefault(at, [])
        elif found := re.fullmatch(r":: atomic \{ (.*) -> assert.*", line):
            states[at].append((found[1], "accept_all"))
        elif found := re.fullmatch(r":: (.*) -> goto (\w+)", line):
            states[at].append((found[1], found[2]))
        elif line == "skip":
            states[at].append(("1", "accept_all" if at == "accept_all" else at))
    return next(iter(states)), {s: [(test, alias[t]) for test, t in out] for s, out in states.items()}


def as_buchi(first: str, states: dict[str, list[tuple[str, str]]]) -> Buchi:
    number = {name: i for i, name in enumerate(states)}
    edges = []
    for name, out in states.items():
        for test, target in out:
            code = test.replace("&&", " and ").replace("||", " or ").replace("!", " not ").strip()
            for letter in LETTERS:
                if eval(code, {"p": letter[P], "q": letter[Q]}):
                    yes = frozenset(a for a in letter if letter[a])
                    edges.append((number[name], (yes, frozenset(letter) - yes), number[target]))
    accepting = frozenset(i for name, i in number.items() if name.startswith("accept"))
    return Buchi(len(states), frozenset({number[first]}), tuple(edges), accepting, (P, Q))


@pytest.mark.skipif(shutil.which("spin") is None, reason="spin is not installed")
@pytest.mark.parametrize(
    "text",
    [
        "F p",
        "G p",
        "p U q",
        "G F p",
        "F G p",
        "G (p -> F q)",
        "G F p -> G F q",
        "(p U q) U p",
        "!(p U (q U p))",
        "G p | F q",
    ],
)
def test_against_spin(text):
    ours, theirs = automaton(parse(text)), as_buchi(*spin(text))
    for word, loop in lassos(4):
        assert accepts(ours, word, loop) == accepts(theirs, word, loop), (word, loop)
    assert ours.states <= theirs.states
