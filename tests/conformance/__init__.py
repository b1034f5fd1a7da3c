"""Facts from the tests and the documentation of other systems, run against Pellucid.

``python -m tests.conformance FILE…`` runs files of such cases.  A file has ``cases``, each with an ``id``, a ``kind``
and what belongs to the kind; `run` says of each whether it passes, fails, or follows a rule that is not ours on
purpose.  A kind that nobody here knows is a failure.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Differs(Exception):  # noqa: N818 - an answer
    """What a case expects, and what came instead."""


class OtherRule(Exception):  # noqa: N818
    """The case follows a rule that is not ours, on purpose; why."""


class Result(NamedTuple):
    """What became of a case."""

    id: str
    status: str  # "passed", "failed" or "other rule"
    why: str = ""


Kind = Callable[[dict[str, Any]], None]


def expect(what: str, found: Any, wanted: Any) -> None:
    """An answer that has to be as the case says."""
    if plain(found) != plain(wanted):
        raise Differs(f"{what}: {wanted!r} is expected, {plain(found)!r} came")


def plain(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def kinds() -> dict[str, Kind]:
    """All that is known, by name."""
    from tests.conformance import atomic, autoscaler, beam, bytewax, spark_time, timely, timely_runs

    return {
        name: kind
        for file in (timely, timely_runs, autoscaler, atomic, bytewax, beam, spark_time)
        for name, kind in file.KINDS.items()
    }


def run(case: dict[str, Any]) -> Result:
    """One case."""
    name = str(case.get("id") or f"{case.get('kind')} of {str(case.get('source', 'nobody')).rpartition('/')[2]}")
    kind = kinds().get(str(case.get("kind")))
    if kind is None:
        fields = ", ".join(key for key in case if key not in ("id", "kind", "source", "note")) or "fields"
        said = f"the kind {case.get('kind')!r} is not known: nothing here says what is done with its {fields}"
        return Result(name, "failed", said)
    try:
        kind(case)
    except OtherRule as rule:
        return Result(name, "other rule", str(rule))
    except Differs as why:
        return Result(name, "failed", str(why))
    except KeyError as error:
        return Result(name, "failed", f"the case does not say {error}, which its kind needs")
    except Exception as error:  # whatever went wrong is no pass
        return Result(name, "failed", f"{type(error).__name__}: {error}")
    return Result(name, "passed")


def main(files: list[str]) -> int:
    """Run files; 0 if nothing failed, 2 for a file that is none."""
    if not files:
        print("usage: python -m tests.conformance FILE…", file=sys.stderr)
        return 2
    count = dict.fromkeys(("passed", "failed", "other rule"), 0)
    for file in files:
        try:
            cases = json.loads(Path(file).read_text(encoding="utf-8"))["cases"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{file}: no file of cases: {error!r}", file=sys.stderr)
            return 2
        for case in cases:
            result = run(case)
            count[result.status] += 1
            if result.status != "passed":
                print(f"{result.status}: {result.id}: {result.why}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['other rule']} other rule")
    return 1 if count["failed"] else 0
