"""The grammar of Cubicle's language, for lark; what a name means is found out in `reading`.

A quantifier or a ``let`` reaches as far to the right as it can (a shift wins over a reduce), ``not`` binds tightest,
then ``&&``, ``||``, then ``=>`` and ``<=>``, all to the right; the last branch of an ``if`` is as tight as an operand
of ``not``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from pellucid.capacity.arrays import system as y
from pellucid.errors import UsageError, nearest
from pellucid.internal.base.languages import caret, parsed
from pellucid.internal.model import on_time

if TYPE_CHECKING:
    from lark import Token, Tree

__all__ = ["caret", "read_text", "without_comments"]

GRAMMAR = r"""
start: declaration*

declaration: "number_procs" INT                                                -> size
    | "type" LIDENT                                                            -> abstract
    | "type" LIDENT "=" "|"? MIDENT ("|" MIDENT)*                              -> enumeration
    | "const" MIDENT ":" LIDENT                                                -> constant
    | "var" MIDENT ":" LIDENT                                                  -> variable
    | "array" MIDENT "[" LIDENT ("," LIDENT)* "]" ":" LIDENT                   -> array
    | "predicate" LIDENT "(" [LIDENT ("," LIDENT)*] ")" "{" expr "}"           -> predicate
    | "init" binders "{" expr "}"                                              -> init
    | "unsafe" binders "{" expr "}"                                            -> unsafe
    | "invariant" binders "{" expr "}"                                         -> invariant
    | "transition" (LIDENT|MIDENT) "(" LIDENT* ")" requires "{" body "}"       -> transition

binders: ("(" LIDENT* ")")?
requires: (("requires" | "require") "{" expr "}")?
?body: "let" LIDENT "=" term "in" body                                         -> local_name
    | updates
updates: (update (";" update)* ";"?)?
update: target ":=" term                                                       -> assign
    | target ":=" "case" case+                                                 -> cases
    | target ":=" ("." | "?")                                                  -> anything
target: MIDENT ("[" process ("," process)* "]")?
case: "|" expr ":" term                                                        -> when
    | "|" "_" ":" term                                                         -> otherwise

?expr: either "=>" expr                                                        -> implies
    | either "<=>" expr                                                        -> iff
    | either
?either: both ("||" both)*                                                     -> or_
?both: operand ("&&" operand)*                                                 -> and_
?operand: "not" operand                                                        -> not_
    | "if" expr "then" expr "else" operand                                     -> ite
    | "forall" LIDENT ("<>" LIDENT)* "." expr                                  -> forall
    | "exists" LIDENT ("<>" LIDENT)* "." expr                                  -> exists
    | "forall_other" LIDENT "." expr                                           -> forall_other
    | "exists_other" LIDENT "." expr                                           -> exists_other
    | "let" LIDENT "=" term "in" expr                                          -> let
    | "(" expr ")"
    | "true"                                                                   -> true
    | "false"                                                                  -> false
    | term COMPARE term                                                        -> compare
    | term "=" term                                                            -> equal
    | LIDENT "(" [argument ("," argument)*] ")"                                -> call
?argument: term | expr
term: minus? product (sign product)*
?sign: "+" -> plus
    | minus
minus: "-"
product: number "*" MIDENT                                                     -> times
    | MIDENT "*" number                                                        -> times
    | number                                                                   -> just
    | MIDENT                                                                   -> name
    | MIDENT "[" process ("," process)* "]"                                    -> access
    | LIDENT                                                                   -> local
    | CERTAIN                                                                  -> certain
process: LIDENT | CERTAIN
number: INT | REAL

COMPARE: "<=" | ">=" | "<>" | "<" | ">"
MIDENT: /[A-Z][a-zA-Z0-9_]*/
LIDENT: /[a-z][a-zA-Z0-9_]*/
CERTAIN: /#[1-9][0-9]*/
REAL.2: /[0-9]+\.[0-9]*/
INT: /[0-9]+/
%ignore /[ \t\r\n]+/
"""


# Cubicle's language, read: text becomes a `System`; a mistake is reported with its line, column and a caret.
#
# The grammar is in `grammar`.  Predicates and ``let`` are put in where they are used.  Each name is looked up and each
# comparison has its types checked here, so that everything behind this module can rely on them.

MOST_DIMENSIONS = 2


DEEPEST, LARGEST = 100, 100_000  # of formulas: Python's own recursion ends at about a thousand calls
DIGITS, CERTAIN = 15, 8  # of a number, which has to fit into 64 bits with room to add; the last process by number


def without_comments(text: str, name: str = "") -> str:
    """Comments, which may stand in comments, as spaces: everything else keeps its place.

    >>> without_comments("a (* b (* c *) *) d")
    'a                 d'
    """
    out, depth, at, opened = list[str](), 0, 0, 0
    for mark in re.finditer(r"\(\*|\*\)", text):
        on_time()
        if mark[0] == "*)" and not depth:
            continue
        between = text[at : mark.start()]
        out.append(between if not depth else re.sub(r"[^\n]", " ", between))
        opened = mark.start() if depth == 0 else opened
        depth += 1 if mark[0] == "(*" else -1
        out.append("  ")
        at = mark.end()
    if depth:
        line = text.count("\n", 0, opened) + 1
        column = opened - text.rfind("\n", 0, opened)
        raise caret(text, line, column, "this comment does not end: a `*)` is missing", name)
    return "".join(out) + text[at:]


_WORDS = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "SEMICOLON": ";", "COLON": ":",
    "EQUAL": "=", "COMMA": ",", "DOT": ".", "VBAR": "|", "PLUS": "+", "MINUS": "-", "STAR": "*", "QMARK": "?",
    "INT": "a number", "REAL": "", "MIDENT": "a Name", "LIDENT": "a name", "CERTAIN": "", "COMPARE": "a comparison",
    "$END": "the end", "__ANON_0": ":=", "__ANON_1": "=>", "__ANON_2": "<=>", "__ANON_3": "||", "__ANON_4": "&&",
    "__ANON_5": "<>", "UNDERSCORE": "_", "_": "_",
}  # fmt: skip


def read_text(text: str, name: str = "") -> y.System:
    """A system from its text.

    >>> system = read_text('''
    ... type state = Idle | Busy
    ... array S[proc] : state
    ... init (z) { S[z] = Idle }
    ... unsafe (x y) { S[x] = Busy && S[y] = Busy }
    ... transition go (x) requires { S[x] = Idle && forall_other y. S[y] = Idle } { S[x] := Busy }
    ... ''')
    >>> system.transitions[0].parameters
    ('x',)
    >>> read_text("array S[proc] : state")
    Traceback (most recent call last):
        ...
    pellucid.errors.DataError: line 1, column 17: there is no type state: there are bool, int, real, proc
      array S[proc] : state
                      ^
    """
    plain = without_comments(text, name)
    tree = parsed(plain, GRAMMAR, "a system in Cubicle's language", words=_WORDS, name=name, shown=text, look=on_time)
    return _Reader(text, name).system(tree)


class _Reader:
    """What names mean while a text is read."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.types: dict[str, tuple[str, ...]] = {"bool": ("False", "True")}
        self.constructors = {"False": "bool", "True": "bool"}
        self.symbols: dict[str, tuple[int, str]] = {}
        self.fixed: set[str] = set()
        self.predicates: dict[str, tuple[list[str], Any]] = {}
        self.size: int | None = None
        self.inside: list[str] = []  # predicates that are just being put in
        self.deep = self.made = 0

    def no(self, at: Token | Tree[Any], message: str) -> NoReturn:
        where: Any = at if hasattr(at, "column") else getattr(at, "meta", at)
        raise caret(self.text, getattr(where, "line", 1), getattr(where, "column", 1), message, self.name)

    # declarations

    def system(self, tree: Tree[Any]) -> y.System:
        order: dict[str, list[Any]] = {"const": [], "var": [], "array": []}
        for d in tree.children:
            self.declare(d, order)
        found: dict[str, list[Any]] = {"init": [], "unsafe": [], "invariant": [], "transition": []}
        for d in tree.children:
            if d.data in ("init", "unsafe", "invariant"):
                found[d.data].append(self.states(d))
            elif d.data == "transition":
                found["transition"].append(self.transition(d))
        if len(found["init"]) != 1:
            last = tree.children[-1] if tree.children else tree
            self.no(
                last,
                "one `init` is needed: the states before the first step" if not found["init"] else "a second `init`",
            )
        if not found["unsafe"]:
            self.no(tree.children[-1], "an `unsafe` is needed: what must not be reached")
        return y.System(
            tuple((n, c) for n, c in self.types.items() if n != "bool"),
            tuple(order["const"]), tuple(order["var"]), tuple(order["array"]),
            found["init"][0], tuple(found["unsafe"]), tuple(found["invariant"]), tuple(found["transition"]),
            self.size, self.text,
        )  # fmt: skip

    def declare(self, d: Tree[Any], order: dict[str, list[Any]]) -> None:
        first: Any = d.children[0] if d.children else None
        if d.data == "size":
            self.size = int(self.number(first))
        elif d.data in ("abstract", "enumeration"):
            if str(first) in self.types or str(first) in (*y.NUMBERS, "proc"):
                self.no(first, f"the type {first} is declared twice")
            for c in d.children[1:]:
                if str(c) in self.constructors:
                    self.no(c, f"{c} is a value of the type {self.constructors[str(c)]} already")
                self.constructors[str(c)] = str(first)
            self.types[str(first)] = tuple(map(str, d.children[1:]))
        elif d.data in ("constant", "variable", "array"):
            of: Any = d.children[-1]
            if str(of) not in self.types and str(of) not in (*y.NUMBERS, "proc"):
                known = [*self.types, "int", "real", "proc"]
                there = ", ".join(["bool", "int", "real", "proc", *(t for t in self.types if t != "bool")])
                self.no(of, f"there is no type {of}{nearest(of, known).rstrip('.') or f': there are {there}'}")
            if str(first) in self.symbols or str(first) in self.constructors:
                self.no(first, f"the name {first} is declared twice")
            indices = d.children[1:-1]
            for i in indices:
                if str(i) != "proc":
                    self.no(i, f"an array is indexed by processes (proc), not by {i}: this is not supported")
            if len(indices) > MOST_DIMENSIONS:
                self.no(indices[-1], f"arrays of more than {MOST_DIMENSIONS} dimensions are not supported")
            self.symbols[str(first)] = (len(indices), str(of))
            if d.data == "array":
                order["array"].append((str(first), len(indices), str(of)))
            else:
                order["const" if d.data == "constant" else "var"].append((str(first), str(of)))
                if d.data == "constant":
                    self.fixed.add(str(first))
        elif d.data == "predicate":
            self.predicates[str(first)] = ([str(c) for c in d.children[1:-1]], d.children[-1])

    def binders(self, names: list[Any]) -> tuple[str, ...]:
        for i, n in enumerate(names):
            if str(n) in map(str, names[:i]):
                self.no(n, f"{n} stands there twice")
        return tuple(map(str, names))

    def states(self, d: Tree[Any]) -> y.States:
        names = self.binders(d.children[0].children)
        formula = self.formula(d.children[1], {n: (y.Process(n), "proc") for n in names})
        kinds = "forall" if d.data == "init" else "exists"
        _refuse_quantifiers(self, formula, d, kinds)
        return y.States(names, formula, d.meta.line)

    def transition(self, d: Tree[Any]) -> y.Transition:
        title, *names, requires, body = d.children
        parameters = self.binders(names)
        scope: dict[str, tuple[y.Term, str]] = {n: (y.Process(n), "proc") for n in parameters}
        guard = self.formula(requires.children[0], scope) if requires.children else y.Truth(True)
        _refuse_quantifiers(self, guard, d, "a guard")
        while body.data == "local_name":
            local, term, body = body.children
            scope[str(local)] = self.term(term, scope)
        updates = []
        for u in body.children:
            updates.append(self.update(u, scope, parameters))
            if any(updates[-1].name == before.name for before in updates[:-1]):
                self.no(u, f"{updates[-1].name} is assigned twice in one transition: use `case`")
        return y.Transition(str(title), parameters, guard, tuple(updates), d.meta.line)

    def update(self, u: Tree[Any], scope: Mapping[str, tuple[y.Term, str]], parameters: tuple[str, ...]) -> y.Update:
        target = u.children[0]
        name: Any = target.children[0]
        places = target.children[1:]
        if str(name) not in self.symbols:
            self.no(name, f"there is no variable or array {name}{nearest(name, list(self.symbols)).rstrip('.')}")
        if str(name) in self.fixed:
            self.no(name, f"{name} is a constant: it never changes")
        arity, of = self.symbols[str(name)]
        if len(places) != arity:
            self.no(name, f"{name} has {arity} indices, not {len(places)}")
        if u.data == "cases":
            fresh = self.binders([p.children[0] for p in places])
            for p, n in zip(places, fresh, strict=True):
                if n.startswith("#") or n in parameters:
                    self.no(p, f"{n} is a process already: with `case` the index is a new name that stands for all")
            inner = {**scope, **{n: (y.Process(n), "proc") for n in fresh}}
            cases: list[tuple[y.Formula, y.Term]] = []
            for i, c in enumerate(u.children[1:]):
                if (c.data == "otherwise") != (i == len(u.children) - 2):
                    self.no(c, "the last case, and no other, is `| _ : …`")
                condition = y.Truth(True) if c.data == "otherwise" else self.formula(c.children[0], inner)
                _refuse_quantifiers(self, condition, c, "a case")
                cases.append((condition, self.value(c.children[-1], inner, of)))
            return y.Update(str(name), fresh, y.Cases(tuple(cases)), u.meta.line)
        indices = tuple(self.process(p, scope) for p in places)
        value = y.Anything() if u.data == "anything" else self.value(u.children[1], scope, of)
        return y.Update(str(name), indices, value, u.meta.line)

    # terms

    def process(self, p: Tree[Any], scope: Mapping[str, tuple[y.Term, str]]) -> str:
        name: Any = p.children[0]
        if str(name).startswith("#"):
            return self.certain(name)
        found = scope.get(str(name))
        if found is None:
            self.no(name, f"{name} is no process here{nearest(name, list(scope)).rstrip('.')}")
        if not isinstance(found[0], y.Process):
            self.no(name, f"an index is a process, and {name} is another term here: this is not supported")
        return found[0].name

    def certain(self, token: Any) -> str:
        if len(token) > 3 or int(token[1:]) > CERTAIN:
            self.no(token, f"certain processes are #1 to #{CERTAIN}, not {token}")
        return str(token)

    def value(self, t: Tree[Any], scope: Mapping[str, tuple[y.Term, str]], of: str) -> y.Term:
        term, kind = self.term(t, scope)
        if kind != of and not (kind == "int" and isinstance(term, y.Number) and of == "real"):
            self.no(t, f"a value of type {of} is needed, and this is of type {kind}")
        return y.Number(term.value, True) if isinstance(term, y.Number) and of == "real" else term

    def term(self, t: Tree[Any], scope: Mapping[str, tuple[y.Term, str]]) -> tuple[y.Term, str]:
        sign, parts = Fraction(1), list[tuple[Fraction, y.Term, str, Any]]()
        for child in t.children:
            if child.data in ("plus", "minus"):
                sign = Fraction(-1 if child.data == "minus" else 1)
            else:
                factor, term, kind = self.product(child, scope)
                parts.append((sign * factor, term, kind, child))
                sign = Fraction(1)
        if len(parts) == 1 and parts[0][0] == 1:
            return parts[0][1], parts[0][2]
        total, cells, kinds = Fraction(0), dict[y.Cell, Fraction](), set[str]()
        for factor, term, kind, child in parts:
            if kind not in y.NUMBERS:
                self.no(child, f"only numbers are added, and this is of type {kind}")
            kinds.add(kind)
            for f, c in (
                term.parts if isinstance(term, y.Sum) else [(Fraction(1), term)] if isinstance(term, y.Cell) else []
            ):
                cells[c] = cells.get(c, Fraction(0)) + factor * f
            total += factor * (
                term.value if isinstance(term, y.Number) else term.constant if isinstance(term, y.Sum) else 0
            )
        real = "real" in kinds
        named = {self.symbols[c.name][1] for c in cells}
        if len(named) > 1:
            self.no(t, "int and real are not added")
        kept = tuple((f, c) for c, f in cells.items() if f)
        of = "real" if real else "int"
        if not kept:
            return y.Number(total, real), of
        return (kept[0][1] if kept[0][0] == 1 and len(kept) == 1 and not total else y.Sum(kept, total)), of

    def product(self, p: Tree[Any], scope: Mapping[str, tuple[y.Term, str]]) -> tuple[Fraction, y.Term, str]:
        one = Fraction(1)
        first: Any = p.children[0]
        if p.data == "just":
            real = first.children[0].type == "REAL"
            return one, y.Number(self.number(first.children[0]), real), "real" if real else "int"
        if p.data == "times":
            other: Any = p.children[1]
            number, name = (first, other) if hasattr(first, "children") else (other, first)
            return self.number(number.children[0]), *self.symbol(name, ())
        if p.data == "certain":
            return one, y.Process(self.certain(first)), "proc"
        if p.data == "local":
            if str(first) not in scope:
                self.no(first, f"{first} is nothing here{nearest(first, list(scope)).rstrip('.')}")
            return one, *scope[str(first)]
        if p.data == "name" and str(first) in self.constructors:
            return one, y.Value(str(first)), self.constructors[str(first)]
        return one, *self.symbol(first, tuple(self.process(c, scope) for c in p.children[1:]))

    def number(self, token: Any) -> Fraction:
        if len(token) > DIGITS:
            self.no(token, f"a number of {len(token):,} digits: {DIGITS} are the most")
        return Fraction(str(token).rstrip("."))

    def symbol(self, name: Any, indices: tuple[str, ...]) -> tuple[y.Term, str]:
        if str(name) not in self.symbols:
            known = [*self.symbols, *self.constructors]
            self.no(name, f"there is nothing called {name}{nearest(name, known).rstrip('.')}")
        arity, of = self.symbols[str(name)]
        if arity != len(indices):
            self.no(name, f"{name} has {arity} indices, not {len(indices)}")
        return y.Cell(str(name), indices), of

    # formulas

    def formula(self, f: Any, scope: Mapping[str, tuple[y.Term, str]]) -> y.Formula:
        while f.data in ("and_", "or_") and len(f.children) == 1:  # parentheses
            f = f.children[0]
        self.made += 1
        on_time()
        if self.deep == DEEPEST:
            self.no(f, f"formulas in formulas are read {DEEPEST} deep, and this is deeper")
        if self.made > LARGEST:
            self.no(f, f"with its predicates put in, the system has more than {LARGEST:,} formulas: too many")
        self.deep += 1
        found = self._formula(f, scope)
        self.deep -= 1
        return found

    def _formula(self, f: Any, scope: Mapping[str, tuple[y.Term, str]]) -> y.Formula:
        kind, parts = str(f.data), f.children
        match kind:
            case "true" | "false":
                return y.Truth(kind == "true")
            case "compare" | "equal":
                return self.compare(f, scope)
            case "not_":
                return y.Not(self.formula(parts[0], scope))
            case "and_":
                return y.And(tuple(self.formula(p, scope) for p in parts))
            case "or_":
                return y.Or(tuple(self.formula(p, scope) for p in parts))
            case "implies":
                return y.Implies(self.formula(parts[0], scope), self.formula(parts[1], scope))
            case "iff":
                return y.Iff(self.formula(parts[0], scope), self.formula(parts[1], scope))
            case "ite":
                return y.If(*(self.formula(p, scope) for p in parts))
            case "forall" | "exists" | "forall_other" | "exists_other":
                names = tuple(_fresh(n, scope) for n in self.binders(parts[:-1]))
                bound = {str(n): (y.Process(new), "proc") for n, new in zip(parts, names, strict=False)}
                inner = {**scope, **bound}
                word: Any = kind.removesuffix("_other")
                return y.Quantified(word, kind.endswith("_other"), names, self.formula(parts[-1], inner))
            case "let":
                return self.formula(parts[2], {**scope, str(parts[0]): self.term(parts[1], scope)})
            case "call":
                return self.call(f, scope)
            case _:
                self.no(f, "a formula is needed here, and this is a term")

    def call(self, f: Any, scope: Mapping[str, tuple[y.Term, str]]) -> y.Formula:
        name, *given = f.children
        if str(name) not in self.predicates:
            self.no(name, f"there is no predicate {name}{nearest(name, list(self.predicates)).rstrip('.')}")
        names, body = self.predicates[str(name)]
        if len(names) != len(given):
            self.no(name, f"{name} takes {len(names)} terms, not {len(given)}")
        for g in given:
            if g.data != "term":
                self.no(g, "a formula as the argument of a predicate is not supported: a term is")
        if str(name) in self.inside:
            self.no(name, f"the predicate {name} is made of itself")
        self.inside.append(str(name))
        found = self.formula(body, {n: self.term(g, scope) for n, g in zip(names, given, strict=True)})
        self.inside.pop()
        return found

    def compare(self, f: Any, scope: Mapping[str, tuple[y.Term, str]]) -> y.Formula:
        left, right = f.children[0], f.children[-1]
        op: Any = "=" if f.data == "equal" else str(f.children[1])
        (a, of_a), (b, of_b) = self.term(left, scope), self.term(right, scope)
        if of_a != of_b:
            if isinstance(b, y.Number) and of_a in ("real", "proc") and of_b == "int":
                b = y.Number(b.value, of_a == "real")
            elif isinstance(a, y.Number) and of_b in ("real", "proc") and of_a == "int":
                a = y.Number(a.value, of_b == "real")
            else:
                self.no(f, f"{of_a} is compared with {of_b}")
        if op not in ("=", "<>") and of_a not in (*y.NUMBERS, "proc"):
            self.no(f, f"values of type {of_a} have no order")
        return y.Compare(op, a, b)


def _fresh(name: str, scope: Mapping[str, tuple[y.Term, str]]) -> str:
    """A name for a new process: the one in the text, unless a term that stands for another name speaks of a process of
    that name already."""
    used = {p for known, (term, _) in scope.items() if known != name for p in y.processes_of(term)}
    found, count = name, 1
    while found in used:
        count += 1
        found = f"{name}_{count}"
    return found


def _refuse_quantifiers(reader: _Reader, formula: y.Formula, at: Any, where: str, negative: bool = False) -> None:
    """Which quantifiers a place may have: an ``init`` for all, an ``unsafe`` for some, a guard for all others."""
    match formula:
        case y.Not(part):
            _refuse_quantifiers(reader, part, at, where, not negative)
        case y.And(parts) | y.Or(parts):
            for part in parts:
                _refuse_quantifiers(reader, part, at, where, negative)
        case y.Implies(a, b):
            _refuse_quantifiers(reader, a, at, where, not negative)
            _refuse_quantifiers(reader, b, at, where, negative)
        case y.Iff(a, b):
            for part in (a, b):
                for sign in (False, True):
                    _refuse_quantifiers(reader, part, at, where, sign)
        case y.If(a, b, c):
            for sign in (False, True):
                _refuse_quantifiers(reader, a, at, where, sign)
            _refuse_quantifiers(reader, b, at, where, negative)
            _refuse_quantifiers(reader, c, at, where, negative)
        case y.Quantified(kind, other, _, part):
            means = kind if not negative else {"forall": "exists", "exists": "forall"}[kind]
            if where == "a guard" and means == "forall" and len(formula.names) == 1:
                _refuse_quantifiers(reader, part, at, "a quantifier", negative)
            elif means != where or other:
                word = f"{kind}{'_other' if other else ''}"
                place = {"forall": "`init`", "exists": "`unsafe` or `invariant`"}.get(where, where)
                more = " over several processes" if where == "a guard" and means == "forall" else ""
                reader.no(at, f"a `{word}`{more} in {place} is not supported")
            else:
                _refuse_quantifiers(reader, part, at, where, negative)
        case _:
            pass


# Systems as text in Cubicle's language; reading it back gives the same system.

_TIGHT, _AND, _OR, _LOOSE = 3, 2, 1, 0


def number(value: Fraction, real: bool) -> str:
    """A number as Cubicle writes it: a real one has a point.

    >>> number(Fraction(4, 5), True), number(Fraction(3), False)
    ('0.8', '3')
    """
    if not real:
        if value.denominator != 1:
            raise UsageError(f"{value} is not a whole number: a variable of type int cannot be compared with it.")
        return str(value)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
        if digits > 60:
            raise UsageError(f"{value} has no end as a decimal, which is all that Cubicle writes: multiply all times.")
    whole = abs(value * 10**digits).numerator
    text = str(whole).rjust(digits + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{text[: len(text) - digits]}.{text[len(text) - digits :] or '0'}"


def term_text(term: y.Term, system: y.System | None = None) -> str:
    """A term.

    >>> term_text(y.Sum(((Fraction(1), y.Cell("X", ("i",))),), Fraction(-2)))
    'X[i] - 2'
    """
    match term:
        case y.Number(value, real):
            return number(value, real)
        case y.Value(name) | y.Process(name):
            return name
        case y.Cell(name, indices):
            return f"{name}[{','.join(indices)}]" if indices else name
        case y.Sum(parts, constant):
            real = system is not None and system.type_of(parts[0][1].name) == "real"
            out = ""
            for factor, cell in parts:
                sign = ("-" if factor < 0 else "") if not out else (" - " if factor < 0 else " + ")
                times = "" if abs(factor) == 1 else f"{number(abs(factor), abs(factor).denominator != 1)} * "
                out += sign + times + term_text(cell)
            if constant:
                out += (" - " if constant < 0 else " + ") + number(abs(constant), real or constant.denominator != 1)
            return out


def formula_text(formula: y.Formula, system: y.System | None = None, loose: int = _LOOSE) -> str:
    """A formula, with parentheses where they are needed."""
    text, tight = _formula(formula, system)
    return text if tight >= loose else f"({text})"


def _formula(formula: y.Formula, system: y.System | None) -> tuple[str, int]:
    match formula:
        case y.Truth(holds):
            return "true" if holds else "false", _TIGHT
        case y.Compare(op, left, right):
            return f"{term_text(left, system)} {op} {term_text(right, system)}", _TIGHT
        case y.Not(part):
            return f"not ({formula_text(part, system)})", _TIGHT
        case y.And(parts):
            return " && ".join(formula_text(p, system, _TIGHT) for p in parts) or "true", _AND
        case y.Or(parts):
            return " || ".join(
                formula_text(p, system, _AND if not isinstance(p, y.Or) else _TIGHT) for p in parts
            ) or "false", _OR
        case y.Implies(left, right):
            return f"{formula_text(left, system, _OR)} => {formula_text(right, system, _OR)}", _LOOSE
        case y.Iff(left, right):
            return f"{formula_text(left, system, _OR)} <=> {formula_text(right, system, _OR)}", _LOOSE
        case y.If(condition, then, other):
            words = (formula_text(p, system) for p in (condition, then))
            return f"if {' then '.join(words)} else ({formula_text(other, system)})", _LOOSE
        case y.Quantified(kind, other, names, part):
            word = f"{kind}_other" if other else kind
            return f"{word} {' <> '.join(names)}. ({formula_text(part, system)})", _LOOSE


def _states(word: str, states: y.States, system: y.System) -> str:
    conjuncts = states.formula.parts if isinstance(states.formula, y.And) else (states.formula,)
    body = " &&\n  ".join(formula_text(c, system, _TIGHT) for c in conjuncts)
    return f"{word} ({' '.join(states.names)}) {{\n  {body}\n}}"


def _update(update: y.Update, system: y.System) -> str:
    target = f"{update.name}[{','.join(update.indices)}]" if update.indices else update.name
    match update.value:
        case y.Anything():
            return f"  {target} := .;"
        case y.Cases(cases):
            lines = [
                f"    | {'_' if i == len(cases) - 1 else formula_text(c, system)} : {term_text(v, system)}"
                for i, (c, v) in enumerate(cases)
            ]
            return f"  {target} := case\n" + "\n".join(lines) + ";"
        case term:
            return f"  {target} := {term_text(term, system)};"


def transition_text(t: y.Transition, system: y.System) -> str:
    """A transition."""
    guard = ""
    if t.requires != y.Truth(True):
        conjuncts = t.requires.parts if isinstance(t.requires, y.And) else (t.requires,)
        guard = "requires {\n  " + " &&\n  ".join(formula_text(c, system, _TIGHT) for c in conjuncts) + "\n}\n"
    body = "\n".join(_update(u, system) for u in t.updates)
    return f"transition {t.name} ({' '.join(t.parameters)})\n{guard}{{\n{body}\n}}"


def write_text(system: y.System) -> str:
    """A system as text that Cubicle reads.

    >>> from pellucid.capacity.arrays import read_text
    >>> text = "var X : int init () { X = 0 } unsafe () { X > 3 } transition up () { X := X + 1 }"
    >>> read_text(write_text(read_text(text))) == read_text(text)
    True
    """
    out = [f"number_procs {system.processes}"] if system.processes is not None else []
    out += [f"type {name} = {' | '.join(values)}" if values else f"type {name}" for name, values in system.types]
    out += [f"const {name} : {of}" for name, of in system.constants]
    out += [f"var {name} : {of}" for name, of in system.variables]
    out += [f"array {name}[{','.join(['proc'] * count)}] : {of}" for name, count, of in system.arrays]
    blocks = [_states("init", system.init, system)]
    blocks += [_states("invariant", s, system) for s in system.invariants]
    blocks += [_states("unsafe", s, system) for s in system.unsafe]
    blocks += [transition_text(t, system) for t in system.transitions]
    return "\n".join(out) + "\n\n" + "\n\n".join(blocks) + "\n"
