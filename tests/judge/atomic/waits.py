"""Messages that wait for ever: places do not move, so one that can go nowhere from where it stands, and that nobody
could take there, whoever came and whatever the log said, stays (unless its own transaction aborts).

What nobody could take is found by trying: a receiver of every kind is put beside it, for every channel and key that it
names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.judge.atomic.claims import Found
from tests.judge.atomic.meaning import Atom, Meaning, State, nameless
from tests.judge.atomic.rec import unrolled
from tests.judge.atomic.terms import NIL, UNIT, Term, closed, free, path
from tests.judge.atomic.text import Reader

Waits = tuple[str, str, Term]  # who sent it, where it is, the message
SENT = re.compile(r"(\S+) sent a message that waits for ever at (\S+): (send\(.*\)) (?:cannot|finds|is|has|can) .*")
NOWHERE = re.compile(r"(\S+) has a capability for (\S+), and no place is called \2: .*")


def takers(message: Term) -> Iterator[Term]:
    """A process of every kind that takes messages, for every name of this one."""
    names = [("name", name) for name in free(message[1])]
    for channel in names:
        yield ("receive", ("out", channel), ("fn", "_1", UNIT, NIL), NIL)
        yield ("forward", ("out", channel), ("in", channel), NIL, NIL)
        for key in names:
            yield ("open", path(("out", channel), ("out", key)), ("in", channel), NIL, NIL)


def stays(meaning: Meaning, where: int, atom: Atom) -> bool:
    """Whether a message can neither go on nor be taken."""

    def alone(*atoms: Atom) -> State:
        soups: list[tuple[Atom, ...]] = [()] * len(meaning.names)
        soups[where] = atoms
        return State(tuple(soups), ((),) * len(soups), 0)

    if any(True for _ in meaning.moves(alone(atom), where, atom)):
        return False
    others = [("somebody", taker) for taker in takers(atom[1])] if where else []  # outside nothing is taken
    return not any(True for one in others for _ in meaning.takes(alone(one, atom), where, one))


def labels(meaning: Meaning) -> list[str]:
    """What places are called: by number, where several have one name."""
    count, before = Counter(meaning.names), Counter[str]()
    found = ["outside"]
    for name in meaning.names[1:]:
        before[name] += 1
        found.append(f"{name}({before[name]})" if count[name] > 1 else name)
    return found


def plain(meaning: Meaning, message: Term) -> Term:
    """A message in which private names, which everybody numbers or calls differently, are all one."""

    def without(term: Term) -> Term:
        if term[:1] == ("name",):
            return term if term[1] in meaning.types or term[1].startswith("_") else ("name", "~")
        return tuple(without(part) if isinstance(part, tuple) else part for part in term)

    return closed(without(closed(message)))


def waiting(meaning: Meaning, found: Found) -> set[Waits]:
    """All such messages of all states."""
    known: dict[tuple[int, Atom], bool] = {}
    for state in found.states:
        for where, soup in enumerate(state.soups):
            for atom in soup:
                if atom[1][0] == "send" and (where, atom) not in known:
                    known[where, atom] = stays(meaning, where, atom)
    called = labels(meaning)
    return {
        (nameless(trans), called[where], plain(meaning, message))
        for (where, (trans, message)), so in known.items()
        if so
    }


def told(meaning: Meaning, words: Iterable[str]) -> set[Waits]:
    """What the product tells of, read."""
    found = set()
    for line in words:
        said = SENT.fullmatch(line)
        if said is None:
            raise ValueError(f"a warning that nobody understands: {line}")
        found.add((nameless(said[1]), said[2], plain(meaning, Reader(said[3]).process())))
    return found


def missing(meaning: Meaning) -> set[str]:
    """Names of places that there are not."""
    return {name for name, kind in meaning.types.items() if unrolled(kind) == ("Place",) and name not in meaning.names}


def nowhere(meaning: Meaning) -> set[tuple[str, str]]:
    """Who names a place that there is not, from the start."""
    gone = missing(meaning)
    return {(t, name) for soup in meaning.start.soups for t, process in soup for name in free(process) & gone}


def warned(meaning: Meaning, found: Found, notes: Iterable[str]) -> Iterator[str]:
    """Whether a verdict warns of what it should: of places that there are not by their name, of other messages each."""
    said = [note.removeprefix("warning: ") for note in notes if note.startswith("warning: ")]
    cut = [line for line in said if line.startswith("there are ")]
    static = {(match[1], match[2]) for line in said if (match := NOWHERE.fullmatch(line))}
    rest = told(meaning, [line for line in said if line not in cut and not NOWHERE.fullmatch(line)])
    gone = [("in", ("name", name)) for name in missing(meaning)]
    wanted = {one for one in waiting(meaning, found) if first(one[2]) not in gone}
    if cut:
        if not static <= nowhere(meaning) or not rest <= wanted or len(said) != 9:
            yield f"of {len(nowhere(meaning)) + len(wanted)} warnings these are shown: {said}"
    elif static != nowhere(meaning) or rest != wanted:
        yield f"warnings {sorted(static)} {sorted(rest)}, the judge {sorted(nowhere(meaning))} {sorted(wanted)}"


def first(message: Term) -> Term:
    """The next step of a message."""
    step: Term = message[1][1][0] if message[1][0] == "path" else message[1]
    return step
