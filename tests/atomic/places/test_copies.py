"""The log of a place comes back from an older copy: no name comes again, nothing is presumed, and it is said."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.atomic.places.audit import audit_logs
from pellucid.atomic.places.core import Heard, Noted
from pellucid.atomic.places.core import commit as copies
from tests.atomic.places.simulator import World

PAIR = {"p": ["c"], "q": ["d"]}
TRIO = {"p": ["c"], "q": ["d"], "r": ["e"]}


def copied(world: World, place: str) -> Any:
    """What lasts, as a backup would have it."""
    return list(world.disk[place][: world.lasting[place]])


def put_back(world: World, place: str, copy: Any) -> None:
    """The place ends, its log is the copy, and it starts again."""
    world.kill(place, "none")
    world.disk[place], world.lasting[place] = list(copy), len(copy)
    world.flying = [one for one in world.flying if place not in one[:2]]
    world.start(place)


def sent(world: World, value: Any, to: tuple[str, str] = ("q", "d")) -> str:
    """A message of p in a transaction of its own, which commits."""
    t = world.begin("p")
    world.send(t, *to, value)
    world.ask("p", "commit", t=t, timeout=None)
    world.run()
    return t


def kinds(world: World, place: str, kind: str) -> list[Any]:
    return [f for k, f in world.logs()[place] if k == kind]


def verdict(world: World) -> Any:
    logs = {p: [(n, k, f) for n, (k, f) in enumerate(log, 1)] for p, log in world.logs().items()}
    return audit_logs(world.parents, logs, replay=False)


def lying(world: World) -> list[Any]:
    return [value for *_, value in world.ask("q", "look", channel="d")["messages"]]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("moment", ["between starts", "in a start"])
def test_the_place_notices_and_says_so(moment: str, restarted: bool) -> None:
    """Also if who has heard of it has been started again since: it has written it down."""
    world = World(PAIR, watch=False)
    sent(world, "one")
    if moment == "between starts":
        world.kill("p", "none")
        copy = copied(world, "p")
        world.start("p")
    else:
        copy = copied(world, "p")
    lost = sent(world, "two")
    u = world.begin("q")
    for _ in range(2):
        world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.run()
    assert world.status(u) == "committed"
    if restarted:
        world.kill("q", "none")
    put_back(world, "p", copy)
    world.restart_all()
    world.run()
    (behind,) = kinds(world, "p", "behind")
    assert behind["source"] == "q"
    refused = world.ask("p", "begin")
    assert refused["error"] == "copy"
    start, n = behind["stand"].split("/")
    assert refused["message"] == (
        f"the log of 'p' is an older copy: it lacks records up to {n} of start {start}, which 'q' has heard of: stop "
        "the place and bring its newer log back; if there is none, `pellucid net accept DIR p` resumes without what is "
        "lost"
    )
    (said,) = [f["what"] for f in kinds(world, "q", "refused")]
    assert said.startswith("the log of 'p' is an older copy: it lacks records up to ")
    assert said.endswith("which 'q' has heard of: bring its newer log back, or accept the loss there")
    answer = world.ask("p", "status", t=lost)
    assert answer["error"] == "usage" and "is it an older copy?" in answer["message"]
    found = verdict(world)
    assert {v.kind for v in found.violations} >= {"behind", "older-copy"} and not found
    for v in found.violations:
        if v.kind == "older-copy":
            assert f"the log of p lacks records up to {n} of its start {start}, which was told here" in str(v)


def test_a_newer_log_that_comes_back_is_fine() -> None:
    """What the copy said before it noticed is nothing that anybody relies on."""
    world = World(PAIR, watch=False)
    sent(world, "one")
    copy = copied(world, "p")
    sent(world, "two")
    newer = copied(world, "p")
    put_back(world, "p", copy)
    world.run()
    assert kinds(world, "p", "behind")
    put_back(world, "p", newer)
    world.run()
    assert not kinds(world, "p", "behind")
    sent(world, "three")
    assert lying(world) == ["one", "two", "three"]
    assert verdict(world)
    world.judge()


@pytest.mark.parametrize("slow", ["started", "met", "known"])
@pytest.mark.parametrize("starts", [1, 2])
def test_the_first_words_of_a_new_start_are_remembered(starts: int, slow: str) -> None:
    """Whoever hears them has not been answered yet about the starts before, and is started again: then the log of that
    place is put back from before."""
    world = World(PAIR, watch=False)
    sent(world, "one")
    for _ in range(starts):
        world.kill("p", "none")
        copy = copied(world, "p")
        world.start("p")
    lost, u = world.begin("p"), world.begin("q")
    world.send(lost, "q", "d", "two")
    world.ask("p", "commit", t=lost, timeout=None)
    for _ in range(2):
        assert "mid" in world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    while world.status(u) != "committed":
        world.drop(slow)
        if world.flying:
            world.deliver(0)
        else:
            world.tick(0.1)
    world.kill("q", "all")
    put_back(world, "p", copy)
    world.restart_all()
    world.run()
    assert world.ask("p", "begin")["error"] == "copy"


def test_an_equal_message_is_not_taken_for_a_repetition() -> None:
    """The names of before come never again, although start and transaction have the same numbers."""
    world = World(PAIR, watch=False)
    copy = copied(world, "p")
    first = sent(world, "room 1")
    put_back(world, "p", copy[:0])
    world.run()
    assert world.ask("p", "begin")["error"] == "copy"
    answer = world.ask("p", "accept", who="ada", when=1.0)
    assert answer == {"stands": [kinds(world, "p", "behind")[0]["stand"]]}
    second = sent(world, "room 1")
    assert first != second and first.split(":")[::2] == second.split(":")[::2]
    assert lying(world) == ["room 1", "room 1"]
    (accepted,) = kinds(world, "p", "accepted")
    assert accepted["who"] == "ada"
    assert {v.kind for v in verdict(world).violations} >= {"behind", "start-unknown"}


def knot(world: World) -> list[str]:
    """Transactions of p, q and r that need each other, and ask to commit."""
    ts = [world.begin(place) for place in TRIO]
    for t, (to, channel) in zip(ts, [("q", "d"), ("r", "e"), ("p", "c")], strict=True):
        world.send(t, to, channel)
    for t, (place, channel) in zip(ts, [("p", "c"), ("q", "d"), ("r", "e")], strict=True):
        assert "mid" in world.ask(place, "receive", t=t, channel=channel, timeout=0)
    for t in ts:
        world.ask(t.split(":")[0], "commit", t=t, timeout=None)
    return ts


@pytest.mark.parametrize("first", ["q", "r"])
def test_a_decision_that_the_copy_lacks_is_not_presumed_to_be_none(first: str) -> None:
    """The coordinator decided, r has it and q has not; the coordinator comes back as it was before that.  It gives
    nothing up, whoever asks first: q stays in doubt, by name, until somebody decides."""
    world = World(TRIO, watch=False)
    ts = knot(world)
    world.until("decided", count=0)
    world.until("prepare", count=2)
    copy = copied(world, "p")
    world.until("decided", count=2)
    world.pass_on("decided", "r")
    world.drop("decided", "q")
    assert world.status(ts[2]) == "committed" and world.status(ts[1]) == "prepared"
    put_back(world, "p", copy)
    if first == "q":
        late = [one for one in world.flying if "r" in one[:2]]
        world.flying = [one for one in world.flying if "r" not in one[:2]]
        for _ in range(3):
            world.quiet()
            world.tick(0.6)
        assert world.status(ts[1]) == "prepared"
        world.flying += late
    world.run(rounds=60, patience=2.0)
    assert kinds(world, "p", "behind")[0]["source"] == "r"
    assert world.status(ts[1]) == "prepared"
    world.ask("p", "accept", who="ada", when=1.0)
    world.run(rounds=60, patience=2.0)
    assert world.status(ts[1]) == "prepared"  # that the loss is accepted does not tell what was decided
    assert any("what became of it is not known" in f["what"] for f in kinds(world, "p", "refused"))
    attempt = next(iter(world.up("q").state.prepared))
    assert world.ask("q", "hand", what=attempt, outcome="commit", who="ada", when=1.0)["status"] == "committed"


def test_an_older_copy_takes_and_promises_nothing() -> None:
    """What is sent to it waits where it is; programs can look."""
    world = World(PAIR, watch=False)
    sent(world, "one")
    copy = copied(world, "p")
    sent(world, "two")
    put_back(world, "p", copy)
    world.run()
    t = world.begin("q")
    world.send(t, "p", "c", "for p")
    world.run()
    assert world.ask("p", "look", channel="c")["messages"] == [] and world.up("q").state.outbox
    assert "error" not in world.ask("p", "metrics") and "error" not in world.ask("p", "doubt")
    before = len(world.disk["p"])
    for op in ("begin", "commit", "send", "receive", "hand"):
        assert world.ask("p", op)["error"] == "copy"
    assert len(world.disk["p"]) == before
    world.kill("p", "none")
    world.start("p")  # that lasts
    assert world.ask("p", "begin")["error"] == "copy"
    world.ask("p", "accept", who="ada", when=1.0)
    world.run()
    assert world.ask("p", "metrics")["messages"] == {"c": 1}
    assert world.ask("p", "accept", who="ada", when=1.0)["error"] == "state"


def test_a_crash_is_no_copy() -> None:
    """Whatever is lost with a tail, nobody has heard that it lasts."""
    for lost in ("all", "some", "none"):
        world = World(TRIO, seed=7)
        for n in range(4):
            knot(world)
            world.run()
            t = world.begin("p")
            world.send(t, "q", "d", n)
            for place in TRIO:
                world.kill(place, lost)
                world.start(place)
            world.run()
        assert not any(kinds(world, place, "behind") for place in TRIO)
        assert all(kinds(world, place, "met") for place in TRIO)


def test_what_was_heard_outlives_an_ordinary_restart() -> None:
    """q has relied on what p sent; p is ended and started, and then its log is the copy from before."""
    world = World(PAIR, watch=False)
    copy = copied(world, "p")
    t = sent(world, "one")
    u = world.begin("q")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.run()
    assert (world.status(t), world.status(u)) == ("committed", "committed")
    world.kill("p", "none")
    world.start("p")
    world.run()
    assert "p" in world.up("q").met, "what q has heard of p is there to be shown"
    put_back(world, "p", copy)
    world.run(rounds=60, patience=2.0)
    assert world.up("p").state.behind and world.ask("p", "begin")["error"] == "copy"
    assert world.ask("p", "status", t=t)["error"] == "usage"
    assert "error" not in world.ask("p", "accept", who="ada", when=1.0)


def test_a_copy_that_ends_before_the_start_that_was_shown_presumes_nothing() -> None:
    """p has decided, r has committed, q is prepared and away; p's log ends in the start before the one r heard of."""
    world = World(TRIO, watch=False)
    copy = copied(world, "p")
    ts = knot(world)
    world.until("prepare", count=2)
    world.until("decided", count=2)
    world.pass_on("decided", "r")
    world.drop("decided", "q")
    world.kill("q", "none")
    world.kill("p", "none")
    world.start("p")

    def a_while(times: int, patience: float = 0.6) -> None:
        for _ in range(times):
            world.quiet()
            world.tick(patience)

    world.flying = [one for one in world.flying if "q" not in one[:2]]
    a_while(20)
    sent_on = world.begin("p")
    world.send(sent_on, "r", "e", "hello")
    world.ask("p", "commit", t=sent_on, timeout=None)
    a_while(5)
    world.kill("p", "none")
    world.disk["p"], world.lasting["p"], world.flying = list(copy), len(copy), []
    world.start("p")
    a_while(10)
    assert world.up("p").state.behind
    assert world.ask("p", "status", t=ts[0]).get("status") != "aborted"
    assert "error" not in world.ask("p", "accept", who="ada", when=1.0)
    a_while(10)
    world.start("q")
    a_while(20, 2.0)
    assert world.status(ts[2]) == "committed", "r heard the decision"
    assert not kinds(world, "q", "given_up")
    assert not [t for t in ts if world.ask(t.split(":")[0], "status", t=t).get("status") == "aborted"]


def test_what_its_own_start_aborted_is_no_fact_in_a_copy() -> None:
    """It was active where the copy ends, and committed in what is lost."""
    world = World(PAIR, watch=False)
    t = world.begin("p")
    world.send(t, "p", "c", "x")
    sent(world, "with it the beginning lasts")
    copy = copied(world, "p")
    world.ask("p", "commit", t=t, timeout=None)
    world.run()
    assert world.status(t) == "committed"
    stand = f"{world.up('p').state.start}/{len(copied(world, 'p'))}"
    put_back(world, "p", copy)
    world._do("p", lambda core: core.handle(Noted(stand)))
    assert world.up("p").state.behind
    assert world.ask("p", "status", t=t).get("status") != "aborted"


def accepted_after_starts(world: World, starts: int = 3) -> None:
    """The log of p is lost after so many starts, one of which q has heard of; the loss is accepted."""
    for _ in range(starts):
        world.kill("p", "none")
        world.start("p")
        world.run()
    sent(world, "one")
    u = world.begin("q")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.run()
    put_back(world, "p", [])
    world.run()
    assert world.up("p").state.boot == 1 and "4-" in next(iter(world.up("p").state.behind))
    assert "error" not in world.ask("p", "accept", who="ada", when=1.0)
    world.run()


@pytest.mark.parametrize("lost", ["all", "none"])
def test_a_crash_after_the_loss_was_accepted_is_presumed_as_ever(lost: str) -> None:
    """Starts that came after the loss was noticed are whole: nobody waits for what one of them left open, although its
    number is less than that of the start that is lost."""
    world = World(PAIR, watch=False)
    accepted_after_starts(world)
    t, u = world.begin("p"), world.begin("q")
    world.send(t, "q", "d", "two")
    assert "mid" in world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.kill("p", lost)
    world.start("p")
    world.run()
    assert world.status(u) == "aborted" and world.status(t) == "aborted"


def test_of_starts_before_the_loss_nothing_is_presumed_ever_after() -> None:
    """Not even after later starts: the copy ended in one of these."""
    world = World(PAIR, watch=False)
    first = world.begin("p")
    sent(world, "one")
    copy = copied(world, "p")
    for _ in range(3):
        world.kill("p", "none")
        world.start("p")
        world.run()
    sent(world, "two")
    put_back(world, "p", copy)
    world.run()
    assert "error" not in world.ask("p", "accept", who="ada", when=1.0)
    for _ in range(2):
        assert world.ask("p", "status", t=first).get("status") != "aborted"
        world.kill("p", "none")
        world.start("p")
        world.run()


@pytest.mark.parametrize("told", ["by the note", "by q"])
def test_who_accepts_a_loss_accepts_that_of_the_starts_before_it(told: str) -> None:
    """Another place may have heard last of an earlier one; it says that for ever, and the place would stop again."""
    world = World(PAIR, watch=False)
    sent(world, "one")
    u = world.begin("q")
    world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.run()
    world.kill("q", "none")
    world.kill("p", "none")
    world.start("p")
    stand = f"{world.up('p').state.start}/{world.up('p').state.records}"
    put_back(world, "p", [])
    heard = []
    if told == "by the note":
        world.up("p").handle(Noted(stand))
    else:
        heard = [(stand, "q")]  # which is down, and the operator has read its log
        assert "no place has shown" in world.ask("p", "accept", who="ada", when=1.0)["message"]
        assert world.ask("p", "accept", who="ada", when=1.0, heard=[stand])["error"] == "usage"
    assert world.ask("p", "accept", who="ada", when=1.0, heard=heard)["stands"] == [stand]
    world.start("q")
    world.run()
    assert not world.up("p").state.behind and world.up("q").met["p"][0] == world.up("p").state.start
    sent(world, "two")
    assert lying(world) == ["two"]


def untold(world: World) -> list[str]:
    return [u for some in world.ask("q", "doubt")["untold"].values() for u in some]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_what_is_lost_with_a_log_can_be_decided_by_hand(outcome: str) -> None:
    world = World(PAIR, watch=False)
    lost = sent(world, "one")
    sent(world, "two")
    world.kill("q", "none")  # what it was told is forgotten
    put_back(world, "p", [])
    world.start("q")
    world.run()
    by_hand: dict[str, Any] = {"what": lost, "outcome": outcome, "who": "ada", "when": 1.0}
    assert world.ask("p", "hand", **by_hand)["error"] == "copy"  # as long as the newer log may come back
    assert "error" not in world.ask("p", "accept", who="ada", when=1.0)
    u = world.begin("q")
    assert world.ask("q", "receive", t=u, channel="d", timeout=0)["sender"] == lost
    world.ask("q", "commit", t=u, timeout=None)
    world.run()
    assert world.status(u) == "pending" and lost in untold(world)
    done = {"commit": "committed", "abort": "aborted"}[outcome]
    assert world.ask("p", "hand", **by_hand)["status"] == done
    world.run()
    assert world.status(u) == done and lost not in untold(world)
    for _ in range(2):  # it is written down
        world.kill("p", "none")
        world.start("p")
        world.run()
        assert world.ask("p", "status", t=lost)["status"] == done
    assert "is nothing that is undecided" in world.ask("p", "hand", **by_hand)["message"]
    now = f"p:{world.up('p').state.start}:999"
    assert "is nothing that is undecided" in world.ask("p", "hand", **{**by_hand, "what": now})["message"]


@pytest.mark.parametrize("kind", ["told", "pushed", "deposit", "prepare", "deposited"])
def test_of_a_start_that_is_not_believed_nothing_is_taken(kind: str) -> None:
    """q has heard of p; then somebody speaks as p in a start that has not shown that its log has that.  It is asked,
    and what it said is taken when it says it again with the answer."""
    world = World(PAIR, watch=False)
    first = sent(world, "one")
    t, u, mine = world.begin("p"), world.begin("q"), world.begin("q")
    world.send(t, "q", "d", "two")
    for _ in range(2):
        assert "mid" in world.ask("q", "receive", t=u, channel="d", timeout=0)
    world.ask("q", "commit", t=u, timeout=None)
    world.ask("q", "send", t=mine, path=world.path("q", "p", "c"), value=3)
    world.kill("p", "all")
    world.flying.clear()
    q = world.up("q")
    start, n = q.met["p"]
    said: dict[str, Any] = {
        "told": {"statuses": [[t, "aborted", []]]},
        "pushed": {"statuses": [[t, "aborted", []]]},
        "deposit": {"mid": "p:9-z:1/1", "sender": "p:9-z:1", "value": 3, "path": world.path("p", "q", "d")[1:]},
        "prepare": {"attempt": "p:9-z:a1", "members": [t, u], "needs": [first]},
        "deposited": {"mids": [f"{mine}/1"]},
    }[kind]

    def taken() -> list[str]:
        return [record.kind for record in effects.writes if record.kind not in ("met", "refused")]

    effects = q.handle(Heard("p", {"kind": kind, **said, "at": "9-z/7"}))
    assert not taken() and (q.met["p"], world.status(u)) == ((start, n), "pending")
    assert effects.sends == [("p", {"kind": "met", "saw": f"{start}/{n}"})]
    less = {"at": "9-z/7", "after": [f"{start}/{n - 1}"]}
    effects = q.handle(Heard("p", {"kind": kind, **said, **less}))
    assert not taken() and q.met["p"] == (start, n)
    effects = q.handle(Heard("p", {"kind": "known", "stand": f"{start}/{n}", "at": "9-z/7"}))
    assert q.met["p"] == ("9-z", 7)
    effects = q.handle(Heard("p", {"kind": kind, **said, "at": "9-z/7"}))
    done = {"told": "abort", "pushed": "abort", "deposit": "deposit", "prepare": "prepared", "deposited": "sent"}
    assert taken() == [done[kind]]


def test_an_older_copy_tells_what_is_committed_also_beside_what_is_not() -> None:
    world = World(PAIR, watch=False)
    first = sent(world, "one")
    t = world.begin("p")
    world.send(t, "q", "d", "undone")
    world.ask("p", "abort", t=t)
    second = sent(world, "two")
    copy = copied(world, "p")
    sent(world, "three")
    put_back(world, "p", copy)
    world.run()
    assert world.up("p").state.behind
    effects = world.up("p").handle(Heard("q", {"kind": "ask", "ids": [first, t, second]}))
    (told,) = [message for _, message in effects.sends if message["kind"] == "told"]
    assert told["statuses"] == [[first, "committed", []], [second, "committed", []]]
    effects = world.up("p").handle(Heard("q", {"kind": "ask", "ids": [t]}))
    assert not effects.sends


def test_who_asks_about_ever_new_names_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SAID_MOST", 20)
    world = World(PAIR, watch=False)
    p = world.up("p")
    for n in range(1, 100):
        for _ in range(2):
            p.handle(Heard("q", {"kind": "ask", "ids": [f"p:7-x:{n}"]}))
        assert len(p._said_once) <= 20 and p.refusals == n
