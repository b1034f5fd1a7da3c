"""Cubicle's language: what is read, what it means, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.capacity.arrays import decide, explain, read, read_text, write_text
from pellucid.capacity.arrays.language.interpreter import Instance, explore
from pellucid.errors import DataError

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
