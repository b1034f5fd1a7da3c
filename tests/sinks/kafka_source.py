"""A streaming source for the tests that reads a Kafka topic by offsets, written with Spark's Python data source API.

pip's pyspark does not bring Spark's own Kafka source, and its jars cannot be had everywhere.  What the tests need of a
source is that it is replayable: Spark logs the offsets of a micro-batch first, and asks for exactly those again after a
crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Slice(InputPartition):
    """Some offsets of one partition of the topic."""

    def __init__(self, partition: int, first: int, end: int) -> None:
        super().__init__(json.dumps([partition, first, end]))
        self.partition, self.first, self.end = partition, first, end


class Reader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.bootstrap, self.topic = options["kafka.bootstrap.servers"], options["subscribe"]

    def initialOffset(self) -> dict[str, int]:
        return {str(partition): low for partition, (low, _) in self._bounds().items()}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {str(partition): high for partition, (_, high) in self._bounds().items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [
            Slice(int(partition), start[partition], end[partition])
            for partition in sorted(end)
            if start[partition] < end[partition]
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes | None, bytes | None]]:
        from confluent_kafka import KafkaError, TopicPartition

        assert isinstance(partition, Slice)
        consumer = self._consumer()
        consumer.assign([TopicPartition(self.topic, partition.partition, partition.first)])
        try:
            while True:
                message = consumer.poll(30)
                assert message is not None, "Kafka sent nothing for 30 s"
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return  # what is left of the slice are marks of transactions, which are no records
                if message.offset() >= partition.end:
                    return
                yield message.key(), message.value()
                if message.offset() + 1 == partition.end:
                    return
        finally:
            consumer.close()

    def _bounds(self) -> dict[int, tuple[int, int]]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        try:
            known = consumer.list_topics(self.topic, timeout=30).topics[self.topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=30)
                for number in known
            }
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "kafka-for-tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )


class KafkaForTests(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kafka-for-tests"

    def schema(self) -> str:
        return "key binary, value binary"

    def streamReader(self, schema: Any) -> Reader:
        return Reader(self.options)
