"""A small recorded run as a network of the calculus, and its records as steps of that network's machine.

Every transaction becomes a process that does what its records say, in that order; every channel and every value a name.
Who is asked is `pellucid.atomic.Atomic` with the rules *crash* (CASCADE and CRASH on): it knows nothing of records,
attempts or restarts.  A record that its machine has no step for is refused here, too.

A child is written as one who took a message of its parent that no other can take: the same u ⇝ t, without names that
change from state to state.  A message leaves its place when its `send` is on record, so that an abort at home does not
catch what is on its way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pellucid.atomic import syntax as s
from pellucid.atomic.machine import Atomic, Step
from pellucid.atomic.places.audit.records import Row, cascade_of, home, leads_to, message_of
from pellucid.atomic.state import Item, State, path_of
from pellucid.atomic.syntax import parse

MOST_RECORDS = 400  # of a run that is translated: each step copies the state
MOST_SETS = 3000  # that could commit at the same time: n transactions may in 2ⁿ
_LONG = 60  # records of one transaction: its process is nested as deeply
_WORDS = {"send", "receive", "recv", "crypt", "decrypt", "forward", "open", "child", "commit", "abort", "new", "let",
          "in", "out", "rec", "Place", "Trans", "Chan", "Key", "Packet", "Cap", "x", "idle"}  # fmt: skip


class TooLarge(Exception):  # noqa: N818 - an answer
    """The run is not one that is translated."""


@dataclass
class Names:
    """Names of the calculus for what logs call otherwise."""

    given: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, sort: str, what: str) -> str:
        """The name of something; always the same."""
        if (sort, what) not in self.given:
            base = re.sub(r"[^A-Za-z0-9_]", "_", what)
            if sort == "value" or not re.match(r"[A-Za-z_]", base):
                base = f"{sort[0]}{len(self.given)}"
            taken = {*self.given.values(), *_WORDS}
            own, n = base, 1
            while own in taken:
                n += 1
                own = f"{base}_{n}"
            self.given[sort, what] = own
        return self.given[sort, what]

    def birth(self, child: str) -> str:
        """The channel over which a child gets the message of its parent."""
        return self.of("birth", f"born {child}")

    def sort(self, sort: str) -> list[str]:
        """All names of a sort."""
        return [own for (kind, _), own in self.given.items() if kind == sort]


@dataclass
class Translated:
    """A run in the language of the calculus."""

    text: str
    names: Names
    run: Sequence[Row]
    tree: Mapping[str, str | None]
    sends: dict[str, Row]
    lost: set[str] = field(default_factory=set)  # of whom no log says how they ended

    def path(self, mid: str) -> tuple[str, ...]:
        """The capabilities of a message from its place to its channel."""
        row = self.sends[mid]
        to, channel = leads_to(row, self.tree)
        steps = [f"{move} {self.names.of('place', name)}" for move, name, *_ in row.fields["path"][:-1]]
        return (*steps, f"in {self.names.of('channel', f'{to}.{channel}')}")

    def value(self, mid: str) -> str:
        """The name of what a message carries."""
        return self.names.of("value", repr(self.sends[mid].fields["value"]))


def translated(tree: Mapping[str, str | None], run: Sequence[Row]) -> Translated:
    """A run as a network: its text, and what its names mean.

    >>> run = [Row("p", 1, "boot", {"n": 1}), Row("p", 2, "begin", {"t": "p:1:1", "parent": None}),
    ...        Row("p", 3, "send", {"t": "p:1:1", "seq": 1, "path": [["in", "c"]], "value": 7}),
    ...        Row("p", 4, "pending", {"t": "p:1:1"})]
    >>> print(translated({"p": None}, run).text)
    new p: Place.
    new p_1_1: Trans.
    new v3: Chan[<>].
    new p_c, idle: Chan[Chan[<>]].
    p[ p_1_1{send(in p_c, v3) | commit} ]
    """
    if len(run) > MOST_RECORDS:
        raise TooLarge(f"it has {len(run):,} records, and up to {MOST_RECORDS} are translated")
    names = Names()
    for place in tree:
        names.of("place", place)
    sends = {f"{row.fields['t']}/{row.fields['seq']}": row for row in run if row.kind == "send"}
    if any(name not in tree for row in sends.values() for _, name, *_ in row.fields["path"][:-1]):
        raise TooLarge("a path leads through a place that is not of the network")
    does: dict[str, list[Row]] = {}
    births: dict[str, list[str]] = {}
    for row in run:  # a message whose record was lost with a tail: it came all the same
        if row.kind == "deposit" and row.fields["mid"] not in sends:
            t, seq = message_of(row.fields["mid"]) or ("", 0)
            if home(t) in tree:
                path = [*_way(tree, home(t), row.place), ["in", row.fields["channel"]]]
                lost = Row(home(t), 0, "send", {"t": t, "seq": seq, "path": path, "value": row.fields["value"]})
                sends[row.fields["mid"]] = lost
                does.setdefault(t, []).append(lost)
    for row in run:
        if row.kind == "begin":
            does.setdefault(row.fields["t"], [])
            if parent := row.fields.get("parent"):
                births.setdefault(parent, []).append(row.fields["t"])
                does[row.fields["t"]].append(row)
        elif row.kind in ("send", "take", "pending", "abort"):
            does.setdefault(row.fields["t"], []).append(row)
    ended = {row.fields["t"] for row in run if row.kind in ("abort", "pending")}
    out = Translated("", names, run, tree, sends, {*does} - ended)
    bodies: dict[str, list[str]] = {place: [] for place in tree}
    for t, rows in does.items():
        if len(rows) > _LONG:
            raise TooLarge(f"{t} has {len(rows)} records, and up to {_LONG} are translated")
        if home(t) not in bodies:
            raise TooLarge(f"{t} is at no place of the network")
        born = "".join(f"send(in {names.birth(child)}, {names.of('value', 'birth')}) | " for child in births.get(t, ()))
        bodies[home(t)].append(f"{names.of('trans', t)}{{{born}{_process(out, rows)}}}")
    out.text = _network(out, bodies)
    return out


def _way(tree: Mapping[str, str | None], start: str, to: str) -> list[list[str]]:
    """The way from a place to another, through the tree.

    >>> _way({"office": None, "agent": "office", "desk": "agent", "airline": None}, "desk", "airline")
    [['out', 'desk'], ['out', 'agent'], ['out', 'office'], ['in', 'airline']]
    """

    def around(place: str) -> list[str]:
        out = [place]
        while (parent := tree.get(out[-1])) is not None and parent not in out:
            out.append(parent)
        return out

    up, down = around(start), around(to)
    while up and down and up[-1] == down[-1]:
        up.pop()
        down.pop()
    return [*(["out", place] for place in up), *(["in", place] for place in reversed(down))]


def _process(out: Translated, rows: Sequence[Row]) -> str:
    """What a transaction does, record by record.  Who has said nothing more waits at a channel that is not used."""
    if not rows:
        return "receive(out idle, (x) 0, 0)"
    row, rest = rows[0], rows[1:]
    f, names = row.fields, out.names
    if row.kind == "send":
        mid = f"{f['t']}/{f['seq']}"
        return f"send({'.'.join(out.path(mid))}, {out.value(mid)}) | {_process(out, rest)}"
    if row.kind == "pending":
        return "commit" + (f" | {_process(out, rest)}" if any(r.kind in ("send", "take") for r in rest) else "")
    if row.kind == "abort":
        return "abort" if f.get("why") == "asked" else _process(out, rest)
    channel = names.birth(f["t"]) if row.kind == "begin" else names.of("channel", f"{row.place}.{f['channel']}")
    return f"receive(out {channel}, (x) {_process(out, rest)}, 0)"


def _network(out: Translated, bodies: Mapping[str, list[str]]) -> str:
    def place(name: str) -> str:
        inside = [place(other) for other, parent in out.tree.items() if parent == name]
        return f"{out.names.of('place', name)}[ {' | '.join([*bodies[name], *inside]) or '0'} ]"

    tops = " | ".join(place(name) for name, parent in out.tree.items() if parent is None)
    sort = out.names.sort
    carried = [*sort("channel"), *sort("birth"), "idle"]
    lines = [
        (sort("place"), "Place"),
        (sort("trans"), "Trans"),
        (sort("value"), "Chan[<>]"),
        (carried, "Chan[Chan[<>]]"),
    ]
    return "\n".join([*(f"new {', '.join(own)}: {kind}." for own, kind in lines if own), tops])


# ---------------------------------------------------------------- step by step


class Replay:
    """The machine of a translated run, and where it stands."""

    def __init__(self, run: Translated) -> None:
        self.run, self.names = run, run.names
        self.machine = Atomic(parse(run.text), rules="crash", text=run.text)
        self.at: State = self.machine.start()
        self.steps: list[Step] = []
        self.left: dict[str, int] = {}  # hops that a message has behind it
        self.decided: set[str] = set()
        self.position = {name: i for i, name in enumerate(self.machine.layout.names)}

    def go(self) -> tuple[Row, str] | None:
        """The first record for which the machine has no step, and what it would have to be; None if it has all."""
        for mid, sent in self.run.sends.items():
            if not sent.seq and len(self.run.path(mid)) > 1:  # its record was lost, it was not: it is on its way
                self._hop(mid)
        for row in self.run.run:
            wrong = self.record(row)
            if wrong:
                return row, wrong
        return None

    def record(self, row: Row) -> str:
        """The steps of one record; what is missing, if one is."""
        f = row.fields
        match row.kind:
            case "begin" if f.get("parent"):
                return self._receive(row, f["t"], f["parent"], self.names.birth(f["t"]), "birth")
            case "send":
                mid = f"{f['t']}/{f['seq']}"
                return self._hop(mid) if len(self.run.path(mid)) > 1 else ""
            case "deposit":
                while f["mid"] in self.run.sends and self.left.get(f["mid"], 0) < len(self.run.path(f["mid"])) - 1:
                    if wrong := self._hop(f["mid"]):
                        return wrong
            case "take":
                channel = self.names.of("channel", f"{row.place}.{f['channel']}")
                if f["mid"] not in self.run.sends:
                    return f"{f['t']} takes {f['mid']}, which was not sent"
                value = repr(self.run.sends[f["mid"]].fields["value"])
                return self._receive(row, f["t"], f["sender"], channel, value)
            case "decide":
                self.decided.add(f["attempt"])
                return self._commit(f["members"])
            case "commit" if f.get("attempt") not in self.decided:
                return self._commit(f["members"])
            case "abort":
                return self._abort(row)
        return ""

    def _offered(self, who: str, kind: type[s.Process], place: int | None = None) -> Iterator[tuple[Step, State]]:
        """The steps of one transaction's processes of a kind: the machine is asked for these rules and no others.
        Steps that read alike are distinguished as the machine does it."""
        machine, items = self.machine, self.machine.store.items
        seen: dict[Step, list[State]] = {}
        rule = {
            s.Send: machine.red_in_out,
            s.Receive: machine.red_recv,
            s.Continue: machine.red_app,
            s.Abort: machine.red_abort,
        }
        for at, soup in enumerate(self.at.soups):
            if place in (None, at):
                messages = [i for i in dict.fromkeys(soup) if isinstance(items[i].process, s.Send)]
                for i in dict.fromkeys(soup):
                    if items[i].trans == who and isinstance(items[i].process, kind):
                        for step, then in rule[kind](self.at, at, i, messages):
                            alike = seen.setdefault(step, [])
                            if then not in alike:
                                alike.append(then)
                                yield step._replace(pick=len(alike) - 1), then

    def _take(self, step: Step, then: State) -> str:
        self.steps.append(step)
        self.at = then
        return ""

    def _hop(self, mid: str) -> str:
        """The next hop of a message on its way."""
        t = self.names.of("trans", self.run.sends[mid].fields["t"])
        path, done = self.run.path(mid), self.left.get(mid, 0)
        self.left[mid] = done + 1
        rest = path_of(tuple(_capability(part) for part in path[done + 1 :]))
        item = self.machine.store.item(Item(t, s.Send(rest, s.Param(self.run.value(mid)))))
        rule, _, place = path[done].partition(" ")
        for step, then in self._offered(t, s.Send):
            if step.rule == rule.upper() and step.who == (t,) and step.about == place:
                before, after = (sum(soup.count(item) for soup in at.soups) for at in (self.at, then))
                if after > before:
                    return self._take(step, then)
        return f"{mid} cannot go {path[done]}"

    def _receive(self, row: Row, t: str, sender: str, channel: str, value: str) -> str:
        who, source = self.names.of("trans", t), self.names.of("trans", sender)
        carried = s.Param(self.names.of("value", value))
        for step, then in self._offered(who, s.Receive, self._at(row.place)):
            if (step.rule, step.who, step.source, step.about) == ("RECV", (who,), source, channel):
                message = self.machine.store.entries[then.logs[self._at(row.place)][-1]].message
                if message is not None and isinstance(message.process, s.Send) and message.process.what == carried:
                    self._take(step, then)
                    return self._apply(who)
        return f"there is no RECV {who} from {source} {channel}"

    def _apply(self, who: str) -> str:
        for step, then in self._offered(who, s.Continue):
            if step.rule == "APP" and step.who == (who,):
                return self._take(step, then)
        return f"there is no APP {who}"

    def _at(self, place: str) -> int:
        return self.position[self.names.of("place", place)]

    def _commit(self, members: Sequence[str]) -> str:
        who = tuple(sorted(self.names.of("trans", t) for t in members))
        offered = self.machine.red_commit(self.at)
        for step, then in islice(offered, MOST_SETS):
            if step.who == who:
                return self._take(step, then)
        if any(True for _ in offered):
            raise TooLarge(f"more than {MOST_SETS:,} sets of transactions could commit at the same time")
        return f"there is no COMMIT {' '.join(who)}"

    def _abort(self, row: Row) -> str:
        t, why = row.fields["t"], row.fields.get("why")
        who = self.names.of("trans", t)
        u = cascade_of(why)
        if u in self.run.lost:  # it crashed with its place
            self.run.lost.discard(u)
            if wrong := self._step(["CRASH"], self.names.of("trans", u)):
                return wrong
        if u and (cause := self.names.of("trans", u)) not in self.machine.view(self.at).aborted:
            return f"there is no CASCADE {who} from {cause}"  # there may be one from another
        wanted = ["CASCADE"] if u else ["ABORT", "CRASH"] if why == "asked" else ["CRASH"]
        return self._step(wanted, who, row)

    def _step(self, wanted: list[str], who: str, row: Row | None = None) -> str:
        for rule in wanted:
            machine = self.machine
            rules = {"CASCADE": machine.red_cascade, "CRASH": machine.red_crash}
            offered = rules[rule](self.at) if rule in rules else self._offered(who, s.Abort)
            for step, then in offered:
                if step.rule == rule and step.who == (who,):
                    wrong = self._restored(row, who, then, self._at(row.place)) if row is not None else ""
                    return wrong or self._take(step, then)
        return f"there is no {' or '.join(wanted)} {who}"

    def _restored(self, row: Row, who: str, then: State, place: int) -> str:
        """Whether what the record puts back is what the rule puts back; messages of who has aborted here aside."""
        if row.fields.get("back") is None:
            return ""
        items, births = self.machine.store.items, {s.In(s.Param(name)) for name in self.names.sort("birth")}
        gone = {who} | {t for t in self.machine.view(self.at).aborted if self.machine.home(self.at, t) == place}
        found = Counter(then.soups[place])
        found.subtract(i for i in self.at.soups[place] if items[i].trans != who)
        by_rule = Counter[Item]()
        for i, count in found.items():
            process = items[i].process
            if count > 0 and isinstance(process, s.Send) and process.to not in births and items[i].trans not in gone:
                by_rule[Item(items[i].trans, s.Send(process.to, process.what))] += count
        by_record = Counter[Item]()
        for mid in row.fields["back"]:
            if mid not in self.run.sends:
                return f"{mid} was not sent"
            sender = self.names.of("trans", self.run.sends[mid].fields["t"])
            if sender not in gone:
                channel = _capability(self.run.path(mid)[-1])
                by_record[Item(sender, s.Send(channel, s.Param(self.run.value(mid))))] += 1
        if by_rule == by_record:
            return ""
        said, does = (", ".join(map(str, sorted(one.elements(), key=str))) or "nothing" for one in (by_record, by_rule))
        return f"it puts back {said}, and the rule {does}"


def _capability(text: str) -> s.Value:
    way, _, name = text.partition(" ")
    return s.In(s.Param(name)) if way == "in" else s.Out(s.Param(name))
