"""Every interleaving with crashes, packed and reduced; and the same literally."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.failures.checker.system import CrashSystem, Own, Situation, Transactional, written
from pellucid.failures.model import (
    FL,
    Configuration,
    FFail,
    FRecover,
    IBorder,
    Map,
    Message,
    Normal,
    Numbers,
    State,
    TraceStep,
)
from pellucid.internal.model import Budget, CutShort, Machine, Search, components, follow, shortest_cycle

# Which failure-free executions can still explain what was seen (Definitions 5.4 to 5.6), exactly.
#
# An execution C is explained by a failure-free C' if its observations, in their order and with repetitions, are found
# in those of C' in the same order; C' may show more in between.  So after the observations o1 … ok it is enough to know
# the set S of the failure-free configurations at which an explaining C' may stand: all that can be reached from the set
# before and show ok.  C is explained as long as S is not empty; a search over pairs (faulty configuration, S) therefore
# decides explainability, and the first pair with an empty S is a shortest trace that nothing explains.  Failure-free
# executions of a finite input are finite and finitely many, so an infinite execution is explained when all its prefixes
# are.
#
# For an observability function that is monotone this is the same as Definition 5.5 (Lemma 5.7); where a sink undoes
# what it has shown it is stronger, and that is what an observer would complain about.


class Candidates:
    """Sets of failure-free configurations by number; number 0 is the empty set, 1 the set before the first step.

    A set is kept as the configurations by which it was entered: the others can be reached from them.

    >>> chain = Candidates([[1], [2], []], ["a", "b", "c"])
    >>> chain.seen(1)
    'a'
    >>> chain.after(1, "c"), chain.after(chain.after(1, "c"), "b")
    (2, 0)
    """

    def __init__(self, successors: Sequence[Sequence[int]], observations: Sequence[Hashable]) -> None:
        self._successors = successors
        self._ids: dict[Hashable, int] = {}
        self._shows = [self._ids.setdefault(seen, len(self._ids)) for seen in observations]
        self._can_show = self._reachable_observations()
        self._entries: list[frozenset[int]] = [frozenset(), frozenset([0])]
        self._seen: list[Hashable] = [None, observations[0]]
        self._number: dict[frozenset[int], int] = {frozenset(): 0, frozenset([0]): 1}
        self._after: dict[tuple[int, Hashable], int] = {}

    def seen(self, number: int) -> Hashable:
        """The observation that all of a set show."""
        return self._seen[number]

    def after(self, number: int, seen: Hashable) -> int:
        """The set after another observation."""
        key = number, seen
        found = self._after.get(key)
        if found is None:
            wanted = self._ids.get(seen)
            entries = frozenset() if wanted is None else self._entered(self._entries[number], wanted)
            found = self._number.get(entries)
            if found is None:
                found = self._number[entries] = len(self._entries)
                self._entries.append(entries)
                self._seen.append(seen)
            self._after[key] = found
        return found

    def next_seen(self, number: int) -> set[Hashable]:
        """Everything that can be seen from a set on, itself included."""
        can = 0
        for s in self._entries[number]:
            can |= self._can_show[s]
        return {seen for seen, i in self._ids.items() if can >> i & 1}

    def __len__(self) -> int:
        return len(self._entries)

    def _entered(self, entries: frozenset[int], wanted: int) -> frozenset[int]:
        """Where the wanted observation is met first, on every way from the entries."""
        can, shows, successors = self._can_show, self._shows, self._successors
        reached, found = set(entries), []
        waiting = [s for s in entries if can[s] >> wanted & 1]
        while waiting:
            at = waiting.pop()
            if shows[at] == wanted:
                found.append(at)
                continue
            for after in successors[at]:
                if after not in reached:
                    reached.add(after)
                    if can[after] >> wanted & 1:
                        waiting.append(after)
        return frozenset(found)

    def _reachable_observations(self) -> list[int]:
        """For each configuration, as bits, the observations that it or something after it shows."""
        can = [1 << shown for shown in self._shows]
        order = self._last_first()
        changed = True
        while changed:  # once, and once more to see that nothing changes, as there are no cycles
            changed = False
            for at in order:
                bits = can[at]
                for after in self._successors[at]:
                    bits |= can[after]
                if bits != can[at]:
                    can[at], changed = bits, True
        return can

    def _last_first(self) -> list[int]:
        order: list[int] = []
        done = [False] * len(self._successors)
        for root in range(len(self._successors)):
            if done[root]:
                continue
            done[root] = True
            work = [(root, iter(self._successors[root]))]
            while work:
                at, more = work[-1]
                following = next((s for s in more if not done[s]), None)
                if following is None:
                    order.append(at)
                    work.pop()
                else:
                    done[following] = True
                    work.append((following, iter(self._successors[following])))
        return order


# Situations as integers, steps as differences: what makes a search fast.
#
# A situation is cut into *fields*: one for each task (its state and its sequence numbers), one for each stream (its
# messages), one for each durable sink, and one for the logged input.  Each field's values are numbered as they appear,
# and a situation is one integer with `BITS` bits for each field.  A step of a task looks at its own field and its own
# streams only (S-STEP with a local rule), so ``situation & mask`` names everything the step depends on: the literal
# rules are asked once for each such key, and from then on a step is one look-up and one addition.  F-RECOVER is global,
# but Definition 4.5 speaks of each task and each stream by itself, so it is put together from parts that are kept, too.
#
# Nothing here knows a rule by heart except that definition (used only where the rules promise it), and the tests hold
# the explored sets against `pellucid.failures.checker.system`, configuration by configuration.

# ruff: noqa: N806 - the paper's letters


BITS = 20
_LOW = (1 << BITS) - 1


class Moves(NamedTuple):
    """What a task can do, given its own state and its streams."""

    quiet: tuple[int, ...]  # differences of steps that cannot change what is seen
    loud: tuple[int, ...]
    fail: int | None  # the difference of F-FAIL; None for a failed task
    ample: int  # see `reduce.py`: 0 no, 1 events that commute with all else, 2 a border that may


class Packed:
    """The integers of a system, and the tables that are filled while it is explored."""

    def __init__(self, system: CrashSystem) -> None:
        self.system = system
        c = system.c
        self.tasks = tuple(c.Pi)
        self.streams = tuple(dict.fromkeys((*system.inputs, *(task.output for task in c.Pi.values()))))
        self.held = system.sinks if system.observation.durable else ()
        n, m, k = len(self.tasks), len(self.streams), len(self.held)
        self.count = n + m + k + 1
        self._input = n + m + k
        self.values: list[list[Any]] = [[] for _ in range(self.count)]
        self._ids: list[dict[Any, int]] = [{} for _ in range(self.count)]
        self.whole = (1 << BITS * self.count) - 1
        self.set_shift = BITS * self.count  # the field for the set of candidates …
        self.crash_shift = self.set_shift + BITS  # … and, on top, for the crashes that may still come
        self.one_crash = 1 << self.crash_shift
        self._stream_at = {s: n + j for j, s in enumerate(self.streams)}
        self._held_at = {s: n + m + j for j, s in enumerate(self.held)}
        self.masks = [self._mask(i) for i in range(n)]
        self.moves: list[dict[int, Moves]] = [{} for _ in range(n)]
        seen, rules = system.observation, system.rules
        self._border_may_come_first = [
            isinstance(seen, Transactional) or (seen.durable and rules.held_up(c, p)) for p in self.tasks
        ]
        self.newest: list[list[int]] = [[] for _ in range(n)]  # max(dom(a)) of each value of a task's field
        self._seen_ids: dict[Any, int] = {}
        self._visible: dict[tuple[int, int, int], int] = {}
        self._kept: dict[tuple[int, int, int, int], tuple[int, int]] = {}
        self._restored: dict[tuple[int, int, int, tuple[int, ...]], int] = {}
        self._recovered: dict[int, int] = {}
        self._own: dict[int, Hashable] = {}
        self._out: dict[tuple[int, int], Hashable] = {}
        self._archive: list[list[int]] = [[] for _ in range(n)]  # the number of each value's archive
        self._archive_ids: list[dict[Any, int]] = [{} for _ in range(n)]
        self._task_shifts = tuple((newest, BITS * i) for i, newest in enumerate(self.newest))
        self._archive_shifts = tuple((archive, BITS * i) for i, archive in enumerate(self._archive))
        self._stream_mask = self._fields_mask(self._stream_at.values())
        self._held_mask = self._fields_mask(self._held_at.values())
        self._beside_tasks = self.whole & ~self._fields_mask(range(n))

    # ------------------------------------------------------------ situations and integers

    def pack(self, at: Situation) -> int:
        """The integer of a situation (without candidates and crashes)."""
        c, total = at.c, 0
        for i, p in enumerate(self.tasks):
            total |= self._intern(i, (c.Sigma[p], c.N[p])) << BITS * i
        by: dict[str, list[Message]] = {s: [] for s in self.streams}
        for message in c.M:
            by[message.s].append(message)
        for s, i in self._stream_at.items():
            total |= self._intern(i, frozenset(by[s])) << BITS * i
        for s, i in self._held_at.items():
            total |= self._intern(i, at.held[s]) << BITS * i
        return total | self._intern(self._input, c.D) << BITS * self._input

    def unpack(self, x: int) -> Situation:
        """The situation of an integer."""
        parts = [self.values[i][x >> BITS * i & _LOW] for i in range(self.count)]
        n = len(self.tasks)
        c = Configuration(
            self.system.calls.tasks,
            Map({p: parts[i][0] for i, p in enumerate(self.tasks)}),
            Map({p: parts[i][1] for i, p in enumerate(self.tasks)}),
            frozenset().union(*parts[n : n + len(self.streams)]),
            parts[self._input],
        )
        held = Map({s: parts[i] for s, i in self._held_at.items()})
        return Situation(c, held, x >> self.crash_shift)

    def _intern(self, i: int, value: Any) -> int:
        ids = self._ids[i]
        found = ids.get(value)
        if found is None:
            found = ids[value] = len(self.values[i])
            if found > _LOW:
                raise UsageError(f"a task or stream has more than {_LOW:,} states: check fewer epochs or events")
            self.values[i].append(value)
            if i < len(self.tasks):
                archive = value[0].archive
                self.newest[i].append(max(archive))
                self._archive[i].append(self._archive_ids[i].setdefault(archive, len(self._archive_ids[i])))
        return found

    def _mask(self, i: int) -> int:
        task = self.system.c.Pi[self.tasks[i]]
        fields = [i, *(self._stream_at[s] for s in (*task.inputs, task.output))]
        if task.output in self._held_at:
            fields.append(self._held_at[task.output])
        return self._fields_mask(fields)

    def _fields_mask(self, fields: Any) -> int:
        mask = 0
        for i in fields:
            mask |= _LOW << BITS * i
        return mask

    # ------------------------------------------------------------ steps of a task

    def learn(self, i: int, key: int) -> Moves:
        """Ask the literal rules what task i can do, in a configuration that has nothing but it and its streams."""
        p, system = self.tasks[i], self.system
        task = system.calls.tasks[p]
        state, Np = self._value(i, key)
        on = {s: self._value(self._stream_at[s], key) for s in (*task.inputs, task.output)}
        c = Configuration(Map({p: task}), Map({p: state}), Map({p: Np}), frozenset().union(*on.values()), frozenset())
        held = Map({task.output: self._value(self._held_at[task.output], key)} if task.output in self._held_at else {})
        quiet: list[int] = []
        loud: list[int] = []
        kinds: set[type] = set()
        for label, after in system.rules.steps(c):
            kinds.add(type(label))
            difference = self._differ(i, key, (after.Sigma[p], after.N[p]))
            new = after.M - c.M
            if new:
                difference += self._differ(self._stream_at[task.output], key, on[task.output] | new)
            then = written(system, c, label, held)
            if then != held:
                difference += self._differ(self._held_at[task.output], key, then[task.output])
            (loud if self._loud(state, after.Sigma[p], new, then != held) else quiet).append(difference)
        fail = None
        if state.volatile is not FL:
            failed = system.rules.fail(c, p)
            fail = self._differ(i, key, (failed.Sigma[p], failed.N[p])) - self.one_crash
        settled = kinds and system.rules.settled(c, p)
        ample = 0
        if settled and kinds == {IBorder}:
            ample = 2 if self._border_may_come_first[i] else 0
        elif settled and not loud and IBorder not in kinds:
            ample = 1
        found = self.moves[i][key] = Moves(tuple(quiet), tuple(loud), fail, ample)
        return found

    def _value(self, i: int, x: int) -> Any:
        return self.values[i][x >> BITS * i & _LOW]

    def _differ(self, i: int, x: int, value: Any) -> int:
        return (self._intern(i, value) - (x >> BITS * i & _LOW)) << BITS * i

    def _loud(self, before: State, after: State, new: frozenset[Message], wrote: bool) -> bool:
        """Whether a step may change what is seen."""
        observation = self.system.observation
        if observation.durable:
            return wrote
        if isinstance(observation, Transactional):  # gce cannot be above this task's own newest snapshot
            newest = max(after.archive)
            return newest != max(before.archive) or any(m.e <= newest for m in new)
        return True

    # ------------------------------------------------------------ what is seen

    def committed(self, x: int) -> int:
        """gce, Definition 4.2."""
        return min([newest[x >> shift & _LOW] for newest, shift in self._task_shifts])

    def see(self, x: int) -> Hashable:
        """The observation: a value that is equal exactly where the literal one is."""
        observation = self.system.observation
        if isinstance(observation, Transactional):
            at = x & self._stream_mask, self.committed(x)
            found = self._out.get(at)
            if found is None:
                shown = tuple(self._shown(i, x >> BITS * i & _LOW, at[1]) for i in self._stream_at.values())
                found = self._out[at] = self._seen_ids.setdefault(shown, len(self._seen_ids))
            return found
        if isinstance(observation, Own):
            key = x & self.whole
            if key not in self._own:
                self._own[key] = self._asked(observation, key)
            return self._own[key]
        return x & (self._held_mask if self.held else self._stream_mask)

    def _asked(self, observation: Own, x: int) -> Hashable:
        at = self.unpack(x)
        try:
            seen = observation.see(at.c, at.held)
        except Exception as error:
            raise UsageError(
                f"observe={observation.name} failed on a configuration: {type(error).__name__}: {error}"
            ) from error
        try:
            hash(seen)
        except TypeError:
            raise UsageError(
                f"observe={observation.name} gave {seen!r}, which cannot be hashed: give a tuple or a frozenset"
            ) from None
        return seen

    def _shown(self, i: int, value: int, e: int) -> int:
        key = i, value, e
        found = self._visible.get(key)
        if found is None:
            shown = i, frozenset(m for m in self.values[i][value] if m.e <= e)
            found = self._visible[key] = self._seen_ids.setdefault(shown, len(self._seen_ids))
        return found

    # ------------------------------------------------------------ recovery

    def recover(self, x: int) -> int:
        """F-RECOVER, whether or not a task has failed; as an integer without candidates and crashes."""
        if not self.system.rules.paper_recovery:
            key = x & self.whole
            found = self._recovered.get(key)
            if found is None:
                steps = [at for label, at in self.system.steps(self.unpack(key)) if isinstance(label, FRecover)]
                if not steps:
                    raise UsageError(
                        f"the rules {self.system.rules.name!r} do not recover: recover() gave None, or nothing that "
                        "can be done, where a task has failed; it must give the configuration after the recovery"
                    )
                found = self._recovered[key] = self.pack(steps[0])
            return found
        key = x & self._beside_tasks  # of a task lcs looks at the archive alone
        for archive, shift in self._archive_shifts:
            key |= archive[x >> shift & _LOW] << shift
        found = self._recovered.get(key)
        if found is None:
            found = self._recovered[key] = self._lcs(x & self.whole)
        return found

    def _lcs(self, key: int) -> int:
        """The latest common snapshot, Definition 4.5, field by field."""
        e = self.committed(key)
        total = key & (_LOW << BITS * self._input | self._held_mask)
        logged = key >> BITS * self._input & _LOW
        counts = {}
        for s, i in self._stream_at.items():
            kept, counts[s] = self._keep(i, key >> BITS * i & _LOW, e, logged)
            total |= kept << BITS * i
        for i, p in enumerate(self.tasks):
            task = self.system.c.Pi[p]
            mine = tuple(counts[s] for s in (*task.inputs, task.output))
            restore = i, key >> BITS * i & _LOW, e, mine
            local = self._restored.get(restore)
            if local is None:
                local = self._restored[restore] = self._restore(i, restore[1], e, counts)
            total |= local << BITS * i
        return total

    def _keep(self, i: int, value: int, e: int, logged: int) -> tuple[int, int]:
        """M' = M0 ∪ out(c) on one stream, and |out(c) ↓ s|."""
        key = i, value, e, logged
        found = self._kept.get(key)
        if found is None:
            s = self.streams[i - len(self.tasks)]
            shown = frozenset(m for m in self.values[i][value] if m.e <= e)
            given = frozenset(m for m in self.values[self._input][logged] if m.s == s)
            found = self._kept[key] = self._intern(i, given | shown), len(shown)
        return found

    def _restore(self, i: int, value: int, e: int, counts: dict[str, int]) -> int:
        """Σ' and N' of one task."""
        state, Np = self.values[i][value]
        archive = Map({k: v for k, v in state.archive.items() if k <= e})
        numbers: Numbers = Map({s: counts[s] for s in Np})
        return self._intern(i, (State(archive, Normal(e + 1, state.archive[e])), numbers))

    def failed(self, x: int) -> bool:
        """Whether some task has failed."""
        return any(self._value(i, x)[0].volatile is FL for i in range(len(self.tasks)))


# Fewer interleavings, the same answer (partial-order reduction), and why.
#
# **Crashes.**  F-FAIL of p disables p and changes nothing else, so it commutes with the steps of other tasks;
# nothing is seen of it.  So it may be put off until just before the F-RECOVER that follows (one that is never followed
# by a recovery may be left out: the rest of the execution is possible without it).  `lcs` does not look at volatile
# states, so it does not matter who failed.  Hence one move, *crash and recover*, is enough: no situation with a failed
# task is ever built.
#
# **Steps.**  In a situation choose, if there is one, a task p whose possible steps are all there, so that no other
# task
# can add one or take one away (`Rules.settled`; in the paper's rules: every input of p has its next message), and
#
# * all of p's steps are events that cannot change what is seen; or
# * its step is a border, another task has no newer snapshot than p, so gce stays where it is, and either only what
# is
#   committed is seen, or some task cannot finish the epoch before p has (`Rules.held_up`: it reads from p);
#
# and follow only p.  Others' steps commute with p's (Lemma 6.5).  What is seen does not change with p's step.  A
# recovery from before p's step leads to the same configuration as one from after it, because `lcs` keeps only archives
# and messages up to gce, and p's step added nothing there; so no crash is lost by stepping first.
#
# A border of p may be the one that raises gce if it comes last; taken early, the last of the other tasks raises it
# instead.  Then a crash between that one's border and p's goes back one epoch less.  With `out` nothing is lost: all
# that was done in between is not seen and is undone, so the crash may as well come before it.  But a durable sink keeps
# what it was given in between, in an epoch that p's late border would have had repeated; so there gce must not be able
# to pass p's border, and a task that waits for it sees to that: gce is at most that task's newest snapshot, with and
# without p's.  Situations never repeat without a crash, as sequence numbers grow, so no step is put off for ever.
#
# Both need the paper's recovery and an observation that looks at messages or sinks.  The tests compare verdicts with
# and without on random graphs.


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


# The search: every interleaving, with crashes, paired with what can still explain it; breadth first.
#
# First the failure-free graph is built (R \ F); then the faulty one, each situation with the number of its set of
# candidates (`candidates.py`).  An empty set ends the search: the way there is a shortest one if nothing was reduced.
# Situations from which nothing can be done although an epoch of the input is missing in the output are dead ends: they
# refute liveness (`pellucid.failures.checker.search` looks at cycles, too).

_SETS = (1 << BITS) - 1


@dataclass
class Explored:
    """What a search saw: ``unexplained`` and ``dead_end`` are situations, ``parents`` says how each was reached."""

    packed: Packed
    parents: dict[int, int]
    transitions: int = 0
    unexplained: int | None = None
    dead_end: int | None = None
    why: str = ""  # what cut it short
    failure_free: int = 0

    @property
    def states(self) -> int:
        """How many situations (each with its candidates)."""
        return len(self.parents)

    def path(self, end: int) -> list[int]:
        """The situations from the first to this one."""
        way = [end]
        while (before := self.parents[way[-1]]) >= 0:
            way.append(before)
        return way[::-1]


def failure_free(packed: Packed, budget: Budget, *, reduce: bool) -> tuple[Candidates, int]:
    """The failure-free graph as candidates for explanations, and its size."""
    reducing = reduce and can_reduce(packed)
    start = packed.pack(packed.system.start())
    number, order = {start: 0}, [start]
    successors: list[list[int]] = []
    for x in order:
        if not len(successors) & 1023 or budget.full(len(order)):
            budget.look(len(order), len(order) - len(successors))
        moves = _moves(packed, x)
        chosen = ample(packed, x, moves) if reducing else None
        after = []
        for found in moves if chosen is None else [chosen]:
            for difference in found.quiet + found.loud:
                y = x + difference
                if y not in number:
                    number[y] = len(order)
                    order.append(y)
                after.append(number[y])
        successors.append(after)
    return Candidates(successors, [packed.see(x) for x in order]), len(order)


def explore(
    system: CrashSystem, budget: Budget, *, reduce: bool = True, reduce_free: bool | None = None, stop: bool = True
) -> Explored:
    """Search until something unexplained is found (``stop``) or everything has been seen.

    ``reduce`` leaves out interleavings (`reduce.py`) of faulty executions, ``reduce_free`` of
    failure-free ones.

    >>> from pellucid.failures.model import Task, initial
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> found = explore(CrashSystem(c, crashes=1), Budget(60.0, 2_000_000), reduce=False)
    >>> found.states, found.unexplained, found.dead_end
    (9, None, None)
    """
    packed = Packed(system)
    start = packed.pack(system.start())
    found = Explored(packed, {})
    try:
        candidates, found.failure_free = failure_free(
            packed, budget, reduce=reduce if reduce_free is None else reduce_free
        )
        first = start + (1 << packed.set_shift) + system.crashes * packed.one_crash
        found.parents[first] = -1
        _search(found, candidates, first, budget, reduce, stop)
    except CutShort as cut:
        found.why = str(cut)
    return found


def _search(found: Explored, candidates: Candidates, first: int, budget: Budget, reduce: bool, stop: bool) -> None:
    packed, parents = found.packed, found.parents
    fuse, reducing = reduce and can_reduce_crashes(packed), reduce and can_reduce(packed)
    observation = packed.system.observation
    own = isinstance(observation, Own)  # it may even look at volatile states
    # out(lcs(c)) = out(c), and no recovery changes what a sink holds
    hidden = packed.system.rules.paper_recovery and (observation.durable or isinstance(observation, Transactional))
    tables = list(zip(range(len(packed.tasks)), packed.moves, packed.masks, strict=True))
    whole, set_shift, one_crash, last = packed.whole, packed.set_shift, packed.one_crash, packed.system.last
    see, recover, learn = packed.see, packed.recover, packed.learn
    transitions, done, most = 0, 0, budget.max_states or sys.maxsize

    def shown(x: int) -> int:
        """The situation with the set of candidates that its observation leaves."""
        at = x >> set_shift & _SETS
        seen = see(x)
        if seen != candidates.seen(at):
            x += (candidates.after(at, seen) - at) << set_shift
        return x

    layer = [first]
    while layer:
        following: list[int] = []
        for x in layer:
            done += 1
            if not done & 2047 or len(parents) > most:
                found.transitions = transitions
                budget.look(len(parents), len(layer) + len(following))
            if reducing:
                chosen = ample(packed, x, _moves(packed, x))
                if chosen is not None:
                    for difference in chosen.quiet + chosen.loud:  # a border that does not raise gce shows nothing
                        transitions += 1
                        y = x + difference
                        if y not in parents:
                            parents[y] = x
                            following.append(y)
                    continue
            stuck, broken, may_crash, news = True, False, x >= one_crash, []
            for i, table, mask in tables:
                moves = table.get(x & mask)
                quiet, loud, fail, _ = moves if moves is not None else learn(i, x & mask)
                for difference in quiet:
                    transitions += 1
                    y = x + difference
                    if y not in parents:
                        parents[y] = x
                        following.append(y)
                if loud:
                    news += [shown(x + difference) for difference in loud]
                    stuck = False
                elif quiet:
                    stuck = False
                if fail is None:
                    broken = True
                elif may_crash and not fuse:
                    if own:
                        news.append(shown(x + fail))
                        continue
                    transitions += 1
                    y = x + fail
                    if y not in parents:
                        parents[y] = x
                        following.append(y)
            if broken or (fuse and may_crash):
                y = recover(x) + (x & ~whole) - (0 if broken else one_crash)
                news.append(y if hidden else shown(y))
            if stuck and not broken and found.dead_end is None and packed.committed(x) < last:
                found.dead_end = x
            for y in news:
                transitions += 1
                if y not in parents:
                    parents[y] = x
                    if not y >> set_shift & _SETS:
                        if found.unexplained is None:
                            found.unexplained = y
                        if stop:
                            found.transitions = transitions
                            return
                    following.append(y)
        layer = following
    found.transitions = transitions


def _moves(packed: Packed, x: int) -> list[Moves]:
    found = []
    for i, (table, mask) in enumerate(zip(packed.moves, packed.masks, strict=True)):
        moves = table.get(x & mask)
        found.append(moves if moves is not None else packed.learn(i, x & mask))
    return found


def successors(packed: Packed, x: int) -> list[tuple[TraceStep, int]]:
    """The literal steps of a situation with their labels, as integers with crashes but without candidates."""
    steps = packed.system.steps(packed.unpack(x & ~(_SETS << packed.set_shift)))
    return [(label, packed.pack(after) + after.crashes * packed.one_crash) for label, after in steps]


def labels_to(found: Explored, end: int) -> list[TraceStep]:
    """The trace to a situation: the literal step between each two on the way (two, where a crash was one move)."""
    packed, labels = found.packed, []
    bare = ~(_SETS << packed.set_shift)
    way = found.path(end)
    for x, y in pairwise(way):
        label = next((label for label, after in successors(packed, x) if after == y & bare), None)
        if label is not None:
            labels.append(label)
        else:
            labels += [FFail(packed.tasks[0]), FRecover()]
    return labels


# Liveness (Theorem 6.10) and monotone observations (Definition 5.3), decided on the finite graph.
#
# *Liveness*: in a fair execution with finitely many failures every input epoch appears in the output.  A fair execution
# is maximal and takes every step that stays enabled.  So it can miss an epoch in two ways only: it ends in a *dead
# end*, or it stays for ever in a strongly connected part of the graph, without the epoch, in which every step that is
# enabled everywhere is also taken (weak fairness; if the largest such part is not fair, no smaller one is).  With the
# paper's recovery the graph has no cycle, for sequence numbers grow and crashes are counted, so dead ends are enough.
#
# *Monotone*: Definition 5.3 asks for some partial order with O(c) ⊑ O(c') for every step.  There is one exactly if no
# chain of steps leads from an observation to another one and back: the observations, joined by steps, have no cycle.


def fair_cycle(system: CrashSystem, budget: Budget) -> tuple[list[TraceStep], list[TraceStep]] | None:
    """A way into a fair part without the last epoch, and a cycle there; None if every fair execution gets it.

    Dead ends are the business of `pellucid.failures.checker.search`.
    """
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    # what is seen is never taken back by fair executions that matter here
    search = Search([start], lambda x: [] if packed.committed(x) >= system.last else successors(packed, x), budget)
    graph = dict(search)
    order = {x: i for i, x in enumerate(search.parents)}  # breadth first: the first one is nearest
    best: tuple[int, set[int]] | None = None
    for part in components({x: [y for _, y in after] for x, after in graph.items()}):
        inside = set(part)
        edges = [(x, label, y) for x in part for label, y in graph[x] if y in inside]
        if edges and _fair(graph, part, edges):
            entry = min(part, key=order.__getitem__)
            if best is None or order[entry] < order[best[0]]:
                best = entry, inside
    if best is None:
        return None
    moves = lambda labels: not all(isinstance(label, FRecover) for label in labels)
    return search.way(best[0]), shortest_cycle(graph.__getitem__, best[0], best[1], wanted=moves)


def _fair(graph: Mapping[int, list[tuple[TraceStep, int]]], part: list[int], edges: list[Any]) -> bool:
    taken = {label for _, label, _ in edges}
    always = set.intersection(*({label for label, _ in graph[x] if not isinstance(label, FFail)} for x in part))
    return always <= taken


def check_monotone(system: CrashSystem, budget: Budget) -> None:
    """Refuse an observability function that is not monotone, with the two configurations that show it."""
    assert isinstance(system.observation, Own)
    packed = Packed(system)
    start = packed.pack(system.start()) + system.crashes * packed.one_crash
    edges: dict[tuple[Hashable, Hashable], tuple[int, TraceStep, int]] = {}
    for x, steps in Search([start], lambda x: successors(packed, x), budget):
        for label, y in steps:
            before, after = packed.see(x), packed.see(y)
            if before != after:
                edges.setdefault((before, after), (x, label, y))
    graph: dict[Hashable, list[Hashable]] = {}
    for before, after in edges:
        graph.setdefault(before, []).append(after)
        graph.setdefault(after, [])
    number = {o: i for i, part in enumerate(components(graph)) for o in part}
    for (before, after), (x, label, y) in edges.items():
        if number[before] == number[after]:
            c, then = packed.unpack(x).c, packed.unpack(y).c
            raise UsageError(
                f"observe={system.observation.name} is not monotone (Definition 5.3), so an observer could not rely on "
                f"it: {label} takes what is seen from {before!r} to {after!r}, and from there it can come back to "
                f"{before!r}.\n"
                f"  before: {dict(c.Sigma)}\n  after:  {dict(then.Sigma)}\n"
                "An observability function must only grow: show what is committed, as out does"
            )


# The same search without any cleverness, on whole values: for micro-batches, and as the judge of counterexamples.
#
# `pellucid.failures.checker.system.CrashSystem` and `pellucid.failures.checker.microbatch.MicroBatch` are machines.


@dataclass
class LiteralSearch:
    """What a literal search saw."""

    states: int = 0
    transitions: int = 0
    failure_free: int = 0
    unexplained: list[Any] | None = None  # the labels of a shortest trace
    dead_end: list[Any] | None = None
    why: str = ""
    seen: set[Any] = field(default_factory=set)  # every situation that was reached


@dataclass(frozen=True)
class Judged:
    """A trace as the literal rules see it; ``empty_at`` is the first step that leaves no candidate."""

    path: tuple[Any, ...]
    observations: tuple[Any, ...]
    empty_at: int | None
    candidates: Candidates
    before: int  # the last set that was not empty
    free_observations: tuple[Any, ...]


def free_graph(machine: Machine, budget: Budget) -> tuple[Candidates, tuple[Any, ...]]:
    """The failure-free graph, literally, and what each of its situations shows."""
    search: Search[Any, Any] = Search([machine.start()], lambda at: machine.steps(at, failures=False), budget)
    edges = [after for _, after in search]
    number = {at: i for i, at in enumerate(search.parents)}
    seen = tuple(machine.see(at) for at in number)
    return Candidates([[number[then] for _, then in after] for after in edges], seen), seen


def search(machine: Machine, budget: Budget, *, stop: bool = True) -> LiteralSearch:
    """Every situation, each with its set of candidates, breadth first."""
    found = LiteralSearch()
    try:
        candidates, free = free_graph(machine, budget)
        found.failure_free = len(free)

        def steps(x: tuple[Any, int]) -> list[tuple[Any, tuple[Any, int]]]:
            at, number = x
            after = [(label, then, machine.see(then)) for label, then in machine.steps(at)]
            return [
                (label, (then, number if seen == candidates.seen(number) else candidates.after(number, seen)))
                for label, then, seen in after
            ]

        walk = Search([(machine.start(), 1)], steps, budget)
        for x, after in walk:
            found.states, found.transitions = len(walk.parents), walk.transitions
            found.seen.add(x[0])
            if found.unexplained is None and (wrong := next((y for _, y in after if not y[1]), None)) is not None:
                found.unexplained = walk.way(wrong)
                if stop:
                    return found
            crashes = all(str(label).startswith(("F-FAIL", "CRASH")) for label, _ in after)
            if found.dead_end is None and crashes and not machine.complete(x[0]):
                found.dead_end = walk.way(x)
    except CutShort as cut:
        found.why = str(cut)
    return found


def judge(machine: Machine, labels: Sequence[Any], budget: Budget) -> Judged:
    """Replay a trace step by step and ask, independently of the fast search, whether something explains it."""
    candidates, free = free_graph(machine, budget)
    path = follow(machine, labels)
    observations = tuple(machine.see(at) for at in path)
    number, before, empty = 1, 1, None
    for i, seen in enumerate(observations[1:]):
        if empty is None and seen != candidates.seen(number):
            before, number = number, candidates.after(number, seen)
            empty = i if number == 0 else None
    return Judged(tuple(path), observations, empty, candidates, before, free)
