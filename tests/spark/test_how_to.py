"""The lines of docs/how-to-spark.md, and those of the README that need Spark, run in their order on a real one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def run_blocks(page: Path, *, only: str = "") -> tuple[dict[str, Any], int]:
    """Run a page's Python blocks; every `call   # result` must come out. The names, and how many results there were."""
    space: dict[str, Any] = {"__name__": "__main__"}  # as in a script: its functions travel with the job
    checked, waiting = 0, ""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        if block.startswith(">>>") or not re.search(only, block):
            continue  # tests/test_docs.py runs those
        for part in re.split(r"(?<=\n)(?=\S)", block):  # what a line shows must hold where it stands
            shown = (
                re.match(r"^(?!print)(\S.*?)\s\s+# (\[.*\]|True|False|\d+)$", part.rstrip()) if not waiting else None
            )
            if shown:
                assert eval(shown[1], space) == eval(shown[2]), part
                checked += 1
                continue
            waiting += part
            try:
                code = compile(waiting, page.name, "exec", dont_inherit=True)  # as a script of its own
            except SyntaxError:
                continue  # a decorator, or the first half of a try
            exec(code, space)
            waiting = ""
        assert not waiting
    return space, checked


def test_the_page_is_true(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space, checked = run_blocks(ROOT / "docs" / "how-to-spark.md")
    assert checked == 17
    assert "step 'total' (cumulate) is gone" in capsys.readouterr().out
    assert space["spark"] is spark


def test_the_readme_is_true_on_spark(spark: SparkSession) -> None:
    _, checked = run_blocks(ROOT / "README.md", only="def sum_of_odds|pellucid.spark")
    assert checked == 1
