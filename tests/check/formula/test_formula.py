"""Formulas: as Python, their kinds, their meaning in words, on traces and Kripke structures, and on a pipeline."""

from __future__ import annotations

import enum
import pickle
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Stream, apply, pipeline
from pellucid.check.formula import (
    AG,
    AU,
    EF,
    EU,
    FALSE,
    TRUE,
    F,
    Formula,
    G,
    Not,
    O,
    S,
    U,
    X,
    Y,
    as_formula,
    evaluate_finite,
    evaluate_lasso,
    explain,
    failed,
    full,
    is_invariant,
    kind,
    overflow,
    queue,
    resolve,
    stream,
)
from pellucid.check.formula.nodes import _LEVEL, CTL, LTL, Atom, Calc, Compare, Flag, Length, Literal, Ref, negative
from pellucid.check.formula.parse import parse
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Mod, domain_of
from pellucid.errors import UsageError
from pellucid.internal.expr.evaluate import evaluate
from tests.check.reference import evaluate_ctl

x, out = stream("x"), stream("out")


# ---------------------------------------------------------------- as Python


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (G(x.present >> F(out.present)), "G (x -> F out)"),
        (G(x >> F(out)), "G (x -> F out)"),
        (AG(EF("out")), "AG EF out"),
        (~full & ~overflow | ~failed, "!full & !overflow | !failed"),
        (U(out.value > 3, x.value == out.value), "out.value > 3 U x.value = out.value"),
        (3 <= out.value, "out.value >= 3"),
        (out.value.price * 2 - 1 != x.value.size % 3, "out.value.price * 2 - 1 != x.value.size % 3"),
        (1 + -x.value < 7, "1 + -x.value < 7"),
        (queue("apply-3f.0").length == 0, "queue(apply-3f.0).length = 0"),
        (AU(x, out.value), "A [x U out.value]"),
        (True & x.present, "true & x"),
        (stream("a").present >> ("b" | x.present), "a -> b | x"),
    ],
)
def test_combinators_say_what_the_text_says(formula, text):
    assert str(formula) == text
    assert parse(text) == formula


def test_equal_formulas_are_one_key_and_survive_pickling():
    a, b = G(x >> F(out)), parse("G (x -> F out)")
    assert a == b and hash(a) == hash(b) and a is not b
    assert pickle.loads(pickle.dumps(a)) == a
    assert parse("x.value = 1") != parse("x.value = true") != parse("x.value = 1.0")


@pytest.mark.parametrize("mistake", [lambda: x.present and out.present, lambda: not full, lambda: 1 < x.value < 3])
def test_and_or_not_are_not_lost_silently(mistake):
    with pytest.raises(UsageError, match="a formula has no truth value of its own: combine formulas by"):
        mistake()


def test_bad_arguments():
    with pytest.raises(UsageError, match=r"x\.value \+ 1 is not a condition: compare it"):
        G(x.value + 1)
    with pytest.raises(UsageError, match="U takes 2 formulas, found 1"):
        U(x)
    with pytest.raises(UsageError, match=r"found \[1\]"):
        x.value == [1]  # noqa: B015
    with pytest.raises(UsageError, match="give a finite number"):
        x.value > float("nan")  # noqa: B015
    assert as_formula(False) == FALSE and as_formula(TRUE) is TRUE


# ---------------------------------------------------------------- kinds


def test_kind():
    assert [kind(parse(t)) for t in ("a & b", "AG a", "A [a U b]", "a U b", "O a")] == [
        "state",
        "ctl",
        "ctl",
        "ltl",
        "ltl",
    ]
    with pytest.raises(UsageError, match="AG F out mixes AG of CTL with F of LTL: write all of it in CTL"):
        kind(parse("AG F out"))


@pytest.mark.parametrize(
    ("text", "invariant"),
    [
        ("G (a -> b)", "a -> b"),
        ("AG a", "a"),
        ("!EF full", "!full"),
        ("!F a", "!a"),
        ("!EF !a", "a"),
        ("AG a & !EF b", "a & !b"),
        ("a", None),
        ("AG EF a", None),
        ("G O a", None),
        ("EF a", None),
        ("AG a | AG b", None),
        ("!G a", None),
    ],
)
def test_is_invariant(text, invariant):
    found = is_invariant(parse(text))
    assert (str(found) if found is not None else None) == invariant


# ---------------------------------------------------------------- in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "AG EF out",
            "From every state that can be reached, it is possible to reach one in which out carries an event.",
        ),
        ("!EF full", "In every state that can be reached, no queue is full."),
        (
            "AG (in -> AF out)",
            "In every state that can be reached, if in carries an event, then whatever comes in, a "
            "state is reached in which out carries an event.",
        ),
        (
            "EF AG !out",
            "It is possible to reach a state from which in every state that can be reached from there, out "
            "carries no event.",
        ),
        (
            "G (in -> F out)",
            "On every run, in every step, if in carries an event, then in that step or a later one out "
            "carries an event.",
        ),
        ("G F out", "On every run, again and again out carries an event."),
        ("!G F out", "On every run, from some step on, in every step out carries no event."),
        (
            "G (out -> O in)",
            "On every run, in every step, if out carries an event, then in that step or an earlier one "
            "in carries an event.",
        ),
        (
            "a U b",
            "On every run, sooner or later there is a step in which b carries an event, and in every step before "
            "it a carries an event.",
        ),
        (
            "E [!full U out]",
            "It is possible that sooner or later there is a step in which out carries an event, and in "
            "every step before it no queue is full.",
        ),
        ("AG queue(a.0).length <= 1", "In every state that can be reached, queue a.0 holds at most 1 event."),
        ("out.value != 3", "In the first step, out carries an event, and each is not 3."),
        (
            "out.value.price + 1 > x.value",
            "In the first step, out and x carry events, and for each with each the price "
            "of out plus 1 is more than the value of x.",
        ),
        (
            "G (a & b | c)",
            "On every run, in every step, either (a carries an event and b carries an event) or c carries an event.",
        ),
    ],
)
def test_explain(text, words):
    assert explain(parse(text)) == words


# ---------------------------------------------------------------- traces and structures

p, q = parse("p"), parse("q")


def trace(word: str) -> list[dict[Formula, bool]]:
    """``p``, ``q``, ``b`` (both), ``.`` (none) in a row."""
    return [{p: c in "pb", q: c in "qb"} for c in word]


@pytest.mark.parametrize(
    ("text", "word", "truth"),
    [
        ("G p", "ppp", True),
        ("F q", "pp.", False),
        ("X p", "p", False),
        ("!X !p", "p", True),
        ("G X p", "ppp", False),
        ("p U q", "ppq", True),
        ("p U q", "ppp", False),
        ("p W q", "ppp", True),
        ("q R p", "ppp", True),
        ("q R p", "pbq", True),
        ("q R p", "pq", False),
        ("F (q & Y p)", "pq", True),
        ("Y true", "p", False),
        ("G (q -> O p)", "q", False),
        ("F (q & H q)", "qq", True),
        ("F (. S q)".replace(".", "p"), "qpp", True),
        ("G (p S q)", "qpp", True),
        ("G (p S q)", "qp.", False),
    ],
)
def test_finite_traces(text, word, truth):
    assert evaluate_finite(parse(text), trace(word)) is truth


@pytest.mark.parametrize(
    ("text", "word", "loop", "truth"),
    [
        ("G F p", ".p", 0, True),
        ("F G p", ".p", 0, False),
        ("F G p", ".p", 1, True),
        ("p U q", "pp", 0, False),
        ("p W q", "pp", 0, True),
        ("F (q & O p)", "q.p", 0, True),  # p comes before q only in the second turn
        ("F (p & Y (q & Y (p & Y q)))", "qp", 0, True),
        ("H p", "p.", 0, True),
        ("G H p", "p.", 0, False),
    ],
)
def test_lassos(text, word, loop, truth):
    assert evaluate_lasso(parse(text), trace(word), loop) is truth


def test_bad_traces():
    with pytest.raises(UsageError, match="an empty trace"):
        evaluate_finite(p, [])
    with pytest.raises(UsageError, match="the loop must start within the trace's 1 steps, found 1"):
        evaluate_lasso(p, trace("p"), 1)
    with pytest.raises(UsageError, match="an LTL formula was expected, found EF"):
        evaluate_lasso(parse("EF p"), trace("p"), 0)
    with pytest.raises(UsageError, match="a CTL formula was expected, found F"):
        evaluate_ctl(parse("F p"), [[0]], [{p}])
    with pytest.raises(UsageError, match="state 0 has no successor"):
        evaluate_ctl(parse("EF p"), [[]], [{p}])


structures = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=3), min_size=n, max_size=n),
        st.lists(st.sampled_from([set(), {p}, {q}, {p, q}]), min_size=n, max_size=n),
    )
)


def runs(follow: list[list[int]], start: int) -> list[tuple[list[int], int]]:
    """Every lasso from a state that closes where it first comes back to a state: enough for F, G and U."""
    out, todo = [], [[start]]
    while todo:
        path = todo.pop()
        for t in set(follow[path[-1]]):
            if t in path:
                out.append((path, path.index(t)))
            else:
                todo.append([*path, t])
    return out


@settings(max_examples=150)
@given(structures, st.sampled_from([("F p", "F"), ("G p", "G"), ("X p", "X"), ("p U q", "U"), ("!p U (p & q)", "U")]))
def test_ctl_is_ltl_on_all_or_some_runs(structure, question):
    follow, labels = structure
    text, op = question
    linear = parse(text)
    for path, quantifier in (("A", all), ("E", any)):
        branching = Formula(path + op, linear.args)
        expected = {
            s
            for s in range(len(follow))
            if quantifier(evaluate_lasso(linear, [labels[i] for i in run], loop) for run, loop in runs(follow, s))
        }
        assert evaluate_ctl(branching, follow, labels) == expected


@settings(max_examples=100)
@given(structures)
def test_ctl_dualities(structure):
    for a, b in (
        ("AG p", "!EF !p"),
        ("AF p", "!EG !p"),
        ("AX p", "!EX !p"),
        ("A [p U q]", "!E [!q U (!p & !q)] & AF q"),
        ("EF p", "E [true U p]"),
    ):
        assert evaluate_ctl(parse(a), *structure) == evaluate_ctl(parse(b), *structure), (a, b)


# ---------------------------------------------------------------- on a pipeline


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Trade(NamedTuple):
    price: float
    size: int
    color: Color


@pipeline
def trades(t: Stream[Trade], n: Stream[int]) -> Stream[int]:
    return apply(lambda a, b: a.size + b, t, n, id="total")


@pipeline
def odd(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 2 == 1, id="odds").map(lambda v: v + 1, id="more")


def system(of: Any, ints: Any = None) -> System:
    return build_system(of.graph, domain_of(ints), queue=2)


def truth(text: str, of: Any, ints: Any = None, **inputs: Any) -> bool:
    """Whether a state formula holds in the first step, with these events."""
    made = system(of, ints)
    values = [v.start for v in made.state]
    for name, t in made.sources:
        values.append(name in inputs)
        zero = [getattr(leaf, "members", [0])[0] for _, leaf in t.leaves()]
        values += t.flatten(inputs[name]) if name in inputs else zero
    resolved = resolve(parse(text), made)
    label = {atom: evaluate(atom.body, values) for atom in resolved.atoms()}
    return evaluate_finite(resolved, [label])


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("out", 3, True),
        ("out", 2, False),
        ("in & x & !out", 2, True),
        ("out.value = 4", 3, True),
        ("out.value > 4", 3, False),
        ("in.value = 3", 3, True),
        ("x.value + 1 = out.value", 3, True),
        ("odds & more", 5, True),
        ("value = 4", 3, True),
        ("out = in", 2, False),
        ("out = in", 3, True),
        # values of a silent stream: no comparison holds, not even !=
        ("out.value != 7", 2, False),
        ("out.value = 7", 2, False),
        ("!(out.value = 7)", 2, True),
        ("x.value < out.value", 2, False),
        ("x.value != 7 | true", None, True),
        ("x.value != 7", None, False),
        ("in", None, False),
        ("x.value % x.value = 0", 0, False),
        ("x.value % x.value = 0", 2, True),
        ("full | overflow | failed", 3, False),
        ("x.value = 3.0", 3, True),
        ("x.value < 3.5", 3, True),
    ],
)
def test_atoms_of_a_pipeline(text, event, expected):
    assert truth(text, odd, **({} if event is None else {"x": event})) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.value.price = 1.5", True),
        ("t.price > 1", True),
        ("t.value.color = Color.RED", True),
        ("t.color = RED", True),
        ("GREEN = t.color", False),
        ("t.color != GREEN", True),
        ("t.size * 2 - 1 >= 3", True),
        ("out", False),
        ("queue(total.0).length = 1", True),
        ("queue(total.1).length = 0", True),
        ("t.value = t.value", True),
        ("n.value = t.size", False),
    ],
)
def test_records_enums_and_queues(text, expected):
    assert truth(text, trades, t=Trade(1.5, 2, Color.RED)) is expected


def test_modulo_n():
    assert truth("out.value = x.value + 1", odd, Mod(4), x=3)  # both are 0
    assert not truth("x.value = -1", odd, Mod(4), x=3)  # a number that the formula itself mentions stays


def test_resolved_atoms_are_expressions_that_print_as_they_were_written():
    resolved = resolve(parse("G (in -> F out.value > 3)"), system(odd))
    assert str(resolved) == "G (in -> F out.value > 3)"
    assert resolved == resolve(parse("G (x -> F (more.value > 3))"), system(odd))
    assert resolve(resolved, system(odd)) == resolved
    assert resolve(parse("x.value = x.value | 1 < 0"), system(odd)).args[1] == FALSE


@pytest.mark.parametrize(
    ("of", "text", "message"),
    [
        (odd, "G outt", "odd has no stream 'outt': did you mean 'out'? It has x, odds, more, out, and 'in' for x"),
        (
            odd,
            "oddz.value > 3",
            "odd has no stream 'oddz.value': did you mean 'odds'? It has x, odds, more, out, and 'in' for x",
        ),
        (odd, "zzz", "odd has no stream 'zzz': it has x, odds, more, out, and 'in' for x"),
        (trades, "in", "trades has 2 sources, so 'in' is none of them: write t or n"),
        (odd, "queue(a.0).length = 1", "odd has no queue 'a.0': it has none"),
        (
            trades,
            "queue(total.2).length = 1",
            "trades has no queue 'total.2': did you mean 'total.1'? It has total.0, total.1",
        ),
        (odd, 'out.value = "a"', 'in out.value = "a": out.value is an int and "a" is a str: they cannot be compared'),
        (
            odd,
            "out = 3",
            "in out = 3: out is a bool and 3 is an int: they cannot be compared; out says whether an "
            "event is there, the event itself is out.value",
        ),
        (
            odd,
            "out.value = true",
            "in out.value = true: out.value is an int and true is a bool: they cannot be compared",
        ),
        (odd, "out.value", "out.value is an int, not a condition: compare it, as in out.value = …"),
        (odd, "out + 1 > 2", "in out + 1: out is a bool: + wants numbers; the event itself is out.value"),
        (odd, "out.value % 0 = 1", "in out.value % 0: nothing has a remainder by 0"),
        (odd, "out.value = 99999999999999999999", "the number 99999999999999999999 does not fit in 64 bits"),
        (odd, "out.price > 1", "in out.price: out.value is an int and has no fields: write out or out.value"),
        (
            trades,
            "t.prise > 1",
            "in t.prise: t.value is a Trade(price: float, size: int, color: Color) and has no "
            "field 'prise': did you mean 'price'? It has price, size, color",
        ),
        (
            trades,
            "t.color = REDD",
            "in t.color compared with REDD: Color has no member 'REDD': did you mean 'RED'? It has RED, GREEN",
        ),
        (
            trades,
            "t.color < RED",
            "in t.color < RED: t.color is a Color and RED is a Color: they have no order that < could ask for",
        ),
        (
            trades,
            "t.value > 3",
            "in t.value > 3: t.value is a Trade(price: float, size: int, color: Color) and 3 is an "
            "int: they have no order that > could ask for",
        ),
    ],
)
def test_what_does_not_fit_is_said(of, text, message):
    with pytest.raises(UsageError) as error:
        resolve(parse(text), system(of))
    assert str(error.value) == message


def test_names_with_dots_and_two_pipelines():
    made = system(odd)
    streams = {f"{side}.{name}": made.streams[name] for side in "ab" for name in made.streams}
    both = System(**{**vars(made), "streams": streams})
    formula = resolve(parse("AG (a.out = b.out & (a.out -> a.value = b.value))"), both)
    assert formula == resolve(parse("AG (a.out = b.out & (a.out -> a.out.value = b.out.value))"), both)
    assert resolve(X(stream("a.out").value > 3), both) == resolve(parse("X a.out.value > 3"), both)


# The text of formulas: precedence, names, and what is said about a mistake.

IN, OUT, A, B, C = (stream(name).present for name in ("in", "out", "a", "b", "c"))


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("AG EF out", AG(EF(OUT))),
        ("AG(EF(out))", AG(EF(OUT))),
        ("!EF full", Not(EF(full))),
        ("G (in -> X out.value > 3)", G(IN >> X(stream("out").value > 3))),
        ("G(in->X out.value>3)", G(IN >> X(stream("out").value > 3))),
        ("A [a U b & c]", AU(A, B & C)),
        ("E[a U b]", EU(A, B)),
        ("A [a U (b U c)]", AU(A, U(B, C))),
        ("A [a U E [b U c]]", AU(A, EU(B, C))),
        ("a & b U c", A & U(B, C)),
        ("a U b U c", U(A, U(B, C))),
        ("!a U b", U(~A, B)),
        ("Y a S O b", S(Y(A), O(B))),
        ("a | b & c", A | (B & C)),
        ("a -> b -> c", A >> (B >> C)),
        ("a <-> b -> c", parse("a <-> (b -> c)")),
        ("a && b || c", (A & B) | C),
        ("F !a", F(~A)),
        ("!F a", ~F(A)),
        ("true & !false", TRUE & ~FALSE),
        ("out.value == 3", stream("out").value == 3),
        ("-3 < x.value", Atom(Compare("<", Literal(-3), Ref("x", ("value",))))),
        ("(x.value + 1) * 2 != -y.value % 3", (stream("x").value + 1) * 2 != -stream("y").value % 3),
        ("x.value-1 = 0", stream("x").value - 1 == 0),
        ("queue(apply-3f.0).length <= 2", queue("apply-3f.0").length <= 2),
        ('queue("a b").length=0', queue("a b").length == 0),
        ("sum-3f/inner_2", stream("sum-3f/inner_2").present),
        ("out.present", OUT),
        ("stream(G) & stream('a b').value = 'x'", stream("G").present & (stream("a b").value == "x")),
        ("x.value = 1.5e-3", stream("x").value == 1.5e-3),
        ("x.value = true", stream("x").value == True),  # noqa: E712
        ("x.value = Color.RED", Atom(Compare("=", Ref("x", ("value",)), Ref("Color", ("RED",))))),
        ("x.price >= y.value.price", Atom(Compare(">=", Ref("x", ("price",)), Ref("y", ("value", "price"))))),
        ("((((a))))", A),
        ("G\n  (a\t-> b)", G(A >> B)),
    ],
)
def test_reads(text, formula):
    assert parse(text) == formula
    assert parse(str(formula)) == formula


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((a & b) | (c)) -> (!(a))", "a & b | c -> !a"),
        ("a & (b & c)", "a & (b & c)"),
        ("(a -> b) -> c", "(a -> b) -> c"),
        ("G ((F (a)))", "G F a"),
        ("!x.value = 3", "!(x.value = 3)"),
        ("(a U b) U (c U a)", "(a U b) U c U a"),
        ("X (a & b)", "X (a & b)"),
        ("x.value - (y.value - 1) > 2", "x.value - (y.value - 1) > 2"),
    ],
)
def test_prints_with_few_brackets(text, printed):
    assert str(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a condition, found the end\n  \n  ^"),
        ("G (in -> )", "expected a condition, found ')'\n  G (in -> )\n           ^"),
        ("G (in", "expected ')', found the end\n  G (in\n       ^"),
        ("in out", "expected an operator such as & | -> U, or the end, found 'out'\n  in out\n     ^"),
        ("x.value = ", "expected a value, found the end\n  x.value = \n            ^"),
        ("a $ b", "expected a name, a number, a text in quotes or an operator, found '$'\n  a $ b\n    ^"),
        ("3", "expected a condition: compare 3 with something, found 3\n  3\n  ^"),
        (
            "a & x.value + 1",
            "expected a condition: compare x.value + 1 with something, found x.value + 1\n  a & x.value + 1\n      ^",
        ),
        (
            "(a & b) = c",
            "expected a value (conditions are compared by <->), found the condition a & b\n  (a & b) = c\n  ^",
        ),
        (
            "1 < x.value < 3",
            "expected one comparison at a time: join two by &, found '<'\n  1 < x.value < 3\n              ^",
        ),
        ("a => b", "expected a value, found '>': 'implies' is written ->\n  a => b\n     ^"),
        ("A [a & b]", "expected 'U' (as in A [p U q]), found ']'\n  A [a & b]\n          ^"),
        ("a U", "expected a condition, found the end\n  a U\n     ^"),
        (
            "a & U",
            "expected a condition (U is an operator; a stream of that name is stream(\"U\")), found 'U'\n  a & U\n     "
            " ^",
        ),
        ("queue(a.0) = 1", "expected .length after queue(…), found queue(a.0)\n  queue(a.0) = 1\n  ^"),
        ("G\n(a", "expected ')', found the end\n  G (a\n      ^"),
        (
            'x.value = "abc',
            "expected a name, a number, a text in quotes or an operator, found '\"'\n  x.value = \"abc\n            ^",
        ),
    ],
)
def test_a_mistake_is_shown_with_its_place(text, message):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert str(error.value) == message


def test_what_is_no_text_or_too_deep():
    with pytest.raises(UsageError, match="a formula is a text, found 3"):
        parse(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="nested too deeply"):
        parse("(" * 100_000)


# ---------------------------------------------------------------- what is printed is read back

names = st.one_of(
    st.sampled_from(["a", "out", "in", "apply-3f", "w/sum", "G", "A", "queue", "true", "é"]),
    st.text(min_size=1, max_size=4),
)
fields = st.lists(st.sampled_from(["value", "price", "x", "0", "U"]), max_size=2).map(tuple)
leaves = st.one_of(
    st.builds(Ref, names, fields),
    st.builds(Length, names),
    st.builds(
        Literal,
        st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)),
    ),
    st.sampled_from([Flag("full"), Flag("overflow"), Flag("failed")]),
)
terms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(negative, inner),
        st.builds(lambda op, a, b: Calc(op, (a, b)), st.sampled_from("+-*%"), inner, inner),
    ),
    max_leaves=5,
)
atoms = st.one_of(
    st.builds(Atom, st.builds(Ref, names, fields)),
    st.sampled_from([TRUE, FALSE, full]),
    st.builds(
        lambda op, a, b: Atom(Compare(op, a, b)), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), terms, terms
    ),
)
TWO = list(_LEVEL) + ["AU", "EU"]
ONE = sorted({"!"} | (CTL | LTL) - set(TWO))
trees = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda op, a: Formula(op, (a,)), st.sampled_from(ONE), inner),
        st.builds(lambda op, a, b: Formula(op, (a, b)), st.sampled_from(TWO), inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=400)
@given(trees)
def test_what_is_printed_is_read_back(formula):
    again = parse(str(formula))
    assert again == formula and hash(again) == hash(formula)
    assert str(again) == str(formula)


@settings(max_examples=300)
@given(st.text(alphabet="abGXU AE[]()!&|-><=+*%.0123\"'queue", max_size=20))
def test_any_text_is_read_or_refused_with_a_caret(text):
    said = ""
    try:
        parse(text)
    except UsageError as error:
        said = str(error)
    assert not said or said.rstrip().endswith("^")


@pytest.mark.parametrize(
    "text",
    [
        "x.value.ts >= Y x.value.ts",
        "x.value - Y x.value > 3 & Y x",
        "x.value = -Y x.value",
        'x.value < Y stream("a b").value',
    ],
)
def test_the_event_before(text: str) -> None:
    f = parse(text)
    assert str(f) == text and parse(str(f)) == f


@pytest.mark.parametrize("text", ["x.value > Y x", "x.value > Y 3", "x.value > Y"])
def test_the_event_before_of_what(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected the value of a stream after Y, as in x.value >= Y x.value"):
        parse(text)
