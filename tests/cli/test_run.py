"""``pellucid run``: every format in and out, several sources and outputs, keys, limits, reports."""

from __future__ import annotations

import gzip
import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from click.testing import Result

from pellucid.internal.cli.main import cli

Command = Callable[..., Result]

ROWS = [
    {"name": "a,b", "at.x": 1.5, "at.y": 1, "color": "RED"},
    {"name": 'say "hi"', "at.x": -2.0, "at.y": -5, "color": "BLUE"},
    {"name": "é\n2", "at.x": 1e300, "at.y": 2**63 - 1, "color": "RED"},
    {"name": "", "at.x": float("inf"), "at.y": -(2**63), "color": "RED"},
]
NESTED = [{"name": r["name"], "at": {"x": r["at.x"], "y": r["at.y"]}, "color": r["color"]} for r in ROWS]


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    if ".csv" in path.name:
        data = pa.BufferOutputStream()
        arrow_csv.write_csv(table, data)
        raw = data.getvalue().to_pybytes()
    elif ".jsonl" in path.name:
        raw = "".join(json.dumps(r).replace("Infinity", "1e999") + "\n" for r in rows).encode()
    elif path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    else:
        feather.write_feather(table, path)
        return
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


ENDINGS = ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "feather"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_every_format_in(pellucid: Command, folder: Path, ending: str, chunk: int) -> None:
    write(folder / f"a.{ending}", ROWS)
    result = pellucid("run", "pipes.py:same", "--in", f"a.{ending}", "--chunk", chunk)
    assert lines(result) == NESTED
    assert result.stderr.startswith("4 in, 4 out, ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_out_reads_back(pellucid: Command, folder: Path, ending: str) -> None:
    write(folder / "a.parquet", ROWS)
    first = pellucid("run", "pipes.py:same", "--in", "a.parquet", "--out", f"b.{ending}", "--chunk", 3)
    assert (first.exit_code, first.stdout) == (0, "")
    assert lines(pellucid("run", "pipes.py:same", "--in", f"b.{ending}")) == NESTED


def test_a_file_of_several_blocks(pellucid: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pellucid.internal.data.text as text

    defaults = text.blocks.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "size", 64)
    expected = [{"out": i * (i + 1) // 2} for i in range(1, 101)]
    (folder / "a.csv").write_text("n,x\n" + "".join(f'"line\n{i}",{i}\n' for i in range(1, 101)))
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.csv", "--value", "x")) == expected
    (folder / "a.jsonl").write_text("".join(f'{{"n": "{i}", "x": {i}}}\n' for i in range(1, 101)))
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.jsonl")) == expected
    (folder / "a.csv").write_text("n,x\n" + "".join(f'"line\n{i}",{i}\n' for i in range(1, 101)) + "q,abc\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "b.csv")
    assert result.stderr.startswith("pellucid: a.csv: row 101 (line 202): column 'x': expected int, found 'abc'")


@pytest.mark.parametrize(
    "text", ["1\n2\n3\n", "1\n\n2\n3", '{"x": 1}\n{"x": 2}\n{"x": 3}\n', '{"other": 1}\n{"other": 2}\n{"other":3}']
)
def test_json_lines_on_stdin_bare_or_as_objects(pellucid: Command, text: str) -> None:
    assert lines(pellucid("run", "pipes.py:total", input=text)) == [{"out": 1}, {"out": 3}, {"out": 6}]


def test_nothing_in_nothing_out(pellucid: Command, folder: Path) -> None:
    assert lines(pellucid("run", "pipes.py:total", input="")) == []
    (folder / "a.csv").write_text("x\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "b.parquet")
    assert result.exit_code == 0
    assert parquet.read_table("b.parquet").to_pydict() == {"out": []}


def test_nested_structs_and_nested_objects(pellucid: Command, folder: Path) -> None:
    parquet.write_table(pa.table({"at": [{"x": 1.5, "y": 1}], "name": ["q"], "color": [2]}), "a.parquet")
    row = {"name": "q", "at": {"x": 1.5, "y": 1}, "color": "BLUE"}
    assert lines(pellucid("run", "pipes.py:same", "--in", "a.parquet")) == [row]
    (folder / "a.jsonl").write_text('{"at": {"x": 1.5, "y": 1, "z": [1]}, "name": "q", "color": "BLUE"}\n')
    assert lines(pellucid("run", "pipes.py:same", "--in", "a.jsonl")) == [row]
    for ending in ("parquet", "arrow", "csv", "jsonl"):
        assert pellucid("run", "pipes.py:same", "--in", "a.jsonl", "--out", f"b.{ending}").exit_code == 0
    assert parquet.read_table("b.parquet").to_pylist() == feather.read_table("b.arrow").to_pylist() == [row]
    assert (folder / "b.csv").read_text() == 'name,at.x,at.y,color\n"q",1.5,1,"BLUE"\n'
    assert (folder / "b.jsonl").read_text() == json.dumps(row) + "\n"
    # A key that a record carries inside needs no second column.
    assert lines(pellucid("run", "pipes.py:same", "--in", "b.csv", "--key", "at.y,name")) == [row]


def test_values_that_only_the_slow_parser_takes(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n+5\n 6 \n")
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.csv")) == [{"out": 5}, {"out": 11}]
    (folder / "a.jsonl").write_text('{"x": 1e999}\n{"x": 2}\n')
    assert pellucid("run", "pipes.py:halves", "--in", "a.jsonl").stdout == '{"out": 1e999}\n{"out": 1.0}\n'


def test_sources_from_several_files_in_lock_step(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("a\n1\n2\n3\n")
    (folder / "b.jsonl").write_text('{"b": 10}\n')
    args = ["run", "pipes.py:both", "--in", "a=a.csv", "--in", "b=b.jsonl", "--chunk", 2]
    assert lines(pellucid(*args, "--uneven", "silent")) == [{"out": 1}, {"out": 10}, {"out": 2}, {"out": 3}]
    assert lines(pellucid(*args, "--head", 1)) == [{"out": 1}, {"out": 10}]


def test_an_input_that_ends_before_another_is_refused(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("a\n1\n2\n3\n")
    (folder / "b.jsonl").write_text('{"b": 10}\n')
    said = (
        "pellucid: b.jsonl: ends after 1 row, but a.csv has more: the i-th push takes the i-th row of each; complete "
        "it, or say --uneven silent "
        "if an input that has ended is to be silent from then on\n"
    )
    for chunk in (1, 2, 100):  # at the end of a chunk, within it, and where one chunk holds all
        result = pellucid(
            "run", "pipes.py:both", "--in", "a=a.csv", "--in", "b=b.jsonl", "--out", "out.csv", "--chunk", chunk
        )
        assert (result.exit_code, result.stderr) == (2, said)
        assert not (folder / "out.csv").exists()
    result = pellucid(
        "run", "pipes.py:both", "--in", "a=a.csv", "--in", "b=b.jsonl", "--on", "spark", "--uneven", "silent"
    )
    assert (
        result.stderr
        == "pellucid: --uneven goes with the local engine: on Spark the rows of several inputs are lined up by "
        "--order, not by their number\n"
    )


@pytest.mark.parametrize("name", ["w.csv", "w.jsonl", "w.parquet"])
def test_sources_from_one_file_where_null_is_silence(pellucid: Command, folder: Path, name: str) -> None:
    if name == "w.csv":
        (folder / name).write_text("a,b\n1,\n,2\n3,4\n,\n")
    elif name == "w.jsonl":
        (folder / name).write_text('{"a": 1}\n{"b": 2}\n{"a": 3, "b": 4}\n{}\n')
    else:
        parquet.write_table(pa.table({"a": [1, None, 3, None], "b": [None, 2, 4, None]}), name)
    result = pellucid("run", "pipes.py:both", "--in", name)
    assert lines(result) == [{"out": v} for v in (1, 2, 3, 4)]
    assert result.stderr.startswith("4 in, 4 out")


def test_records_of_several_sources_in_one_file(pellucid: Command, folder: Path) -> None:
    (folder / "w.csv").write_text("x.x,x.y,y.x,y.y\n1,2,,\n,,3,4\n")
    assert lines(pellucid("run", "pipes.py:points", "--in", "w.csv")) == [{"out": 1.0}, {"out": -3.0}]


def test_several_outputs(pellucid: Command, folder: Path) -> None:
    (folder / "w.csv").write_text("a,b\n1,2\n3,\n5,6\n")
    together = [{"sums": 3}, {"firsts": 1}, {"firsts": 3}, {"sums": 9}, {"firsts": 5}]
    assert lines(pellucid("run", "pipes.py:two", "--in", "w.csv")) == together
    assert lines(pellucid("run", "pipes.py:two", "--in", "w.csv", "--chunk", 1)) == together
    result = pellucid("run", "pipes.py:two", "--in", "w.csv", "--out", "sums=s.csv", "--out", "firsts=f.jsonl")
    assert result.exit_code == 0
    assert (folder / "s.csv").read_text() == "sums\n3\n9\n"
    assert (folder / "f.jsonl").read_text() == '{"firsts": 1}\n{"firsts": 3}\n{"firsts": 5}\n'


@pytest.mark.parametrize(("keys", "kind"), [(["a", "b", "a"], str), ([7, 8, 7], int), ([True, False, True], bool)])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_keys(pellucid: Command, folder: Path, keys: list[Any], kind: type, ending: str) -> None:
    rows = [{"x": i + 1, "user": key} for i, key in enumerate(keys)]
    write(folder / f"a.{ending}", rows)
    found = lines(pellucid("run", "pipes.py:total", "--in", f"a.{ending}", "--key", "user"))
    assert found == [{"user": keys[0], "out": 1}, {"user": keys[1], "out": 2}, {"user": keys[2], "out": 4}]
    assert all(type(row["user"]) is kind for row in found)


def test_a_null_key(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x,user\n1,1\n2,\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--key", "user")
    assert (
        result.stderr
        == "pellucid: a.csv: row 2 (line 3): the key column 'user' is null: give every row a key, or leave such rows "
        "out\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("a.csv", "x,user\n1,a\n2,\n", "row 2 (line 3)"),
        ("a.csv", "x,user\n1,a\n+2,\n", "row 2 (line 3)"),  # a plus: Arrow refuses the block, and Python reads it
        ("a.csv", 'x,user,b\n1,"",b\n2,,b\n', "row 2 (line 3)"),
        ("a.tsv", "x\tuser\n1\ta\n2\t\n", "row 2 (line 3)"),
        ("a.jsonl", '{"x": 1, "user": "a"}\n{"x": 2, "user": null}\n', "row 2 (line 2)"),
        ("a.jsonl", '{"x": 1, "user": "a"}\n{"x": 2}\n', "row 2 (line 2)"),
    ],
)
def test_a_null_key_is_no_empty_text(pellucid: Command, folder: Path, name: str, text: str, row: str) -> None:
    (folder / name).write_text(text)
    result = pellucid("run", "pipes.py:total", "--in", name, "--key", "user", "--value", "x")
    assert (result.exit_code, result.stderr) == (
        2,
        f"pellucid: {name}: {row}: the key column 'user' is null: give every row a key, or leave such rows out\n",
    )


@pytest.mark.parametrize("two", ["2", "+2"])
def test_a_quoted_empty_text_is_a_key(pellucid: Command, folder: Path, two: str) -> None:
    (folder / "a.csv").write_text(f'x,user,w\n1,"",\n{two},"",""\n3,b,c\n')
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--key", "user", "--value", "x")
    assert lines(result) == [{"user": "", "out": 1}, {"user": "", "out": 3}, {"user": "b", "out": 3}]
    # An empty cell of a text that is no key is the text "", with and without quotes.
    (folder / "b.csv").write_text(f'w,user,x\n,a,1\n"",a,{two}\nx,a,3\n')
    assert lines(pellucid("run", "pipes.py:words", "--in", "b.csv", "--key", "user")) == [
        {"user": "a", "out": ""},
        {"user": "a", "out": "x"},
    ]


def test_outputs_that_go_nowhere_are_told(pellucid: Command, folder: Path) -> None:
    (folder / "w.csv").write_text("a,b\n1,2\n3,\n5,6\n")
    result = pellucid("run", "pipes.py:two", "--in", "w.csv", "--out", "sums=s.csv")
    assert result.stderr.splitlines()[0] == "not written: firsts (no --out firsts=…)"
    assert result.stderr.splitlines()[1].startswith("3 in, 2 out, ")


def test_a_key_with_the_name_of_an_output(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x,out\n1,1\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--key", "out", "--value", "x", "--out", "b.csv")
    assert result.exit_code == 2 and not (folder / "b.csv").exists()
    assert result.stderr.startswith(
        "pellucid: the key column 'out' has the name of an output: one of them would be lost; rename the column"
    )


def test_a_float_is_no_key(pellucid: Command, folder: Path) -> None:
    parquet.write_table(pa.table({"x": [1], "k": [1.5]}), "a.parquet")
    result = pellucid("run", "pipes.py:total", "--in", "a.parquet", "--key", "k")
    assert (
        result.stderr
        == "pellucid: a.parquet: the key column 'k' holds double: a key is int, str, bool or a time; cast it first\n"
    )


def test_limit(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n2\n3\n")
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.csv", "--head", 2)) == [{"out": 1}, {"out": 3}]
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.csv", "--head", 0)) == []


def test_the_report(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n2\n3\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "b.csv", "--json")
    report = json.loads(result.stdout)
    assert report.pop("seconds") > 0 and report.pop("events_per_second") > 0
    assert report == {
        "pellucid": 1,
        "verb": "run",
        "pipeline": "total",
        "in": ["a.csv"],
        "out": {"out": "b.csv"},
        "pushes": 3,
        "events_out": {"out": 3},
        "cores": 1,
    }
    assert result.stderr.startswith("3 in, 3 out, ")


def test_what_a_users_function_prints_is_not_in_the_result(pellucid: Command) -> None:
    result = pellucid("run", "pipes.py:noisy", input="1\n")
    assert lines(result) == [{"out": 1}]
    assert "hello from the user [1]" in result.stderr


def test_an_older_output_is_replaced_and_its_link_followed(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    (folder / "old.csv").write_text("older")
    (folder / "link.csv").symlink_to("old.csv")
    assert pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "link.csv").exit_code == 0
    assert (folder / "old.csv").read_text() == "out\n1\n"
    assert (folder / "link.csv").is_symlink()
    (folder / "a.csv").write_text("x\nabc\n")
    assert pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "old.csv").exit_code == 2
    assert (folder / "old.csv").read_text() == "out\n1\n"


def test_a_device_is_written_to_not_replaced(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "/dev/null", "--out-format", "csv")
    assert result.exit_code == 0, result.stderr
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/null", "null"])
@pytest.mark.parametrize(
    "more", [[], *(["--out-format", form] for form in ("csv", "tsv", "jsonl", "parquet", "arrow"))]
)
def test_nowhere_needs_no_format(pellucid: Command, folder: Path, name: str, more: list[str]) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    (folder / "null").symlink_to("/dev/null")
    result = pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", name, *more)
    assert (result.stdout, result.exit_code) == ("", 0), result.stderr
    assert result.stderr.startswith("1 in, 1 out, ")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_line_is_an_empty_text_in_a_file_of_one_column(pellucid: Command, folder: Path, end: str) -> None:
    for text, events in (
        (["w", "a", "", "b", ""], ["", "b"]),
        (["w", "", "", "b"], ["", "b"]),  # without an end of line at the end of the file
        (["w", "", "", "", ""], ["", ""]),
        (["w", "a", '""', "b", ""], ["", "b"]),
        (["w", "a", " ", ""], [" "]),
        (["w", "a", ""], []),
        (["w", ""], []),
    ):
        (folder / "a.csv").write_bytes(end.join(text).encode())
        for chunk in (1, 1000):
            result = pellucid("run", "pipes.py:words", "--in", "a.csv", "--chunk", chunk)
            assert [line["out"] for line in lines(result)] == events, text


def test_an_empty_text_is_the_same_event_with_one_column_and_with_two(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("w\na\n\nb\n")
    (folder / "b.csv").write_text("w,z\na,1\n,2\nb,3\n")
    one, two = (lines(pellucid("run", "pipes.py:words", "--in", name)) for name in ("a.csv", "b.csv"))
    assert one == two == [{"out": ""}, {"out": "b"}]
    assert pellucid("run", "pipes.py:words", "--in", "a.csv", "--out", "one.csv").exit_code == 0
    (folder / "c.csv").write_text((folder / "one.csv").read_text().replace("out", "w"))
    assert lines(pellucid("run", "pipes.py:words", "--in", "c.csv")) == [{"out": "b"}]


def test_empty_lines_in_a_file_of_several_columns_are_no_rows(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x,z\n\n1,2\n\n\n3,4\n\n")
    assert lines(pellucid("run", "pipes.py:total", "--in", "a.csv")) == [{"out": 1}, {"out": 4}]


OPAQUE = """\
from pellucid import Stream, pipeline
N = {"UA": "United"}
@pipeline
def names(c: Stream[str]) -> Stream[str]:
    return c.map(lambda c: N[c], to=str, id="name").filter(lambda n: n.startswith("U"), id="first")
"""
SLOW = OPAQUE.replace("N[c]", "c.encode().hex()").replace('n.startswith("U")', 'any(d == "5" for d in n)')


def test_a_step_that_is_slower_says_why_once(pellucid: Command, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    (folder / "in.csv").write_text("c\nUA\nUA\nUA\n")
    lines = [
        "slower, as it runs in plain Python: step 'name' (map λ, slow.py:5): a lambda uses the method str.encode",
        "slower, as it runs in plain Python: step 'first' (filter λ, slow.py:5): a lambda loops over an event's value",
    ]
    share = r"; it took (\d+) % of the time of all steps so far"
    for more in ([], ["--chunk", "1"], ["--epoch-size", "1", "--state", "state"]):
        result = pellucid("run", "slow.py", "--in", "in.csv", "--out", "out.csv", *more)
        assert result.exit_code == 0 and re.sub(share, "", result.stderr).splitlines()[:2] == lines
        assert result.stderr.count("slower") == 2
        shares = [int(found) for found in re.findall(share, result.stderr)]
        assert len(shares) == (0 if "--epoch-size" in more else 2) and sum(shares) <= 100
    assert "slower" not in pellucid("run", "pipes.py:words", "--in", "in.csv", "--value", "c").stderr


def test_show_marks_what_is_slower(pellucid: Command, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    text = pellucid("show", "slow.py").stdout
    assert text.splitlines() == [
        "c ─▶ map λ (?) ─▶ filter λ (?) ─▶ out",
        "",
        "(?) in plain Python, event by event, which is slower:",
        "  step 'name' (map λ, slow.py:5): a lambda uses the method str.encode",
        "  step 'first' (filter λ, slow.py:5): a lambda loops over an event's value",
    ]
    document = json.loads(pellucid("show", "slow.py", "--json").stdout)
    assert [node.get("reason") for node in document["graph"]["nodes"]][2] == "a lambda loops over an event's value"
    assert pellucid("show", "slow.py", "--format", "mermaid").stdout.count("(?)") == 2


def test_what_looks_inside_text_is_not_slower(pellucid: Command, folder: Path) -> None:
    (folder / "quick.py").write_text(OPAQUE)
    (folder / "in.csv").write_text("c\nUA\nUA\n")
    assert "slower" not in pellucid("run", "quick.py", "--in", "in.csv", "--out", "out.csv").stderr
    assert pellucid("show", "quick.py").stdout.splitlines() == ["c ─▶ map λ ─▶ filter λ ─▶ out"]


@pytest.mark.parametrize("row", ["1,7,{}\n+2,8,b\n", "1,{},a\n2,c,b\n"])
def test_a_row_that_is_longer_than_the_fast_parser_takes(pellucid: Command, folder: Path, row: str) -> None:
    (folder / "a.csv").write_text("x,k,s\n" + row.format("z" * 3_000_000))
    found = lines(pellucid("run", "pipes.py:total", "--in", "a.csv", "--key", "k"))
    assert [line["out"] for line in found] == [1, 2]
    assert [type(line["k"]) for line in found] == ([int, int] if "7" in row else [str, str])


# No option is lost to its repetition: it takes several values, or refuses the second.


def single_valued() -> list[tuple[str, str]]:
    """Every option of every verb that takes one value."""
    found = []
    for verb, command in cli.commands.items():
        for option in command.params:
            if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
                found.append((verb, max(option.opts, key=len)))
    return found


@pytest.mark.parametrize(("verb", "option"), single_valued())
def test_a_second_value_is_refused(pellucid: Command, verb: str, option: str) -> None:
    value = next(p for p in cli.commands[verb].params if option in p.opts)
    width = value.nargs
    result = pellucid(verb, "pipes.py:total", option, *["1"] * width, option, *["2"] * width)
    assert result.exit_code == 2
    assert result.stderr == f"pellucid: {option} is given twice, and takes one value: leave one out\n"


def test_also_with_an_equals_sign_and_the_same_value(pellucid: Command) -> None:
    result = pellucid("run", "pipes.py:total", "--head=3", "--head", "3")
    assert (result.exit_code, result.stderr) == (
        2,
        "pellucid: --head is given twice, and takes one value: leave one out\n",
    )


def test_what_it_is_given_is_read_first(pellucid: Command) -> None:
    result = pellucid("run", "pipes.py:total", "--head", "x", "--nothing")
    assert result.exit_code == 2 and "No such option" in result.stderr and "--nothing" in result.stderr


def test_a_flag_may_be_said_twice(pellucid: Command, folder: Path) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    assert pellucid("run", "pipes.py:total", "--in", "a.csv", "--out", "b.csv", "--json", "--json").exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["check", "pipes.py:total", "--queue", "2", "--queue", "3"], "--queue is given twice: leave one out"),
        (
            ["check", "pipes.py:total", "--queue", "a.0=2", "--queue", "a.0=3"],
            "--queue: 'a.0' is given twice: leave one out",
        ),
        (
            ["export", "pipes.py:total", "--format", "smv", "--queue", "a.0=2", "--queue", "a.0=3"],
            "--queue: 'a.0' is given twice",
        ),
        (
            [
                "run",
                "pipes.py:total",
                "--on",
                "spark",
                "--in",
                "a.csv",
                "--order",
                "x",
                "--conf",
                "a=1",
                "--conf",
                "a=2",
            ],
            "--conf: 'a' is given twice: leave one out",
        ),
        (
            ["crash", "pipes.py:total", "--in", "a.csv", "--out", "x.csv", "--out", "y.csv"],
            "--out: 'out' is given twice",
        ),
        (
            ["run", "pipes.py:both", "--in", "a=a.csv", "--in", "a=b.csv"],
            "b.csv: no such file",
        ),
        (["run", "pipes.py:total", "--in", "a.csv", "--key", "x,x"], "--key: the column 'x' is named twice"),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", "x", "--key", "x"],
            "--key: the column 'x' is named twice",
        ),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", ""],
            "--key '': expected names of columns, as in --key shop,user",
        ),
        (
            ["run", "pipes.py:total", "--in", "a.csv", "--key", "x,"],
            "--key x,: expected names of columns, as in --key shop,user",
        ),
    ],
)
def test_names_that_come_twice(pellucid: Command, folder: Path, args: list[str], said: str) -> None:
    (folder / "a.csv").write_text("x\n1\n")
    result = pellucid(*args)
    assert result.exit_code == 2 and said in result.stderr, result.stderr


@pytest.mark.parametrize("keys", [["--key", "a", "--key", "b"], ["--key", "a,b"], ["--key=a, b"]])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_key_of_several_columns(pellucid: Command, folder: Path, keys: list[str], form: str) -> None:
    rows = [("x", 1, 1), ("y", 1, 2), ("x", 2, 3), ("x", 1, 4)]
    if form == "csv":
        (folder / "in.csv").write_text("a,b,x\n" + "".join(f"{a},{b},{x}\n" for a, b, x in rows))
    else:
        (folder / "in.jsonl").write_text("".join(json.dumps({"a": a, "b": b, "x": x}) + "\n" for a, b, x in rows))
    result = pellucid("run", "pipes.py:total", "--in", f"in.{form}", *keys)
    totals = [1, 2, 3, 5]
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"a": a, "b": b, "out": t} for (a, b, _), t in zip(rows, totals, strict=True)
    ]


def test_a_key_beside_a_key_by_is_written_as_it_came(pellucid: Command, folder: Path) -> None:
    (folder / "k.py").write_text(
        "from pellucid import Stream, pipeline\n"
        "@pipeline\n"
        "def n(v: Stream[int]) -> Stream[int]:\n"
        "    return v.key_by(lambda v: 'odd' if v % 2 else 'even').cumulate(lambda n, v: n + 1, start=0)\n"
    )
    (folder / "in.csv").write_text("u,v\n7,1\n8,2\n7,2\n7,3\n")
    result = pellucid("run", "k.py:n", "--in", "in.csv", "--key", "u")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"u": 7, "out": 1},
        {"u": 8, "out": 1},
        {"u": 7, "out": 1},
        {"u": 7, "out": 2},
    ]


def test_a_key_column_that_is_not_there(pellucid: Command, folder: Path) -> None:
    (folder / "in.csv").write_text("user,x\n1,2\n")
    result = pellucid("run", "pipes.py:total", "--in", "in.csv", "--key", "user,shp")
    assert (result.exit_code, result.stderr) == (2, "pellucid: in.csv: no key column 'shp': its columns are user, x\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "pipes.py:total", "--engine=local", "--on", "local"], "--engine is called --on now"),
        (["run", "pipes.py:total", "--epochs", "x"], "--epochs is called --epoch-size now"),
        (["run", "pipes.py:total", "--pushes", "x"], "--pushes is called --epoch-size now"),
        (["run", "pipes.py:total", "--short", "x"], "--short is called --uneven now"),
        (["run", "pipes.py:total", "--on=x", "--changed", "s"], "--changed is called --allow-changed now"),
        (["crash", "pipes.py:total", "--in", "a", "--short", "x"], "--short is called --uneven now"),
        (["tables", "nowhere.csv"], "tables is called schema now"),
        (["net", "doubt", "nowhere"], "doubt is called unresolved now"),
        (["run", "pipes.py:total", "--keep", "0"], "--keep is called --snapshots now"),
        (["crash", "pipes.py:total", "--in", "a", "--keep", "f"], "--keep is called --folder now"),
        (["run", "pipes.py:total", "--limit", "x"], "--limit is called --head now"),
        (["audit", "nowhere", "--limit", "3"], "--limit is called --violations now"),
        (["capacity", "no.toml", "--limit", "A=1", "--limit", "B=1"], "--limit is called --queue-limit now"),
        (["capacity", "no.toml", "--workers", "A=1"], "--workers is called --parallelism now"),
    ],
)
def test_names_of_old_are_taken_for_the_new_ones(pellucid: Command, args: list[str], said: str) -> None:
    done = pellucid(*args)
    first, second = done.stderr.splitlines()[0], done.stderr.partition("\n")[2]
    assert (done.exit_code, first) == (2, f"pellucid: {said}")
    assert second and said.split()[0] not in second  # what is wrong is said of the new name


def test_a_run_by_names_of_old(pellucid: Command, folder: Path) -> None:
    (folder / "in.csv").write_text("x\n1\n2\n3\n")
    done = pellucid(
        *("run", "pipes.py:total", "--in", "in.csv", "--out", "out.csv"),
        *("--epochs", "2", "--keep=1", "--state", "state", "--engine", "local"),
    )
    assert done.exit_code == 0, done.stderr
    assert (folder / "out.csv").read_text().split() == ["out", "1", "3", "6"]
