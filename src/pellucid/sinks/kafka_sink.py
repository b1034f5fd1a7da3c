"""Kafka: the records and the number of the batch in one Kafka transaction.

The transactional id is derived from the query, so a driver that starts fences the one before it: whatever a zombie had
open is aborted, and its next call fails.  The batch's number goes into the same transaction as an *offset* (batch + 1)
of the consumer group ``pellucid-<query>`` on the topic's partition 0; no consumer uses that group, it is only the
place where Kafka commits a number together with records.  A driver that starts reads the number after fencing, when it
can no longer change.  Readers with ``isolation.level=read_committed`` see each record once.

Kafka forgets the offsets of a silent group after ``offsets.retention.minutes`` (seven days).  A batch above 0 without a
number is therefore refused instead of guessed.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from pellucid.errors import DataError, StateError
from pellucid.internal.base import faults
from pellucid.internal.secrets import is_secret, without
from pellucid.sinks import interface
from pellucid.sinks.rows import Rows, refuse_doubled, rows_of, schema_of, value_text

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaSink(interface.Sink):
    """A Kafka topic in which each micro-batch counts once for readers with ``isolation.level=read_committed``.

    A record's value is the row as JSON, or the column ``value`` as it is (bytes or text); ``key`` names the column of
    the record's key.  ``config`` goes to librdkafka (security, compression).  ``first_batch`` says that the sink begins
    with this batch of an older checkpoint.  The broker must allow ``transaction_timeout`` seconds
    (``transaction.max.timeout.ms``).

    >>> kafka("localhost:9092", "sums", key="user").kind
    'kafka'
    """

    kind: ClassVar[str] = "kafka"
    guarantee: ClassVar[str] = (
        "a reader with isolation.level=read_committed sees each batch whole and once, because its records and its "
        "number are one Kafka transaction"
    )

    wait: float

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        key: str | None = None,
        value: str | None = None,
        first_batch: int | None = None,
        wait: float = 60.0,
        transaction_timeout: float = 600.0,
        config: dict[str, Any] | None = None,
        query: str | None = None,
    ) -> None:
        super().__init__(query, first_batch)
        self.bootstrap, self.topic = bootstrap, topic
        self.key, self.value = key, value
        self.wait, self.transaction_timeout = wait, transaction_timeout
        self.config = dict(config or {})
        self._open: dict[str, _Session] = {}
        self._turns = interface.Turns()

    @property
    def place(self) -> str:
        return f"topic {self.topic!r}"

    def last(self, query: str) -> int | None:
        with closing(self._consumer(f"pellucid-{query}")) as consumer:
            return _committed(consumer, self.topic, self.wait)[0]

    def check_turn(self, query: str, batch: int) -> None:
        """Taken over first: the transaction that a killed driver left open would hold the number back until it ends."""
        with self._turns.taken(query, self.place, self.wait), self._told(query, batch):
            self._session(query)
        super().check_turn(query, batch)

    def close(self) -> None:
        for query in list(self._open):
            self._forget(query)

    def _forget(self, query: str) -> None:
        session = self._open.pop(query, None)
        if session is not None:
            session.consumer.close()

    def read(self) -> pa.Table:
        """The committed records of the topic, by partition and offset: columns partition, offset, key, value."""
        import pyarrow as pa
        from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

        consumer = self._consumer("pellucid-read", **{"enable.partition.eof": True})
        try:
            waiting = set(consumer.list_topics(self.topic, timeout=self.wait).topics[self.topic].partitions)
            consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING) for partition in waiting])
            found = []
            while waiting:
                message = consumer.poll(self.wait)
                if message is None:
                    raise DataError(f"topic {self.topic!r}: Kafka sent nothing for {self.wait:g} s")
                if message.error() is None:
                    found.append((message.partition(), message.offset(), message.key(), message.value()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    raise DataError(f"topic {self.topic!r}: {message.error().str()}")
        finally:
            consumer.close()
        found.sort(key=lambda record: record[:2])
        schema = pa.schema({"partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "value": pa.binary()})
        columns = list(zip(*found, strict=True)) or [()] * 4
        return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def stage(self, data: Any, query: str, batch: int) -> interface.Staged:
        """The records are sent in a transaction, which readers of committed records do not see."""
        schema = schema_of(data)
        refuse_doubled(schema.names)  # a row as JSON would keep one of them
        for what, column in (("key", self.key), ("value", self.value)):
            if column is not None and column not in schema.names:
                raise DataError(
                    f"topic {self.topic!r}: {what}={column!r}: there is no such column; there are "
                    f"{', '.join(schema.names)}"
                )
        with ExitStack() as stack:
            stack.enter_context(self._turns.taken(query, f"topic {self.topic!r}", self.wait))
            with self._told(query, batch):
                session = self._session(query)
                if session.last is None and batch > 0 and self.first_batch != batch:
                    raise StateError(
                        f"topic {self.topic!r}: Kafka keeps no number for query {query!r}, yet this is batch {batch}: "
                        "either the sink is new for this checkpoint, or Kafka has forgotten the number "
                        "(offsets.retention.minutes). If the topic does not hold "
                        f"batch {batch} yet, say so with first_batch={batch}"
                    )
                if session.last is not None and batch <= session.last:
                    return interface.Staged(query, batch, skipped=True)
                count = session.send(rows_of(data))
            return interface.Staged(query, batch, count, (session, stack.pop_all()))

    def prepare(self, staged: interface.Staged) -> None:
        """The number goes into the transaction, and the broker has all records."""
        with self._told(staged.query, staged.batch):
            staged.held[0].mark(staged.batch, staged.rows)

    def commit(self, staged: interface.Staged) -> None:
        session, stack = staged.held
        with self._told(staged.query, staged.batch):
            faults.point("kafka:before-commit")
            session.commit(staged.batch, staged.rows)
        stack.close()
        faults.point("kafka:after-commit")

    def abort(self, staged: interface.Staged) -> None:
        """Abort the transaction; the next call starts with a new producer."""
        session, stack = staged.held
        session.abort()
        self._forget(staged.query)
        stack.close()

    @contextmanager
    def _told(self, query: str, batch: int) -> Iterator[None]:
        """Where something fails, the next call starts with a new producer, which aborts what this one left open."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            self._forget(query)
            raise self._explained(error, query, batch) from error
        except BaseException:
            self._forget(query)
            raise

    def _explained(self, error: Exception, query: str, batch: int) -> Exception:
        from confluent_kafka import KafkaError

        reason = error.args[0]
        if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return StateError(
                f"topic {self.topic!r}: batch {batch}: another driver of query {query!r} has taken over; this one must "
                "stop"
            )
        return DataError(f"topic {self.topic!r}: batch {batch}: {self._clean(reason)}")

    def _clean(self, reason: Any) -> str:
        """What Kafka says, without the secrets of the settings."""
        return without(str(reason.str()), [str(value) for key, value in self.config.items() if is_secret(key)])

    def _session(self, query: str) -> _Session:
        if query not in self._open:
            self._open[query] = _Session(self, query)
        return self._open[query]

    def _consumer(self, group: str, **more: Any) -> Any:
        return _confluent().Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                **self.config,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
                **more,
            }
        )


class _Session:
    """One producer that has fenced all before it, and the last batch, which from then on only this producer can
    change."""

    def __init__(self, sink: KafkaSink, query: str) -> None:
        confluent = _confluent()
        self.sink, self.query, self.open = sink, query, False
        self.consumer = sink._consumer(f"pellucid-{query}")
        _require_topic(self.consumer, sink)
        self.producer = confluent.Producer(
            {
                "bootstrap.servers": sink.bootstrap,
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": 0,
                **sink.config,
                "enable.idempotence": True,
                "transactional.id": f"pellucid-{query}-{sink.topic}",
                "transaction.timeout.ms": int(sink.transaction_timeout * 1000),
            }
        )
        self.producer.init_transactions(sink.wait)
        self.last, self.records = _committed(self.consumer, sink.topic, sink.wait)
        self._look()

    def _look(self) -> None:
        """The topic's offsets only grow: fewer than the records that were committed tell that it was made anew."""
        from confluent_kafka import TopicPartition

        if not self.records:
            return
        topics = self.consumer.list_topics(self.sink.topic, timeout=self.sink.wait).topics
        ends = [
            self.consumer.get_watermark_offsets(TopicPartition(self.sink.topic, number), timeout=self.sink.wait)[1]
            for number in topics[self.sink.topic].partitions
        ]
        if sum(ends) < self.records:
            raise StateError(
                f"topic {self.sink.topic!r}: {self.records:,} records were written there up to batch {self.last} of "
                f"query {self.query!r}, but it has had only {sum(ends):,}: was the topic deleted and made anew? "
                "Batches that are there by their number would be left out. Begin with a new checkpoint, which is a new "
                "query"
            )

    def send(self, rows: Rows) -> int:
        """Send the rows in a transaction; how many there were."""
        try:
            for piece in rows:
                self._begin()  # not before there is a row: computing the batch must not eat the transaction's time
                for key, value in _records(piece, self.sink.key, self.sink.value):
                    self._produce(key, value)
            self._begin()
        except BaseException:
            self.abort()
            raise
        return rows.count

    def _begin(self) -> None:
        if not self.open:
            self.producer.begin_transaction()
            self.open = True

    def mark(self, batch: int, count: int) -> None:
        """Send the number."""
        from confluent_kafka import TopicPartition

        mark = TopicPartition(self.sink.topic, 0, batch + 1, f"records={self.records + count}")
        self.producer.send_offsets_to_transaction([mark], self.consumer.consumer_group_metadata(), self.sink.wait)
        self.producer.flush(self.sink.wait)

    def abort(self) -> None:
        """Abort what is open; the first error is the one to tell, and the next producer aborts what is left."""
        if self.open:
            self.open = False
            with suppress(Exception):
                self.producer.abort_transaction(self.sink.wait)

    def _produce(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self.producer.produce(self.sink.topic, value=value, key=key)
                return
            except BufferError:  # the queue is full: let some go out
                self.producer.poll(0.1)

    def commit(self, batch: int, count: int) -> None:
        """Make the records and the number visible."""
        from confluent_kafka import KafkaException

        for attempt in range(5):
            try:
                self.producer.commit_transaction(self.sink.wait)
                self.open, self.last, self.records = False, batch, self.records + count
                return
            except KafkaException as error:
                if not error.args[0].retriable() or attempt == 4:
                    raise


def _require_topic(consumer: Any, sink: KafkaSink) -> None:
    from confluent_kafka import KafkaException

    try:
        topics = consumer.list_topics(timeout=min(sink.wait, 15.0)).topics
    except KafkaException as error:
        raise DataError(f"Kafka cannot be reached at {sink.bootstrap}: {sink._clean(error.args[0])}") from None
    if sink.topic not in topics:
        raise DataError(
            f"Kafka at {sink.bootstrap} has no topic {sink.topic!r}: create it first, with the partitions you want"
        )


def _committed(consumer: Any, topic: str, wait: float) -> tuple[int | None, int]:
    """The number of the last batch, and how many records there were up to it (0: not counted, by an earlier
    version)."""
    from confluent_kafka import TopicPartition

    (mark,) = consumer.committed([TopicPartition(topic, 0)], timeout=wait)
    if mark.error is not None:
        raise DataError(f"topic {topic!r}: the number of the last batch cannot be read: {mark.error.str()}")
    counted = re.fullmatch(r"records=(\d+)", mark.metadata or "")
    return (None if mark.offset < 0 else int(mark.offset) - 1), (int(counted[1]) if counted else 0)


def _records(batch: pa.RecordBatch, key: str | None, value: str | None) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The key and the value of each row.

    >>> import pyarrow as pa
    >>> list(_records(pa.RecordBatch.from_pydict({"user": ["a"], "sum": [1.5]}), "user", None))
    [(b'a', b'{"user":"a","sum":1.5}')]
    """
    keys = [None] * batch.num_rows if key is None else [_bytes(item) for item in batch.column(key).to_pylist()]
    if value is not None:
        values = [_bytes(item) for item in batch.column(value).to_pylist()]
    else:
        encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
        values = [encode(_plain(row)).encode() for row in batch.to_pylist(maps_as_pydicts="strict")]
    return zip(keys, values, strict=True)


def _bytes(item: Any) -> bytes | None:
    if item is None or isinstance(item, bytes):
        return item
    return item.encode() if isinstance(item, str) else str(_plain(item)).encode()


def _plain(item: Any) -> Any:
    """A value as JSON has it; what JSON lacks is written as Spark's ``to_json`` writes it, or as ISO text; a decimal as
    text, which no reader takes for a float.

    >>> import datetime
    >>> _plain({"a": float("nan"), "b": b"x", "c": [1, None], "d": datetime.timedelta(minutes=90)})
    {'a': 'NaN', 'b': 'eA==', 'c': [1, None], 'd': 'PT1H30M'}
    """
    if item is None or isinstance(item, (bool, int, str)):
        return item
    if isinstance(item, float):
        return item if math.isfinite(item) else "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    if isinstance(item, dict):
        return {str(name): _plain(part) for name, part in item.items()}
    if isinstance(item, (list, tuple)):
        return [_plain(part) for part in item]
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    return value_text(item)


def _confluent() -> Any:
    words = "the Kafka sink needs the package confluent-kafka: pip install confluent-kafka"
    return interface.needed("confluent_kafka", words)


kafka = KafkaSink
