"""Leaving 64 bits is a failure: for ``failed`` in every engine, and as a word in what is proved over exact integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from pellucid import Mod, StepError, apply, check, pipeline
from pellucid.check import explicit_compiled as machine
from pellucid.check.caveats import pushes_before
from pellucid.check.decide import Options, decide
from pellucid.check.explicit import OPS
from pellucid.check.formula import resolve
from pellucid.check.formula.parse import parse
from pellucid.check.smt.encode import Encoding
from pellucid.check.system.build import build_system, cone
from pellucid.check.system.domains import domain_of
from pellucid.internal.expr import node as n
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.node import Overflow64
from pellucid.internal.expr.types import INT

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = sorted(
    {
        s * (2**k) + d
        for k in (0, 1, 31, 32, 62, 63)
        for s in (-1, 1)
        for d in (-1, 0, 1)
        if LEAST <= s * (2**k) + d <= MOST
    }
    | {0, 3, -7}
)
BINARY = ("add", "sub", "mul", "floordiv", "shl")


def total(x: Any) -> Any:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


def P(build: Callable[..., Any]) -> Any:
    return pipeline(build, x=int)


# ---------------------------------------------------------------- one operation at a time


@pytest.mark.parametrize("op", [*BINARY, "neg", "abs"])
def test_every_engine_knows_when_an_operation_leaves_64_bits(op: str) -> None:
    """At the edges: the evaluator that defines it, the register machine, and z3 where it does the operation."""
    code = Encoding(build_system(P(lambda x: x).graph, domain_of(None), strict=True))
    x, y = n.var(len(code.state) + 1, INT), n.var(len(code.state) + 2, INT)
    other = code.z3.Int("other")
    code.variables.append(other)
    made = n.binary(op, x, y) if op in BINARY else n.unary(op, x)
    flag = n.overflows(made)
    term = code.term(flag) if op != "shl" else None
    seconds = EDGES if op in BINARY else [0]
    for a, b in product(EDGES, [0, 1, 2, 31, 62, 63, 64, 65, -1] if op == "shl" else seconds):
        try:
            evaluate(n.binary(op, n.var(0, INT), n.var(1, INT)) if op in BINARY else n.unary(op, n.var(0, INT)), [a, b])
            expected = False
        except Overflow64:
            expected = True
        except (ArithmeticError, ValueError):
            expected = False  # it fails in another way
        leaves = [0] * (len(code.state) + 1) + [a, b]
        assert evaluate(flag, leaves) == expected, (op, a, b)
        r = np.array([a, b, 0, 0], np.int64)
        program = np.array([[OPS.index(f"overflows {op}"), 2, 0, 1, 0]], np.int64)
        assert not machine._execute(program, 0, 1, r) and bool(r[2]) == expected, (op, a, b)
        program = np.array([[OPS.index(op), 3, 0, 1, 0]], np.int64)
        assert machine._execute(program, 0, 1, r) == expected, (op, a, b)  # the exact system stops there …
        assert not machine._execute(program, 0, 1, r, True)  # … the strict one says so itself
        if term is not None and not (op == "floordiv" and b == 0) and abs(a) % 7 == abs(b) % 7:
            z3 = code.z3
            found = z3.simplify(z3.substitute(term, (code.inputs[1], z3.IntVal(a)), (other, z3.IntVal(b))))
            assert z3.is_true(found) == expected, (op, a, b)


def test_a_product_does_not_wrap() -> None:
    doubling = P(lambda x: x.cumulate(lambda t, v: t * 2, start=1))
    assert not check.holds(
        doubling, "G (out -> out.value <= 4611686018427387904)", ints={0}
    ).proved  # false at the 63rd push
    assert not check.holds(doubling, "G (out -> out.value > 0)", ints={0}).refuted
    verdict = check.holds(doubling, "G !failed", ints={0})
    assert verdict.counterexample is not None and len(verdict.counterexample.steps) == 63


# ---------------------------------------------------------------- pipelines

REFUTED: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "a sum": (total, None, 2),
    "a sum, of large events": (total, {0, 2**62}, 2),
    "a square": (lambda x: x * x, None, 1),
    "a square, of one event": (lambda x: x * x, {2**40}, 1),
    "the least has no opposite": (lambda x: x.map(lambda v: -v), None, 1),
    "nor an absolute value": (lambda x: x.map(abs), {LEAST, 3}, 1),
    "nor a quotient by -1": (lambda x: x.map(lambda v: v // -1), None, 1),
    "in the middle of an expression": (lambda x: x.map(lambda v: (v + 1) - 1), None, 1),
    "in a condition": (lambda x: x.filter(lambda v: v * 3 > 0), None, 1),
    "inside a window": (lambda x: x.window(3, P(total)), None, 3),
    "of what waits in queues": (lambda x: apply(lambda a, b: a - b, x.trim(1), x), None, 2),
    "a shift": (lambda x: x.map(lambda v: v << 40), {2**23, 1}, 1),
    "a result that nobody uses": (lambda x: x.map(lambda v: v * 0 if v + 1 > v else v), {MOST}, 1),
}
PROVED: dict[str, tuple[Callable[..., Any], Any]] = {
    "small events": (lambda x: x * x, range(10)),
    "a window of small events": (lambda x: x.window(3, P(total)), range(10)),
    "just fits": (lambda x: x * x, {2**31, -(2**31)}),
    "the branch is not taken": (lambda x: x.map(lambda v: -v if v > -5 else 0), None),
    "it stops early": (lambda x: x.filter(lambda v: v < 100 or v + 1 < 0), range(100)),
    "comparisons": (lambda x: x.filter(lambda v: v > 5), None),
    "a remainder": (lambda x: x.map(lambda v: v % 3), None),
    "a bounded counter": (lambda x: x.cumulate(lambda t, v: t + 1 if t < 10 else 0, start=0), None),
    "modulo N": (total, Mod(4)),
}


@pytest.mark.parametrize("which", REFUTED)
def test_failed_is_refuted_by_a_shortest_run_that_fails_on_the_engine(which: str) -> None:
    build, ints, length = REFUTED[which]
    p = P(build)
    verdict = check.holds(p, "G !failed", ints=ints)
    assert verdict.refuted and verdict.counterexample is not None, verdict
    pushes = verdict.counterexample.inputs
    assert len(pushes) == length
    with pytest.raises(StepError, match="64-bit"):
        p([push["x"] for push in pushes if push])
    p([push["x"] for push in pushes[:-1] if push])  # only the last one fails
    assert "64-bit" in " ".join(str(verdict).split())


@pytest.mark.parametrize("which", PROVED)
def test_failed_is_proved_where_no_integer_can_leave_64_bits(which: str) -> None:
    build, ints = PROVED[which]
    assert check.holds(P(build), "G !failed", ints=ints).proved


def test_more_pushes_than_anybody_makes_are_neither() -> None:
    verdict = check.holds(P(total), "G !failed", ints=range(10))
    assert verdict.bounded and not verdict.proved
    assert verdict.bound == "runs of fewer than 512,409,557,603,043,099 pushes"
    assert "in these no integer can leave 64 bits; that none ever does is not proved" in verdict.notes
    assert check.holds(
        P(lambda x: x.cumulate(lambda t, v: t + 10 // v, start=0)), "G !failed", ints=range(3)
    ).refuted  # other failures count


ENGINES = [
    (lambda x: x * x, {2**31, 2**32, 0}),
    (total, {2**62, -(2**62), -1}),
    (lambda x: x.map(lambda v: v << 1).filter(lambda v: v > 0), {2**61, 2**62}),
]


@pytest.mark.parametrize(("build", "ints"), ENGINES)
def test_the_engines_agree(build: Callable[..., Any], ints: set[int]) -> None:
    strict = build_system(P(build).graph, domain_of(ints), strict=True)
    found = {}
    for text in ("G !failed", "AG !failed", "G (out -> !failed)", "EF failed"):
        f = resolve(parse(text), strict)
        found[text] = {
            e: decide(strict, f, Options(engine=e, max_states=3000, timeout=20)) for e in ("explicit", "smt", "auto")
        }
        statuses = {a.status for a in found[text].values()} - {"unknown"}
        assert len(statuses) <= 1, (text, found)
    lengths = {len(a.pushes or []) for a in found["G !failed"].values()}
    assert len(lengths) == 1 and {a.status for a in found["G !failed"].values()} == {"refuted"}


def test_after_a_failure_all_is_silent() -> None:
    assert check.holds(P(lambda x: x * x), "G (failed -> X (failed & !out))", ints={2**40, 1}).proved
    assert check.holds(P(lambda x: x * x), "EF failed & AG (failed -> AG !out)", ints={2**40, 1}).proved


def test_a_stream_that_ends() -> None:
    assert check.holds_on(P(total), "G !failed", [MOST, 1]).refuted
    assert check.holds_on(P(total), "F failed", [MOST, 1, 5]).proved
    assert check.holds_on(P(total), "G !failed", [MOST, -1, 1]).proved


# ---------------------------------------------------------------- what is proved of exact integers

NOTE = 'of exact integers; in 64 bits a run may fail with an overflow first, as on x = {}: ask "G !failed"'


def test_a_proof_over_exact_integers_says_that_a_run_may_fail() -> None:
    verdict = check.holds(P(total), "G (x -> out)")
    assert verdict.proved and verdict.notes == (NOTE.format("1; x = 9223372036854775807"),)
    assert "in 64 bits a run may fail" in str(verdict) and "in 64 bits" in verdict.to_json()
    assert check.live(P(lambda x: x * 2)).notes == (NOTE.format("4611686018427387904"),)
    assert check.holds(P(total), "G (x -> out)", warn=False).notes == ()
    twice, sum_ = P(lambda x: x * 2), P(lambda x: x + x)
    assert check.equivalent(twice, sum_).notes == ()  # proved in 64 bits, too: both leave them in the same pushes
    assert check.equivalent(twice, sum_, ints=range(5)).notes == ("for the events range(0, 5) only",)
    above, more = P(lambda x: x + 1 > 5), P(lambda x: x + 1 > 3)
    assert check.implies(above, more).proved and check.implies(above, more).notes == ()  # the same


def test_and_says_nothing_where_none_does() -> None:
    assert check.live(P(lambda x: x.decimate(3))).notes == ()
    assert check.holds(P(total), "G (x -> out)", ints=range(100)).notes == ()
    assert (
        check.holds(P(lambda x: x.cumulate(lambda t, v: t + 1, start=0)), "G (x -> out)").notes == ()
    )  # not in few pushes
    assert not any("64 bits" in note for note in check.holds(P(total), "G (x -> out)", ints=Mod(4)).notes)


def test_the_strict_system_is_asked_for_failures_only() -> None:
    """The exact one stays as simple as it was."""
    graph = P(total).graph
    exact, strict = build_system(graph, domain_of(None)), build_system(graph, domain_of(None), strict=True)
    assert cone(exact, [exact.failed])[1][0].op == "const" and exact.wide.op == "const"
    assert strict.failed.op != "const" and [v.name for v in cone(strict, [strict.failed])[0].inputs] == [
        "x.present",
        "x.value",
    ]


def test_where_it_cannot_be_found_out_whether_64_bits_are_left_that_is_said():
    bits = pipeline(lambda x: x.map(lambda v: (v + v) | 1), x=int)
    verdict = check.live(bits)
    assert not verdict.proved or any("64 bits" in note for note in verdict.notes)


def test_a_run_that_leaves_64_bits_late_is_found_and_told() -> None:
    """What doubles needs some sixty pushes: more than a search for a shortest run looks at."""
    doubles = P(lambda x: x.cumulate(lambda t, v: t + t + v, start=0))
    assert check.live(doubles, ints={2}).notes[-1] == NOTE.format("2 (63 times)")
    squares = P(lambda x: x.cumulate(lambda t, v: t * t + v, start=1))
    assert "in 64 bits a run may fail" in check.live(squares, ints=range(1, 3)).notes[-1]
    assumed = check.live(P(lambda x: x.cumulate(lambda t, v: 2 * t + v, start=0)), assume="x.value > 0 & x.value < 4")
    assert not assumed.proved or "in 64 bits a run may fail" in assumed.notes[-1]


def test_how_large_integers_get_is_read_off_the_expressions() -> None:
    def far(build, ints=None):
        strict = build_system(P(build).graph, domain_of(ints), strict=True)
        return pushes_before(*(lambda small: (small[0], small[1][0]))(cone(strict, [strict.wide], all_inputs=True)))

    assert far(lambda x: x.cumulate(lambda t, v: t + 1, start=0)) > 10**18
    assert far(lambda x: x.map(lambda v: v % 10).cumulate(lambda t, v: t + v, start=0)) > 10**17
    assert far(lambda x: x.window(3, pipeline(total, x=int)), range(100)) == float("inf")
    assert far(lambda x: x.task(lambda s, v: ((s + v) % 7, [s * v]), 0, to=int), range(100)) == float("inf")
    assert far(total) is None and far(lambda x: x.cumulate(lambda t, v: t + t + v, start=0), {2}) is None
    assert (
        far(lambda x: x.cumulate(lambda t, v: t ^ v, start=0), range(8)) is None
    )  # not known: twice as large for all that is said
    assert far(lambda x: x.cumulate(lambda t, v: -t - 1, start=5)) > 10**17


def test_polynomial_growth_is_not_found_out_and_that_is_said() -> None:
    def triangle(s, v):
        n, t = s
        return (n + 1, t + n), [t]

    slow = P(lambda x: x.task(triangle, (0, 0), to=int))
    verdict = check.live(slow)
    assert verdict.proved and any("64 bits" in note for note in verdict.notes), verdict
