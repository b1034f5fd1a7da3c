"""What is given by mistake is refused by name where it comes in: no traceback, and no answer to another question."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pandas as pd
import pytest

from pellucid import check
from pellucid.errors import PellucidError, StepError, UsageError
from pellucid.internal.model import Budget, CutShort
from pellucid.progress import (
    Antichain,
    Builder,
    ChangeBatch,
    Domains,
    Graph,
    Integers,
    Loop,
    Message,
    MutableAntichain,
    Node,
    Notificator,
    Operator,
    Ordered,
    Own,
    PathSummaries,
    Recursion,
    Set,
    Shift,
    Source,
    Stacks,
    Step,
    Tagged,
    Target,
    Worker,
    buffer,
    compose,
    conservative,
    feedback,
    run,
    why_not,
)

NAN = float("nan")
EDGES: dict[str, tuple[str | None, str | None]] = {"i": (None, "p"), "o": ("p", None)}


def graph(node: Node | None = None, **more: Any) -> Graph:
    return Graph({"p": node or buffer("o")}, EDGES, **{"times": [0, 1], **more})


def does(result: Callable[[Message], Any]) -> Any:
    return check.progress(graph(Node(lambda s, e, m: result(m))))


def clock() -> Any:
    ring = Builder()
    for n, by in enumerate([0, 1]):
        ring.add_node(n, 1, 1, [[by]])
    ring.add_edge(Source(0), Target(1))
    ring.add_edge(Source(1), Target(0))
    return ring.build()


class Tally:
    """An object that a node could change in place: two of them differ, whatever they have counted."""

    def __repr__(self) -> str:
        return "tally"


def fails(t: int) -> int:
    return 1 // 0


TIMES: dict[str, tuple[Callable[[], Any], str]] = {
    "ends": (lambda: Integers(0.5, 3), "the ends are whole numbers, as in Integers(0, 9)"),
    "no type": (lambda: Ordered(3), "Ordered(3): a type whose values are in one line is needed"),
    "no line": (lambda: Ordered(object), "Ordered(object): a type whose values are in one line is needed"),
    "NaN": (lambda: Ordered(Decimal).less_equal(Decimal("NaN"), Decimal(1)), "Decimal('NaN') is not a time of"),
    "NaN alone": (lambda: Antichain([Decimal("NaN")]), "Decimal('NaN') is not a time of"),
    "NaT": (lambda: Ordered(datetime).less_equal(pd.NaT, datetime(2020, 1, 1)), "NaT is not a time of values of datet"),
    "zones": (
        lambda: Ordered(datetime).less_equal(datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        "cannot be compared: TypeError: can't compare offset-naive and offset-aware datetimes",
    ),
    "a moment among days": (
        lambda: Ordered(date).less_equal(date(2020, 1, 1), datetime(2020, 1, 1)),
        "datetime.datetime(2020, 1, 1, 0, 0) is not a time of values of date",
    ),
    "an order that fails": (lambda: Own(lambda a, b: 1 // 0, [1, 2]), "does not tell whether 1 ≤ 1: ZeroDivisionErr"),
    "an order that is none": (lambda: Own(3, [1, 2]), "3 cannot be called: give a function of two times"),
    "samples that are none": (lambda: Own(lambda a, b: a <= b, 5), "give some times on which the order is tried"),
    "samples that change": (lambda: Own(lambda a, b: a <= b, [[1]]), "samples=: [1] can change, so it can be no time"),
    "two kinds": (
        lambda: Own(lambda a, b: a <= b, [1, 2]).less_equal(1, "b"),
        "does not tell whether 1 ≤ 'b': TypeErr",
    ),
    "domains": (lambda: Domains([Integers()]), "an order for each name is needed"),
    "stacks": (lambda: Stacks("ab"), "Stacks('ab'): the names of the calls are needed"),
    "an antichain": (lambda: Antichain(5), "an antichain of 5: several are expected"),
    "its order": (lambda: Antichain([1], 5), "order=5: an order of times is expected"),
    "half a count": (lambda: MutableAntichain().update_iter([(1, 1.5)]), "the change of 1: 1.5: a whole number is exp"),
    "a batch": (lambda: ChangeBatch([5]), "the change 5: a pair of a time and a number is expected"),
    "a batch's count": (lambda: ChangeBatch([(1, "x")]), "the change of a count: 'x': a whole number is expected"),
    "a batch's time": (lambda: ChangeBatch([([1], 1)]), "[1] can change, so nothing can be counted for it"),
    "frontiers": (lambda: Notificator().next([5]), "frontiers: 5 is no Antichain"),
    "a part of a number": (lambda: Shift(Integers(), Integers(), [0.5]), "a number of a summary: 0.5: a whole number"),
    "a part, set": (lambda: Shift(Integers(), Integers(), [Set(0.5)]), "a number of a summary: 0.5: a whole number"),
    "rounds": (lambda: feedback(Loop(Integers()), "x"), "feedback: by='x': a whole number is expected"),
    "tags": (lambda: Tagged(Domains({"a": Integers()}), {"a": 5}), "'a' leads to 5: a pair of a domain and a summary"),
    "a step that fails": (lambda: Step("next", fails, Integers(), samples=[1]), "next of 1: ZeroDivisionError: int"),
    "a step that is none": (lambda: Step("next", 5, Integers(), samples=[1]), "next: 5 cannot be called"),
}
CLOCKS: dict[str, tuple[Callable[[], Any], str]] = {
    "a name that changes": (lambda: Builder().add_node([1], 1, 1), "a name that can change is none"),
    "summaries": (lambda: Builder().add_node(0, 1, 1, 5), "summaries=5: a list with one entry for each input"),
    "orders": (lambda: Builder().add_node(0, 1, 1, orders_in=5), "orders_in is 5; 1 orders are needed"),
    "a port": (lambda: Builder().order_at(5), "5 is no location: give a Source(node, port)"),
    "no port": (lambda: clock().update_source(Source([1]), 1, 1), "[1].out0 is not in the graph"),
    "no location": (lambda: clock().frontier([0]), "[0] is not in the graph; its locations are 0.in0"),
    "no node": (lambda: clock().complete([0], 1), "there is no node [0] in the graph"),
    "NaN": (lambda: clock().update_source(Source(0), NAN, 1), "0.out0: nan is not a time of integers of 64 bits"),
    "a list": (lambda: clock().update_source(Source(0), [1], 1), "0.out0: [1] is not a time of integers of 64 bits"),
    "an update": (lambda: clock().update_iter([5]), "the update 5: a pair is expected"),
    "paths": (lambda: PathSummaries(5), "a Builder is expected, found a int"),
    "a worker": (lambda: Worker("x"), "a Builder is expected, found a str"),
    "an operator": (lambda: Operator(5, 0), "Operator(5, …): a clock is expected"),
    "why": (lambda: why_not(Builder(), "0", 1), "why_not takes a progress.Graph or a clock that runs, found a Builder"),
    "why there": (lambda: why_not(clock(), 9, 1), "'9' is no location of the clock: its nodes and ports are 0, 1, 0.i"),
}
GRAPHS: dict[str, tuple[Callable[[], Any], str]] = {
    "an order": (lambda: graph(order=Integers), "an order of times is expected, such as Integers()"),
    "nodes": (lambda: Graph([buffer("o")], EDGES), "a dict is expected, as in {'read': Node(on_message)}"),
    "edges": (lambda: Graph({}, [1]), "edges=[1]: a dict is expected, as in {'in': (None, 'read')}"),
    "names": (lambda: Graph({1: buffer("o")}, {}), "1 is a int: nodes and edges are named by texts"),
    "an end": (lambda: Graph({"p": Node()}, {"i": ([1], "p")}), "edge 'i' comes from [1], which is no node"),
    "times": (lambda: graph(times=5), "times=5: several are expected, as in range(3)"),
    "no times": (lambda: graph(times=[]), "times= is empty: nothing could ever happen"),
    "no values": (lambda: graph(values=[]), "values= is empty: nothing could ever happen"),
    "times that change": (lambda: graph(times=[[1]]), "times=: [1] can change, so it cannot be compared"),
    "values that change": (lambda: graph(values=[{}]), "values=: {} can change, so it cannot be compared"),
    "values taken for one": (lambda: graph(values=[1, True]), "values=: Python takes 1 and True for one thing"),
    "requests": (lambda: Node(requests=7), "requests=7: several are expected, as in [1, 2], times to be notified of"),
    "requests that change": (lambda: Node(requests=[[1]]), "requests=[1] can change, so it can be no time"),
    "starts": (lambda: Node(starts=[3]), "starts=: 3: a pair of a state and times to be notified of is expected"),
    "what is declared": (lambda: Node(summaries=[1]), "summaries=[1]: a dict is expected, as in {'out': 1}"),
    "a start that changes": (
        lambda: check.progress(graph(Node(state=[1]))),
        "node 'p', at its start: the state [1] can",
    ),
    "a state that is used up": (
        lambda: check.progress(graph(Node(lambda s, e, m: (s, [next(s)], {}), state=count()))),
        "node 'p', at its start: the state count(0) can change",
    ),
    "a state without a value": (
        lambda: does(lambda m: (Tally(), [], {})),
        "message 0 on i: the state tally can change",
    ),
    "a generator": (lambda: does(lambda m: (x for x in [1])), "node 'p', message 0 on i: returned <generator object"),
    "one that fails": (lambda: does(lambda m: (0, (1 // 0 for _ in [1]), {})), "message 0 on i: ZeroDivisionError"),
    "messages that fail": (lambda: does(lambda m: (0, [], {"o": (1 // 0 for _ in "x")})), "0 on i: ZeroDivisionError"),
    "a value that changes": (lambda: does(lambda m: (0, [], {"o": [Message(0, [1])]})), "can change"),
    "NaN": (lambda: does(lambda m: (0, [NAN], {})), "node 'p', message 0 on i: asks for: nan is not a time of"),
    "no messages": (lambda: check.progress(graph(), messages=-1), "messages=-1: a whole number from 0 on is expected"),
    "arrivals": (lambda: check.progress(graph(), arrivals="x"), "arrivals='x': a whole number from 0 on is expected"),
    "nothing asked": (
        lambda: check.progress(graph(), about=[]),
        "about= is empty: nothing is asked; the questions are",
    ),
    "time": (lambda: check.progress(graph(), timeout="x"), "timeout= takes a number of seconds above 0, or None"),
    "states": (lambda: check.progress(graph(), max_states=0), "max_states=0: a whole number from 1 on is expected"),
    "inputs": (lambda: check.progress(graph(), inputs=5), "inputs=5: a dict is expected, as in {'in': [Message(1)]}"),
    "one message": (lambda: check.progress(graph(), inputs={"i": Message(0)}), "is one message: give a list of them"),
    "a run": (lambda: run(5), "run takes a progress.Graph, found a int"),
    "a run's inputs": (lambda: run(graph(), {"i": [5]}), "inputs= of i: 5 is no message: write Message(time, value)"),
    "a run's message": (lambda: run(graph(), {"i": Message(0)}), "is one message: give a list of them"),
    "a run's limit": (lambda: run(graph(), limit="x"), "limit='x': a whole number from 0 on is expected"),
    "pending": (lambda: why_not(graph(), "p", 1, pending=[5]), "pending=: 5: expected [('in', 1), ('count', 2)]"),
    "pending times": (
        lambda: why_not(graph(), "p", 1, pending=[("i", [1])]),
        "[1] is not a time of integers of 64 bits",
    ),
    "why there": (lambda: why_not(graph(), ["p"], 1), "['p'] is no location of graph: its nodes and edges are p, i, o"),
    "why then": (lambda: why_not(graph(), "p", True), "True is not a time of integers of 64 bits"),
    "a composition": (lambda: compose(graph(), 5), "compose takes two progress.Graphs, found a int"),
    "calls": (lambda: Recursion(5, ["c"]), "recursion: edges=5: several are expected"),
    "a place": (lambda: Recursion([("in", "out")]).reaches(5, 6), "recursion: 5: a node and its stack are expected"),
}


@pytest.mark.parametrize(
    ("table", "name"), [(t, n) for t in (TIMES, CLOCKS, GRAPHS) for n in t], ids=lambda x: str(x)[:30]
)
def test_it_is_refused_by_name(table: dict[str, tuple[Callable[[], Any], str]], name: str) -> None:
    call, message = table[name]
    with pytest.raises(PellucidError) as told:
        call()
    assert message in str(told.value)


def test_updates_count_all_or_not_at_all() -> None:
    running = clock()
    with pytest.raises(UsageError, match=r"9.out0 is not in the graph"):
        running.update_iter([((Source(0), 1), 1), ((Source(9), 1), 1)])
    running.propagate_all()
    assert running.pointstamps() == []


def test_a_clock_that_stopped_half_way_says_nothing_more() -> None:
    def next_day(t: int) -> int:
        if t > 5:
            raise ValueError("there is no such day")
        return t + 1

    days = Own(lambda a, b: a <= b, [0, 1, 2], name="days")
    builder = Builder(days)
    builder.add_node("a", 1, 1, [[Step("the next day", next_day, days)]])
    running = builder.build()
    running.update_target(Target("a"), 7, 1)
    with pytest.raises(UsageError, match="the next day of 7: ValueError: there is no such day"):
        running.propagate_all()
    for ask in (
        lambda: running.frontier(Source("a")),
        lambda: running.complete("a", 1),
        lambda: running.update_target(Target("a"), 1, 1),
        running.propagate_all,
        running.pushed,
    ):
        with pytest.raises(UsageError, match="this clock stopped, and what it would say now would be wrong: the next"):
            ask()
    line = MutableAntichain()
    with pytest.raises(UsageError, match="they cannot be compared"):
        line.update_iter([(1, 1), ("a", 1)])
    with pytest.raises(UsageError, match="this antichain stopped when times could not be compared"):
        line.update_iter([(1, 1)])


def test_a_run_takes_rows_and_states_that_change() -> None:
    """A check keeps what it has seen; a run does not, and tells 1 from True."""

    def count(rows: list[Any], edge: str, m: Message) -> Any:
        return [*rows, m.value], [m.time], {}

    def tell(rows: list[Any], day: int) -> Any:
        return [], [], {"o": [Message(day, rows)]}

    daily = Graph({"p": Node(count, tell, state=[])}, EDGES)
    found = run(daily, {"i": [Message(1, {"tailnum": "N14228"}), Message(1, 1), Message(1, True)]})
    assert repr(found.outputs["o"][0].value) == "[{'tailnum': 'N14228'}, 1, True]"


def test_requests_from_a_generator_are_asked_for_by_every_run() -> None:
    node = Node(requests=(t for t in (0, 1)))
    assert node.initial == node.initial == ((None, frozenset({0, 1})),)


def test_a_long_way_is_told() -> None:
    builder = Builder()
    for n in range(700):
        builder.add_node(n, 1, 1, [[0]])
    for n in range(699):
        builder.add_edge(Source(n), Target(n + 1))
    proof = PathSummaries(builder).could_result_in(Target(0), 3, Target(699), 3)
    assert proof is not None and len(proof) == 1399


def test_the_time_limit_counts_for_what_comes_before_the_search() -> None:
    with pytest.raises(CutShort, match="the time limit of 0 s was reached while could-result-in was computed"):
        conservative(graph().declaring(), budget=Budget(0))
    verdict = check.progress(graph(times=range(3000)), timeout=0.05)
    assert verdict.unknown and "the time limit of 0.05 s was reached" in verdict.notes[0]


def test_an_error_in_a_node_is_told_with_the_node_and_the_event() -> None:
    with pytest.raises(StepError, match=r"^node 'p', message 0 on i: KeyError: 3$"):
        does(lambda m: {}[3])
