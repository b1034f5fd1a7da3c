"""Whose something saved is: a run is known by facts (the pipeline step by step, inputs, key, …), and goes on only if
they are the same.

>>> was = {"pipeline": "total", "steps": {"sum": "a1", "cut": "b2"}, "key": "user"}
>>> refuse_other("--state run", was, was, {"key": "--key"}, "Go back")
>>> refuse_other("--state run", was, {**was, "key": None}, {"key": "--key"}, "Go back")
Traceback (most recent call last):
pellucid.errors.StateError: --state run: belongs to another run: --key was user when it began, and is not given now. Go
back
>>> refuse_other("--state run", was, {**was, "steps": {"sum": "a2"}}, {}, "Go back")
Traceback (most recent call last):
pellucid.errors.StateError: --state run: belongs to another run: it is of 'total' as it was before a change; steps that
differ: gone: cut; changed: sum. Go back
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pellucid.errors import StateError


def refuse_other(
    place: str,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    words: Mapping[str, str],
    advice: str,
    *,
    why: Callable[[str], str] = lambda step: "",
    also: Callable[[str], str] = lambda step: "",
    accept: Callable[[list[str]], str] = lambda steps: "",
) -> None:
    """Refuse what belongs to another run: other steps, or another of the facts that ``words`` has a word for.

    ``why`` says what of a step is another now; if it can for all that differ, ``accept`` says how to go on with them.
    ``also`` says what else is another, with which nobody can go on.
    """
    was, new = before.get("steps", {}), now.get("steps", {})
    if was != new:
        changed = [step for step in was if was[step] != new.get(step)]
        listed = {
            "gone": sorted(was.keys() - new.keys()),
            "new": sorted(new.keys() - was.keys()),
            "changed": sorted(step + (why(step) or also(step)) for step in changed if step in new),
        }
        text = "; ".join(f"{what}: {', '.join(steps)}" for what, steps in listed.items() if steps)
        if was.keys() == new.keys() and all(map(why, changed)) and not any(map(also, changed)):
            advice += accept(changed)
        other = (
            f", not of {now['pipeline']!r}" if before["pipeline"] != now["pipeline"] else " as it was before a change"
        )
        raise _other(place, f"it is of {before['pipeline']!r}{other}; steps that differ: {text}", advice)
    for name, word in words.items():
        if before.get(name) != now.get(name):
            told = f"{word} was {_shown(before.get(name))} when it began, and is {_shown(now.get(name))} now"
            raise _other(place, told, advice)


def other_columns(was: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    """Which columns of a step's events are of another type now; nothing where it was not written down.

    >>> other_columns({"at": "datetime", "fee": "int"}, {"at": "datetime", "fee": "int | None"})
    ' (fee was int, and is now int | None)'
    """
    if was is None or now is None:
        return ""
    if list(was) == list(now) == [""]:
        return f" (was {was['']}, and is now {now['']})" if was != now else ""
    told = [f"{path or 'its value'} is gone" for path in was if path not in now]
    told += [f"{path or 'its value'} is new" for path in now if path not in was]
    told += [f"{path} was {was[path]}, and is now {now[path]}" for path in was if now.get(path, was[path]) != was[path]]
    return f" ({', '.join(told[:3])}{', …' if len(told) > 3 else ''})" if told else ""


def _other(place: str, what: str, advice: str) -> StateError:
    return StateError(f"{place}: belongs to another run: {what}. {advice}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(str(v[0] if isinstance(v, list) and v else v) for v in value) or "empty"
    return "not given" if value is None else str(value)
