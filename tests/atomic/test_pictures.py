"""Pictures: those of the docs are what the code draws; ``python -m tests.atomic.test_pictures`` draws them again."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pellucid import check
from pellucid.atomic import Atomic, parse, run
from pellucid.atomic.picture import nested_svg, nested_text, spacetime_svg
from tests.atomic.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
BOOKING = (ROOT / "examples" / "atomic" / "booking.atf").read_text(encoding="utf-8")
NAMES = (
    "new t1, t2: Trans. new p: Place. new c, d: Chan[<>]. new m: Chan[Packet[Cap[Chan[<>]] -> ()]]. "
    "new k: Key[Cap[Chan[<>]] -> ()]. "
)
READS = NAMES + "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) 0, 0) | commit} ]"
TWICE = NAMES + (
    "p[ t1{send(in c, <>) | send(in c, <>)} | t2{receive(out c, (x) 0, 0) | receive(out c, (x) 0, 0) | abort} ]"
)
OPENS = NAMES + "p[ t1{send(in m.in k, (y) send(y, <>)) | abort} | t2{open(out m.out k, in d, commit, 0)} ]"
LEMMA = (
    "new t: Trans. new p: Place. new k: Packet[<>]. "
    "p[ t{crypt(in k, <>, (x: Packet[<>]) decrypt(out x, x, (y: <>) commit))} ]"
)

# file, title, network, what is asked, the part, options
PICTURES = [
    ("booking", "booking: the trip gives up, and the flight has read from it", BOOKING, "progress",
     "progress of flight", {}),
    ("printed", "RED RECV as printed", READS, "C1", "C1", {"rules": "printed"}),
    ("context", "RED COMMIT under RED CTX: a dependency goes unchecked", READS, "C1", "C1",
     {"rules": MUTANTS["commit_ignores_dependencies"]}),
    ("set", "RED ABORT with a set: one of two equal messages is lost", TWICE, "C2", "C2",
     {"rules": MUTANTS["abort_restore_as_set"]}),
    ("open", "OPEN that does not count as received", OPENS, "C1", "C1",
     {"rules": MUTANTS["no_log_predicate_for_forward_open"]}),
    ("lemma", "Lemma 1 as printed", LEMMA, "types", "types", {"system": "printed"}),
]  # fmt: skip


def drawn(title: str, text: str, about: str, part: str, options: dict[str, str]) -> str:
    example = check.atomic(text, about=about, **options).parts[part].counterexample  # type: ignore[arg-type]
    assert example is not None
    return example.picture(title)


@pytest.mark.parametrize(("name", "title", "text", "about", "part", "options"), PICTURES, ids=[r[0] for r in PICTURES])
def test_the_pictures_of_the_docs(
    name: str, title: str, text: str, about: str, part: str, options: dict[str, str]
) -> None:
    picture = drawn(title, text, about, part, options)
    ET.fromstring(picture)
    assert (ROOT / "docs" / "images" / f"atomic-{name}.svg").read_text(encoding="utf-8") == picture


def test_a_run_has_its_lanes_arrows_rings_and_what_was_undone() -> None:
    found = run((ROOT / "examples" / "atomic" / "cycle.atf").read_text(), seed=0)
    for seed in range(40):
        found = run((ROOT / "examples" / "atomic" / "cycle.atf").read_text(), seed=seed)
        if found.outcome() == ([], ["a", "b", "c"]):
            break
    picture = spacetime_svg(found, title="a < b")
    root = ET.fromstring(picture)
    classes = [e.get("class") or "" for e in root.iter()]
    assert classes.count("plc-lane") == 4 and "plc-cross" in classes and "plc-gone" in classes
    assert "a &lt; b" in picture and "plc-hop" in classes


def test_a_long_run_shows_its_end() -> None:
    text = "new t: Trans. new p: Place. p[ t{!((x: <>) 0)(<>)} ]"
    found = run(text, unfold=100)
    assert len(found.steps) == 200
    assert "80 steps before are not shown" in spacetime_svg(found)


def test_nested_places_with_logs() -> None:
    machine = Atomic(parse("new t: Trans. new p, q: Place. p[ t{commit}, q[ 0 ] ] | t{0}"))
    assert nested_text(machine) == "p\n  log t{commit}\n  └ q"
    assert "log: t{commit}" in nested_svg(machine, title="<p>")
    assert nested_text(Atomic(parse("0"))) == "0"
    ET.fromstring(nested_svg(Atomic(parse("0"))))


if __name__ == "__main__":
    for name, *rest in PICTURES:
        (ROOT / "docs" / "images" / f"atomic-{name}.svg").write_text(drawn(*rest), encoding="utf-8")  # type: ignore[arg-type]
