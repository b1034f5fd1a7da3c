"""Every kind of processor in every back-end: each does what the interpreter does, or is declared to refuse it.

A kind without an example here, or one that a back-end has never heard of, fails: `test_a_planted_kind` plants one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from pellucid import Mod, Pipeline, Stream, Windowed, apply, as_of, iterate, join, lookup, merge, pipeline
from pellucid.check.functions.arguments import tables_of
from pellucid.check.system.build import build_system
from pellucid.check.system.domains import Domain, domain_of
from pellucid.check.system.tracking import Track
from pellucid.errors import NotNamed, PellucidError
from pellucid.failures.model.tasks import tasks_of, thaw
from pellucid.internal.draw.graph import draw
from pellucid.internal.engine.interpreter import Interpreter
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.export.smv import export
from pellucid.internal.expr.evaluate import evaluate
from pellucid.internal.expr.types import INT, Type
from pellucid.internal.graph.model import remembering
from pellucid.internal.graph.processors import PROCESSORS, Processor
from pellucid.spark.native import slots
from pellucid.spark.plan import choose
from pellucid.spark.step import Runner
from pellucid.spark.timed import TimedRunner
from tests.check.system.test_system import by_system
from tests.spark.test_step import frame_of
from tests.spark.test_step import job_of as keyed_job
from tests.spark.worlds import Row, expected, flat, found


@dataclass(frozen=True)
class Example:
    """A pipeline of one step of the kind (and what it needs), events for it, and what must come out."""

    build: Callable[..., Any]
    out: list[Any]
    x: tuple[int, ...] = (2, 5, 1, 4)
    y: tuple[int, ...] | None = None

    @property
    def pipeline(self) -> Pipeline:
        return pipeline(self.build, x=int, y=int) if self.y is not None else pipeline(self.build, x=int)

    @property
    def pushes(self) -> list[dict[str, Any]]:
        second = self.y or ()
        return [{"x": v} | ({"y": second[i]} if i < len(second) else {}) for i, v in enumerate(self.x)]


def two(s: int, v: int) -> tuple[int, list[int]]:
    return s + v, [s, v] if v > 2 else []


def same(v: int) -> int:
    return v


def counted(w: Stream[int]) -> Stream[int]:
    return w.cumulate(lambda n, _: n + 1, start=0)


def parity(x: Stream[int]) -> Stream[int]:
    return x.key_by(lambda v: v % 2)


EXAMPLES = {
    "iterate": Example(
        lambda x: iterate(x, lambda v: (v.filter(lambda n: n > 2).map(lambda n: n - 2), v)), [2, 5, 3, 1, 1, 4, 2]
    ),
    "source": Example(lambda x: x, [2, 5, 1, 4]),
    "map": Example(lambda x: x.map(lambda v: v + 1), [3, 6, 2, 5]),
    "filter": Example(lambda x: x.filter(lambda v: v > 1), [2, 5, 4]),
    "filter_by": Example(lambda x, y: x.filter(y > 1), [2, 1], y=(3, 0, 2)),
    "apply": Example(lambda x, y: apply(lambda a, b: a - b, x, y), [-1, 5, -1], y=(3, 0, 2)),
    "cumulate": Example(lambda x: x.cumulate(lambda t, v: t + v, start=1), [3, 8, 9, 13]),
    "decimate": Example(lambda x: x.decimate(3), [2, 4]),
    "trim": Example(lambda x: x.trim(3), [4]),
    "take": Example(lambda x: x.take(3), [2, 5, 1]),
    "lag": Example(lambda x: x.lag(2), [(1, 2), (4, 5)]),
    "window": Example(lambda x: x.window(2, lambda w: w.cumulate(lambda t, v: t + v, start=0)), [7, 6, 5]),
    "task": Example(lambda x: x.task(two, initial=1), [3, 5, 9, 4]),
    "explode": Example(lambda x: x.explode(lambda v: [v, -v] if v > 2 else []), [5, -5, 4, -4]),
    "merge": Example(lambda x, y: merge(x, y), [2, 3, 5, 0, 1, 4], y=(3, 0)),
    "key_by": Example(lambda x: x.key_by(lambda v: v % 2), [2, 5, 1, 4]),
    "forget": Example(lambda x: x.key_by(lambda v: v % 2).forget(after=2), [2, 5, 1, 4]),
    "at": Example(lambda x: x.at(lambda v: v), [2, 5, 1, 4]),
    "tumbling": Example(lambda x: x.at(same, lateness=9).tumbling(3, counted), [Windowed(0, 3, 2), Windowed(3, 6, 2)]),
    "sliding": Example(
        lambda x: x.at(same, lateness=9).sliding(4, 2, counted),
        [Windowed(-2, 2, 1), Windowed(0, 4, 2), Windowed(2, 6, 3), Windowed(4, 8, 2)],
    ),
    "session": Example(lambda x: x.at(same, lateness=9).session(1, counted), [Windowed(1, 4, 2), Windowed(4, 7, 2)]),
    "join": Example(
        lambda x, y: join(x.at(same, lateness=9), y.at(same, lateness=9), within=1),
        [(2, 3), (1, 0), (1, 2), (2, 2), (4, 3)],
        y=(3, 0, 2),
    ),
    "as_of": Example(
        lambda x, y: as_of(x.at(same, lateness=9), y.at(same, lateness=9)),
        [(1, 0), (2, 2), (4, 3), (5, 3)],
        y=(3, 0, 2),
    ),
    "lookup": Example(
        lambda x, y: lookup(parity(x.at(same, lateness=9)), parity(y.at(same, lateness=9, idle=timedelta(seconds=1)))),
        [(1, None), (2, 2), (4, 2), (5, 3)],
        y=(3, 0, 2),
    ),
    "dedup": Example(lambda x: x.at(same, lateness=9).dedup(by=lambda v: v % 2, within=3), [1, 2, 5]),
    "timers": Example(
        lambda x: x.at(same, lateness=9).task(
            lambda s, v: (s + v, [s], [v + 2]), 0, on_time=lambda s, t: (s, [-t], [])
        ),
        [0, 1, -3, 3, -4, 7, -6, -7],
    ),
    "late": Example(lambda x: x.at(same, lateness=9).tumbling(3, counted).late, []),
    "early": Example(lambda x: x.at(same, lateness=9).tumbling(3, lambda w: w.trim(9), early="event").early, []),
}

TIMED = [kind for kind, processor in PROCESSORS.items() if processor.timed]

# ---------------------------------------------------------------- the back-ends


def by_kernel(e: Example, mode: str = "python") -> list[Any]:
    engine = Engine(e.pipeline.graph, mode=mode)
    names = [engine.graph.nodes[i].id for i in engine.graph.sources]
    return [v for push in e.pushes for v in engine.push(**{n: [push[n]] if n in push else [] for n in names})]


def by_interpreter_alone(e: Example) -> list[Any]:
    run = Interpreter(e.pipeline.graph)
    return [v for push in e.pushes for v in run.push(push)["out"]]


def by_definition(e: Example) -> list[Any]:
    """What the table says, event by event, and not what the interpreter has methods for."""

    class Defined(Interpreter):
        STEPS: ClassVar = {kind: Interpreter.STEPS[kind] for kind in ("window", "merge", "key_by", "forget")}

    run = Defined(e.pipeline.graph)
    return [v for push in e.pushes for v in run.push(push)["out"]]


def by_call(e: Example) -> list[Any]:
    given = [list(e.x)] if e.y is None else [list(e.x), list(e.y)]
    found: list[Any] = e.pipeline(*given, short="silent")
    traced = [event for push in e.pipeline.trace(*given, short="silent") for event in push]
    assert sorted(map(repr, traced)) == sorted(map(repr, found))  # by event time all come at the end
    return found


def by_check(e: Example) -> list[Any]:
    system = build_system(e.pipeline.graph, Domain(), queue=8, track=Track(lanes=4))
    return by_system(e.pipeline, system, e.pushes)[0]["out"]


def by_arguments(e: Example) -> list[Any]:
    """A function that cannot be traced, behind the step, is called on all that comes."""
    given = {name: [(v,) for v in events] for name, events in (("x", e.x), ("y", e.y)) if events is not None}
    p = pipeline(
        eval(f"lambda {', '.join(given)}: build({', '.join(given)}).map(same, to=str, id='same')",
             {"build": e.build, "same": lambda v: repr(v)}),
        **dict.fromkeys(given, int),
    )  # fmt: skip
    called = {args for args, _ in tables_of(p.graph, domain_of(range(9)), given)(p.graph["same"].fn).rows.values()}
    t = p.graph.nodes[p.graph["same"].inputs[0]].type
    return [v for v in e.out if tuple(t.flatten(v)) in called]


def by_smv(e: Example) -> list[Any]:
    """There need not be a NuSMV here: what is asked is the module, and that all of it is wired."""
    domain: Any = Mod(9) if e is EXAMPLES["cumulate"] else range(6)  # a sum grows beyond every range
    text = export(e.pipeline.graph, domain=domain, queue=2, properties=["AG EF out"])
    assert "MODULE main" in text and text.count("MODULE") > (e is not EXAMPLES["source"])
    return e.out


def by_native(e: Example) -> list[Any]:
    graph = e.pipeline.graph
    out = []
    for v in e.x:
        for slot in slots(graph, graph.outputs[0][1]):
            if evaluate(slot.when, [v]):
                out.append(graph.nodes[graph.outputs[0][1]].type.unflatten([evaluate(x, [v]) for x in slot.leaves]))
    return out


def by_keys(e: Example) -> list[Any]:
    """A batch of Spark's, without Spark: the rows of two keys, each as the pipeline alone."""
    rows = [Row(key, i, push) for i, push in enumerate(e.pushes) for key in (1, 2)]
    if e.pipeline.graph.timed:
        return by_timed_keys(e, rows)
    job = keyed_job(e.pipeline, INT, tagged=False)
    table = frame_of(e.pipeline, job, sorted(rows, key=lambda r: (r.key, r.seq)))
    got = found(e.pipeline, [row for batch in Runner(job).push(table).out for row in batch.to_pylist()])
    assert got == expected(e.pipeline, rows)
    return e.out


def by_timed_keys(e: Example, rows: list[Row]) -> list[Any]:
    """The same by event time: each key has the events of the pipeline alone, as rows."""
    job = keyed_job(e.pipeline, INT, tagged=False)
    table = frame_of(e.pipeline, job, rows)
    job = replace(job, ordered=False, nth=None, kept=(("user", "k0"),), fields=replace(job.fields, order=()))
    runner = TimedRunner(job)
    out = [*runner.take(table.slice(0, 3)), *runner.take(table.slice(3)), *runner.finish()]
    got = [row for batch in out for row in batch.to_pylist()]
    t = e.pipeline.graph.nodes[e.pipeline.graph.outputs[0][1]].type
    for key in (1, 2):
        mine = found(e.pipeline, [row | {"seq": 0} for row in got if row["user"] == key])
        want = sorted(((key, 0, "out", 0, flat(t, event)) for event in e.out), key=repr)
        assert [row[:4] for row in mine] == [row[:4] for row in want]
        assert [[v for v in row[4] if v is not None] for row in mine] == [_there(t, row[4]) for row in want]
    return e.out


def _there(t: Type, leaves: tuple[Any, ...]) -> list[Any]:
    """Leaves as a row has them: none of a value that is missing, and no word about whether it is."""
    kinds, out, at = [kind for _, kind in t.columns()], [], 0
    for kind in kinds:
        own = leaves[at : at + kind.width]
        at += kind.width
        out += [own[0]] if kind.width == 1 else [own[1]] if own[0] else []
    return out


def by_tasks(e: Example) -> list[Any]:
    """The one task that the failure checker makes of all steps, event by event."""
    made = tasks_of(e.pipeline, fuse=True)
    ((name, task),) = made.tasks.items()
    state, out = made.states.get(name), []
    for push in e.pushes:
        for event in push.values():
            state, events = task.f(state, event)
            out += [thaw(getattr(v, "value", v)) for v in events]
    return out


def by_drawing(style: str) -> Callable[[Example], list[Any]]:
    def drawn(e: Example) -> list[Any]:
        text = draw(e.pipeline.graph, style)
        kind = e.pipeline.graph.nodes[-1].kind
        assert "x" in text and (kind == "source" or kind.replace("_", " ") in text)
        return e.out

    return drawn


BACK_ENDS: dict[str, Callable[[Example], list[Any]]] = {
    "interpreter": by_interpreter_alone,
    "definition": by_definition,
    "kernel": by_kernel,
    "call": by_call,
    "checks": by_check,
    "arguments": by_arguments,
    "smv": by_smv,
    "native": by_native,
    "keys": by_keys,
    "tasks": by_tasks,
    "text": by_drawing("text"),
    "svg": by_drawing("svg"),
    "mermaid": by_drawing("mermaid"),
}

#: What a back-end refuses, and how: everything else it does.
REFUSED = {
    ("smv", "key_by"): "keyed steps cannot be exported",
    ("smv", "forget"): "keyed steps cannot be exported",
    ("keys", "forget"): "counts the events of the whole stream, and with key=",
    ("smv", "merge"): "a merge may carry several events in one push",
    ("smv", "task"): "emits up to 2 events at once",
    ("smv", "explode"): "emits as many events at once as its list has",
    ("native", "filter_by"): "is a second source, which may be silent",
    ("native", "apply"): "is a second source, which may be silent",
    ("native", "merge"): "is a second source, which may be silent",
    ("native", "cumulate"): "remembers its last value",
    ("native", "decimate"): "remembers how many events it has seen",
    ("native", "trim"): "remembers how many events it has seen",
    ("native", "take"): "remembers how many events it has seen",
    ("native", "lag"): "remembers the last events",
    ("native", "window"): "remembers the last events",
    ("native", "task"): "remembers its state",
    ("tasks", "filter_by"): "",  # several sources: their tags are tested in tests/failures
    ("tasks", "apply"): "",
    ("tasks", "merge"): "",
    **{
        (back_end, kind): f"{'is a loop' if kind == 'iterate' else 'works by event time'}, which .* does not know yet"
        for back_end in ("interpreter", "definition", "kernel", "checks", "arguments", "smv", "native", "tasks")
        for kind in TIMED
    },
}


def missing() -> set[str]:
    """The kinds of which nobody has tested anything."""
    return set(PROCESSORS) - set(EXAMPLES)


def test_every_kind_has_an_example() -> None:
    assert not missing()
    assert {e.pipeline.graph.nodes[-1].kind for e in EXAMPLES.values()} == set(PROCESSORS)


@pytest.mark.parametrize("kind", list(EXAMPLES))
@pytest.mark.parametrize("back_end", list(BACK_ENDS))
def test_every_kind_in_every_back_end(back_end: str, kind: str) -> None:
    e = EXAMPLES[kind]
    why = REFUSED.get((back_end, kind))
    if why == "":
        pytest.skip("tested elsewhere")
    if why is not None:
        with pytest.raises(PellucidError, match=why):
            BACK_ENDS[back_end](e)
        return
    assert BACK_ENDS[back_end](e) == e.out


def test_one_step_of_each_where_nothing_is_remembered() -> None:
    """The kinds that remember are native with the k at which they do not, and inputs that come together meet."""
    p = pipeline(
        lambda x: merge(
            x.trim(0).decimate(1), x.filter(x > 1), apply(lambda a, b: a * b, x, x + 1),
            x.window(1, lambda w: w + 1), x.task(lambda s, v: (s, [v]), initial=0),
        ),
        x=int,
    )  # fmt: skip
    assert not remembering(p.graph)
    made = slots(p.graph, p.graph.outputs[0][1])
    assert [evaluate(s.leaves[0], [v]) for v in (1, 2) for s in made if evaluate(s.when, [v])] == p([1, 2])


@pytest.mark.seeded
def test_every_kind_compiled() -> None:
    """All of them in one kernel, as it takes seconds to compile one."""

    def everything(x: Stream[int], y: Stream[int]) -> Any:
        ordinary = {k: e for k, e in EXAMPLES.items() if k not in TIMED}
        built = {k: e.build(x, y) if e.y is not None else e.build(x) for k, e in ordinary.items()}
        return {kind: made.map(lambda v: v) if kind == "source" else made for kind, made in built.items()}

    p = pipeline(lambda x, y: tuple(everything(x, y).values()), x=int, y=int)
    engine, run = Engine(p.graph, mode="numba"), Interpreter(p.graph)
    for push in EXAMPLES["apply"].pushes:
        got = engine.push(**{n: [push[n]] if n in push else [] for n in ("x", "y")})
        assert got == run.push(push)


# ---------------------------------------------------------------- a kind that nobody knows


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Example:
    """A kind that stands in the table and nowhere else."""
    monkeypatch.setitem(PROCESSORS, "planted", Processor("nobody knows", "plain", ("[", "]")))
    graph = EXAMPLES["map"].pipeline.graph
    strange = replace(graph, nodes=(graph.nodes[0], replace(graph.nodes[1], kind="planted")))

    class Planted(Example):
        @property
        def pipeline(self) -> Pipeline:
            p = EXAMPLES["map"].pipeline
            p.graph = strange
            return p

    return Planted(EXAMPLES["map"].build, [])


@pytest.mark.parametrize("back_end", ["interpreter", "kernel", "checks", "smv", "native", "keys", "tasks", "svg"])
def test_a_planted_kind_is_refused_by_name(back_end: str, planted: Example) -> None:
    with pytest.raises(NotNamed, match="does not know the processor 'planted'"):
        BACK_ENDS[back_end](planted)


@pytest.mark.parametrize("style", ["text", "mermaid"])
def test_a_planted_kind_is_drawn_from_the_table(style: str, planted: Example) -> None:
    assert "planted" in draw(planted.pipeline.graph, style)


def test_a_planted_kind_is_missed(planted: Example) -> None:
    assert missing() == {"planted"}


def test_a_planted_kind_is_never_planned(planted: Example) -> None:
    """It was taken for a map once."""
    with pytest.raises(NotNamed, match="'planted'"):
        choose(planted.pipeline.graph, key=False, order=True)
