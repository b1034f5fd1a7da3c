"""The audit says yes to right runs and no to wrong ones, with the right reason."""

from __future__ import annotations

import copy
import os
import random
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import DataError, UsageError
from pellucid.failures.audit import audit, rules
from pellucid.failures.audit import rules as crashes
from pellucid.failures.audit import rules as kept
from pellucid.failures.audit import rules as messages
from pellucid.failures.audit.findings import CHECKS, KINDS, Violation
from pellucid.failures.audit.record import columns, read_trace, trace_files, trace_table, unfinished
from pellucid.failures.model import BD, Configuration, Consume, FFail, FRecover, IBorder, IEvent, TraceStep
from pellucid.failures.model.explain import Explanation, explain
from pellucid.internal.engine.epochs.recording import RecordedMessage, Recorder, schema, write_trace
from tests.failures.graphs import random_run
from tests.failures.simulated import TAMPERINGS, simulated
from tests.seeds import HUNT, seeds

SEEDS = st.integers(0, 10**9)


@settings(max_examples=50)
@given(SEEDS, st.integers(0, 4))
def test_right_runs_hold(seed: int, crashes: int) -> None:
    rows = simulated(seed, crashes=crashes)
    found = audit(trace_table(rows))
    assert found.holds, str(found)
    work = [r for r in rows if r["rule"] in ("SOURCE", "I-EVENT", "I-BORDER")]
    assert found.explained is not None
    assert sum(found.explained.kept) + sum(found.explained.discarded) == len(work)
    assert found.explained.committed == 3 and found.explained.epochs == 3


@settings(max_examples=30)
@given(SEEDS)
def test_every_prefix_of_a_run_holds(seed: int) -> None:
    """A run may be killed at any time: what is on record until then is right, too."""
    rows = sorted(simulated(seed), key=lambda row: row["time"])
    part = rows[: random.Random(seed).randrange(len(rows) + 1)]
    found = audit(trace_table(part), tasks={row["task"] for row in rows})
    assert found.holds, str(found)


@pytest.mark.seeded
@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampered_traces_are_refused_with_the_right_reason(name: str) -> None:
    tamper, reasons = TAMPERINGS[name]
    tried = 0
    for seed in seeds(30):
        rng = random.Random(seed)
        rows = tamper(copy.deepcopy(simulated(seed, crashes=3)), rng)
        if rows is None:
            continue
        tried += 1
        found = audit(trace_table(rows), limit=50)
        kinds = {v.kind for v in found.violations}
        assert not found.holds and kinds & reasons, f"seed {seed}: {found}"
    assert HUNT or tried >= 6


@pytest.mark.seeded
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [("unreplayable", {"source-differs"}), ("clock", {"task-differs"}), ("commit-first", {"commit-before-own"})],
)
def test_faulty_systems_are_refused(fault: str, kinds: set[str]) -> None:
    """A source that cannot be replayed, a task with a clock, a commit before the snapshot: found wherever they show."""
    seen = 0
    for seed in seeds(60):
        found = audit(trace_table(simulated(seed, crashes=4, faults=frozenset({fault}))))
        named = {v.kind for v in found.violations}
        assert named == set() or kinds <= named, f"seed {seed}: {found}"
        seen += bool(named)
    assert HUNT or seen > 20


@pytest.mark.seeded
def test_only_the_task_with_the_clock_is_blamed() -> None:
    """What comes after it takes other messages, so it may do something else."""
    for seed in seeds(40):
        found = audit(trace_table(simulated(seed, crashes=4, faults=frozenset({"clock"}))), limit=100)
        assert {v.task for v in found.violations} <= {"task0"}


@pytest.mark.seeded
@pytest.mark.parametrize("name", ["right", "commit-first", *TAMPERINGS])
def test_where_generations_go_on_the_kept_steps_are_right(name: str) -> None:
    """The short way to the explanation says yes only where the long one finds nothing."""
    short = 0
    for seed in seeds(12):
        rows: Any = simulated(seed, crashes=3, faults=frozenset({name} - {"right", *TAMPERINGS}))
        rows = TAMPERINGS[name][0](copy.deepcopy(rows), random.Random(seed)) if name in TAMPERINGS else rows
        if rows is None:
            continue
        found = rules.Findings()
        c = columns(trace_table(rows))
        targets = crashes.recoveries(c, found)
        f = rules.frame(rules.well_formed(c, found, set(targets)), targets)
        for rule in (rules.streams, messages.fifo, messages.delivery, rules.alignment, crashes.snapshots):
            rule(f, found)
        mask, again = kept.kept_steps(f), rules.Findings(kept=True)
        kept.asked_again(f, mask, again)
        if kept.goes_on(f, mask, found):
            short += 1
            assert not again.counts, f"seed {seed}: {again.first}"
    assert short == 12 or name != "right"


def test_figure_3_a_an_orphan() -> None:
    """p3's snapshot has the message m as received, p2's has not sent it."""
    rows = _figure(["I-BORDER", "I-EVENT"], ["I-EVENT", "I-BORDER"])
    kinds = {v.kind for v in audit(rows).violations}
    assert "orphan" in kinds and "in-flight" not in kinds


def test_figure_3_b_a_message_in_flight() -> None:
    """p2's snapshot has sent m, p3's has not received it: consistent, but m is lost after a recovery."""
    rows = _figure(["I-EVENT", "I-BORDER"], ["I-BORDER", "I-EVENT"])
    kinds = {v.kind for v in audit(rows).violations}
    assert "in-flight" in kinds and "orphan" not in kinds


def test_figure_3_c_complete() -> None:
    assert audit(_figure(["I-EVENT", "I-BORDER"], ["I-EVENT", "I-BORDER"])).holds


def _figure(second: list[str], third: list[str]) -> Any:
    """p2 sends an event and a border, p3 takes them, each in this order; messages keep their numbers."""
    event, border = ("m", 0, False, 5), ("m", 1, True, 0)
    rows: list[dict[str, Any]] = []
    for task, order, side in (("p2", second, "produced"), ("p3", third, "consumed")):
        for index, rule in enumerate(order):
            own = rule if task == "p3" or rule == "I-BORDER" else "SOURCE"
            rows.append(
                {
                    "task": task,
                    "index": index,
                    "rule": own,
                    "epoch": 1,
                    side: [event if rule == "I-EVENT" else border],
                    "state": 1 if rule == "I-BORDER" else None,
                }
            )
    return trace_table(rows)


def test_snapshots_that_were_given_up_are_no_common_epoch() -> None:
    """With a full disk a task may have the snapshot of epoch 2 and not that of epoch 1: then the other's epoch 1 is of
    no use."""
    a = [
        {"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, True, 0)]},
        {"task": "a", "index": 1, "rule": "SOURCE", "epoch": 2, "produced": [("s", 1, True, 0)]},
        {"task": "a", "index": 2, "rule": "SNAPSHOT", "epoch": 2},
        {"task": "a", "index": 3, "rule": "F-FAIL", "epoch": 0},
    ]
    b = [
        {"task": "b", "index": 0, "rule": "I-BORDER", "epoch": 1, "consumed": [("s", 0, True, 0)], "state": 1},
        {"task": "b", "index": 1, "rule": "SNAPSHOT", "epoch": 1},
    ]
    recover = {"task": "coordinator", "index": 0, "rule": "F-RECOVER", "generation": 1}
    assert audit(trace_table([*a, *b, {**recover, "epoch": 0}])).holds
    wrong = audit(trace_table([*a, *b, {**recover, "epoch": 2}]))
    assert [str(v) for v in wrong.violations] == [
        "coordinator, step 0: the recovery goes to epoch 2, but b has only come to the border of epoch 1"
    ]


def test_a_damaged_snapshot_excuses_a_lower_epoch_and_nothing_else_does() -> None:
    rows = [
        {"task": "a", "index": 0, "rule": "SOURCE", "epoch": 1, "produced": [("s", 0, True, 0)], "state": 1},
        {"task": "a", "index": 1, "rule": "SNAPSHOT", "epoch": 1},
        {"task": "a", "index": 2, "rule": "F-FAIL", "epoch": 0},
        {"task": "coordinator", "index": 0, "rule": "F-RECOVER", "generation": 1, "epoch": 0},
    ]
    assert "recovery-low" in {v.kind for v in audit(trace_table(rows)).violations}
    lost = {"task": "a", "index": 3, "rule": "F-LOST", "generation": 1, "epoch": 1}
    assert audit(trace_table([*rows, lost])).holds


def test_the_answer_reads_well() -> None:
    rows = TAMPERINGS["a message altered"][0](simulated(4), random.Random(4))
    assert rows is not None
    found = audit(trace_table(rows))
    text = str(found)
    assert "no   messages: what was consumed had been produced, and is the same message (1 time not)" in text
    assert "The run broke the promise." in text
    document = found.document()
    assert document["holds"] is False and document["checks"]["messages"] == 1
    assert document["violations"][0]["why"].startswith("message ")
    assert str(audit(trace_table(simulated(4)))).endswith("The run kept the promise.")


def test_every_kind_has_words_and_a_check() -> None:
    for kind, (check, _) in KINDS.items():
        assert check in CHECKS
        said = str(Violation(kind, "t", 1, 2, "s", 3, 4, 5, "other"))
        assert said.startswith("t, step 2: ") and "{" not in said


# The paper's own explanation as the oracle: a trace of the literal model, recorded as the runtime would.


def recorded_rows(c: Configuration, Z: list[TraceStep]) -> list[dict[str, Any]]:  # noqa: N803 - the paper's letter
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    generation, epoch = 0, 0

    def add(task: str, rule: str, of: int, **more: Any) -> None:
        counts[task] = counts.get(task, -1) + 1
        rows.append({"task": task, "generation": generation, "index": counts[task], "rule": rule, "epoch": of, **more})

    used = {s for task in c.Pi.values() for s in task.inputs}

    def sources() -> None:
        """The input streams, from the epoch gone back to: M_0 is what a source has logged."""
        for m in sorted(c.D, key=lambda m: (m.s, m.n)):
            if m.s in used and m.e > epoch:
                border = m.d is BD
                add(
                    f"source.{m.s}",
                    "I-BORDER" if border else "SOURCE",
                    m.e,
                    produced=[(m.s, m.n, border, 0 if border else _digest(m.d))],
                    state=m.e if border else None,
                )

    sources()
    archive = dict.fromkeys(c.Pi, 0)
    for z in Z:
        if isinstance(z, FFail):
            add(z.p, "F-FAIL", 0)
        elif isinstance(z, FRecover):
            epoch = min(archive.values())
            archive = dict.fromkeys(archive, epoch)
            generation += 1
            add("coordinator", "F-RECOVER", epoch)
            sources()
        else:
            numbers, sides = dict(z.N), {"consumed": [], "produced": []}  # type: ignore[var-annotated]
            for x in z.X:
                n = numbers.get(x.s, 0)
                numbers[x.s] = n + 1
                border = x.d is BD
                sides["consumed" if isinstance(x, Consume) else "produced"].append(
                    (x.s, n, border, 0 if border else _digest(x.d))
                )
            of = z.X[0].e
            if isinstance(z, IBorder):
                archive[z.p] = of
            add(
                z.p,
                "I-BORDER" if isinstance(z, IBorder) else "I-EVENT",
                of,
                state=of if isinstance(z, IBorder) else None,
                **sides,
            )
    return rows


def _digest(d: Any) -> int:
    return 1 + int(d.w)


@settings(max_examples=50)
@given(SEEDS)
def test_it_agrees_with_the_explanation_of_the_model(seed: int) -> None:
    c, Z = random_run(seed)  # noqa: N806
    why = explain(Z, c)
    assert isinstance(why, Explanation)
    rows = recorded_rows(c, Z)
    found = audit(
        trace_table(rows), tasks=[*c.Pi, *(f"source.{s}" for t in c.Pi.values() for s in t.inputs if s.startswith("i"))]
    )
    wrong = [v for v in found.violations if v.check != "replay"]  # a merge of the model takes its inputs in any order
    assert not wrong, "\n".join(map(str, wrong))
    # Sources have rows of their own; in the last generation nothing is discarded yet, while the proof cuts what is
    # unfinished.
    assert found.explained is not None
    cuts = list(found.explained.recovered)
    for number, generation in enumerate(why.generations[:-1]):
        own = [r for r in rows if r["task"].startswith("source.") and r["generation"] == number]
        kept_sources = sum(all(r["epoch"] <= e for e in cuts[number:]) for r in own)
        assert found.explained.kept[number] - kept_sources == len(generation.kept)
        work = [i for i in generation.discarded if not isinstance(Z[i], FFail)]
        assert found.explained.discarded[number] - (len(own) - kept_sources) == len(work)
        assert cuts[number] == generation.epoch


@settings(max_examples=40)
@given(SEEDS)
def test_a_step_that_is_missing_is_missed_by_both(seed: int) -> None:
    c, Z = random_run(seed)  # noqa: N806
    rng = random.Random(seed)
    places = [i for i, z in enumerate(Z) if not isinstance(z, FFail | FRecover)]
    if not places:
        return
    at = rng.choice(places)
    less = [z for i, z in enumerate(Z) if i != at]
    tasks = [*c.Pi, *(f"source.{s}" for t in c.Pi.values() for s in t.inputs if s.startswith("i"))]
    if isinstance(explain(less, c), Explanation):
        found = audit(trace_table(recorded_rows(c, less)), tasks=tasks)
        assert not [v for v in found.violations if v.check != "replay"]
        return
    # It is missed where its task goes on with one of its streams: a number is left out there.  Else only what it sent
    # is missing, and perhaps nobody took it.
    gone = Z[at]
    assert isinstance(gone, IEvent | IBorder)
    following = takewhile(lambda z: not isinstance(z, FRecover) and z != FFail(gone.p), less[at:])
    later = [z for z in following if isinstance(z, IEvent | IBorder) and z.p == gone.p]
    if {x.s for x in gone.X} & {x.s for z in later for x in z.X}:
        assert not audit(trace_table(recorded_rows(c, less)), tasks=tasks).holds


# Recorded traces: read from files and state folders, with their columns checked.


def test_a_trace_comes_back_from_parquet_as_it_was(tmp_path: Path) -> None:
    trace = trace_table(simulated(1))
    pq.write_table(trace, tmp_path / "trace.parquet")
    assert read_trace(tmp_path).to_pylist() == trace.to_pylist()
    assert audit(tmp_path).holds


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = simulated(2)
    mixed = random.Random(0).sample(rows, len(rows))
    one, other = columns(trace_table(rows)), columns(trace_table(mixed))
    assert one.index.tolist() == other.index.tolist() and one.consumed.n.tolist() == other.consumed.n.tolist()
    assert audit(trace_table(mixed)).holds


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    trace = trace_table(simulated(3))
    half = len(trace) // 2
    for at, part in enumerate((trace.slice(0, half), trace.slice(half))):
        pq.write_table(part, tmp_path / f"{at}.parquet")
    assert audit(tmp_path).steps == len(trace) and audit(tmp_path).holds


def test_a_run_that_was_killed_is_read_from_its_steps(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "source.x", 0)
    recorder.step("SOURCE", 1, produced=[RecordedMessage("s", 0, False, 17)])
    assert unfinished(tmp_path)
    made = write_trace(tmp_path)
    later = made.stat().st_mtime + 10
    os.utime(made, (later, later))
    assert not unfinished(tmp_path)
    assert trace_files(tmp_path) == [tmp_path / "trace" / "trace.parquet"]
    recorder.step("SOURCE", 1, produced=[RecordedMessage("s", 1, False, 18)])
    recorder.close()
    os.utime(tmp_path / "trace" / "000000.source.x.steps", (later + 10, later + 10))
    assert len(read_trace(tmp_path)) == 2


def test_an_empty_trace_holds() -> None:
    assert audit(schema().empty_table()).holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["epoch"]), "no column 'epoch': a trace has task, generation, index"),
        (lambda t: t.set_column(4, "epoch", pa.array(["x"] * len(t))), "column 'epoch' is string, expected int64"),
        (lambda t: t.set_column(5, "consumed", pa.array([[1]] * len(t))), "column 'consumed' is list<"),
        (
            lambda t: t.set_column(4, "epoch", pa.array([None, *range(len(t) - 1)], pa.int64())),
            "row 0: column 'epoch' is empty",
        ),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, change: object, message: str) -> None:
    pq.write_table(change(trace_table(simulated(1))), tmp_path / "t.parquet")  # type: ignore[operator]
    with pytest.raises(DataError) as caught:
        audit(tmp_path)
    assert message in str(caught.value) and "t.parquet" in str(caught.value)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        read_trace(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="run with record=True"):
        read_trace(tmp_path)
    (tmp_path / "x.parquet").write_text("not Parquet")
    with pytest.raises(DataError, match=r"x\.parquet: cannot be read as Parquet"):
        read_trace(tmp_path)


def test_a_message_without_a_number_is_refused() -> None:
    rows = [
        {
            "task": "a",
            "index": 0,
            "rule": "SOURCE",
            "epoch": 1,
            "produced": [{"stream": "s", "n": None, "border": False, "digest": 1}],
        }
    ]
    with pytest.raises(DataError, match="step 0: a message without 'n'"):
        audit(trace_table(rows))
