"""A verdict for people and programs: a line, a page of text, HTML for a notebook, a JSON document.

*Bounded* and *unknown* never look like a pass: each has its own word, colour and mark.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from pellucid.internal.draw.labels import clean
from pellucid.internal.model.show.documents import as_json, versioned

if TYPE_CHECKING:
    from pellucid.internal.model.verdict import Verdict

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
