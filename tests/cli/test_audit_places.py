"""The command ``pellucid audit`` with a network of places."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from click.testing import Result

from pellucid.atomic.places.described import PlaceInfo
from pellucid.atomic.places.log import open_log
from pellucid.atomic.places.network import new_network
from pellucid.atomic.places.records import FIELDS, make
from tests.atomic.places.audit.simulated import CHANNELS, World

Pellucid = Callable[..., Result]


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
