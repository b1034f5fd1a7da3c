"""Messages of transactions that aborted while nobody could be told: they do not stand in the way for ever."""

from __future__ import annotations

from tests.atomic.places.simulator import World

CHANNELS = {"p": ["c"], "q": ["d"]}


def test_a_dead_message_is_forgotten_when_it_was_put_back() -> None:
    """Its sender crashes with its place, and the reader's place was down: nobody pushes it.  A program takes it, does
    not want it and gives up; after that the place knows, and the next program gets what lies behind."""
    world = World(CHANNELS, seed=1)
    dead = world.begin("q")
    world.send(dead, "p", "c", "dead")
    good = world.begin("q", client="other")
    world.send(good, "p", "c", "good", client="other")
    world.ask("q", "commit", client="other", t=good, timeout=None)
    world.tick(1.0)
    world.kill("p", "none")
    world.kill("q", "none")
    world.flying.clear()
    world.restart_all()
    world.flying.clear()
    taken = []
    for _ in range(3):
        t = world.begin("p")
        taken.append(world.ask("p", "receive", t=t, channel="c", timeout=0)["value"])
        world.ask("p", "abort", t=t)
        world.quiet()
    assert taken == ["dead", "good", "good"]


def test_who_took_a_dead_message_hears_of_it_before_it_asks_to_commit() -> None:
    world = World(CHANNELS)
    dead = world.begin("q")
    world.send(dead, "p", "c", "dead")
    world.ask("q", "abort", t=dead)
    world.flying.clear()  # nobody is told
    t = world.begin("p")
    assert world.ask("p", "receive", t=t, channel="c", timeout=0)["value"] == "dead"
    world.ask("p", "receive", t=t, channel="c", timeout=None)
    waiting = world.last
    world.quiet()
    assert world.answers[waiting]["why"] == f"cascade from {dead}"
    again = world.begin("p")
    assert world.ask("p", "receive", t=again, channel="c", timeout=0)["error"] == "timeout"
