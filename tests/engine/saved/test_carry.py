"""A saved state goes on in a changed pipeline: what is unchanged gives the outputs of a run that was never
interrupted.
"""

from __future__ import annotations

import enum
import json
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, StateError, Stream, apply, pipeline
from pellucid.internal.base.container import parts
from pellucid.internal.data.columns import Batch
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.saved.carry import _plan
from pellucid.internal.engine.saved.form import describe, unpack
from pellucid.internal.expr.types import BOOL, INT, STR, Type
from pellucid.internal.graph.model import Graph, Node
from tests.engine.kernel.test_kernel_random import Outcome, batch_of, by_engine, by_interpreter, same
from tests.strategies import Seeded, inputs, make_input, make_pipeline, pipelines
from tests.volumes import examples, some_seeds

MODES = ["python", "numba"]
total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)
highest = pipeline(lambda x: x.cumulate(lambda t, v: max(t, v), start=0), x=int)
doubled = pipeline(lambda x: x.cumulate(lambda t, v: t + 2 * v, start=0), x=int)
odd_total = pipeline(lambda x: x.filter(lambda v: v % 2 == 1).cumulate(lambda t, v: t + v, start=0), x=int)
general = pipeline(lambda x: x.cumulate(lambda t, v: t * 3 - v if 0 < t < 1000 else v, start=0), x=int)


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Sale(NamedTuple):
    shop: str
    amount: int


class Number(NamedTuple):
    n: int


def running(x: Stream[int], id: str = "sum") -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id=id)


def lagging(x: Stream[int], id: str = "lag") -> Stream[int]:
    """Events wait here: every third event waits for the first that was not cut."""
    return apply(lambda a, b: 100 * a + b, x, x.filter(lambda v: v % 3 == 0, id=f"{id}-third"), id=id)


def after(x: Stream[Any], f: Callable[[Any], Any]) -> Any:
    return f(x)


Two = Callable[[Any], Any]
# name: (old, new): each output of the new one that the old one has, too, must go on as if nothing had happened.
UNCHANGED: dict[str, tuple[Two, Two]] = {
    "another order": (
        lambda x: {"a": running(x), "b": x.trim(3, id="cut"), "c": x.window(3, total, id="win")},
        lambda x: {"c": x.window(3, total, id="win"), "b": x.trim(3, id="cut"), "a": running(x)},
    ),
    "a step after it": (
        lambda x: {"a": running(x)},
        lambda x: after(running(x), lambda s: {"a": s, "b": s.decimate(2, id="half")}),
    ),
    "queues under keys": (
        lambda x: {"a": lagging(x.key_by(lambda v: v % 4, id="k"))},
        lambda x: after(x.key_by(lambda v: v % 4, id="k"), lambda k: {"b": running(k, "s"), "a": lagging(k)}),
    ),
    "text keys and text in the state, other constants": (
        lambda x: {
            "a": x.map(lambda v: "odd" if v % 2 else "even", id="w").cumulate(
                lambda a, s: s if a == "" else a, start="", id="s"
            )
        },
        lambda x: {
            "b": x.map(lambda v: "new" if v > 3 else "newer", id="n").cumulate(lambda a, s: s, start="newest", id="z"),
            "a": x.map(lambda v: "odd" if v % 2 else "even", id="w").cumulate(
                lambda a, s: s if a == "" else a, start="", id="s"
            ),
        },
    ),
    "keys of two steps meet in one type": (
        # A key of one field and a bare one have the same words, but their own rows: in the new pipeline they share
        # them.
        lambda x: {
            "a": running(x.key_by(lambda v: Sale("s", v % 3), id="k")),
            "b": running(x.key_by(lambda v: ("s", v % 5), id="l"), "other"),
        },
        lambda x: {
            "a": running(x.key_by(lambda v: Sale("s", v % 3), id="k")),
            "b": running(x.key_by(lambda v: Sale("s", v % 5), id="l"), "other"),
        },
    ),
    "small keys of two steps meet": (
        lambda x: {
            "a": running(x.key_by(lambda v: Number(v), id="k")),
            "b": running(x.key_by(lambda v: v, id="l"), "other"),
        },
        lambda x: {"b": running(x.key_by(lambda v: v, id="l"), "other"), "a": running(x.key_by(lambda v: v, id="k"))},
    ),
    "keys of two steps part": (
        lambda x: {
            "a": running(x.key_by(lambda v: Sale("s", v % 3), id="k")),
            "b": running(x.key_by(lambda v: Sale("s", v % 5), id="l"), "other"),
        },
        lambda x: {
            "b": running(x.key_by(lambda v: ("s", v % 5), id="l"), "other"),
            "a": running(x.key_by(lambda v: Sale("s", v % 3), id="k")),
        },
    ),
    "a cumulate becomes a task": (
        lambda x: {"a": running(x)},
        lambda x: {"a": x.task(lambda t, v: (t + v, [t + v]), initial=0, id="sum")},
    ),
    "windows of all kinds": (
        lambda x: {
            "a": x.window(3, total, id="a"),
            "b": x.window(4, highest, id="b"),
            "c": x.window(3, odd_total, id="c"),
            "d": x.window(2, general, id="d"),
        },
        lambda x: {
            "d": x.window(2, general, id="d"),
            "e": x.window(3, general, id="e"),
            "c": x.window(3, odd_total, id="c"),
            "b": x.window(4, highest, id="b"),
            "a": x.window(3, total, id="a"),
        },
    ),
}


def graph_of(f: Two, name: str) -> Graph:
    return replace(pipeline(f, x=int).graph, name=name)


def numbers(seed: int, size: int = 40) -> list[int]:
    rng = random.Random(seed)
    return [rng.choice([*range(-4, 12), rng.randrange(10**6)]) for _ in range(size)]


def outputs(engine: Engine, events: list[int], keys: list[Any] | None) -> dict[str, list[Any]]:
    got = engine.push_batch(Batch(len(events), [[events]], [], None if keys is None else [[keys]]))
    return {o.name: o.events() for o in got}


def carried() -> list[Any]:
    """Each pair plainly, under keys of all kinds; the last three compiled, too, which takes most of the time."""
    plain = [(name, key, "python") for name in UNCHANGED for key in (None, INT, STR)]
    return plain + [(name, INT, "numba") for name in [*UNCHANGED][-3:]]


@pytest.mark.parametrize(("name", "key", "mode"), carried(), ids=str)
def test_what_is_unchanged_goes_on(name: str, key: Type | None, mode: str) -> None:
    old, new = (graph_of(f, n) for f, n in zip(UNCHANGED[name], ("before", "after"), strict=True))
    for seed, at in ((0, 17), (1, 0), (2, 40), (3, 5)):
        events = numbers(seed) if seed != 3 else [abs(v) % 12 for v in numbers(seed)]  # small keys are row numbers
        keys = (
            None if key is None else [{INT: v, STR: f"k{v}"}[key] for v in random.Random(seed).choices(range(3), k=40)]
        )
        want = outputs(Engine(old, key=key, mode="python"), events, keys)
        first, second = (
            Engine(old, key=key, mode=mode),
            Engine(new, key=key, mode=MODES[seed % 2] if mode == "numba" else mode),
        )
        before = outputs(first, events[:at], keys and keys[:at])
        second.carry(memoryview(first.save()))
        assert second.pushed == at
        after = outputs(second, events[at:], keys and keys[at:])
        for output in want.keys() & after.keys():
            assert before[output] + after[output] == want[output], (output, seed)
        # what is new behaves as it does from the start: for all keys
        fresh = outputs(Engine(new, key=key, mode="python"), events[at:], keys and keys[at:])
        for output in after.keys() - want.keys():
            if name != "a step after it":  # what comes to it is not what it was at the start
                assert after[output] == fresh[output]


PAIRS = [(a, b) for a in range(5) for b in range(5)]
COMPILED = [(0, 2), (2, 1), (1, 3), (3, 4), (4, 0)]  # each has to be compiled, so each is met once on either side


@pytest.mark.parametrize(
    ("subs", "mode"), [*[(p, "python") for p in PAIRS], *[(p, "numba") for p in COMPILED]], ids=str
)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_window_with_another_inside_keeps_its_events(subs: tuple[int, int], keyed: bool, mode: str) -> None:
    """A window depends on its events alone: the new one must go on as if it had been there from the start."""
    all_subs = [total, highest, doubled, odd_total, general]
    p, q = (pipeline(lambda x, i=i: x.window(3, all_subs[i], id="win"), x=int) for i in subs)
    key = INT if keyed else None
    for at in (1, 2, 3, 4, 11, 23):
        events = [
            v if i not in (9, 20, 30) else 32 * 10**17 for i, v in enumerate(numbers(at))
        ]  # some the fast way does not take
        keys = [v % 2 for v in range(40)] if keyed else None
        first, second = Engine(p.graph, key=key, mode=mode), Engine(q.graph, key=key, mode=mode)
        want = outputs(Engine(q.graph, key=key, mode="python"), events, keys)["out"]
        skipped = len(outputs(Engine(q.graph, key=key, mode="python"), events[:at], keys and keys[:at])["out"])
        outputs(first, events[:at], keys and keys[:at])
        second.carry(first.save())
        assert outputs(second, events[at:], keys and keys[at:])["out"] == want[skipped:]


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_function_goes_on_from_what_was_remembered(mode: str) -> None:
    old, new = (
        pipeline(
            lambda x, k=k: x.key_by(lambda v: v % 2, id="k").cumulate(lambda t, v: t + k * v, start=0, id="sum"), x=int
        )
        for k in (1, 10)
    )
    first, second = old.engine(mode=mode), new.engine(mode=mode)
    assert first.push([1, 2, 3]) == [1, 2, 4]
    second.carry(first.save())
    assert second.push([1, 2]) == [14, 22]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keys", [[0, 6, 3], [10**15, -1, 7 * 10**16]], ids=["small", "large"])
def test_a_changed_start_holds_for_keys_that_come_later(keys: list[int], mode: str) -> None:
    old, new = (pipeline(lambda x, s=s: running_from(x, s), x=int) for s in (0, 500))
    first, second = Engine(old.graph, key=INT, mode=mode), Engine(new.graph, key=INT, mode=mode)
    outputs(first, [1, 2], keys[:2])
    second.carry(first.save())
    assert outputs(second, [10, 10, 10], keys)["out"] == [11, 12, 510]


def running_from(x: Stream[int], start: int) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=start, id="sum")


def unique(seen: frozenset[int], v: int) -> tuple[frozenset[int], list[int]]:
    return seen | {v}, [] if v in seen else [v]


def collect(seen: list[int], v: int) -> tuple[list[int], list[int]]:
    seen.append(v)
    return seen, [len(seen)]


@pytest.mark.parametrize("key", [None, INT, STR], ids=["unkeyed", "int", "str"])
def test_states_that_are_any_object(key: Type | None) -> None:
    def words(x: Stream[int]) -> Stream[str]:
        return x.map(lambda v: "odd" if v % 2 else "even", id="w").cumulate(lambda a, s: s, start="", id="s")

    def flow(x: Stream[int]) -> Stream[float]:
        return x.map(lambda v: v / 2, id="h").cumulate(lambda a, f: a + f, start=0.0, id="f")

    def seen(x: Stream[int]) -> Stream[int]:
        return x.task(unique, initial=frozenset(), to=int, id="seen")

    plain = pipeline(lambda x: {"s": words(x), "f": flow(x), "q": lagging(x)}, x=int)
    objects = pipeline(
        lambda x: {"z": x.map(lambda v: "z", id="z"), "q": lagging(x), "u": seen(x), "f": flow(x), "s": words(x)}, x=int
    )
    more = pipeline(
        lambda x: {
            "u": seen(x),
            "n": x.task(collect, initial=[], to=int, id="list"),
            "q": lagging(x),
            "s": words(x),
            "f": flow(x),
        },
        x=int,
    )
    keys = None if key is None else [{INT: v, STR: f"k{v}"}[key] for v in random.Random(5).choices(range(3), k=40)]
    events = [v % 7 for v in numbers(5)]
    for chain in (
        [plain, objects],
        [objects, more],
        [plain, objects, more, plain],
        [objects, plain],
        [more, objects, plain],
    ):
        want = {
            name: outputs(Engine(p.graph, key=key, mode="python"), events, keys)
            for name, p in (("plain", plain), ("objects", objects))
        }
        engine, got, cuts = (
            Engine(chain[0].graph, key=key),
            dict[str, list[Any]](),
            [0, 13, 22, 31][: len(chain)] + [40],
        )
        for i, p in enumerate(chain):
            if i:
                engine, saved = Engine(p.graph, key=key), engine.save()
                engine.carry(saved, drop=["seen", "list"] if p is plain else ["list"] if p is objects else [])
            part = slice(cuts[i], cuts[i + 1])
            for name, out in outputs(engine, events[part], keys and keys[part]).items():
                got.setdefault(name, []).extend(out)
        assert {n: got[n] for n in ("s", "f", "q")} == want["plain"]
        if chain[0] is objects and chain[-1] is more:
            assert got["u"] == want["objects"]["u"]
            marks = keys[13:] if keys else [0] * 27
            assert got["n"] == [marks[: i + 1].count(marks[i]) for i in range(27)]  # no two keys share a list


def refused(old: Any, new: Any, *, keys: tuple[Type | None, Type | None] = (None, None), **options: Any) -> str:
    first, second = Engine(graph_of(old, "before"), key=keys[0]), Engine(graph_of(new, "after"), key=keys[1])
    outputs(first, [1, 2, 3], [{INT: 1, STR: "a"}[keys[0]]] * 3 if keys[0] else None)
    with pytest.raises(StateError) as error:
        second.carry(first.save(), **options)
    about = json.loads(json.dumps(describe(first.state.layout)))  # what the refusal is decided by
    with pytest.raises(StateError) as again:
        _plan(second.state.layout, about, options.get("drop", ()), "before")
    assert str(again.value) == str(error.value)
    assert second.pushed == 0 and outputs(second, [5], [{INT: 1, STR: "a"}[keys[1]]] if keys[1] else None)
    return str(error.value).removeprefix("the saved state of 'before' cannot be carried over to 'after': ")


BACK = "; bring it back as it was, or give up what it remembers with drop="


def test_refusals() -> None:
    cut = lambda x: x.trim(2, id="cut")
    assert refused(cut, running) == f"step 'cut' (trim) is gone{BACK}['cut']"
    assert refused(cut, lambda x: x.decimate(2, id="cut")) == f"step 'cut' (trim) is a decimate now{BACK}['cut']"
    assert refused(lambda x: x.window(3, total, id="w"), lambda x: x.window(5, total, id="w")) == (
        f"step 'w' (window) has changed: ring0 was 3 × int, and is now 5 × int{BACK}['w']"
    )
    assert refused(running, lambda x: x.cumulate(lambda t, v: t + v, start=0.5, id="sum")) == (
        f"step 'sum' (cumulate) has changed: state was int, and is now float{BACK}['sum']"
    )
    pair = lambda x: x.cumulate(lambda a, v: Sale(a.shop, v), start=Sale("", 0), id="sum")
    assert refused(running, pair) == (
        f"step 'sum' (cumulate) has changed: state is gone, state.shop is new, state.amount is new{BACK}['sum']"
    )
    assert refused(running, lambda x: running(x.key_by(lambda v: v % 2, id="k"))) == (
        f"step 'sum' (cumulate) was kept once for the whole stream, and is now by keys of type (int){BACK}['sum']"
    )
    by = lambda f: lambda x: running(x.key_by(f, id="k"))
    assert refused(by(lambda v: v % 2), by(lambda v: "a" if v else "b"), keys=(INT, INT)) == (
        f"step 'sum' (cumulate) was kept by keys of type (int), and is now by keys of type (str){BACK}['sum']"
    )
    assert refused(lagging, lambda x: apply(lambda a, b: a + b, x, x.map(lambda v: v, id="m"), id="lag")) == (
        f"step 'lag' (apply) does not wait any more, so the events in its queues would be lost{BACK}['lag']"
    )
    floats = lambda x: apply(
        lambda a, b: a + b, x, x.map(lambda v: v / 2, id="m").filter(lambda v: v > 1, id="f"), id="lag"
    )
    assert (
        refused(lagging, floats)
        == f"step 'lag' (apply) has changed: queue lag.1 held (int), and now holds (float){BACK}['lag']"
    )
    assert refused(running, lambda x: x.task(unique, initial=frozenset(), to=int, id="sum")) == (
        f"step 'sum' (cumulate) has changed: state was int, and is now object{BACK}['sum']"
    )
    both = lambda x: (running(x), x.trim(1, id="cut"))
    assert refused(both, lambda x: x.map(lambda v: v, id="m")) == (
        "step 'sum' (cumulate) is gone; step 'cut' (trim) is gone; "
        "bring them back as they were, or give up what they remember with drop=['sum', 'cut']"
    )
    assert (
        refused(both, lambda x: x.map(lambda v: v, id="m"), drop=["sum"]) == f"step 'cut' (trim) is gone{BACK}['cut']"
    )


def test_refusals_for_the_key_that_comes_with_the_data() -> None:
    another = "the key that comes with the data has another type ({}); go on with the key as it was, or start anew"
    assert refused(running, running, keys=(INT, STR)) == another.format("of type (int) before, of type (str) now")
    assert refused(running, running, keys=(None, STR), drop=["sum"]) == another.format(
        "without before, of type (str) now"
    )
    assert refused(running, running, keys=(INT, None)) == another.format("of type (int) before, without now")


def test_an_enum_with_other_members_is_refused() -> None:
    def last(kind: type[enum.Enum]) -> Callable[[Stream[int]], Stream[Any]]:
        low, high = list(kind)[:2]
        return lambda x: x.map(lambda v: high if v > 1 else low, id="m").cumulate(lambda a, v: v, start=low, id="last")

    other = enum.Enum("Level", {"LOW": 1, "HIGH": 2, "TOP": 3})
    assert refused(last(Level), last(other)) == (
        f"step 'last' (cumulate) has changed: state was Level{{LOW,HIGH}}, and is now "
        f"Level{{LOW,HIGH,TOP}}{BACK}['last']"
    )


@pytest.mark.parametrize("mode", MODES)
def test_drop_lets_a_step_start_anew(mode: str) -> None:
    old = pipeline(lambda x: (running(x), lagging(x), x.trim(2, id="cut")), x=int)
    new = pipeline(lambda x: {"l": lagging(x), "s": running(x)}, x=int)
    first, second = old.engine(mode=mode), new.engine(mode=mode)
    first.push([1, 2, 3, 4])
    second.carry(first.save(), drop={"cut", "lag", "no such step"})
    assert second.push([5, 6]) == {"l": [506], "s": [15, 21]}
    assert second.queues == {"lag.0": 1, "lag.1": 0}


def test_a_window_that_changed_inside_is_refused_by_load() -> None:
    """Its sums are of no use to another sub-pipeline: they would be wrong for ever after."""
    p, q = (pipeline(lambda x, s=s: x.window(3, s, id="win"), x=int) for s in (total, doubled))
    with pytest.raises(StateError, match="steps that differ: changed: win"):
        q.engine().load(p.engine().save())


def test_a_state_of_the_old_format_is_refused() -> None:
    head = json.dumps({"format": 1, "pipeline": "p", "blocks": []}).encode()
    body = struct.pack("<I", len(head)) + head
    data = b"PELLUCID STATE\n" + struct.pack("<I", zlib.crc32(body)) + body
    for take in (total.engine().load, total.engine().carry):
        with pytest.raises(
            StateError,
            match=r"was written by another version of Pellucid \(format 1, this one has 4\): go on with that",
        ):
            take(data)


def test_texts_of_all_kinds_are_saved() -> None:
    texts = ["", "a", "größer", "日本", "\ud800", "a\0b", "🎈" * 50, *[f"t{i}" for i in range(3000)]]
    p = pipeline(lambda x: x.key_by(lambda s: s, id="k").cumulate(lambda n, s: n + 1, start=0), x=str)
    for mode in MODES:
        engine, other = p.engine(mode=mode), p.engine(mode=mode)
        engine.push(texts)
        other.load(memoryview(engine.save()))
        assert other.push(texts) == [2] * len(texts)
        assert other.save() != engine.save() and other.state.texts() == engine.state.texts()


def test_texts_that_nothing_remembers_are_not_saved() -> None:
    p = pipeline(lambda x: x.cumulate(lambda last, s: s if last == "" else last, start="", id="first"), x=str)
    for mode in MODES:
        engine = p.engine(mode=mode)
        out = engine.push_batch(Batch(5000, [[[f"text number {i}" for i in range(5000)]]]))
        data = engine.save()
        assert len(data) < 2000 and out[0].events()[-1] == "text number 0"  # what was put out is still there
        other = p.engine(mode=mode)
        other.load(data)
        assert other.push(["x"]) == engine.push(["x"]) == ["text number 0"]


def test_parts_of_a_saved_state_stay_in_place_while_it_grows() -> None:
    engine = Engine(total.graph, key=INT, mode="numba")
    sizes = []
    for n in (100, 300):
        keys = np.arange(n) * 10**12
        engine.push_batch(Batch(n, [[np.ones(n, np.int64)]], [], [[keys]]))
        data = engine.save()
        stops = parts(data)
        sizes.append(len(stops))
        blocks = unpack(data).blocks
        assert [b - a for a, b in pairwise(stops)][1:-2] == [len(block) + -len(block) % 64 for block in blocks][:-1]
        assert all(stop % 64 == 0 for stop in stops) and stops[-1] == len(data)
    assert sizes[0] == sizes[1]


def test_the_key_types_of_the_examples_are_what_they_are_called() -> None:
    assert (INT, STR, BOOL) == tuple(pipeline(lambda x: x, x=t).graph.nodes[0].type for t in (int, str, bool))


# A saved state goes on in a changed pipeline: random pipelines, as long as they are and grown.


def _other(n: Node) -> Node:
    """The step under another name, and those of its window, too: a failure there is told by the name of the step
    inside."""
    inside = n.sub and replace(n.sub, nodes=tuple(m if m.kind == "source" else _other(m) for m in n.sub.nodes))
    return replace(n, id=f"extra.{n.id}", sub=inside)


def together(a: Graph, b: Graph) -> Graph:
    """Both pipelines in one; the steps, sources and outputs of ``b`` stand first and have other names."""
    shift = len(b.nodes)
    nodes = [_other(n) for n in b.nodes]
    nodes += [replace(n, inputs=tuple(i + shift for i in n.inputs)) for n in a.nodes]
    outputs = [(f"extra.{name}", i) for name, i in b.outputs] + [(name, i + shift) for name, i in a.outputs]
    return Graph("both", tuple(nodes), (*b.sources, *[s + shift for s in a.sources]), tuple(outputs))


def run(
    graphs: list[Graph], chunks: list[list[dict[str, Any]]], keys: list[list[int]] | None, mode: str, drop: list[str]
) -> Outcome:
    """Push each chunk into its pipeline, carrying the state from one to the next; only the outputs of ``a`` are looked
    at."""
    found: tuple[dict[str, list[Any]], ...] = ({}, {}, {})
    saved = None
    for i, (graph, chunk) in enumerate(zip(graphs, chunks, strict=True)):
        engine = Engine(graph, key=INT if keys else None, mode=mode)
        if saved is not None:
            engine.carry(saved, drop=drop)
        whole: Any = SimpleNamespace(graph=graph)
        outcome = by_engine([engine], [batch_of(whole, chunk, keys[i] if keys else None)])
        if outcome[3] is not None:
            return {}, {}, {}, outcome[3]
        saved = engine.save()
        for into, some in zip(found, outcome[:3], strict=True):
            for name in [name for name in some if not name.startswith("extra.")]:
                into.setdefault(name, []).extend(some[name])
    return found[0], found[1], found[2], None


def compare(
    p: Pipeline,
    extra: Pipeline,
    pushes: list[dict[str, Any]],
    more: list[dict[str, Any]],
    keys: list[int] | None,
    at: int,
    mode: str,
) -> None:
    want = by_interpreter(p, pushes, keys)
    both = together(p.graph, extra.graph)
    wide = [push | {f"extra.{k}": v for k, v in other.items()} for push, other in zip(pushes, more, strict=True)]
    marks = [keys[:at], keys[at:]] if keys else None
    got = run([p.graph, p.graph], [pushes[:at], pushes[at:]], marks, mode, [])
    assert same(want, got), ("the same", p.graph, pushes, at, want, got)
    got = run([p.graph, both], [pushes[:at], wide[at:]], marks, mode, [])
    if got[3] is None or not got[3][1].startswith("extra."):
        assert same(want, got), ("one more", both, wide, at, want, got)
    gone = [n.id for n in both.nodes if n.id.startswith("extra.")]
    got = run([both, p.graph], [wide[:at], pushes[at:]], marks, mode, gone)
    if got[3] is None or not got[3][1].startswith("extra."):
        assert same(want, got), ("one less", both, wide, at, want, got)


@settings(max_examples=examples(50, 80))
@given(st.data(), st.booleans())
def test_random_pipelines(data: st.DataObject, keyed: bool) -> None:
    p, extra = data.draw(pipelines(max_steps=6)), data.draw(pipelines(max_steps=4, sources=1))
    pushes = data.draw(inputs(p))
    assume(pushes)
    c = Seeded(len(pushes))
    keys = data.draw(st.lists(st.integers(0, 2), min_size=len(pushes), max_size=len(pushes))) if keyed else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, data.draw(st.integers(0, len(pushes))), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(30, 60))
def test_larger_random_pipelines(seed: int) -> None:
    c = Seeded(2000 + seed)
    p, extra = make_pipeline(c, max_steps=12), make_pipeline(c, max_steps=6)
    pushes = make_input(c, p, c.of(range(5, 60)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, c.of(range(len(pushes))), "python")


@pytest.mark.seeded
@pytest.mark.parametrize("seed", some_seeds(2, 20))
def test_random_pipelines_compiled(seed: int) -> None:
    c = Seeded(3000 + seed)
    while True:
        p, extra = make_pipeline(c, max_steps=8), make_pipeline(c, max_steps=4)
        if all(Engine(q.graph, key=k).why_plain is None for q in (p, extra) for k in (None, INT)):
            break
    pushes = make_input(c, p, c.of(range(5, 60)))
    keys = [c.of([0, 1, 2]) for _ in pushes] if seed % 2 else None
    compare(p, extra, pushes, make_input(c, extra, len(pushes)), keys, c.of(range(len(pushes))), "numba")
