"""Both systems of types: as printed, and made consistent.  `wrong` says every rule that does not apply."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.judge.atomic.draw import CAP, CHAN, KINDS, LINK, PLACE, SELVES
from tests.judge.atomic.terms import TRANS, UNIT, Term, is_cont, parts_of, same, unrolled

if TYPE_CHECKING:
    from tests.judge.atomic.meaning import Meaning, State

Gamma = dict[str, Term]


class Wrong(Exception):  # noqa: N818 - an answer
    """A rule that does not apply."""


def ambient(kind: Term, system: str) -> bool:
    """Whether names of this type make capabilities."""
    return unrolled(kind)[0] in ("Place", "Chan", "Packet" if system == "printed" else "Key")


def ill_formed(kind: Term, system: str) -> bool:
    """Whether a type is none: capabilities are of ambients, a transaction is in no other type, what is recursive is
    bound and has something around it.  Asked of all that a type unrolls to."""
    queue, seen = [kind], set()
    while queue:
        one = queue.pop()
        if one in seen:
            continue
        seen.add(one)
        head = unrolled(one)
        if head[0] in ("var", "none") or (head[0] == "Key" and system == "printed"):
            return True
        inner = parts_of(head)
        if any(unrolled(part) == TRANS for part in inner) or (head[0] == "Cap" and not ambient(inner[0], system)):
            return True
        queue += inner
    return False


def of_name(kind: Term, system: str) -> bool:
    """Whether names can have this type."""
    return not ill_formed(kind, system) and (unrolled(kind) == TRANS or ambient(kind, system))


def value(v: Term, gamma: Gamma, system: str) -> Term:
    """The type of a value."""
    key = "Packet" if system == "printed" else "Key"
    match v:
        case ("name", name):
            if unrolled(gamma.get(name, TRANS)) == TRANS:  # free, or no value
                raise Wrong("VAL PARAM")
            return gamma[name]
        case ("in" | "out" as way, inner):
            rule = "VAL INPUT CAP" if way == "in" else "VAL OUTPUT CAP"
            if inner[0] != "name" or not ambient(kind := value(inner, gamma, system), system):
                raise Wrong(rule)
            return ("Cap", kind)
        case ("tuple", parts):
            return ("tuple", tuple(value(part, gamma, system) for part in parts))
        case ("packet", name, inner):
            content = inside(value(name, gamma, system), key)
            if content is None or name[0] != "name" or not same(value(inner, gamma, system), content):
                raise Wrong("VAL PACKET")
            return ("Packet", content)
        case ("path", steps):
            *before, last = [value(step, gamma, system) for step in steps]
            if inside(last, "Cap") is None:
                raise Wrong("VAL COMPOSE CAP")
            content = inside(last, "Cap", "Key")
            if system != "printed" and content is not None:
                packets = inside(before[-1], "Cap", "Chan", "Packet")
                if packets is not None and same(packets, content):
                    before.pop()
            if any(not same(kind, ("Cap", ("Place",))) for kind in before):
                raise Wrong("VAL COMPOSE CAP")
            return last
    raise Wrong("no value")


def inside(kind: Term, *shape: str) -> Term | None:
    """What is in ``Cap[Chan[...]]`` and the like, or None."""
    for name in shape:
        kind = unrolled(kind)
        if len(kind) != 2 or kind[0] != name:
            return None
        kind = kind[1]
    return kind


def fits(found: Term | None, wanted: Term | None) -> bool:
    """Whether both are types, and equal."""
    return found is not None and wanted is not None and same(found, wanted)


def wrong(process: Term, gamma: Gamma, system: str = "corrected") -> Iterator[str]:
    """Every rule that does not apply in a process; nothing if it is well typed."""
    key = "Packet" if system == "printed" else "Key"

    def typed(*values: Term) -> list[Term] | None:
        """Their types, or None; what the first one has to be is asked even if another one has no type."""
        found: list[Term] = []
        for one in values:
            try:
                found.append(value(one, gamma, system))
            except Wrong as bad:
                errors.append(str(bad))
                found.append(("none",))
        if ("none",) not in found:
            return found
        word = process[0] if not is_cont(process[-1]) or process[0] != "send" else "send process"
        of = "Chan" if word in ("send", "receive", "forward") else key
        if found[0] != ("none",) and word not in ("let", "app") and inside(found[0], "Cap", of) is None:
            errors.append(f"PROC {word.upper()}")
        return None

    def cont(f: Term) -> Term:
        if ill_formed(f[2], system) or unrolled(f[2]) == TRANS:
            errors.append("PROC CONT")
        yield_all(wrong(f[3], gamma | {f[1]: f[2]}, system))
        return ("proc", f[2])

    def yield_all(more: Iterator[str]) -> None:
        errors.extend(more)

    errors: list[str] = []
    match process:
        case ("send", where, what) if is_cont(what):
            kinds, shape = typed(where), cont(what)
            carried = inside(shape[1], "Cap", "Chan")
            if carried is None or (kinds and not fits(inside(kinds[0], "Cap", key), shape)):
                errors.append("PROC SEND PROCESS")
        case ("send", where, what):
            kinds = typed(where, what)
            if kinds and not fits(inside(kinds[0], "Cap", "Chan"), kinds[1]):
                errors.append("PROC SEND")
        case ("receive", where, then, late):
            kinds, shape = typed(where), cont(then)
            if kinds and not fits(inside(kinds[0], "Cap", "Chan"), shape[1]):
                errors.append("PROC RECEIVE")
            yield_all(wrong(late, gamma, system))
        case ("crypt" | "decrypt" as word, where, what, then):
            kinds, shape = typed(where, what), cont(then)
            content = inside(kinds[0], "Cap", key) if kinds else None
            plain, sealed = content, ("Packet", content)
            wanted = (plain, sealed) if word == "crypt" else (sealed, plain)
            if kinds and (content is None or not same(("tuple", (kinds[1], shape[1])), ("tuple", wanted))):
                errors.append(f"PROC {word.upper()}")
        case ("app", then, what):
            kinds, shape = typed(what), cont(then)
            if kinds and not same(kinds[0], shape[1]):
                errors.append("PROC CONTINUE")
        case ("let", bound, what, then):
            kinds = typed(what)
            whole = unrolled(kinds[0]) if kinds else ()
            if kinds and (whole[0] != "tuple" or len(whole[1]) != len(bound)):
                errors.append("PROC LET")
            elif kinds:
                yield_all(wrong(then, gamma | dict(zip(bound, whole[1], strict=True)), system))
        case ("bang" | "child", then):
            yield_all(wrong(then, gamma, system))
        case ("par", parts):
            for part in parts:
                yield_all(wrong(part, gamma, system))
        case ("new", name, kind, then):
            if unrolled(kind) == TRANS or not of_name(kind, system):
                errors.append("PROC NEW")
            yield_all(wrong(then, gamma | {name: kind}, system))
        case ("forward" | "open" as word, where, other, then, late):
            kinds = typed(where, other)
            shape = ("Cap", "Chan", "Packet") if word == "forward" else ("Cap", key)
            content = inside(kinds[0], *shape) if kinds else None
            carried = inside(content, "proc", "Cap", "Chan") if content else None
            other_wanted = kinds[0] if kinds and word == "forward" else ("Cap", ("Chan", carried))
            if kinds and (carried is None or not same(kinds[1], other_wanted)):
                errors.append(f"PROC {word.upper()}")
            yield_all(wrong(then, gamma, system))
            yield_all(wrong(late, gamma, system))
        case ("nil",) | ("commit",) | ("abort",):
            pass
        case _:
            raise ValueError(process)
    yield from errors


def wrong_in(meaning: Meaning, state: State, system: str = "corrected") -> list[str]:
    """Every rule that does not apply in a state: processes and records."""

    def gamma(term: Any) -> Gamma:
        from tests.judge.atomic.meaning import privates

        return meaning.types | {name: meaning.kind_of(name) or UNIT for name in privates(term)}

    atoms = [atom for soup in state.soups for atom in soup]
    for log in state.logs:
        for record in log:
            if record[0] == "child":
                atoms.append((record[2], record[3]))
            elif len(record) == 5:
                atoms += [(record[1], record[2]), (record[3], record[4])]
            else:
                atoms.append((record[1], (record[0],)))
    found = []
    for trans, process in atoms:
        if unrolled(meaning.kind_of(trans) or UNIT) != TRANS:
            found.append("NET PROCESS")
        found += wrong(process, gamma(process), system)
    return found


def wrong_net(network: Term, system: str = "corrected", gamma: Gamma | None = None) -> list[str]:
    """Every rule that does not apply in a network."""
    gamma = gamma or {}
    match network:
        case ("place", name, inner):
            bad = [] if unrolled(gamma.get(name, UNIT)) == ("Place",) else ["NET PLACE"]
            return bad + wrong_net(inner, system, gamma)
        case ("wire", parts):
            return [one for part in parts for one in wrong_net(part, system, gamma)]
        case ("new", name, kind, inner):
            bad = [] if of_name(kind, system) else ["NET NEW"]
            return bad + wrong_net(inner, system, gamma | {name: kind})
        case ("runs", trans, process):
            bad = [] if unrolled(gamma.get(trans, UNIT)) == TRANS else ["NET PROCESS"]
            return bad + list(wrong(process, gamma, system))
    raise ValueError(network)


# Networks with one thing changed, most of which have no type any more.

TYPES: tuple[Term, ...] = (
    UNIT,
    CHAN,
    PLACE,
    CAP,
    ("Key", UNIT),
    ("Packet", UNIT),
    ("Chan", CHAN),
    ("Key", CHAN),
    *SELVES,
    LINK,
    ("rec", "X", PLACE),
    ("Chan", ("rec", "X", ("tuple", ()))),
    ("rec", "X", ("tuple", (("Chan", ("var", "X")), ("Cap", ("Chan", ("var", "X")))))),
    ("rec", "X", ("Chan", ("Cap", ("rec", "Y", ("var", "X"))))),
    # and types that are none
    ("rec", "X", ("var", "X")),
    ("rec", "X", ("rec", "Y", ("var", "X"))),
    ("Chan", ("rec", "X", ("tuple", (("Cap", ("var", "X")),)))),
    ("Chan", ("rec", "X", ("Cap", ("var", "X")))),
    ("rec", "X", ("Chan", ("rec", "Y", ("tuple", (("Cap", ("var", "Y")), ("var", "X")))))),
    ("Chan", ("rec", "X", TRANS)),
    ("Key", TRANS),
    ("Chan", ("Packet", TRANS)),
    ("Chan", ("var", "X")),
    ("rec", "X", TRANS),
    TRANS,
)


def places(term: Any, way: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Term]]:
    """Every tuple in a term, and how to get there."""
    if isinstance(term, tuple):
        yield way, term
        for n, part in enumerate(term):
            yield from places(part, (*way, n))


def swapped(term: Any, way: tuple[int, ...], new: Any) -> Any:
    """The term with something else there."""
    if not way:
        return new
    return (*term[: way[0]], swapped(term[way[0]], way[1:], new), *term[way[0] + 1 :])


def spoiled(network: Term, chance: random.Random) -> Term:
    """One change: a name, a type, a step of a capability, who runs, where, or a new transaction in a process."""
    changes: list[tuple[tuple[int, ...], Term]] = []
    names = [*KINDS, "p", "q", "t1", "x", "free"]
    for way, term in places(network):
        match term:
            case ("name", str()):
                changes += [(way, ("name", chance.choice(names)))] * 3
            case ("path", steps) if len(steps) > 2:
                changes.append((way, ("path", steps[1:])))
                changes.append((way, ("path", steps[:-1])))
            case ("fn", x, _, body):
                changes.append((way, ("fn", x, chance.choice(TYPES), body)))
            case ("new", n, _, body) if n in KINDS or n == "z" or chance.random() < 0.2:
                changes.append((way, ("new", n, chance.choice(TYPES), body)))
            case ("runs", _, process):
                changes.append((way, ("runs", chance.choice(["t9", "p", "c"]), process)))
                changes.append((way, ("runs", "t1", ("new", "t7", TRANS, process))))
            case ("place", _, inner):
                changes.append((way, ("place", chance.choice(["t1", "c", "o"]), inner)))
            case ("let", bound, what, then):
                changes.append((way, ("let", (*bound, "more"), what, then)))
            case ("tuple", parts) if parts and all(isinstance(part, tuple) and part[0] == "name" for part in parts):
                changes.append((way, ("tuple", (*parts, ("name", "c")))))
    way, new = chance.choice(changes)
    made: Term = swapped(network, way, new)
    return made


def printed(term: Any) -> Any:
    """The same network with the types of the printed system."""
    if isinstance(term, tuple):
        return ("Packet", printed(term[1])) if term[:1] == ("Key",) else tuple(map(printed, term))
    return term
