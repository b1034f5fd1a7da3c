"""A proof is tried: random runs of the literal interpreter, and the system beside it, must do what the proof says.

In every push of every run: the streams of the system carry what the interpreter's carry; its state is the one that is
read off the interpreter; the invariant holds in it; and nothing bad happens.  So an operation, a queue or a window that
is encoded wrongly, and a solver or a search that is wrong, is noticed where a short run shows it.  Trying proves
nothing; it can only take a proof away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.check.belief.literal import LiteralRun, is_absent, same, state_readers
from pellucid.check.belief.pushes import DrawnPushes
from pellucid.check.belief.straight import straight
from pellucid.check.system.build import System
from pellucid.errors import DataError, IntOverflow, StepError
from pellucid.internal.expr.node import Expr
from pellucid.internal.expr.operations import Overflow64
from pellucid.internal.model.budget import now

_FEWEST, _MOST = 40, 4000  # runs: however little time there is, and however much
_HUGE = 2**512


@dataclass
class Trial:
    """What was tried, and what went wrong, in words; ``seen`` says of each question whether it held in some push."""

    runs: int = 0
    pushes: int = 0
    beside: bool = False  # an interpreter ran beside the system
    problem: str = ""
    seen: list[bool] = field(default_factory=list)
    # some values of state and input, with the state after
    points: list[tuple[list[Any], tuple[Any, ...]]] = field(default_factory=list)

    def __str__(self) -> str:
        where = "of the interpreter" if self.beside else "of the system"
        return f"tried on {self.runs:,} runs {where} ({self.pushes:,} pushes)"


def budget(spent: float, left: float | None = None, *, least: float = 0.03) -> float:
    """How long a proof is tried that took so many seconds: about half as long, and never long.

    >>> budget(0.0), budget(1.0), budget(100.0), budget(1.0, left=0.01)
    (0.03, 0.5, 1.0, 0.03)
    """
    share = min(1.0, max(least, 0.5 * spent))
    return share if left is None else max(least, min(share, left))


def try_out(
    system: System,
    bad: Expr | None = None,
    invariant: Sequence[Expr] = (),
    *,
    seconds: float = 0.1,
    questions: Sequence[Expr] = (),
    follow: Callable[[list[Any], tuple[Any, ...], tuple[Any, ...]], str] | None = None,
    observed: Sequence[Expr] = (),
    most: int = _MOST,
) -> Trial:
    """Run a system beside the interpreter of its pipeline for so many seconds, and look at every push.

    ``follow`` is told of each push: the values of state and input, the state after, the values of ``observed``; it
    returns what is wrong. ``questions`` are things that may hold; whether they ever do is in ``Trial.seen``.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.system.build import build_system
    >>> from pellucid.internal.expr import node as n
    >>> s = build_system(pipeline(lambda x: x.cumulate(lambda t, v: t + v, 0), x=int).graph, domain_of(range(3)))
    >>> total = n.var(1, s.state[1].type)
    >>> try_out(s, n.lt(total, n.const(0))).problem
    ''
    >>> try_out(s, n.lt(n.const(3), total)).problem
    'what cannot happen happens on ...x = 2; x = 1'
    """
    return _Runs(system, bad, invariant, questions, follow, observed).go(seconds, most)


class _Runs:
    def __init__(
        self,
        system: System,
        bad: Expr | None,
        invariant: Sequence[Expr],
        questions: Sequence[Expr],
        follow: Callable[[list[Any], tuple[Any, ...], tuple[Any, ...]], str] | None,
        observed: Sequence[Expr],
    ) -> None:
        self.system, self.follow = system, follow
        self.beside = system.graph is not None and system.domain.modulus is None
        own = (
            {*system.graph.position, *(name for name, _ in system.graph.outputs)} if system.graph is not None else set()
        )
        self.streams = [(name, of) for name, of in system.streams.items() if name in own] if self.beside else []
        parts: list[list[Expr]] = [
            list(system.next), list(invariant), [bad] if bad is not None else [], list(questions), list(observed),
            [system.assume, system.overflow, system.failed, system.partial],
            [e for _, (_, slots) in self.streams for s in slots for e in (s.present, *s.leaves)],
        ]  # fmt: skip
        self.compute = straight([e for part in parts for e in part])
        ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        self.cuts = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        self.readers = state_readers(system) if self.beside else []
        self.pushes = DrawnPushes(system, [*invariant, *([bad] if bad is not None else []), *questions, *observed])
        self.others_come = system.keys is not None and system.keys.chosen
        self.trial = Trial(beside=self.beside, seen=[False] * len(questions))

    def go(self, seconds: float, most: int) -> Trial:
        end, trial = now() + seconds, self.trial
        while trial.runs < most and (trial.runs < _FEWEST or now() < end):
            if now() > end + max(0.5, 2 * seconds):
                break
            trial.runs += 1
            trail: list[dict[str, Any]] = []
            wrong = self._run(trail)
            if wrong:
                shown = "; ".join(
                    ", ".join(f"{name} = {value!r}" for name, value in push.items()) or "silence"
                    for push in trail[-12:]
                )
                trial.problem = f"{wrong} on {'… ' if len(trail) > 12 else ''}{shown}"
                break
        return trial

    def _run(self, trail: list[dict[str, Any]]) -> str:
        system, trial = self.system, self.trial
        state: list[Any] = [v.start for v in system.state]
        literal = LiteralRun(system.graph) if self.beside and system.graph is not None else None
        try:
            for push in system.lead if literal is not None else ():
                literal.observe(push)  # type: ignore[union-attr]
        except (StepError, DataError):  # it leads to a failure: from there on the interpreter does nothing more
            literal = None
        for _ in range(self.pushes.begin()):
            drawn = self._allowed(state)
            if drawn is None:
                return ""
            push, leaves, (after, facts, bad, asked, observed, (_, overflow, failed, partial), carried) = drawn
            trail.append(push)
            trial.pushes += 1
            if len(trial.points) < 64:
                trial.points.append((leaves, after))
            if not all(facts):
                return "the invariant does not hold"
            if any(bad):
                return "what cannot happen happens"
            for i, yes in enumerate(asked):
                trial.seen[i] = trial.seen[i] or bool(yes)
            wrong = self.follow(leaves, after, observed) if self.follow is not None else ""
            if not wrong and literal is not None:
                wrong = self._compare(
                    literal, push, after, bool(overflow), bool(failed), carried, partial=bool(partial)
                )
            if wrong:
                return "" if wrong == ENDS else wrong
            if overflow or failed:  # it stays as it is
                literal = None
            state = list(after)
            if any(isinstance(v, int) and abs(v) > _HUGE for v in state):
                return ""
        return ""

    def _allowed(self, state: list[Any]) -> Any:
        """A push that the assumption lets through; None: none was found, or a number got too large to go on."""
        for _ in range(20):
            push, inputs = self.pushes.draw()
            leaves = [*state, *inputs]
            try:
                values = self.compute(leaves)
            except Overflow64:
                return None
            found = [values[cut] for cut in self.cuts]
            # a run with more keys than are tracked is none of this system's
            if found[5][0] and (not found[5][3] or self.others_come):
                return push, leaves, found
        return None

    def _compare(
        self,
        literal: LiteralRun,
        push: dict[str, Any],
        after: tuple[Any, ...],
        overflow: bool,
        failed: bool,
        carried: tuple[Any, ...],
        *,
        partial: bool = False,
    ) -> str:
        """The interpreter does the same: what is different, or `ENDS` where it has no way on."""
        knows_failures = self.system.failed.op != "const"
        try:
            streams = literal.observe(push)
        except IntOverflow:
            if self.system.strict and knows_failures and not failed and not partial:
                return "the interpreter fails with an overflow and the system does not"
            return "" if failed else ENDS
        except DataError:
            return ENDS
        except StepError:
            if knows_failures and not failed and not partial:
                return "the interpreter fails and the system does not"
            return ENDS
        if failed:
            return "the system fails and the interpreter does not"
        if overflow:
            return ""
        at = 0
        for name, (t, slots) in () if partial else self.streams:
            made: list[tuple[Any, ...]] = []
            for s in slots:
                if carried[at]:
                    made.append(carried[at + 1 : at + 1 + len(s.leaves)])
                at += 1 + len(s.leaves)
            expected = [t.flatten(event) for event in streams[name]]
            if len(made) != len(expected) or not all(map(same, made, expected)):
                return (
                    f"{name} carries {streams[name]} in the interpreter and {[t.unflatten(x) for x in made]} in the "
                    "system"
                )
        for i, v, reader in self.readers:
            there = reader(literal)
            if not is_absent(there) and not same((there,), (after[i],)):
                return f"{v.name} is {there!r} in the interpreter and {after[i]!r} in the system"
        return ""


ENDS = "the run ends here"
