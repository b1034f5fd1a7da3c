"""The text form: what is printed is read back, and a mistake is told with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.atomic import network_text, parse, read
from pellucid.atomic import syntax as s
from pellucid.errors import DataError

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
