"""Verdicts: what a question is answered with.

A verdict is **proved** (for all inputs), **refuted**, **bounded** (nothing was found within a bound, which it names: no
proof) or **unknown** (not decided).  It is true only when proved.  A refuted one carries a counterexample
(`model.counterexample`).
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pellucid.internal.draw.labels import clean
from pellucid.internal.model.counterexample import Counterexample
from pellucid.internal.model.pytest_file import slug
from pellucid.internal.model.sheet import VERSION, as_json, versioned

# The checks of an audit as lines: yes or no, how often not, and what was found.


def check_lines(
    checks: Iterable[str], says: Mapping[str, str], counts: Mapping[str, int], violations: Iterable[Any]
) -> list[str]:
    """A line for each check, and below it what violates it (``.check`` is the name of its check).

    >>> print(*check_lines(["order", "once"], {"order": "in order", "once": "each once"}, {"once": 2}, []), sep=chr(10))
      yes  order: in order
      no   once: each once (2 times not)
    """
    lines = []
    violations = list(violations)
    for check in checks:
        wrong = counts.get(check, 0)
        often = f" ({wrong:,} time{'s' if wrong > 1 else ''} not)" if wrong else ""
        lines.append(f"  {'no ' if wrong else 'yes'}  {check}: {says[check]}{often}")
        lines += [f"         {v}" for v in violations if v.check == check]
    return lines


# A verdict for people and programs: a line, a page of text, HTML for a notebook, a JSON document.
#
# *Bounded* and *unknown* never look like a pass: each has its own word, colour and mark.

_NO_PROOF = {
    "unknown": "not decided: this is no proof",
    "bounded": "not proved: what is beyond this bound was not looked at",
}
_COLOURS = {
    "proved": "--good:#18794e", "refuted": "--good:#c02626", "bounded": "--good:#2f5fb3", "unknown": "--good:#b4530a",
}  # fmt: skip
_DARK = {
    "proved": "--good:#5fcf9a", "refuted": "--good:#ff8080", "bounded": "--good:#8db4ff", "unknown": "--good:#f0a35c",
}  # fmt: skip
_MARKS = {"proved": "✓", "refuted": "✗", "bounded": "≤", "unknown": "?"}


def seconds_text(seconds: float) -> str:
    """A time that fits in a line.

    >>> seconds_text(0.0004), seconds_text(0.0031), seconds_text(2.345), seconds_text(200)
    ('< 1 ms', '3 ms', '2.3 s', '200 s')
    """
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def evidence(verdict: Verdict) -> str:
    """Who says so: the engine, how much it saw, how long it took.

    >>> from pellucid.internal.model import Verdict
    >>> evidence(Verdict("proved", "AG EF out", "explicit", 0.003, details={"states": 7}))
    'explicit, 7 states, 3 ms'
    """
    states = verdict.details.get("states")
    counted = [f"{states:,} state{'' if states == 1 else 's'}"] if isinstance(states, int) and states else []
    return ", ".join(
        [*([verdict.engine] if verdict.engine not in ("", "none") else []), *counted, seconds_text(verdict.seconds)]
    )


def headline(verdict: Verdict, name: str = "") -> str:
    """One line: the status, what was asked, the bound if there is one, the evidence.

    >>> from pellucid.internal.model import Verdict
    >>> headline(Verdict("refuted", "AG EF out", "explicit", 0.003, details={"states": 7}))
    'refuted  AG EF out  (explicit, 7 states, 3 ms)'
    >>> headline(Verdict("unknown", "AG EF out", "explicit", 60), "another_output")
    'unknown  another_output: AG EF out  (explicit, 60.0 s)'
    >>> headline(Verdict("bounded", "G out", "explicit", 0.1, bound="runs of at most 3 events"))
    'bounded  G out: nothing found in runs of at most 3 events  (explicit, 100 ms)'
    """
    asked = clean(verdict.question)
    if name and name != asked:
        asked = f"{name}: {asked}" if asked else name
    return f"{verdict.status:7}  {asked}{_within(verdict)}  ({evidence(verdict)})"


def _within(verdict: Verdict) -> str:
    return f": nothing found in {clean(verdict.bound)}" if verdict.bounded else ""


def remarks(verdict: Verdict) -> list[str]:
    """What is to be said besides: the notes, the bounds of queues that were found, that this is no proof."""
    why = verdict.counterexample.why if verdict.counterexample is not None else ""
    lines = [note for note in verdict.notes if note != why]
    if verdict.status in _NO_PROOF:
        lines.insert(0, _NO_PROOF[verdict.status])
    bounds = verdict.details.get("bounds")
    if isinstance(bounds, dict) and bounds:
        lines.append("bounds: " + ", ".join(f"{id} {size}" for id, size in bounds.items()))
    return [clean(line) for line in lines]


def verdict_text(verdict: Verdict, *, width: int | None = None) -> str:
    """The whole verdict for a terminal: the headline, the notes, the counterexample.

    >>> from pellucid import check, pipeline
    >>> from pellucid.internal.model import Verdict
    >>> late = pipeline(lambda x: x.trim(1), x=int)
    >>> print(verdict_text(check.holds(late, "G (x -> out)")))
    refuted  G (x -> out)  (...)
      push  0
      x     0
      out   -
            ^ here
    >>> notes = ("the limit of 9 states was reached",)
    >>> print(verdict_text(Verdict("unknown", "G F out", "explicit", 0.5, notes=notes)))
    unknown  G F out  (explicit, 500 ms)
      not decided: this is no proof
      the limit of 9 states was reached
    """
    lines = [headline(verdict), *(f"  {line}" for line in remarks(verdict))]
    example = verdict.counterexample
    if example is not None:
        table = example.text(verdict.question, width=width - 2 if width is not None else None)
        lines += [f"  {line}".rstrip() for line in table.splitlines()]
    return "\n".join(lines)


def verdict_html(verdict: Verdict) -> str:
    """The verdict for a notebook: a coloured word, the notes, and the counterexample as a picture.

    >>> from pellucid.internal.model import Verdict
    >>> "not decided" in verdict_html(Verdict("unknown", "G F out", "explicit", 0.5))
    True
    """
    status = verdict.status if verdict.status in _COLOURS else "unknown"
    word = f'<b class="plc-v-word">{_MARKS[status]} {html.escape(verdict.status)}</b>'
    parts = [
        f"<style>.plc-v-{status}{{{_COLOURS[status]};font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px}}"
        f"@media (prefers-color-scheme:dark){{.plc-v-{status}{{{_DARK[status]}}}}}"
        ".plc-v .plc-v-word{color:var(--good)}.plc-v .plc-v-by{opacity:.7}</style>",
        f"<div>{word} <code>{html.escape(clean(verdict.question))}</code>{html.escape(_within(verdict))} "
        f'<span class="plc-v-by">({html.escape(evidence(verdict))})</span></div>',
    ]
    notes = remarks(verdict)
    if notes:
        parts.append("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes) + "</ul>")
    example = verdict.counterexample
    if example is not None:
        parts.append(example.picture(verdict.question))
    return f'<div class="plc-v plc-v-{status}">' + "".join(parts) + "</div>"


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain data, to stand inside a larger document."""
    example = verdict.counterexample
    return {
        "status": verdict.status,
        "question": verdict.question,
        "bound": verdict.bound,
        "engine": verdict.engine,
        "seconds": round(verdict.seconds, 6),
        "notes": list(verdict.notes),
        "details": as_json(dict(verdict.details)),
        "counterexample": example.document() if example is not None else None,
    }


def verdict_json(verdict: Verdict, *, indent: int | None = None) -> str:
    """The verdict as a versioned document.

    >>> from pellucid.internal.model import Verdict
    >>> import json
    >>> json.loads(verdict_json(Verdict("proved", "AG EF out")))["verdict"]["status"]
    'proved'
    """
    return versioned({"verdict": verdict_document(verdict)}, indent=indent)


Status: TypeAlias = Literal["proved", "refuted", "bounded", "unknown"]


def combined(statuses: Iterable[Status]) -> Status:
    """The status of a question that asks several things: refuted if one is, else as weak as the weakest answer.

    >>> combined(["proved", "bounded"]), combined(["proved", "unknown", "bounded"]), combined([])
    ('bounded', 'unknown', 'proved')
    """
    found = set(statuses)
    weakest: tuple[Status, ...] = ("refuted", "unknown", "bounded")
    return next((status for status in weakest if status in found), "proved")


class Judgement:
    """Whatever has a status: verdicts, audits of recorded runs, reports of crash tests."""

    if TYPE_CHECKING:

        @property
        def status(self) -> Status: ...

    @property
    def proved(self) -> bool:
        """It holds, for all inputs."""
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        """It does not hold."""
        return self.status == "refuted"

    @property
    def unknown(self) -> bool:
        """It was not decided."""
        return self.status == "unknown"

    @property
    def bounded(self) -> bool:
        """Nothing speaks against it within a bound; beyond that it was not looked at."""
        return self.status == "bounded"

    @property
    def holds(self) -> bool:
        """The same as proved."""
        return self.proved

    def __bool__(self) -> bool:
        return self.proved


@dataclass(frozen=True)
class Verdict(Judgement):
    """The answer to a question; true only when proved.  ``bound`` says what a bounded one has looked at.

    >>> bool(Verdict("unknown", "AG EF out", "explicit", 0.1))
    False
    >>> print(Verdict("bounded", "G out", "explicit", 0.1, bound="runs of at most 3 events"))
    bounded  G out: nothing found in runs of at most 3 events  (explicit, 100 ms)
      not proved: what is beyond this bound was not looked at
    """

    status: Status
    question: str
    engine: str = ""
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    bound: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.bounded and not self.bound:
            raise ValueError("a bounded verdict says what its bound is: bound=…")

    def __str__(self) -> str:
        return verdict_text(self)

    def _repr_html_(self) -> str:
        return verdict_html(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """A versioned document."""
        return verdict_json(self, indent=indent)


# What became of every property of a run of checks, for the reports that tell it: JSON, pictures, tests.
#
# An outcome is a verdict with the name of its property; or, where the question could not be asked, why not.

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
    root = ET.Element("testsuites")
    top = ET.SubElement(
        root, "testsuite", name=_xml(suite), tests=str(len(outcomes)), failures=str(counts["refuted"]),
        errors=str(counts["error"]), skipped=str(counts["skipped"]), time=f"{seconds:.3f}",
    )  # fmt: skip
    for outcome in outcomes:
        _case(top, outcome, suite)
    ET.indent(root, "")
    return str(ET.tostring(root, encoding="UTF-8", xml_declaration=True), "utf-8") + "\n"


def _case(suite: ET.Element, outcome: Outcome, classname: str) -> None:
    verdict = outcome.verdict
    time = f"{verdict.seconds:.3f}" if verdict is not None else "0.000"
    case = ET.SubElement(suite, "testcase", name=_xml(outcome.name), classname=_xml(classname), time=time)
    file, _, line = outcome.where.rpartition(":")
    if file and line.isdigit():
        case.attrib |= {"file": _xml(file), "line": line}
    if verdict is None:
        message = outcome.error.splitlines()[0] if outcome.error else "not asked"
        ET.SubElement(case, "error", message=_xml(message)).text = _xml(outcome.error)
    elif verdict.refuted:
        failure = ET.SubElement(case, "failure", message=_xml(f"refuted: {verdict.question}"))
        failure.text = _xml(verdict_text(verdict, width=120))
    elif outcome.passed:
        within = f" in {verdict.bound}" if verdict.bounded else ""
        ET.SubElement(case, "system-out").text = _xml(f"{verdict.status}{within} ({evidence(verdict)})")
    else:
        reasons = [verdict.bound] if verdict.bounded else []
        message = f"{verdict.status}: " + "; ".join([*reasons, *remarks(verdict)])
        ET.SubElement(case, "skipped", message=_xml(message))


def _xml(text: str) -> str:
    """The text without what XML cannot have."""
    return _NOT_XML.sub("?", text)
