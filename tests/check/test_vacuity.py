"""A proof that holds because its premise never comes true says so; one that says something does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid import Mod, check, merge, pipeline
from pellucid.internal.model.verdict import Verdict

never = pipeline(lambda x: x.filter(lambda v: v * v < 0), x=int)
hot = pipeline(lambda x: x.filter(lambda v: v > 80), x=int)
late = pipeline(lambda x: x.trim(12) + x.decimate(1), x=int)  # its first output needs a queue of 12


def word(verdict: Verdict) -> str:
    assert verdict.proved, verdict
    return "; ".join(note for note in verdict.notes if note.startswith("it says nothing"))


@pytest.mark.parametrize(
    ("p", "formula", "premise"),
    [
        (never, "G (out -> out.value = 7)", "out never holds"),
        (never, "AG (out -> AX false)", "out never holds"),
        (never, "G (x & out -> out.value = 7)", "out never holds"),
        (hot, "G (out.value < 50 -> out.value = 7)", "out.value < 50 never holds"),
        (hot, "G (x -> X (out.value < 50 -> false))", "out.value < 50 never holds"),
        (hot, "G (failed <-> overflow)", "neither side of <-> ever holds"),
        (hot, "G (overflow -> X out)", "overflow never holds"),
        (hot, "G (out & Y (out & x.value < 50) -> false)", "never holds"),
    ],
)
def test_a_premise_that_never_holds(p: Any, formula: str, premise: str) -> None:
    assert premise in word(check.holds(p, formula))


@pytest.mark.parametrize(
    ("p", "formula"),
    [
        (never, "G !out"),  # that it never is, is what was asked
        (never, "G (x -> !out)"),
        (hot, "G (out -> out.value > 80)"),
        (hot, "G (x.value = 123456789 -> out)"),  # no random run may show it: but it happens
        (hot, "G (false -> out)"),  # everybody sees that
        (hot, "AG EF out"),
    ],
)
def test_what_says_something(p: Any, formula: str) -> None:
    assert word(check.holds(p, formula)) == ""


def test_finite_domains() -> None:
    assert "out never holds" in word(check.holds(hot, "G (out -> X out)", ints=range(4)))
    for formula in ("AG (out -> AF out)", "G (out -> F !x)"):
        assert "out never holds" in word(check.holds(never, formula, ints=range(4)))
    assert word(check.holds(hot, "G (out -> out.value > 80)", ints={79, 80, 81})) == ""
    assert word(check.holds(hot, "AG (out -> EF !out)", ints={79, 80, 81})) == ""
    assert "out never holds" in word(check.holds(never, "G (out -> false)", ints=Mod(4)))


def test_a_queue_that_is_too_short_is_no_proof_that_it_never_holds() -> None:
    assert word(check.holds(late, "G (out -> x)")) == ""
    assert "within queues of 3 event(s)" in word(check.holds(late, "G (out -> !overflow)", queue=3))


def test_a_premise_with_an_assumption_of_failing() -> None:
    assert "failed never holds" in word(check.holds(hot, "G (failed -> X out)"))


def test_pipelines_that_never_speak() -> None:
    other = pipeline(lambda x: x.filter(lambda v: v * v + 1 < 0), x=int)
    assert "puts anything out" in word(check.equivalent(never, other))
    assert "puts anything out" in word(check.equivalent(never, other, ints=range(5)))
    assert word(check.equivalent(hot, pipeline(lambda x: x.filter(lambda v: not v <= 80), x=int))) == ""


def test_implies() -> None:
    no = pipeline(lambda x: x % 3 > 5, x=int)
    small, smaller = pipeline(lambda x: x < 5, x=int), pipeline(lambda x: x < 3, x=int)
    assert "never says true" in word(check.implies(no, small))
    assert word(check.implies(smaller, small)) == ""


def test_monitor() -> None:
    counter = check.Transitions([0], lambda s: [(s + 1) % 3, s], lambda s: {"x": s})
    silent = pipeline(lambda x: x.filter(lambda v: v > 2) > 5, x=int)
    verdict = check.monitor(counter, silent)
    assert "never puts anything out" in word(verdict) and "checked" in verdict.details
    assert word(check.monitor(counter, pipeline(lambda x: x < 3, x=int))) == ""


def test_several_streams() -> None:
    p = pipeline(
        lambda x, y: {"a": merge(x.filter(lambda v: v * v < 0), y.filter(lambda v: v * v < 0)), "b": x}, x=int, y=int
    )
    assert "a never holds" in word(check.holds(p, "G (a -> b)"))
    assert word(check.holds(p, "G (b -> x)")) == ""


def test_it_is_shown(tmp_path: Any) -> None:
    from click.testing import CliRunner

    from pellucid.internal.cli.main import cli

    verdict = check.holds(never, "G (out -> out.value = 7)")
    assert "it says nothing: out never holds" in str(verdict)
    assert any("out never holds" in note for note in json.loads(verdict.to_json())["verdict"]["notes"])
    file = tmp_path / "p.py"
    file.write_text(
        "from pellucid import check, pipeline\n"
        "never = pipeline(lambda x: x.filter(lambda v: v * v < 0), x=int)\n"
        'check.properties(never, ["G (out -> out.value = 7)"])\n'
    )
    shown = CliRunner().invoke(cli, ["check", str(file)])
    assert "it says nothing: out never holds" in shown.output
