"""Every rule of types by its name: one network that it lets pass, one that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.atomic import Atomic, IllTyped, counterexample_to_lemma_1, network_text, parse, read, typecheck
from pellucid.atomic import syntax as s
from pellucid.atomic.question import explore
from pellucid.atomic.state import nowhere
from pellucid.atomic.typing import SYSTEMS
from pellucid.errors import DataError, UsageError

NAMES = (
    "new t: Trans. new p, q: Place. new c: Chan[<>]. new k: Key[<>]. new s: Chan[Packet[<>]]. new n: Chan[Chan[<>]]. "
    "new m, w: Chan[Packet[Cap[Chan[<>]] -> ()]]. new j: Key[Cap[Chan[<>]] -> ()]. "
)
# rule, what passes it, what it refuses, what was expected, what was found
RULES = [
    ("NET PLACE", "p[ 0 ]", "c[ 0 ]", "Place", "Chan[<>]"),
    ("NET PROCESS", "t{0}", "u{0}", "new u: Trans", "no declaration"),
    ("NET NEW", "new x: Chan[<>]. 0", "new x: <>. 0", "Place, Trans, Chan[T] or Key[T]", "<>"),
    ("PROC SEND", "t{send(in c, <>)}", "t{send(in c, c)}", "<>", "Chan[<>]"),
    ("PROC RECEIVE", "t{receive(out n, (x: Chan[<>]) send(in x, <>), 0)}", "t{receive(out n, (x: <>) 0, 0)}",
     "Chan[<>] -> ()", "<> -> ()"),
    ("PROC CRYPT", "t{crypt(in k, <>, (x: Packet[<>]) send(in s, x))}", "t{crypt(in c, <>, (x) 0)}", "Cap[Key[T]]",
     "Cap[Chan[<>]]"),
    ("PROC DECRYPT", "t{receive(out s, (x) decrypt(out k, x, (y: <>) 0), 0)}", "t{decrypt(out k, <>, (y) 0)}",
     "Packet[<>]", "<>"),
    ("PROC CONTINUE", "t{((x: <>) send(in c, x))(<>)}", "t{((x: <>) 0)(c)}", "Chan[<>] -> ()", "<> -> ()"),
    ("PROC LET", "t{let <x, y> = <c, <>> in send(in x, y)}", "t{let <x> = <c, c> in 0}", "a tuple of 1",
     "<Chan[<>], Chan[<>]>"),
    ("PROC NEW", "t{new x: Chan[<>]. send(in x, <>)}", "t{new u: Trans. 0}", "Place, Chan[T] or Key[T]",
     "Trans (child(P) makes a transaction)"),
    ("PROC CONT", "t{receive(out c, (x: <>) 0, 0)}", "t{receive(out c, (x: Chan[Y]) 0, 0)}", "a well-formed type",
     "Chan[Y] (there is no type Y)"),
    ("VAL PARAM", "t{send(in n, c)}", "t{send(in n, t)}", "a value", "Trans: the name of a transaction is no value"),
    ("VAL INPUT CAP", "t{send(in p.in c, <>)}", "t{receive(out c, (x) send(in x, <>), 0)}", "Place, Chan[T] or Key[T]",
     "<>"),
    ("VAL OUTPUT CAP", "t{receive(out c, (x) 0, 0)}", "t{receive(out c, (x) receive(out x, (y) 0, 0), 0)}",
     "Place, Chan[T] or Key[T]", "<>"),
    ("VAL COMPOSE CAP", "t{send(out p.in q.in c, <>)}", "t{send(in c.in c, <>)}",
     "Cap[Place], or a channel of packets before their key", "Cap[Chan[<>]]"),
    ("VAL PACKET", "t{send(in s, k[<>])}", "t{send(in s, c[<>])}", "Key[T]", "Chan[<>]"),
    ("PROC SEND PROCESS", "t{send(in m.in j, (y) send(y, <>))}", "t{send(in k, (y) 0)}",
     "Cap[Key[Cap[Chan[T]] -> ()]]", "Cap[Key[<>]]"),
    ("PROC FORWARD", "t{forward(out m, in p.in w, commit, abort)}", "t{forward(out m, in s, 0, 0)}",
     "Cap[Chan[Packet[Cap[Chan[T]] -> ()]]]", "Cap[Chan[Packet[<>]]]"),
    ("PROC OPEN", "t{open(out m.out j, in c, 0, 0)}", "t{open(out m.out j, in n, 0, 0)}", "Cap[Chan[<>]]",
     "Cap[Chan[Chan[<>]]]"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "good", "bad", "expected", "found"), RULES, ids=[row[0] for row in RULES])
def test_each_rule(rule: str, good: str, bad: str, expected: str, found: str) -> None:
    typecheck(parse(NAMES + good))
    text = NAMES + bad
    with pytest.raises(IllTyped) as error:
        typecheck(parse(text), text=text, name="a.atf")
    wrong = error.value
    assert (wrong.rule, wrong.expected) == (rule, expected) and wrong.found.startswith(found)
    assert str(wrong).startswith(f"a.atf, line 1, column {wrong.at[1]}: {rule}: ") and str(wrong).endswith("^")


# rule, what passes it, what it refuses, and the rule of the part that fails
PARTS = [
    ("NET WIRE", "t{0} | p[ 0 ]", "t{0} | u{0}", "NET PROCESS"),
    ("LOG NET", "p[ t{commit}, 0 ]", "p[ u{commit}, 0 ]", "NET PROCESS"),
    ("LOG EXTEND", "p[ t{commit}; t{abort}, 0 ]", "p[ t{commit}; u{commit}, 0 ]", "NET PROCESS"),
    ("PROC REPLICATE", "t{!send(in c, <>)}", "t{!send(in c, c)}", "PROC SEND"),
    ("PROC PAR", "t{commit | abort | send(in c, <>)}", "t{commit | send(in c, c)}", "PROC SEND"),
    ("PROC NULL", "t{0}", "u{0}", "NET PROCESS"),
    ("PROC CHILD", "t{child(send(in c, <>))}", "t{child(send(in c, c))}", "PROC SEND"),
    ("VAL TUPLE", "t{let <x> = <c> in send(in x, <>)}", "t{let <x> = <t> in 0}", "VAL PARAM"),
    ("PROC COMMIT", "t{commit}", "u{commit}", "NET PROCESS"),
    ("PROC ABORT", "t{abort}", "u{abort}", "NET PROCESS"),
    ("NET EMPTY", "p[ 0 ]", "c[ 0 ]", "NET PLACE"),
]


@pytest.mark.parametrize(("rule", "good", "bad", "part"), PARTS, ids=[row[0] for row in PARTS])
def test_rules_that_fail_with_their_parts(rule: str, good: str, bad: str, part: str) -> None:
    typecheck(parse(NAMES + good))
    with pytest.raises(IllTyped) as error:
        typecheck(parse(NAMES + bad))
    assert error.value.rule == part


def test_types_are_found_where_the_place_gives_them() -> None:
    network = typecheck(parse(NAMES + "t{receive(out n, (x) receive(out x, (y) send(in c, y), 0), 0)}"))
    assert "(x: Chan[<>]) receive(out x, (y: <>)" in network_text(network)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("Chan[Trans]", "a transaction's name is no value"),
        ("Chan[<> -> ()]", "processes are no values"),
        ("rec X. X", "X stands for itself"),
        ("rec X. Cap[X]", "Cap[…] is of Place, Chan[T] or Key[T]"),
        ("Chan[Cap[<>]]", "Cap[…] is of Place, Chan[T] or Key[T], not of <>"),
        ("Chan[Plaice]", "there is no type Plaice; did you mean 'Place'?"),
        ("Chan[rec X. <Cap[X]>]", "Cap[…] is of Place, Chan[T] or Key[T], not of rec X. <Cap[X]>"),
        ("rec X. Chan[rec Y. <Cap[Y], X>]", "Cap[…] is of Place, Chan[T] or Key[T]"),
        ("Chan[rec X. Trans]", "a transaction's name is no value"),
        ("Key[Trans]", "a transaction's name is no value"),
        ("Chan[Packet[Trans]]", "a transaction's name is no value"),
        ("Chan[rec X. <> -> ()]", "processes are no values"),
        ("Chan[<<> -> ()>]", "processes are no values"),
        ("rec X. rec Y. X", "X stands for itself"),
        ("Chan[Cap[rec X. X]]", "X stands for itself"),
    ],
)
def test_types_that_are_none(kind: str, why: str) -> None:
    with pytest.raises(IllTyped, match="NET NEW") as error:
        typecheck(parse(f"new x: {kind}. 0"))
    assert why in str(error.value)


def test_recursive_types() -> None:
    names = "new t: Trans. new c: rec X. Chan[X]. new d: Chan[Chan[rec X. Chan[X]]]. "
    typecheck(parse(names + "t{send(in c, d) | send(in d, c) | receive(out c, (x: Chan[rec X. Chan[X]]) 0, 0)}"))
    with pytest.raises(IllTyped):
        typecheck(parse(names + "t{send(in c, <>)}"))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("rec X. Chan[X]", "rec Y. Chan[Chan[Y]]", True),
        ("rec X. Chan[X]", "rec X. rec Y. Chan[X]", True),
        ("rec X. Chan[X]", "rec X. Chan[rec Y. X]", True),  # X has a Chan around it, and Y is not used
        ("rec X. Chan[Cap[X]]", "rec X. Chan[Cap[rec Y. X]]", True),
        ("rec X. Chan[<X, Chan[<>]>]", "Chan[rec X. <Chan[X], Chan[<>]>]", True),
        ("rec X. Chan[Chan[X]]", "rec X. Chan[Key[X]]", False),
        ("rec X. Chan[<X, X>]", "rec X. Chan[<X, Chan[<X>]>]", False),
    ],
)
def test_recursive_types_are_equal_if_they_unfold_to_the_same(one: str, other: str, equal: bool) -> None:
    text = f"new t: Trans. new p: Place. new c: Chan[{one}]. new d: {other}. p[ t{{send(in c, d)}} ]"
    if equal:
        Atomic(parse(text))
        return
    with pytest.raises(IllTyped, match="PROC SEND"):
        Atomic(parse(text))


def test_a_place_is_one_however_its_type_is_written() -> None:
    text = "new t: rec X. Trans. new p: rec X. Place. new q: rec X. rec Y. Place. new c: Chan[<>]. {}"
    machine = Atomic(parse(text.format("p[ t{send(in q.in c, <>) | commit} ]")))
    assert [str(step) for step, _ in machine.steps(machine.start())] == ["COMMIT t"]
    assert nowhere(machine.layout) == [
        "t has a capability for q, and no place is called q: a message on its way there waits for ever"
    ]
    with pytest.raises(IllTyped, match="PROC NEW: new u inside a process"):
        Atomic(parse(text.format("p[ t{new u: rec X. Trans. 0} ]")))


def test_as_printed_lemma_1_is_false_and_corrected_it_refuses_the_network() -> None:
    network = counterexample_to_lemma_1()
    found = explore(Atomic(network, system="printed"), ("types",))
    at, why = found.broken["types"]
    assert found.trace(at) == ["CRYPT t", "APP t"]
    assert "decrypt(out k[<>], k[<>]" in why and "VAL OUTPUT CAP" in why and "outside the grammar" in why
    text = network_text(network).replace("new k: Packet", "new k: Key")
    with pytest.raises(IllTyped, match="VAL OUTPUT CAP: out x: expected Place, Chan"):
        typecheck(parse(text))


def test_as_printed_a_channel_before_a_key_has_no_type() -> None:
    names = (
        "new t: Trans. new m: Chan[Packet[Cap[Chan[<>]] -> ()]]. new k: {}[Cap[Chan[<>]] -> ()]. "
        "t{{send(in m.in k, (y: Cap[Chan[<>]]) send(y, <>))}}"
    )
    typecheck(parse(names.format("Key")))
    with pytest.raises(IllTyped, match="VAL COMPOSE CAP"):
        typecheck(parse(names.format("Packet")), system="printed")
    with pytest.raises(IllTyped, match=r"Key.T. is of the corrected system"):
        typecheck(parse(names.format("Key")), system="printed")


def test_a_system_that_nobody_knows() -> None:
    assert SYSTEMS == ("corrected", "printed")
    with pytest.raises(UsageError, match="system= is one of corrected, printed"):
        typecheck(parse("0"), system="mended")  # type: ignore[arg-type]


# The text form: what is printed is read back, and a mistake is told with its place.

TEXTS = [
    "0",
    "new t: Trans. new p: Place. p[ t{commit} | p[ 0 ] ] | t{0}",
    "new t: Trans. (new p: Place. p[ 0 ]) | t{abort}",
    "t{send(out p.in q.in c, <k[<>], x, in c>)}",
    "t{receive(out c, (x: <>) send(in c, x) | commit, new d: Chan[<>]. send(in d, <>) | 0)}",
    "t{!(commit | abort) | !send(in c, <>) | let <x, y> = z in send(x, y) | commit}",
    "t{(let <> = v in commit) | (new n: Key[<>]. 0) | ((x: <>) commit)(<>)}",
    "t{crypt(in k, <>, (x) decrypt(out k, x, (y) commit))}",
    "t{send(in m.in k, (y: Cap[Chan[<>]]) send(y, <>)) | forward(out m, in w, commit, abort)}",
    "t{open(out w.out k, in d, receive(out d, (x: <>) commit, 0), 0) | child(commit | 0)}",
    "new c: rec X. Chan[<X, Cap[Place], Packet[(Key[X] -> ()) -> ()]>]. 0",
    "p[ t{commit}; u{abort}; t{receive(out c, (x: <>) 0, 0)} | u{send(in c, <>)}, t{0} | u{0} ]",
    "new ~0: Chan[<>]. t{send(in ~0, <>)}  # a private name of a state",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_printed_is_read_back(text: str) -> None:
    network = parse(text)
    assert parse(network_text(network)) == network
    assert parse(network_text(network, indent=2)) == network


def test_brackets_comments_and_the_two_words_for_receive() -> None:
    assert parse("t{(commit | (abort | 0))}") == parse("t{commit # not yet\n | abort | 0}")
    assert parse("t{recv(out c, (x: <>) 0, 0)}") == parse("t{receive(out c,(x:<>)(0),0)}")
    assert parse("new a, b: Place. 0") == parse("new a: Place. new b: Place. 0")


def test_binding_reaches_as_far_as_it_can_and_bang_does_not() -> None:
    assert isinstance(parse("t{new c: Chan[<>]. commit | abort}").process, s.NewIn)  # type: ignore[union-attr]
    assert isinstance(parse("t{!commit | abort}").process, s.Par)  # type: ignore[union-attr]
    assert isinstance(parse("new t: Trans. t{0} | t{0}"), s.New)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p[ t{send(in c <>)} ]", "a.atf, line 1, column 16: `<` is not expected here: `,`, `.` would be"),
        ("p[\n t{commit}", "a.atf, line 2, column 11: the text ends here: `,`, `;`, `]` would be"),
        ("p[ t{§} ]", "a.atf, line 1, column 6: `§` means nothing here"),
        ("p[ t{receive(out c, (x: <>) commit)} ]", "column 35: `)` is not expected here: `,` would be"),
        ("new t: Trans, p[ 0 ]", "column 13: `,` is not expected here: `.` would be"),
        ("t{send(in c, 5)}", "`5` means nothing here"),
    ],
)
def test_a_mistake_has_a_line_a_column_a_caret_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse(text, "a.atf")
    said, line, caret = str(error.value).split("\n")
    assert message in said
    column = int(said.partition("column ")[2].partition(":")[0])
    assert caret.index("^") == column + 1 and line.strip() in text


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "none.atf")
    (tmp_path / "b.atf").write_bytes(b"p[ \xff ]")
    with pytest.raises(DataError, match="byte 3 is no UTF-8"):
        read(tmp_path / "b.atf")
    with pytest.raises(DataError, match=r"deep.atf is nested too deeply"):
        parse("p[" * 5000 + "0" + "]" * 5000, "deep.atf")
    with pytest.raises(DataError, match="takes the text of a network"):
        parse(3)  # type: ignore[arg-type]
