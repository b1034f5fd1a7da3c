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
    world.tick()
    world.tick(3.0)  # nobody has shown that the log is an older copy
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


def test_after_a_restart_of_the_reader_the_dead_are_asked_for_until_told_and_nobody_sees_or_gets_them() -> None:
    """No log of the reader has that the senders aborted: it comes up without that, again and again."""
    world = World(CHANNELS, watch=False)
    good = world.begin("q", client="other")
    world.send(good, "p", "c", "good", client="other")
    world.ask("q", "commit", client="other", t=good, timeout=None)
    for n in range(1100):  # more than one question asks about
        dead = world.begin("q")
        world.send(dead, "p", "c", n)
        world.ask("q", "abort", t=dead)
    world.quiet()
    assert world.ask("p", "metrics")["messages"] == {"c": 1}
    for lost in (False, True):
        world.kill("p", "none")
        world.start("p")
        if lost:
            world.flying.clear()  # the first question: another one follows
        world.tick(1.0)
        world.quiet()
        assert [one[3] for one in world.ask("p", "look", channel="c")["messages"]] == ["good"]
        assert world.ask("p", "metrics")["messages"] == {"c": 1}
        t = world.begin("p")
        assert world.ask("p", "receive", t=t, channel="c", timeout=0)["value"] == "good"
        assert world.ask("p", "receive", t=t, channel="c", timeout=0)["error"] == "timeout"
        world.ask("p", "abort", t=t)


def test_a_sender_that_is_down_is_asked_ever_more_seldom() -> None:
    world = World(CHANNELS)
    dead = world.begin("q")
    world.send(dead, "p", "c", "dead")
    world.tick(1.0)
    world.kill("q", "none")
    world.kill("p", "none")
    world.start("p")
    before = len(world.said)
    for _ in range(600):
        world.tick(0.1)
        world.flying.clear()
    asked = [said for said in world.said[before:] if said[2]["kind"] == "ask"]
    assert 4 <= len(asked) <= 10
    world.restart_all()
    world.tick(15.0)
    world.quiet()
    assert world.ask("p", "look", channel="c")["messages"] == []
