"""A real Kafka broker for the tests: its jars from Maven Central, one KRaft node, its own folder and ports, gone
afterwards.

The jars are kept in a cache folder (``PELLUCID_JARS``, else ``~/.cache/pellucid/jars``).  Where Maven or the network is
missing, :class:`Unavailable` says so, and the tests are skipped with that reason.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>pellucid.tests</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies>
</project>"""


class Unavailable(Exception):  # noqa: N818 - reads as what it is
    """The jars cannot be brought here; the message says why."""


def jars(coordinates: str) -> Path:
    """The folder with an artifact's jar and all that it needs at run time, brought by Maven if it is not there yet."""
    base = Path(os.environ.get("PELLUCID_JARS") or Path.home() / ".cache" / "pellucid" / "jars")
    folder = base / coordinates.replace(":", "-")
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(f"no Maven (mvn) on the PATH to bring {coordinates}")
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base) as work:
        (Path(work) / "pom.xml").write_text(_POM.format(*coordinates.split(":")))
        command = [
            maven,
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={work}/jars",
        ]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven did not bring {coordinates} within ten minutes") from None
        if done.returncode:
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
            raise Unavailable(f"Maven cannot bring {coordinates}: {reason[:300]}")
        os.rename(Path(work) / "jars", folder)
    return folder


class Broker:
    """A running broker; ``address`` is what clients take."""

    def __init__(self, folder: Path, java: str, address: str) -> None:
        self.folder, self.java, self.address = folder, java, address

    def topic(self, partitions: int = 2) -> str:
        """A new topic, empty."""
        from confluent_kafka.admin import AdminClient, NewTopic

        name = f"topic-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            made.result(60)
        return name


@contextmanager
def serve(java: str) -> Iterator[Broker]:
    """Start a broker and stop it afterwards."""
    classpath = f"{jars(KAFKA)}/*"
    with tempfile.TemporaryDirectory(prefix="pellucid-kafka-") as place:
        folder = Path(place)
        port, controller = _free_port(), _free_port()
        settings = folder / "server.properties"
        settings.write_text(
            "\n".join(
                [
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@127.0.0.1:{controller}",
                    f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
                    "controller.listener.names=CONTROLLER",
                    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                    f"log.dirs={folder}/log",
                    "offsets.topic.replication.factor=1",
                    "offsets.topic.num.partitions=1",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "transaction.state.log.num.partitions=1",
                    "group.initial.rebalance.delay.ms=0",
                    "auto.create.topics.enable=false",
                    "log.cleaner.enable=false",
                ]
            )
        )
        with (folder / "broker.log").open("wb") as log:
            command = [java, "-Xmx512m", "-cp", classpath]
            subprocess.run(
                [*command, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings)],
                check=True,
                stdout=log,
                stderr=log,
                timeout=120,
            )
            process = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
            try:
                _await(f"127.0.0.1:{port}", process, folder / "broker.log")
                yield Broker(folder, java, f"127.0.0.1:{port}")
            finally:
                process.kill()
                process.wait()


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    end = time.monotonic() + 120
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(
                f"the broker ended with {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}"
            )
        try:
            if AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=5).brokers:
                return
        except KafkaException:
            time.sleep(0.5)
    raise AssertionError(f"the broker did not answer within two minutes:\n{log.read_text(errors='replace')[-3000:]}")


def _cluster_id() -> str:
    import base64

    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
