"""Functions that are called and not traced: called on all that can come, never on trust.

Each pipeline's verdict was worked out by hand.
"""

from __future__ import annotations

import itertools
import math
import os
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from sys import argv as ARGUMENTS
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, check, merge, pipeline
from pellucid.errors import NotTraceable, PipelineError


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


class Order(NamedTuple):
    side: Side
    many: int


def same(v: int) -> int:
    return int(str(v))


def spelled(v: int) -> str:
    return f"{v}"


def digits(v: int) -> str:
    return str(v)


# ---------------------------------------------------------------- arguments


def test_arguments_are_those_that_come_not_those_of_the_source() -> None:
    p = pipeline(lambda x: x.map(lambda v: v * 10).map(same), x=int)
    refuted = check.holds(p, "G (out -> out.value <= 3)", ints=range(4))
    assert refuted.counterexample.inputs == [{"x": 1}]
    assert check.holds(p, "G (out -> out.value <= 30)", ints=range(4)).proved
    assert check.holds(p, "G (out -> out.value = 10 * in.value)", ints=range(4)).proved


def test_chained_functions_are_followed() -> None:
    p = pipeline(lambda x: x.map(lambda v: same(v) + 7, to=int).map(digits).map(lambda s: len(s), to=int), x=int)
    assert check.holds(p, "G (out -> out.value <= 2)", ints=range(6)).proved
    assert check.holds(p, "G (out -> out.value = 1)", ints=range(6)).counterexample.inputs == [{"x": 3}]


def test_a_state_that_closes_is_proved_and_one_that_grows_is_unknown() -> None:
    wraps = pipeline(lambda x: x.cumulate(lambda t, v: (t + v) % 5, start=0).map(same), x=int)
    assert check.holds(wraps, "G (out -> out.value < 5)", ints=range(3)).proved
    grows = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0).map(same), x=int)
    unknown = check.holds(grows, "G (out -> out.value >= 0)", ints=range(3))
    assert unknown.unknown and "there are others, which were not tried" in unknown.notes[0]
    assert len(check.holds(grows, "G (out -> out.value < 9)", ints=range(3)).counterexample.inputs) == 5
    assert check.holds(grows, "AG EF out", ints=range(3)).unknown
    assert check.holds(grows, "G F out", ints=range(3)).refuted  # nothing ever comes in


def test_an_argument_beyond_the_table_is_no_last_row() -> None:
    # The sum passes every table: that silence follows is not claimed, and neither is that it does not.
    grows = pipeline(
        lambda x: x.cumulate(lambda t, v: t + v + 1, start=0).map(same).filter(lambda v: v < 10_000), x=int
    )
    for formula in ("F G !out", "G (in -> out)", "G (out -> out.value < 10000)"):
        verdict = check.holds(grows, formula, ints=range(2))
        assert not verdict.proved, formula
    assert check.holds(grows, "G (in -> out)", ints=range(2), timeout=10).unknown
    assert (
        check.holds(grows, "F G !out", ints=range(2), timeout=10).unknown
        or check.holds(grows, "F G !out", ints=range(2)).refuted
    )


def test_what_never_comes_there_does_no_harm() -> None:
    # The sum grows for ever, but only what is below 4 comes to the function.
    p = pipeline(lambda x: x.cumulate(lambda t, v: min(t + v, 9), start=0).filter(lambda v: v < 4).map(same), x=int)
    assert check.holds(p, "G (out -> out.value < 4)", ints=range(3)).proved
    growing = pipeline(
        lambda x: x.cumulate(lambda t, v: t + v, start=0).map(lambda v: v > 3).map(lambda b: str(b) == "True", to=bool),
        x=int,
    )
    assert check.holds(growing, "AG EF out", ints=range(3)).proved


def test_several_sources_several_events_and_windows() -> None:
    two = pipeline(lambda x, y: merge(x, y.map(lambda v: v + 100)).map(same), x=int, y=int)
    assert check.holds(two, "G (out -> out.value <= 102)", ints=range(3)).proved
    assert check.holds(two, "G (out -> out.value < 100)", ints=range(3)).refuted
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0).map(same), x=int)
    window = pipeline(lambda x: x.window(3, total), x=int)
    assert check.holds(window, "G (out -> out.value <= 6)", ints=range(3)).proved
    assert len(check.holds(window, "G (out -> out.value < 6)", ints=range(3)).counterexample.inputs) == 3


def test_records_enums_and_truth() -> None:
    p = pipeline(lambda o: o.filter(lambda e: str(e.side.value).startswith("b")).map(lambda e: e.many), o=Order)
    assert check.holds(p, "G (out -> o.value.side = BUY)", ints=range(3)).proved
    assert check.holds(p, "G (o -> out)", ints=range(3)).refuted


def test_modulo_answers_are_reduced() -> None:
    p = pipeline(lambda x: x.map(lambda v: same(v) * 3, to=int), x=int)
    assert check.holds(p, "G (out -> out.value < 4)", ints=Mod(4), warn=False).proved
    assert check.holds(p, "G (out -> out.value != 2)", ints=Mod(4), warn=False).counterexample.inputs == [{"x": 2}]


def test_no_domain_is_said() -> None:
    p = pipeline(lambda x: x.task(lambda t, v: (t, [same(v)] * (v % 3)), 0, to=int), x=int)
    with pytest.raises(NotTraceable, match="its arguments cannot be listed; give a finite domain"):
        check.holds(p, "G (out -> out.value = in.value)")
    unclear = check.holds(pipeline(lambda x: x.map(same), x=int), "G (out -> out.value = in.value)")
    assert unclear.unknown and "answered otherwise than in truth" in unclear.notes[1]


# ---------------------------------------------------------------- failures


def test_raising_is_a_failure() -> None:
    p = pipeline(lambda x: x.map(lambda v: int("12x"[v]), to=int), x=int)
    assert check.holds(p, "G !failed", ints=range(2)).proved
    assert check.holds(p, "G !failed", ints=range(3)).counterexample.inputs == [{"x": 2}]
    assert check.holds(p, "G (out -> out.value <= 2)", ints=range(3)).proved
    large = pipeline(lambda x: x.map(lambda v: int(str(2**62)) * v, to=int), x=int)
    assert check.holds(large, "G !failed", ints=range(2)).proved
    assert check.holds(large, "G !failed", ints=range(3)).refuted


# ---------------------------------------------------------------- steps that remember


def test_opaque_cumulate_and_task() -> None:
    turn = pipeline(lambda x: x.cumulate(lambda t, v: int(str((t + v) % 4)), start=0), x=int)
    assert check.holds(turn, "G (out -> out.value < 4)", ints=range(3)).proved
    assert check.holds(turn, "AG EF (out & out.value = 3)", ints=range(3)).proved
    assert check.holds(turn, "G (out -> out.value < 3)", ints=range(3)).refuted

    def twice_then_rest(state: int, v: int) -> tuple[int, list[int]]:
        return int(str((state + 1) % 3)), [v] * state

    p = pipeline(lambda x: x.task(twice_then_rest, 0), x=int)
    assert check.holds(p, "G (out -> out.value = in.value)", ints=range(2)).proved
    assert check.holds(p, "G (in -> out)", ints=range(2)).refuted
    assert check.holds(p, "G (in & X in & X X in -> out | X out)", ints=range(2)).proved
    assert check.holds(p, "G (out -> X !out)", ints=range(2)).refuted
    # In three pushes it speaks three times: never on the first, once on the second, twice on the third.
    counted = pipeline(lambda x: x.task(twice_then_rest, 0).decimate(3), x=int)
    thirds = pipeline(lambda x: x.trim(1).decimate(3), x=int)
    assert check.equivalent(counted, thirds, ints=range(2)).proved
    assert check.equivalent(counted, pipeline(lambda x: x.trim(2).decimate(3), x=int), ints=range(2)).refuted


def test_a_state_that_is_any_object() -> None:
    def at_most_two(seen: dict[int, int], v: int) -> tuple[dict[int, int], list[int]]:
        seen[v] = min(seen.get(v, 0) + 1, 3)
        return seen, [v] if seen[v] <= 2 else []

    p = pipeline(lambda x: x.task(at_most_two, {}), x=int)
    assert check.holds(p, "AG EF out", ints=range(2)).refuted  # each number has its turn twice
    assert check.holds(p, "G (out -> out.value = in.value)", ints=range(2)).proved

    def all_so_far(seen: list[int], v: int) -> tuple[list[int], list[int]]:
        return [*seen, v], [len(seen)]

    grows = pipeline(lambda x: x.task(all_so_far, []), x=int)
    assert check.holds(grows, "G (out -> out.value < 3)", ints=range(1)).refuted
    assert check.holds(grows, "G (out -> out.value >= 0)", ints=range(1)).unknown


def test_against_the_interpreter() -> None:
    """All pushes up to a depth, of pipelines with opaque steps of every kind: what the checker says of each value is
    what comes."""

    def last_two(state: tuple[int, int], v: int) -> tuple[tuple[int, int], list[int]]:
        return (state[1], int(str(v))), [10 * state[0] + state[1]] * (v % 3)

    made = [
        pipeline(lambda x: x.map(lambda v: v * v - 2).map(same), x=int),
        pipeline(lambda x: x.cumulate(lambda t, v: int(str(t * 2 + v)) % 7, start=0), x=int),
        pipeline(lambda x: x.task(last_two, (0, 0)), x=int),
        pipeline(lambda x: x.map(same) + x.trim(1).map(lambda v: int(str(v * 100)), to=int), x=int),
        pipeline(
            lambda x: (
                x.filter(lambda v: v < 2).task(last_two, (0, 0)).cumulate(lambda t, v: int(str(t ^ v)) % 4, start=0)
            ),
            x=int,
        ),
    ]
    for p in made:
        come: set[int] = set()
        for word in itertools.product(range(-1, 3), repeat=4):
            come |= set(p(list(word)))
        for value in {8, max(come), max(come) + 1}:
            assert check.holds(p, f"G !(out.value = {value})", ints=range(-1, 3)).proved == (value not in come), (
                p.graph,
                value,
            )


# ---------------------------------------------------------------- what is no function


hidden = [0]
calls = itertools.count()


def counter(v: int) -> int:
    hidden[0] += 1
    return hidden[0]


class Toggle:
    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False

    def __call__(self, v: int) -> int:
        self.on = not self.on
        return int(self.on)


def first_of_a_set(v: int) -> int:
    words = set(str(v)) | NAMES
    for word in words:
        return len(word) * 0
    return 0


def first_of_constants(v: int) -> int:
    for c in {"p", "q", "r"}:
        return ord(c) * 0
    return 0


class Thing:
    label = "x"

    def worth(self, v: int) -> int:
        return v


def made() -> Thing:
    return Thing()


def shown(thing: Thing) -> int:
    return len(f"{thing}") * 0


THING = Thing()
NAMES = frozenset({"a", "b"})
fickle: dict[str, Any] = {
    "counter": counter,
    "clock": lambda v: int(time.time()) * 0,
    "hours": lambda v: int(time.time() // 360000) * 0,
    "dice": lambda v: random.randint(1, 6),
    "seldom": lambda v: int(random.random() < 1e-12),
    "iterator": lambda v: next(calls) * 0,
    "slots": Toggle(),
    # what differs from process to process
    "hash": lambda v: hash(str(v)) * 0,
    "hash of a method": lambda v: str(v).__hash__() * 0,
    "address": lambda v: id(v) * 0,
    "process": lambda v: os.getpid() * 0,
    "environment": lambda v: len(os.environ.get("NOBODY_SETS_THIS", "")),
    "order": lambda v: len(next(iter({str(v), "x"}))) * 0,
    "order in a loop": first_of_a_set,
    "order of constants in a loop": first_of_constants,
    "order of constants in a comprehension": lambda v: [ord(c) for c in {"p", "q", "r"}].pop() * 0,
    "order of pairs": lambda v: next(n for _, n in {("a", 1), ("b", 2)}) * 0,
    "order of None": lambda v: [c is None for c in {None, "p"}].pop() * 0,
    "arguments of the program": lambda v: len(sys.argv) * 0,
    "arguments, imported by name": lambda v: len(ARGUMENTS) * 0,
    "machine": lambda v: len(platform.node()) * 0,
    "address in a text": lambda v: int(repr(THING)[-8:-1], 16) * 0,
    "address in an f-string": lambda v: len(f"{[THING]}") * 0,
    "address of a function": lambda v: len(str.format("{}", first_of_a_set)) * 0,
    "address of what is made": lambda v: len(str(Thing())) * 0,
    "address of what is returned": lambda v: len(f"{made()}") * 0,
    "address in a loop": lambda v: sum(len(repr(thing)) for thing in [THING]) * 0,
    "address in a helper": lambda v: shown(THING),
    # without a source, as with python -c
    "address of a command": eval("lambda v: len(repr(THING)) * 0", {"THING": object()}),
    "hash of a command": eval("lambda v: hash(str(v)) * 0"),
    "order of constants of a command": eval("lambda v: [ord(c) for c in {'p', 'q'}][0] * 0"),
    "order of a command": eval("lambda v: len(next(iter({str(v), 'x'}))) * 0"),
}


@pytest.mark.parametrize("name", fickle)
def test_what_is_no_function_is_never_proved(name: str) -> None:
    f = fickle[name]
    p = pipeline(lambda x: x.map(f, to=int, id="m"), x=int)
    q = pipeline(lambda x: x.map(f, to=int, id="m"), x=int)
    w = pipeline(lambda x: x.window(2, p), x=int)
    b = pipeline(lambda x: x.map(f, to=int).map(lambda v: v >= 0), x=int)
    c = pipeline(lambda x: x.task(lambda s, v: (s, [f(v)]), 0, to=int), x=int)
    asked = [
        check.holds(p, "G (out -> out.value < 1000000)", ints=range(2)),
        check.holds(p, "AG EF out", ints=range(2)),
        check.holds(w, "G F (out -> out.value >= 0)", ints=range(2)),
        check.holds(c, "G (out -> out.value < 1000000)", ints=range(2)),
        check.live(p, ints=range(2)),
        check.equivalent(p, q, ints=range(2)),
        check.equivalent(p, p, ints=range(2)),
        check.equivalent(p, q),
        check.equivalent(p, q, how="sequence", ints=range(2)),
        check.implies(b, b, ints=range(2)),
        check.dead_paths(p, ints=range(2)),
        check.monitor(check.Transitions([0], lambda s: [1 - s], lambda s: {"x": s}), b),
    ]
    for verdict in asked:
        assert not verdict.proved or any("always answers" in note for note in verdict.notes), str(verdict)
    assert asked[0].unknown and asked[0].notes, str(asked[0])
    assert (
        name == "slots"
        or "says nothing about what it will answer" in asked[0].notes[0]
        or "no meaning" in asked[0].notes[0]
    )


def test_what_is_in_doubt_is_said() -> None:
    """In the first line, whether it is proved or refuted."""
    p = pipeline(lambda x: x.map(lambda v: v + len(Path(os.devnull).read_text()), to=int), x=int)
    for most, status in ((3, "proved"), (2, "refuted")):
        verdict = check.holds(p, f"G (out -> out.value < {most})", ints=range(3))
        said = "assuming that a lambda always answers as it did when it was called: it calls "
        assert verdict.status == status and said in str(verdict).splitlines()[0]


LIMITS = [3, 4]
TURNS = 1


class Settings:
    def __init__(self) -> None:
        self.most = 3


SETTINGS = Settings()


def turned(to: int) -> None:
    global TURNS
    TURNS = to


def within(v: int) -> int:
    return min(v, *LIMITS) + int(str(v))


CHANGING: dict[str, Any] = {
    "LIMITS": within,
    "TURNS": lambda v: int(str(v)) * TURNS,
    "SETTINGS": lambda v: min(int(str(v)), SETTINGS.most),
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_may_change_is_named_in_the_first_line(name: str) -> None:
    f = CHANGING[name]
    verdict = check.holds(pipeline(lambda x: x.map(f, to=int), x=int), "G (out -> out.value < 9)", ints=range(3))
    who = "within()" if f is within else "a lambda"
    line = f.__code__.co_firstlineno
    said = f"assuming that {name} stays as it is, which {who} (test_opaque.py:{line}) reads"
    assert verdict.proved and said in str(verdict).splitlines()[0]


def test_sets_without_their_order_and_constants_are_taken_without_a_word() -> None:
    for f in (
        lambda v: len(set(str(v))),
        lambda v: int(str(v) in NAMES),
        lambda v: next(n for n in {8, 1, 3}) * int(str(v) in {"a", "b"}),
        eval("lambda v: sum(n for n in (1, 2) if n not in {'a', 'b'})"),
        lambda v: len(sorted(w for w in {str(v), "x"})),
        lambda v: sum(len(w) for w in set(str(v))),
        lambda v: len(str(v)) * WIDTH,
    ):
        p = pipeline(lambda x, f=f: x.map(f, to=int), x=int)
        verdict = check.holds(p, "G (out -> out.value < 9)", ints=range(3))
        assert verdict.proved and "assuming" not in verdict.question, str(verdict)


class Named:
    def __str__(self) -> str:
        return "named"


def test_texts_without_an_address_are_taken_without_a_word() -> None:
    for f in (
        lambda v: len(f"{THING.worth(v)} {Thing().worth(v)}"),
        lambda v: len(f"{same(v)}") + len(f"{made().worth(v)} %s" % v),
        lambda v: len(",".join(str(one) for one in [v, 2])),
        lambda v: len(f"{[same(i) for i, _ in enumerate(map(same, [v]))]}"),
        lambda v: len(f"{Named()} {v}"),
        eval("lambda v: len(f'{same(v)}')", {"same": same}),
    ):
        p = pipeline(lambda x, f=f: x.map(f, to=int), x=int)
        verdict = check.holds(p, "G (out -> out.value < 9)", ints=range(3))
        assert verdict.proved, str(verdict)


WIDTH = 2


def widened(v: int) -> int:
    return v * v + WIDTH


def test_a_global_that_changed_since_the_pipeline_was_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines run what a traced function was then."""
    p = pipeline(lambda x: x.map(lambda v: widened(v)), x=int)
    assert check.holds(p, "G (out -> out.value >= 2)", warn=False).proved
    monkeypatch.setitem(globals(), "WIDTH", -100)
    for verdict in (check.holds(p, "G (out -> out.value >= 2)"), check.equivalent(p, p), check.live(p)):
        assert verdict.unknown and "reads WIDTH, which is -100 now and was 2 when the pipeline" in verdict.notes[0]
    q = pipeline(lambda x: x.map(lambda v: widened(v)), x=int)
    assert check.holds(q, "G (out -> out.value >= -100)", warn=False).proved


class Scale:
    k = 60


def _doubled(v: int) -> int:
    return v * 2


CHANGED: dict[str, tuple[Any, Callable[[pytest.MonkeyPatch, Any], None], str]] = {
    "default": (lambda v, k=60: v + k, lambda m, f: m.setattr(f, "__defaults__", (70,)), "the default of k, which is"),
    "keyword": (
        lambda v, *, k=60: v + k, lambda m, f: m.setattr(f, "__kwdefaults__", {"k": 70}), "the default of k, which is",
    ),
    "class": (lambda v: v + Scale.k, lambda m, f: m.setattr(Scale, "k", 70), "reads Scale.k, which is 70 now and was"),
    "class again": (
        lambda v: v + Scale.k,
        lambda m, f: m.setitem(globals(), "Scale", type("Scale", (), {"k": 70, "__module__": __name__})),
        "reads Scale.k, which is 70 now and was",
    ),
    "instance": (lambda v: v + Scale().k, lambda m, f: m.setattr(Scale, "k", 70), "reads Scale.k, which is 70 now"),
    "helper": (
        lambda v: _doubled(v),
        lambda m, f: m.setattr(_doubled, "__code__", (lambda v: v * 3).__code__),
        "_doubled() (test_opaque.py",
    ),
    "builtin": (lambda v: abs(v), lambda m, f: m.setitem(globals(), "abs", lambda v: v + 9), "reads abs, which is"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_changed_in_place_since_the_pipeline_was_built_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended in an AssertionError: two engines disagreed."""
    f, change, said = CHANGED[name]
    p = pipeline(lambda x: x.map(f, to=int), x=int)
    assert check.holds(p, "G (out -> out.value < 65)", ints=range(2)).proved
    change(monkeypatch, f)
    verdict = check.holds(p, "G (out -> out.value < 65)", ints=range(2))
    assert verdict.unknown and said in verdict.notes[0], str(verdict)


@pytest.mark.parametrize("ints", [None, range(3)])
def test_a_name_that_is_not_defined_is_refused(ints: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a failure like any other, of which all sorts of things are true.  A name may be defined later."""
    p = pipeline(lambda x: x.map(lambda v: defined_later + v, to=int, id="m"), x=int)  # noqa: F821
    line = p.graph["m"].fn.plain.__code__.co_firstlineno
    asked: list[Any] = [
        lambda: check.holds(p, "G (out -> out.value > 0)", ints=ints),
        lambda: check.live(p, ints=ints),
        lambda: check.holds_on(p, "G out", [1]),
    ]
    for ask in asked:
        with pytest.raises(PipelineError, match=rf"'defined_later', which is not defined \(test_opaque.py:{line}\)"):
            ask()
    monkeypatch.setitem(globals(), "defined_later", 5)
    assert check.holds(p, "G (out -> out.value >= 5)", ints=range(3)).proved


def test_what_is_pure_is_proved_without_a_word() -> None:
    import hashlib
    import json
    import re

    def tried(v: int) -> int:
        try:
            return int("x" * v)
        except ValueError:
            return 1

    word = re.compile("[0-9]+")
    for f in (
        lambda v: bool(word.match(str(v))),
        lambda v: json.loads(json.dumps(v)),
        lambda v: hashlib.sha256(str(v).encode()).digest()[0] > 300,
        tried,
        lambda v: Counter(str(v)).most_common(1)[0][1],
        lambda v: math.floor(float(str(v))),
    ):
        p = pipeline(lambda x, f=f: x.map(f, to=int), x=int)
        verdict = check.holds(p, "G (out -> out.value < 3)", ints=range(3))
        assert verdict.proved and not any("answers" in note for note in verdict.notes), str(verdict)


def test_nothing_of_the_users_is_changed_by_a_check() -> None:
    before = hidden[0]
    check.holds(pipeline(lambda x: x.map(counter), x=int), "G out", ints=range(3))
    assert hidden[0] == before


# ---------------------------------------------------------------- sameness


def test_two_functions_are_the_same_if_what_they_close_over_is() -> None:
    def made(box: list[int]) -> Any:
        return pipeline(lambda x: x.map(lambda v: int(str(v)) + box[0], to=int, id="m"), x=int)

    one, other = [1], [1]
    a, b = made(one), made(other)
    assert check.equivalent(a, b, ints=range(3)).proved
    assert check.equivalent(a, b).proved
    other[0] = 2  # after both were looked at
    verdict = check.holds(b, "G (out -> out.value > 1)", ints=range(3))
    assert verdict.status == "unknown"  # engines run what it was
    assert "reads box, whose contents have changed since the pipeline was built" in verdict.notes[0]


def test_a_function_that_engines_call_is_what_it_is_now() -> None:
    def made(box: list[int]) -> Any:
        def f(v: int) -> int:
            try:  # which no trace takes
                return v + box[0]
            except OverflowError:
                return 0

        return pipeline(lambda x: x.map(f, to=int, id="m"), x=int)

    one, other = [1], [1]
    a, b = made(one), made(other)
    assert check.equivalent(a, b, ints=range(3)).proved
    other[0] = 2
    assert check.equivalent(a, b, ints=range(3)).refuted
    assert check.holds(b, "G (out -> out.value > 1)", ints=range(3)).proved


def test_the_same_graph_over_all_integers_says_what_it_relies_on() -> None:
    p, q = (pipeline(lambda x: x.map(spelled, id="m"), x=int) for _ in range(2))
    verdict = check.equivalent(p, q)
    assert verdict.proved
    assert (
        "of spelled(), which turns an event's value into text, only this was used: the same arguments give the same "
        "answer" in verdict.notes
    )


def test_a_stream_that_ends_calls_what_comes() -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0).map(same), x=int)
    assert check.holds_on(p, "G (out -> out.value <= 6)", [1, 2, 3]).proved
    assert check.holds_on(p, "G (out -> out.value <= 5)", [1, 2, 3]).refuted


# ---------------------------------------------------------------- more of them, worked out by hand


hostile: list[tuple[str, Any, str, str]] = [
    (
        "a key that is called",
        pipeline(lambda x: x.key_by(lambda v: same(v) % 2).cumulate(lambda n, v: min(n + 1, 3), start=0), x=int),
        "G (out -> out.value <= 3)",
        "proved",
    ),
    (
        "lists under keys",
        pipeline(
            lambda x: x.key_by(lambda v: v % 2).task(lambda s, v: (s if len(s) > 2 else [*s, v], [len(s)]), [], to=int),
            x=int,
        ),
        "G (out -> out.value <= 2)",
        "refuted",
    ),
    (
        "lists that end",
        pipeline(
            lambda x: x.key_by(lambda v: v % 2).task(lambda s, v: (s if len(s) > 2 else [*s, v], [len(s)]), [], to=int),
            x=int,
        ),
        "G (out -> out.value <= 3)",
        "proved",
    ),
    (
        "a float",
        pipeline(lambda x: x.map(lambda v: v / 2).map(lambda f: int(str(f)[0]), to=int), x=int),
        "G (out -> out.value <= 1)",
        "proved",
    ),
    (
        "to a float",
        pipeline(lambda x: x.map(lambda v: float(str(v)) / 2, to=float).map(lambda f: f > 0.6), x=int),
        "G (out -> !out.value)",
        "refuted",
    ),
    (
        "what would fail is held back",
        pipeline(lambda x: x.filter(lambda v: str(v) != "2").map(lambda v: [1, 2][v], to=int), x=int),
        "G !failed",
        "proved",
    ),
    ("never called", pipeline(lambda x: x.filter(lambda v: v > 5).map(same), x=int), "G !out", "proved"),
    (
        "several events",
        pipeline(lambda x: x.task(lambda s, v: (s, [int(str(i)) for i in range(v)]), 0, to=int), x=int),
        "G (out -> out.value = 0)",
        "refuted",
    ),
    (
        "at most two of them",
        pipeline(lambda x: x.task(lambda s, v: (s, [int(str(i)) for i in range(v)]), 0, to=int), x=int),
        "G (out.count <= 2)",
        "proved",
    ),
    (
        "longer than it looks",
        pipeline(lambda x: x.map(lambda v: int("1" + "0" * v), to=int), x=int),
        "G (out -> out.value < 100)",
        "refuted",
    ),
]


@pytest.mark.parametrize(("p", "formula", "status"), [row[1:] for row in hostile], ids=[row[0] for row in hostile])
def test_by_hand(p: Any, formula: str, status: str) -> None:
    assert check.holds(p, formula, ints=range(3)).status == status


def test_two_zeros_are_not_told_apart_in_silence() -> None:
    p = pipeline(lambda x: x.map(lambda v: math.copysign(0.0, v - 1)).map(lambda f: str(f) == "-0.0", to=bool), x=int)
    with pytest.raises(NotTraceable, match=r"tells 0\.0 from -0\.0"):
        check.holds(p, "G (out -> !out.value)", ints=range(3))


def test_a_stream_that_ends_and_a_function_that_is_none() -> None:
    """A run that cannot be made again refutes nothing, and shows nothing."""
    calls = [0]

    def counts(v: int) -> int:
        calls[0] += 1
        return calls[0] + v

    p = pipeline(lambda x: x.map(counts), x=int)
    refuted = check.holds_on(p, "G out.value = 0", [-2])
    assert refuted.unknown and refuted.counterexample is None and "changes 'calls'" in refuted.notes[0]
    proved = check.holds_on(p, "G out", [-2])
    assert proved.proved and "of this one run" in proved.notes[0]


def test_what_answers_otherwise_when_a_run_is_made_again_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was seen of what it remembers, the second run shows it."""
    p = pipeline(lambda x: x.map(same), x=int)
    monkeypatch.setattr("pellucid.check.counterexample._second", lambda *how: lambda events: {"out": [99]})
    verdict = check.holds_on(p, "G out.value = 0", [5])
    assert verdict.unknown and "emits {'out': [5]} and then {'out': [99]}" in verdict.notes[0], verdict


def test_a_proof_beside_a_function_that_is_not_pure_says_so() -> None:
    def die(v: int) -> int:
        return random.randrange(3) + v

    p = pipeline(lambda x: x.map(die, id="die"), x=int)
    bounded = check.buffers(p)
    assert bounded.proved and any(
        "die" in note and "not pure" in note and "whatever it answers" in note for note in bounded.notes
    )
    silent = check.monitor(
        check.Transitions([0], lambda s: [s], lambda s: {}), pipeline(lambda x: x.map(die) > 0, x=int)
    )
    assert silent.proved and any("not pure" in note for note in silent.notes)
    assert not any(
        "not pure" in note for note in check.buffers(pipeline(lambda x: x.map(lambda v: v + 1), x=int)).notes
    )
