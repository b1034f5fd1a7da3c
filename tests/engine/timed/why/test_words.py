"""The answer in words, as data and as a picture; what waits of every kind; promises of a pipeline's own graph."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import pytest

from pellucid import Pipeline, Stream, as_of, check, iterate, join, lookup, merge, pipeline
from pellucid.errors import UsageError
from pellucid.internal.engine.timed.why import flow
from pellucid.internal.engine.timed.why.answer import progress_of
from pellucid.internal.engine.timed.why.flow import SUMMARIES, flow_of, last_of_window
from pellucid.internal.engine.timed.why.waits import _KEPT
from pellucid.internal.engine.timed.why.words import RULES
from pellucid.internal.graph.processors import PROCESSORS
from pellucid.internal.graph.timing import Timing
from pellucid.progress import Source, Target
from pellucid.progress.paths import PathSummaries

MINUTE = timedelta(minutes=1)


class Click(NamedTuple):
    """Somebody clicked."""

    when: datetime
    user: str


def number(w: Stream[Any]) -> Stream[Any]:
    """How many."""
    return w.cumulate(lambda n, v: n + 1, start=0)


@pipeline
def shop(clicks: Stream[Click], prices: Stream[Click]) -> Any:
    """Clicks beside prices, counted by the hour for each user."""
    clicked = clicks.at("when", lateness=5 * MINUTE, id="clicked").key_by(lambda c: c.user, id="by")
    priced = prices.at("when", id="priced").key_by(lambda c: c.user, id="by2")
    pair = join(clicked, priced, within=10 * MINUTE, how="left", id="join")
    return pair.tumbling(60 * MINUTE, number, id="hours")


def at(minute: int) -> datetime:
    """A time on a day in May."""
    return datetime(2024, 5, 1, 11) + minute * MINUTE


def test_in_words() -> None:
    """With what is known of a run in a folder: rows, and when they were read."""
    engine = shop.engine(mode="python")
    engine.push([Click(at(5), "ada"), Click(at(64), "bob")], prices=[Click(at(4), "ada"), Click(at(59), "ada")])
    wall = datetime(2024, 5, 1, 12, 4, tzinfo=UTC).timestamp()
    found = progress_of(
        shop.graph, [engine], rows={"clicks": 2, "prices": 2}, heard={"clicks": wall + 100, "prices": wall},
        silent=["prices"], about={"folder": "state", "words": ["not running", "epoch 1 complete"]},
    )  # fmt: skip
    assert str(found).splitlines() == [
        "shop in state: not running, epoch 1 complete, 2 wait for the clock",
        "sources",
        "  clicks: 2 rows read, last row read 2024-05-01 12:05:40 UTC, greatest event time 2024-05-01 12:04:00, "
        "watermark 2024-05-01 11:59:00, with a lateness of 5 min, active",
        "  prices: 2 rows read, silent since 2024-05-01 12:04:00 UTC, greatest event time 2024-05-01 11:59:00, "
        "watermark 2024-05-01 11:59:00, active",
        "steps",
        "  join (join within 10 min, left): clock of by at 2024-05-01 11:59:00, clock of by2 at 2024-05-01 11:59:00",
        "    1 key, first bob: 2024-05-01 12:04:00",
        "    1 left row has found nobody yet: 2024-05-01 12:04:00",
        "      source prices, silent since 2024-05-01 12:04:00 UTC, could still send an event of 2024-05-01 11:59:00 "
        "(prices → priced → by2 → join)",
        "      it comes once prices has sent an event after 2024-05-01 12:14:00, has ended, or is idle",
        "    1 right row is held for a partner: 2024-05-01 11:59:00",
        "  hours (tumbling 1 h): clock at 2024-05-01 11:59:00",
        "    1 key, first ada: 2024-05-01 11:00:00 to 2024-05-01 12:00:00",
        "    1 window is open: 2024-05-01 11:00:00 to 2024-05-01 12:00:00",
        "      source clicks could still send an event of 2024-05-01 11:59:00, through join "
        "(clicks → clicked → by → join → hours)",
        "      source prices, silent since 2024-05-01 12:04:00 UTC, could still send an event of 2024-05-01 11:59:00, "
        "through join (prices → priced → by2 → join → hours)",
        "      it comes once clicks has sent an event of 2024-05-01 12:05:00 or later and prices one of "
        "2024-05-01 12:00:00 or later; who has ended or is idle is not waited for",
    ]
    document = json.loads(json.dumps(found.document()))
    assert document["format"] == 1 and document["complete"] is False
    hours = next(step for step in document["steps"] if step["step"] == "hours")
    (waits,) = hours["waiting"]
    assert [hold["sources"] for hold in waits["holds"]] == [["clicks"], ["prices"]]
    assert [step["step"] for step in waits["holds"][1]["path"]] == ["priced", "by2", "join", "hours"]
    assert waits["holds"][1]["silent_since"] == "2024-05-01 12:04:00 UTC"
    picture = ET.fromstring(found.picture())
    lanes = [
        e.get("data-source") or e.get("data-step")
        for e in picture.iter()
        if "data-source" in e.attrib or "data-step" in e.attrib
    ]
    assert lanes == ["clicks", "prices", "join", "hours"]


def test_before_anything_came() -> None:
    engine = shop.engine(mode="python")
    found = shop.progress(engine)
    assert found.complete and "nothing waits" in str(found)
    engine.push([Click(at(5), "ada")], prices=[])
    lines = str(shop.progress(engine)).splitlines()
    assert "  prices: no event yet, active" in lines
    assert "      source prices could still send an event of any time (prices → priced → by2 → join)" in lines
    engine.finish()
    found = shop.progress(engine)
    assert found.complete and "  hours (tumbling 1 h): clock at the end of all times" in str(found)
    assert found.document()["steps"][1]["inputs"][0]["clock"] == {"shown": "end", "units": None}
    assert found.picture().startswith("<svg")


def test_in_general() -> None:
    assert str(shop.progress()).splitlines() == [
        "shop: what waits for which clock",
        "join (join within 10 min, left): a pair comes with its second event; a row is held until the clock of the "
        "other side is after the interval",
        "  the clock of by is that of clicked",
        "    clicks → clicked → by → join (lateness 5 min)",
        "  the clock of by2 is that of priced",
        "    prices → priced → by2 → join (lateness 0 s)",
        "hours (tumbling 1 h): a window comes when the clock is at its end",
        "  the clock of join is the least of those of clicked and priced",
        "    clicks → clicked → by → join → hours (lateness 5 min)",
        "    prices → priced → by2 → join → hours (lateness 0 s)",
    ]
    assert shop.progress().document()["run"] is None
    ordinary = pipeline(lambda x: x.map(lambda v: v + 1), x=int)
    assert str(ordinary.progress()) == "pipeline knows no event time: nothing in it waits for a clock"
    assert shop.progress().picture().startswith("<svg") and ordinary.progress().picture().startswith("<svg")


def test_what_cannot_get_there_any_more() -> None:
    """A window of windows that do not fit: the clock is waited for, though no event could come."""

    def odd(x: Stream[int]) -> Any:
        return x.at(lambda v: v, id="at").tumbling(7, number, id="sevens").tumbling(10, number, id="tens")

    p = pipeline(odd, x=int)
    engine = p.engine(mode="python")
    engine.push([1, 8])
    (waits,) = p.progress(engine).waiting("tens")
    assert [hold.reaches for hold in waits.holds] == [False] and waits.first == (0, 10)
    assert (
        "source x is at 8: no event of it could get here in time any more, but the clock waits for it "
        "(x → at → sevens → tens)"
    ) in str(p.progress(engine))
    assert engine.push([10])[0].end == 10  # which is what it waited for


def test_what_waits_on_the_way() -> None:
    """An event would come too late, but a session that is open on the way does not."""

    def visits(x: Stream[int]) -> Any:
        timed = x.at(lambda v: v, id="at").key_by(lambda v: v % 2, id="odd")
        return timed.session(4, number, id="visit").tumbling(12, number, id="dozen")

    p = pipeline(visits, x=int)
    engine = p.engine(mode="python")
    engine.push([0, 7])
    engine.push([10])  # the session of 7 is open until 11, and an event of 10 would be in one until 14
    found = p.progress(engine)
    (waits,) = found.waiting("dozen")
    assert [(hold.reaches, hold.through) for hold in waits.holds] == [(True, "visit")]
    assert "source x holds back what waits at visit, which comes here in time (x → at → odd → visit → dozen)" in str(
        found
    )
    engine.push([12])  # now it is there, and nothing else can come
    assert p.progress(engine).waiting("dozen") == ()


def kinds(p: Pipeline, *columns: list[int]) -> list[tuple[str, bool, int, tuple[int, int], tuple[int, int]]]:
    """What waits, of every step."""
    engine = p.engine(mode="python")
    engine.push(*columns)
    return [(w.what, w.comes, w.count, w.first, w.due) for step in p.progress(engine).steps for w in step.waits]


def test_every_kind_that_waits() -> None:
    def key(s: Any, name: str, **more: Any) -> Any:
        return s.at(lambda v: v, id=name, **more).key_by(lambda v: v * 0)

    corrected = pipeline(lambda x: x.at(lambda v: v).tumbling(10, number, allowed_lateness=20, id="w"), x=int)
    assert kinds(corrected, [3, 14]) == [
        ("window", True, 1, (10, 20), (19, 19)), ("correction", False, 1, (0, 10), (29, 29)),
    ]  # fmt: skip
    early = pipeline(lambda x: x.at(lambda v: v).sliding(10, 5, number, early="event", id="w"), x=int)
    assert kinds(early, [3, 14]) == [("window", True, 2, (5, 15), (14, 19))]
    once = pipeline(lambda x: x.at(lambda v: v).dedup(by=lambda v: v, within=3, id="w"), x=int)
    assert kinds(once, [3, 14, 14]) == [("row", True, 2, (14, 14), (14, 14))]
    asked = pipeline(lambda x, y: as_of(key(x, "a"), key(y, "b"), id="w"), x=int, y=int)
    assert kinds(asked, [3, 9], [1, 5]) == [("row", True, 1, (9, 9), (9, 9)), ("change", False, 1, (5, 5), (5, 5))]
    table = pipeline(
        lambda x, y: lookup(key(x, "a"), key(y, "b", idle=MINUTE), id="w").map(lambda p: p[0]), x=int, y=int
    )
    assert kinds(table, [3, 9], [1, 5])[0] == ("row", True, 1, (9, 9), (9, 9))
    full = pipeline(lambda x, y: join(key(x, "a"), key(y, "b"), within=(-1, 4), how="full", id="w"), x=int, y=int)
    assert kinds(full, [3, 9], [1, 5]) == [
        ("left row without a partner", True, 1, (9, 9), (13, 13)),
        ("left row", False, 1, (3, 3), (7, 7)),
    ]
    assert kinds(full, [3, 4], [1, 9]) == [("right row without a partner", True, 1, (9, 9), (10, 10))]
    told = pipeline(
        lambda x: key(x, "a").task(
            lambda s, v: (s + v, [], [v + 5]), 0, on_time=lambda s, t: (s, [t], []), id="w"
        ),
        x=int,
    )  # fmt: skip
    assert kinds(told, [3, 9]) == [("row", True, 1, (9, 9), (9, 9))]  # of 3 and 8 it has been told
    assert kinds(told, [3, 7]) == [("row", True, 1, (7, 7), (7, 7)), ("time", True, 1, (8, 8), (8, 8))]
    round_ = pipeline(lambda x: iterate(key(x, "a"), lambda v: v.map(lambda n: n // 2), id="w"), x=int)
    assert kinds(round_, [3, 9]) == [("row", True, 1, (9, 9), (9, 9))]


def test_every_timed_kind_has_a_summary() -> None:
    timed = {kind for kind, p in PROCESSORS.items() if p.timed}
    assert timed - {"at"} == set(SUMMARIES)
    assert {kind for kind in timed if PROCESSORS[kind].keeps == "times"} == set(_KEPT) == set(RULES)


def test_the_ends_of_windows() -> None:
    for size, every, origin in ((10, 10, 0), (10, 5, 3), (7, 2, -4)):
        timing = Timing(size=size, every=every, origin=origin)
        for t in range(-30, 30):
            ends = [s + size for s in range(-200, 200) if (s - origin) % every == 0 and s <= t < s + size]
            assert last_of_window(timing, t) == min(ends) - 1
    zone = pipeline(
        lambda x: x.at(lambda v: v, id="at").tumbling(timedelta(days=1), number, tz="Europe/Berlin", id="day")
        .tumbling(timedelta(days=2), number, id="two"), x=Annotated[datetime, UTC],
    )  # fmt: skip
    paths = PathSummaries(flow_of(zone.graph))
    spring = int(datetime(2024, 3, 30, 23, 30, tzinfo=UTC).timestamp() * 1e6)  # the day there has 23 hours
    (path,) = paths.between(Source("at"), Target("two"))
    assert path.summary.results_in(spring) == int(datetime(2024, 3, 31, 22, tzinfo=UTC).timestamp() * 1e6) - 1
    for time in (-(2**63), 2**63 - 1):
        assert path.summary.results_in(time) is not None


def test_promises_of_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check.progress(shop).proved

    def late(x: Stream[int], y: Stream[int]) -> Any:
        pair = join(x.at(lambda v: v, id="a"), y.at(lambda v: v, id="b"), within=(5, 10), how="full", id="pair")
        return pair.tumbling(2, number, late="drop", id="w")

    p = pipeline(late, x=int, y=int)
    assert check.progress(p).proved
    engine = p.engine(mode="python")  # and so it is
    found: list[Any] = []
    for x, y in ((10, 10), (100, 12), (101, 13), (102, 14)):
        found += engine.push([x], y=[y])
    assert not engine.late
    assert sorted([*found, *engine.finish()]) == sorted(p([10, 100, 101, 102], [10, 12, 13, 14]))

    # If a row that found nobody had the last time at which it could have found one, whatever its own:
    monkeypatch.setattr(flow, "SUMMARIES", {**SUMMARIES, "join": lambda node: [0, -node.timing.low]})
    verdict = check.progress(p)
    assert verdict.refuted and [name for name, part in verdict.parts.items() if part.refuted] == ["clock"]
    assert "what b sends at 0 comes to w with the time -5" in verdict.parts["clock"].notes[0]
    inner = pipeline(lambda x, y: late(x, y).map(lambda w: w.value), x=int, y=int)
    assert check.progress(inner, about="acyclic").proved
    with pytest.raises(UsageError, match="of a pipeline the questions are condition 2, acyclic, clock"):
        check.progress(p, about="liveness")
    with pytest.raises(UsageError, match="messages= is for graphs with times"):
        check.progress(p, messages=2)
    with pytest.raises(UsageError, match="knows no event time"):
        check.progress(pipeline(lambda x: x.map(lambda v: v), x=int))


def test_a_join_that_only_pairs_keeps_its_promise() -> None:
    def pairs(x: Stream[int], y: Stream[int]) -> Any:
        pair = join(x.at(lambda v: v), y.at(lambda v: v), within=(5, 10), id="pair")
        return merge(pair, id="same").tumbling(2, number, id="w")

    assert check.progress(pipeline(pairs, x=int, y=int)).proved


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="an engine of this pipeline or a state folder is expected, found int"):
        shop.progress(3)
    other = pipeline(lambda x: x.map(lambda v: v), x=int)
    with pytest.raises(UsageError, match="an engine of this pipeline"):
        shop.progress(other.engine())
    with pytest.raises(UsageError, match="knows no event time, so nothing in an engine of it waits"):
        other.progress(other.engine())
    with pytest.raises(UsageError, match=r"'houres' is no step that waits for event time: it has join, hours; did you"):
        shop.progress().waiting("houres")
