"""A query that was stopped and started again in one process: the earlier call may still run, and must not share
anything with the new one."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pellucid import sinks
from pellucid.errors import StateError
from pellucid.sinks import interface, once_sink

ROWS = pa.table({"id": [1]})


class Slow:
    """A call that goes on until it is let go; counts how many run at once, and how many there were."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.now = self.most = self.calls = 0

    def __call__(self, *_: Any) -> None:
        self.now += 1
        self.calls += 1
        self.most = max(self.most, self.now)
        self.begun.set()
        assert self.go_on.wait(30)
        self.now -= 1


class FakeSession:
    """Stands for a producer and its transaction: ``last`` is what it committed."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.last: int | None = None

    def send(self, rows: Any) -> int:
        self.slow()
        return 1

    def mark(self, batch: int, count: int) -> None:
        pass

    def commit(self, batch: int, count: int) -> None:
        self.last = batch


def made(kind: str, slow: Slow, folder: Path, monkeypatch: pytest.MonkeyPatch, wait: float) -> sinks.Sink:
    if kind == "once":
        monkeypatch.setattr(once_sink, "_WAIT", wait)
        return sinks.once(slow, ledger=folder)
    pytest.importorskip("confluent_kafka")
    sink = sinks.kafka("nowhere:1", "t", wait=wait)
    session = FakeSession(slow)
    monkeypatch.setattr(sink, "_session", lambda query: session)
    return sink


@pytest.mark.parametrize("kind", ["once", "kafka"])
def test_the_new_call_waits_for_the_earlier_one_and_sees_what_it_did(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    sink = made(kind, slow, tmp_path, monkeypatch, 30)
    written: list[interface.Written] = []
    calls = [threading.Thread(target=lambda: written.append(sink.write(ROWS, "q", 0))) for _ in range(2)]
    calls[0].start()
    assert slow.begun.wait(30)
    calls[1].start()
    calls[1].join(0.2)  # time enough to go wrong
    assert written == [] and slow.most == 1
    slow.go_on.set()
    for call in calls:
        call.join(30)
    assert sorted(one.skipped for one in written) == [False, True] and slow.calls == 1


@pytest.mark.parametrize("kind", ["once", "kafka"])
def test_one_that_does_not_end_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    sink = made(kind, slow, tmp_path, monkeypatch, 0.05)
    call = threading.Thread(target=lambda: sink.write(ROWS, "q", 0))
    call.start()
    assert slow.begun.wait(30)
    with pytest.raises(
        StateError, match=r"an earlier batch of query 'q' is still being written in this process after 0\.05 s"
    ):
        sink.write(ROWS, "q", 0)
    slow.go_on.set()
    call.join(30)
    assert slow.calls == 1 and sink.write(ROWS, "q", 0).skipped


def test_a_sink_can_be_sent_to_another_process(tmp_path: Path) -> None:
    for sink in (sinks.once(print, ledger=tmp_path), sinks.kafka("nowhere:1", "t"), sinks.parquet(tmp_path)):
        assert pickle.loads(pickle.dumps(sink)).guarantee == sink.guarantee
