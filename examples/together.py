"""Orders go to a table and to an archive, or to neither: a run is killed between the two, readers see whole epochs, and
the same call goes on."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from pellucid import Stream, pipeline, sinks


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


def members(folder: Path) -> dict[str, sinks.Sink]:
    return {"orders": sinks.sqlite(folder / "shop.db", "orders"), "archive": sinks.parquet(folder / "archive")}


def run(folder: Path) -> None:
    group = sinks.together(members(folder))
    total.run_epochs(folder / "x.csv", group, state=folder / "state", pushes=100, say=lambda text: None)


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "x.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(1000)))
        # For the example: dead when the table has an epoch that the archive may not have.
        dead = {**os.environ, "PELLUCID_FAULTS": "sqlite:after-commit=tree@3"}
        killed = subprocess.run([sys.executable, __file__, name], env=dead, start_new_session=True)
        print("killed:", killed.returncode == -signal.SIGKILL)
        log = folder / "state" / "together"
        tables = sinks.read_together(members(folder), log=log)
        print("rows that all have:", {name: table.num_rows for name, table in tables.items()})
        run(folder)
        tables = sinks.read_together(members(folder), log=log)
        print("in the end:", {name: table.num_rows for name, table in tables.items()})
        print("the same in both:", tables["orders"].equals(tables["archive"]))


if __name__ == "__main__":
    run(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
