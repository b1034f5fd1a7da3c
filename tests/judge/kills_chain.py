"""A judge of chained runs: ``python -m tests.judge.kills_chain --kills 200 --seed 1``.

Three runs, each a program with a state folder of its own: the second reads the epochs of the first before they are
committed, the third those of the second.  Processes of any of them are killed with ``kill -9`` at random moments and
started again; the rows of the first depend on the process that makes them, so that an epoch which it makes again has
other rows.  Right is:

* after every kill, what a downstream run has committed is a beginning of what plain Python makes of the rows that its
  upstream has committed (looked at in this order, so that nothing can come between);
* in the end the first has each of its rows once and in order, and the others exactly what plain Python, which runs the
  one after the other, makes of them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pellucid.internal.engine.epochs.outputs import parts_in
from pellucid.internal.engine.epochs.store import Store
from tests.engine.epochs import chain_job
from tests.engine.epochs.chain_job import ROWS, committed, given, seconds_of, thirds_of, unsalted
from tests.engine.epochs.chain_programs import Program
from tests.judge.kills import members, send

SIGKILL, HANG = 9, 300.0
ROLES = ("first", "second", "third")
OF = {"second": ("first", seconds_of), "third": ("second", thirds_of)}


class Judge:
    """One chain, from the first start to the end."""

    def __init__(self, folder: Path, rng: random.Random, counts: Counter[str]) -> None:
        self.folder, self.rng, self.counts = folder, rng, counts
        self.running: dict[str, Program] = {}
        self.done: set[str] = set()
        self.history: list[str] = []

    def start(self, role: str) -> None:
        pause = self.rng.choice([0.002, 0.005])
        said = {"SALT": "pid", "PAUSE": str(pause)}
        settings = {"pushes": self.rng.choice([7, 20, 50])}
        self.running[role] = Program(self.folder / f"{role}.said", role, self.folder, said, settings, chain_job.run)

    def ready(self, role: str) -> bool:
        """Whether a run can be started."""
        return role == "first" or (self.folder / OF[role][0] / "outputs.json").exists()

    def tend(self) -> None:
        """Start what can be and is not there; whoever ended badly without being killed is a fault."""
        for role in ROLES:
            process = self.running.get(role)
            code = None if process is None else process.poll()
            if code == 0:
                self.done.add(role)
            text = self.said(role)[-1500:]
            assert code in (None, 0, -SIGKILL) or "another run" in text, f"{self.history}: {role}: exit {code}: {text}"
            if role not in self.done and self.ready(role) and (process is None or code is not None):
                self.start(role)

    def said(self, role: str) -> str:
        path = self.folder / f"{role}.said"
        return path.read_text() if path.exists() else ""

    def strike(self) -> bool:
        """Kill something of one of the runs, whichever is alive; the first of them a little more often."""
        alive = [role for role, process in self.running.items() if process.poll() is None and role not in self.done]
        if not alive or (len(alive) < 2 and "first" not in self.done):
            return False  # nobody reads yet
        role = self.rng.choice([*alive, *alive[:1]])
        leader = self.running[role].pid
        pids = members(leader)
        tasks = [pid for pid in pids if pid != leader] or pids
        how = self.rng.choice(["all", "leader", "task"])
        if role == "first":
            self.wait_for_rows_ahead()
        for pid in {"all": pids, "leader": [leader], "task": [self.rng.choice(tasks)] if tasks else []}[how]:
            send(pid, SIGKILL)
        self.history.append(f"{role} {how}")
        self.counts["kills"] += 1
        self.counts[f"kills: {role} {how}"] += 1
        return True

    def wait_for_rows_ahead(self) -> None:
        """Until the first run has rows of an epoch on the disk of which a task has no snapshot, but not for long: a
        kill gives such an epoch up."""
        store, until = Store(self.folder / "first"), time.monotonic() + 1.5
        tasks = store.hint("run.json").get("tasks", ["source.x"])
        while time.monotonic() < until:
            last = min(max(store.epochs(task), default=0) for task in tasks)
            if any(name.epoch > last for name, _ in parts_in(store.root / "staged" / "out")):
                return
            time.sleep(0.001)

    def look(self) -> None:
        """Nothing is committed that does not follow from what is committed above it."""
        for role, (above, meaning) in OF.items():
            have = committed(self.folder, role)
            should = meaning(committed(self.folder, above))
            assert have == should[: len(have)], f"{self.history}: {role} has committed what {above} has not"
        self.counts["looks"] += 1

    def go(self, kills: int) -> None:
        try:
            until = time.monotonic() + HANG
            while self.done != set(ROLES):
                said = [self.said(role)[-500:] for role in ROLES]
                assert time.monotonic() < until, f"{self.history}: a dead end: {said}"
                self.tend()
                time.sleep(0.02 if kills <= 0 else self.rng.random() * 0.6)
                kills -= kills > 0 and self.strike()
                self.look()
        finally:
            for process in self.running.values():
                for pid in members(process.pid):
                    send(pid, SIGKILL)
                process.end()
        self.look_at_the_end()
        self.counts["chains"] += 1
        self.counts["undone"] += sum(self.said(role).count("what depends on them is undone") for role in ROLES)

    def look_at_the_end(self) -> None:
        """All is there."""
        rows = committed(self.folder, "first")
        assert unsalted(rows) == [given(i) for i in range(ROWS)], f"{self.history}: first has other rows"
        assert committed(self.folder, "second") == seconds_of(rows), f"{self.history}: second"
        assert committed(self.folder, "third") == thirds_of(seconds_of(rows)), f"{self.history}: third"


def judge(kills: int, seed: int) -> Counter[str]:
    """Kill so often; what was done."""
    rng, counts = random.Random(seed), Counter[str]()
    while counts["kills"] < kills:
        with tempfile.TemporaryDirectory(prefix="pellucid-chain-", ignore_cleanup_errors=True) as name:
            Judge(Path(name), rng, counts).go(min(rng.randrange(2, 9), kills - counts["kills"]))
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge.kills_chain", description="Kill chained runs.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name, count in sorted(judge(given.kills, given.seed).items()):
        print(f"{count:6}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
