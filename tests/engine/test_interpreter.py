"""The literal interpreter: one short test per processor, straight from the definitions of Model Checking of Stream
Processing Pipelines (2021), section 2.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid import IntOverflow, StepError, UsageError, apply, merge, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.types import INT

add = lambda t, v: t + v


def pushes(build: Callable[..., Any], events: list[Any], t: Any = int) -> list[list[Any]]:
    run = Interpreter(pipeline(build, x=t).graph)
    return [run.push(x=v)["out"] for v in events]


def test_filter_by_a_stream() -> None:
    """σ goes out iff the event at the same position of the other stream is true."""
    run = Interpreter(pipeline(lambda x, b: x.filter(b, id="f"), x=int, b=bool).graph)
    assert run.push(x=1)["out"] == [] and run.queues == {"f.0": [1], "f.1": []}
    assert run.push(x=2)["out"] == [] and run.queues == {"f.0": [1, 2], "f.1": []}
    assert run.push(b=False)["out"] == [] and run.queues == {"f.0": [2], "f.1": []}
    assert run.push(b=True)["out"] == [2] and run.queues == {"f.0": [], "f.1": []}


def test_apply_is_synchronous() -> None:
    run = Interpreter(pipeline(lambda x, y: apply(lambda a, b: a - b, x, y, id="d"), x=int, y=int).graph)
    assert run.push(y=1)["out"] == [] and run.queues == {"d.0": [], "d.1": [1]}
    assert run.push(y=2)["out"] == []
    assert run.push(x=10)["out"] == [9]
    assert run.push(x=20, y=3)["out"] == [18] and run.queues == {"d.0": [], "d.1": [3]}


def test_window_takes_the_last_event_if_there_is_one() -> None:
    evens = lambda w: w.filter(lambda v: v % 2 == 0)
    assert pushes(lambda x: x.window(2, evens), [2, 3, 5, 4]) == [[], [2], [], [4]]


def test_window_starts_afresh_each_time_and_may_be_nested() -> None:
    inner = lambda w: w.window(2, lambda u: u.cumulate(add, start=0))
    assert pushes(lambda x: x.window(3, inner), [1, 2, 3, 4]) == [[], [], [5], [7]]


def test_task() -> None:
    def pairs(state: tuple[bool, int], v: int) -> tuple[tuple[bool, int], list[int]]:
        waiting, first = state
        return ((False, 0), [first, v]) if waiting else ((True, v), [])

    assert pushes(lambda x: x.task(pairs, initial=(False, 0)), [1, 2, 3]) == [[], [1, 2], []]


def test_several_events_in_one_push_go_on_one_by_one() -> None:
    twice = lambda x: x.task(lambda s, v: (s, [v, v + 1]), initial=0)
    assert pushes(lambda x: twice(x).cumulate(add, start=0), [1, 10]) == [[1, 3], [13, 24]]
    assert pushes(lambda x: twice(x).window(2, lambda w: w.cumulate(add, start=0)), [1, 10]) == [[3], [12, 21]]
    assert pushes(lambda x: apply(add, twice(x), x), [1, 10]) == [[2], [12]]


def test_merge_takes_what_comes() -> None:
    run = Interpreter(pipeline(lambda x, y: merge(y, x), x=int, y=int).graph)
    assert [run.push(x=1)["out"], run.push(y=2)["out"], run.push(x=3, y=4)["out"], run.push()["out"]] == [
        [1],
        [2],
        [4, 3],
        [],
    ]


def test_key_by_keeps_states_and_queues_apart() -> None:
    assert pushes(lambda x: x.key_by(lambda v: v % 2).cumulate(add, start=0), [1, 2, 3, 4]) == [[1], [2], [4], [6]]
    assert pushes(lambda x: x.key_by(lambda v: v % 2).trim(1), [1, 2, 3, 4]) == [[], [], [3], [4]]
    assert pushes(lambda x: x.key_by(lambda v: v % 2).window(2, lambda w: w.cumulate(add, start=0)), [1, 2, 3, 4]) == [
        [],
        [],
        [4],
        [6],
    ]

    def delayed(x: Any) -> Any:
        k = x.key_by(lambda v: v % 2)
        return apply(lambda a, b: a, k, k.trim(1))

    run = Interpreter(pipeline(delayed, x=int).graph)
    assert [run.push(x=v)["out"] for v in (1, 2, 3, 4)] == [[], [], [1], [2]]
    assert list(run.queues.values()) == [[3, 4], []]
    assert run.push_keyed({"x": 5}) == {"out": [(1, 3)]}


def test_the_state_is_visible() -> None:
    run = Interpreter(pipeline(lambda x: x.cumulate(add, start=0, id="s").window(2, lambda w: w, id="w"), x=int).graph)
    run.run([{"x": 1}, {"x": 2}])
    assert run.state["s"] == {None: 3} and run.state["w"] == {None: (1, 3)} and run.pushed == 2


def test_overflow_is_an_error_with_its_place() -> None:
    run = Interpreter(pipeline(lambda x: x.cumulate(add, start=0, id="s"), x=int).graph)
    run.push(x=2**62)
    with pytest.raises(
        IntOverflow,
        match=r"step 's' .* failed at push 1 on the arguments 4611686018427387904, 4611686018427387904: an integer "
        r"left the signed 64-bit range",
    ) as caught:
        run.push(x=2**62)
    assert (caught.value.step, caught.value.position) == ("s", 1)


def test_also_in_the_middle_of_an_expression() -> None:
    with pytest.raises(IntOverflow):
        pushes(lambda x: x.map(lambda v: (v + 1) - 1), [2**63 - 1])


def test_a_raise_shows_the_users_line() -> None:
    def strict(v: int) -> int:
        if v < 0:
            raise ValueError("negative")
        return v

    with pytest.raises(
        StepError,
        match=r"(?s)failed at push 1 on the event -1: ValueError: negative\n  test_interpreter\.py:\d+, in strict: "
        r'raise ValueError\("negative"\)',
    ):
        pushes(lambda x: x.map(strict), [1, -1])


def test_in_a_window_the_push_is_the_outer_one() -> None:
    with pytest.raises(StepError, match="failed at push 3 ") as caught:
        pushes(lambda x: x.window(2, lambda w: w.map(lambda v: 1 // v)), [1, 1, 1, 0])
    assert caught.value.position == 3


def test_sources_go_by_their_names() -> None:
    run = Interpreter(pipeline(lambda x: x, x=int).graph)
    with pytest.raises(UsageError, match="pipeline has no source 'y': it has x"):
        run.push(y=1)


@pytest.mark.parametrize(
    ("build", "events", "out"),
    [
        (lambda x: x.map(lambda v: v * v), [1, 2], [[1], [4]]),
        (lambda x: x.filter(lambda v: v > 1), [1, 2], [[], [2]]),
        (lambda x: apply(lambda a: a + 1, x), [1], [[2]]),
        (lambda x: x.cumulate(add, start=10), [1, 2, 3], [[11], [13], [16]]),
        (lambda x: x.decimate(3), [0, 1, 2, 3, 4], [[0], [], [], [3], []]),
        (lambda x: x.decimate(1), [0, 1], [[0], [1]]),
        (lambda x: x.trim(2), [1, 2, 3, 4], [[], [], [3], [4]]),
        (lambda x: x.trim(0), [1], [[1]]),
        (lambda x: x.take(2), [1, 2, 3], [[1], [2], []]),
        (lambda x: x + x, [1, 2], [[2], [4]]),
        (lambda x: x.window(3, lambda w: w.cumulate(add, start=0)), [1, 2, 3, 4], [[], [], [6], [9]]),
    ],
)
def test_one_processor(build: Callable[..., Any], events: list[int], out: list[list[int]]) -> None:
    assert pushes(build, events) == out


# A function that would end the program does not end it as if all were done; it fails, as with any exception.

FILE = """import sys
from pellucid import Stream, pipeline


@pipeline
def some(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: sys.exit(0) if v > 1 else v, to=int)
"""


@pytest.mark.parametrize("mode", ["python", "auto"])
def test_an_exit_is_a_failure_of_its_step(mode: str) -> None:
    p = pipeline(lambda x: x.map(lambda v: sys.exit(0) if v > 1 else v, to=int, id="some"), x=int)
    with pytest.raises(StepError, match=r"step 'some' .* failed at push 1 on the event 2: SystemExit: 0"):
        p.engine(mode=mode).push([1, 2, 3])
    with pytest.raises(StepError, match="SystemExit"):
        p.trace([1, 2, 3])


def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(FILE)
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    done = CliRunner().invoke(
        cli, ["run", f"{tmp_path}/p.py:some", "--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.csv"]
    )
    assert done.exit_code == 2, done.output
    assert "SystemExit: 0" in done.output
    assert not (tmp_path / "out.csv").exists()


class Stop(BaseException):
    pass


def cancelled(v: int) -> int:
    if v > 1:
        raise asyncio.CancelledError("late")
    return v


def closed(v: int) -> int:
    if v > 1:
        raise GeneratorExit("late")
    return v


def stopped(v: int) -> int:
    if v > 1:
        raise Stop("late")
    return v


@pytest.mark.parametrize("f", [cancelled, closed, stopped, lambda v: int(str(stopped(v)))])
@pytest.mark.parametrize("mode", ["python", "auto"])
def test_what_is_no_exception_is_a_failure_of_its_step(f: Callable[[int], int], mode: str) -> None:
    p = pipeline(lambda x: x.map(f, to=int, id="some"), x=int)
    with pytest.raises(StepError, match=r"step 'some' .* failed at push 1 on the event 2: \w+: late"):
        p.engine(mode=mode).push([1, 2, 3])


def test_what_is_no_exception_is_traced() -> None:
    traced = Function.make(stopped, (INT,)).traced
    assert traced is not None and traced.raises == ("Stop: late",)


def test_what_is_no_exception_with_epochs(tmp_path: Path) -> None:
    fail = "\n\ndef fail():\n    raise GeneratorExit('late')\n\n\n@pipeline"
    (tmp_path / "p.py").write_text(FILE.replace("sys.exit(0)", "fail()").replace("\n\n@pipeline", fail))
    (tmp_path / "in.csv").write_text("x\n1\n2\n3\n")
    files = ["--in", f"{tmp_path}/in.csv", "--out", f"{tmp_path}/out.csv"]
    epochs = ["--epoch-size", "2", "--state", f"{tmp_path}/state"]
    done = CliRunner().invoke(cli, ["run", f"{tmp_path}/p.py:some", *files, *epochs])
    assert done.exit_code == 2, done.output
    assert "step 'map-" in done.output and "GeneratorExit: late" in done.output
