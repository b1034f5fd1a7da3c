"""The product held to the judge, network by network; what differs is told in words."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pellucid import check
from pellucid.atomic import Atomic, IllTyped, NetworkRun, network_text, parse, run, typecheck
from pellucid.atomic.question import explore
from pellucid.errors import DataError
from tests.atomic.mutants import mutant
from tests.judge.atomic import terms as words
from tests.judge.atomic.meaning import (
    EQUIVALENT,
    FALSE,
    SAFETY,
    VARIANTS,
    Claims,
    Found,
    Meaning,
    TooLarge,
    children,
    everything,
    nameless,
    outcome,
    waiting,
    warned,
)
from tests.judge.atomic.meaning import told as told_to_wait
from tests.judge.atomic.terms import Term
from tests.judge.atomic.types import wrong_net

LIMIT = 300  # states: of larger networks nothing is asked


def plain(outcome: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(map(nameless, side))) for side in outcome)


def layers(found: Found) -> Counter[int]:
    """How many states are so many steps away."""
    depth: dict[Any, int] = {}
    for state, before in found.states.items():
        depth[state] = 0 if before is None else depth[before[0]] + 1
    return Counter(depth.values())


def asked_of(rules: str) -> tuple[str, ...]:
    """The questions under these rules."""
    return (*SAFETY, *FALSE, "types") if rules in ("corrected", "printed", "cascade", "crash") else SAFETY


def differences(network: Term, seed: int, rules: str, found: Found, unfold: int = 1) -> Iterator[str]:
    """What the product says otherwise about a well-typed network under these rules."""
    chance = random.Random(seed)
    text = words.network_text(network, lambda: chance.random() < 0.5)
    meaning, asked = Meaning(network, unfold, rules), asked_of(rules)
    if "place" in found.broken:
        yield f"the judge itself: a transaction at two places after {found.trace(found.broken.pop('place'))}"
    machine = Atomic(parse(text), rules=mutant(rules), unfold=unfold)
    theirs = explore(machine, asked)

    def same(what: str, product: Any, judge: Any) -> Iterator[str]:
        if product != judge:
            yield f"{rules}: {what}: the product says {product}, the judge {judge}"

    yield from same("final outcomes", {plain(o) for o in theirs.final}, found.final)
    yield from same("reachable outcomes", {plain(o) for o in theirs.reachable}, found.reachable)
    yield from same("what sticks", {*theirs.sticks, *theirs.maybe}, found.sticks)
    yield from same("states", len(theirs.search.parents), len(found.states))
    ours = {name: found.length(name) for name in found.broken}
    yield from same("lengths", {name: len(theirs.trace(at)) for name, (at, _) in theirs.broken.items()}, ours)
    first = {nameless(step) for step, _ in found.next[meaning.start]}
    offered = [str(step._replace(about=str.__str__(step.about))) for step, _ in machine.steps(machine.start())]
    yield from same("first steps", {*map(nameless, offered)}, first)
    some = list(theirs.search.parents)
    for at in some if len(some) < 120 else chance.sample(some, 40):
        state = network_text(machine.store.network(at))
        if Meaning(words.read(state), at.left, known=meaning.types).start not in found.states:
            yield f"{rules}: after {theirs.trace(at)}, a state that the judge does not know: {state}"
            break
    yield from same("messages that wait for ever", told_to_wait(meaning, theirs.lost), waiting(meaning, found))
    theirs_by_depth = Counter(len(theirs.search.way(at)) for at in theirs.search.parents)
    yield from same("states by distance", theirs_by_depth, layers(found))


def verdicts(network: Term, rules: str, found: Found, unfold: int = 1) -> Iterator[str]:
    """The verdicts of the question, part by part."""
    text = words.network_text(network)
    verdict = check.atomic(text, rules=mutant(rules), unfold=unfold)
    said = {part: one.status for part, one in verdict.parts.items()}
    for part, status in said.items():
        if part.startswith("progress of "):
            who = part.rpartition(" ")[2].replace("children", "child")
            if (status in ("proved", "bounded")) == (who in found.sticks):
                yield f"{rules}: {part}: {status}, the judge: {sorted(found.sticks)} stick"
        elif part in SAFETY and (status == "refuted") != (part in found.broken):
            yield f"{rules}: {part}: {status}, the judge: {sorted(found.broken)} break"
        elif part not in SAFETY and part not in FALSE and status not in ("proved", "bounded"):
            yield f"{rules}: {part}: {status}"
    yield from warned(Meaning(network, unfold, rules), found, verdict.notes)


def runs(network: Term, seed: int, rules: str, unfold: int = 1) -> Iterator[str]:
    """A run by a seed is one that the judge knows, to its end."""
    found = run(words.network_text(network), seed=seed, rules=mutant(rules), unfold=unfold, steps=60)
    meaning = Meaning(network, unfold, rules)
    at = {meaning.start}
    for n, step in enumerate(found.trace()):
        at = {then for state in at for label, then in meaning.steps(state) if same_words(label, step)}
        if not at:
            yield f"{rules}: a run goes on as the judge does not: {found.trace()[: n + 1]}"
            return
    if len(found.steps) < 60 and not any(
        outcome(meaning.facts(state)) == plain(found.outcome()) and not list(meaning.steps(state)) for state in at
    ):
        yield f"{rules}: a run ends as the judge does not: {found.trace()}, {found.outcome()}"


def same_words(judge: str, product: str) -> bool:
    """Private names have no number that counts, or the name of the text."""
    ours, theirs = judge.split(), product.split()
    return len(ours) == len(theirs) and all(
        a == b or (a.startswith("~") and (b.startswith("~") or b == "z")) for a, b in zip(ours, theirs, strict=True)
    )


def reasons(network: Term, rules: str, unfold: int = 1) -> Iterator[str]:
    """Whether the reasons why something sticks are true of the end that they are given for."""
    verdict = check.atomic(
        words.network_text(network), about="progress", rules=mutant(rules), unfold=unfold, max_states=LIMIT
    )
    known = Meaning(network, unfold, rules)
    for part, found in verdict.parts.items():
        told = found.counterexample
        if not isinstance(told, NetworkRun) or not isinstance(told.machine, Atomic):
            continue
        store = told.machine.store
        ends = [
            Meaning(words.read(network_text(store.network(at))), at.left, rules, known=known.types)
            for at in told.states()
        ]
        trans = "~" if part.endswith("children") else part.rpartition(" ")[2]
        if decided_after(trans, known, ends[-1]):
            yield f"{rules}: {part}: it may still be decided after {told.trace()}"
        if not true_of(trans, told.why, ends, told.trace()):
            yield f"{rules}: {part}: not so: {told.why} after {told.trace()}"


def decided_after(trans: str, known: Meaning, at: Meaning) -> bool:
    """Whether a transaction is decided in some run from there, even if ``!`` unfolds once more than it may; of children
    whether all are, at some end."""
    at.homes = known.homes  # transactions run where they did in the beginning
    for left in (at.start.left, at.start.left + 1):
        try:
            found = everything(at, replace(at.start, left=left), LIMIT)
        except TooLarge:
            return False
        for state, steps in found.next.items():
            facts = at.facts(state)
            decided = facts.committed | facts.aborted
            if trans in decided or (trans == "~" and not steps and children(state) <= decided):
                return True
    return False


def true_of(trans: str, why: str, ends: list[Meaning], trace: list[str]) -> bool:
    """Whether a reason is so at the end."""
    end = ends[-1]
    facts, pending = end.facts(end.start), end.pending(end.start)

    def called(name: str) -> set[str]:
        everyone = {t for soup in end.start.soups for t, _ in soup} | {t for edge in facts.depends for t in edge}
        return {t for t in everyone if t == name or (name.startswith("~") and t.startswith("~"))} or {name}

    def needs(t: str) -> set[str]:
        found: set[str] = set()
        while more := {u for u, v in facts.depends if v == t or v in found} - found:
            found |= more
        return found

    decided = facts.committed | facts.aborted
    mine = [t for t in called(trans) if t not in decided]
    if not mine:
        return False
    told = {
        r".* (?:took a message|is a child) of (\S+), which aborted: .*": lambda t, u: (
            (u, t) in facts.depends and u in facts.aborted
        ),
        r".* depends on (\S+), by way of (?:\S+ and )*\S+, and \1 aborted: .*": lambda t, u: (
            u in needs(t) & facts.aborted and (u, t) not in facts.depends
        ),
        r".* is ready, and in a cycle with (\S+), which never commits": lambda t, u: (
            t in pending and u in needs(t) - decided - {*pending} and t in needs(u)
        ),
        r".* is ready, and depends on (\S+), which never decides": lambda t, u: (
            t in pending and u in needs(t) - decided - {*pending}
        ),
        r".* is ready, and what it depends on cannot commit with it": lambda t, _: t in pending,
        r".* runs outside every place, .*": lambda t, _: any(t == who for who, _ in end.start.soups[0]),
        r"the budget of .*": lambda t, _: any(
            t == who and p[0] == "bang" for soup in end.start.soups for who, p in soup
        ),
        r".* left, and nothing more can happen to it": lambda t, _: any(
            t == who and p[0] != "send" for soup in end.start.soups for who, p in soup
        ),
        r"a time-out of .* ends in 0: .*": lambda t, _: any(
            "TIMEOUT" in step and step.endswith(f" {nameless(t)}") and not size(before, after)
            for step, before, after in zip(map(nameless, trace), ends, ends[1:], strict=False)
        ),
        r"nothing is left of .*": lambda t, _: (
            not any(t == who and p[0] != "send" for soup in end.start.soups for who, p in soup)
        ),
    }
    for form, so in told.items():
        if found := re.fullmatch(form, why):
            others = called(found[1]) if found.groups() else {""}
            return any(so(t, u) for t in mine for u in others)
    return False


def size(before: Meaning, after: Meaning) -> int:
    """How many processes a step made, of one that it used up."""
    count = [sum(map(len, one.start.soups)) for one in (before, after)]
    return 1 + count[1] - count[0]


def goes_on(network: Term, seed: int, unfold: int = 1) -> Iterator[str]:
    """A state as text is a network from which the same can become."""
    chance = random.Random(seed)
    meaning = Meaning(network, unfold)
    machine = Atomic(parse(words.network_text(network)), unfold=unfold)
    at = machine.start()
    for _ in range(chance.randrange(1, 9)):
        if steps := list(machine.steps(at)):
            at = chance.choice(steps)[1]
    text = network_text(machine.store.network(at))
    again = explore(Atomic(parse(text), unfold=at.left), SAFETY)
    state = Meaning(words.read(text), at.left, known=meaning.types).start
    found = everything(meaning, state, LIMIT)
    ends = {outcome(meaning.facts(one)) for one, steps in found.next.items() if not steps}
    theirs = {tuple(tuple(sorted(re.sub(r"~\d+|child_\d+(_\d+)?", "~", t) for t in side)) for side in o)
              for o in again.final}  # fmt: skip
    if theirs != ends or len(found.states) != len(again.search.parents) or again.broken:
        yield f"read again, {theirs} in {len(again.search.parents)} states, was {ends} in {len(found.states)}: {text}"


def ill_typed(text: str, system: Any = "corrected") -> str | None:
    """The rule that does not apply, by the product."""
    try:
        typecheck(parse(text), system=system)
    except IllTyped as bad:
        return bad.rule
    return None


def type_differences(network: Term, system: str = "corrected") -> Iterator[str]:
    """Whether a network is well typed, and by which rule not."""
    wrong = wrong_net(network, system)
    text = words.network_text(network)
    said = ill_typed(text, system)
    if (said is None) != (not wrong):
        yield f"types ({system}): the product says {said}, the judge {wrong}: {text}"
    elif said is not None and said not in wrong:
        yield f"types ({system}): the product says {said}, the judge one of {wrong}: {text}"


def lemma(network: Term, told: Counter[str]) -> Iterator[str]:
    """Lemma 1 in the printed system, where it is false: the same nearest state without a type, or none."""
    if wrong_net(network, "printed"):
        return
    try:
        found = Claims(Meaning(network, 1), LIMIT, "printed").ask(("types",))
    except (TooLarge, KeyError):
        return
    told["Lemma 1 as printed"] += 1
    try:
        theirs = explore(Atomic(parse(words.network_text(network)), unfold=1, system="printed"), ("types",))
    except DataError as refused:
        if "one place per transaction" not in str(refused):
            yield f"Lemma 1: {refused}"
        return
    told["Lemma 1 as printed is false"] += bool(theirs.broken)
    ours, product = ({name: found.length(name) for name in found.broken},
                     {name: len(theirs.trace(at)) for name, (at, _) in theirs.broken.items()})  # fmt: skip
    if ours != product or len(found.states) != len(theirs.search.parents):
        yield f"Lemma 1: the product says {product}, the judge {ours}: {words.network_text(network)}"


def round_trip(network: Term) -> Iterator[str]:
    """What is printed is read as the same, by the judge's own reader."""
    for indent in (None, 2):
        typed = typecheck(parse(words.network_text(network)))
        printed = network_text(typed, indent=indent) if indent else network_text(typed)
        if parse(printed) != typed and network_text(parse(printed)) != network_text(typed):
            yield f"parse and print: {printed}"
        if Meaning(words.read(printed), 1).start != Meaning(network, 1).start:
            yield f"printed is not the same network: {printed}"


def all_of(network: Term, seed: int, variants: tuple[str, ...], told: Counter[str] | None = None) -> Iterator[str]:
    """Everything about one network; nothing if it is too large for the judge.  ``told`` counts."""
    told = Counter() if told is None else told
    yield from type_differences(network)
    yield from round_trip(network)
    unfold = seed % 3
    for rules in variants:
        if rules in VARIANTS:
            try:
                found = Claims(Meaning(network, unfold, rules), LIMIT).ask((*asked_of(rules), "place"))
                yield from differences(network, seed, rules, found, unfold)
                yield from runs(network, seed, rules, unfold)
                yield from verdicts(network, rules, found, unfold)
                if rules == "corrected":
                    yield from goes_on(network, seed, unfold)
                if rules in ("corrected", "cascade", "crash"):
                    yield from reasons(network, rules, unfold)
                told[rules] += 1
            except TooLarge:
                told["too large"] += 1
        if rules in EQUIVALENT:
            broken = check.atomic(
                words.network_text(network), rules=mutant(rules), about=SAFETY, unfold=unfold, max_states=5 * LIMIT
            )
            told[f"{rules}: {broken.status}"] += 1
            if broken.refuted:
                yield f"{rules} is refuted: {broken}"


__all__ = ["all_of", "differences", "ill_typed", "round_trip", "type_differences"]
