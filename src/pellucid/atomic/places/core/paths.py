"""Where places are, and the ways of messages: ``out p . in q . in c``, each step with the token that allows it.

A path is a list of ``[move, name, token]``.  A place checks the steps that are its own: ``out`` of it, ``in`` to it,
``in`` to one of its channels; the rest it passes on.  Who may leave out ``in q``?  Only who is inside of q already: a
client of q, or a message that has just left a place inside of q.  Everybody else has to show the token at the door.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pellucid.atomic.places.records import NAME, plain
from pellucid.errors import PellucidError, UsageError

Step = Sequence[Any]


class NoWay(PellucidError):  # noqa: N818 - reads as what it is
    """A path leads nowhere, or a token is not the right one."""


@dataclass(frozen=True)
class Tree:
    """The places of a network, what each is inside of (None: at the top), their channels; the tokens of *one* place.

    >>> tree = Tree({"agent": None, "airline": None}, {"agent": ["answers"], "airline": ["requests"]})
    >>> tree.route("agent", "airline", "requests")
    [('out', 'agent'), ('in', 'airline'), ('in', 'requests')]
    """

    parents: Mapping[str, str | None]
    channels: Mapping[str, Collection[str]]
    tokens: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)  # of (move, name)

    def __post_init__(self) -> None:
        named = [*self.parents, *(c for channels in self.channels.values() for c in channels)]
        for name in named:
            if not isinstance(name, str) or not re.fullmatch(NAME, name):
                raise UsageError(f"{name!r} is not a name: letters, digits, _ and -, not a digit first, at most 64")
        for place, channels in self.channels.items():
            if place not in self.parents:
                raise UsageError(f"channels are given for {place!r}, which is not a place of the network")
            for channel in channels:
                if channel in self.parents:
                    raise UsageError(f"{place}: the channel {channel!r} has the name of a place: give it another")
        for place in self.parents:
            self.outward(place)

    def outward(self, place: str) -> list[str]:
        """The place, what it is inside of, and so on to the top."""
        way = [place]
        while (parent := self.parents[way[-1]]) is not None:
            if parent not in self.parents:
                raise UsageError(f"{way[-1]!r} is inside of {parent!r}, which is not a place of the network")
            if parent in way:
                raise UsageError(f"{place!r} is inside of itself: {' in '.join([*way, parent])}")
            way.append(parent)
        return way

    def route(self, start: str, place: str, channel: str) -> list[tuple[str, str]]:
        """The way from inside of a place to a channel of another: out as far as needed, then in."""
        for name in (start, place):
            if name not in self.parents:
                raise NoWay(f"{name!r} is not a place of the network; there are: {', '.join(sorted(self.parents))}")
        if channel not in self.channels.get(place, ()):
            there = ", ".join(sorted(self.channels.get(place, ()))) or "none"
            raise NoWay(f"{place!r} has no channel {channel!r}; its channels: {there}")
        out, into = self.outward(start), self.outward(place)
        while out and into and out[-1] == into[-1]:
            out.pop()
            into.pop()
        return [*(("out", p) for p in out), *(("in", p) for p in reversed(into)), ("in", channel)]

    def opens(self, step: Step) -> bool:
        """Whether the step's token is the one that is asked for here; takes as long for a wrong one."""
        known = self.tokens.get((step[0], step[1]))
        return known is not None and hmac.compare_digest(known, step[2])


class Arrived(NamedTuple):
    """The path ends in a channel of this place."""

    channel: str


class Onward(NamedTuple):
    """The rest of the path begins at another place."""

    place: str
    rest: list[Step]


def walk(tree: Tree, here: str, path: Sequence[Step], *, inside: bool) -> Arrived | Onward:
    """Go along a path as far as this place has the say; `NoWay` if a token is wrong or the path leads nowhere.

    >>> tokens = {("in", "q"): b"1", ("in", "c"): b"2"}
    >>> tree = Tree({"p": None, "q": None}, {"q": ["c"]}, tokens)
    >>> walk(tree, "q", [["in", "q", b"1"], ["in", "c", b"2"]], inside=False)
    Arrived(channel='c')
    >>> walk(tree, "q", [["in", "q", b"3"], ["in", "c", b"2"]], inside=False)
    Traceback (most recent call last):
    pellucid.atomic.places.core.paths.NoWay: 'q' was shown a wrong token for 'in q'
    """
    rest = list(path)
    if not inside:
        if not rest or tuple(rest[0][:2]) != ("in", here):
            raise NoWay(f"{here!r} lies at the path's next step, which is {plain(rest[:1]) or 'missing'!r}, not in it")
        _check(tree, here, rest.pop(0))
    while rest:
        move, name = rest[0][:2]
        if move == "out" and name == here:
            _check(tree, here, rest.pop(0))
            return _outside(tree, here, rest)
        if move == "in" and name in tree.channels.get(here, ()):
            _check(tree, here, rest.pop(0))
            if rest:
                raise NoWay(f"the path goes on behind the channel {name!r} of {here!r}: {plain(rest)}")
            return Arrived(name)
        if move == "in" and name in tree.parents and tree.parents[name] == here:
            return Onward(name, rest)
        raise NoWay(f"inside of {here!r} there is no way {plain(rest[:1])!r}")
    raise NoWay(f"the path ends inside of {here!r} and not in a channel")


def ends_in(tree: Tree, here: str, path: Sequence[Step]) -> tuple[str, str]:
    """The place and the channel in which a path from inside of a place ends, whatever its tokens; else `NoWay`.

    >>> tree = Tree({"p": None, "q": None, "r": "q"}, {"q": ["c"], "r": ["d"]})
    >>> ends_in(tree, "p", [["out", "p", b""], ["in", "q", b""], ["in", "r", b""], ["in", "d", b""]])
    ('r', 'd')
    >>> ends_in(tree, "p", [["in", "q", b""], ["in", "c", b""]])
    Traceback (most recent call last):
    pellucid.atomic.places.core.paths.NoWay: inside of 'p' there is no way 'in q'
    """
    at: str | None = here
    for number, (move, name, _) in enumerate(path):
        if move == "out" and at == name:
            at = tree.parents[name]
        elif move == "in" and name in tree.parents and tree.parents[name] == at:
            at = name
        elif move == "in" and at is not None and name in tree.channels.get(at, ()):
            if number + 1 < len(path):
                raise NoWay(f"the path goes on behind the channel {name!r} of {at!r}: {plain(path[number + 1 :])}")
            return at, name
        else:
            where = f"inside of {at!r}" if at else "outside of all places"
            raise NoWay(f"{where} there is no way {f'{move} {name}'!r}")
    raise NoWay(f"the path ends {f'inside of {at!r}' if at else 'outside of all places'} and not in a channel")


def _outside(tree: Tree, here: str, rest: list[Step]) -> Onward:
    """A message has left this place: who has the say next?"""
    around = tree.parents[here]
    if around is not None:
        return Onward(around, rest)
    if rest and rest[0][0] == "in" and rest[0][1] in tree.parents and tree.parents[rest[0][1]] is None:
        return Onward(rest[0][1], rest)
    raise NoWay(f"outside of {here!r} there is no way {plain(rest[:1])!r}" if rest else "the path ends outside")


def _check(tree: Tree, here: str, step: Step) -> None:
    if not tree.opens(step):
        raise NoWay(f"{here!r} was shown a wrong token for {plain([step])!r}")
