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
from pellucid.progress.packed.tracker import Packed
from pellucid.progress.summaries import summary
from tests.conformance import Differs, Kind, expect

_PARTS: dict[str, Order] = {"int": Integers(), "char": Ordered(str), "str": Ordered(str)}


def order(text: str) -> Order:
    """``int``, ``product(int,int)``, ``lexicographic(int,int)``, ``unsigned 64-bit``; what follows a colon or a comma
    explains it."""
    if (found := re.match(r"(un)?signed (\d+)-bit", text)) is not None:
        bits = int(found[2])
        return Integers(0, 2**bits - 1) if found[1] else Integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
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


def antichain_ops(case: dict[str, Any]) -> None:
    within = order(case["order"])
    known = Antichain(times(case["start"]), within)
    for name, *given in case["ops"]:
        if name in ("insert", "less_equal", "less_than"):
            expect(name, getattr(known, name)(time(given[0])), given[1])
        elif name == "extend":
            expect(name, known.extend(times(given[0])), given[1])
        elif name == "dominates":
            expect(name, known.dominates(Antichain(times(given[0]), within)), given[1])
        elif name in ("is_empty", "len", "clear", "as_option", "into_option"):
            found = len(known) if name == "len" else getattr(known, name)()
            if given:
                expect(name, found, given[0])
        elif name == "elements":
            expect(name, known.elements(), sorted(times(given[0])))
        else:
            raise Differs(f"the operation {name!r} is not known")
    if "expect_elements" in case:
        expect("elements", known.elements(), sorted(times(case["expect_elements"])))


def antichain_query(case: dict[str, Any]) -> None:
    known = Antichain(times(case["start"]), order(case["order"]))
    for at, wanted in case["expect"]:
        if case["query"] == "dominates":
            expect(f"dominates({at})", known.dominates(Antichain(times(at), known.order)), wanted)
        else:
            expect(f"{case['query']}({at})", _ask(known, case["query"], time(at)), wanted)


def _ask(known: Any, name: str, at: Any) -> Any:
    if name not in ("less_equal", "less_than") and not (name == "count_for" and isinstance(known, MutableAntichain)):
        raise Differs(f"the question {name!r} is not known")
    return getattr(known, name)(at)


def antichain_equality(case: dict[str, Any]) -> None:
    within = order(case["order"])
    left = Antichain(times(case["left"]), within)
    for key, wanted in (("equal_to", True), ("not_equal_to", False)):
        for other in case.get(key, ()):
            expect(f"equal to {other}", left == Antichain(times(other), within), wanted)


def counted_antichain(case: dict[str, Any]) -> None:
    known = _counted(case)
    for batch in case["batches"]:
        found = known.update_iter(changes(batch["updates"]))
        if "expect_changes" in batch:
            expect("changes", sorted(found), sorted(changes(batch["expect_changes"])))
        if "expect_frontier" in batch:
            expect("frontier", known.frontier().elements(), sorted(times(batch["expect_frontier"])))
    if "expect_frontier" in case:
        expect("frontier", known.frontier().elements(), sorted(times(case["expect_frontier"])))


def _counted(case: dict[str, Any]) -> MutableAntichain:
    known = MutableAntichain(order=order(case["order"]))
    known.update_iter(changes(case["start"]))
    return known


def counted_antichain_query(case: dict[str, Any]) -> None:
    known = _counted(case)
    for at, wanted in case["expect"]:
        expect(f"{case['query']}({at})", _ask(known, case["query"], time(at)), wanted)


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
    batch = ChangeBatch()
    for name, *given in case["ops"]:
        if name == "update":
            batch.update(time(given[0]), given[1])
        elif name == "extend":
            batch.extend(changes(given[0]))
        elif name in ("contents", "into_inner", "iter"):
            expect(name, sorted(batch), sorted(changes(given[0])))
        elif name == "drain":
            expect(name, sorted(batch.drain()), sorted(changes(given[0])))
        elif name == "len":
            expect(name, len(batch), given[0])
        elif name == "is_empty":
            expect(name, batch.is_empty(), given[0])
        elif name == "clear":
            batch.clear()
        elif name == "new_from":
            batch = ChangeBatch.new_from(time(given[0]), given[1])
        else:
            raise Differs(f"the operation {name!r} is not known")


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
    """With every clock that there is."""
    builder = graph(case["graph"], order(case.get("order", "int")))
    for mode in ("auto", "plain", "literal"):
        tracker = builder.build(mode)
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
            found.append(one[0])
        expect("delivered", found, step["expect"])


def scaling(case: dict[str, Any]) -> None:
    """One node whose inputs lead each to its own output: built, and one port moved, at a cost that does not grow."""
    if "input i connected only to output i" not in case["graph"]:
        raise Differs(f"the graph {case['graph']!r} is not understood")
    costs = set()
    for n in case["n"]:
        out = Builder()
        out.add_node(0, n, n, [{i: 0} for i in range(n)])
        tracker = out.build("compiled")
        assert isinstance(tracker, Packed)
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
