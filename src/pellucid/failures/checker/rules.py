# ruff: noqa: N806 - the paper's letters
"""Sets of rules: the paper's, and room for others that differ in one place.

A set of rules R says three things about configurations: which failure-free steps there are (R \\ F), what a failure
leaves, and where a recovery leads.  Here they are the literal functions of `pellucid.failures.model`; a variant
(`pellucid.failures.checker.variants`, `unaligned`) overrides one of them.  Whatever explores (fast or literally),
replays or tells a trace asks these, so a variant is written once.

Three promises let a search do less: ``settled`` says when nobody else can add or take away a step of a task, so that it
commutes with what others do (Lemma 6.5); ``held_up``, that gce cannot pass a task's border before it is taken, even if
the task is left out of it; ``paper_recovery``, a recovery leads to `lcs` of the paper, which does not look at volatile
states.  Who changes a rule in a subclass makes them anew, or they are not made.
"""

from __future__ import annotations

import dataclasses

from pellucid.failures.model import Configuration, Message, TraceStep, f_fail, f_recover, s_step, steps
from pellucid.failures.model.syntax import BD


def _not_promised(self: Rules, c: Configuration, p: str) -> bool:
    return False


class Rules:
    """The paper's rules I (Definition 6.6).

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> [str(label) for label, _ in Rules().steps(c)]
    ['I-EVENT t  -i ⟨1, EV(1)⟩  +o ⟨1, EV(1)⟩']
    """

    name = "aligned"
    wrong = ""  # of a mutant: what is wrong with it, in words
    paper_recovery = True

    def __init_subclass__(cls) -> None:
        """A promise is about the rules of the class that makes it: one that changes a rule makes its promises itself,
        or none."""
        super().__init_subclass__()
        own = vars(cls)
        if not {"start", "steps", "fail", "recover"} & own.keys():
            return
        if "recover" in own and "paper_recovery" not in own:
            cls.paper_recovery = False
        for promise in ("settled", "held_up"):
            if promise not in own:
                setattr(cls, promise, _not_promised)

    def start(self, c: Configuration) -> Configuration:
        """The initial configuration as these rules need it."""
        return c

    def steps(self, c: Configuration) -> list[tuple[TraceStep, Configuration]]:
        """The failure-free steps, I \\ F.  Each depends only on one task and the messages on its streams."""
        return steps(c, failures=False)

    def settled(self, c: Configuration, p: str) -> bool:
        """Whether no step of another task can change which steps p has: every input has its next message."""
        at = {(m.s, m.n) for m in c.M}
        return all((s, c.N[p][s]) in at for s in c.Pi[p].inputs)

    def held_up(self, c: Configuration, p: str) -> bool:
        """Whether some other task cannot finish an epoch before p has: one that reads from p."""
        return any(c.Pi[p].output in task.inputs for task in c.Pi.values())

    def fail(self, c: Configuration, p: str) -> Configuration:
        """F-FAIL in the whole."""
        after = s_step(c, p, f_fail(c.Pi[p], c.Sigma[p]))
        assert after is not None
        return after

    def recover(self, c: Configuration) -> Configuration | None:
        """F-RECOVER; None where no task has failed."""
        return f_recover(c)


class NotReplayable(Rules):
    """A source that cannot be replayed: an event that was read before the recovery is gone; borders are made anew.

    A socket, a queue that forgets.  The events that are left move up, so that numbers stay without gaps.
    """

    paper_recovery = False

    def __init__(self, base: Rules) -> None:
        self.base = base
        self.name = f"{base.name}, source not replayable"
        self.wrong = "what a source gave before the crash is gone"

    def start(self, c: Configuration) -> Configuration:
        return self.base.start(c)

    def steps(self, c: Configuration) -> list[tuple[TraceStep, Configuration]]:
        return self.base.steps(c)

    def settled(self, c: Configuration, p: str) -> bool:
        return self.base.settled(c, p)

    def held_up(self, c: Configuration, p: str) -> bool:
        return self.base.held_up(c, p)

    def recover(self, c: Configuration) -> Configuration | None:
        after = self.base.recover(c)
        if after is None:
            return None
        left: set[Message] = set()
        for s in input_streams(c):
            read = max((Np[s] for Np in c.N.values() if s in Np), default=0)
            kept = max((Np[s] for Np in after.N.values() if s in Np), default=0)
            stay = [m for m in sorted(c.D, key=lambda m: m.n) if m.s == s and (m.d is BD or m.n < kept or m.n >= read)]
            left |= {Message(n, s, m.e, m.d) for n, m in enumerate(stay)}
        D = frozenset(left)
        return dataclasses.replace(after, M=(after.M - c.D) | D, D=D)


def input_streams(c: Configuration) -> tuple[str, ...]:
    """The streams that nobody produces, in the order in which they are read; last, those that nobody reads."""
    made = {task.output for task in c.Pi.values()}
    read = [s for task in c.Pi.values() for s in task.inputs if s not in made]
    return tuple(dict.fromkeys([*read, *sorted({m.s for m in c.D})]))


def sink_streams(c: Configuration) -> tuple[str, ...]:
    """The streams that nobody reads: what the outside gets."""
    read = {s for task in c.Pi.values() for s in task.inputs}
    return tuple(task.output for task in c.Pi.values() if task.output not in read)
