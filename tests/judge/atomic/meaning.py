"""The rules of reduction, read from the paper and its corrections, over states in normal form.

Places never move and are never made: a place is its number in the tree of the network, 0 is outside of all.  A state
has a multiset of ``(t, P)`` for each place, a log for each place, and how often ``!`` may still unfold.  Names of the
network are constants; private names that processes made are ``~0|k``, ``~1|k``, ... (``k`` numbers their types), the
least such naming of all.  A record is ``(kind, taker, P, sender, P)`` for RECV, FORWARD and OPEN,
``("child", child, parent, P)``, ``("commit", t)`` or ``("abort", t)``.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Any

from tests.judge.atomic.terms import (
    NIL,
    TRANS,
    UNIT,
    Names,
    Reader,
    Term,
    canonical,
    closed,
    free,
    is_cont,
    normal,
    path,
    path_of,
    prime,
    split,
    unrolled,
)
from tests.judge.atomic.types import wrong_in

Atom = tuple[str, Term]
Soup = tuple[Atom, ...]
TAKEN = ("RECV", "FORWARD", "OPEN")
KINDS: list[Term] = [TRANS]  # types of private names, by number: the same in all networks


@dataclass(frozen=True)
class Rules:
    """What is asked before a step; the first choice of each is the corrected rule."""

    receive: str = "corrected"  # printed: the receiver is not aborted, the sender not committed
    receiver_committed: bool = False  # may it take a message?
    receiver_aborted: bool = False
    sender_aborted: bool = False
    commit: str = "closed"  # any, none aborted, all pending
    apart: bool = False  # members at places that are different and not nested
    restore: str = "multiset"  # set, nothing
    abort_committed: bool = False
    kill: bool = True
    mobile_counts: bool = True
    cascade: bool = False
    crash: bool = False


VARIANTS = {
    "corrected": Rules(),
    "printed": Rules(receive="printed"),
    "printed_commit_context": Rules(apart=True),
    "cascade": Rules(cascade=True),
    "crash": Rules(cascade=True, crash=True),
    "receive_after_commit": Rules(receiver_committed=True),
    "commit_ignores_dependencies": Rules(commit="any"),
    "commit_waits_only_for_no_abort": Rules(commit="none aborted"),
    "commit_one_of_cycle": Rules(commit="all pending"),
    "abort_no_restore": Rules(restore="nothing"),
    "abort_restore_as_set": Rules(restore="set"),
    "abort_of_committed": Rules(abort_committed=True),
    "no_log_predicate_for_forward_open": Rules(mobile_counts=False),
    "no_check_of_sender": Rules(sender_aborted=True),
    "no_check_of_receivers_abort": Rules(receiver_aborted=True),
    "no_kill": Rules(kill=False),
}
EQUIVALENT = ("no_check_of_sender", "no_check_of_receivers_abort", "no_kill", "drop_dead_messages")


@dataclass(frozen=True)
class State:
    """A network that runs; only `Meaning.state` makes one."""

    soups: tuple[Soup, ...]
    logs: tuple[tuple[Term, ...], ...]
    left: int  # unfoldings of !


@dataclass(frozen=True)
class Facts:
    """What the logs say."""

    committed: frozenset[str]
    aborted: frozenset[str]
    depends: frozenset[tuple[str, str]]  # (u, t): t took a message of u, or is its child


def renamed(term: Any, names: dict[str, str]) -> Any:
    """Private names replaced, wherever they stand."""
    if isinstance(term, str):
        return names.get(term, term)
    if not isinstance(term, tuple) or not privates(term):
        return term
    return tuple(renamed(part, names) for part in term)


def every(whole: Any, names: dict[str, str]) -> Any:
    """Private names replaced in soups and logs."""
    return tuple(tuple(tuple(renamed(one, names) for one in part) for part in side) for side in whole)


@lru_cache(maxsize=200_000)
def privates(term: Any) -> tuple[str, ...]:
    """Private names, in the order in which they stand."""
    if isinstance(term, str):
        return (term,) if term.startswith("~") else ()
    if isinstance(term, tuple):
        return tuple(dict.fromkeys(name for part in term for name in privates(part)))
    return ()


class Meaning:
    """All steps of a network.  ``known``: it is a state of another one, which has these names; others are private."""

    def __init__(
        self, network: Term, unfold: int = 0, rules: Rules | str = "corrected", known: Collection[str] | None = None
    ) -> None:
        self.known = known
        self.rules = VARIANTS[rules] if isinstance(rules, str) else rules
        self.names: list[str] = [""]  # of places
        self.parents: list[int] = [-1]
        self.types: dict[str, Term] = {}  # of the names of the network
        self.wild = 0
        self.logs: dict[int, list[Term]] = {}  # in the beginning
        self.unfold = unfold
        atoms: list[tuple[int, str, Term]] = []
        self.load(network, {}, 0, atoms)
        soups: list[list[Atom]] = [[] for _ in self.names]
        for where, trans, process in atoms:
            soups[where] += self.opened(trans, process)
        self.start = self.state(soups, [self.logs.get(n, ()) for n in range(len(soups))], unfold)
        everyone = [trans for soup in self.start.soups for trans, _ in soup]
        everyone += [t for log in self.start.logs for record in log for t in named_in(record)]
        self.homes = {trans: self.home_of(trans) for trans in everyone if not trans.startswith("~")}

    def load(self, network: Term, names: dict[str, str], where: int, atoms: list[tuple[int, str, Term]]) -> None:
        match network:
            case ("place", name, inner, *log):
                self.names.append(names[name])
                self.parents.append(where)
                here = len(self.names) - 1
                self.logs[here] = [self.record(entry, names) for entry in log]
                self.load(inner, names, here, atoms)
            case ("wire", parts):
                for part in parts:
                    self.load(part, names, where, atoms)
            case ("new", name, kind, inner):
                base = name.replace("~", "child_")
                own, count = base, 1
                while own in self.types:
                    count += 1
                    own = f"{base}_{count}"
                kind = canonical(kind)
                made = name.startswith("~") and kind != TRANS if self.known is None else name not in self.known
                if made:
                    own = self.fresh(kind)
                else:
                    self.types[own] = kind
                self.load(inner, names | {name: own}, where, atoms)
            case ("runs", trans, process):
                values: Names = {name: ("name", own) for name, own in names.items()}
                atoms.append((where, names[trans], normal(process, values)))

    def record(self, entry: Term, names: dict[str, str]) -> Term:
        """An entry of a log that stands in the text."""
        values: Names = {name: ("name", own) for name, own in names.items()}
        match entry:
            case ("runs", trans, ("commit" | "abort" as word,)):
                return (word, names[trans])
            case ("wire", (("runs", child, ("nil",)), ("runs", parent, ("child", _) as made))):
                return ("child", names[child], names[parent], prime(made, values, 0))
            case ("wire", (("runs", taker, took), ("runs", sender, sent))):
                rule = {"receive": "RECV", "forward": "FORWARD", "open": "OPEN"}[took[0]]
                return (rule, names[taker], prime(took, values, 0), names[sender], prime(sent, values, 0))
        raise ValueError(entry)

    def home_of(self, trans: str) -> int | None:
        """Where a transaction runs in the beginning: messages may stand elsewhere, if it has anything else."""
        rest = [n for n, soup in enumerate(self.start.soups) for t, p in soup if t == trans and p[0] != "send"]
        rest += [n for n, log in enumerate(self.start.logs) for record in log if record[1] == trans]
        all_ = [n for n, soup in enumerate(self.start.soups) for t, p in soup if t == trans]
        places = set(rest) or set(all_)
        return places.pop() if len(places) == 1 else None

    # -- states

    def fresh(self, kind: Term) -> str:
        kind = canonical(kind)
        if kind not in KINDS:
            KINDS.append(kind)
        self.wild += 1
        return f"~w{self.wild}|{KINDS.index(kind)}"

    def kind_of(self, name: str) -> Term | None:
        """The type of a name."""
        return KINDS[int(name.partition("|")[2])] if name.startswith("~") else self.types.get(name)

    def opened(self, trans: str, process: Term) -> list[Atom]:
        """A process in its parallel parts, in normal form, its private names brought out."""
        return [(trans, prime(part, names, 0)) for part, names in split(process, {}, self.fresh)]

    def state(self, soups: Any, logs: Any, left: int) -> State:
        soups = tuple(tuple(sorted(soup, key=repr)) for soup in soups)
        logs = tuple(tuple(log) for log in logs)
        whole = (soups, logs)
        found = list(dict.fromkeys(name for side in whole for part in side for one in part for name in privates(one)))
        if not found:
            return State(soups, logs, left)
        groups: dict[str, list[str]] = {}
        for name in found:
            seen = {other: "~?|" + other.partition("|")[2] for other in found if other != name} | {name: "~!"}
            sign = repr((name.partition("|")[2], self.sorted(every(whole, seen))))
            groups.setdefault(sign, []).append(name)
        best: tuple[str, Any] | None = None
        for orders in product(*(permutations(groups[sign]) for sign in sorted(groups))):
            flat = [name for order in orders for name in order]
            names = {name: f"~{n}|{name.partition('|')[2]}" for n, name in enumerate(flat)}
            made = self.sorted(every(whole, names))
            if best is None or repr(made) < best[0]:
                best = (repr(made), made)
        assert best is not None
        return State(best[1][0], best[1][1], left)

    @staticmethod
    def sorted(whole: Any) -> Any:
        def again(atom: Atom) -> Atom:
            return (atom[0], closed(atom[1]))

        def record(entry: Term) -> Term:
            return tuple(closed(part) if isinstance(part, tuple) else part for part in entry)

        soups, logs = whole
        return (
            tuple(tuple(sorted(map(again, soup), key=repr)) for soup in soups),
            tuple(tuple(map(record, log)) for log in logs),
        )

    def facts(self, state: State) -> Facts:
        """Who committed, who aborted, who depends on whom: of all logs."""
        records = [record for log in state.logs for record in log]
        return facts_of(records)

    # -- steps

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Each step in words, and what becomes."""
        for where, soup in enumerate(state.soups):
            for atom in dict.fromkeys(soup):
                yield from self.local(state, where, atom)
                yield from self.moves(state, where, atom)
                if where:
                    yield from self.takes(state, where, atom)
                    yield from self.ends(state, where, atom)
        yield from self.commits(state)
        yield from self.cascades(state)

    def change(
        self, state: State, where: int, minus: list[Atom], plus: list[Atom], *records: Term, left: int | None = None
    ) -> State:
        soups = [list(soup) for soup in state.soups]
        for atom in minus:
            soups[where].remove(atom)
        soups[where] += plus
        logs = [list(log) for log in state.logs]
        logs[where] += records
        return self.state(soups, logs, state.left if left is None else left)

    def local(self, state: State, where: int, atom: Atom) -> Iterator[tuple[str, State]]:
        trans, process = atom

        def to(words: str, then: Term, left: int | None = None) -> tuple[str, State]:
            return f"{words} {trans}", self.change(state, where, [atom], self.opened(trans, then), left=left)

        match process:
            case ("bang", body) if state.left:
                yield to("REPLICATE", ("par", (process, body)), state.left - 1)
            case ("receive", ("out", ("name", _)), _, late):
                yield to("RECV TIMEOUT", late)
            case ("forward", ("out", ("name", _)), _, _, late):
                yield to("FORWARD TIMEOUT", late)
            case ("open", ("path", (("out", ("name", _)), ("out", ("name", _)))), _, _, late):
                yield to("OPEN TIMEOUT", late)
            case ("crypt", ("in", ("name", key)), value, cont):
                yield to("CRYPT", ("app", cont, ("packet", ("name", key), value)))
            case ("decrypt", ("out", ("name", key)), ("packet", ("name", other), value), cont) if key == other:
                yield to("DECRYPT", ("app", cont, value))
            case ("let", bound, ("tuple", parts), then) if len(bound) == len(parts):
                yield to("LET", normal(then, dict(zip(bound, parts, strict=True))))
            case ("app", ("fn", bound, _, then), value):
                yield to("APP", normal(then, {bound: value}))

    def moves(self, state: State, where: int, atom: Atom) -> Iterator[tuple[str, State]]:
        trans, process = atom
        if process[0] != "send" or process[1][0] != "path":
            return
        (way, what), *rest = path_of(process[1])
        if what[0] != "name":
            return
        name = what[1]
        there: list[int] = []
        if way == "out" and where and self.names[where] == name:
            there = [self.parents[where]]
        elif way == "in":
            there = [n for n, parent in enumerate(self.parents) if parent == where and self.names[n] == name]
        for to in there:
            soups = [list(soup) for soup in state.soups]
            soups[where].remove(atom)
            soups[to].append((trans, closed(("send", path(*rest), process[2]))))
            yield f"{way.upper()} {trans} {name}", self.state(soups, state.logs, state.left)

    def may_take(self, log: tuple[Term, ...], taker: str, sender: str) -> bool:
        here, rules = facts_of(log), self.rules
        if rules.receive == "printed":
            return taker not in here.aborted and sender not in here.committed
        return (
            (taker not in here.committed or rules.receiver_committed)
            and (taker not in here.aborted or rules.receiver_aborted)
            and (sender not in here.aborted or rules.sender_aborted)
        )

    def takes(self, state: State, where: int, atom: Atom) -> Iterator[tuple[str, State]]:
        taker, process = atom
        if process[0] == "child":
            child = self.fresh(TRANS)
            plus = self.opened(child, process[1])
            yield f"CHILD {taker}", self.change(state, where, [atom], plus, ("child", child, taker, process))
            return
        for message in dict.fromkeys(state.soups[where]):
            sender, sent = message
            if sent[0] != "send" or not self.may_take(state.logs[where], taker, sender):
                continue
            mobile = is_cont(sent[2])
            then: Term
            match process, sent[1]:
                case ("receive", ("out", channel), cont, _), ("in", other) if channel == other and not mobile:
                    rule, then = "RECV", ("app", cont, sent[2])
                case (
                    ("forward", ("out", channel), to, go_on, _),
                    ("path", (("in", other), ("in", key))),
                ) if channel == other and mobile:
                    rule, then = "FORWARD", ("par", (go_on, ("send", path(to, ("in", key)), sent[2])))
                case (
                    ("open", ("path", (("out", channel), ("out", lock))), give, go_on, _),
                    ("path", (("in", other), ("in", key))),
                ) if channel == other and lock == key and mobile:
                    rule, then = "OPEN", ("par", (("app", sent[2], give), go_on))
                case _:
                    continue
            words = f"{rule} {taker} from {sender} {channel[1]}"
            record = (rule, taker, process, sender, sent)
            yield words, self.change(state, where, [atom, message], self.opened(taker, then), record)

    def gone(self, state: State, where: int, trans: str, atom: Atom | None) -> State:
        """What an abort makes: processes killed, messages given back, a record in the log."""
        rules, log = self.rules, state.logs[where]
        counts = TAKEN if rules.mobile_counts else ("RECV",)
        back = [(record[3], record[4]) for record in log if record[0] in counts and record[1] == trans]
        if rules.restore == "set":
            back = list(dict.fromkeys(back))
        elif rules.restore == "nothing":
            back = []
        soup = list(state.soups[where])
        if atom:
            soup.remove(atom)
        soup = [other for other in [*soup, *back] if other[0] != trans or not rules.kill]
        soups = [*state.soups[:where], soup, *state.soups[where + 1 :]]
        logs = [*state.logs[:where], (*log, ("abort", trans)), *state.logs[where + 1 :]]
        return self.state(soups, logs, state.left)

    def ends(self, state: State, where: int, atom: Atom) -> Iterator[tuple[str, State]]:
        trans, process = atom
        if process == ("abort",):
            here = facts_of(state.logs[where])
            if trans not in here.aborted and (trans not in here.committed or self.rules.abort_committed):
                yield f"ABORT {trans}", self.gone(state, where, trans, atom)

    def pending(self, state: State) -> dict[str, int]:
        """Undecided transactions that ask to commit inside a place, and where."""
        facts = self.facts(state)
        decided = facts.committed | facts.aborted
        return {
            trans: where
            for where, soup in enumerate(state.soups)
            for trans, process in soup
            if where and process == ("commit",) and trans not in decided
        }

    def nested(self, inner: int, outer: int) -> bool:
        while inner > 0:
            if inner == outer:
                return True
            inner = self.parents[inner]
        return False

    def may_commit(self, members: tuple[str, ...], facts: Facts, pending: dict[str, int]) -> bool:
        """Whether these may commit together."""
        counted = facts.depends
        others = {u for u, t in counted if t in members and u not in members}
        match self.rules.commit:
            case "closed":
                good = others <= facts.committed
            case "none aborted":
                good = not others & facts.aborted
            case "all pending":
                good = others <= facts.committed | set(pending)
            case _:
                good = True
        if good and self.rules.apart:
            places = [pending[t] for t in members]
            good = not any(self.nested(a, b) or self.nested(b, a) for a, b in combinations(places, 2))
        return good

    def commits(self, state: State) -> Iterator[tuple[str, State]]:
        pending, facts = self.pending(state), self.facts(state)
        if not self.rules.mobile_counts:
            records = [record for log in state.logs for record in log if record[0] not in ("FORWARD", "OPEN")]
            facts = replace(facts, depends=facts_of(records).depends)
        for size in range(1, len(pending) + 1):
            for members in combinations(sorted(pending), size):
                if not self.may_commit(members, facts, pending):
                    continue
                soups, logs = [list(soup) for soup in state.soups], [list(log) for log in state.logs]
                for trans in self.in_turn(state, members):
                    soups[pending[trans]].remove((trans, ("commit",)))
                    logs[pending[trans]].append(("commit", trans))
                yield f"COMMIT {' '.join(members)}", self.state(soups, logs, state.left)

    def in_turn(self, state: State, members: tuple[str, ...]) -> tuple[str, ...]:
        """Who commits at once, in an order in which they could have committed one after the other; of all such orders
        the least, by where one's first record is, and before these by name who has none."""
        depends = self.facts(state).depends
        needs = {(u, t) for u, t in depends if u in members and t in members}
        while more := {(u, t) for u, v in needs for w, t in needs if v == w} - needs:
            needs |= more
        records = [(where, n, record[1]) for where, log in enumerate(state.logs) for n, record in enumerate(log)]

        def key(trans: str) -> tuple[Any, ...]:
            mine = min(((where, n) for where, n, who in records if who == trans), default=None)
            return (0, trans) if mine is None else (1, mine)

        def good(order: tuple[str, ...]) -> bool:
            for n, late in enumerate(order):
                for k, early in enumerate(order[:n]):
                    if (late, early) not in needs:
                        continue
                    circle = [(early, other) in needs and (other, early) in needs for other in order[k : n + 1]]
                    if not all(circle) or key(late) < key(early):
                        return False
            return True

        return min(filter(good, permutations(members)), key=lambda order: [key(trans) for trans in order])

    def home(self, state: State, trans: str) -> int | None:
        """The place of a transaction: of a child, where its record is."""
        for where, log in enumerate(state.logs):
            if any(record[0] == "child" and record[1] == trans for record in log):
                return where
        return self.homes.get(trans)

    def cascades(self, state: State) -> Iterator[tuple[str, State]]:
        if not self.rules.cascade:
            return
        facts = self.facts(state)
        children = {record[1] for log in state.logs for record in log if record[0] == "child"}
        for trans in sorted(set(self.homes) | children):
            home = self.home(state, trans)
            if not home or trans in facts.committed | facts.aborted:
                continue
            then = self.gone(state, home, trans, None)
            if any(t == trans and u in facts.aborted for u, t in facts.depends):
                yield f"CASCADE {trans}", then
            if self.rules.crash:
                yield f"CRASH {trans}", then


def named_in(record: Term) -> list[str]:
    """The transactions of a record: who did something, and whose message or child it is."""
    other = {"commit": (), "abort": (), "child": record[2:3]}.get(record[0], record[3:4])
    return [record[1], *other]


def facts_of(records: Any) -> Facts:
    """What records say."""
    return Facts(
        frozenset(record[1] for record in records if record[0] == "commit"),
        frozenset(record[1] for record in records if record[0] == "abort"),
        frozenset(
            (record[2] if record[0] == "child" else record[3], record[1])
            for record in records
            if record[0] in TAKEN or record[0] == "child"
        ),
    )


def nameless(words: str) -> str:
    """A step without the numbers of names that are made or hidden, which everybody counts differently."""
    return re.sub(r"(?<=~)[\w|]*", "", words)


# The properties by their definitions, over all states.

SAFETY = ("A1", "A2", "A3", "C1", "C2")
FALSE = ("F0", "F1")
ALL = (*SAFETY, *FALSE, "types", "place")


class TooLarge(Exception):  # noqa: N818 - an answer
    """More states than the judge goes through."""


def doomed(facts: Facts) -> frozenset[str]:
    """E: the aborted ones, and whoever depends on one, however indirectly."""
    found = set(facts.aborted)
    while more := {t for u, t in facts.depends if u in found} - found:
        found |= more
    return frozenset(found)


def undo(meaning: Meaning, state: State, erased: frozenset[str], *, keep: bool = False) -> State:
    """undo_E(N); ``keep`` is the wrong one, in which doomed readers keep what they took."""
    aborted = meaning.facts(state).aborted
    soups: list[list[Atom]] = []
    logs = []
    for soup, log in zip(state.soups, state.logs, strict=True):
        left = [atom for atom in soup if atom[0] not in erased]
        for record in log:
            if record[1] not in erased:
                continue
            if record[0] in TAKEN and record[1] not in aborted and record[3] not in erased and not keep:
                left.append((record[3], record[4]))
            if record[0] == "child" and record[2] not in erased:
                left.append((record[2], record[3]))
        soups.append(left)
        logs.append([record for record in log if record[1] not in erased])
    return meaning.state(soups, logs, 0)


@dataclass
class Found:
    """All that can become of a network."""

    states: dict[State, tuple[State, str] | None] = field(default_factory=dict)
    next: dict[State, list[tuple[str, State]]] = field(default_factory=dict)
    broken: dict[str, State] = field(default_factory=dict)  # the nearest state in which a property does not hold
    final: set[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)
    reachable: set[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=set)
    sticks: set[str] = field(default_factory=set)
    why: dict[str, set[str]] = field(default_factory=dict)

    def trace(self, state: State) -> list[str]:
        """A shortest run to a state."""
        words: list[str] = []
        while (before := self.states[state]) is not None:
            state, step = before
            words.append(step)
        return words[::-1]

    def length(self, name: str) -> int:
        """How many steps the shortest run to a broken property has."""
        return len(self.trace(self.broken[name]))


def outcome(facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Committed and aborted, without the numbers of children."""
    return tuple(sorted(map(nameless, facts.committed))), tuple(sorted(map(nameless, facts.aborted)))


def everything(meaning: Meaning, start: State, limit: int) -> Found:
    """All states, nearest first."""
    found = Found({start: None})
    queue = deque([start])
    while queue:
        state = queue.popleft()
        steps = found.next[state] = list(meaning.steps(state))
        for words, then in steps:
            if then not in found.states:
                found.states[then] = (state, words)
                queue.append(then)
                if len(found.states) > limit:
                    raise TooLarge
    return found


def children(state: State) -> set[str]:
    """Those that were made."""
    made = {record[1] for log in state.logs for record in log if record[0] == "child"}
    return {trans for trans in made if trans.startswith("~")}


class Claims:
    """The questions about one network under one set of rules."""

    def __init__(self, meaning: Meaning, limit: int, system: str = "corrected") -> None:
        self.meaning = meaning
        self.limit = limit
        self.system = system
        self.without: dict[frozenset[str], set[State]] = {}

    def could(self, state: State, erased: frozenset[str], *, keep: bool = False) -> bool:
        """Whether what remains could have come about without the erased."""
        meaning = self.meaning
        known = frozenset(trans for trans in erased if not trans.startswith("~"))  # no child is there in the beginning
        if known not in self.without:
            start = undo(meaning, meaning.start, known)
            all_ = everything(meaning, State(start.soups, start.logs, meaning.unfold), self.limit)
            self.without[known] = {State(one.soups, one.logs, 0) for one in all_.states}
        return undo(meaning, state, erased, keep=keep) in self.without[known]

    def broken(self, state: State, names: tuple[str, ...]) -> list[str]:
        """Which of these do not hold here."""
        facts = self.meaning.facts(state)
        committed, aborted, all_ = facts.committed, facts.aborted, doomed(facts)
        above = {t for u, t in facts.depends if u in all_}  # whoever has an aborted one before it
        holds = {
            "A1": lambda: not committed & aborted,
            "A2": lambda: not committed & above,
            "A3": lambda: all(u in committed for u, t in facts.depends if t in committed),
            "C1": lambda: not all_ & committed,
            "C2": lambda: not aborted or self.could(state, all_),
            "F0": lambda: not aborted or self.could(state, aborted),
            "F1": lambda: not aborted or self.could(state, all_, keep=True),
            "types": lambda: not wrong_in(self.meaning, state, self.system),
            "place": lambda: self.one_place(state),
        }
        return [name for name in names if not holds[name]()]

    def one_place(self, state: State) -> bool:
        where: dict[str, set[int]] = {}
        for n, soup in enumerate(state.soups):
            for trans, process in soup:
                if process[0] != "send":
                    where.setdefault(trans, set()).add(n)
        return all(len(places) == 1 for places in where.values())

    def ask(self, names: tuple[str, ...] = SAFETY) -> Found:
        """Go through all states and ask each."""
        meaning = self.meaning
        found = everything(meaning, meaning.start, self.limit)
        for state in found.states:
            facts = meaning.facts(state)
            found.reachable.add(outcome(facts))
            if not found.next[state]:
                found.final.add(outcome(facts))
            open_ = tuple(name for name in names if name not in found.broken)
            for name in self.broken(state, open_):
                found.broken[name] = state
        self.stuck(found)
        return found

    def stuck(self, found: Found) -> None:
        """AG EF decided, by going backwards."""
        before: dict[State, list[State]] = {}
        for state, steps in found.next.items():
            for _, then in steps:
                before.setdefault(then, []).append(state)
        for state, steps in found.next.items():  # a child has another name in every state: ends tell
            facts = self.meaning.facts(state)
            if not steps and {t for t in children(state) if t not in facts.committed | facts.aborted}:
                found.sticks.add("child")
        for trans in self.meaning.homes:
            good = {s for s in found.states if trans in (f := self.meaning.facts(s)).committed | f.aborted}
            queue = list(good)
            while queue:
                for earlier in before.get(queue.pop(), ()):
                    if earlier not in good:
                        good.add(earlier)
                        queue.append(earlier)
            if len(good) < len(found.states):
                found.sticks.add(trans)


# Messages that wait for ever: places do not move, so one that can go nowhere from where it stands, and that nobody
# could take there, whoever came and whatever the log said, stays (unless its own transaction aborts).
#
# What nobody could take is found by trying: a receiver of every kind is put beside it, for every channel and key that
# it names.

Waits = tuple[str, str, Term]  # who sent it, where it is, the message
SENT = re.compile(r"(\S+) sent a message that waits for ever at (\S+): (send\(.*\)) (?:cannot|finds|is|has|can) .*")
NOWHERE = re.compile(r"(\S+) has a capability for (\S+), and no place is called \2: .*")


def takers(message: Term) -> Iterator[Term]:
    """A process of every kind that takes messages, for every name of this one."""
    names = [("name", name) for name in free(message[1])]
    for channel in names:
        yield ("receive", ("out", channel), ("fn", "_1", UNIT, NIL), NIL)
        yield ("forward", ("out", channel), ("in", channel), NIL, NIL)
        for key in names:
            yield ("open", path(("out", channel), ("out", key)), ("in", channel), NIL, NIL)


def stays(meaning: Meaning, where: int, atom: Atom) -> bool:
    """Whether a message can neither go on nor be taken."""

    def alone(*atoms: Atom) -> State:
        soups: list[tuple[Atom, ...]] = [()] * len(meaning.names)
        soups[where] = atoms
        return State(tuple(soups), ((),) * len(soups), 0)

    if any(True for _ in meaning.moves(alone(atom), where, atom)):
        return False
    others = [("somebody", taker) for taker in takers(atom[1])] if where else []  # outside nothing is taken
    return not any(True for one in others for _ in meaning.takes(alone(one, atom), where, one))


def labels(meaning: Meaning) -> list[str]:
    """What places are called: by number, where several have one name."""
    count, before = Counter(meaning.names), Counter[str]()
    found = ["outside"]
    for name in meaning.names[1:]:
        before[name] += 1
        found.append(f"{name}({before[name]})" if count[name] > 1 else name)
    return found


def plain(meaning: Meaning, message: Term) -> Term:
    """A message in which private names, which everybody numbers or calls differently, are all one."""

    def without(term: Term) -> Term:
        if term[:1] == ("name",):
            return term if term[1] in meaning.types or term[1].startswith("_") else ("name", "~")
        return tuple(without(part) if isinstance(part, tuple) else part for part in term)

    return closed(without(closed(message)))


def waiting(meaning: Meaning, found: Found) -> set[Waits]:
    """All such messages of all states."""
    known: dict[tuple[int, Atom], bool] = {}
    for state in found.states:
        for where, soup in enumerate(state.soups):
            for atom in soup:
                if atom[1][0] == "send" and (where, atom) not in known:
                    known[where, atom] = stays(meaning, where, atom)
    called = labels(meaning)
    return {
        (nameless(trans), called[where], plain(meaning, message))
        for (where, (trans, message)), so in known.items()
        if so
    }


def told(meaning: Meaning, words: Iterable[str]) -> set[Waits]:
    """What the product tells of, read."""
    found = set()
    for line in words:
        said = SENT.fullmatch(line)
        if said is None:
            raise ValueError(f"a warning that nobody understands: {line}")
        found.add((nameless(said[1]), said[2], plain(meaning, Reader(said[3]).process())))
    return found


def missing(meaning: Meaning) -> set[str]:
    """Names of places that there are not."""
    return {name for name, kind in meaning.types.items() if unrolled(kind) == ("Place",) and name not in meaning.names}


def nowhere(meaning: Meaning) -> set[tuple[str, str]]:
    """Who names a place that there is not, from the start."""
    gone = missing(meaning)
    return {(t, name) for soup in meaning.start.soups for t, process in soup for name in free(process) & gone}


def warned(meaning: Meaning, found: Found, notes: Iterable[str]) -> Iterator[str]:
    """Whether a verdict warns of what it should: of places that there are not by their name, of other messages each."""
    said = [note.removeprefix("warning: ") for note in notes if note.startswith("warning: ")]
    cut = [line for line in said if line.startswith("there are ")]
    static = {(match[1], match[2]) for line in said if (match := NOWHERE.fullmatch(line))}
    rest = told(meaning, [line for line in said if line not in cut and not NOWHERE.fullmatch(line)])
    gone = [("in", ("name", name)) for name in missing(meaning)]
    wanted = {one for one in waiting(meaning, found) if first(one[2]) not in gone}
    if cut:
        if not static <= nowhere(meaning) or not rest <= wanted or len(said) != 9:
            yield f"of {len(nowhere(meaning)) + len(wanted)} warnings these are shown: {said}"
    elif static != nowhere(meaning) or rest != wanted:
        yield f"warnings {sorted(static)} {sorted(rest)}, the judge {sorted(nowhere(meaning))} {sorted(wanted)}"


def first(message: Term) -> Term:
    """The next step of a message."""
    step: Term = message[1][1][0] if message[1][0] == "path" else message[1]
    return step
