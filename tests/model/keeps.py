"""What every run of a small protocol keeps: all its states are looked at, and an end can be reached from each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pellucid.errors import UsageError, nearest
from pellucid.internal.model.counterexample import Run
from pellucid.internal.model.search import Budget, CutShort, Search
from pellucid.internal.model.verdict import Status, Verdict

END = "an end"  # the question that is asked of all states at once


def planted(rules: Iterable[str], faults: Collection[str]) -> tuple[str, ...]:
    """The faults to be planted, each of which must be known.

    >>> planted(["forgets"], ["forgets", "doubles"])
    ('forgets',)
    >>> planted(["forget"], ["forgets", "doubles"])
    Traceback (most recent call last):
    pellucid.errors.UsageError: rules: no fault is called 'forget'; did you mean 'forgets'?
    """
    rules = tuple(rules)
    for rule in rules:
        if rule not in faults:
            raise UsageError(f"rules: no fault is called {rule!r}{nearest(rule, list(faults))}")
    return rules


def keeps(
    machine: Any,
    says: Mapping[str, str],
    holds: Mapping[str, Callable[[Any], bool]],
    *,
    fails: Callable[[str], bool],
    states: int,
    counts: Callable[[Any], bool] = lambda at: True,
    bound: str = "",
) -> dict[str, Verdict]:
    """A verdict for each question of ``says``, of all runs of a machine: ``holds`` is asked of each state, and `END` is
    that a complete state can be reached from everywhere by steps that are no failures (``fails``, by their labels).
    States of which ``counts`` says no need no end, as where the bound of the model has cut them off.  ``bound`` says
    what the machine's runs are bounded by: then what all of them keep is bounded, and not proved.
    """
    began = time.monotonic()
    search: Search[Any, str] = Search([machine.start()], machine.steps, Budget(None, states))
    broken: dict[str, Any] = {}
    before: dict[Any, list[Any]] = {}
    ends, cut = [], ""
    try:
        for at, after in search:
            for name, hold in holds.items():
                if name not in broken and not hold(at):
                    broken[name] = at
            if machine.complete(at):
                ends.append(at)
            for label, then in after:
                if not fails(label):
                    before.setdefault(then, []).append(at)
    except CutShort as error:
        cut = str(error)
    if not cut:
        good = _leading(ends, before)
        stuck = next((at for at in search.parents if at not in good and counts(at)), None)
        if stuck is not None:
            broken[END] = stuck
    seconds = time.monotonic() - began
    made = {}
    for name, said in says.items():
        end = broken.get(name)
        if end is None and cut:
            made[name] = Verdict("unknown", said, "explicit", seconds, notes=(cut,))
            continue
        run = None if end is None else Run((), tuple(search.way(end)), None, f"not so: {said}", machine)
        details = {"states": len(search.parents)}
        status: Status = "refuted" if end is not None else "bounded" if bound else "proved"
        shown = bound if status == "bounded" else ""
        made[name] = Verdict(status, said, "explicit", seconds, run, details=details, bound=shown)
    return made


def _leading(ends: list[Any], before: Mapping[Any, list[Any]]) -> set[Any]:
    """The states from which one of these can be reached."""
    good, waiting = set(ends), list(ends)
    for at in waiting:
        for earlier in before.get(at, ()):
            if earlier not in good:
                good.add(earlier)
                waiting.append(earlier)
    return good
