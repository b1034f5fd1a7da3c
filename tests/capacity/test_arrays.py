"""Cubicle's language: what is read, what it means, and what is said about mistakes."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pellucid.capacity import ANY, Bolt, Spout, Topology, figure_1, replay
from pellucid.capacity.arrays import check_certificate, decide, explain, read, read_text, write_text
from pellucid.capacity.arrays.cubes import NOTHING, Cube, Layout, Place, Signs
from pellucid.capacity.arrays.formulas import Compiled
from pellucid.capacity.arrays.storm import storm_system
from pellucid.capacity.arrays.system import Instance, explore
from pellucid.capacity.arrays.system import Step as Fired
from pellucid.capacity.steps import Step, Worker
from pellucid.capacity.zones.network import cone
from pellucid.errors import DataError, UsageError
from pellucid.internal.model import Run
from tests.seeds import seeds

HEAD = "type t = A | B\nvar F : bool\nvar N : int\nvar R : real\nvar T : proc\n"
HEAD += "array X[proc] : t\narray M[proc, proc] : bool\n"
TAIL = "\ninit (z) { X[z] = A }\nunsafe (x y) { X[x] = B && X[y] = B }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + TAIL + "transition go (x) requires { X[x] = } { }", "line 11, column 37: `}` is not expected here"),
        (HEAD + TAIL + "transition go (x) { X[x] := C }", "line 11, column 29: there is nothing called C"),
        (HEAD + TAIL + "transition go (x) { X[y] := B }", "column 23: y is no process here"),
        (HEAD + TAIL + "transition go (x) { X := B }", "column 21: X has 1 indices, not 0"),
        (HEAD + TAIL + "transition go (x) { F := A }", "a value of type bool is needed, and this is of type t"),
        (HEAD + TAIL + "transition go (x) { F := True; F := False }", "F is assigned twice in one transition"),
        (HEAD + TAIL + "transition go (x x) { }", "column 18: x stands there twice"),
        (HEAD + TAIL + "transition go (x) requires { X[x] = N } { }", "t is compared with int"),
        (HEAD + TAIL + "transition go (x) requires { X[x] < A } { }", "values of type t have no order"),
        (HEAD + TAIL + "transition go (x) requires { N + R > 2 } { }", "int and real are not added"),
        (HEAD + TAIL + "transition go (x) requires { odd(x) } { }", "there is no predicate odd"),
        (HEAD + TAIL + "transition go (x) requires { exists_other y. X[y] = A } { }", "in a guard is not"),
        (HEAD + TAIL + "transition go (x) { X[x] := case | _ : B }", "x is a process already"),
        (HEAD + TAIL + "transition go (x) { X[j] := case | j = x : B }", "the last case, and no other, is `| _ : …`"),
        (HEAD + TAIL + "transition go (x) { X[x] = B }", "`=` is not expected here: `:=` would be"),
        (HEAD + TAIL + "init (z) { X[z] = B }", "a second `init`"),
        (HEAD + "init (z) { X[z] = A }", "an `unsafe` is needed"),
        (HEAD + "(* never ends", "this comment does not end"),
        (HEAD + TAIL + "transition go (x) { X[x] := B", "the text ends here"),
        ("array X[int] : bool", "an array is indexed by processes (proc), not by int: this is not supported"),
        ("array X[proc,proc,proc] : bool", "arrays of more than 2 dimensions are not supported"),
        ("type t = A | A", "A is a value of the type t already"),
        ("var x : int", "`x` is not expected here: a Name would be"),
        ("var X : nat", "there is no type nat"),
        ("const C : int\ninit () { C = 1 } unsafe () { C = 2 } transition t () { C := 3 }", "it never changes"),
        ("var X : int % 3", "`%` means nothing here"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(DataError) as e:
        read_text(text, "a.cub")
    said = str(e.value)
    assert message in said and said.startswith("a.cub, line ")
    assert said.splitlines()[2].strip() == "^"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "none.cub")


def test_everything_is_read_and_written() -> None:
    text = """
    (* a comment (* in a comment *) *)
    number_procs 3
    type t = | A | B | C
    type data
    const K : int
    const Step : real
    var N : int  var R : real  var T : proc  var V : data  var F : bool
    array X[proc] : t   array M[proc, proc] : bool  array D[proc] : data
    predicate free(p) { X[p] = A || X[p] = B }
    init (i j) { X[i] = A && M[i,j] = False && N = 0 && R = 0.5 && (F = True <=> N >= 1 - 2) && K > -3 }
    invariant (i) { X[i] = C && not (N < 3 => F = False) }
    unsafe (i j) { X[i] = C && (if F = True then N > K + 2 else R <= 2.5 - Step) && exists q. X[q] = B }
    unsafe () { true && forbidden_no <> forbidden_no || false }
    transition Go (x y)
    requires { free(x) && x < y && T <> x && forall_other z. (M[x,z] = True || not (X[z] = C)) }
    { let k = N + 1 in
      N := k; R := R - 2 * Step; T := .; V := ?; M[x,y] := True;
      X[j] := case | j = x && X[j] = A : B | j = y : C | _ : X[j];
      F := case | N = 3 : True | _ : F; }
    """.replace("forbidden_no <> forbidden_no", "#1 <> #2")
    system = read_text(text)
    assert read_text(write_text(system)) == system
    assert system.processes == 3 and system.rigid == 2
    assert "if F = True then" in write_text(system)


def test_a_quantifier_reaches_to_the_right() -> None:
    tail = TAIL + "transition go (x) requires { forall_other y. X[y] = A && F = True } { X[x] := B }"
    guard = read_text(HEAD + tail).transitions[0].requires
    assert "forall_other y. (X[y] = A && F = True)" in write_text(read_text(HEAD + tail))
    # nobody else is there: then nothing is asked
    instance = Instance(read_text(HEAD + tail), 1, numbers=())
    state = tuple({"X": "A", "F": "False", "T": 1}.get(p[0], "False") for p in instance.places)
    assert instance.holds(guard, state, {"x": 1}, (1,))


def test_let_in_a_formula() -> None:
    whole = "unsafe (x y) { let v = X[x] in let w = X[y] in not v <> B && w = v }\n"
    guard = "transition go (x) requires { F = True && let v = N + 1 in let p = x in v < 3 && X[p] = A } { }"
    found = read_text(HEAD + "init (z) { X[z] = A }\n" + whole + guard)
    plain = read_text(
        HEAD + "init (z) { X[z] = A } unsafe (x y) { not X[x] <> B && X[y] = X[x] }"
        "transition go (x) requires { F = True && (N + 1 < 3 && X[x] = A) } { }"
    )
    assert found.unsafe == plain.unsafe and found.transitions == plain.transitions
    with pytest.raises(DataError, match="column 30: v is nothing here"):
        read_text(HEAD + TAIL + "transition go (x) requires { v = A && let v = X[x] in v = A } { }")


@pytest.mark.parametrize(
    "formula", ["exists j. p(j)", "exists j. let u = X[j] in exists j. X[j] = B && u = A", "exists j. q(X[j])"]
)
def test_a_quantifier_takes_no_name_from_a_term_that_is_put_in(formula: str) -> None:
    predicates = "predicate p (u) { exists j. X[j] = B && X[u] = A }\npredicate q (u) { exists j. X[j] = B && u = A }\n"
    text = f"{HEAD}{predicates}init (z) {{ X[z] = A }} unsafe () {{ {formula} }} transition go (i) {{ X[i] := B }}"
    found = decide(read_text(text))
    assert found.refuted and found.counterexample is not None and len(found.counterexample.steps) == 1
    other = f"{HEAD}init (z) {{ X[z] = A }} unsafe (x y) {{ X[x] = A && X[y] = B }} transition go (i) {{ X[i] := B }}"
    assert [s.status for s in (found, decide(read_text(other)))] == ["refuted", "refuted"]


def test_transitions_of_one_name_are_steps_of_their_own() -> None:
    """Both can happen at the second step: only the run that takes the second one is a run."""
    text = HEAD + "init (z) { N = 0 && X[z] = A } unsafe () { N = 2 }\n"
    text += "transition go (i) requires { N <= 1 } { N := 1 }\ntransition go (i) requires { N = 1 } { N := 2 }\n"
    system = read_text(text + "transition stay (i) { X[i] := B }")
    assert system.labels == ("go.1", "go.2", "stay") and read_text(write_text(system)) == system
    found = decide(system)
    assert found.refuted and found.counterexample is not None and found.counterexample.replay()
    assert [str(step)[:4] for step in found.counterexample.steps] == ["go.1", "go.2"]
    assert decide(read_text(text.replace("N := 2", "N := 1"))).proved


def test_parameters_are_distinct_and_init_is_for_all() -> None:
    text = (
        "array M[proc, proc] : bool\ninit (i j) { M[i,j] = False }\nunsafe (x) { M[x,x] = True }\n"
        "transition go (x y) { M[x,y] := True }"
    )
    assert decide(read_text(text)).proved  # x and y are never the same, and M[x,x] starts False
    assert decide(read_text(text.replace("(i j) { M[i,j]", "(i) { M[i,i]"))).proved
    assert decide(read_text(text.replace("M[x,y] := True", "M[x,x] := True"))).refuted


def test_a_quantifier_may_stand_in_a_negation() -> None:
    text = (
        "array X[proc] : bool\npredicate alone() { forall p <> q. (X[p] = True => X[q] = False) }\n"
        "init (z) { X[z] = False }\nunsafe () { not alone() }\n"
        "transition go (x) requires { X[x] = False && forall_other y. X[y] = False } { X[x] := True }\n"
    )
    assert decide(read_text(text)).proved
    verdict = decide(read_text(text.replace(" && forall_other y. X[y] = False", "")))
    assert verdict.refuted and verdict.counterexample is not None and len(verdict.counterexample.steps) == 2
    with pytest.raises(DataError, match="a `forall` in `unsafe` or `invariant` is not supported"):
        read_text(text.replace("not alone()", "alone()"))


def test_somebody_outside() -> None:
    """A variable that is no process at the start is somebody outside, a directory for example."""
    text = """
    var Home : proc  var Who : proc
    array X[proc] : bool
    init (p) { Home <> p && X[p] = False && Who = Home }
    unsafe (x) { X[x] = True && Who = x }
    transition a (x) requires { Who = Home } { X[x] := True }
    transition b (x) requires { X[x] = False } { Who := x }
    transition c (x) requires { X[x] = True && Who <> x } { Who := Home }
    """
    assert read_text(text).outsiders and decide(read_text(text)).proved
    verdict = decide(read_text(text.replace("requires { X[x] = False } { Who", "{ Who")))
    assert verdict.refuted and verdict.counterexample is not None
    assert verdict.counterexample.document()["start"]["Home"] == "outside"


def test_an_invariant_says_what_is_not_reached_and_is_checked() -> None:
    text = (
        "var N : int\ninit () { N = 0 }\ninvariant () { N < 0 }\nunsafe () { N = 0 - 5 }\n"
        "transition up () { N := N + 1 }\n"
    )
    assert decide(read_text(text)).proved
    wrong = (
        "var F : bool var G : bool init () { F = False && G = False } invariant () { F = True } unsafe () { G = True }"
    )
    verdict = decide(read_text(wrong + "transition t () { F := True } transition u () { G := False }"))
    assert verdict.proved
    assert "1 of the invariants in the text could not be confirmed" in verdict.notes[0]


def test_a_run_that_needs_others_to_stop_is_no_run() -> None:
    """Two are at B when the guard wants one to be: no number of processes reaches it, and no cube can count them."""
    text = """
    type t = A | B | C
    var Started : bool
    array X[proc] : t
    init (z) { X[z] = A && Started = False }
    unsafe (x) { X[x] = C }
    transition start (x y) requires { Started = False }
    { Started := True; X[j] := case | j = x : B | j = y : B | _ : X[j] }
    transition swap (x y) requires { X[x] = B && X[y] = A } { X[j] := case | j = x : A | j = y : B | _ : X[j] }
    transition win (x) requires { X[x] = B && Started = True && forall_other z. X[z] = A } { X[x] := C }
    """
    system = read_text(text)
    verdict = decide(system, timeout=3)
    assert verdict.unknown
    assert "processes that stop" in verdict.notes[-1] or "limit" in verdict.notes[-1]
    for n in (2, 3):
        instance = Instance(system, n)
        assert explore(instance, instance.initials(), 1000)[1] is None
    # one of them is enough if the guard wants nobody to be there: that is true of somebody
    one = text.replace("| j = x : B | j = y : B", "| j = y : B").replace("X[x] = B && Started", "X[x] = A && Started")
    assert decide(read_text(one)).proved


def test_what_is_proved_is_told() -> None:
    system = read(Path(__file__).parent / "protocols" / "spin_lock.cub")
    verdict = decide(system)
    assert sorted(explain(verdict.details["never"])) == [
        "At[x1] = Inside && At[x2] = Inside",
        "At[x1] = Inside && Locked = False",
    ]


def test_the_budget_ends_it() -> None:
    text = (
        "var N : int  var K : int  var L : int\ninit () { N = 0 && K = 7 && L = 1 }\nunsafe () { N = K + 1 }\n"
        "transition a () { N := N + 3; K := K + 3 }\ntransition b () { N := N + L; K := K + L }\n"
        "transition c () { L := 2 * N }\n"
    )
    verdict = decide(read_text(text.replace("2 * N", "N + K")), timeout=0.5)
    assert verdict.status in ("unknown", "proved")


# Texts in Cubicle's language that are hostile: told with their place, in no time, and never an internal error.

HEAD_ARRAY_BAD_INPUT = """type state = Idle | Want | Crit
array S[proc] : state
var N : int
init (z) { S[z] = Idle && N = 0 }
unsafe (x y) { S[x] = Crit && S[y] = Crit }
"""


def _guard(formula: str, update: str = "S[i] := Want") -> str:
    return f"{HEAD_ARRAY_BAD_INPUT}transition a (i) requires {{ {formula} }} {{ {update} }}"


_TWICE = "".join(f"predicate p{i + 1} (x) {{ p{i}(x) && p{i}(x) }}\n" for i in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEAD_ARRAY_BAD_INPUT + "predicate p (x) { p(x) }\n" + _guard("p(i)")[len(HEAD_ARRAY_BAD_INPUT) :],
            "the predicate p is made of itself",
        ),
        (
            HEAD_ARRAY_BAD_INPUT
            + "predicate p (x) { q(x) }\npredicate q (x) { p(x) }\n"
            + _guard("p(i)")[len(HEAD_ARRAY_BAD_INPUT) :],
            "line 7, column 19: the predicate p is made of itself",
        ),
        (
            HEAD_ARRAY_BAD_INPUT
            + "predicate p0 (x) { S[x] = Idle }\n"
            + _TWICE
            + _guard("p40(i)")[len(HEAD_ARRAY_BAD_INPUT) :],
            "with its predicates put in, the system has more than 100,000 formulas: too many",
        ),
        (_guard(" => ".join(["S[i] = Idle"] * 2000)), "formulas in formulas are read 100 deep, and this is deeper"),
        (_guard("not (" * 200 + "S[i] = Idle" + ")" * 200), "formulas in formulas are read 100 deep"),
        (_guard("N = 1" + "0" * 5000), "a number of 5,001 digits: 15 are the most"),
        (_guard("S[i] = Idle", "N := N + 1000000000000000"), "a number of 16 digits: 15 are the most"),
        (_guard("S[#99999] = Idle"), "certain processes are #1 to #8, not #99999"),
        (_guard("i = #9"), "certain processes are #1 to #8, not #9"),
    ],
)
def test_hostile_texts_are_refused_at_their_place(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_text(text, "bad.cub")
    assert message in str(caught.value)
    assert str(caught.value).startswith("bad.cub, line ")


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    with pytest.raises(DataError) as caught:
        read_text(_guard(" && ".join(["S[i] = Idle"] * 50 + ["Q[i] = Idle"] + ["S[i] = Idle"] * 50)), "bad.cub")
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 130 and shown.startswith("  …") and shown.endswith("…")
    assert shown[caret.index("^") :].startswith("Q[i] = Idle")


def test_parentheses_and_long_formulas_are_no_depth() -> None:
    system = read_text(_guard("(" * 3000 + "S[i] = Idle" + ")" * 3000))
    assert system.transitions == read_text(_guard("S[i] = Idle")).transitions
    assert read_text(_guard(" && ".join(["S[i] = Idle"] * 2000))).transitions


@pytest.mark.parametrize("by", [20_000, 40_000, 300_000_000_000_000])
def test_numbers_beyond_sixteen_bits(by: int) -> None:
    """The states that a few processes reach are columns of numbers, which must not run over."""
    text = f"""var N : int
    array S[proc] : bool
    init (z) {{ S[z] = False && N = 0 }}
    unsafe () {{ N = {3 * by} }}
    transition a () requires {{ N < {3 * by} }} {{ N := N + {by} }}"""
    found = decide(read_text(text))
    assert found.refuted and found.counterexample is not None and len(found.counterexample.steps) == 3
    assert decide(read_text(text.replace("unsafe () { N =", "unsafe () { N < 0 && N <>"))).proved


# The paper's system of a topology in Cubicle's language: its text, its runs on the literal machine, its cells.


def literal(topology: Topology) -> Topology:
    return topology.given(semantics="literal")


def as_steps(topology: Topology, run: Run) -> list[Step]:
    """The run of the array-based system in the words of the literal machine: a delay is chosen one elapse before."""
    assert run.machine is not None
    delay = Fraction(run.machine.start()[1])
    assert run.machine.places[1] == ("C",)  # type: ignore[attr-defined]
    out = []
    for fired in run.steps:
        assert isinstance(fired, Fired)
        name = fired.transition
        if name == "time_elapse":
            out.append(Step("time_elapse", by=delay))
            delay = Fraction(dict(fired.chosen)["C"])
        elif name.startswith("spout_emit_"):
            who = next(s for s in topology.spouts if name.startswith(f"spout_emit_{s}_"))
            out.append(Step("spout_emit", who, (_to(topology, who, name.removeprefix(f"spout_emit_{who}_")),)))
        elif name.startswith("bolt_take_"):
            out.append(Step("bolt_take", Worker(name.removeprefix("bolt_take_"), fired.processes[0] - 1)))
        elif name.startswith("bolt_emit_"):
            who = next(b for b in topology.bolts if name.startswith(f"bolt_emit_{b}_"))
            to = (_to(topology, who, name.removeprefix(f"bolt_emit_{who}_")),)
            out.append(Step("bolt_emit", Worker(who, fired.processes[0] - 1), to))
        else:
            out.append(Step(name))
    return out


def _to(topology: Topology, who: str, name: str) -> str:
    """Who gets it; *elsewhere* is the last of those who hear it, which is not upstream in what is asked here."""
    return topology.listeners(who)[-1] if name == "elsewhere" else name


def test_written_and_read_again() -> None:
    one = Topology({"S": Spout("0.9")}, {"A": Bolt("0.5", "S", workers=ANY), "B": Bolt(2, ["S", "A"], initial=3)})
    for topology in (figure_1("0.8"), figure_1("1.25", workers=3), one, one.given(routing="all")):
        for bolt in topology.bolts:
            for upstream in (False, True):
                system = storm_system(literal(topology), bolt, 2, upstream=upstream)
                assert read_text(write_text(system)) == system
    text = write_text(storm_system(literal(one.given(routing="all")), "B", 4))
    assert "unsafe () {\n  L[#2] >= 4\n}" in text and "0.9 < Stime[#1]" in text and "P[#2,x] := 2.0" in text
    assert "N_proc[#2] = #1" in text and "N_proc[#1] =" not in text and "L[#2] = 3" in text
    assert "transition spout_emit_S (" in text


def test_what_the_paper_does_not_have_is_refused() -> None:
    topology = figure_1("0.8")
    with pytest.raises(UsageError, match='semantics="literal"'):
        storm_system(topology, "B1", 2)
    with pytest.raises(UsageError, match="there is no bolt B9"):
        storm_system(literal(topology), "B9", 2)
    with pytest.raises(UsageError, match='observe="any"'):
        storm_system(literal(topology).given(observe="settled"), "B1", 2)
    half = Topology({"S": Spout(1)}, {"A": Bolt(1, "S", ratio="1/2")}, semantics="literal")
    with pytest.raises(UsageError, match="emits 1/2 tuples"):
        storm_system(half, "A", 2)
    with pytest.raises(UsageError, match="limit: expected 1 or more"):
        storm_system(literal(topology), "B1", 0)
    third = Topology({"S": Spout("1/3")}, {"A": Bolt(1, "S")}, semantics="literal")
    with pytest.raises(UsageError, match="no end as a decimal"):
        write_text(storm_system(third, "A", 2))


def test_the_trace_of_the_paper() -> None:
    """Limit 2, one spout, gap 0.8: the fifteen steps of section 5, by their names; the literal machine makes them."""
    topology = literal(figure_1("0.8"))
    verdict = decide(storm_system(topology, "B1", 2), timeout=60)
    assert verdict.refuted and isinstance(verdict.counterexample, Run)
    names = [step.transition for step in verdict.counterexample.steps]
    assert names == [
        "time_elapse", "setDoTake_F1", "setDoEmit_F1a", "spout_emit_S1_B1", "time_elapse", "setDoTake_T",
        "setDoEmit_F1a", "bolt_take_B1", "setDoTake_F1", "setDoEmit_F1a", "spout_emit_S1_B1", "time_elapse",
        "setDoTake_F2a", "setDoEmit_F1a", "spout_emit_S1_B1",
    ]  # fmt: skip
    assert verdict.notes == ("no run is shorter, for any number of processes",)
    run = replay(topology, as_steps(topology, verdict.counterexample), bolt="B1")
    assert run.longest("B1") == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("gap", "bolt", "limit", "workers", "status", "fewest"),
    [
        ("1.2", "B1", 2, 1, "proved", None),
        ("0.8", "B2", 2, 1, "refuted", 14),
        ("1.2", "B2", 2, 1, "refuted", 14),
        ("9.2", "B2", 2, 1, "refuted", 14),
        ("0.8", "B1", 3, 1, "refuted", None),
        ("1.2", "B1", 3, 1, "proved", None),
        ("0.8", "B2", 3, 1, "refuted", None),
        ("1.2", "B2", 3, 1, "refuted", None),
    ],
)
def test_the_cells_of_the_paper(gap: str, bolt: str, limit: int, workers: int, status: str, fewest: int | None) -> None:
    """Both readings of "bolt 1": B1 hears one spout, B2 both."""
    topology = literal(figure_1(gap, workers=workers))
    verdict = decide(storm_system(topology, bolt, limit), timeout=300)
    assert verdict.status == status
    if verdict.refuted:
        assert isinstance(verdict.counterexample, Run)
        assert fewest is None or len(verdict.counterexample.steps) == fewest
        run = replay(topology, as_steps(topology, verdict.counterexample), bolt=bolt)
        assert run.longest(bolt) >= limit


@pytest.mark.parametrize("limit", [2, 3])
def test_any_number_of_workers_keeps_up_with_one_spout(limit: int) -> None:
    """The two cells of the paper that are safe, for any number of workers, by backward reachability: the others, who
    are not upstream, are one step."""
    topology = literal(figure_1("1.2", workers=ANY))
    system = storm_system(topology, "B1", limit, upstream=True)
    verdict = decide(system, timeout=60)
    assert verdict.proved and check_certificate(system, verdict.details["never"]) is None
    assert not decide(storm_system(topology, "B1", 1, upstream=True), timeout=60).proved  # it can say no


@pytest.mark.long
@pytest.mark.parametrize(
    ("gap", "bolt", "limit", "fewest"),
    [("0.8", "B1", 2, 15), ("0.8", "B2", 2, 14), ("1.2", "B2", 2, 14), ("9.2", "B2", 2, 14), ("1.2", "B2", 3, None)],
)
def test_any_number_of_workers_is_unsafe(gap: str, bolt: str, limit: int, fewest: int | None) -> None:
    """With as few workers as the run has; the literal machine of the whole topology makes it."""
    topology = literal(figure_1(gap, workers=ANY))
    verdict = decide(storm_system(topology, bolt, limit, upstream=True), timeout=600)
    assert verdict.refuted and isinstance(verdict.counterexample, Run)
    assert fewest is None or len(verdict.counterexample.steps) == fewest
    machine = verdict.counterexample.machine
    assert machine is not None
    last = machine.places.index(("N_proc", 1))  # type: ignore[attr-defined]
    workers = int(machine.start()[last])
    given = topology.given(workers=workers)
    run = replay(given, as_steps(given, verdict.counterexample), bolt=bolt)
    assert run.longest(bolt) >= limit


@pytest.mark.parametrize(("gap", "bolt", "workers"), [("1.2", "B2", 2), ("0.8", "B1", 1), ("0.8", "B3", 2)])
def test_what_is_upstream_can_do_whatever_the_whole_can(gap: str, bolt: str, workers: int) -> None:
    """Each step of the whole system is one of the smaller one, on the cells that it has."""
    topology = literal(figure_1(gap, workers=workers))
    delays = (Fraction(1, 2), Fraction(5, 4))
    whole, small = (
        Instance(storm_system(topology, bolt, 9, upstream=upstream), 3, numbers=delays) for upstream in (False, True)
    )
    spouts, bolts = cone(topology, bolt)
    number = {name: i for part in (topology.bolts, topology.spouts) for i, name in enumerate(part, 1)}
    about = {"Stime": spouts, **dict.fromkeys(("L", "N_proc", "B", "P"), bolts)}

    def seen(state: tuple[Any, ...]) -> list[Any]:
        """The cells of those who are upstream, as the smaller system has them; None for cells of nobody."""
        found = list[Any]()
        for name, *indices in small.places:
            who = about.get(name)
            if who is None:
                found.append(state[whole.at[(name,)]])
            elif indices[0] > len(who):
                found.append(None)
            else:
                found.append(state[whole.at[(name, number[who[indices[0] - 1]], *indices[1:])]])
        return found

    r, starts = random.Random(*seeds(1)), list(whole.initials())
    state, done = starts[0], set[str]()
    nobody = next(small.initials())  # what cells of nobody have
    for _ in range(300):
        moves = list(whole.steps(state))
        if not moves:  # time may pass once only, and nobody can do anything then
            state = r.choice(starts)
            continue
        step, then = r.choice(moves)
        done.add(step.transition[:9])
        here = tuple(other if mine is None else mine for mine, other in zip(seen(state), nobody, strict=True))
        wanted = seen(then)
        assert any(
            all(mine is None or mine == new for mine, new in zip(wanted, after, strict=True))
            for _, after in small.steps(here)
        )
        state = then
    assert {"spout_emi", "bolt_take", "time_elap"} <= done


# Whether a cube covers another one, found by giving names one after another, against all names one by one.

TEXT = """type t = A | B | C
var G : t
var T : proc
array X[proc] : t
array P[proc] : proc
array M[proc, proc] : bool
array N[proc] : int
init (z) { X[z] = A %s }
unsafe (x) { X[x] = B }"""


def drawn(layout: Layout, r: random.Random, width: int) -> Cube | None:
    """Some cube about so many processes, if it is possible."""
    who = range(1, width + 1)
    places: list[Place] = [("G",), ("T",), *((n, i) for n in "XP" for i in who)]
    places += [("M", i, j) for i in who for j in who]
    bits, atoms = 0, NOTHING
    for place in places:
        f = layout.field(place)
        if r.random() > 0.35:
            continue
        if not f.of_process:
            bits |= layout.only(place, r.randrange(1, 1 << f.width))
        elif r.random() < 0.5:
            bits |= layout.only(place, 1 << r.choice(who))
        else:
            bits |= sum(1 << p for p in who if r.random() < 0.4) << f.shift
    if r.random() < 0.3:
        atoms = frozenset([(0, r.randrange(-1, 2), ((("N", r.choice(who)), 1),))])
    found = layout.settled(Cube(bits, atoms, width))
    return None if found is None else layout.tidy(found)[0]


def one_by_one(layout: Layout, general: Cube, special: Cube) -> bool:
    names = layout.embeddings(general.width, special.width) if general.width <= special.width else ()
    return any(layout.covers(layout.rename(general, to, special.width), special) for to in names)


@pytest.mark.parametrize("certain", ["", "&& X[#1] = A"])
def test_names_given_one_after_another(certain: str) -> None:
    layout = Compiled(read_text(TEXT % certain)).layout
    (seed,) = seeds(1)
    r, said = random.Random(seed), {True: 0, False: 0}
    for _ in range(800):
        general = drawn(layout, r, r.randrange(1, 4))
        special = drawn(layout, r, r.randrange(1, 5))
        if general is None or special is None:
            continue
        if r.random() < 0.6 and special.width >= general.width:  # one that it covers
            to = r.choice(list(layout.embeddings(general.width, special.width)))
            both = layout.conjunction(layout.rename(general, to, special.width), special)
            if both is None:
                continue
            special = layout.tidy(both)[0]
        expected = one_by_one(layout, general, special)
        assert Signs(layout, general).covers(Signs(layout, special)) == expected
        said[expected] += 1
    assert min(said.values()) > 100
