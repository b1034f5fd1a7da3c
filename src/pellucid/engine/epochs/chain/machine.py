"""The meaning of chained runs: pipelines that read one another's epochs ahead of the commit, as a machine.

Every pipeline makes epochs 1, 2, … of rows.  A pipeline without an upstream reads an input that may be another one when
an epoch is made again (it grew, it was cut elsewhere): its rows are any of ``variants``.  The rows of one that reads
others are what it read there.  What lasts: staged epochs with what each was made from, and committed ones.

======================  ==============================================================================================
``make e at p as r``    the rows of an epoch are durable in p's state folder; from now on others may read them
``complete e at p``     the snapshots of all its tasks are durable, too: a crash does not undo it any more
``commit e at p``       it becomes visible: not before every epoch that it read is committed, with the rows that it read
``clear e at p``        what is committed is not staged any more
``undo e at p``         an upstream has committed other rows than those that e was made from: e and all later are undone
``crash p``             p dies; the rows that it had staged lie there until it is back, and can be read
``recover p``           epochs that were not complete are given up
``recover p anew``      and also those that were (lost snapshots, ``--from-start``): only what is committed stays
======================  ==============================================================================================

``reads`` has for every pipeline those that it reads.  Push *i* of a pipeline takes row *i* of each of its inputs; so in
a circle of pipelines nobody can make a first epoch, and that is what the machine shows of one.

``rules`` names faults, each of which breaks something (`pellucid.engine.epochs.chain.question`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Rows = tuple[Any, ...]  # of a source ("a",), else the rows of each upstream

FAULTS = {
    "commit without asking": "an epoch is committed when it is complete, whatever its upstreams do",
    "asks without comparing": "an epoch is committed when its upstreams have committed that epoch, with whatever rows",
    "dependency forgotten": "after a recovery nobody knows what an epoch was made from",
    "undo forgotten": "an epoch whose upstream has committed other rows stays as it is",
    "reads on": "the next epoch is read although rows that were read before it are not there any more",
    "commit without looking": "a commit does not ask whether the epoch is there",
}


class Epoch(NamedTuple):
    """A staged epoch; ``known`` are the rows that it was made from, as far as anybody remembers."""

    number: int
    rows: Rows
    known: bool = True
    complete: bool = False


class Line(NamedTuple):
    """A pipeline."""

    staged: tuple[Epoch, ...] = ()
    committed: tuple[tuple[int, Rows], ...] = ()
    alive: bool = True

    @property
    def done(self) -> int:
        return self.committed[-1][0] if self.committed else 0

    @property
    def last(self) -> int:
        return self.staged[-1].number if self.staged else self.done

    def rows(self, number: int) -> Rows | None:
        """What is in its folder of an epoch; None if nothing is."""
        found = [rows for n, rows in self.committed if n == number]
        found += [epoch.rows for epoch in self.staged if epoch.number == number]
        return found[0] if found else None


class At(NamedTuple):
    """A state of the whole."""

    lines: tuple[Line, ...]
    failures: int = 0
    mixed: bool = False  # somebody has read on over rows that are not there any more


class Chained:
    """The machine; by default two pipelines, of which the second reads the first."""

    def __init__(
        self, reads: tuple[tuple[int, ...], ...] = ((), (0,)), epochs: int = 2, failures: int = 2, variants: str = "ab",
        rules: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.reads, self.epochs, self.failures, self.variants = reads, epochs, failures, variants
        self.rules = frozenset(rules)

    def start(self) -> At:
        return At(tuple(Line() for _ in self.reads))

    def complete(self, at: At) -> bool:
        return all(line.done == self.epochs and not line.staged for line in at.lines)

    def see(self, at: At) -> Any:
        return {f"p{p}": line.committed for p, line in enumerate(at.lines)}

    # ------------------------------------------------------------ steps

    def steps(self, at: At, *, failures: bool = True) -> Iterator[tuple[str, At]]:
        for p, line in enumerate(at.lines):
            if line.alive:
                yield from self._make(at, p)
                yield from self._settle(at, p)
                yield from self._undo(at, p)
                if failures and at.failures < self.failures:
                    yield f"crash p{p}", _with(at, p, line._replace(alive=False))._replace(failures=at.failures + 1)
            else:
                for anew in (False, True):
                    yield f"recover p{p}{' anew' if anew else ''}", self._recovered(at, p, anew)

    def _make(self, at: At, p: int) -> Iterator[tuple[str, At]]:
        line, number = at.lines[p], at.lines[p].last + 1
        if number > self.epochs:
            return
        if not self.reads[p]:
            for variant in self.variants:
                made = _with(at, p, line._replace(staged=(*line.staged, Epoch(number, (variant,)))))
                yield f"make {number} at p{p} as {variant}", made
            return
        found = self._above(at, p, number)
        if found is None:
            return
        same = all(self._above(at, p, e.number) == e.rows for e in line.staged if e.number > line.done)
        if same or "reads on" in self.rules:
            made = _with(at, p, line._replace(staged=(*line.staged, Epoch(number, found))))
            yield f"make {number} at p{p}", made._replace(mixed=at.mixed or not same)

    def _settle(self, at: At, p: int) -> Iterator[tuple[str, At]]:
        line = at.lines[p]
        for i, epoch in enumerate(line.staged):
            if not epoch.complete:
                staged = (*line.staged[:i], epoch._replace(complete=True), *line.staged[i + 1 :])
                yield f"complete {epoch.number} at p{p}", _with(at, p, line._replace(staged=staged))
                break  # snapshots become durable in order
        if not line.staged:
            return
        first = line.staged[0]
        there = first.number <= line.done
        if there:
            yield f"clear {first.number} at p{p}", _with(at, p, line._replace(staged=line.staged[1:]))
        again = there and "commit without looking" in self.rules and len(line.committed) <= self.epochs
        if first.complete and (not there or again) and self._may_commit(at, p, first):
            committed = (*line.committed, (first.number, first.rows))
            yield f"commit {first.number} at p{p}", _with(at, p, line._replace(committed=committed))

    def _may_commit(self, at: At, p: int, epoch: Epoch) -> bool:
        if "commit without asking" in self.rules or not epoch.known:
            return True
        shown = [dict(at.lines[up].committed).get(epoch.number) for up in self.reads[p]]
        if "asks without comparing" in self.rules:
            return None not in shown
        return not shown or tuple(shown) == epoch.rows

    def _undo(self, at: At, p: int) -> Iterator[tuple[str, At]]:
        line = at.lines[p]
        if "undo forgotten" in self.rules:
            return
        for i, epoch in enumerate(line.staged):
            shown = [dict(at.lines[up].committed).get(epoch.number) for up in self.reads[p]]
            other = any(now is not None and now != then for now, then in zip(shown, epoch.rows, strict=False))
            if epoch.number > line.done and epoch.known and shown and other:
                yield f"undo {epoch.number} at p{p}", _with(at, p, line._replace(staged=line.staged[:i]))
                return

    def _recovered(self, at: At, p: int, anew: bool) -> At:
        line = at.lines[p]
        staged = tuple(e for e in line.staged if e.complete and not (anew and e.number > line.done))
        if "dependency forgotten" in self.rules:
            staged = tuple(e._replace(known=False) for e in staged)
        return _with(at, p, line._replace(staged=staged, alive=True))

    def _above(self, at: At, p: int, number: int) -> Rows | None:
        """What the upstreams of a pipeline have of an epoch now, committed or not; None if one has nothing."""
        found = tuple(at.lines[up].rows(number) for up in self.reads[p])
        return None if None in found else found


def _with(at: At, p: int, line: Line) -> At:
    return at._replace(lines=(*at.lines[:p], line, *at.lines[p + 1 :]))
