"""The Kafka sink against a real broker: transactions, fencing, replays, and streaming queries that are killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid import sinks
from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from tests.engine.epochs.rich_rows import many, same
from tests.engine.epochs.test_rich import table_of
from tests.sinks import broker as brokers
from tests.sinks.crash import forget_last_commit, make_source, rows_in, run_job

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(java_home: Any) -> Iterator[brokers.Broker]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install confluent-kafka")
    try:
        brokers.jars(brokers.KAFKA)
    except brokers.Unavailable as reason:
        pytest.skip(str(reason))
    with brokers.serve(str(Path(java_home.home) / "bin" / "java")) as running:
        yield running


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "user": pa.array([f"u{i % 3}" for i in ids], pa.string())})


def ids_in(sink: sinks.Sink) -> Counter[int]:
    return Counter(json.loads(value)["id"] for value in sink.read()["value"].to_pylist())


def test_each_batch_once_also_from_a_new_driver(broker: brokers.Broker) -> None:
    topic = broker.topic()
    first = sinks.kafka(broker.address, topic, key="user")
    assert [first.write(rows(batch, batch + 10), "q", batch).skipped for batch in (0, 1, 1)] == [False, False, True]
    second = sinks.kafka(broker.address, topic, key="user")
    assert second.write(rows(1, 11), "q", 1).skipped and not second.write(rows(2), "q", 2).skipped
    assert not second.write(rows(), "q", 3).skipped and second.last("q") == 3  # an empty batch has a number, too
    assert not sinks.kafka(broker.address, topic).write(rows(50), "another-checkpoint", 0).skipped
    assert ids_in(second) == Counter([0, 10, 1, 11, 2, 50])
    assert second.read()["key"].to_pylist().count(b"u1") == 2  # of 1 and 10


def test_every_type_comes_back(broker: brokers.Broker, tmp_path: Path) -> None:
    """What is in the topic, line by line, is what a pipeline over the same record reads; an infinity is a text there,
    as Spark's to_json has it."""
    table = table_of(many(40))
    sink = sinks.kafka(broker.address, broker.topic())
    sink.write(table, "q", 0)
    (tmp_path / "in.jsonl").write_bytes(b"".join(value + b"\n" for value in sink.read()["value"].to_pylist()))
    same.run_epochs(tmp_path / "in.jsonl", tmp_path / "out.parquet", state=tmp_path / "state", pushes=20)
    assert sorted(pq.read_table(tmp_path / "out.parquet").to_pylist(), key=lambda row: row["i"]) == table.to_pylist()
    odd = pa.table({"x": [float("inf"), float("-inf"), float("nan")]})
    other = sinks.kafka(broker.address, broker.topic())
    other.write(odd, "q", 0)
    assert sorted(other.read()["value"].to_pylist()) == [b'{"x":"-Infinity"}', b'{"x":"Infinity"}', b'{"x":"NaN"}']


def test_a_zombie_is_fenced(broker: brokers.Broker) -> None:
    topic = broker.topic()
    zombie, new = sinks.kafka(broker.address, topic), sinks.kafka(broker.address, topic)
    zombie.write(rows(0), "q", 0)
    new.write(rows(1), "q", 1)
    with pytest.raises(StateError, match="another driver of query 'q' has taken over; this one must stop"):
        zombie.write(rows(1), "q", 1)
    assert ids_in(new) == Counter([0, 1])


def test_zombie_in_the_middle_of_its_transaction(broker: brokers.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zombie has sent everything but the commit when the new driver starts: the zombie's rows never count."""
    topic = broker.topic()
    zombie, new = sinks.kafka(broker.address, topic), sinks.kafka(broker.address, topic)
    zombie.write(rows(0), "q", 0)

    def overtake(name: str) -> None:
        if name == "kafka:before-commit":
            monkeypatch.setattr(faults, "point", lambda name: None)
            new.write(rows(1, 2), "q", 1)

    monkeypatch.setattr(faults, "point", overtake)
    with pytest.raises(StateError, match="has taken over"):
        zombie.write(rows(1, 2), "q", 1)
    assert ids_in(new) == Counter([0, 1, 2])


def test_a_failed_batch_is_aborted_whole(broker: brokers.Broker) -> None:
    topic = broker.topic()
    sink = sinks.kafka(broker.address, topic)

    def broken() -> Iterator[pa.RecordBatch]:
        yield rows(1, 2).to_batches()[0]
        raise RuntimeError("the job failed")

    with pytest.raises(RuntimeError, match="the job failed"):
        sink.write(pa.RecordBatchReader.from_batches(rows().schema, broken()), "q", 0)
    assert sink.last("q") is None
    sink.write(rows(1, 2), "q", 0)
    assert ids_in(sink) == Counter([1, 2])


def test_a_forgotten_number_is_not_guessed(broker: brokers.Broker) -> None:
    topic = broker.topic()
    with pytest.raises(StateError, match=r"keeps no number for query 'q', yet this is batch 7.*first_batch=7"):
        sinks.kafka(broker.address, topic).write(rows(1), "q", 7)
    sink = sinks.kafka(broker.address, topic, first_batch=7)
    assert [sink.write(rows(batch), "q", batch).skipped for batch in (7, 7, 8)] == [False, True, False]


def test_a_topic_that_was_made_anew_is_noticed(broker: brokers.Broker) -> None:
    """Whether the broker forgot the number with the topic, or kept it: the next batch is not written as if nothing had
    happened."""
    import time

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = broker.topic()
    sink = sinks.kafka(broker.address, topic)
    for batch in range(2):
        sink.write(rows(batch, batch + 10), "q", batch)
    assert sink._session("q").records == 4
    assert sinks.kafka(broker.address, topic)._session("q").records == 4  # as the broker keeps it
    sink.close()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(60)
    for _ in range(100):
        try:
            admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
            break
        except KafkaException:  # it is still being deleted
            time.sleep(0.2)
    for _ in range(100):
        if topic in admin.list_topics(timeout=10).topics:
            break
        time.sleep(0.2)
    with pytest.raises(
        StateError, match=r"was the topic deleted and recreated|keeps no number for query 'q', yet this is batch 2"
    ):
        sinks.kafka(broker.address, topic).write(rows(2), "q", 2)


def test_messages(broker: brokers.Broker) -> None:
    with pytest.raises(DataError, match="has no topic 'nope': create it first"):
        sinks.kafka(broker.address, "nope").write(rows(1), "q", 0)
    with pytest.raises(DataError, match="key='nobody': there is no such column; there are id, user"):
        sinks.kafka(broker.address, "nope", key="nobody").write(rows(1), "q", 0)
    with pytest.raises(DataError, match=r"Kafka cannot be reached at 127\.0\.0\.1:1"):
        sinks.kafka("127.0.0.1:1", "nope", wait=3).write(rows(1), "q", 0)


def test_files_to_kafka_killed_and_replayed(broker: brokers.Broker, tmp_path: Path) -> None:
    expected = make_source(tmp_path / "source")
    target = {"bootstrap": broker.address, "topic": broker.topic(), "key": "user"}
    config = {"source": str(tmp_path / "source"), "work": str(tmp_path / "work"), "sinks": {"kafka": ["kafka", target]}}
    for point in ("kafka:before-commit", "kafka:after-commit"):
        assert run_job({**config, "kill": ["kafka", point, 2]}, tmp_path) == -signal.SIGKILL
    assert run_job({**config, "kill": None}, tmp_path) == 0
    for _ in range(2):
        found = [json.loads(value) for value in sinks.kafka(**target).read()["value"].to_pylist()]
        assert rows_in(pa.Table.from_pylist(found)) == expected
        forget_last_commit(tmp_path / "work", "kafka")
        assert run_job({**config, "kill": None}, tmp_path) == 0


def spark_kafka_jars() -> str:
    """The jars of Spark's own Kafka source for this Spark, as ``spark.jars`` takes them."""
    import pyspark

    folder = brokers.jars(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}")
    return ",".join(
        str(path)
        for path in sorted(folder.glob("*.jar"))
        if path.name.startswith(("spark-sql-kafka", "spark-token", "kafka-clients", "commons-pool2"))
    )


@pytest.mark.parametrize("source", ["kafka-for-tests", "kafka"])
def test_kafka_to_kafka_killed_and_replayed(broker: brokers.Broker, tmp_path: Path, source: str) -> None:
    """Records arrive while the query is down; the replayed batch must have exactly the records it had before the
    crash."""
    conf = {}
    if source == "kafka":
        try:
            conf = {"spark.jars": spark_kafka_jars()}
        except brokers.Unavailable as reason:
            pytest.skip(str(reason))
    upstream, target = (
        broker.topic(),
        {"bootstrap": broker.address, "topic": broker.topic(), "key": "key", "value": "value"},
    )
    feed = sinks.kafka(broker.address, upstream, key="user")
    options = {
        "format": source,
        "kafka.bootstrap.servers": broker.address,
        "subscribe": upstream,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    config = {"work": str(tmp_path / "work"), "sinks": {"out": ["kafka", target]}, "kafka": options, "conf": conf}
    ends = [(None, 0), ("kafka:before-commit", -signal.SIGKILL), ("kafka:after-commit", -signal.SIGKILL), (None, 0)]
    for number, (point, code) in enumerate(ends):
        feed.write(rows(*range(number * 100, number * 100 + 60)), "feed", number)
        assert run_job({**config, "kill": point and ["out", point, 1]}, tmp_path) == code
    expected = Counter(i for number in range(len(ends)) for i in range(number * 100, number * 100 + 60))
    out = sinks.kafka(**target)
    assert ids_in(out) == expected
    forget_last_commit(tmp_path / "work", "out")
    assert run_job({**config, "kill": None}, tmp_path) == 0
    assert ids_in(out) == expected
    by_key = [json.loads(row["value"])["id"] for row in out.read().to_pylist() if row["key"] == b"u0"]
    assert by_key == sorted(by_key)  # the order inside a key stays
