"""Failure transparency (Failure Transparency in Stateful Dataflow Systems, 2024); docs/explanation/failures.md tells
the argument.

* ``model``: the paper's rules and definitions by their names; ``model.tasks`` makes tasks of a pipeline,
  ``model.trace`` applies and reorders traces, ``model.explain`` builds the failure-free execution that explains a
  faulty one, ``model.notation`` writes runs as short texts
* ``checker``: every interleaving with crashes, and whether it can be explained
* ``audit``: what a recorded run must satisfy, and its explanation
* ``crash``: a pipeline run for real under ``kill -9``; ``testing``: the same for one's own tests

What one calls stands at the top, and is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.failures.checker.system import Rules as Rules
    from pellucid.failures.model import Configuration as Configuration
    from pellucid.failures.model import initial as initial
    from pellucid.failures.model.explain import explain as explain
    from pellucid.failures.model.notation import read_run as read_run
    from pellucid.failures.model.notation import write_run as write_run
    from pellucid.failures.testing import crash_test as crash_test

_HOME = {
    "Configuration": "model",
    "Rules": "checker.system",
    "crash_test": "testing",
    "explain": "model.explain",
    "initial": "model",
    "read_run": "model.notation",
    "write_run": "model.notation",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"pellucid.failures has no {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(f"pellucid.failures.{_HOME[name]}"), name)
