"""Tables of every kind are one log; what is wrong is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from pellucid.atomic.logs import Committable, Names, cascade, committable, cycles, read_log
from pellucid.errors import DataError, UsageError
from tests.atomic.literal_logs import SHAPES, affected, as_text, depths, largest, log, mutual, through, together
from tests.seeds import seeds

STATUSES = {"a": "pending", "b": "pending", "c": "active", "d": "pending"}
PAIRS = [("a", "b"), ("c", "d")]
TABLES = (
    pa.table({"id": list(STATUSES), "status": list(STATUSES.values())}),
    pa.table({"needs": [u for u, _ in PAIRS], "who": [t for _, t in PAIRS]}),
)


def lines(path: Path, table: pa.Table) -> str:
    path.write_text(pd.DataFrame(table.to_pydict()).to_json(orient="records", lines=True))
    return str(path)


def saved(folder: Path, kind: str) -> tuple[Any, ...]:
    made: list[Any] = []
    for n, table in enumerate(TABLES):
        path = folder / f"{n}.{kind}"
        if kind == "folder":
            path.mkdir()
            pq.write_table(table.slice(0, 1), path / "0.parquet")
            pq.write_table(table.slice(1), path / "1.parquet")
        elif kind == "csv":
            pacsv.write_csv(table, path)
        elif kind == "jsonl":
            lines(path, table)
        elif kind == "arrow":
            feather.write_feather(table, path)
        else:
            pq.write_table(table, path)
        made.append(path if n else str(path))
    return tuple(made)


def dictionary(table: pa.Table) -> pa.Table:
    return pa.table({name: table[name].dictionary_encode() for name in table.column_names})


@pytest.mark.parametrize("kind", ["parquet", "folder", "csv", "jsonl", "arrow"])
def test_files(tmp_path: Path, kind: str) -> None:
    assert committable(*saved(tmp_path, kind)).ids() == ["a", "b"]


def test_frames_and_columns() -> None:
    given: list[tuple[Any, Any]] = [
        TABLES,
        tuple(t.to_pandas() for t in TABLES),  # type: ignore[list-item]
        tuple(pl.DataFrame(t.to_pydict()) for t in TABLES),  # type: ignore[list-item]
        tuple(t.to_pydict() for t in TABLES),  # type: ignore[list-item]
        tuple(map(dictionary, TABLES)),  # type: ignore[list-item]
        (STATUSES, iter(PAIRS)),
        (pa.concat_tables([TABLES[0].slice(0, 2), TABLES[0].slice(2)]), TABLES[1]),
    ]
    for tables in given:
        found = committable(*tables)
        assert found.ids() == ["a", "b"] and found.table()["set"].to_pylist() == ["a", "b"], type(tables[0])


def test_other_names_and_other_columns() -> None:
    tables = TABLES[0].rename_columns(["tx", "state"]).append_column("more", pa.array([1.5] * 4)), TABLES[1]
    assert committable(*tables, names=Names("tx", "state")).ids() == ["a", "b"]


@pytest.mark.parametrize("ids", [
    [1, 2, 3, 4], [-5, 2**62, 0, -(2**63)], [10**12, 10**12 + 1, 7, 5], [b"a", b"b", b"\x00", b"\xff"],
    [("x", 1), ("x", 2), ("y", 1), ("y", 2)], ["é", " ", "z", "007"], [1, "1", 2.5, ("t",)],
])  # fmt: skip
def test_ids_of_every_kind(ids: list[Any]) -> None:
    statuses = dict(zip(ids, STATUSES.values(), strict=True))
    found = committable(statuses, [(ids[0], ids[1]), (ids[1], ids[0]), (ids[2], ids[3])])
    assert list(found.sets()) == [ids[:2]] and found.why(ids[3]) == ids[2:]


def test_numbers_of_different_widths_are_one_kind() -> None:
    tables = (
        pd.DataFrame({"id": np.array([1, 2], np.int16), "status": "pending"}),
        {"needs": np.array([1], np.uint8), "who": [2]},
    )
    assert list(committable(*tables).sets()) == [[1], [2]]


def test_unknown_ids_block_or_are_refused() -> None:
    for ids in ([1, 2, 9], [1, 2, 2**60], ["1", "2", "9"]):
        statuses = {ids[0]: "pending", ids[1]: "pending"}
        pairs = [(ids[2], ids[1]), (ids[0], ids[2])]
        found = committable(statuses, pairs)
        assert found.ids() == ids[:1] and found.counts()["unknown"] == 1 and found.why(ids[1]) == [ids[2], ids[1]]
        assert cascade(statuses, pairs, ids[:1]).table().to_pylist()[1]["status"] == "unknown"
        with pytest.raises(DataError, match=r"dependencies: 1 id is in no row of the transactions: .*; add them, or "
                                            r"say unknown='block': what needs one cannot commit then"):  # fmt: skip
            committable(statuses, pairs, unknown="refuse")


def test_rows_that_are_repeated_and_dependencies_on_oneself() -> None:
    for ids in ([1, 2], ["1", "2"], [10**15, 5]):
        tables = {"id": [ids[0], ids[1], ids[0]], "status": ["pending"] * 3}, [(ids[0], ids[0]), (ids[1], ids[0])]
        log = read_log(*tables)
        assert (log.size, log.repeated, log.selves) == (2, 1, 1)
        assert list(committable(*tables).sets()) == [[ids[1]], [ids[0]]]


def two(ids: Any, words: Any) -> dict[str, Any]:
    return {"id": ids, "status": words}


@pytest.mark.parametrize(("transactions", "dependencies", "words"), [
    (two([1, 2], ["pending", "done"]), [], "transactions: row 2: 'status' is 'done': expected active, pending, commi"),
    (two([1], ["Pending"]), [], "'status' is 'Pending': expected .*; did you mean 'pending'?"),
    (two([1], [None]), [], "row 1: 'status' is None: expected"),
    (two([1], [3]), [], "row 1: 'status' is 3: expected"),
    (two([1, 1], ["pending", "aborted"]), [], "row 2: 'id' 1 is aborted, and an earlier row says pending: expected"),
    (two(["x", "y", "x"], ["pending", "pending", "active"]), [], "row 3: 'id' 'x' is active, and an earlier row"),
    ({"ID": [1], "status": ["pending"]}, [], "transactions: there is no column 'id': there are ID, status"),
    (two([1], ["pending"]), {"need": [1], "who": [1]}, "dependencies: there is no column 'needs': there are need, who"),
    (two([1, None], ["pending", "active"]), [], "transactions: row 2: 'id' is empty"),
    (two(["a", ""], ["pending", "active"]), [], "transactions: row 2: 'id' is empty: expected an id"),
    (two([b"a", b""], ["pending", "active"]), [], "transactions: row 2: 'id' is empty: expected an id"),
    (two([1, ("a",), ""], ["pending"] * 3), [], "transactions: row 3: 'id' is empty: expected an id"),
    (two(["a"], ["pending"]), [("a", "a"), ("a", "")], "dependencies: row 2: 'who' is empty: expected an id"),
    (two(pa.array(["a", None, ""]).dictionary_encode(), ["pending"] * 3), [], "transactions: row 2: 'id' is empty"),
    (two(pa.array(["", None], pa.string_view()), ["pending"] * 2), [], "transactions: row 1: 'id' is empty"),
    (two([1], ["pending"]), {"needs": [1, None], "who": [1, 1]}, "dependencies: row 2: 'needs' is empty"),
    (two([1], ["pending"]), [("1", "2")], "dependencies: 'needs' has string, and 'id' has int64: expected ids of one"),
    (two([1.5], ["pending"]), [], "transactions: 'id' has double: expected whole numbers, text or bytes"),
    (two(pa.array([[b"a"]]), ["pending"]), [], "transactions: 'id' has list<.*binary>: expected whole numbers, text"),
    (two(pa.array([{"x": b"a"}]), ["pending"]), [], "transactions: 'id' has struct<x: binary>: expected whole numbers"),
    (two([1, 2], ["pending"]), [], "transactions: 2 values of 'id' and 1 of 'status'"),
    ("nowhere.parquet", [], "nowhere.parquet: no such file or folder"),
])  # fmt: skip
def test_what_is_refused(transactions: Any, dependencies: Any, words: str) -> None:
    with pytest.raises(DataError, match=words.replace("?", r"\?")):
        committable(transactions, dependencies)


D = "needs,who\na,b\n"
ODD: list[tuple[str, str, str]] = [
    # the transactions, their format, what is refused; nothing: they are read
    *((f"id,status\n{word},pending\nb,pending\n", "csv", "") for word in ("NA", "null", '"nan"', "n/a", "NULL", "007")),
    ('{"id":"2020-01-01","status":"pending"}\n{"id":"2020-01-01T00:00:00","status":"active"}\n', "jsonl", ""),
    ('{"id":"a","status":"pending"}\n\n{"id":"b","status":"pending","more":[1]}\n', "jsonl", ""),
    ("", "jsonl", ""),
    ("\n", "ndjson", ""),
    ("id,status\n", "csv", ""),
    ("\ufeffid\tstatus\r\na\tpending\r\n", "tsv", ""),
    ("", "csv", "is empty (0 bytes): expected a header line with the columns' names"),
    ("id,status\na,pending\n,pending\n", "csv", "row 2: 'id' is empty: expected an id"),
    ('id,status\na,pending\n"",pending\n', "csv", "row 2: 'id' is empty: expected an id"),
    ("id,status\na,pending\nb,waiting\n", "csv", "row 2: 'status' is 'waiting': expected active, pending, committed"),
    ("id,status\na,pending\nb,pending,x\n", "csv", "row 2 (line 3): 3 fields, expected 2 (id, status)"),
    ("id,status\na,pending\nb\n", "csv", "row 2 (line 3): 1 field, expected 2 (id, status)"),
    ("id,status\na,pending\n\udce9,pending\n", "csv", "row 2 (line 3): column 'id': the text b'\\xe9' is not UTF-8"),
    ('{"id":"a","status":"pending"}\n{"id":\n', "jsonl", "row 2 (line 2): no JSON value"),
    ('{"id":"a","status":"pending"}\n{"id":1,"status":"pending"}\n', "jsonl", "row 2 (line 2): column 'id': expected"),
    ('{"id":"a","status":"pending"}\n{"status":"pending"}\n', "jsonl", "row 2: 'id' is empty: expected an id"),
    ('{"id":"a","status":"pending"}\n{"id":"","status":"pending"}\n', "jsonl", "row 2: 'id' is empty: expected an id"),
    ('{"id":1.5,"status":"pending"}\n', "jsonl", "row 1 (line 1): column 'id': expected str, found 1.5"),
    ('["a","pending"]\n', "jsonl", "is one JSON array"),
    ('"a"\n', "jsonl", "row 1 is no object: expected {'id': …, 'status': …}"),
    ("name,status\na,pending\n", "csv", "there is no column 'id': there are name, status"),
]  # fmt: skip


def odd(folder: Path, text: str, form: str) -> tuple[str, str]:
    """Files with odd transactions, and plain dependencies."""
    (folder / f"t.{form}").write_bytes(text.encode("utf-8", "surrogateescape"))
    (folder / "d.csv").write_text(D)
    return str(folder / f"t.{form}"), str(folder / "d.csv")


@pytest.mark.parametrize(("text", "form", "words"), ODD)
def test_odd_files(tmp_path: Path, text: str, form: str, words: str) -> None:
    tables = odd(tmp_path, text, form)
    if words:
        with pytest.raises(DataError) as caught:
            read_log(*tables)
        assert f"t.{form}: {words}" in str(caught.value)
    else:
        log = read_log(*tables)
        lines = [line for line in text.splitlines() if line]
        assert log.rows == len(lines) - (form in ("csv", "tsv"))
        if log.rows and form == "csv":
            assert log.listed([0]) == [lines[1].partition(",")[0].strip('"')]


def test_whole_numbers_in_json_lines(tmp_path: Path) -> None:
    for name, text in (("t", '{"id":1,"status":"pending"}\n'), ("d", '{"needs":2,"who":1}\n'), ("none", "")):
        (tmp_path / f"{name}.jsonl").write_text(text)
    assert read_log(tmp_path / "t.jsonl", tmp_path / "d.jsonl").listed(range(2)) == [1, 2]
    assert read_log(tmp_path / "t.jsonl", tmp_path / "none.jsonl").listed([0]) == [1]
    (tmp_path / "t.jsonl").write_text('{"id":1,"status":"pending"}\n{"id":9223372036854775808,"status":"pending"}\n')
    with pytest.raises(DataError, match=r"t\.jsonl: row 2 \(line 2\): column 'id'"):
        read_log(tmp_path / "t.jsonl", tmp_path / "d.jsonl")


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown=: expected block or refuse, found 'no'"):
        committable(STATUSES, PAIRS, unknown="no")
    with pytest.raises(UsageError, match=r"dependencies: item 1 is \('a',\): expected a pair \(needs, who\)"):
        committable(STATUSES, [("a",)])
    with pytest.raises(DataError, match="there is no transaction 'x': expected an id of the log, as 'a', 'b', 'c'"):
        cascade(STATUSES, PAIRS, ["x"])
    with pytest.raises(DataError, match="there is no transaction 5"):
        cascade(STATUSES, PAIRS, [5])
    with pytest.raises(DataError, match="the transaction 'a' is committed: it cannot abort any more"):
        cascade({"a": "committed"}, [], ["a"])
    with pytest.raises(UsageError, match=r"abort=: expected several ids, as \['a'\]"):
        cascade(STATUSES, PAIRS, "a")
    with pytest.raises(UsageError, match=r"abort=: expected the id of a transaction, or several"):
        cascade(STATUSES, PAIRS, [])
    (tmp_path / "a.parquet").write_text("no Parquet")
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read"):
        committable(tmp_path / "a.parquet", PAIRS)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(UsageError, match=r"a\.txt: which format is it\?"):
        committable(tmp_path / "a.txt", PAIRS)


def test_ids_of_csv_are_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,status\n007,pending\n7,active\n")
    (tmp_path / "d.csv").write_text("needs,who\n")
    assert committable(tmp_path / "t.csv", tmp_path / "d.csv").ids() == ["007"]


def test_text_that_is_no_unicode_and_numbers_that_are_too_large() -> None:
    with pytest.raises(DataError, match=r"transactions: 'id' has the text '\\ud800', which is no Unicode"):
        read_log({"\ud800": "pending"}, [])
    with pytest.raises(DataError, match=r"dependencies: 'needs' has the text '\\ud800', which is no Unicode"):
        read_log({"a": "pending"}, [("\ud800", "a")])
    large = pa.table({"id": pa.array([2**63], pa.uint64()), "status": ["pending"]})
    with pytest.raises(DataError, match=r"ids of 2\^63 and more are not understood .*; give larger ones as text"):
        read_log(large, [])


# The compiled loops say what the definition says, and what networkx says; chains, rings and stars of a million.


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(120))
def test_as_it_is_defined(seed: int) -> None:
    drawn = log(seed, 1 + seed % 25)
    statuses, pairs = as_text(drawn) if seed % 3 == 0 else drawn
    found = committable(statuses, pairs)
    assert set(found.ids()) == largest(statuses, pairs)
    sets = list(found.sets())
    assert {frozenset(s) for s in sets} == together(found.ids(), through(statuses, pairs))
    wanted = depths(found.ids(), through(statuses, pairs))
    rows = found.table().to_pylist()
    assert {row["id"]: row["level"] for row in rows} == {t: level for s, level in wanted.items() for t in s}
    done = {t for t, status in statuses.items() if status == "committed"}
    for chosen in sets:  # each can commit once those before it have
        done |= set(chosen)
        assert all(u in done for u, t in pairs if t in chosen)
    assert {frozenset(s) for s in cycles(statuses, pairs).sets()} == mutual(statuses, pairs)
    abort = [t for t, status in statuses.items() if status != "committed"][:2]
    if abort:
        assert set(cascade(statuses, pairs, abort).ids()) == affected(pairs, abort)


@pytest.mark.parametrize("shape", SHAPES)
def test_as_networkx_says(shape: str) -> None:
    statuses, pairs = log(5, 3000, shape)
    graph = nx.DiGraph([pair for pair in pairs if pair[0] != pair[1]])
    graph.add_nodes_from(statuses)
    stops = [t for t in graph if statuses.get(t) not in ("pending", "committed")]
    ways = nx.multi_source_dijkstra_path_length(graph, stops) if stops else {}
    members = {t for t, status in statuses.items() if status == "pending" and t not in ways}
    found = committable(statuses, pairs)
    assert set(found.ids()) == members
    done = {t for t, status in statuses.items() if status == "committed" and t not in ways}
    inner = nx.condensation(graph.subgraph(members | done))  # committed ones come between, and count for nothing
    own = {c: frozenset(members & d["members"]) for c, d in inner.nodes(data=True)}
    assert {frozenset(s) for s in found.sets()} == set(own.values()) - {frozenset()}
    level: dict[int, int] = {}
    for c in nx.topological_sort(inner):
        level[c] = max((level[b] + bool(own[b]) for b in inner.predecessors(c)), default=0)
    depth = {t: level[c] for c, inside in own.items() for t in inside}
    assert dict(zip(*(found.table()[c].to_pylist() for c in ("id", "level")), strict=True)) == depth
    parts = {frozenset(c) for c in nx.strongly_connected_components(graph) if len(c) > 1}
    assert {frozenset(s) for s in cycles(statuses, pairs).sets()} == parts
    abort = [t for t, status in statuses.items() if status != "committed"][:3]
    steps = nx.multi_source_dijkstra_path_length(graph, set(abort))
    rows = cascade(statuses, pairs, abort).table().to_pylist()
    assert {row["id"]: row["steps"] for row in rows} == steps


N = 1_000_000


def arrow(status: str | np.ndarray, needs: np.ndarray, who: np.ndarray, n: int = N) -> tuple[pa.Table, pa.Table]:
    words = pa.array([status]).take(pa.array(np.zeros(n, np.int8))) if isinstance(status, str) else pa.array(status)
    return pa.table({"id": np.arange(n), "status": words}), pa.table({"needs": needs, "who": who})


def test_a_chain_of_a_million() -> None:
    before = np.arange(N - 1)
    tables = arrow("pending", before, before + 1)
    found = committable(*tables)
    assert (found.size, found.count, found.depth) == (N, N, N)
    assert found.ids()[:3] == [0, 1, 2]
    undone = cascade(*tables, [N // 2])
    assert undone.size == N // 2 and undone.path(N - 1)[:2] == [N // 2, N // 2 + 1]
    words = np.array(["pending"] * N, object)
    words[1000] = "aborted"
    blocked = committable(*arrow(words, before, before + 1))
    assert blocked.size == 1000 and blocked.blocked == N - 1001 and len(blocked.why(2000)) == 1001


def test_a_ring_and_a_star_of_a_million() -> None:
    before = np.arange(N)
    ring = cycles(*arrow("pending", before, (before + 1) % N))
    assert (ring.count, ring.size) == (1, N) and set(ring.table()["cycle"].to_pylist()) == {0}
    one = committable(*arrow("pending", before, (before + 1) % N))
    assert (one.size, one.count, one.depth) == (N, 1, 1)
    star = cascade(*arrow("pending", np.zeros(N - 1, np.int64), before[1:]), [0])
    assert star.size == N and set(star.table()["steps"].to_pylist()[1:]) == {1}


def test_a_broken_log_is_told() -> None:
    statuses, pairs = {1: "aborted", 2: "committed", 3: "pending"}, [(1, 2), (2, 3)]
    found = committable(statuses, pairs)
    assert (found.size, found.broken, found.why(3)) == (0, 1, [1, 2, 3])
    assert found.counts()["broken"] == 1 and cascade(statuses, pairs, [1]).counts()["broken"] == 1


def test_a_committed_one_that_needs_a_pending_one() -> None:
    """It breaks A3 as one that needs an active one does, and whoever needs it waits for the pending one."""
    statuses, pairs = {3: "pending", 2: "committed", 1: "pending", 4: "pending"}, [(1, 2), (2, 3), (3, 4)]
    found = committable(statuses, pairs)
    assert (found.size, found.broken, found.depth, list(found.sets())) == (3, 1, 3, [[1], [3], [4]])
    assert cycles(statuses, pairs).broken == cascade(statuses, pairs, [1]).broken == 1
    around = committable(statuses, [*pairs, (3, 1)])  # 1 and 3 need each other through 2
    assert [sorted(one) for one in around.sets()] == [[1, 3], [4]]
    assert around.table().to_pylist()[0]["size"] == 2


def test_nothing_at_all() -> None:
    found = committable({}, [])
    assert (found.size, found.count, found.depth, list(found.sets()), found.table().num_rows) == (0, 0, 0, [], 0)
    assert cycles({}, []).count == 0
    assert isinstance(found, Committable) and read_log({1: "pending"}, []).size == 1
    assert committable({1: "pending"}, []).table().to_pylist() == [{"id": 1, "level": 0, "set": 1, "size": 1}]
