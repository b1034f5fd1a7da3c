"""Fewer interleavings, the same answer (partial-order reduction), and why.

**Crashes.**  F-FAIL of p disables p and changes nothing else, so it commutes with the steps of other tasks; nothing is
seen of it.  So it may be put off until just before the F-RECOVER that follows (one that is never followed by a recovery
may be left out: the rest of the execution is possible without it).  `lcs` does not look at volatile states, so it does
not matter who failed.  Hence one move, *crash and recover*, is enough: no situation with a failed task is ever built.

**Steps.**  In a situation choose, if there is one, a task p whose possible steps are all there, so that no other task
can add one or take one away (`Rules.settled`; in the paper's rules: every input of p has its next message), and

* all of p's steps are events that cannot change what is seen; or
* its step is a border, another task has no newer snapshot than p, so gce stays where it is, and either only what is
  committed is seen, or some task cannot finish the epoch before p has (`Rules.held_up`: it reads from p);

and follow only p.  Others' steps commute with p's (Lemma 6.5).  What is seen does not change with p's step.  A recovery
from before p's step leads to the same configuration as one from after it, because `lcs` keeps only archives and
messages up to gce, and p's step added nothing there; so no crash is lost by stepping first.

A border of p may be the one that raises gce if it comes last; taken early, the last of the other tasks raises it
instead. Then a crash between that one's border and p's goes back one epoch less.  With `out` nothing is lost: all that
was done in between is not seen and is undone, so the crash may as well come before it.  But a durable sink keeps what
it was given in between, in an epoch that p's late border would have had repeated; so there gce must not be able to pass
p's border, and a task that waits for it sees to that: gce is at most that task's newest snapshot, with and without p's.
 Situations never repeat without a crash, as sequence numbers grow, so no step is put off for ever.

Both need the paper's recovery and an observation that looks at messages or sinks.  The tests compare
verdicts with and without on random graphs.
"""

from __future__ import annotations

from pellucid.failures.checker.search.packed import BITS, Moves, Packed
from pellucid.failures.checker.sinks import Own

_LOW = (1 << BITS) - 1


def can_reduce_crashes(packed: Packed) -> bool:
    """Whether *crash and recover* may be one move."""
    return packed.system.rules.paper_recovery and not isinstance(packed.system.observation, Own)


def can_reduce(packed: Packed) -> bool:
    """Whether one task may be followed alone."""
    return can_reduce_crashes(packed)  # and then only tasks that are `settled`


def ample(packed: Packed, x: int, all_moves: list[Moves]) -> Moves | None:
    """The moves of a task that may be followed alone; None if there is no such task."""
    for moves in all_moves:
        if moves.ample == 1:
            return moves
    for i, moves in enumerate(all_moves):
        if moves.ample == 2:
            mine = packed.newest[i][x >> BITS * i & _LOW]
            if any(i != j and newest[x >> BITS * j & _LOW] <= mine for j, newest in enumerate(packed.newest)):
                return moves
    return None
