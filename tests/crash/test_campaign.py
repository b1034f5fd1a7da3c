"""Streaming jobs killed with ``kill -9``: nothing lost, nothing twice, equal to the interpreter.

The short tests kill one job a few times, with several sinks at once, and replay its last batches.  The whole campaign
is long; it is also a program, ``python -m tests.crash``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.__main__ import SINKS, one
from tests.crash.contents import compared
from tests.crash.harness import ENDING, Kill, World, schedule, targets
from tests.crash.pipelines import CASES
from tests.sinks.postgres import Postgres

FEW = ("parquet", "sqlite", "postgres", "delta")  # of the sinks; all of them have their kills in `test_campaign`


@pytest.fixture(scope="module")
def killed(java_home: object, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> World:
    """In the middle of a task; and right after a snapshot, before its batch is in the sink.  Batches that are in it
    come again below.

    One more sink, ``append``, does not look whether a batch is there already.
    """
    pytest.importorskip("deltalake")
    folder = tmp_path_factory.mktemp("crash") / "world"
    world = World("sums", folder, targets(folder, [*FEW, "append"], postgres.database()), seed=3, files=3, spare=16)
    kills = [Kill("worker", "snapshot", 0.0), Kill("driver", "snapshot", 0.01)]
    world.campaign(kills)
    return world


def test_the_kills_hit(killed: World) -> None:
    assert len(killed.hits) == 2
    assert any(hit.within(name) for hit in killed.hits for name in killed.sinks), "no kill found a batch open"


@pytest.mark.parametrize("sink", FEW)
def test_nothing_lost_nothing_twice(killed: World, sink: str) -> None:
    assert str(killed.verdict(sink)) == "exact"


def test_replayed_batches_change_nothing(killed: World) -> None:
    """Runs last: it changes the checkpoints.  In the sink that does not look, the same is found: a batch twice, and
    nothing else."""
    before = {name: verdict.rows for name, verdict in killed.verdicts()}
    killed.forget_last_commits()
    killed.finish()
    after = dict(killed.verdicts())
    wrong = after.pop("append")
    assert not wrong.right and wrong.only_again and wrong.rows == before["append"] + killed.rows and not wrong.lost, (
        wrong
    )
    for name, verdict in after.items():
        assert verdict.right and verdict.rows == before[name], f"{name}: {verdict}"


# ------------------------------------------------------------ what is wrong must be found


@pytest.mark.long  # in every run it is one of the sinks above
def test_a_sink_without_a_batch_id_is_caught(java_home: object, tmp_path: Path) -> None:
    world = World("sums", tmp_path / "w", targets(tmp_path / "w", ["append"]), files=2)
    world.release()
    world.campaign([Kill("driver", "point", ("append:after-commit", 1))])
    verdict = world.verdict("append")
    assert not verdict.right and verdict.only_again and verdict.extra.total() == 60 and not verdict.lost, verdict


@pytest.mark.long  # in every run tests/spark/state/test_store.py says which version is read
def test_a_state_that_is_read_one_version_too_new_is_caught(java_home: object, tmp_path: Path) -> None:
    world = World("floats", tmp_path / "w", targets(tmp_path / "w", ["sqlite"]), files=3, broken="state")
    world.release()
    world.campaign([Kill("driver", "point", ("sqlite:before-commit", 2))])
    verdict = world.verdict("sqlite")
    assert len(world.hits) == 1 and not verdict.right and verdict.lost, verdict


def test_the_comparison_sees_every_difference() -> None:
    answer = [(1, 1, "out", 0, (5,)), (1, 2, "out", 0, (7,))]
    assert compared(answer, answer[::-1]).right
    assert str(compared(answer, answer[:1])).startswith("WRONG: 1 lost, 0 again")
    assert str(compared(answer, [*answer, answer[0]])).startswith("WRONG: 0 lost, 1 again")
    assert str(compared(answer, [answer[0], (1, 2, "out", 0, (8,))], allowed=5)).startswith(
        "WRONG: 1 lost, 1 wrong or again"
    )


def test_schedules() -> None:
    kills = schedule(random.Random(1), 400, SINKS)
    assert {k.victim for k in kills} == {*ENDING, "worker", "daemon"}
    assert {k.moment for k in kills} == {"time", "offsets", "commits", "snapshot", "point"}
    assert all(k.victim == "driver" for k in kills if k.moment == "point")


def test_the_answers_are_not_trivial() -> None:
    for name, case in CASES.items():
        parts = case.files(1, 8, 60)
        answer = case.answer(parts)
        assert len(answer) > 300 and len(set(answer)) == len(answer), name
        # The state goes over the border between two files: file by file, each from nothing, the answer would be
        # another.
        assert set(answer) != {event for part in parts for event in case.answer([part])}, name


# ------------------------------------------------------------ all of it


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_campaign(java_home: object, postgres: Postgres, tmp_path: Path, name: str) -> None:
    result = one(name, 10, 1, tmp_path / "w", SINKS, postgres)
    assert result.failure is None and len(result.world.hits) >= 6
    for verdicts in (result.verdicts, result.replayed):
        assert [sink for sink, verdict in verdicts.items() if not verdict.right] == [], verdicts


@pytest.fixture(scope="module")
def broker(java_home: object) -> Iterator[object]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install confluent-kafka")
    from pellucid.spark import java
    from tests.sinks import broker as brokers

    try:
        brokers.jars(brokers.KAFKA)
    except brokers.Unavailable as reason:
        pytest.skip(str(reason))
    with brokers.serve(str(Path(java.find().home) / "bin" / "java")) as running:
        yield running


@pytest.mark.kafka
@pytest.mark.parametrize("name", ["runs", "trades"])
def test_kafka(broker: object, tmp_path: Path, name: str) -> None:
    result = one(name, 5, 1, tmp_path / "w", ["kafka"], None, broker)  # type: ignore[arg-type]
    assert result.right, (result.failure, result.verdicts, result.replayed)
