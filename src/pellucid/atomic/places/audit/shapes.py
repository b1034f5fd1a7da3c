"""What a record looks like: its kind, its fields, the names in it; and which of them make sense at all.

Everything here is read from the outside: the audit does not believe the code that wrote a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pellucid.atomic.places.audit.words import Findings, Violation


class Row(NamedTuple):
    """A record of a place's log."""

    place: str
    seq: int
    kind: str
    fields: Mapping[str, Any]

    @property
    def where(self) -> str:
        """Where it stands, in words."""
        return f"by record {self.seq} of {self.place}"


class Name(NamedTuple):
    """The name of a transaction: its place, the start of the place (a number, and a mark if it has one), a number."""

    place: str
    boot: int
    n: int
    mark: str = ""

    @property
    def start(self) -> str:
        """The start, as it is written in names."""
        return f"{self.boot}-{self.mark}" if self.mark else str(self.boot)


def name_of(t: str) -> Name | None:
    """The parts of a transaction's name; None if it is none.

    >>> name_of("air:line:2:17")
    Name(place='air:line', boot=2, n=17, mark='')
    >>> name_of("airline:2-k7q2mx:17").start
    '2-k7q2mx'
    >>> name_of("airline:2") is None, name_of("airline:0:1") is None
    (True, True)
    """
    place, colon, rest = t.rpartition(":")
    place, other, boot = place.rpartition(":")
    boot, dash, mark = boot.partition("-")
    if not (colon and other and place and _counts(boot) and _counts(rest)) or int(boot) < 1:
        return None
    if dash and not _mark(mark):
        return None
    return Name(place, int(boot), int(rest), mark)


def start_in(row: Row) -> str:
    """The start that a `boot` says, as it is written in names."""
    return Name("", row.fields["n"], 0, row.fields.get("mark") or "").start


def home(t: str) -> str:
    """The place at which a transaction is at home."""
    found = name_of(t)
    return found.place if found else ""


def message_of(mid: str) -> tuple[str, int] | None:
    """The transaction that sent a message, and the number it gave it.

    >>> message_of("airline:1:2/3"), message_of("airline:1:2"), message_of("x/3")
    (('airline:1:2', 3), None, None)
    """
    t, slash, seq = mid.rpartition("/")
    return (t, int(seq)) if slash and _counts(seq) and name_of(t) else None


def _counts(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _mark(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isalnum() and value == value.lower()


def _stand(value: Any) -> bool:
    start, slash, n = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    boot, dash, mark = start.partition("-")
    return bool(slash) and _counts(boot) and _counts(n) and (not dash or _mark(mark))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _transaction(value: Any) -> bool:
    return isinstance(value, str) and name_of(value) is not None


def _message(value: Any) -> bool:
    return isinstance(value, str) and message_of(value) is not None


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _all(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(of, value))


def _maybe(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or of(value)


def _any(value: Any) -> bool:
    return True


def _path(value: Any) -> bool:
    steps = [isinstance(step, (list, tuple)) and len(step) >= 2 and step[0] in ("in", "out") for step in value or ()]
    return bool(steps) and all(steps) and value[-1][0] == "in"


# kind: its fields, each with what it is in words and how that is seen.  Those with ? may be missing.
_Field = tuple[str, Callable[[Any], bool]]
_T: _Field = ("the name of a transaction (PLACE:START:N)", _transaction)
_MID: _Field = ("the name of a message (PLACE:START:N/SEQ)", _message)
_N: _Field = ("a number", _number)
_TEXT: _Field = ("a text", _text)
_STAND: _Field = ("a start and a number of records (START/N)", _stand)
_SET: _Field = ("a list of names of transactions", _all(_transaction))
_ANY: _Field = ("anything", _any)
FIELDS: dict[str, dict[str, _Field]] = {
    "boot": {"n": _N, "mark?": ("letters and digits, or nothing", _maybe(_mark))},
    "begin": {"t": _T, "parent?": ("the name of a transaction, or nothing", _maybe(_transaction))},
    "send": {"t": _T, "seq": _N, "path": ("a path that ends in a channel", _path), "value": _ANY},
    "sent": {"t": _T, "seq": _N},
    "deposit": {"channel": _TEXT, "mid": _MID, "sender": _T, "value": _ANY},
    "take": {"t": _T, "channel": _TEXT, "mid": _MID, "sender": _T},
    "pending": {"t": _T},
    "prepared": {"attempt": _TEXT, "coordinator": _TEXT, "members": _SET, "needs?": _ANY},
    "decide": {"attempt": _TEXT, "members": _SET, "participants": ("a list of places", _all(_text))},
    "commit": {"members": _SET, "attempt?": ("an attempt, or nothing", _maybe(_text))},
    "abort": {"t": _T, "why?": _ANY, "back?": ("a list of names of messages", _maybe(_all(_message)))},
    "given_up": {"attempt": _TEXT},
    "end": {"attempt": _TEXT},
    "hand": {"what": _TEXT, "outcome": _TEXT, "who?": _ANY, "when?": _ANY},
    "refused": {},
    "met": {"place": _TEXT, "stand": _STAND},
    "behind": {"stand": _STAND, "source": _TEXT},
    "accepted": {"stands": ("a list of stands", _all(_stand)), "who?": _ANY, "when?": _ANY},
}


def rows_of(place: str, records: Iterable[tuple[int, str, Mapping[str, Any]]], found: Findings) -> list[Row]:
    """The records of one log that make sense; what does not is told.

    >>> found = Findings(9)
    >>> rows = rows_of("p", [(1, "boot", {"n": 1}), (3, "take", {"t": "p:1:1"}), (4, "tkae", {})], found)
    >>> [row.kind for row in rows]
    ['boot']
    >>> for one in found.first:
    ...     print(one)
    p, record 3 (take): its number should be 2: a record is missing, or is there twice
    p, record 3 (take): it has no channel: expected a text
    p, record 4 (tkae): there is no record of kind 'tkae'
    """
    out: list[Row] = []
    expected = 1
    for seq, kind, fields in records:
        if seq != expected:
            found.add(Violation("hole", place, seq, kind, other=str(expected)))
        expected = seq + 1
        if kind not in FIELDS:
            found.add(Violation("unknown-kind", place, seq, kind, other=repr(kind)))
            continue
        wrong = _wrong(kind, fields)
        if wrong:
            found.add(Violation("shape", place, seq, kind, other=wrong))
            continue
        if not out and (kind != "boot" or fields["n"] != 1):
            what = f"boot {fields['n']}" if kind == "boot" else f"a record of kind {kind}"
            found.add(Violation("no-boot", place, seq, kind, other=what))
        out.append(Row(place, seq, kind, fields))
    return out


def leads_to(row: Row, tree: Mapping[str, str | None]) -> tuple[str, str]:
    """The place and the channel to which the path of a `send` leads: out of its place as often as it says, then in.

    >>> row = Row("p", 1, "send", {"path": [["out", "p", b"-"], ["in", "q", b"-"], ["in", "c", b"-"]]})
    >>> leads_to(row, {"p": None, "q": None})
    ('q', 'c')
    """
    at: str | None = row.place
    *steps, last = row.fields["path"]
    for move, name, *_ in steps:
        at = tree.get(name) if move == "out" else name
    return at or "nowhere", last[1]


def stays(row: Row, tree: Mapping[str, str | None]) -> bool:
    """Whether the path of a `send` touches no other place: it is deposited with the record that it was sent.

    >>> def sent(*path): return Row("p", 1, "send", {"path": [step.split() for step in path]})
    >>> tree = {"p": None, "q": None}
    >>> [stays(sent(*path), tree) for path in (["in c"], ["out p", "in p", "in c"], ["out p", "in q", "in c"])]
    [True, True, False]
    """
    at: str | None = row.place
    for move, name, *_ in row.fields["path"][:-1]:
        at = tree.get(name) if move == "out" else name
        if at not in (None, row.place):
            return False
    return at == row.place


def _wrong(kind: str, fields: Mapping[str, Any]) -> str:
    for name, (words, fits) in FIELDS[kind].items():
        own = name.rstrip("?")
        if own not in fields:
            if name == own:
                return f"it has no {own}: expected {words}"
        elif not fits(fields[own]):
            return f"its {own} is {fields[own]!r}: expected {words}"
    return ""


def cascade_of(why: Any) -> str:
    """From whom an abort came by cascade; nothing if it did not.

    >>> cascade_of("cascade from hotel:1:2"), cascade_of("asked")
    ('hotel:1:2', '')
    """
    text = why if isinstance(why, str) else ""
    before, word, u = text.partition("cascade from ")
    return u.split()[0] if word and not before and u.split() else ""
