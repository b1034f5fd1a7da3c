"""Counterexamples shown: the table, the picture, the document."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest

from pellucid import apply, check, pipeline
from pellucid.check.counterexample import Pushes, StepView, asked_about, sheet_of
from pellucid.internal.draw.labels import cells
from pellucid.internal.model.picture import sheet_svg
from pellucid.internal.model.sheet import event_text, sheet_text

SVG = "{http://www.w3.org/2000/svg}"


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Order(NamedTuple):
    color: Color
    cents: int


thirds = pipeline(lambda x: apply(lambda a, b: a + b, x.decimate(3, id="third"), x, id="sum"), x=int)
positive = pipeline(lambda x: x.filter(lambda v: v > 0), x=int)
one, two = pipeline(lambda x: x.trim(1), x=int), pipeline(lambda y: y.trim(2), y=int)
ratio = pipeline(lambda o: o.map(lambda v: 10 // v.cents, id="ratio"), o=Order)


def counterexample_text(example: Pushes, *, width: int | None = None, show: Any = ()) -> str:
    return sheet_text(sheet_of(example, show=show), width=width)


def counterexample_svg(example: Pushes, *, title: str = "", show: Any = (), steps: bool = True) -> str:
    return sheet_svg(sheet_of(example, show=show, steps=steps), title=title)


def refuted(verdict: Any) -> Pushes:
    assert verdict.refuted
    return verdict.counterexample  # type: ignore[no-any-return]


# Asked when a test wants them: collecting the tests takes no time.
ASKED: dict[str, Callable[[], Any]] = {
    "full": lambda: check.holds(thirds, "!EF full"),
    "grows": lambda: check.buffers(thirds),
    "silent": lambda: check.holds(positive, "G (x -> F out)", ints=range(2)),
    "step": lambda: check.equivalent(one, two),
    "sequence": lambda: check.equivalent(one, two, how="sequence", ints=range(2)),
    "fails": lambda: check.holds(ratio, "!EF failed"),
}
ALL = [*ASKED, "long"]


@cache
def example_of(name: str) -> Pushes:
    if name == "long":
        grows = example_of("grows")
        return dataclasses.replace(grows, steps=grows.steps * 9, loop=20)
    return refuted(ASKED[name]())


TABLES = {
    "full": """\
push         0  1    2       3  4
x            0  0    0       0  0
out          0  -    -       0  -
queue sum.1     [0]  [0, 0]     [0, 0, 0]
                                ^ here""",
    "grows": """\
push         0  1    2       3  4
x            0  0    0       0  0
out          0  -    -       0  -
queue sum.1     [0]  [0, 0]     [0, 0, 0]
                     └──────────┘ from here on it repeats
no bound exists: every round of the last 3 push(es) makes a queue longer (sum.1 by 2)""",
    "silent": """\
push  0  1
x     0  -
out   -  -
         └ from here on it repeats""",
    "step": """\
push     0  1
x (2:y)  0  0
1:out    -  0
2:out    -  -
            ^ they differ here""",
    "sequence": """\
push     0  1  2
x (2:y)  0  0  1
1:out    -  0  1
2:out    -  -  1
            ^  ^ these should be equal""",
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table(name: str) -> None:
    assert counterexample_text(example_of(name), width=100) == TABLES[name]


def test_a_step_that_fails_says_why() -> None:
    table, mark, *words = counterexample_text(example_of("fails"), width=80).rpartition("      ^\n")
    assert table == "push  0\no     (color=RED, cents=0)\nout   fails\n" and mark
    assert " ".join("".join(words).split()).startswith("step 'ratio' (map 10 // v.cents, test_report.py:")
    assert "failed at push 0 on the event" in " ".join("".join(words).split())


def test_a_wide_table_goes_on_below() -> None:
    text = counterexample_text(example_of("long"), width=80)
    assert max(map(cells, text.splitlines())) <= 80
    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("push")]
    assert [n for head in heads for n in head] == [str(i) for i in range(45)] and len(heads) == 5
    marks = [line.strip() for line in text.splitlines() if "─" in line or "└" in line]
    assert marks[0].startswith("└") and marks[-1].endswith("┘") and len(marks) == 4
    assert text.count("from here on it repeats") == 1


@pytest.mark.parametrize("width", [1, 24, 30, 40, 79])
@pytest.mark.parametrize("name", ALL)
def test_every_width_will_do(name: str, width: int) -> None:
    text = counterexample_text(example_of(name), width=width)
    widest = max(map(cells, text.splitlines()))
    longest_column = 13 + 2 + 32
    assert widest <= max(width, 24, longest_column)


def test_the_terminal_decides_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(cells, str(example_of("long")).splitlines())) <= 60


def test_streams_that_were_asked_about_are_shown() -> None:
    example = refuted(check.holds(thirds, "AG !third"))
    assert asked_about(example, "AG !third") == {"third"}
    assert "third  0" in counterexample_text(example, show={"third"})
    assert "third" not in counterexample_text(example)


def test_nothing_was_pushed() -> None:
    assert counterexample_text(Pushes((one.graph,), ())) == "before any push"
    assert counterexample_text(Pushes((one.graph,), (), why="x is 0")) == "before any push: x is 0"


def test_several_events_in_one_push() -> None:
    step = StepView({"x": 0}, {"x": [0], "out": [1, 2]}, {})
    assert counterexample_text(Pushes((one.graph,), (step,))).splitlines()[2] == "out   1, 2"


class Flight(NamedTuple):
    carrier: str
    tailnum: str | None
    time_hour: datetime.datetime
    dep_delay: int | None


WIDE = """\
push               0   1     2
flights.dep_delay  61  None  61
1:out.dep_delay    -   -     61
2:out              -   -     -
                             ^ they differ here
everywhere in flights and 1:out: carrier='', tailnum=None, time_hour=1970-01-01 00:00"""


def test_a_record_that_is_too_long_has_a_row_for_each_field() -> None:
    """Fields that hold nothing anywhere are listed below, so nothing is cut off."""

    def late(f: Any) -> Any:
        return f.filter(f.cumulate(lambda n, e: n + 1 if (e.dep_delay or 0) > 60 else 0, start=0) >= 2)

    right = pipeline(lambda flights: late(flights.filter(lambda e: e.dep_delay is not None)), flights=Flight)
    found = check.equivalent(right, pipeline(lambda flights: late(flights), flights=Flight)).counterexample
    assert found is not None
    assert sheet_text(found.sheet(), width=100) == WIDE


def test_events_as_text() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    assert event_text(Order(Color.BLUE, 3)) == "(color=BLUE, cents=3)"
    assert event_text("a\nb") == r"'a\nb'" and event_text(Odd()) == "a Odd"


@pytest.mark.parametrize("name", ALL)
def test_the_picture_is_whole_and_in_words(name: str) -> None:
    root = ET.fromstring(counterexample_svg(example_of(name), title="a < b & c"))
    assert root.get("role") == "img"
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert (
        title is not None
        and words is not None
        and root.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
    )
    assert title.text == "Counterexample to a < b & c"
    text = words.text or ""
    assert text.startswith("push 0: ") and text.count("push ") >= len(example_of(name).steps)
    rows = {e.get("data-row") for e in root.iter(f"{SVG}g") if e.get("data-row")}
    assert rows == {row.name for row in sheet_of(example_of(name), steps=True).rows}


@pytest.mark.parametrize("name", ALL)
def test_the_picture_needs_nothing_from_elsewhere_and_has_room(name: str) -> None:
    picture = counterexample_svg(example_of(name), title=name)
    assert "<script" not in picture and "url(" not in picture and picture.count("http") == 1
    assert "prefers-color-scheme:dark" in picture
    root = ET.fromstring(picture)
    width = float(root.get("width") or 0)
    assert width <= 1180 + 32 or name == "fails"
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x") or 0) + float(rect.get("width") or 0) <= width


def test_the_picture_marks_what_is_wrong() -> None:
    def count(example: Pushes, mark: str) -> int:
        root = ET.fromstring(counterexample_svg(example))
        return sum(mark in (e.get("class") or "").split() for e in root.iter())

    assert count(example_of("full"), "plc-bad") == 1 and count(example_of("full"), "plc-loop") == 0
    assert count(example_of("grows"), "plc-bad") == 0 and count(example_of("grows"), "plc-loop") == 1
    assert count(example_of("long"), "plc-loop") == 2  # it goes on in the second row
    assert (
        count(example_of("step"), "plc-wrong") == 2
        and count(example_of("sequence"), "plc-wrong") == 2
        and count(example_of("sequence"), "plc-bad") == 2
    )
    assert count(example_of("full"), "plc-held") == 0 + 1 + 2 + 2 + 3


def test_a_long_queue_is_cut_in_the_picture() -> None:
    step = StepView({"x": 0}, {"x": [0], "out": []}, {"sum.1": list(range(100))})
    assert ">+92<" in counterexample_svg(Pushes((thirds.graph,), (step,)))


def test_a_counterexample_shows_itself() -> None:
    assert str(example_of("step")) == TABLES["step"] and example_of("step")._repr_html_() == counterexample_svg(
        example_of("step")
    )


@pytest.mark.parametrize("name", ALL)
def test_the_document(name: str) -> None:
    document = json.loads(example_of(name).to_json())
    assert document["pellucid"] == 1
    found = document["counterexample"]
    assert list(found) == ["pipelines", "loop", "why", "steps"]
    assert len(found["steps"]) == len(example_of(name).steps) and found["loop"] == example_of(name).loop


def test_events_in_the_document() -> None:
    document = json.loads(example_of("fails").to_json(indent=1))
    assert document["counterexample"]["steps"] == [
        {
            "push": 0,
            "in": {"o": {"color": "RED", "cents": 0}},
            "streams": {"o": [{"color": "RED", "cents": 0}]},
            "queues": {},
        }
    ]
    odd = StepView({"x": float("nan")}, {"x": [float("-inf")]}, {"q": [b"z"]})
    step = json.loads(Pushes((one.graph,), (odd,)).to_json())["counterexample"]["steps"][0]
    assert (step["in"], step["streams"], step["queues"]) == ({"x": "nan"}, {"x": ["-inf"]}, {"q": ["b'z'"]})
