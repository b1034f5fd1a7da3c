"""A judge of runs with epochs that knows the command line and nothing else: ``python -m tests.judge.kills --kills 300
--seed 1``.

It starts ``pellucid run … --pushes N --state DIR`` as a user would, kills processes of it with ``kill -9`` at random
moments (one, some after a pause in which others were stopped, or all of them), damages a random file of the state
folder in between, and gives the same command again.  Right is: in the end exit code 0 and exactly the rows of
:mod:`tests.judge.kill_jobs`.  A damaged file may be refused (exit code 2, a message, no traceback); then it is put
back, and the command must go on.  Everything else is *wrong* (other rows) or a *dead end* (any other end, a refusal
without damage, a hang).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.judge.kill_jobs import Job, Target, jobs, same, targets
from tests.sinks.postgres import find_programs, serve

HANG = 180.0  # seconds after which a run that should end is called a dead end
BUSY = 20.0  # seconds for which a folder may say that the run before is still there


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, kind: str, where: str, text: str) -> None:
        self.counts[kind] += 1
        self.faults.append(f"{kind}: {where}: {text}")
        print(self.faults[-1], flush=True)


class Run:
    """One job with one target, from the first command to the whole output."""

    def __init__(
        self, job: Job, target: Target, folder: Path, rng: random.Random, tally: Tally, program: list[str]
    ) -> None:
        self.job, self.target, self.rng, self.tally = job, target, rng, tally
        self.state = folder / "state"
        self.where = f"{job.pipeline} to {target.name}"
        self.history: list[str] = []
        inputs = [
            part
            for source, name in job.inputs
            for part in ("--in", f"{source}={folder.parent / name}" if source else str(folder.parent / name))
        ]
        self.command = [
            *program,
            "run",
            f"{folder.parent}/jobs.py:{job.pipeline}",
            *inputs,
            "--out",
            target.place,
            "--state",
            str(self.state),
            "--pushes",
            str(rng.choice([150, 500, 1500])),
            "--chunk",
            str(rng.choice([50, 120])),
            *job.options,
        ]

    def start(self) -> subprocess.Popen[bytes]:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the run
        return subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-1500:]

    def strike(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Kill something after a random part of ``seconds``; True if it was alive to be hit."""
        time.sleep(self.rng.uniform(self.rng.choice([0.0, 0.4]), 1.0) * seconds)
        alive = members(process.pid)
        if process.poll() is not None or not alive:
            return False
        how = self.rng.choice(["all", "all", "first", "first", "task", "paused", "paused"])
        others = [pid for pid in alive if pid != process.pid] or alive
        victim = process.pid if how == "first" else self.rng.choice(others)
        if how == "paused":  # as on a loaded machine: somebody is not scheduled while another dies
            sleeper = self.rng.choice(alive)
            send(sleeper, signal.SIGSTOP)
            time.sleep(self.rng.random() * 0.4)
            send(victim, signal.SIGKILL)
            time.sleep(self.rng.random() * 0.4)
            send(sleeper, signal.SIGCONT)
        elif how == "all":
            for pid in alive:
                send(pid, signal.SIGKILL)
        else:
            send(victim, signal.SIGKILL)
        self.history.append(how)
        self.tally.counts["kills"] += 1
        self.tally.counts[f"kills: {how}"] += 1
        return True

    def end(self, process: subprocess.Popen[bytes]) -> int | None:
        """The exit code; None if it hangs."""
        try:
            return process.wait(HANG)
        except subprocess.TimeoutExpired:
            for pid in members(process.pid):
                send(pid, signal.SIGKILL)
            process.wait()
            return None

    def whole(self, *, damaged: str = "") -> int | None:
        """The command without kills, given again while the run before is still going away."""
        until = time.monotonic() + BUSY
        while True:
            code = self.end(self.start())
            if code == 2 and time.monotonic() < until and "in use" in self.said():
                self.tally.counts["waited for the run before"] += 1
                time.sleep(0.2)
                continue
            if code == 2 and damaged:
                return code
            if code != 0:
                self.tally.fault("dead end", f"{self.where} {self.history}", f"exit {code} {damaged}: {self.said()}")
            return code

    def damage(self) -> tuple[Path, bytes, str] | None:
        files = sorted(p for p in self.state.rglob("*") if p.is_file() and not p.is_symlink())
        if not files:
            return None
        kind = self.rng.choice(
            sorted({(p.parent, p.suffix) for p in files})
        )  # kinds before files: there are many parts and one run.json
        path = self.rng.choice([p for p in files if (p.parent, p.suffix) == kind])
        old = path.read_bytes()
        how = self.rng.choice(["flip", "flip", "truncate", "empty", "delete", "append", "stray"])
        new = bytearray(old)
        if how == "flip" and old:
            new[self.rng.randrange(len(old))] ^= 1 << self.rng.randrange(8)
        elif how == "truncate":
            del new[self.rng.randrange(len(old) + 1) :]
        elif how == "empty":
            new.clear()
        elif how == "append":
            new += self.rng.randbytes(7)
        if how == "delete":
            path.unlink()
        elif how == "stray":
            (path.parent / f".{path.name}.{self.rng.randrange(10**6)}.tmp").write_bytes(old[: len(old) // 2])
        else:
            path.write_bytes(new)
        self.tally.counts[f"damage: {how}"] += 1
        return path, old, f"{how} {path.relative_to(self.state)}"

    def right(self) -> None:
        wrong = same(self.target.read(), self.job.expected, ordered=self.target.name != "postgresql")
        if wrong:
            self.tally.fault("wrong", f"{self.where} {self.history}", wrong)

    def go(self, seconds: float, kills: int) -> None:
        for _ in range(kills * 4):
            if kills <= 0:
                break
            process = self.start()
            while kills > 0 and self.strike(process, seconds):
                kills -= 1
                if self.rng.random() < 0.5:
                    break
            code = self.end(process)
            if code == 0:
                self.right()
                self.tally.counts["ended under fire"] += 1
                shutil.rmtree(self.state)
                return
            if code is None or (code != -signal.SIGKILL and not (code == 2 and "in use" in self.said())):
                self.tally.fault("dead end", f"{self.where} {self.history}", f"exit {code}: {self.said()}")
                return
            for _ in range(self.rng.randrange(4)):
                if not self.survives_damage():
                    return
        if self.whole() == 0:
            self.right()
            if self.rng.random() < 0.2 and self.whole() == 0:  # once more: nothing changes
                self.right()

    def survives_damage(self) -> bool:
        """The command on a damaged folder: right, or refused, and then it goes on when the file is back.  True if the
        killed run is there again."""
        if not self.state.exists():
            return True
        files = self.target.name not in ("sqlite", "postgresql")
        kept = self.state.with_name("kept")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.state, kept)
        damaged = self.damage()
        if damaged is None:
            return True
        path, old, how = damaged
        self.history.append(how)
        code = self.whole(damaged=how)
        said = self.said()
        if code == 2 and ("Traceback" in said or "this is a bug" in said or not said.strip()):
            self.tally.fault("dead end", f"{self.where} {self.history}", f"a refusal like this: {said}")
        if code == 2:
            self.tally.counts["damage refused"] += 1
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(old)
            return True
        if code == 0:
            self.tally.counts["damage harmless"] += 1
            self.right()
            self.history.pop()
        if code == 0 and files:  # nothing of a file's run is outside the folder: back to where it was killed
            Path(self.target.place).unlink()
            shutil.rmtree(self.state)
            kept.rename(self.state)
            return True
        return False


def members(leader: int) -> list[int]:
    """The living processes of a session, whoever their parents are."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(rest[3]) == leader and rest[0] != "Z":
                    found.append(int(entry))
    return sorted(found)


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def judge(kills: int, seed: int, program: list[str]) -> Tally:
    rng, tally = random.Random(seed), Tally()
    with ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-judge-", ignore_cleanup_errors=True))
        )
        programs = find_programs()
        server = stack.enter_context(serve(programs)) if programs else None
        all_jobs = jobs(base, rng)
        turn = 0
        seconds: dict[str, float] = {}
        while tally.counts["kills"] < kills:
            for job in all_jobs:
                count = len(targets(base, "dsn" if server else None, "t"))
                folder = base / f"turn{turn}"
                folder.mkdir()
                target = targets(folder, server.dsn if server else None, f"t{turn}")[
                    (turn // len(all_jobs) + turn) % count
                ]
                if job.pipeline not in seconds:
                    began = time.monotonic()
                    calm = Run(job, target, folder, rng, tally, program)
                    if calm.whole() == 0:
                        calm.right()
                    seconds[job.pipeline] = time.monotonic() - began
                else:
                    Run(job, target, folder, rng, tally, program).go(seconds[job.pipeline], rng.randrange(1, 9))
                turn += 1
                shutil.rmtree(folder, ignore_errors=True)
                print(f"{tally.counts['kills']} kills, {turn} runs, {len(tally.faults)} faults", flush=True)
                if tally.counts["kills"] >= kills:
                    break
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.judge.kills", description="Kill and damage runs with epochs, from outside."
    )
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=f"{sys.executable} -m pellucid")
    given = parser.parse_args()
    tally = judge(given.kills, given.seed, given.program.split())
    for name, count in sorted(tally.counts.items()):
        print(f"{count:6}  {name}")
    print(*tally.faults, sep="\n")
    print(
        f"seed {given.seed}: {tally.counts['kills']} kills, {tally.counts['wrong']} wrong, {tally.counts['dead end']} "
        "dead ends"
    )
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
