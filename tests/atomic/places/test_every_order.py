"""The code itself, in every order: two places with a transaction each that need each other and are to commit.

Every message may come next, one may be lost or come twice, a place may die between any two of them with or without what
it had not synced; after each step what lasts is judged, and from every state everything must come to an end that is
right.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.atomic.places import oracle
from tests.atomic.places.simulator import World

Choice = tuple[Any, ...]


def begin() -> World:
    """Both are pending and know it of each other; the coordinator's request to prepare is on its way."""
    world = World({"p": ["c"], "q": ["d"]}, watch=False)
    t, u = world.begin("p"), world.begin("q")
    world.send(t, "q", "d")
    world.send(u, "p", "c")
    world.ask("p", "receive", t=t, channel="c", timeout=0)
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("p", "commit", t=t, timeout=None)
    world.ask("q", "commit", t=u, timeout=None)
    world.until("prepare")
    world.flying = [world.flying[n] for n in world.find("prepare")]
    return world


def choices(world: World, kills: int, losses: int) -> list[Choice]:
    """What can happen next."""
    down = [p for p, core in world.cores.items() if core is None]
    found: list[Choice] = [("start", p) for p in down]
    flying = sorted(set(world.flying))
    found += [("deliver", message) for message in flying]
    if not flying and not down:
        found.append(("tick",))
    if losses:
        found += [("lose", message) for message in flying] + [("twice", message) for message in flying]
    if kills:
        found += [("kill", p, lost) for p in world.parents if p not in down for lost in ("all", "none")]
    return found


def do(world: World, choice: Choice) -> None:
    if choice[0] == "start":
        world.start(choice[1])
    elif choice[0] == "kill":
        world.kill(*choice[1:])
    elif choice[0] == "tick":
        world.tick(0.6)
    elif choice[0] == "lose":
        world.flying.remove(choice[1])
    else:
        world.deliver(world.flying.index(choice[1]), keep=choice[0] == "twice")


def seen(world: World) -> str:
    """All that can make a difference later."""
    parts: list[Any] = [sorted(world.flying), world.disk, world.lasting]
    for place, core in sorted(world.cores.items()):
        if core is None:
            parts.append((place, None))
            continue
        nodes = {t: (n.state, sorted(n.needs), n.ready, n.asked, n.told) for t, n in sorted(core.graph.nodes.items())}
        tries = {a: (x.members, sorted(x.missing)) for a, x in core.attempts.items()}
        parts.append((
            place, nodes, tries, core.tried, sorted(core.foreign.items()), sorted(core.held.items()), core.doomed,
            sorted((t, sorted(w)) for t, w in core.watchers.items()), sorted(core._again), sorted(core._asking),
            core._acks, sorted(core._unheard), sorted(core.met.items()), sorted(core._asked_met),
        ))  # fmt: skip
    return repr(_untimed(parts))


def _untimed(parts: list[Any]) -> list[Any]:
    """Times of records say nothing."""
    disk = {place: [(kind, data) for kind, data, _ in lines] for place, lines in parts[1].items()}
    return [parts[0], disk, *parts[2:]]


def replay(path: tuple[Choice, ...]) -> World:
    world = begin()
    for choice in path:
        do(world, choice)
    return world


def explore(kills: int, losses: int, depth: int) -> tuple[int, set[str]]:
    """Breadth first; how many states there are, and what becomes of the two."""
    known = {seen(begin())}
    layer: list[tuple[tuple[Choice, ...], int, int]] = [((), kills, losses)]
    ends: set[str] = set()
    while layer:
        following = []
        for path, kills_left, losses_left in layer:
            world = replay(path)
            options = choices(world, kills_left, losses_left) if len(path) < depth else []
            logs = world.logs(lasting=True)
            assert not (wrong := oracle.judge(logs)), (path, wrong)
            world.restart_all()
            world.run(patience=2.0)
            world.judge()
            ends.add(" ".join(sorted({world.status(t) for t in ("p:1-m1:1", "q:1-m2:1")})))
            for choice in options:
                after = (*path, choice)
                left = kills_left - (choice[0] == "kill"), losses_left - (choice[0] in ("lose", "twice"))
                key = f"{left} {seen(replay(after))}"
                if key not in known:
                    known.add(key)
                    following.append((after, *left))
        layer = following
    return len(known), ends


def test_every_order_of_messages() -> None:
    states, ends = explore(kills=0, losses=0, depth=30)
    assert ends == {"committed"}
    assert states > 50


@pytest.mark.parametrize(("kills", "losses", "depth"), [(1, 0, 6), (0, 1, 5), (1, 1, 4), (2, 0, 5)])
def test_every_order_with_kills_and_losses(kills: int, losses: int, depth: int) -> None:
    states, ends = explore(kills, losses, depth)
    assert ends == ({"aborted", "committed"} if kills else {"committed"})  # both or none, whoever dies and when
    assert states > 300


@pytest.mark.long
@pytest.mark.parametrize(("kills", "losses", "depth"), [(1, 0, 11), (1, 1, 7), (2, 1, 6)])
def test_every_order_farther(kills: int, losses: int, depth: int) -> None:
    states, ends = explore(kills, losses, depth)
    assert ends == {"aborted", "committed"}
    assert states > 3000
