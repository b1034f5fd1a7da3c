"""`check.atomic`: what every run keeps, the mutants that fall, those that cannot, why a transaction sticks."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest

from pellucid import check
from pellucid.atomic import counterexample_to_lemma_1, parse, run
from pellucid.atomic import syntax as s
from pellucid.atomic.machine import Atomic, closed_sets
from pellucid.atomic.question import Judge, explore, hopeless
from pellucid.atomic.running import MOST, offers
from pellucid.atomic.state import WITHIN, State
from pellucid.errors import DataError, UsageError
from pellucid.internal.model import Budget, CutShort, Search
from tests.atomic.mutants import EQUIVALENT, MUTANTS, mutant
from tests.atomic.networks import network

EXAMPLES = Path(__file__).parents[2] / "examples" / "atomic"
NAMES = (
    "new t1, t2, t3: Trans. new p, q: Place. new c, d: Chan[<>]. new m: Chan[Packet[Cap[Chan[<>]] -> ()]]. "
    "new k: Key[Cap[Chan[<>]] -> ()]. "
)
SAFETY = ("A1", "A2", "A3", "C1", "C2", "types")
AFTER = "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) 0, 0) | commit} ]"
READER = "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) 0, 0) | commit} ]"
RACE = "p[ t1{send(in c, <>) | receive(out d, (x) 0, 0) | commit | abort} | " \
       "t2{send(in d, <>) | receive(out c, (x) 0, 0) | commit} ]"  # fmt: skip
MOBILE = "p[ t1{send(in m.in k, (y) send(y, <>)) | abort} | t2{open(out m.out k, in d, commit, 0)} ]"

# mutant, network, the property that refutes it, the shortest trace, which parts fall in all
TABLE = [
    ("printed", AFTER, "C1", ["COMMIT t2", "RECV t2 from t1 c", "ABORT t1"]),
    ("receive_after_commit", AFTER, "C1", ["COMMIT t2", "RECV t2 from t1 c", "ABORT t1"]),
    ("commit_ignores_dependencies", READER, "C1", ["RECV t2 from t1 c", "ABORT t1", "COMMIT t2"]),
    ("commit_waits_only_for_no_abort", READER, "C1", ["RECV t2 from t1 c", "COMMIT t2", "ABORT t1"]),
    ("commit_one_of_cycle", RACE, "C1", ["RECV t2 from t1 c", "COMMIT t2", "ABORT t1"]),
    ("abort_no_restore", "p[ t1{send(in c, <>)} | t2{receive(out c, (x) 0, 0) | abort} ]", "C2",
     ["RECV t2 from t1 c", "ABORT t2"]),
    ("abort_restore_as_set", "p[ t1{send(in c, <>) | send(in c, <>)} | "
     "t2{receive(out c, (x) 0, 0) | receive(out c, (x) 0, 0) | abort} ]", "C2",
     ["RECV t2 from t1 c", "RECV t2 from t1 c", "ABORT t2"]),
    ("abort_of_committed", "p[ t1{commit | abort} ]", "A1", ["COMMIT t1", "ABORT t1"]),
    ("no_log_predicate_for_forward_open", MOBILE, "C1", ["OPEN t2 from t1 m", "ABORT t1", "COMMIT t2"]),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "text", "by", "trace"), TABLE, ids=[row[0] for row in TABLE])
def test_every_mutant_falls_to_its_property_by_its_shortest_trace(
    rules: str, text: str, by: str, trace: list[str]
) -> None:
    assert check.atomic(NAMES + text, about=SAFETY).proved  # the corrected rules keep them all
    verdict = check.atomic(NAMES + text, about=SAFETY, rules=mutant(rules))
    part = verdict.parts[by]
    assert verdict.refuted and part.refuted and part.counterexample is not None
    assert len(part.counterexample.steps) == len(trace)
    follows = [Atomic(parse(NAMES + text), rules=mutant(rules))]
    at = {follows[0].start()}
    for words in trace:
        at = {then for s in at for step, then in follows[0].steps(s) if str(step) == words}
    assert at  # the trace of the table is one of the shortest
    assert part.counterexample.replay() and part.counterexample.why in str(verdict)


def test_the_table_has_every_mutant() -> None:
    assert {row[0] for row in TABLE} - {"printed"} == set(MUTANTS)


def test_one_of_a_cycle_breaks_a3_at_once() -> None:
    text = NAMES + (
        "p[ t1{send(in c, <>) | receive(out d, (x) commit | abort, 0)} | "
        "t2{send(in d, <>) | receive(out c, (x) commit, 0)} ]"
    )
    verdict = check.atomic(text, about=("A3", "C1"), rules=mutant("commit_one_of_cycle"))
    steps = {name: [str(s) for s in part.counterexample.steps if s.rule != "APP"]  # type: ignore[union-attr]
             for name, part in verdict.parts.items()}  # fmt: skip
    assert [len(steps["A3"]), len(steps["C1"])] == [3, 4]


@pytest.mark.parametrize("rules", list(EQUIVALENT))
def test_the_equivalent_ones_are_named(rules: str) -> None:
    for text in (AFTER, READER, RACE, MOBILE, *(row[1] for row in TABLE)):
        verdict = check.atomic(NAMES + text, about=SAFETY, rules=mutant(rules))
        assert verdict.proved


def test_c2_alone_holds_for_the_printed_rule() -> None:
    verdict = check.atomic(NAMES + AFTER, about=("C1", "C2"), rules="printed")
    assert verdict.parts["C1"].refuted and verdict.parts["C2"].proved


def test_two_plausible_formulations_are_false() -> None:
    text = NAMES + "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) 0, 0)} ]"
    verdict = check.atomic(text, about=("F0", "F1", "C2"))
    assert verdict.parts["F0"].counterexample.trace() == ["RECV t2 from t1 c", "ABORT t1"]  # type: ignore[union-attr]
    text = NAMES + (
        "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) 0, 0) | receive(out d, (x) 0, 0)} | t3{send(in d, <>)} ]"
    )
    verdict = check.atomic(text, about=("F1", "C2"))
    assert verdict.parts["C2"].proved
    assert len(verdict.parts["F1"].counterexample.steps) == 3  # type: ignore[union-attr]


def test_lemma_1_as_printed() -> None:
    verdict = check.atomic(counterexample_to_lemma_1(), system="printed", about="types")
    assert verdict.refuted and "VAL OUTPUT CAP" in verdict.counterexample.why  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "who", "why"),
    [
        ("p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) commit, abort)} ]", "t2",
         "t2 took a message of t1, which aborted: it can never commit, and does not abort"),
        ("p[ t1{send(in c, <>)} | t2{receive(out c, (x) commit, abort)} ]", "t2",
         "t2 is ready, and depends on t1, which never decides"),
        ("p[ t1{send(in c, <>) | receive(out d, (x) 0, commit)} | "
         "t2{send(in d, <>) | receive(out c, (x) commit, abort)} ]",
         "t2", "t2 is ready, and in a cycle with t1, which never commits"),
        ("p[ t2{receive(out c, (x) commit, 0)} ]", "t2",
         "a time-out of t2 ends in 0: nothing is left of it that would commit or abort"),
        ("p[ t2{receive(out c, (x) commit, send(in d, <>))} ]", "t2",
         "nothing is left of t2 that would commit or abort"),
        ("t2{commit}", "t2", "t2 runs outside every place, where there is no log: nothing is decided there"),
        ("p[ t2{send(in c, <>)} ] | q[ t2{send(in c, <>)} ]", "t2", "nothing is left of t2 that would commit or abort"),
        ("p[ t2{send(in c, <>)} ]", "t2", "nothing is left of t2 that would commit or abort"),
        ("p[ t2{receive(in c, (x) commit, abort)} ]", "t2",
         "t2 has receive(in c, (x: <>) commit, abort) left, and nothing more can happen to it"),
        ("p[ t1{child(commit) | abort} ]", "children",
         "~0 is a child of t1, which aborted: it can never commit, and does not abort"),
    ],
)  # fmt: skip
def test_why_it_sticks(text: str, who: str, why: str) -> None:
    part = check.atomic(NAMES + text, about="progress").parts[f"progress of {who}"]
    assert part.refuted and part.counterexample is not None and part.counterexample.why == why


def test_with_cascade_and_crash_everything_inside_a_place_is_decided() -> None:
    for file in sorted(EXAMPLES.glob("*.atf")):
        verdict = check.atomic(file.read_text(), rules="crash", about="progress")
        assert verdict.status == ("bounded" if verdict.bound else "proved"), file


def test_replication_beyond_its_budget_is_said() -> None:
    text = NAMES + "p[ t1{!send(in c, <>) | commit} | t2{receive(out c, (x) !commit, abort)} ]"
    verdict = check.atomic(text, unfold=1)
    assert verdict.parts["A1"].bound == "runs with at most 1 unfolding of !"
    assert verdict.parts["progress of t2"].unknown
    assert "not decided in some runs with at most 1 unfolding of !, and more might decide it" in str(verdict)
    assert {part for part, found in verdict.parts.items() if found.proved} == {"place"}  # a budget is no proof
    served = check.atomic(NAMES + "p[ t1{!send(in c, <>) | commit} ]", unfold=1)
    assert served.bounded and served.bound == "runs with at most 1 unfolding of !" and not served
    assert (
        str(served)
        .splitlines()[0]
        .startswith("bounded  atomic failure of the network: nothing found in runs with at most 1 unfolding of !  (")
    )
    without = check.atomic(NAMES + "p[ t1{commit} ]")
    assert without.proved and "unfolding" not in str(without)


def test_where_nothing_is_committed_it_is_said() -> None:
    said = "no run commits anything: properties of committed ones hold of nothing here"
    assert said in check.atomic(NAMES + "p[ t1{abort} ]").notes
    assert said not in check.atomic(NAMES + "p[ t1{commit} ]").notes


@pytest.mark.parametrize("second", ["t2{commit}", "t2{send(in c, <>)}"])
def test_a_child_that_ends_undecided_is_among_the_ends(second: str) -> None:
    """It was left out, as if nothing had been made."""
    text = NAMES + "p[ t1{child(receive(out d, (x) commit, 0)) | commit} | " + second + " ]"
    ends = check.atomic(text).details["outcomes"]
    assert any("~0" in end["undecided"] for end in ends), ends
    assert all({"t1", "t2", "~0"} == {t for names in end.values() for t in names} for end in ends), ends


def test_who_read_from_an_aborted_one_sticks_however_often_a_server_unfolds() -> None:
    text = NAMES + "p[ t1{send(in c, <>) | abort} | t2{!receive(out c, (x) 0, 0) | commit} ]"
    for unfold in (1, 3):
        part = check.atomic(text, about="progress", unfold=unfold).parts["progress of t2"]
        assert part.refuted and part.counterexample.trace() == ["REPLICATE t2", "RECV t2 from t1 c", "ABORT t1"]  # type: ignore[union-attr]
    text = text.replace("0, 0)", "0, abort)")  # it can always still give up waiting
    assert check.atomic(text, about="progress", unfold=1).parts["progress of t2"].unknown
    text = text.replace("0, abort)", "0, 0)").replace("t2{", "t2{open(out m.out k, in d, 0, 0) | ")  # or open an abort
    assert not check.atomic(text, about="progress", unfold=1).parts["progress of t2"].proved


def test_a_run_ends_where_it_is_clear() -> None:
    """The nearest state from which it is never decided, not the nearest end."""
    text = NAMES + (
        "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x) send(in d, <>) | commit, abort)} | t3{commit} ]"
    )
    example = check.atomic(text, about="progress").counterexample
    assert example.trace() == ["RECV t2 from t1 c", "ABORT t1"]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_hopeless_is_never_decided(seed: int) -> None:
    """By all that can still happen."""
    machine = Atomic(parse(network(seed)), unfold=1)
    found = explore(machine, (), Budget(None, 300))
    for at in [*found.search.parents][::7]:
        for t in machine.transactions:
            view = machine.view(at)
            if t in view.committed | view.aborted or not hopeless(machine, at, t):
                continue
            later = explore_from(machine, at)
            assert all(t not in machine.view(then).committed | machine.view(then).aborted for then in later), (at, t)


@pytest.mark.parametrize("seed", range(20))
def test_what_sticks_is_what_is_undecided_at_some_end(seed: int) -> None:
    """Clear before the end or not: without ``!`` both say the same of every transaction."""
    machine = Atomic(parse(network(seed)))
    found = explore(machine, (), Budget(None, 1500))
    ends = {t for committed, aborted in found.final for t in machine.transactions if t not in {*committed, *aborted}}
    assert found.cut or ends == {*found.sticks} - {"child"}
    assert ends <= {*found.sticks}


def explore_from(machine: Atomic, at: State) -> set[State]:
    search = Search([at], machine.steps, Budget(None, 300))
    try:
        return search.all()
    except CutShort:
        return set(search.parents)


def test_by_way_of_whom() -> None:
    reads = "t2{receive(out c, (x) send(in d, <>) | commit, abort)} | t3{receive(out d, (x) commit, abort)}"
    part = check.atomic(f"{NAMES} p[ t1{{send(in c, <>) | abort}} | {reads} ]").parts["progress of t3"]
    assert part.counterexample.why == (  # type: ignore[union-attr]
        "t3 depends on t1, by way of t2, and t1 aborted: it can never commit, and does not abort"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p[ q[ t1{send(out p.in c, <>)} ] ]", "at q: send(out p.in c, <>) cannot leave p from there"),
        ("p[ t1{send(out p.in c, <>)} ]", "at outside: send(in c, <>) is outside every place, where nothing is read"),
        ("p[ t1{send(out p.in p.in q.in c, <>)} ] | q[ 0 ]", "at p: send(in q.in c, <>) finds no place q there"),
        ("p[ t1{receive(out d, (x) send(in q.in c, <>), 0)} | t2{send(in d, <>)} ] | q[ 0 ]",
         "at p: send(in q.in c, <>) finds no place q there"),
        ("p[ t1{send(out p.in m.in k, (y) 0)} ]",
         "send(in m.in k, (y: Cap[Chan[<>]]) 0) is outside every place, where nothing is read"),
        # what stands on a channel of a place, and nobody could read
        ("p[ t1{send(out c, <>)} ]", "send(out c, <>) can never be read: it has out c, and a message has in c"),
        ("p[ t1{send(in m.out k, (y) 0)} ]", "can never be read: it has out k, and a message has in k"),
        ("p[ t1{send(in k, (y) 0)} ]", "can never be read: it has no channel before the key k"),
        ("p[ t1{send(in q.in k, (y) 0)} | q[ 0 ] ]", "can never be read: it has no channel before the key k"),
        ("p[ t1{new z: rec X. Chan[X]. send(out z, z)} ]", "it has out z, and a message has in z"),
        # places with a private name, too, and by the name of the text
        ("p[ t1{new den: Place. send(in den.in c, <>)} ]", "at p: send(in den.in c, <>) finds no place den there"),
        ("p[ t1{new den: Place. send(out den.in c, <>)} ]", "at p: send(out den.in c, <>) cannot leave den from there"),
    ],
)  # fmt: skip
def test_a_message_that_waits_for_ever_is_a_warning(text: str, words: str) -> None:
    notes = check.atomic(NAMES + text, about="place").notes
    assert len([note for note in notes if note.startswith("warning: ")]) == 1
    assert notes[0].startswith("warning: t1 sent a message that waits for ever at ") and notes[0].endswith(words)
    for good in ("p[ t1{send(out p.in q.in c, <>)} ] | q[ 0 ]", "p[ t1{send(in m.in k, (y) 0)} ]"):
        assert not check.atomic(NAMES + good, about="place").notes[0].startswith("warning")


def test_very_many_warnings_are_counted() -> None:
    text = NAMES + "p[ t1{" + " | ".join(f"send(in q.{'in q.' * n}in c, <>)" for n in range(12)) + "} ] | q[ 0 ]"
    notes = check.atomic(text, about="place", max_states=300).notes
    assert len([n for n in notes if n.startswith("warning")]) == 9
    assert notes[8].startswith("warning: there are ")


def test_a_capability_for_a_place_that_is_not_there_is_a_warning() -> None:
    verdict = check.atomic(NAMES + "p[ t1{send(out p.in q.in c, <>) | commit} ]")
    assert verdict.proved and verdict.notes[0] == (
        "warning: t1 has a capability for q, and no place is called q: a message on its way there waits for ever"
    )


def test_a_limit_gives_unknown() -> None:
    text = (EXAMPLES / "cycle.atf").read_text()
    verdict = check.atomic(text, max_states=50)
    assert verdict.unknown and "the limit of 50 states was reached" in verdict.parts["A1"].notes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check.atomic("0", about="A4"), "there is no question 'A4' about atomic failure: there are A1, A2"),
        (lambda: check.atomic("0", rules="crush"), "there are no rules 'crush'; did you mean 'crash'?"),
        (lambda: check.atomic(3), "a network is expected, or its text; found a int"),  # type: ignore[arg-type]
        (lambda: check.atomic("0", timeout=0), "timeout= takes a number of seconds above 0"),
        (lambda: check.atomic("0", max_states=0), "max_states= is a whole number above 0"),
        (lambda: run("0", seed=-1), "seed= is a whole number"),
    ],
)
def test_what_is_refused(call: object, message: str) -> None:
    with pytest.raises(UsageError) as error:
        call()  # type: ignore[operator]
    assert message in str(error.value)


def test_bad_networks_are_refused() -> None:
    with pytest.raises(DataError, match="NET PROCESS: u is free"):
        check.atomic("new p: Place. p[ u{commit} ]")
    with pytest.raises(DataError, match="one place per transaction: t has processes at p and at q"):
        check.atomic("new t: Trans. new p, q: Place. p[ t{commit} ] | q[ t{commit} ]")


def test_a_counterexample_in_every_form(tmp_path: Path) -> None:
    example = check.atomic(NAMES + AFTER, about="C1", rules="printed").counterexample
    assert example is not None
    picture = example.picture("C1")
    assert picture.startswith("<svg") and "plc-gone" in picture and "ABORT t1" in picture
    assert '"why": "t2 is committed, and doomed by t1, which aborted"' in example.to_json(indent=1)
    text = example.as_pytest("C1", file="network.atf", name="reader")
    space: dict[str, object] = {}
    exec(compile(text, "test_written.py", "exec"), space)
    (written,) = [value for key, value in space.items() if key.startswith("test_")]
    written()  # type: ignore[operator]


# ---------------------------------------------------------------- examples


OUTCOMES = {
    "firewalls": [([], []), (["client"], ["server"]), (["client", "server"], [])],
    "booking": [(["flight", "hotel", "trip"], [])],
    "cycle": [(["a", "b", "c"], [])],
    "mobile": [(["opener", "sender"], [])],
    "forwarding": [(["relay", "sender", "vault"], [])],
    "order": [(["order", "payment", "stock"], []), ([], ["order", "payment", "stock"])],
    "hasty": [(["order", "stock"], ["payment"])],  # the lesson: sold, and not paid
    "server": [(["alice", "bob", "server"], []), (["alice", "server"], ["bob"])],
    "relay": [(["opener", "relay", "sender"], []), (["relay", "sender"], ["opener"])],
}


@pytest.mark.parametrize("name", list(OUTCOMES))
def test_examples(name: str) -> None:
    found = explore(Atomic(parse((EXAMPLES / f"{name}.atf").read_text()), unfold=2))
    assert not found.broken and not found.cut and not found.lost
    assert found.held_back == (name == "server")
    for committed, aborted in OUTCOMES[name]:
        assert (tuple(committed), tuple(aborted)) in found.reachable
    groups = {"booking": "trip flight hotel", "cycle": "a b c", "order": "order payment stock"}
    together = set(groups.get(name, "").split())
    if together:  # at once or not at all
        assert all(not committed or set(committed) == together for committed, _ in found.reachable)


def test_every_example_is_asked() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.atf")} == set(OUTCOMES)


def test_the_relay_needs_no_key_and_the_opened_process_runs_in_the_openers_transaction() -> None:
    machine = Atomic(parse((EXAMPLES / "mobile.atf").read_text()))
    for at in explore(machine, ()).search.parents:
        for soup in at.soups:
            for i in soup:
                item = machine.store.said(at, machine.store.items[i])
                assert item.trans in ("sender", "opener")
                if str(item) == "opener{send(in private, <>)}":
                    return
    raise AssertionError("it was never opened")


# ---------------------------------------------------------------- random networks


@pytest.mark.parametrize("seed", range(45))
def test_random_networks_keep_all(seed: int) -> None:
    """Along all runs, and along one by chance, which may be longer than what can be searched."""
    text = network(seed)
    verdict = check.atomic(text, about=SAFETY, max_states=600, timeout=None)
    assert not verdict.refuted, str(verdict)
    chance = run(text, seed=seed, rules="crash")
    assert isinstance(chance.machine, Atomic)
    judge = Judge(chance.machine)
    for at in chance.states():
        assert judge.broken(at, ("A1", "A2", "A3", "C1", "types")) == {}


def test_whoever_a_cascade_might_still_reach_is_unknown() -> None:
    """Nothing is left of t2, but one more unfolding aborts t1, of which it took a message, and then it."""
    text = NAMES + "p[ t1{send(in c, <>) | !abort} | t2{receive(out c, (x) 0, abort)} ]"
    status = [
        check.atomic(text, about="progress", rules=mutant(rules), unfold=unfold).parts["progress of t2"].status
        for rules, unfold in (("cascade", 0), ("cascade", 1), ("corrected", 0))
    ]
    assert status == ["unknown", "bounded", "refuted"]


def test_a_network_with_endless_runs_is_unknown_and_not_proved() -> None:
    """Each child opens the message that its parent gave back by aborting, and makes the next child."""
    text = NAMES + (
        "p[ t1{send(in m.in k, (y) child(open(out m.out k, y, abort, 0)))} | t2{open(out m.out k, in d, abort, 0)} ]"
    )
    verdict = check.atomic(text, max_states=60, timeout=None)
    assert verdict.parts["C2"].status == "unknown" and verdict.parts["progress of t1"].refuted


@pytest.mark.long
@pytest.mark.parametrize("block", range(30))
def test_thousands_of_random_networks(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        for rules in ("corrected", "crash", *EQUIVALENT):
            verdict = check.atomic(network(seed), about=SAFETY, rules=mutant(rules), max_states=1500, timeout=None)
            assert not verdict.refuted, (seed, str(verdict))


@pytest.mark.parametrize("rules", [name for name in MUTANTS if name != "abort_restore_as_set"])
def test_random_networks_refute_the_mutants(rules: str) -> None:
    """Of a few dozen networks some refute each; the one about equal messages needs luck, and has its own above."""
    wanted = {row[0]: row[2] for row in TABLE}[rules]
    for seed in (7, 4, 43, 24, 1, *range(60)):
        if check.atomic(network(seed), about=wanted, rules=mutant(rules), max_states=400, timeout=None).refuted:
            return
    raise AssertionError(f"{rules} was not refuted")


@pytest.mark.parametrize("seed", [1, 4, 7, 24, 40, 43])
def test_the_largest_committable_set_is_what_nothing_undecided_reaches(seed: int) -> None:
    """Pending, minus all that is reachable by ⇝ from what is neither pending nor committed; it is unique."""
    machine = Atomic(parse(network(seed)))
    for at in explore(machine, (), Budget(None, 600)).search.parents:
        view = machine.view(at)
        inside = [machine.store.items[i] for soup in at.soups[1:] for i in soup]
        pending = {item.trans for item in inside if isinstance(item.process, s.Commit)} - view.committed - view.aborted
        everybody = {*machine.transactions, *machine.children(at)}
        largest = pending - view.after(frozenset(everybody - pending - view.committed))
        sets = [set(members) for members in machine.committable(at)]
        assert set().union(*sets) == largest and (not largest or largest in sets)


# Where a network is large: names that look alike, sets that could commit, steps to choose from, nesting.

NAMES_LIMITS = (
    "new t, u: Trans. new p: Place. new c: Chan[<>]. new a: Chan[Chan[<>]]. new b: Chan[<Chan[<>], Chan[<>]>]. "
)


@pytest.mark.parametrize("seed", range(30))
def test_closed_sets_are_all_unions_that_need_nobody_else(seed: int) -> None:
    chance = random.Random(seed)
    names = "abcdef"[: chance.randint(1, 6)]
    needs = {t: {u for u in names + "z" if u != t and chance.random() < 0.25} for t in names}
    known = [set(some) for n in range(1, len(names) + 1) for some in combinations(names, n)]
    wanted = sorted(tuple(sorted(some)) for some in known if all(needs[t] <= some for t in some))
    assert list(closed_sets(needs)) == wanted


def test_very_many_sets_come_one_by_one() -> None:
    names = [f"t{i}" for i in range(60)]
    first = next(closed_sets({t: set() for t in names}))
    assert set(first) == set(names)  # the largest
    inside = " | ".join(f"{t}{{commit}}" for t in names)
    text = f"new {', '.join(names)}: Trans. new p: Place. p[ {inside} ]"
    machine = Atomic(parse(text))
    offered, more = offers(machine, machine.start())
    assert len(offered) == MOST and more
    found = run(text, seed=1)
    assert len(found.outcome()[0]) == 60 and found.replay()
    verdict = check.atomic(text, about="A1", max_states=500)
    assert verdict.unknown and "the limit of 500 states was reached" in str(verdict)


def test_private_names_that_look_alike_and_stand_apart() -> None:
    many = " | ".join(["(new z: Chan[<>]. send(in a, z) | receive(out z, (x) 0, 0))"] * 9)
    machine = Atomic(parse(NAMES_LIMITS + f"p[ t{{{many} | commit}} ]"))
    found = Search([machine.start()], machine.steps, Budget(None, None)).all()
    assert len(found) == 2 * 10  # how many gave up, and whether it is committed: in whichever order
    together = " | ".join(f"send(in b, <z{i}, z{(i + 1) % 9}>)" for i in range(9))
    declared = "".join(f"new z{i}: Chan[<>]. " for i in range(9))
    ring = NAMES_LIMITS + f"p[ t{{{declared}{together} | commit}} ]"
    verdict = check.atomic(ring)  # 9! orders
    assert verdict.unknown and "9 private names look alike: too many orders to compare" in str(verdict)
    with pytest.raises(DataError, match=r"the network: 9 private names look alike"):
        run(ring)


@pytest.mark.parametrize("seed", [2, 9, 11, 30, 31, 33])
def test_families_of_names_give_as_many_states_as_all_orders(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = network(seed)
    counts = []
    for alike in (WITHIN, 0):  # 0: by families wherever there is a private name
        monkeypatch.setattr("pellucid.atomic.state.ALIKE", alike)
        found = explore(Atomic(parse(text), unfold=1), (), Budget(None, 3000))
        counts.append((len(found.search.parents), found.search.transitions, sorted(found.final)))
    assert counts[0] == counts[1]


def test_what_grows_too_deep_is_unknown() -> None:
    machine = Atomic(parse("new t: Trans. new p: Place. p[ t{commit} ]"))

    def deep(at: object) -> list[object]:
        raise RecursionError

    machine.steps = deep  # type: ignore[assignment]
    assert explore(machine).cut == "a process is nested too deeply after 1 states"
