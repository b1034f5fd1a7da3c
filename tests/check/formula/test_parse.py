"""The text of formulas: precedence, names, and what is said about a mistake."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.check.formula import AG, AU, EF, EU, FALSE, TRUE, F, Formula, G, Not, O, S, U, X, Y, full, queue, stream
from pellucid.check.formula.nodes import _LEVEL, CTL, LTL, Atom
from pellucid.check.formula.parse import parse
from pellucid.check.formula.terms import Calc, Compare, Flag, Length, Literal, Ref, negative
from pellucid.errors import UsageError

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
