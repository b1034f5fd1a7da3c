"""Properties that a file declares: collected in the module, in order, none lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid import UsageError, check, pipeline
from pellucid.check.declare import Property, declared
from pellucid.internal.load import _load_path

HEAD = "from pellucid import check, pipeline\np = pipeline(lambda x: x.trim(1), x=int)\n"
late = pipeline(lambda x: x.trim(1), x=int)


def load(tmp_path: Path, text: str) -> list[Property]:
    file = tmp_path / "declares.py"
    file.write_text(HEAD + text)
    return declared(_load_path(str(file)))


def test_they_come_in_the_order_of_the_lines(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "@check.property\ndef b():\n    return True\n"
        "check.properties(p, ['AG EF out', '!EF full'], queue=2)\n"
        "@check.property\ndef a():\n    return check.live(p)\n"
        "check.properties(p, {'often': 'G F out'}, name='late', ints=range(2))\n",
    )
    assert [(one.name, one.where) for one in found] == [
        ("b", "declares.py:3"),
        ("pipeline: AG EF out", "declares.py:6"),
        ("pipeline: !EF full", "declares.py:6"),
        ("a", "declares.py:7"),
        ("late: often", "declares.py:10"),
    ]
    assert [one().status for one in found] == ["proved", "proved", "proved", "proved", "refuted"]


@pytest.mark.parametrize(("within", "status"), [(10**9, "bounded"), (10**19, "unknown")])
def test_a_bound_of_fewer_pushes_than_within_is_not_enough(tmp_path: Path, within: int, status: str) -> None:
    total = "p = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)\n"
    (found,) = load(tmp_path, f"{total}check.properties(p, ['G !failed'], within={within}, ints=range(10))\n")
    assert found().status == status


def test_a_file_that_is_loaded_again_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was changed within the same second, and is as long as before; and nothing is left beside it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "declares.py"
    for name in ("a", "b"):
        file.write_text(f"{HEAD}@check.property\ndef {name}():\n    return True\n")
        os.utime(file, (1e9, 1e9))
        assert [one.name for one in declared(_load_path(str(file)))] == [name]
    assert os.listdir(tmp_path) == ["declares.py"]


def test_what_is_imported_is_not_declared(tmp_path: Path) -> None:
    (tmp_path / "declares_elsewhere.py").write_text(HEAD + "@check.property\ndef a():\n    return True\n")
    assert load(tmp_path, "from declares_elsewhere import a\n") == []


def test_a_loop_loses_none(tmp_path: Path) -> None:
    found = load(tmp_path, "for size in (1, 2, 3):\n    check.properties(p, ['!EF full'], queue=size)\n")
    assert [one.name for one in found] == ["pipeline: !EF full", "pipeline: !EF full (2)", "pipeline: !EF full (3)"]


def test_two_of_one_name(tmp_path: Path) -> None:
    text = "@check.property\ndef a():\n    return True\n\n@check.property\ndef a():\n    return False\n"
    message = "two properties are called 'a' (declares.py:3 and declares.py:7): rename one"
    with pytest.raises(UsageError) as error:
        load(tmp_path, text)
    assert str(error.value) == message


def test_a_cell_that_is_run_again_replaces_its_own() -> None:
    space: dict[str, Any] = {"check": check}
    for answer in (True, False):
        exec(f"@check.property\ndef a():\n    return {answer}\n", space)
    (found,) = declared(space)
    assert found().refuted


def test_the_function_stays_a_function() -> None:
    @check.property
    def something_comes_out() -> Any:
        return check.live(late)

    assert something_comes_out().proved


def test_options_reach_who_takes_them() -> None:
    seen: list[dict[str, Any]] = []
    space: dict[str, Any] = {"check": check, "seen": seen}
    exec(
        "@check.property\ndef none():\n    seen.append({})\n    return True\n"
        "@check.property\ndef some(timeout=None):\n    seen.append({'timeout': timeout})\n    return True\n"
        "@check.property\ndef every(**how):\n    seen.append(how)\n    return True\n",
        space,
    )
    for found in declared(space):
        found(timeout=3, engine="smt")
    assert seen == [{}, {"timeout": 3}, {"timeout": 3, "engine": "smt"}]


def test_options_go_before_what_is_declared() -> None:
    space: dict[str, Any] = {"check": check, "late": pipeline(lambda x: x.decimate(3) + x, x=int)}
    exec("check.properties(late, ['!EF overflow'], queue=1)", space)
    (found,) = declared(space)
    shorter, longer = found().counterexample, found(queue=4).counterexample
    assert shorter is not None and longer is not None and len(shorter.steps) < len(longer.steps)


MISTAKES = [
    (lambda: check.property(3), "@check.property stands above a function, found 3"),  # type: ignore[type-var]
    (
        lambda: check.property(check.live(late)),  # type: ignore[type-var]
        "@check.property stands above a function that returns a verdict; it was given the verdict itself",
    ),
    (
        lambda: check.property(lambda size: True),
        "property <lambda> wants an argument 'size', which nobody gives it: a property takes none, or some of "
        "ints, queue, assume, times, pushes, batch, arrival, engine, timeout, max_states, max_depth, progress",
    ),
    (lambda: check.properties(late, "AG EF out"), "check.properties wants a list of formulas: write ['AG EF out']"),
    (lambda: check.properties(3, ["AG EF out"]), "check.properties wants a pipeline first, found 3"),
    (
        lambda: check.properties(late, ["AG EF out"], size=3),
        "check.properties takes ints, queue, assume, times, pushes, batch, arrival, engine, timeout, max_states, "
        "max_depth, progress, found 'size'",
    ),
    (lambda: check.properties(late, ["G (x -> )"]), "expected a condition, found ')'\n  G (x -> )\n          ^"),
    (
        Property("p", "f.py:1", lambda: None, takes=frozenset()),
        "property p (f.py:1) returned None: expected a verdict, as in return check.live(…), or True or False",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        call()
    assert str(error.value) == message
