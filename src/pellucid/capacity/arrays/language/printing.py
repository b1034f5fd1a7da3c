"""Systems as text in Cubicle's language; reading it back gives the same system."""

from __future__ import annotations

from fractions import Fraction

from pellucid.capacity.arrays.language import system as y
from pellucid.errors import UsageError

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
