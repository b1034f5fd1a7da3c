"""One call that gives a Spark session: the user's own if there is one, else a new one with settings that work.

A session that is already there (a notebook's, Databricks', the caller's) is taken as it is and never stopped.  A new
one differs from a bare ``SparkSession.builder.getOrCreate()`` where the bare one hurts at a first start:

* Java is looked for (:mod:`pellucid.spark.java`), and the workers run *this* Python, not the first one on the ``PATH``;
* a master that cannot be reached is found out in seconds, before a JVM starts, and not after a minute of retries;
* a local Spark binds to the loopback address (no guessing of host names, which hangs in some networks), has as many
  shuffle partitions as cores (not 200), tries a failed task 4 times as a cluster does, and opens no web page;
* it is quiet: Spark logs the Java stack trace of every failed task, although the same error is raised here, once (with
  ``verbose=True`` its log stays as it is), and its Python workers print one when their task has ended before them.

The caller's ``conf`` wins over all of this, and so does what ``spark-defaults.conf`` or ``spark-submit`` say.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError, option
from pellucid.internal.secrets import is_secret
from pellucid.spark import daemon, failure, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 5.0  # seconds in which a master must take a connection
DEFAULT_CORES = 8  # a guess, where a remote Spark does not say

# Errors that Spark also raises in the driver; only their stack traces would be added by the log.
_RAISED_AS_WELL = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.sql.execution.datasources.v2",
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.util.Utils",
    "org.apache.spark.SparkContext",
    "org.apache.spark.api.python",
)
_QUIET_LOG = "\n".join([
    "status = off",
    "rootLogger.level = error",
    "rootLogger.appenderRef.stderr.ref = stderr",
    "appender.console.type = Console",
    "appender.console.name = stderr",
    "appender.console.target = SYSTEM_ERR",
    "appender.console.layout.type = PatternLayout",
    "appender.console.layout.pattern = Spark: %m%n%ex{0}",  # without the stack trace
    # "Initial job has not accepted any resources" is a warning, and all that one sees of a cluster without workers.
    "logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl",
    "logger.scheduler.level = warn",
    # Spark takes the level of this one for the root's, WARN if it has none.
    "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer",
    "logger.gateway.level = error",
    *(line for number, name in enumerate(_RAISED_AS_WELL)
      for line in (f"logger.raised{number}.name = {name}", f"logger.raised{number}.level = off")),
])  # fmt: skip

# What the JVM itself prints before any log is set up, and of which nothing follows.
_NOISE = re.compile(rb"WARNING: (Using incubator modules|package sun\.security\.action not in|A terminally deprecated|"
                    rb"sun\.misc\.Unsafe|Please consider reporting this to the maintainers|Use --enable-native-access|"
                    rb"A restricted method in|java\.lang\.System::load|Restricted methods will be blocked)|Using "
                    rb"Spark's default log4j")  # fmt: skip

_ours: SparkSession | None = None


def session(
    *, master: str | None = None, conf: Mapping[str, str] | None = None, name: str = "pellucid", verbose: bool = False
) -> SparkSession:
    """The active Spark session; if there is none, a new one.

    ``master`` is one of ``local[…]`` (default ``local[*, 4]``: all cores, 4 attempts for each task),
    ``spark://host:port``, ``yarn``, ``k8s://…``, or ``sc://host:port`` for Spark Connect.  ``conf`` are Spark's own
    settings by name.  Both are for a *new* session: one that is there stays as it is.  Stop it by
    :func:`stop_if_ours`::

        spark = session(conf={"spark.driver.memory": "4g"})
        …
        stop_if_ours(spark)
    """
    global _ours
    spark_session = _import_pyspark()
    active = _active(spark_session)
    if active is not None:
        return active
    settings = {str(key): str(value) for key, value in (conf or {}).items()}
    declared = _declared()
    master = master or settings.get("spark.master") or declared.get("spark.master") or os.environ.get("SPARK_REMOTE")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: its JVM runs, its master is chosen
    if master is None and not submitted:
        master = "local[*, 4]"
    if master is not None:
        _check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is not None and master.startswith("sc://"):
        builder = spark_session.builder.remote(master).appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        _ours = builder.getOrCreate()
        return _ours
    chosen = {**{k: v for k, v in defaults(master).items() if k not in declared}, "spark.app.name": name, **settings}
    if master is not None:
        chosen["spark.master"] = master
    _ours = _start(spark_session, chosen, quiet=not verbose and "spark.log.level" not in chosen, submitted=submitted)
    return _ours


def defaults(master: str | None) -> dict[str, str]:
    """The settings that a new session gets where the caller does not say otherwise.

    >>> defaults("local[2, 4]")["spark.sql.shuffle.partitions"]
    '2'
    >>> "spark.sql.shuffle.partitions" in defaults("spark://host:7077")
    False
    """
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, Spark's own, loses that it is an instant
    }
    local = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?", master or "")
    if local:
        asked = local[1] or "1"
        count = _machine_cores() if asked == "*" else int(asked)
        settings["spark.sql.shuffle.partitions"] = str(count)
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.python.daemon.module"] = daemon.MODULE  # its workers write to our standard error
    if sys.platform != "win32":
        # Over TCP the few bytes of a small micro-batch wait 40 ms for an acknowledgement, in every Python stage (Spark
        # 4.1 on).
        settings["spark.python.unix.domain.socket.enabled"] = "true"
    return settings


def cores(spark: SparkSession) -> int:
    """How many tasks this Spark runs at a time (its default parallelism), also through Spark Connect.

    A remote Spark does not always say; then it is what ``spark.default.parallelism`` says, else 8.
    """
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception as error:
        # Spark Connect has no context: PySparkAttributeError, or a plain one in older versions.
        if type(error).__name__ not in {"PySparkAttributeError", "PySparkNotImplementedError", "AttributeError"}:
            raise
    try:
        said = spark.conf.get("spark.default.parallelism", None)
    except Exception:
        said = None  # a server may refuse to show it
    return int(said) if said and str(said).isdigit() and int(said) > 0 else DEFAULT_CORES


def stop_if_ours(spark: SparkSession) -> bool:
    """Stop a session that :func:`session` started; leave any other alone.  True if it was stopped.

    >>> stop_if_ours(object())
    False
    """
    global _ours
    if _ours is None or spark is not _ours:
        return False
    _ours = None
    # A signal may have ended a call half way: then the answer to it is still to come in this thread's connection.
    with ThreadPoolExecutor(1) as another, contextlib.suppress(Exception):  # else its JVM ends with this process
        another.submit(spark.stop).result()
    return True


def _import_pyspark() -> Any:
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(f"Spark is not installed ({error}): pip install 'pellucid[spark]'") from error
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise UsageError(
            f"pyspark {pyspark.__version__} is too old: Pellucid needs 4 or later. pip install 'pellucid[spark]'"
        )
    return SparkSession


def _active(spark_session: Any) -> Any:
    """The session of this thread, or the process's default one; None if there is none that lives."""
    from pyspark.errors import PySparkException

    try:
        return spark_session.active()
    except PySparkException:
        return None
    except ConnectionError as error:
        raise UsageError(
            "The Spark of this process has died (killed, or out of memory). Start Python again."
        ) from error


def _machine_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _declared() -> dict[str, str]:
    """What ``spark-defaults.conf`` says; Spark reads it too, but a builder's setting would overrule it."""
    places = [os.environ.get("SPARK_CONF_DIR"), os.path.join(os.environ.get("SPARK_HOME", ""), "conf")]
    for place in places:
        file = Path(place) / "spark-defaults.conf" if place else None
        if file is not None and file.is_file():
            lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
            pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
            return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    return {}


def _check_master(master: str) -> None:
    """Refuse a master that is misspelt or does not answer, before anything is started."""
    if re.fullmatch(r"local(\[\s*(\*|[1-9]\d*)\s*(,\s*[1-9]\d*\s*)?\])?|local-cluster\[.+\]|yarn|k8s://.+", master):
        return
    scheme, separator, rest = master.partition("://")
    if not separator or scheme not in {"spark", "sc"}:
        raise UsageError(
            f"{master!r} is no Spark master. Expected local, local[2], local[*, 4], spark://host:port "
            "(or spark://host1:port,host2:port), yarn, k8s://…, or sc://host:port for Spark Connect."
        )
    addresses = [_address(part, master, scheme) for part in rest.split("/")[0].split(",")]
    failures = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=PATIENCE).close()
        except (OSError, UnicodeError) as error:
            said = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
            failures.append(f"{host}:{port}: {said}")
        else:
            return
    raise UsageError(
        f"The Spark master {master} cannot be reached ({'; '.join(failures)}). "
        "Is it running, are host and port right, and does a firewall let you through?"
    )


def _address(text: str, master: str, scheme: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^\s:\[\]]+)(?::(\d{1,5}))?", text)
    port = found[2] if found and found[2] else "15002" if scheme == "sc" else ""  # Connect has a default port
    if found is None or not port or not 0 < int(port) < 65536:
        raise UsageError(
            f"{master!r} is no address of a Spark master: {text!r} is not host:port, as in {scheme}://host:7077."
        )
    return found[1].strip("[]"), int(port)


def _hush() -> None:
    """No log of PySpark's and py4j's own: whatever they raise is explained by us.

    PySpark prints a page of JSON beside every error it raises.  py4j, when Java has gone, logs through the root logger,
    which makes Python set up a log on the standard error; from then on each of its errors comes with a traceback.

    >>> _hush()
    >>> logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)
    False
    """
    for name in ("DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_py4j)  # once: a filter that is there is not added again


def _hush_the_server_of(context: Any) -> None:
    """That Java has gone is said by the query; PySpark's server of accumulators would print a traceback as well."""
    server = getattr(context, "_accumulatorServer", None)  # PySpark's own name; without it there is only the noise
    if server is None:
        return
    told = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            told(request, address)

    server.handle_error = handle_error


def _not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _start(spark_session: Any, chosen: dict[str, str], *, quiet: bool, submitted: bool) -> Any:
    """Start a JVM and a context in it, then the session."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    launches = not submitted and SparkContext._gateway is None
    if launches:
        os.environ["JAVA_HOME"] = str(java.find().home)
    if quiet:
        _hush()
    relay = _Relay()
    with tempfile.TemporaryDirectory(prefix="pellucid-") as folder:
        if quiet and launches:
            log = Path(folder) / "log4j2.properties"
            log.write_text(_QUIET_LOG, encoding="utf-8")
            options = "spark.driver.extraJavaOptions"
            chosen[options] = f"-Dlog4j2.configurationFile={log.as_uri()} {chosen.get(options, '')}".strip()
        spark_conf = SparkConf()
        spark_conf.setAll(list(chosen.items()))
        try:
            if launches:
                # A launch puts the settings into the JVM's arguments, which all the machine can see: secrets come
                # later, through the gateway.
                open_conf = SparkConf()
                open_conf.setAll([(key, value) for key, value in chosen.items() if not is_secret(key)])
                if quiet:
                    with relay.pipe(1) as out, relay.pipe(2) as err:  # the JVM has copies of its own once it runs
                        gateway = launch_gateway(conf=open_conf, popen_kwargs={"stdout": out, "stderr": err})
                else:
                    gateway = launch_gateway(conf=open_conf)
                SparkContext(conf=spark_conf, gateway=gateway)
            made = spark_session.builder.config(conf=spark_conf).getOrCreate()
            if quiet:
                _hush_the_server_of(SparkContext._active_spark_context)
        except (PySparkException, Py4JError) as error:
            if not isinstance(error, PySparkException) or error.getCondition() != "JAVA_GATEWAY_EXITED":
                relay.open()
                raise failure.explain(error) or error from error
            said = "\n".join(f"  {line}" for line in relay.last_words()) or "  (it printed nothing, or see above)"
            raise UsageError(
                f"Java started and ended before Spark was up. It is {os.environ.get('JAVA_HOME')}; it said:\n{said}\n"
                f"If the settings ({option('conf')}) are right, try again with {option('verbose', True)} to see the "
                "whole log."
            ) from error
        relay.open()
        return made


class _Relay:
    """Passes on what the JVM (and the prints of functions in local workers) write, without the known noise.

    The JVM's own noise comes before any log is set up, so that it can only be taken out on the way.  Lines are held
    back until Spark is up: if it does not come up they belong into the message, and not on the standard output of a
    program.
    """

    def __init__(self) -> None:
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        self._readers: list[threading.Thread] = []

    @contextlib.contextmanager
    def pipe(self, target: int) -> Iterator[Any]:
        """The writing end of a pipe whose lines go to the file descriptor ``target``."""
        reading, writing = os.pipe()
        reader = threading.Thread(target=self._pump, args=(reading, target), daemon=True)
        reader.start()
        self._readers.append(reader)
        with open(writing, "wb") as into:
            yield into

    def open(self) -> None:
        """Spark is up: let out what was held back."""
        with self._lock:
            held, self._held = self._held or [], None
            for line in held:
                _write(2, line)

    def last_words(self) -> list[str]:
        """What a JVM that has ended said."""
        for reader in self._readers:
            reader.join(2)
        with self._lock:
            return [line.decode(errors="replace").rstrip() for line in (self._held or [])[-12:]]

    def _pump(self, reading: int, target: int) -> None:
        with open(reading, "rb") as source:
            for line in source:
                if _NOISE.match(line):
                    continue
                with self._lock:
                    if self._held is not None:
                        self._held.append(line)
                        continue
                _write(target, line)


def _write(target: int, line: bytes) -> None:
    with contextlib.suppress(OSError):  # our own end is closed: it cannot be read, but the JVM must not wait
        os.write(target, line)
