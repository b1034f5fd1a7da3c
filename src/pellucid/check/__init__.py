"""Prove or refute a pipeline: questions about **all** its inputs, answered with a verdict.

A "no" comes with a counterexample: the shortest input stream that shows it.  Each part is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.atomic.question import atomic as atomic
    from pellucid.capacity.zones.question import capacity as capacity
    from pellucid.check.formula import explain as explain
    from pellucid.check.promises import progress as progress
    from pellucid.check.questions import equivalent as equivalent
    from pellucid.check.questions import holds as holds
    from pellucid.check.questions import holds_on as holds_on
    from pellucid.check.questions import implies as implies
    from pellucid.check.questions import live as live
    from pellucid.check.questions import properties as properties
    from pellucid.check.questions import property as property
    from pellucid.check.structure import buffers as buffers
    from pellucid.check.structure import dead_paths as dead_paths
    from pellucid.check.system.domains import Mod as Mod
    from pellucid.check.timed.question import times as times
    from pellucid.check.transitions import Transitions as Transitions
    from pellucid.check.transitions import monitor as monitor
    from pellucid.failures.checker.question import failures as failures
    from pellucid.internal.model.counterexample import Counterexample as Counterexample
    from pellucid.internal.model.verdict import Verdict as Verdict

_HOME = {
    "atomic": "pellucid.atomic.question",
    "buffers": "structure",
    "capacity": "pellucid.capacity.zones.question",
    "properties": "questions",
    "property": "questions",
    "Mod": "pellucid.check.system.domains",
    "explain": "formula",
    "equivalent": "questions",
    "holds": "questions",
    "holds_on": "questions",
    "implies": "questions",
    "live": "questions",
    "Counterexample": "pellucid.internal.model.counterexample",
    "Verdict": "pellucid.internal.model.verdict",
    "dead_paths": "structure",
    "Transitions": "transitions",
    "monitor": "transitions",
    "times": "pellucid.check.timed.question",
    "failures": "pellucid.failures.checker.question",
    "progress": "promises",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"pellucid.check has no question {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    home = _HOME[name]
    value = getattr(import_module(home if "." in home else f"pellucid.check.{home}"), name)
    globals()[name] = value
    return value
