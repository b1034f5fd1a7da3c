"""Judge seed after seed for some minutes: the command line of ``row_judge``, ``row_tables`` and ``row_checks``."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable

WRONG = ("WRONG", "CRASH")


class Wrong(Exception):  # noqa: N818 - what is said of an answer
    """Pellucid and the judge differ."""


def outcome(judge: Callable[[], str]) -> str:
    """The judge's word, or what is wrong, in words."""
    try:
        return judge()
    except Wrong as wrong:
        return f"WRONG {wrong}"
    except Exception as error:
        return f"CRASH {type(error).__name__}: {error}"


def options_of(about: str | None, *flags: tuple[str, str]) -> argparse.Namespace:
    """``--minutes`` and ``--seed`` of the command line, and flags with what they say."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    for flag, says in flags:
        parser.add_argument(flag, action="store_true", help=says)
    return parser.parse_args()


def judge_on(
    options: argparse.Namespace,
    judge: Callable[[int], str],
    show: Callable[[int, str], str] = lambda seed, answer: answer[:2500],
) -> int:
    """Print what is wrong with its seed, and at the end how often the judge said what; the exit code."""
    end, seed, said, wrongs = time.monotonic() + 60 * options.minutes, options.seed, Counter[str](), 0
    while time.monotonic() < end:
        answer = outcome(lambda: judge(seed))  # noqa: B023 - called at once
        if answer.startswith(WRONG):
            wrongs += 1
            print(f"--- seed {seed}\n{show(seed, answer)}\n", flush=True)
        said[answer if answer.startswith(("refused", "unknown")) else answer.split()[0]] += 1
        seed += 1
    for what, count in said.most_common(40):
        print(f"{count:6} {what}")
    return 1 if wrongs else 0
