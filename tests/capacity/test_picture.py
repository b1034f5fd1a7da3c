"""Pictures of a run: what is drawn is what happened."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import pytest

from pellucid.capacity import Bolt, Spout, Topology, figure_1, grow, replay
from pellucid.capacity.picture import ticks, timeline, timeline_svg, timeline_text

NAMES = Topology({"<S>": Spout(gap="0.5")}, {"B & Co": Bolt(time=1, hears="<S>", workers=9)})


def test_what_happened() -> None:
    t = figure_1(gap="0.8", workers={"B1": 1, "B2": 3, "B3": 3})
    run = replay(t, grow(t, "B3", 5).steps)
    line = timeline(run, {"B3": 5})
    assert line.end == run.times[-1] == line.over
    assert {b: line.longest(b) for b in t.bolts} == {b: run.longest(b, "any") for b in t.bolts}
    assert sum(map(len, line.emits.values())) == run.emits
    for spans in line.lanes.values():
        assert all(a <= b <= c <= d for (a, b), (c, d) in pairwise(spans))
    text = timeline_text(line, width=90).splitlines()
    assert text[0].startswith("time") and text[-1].endswith("B3 5 ^") and len(text) == 2 + 2 + 3 + 7
    assert max(map(len, text)) <= 90
    assert timeline(run, {"B3": 6}).over is None


def test_an_svg_is_xml_whatever_the_names() -> None:
    line = timeline(replay(NAMES, []), {"B & Co": 3}, title="a < b")
    root = ET.fromstring(timeline_svg(line))
    assert root.find("{http://www.w3.org/2000/svg}title").text == "a < b"  # type: ignore[union-attr]
    assert "… and 3 more workers" in timeline_text(line, width=60)


@pytest.mark.parametrize("end", [Fraction(0), Fraction(1, 3), Fraction(7), Fraction(12345)])
def test_ticks_are_round_and_few(end: Fraction) -> None:
    found = ticks(end, 8)
    assert found[0] == 0 and found[-1] <= end and len(found) <= 8
