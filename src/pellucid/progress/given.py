"""What is given to the rooms of progress, looked at where it comes in: each refusal says what was expected there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pellucid.errors import UsageError


def several(given: Any, where: str, such: str) -> list[Any]:
    """Some things, as a list.

    >>> several(5, "times=", "[1, 2]")
    Traceback (most recent call last):
    pellucid.errors.UsageError: times=5: several are expected, as in [1, 2]
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise UsageError(f"{where}{given!r}: several are expected, as in {such}")
    return list(given)


def named(given: Any, where: str, such: str) -> Mapping[Any, Any]:
    """Things by name, as a dict.

    >>> named([1], "nodes=", "{'read': Node()}")
    Traceback (most recent call last):
    pellucid.errors.UsageError: nodes=[1]: a dict is expected, as in {'read': Node()}
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}{given!r}: a dict is expected, as in {such}")
    return given


def whole(given: Any, where: str, least: int | None = None) -> int:
    """A whole number.

    >>> whole(-1, "messages=", 0)
    Traceback (most recent call last):
    pellucid.errors.UsageError: messages=-1: a whole number from 0 on is expected
    """
    if isinstance(given, bool) or not isinstance(given, int) or (least is not None and given < least):
        raise UsageError(f"{where}{given!r}: a whole number {'' if least is None else f'from {least} on '}is expected")
    return given


def hashed(given: Any) -> bool:
    """Whether Python can look it up: what is compared and kept must not change.

    >>> hashed((1, "a")), hashed([1])
    (True, False)
    """
    try:
        hash(given)
    except Exception:  # whatever a class of one's own raises
        return False
    return True


def kept(given: Any) -> bool:
    """Whether it stays what it is: it can be looked up, by what it says and not by where it lies, and is used up by
    nobody.  An iterator, or an object of a class without ``__eq__``, may be another one tomorrow.

    >>> kept((1, "a")), kept(iter([1])), kept([1])
    (True, False, False)
    """
    if isinstance(given, (tuple, frozenset)):
        return all(map(kept, given))
    hashes: Any = type(given).__hash__
    nameless = hashes is object.__hash__ and hasattr(given, "__dict__") and not callable(given)
    return hashed(given) and not nameless and not isinstance(given, Iterator)


def told_apart(given: Iterable[Any], where: str) -> tuple[Any, ...]:
    """Each thing once; two that Python takes for one although they are not, such as 1 and True, are refused.

    >>> told_apart([1, 2, 1], "values=")
    (1, 2)
    >>> told_apart([1, True], "values=")
    Traceback (most recent call last):
    pellucid.errors.UsageError: values=: Python takes 1 and True for one thing: leave one of them out
    """
    known: dict[Any, Any] = {}
    for one in given:
        if not hashed(one):
            raise UsageError(f"{where}: {one!r} can change, so it cannot be told apart: give a tuple or a text")
        first = known.setdefault(one, one)
        if type(first) is not type(one):
            raise UsageError(f"{where}: Python takes {first!r} and {one!r} for one thing: leave one of them out")
    return tuple(known)
