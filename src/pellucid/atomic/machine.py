"""The reduction of networks (sections 4 to 7): a machine for the shared search, with a method for every rule.

A step is labelled with its rule and who takes it; `Step` in words is what traces show.  Reduction is not part of
congruence: each step goes one way.  Steps of processes (RED PROC) happen wherever the process stands; those that need a
log only inside a place; RED COMMIT looks at the whole network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from pellucid.atomic import syntax as s
from pellucid.atomic.state import TAKES, Entry, Item, State, Store, Where, homes, layout_of, opened, path_of, put
from pellucid.atomic.syntax import network_text, value_text
from pellucid.atomic.typing import System, typecheck
from pellucid.errors import DataError, UsageError, nearest
from pellucid.internal.model import CutShort
from pellucid.internal.model.sheet import Word

# The rules of reduction as choices: corrected, as printed, extended.
#
# Every choice has a name.  The default is *corrected*.  *printed* has RED RECV, RED FORWARD and RED OPEN as the paper
# prints them (the indices of their conditions are swapped), *printed_commit_context* its commit contexts (members at
# places that are different and not inside each other).


@dataclass(frozen=True)
class Rules:
    """What is asked before a step, and what it does; each field's default is the corrected rule.  Values that none of
    the `VARIANTS` has break what every run should keep: the tests ask for them, to see that a check notices."""

    name: str = "corrected"
    conditions: Literal["corrected", "printed"] = "corrected"  # of RECV, FORWARD, OPEN
    receiver_not_committed: bool = True
    receiver_not_aborted: bool = True
    sender_not_aborted: bool = True
    commit: Literal["closed", "any", "none aborted", "all pending"] = "closed"  # what members may depend on
    apart: bool = False  # members of a commit at places that are different and not inside each other
    restore: Literal["multiset", "set", "nothing"] = "multiset"
    abort_committed: bool = False
    kill: bool = True
    drop_messages: bool = False  # of an aborted one, everywhere
    mobile_received: bool = True  # FORWARD and OPEN count as received
    cascade: bool = False
    crash: bool = False


_KNOWN = [
    Rules(),
    Rules("printed", conditions="printed"),
    Rules("printed_commit_context", apart=True),
    Rules("cascade", cascade=True),
    Rules("crash", cascade=True, crash=True),
]
VARIANTS = {rules.name: rules for rules in _KNOWN}


def rules_of(name: str | Rules) -> Rules:
    """The rules with this name.

    >>> rules_of("crash").cascade, rules_of("corrected") == Rules()
    (True, True)
    >>> rules_of("cash")
    Traceback (most recent call last):
    pellucid.errors.UsageError: there are no rules 'cash'; did you mean 'crash'?
    """
    if isinstance(name, Rules):
        return name
    if name not in VARIANTS:
        raise UsageError(
            f"there are no rules {name!r}{nearest(str(name), list(VARIANTS)) or ': ' + ', '.join(VARIANTS)}"
        )
    return VARIANTS[name]


# ---------------------------------------------------------------- Definition 1: what may commit at once

_FEW = 10  # groups of transactions that commit together: of more, sets are not put in order


def closed_sets(needs: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """All sets whose members need none outside, without the empty one.  There may be 2ⁿ of them: where they are
    many they come one by one, the largest first, and are not put in order.

    >>> list(closed_sets({"a": set(), "b": {"a"}, "c": {"d"}, "d": {"c"}, "e": {"f"}}))
    [('a',), ('a', 'b'), ('a', 'b', 'c', 'd'), ('a', 'c', 'd'), ('c', 'd')]
    """
    closures: dict[str, frozenset[str]] = {}
    for t in needs:
        closed, todo = {t}, [t]
        while todo:
            more = needs.get(todo.pop(), set()) - closed
            closed |= more
            todo += more
        if closed <= needs.keys():
            closures[t] = frozenset(closed)
    # those that need each other have one closure; any other that is needed has a smaller one, and comes before
    groups = sorted(set(closures.values()), key=lambda one: (len(one), sorted(one)))
    found = _unions(groups)
    yield from sorted(found) if len(groups) <= _FEW else found


def _unions(groups: list[frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Every union of these once; each is closed, and what it needs comes before it."""
    own = [group.difference(*(other for other in groups[:k] if other < group)) for k, group in enumerate(groups)]
    stack: list[tuple[int, frozenset[str]]] = [(0, frozenset())]
    while stack:
        k, taken = stack.pop()
        if k == len(groups):
            if taken:
                yield tuple(sorted(taken))
            continue
        stack.append((k + 1, taken))
        if groups[k] - own[k] <= taken:
            stack.append((k + 1, taken | own[k]))


def one_by_one(
    members: Collection[str], depends: Collection[tuple[str, str]], first: Mapping[str, tuple[int, int]]
) -> list[str]:
    """The members of one commit in an order in which they could have committed one after the other, so that to commit
    at once gives no log that would not come about without.  Always next is one that needs no other that is left, and
    with it who needs each other; of several the one whose first record is first (``first``: its place and row), before
    these by name who has none.  Names of children depend on the state, and are not asked: each has a record.

    >>> one_by_one(["a", "b", "c", "d"], [("c", "a"), ("d", "b"), ("b", "d")], {"a": (1, 0), "b": (1, 2), "d": (1, 1)})
    ['c', 'a', 'd', 'b']
    """

    def key(t: str) -> tuple[tuple[int, int], str]:
        return first.get(t, (-1, -1)), t

    needs = {t: {u for u, v in depends if v == t and u != t and u in members} for t in members}
    if not any(needs.values()):
        return sorted(members, key=key)
    for t, mine in needs.items():
        while more := {v for u in mine for v in needs[u]} - mine:
            mine |= more
        mine.discard(t)
    left, order = set(members), list[str]()
    while left:
        ready = [t for t in left if all(t in needs[u] for u in needs[t] & left)]
        least = min(ready, key=key)
        together = {least, *(u for u in needs[least] & left if least in needs[u])}
        order += sorted(together, key=key)
        left -= together
    return order


TOO_DEEP = "a process is nested too deeply"


@contextmanager
def gracefully(what: str) -> Iterator[None]:
    """Where a machine is used without a verdict that could be *unknown*: a bound that is met is reported as such.

    >>> with gracefully("a.atf"):
    ...     raise CutShort("9 private names look alike")
    Traceback (most recent call last):
    pellucid.errors.DataError: a.atf: 9 private names look alike
    """
    try:
        yield
    except CutShort as cut:
        raise DataError(f"{what}: {cut}") from None
    except RecursionError:
        raise DataError(f"{what}: {TOO_DEEP}: use fewer processes inside each other") from None


class Called(str):
    """A private name of a state, with what the text calls it: it counts as the first, and is shown as the other."""

    said: str

    def __new__(cls, name: str, said: str) -> Called:
        """Both names."""
        made = super().__new__(cls, name)
        made.said = said
        return made


class Step(NamedTuple):
    """A step: its rule, the transactions that take it, from whom, over which channel or place; ``pick`` tells apart
    steps that read alike."""

    rule: str
    who: tuple[str, ...]
    source: str = ""
    about: str = ""
    place: int = 0
    pick: int = 0

    @property
    def fails(self) -> bool:
        """Whether it is a crash, or a wait that is given up."""
        return self.rule == "CRASH" or self.rule.endswith("TIMEOUT")

    def __str__(self) -> str:
        about = self.about.said if isinstance(self.about, Called) else self.about
        words = [self.rule, *self.who, *(["from", self.source] if self.source else []), about]
        return " ".join(word for word in words if word)


class View(NamedTuple):
    """What the logs of a state say: C, A, and who depends on whom."""

    committed: frozenset[str]
    aborted: frozenset[str]
    depends: frozenset[tuple[str, str]]  # (u, t): u ⇝ t

    def doomed(self) -> frozenset[str]:
        """E: the closure of A under ⇝."""
        return self.after(self.aborted)

    def after(self, names: frozenset[str]) -> frozenset[str]:
        """These, and all that depend on them."""
        found = set(names)
        while more := {t for u, t in self.depends if u in found} - found:
            found |= more
        return frozenset(found)


Soups = list[list[int]]
Logs = list[list[int]]


class Atomic:
    """The machine of a network.

    >>> from pellucid.atomic import parse
    >>> machine = Atomic(parse('''new t1, t2: Trans. new p: Place. new c: Chan[<>].
    ...     p[ t1{send(in c, <>) | commit} | t2{receive(out c, (x) commit, abort)} ]'''))
    >>> [str(step) for step, _ in machine.steps(machine.start())]
    ['RECV t2 from t1 c', 'RECV TIMEOUT t2', 'COMMIT t1']
    """

    def __init__(
        self, network: s.Network, *, rules: str | Rules = "corrected", unfold: int = 0, system: System = "corrected",
        text: str = "", name: str = "",
    ) -> None:  # fmt: skip
        if isinstance(unfold, bool) or not isinstance(unfold, int) or unfold < 0:
            raise UsageError(f"unfold= is how often ! may unfold in a run, 0 or more: found {unfold!r}")
        self.rules, self.unfold, self.system = rules_of(rules), unfold, system
        with gracefully(name or "the network"):
            self.network = typecheck(network, system=system, text=text, name=name)
            self.layout = layout_of(self.network, Where(text, name))
            written = network_text(self.network)
        self.homes = homes(self.layout)
        self.store = Store(self.layout)
        self.inside: list[list[int]] = [[] for _ in self.layout.names]
        for place, parent in enumerate(self.layout.parents[1:], 1):
            self.inside[parent].append(place)
        tops = {self.layout.names[place] for place in self.inside[0]}
        left = any(f"out {name}" in written for name in tops)
        self.outside = left or any(not where for where, _ in self.layout.items)  # whether anything can stand there
        everyone = [item.trans for _, item in self.layout.items]
        for entry in (entry for log in self.layout.logs for entry in log):
            everyone += [entry.subject] if entry.message is None else [entry.subject, entry.message.trans]
        self.transactions = tuple(dict.fromkeys(everyone))
        self._views: dict[tuple[tuple[int, ...], ...], View] = {}
        self._doomed: dict[View, frozenset[str]] = {}
        self._local: dict[tuple[int, tuple[int, ...], tuple[int, ...], int], list[tuple[Step, _Change]]] = {}

    # ---------------------------------------------------------------- a machine

    def start(self) -> State:
        """The network as it was written."""
        return self.store.start(self.unfold)

    def complete(self, at: State) -> bool:
        """A run may end anywhere."""
        return True

    def steps(self, at: State, *, failures: bool = True) -> Iterator[tuple[Step, State]]:
        """All steps; without ``failures`` none of CRASH and RECV TIMEOUT's kind."""
        seen: dict[tuple[Any, ...], list[State]] = {}
        for step, then in self._steps(at):
            if not failures and step.fails:
                continue
            alike = seen.setdefault(step, [])
            if then not in alike:
                alike.append(then)
                yield step._replace(pick=len(alike) - 1), then

    def see(self, at: State) -> Hashable:
        """What each transaction has come to, and the messages that can be read."""
        view = self.view(at)
        pending = {self.store.items[i].trans for soup in at.soups[1:] for i in soup if self._is(i, s.Commit)}
        out: dict[str, Word] = {}
        for t in (*self.transactions, *self.children(at)):
            word = "committed " if t in view.committed else ""
            word += "aborted" if t in view.aborted else ""
            word = word.strip() or ("ready" if t in pending else "running") + (", doomed" * (t in self.doomed(at)))
            out[t] = Word(word)
        for place, label in enumerate(self.layout.labels):
            if not place and not self.outside:
                continue
            sent = [self.store.said(at, self.store.items[i]) for i in at.soups[place] if self._is(i, s.Send)]
            words = [f"{t}: {value_text(p.to)}" for t, p in sent if isinstance(p, s.Send)]
            out[f"at {label}"] = Word("; ".join(words) or "nothing")
        return out  # type: ignore[return-value]

    def _is(self, i: int, kind: type) -> bool:
        return isinstance(self.store.items[i].process, kind)

    def children(self, at: State) -> list[str]:
        """The transactions that were made by ``child``."""
        return [f"~{i}" for i, kind in enumerate(at.fresh) if isinstance(kind, s.TransType)]

    def view(self, at: State) -> View:
        """What the logs say: by them, and not by what stands in the soup, is a transaction committed."""
        found = self._views.get(at.logs)
        if found is None:
            entries = [self.store.entries[e] for log in at.logs for e in log]
            found = self._views[at.logs] = View(
                frozenset(e.subject for e in entries if e.kind == "COMMIT"),
                frozenset(e.subject for e in entries if e.kind == "ABORT"),
                frozenset((e.message.trans, e.subject) for e in entries if e.message is not None),
            )
        return found

    def doomed(self, at: State) -> frozenset[str]:
        """Who is aborted, or depends on one who is."""
        view = self.view(at)
        if view not in self._doomed:
            self._doomed[view] = view.doomed()
        return self._doomed[view]

    def home(self, at: State, trans: str) -> int:
        """The position at which a transaction runs; 0 for none."""
        if trans in self.homes:
            return self.homes[trans]
        for place, log in enumerate(at.logs):
            if any(self.store.entries[e].kind == "CHILD" and self.store.entries[e].subject == trans for e in log):
                return place
        return 0

    # ---------------------------------------------------------------- all steps of a state

    def _steps(self, at: State) -> Iterator[tuple[Step, State]]:
        for place in range(len(at.soups)):
            yield from self._known_at(at, place)
        if self.rules.cascade:
            yield from self.red_cascade(at)
        if self.rules.crash:
            yield from self.red_crash(at)
        yield from self.red_commit(at)  # last: there may be very many sets

    def _at(self, at: State, place: int) -> Iterator[tuple[Step, State]]:
        """The steps of what stands at one place."""
        items, soup = self.store.items, at.soups[place]
        messages = [i for i in dict.fromkeys(soup) if isinstance(items[i].process, s.Send)]
        for i in dict.fromkeys(soup):
            rule = _RULES.get(type(items[i].process))
            if rule is not None:
                yield from rule(self, at, place, i, messages)

    def _known_at(self, at: State, place: int) -> Iterator[tuple[Step, State]]:
        """The same, made once for all states in which the place and its log are alike: what a rule asks for stands
        there, and what it changes does, too, but for a message that moves on.  Private names are of the whole state."""
        if at.fresh or self.rules.drop_messages:
            yield from self._at(at, place)
            return
        key = place, at.soups[place], at.logs[place], at.left
        known = self._local.get(key)
        if known is None:
            found = list(self._at(at, place))
            if any(then.fresh for _, then in found):
                yield from found
                return
            known = self._local[key] = [(step, _change(at, then, place)) for step, then in found]
        for step, (soup, log, left, to, come) in known:
            soups, logs = list(at.soups), list(at.logs)
            soups[place], logs[place] = soup, log
            if come:
                soups[to] = tuple(sorted((*soups[to], *come)))
            yield step, State(tuple(soups), tuple(logs), (), left)

    def _then(
        self, at: State, place: int, gone: tuple[int, ...], come: list[Item], *, fresh: dict[str, s.Type] | None = None,
        log: Entry | None = None, to: int | None = None, left: int | None = None,
    ) -> State:  # fmt: skip
        """The state without some items of a place, with others at ``to``, and a record in its log."""
        soups: Soups = [*map(list, at.soups)]
        for i in gone:
            soups[place].remove(i)
        soups[place if to is None else to].extend(self.store.item(item) for item in come)
        logs: Logs = [*map(list, at.logs)]
        if log is not None:
            logs[place].append(self.store.entry(log))
        names = self._fresh(at) if fresh is None else fresh
        return self.store.state(soups, logs, names, at.left if left is None else left)

    def _fresh(self, at: State) -> dict[str, s.Type]:
        return {f"~{i}": kind for i, kind in enumerate(at.fresh)}

    def _becomes(self, at: State, place: int, i: int, process: s.Process, *, left: int | None = None) -> State:
        """RED PROC: t{P1} becomes t{P2}."""
        fresh = self._fresh(at)
        return self._then(at, place, (i,), opened(fresh, self.store.items[i].trans, process), fresh=fresh, left=left)

    # ---------------------------------------------------------------- 4.1: local computation

    def red_replicate(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED REPLICATE: !P → !P | P, as long as the budget allows."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Replicate)
        if at.left > 0:
            then = self._becomes(at, place, i, s.Par((p, p.body)), left=at.left - 1)
            yield Step("REPLICATE", (t,), place=place), then

    def red_crypt(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED CRYPT: crypt(in k, V, F) → F(k[V])."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Crypt)
        if isinstance(p.key, s.In):
            packet = s.Packet(p.key.of, p.value)
            yield Step("CRYPT", (t,), place=place), self._becomes(at, place, i, s.Continue(p.then, packet))

    def red_decrypt(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED DECRYPT: decrypt(out k, k[V], F) → F(V)."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Decrypt)
        if isinstance(p.key, s.Out) and isinstance(p.value, s.Packet) and p.key.of == p.value.key:
            yield Step("DECRYPT", (t,), place=place), self._becomes(at, place, i, s.Continue(p.then, p.value.value))

    def red_let(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED LET: let <x, …> = <V, …> in P → {V/x, …}P."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Let)
        if isinstance(p.value, s.Tuple) and len(p.value.parts) == len(p.names):
            then = put(p.body, dict(zip(p.names, p.value.parts, strict=True)))
            yield Step("LET", (t,), place=place), self._becomes(at, place, i, then)

    def red_app(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED APP: ((x: T) P)(V) → {V/x}P."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Continue)
        then = put(p.cont.body, {p.cont.name: p.value})
        yield Step("APP", (t,), place=place), self._becomes(at, place, i, then)

    # ---------------------------------------------------------------- 4.4: navigation

    def red_in_out(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED IN PLACE and RED OUT PLACE, of messages with values and, in ATF_M, with processes."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Send)
        if not isinstance(p.to, s.Path):
            return
        first, *rest = p.to.parts
        if not isinstance(first, (s.In, s.Out)) or not isinstance(first.of, s.Param):
            return
        name, sent = first.of.name, Item(t, s.Send(path_of(tuple(rest)), p.what, p.at))
        if isinstance(first, s.In):
            for inner in self.inside[place]:
                if self.layout.names[inner] == name:
                    yield Step("IN", (t,), "", name, inner), self._then(at, place, (i,), [sent], to=inner)
        elif place and self.layout.names[place] == name:
            outer = self.layout.parents[place]
            yield Step("OUT", (t,), "", name, place), self._then(at, place, (i,), [sent], to=outer)

    # ---------------------------------------------------------------- 4.5 and 6: communication

    def may_take(self, at: State, place: int, receiver: str, sender: str) -> bool:
        """The conditions of RED RECV, RED FORWARD and RED OPEN, by the place's own log: the receiver is neither
        committed nor aborted, the sender is not aborted.  Safety needs the first; the others avoid doomed readers."""
        decided = {(e.kind, e.subject) for e in (self.store.entries[e] for e in at.logs[place]) if e.message is None}
        rules = self.rules
        if rules.conditions == "printed":
            return ("ABORT", receiver) not in decided and ("COMMIT", sender) not in decided
        return not (
            (rules.receiver_not_committed and ("COMMIT", receiver) in decided)
            or (rules.receiver_not_aborted and ("ABORT", receiver) in decided)
            or (rules.sender_not_aborted and ("ABORT", sender) in decided)
        )

    def _name(self, at: State, capability: s.Value) -> str:
        assert isinstance(capability, (s.In, s.Out))
        name = capability.of.name if isinstance(capability.of, s.Param) else "?"
        said = self.store.called(at).get(name) if name.startswith("~") else None
        return name if said is None else Called(name, said)

    def red_recv(self, at: State, place: int, i: int, messages: list[int]) -> Iterator[tuple[Step, State]]:
        """RED RECV and RED TIMEOUT."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Receive)
        if not isinstance(p.source, s.Out):
            return
        for m in messages if place else []:
            sent = self.store.items[m]
            q = sent.process
            assert isinstance(q, s.Send)
            if isinstance(q.what, s.Cont) or q.to != s.In(p.source.of) or not self.may_take(at, place, t, sent.trans):
                continue
            then = self._then(
                at, place, (i, m), [Item(t, s.Continue(p.then, q.what))], log=Entry("RECV", t, p, sent)
            )  # fmt: skip
            yield Step("RECV", (t,), sent.trans, self._name(at, p.source), place), then
        yield Step("RECV TIMEOUT", (t,), place=place), self._becomes(at, place, i, p.otherwise)

    def red_forward(self, at: State, place: int, i: int, messages: list[int]) -> Iterator[tuple[Step, State]]:
        """RED FORWARD and RED FORWARD TIMEOUT."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Forward)
        if not isinstance(p.source, s.Out):
            return
        for m in messages if place else []:
            sent = self.store.items[m]
            parts = _mobile(sent.process)
            if parts is None or parts[0] != s.In(p.source.of) or not self.may_take(at, place, t, sent.trans):
                continue
            assert isinstance(sent.process, s.Send)
            fresh = self._fresh(at)
            on = Item(t, s.Send(path_of((p.to, parts[1])), sent.process.what))
            come = [*opened(fresh, t, p.then), on]
            then = self._then(at, place, (i, m), come, fresh=fresh, log=Entry("FORWARD", t, p, sent))
            yield Step("FORWARD", (t,), sent.trans, self._name(at, p.source), place), then
        yield Step("FORWARD TIMEOUT", (t,), place=place), self._becomes(at, place, i, p.otherwise)

    def red_open(self, at: State, place: int, i: int, messages: list[int]) -> Iterator[tuple[Step, State]]:
        """RED OPEN and RED OPEN TIMEOUT: the process runs in the transaction of the opener."""
        t, p = self.store.items[i]
        assert isinstance(p, s.Open)
        match p.source:
            case s.Path((s.Out(channel), s.Out(key))):
                wanted = (s.In(channel), s.In(key))
            case _:
                return
        for m in messages if place else []:
            sent = self.store.items[m]
            if _mobile(sent.process) != wanted or not self.may_take(at, place, t, sent.trans):
                continue
            assert isinstance(sent.process, s.Send) and isinstance(sent.process.what, s.Cont)
            fresh = self._fresh(at)
            come = [Item(t, s.Continue(sent.process.what, p.give)), *opened(fresh, t, p.then)]
            then = self._then(at, place, (i, m), come, fresh=fresh, log=Entry("OPEN", t, p, sent))
            yield Step("OPEN", (t,), sent.trans, self._name(at, wanted[0]), place), then
        yield Step("OPEN TIMEOUT", (t,), place=place), self._becomes(at, place, i, p.otherwise)

    # ---------------------------------------------------------------- 7: children

    def red_child(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED CHILD: P in a transaction of its own, recorded as depending on its parent."""
        item = self.store.items[i]
        assert isinstance(item.process, s.Child)
        if not place:
            return
        fresh = self._fresh(at)
        child = f"~{len(fresh)}"
        fresh[child] = s.TransType()
        come = opened(fresh, child, item.process.body)
        then = self._then(at, place, (i,), come, fresh=fresh, log=Entry("CHILD", child, s.Stop(), item))
        yield Step("CHILD", (item.trans,), place=place), then

    # ---------------------------------------------------------------- 5: commit and abort

    def _log_says(self, at: State, place: int, kind: str, trans: str) -> bool:
        return any(self.store.entries[e][:2] == (kind, trans) for e in at.logs[place])

    def red_abort(self, at: State, place: int, i: int, _: list[int]) -> Iterator[tuple[Step, State]]:
        """RED ABORT: what it received stands there again, what is left of it is gone."""
        t = self.store.items[i].trans
        if place and self._may_abort(at, place, t):
            yield Step("ABORT", (t,), place=place), self.aborted(at, place, t, i)

    def _may_abort(self, at: State, place: int, t: str) -> bool:
        committed = self._log_says(at, place, "COMMIT", t) and not self.rules.abort_committed
        return not committed and not self._log_says(at, place, "ABORT", t)

    def aborted(self, at: State, place: int, t: str, i: int | None = None) -> State:
        """The state after an abort of t at its place."""
        items, rules = self.store.items, self.rules
        soups: Soups = [*map(list, at.soups)]
        if i is not None:
            soups[place].remove(i)
        counted = TAKES if rules.mobile_received else ("RECV",)
        entries = [self.store.entries[e] for e in at.logs[place]]
        back = [e.message for e in entries if e.subject == t and e.kind in counted and e.message is not None]
        if rules.restore != "multiset":
            back = list(dict.fromkeys(back)) if rules.restore == "set" else []
        soups[place] += [self.store.item(message) for message in back]
        if rules.kill:
            soups[place] = [j for j in soups[place] if items[j].trans != t]
        if rules.drop_messages:
            soups = [[j for j in soup if items[j].trans != t] for soup in soups]
        logs: Logs = [*map(list, at.logs)]
        logs[place].append(self.store.entry(Entry("ABORT", t, s.Abort())))
        return self.store.state(soups, logs, self._fresh(at), at.left)

    def committable(self, at: State) -> Iterator[tuple[str, ...]]:
        """Sets that RED COMMIT may commit (Definition 1): they are pending and not decided by the log of their place,
        and whatever they depend on is committed or among them."""
        pending: dict[str, int] = {}
        for place, soup in enumerate(at.soups):
            for i in soup if place else ():
                t = self.store.items[i].trans
                if self._is(i, s.Commit) and not any(self._log_says(at, place, k, t) for k in ("COMMIT", "ABORT")):
                    pending[t] = place
        if not pending:
            return
        view, kind = self.view(at), self.rules.commit
        depends = view.depends
        if not self.rules.mobile_received:
            entries = [self.store.entries[e] for log in at.logs for e in log]
            depends = frozenset(
                (e.message.trans, e.subject) for e in entries if e.message and e.kind not in ("FORWARD", "OPEN")
            )
        needs = {t: {u for u, v in depends if v == t and u != t} - view.committed for t in pending}
        if kind == "any":
            needs = {t: set() for t in pending}
        elif kind == "none aborted":
            needs = {t: set() for t, on in needs.items() if not on & view.aborted}
        elif kind == "all pending":
            needs = {t: set() for t, on in needs.items() if on <= set(pending)}
        for members in closed_sets(needs):
            if not self.rules.apart or self._apart([pending[t] for t in members]):
                yield members

    def _apart(self, places: list[int]) -> bool:
        """The printed commit contexts: different places, none inside another."""
        around = [set(self.layout.above(place)) for place in places]
        return all(i == j or p not in around[j] for i, p in enumerate(places) for j in range(len(places)))

    def red_commit(self, at: State) -> Iterator[tuple[Step, State]]:
        """RED COMMIT, of the whole closed network: all members at once.  A log is a sequence: there they stand as if
        they had committed one after the other."""
        commit = {self.store.items[i].trans: (place, i) for place, soup in enumerate(at.soups) if place
                  for i in soup if self._is(i, s.Commit)}  # fmt: skip
        if not commit:
            return
        first: dict[str, tuple[int, int]] = {}
        for place, log in enumerate(at.logs):
            for row, e in enumerate(log):
                first.setdefault(self.store.entries[e].subject, (place, row))
        for members in self.committable(at):
            soups: Soups = [*map(list, at.soups)]
            logs: Logs = [*map(list, at.logs)]
            for t in one_by_one(members, self.view(at).depends, first):
                place, i = commit[t]
                soups[place].remove(i)
                logs[place].append(self.store.entry(Entry("COMMIT", t, s.Commit())))
            yield Step("COMMIT", members), self.store.state(soups, logs, self._fresh(at), at.left)

    def undecided(self, at: State) -> Iterator[tuple[str, int]]:
        """Transactions inside a place that are neither committed nor aborted."""
        view = self.view(at)
        for t in (*self.transactions, *self.children(at)):
            place = self.home(at, t)
            if place and t not in view.committed and t not in view.aborted:
                yield t, place

    def red_cascade(self, at: State) -> Iterator[tuple[Step, State]]:
        """RED CASCADE, an extension: t aborts when some u ⇝ t has aborted."""
        view = self.view(at)
        for t, place in self.undecided(at):
            if any(u in view.aborted for u, v in view.depends if v == t):
                yield Step("CASCADE", (t,), place=place), self.aborted(at, place, t)

    def red_crash(self, at: State) -> Iterator[tuple[Step, State]]:
        """RED CRASH, an extension: any undecided t may abort."""
        for t, place in self.undecided(at):
            yield Step("CRASH", (t,), place=place), self.aborted(at, place, t)


#: What a step changes: the soup and the log of its place, how often ! may still unfold, and what comes to which place.
_Change: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], int, int, tuple[int, ...]]"


def _change(at: State, then: State, place: int) -> _Change:
    """What is different after a step of a place."""
    to = next((q for q, soup in enumerate(then.soups) if q != place and soup != at.soups[q]), place)
    come = tuple((Counter(then.soups[to]) - Counter(at.soups[to])).elements()) if to != place else ()
    return then.soups[place], then.logs[place], then.left, to, come


def _mobile(p: s.Process) -> tuple[s.Value, s.Value] | None:
    """The channel and the key of a message with a process that has arrived."""
    match p:
        case s.Send(s.Path((s.In() as channel, s.In() as key)), s.Cont()):
            return s.In(channel.of), s.In(key.of)
        case _:
            return None


Rule = Callable[[Atomic, State, int, int, list[int]], Iterator[tuple[Step, State]]]
_RULES: dict[type, Rule] = {
    s.Replicate: Atomic.red_replicate, s.Crypt: Atomic.red_crypt, s.Decrypt: Atomic.red_decrypt, s.Let: Atomic.red_let,
    s.Continue: Atomic.red_app, s.Send: Atomic.red_in_out, s.Receive: Atomic.red_recv, s.Forward: Atomic.red_forward,
    s.Open: Atomic.red_open, s.Child: Atomic.red_child, s.Abort: Atomic.red_abort,
}  # fmt: skip
