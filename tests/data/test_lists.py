"""Tables with lists and structs in every library and file: they come out as they went in, or are refused by row."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import json
import random
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import Scale, Stream, pipeline
from pellucid.errors import DataError
from pellucid.internal.cli.main import cli
from tests.seeds import seeds


class Kind(enum.Enum):
    A = 1
    B = 2


class Size(NamedTuple):
    width: float
    unit: str | None


class Item(NamedTuple):
    sku: str
    price: Annotated[Decimal, Scale(2)]
    size: Size
    kind: Kind
    seen: list[dt.date]


class Parts(NamedTuple):
    parts: list[int] | None


class Order(NamedTuple):
    id: int
    buyer: Size  # a struct
    tags: list[str]
    items: list[Item]
    marks: list[float | None] | None
    at: tuple[Annotated[dt.datetime, dt.UTC], ...]
    flags: list[bool]
    deep: list[list[int]]


MOMENT = pa.timestamp("us", "UTC")
SIZE = pa.struct([("width", pa.float64()), ("unit", pa.string())])
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "buyer": SIZE,
        "tags": pa.list_(pa.string()),
        "items": pa.list_(
            pa.struct(
                [
                    ("sku", pa.string()),
                    ("price", pa.decimal128(19, 2)),
                    ("size", SIZE),
                    ("kind", pa.string()),
                    ("seen", pa.list_(pa.date32())),
                ]
            )
        ),
        "marks": pa.list_(pa.float64()),
        "at": pa.list_(MOMENT),
        "flags": pa.list_(pa.bool_()),
        "deep": pa.list_(pa.list_(pa.int64())),
    }
)


def rows_of(seed: int, count: int = 30) -> list[dict[str, Any]]:
    """Random rows as Arrow has them."""
    rng = random.Random(seed)
    text = lambda: rng.choice(["", "a", 'q"uo,te', "[1]", "ß😀", "null", "\\n", "x" * 50])
    size = lambda: {"width": rng.choice([0.0, -0.0, 1e300, 0.1, float("inf")]), "unit": rng.choice([None, text()])}
    many = lambda f: [f() for _ in range(rng.choice([0, 1, 2, 7]))]
    day = lambda: dt.date(2000, 1, 1) + dt.timedelta(rng.randrange(-9000, 9000))
    moment = lambda: dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=rng.randrange(10**12))
    whole = lambda: rng.randrange(-(2**63), 2**63)
    item = lambda: {
        "sku": text(), "price": Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-2), "size": size(),
        "kind": rng.choice("AB"), "seen": many(day),
    }  # fmt: skip
    return [
        {
            "id": i, "buyer": size(), "tags": many(text), "items": many(item),
            "marks": rng.choice([None, many(lambda: rng.choice([None, 1.5, float("-inf")]))]), "at": many(moment),
            "flags": many(lambda: rng.random() < 0.5), "deep": many(lambda: many(whole)),
        }
        for i in range(count)
    ]  # fmt: skip


def event(row: dict[str, Any]) -> Order:
    """A row as an event, by hand."""
    items = [
        Item(i["sku"], i["price"], Size(**i["size"]), Kind[i["kind"]], i["seen"]) for i in row["items"]
    ]  # fmt: skip
    return Order(**row | {"buyer": Size(**row["buyer"]), "items": items, "at": tuple(row["at"])})


@pipeline
def odd(x: Stream[Order]) -> Stream[Order]:
    """Every second order, as it came, some of which wait a push in the step."""
    return x.filter(lambda e: e.id % 2 == 1).lag(1).map(lambda p: p[1])


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["id"] % 2 == 1][:-1]


def told(rows: Any) -> str:
    """Rows as a text that tells 0.0 from -0.0, whatever library has them."""
    return repr([_plain(row) for row in rows])


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def by_pandas(table: pa.Table) -> Any:
    frame = table.to_pandas()
    frame["at"] = table["at"].to_pylist()  # NumPy's times inside lists have no time zone
    out = odd(frame)
    assert type(out) is type(frame) and list(out.index) == [1 + 2 * i + 2 for i in range(len(out))]
    return out.to_dict("records")


def by_polars(table: pa.Table) -> Any:
    import polars as pl

    return odd(pl.from_arrow(table)).to_dicts()


def by_duckdb(table: pa.Table) -> Any:
    import duckdb

    with duckdb.connect() as db:
        return odd(db.from_arrow(table)).to_pylist()


def by_arrow(table: pa.Table) -> Any:
    out = odd(table)
    assert out.schema == SCHEMA
    return out.to_pylist()


LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": by_arrow,
    "slice": lambda table: by_arrow(pa.concat_tables([table.slice(0, 1), table]).slice(1)),
    "large": lambda table: by_arrow(table.set_column(2, "tags", table["tags"].cast(pa.large_list(pa.large_string())))),
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
    "dicts": lambda table: odd(table.to_pylist()),
}


@pytest.mark.seeded
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("seed", seeds(2))
def test_libraries(library: str, seed: int) -> None:
    rows = rows_of(seed)
    assert told(LIBRARIES[library](pa.Table.from_pylist(rows, SCHEMA))) == told(kept(rows))


@pytest.mark.seeded
def test_events() -> None:
    rows = rows_of(seeds(1)[0])
    assert repr(odd([event(row) for row in rows])) == repr([event(row) for row in kept(rows)])


@pytest.mark.seeded
def test_files(tmp_path: Path) -> None:
    """From one to the next, and back: nothing is lost on the way."""
    rows = rows_of(seeds(1, 5)[0])
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "0.parquet")
    (tmp_path / "p.py").write_text(
        f"from {__name__} import Order, Stream, pipeline\n\n\n@pipeline\n"
        "def same(x: Stream[Order]) -> Stream[Order]:\n    return x.map(lambda e: e)\n"
    )
    files = ["0.parquet", "1.jsonl", "2.arrow", "3.jsonl", "4.parquet"]
    for name, into in itertools.pairwise(files):
        done = CliRunner().invoke(
            cli, ["run", f"{tmp_path}/p.py:same", "--in", f"{tmp_path}/{name}", "--out", f"{tmp_path}/{into}"]
        )
        assert done.exit_code == 0, done.stderr
    assert told(pq.read_table(tmp_path / "4.parquet").to_pylist()) == told(rows)
    first = json.loads((tmp_path / "1.jsonl").read_text().splitlines()[0])
    assert list(first) == list(Order._fields) and first["tags"] == rows[0]["tags"]
    done = CliRunner().invoke(cli, ["run", f"{tmp_path}/p.py:same", "--in", f"{tmp_path}/0.parquet", "--out", "o.csv"])
    assert done.exit_code == 2 and "o.csv: the column 'tags' holds list<item: string>, for which csv" in done.stderr


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("tags", [["a"], None], "position 1: column 'tags' is null: expected list[str]; fill it"),
        ("tags", [["a"], ["b", None]], "position 1: element 1: column 'tags' is null: expected str; fill it"),
        ("tags", ["a", "b"], "column 'tags' holds string: expected list[str]; read it as a list"),
        ("tags", [[1], [2]], "column 'tags' holds int64: expected str"),
        ("marks", [[], [1.0, float("nan")]], "position 1: element 1: column 'marks' is NaN"),
        ("parts", [[{"n": 1}], [{"n": None}]], "position 1: element 0: column 'parts.n' is null: expected int"),
        ("parts", [[{"n": 1}], [None]], "position 1: element 0: column 'parts' is null: expected Part(n: int)"),
        ("parts", [[{"m": 1}], []], "the elements of column 'parts' have no field 'n': they have m"),
        ("parts", [[1], []], "the elements of column 'parts' hold int64: expected Part(n: int), a struct"),
    ],
)
def test_refusals(column: str, value: list[Any], message: str) -> None:
    class Part(NamedTuple):
        n: int

    class Row(NamedTuple):
        tags: list[str]
        marks: list[float | None]
        parts: list[Part]

    Row.__annotations__["parts"] = list[Part]
    good = {"tags": [[], []], "marks": [[], []], "parts": pa.array([[], []], pa.list_(pa.struct([("n", pa.int64())])))}
    p = pipeline(lambda x: x.map(lambda e: e.tags), x=Row)
    with pytest.raises(DataError) as caught:
        p(pa.table(good | {column: value}))
    assert message in str(caught.value)


def test_a_list_is_no_key() -> None:
    p = pipeline(lambda x: x.map(lambda v: v), x=int)
    with pytest.raises(DataError, match=r"the key column 'k' holds list<item: int64>: .* a list is no key"):
        p(pa.table({"x": [1], "k": [[1]]}), key="k")
    with pytest.raises(DataError, match=r"the key 'k' is \[1\]: a key is int, str, bool or a time"):
        p([{"x": 1, "k": [1]}], key="k")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 1, "tags": "a"}', "column 'tags': expected list[str], found 'a'"),
        ('{"id": 1, "tags": [1]}', "column 'tags': expected str, found 1"),
        ('{"id": 1, "tags": [null]}', "row 1 (line 1): element 0: column 'tags' is null: expected str"),
        ('{"id": 1, "tags": null}', "column 'tags' is null: expected list[str]"),
    ],
)
def test_json_lines_that_are_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(line + "\n")
    (tmp_path / "in.csv").write_text("id,tags\n1,a\n")
    (tmp_path / "p.py").write_text(
        "from typing import NamedTuple\nfrom pellucid import pipeline\nclass R(NamedTuple):\n    id: int\n"
        "    tags: list[str]\np = pipeline(lambda x: x.map(lambda e: len(e.tags)), x=R)\n"
    )
    args = ["run", f"{tmp_path}/p.py:p", "--out", f"{tmp_path}/out.jsonl", "--in"]
    done = CliRunner().invoke(cli, [*args, f"{tmp_path}/in.jsonl"])
    assert done.exit_code == 2 and message in " ".join(done.stderr.split()), done.stderr
    done = CliRunner().invoke(cli, [*args, f"{tmp_path}/in.csv"])
    assert done.exit_code == 2 and "column 'tags': a cell of a CSV file holds no list[str]" in done.stderr


def test_bad_elements_are_set_aside_with_their_rows() -> None:
    class Row(NamedTuple):
        id: int
        sizes: list[int]

    p = pipeline(lambda x: x.map(lambda e: e.sizes[0], id="first"), x=Row)
    table = pa.table({"id": [1, 2, 3, 4], "sizes": [[7, 8], [9, None], [], [5]]})
    done = p(table, bad="keep")
    assert done["out"].to_pylist() == [{"out": 7}, {"out": 5}]
    letters = done["bad"].to_pylist()
    assert [letter["column"] for letter in letters] == ["sizes", None]
    assert "element 1: column 'sizes' is null" in letters[0]["reason"] and "IndexError" in letters[1]["reason"]


def test_nan_in_a_list_is_refused_or_kept() -> None:
    p = pipeline(lambda x: x.explode(lambda v: v), x=list[float])
    nan = float("nan")
    for data in ([[1.0, nan]], pa.table({"x": [[1.0, nan]]})):
        with pytest.raises(DataError, match="NaN"):
            p(data)
    assert repr(p([[1.0, nan]], nan="keep")) == "[1.0, nan]"
    assert repr(p(pa.table({"x": [[1.0, nan]]}), nan="keep")["out"].to_pylist()) == "[1.0, nan]"


@pytest.mark.seeded
def test_epochs_and_a_database(tmp_path: Path) -> None:
    """Through tasks in processes, with lists in messages and snapshots; in SQLite a list is JSON."""
    import sqlite3

    rows = rows_of(seeds(1, 8)[0], 20)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in.parquet")
    odd.run_epochs(tmp_path / "in.parquet", tmp_path / "out.parquet", state=tmp_path / "state", pushes=3)
    assert told(pq.read_table(tmp_path / "out.parquet").to_pylist()) == told(kept(rows))
    target = f"sqlite:{tmp_path / 'out.db'}#t"
    odd.run_epochs(tmp_path / "in.parquet", target, state=tmp_path / "state2", pushes=3)
    with closing(sqlite3.connect(tmp_path / "out.db")) as db:
        found = db.execute("SELECT tags, deep FROM t ORDER BY id").fetchall()
    assert [(json.loads(tags), json.loads(deep)) for tags, deep in found] == [
        (r["tags"], r["deep"]) for r in kept(rows)
    ]


def test_arrows_other_lists() -> None:
    """Views may lie in any order, and a null may have elements of its own."""
    total = pipeline(lambda x: x.explode(lambda e: e.parts or []), x=Parts)
    flat, starts, sizes = pa.array([1, 2, 9, 4, 5]), [3, 0, 1], [2, 1, 0]
    views = pa.ListViewArray.from_arrays(starts, sizes, flat)
    large = pa.LargeListViewArray.from_arrays(pa.array(starts), pa.array(sizes), flat)
    hidden = pa.ListArray.from_arrays([0, 2, 3, 5], flat, mask=pa.array([True, False, False]))
    fixed = pa.FixedSizeListArray.from_arrays(flat.slice(1), 2, mask=pa.array([False, True]))
    for array, wanted in [(views, [4, 5, 1]), (large, [4, 5, 1]), (hidden, [9, 4, 5]), (fixed, [2, 9])]:
        assert total(pa.table({"parts": array})).column("out").to_pylist() == wanted
        last = pa.table({"parts": array.slice(1)})
        assert total(last).column("out").to_pylist() == wanted[len(array.to_pylist()[0] or []) :]
