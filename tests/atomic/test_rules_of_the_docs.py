"""The table of rules in the docs: every rule of the paper is in it, with tests that exist and name the rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pellucid.atomic import Atomic
from tests.atomic import test_steps, test_typing

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "atomic.md"
REDUCTION = """RED REPLICATE, RED TIMEOUT, RED CRYPT, RED DECRYPT, RED LET, RED APP, RED PROC, RED CTX, RED CONG,
RED IN PLACE, RED OUT PLACE, RED RECV, RED ABORT, RED COMMIT, RED FORWARD, RED FORWARD TIMEOUT, RED OPEN,
RED OPEN TIMEOUT, LOG PREDICATE ABORTED, COMMITTED, RECVD, DEPENDS, EXTEND, NET PREDICATE NEW, PAR, PLACE, RED CHILD,
COMMIT WIRE, COMMIT NEW, COMMIT NEW TRANS, COMMIT PLACE, COMMIT PROC, COMMIT NULL"""
TYPES = """NET PLACE, NET WIRE, NET NEW, NET PROCESS, LOG NET, LOG EXTEND, PROC SEND, PROC RECEIVE, PROC CRYPT,
PROC DECRYPT, PROC CONTINUE, PROC LET, PROC REPLICATE, PROC NEW, PROC PAR, PROC NULL, PROC CONT, VAL PACKET, VAL TUPLE,
VAL PARAM, VAL INPUT CAP, VAL OUTPUT CAP, VAL COMPOSE CAP, PROC SEND PROCESS, PROC FORWARD, PROC OPEN, PROC COMMIT,
PROC ABORT, NET EMPTY, PROC CHILD"""


def table() -> list[list[str]]:
    text = PAGE.read_text(encoding="utf-8").partition("## Rules, one by one")[2].partition("## Mutants")[0]
    rows = [[cell.strip() for cell in line.split(" |")] for line in text.splitlines() if line.startswith("| ")]
    return [[cell.removeprefix("| ") for cell in row] for row in rows[2:]]


def named(cell: str) -> list[str]:
    words = re.sub(r" \([^)]*\)", "", cell.replace("`", "").replace(";", ","))
    return [word.strip() for word in words.split(",")]


def test_every_rule_of_the_paper_is_in_the_table() -> None:
    rules = [rule for row in table() for rule in named(row[0])]
    assert not [rule for rule in named(REDUCTION) + named(TYPES) if rule not in rules]
    assert len(rules) == len(set(rules))


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0][:30])
def test_its_tests_exist_and_have_a_case_for_it(row: list[str]) -> None:
    tests = named(row[4])
    of_types = row[0].startswith(("NET P", "NET W", "LOG NET", "PROC", "VAL"))
    module = test_typing if of_types else test_steps
    assert tests and all(hasattr(module, name) for name in tests), tests
    ids = {case[0] for case in module.RULES} | {case[0] for case in test_typing.PARTS}
    if tests == ["test_each_rule"] or "parts" in tests[0]:
        known = [rule for rule in named(row[0]) if rule not in ("RED PROC", "RED CTX")]  # by every case
        assert all(rule in ids for rule in known), known
    if not of_types:
        functions = [name for cell in named(row[2]) if (name := cell.removeprefix("Atomic.")).startswith("red_")]
        assert all(hasattr(Atomic, name) for name in functions)
