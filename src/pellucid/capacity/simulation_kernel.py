"""The loop of the simulation, compiled.  Loaded only when something is simulated.

All times are integers, in ticks.  One round of the loop is one event: in an instant, first workers whose tuple ends
emit, then idle workers take, then (the instant is *settled*) one spout emits that is due, and it begins again; if
none is, time passes.  That is one of the runs of the urgent semantics, with emits before takes.

A bolt takes the same time for every tuple, so its tuples end in the order in which they were taken: a ring for each
bolt is all the calendar that is needed.  Tuples that wait are linked in a pool.  Everything is rows of numbers, and a
row goes by the place of its first number: ``bolts[b + TIME]``.  The loop gets addresses, since counting who holds an
array costs more than what is done with it: who calls `run` holds them meanwhile.  It returns what it lacks (room in the
pool, the histogram, the records or the log), and resumes where it was when it is called again.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from pellucid.internal.base.kept import kept_jit

DONE, MORE_POOL, MORE_WIDTH, MORE_RECORDS, MORE_LOG, PAUSED = range(6)
# registers
NOW, EVENTS, FREE, FREES, RECORDS, LOGGED, TODO, TOUCHED, EMITTED, UNTIL, KEEPS_LOG, WIDEST, LAST = range(13)
ALL_HEAR, MODE, MOST_OUT, CHANCE, SPOUTS, BOLTS, WIDTH, RECORD_ROOM, LOG_ROOM, KEEPS_RECORDS, PAUSE, REGISTERS = range(
    13, 25
)
# how one of several is chosen
RANDOM, ROUND, GIVEN, LONGEST, SHORTEST = range(5)
# what the log tells
SPOUT_EMIT, BOLT_EMIT, BOLT_TAKE, INTO, ENDS = range(5)  # a final bolt only ends
# rows: of spouts, where their next emit stands among all, and where the last one has ended
NEXT, STOP, SPOUT = range(3)
# of bolts
TIME, WORKERS, UP, DOWN, PLACES, FIRST_PLACE, RING, IDLE, OWED, BUSY, HEAD, FINAL, TURN, SENDS, BOLT = range(15)
# of queues
LENGTH, FRONT, BACK, SINCE, LONGEST_ANY, LONGEST_SETTLED, IN_TODO, IN_TOUCHED, OF, TICKS, PLACE = range(11)
# of who emits: from where to where those stand who hear it, its turn, and from where to where what it was given
HEARD, HEARD_END, TURNS, GIVES, GIVES_END, SOURCE = range(6)
# of tuples that wait, of tuples in work, of tuples that are done, of the log
AFTER, ARRIVED, BORN, TUPLE = range(4)
END, WORKER, CAME, BIRTH, WORK = range(5)
RECORD, LINE = 3, 4

_jit = kept_jit(error_model="numpy", nogil=True)
_part = kept_jit(error_model="numpy", nogil=True, forceinline=True)


@intrinsic
def _at(context, address):  # type: ignore[no-untyped-def]
    """The numbers from an address on."""
    kind = types.CPointer(types.int64)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64), generate


@_part
def _chance(reg):  # type: ignore[no-untyped-def]
    """The next number of splitmix64, from 0 to 2³¹ − 1: the same on every machine."""
    reg[CHANCE] += -0x61C8864680B583EB
    z = reg[CHANCE]
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    z = z ^ ((z >> 31) & 0x1FFFFFFFF)
    return (z >> 33) & 0x7FFFFFFF


@_part
def _log(reg, log, what, who, which):  # type: ignore[no-untyped-def]
    if reg[KEEPS_LOG]:
        row = LINE * reg[LOGGED]
        log[row], log[row + 1], log[row + 2], log[row + 3] = reg[NOW], what, who, which
        reg[LOGGED] += 1


@_part
def _mark(p, reg, places, todo):  # type: ignore[no-untyped-def]
    """This queue may be taken from; and it has to be looked at when the instant is settled."""
    if not places[p + IN_TODO]:
        places[p + IN_TODO] = 1
        todo[2 * reg[TODO]] = p
        reg[TODO] += 1
    if not places[p + IN_TOUCHED]:
        places[p + IN_TOUCHED] = 1
        todo[2 * reg[TOUCHED] + 1] = p
        reg[TOUCHED] += 1


@_part
def _lasted(p, reg, places, histogram):  # type: ignore[no-untyped-def]
    """The queue had its length until now."""
    histogram[places[p + TICKS] + places[p + LENGTH]] += reg[NOW] - places[p + SINCE]
    places[p + SINCE] = reg[NOW]


@_jit
def _put(p, birth, reg, places, pool, histogram, todo):  # type: ignore[no-untyped-def]
    """A tuple more in a queue."""
    node = reg[FREE]
    reg[FREE] = pool[node + AFTER]
    reg[FREES] -= 1
    pool[node + AFTER], pool[node + ARRIVED], pool[node + BORN] = -1, reg[NOW], birth
    if places[p + LENGTH] == 0:
        places[p + FRONT] = node
    else:
        pool[places[p + BACK] + AFTER] = node
    places[p + BACK] = node
    _lasted(p, reg, places, histogram)
    places[p + LENGTH] += 1
    length = places[p + LENGTH]
    if length > places[p + LONGEST_ANY]:
        places[p + LONGEST_ANY] = length
        if length >= reg[WIDEST]:
            reg[WIDEST] = length + 1
    _mark(p, reg, places, todo)


@_part
def _extreme(first, many, longest, places):  # type: ignore[no-untyped-def]
    """The longest or the shortest of some queues."""
    best = first
    for i in range(1, many):
        p = first + PLACE * i
        if longest:
            if places[p + LENGTH] > places[best + LENGTH]:
                best = p
        elif places[p + LENGTH] < places[best + LENGTH]:
            best = p
    return best


@_jit
def _choose(source, reg, bolts, sources, hears, gives, places):  # type: ignore[no-untyped-def]
    """The place, among those who hear a source, of the one that gets the next tuple."""
    first, many, mode = sources[source + HEARD], sources[source + HEARD_END] - sources[source + HEARD], reg[MODE]
    if many == 1:
        return first
    if mode == RANDOM:
        return first + _chance(reg) % many
    if mode == LONGEST or mode == SHORTEST:  # noqa: SIM109 - compiled, two comparisons
        chosen = first
        best = 0
        for i in range(first, first + many):
            b = hears[i]
            p = _extreme(bolts[b + FIRST_PLACE], bolts[b + PLACES], mode == LONGEST, places)
            length = places[p + LENGTH]
            if i == first or (length > best if mode == LONGEST else length < best):
                chosen, best = i, length
        return chosen
    turn = sources[source + TURNS]
    sources[source + TURNS] += 1
    given = sources[source + GIVES_END] - sources[source + GIVES]
    if mode == GIVEN and given > 0:
        return first + gives[sources[source + GIVES] + turn % given]
    return first + turn % many


@_jit
def _deliver(source, count, birth, reg, bolts, sources, hears, gives, log, places, pool, histogram, todo):  # type: ignore[no-untyped-def]
    mode = reg[MODE]
    for _ in range(count):
        begin, end = sources[source + HEARD], sources[source + HEARD_END]
        if not reg[ALL_HEAR]:
            begin = _choose(source, reg, bolts, sources, hears, gives, places)
            end = begin + 1
        for i in range(begin, end):
            b = hears[i]
            p = bolts[b + FIRST_PLACE]
            many = bolts[b + PLACES]
            if many > 1:
                if mode == RANDOM:
                    p += PLACE * (_chance(reg) % many)
                elif mode == LONGEST or mode == SHORTEST:  # noqa: SIM109
                    p = _extreme(p, many, mode == LONGEST, places)
                else:
                    p += PLACE * (bolts[b + TURN] % many)
                    bolts[b + TURN] += 1
            _log(reg, log, INTO, b, p)
            _put(p, birth, reg, places, pool, histogram, todo)


@_jit
def _take(p, reg, bolts, ring, idle, places, pool, histogram, log):  # type: ignore[no-untyped-def]
    """An idle worker takes from a queue; whether there was one."""
    b = places[p + OF]
    free = bolts[b + IDLE] + bolts[b + WORKERS] - bolts[b + BUSY]  # behind the last worker that is idle
    worker = -1
    if places[p + LENGTH] > 0:
        if bolts[b + PLACES] > 1:
            mine = (p - bolts[b + FIRST_PLACE]) // PLACE
            for i in range(bolts[b + IDLE], free):
                if idle[i] == mine:
                    worker = mine
                    idle[i] = idle[free - 1]
                    break
        elif bolts[b + BUSY] < bolts[b + WORKERS]:
            worker = idle[free - 1]
    if worker < 0:
        return False
    at = bolts[b + HEAD] + bolts[b + BUSY]
    if at >= bolts[b + WORKERS]:
        at -= bolts[b + WORKERS]
    row = bolts[b + RING] + WORK * at
    node = places[p + FRONT]
    ring[row + END], ring[row + WORKER] = reg[NOW] + bolts[b + TIME], worker
    ring[row + CAME], ring[row + BIRTH] = pool[node + ARRIVED], pool[node + BORN]
    bolts[b + BUSY] += 1
    places[p + FRONT] = pool[node + AFTER]
    pool[node + AFTER] = reg[FREE]
    reg[FREE] = node
    reg[FREES] += 1
    _lasted(p, reg, places, histogram)
    places[p + LENGTH] -= 1
    _log(reg, log, BOLT_TAKE, b, worker)
    return True


@_jit
def _end(b, reg, bolts, ring, idle, records, places, todo):  # type: ignore[no-untyped-def]
    """The first tuple in work at a bolt ends, and its worker is idle; who it was, and when the tuple was born."""
    row = bolts[b + RING] + WORK * bolts[b + HEAD]
    worker, birth = ring[row + WORKER], ring[row + BIRTH]
    bolts[b + HEAD] += 1
    if bolts[b + HEAD] == bolts[b + WORKERS]:
        bolts[b + HEAD] = 0
    bolts[b + BUSY] -= 1
    idle[bolts[b + IDLE] + bolts[b + WORKERS] - 1 - bolts[b + BUSY]] = worker
    if reg[KEEPS_RECORDS]:
        record = RECORD * reg[RECORDS]
        records[record], records[record + 1], records[record + 2] = b, reg[NOW] - ring[row + CAME], reg[NOW] - birth
        reg[RECORDS] += 1
    reg[LAST] = reg[NOW]
    _mark(bolts[b + FIRST_PLACE] + (PLACE * worker if bolts[b + PLACES] > 1 else 0), reg, places, todo)
    return worker, birth


@_jit
def put_all(table, place, many):  # type: ignore[no-untyped-def]
    """So many tuples wait in a queue at the beginning."""
    for _ in range(many):
        _put(place, 0, _at(table[0]), _at(table[10]), _at(table[11]), _at(table[12]), _at(table[13]))


@_jit
def run(table):  # type: ignore[no-untyped-def]
    """Go on until everything is done, or something is lacking; ``table`` has the addresses of the arrays."""
    reg, spouts, arrivals, bolts, ring = _at(table[0]), _at(table[1]), _at(table[2]), _at(table[3]), _at(table[4])
    idle, sources, hears, gives, log = _at(table[5]), _at(table[6]), _at(table[7]), _at(table[8]), _at(table[9])
    places, pool, histogram, todo, records = (
        _at(table[10]), _at(table[11]), _at(table[12]), _at(table[13]), _at(table[14]),
    )  # fmt: skip
    spouts_end, bolts_end, most_out = SPOUT * reg[SPOUTS], BOLT * reg[BOLTS], reg[MOST_OUT]
    while True:
        if reg[FREES] < most_out:
            return MORE_POOL
        if reg[WIDEST] + most_out >= reg[WIDTH]:
            return MORE_WIDTH
        if reg[RECORDS] >= reg[RECORD_ROOM]:
            return MORE_RECORDS
        if reg[KEEPS_LOG] and reg[LOGGED] + most_out + 1 >= reg[LOG_ROOM]:
            return MORE_LOG
        if reg[EVENTS] >= reg[PAUSE]:
            return PAUSED
        now = reg[NOW]

        # A worker whose tuple ends emits.
        ended = -1
        soonest = -1
        for b in range(0, bolts_end, BOLT):
            if bolts[b + BUSY] > 0:
                end = ring[bolts[b + RING] + WORK * bolts[b + HEAD] + END]
                if end == now:
                    ended = b
                    break
                if soonest < 0 or end < soonest:
                    soonest = end
        if ended >= 0:
            b = ended
            reg[EVENTS] += 1
            worker, birth = _end(b, reg, bolts, ring, idle, records, places, todo)
            if bolts[b + FINAL]:
                _log(reg, log, ENDS, b, worker)
                continue
            count = (bolts[b + OWED] + bolts[b + UP]) // bolts[b + DOWN]
            bolts[b + OWED] += bolts[b + UP] - count * bolts[b + DOWN]
            _log(reg, log, BOLT_EMIT, b, worker)
            source = bolts[b + SENDS]
            _deliver(source, count, birth, reg, bolts, sources, hears, gives, log, places, pool, histogram, todo)
            continue

        # Idle workers take.
        if reg[TODO] > 0:
            p = todo[2 * (reg[TODO] - 1)]
            if _take(p, reg, bolts, ring, idle, places, pool, histogram, log):
                reg[EVENTS] += 1
            else:
                places[p + IN_TODO] = 0
                reg[TODO] -= 1
            continue

        # The instant is settled.
        while reg[TOUCHED] > 0:
            reg[TOUCHED] -= 1
            p = todo[2 * reg[TOUCHED] + 1]
            places[p + IN_TOUCHED] = 0
            if places[p + LENGTH] > places[p + LONGEST_SETTLED]:
                places[p + LONGEST_SETTLED] = places[p + LENGTH]

        # A spout that is due emits; if none is, time passes.
        due = -1
        for s in range(0, spouts_end, SPOUT):
            if spouts[s + NEXT] < spouts[s + STOP]:
                at = arrivals[spouts[s + NEXT]]
                if at == now:
                    due = s
                    break
                if soonest < 0 or at < soonest:
                    soonest = at
        if due >= 0:
            spouts[due + NEXT] += 1
            reg[EVENTS] += 1
            reg[EMITTED] += 1
            reg[LAST] = now
            _log(reg, log, SPOUT_EMIT, due, 0)
            source = SOURCE * (due // SPOUT)
            _deliver(source, 1, now, reg, bolts, sources, hears, gives, log, places, pool, histogram, todo)
            continue
        if soonest < 0 or (reg[UNTIL] >= 0 and soonest > reg[UNTIL]):
            return DONE
        reg[NOW] = soonest
