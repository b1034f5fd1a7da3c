"""Two versions of a job, each with classes of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid import TypeMismatch, check
from pellucid.internal.load import load_pipeline
from pellucid.internal.pipeline import Pipeline

VERSION = """\
from __future__ import annotations

import enum
from dataclasses import dataclass

from pellucid import Stream, pipeline


class Kind(enum.Enum):
    IN = 1
    OUT = 2
    BACK = 3


@dataclass(frozen=True)
class Pay:
    kind: Kind
    cents: int | None

    def worth(self) -> int:
        return (self.cents or 0) * (1 if self.kind is Kind.IN else -1)


@pipeline
def kept(x: Stream[Pay]) -> Stream[Pay]:
    return x.filter(lambda e: e.worth() > 0)


@pipeline
def kinds(x: Stream[Pay]) -> Stream[Kind]:
    return x.map(lambda e: Kind.BACK if e.kind == Kind.OUT and e.cents is None else e.kind)


@pipeline
def maybe(x: Stream[Kind | None]) -> Stream[Kind | None]:
    return x.map(lambda k: k)


@pipeline
def called(x: Stream[Pay]) -> Stream[int]:
    return x.map(lambda e: int(str(e.worth())))
"""

Versions = Callable[..., tuple[Pipeline, Pipeline]]


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    def load(name: str, *changes: tuple[str, str]) -> tuple[Pipeline, Pipeline]:
        new = VERSION
        for a, b in changes:
            assert a in new
            new = new.replace(a, b)
        (tmp_path / "old.py").write_text(VERSION)
        (tmp_path / "new.py").write_text(new)
        return load_pipeline(f"{tmp_path}/old.py:{name}"), load_pipeline(f"{tmp_path}/new.py:{name}")

    return load


@pytest.mark.parametrize("how", ["step", "sequence", "paper"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("kept", ("else -1)", "else 1)")),
        ("kinds", ("Kind.BACK if", "Kind.IN if")),
        ("maybe", ("lambda k: k", "lambda k: None if k is None or k == Kind.OUT else k")),
    ],
)
def test_the_same_and_another(versions: Versions, name: str, change: tuple[str, str], how: str) -> None:
    assert check.equivalent(*versions(name), how=how).proved
    verdict = check.equivalent(*versions(name, change), how=how)
    assert verdict.refuted and verdict.counterexample is not None and verdict.counterexample.replay()
    assert len(verdict.counterexample.inputs) <= 2  # of sequences: until the second one speaks


def test_each_calls_its_own_methods(versions: Versions) -> None:
    a, b = versions("called", ("else -1)", "else 1)"))
    verdict = check.equivalent(a, b, ints=range(2))
    assert verdict.refuted and verdict.counterexample is not None
    assert [str(push["x"].kind) for push in verdict.counterexample.inputs] != ["Kind.IN"]
    assert check.equivalent(*versions("called"), ints=range(2)).proved


@pytest.mark.parametrize(
    "change",
    [
        ("cents: int | None", "cents: int | None\n    note: str = ''"),
        ("BACK = 3", "BACK = 4"),
        ("BACK", "BACKWARDS"),
        ("Pay", "Paid"),
    ],
)
def test_what_is_not_alike_is_refused(versions: Versions, change: tuple[str, str]) -> None:
    with pytest.raises(TypeMismatch, match="cannot be compared: their sources are"):
        check.equivalent(*versions("kept", change))
