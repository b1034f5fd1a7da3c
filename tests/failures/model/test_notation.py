# ruff: noqa: N806 - the paper's letters
"""Texts of runs and traces: there and back again."""

from __future__ import annotations

import random

import pytest

from pellucid.errors import UsageError
from pellucid.failures.model import EV, FFail, FRecover, IBorder, IEvent, Task, initial
from pellucid.failures.model.notation import read, read_run, write, write_run
from tests.failures.cuts import read_cut
from tests.failures.random_graphs import random_run
from tests.seeds import seeds

RUN = "a: i, j -> m  sum\nb: m -> o  copy\ni: 1 2 | |\nj: | 5 |"


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(3))
def test_a_trace_written_and_read_is_the_same(block: int) -> None:
    """Valid traces in short form; traces with moved, doubled and dropped steps with those written out."""
    for seed in seeds(40, block * 40):
        rng = random.Random(seed)
        c, Z = random_run(seed, length=30)
        text = write(Z, c)
        assert read(text, c) == Z
        assert "[" not in text
        if Z:
            i, k = rng.randrange(len(Z)), rng.randrange(len(Z))
            changed = [*Z[:i], Z[k], *Z[i + rng.randint(0, 1) :]]
            assert read(write(changed, c), c) == changed


def test_a_run_written_and_read_is_the_same() -> None:
    c, Z = read_run(RUN + "\na<i b a<i a! ^ a<i")
    text = write_run(c, Z)
    assert text == "a: i, j -> m  sum\nb: m -> o  copy\ni: 1 2 | |\nj: | 5 |\na<i b a<i a! ^ a<i"
    assert read_run(text) == (c, Z)


def test_kinds_of_steps() -> None:
    _, Z = read_run("t: i -> o  copy\ni: 1 |\n\nt t| t!  # comments are for people\n^")
    assert [type(z) for z in Z] == [IEvent, IBorder, FFail, FRecover]


def test_events_of_many_kinds() -> None:
    c, Z = read_run("t: i -> o  copy\ni: 'a b' (1, 'x y') None -2.5 True 'c\\\\' |\nt t t t t t t|")
    values = [z.X[0].d.w for z in Z if isinstance(z, IEvent) and isinstance(z.X[0].d, EV)]
    assert values == ["a b", (1, "x y"), None, -2.5, True, "c\\"]
    for k in range(1, len(Z)):  # written out
        assert read(write(Z[k:], c), c) == Z[k:]
    assert read_run(write_run(c, Z)) == (c, Z)


def test_own_functions_by_name() -> None:
    own = {"half": (lambda v, w: (v, [w // 2]), 0)}
    c, Z = read_run("t: i -> o  half\ni: 8 |\nt", own)
    assert str(Z[0]) == "I-EVENT t  -i ⟨1, EV(8)⟩  +o ⟨1, EV(4)⟩"
    assert write_run(c, Z, own).startswith("t: i -> o  half\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: i -> o  nothing",
            "line 1: no function is called 'nothing': there are copy, count, keep, last, sum, twice",
        ),
        ("t: i -> o copy\ni: 1", "line 2: the last epoch is without a border: end it with |"),
        ("t: i -> o copy\ni: x |", "line 2: 'x' is no event: write numbers, 'texts', or tuples of them"),
        (
            RUN + "\n??",
            "'??' is no step: write a, a<i, a|, a!, ^, or a step in full (see pellucid.failures.model.notation)",
        ),
        (RUN + "\nz", "'z': there is no task 'z': there are a, b"),
        (RUN + "\na", "'a': task 'a' has the inputs i, j: say which, as a<i"),
        (RUN + "\nb", "'b' cannot be taken here; what can: a<i"),
        (RUN + "\na<j", "'a<j' cannot be taken here; what can: a<i"),
        (RUN + "\n^ a<i", "'a<i': after a step that cannot be taken, steps must be written out in full"),
        (RUN + "\nb[m:x]-m@1=1", "'b[m:x]-m@1=1' is no step: invalid literal for int() with base 10: 'x'"),
        (RUN + "\nb[m:0]-m@1=q", "'b[m:0]-m@1=q' is no step: no value at 'q'"),
        (RUN + "\nb[m:0]-m@1?", "'b[m:0]-m@1?' is no step: no action at '-m@1?'"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_run(text)
    assert str(caught.value) == message


def test_what_cannot_be_written_is_named() -> None:
    f = lambda v, w: (v, [])
    for c, message in [
        (
            initial({"a b": Task(f, ("i",), "o")}, {"i": [[1]]}, {"a b": 0}),
            "the name 'a b' cannot be written: a name has letters",
        ),
        (
            initial({"a": Task(f, ("i",), "o")}, {"i": [[frozenset({1})]]}, {"a": 0}),
            "the event frozenset({1}) cannot be written: only",
        ),
    ]:
        with pytest.raises(UsageError) as caught:
            write_run(c, [], {"f": (f, 0)})
        assert str(caught.value).startswith(message)
    with pytest.raises(UsageError, match="task 'a': its function has no name: give it in functions="):
        write_run(c, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (">m", "'>m' comes before the first process: begin with 'name:'"),
        ("p: | >m |", "process 'p' has two snapshots: put one | into its line"),
        ("p: >m", "process 'p' has no snapshot: put a | into its line"),
    ],
)
def test_cuts_that_cannot_be_read_are_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_cut(text)
    assert str(caught.value) == message
