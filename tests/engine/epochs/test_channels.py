"""Cutting a pipeline: the parts together mean what the whole means, or the cut is refused."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import Pipeline, Stream, merge, pipeline
from pellucid.errors import PellucidError, UsageError
from pellucid.internal.data.columns import Strings, columns_of, events_of
from pellucid.internal.engine.epochs import run_epochs
from pellucid.internal.engine.epochs.messages import (
    BORDER,
    END,
    EVENTS,
    ChannelMessage,
    Events,
    Inbox,
    Outbox,
    Shape,
    as_arrays,
    channel,
    content,
    decode,
    encode,
    frame_lengths,
)
from pellucid.internal.engine.epochs.plan import fragments, make_plan
from pellucid.internal.engine.epochs.worker import events_of_output, joined
from pellucid.internal.engine.kernel.engine import Engine
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, TupleType, Type, type_of
from tests.strategies import inputs, pipelines


def in_parts(p: Pipeline, cut: list[str], steps: list[dict[str, Any]], size: int) -> dict[str, list[Any]]:
    """All parts in this process, batch by batch; what goes between them goes through bytes."""
    graph = p.graph
    parts = fragments(graph, cut)
    engines = [Engine(part) for part in parts]
    out: dict[str, list[Any]] = {name: [] for name, _ in graph.outputs}
    types = {n.id: n.type for n in graph.nodes}
    for first in range(0, len(steps), size):
        batch = steps[first : first + size]
        streams: dict[str, Events] = {}
        for at in graph.sources:
            node = graph.nodes[at]
            rows = [i for i, step in enumerate(batch) if node.id in step]
            leaves = [leaf for _, leaf in node.type.leaves()]
            columns = columns_of(node.type, [batch[i][node.id] for i in rows])
            streams[node.id] = Events(
                [as_arrays(t, c) for t, c in zip(leaves, columns, strict=True)], np.array(rows, dtype=np.int64) + first
            )
        for part, engine in zip(parts, engines, strict=True):
            names = [part.nodes[i].id for i in part.sources]
            message = ChannelMessage(EVENTS, 1, first, first + size, {n: streams[n] for n in names})
            pieces = encode(message, Shape(types), canonical=True)
            given_ = decode(b"".join(bytes(piece) for piece in pieces), Shape(types)).parts
            pushes, positions = joined(part, names, given_, first, None)
            base = engine.pushed
            for o in engine.push_batch(pushes, positions=True):
                streams[o.name] = events_of_output(o, base, positions, first, None)
        for name, at in graph.outputs:
            node = graph.nodes[at]
            out[name] += events_of(node.type, streams[node.id].columns)
    return out


@given(st.data())
@settings(max_examples=60)
def test_parts_mean_what_the_whole_means(data: st.DataObject) -> None:
    p = data.draw(pipelines())
    steps = data.draw(inputs(p))
    inner = [n.id for n in p.graph.nodes if n.kind != "source"]
    cut = data.draw(st.lists(st.sampled_from(inner), unique=True, max_size=4)) if inner else []
    try:
        found = in_parts(p, cut, steps, data.draw(st.sampled_from([1, 3, 100])))
    except UsageError as error:
        if not str(error).startswith("cut: the stream of step"):
            raise
        return
    except PellucidError:
        with pytest.raises(PellucidError):
            whole(p, steps)
        return
    assert repr(found) == repr(whole(p, steps))


def whole(p: Pipeline, steps: list[dict[str, Any]]) -> dict[str, list[Any]]:
    from pellucid.internal.engine.interpreter import Interpreter

    out: dict[str, list[Any]] = {name: [] for name, _ in p.graph.outputs}
    for result in Interpreter(p.graph).run(steps):
        for name, events in result.items():
            out[name] += events
    return out


def test_a_stream_with_several_events_in_a_push_may_not_meet_others() -> None:
    p = pipeline(lambda x, y: merge(merge(x, y, id="both").trim(1, id="cut"), x, id="all"), x=int, y=int)
    with pytest.raises(
        UsageError,
        match=r"cut: the stream of step 'cut' \(trim.*\) may carry several events in one push, which would meet other "
        r"streams \(x\)",
    ):
        fragments(p.graph, ["cut"])


def test_a_key_does_not_go_through_a_cut() -> None:
    p = pipeline(lambda x: x.key_by(lambda v: v % 2, id="by").trim(1, id="cut").map(lambda v: v, id="end"), x=int)
    with pytest.raises(
        UsageError, match="is under a key_by, and would go to another worker without its key: cut before the key_by"
    ):
        fragments(p.graph, ["cut"])


def test_shares() -> None:
    p = pipeline(lambda x: x.trim(1, id="a").map(lambda v: v, id="b"), x=int)
    plan = make_plan(p.graph, {"x": ["x"]}, cut=["a"], workers=2, keyed=True)
    assert [c.name for c in plan.channels] == [
        "source.x>worker.a.0",
        "source.x>worker.a.1",
        "worker.a.0>worker.b.0",
        "worker.a.1>worker.b.1",
        "worker.b.0>sink.out",
        "worker.b.1>sink.out",
    ]
    assert [c.share for c in plan.channels[:2]] == [(0, 2), (1, 2)]
    with pytest.raises(UsageError, match="have a key each in one push"):
        make_plan(
            pipeline(lambda x, y: merge(x, y), x=int, y=int).graph, {"x": ["x"], "y": ["y"]}, workers=2, keyed=True
        )


# Messages as bytes: what was sent is what arrives, in any pieces; equal content has equal bytes where that is asked
# for.


class Side(enum.Enum):
    BUY = 1
    SELL = 2


SIDE = type_of(Side)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(),
    BOOL: st.booleans(),
    STR: st.text(st.characters(), max_size=4),  # with lone surrogates, which JSON can bring
    SIDE: st.sampled_from(Side),
}
TYPES = st.sampled_from(list(VALUES))


@st.composite
def sent(draw: st.DrawFn) -> tuple[ChannelMessage, Shape]:
    """A batch of some streams, with or without keys."""
    types = {name: draw(TYPES) for name in draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3))}
    key = draw(st.none() | TYPES | st.builds(lambda a, b: TupleType((a, b)), TYPES, TYPES))
    parts = {}
    for name, t in types.items():
        count = draw(st.integers(0, 9))

        def column(t: Type, count: int = count) -> Any:
            return as_arrays(t, draw(st.lists(VALUES[t], min_size=count, max_size=count)))

        positions = (
            np.array(sorted(draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))))
            if draw(st.booleans())
            else None
        )
        parts[name] = Events(
            [column(t)], positions, None if key is None else [column(leaf) for _, leaf in key.leaves()]
        )
    kind = draw(st.sampled_from([EVENTS, BORDER, END]))
    return ChannelMessage(
        kind, draw(st.integers(0, 2**40)), 3, 103, parts, n=draw(st.integers(0, 2**40)), closes=draw(st.booleans())
    ), Shape(types, key)


def plain(column: Any) -> list[Any]:
    """A column as values whose bits can be compared."""
    if isinstance(column, Strings):
        return [column.values[c] for c in column.codes]
    array: Any = np.asarray(column)
    found: list[Any] = (array.view(np.int64) if array.dtype == np.float64 else array).tolist()
    return found


def same(a: ChannelMessage, b: ChannelMessage) -> bool:
    if (a.kind, a.epoch, a.first, a.until, a.n, a.closes, list(a.parts)) != (
        b.kind,
        b.epoch,
        b.first,
        b.until,
        b.n,
        b.closes,
        list(b.parts),
    ):
        return False
    for mine, other in zip(a.parts.values(), b.parts.values(), strict=True):
        if (mine.keys is None) != (other.keys is None):
            return False
        pairs = zip(
            [*mine.columns, mine.positions, *(mine.keys or [])],
            [*other.columns, other.positions, *(other.keys or [])],
            strict=True,
        )
        for one, two in pairs:
            if (one is None) != (two is None) or (one is not None and plain(one) != plain(two)):
                return False
    return True


@given(sent(), st.booleans())
@settings(max_examples=150)
def test_what_is_sent_arrives(given_: tuple[ChannelMessage, Shape], canonical: bool) -> None:
    message, shape = given_
    pieces = encode(message, shape, canonical=canonical)
    assert frame_lengths(pieces[0], "a>b") == (len(pieces[1]), sum(len(p) for p in pieces[2:]))
    assert same(decode(b"".join(bytes(p) for p in pieces), shape), message)


def test_equal_texts_have_equal_bytes() -> None:
    """Two workers have other codes for the same texts; the digest of a recorded message must not show it."""
    shape = Shape({"x": STR})
    one = ChannelMessage(EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([0, 1, 0]), ["a", "b"])])})
    two = ChannelMessage(
        EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([7, 3, 7]), ["c", "", "d", "b", "e", "f", "g", "a"])])}
    )
    found = [content(m, encode(m, shape, canonical=True)[2:]) for m in (one, two)]
    assert found[0] == found[1]
    other = ChannelMessage(EVENTS, 1, 0, 3, {"x": Events([Strings(np.array([0, 1, 1]), ["a", "b"])])})
    assert content(other, encode(other, shape, canonical=True)[2:]) != found[0]


def test_through_a_channel_in_order_and_with_the_same_digests() -> None:
    """More bytes than the socket holds, more streams than one call takes, columns with gaps, and a border that travels
    along."""
    sender, receiver = channel()
    shape = Shape({"x": INT, "t": STR, **{f"s{i}": BOOL for i in range(400)}})
    out, box = Outbox("a>b", sender, shape, noted=True), Inbox("a>b", receiver, shape, noted=True)
    wide = {f"s{i}": Events([np.array([True, False, True])]) for i in range(400)}
    gaps = np.arange(3_000_000)[::3]
    messages = [
        ChannelMessage(EVENTS, 1, 0, 1_000_000, {"x": Events([gaps], np.arange(1_000_000) * 2)}),
        ChannelMessage(EVENTS, 1, 0, 3, wide, closes=True),
        ChannelMessage(EVENTS, 2, 3, 5, {"t": Events([Strings(np.array([0, 0]), ["ü"])])}),
    ]

    def send() -> None:
        for message in messages:
            pieces = out.prepare(message)
            if message.closes:
                out.prepare_closing(message.border())
            out.send(pieces)
        out.send(out.prepare(ChannelMessage(END, 0)))
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    got = [box.get() for _ in range(5)]
    thread.join()
    assert [m.kind for m in got] == [EVENTS, EVENTS, BORDER, EVENTS, END] and [m.n for m in got[:4]] == [0, 1, 2, 3]
    for message, found in zip(messages, [got[0], got[1], got[3]], strict=True):
        assert same(message, found) and message.digest == found.digest
    receiver.close()


def test_what_is_no_message_is_said_so() -> None:
    sender, receiver = channel()
    box = Inbox("a>b", receiver, Shape({}), noted=False)
    sender.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RuntimeError, match="a>b: no message begins here"):
        box.get()
    sender.close()
    receiver.close()


# Functions that look inside text, in runs with epochs: tables are made again wherever a run goes on.

NAMES = {"AA": "American", "UA": "United"}


@pipeline
def named(x: Stream[str]) -> Stream[str]:
    told = x.map(lambda s: f"{NAMES.get(s.strip().upper(), '?')}:{len(s)}", id="told")
    return told.cumulate(lambda last, s: (last + s)[-20:], start="", id="last")


ROWS = [f"{c}{' ' * (i % 3)}" for i, c in enumerate(["aa", "UA", "x", "ß"] * 300)]


def by_hand() -> list[str]:
    out, last = [], ""
    for s in ROWS:
        last = (last + f"{NAMES.get(s.strip().upper(), '?')}:{len(s)}")[-20:]
        out.append(last)
    return out


def test_the_borders_do_not_matter(tmp_path: Path) -> None:
    import json

    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"x": s}) + "\n" for s in ROWS))
    for pushes, cut in ((5000, []), (37, ["told"])):
        out = tmp_path / f"out{pushes}.jsonl"
        run_epochs(
            named, str(tmp_path / "in.jsonl"), out, state=tmp_path / f"s{pushes}", pushes=pushes, chunk=64, cut=cut
        )
        assert [json.loads(line)["out"] for line in out.read_text().splitlines()] == by_hand()


def test_two_processes_agree_who_it_is() -> None:
    """A run goes on in another process only if its pipeline is the same one there."""
    code = "from tests.engine.epochs.test_channels import named; print(named.graph.digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {named.graph.digest}
