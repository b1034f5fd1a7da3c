"""States that are any Python object, saved and loaded: data goes on, anything else is refused by name, and no file is
ever unpickled."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import pickle
import random
import re
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import pellucid
from pellucid import Pipeline, StateError, Stream, apply, pipeline
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.engine.saved import form as saved
from pellucid.internal.engine.saved.objects import check_states
from pellucid.internal.expr.types import INT
from tests.old_form import old_state


class Kind(enum.Enum):
    EVEN = 0
    ODD = 1


class Seen(NamedTuple):
    kind: Kind
    value: int


@dataclass
class Memory:
    last: list[Seen] = field(default_factory=list)
    sums: dict[Kind, int] = field(default_factory=dict)


def remember(memory: Memory, v: int) -> tuple[Memory, list[int]]:
    kind = Kind(v % 2)
    memory.last = [*memory.last[-2:], Seen(kind, v)]
    memory.sums[kind] = memory.sums.get(kind, 0) + v
    return memory, [memory.sums[kind] + len(memory.last)]


@pipeline
def remembering(x: Stream[int]) -> Stream[int]:
    return x.task(remember, Memory(), to=int, id="memory")


@pipeline
def mixed(x: Stream[int]) -> Stream[int]:
    words = x.map(lambda v: f"w{v % 4}", id="word").task(
        lambda seen, w: ({**seen, w: len(seen)}, [len(seen)]), {}, to=int, id="words"
    )
    late = apply(lambda a, b: 100 * a + b, x, x.filter(lambda v: v % 3 == 0, id="third"), id="pair")
    return apply(
        lambda a, b, c: a + b + c,
        words,
        late.task(lambda q, v: (deque([*q, v], 3), [sum(q)]), deque(), to=int, id="queue"),
        remembering(x),
        id="all",
    )


@pytest.mark.parametrize("p", [remembering, mixed], ids=lambda p: p.name)
@pytest.mark.parametrize("key", [None, INT])
def test_it_goes_on_as_if_nothing_had_been(p: Pipeline, key: Any) -> None:
    from pellucid.internal.data.columns import Batch

    def push(engine: Engine, values: list[int]) -> list[Any]:
        keys = [[[v % 5 for v in values]]] if key is not None else None
        return [o.events() for o in engine.push_batch(Batch(len(values), [[values]], [None], keys))]

    values = [(i * 37) % 101 for i in range(60)]
    whole, parted = Engine(p.graph, key=key), Engine(p.graph, key=key)
    for start in range(0, 60, 15):
        want = push(whole, values[start : start + 15])
        assert push(parted, values[start : start + 15]) == want
        data = parted.save()
        parted = Engine(p.graph, key=key)
        if start % 2:
            parted.carry(data)
        else:
            parted.load(data)
            assert parted.save() == data


# ---------------------------------------------------------------- what is refused, and when


class Model:
    weight = 1


def learn(model: Model, v: int) -> tuple[Model, list[int]]:
    return model, [v * model.weight]


def counted(found: list[re.Pattern[str]], v: int) -> tuple[Any, list[int]]:
    return found, [v]


def later(state: Any, v: int) -> tuple[Any, list[int]]:
    return ({"model": Model()} if v == 3 else state), [v]


START = pipeline(lambda x: x.task(learn, Model(), to=int, id="learn"), x=int)
ANNOTATED = pipeline(lambda x: x.task(counted, [], to=int, id="count"), x=int)
LATER = pipeline(lambda x: x.task(later, None, to=int, id="later"), x=int)
HOLDS = (
    "a saved state holds data (numbers, texts, bytes, dates, tuples, lists, dicts, sets, deques) and the "
    "pipeline's own dataclasses, named tuples and enums"
)


def test_what_cannot_be_saved_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("1\n2\n3\n4\n")
    for p, words in (
        (
            START,
            "step 'learn' (task learn, test_objects.py:{}): its state cannot be saved: state is a "
            "tests.engine.saved.test_objects.Model, which is not data: make Model a dataclass of such values, or keep "
            "a tuple, a list or a dict; " + HOLDS,
        ),
        (
            ANNOTATED,
            "step 'count' (task counted, test_objects.py:{}): its state cannot be saved: its annotation says "
            "that it is a re.Pattern, which is not data: keep the values that it stands for; " + HOLDS,
        ),
    ):
        line = str(p.graph.nodes[1].where).rpartition(":")[2]
        with pytest.raises(StateError) as found:
            run_epochs(p, tmp_path / "x.jsonl", tmp_path / "out.csv", state=tmp_path / "state", pushes=2)
        assert str(found.value) == words.format(line)
        assert not (tmp_path / "state").exists()


def test_what_turns_up_later_is_refused_before_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("1\n2\n3\n4\n")
    with pytest.raises(
        StateError,
        match=r"step 'later' \(task later, test_objects.py:\d+\): its state cannot be saved: state\['model'\] is a "
        r"tests.engine.saved.test_objects.Model",
    ):
        run_epochs(LATER, tmp_path / "x.jsonl", tmp_path / "out.csv", state=tmp_path / "state", pushes=2)
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(StateError, match="state\\['model'\\] is a"):  # and again: what was saved before is whole
        run_epochs(LATER, tmp_path / "x.jsonl", tmp_path / "out.csv", state=tmp_path / "state", pushes=2)


def test_a_run_goes_on_with_the_pipelines_own_types(tmp_path: Path) -> None:
    values = [(i * 37) % 101 for i in range(40)]
    (tmp_path / "x.jsonl").write_text("".join(f"{v}\n" for v in values))
    run_epochs(remembering, tmp_path / "x.jsonl", tmp_path / "out.jsonl", state=tmp_path / "state", pushes=7, limit=20)
    run_epochs(remembering, tmp_path / "x.jsonl", tmp_path / "all.jsonl", state=tmp_path / "other", pushes=7)
    assert [json.loads(line)["out"] for line in (tmp_path / "all.jsonl").read_text().splitlines()] == remembering(
        values
    )


def test_open_annotations_are_no_reason_to_refuse() -> None:
    def free(state: object, v: int) -> tuple[Any, list[int]]:
        return state, [v]

    def some(state: dict[str, list[Seen] | None], v: int) -> tuple[Any, list[int]]:
        return state, [v]

    def odd(state: NoSuchName, v: int) -> tuple[Any, list[int]]:  # type: ignore[name-defined]  # noqa: F821
        return state, [v]

    def other(state: Mapping[str, Literal["a"] | Sequence[Any]] | type[int], v: int) -> tuple[Any, list[int]]:
        return state, [v]

    for f in (free, some, odd, other, lambda s, v: (s, [v])):
        check_states(pipeline(lambda x, f=f: x.task(f, {}, to=int), x=int).graph)


# ---------------------------------------------------------------- damaged, hostile and old


def packed(data: bytes, **changes: Any) -> bytes:
    """The saved state with other blocks or another header, and a checksum that is right."""
    found = saved.unpack(data)
    blocks = changes.pop("blocks", [bytes(b) for b in found.blocks])
    about = json.dumps(changes.pop("about", found.head["about"]))
    return saved.pack(
        {k: v for k, v in found.head.items() if k not in ("about", "blocks", "kind", "checked")} | changes,
        blocks,
        about=about,
    )


class Boom:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_an_evil_pickle_in_a_snapshot_is_never_run(tmp_path: Path) -> None:
    engine = remembering.engine()
    engine.push([1, 2, 3])
    data = engine.save()
    blocks = [bytes(b) for b in saved.unpack(data).blocks]
    evil = pickle.dumps(Boom(tmp_path / "ran"))
    for at in range(len(blocks)):
        for take in (remembering.engine().load, remembering.engine().carry):
            last = at == len(blocks) - 1  # some of the others are of no use to the same pipeline
            with pytest.raises(StateError, match="damaged") if last else contextlib.suppress(StateError):
                take(packed(data, blocks=[*blocks[:at], evil, *blocks[at + 1 :]]))
    old = old_state(saved.unpack(data).head, [*blocks[:2], evil], 2)
    for take in (remembering.engine().load, remembering.engine().carry):
        with pytest.raises(
            StateError,
            match=r"was written by an older version of Pellucid with pickle, .* does not read it: go on with the "
            r"version that saved it, or start again",
        ):
            take(old)
    assert not (tmp_path / "ran").exists()


def test_the_format_before_is_read_where_it_had_no_pickle() -> None:
    total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    engine = total.engine()
    engine.push([1, 2, 3])
    for take in ("load", "carry"):
        again = total.engine()
        found = saved.unpack(engine.save())
        getattr(again, take)(old_state(found.head, found.blocks, 2))
        assert again.push([4]) == [10]


def test_a_type_that_has_changed_is_named() -> None:
    engine = remembering.engine()
    engine.push([1, 2, 3])

    @dataclass
    class Memory:
        last: list[Seen]

    def forget(memory: Memory, v: int) -> tuple[Memory, list[int]]:
        return memory, [v]

    Memory.__qualname__ = "Memory"
    changed = pipeline(lambda x: x.task(forget, Memory([]), to=int, id="memory"), x=int)
    words = (
        r"step 'memory' .*: its saved state does not fit: the pipeline has no type 'Memory', of which values were "
        r"saved|has changed: it was a dataclass with the fields last, sums"
    )
    with pytest.raises(StateError, match=words):
        changed.engine().carry(engine.save())
    new = changed.engine()
    new.carry(engine.save(), drop=["memory"])
    assert new.push([7]) == [7]


def test_damaged_words_never_reach_the_kernel() -> None:
    """Whatever stands in the blocks, with a checksum that is right: loaded and run, or refused; never another error."""
    rng = random.Random(11)
    wide = pipeline(
        lambda x: (
            apply(lambda a, b: 100 * a + b, x, x.filter(lambda v: v % 3 == 0), id="pair"),
            x.window(4, lambda y: y.cumulate(lambda t, v: max(t, v), start=0), id="w"),
        ),
        x=int,
    )
    refused = 0
    for p, mode in ((wide, "numba"), (wide, "python"), (mixed, "python")):
        engine = Engine(p.graph, mode=mode)
        engine.push([(i * 7) % 23 for i in range(40)])
        data = engine.save()
        found = saved.unpack(data)
        for _ in range(40):
            blocks = [bytearray(b) for b in found.blocks]
            block = rng.choice([b for b in blocks if b])
            at = rng.randrange(len(block) // 8) * 8 if len(block) >= 8 else 0
            what = rng.choice(
                [b"\xff" * 8, struct.pack("<q", rng.choice([1, -2, 39, 40, 41, 1 << 40, 1 << 62])), rng.randbytes(8)]
            )
            if rng.random() < 0.2:
                del block[at:]
            else:
                block[at : at + 8] = what[: len(block) - at]
            for take in ("load", "carry"):
                again = Engine(p.graph, mode=mode)
                try:
                    getattr(again, take)(packed(data, blocks=[bytes(b) for b in blocks]))
                except StateError:
                    refused += 1
    assert refused > 80


def test_headers_that_are_no_headers() -> None:
    engine = mixed.engine()
    engine.push([1, 2, 3])
    data = engine.save()
    about = saved.unpack(data).head["about"]
    for wrong in ({}, [], 7, None, about | {"regions": []}, about | {"queues": [[1]]}, about | {"steps": 3}):
        for take in ("load", "carry"):
            with pytest.raises(StateError):
                getattr(mixed.engine(), take)(packed(data, about=wrong))
    for name, wrong in (("dense", [9]), ("dense", []), ("dense", 3), ("pushed", None), ("pushed", -1)):
        with pytest.raises(StateError):
            mixed.engine().load(packed(data, **{name: wrong}))


# ---------------------------------------------------------------- and nowhere else


def test_pickle_is_used_from_process_to_process_only() -> None:
    """Every module that can unpickle, with what it unpickles: no file.  A new one must be added here, with its
    reason."""
    allowed = {
        "internal/base/kept.py": "machine code that Numba has compiled, held against its seal",
        "spark/frames.py": "the job that the driver sends to its workers",
        "failures/model/tasks.py": "states of a checked model, in memory",
        "check/functions/called.py": "states of a function that a check calls, in memory",
        "internal/cli/spark.py": "cloudpickle is told which modules go to the workers by value",
    }
    found = set()
    root = Path(pellucid.__file__).parent
    for path in root.rglob("*.py"):
        if re.search(
            r"^\s*(import|from)\s.*\b(pickle|cloudpickle|marshal|shelve|dill|joblib)\b", path.read_text(), re.MULTILINE
        ):
            found.add(path.relative_to(root).as_posix())
    assert found == set(allowed)
