"""What a formula means, in one plain English sentence."""

from __future__ import annotations

from collections.abc import Iterable

from pellucid.check.formula.nodes import (
    CTL,
    LTL,
    Before,
    Calc,
    Compare,
    Flag,
    Formula,
    Length,
    Literal,
    Not,
    Ref,
    Some,
    Term,
    kind,
    parts,
    terms,
)
from pellucid.internal.expr.node import Expr

_FLAGS = {
    "full": ("some queue is full", "no queue is full"),
    "overflow": ("a queue has overflowed", "no queue has overflowed"),
    "failed": ("a function has failed", "no function has failed"),
}
_COMPARE = {
    "=": "is", "!=": "is not", "<": "is less than", "<=": "is at most", ">": "is more than", ">=": "is at least",
}  # fmt: skip
_PAIRS = [("F", "G"), ("EF", "AG"), ("AF", "EG"), ("EX", "AX"), ("X", "X"), ("O", "H")]
_OPPOSITE = dict(_PAIRS) | {b: a for a, b in _PAIRS}  # not F p = G not p, and so on


def explain(formula: Formula) -> str:
    """One sentence that says what the formula asks for.

    >>> from pellucid.check.formula.parse import parse
    >>> print(explain(parse("AG EF out")))
    From every state that can be reached, it is possible to reach one in which out carries an event.
    >>> print(explain(parse("!EF full")))
    In every state that can be reached, no queue is full.
    >>> print(explain(parse("G (in -> X out.value > 3)")))
    On every run, in every step, if in carries an event, then in the next step out carries an event, and each is more
    than 3.
    """
    what = kind(formula)
    words = _say(formula, True)
    if what == "ltl":
        words = f"on every run, {words}"
    elif what == "state":
        words = f"in the first step, {words}"
    return words[0].upper() + words[1:] + "."


def _say(f: Formula, first: bool = False) -> str:
    """A clause that can stand after "in which"; ``first`` when it opens the sentence, in the initial state."""
    op, args = f.op, f.args
    if op in ("true", "false"):
        return "anything may be" if op == "true" else "nothing may be"
    if op == "atom":
        return _atom(f, True)
    if op == "!":
        return _deny(args[0], first)
    if op == "&":
        return f"{_part(args[0], first)} and {_part(args[1], first)}"
    if op == "|":
        return f"either {_part(args[0], first)} or {_part(args[1], first)}"
    if op == "->":
        return f"if {_part(args[0], first)}, then {_part(args[1], first)}"
    if op == "<->":
        return f"{_part(args[0], first)} exactly when {_part(args[1], first)}"
    p = args[0]
    if op == "AG":
        reached = f"every state that can be reached{'' if first else ' from there'}"
        if p.op in ("EF", "AF"):
            return f"from {reached}, {_say(p).replace('a state', 'one', 1)}"
        return f"in {reached}, {_say(p)}"
    if op + p.op == "GF":
        return f"again and again {_say(p.args[0])}"
    if op + p.op == "FG":
        return f"from some step on, in every step {_say(p.args[0])}"
    if op in ("EF", "AF"):
        which = f"{'from' if _bare(p).op in CTL else 'in'} which {_say(p)}"
        how = "it is possible to reach a state" if op == "EF" else "whatever comes in, a state is reached"
        return f"{how} {which}"
    inner = _say(p)
    if op in ("EU", "AU", "U", "W", "R", "S"):
        return _until(op, inner, _say(args[1]))
    return {
        "EX": f"it is possible that in the next step {inner}",
        "AX": f"whatever comes in, in the next step {inner}",
        "EG": f"it is possible that for ever {inner}",
        "X": f"in the next step {inner}",
        "F": f"{'in some step' if first else 'in that step or a later one'} {inner}",
        "G": f"{'in every step' if first else 'from then on, in every step'}, {inner}",
        "Y": f"there is a step before, and in it {inner}",
        "O": f"in that step or an earlier one {inner}",
        "H": f"in that step and all earlier ones {inner}",
    }[op]


def _bare(f: Formula) -> Formula:
    return _bare(f.args[0]) if f.op == "!" else f


def _until(op: str, p: str, q: str) -> str:
    if op == "W":
        return f"in every step {p}, at least until one in which {q} (if there is one)"
    if op == "R":
        return f"in every step {q}, up to and including one in which {p} (for ever, if there is none)"
    if op == "S":
        return f"in that step or an earlier one {q}, and in every step since then {p}"
    start = {"U": "", "AU": "whatever comes in, ", "EU": "it is possible that "}[op]
    return f"{start}sooner or later there is a step in which {q}, and in every step before it {p}"


def _deny(f: Formula, first: bool) -> str:
    if f.op == "atom":
        return _atom(f, False)
    if f.op == "!":
        return _say(f.args[0], first)
    if f.op in _OPPOSITE:
        return _say(_negated(f), first)
    return f"it is not the case that {_part(f, first)}"


def _negated(f: Formula) -> Formula:
    if f.op in _OPPOSITE:
        return Formula(_OPPOSITE[f.op], (_negated(f.args[0]),))
    return f.args[0] if f.op == "!" else Not(f)


def _part(f: Formula, first: bool) -> str:
    """A part of a larger clause, in brackets where the words alone could be read in two ways."""
    words = _say(f, first)
    loose = f.op in ("&", "|", "->", "<->", "U", "W", "R", "S", "EU", "AU") or (
        f.op in LTL and f.args[0].op in ("&", "|", "->", "<->")
    )
    return f"({words})" if loose else words


# ---------------------------------------------------------------- atoms


def _atom(f: Formula, yes: bool) -> str:
    body = f.body
    if isinstance(body, Some):
        names = _streams(terms(body.of))
        words = (
            f"for some event{'' if len(names) == 1 else 's'} of {_list(names)} {_chosen(body.of)}"
            if names
            else _chosen(body.of)
        )
        return words if yes else f"it is not so that {words}"
    if isinstance(body, Compare):
        words = _compare(body)
        return words if yes else f"it is not so that {words}"
    if isinstance(body, Flag):
        return _FLAGS[body.name][not yes]
    if isinstance(body, Ref) and _what(body)[1] == "":
        return f"{_what(body)[0]} carries {'an' if yes else 'no'} event"
    if isinstance(body, Expr) or body is None:
        return f"{f.text or body} {'holds' if yes else 'does not hold'}"
    names = _streams(parts(body))
    each = _each(names) if names else ""
    if yes or not each:
        return f"{each}{_value(body)} is {'true' if yes else 'false, or absent'}"
    return f"it is not so that {each}{_value(body)} is true"


def _chosen(f: Formula) -> str:
    """A condition on events that have been chosen."""
    if f.op == "atom" and isinstance(f.body, Compare):
        return f"{_value(f.body.left)} {_COMPARE[f.body.op]} {_value(f.body.right)}"
    if f.op == "atom" and isinstance(f.body, Ref) and _what(f.body)[1]:
        return f"{_value(f.body)} is true"
    if f.op in ("atom", "true", "false"):
        return _say(f)
    words = [_chosen(a) if a.op in ("atom", "true", "false") else f"({_chosen(a)})" for a in f.args]
    if f.op == "!":
        return f"it is not so that {words[0]}"
    if f.op == "->":
        return f"if {words[0]}, then {words[1]}"
    return f"{words[0]} { {'&': 'and', '|': 'or', '<->': 'exactly when'}[f.op] } {words[1]}"


def _what(ref: Ref) -> tuple[str, str, tuple[str, ...]]:
    """The stream, which of its events (``value`` each, ``first``, ``last``, ``count`` their number, nothing: that one
    is there), and the field."""
    own = f"the {ref.kind} {ref.name}" if ref.kind else ref.name
    for word in ("value", "first", "last", "count"):
        if word in ref.path:
            at = ref.path.index(word)
            return ".".join((own, *ref.path[:at])), word, ref.path[at + 1 :]
    return ".".join((own, *ref.path)), "", ()


def _streams(of: Iterable[Term]) -> list[str]:
    """The streams of which every event is meant."""
    return list(dict.fromkeys(_what(t)[0] for t in of if isinstance(t, Ref) and _what(t)[1] == "value"))


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _each(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} carries an event, and for each "
    return f"{_list(names)} carry events, and for each with each "


def _compare(c: Compare) -> str:
    left, right, relation = c.left, c.right, _COMPARE[c.op]
    if isinstance(right, Literal) or _plain(right):
        if isinstance(left, Ref):
            name, which, fields = _what(left)
            if which == "value" and not fields:
                return f"{name} carries an event, and each {relation} {right}"
            if which == "count" and not fields:
                return f"{name} carries {_COUNT[c.op]} {right} event{'' if str(right) == '1' else 's'}"
        if isinstance(left, Length):
            return f"queue {left.queue} holds {_COUNT[c.op]} {right} event{'' if str(right) == '1' else 's'}"
    if c.op == "=" and _plain(left) and _plain(right):
        relation = "equals"
    names = _streams(parts(c))
    return f"{_each(names) if names else ''}{_value(left)} {relation} {_value(right)}"


_COUNT = {"=": "exactly", "!=": "other than", "<": "fewer than", "<=": "at most", ">": "more than", ">=": "at least"}


def _plain(term: Term) -> bool:
    """Perhaps a member of an enum: a name that is not the value of a stream."""
    return isinstance(term, Ref) and _what(term)[1] == ""


def _value(term: Term) -> str:
    if isinstance(term, Ref):
        name, which, fields = _what(term)
        if not which:
            return name
        if which == "count" and not fields:
            return f"the number of events of {name}"
        of = f"the {which} event of {name}" if which in ("first", "last") else name
        return f"the {'.'.join(fields)} of {of}" if fields else of if which != "value" else f"the value of {name}"
    if isinstance(term, Before):
        return f"{_value(term.ref)} in the event before"
    if isinstance(term, Length):
        return f"the length of queue {term.queue}"
    if isinstance(term, Calc) and len(term.args) == 2:
        words = {"+": "plus", "-": "minus", "*": "times", "%": "modulo"}[term.op]
        return f"{_inner(term.args[0])} {words} {_inner(term.args[1])}"
    return str(term)


def _inner(term: Term) -> str:
    return f"({_value(term)})" if isinstance(term, Calc) else _value(term)
