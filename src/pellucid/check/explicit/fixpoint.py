"""CTL on an explored space, by fixpoints over arrays.

A point of the Kripke structure is a state together with the push that leaves it, since that is where streams are seen;
it is one cell of a Boolean array over states and choices.  After the push ``c`` in the state ``s`` every choice is
possible in the state ``successor[s, c]``.
"""

from __future__ import annotations

from typing import Any

from pellucid.check.explicit.search import Space


def ex(space: Space, p: Any) -> Any:
    """EX p: some next point satisfies p."""
    return p.any(axis=1)[space.successor]


def eu(space: Space, p: Any, q: Any) -> Any:
    """E [p U q]: the least fixpoint of q or (p and EX)."""
    found = q.copy()
    while True:
        more = found | (p & ex(space, found))
        if (more == found).all():
            return found
        found = more


def eg(space: Space, p: Any) -> Any:
    """EG p: the greatest fixpoint of p and EX."""
    found = p.copy()
    while True:
        less = found & ex(space, found)
        if (less == found).all():
            return found
        found = less
