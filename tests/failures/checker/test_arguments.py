"""What `check.failures` is asked with: sinks and rules of one's own, tasks that are no functions, arguments that
contradict each other."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import pytest

from pellucid import check, pipeline
from pellucid.errors import UsageError
from pellucid.failures.checker.rules import Rules
from pellucid.failures.checker.sinks import Observation
from pellucid.failures.model import EV, f_recover

inc = pipeline(lambda x: x.map(lambda v: v + 1, id="inc"), x=int)
total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)


class Count(Observation):
    """How many rows were written: a crash that writes one again is seen."""

    name, durable = "count", True

    def empty(self) -> Any:
        return 0

    def write(self, held: Any, message: Any, before: Any) -> Any:
        return held + isinstance(message.d, EV)

    def see(self, c: Any, held: Any) -> Any:
        return held


class Distinct(Count):
    """Which values were written: written again, nothing changes."""

    name = "distinct"

    def empty(self) -> Any:
        return frozenset()

    def write(self, held: Any, message: Any, before: Any) -> Any:
        return held | {message.d.w} if isinstance(message.d, EV) else held


@pytest.mark.parametrize("protocol", ["aligned", "microbatch"])
def test_a_sink_of_ones_own_is_the_one_that_is_used(protocol: str) -> None:
    assert check.failures(inc, sink=Count(), protocol=protocol, crashes=1).refuted
    assert check.failures(inc, sink=Distinct(), protocol=protocol, crashes=1).bounded


class Lose(Rules):
    name = "recovery turns the last logged event into 0"

    def recover(self, c: Any) -> Any:
        r = f_recover(c)
        if r is None:
            return None
        last = sorted((m for m in r.M if isinstance(m.d, EV) and m in r.D), key=lambda m: (m.s, m.n))[-1:]
        return dataclasses.replace(r, M=frozenset(dataclasses.replace(m, d=EV(0)) if m in last else m for m in r.M))


class Never(Rules):
    name = "no recovery"

    def recover(self, c: Any) -> Any:
        return None


def test_rules_of_ones_own_inherit_no_promise() -> None:
    assert not Lose.paper_recovery and Rules.paper_recovery
    assert check.failures(total, variant=Lose(), crashes=1).refuted
    assert check.failures(total, variant=type("Same", (Rules,), {"name": "same"})(), crashes=1).bounded
    with pytest.raises(UsageError, match="the rules 'no recovery' do not recover"):
        check.failures(total, variant=Never(), crashes=1)


@pytest.mark.parametrize(
    "f",
    [lambda v: int(time.time()), lambda v: int(time.time() // 3600), lambda v: int(random.random() < 1e-12)],
    ids=["seconds", "hours", "seldom"],
)
@pytest.mark.parametrize("protocol", ["aligned", "microbatch"])
def test_a_task_that_is_no_function_is_not_proved(f: Any, protocol: str) -> None:
    p = pipeline(lambda x: x.map(f, to=int, id="m"), x=int)
    verdict = check.failures(p, sink="idempotent", protocol=protocol, epochs=1, events=1, crashes=1)
    assert (not verdict.proved and "after a crash it may answer otherwise" in str(verdict.notes)) or verdict.refuted


def test_arguments_that_contradict_each_other_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"sink": "append", "observe": lambda c: 0}, "sink='append' and observe= both say what is seen"),
        ({"epochs": 1, "inputs": [[1], [2], [3]]}, "epochs=1 and inputs= with 3 epoch"),
        ({"events": 2, "inputs": [[1], [2]]}, "events=2 and inputs= with epochs of 1 event"),
        ({"epochs": 0}, "epochs= takes a whole number from 1 on, found 0"),
        ({"epochs": True}, "epochs= takes a whole number"),
        ({"events": -1}, "events= takes a whole number"),
        ({"crashes": 1.5}, "crashes= takes a whole number"),
        ({"max_states": 0}, "max_states= takes a whole number from 1 on"),
        ({"timeout": "soon"}, "timeout= takes a number of seconds"),
        ({"timeout": 0}, "timeout= takes a number of seconds"),
        ({"progress": 3}, "progress= takes a function"),
        ({"sink": "kafka"}, "sink= takes 'transactional'"),
        ({"sink": ["append"]}, "sink= takes 'transactional'"),
        ({"source": None}, "source= takes"),
        ({"protocol": 1}, "protocol= takes"),
        ({"variant": 7}, "variant= takes"),
        ({"variant": Rules(), "protocol": "microbatch"}, "micro-batches have variants by name"),
        ({"variant": "nonsense", "protocol": "microbatch"}, "no variant of micro-batches is called 'nonsense'"),
        ({"observe": 3}, "observe= takes a function"),
        ({"inputs": 3}, "inputs= takes a list of epochs"),
        ({"fuse": 3}, "fuse= takes True or a dict"),
    ]
    for given, words in wrong:
        with pytest.raises(UsageError) as error:
            check.failures(inc, **given)
        assert words in str(error.value), given
    assert check.failures(inc, epochs=2, events=1, inputs=[[1], [2]], crashes=1).bounded
