"""Verdicts on array-based systems against a forward search: ``python -m tests.judge.capacity.cubicle --minutes 2``."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from pellucid.internal.cli.main import cli
from tests.judge.capacity.loop import hunt
from tests.judge.capacity.systems import Explorer, System, draw, text


def told(source: str, *, timeout: float = 15.0) -> dict[str, Any]:
    """What ``pellucid capacity FILE.cub --json`` says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "system.cub"
        file.write_text(source)
        result = CliRunner().invoke(cli, ["capacity", str(file), "--json", "--timeout", str(timeout)])
        if result.exit_code not in (0, 1, 3):
            raise AssertionError(f"exit code {result.exit_code}: {result.output}\n{source}") from result.exception
        answer: dict[str, Any] = json.loads(result.stdout)
        assert result.exit_code == {"proved": 0, "refuted": 1, "unknown": 3}[answer["status"]]
        return answer


def judge(s: System, *, most: int = 3) -> tuple[str, str]:
    """What was compared, and what is wrong."""
    answer = told(text(s))
    mine = {n: Explorer(s, n).shortest() for n in range(1, most + 1)}
    reached = [v for v in mine.values() if isinstance(v, int)]
    status = answer["status"]
    if status == "proved":
        return "proved" + ("?" if "?" in mine.values() else ""), f"proved, but unsafe: {mine}" if reached else ""
    if status == "unknown":
        return "unknown " + ("unsafe" if reached else "safe"), ""
    run = answer["counterexample"]
    n = answer["details"]["processes"]
    explorer = Explorer(s, n)
    length = len(run["steps"])
    if reached and min(reached) < length:
        return "refuted", f"{length} steps with {n} processes, but fewer do: {mine}"
    if n <= 3 and mine[n] != length and mine[n] != "?":
        return "refuted", f"{length} steps with {n} processes, but {mine}"
    wrong = replayed(explorer, run)
    return f"refuted {'' if n <= 3 else 'with many'}", wrong


def replayed(explorer: Explorer, run: dict[str, Any]) -> str:
    """What is wrong with a run ("" if nothing): where it starts, each of its steps, where it ends."""
    now = [s for s in explorer.starts() if explorer.seen(s) == {**explorer.seen(s), **run["start"]}]
    if not now:
        return f"does not start so: {run['start']}"
    for step in run["steps"]:
        name, args = re.match(r"(\w+)\(([^)]*)\)", step["step"]).groups() if "(" in step["step"] else (step["step"], "")
        who = tuple(int(a.strip().lstrip("#")) - 1 for a in args.split(",") if a.strip())
        now = list(
            dict.fromkeys(
                after
                for state in now
                for t, p, after in explorer.steps(state)
                if t == name and p == who and step["seen"].items() <= explorer.seen(after).items()
            )
        )
        if not now:
            return f"{step} is not possible"
    return "" if any(map(explorer.bad, now)) else "does not end unsafe"


def one(seed: int, count: Counter[str]) -> str:
    """One case."""
    s = draw(random.Random(seed))
    kind, wrong = judge(s)
    count[kind] += 1
    return f"{wrong}\n{text(s)}" if wrong else ""


if __name__ == "__main__":
    hunt(one)
