"""``pellucid export``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]


def test_a_model_on_stdout(pellucid: Command) -> None:
    result = pellucid("export", "pipes.py:total", "--format", "smv", "--ints", "mod:3", "--property", "AG EF out")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "-- total: integers modulo 3; written by pellucid as in Model Checking of Stream Processing Pipelines (2021), "
        "section 3"
    )
    assert "MODULE main" in lines and "  pc_1 : 0..2;  -- source x" in lines
    assert "CTLSPEC NAME p_1 := AG (EF out_b);" in lines


def test_a_file(pellucid: Command, folder: Path) -> None:
    more = ["--queue", "2", "--property", "!EF full", "--property", "G F in -> G F out", "--out", "total.smv"]
    result = pellucid("export", "pipes.py:total", "--ints", "mod:4", *more)
    assert (result.exit_code, result.stdout) == (0, "")
    text = (folder / "total.smv").read_text()
    assert text.count("SPEC NAME") == 2 and "INVARSPEC NAME p_1 := !full;" in text
    assert text.endswith(";\n")


def test_queues_by_id(pellucid: Command, folder: Path) -> None:
    (folder / "late.py").write_text(
        "from pellucid import *\nlate = pipeline(lambda x: apply(lambda a, b: a, x, x.trim(1), id='j'), x=int)\n"
    )
    result = pellucid("export", "late.py:late", "--queue", "j.0=1", "--queue", "2")
    assert result.exit_code == 0 and "queues as arrays q_c, q_b of 1, 2 cells" in result.stdout


BAD = [
    (
        ["pipes.py:both"],
        "a merge may carry several events in one push, but a pipe of NuSMV's model carries at most one",
    ),
    (
        ["pipes.py:words"],
        "step 'w' (source): NuSMV has no str: its scalars are Booleans, integers and symbolic constants",
    ),
    (
        ["pipes.py:total", "--ints", "exact"],
        "NuSMV's integers are bounded: give a domain, such as Mod(4) or range(0, 4)",
    ),
    (["pipes.py:total", "--ints", "0..3"], "its values grow beyond 4,096, but NuSMV's integers are bounded"),
    (["pipes.py:total", "--ints", "4"], "--ints takes mod:4, 0..7 or exact, found '4'"),
    (["pipes.py:total", "--queue", "many"], "--queue takes a number, or ID=NUMBER, found 'many'"),
    (["pipes.py:total", "--property", "AG EF outt"], "total has no stream 'outt': did you mean 'out'?"),
    (["pipes.py:total", "--property", "AG EF"], "expected a condition, found the end\n  AG EF\n       ^"),
    (["pipes.py:total", "--format", "promela"], "'promela' is not 'smv'"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_usage(pellucid: Command, args: list[str], message: str) -> None:
    result = pellucid("export", *args)
    assert result.exit_code == 2
    assert message in result.stderr and result.stdout == ""
