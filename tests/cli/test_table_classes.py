"""``pellucid tables`` and ``init --from``: the record class of a file, valid Python that works at once."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid.errors import TypeMismatch
from pellucid.internal.cli.main import cli
from pellucid.internal.expr.types import type_of

PLAIN = pa.table(
    {
        "name": ["a", "b"],
        "count": pa.array([1, 2], pa.int16()),
        "share": [0.5, 2.0],
        "good": [True, False],
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "at": [{"x": 1, "y": 2.5}, {"x": 2, "y": 0.0}],
    }
)
ODD = pa.table(
    {
        "n": [1, None],
        "when": [dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 2)],
        "moment": [dt.datetime(2013, 1, 1, tzinfo=dt.UTC), dt.datetime(2013, 1, 2, tzinfo=dt.UTC)],
        "day": [dt.date(2013, 1, 1), dt.date(2013, 1, 2)],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "tags": [["a"], []],
        "lines": [[{"sku": "a", "n": 1}, {"sku": "b", "n": None}], None],
        "marks": pa.array([[1.5, None], []]),
        "gaps": [[{"n": 1}, None], []],
        "maps": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        "class": [1, 2],
        "two words": [1, 2],
        "_hidden": [1, 2],
        "fine": [1, 2],
    }
)
NESTED = ("lines", "marks", "gaps", "maps")


def call(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(args))
    assert result.exit_code == code, result.stderr + str(result.exception)
    return result


def made(text: str) -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made", "exec", dont_inherit=True), scope)
    return scope


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def takes(annotation: Any) -> bool:
    try:
        type_of(annotation)
    except (TypeMismatch, TypeError):
        return False
    return True


def test_the_class_of_a_file(here: Path) -> None:
    pq.write_table(PLAIN, "plain rows.parquet")
    text = call("tables", "plain rows.parquet").stdout
    assert (
        text
        == '''from typing import NamedTuple


class PlainRowAt(NamedTuple):
    """What 'at' holds."""

    x: int
    y: float


class PlainRow(NamedTuple):
    """2 rows of plain rows.parquet."""

    name: str
    count: int
    share: float
    good: bool
    kind: str
    at: PlainRowAt
'''
    )
    found = made(text)["PlainRow"]
    type_of(found)


def test_every_field_can_be_part_of_an_event(here: Path) -> None:
    pq.write_table(ODD, "odd.parquet")
    text = call("tables", "odd.parquet", "--name", "Thing").stdout
    fields = made(text)["Thing"].__annotations__
    assert "fine" in fields and takes(made(text)["Thing"])
    for name in ("gaps", "maps", "class", "two words", "_hidden"):
        assert name not in fields and f"    # {name!r}: " in text
    assert {"n", "when", "moment", "day", "price"} <= set(fields)
    assert "    moment: Annotated[datetime, UTC]\n    day: date\n    price: Annotated[Decimal, Scale(2)]\n" in text
    assert "1 null" in text
    lines = "    tags: list[str]\n    lines: list[ThingLine] | None  # 1 null\n    marks: list[float | None]\n"
    assert lines in text
    assert 'class ThingLine(NamedTuple):\n    """What \'lines\' holds."""\n\n    sku: str\n    n: int | None' in text


def test_text_is_what_all_cells_are(here: Path) -> None:
    rows = [(str(i), f"{i}.5", "true", "x", "7") for i in range(50_000)] + [("-3", "1e9", "false", "y", "no number")]
    Path("t.csv").write_text("a,b,c,d,e\n" + "".join(",".join(row) + "\n" for row in rows))
    fields = made(call("tables", "t.csv").stdout)["T"].__annotations__
    assert fields == {"a": int, "b": float, "c": bool, "d": str, "e": str}
    Path("na.csv").write_text("a,b,c,d,e\n1,NA,2013-01-01,NA,nan\nNA,NULL,-,x,1\n2,1.5,?,NA,\n")
    text = call("tables", "na.csv").stdout
    assert (
        "    a: str  # int | None with nulls=['NA'] (--null NA)\n"
        "    b: str  # float | None with nulls=['NA', 'NULL'] (--null NA --null NULL)\n"
        "    c: str  # date | None with nulls=['-', '?'] (--null - --null '?')\n"
        "    d: str\n"
    ) in text
    assert made(text)["Na"].__annotations__ == {"a": str, "b": str, "c": str, "d": str, "e": float | None}
    Path("j.jsonl").write_text('{"a": 1, "b": {"c": "x"}}\n{"a": 2, "b": {"c": "y"}}\n')
    assert "    a: int\n    b: JB\n" in call("tables", "j.jsonl", "--name", "J").stdout


def test_numbers_with_fixed_places_are_decimals(here: Path) -> None:
    Path("t.csv").write_text(
        "a,b,c,d,e\n12.50,0.5,1.00,,1.00\n-3.00,0.25,1.000,7.25,NA\n" + "9" * 15 + ".99,1.5,2.00,,2.50\n"
    )
    text = call("tables", "t.csv").stdout
    assert "    a: Annotated[Decimal, Scale(2)]  # always 2 places: float if it is measured, not money\n" in text
    assert "    b: float\n    c: float\n    d: Annotated[Decimal, Scale(2)] | None  # 2 nulls, always 2" in text
    assert "    e: str  # Annotated[Decimal, Scale(2)] | None with nulls=['NA'] (--null NA)\n" in text
    assert takes(made(text)["T"])


@pytest.mark.parametrize("several", [False, True])
def test_rows_that_cannot_be_read_are_left_out_and_named(here: Path, several: bool) -> None:
    (here / "data").mkdir()
    place = "data/a.csv"
    Path(place).write_text("x,y\n1,a\n2,b,c\n3\n4,d\n5,,\n6,,\n")
    if several:
        Path("data/0.csv").write_text("x,y\n7,\n")
    result = call("tables", "data")
    assert result.stderr == (
        f"pellucid: left out: {place}: row 2 (line 3): 3 fields, expected 2 (x, y): put a text that holds a comma in "
        f"quotes\npellucid: left out: {place}: row 3 (line 4): 1 field, expected 2 (x, y): complete the row or remove "
        f"it\npellucid: left out: {place}: row 5 (line 6): 3 fields, expected 2 (x, y): put a text that holds a comma "
        "in quotes\npellucid: left out: 1 more row that cannot be read\n"
    )
    rows, null = (3, " | None  # 1 null") if several else (2, "")
    assert (
        f'"""{rows} rows of data, without 4 that cannot be read."""\n\n    x: int\n    y: str{null}\n' in result.stdout
    )
    Path("all.csv").write_text("x,y\n1\n")
    said = call("tables", "all.csv", code=2).stderr
    assert said == "pellucid: all.csv: row 1 (line 2): 1 field, expected 2 (x, y): complete the row or remove it\n"
    Path('a"""\n0/0.csv').parent.mkdir()
    Path('a"""\n0/0.csv').write_text("x\n1\n")
    assert "X" in made(call("tables", 'a"""\n0', "--name", "X").stdout)


def test_folders_and_an_output_file(here: Path) -> None:
    for year in (2013, 2014):
        (here / f"data/year={year}").mkdir(parents=True)
        pq.write_table(PLAIN, f"data/year={year}/x.parquet")
    said = call("init", "demo", "--from", "data/*/x.parquet").stdout
    quoted = f"--in '{here}/data/*/x.parquet' --head 10"
    assert quoted in said and quoted in Path("demo/README.md").read_text()
    call("tables", "data", "--name", "Row", "--out", "row.py")
    assert "4 rows of data" in Path("row.py").read_text() and "    year: int\n" in Path("row.py").read_text()
    said = call("tables", "data", "--out", "row.py", code=2).stderr
    assert said == "pellucid: --out row.py: is there already: nothing was written; give another name\n"
    assert call("tables", "nothing.csv", code=2).stderr == "pellucid: nothing.csv: no such file\n"
    said = call("tables", "data", "--name", "a b", code=2).stderr
    assert said == "pellucid: --name a b: is no name that a class in Python can have\n"


@pytest.mark.parametrize("table", [PLAIN, ODD])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_project_from_a_file_runs(here: Path, table: pa.Table, form: str) -> None:
    if form == "csv":
        flat = table.drop_columns([n for n in ("at", "tags", "kind", *NESTED) if n in table.column_names])
        pyarrow.csv.write_csv(flat, "events.csv")
    else:
        pq.write_table(table, "events.parquet")
    call("init", "demo", "--from", f"events.{form}")
    assert "class Event(NamedTuple):" in Path("demo/pipeline.py").read_text()
    out = call("run", "demo/pipeline.py:counted", "--in", f"events.{form}").stdout
    assert [json.loads(line) for line in out.splitlines()] == [{"out": 1}, {"out": 2}]
    assert "already has" in call("init", "demo", "--from", f"events.{form}", code=2).stderr
