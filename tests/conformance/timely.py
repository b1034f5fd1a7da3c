"""Kinds of cases from timely-dataflow and differential-dataflow: times, frontiers, summaries, the clock."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from pellucid.progress import (
    Antichain,
    Builder,
    ChangeBatch,
    Integers,
    Lexicographic,
    Location,
    MutableAntichain,
    Notificator,
    Order,
    Ordered,
    Product,
)
from pellucid.progress.summaries import summary
from tests.conformance import Differs, Kind, expect

_PARTS: dict[str, Order] = {"int": Integers(), "char": Ordered(str), "str": Ordered(str)}


def order(text: str) -> Order:
    """``int``, ``product(int,int)``, ``lexicographic(int,int)``, ``unsigned 64-bit``, ``u64``; what follows a colon or
    a comma explains it."""
    if (found := re.match(r"(?:(un)?signed |(u)|i)(\d+|size)(?:-bit)?\b", text)) is not None:
        bits = 64 if found[3] == "size" else int(found[3])
        unsigned = found[1] or found[2]
        return Integers(0, 2**bits - 1) if unsigned else Integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if (found := re.match(r"(product|lexicographic)\(([^)]*)\)", text)) is not None:
        parts = [order(part.strip()) for part in found[2].split(",")]
        return (Product if found[1] == "product" else Lexicographic)(*parts)
    if text.split(":")[0].split(",")[0].strip() in _PARTS:
        return _PARTS[text.split(":")[0].split(",")[0].strip()]
    raise Differs(f"the order {text!r} is not known")


def time(value: Any) -> Any:
    """JSON's lists as tuples."""
    return tuple(time(part) for part in value) if isinstance(value, list) else value


def times(values: Any) -> list[Any]:
    return [time(value) for value in values]


def changes(pairs: Any) -> list[tuple[Any, int]]:
    return [(time(at), diff) for at, diff in pairs]


# ---------------------------------------------------------------- frontiers


# what each operation takes, and its name here where that is another
_TAKES = {
    "insert": "time", "insert_ref": "time", "insert_with": "time", "less_equal": "time", "less_than": "time",
    "count_for": "time", "dominates": "antichain", "extend": "many", "update_iter": "many", "filter_through": "many",
    "update": "change", "clear": "", "is_empty": "", "len": "", "as_option": "", "into_option": "", "elements": "",
    "borrow": "", "to_owned": "", "frontier": "", "iter": "", "contents": "", "into_inner": "", "drain": "",
}  # fmt: skip
_OURS = {
    "insert_ref": "insert", "insert_with": "insert", "filter_through": "update_iter", "len": "__len__",
    "into_option": "as_option", "borrow": "elements", "to_owned": "elements", "iter": "into_inner",
    "contents": "into_inner",
}  # fmt: skip


def _operate(known: Any, ops: list[list[Any]], within: Order) -> Any:
    """Operations on an antichain, one that counts, or a batch of changes: each with what it takes and what it gives
    back, if that is said.  What they were made of."""
    for name, *given in ops:
        if name in ("new", "with_capacity", "from_elem", "new_from", "new_bottom"):
            known = _made(type(known), name, given, within)
            continue
        ours = _OURS.get(name, name)
        if name not in _TAKES or not hasattr(known, ours):
            raise Differs(f"the operation {name!r} of {type(known).__name__} is not known")
        takes, rest = _TAKES[name], list(given)
        arguments: list[Any] = []
        if takes == "time":
            arguments = [time(rest.pop(0))]
        elif takes == "antichain":
            arguments = [Antichain(times(rest.pop(0)), within)]
        elif takes == "many":
            many = rest.pop(0)
            arguments = [times(many) if isinstance(known, Antichain) else changes(many)]
        elif takes == "change":
            arguments = [time(rest.pop(0)), rest.pop(0)]
        found = getattr(known, ours)(*arguments)
        if rest:
            expect(name, _plain(found), _plain(rest[0]))
    return known


def _plain(value: Any) -> Any:
    """An antichain as its times; lists, whose order says nothing, in order."""
    value = value.elements() if isinstance(value, Antichain) else value
    return sorted(map(time, value)) if isinstance(value, list) else value


def _made(kind: type, name: str, given: list[Any], within: Order) -> Any:
    if kind is ChangeBatch:
        return ChangeBatch.new_from(time(given[0]), given[1]) if name == "new_from" else ChangeBatch()
    many = [time(given[0])] if name in ("from_elem", "new_bottom") else []
    return kind(many, within)


def antichain_ops(case: dict[str, Any]) -> None:
    within = order(case["order"])
    known = _operate(Antichain(times(case["start"]), within), case["ops"], within)
    if "expect_elements" in case:
        expect("elements", known.elements(), sorted(times(case["expect_elements"])))


def antichain_query(case: dict[str, Any]) -> None:
    within = order(case["order"])
    _ask(Antichain(times(case["start"]), within), case, within)


def _ask(known: Any, case: dict[str, Any], within: Order) -> None:
    """One question, about each of several times; or about none, with its answer."""
    rows = case["expect"] if _TAKES.get(case["query"]) else [[case["expect"]]]
    _operate(known, [[case["query"], *row] for row in rows], within)


def antichain_equality(case: dict[str, Any]) -> None:
    within = order(case["order"])
    left = Antichain(times(case["left"]), within)
    for key, wanted in (("equal_to", True), ("not_equal_to", False)):
        for other in case.get(key, ()):
            expect(f"equal to {other}", left == Antichain(times(other), within), wanted)


def counted_antichain(case: dict[str, Any]) -> None:
    known = _counted(case)
    for batch in case.get("batches", []):
        found = known.update_iter(changes(batch["updates"]))
        if "expect_changes" in batch:
            expect("changes", sorted(found), sorted(changes(batch["expect_changes"])))
        if "expect_frontier" in batch:
            expect("frontier", known.frontier().elements(), sorted(times(batch["expect_frontier"])))
    _operate(known, case.get("ops", []), order(case["order"]))
    if "expect_frontier" in case:
        expect("frontier", known.frontier().elements(), sorted(times(case["expect_frontier"])))


def _counted(case: dict[str, Any]) -> MutableAntichain:
    known = MutableAntichain(order=order(case["order"]))
    known.update_iter(changes(case["start"]))
    return known


def counted_antichain_query(case: dict[str, Any]) -> None:
    _ask(_counted(case), case, order(case["order"]))


_BATCHES = re.compile(r"(\d+) x (\[[^\]]*\]|\([^)]*\))")


def counted_antichain_bound(case: dict[str, Any]) -> None:
    """Batches in words: ``6 x (7,+1), then 1000 x [(9,+1) then (9,-1)], each as its own batch``."""
    known, text, most = _counted(case), case["batches"], case["expect_internal_updates_at_most"]
    if isinstance(text, list):
        batches = [changes(batch) for batch in text]
    else:
        if re.sub(r"\s|,|then|each as its own batch", "", _BATCHES.sub("", text)):
            raise Differs(f"the batches {text!r} are not understood")
        batches = []
        for count, what in _BATCHES.findall(text):
            parts = [[(int(at), int(diff))] for at, diff in re.findall(r"\((-?\d+),\s*([+-]?\d+)\)", what)]
            batches += parts * int(count)
    for batch in batches:
        known.update_iter(batch)
        if len(known) > most:
            raise Differs(f"at most {most} updates are kept inside, {len(known)} were")


def change_batch(case: dict[str, Any]) -> None:
    _operate(ChangeBatch(changes(case.get("start", []))), case["ops"], order("int"))


def change_batch_move(case: dict[str, Any]) -> None:
    first, second = ChangeBatch(changes(case["first"])), ChangeBatch(changes(case["second"]))
    first.drain_into(second)
    for name, batch in (("first", first), ("second", second)):
        if f"expect_{name}_empty" in case:
            expect(f"{name} is empty", batch.is_empty(), case[f"expect_{name}_empty"])
        if f"expect_{name}" in case:
            expect(name, sorted(batch), sorted(changes(case[f"expect_{name}"])))


# ---------------------------------------------------------------- summaries and the clock


def path_summary(case: dict[str, Any]) -> None:
    domain = order(case["domain"])
    for one in case["cases"]:
        found = summary(domain, time(one["summary"])).results_in(time(one["time"]))
        expect(f"{one['summary']} of {one['time']}", found, one["expect"])


def path_summary_compose(case: dict[str, Any]) -> None:
    domain = order(case["domain"])
    one, two = summary(domain, time(case["first"])), summary(domain, time(case["second"]))
    both = one.followed_by(two)
    wanted = case["expect"]
    if "time" in case:  # of the way as a whole, and of its parts one after the other
        at, then = time(case["time"]), one.results_in(time(case["time"]))
        expect("at once", None if both is None else both.results_in(at), wanted)
        return expect("one after the other", None if then is None else two.results_in(then), wanted)
    if (both is None) != (wanted is None) or (both is not None and both != summary(domain, time(wanted))):
        raise Differs(f"{case['first']} followed by {case['second']}: {wanted!r} is expected, {both} came")


def graph(case: dict[str, Any], within: Order) -> Builder:
    out = Builder(within)
    for n, node in enumerate(case["nodes"]):
        ways: list[dict[int, list[Any]]] = [{} for _ in range(node["inputs"])]
        for ports, given in node["summaries"].items():
            a, b = ports.split("->")
            ways[int(a)][int(b)] = times(given)
        out.add_node(n, node["inputs"], node["outputs"], ways)
    for edge in case["edges"]:
        a, b = edge.split("->")
        out.add_edge(location(a), location(b))
    return out


def location(text: str) -> Location:
    found = re.fullmatch(r"(\d+)\.(in|out)(\d+)", text.strip())
    if found is None:
        raise Differs(f"the location {text!r} is not understood")
    return Location(int(found[1]), found[2], int(found[3]))


def reachability(case: dict[str, Any]) -> None:
    builder = graph(case["graph"], order(case.get("order", "int")))
    tracker = builder.build()
    for step in case["steps"]:
        for at, when, diff in step.get("updates", [step["update"]] if "update" in step else []):
            tracker.update(location(at), time(when), diff)
        tracker.propagate_all()
        found = [(str(at), when, diff) for (at, when), diff in tracker.pushed().drain()]
        if "expect_input_changes" in step:
            inputs = [row for row in found if ".in" in row[0]]
            expect("changes at inputs", sorted(inputs), sorted(time(step["expect_input_changes"])))
        if "expect_changes" in step:
            expect("changes", sorted(found), sorted(time(step["expect_changes"])))
        for at, wanted in step.get("expect_frontiers", {}).items():
            expect(f"frontier at {at}", tracker.frontier(location(at)).elements(), sorted(times(wanted)))


def zero_cycle_check(case: dict[str, Any]) -> None:
    found = graph(case["graph"], order(case.get("order", "int"))).is_acyclic()
    expect("acyclic", found, case["expect_acyclic"])


def notifications(case: dict[str, Any]) -> None:
    within = order(case["order"])
    asked = Notificator(within)
    for at in times(case["requested"]):
        asked.notify_at(at)
    for step in case["steps"]:
        frontier = [Antichain(times(step["frontier"]), within)]
        if "expect_first" in step:
            first = [asked.next(frontier) for _ in step["expect_first"]]
            expect("first", [None if one is None else one[0] for one in first], step["expect_first"])
        if "then_request" in step:
            asked.notify_at(time(step["then_request"]))
        found = []
        while (one := asked.next(frontier)) is not None:
            found.append(one)
        expect("delivered", [at for at, _ in found], step["expect"])
        if "expect_counts" in step:
            expect("how often each was asked for", [count for _, count in found], step["expect_counts"])


def scaling(case: dict[str, Any]) -> None:
    """One node whose inputs lead each to its own output: built, and one port moved, at a cost that does not grow."""
    if "input i connected only to output i" not in case["graph"]:
        raise Differs(f"the graph {case['graph']!r} is not understood")
    costs = set()
    for n in case["n"]:
        out = Builder()
        out.add_node(0, n, n, [{i: 0} for i in range(n)])
        tracker = out.build()
        tracker.update(Location(0, "in", n - 1), 3, 1)
        tracker.propagate_all()
        expect(f"n = {n}", tracker.frontier(Location(0, "out", n - 1)).elements(), [3])
        costs.add(tracker.settled)
    if len(costs) > 1:
        raise Differs(f"an update costs {sorted(costs)} where n is {case['n']}")


# ---------------------------------------------------------------- lattices


def lattice(case: dict[str, Any]) -> None:
    found = _lattice(order(case["order"]), case["op"])(time(case["a"]), time(case["b"]))
    expect(case["op"], found, case["expect"])


def _lattice(known: Any, op: str) -> Any:
    op = op.removesuffix("_assign")
    if op not in ("join", "meet"):
        raise Differs(f"the operation {op!r} is not known")
    return getattr(known, op)


def lattice_advance(case: dict[str, Any]) -> None:
    within = order(case["order"])
    frontier, at = Antichain(times(case["frontier"]), within), time(case["time"])
    found = frontier.advance(at)
    expect("advanced", found, case["expect"])
    if isinstance(within, Product) and len(within.parts) == 2:  # what it is for
        for later in product(range(10), repeat=2):
            if frontier.less_equal(later):
                expect(f"at or before {later}", within.less_equal(found, later), within.less_equal(at, later))


def lattice_antichain(case: dict[str, Any]) -> None:
    within = order(case["order"])
    a, b = Antichain(times(case["a"]), within), Antichain(times(case["b"]), within)
    expect(case["op"], _lattice(a, case["op"])(b).elements(), sorted(times(case["expect"])))


KINDS: dict[str, Kind] = {
    f.__name__: f
    for f in (
        antichain_ops, antichain_query, antichain_equality, counted_antichain, counted_antichain_query,
        counted_antichain_bound, change_batch, change_batch_move, path_summary, path_summary_compose, reachability,
        zero_cycle_check, notifications, scaling, lattice, lattice_advance, lattice_antichain,
    )
}  # fmt: skip
