"""Every graph of a family: one node in a loop with a buffer, two times, all that it may do about each event."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from pellucid.internal.model import Budget
from pellucid.progress.could_result_in import exact
from pellucid.progress.graph import Graph, Message, Node, buffer
from pellucid.progress.question import condition_1, condition_2, decide, no_time_passes
from pellucid.progress.semantics import Semantics
from tests.progress.models import OneStepClock, WithoutTest, WithoutTestOneStep

TIMES = (0, 1)
WHAT = (None, *TIMES)  # nothing, or a time
EDGES = {"i": (None, "p"), "e": ("p", "q"), "f": ("q", "p"), "o": ("p", None)}
SMALL = Budget(None, 60)  # where a message goes round for ever, what comes out grows without end
MACHINES = {
    ("closure", True): Semantics, ("closure", False): WithoutTest, ("image", True): OneStepClock,
    ("image", False): WithoutTestOneStep,
}  # fmt: skip
ALL = list(product(product(product(WHAT, WHAT, WHAT), repeat=2), product(WHAT, repeat=2)))


def made(does: Any, told: Any) -> Graph:
    """On a message: what it sends round, what it sends out, what it asks for, by the message's time; on a notification:
    what it sends out."""

    def sent(**edges: Any) -> Any:
        return {edge: [Message(t)] for edge, t in edges.items() if t is not None}

    def on_message(s: Any, edge: str, m: Message) -> Any:
        round_, out, asks = does[m.time]
        return s, [] if asks is None else [asks], sent(e=round_, o=out)

    node = Node(on_message, lambda s, t: (s, [], sent(o=told[t])))
    return Graph({"p": node, "q": buffer("f")}, EDGES, times=TIMES)


def judge(does: Any, told: Any, found: Counter[Any]) -> None:
    """What the theorems say, in both directions where they have two."""
    graph = made(does, told)
    relation = exact(graph)
    one, two = condition_1(graph) is None, condition_2(relation) is None
    assert one == all(asks is None or t <= asks for t, (_, _, asks) in zip(TIMES, does, strict=True))
    assert two == all(back is None or t <= back for t, (back, _, _) in zip(TIMES, does, strict=True))
    assert two == (relation.not_transitive() is None)  # Theorem 1
    stands = any(back is not None and back <= t for t, (back, _, _) in zip(TIMES, does, strict=True))
    assert stands == (no_time_passes(relation) is not None)
    for clock in ("closure", "image"):
        for test in (True, False):
            machine = MACHINES[clock, test](graph, relation, take=False)
            for name in ("proposition 8", "theorem 2", "completeness"):
                status = decide(machine, name, SMALL).status
                found[name, clock, test, one, two, status] += 1
                if one and (clock == "closure" or two) and (test or name != "completeness"):
                    assert status != "refuted", (does, told, clock, test, name)


def test_some_of_the_family() -> None:
    found: Counter[Any] = Counter()
    for does, told in ALL[::101]:
        judge(does, told, found)
    assert found["theorem 2", "closure", True, True, False, "bounded"] > 0


@pytest.mark.long
def test_all_of_the_family() -> None:
    found: Counter[Any] = Counter()
    for does, told in ALL:
        judge(does, told, found)
    refuted = {key[:-1] for key in found if key[-1] == "refuted"}
    assert ("theorem 2", "closure", True, False, True) in refuted  # Condition 1 is needed
    assert ("theorem 2", "closure", True, True, False) not in refuted  # Condition 2 is not
    assert ("theorem 2", "image", True, True, False) in refuted  # but with the one-step image it is
    assert ("completeness", "closure", False, True, True) in refuted  # and completeness needs the test of the clock
