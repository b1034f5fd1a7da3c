"""The symbolic engine: translation against evaluation, refutations against brute force, proofs by their
certificates."""

from __future__ import annotations

import enum
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from pellucid import Stream, apply, pipeline
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Mod, domain_of
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.types import INT

z3 = pytest.importorskip("z3")


from pellucid.check.smt import engine as smt  # noqa: E402
from pellucid.check.smt.encode import Encoding, input_leaves, replay  # noqa: E402  # noqa: E402
from pellucid.internal.model.search import Budget  # noqa: E402
from pellucid.internal.solve.certificate import expression_of, spacer  # noqa: E402


class Light(enum.Enum):
    RED = 1
    GREEN = 2
    OFF = 3


class Sale(NamedTuple):
    light: Light
    amount: int
    name: str


def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda so_far, v: so_far + v, start=0)


def system_of(f: Callable[..., Any], ints: Any = None, queue: int = 3, **types: Any) -> System:
    return build_system(pipeline(f, **(types or {"x": int})).graph, domain_of(ints), queue)


def always(s: System, test: Callable[[Expr], Expr], stream: str = "out") -> Expr:
    """Whenever an event is there, it passes the test."""
    return n.or_(n.not_(s.present(stream)), test(s.value(stream)[0]))


def at_most(c: int) -> Callable[[Expr], Expr]:
    return lambda v: n.le(v, n.const(c))


def at_least(c: int) -> Callable[[Expr], Expr]:
    return lambda v: n.le(n.const(c), v)


def remainder(m: int, r: int = 0) -> Callable[[Expr], Expr]:
    return lambda v: n.eq(n.binary("mod", v, n.const(m)), n.const(r))


def proved(s: System, good: Expr, **limits: Any) -> smt.Proof:
    status, trace, proof, notes = smt.invariant(s, good, **limits)
    assert status == "proved" and trace is None and notes == (), (status, trace, notes)
    assert proof is not None and smt.check_certificate(Encoding(s), n.not_(good), proof)
    return proof


def refuted(s: System, good: Expr, **limits: Any) -> list[dict[str, Any]]:
    status, trace, proof, notes = smt.invariant(s, good, **limits)
    assert status == "refuted" and proof is None and notes == (), (status, notes)
    assert trace is not None and replay(s, n.not_(good), trace) is True
    return trace


# ---------------------------------------------------------------- translation


FUNCTIONS: list[tuple[Callable[..., Any], list[Any]]] = [
    (lambda a, b: abs(a) - -b * (a if a > b else 3), [int, int]),
    (lambda a, b: a == b or (a < b and not b <= 4), [int, int]),
    (lambda a, b: (a << 2) + (b >> 1) + ~a + (b & 7), [int, int]),
    (lambda p, q: p if q else not p, [bool, bool]),
    (lambda p, v: p + v, [bool, int]),
    (lambda c, d: c if d is Light.RED else d, [Light, Light]),
    (lambda c, v: v if c == "a" or c == "b" else 0, [str, int]),
    (lambda f, g: f * g - 0.5 if f < g else -f / 3.0, [float, float]),
    (lambda f, v: f < v or v == f, [float, int]),
    (lambda a, b: a / 7 + b, [int, int]),
]


@pytest.mark.parametrize(("f", "types"), FUNCTIONS)
def test_a_term_means_what_its_expression_means(f: Callable[..., Any], types: list[Any]) -> None:
    s = system_of(lambda x, y: apply(f, x, y), x=types[0], y=types[1])
    code, (value,) = Encoding(s), s.value("out")
    t = value.type
    rng = random.Random(1)
    pools: dict[Any, list[Any]] = {
        int: [-9, -1, 0, 1, 2, 5, 2**40],
        bool: [False, True],
        Light: list(Light),
        str: ["", "a", "b", "c"],
        float: [0.0, -0.0, 1.0, 0.1, -2.5, 1e300, float("inf"), float("-inf"), float("nan")],
    }
    start = [v.start for v in s.state]
    for _ in range(30):
        leaves = [*start, *input_leaves(s, {k: rng.choice(pools[p]) for k, p in zip("xy", types, strict=True)})]
        variables = [*s.state, *s.inputs]
        pairs = [
            (c, code.value(v.type, leaf))
            for c, v, leaf in zip([*code.state, *code.inputs], variables, leaves, strict=True)
        ]
        found = code.python(t, z3.simplify(z3.substitute(code.term(value), *pairs)))
        wanted = evaluate(value, leaves)
        assert repr(found) == repr(wanted), leaves  # repr: NaN, and the sign of zero


def test_events_that_are_records_of_enums_and_strings() -> None:
    s = system_of(
        lambda x: x.filter(lambda e: e.light is Light.OFF and e.name == "tea").map(lambda e: e.amount), x=Sale
    )
    assert refuted(s, always(s, at_most(41))) == [{"x": Sale(Light.OFF, 42, "tea")}]
    t = system_of(lambda x: x.map(lambda e: e.name != "tea" and e.name != ""), x=Sale)
    assert refuted(t, always(t, n.not_)) == [{"x": Sale(Light.RED, 0, "other 1")}]


def test_floats_are_doubles() -> None:
    s = system_of(lambda x: x.map(lambda f: f + 0.1 == 0.3), x=float)
    trace = refuted(s, always(s, n.not_))
    assert trace[0]["x"] + 0.1 == 0.3
    t = system_of(lambda x: x.map(lambda f: f < 1.0 or f > 1.0 or f == 1.0), x=float)
    assert smt.invariant(t, always(t, lambda v: v))[0] == "proved"  # only NaN is none of these, and no source takes it
    u = system_of(lambda x: x.map(lambda f: f - f).map(lambda f: f < 1.0 or f > 1.0 or f == 1.0), x=float)
    (push,) = refuted(u, always(u, lambda v: v))  # but a pipeline can make one
    assert push["x"] - push["x"] != push["x"] - push["x"]


def test_what_cannot_be_said_is_refused_with_the_step() -> None:
    s = system_of(lambda x: x.map(lambda v: v ^ 5))
    with pytest.raises(
        UsageError, match=r"^map-\w+: the symbolic engine does not do 'bxor' of int and int: give a finite"
    ):
        smt.search(s, n.not_(always(s, at_most(3))))
    assert isinstance(smt.search(s, s.present("out")), smt.FoundRun)  # which does not look at the value
    s = system_of(lambda x: x.cumulate(lambda a, v: a % v if v > 0 else a, 0.0), x=float)
    with pytest.raises(UsageError, match=r"^cumulate-\w+: the symbolic engine does not do 'mod' of float and float"):
        smt.search(s, s.present("out"))
    s = system_of(total)
    with pytest.raises(UsageError, match="true or false, found one of type int"):
        smt.search(s, s.value("out")[0])
    with pytest.raises(UsageError, match="at least 1, found 0"):
        smt.search(s, s.present("out"), max_depth=0)


def test_without_z3_only_its_use_is_an_error() -> None:
    code = (
        "import sys; sys.modules['z3'] = None\n"
        "from pellucid import pipeline; from pellucid.check.smt import engine as smt\n"
        "from pellucid.check.system.build import build_system; from pellucid.check.system.domains import domain_of\n"
        "s = build_system(pipeline(lambda x: x, x=int).graph, domain_of(None))\n"
        "try: smt.search(s, s.failed)\n"
        "except smt.UsageError as e: print(e)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "the symbolic engine needs the z3 solver: pip install 'pellucid[check]'\n"


# ---------------------------------------------------------------- refutations


def test_shortest_and_smallest() -> None:
    s = system_of(total, range(-2, 8))
    assert refuted(s, always(s, at_most(20))) == [{"x": 7}, {"x": 7}, {"x": 7}]
    assert refuted(s, always(s, at_most(15))) == [{"x": 2}, {"x": 7}, {"x": 7}]
    assert refuted(s, always(s, at_least(-3))) == [{"x": -2}, {"x": -2}]
    s = system_of(total)
    assert refuted(s, always(s, at_most(10**9))) == [{"x": 10**9 + 1}]
    assert refuted(s, always(s, lambda v: n.lt(n.mul(v, v), n.const(50)))) == [{"x": 8}]
    s = system_of(total, {5, -3, 12})
    assert refuted(s, always(s, remainder(4, 1))) == [{"x": 12}]
    assert refuted(s, always(s, lambda v: n.not_(n.eq(v, n.const(1))))) == [{"x": v} for v in (-3, -3, -3, 5, 5)]


def test_silent_where_possible() -> None:
    s = system_of(lambda x, y: apply(lambda a, b: b, x, y.decimate(2)), range(4), x=int, y=int)
    assert refuted(s, always(s, at_most(2))) == [{"x": 0, "y": 3}]
    assert refuted(s, n.not_(n.eq(s.lengths[next(iter(s.lengths))], n.const(2)))) == [{"x": 0}, {"x": 0}]


def test_bounds_of_the_search() -> None:
    s = system_of(total, range(2))
    high = n.not_(always(s, at_most(5)))
    assert smt.search(s, high, max_depth=5) == smt.Nothing(5)
    assert smt.search(s, high, max_depth=6) == smt.FoundRun([{"x": 1}] * 6)
    assert smt.search(s, high, max_depth=6, timeout=0) == smt.Unknown("the time was up", 0)


def test_a_value_where_there_is_no_event_refutes_nothing() -> None:
    s = system_of(lambda x: x.map(lambda v: 10 // v))
    status, trace, _, notes = smt.invariant(s, n.not_(n.eq(s.value("out")[0], n.const(0))))
    assert (status, trace) == ("unknown", None) and "does not replay" in notes[0]


def test_beyond_64_bits_is_said() -> None:
    s = system_of(lambda x: x.map(lambda v: v * v), range(2**40, 2**40 + 2))
    found = smt.search(s, s.present("out"), max_depth=1)
    assert isinstance(found, smt.FoundRun) and found.trace == [{"x": 2**40}]
    found = smt.search(s, n.not_(always(s, at_most(0))), max_depth=1)
    assert isinstance(found, smt.FoundRun) and "leaves 64 bits" in found.notes[0]


# ---------------------------------------------------------------- proofs


def test_sums() -> None:
    s = system_of(total, range(8))
    proof = proved(s, always(s, at_least(0)))
    assert proof.kind == "invariant" and str(proof).endswith(":state >= 0)")
    assert proof.certificate == ("invariant", str(proof))
    s = system_of(lambda x: total(x * 2))
    assert str(proved(s, always(s, remainder(2)))).endswith(":state % 2 == 0)")
    s = system_of(lambda x: x.window(3, total), range(8))
    proved(s, always(s, at_most(21)))
    s = system_of(lambda x: x.map(lambda v: 1).window(3, total))
    proved(s, always(s, lambda v: n.eq(v, n.const(3))))


def test_counters() -> None:
    s = system_of(lambda x: x.decimate(3).trim(2))
    for i, v in enumerate(s.state):
        if v.size is not None:
            proved(s, n.and_(n.le(n.const(0), n.var(i, INT)), n.lt(n.var(i, INT), n.const(v.size))))
    s = system_of(lambda x: apply(lambda a, b: a, x, x.trim(2)), queue=2)  # two wait, and no more
    proved(s, n.not_(s.overflow))
    s = system_of(lambda x: apply(lambda a, b: a, x, x.trim(2)), queue=1)
    assert refuted(s, n.not_(s.overflow)) == [{"x": 0}] * 2


def test_two_ways_to_the_same_sum() -> None:
    s = system_of(
        lambda x: apply(lambda a, b: a == b, x.window(2, total), apply(lambda a, b: a + b, x, x.trim(1))), queue=1
    )
    assert "==" in str(proved(s, always(s, lambda v: v)))


def test_the_sum_of_the_odd_numbers_is_a_square() -> None:
    def squares(x: Stream[int]) -> Stream[bool]:
        count = total(x.map(lambda v: 1))
        return apply(lambda a, b: a == b * b, total(count.map(lambda v: 2 * v - 1)), count)

    proved(s := system_of(squares), always(s, lambda v: v))


def test_k_induction_and_its_certificate() -> None:
    s = system_of(
        lambda x: x.task(lambda last, v: (v if v != last else v + 1, [v if v != last else v + 1]), 0), range(3)
    )
    bad = n.not_(always(s, at_most(3)))
    proof = smt.prove(s, bad)
    assert isinstance(proof, smt.Proof) and smt.check_certificate(Encoding(s), bad, proof)


def test_finite_systems_are_closed_by_simple_paths() -> None:
    s = system_of(lambda x: x.cumulate(lambda a, v: a + 2, 0), Mod(6))  # 0, 2, 4; and 1, 3, 5 for itself
    state = n.var(1, INT)
    bad = n.eq(state, n.const(5))
    proof = smt.Proof(3, (n.le(n.const(0), state), n.lt(state, n.const(6))), simple=True)
    assert smt.check_certificate(Encoding(s), bad, proof)
    assert not smt.check_certificate(Encoding(s), bad, replace(proof, simple=False))
    assert not smt.check_certificate(Encoding(s), bad, replace(proof, k=2))
    assert not smt.check_certificate(Encoding(s), bad, replace(proof, lemmas=()))
    proved(s, n.not_(bad))


def test_spacer_is_only_a_suggestion() -> None:
    s = system_of(lambda x: x.cumulate(lambda a, v: a + 3 if v > 0 else a, 1))
    bad = n.eq(n.var(1, INT), n.const(0))
    code = Encoding(s)
    proof = spacer(code, bad, [], Budget(10))
    assert proof is not None and proof.found_by == "spacer" and smt.check_certificate(Encoding(s), bad, proof)
    lie = replace(proof, lemmas=(n.le(n.const(2), n.var(1, INT)),))
    assert not smt.check_certificate(Encoding(s), bad, lie)
    x = z3.Int("s1")
    text = repr(expression_of(code, z3.Implies(x % 2 == 0, z3.And(x > 1, x / 3 <= -x + 4))))
    assert text == "v1 % 2 != 0 or v1 > 1 and v1 // 3 <= 0 - v1 + 4"
    assert expression_of(code, z3.ForAll([x], x > 0)) is None
    assert expression_of(code, z3.Int("another") > 0) is None
    assert expression_of(code, x % z3.IntVal(-2) == 0) is None


@pytest.mark.parametrize(
    "lemma",
    [
        n.le(n.const(1), n.var(1, INT)),  # not at the start
        n.le(n.var(1, INT), n.const(5)),  # not kept
        n.le(n.const(-1), n.var(1, INT)),  # not enough
        n.le(n.const(0), n.var(3, INT)),  # about an input
        n.const(False),
        n.const(True),
    ],
    ids=["initiation", "consecution", "safety", "input", "false", "true"],
)
def test_wrong_certificates_are_rejected(lemma: Expr) -> None:
    s = system_of(total, range(8))
    bad = n.lt(n.var(1, INT), n.const(0))
    assert smt.check_certificate(Encoding(s), bad, smt.Proof(0, (n.le(n.const(0), n.var(1, INT)),)))
    assert not smt.check_certificate(Encoding(s), bad, smt.Proof(0, (lemma,)))
    assert not smt.check_certificate(Encoding(s), bad, smt.Proof(-1, (lemma,)))
    assert not smt.check_certificate(Encoding(s), n.lt(n.const(3), n.var(1, INT)), smt.Proof(3, ()))


def test_unknown_is_never_a_pass() -> None:
    # Sums of cubes: beyond the solver.
    s = system_of(lambda x: x.cumulate(lambda a, v: a * a * a + v * v * v, 1))
    status, trace, proof, notes = smt.invariant(
        s, always(s, lambda v: n.not_(n.eq(v, n.const(33)))), timeout=3, max_depth=2
    )
    assert (status, trace, proof) == ("unknown", None, None) and "nothing bad within" in notes[0]
    s = system_of(total, range(8))
    assert smt.prove(s, n.not_(always(s, at_most(3)))) == smt.Unknown("it can happen: search finds the run")
