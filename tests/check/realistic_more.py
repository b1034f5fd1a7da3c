"""More questions that people ask, on pipelines that were written after the checker was: nobody chose them because they
can be decided."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

from pellucid import Stream, apply, check, merge, pipeline
from tests.check.realistic import holds, question


def _live(p: Any, words: str, answer: str, **more: Any) -> None:
    question(p, words, answer, lambda **how: check.live(p, **more, **how))


def _same(p: Any, other: Any, words: str, answer: str, **more: Any) -> None:
    question(p, words, answer, lambda **how: check.equivalent(p, other, **more, **how))


# ---------------------------------------------------------------------------- fraud: a cooldown for each card


@dataclass(frozen=True)
class Swipe:
    card: int
    cents: int


class Watch(NamedTuple):
    high: int
    rest: int


@pipeline
def fraud(s: Stream[Swipe]) -> Stream[int]:
    """The second swipe in a row above 500.00 with one card is an alert; then five swipes of that card are left
    alone."""

    def see(w: Watch, e: Swipe) -> tuple[Watch, list[int]]:
        if w.rest > 0:
            return Watch(0, w.rest - 1), []
        if e.cents <= 50_000:
            return Watch(0, 0), []
        return (Watch(0, 5), [e.cents]) if w.high == 1 else (Watch(1, 0), [])

    return s.key_by(lambda e: e.card).task(see, Watch(0, 0))


@pipeline
def fraud_counted_down(s: Stream[Swipe]) -> Stream[int]:
    """The same with one number: 0 calm, -1 one high swipe, else how many swipes are left alone."""

    def see(n: int, e: Swipe) -> tuple[int, list[int]]:
        if n > 0:
            return n - 1, []
        if e.cents <= 50_000:
            return 0, []
        return (5, [e.cents]) if n == -1 else (-1, [])

    return s.key_by(lambda e: e.card).task(see, 0)


ONE_CARD = "s.value.card = Y s.value.card"
holds(fraud, "an alert is about more than 500.00", "proved", "G (out -> s.value.cents > 50000)")
holds(fraud, "the first swipe of all is no alert", "proved", "G (s & !Y O s -> !out)")
holds(fraud, "never two alerts in a row", "refuted", "G (out -> X !out)")
holds(fraud, "never two alerts in a row, with one card", "proved", "G (out -> X !out)", assume=ONE_CARD)
_live(fraud, "another alert is always possible", "proved")
_same(fraud, fraud_counted_down, "the same with one number for the state", "proved")


# ---------------------------------------------------------------------------- shop: sessions, orders, stock


class Kind(enum.Enum):
    LOGIN = "login"
    CLICK = "click"
    LOGOUT = "logout"


@dataclass(frozen=True)
class Visit:
    user: str
    kind: Kind


@pipeline
def clicks_of_session(v: Stream[Visit]) -> Stream[int]:
    """The clicks of a session, when it ends; clicks outside of sessions do not count."""

    def see(s: tuple[bool, int], e: Visit) -> tuple[tuple[bool, int], list[int]]:
        inside, n = s
        if e.kind == Kind.LOGIN:
            return (True, 0), []
        if e.kind == Kind.CLICK:
            return (inside, n + 1 if inside else n), []
        return (False, 0), [n] if inside else []

    return v.key_by(lambda e: e.user).task(see, (False, 0))


holds(clicks_of_session, "no count is negative", "proved", "G (out -> out.value >= 0)")
holds(clicks_of_session, "a count comes with a logout only", "proved", "G (out -> v.value.kind = LOGOUT)")
holds(clicks_of_session, "every logout gives a count", "refuted", "G (v.value.kind = LOGOUT -> out)")
holds(clicks_of_session, "no count without a login before", "proved", "G (out -> Y O v.value.kind = LOGIN)")
holds(
    clicks_of_session,
    "a session that ends at once has no clicks",
    "proved",
    "G (v.value.kind = LOGOUT & Y v.value.kind = LOGIN & v.value.user = Y v.value.user -> out.value = 0)",
)
_live(clicks_of_session, "another count can always come", "proved")


class Did(enum.Enum):
    PAY = 0
    SHIP = 1
    CANCEL = 2


class Status(enum.Enum):
    OPEN = 0
    PAID = 1
    SHIPPED = 2
    CANCELLED = 3


@dataclass(frozen=True)
class OrderEvent:
    order: int
    did: Did


@pipeline
def orders(e: Stream[OrderEvent]) -> Stream[Status]:
    def act(now: Status, event: OrderEvent) -> tuple[Status, list[Status]]:
        if now == Status.OPEN and event.did == Did.PAY:
            return Status.PAID, [Status.PAID]
        if now == Status.PAID and event.did == Did.SHIP:
            return Status.SHIPPED, [Status.SHIPPED]
        if now in (Status.OPEN, Status.PAID) and event.did == Did.CANCEL:
            return Status.CANCELLED, [Status.CANCELLED]
        return now, []

    return e.key_by(lambda event: event.order).task(act, Status.OPEN)


holds(
    orders, "nothing is shipped before anything was paid", "proved", "G (out.value = SHIPPED -> Y O out.value = PAID)"
)
holds(orders, "what is said fits what was done", "proved", "G (out.value = CANCELLED -> e.value.did = CANCEL)")
holds(orders, "no order is cancelled twice", "refuted", "G (out.value = CANCELLED -> X !(out.value = CANCELLED))")
holds(
    orders,
    "no order is cancelled twice in a row",
    "proved",
    "G (out.value = CANCELLED -> X !(out.value = CANCELLED))",
    assume="e.value.order = Y e.value.order",
)
holds(orders, "every payment is taken", "refuted", "G (e.value.did = PAY -> out.value = PAID)")
_live(orders, "something can always happen", "proved")
holds(orders, "something can always be shipped", "proved", "AG EF out.value = SHIPPED")


@pipeline
def stock(arrived: Stream[int], sold: Stream[int]) -> Stream[int]:
    return merge(arrived, sold.map(lambda n: -n)).cumulate(lambda t, n: t + n, start=0)


holds(stock, "stock is never negative", "refuted", "G (out -> out.value >= 0)")
holds(
    stock,
    "stock is never negative, if it is sold only when as much arrives",
    "proved",
    "G (out -> out.last >= 0)",
    assume="arrived & arrived.value >= 0 & (sold -> sold.value <= arrived.value)",
)
holds(stock, "at most two numbers in one push", "proved", "G (out.count <= 2)")
_live(stock, "another number can always come", "proved")


# ---------------------------------------------------------------------------- devices: debounce, hysteresis, heartbeats


@pipeline
def debounced(b: Stream[bool]) -> Stream[bool]:
    """A contact that bounces: a new position counts after three readings that say so."""

    def see(s: tuple[bool, int], reading: bool) -> tuple[tuple[bool, int], list[bool]]:
        now, n = s
        if reading == now:
            return (now, 0), []
        return ((reading, 0), [reading]) if n == 2 else ((now, n + 1), [])

    return b.task(see, (False, 0))


holds(debounced, "after a change two readings without one", "proved", "G (out & X b & X X b -> X (!out & X !out))")
holds(
    debounced, "after a change three readings without one", "refuted", "G (out & X b & X X b & X X X b -> X X X !out)"
)
holds(debounced, "a change says what the reading says", "proved", "G (out -> (out.value <-> b.value))")
holds(debounced, "the contact can always be closed again", "proved", "AG EF out.value")
_live(debounced, "a change can always come", "proved")
_live(debounced, "while readings come, a change comes within three", "refuted", within=3)


@dataclass(frozen=True)
class Sample:
    device: int
    level: int


@pipeline
def overload(m: Stream[Sample]) -> Stream[bool]:
    """For each device: true when it goes above 90, false when it comes back below 70."""

    def see(on: bool, e: Sample) -> tuple[bool, list[bool]]:
        if not on and e.level > 90:
            return True, [True]
        if on and e.level < 70:
            return False, [False]
        return on, []

    return m.key_by(lambda e: e.device).task(see, False)


holds(
    overload,
    "true means above 90, false below 70",
    "proved",
    "G (out -> (out.value & m.value.level > 90 | !out.value & m.value.level < 70))",
)
holds(
    overload, "levels from 70 to 90 change nothing", "proved", "G (m.value.level >= 70 & m.value.level <= 90 -> !out)"
)
holds(
    overload,
    "a device that is told twice to be high says so once",
    "proved",
    "G (m.value.level > 90 & Y m.value.level > 90 & m.value.device = Y m.value.device -> !out)",
)
holds(overload, "the first thing said is true", "proved", "G (out & !Y O out -> out.value)")
_live(overload, "something can always be said", "proved")


class Leader(enum.Enum):
    LOST = 0
    BACK = 1


@pipeline
def leader(beat: Stream[int], tick: Stream[bool]) -> Stream[Leader]:
    """LOST after three ticks without a heartbeat, BACK at the next heartbeat; a beat in the same push as a tick counts
    first."""

    def see(missed: int, is_beat: bool) -> tuple[int, list[Leader]]:
        if is_beat:
            return 0, [Leader.BACK] if missed >= 3 else []
        return missed + 1, [Leader.LOST] if missed == 2 else []

    return merge(beat.map(lambda n: True), tick.map(lambda t: False)).task(see, 0)


holds(leader, "no BACK before a LOST", "proved", "G (any(out.value = BACK) -> Y O any(out.value = LOST))")
holds(leader, "LOST comes with a tick only", "proved", "G (any(out.value = LOST) -> tick)")
holds(
    leader,
    "a heartbeat without a tick keeps it for two ticks",
    "proved",
    "G (beat & !tick & X (tick & !beat) -> X (!out & X !any(out.value = LOST)))",
)
holds(
    leader,
    "a heartbeat with a tick keeps it for two more",
    "refuted",
    "G (beat & tick & X (tick & !beat) -> X (!out & X !any(out.value = LOST)))",
)
holds(leader, "it is never lost", "refuted", "G !any(out.value = LOST)")
holds(
    leader,
    "it is never lost, if each tick brings a heartbeat",
    "proved",
    "G !any(out.value = LOST)",
    assume="tick -> beat",
)
holds(leader, "it can always come back", "proved", "AG EF any(out.value = BACK)")


class Call(enum.Enum):
    OK = 0
    FAILED = 1
    RESET = 2


@pipeline
def breaker(c: Stream[Call]) -> Stream[bool]:
    """A circuit breaker: open (true) after three failures in a row, until a reset; says whether it is open."""

    def see(failures: int, call: Call) -> tuple[int, list[bool]]:
        if call == Call.RESET:
            return 0, [False]
        if failures >= 3:
            return failures, [True]
        after = failures + 1 if call == Call.FAILED else 0
        return after, [after >= 3]

    return c.task(see, 0)


holds(breaker, "it can always be closed again", "proved", "AG EF (out & !out.value)")
holds(
    breaker,
    "once open it stays so until a reset",
    "proved",
    "G (out.value -> X (!(out & !out.value) W c.value = RESET))",
)
holds(breaker, "it opens after two failures", "refuted", "G (c.value = FAILED & Y c.value = FAILED -> out.value)")
holds(
    breaker,
    "three failures in a row open it",
    "proved",
    "G (c.value = FAILED & Y (c.value = FAILED & Y c.value = FAILED) -> out.value)",
)
_live(breaker, "it answers each call", "proved", within=1)


# ---------------------------------------------------------------------------- joins by key, late events, limits


@dataclass(frozen=True)
class Invoice:
    id: int
    due: int


@dataclass(frozen=True)
class Paid:
    invoice: int
    cents: int


@pipeline
def settled(i: Stream[Invoice], p: Stream[Paid]) -> Stream[int]:
    """What was paid too much for an invoice, when both are there."""
    return apply(
        lambda invoice, paid: paid.cents - invoice.due, i.key_by(lambda e: e.id), p.key_by(lambda e: e.invoice)
    )


@pipeline
def settled_turned(i: Stream[Invoice], p: Stream[Paid]) -> Stream[int]:
    return apply(
        lambda paid, invoice: paid.cents - invoice.due, p.key_by(lambda e: e.invoice), i.key_by(lambda e: e.id)
    )


@pipeline
def settled_in_order(
    i: Stream[Invoice], p: Stream[Paid]
) -> Stream[int]:  # pairs the first invoice with the first payment, whatever their ids
    return apply(lambda invoice, paid: paid.cents - invoice.due, i, p)


holds(settled, "nothing comes out if nothing comes in", "proved", "G (out -> i | p)")
holds(
    settled,
    "a payment for an invoice in the same push is matched",
    "proved",
    "G (i & p & i.value.id = p.value.invoice -> out)",
)
holds(settled, "an invoice and a payment in the same push are matched", "refuted", "G (i & p -> out)")
holds(settled, "nothing is paid too much", "refuted", "G (out -> out.value <= 0)")
_live(settled, "another match is always possible", "proved")
_same(
    settled, settled_turned, "the same with its inputs the other way round, also where one push settles two", "refuted"
)
_same(
    settled,
    settled_turned,
    "the same with its inputs the other way round, if they come one at a time",
    "proved",
    assume="!(i & p)",
)
_same(settled, settled_in_order, "the same without looking at ids", "refuted")
question(
    settled, "nothing waits for ever: its queues are bounded", "refuted", lambda **how: check.buffers(settled, **how)
)


@dataclass(frozen=True)
class Stamped:
    ts: int
    v: int


@pipeline
def in_time(e: Stream[Stamped]) -> Stream[int]:
    """Leaves out what is more than ten seconds older than the newest."""

    def see(newest: int, event: Stamped) -> tuple[int, list[int]]:
        return max(newest, event.ts), [event.v] if event.ts >= newest - 10 else []

    return e.task(see, 0)


holds(in_time, "nothing is left out", "refuted", "G (e -> out)")
holds(
    in_time,
    "nothing is left out of what is sorted and not negative",
    "proved",
    "G (e -> out)",
    assume="e.value.ts >= 0 & e.value.ts >= Y e.value.ts",
)
holds(
    in_time,
    "what is at most ten seconds behind the one before is kept",
    "refuted",
    "G (e.value.ts >= Y e.value.ts - 10 -> out)",
)
holds(
    in_time, "the first event is kept, if its time is not negative", "proved", "G (e & e.value.ts >= 0 & !Y O e -> out)"
)
_live(in_time, "another event can always come out", "proved")


@dataclass(frozen=True)
class Request:
    client: str
    tick: bool


@pipeline
def limited(r: Stream[Request]) -> Stream[int]:
    """For each client three tokens; a request takes one and says how many are left, a tick fills up."""

    def serve(tokens: int, e: Request) -> tuple[int, list[int]]:
        if e.tick:
            return 3, []
        return (tokens - 1, [tokens - 1]) if tokens > 0 else (tokens, [])

    return r.key_by(lambda e: e.client).task(serve, 3)


@pipeline
def limited_by_use(r: Stream[Request]) -> Stream[int]:
    """The same, counting what was used."""

    def serve(used: int, e: Request) -> tuple[int, list[int]]:
        if e.tick:
            return 0, []
        return (used + 1, [2 - used]) if used < 3 else (used, [])

    return r.key_by(lambda e: e.client).task(serve, 0)


@pipeline
def limited_loosely(r: Stream[Request]) -> Stream[int]:  # <= for <
    def serve(used: int, e: Request) -> tuple[int, list[int]]:
        if e.tick:
            return 0, []
        return (used + 1, [2 - used]) if used <= 3 else (used, [])

    return r.key_by(lambda e: e.client).task(serve, 0)


holds(limited, "what is left is 0, 1 or 2", "proved", "G (out -> out.value >= 0 & out.value <= 2)")
holds(limited, "each request is served", "refuted", "G (r & !r.value.tick -> out)")
holds(limited, "the first request of all is served", "proved", "G (r & !r.value.tick & !Y O r -> out)")
holds(
    limited,
    "a request after a tick of the same client is served",
    "proved",
    "G (r & !r.value.tick & Y r.value.tick & r.value.client = Y r.value.client -> out)",
)
_live(limited, "a customer can always be served", "proved")
_same(limited, limited_by_use, "the same, counting what was used", "proved")
_same(limited, limited_loosely, "the same with <= for <", "refuted")


# ---------------------------------------------------------------------------- numbers: thresholds, windows, duplicates


@pipeline
def over_1000(s: Stream[Swipe]) -> Stream[bool]:
    return s.key_by(lambda e: e.card).cumulate(lambda t, e: t + max(e.cents, 0), start=0).map(lambda t: t > 1000)


@pipeline
def over_500(s: Stream[Swipe]) -> Stream[bool]:
    return s.key_by(lambda e: e.card).cumulate(lambda t, e: t + max(e.cents, 0), start=0).map(lambda t: t > 500)


question(
    over_1000, "a card above 10.00 is above 5.00", "proved", lambda **how: check.implies(over_1000, over_500, **how)
)
question(
    over_500, "a card above 5.00 is above 10.00", "refuted", lambda **how: check.implies(over_500, over_1000, **how)
)


@pipeline
def mean_of_four(t: Stream[int]) -> Stream[int]:
    return t.window(4, pipeline(lambda w: w.cumulate(lambda s, v: s + v, start=0), w=int)).map(lambda s: s // 4)


@pipeline
def warm(t: Stream[int]) -> Stream[int]:
    return mean_of_four(t).filter(lambda m: m > 50)


holds(
    mean_of_four,
    "a mean is between 10 and 20, if readings are",
    "proved",
    "G (out -> out.value >= 10 & out.value <= 20)",
    assume="t.value >= 10 & t.value <= 20",
)
_live(mean_of_four, "while readings come, one comes out within four", "proved", within=4)
_live(mean_of_four, "while readings come, one comes out within three", "refuted", within=3)
holds(warm, "an alert needs this reading above 50", "refuted", "G (out -> t.value > 50)")
holds(warm, "readings up to 50 never give an alert", "proved", "G !out", assume="t.value <= 50")
_live(warm, "an alert is always possible", "proved")


@pipeline
def without_repeats(m: Stream[Sample]) -> Stream[int]:
    """Of each device only levels that differ from its last one."""

    def see(s: tuple[bool, int], e: Sample) -> tuple[tuple[bool, int], list[int]]:
        came, last = s
        return (True, e.level), [] if came and e.level == last else [e.level]

    return m.key_by(lambda e: e.device).task(see, (False, 0))


holds(without_repeats, "the first sample of all comes out", "proved", "G (m & !Y O m -> out)")
holds(
    without_repeats,
    "the same sample twice in a row comes out once",
    "proved",
    "G (m.value.device = Y m.value.device & m.value.level = Y m.value.level -> !out)",
)
holds(without_repeats, "what comes out is what came in", "proved", "G (out -> out.value = m.value.level)")
holds(without_repeats, "each sample comes out", "refuted", "G (m -> out)")
_live(without_repeats, "another level can always come out", "proved")


@pipeline
def records(t: Stream[int]) -> Stream[int]:
    def see(best: int, v: int) -> tuple[int, list[int]]:
        return (v, [v]) if v > best else (best, [])

    return t.task(see, 0)


@pipeline
def records_rise(t: Stream[int]) -> Stream[bool]:
    best = records(t)
    return apply(lambda now, before: now > before, best.trim(1), best)


holds(records, "each record is above 0", "proved", "G (out -> out.value > 0)")
holds(records, "each record beats the one before", "proved", "G (out -> out.value > Y out.value | !Y O out)")
holds(records_rise, "each record beats the one before, as a pipeline says it", "proved", "G (out -> out.value)")
_live(records, "another record is always possible", "proved")
_live(
    records, "another record is always possible, with readings below a million", "refuted", assume="t.value < 1000000"
)
_live(records, "while readings come, a record comes within three", "refuted", within=3)


@pipeline
def retries(ok: Stream[bool]) -> Stream[int]:
    """How long to wait after a failure: 1, 2, 4, … and 60 at most; a success starts again."""

    def see(wait: int, fine: bool) -> tuple[int, list[int]]:
        return (1, []) if fine else (min(2 * wait, 60), [wait])

    return ok.task(see, 1)


holds(retries, "each wait is between 1 and 60", "proved", "G (out -> out.value >= 1 & out.value <= 60)")
holds(retries, "after a success the next wait is 1", "proved", "G (ok & !ok.value & Y ok.value -> out.value = 1)")
holds(retries, "no wait is longer than 30", "refuted", "G (out -> out.value <= 30)")
_live(retries, "a wait can always come", "proved")


@pipeline
def sorted_out(e: Stream[Stamped]) -> dict[str, Stream[int]]:
    return {
        "good": e.filter(lambda s: s.v >= 0).map(lambda s: s.v),
        "bad": e.filter(lambda s: s.v < 0).map(lambda s: s.ts),
    }


holds(sorted_out, "each event goes one way", "proved", "G (e -> (good | bad)) & G !(good & bad)")
holds(sorted_out, "nothing is bad", "refuted", "G !bad")
question(
    sorted_out, "something bad can always come", "proved", lambda **how: check.live(sorted_out, output="bad", **how)
)


@pipeline
def share(part: Stream[int], whole: Stream[int]) -> Stream[int]:
    return apply(lambda p, w: 100 * p // w, part, whole)


WITHIN = "(part -> part.value >= 0 & part.value <= 1000) & (whole -> whole.value >= 1000)"
holds(share, "it never fails", "refuted", "G !failed")
holds(share, "it never fails, for parts up to 1,000 of a whole of at least 1,000", "proved", "G !failed", assume=WITHIN)
holds(
    share,
    "a share is at most 100, for the same",
    "proved",
    "G (out -> out.value >= 0 & out.value <= 100)",
    assume=WITHIN,
)
