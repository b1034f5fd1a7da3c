"""Programs at real places: send, take, commit as a set, be undone; what is refused, and how it is said."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.atomic.places import Aborted, InDoubt, Network, NothingCame, NotReached, client, connect, new_network, up
from pellucid.atomic.places.core.state import make
from pellucid.atomic.places.log import open_log
from pellucid.atomic.places.operators import doubts
from pellucid.atomic.places.processes import running
from pellucid.errors import DataError, StateError, UsageError
from tests.atomic.places.trips import Aside, drain, fill, left, provide, trips


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    made = trips(tmp_path_factory.mktemp("client"))
    with up(made):
        yield made


@pytest.fixture(autouse=True)
def empty(network: Network) -> Iterator[None]:
    """Each test begins, and ends, with nothing in any channel."""
    yield
    for place, channels in network.channels.items():
        for channel in channels:
            drain(network, place, channel)


def test_a_message_of_ones_own(network: Network) -> None:
    with connect(network.folder, "airline") as here:
        with here.transaction() as t:
            t.send("seats", {"row": 12, "seat": "A"})
            assert t.commit() == "committed" and t.commit() == "committed"
            assert here.status(t.id) == "committed" and t.id.startswith("airline:")
        assert here.messages("seats") == [{"row": 12, "seat": "A"}]
        with here.transaction() as t:
            assert t.receive("seats") == {"row": 12, "seat": "A"}
        assert here.status(t.id) == "aborted"
        assert here.messages("seats") == [{"row": 12, "seat": "A"}]  # it was put back
        with contextlib.suppress(ZeroDivisionError), here.transaction() as t:
            t.receive("seats")
            _ = 1 / 0
        assert here.messages("seats") == [{"row": 12, "seat": "A"}]


def test_a_trip_commits_as_a_set(network: Network) -> None:
    fill(network, "airline", "seats", [1, 2])
    fill(network, "hotel", "rooms", [7, 8])
    others = [Aside(provide, network, place) for place in ("airline", "hotel")]
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        t.send("airline.requests", "ada")
        t.send("out agent.in hotel.in requests", "ada")
        answers = sorted(t.receive("answers", timeout=60) for _ in range(2))
        assert t.commit(timeout=60) == "committed"
    assert answers == [["airline", 1, "ada"], ["hotel", 7, "ada"]]
    assert [other.result() for other in others] == ["committed", "committed"]
    assert left(network) == {"seats": [2], "rooms": [8]}


def test_who_took_from_an_undone_one_is_undone(network: Network) -> None:
    fill(network, "airline", "seats", [1])
    fill(network, "hotel", "rooms", [7])
    others = [Aside(provide, network, place) for place in ("airline", "hotel")]
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        t.send("airline.requests", "bob")
        t.send("hotel.requests", "bob")
        for _ in range(2):
            t.receive("answers", timeout=60)
    for other in others:
        found = other.result()
        assert isinstance(found, Aborted) and "cascade" in found.why and t.id in found.why
    assert left(network) == {"seats": [1], "rooms": [7]}


def test_a_program_that_dies_is_undone(network: Network) -> None:
    fill(network, "airline", "seats", [1])
    here = connect(network.folder, "airline")
    t = here.begin()
    assert t.receive("seats") == 1
    here.close()  # as a killed process does
    until = time.monotonic() + 60
    while left(network)["seats"] != [1] and time.monotonic() < until:
        time.sleep(0.02)
    assert left(network)["seats"] == [1]
    with connect(network.folder, "airline") as again:
        assert again.status(t.id) == "aborted"


def test_nothing_comes(network: Network) -> None:
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="no message in 'answers' of 'agent'"):
            t.receive("answers", timeout=0.2)
        assert 0.1 < time.monotonic() - began < 25  # far less than the time-outs of a connection
        with pytest.raises(NothingCame):
            t.receive("answers", timeout=0)
        assert t.commit() == "committed"  # the transaction went on


def test_in_doubt_and_decided_later(network: Network) -> None:
    with connect(network.folder, "airline") as one, connect(network.folder, "airline") as two:
        first = one.begin()
        first.send("seats", 1)
        second = two.begin()
        assert second.receive("seats", timeout=5) == 1
        with pytest.raises(InDoubt, match=f"{second.id}: is pending after 0.1 seconds, and waits for {first.id}"):
            second.commit(timeout=0.1)
        assert two.status(second.id) == "pending"
        first.commit()
        until = time.monotonic() + 60
        while two.status(second.id) != "committed" and time.monotonic() < until:
            time.sleep(0.02)
        assert two.status(second.id) == "committed"


def test_a_child_depends_on_its_parent(network: Network) -> None:
    with connect(network.folder, "agent") as agent:
        parent = agent.begin()
        child = parent.child()
        child.send("answers", "from the child")
        with pytest.raises(InDoubt):
            child.commit(timeout=0)
        parent.abort()
        with pytest.raises(Aborted, match=f"{child.id} was undone: cascade"):
            child.commit()


def test_what_is_refused(network: Network) -> None:
    with connect(network.folder, "agent") as agent, agent.transaction() as t:
        for path, said in {
            "airlin.requests": "has no place 'airlin': it has agent, airline, hotel; did you mean 'airline'",
            "airline.request": "the place airline has no channel 'request': it has requests, seats; did you mean",
            "out hotel.in requests": "the message is inside agent there",
            "": "expected a path",
        }.items():
            with pytest.raises(UsageError, match=said):
                t.send(path, 1)
        with pytest.raises(UsageError, match="'agent' has no channel 'seats'; its channels: answers"):
            t.receive("seats", timeout=0)
        with pytest.raises(DataError, match=r"value\['seat'\]: a tuple cannot be sent"):
            t.send("airline.requests", {"seat": (12, "A")})
        with pytest.raises(DataError, match="at most 1,032,192 are allowed"):
            t.send("airline.requests", "x" * 2_000_000)
        for wrong in (-1, float("nan"), "5", True):
            with pytest.raises(UsageError, match="expected a number of seconds"):
                t.receive("answers", timeout=wrong)  # type: ignore[arg-type]
        t.send("airline.requests", "x" * 1_000_000)
        assert t.commit(timeout=60) == "committed"  # nothing of this disturbed it
        with pytest.raises(UsageError, match="is committed: nothing can be done in it any more"):
            t.send("airline.requests", 1)
        with pytest.raises(UsageError, match="'hotel:1:1' is not a transaction of 'agent'"):
            agent.status("hotel:1:1")


def test_after_an_abort(network: Network) -> None:
    with connect(network.folder, "agent") as agent:
        t = agent.begin()
        t.abort()
        t.abort()
        with pytest.raises(Aborted, match=f"{t.id} was undone: asked") as said:
            t.commit()
        assert said.value.why == "asked"


def test_many_clients_at_once(network: Network) -> None:
    """Each takes a number and puts back the next: no number is lost and none is there twice."""
    fill(network, "airline", "seats", [0, 0, 0])

    def work() -> int:
        done = 0
        with connect(network.folder, "airline") as here:
            for _ in range(20):
                with here.transaction() as t:
                    t.send("seats", t.receive("seats", timeout=60) + 1)
                    t.commit(timeout=60)
                    done += 1
        return done

    workers = [Aside(work) for _ in range(6)]
    assert [worker.result() for worker in workers] == [20] * 6
    assert sum(left(network)["seats"]) == 120 and len(left(network)["seats"]) == 3


def test_one_connection_does_one_thing_at_a_time(network: Network) -> None:
    with connect(network.folder, "agent") as agent:
        t = agent.begin()
        got: list[object] = []
        waiting = threading.Thread(target=lambda: got.append(t.receive("answers", timeout=60)), daemon=True)
        waiting.start()
        fill(network, "agent", "answers", ["now"])
        waiting.join(20)
        assert got == ["now"]
        t.commit()


def test_a_place_that_does_not_run(network: Network, tmp_path_factory: pytest.TempPathFactory) -> None:
    idle = trips(tmp_path_factory.mktemp("idle"))
    with pytest.raises(NotReached, match=r"agent: no process answers at 127\.0\.0\.1:\d+ .*`pellucid net up"):
        connect(idle.folder, "agent")
    with pytest.raises(UsageError, match="has no place 'agnt'"):
        connect(idle.folder, "agnt")
    (idle.folder / "secrets" / "agent.toml").unlink()
    with pytest.raises(StateError, match="the keys of agent are needed"):
        connect(idle.folder, "agent")


def test_another_key_is_not_let_in(network: Network, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The folder of another network with the same addresses: neither believes the other."""
    from pellucid.atomic.places import new_network

    other = new_network(tmp_path_factory.mktemp("other") / "net", network.places.values())
    with pytest.raises(NotReached, match=r"is not that place|hung up"):
        connect(other.folder, "agent")
    with connect(network.folder, "agent") as agent:
        assert agent.begin().id


def test_a_mistake_in_a_call_is_said_and_undoes_nothing(network: Network) -> None:
    with connect(network.folder, "airline") as here, here.transaction() as t:
        t.send("seats", 1)
        for wrong in (
            lambda: t.send(None, 2),  # type: ignore[arg-type]
            lambda: t.receive(7, timeout=0),  # type: ignore[arg-type]
            lambda: here.status(None),  # type: ignore[arg-type]
            lambda: here.messages(b"seats"),  # type: ignore[arg-type]
        ):
            with pytest.raises(UsageError, match=r"(path|channel|transaction) is a text, not "):
                wrong()
        with pytest.raises(UsageError, match="half of a pair of surrogates"):
            t.receive("\ud800", timeout=0)
        assert t.commit(timeout=60) == "committed"


def test_doubt_about_a_place_that_the_network_does_not_have_any_more(tmp_path: Path) -> None:
    made = new_network(tmp_path / "net", {"p": ["c"]})
    log = open_log(made.log_of("p"), "p")
    records = [make("boot", n=1), make("begin", t="p:1:1"), make("pending", t="p:1:1"), make("begin", t="p:1:2")]
    records += [make("pending", t="p:1:2"), make("begin", t="p:1:3", parent="gone:1:1"), make("pending", t="p:1:3")]
    records += [make("prepared", attempt="gone:1:a1", coordinator="gone", members=["p:1:1"], needs=[])]
    records += [make("decide", attempt="p:1:a1", members=["gone:1:1", "p:1:2"], participants=["gone"])]
    log.append([*records, make("commit", members=["p:1:2"], attempt="p:1:a1")])
    log.close()
    text = "\n".join(doubts(made, ["p"]).lines())
    assert text.count("is not in this network") == 3, text


def test_a_frozen_place_does_not_answer_and_is_not_taken_for_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_network(tmp_path / "net", {"p": ["c"], "q": ["d"]})
    with up(made), connect(made.folder, "p") as here, connect(made.folder, "q") as there:
        t, r = there.begin(), here.begin()
        t.send("p.c", 1)
        assert r.receive("c", timeout=20) == 1
        with pytest.raises(InDoubt, match="is decided later"):
            r.commit(timeout=0.1)
        pid = running(made, "q")
        assert pid
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(client, "_SECONDS_TO_GREET", 1.0)
        try:
            with pytest.raises(NotReached, match=r"q: does not answer at 127\.0\.0\.1:\d+ \(1 s\)"):
                connect(made.folder, "q")
            text = "\n".join(doubts(made, ["p", "q"]).lines())
            assert "another key" not in text and "q: cannot be seen: q: does not answer at" in text
            assert f"which does not answer\n  resolve    see why process {pid} of q does not answer" in text
            monkeypatch.setattr(client, "_GRACE", 0.2)
            with pytest.raises(InDoubt, match="if the place has heard that it is to be committed") as said:
                t.commit(timeout=0.1)
            assert "not asked to commit" not in str(said.value) and f"ask status('{t.id}')" in str(said.value)
        finally:
            os.kill(pid, signal.SIGCONT)
        monkeypatch.undo()
        there.reach(20)
        assert there.status(t.id) in ("committed", "aborted", "active", "pending")


def test_a_parent_is_a_transaction(network: Network) -> None:
    with connect(network.folder, "agent") as here:
        with pytest.raises(UsageError, match=r"begin: a parent is a transaction .*, not 'x'"):
            here.begin("x")  # type: ignore[arg-type]
        assert here.begin(here.begin()).id
