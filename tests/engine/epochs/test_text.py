"""Functions that look inside text, in runs with epochs: tables are made again wherever a run goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pellucid import Stream, pipeline
from pellucid.internal.engine.epochs import run_epochs

NAMES = {"AA": "American", "UA": "United"}


@pipeline
def named(x: Stream[str]) -> Stream[str]:
    told = x.map(lambda s: f"{NAMES.get(s.strip().upper(), '?')}:{len(s)}", id="told")
    return told.cumulate(lambda last, s: (last + s)[-20:], start="", id="last")


ROWS = [f"{c}{' ' * (i % 3)}" for i, c in enumerate(["aa", "UA", "x", "ß"] * 300)]


def by_hand() -> list[str]:
    out, last = [], ""
    for s in ROWS:
        last = (last + f"{NAMES.get(s.strip().upper(), '?')}:{len(s)}")[-20:]
        out.append(last)
    return out


def test_the_borders_do_not_matter(tmp_path: Path) -> None:
    import json

    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"x": s}) + "\n" for s in ROWS))
    for pushes, cut in ((5000, []), (37, ["told"])):
        out = tmp_path / f"out{pushes}.jsonl"
        run_epochs(
            named, str(tmp_path / "in.jsonl"), out, state=tmp_path / f"s{pushes}", pushes=pushes, chunk=64, cut=cut
        )
        assert [json.loads(line)["out"] for line in out.read_text().splitlines()] == by_hand()


def test_two_processes_agree_who_it_is() -> None:
    """A run goes on in another process only if its pipeline is the same one there."""
    code = "from tests.engine.epochs.test_text import named; print(named.graph.digest)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {named.graph.digest}
