"""Worlds in which other programs change the targets of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pellucid.errors import StateError
from pellucid.sinks import group as member
from pellucid.sinks import unresolved as read
from tests.judge.together_outside import judge
from tests.seeds import seeds
from tests.sinks.postgres import Postgres, server_or_skip

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:together")]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    yield from server_or_skip()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver writes while readers look: there is nothing to wait for."""
    monkeypatch.setattr(read, "_PAUSE", 0.002)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(4))
def test_many_worlds(server: Postgres, seed: int) -> None:
    assert judge(40, 1000 * seed, server)["worlds"] == 40


def test_a_group_that_begins_anew_in_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = member.Member.stage

    def careless(self: Any, rows: Any, query: str, batch: int, attempt: str, clear: Any, since: int = -1) -> int:
        return real(self, rows, query, batch, attempt, clear)

    monkeypatch.setattr(member.Member, "stage", careless)
    with pytest.raises(
        StateError, match=r"the last batch of query 'q' that is there is 0, and the group's is"
    ) as caught:
        judge(5, 19, None)
    assert caught.value.__notes__[0].endswith("mended")  # and what was decided cannot be brought there


def test_readers_that_do_not_cut_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(sinks: Any, record: Any) -> dict[str, Any]:
        return {name: sink.read() for name, sink in sinks.items()}

    monkeypatch.setattr(read, "_at_once", plain)
    with pytest.raises(Exception, match=r"readers see"):
        judge(9, 1, None)


def test_what_is_wrong_is_told_with_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_at_once", lambda sinks, record: {}.popitem())
    with pytest.raises(KeyError) as caught:
        judge(3, 1, None)
    assert "write 0, attempt 1" in caught.value.__notes__[0]
