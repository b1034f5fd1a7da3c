"""Programs that the simulated places run."""

from __future__ import annotations

import random
from typing import Any

from tests.atomic.places.simulator import Program, Script, World

FLAT = {"agent": ["answers"], "airline": ["requests", "seats"], "hotel": ["requests", "rooms"]}


def note(world: World, t: str, answer: dict[str, Any]) -> None:
    """What a client was told must be so, whatever happens later."""
    if answer.get("status") == "committed":
        world.promised[t] = "committed"
    if "aborted" in (answer.get("status"), answer.get("error")):
        world.promised[t] = "aborted"


def fill(channel: str, values: list[Any]) -> Program:
    """Put messages into a channel of the own place."""

    def script(world: World, place: str) -> Script:
        t = (yield "begin", {"parent": None})["t"]
        for value in values:
            yield "send", {"t": t, "path": world.path(place, place, channel), "value": value}
        answer = yield "commit", {"t": t, "timeout": None}
        note(world, t, answer)

    return script


def book(world: World, place: str) -> Script:
    """The agent: asks for a seat and a room, waits for both, commits: a component over three places."""
    begun = yield "begin", {"parent": None}
    t = begun["t"]
    for other in ("airline", "hotel"):
        yield "send", {"t": t, "path": world.path(place, other, "requests"), "value": t}
    for _ in range(2):
        answer = yield "receive", {"t": t, "channel": "answers", "timeout": 30}
        if "error" in answer:
            yield "abort", {"t": t}
            return
    answer = yield "commit", {"t": t, "timeout": None}
    note(world, t, answer)


def clerk(stock: str) -> Program:
    """Takes one from the stock for a request, and answers: it depends on the agent, and the agent on it."""

    def script(world: World, place: str) -> Script:
        t = (yield "begin", {"parent": None})["t"]
        asked = yield "receive", {"t": t, "channel": "requests", "timeout": 30}
        one = yield "receive", {"t": t, "channel": stock, "timeout": 30}
        if "error" in asked or "error" in one:
            yield "abort", {"t": t}
            return
        yield "send", {"t": t, "path": world.path(place, "agent", "answers"), "value": one["value"]}
        answer = yield "commit", {"t": t, "timeout": None}
        note(world, t, answer)

    return script


def booking(world: World, times: int = 1) -> None:
    """Agents, and clerks for them."""
    world.client("airline", fill("seats", [f"seat {n}" for n in range(times)]))
    world.client("hotel", fill("rooms", [f"room {n}" for n in range(times)]))
    for _ in range(times):
        world.client("agent", book)
        world.client("airline", clerk("seats"))
        world.client("hotel", clerk("rooms"))


def chain(world: World) -> None:
    """Each takes what the one before sent, before that one commits."""
    names = list(world.parents)

    def first(world: World, place: str) -> Script:
        t = (yield "begin", {"parent": None})["t"]
        yield "send", {"t": t, "path": world.path(place, names[1], world.channels[names[1]][0]), "value": 1}
        child = (yield "begin", {"parent": t})["t"]
        yield "send", {"t": child, "path": world.path(place, names[1], world.channels[names[1]][0]), "value": 2}
        yield "commit", {"t": child, "timeout": 1}
        yield "commit", {"t": t, "timeout": None}

    def then(to: str) -> Program:
        def script(world: World, place: str) -> Script:
            t = (yield "begin", {"parent": None})["t"]
            got = yield "receive", {"t": t, "channel": world.channels[place][0], "timeout": 20}
            if "error" not in got:
                yield "send", {"t": t, "path": world.path(place, to, world.channels[to][0]), "value": got["value"]}
            yield "commit", {"t": t, "timeout": None}

        return script

    world.client(names[0], first)
    world.client(names[1], then(names[2]))
    world.client(names[1], then(names[2]))
    world.client(names[2], then(names[0]))
    world.client(names[2], then(names[0]))


def anything(chance: random.Random) -> Program:
    """Sends, receives, children, commits and aborts by chance."""

    def script(world: World, place: str) -> Script:
        mine: list[str] = []
        for _ in range(chance.randint(1, 2)):
            parent = chance.choice(mine) if mine and chance.random() < 0.5 else None
            begun = yield "begin", {"parent": parent}
            if "t" in begun:
                mine.append(begun["t"])
        for _ in range(chance.randint(1, 6)):
            t = chance.choice(mine)
            if chance.random() < 0.55:
                other = chance.choice(list(world.parents))
                channel = chance.choice(list(world.channels[other]))
                yield "send", {"t": t, "path": world.path(place, other, channel), "value": chance.randint(0, 3)}
            else:
                channel = chance.choice(list(world.channels[place]))
                yield "receive", {"t": t, "channel": channel, "timeout": chance.choice([0, 2, 5])}
        for t in mine:
            if chance.random() < 0.8:
                answer = yield "commit", {"t": t, "timeout": chance.choice([None, 0, 3])}
                note(world, t, answer)
            else:
                note(world, t, (yield "abort", {"t": t}))

    return script


def ring(chance: random.Random) -> Program:
    """To the next place and from the one before: transactions that can commit only with others, at all places."""

    def script(world: World, place: str) -> Script:
        places = list(world.parents)
        after = places[(places.index(place) + 1) % len(places)]
        t = (yield "begin", {"parent": None})["t"]
        for _ in range(chance.choice([1, 1, 2])):
            yield "send", {"t": t, "path": world.path(place, after, world.channels[after][0]), "value": t}
        got = yield "receive", {"t": t, "channel": world.channels[place][0], "timeout": 20}
        if "error" in got and chance.random() < 0.5:
            note(world, t, (yield "abort", {"t": t}))
            return
        answer = yield "commit", {"t": t, "timeout": chance.choice([None, None, 0, 3])}
        note(world, t, answer)
        if answer.get("status") in ("pending", "prepared") and chance.random() < 0.3:
            note(world, t, (yield "abort", {"t": t}))
        elif answer.get("status") in ("pending", "prepared"):
            note(world, t, (yield "commit", {"t": t, "timeout": 5}))

    return script
