"""What an opaque function is: every helper, global, default, closure, attribute, module and class that it reaches is
part of it."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid import check, pipeline
from pellucid.internal.expr.function import Function
from pellucid.internal.expr.identity import differences, identity_of
from pellucid.internal.expr.types import INT

FILES = {
    "shop/__init__.py": "",
    "shop/rates.py": "from . import deep\nUSD = 2\nOTHER = 5\ndef double(v):\n    return v * deep.factor()\n",
    "shop/deep.py": "FACTOR = 2\nUNUSED = 1\ndef factor():\n    return FACTOR\n",
    "shop/late.py": "import shop.later\nN = 1\n",
    "shop/later.py": "M = 1\n",
    "shop/kinds.py": (
        "import enum, dataclasses, typing\n"
        "class Side(enum.Enum):\n    BUY = 1\n    SELL = 2\n    def sign(self): return 1 if self is Side.BUY else -1\n"
        "class Base:\n    step = 1\n    def up(self): return self.step\n"
        "class Rate(Base):\n    def __init__(self, by): self.by = by\n    def of(self, v): return v * self.by + "
        "self.up()\n"
        "@dataclasses.dataclass(frozen=True)\nclass Point:\n    x: int = 0\n    def far(self): return abs(self.x)\n"
    ),
    "q.py": (
        "import functools\n"
        "from shop import rates\n"
        "from shop.kinds import Rate, Side, Point\n"
        "K = 2\nTABLE = {'a': [1, {2, 3}], 'b': (4.0, None)}\nRATE = Rate(3)\n"
        "def helper(v):\n    return inner(v) + 1\n"
        "def inner(v):\n    return v\n"
        "def outer(k):\n    def f(v): return str(v) + str(k)\n    return f\n"
        "def logged(f):\n    @functools.wraps(f)\n    def g(*a): return f(*a)\n    return g\n"
        "@logged\ndef decorated(v): return inner(v) + K\n"
        "@functools.lru_cache\ndef cached(v): return v + K\n"
        "def use_global(v):\n    'Says something.'\n    return int(str(v)) * K  # by K\n"
        "def use_table(v): return TABLE['a'][0]\n"
        "def use_helper(v): return helper(v)\n"
        "def use_module(v): return rates.double(v)\n"
        "def use_attribute(v): return rates.USD * v\n"
        "def use_whole_module(v): return getattr(rates, 'USD') * v\n"
        "def use_object(v): return RATE.of(v)\n"
        "def use_class(v): return Rate(v).of(1)\n"
        "def use_enum(v): return Side(v).sign()\n"
        "def use_record(v): return Point(v).far()\n"
        "def use_default(v, by=7, *, also=(1, 2)): return v + by\n"
        "def use_import(v):\n    from shop.late import N\n    return N\n"
        "closed = outer(5)\n"
        "partial = functools.partial(lambda k, v: k + v, 4)\n"
        "method = RATE.of\n"
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[..., types.ModuleType]]:
    """Writes the project, with some texts replaced, and loads it as if it were new."""
    path, modules = list(sys.path), dict(sys.modules)

    def load(*changes: tuple[str, str, str]) -> types.ModuleType:
        folder = tmp_path / f"p{len(list(tmp_path.iterdir()))}"
        for name, text in FILES.items():
            for file, old, new in changes:
                if file == name:
                    assert old in text, old
                    text = text.replace(old, new)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name in [n for n in sys.modules if n == "q" or n.partition(".")[0] == "shop"]:
            del sys.modules[name]
        sys.path[:] = [str(folder), *path]
        import q  # type: ignore[import-not-found]

        return q  # type: ignore[no-any-return]

    yield load
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        if name == "q" or name.partition(".")[0] == "shop":
            del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "said"),
    [
        ("use_global", "q.py", "K = 2", "K = 3", "q.K has changed"),
        ("use_global", "q.py", "K = 2", "K = 2.0", "q.K has changed"),
        ("use_global", "q.py", "K = 2", "K = True", "q.K has changed"),
        ("use_global", "q.py", "int(str(v))", "int(repr(v))", "q.use_global() has changed"),
        ("use_table", "q.py", "{2, 3}", "{2, 4}", "q.TABLE has changed"),
        ("use_helper", "q.py", "    return v\n", "    return v + 0\n", "q.inner() has changed"),
        ("use_module", "shop/deep.py", "FACTOR = 2", "FACTOR = 3", "shop.deep.FACTOR has changed"),
        ("use_module", "shop/rates.py", "v * deep", "2 * v * deep", "shop.rates.double() has changed"),
        ("use_attribute", "shop/rates.py", "USD = 2", "USD = 3", "shop.rates.USD has changed"),
        ("use_whole_module", "shop/rates.py", "OTHER = 5", "OTHER = 6", "shop.rates.OTHER has changed"),
        ("use_object", "q.py", "Rate(3)", "Rate(4)", "q.RATE has changed"),
        ("use_object", "shop/kinds.py", "v * self.by", "v + self.by", "shop.kinds.Rate.of() has changed"),
        ("use_object", "shop/kinds.py", "step = 1", "step = 2", "class shop.kinds.Base.step has changed"),
        ("use_class", "shop/kinds.py", "return self.step", "return self.step + 1", "shop.kinds.Base.up() has changed"),
        ("use_enum", "shop/kinds.py", "SELL = 2", "SELL = 3", "class shop.kinds.Side.SELL has changed"),
        ("use_enum", "shop/kinds.py", "else -1", "else -2", "shop.kinds.Side.sign() has changed"),
        ("use_record", "shop/kinds.py", "abs(self.x)", "self.x", "shop.kinds.Point.far() has changed"),
        ("use_record", "shop/kinds.py", "x: int = 0", "x: int = 1", "class shop.kinds.Point.x has changed"),
        ("use_default", "q.py", "by=7", "by=8", "the default of by in q.use_default() has changed"),
        ("use_default", "q.py", "(1, 2)", "(1, 3)", "the default of also in q.use_default() has changed"),
        ("use_import", "shop/late.py", "N = 1", "N = 2", "module shop.late has changed"),
        ("use_import", "shop/later.py", "M = 1", "M = 2", "module shop.later has changed"),
        ("closed", "q.py", "outer(5)", "outer(6)", "k in q.outer.<locals>.f() has changed"),
        ("decorated", "q.py", "+ K", "- K", "q.decorated() has changed"),
        ("decorated", "q.py", "f(*a)", "f(*a) + 1", "q.logged.<locals>.g() has changed"),
        ("cached", "q.py", "v + K", "v - K", "q.cached() has changed"),
        ("cached", "q.py", "K = 2", "K = 3", "q.K has changed"),
        ("partial", "q.py", "k + v, 4", "k + v, 5", "the function has changed"),
        ("partial", "q.py", "k + v, 4", "k - v, 4", "q.<lambda>() has changed"),
        ("method", "q.py", "Rate(3)", "Rate(4)", "the function has changed"),
        ("method", "shop/kinds.py", "v * self.by", "v + self.by", "shop.kinds.Rate.of() has changed"),
    ],
)
def test_what_is_called_and_read_is_part_of_it(
    project: Any, name: str, file: str, old: str, new: str, said: str
) -> None:
    before = identity_of(getattr(project(), name))
    after = identity_of(getattr(project((file, old, new)), name))
    assert before.digest != after.digest
    assert said in differences(before.parts, after.parts)
    assert not before.unseen


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("use_global", "q.py", "K = 2", "\n\n# a comment\nK = 2"),
        ("use_global", "q.py", "  # by K", ""),
        ("use_global", "q.py", "'Says something.'", "'Says something else.'"),
        ("use_global", "q.py", "    'Says something.'\n", ""),
        ("use_helper", "q.py", "def helper(v):", "def helper(v: int) -> int:"),
        ("use_module", "shop/deep.py", "UNUSED = 1", "UNUSED = 2"),
        ("use_attribute", "shop/rates.py", "OTHER = 5", "OTHER = 6"),
        ("use_import", "shop/late.py", "N = 1", "# one\nN = 1"),
        ("use_table", "q.py", "{2, 3}", "{3, 2}"),
    ],
)
def test_what_says_nothing_is_not(project: Any, name: str, file: str, old: str, new: str) -> None:
    before = identity_of(getattr(project(), name))
    assert differences(before.parts, identity_of(getattr(project((file, old, new)), name)).parts) == ""


def test_the_same_in_another_process_with_another_hash_seed(project: Any, tmp_path: Path) -> None:
    names = ["use_table", "use_object", "use_enum", "use_record", "decorated", "use_whole_module", "use_import"]
    here = [identity_of(getattr(project(), name)).digest for name in names]
    project()  # another folder
    code = (
        "import q\nfrom pellucid.internal.expr.identity import identity_of\n"
        f"for n in {names}: print(identity_of(getattr(q, n)).digest)"
    )
    for seed in ("0", "4711"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout.split()
        assert there == here


LOCK, DICE, OPEN = threading.Lock(), random.Random(1), {"file": sys.__stdout__, "k": 1}


class Held:
    def __init__(self, k: int) -> None:
        self.lock, self.k = threading.Lock(), k

    def of(self, v: int) -> int:
        return v + self.k


def with_lock(v: int) -> int:
    with LOCK:
        return v


def with_dice(v: int) -> int:
    return v + DICE.randint(1, 6)


def with_file(v: int) -> int:
    return len(OPEN) + v


def with_environment(v: int) -> int:
    return v + len(os.environ["PATH"])


def with_open(v: int) -> int:
    with open("rate.txt") as file:
        return v + int(file.read())


def with_eval(v: int) -> int:
    return int(eval("v + 1"))


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (with_lock, "tests.expr.test_identity.LOCK: a lock has no stable form"),
        (with_dice, "tests.expr.test_identity.DICE: a source of random numbers"),
        (with_file, "tests.expr.test_identity.OPEN: a TextIOWrapper has no stable form"),
        (with_environment, "os.environ: what it reads is known only when it does"),
        (with_open, "open() in tests.expr.test_identity.with_open(): what it reads is known only when it does"),
        (with_eval, "eval() in tests.expr.test_identity.with_eval(): what it reads is known only when it does"),
    ],
)
def test_what_cannot_be_seen_is_said(f: Any, said: str) -> None:
    assert identity_of(f).unseen == (said,)


def test_beside_what_cannot_be_seen_the_rest_is_compared() -> None:
    one, other = identity_of(Held(1).of), identity_of(Held(2).of)
    assert one.unseen == other.unseen == ("the function: a lock has no stable form",)
    assert one.digest == identity_of(Held(1).of).digest != other.digest


def test_two_functions_that_call_each_other_are_two() -> None:
    assert identity_of(_ping).digest != identity_of(_pong).digest


def _ping(v: int) -> int:
    return _pong(v - 1) if v else 0


def _pong(v: int) -> int:
    return _ping(v - 1) if v else 1


def test_packages_count_by_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def f(v: int) -> int:
        return int(np.abs(v))

    assert identity_of(f).parts["package numpy"] == np.__version__
    monkeypatch.setattr("pellucid.internal.expr.identity.version_of", lambda name: None)
    assert identity_of(f).unseen == ("package numpy: it tells no version",)


def test_odd_values_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.internal.expr.identity._MOST", 1000)
    circle: list[Any] = [1]
    circle.append(circle)
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)

    def f(v: int, held: Any) -> Any:
        return v, held

    for value, unseen in (
        (circle, False),
        (deep, True),
        ([[i] for i in range(2_000)], True),
        (functools.singledispatch(f), False),
    ):
        found = identity_of(functools.partial(f, held=value))
        assert bool(found.unseen) is unseen
        assert found.digest == identity_of(functools.partial(f, held=value)).digest
    while deep:
        (deep,) = deep  # step by step: Python itself would recurse


RATE = 1


def _scaled(v: int) -> int:
    return int(str(v)) * RATE


def _adder(k: int) -> Callable[[int], int]:
    def f(v: int) -> int:
        return int(str(v)) + k

    return f


class Adds:
    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, v: int) -> int:
        return int(str(v)) + self.k

    def method(self, v: int) -> int:
        return int(str(v)) + self.k


def _plus(k: int, v: int) -> int:
    return int(str(v)) + k


@pytest.mark.parametrize("make", [_adder, Adds, lambda k: Adds(k).method, lambda k: functools.partial(_plus, k)])
def test_pipelines_that_differ_in_what_is_closed_over_are_not_equivalent(make: Callable[[int], Any]) -> None:
    one, same, other = (pipeline(lambda x, k=k: x.map(make(k), to=int, id="m"), x=int) for k in (1, 1, 2))
    assert check.equivalent(one, same, ints=range(3)).proved
    assert check.equivalent(one, other, ints=range(3)).refuted


def test_a_global_is_looked_at_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Function.make(_scaled, (INT,), to=INT)
    monkeypatch.setattr(sys.modules[__name__], "RATE", 2)
    second, third = (Function.make(_scaled, (INT,), to=INT) for _ in range(2))
    assert second.digest == third.digest
    monkeypatch.undo()
    assert first.digest != second.digest and first.shape == second.shape
