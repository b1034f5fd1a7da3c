"""Questions that people ask, with the time that each takes: `python bench/questions.py [--markdown
docs/explanation/questions.md]`.

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

HEAD = """# Questions that people ask

What a check is worth shows in the questions that one really has. Here are {total} of them about {pipelines} pipelines:
balances and ledgers, alarms with a cooldown, sessions, orders with a status, stock, heartbeats, rate limits, joins of
invoices and payments, moving averages. Records, enums and strings come in, most pipelines keep things apart by key, and
integers are all integers: no question is asked of a few values only.

**{right} of {total} ({percent:.0f} %) are decided, and rightly; {wrong} wrongly; {open} are *unknown* or refused.**
Each that is decided takes at most {slowest:.1f} s, half of them less than {median:.1f} s (seconds of one processor).

*Right* is what was worked out by hand before it was asked: *yes* if it holds for every stream of events, *no* if some
stream breaks it. *Proved* should stand beside each yes, *refuted* (with the shortest stream that shows it) beside each
no. Questions with "if" or "with" in them are asked with `assume=`: what is known of the input, such as that it is
sorted.

The pipelines and the formulas are in [realistic.py](../../tests/check/realistic.py) and
[realistic_more.py](../../tests/check/realistic_more.py); the second file was written when the checker was there, and
what it could not decide then was fixed at its cause.
`python bench/questions.py --markdown docs/explanation/questions.md` makes this page.

| pipeline | is it so that … | right | verdict | seconds |
| --- | --- | --- | --- | --- |
"""


def work() -> float:
    """Seconds of processor time so far, of this process and of those that it has waited for: what else the machine does
    counts for nothing."""
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
    rows, took, wrong = [], [], 0
    chosen = [q for q in QUESTIONS[given.since :] if given.only in q.about]
    for q in chosen:
        started = work()
        try:
            verdict = q.ask(timeout=given.timeout)
            status, notes = verdict.status, "; ".join(verdict.notes)
        except Exception as error:  # what cannot be asked is not decided
            status, notes = "refused", f"{type(error).__name__}: {error}"
        seconds = work() - started
        decided, right = status in ("proved", "refuted"), status == q.answer
        wrong += decided and not right
        took += [seconds] if right else []
        mark = "" if right else "  <-- WRONG" if decided else "  <--"
        print(f"{q.about:24} {q.words:70} {q.answer:8} {status:8} {seconds:6.2f}{mark}", flush=True)
        if not right:
            print(f"{'':24} {notes[:200]}", flush=True)
        rows.append(
            f"| `{q.about}` | {q.words} | {'yes' if q.answer == 'proved' else 'no'} | "
            f"{status if right else f'**{status}**'} | {seconds:.1f} |"
        )
    pipelines, slowest, median = (
        len({q.about for q in chosen}),
        max(took, default=0.0),
        sorted(took)[len(took) // 2] if took else 0.0,
    )
    percent = 100 * len(took) / max(1, len(chosen))
    print(
        f"{len(took)} of {len(chosen)} decided rightly ({percent:.0f} %), {wrong} wrong, the slowest of these in "
        f"{slowest:.1f} s; {pipelines} pipelines"
    )
    if given.markdown:
        numbers = {
            "total": len(chosen),
            "right": len(took),
            "open": len(chosen) - len(took) - wrong,
            "wrong": wrong,
            "percent": percent,
        }
        head = HEAD.format(**numbers, pipelines=pipelines, slowest=slowest, median=median)
        given.markdown.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
