"""Questions that people ask, with the time that each takes: `python bench/questions.py [--markdown docs/explanation/questions.md]`.

A verdict that is not the right one is shouted; *unknown* counts as not decided.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tests.check.realistic_more  # noqa: F401  they join the others
from tests.check.realistic import QUESTIONS

from pellucid.errors import PellucidError

HEAD = """# Questions that people ask

{decided} of {total} questions about {pipelines} pipelines are decided, {wrong} of them wrongly; the slowest takes {slowest:.1f} s. The pipelines are in
`tests/check/realistic.py`, each answer was worked out by hand before it was asked, and `python bench/questions.py --markdown {page}` makes this page.

| pipeline | question | true | verdict | seconds |
| --- | --- | --- | --- | --- |
"""


def work() -> float:
    """Seconds of processor time so far, of this process and of those that it has waited for: what else the machine does counts for nothing."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main() -> int:
    """Ask them all; 1 where a verdict is wrong."""
    options = argparse.ArgumentParser()
    options.add_argument("--markdown", type=Path, help="write a page with the table")
    options.add_argument("--only", default="", help="those about pipelines with this in their name")
    options.add_argument("--since", type=int, default=0, help="leave out so many from the start")
    options.add_argument("--timeout", type=float, default=60.0)
    given = options.parse_args()
    rows, wrong, decided, slowest = [], 0, 0, 0.0
    chosen = [q for q in QUESTIONS[given.since :] if given.only in q.about]
    for q in chosen:
        started = work()
        try:
            verdict = q.ask(timeout=given.timeout)
            status, notes = verdict.status, "; ".join(verdict.notes)
        except (PellucidError, Exception) as error:  # what cannot be asked is not decided
            status, notes = "refused", f"{type(error).__name__}: {error}"
        seconds = work() - started
        right = status == q.answer
        decided += status in ("proved", "refuted")
        wrong += status in ("proved", "refuted") and not right
        slowest = max(slowest, seconds)
        mark = "" if right else "  <-- WRONG" if status in ("proved", "refuted") else "  <--"
        print(f"{q.about:24} {q.words:70} {q.answer:8} {status:8} {seconds:6.2f}{mark}", flush=True)
        if not right:
            print(f"{'':24} {notes[:200]}", flush=True)
        rows.append(f"| `{q.about}` | {q.words} | {'yes' if q.answer == 'proved' else 'no'} | {status} | {seconds:.2f} |")
    pipelines = len({q.about for q in chosen})
    print(f"{decided} of {len(chosen)} decided ({100 * decided / len(chosen):.0f} %), {wrong} wrong, the slowest in {slowest:.1f} s; {pipelines} pipelines")
    if given.markdown:
        head = HEAD.format(decided=decided, total=len(chosen), pipelines=pipelines, wrong=wrong, slowest=slowest, page=given.markdown)
        given.markdown.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
