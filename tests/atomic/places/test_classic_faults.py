"""Each classic fault of two-phase commit, by its name: what it would do, and that it does not.

=====================================================  ================================================================
fault                                                  test
=====================================================  ================================================================
crash before and after each write and each message     `test_simulated.py::test_killed_before_and_after_each…`,
                                                       `test_what_a_participant_says_lasts`,
                                                       `test_that_it_is_pending_lasts_when_it_is_told`; of real
                                                       processes `test_kills.py::test_killed_at_a_moment`
between the first and the second commit                `test_crash_between_the_first_and_the_second_commit`,
                                                       `test_a_decision_arrives_by_either_way`
recovery while another prepares                        `test_recovery_while_another_prepares`,
                                                       `test_recovery_of_a_pending_coordinator_while_another…`
a prepare that ends after recovery made its list       `test_a_prepare_that_ends_after_recovery_made_its_list`,
                                                       `test_a_late_request_to_prepare_what_was_given_up_is_refused`
a checkpoint that races with the commit record         `test_log.py::test_a_checkpoint_that_races_with_the_records…`
recoverer and owner decide under different ids         `test_recoverer_and_owner_never_decide_under_the_same_name`
a decision only in memory                              `test_a_decision_is_heard_only_when_it_lasts`,
                                                       `test_a_host_that_speaks_before_it_writes_is_found_out`
readers between the phases                             `test_readers_between_the_phases_wait`,
                                                       `test_readers_that_take_what_is_only_prepared_wait`
an empty transaction                                   `test_an_empty_transaction_is_one_synced_write`
double commit, commit after abort                      `test_double_commit_commit_after_abort_abort_after_commit`
one failing commit must not stop the others            `test_one_failing_commit_does_not_stop_the_others`
a time-out must not abort what is prepared             `test_a_time_out_does_not_abort_what_is_prepared`,
                                                       `test_an_attempt_that_takes_too_long_is_given_up_and…`,
                                                       `test_a_commit_that_times_out_stays_pending_and_is…`
a late message must not hit the next transaction       `test_a_late_message_does_not_hit_the_next_attempt`,
                                                       `test_a_late_message_does_not_hit_the_next_transaction`
a lost, doubled, reordered vote                        `test_a_lost_doubled_reordered_vote`,
                                                       `test_the_vote_of_a_stranger_is_refused`,
                                                       `test_who_asks_while_others_still_vote_is_not_told_that…`
a read-only participant                                `test_a_read_only_participant_commits_alone`
a coordinator that never comes back                    `test_a_coordinator_that_never_comes_back`
=====================================================  ================================================================

Sinks together have the same table in `tests/sinks/group/test_faults.py`.
"""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tests.atomic.places import oracle
from tests.atomic.places.simulator import World

PAIR = {"p": ["c"], "q": ["d"]}
THREE = {"p": ["c"], "q": ["d"], "r": ["e"]}


def knot(world: World, places: list[str] | None = None) -> list[str]:
    """A transaction at each place, each with a message of the one before: all commit together, or none."""
    places = places or list(world.parents)
    ts = [world.begin(place) for place in places]
    for t, after in zip(ts, [*places[1:], places[0]], strict=True):
        world.send(t, after, world.channels[after][0], t)
    for t, place in zip(ts, places, strict=True):
        assert "value" in world.ask(place, "receive", t=t, channel=world.channels[place][0], timeout=0)
    return ts


def commit_all(world: World, ts: list[str]) -> list[Any]:
    """The clients ask to commit; the keys of the answers that will come."""
    asked = []
    for t in ts:
        world.ask(oracle.home(t), "commit", t=t, timeout=None)
        asked.append(world.last)
    return asked


def settle(world: World, ts: list[str]) -> set[str]:
    """To the end, without further faults; what has become of them."""
    world.restart_all()
    world.run(patience=2.0)
    world.judge()
    return {world.status(t) for t in ts}


def test_a_set_over_places_commits_together() -> None:
    world = World(THREE)
    ts = knot(world)
    asked = commit_all(world, ts)
    assert settle(world, ts) == {"committed"}
    assert [world.answers[key] for key in asked] == [{"status": "committed"}] * 3
    decisions = [f for kind, f in world.logs()["p"] if kind == "decide"]
    assert [sorted(f["members"]) for f in decisions] == [sorted(ts)]
    assert [kind for kind, _ in world.logs()["p"]].count("end") == 1


@pytest.mark.parametrize("lost", ["all", "none"])
def test_crash_between_the_first_and_the_second_commit(lost: str) -> None:
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("decided", count=2)
    world.pass_on("decided", "q")
    assert [world.status(t) for t in ts] == ["committed", "committed", "prepared"]
    world.drop("decided")
    for place in ("p", "q", "r"):
        world.kill(place, lost)
    assert settle(world, ts) == {"committed"}


@pytest.mark.parametrize("lost", ["outcome", "decided"])
def test_a_decision_arrives_by_either_way(lost: str) -> None:
    """The coordinator says it again after its crash, and who is in doubt asks: each is enough, where the other is lost.
    (Of what is told, only the answers to questions arrive.)"""
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("decided", count=2)
    world.drop("decided")
    for place in ("p", "q", "r"):
        world.kill(place)
    world.restart_all()
    world.drop(lost)
    for _ in range(20):
        world.tick()
        world.drop(lost)
        world.quiet()
    assert [world.status(t) for t in ts] == ["committed"] * 3
    world.judge()


def test_recovery_while_another_prepares() -> None:
    """The coordinator is back before the request to prepare has arrived everywhere: no wrong abort, no orphan."""
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("prepare", count=2)
    world.pass_on("prepare", "q")
    world.kill("p")
    world.start("p")  # its recovery knows of no attempt
    world.pass_on("prepare", "r")
    assert [world.status(t) for t in ts] == ["aborted", "prepared", "prepared"]  # p crashed before t lasted as pending
    assert settle(world, ts) == {"aborted"}
    assert not [core.state.prepared for core in world.cores.values() if core and core.state.prepared]


def test_recovery_of_a_pending_coordinator_while_another_prepares() -> None:
    """As before, but the coordinator's member is known to be pending: the next attempt commits all."""
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("prepare", count=2)
    world.pass_on("prepare", "q")
    world.kill("p", "none")
    world.start("p")
    world.pass_on("prepare", "r")
    assert [world.status(t) for t in ts] == ["pending", "prepared", "prepared"]
    assert settle(world, ts) == {"committed"}


def test_a_prepare_that_ends_after_recovery_made_its_list() -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("prepare")
    late = world.flying.pop(world.find("prepare")[0])
    world.kill("p", "none")
    world.start("p")
    world.drop("prepare")
    world.flying.append(late)  # it arrives when the recovery is over, of an attempt that nobody knows
    world.pass_on("prepare")
    (old,) = world.up("q").state.prepared
    assert old.startswith("p:1-")
    assert settle(world, ts) == {"committed"}
    assert ("given_up", {"attempt": old}) in world.logs()["q"]


def test_recoverer_and_owner_never_decide_under_the_same_name() -> None:
    """An attempt of before the crash and one of after it have different names, and only one of them is decided."""
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote")
    vote = world.flying.pop(world.find("vote")[0])
    world.kill("p", "none")
    world.start("p")
    world.until("prepare")
    world.flying.append(vote)  # a yes to the attempt of before, while the new one is tried
    world.pass_on("vote")
    assert world.status(ts[0]) == "pending"
    assert settle(world, ts) == {"committed"}
    (decision,) = [f for kind, f in world.logs()["p"] if kind == "decide"]
    assert decision["attempt"].startswith("p:2-")


def test_a_decision_is_heard_only_when_it_lasts() -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote")
    world.kill_at = {world.steps + 2: "all"}  # written, not synced
    world.pass_on("vote")
    assert not world.find("decided")
    world.kill_at = {}
    assert "decide" not in [kind for kind, _ in world.logs()["p"]]
    assert settle(world, ts) in ({"committed"}, {"aborted"})


def test_that_it_is_pending_lasts_when_it_is_told() -> None:
    """Who is told "pending" goes away: what it wanted to commit is not undone by a crash."""
    world = World(PAIR)
    t, u = world.begin("p"), world.begin("q")
    world.send(t, "q", "d")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    assert world.ask("q", "commit", t=u, timeout=0)["status"] == "pending"
    world.kill("q", "all")
    world.start("q")
    assert world.status(u) == "pending"
    world.ask("p", "commit", t=t, timeout=None)
    assert settle(world, [t, u]) == {"committed"}


def test_what_a_participant_says_lasts() -> None:
    """Its vote, its word that it has the commit, that a message has come: a crash takes none of it back."""
    world = World(PAIR)
    t = world.begin("p")
    world.send(t, "q", "d")
    world.until("deposited")
    world.kill("q", "all")
    assert [kind for kind, _ in world.logs()["q"]].count("deposit") == 1
    world.start("q")
    ts = [t, world.begin("q")]
    world.send(ts[1], "p", "c")
    for one, channel in zip(ts, "cd", strict=True):
        assert "value" in world.ask(oracle.home(one), "receive", t=one, channel=channel, timeout=0)
    commit_all(world, ts)
    for said, written in (("vote", "prepared"), ("done", "commit")):
        world.until(said)
        world.kill("q", "all")
        assert written in [kind for kind, _ in world.logs()["q"]]
        world.start("q")
    assert settle(world, ts) == {"committed"}


def test_a_host_that_speaks_before_it_writes_is_found_out() -> None:
    """The same crash with a host that sends first: the oracle sees a commit that nobody decided."""
    world = World(PAIR, lazy=True, watch=False)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote")
    world.kill_at = {world.steps + 3: "all"}  # the decision is on its way, and not synced
    world.pass_on("vote")
    assert world.find("decided")
    world.kill_at = {}
    world.pass_on("decided")
    wrong = oracle.judge(world.logs())
    assert any("that is not decided" in line for line in wrong), wrong


def test_readers_between_the_phases_wait() -> None:
    world = World(THREE)
    ts = knot(world)
    world.send(ts[2], "r", "e", "for a reader")
    reader = world.begin("r")
    assert world.ask("r", "receive", t=reader, channel="e", timeout=0)["value"] == "for a reader"
    commit_all(world, [*ts, reader])
    world.until("decided", count=2)
    world.pass_on("decided", "q")
    told = world.ask("r", "status", t=reader)
    assert (told["status"], told["waits"]) == ("pending", [ts[2]])  # q has it, r has prepared it: not yet
    world.pass_on("decided", "r")
    assert world.status(reader) == "committed"
    assert settle(world, ts) == {"committed"}


@pytest.mark.parametrize("place", ["r", "q", "s"])
def test_readers_that_take_what_is_only_prepared_wait(place: str) -> None:
    """At the place that has prepared it, at one that has committed its part, and at one that has no part in it."""
    world = World({**THREE, "s": ["f"]})
    ts = knot(world, ["p", "q", "r"])
    world.send(ts[2], place, world.channels[place][0], "for a reader")
    commit_all(world, ts)
    world.until("decided", count=2)
    world.pass_on("decided", "q")
    reader = world.begin(place)
    taken = world.ask(place, "receive", t=reader, channel=world.channels[place][0], timeout=0)
    assert taken["value"] == "for a reader"
    commit_all(world, [reader])
    for kind in ("ask", "told", "ask", "told"):
        world.pass_on(kind)
    assert world.status(ts[2]) == "prepared"
    assert world.status(reader) == "pending"
    assert settle(world, [*ts, reader]) == {"committed"}


def test_an_empty_transaction_is_one_synced_write() -> None:
    world = World(PAIR)
    t = world.begin("p")
    world.steps = 0
    assert world.ask("p", "commit", t=t, timeout=None) == {"status": "committed"}
    assert [kind for kind, _ in world.logs(lasting=True)["p"]][-2:] == ["pending", "commit"]
    assert not world.flying


def test_a_transaction_inside_of_its_place_is_one_synced_write() -> None:
    world = World(PAIR)
    before = world.lasting["p"]
    t = world.begin("p")
    world.send(t, "p", "c", 1)
    world.ask("p", "receive", t=t, channel="c", timeout=0)
    world.send(t, "p", "c", 2)
    assert world.lasting["p"] == before
    world.ask("p", "commit", t=t, timeout=None)
    assert world.lasting["p"] == len(world.disk["p"])
    assert not world.flying
    world.judge()


def test_double_commit_commit_after_abort_abort_after_commit() -> None:
    world = World(PAIR)
    t, u = world.begin("p"), world.begin("p")
    assert world.ask("p", "commit", t=t, timeout=None) == {"status": "committed"}
    assert world.ask("p", "commit", t=t, timeout=None) == {"status": "committed"}
    assert [f["members"] for kind, f in world.logs()["p"] if kind == "commit"] == [[t]]
    assert world.ask("p", "abort", t=t)["error"] == "state"
    assert world.ask("p", "abort", t=u)["status"] == "aborted"
    assert world.ask("p", "abort", t=u)["status"] == "aborted"
    late = world.ask("p", "commit", t=u, timeout=None)
    assert (late["error"], late["why"]) == ("aborted", "asked")
    assert world.ask("p", "send", t=t, path=world.path("p", "p", "c"), value=1)["error"] == "state"
    assert world.ask("p", "receive", t=u, channel="c", timeout=0)["error"] == "aborted"
    assert world.ask("p", "commit", t="p:1:99", timeout=None)["error"] == "usage"
    world.judge()


def test_one_failing_commit_does_not_stop_the_others() -> None:
    world = World({"p": ["c"], "q": ["d"], "r": ["e"], "s": ["f"]})
    ts = knot(world)
    commit_all(world, ts)
    world.until("decided")
    assert {world.flying[n][1] for n in world.find("decided")} == {"q", "r", "s"}  # nobody is kept waiting for another
    world.kill("q")
    for _ in range(6):
        world.quiet()
        world.tick()
    assert [world.status(ts[n]) for n in (0, 2, 3)] == ["committed"] * 3
    assert world.ask("p", "doubt")["deciding"][0]["missing"] == ["q"]
    assert settle(world, ts) == {"committed"}
    assert world.ask("p", "doubt")["deciding"] == []


def test_a_time_out_does_not_abort_what_is_prepared() -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote")
    world.kill("p", "none")
    world.drop("vote")
    for _ in range(100):
        world.tick(30.0)
        world.flying.clear()
    assert world.status(ts[1]) == "prepared"
    refused = world.ask("q", "abort", t=ts[1])
    assert refused["error"] == "state" and "for 'p' to say" in refused["message"]
    world.ask("q", "gone")
    assert world.status(ts[1]) == "prepared"
    assert settle(world, ts) == {"committed"}


def test_an_attempt_that_takes_too_long_is_given_up_and_nothing_else() -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("prepare")
    for _ in range(40):
        world.tick(0.5)
        world.flying.clear()  # cut off
    assert world.up("p").gave_up >= 1
    assert [world.status(t) for t in ts] == ["pending", "pending"]
    assert settle(world, ts) == {"committed"}


def test_a_commit_that_times_out_stays_pending_and_is_decided_later() -> None:
    world = World(PAIR)
    t, u = world.begin("p"), world.begin("q")
    world.send(t, "q", "d")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=3)
    key = world.last
    for _ in range(10):
        world.quiet()
        world.tick(0.5)
    told = world.answers[key]
    assert (told["status"], told["waits"]) == ("pending", [t])
    world.kill("q")  # that it is pending lasts: it was told
    world.start("q")
    assert world.status(u) == "pending"
    world.ask("p", "commit", t=t, timeout=None)
    assert settle(world, [t, u]) == {"committed"}


@pytest.mark.parametrize("kind", ["vote", "prepare", "decided"])
def test_a_late_message_does_not_hit_the_next_attempt(kind: str) -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until(kind if kind != "decided" else "vote")
    if kind == "decided":
        world.drop("vote")
        attempt = next(iter(world.up("p").attempts))
        late = [("p", "q", {"kind": "decided", "attempt": attempt, "outcome": "given up"})]
    else:
        late = [(a, b, m) for a, b, m in world.said if m["kind"] == kind]
    for _ in range(25):
        world.tick(0.5)
        world.flying.clear()
    old = {m["attempt"] for _, _, m in late}
    assert not old & set(world.up("p").attempts)  # given up
    while old & set(world.up("q").state.prepared) or not world.up("q").state.prepared:
        world.drop("vote")
        world.until("vote")
    (new,) = world.up("q").state.prepared
    for sender, to, message in late:
        world.flying.insert(0, (sender, to, msgpack.packb(message)))
        world.deliver(0)
    assert list(world.up("q").state.prepared) == [new]
    assert [world.status(t) for t in ts] == ["pending", "prepared"]
    assert settle(world, ts) == {"committed"}


def test_a_late_request_to_prepare_what_was_given_up_is_refused() -> None:
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.until("prepare")
    late = world.flying[world.find("prepare")[0]]
    world.pass_on("prepare")
    (old,) = world.up("q").state.prepared
    while not world.up("p").gave_up:
        world.flying.clear()
        world.tick(0.5)
    while old in world.up("q").state.prepared:
        world.until("decided", "q")
        world.pass_on("decided", "q")
    assert world.status(ts[1]) == "pending"
    world.flying = [late]
    world.pass_on("prepare")
    assert world.status(ts[1]) == "pending"
    assert settle(world, ts) == {"committed"}


def test_who_asks_while_others_still_vote_is_not_told_that_it_is_given_up() -> None:
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote", count=2)
    slow = world.flying.pop(next(n for n in world.find("vote") if world.flying[n][0] == "r"))
    world.pass_on("vote")
    asked = 0
    while not asked:
        world.tick()
        world.drop("prepare")
        asked = world.pass_on("outcome", "p")
    world.pass_on("decided")
    assert [world.status(t) for t in ts] == ["pending", "prepared", "prepared"]
    world.flying = [slow]
    assert settle(world, ts) == {"committed"}
    assert world.up("p").gave_up == 0


def test_a_late_message_does_not_hit_the_next_transaction() -> None:
    """Everything that was said in a first commit, said again in a second one."""
    world = World(PAIR)
    first = knot(world)
    commit_all(world, first)
    assert settle(world, first) == {"committed"}
    old = list(world.said)
    second = knot(world)
    commit_all(world, second)
    world.until("vote")
    for sender, to, message in old:
        world.flying.insert(0, (sender, to, msgpack.packb(message)))
        world.deliver(0)
    assert [world.status(t) for t in second] == ["pending", "prepared"]
    assert settle(world, [*first, *second]) == {"committed"}
    assert oracle.lying(world.logs()).total() == 0


@pytest.mark.parametrize("fate", ["lost", "doubled", "reordered"])
def test_a_lost_doubled_reordered_vote(fate: str) -> None:
    world = World(THREE)
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote", count=2)
    if fate == "lost":
        world.drop("vote")
    elif fate == "doubled":
        world.drop("vote", "q")
        which = [n for n in world.find("vote") if world.flying[n][0] == "q"]
        for _ in range(5):
            world.deliver(which[0], keep=True)
        assert world.status(ts[0]) == "pending"  # five times yes of one is one yes
    else:
        world.flying.reverse()
    assert settle(world, ts) == {"committed"}
    assert (world.up("p").tried, world.up("p").gave_up) == (1, 0)


def test_the_vote_of_a_stranger_is_refused() -> None:
    world = World({**THREE, "x": ["y"]})
    ts = knot(world, ["p", "q", "r"])
    commit_all(world, ts)
    world.until("vote", count=2)
    (attempt,) = world.up("p").attempts
    vote = {"kind": "vote", "attempt": attempt, "yes": True, "statuses": []}
    world.flying = [("x", "p", msgpack.packb(vote)), ("x", "p", msgpack.packb({**vote, "yes": False}))]
    world.quiet()
    assert [world.status(t) for t in ts] == ["pending", "prepared", "prepared"]
    refused = [f for kind, f in world.logs()["p"] if kind == "refused"]
    assert [(f["source"], f["what"]) for f in refused] == [
        ("x", f"a vote on {attempt} by one who has no part in it")
    ] * 2
    assert settle(world, ts) == {"committed"}


def test_a_read_only_participant_commits_alone() -> None:
    world = World(PAIR)
    t = world.begin("p")
    world.send(t, "q", "d")
    world.ask("p", "commit", t=t, timeout=None)
    world.quiet()
    world.tick()  # what has come is acknowledged
    world.quiet()
    world.said.clear()
    reader = world.begin("q")
    world.ask("q", "receive", t=reader, channel="d", timeout=0)
    assert world.ask("q", "commit", t=reader, timeout=None) == {"status": "committed"}
    assert not world.said  # the sender's place had told; nobody has to be asked, nobody prepares
    idle = world.begin("q")
    assert world.ask("q", "commit", t=idle, timeout=None) == {"status": "committed"}
    assert not world.said
    world.run()
    world.judge()


@pytest.mark.parametrize("choice", ["commit", "abort"])
def test_a_coordinator_that_never_comes_back(choice: str) -> None:
    world = World(THREE, watch=False)  # by hand one can break what the oracle asks for
    ts = knot(world)
    commit_all(world, ts)
    world.until("vote", count=2)
    world.kill("p", "none")
    world.flying.clear()
    for _ in range(20):
        world.tick(10.0)
        world.flying.clear()
    (doubt,) = world.ask("q", "doubt")["doubt"]
    attempt = doubt["attempt"]
    assert (doubt["members"], doubt["coordinator"], doubt["waits"]) == ([ts[1]], "p", [ts[0]])
    whole = world.ask("q", "hand", what=ts[1], outcome="abort", who="me", when=1.0)
    assert attempt in whole["message"]
    for place in ("q", "r"):
        answer = world.ask(place, "hand", what=attempt, outcome=choice, who="me", when=1.0)
        assert answer["status"] == {"commit": "committed", "abort": "aborted"}[choice]
    hands = [f for kind, f in world.logs()["q"] if kind == "hand"]
    assert hands == [{"what": attempt, "outcome": choice, "who": "me", "when": 1.0}]
    assert world.ask("q", "metrics")["in_doubt"] == 0
    world.kill("q")
    world.start("q")  # what was chosen lasts
    assert world.status(ts[1]) == {"commit": "committed", "abort": "aborted"}[choice]
    world.start("p")  # it does come back: it knows nothing of the attempt
    world.run(patience=2.0)
    assert any("that is not decided" in line for line in oracle.judge(world.logs())) == (choice == "commit")
    said = [f["what"] for kind, f in world.logs()["q"] if kind == "refused"]
    assert any(f"{attempt} was given up by its coordinator" in line for line in said) == (choice == "commit")


def test_a_set_that_is_too_large_for_a_message_is_said_and_stays_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.atomic.places.core.commit.LARGEST", 8)
    world = World(PAIR)
    ts = knot(world)
    commit_all(world, ts)
    world.run(rounds=5)
    assert [world.status(t) for t in ts] == ["pending", "pending"]
    (said,) = [f["what"] for kind, f in world.logs()["p"] if kind == "refused"]
    assert said.startswith("p:1-m1:1 and 1 more transactions at several places need each other, too many")
    world.ask("p", "hand", what=ts[0], outcome="abort", who="me", when=1.0)
    assert settle(world, ts) == {"aborted"}


def test_by_hand_only_what_can_be() -> None:
    world = World(PAIR)
    t, u = world.begin("p"), world.begin("p")
    world.send(u, "p", "c")
    world.ask("p", "receive", t=t, channel="c", timeout=0)
    world.ask("p", "commit", t=t, timeout=0)
    no = world.ask("p", "hand", what=t, outcome="commit", who="me", when=1.0)
    assert no["error"] == "state" and no["waits"] == [u]
    assert world.ask("p", "hand", what="p:1:a7", outcome="abort", who="me", when=1.0)["error"] == "state"
    assert world.ask("p", "hand", what=u, outcome="maybe", who="me", when=1.0)["error"] == "usage"
    assert world.ask("p", "hand", what=u, outcome="abort", who="me", when=1.0)["status"] == "aborted"
    assert world.ask("p", "status", t=t)["why"] == f"cascade from {u}"
    world.run()
    world.judge()
