"""The judge of verdicts: that it means what Pellucid does when it runs, that its formulas mean what they should, and
that it notices what is wrong."""

from __future__ import annotations

import random

import pytest

from pellucid import errors
from tests.judge import verdict_meaning as meaning
from tests.judge.verdict_cases import NAMES, Case
from tests.judge.verdict_meaning import Graph, Seen, ctl, ltl_violated, on_finite, on_lasso, run
from tests.judge.verdict_pipelines import PRELUDE, Draw, Style
from tests.judge.verdict_truth import random_runs
from tests.judge.verdicts import Run
from tests.seeds import seeds


def built(case: Case) -> dict:
    """The names that a case defines."""
    space: dict = {}
    exec(compile(PRELUDE, "<prelude>", "exec"), space)
    space.update(NAMES, Color=meaning.Color, Pair=meaning.Pair, Odd=meaning.Odd)
    exec(compile(case.source(), "<case>", "exec"), space)
    return space


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(150, 500))
def test_a_pipeline_means_what_it_does(seed):
    r = random.Random(seed)
    draw = Draw(r, Style(finite=seed % 3 > 0, keys=seed % 2 == 0, opaque=seed % 5 == 0, big=seed % 4 == 0))
    spec = draw.spec()
    try:
        p = built(Case("live", (spec,)))["p"]
    except errors.PipelineError as error:
        pytest.skip(str(error)[:100])
    silent = NAMES["silent"]
    for pushes in random_runs(spec, r, None, 6, [7]):
        seen = run(spec, pushes)
        data = {name: [e.get(name, silent) for e in pushes] for name, _ in spec.sources}
        try:
            out = p.trace(**data)
        except errors.StepError:
            assert seen[-1].failed, (pushes, seen)
            continue
        assert not seen[-1].failed, (pushes, out)
        mine = [[list(s.of(at)) for s in seen] for _, at in spec.outputs]
        told = [[now[name] for now in out] if isinstance(out[0], dict) else out for name, _ in spec.outputs]
        assert repr(told) == repr(mine), (pushes, told, mine)


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(40))
def test_every_verdict_is_true(seed):
    run = Run(quiet=True)
    run.seed(seed)
    assert run.found == [], run.found[0][2]


P, Q = ("atom", ("present", (0, "p"))), ("atom", ("present", (1, "q")))


def word(text: str) -> list[Seen]:
    """Pushes from letters: ``p``, ``q``, ``b`` (both), ``-``."""
    return [Seen(((1,) if c in "pb" else (), (1,) if c in "qb" else ())) for c in text]


@pytest.mark.parametrize(
    ("f", "prefix", "loop", "so"),
    [
        (("G", P), "p", "p", True),
        (("G", P), "pp", "p-", False),
        (("G", ("F", P)), "--", "-p", True),
        (("F", ("G", P)), "--", "-p", False),
        (("U", P, Q), "pp", "q", True),
        (("U", P, Q), "pp", "p", False),
        (("W", P, Q), "pp", "p", True),
        (("R", Q, P), "ppb", "-", True),
        (("R", Q, P), "ppq", "-", False),
        (("X", ("X", Q)), "--", "q", True),
        (("G", ("->", Q, ("Y", P))), "-", "pq", True),
        (("G", ("->", Q, ("Y", P))), "q", "p", False),
        (("G", ("->", Q, ("O", P))), "p--", "-q", True),
        (("F", ("H", P)), "-", "p", False),
        (("G", ("F", ("S", P, Q))), "-", "qpp", True),
        (("F", ("G", ("S", P, Q))), "q", "p", True),
        (("F", ("G", ("S", P, Q))), "q-", "p", False),
    ],
)
def test_linear_formulas_on_a_run_that_repeats(f, prefix, loop, so):
    assert on_lasso(f, word(prefix + loop), len(prefix)) == so
    assert on_lasso(("!", f), word(prefix + loop), len(prefix)) == (not so)


@pytest.mark.parametrize(
    ("f", "pushes", "so"),
    [
        (("X", P), "p", False),
        (("!", ("X", P)), "p", True),
        (("G", P), "pp", True),
        (("F", Q), "ppq", True),
        (("U", P, Q), "pp", False),
        (("G", ("->", P, ("X", Q))), "pqp", False),
    ],
)
def test_linear_formulas_on_a_run_that_ends(f, pushes, so):
    assert on_finite(f, word(pushes)) == so


def test_branching_formulas_and_what_was_not_explored():
    # 0 (p) → 0, 1;  1 (q) → 1
    labels = [(True, False), (False, True)]
    whole = Graph(labels, [[0, 1], [1]], [True, True], [0], [(None, {}), (0, {})])
    part = Graph(labels, [[0, 1], []], [True, False], [0], [(None, {}), (0, {})])

    def ask(f, graph):
        return ctl(("&", ("|", P, ("!", P)), ("&", ("|", Q, ("!", Q)), f)), graph)

    for f, known, partly in [
        (("EF", Q), True, True),
        (("AF", Q), False, False),
        (("EG", P), True, True),
        (("AG", ("EF", P)), False, None),
        (("AG", ("EF", Q)), True, None),
        (("EX", ("EX", P)), True, True),
        (("EX", ("AX", Q)), True, None),
        (("AU", P, Q), False, False),
        (("EU", P, Q), True, True),
        (("AG", ("->", Q, ("AG", Q))), True, None),
    ]:
        assert ask(f, whole) == known, f
        assert ask(f, part) == partly, f
    assert ltl_violated(("G", P), whole)[0]
    assert not ltl_violated(("|", ("G", ("|", P, Q)), ("F", Q)), whole)[0]
