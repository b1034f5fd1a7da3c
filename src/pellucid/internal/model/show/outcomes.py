"""What became of every property of a run of checks, for the reports that tell it: JSON, pictures, tests.

An outcome is a verdict with the name of its property; or, where the question could not be asked, why not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.show.documents import VERSION
from pellucid.internal.model.show.pytest_file import slug
from pellucid.internal.model.show.verdict import evidence, remarks, verdict_document, verdict_text
from pellucid.internal.model.verdict import Verdict

STATUSES = ("proved", "refuted", "bounded", "unknown", "error")


@dataclass(frozen=True)
class Outcome:
    """A property that was asked: its name, where it is written, and the verdict, or why there is none; whether a
    bounded answer is enough."""

    name: str
    where: str = ""
    verdict: Verdict | None = None
    error: str = ""
    bounded_is_enough: bool = False

    @property
    def status(self) -> str:
        """proved, refuted, bounded, unknown, or error."""
        return self.verdict.status if self.verdict is not None else "error"

    @property
    def passed(self) -> bool:
        """Proved, or bounded where that is enough."""
        return self.status == "proved" or (self.status == "bounded" and self.bounded_is_enough)

    @property
    def example(self) -> Counterexample | None:
        """The counterexample, if there is one."""
        return self.verdict.counterexample if self.verdict is not None else None


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many of each.

    >>> summary([Outcome("a", verdict=Verdict("proved", "a")), Outcome("b", error="no such stream")])
    '1 proved, 1 error'
    """
    counts = Counter(o.status for o in outcomes)
    words = {"error": "error" if counts["error"] == 1 else "errors"}
    return ", ".join(f"{counts[status]} {words.get(status, status)}" for status in STATUSES if counts[status])


def outcomes_document(targets: Sequence[str], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything as a versioned document."""
    results: list[dict[str, Any]] = []
    for o in outcomes:
        told = verdict_document(o.verdict) if o.verdict is not None else {"status": "error", "message": o.error}
        results.append({"name": o.name, "where": o.where, **told})
    counts = Counter(o.status for o in outcomes)
    numbers = {status: counts[status] for status in STATUSES}
    return {"pellucid": VERSION, "verb": "check", "targets": list(targets), "summary": numbers, "results": results}


def pictures(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    """A file name and an SVG for each counterexample; no name comes twice.

    >>> from pellucid import check, pipeline
    >>> found = Outcome("late: every event", verdict=check.holds(pipeline(lambda x: x.trim(1), x=int), "G (x -> out)"))
    >>> [name for name, _ in pictures([found, found])]
    ['late_every_event.svg', 'late_every_event_2.svg']
    """
    taken: set[str] = set()
    for o in outcomes:
        if o.verdict is None or o.example is None:
            continue
        base = name = slug(o.name)
        more = 2
        while name.lower() in taken:  # some file systems do not tell A from a
            name, more = f"{base}_{more}", more + 1
        taken.add(name.lower())
        yield f"{name}.svg", o.example.picture(o.verdict.question)


# ---------------------------------------------------------------- JUnit XML, for the pages of a build server
# A refuted property is a failure, an unknown or bounded one is **skipped** with the reason (no pass, unless it was said
# that the bound is enough: the suite says how many), and one that could not be asked is an error.


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcomes: Sequence[Outcome], *, suite: str = "pellucid") -> str:
    """The XML document.

    >>> import xml.etree.ElementTree as ET
    >>> from pellucid.check import Verdict
    >>> document = ET.fromstring(junit([Outcome("live", "p.py:3", Verdict("unknown", "AG EF out"))], suite="p.py"))
    >>> document.find("testsuite").get("skipped"), document.find(".//skipped").get("message")
    ('1', 'unknown: not decided: this is no proof')
    """
    seconds = sum(o.verdict.seconds for o in outcomes if o.verdict is not None)
    counts = Counter("skipped" if o.status in ("bounded", "unknown") and not o.passed else o.status for o in outcomes)
    numbers = (
        f'tests="{len(outcomes)}" failures="{counts["refuted"]}" errors="{counts["error"]}" '
        f'skipped="{counts["skipped"]}" time="{seconds:.3f}"'
    )
    cases = "".join(_case(o, suite) for o in outcomes)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites>\n<testsuite name={_attribute(suite)} {numbers}>\n{cases}</testsuite>\n</testsuites>\n"
    )


def _case(outcome: Outcome, suite: str) -> str:
    verdict = outcome.verdict
    time = f"{verdict.seconds:.3f}" if verdict is not None else "0.000"
    file, _, line = outcome.where.rpartition(":")
    place = f" file={_attribute(file)} line={_attribute(line)}" if file and line.isdigit() else ""
    head = f'<testcase name={_attribute(outcome.name)} classname={_attribute(suite)} time="{time}"{place}'
    if verdict is None:
        message = outcome.error.splitlines()[0] if outcome.error else "not asked"
        return f"{head}>\n<error message={_attribute(message)}>{_text(outcome.error)}</error>\n</testcase>\n"
    if verdict.refuted:
        message = _attribute(f"refuted: {verdict.question}")
        body = f"<failure message={message}>{_text(verdict_text(verdict, width=120))}</failure>"
    elif outcome.passed:
        within = f" in {verdict.bound}" if verdict.bounded else ""
        body = f"<system-out>{_text(f'{verdict.status}{within} ({evidence(verdict)})')}</system-out>"
    else:
        reasons = [verdict.bound] if verdict.bounded else []
        body = f"<skipped message={_attribute(f'{verdict.status}: ' + '; '.join([*reasons, *remarks(verdict)]))}/>"
    return f"{head}>\n{body}\n</testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
