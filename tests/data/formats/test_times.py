"""Times in a form of their own: what Python's ``strptime`` reads, or refused with file, row and column."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pellucid import DataError, UsageError, pipeline
from pellucid.internal.cli.main import cli


class Event(NamedTuple):
    when: dt.datetime
    day: dt.date | None
    x: int


class Instant(NamedTuple):
    when: Annotated[dt.datetime, dt.UTC]


gaps = pipeline(lambda e: e.map(lambda v: v.when).lag(1).map(lambda p: p[0] - p[1]), e=Event)
whens = pipeline(lambda e: e.map(lambda v: v.when), e=Event)
days = pipeline(lambda e: e.map(lambda v: v.day), e=Event)
instants = pipeline(lambda e: e.map(lambda v: v.when), e=Instant)

FORMS = ["%d/%m/%Y %H:%M", "%Y%m%d%H%M%S", "%d %b %Y %I:%M %p", "%y-%j %H", "%m/%d/%Y %H:%M:%S.%f", "%d.%m.%Y"]


def texts(form: str, count: int = 60) -> list[str]:
    """Some that the form spells, some with a digit less, some that are none."""
    rng = random.Random(form)
    start = dt.datetime(1970, 1, 1)
    found = [(start + dt.timedelta(seconds=rng.randrange(2_000_000_000))).strftime(form) for _ in range(count)]
    return [*found, *(t.replace("0", "", 1) for t in found[:20]), *(t.replace("1", "9", 1) for t in found[:20])]


def table(when: list[str]) -> Any:
    return pa.table({"when": when, "day": pa.nulls(len(when)), "x": range(len(when))})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [1, 40])  # few are read one by one, many at once
def test_it_is_what_strptime_reads(form: str, times: int) -> None:
    good, bad = [], []
    for text in texts(form):
        try:
            good.append((text, dt.datetime.strptime(text.strip(), form)))
        except ValueError:
            bad.append(text)
    found = whens(table([t for t, _ in good] * times), time_format={"when": form})["out"].to_pylist()
    assert found == [at for _, at in good] * times
    plain = [(t, at) for t, at in good if len(t) == len(at.strftime(form))]
    whole = whens(table([t for t, _ in plain] * 40), time_format={"when": form})["out"].to_pylist()
    assert whole == [at for _, at in plain] * 40
    for text in bad:
        with pytest.raises(DataError) as caught:
            whens(table([good[0][0], text]), time_format={"when": form})
        assert str(caught.value) == (
            f"pipeline: source 'e': position 1: column 'when': expected datetime (as {form}), found {text!r}; correct "
            "the value or remove the row"
        )


ROWS = [("31/12/2013 05:00", "1.2.13", 3), ("01/01/2014 00:30", None, 2), ("30/12/2013 23:59", "28.2.13", 1)]
SAID = {"when": "%d/%m/%Y %H:%M", "day": "%d.%m.%y"}


def write(folder: Path, form: str) -> Path:
    path = folder / f"in.{form}"
    if form == "csv":
        path.write_text("when,day,x\n" + "".join(f"{w},{d or ''},{x}\n" for w, d, x in ROWS))
    else:
        rows = [{"when": w, "day": d, "x": x} for w, d, x in ROWS]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_from_files_in_order_and_in_epochs(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``order`` is that of the times, not of the texts."""
    path = write(tmp_path, form)
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(
        "from datetime import date, datetime\nfrom typing import NamedTuple\nfrom pellucid import pipeline\n"
        "class Event(NamedTuple):\n    when: datetime\n    day: date | None\n    x: int\n"
        "xs = pipeline(lambda e: e.map(lambda v: v.x), e=Event)\n"
    )
    said = [word for column, f in SAID.items() for word in ("--time-format", f"{column}={f}")]
    command = ["run", "p.py:xs", "--in", path.name, "--order", "when", "--keep-columns", "day", *said]
    epochs = ["--pushes", "2", "--state", "s"]
    for more, out in (([], "plain.parquet"), (epochs, "epochs.parquet"), (epochs, "epochs.parquet")):
        done = CliRunner().invoke(cli, [*command, "--out", out, *more])
        assert done.exit_code == 0, done.output
        found = pq.read_table(out).to_pylist()
        assert [(row["when"], row["day"], row["out"]) for row in found] == sorted(
            (dt.datetime.strptime(w, SAID["when"]), d, x) for w, d, x in ROWS
        )
    unsaid = CliRunner().invoke(cli, ["run", "p.py:xs", "--in", path.name, "--out", "plain.parquet"])
    assert unsaid.exit_code == 2 and unsaid.stderr.endswith(
        "; correct the value, or tell its form, such as %d/%m/%Y, with --time-format\n"
    )
    bare = CliRunner().invoke(cli, [*command[:-1], "day"])
    assert "--time-format day: expected COLUMN=FORM, as in --time-format 'when=%d/%m/%Y %H:%M'" in bare.stderr
    other = CliRunner().invoke(cli, [*command[:-1], "day=%d.%m.%Y", "--out", "epochs.parquet", *epochs])
    assert other.exit_code == 2 and "--time-format was" in other.stderr
    Path(path.name).write_text(path.read_text().replace("31/12/2013", "31/13/2013"))
    done = CliRunner().invoke(cli, [*command, "--out", "plain.parquet"])
    where = "row 1 (line 2)" if form == "csv" else "row 1 (line 1)"
    assert (done.exit_code, done.stderr) == (
        2,
        f"pellucid: {path.name}: {where}: column 'when': expected datetime (as %d/%m/%Y %H:%M), found '31/13/2013 "
        "05:00'; correct the value or remove the row\n",
    )


def test_frames_and_instants() -> None:
    frame = pd.DataFrame(ROWS, columns=["when", "day", "x"])
    assert days(frame, order="when", time_format=SAID)["out"].tolist() == [
        dt.date(2013, 2, 28), dt.date(2013, 2, 1), None,
    ]  # fmt: skip
    zones = pa.table({"when": ["1/2/2013 05:00 +0130", "1/2/2013 05:00 Z"]})
    found = instants(zones, time_format={"when": "%d/%m/%Y %H:%M %z"})
    assert found["out"].to_pylist() == [
        dt.datetime(2013, 2, 1, 3, 30, tzinfo=dt.UTC), dt.datetime(2013, 2, 1, 5, tzinfo=dt.UTC),
    ]  # fmt: skip


REFUSED: list[tuple[Any, Any, str]] = [
    (whens, {"when": "%H:%M"}, "time_format={'when': '%H:%M'}: says no year, month and day: a time without"),
    (whens, {"when": "%d/%m/%Y %I:%M"}, "%I needs %p, which says whether it is before noon"),
    (whens, {"when": "%d/%m/%Y %q"}, "%q is not among %Y %y %m %d %b %B %a %A %j %H %I %M %S %f %p %z %%"),
    (whens, {"when": "%d/%m/%Y %d"}, "says %d twice"),
    (whens, {"when": "%x"}, "%x is not among"),
    (whens, {"day": "%d/%m/%Y %H"}, "says a time of the day, and the field is a date: declare it as datetime"),
    (whens, {"when": "%d/%m/%Y %z"}, "says a time zone, and the field is a datetime: declare it as Annotated["),
    (instants, {"when": "%d/%m/%Y"}, "says no time zone, and the field is a datetime with one: add %z, or"),
    (whens, {"wehn": "%d/%m/%Y"}, "no column 'wehn' as a time: it reads when, day as times; did you mean 'when'?"),
    (whens, {"x": "%d/%m/%Y"}, "pipeline reads no column 'x' as a time"),
    (whens, "%d/%m/%Y", "time_format=: expected the form of each column, as in {'when': '%d/%m/%Y %H:%M'}"),
]  # fmt: skip


@pytest.mark.parametrize(("p", "form", "said"), REFUSED, ids=[str(form) for _, form, _ in REFUSED])
def test_what_is_refused(p: Any, form: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        p(pa.table({"when": ["1/2/2013"], "day": ["1/2/2013"], "x": [1]}), time_format=form)
    assert said in str(caught.value)


def test_columns_that_need_no_form_and_lists() -> None:
    times = pa.table({"when": [dt.datetime(2013, 1, 1)], "day": pa.nulls(1), "x": [1]})
    with pytest.raises(DataError, match=r"'when' holds timestamp\[us\], and no texts: leave it out of time_format="):
        whens(times, time_format={"when": "%d/%m/%Y"})
    with pytest.raises(UsageError, match="time_format= is for columns of texts, so the source 'e' must be a DataFrame"):
        whens(times.to_pylist(), time_format={"when": "%d/%m/%Y"})
