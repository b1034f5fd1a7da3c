"""``check.atomic``: does a network keep atomic failure, and can each of its transactions always be decided?

Parts, each with a verdict of its own: A1 to A3, C1 and C2 (causal consistency is both), subject reduction (*types*),
one place per transaction (*place*), and for every transaction its *progress*, with the reason why it sticks.  Progress
is a question about a network; the others hold for every network under the corrected rules, and fall for mutants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pellucid.atomic import syntax as s
from pellucid.atomic.explore import Explored, explore
from pellucid.atomic.layout import missing_places, nowhere
from pellucid.atomic.machine import Atomic
from pellucid.atomic.properties import SAYS
from pellucid.atomic.rules import EQUIVALENT, WHY_EQUIVALENT, Rules
from pellucid.atomic.running import NetworkRun, network_of
from pellucid.atomic.state import State
from pellucid.atomic.sticking import hopeless, why_stuck
from pellucid.atomic.typing import System
from pellucid.errors import UsageError, nearest
from pellucid.internal.model import Budget, Verdict, combined, now

USUAL = ("A1", "A2", "A3", "C1", "C2", "types", "place", "progress")
ALL = (*USUAL, "F0", "F1")
_MOST = 8  # warnings


@dataclass(frozen=True)
class AtomicVerdict(Verdict):
    """The verdict of `check.atomic`; ``parts`` are those of its questions."""

    parts: Mapping[str, Verdict] = field(default_factory=dict)


def atomic(
    network: s.Network | str,
    *,
    about: str | Sequence[str] = USUAL,
    rules: str | Rules = "corrected",
    unfold: int = 2,
    system: System = "corrected",
    name: str = "",
    timeout: float | None = 60.0,
    max_states: int | None = 200_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> AtomicVerdict:
    """Ask a network, or its text, about all its runs; a no comes with a shortest run.

    ``rules`` are corrected, printed, cascade, crash and others, or a mutant, by name; ``unfold`` is how often ``!`` may
    unfold in a run.  ``about`` has names of parts; by name also *F0* and *F1*, which sound right and are false.

    >>> found = atomic('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) commit, abort)} ]''')
    >>> print(found)
    refuted  atomic failure of the network  (explicit, 11 states, ...)
      no run commits anything: what is said of committed ones says nothing here
      A1: proved, nothing is both committed and aborted
      A2: proved, nothing committed depends on an aborted one
      A3: proved, what a committed one depends on is committed
      C1: proved, nothing doomed is committed
      C2: proved, what remains when the doomed are undone could have come about without them
      types: proved, every state is well typed (Lemma 1)
      place: proved, every transaction runs at one place
      progress of t1: proved, t1 can always still be committed or aborted
      progress of t2: refuted: t2 took a message of t1, which aborted: it can never commit, and does not abort
      step  0                  1
            RECV t2 from t1 c  ABORT t1
      t1                       aborted
      t2                       running, doomed
      at p  nothing
      ...
    """
    asked = _asked(about)
    if max_states is not None and (isinstance(max_states, bool) or not isinstance(max_states, int) or max_states < 1):
        raise UsageError(f"max_states= is a whole number above 0, or None for no limit; found {max_states!r}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise UsageError(f"timeout= takes a number of seconds above 0, or None for no limit; found {timeout!r}")
    given, text = network_of(network, name)
    began = now()
    machine = Atomic(given, rules=rules, unfold=unfold, system=system, text=text, name=name)
    properties = tuple(part for part in asked if part not in ("place", "progress"))
    found = explore(machine, properties, Budget(timeout, max_states, progress))
    parts: dict[str, Verdict] = {}
    for part in asked:
        if part == "place":  # checked before anything ran; steps keep it
            parts[part] = Verdict("proved", SAYS[part], "types")
        elif part == "progress":
            parts |= _progress(found)
        else:
            parts[part] = _part(found, part)
    parts = {part: replace(verdict, seconds=now() - began) for part, verdict in parts.items()}  # one search for all
    return _whole(found, parts, began, name)


def _asked(about: str | Sequence[str]) -> tuple[str, ...]:
    asked = (about,) if isinstance(about, str) else tuple(about)
    for part in asked:
        if part not in ALL:
            hint = nearest(str(part), ALL) or f": there are {', '.join(ALL)}"
            raise UsageError(f"there is no question {part!r} about atomic failure{hint}")
    return tuple(dict.fromkeys(asked))


def _run(found: Explored, at: State, why: str) -> NetworkRun:
    return NetworkRun((), tuple(found.search.way(at)), None, why, found.machine)


def _bound(found: Explored) -> str:
    """The budget of ``!``, where a run wanted more."""
    n = found.machine.unfold
    return f"runs with at most {n} unfolding{'' if n == 1 else 's'} of !" if found.held_back else ""


def _kept(found: Explored, says: str) -> Verdict:
    """Nothing in any run speaks against it; that is a proof where all of them were looked at."""
    bound, states = _bound(found), {"states": len(found.search.parents)}
    return Verdict("bounded" if bound else "proved", says, "explicit", details=states, bound=bound)


def _part(found: Explored, name: str) -> Verdict:
    states = {"states": len(found.search.parents)}
    if name in found.broken:
        at, why = found.broken[name]
        return Verdict("refuted", SAYS[name], "explicit", 0.0, _run(found, at, why), (why,), states)
    if found.cut:
        return Verdict("unknown", SAYS[name], "explicit", notes=(found.cut,), details=states)
    return _kept(found, SAYS[name])


def _progress(found: Explored) -> dict[str, Verdict]:
    machine, states = found.machine, {"states": len(found.search.parents)}
    parts = {}
    children = [t for t in ("child",) if t in found.sticks or t in found.maybe]
    for t in (*machine.transactions, *children):
        asks = f"{t if t != 'child' else 'every child'} can always still be committed or aborted"
        if t in found.sticks:
            at = found.sticks[t]
            run = _run(found, at, "")
            who = t if t != "child" else _stuck_child(machine, at)
            run = replace(run, why=why_stuck(machine, at, who, run.steps))
            part = Verdict("refuted", asks, "explicit", 0.0, run, (run.why,), states)
        elif found.cut or t in found.maybe:
            why = found.cut or (
                f"it is not decided in some {_bound(found)}, and more might decide it: allow more (unfold)"
            )
            part = Verdict("unknown", asks, "explicit", notes=(why,), details=states)
        else:
            part = _kept(found, asks)
        parts[f"progress of {t if t != 'child' else 'children'}"] = part
    return parts


def _stuck_child(machine: Atomic, at: State) -> str:
    view = machine.view(at)
    undecided = [t for t in machine.children(at) if t not in view.committed and t not in view.aborted]
    return min((t for t in undecided if hopeless(machine, at, t)), default=min(undecided))


def _whole(found: Explored, parts: Mapping[str, Verdict], began: float, name: str) -> AtomicVerdict:
    machine = found.machine
    status = combined(part.status for part in parts.values())
    first = next((part for part in parts.values() if part.refuted), None)
    question = f"atomic failure of {name or 'the network'}"
    if machine.rules.name != "corrected":
        question += f" under the rules {machine.rules.name}"
    said = [f"warning: {words}" for words in _warnings(found)]
    if machine.rules.name in EQUIVALENT:
        said.append(f"no property can refute these rules: {WHY_EQUIVALENT[machine.rules.name]}")
    if not found.cut and not any(committed for committed, _ in found.reachable):
        said.append("no run commits anything: what is said of committed ones says nothing here")
    notes = [
        f"{part}: {verdict.status}" + (f": {verdict.notes[0]}" if verdict.notes else f", {verdict.question}")
        for part, verdict in parts.items()
    ]
    details = {
        "states": len(found.search.parents),
        "transitions": found.search.transitions,
        "unfold": machine.unfold,
        "complete": not found.cut,
        "outcomes": [
            {"committed": list(committed), "aborted": list(aborted), "undecided": list(undecided)}
            for committed, aborted in sorted(found.final)
            for undecided in sorted(found.undecided[committed, aborted])
        ],
        "parts": {part: verdict.status for part, verdict in parts.items()},
    }
    run = first.counterexample if first is not None else None
    bound = _bound(found) if status == "bounded" else ""
    return AtomicVerdict(status, question, "explicit", now() - began, run, (*said, *notes), details, parts, bound=bound)


def _warnings(found: Explored) -> list[str]:
    """Capabilities for no place, and messages that wait for ever for another reason; of very many the first."""
    out = nowhere(found.machine.layout)
    missing = tuple(f"finds no place {name} there" for name in missing_places(found.machine.layout))
    out += [words for words in found.lost if not words.endswith(missing or ("\n",))]
    more = len(out) - _MOST
    return out if more <= 0 else [*out[:_MOST], f"there are {more} more messages that wait for ever"]
