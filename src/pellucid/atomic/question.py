"""``check.atomic``: does a network keep atomic failure, and can each of its transactions always be decided?

Parts, each with a verdict of its own: A1 to A3, C1 and C2 (causal consistency is both), subject reduction (*types*),
one place per transaction (*place*), and for every transaction its *progress*, with the reason why it sticks.  Progress
is a question about a network; the others hold for every network under the corrected rules, and fall for mutants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import TOO_DEEP, Atomic, Rules, Step, View
from pellucid.atomic.running import NetworkRun, network_of
from pellucid.atomic.state import TAKES, Item, State, missing_places, nowhere
from pellucid.atomic.syntax import process_text
from pellucid.atomic.typing import Checker, IllTyped, System, unfolded
from pellucid.errors import UsageError, nearest
from pellucid.internal.model import Budget, CutShort, Search, Verdict, combined, follow, now

# What every run keeps: A1 to A3, C1, C2, and two formulations of causal consistency that are false.
#
# u ⇝ t says that t took a message of u, in any log, or is its child.  C and A are the committed and the aborted ones, E
# is the closure of A under ⇝.  ``undo`` takes E out of a state: its processes and messages, its records, and what it
# took stands there again.  C2 says that the result could have come about without E; C1, that nothing of E is committed.
# Causal consistency is both.  *F0* (only A is taken out) and *F1* (doomed readers keep what they took) are kept because
# they sound right: the corrected rules break them, too.

SAYS = {
    "A1": "nothing is both committed and aborted",
    "A2": "nothing committed depends on an aborted one",
    "A3": "what a committed one depends on is committed",
    "C1": "nothing doomed is committed",
    "C2": "what remains when the doomed are undone could have come about without them",
    "types": "every state is well typed (Lemma 1)",
    "place": "every transaction runs at one place",
    "F0": "what remains when the aborted alone are undone could have come about without them",
    "F1": "the same as C2, where doomed readers keep what they took",
}
USUAL = ("A1", "A2", "A3", "C1", "C2", "types")


def undo(machine: Atomic, at: State, out: frozenset[str], *, keep: bool = False) -> State:
    """undo_E(N).  Messages that a member took stand there again, as a multiset, unless RED ABORT put them there or
    their sender is a member, too; what made a child that is undone stands there again as well.  ``keep``: not those of
    members that did not abort (F1)."""
    store, aborted = machine.store, machine.view(at).aborted
    soups = [[i for i in soup if store.items[i].trans not in out] for soup in at.soups]
    logs: list[list[int]] = []
    for place, log in enumerate(at.logs):
        kept = []
        for e in log:
            entry = store.entries[e]
            if entry.subject not in out:
                kept.append(e)
                continue
            message = entry.message
            if message is None or message.trans in out:
                continue
            restored = entry.subject in aborted or keep
            if entry.kind == "CHILD" or (entry.kind in TAKES and not restored):
                soups[place].append(store.item(message))
        logs.append(kept)
    return store.state(soups, logs, machine._fresh(at), 0)


class Judge:
    """Which properties a state breaks, and why; remembers what can be reached without which transactions."""

    def __init__(self, machine: Atomic, budget: Budget | None = None) -> None:
        self.machine, self.budget = machine, budget or Budget(None, None)
        self._reach: dict[State, frozenset[State]] = {}
        self._typed: dict[tuple[int, tuple[object, ...]], str] = {}
        self._logs: dict[object, dict[str, str]] = {}
        self.checker = Checker(machine.system)

    def broken(self, at: State, names: tuple[str, ...]) -> dict[str, str]:
        """The properties among these that do not hold in a state, each with why."""
        out = {}
        for name in names:
            why = self._types(at) if name == "types" else self._why(name, at)
            if why:
                out[name] = why
        return out

    def _why(self, name: str, at: State) -> str:
        view = self.machine.view(at)
        if name in ("C2", "F0", "F1"):
            if not view.aborted:
                return ""
            out = view.aborted if name == "F0" else view.doomed()
            return self._undone(at, out, keep=name == "F1")
        found = self._logs.setdefault(view, {})
        if name not in found:
            found[name] = self._by_logs(name, at)
        return found[name]

    def _by_logs(self, name: str, at: State) -> str:
        view = self.machine.view(at)
        if name == "A1":
            both = view.committed & view.aborted
            return f"{_list(both)} is committed and aborted" if both else ""
        if name == "A2":
            for u in sorted(view.aborted):
                readers = frozenset(t for v, t in view.depends if v == u)
                for t in sorted(view.after(readers) & view.committed):
                    return f"{t} is committed and depends on {u}, which is aborted"
            return ""
        if name == "A3":
            for u, t in sorted(view.depends):
                if t in view.committed and u not in view.committed:
                    return f"{t} is committed and depends on {u}, which is not"
            return ""
        doomed = view.doomed() & view.committed
        if not doomed:
            return ""
        t = min(doomed)
        if t in view.aborted:
            return f"{t} is committed, and aborted"
        by = min(u for u in view.aborted if t in view.after(frozenset({u})))
        return f"{t} is committed, and doomed by {by}, which aborted"

    def _undone(self, at: State, out: frozenset[str], *, keep: bool) -> str:
        machine = self.machine
        then = undo(machine, at, out, keep=keep)
        start = undo(machine, machine.start(), frozenset(t for t in out if not t.startswith("~")))
        if then in self._without(start):
            return ""
        return (
            f"when {_list(out)} {'is' if len(out) == 1 else 'are'} undone, what remains could not have come about alone"
        )

    def _without(self, start: State) -> frozenset[State]:
        if start not in self._reach:
            search = Search([start._replace(left=self.machine.unfold)], self.machine.steps, self.budget)
            self._reach[start] = frozenset(found._replace(left=0) for found in search.all())
        return self._reach[start]

    def _types(self, at: State) -> str:
        store = self.machine.store
        gamma: dict[str, s.Type] | None = None
        for soup in at.soups:
            for i in soup:
                key = i, tuple(at.fresh[int(name[1:])] for name in store.item_fresh[i])
                if key not in self._typed:
                    gamma = gamma or dict(store.gamma(at))
                    self._typed[key] = self._no_type(at, store.items[i], gamma)
                if self._typed[key]:
                    return self._typed[key]
        return ""

    def _no_type(self, at: State, item: Item, gamma: dict[str, s.Type]) -> str:
        """Why an item has no type, with the names of the text; nothing if it has one."""
        try:
            self.checker.process(item.process, gamma)
        except IllTyped as wrong:
            store = self.machine.store
            said, names = store.said(at, item), {name: gamma[own] for own, name in store.called(at).items()}
            why = wrong
            try:
                self.checker.process(said.process, {**gamma, **names})
            except IllTyped as as_written:
                why = as_written
            return f"{said} has no type any more: {str(why).splitlines()[0]}"
        return ""


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


@cache
def may_abort(p: s.Process) -> bool:
    """Whether an abort could come out of a process: one stands in it, or it opens what others sent.

    >>> may_abort(s.Receive(s.Out(s.Param("c")), s.Cont("x", None, s.Abort()), s.Stop())), may_abort(s.Commit())
    (True, False)
    """
    match p:
        case s.Abort() | s.Open():
            return True
        case s.Receive(_, then, otherwise):
            return may_abort(then.body) or may_abort(otherwise)
        case s.Crypt(_, _, then) | s.Decrypt(_, _, then) | s.Continue(then, _):
            return may_abort(then.body)
        case s.Let(_, _, body) | s.Replicate(body) | s.NewIn(_, _, body):
            return may_abort(body)
        case s.Par(parts):
            return any(may_abort(part) for part in parts)
        case s.Forward(_, _, then, otherwise):
            return may_abort(then) or may_abort(otherwise)
        case _:
            return False  # a message's process and a child's run in other transactions


# What sticks: transactions that can never be decided any more, and why; messages that wait for ever.


def hopeless(machine: Atomic, at: State, trans: str) -> bool:
    """Whether a transaction that is not decided can never be, whatever happens, and however often ``!`` unfolds: it
    depends on an aborted one, or nothing but messages is left of it, and no abort can come out of it.

    >>> from pellucid.atomic import parse
    >>> text = "new t, u: Trans. new p: Place. new c: Chan[<>]. p[ t{send(in c, <>)} | u{commit} ]"
    >>> machine = Atomic(parse(text))
    >>> hopeless(machine, machine.start(), "t"), hopeless(machine, machine.start(), "u")
    (True, False)
    """
    rules = machine.rules
    if rules.cascade or rules.crash:
        return False  # others may abort it
    items = [machine.store.items[i] for soup in at.soups for i in soup]
    mine = [p for t, p in items if t == trans and not isinstance(p, s.Send)]
    if not mine:
        return True
    if rules.commit != "closed" or rules.abort_committed or not rules.mobile_received:
        return False  # who depends on an aborted one may commit
    return trans in machine.doomed(at) and not any(map(may_abort, mine))


def lost(machine: Atomic, at: State, place: int) -> Iterator[str]:
    """The messages of a place that can neither go on from there nor be read there, in words.

    >>> from pellucid.atomic import parse
    >>> text = "new t: Trans. new p, q: Place. new c: Chan[<>]. p[ q[ t{send(out p.in c, <>)} ] ]"
    >>> machine = Atomic(parse(text))
    >>> list(lost(machine, machine.start(), 2))
    ['t sent a message that waits for ever at q: send(out p.in c, <>) cannot leave p from there']
    """
    store = machine.store
    for i in dict.fromkeys(at.soups[place]):
        trans, p = store.items[i]
        if isinstance(p, s.Send) and (why := _why_lost(machine, at, place, p)):
            words = process_text(store.said(at, store.items[i]).process)
            yield f"{trans} sent a message that waits for ever at {machine.layout.labels[place]}: {words} {why}"


def _why_lost(machine: Atomic, at: State, place: int, p: s.Send) -> str:
    """Why a message stays where it is, whatever receives; nothing if it can go on or be read."""
    layout, called = machine.layout, machine.store.called(at)
    parts = p.to.parts if isinstance(p.to, s.Path) else (p.to,)
    steps = [part for part in parts if isinstance(part, (s.In, s.Out)) and isinstance(part.of, s.Param)]
    if len(steps) < len(parts):
        return ""  # outside the grammar: that it has no type is reported

    def name(step: s.In | s.Out) -> str:
        assert isinstance(step.of, s.Param)
        return step.of.name

    first, own = steps[0], name(steps[0])
    shown = called.get(own, own)
    kind = unfolded(at.fresh[int(own[1:])] if own.startswith("~") else layout.gamma[own])
    if isinstance(kind, s.PlaceType):
        if isinstance(first, s.Out):
            return "" if place and layout.names[place] == own else f"cannot leave {shown} from there"
        inside = any(layout.names[inner] == own for inner in machine.inside[place])
        return "" if inside else f"finds no place {shown} there"
    if not place:
        return "is outside every place, where nothing is read"
    for step in steps:  # it has arrived: in c, or in c.in k if it is a process
        if isinstance(step, s.Out):
            word = called.get(name(step), name(step))
            return f"can never be read: it has out {word}, and a message has in {word}"
    if not isinstance(kind, s.ChanType):
        return f"can never be read: it has no channel before the key {shown}"
    return ""


def why_stuck(machine: Atomic, at: State, trans: str, way: Sequence[Step]) -> str:
    """The reason in words.

    >>> from pellucid.atomic import explore, parse
    >>> found = explore(Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) commit, abort)} ]''')))
    >>> at = found.sticks["t2"]
    >>> why_stuck(found.machine, at, "t2", found.search.way(at))
    't2 took a message of t1, which aborted: it can never commit, and does not abort'
    """
    items = [machine.store.items[i] for soup in at.soups for i in soup]
    mine = [p for t, p in items if t == trans and not isinstance(p, s.Send)]
    if mine and not machine.home(at, trans):
        return f"{trans} runs outside every place, where there is no log: nothing is decided there"
    view = machine.view(at)
    pending = {item.trans for soup in at.soups[1:] for i in soup if isinstance((item := machine.store.items[i]).process,
                                                                               s.Commit)}  # fmt: skip
    needs = _needs(view, trans)
    dead = sorted(needs & view.aborted)
    if dead:
        near = next((u for u in dead if (u, trans) in view.depends), "")
        if near:
            took = "is a child of" if _child(machine, at, near, trans) else "took a message of"
            how = f"{took} {near}, which"
        else:
            how = f"depends on {dead[0]}, by way of {' and '.join(_between(view, dead[0], trans))}, and {dead[0]}"
        return f"{trans} {how} aborted: it can never commit, and does not abort"
    if trans in pending:
        never = sorted(u for u in needs - view.committed if u not in pending and u != trans)
        partners = [u for u in never if trans in _needs(view, u)]
        if partners:
            return f"{trans} is ready, and in a cycle with {partners[0]}, which never commits"
        if never:
            return f"{trans} is ready, and depends on {never[0]}, which never decides"
        return f"{trans} is ready, and what it depends on cannot commit with it"
    if any(isinstance(p, s.Replicate) for p in mine) and at.left == 0:
        return f"the budget of {machine.unfold} unfoldings is spent, and {trans} has a ! left"
    if mine:
        words = process_text(machine.store.said(at, Item(trans, mine[0])).process)
        return f"{trans} has {words} left, and nothing more can happen to it"
    if _timed_out(machine, trans, way):
        return f"a time-out of {trans} ends in 0: nothing is left of it that would commit or abort"
    return f"nothing is left of {trans} that would commit or abort"


def _timed_out(machine: Atomic, trans: str, way: Sequence[Step]) -> bool:
    """Whether nothing came after a time-out on the way."""
    states = follow(machine, way)
    sizes = [sum(map(len, at.soups)) for at in states]
    return any(
        step.rule.endswith("TIMEOUT") and step.who == (trans,) and after < before
        for step, before, after in zip(way, sizes, sizes[1:], strict=False)
    )


def _child(machine: Atomic, at: State, parent: str, trans: str) -> bool:
    entries = [machine.store.entries[e] for log in at.logs for e in log]
    return any(e.kind == "CHILD" and e.subject == trans and e.message and e.message.trans == parent for e in entries)


def _between(view: View, source: str, trans: str) -> list[str]:
    """Over whom one depends on another, by a shortest way; the nearest first."""
    ways = {trans: [trans]}
    for t in (todo := [trans]):
        for u in sorted(u for u, v in view.depends if v == t and u not in ways):
            ways[u] = [*ways[t], u]
            todo.append(u)
    return ways[source][1:-1]


def _needs(view: View, trans: str) -> set[str]:
    """All that a transaction depends on."""
    found: set[str] = set()
    todo = {trans}
    while todo:
        todo = {u for u, t in view.depends if t in todo} - found
        found |= todo
    return found


# All states of a network, once: what can become of it, what sticks, which properties break and by which shortest
# run.
#
# No state comes twice, since each step writes into a log or uses something up, and ``!`` has a budget.  So where the
# states are finitely many, a transaction can always still be decided (AG EF) exactly if it is decided in every state
# without steps.  They are not where a child opens the message that its parent gave back by aborting, and makes the next
# child: there the search is cut, and the answer unknown.  Often it is clear before the end that a transaction never
# will be decided, however often ``!`` may unfold (`hopeless`): a run ends there.

Outcome: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"  # committed, aborted


@dataclass
class Explored:
    """What was found; ``cut`` says why it is not all."""

    machine: Atomic
    search: Search[State, Step]
    reachable: dict[Outcome, State] = field(default_factory=dict)
    final: dict[Outcome, State] = field(default_factory=dict)
    undecided: dict[Outcome, set[tuple[str, ...]]] = field(default_factory=dict)  # at such ends, children as well
    sticks: dict[str, State] = field(default_factory=dict)  # the nearest state from which it is never decided
    broken: dict[str, tuple[State, str]] = field(default_factory=dict)  # the nearest state, and why
    held_back: bool = False  # an unfolding of ! that the budget did not allow
    maybe: dict[str, State] = field(default_factory=dict)  # ends at which more unfoldings might decide it
    lost: dict[str, State] = field(default_factory=dict)  # messages that wait for ever, in words
    cut: str = ""

    def trace(self, at: State) -> list[str]:
        """A shortest run to a state, in words."""
        return [str(step) for step in self.search.way(at)]


def explore(machine: Atomic, properties: tuple[str, ...] = USUAL, budget: Budget | None = None) -> Explored:
    """Go through all states, nearest first.

    >>> from pellucid.atomic import parse
    >>> found = explore(Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | commit} | t2{receive(out c, (x) commit, 0)} ]''')))
    >>> sorted(found.final), found.trace(found.sticks["t2"]), found.broken
    ([(('t1',), ()), (('t1', 't2'), ())], ['RECV TIMEOUT t2'], {})
    """
    budget = budget or Budget(None, None)
    judge = Judge(machine, budget)
    search = Search[State, Step]([], machine.steps, budget)
    found = Explored(machine, search)
    soups: set[tuple[int, tuple[int, ...], tuple[s.Type, ...]]] = set()
    try:
        search.parents[machine.start()] = None
        for at, after in search:
            view = machine.view(at)
            outcome = tuple(sorted(view.committed)), tuple(sorted(view.aborted))
            found.reachable.setdefault(outcome, at)
            held = at.left == 0 and _waits(machine, at)
            found.held_back |= held
            everyone = (*machine.transactions, *machine.children(at))
            if not after:
                found.final.setdefault(outcome, at)
                left = tuple(t for t in everyone if t not in view.committed and t not in view.aborted)
                found.undecided.setdefault(outcome, set()).add(left)
            for t in everyone:
                if t not in view.committed and t not in view.aborted:
                    never = hopeless(machine, at, t)
                    if never or not after:
                        maybe = held and not never and _might(machine, at, t)
                        (found.maybe if maybe else found.sticks).setdefault(t if t[0] != "~" else "child", at)
            for place, soup in enumerate(at.soups):
                if (place, soup, at.fresh) not in soups:
                    soups.add((place, soup, at.fresh))
                    for words in lost(machine, at, place):
                        found.lost.setdefault(words, at)
            open_questions = tuple(name for name in properties if name not in found.broken)
            for name, why in judge.broken(at, open_questions).items():
                found.broken[name] = at, why
    except CutShort as cut:
        found.cut = str(cut)
    except RecursionError:
        found.cut = f"{TOO_DEEP} after {len(search.parents):,} states"
    return found


def _might(machine: Atomic, at: State, t: str) -> bool:
    """Whether more unfoldings of others might still decide it: something is left of it, or it goes where others go."""
    if machine.rules.cascade and any(v == t for _, v in machine.view(at).depends):
        return True
    return any(machine.store.items[i].trans == t for soup in at.soups for i in soup)


def _waits(machine: Atomic, at: State) -> bool:
    """Whether some ! of a transaction that is not aborted could unfold, but for the budget."""
    items, aborted = machine.store.items, machine.view(at).aborted
    return any(
        isinstance(items[i].process, s.Replicate) and items[i].trans not in aborted for soup in at.soups for i in soup
    )


USUAL_QUESTION = ("A1", "A2", "A3", "C1", "C2", "types", "place", "progress")
ALL = (*USUAL_QUESTION, "F0", "F1")
_MOST_QUESTION = 8  # warnings


@dataclass(frozen=True)
class AtomicVerdict(Verdict):
    """The verdict of `check.atomic`; ``parts`` are those of its questions."""

    parts: Mapping[str, Verdict] = field(default_factory=dict)


def atomic(
    network: s.Network | str,
    *,
    about: str | Sequence[str] = USUAL_QUESTION,
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
      no run commits anything: properties of committed ones hold of nothing here
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
    if not found.cut and not any(committed for committed, _ in found.reachable):
        said.append("no run commits anything: properties of committed ones hold of nothing here")
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
    more = len(out) - _MOST_QUESTION
    return out if more <= 0 else [*out[:_MOST_QUESTION], f"there are {more} more messages that wait for ever"]
