"""Questions that people ask about pipelines that people write, with the answers that are right: `bench/questions.py`
asks them all.

Each answer was worked out by hand before it was asked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pellucid import Stream, apply, check, merge, pipeline

__all__ = ["QUESTIONS", "Question"]


@dataclass(frozen=True)
class Question:
    """A question in words, how to ask it, and what is true."""

    about: str
    words: str
    ask: Callable[..., Any]
    answer: str


QUESTIONS: list[Question] = []


def question(about: Any, words: str, answer: str, ask: Callable[..., Any]) -> None:
    QUESTIONS.append(Question(about.name, words, ask, answer))


def holds(about: Any, words: str, answer: str, formula: str, **more: Any) -> None:
    question(about, words, answer, lambda **how: check.holds(about, formula, **more, **how))


# ---------------------------------------------------------------------------- payments


@dataclass(frozen=True)
class Payment:
    account: int
    cents: int
    approved: bool


@pipeline
def balances(p: Stream[Payment]) -> Stream[int]:
    return (
        p.filter(lambda e: e.approved).key_by(lambda e: e.account).cumulate(lambda total, e: total + e.cents, start=0)
    )


@pipeline
def balances_as_task(p: Stream[Payment]) -> Stream[int]:
    def add(total: int, e: Payment) -> tuple[int, list[int]]:
        return (total + e.cents, [total + e.cents]) if e.approved else (total, [])

    return p.key_by(lambda e: e.account).task(add, 0)


@pipeline
def balances_unapproved(p: Stream[Payment]) -> Stream[int]:  # forgets to look whether a payment was approved
    return p.key_by(lambda e: e.account).cumulate(lambda total, e: total + e.cents, start=0)


holds(balances, "no balance is negative", "refuted", "G (out -> out.value >= 0)")
holds(
    balances,
    "no balance is negative if no payment is negative",
    "proved",
    "G (out -> out.value >= 0)",
    assume="p -> p.value.cents >= 0",
)
holds(
    balances,
    "a payment that was not approved changes nothing that is seen",
    "proved",
    "G (p -> (out <-> p.value.approved))",
)
question(balances, "another balance can always come", "proved", lambda **how: check.live(balances, **how))
question(
    balances, "the same, written as a task", "proved", lambda **how: check.equivalent(balances, balances_as_task, **how)
)
question(
    balances,
    "the same without looking at approval",
    "refuted",
    lambda **how: check.equivalent(balances, balances_unapproved, **how),
)


@pipeline
def ledger(p: Stream[Payment]) -> Stream[int]:
    """The balance of each account; a withdrawal that it cannot bear is left out."""

    def move(balance: int, e: Payment) -> tuple[int, list[int]]:
        if balance + e.cents < 0:
            return balance, []
        return balance + e.cents, [balance + e.cents]

    return p.key_by(lambda e: e.account).task(move, 0)


holds(ledger, "no account is ever overdrawn", "proved", "G (out -> out.value >= 0)")
holds(ledger, "every payment is booked", "refuted", "G (p -> out)")
holds(ledger, "every payment into an account is booked", "proved", "G (p.value.cents >= 0 -> out)")
question(ledger, "something can always be booked", "proved", lambda **how: check.live(ledger, **how))
holds(ledger, "no balance is above a million", "refuted", "G (out -> out.value <= 1000000)")


@pipeline
def large(p: Stream[Payment]) -> Stream[Payment]:
    return p.filter(lambda e: e.approved and e.cents > 100_000)


@pipeline
def large_in_two_steps(p: Stream[Payment]) -> Stream[Payment]:
    return p.filter(lambda e: e.cents > 100_000).filter(lambda e: e.approved)


@pipeline
def large_off_by_one(p: Stream[Payment]) -> Stream[Payment]:
    return p.filter(lambda e: e.approved and e.cents >= 100_000)


holds(large, "only payments above 1,000.00 are reported", "proved", "G (out -> out.value.cents > 100000)")
holds(large, "every large payment is reported", "refuted", "G (p.value.cents > 100000 -> out)")
holds(
    large,
    "every large payment that was approved is reported",
    "proved",
    "G (p.value.cents > 100000 & p.value.approved -> out)",
)
holds(large, "never two reports in a row", "refuted", "G (out -> X !out)")
question(large, "a report is always possible", "proved", lambda **how: check.live(large, **how))
question(large, "the same in two steps", "proved", lambda **how: check.equivalent(large, large_in_two_steps, **how))
question(large, "the same with >= for >", "refuted", lambda **how: check.equivalent(large, large_off_by_one, **how))


# ---------------------------------------------------------------------------- alarms


@dataclass(frozen=True)
class Reading:
    sensor: int
    degrees: int


def _cooldown(wait: int, e: Reading) -> tuple[int, list[int]]:
    if wait > 0:
        return wait - 1, []
    return (3, [e.degrees]) if e.degrees > 80 else (0, [])


@pipeline
def alarms(r: Stream[Reading]) -> Stream[int]:
    """An alarm above 80 degrees, and then three readings of rest."""
    return r.task(_cooldown, 0)


@pipeline
def alarms_of_each(r: Stream[Reading]) -> Stream[int]:
    return r.key_by(lambda e: e.sensor).task(_cooldown, 0)


holds(alarms, "never two alarms in a row", "proved", "G (out -> X !out)")
holds(
    alarms,
    "after an alarm three readings of rest",
    "proved",
    "G (out & X r & X X r & X X X r -> X (!out & X (!out & X !out)))",
)
holds(
    alarms,
    "after an alarm four readings of rest",
    "refuted",
    "G (out & X r & X X r & X X X r & X X X X r -> X X X X !out)",
)
holds(alarms, "an alarm is about more than 80 degrees", "proved", "G (out -> out.value > 80)")
holds(alarms, "every reading above 80 is an alarm", "refuted", "G (r.value.degrees > 80 -> out)")
holds(
    alarms, "a reading above 80 is an alarm, if none was before", "proved", "G (r.value.degrees > 80 & !Y O out -> out)"
)
question(alarms, "another alarm is always possible", "proved", lambda **how: check.live(alarms, **how))
holds(alarms_of_each, "an alarm is about more than 80 degrees", "proved", "G (out -> out.value > 80)")
holds(alarms_of_each, "never two alarms in a row, of all sensors", "refuted", "G (out -> X !out)")
question(alarms_of_each, "another alarm is always possible", "proved", lambda **how: check.live(alarms_of_each, **how))
question(
    alarms_of_each,
    "the same as one cooldown for all sensors",
    "refuted",
    lambda **how: check.equivalent(alarms_of_each, alarms, **how),
)


class Heating(enum.Enum):
    OFF = "off"
    ON = "on"


@pipeline
def thermostat(t: Stream[int]) -> Stream[Heating]:
    """On below 18, off above 22, else as it was; speaks when it changes."""

    def switch(now: Heating, degrees: int) -> tuple[Heating, list[Heating]]:
        wanted = Heating.ON if degrees < 18 else Heating.OFF if degrees > 22 else now
        return wanted, [wanted] if wanted != now else []

    return t.task(switch, Heating.OFF)


holds(thermostat, "the first word is ON", "proved", "G (out & !Y O out -> out.value = ON)")
holds(thermostat, "it goes on only below 18", "proved", "G (out.value = ON -> t.value < 18)")
holds(thermostat, "it goes on at every reading below 18", "refuted", "G (t.value < 18 -> out.value = ON)")
holds(thermostat, "it never switches in two readings that follow", "refuted", "G (out -> X !out)")
question(thermostat, "it can always switch again", "proved", lambda **how: check.live(thermostat, **how))
holds(thermostat, "after ON the next word is OFF", "proved", "G (out.value = ON -> X (!out W out.value = OFF))")


@pipeline
def twice_hot(t: Stream[int]) -> Stream[bool]:
    """Whether this reading and the one before it are above 80."""
    return t.window(2, pipeline(lambda w: (w > 80).cumulate(lambda all_of, hot: all_of and hot, start=True), w=int))


@pipeline
def once_hot(t: Stream[int]) -> Stream[bool]:
    return t.trim(1) > 80


question(twice_hot, "twice hot implies hot", "proved", lambda **how: check.implies(twice_hot, once_hot, **how))
question(twice_hot, "hot implies twice hot", "refuted", lambda **how: check.implies(once_hot, twice_hot, **how))
holds(twice_hot, "it says true only above 80", "proved", "G (out.value -> t.value > 80)")


# ---------------------------------------------------------------------------- flights


class Carrier(enum.Enum):
    UA = 1
    AA = 2
    DL = 3


@dataclass(frozen=True)
class Flight:
    carrier: Carrier
    delay: int
    distance: int


@pipeline
def late_flights(f: Stream[Flight]) -> Stream[int]:
    """How many flights of each carrier were late so far."""
    return f.filter(lambda e: e.delay > 15).key_by(lambda e: e.carrier).cumulate(lambda n, e: n + 1, start=0)


holds(late_flights, "a count is at least 1", "proved", "G (out -> out.value >= 1)")
holds(late_flights, "a flight in time is not counted", "proved", "G (f.value.delay <= 15 -> !out)")
holds(late_flights, "no carrier has more than two", "refuted", "G (out -> out.value <= 2)")
question(late_flights, "a count can always come", "proved", lambda **how: check.live(late_flights, **how))


@pipeline
def split_and_merged(f: Stream[Flight]) -> Stream[int]:
    delay = f.map(lambda e: e.delay)
    return merge(delay.filter(lambda d: d > 60), delay.filter(lambda d: d <= 60))


@pipeline
def delays(f: Stream[Flight]) -> Stream[int]:
    return f.map(lambda e: e.delay)


@pipeline
def split_with_a_gap(f: Stream[Flight]) -> Stream[int]:
    delay = f.map(lambda e: e.delay)
    return merge(delay.filter(lambda d: d > 60), delay.filter(lambda d: d < 60))


question(
    split_and_merged,
    "nothing is lost or doubled by splitting at 60",
    "proved",
    lambda **how: check.equivalent(split_and_merged, delays, **how),
)
question(
    split_with_a_gap,
    "nothing is lost by > 60 and < 60",
    "refuted",
    lambda **how: check.equivalent(split_with_a_gap, delays, **how),
)
holds(split_and_merged, "every flight comes out", "proved", "G (f <-> out)")


@pipeline
def speed(f: Stream[Flight]) -> Stream[int]:
    return f.map(lambda e: 60 * e.distance // e.delay)


@pipeline
def speed_if_late(f: Stream[Flight]) -> Stream[int]:
    return f.filter(lambda e: e.delay != 0).map(lambda e: 60 * e.distance // e.delay)


holds(speed, "it never fails", "refuted", "G !failed")
holds(
    speed_if_late,
    "it never fails, for distances below 10,000",
    "proved",
    "G !failed",
    assume="f -> f.value.distance >= 0 & f.value.distance < 10000",
)
question(
    speed,
    "the same as the one that leaves out a delay of 0",
    "refuted",
    lambda **how: check.equivalent(speed, speed_if_late, **how),
)


# ---------------------------------------------------------------------------- orders and users


class State(enum.Enum):
    NEW = 0
    PAID = 1
    SHIPPED = 2


class Action(enum.Enum):
    PAY = 0
    SHIP = 1
    REFUND = 2


@pipeline
def order(a: Stream[Action]) -> Stream[State]:
    def act(now: State, action: Action) -> tuple[State, list[State]]:
        if now == State.NEW and action == Action.PAY:
            return State.PAID, [State.PAID]
        if now == State.PAID and action == Action.SHIP:
            return State.SHIPPED, [State.SHIPPED]
        if now == State.PAID and action == Action.REFUND:
            return State.NEW, [State.NEW]
        return now, []

    return a.task(act, State.NEW)


holds(order, "nothing is shipped that was not paid", "proved", "G (out.value = SHIPPED -> Y O out.value = PAID)")
holds(order, "what is shipped stays shipped", "proved", "G (out.value = SHIPPED -> X G !out)")
holds(order, "nothing is shipped twice", "proved", "G (out.value = SHIPPED -> X G !(out.value = SHIPPED))")
question(order, "something can always happen", "refuted", lambda **how: check.live(order, **how))
holds(order, "an order can be shipped", "proved", "EF out.value = SHIPPED")


@dataclass(frozen=True)
class Click:
    user: str
    at: int


def _gap(last: int, e: Click) -> tuple[int, list[int]]:
    return e.at, [e.at - last] if last >= 0 else []


@pipeline
def pauses(c: Stream[Click]) -> Stream[int]:
    """The seconds between two clicks of a user."""
    return c.key_by(lambda e: e.user).task(_gap, -1)


SORTED = "c -> c.value.at >= 0 & c.value.at >= Y c.value.at"
holds(pauses, "no pause is negative", "refuted", "G (out -> out.value >= 0)")
holds(pauses, "no pause is negative, if clicks come in order", "proved", "G (out -> out.value >= 0)", assume=SORTED)
holds(pauses, "a user's first click gives nothing", "proved", "G (c & !Y O c -> !out)")
question(pauses, "another pause can always come", "proved", lambda **how: check.live(pauses, **how))


@pipeline
def sessions(c: Stream[int]) -> Stream[int]:
    """The number of a session, when one begins: a pause of more than 1800 seconds."""

    def see(s: tuple[int, int], at: int) -> tuple[tuple[int, int], list[int]]:
        last, n = s
        return ((at, n + 1), [n + 1]) if n == 0 or at - last > 1800 else ((at, n), [])

    return c.task(see, (0, 0))


holds(sessions, "the first click begins a session", "proved", "G (c & !Y O c -> out)")
holds(sessions, "sessions are numbered from 1", "proved", "G (out -> out.value >= 1)")
holds(sessions, "only the first session has the number 1", "proved", "G (out.value = 1 -> !Y O out)")
question(sessions, "another session can always begin", "proved", lambda **how: check.live(sessions, **how))


@pipeline
def changes(s: Stream[str]) -> Stream[str]:
    """A status only where it differs from the one before."""

    def see(last: str, now: str) -> tuple[str, list[str]]:
        return now, [now] if now != last else []

    return s.task(see, "")


holds(changes, "an empty status at the start is not told", "proved", 'G (s.value = "" & !Y O s -> !out)')
holds(changes, "each status is told", "refuted", "G (s -> out)")
holds(changes, "what is told is what came", "proved", "G (out -> out.value = s.value)")
question(changes, "another change can always come", "proved", lambda **how: check.live(changes, **how))


@pipeline
def errors(line: Stream[str]) -> Stream[bool]:
    return line.map(lambda text: text.startswith("ERROR"))


@pipeline
def problems(line: Stream[str]) -> Stream[bool]:
    return line.map(lambda text: text.startswith("ERR") or text.startswith("WARN"))


question(errors, "each error is a problem", "proved", lambda **how: check.implies(errors, problems, **how))
question(errors, "each problem is an error", "refuted", lambda **how: check.implies(problems, errors, **how))


# ---------------------------------------------------------------------------- joins, windows, numbers


@pipeline
def difference(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda u, v: u - v, a, b)


@pipeline
def difference_turned(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda v, u: u - v, b, a)


@pipeline
def sums_of_two(a: Stream[int], b: Stream[int]) -> Stream[int]:
    return apply(lambda u, v: u + v, a, b)


question(difference, "another difference can always come", "proved", lambda **how: check.live(difference, **how))
question(
    difference,
    "the same with its inputs the other way round",
    "proved",
    lambda **how: check.equivalent(difference, difference_turned, **how),
)
question(difference, "the same as the sum", "refuted", lambda **how: check.equivalent(difference, sums_of_two, **how))
holds(difference, "it speaks only when one of the two does", "proved", "G (out -> a | b)")
holds(difference, "where both speak it speaks", "proved", "G (a & b -> out)")
holds(
    sums_of_two,
    "the sum of positive numbers is positive",
    "proved",
    "G (out -> out.value > 0)",
    assume="(a -> a.value > 0) & (b -> b.value > 0)",
)


@pipeline
def mean_of_three(t: Stream[int]) -> Stream[int]:
    return t.window(3, pipeline(lambda w: w.cumulate(lambda s, v: s + v, start=0), w=int)).map(lambda s: s // 3)


holds(
    mean_of_three,
    "a mean is between 0 and 100, if readings are",
    "proved",
    "G (out -> out.value >= 0 & out.value <= 100)",
    assume="t -> t.value >= 0 & t.value <= 100",
)
holds(mean_of_three, "a mean is no larger than the reading", "refuted", "G (out -> out.value <= t.value)")
question(
    mean_of_three,
    "while readings come, one comes out within three",
    "proved",
    lambda **how: check.live(mean_of_three, within=3, **how),
)
question(
    mean_of_three,
    "while readings come, one comes out within two",
    "refuted",
    lambda **how: check.live(mean_of_three, within=2, **how),
)


@pipeline
def highest(t: Stream[int]) -> Stream[int]:
    return t.cumulate(lambda best, v: max(best, v), start=0)


@pipeline
def clamped(v: Stream[float]) -> Stream[float]:
    return v.map(lambda x: min(max(x, 0.0), 1.0))


holds(highest, "the highest is at least this reading", "proved", "G (out -> out.value >= t.value)")
holds(highest, "the highest is never negative", "proved", "G (out -> out.value >= 0)")
holds(clamped, "a clamped value is between 0 and 1", "proved", "G (out -> out.value >= 0.0 & out.value <= 1.0)")
holds(clamped, "a clamped value is below 1", "refuted", "G (out -> out.value < 1.0)")


@pipeline
def bucket(r: Stream[bool]) -> Stream[int]:
    """A token bucket: True asks for a token, False is a tick that brings one, up to five; emits what is left when it
    gives one."""

    def serve(tokens: int, asks: bool) -> tuple[int, list[int]]:
        if not asks:
            return min(tokens + 1, 5), []
        return (tokens - 1, [tokens - 1]) if tokens > 0 else (0, [])

    return r.task(serve, 5)


holds(bucket, "what is left is between 0 and 4", "proved", "G (out -> out.value >= 0 & out.value <= 4)")
holds(bucket, "everybody who asks gets one", "refuted", "G (r.value -> out)")
question(bucket, "one can always be got", "proved", lambda **how: check.live(bucket, **how))
holds(bucket, "after a tick the next who asks gets one", "proved", "G (r & !r.value & X r.value -> X out)")


@pipeline
def with_dead_step(t: Stream[int]) -> Stream[int]:
    return t.filter(lambda v: v > 10).filter(lambda v: v > 5, id="useless")


@pipeline
def without_dead_step(t: Stream[int]) -> Stream[int]:
    return t.filter(lambda v: v > 5).filter(lambda v: v > 10)


question(with_dead_step, "every step matters", "refuted", lambda **how: check.dead_paths(with_dead_step, **how))
question(
    without_dead_step,
    "the same in the other order",
    "proved",
    lambda **how: check.equivalent(with_dead_step, without_dead_step, **how),
)


@pipeline
def against_the_one_before(t: Stream[int]) -> Stream[int]:
    return apply(lambda now, before: now - before, t.trim(1), t)


question(
    against_the_one_before,
    "its queues are bounded",
    "proved",
    lambda **how: check.buffers(against_the_one_before, **how),
)
question(difference, "its queues are bounded", "refuted", lambda **how: check.buffers(difference, **how))
holds(
    against_the_one_before,
    "no difference is negative, if readings rise",
    "proved",
    "G (out -> out.value >= 0)",
    assume="t -> t.value >= Y t.value",
)
