"""``bad=``: rows that cannot be read, or on which a step fails, are set aside, once each, and change nothing else.

The judge is a loop over rows in plain Python: it reads a cell as the documents say, tries the push, and forgets it if
it fails.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pellucid import DataError, PellucidError, Stream, UsageError, apply, pipeline, silent
from pellucid.internal.cli.main import cli
from tests.seeds import seeds

PIPES = """
from pellucid import Stream, apply, pipeline

@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")

@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda v, w: 10 * v + w, a, b)
"""


@pipeline
def share(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0).map(lambda t: 1000 // t, id="share")


@pipeline
def both(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda v, w: 10 * v + w, a, b, id="both")


def run(*args: Any) -> Result:
    result = CliRunner().invoke(cli, ["run", *map(str, args)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# ---------------------------------------------------------------- the judge

Row = dict[str, Any]  # cells as a text file has them; None: the line is cut
Where = tuple[int, str | None, str | None]  # a bad row: its number, the column, the step


def drawn(rng: random.Random, count: int) -> list[Row]:
    """Rows with faults: text that is no number, nothing at all, no key, a line that is cut, a sum that becomes 0."""
    rows = []
    for seq in range(count):
        row: Row = {"k": rng.choice(["u", "v"]), "x": str(rng.randint(-2, 3)), "n": f"note {seq}"}
        fault = rng.choice(["x", "empty", "key", "cut", "", "", "", "", "", "", ""])
        if fault == "x":
            row["x"] = rng.choice(["1.5", "one", "1e3", str(2**63), "0x1"])
        elif fault:
            row |= {"empty": {"x": ""}, "key": {"k": ""}, "cut": {"n": None}}[fault]
        rows.append(row)
    return rows


def judged(rows: list[Row], order: list[int] | None = None) -> tuple[list[tuple[str, str, int]], set[Where]]:
    """What comes out, and the rows that are bad."""
    out, bad, totals = [], set(), dict[str, int]()
    for i in range(len(rows)) if order is None else order:
        row = rows[i]
        if row["n"] is None:
            bad.add((i, None, None))
        elif not row["k"]:
            bad.add((i, "k", None))
        elif not re.fullmatch(r"[+-]?\d+", row["x"]) or abs(int(row["x"])) >= 2**63:
            bad.add((i, "x", None))
        else:
            total = totals.get(row["k"], 0) + int(row["x"])
            if total == 0:
                bad.add((i, None, "share"))
                continue
            totals[row["k"]] = total
            out.append((row["k"], row["n"], 1000 // total))
    return out, bad


def as_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    for row in [{"k": "k", "x": "x", "n": "n"}, *rows]:
        csv.writer(text, lineterminator="\n").writerow(
            [row["k"], row["x"], *([row["n"]] if row["n"] is not None else [])]
        )
    return text.getvalue()


def as_json(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        number = row["x"] if re.fullmatch(r"-?[0-9.]+(e\d+)?", row["x"]) else json.dumps(row["x"] or None)
        line = f'{{"k": {json.dumps(row["k"] or None)}, "x": {number}, "n": {json.dumps(row["n"])}}}'
        lines.append(line if row["n"] is not None else line[:-9])
    return "\n".join(lines) + "\n"


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("form", ["csv", "jsonl", "csv.gz"])
def test_files(seed: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    rows = [{"k": "u", "x": "1", "n": "first"}, *drawn(rng, 60)]  # the first rows say what a key is
    half = rng.randint(1, 60)
    (tmp_path / "p.py").write_text(PIPES)
    for name, part in (("a", rows[:half]), ("b", rows[half:])):
        text = as_json(part) if form == "jsonl" else as_csv(part)
        data = text.encode()
        if form.endswith("gz"):
            import gzip

            data = gzip.compress(data)
        Path(f"{name}.{form}").write_bytes(data)
    want, bad = judged(rows)
    said = ["--key", "k", "--keep-columns", "n", "--chunk", rng.choice([1, 7, 1000])]
    done = run(
        "p.py:share", "--in", f"a.{form}", "--in", f"b.{form}", "--out", "out.jsonl", "--bad", "bad.jsonl", *said
    )
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [(e["k"], e["n"], e["out"]) for e in found] == want
    letters = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
    places = [(letter["row"] - 1 + (half if letter["file"] == f"b.{form}" else 0)) for letter in letters]
    assert places == sorted(places)  # in the order in which they came
    assert {(i, le["column"], le["step"]) for i, le in zip(places, letters, strict=True)} == bad
    assert len(places) == len(bad) and f"{len(bad)} bad" in done.output
    lines = (as_json if form == "jsonl" else lambda r: as_csv(r).split("\n", 1)[1])(rows).splitlines()
    assert [letter["text"] for letter in letters] == [lines[i] for i in places]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(4))
def test_frames_in_memory(seed: int) -> None:
    """The same rows as objects: a text is no number, None is nothing; also put in order by a column."""
    rng = random.Random(seed)
    rows = [row for row in drawn(rng, 40) if row["n"] is not None]
    seq = rng.sample(range(100), len(rows))
    table = [
        {
            "k": r["k"] or None,
            "x": int(r["x"]) if re.fullmatch(r"-?\d+", r["x"]) else r["x"] or None,
            "n": r["n"],
            "seq": s,
        }
        for r, s in zip(rows, seq, strict=True)
    ]
    for order in (None, "seq"):
        want, bad = judged(rows, None if order is None else sorted(range(len(rows)), key=seq.__getitem__))
        frames: list[Any] = [table, pd.DataFrame(table, dtype=object)]
        for frame in frames:
            said = {} if order is None else {"order": order}
            found = share(frame, key="k", keep=["n"], bad="keep", **said)
            out, letters = (
                pd.DataFrame(found["out"], columns=["k", "n", "out"]),
                pd.DataFrame(found["bad"], columns=["row", "column", "step"]).astype(object),
            )
            assert list(out[["k", "n", "out"]].itertuples(index=False, name=None)) == want
            letters = letters.where(letters.notna(), None)
            assert sorted(letters.itertuples(index=False, name=None), key=str) == sorted(bad, key=str)


# ---------------------------------------------------------------- what a row is, and what is not one


def test_a_dead_letter_in_each_kind_of_frame() -> None:
    table = pa.table({"x": [4, None, -4, 6], "note": ["a", "b", "c", "d"]})
    whys = [
        "column 'x' is null: expected int; fill it, remove the row, or declare it as int | None",
        "on the event 0: ",
    ]
    for frame, letters in (
        (table, lambda t: t.to_pylist()),
        (pl.from_arrow(table), lambda t: t.to_dicts()),
        (
            table.to_pandas().astype({"x": "Int64"}),
            lambda t: t.astype(object).where(t.notna(), None).to_dict("records"),
        ),
    ):
        found = share(frame, bad="keep", keep="note")
        assert type(found["bad"]) is type(frame)
        first, second = letters(found["bad"])
        assert (first["file"], first["row"], first["column"], first["step"]) == ("share: source 'x'", 1, "x", None)
        assert (second["row"], second["column"], second["step"]) == (2, None, "share")
        assert first["reason"] == whys[0] and second["reason"].startswith(whys[1]) and "\n" not in second["reason"]
        assert json.loads(second["text"]) == {"x": -4, "note": "c"}
    assert share([4, "a", 6], bad="keep")["bad"][0]["text"] == "'a'"


def test_a_file_of_them(tmp_path: Path) -> None:
    assert share([4, -4, 6], bad=tmp_path / "bad.parquet") == [250, 100]
    assert pq.read_table(tmp_path / "bad.parquet")["step"].to_pylist() == ["share"]
    assert share([4, 6], bad=str(tmp_path / "none.csv")) == [250, 100]
    assert (tmp_path / "none.csv").read_text() == "file,row,column,step,reason,text\n"


def test_rows_of_one_number_stay_side_by_side() -> None:
    """A bad row takes the others of its push with it: what comes later must meet what it would have met."""
    found = both([1, "?", 3, 4], [5, 6, silent, 8], bad="keep")
    assert found["out"] == [15, 38]
    assert [(e["file"], e["row"], e["text"]) for e in found["bad"]] == [
        ("both: source 'a'", 1, "'?'"), ("both: source 'b'", 1, "6"),
    ]  # fmt: skip
    assert found["bad"][1]["reason"] == (
        "its push has a row that cannot be read: both: source 'a': position 1: expected int, found str '?'"
    )


def test_rows_that_meet_by_order_do_not() -> None:
    left = [{"t": 1, "a": 1}, {"t": 2, "a": None}, {"t": 3, "a": 3}]
    right = [{"t": 1, "b": 5}, {"t": 2, "b": 6}, {"t": 3, "b": 7}]
    found = both(left, right, order="t", bad="keep")
    assert [e["out"] for e in found["out"]] == [15, 36]  # as if the bad row had never been there
    assert [(e["file"], e["row"]) for e in found["bad"]] == [("both: source 'a'", 1)]


def test_a_bad_row_may_double_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(PIPES)
    Path("in.csv").write_text("t,x\n2,5\n1,oops\n1,4\n,7\n")
    done = run("p.py:share", "--in", "in.csv", "--order", "t", "--out", "out.csv", "--bad", "bad.csv")
    assert done.exit_code == 0, done.output
    assert Path("out.csv").read_text() == "t,out\n1,250\n2,111\n"
    assert [row["row"] for row in csv.DictReader(Path("bad.csv").read_text().splitlines())] == ["2", "4"]
    assert "4 in" not in done.output and "2 bad" in done.output


def test_what_no_row_is_to_blame_for_still_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(PIPES)
    for text, why in (
        ('x\n1\n2"3\n4\n', "in.csv: line 3: a quote in the middle of a cell"),  # where do rows end there?
        ("y;z\n1;2\n", "in.csv: its header is one column 'y;z'"),
        ("y,z\n1,2\n", "in.csv: no column 'x'"),
    ):
        Path("in.csv").write_text(text)
        done = run("p.py:share", "--in", "in.csv", "--out", "out.csv", "--bad", "bad.csv")
        assert done.exit_code == 2 and why in done.output
        assert not Path("out.csv").exists() and not Path("bad.csv").exists()
    with pytest.raises(DataError, match="column 'x' holds string: expected int"):
        share(pa.table({"x": ["1"]}), bad="keep")


def test_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(PIPES)
    Path("in.csv").write_text("x\n1\na\n2\nb\n")
    said = ["p.py:share", "--in", "in.csv", "--out", "out.csv", "--bad", "bad.csv"]
    done = run(*said, "--max-bad", 1)
    assert done.exit_code == 2 and not Path("out.csv").exists() and not Path("bad.csv").exists()
    assert done.output.startswith(
        "pellucid: 2 rows are bad, and --max-bad 1 allows 1: nothing more is written; among them\n"
    )
    assert "in.csv: row 2: column 'x': expected int, found 'a'" in done.output
    done = run(*said, "--max-bad", 2, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout.splitlines()[-1])["bad"] == 2
    with pytest.raises(DataError, match="2 rows are bad, and max_bad=1 allows 1"):
        share(["a", "b"], bad="keep", max_bad=1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"bad": 7}, "bad=7: expected 'fail', 'keep'"),
        ({"max_bad": 7}, "max_bad=7 says how many rows may be set aside"),
        ({"bad": "keep", "max_bad": -1}, "max_bad=-1: expected a whole number, at least 0"),
    ],
)
def test_what_cannot_be_said(said: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        share([1], **said)


def test_by_default_the_first_ends_the_run() -> None:
    for bad in ("fail", None):
        with pytest.raises(PellucidError, match="position 1: expected int"):
            share([1, "a"], bad=bad)


def test_names_that_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(PIPES)
    Path("in.csv").write_text("x\n1\n")
    named = pipeline(lambda x: {"bad": x + 1}, x=int)
    with pytest.raises(UsageError, match="an output called 'bad', and there is one"):
        named([1], bad="keep")
    with pytest.raises(UsageError, match="bad= goes with a run"):
        share.trace([1], bad="keep")
    for said, why in (
        (["--out", "a.csv", "--bad", "./a.csv"], "--bad ./a.csv: is where the output 'out' goes"),
        (["--bad", "in.csv"], "in.csv: is the input and the output"),
        (["--bad", "keep"], "--bad keep: here rows that are set aside go to a file"),
        (["--bad", "-"], "--bad -: expected the name of a file"),
        (["--bad", "sqlite:a.db#bad"], "is a table or a topic, not a file: a run without epochs writes files"),
        (["--max-bad", "3"], "--max-bad 3 says how many rows may be set aside"),
    ):
        done = run("p.py:share", "--in", "in.csv", *said)
        assert done.exit_code == 2 and why in done.output, done.output


def test_letters_about_what_python_has_no_form_for() -> None:
    """A time that Python does not have, and a reason that is no UTF-8."""

    class Reading(NamedTuple):
        at: datetime
        x: int

    def half(e: Reading) -> int:
        if e.x == 0:
            raise ValueError("half a sign: \ud800")
        return 10 // e.x

    at = pa.array([2**62, 0, 1], pa.timestamp("us"))
    halves, rows = pipeline(lambda r: r.map(half, id="half"), r=Reading), pa.table({"at": at, "x": [1, 0, 5]})
    found = halves(rows, bad="keep")
    assert found["out"].to_pydict() == {"out": [2]}
    odd, failed = found["bad"].to_pylist()
    assert halves(pl.from_arrow(rows), bad="keep")["bad"]["text"][0] == odd["text"]
    assert odd["column"] == "at" and odd["text"] == '{"at": "<value out of range: 4611686018427387904>", "x": 1}'
    assert failed["step"] == "half" and "ValueError: half a sign: \\ud800" in failed["reason"]
    itself: list[Any] = []
    itself.append(itself)
    told = pipeline(lambda x: x.map(lambda v: 1 // v), x=int)(
        [{"x": 0, "z": {(1, 2): 3}}, {"x": 0, "z": itself}], bad="keep"
    )
    assert [row["text"] for row in told["bad"]] == ["{'x': 0, 'z': {(1, 2): 3}}", "{'x': 0, 'z': [[...]]}"]
