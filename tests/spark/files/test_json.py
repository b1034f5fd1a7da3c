"""JSON Lines on ``pellucid run --on spark``: what the local engine reads, refused where it refuses, in a batch and
in a stream."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pellucid import sinks
from pellucid.internal.cli.main import cli
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR
from pellucid.spark.failure import explain
from pellucid.spark.files.csv import Wanted
from pellucid.spark.files.json import json_text, objects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINES = """\
from typing import NamedTuple

from pellucid import Stream, pipeline


class Inner(NamedTuple):
    f: float
    s: str


class Outer(NamedTuple):
    i: int
    b: bool
    at: Inner


@pipeline
def record(e: Stream[Outer]) -> Stream[Outer]:
    return e.filter(lambda v: True)


@pipeline
def same(s: Stream[str]) -> Stream[str]:
    return s.map(lambda v: v + "")
"""
WANTED = Wanted({"i": INT, "f": FLOAT, "b": BOOL, "s": STR}, keys=["k"])
GOOD = '{"i":1,"f":1,"b":true,"s":"a","k":"k"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipes.py").write_text(PIPELINES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(name: str, *args: Any, engine: str = "spark") -> Result:
    result = CliRunner().invoke(cli, ["run", f"pipes.py:{name}", "--on", engine, *map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read(spark: SparkSession, file: Path) -> list[Any]:
    return [tuple(row[n] for n in "ifbsk") for row in objects(spark, str(file), str(file), False, WANTED).collect()]


def test_what_is_read(spark: SparkSession, folder: Path) -> None:
    text = (
        '\ufeff{"i":1,"f":99999999999999999999,"b":true,"s":"\\ud83d\\ude00","k":"k","more":{"x":[1,{"y":2}]}}\r\n'
        ' \t\r\n  {"k":"é","s":"}{","b":false,"f":-1e999,"i":-9223372036854775808}  \n\n'
        '{"i":3,"f":-2.5e-3,"b":true,"s":"\\u0000\\"\\\\","k":null,"more":null}'
    )
    (folder / "in.jsonl").write_text(text, encoding="utf-8", newline="")
    assert read(spark, folder / "in.jsonl") == [
        (1, 1e20, True, "😀", "k"),
        (-(2**63), float("-inf"), False, "}{", "é"),
        (3, -0.0025, True, '\x00"\\', None),
    ]


def test_a_zero_may_be_negative(spark: SparkSession, folder: Path) -> None:
    """Here -0 is the float -0.0, and on Spark refused; as a whole number, or with a point, it is read."""
    (folder / "in.jsonl").write_text('{"i":-0,"f":-0.0,"b":true,"s":"\\"f\\":-0,","k":"k"}\n')
    ((i, f, _, _, _),) = read(spark, folder / "in.jsonl")
    assert (i, math.copysign(1, f)) == (0, -1)
    (folder / "in.jsonl").write_text('{"i":-0,"b":true,"at":{"f":-0,"s":"a"}}\n')
    assert '"f": -0.0' in run("record", "--in", "in.jsonl", engine="local").stdout


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            '{"i":1,"f":1,"b":true,"s":"a","s":"b","k":"k"}',
            "in.jsonl: the key 's' comes twice, in one object or but for",
        ),
        (GOOD.strip() * 2, "more than that on a line"),
        (GOOD.strip() + " more", "more than that on a line"),
        (GOOD.strip() + "," + GOOD.strip(), "more than that on a line"),
        (GOOD.strip() + "],[1", "more than that on a line"),
        ("[" + GOOD.strip() + "]", "no JSON object"),
        ('{"i":1,"f":1,"b":true,"s":"\\ud800","k":"k"}', "no JSON object"),
        ("{'i':1,'f':1,'b':true,'s':'a','k':'k'}", ""),
        ('{"i":1,"f":NaN,"b":true,"s":"a","k":"k"}', ""),
        ('{"i":1,"f":1,"b":true,"s":5,"k":"k"}', "column 's': expected str"),
        ('{"i":1,"f":1,"b":true,"s":"a","k":5}', "column 'k': expected str"),
        ('{"i":99999999999999999999,"f":1,"b":true,"s":"a","k":"k"}', ""),
        (b'{"i":1,"f":1,"b":true,"s":"\xe9","k":"k"}', ""),
        ('{"i":1,"f": -0 ,"b":true,"s":"a","k":"k"}', "column 'f': -0 is 0 for Spark: write -0.0, or 0"),
        ('{"i":1,"\\u0066":-0,"b":true,"s":"a","k":"k"}', "column 'f': -0 is 0 for Spark"),
    ],
)
def test_what_is_refused(spark: SparkSession, folder: Path, line: str | bytes, why: str) -> None:
    (folder / "in.jsonl").write_bytes(
        GOOD.encode() + (line if isinstance(line, bytes) else line.encode()) + b"\n" + GOOD.encode()
    )
    with pytest.raises(Exception) as raised:
        read(spark, folder / "in.jsonl")
    ours = explain(raised.value) or raised.value
    assert why in str(ours), ours


def test_both_engines(spark: SparkSession, folder: Path) -> None:
    (folder / "in.jsonl").write_text(
        '{"i":1,"b":true,"at":{"f":1e999,"s":"a"}}\n{"i":2,"b":false,"at":{"f":0.1,"s":"é"}}\n', encoding="utf-8"
    )
    assert run("record", "--in", "in.jsonl", "--out", "here.jsonl", engine="local").exit_code == 0
    assert run("record", "--in", "in.jsonl", "--out", "out.jsonl").exit_code == 0
    parts = [
        line
        for part in (folder / "out.jsonl").glob("part-*.json")
        for line in part.read_text(encoding="utf-8").split("\n")
        if line
    ]
    assert sorted(parts) == ['{"i":1,"b":true,"at":{"f":1e999,"s":"a"}}', '{"i":2,"b":false,"at":{"f":0.1,"s":"é"}}']
    printed = run("record", "--in", "out.jsonl")
    assert sorted(printed.stdout.split("\n")[:-1]) == sorted(parts), printed.stderr
    (folder / "in.jsonl").write_text('{"s":"a","k":1}\n{"s":"b","k":1}{"s":"c","k":2}\n')
    here, there = run("same", "--in", "in.jsonl", engine="local"), run("same", "--in", "in.jsonl", "--order", "k")
    assert here.exit_code == there.exit_code == 2 and here.stderr == there.stderr, there.stderr
    assert here.stderr.startswith("pellucid: in.jsonl: row 2 (line 2): no JSON value (Extra data at character ")


def test_a_stream(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "1.jsonl").write_text('{"s":"a","k":1}\n{"s":"b","k":2}\n')
    args = ["--in", "in", "--order", "k", "--stream", "--trigger", "once", "--checkpoint", "check", "--out", "out"]
    assert run("same", *args).exit_code == 0
    assert [row["out"] for row in sinks.read(folder / "out").to_pylist()] == ["a", "b"]
    (folder / "in" / "2.jsonl").write_text('{"s":"c","k":3} {"s":"d","k":4}\n')
    refused = run("same", *args)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("pellucid: in/2.jsonl: row 1 (line 1): no JSON value (Extra data at character "), (
        refused.stderr
    )


def test_what_is_written(spark: SparkSession) -> None:
    df = spark.sql(
        "select 1 a, double('-infinity') b, double(null) `c.d`, string(null) e, named_struct('x', float('infinity'), "
        "'y', 'q\"', 'z', double(null)) f, true g, 1e10D h"
    )
    line = df.select(json_text(df.schema)).head()[0]
    assert line == '{"a":1,"b":-1e999,"f":{"x":1e999,"y":"q\\""},"g":true,"h":1.0E10}'
    assert json.loads(line)["f"]["x"] == float("inf")
    nan = spark.sql("select double('nan') mean")
    with pytest.raises(Exception, match="column 'mean' has a NaN, for which JSON has no word"):
        nan.select(json_text(nan.schema)).collect()
