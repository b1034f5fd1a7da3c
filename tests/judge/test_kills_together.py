"""A handful of random kills of sinks together, in every run of the tests."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.judge import kills_together
from tests.judge.kills_together import judge
from tests.sinks.postgres import Postgres, server_or_skip


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


def test_random_kills(server: Postgres) -> None:
    assert judge(3, 7, [server])["kills"] >= 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_random_kills(seed: int) -> None:
    assert judge(100, seed)["kills"] >= 100


@pytest.mark.long
@pytest.mark.usefixtures("java_home")
@pytest.mark.parametrize("seed", range(2))
def test_random_kills_of_queries(seed: int) -> None:
    assert judge(10, seed, on="spark")["kills"] >= 10


class Wrong:
    """A judge that finds something at once."""

    def __init__(self, folder: Path, *about: Any) -> None:
        self.folder = folder

    def go(self, kills: int) -> None:
        (self.folder / "kills").write_text(str(kills))
        raise AssertionError("readers see half")


def test_what_is_wrong_is_kept_and_said(
    server: Postgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    @contextmanager
    def served(*about: Any) -> Iterator[Postgres]:
        yield server

    monkeypatch.setattr(kills_together, "Judge", Wrong)
    monkeypatch.setattr(kills_together, "serve", served)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["kills_together", "--kills", "9", "--seed", "5", "--each", "7"])
    assert kills_together.main() == 1
    (kept,) = tmp_path.iterdir()
    assert (kept / "kills").read_text() == "7"
    said = capsys.readouterr().out
    assert said.startswith(f"wrong: readers see half\nthe run is kept in {kept}: seed 5, after 0 kills")
    monkeypatch.setattr(sys, "argv", ["kills_together", "--seed", "6", "--minutes", "0"])
    assert kills_together.main() == 0
    assert capsys.readouterr().out.startswith("seed 6, 0 s")
