"""Space-time diagrams: their one form, from both kinds of traces, and what can be read from the picture."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from pellucid.errors import DataError, UsageError
from pellucid.failures.model import FFail, FRecover, IBorder, Task, TraceStep, initial
from pellucid.failures.model.explain import CausalOrder, Explanation, explain
from pellucid.failures.model.notation import read, read_run
from pellucid.failures.picture import DrawnRun, fold, from_recorded, from_trace, spacetime_svg
from tests.failures.graphs import random_run, random_trace
from tests.seeds import HUNT, seeds

# ruff: noqa: N803, N806 - the paper's letters


SVG = "{http://www.w3.org/2000/svg}"
CHAIN = "p1: i -> s1 copy\np2: s1 -> s2 sum\np3: s2 -> s3 copy\ni: 1 2 | 3 |"
STEPS = "p1 p2 p1 p1| p2 p2| p3 p3 p3| p1 p2 p2! p1| ^ p1 p1| p2 p2| p3 p3|"


def figure_4() -> tuple[DrawnRun, Explanation]:
    c, Z = read_run(f"{CHAIN}\n{STEPS}")
    found = explain(Z, c)
    assert isinstance(found, Explanation)
    return from_trace(Z, c, found), found


def parsed(run: DrawnRun, **options: Any) -> ET.Element:
    return ET.fromstring(spacetime_svg(run, **options))


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [e for e in root.iter() if name in (e.get("class") or "").split()]


def texts(root: ET.Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}text")]


def titles(root: ET.Element) -> list[str]:
    return [e.text or "" for e in root.iter(f"{SVG}title")]


# ---------------------------------------------------------------- the form


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(3))
def test_columns_respect_the_causal_order(block: int) -> None:
    for seed in seeds(30, block * 30):
        c, Z = random_run(seed, length=40)
        run, order = from_trace(Z, c), CausalOrder(Z)
        for j, before in enumerate(order.edges):
            assert all(run.marks[i].column < run.marks[j].column for i in before)
        places = [(m.lane, m.column) for m in run.marks]
        assert len(set(places)) == len(places)


def test_what_is_kept_is_what_the_explanation_keeps() -> None:
    run, found = figure_4()
    assert [m.at for m in run.marks if m.kept] == list(found.steps)
    assert [m.at for m in run.marks if m.commit] == list(found.commits)
    assert [m.epoch for m in run.marks if m.lane is None] == [1]


def recorded(Z: list[TraceStep], found: Explanation) -> list[dict[str, Any]]:
    """A trace of the model as a runtime records it: rows of each task, no order between tasks but the clocks."""
    rows: list[dict[str, Any]] = []
    index: dict[str, int] = {}
    generation = 0
    for at, z in enumerate(Z):
        recovery = isinstance(z, FRecover)
        task = "coordinator" if isinstance(z, FRecover) else z.p
        row: dict[str, Any] = {
            "task": task,
            "index": index.setdefault(task, 0),
            "consumed": [],
            "produced": [],
            "state": None,
            "time": at,
        }
        index[task] += 1
        generation += recovery
        row["generation"] = generation
        if isinstance(z, FRecover):
            row |= {"rule": "F-RECOVER", "epoch": next(g.epoch for g in found.generations if g.stop == at)}
        elif isinstance(z, FFail):
            row |= {"rule": "F-FAIL", "epoch": 0}
        else:
            row |= {"rule": "I-BORDER" if isinstance(z, IBorder) else "I-EVENT", "epoch": z.epoch}
            numbers = dict(z.N)
            for x in z.X:
                message = {"stream": x.s, "n": numbers[x.s], "border": isinstance(z, IBorder), "digest": hash(x.d)}
                numbers[x.s] += 1
                row["consumed" if type(x).__name__ == "Consume" else "produced"].append(message)
        rows.append(row)
    return rows


def shape_of(run: DrawnRun) -> set[tuple[Any, ...]]:
    return {(m.lane, m.rule, m.column, m.kept, m.commit, m.consumed, m.produced) for m in run.marks}


@pytest.mark.seeded
def test_a_recorded_trace_gives_the_same_form_as_the_trace_of_the_model() -> None:
    compared = 0
    for seed in seeds(120):
        c, Z = random_run(seed, length=50)
        found = explain(Z, c)
        assert isinstance(found, Explanation)
        tasks = {z.p for z in Z if not isinstance(z, FFail | FRecover)}
        if tasks != set(c.Pi):
            continue  # a task that did nothing is on no record, so the record cannot know the common epoch
        rows = recorded(Z, found)
        random.Random(seed).shuffle(rows)
        wanted = from_trace(Z, c, found)
        made = from_recorded(rows)
        assert shape_of(made) == shape_of(wanted)
        assert set(made.lanes) == set(wanted.lanes) and made.borders == wanted.borders
        compared += 1
    assert HUNT or compared > 60


def test_an_arrow_table_and_a_frame_are_rows() -> None:
    import pyarrow as pa

    c, Z = read_run(f"{CHAIN}\n{STEPS}")
    found = explain(Z, c)
    assert isinstance(found, Explanation)
    rows = recorded(Z, found)
    table = pa.Table.from_pylist(rows)
    assert from_recorded(table) == from_recorded(rows) == from_recorded(table.to_pandas())


def row(task: str, index: int, rule: str, epoch: int, generation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "task": task,
        "index": index,
        "rule": rule,
        "epoch": epoch,
        "generation": generation,
        "consumed": [],
        "produced": [],
        **more,
    }


def message(stream: str, n: int, border: bool = False) -> dict[str, Any]:
    return {"stream": stream, "n": n, "border": border, "digest": 0}


def test_what_remains_follows_the_stored_snapshots_and_the_lost_ones() -> None:
    rows = [
        row("a", 0, "SOURCE", 1, produced=[message("m", 0, True)]),
        row("a", 1, "SNAPSHOT", 1, produced=[message("ack:a", 1)]),
        row("a", 2, "SOURCE", 2, produced=[message("m", 1, True)]),
        row("a", 3, "SNAPSHOT", 2, produced=[message("ack:a", 2)]),
        row("b", 0, "I-BORDER", 1, consumed=[message("m", 0, True)]),
        row("b", 1, "SNAPSHOT", 1, produced=[message("ack:b", 1)]),
        row("b", 2, "COMMIT", 1, consumed=[message("ack:a", 1), message("ack:b", 1)]),
        row("b", 3, "I-BORDER", 2, consumed=[message("m", 1, True)]),
    ]
    made = from_recorded(rows)
    assert {(m.lane, m.rule) for m in made.marks if not m.kept} == {
        ("a", "SOURCE"),
        ("a", "SNAPSHOT"),
        ("b", "I-BORDER"),
    }
    assert {m.epoch for m in made.marks if not m.kept} == {2}
    assert [m.border for m in made.marks if m.rule == "SOURCE"] == [True, True]
    lost = [*rows, row("a", 4, "F-LOST", 1), row("b", 4, "F-FAIL", 2), row("coordinator", 0, "F-RECOVER", 0, 1)]
    assert {m.rule for m in from_recorded(lost).marks if m.kept} == {"COMMIT"}
    picture = parsed(from_recorded(lost))
    assert any("a has lost its snapshot of epoch 1" in (e.text or "") for e in picture.iter(f"{SVG}desc"))


def test_a_commit_may_wait_for_what_was_stored_before_a_recovery() -> None:
    rows = [
        row("a", 0, "I-BORDER", 1, produced=[("m", 0, True, 0)]),
        row("a", 1, "SNAPSHOT", 1, produced=[("ack:a", 1, False, 0)]),
        row("b", 0, "F-FAIL", 1),
        row("coordinator", 0, "F-RECOVER", 1, 1),
        row("b", 1, "COMMIT", 1, 1, consumed=[("ack:a", 1, False, 0)]),
    ]
    made = from_recorded(rows)
    commit = made.marks[-1]
    assert commit.consumed == ((0, "ack:a", 1),) and commit.commit
    assert len(by_class(parsed(made), "plc-ack")) == 2  # above and below


def test_columns_and_rules_of_a_recorded_trace_are_checked() -> None:
    with pytest.raises(DataError) as caught:
        from_recorded([{"task": "a"}])
    assert str(caught.value).startswith(
        "recorded trace, row 0: no column 'generation': it needs task, generation, index, rule"
    )
    with pytest.raises(DataError) as caught:
        from_recorded([row("a", 0, "I-EVENT", 1), row("a", 1, "I-DREAM", 1)])
    assert str(caught.value).startswith(
        "recorded trace, row 1: unknown rule 'I-DREAM': there are SOURCE, I-EVENT, I-BORDER,"
    )


def test_a_tampered_recorded_trace_is_drawn_all_the_same() -> None:
    """A message that is received before it is sent, on both sides: there is no causal order, but there is a picture."""
    rows = [
        row("a", 0, "I-EVENT", 1, consumed=[message("n", 0)]),
        row("a", 1, "I-EVENT", 1, produced=[message("m", 0)]),
        row("b", 0, "I-EVENT", 1, consumed=[message("m", 0)]),
        row("b", 1, "I-EVENT", 1, produced=[message("n", 0)]),
    ]
    run = from_recorded(rows, wrong={("a", 0): "it was not sent before"})
    assert not run.explained and len(run.marks) == 4
    assert "step 0: it was not sent before" in texts(parsed(run))


# ---------------------------------------------------------------- folding


def long_run(epochs: int, events: int, seed: int = 7) -> tuple[DrawnRun, list[TraceStep]]:
    copy = lambda v, w: (v, [w])
    c = initial(
        {"b": Task(copy, ("m",), "o"), "a": Task(copy, ("i",), "m")}, {"i": [[1] * events] * epochs}, {"a": 0, "b": 0}
    )
    Z = random_trace(c, random.Random(seed), fail=0.01)
    return from_trace(Z, c, explain(Z, c)), Z


def test_folding_keeps_every_step_and_the_causal_order() -> None:
    run, Z = long_run(6, 30)
    folded = fold(run, 60)
    assert folded.folded and folded.steps == len(Z) == run.steps
    assert max(m.column for m in folded.marks) < 60
    sent = {ref: m.column for m in folded.marks for ref in m.produced}
    assert all(sent[ref] < m.column for m in folded.marks for ref in m.consumed if ref in sent)
    assert [m.rule for m in folded.marks if m.lane is None] == [m.rule for m in run.marks if m.lane is None]
    assert sum(m.count for m in folded.marks if m.kept) == sum(m.kept for m in run.marks)
    assert fold(run, 10_000) is run
    with pytest.raises(UsageError, match="a picture needs at least one column, found most=0"):
        fold(run, 0)


def test_what_is_left_out_is_counted() -> None:
    run, Z = long_run(40, 5, seed=3)
    root = parsed(run, most=30)
    folded = fold(run, 30)
    shown = sum(m.count for m in folded.marks if m.column < 30)
    assert f"not shown: {len(Z) - shown:,} steps after, of {len(Z):,}" in texts(root)
    assert "folded: a mark with a number stands for so many events of one task in one epoch" in texts(root)
    later = parsed(run, most=30, around=len(Z) - 1)
    note = next(t for t in texts(later) if t.startswith("not shown"))
    assert re.fullmatch(r"not shown: [\d,]+ steps before, of [\d,]+", note)
    assert len(spacetime_svg(run, most=30)) < 60_000


# ---------------------------------------------------------------- the picture


def test_the_picture_has_every_step_above_and_what_remains_below() -> None:
    run, found = figure_4()
    root = parsed(run, title="Figure 4")
    drawn = [e.get("data-step") for e in root.iter() if e.get("data-step") is not None]
    lanes = [m for m in run.marks if m.lane is not None]
    assert sorted(drawn) == sorted([str(m.at) for m in lanes] + [str(i) for i in found.steps])
    gone = [e for e in by_class(root, "plc-gone") if e.get("data-step") is not None]
    assert {int(e.get("data-step") or 0) for e in gone} == {9, 10, 12}
    assert len(by_class(root, "plc-cross")) == 1 and len(by_class(root, "plc-back")) == 1
    assert len(by_class(root, "plc-ring")) == 4  # two commits, above and below
    assert len(by_class(root, "plc-strong")) == 2
    assert {"commit 1", "commit 2", "recovery to 1", "explanation", "p1", "p2", "p3", "Figure 4"} <= set(texts(root))
    assert "step 11: F-FAIL p2, discarded" in titles(root)


def test_messages_are_arrows_and_borders_are_dashed() -> None:
    c, Z = read_run("a: i -> m copy\nb: m -> o copy\ni: 5 |\na a| b b|")
    root = parsed(from_trace(Z, c))
    named = [t for t in titles(root) if t.startswith(("message", "border"))]
    assert named.count("message 0 on m") == 1 and named.count("border 1 on m") == 1
    assert len(by_class(root, "plc-border")) == 2  # from the input to a, and from a to b
    assert texts(root).count("5") == 3  # in, between, out


def test_it_stands_alone_and_can_be_read_aloud() -> None:
    run, _ = figure_4()
    text = spacetime_svg(run, title="a <b> & c")
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    named = {e.get("id"): e.text for e in root if e.get("id")}
    assert [named[i] for i in (root.get("aria-labelledby") or "").split()] == [
        "Space-time diagram: a <b> & c",
        "20 steps of p1, p2, p3. step 8: p3 commits epoch 1; step 11: p2 crashes; step 13: recovery to epoch 1; "
        "step 19: p3 commits epoch 2. The explanation has 15 of the steps.",
    ]
    assert "<script" not in text and "href" not in text and "url(" not in text and "@import" not in text
    assert "prefers-color-scheme:dark" in text
    style = next(root.iter(f"{SVG}style")).text or ""
    inner = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", style, flags=re.S)
    inner = re.sub(r"@supports[^{]*\{(.*)\}", r"\1", inner, flags=re.S)
    assert all(rule.strip().startswith(".plc") for rule in re.findall(r"([^{}]+)\{", inner))


@pytest.mark.seeded
def test_everything_is_on_the_page() -> None:
    for seed in seeds(25):
        c, Z = random_run(seed, length=90)
        root = parsed(from_trace(Z, c, explain(Z, c)))
        width, height = float(root.get("width") or 0), float(root.get("height") or 0)
        for group in root.iter(f"{SVG}g"):
            shift = re.match(r"translate\((\S+) (\S+)\)", group.get("transform") or "")
            if shift:
                for e in group.iter(f"{SVG}circle"):
                    x, y = float(e.get("cx") or 0) + float(shift[1]), float(e.get("cy") or 0) + float(shift[2])
                    assert 0 <= x <= width and 0 <= y <= height


def test_a_step_that_cannot_be_explained_is_marked() -> None:
    c, _ = read_run(CHAIN)
    Z = read("p1 p2[s1:0,s2:0]-s1@1=9+s2@1=9", c)
    root = parsed(from_trace(Z, c, explain(Z, c)))
    assert len(by_class(root, "plc-bad")) == 1
    reason = "step 1: p2 consumes message 0 s1 ⟨1, EV(9)⟩, but what was sent is ⟨1, EV(1)⟩"
    assert reason in texts(root)
    assert "explanation" not in texts(root)


def test_an_empty_run_is_an_empty_picture() -> None:
    c, _ = read_run(CHAIN)
    root = parsed(from_trace([], c, explain([], c)))
    assert {"p1", "p2", "p3"} <= set(texts(root))


def test_long_names_and_values_are_shortened() -> None:
    name = "a" * 60
    c = initial({name: Task(lambda v, w: (v, [w]), ("i",), "o")}, {"i": [["x" * 50]]}, {name: 0})
    Z = random_trace(c, random.Random(0), fail=0)
    root = parsed(from_trace(Z, c))
    assert all(len(t) <= 40 for t in texts(root)[:-1])
