"""What the paper says of its pipelines (Model Checking of Stream Processing Pipelines, 2021, sections 4 and 5), and the
questions with a name.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pellucid import Mod, Stream, UsageError, apply, check, merge, pipeline, silent
from pellucid.check.answer import suggested, thresholds
from pellucid.check.decide import Options
from pellucid.check.questions import Property, declared
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import domain_of
from pellucid.errors import NotTraceable, PellucidError
from pellucid.internal.load import _load_path
from pellucid.internal.model.verdict import Verdict

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "bench")]

import stream_pipelines  # noqa: E402
import stream_pipelines_appendix as appendix  # noqa: E402
import stream_pipelines_figures as figures  # noqa: E402


def test_the_grid_has_162_problems_and_two_engines_agree_on_each() -> None:
    grid = stream_pipelines.grid()
    assert len(grid) == 162
    verdicts = [stream_pipelines.ask(p, Mod(p.n)).status for p in grid]
    assert (verdicts.count("proved"), verdicts.count("refuted")) == (127, 35)
    # The second engines take longer: those of every ninth problem here, all in `bench/stream_pipelines.py`.
    for p, status in list(zip(grid, verdicts, strict=True))[::9]:
        assert stream_pipelines.second(p)[1] == status, p


@pytest.mark.parametrize("ints", [Mod(4), pytest.param(None, marks=pytest.mark.long)], ids=["mod 4", "exact"])
def test_5a_and_5b_are_sequence_but_not_step_equivalent(ints: Mod | None) -> None:
    step = check.equivalent(figures.figure_5a, figures.figure_5b, ints=ints)
    assert step.refuted
    assert step.counterexample is not None and len(step.counterexample.steps) == 1
    assert check.equivalent(figures.figure_5a, figures.figure_5b, how="sequence", ints=ints, timeout=120).proved


# Over exact integers sequences are compared in every run by tests/check/test_compare.py.
@pytest.mark.parametrize("ints", [Mod(4), pytest.param(None, marks=pytest.mark.long)], ids=["mod 4", "exact"])
def test_5a_flipped_is_5c_as_a_sequence(ints: Mod | None) -> None:
    assert check.equivalent(figures.figure_5a_flipped, figures.figure_5c, how="sequence", ints=ints, timeout=120).proved
    assert check.equivalent(figures.figure_5a_flipped, figures.figure_5c, ints=ints).refuted


@pytest.mark.parametrize("ints", [Mod(4), pytest.param(None, marks=pytest.mark.long)], ids=["mod 4", "exact"])
def test_5a_as_it_is_drawn_is_5c_and_not_5b(ints: Mod | None) -> None:
    """The text says that it is 5b, and 5c with its condition flipped."""
    drawn, flipped = figures.figure_5a_drawn, figures.figure_5a_drawn_flipped
    assert check.equivalent(drawn, figures.figure_5b, how="sequence", ints=ints).refuted
    assert check.equivalent(drawn, figures.figure_5c, how="sequence", ints=ints).proved
    assert check.equivalent(flipped, figures.figure_5b, how="sequence", ints=ints).refuted
    assert check.equivalent(flipped, figures.figure_5c, how="sequence", ints=ints).refuted


def test_a_full_queue_is_one_more_than_is_needed() -> None:
    """Section 4.2 says Q >= 1 for 5a and Q >= 0 for 5b: that is what is needed (no overflow).  Its own formula, that no
    queue is ever full, takes one more, as it says itself ("can be bounded to Q - 1")."""
    for p, needed in ((figures.figure_5a, 1), (figures.figure_5b, 0)):
        for queue in (0, 1, 2):
            overflow = check.holds(p, "!EF overflow", queue=queue)
            full = check.holds(p, "!EF full", queue=queue)
            assert (overflow.proved, full.proved) == (queue >= needed, queue > needed), (p.name, queue)


def test_a_wrong_simplification_is_refuted() -> None:
    wrong = check.equivalent(figures.figure_5a_flipped, figures.figure_5b, how="sequence")
    assert wrong.refuted and wrong.counterexample is not None
    assert wrong.counterexample.steps[-1].streams["1:out"] != wrong.counterexample.steps[-1].streams["2:out"]


def test_the_least_bounds() -> None:
    assert sorted(check.buffers(figures.figure_5a, ints=Mod(4)).details["bounds"].values()) == [0, 1]
    assert sorted(check.buffers(figures.figure_5a).details["bounds"].values()) == [0, 1]
    assert list(check.buffers(figures.figure_5b).details["bounds"].values()) == [0, 0]


def test_figure_2a_has_no_bound_and_shows_the_loop() -> None:
    verdict = check.buffers(figures.figure_2a)
    example = verdict.counterexample
    assert verdict.refuted and example is not None and example.loop is not None
    assert list(verdict.details["grows"].values()) == [2]  # two events more with every three pushes
    assert len(example.steps) - example.loop == 3


def test_modulo_n_turns_the_verdict_round_and_the_tool_says_so() -> None:
    modulo = check.holds(appendix.smaller_than_3, "AG EF out", ints=Mod(4))
    assert modulo.proved
    assert modulo.notes == ("over exact integers it is refuted: arithmetic modulo N turned the verdict round",)
    exact = check.holds(appendix.smaller_than_3, "AG EF out")
    assert exact.refuted and exact.counterexample is not None and len(exact.counterexample.steps) == 3


NEGATED = [
    ("AG EF out", lambda a, b: a + b),
    ("AG EF out & AG (out -> out.value <= 1)", lambda a, b: apply(lambda u, v: 1 if u == v else 0, a, b)),
    ("G (out -> out.value >= 0)", lambda a, b: apply(lambda u, v: abs(u) + abs(v), a, b)),
]


@pytest.mark.parametrize("ints", [Mod(2), pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize(("formula", "body"), NEGATED)
def test_the_negation_of_what_is_proved_is_refuted(formula: str, body: Any, ints: Any) -> None:
    """A formula is proved where it holds wherever a run may begin: there its negation does not hold."""
    p = pipeline(body, a=int, b=int)
    assert all(check.holds(p, part, ints=ints, warn=False).proved for part in formula.split(" & "))
    opposites = [f"!({formula})"] + (["EF AG !out"] if formula == "AG EF out" else [])
    for opposite in opposites:
        verdict = check.holds(p, opposite, ints=ints, warn=False)
        assert verdict.refuted, opposite


def test_a_formula_and_its_negation_may_both_be_refuted() -> None:
    two = pipeline(lambda a, b: a + b, a=int, b=int)
    assert [check.holds(two, f, warn=False).status for f in ("F out", "!(F out)")] == ["refuted", "refuted"]


def test_liveness_over_exact_integers() -> None:
    assert check.live(appendix.sum_of_odds).proved
    assert check.live(appendix.window_sum).proved
    assert check.live(appendix.sum_of_odds, within=3, ints=Mod(4)).proved


def test_figure_2b_monitors_every_run_of_a_system() -> None:
    """b is the number of times that a was true in the three previous states: kept right, and wrong by one state."""

    def system(memory: int) -> check.Transitions:
        def after(state: tuple[tuple[bool, ...], bool, int]) -> list[tuple[tuple[bool, ...], bool, int]]:
            seen = (*state[0], state[1])[-memory:]
            return [(seen, a, sum(seen)) for a in (False, True)]

        return check.Transitions([((), False, 0), ((), True, 0)], after, lambda s: {"a": s[1], "b": s[2]})

    assert check.monitor(system(3), figures.figure_2b_3).proved
    wrong = check.monitor(system(2), figures.figure_2b_3)
    assert wrong.refuted and wrong.counterexample is not None
    assert wrong.counterexample.steps[-1].streams["out"] == [False]
    assert len(wrong.counterexample.steps) == 4


def test_dead_paths() -> None:
    p = pipeline(
        lambda x: x.filter(lambda v: v > 3, id="big").filter(lambda v: v < 2, id="none").map(lambda v: v, id="same"),
        x=int,
    )
    dead = check.dead_paths(p).details["dead"]
    assert dead["none"] == dead["same"] == "it never carries an event"
    assert check.dead_paths(appendix.sum_of_odds, ints=Mod(4)).proved


def test_a_lossy_pipe() -> None:
    p = pipeline(lambda x: x.map(lambda v: v, id="copy") == x, x=int)
    assert check.holds(p, "G (out -> out.value = true)", ints=range(2)).proved
    lost = check.holds(p, "G (out -> out.value = true)", ints=range(2), lossy=["copy"])
    assert lost.refuted and lost.counterexample is not None
    assert [dict(s.inputs) for s in lost.counterexample.steps] == [{"x": 0, "lost.copy": True}, {"x": 1}]
    with pytest.raises(UsageError, match="has no stream 'cpy' to lose events"):
        check.holds(p, "G out", lossy=["cpy"])


def test_an_opaque_function_is_called_on_everything() -> None:
    import random

    rolls = pipeline(lambda x: x.map(lambda v: v + random.randint(0, 0), to=int, id="roll"), x=int)
    assert check.holds(rolls, "G (out -> out.value = in.value)", ints=range(4)).unknown
    read = pipeline(lambda x: x.map(lambda v: int(str(v)), to=int), x=int)
    assert check.holds(read, "G (out -> out.value = in.value)", ints=range(4)).proved
    everything = check.holds(rolls, "G (out -> out.value = in.value)")
    assert everything.unknown and "a lambda calls Random.getrandbits()" in everything.notes[0]


def test_a_stream_that_ends() -> None:
    p = pipeline(lambda a, b: a + b, a=int, b=int)
    assert check.holds_on(p, "F out.value = 5", [1, 2], [9, 3])
    late = check.holds_on(p, "G out", [1, silent], [2, 3])
    assert late.refuted and late.counterexample is not None and len(late.counterexample.steps) == 2
    with pytest.raises(UsageError, match="one stream for each source of pipeline: a, b"):
        check.holds_on(p, "F out", [1])


def test_a_start_value_that_is_not_in_the_domain() -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=7, id="sum"), x=int)
    with pytest.raises(UsageError, match=r"step 'sum' .* its start value 7 is not among the integers modulo 4"):
        check.live(p, ints=Mod(4))


def test_bounds_give_unknown_and_never_a_pass() -> None:
    counting = pipeline(lambda x: x.cumulate(lambda n, v: n + 1, start=0, id="count"), x=int)
    verdict = check.holds(counting, "AG EF out.value = 3", ints=range(2), max_states=50, engine="explicit")
    assert verdict.unknown and not verdict
    assert verdict.notes == (
        "the limit of 50 states was reached",
        "integers without a bound: count:state; ints=Mod(N) bounds them, at the price of arithmetic modulo N",
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: check.holds(p, "AG EF ot"), "'ot'"),
        (lambda p: check.holds(p, "AG (out"), "expected"),
        (lambda p: check.holds(p, "G out.value = true"), "int"),
        (lambda p: check.holds(p, "AG F out"), "mixes AG of CTL with F of LTL"),
        (lambda p: check.holds(p, "out"), "speaks of one step only"),
        (lambda p: check.holds(p, "AG out", engine="magic"), "engine= takes 'auto', 'explicit', 'smt', found 'magic'"),
        (lambda p: check.equivalent(p, p, how="roughly"), "how= takes 'step', 'sequence' or 'paper', found 'roughly'"),
        (
            lambda p: check.holds(p, "AG (out -> out.value > 3)", engine="explicit"),
            "cannot be listed, so explicit search",
        ),
        (lambda p: check.live(p, within=0), "at least 1, found 0"),
        (lambda p: check.implies(p, p), "implies compares pipelines that emit Booleans"),
        (
            lambda p: check.monitor(check.Transitions([0], lambda s: [s], lambda s: {"x": 0}), p),
            "a monitor emits Booleans",
        ),
    ],
)
def test_bad_questions(call: object, message: str) -> None:
    p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
    with pytest.raises(UsageError) as error:
        call(p)  # type: ignore[operator]
    assert message in str(error.value)


# Properties that a file declares: collected in the module, in order, none lost.

HEAD = "from pellucid import check, pipeline\np = pipeline(lambda x: x.trim(1), x=int)\n"
late = pipeline(lambda x: x.trim(1), x=int)


def load(tmp_path: Path, text: str) -> list[Property]:
    file = tmp_path / "declares.py"
    file.write_text(HEAD + text)
    return declared(_load_path(str(file)))


def test_they_come_in_the_order_of_the_lines(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "@check.property\ndef b():\n    return True\n"
        "check.properties(p, ['AG EF out', '!EF full'], queue=2)\n"
        "@check.property\ndef a():\n    return check.live(p)\n"
        "check.properties(p, {'often': 'G F out'}, name='late', ints=range(2))\n",
    )
    assert [(one.name, one.where) for one in found] == [
        ("b", "declares.py:3"),
        ("pipeline: AG EF out", "declares.py:6"),
        ("pipeline: !EF full", "declares.py:6"),
        ("a", "declares.py:7"),
        ("late: often", "declares.py:10"),
    ]
    assert [one().status for one in found] == ["proved", "proved", "proved", "proved", "refuted"]


@pytest.mark.parametrize(
    ("within", "status"), [(10**9, "bounded"), pytest.param(10**19, "unknown", marks=pytest.mark.long)]
)
def test_a_bound_of_fewer_pushes_than_within_is_not_enough(tmp_path: Path, within: int, status: str) -> None:
    total = "p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)\n"
    (found,) = load(tmp_path, f"{total}check.properties(p, ['G !failed'], within={within}, ints=range(10))\n")
    assert found().status == status


def test_a_file_that_is_loaded_again_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was changed within the same second, and is as long as before; and nothing is left beside it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "declares.py"
    for name in ("a", "b"):
        file.write_text(f"{HEAD}@check.property\ndef {name}():\n    return True\n")
        os.utime(file, (1e9, 1e9))
        assert [one.name for one in declared(_load_path(str(file)))] == [name]
    assert os.listdir(tmp_path) == ["declares.py"]


def test_what_is_imported_is_not_declared(tmp_path: Path) -> None:
    (tmp_path / "declares_elsewhere.py").write_text(HEAD + "@check.property\ndef a():\n    return True\n")
    assert load(tmp_path, "from declares_elsewhere import a\n") == []


def test_a_loop_loses_none(tmp_path: Path) -> None:
    found = load(tmp_path, "for size in (1, 2, 3):\n    check.properties(p, ['!EF full'], queue=size)\n")
    assert [one.name for one in found] == ["pipeline: !EF full", "pipeline: !EF full (2)", "pipeline: !EF full (3)"]


def test_two_of_one_name(tmp_path: Path) -> None:
    text = "@check.property\ndef a():\n    return True\n\n@check.property\ndef a():\n    return False\n"
    message = "two properties are called 'a' (declares.py:3 and declares.py:7): rename one"
    with pytest.raises(UsageError) as error:
        load(tmp_path, text)
    assert str(error.value) == message


def test_a_cell_that_is_run_again_replaces_its_own() -> None:
    space: dict[str, Any] = {"check": check}
    for answer in (True, False):
        exec(f"@check.property\ndef a():\n    return {answer}\n", space)
    (found,) = declared(space)
    assert found().refuted


def test_the_function_stays_a_function() -> None:
    @check.property
    def something_comes_out() -> Any:
        return check.live(late)

    assert something_comes_out().proved


def test_options_reach_who_takes_them() -> None:
    seen: list[dict[str, Any]] = []
    space: dict[str, Any] = {"check": check, "seen": seen}
    exec(
        "@check.property\ndef none():\n    seen.append({})\n    return True\n"
        "@check.property\ndef some(timeout=None):\n    seen.append({'timeout': timeout})\n    return True\n"
        "@check.property\ndef every(**how):\n    seen.append(how)\n    return True\n",
        space,
    )
    for found in declared(space):
        found(timeout=3, engine="smt")
    assert seen == [{}, {"timeout": 3}, {"timeout": 3, "engine": "smt"}]


def test_options_go_before_what_is_declared() -> None:
    space: dict[str, Any] = {"check": check, "late": pipeline(lambda x: x.decimate(3) + x, x=int)}
    exec("check.properties(late, ['!EF overflow'], queue=1)", space)
    (found,) = declared(space)
    shorter, longer = found().counterexample, found(queue=4).counterexample
    assert shorter is not None and longer is not None and len(shorter.steps) < len(longer.steps)


MISTAKES = [
    (lambda: check.property(3), "@check.property stands above a function, found 3"),  # type: ignore[type-var]
    (
        lambda: check.property(check.live(late)),  # type: ignore[type-var]
        "@check.property stands above a function that returns a verdict; it was given the verdict itself",
    ),
    (
        lambda: check.property(lambda size: True),
        "property <lambda> wants an argument 'size', which it does not get: a property takes none, or some of "
        "ints, queue, assume, times, pushes, batch, arrival, engine, timeout, max_states, max_depth, progress",
    ),
    (lambda: check.properties(late, "AG EF out"), "check.properties wants a list of formulas: write ['AG EF out']"),
    (lambda: check.properties(3, ["AG EF out"]), "check.properties wants a pipeline first, found 3"),
    (
        lambda: check.properties(late, ["AG EF out"], size=3),
        "check.properties takes ints, queue, assume, times, pushes, batch, arrival, engine, timeout, max_states, "
        "max_depth, progress, found 'size'",
    ),
    (lambda: check.properties(late, ["G (x -> )"]), "expected a condition, found ')'\n  G (x -> )\n          ^"),
    (
        Property("p", "f.py:1", lambda: None, takes=frozenset()),
        "property p (f.py:1) returned None: expected a verdict, as in return check.live(…), or True or False",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        call()
    assert str(error.value) == message


# No argument of any question is a traceback; the time of a question is for all of it.

p = pipeline(lambda x: x * x, x=int)
two = pipeline(lambda x, y: x + y, x=int, y=int)
says = pipeline(lambda x: x < 3, x=int)
T = check.Transitions

WRONG = {
    "no pipeline": lambda: check.live(3),
    "no pipelines": lambda: check.equivalent(p, None),
    "nothing": lambda: check.holds(),
    "unknown keyword": lambda: check.live(p, foo=1),
    "nearly a keyword": lambda: check.holds(p, "G out", timout=3),
    "keyword of another": lambda: check.buffers(p, within=3),
    "no formula": lambda: check.holds(p, None),
    "a number for a formula": lambda: check.holds(p, 3),
    "a list for a formula": lambda: check.holds_on(p, ["G out"], [1]),
    "ints beyond 64 bits": lambda: check.holds(p, "G (out -> out.value > 0)", ints={2**70}),
    "ints of texts": lambda: check.holds(p, "G out", ints="abc"),
    "ints=5": lambda: check.live(p, ints=5),
    "queue='a'": lambda: check.holds(two, "G !full", queue="a"),
    "queue=-1": lambda: check.holds(two, "G !out", queue=-1),
    "queue=True": lambda: check.holds(two, "G !full", queue=True),
    "queue of another": lambda: check.holds(two, "G !full", queue={"nowhere.0": 1}),
    "queue by a number": lambda: check.equivalent(two, two, queue={1: 1}),
    "within=1.5": lambda: check.live(p, within=1.5),
    "within=0": lambda: check.live(p, within=0),
    "output=3": lambda: check.live(p, output=3),
    "output of another": lambda: check.live(p, output="nowhere"),
    "timeout=-1": lambda: check.live(p, timeout=-1),
    "timeout='a'": lambda: check.dead_paths(p, timeout="a"),
    "engine='x'": lambda: check.implies(says, says, engine="x"),
    "engine=[]": lambda: check.implies(says, says, engine=[]),
    "max_states=0": lambda: check.live(p, max_states=0),
    "max_depth=None": lambda: check.live(p, max_depth=None),
    "progress=3": lambda: check.live(p, progress=3),
    "how='else'": lambda: check.equivalent(p, p, how="else"),
    "lossy of nothing": lambda: check.holds(p, "G out", lossy=["nowhere"]),
    "lossy as a text": lambda: check.holds(p, "G out", lossy="x"),
    "lossy=3": lambda: check.holds(p, "G out", lossy=3),
    "monitor: no system": lambda: check.monitor(3, says),
    "monitor: no initial state": lambda: check.monitor(T([], lambda s: [s], lambda s: {"x": s}), says),
    "monitor: initial is a number": lambda: T(3, lambda s: [s], lambda s: {"x": s}),
    "monitor: next is no function": lambda: T([0], [0], lambda s: {"x": s}),
    "monitor: next fails": lambda: check.monitor(T([0], lambda s: [1 // s], lambda s: {"x": s}), says),
    "monitor: see fails": lambda: check.monitor(T([0], lambda s: [s], lambda s: {"x": 1 // s}), says),
    "monitor: no Booleans": lambda: check.monitor(T([0], lambda s: [s], lambda s: {"x": s}), p),
    "implies of integers": lambda: check.implies(p, p),
    "holds_on without a stream": lambda: check.holds_on(p, "G out"),
    "holds_on with a number": lambda: check.holds_on(p, "G out", 3),
    "holds_on with a wrong event": lambda: check.holds_on(p, "G out", ["a"]),
    "holds_on with nothing in it": lambda: check.holds_on(p, "G out", []),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_one_message(case):
    with pytest.raises(PellucidError) as error:
        WRONG[case]()
    assert str(error.value) and "Traceback" not in str(error.value)


def test_messages_say_what_was_given_and_what_was_expected():
    with pytest.raises(UsageError, match=r"check\.holds has no argument 'timout': did you mean 'timeout'\?"):
        check.holds(p, "G out", timout=3)
    with pytest.raises(UsageError, match=r"lossy= takes a list .* found 'x': write \['x'\]"):
        check.holds(p, "G out", lossy="x")


@pytest.mark.parametrize("many", [10**5, pytest.param(10**6, marks=pytest.mark.long)])
def test_many_integers_are_no_matter_of_memory(many: int):
    assert not check.holds(p, "AG EF out.value = 0", ints=range(many), timeout=3).refuted


def test_states_from_an_iterator():
    assert check.monitor(T(iter([0]), lambda s: [s], lambda s: {"x": s}), says).proved


def test_a_stream_that_loses_events_over_exact_integers():
    copy = pipeline(lambda x: x.map(lambda v: v, id="copy").cumulate(lambda t, v: t + v, start=0), x=int)
    assert check.holds(copy, "G (x.value = 5 -> out)", lossy=["copy"]).refuted


def test_what_is_made_from_options_ends_with_them():
    options = Options(timeout=0.2)
    import dataclasses

    longer = dataclasses.replace(options, timeout=50.0)
    assert longer.left <= 0.2 and dataclasses.replace(options, timeout=0.1).left <= 0.1
    assert Options(timeout=None).left is None


@pytest.mark.parametrize(
    "ask",
    [
        lambda **how: check.equivalent(
            pipeline(lambda x, y: x * x * y - y * x, x=int, y=int),
            pipeline(lambda y, x: y * (x * x - x) * 1, y=int, x=int),
            **how,
        ),
        lambda **how: check.dead_paths(
            pipeline(lambda x, y: merge(x * y * x, y * x * x).filter(lambda v: v % 7 != 3), x=int, y=int), **how
        ),
    ],
    ids=["equivalent", "dead_paths"],
)
def test_the_time_is_for_the_whole_question(ask):
    began = time.process_time()
    ask(timeout=2)
    assert time.process_time() - began < 30  # a decision that has begun may take a little longer


# ---------------------------------------------------------------- what is too large


def test_more_atoms_than_a_search_looks_at_is_one_message() -> None:
    next_ = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    some = " | ".join(f"out.value = {i}" for i in range(70))
    with pytest.raises(UsageError, match="no more than 64 different atoms at once, and the formula has 71"):
        check.holds(next_, f"G (x -> F ({some}))", ints=range(3))
    few = " | ".join(f"out.value = {i}" for i in range(63))
    assert check.holds(next_, f"G (x -> F ({few}))", ints=range(3)).proved


def test_more_pushes_than_explicit_search_tries_is_unknown() -> None:
    keyed = pipeline(lambda x: x.key_by(lambda v: v).cumulate(lambda t, v: t + 1, start=0), x=int)
    verdict = check.holds(keyed, "G (out -> out.value >= 0)", engine="explicit", ints=range(5000))
    assert verdict.unknown and "too many for explicit search to try" in verdict.notes[0]


def test_a_large_domain_takes_no_longer_than_a_small_one() -> None:
    """Its events are not gone through again and again: a span says as much."""
    began = time.process_time()
    verdict = check.holds(
        pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int),
        "G (out -> out.value >= 0)",
        ints=range(10**6),
        timeout=5,
    )
    assert not verdict.refuted and time.process_time() - began < 6


# Advice that is never wrong: suggested integers tell the pipeline's cases apart, and a verdict over some integers says
# that it is one.


def after(threshold: int, times: int = 3) -> Any:
    """Says so after so many events above the threshold in a row."""

    def step(n: int, d: int) -> tuple[int, list[int]]:
        n = n + 1 if d > threshold else 0
        return n, [n] if n >= times else []

    return pipeline(lambda d: d.task(step, initial=0, id="row"), d=int)


class Color(Enum):
    RED = 1
    BLUE = 2


class Reading(NamedTuple):
    sensor: int
    value: int
    color: Color


class Named(NamedTuple):
    name: str
    amount: int


THRESHOLDS: dict[str, tuple[Callable[[Any], Any], list[tuple[int, int]]]] = {
    "greater": (lambda x: x.filter(lambda v: v > 80), [(80, 81)]),
    "at least": (lambda x: x.filter(lambda v: v >= 80), [(79, 80)]),
    "equal": (lambda x: x.filter(lambda v: v == 7), [(6, 7)]),
    "negative": (lambda x: x.filter(lambda v: v < -5), [(-6, -5)]),
    "far": (lambda x: x.filter(lambda v: v > 2**40), [(2**40, 2**40 + 1)]),
    "at the edge": (lambda x: x.filter(lambda v: v == 2**63 - 1), [(2**63 - 2, 2**63 - 1)]),
    "through a map": (lambda x: x.map(lambda v: v * 3 + 1).filter(lambda v: v > 60), [(19, 20)]),
    "through a quotient": (lambda x: x.map(lambda v: v // 10).filter(lambda v: v > 60), [(609, 610)]),
    "remainder": (lambda x: x.filter(lambda v: v % 3 == 1), [(0, 1)]),
    "two": (lambda x: x.filter(lambda v: 10 < v < 20), [(10, 11), (19, 20)]),
    "none": (lambda x: x.map(lambda v: v + 1), []),
    "of a state only": (lambda x: x.filter(x.cumulate(lambda n, v: n + 1, start=0) <= 3), []),
}


@pytest.mark.parametrize("which", THRESHOLDS)
def test_thresholds(which: str) -> None:
    build, expected = THRESHOLDS[which]
    system = build_system(pipeline(build, x=int).graph, domain_of(None))
    assert sorted({(t.last, t.first) for t in thresholds(system)}) == expected
    values = suggested(system)
    assert all(t.told_apart(values) for t in thresholds(system)) and all({a, b} <= set(values) for a, b in expected)


def test_a_suggestion_contains_the_constants() -> None:
    assert suggested(build_system(after(80).graph, domain_of(None))) == [0, 79, 80, 81]
    assert suggested(build_system(pipeline(lambda x: x + 1, x=int).graph, domain_of(None))) == [0, 1, 2, 3]


def test_live_over_exact_integers_is_decided_with_the_pipelines_own_thresholds() -> None:
    verdict = check.live(after(60))
    assert verdict.proved and verdict.notes == (
        "from every state out holds within 3 push(es): d.value = 61; d.value = 61; d.value = 61",
    )
    verdict = check.live(after(60), ints={0, 61})  # the counter has no bound, and matters only up to 3
    assert verdict.proved
    assert verdict.notes == (
        "from every state out holds within 3 push(es): d.value = 61; d.value = 61; d.value = 61",
        "for the events {0, 61} only",
    )


def test_live_over_exact_integers_is_refuted_where_it_ends() -> None:
    def step(dead: bool, v: int) -> tuple[bool, list[int]]:
        return (True, []) if dead or v > 1000 else (False, [v])

    verdict = check.live(pipeline(lambda x: x.task(step, initial=False), x=int))
    assert verdict.refuted and verdict.counterexample is not None
    assert len(verdict.counterexample.inputs) == 1 and verdict.counterexample.inputs[0]["x"] > 1000
    assert "never holds again" in verdict.notes[0]


def test_a_domain_that_misses_a_threshold_is_told() -> None:
    verdict = check.live(after(60), ints=range(4))
    assert verdict.refuted
    assert verdict.notes == (
        "for the events range(0, 4) only, where d.value > 60 is never so: with ints={0, 1, 2, 3, 59, 60, 61}, which "
        "has the pipeline's own thresholds, "
        "the verdict may differ",
    )
    assert verdict.notes[0] in str(verdict)
    verdict = check.holds(after(60), "G !out", ints=range(4))
    assert verdict.proved and "where d.value > 60 is never so" in verdict.notes[0]
    verdict = check.holds(after(60), "G out", ints=range(61, 64))
    assert verdict.refuted and verdict.notes == ()  # a run that breaks it is one, whatever else may come
    assert "d.value > 60 is always so" in check.holds(after(60), "AG EF out", ints=range(61, 64)).notes[-1]


def test_no_word_where_the_values_do_not_matter() -> None:
    assert check.live(pipeline(lambda x: x.decimate(3), x=int), ints=range(4)).notes == ()
    assert check.live(after(1), ints=Mod(4)).notes != ("for the events range(0, 4) only",)
    assert check.holds(
        pipeline(lambda x: x.filter(lambda v: v > 1), x=int), "G (out -> out.value > 1)", ints=range(4)
    ).notes == ("for the events range(0, 4) only",)


def test_records_have_thresholds_of_their_own() -> None:
    @pipeline
    def hot(r: Stream[Reading]) -> Stream[int]:
        return r.filter(lambda e: e.color == Color.RED and e.value > 75).map(lambda e: e.sensor)

    assert check.live(hot).proved
    verdict = check.live(hot, ints={0, 1})
    assert verdict.refuted and "r.value > 75 is never so" in verdict.notes[0]


@pytest.mark.parametrize("kind", [float, str])
def test_no_ints_are_proposed_for_what_is_none(kind: type) -> None:
    p = pipeline(lambda x: x.filter(lambda v: v == kind("1")), x=kind)
    verdict = check.holds(p, "G F out | F G !out | G (out -> X !out)")
    assert verdict.unknown
    assert (
        f"values of type {kind.__name__} cannot be listed: ask an invariant (G …), or make a bool, an enum or an int "
        "of them first" in verdict.notes[0]
    )
    assert "ints=" not in verdict.notes[0]


def test_a_state_that_cannot_be_listed_is_no_matter_of_ints_where_a_text_comes_in() -> None:
    for kind, advised in ((str, False), (int, True)):
        p = pipeline(lambda w: w.task(lambda d, v: ({**d, v: 1}, [len(d)]), {}, to=int), w=kind)
        with pytest.raises(NotTraceable) as refused:
            check.holds(p, "G (out -> out.value >= 0)")
        assert ("ints=" in str(refused.value)) == advised
        assert ("values of type str cannot be listed: make a bool" in str(refused.value)) == (not advised)


def test_the_advice_of_an_unknown_has_the_thresholds() -> None:
    p = pipeline(lambda x, y: merge(x.filter(lambda v: v > 60), y), x=int, y=int)
    verdict = check.holds(p, "G (out -> F (x & X x.value > 100))")
    assert verdict.unknown
    assert (
        "give a finite domain, such as ints={0, 59, 60, 61, 99, 100, 101}, which has the pipeline's own thresholds"
        in verdict.notes[0]
    )


def test_events_at_the_edge_of_64_bits_are_named_in_a_note():
    p = pipeline(lambda x: x.map(lambda v: v), x=int)
    verdict = check.holds(p, "G (x -> x.value <= 3)", ints={2**63 - 1})
    assert verdict.refuted
    assert all("range" not in note for note in verdict.notes)
    assert check.holds(p, "G (x -> x.value > -2)", ints={-(2**63)}).refuted


# A proof that holds because its premise never comes true says so; one that says something does not.

never = pipeline(lambda x: x.filter(lambda v: v * v < 0), x=int)
hot = pipeline(lambda x: x.filter(lambda v: v > 80), x=int)
late_vacuity = pipeline(lambda x: x.trim(12) + x.decimate(1), x=int)  # its first output needs a queue of 12


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
    assert word(check.holds(late_vacuity, "G (out -> x)")) == ""
    assert "within queues of 3 event(s)" in word(check.holds(late_vacuity, "G (out -> !overflow)", queue=3))


def test_a_premise_with_an_assumption_of_failing() -> None:
    assert "failed never holds" in word(check.holds(hot, "G (failed -> X out)"))


def test_pipelines_that_never_speak() -> None:
    other = pipeline(lambda x: x.filter(lambda v: v * v + 1 < 0), x=int)
    assert "emits anything" in word(check.equivalent(never, other))
    assert "emits anything" in word(check.equivalent(never, other, ints=range(5)))
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
    assert "never emits anything" in word(verdict) and "checked" in verdict.details
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
