"""Verdicts as JUnit XML, for the pages of a build server.

A refuted property is a failure, an unknown one is **skipped** with the reason (never a pass: the suite says how many),
and one that could not be asked is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from pellucid.model.show.outcomes import Outcome
from pellucid.model.show.verdict import evidence, remarks, verdict_text

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
    counts = {status: sum(o.status == status for o in outcomes) for status in ("refuted", "error", "unknown")}
    numbers = (
        f'tests="{len(outcomes)}" failures="{counts["refuted"]}" errors="{counts["error"]}" '
        f'skipped="{counts["unknown"]}" time="{seconds:.3f}"'
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
    elif verdict.proved:
        body = f"<system-out>{_text(f'proved ({evidence(verdict)})')}</system-out>"
    else:
        body = f"<skipped message={_attribute('unknown: ' + '; '.join(remarks(verdict)))}/>"
    return f"{head}>\n{body}\n</testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("?", text))
