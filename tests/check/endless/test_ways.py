"""AG EF p where states cannot be listed: strings, records, floats, sums, hysteresis, cooldowns."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pellucid import check, pipeline
from pellucid.internal.engine.interpreter import Interpreter


class Log(NamedTuple):
    user: str
    level: str
    took: int


def crossing(high, v):
    now = (v > 60) if high else (v > 80)
    return now, ([v] if now and not high else [])


def cooling(left, v):
    if left > 0:
        return left - 1, []
    return (3, [v]) if v > 80 else (0, [])


errors = pipeline(lambda x: x.filter(lambda e: e.level == "error"), x=Log)
slow = pipeline(lambda x: x.filter(lambda e: (e.level == "error") & (e.took > 80)), x=Log)
latched = pipeline(
    lambda x: x.filter(x.cumulate(lambda s, e: s | (e.level == "stop"), start=False).map(lambda b: not b)), x=Log
)
impossible = pipeline(lambda x: x.filter(lambda e: e.level == "error").filter(lambda e: e.level == "warning"), x=Log)
alarm = pipeline(lambda x: x.task(crossing, False), x=int)
cooled = pipeline(lambda x: x.task(cooling, 0), x=int)
above = pipeline(lambda x: x.filter(lambda v: v > 2.5), x=float)
saved = pipeline(lambda x: x.cumulate(lambda s, v: s + v, start=0).filter(lambda s: s > 100), x=int)
highest = pipeline(lambda x: x.cumulate(lambda s, v: max(s, v), start=0).filter(lambda s: s < 100), x=int)
reset = pipeline(lambda x: x.cumulate(lambda s, v: 0 if v < 0 else s + v, start=0), x=int)


@pytest.mark.parametrize(
    ("p", "formula", "status"),
    [
        (errors, "AG EF out", "proved"),
        (slow, "AG EF out", "proved"),
        (latched, "AG EF out", "refuted"),
        (impossible, "AG EF out", "refuted"),
        (alarm, "AG EF out", "proved"),
        (cooled, "AG EF out", "proved"),
        (above, "AG EF out", "proved"),
        (saved, "AG EF out", "proved"),
        (highest, "AG EF out", "refuted"),
        (reset, "AG EF out.value = 0", "proved"),
        (reset, "AG EF out.value > 1000", "proved"),
        (reset, "AG EF out.value < 0", "refuted"),
    ],
)
def test_decided(p, formula, status):
    verdict = check.holds(p, formula, warn=False)
    assert verdict.status == status, verdict
    if (
        verdict.counterexample is not None and formula == "AG EF out"
    ):  # what is said to be over is over, as far as one can try
        run = Interpreter(p.graph)
        for push in verdict.counterexample.inputs:
            run.push(push)
        tries = (
            [Log("", level, 99) for level in ("error", "warning", "stop", "")]
            if p.graph.nodes[0].type.width > 1
            else [0, 99, -5, 100]
        )
        assert not any(run.push({"x": event})["out"] for event in tries)
