"""The transition system does what the interpreter does, step by step, on random pipelines."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from pellucid import IntOverflow, Mod, Pipeline, StepError, UsageError, check, pipeline
from pellucid.check.decide import ending
from pellucid.check.formula import resolve
from pellucid.check.formula.parse import parse
from pellucid.check.system.build import System, build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.tracking import Track
from pellucid.errors import PellucidError
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.expr.evaluate import evaluate
from tests.check.reference import decide_by_reference
from tests.engine.kernel.test_kernel_random import by_interpreter
from tests.seeds import seeds
from tests.strategies import Seeded, make_input, make_pipeline


def zero(t: Any) -> Any:
    return getattr(t, "members", [None])[0] or {"bool": False, "int": 0, "float": 0.0, "str": ""}[str(t)]


class TooLongError(Exception):
    """A queue is longer than the system can tell."""


def by_system(
    p: Pipeline, s: System, pushes: list[dict[str, Any]]
) -> tuple[dict[str, list[Any]], dict[str, list[int]], int | None]:
    state = [v.start for v in s.state]
    values: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    places: dict[str, list[int]] = {name: [] for name in values}
    for i, push in enumerate(pushes):
        leaves = list(state)
        for name, t in s.sources:
            leaves += [name in push, *(t.flatten(push[name]) if name in push else [zero(k) for _, k in t.leaves()])]
        memo: dict[int, Any] = {}
        if evaluate(s.failed, leaves, memo):
            return values, places, i
        if evaluate(s.overflow, leaves, memo):
            raise TooLongError(i)
        for name in values:
            t, slots = s.streams[name]
            for slot in slots:
                if evaluate(slot.present, leaves, memo):
                    values[name].append(t.unflatten([evaluate(e, leaves, memo) for e in slot.leaves]))
                    places[name].append(i)
        state = [evaluate(e, leaves, memo) for e in s.next]
    return values, places, None


FOUND = [25140000099, 25140000109, 743000016, 743000103]  # queues longer than the bound; a window's queue without room


@pytest.mark.seeded
@pytest.mark.parametrize("seed", [*seeds(120), *FOUND])
def test_the_system_is_the_pipeline(seed: int) -> None:
    c = Seeded(seed)
    p = make_pipeline(c, max_steps=7, keys=seed % 2 == 1)
    compare(p, make_input(c, p, 8))


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(60))
def test_keys_that_are_given_up(seed: int) -> None:
    c = Seeded(7000 + seed)
    while True:
        p = make_pipeline(c, max_steps=6, forgets=True)
        if any(by is not None for by in p.graph.forgotten_by):
            break
    try:
        build_system(p.graph, Domain(), queue=12, track=Track(lanes=10))
    except UsageError:
        with pytest.raises(UsageError, match="checks do not follow forget"):
            build_system(p.graph, Domain(), queue=12, track=Track(lanes=10))
        return
    compare(p, make_input(c, p, 12))


def compare(p: Pipeline, pushes: list[dict[str, Any]]) -> None:
    values, places, _, failure = by_interpreter(p, pushes)
    if failure is not None and failure[0] is IntOverflow:
        return  # checks use exact integers
    try:
        got = by_system(p, build_system(p.graph, Domain(), queue=12, track=Track(lanes=10)), pushes)
    except TooLongError:  # and it says so: longer queues are not among what this system does
        run, longest = Interpreter(p.graph), 0
        for push in pushes:
            try:
                run.push(push)
            except StepError:
                break
            longest = max([longest, *map(len, run.queues.values())])
        assert longest > 4  # what waits within a push is more than what waits after it, but not by much
        queue = 60 + 2 * longest
        got = by_system(p, build_system(p.graph, Domain(), queue=queue, track=Track(lanes=10)), pushes)
    if failure is not None:
        assert got[2] == failure[2]
    else:
        assert (repr(got[0]), got[1], got[2]) == (repr(values), places, None)


def test_a_constant_that_is_not_there_modulo_n() -> None:
    p = pipeline(lambda x: x.map(lambda v: v * 2, id="double"), x=int)
    with pytest.raises(
        UsageError, match=r"step 'double' .* the constant 2 is not among the integers modulo 2: use Mod\(3\)"
    ):
        build_system(p.graph, domain_of(Mod(2)))


def test_bad_domains_and_queues() -> None:
    p = pipeline(lambda x: x.trim(1) - x, x=int)
    with pytest.raises(UsageError, match="has no queue 'nothing': it has apply-"):
        build_system(p.graph, Domain(), {"nothing": 2})
    with pytest.raises(UsageError, match=r"Mod\(N\) wants a whole number N of at least 2, found 1"):
        Mod(1)
    with pytest.raises(
        UsageError, match=r"ints= takes Mod\(N\), range\(lo, hi\) or a set of whole numbers, found 'many'"
    ):
        domain_of("many")


def test_a_constant_on_a_branch_is_reduced() -> None:
    p = pipeline(lambda x: x.map(lambda v: -1 if v > 0 else v), x=int)
    assert check.holds(p, "AG (out -> out.value >= 0)", ints=Mod(3), warn=False).proved
    pairs = pipeline(lambda x: x.task(lambda s, v: (v, [s, v]), initial=0), x=int)
    assert check.live(pairs, ints=Mod(2)).proved  # the number of a task's events is no integer modulo 2


# Assumptions: every engine speaks of the runs that satisfy them, of those only, and says if there are none.


class Tick(NamedTuple):
    ts: int
    level: int


total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
above = pipeline(lambda x: x.filter(lambda v: v > 80), x=int)
step = pipeline(lambda x: x.trim(1) - x, x=int)
gap = pipeline(lambda x: x.trim(1).map(lambda t: t.ts) - x.map(lambda t: t.ts), x=Tick)
both = pipeline(lambda x, y: x + y, x=int, y=int)
small = pipeline(lambda x: x.filter(lambda v: v > 1), x=int)


@pytest.mark.parametrize(
    ("p", "formula", "assume", "status"),
    [
        (gap, "G (out -> out.value >= 0)", "x.value.ts >= Y x.value.ts", "proved"),
        # the same in Python
        pytest.param(gap, "G (out -> out.value >= 0)", lambda a, b: b.ts >= a.ts, "proved", marks=pytest.mark.long),
        (gap, "G (out -> out.value > 0)", lambda a, b: b.ts >= a.ts, "refuted"),
        (gap, "G (out -> out.value >= 0)", lambda t: t.ts >= 0, "refuted"),
        (total, "G (out -> out.value >= 0)", "x.value >= 0", "proved"),
        (total, "G (out -> out.value >= 0)", lambda v: v >= -1, "refuted"),
        (total, "G (Y O out & out -> out.value >= Y out.value)", {"x": lambda v: v >= 0}, "proved"),
        (above, "AG EF out", "x.value < 50", "refuted"),
        (above, "AG EF out", "x.value < 90", "proved"),
        (above, "AG EF out", "x.value >= Y x.value", "proved"),
        (above, "AG EF out", "x.value <= Y x.value", "refuted"),
        (above, "G (out -> X !out)", "x -> !Y x", "proved"),
        (above, "G (out -> X !out)", "x.value > 3", "refuted"),
        (both, "G (x -> out)", "x <-> y", "proved"),
        (both, "G (x -> out)", ["y -> x", "x.value > 0 & y.value < 3"], "refuted"),
    ],
)
def test_over_exact_integers(p, formula, assume, status):
    verdict = check.holds(p, formula, assume=assume)
    assert verdict.status == status, verdict
    assert ", assuming " in verdict.question


PIPELINES = [total, small, step]
ASSUMED = [
    "x.value >= Y x.value",
    "x",
    "x & x.value > Y x.value",
    "x -> !Y x",
    "x.value != 1",
    "x & x.value > 9",
    "x.value < Y x.value | x.value = 2",
    "x.value = 0 | Y x",
    "O x.value = 2 -> x",
]
LIKE_OTHERS = ("x.value != 1", "x.value = 0 | Y x")  # of one event, or of two, as the first and the last are
FORMULAS = [
    "G (out -> out.value > 0)",
    "AG EF out",
    "G F out",
    "AG (out -> AX out)",
    "EF (out & EX out)",
    "F G !out",
    "G (x -> x.value < 2)",
]


@pytest.mark.parametrize(
    "assumed", [pytest.param(a, marks=pytest.mark.long if a in LIKE_OTHERS else ()) for a in ASSUMED]
)
def test_engines_agree_with_the_reference(assumed):
    for p in PIPELINES:
        domain = domain_of(Mod(3), assumed)
        system = build_system(p.graph, domain, 1)
        none = ending(system) == "none"
        for text in FORMULAS:
            verdict = check.holds(p, text, ints=Mod(3), queue=1, assume=assumed, warn=False)
            if none:
                assert verdict.unknown and any("no run satisfies" in note for note in verdict.notes), verdict.notes
                continue
            resolved = resolve(parse(text), system)
            if verdict.unknown:  # a beginning that refutes it, of which it is not known whether it goes on
                assert ending(system) == "some"
            elif "F" in text and "E" not in text:
                if verdict.proved:  # the reference tries short lassos
                    assert decide_by_reference(system, resolved)
            else:
                assert verdict.proved == decide_by_reference(system, resolved), (p.graph.name, text, assumed, verdict)
            if verdict.counterexample is not None:
                assert satisfied(assumed, verdict.counterexample.inputs)


def satisfied(assumed, pushes):
    """The assumptions above, in plain Python."""
    before, events = None, []
    for i, push in enumerate(pushes):
        here, came, v = "x" in push, i > 0 and "x" in pushes[i - 1], push.get("x")
        first = before is None
        sure = {
            "x.value >= Y x.value": not here or first or v >= before,
            "x": here,
            "x & x.value > Y x.value": here and (first or v > before),
            "x -> !Y x": not here or not came,
            "x.value != 1": not here or v != 1,
            "x & x.value > 9": here and v > 9,
            "x.value < Y x.value | x.value = 2": not here or first or v < before or v == 2,
            "x.value = 0 | Y x": not here or v == 0 or came,
            "O x.value = 2 -> x": here or 2 not in events,
        }[assumed]
        if not sure:
            return False
        if here:
            before = v
            events.append(v)
    return True


def test_that_nothing_satisfies_it_is_said():
    for p, assume in (
        (total, "x & x.value > 3"),
        (small, "x & x.value > Y x.value"),
        (total, lambda v: v > 9),
        (small, "x & !x"),
    ):
        verdict = check.holds(p, "G (out -> out.value >= 0)", ints=range(3), assume=assume)
        if assume in ("x & x.value > 3", "x & x.value > Y x.value", "x & !x"):
            assert verdict.unknown and "no run satisfies what is assumed" in verdict.notes[0]
        else:  # silence is a run
            assert verdict.proved
    over_all = check.holds(
        total, "G (out -> out.value >= 0)", assume="x & x.value > Y x.value & x.value < 9 & x.value > 0"
    )
    assert over_all.unknown and "no run satisfies" in over_all.notes[0]


def test_every_question_takes_it():
    plain, magnitude = pipeline(lambda x: x.map(lambda v: v), x=int), pipeline(lambda x: x.map(lambda v: abs(v)), x=int)
    assert check.equivalent(plain, magnitude, assume="x.value >= 0").proved
    assert check.equivalent(plain, magnitude, assume="x.value >= -1").counterexample.inputs == [{"x": -1}]
    assert check.equivalent(plain, magnitude, how="sequence", assume="x.value >= 0").proved
    some, more = pipeline(lambda x: x > 5, x=int), pipeline(lambda x: x * x > 5, x=int)
    assert check.implies(more, some, assume="x.value > 5 & x.value < 1000").proved and check.implies(more, some).refuted
    assert check.implies(more, some, assume="x.value > 5").refuted  # x * x leaves 64 bits
    assert check.live(above, assume="x.value < 50").refuted
    assert check.live(pipeline(lambda x: x.decimate(3), x=int), within=3, assume="x.value > 80").proved
    late = check.live(pipeline(lambda x: x.decimate(3), x=int), within=2, assume="x.value > Y x.value + 1")
    assert late.refuted and all(
        b["x"] > a["x"] + 1 for a, b in zip(late.counterexample.inputs, late.counterexample.inputs[1:], strict=False)
    )
    assert list(check.buffers(both, assume="x <-> y").details["bounds"].values()) == [0, 0]
    dead = check.dead_paths(
        pipeline(lambda x: x.filter(lambda v: v > 0, id="positive").trim(1), x=int), assume="x.value > 0"
    )
    assert list(dead.details["dead"]) == ["positive"]


@pytest.mark.parametrize(
    ("assume", "said"),
    [
        (3, "assume= takes a formula about sources"),
        ("X x", "looks ahead"),
        ("out.value > 3", "has no source 'out'"),
        ("!failed", "not of failed"),
        ({"z": lambda v: v}, "has no source 'z'"),
        (lambda a, b, c: True, "takes 3"),
        (lambda v: v > "a", "assume="),
        ({"x": 3}, "assume= takes"),
        ("x.value >", "expected a value"),
    ],
)
def test_mistakes(assume, said):
    with pytest.raises(PellucidError, match=said):
        check.holds(total, "G out", assume=assume)


def test_a_predicate_needs_a_source_to_be_about():
    with pytest.raises(PellucidError, match="has the sources x, y: say whose events"):
        check.holds(both, "G out", assume=lambda v: v > 0)


def test_the_command_line(tmp_path):
    from pellucid.internal.cli.main import cli

    file = tmp_path / "steps.py"
    file.write_text(
        "from pellucid import Stream, pipeline\n\n\n@pipeline\ndef step(x: Stream[int]) -> Stream[int]:\n    return "
        "x.trim(1) - x\n"
    )
    ask = ["check", f"{file}:step", "--property", "G (out -> out.value >= 0)"]
    assert CliRunner().invoke(cli, ask).exit_code == 1
    done = CliRunner().invoke(cli, [*ask, "--assume", "x.value >= Y x.value"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(cli, [*ask, "--assume", "out.value > 3"]).exit_code == 2


def test_nothing_is_proved_where_no_run_satisfies_it_not_even_of_one_graph():
    p = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    verdict = check.equivalent(p, p, ints=range(3), assume="x & x.value > 9")
    assert verdict.unknown
    assert "no run satisfies" in verdict.notes[0]
    assert check.equivalent(p, p, ints=range(3), assume="x & x.value > 1").proved


def test_about_a_source_with_the_name_of_the_output():
    p = pipeline(lambda out: out.map(lambda v: v + 1), out=int)
    assert check.holds(p, 'G (output("out") -> output("out").value > 3)', assume='source("out").value > 2').proved
    assert check.holds(p, 'G (output("out") -> output("out").value > 3)', assume='source("out").value > 1').refuted
    assert check.holds(
        p, 'G (output("out") -> output("out").value > 3)', assume='source("out").value >= Y source("out").value'
    ).refuted
