"""A run that is killed with kill -9 in the middle, and goes on: the output is that of a run in which nothing
happened."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pellucid import Stream, check, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


def run(folder: Path) -> None:
    total.run_epochs(
        folder / "x.csv",
        folder / "out.csv",
        state=folder / "state",
        pushes=1000,
        chunk=100,
        record=True,
        say=lambda text: None,
    )


def main() -> None:
    print("crashes cannot be seen:", check.failures(total).status)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "x.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(200_000)))
        victim = subprocess.Popen([sys.executable, __file__, name], start_new_session=True)
        while not list(folder.glob("state/committed/out/*")) and victim.poll() is None:
            time.sleep(0.01)
        os.kill(victim.pid, signal.SIGKILL)  # its tasks die with it
        victim.wait()
        print("killed; is the output there?", (folder / "out.csv").exists())
        while True:
            try:
                run(folder)
                break
            except Exception as error:  # the tasks of the dead run may take a moment to be gone
                if "another run" not in str(error):
                    raise
                time.sleep(0.1)
        wanted = ["out", *map(str, total(list(range(200_000))))]
        print("the same as without a crash:", (folder / "out.csv").read_text().split() == wanted)


if __name__ == "__main__":
    run(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
