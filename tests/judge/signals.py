"""Signals at random moments of the command, from its first instruction to its end.

``python -m tests.judge.signals --count 500 --seed 1`` starts ``run``, ``run`` with epochs, ``check`` and ``crash``,
each many times, and sends SIGINT, SIGTERM or SIGHUP at a moment drawn from the time that such a command takes: to the
process alone, or to its group as a terminal does.  Afterwards must hold:

* the exit code is that of the signal, with one line that says so; or that of the work, which was done then;
* there is no traceback;
* an output is whole or not there, and no draft is left; a run with epochs goes on to the right output;
* no process is left.

Until the command's first instruction the process is Python's own, which a signal ends as it likes: such cases are
counted apart (`early`), and are no fault if none of Pellucid's lines was run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = [sys.executable, "-m", "pellucid"]
MARK = "PELLUCID_SIGNAL_JUDGE"
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
PIPELINES = """\
from pellucid import Stream, check, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0)


@pipeline
def odd(x: Stream[int]) -> Stream[int]:
    return x.filter(lambda v: v % 7 != 1).cumulate(lambda t, v: (3 * t + v * v) % 1009, start=0)


check.properties(odd, {"small": "G (out -> out.value < 1009)"})
check.properties(total, {"grows": "G (in -> out)"})
"""


@dataclass
class Work:
    """A command: what it puts out when it is left alone, and how long that takes."""

    name: str
    args: list[str]
    code: int = 0
    out: str | None = None
    whole: bytes = b""
    seconds: float = 0.0


WORKS = [
    Work("run", ["run", "p.py:total", "--in", "in.csv", "--out", "out.csv"], out="out.csv"),
    Work("epochs", ["run", "p.py:total", "--in", "in.csv", "--out", "out.csv", "--epoch-size", "5000",
                    "--state", "state"], out="out.csv"),
    Work("check", ["check", "p.py", "--timeout", "20"]),
    Work("crash", ["crash", "p.py:total", "--in", "small.csv", "--kills", "1", "--epoch-size", "50", "--seed", "1"]),
]  # fmt: skip


@dataclass
class Judge:
    """Runs the cases and keeps what was wrong."""

    place: Path
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def folder(self) -> Path:
        """A fresh one, with the inputs."""
        here = self.place / "work"
        shutil.rmtree(here, ignore_errors=True)
        (here / "tmp").mkdir(parents=True)
        (here / "p.py").write_text(PIPELINES)
        (here / "in.csv").write_text("x\n" + "".join(f"{v % 1000}\n" for v in range(60_000)))
        (here / "small.csv").write_text("x\n" + "".join(f"{v}\n" for v in range(200)))
        return here

    def start(self, work: Work, here: Path) -> subprocess.Popen[bytes]:
        env = {**os.environ, MARK: str(os.getpid()), "TMPDIR": str(here / "tmp")}
        return subprocess.Popen(
            [*COMMAND, *work.args], cwd=here, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )  # fmt: skip

    def learn(self, works: Iterable[Work]) -> None:
        """What they do undisturbed."""
        for work in works:
            for _ in range(2):  # the second time what Python compiles is there
                here = self.folder()
                began = time.monotonic()
                process = self.start(work, here)
                _, err = process.communicate(timeout=600)
                work.seconds, work.code = time.monotonic() - began, process.returncode
            assert work.code in (0, 1, 3), err.decode()
            work.whole = (here / work.out).read_bytes() if work.out else b""

    def case(self, work: Work) -> None:
        """One signal."""
        number = self.rng.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP])
        moment, group = self.rng.uniform(0, 1.05 * work.seconds), self.rng.random() < 0.5
        here = self.folder()
        process = self.start(work, here)
        time.sleep(moment)
        sent = time.monotonic()
        if process.poll() is None:
            (os.killpg if group else os.kill)(process.pid, number)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            self.fault(work, number, moment, "did not end within 60 s", err)
            return
        seconds, code = time.monotonic() - sent, process.returncode
        self.counts[f"{work.name}: {self.judge(work, number, moment, code, err.decode(errors='replace'), here)}"] += 1
        self.counts["longest, in ms"] = max(self.counts["longest, in ms"], round(1000 * seconds) if code > 3 else 0)

    def judge(self, work: Work, number: int, moment: float, code: int, err: str, here: Path) -> str:
        lines = [line for line in err.splitlines() if line.startswith("pellucid:")]
        about = work, number, moment
        kind = "done" if code == work.code else "stopped"
        if code == -number and "pellucid" not in err.replace("No module named pellucid", ""):
            kind = "early, with Python's traceback" if "Traceback" in err else "early"
        elif "Traceback" in err or "Exception ignored" in err:
            self.fault(*about, f"traceback, exit code {code}", err.encode())
        elif code == 128 + number:
            if len(lines) != 1 or not re.match(rf"pellucid: {WORDS[signal.Signals(number)]}(:|$)", lines[0]):
                self.fault(*about, f"{len(lines)} lines for exit code {code}", err.encode())
        elif code != work.code:
            self.fault(*about, f"exit code {code}", err.encode())
        left = [str(p.relative_to(here)) for p in here.rglob("*") if p.name.endswith((".part", ".tmp"))]
        left = [
            name for name in left if not name.startswith(("state", "tmp"))
        ]  # a killed task's, gone with the next start
        left += [name for name in os.listdir(here / "tmp") if name.startswith("pellucid")]
        if left:
            self.fault(*about, f"left behind: {left}", err.encode())
        file = here / (work.out or "no output")
        if file.exists() and kind == "stopped" and work.name == "epochs":
            pass  # its epochs so far
        elif file.exists() != bool(work.out and kind == "done"):
            self.fault(*about, f"{kind}, and the output is {'' if file.exists() else 'not '}there", err.encode())
        elif file.exists() and file.read_bytes() != work.whole:
            self.fault(*about, f"{kind}, and the output is not whole", err.encode())
        if processes := self.left():
            self.fault(*about, f"processes are left: {processes}", err.encode())
        if work.name == "epochs" and kind != "done":
            again = self.start(work, here)
            _, said = again.communicate(timeout=600)
            if again.returncode != 0 or (here / "out.csv").read_bytes() != work.whole:
                self.fault(*about, f"does not go on: exit code {again.returncode}", said)
        return kind

    def left(self) -> list[int]:
        """Processes of ours that still run, after a moment in which the kernel ends them."""
        for _ in range(100):
            found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _ours(pid)]
            if not found:
                return []
            time.sleep(0.05)
        return found

    def fault(self, work: Work, number: int, moment: float, what: str, err: bytes) -> None:
        word = (
            f"{work.name}, {signal.Signals(number).name} after {moment:.3f} s: {what}\n{err.decode(errors='replace')}"
        )
        print("WRONG", word, flush=True)
        self.wrong.append(word)


def _ours(pid: int) -> bool:
    try:
        return pid != os.getpid() and f"{MARK}={os.getpid()}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def main() -> None:
    """Judge, and exit with 1 if anything was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        judge = Judge(Path(place), random.Random(given.seed))
        works = [work for work in WORKS if work.name in given.only.split(",") or not given.only]
        judge.learn(works)
        print("alone:", ", ".join(f"{work.name} {work.seconds:.2f} s" for work in works), flush=True)
        for i in range(given.count):
            judge.case(works[i % len(works)])
        print(json.dumps(judge.counts, indent=1, sort_keys=True))
        print(f"{given.count} signals, {len(judge.wrong)} wrong")
        sys.exit(bool(judge.wrong))


if __name__ == "__main__":
    main()
