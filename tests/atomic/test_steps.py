"""Reduction: for every rule one state in which it applies, and one in which it must not."""

from __future__ import annotations

import re
from itertools import combinations, permutations

import pytest

from pellucid.atomic import Atomic, network_text, parse
from pellucid.atomic.machine import one_by_one
from pellucid.atomic.question import explore, why_stuck
from pellucid.atomic.state import State
from pellucid.errors import DataError, UsageError
from pellucid.internal.model import Budget, CutShort, Search, follow
from tests.atomic.mutants import mutant
from tests.atomic.networks import network

NAMES = (
    "new t, u, v: Trans. new p, q: Place. new c, d: Chan[<>]. new k, l: Key[<>]. new s: Chan[Packet[<>]]. "
    "new a: Chan[Chan[<>]]. new m, w: Chan[Packet[Cap[Chan[<>]] -> ()]]. new j, i: Key[Cap[Chan[<>]] -> ()]. "
)
MOBILE = "u{send(in m.in j, (y) send(y, <>))}"


def machine(text: str, **options: object) -> Atomic:
    rules = mutant(str(options.pop("rules", "corrected")))
    return Atomic(parse(NAMES + text), rules=rules, **options)  # type: ignore[arg-type]


def labels(text: str, *way: str, **options: object) -> list[str]:
    """The steps after a way, in words."""
    net = machine(text, **options)
    at = net.start()
    for words in way:
        at = next(then for step, then in net.steps(at) if str(step) == words)
    return [str(step) for step, _ in net.steps(at)]


def after(text: str, *way: str, whole: bool = False, **options: object) -> str:
    """The state after a way, as text without declarations."""
    net = machine(text, **options)
    at = net.start()
    for words in way:
        at = next(then for step, then in net.steps(at) if str(step) == words)
    text = network_text(net.store.network(at))
    return text if whole else text.rpartition("-> ()]. ")[2]


# rule, a network with the step, the step, what becomes of it; a network without such a step
RULES = [
    ("RED REPLICATE", "t{!commit}", "REPLICATE t", "t{!commit} | t{commit}", "t{commit}"),
    ("RED CRYPT", "t{crypt(in k, <>, (x) send(in s, x))}", "CRYPT t", "t{((x: Packet[<>]) send(in s, x))(k[<>])}",
     "t{crypt(out k, <>, (x) 0)}"),
    ("RED DECRYPT", "t{decrypt(out k, k[<>], (x) commit)}", "DECRYPT t", "t{((x: <>) commit)(<>)}",
     "t{decrypt(out k, l[<>], (x) commit)}"),
    ("RED LET", "t{let <x, y> = <c, <>> in send(in x, y)}", "LET t", "t{send(in c, <>)}",
     "t{receive(out c, (z) let <> = z in 0, 0)}"),
    ("RED APP", "t{((x: Chan[<>]) send(in x, <>))(c)}", "APP t", "t{send(in c, <>)}", "t{send(in c, <>)}"),
    ("RED TIMEOUT", "t{receive(out c, (x) commit, abort)}", "RECV TIMEOUT t", "t{abort}",
     "t{receive(in c, (x) commit, abort)}"),
    ("RED IN PLACE", "t{send(in p.in c, <>)} | p[ 0 ]", "IN t p", "p[ t{send(in c, <>)} ]",
     "t{send(in p.in c, <>)} | q[ p[ 0 ] ]"),
    ("RED OUT PLACE", "p[ t{send(out p.in c, <>)} ]", "OUT t p", "p[ 0 ] | t{send(in c, <>)}",
     "p[ q[ t{send(out p.in c, <>)} ] ]"),
    ("RED IN PLACE (ATF_M)", "t{send(in p.in m.in j, (y) 0)} | p[ 0 ]", "IN t p",
     "p[ t{send(in m.in j, (y: Cap[Chan[<>]]) 0)} ]", "t{send(in q.in m.in j, (y) 0)} | p[ 0 ]"),
    ("RED OUT PLACE (ATF_M)", "p[ t{send(out p.in m.in j, (y) 0)} ]", "OUT t p",
     "p[ 0 ] | t{send(in m.in j, (y: Cap[Chan[<>]]) 0)}", "p[ t{send(out q.in m.in j, (y) 0)} ]"),
    ("RED RECV", "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>)} ]", "RECV t from u c",
     "p[ t{receive(out c, (x: <>) commit, 0)} | u{send(in c, <>)}, t{((x: <>) commit)(<>)} ]",
     "p[ t{receive(out c, (x) commit, 0)} | u{send(in d, <>)} ]"),
    ("RED FORWARD", f"p[ t{{forward(out m, out p.in w, commit, abort)}} | {MOBILE} ]", "FORWARD t from u m",
     "p[ t{forward(out m, out p.in w, commit, abort)} | u{send(in m.in j, (y: Cap[Chan[<>]]) send(y, <>))}, "
     "t{commit} | t{send(out p.in w.in j, (y: Cap[Chan[<>]]) send(y, <>))} ]",
     f"p[ t{{forward(out w, out p.in w, commit, abort)}} | {MOBILE} ]"),
    ("RED FORWARD TIMEOUT", "p[ t{forward(out m, in w, commit, abort)} ]", "FORWARD TIMEOUT t", "p[ t{abort} ]",
     "p[ t{forward(in m, in w, commit, abort)} ]"),
    ("RED OPEN", f"p[ t{{open(out m.out j, in d, commit, 0)}} | {MOBILE} ]", "OPEN t from u m",
     "p[ t{open(out m.out j, in d, commit, 0)} | u{send(in m.in j, (y: Cap[Chan[<>]]) send(y, <>))}, "
     "t{((y: Cap[Chan[<>]]) send(y, <>))(in d)} | t{commit} ]",
     f"p[ t{{open(out m.out i, in d, commit, 0)}} | {MOBILE} ]"),
    ("RED OPEN TIMEOUT", "p[ t{open(out m.out j, in d, commit, 0)} ]", "OPEN TIMEOUT t", "p[ 0 ]",
     "p[ t{open(in m.out j, in d, commit, 0)} ]"),
    ("RED CHILD", "p[ t{child(commit)} ]", "CHILD t", "p[ ~0{0} | t{child(commit)}, ~0{commit} ]", "t{child(commit)}"),
    ("RED COMMIT", "p[ t{commit} ]", "COMMIT t", "p[ t{commit}, 0 ]", "t{commit}"),
    ("RED ABORT", "p[ t{abort | commit} ]", "ABORT t", "p[ t{abort}, 0 ]", "t{abort}"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "step", "then", "without"), RULES, ids=[row[0] for row in RULES])
def test_each_rule(rule: str, text: str, step: str, then: str, without: str) -> None:
    assert step in labels(text, unfold=1)
    assert after(text, step, unfold=1).rpartition("Trans. ")[2] == then
    word = step.partition(" t")[0]
    assert not [label for label in labels(without, unfold=1) if label.startswith(f"{word} t")]


def test_a_state_is_printed_and_read_back() -> None:
    net = machine(
        "p[ t{new z: Chan[<>]. send(in a, z) | receive(out z, (x) commit, 0)} | u{receive(out a, (y) 0, 0)} ]"
    )
    for at in explore(net, ()).search.parents:
        again = Atomic(net.store.network(at))
        assert network_text(again.store.network(again.start())) == network_text(net.store.network(at))


@pytest.mark.parametrize(
    ("log", "printed", "corrected"),
    [
        ("t{commit}", True, False),  # the receiver is committed: what safety needs
        ("t{abort}", False, False),
        ("u{commit}", False, True),
        ("u{abort}", True, False),
    ],
)
def test_who_may_take_a_message_by_the_log_of_the_place(log: str, printed: bool, corrected: bool) -> None:
    for text, step in [
        (f"p[ {log}, t{{receive(out c, (x) 0, 0)}} | u{{send(in c, <>)}} ]", "RECV t from u c"),
        (f"p[ {log}, t{{forward(out m, in w, 0, 0)}} | {MOBILE} ]", "FORWARD t from u m"),
        (f"p[ {log}, t{{open(out m.out j, in d, 0, 0)}} | {MOBILE} ]", "OPEN t from u m"),
    ]:
        assert (step in labels(text, rules="printed")) == printed
        assert (step in labels(text)) == corrected


def test_the_log_of_another_place_does_not_count() -> None:
    text = "q[ u{abort}, 0 ] | p[ t{receive(out c, (x) 0, 0)} | u{send(in c, <>)} ]"
    assert "RECV t from u c" in labels(text)


def test_a_commit_in_the_soup_is_none_in_the_log() -> None:
    text = "p[ t{commit | receive(out c, (x) 0, 0)} | u{send(in c, <>)} ]"
    assert "RECV t from u c" in labels(text) and "RECV t from u c" not in labels(text, "COMMIT t")


def test_abort_gives_back_a_multiset_and_kills_its_own() -> None:
    twice = "t{receive(out c, (x) receive(out c, (y) abort, 0), 0) | send(in d, <>)}"
    text = f"p[ {twice} | u{{send(in c, <>) | send(in c, <>)}} ]"
    way = ["RECV t from u c", "APP t", "RECV t from u c", "APP t", "ABORT t"]
    assert after(text, *way).endswith("t{abort}, u{send(in c, <>)} | u{send(in c, <>)} ]")
    assert after(text, *way, rules="abort_restore_as_set").endswith("t{abort}, u{send(in c, <>)} ]")
    assert after(text, *way, rules="abort_no_restore").endswith("t{abort}, 0 ]")
    assert after(text, *way, rules="no_kill").count("t{send(in d, <>)}") == 1


def test_its_own_message_is_not_given_back_to_a_dead_one() -> None:
    text = "p[ t{receive(out c, (x) abort, 0) | send(in c, <>)} ]"
    assert after(text, "RECV t from t c", "APP t", "ABORT t").endswith("t{abort}, 0 ]")


def test_mobile_messages_are_given_back_too() -> None:
    text = f"p[ t{{open(out m.out j, in d, abort, 0)}} | {MOBILE} ]"
    assert after(text, "OPEN t from u m", "ABORT t").endswith("u{send(in m.in j, (y: Cap[Chan[<>]]) send(y, <>))} ]")
    lost = after(text, "OPEN t from u m", "ABORT t", rules="no_log_predicate_for_forward_open")
    assert lost.endswith("t{abort}, 0 ]")


def test_abort_reaches_neither_inner_places_nor_messages_that_left() -> None:
    text = "p[ q[ t{send(in c, <>)} ] | t{abort} ] | t{send(in c, <>)}"
    assert after(text, "ABORT t").count("t{send(in c, <>)}") == 2
    assert "t{send" not in after(text, "ABORT t", rules="drop_dead_messages")


def test_members_of_a_commit_in_one_place_and_in_nested_ones() -> None:
    for places in ("p[ {} | {} ]", "p[ {} | q[ {} ] ]", "p[ {} ] | q[ {} ]"):
        text = places.format("t{commit}", "u{commit}")
        assert labels(text) == ["COMMIT t", "COMMIT t u", "COMMIT u"]
        apart = labels(text, rules="printed_commit_context")
        assert ("COMMIT t u" in apart) == places.startswith("p[ {} ]")


def test_what_a_commit_waits_for() -> None:
    text = "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>) | commit} | v{send(in d, <>)} ]"
    ready = ["RECV t from u c", "APP t"]
    assert labels(text, *ready) == ["COMMIT t u", "COMMIT u"]
    assert labels(text, *ready, "COMMIT u") == ["COMMIT t"]
    assert "COMMIT t" in labels(text, *ready, rules="commit_ignores_dependencies")
    late = "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>)} ]"
    assert labels(late, *ready) == []
    for word in ("commit", "abort"):  # who is decided by the log of its place does not commit again
        assert labels(f"p[ t{{{word}}}, t{{commit}} | u{{commit}} ]") == ["COMMIT u"]


def test_a_child_depends_on_its_parent() -> None:
    text = "p[ t{child(commit) | commit} ]"
    assert labels(text, "CHILD t") == ["COMMIT t", "COMMIT t ~0"]
    assert labels("p[ t{child(commit) | abort} ]", "CHILD t", "ABORT t") == []
    assert labels("p[ t{child(commit) | abort} ]", "CHILD t", "ABORT t", rules="cascade") == ["CASCADE ~0"]


def test_cascade_and_crash() -> None:
    text = "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>) | abort} ] | v{commit}"
    doomed = ["RECV t from u c", "ABORT u"]
    assert labels(text, *doomed) == ["APP t"]
    assert labels(text, *doomed, rules="cascade") == ["APP t", "CASCADE t"]
    assert {"CRASH t", "CRASH u"} <= set(labels(text, rules="crash"))
    assert "CRASH v" not in labels(text, rules="crash")  # outside every place there is no log


def test_places_with_one_name_are_told_apart_by_position() -> None:
    text = "t{send(in p.in c, <>)} | p[ u{receive(out c, (x) 0, 0)} ] | p[ 0 ]"
    net = machine(text)
    ways = [step for step, _ in net.steps(net.start()) if step.rule == "IN"]
    assert [str(step) for step in ways] == ["IN t p", "IN t p"] and len(set(ways)) == 2
    assert net.layout.labels == ["outside", "p(1)", "p(2)"]
    for step in ways:
        assert follow(net, [step])[-1].soups[step.place] != net.start().soups[step.place]


def test_binders_scopes_and_order_do_not_count() -> None:
    one = "p[ t{new z: Chan[<>]. new y: Chan[Chan[<>]]. send(in z, <>) | send(in y, z)} | u{commit} ]"
    two = "p[ u{0} | u{commit} | t{new b: Chan[Chan[<>]]. new a: Chan[<>]. send(in b, a) | 0 | send(in a, <>)} ]"
    texts = []
    for text in (one, two):
        net = machine(text)
        texts.append(sorted(str(net.store.items[i]) for soup in net.start().soups for i in soup))
    assert texts[0] == texts[1]


def test_a_name_that_is_declared_twice_is_two() -> None:
    net = Atomic(parse("new t: Trans. new p: Place. new c: Chan[<>]. p[ t{send(in c, <>)} | "
                       "(new c: Chan[<>]. t{receive(out c, (x) commit, 0)}) ]"))  # fmt: skip
    assert [str(step) for step, _ in net.steps(net.start())] == ["RECV TIMEOUT t"]


def test_a_private_name_is_neither_one_of_the_log_nor_that_of_its_place() -> None:
    """n[L, (new m) N] is (new m) n[L, N] only if m stands neither in L nor for n."""
    log = "t{receive(out c, (x) 0, 0)} | u{send(in c, <>)}"
    text = f"p[ {log}, new c: Chan[<>]. v{{send(in c, <>)}} | t{{abort}} ] | q[ 0 ]"
    then = after(text, "ABORT t")
    assert "p[ t{receive(out c, (x: <>) 0, 0)} | u{send(in c, <>)}; t{abort}, " in then
    assert "v{send(in c_2, <>)}" in then and "u{send(in c, <>)}" in then.partition("t{abort}, ")[2]
    own = "p[ new p: Place. t{send(out p.in q.in c, <>)} | p[ 0 ] ] | q[ 0 ]"  # it cannot leave the outer p by this p
    assert labels(own) == [] and labels(own.replace("new p: Place. ", "")) == ["OUT t p"]


def test_replication_has_a_budget() -> None:
    assert labels("p[ t{!commit} ]") == []
    assert labels("p[ t{!commit} ]", "REPLICATE t", unfold=1) == ["COMMIT t"]
    assert explore(machine("p[ t{!commit} ]")).held_back
    with pytest.raises(UsageError, match="unfold= is how often ! may unfold"):
        machine("0", unfold=-1)


def test_one_transaction_at_two_places_is_refused_and_messages_on_their_way_are_not() -> None:
    with pytest.raises(DataError, match=r"one place per transaction: t has processes at p and at q"):
        machine("p[ t{commit} ] | q[ t{abort} ]")
    with pytest.raises(DataError, match=r"at p\(1\) and at p\(2\)"):
        machine("p[ t{commit} ] | p[ t{abort} ]")
    machine("p[ t{commit} ] | q[ t{send(in c, <>)} ]")


def test_a_log_with_something_else_in_it() -> None:
    with pytest.raises(DataError, match=r"a log has no entry t\{send"):
        machine("p[ t{send(in c, <>)}, 0 ]")


def test_names_that_look_canonical_are_not_taken_for_others() -> None:
    odd = "t{receive(out a, (x'1) receive(out c, (y) send(in x'1, y), 0), 0)}"
    plain = "t{receive(out a, (z) receive(out c, (y) send(in z, y), 0), 0)}"
    assert machine(f"p[ {odd} ]").store.start(0) == machine(f"p[ {plain} ]").store.start(0)
    assert machine(f"p[ {odd} ]").layout.items == machine(f"p[ {plain} ]").layout.items
    assert "(x_1: Chan[<>]) receive(out c, (y: <>) send(in x_1, y)" in after(f"p[ {odd} ]")
    with pytest.raises(DataError, match="NET NEW: new x'1: expected a name without '"):
        Atomic(parse("new x'1: Place. 0"))
    shadows = "t{receive(out c, (y) receive(out a, (y) send(in y, <>), 0), 0)}"
    assert shadows.replace("(y)", "(y: <>)", 1).replace("(y)", "(y: Chan[<>])") in after(f"p[ {shadows} ]")


@pytest.mark.parametrize(
    ("text", "way", "shown"),
    [
        ("p[ t{receive(out a, (reply) send(in reply, <>), 0)} ]", [],
         "p[ t{receive(out a, (reply: Chan[<>]) send(in reply, <>), 0)} ]"),
        # what comes is called like a variable of the inside, which then gets a number
        ("p[ u{new x: Chan[<>]. send(in a, x)} | t{receive(out a, (y) receive(out c, (x) send(in y, x), 0), 0)} ]",
         ["RECV t from u a", "APP t"], "t{receive(out c, (x_2: <>) send(in x, x_2), 0)} ]"),
        ("p[ t{receive(out a, (c) send(in c, <>) | receive(out a, (c) send(in c, <>), 0), 0)} ]", [],
         "(c: Chan[<>]) send(in c, <>) | receive(out a, (c: Chan[<>]) send(in c, <>), 0), 0)} ]"),
        # a private name is called as in the text, unless there are two of that name, or a declared one
        ("p[ t{new z: Chan[<>]. send(in a, z)} ]", [], "new z: Chan[<>]. p[ t{send(in a, z)} ]"),
        ("p[ t{new z: Chan[<>]. send(in a, z)} | u{new z: Chan[<>]. send(in a, z)} ]", [],
         "p[ t{send(in a, ~0)} | u{send(in a, ~1)} ]"),
        ("p[ t{new c: Chan[<>]. send(in a, c)} ]", [], "p[ t{send(in a, ~0)} ]"),
        ("p[ t{let <v, w> = <c, <>> in receive(out a, (v) send(in v, w), 0)} ]", [],
         "p[ t{let <v, w> = <c, <>> in receive(out a, (v: Chan[<>]) send(in v, w), 0)} ]"),
        ("p[ t{!(new own: Chan[<>]. send(in a, own))} ]", [], "p[ t{!(new own: Chan[<>]. send(in a, own))} ]"),
    ],
)  # fmt: skip
def test_states_are_shown_with_the_names_of_the_text(text: str, way: list[str], shown: str) -> None:
    assert shown in (said := after(text, *way, whole=True)) or shown in said.rpartition("-> ()]. ")[2]


def test_steps_over_private_channels_are_shown_with_the_names_of_the_text() -> None:
    text = "p[ t{new z: Chan[<>]. (send(in z, <>) | receive(out z, (x) commit, 0))} ]"
    assert "RECV t from t z" in labels(text)
    net = machine(text)
    assert "t: in z" in str(net.see(net.start()))
    step, then = next((step, then) for step, then in net.steps(net.start()) if str(step) == "RECV t from t z")
    assert step.about == "~0" and follow(net, [step])[-1] == then


def test_private_names_of_a_text_are_not_taken_for_each_other() -> None:
    """A state as text may have any number of them, in any scope, beside those that processes make."""
    alone = {((("t",), ()))}
    for text in (
        "p[ (new ~0: Chan[<>]. t{send(in ~0, <>) | commit}) | (new ~0: Chan[<>]. u{receive(out ~0, (x) commit, 0)}) ]",
        "p[ t{new z: Chan[<>]. send(in z, <>) | commit} | (new ~0: Chan[<>]. u{receive(out ~0, (x) commit, 0)}) ]",
    ):
        assert set(explore(machine(text)).final) == alone, text


def test_a_place_of_a_text_may_have_a_private_name() -> None:
    """It stands where it is, however the private names of processes are put in order."""
    ends = []
    for place in ("den", "~0"):
        sends = f"p[ t{{send(in a, ~5) | send(out p.in {place}.in c, <>) | commit}} ]"
        text = f"new {place}: Place. new ~5: Chan[<>]. {sends} | {place}[ u{{receive(out c, (x) commit, 0)}} ]"
        found = explore(machine(text))
        ends.append((len(found.search.parents), set(found.final), found.lost))
    assert ends[0] == ends[1] == (17, {(("t",), ()), (("t", "u"), ())}, {})


def test_a_child_of_a_text_is_undone_like_others() -> None:
    found = explore(machine("new ~0: Trans. p[ ~0{0} | t{child(commit)}, ~0{commit} | t{abort} ]"))
    assert not found.broken and [*found.sticks] == ["child_0"]


def test_who_stands_in_a_log_only_is_a_transaction_too() -> None:
    text = "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>)}, u{abort} ]"
    assert [*explore(machine(text)).sticks] == ["t"]
    assert set(explore(machine(text, rules="crash")).final) == {((), ("t", "u"))}
    sent = explore(machine("p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>)}, t{commit} ]"))
    assert sorted(sent.sticks) == ["t", "u"]
    words = why_stuck(sent.machine, sent.sticks["u"], "u", ())
    assert words == "nothing is left of u that would commit or abort"


def test_a_log_is_at_the_place_of_its_transaction() -> None:
    took = "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>)}, 0 ]"
    with pytest.raises(DataError, match=r"one place per transaction: t is in the log of p and has processes at q"):
        machine(f"{took} | q[ t{{commit}} ]")
    with pytest.raises(DataError, match="one place per transaction: t is in the logs of p and of q"):
        machine(f"{took} | q[ t{{commit}}, 0 ]")
    machine(f"{took} | q[ u{{commit}} ]")


RING = """new a, b, c: Trans. new p, q, r: Place. new ka, kb, kc: Chan[<>].
p[ a{send(out p.in q.in kb, <>) | receive(out ka, (x) commit, abort)} ]
| q[ b{send(out q.in r.in kc, <>) | receive(out kb, (x) commit, abort)} ]
| r[ c{send(out r.in p.in ka, <>) | receive(out kc, (x) commit, abort)} ]"""


@pytest.mark.parametrize("rules", ["corrected", "printed", "cascade", "crash", "drop_dead_messages"])
def test_what_is_kept_of_a_place_is_what_its_rules_say(rules: str) -> None:
    """Steps are found once for a place and its log; in each state they are those that its rules make there."""
    ring = Atomic(parse(RING), rules=mutant(rules))
    states = list(explore(ring).search.parents)
    assert rules != "corrected" or len(states) == 11**3 + 1
    for at in states:
        for place in range(len(at.soups)):
            assert list(ring._known_at(at, place)) == list(ring._at(at, place))
    assert len(ring._local) < 300  # a few for each place, however many states there are


# Logs are sequences, and a commit of several writes several records: names must not tell in which order.
#
# A state that is printed and read again has its children declared, with other names; whoever renames transactions has
# the same network.  Both have as many states as before.

NAMES_COMMIT_ORDER = "new t, u, v: Trans. new p, q: Place. new c, d, e: Chan[<>]. "
TEXTS = [
    "p[ t{child(commit) | commit} ]",  # the child is called before its parent, and comes after it
    "p[ t{child(commit | send(in c, <>)) | receive(out c, (x) commit, 0)} ]",
    "p[ t{child(receive(out c, (x) commit, 0) | send(in d, <>)) | child(receive(out d, (x) commit, 0) | "
    "send(in c, <>)) | commit} ]",  # a circle of two children
    "p[ t{receive(out c, (x) commit, 0) | send(in d, <>)} | u{receive(out d, (x) commit, 0) | send(in c, <>)} ]",
    "p[ t{receive(out c, (x) commit, 0)} | u{send(in c, <>) | commit} | v{commit} ]",
    "p[ t{child(commit) | child(abort) | commit} | u{commit} ]",
]


def count(machine: Atomic, at: State, most: int | None = None) -> int:
    """How many states can be reached."""
    return len(Search([at], machine.steps, Budget(None, most)).all())


@pytest.mark.parametrize("text", TEXTS)
def test_a_state_that_is_read_again_has_as_many(text: str) -> None:
    machine = Atomic(parse(NAMES_COMMIT_ORDER + text))
    for at in Search([machine.start()], machine.steps).all():
        again = Atomic(parse(network_text(machine.store.network(at))))
        assert count(again, again.start()) == count(machine, at), network_text(machine.store.network(at))


@pytest.mark.parametrize("text", TEXTS)
def test_names_do_not_count(text: str) -> None:
    counts = set()
    for names in permutations("tuv"):
        other = dict(zip("tuv", names, strict=True))
        swapped = "".join(other.get(part, part) for part in re.split(r"\b([tuv])(?=\{)", text))
        machine = Atomic(parse(NAMES_COMMIT_ORDER + swapped))
        counts.add(count(machine, machine.start()))
    assert len(counts) == 1


@pytest.mark.parametrize("seed", range(25))
def test_random_networks_read_again_and_renamed(seed: int) -> None:
    text = network(seed, mobile=False)
    machine = Atomic(parse(text), unfold=1)
    search = Search([machine.start()], machine.steps, Budget(None, 400))
    try:
        states = sorted(search.all())
    except CutShort:
        return
    swap = {"t1": "t3", "t2": "t1", "t3": "t2"}
    renamed = Atomic(parse(re.sub(r"\bt[123]\b", lambda name: swap[name[0]], text)), unfold=1)
    assert count(renamed, renamed.start()) == len(states)
    for at in states[:: max(1, len(states) // 4)]:
        again = Atomic(parse(network_text(machine.store.network(at))), unfold=at.left)
        assert count(again, again.start()) == count(machine, at), network_text(machine.store.network(at))


def test_every_log_of_a_commit_of_several_comes_about_one_by_one() -> None:
    """The same states with commits of those only who need each other."""
    for text in TEXTS:
        machine = Atomic(parse(NAMES_COMMIT_ORDER + text))
        everything = machine.committable

        def fewest(at: State, everything=everything) -> list[tuple[str, ...]]:  # type: ignore[no-untyped-def]
            found = list(everything(at))
            return [one for one in found if not any({*other} < {*one} for other in found)]

        whole = Search([machine.start()], machine.steps).all()
        machine.committable = fewest  # type: ignore[assignment, method-assign]
        assert Search([machine.start()], machine.steps).all() == whole


@pytest.mark.parametrize("size", [2, 3, 4])
def test_an_order_has_what_is_needed_first(size: int) -> None:
    names = "abcd"[:size]
    edges = list(permutations(names, 2))
    for chosen in (some for n in range(min(4, len(edges)) + 1) for some in combinations(edges, n)):
        first = {t: (1, names.index(t)) for _, t in chosen}
        order = one_by_one(names, chosen, first)
        assert sorted(order) == list(names) and order == one_by_one(names[::-1], chosen[::-1], first)
        for u, t in chosen:  # t depends on u
            if order.index(u) > order.index(t):
                assert reaches(chosen, t, u), (chosen, order)


def reaches(edges: tuple[tuple[str, str], ...], one: str, other: str) -> bool:
    """Whether there is a way over edges."""
    found = {one}
    while more := {t for u, t in edges if u in found} - found:
        found |= more
    return other in found
