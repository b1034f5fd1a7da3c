"""The judge of verdicts about rich types: what it asks in every run, and that it notices what is wrong."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.judge.rich import judge as rich
from tests.judge.rich import meaning as rich_meaning
from tests.judge.rich.meaning import Pipe, Step, run
from tests.judge.rich.questions import Atom, Term, all_pushes, of_formula, of_sequence, of_two
from tests.seeds import seeds


def asked(seed: int) -> rich.Run:
    """All questions of one seed."""
    found = rich.Run()
    found.seed(seed)
    return found


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(12, 8))
def test_verdicts_about_rich_types_are_true(seed: int) -> None:
    assert asked(seed).found == []


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(150, 9000))
def test_more_verdicts_about_rich_types_are_true(seed: int) -> None:
    assert asked(seed).found == []


def answered(
    status: str, pushes: list[dict[str, object]] | None = None, notes: tuple[str, ...] = ()
) -> SimpleNamespace:
    """A verdict that somebody made up."""
    shown = None if pushes is None else SimpleNamespace(inputs=pushes, loop=None, replay=lambda: True)
    return SimpleNamespace(
        proved=status == "proved", refuted=status == "refuted", counterexample=shown, notes=notes, details={}
    )


def test_the_judge_notices_what_is_wrong() -> None:
    source = (
        "def p_f0(e: Sale) -> int:\n    return 1 if e.price is None else e.price\n\n\n"
        "p = pipeline(lambda x: x.map(p_f0, id='s0'), x=Sale)\n"
    )
    space = rich.built(source)
    pipe = Pipe((("x", "Sale"),), (Step("map", (0,), "int", "s0", f=space["p_f0"]),), 1)
    out = Term("value", 1, "out")
    formula = ("G", ("->", ("atom", Atom("present", out)), ("atom", Atom("all", out, "!=", Term("lit", lit=1)))))
    case = rich.Case("holds", source, (), (pipe,), space, (5, 6), "range(5, 7)", formula)
    assert rich.judge(case).status == "refuted" and rich.judge(case).wrong == ""
    missing, there = space["Sale"](None, None), space["Sale"](5, None)
    for verdict, words in [
        (answered("proved"), "proved, but a run of 1 pushes"),
        (answered("refuted"), "without a counterexample"),
        (answered("refuted", [{"x": there}]), "shows nothing"),
        (answered("refuted", [{"x": space["Sale"](1, None)}]), "cannot come"),
        (answered("refuted", [{"x": there}, {"x": missing}]), "2 pushes where the shortest has 1"),
        (answered("unknown", notes=("this is a fault of Pellucid: please report it",)), "to blame"),
        (answered("refuted", [{"x": missing}]), ""),
    ]:
        said = replace(case, space={**space, "check": SimpleNamespace(holds=lambda *_, v=verdict, **__: v)})
        wrong = rich.judge(said).wrong
        assert words in wrong and bool(words) == bool(wrong)
    true = replace(
        case, formula=("G", ("->", ("atom", Atom("present", out)), ("atom", Atom("all", out, ">", Term("lit", lit=0)))))
    )
    said = replace(
        true, space={**space, "check": SimpleNamespace(holds=lambda *_, **__: answered("refuted", [{"x": there}]))}
    )
    assert "all runs were tried" in rich.judge(said).wrong
    assert rich.wrong_runs(case) == ""
    assert "is right" in rich.wrong_runs(
        replace(case, pipes=(Pipe(pipe.sources, (replace(pipe.steps[0], f=lambda e: 3),), 1),))
    )


def test_keys_that_are_given_up_and_two_sequences() -> None:
    """What the judge itself takes for true, written out."""
    count = lambda k: Pipe(
        (("x", "int"),),
        (
            Step("key_by", (0,), "int", "k", 1, f=lambda e: e),
            Step("forget", (1,), "int", "g", 2, k=k),
            Step("cumulate", (2,), "int", "n", 2, f=lambda n, e: n + 1, start=0),
        ),
        3,
    )
    outs = lambda pipe, events: [seen.streams[pipe.out] for seen in run(pipe, [{"x": e} for e in events])]
    assert outs(count(2), [1, 2, 1, 3, 2, 1]) == [(1,), (1,), (2,), (1,), (1,), (1,)]
    assert outs(count(3), [1, 2, 1, 3, 2, 1]) == [(1,), (1,), (2,), (1,), (2,), (3,)]
    same = Pipe((("x", "bool"),), (Step("map", (0,), "bool", "a", f=lambda e: e),), 1)
    late = Pipe((("x", "bool"),), (Step("trim", (0,), "bool", "a", k=1),), 1)
    pair = Pipe((("x", "bool"),), (Step("lag", (0,), "bool", "a", k=1, f=lambda p: p[1]),), 1)
    inputs = all_pushes(same, [])
    assert inputs is not None
    assert of_sequence((same, pair), inputs, 1000).so is True  # the same, one event later
    assert of_sequence((same, late), inputs, 1000).so is False
    assert (of_two("step", (same, pair), inputs, 1000).so, of_two("step", (late, late), inputs, 1000).so) == (
        False,
        True,
    )
    shown = ("atom", Atom("present", Term("value", 1, "out")))
    assert of_formula(late, ("AG", ("EF", shown)), inputs, 1000).so is True
    assert of_formula(late, ("F", shown), inputs, 1000).so is False
    assert rich_meaning.waiting(late, rich_meaning.begin(late)) == {}
