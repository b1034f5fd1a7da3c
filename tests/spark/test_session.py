"""A session that works at once, or one clear message in seconds."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pellucid.errors import UsageError
from pellucid.spark import session as module
from pellucid.spark.session import cores, defaults, session, stop_if_ours
from tests.spark import quick_jvm


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without a session; a JVM must not be started by what is refused."""

    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a JVM was started")

    pytest.importorskip("pyspark")
    monkeypatch.setattr(module, "_active", lambda _: None)
    monkeypatch.setattr(module, "_start", started)


def refusal(master: str) -> tuple[str, float]:
    start = time.monotonic()
    with pytest.raises(UsageError) as caught:
        session(master=master)
    return str(caught.value), time.monotonic() - start


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.usefixtures("no_session")
def test_a_master_that_is_not_there() -> None:
    port = closed_port()
    said, seconds = refusal(f"spark://127.0.0.1:{port}")
    assert said == (
        f"The Spark master spark://127.0.0.1:{port} cannot be reached (127.0.0.1:{port}: Connection refused). "
        "Is it running, are host and port right, and does a firewall let you through?"
    )
    assert seconds < 60  # at once; Spark's own retries take minutes
    said, _ = refusal(f"spark://127.0.0.1:{port},127.0.0.1:{port}")
    assert said.count("Connection refused") == 2
    said, _ = refusal("spark://no-such-host.invalid:7077")
    assert said.startswith(
        "The Spark master spark://no-such-host.invalid:7077 cannot be reached (no-such-host.invalid:7077: "
    )


@pytest.mark.usefixtures("no_session")
def test_a_master_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def silence(address: Any, timeout: float) -> None:
        assert timeout == module.PATIENCE == 5
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silence)
    assert "(10.0.0.1:7077: no answer)" in refusal("spark://10.0.0.1:7077")[0]


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    "master", ["spark://host", "spark://host:port", "spark://:7077", "spark://a:7077,b", "spark://a:99999"]
)
def test_a_bad_address(master: str) -> None:
    said, _ = refusal(master)
    assert (
        said.startswith(f"{master!r} is no address of a Spark master: ")
        and "is not host:port, as in spark://host:7077" in said
    )


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    "master", ["locale", "local[", "local[0]", "local[x]", "http://host:80", "host:7077", "mesos://a:1"]
)
def test_no_master_at_all(master: str) -> None:
    assert refusal(master)[0].startswith(
        f"{master!r} is no Spark master. Expected local, local[2], local[*, 4], spark://host:port"
    )


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        module._check_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{open_port}")


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[*, 4]", "local[2,4]", "yarn", "k8s://https://a:1"]
)
def test_masters_that_need_no_address(master: str) -> None:
    module._check_master(master)


def test_pyspark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(UsageError, match=r"^Spark is not installed \(.*\): pip install 'pellucid\[spark\]'$"):
        session()


def test_defaults() -> None:
    assert defaults("local[3]")["spark.sql.shuffle.partitions"] == "3"
    assert defaults("local")["spark.sql.shuffle.partitions"] == "1"
    assert defaults("local[*, 4]")["spark.sql.shuffle.partitions"] == str(len(os.sched_getaffinity(0)))
    assert defaults("local[2]")["spark.ui.enabled"] == "false"
    assert "spark.driver.host" not in defaults("spark://a:1") and "spark.driver.host" in defaults("local")


def test_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# no\n\nspark.master  local[1]\nspark.ui.enabled=true\nlonely\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert module._declared() == {"spark.master": "local[1]", "spark.ui.enabled": "true"}


def test_a_session_that_is_there_is_taken_and_left_alone(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ours", None)  # as if somebody else had started it
    assert session(master="local[7]", conf={"spark.sql.shuffle.partitions": "99"}) is spark
    assert stop_if_ours(spark) is False
    assert spark.range(3).count() == 3 and spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_cores(spark: Any) -> None:
    assert cores(spark) == 2

    class Conf:
        said: str | None = "6"

        def get(self, key: str, default: str | None) -> str | None:
            assert key == "spark.default.parallelism"
            return self.said

    class Remote:  # as Spark Connect: no context
        conf = Conf()

    assert cores(Remote()) == 6  # type: ignore[arg-type]
    Conf.said = None
    assert cores(Remote()) == 8  # type: ignore[arg-type]


FRESH = """
    import json, os, sys
    from pellucid.spark.session import session, stop_if_ours

    spark = session(master="local[2]", conf={"spark.sql.session.timeZone": "Asia/Tokyo"}, verbose="verbose" in sys.argv)

    def which(batches):
        import pyarrow as pa
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * len(batch)})

    def fails(batches):
        for batch in batches:
            raise ValueError("no")

    try:
        spark.range(1, numPartitions=1).mapInArrow(fails, "id long").collect()
    except Exception:
        pass
    if "verbose" in sys.argv:
        sys.exit(stop_if_ours(spark) is not True)
    keys = ["spark.sql.shuffle.partitions", "spark.ui.enabled", "spark.sql.session.timeZone", "spark.app.name"]
    said = {key: spark.conf.get(key) for key in keys}
    said["python"] = spark.range(1).mapInArrow(which, "python string").first().python
    said["stopped"] = stop_if_ours(spark), stop_if_ours(spark)
    again = session(master="local[1]")
    said["again"] = again.range(5).count()
    stop_if_ours(again)
    print(json.dumps(said))
"""


def fresh(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, without any setting of Spark in its environment but ``more``."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))},
        **more,
    }
    command = [sys.executable, "-c", textwrap.dedent(FRESH), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.parametrize("bare", [False, pytest.param(True, marks=pytest.mark.long)], ids=["quick", "bare"])
def test_a_new_session_is_set_up_and_quiet(java_home: Any, bare: bool) -> None:
    """The long one has Java's own settings as well, and so its optimising compiler."""
    done = fresh(**{} if bare else {"SPARK_SUBMIT_OPTS": quick_jvm.options(), "SPARK_LAUNCHER_OPTS": quick_jvm.SIMPLE})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.app.name": "pellucid",
        "python": sys.executable,
        "stopped": [True, False],
        "again": 5,
    }
    assert done.stderr == ""  # not a line, although a task failed


GONE = """
    import io, logging
    from types import SimpleNamespace
    from py4j.clientserver import ClientServerConnection
    from py4j.java_gateway import GatewayClient
    from py4j.protocol import Py4JNetworkError, EMPTY_RESPONSE
    from pellucid.spark.session import _hush

    class Gone:
        def send_command(self, command):
            raise Py4JNetworkError("Answer from Java side is empty", when=EMPTY_RESPONSE)
        def close(self, reset):
            pass

    _hush()
    client = GatewayClient()
    client._get_connection = Gone
    client._should_retry = lambda retry, *rest: retry
    print(client.send_command("c"))
    ours = SimpleNamespace(pool={"p0": None}, python_parameters=SimpleNamespace(propagate_java_exceptions=False))
    print(ClientServerConnection._call_proxy(ours, "p0", io.BytesIO(b""))[:3])
    logging.warning("of the user")
"""


def test_py4j_prints_no_traceback_when_java_has_gone() -> None:
    """It did: `kill -9` of a query's Java while a micro-batch was read."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(GONE)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "WARNING:root:of the user\n")
    assert done.stdout == "x\n!xs\n", "py4j goes another way when Java has gone"


def test_the_server_of_accumulators_prints_only_what_is_not_known(capfd: pytest.CaptureFixture[str]) -> None:
    """That its Java has gone is said by the query."""
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        module._hush_the_server_of(SimpleNamespace(_accumulatorServer=server))
        for error in (EOFError(), ConnectionResetError(), ValueError("a token that is none")):
            try:
                raise error
            except Exception:
                server.handle_error(None, ("127.0.0.1", 1))
    said = capfd.readouterr().err
    assert said.count("Traceback") == 1
    assert "a token that is none" in said


@pytest.mark.long
def test_verbose_leaves_sparks_log(java_home: Any) -> None:
    done = fresh("verbose", SPARK_SUBMIT_OPTS=quick_jvm.options(), SPARK_LAUNCHER_OPTS=quick_jvm.SIMPLE)
    assert done.returncode == 0 and "ERROR Executor: Exception in task" in done.stderr and "WARN" in done.stderr


def test_java_that_ends_at_once(java_home: Any) -> None:
    script = """
        from pellucid.errors import UsageError
        from pellucid.spark.session import session
        try:
            session(master="local[1]", conf={"spark.driver.memory": "1k"})
        except UsageError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("Java started and ended before Spark was up. It is /"), done
    assert "Too small" in done.stdout and "verbose=True" in done.stdout and "\tat " not in done.stdout
