"""The runner of cases: each kind passes what is so, and fails what is not."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import main, run

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"

FILE = Path(__file__).with_name("facts.json")
FACTS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]

ONE = {"nodes": [{"inputs": 1, "outputs": 1, "summaries": {"0->0": [2]}}], "edges": ["0.out0->0.in0"]}

# a case of each kind that is so, where in it to put what is not, and that
CASES: list[tuple[dict[str, Any], list[Any], Any]] = [
    ({"kind": "antichain_ops", "order": "product(int,int)", "start": [[1, 2]],
      "ops": [["insert", [2, 1], True], ["extend", [[3, 3]], False], ["dominates", [[2, 2]], True], ["len", 2]],
      "expect_elements": [[1, 2], [2, 1]]}, ["ops", 2, 2], False),
    ({"kind": "antichain_query", "order": "int", "start": [4], "query": "less_than",
      "expect": [[5, True], [4, False]]}, ["expect", 1, 1], True),
    ({"kind": "antichain_equality", "order": "product(char,int): by parts", "left": [["a", 2], ["b", 1]],
      "equal_to": [[["b", 1], ["a", 2]]], "not_equal_to": [[["a", 2]]]}, ["not_equal_to", 0], [["b", 1], ["a", 2]]),
    ({"kind": "counted_antichain", "order": "int", "start": [[3, 2]],
      "batches": [{"updates": [[3, -2], [4, 5]], "expect_changes": [[3, -1], [4, 1]]}], "expect_frontier": [4]},
     ["batches", 0, "expect_changes", 1, 1], 5),
    ({"kind": "counted_antichain_query", "order": "int", "start": [[3, 2]], "query": "less_equal",
      "expect": [[3, True]]}, ["start", 0, 1], -2),
    ({"kind": "counted_antichain_bound", "order": "int", "start": [],
      "batches": "2 x (7,+1), then 50 x [(9,+1) then (8,+1)], each as its own batch",
      "expect_internal_updates_at_most": 4}, ["expect_internal_updates_at_most"], 2),
    ({"kind": "change_batch", "ops": [["update", 3, 1], ["update", 3, 1], ["len", 1], ["drain", [[3, 2]]]]},
     ["ops", 2, 1], 2),
    ({"kind": "change_batch_move", "first": [[3, 1]], "second": [[3, -1]], "expect_first_empty": True,
      "expect_second_empty": True}, ["second", 0, 0], 4),
    ({"kind": "path_summary", "domain": "unsigned 8-bit, summary n means +n",
      "cases": [{"summary": 5, "time": 3, "expect": 8}, {"summary": 5, "time": 251, "expect": None}]},
     ["cases", 1, "expect"], 256),
    ({"kind": "path_summary_compose", "domain": "unsigned 8-bit", "first": 200, "second": 100, "expect": None},
     ["expect"], 300),
    ({"kind": "reachability", "graph": ONE, "steps": [
        {"update": ["0.out0", 5, 1], "expect_input_changes": [["0.in0", 5, 1]], "expect_frontiers": {"0.out0": [5]}},
        {"update": ["0.out0", 5, -1], "expect_changes": [["0.in0", 5, -1], ["0.out0", 5, -1]]}]},
     ["steps", 0, "expect_input_changes", 0, 1], 7),
    ({"kind": "zero_cycle_check", "graph": ONE, "expect_acyclic": True},
     ["graph", "nodes", 0, "summaries", "0->0", 0], 0),
    ({"kind": "notifications", "order": "int", "requested": [4, 2, 2], "steps": [
        {"frontier": [3], "expect": [2]}, {"frontier": [], "expect_first": [4], "then_request": 9, "expect": [9]}]},
     ["steps", 0, "frontier", 0], 2),
    ({"kind": "scaling", "graph": "one node, input i connected only to output i", "n": [1, 300]},
     ["graph"], "every input connected to every output"),
    ({"kind": "lattice", "order": "product(int,int)", "op": "meet", "a": [1, 5], "b": [2, 4], "expect": [1, 4]},
     ["op"], "join"),
    ({"kind": "lattice_advance", "order": "product(int,int)", "time": [1, 1], "frontier": [[2, 0]], "expect": [2, 1]},
     ["frontier"], []),
    ({"kind": "lattice_antichain", "order": "int", "op": "join", "a": [3], "b": [5], "expect": [5]}, ["expect"], [3]),
    ({"id": "op.reclock", "kind": "operator", "data": "value i at time i, i = 0..4", "clock_ticks": [1, 3],
      "expect": [[1, [0, 1]], [3, [2, 3]]]}, ["clock_ticks", 1], 2),
    ({"id": "op.accumulate_sum", "kind": "operator", "data": "1..3 all at time 7", "expect": [[7, [6]]]},
     ["expect", 0, 0], 0),
    ({"id": "op.aggregate_sum_mod3", "kind": "operator", "data": "(x mod 3, x), x = 0..3, time 0",
      "expect_set": [[0, 3], [1, 1], [2, 2]]}, ["expect_set", 0, 1], 0),
    ({"id": "op.state_machine_running_sum", "kind": "operator",
      "data": "(x mod 2, x), x = 0..3 in order, time 0; emit (key, running sum)",
      "expect_set": [[0, 0], [1, 1], [0, 2], [1, 4]]}, ["data"], "something else"),
    ({"kind": "incremental_count", "epochs": [[[["a", 0], 2]], [], [[["a", 1], -2]]],
      "expect": [[0, [[["a", 2], 1]]], [2, [[["a", 2], -1]]]]}, ["expect", 1, 0], 1),
    ({"kind": "collection_op", "op": "join", "a": [[1, "x"], [2, "y"]], "b": [[1, "z"], [1, "w"]],
      "expect": [[1, ["x", "w"]], [1, ["x", "z"]]]}, ["op"], "antijoin"),
    ({"kind": "probe", "after_close": "after closing the input and stepping, done is true", "rounds":
      "r = 2..4: before advancing the input to r+1 the probe is not done, less_equal(r) is true"},
     ["rounds"], "r = 2..4: before advancing the input to r+1 less_than(r) is true"),
    ({"kind": "scope_progress", "graph": "input -> enter scope -> leave -> probe, no operators inside, 2 workers",
      "rounds": "r = 0..2: after advancing the input to r+1, the probe must reach r+1 (no hang)"},
     ["graph"], "input -> enter scope -> probe, 2 workers"),
    ({"kind": "misuse_must_fail", "action": "use a capability that was dropped", "expect": "error"},
     ["action"], "something that is right"),
    ({"kind": "misuse_must_fail", "action": "ask for a capability for an output that is not connected to the input",
      "expect": "error"}, ["expect"], "works"),
    ({"kind": "misuse_must_fail", "action": "advance an input to an earlier time", "expect": "error"},
     ["action"], "advance an input to a later time"),
    ({"kind": "counted_antichain_query", "order": "int", "start": [[3, 2]], "query": "count_for", "expect": [[3, 2]]},
     ["expect", 0, 1], 1),
    ({"kind": "antichain_query", "order": "int", "start": [3], "query": "dominates", "expect": [[[4], True]]},
     ["start"], []),
    ({"kind": "notification_loop", "workers": [1, 3],
      "expect": "each activation delivers at most one time; the run ends",
      "graph": "one node with a feedback edge of summary +1, initial requests at times 0 and 1; each notification at t "
               "requests t+1 while t+1 < 6"}, ["expect"], "all times at once"),
    ({"kind": "target_parallelism", "parallelism": 4, "target_rate": 30, "true_processing_rate": 40, "catch_up_s": 10,
      "target_utilization": 0.5, "max_parallelism": 64, "lag": 100, "restart_s": 5, "expect": 16},
     ["target_utilization"], 1.0),
    ({"kind": "target_parallelism", "parallelism": 4, "target_rate": 30, "true_processing_rate": 40, "catch_up_s": 0,
      "target_utilization": 0, "max_parallelism": 64, "expect": 64}, ["weather"], "fine"),
    ({"kind": "round_parallelism", "parallelism": 3, "max_parallelism": 12, "factor": 1.5, "lower": 1, "upper": 5,
      "expect": 5}, ["upper"], 6),
    ({"kind": "round_parallelism", "parallelism": 3, "max_parallelism": 12, "factor": 1.5, "lower": 6, "upper": 5,
      "expect": "error"}, ["lower"], 5),
    ({"kind": "target_rates", "catch_up_s": 4, "source_samples": [
        {"t_s": 0, "lag": 10, "records_in": 0, "records_out": 0, "load": 0.5},
        {"t_s": 2, "lag": 8, "records_in": 20, "records_out": 10, "load": 0.7}],
      "sink_samples": [{"t_s": 0, "records_in": 0, "load": 0.1}, {"t_s": 2, "records_in": 10, "load": 0.3}],
      "expect": {"source": {"load": 0.6, "target_rate": 9, "catch_up_rate": 2}, "sink": {"target_rate": 4.5}}},
     ["expect", "sink", "target_rate"], 5),
    ({"kind": "atf", "text": "new t: Trans. new p: Place. p[ t{commit | abort} ]", "budget": 0, "results": {
        "corrected": {"final": [[[], ["t"]], [["t"], []]], "reachable": [[[], []], [[], ["t"]], [["t"], []]],
                      "can_stick": [], "violations": {}}},
      "mutants": {"abort_of_committed": {"A1": ["COMMIT t", "ABORT t"], "C1": ["COMMIT t", "ABORT t"]}}},
     ["mutants", "abort_of_committed", "A1"], ["ABORT t", "COMMIT t"]),
    ({"kind": "fixed_window_assignment", "size_s": 6.0, "slide_s": 2.5, "event_s": -0.5, "expect_window_ids": [-2, -1]},
     ["slide_s"], 2.0),
    ({"kind": "fixed_window_assignment", "size_s": 4, "slide_s": 4, "origin_s": 1, "event_s": 5,
      "expect_window_ids": [1]}, ["colour"], "red"),
    ({"kind": "session_assignment", "gap_s": 3, "events_s": [4, 1, -2], "expect_ids_of_last_event": [0],
      "initial_sessions": [{"id": 0, "first_event_s": 7, "last_event_s": 20, "merged_ids": []}],
      "expect_sessions": [{"id": 0, "first_event_s": -2, "last_event_s": 20, "merged_ids": []}]},
     ["events_s"], [4, 1, -3]),
    ({"kind": "session_late", "gap_s": 2, "expect_ids": [-1]}, ["expect_ids"], [0]),
    ({"kind": "session_merge_pass", "gap_s": 5, "expect_merges_from_into": [[1, 0]],
      "input_sessions": [{"id": 0, "first_event_s": 0, "last_event_s": 4}, {"id": 1, "first_event_s": 9,
                                                                           "last_event_s": 9}],
      "expect_sessions": [{"id": 0, "first_event_s": 0, "last_event_s": 9, "merged_ids": [1]}]}, ["gap_s"], 4),
    ({"kind": "event_clock_watermark", "wait_s": 2, "steps": [["batch"], ["event", 7], ["event", 3],
                                                              ["expect_watermark", 5]]}, ["steps", 3, 1], 1),
    ({"kind": "event_clock_watermark", "wait_s": 2, "steps": [["event", 1], ["eof"], ["expect_watermark", "MAX"]]},
     ["steps", 1], ["sing"]),
    ({"kind": "windowed_flow", "clock": "event_time", "wait_s": 1, "fold": "collect_list",
      "windower": {"type": "sliding", "size_s": 4, "slide_s": 2, "origin_s": 0},
      "events": [[1, "b"], [0, "a"], [9, "c"], [2, "d"]], "expect_late": ["d"],
      "expect": [[-1, ["a", "b"]], [0, ["a", "b"]], [3, ["c"]], [4, ["c"]]]}, ["expect", 1, 1], ["b", "a"]),
    ({"kind": "windowed_flow_scale", "clock": "event_time", "windower": {"type": "tumbling", "size_s": 7},
      "events": "one event per second, times 0..20", "expect_window_ids": "0..2 in order, each once",
      "expect_window_count": 3}, ["events"], "one event per second, times 0..21"),
    ({"kind": "session_window_join", "clock": "event_time", "wait_s": "INFINITE", "gap_s": 3, "insert_mode": "last",
      "left": [[0, 1], [9, 4]], "right": [[2, 3], [1, 2]], "emit_mode": "final", "expect": [[1, 3], [4, None]]},
     ["insert_mode"], "first"),
    ({"kind": "unwindowed_join", "left": [1], "right": [2, 3], "insert_mode": "last", "emit_mode": "running",
      "expect": [[1, None], [1, 2], [1, 3]]}, ["emit_mode"], "final"),
    ({"kind": "join_state", "sides": 2, "adds": [[1, 5], [1, 6]], "expect": [[None, 5], [None, 6]]}, ["sides"], 3),
    ({"kind": "fixed_assign", "size": 4, "offset": 1, "t": 0, "expect": [[-3, 1]]}, ["offset"], 0),
    ({"kind": "sliding_assign", "size": 2.5, "period": 2, "offset": 0, "t": 2.25, "expect": [[0, 2.5], [2, 4.5]]},
     ["t"], 2.5),
    ({"kind": "session_merge", "gap": 4, "events": [9, 1, 4], "expect": [[1, 8], [9, 13]]}, ["gap"], 6),
    ({"kind": "group", "window": {"type": "session", "gap": 4}, "events": [9, 1, 4],
      "expect": [[[1, 8], [1, 4]], [[9, 13], [9]]]}, ["window", "type"], "global"),
    ({"kind": "trigger_transcript", "window": {"type": "fixed", "size": 4}, "trigger": "default", "steps": [
        ["input", [1, 6, 2]], ["watermark", 4], ["expect", [{"w": [0, 3], "v": [1, 2], "ts": 3}]],
        ["input", [3, 7]], ["expect", []], ["watermark", 9], ["expect", [{"w": [4, 7], "v": [6, 7]}]]]},
     ["trigger"], "after a while"),
    ({"kind": "trigger_transcript", "id": "corrections", "window": {"type": "fixed", "size": 4}, "allowed_lateness": 5,
      "trigger": "after watermark, late every 1", "accumulation": "accumulating", "steps": [
        ["input", [1, 6]], ["watermark", 8], ["expect", [{"w": [0, 3], "v": [1]}, {"w": [4, 7], "v": [6], "index": 0}]],
        ["input", [2, 7]], ["expect", [{"w": [0, 3], "v": [1, 2], "late": True, "index": 1},
                                       {"w": [4, 7], "v": [6, 7], "late": True}]],
        ["watermark", 9], ["input", [3]], ["expect", []]]},
     ["allowed_lateness"], 6),
    ({"kind": "session_window_join", "id": "running", "clock": "event_time", "wait_s": "INFINITE", "gap_s": 3,
      "left": [[0, 1], [9, 4]], "right": [[1, 2]], "insert_mode": "last", "emit_mode": "running",
      "expect": [[1, None], [4, None], [1, 2]]}, ["expect", 2], [4, 2]),
    ({"kind": "windowed_count", "mode": "append", "query": {"window_s": 5, "slide_s": 5, "delay_s": 1}, "steps": [
        ["add", [3, 4, 5]], ["new", []], ["add", [6]], ["new", [[0, 2]]], ["watermark", 5], ["restart"],
        ["add", [1, 9]], ["dropped", 1]]}, ["steps", 7, 1], 0),
    ({"kind": "windowed_count_once", "query": {"window_s": 5, "delay_s": 0, "agg": "count"}, "runs": [[[3], []]]},
     ["runs", 0, 1], [[0, 1]]),
    ({"kind": "windowed_count_available_now", "query": {"window_s": 5, "delay_s": 0, "agg": "count"},
      "before": [3, 4], "runs": [[[7], [[0, 2]]], [[8], []]]}, ["runs", 1, 1], [[5, 1]]),
    ({"kind": "raw_key_count", "delay_s": 1, "steps": [["add", [3, 3]], ["all", []], ["add", [5]], ["all", [[3, 2]]]]},
     ["steps", 3, 1], [[3, 1]]),
    ({"kind": "two_stream_watermark", "policy": "min", "delays_s": [1, 2], "steps": [
        [[5], [], 0], [[], [9], 4], ["restart", None, 4], [[9], [8], 7]]}, ["steps", 3, 2], 8),
    ({"kind": "batch", "expect": "all 12 rows, none dropped"}, ["expect"], "most rows"),
    ({"kind": "reject", "values": ["-3 minutes", "2 days -1 week"], "expect": "error"},
     ["values", 1], "1 week -2 days"),
    ({"kind": "reject", "query": "two withWatermark calls on one stream", "expect": "error: twice"},
     ["query"], "one withWatermark call"),
    ({"kind": "chain", "query": "count per 2 s window (delay 0), then per 4 s window: (start, windows, total)",
      "steps": [["add_range", 0, 4], ["new", [[0, 2, 4]]], ["dropped_per_operator_last_first", [0, 0]]]},
     ["steps", 1, 1], [[0, 2, 5]]),
    ({"kind": "chain", "query": "count per 1 s window (delay 0), then per 2 s window, then per 4 s: "
      "(start, windows, total)", "steps": [["add_range", 0, 4], ["new", [[0, 2, 4]]]]}, ["query"], "count it all"),
    ({"kind": "dedup", "delay_s": 0, "key": "value", "steps": [["add", []], ["new", []]]}, ["steps", 1, 1], [1]),
    ({"kind": "session", "gap_s": 2, "delay_s": 0, "steps": [
        ["add", [["a", 1], ["b", 2], ["a", 3]]], ["new", []], ["add", [["b", 9]]],
        ["new", [["a", 1, 5, 2], ["b", 2, 4, 1]]]]}, ["gap_s"], 1),
]  # fmt: skip

# cases whose rule is not ours: each with what the reason says, and with what it would be if it were another fault
OTHERS: list[tuple[dict[str, Any], str, list[Any], Any]] = [
    ({"kind": "fixed_window_assignment", "size_s": 2, "slide_s": 5, "event_s": 1, "expect_window_ids": [0]},
     "in no window", ["colour"], "red"),
    ({"kind": "session_merge", "gap": 4, "events": [5, 1], "expect": [[1, 5], [5, 9]]}, "one gap apart",
     ["expect", 1], [5, 8]),
    ({"kind": "group", "window": {"type": "session", "gap": 4}, "events": [5, 1],
      "expect": [[[1, 5], [1]], [[5, 9], [5]]]}, "one gap apart", ["events"], [6, 1]),
    ({"kind": "event_clock_watermark", "wait_s": 2, "steps": [["event", 7], ["advance_wall", 3],
                                                              ["expect_watermark", 8]]}, "on the wall",
     ["steps", 2, 1], 9),
    ({"kind": "windowed_flow", "clock": "processing_time", "windower": {"type": "session", "gap_s": 1}, "events": [],
      "fold": "sum", "expect": []}, "what the event says", ["clock"], "of the sun"),
    ({"kind": "windowed_flow", "clock": "event_time", "windower": {"type": "tumbling", "size_s": 10}, "fold": "sum",
      "events": [[5, 1], [3, 2], [12, 4]], "expect": [[0, 1], [1, 4]]}, "while its window is open",
     ["expect", 0, 1], 2),
    ({"kind": "trigger_transcript", "window": {"type": "fixed", "size": 4}, "trigger": "default", "timestamp": "latest",
      "steps": [["input", [1, 2]], ["watermark", 4], ["expect", [{"w": [0, 3], "v": [1, 2], "ts": 2}]]]},
     "time of an answer", ["steps", 2, 1, 0, "v"], [1]),
    ({"kind": "trigger_transcript", "window": {"type": "fixed", "size": 4}, "trigger": "after watermark, early every 2",
      "accumulation": "discarding", "steps": [
        ["input", [1, 2]], ["expect", [{"w": [0, 3], "v": [1, 2], "early": True}]], ["input", [3]], ["watermark", 4],
        ["expect", [{"w": [0, 3], "v": [3], "early": False}]]]},
     "so far", ["accumulation"], "accumulating"),
    ({"kind": "trigger_transcript", "window": {"type": "session", "gap": 4}, "trigger": "default", "steps": [],
      "allowed_lateness": 5}, "not corrected", ["trigger"], "after a while"),
    ({"kind": "windowed_count", "mode": "complete", "query": {"window_s": 5, "delay_s": 0}, "steps": [
        ["add", [1, 6]], ["all", [[0, 1], [5, 1]]], ["add", [2]], ["all", [[0, 2], [5, 1]]]]}, "comes out once",
     ["steps", 2, 1], [7]),
    ({"kind": "windowed_count", "mode": "append", "query": {"window_s": 5, "delay_s": 0}, "steps": [
        ["add", [1, 6]], ["new_if_no_data_batches_on", [[0, 1]]], ["new_if_no_data_batches_off", []]]},
     "comes out with it", ["steps", 1, 1], []),
    ({"kind": "windowed_count_once", "query": {"window_s": 5, "delay_s": 0}, "runs": [[[1, 6], []], [[7], [[0, 1]]]]},
     "comes out with it", ["runs", 1, 1], []),
    ({"kind": "raw_key_count", "delay_s": 2, "steps": [["add", [3]], ["add", [5]], ["all", [[3, 1]]]]},
     "exactly at", ["steps", 1, 1], [4]),
    ({"kind": "two_stream_watermark", "policy": "min", "delays_s": [0, 0], "steps": [
        [[5], [3], 3], ["restart", None, 3], [[], [6], 3]]}, "over a restart", ["steps", 0, 2], 4),
    ({"kind": "two_stream_watermark", "policy": "max", "delays_s": [0, 0], "steps": [[[5], [3], 5]]}, "the least",
     ["steps", 0, 2], 4),
    ({"kind": "chain", "query": "count per 2 s window (delay 0), then per 4 s window: (start, windows, total)",
      "steps": [["add", [1, 8]], ["add", [0, 1]], ["dropped_per_operator_last_first", [0, 1]]]}, "every late row",
     ["steps", 2, 1], [1, 0]),
    ({"kind": "dedup", "delay_s": 5, "key": "value", "steps": [["add", [1, 2, 1]], ["new", [1, 2]]]},
     "no earlier one", ["steps", 1, 1], [1, 1, 2]),
    ({"kind": "dedup", "delay_s": 5, "key": "value", "steps": [["add", [["a", 9], ["a", 7], ["b", 9]]],
                                                               ["new", [["a", 9], ["b", 9]]], ["state_rows", 2]]},
     "the first by time", ["steps", 2, 1], 3),
    ({"kind": "session", "gap_s": 10, "delay_s": 0, "steps": [["add", [["a", 20]]], ["add", [["a", 15]]],
                                                              ["dropped", 0]]}, "inside an open session",
     ["steps", 2, 1], 7),
]  # fmt: skip


@pytest.mark.parametrize(("case", "where", "wrong"), CASES, ids=[case.get("id", case["kind"]) for case, _, _ in CASES])
def test_what_is_so_passes_and_what_is_not_fails(case: dict[str, Any], where: list[Any], wrong: Any) -> None:
    assert run({"id": "own", **case}) == (case.get("id", "own"), "passed", "")
    other = copy.deepcopy(case)
    at = other
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = wrong
    result = run({"id": "own", **other})
    assert result.status == "failed" and result.why


@pytest.mark.parametrize(
    ("case", "why", "where", "wrong"), OTHERS, ids=[f"{case['kind']}: {why}" for case, why, _, _ in OTHERS]
)
def test_another_rule_is_named_and_hides_nothing(case: dict[str, Any], why: str, where: list[Any], wrong: Any) -> None:
    result = run({"id": "own", **case})
    assert result.status == "other rule" and why in result.why, result
    other = copy.deepcopy(case)
    at = other
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = wrong
    assert run({"id": "own", **other}).status == "failed"


def test_every_kind_has_a_case() -> None:
    from tests.conformance import kinds

    assert {case["kind"] for case in [*FACTS, *(case for case, _, _ in CASES)]} == set(kinds())


OTHER_RULE = 12  # of the facts


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FILE)]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.endswith(f"\n{len(FACTS) - OTHER_RULE} passed, 0 failed, {OTHER_RULE} other rule\n")


def spoilt(value: Any) -> tuple[Any, bool]:
    """The same with one number, truth value or word in it changed; whether there was one."""
    if isinstance(value, bool):
        return not value, True
    if isinstance(value, (int, float)):
        return value + 977, True
    if isinstance(value, str):
        return "not " + value, True
    rows = list(value.items()) if isinstance(value, dict) else list(enumerate(value or []))
    for at, part in reversed(rows):
        found, done = spoilt(part)
        if done:
            return {**value, at: found} if isinstance(value, dict) else [*value[:at], found, *value[at + 1 :]], True
    return ([977] if value == [] else value), value == []


TOLD = ("new", "all", "dropped", "expect", "expect_watermark", "watermark", "state_rows",
        "dropped_per_operator_last_first")  # fmt: skip


def what_is_expected(case: dict[str, Any]) -> dict[str, Any] | None:
    """A case with something else in what it expects; None where that is in its words."""
    for key in [key for key in case if key.startswith("expect") or key == "equal_to"]:
        return {**case, key: spoilt(case[key])[0]}
    steps = list(case.get("steps", case.get("ops", [])))
    for n, step in reversed(list(enumerate(steps))):
        if isinstance(step, dict):
            steps[n] = what_is_expected(step)
            return {**case, "steps": steps}
        if "ops" in case or not isinstance(step[0], str) or step[0] in TOLD:
            found, done = spoilt(step[1:])
            if done:
                steps[n] = [step[0], *found]
                return {**case, "steps" if "steps" in case else "ops": steps}
    return None


@pytest.mark.parametrize("case", [c for c in FACTS if "error" not in c], ids=lambda case: case["id"])
def test_a_fact_that_is_spoilt_does_not_pass(case: dict[str, Any]) -> None:
    """A runner that did not look at what a case expects would let it pass."""
    other = what_is_expected(case)
    assert other is not None
    result = run(other)
    assert result.status == "failed" or (result.status, run(case).status) == ("other rule", "other rule"), result


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.json"
    known = {"id": "a", "kind": "lattice", "order": "int", "op": "join", "a": 1, "b": 2, "expect": 2}
    file.write_text(
        json.dumps(
            {
                "cases": [
                    known,
                    {"id": "b", "kind": "weather", "rain": 1},
                    {**known, "id": "c", "order": "moon"},
                    {"id": "d", "kind": "lattice", "order": "int", "op": "join"},
                ]
            }
        )
    )
    assert main([str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "failed: b: the kind 'weather' is not known: nothing here says what is done with its rain",
        "failed: c: the order 'moon' is not known",
        "failed: d: the case does not say 'a', which its kind needs",
        "1 passed, 3 failed, 0 other rule",
    ]
    file.write_text("[]")
    assert main([str(file)]) == 2 and "no file of cases" in capsys.readouterr().err
    assert main([]) == 2


@pytest.mark.parametrize("name", ["timely", "flink_autoscaler", "atf", "beam", "bytewax", "spark_watermarks"])
def test_the_cases_of_other_systems(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = SHARED / f"{name}.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not here: its cases were not run")
    assert main([str(file)]) == 0, capsys.readouterr().out
