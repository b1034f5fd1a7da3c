"""Back-ends that know nothing of event time refuse it by name, in one sentence, before they begin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import UsageError, check, pipeline
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine

timed = pipeline(lambda x: x.at(lambda v: v, id="when").tumbling(5, lambda w: w).map(lambda w: w.value), x=int)
plain = pipeline(lambda x: x.map(lambda v: v), x=int)

QUESTIONS: dict[str, Callable[[], Any]] = {
    "check.holds_on": lambda: check.holds_on(timed, "G out", [1, 2]),
    "check.live": lambda: check.live(timed),
    "check.implies": lambda: check.implies(plain, timed),
    "check.dead_paths": lambda: check.dead_paths(timed),
    "check.monitor": lambda: check.monitor(check.Transitions([0], lambda s: [s], lambda s: {"x": s}), timed),
    "the model of failures": lambda: check.failures(timed),
    "the kernel": lambda: Engine(timed.graph),
    "the interpreter of single pushes": lambda: Interpreter(timed.graph),
}
KNOWN = {"holds", "equivalent", "buffers", "times"}  # these know event time: tests/check/timed


@pytest.mark.parametrize("who", list(QUESTIONS))
def test_refused_by_name(who: str) -> None:
    with pytest.raises(UsageError) as found:
        QUESTIONS[who]()
    said = str(found.value)
    assert "step 'when' (at v, test_elsewhere.py:" in said and f"works by event time, which {who} does not" in said, (
        said
    )


def test_every_question_about_a_pipeline_is_here() -> None:
    about = {
        name
        for name in check.__all__
        if inspect.isfunction(ask := getattr(check, name)) and {"p", "a"} & set(inspect.signature(ask).parameters)
    }
    asked = {who.partition("check.")[2] for who in QUESTIONS} | {"failures"} | KNOWN
    assert about - asked <= {"properties"}, about - asked  # which only notes questions down


def test_a_run_on_spark() -> None:
    with pytest.raises(UsageError, match=r"wants a Spark DataFrame, found builtins\.object"):
        timed.spark(object())
