"""Strings, constant dictionaries and pure functions in checks over all strings: each verdict was worked out by hand.

A refutation must show a run that the real functions, really called, confirm; a proof must not depend on what nobody
knows of them.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from enum import Enum
from itertools import product
from typing import Any, NamedTuple

import pytest

from pellucid import check, pipeline
from pellucid.check.smt.encode import Encoding
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.errors import NotTraceable, UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr import rewrite as text
from pellucid.internal.expr.types import INT, STR
from pellucid.internal.solve.terms import HIGHEST, Texts
from tests.seeds import seeds

EDGES = [
    "", "a", "ab", "ba", "A", "é", "e\u0301", "😀", "a😀", "a\x00b", "\\u{41}", "\\u0041", '"', "'", "\n", "\ud800",
    "zzz", "ß", " a ",
]  # fmt: skip


class Payment(NamedTuple):
    currency: str
    amount: int


RATES = {"EUR": 2, "USD": 3}
KNOWN = {"EUR", "USD"}


def strings(f: Any) -> Any:
    return pipeline(lambda x: x.filter(f), x=str)


# ---------------------------------------------------------------- z3's meaning and Python's


def _texts() -> Texts:
    system = build_system(pipeline(lambda x: x, x=str).graph, domain_of(None))
    found = Encoding(dataclasses.replace(system, texts=True)).text
    assert found is not None
    return found


def test_every_operation_means_the_same_in_z3() -> None:
    texts = _texts()
    z3 = texts.z3
    meaning = {**text.MEANING, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b}
    for s in EDGES:
        assert texts.python(texts.value(s)) == s
    for op, f in meaning.items():
        kinds = {"length": (STR,), "part": (STR, INT, INT)}.get(op, (STR, STR))
        for args in product(*[EDGES if t == STR else range(4) for t in kinds]):
            leaves = [n.var(i, t) for i, t in enumerate(kinds)]
            e = {"lt": n.lt, "le": n.le}.get(op, text._BUILD.get(op))(*leaves)
            told = texts.term(e, [texts.code.value(t, a) for t, a in zip(kinds, args, strict=True)])
            wrong = z3.simplify(z3.simplify(told != texts.code.value(e.type, f(*args))))
            if not z3.is_false(wrong):  # it was not simplified to the end
                solver = z3.Solver()
                solver.add(wrong)
                assert str(solver.check()) == "unsat", (op, args, told)


def test_python_characters_that_z3_does_not_have_are_refused() -> None:
    assert HIGHEST < 0x30000
    p = strings(lambda s: s.startswith("\U0010ffff"))
    with pytest.raises(UsageError, match="takes characters up to U"):
        check.holds(p, 'G (out -> out.value != "a")')


# ---------------------------------------------------------------- what is decided


PROVED = [
    (lambda s: s.startswith("EUR"), 'out.value != "US"'),
    (lambda s: s.startswith(("ab", "ac")), 'out.value >= "a" & out.value < "b"'),
    (lambda s: s.endswith("!") and len(s) == 1, 'out.value = "!"'),
    (lambda s: "x" in s, 'out.value != "aaa"'),
    (lambda s: "x" + s == "xy", 'out.value = "y"'),
    (lambda s: s + s == "abab", 'out.value = "ab"'),
    (lambda s: len(s) == 0, 'out.value = ""'),
    (lambda s: s[:2] == "ab" and s[2:] == "c", 'out.value = "abc"'),
    (lambda s: len(s) == 2 and s[-1] == "b" and s[0] == "a", 'out.value = "ab"'),
    (lambda s: s.removeprefix("a") == "b" and not s.startswith("b"), 'out.value = "ab"'),
    (lambda s: s.find("b") == 1 and len(s) == 2 and s[0] == "a", 'out.value = "ab"'),
    (lambda s: s in {"EUR", "USD"} and s != "USD", 'out.value = "EUR"'),
    (lambda s: s in KNOWN, 'out.value = "EUR" | out.value = "USD"'),
    (lambda s: "😀" in s and len(s) == 1, 'out.value = "😀"'),
]


@pytest.mark.parametrize("at", range(len(PROVED)))
def test_proved(at: int) -> None:
    f, claim = PROVED[at]
    assert check.holds(strings(f), f"G (out -> {claim})", warn=False).proved


REFUTED = [
    (lambda s: s.startswith("EU"), 'out.value = "EU"'),
    (lambda s: s.endswith("b"), 'out.value != "ab"'),
    (lambda s: "x" in s, 'out.value = "x"'),
    (lambda s: len(s) <= 1, 'out.value != "é"'),
    (lambda s: "x" + s != "xy", 'out.value != ""'),
    (lambda s: s[1:] == "b", 'out.value = "ab"'),
    (lambda s: s > "b", 'out.value = "c"'),
    (lambda s: s in {"EUR", "USD"}, 'out.value = "EUR"'),
    (lambda s: s.upper() == "EUR", 'out.value != "EUR"'),
    (lambda s: s.strip() == "eur", 'out.value != "eur"'),
]


@pytest.mark.parametrize("at", range(len(REFUTED)))
def test_refuted_and_run(at: int) -> None:
    f, claim = REFUTED[at]
    verdict = check.holds(strings(f), f"G (out -> {claim})")
    assert verdict.refuted
    last = verdict.counterexample.inputs[-1]["x"]
    assert f(last), "the filter itself lets it pass"


def test_index_beyond_the_end_is_a_failure() -> None:
    first = pipeline(lambda x: x.map(lambda s: s[0], to=str), x=str)
    verdict = check.holds(first, "G !failed")
    assert verdict.refuted and verdict.counterexample.inputs == [{"x": ""}]
    kept = pipeline(lambda x: x.map(lambda s: s[0] if s else "-", to=str), x=str)
    assert check.holds(kept, "G !failed").proved


# ---------------------------------------------------------------- pipelines beside each other, keys, states


def test_two_ways_to_say_the_same() -> None:
    a, b = strings(lambda s: s.startswith("ab")), strings(lambda s: s[:2] == "ab")
    assert check.equivalent(a, b).proved
    other = check.equivalent(a, strings(lambda s: "ab" in s))
    assert (
        other.refuted
        and "ab" in other.counterexample.inputs[-1]["x"]
        and not other.counterexample.inputs[-1]["x"].startswith("ab")
    )


def test_what_is_kept_is_text() -> None:
    log = pipeline(lambda x: x.cumulate(lambda kept, s: kept + s, start="id:"), x=str)
    assert check.holds(log, 'G (out -> out.value != "")', warn=False).proved
    verdict = check.holds(log, 'G (out -> out.value != "id:ab")')
    assert verdict.refuted and "".join(push.get("x", "") for push in verdict.counterexample.inputs) == "ab"


def test_keys_and_a_count() -> None:
    big = pipeline(
        lambda x: (
            x.filter(lambda e: e.currency.startswith("E"))
            .key_by(lambda e: e.currency)
            .cumulate(lambda k, e: k + 1, start=0)
        ),
        x=Payment,
    )
    assert check.holds(big, "G (out -> out.value > 0)", warn=False).proved
    assert check.holds(big, "G (out -> out.value < 2)").refuted


def test_assumptions_look_inside_and_order() -> None:
    p = strings(lambda s: "ab" in s)
    assert check.holds(p, 'G (out -> out.value = "ab")', assume=lambda s: len(s) <= 2).proved
    assert check.holds(p, 'G (out -> out.value >= "aa")', assume='x.value > "aa"').proved
    assert check.holds(p, 'G (out -> out.value >= "b")', assume='x.value > "aa"').refuted


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


def test_strings_are_ordered_by_their_letters_not_by_number() -> None:
    side = pipeline(lambda x: x.map(lambda e: e.value, to=str), x=Side)
    assert check.holds(side, 'G (out -> out.value < "c")').counterexample.inputs == [{"x": Side.SELL}]
    assert check.holds(side, 'G (out -> out.value < "z")', warn=False).proved
    with pytest.raises(UsageError, match="explicit search does not look inside text"):
        check.holds(side, 'G (out -> out.value < "z")', engine="explicit")


def test_a_task_that_remembers_a_string() -> None:
    def changes(last: str, s: str) -> tuple[str, list[str]]:
        return s, [s] if s != last and s.startswith("a") else []

    p = pipeline(lambda x: x.task(changes, ""), x=str)
    assert check.holds(p, 'G (out & out.value = "a" -> X !(out & out.value = "a"))', warn=False).proved
    refuted = check.holds(p, "G (out -> X !out)")
    assert len({push["x"] for push in refuted.counterexample.inputs}) == 2
    assert check.live(p).proved


def test_64_bits_also_on_the_way() -> None:
    """A function that looks inside text is compiled as others are."""
    there_and_back = pipeline(lambda x: x.map(lambda s: (len(s[:3]) + 1) * 2**62 * 16 // 2**60, to=int), x=str)
    assert check.holds(there_and_back, "G !failed", warn=False).refuted
    within = pipeline(lambda x: x.map(lambda s: (len(s[:3]) + 1) * 2**60, to=int), x=str)
    assert check.holds(within, "G !failed", warn=False).proved
    beyond = pipeline(lambda x: x.map(lambda s: len(s[:3]) * 2**62, to=int), x=str)
    verdict = check.holds(beyond, "G !failed")
    assert verdict.refuted and len(verdict.counterexample.inputs[-1]["x"]) >= 2


# ---------------------------------------------------------------- constant dictionaries


def test_a_missing_key_is_a_failure() -> None:
    p = pipeline(lambda x: x.map(lambda e: e.amount * RATES[e.currency], to=int), x=Payment)
    verdict = check.holds(p, "G !failed")
    assert verdict.refuted and verdict.counterexample.inputs[0]["x"].currency not in RATES
    assert check.holds(p, "G (out & x.value.amount > 0 -> out.value > x.value.amount)", warn=False).proved
    assert (
        check.holds(p, "G (out & x.value.amount > 0 -> out.value > 2 * x.value.amount)")
        .counterexample.inputs[0]["x"]
        .currency
        == "EUR"
    )


def test_a_default_is_found() -> None:
    p = pipeline(lambda x: x.map(lambda e: e.amount * RATES.get(e.currency, 0)), x=Payment)
    assert check.holds(p, "G (out & x.value.amount >= 0 -> out.value >= 0)", warn=False).proved
    assert (
        check.holds(p, "G (out & x.value.amount > 0 -> out.value > 0)").counterexample.inputs[0]["x"].currency
        not in RATES
    )


def test_a_dictionary_that_is_another_one_now_is_told_of() -> None:
    rates = {"EUR": 2}
    p = pipeline(lambda x: x.map(lambda s: rates.get(s, 0)), x=str)
    assert check.holds(p, "G (out -> out.value <= 2)", warn=False).proved
    rates["USD"] = 3
    verdict = check.holds(p, "G (out -> out.value <= 2)")
    assert verdict.status == "unknown"
    assert "reads rates, whose contents have changed since the pipeline was built" in verdict.notes[0]


def test_a_dictionary_of_integers() -> None:
    steps = {1: 10, 2: 20}
    p = pipeline(lambda x: x.map(lambda v: steps.get(v, -1)), x=int)
    assert check.holds(p, "G (out -> out.value <= 20)", warn=False).proved
    assert check.holds(p, "G (out -> out.value < 20)").counterexample.inputs == [{"x": 2}]


def test_a_dictionary_that_is_written_is_no_constant() -> None:
    seen: dict[str, int] = {}

    def count(s: str) -> int:
        seen[s] = seen.get(s, 0) + 1
        return seen[s]

    p = pipeline(lambda x: x.map(count), x=str)
    assert _status(lambda: check.holds(p, "G (out -> out.value = 1)")) != "proved"


def _status(ask: Callable[[], Any]) -> str:
    try:
        return str(ask().status)
    except NotTraceable:
        return "refused"


# ---------------------------------------------------------------- functions of which only their consistency is known


def test_the_same_argument_gives_the_same_answer() -> None:
    again = pipeline(lambda x: x.map(lambda s: s.upper() == s.upper()), x=str)
    assert check.holds(again, "G (out -> out.value = true)", warn=False).proved
    twice = pipeline(lambda x: x.map(lambda s: s.upper().upper() == s.upper()), x=str)
    assert check.holds(twice, "G (out -> out.value = true)").unknown  # so it is, but nobody told the solver
    longer = pipeline(lambda x: x.map(lambda s: len(s.upper()) == len(s)), x=str)
    assert check.holds(longer, "G (out -> out.value = true)").status in ("unknown", "refuted")  # "ß".upper() is "SS"


def first_word(s: str) -> str:
    return s.split(" ")[0]


def test_a_function_that_is_called_is_consistent_too() -> None:
    p = pipeline(lambda x: x.map(first_word).cumulate(lambda k, s: k + 1, start=0), x=str)
    verdict = check.holds(p, "G (out -> out.value > 0)", warn=False)
    assert verdict.proved and any("the same arguments give the same answer" in note for note in verdict.notes)
    q = pipeline(lambda x: x.map(first_word), x=str)
    verdict = check.holds(q, 'G (out -> out.value != "a b")')
    assert verdict.unknown and "first_word() answered otherwise than in truth" in " ".join(verdict.notes)
    assert first_word(check.holds(q, 'G (out -> out.value != "ab")').counterexample.inputs[-1]["x"]) == "ab"


def test_what_really_fails_fails_and_nothing_else() -> None:
    number = pipeline(lambda x: x.map(lambda s: int(s), to=int), x=str)
    verdict = check.holds(number, "G !failed")
    assert verdict.refuted
    with pytest.raises(ValueError):
        int(verdict.counterexample.inputs[-1]["x"])
    digits = pipeline(lambda x: x.filter(lambda s: s == "12").map(lambda s: int(s), to=int), x=str)
    assert check.holds(digits, "G (out -> out.value = 12)", warn=False).proved
    assert check.holds(digits, "G !failed", warn=False).proved


def test_a_clock_is_not_consistent() -> None:
    p, q = (pipeline(lambda x: x.map(lambda s: f"{s} {time.time()}", to=str), x=str) for _ in range(2))
    assert _status(lambda: check.holds(p, "G (out -> out.value = x.value)")) != "proved"
    assert _status(lambda: check.equivalent(p, q)) != "proved"


# ---------------------------------------------------------------- against Python


def test_random_conditions_against_python() -> None:
    """Conditions made at random: what is proved never fails on strings tried, what is refuted is shown by one."""
    rng = random.Random(*seeds(1))
    words = ["", "a", "b", "ab", "ba", "aab"]
    tried = ["".join(t) for size in range(5) for t in product("abé", repeat=size)]
    for _ in range(8):
        w, v, k = rng.choice(words), rng.choice(words), rng.randrange(4)
        f = rng.choice(
            [
                lambda s, w=w, v=v: s.startswith(w) and v in s,
                lambda s, w=w, k=k: s.endswith(w) and len(s) <= k,
                lambda s, w=w, v=v: (w + s).startswith(v) or s < w,
                lambda s, w=w, k=k: s[k:] == w or s[:-1] == w,
            ]
        )
        g = rng.choice(
            [
                lambda s, w=w: w in s,
                lambda s, k=k: len(s) >= k,
                lambda s, v=v: s >= v,
                lambda s, w=w, v=v: s.find(v) <= len(w),
            ]
        )
        p = pipeline(lambda x, f=f, g=g: x.filter(f).map(g), x=str)
        verdict = check.holds(p, "G (out -> out.value = true)", warn=False)
        wrong = [s for s in tried if f(s) and not g(s)]
        assert verdict.status != "unknown" and (not wrong if verdict.proved else True), (w, v, k, wrong[:3])
        if verdict.refuted:
            s = verdict.counterexample.inputs[-1]["x"]
            assert f(s) and not g(s)
