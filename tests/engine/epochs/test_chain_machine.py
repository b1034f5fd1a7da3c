"""The meaning of chained runs: pipelines that read one another's epochs ahead of the commit, as a machine.

Every pipeline makes epochs 1, 2, … of rows.  A pipeline without an upstream reads an input that may be another one when
an epoch is made again (it grew, it was cut elsewhere): its rows are any of ``variants``.  The rows of one that reads
others are what it read there.  Durable are staged epochs with what each was made from, and committed ones.

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

``reads`` has for every pipeline those that it reads; none reads itself, also not through others.

``rules`` names faults, each of which breaks something (`tests.engine.epochs.test_chain_machine`).

What is asked of chained runs: nothing committed on what was given up, each epoch once, one history, an end.

>>> {name: verdict.status for name, verdict in chain_keeps(epochs=1, failures=1).items()}
{'no orphan': 'bounded', 'once': 'bounded', 'one history': 'bounded', 'an end': 'bounded'}
>>> orphan = chain_keeps(epochs=1, failures=1, rules=["commit without asking"])["no orphan"].counterexample
>>> orphan.steps, orphan.replay()
(('make 1 at p0 as a', 'make 1 at p1', 'complete 1 at p1', 'commit 1 at p1'), True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from pellucid.internal.model import Verdict, follow
from tests.model.keeps import keeps, planted

Rows = tuple[Any, ...]  # of a source ("a",), else the rows of each upstream
Reads = tuple[tuple[int, ...], ...]  # of each pipeline those that it reads

FAULTS = {
    "commit without asking": "an epoch is committed when it is complete, whatever its upstreams do",
    "asks without comparing": "an epoch is committed when its upstreams have committed that epoch, with whatever rows",
    "dependency forgotten": "after a recovery nobody knows what an epoch was made from",
    "undo forgotten": "an epoch whose upstream has committed other rows stays as it is",
    "reads on": "the next epoch is read although rows that were read before it are not there any more",
    "commit without looking": "a commit does not ask whether the epoch is there",
    "staged is enough": "an epoch is committed when its upstreams have what it read, committed or not",
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
        self, reads: Reads = ((), (0,)), epochs: int = 2, failures: int = 2, variants: str = "ab",
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

    def read(self, p: int, rows: Rows) -> Rows:
        """What an epoch of a pipeline has read, of its rows: those come behind the input of its own."""
        return rows[len(rows) - len(self.reads[p]) :]

    def shown(self, at: At, p: int, number: int) -> Rows:
        """What the upstreams of a pipeline have committed of what an epoch reads; None where one has nothing."""
        return tuple(dict(at.lines[up].committed).get(number) for up in self.reads[p])

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
        found = self._above(at, p, number) if number <= self.epochs else None
        if found is None:
            return
        same = all(self._above(at, p, e.number) == self.read(p, e.rows) for e in line.staged if e.number > line.done)
        if not same and "reads on" not in self.rules:
            return
        own = not self.reads[p]
        mixed = at.mixed or not same
        for variant in self.variants if own else [""]:
            rows = (variant, *found) if own else found
            made = _with(at, p, line._replace(staged=(*line.staged, Epoch(number, rows))))._replace(mixed=mixed)
            yield f"make {number} at p{p}{f' as {variant}' if own else ''}", made

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
        read, shown = self.read(p, epoch.rows), self.shown(at, p, epoch.number)
        if "asks without comparing" in self.rules:
            return None not in shown
        if "staged is enough" in self.rules:
            return self._above(at, p, epoch.number) == read
        return shown == read

    def _undo(self, at: At, p: int) -> Iterator[tuple[str, At]]:
        line = at.lines[p]
        if "undo forgotten" in self.rules:
            return
        for i, epoch in enumerate(line.staged):
            shown, read = self.shown(at, p, epoch.number), self.read(p, epoch.rows)
            other = any(now is not None and now != then for now, then in zip(shown, read, strict=True))
            if epoch.number > line.done and epoch.known and other:
                yield f"undo {epoch.number} at p{p}", _with(at, p, line._replace(staged=line.staged[:i]))
                return

    def _recovered(self, at: At, p: int, anew: bool) -> At:
        line = at.lines[p]
        staged = tuple(e for e in line.staged if e.complete and not (anew and e.number > line.done))
        if "dependency forgotten" in self.rules:
            staged = tuple(e._replace(known=False) for e in staged)
        return _with(at, p, line._replace(staged=staged, alive=True))

    def _above(self, at: At, p: int, number: int) -> Rows | None:
        """What the upstreams of a pipeline have now of what an epoch reads, committed or not; None if one has
        nothing."""
        shown = self.shown(at, p, number)
        found = tuple(
            now if now is not None else at.lines[up].rows(number) for up, now in zip(self.reads[p], shown, strict=True)
        )
        return None if None in found else found


def _with(at: At, p: int, line: Line) -> At:
    return at._replace(lines=(*at.lines[:p], line, *at.lines[p + 1 :]))


SAYS = {
    "no orphan": "whatever is committed was made from what the upstreams have committed",
    "once": "every pipeline commits each epoch once, in order, and leaves none out",
    "one history": "nobody reads on over rows that are not there any more",
    "an end": "from everywhere, without further crashes, all epochs can be committed everywhere",
}


def _no_orphan(machine: Chained, at: At) -> bool:
    return all(
        machine.read(p, rows) == machine.shown(at, p, number)
        for p, line in enumerate(at.lines)
        for number, rows in line.committed
    )


def _once(machine: Chained, at: At) -> bool:
    return all([n for n, _ in line.committed] == list(range(1, len(line.committed) + 1)) for line in at.lines)


_HOLDS: dict[str, Callable[[Chained, At], bool]] = {
    "no orphan": _no_orphan,
    "once": _once,
    "one history": lambda machine, at: not at.mixed,
}


def chain_keeps(
    reads: Reads = ((), (0,)), *, epochs: int = 2, failures: int = 2, variants: str = "ab",
    rules: Iterable[str] = (), states: int = 2_000_000,
) -> dict[str, Verdict]:  # fmt: skip
    """A verdict for each question, of all runs of pipelines that read one another so; ``rules`` plants faults."""
    machine = Chained(reads, epochs, failures, variants, planted(rules, FAULTS))
    return keeps(
        machine,
        SAYS,
        {name: partial(holds, machine) for name, holds in _HOLDS.items()},
        fails=lambda label: label.startswith("crash"),
        states=states,
        bound=f"runs of {len(reads)} pipelines with {epochs} epochs and at most {failures} crashes",
    )


# The machine of chained runs keeps its promises in all runs, and every fault is refuted by a shortest run.

LINE, THREE, FORK, JOIN = ((), (0,)), ((), (0,), (1,)), ((), (0,), (0,)), ((), (), (0, 1))

# Which questions a fault is refuted by, with the length of the shortest run.
REFUTED = {
    "commit without asking": {"no orphan": 4},
    "asks without comparing": {"no orphan": 9},
    "dependency forgotten": {"no orphan": 6},
    "undo forgotten": {"an end": 5},
    "reads on": {"one history": 7},
    "commit without looking": {"once": 4},
    "staged is enough": {"no orphan": 4},
}


@pytest.mark.parametrize(
    ("reads", "epochs", "failures", "variants"),
    [(LINE, 2, 1, "ab"), (LINE, 1, 3, "ab"), (THREE, 1, 2, "ab"), (FORK, 1, 2, "ab"), (JOIN, 1, 1, "ab")],
)
def test_it_keeps_what_it_promises(
    reads: Reads, epochs: int, failures: int, variants: str
) -> None:  # fmt: skip
    verdicts = chain_keeps(reads, epochs=epochs, failures=failures, variants=variants)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.long
@pytest.mark.parametrize(("reads", "failures"), [(LINE, 3), (THREE, 1)])
def test_it_keeps_it_in_longer_runs(reads: Reads, failures: int) -> None:
    verdicts = chain_keeps(reads, epochs=2, failures=failures)
    assert {name: verdict.status for name, verdict in verdicts.items()} == dict.fromkeys(SAYS, "bounded")


@pytest.mark.parametrize(("fault", "broken_by"), REFUTED.items())
def test_a_fault_is_refuted(fault: str, broken_by: dict[str, int]) -> None:
    verdicts = chain_keeps(LINE, epochs=2, failures=1, rules=[fault])
    broken = {name: v.counterexample for name, v in verdicts.items() if v.refuted}
    assert {name: len(run.steps) for name, run in broken.items() if run is not None} == broken_by
    for run in broken.values():
        assert run is not None
        assert run.replay()


def test_every_fault_is_refuted_somewhere() -> None:
    assert set(REFUTED) == set(FAULTS)


def test_what_was_given_up_is_undone_and_made_again() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "complete 1 at p1", "crash p0", "recover p0", "make 1 at p0 as b"]
    path = follow(Chained(epochs=1), [*made, "complete 1 at p0", "commit 1 at p0", "undo 1 at p1", "make 1 at p1"])
    assert path[-1].lines[1].staged[0].rows == (("b",),)


def test_the_same_rows_made_again_are_no_reason_to_undo() -> None:
    made = ["make 1 at p0 as a", "make 1 at p1", "crash p0", "recover p0", "make 1 at p0 as a", "complete 1 at p0"]
    path = follow(Chained(epochs=1), [*made, "commit 1 at p0", "complete 1 at p1", "commit 1 at p1"])
    assert path[-1].lines[1].committed == ((1, (("a",),)),)
