"""`pellucid capacity` with what a user may get wrong: the message that helps, exit code 2, nothing half done."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pellucid.capacity import Bolt, Spout, Topology, check_flows, flows
from pellucid.capacity.flow.linear import certified, maximum
from pellucid.capacity.flow.network import ONE, Network
from pellucid.capacity.planning import changes, plan
from pellucid.capacity.zones.decide import decide
from pellucid.errors import UsageError
from pellucid.internal.cli.main import cli
from pellucid.internal.model import Budget

GOOD = '[spouts.S]\ngap = 1\n[bolts.B]\ntime = 1\nhears = ["S"]\n'


def _asked(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli, ["capacity", *arguments])
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (GOOD + "workers = 1_000_000_000", (), "line 6, [bolts.B]: the workers of a bolt: 1,000,000,000 are too many"),
        (GOOD.replace("bolts.B", 'bolts."x\\ny"'), (), "a spout or bolt is called 'x\\ny': expected a name that can"),
        (GOOD.replace("gap = 1", "gap = 1e300"), (), "the longest would have a number of units with 301 digits. Round"),
        (GOOD, ("--gap", "S=0.33333333333333333333"), "would have 100,000,000,000,000,000,000 units. Round them, or"),
        (
            GOOD,
            ("--parallelism", "B=ANY"),
            "any number of workers is a question about a limit: give one, as in --queue-limit B=2",
        ),
        (GOOD, ("--backlog", "B=-1"), "the backlog of B: expected 0 or more tuples, got -1."),
        (GOOD, ("--timeout", "nan"), "--timeout nan: expected a number of seconds above 0"),
        (GOOD, ("--out", "run.png"), "--out run.png: the picture is SVG: expected a name that ends in .svg"),
        (GOOD, ("--target", "0.5"), "--target goes with measurements, not with a topology"),
        (GOOD, ("--queue-limit", "price=2"), "there is no bolt price: B is"),
    ],
)
def test_a_wrong_topology_or_option(tmp_path: Path, text: str, options: tuple[str, ...], message: str) -> None:
    file = tmp_path / "t.toml"
    file.write_text(text)
    code, out, said = _asked(str(file), *options)
    assert (code, out) == (2, "") and message in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == [file]


def test_files_that_are_called_otherwise(tmp_path: Path) -> None:
    bare = tmp_path / "topology"
    bare.write_text(GOOD)
    assert _asked(str(bare))[::2] == (
        2,
        f"pellucid: {bare}: it has no ending: expected .toml or .py for a topology, .cub, or .json, .jsonl, .log for "
        "measurements\n",
    )
    named = tmp_path / "t.toml"
    named.write_text(GOOD)
    assert "there is one in the file: leave the part after the colon out" in _asked(f"{named}:B")[2]
    python = tmp_path / "wrong.py"
    python.write_text("from pellucid.capacity import Bolt, Spout, Topology\n\nS = Spout(gap=-1)\n")
    assert _asked(str(python))[::2] == (2, f"pellucid: {python}:3: the gap of a spout: -1 is not above 0.\n")


def test_a_file_from_windows(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert Topology.read(file) == Topology({"S": Spout(1)}, {"B": Bolt(1, "S")}, name="t")


def test_a_topology_of_a_python_file_goes_by_its_name_and_routing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from pellucid.capacity import Bolt, Spout, Topology\n"
        "nightly = Topology({'S': Spout(gap=1)}, {'A': Bolt(1, 'S'), 'B': Bolt(1, 'S'), 'C': Bolt(1, ['A', 'B'])})\n"
    )
    code, out, _ = _asked(str(file))
    assert code == 0 and "\nnightly: a run in which the queue of" in out
    assert "note: a tuple of S goes to A or B, not to all: --routing all gives a copy to each\n" in out
    assert "note:" not in _asked(str(file), "--routing", "all")[1]


def test_more_workers_than_zones_can_have_is_unknown_and_no_memory() -> None:
    t = Topology({"S": Spout(1)}, {"B": Bolt(1, "S", workers=30_000)})
    found = decide(t, "B", 2, budget=Budget(5.0, 1000))
    assert found.status == "unknown"
    assert found.why == "30,001 workers and spouts are more than the 256 for which runs are searched"
    with pytest.raises(UsageError, match=r"32,769 are too many: 32,768 are the most\.$"):
        Bolt(1, "S", workers=32_769)


def test_advice_that_makes_a_queue_unbounded_is_never_the_first_if_there_is_better() -> None:
    """Whatever was known of that queue before: here its length was not, for want of time."""
    bolts: dict[str, Any] = {
        "parse": Bolt("0.1", ["cards", "sepa"]), "fraud": Bolt("0.5", "parse", workers=2), "fx": Bolt("0.3", "sepa"),
        "split": Bolt("0.05", ["fraud", "fx"], ratio=2), "ledger": Bolt("0.1", "split"),
    }  # fmt: skip
    t = Topology({"cards": Spout("0.2"), "sepa": Spout(1)}, bolts)
    found = plan(t, budget=Budget(20.0, 300))
    advice = changes(found, budget=Budget(20.0, 300))
    assert advice[0].words == "3 workers for fraud and 2 for ledger (instead of 2 and 1)" and not advice[0].broken
    (harmful,) = [change for change in advice if change.words == "3 workers for fraud (instead of 2)"]
    assert harmful.broken == ("ledger",) and advice[-1] is harmful and "ledger gets worse by that" in str(harmful)


def test_what_solves_nothing_is_no_advice(tmp_path: Path) -> None:
    file = tmp_path / "self.toml"
    file.write_text('[spouts.S]\ngap = 1\n[bolts.A]\ntime = 0.1\nhears = ["S", "A"]\n')
    code, out, said = _asked(str(file), "--timeout", "4")
    assert code == 1 and "first:" not in out and "every queue is unbounded" in said
    assert "note: nothing that was tried mends this: neither more workers nor slower spouts\n" in out


def test_many_bolts_beside_each_other() -> None:
    """What is not upstream of a queue is no part of its linear program."""
    t = Topology({"S": Spout(1)}, {f"b{i}": Bolt("0.5", "S") for i in range(24)}, routing="all")
    limits = Network(t).limits({"S": Fraction(1)}, ())
    found = maximum(Network(t).goal("b7"), limits)
    assert found is not None and found.value == 1 and certified(Network(t).goal("b7"), limits, ONE, found.prices)
    known = flows(t)
    assert {flow.status for flow in known.values()} == {"bounded"} and check_flows(known)
