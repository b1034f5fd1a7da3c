"""Formulas as text.

From loosest to tightest: ``<->``, ``->`` (to the right), ``|``, ``&``, ``U W R S`` (to the right), prefix operators
(``! X F G Y O H EX EF EG AX AF AG``), comparisons ``= != < <= > >=``, ``+ -``, ``* %``, unary ``-``.  So
``G (in -> X out.value > 3)`` puts the comparison under ``X``, and ``p & q U r`` is ``p & (q U r)``.

A bare stream is "an event is there".  ``-`` and ``/`` inside a word belong to a name (``apply-3f`` is a step), so put
spaces round a minus.  A stream whose name is an operator or has odd characters is written ``stream("G")``;
``source("out")``, ``output("out")``, ``step("in")`` and ``flag("full")`` say which of several things of one name is
meant.  ``any(out.value > 3)`` is about at least one event of the push.
In a comparison ``Y x.value`` is the event before; it stands on the right, or behind a sign: ``x.value >= Y x.value``,
``x.value - Y x.value > 3``. ``&&``, ``||`` and ``==`` are read as ``&``, ``|`` and ``=``.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, NoReturn

from pellucid.check.formula.nodes import (
    FALSE,
    FLAGS,
    KINDS,
    NAME,
    RESERVED,
    TRUE,
    Atom,
    Before,
    Calc,
    Compare,
    Flag,
    Formula,
    Length,
    Literal,
    Ref,
    Term,
    any_,
    negative,
)
from pellucid.errors import UsageError

_PREFIX = frozenset(("X", "F", "G", "Y", "O", "H", "EX", "EF", "EG", "AX", "AF", "AG"))
# operators between conditions, loosest first, and whether they bind to the right; operators between values
_LEVELS = ((("<->",), False), (("->",), True), (("|",), False), (("&",), False), (("U", "W", "R", "S"), True))
_CALCULATIONS = (("+", "-"), ("*", "%"))
_COMPARE = frozenset(("=", "!=", "<", "<=", ">", ">="))
_SAME = {"&&": "&", "||": "|", "==": "="}
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
    |(?P<string>"(?:[^"\\]|\\.)*"|'[^'\\]*')
    |(?P<call>(?:queue|stream|source|output|step|flag)\s*\(\s*
        (?:(?P<raw>[\w./-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"|'[^'\\]*'))\s*\)(?P<after>(?:\.\w+)*))
    |(?P<name>{NAME.pattern}(?:\.\w+)*)
    |(?P<sign><->|->|&&|\|\||==|!=|<=|>=|[!&|()\[\]=<>+*%-])""",
    re.VERBOSE,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    name: str = ""
    path: tuple[str, ...] = ()


def parse(text: str) -> Formula:
    """The formula that a text says.

    >>> parse("AG EF out").op
    'AG'
    >>> print(parse("!(a | b) & G (in->X out.value==3)"))
    !(a | b) & G (in -> X out.value = 3)
    >>> parse("G (in -> )")
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: expected a condition, found ')'
      G (in -> )
               ^
    """
    if not isinstance(text, str):
        raise UsageError(f"a formula is a text, found {text!r}")
    try:
        parser = _Parser(text)
        formula = parser.formula()
        if parser.now.kind != "end":
            parser.fail("an operator such as & | -> U, or the end")
        return formula
    except RecursionError:
        raise UsageError(f"the formula is nested too deeply: {text[:60]} …") from None


class _Parser:
    """Recursive descent.  What may be a value or a condition is kept as a term."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self.scan()
        self.at = 0
        self.bracket = False  # directly inside A […] or E […], where U is the bracket's own

    # -- tokens

    def scan(self) -> list[_Token]:
        out: list[_Token] = []
        at = 0
        while at < len(self.text):
            m = _TOKEN.match(self.text, at)
            if m is None:
                self.complain("a name, a number, a text in quotes or an operator", repr(self.text[at]), at)
            kind, word = m.lastgroup or "", m.group()
            if m["call"] is not None:
                name = m["raw"] if m["raw"] is not None else self.string(m["quoted"], m.start("quoted"))
                path = tuple(m["after"].split(".")[1:])
                out.append(_Token(word[: word.index("(")].strip(), word, at, name, path))
            elif kind == "name":
                name, *rest = word.split(".")
                out.append(_Token("name" if rest or name not in RESERVED else "word", word, at, name, tuple(rest)))
            elif kind != "space":
                out.append(_Token(kind, _SAME.get(word, word) if kind == "sign" else word, at))
            at = m.end()
        out.append(_Token("end", "", len(self.text)))
        return out

    def string(self, word: str, at: int) -> str:
        if word[0] == "'":
            return word[1:-1]
        try:
            return str(json.loads(word, strict=False))
        except ValueError:
            self.complain("a text with escapes as in JSON", word, at)

    @property
    def now(self) -> _Token:
        return self.tokens[self.at]

    def accept(self, *texts: str) -> _Token | None:
        token = self.now
        if token.kind in ("sign", "word") and token.text in texts:
            self.at += 1
            return token
        return None

    def expect(self, text: str, why: str = "") -> None:
        if not self.accept(text):
            self.fail(f"{text!r}{why}")

    def fail(self, expected: str) -> NoReturn:
        token = self.now
        self.complain(expected, repr(token.text) if token.kind != "end" else "the end", token.at)

    def complain(self, expected: str, found: str, at: int) -> NoReturn:
        line = re.sub(r"\s", " ", self.text)
        hint = ": 'implies' is written ->" if self.text.startswith("=>", max(at - 1, 0)) else ""
        raise UsageError(f"expected {expected}, found {found}{hint}\n  {line}\n  {' ' * at}^")

    # -- conditions, loosest first

    def formula(self) -> Formula:
        at = self.now.at
        return self.condition(self.joined(), at)

    def condition(self, part: Term | Formula, at: int) -> Formula:
        if isinstance(part, Formula):
            return part
        if isinstance(part, Literal) and part.kind == "bool":
            return TRUE if part.value else FALSE
        if isinstance(part, (Ref, Flag)):
            return Atom(part)
        self.complain(f"a condition: compare {part} with something", str(part), at)

    def joined(self, level: int = 0) -> Term | Formula:
        """Conditions joined by the operators of a level, or what is tighter."""
        if level == len(_LEVELS):
            return self.prefix()
        signs, right = _LEVELS[level]
        places, parts, ops = [self.now.at], [self.joined(level + 1)], []
        while not (self.bracket and "U" in signs) and (sign := self.accept(*signs)):
            ops.append(sign.text)
            places.append(self.now.at)
            parts.append(self.joined(level + 1))
        if not ops:
            return parts[0]
        found = [self.condition(part, place) for part, place in zip(parts, places, strict=True)]
        if right:
            out = found.pop()
            while found:
                out = Formula(ops.pop(), (found.pop(), out))
            return out
        out = found[0]
        for op, part in zip(ops, found[1:], strict=True):
            out = Formula(op, (out, part))
        return out

    def prefix(self) -> Term | Formula:
        if token := self.accept("!", *_PREFIX):
            at = self.now.at
            return Formula(token.text, (self.condition(self.prefix(), at),))
        if self.now.text in ("A", "E") and self.tokens[self.at + 1].text == "[":
            path = self.now.text
            self.at += 2
            left = self.within(True)
            self.expect("U", f" (as in {path} [p U q])")
            right = self.within(True)
            self.expect("]")
            return Formula(f"{path}U", (left, right))
        return self.comparison()

    def within(self, bracket: bool) -> Formula:
        outer, self.bracket = self.bracket, bracket
        out = self.formula()
        self.bracket = outer
        return out

    # -- values

    def comparison(self) -> Term | Formula:
        at = self.now.at
        left = self.calculation()
        if not (self.now.kind == "sign" and self.now.text in _COMPARE):
            return left
        op = self.now.text
        left = self.value(left, at)
        self.at += 1
        at = self.now.at
        right = self.value(self.calculation(), at)
        if self.now.kind == "sign" and self.now.text in _COMPARE:
            self.fail("one comparison at a time: join two by &")
        return Atom(Compare(op, left, right))

    def value(self, part: Term | Formula, at: int) -> Term:
        if isinstance(part, Formula):
            self.complain("a value (conditions are compared by <->)", f"the condition {part}", at)
        return part

    def calculation(self, level: int = 0) -> Term | Formula:
        """``+ -`` of ``* %`` of a value with its sign."""
        if level == len(_CALCULATIONS):
            return self.negation()
        at = self.now.at
        left = self.calculation(level + 1)
        while sign := self.accept(*_CALCULATIONS[level]):
            place = self.now.at
            left = Calc(sign.text, (self.value(left, at), self.value(self.calculation(level + 1), place)))
        return left

    def negation(self) -> Term | Formula:
        if self.accept("-"):
            at = self.now.at
            return negative(self.value(self.negation(), at))
        return self.primary()

    def primary(self) -> Term | Formula:
        token = self.now
        if self.accept("("):
            outer, self.bracket = self.bracket, False
            inner = self.joined()
            self.bracket = outer
            self.expect(")")
            return inner
        value = self.at > 0 and self.tokens[self.at - 1].text in _COMPARE | set("+-*%")
        wanted = "a value" if value else "a condition"
        self.at += 1
        if value and token.kind == "word" and token.text == "Y":
            return self.before()
        if token.kind == "number":
            return Literal.number(token.text)
        if token.kind == "string":
            return Literal(self.string(token.text, token.at))
        if token.kind == "queue":
            if token.path != ("length",):
                self.complain(".length after queue(…)", token.text, token.at)
            return Length(token.name)
        if token.text in ("true", "false"):
            return Literal(token.text == "true")
        if token.text == "None":
            return Literal(None)
        if token.kind == "flag":
            if token.name not in FLAGS or token.path:
                self.complain(f"flag(…) of {', '.join(FLAGS)}", token.text, token.at)
            return Flag(token.name, exact=True)
        if token.text in FLAGS:
            return Flag(token.text)
        if token.text == "any" and self.now.text == "(":
            return self.some()
        if token.kind in ("name", *KINDS):
            path = () if token.path == ("present",) else token.path
            return Ref(
                token.name,
                path,
                token.kind if token.kind not in ("name", "stream") else "",
                exact=token.kind == "stream",
            )
        self.at -= 1
        if token.kind == "word":
            wanted += f' ({token.text} is an operator; a stream of that name is stream("{token.text}"))'
        self.fail(wanted)

    def some(self) -> Formula:
        self.expect("(")
        at = self.now.at
        of = self.within(False)
        self.expect(")")
        try:
            return any_(of)
        except UsageError as error:
            self.complain("a condition on the events of one push", str(error), at)

    def before(self) -> Term:
        token = self.now
        of = self.primary() if token.kind in ("name", *KINDS) else None
        if not isinstance(of, Ref) or not of.path:
            self.complain("the value of a stream after Y, as in x.value >= Y x.value", repr(token.text), token.at)
        return Before(of)
