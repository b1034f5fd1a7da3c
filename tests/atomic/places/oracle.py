"""What the logs of all places together must be, from the meaning alone: nothing of Pellucid is imported.

A log is a list of pairs, a kind and its fields.  `judge` says what is wrong at any moment, `judge_end` what is wrong
when everything has come to rest, `lying` which messages are in the channels.  C, A, ⇝ and the laws A1 to A3 are those
of the calculus: u ⇝ t if t took a message of u or is its child.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Line = tuple[str, Mapping[str, Any]]
Logs = Mapping[str, Sequence[Line]]


def home(name: str) -> str:
    return name.split(":")[0]


def committed(logs: Logs) -> set[str]:
    """By a commit, or by a decision, which is one for all its members."""
    found = {t for log in logs.values() for kind, f in log if kind in ("commit", "decide") for t in f["members"]}
    return found


def aborted(logs: Logs) -> set[str]:
    return {f["t"] for log in logs.values() for kind, f in log if kind == "abort"}


def needs(logs: Logs) -> dict[str, set[str]]:
    """u ⇝ t, as the set of all u for each t."""
    found: dict[str, set[str]] = {}
    for log in logs.values():
        for kind, f in log:
            if kind == "take":
                found.setdefault(f["t"], set()).add(f["sender"])
            elif kind == "begin":
                found.setdefault(f["t"], set())
                if f["parent"] is not None:
                    found[f["t"]].add(f["parent"])
    return {t: of - {t} for t, of in found.items()}


def judge(logs: Logs) -> list[str]:
    """What is wrong, at any moment, with what lasts."""
    done, undone, graph = committed(logs), aborted(logs), needs(logs)
    wrong = [f"A1: {t} is committed and aborted" for t in sorted(done & undone)]
    for t in sorted(done):
        wrong += [f"A3: {t} is committed, which needs {u}, which is not" for u in sorted(graph.get(t, set()) - done)]
    doomed = set(undone)
    while more := {t for t, of in graph.items() if of & doomed} - doomed:
        doomed |= more
    wrong += [f"A2: {t} is committed, and depends on one that is aborted" for t in sorted(doomed & done)]
    decisions = {f["attempt"]: f for log in logs.values() for kind, f in log if kind == "decide"}
    wrong += _decisions(logs, decisions)
    for place, log in logs.items():
        wrong += [f"{place}: {line}" for line in _one(place, log, decisions)]
    deposits = Counter(f["mid"] for log in logs.values() for kind, f in log if kind == "deposit")
    wrong += [f"{mid} was deposited {n} times" for mid, n in deposits.items() if n > 1]
    return wrong


def _decisions(logs: Logs, decisions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    wrong = []
    times = Counter(t for f in decisions.values() for t in f["members"])
    wrong += [f"{t} is decided in {n} attempts" for t, n in times.items() if n > 1]
    for attempt, f in decisions.items():
        if home(attempt) != min(home(t) for t in f["members"]):
            wrong.append(f"{attempt} is decided by another place than that of its least member")
        if set(f["participants"]) != {home(t) for t in f["members"]} - {home(attempt)}:
            wrong.append(f"{attempt} has other participants than the places of its members")
        for t in f["members"]:
            if home(t) != home(attempt):
                before = [g for kind, g in logs.get(home(t), ()) if kind == "prepared" and g["attempt"] == attempt]
                if not any(t in g["members"] for g in before):
                    wrong.append(f"{attempt} is decided, and {t} was never prepared in it")
    return wrong


def _one(place: str, log: Sequence[Line], decisions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One log from its beginning: each record must be allowed where it stands."""
    wrong: list[str] = []
    state: dict[str, str] = {}
    bound: dict[str, str] = {}  # prepared in
    lies: dict[str, str] = {}  # message: channel
    takes: dict[str, list[tuple[str, str, str]]] = {}
    boot, start = 0, ""
    for number, (kind, f) in enumerate(log, 1):

        def bad(text: str, number: int = number) -> None:
            wrong.append(f"record {number}: {text}")

        if kind == "boot":
            boot += 1
            if f["n"] != boot:
                bad(f"start {f['n']} after start {boot - 1}")
            start = f"{boot}-{f['mark']}" if f["mark"] else str(boot)
        elif kind == "begin":
            t = f["t"]
            if t in state or t.split(":")[:2] != [place, start]:
                bad(f"{t} begins, in start {boot}")
            state[t] = "active"
        elif kind in ("send", "take", "pending"):
            if state.get(f["t"]) != "active":
                bad(f"{kind} of {f['t']}, which is {state.get(f['t'])}")
            if kind == "pending":
                state[f["t"]] = "pending"
            if kind == "take":
                if lies.pop(f["mid"], None) != f["channel"]:
                    bad(f"{f['t']} takes {f['mid']}, which is not in {f['channel']}")
                if state.get(f["sender"]) == "aborted":
                    bad(f"{f['t']} takes {f['mid']} of an aborted one")
                takes.setdefault(f["t"], []).append((f["mid"], f["channel"], f["sender"]))
        elif kind == "deposit":
            if f["mid"].split("/")[0] != f["sender"]:
                bad(f"{f['mid']} is not of {f['sender']}")
            lies[f["mid"]] = f["channel"]
        elif kind == "prepared":
            for t in f["members"]:
                if state.get(t) != "pending" or t in bound:
                    bad(f"{t} is prepared in {f['attempt']}, but it is {bound.get(t, state.get(t))}")
                bound[t] = f["attempt"]
        elif kind == "given_up":
            bound = {t: attempt for t, attempt in bound.items() if attempt != f["attempt"]}
            if f["attempt"] in decisions:
                bad(f"{f['attempt']} is given up, and it is decided")
        elif kind == "commit":
            for t in f["members"]:
                if state.get(t) != "pending":
                    bad(f"{t} commits, which is {state.get(t)}")
                if f["attempt"] is None and t in bound:
                    bad(f"{t} commits alone, which is prepared in {bound[t]}")
                if f["attempt"] is not None and t not in decisions.get(f["attempt"], {"members": ()})["members"]:
                    bad(f"{t} commits by {f['attempt']}, and that is not decided")
                state[t] = "committed"
                bound.pop(t, None)
        elif kind == "abort":
            t = f["t"]
            if state.get(t) not in ("active", "pending") or (t in bound and f["why"] != "by hand"):
                bad(f"{t} is aborted, which is {bound.get(t, state.get(t))}")
            state[t] = "aborted"
            taken = takes.pop(t, [])
            if sorted(f["back"]) != sorted(mid for mid, _, _ in taken):
                bad(f"{t} took {taken}, and puts back {f['back']}")
            for mid, channel, _ in taken:
                if mid in lies:
                    bad(f"{t} puts back {mid}, which lies there")
                lies[mid] = channel
    return wrong


def lying(logs: Logs) -> Counter[tuple[str, str, str]]:
    """Which messages are in which channel of which place: those of aborted senders are none."""
    done, found = committed(logs), Counter()
    undone = aborted(logs)
    for place, log in logs.items():
        here: dict[str, str] = {}
        taken: dict[str, list[tuple[str, str]]] = {}
        for kind, f in log:
            if kind == "deposit":
                here[f["mid"]] = f["channel"]
            elif kind == "take":
                taken.setdefault(f["t"], []).append((f["mid"], here.pop(f["mid"])))
            elif kind == "abort":
                here |= dict(taken.pop(f["t"], ()))
        for mid, channel in here.items():
            sender = mid.split("/")[0]
            if sender in done or (sender not in undone and _known(logs, sender)):
                found[place, channel, mid] += 1
    return found


def _known(logs: Logs, t: str) -> bool:
    return any(kind == "begin" and f["t"] == t for kind, f in logs.get(home(t), ()))


def judge_end(logs: Logs) -> list[str]:
    """What is wrong when everything has come to rest: all is decided, everywhere, and no message is lost or doubled."""
    wrong = judge(logs)
    done, undone = committed(logs), aborted(logs)
    here = {t for log in logs.values() for kind, f in log if kind == "commit" for t in f["members"]}
    wrong += [f"half committed: {t} is decided, and its place does not have it" for t in sorted(done - here)]
    begun = {f["t"] for log in logs.values() for kind, f in log if kind == "begin"}
    wrong += [f"{t} is never decided" for t in sorted(begun - done - undone)]
    where = {f["mid"]: (place, f) for place, log in logs.items() for kind, f in log if kind == "deposit"}
    sends = {}
    for log in logs.values():
        for kind, f in log:
            if kind == "send" and f["t"] in done:
                mid = f"{f['t']}/{f['seq']}"
                sends[mid] = f
                if mid not in where:
                    wrong.append(f"lost: {mid} of a committed transaction came nowhere")
                elif where[mid][1]["channel"] != f["path"][-1][1] or where[mid][1]["value"] != f["value"]:
                    wrong.append(f"{mid} came elsewhere, or as something else")
    wrong += [f"{mid} came of {f['sender']}, which never sent it" for mid, (_, f) in where.items()
              if f["sender"] in done and mid not in sends]  # fmt: skip
    took = Counter(f["mid"] for log in logs.values() for kind, f in log if kind == "take" and f["t"] in done)
    rest = lying(logs)
    for mid in sends:
        times = took[mid] + sum(n for (_, _, one), n in rest.items() if one == mid)
        if times != 1:
            wrong.append(f"not conserved: {mid} is {times} times taken or lying")
    return wrong
