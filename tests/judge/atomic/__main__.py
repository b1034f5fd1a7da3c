"""``python -m tests.judge.atomic --minutes N --seed S``: networks from seed S on, under rules drawn for each."""

from __future__ import annotations

import random
from collections import Counter

from tests.judge.atomic.draw import confused, network
from tests.judge.atomic.held import all_of, lemma, type_differences
from tests.judge.atomic.meaning import EQUIVALENT, VARIANTS
from tests.judge.atomic.terms import network_text
from tests.judge.atomic.types import printed, spoiled
from tests.judge.capacity.loop import hunt

RULES = (*VARIANTS, "drop_dead_messages")


def judged(seed: int, told: Counter[str]) -> str:
    """What differs for a seed: a network, and the same one with something changed in it."""
    chance = random.Random(seed)
    drawn = network(seed)
    rules = (
        "corrected",
        chance.choice(["cascade", "crash", "printed"]),
        chance.choice(RULES),
        chance.choice(EQUIVALENT),
    )
    found = list(all_of(drawn, seed, tuple(dict.fromkeys(rules)), told))
    for other in (spoiled(drawn, chance), spoiled(spoiled(drawn, chance), chance)):
        found += type_differences(other)
        found += type_differences(printed(other), "printed")
        found += lemma(printed(other), told)
    found += lemma(printed(confused(seed)), told)
    return f"{network_text(drawn)}\n  " + "\n  ".join(found) if found else ""


if __name__ == "__main__":
    hunt(judged)
