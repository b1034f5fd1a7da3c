"""Verdicts shown: the line, the page, the notebook, the documents.  Unknown never looks like a pass."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from pellucid import check, pipeline
from pellucid.internal.model.verdict import (
    Outcome,
    Verdict,
    evidence,
    headline,
    junit,
    outcomes_document,
    seconds_text,
    summary,
    verdict_html,
)

late = pipeline(lambda x: x.trim(1), x=int)
PROVED = Verdict("proved", "AG EF out", "explicit", 0.003, details={"states": 7})
UNKNOWN = Verdict("unknown", "G F out", "explicit", 2.5, notes=("the limit of 9 states was reached",))
REFUTED = check.holds(late, "G (x -> out)")


def test_headlines() -> None:
    assert headline(PROVED) == "proved   AG EF out  (explicit, 7 states, 3 ms)"
    assert headline(PROVED, "live") == "proved   live: AG EF out  (explicit, 7 states, 3 ms)"
    assert headline(UNKNOWN) == "unknown  G F out  (explicit, 2.5 s)"
    assert evidence(Verdict("proved", "p", "simplification", details={"states": 0})) == "simplification, < 1 ms"
    assert evidence(Verdict("proved", "p", "explicit", 1, details={"states": 1})) == "explicit, 1 state, 1.0 s"
    assert evidence(Verdict("unknown", "p", "none", 0.01)) == "10 ms"
    assert [seconds_text(s) for s in (0, 0.9994, 1, 99.94, 100)] == ["< 1 ms", "999 ms", "1.0 s", "99.9 s", "100 s"]


def test_a_refuted_verdict_shows_the_input() -> None:
    first, *rest = str(REFUTED).splitlines()
    assert first.startswith("refuted  G (x -> out)  (")
    assert rest == ["  push  0", "  x     0", "  out   -", "        ^ here"]


def test_a_note_is_not_said_twice() -> None:
    verdict = check.buffers(pipeline(lambda x: x.decimate(3) + x, x=int))
    assert str(verdict).count("no bound exists") == 1


def test_what_was_found_is_said() -> None:
    verdict = check.buffers(pipeline(lambda x: x.trim(1) - x, x=int))
    queue = next(iter(verdict.details["bounds"]))[:-2]
    assert str(verdict).splitlines()[1:] == [f"  bounds: {queue}.0 0, {queue}.1 1"]


def test_unknown_never_looks_like_a_pass() -> None:
    assert not UNKNOWN
    assert str(UNKNOWN).splitlines() == [
        "unknown  G F out  (explicit, 2.5 s)",
        "  not decided: this is no proof",
        "  the limit of 9 states was reached",
    ]
    page = UNKNOWN._repr_html_()
    assert "? unknown" in page and "not decided: this is no proof" in page and "proved" not in page and "✓" not in page
    suite = ET.fromstring(junit([Outcome("p", verdict=UNKNOWN)])).find("testsuite")
    assert suite is not None and suite.get("skipped") == "1"
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "unknown: not decided: this is no proof; the limit of 9 states was reached"


def test_a_strange_status_is_shown_as_unknown() -> None:
    assert "? lost" in verdict_html(Verdict("lost", "p")) and not Verdict("lost", "p")


def test_the_notebook() -> None:
    page = REFUTED._repr_html_()
    assert "✗ refuted" in page and "<svg" in page and "<code>G (x -&gt; out)</code>" in page
    assert ET.fromstring(page).tag == "div"
    assert "✓ proved" in PROVED._repr_html_() and "<svg" not in PROVED._repr_html_()


def test_the_document() -> None:
    assert json.loads(PROVED.to_json()) == {
        "pellucid": 1,
        "verdict": {
            "status": "proved",
            "question": "AG EF out",
            "bound": "",
            "engine": "explicit",
            "seconds": 0.003,
            "notes": [],
            "details": {"states": 7},
            "counterexample": None,
        },
    }
    assert json.loads(REFUTED.to_json(indent=2))["verdict"]["counterexample"]["steps"][0]["in"] == {"x": 0}


OUTCOMES = [
    Outcome("a <b>", "p.py:3", PROVED),
    Outcome("b\x00", "p.py:9", REFUTED),
    Outcome("c", "p.py:c", UNKNOWN),
    Outcome("d", "p.py:12", error="no stream 'o'\n  AG o\n     ^"),
]


def test_junit() -> None:
    root = ET.fromstring(junit(OUTCOMES, suite='p.py "&"'))
    assert root.tag == "testsuites"
    (suite,) = root
    assert {k: suite.get(k) for k in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": 'p.py "&"',
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert float(suite.get("time") or 0) >= 2.503
    cases = list(suite)
    assert [(c.tag, c.get("name"), c.get("file"), c.get("line")) for c in cases] == [
        ("testcase", "a <b>", "p.py", "3"),
        ("testcase", "b?", "p.py", "9"),
        ("testcase", "c", None, None),
        ("testcase", "d", "p.py", "12"),
    ]
    assert [c[0].tag for c in cases] == ["system-out", "failure", "skipped", "error"]
    assert "push  0" in (cases[1][0].text or "") and cases[1][0].get("message") == "refuted: G (x -> out)"
    assert cases[3][0].get("message") == "no stream 'o'" and (cases[3][0].text or "").endswith("^")


def test_the_document_of_a_run() -> None:
    document = outcomes_document(["p.py"], OUTCOMES)
    assert json.loads(json.dumps(document)) == document
    assert document["pellucid"] == 1 and document["verb"] == "check"
    assert document["summary"] == {"proved": 1, "refuted": 1, "bounded": 0, "unknown": 1, "error": 1}
    assert [(r["name"], r["status"]) for r in document["results"]] == [
        ("a <b>", "proved"),
        ("b\x00", "refuted"),
        ("c", "unknown"),
        ("d", "error"),
    ]
    assert document["results"][3] == {
        "name": "d",
        "where": "p.py:12",
        "status": "error",
        "message": "no stream 'o'\n  AG o\n     ^",
    }


@pytest.mark.parametrize(("count", "words"), [(4, "1 proved, 1 refuted, 1 unknown, 1 error"), (1, "1 proved"), (0, "")])
def test_the_summary(count: int, words: str) -> None:
    assert summary(OUTCOMES[:count]) == words
    assert summary(OUTCOMES[3:] * 2) == "2 errors"
