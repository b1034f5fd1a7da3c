"""Both semantics a second time, from their meaning, with other data: times of the day instead of clocks, names instead
of positions, guards written down one by one.  It imports the values of steps and nothing that it judges."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor
from typing import Any

from pellucid.capacity import Step, Topology


class Told:
    """A topology that runs; ``analysed`` is the bolt under analysis, None for the urgent semantics."""

    def __init__(self, t: Topology, analysed: str | None = None) -> None:
        self.t, self.analysed, self.now = t, analysed, Fraction(0)
        self.emitted_at = {s: Fraction(0) for s in t.spouts}
        self.people = [(b, n) for b, bolt in t.bolts.items() for n in range(bolt.workers)]  # type: ignore[arg-type]
        self.does: dict[Any, str] = dict.fromkeys(self.people, "I")
        self.begun: dict[Any, Fraction] = {}
        self.done = Counter(dict.fromkeys(t.bolts, 0))  # tuples for which the bolt has emitted
        self.queue: Counter[Any] = Counter()
        for b, bolt in t.bolts.items():
            places = [b] if bolt.queue == "shared" else [p for p in self.people if p[0] == b]
            for n in range(bolt.initial):
                self.queue[places[n % len(places)]] += 1
        self.can_elapse, self.do_take, self.do_emit, self.set_flags = True, False, False, "No"

    def source(self, person: Any) -> Any:
        return person[0] if self.t.bolts[person[0]].queue == "shared" else person

    def could_take(self, person: Any) -> bool:
        return self.does[person] == "I" and self.queue[self.source(person)] > 0

    def settled(self) -> bool:
        return not any(self.could_take(p) or self.does[p] == "E" for p in self.people)

    def length(self, b: str) -> int:
        return max(self.queue[self.source(p)] for p in self.people if p[0] == b)

    def due(self, b: str) -> int:
        ratio = self.t.bolts[b].ratio
        return floor((self.done[b] + 1) * ratio) - floor(self.done[b] * ratio)

    def right(self, sender: str, to: tuple[Any, ...], many: int) -> bool:
        hearers = [b for b, bolt in self.t.bolts.items() if sender in bolt.hears]
        got = Counter(place if isinstance(place, str) else place[0] for place in to)
        if any(place not in map(self.source, self.people) for place in to) or any(b not in hearers for b in got):
            return False
        if self.t.routing == "all":
            return bool(hearers) and all(got[b] == many for b in hearers)
        return bool(hearers) and sum(got.values()) == many

    def allowed(self, step: Step) -> bool:
        urgent = self.analysed is None
        kind, who = step.action, step.who
        if kind == "time_elapse":
            by = step.by or Fraction(0)
            if by <= 0:
                return False
            if not urgent:
                return self.can_elapse
            ends = [self.begun[p] + self.t.bolts[p[0]].time for p in self.people if self.does[p] == "X"]
            return self.settled() and all(self.now + by <= end for end in ends)
        if kind.startswith("set"):
            return not urgent and self.flag(kind)
        if not urgent and self.set_flags != "No":
            return False
        if kind == "spout_emit":
            if who not in self.emitted_at or self.now - self.emitted_at[who] <= self.t.spouts[who].gap:  # type: ignore[index]
                return False
            if not (self.settled() if urgent else not self.do_take and not self.do_emit):
                return False
            return self.right(who, step.to, 1)  # type: ignore[arg-type]
        if who not in self.does:
            return False
        free = urgent or who[0] != self.analysed  # type: ignore[index]
        if kind == "bolt_take":
            return self.could_take(who) and (free or self.do_take)
        bolt: str = who[0]  # type: ignore[index]
        return self.does[who] == "E" and (free or self.do_emit) and self.right(bolt, step.to, self.due(bolt))

    def flag(self, kind: str) -> bool:
        """(6) to (9), and those of DoEmit, as the text beside them says."""
        mine = [p for p in self.people if p[0] == self.analysed]
        empty = all(self.queue[self.source(p)] == 0 for p in mine)
        takes = any(self.could_take(p) for p in mine)
        emits = any(self.does[p] == "E" for p in mine)
        if kind.startswith("setDoTake"):
            holds = {
                "T": takes, "F1": empty, "F2": not empty and not takes and len(mine) > 1,
                "F2a": not empty and not takes and len(mine) == 1,
            }  # fmt: skip
            return self.set_flags == "DT" and holds[kind.removeprefix("setDoTake_")]
        holds = {"T": emits, "F1": not emits and len(mine) > 1, "F1a": not emits and len(mine) == 1}
        return self.set_flags == "DE" and holds[kind.removeprefix("setDoEmit_")]

    def change(self, step: Step) -> None:
        kind, who = step.action, step.who
        for place in step.to:
            self.queue[place if isinstance(place, str) else tuple(place)] += 1
        if kind.startswith("setDoTake"):
            self.do_take, self.set_flags = kind.endswith("T"), "DE"
            return
        if kind.startswith("setDoEmit"):
            self.do_emit, self.set_flags = kind.endswith("T"), "No"
            return
        self.set_flags, self.can_elapse = "DT", kind != "time_elapse"
        if kind == "spout_emit":
            self.emitted_at[who] = self.now  # type: ignore[index]
        elif kind == "bolt_take":
            self.queue[self.source(who)] -= 1
            self.does[tuple(who)], self.begun[tuple(who)] = "X", self.now  # type: ignore[arg-type]
        elif kind == "bolt_emit":
            self.does[tuple(who)] = "I"  # type: ignore[arg-type]
            self.done[who[0]] += 1  # type: ignore[index]
        else:
            self.now += step.by or 0
            for p in self.people:
                if self.does[p] == "X" and self.begun[p] + self.t.bolts[p[0]].time <= self.now:
                    heard = any(p[0] in bolt.hears for bolt in self.t.bolts.values())
                    self.does[p] = "E" if heard else "I"
