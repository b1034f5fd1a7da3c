"""What is asked of a loop is checked where the pipeline is built; and how it is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from pellucid import Pipeline, PipelineError, Stream, TypeMismatch, UsageError, check, iterate, pipeline
from pellucid.internal.cli.main import cli
from pellucid.internal.draw.graph import draw


def built(f: Any, **types: Any) -> Any:
    return pipeline(f, **(types or {"x": int}))


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no body": (lambda x: iterate(x, None), PipelineError, "the body must be a pipeline or a function of a stream"),
    "another type": (
        lambda x: iterate(x, lambda v: v.map(str), id="loop"),
        TypeMismatch,
        r"step 'loop' \(iterate, test_loops.py:\d+\): what goes round goes into the body again, so it must be of the "
        "type that the body takes: expected int, found str",
    ),
    "another type of a pair": (
        lambda x: iterate(x, lambda v: (v.map(float), v)),
        TypeMismatch,
        "expected int, found float",
    ),
    "no stream": (
        lambda x: iterate(x, lambda v: 5),
        PipelineError,
        r"must return a stream, or two, \(again, out\).*found 5",
    ),
    "three streams": (lambda x: iterate(x, lambda v: (v, v, v)), PipelineError, "must return a stream, or two"),
    "limit 0": (
        lambda x: iterate(x, lambda v: v, limit=0),
        PipelineError,
        "limit is a number of rounds, at least 1, found 0",
    ),
    "rounds below 0": (lambda x: iterate(x, lambda v: v, rounds=-3), PipelineError, "rounds is .*at least 1, found -3"),
    "limit of no number": (
        lambda x: iterate(x, lambda v: v, limit=2.5),
        TypeMismatch,
        "limit is a number of rounds, found float",
    ),
    "both": (lambda x: iterate(x, lambda v: v, limit=2, rounds=2), PipelineError, "leave one out"),
    "late": (lambda x: iterate(x, lambda v: v, late="no"), PipelineError, "late='no': expected 'fail', or 'drop'"),
    "a window of time inside": (
        lambda x: iterate(x, lambda v: v.tumbling(3, lambda w: w)),
        PipelineError,
        r"tumbling \(.*\) works by event time, and the only times in the body of a loop .* are its rounds: use each",
    ),
    "at inside": (
        lambda x: iterate(x, lambda v: v.at(lambda n: n)),
        PipelineError,
        "the only times in the body of a loop",
    ),
    "forget inside": (
        lambda x: iterate(x, lambda v: v.key_by(lambda n: n).forget(after=3)),
        PipelineError,
        "gives keys up by counting events, and how often an event goes round",
    ),
    "another stream": (
        lambda x, y: iterate(x, lambda v: v + y),
        PipelineError,
        r"apply \(.*\) reads a stream from outside the loop that it is in \(iterate .*merge what it needs with",
    ),
    "each_round outside": (lambda x: x.each_round(lambda w: w), PipelineError, "goes in the body of a loop.*no rounds"),
    "inside a window": (
        lambda x: x.window(3, lambda w: iterate(w, lambda v: v)),
        PipelineError,
        "is a loop, which a sub-pipeline knows nothing of",
    ),
    "under forget": (
        lambda x: iterate(x.key_by(lambda v: v).forget(after=9), lambda v: v),
        PipelineError,
        "given up after a number",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    build, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        built(build, **({"x": int, "y": int} if name == "another stream" else {"x": int}))


def test_without_a_body() -> None:
    with pytest.raises(PipelineError, match=r"iterate \(.*\): the body must be a pipeline .*found None"):
        built(lambda x: iterate(x))


def test_a_body_may_be_a_pipeline() -> None:
    @pipeline
    def halved(x: Stream[int]) -> Stream[int]:
        return x.map(lambda v: v // 2)

    assert built(lambda x: iterate(x, halved))([9]) == [0]
    with pytest.raises(TypeMismatch, match="pipeline halved wants x"):
        built(lambda x: iterate(x, halved), x=str)


def test_what_may_be_missing() -> None:
    """A stream of T goes round where T | None is taken."""
    p = built(lambda x: iterate(x, lambda v: v.map(lambda n: 0 if n is None else n)), x=int | None)
    assert p([None, 3]) == [0, 3]


def test_a_pipeline_with_a_loop_is_used_in_another() -> None:
    small = built(lambda x: iterate(x, lambda v: v.map(lambda n: n // 2 if n > 9 else n), id="small"))
    p = built(lambda x: small(x.map(lambda v: v + 1)) * 10)
    assert p([39, 3]) == [50, 40]
    assert "pipeline/small" in [node.id for node in p.graph.nodes] or "small" in str(p.graph)


def test_the_digest_knows_the_body_and_the_bound() -> None:
    def of(k: int, **more: Any) -> str:
        return str(built(lambda x: iterate(x, lambda v: v.map(lambda n: n // k), id="l", **more)).graph.digest)

    assert of(2) == of(2) and len({of(2), of(3), of(2, limit=5), of(2, rounds=5)}) == 4


def test_pictures() -> None:
    p = built(lambda x: iterate(x, lambda v: (v.filter(lambda n: n > 1), v + 1), limit=20, id="loop"))
    text = draw(p.graph, "text")
    assert "iterate up to 20 rounds" in text and "again" in text and "out" in text
    assert "n1_out0 -.-> n1_n0" in draw(p.graph, "mermaid") and "n1_out1 -->" in draw(p.graph, "mermaid")
    assert "iterate up to 20 rounds of body" in draw(p.graph, "svg")
    single = built(lambda x: iterate(x, lambda v: v // 2, rounds=3))
    assert draw(single.graph, "text") == "x ─▶ iterate 3 rounds [map // 2] ─▶ out"


def test_what_does_not_go_with_loops(tmp_path: Path) -> None:
    p = built(lambda x: iterate(x, lambda v: v // 2))
    with pytest.raises(
        UsageError, match="keep= does not go with pipeline, which has a loop: an answer is of many rows"
    ):
        p(pa.table({"x": [1], "y": [2]}), keep=["y"])
    (tmp_path / "p.py").write_text(
        "from pellucid import iterate, pipeline\np = pipeline(lambda x: iterate(x, lambda v: v // 2), x=int)\n"
    )
    (tmp_path / "x.csv").write_text("x\n9\n")
    said = [f"{tmp_path}/p.py:p", "--in", f"{tmp_path}/x.csv", "--out", f"{tmp_path}/out.csv"]
    done = CliRunner().invoke(cli, ["run", *said, "--order", "x"])
    assert done.exit_code == 2
    assert (
        "--order does not go with pipeline, which has a loop: it takes rows as they come: sort the file" in done.output
    )
    assert CliRunner().invoke(cli, ["run", *said]).exit_code == 0
    assert (tmp_path / "out.csv").read_text().split() == ["out", "0"]


def both(p: Pipeline) -> object:
    return check.equivalent(p, p)


def test_who_does_not_know_loops_says_so() -> None:
    p = built(lambda x: iterate(x, lambda v: v // 2, id="loop"))
    timed = built(lambda x: iterate(x.at(lambda v: v), lambda v: v // 2, id="loop"))
    asks = (check.live, check.buffers, check.failures, check.times, lambda q: check.holds(q, "G out"), both)
    for ask in asks:
        for asked in (p, timed):
            with pytest.raises(
                UsageError, match=r"step 'loop' .* is a loop, which .* does not know yet|event time, which"
            ):
                ask(asked)
