"""Random networks held to the judge; its table of mutants; traps; and that the judge notices what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import check
from pellucid.atomic import Atomic, IllTyped, counterexample_to_lemma_1, network_text, parse, typecheck
from pellucid.internal.cli.models.net import net
from tests.atomic.mutants import MUTANTS, mutant
from tests.conformance import run
from tests.judge.atomic.__main__ import judged
from tests.judge.atomic.draw import KINDS, LINKED, PLACE, SELVES, network
from tests.judge.atomic.held import all_of, differences, ill_typed, reasons, round_trip, type_differences, verdicts
from tests.judge.atomic.meaning import EQUIVALENT, SAFETY, Claims, Meaning, waiting
from tests.judge.atomic.terms import UNIT, canonical, read, same
from tests.judge.atomic.types import wrong_net
from tests.seeds import seeds

NAMES = (
    "new t1, t2: Trans. new p: Place. new c, d: Chan[<>]. new m: Chan[Packet[Cap[Chan[<>]] -> ()]]. "
    "new j: Key[Cap[Chan[<>]] -> ()]. "
)
AFTER = "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x: <>) 0, 0) | commit} ]"
READS = "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x: <>) commit, 0)} ]"
CYCLE = (
    "p[ t1{send(in c, <>) | abort | receive(out d, (x: <>) commit, 0)} | "
    "t2{send(in d, <>) | receive(out c, (x: <>) commit, 0)} ]"
)
TAKES = "p[ t1{send(in c, <>)} | t2{receive(out c, (x: <>) 0, 0) | abort} ]"
TWICE = (
    "p[ t1{send(in c, <>) | send(in c, <>)} | t2{receive(out c, (x: <>) 0, 0) | receive(out c, (x: <>) 0, 0) | abort} ]"
)
BOTH = "p[ t1{commit | abort} ]"
OPENS = "p[ t1{send(in m.in j, (y: Cap[Chan[<>]]) 0) | abort} | t2{open(out m.out j, in c, commit, 0)} ]"
TABLE = [
    ("printed", AFTER, "C1", 3),
    ("receive_after_commit", AFTER, "C1", 3),
    ("commit_ignores_dependencies", READS, "C1", 3),
    ("commit_waits_only_for_no_abort", READS, "C1", 3),
    ("commit_one_of_cycle", CYCLE, "C1", 4),
    ("commit_one_of_cycle", CYCLE, "A3", 3),
    ("abort_no_restore", TAKES, "C2", 2),
    ("abort_restore_as_set", TWICE, "C2", 3),
    ("abort_of_committed", BOTH, "A1", 2),
    ("no_log_predicate_for_forward_open", OPENS, "C1", 3),
]


@pytest.mark.parametrize(("rules", "text", "broken", "steps"), TABLE)
def test_mutants_fall_as_the_table_says(rules: str, text: str, broken: str, steps: int) -> None:
    ours = Claims(Meaning(read(NAMES + text), 0, rules), 2000).ask()
    trace = ours.trace(ours.broken[broken])
    assert len([step for step in trace if not step.startswith("APP")]) == steps
    told = check.atomic(NAMES + text, about=broken, rules=mutant(rules)).counterexample
    assert told is not None and len([step for step in told.steps if step.rule != "APP"]) == steps
    assert len(told.steps) == len(trace)
    assert (
        check.atomic(NAMES + text, about=SAFETY).proved and not Claims(Meaning(read(NAMES + text)), 2000).ask().broken
    )


def test_every_mutant_is_in_the_table_and_the_others_do_not_fall() -> None:
    assert {row[0] for row in TABLE} == {"printed", *MUTANTS}
    for rules in EQUIVALENT:
        for _, text, _, _ in TABLE:
            assert check.atomic(NAMES + text, about=SAFETY, rules=mutant(rules)).proved


CASES = json.loads(Path(__file__).with_name("traps.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_traps(case: dict[str, object]) -> None:
    assert run(case).status == "passed", run(case).why


def test_a_free_transaction_is_refused() -> None:
    with pytest.raises(IllTyped, match="NET PROCESS: u is free"):
        typecheck(parse("new t: Trans. new p: Place. p[ t{commit} | u{commit} ]"))


def test_lemma_1_as_printed_is_false() -> None:
    network = read(network_text(counterexample_to_lemma_1()))
    found = Claims(Meaning(network), 100, "printed").ask(("types",))
    assert found.trace(found.broken["types"]) == ["CRYPT t", "APP t"]
    told = check.atomic(counterexample_to_lemma_1(), about="types", system="printed").counterexample
    assert told is not None and len(told.steps) == 2


@pytest.mark.parametrize("rules", ["corrected", "crash", "printed"])
@pytest.mark.parametrize("text", [AFTER, CYCLE, OPENS])
def test_the_command_line_says_the_same(rules: str, text: str, tmp_path: Path) -> None:
    found = Claims(Meaning(read(NAMES + text), 2, rules), 2000).ask()
    (file := tmp_path / "net.atf").write_text(NAMES + text)
    told = CliRunner().invoke(net, ["check", str(file), "--rules", rules, "--json"])
    document = json.loads(told.stdout)
    parts = document["details"]["parts"]
    assert {name for name in SAFETY if parts[name] == "refuted"} == set(found.broken)
    assert {name.rpartition(" ")[2] for name in parts if name.startswith("progress") and parts[name] == "refuted"} == (
        found.sticks
    )
    assert {(tuple(o["committed"]), tuple(o["aborted"])) for o in document["details"]["outcomes"]} == found.final
    assert told.exit_code == (1 if found.broken or found.sticks else 0)
    ran = json.loads(CliRunner().invoke(net, ["run", str(file), "--rules", rules, "--seed", "5", "--json"]).stdout)
    assert (tuple(ran["committed"]), tuple(ran["aborted"])) in found.final and not ran["next"]


@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(10, 7010))
def test_random_networks(seed: int) -> None:
    assert not (said := judged(seed, Counter())), said


@pytest.mark.long
@pytest.mark.seeded
@pytest.mark.parametrize("seed", seeds(1500, 20_000))
def test_many_random_networks(seed: int) -> None:
    assert not (said := judged(seed, Counter())), said


@pytest.mark.parametrize(
    ("rules", "text"), [("abort_no_restore", TAKES), ("commit_ignores_dependencies", READS), ("crash", READS)]
)
def test_the_judge_notices_other_rules(rules: str, text: str) -> None:
    """A product that ran by these would be found out."""
    drawn = read(NAMES + text)
    found = Claims(Meaning(drawn, 1, rules), 2000).ask()
    assert any("state" in said or "outcomes" in said for said in differences(drawn, 0, "corrected", found))


def test_the_judge_notices_a_run_that_ends_where_it_can_still_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = read(NAMES + "p[ t1{send(in c, <>) | abort} | t2{receive(out c, (x: <>) 0, 0) | !abort} ]")
    assert not list(reasons(drawn, "corrected", 0))
    searching = import_module("pellucid.atomic.question")
    monkeypatch.setattr(searching, "hopeless", lambda machine, at, t: t in machine.doomed(at))
    for unfold in (0, 1):  # by one more unfolding than it may, or as it may
        said = list(reasons(drawn, "corrected", unfold))
        assert said == ["corrected: progress of t2: it may still be decided after ['RECV t2 from t1 c', 'ABORT t1']"]


WAITS = [
    "p[ t1{send(in q.in c, <>)} ] | q[ 0 ]",
    "p[ t1{send(out p.in c, <>)} ]",
    "p[ q[ t1{send(out p.in c, <>)} ] ]",
    "p[ t1{send(out c, <>)} ]",
    "p[ t1{send(in m.out j, (y: Cap[Chan[<>]]) 0)} ]",
    "p[ t1{send(in j, (y: Cap[Chan[<>]]) 0)} ]",
    "p[ t1{receive(out c, (x: <>) send(out q.in c, <>), 0)} | t2{send(in c, <>)} ] | q[ 0 ]",
]


@pytest.mark.parametrize("text", WAITS)
def test_the_judge_notices_who_says_nothing_of_a_message_that_waits_for_ever(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = read(NAMES + "new q: Place. " + text)
    found = Claims(Meaning(drawn, 1), 2000).ask()
    assert len(waiting(Meaning(drawn, 1), found)) == 1
    assert not list(differences(drawn, 0, "corrected", found)) and not list(verdicts(drawn, "corrected", found))
    searching = import_module("pellucid.atomic.question")
    monkeypatch.setattr(searching, "lost", lambda machine, at, place: [])
    for said in (differences(drawn, 0, "corrected", found), verdicts(drawn, "corrected", found)):
        assert any("wait for ever" in one or "warnings" in one for one in said)


@pytest.mark.parametrize(
    "text", ["p[ t1{send(in c, <>)} ]", "p[ t1{send(in q.in m.in j, (y: Cap[Chan[<>]]) 0)} | q[ 0 ] ]"]
)
def test_the_judge_notices_who_warns_for_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = read(NAMES + "new q: Place. " + text)
    found = Claims(Meaning(drawn, 1), 2000).ask()
    assert not waiting(Meaning(drawn, 1), found) and not list(differences(drawn, 0, "corrected", found))
    searching = import_module("pellucid.atomic.question")
    wrong = ["t1 sent a message that waits for ever at p: send(in c, <>) finds no place c there"]
    monkeypatch.setattr(searching, "lost", lambda machine, at, place: wrong)
    assert any("wait for ever" in one for one in differences(drawn, 0, "corrected", found))


REC = "new c: rec X. Chan[X]. new d: rec Y. Chan[Chan[Y]]. new e: rec X. Chan[<X>]. "


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (REC + "p[ t{send(in c, d) | receive(out d, (x: Chan[rec Z. Chan[Z]]) (send(in x, c)), 0)} ]", None),
        (
            REC + "p[ t{send(in e, <e>) | receive(out e, (x: rec X. <Chan[X]>) (let <y> = x in (send(in y, x))), 0)} ]",
            None,
        ),
        (REC + "p[ t{send(in c, e)} ]", "PROC SEND"),
        (REC + "p[ t{receive(out e, (x: rec X. Chan[<X>]) (0), 0)} ]", "PROC RECEIVE"),
        ("new c: rec X. Chan[rec Y. X]. p[ t{send(in c, c)} ]", None),
        ("new c: Chan[rec X. <Cap[X]>]. p[ t{0} ]", "NET NEW"),
        ("new c: rec X. rec Y. X. p[ t{0} ]", "NET NEW"),
        ("new c: Chan[rec X. Trans]. p[ t{0} ]", "NET NEW"),
        ("new q: rec X. Place. p[ q[ t{0} ] ]", None),
    ],
)
def test_recursive_types(text: str, rule: str | None) -> None:
    text = "new t: Trans. new p: Place. " + text
    drawn = read(text)
    assert wrong_net(drawn) == ([] if rule is None else [rule]) and ill_typed(text) == rule
    assert not list(type_differences(drawn))
    if rule is None:
        assert not list(round_trip(drawn))
        found = Claims(Meaning(drawn, 1), 2000).ask((*SAFETY, "types"))
        assert not found.broken and not list(differences(drawn, 0, "corrected", found))


def test_the_judge_notices_types_that_are_compared_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = read("new t: Trans. new p: Place. " + REC + "p[ t{send(in c, d)} ]")
    assert not list(type_differences(drawn))
    monkeypatch.setattr("pellucid.atomic.typing.same", lambda one, other: one == other)
    assert list(type_differences(drawn))


@pytest.mark.parametrize("kind", ["Chan[rec X. <Cap[X]>]", "Chan[rec X. Trans]", "Key[Trans]"])
def test_the_judge_notices_types_that_nobody_looked_into(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = read(f"new c: {kind}. 0")
    assert not list(type_differences(drawn))
    monkeypatch.setattr("pellucid.atomic.typing._inner", lambda kind, system, seen: None)
    assert list(type_differences(drawn))


def test_types_have_one_canonical_form() -> None:
    for kinds in (SELVES, (*LINKED,), (("Chan", SELVES[0]), SELVES[3])):
        assert len({canonical(kind) for kind in kinds}) == 1 and all(same(kinds[0], kind) for kind in kinds)
        assert canonical(canonical(kinds[0])) == canonical(kinds[0])
    assert len({canonical(kind) for kind in (*KINDS.values(), UNIT, PLACE)}) == len({*KINDS.values()}) + 2 - 1


def test_what_is_drawn_has_everything() -> None:
    """Of what is drawn enough is well typed, is small enough, and does what breaks rules."""
    told: Counter[str] = Counter()
    texts = [repr(network(seed)) for seed in seeds(300)]
    words = (
        "'abort'",
        "'commit'",
        "'bang'",
        "'child'",
        "'forward'",
        "'open'",
        "'decrypt'",
        "'let'",
        "'new', 'z'",
        "'app'",
        "('in', ('name', 'o'))",
        "'send', ('out'",
    )
    assert all(sum(word in text for text in texts) > 5 for word in words)
    for seed in seeds(3):
        assert not list(all_of(network(seed), seed, ("corrected",), told))
    assert told["corrected"] and Atomic(parse(NAMES + BOTH)).transactions == ("t1",)
