"""Faults that a simulated world (`tests.atomic.places.simulated_logs`) can have planted into its logs, one at a time,
each with the kind of violation by which the audit must name the planted record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.atomic.places.simulated_logs import M, T

# A fault, and the kind of violation that names the planted record.
FAULTS = {
    "commit before the log is written": "commit-undecided",
    "a dependency forgotten": "commit-needs",
    "abort without restoring": "abort-keeps",
    "restored twice": "abort-twice-back",
    "restored what another took": "abort-other-back",
    "restored a dead message of another": "abort-dead-back",
    "half a set decided": "commit-needs",
    "half a set committed": "commit-half",
    "commit after abort": "commit-decided",
    "committed twice": "commit-decided",
    "abort after commit": "abort-decided",
    "aborted twice": "abort-decided",
    "a message taken twice": "take-twice",
    "taken after commit": "take-decided",
    "taken after abort": "take-decided",
    "taken from an aborted one": "take-aborted-sender",
    "taken while it waits": "take-pending",
    "taken from elsewhere": "take-elsewhere",
    "a deposit out of nothing": "deposit-nothing",
    "deposited twice": "deposit-twice",
    "deposited elsewhere": "deposit-elsewhere",
    "altered on its way": "deposit-altered",
    "acknowledged and not there": "sent-nothing",
    "commit without being asked": "commit-not-pending",
    "cascade from nobody": "cascade-nothing",
    "decided before all prepared": "decide-unprepared",
    "given up and decided": "given-up-decided",
    "ended before all committed": "end-early",
    "prepared and not asked": "prepared-not-pending",
    "a name comes again": "id-twice",
    "a start comes again": "boot",
    "it goes on after a restart": "stale",
    "a record is lost": "hole",
    "child of an aborted one": "begin-orphan",
    "hand against the decision": "hand-against",
    "a name of another mark": "id-boot",
    "a log is an older copy": "older-copy",
    "a message of a start that is lost": "start-unknown",
    "it was told that its log is a copy": "behind",
    "a message to its own place is dropped": "commit-undelivered",
    "nobody commits": "commit-empty",
    "one commits twice at once": "commit-repeated",
    "one is twice in a set": "set-twice",
    "its own parent": "begin-itself",
    "ended twice": "end-twice",
    "acknowledged twice": "sent-twice",
    "acknowledged and it stayed here": "sent-here",
    "acknowledged for another place": "id-foreign",
    "decided and the coordinator does not commit": "decide-alone",
    "given up and not prepared": "given-up-unprepared",
}


class Faults:
    """What a world does wrong; it plants a fault when there is an occasion for it."""

    fault: str

    def plant(self) -> None:
        """The fault, if there is an occasion for it now."""
        getattr(self, "fault_" + self.fault.replace(" ", "_"))()

    def one(self, found: list[Any]) -> Any:
        return self.chance.choice(found) if found else None

    def fault_commit_before_the_log_is_written(self) -> None:
        if a := self.one([a for a in self.attempts if not a.over and not a.decided and a.prepared]):
            self.planted = self.done(a, self.chance.choice(sorted(a.prepared)))
            a.over = True

    def fault_a_dependency_forgotten(self) -> None:
        able = [
            t for t in self.of("pending") if not t.attempt and any(self.ts[u].status != "committed" for u in t.needs)
        ]
        if t := self.one(able):
            needed = self.reach(t) - {t.name}
            self.planted = self.commit([t])
            for u in needed:
                self.ts[u].status = "frozen"  # were it to commit as well, nobody could say who was first

    def owes(self, t: T) -> bool:
        """Whether it took what others could take again: not only its own, and what is dead at its place."""
        of = [self.ts[self.ms[mid].sender] for mid in t.took]
        return any(u is not t and (u.home != t.home or u.status != "aborted") for u in of)

    def fault_abort_without_restoring(self) -> None:
        if t := self.one([t for t in self.of("active") if self.owes(t)]):
            where = self.undo(t, "crash")
            self.logs[t.home][-1][2]["back"] = []
            self.planted = where

    def fault_restored_twice(self) -> None:
        if t := self.one([t for t in self.of("active") if self.owes(t)]):
            self.planted = self.undo(t, "asked")
            self.logs[t.home][-1][2]["back"] *= 2

    def fault_restored_what_another_took(self) -> None:
        self.restored_of_another(dead=False)

    def fault_restored_a_dead_message_of_another(self) -> None:
        self.restored_of_another(dead=True)

    def restored_of_another(self, *, dead: bool) -> None:
        able = [
            (t, m) for t in self.of("active") for m in self.ms.values()
            if m.taken not in ("", t.name) and m.to == t.home and m.sender != t.name
            and (self.ts[m.sender].home == m.to and not self.alive(m)) == dead
        ]  # fmt: skip
        if found := self.one(able):
            t, m = found
            self.planted = self.undo(t, "crash")
            self.logs[t.home][-1][2]["back"].append(m.mid)

    def whole_sets(self) -> list[list[T]]:
        return [whole for whole in self.ready() if len(whole) > 1]

    def fault_half_a_set_decided(self) -> None:
        if whole := self.one(self.whole_sets()):
            self.planted = self.commit(whole[:1])
            for t in whole[1:]:
                t.status = "frozen"  # as above

    def fault_half_a_set_committed(self) -> None:
        able = [
            (a, p) for a in self.attempts if a.decided and not a.over
            for p in a.places if p not in a.done
        ]  # fmt: skip
        if found := self.one(able):
            a, place = found
            self.planted = self.done(a, place)
            self.logs[place][-1][2]["members"].pop()

    def fault_commit_after_abort(self) -> None:
        if t := self.one(self.of("aborted")):
            self.planted = self.write(t.home, "commit", members=[t.name], attempt=None)

    def fault_committed_twice(self) -> None:
        if t := self.one(self.of("committed")):
            self.planted = self.write(t.home, "commit", members=[t.name], attempt=None)

    def fault_abort_after_commit(self) -> None:
        if t := self.one([t for t in self.of("committed") if not t.attempt]):
            self.planted = self.write(t.home, "abort", t=t.name, why="crash", back=[])

    def fault_aborted_twice(self) -> None:
        if t := self.one(self.of("aborted")):
            self.planted = self.write(t.home, "abort", t=t.name, why="crash", back=list(t.took))

    def takes(self, ts: list[T], ms: list[M]) -> None:
        able = [(t, m) for t in ts for m in ms if m.to == t.home and m.there]
        if found := self.one(able):
            t, m = found
            before = m.taken
            self.planted = self.taken(t, m)
            m.taken = before or t.name

    def fault_a_message_taken_twice(self) -> None:
        self.takes(self.of("active"), [m for m in self.ms.values() if m.taken and self.alive(m)])

    def alive(self, m: M) -> bool:
        return self.ts[m.sender].status != "aborted"

    def fault_taken_after_commit(self) -> None:
        done = [t for t in self.of("committed") if not t.attempt]
        self.takes(done, [m for m in self.ms.values() if not m.taken and self.alive(m)])

    def fault_taken_after_abort(self) -> None:
        self.takes(self.of("aborted"), [m for m in self.ms.values() if not m.taken and self.alive(m)])

    def fault_taken_from_an_aborted_one(self) -> None:
        dead = [m for m in self.ms.values() if not m.taken and not self.alive(m) and self.ts[m.sender].home == m.to]
        self.takes(self.of("active"), dead)

    def fault_taken_while_it_waits(self) -> None:
        waiting = [t for t in self.of("pending") if not t.attempt]
        self.takes(waiting, [m for m in self.ms.values() if not m.taken and self.alive(m)])

    def fault_taken_from_elsewhere(self) -> None:
        able = [
            (t, m) for t in self.of("active") for m in self.ms.values() if m.there and m.to != t.home and not m.taken
        ]
        if found := self.one(able):
            self.planted = self.taken(*found)

    def fault_a_deposit_out_of_nothing(self) -> None:
        if t := self.one(self.of("committed")):
            to = self.chance.choice(self.places)
            self.planted = self.write(to, "deposit", channel="c", mid=f"{t.name}/{t.sent + 50}", sender=t.name, value=1)

    def fault_deposited_twice(self) -> None:
        if m := self.one([m for m in self.ms.values() if m.there]):
            self.arrive_as(m, m.channel, m.value)

    def arrive_as(self, m: M, channel: str, value: Any) -> None:
        m.there = True
        self.planted = self.write(m.to, "deposit", channel=channel, mid=m.mid, sender=m.sender, value=value)

    def coming(self) -> list[M]:
        """What is on its way, and on record where it was sent: of the rest nobody knows what it was."""
        return [m for m in self.ms.values() if not m.there and not m.lost]

    def fault_deposited_elsewhere(self) -> None:
        if m := self.one(self.coming()):
            m.channel = "d" if m.channel == "c" else "c"
            self.arrive_as(m, m.channel, m.value)
            m.taken = "nobody"  # and nobody will: for the calculus it is where it was sent to

    def fault_altered_on_its_way(self) -> None:
        if m := self.one(self.coming()):
            self.arrive_as(m, m.channel, "altered")

    def fault_acknowledged_and_not_there(self) -> None:
        if m := self.one([m for m in self.ms.values() if not m.there]):
            t = self.ts[m.sender]
            self.planted = self.write(t.home, "sent", t=t.name, seq=int(m.mid.rpartition("/")[2]))
            del self.ms[m.mid]

    def fault_commit_without_being_asked(self) -> None:
        if t := self.one([t for t in self.of("active") if all(self.ts[u].status == "committed" for u in t.needs)]):
            self.planted = self.commit([t])

    def fault_cascade_from_nobody(self) -> None:
        able = [(t, u) for t in self.of("active") for u in sorted(t.needs) if self.ts[u].status == "committed"]
        if found := self.one(able):
            t, u = found
            self.planted = self.undo(t, f"cascade from {u}")

    def fault_decided_before_all_prepared(self) -> None:
        able = [a for a in self.attempts if not a.over and not a.decided and len(a.prepared) < len(a.places) - 1]
        if a := self.one(able):
            self.planted = self.decide(a)
            a.over = True

    def fault_given_up_and_decided(self) -> None:
        if a := self.one([a for a in self.attempts if a.decided and len(a.done) < len(a.places)]):
            place = next(p for p in a.places if p not in a.done)
            self.planted = self.write(place, "given_up", attempt=a.name)

    def fault_ended_before_all_committed(self) -> None:
        if a := self.one([a for a in self.attempts if a.decided and len(a.done) < len(a.places)]):
            self.planted = self.write(a.coordinator, "end", attempt=a.name)
            a.over = True

    def fault_prepared_and_not_asked(self) -> None:
        if t := self.one(self.of("active")):
            self.planted = self.write(
                t.home, "prepared", attempt="x:1:a1", coordinator="x", members=[t.name], needs=[]
            )  # fmt: skip

    def fault_a_name_comes_again(self) -> None:
        able = [t for t in self.ts.values() if t.name.split(":")[1] == self.start(t.home)]
        if t := self.one(able):
            self.planted = self.write(t.home, "begin", t=t.name, parent=None)

    def fault_a_start_comes_again(self) -> None:
        place = self.chance.choice(self.places)
        for t in self.of("active", place):
            self.undo(t, "asked")
        self.planted = self.write_boot(place)
        self.boots[place] += 50  # no more names from here

    def fault_it_goes_on_after_a_restart(self) -> None:
        if t := self.one(self.of("active")):
            self.boots[t.home] += 1
            self.numbers[t.home] = 0
            self.write_boot(t.home)
            for other in self.of("active", t.home):
                if other is not t:
                    self.undo(other, "crash")
            self.planted = t.home, self.logs[t.home][-1][0] + 1
            self.send(t)
            self.undo(t, "crash")

    def fault_a_record_is_lost(self) -> None:
        place = self.one([p for p in self.places if len(self.logs[p]) > 3])
        if place:
            seq, kind, fields = self.logs[place].pop()
            self.logs[place].append((seq + 1, kind, fields))
            self.planted = place, seq + 1

    def fault_child_of_an_aborted_one(self) -> None:
        if t := self.one(self.of("aborted")):
            self.begin(t.home, t)
            self.planted = t.home, self.logs[t.home][-1][0]

    def fault_hand_against_the_decision(self) -> None:
        if t := self.one(self.of("committed")):
            self.planted = self.write(t.home, "hand", what=t.name, outcome="abort", who="ada", when=0.0)

    def fault_a_name_of_another_mark(self) -> None:
        place = self.chance.choice(self.places)
        self.planted = self.write(place, "begin", t=f"{place}:{self.boots[place]}-other:9", parent=None)

    def fault_a_log_is_an_older_copy(self) -> None:
        """Another place has heard of a record that is not there: of a start that goes on, or of one that is lost."""
        here, place = self.chance.sample([*self.places, *self.places], 2)
        start = self.chance.choice([self.start(place), f"{self.boots[place]}-other"])
        self.planted = self.write(here, "met", place=place, stand=f"{start}/{len(self.logs[place]) + 1000}")

    def fault_a_message_of_a_start_that_is_lost(self) -> None:
        here, place = self.chance.sample([*self.places, *self.places], 2)
        t = f"{place}:{self.boots[place] + 70}-other:1"
        self.planted = self.write(here, "deposit", channel="c", mid=f"{t}/1", sender=t, value=0)

    def fault_it_was_told_that_its_log_is_a_copy(self) -> None:
        place = self.chance.choice(self.places)
        self.planted = self.write(place, "behind", stand="70-other/9", source="x")

    def fault_a_message_to_its_own_place_is_dropped(self) -> None:
        able = [whole for whole in self.ready() if len({t.home for t in whole}) == 1]
        able = [whole for whole in able if any(self.unheard(t) for t in whole)]
        if whole := self.one(able):
            mid = self.chance.choice([mid for t in whole for mid in self.unheard(t)])
            log = self.logs[whole[0].home]
            kept = [record for record in log if not (record[1] == "deposit" and record[2]["mid"] == mid)]
            log[:] = [(n, kind, fields) for n, (_, kind, fields) in enumerate(kept, 1)]
            del self.ms[mid]
            self.planted = self.commit(whole)

    def unheard(self, t: T) -> list[str]:
        """What it sent to its own place, and nobody ever took."""
        took = {f["mid"] for log in self.logs.values() for _, kind, f in log if kind == "take"}
        back = {mid for log in self.logs.values() for _, kind, f in log if kind == "abort" for mid in f["back"]}
        return [m.mid for m in self.ms.values() if m.sender == t.name and m.to == t.home and m.mid not in took | back]

    def fault_nobody_commits(self) -> None:
        self.planted = self.write(self.chance.choice(self.places), "commit", members=[], attempt=None)

    def fault_one_is_twice_in_a_set(self) -> None:
        able = [(a, p) for a in self.attempts if a.decided and not a.over for p in a.places if p not in a.done]
        if found := self.one(able):
            a, place = found
            self.planted = self.done(a, place)
            members = self.logs[place][-1][2]["members"]
            members.append(members[0])

    def fault_one_commits_twice_at_once(self) -> None:
        if whole := self.one([whole for whole in self.ready() if len({t.home for t in whole}) == 1]):
            names = [t.name for t in whole]
            self.planted = self.write(whole[0].home, "commit", members=[*names, names[0]], attempt=None)
            for t in whole:
                t.status = "committed"

    def fault_its_own_parent(self) -> None:
        t = self.begin(self.chance.choice(self.places))
        self.logs[t.home][-1][2]["parent"] = t.name
        self.planted = t.home, self.logs[t.home][-1][0]
        t.status = "frozen"

    def fault_ended_twice(self) -> None:
        ended = {f["attempt"] for log in self.logs.values() for _, kind, f in log if kind == "end"}
        if a := self.one([a for a in self.attempts if a.name in ended]):
            self.planted = self.write(a.coordinator, "end", attempt=a.name)

    def fault_acknowledged_twice(self) -> None:
        told = [(place, f) for place, log in self.logs.items() for _, kind, f in log if kind == "sent"]
        if found := self.one(told):
            self.planted = self.write(found[0], "sent", **found[1])

    def fault_acknowledged_and_it_stayed_here(self) -> None:
        if m := self.one([m for m in self.ms.values() if m.there and self.ts[m.sender].home == m.to]):
            self.planted = self.write(m.to, "sent", t=m.sender, seq=int(m.mid.rpartition("/")[2]))

    def fault_acknowledged_for_another_place(self) -> None:
        if m := self.one([m for m in self.ms.values() if m.there and self.ts[m.sender].home != m.to]):
            self.planted = self.write(m.to, "sent", t=m.sender, seq=int(m.mid.rpartition("/")[2]))

    def fault_given_up_and_not_prepared(self) -> None:
        able = [(a, p) for a in self.attempts if not a.over and not a.decided for p in a.places if p not in a.prepared]
        if found := self.one(able):
            a, place = found
            self.planted = self.write(place, "given_up", attempt=a.name)
            a.over = True

    def fault_decided_and_the_coordinator_does_not_commit(self) -> None:
        others = [a for a in self.attempts if not a.over and not a.decided and len(a.prepared) == len(a.places) - 1]
        if a := self.one(others):
            self.planted = self.decide(a)
            self.logs[a.coordinator].pop()
            self.synced[a.coordinator] = len(self.logs[a.coordinator])
            self.begin(a.coordinator)
            a.over = True
