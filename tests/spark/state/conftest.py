from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.spark.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of snapshots."""
    return Store(str(tmp_path / "state"))
