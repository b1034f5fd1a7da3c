"""Texts that are awkward in Unicode, and random functions of them, as the text of a lambda."""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

from hypothesis import strategies as st

TEXTS = [
    "", "a", "AbC,d", "x y", " 7 ", "-3", "1_000", "a,b,c", "ß", "İ", "ı", "ǆ", "e\u0301", "é", "𝔘x", "٣", "１２", "ﬁn",
    "\u1c90", "Σς", "²", "\u2028line", "tab\tx", "C1", "9223372036854775808", "1e3", "nan", "0x1f", "%s", "{}",
]  # fmt: skip
NAMES = {"a": "Alpha", "ß": "sharp", "C1": "Carrier", "": "empty", "x y": "İ"}
NUMBERS = {"a": 1, "b": -5, "٣": 3, "AbC,d": 2**62}
BY_NUMBER = {0: "none", 1: "one", -3: "minus", 7: "sieben"}
PAIRS = {("a", "a"): 1, ("a", "ß"): 2, ("", "a"): 3}
CODES = {"a", "C1", "ß"}
FEW = frozenset({1, 2, 7})
SPACE: dict[str, Any] = {
    "NAMES": NAMES, "NUMBERS": NUMBERS, "BY_NUMBER": BY_NUMBER, "PAIRS": PAIRS, "CODES": CODES, "FEW": FEW,
}  # fmt: skip

texts = st.one_of(
    st.sampled_from(TEXTS),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6),
    st.text("ab,1 ß", max_size=6),
)


def made_of(source: str) -> Any:
    """The lambda of a source, which can be read again: as if it stood in a file."""
    name = f"<made {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[name] = (len(source), None, [source + "\n"], name)
    return eval(compile(source, name, "eval"), dict(SPACE))


_constants = st.sampled_from(['"a"', '"ß"', '","', '" "', '"1"', '""', '"İ"', '"ab"'])
_places = st.sampled_from(["0", "1", "2", "-1", "-2"])


def _of(strategy: Any, form: str, *others: Any) -> Any:
    return st.tuples(strategy, *others).map(lambda parts: form.format(*parts))


def _grown(inner: Any) -> Any:
    strings, numbers, truths = inner
    more_strings = st.one_of(
        *[
            _of(strings, f"{{0}}.{m}()")
            for m in ("upper", "lower", "strip", "title", "casefold", "swapcase", "capitalize")
        ],
        _of(strings, "{0}.replace({1}, {2})", _constants, strings),
        _of(strings, "({0} + {1})", strings),
        _of(strings, "{0}[{1}:{2}]", _places, _places),
        _of(strings, "{0}[::{1}]", st.sampled_from(["2", "-1"])),
        _of(strings, "{0}[{1}]", _places),
        _of(strings, "{0}[:{1}]", numbers),
        _of(strings, "{0}.split({1})[{2}]", st.sampled_from(['","', '"a"', ""]), _places),
        _of(strings, "{0}.partition({1})[{2}]", st.sampled_from(['","', '"a"']), st.sampled_from("012")),
        _of(strings, "NAMES.get({0}, {1})", _constants),
        _of(strings, "NAMES.get({0}, {1})", strings),
        _of(strings, "NAMES[{0}]"),
        _of(numbers, "BY_NUMBER.get({0}, '?')"),
        _of(numbers, "str({0})"),
        _of(strings, 'f"{{{0}}}-{{{1}}}"', numbers),
        _of(strings, 'f"{{{0}!r}}{{{1}:>4}}"', strings),
        _of(strings, '"%s|%s" % ({0}, {1})', numbers),
        _of(strings, '",".join([{0}, {1}])', strings),
        _of(strings, '" ".join({0}.split())'),
        _of(strings, '"<{{}}>".format({0})'),
        _of(strings, "{0}.zfill({1})", st.sampled_from(["0", "3", "5"])),
        _of(strings, "{0}.removeprefix({1})", strings),
        _of(strings, "({0} if {1} else {2})", truths, strings),
    )
    more_numbers = st.one_of(
        _of(strings, "len({0})"),
        _of(strings, "{0}.find({1})", strings),
        _of(strings, "{0}.index({1})", _constants),
        _of(strings, "{0}.count({1})", _constants),
        _of(strings, "int({0})"),
        _of(strings, "NUMBERS[{0}]"),
        _of(strings, "PAIRS.get(({0}, {1}), 0)", strings),
        _of(strings, "ord({0})"),
        _of(strings, '{{"a": 1, "ß": 2}}.get({0}, 0)'),
        _of(strings, '{{"a": 1, "": 3}}[{0}]'),
        _of(numbers, "({0} + {1})", numbers),
        _of(numbers, "({0} * {1})", numbers),
        _of(numbers, "({0} if {1} else {2})", truths, numbers),
    )
    more_truths = st.one_of(
        _of(strings, "{0}.startswith({1})", strings),
        _of(strings, "{0}.endswith(({1}, {2}))", strings, _constants),
        _of(strings, "({0} < {1})", strings),
        _of(strings, "({0} >= {1})", strings),
        _of(strings, "({0} == {1})", strings),
        _of(strings, "({1} in {0})", strings),
        _of(strings, "({0} in CODES)"),
        _of(strings, "({0} not in NAMES)"),
        _of(strings, '({0} in {{"a", "ß"}})'),
        _of(numbers, "({0} in FEW)"),
        *[_of(strings, f"{{0}}.{m}()") for m in ("isdigit", "isalpha", "isupper", "isspace", "isdecimal", "isascii")],
        _of(truths, "({0} and {1})", truths),
        _of(truths, "(not {0})"),
    )
    return st.one_of(strings, more_strings), st.one_of(numbers, more_numbers), st.one_of(truths, more_truths)


_levels = (st.one_of(st.sampled_from(["s", "t"]), _constants), st.sampled_from(["n", "1", "7"]), st.just("(s == t)"))
for _ in range(2):
    _levels = _grown(_levels)


#: A lambda of two texts and a number.
def _is_python(source: str) -> bool:
    """Not a quote within an f-string of such quotes, which Python takes from 3.12 on."""
    try:
        compile(source, "<made>", "eval")
    except SyntaxError:
        return False
    return True


functions = st.one_of(*_levels).map(lambda body: f"lambda s, t, n: {body}").filter(_is_python)
