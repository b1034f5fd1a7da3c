"""Kinds of cases from timely-dataflow and differential-dataflow that are runs: operators that take messages, hold
capabilities and are told when a time is complete, all by the clock.

Much of these cases is said in words.  What the words say is read with patterns; words that fit none are a failure.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from pellucid.errors import PellucidError
from pellucid.progress import (
    Antichain,
    Builder,
    Capability,
    Integers,
    Loop,
    Notificator,
    Operator,
    Order,
    Source,
    Target,
    Tracker,
    Worker,
    enter,
    leave,
)
from tests.conformance import Differs, Kind, expect

Sent = list[tuple[int, Any]]


def words(pattern: str, text: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text.strip())
    if found is None:
        raise Differs(f"{text!r} is not understood")
    return found


class Flow:
    """Streams of (time, value) into one node, and what it sends: the smallest thing that runs by the clock."""

    def __init__(self, streams: list[Sent]) -> None:
        graph = Builder()
        for n in range(len(streams)):
            graph.add_node(f"read {n}", 0, 1, [])
        graph.add_node("node", len(streams), 1, [[0]] * len(streams))
        for n in range(len(streams)):
            graph.add_edge(Source(f"read {n}"), Target("node", n))
        self.clock: Tracker = graph.build()
        self.streams, self.node, self.out = streams, Operator(self.clock, "node"), list[tuple[int, Any]]()
        self.asked, self.held = Notificator(Integers()), dict[int, Capability]()

    def ask(self, time: int) -> None:
        """To be told when a time is complete; what is sent then is counted from now on."""
        if time not in self.held:
            self.held[time] = self.node.capability(0, time)
            self.asked.notify_at(time)

    def send(self, time: int, value: Any) -> None:
        self.node.capability(0, time).drop()  # refused if it may not
        self.out.append((time, value))

    def run(self, on_message: Callable[[int, int, Any], None], on_notify: Callable[[int], None]) -> Sent:
        """All that was sent."""
        readers = [Operator(self.clock, f"read {n}") for n in range(len(self.streams))]
        rights = [
            reader.start(0, min(time for time, _ in stream)) if stream else None
            for reader, stream in zip(readers, self.streams, strict=True)
        ]
        for n, stream in enumerate(self.streams):
            for k, (time, value) in enumerate(stream):
                right = rights[n]
                assert right is not None
                one = right.delayed(time)
                readers[n].send(one, 0)
                one.drop()
                with self.node.take(n, time):
                    on_message(n, time, value)
                rest = [later for later, _ in stream[k + 1 :]]
                right.downgrade(min(rest)) if rest else right.drop()
                self._tell(on_notify)
        self._tell(on_notify)
        if self.held:
            raise Differs(f"never told: {sorted(self.held)}")
        return self.out

    def _tell(self, on_notify: Callable[[int], None]) -> None:
        while True:
            self.clock.propagate_all()
            inputs = [self.clock.frontier(Target("node", n)) for n in range(len(self.streams))]
            due = self.asked.next(inputs)
            if due is None:
                return
            on_notify(due[0])
            self.held.pop(due[0]).drop()


# ---------------------------------------------------------------- operators


def _data(given: Any) -> Sent:
    """``value i at time i, i = 0..9``; ``0..9 all at time 0``; ``(x mod 2, x), x = 0..9 in order, time 0; …``; or rows
    ``[time, value]`` themselves."""
    if isinstance(given, list):
        return [(time, value) for time, value in given]
    if (found := re.fullmatch(r"value i at time i, i = (\d+)\.\.(\d+)", given)) is not None:
        return [(i, i) for i in range(int(found[1]), int(found[2]) + 1)]
    if (found := re.fullmatch(r"(\d+)\.\.(\d+)(?: all)?,? at time (\d+)", given)) is not None:
        return [(int(found[3]), x) for x in range(int(found[1]), int(found[2]) + 1)]
    pattern = r"\(x mod (\d+), x\), x = (\d+)\.\.(\d+)(?: in order)?, time (\d+)(?:; emit \(key, running sum\))?"
    found = words(pattern, given)
    return [(int(found[4]), (x % int(found[1]), x)) for x in range(int(found[2]), int(found[3]) + 1)]


def _function(case: dict[str, Any], *names: str) -> Callable[..., Any]:
    """What a case applies, as an expression: ``x + 4``."""
    text = case.get("function", case.get("map"))
    if not isinstance(text, str):
        raise Differs("the case does not say which function: 'function' is an expression such as x + 4")
    code = compile(text, "function", "eval")
    return lambda *values: eval(code, {"__builtins__": {}}, dict(zip(names, values, strict=True)))


def _reclock(case: dict[str, Any]) -> Sent:
    """What is there up to a tick goes out at the tick."""
    flow = Flow([_data(case["data"]), [(tick, None) for tick in case["clock_ticks"]]])
    waiting: list[tuple[int, Any]] = []

    def on_message(port: int, time: int, value: Any) -> None:
        if port == 0:
            waiting.append((time, value))
        else:
            flow.ask(time)

    def on_notify(tick: int) -> None:
        due = [value for time, value in waiting if time <= tick]
        waiting[:] = [one for one in waiting if one[0] > tick]
        if due:
            flow.send(tick, due)

    return flow.run(on_message, on_notify)


def _whole(case: dict[str, Any], result: Callable[[list[Any]], list[Any]]) -> Sent:
    """A function of all values of a time, when it is complete."""
    flow = Flow([_data(case["data"])])
    waiting: dict[int, list[Any]] = defaultdict(list)

    def on_message(port: int, time: int, value: Any) -> None:
        waiting[time].append(value)
        flow.ask(time)

    def on_notify(time: int) -> None:
        for value in result(waiting.pop(time)):
            flow.send(time, value)

    return flow.run(on_message, on_notify)


def _sums(values: list[Any]) -> list[Any]:
    total: Counter[Any] = Counter()
    for key, value in values:
        total[key] += value
    return sorted(total.items())


def _state_machine(case: dict[str, Any]) -> Sent:
    flow = Flow([_data(case["data"])])
    total: Counter[Any] = Counter()

    def on_message(port: int, time: int, value: Any) -> None:
        total[value[0]] += value[1]
        flow.send(time, (value[0], total[value[0]]))

    return flow.run(on_message, lambda time: None)


def _each(case: dict[str, Any], step: Callable[[int, Any], list[tuple[int, Any]]]) -> Sent:
    """What each value becomes, and when; all of a time together, as `capture` has it."""
    streams = [_data(case["data"])] + [_data(case[name]) for name in ("b", "other") if name in case]
    flow = Flow(streams)
    later: dict[int, list[Any]] = defaultdict(list)

    def on_message(port: int, time: int, value: Any) -> None:
        for at, result in step(time, value):
            if at == time:
                flow.send(at, result)
            else:
                later[at].append(result)
                flow.ask(at)

    def on_notify(time: int) -> None:
        for value in later.pop(time):
            flow.send(time, value)

    together: dict[int, list[Any]] = defaultdict(list)
    for at, value in flow.run(on_message, on_notify):
        together[at].append(value)
    return sorted(together.items())


def _values(make: Callable[[dict[str, Any]], Callable[[Any], list[Any]]]) -> Callable[[dict[str, Any]], Sent]:
    """An operator on values, at the time they have."""

    def run(case: dict[str, Any]) -> Sent:
        f = make(case)
        return _each(case, lambda time, value: [(time, result) for result in f(value)])

    return run


def _applied(case: dict[str, Any]) -> Callable[[Any], list[Any]]:
    f = _function(case, "x")
    return lambda x: [f(x)]


def _filtered(case: dict[str, Any]) -> Callable[[Any], list[Any]]:
    f = _function(case, "x")
    return lambda x: [x] if f(x) else []


def _of(side: str, then: str) -> Callable[[dict[str, Any]], Callable[[Any], list[Any]]]:
    """Of values that are ``{"ok": v}`` or ``{"err": e}``: one side alone, or changed."""

    def make(case: dict[str, Any]) -> Callable[[Any], list[Any]]:
        f = (lambda x: x) if then == "alone" else _function(case, "x")

        def step(value: dict[str, Any]) -> list[Any]:
            if side not in value:
                return [] if then == "alone" else [next(iter(value.values())) if then == "unwrap" else value]
            found = f(value[side])
            return [{side: found} if then == "inside" else found]

        return step

    return make


def _same(case: dict[str, Any]) -> Callable[[Any], list[Any]]:
    return lambda x: [x]


def _delay(case: dict[str, Any]) -> Sent:
    f = _function(case, "x", "time")
    return _each(case, lambda time, value: [(f(value, time), value)])


_OPERATORS: dict[str, Callable[[dict[str, Any]], Sent]] = {
    "reclock": _reclock,
    "accumulate_sum": lambda case: _whole(case, lambda values: [[sum(values)]]),
    "count": lambda case: _whole(case, lambda values: [[len(values)]]),
    "aggregate_sum": lambda case: _whole(case, _sums),
    "aggregate_count": lambda case: _whole(case, lambda rows: sorted(Counter(key for key, _ in rows).items())),
    "state_machine_running_sum": _state_machine,
    "delay": _delay,
    "map": _values(_applied), "filter": _values(_filtered),
    "flat_map": _values(lambda case: _function(case, "x")),
    "ok": _values(_of("ok", "alone")), "err": _values(_of("err", "alone")),
    "map_ok": _values(_of("ok", "inside")), "map_err": _values(_of("err", "inside")),
    "and_then": _values(_of("ok", "changed")), "unwrap_or_else": _values(_of("err", "unwrap")),
} | dict.fromkeys(
    (
        "to_stream", "capture", "unordered_input", "input", "exchange", "broadcast", "inspect", "concat", "concatenate",
        "enter", "leave", "shared", "flow_controlled",
    ),
    _values(_same),
)  # fmt: skip


def operator(case: dict[str, Any]) -> None:
    name = str(case.get("op", case.get("operator", case["id"].split(".")[-1])))
    known = [key for key in _OPERATORS if name == key or name.startswith(f"{key}_")]
    if not known:
        raise Differs(f"the operator {name!r} is not known")
    found = _OPERATORS[max(known, key=len)](case)
    if "expect" in case:
        expect(name, found, case["expect"])
    if "expect_set" in case:
        expect(name, sorted(map(_lists, (value for _, value in found))), sorted(map(_lists, case["expect_set"])))


def incremental_count(case: dict[str, Any]) -> None:
    """Changes of (key, sum of weights), epoch by epoch."""
    flow = Flow([[(n, row) for n, epoch in enumerate(case["epochs"]) for row in epoch]])
    weights: Counter[Any] = Counter()
    waiting: dict[int, list[Any]] = defaultdict(list)

    def on_message(port: int, time: int, row: Any) -> None:
        waiting[time].append(row)
        flow.ask(time)

    def on_notify(time: int) -> None:
        before = dict(weights)
        for (key, _), delta in waiting.pop(time):
            weights[key] += delta
        changes: Counter[Any] = Counter()
        for key in {*before, *weights}:
            for count, sign in ((before.get(key, 0), -1), (weights[key], 1)):
                if count:
                    changes[key, count] += sign
        flow.send(time, sorted((row, n) for row, n in changes.items() if n))

    found = flow.run(on_message, on_notify)
    expect("changes", [(time, rows) for time, rows in found if rows], case["expect"])


def collection_op(case: dict[str, Any]) -> None:
    """Collections at one time, put together when they are complete."""
    sides = [list(map(_tuples, case["a"])), list(map(_tuples, case.get("b", case.get("keys", []))))]
    flow = Flow([[(0, row) for row in side] for side in sides])
    seen: list[list[Any]] = [[], []]
    ops: dict[str, Callable[[list[Any], list[Any]], list[Any]]] = {
        "join": lambda a, b: [(k, (v, w)) for k, v in a for j, w in b if j == k],
        "join_map": lambda a, b: [_function(case, "k", "v1", "v2")(k, v, w) for k, v in a for j, w in b if j == k],
        "antijoin": lambda a, keys: [row for row in a if row[0] not in keys],
        "semijoin": lambda a, keys: [row for row in a if row[0] in keys],
        "concat": lambda a, b: [*a, *b],
        "negate_concat": lambda a, b: sorted((Counter(b) - Counter(a)).elements()),
        "subtract": lambda a, b: sorted((Counter(a) - Counter(b)).elements()),
        "distinct": lambda a, b: sorted(set(a)),
        "count": lambda a, b: sorted(Counter(a).items()),
        "consolidate": lambda a, b: a,
        "map": lambda a, b: [_function(case, "x")(x) for x in a],
        "filter": lambda a, b: [x for x in a if _function(case, "x")(x)],
    }
    if case["op"] not in ops:
        raise Differs(f"the operation {case['op']!r} is not known")

    def on_message(port: int, time: int, row: Any) -> None:
        seen[port].append(row)
        flow.ask(time)

    def on_notify(time: int) -> None:
        for row in ops[case["op"]](*seen):
            flow.send(time, row)

    found = [value for _, value in flow.run(on_message, on_notify)]
    expect(case["op"], sorted(map(repr, map(_lists, found))), sorted(map(repr, map(_lists, case["expect"]))))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if isinstance(value, (list, tuple)) else value


# ---------------------------------------------------------------- rounds


def _says(text: str, frontier: Antichain, r: int) -> None:
    """``the probe is not done, less_equal(r) is true, less_than(r+1) is true``."""
    for part in re.split(r",\s*|\s+and\s+", text):
        found = words(r"(?:the probe is (not )?done)|(?:(less_equal|less_than)\(r(?:\+(\d+))?\) is (true|false))", part)
        if found[2] is None:
            expect(part, frontier.is_empty(), found[1] is None)
        else:
            answer = getattr(frontier, found[2])(r + int(found[3] or 0))
            expect(f"{part} at r = {r}", answer, found[4] == "true")


def probe(case: dict[str, Any]) -> None:
    graph = Builder()
    graph.add_node("input", 0, 1, [])
    graph.add_node("probe", 1, 0, [{}])
    graph.add_edge(Source("input"), Target("probe"))
    clock = graph.build()
    found = words(r"r = (\d+)\.\.(\d+): before advancing the input to r\+1 (.*)", case["rounds"])
    right = Operator(clock, "input").start(0, int(found[1]))
    for r in range(int(found[1]), int(found[2]) + 1):
        clock.propagate_all()
        _says(found[3], clock.frontier(Target("probe")), r)
        right.downgrade(r + 1)
    words(r"after closing the input and stepping, done is true", case["after_close"])
    right.drop()
    clock.propagate_all()
    expect("done", clock.frontier(Target("probe")).is_empty(), True)


def scope_progress(case: dict[str, Any]) -> None:
    """Ways into scopes and out again, several workers: what the input lets pass reaches the probe of each."""
    text, *rest = case["graph"].split(",")
    places = [part.strip() for part in text.split("->")]
    workers = int(words(r"(?:.*\D)?(\d+) workers?", rest[-1])[1]) if rest else 1
    orders: list[Order] = [Integers()]
    graph = Builder()
    for n, place in enumerate(places):
        inner = orders[-1]
        if place == "input" and n == 0:
            graph.add_node(n, 0, 1, [])
        elif place == "probe" and n == len(places) - 1 and len(orders) == 1:
            graph.add_node(n, 1, 0, [{}])
        elif place.startswith("enter"):
            orders.append(Loop(inner))
            graph.add_node(n, 1, 1, [[enter(inner)]], orders_in=[inner], orders_out=[orders[-1]])
        elif place.startswith("leave") and len(orders) > 1:
            orders.pop()
            graph.add_node(n, 1, 1, [[leave(inner)]], orders_in=[inner], orders_out=[orders[-1]])
        else:
            raise Differs(f"{place!r} is not understood in {text!r}")
        if n:
            graph.add_edge(Source(n - 1), Target(n))
    found = words(r"r = (\d+)\.\.(\d+): after advancing the input to r\+1, the probe must reach r\+1.*", case["rounds"])
    first, last = int(found[1]), int(found[2])
    crew = [Worker(graph, [((Source(0), first), workers)]) for _ in range(workers)]
    for r in range(first, last + 1):
        for worker in crew:
            worker.update(Source(0), r, -1)
            worker.update(Source(0), r + 1, 1)
            told = worker.commit()
            for other in crew:
                if other is not worker:
                    other.hear(told)
        for worker in crew:
            expect(f"the probe at r = {r}", worker.frontier(Target(len(places) - 1)).elements(), [r + 1])


def notification_loop(case: dict[str, Any]) -> None:
    """A node that asks for the next time when it is told of one; what it sends would come back to it, later."""
    pattern = (
        r"one node with a feedback edge of summary \+(\d+), initial requests at times (\d+) and (\d+); "
        r"each notification at t requests t\+1 while t\+1 < (\d+)"
    )
    found = words(pattern, case["graph"])
    words(r"each activation delivers at most one time; the run ends", case["expect"])
    by, *first, end = (int(found[n]) for n in (1, 2, 3, 4))
    graph = Builder()
    graph.add_node("node", 1, 1, [[0]])
    graph.add_node("feedback", 1, 1, [[by]])
    graph.add_edge(Source("node"), Target("feedback"))
    graph.add_edge(Source("feedback"), Target("node"))
    for count in case["workers"]:
        start = [((Source("node"), time), count) for time in first]
        crew = [Worker(graph, start) for _ in range(count)]
        asked = [Notificator(Integers()) for _ in crew]
        for one in asked:
            for time in first:
                one.notify_at(time)
        news: list[deque[Any]] = [deque() for _ in crew]
        told, rng, idle = [0] * count, random.Random(count), 0
        while any(one.pending for one in asked):
            n = rng.randrange(count)
            if news[n]:
                crew[n].hear(news[n].popleft())
            frontier, times = crew[n].frontier(Target("node")), 0
            while (due := asked[n].next([frontier])) is not None:
                times += 1
                crew[n].update(Source("node"), due[0], -due[1])
                if due[0] + 1 < end:
                    crew[n].update(Source("node"), due[0] + 1, 1)
                    asked[n].notify_at(due[0] + 1)
                changes = crew[n].commit()
                for other in range(count):
                    if other != n:
                        news[other].append(changes)
                told[n] += 1
            if times > 1:
                raise Differs(f"{count} workers: {times} times were delivered in one activation")
            idle = 0 if times else idle + 1
            if idle > 1000 * count:
                raise Differs(f"{count} workers: the run does not end; {asked[n].pending} are asked for")
        expect("times told", told, [end - min(first)] * count)


Tries = list[Callable[[], Any]]


def _ways(action: str) -> tuple[Tries, Tries]:
    """Ways to do what an action is about that are wrong, and ways that are right."""
    graph = Builder()
    graph.add_node("node", 1, 2, [[0, 0]])
    node = Operator(graph.build(), "node")
    first, second = node.start(0, 5), node.start(1, 5)
    text = action.lower()
    if re.search(r"\boutputs?\b.*\bcapabilit", text) and "connected" not in text:
        return [lambda: node.send(first, 1), lambda: node.send(second, 0)], [
            lambda: node.send(first, 0), lambda: node.send(second, 1),
        ]  # fmt: skip
    if "connected" in text:
        apart = Builder()
        apart.add_node("node", 1, 2, [{0: 0}])
        alone = Operator(apart.build(), "node")

        def ask(output: int) -> None:
            with alone.take(0, 5):
                alone.capability(output, 5)

        return [lambda: ask(1)], [lambda: ask(0)]
    if re.search(r"derive|downgrade|delay|advance", text):
        expect("try_delayed", first.try_delayed(4), None)
        return [lambda: first.delayed(4), lambda: first.downgrade(4), lambda: node.capability(0, 4)], [
            lambda: first.delayed(5), lambda: first.delayed(6), lambda: first.downgrade(6),
        ]  # fmt: skip
    if re.search(r"\bdrop", text):
        second.drop()
        return [lambda: second.delayed(6), lambda: node.send(second, 1), second.drop], [first.drop]
    if re.search(r"cycle|loop", text):

        def ring(by: int) -> Callable[[], Any]:
            graph = Builder()
            graph.add_node(0, 1, 1, [[by]])
            graph.add_edge(Source(0), Target(0))
            return graph.build

        return [ring(0)], [ring(1)]
    raise Differs(f"the action {action!r} is not known")


def misuse_must_fail(case: dict[str, Any]) -> None:
    """What must be refused: each way of doing it, and where there is one that asks first, that it says no."""
    if not case["expect"].startswith("error"):
        raise Differs(f"{case['expect']!r} is not understood")
    text = case["action"].lower()
    if not re.search(
        r"with the capability of output|wrong|other output|not connected|disconnected|not >=|earlier|before|backwards?|"
        r"lower|smaller|dropped|after .*drop|(cycle|loop).*(without|no |zero)",
        text,
    ):
        raise Differs(f"the action {case['action']!r} is not known")
    for attempt in _ways(text)[0]:
        try:
            attempt()
        except PellucidError:
            pass
        else:
            raise Differs(f"{case['action']}: it was accepted")


def use_must_succeed(case: dict[str, Any]) -> None:
    """The right way to do the same."""
    if case["expect"] not in ("ok", "success", "no error", True):
        raise Differs(f"{case['expect']!r} is not understood")
    for attempt in _ways(case["action"])[1]:
        attempt()


KINDS: dict[str, Kind] = {
    f.__name__: f
    for f in (
        operator, incremental_count, collection_op, probe, scope_progress, notification_loop, misuse_must_fail,
        use_must_succeed,
    )
}  # fmt: skip
