"""What every run of a small protocol keeps, of machines that are made for it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.keeps import keeps

SAYS = {"small": "it never has five", "an end": "three can be reached from everywhere"}


class Counting:
    """Counts up; a crash leads to five, from which nothing leads on if ``trap``, else to three."""

    def __init__(self, trap: bool) -> None:
        self.trap = trap

    def start(self) -> int:
        return 0

    def complete(self, at: int) -> bool:
        return at == 3

    def steps(self, at: int) -> Iterator[tuple[str, int]]:
        if at < 3:
            yield "up", at + 1
        if at == 2:
            yield "crash", 5
        if at == 5 and not self.trap:
            yield "home", 3


def ask(trap: bool, *, fails: str = "crash", states: int = 100, counts: int = 9, bound: str = "") -> dict[str, str]:
    found = keeps(
        Counting(trap), SAYS, {"small": lambda at: at != 5}, fails=lambda label: label == fails, states=states,
        counts=lambda at: at < counts, bound=bound,
    )  # fmt: skip
    return {name: verdict.status for name, verdict in found.items()}


def test_what_is_broken_has_a_shortest_run() -> None:
    found = keeps(Counting(True), SAYS, {"small": lambda at: at != 5}, fails=lambda label: label == "crash", states=100)
    assert found["small"].counterexample is not None and found["an end"].counterexample is not None
    assert found["small"].counterexample.steps == ("up", "up", "crash") == found["an end"].counterexample.steps


def test_an_end_from_everywhere_without_further_failures() -> None:
    assert ask(trap=True) == {"small": "refuted", "an end": "refuted"}
    assert ask(trap=False) == {"small": "refuted", "an end": "proved"}
    assert ask(trap=False, bound="runs of 3") == {"small": "refuted", "an end": "bounded"}  # never a proof
    assert ask(trap=False, fails="home")["an end"] == "refuted"  # a way that is a failure leads to no end


def test_states_that_need_no_end_and_a_search_that_is_cut_short() -> None:
    assert ask(trap=True, counts=5)["an end"] == "proved"
    assert ask(trap=True, states=2) == {"small": "unknown", "an end": "unknown"}
