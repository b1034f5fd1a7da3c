"""Questions about more states than can be listed: exact integers, queues without a bound, any number of keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pellucid.check.answer import Answer, counted, expression, suggested
from pellucid.check.decide import Options, decide, decide_invariant, has_z3, listable
from pellucid.check.explicit import computes_floats, explore
from pellucid.check.formula import Formula, resolve, terms
from pellucid.check.formula.nodes import Before, Flag, Length, always_possible
from pellucid.check.history import normal
from pellucid.check.keyed import some_key_can, track_of
from pellucid.check.possible import stays_possible
from pellucid.check.smt.engine import repeated
from pellucid.check.system.assume import remembering
from pellucid.check.system.build import System, build_system, cone
from pellucid.check.system.domains import Domain
from pellucid.check.system.queues import NoGuessError, Room
from pellucid.errors import UsageError
from pellucid.internal.expr import node as n
from pellucid.internal.graph.model import Graph
from pellucid.internal.model.search import Budget, now

# Questions about pipelines whose queues hold whatever comes.
#
# A search needs a bound for every queue; the answer must not depend on it. In turn:
#
# 1. queues that the question does not depend on are left out;
# 2. a bound is looked for that is **never exceeded**, and that is proved; then the system with that bound is the
#   pipeline;
# 3. else some queue grows as long as one likes. What is done before it exceeds a bound is still what the pipeline does,
#   and what comes after is not known: so a formula is asked twice, once with everything unknown counted against it
#   (*proved* is then true), once with everything counted for it (*refuted* is then true);
# 4. what all runs must do is asked of a system that can do more than the pipeline: behind the first events of a queue
#   there may be any (`pellucid.check.system.queues`). If it holds there, it holds;
# 5. that something stays possible is shown by a way from every state, however long its queues are
#   (`pellucid.check.possible`).
#
# What none of these decides is *unknown*.

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_FIRST = 3  # up to here at first
_FEW_STATES = 60_000  # of a search for a bound

Make = Callable[[Room], System]
Wanted = Callable[[System], Formula]


def speaks_of_queues(f: Formula) -> bool:
    """Whether a formula speaks of queues, so that their bound is part of the question.

    >>> from pellucid.check.formula.parse import parse
    >>> [speaks_of_queues(parse(f)) for f in ("!EF full", "G (out -> queue(join.0).length < 2)", "G out")]
    [True, True, False]
    """
    return any(
        isinstance(term, Length) or (isinstance(term, Flag) and term.name in ("full", "overflow")) for term in terms(f)
    )


class Systems:
    """The systems of one pipeline that a question is asked of, each made once, and the formula over each."""

    def __init__(
        self, graph: Graph, domain: Domain, queue: int | Mapping[str, int] = 3, lossy: Sequence[str] = ()
    ) -> None:
        self.graph, self.domain, self.queue, self.lossy = graph, domain, queue, lossy
        self.keyed = any(node.key is not None for node in graph.nodes)
        self.queues = [id for id, _, _ in graph.queues()]
        self._made: dict[Any, tuple[System, Formula]] = {}

    def of(self, f: Formula, room: Room | None = None, *, strict: bool = False) -> tuple[System, Formula]:
        """The system that a formula is asked of, with this room for queues, and the resolved formula."""
        room = room or Room(self.queue)
        # without queues all rooms are the same
        size = room.bounds if isinstance(room.bounds, int) else tuple(room.bounds.items())
        key = (f, strict, (size, room.beyond, room.watch) if self.queues else None)
        if key not in self._made:
            track = track_of(f, self.graph) if self.keyed else None
            system = build_system(self.graph, self.domain, room, self.lossy, strict=strict, track=track)
            if any(isinstance(term, Before) for term in terms(f)):
                system = remembering(system, f)
            self._made[key] = system, resolve(f, system)
        return self._made[key]


def decide_about(systems: Systems, f: Formula, options: Options, *, strict: bool = False) -> Answer:
    """Whether a formula holds of a pipeline; queues have a bound only where it speaks of them."""
    if not systems.queues or speaks_of_queues(f):
        return decide(*systems.of(f, strict=strict), options)

    def make(room: Room) -> System:
        return systems.of(f, room, strict=strict)[0]

    return decide_unbounded(make, lambda system: resolve(f, system), systems.queue, options)


def decide_unbounded(make: Make, wanted: Wanted, begin: int | Mapping[str, int], options: Options) -> Answer:
    """Whether a formula holds of a pipeline whose queues have no bound.

    ``make`` builds the system with some room for queues, ``wanted`` gives the resolved formula over it, ``begin`` is
    where the search for a bound that suffices begins.

    >>> from pellucid import pipeline
    >>> from pellucid.check.system.domains import domain_of
    >>> from pellucid.check.formula import resolve
    >>> from pellucid.check.formula.parse import parse
    >>> from pellucid.check.system.build import build_system
    >>> sums = pipeline(lambda a, b: a + b, a=int, b=int)
    >>> make = lambda room: build_system(sums.graph, domain_of(None), room)
    >>> answer = decide_unbounded(make, lambda s: resolve(parse("AG EF out"), s), 3, Options())
    >>> answer.status, answer.notes
    ('proved', ('from every state, with queues of any length, out holds within 1 push(es) of a, b',))
    """
    return _Question(make, wanted, begin, options).answer()


class _Question:
    """One question, within one budget of time."""

    def __init__(self, make: Make, wanted: Wanted, begin: int | Mapping[str, int], options: Options) -> None:
        self.make, self.wanted, self.options = make, wanted, options
        self.begin = begin if isinstance(begin, int) else max([1, *begin.values()])
        self.end = None if options.left is None else now() + options.left
        self.tried = 0

    def left(self, most: float | None = None, states: int | None = None) -> Options:
        """What is left of the time, and no more than this."""
        left = None if self.end is None else max(0.1, self.end - now())
        seconds = left if most is None else most if left is None else min(left, most)
        return dataclasses.replace(
            self.options, timeout=seconds, max_states=min(states or self.options.max_states, self.options.max_states)
        )

    def answer(self) -> Answer:
        bare = self.make(Room(max(1, self.begin), watch=frozenset()))
        roots = [expression(a) for a in self.wanted(bare).atoms()]
        small, _ = cone(bare, roots)
        watch = frozenset(v.of for v in small.state if v.role in ("length", "item"))
        if not watch:
            return decide(bare, self.wanted(bare), self.options)
        sizes = sorted({*_SIZES, max(1, self.begin)})
        few = [size for size in sizes if size <= _FIRST]
        size = self.enough(watch, few)
        # more room may be enough; what does not depend on that is mostly found sooner
        if size is None and self.tried == few[-1]:
            quickly = self.at_once(watch)
            if quickly is not None:
                return quickly
            size = self.enough(watch, sizes[len(few) :])
        if size is not None:
            system = self.make(Room(size, watch=watch))
            return decide(system, self.wanted(system), self.left())
        return self.without_bound(watch)

    # ------------------------------------------------------------ a bound that is never exceeded

    def enough(self, watch: frozenset[str], sizes: Sequence[int]) -> int | None:
        """A bound for all queues that matter, proved never to be exceeded; None if none was found."""
        for size in sizes:
            system = self.make(Room(size, watch=watch))
            fits = self.fits(system)
            if fits is not True:
                self.tried = size
            if fits is not False:
                return size if fits else None
            if self.end is not None and now() > self.end - (self.options.timeout or 0) * 0.6:
                return None
        return None

    def fits(self, system: System) -> bool | None:
        """Whether no queue ever needs more; None if that is not known."""
        if self.options.engine != "smt":
            few, (over,) = cone(system, [system.overflow])
            if over.op == "const":
                return not over.value
            exact = listable(few, [over])
            if not exact:  # events that tell cases apart may show that it does not fit
                values = [
                    v
                    for v in suggested(system, [system.overflow])
                    if system.domain.values is None or v in system.domain.values
                ]
                some = dataclasses.replace(system, domain=Domain(tuple(values), system.domain.modulus))
                few, (over,) = cone(some, [system.overflow])
            if exact or listable(few, [over]):
                left = self.left(5.0, _FEW_STATES)
                space = explore(
                    few, [over], stop_on=[0], budget=Budget(left.timeout, left.max_states, self.options.progress)
                )
                if space.found is not None:
                    return False
                if exact:
                    return True if space.complete else None
        if repeated(system, system.overflow):
            return False
        if self.options.engine == "explicit" or not has_z3():
            return None
        answer = decide_invariant(system, n.not_(system.overflow), dataclasses.replace(self.left(4.0), engine="smt"))
        return {"proved": True, "refuted": False}.get(answer.status)

    # ------------------------------------------------------------ queues that grow

    def at_once(self, watch: frozenset[str]) -> Answer | None:
        """Over events that cannot be listed: a proof for queues of any length, or of what all runs must do a short run
        that refutes."""
        system = self.make(Room(_FIRST, watch=watch))
        formula = self.wanted(system)
        if self.options.engine != "smt" and listable(*cone(system, [expression(a) for a in formula.atoms()])):
            return None
        if not _of_all_runs(formula):
            return self.beyond(_FIRST, False)
        try:
            proved = self.of_all((("deep", 1),), 4.0)
        except NoGuessError:
            return None
        if proved is not None:
            return proved
        refuted = decide(system, counted(formula, system.overflow, for_it=True), self.left(2.0))
        return refuted if refuted.status == "refuted" else None

    def without_bound(self, watch: frozenset[str]) -> Answer:
        """Some queue grows as long as one likes, for all that is known."""
        size = max(1, min(self.begin, 8))
        system = self.make(Room(size, watch=watch))
        formula = self.wanted(system)
        universal = _of_all_runs(formula)
        small, observed = cone(system, [expression(a) for a in formula.atoms()])
        listed = self.options.engine != "smt" and listable(small, observed)
        late = universal and not computes_floats(small, observed)  # z3 takes long to follow floats through queues
        # Where states can be listed, a shortest run that refutes is found at once; else a way from every state is
        # mostly found sooner.
        if not listed and not late and (beyond := self.beyond(size, universal)) is not None:
            return beyond
        answer = Answer("unknown", "none")
        for bound in dict.fromkeys((size, max(size, 8))):
            answer = self.within(bound, watch, universal)
            if answer.status != "unknown":
                return answer
            if bound == size and (listed or late) and (beyond := self.beyond(size, universal)) is not None:
                return beyond
        queues = ", ".join(sorted(watch))
        what = "they need" if len(watch) > 1 else "it needs"
        note = (
            f"not decided for queues without a bound ({queues}): {what} more than {max(self.tried, bound)} events "
            "on some inputs"
        )
        return Answer("unknown", answer.engine, notes=(note, *answer.notes), details=answer.details)

    def within(self, bound: int, watch: frozenset[str], universal: bool) -> Answer:
        """With what comes after a full queue counted for the formula, and against it."""
        system = self.make(Room(bound, watch=watch))
        formula = self.wanted(system)
        answer = decide(system, counted(formula, system.overflow, for_it=True), self.left(self.share()))
        if answer.status == "refuted":
            return answer
        if not universal and formula.op != "AG":  # what must hold everywhere does not hold where nothing is known
            against = decide(system, counted(formula, system.overflow, for_it=False), self.left(self.share()))
            if against.status == "proved":
                return against
        return dataclasses.replace(answer, status="unknown", pushes=None, notes=(), details={})

    def share(self) -> float | None:
        """A third of the time that is left, or a little more."""
        return None if self.end is None else max(1.0, (self.end - now()) / 3)

    def beyond(self, bound: int, universal: bool) -> Answer | None:
        """With any events behind the first of a queue."""
        try:
            if universal:
                return self.of_all(
                    (("many", 1), ("deep", min(2, bound)), ("deep", bound)) if bound > 1 else (("many", 1), ("deep", 1))
                )
            if has_z3() and self.options.engine != "explicit":
                system = self.make(Room(bound, "deep"))
                if system.assume is not n.TRUE:  # a way must go on for ever within what is assumed
                    return None
                # a run that ends because it has too many keys is none
                if system.keys is not None and not system.keys.exact:
                    return self.under_a_new_key(bound, system)
                return stays_possible(system, self.wanted(system), self.left())
        except NoGuessError:
            return None
        return None

    def under_a_new_key(self, bound: int, deep: System) -> Answer | None:
        """``AG EF p`` where a key that never came can always do what leads to p from the start, with queues that are
        long enough for that."""
        system = self.make(Room(bound))
        goal = always_possible(self.wanted(system))
        if goal is None:
            return None
        answer = some_key_can(system, goal, self.left(self.share()), decide_invariant, deep)
        return answer if answer.status != "unknown" else None

    def of_all(self, rooms: Sequence[tuple[str, int]], most_seconds: float | None = None) -> Answer | None:
        """What all runs must do: proved if it holds in a system that can do more."""
        note = (
            "also where queues grow without a bound: behind the first events of each there may be any that its "
            "stream carries"
        )
        for beyond, most in rooms:
            system = self.make(Room(most, beyond))
            formula = self.wanted(system)
            if beyond == "many":
                if self.options.engine == "smt" or not listable(
                    *cone(system, [expression(a) for a in formula.atoms()])
                ):
                    continue
            elif not has_z3() or self.options.engine == "explicit":
                continue
            answer = decide(system, formula, self.left(most_seconds or self.share()))
            if answer.status == "proved":
                return dataclasses.replace(answer, notes=(*answer.notes, note))
        return None


def _of_all_runs(f: Formula) -> bool:
    """Whether a formula speaks of what all runs do, so that a system with more runs may stand for one with fewer."""
    try:
        return not any(part.op in ("EX", "EF", "EG", "EU", "ER") for part in normal(f).walk())
    except (KeyError, UsageError):
        return False
