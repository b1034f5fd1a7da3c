"""The comparison of kernel and interpreter can say no: each planted bug is found by a few random inputs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from pellucid import Stream, apply, merge, pipeline
from tests.engine.kernel.test_kernel_random import batch_of, by_engine, by_interpreter, same
from tests.strategies import Seeded, make_input


def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


def squares(x: Stream[int]) -> Stream[int]:
    return x.map(lambda v: v * v % 11).cumulate(lambda t, v: t + v, start=0)


MUTANTS: list[tuple[str, Callable[..., Any], str, str]] = [
    ("decimate by k+1", lambda x: x.decimate(3), r"\+ 1 < 3", "+ 1 < 4"),
    ("trim one more", lambda x: x.trim(2), r">= 2", "> 2"),
    ("state not kept", total, r"s0_0 = t\d+\n", "\n"),
    ("operands swapped", lambda x: x.cumulate(lambda a, v: a - v, start=0), r"= (v\d+) - (\w+)", r"= \2 - \1"),
    ("filter turned round", lambda x: x.filter(lambda v: v % 2 == 1), r"== 1", "!= 1"),
    (
        "window one short",
        lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: 2 * a + v, start=0)),
        r"== 3:\n(\s+)h",
        r"== 2:\n\1h",
    ),
    (
        "window forgets its reset",
        lambda x: x.window(3, lambda w: w.trim(1).cumulate(lambda a, v: 2 * a + v, start=0)),
        r"\n\s+s\d+ = \(0\)",
        "",
    ),
    (
        "window starts at the wrong place",
        lambda x: x.window(3, lambda w: w.cumulate(lambda a, v: 2 * a + v, start=0)),
        r"i(\d+) = c(\d+) \+ j",
        r"i\1 = j",
    ),
    ("sum does not lose the old event", lambda x: x.window(3, total), r"\+ \((\w+) - \w+\)", r"+ \1"),
    ("block without its prefix", lambda x: x.window(4, squares), r"\((SI0\[[^\]]+\]) \+ s0_\d+\)", r"\1"),
    (
        "queue gives the newest",
        lambda x: apply(lambda a, b: a - b, x.decimate(2), x),
        r"c(\d+) = s0_4\n",
        r"c\1 = s0_5\n",
    ),
    ("queue forgets to shrink", lambda x: apply(lambda a, b: a - b, x.trim(1), x), r"s0_6 - 1", "s0_6"),
    (
        "merge loses an input",
        lambda x: merge(x, x.trim(1)),
        r"(y\d+_0)\.append\(x0_0\)\n(\s+)(y\d+_c) \+= 1\n(\s+)if",
        r"pass\n\4if",
    ),
    ("all keys share one row", lambda x: total(x.key_by(lambda v: v % 3)), r"return s\n", "return 0\n"),
    ("a key is given up too late", lambda x: total(x.key_by(lambda v: v % 3).forget(after=2)), r"- 1 >= 2", "- 1 > 2"),
    ("what was given up comes back", lambda x: total(x.key_by(lambda v: v % 3).forget(after=1)), r"- 1 >= 1", ">= 99"),
    ("task loses its second event", lambda x: x.task(lambda s, v: (v, [s, v]), 0), r"> 1:", "> 2:"),
    ("overflow unnoticed", total, r"if not -9223372036854775808 <= \w+ <= 9223372036854775807:", "if False:"),
    ("wrong start", lambda x: x.cumulate(lambda a, v: a * 2 + v, start=1), r"s0_0 = SI0\[0\]", "s0_0 = 0"),
]


def refuted(p: Any, change: Callable[[str], str]) -> bool:
    for seed in range(60):
        c = Seeded(seed)
        pushes = make_input(c, p, c.of(range(1, 25)))
        if seed % 3 == 0:
            pushes = [{"x": c.of([2**62, 2**62, 5])} for _ in range(4)]
        engine = p.engine(mode="python")
        kernel = engine._kernel(False, True)
        (which,) = (key for key, found in engine._kernels.items() if found is kernel)
        engine._kernels[which] = dataclasses.replace(kernel, source=change(kernel.source))
        try:
            got = by_engine([engine], [batch_of(p, pushes)])
        except Exception:
            return True
        if not same(by_interpreter(p, pushes), got):
            return True
    return False


@pytest.mark.parametrize(("name", "build", "pattern", "bug"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_planted_bug_is_found(name: str, build: Callable[..., Any], pattern: str, bug: str) -> None:
    p = pipeline(build, x=int)
    source = p.engine(mode="python")._kernel(False, True).source
    assert re.search(pattern, source), f"the pattern no longer fits:\n{source}"
    assert not refuted(p, lambda text: text)
    assert refuted(p, lambda text: re.sub(pattern, bug, text)), "the bug was not found"
