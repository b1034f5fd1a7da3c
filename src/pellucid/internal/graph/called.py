"""Steps that are called wrongly: Python's own `TypeError` says which argument is too many or missing, and not what to
write.  Where a pipeline is built, it is said here.

>>> from pellucid import pipeline
>>> pipeline(lambda x: x.at(lambda v: v).tumbling(5), x=int)
Traceback (most recent call last):
pellucid.errors.UsageError: tumbling (...): sub is missing: write tumbling(size, sub), as in
x.tumbling(timedelta(hours=1), total) with a pipeline total
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from typing import Any

from pellucid.errors import UsageError, nearest
from pellucid.internal import PACKAGE

_SAID = re.compile(r"(?P<name>(?:\w+\.)?(?P<step>\w+))\(\) (?P<what>.*)", re.DOTALL)
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")
_EXAMPLES = {
    "at": "x.at('when', lateness=timedelta(minutes=5))",
    "tumbling": "x.tumbling(timedelta(hours=1), total) with a pipeline total",
    "sliding": "x.sliding(timedelta(hours=1), timedelta(minutes=10), total) with a pipeline total",
    "session": "x.session(timedelta(minutes=30), total) with a pipeline total",
    "dedup": "x.dedup(by='order', within=timedelta(days=1))",
    "key_by": "x.key_by('user'), or x.key_by(lambda e: e.user)",
    "forget": "x.key_by('user').forget(after=1000)",
    "cumulate": "x.cumulate(lambda total, e: total + e.price, start=0)",
}
_ELSEWHERE = {
    "lateness": "how late events may come is said where their times are, as in x.at('when', lateness=…)",
    "idle": "it is said where times are, as in x.at('when', idle=timedelta(seconds=10))",
    "key": "keys are said before, as in x.key_by('user')",
}


def explained(error: TypeError) -> UsageError | None:
    """What is said of a call of a step that Python refuses; None if it is another mistake, which is the user's own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    found = _SAID.fullmatch(str(error))
    if trace is None or found is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return None
    f = _called(found["name"], found["step"], trace.tb_frame)
    if f is None:
        return None
    takes = [p for p in inspect.signature(f).parameters.values() if p.name != "self"]
    needed = [p.name if p.kind is p.POSITIONAL_OR_KEYWORD else f"{p.name}=…" for p in takes if _must(p)]
    others = [f"{p.name}=" for p in takes if not _must(p)]
    step = found["step"]
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
    write = f"write {step}({', '.join(needed)})"
    unknown = _UNKNOWN.match(found["what"])
    if unknown is not None:
        given = unknown[1]
        names = [p.name for p in takes]
        hint = f"; {_ELSEWHERE[given]}" if given in _ELSEWHERE else nearest(given, names)
        return UsageError(f"{step} ({where}): there is no {given}= here: {write}, with {', '.join(others)}{hint}")
    example = f", as in {_EXAMPLES[step]}" if step in _EXAMPLES else ""
    if found["what"].startswith("missing"):
        missing = re.findall(r"'(\w+)'", found["what"])
        verb = "is" if len(missing) == 1 else "are"
        return UsageError(f"{step} ({where}): {' and '.join(missing)} {verb} missing: {write}{example}")
    rest = f"; the others by their names: {', '.join(others)}" if others else ""
    return UsageError(f"{step} ({where}): {found['what']}: {write}{example}{rest}")


def _must(p: inspect.Parameter) -> bool:
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _called(name: str, step: str, frame: Any) -> Any:
    """The function of Pellucid that is called so; None if it is somebody else's."""
    public = sys.modules.get("pellucid")
    owner = getattr(public, "Stream", None) if "." in name else public
    f = getattr(owner, step, None)
    if not inspect.isfunction(f) or f.__qualname__ != name or not f.__module__.startswith("pellucid."):
        return None
    seen = {**frame.f_globals, **frame.f_locals}.get(name, f)
    return f if seen is f else None
