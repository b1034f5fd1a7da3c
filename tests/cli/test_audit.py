"""The command ``pellucid audit``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from pellucid.atomic.places.core.state import FIELDS, make
from pellucid.atomic.places.log import open_log
from pellucid.atomic.places.network import PlaceInfo, new_network
from pellucid.failures.audit.record import trace_table
from tests.atomic.places.simulated_logs import CHANNELS, World
from tests.failures.simulated import commit_again, simulated

Pellucid = Callable[..., Result]


@pytest.fixture
def run(folder: Path, pellucid: Pellucid) -> Path:
    """The state folder of a recorded run."""
    (folder / "in.jsonl").write_text("".join(f"{v}\n" for v in range(100)))
    done = pellucid(
        "run",
        "pipes.py:total",
        "--in",
        "in.jsonl",
        "--out",
        "out.csv",
        "--epoch-size",
        20,
        "--chunk",
        5,
        "--state",
        "state",
        "--record",
    )
    assert done.exit_code == 0, done.output
    return folder / "state"


def test_a_recorded_run_holds(run: Path, pellucid: Pellucid) -> None:
    done = pellucid("audit", run)
    assert done.exit_code == 0 and "The run kept the promise." in done.output
    document = json.loads(pellucid("audit", run, "--json").stdout)
    assert document["pellucid"] == 1 and document["verb"] == "audit" and document["holds"] is True
    assert document["explanation"]["epochs"] == 5 and document["explanation"]["committed"] == 5


def test_its_output_is_compared(run: Path, folder: Path, pellucid: Pellucid) -> None:
    (folder / "same.csv").write_bytes((folder / "out.csv").read_bytes())
    assert pellucid("audit", run, "--against", "same.csv").exit_code == 0
    (folder / "other.csv").write_text((folder / "out.csv").read_text() + "7\n")
    done = pellucid("audit", run, "--against", "out=other.csv")
    assert done.exit_code == 1 and "sink.out: out: 100" not in done.output
    assert "no   output" in done.output and "1 is lost (b'7')" in done.output
    missing = pellucid("audit", run, "--against", "nowhere.csv")
    assert (
        missing.exit_code == 2
        and "nowhere.csv: there is no such file: expected the output of the failure-free run" in missing.output
    )


def test_it_is_drawn(run: Path, folder: Path, pellucid: Pellucid) -> None:
    assert pellucid("audit", run, "--picture", "run.svg").exit_code == 0
    assert (folder / "run.svg").read_text().startswith("<svg")
    wrong = pellucid("audit", run, "--picture", "no/such/folder.svg")
    assert wrong.exit_code == 2 and "cannot be written" in wrong.output


def test_a_tampered_trace_is_refuted(folder: Path, pellucid: Pellucid) -> None:
    import random

    rows = commit_again(simulated(1), random.Random(0))
    assert rows is not None
    pq.write_table(trace_table(rows), folder / "trace.parquet")
    done = pellucid("audit", "trace.parquet")
    assert done.exit_code == 1
    assert (
        "no   commit" in done.output and "visible again" in done.output and "The run broke the promise." in done.output
    )
    document = json.loads(pellucid("audit", "trace.parquet", "--json").stdout)
    assert document["holds"] is False and document["violations"][0]["check"] == "commit"


def test_bad_input_is_told(folder: Path, pellucid: Pellucid) -> None:
    assert "no such file or folder" in pellucid("audit", "nowhere").output
    (folder / "empty").mkdir()
    nothing = pellucid("audit", "empty")
    assert nothing.exit_code == 2 and "has no recorded trace" in nothing.output and "--record" in nothing.output
    pq.write_table(trace_table(simulated(1)), folder / "trace.parquet")
    lonely = pellucid("audit", "trace.parquet", "--against", "x.csv")
    assert lonely.exit_code == 2 and "expected the state folder of a run" in lonely.output
    for option in ("--on", "--engine", "--master"):
        said = pellucid("audit", "trace.parquet", option, "spark").stderr
        assert said == f"pellucid: {option} is gone: a run is audited on this machine\n"


# The command ``pellucid audit`` with a network of places.


def network(folder: Path, world: World) -> Path:
    """The folder of a network with the logs of a simulated run."""
    places = [
        PlaceInfo(name, "127.0.0.1", 4700 + n, inside, CHANNELS) for n, (name, inside) in enumerate(world.tree.items())
    ]
    made = new_network(folder, places)
    for place, records in world.logs.items():
        log = open_log(str(made.log_of(place)), place)
        known = [(kind, {name: value for name, value in fields.items() if name in dict(FIELDS[kind])})
                 for _, kind, fields in records]  # fmt: skip
        log.append([make(kind, **fields) for kind, fields in known])
        log.close()
    return folder


def test_a_network_that_kept_its_promise(tmp_path: Path, pellucid: Pellucid) -> None:
    net = network(tmp_path / "net", World(5, steps=50))
    done = pellucid("audit", net, "--picture", tmp_path / "run.svg")
    assert done.exit_code == 0, done.output
    assert "yes  calculus" in done.output
    assert "The network kept the promise." in done.output
    assert (tmp_path / "run.svg").read_text().startswith("<svg")
    document = json.loads(pellucid("audit", net, "--json").stdout)
    assert (document["pellucid"], document["verb"], document["holds"], document["replayed"]) == (1, "audit", True, True)


def test_a_network_that_broke_it(tmp_path: Path, pellucid: Pellucid) -> None:
    world = World(4, "commit after abort", steps=40)
    assert world.planted is not None
    net = network(tmp_path / "net", world)
    done = pellucid("audit", net)
    assert done.exit_code == 1
    place, seq = world.planted
    assert f"{place}, record {seq} (commit): " in done.output
    assert "commits, and has aborted, by record" in done.output
    document = json.loads(pellucid("audit", net, "--json").stdout)
    assert document["status"] == "refuted"
    assert {"place": place, "record": seq, "kind": "commit-decided"}.items() <= document["violations"][0].items()


def test_what_cannot_be_audited(tmp_path: Path, pellucid: Pellucid) -> None:
    """A user's mistake: exit code 2, one sentence that says what to do."""
    world = World(5, steps=50)
    net = network(tmp_path / "net", world)
    done = pellucid("audit", net, "--against", "x.csv")
    assert done.exit_code == 2
    assert "is a network of places, whose logs are audited on their own" in done.output
    new_network(tmp_path / "empty", [PlaceInfo("a", "127.0.0.1", 4700)])
    done = pellucid("audit", tmp_path / "empty")
    assert done.exit_code == 2
    assert "no place of this network has a log: none was ever started" in done.output
    place = max(world.logs, key=lambda name: len(world.logs[name]))
    file = net / "places" / place / "log.sqlite"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM log WHERE number = 2")
    done = pellucid("audit", net)
    assert done.exit_code == 2
    assert "record 2 is missing: the log is damaged" in done.output
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE head SET version = 99")
    done = pellucid("audit", net)
    assert done.exit_code == 2
    assert "a log of version 99" in done.output
    assert "Traceback" not in done.output


def test_a_run_that_is_too_long_to_be_drawn(tmp_path: Path, pellucid: Pellucid) -> None:
    net = network(tmp_path / "net", World(1, steps=900))
    done = pellucid("audit", net, "--picture", tmp_path / "run.svg")
    assert done.exit_code == 2
    assert "--picture: the run cannot be drawn: not replayed" in done.output
