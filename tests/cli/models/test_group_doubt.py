"""What is in doubt in a group of sinks, as the command line shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.cli.models.group_doubt import is_group, show_group_doubt
from pellucid.sinks.group.log import DecisionLog


def test_a_state_folder_and_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for inner in ("together", "pellucid-together"):
        folder = tmp_path / inner / "of"
        assert not is_group(str(folder))
        log = DecisionLog(folder / inner)
        log.take("orders", {"archive": f"parquet: {tmp_path}/gone", "out": f"file: {tmp_path}/out.csv"})
        log.decide(7, "a1", epoch=2 if inner == "together" else 0)
        assert is_group(str(folder))
        found = show_group_doubt(str(folder), as_json=False)
        assert found.in_doubt
        lines = capsys.readouterr().out.splitlines()
        what = "epoch 2 (up to push 7)" if inner == "together" else "batch 7"
        assert lines[0].startswith(f"{folder / inner}: {what} of 'orders', decided at 2")
        assert lines[1] == f"  archive      lacks it       parquet: {tmp_path}/gone (the folder is gone)"
        assert lines[2].startswith("  out          was not asked  file: ")
        assert "wait for archive, out" in lines[3]
        show_group_doubt(str(folder), as_json=True)
        document = json.loads(capsys.readouterr().out)
        assert (document["pellucid"], document["verb"]) == (1, "net doubt")
        assert document["group"]["in_doubt"] is True
        assert [m["lacks"] for m in document["group"]["members"]] == [True, None]
