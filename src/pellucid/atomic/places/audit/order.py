"""Many logs, one run: the records of all places in an order in which causes come before effects.

A log is a sequence; between logs nothing is known but what had to happen first: a message is deposited after it was
sent, a set is decided after all have prepared it, whoever commits does so after those it needs.  Clocks are not asked.
Any order that keeps this is a run as good as the real one.  Where there is none, because an effect stands before its
cause, a record goes ahead without its cause, and the rules say what is wrong with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from pellucid.atomic.places.audit.shapes import Row, cascade_of, home

Key = tuple[str, ...]  # something that happens: ("sent", message), ("committed", transaction) …


def needs_of(rows: Iterator[Row]) -> dict[str, dict[str, str]]:
    """u ⇝ t by all logs: for each t those it needs, and why in words: it took a message of u, or is its child."""
    needs: dict[str, dict[str, str]] = {}
    for row in rows:
        f = row.fields
        if row.kind == "take" and f["sender"] != f["t"]:
            needs.setdefault(f["t"], {}).setdefault(f["sender"], f"took {f['mid']}")
        elif row.kind == "begin" and f.get("parent"):
            needs.setdefault(f["t"], {}).setdefault(f["parent"], "is its child")
    return needs


def happens(row: Row) -> list[Key]:
    """What happens with a record."""
    f = row.fields
    match row.kind:
        case "send":
            return [("sent", f"{f['t']}/{f['seq']}")]
        case "deposit":
            return [("deposited", f["mid"])]
        case "pending":
            return [("pending", f["t"])]
        case "prepared":
            return [("prepared", f["attempt"], row.place)]
        case "decide":
            return [("decided", f["attempt"]), *(("committed", t) for t in f["members"])]
        case "commit" if f.get("attempt") is None:
            return [("committed", t) for t in f["members"]]
        case "commit":
            return [("done", f["attempt"], row.place)]
        case "abort":
            return [("aborted", f["t"])]
    return []


def causes(row: Row, needs: Mapping[str, Mapping[str, str]]) -> Iterator[Key]:
    """What must have happened before a record."""
    f = row.fields
    match row.kind:
        case "deposit":
            yield "sent", f["mid"]
        case "take":
            yield "deposited", f["mid"]
        case "sent":
            yield "deposited", f"{f['t']}/{f['seq']}"
        case "prepared":
            yield from (("pending", t) for t in f["members"])
        case "decide":
            yield from (("prepared", f["attempt"], place) for place in f["participants"])
            yield from _needed(f["members"], needs)
        case "commit" if f.get("attempt") is None:
            yield from _needed(f["members"], needs)
        case "commit":
            yield "decided", f["attempt"]
        case "abort":
            if u := cascade_of(f.get("why")):
                yield "aborted", u
                yield "last", u  # its abort may have been lost with a tail: then after all that is on record of it
        case "end":
            pass  # who has committed is seen when its turn comes: see `_ends`


def _needed(members: Sequence[str], needs: Mapping[str, Mapping[str, str]]) -> Iterator[Key]:
    for t in members:
        yield "pending", t
        yield from (("committed", u) for u in needs.get(t, {}) if u not in members)


def one_run(logs: Mapping[str, Sequence[Row]]) -> Iterator[Row]:
    """The records of all logs as one run.

    >>> a = [Row("a", 1, "boot", {"n": 1}), Row("a", 2, "abort", {"t": "a:1:1", "why": "cascade from b:1:1"})]
    >>> b = [Row("b", 1, "boot", {"n": 1}), Row("b", 2, "abort", {"t": "b:1:1", "why": "asked"})]
    >>> [(row.place, row.kind) for row in one_run({"a": a, "b": b})]
    [('a', 'boot'), ('b', 'boot'), ('b', 'abort'), ('a', 'abort')]
    """
    needs = needs_of(row for rows in logs.values() for row in rows)
    ends = _ends(logs)
    lasts: dict[str, Row] = {}
    for rows in logs.values():
        lasts.update((row.fields["t"], row) for row in rows if row.kind in ("begin", "send", "take", "pending"))
    first: dict[Key, str] = {}  # where something happens, if it does at all
    for place, rows in logs.items():
        for row in rows:
            for key in happens(row):
                first.setdefault(key, place)
    first.update((("last", t), row.place) for t, row in lasts.items())
    happened: set[Key] = set()
    at = dict.fromkeys(logs, 0)
    waiting: dict[Key, list[str]] = {}
    blocked: dict[str, Key] = {}
    ready = deque(sorted(logs))
    while ready or blocked:
        if not ready:  # an effect stands before its cause
            place = _culprit({p: first[key] for p, key in blocked.items()}, {p: logs[p][at[p]].kind for p in blocked})
            waiting[blocked.pop(place)].remove(place)
            row = logs[place][at[place]]
            yield from _go(row, place, at, lasts, happened, waiting, blocked, ready)
            ready.append(place)
            continue
        place = ready.popleft()
        while at[place] < len(logs[place]):
            row = logs[place][at[place]]
            wanted = ends.get(row.fields["attempt"], ()) if row.kind == "end" else causes(row, needs)
            missing = next((key for key in wanted if key in first and key not in happened), None)
            if missing is not None:
                blocked[place] = missing
                waiting.setdefault(missing, []).append(place)
                break
            yield from _go(row, place, at, lasts, happened, waiting, blocked, ready)


def _culprit(waits: Mapping[str, str], kinds: Mapping[str, str]) -> str:
    """Logs that wait for each other, each at its next record: which goes ahead without its cause?  One of those that
    wait in a circle, and there a decision before anything else: others only wait for them.

    >>> _culprit({"a": "b", "b": "c", "c": "b"}, {"a": "commit", "b": "deposit", "c": "commit"})
    'c'
    """
    seen: list[str] = []
    place = min(waits)
    while place not in seen:
        seen.append(place)
        place = waits[place]
    circle = seen[seen.index(place) :]
    return min(circle, key=lambda p: (kinds[p] not in ("commit", "decide", "abort", "end"), p))


def _go(
    row: Row, place: str, at: dict[str, int], lasts: dict[str, Row], happened: set[Key],
    waiting: dict[Key, list[str]], blocked: dict[str, Key], ready: deque[str],
) -> Iterator[Row]:  # fmt: skip
    yield row
    at[place] += 1
    t = row.fields.get("t", "")
    for key in [*happens(row), *([("last", t)] if lasts.get(t) is row else [])]:
        happened.add(key)
        for other in waiting.pop(key, ()):
            del blocked[other]
            ready.append(other)


def _ends(logs: Mapping[str, Sequence[Row]]) -> dict[str, list[Key]]:
    """What must have happened before an attempt ends: all its places have committed."""
    out: dict[str, list[Key]] = {}
    for rows in logs.values():
        for row in rows:
            if row.kind == "decide":
                places = {home(t) for t in row.fields["members"]}
                out[row.fields["attempt"]] = [("done", row.fields["attempt"], place) for place in sorted(places)]
    return out
