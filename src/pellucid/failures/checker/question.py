"""``check.failures``: may the user of this pipeline forget that it can crash?

It builds the system (`system`, `rules`, `sinks`; or `microbatch`), searches it (`explore`, reduced; `literal` for
micro-batches), and answers with a verdict.  A "no" is made as short as possible by a second search in which nothing is
reduced, then replayed on the literal rules and judged there once more before it is reported.  A search looks at one
input and so many crashes, so where it finds nothing the answer is *bounded*; and *unknown* where a task is no function
(`calls`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pellucid.errors import UsageError, by_new_names
from pellucid.failures.checker.microbatch import MicroBatch
from pellucid.failures.checker.search import (
    Explored,
    Judged,
    check_monotone,
    explore,
    fair_cycle,
    judge,
    labels_to,
    search,
)
from pellucid.failures.checker.system import (
    SINKS,
    Calls,
    CrashSystem,
    MayDiffer,
    NotReplayable,
    Observation,
    Own,
    Rules,
    UnalignedRules,
    sink_streams,
)
from pellucid.failures.model import (
    EV,
    Configuration,
    Consume,
    FFail,
    FRecover,
    IBorder,
    IEvent,
    Message,
    gce,
    valid_initial,
)
from pellucid.failures.model.tasks import TaskGraph, tasks_of
from pellucid.failures.picture import from_trace, spacetime_svg
from pellucid.internal.draw.labels import clean
from pellucid.internal.draw.svg import lines_svg
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, EnumType, Type
from pellucid.internal.graph.model import Graph
from pellucid.internal.model import Budget, Counterexample, CutShort, Machine, Status, Verdict, follow
from pellucid.internal.model.pytest_file import Case, Imports
from pellucid.internal.model.search import stopping

# What `check.failures` is given: each argument is looked at before anything is built, and those that contradict each
# other are refused.

SOURCES = ("replayable", "not-replayable")
PROTOCOLS = ("aligned", "unaligned", "microbatch")


@dataclass(frozen=True)
class GivenArguments:
    """The arguments of a question about failures."""

    p: Any
    epochs: Any
    events: Any
    crashes: Any
    sink: Any
    source: Any
    protocol: Any
    observe: Any
    inputs: Any
    rules: Any
    fuse: Any
    timeout: Any
    max_states: Any
    progress: Any

    def said(self) -> dict[str, Any]:
        """The arguments that say what is asked, where they are not the usual ones."""
        usual = {"crashes": 2, "source": "replayable", "protocol": "aligned", "fuse": False}
        names = ("epochs", "events", "crashes", "sink", "source", "protocol", "observe", "inputs", "rules", "fuse")
        values = {name: getattr(self, name) for name in names}
        return {name: v for name, v in values.items() if v is not None and v != usual.get(name)}

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("events", 0), ("crashes", 0), ("max_states", 1)):
            value = getattr(self, name)
            if value is None and name in ("epochs", "events"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name}= takes a whole number from {least} on, found {value!r}")
        if self.timeout is not None and (
            isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float) or not self.timeout > 0
        ):
            raise UsageError(f"timeout= takes a number of seconds above 0, or None, found {self.timeout!r}")
        if self.progress is not None and not callable(self.progress):
            raise UsageError(f"progress= takes a function of a dict, found {self.progress!r}")
        _one_of("source", self.source, SOURCES)
        _one_of("protocol", self.protocol, PROTOCOLS)
        if self.rules is not None and not isinstance(self.rules, Rules):
            batch = isinstance(self.rules, type) and issubclass(self.rules, MicroBatch)
            if not batch or self.protocol != "microbatch":
                raise UsageError(
                    "rules= takes an object of pellucid.failures.Rules (with protocol='microbatch' a subclass of "
                    f"MicroBatch), found {self.rules!r}"
                )
        elif self.rules is not None and (
            self.protocol == "microbatch" or isinstance(self.rules, UnalignedRules) != (self.protocol == "unaligned")
        ):
            raise UsageError(
                f"rules={self.rules.name!r} are not rules of the protocol {self.protocol!r}: leave one of them out, or "
                "take another"
            )
        self._observed()
        self._input()

    def _observed(self) -> None:
        if self.observe is not None and not callable(self.observe):
            raise UsageError(f"observe= takes a function of a configuration, found {self.observe!r}")
        if self.observe is not None and self.sink is not None:
            raise UsageError(
                f"sink={self.sink if isinstance(self.sink, str) else self.sink.__class__.__name__!r} and observe= both "
                "say what is seen: leave one of them out"
            )
        if self.observe is not None and self.protocol == "microbatch":
            raise UsageError("observe= looks at configurations of tasks, which micro-batches do not have: leave it out")
        if self.sink is not None and not isinstance(self.sink, Observation):
            _one_of("sink", self.sink, tuple(SINKS))
        if (
            isinstance(self.sink, Observation)
            and self.protocol == "microbatch"
            and type(self.sink) not in SINKS.values()
            and not self.sink.durable
        ):
            raise UsageError(
                f"the sink {self.sink.name!r} looks at configurations of tasks, which micro-batches do not have: "
                "one of your own must be durable, and hold what is written to it"
            )

    def _input(self) -> None:
        if isinstance(self.p, Configuration):
            for name in ("epochs", "events"):
                if getattr(self, name) is not None:
                    raise UsageError(f"{name}= is for made-up input: a configuration has its input already")
            if self.fuse is not False:
                raise UsageError("fuse= is for pipelines: a configuration has its tasks already")
        if not isinstance(self.inputs, list | tuple | Mapping):
            return
        lists = list(self.inputs.values()) if isinstance(self.inputs, Mapping) else [self.inputs]
        many = {len(epochs) for epochs in lists if isinstance(epochs, list | tuple)}
        if self.epochs is not None and many and many != {self.epochs}:
            raise UsageError(
                f"epochs={self.epochs} and inputs= with {', '.join(map(str, sorted(many)))} epoch(s) contradict each "
                "other: leave epochs= out"
            )
        sizes = {
            len(e)
            for epochs in lists
            if isinstance(epochs, list | tuple)
            for e in epochs
            if isinstance(e, list | tuple)
        }
        if self.events is not None and sizes and sizes != {self.events}:
            shown = ", ".join(map(str, sorted(sizes)))
            raise UsageError(
                f"events={self.events} and inputs= with epochs of {shown} event(s) contradict each other: leave "
                "events= out"
            )

    @property
    def many_epochs(self) -> int:
        """How many epochs are made up."""
        return 2 if self.epochs is None else int(self.epochs)

    @property
    def many_events(self) -> int:
        """How many events are made up for each epoch."""
        return 2 if self.events is None else int(self.events)

    def observation(self) -> Observation:
        """What is seen."""
        if self.observe is not None:
            return Own(self.observe)
        if isinstance(self.sink, Observation):
            return self.sink
        return SINKS[self.sink or "transactional"]()

    def batch_sink(self, observation: Observation) -> str | Observation:
        """The sink of a query: one that micro-batches know by name, or one of the user's own."""
        return observation.name if type(observation) in SINKS.values() else observation

    def rules_in_force(self) -> Rules:
        """Those that are given, else those of the protocol."""
        found = self.rules or (UnalignedRules() if self.protocol == "unaligned" else Rules())
        return NotReplayable(found) if self.source == "not-replayable" else found


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{name}= takes {', '.join(map(repr, known))}, found {value!r}")


# What is checked: a pipeline or a bare graph of tasks, with an input that is given or made up.
#
# Made-up events are all different where their type allows it, so that an event that is lost, doubled or late can be
# told from the others: integers count from 1, texts are a, b, c, …, truth values and enums go round.


def configuration_of(
    p: Any, epochs: int, events: int, inputs: Any, fuse: bool | Mapping[str, Sequence[str]] = False
) -> tuple[Configuration, tuple[str, ...]]:
    """The initial configuration, and the streams that sinks read.

    >>> from pellucid import pipeline
    >>> c, sinks = configuration_of(pipeline(lambda x: x + 1, x=int), 1, 2, None)
    >>> sorted(str(m) for m in c.M), len(sinks)
    (['0 x ⟨1, EV(1)⟩', '1 x ⟨1, EV(2)⟩', '2 x ⟨1, BD⟩'], 1)
    """
    if isinstance(p, Configuration):
        if inputs is not None:
            raise UsageError("inputs= is for pipelines: a configuration has its input already")
        valid_initial(p)
        return p, sink_streams(p)
    if not isinstance(fuse, bool | Mapping):
        raise UsageError(f"fuse= takes True or a dict from names of tasks to steps, found {fuse!r}")
    if not isinstance(inputs, list | tuple | Mapping | None):
        raise UsageError(f"inputs= takes a list of epochs, or a dict of them by source, found {inputs!r}")
    if isinstance(p, TaskGraph):
        model = p
    elif isinstance(p, Graph) or hasattr(p, "graph"):
        model = tasks_of(p, fuse=fuse)
    else:
        raise UsageError(f"check.failures takes a pipeline or an initial configuration of tasks, found {p!r}")
    if inputs is None:
        sources = [model.graph.nodes[i] for i in model.graph.sources]
        many = epochs * events
        inputs = {}
        for at, node in enumerate(sources):
            values = [made_up(node.type, at * many + k) for k in range(many)]
            inputs[node.id] = [values[e * events : (e + 1) * events] for e in range(epochs)]
    sinks = tuple(dict.fromkeys(stream for stream, _ in model.outputs.values()))
    return model.initial(inputs), sinks


def made_up(t: Type, k: int) -> Any:
    """The k-th event of a type.

    >>> [made_up(INT, 0), made_up(FLOAT, 1), made_up(STR, 2), made_up(BOOL, 3)]
    [1, 2.0, 'c', False]
    """
    return t.event([_leaf(kind, k) for _, kind in t.leaves()])


def _leaf(kind: Type, k: int) -> Any:
    if isinstance(kind, EnumType):
        return kind.members[k % len(kind.members)]
    if kind == BOOL:
        return k % 2 == 0
    if kind == STR:
        return "abcdefghijklmnopqrstuvwxyz"[k % 26] + (str(k // 26) if k >= 26 else "")
    if kind == FLOAT:
        return float(k + 1)
    assert kind == INT
    return k + 1


# A counterexample in words: what happened, what was seen, and why no failure-free execution shows that.

Told: TypeAlias = tuple[list[str], list[tuple[int, str]], list[Any]]


@dataclass(frozen=True)
class FaultyExecution(Counterexample):
    """A faulty execution that nothing explains, or that ends without all its output: ``steps`` are the rules applied.

    ``start`` is the configuration it starts from, ready for `pellucid.failures.picture.from_trace`; ``lines`` tell
    it; ``tell`` follows its steps on the literal rules and tells what is seen.
    """

    start: Configuration | None = None
    lines: tuple[str, ...] = ()
    seen: tuple[tuple[int, str], ...] = ()  # after which step (0: before the first) what was seen
    kind: str = "not explained"  # or: not live
    tell: Callable[[Sequence[Any]], Told] | None = field(default=None, compare=False, repr=False)
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # of `check.failures`

    @property
    def trace(self) -> tuple[Any, ...]:
        """The steps, by the name that the paper gives them."""
        return self.steps

    def text(self, question: str = "", *, width: int | None = None) -> str:
        """The lines."""
        return "\n".join(self.lines)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind,
            "why": self.why,
            "loop": self.loop,
            "steps": [str(label) for label in self.steps],
            "seen": [{"after": at, "what": what} for at, what in self.seen],
        }

    def picture(self, question: str = "") -> str:
        """The space-time picture as SVG; of micro-batches, which have no messages between tasks, the lines."""
        if self.start is None:
            return lines_svg(self.lines, self.why)
        drawn = [label for label in self.steps if getattr(label, "X", True)]  # one without messages has no place there
        return spacetime_svg(from_trace(drawn, self.start), title=self.why.split(":")[0])

    def replay(self) -> bool:
        """Whether the literal rules take these steps once more, and show the same."""
        assert self.tell is not None
        try:
            return tuple(self.tell(self.steps)[1]) == self.seen
        except UsageError:
            return False

    def test(self, case: Case, imports: Imports) -> list[str]:
        """The question is asked once more, and its shortest answer is followed on the literal rules."""
        if not self.graphs or not all(case.names):
            raise UsageError(
                "a test of a faulty execution needs a pipeline with a name: a bare graph of tasks has none"
            )
        odd = [name for name, value in self.asked.items() if not _is_plain(value)]
        if odd:
            raise UsageError(f"a test cannot name the object given as {odd[0]}=: write one by hand, with replay()")
        imports.need(case.files[0], case.names[0])
        imports.tools.add("check")
        more = "".join(f", {name}={value!r}" for name, value in self.asked.items())
        return [
            f"    # {clean(self.why)}",
            f"    example = check.failures({case.names[0]}{more}).counterexample",
            "    assert example is not None and example.replay()",
            "    assert [str(step) for step in example.steps] == [",
            *(f"        {str(label)!r}," for label in self.steps),
            "    ]",
        ]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, [*value, *value.values()]))
    return isinstance(value, str | int | float | None) or (isinstance(value, list) and all(map(_is_plain, value)))


def step_words(label: Any, c: Configuration, then: Configuration) -> str:
    """One step in words, from one configuration to the next.

    >>> from pellucid.failures.model import Task, initial, steps
    >>> c = initial({"t": Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [[1]]}, {"t": 0})
    >>> for label, then in steps(c): print(step_words(label, c, then))
    t takes 1 from i and gives 1 to o
    t crashes
    """
    if isinstance(label, FFail):
        return f"{label.p} crashes"
    if isinstance(label, FRecover):
        return f"all recover (greatest common epoch: {gce(c)})"
    if not isinstance(label, IEvent | IBorder):
        return str(label)
    took: dict[str, list[str]] = {}
    gave: dict[str, list[str]] = {}
    for x in label.X:
        word = repr(x.d.w) if isinstance(x.d, EV) else f"border {x.e}"
        (took if isinstance(x, Consume) else gave).setdefault(x.s, []).append(word)
    parts = []
    if took:
        parts.append("takes " + " and ".join(f"{', '.join(words)} from {s}" for s, words in took.items()))
    parts += [f"stores snapshot {e}" for e in then.Sigma[label.p].archive.keys() - c.Sigma[label.p].archive.keys()]
    if gave:
        parts.append("gives " + " and ".join(f"{', '.join(words)} to {s}" for s, words in gave.items()))
    elif not parts:
        parts.append("processes an event that it had kept")
    return f"{label.p} " + (", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0])


def told(machine: Machine, labels: Sequence[Any], observation: Observation) -> Told:
    """The lines of a trace, followed on the literal rules, with what was seen wherever that changed; that alone; and
    the situations on the way."""
    path = follow(machine, labels)
    configurations = [getattr(at, "c", at) for at in path]
    observations = [machine.see(at) for at in path]
    width = len(str(len(labels)))
    first = observation.tell(observations[0])
    lines, seen = [], [(0, first)]
    for i, label in enumerate(labels):
        lines.append(f"{i + 1:{width}}  {step_words(label, configurations[i], configurations[i + 1])}")
        if observations[i + 1] != observations[i]:
            what = observation.tell(observations[i + 1])
            if what == observation.tell(observations[i]):
                what = _in_full(observations[i + 1])
            lines.append(f"{'':{width}}    seen: {what}")
            seen.append((i + 1, what))
    return lines, seen, path


def differs(judged: Judged, observation: Observation) -> str:
    """Why nothing explains the last observation of a trace."""
    last, ever = judged.observations[-1], judged.observations[-1] in set(judged.free_observations)
    close = min(judged.candidates.next_seen(judged.before), key=lambda seen: _distance(seen, last), default=None)
    mine, other = _where_they_differ(last, close)
    words, others = observation.tell(mine), observation.tell(other)
    if close is not None and words == others:
        words, others = _in_full(mine), _in_full(other)
    if close is not None and words == others:
        words, others = (f"{words} ({type(seen).__name__} object {i})" for i, seen in enumerate((mine, other), 1))
    why = f"no failure-free execution shows this: {words}"
    if ever:
        why = f"no failure-free execution shows this after what was seen before: {observation.tell(last)}"
    elif close is not None:
        why += f"; the nearest that one shows is: {others}"
    return why


def _in_full(seen: Any) -> str:
    """An observation with all that it is made of, where its words leave out what makes the difference.

    >>> _in_full(frozenset({Message(0, "x", 1, EV("a")), Message(2, "x", 1, EV("b"))}))
    "x: 'a' (number 0, epoch 1), 'b' (number 2, epoch 1)"
    """
    if not isinstance(seen, frozenset) or not all(isinstance(m, Message) for m in seen):
        return repr(seen)
    by: dict[str, list[str]] = {}
    for m in sorted(seen, key=lambda m: (m.s, m.n, m.e)):
        what = repr(m.d.w) if isinstance(m.d, EV) else "border"
        by.setdefault(m.s, []).append(f"{what} (number {m.n}, epoch {m.e})")
    return "; ".join(f"{s}: {', '.join(messages)}" for s, messages in by.items()) or "nothing"


def _where_they_differ(a: Any, b: Any) -> tuple[Any, Any]:
    """Of two sets of messages, those on the streams that differ."""
    if not isinstance(a, frozenset) or not isinstance(b, frozenset) or not all(isinstance(m, Message) for m in a ^ b):
        return a, b
    streams = {m.s for m in a ^ b}
    return frozenset(m for m in a if m.s in streams), frozenset(m for m in b if m.s in streams)


def _distance(a: Any, b: Any) -> tuple[int, int, str]:
    if isinstance(a, frozenset) and isinstance(b, frozenset) and all(isinstance(m, Message) for m in a ^ b):
        epochs = max((m.e for m in a), default=0) - max((m.e for m in b), default=0)
        return abs(epochs), len(a ^ b), repr(sorted(map(str, a)))
    return 0, -int(1000 * SequenceMatcher(None, repr(a), repr(b), autojunk=False).ratio()), repr(a)


S = TypeVar("S", CrashSystem, MicroBatch)


def failures(
    p: Any,
    *,
    epochs: int | None = None,
    events: int | None = None,
    crashes: int = 2,
    sink: str | Observation | None = None,
    source: str = "replayable",
    protocol: str = "aligned",
    observe: Callable[[Configuration], Hashable] | None = None,
    inputs: Any = None,
    rules: Rules | type[MicroBatch] | None = None,
    fuse: bool | Mapping[str, Sequence[str]] = False,
    timeout: float | None = 60.0,
    max_states: int = 2_000_000,
    progress: Callable[[dict[str, Any]], None] | None = None,
    variant: Rules | type[MicroBatch] | None = None,
) -> Verdict:
    """Whether crashes cannot be told from the outside (Definition 5.10), and all output comes at last (Theorem 6.10).

    ``p`` is a pipeline, or a bare graph of tasks as an initial configuration (`pellucid.failures.model`).
    Every interleaving of its tasks is tried, with up to ``crashes`` crashes anywhere, on one input of ``epochs`` epochs
    of ``events`` events each (2 and 2, made up, unless ``inputs`` gives them: a list of epochs, by name if there are
    several sources).  So where nothing is found the answer is *bounded* by that, and never *proved*.

    ``sink`` is ``transactional`` (the default), ``idempotent``, ``append`` or an `Observation` of one's own; ``source``
    is ``replayable`` or ``not-replayable``; ``protocol`` is ``aligned`` (the paper), ``unaligned`` or ``microbatch``
    (Spark).  ``observe`` is an observability function of one's own, from a `Configuration` to a value; it must be
    monotone.  ``rules`` are rules of one's own (`pellucid.failures.Rules`; ``variant`` is their earlier name),
    ``fuse`` puts steps together into one task.

    >>> from pellucid import check, pipeline
    >>> total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0, id="sum"), x=int)
    >>> print(check.failures(total))
    bounded  crashes cannot be seen (aligned, transactional sink, replayable source): nothing found in an input of 2
    epochs of 2 events each (made up), with at most 2 crashes  (explicit, interleavings, ...)
      not proved: what is beyond this bound was not looked at
    >>> print(check.failures(total, sink="append", epochs=1, events=1).counterexample)
    1  sum takes 1 from x and gives 1 to sum
         seen: sum: 1
    2  sum crashes
    3  all recover (greatest common epoch: 0)
    4  sum takes 1 from x and gives 1 to sum
         seen: sum: 1, 1
    no failure-free execution shows this: sum: 1, 1; the nearest that one shows is: sum: 1
    """
    if variant is not None:
        known = {"variant": variant, "rules": rules}
        rules = by_new_names("check.failures", {"variant": "rules"}, known, level=3)["rules"]
    given = GivenArguments(
        p,
        epochs,
        events,
        crashes,
        sink,
        source,
        protocol,
        observe,
        inputs,
        rules,
        fuse,
        timeout,
        max_states,
        progress,
    )
    observation = given.observation()
    c, sinks = configuration_of(p, given.many_epochs, given.many_events, inputs, fuse)
    budget = Budget(timeout, max_states, progress)
    shown = f"seen through {observation.name}" if observe is not None else f"{observation.name} sink"
    how = f"{protocol}{'' if rules is None else f', rules {rules.name}'}, {shown}, {source} source"
    bound = f"{_size(c)}{'' if inputs is not None or isinstance(p, Configuration) else ' (made up)'}, with "
    bound += f"at most {_count(crashes, 'crash', 'crashes')}" if crashes else "no crash"
    asked = _Asked(
        f"crashes cannot be seen ({how})", bound, budget, time.perf_counter(), getattr(p, "graph", p), given.said()
    )
    if protocol == "microbatch":
        query = (rules if isinstance(rules, type) else MicroBatch)(
            c,
            sink=given.batch_sink(observation),
            crashes=crashes,
            replayable=source == "replayable",
            sinks=tuple(sinks),
        )
        return asked.answer(query, partial(_microbatch, observation=observation))
    system = CrashSystem(c, crashes=crashes, rules=given.rules_in_force(), observation=observation, sinks=sinks)
    return asked.answer(system, _decide)


# ---------------------------------------------------------------- what was asked


@dataclass
class _Asked:
    """The question, and how its verdicts are made."""

    question: str
    bound: str
    budget: Budget
    started: float
    graph: Any
    said: dict[str, Any]
    states: int = 0
    transitions: int = 0
    free: int = 0

    def saw(self, found: Any) -> None:
        """Count what a search saw."""
        self.states, self.transitions, self.free = found.states, found.transitions, found.failure_free

    def answer(self, system: S, decide: Callable[[_Asked, S], Verdict]) -> Verdict:
        """What is decided, unless time is up, or a task turns out to be no function."""
        try:
            with self.budget.kept(), stopping(self.budget.timeout):
                verdict: Verdict = decide(self, system)
                system.calls.ask_again()
        except (MayDiffer, CutShort) as why:
            return self.verdict("unknown", notes=(str(why),))
        return _assuming(verdict, system.calls)

    def verdict(
        self, status: Status, example: FaultyExecution | None = None, notes: tuple[str, ...] = (), **details: Any
    ) -> Verdict:
        seconds = time.perf_counter() - self.started
        counted = {"states": self.states, "transitions": self.transitions, "failure_free_states": self.free}
        engine = "explicit, interleavings"
        bound = self.bound if status == "bounded" else ""
        return Verdict(status, self.question, engine, seconds, example, notes, {**counted, **details}, bound=bound)

    def example(
        self, machine: Machine, labels: Sequence[Any], observation: Observation, why: str, loop: int | None = None,
        *, start: Configuration | None = None, live: bool = True,
    ) -> FaultyExecution:  # fmt: skip
        """A faulty execution, told as the literal rules see it."""
        lines, seen, _ = told(machine, labels, observation)
        about = (self.graph,) if isinstance(self.graph, Graph) else ()
        kind = "not explained" if live else "not live"
        return FaultyExecution(
            about, tuple(labels), loop, why, start, (*lines, why), tuple(seen), kind,
            lambda steps: told(machine, steps, observation), self.said,
        )  # fmt: skip


def _assuming(verdict: Verdict, calls: Any) -> Verdict:
    """A verdict with what it assumes of the functions that were called, in its first line."""
    if verdict.unknown:
        return verdict
    assumed = f", assuming {'; '.join(calls.assumptions)}" if calls.assumptions else ""
    never = _never(calls) if verdict.bounded else ()
    return replace(verdict, question=verdict.question + assumed, notes=(*verdict.notes, *never))


# ---------------------------------------------------------------- tasks that exchange messages


def _decide(asked: _Asked, system: CrashSystem) -> Verdict:
    if isinstance(system.observation, Own):
        check_monotone(system, asked.budget)
    found = explore(system, asked.budget)
    asked.saw(found)
    if found.unexplained is not None:
        short = explore(system, asked.budget, reduce=False, reduce_free=True)
        best, note = (
            (short, ()) if short.unexplained is not None else (found, ("there may be a shorter one: " + short.why,))
        )
        example = _unexplained(asked, system, best)
        return asked.verdict("refuted", example, note, explained=False)
    if found.why:
        return asked.verdict("unknown", notes=(found.why,))
    if found.dead_end is not None:
        short = explore(system, asked.budget, reduce=False, reduce_free=True)
        best = short if short.dead_end is not None else found
        return asked.verdict("refuted", _dead_end(asked, system, best), explained=True, live=False)
    if not system.rules.paper_recovery:
        stuck = fair_cycle(system, asked.budget)
        if stuck is not None:
            return asked.verdict("refuted", _cycle(asked, system, *stuck), explained=True, live=False)
    return asked.verdict("bounded", explained=True, live=True)


def _unexplained(asked: _Asked, system: CrashSystem, found: Explored) -> FaultyExecution:
    assert found.unexplained is not None
    labels = labels_to(found, found.unexplained)
    try:
        judged = judge(system, labels, Budget(30.0, 100_000))
    except CutShort:  # too many failure-free executions to list literally; the trace itself is still replayed
        last = system.see(follow(system, labels)[-1])
        why = f"no failure-free execution shows this: {system.observation.tell(last)}"
    else:
        if judged.empty_at != len(labels) - 1:
            raise AssertionError(f"the literal rules explain what the search could not: {[str(z) for z in labels]}")
        why = differs(judged, system.observation)
    return asked.example(system, labels, system.observation, why, start=system.c)


def _dead_end(asked: _Asked, system: CrashSystem, found: Explored) -> FaultyExecution:
    assert found.dead_end is not None
    labels = labels_to(found, found.dead_end)
    reached, behind = _reached(system, labels)
    why = (
        f"nothing can be done any more, and epoch {reached + 1} never appears in the output: "
        f"{', '.join(behind)} {'waits' if len(behind) == 1 else 'wait'} for ever"
    )
    return asked.example(system, labels, system.observation, why, start=system.c, live=False)


def _cycle(asked: _Asked, system: CrashSystem, way: list[Any], loop: list[Any]) -> FaultyExecution:
    labels = [*way, *loop]
    why = (
        f"from step {len(way) + 1} on this repeats for ever, fairly, and epoch {_reached(system, labels)[0] + 1} never "
        "appears in the output"
    )
    return asked.example(system, labels, system.observation, why, len(way), start=system.c, live=False)


def _reached(system: CrashSystem, labels: Sequence[Any]) -> tuple[int, list[str]]:
    """The last epoch that all tasks have, and who is not beyond it."""
    tasks = follow(system, labels)[-1].c.Sigma
    reached = min(max(state.archive) for state in tasks.values())
    return reached, [p for p, state in tasks.items() if max(state.archive) == reached]


# ---------------------------------------------------------------- micro-batches


def _microbatch(asked: _Asked, query: MicroBatch, observation: Observation) -> Verdict:
    found = search(query, asked.budget)
    asked.saw(found)
    labels = found.unexplained or found.dead_end
    if labels is None:
        if found.why:
            return asked.verdict("unknown", notes=(found.why,))
        return asked.verdict("bounded", explained=True, live=True)
    shows = _Shown(observation)
    if found.unexplained is not None:
        judged = judge(query, labels, Budget())
        assert judged.empty_at == len(labels) - 1
        why = differs(judged, shows)
    else:
        why = "the query has nothing more to do, and not all of its input is in the sink"
    example = asked.example(query, labels, shows, why, live=found.unexplained is not None)
    return asked.verdict("refuted", example, explained=found.unexplained is None, live=found.dead_end is None)


class _Shown(Observation):
    """What the sink of a query holds, in words."""

    def __init__(self, sink: Observation) -> None:
        self.sink = SINKS["append"]() if type(sink) is SINKS["transactional"] else sink

    def tell(self, seen: Any) -> str:
        return self.sink.tell(seen)


def _size(c: Configuration) -> str:
    """How much input there is, in words."""
    sizes: dict[tuple[str, int], int] = {}
    for m in c.D:
        sizes[m.s, m.e] = sizes.get((m.s, m.e), 0) + isinstance(m.d, EV)
    epochs = _count(max((e for _, e in sizes), default=0), "epoch")
    one_each = len(set(sizes.values())) == 1
    many = (
        f" of {_count(sizes.popitem()[1], 'event')} each" if one_each else f", {_count(sum(sizes.values()), 'event')}"
    )
    return f"an input of {epochs}{many}"


def _never(calls: Calls) -> tuple[str, ...]:
    """What could not be seen because it never happened."""
    if not calls.silent:
        return ()
    verb = "puts" if len(calls.silent) == 1 else "put"
    return (
        f"{', '.join(calls.silent)} {verb} out nothing for this input, so nothing was tried of what would follow: "
        "inputs= gives another",
    )


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
