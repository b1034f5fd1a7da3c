"""Judging case after case for so many minutes."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable


def hunt(one: Callable[[int, Counter[str]], str]) -> None:
    """``--minutes N --seed S``: judge seeds from S on; print what is wrong, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=10**9)
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    told: Counter[str] = Counter()
    seed, wrong = asked.seed, 0
    while time.monotonic() < end and seed < asked.seed + asked.most:
        before = time.monotonic()
        said = one(seed, told)
        if said:
            wrong += 1
            print(f"seed {seed}: {said}", flush=True)
        if time.monotonic() - before > 10:
            print(f"seed {seed} took {time.monotonic() - before:.0f} s", flush=True)
        seed += 1
    print(f"{seed - asked.seed} seeds from {asked.seed}, {wrong} wrong: {dict(sorted(told.items()))}")
    sys.exit(1 if wrong else 0)
