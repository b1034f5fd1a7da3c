"""Where chance in the tests comes from, so that every run is the same run, and a hunt is another one each time.

Random tests are of two kinds.  Those of Hypothesis take their examples from a **profile**: the one that is loaded here
for all of them.  The others draw from a generator whose seeds come from `seeds`.  In every run the seeds are fixed, and
nothing is remembered from one run to the next.  In a hunt (``make hunt``) the environment names a seed, and the same
tests draw from that instead.

>>> list(seeds(3)), list(seeds(2, 1000))
([0, 1, 2], [1000, 1001])
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine, providers

__all__ = ["HUNT", "OF_SPEED", "SHRINK", "load_profile", "seeds"]

HUNT = os.environ.get("PELLUCID_HUNT")  # the seed of a hunt
SHRINK = 30  # seconds, at most, to make an example that fails a smaller one
_APART = 1_000_000  # more than any test uses: two hunts of different seeds have no seed of a test in common

# What these say of a test is its speed on the machine of today, or how its examples are drawn: neither is a reason to
# fail.
OF_SPEED = [
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
]


def seeds(count: int, first: int = 0) -> range:
    """Seeds for a random test: the same ones in every run, others in a hunt."""
    start = first if HUNT is None else first + int(HUNT) * _APART
    return range(start, start + count)


def load_profile() -> None:
    """For all tests of Hypothesis; to be called before any of them is read."""
    settings.register_profile(
        "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=OF_SPEED, print_blob=True
    )
    settings.register_profile(
        "hunt", derandomize=False, database=None, deadline=None, suppress_health_check=OF_SPEED, print_blob=True
    )
    settings.load_profile("fixed" if HUNT is None else "hunt")
    engine.MAX_SHRINKING_SECONDS = SHRINK
    # Hypothesis mixes in constants of the modules that happen to be loaded: what a test draws would depend on the tests
    # before it.
    providers._get_local_constants = lambda: providers._local_constants
