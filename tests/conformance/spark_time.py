"""Kinds of cases from Spark's tests of event time: counts per window, two streams, chains, dedup, sessions.

A step ``add`` is a micro-batch; what it completes comes out with it (there: with the empty batch that follows).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import chain as chained
from typing import Any, NamedTuple

from pellucid import Stream, join, pipeline, silent
from tests.conformance import Differs, Kind, OtherRule, expect
from tests.conformance.windows import Event, Held, Put, Shape, Windows, known, refused, seconds, units


def _times(given: Any) -> list[int]:
    """Times of an ``add``, in units: a list, or ``10..15 five times``."""
    if isinstance(given, list):
        return [units(time) for time in given]
    words = ["once", "twice", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    found = re.fullmatch(r"(-?\d+)\.\.(-?\d+)(?: (\w+)(?: times)?)?", given)
    if found is None or (found[3] is not None and found[3] not in words and not found[3].isdigit()):
        raise Differs(f"the rows {given!r} are not known")
    often = 1 if found[3] is None else int(found[3]) if found[3].isdigit() else words.index(found[3]) + 1
    return [time * units(1) for time in range(int(found[1]), int(found[2]) + 1)] * often


def _counts(windows: list[Held]) -> list[list[Any]]:
    return sorted([seconds(w.start), len(w.events)] for w in windows)


def _query(case: dict[str, Any]) -> tuple[Shape, int]:
    query = case["query"]
    known(query, "window_s", "slide_s", "delay_s", "agg")
    if query.get("agg", "count") != "count":
        raise Differs(f"the aggregate {query['agg']!r} is not known")
    size = units(query["window_s"])
    return Shape("sliding", size, units(query.get("slide_s", query["window_s"]))), units(query["delay_s"])


# ---------------------------------------------------------------- counts per window


def windowed_count(case: dict[str, Any]) -> None:
    known(case, "mode", "query", "steps")
    over, delay = _query(case)
    if case["mode"] == "complete":
        return _complete(case, over, delay)
    if case["mode"] not in ("append", "update"):
        raise Differs(f"the mode {case['mode']!r} is not known")
    _append(case, Windows(over, (delay,)), _counts, update=case["mode"] == "update")


def _changed(run: Windows, rows: list[tuple[int, str]]) -> tuple[Put, list[Held]]:
    """A batch, and the windows that it brought events, as they are then: complete or so far."""
    first = len(run.events)
    put = run.push(rows)
    return put, [w for w in [*put.early, *put.windows] if any(n >= first for n in w.events)]


def _append(case: dict[str, Any], run: Windows, counts: Callable[[list[Held]], Any], update: bool = False) -> None:
    """Steps with what each adds to the output: what is complete, or (``update``) what has changed."""
    new: list[Held] = []
    every: list[Held] = []
    late, other = 0, ""
    for name, *given in case["steps"]:
        if name == "add":
            put, changed = _changed(run, [(time, "") for time in _times(given[0])])
            new, late = changed if update else put.windows, len(put.late)
            every += new
        elif name == "state_rows":
            expect("windows that are not complete", len(run.open()), given[0])
        elif name in ("new", "new_if_no_data_batches_on"):
            expect(name, counts(new), sorted(given[0]))
        elif name == "all":
            expect(name, counts(every), sorted(given[0]))
        elif name == "new_if_no_data_batches_off":
            if counts(new) != sorted(given[0]):
                other = "what a batch completes comes out with it: there is no way to have it wait for the next rows"
        elif name == "dropped":
            expect("late rows", late, given[0])
        elif name == "watermark":
            expect("the clock", _clock(run), given[0])
        elif name == "restart":
            run.restart()
        else:
            raise Differs(f"the step {name!r} is not known")
    if other:
        raise OtherRule(other)


def _complete(case: dict[str, Any], over: Shape, delay: int) -> None:
    """All windows, complete or so far.  There nothing ever closes; here a row of a window that closed is late."""
    run = Windows(over, (delay,))
    closed: list[Held] = []
    late = 0
    seen: Counter[int] = Counter()
    for name, *given in case["steps"]:
        if name == "add":
            times = _times(given[0])
            put = run.push([(time, "") for time in times])
            closed, late = closed + put.windows, late + len(put.late)
            seen.update(start for time in times for start in _starts(over, time))
        elif name in ("all", "new"):
            found = sorted([seconds(s), n] for s, n in seen.items()) if late else _counts([*closed, *run.open()])
            expect("all that there is", found, sorted(given[0]))
        else:
            raise Differs(f"the step {name!r} is not known")
    if late:
        raise OtherRule(f"a window comes out once, when the clock is at its end ({_counts(closed)}); {late} of these "
                        "rows come after that, and are late")  # fmt: skip


def _starts(over: Shape, time: int) -> list[int]:
    first = time // over.every * over.every
    return [start for start in range(first, first - over.size, -over.every) if start > time - over.size]


def windowed_count_once(case: dict[str, Any]) -> None:
    """There the output of a batch waits for the next start; here it comes with the batch."""
    known(case, "query", "runs")
    over, delay = _query(case)
    run = Windows(over, (delay,))
    ours = []
    for given, _ in case["runs"]:
        ours.append(_counts(run.push([(time, "") for time in _times(given)]).windows))
        run.restart()
    theirs = [sorted(new) for _, new in case["runs"]]
    if theirs == [[], *ours[:-1]] and theirs != ours:
        raise OtherRule("what a batch completes comes out with it, not with the next one")
    expect("new rows of each start", ours, theirs)


def windowed_count_available_now(case: dict[str, Any]) -> None:
    known(case, "query", "before", "runs")
    over, delay = _query(case)
    run = Windows(over, (delay,))
    run.push([(time, "") for time in _times(case["before"])])
    for given, new in case["runs"]:
        run.restart()
        expect(f"new rows of {given}", _counts(run.push([(time, "") for time in _times(given)]).windows), sorted(new))


def raw_key_count(case: dict[str, Any]) -> None:
    """Counts per time: a window of one unit."""
    known(case, "delay_s", "steps")
    try:
        _append(case, Windows(Shape("sliding", 1, 1), (units(case["delay_s"]),)), _counts)
    except Differs:
        if not _at_the_clock([_times(given[0]) for name, *given in case["steps"] if name == "add"], case):
            raise
        raise OtherRule("a time that the clock is exactly at is not complete, and its events are not late") from None


def _at_the_clock(batches: list[list[int]], case: dict[str, Any]) -> bool:
    """Whether any time of these batches is where the clock stands at some border."""
    top = [max(time for batch in batches[: i + 1] for time in batch) for i in range(len(batches))]
    times = {time for batch in batches for time in batch}
    return any(one - units(case["delay_s"]) in times for one in top)


# ---------------------------------------------------------------- two streams


def _clock(run: Windows) -> Any:
    """There 0 stands for a clock that is nowhere yet."""
    now = run.clock()
    return 0 if now is None else seconds(now)


def two_stream_watermark(case: dict[str, Any]) -> None:
    known(case, "policy", "delays_s", "steps")
    if case["policy"] not in ("min", "max"):
        raise Differs(f"the policy {case['policy']!r} is not known")
    run = Windows(Shape("sliding", 1, 1), tuple(units(delay) for delay in case["delays_s"]))
    ours, lost = [], False
    for first, second, _ in case["steps"]:
        if first == "restart":
            run.restart()
            lost = True
        else:
            run.push_all({0: [(t, "") for t in _times(first)], 1: [(t, "") for t in _times(second)]})
        ours.append(_clock(run))
    theirs = [wanted for *_, wanted in case["steps"]]
    if ours != theirs and theirs == _spark_clocks(case, forget=True):
        if case["policy"] == "max":
            raise OtherRule(f"the clock is the least of the sources that are not idle, never the greatest: {ours}")
        if lost and ours == _spark_clocks(case, forget=False):
            raise OtherRule(f"how far each source was is kept over a restart: {ours} here, {theirs} there")
    expect("the clock after each step", ours, theirs)


def _spark_clocks(case: dict[str, Any], forget: bool) -> list[Any]:
    """Spark's watermarks: the policy over the streams, `forget`: without what each knew before a restart."""
    delays = case["delays_s"]
    seen: list[Any] = [None] * len(delays)
    now, found = 0, []
    for *given, _ in case["steps"]:
        if given[0] == "restart":
            seen = [None] * len(delays) if forget else seen
        else:
            for i, times in enumerate(given):
                if times:
                    seen[i] = max(max(times) - delays[i], seen[i] if seen[i] is not None else max(times) - delays[i])
        of = [one if one is not None else 0 for one in seen]
        now = max(now, (min if case["policy"] == "min" else max)(of))
        found.append(now)
    return found


# ---------------------------------------------------------------- batch, refusals


def batch(case: dict[str, Any]) -> None:
    """A call on rows that end: nothing is late, whatever the order."""
    known(case, "expect")
    found = re.fullmatch(r"all (\d+) rows, none dropped", case["expect"])
    if found is None:
        raise Differs(f"not known: {case['expect']!r}")
    count = int(found[1])
    run = Windows(Shape("sliding", units(5), units(5)))
    rows = [Event(units(i * 37 % count), "", f"{i};") for i in range(count)]
    out = run.pipeline(rows)
    expect("rows that came out", sorted(i for w in run._put(out).windows for i in w.events), list(range(count)))
    expect("late rows", out["late"], [])


_DAYS = {"year": 365, "month": 31, "week": 7, "day": 1}  # a month is 31 days there
_SECONDS = {"hour": 3600, "minute": 60, "second": 1, "millisecond": 0.001, "microsecond": 0.000001}


def _length(text: str) -> timedelta:
    """``1 year -13 months``; a year is twelve months."""
    whole = timedelta()
    for number, unit in re.findall(r"(-?\d+)\s+([a-z]+?)s?\b", text):
        if unit == "year":
            whole += timedelta(days=int(number) * 12 * _DAYS["month"])
        elif unit in _DAYS:
            whole += timedelta(days=int(number) * _DAYS[unit])
        elif unit in _SECONDS:
            whole += timedelta(seconds=int(number) * _SECONDS[unit])
        else:
            raise Differs(f"the length {text!r} is not known")
    if not re.fullmatch(r"(\s*-?\d+\s+[a-z]+)+", text):
        raise Differs(f"the length {text!r} is not known")
    return whole


def reject(case: dict[str, Any]) -> None:
    known(case, "query", "values", "expect")
    if not str(case["expect"]).startswith("error"):
        raise Differs(f"not known: {case['expect']!r}")
    if case.get("query") == "two withWatermark calls on one stream":
        twice = refused(lambda: pipeline(lambda x: x.at("time", lateness=1).at("time", lateness=2), x=Event))
        return expect("refused", twice is not None and "time" in twice, True)
    columns = {r"does not exist|bad ?column|no such": "badColumn", r"no time|wrong type|not a time": "key"}
    for pattern, column in columns.items():
        if re.search(pattern, case.get("query", "")):
            said = refused(lambda column=column: pipeline(lambda x: x.at(column), x=Event))
            return expect(
                "refused because of its time", said is not None and re.search(r"\bat\b", said) is not None, True
            )
    if "query" in case or "values" not in case:
        raise Differs(f"the query {case.get('query')!r} is not known")
    for value in case["values"]:
        late = _length(value) // timedelta(microseconds=1)
        said = refused(lambda late=late: pipeline(lambda x: x.at("time", lateness=late), x=Event))
        expect(f"a lateness of {value} is refused", said is not None and "lateness" in said, True)


# ---------------------------------------------------------------- chains


class Sum(NamedTuple):
    """Of a window of windows."""

    windows: int
    total: int


def _count(x: Stream[Any]) -> Stream[int]:
    return x.cumulate(lambda n, e: n + 1, start=0)


def _sum(x: Stream[Any]) -> Stream[Sum]:
    return x.cumulate(lambda s, w: Sum(s.windows + 1, s.total + w.value.total), start=Sum(0, 0))


def _columns(text: str | None, last: bool) -> Callable[[Any], list[Any]]:
    """An answer as the case writes it: ``(start, windows, total)``; ``last``: it is of windows of windows."""
    parts: dict[str, Callable[[Any], Any]] = {"start": lambda w: seconds(w.start), "end": lambda w: seconds(w.end)}
    if last:
        parts |= {"windows": lambda w: w.value.windows, "count": lambda w: w.value.windows}
        parts |= {"total": lambda w: w.value.total, "sum": lambda w: w.value.total}
    else:
        parts["count"] = lambda w: w.value
    names = ["start", "count"] if text is None else [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in parts]:
        raise Differs(f"{', '.join(unknown)}: no column of these answers")
    return lambda w: [parts[name](w) for name in names]


class Chain(NamedTuple):
    """A query as a pipeline: its sources, and its answers as the case writes them."""

    sources: tuple[str, ...]
    make: Callable[..., Any]
    row: Callable[[Any], list[Any]]


_SECONDS_OF = r"per (\d+) s(?: windows?)?"
_ROW = r"(?:: \(([\w, ]+)\))?"


def _chain(query: str) -> Chain:
    if found := re.fullmatch(rf"count {_SECONDS_OF} \(delay (\d+)\)((?:, then {_SECONDS_OF})*){_ROW}", query):
        small, delay = units(found[1]), units(found[2])
        larger = [units(size) for size in re.findall(r"per (\d+) s", found[3])]

        def windows(x: Stream[Event]) -> Any:
            first = x.at("time", lateness=delay).tumbling(small, _count)
            steps = [first]
            for n, size in enumerate(larger):
                before = steps[-1] if n else first.map(lambda w: w._replace(value=Sum(1, w.value)))
                steps.append(before.tumbling(size, _sum))
            return {"out": steps[-1], **{f"late{n}": step.late for n, step in enumerate(steps)}}

        return Chain(("x",), windows, _columns(found[5], bool(larger)))
    if found := re.fullmatch(rf"dedup on \(value,\s?time\), delay (\d+), then count {_SECONDS_OF}{_ROW}", query):
        delay, small = units(found[1]), units(found[2])

        def after(x: Stream[Event]) -> Any:
            once = x.at("time", lateness=delay).dedup(by=lambda e: (e.key, e.time), within=1)
            counted = once.tumbling(small, _count)
            return {"out": counted, "late1": counted.late, "late0": once.late}

        return Chain(("x",), after, _columns(found[3], False))
    if found := re.fullmatch(
        rf"count {_SECONDS_OF} \(delay (\d+)\), (?:then )?dedup on \(count, window end(?:, window time)?\){_ROW}", query
    ):
        small, delay = units(found[1]), units(found[2])

        def before(x: Stream[Event]) -> Any:
            counted = x.at("time", lateness=delay).tumbling(small, _count)
            once = counted.dedup(by=lambda w: (w.value, w.end), within=1)
            return {"out": once, "late1": once.late, "late0": counted.late}

        return Chain(("x",), before, _columns(found[3], False))
    if found := re.fullmatch(
        rf"(?:inner )?join on equal times? \(delays (\d+) and (\d+)\), then count {_SECONDS_OF}{_ROW}", query
    ):
        delays, small = (units(found[1]), units(found[2])), units(found[3])

        def joined(x: Stream[Event], y: Stream[Event]) -> Any:
            left, right = (s.at("time", lateness=delay) for s, delay in zip((x, y), delays, strict=True))
            both = join(left, right, within=0)
            counted = both.tumbling(small, _count)
            return {"out": counted, "late1": counted.late, "late0": both.late}

        return Chain(("x", "y"), joined, _columns(found[4], False))
    raise Differs(f"the query {query!r} is not known")


def chain(case: dict[str, Any]) -> None:
    known(case, "query", "steps")
    made = _chain(case["query"])
    engine = pipeline(made.make, **dict.fromkeys(made.sources, Event)).engine()
    new: list[Any] = []
    late, other = list[int](), ""
    for name, *given in case["steps"]:
        if name in ("add", "add_range", "add_both"):
            one = range(given[0], given[1] + 1) if name == "add_range" else given[0]
            streams = given if name == "add_both" else [one]
            if len(streams) != len(made.sources):
                raise Differs(f"the query reads {len(made.sources)} streams, and {name!r} adds to {len(streams)}")
            rows = [[Event(units(time), str(time), "") for time in times] for times in streams]
            longest = max(map(len, rows))
            out = engine.push(
                **{x: [*its, *[silent] * (longest - len(its))] for x, its in zip(made.sources, rows, strict=True)}
            )
            new = sorted(made.row(w) for w in out["out"])
            late = [len(out[step]) for step in sorted(out, reverse=True) if step != "out"]
        elif name == "new":
            expect(name, new, sorted(given[0]))
        elif name == "dropped_per_operator_last_first":
            if late != given[0] and [bool(n) for n in late] == [bool(n) for n in given[0]] and late > given[0]:
                other = (
                    f"every late row counts: {late} here, {given[0]} there, where rows are counted after a first sum"
                )
            else:
                expect(name, late, given[0])
        else:
            raise Differs(f"the step {name!r} is not known")
    if other:
        raise OtherRule(other)


# ---------------------------------------------------------------- dedup, sessions


def dedup(case: dict[str, Any]) -> None:
    """There a row comes out when it arrives, and the first that arrives is kept; here the first by its time, when no
    earlier one can come.  A row is its time, or what it is known by and its time."""
    known(case, "delay_s", "key", "steps")
    if case["key"] not in ("value", "key", "id"):
        raise Differs(f"the key {case['key']!r} is not known")
    delay = units(case["delay_s"])

    def once(x: Stream[Event]) -> Any:
        kept = x.at("time", lateness=delay).dedup(by=lambda e: e.key, within=delay)
        return {"out": kept, "late": kept.late}

    engine = pipeline(once, x=Event).engine()
    spark = _SparkDedup(delay)
    ours: list[list[Any]] = []
    theirs: list[list[Any]] = []
    late = spark_late = 0
    counted = True  # as many late rows as there
    for name, *given in case["steps"]:
        if name == "add":
            rows = _known_by(given[0])
            out = engine.push([Event(time, key, "") for time, key in rows])
            ours.append(_told(given[0], [(e.time, e.key) for e in out["out"]]))
            late = len(out["late"])
            new, spark_late = spark.push(rows)
            theirs.append(_told(given[0], new))
        elif name == "new":
            expect("new rows, by their rule", theirs[-1], sorted(given[0]))
        elif name == "dropped":
            expect("late rows, by their rule", spark_late, given[0])
            counted = counted and late == given[0]
        elif name == "state_rows":
            expect("what is remembered, by their rule", len(spark.until), given[0])
        else:
            raise Differs(f"the step {name!r} is not known")
    rest = _told(case["steps"][0][1], [(e.time, e.key) for e in engine.finish()["out"]])
    if ours == theirs and not rest and counted:
        return
    if counted and sorted(chained(rest, *ours)) == sorted(chained(*theirs)):
        raise OtherRule(f"a row comes out when no earlier one can come any more: {ours} and at the end {rest} here, "
                        f"{theirs} there")  # fmt: skip
    if not spark.apart:
        raise Differs(f"{theirs} is expected, {ours} and at the end {rest} came")
    raise OtherRule("of like rows the first by time is kept, not the first to arrive; how far apart they are counts, "
                    f"not the clock: {ours} and at the end {rest} here, {theirs} there")  # fmt: skip


def _known_by(given: Any) -> list[tuple[int, str]]:
    """Rows with what each is known by: said beside its time, or the time."""
    if isinstance(given, list) and given and isinstance(given[0], list):
        return [(units(time), str(key)) for key, time in given]
    return [(time, str(seconds(time))) for time in _times(given)]


def _told(given: Any, rows: list[tuple[int, str]]) -> list[Any]:
    """Rows as the case writes them."""
    pairs = isinstance(given, list) and bool(given) and isinstance(given[0], list)
    return sorted([key, seconds(time)] if pairs else seconds(time) for time, key in rows)


class _SparkDedup:
    """Spark's rule: the first that arrives, and what is like it is gone until the watermark is past both."""

    def __init__(self, delay: int) -> None:
        self.delay, self.now = delay, 0
        self.until: dict[str, int] = {}
        self.apart = False  # whether a row came where the rules may not be the same

    def push(self, rows: list[tuple[int, str]]) -> tuple[list[tuple[int, str]], int]:
        new, late = [], 0
        for time, key in rows:
            if time <= self.now and self.now > 0:
                late += 1
                self.apart = self.apart or time == self.now
            elif key in self.until:
                self.apart = self.apart or abs(self.until[key] - self.delay - time) > 0
            else:
                new.append((time, key))
                self.until[key] = time + self.delay
        self.now = max([self.now, *(time - self.delay for time, _ in rows)])
        self.until = {key: until for key, until in self.until.items() if until > self.now}
        return new, late


def session(case: dict[str, Any]) -> None:
    """The end of a session there is the first time after a gap; here a gap belongs to it: its end is one unit later."""
    known(case, "gap_s", "delay_s", "steps", "mode")
    mode = case.get("mode", "append")
    if mode not in ("append", "update", "complete"):
        raise Differs(f"the mode {mode!r} is not known")
    gap, delay = units(case["gap_s"]), units(case["delay_s"])
    run = Windows(Shape("session", gap), (delay,), keyed=True)
    theirs = _SparkSessions(gap, delay)
    closed: list[Held] = []
    new: list[Held] = []
    theirs_new: list[list[Any]] = []
    late = theirs_late = 0
    other = ""
    for name, *given in case["steps"]:
        if name == "add":
            rows = [(units(time), key) for key, time in given[0]]
            put, changed = _changed(run, rows)
            new, late = changed if mode == "update" else put.windows, len(put.late)
            closed += put.windows
            theirs_new, theirs_late = theirs.push(rows)
        elif name in ("new", "all", "dropped"):
            whole = name == "all" or mode == "complete"
            found = late if name == "dropped" else _sessions(run, [*closed, *run.open()] if whole else new)
            wanted = given[0] if name == "dropped" else sorted(given[0])
            said = theirs_late if name == "dropped" else None if whole or mode != "append" else theirs_new
            if found != wanted and wanted == said and theirs.differs:
                other = (f"an event before the clock counts only inside an open session, which is open until the "
                         f"clock is past its gap: {name} is {found} here, {wanted} there")  # fmt: skip
            else:
                expect(name, found, wanted)
        elif name == "restart":
            run.restart()
        else:
            raise Differs(f"the step {name!r} is not known")
    if other:
        raise OtherRule(other)


def _sessions(run: Windows, windows: list[Held]) -> list[list[Any]]:
    return sorted([run.events[w.events[0]][1], seconds(w.start), seconds(w.end - 1), len(w.events)] for w in windows)


class _SparkSessions:
    """Spark's rule: a row is dropped if its own session would have ended by the watermark; what ended is put out."""

    def __init__(self, gap: int, delay: int) -> None:
        self.gap, self.delay = gap, delay
        self.now = 0
        self.open: list[tuple[str, list[int]]] = []
        self.differs = False  # whether a row came to where the rules are not the same

    def push(self, rows: list[tuple[int, str]]) -> tuple[list[list[Any]], int]:
        dropped = 0
        for time, key in rows:
            if time < self.now or any(times[-1] + self.gap == self.now for _, times in self.open):
                self.differs = True
            if time + self.gap <= self.now:
                dropped += 1
                continue
            near = [s for s in self.open if s[0] == key and s[1][0] - self.gap <= time <= s[1][-1] + self.gap]
            self.open = [s for s in self.open if s not in near]
            self.open.append((key, sorted([time, *(t for _, times in near for t in times)])))
        self.now = max([self.now, *(time - self.delay for time, _ in rows)])
        if any(times[-1] + self.gap == self.now for _, times in self.open):
            self.differs = True
        done = [s for s in self.open if s[1][-1] + self.gap <= self.now]
        self.open = [s for s in self.open if s not in done]
        return sorted([k, seconds(t[0]), seconds(t[-1] + self.gap), len(t)] for k, t in done), dropped


KINDS: dict[str, Kind] = {
    "windowed_count": windowed_count,
    "windowed_count_once": windowed_count_once,
    "windowed_count_available_now": windowed_count_available_now,
    "raw_key_count": raw_key_count,
    "two_stream_watermark": two_stream_watermark,
    "batch": batch,
    "reject": reject,
    "chain": chain,
    "dedup": dedup,
    "session": session,
}
