"""Functions that look inside text, as engines run them: what Python itself answers, and fails where Python fails."""

from __future__ import annotations

import enum
import itertools
import linecache
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pellucid import pipeline
from pellucid.errors import PipelineError, StepError
from pellucid.internal.expr import node as n
from pellucid.internal.expr.codegen import Inner, lowered
from pellucid.internal.expr.evaluate import UserRaise, evaluate_call
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.node import Overflow64, walk
from pellucid.internal.expr.rewrite import TEXT_OPS, concat, order_of_text
from pellucid.internal.expr.tracing.trace import trace
from pellucid.internal.expr.types import FLOAT, INT, STR, TupleType, Type
from tests.expr.compare import Compiled
from tests.expr.written import BY_NUMBER, CODES, NAMES, NUMBERS, PAIRS, SPACE, TEXTS, source_of, text_function
from tests.seeds import HUNT, seeds


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass(frozen=True)
class Airline:
    name: str
    founded: int
    side: Side


LINES = {"a": Airline("Alpha", 1930, Side.BUY), "ß": Airline("Sharp", 1950, Side.SELL), "": Airline("", 0, Side.BUY)}
SIDES = {"a": Side.BUY, "b": Side.SELL, "": Side.SELL}
MIXED = {"a": 1, "b": 2.5, "": True}
NESTED = {"a": {"b": 1, "a": 2}, "ß": {"": 3}}
SOMETIMES = {"a": "x", "b": None, "": "y"}
STEPS = {"a": lambda v: v + 1, "": lambda v: v * 2}


def two_of(s: str) -> str:
    first, second = s.split(",")
    return second + first


def counted(s: str) -> int:
    return len(s.split()) + len(s.splitlines())


def optional(s: str) -> str:
    found = SOMETIMES.get(s)
    if found is None:
        return "none"
    return found


def matched(s: str) -> int:
    match s.lower():
        case "a":
            return 1
        case "x y" | "ab":
            return 2
    return 0


METHODS = [
    "upper", "lower", "title", "capitalize", "casefold", "swapcase", "strip", "lstrip", "rstrip", "isalnum", "isalpha",
    "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle",
    "isupper", "expandtabs",
]  # fmt: skip
ONE: list[Callable[[str], Any]] = [
    *[eval(f"lambda s: s.{name}()") for name in METHODS],
    lambda s: s.strip("a,"),
    lambda s: s.replace("a", "", 1),
    lambda s: s.rfind("a"),
    lambda s: s.rindex(","),
    lambda s: s.find("a", 1),
    lambda s: s.startswith(("a", "x"), 1),
    lambda s: s.removesuffix("c"),
    lambda s: s.center(9, "*"),
    lambda s: s.ljust(5) + "|",
    lambda s: s.rjust(5, "ß"),
    lambda s: s[1:],
    lambda s: s[-2:],
    lambda s: s[1:3].upper() == "BC",
    lambda s: "x" + s + s,
    lambda s: 2 * s,
    lambda s: s.split(",", 1)[-1],
    lambda s: len(s.split(",")),
    lambda s: "b" in s.split(","),
    lambda s: s.rsplit(",", maxsplit=1)[0],
    lambda s: s.partition(","),
    lambda s: s.rpartition("b")[2],
    lambda s: float(s),
    lambda s: int(s, 16),
    lambda s: int(s) % 7,
    lambda s: float(s) * 2,
    lambda s: repr(s),
    lambda s: ascii(s),
    lambda s: "a" <= s < "z",
    lambda s: max(s, "m"),
    lambda s: NUMBERS[s.strip()] + 1,
    lambda s: LINES[s].founded + len(LINES[s].name),
    lambda s: LINES[s],
    lambda s: LINES[s].side is Side.BUY,
    lambda s: SIDES[s],
    lambda s: MIXED[s],
    lambda s: NESTED[s]["a"],
    lambda s: NESTED["a"][s],
    lambda s: STEPS[s](len(s)),
    lambda s: BY_NUMBER.get(len(s), "many"),
    lambda s: s % () + "!",
    lambda s: s.join(["a", "b"]),
    lambda s: s.lower().upper().strip() or "empty",
    two_of,
    counted,
    optional,
    matched,
]

TWO: list[Callable[[str, str], Any]] = [
    lambda s, t: s <= t,
    lambda s, t: s + "-" + t + "-" + s.upper(),
    lambda s, t: PAIRS[(s, t)],
    lambda s, t: s.split(t)[0],
    lambda s, t: min(s, t),
    lambda s, t: s.upper() == t.upper(),
    lambda s, t: t.join([s, s]),
    lambda s, t: s if len(s) > len(t) else t[::-1],
]

K = 3
DAYS = ["mon", "tue", "wed"]
SHARES = (0.5, 0.25, 0.125)


def worded(s: str, n: int) -> str:
    if n > 6:
        raise ValueError(f"{n} is too much for {s!r}")
    parts = s.split(",")
    return f"{s:>{K}}|{n:+d}|{len(parts)}" + "/".join(parts)


WORDED: list[Callable[[str, int], Any]] = [
    lambda s, n: f"{s}-{n:03d}!",
    lambda s, n: f"{s!r}{n!s:>4}{K}",
    lambda s, n: f"{n / 4:.2f}",
    lambda s, n: f"{s:d}",
    lambda s, n: {"abc": n, "7": 2}["7"] + len(s + "x"),
    lambda s, n: {0: "no", 1: "one", 7: "some"}[n],
    lambda s, n: s.upper() in {"ABC", "7"},
    lambda s, n: DAYS[n] + s,
    lambda s, n: SHARES[n],
    lambda s, n: DAYS[len(s) % 3] if s else DAYS[-1],
    lambda s, n: ("a", "b")[n],
    lambda s, n: [len(s), 7, s.count("a")][1] + len(s),
    lambda s, n: "%s=%d" % (s, n),  # noqa: UP031
    lambda s, n: "%5s" % s,  # noqa: UP031
    lambda s, n: ", ".join([s, str(n), "x"]),
    lambda s, n: "".join(t for t in (s, s.upper())),
    lambda s, n: "{}:{:>4}".format(s, n),  # noqa: UP032
    worded,
]

NUMERIC: list[Callable[[str, int], Any]] = [
    lambda s, n: s[n],
    lambda s, n: s * min(max(n, 0), 3),
    lambda s, n: n * int(s),
    lambda s, n: BY_NUMBER[n],
    lambda s, n: n in BY_NUMBER,
    lambda s, n: n in {1, 2, 7},
    lambda s, n: hex(n),
    lambda s, n: chr(n),
    lambda s, n: format(n, ">5"),
    lambda s, n: s.zfill(min(n, 9)),
    lambda s, n: math.gcd(n, 12),
    lambda s, n: str(n)[::-1].strip("0"),
    lambda s, n: s % n,
]


def called(fn: Function, *args: Any) -> str:
    """What the plain function gives, in the meaning of engines."""
    try:
        return repr(fn.call(*args))
    except Overflow64:
        return "overflow"
    except ValueError as error:
        return "overflow" if "64 bits" in str(error) else "raise"
    except Exception:
        return "raise"


def evaluated(fn: Function, *args: Any) -> str:
    assert fn.runs is not None
    try:
        return repr(evaluate_call(fn.runs, args))
    except Overflow64:
        return "overflow"
    except (UserRaise, Exception):
        return "raise"


def coded(run: Compiled, *args: Any) -> str:
    got = run(args)
    return got[1] if got[0] == "value" else got[0]


def agree(fn: Function, run: Compiled, *args: Any) -> None:
    """A failure is a failure: where two things fail at once, a trace may come to the other one first."""
    want, value, code = called(fn, *args), evaluated(fn, *args), coded(run, *args)
    failures = ("overflow", "raise")
    assert value == want or (value in failures and want in failures), (args, want, value)
    assert code == value or (code in failures and value in failures), (args, value, code)


def made(f: Callable[..., Any], params: tuple[Type, ...]) -> Function:
    fn = Function.make(f, params)
    assert fn.runs is not None, fn.reason
    assert not any((e.op in TEXT_OPS and e.op != "call") or order_of_text(e) for e in walk(*fn.runs.roots()))
    return fn


FEW = ["", "abc", "7", "ß%d", "a,b", "{}"]
EDGES = [0, 1, 2, -1, -3, 7, 65, 2**62, -(2**63)]
#: Functions, the types of their arguments, and what they are called with.
TABLES: dict[str, tuple[list[Callable[..., Any]], tuple[Type, ...], list[tuple[Any, ...]]]] = {
    "one text": (ONE, (STR,), [(s,) for s in [*TEXTS, "ab", "b", "a b\nc"]]),
    "two texts": (TWO, (STR, STR), [(s, t) for s in TEXTS[:16] for t in ("", "a", "ß", s, ",", "a,b")]),
    "a text and a number": (NUMERIC + WORDED, (STR, INT), list(itertools.product(FEW, EDGES))),
}


@pytest.mark.parametrize(("table", "at"), [(name, at) for name, (fs, *_) in TABLES.items() for at in range(len(fs))])
def test_each_function_on_awkward_texts(table: str, at: int) -> None:
    functions, params, rows = TABLES[table]
    fn = made(functions[at], params)
    assert table != "one text" or (fn.traced is None and fn.reason)
    run = Compiled(fn.runs, False)
    for row in rows:
        agree(fn, run, *row)


def test_a_table_of_unknown_values_stays_opaque() -> None:
    assert Function.make(lambda s, n: {"a": n, "b": 2}[s], (STR, INT), to=INT).runs is None


def test_a_function_without_its_source_stays_opaque() -> None:
    f = eval("lambda s: f'{s}!'")
    assert Function.make(f, (STR,), to=STR).runs is None
    assert source_of("lambda s: f'{s}!'", SPACE)("a") == "a!"
    made(source_of("lambda s: f'{s}!'", SPACE), (STR,))


def test_a_source_that_is_another_one_is_not_read() -> None:
    source = "lambda s: f'{s}!'"
    f = source_of(source, SPACE)
    name = f.__code__.co_filename
    linecache.cache[name] = (len(source), None, ["lambda s: f'{s}?'\n"], name)
    assert Function.make(f, (STR,), to=STR).runs is None


@pytest.mark.parametrize("half", range(2))
def test_all_of_them_compiled(half: int) -> None:
    """In one function, as it takes seconds to compile one; of those that fail on no text here."""
    params = (STR, STR, INT)
    fns = [made(lambda s, t, n, f=f: f(s), params) for f in ONE[4 * half :: 8]]
    fns += [made(lambda s, t, n, f=f: f(s, t), params) for f in TWO[2 * half :: 4]]
    fns += [made(lambda s, t, n, f=f: f(s, n), params) for f in NUMERIC[2 * half :: 4]]
    rows = [("ab,c", "b", 3), ("a", "ß", -1), ("7", "a", 1), ("x y", ",", 2), ("ß", "ß", 7)]
    good = [fn for fn in fns if all(called(fn, *row) not in ("raise", "overflow") for row in rows)]
    assert len(good) > 10
    roots = [fn.runs for fn in good if fn.runs is not None]
    outputs = tuple(e for r in roots for e in r.outputs)
    whole = type(roots[0])(params, TupleType(tuple(e.type for e in outputs)), outputs)
    run = Compiled(whole, True)
    for row in rows:
        want = [leaf for fn in good for leaf in fn.result.flatten(fn.call(*row))]  # type: ignore[union-attr]
        assert coded(run, *row) == repr(tuple(want))


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(3))
def test_random_functions(block: int) -> None:
    compared = 0
    for seed in seeds(50, block * 50):
        rng = random.Random(seed)
        text = text_function(rng)
        try:
            fn = Function.make(source_of(text, SPACE), (STR, STR, INT), to=None)
        except PipelineError as error:  # it fails whatever it is given, or calls a method of a constant
            said = ("fails on every event", "raises on every path", "it fails on a symbolic value")
            assert any(words in str(error) for words in said), text  # noqa: PT017
            continue
        if fn.runs is None:
            assert fn.reason
            continue
        compared += 1
        run = Compiled(fn.runs, False)
        for _ in range(8):
            agree(fn, run, rng.choice(TEXTS), "".join(rng.choices("ab,1 ßİ", k=rng.randrange(5))), rng.randint(-3, 9))
    assert HUNT or compared > 30, compared


# ---------------------------------------------------------------- what becomes one call


def parts(f: Callable[..., Any], *params: Type) -> list[n.Expr]:
    runs = made(f, params).runs
    assert runs is not None
    return [e for e in walk(*runs.roots()) if e.op == "call"]


def test_what_depends_on_one_text_is_one_call() -> None:
    (only,) = parts(lambda s: int(s.strip()[1:]) % 7 if s.startswith("C") and s in CODES else len(s), STR)
    assert only.args == (n.var(0, STR),)
    both = parts(lambda s, k: k + len(s) if s.isdigit() else k, STR, INT)
    assert [c.args for c in both] == [(n.var(0, STR),)] * 2


def test_what_needs_two_texts_is_a_call_of_both() -> None:
    (only,) = parts(lambda s, t: s + "-" + t + "-" + s, STR, STR)
    assert set(only.args) == {n.var(0, STR), n.var(1, STR)}


def test_the_same_part_is_the_same_function() -> None:
    one, other = (made(lambda s: s.upper() + "x", (STR,)) for _ in range(2))
    assert one.runs is not None and other.runs is not None
    assert one.runs.outputs == other.runs.outputs


def test_a_failure_stays_where_it_is() -> None:
    fn = made(lambda s, k: int(s) if k > 0 else 0, (STR, INT))
    assert (called(fn, "x", 1), called(fn, "x", 0)) == ("raise", "0")
    agree(fn, Compiled(fn.runs, False), "x", 0)
    unused = made(lambda s, k: [int(s), k][1], (STR, INT))
    assert (called(unused, "x", 1), evaluated(unused, "x", 1)) == ("raise", "raise")


def test_a_function_that_is_sent_is_the_same() -> None:
    runs = made(lambda s: NAMES.get(s.upper(), "?") + s[1:], (STR,)).runs
    assert runs is not None
    again = pickle.loads(pickle.dumps(runs))
    for s in TEXTS:
        assert evaluate_call(again, [s]) == evaluate_call(runs, [s])


def test_a_long_chain_is_evaluated() -> None:
    e = n.var(0, STR)
    for _ in range(3000):
        e = concat(e, n.const("x"))
    assert len(Inner(e, (STR,))("")) == 3000


def test_lowering_leaves_the_rest_alone() -> None:
    traced = trace(lambda a, b: a + b if a > 0 else b, (INT, INT))
    assert lowered(traced).outputs == traced.outputs


# ---------------------------------------------------------------- what is refused, and the messages


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda s: s.encode().hex(), "uses the method str.encode"),
        (lambda s: sum(1 for c in s if c == "a"), "loops over an event's value"),
        (lambda s: s.translate({97: "b"}), "uses the method str.translate"),
    ],
)
def test_what_stays_opaque(f: Callable[[str], Any], why: str) -> None:
    with pytest.raises(PipelineError, match="must be given"):
        Function.make(f, (STR,))
    fn = Function.make(f, (STR,), to=FLOAT if "loops" in why else STR)
    assert fn.runs is None and fn.reason == why


def test_a_dictionary_without_the_key_names_it() -> None:
    p = pipeline(lambda x: x.map(lambda s: NAMES[s], id="name"), x=str)
    for mode in ("python", "numba"):
        with pytest.raises(StepError, match=r"step 'name' .* failed at push 1 on the event 'zz': KeyError: 'zz'"):
            p.engine(mode=mode).push(["a", "zz"])


def test_a_dictionary_counts_as_it_was_when_the_pipeline_was_built() -> None:
    names = {"a": "one"}
    p = pipeline(lambda x: x.map(lambda s: names.get(s, "?")), x=str)
    names["b"] = "two"
    assert p.engine().push(["a", "b"]) == ["one", "?"]


def test_mistakes_are_reported_as_without_text() -> None:
    with pytest.raises(Exception, match="fails on every event that was tried"):
        Function.make(lambda s: s.startswith(5), (STR,))


def test_floats_have_their_own_answers() -> None:
    fn = made(lambda x: str(x), (FLOAT,))
    run = Compiled(fn.runs, False)
    for x in (0.0, -0.0, 1.5, math.inf, math.nan, 1e22):
        agree(fn, run, x)
