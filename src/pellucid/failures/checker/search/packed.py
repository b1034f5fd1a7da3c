# ruff: noqa: N806 - the paper's letters
"""Situations as integers, steps as differences: what makes a search fast.

A situation is cut into *fields*: one for each task (its state and its sequence numbers), one for each stream (its
messages), one for each durable sink, and one for the logged input.  Each field's values are numbered as they appear,
and a situation is one integer with `BITS` bits for each field.  A step of a task looks at its own field and its own
streams only (S-STEP with a local rule), so ``situation & mask`` names everything the step depends on: the literal rules
are asked once for each such key, and from then on a step is one look-up and one addition.  F-RECOVER is global, but
Definition 4.5 speaks of each task and each stream by itself, so it is put together from parts that are kept, too.

Nothing here knows a rule by heart except that definition (used only where the rules promise it), and the tests hold the
explored sets against `pellucid.failures.checker.system`, configuration by configuration.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from pellucid.errors import UsageError
from pellucid.failures.checker.sinks import Own, Transactional, Uncommitted
from pellucid.failures.checker.system import CrashSystem, Situation, written
from pellucid.failures.model import FL, Configuration, FRecover, IBorder, Map, Message, Normal, Numbers, State

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
        return bool(new) or not isinstance(observation, Uncommitted)

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
