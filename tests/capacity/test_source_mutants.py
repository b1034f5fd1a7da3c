"""Mutants of the compiled transitions: one line of them is changed, and the judges must find it out.

Each is compiled anew, which takes a while: they are among the long tests.  Where chance finds a mutant late, there is a
case whose answer is known and which the mutant gets wrong, or of which it says what the checker does not accept.
"""

# ruff: noqa: E501 - a line of the source and what comes in its place stand beside each other
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from pellucid import check
from pellucid.capacity import Bolt, Spout, Topology, figure_1
from pellucid.capacity.zones.network import Network
from pellucid.capacity.zones.search import search
from pellucid.internal.model import Budget
from tests.capacity.judges import small

ROOT = Path(__file__).resolve().parents[2]
COMPILED = Path("src/pellucid/capacity/zones/compiled.py")

# what stands there, what comes in its place
MUTANTS = {
    "a spout emits at its gap": ("spout + 1, -2 * numbers(c[y.GAP])[spout], c[y.INF]):\n            reset(z, n, spout + 1)\n            copy(s,", "spout + 1, -2 * numbers(c[y.GAP])[spout] + 1, c[y.INF]):\n            reset(z, n, spout + 1)\n            copy(s,"),
    "takes are forgotten": ("taken = min(length, workers[o] - busy)", "taken = min(length, 1)  * (busy == 0)"),
    "the rest of a ratio is lost": ("t[at + y.DUE] = due % numbers(c[y.UNDER])[bolt]\n", "t[at + y.DUE] = 0 * due % numbers(c[y.UNDER])[bolt]\n"),
    "time passes beyond an end": ("2 * numbers(c[y.TIME])[o] + 1", "2 * numbers(c[y.TIME])[o] + 3"),
    "time stops before an end": ("2 * numbers(c[y.TIME])[o] + 1", "2 * numbers(c[y.TIME])[o]"),
    "a clock forgets too much": ("m[i * n + j] > 2 * gap[s] + 1", "m[i * n + j] > 0"),
    "a spout does not begin again": ("            reset(z, n, spout + 1)\n            copy(s,", "            copy(s,"),
    "a worker takes two": ("            t[at + y.BUSY] += taken\n", "            t[at + y.BUSY] += taken\n            t[at + y.LENGTH] = 0\n"),
    "lower bounds of all clocks go": ("for s in range(spouts):\n        i = s + 1\n        for j in range(n):\n            if j != i:\n                m[j * n + i] = inf", "for s in range(n - 1):\n        i = s + 1\n        for j in range(n):\n            if j != i:\n                m[j * n + i] = inf"),
    "a zone is not closed": ("                    if c < m[i * n + j]:\n                        m[i * n + j] = c\n    for i", "                    if c < m[i * n + j] - 2:\n                        m[i * n + j] = c\n    for i"),
    "literal: a spout does not wait for takes": ("if not flags & (y.TAKES_FIRST | y.EMITS_FIRST):", "if True:"),
    "literal: others need the flag, too": ("(b != target or flags & y.TAKES_FIRST)", "flags & y.TAKES_FIRST"),
}  # fmt: skip

# One that changes nothing in any state: a spout may emit at the moment at which a tuple ends, before it ends.  Whatever
# happens then happens as well if the spout emits a little earlier: more than its gap had passed at that moment, so more
# than its gap had passed a little before (the condition is strict), and nothing else comes in between but what ends at
# that moment, too, which makes no queue shorter.  The queues are as long after it, and the fewest emits are the same; the
# least time is an infimum anyway.  But a state at that moment, before the end, would count as a settled one.
SAME = ("0, 2 * end, c[y.INF]", "0, 2 * end + 1, c[y.INF]")
MUTANTS["a state is settled before an end"] = SAME

CHAIN = Topology({"S": Spout(1)}, {"A": Bolt(1, "S"), "B": Bolt(1, "A")})
# A gives B two tuples at 1 and two at 2; at 2 B is done with the second of the first two, and takes one of the others.
ENDS_MEET = Topology({"S": Spout(6)}, {"A": Bolt(1, "S", ratio=2, initial=2), "B": Bolt("1/2", "A")}, observe="settled")

# what is asked, and the answer
CASES = {
    "a spout does not begin again": (figure_1(gap=1), "B1", 2, "proved"),
    "a worker takes two": (figure_1(gap="0.8"), "B1", 2, "refuted"),
    "lower bounds of all clocks go": (figure_1(gap=1), "B1", 2, "proved"),
    "a zone is not closed": (figure_1(gap=2), "B3", 3, "proved"),
    "a state is settled before an end": (ENDS_MEET, "B", 2, "proved"),
    "literal: a spout does not wait for takes": (figure_1(gap="1.2").given(semantics="literal"), "B1", 2, "proved"),
    "literal: others need the flag, too": (CHAIN.given(semantics="literal"), "B", 1, "refuted"),
}

SCRIPT = """
import sys
from ast import literal_eval
from tests.capacity.judges import Tally, judge, small
from tests.capacity.test_source_mutants import said_of_case
tally, caught = Tally(), said_of_case(sys.argv[1])
for number in range(200):
    if caught:
        break
    for semantics in ("literal"):
        try:
            judge(*small(number, semantics=semantics), tally)
        except Exception as wrong:
            caught = f"{number}: {type(wrong).__name__}: {wrong}"
        caught = caught or (tally.wrong[0] if tally.wrong else "")
print(caught or "not caught")
"""


def said_of_case(mutant: str) -> str:
    """What is wrong with the answer to the mutant's case; nothing, if it has none."""
    if mutant not in CASES:
        return ""
    topology, bolt, limit, status = CASES[mutant]
    try:
        found = check.capacity(topology, {bolt: limit}, certify=True)
    except Exception as wrong:
        return f"its case: {type(wrong).__name__}: {wrong}"
    return "" if found.status == status else f"its case: {found}"


ANSWERS = """
from tests.capacity.test_source_mutants import answers
print(answers())
"""


def answers() -> str:
    """What zones say of some small topologies in any state: the answer, the fewest emits, the longest queues."""
    told = []
    for number in range(150):
        t, bolt, limit = small(number)
        found = search(Network.of(t.given(observe="any"), bolt), limit=limit, budget=Budget(None, 3_000))
        emits = None if found.way is None else sum(label.kind == 0 for label in found.way)
        longest = {name: lengths[0] for name, lengths in found.longest.items()} if found.complete else None
        told.append((number, found.way is not None, emits, longest))
    return str([line for line in told if line[1] or line[3] is not None])


def said_of(mutant: str, folder: Path) -> str:
    """What the judges say of a mutant."""
    return said_by(MUTANTS[mutant], SCRIPT, mutant, folder)


def said_by(change: tuple[str, str], script: str, mutant: str, folder: Path) -> str:
    old, new = change
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / COMPILED
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{mutant}: the line is not there once"
    file.write_text(text.replace(old, new), encoding="utf-8")
    given = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{ROOT}", "PELLUCID_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", script, mutant], capture_output=True, text=True, env=given, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_lines_are_there() -> None:
    for mutant, (old, _) in {**MUTANTS, "the same": SAME}.items():
        assert (ROOT / COMPILED).read_text(encoding="utf-8").count(old) == 1, mutant


@pytest.mark.parametrize("mutant", CASES)
def test_the_answer_to_a_case_is_right(mutant: str) -> None:
    assert said_of_case(mutant) == ""


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_out(mutant: str, tmp_path: Path) -> None:
    said = said_of(mutant, tmp_path)
    print(f"{mutant}: {said[:100]}")
    assert said != "not caught"


@pytest.mark.long
def test_a_mutant_that_changes_no_answer_about_any_state(tmp_path: Path) -> None:
    """It finds the same, where both come to an end: what is cut short may be so at another place."""
    mine, its = literal_eval(answers()), literal_eval(said_by(SAME, ANSWERS, "", tmp_path))
    known = {line[0]: line for line in its}
    both = [line for line in mine if line[0] in known]
    assert len(both) > 100 and [known[line[0]] for line in both] == both
