"""What is refused of a chain: each by name, in one message, with exit code 2 on the command line."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from pellucid.internal.engine.epochs.store import Store

PIPELINES = """\
from datetime import timedelta
from pellucid import Stream, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def loud(x: Stream[str]) -> Stream[str]:
    return x.map(lambda v: v + "!", id="loud")


@pipeline
def two(x: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    return x.map(lambda v: v + 1), x.map(lambda v: v - 1)


@pipeline
def tens(x: Stream[int]) -> Stream[int]:
    return x.at(lambda v: v).tumbling(10, lambda w: w.cumulate(lambda t, v: t + v, start=0)).map(lambda w: w.value)
"""


class Commands:
    """``pellucid run`` in a folder, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "p.py").write_text(PIPELINES)
        (folder / "x.jsonl").write_text("".join(f"{i}\n" for i in range(30)))

    def __call__(self, *args: str) -> tuple[int, str]:
        with contextlib.chdir(self.folder):
            done = CliRunner().invoke(cli, ["run", *args])
        return done.exit_code, " ".join(done.output.split())

    def refused(self, *args: str) -> str:
        code, text = self(*args)
        assert code == 2, text
        assert "Traceback" not in text
        return text

    def upstream(self, out: str = "a.arrow", *more: str, name: str = "total") -> None:
        code, text = self(f"p.py:{name}", "--in", "x.jsonl", "--out", out, "--pushes", "10", "--state", "a", *more)
        assert code == 0, text

    def chained(self, given: str = "epochs:a", *more: str, name: str = "total", state: str = "b") -> list[str]:
        return [f"p.py:{name}", "--in", given, "--out", "b.csv", "--pushes", "10", "--state", state, *more]


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_a_folder_that_is_no_run(commands: Commands) -> None:
    (commands.folder / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        assert "holds no run with epochs: give the state folder of the run whose rows are to be read, and start that " \
            "run first" in commands.refused(*commands.chained(f"epochs:{folder}"))  # fmt: skip
    assert "expected epochs:STATE#OUTPUT" in commands.refused(*commands.chained("epochs:"))
    assert not (commands.folder / "b").exists()


def test_another_type(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(name="loud"))
    assert "epochs:a" in text
    assert "the output 'out' of the run there is not what the source 'x' takes" in text


def test_an_output_that_is_not_there_or_not_named(commands: Commands) -> None:
    commands.upstream("a1.arrow", name="total")
    assert "has no output 'ou': it has out; did you mean 'out'?" in commands.refused(*commands.chained("epochs:a#ou"))
    shutil.rmtree(commands.folder / "a")
    code, text = commands(
        "p.py:two", "--in", "x.jsonl", "--out", "out1=a.csv", "--out", "out2=b1.csv", "--pushes", "9", "--state", "a"
    )
    assert code == 0, text
    assert "which output of two? It has out1, out2: give epochs:a#out1" in commands.refused(*commands.chained())
    code, text = commands(*commands.chained("epochs:a#out2"))
    assert code == 0, text


def test_rows_that_go_to_a_table(commands: Commands) -> None:
    commands.upstream("sqlite:a.db#t")
    text = commands.refused(*commands.chained())
    assert "and are not kept when they are committed: let that run write them to a file as well" in text
    shutil.rmtree(commands.folder / "a")
    commands.upstream("sqlite:a2.db#t", "--out", "rows.arrow")
    code, text = commands(*commands.chained())
    assert code == 0, text
    assert (commands.folder / "b.csv").read_text().split()[:4] == ["out", "0", "1", "4"]


def test_a_chain_onto_itself_and_a_circle(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(state="a"))
    assert "is the state folder of this very run, and a run cannot read its own rows" in text
    assert commands(*commands.chained())[0] == 0
    for place in ("epochs:b", "epochs:b?after=1"):  # a delay changes nothing
        text = commands.refused("p.py:total", "--in", place, "--out", "a.arrow", "--pushes", "10", "--state", "a")
        assert f"{place}: a circle: the run in " in text and "/b reads this one (" in text
    assert commands("p.py:total", "--in", "epochs:b", "--out", "c.arrow", "--pushes", "10", "--state", "c")[0] == 0
    text = commands.refused("p.py:total", "--in", "epochs:c", "--out", "a.arrow", "--pushes", "10", "--state", "a")
    assert "a circle: the run in " in text


def test_event_time(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused(*commands.chained(name="tens"))
    assert "and such a pipeline reads files: an epoch that is made again must find the border" in text


def test_rows_of_a_pipeline_by_event_time_can_be_read(commands: Commands) -> None:
    commands.upstream(name="tens")
    code, text = commands(*commands.chained())
    assert code == 0, text


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--order", "out"], "--order does not go with --in epochs:a: rows of another run are read as they come"),
        (["--keep-columns", "all"], "--keep-columns does not go with --in epochs:a"),
        (["--bad", "bad.csv"], "--bad does not go with --in epochs:a"),
        (["--record"], "--record does not go with --in epochs:a: an audit takes it that an epoch"),
    ],
)
def test_what_does_not_go_with_it(commands: Commands, more: list[str], why: str) -> None:
    commands.upstream()
    assert why in commands.refused(*commands.chained("epochs:a", *more))


def test_without_epochs_and_as_an_output(commands: Commands) -> None:
    commands.upstream()
    text = commands.refused("p.py:total", "--in", "epochs:a", "--out", "b.csv")
    assert "--in epochs:a: the rows of another run are read by a run with epochs" in text
    more = ["--pushes", "5", "--state", "b"]
    text = commands.refused("p.py:total", "--in", "x.jsonl", "--out", "epochs:a", *more)
    assert "other runs read the rows of this one from its own state folder" in text
    text = commands.refused("p.py:total", "--in", "x.jsonl", "--in", "epochs:a", "--out", "b.csv", *more)
    assert "the rows of a run are an input of their own" in text


def test_an_upstream_that_was_started_anew(commands: Commands) -> None:
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    shutil.rmtree(commands.folder / "a")
    commands.upstream()
    assert "is another run than the one that was read before (it was started anew)" in commands.refused(
        *commands.chained()
    )


def test_committed_rows_that_were_made_again(commands: Commands) -> None:
    """Committed rows of the upstream are lost, and made again with --from-start: what is committed here depends on the
    old ones."""
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    kept = sorted((commands.folder / "a" / "committed" / "out").glob("*.part"))
    kept[-1].write_bytes(kept[-1].read_bytes()[:-3])
    commands.upstream("a.arrow", "--from-start")
    text = commands.refused(*commands.chained())
    assert "rows that this run has committed on were taken back" in text
    assert "--from-start" in text


def test_an_earlier_version(commands: Commands) -> None:
    commands.upstream()
    (commands.folder / "a" / "outputs.json").unlink()
    text = commands.refused(*commands.chained())
    assert "give its own command once more, then this one" in text
    commands.upstream()
    assert commands(*commands.chained())[0] == 0


def test_damaged_rows(commands: Commands) -> None:
    commands.upstream()
    for path in (commands.folder / "a" / "committed" / "out").glob("*.part"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert "its seal is wrong" in commands.refused(*commands.chained())


def test_another_upstream_is_another_run(commands: Commands) -> None:
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    shutil.copytree(commands.folder / "a", commands.folder / "c")
    assert "--in" in commands.refused(*commands.chained("epochs:c"))
    assert commands(*commands.chained("committed:a#out"))[0] == 0  # the same rows, waited for


def test_the_folder_says_what_it_has(commands: Commands) -> None:
    commands.upstream()
    found = Store(commands.folder / "a").hint("outputs.json")["outputs"]
    assert list(found) == ["out"]
    assert found["out"]["form"] == "arrow"
    assert "password" not in json.dumps(found)


def test_an_upstream_that_is_an_older_copy_and_went_on_with_other_rows_is_refused(commands: Commands) -> None:
    """Also where all rows were committed when they were read, and as many are there again."""
    rows = commands.folder / "x.jsonl"
    rows.write_text("1\n2\n")
    commands.upstream()
    shutil.copytree(commands.folder / "a", commands.folder / "kept")
    rows.write_text("1\n2\n3\n4\n5\n")
    commands.upstream()
    assert commands(*commands.chained())[0] == 0
    before = (commands.folder / "b.csv").read_text()
    shutil.rmtree(commands.folder / "a")
    shutil.copytree(commands.folder / "kept", commands.folder / "a")
    rows.write_text("1\n2\n30\n40\n50\n60\n")
    commands.upstream()
    text = commands.refused(*commands.chained())
    assert "rows that this run has committed on were taken back (they are not what they were)" in text
    assert (commands.folder / "b.csv").read_text() == before


@pytest.mark.parametrize("which", ["first", "last", "all"])
@pytest.mark.parametrize("address", ["epochs", "committed"])
def test_committed_rows_of_an_upstream_that_has_ended_are_gone(commands: Commands, which: str, address: str) -> None:
    """A reader took fewer, in silence."""
    assert commands("p.py:total", "--in", "x.jsonl", "--pushes", "10", "--state", "a", "--out", "a.csv")[0] == 0
    parts = sorted((commands.folder / "a" / "committed" / "out").iterdir())
    for part in {"first": parts[:1], "last": parts[-1:], "all": parts}[which]:
        part.unlink()
    text = commands.refused(
        "p.py:total", "--in", f"{address}:a", "--pushes", "10", "--state", "b", "--out", "b.csv"
    )  # fmt: skip
    assert "the run there has ended, and not all of its committed rows are in" in text
    assert not (commands.folder / "b.csv").exists()
