"""The same on Spark: ``p.spark`` is the door; here is what goes with it.  Each part is loaded when it is first used.

* ``read_csv``, ``read_json``: text files as the local engine reads them
* ``explain``: what Spark threw, in a word of ours
* ``Store``: the state folder of a streaming query
* ``late_counts``: how many events came too late in a query by event time
* ``stop_if_ours``: stop a session that `pellucid.spark.session.session` started
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.spark.failure import explain as explain
    from pellucid.spark.files import read_csv as read_csv
    from pellucid.spark.files import read_json as read_json
    from pellucid.spark.session import stop_if_ours as stop_if_ours
    from pellucid.spark.store import Store as Store
    from pellucid.spark.timed import late_counts as late_counts

_HOME = {
    "Store": "store",
    "explain": "failure",
    "late_counts": "timed",
    "read_csv": "files",
    "read_json": "files",
    "stop_if_ours": "session",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"pellucid.spark has no {name!r}: it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(f"pellucid.spark.{_HOME[name]}"), name)
