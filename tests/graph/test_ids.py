"""Step ids: given or derived, unique, and kept when unrelated parts change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import PipelineError, Stream, merge, pipeline

odd = lambda v: v % 2 == 1
add = lambda t, v: t + v


def ids(build: Callable[..., Any], **types: Any) -> list[str]:
    return [node.id for node in pipeline(build, **(types or {"x": int})).graph.nodes]


def sum_of_odds(x: Any) -> Any:
    return x.filter(odd).cumulate(add, start=0)


MINE = ids(sum_of_odds)


def test_derived_ids_say_the_kind() -> None:
    assert [i.split("-")[0] for i in MINE] == ["x", "filter", "cumulate"]
    assert len(set(MINE)) == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda x: (sum_of_odds(x), x.trim(1)),  # a branch after
        lambda x: (x.trim(1), sum_of_odds(x)),  # … and before
        lambda x: (x.filter(odd).map(abs), sum_of_odds(x)),  # one that begins in the same way
        lambda x: (x.filter(odd).cumulate(add, start=5), sum_of_odds(x)),
        lambda x: sum_of_odds(x).trim(1),  # a step behind it
        lambda x: merge(x.window(2, lambda w: sum_of_odds(w)), sum_of_odds(x)),
    ],
)
def test_unrelated_parts_leave_them_alone(build: Callable[..., Any]) -> None:
    assert set(MINE) <= set(ids(build))


def test_renamed_variables_and_equal_code_leave_them_alone() -> None:
    def other(stream: Any) -> Any:
        kept = stream.filter(lambda number: number % 2 == 1)
        return kept.cumulate(lambda so_far, number: so_far + number, start=0)

    assert ids(other, stream=int)[1:] != MINE[1:]  # another source is another stream
    assert ids(lambda x: other(x)) == MINE


def test_twins_get_numbers_and_their_readers_do_not_move() -> None:
    a = lambda x: x.filter(odd).cumulate(add, start=1)
    b = lambda x: x.filter(odd).cumulate(add, start=2)
    one, two = ids(lambda x: (a(x), b(x))), ids(lambda x: (b(x), a(x)))
    assert len(set(one)) == len(one) == 5
    assert set(one) == set(two)
    assert sorted(i for i in one if i.startswith("filter"))[1].endswith("-2")


def test_its_own_meaning_changes_an_id() -> None:
    assert ids(lambda x: x.filter(odd).cumulate(add, start=1))[2] != MINE[2]
    assert ids(lambda x: x.filter(lambda v: v % 2 == 0).cumulate(add, start=0))[2] != MINE[2]  # its input changed
    assert ids(lambda x: x.trim(1)) != ids(lambda x: x.trim(2))


def test_given_ids() -> None:
    assert ids(lambda x: x.filter(odd, id="odds").cumulate(add, start=0, id="sum")) == ["x", "odds", "sum"]
    # A given id cuts the dependence: what reads it keeps its id when the step itself changes.
    before = ids(lambda x: x.map(abs, id="clean").trim(1))
    assert before == ids(lambda x: x.map(lambda v: v * 2, id="clean").trim(1))


def test_two_steps_of_one_id_are_refused() -> None:
    with pytest.raises(PipelineError, match=r"two steps are called 'a': give each its own id \(test_ids\.py:\d+\)"):
        pipeline(lambda x: x.map(abs, id="a").trim(1, id="a"), x=int)
    with pytest.raises(PipelineError, match="two steps are called 'x'"):
        pipeline(lambda x: x.map(abs, id="x"), x=int)


def test_ids_of_called_pipelines_have_its_name_in_front() -> None:
    @pipeline
    def inner(x: Stream[int]) -> Stream[int]:
        return x.cumulate(add, start=0, id="sum")

    @pipeline
    def middle(x: Stream[int]) -> Stream[int]:
        return inner(x).trim(1, id="tail")  # type: ignore[no-any-return]

    assert ids(lambda x: inner(x)) == ["x", "inner/sum"]
    assert ids(lambda x: middle(x)) == ["x", "middle/inner/sum", "middle/tail"]
    assert [n.id for n in inner.graph.nodes] == ["x", "sum"]
    twice = ids(lambda x: inner(x).map(abs, id="m") + inner(x * 2))
    assert len(set(twice)) == len(twice) and "inner/sum" in twice
    assert sum(i.startswith("inner/sum") for i in twice) == 2


def test_windows_keep_ids_of_their_own() -> None:
    p = pipeline(lambda x: x.window(2, lambda w: w.map(abs, id="m"), id="w").map(abs, id="m"), x=int)
    sub = p.graph["w"].sub
    assert sub is not None and [n.id for n in sub.nodes] == ["in", "m"]


def test_digest_of_a_graph() -> None:
    assert pipeline(sum_of_odds, x=int).graph.digest == pipeline(sum_of_odds, x=int).graph.digest
    assert pipeline(sum_of_odds, x=int).graph.digest != pipeline(lambda x: x.trim(1), x=int).graph.digest


SCRIPT = """
from pellucid import pipeline
class State:
    pass
def note(state, v):
    return state, [v]
p = pipeline(lambda x: (x.map(lambda v: str(v) in {"1", "2", "3"}, to=bool), x.task(note, initial=State(), to=int),
                        x.task(lambda s, v: (s, [v]), initial={"a", "b", "c"}, to=int),
                        x.filter(lambda v: v > 2)), x=int)
print([n.id for n in p.graph.nodes], p.graph.digest)
"""


def test_every_process_derives_the_same_ids() -> None:
    def run(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert run("1") == run("2") != ""
