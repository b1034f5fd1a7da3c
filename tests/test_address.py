"""No secret in what can be seen, and a target that stays the same when a password is another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pellucid import sinks
from pellucid.errors import DataError, PellucidError, StepError, UsageError
from pellucid.failures.crash import Command
from pellucid.internal.address import Address, from_environment, in_one_form
from pellucid.internal.secrets import redact
from pellucid.sinks.interface import parsed, sink_of

SECRET = "S3cret-Pw"

LEAKS = [
    f"postgresql://me:{SECRET}@db/shop#t",
    f"postgresql://me:{SECRET}@[::1]:5432,other:5433/shop?sslmode=require#t",
    f"postgresql://:{SECRET}@db/shop",
    f"postgresql://me:a@{SECRET}@db/shop#t",
    f"postgresql://me:a/{SECRET}@db/shop#t",
    f"postgresql://me:a #{SECRET} b@db/shop#t",
    f"postgresql://me:'{SECRET}'@db/shop#t",
    f"postgresql://db/shop?user=me&password={SECRET}&sslmode=require#t",
    f"postgresql://db/shop?sslpassword={SECRET}",
    f"host=db user=me password={SECRET} dbname=shop",
    f"host=db password = '{SECRET}' dbname=shop",
    f"host=db password='it\\'s {SECRET}' dbname=shop",
    f"host=db sslpassword={SECRET}",
    f"PGPASSWORD={SECRET} psql",
    f"jdbc:postgresql://db/shop?user=me&password={SECRET}",
    f"jdbc:sqlserver://db;user=me;password={SECRET};encrypt=true",
    f"s3a://AKIA:{SECRET}@bucket/lake",
    f"https://account.blob.core.windows.net/c?sv=2022&sig={SECRET}",
    f"https://host/x?access_token={SECRET}&n=1",
    str({"sasl.username": "me", "sasl.password": SECRET}),
    str({"aws_secret_access_key": SECRET, "region": "eu"}),
    f'{{"token": "{SECRET}", "n": 1}}',
    f'sasl.jaas.config=PlainLoginModule required username="me" password="{SECRET}";',
    f"--conf spark.hadoop.fs.s3a.secret.key={SECRET} failed",
]


@pytest.mark.parametrize("text", LEAKS)
def test_a_secret_is_never_shown(text: str) -> None:
    for shown in (
        redact(text),
        str(Address.of(text)),
        repr(Address.of(text)),
        Address.of(text).stored,
        Address.of(text).identity,
    ):
        assert SECRET not in shown
    for kind in (PellucidError, DataError, StepError):
        assert SECRET not in str(kind(f"--out {text}: cannot be written")) and SECRET not in repr(kind(text))
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://db:5432/shop#t cannot be reached by me@example.org",
        "postgresql://me@db:5432/shop#t, and postgresql://you@db:5433/shop#t",
        "http://localhost:4040/jobs; mail a@b.c",
        "events.csv: row 3 (line 4): column 'x' is empty",
        "--key token: there is no such column",
        "say which, as in --in token=events.csv",
        "in.csv: 3 columns: a, b, password",
        "kafka://host:9092/topic",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("postgresql://me:a@db/shop#t", "postgresql://me:b@db/shop#t", True),
        ("postgresql://me:a@db/shop#t", "postgresql://you@db/shop#t", True),
        ("postgresql://me:a@db/shop#t", "postgres://db:5432/shop?user=me&password=x&connect_timeout=3#t", True),
        ("postgresql://me:a@db/shop#t", "postgresql://me:a@db2/shop#t", False),
        ("postgresql://me:a@db/shop#t", "postgresql://me:a@db:5433/shop#t", False),
        ("postgresql://me:a@db/shop#t", "postgresql://me:a@db/shop2#t", False),
        ("postgresql://me:a@db/shop#t", "postgresql://me:a@db/shop#t2", False),
        ("postgresql://me:a@db/shop#t", "postgresql://me:a@db/shop?options=-csearch_path%3Dx#t", False),
        ("postgresql://me:a@db#t", "postgresql://you:a@db#t", False),  # the database is called as the user
        ("postgresql://me:a@db1,db2:5433/shop#t", "postgresql://you@db1:5432,db2:5433/shop#t", True),
        ("sqlite:shop.db#t", "sqlite:./shop.db#t", True),
        ("sqlite:shop.db#t", "sqlite:shop.db#u", False),
    ],
)
def test_which_target_it_is(one: str, other: str, same: bool) -> None:
    first, second = Address.of(one), Address.of(other)
    assert (first.identity == second.identity) is same
    assert Address.of(first.identity).identity == first.identity
    assert Address.of(first.stored).identity == first.identity


@pytest.mark.parametrize(
    ("pairs", "url", "same"),
    [
        ("host=db dbname=shop", "postgresql://db/shop", True),
        ("dbname=shop port=5432 host=db user=me password=x", "postgres://you:y@db:5432/shop?sslmode=require", True),
        ("host = 'db'  dbname = 'shop'", "postgresql://db/shop", True),
        (r"host=db dbname='it\'s # = one'", "postgresql://db/it%27s%20%23%20%3D%20one", True),
        (r"host=db dbname=a\ b", "postgresql://db/a%20b", True),
        ("host=db user=me", "postgresql://me@db", True),
        ("host=DB dbname=shop", "postgresql://db/shop", True),
        ("host=/run/pg dbname=shop", "postgresql://%2Frun%2Fpg/shop", True),
        ("host=/run/pg dbname=shop", "postgresql:///shop?host=/run/pg", True),
        ("host=::1 dbname=shop", "postgresql://[::1]/shop", True),
        ("host=a,b port=5432,5433 dbname=shop", "postgresql://a,b:5433/shop", True),
        ("host=db dbname=shop options=-csearch_path=x", "postgresql://db/shop?options=-csearch_path%3Dx", True),
        ("host=db dbname=shop options='-c search_path=x'", "postgresql://db/shop?options=-c%20search_path%3Dx", True),
        ("host=db dbname=shop dbname=other", "postgresql://db/other", True),
        ("host=db dbname=shop", "postgresql://db/Shop", False),
        ("host=/run/PG dbname=shop", "postgresql://%2Frun%2Fpg/shop", False),
        ("host=db dbname=shop", "postgresql://db2/shop", False),
        ("host=db dbname=shop", "postgresql://db/shop2", False),
        ("host=db dbname=shop port=5433", "postgresql://db/shop", False),
        ("host=db dbname=shop hostaddr=10.0.0.1", "postgresql://db/shop", False),
        ("service=shop", "postgresql://", False),
        ("host=db dbname=shop options=-csearch_path=x", "postgresql://db/shop", False),
        ("dbname=shop", "postgresql://db/shop", False),
        ("host=a,b dbname=shop", "postgresql://b,a/shop", False),
        ("", "postgresql://", True),
    ],
)
def test_a_url_and_pairs_are_one_target(pairs: str, url: str, same: bool) -> None:
    psycopg = pytest.importorskip("psycopg.conninfo")
    one, other = sinks.postgres(pairs, "t"), sinks.postgres(url, "t")
    assert (one.identity == other.identity) is same
    assert one.identity != sinks.postgres(url, "u").identity
    for identity in (one.identity, other.identity):
        assert in_one_form(identity) == identity
        again = psycopg.conninfo_to_dict(Address.of(identity).connection)
        assert sinks.postgres(" ".join(f"{k}='{_quoted(v)}'" for k, v in again.items()), "t").identity == identity
    if same:  # as libpq has it
        places = ("host", "dbname", "options", "hostaddr", "service")
        found = [psycopg.conninfo_to_dict(text) for text in (pairs, url)]
        meant = [{k: str(f[k]).lower() for k in places if f.get(k) and k in f} for f in found]
        meant = [{"dbname": f.get("user", "").lower(), **m} for f, m in zip(found, meant, strict=True)]
        assert meant[0] == meant[1]


def _quoted(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("'", "\\'")


@pytest.mark.parametrize(
    "text", ["own: the own sink", "host=db topic=a#t", "file: /a=b#c", "parquet: /x/host=db", "#t"]
)
def test_what_is_no_server_is_not_taken_for_one(text: str) -> None:
    assert in_one_form(text) == text


def test_what_was_written_down_is_not_read_by_the_environment_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    was = [sinks.postgres(dsn, "t").identity for dsn in ("dbname=shop", "postgresql:///shop")]
    monkeypatch.setenv("PGHOST", "other")
    assert [in_one_form(one) for one in was] == was
    assert sinks.postgres("dbname=shop", "t").identity == sinks.postgres("postgresql:///shop", "t").identity != was[0]
    assert in_one_form("dbname=shop#t") == was[0]


def test_the_environment_says_where_a_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db")
    monkeypatch.setenv("PGDATABASE", "shop")
    here = Address.of("postgresql://#t").identity
    assert here == Address.of("postgresql://me@db/shop#t").identity
    monkeypatch.setenv("PGHOST", "other")
    assert Address.of("postgresql://#t").identity != here


@pytest.mark.parametrize("password", ["a/b", "a@b", "a#b", "a?b", "a b", "12/34x"])
def test_a_password_that_breaks_the_address_is_told_without_it(password: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(f"postgresql://me:{password}{SECRET}@db/shop#t")
    assert "write those as %2F %3F %23 %40 %20; or leave the password out, and set PGPASSWORD" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:%zz{SECRET}@db/shop",
        f"password={SECRET} {SECRET}",
        f"password=a {SECRET} host=db",
        f"postgresql://me:{SECRET}@:x/shop",
    ],
)
def test_an_address_that_the_library_does_not_understand(dsn: str) -> None:
    pytest.importorskip("psycopg")
    from pellucid.sinks import postgres

    sink = postgres(dsn, "t")
    with pytest.raises((UsageError, DataError)) as caught:
        sink.last("q")
    assert SECRET not in str(caught.value) and SECRET not in repr(sink) and SECRET not in repr(sink.address)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_an_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", f"postgresql://me:{SECRET}@db/shop")
    assert sink_of(from_environment("env:SHOP#t")).address.connection == f"postgresql://me:{SECRET}@db/shop"
    monkeypatch.delenv("SHOP")
    with pytest.raises(
        UsageError, match="outputs='env:SHOP#t': there is no environment variable 'SHOP': set it to the address"
    ):
        from_environment("env:SHOP#t")


def test_a_crash_test_tells_no_password_by_its_arguments(tmp_path: Path) -> None:
    places = {
        "a": f"postgresql://me:{SECRET}%7B@db/shop#t_{{run}}",
        "b": "{folder}/b.csv",
        "c": "postgresql://me@db/shop#u_{run}",
    }
    command = Command("p.py:x", ("in.csv",), places, 10, 5)
    argv, environment = command.argv(tmp_path / "run-1"), command.secrets(tmp_path / "run-1")
    assert SECRET not in " ".join(argv) and SECRET not in repr(command)
    a, c = (command.places(tmp_path / "run-1")[name] for name in "ac")
    assert environment == {"PELLUCID_OUT_0": a} and f"me:{SECRET}%7B@db/shop#t_" in a and a.endswith("_run_1")
    assert "a=env:PELLUCID_OUT_0" in argv and f"b={tmp_path}/run-1/b.csv" in argv and f"c={c}" in argv


def test_the_settings_of_kafka_stay_secret() -> None:
    from pellucid.sinks import kafka

    class Reason:
        def str(self) -> str:
            return f"broker refused {SECRET}"

    sink = kafka("host:9092", "t", config={"sasl.password": SECRET, "sasl.username": "me"})
    assert sink._clean(Reason()) == "broker refused ***" and SECRET not in repr(sink)


def test_a_secret_setting_is_no_argument_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    import pyspark
    import pyspark.java_gateway

    from pellucid.spark import java, session

    seen: list[Any] = []

    def launch(conf: Any, popen_kwargs: Any = None) -> Any:
        seen.extend(conf.getAll())
        raise InterruptedError

    monkeypatch.setattr(pyspark.java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.setattr(java, "find", lambda: type("Home", (), {"home": os.environ.get("JAVA_HOME", "/")}))
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", "/"))
    for quiet in (True, False):
        with pytest.raises(InterruptedError):
            session._start(
                pyspark.sql.SparkSession,
                {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.app.name": "x"},
                quiet=quiet,
                submitted=False,
            )
    assert ("spark.app.name", "x") in seen and SECRET not in str(seen)
