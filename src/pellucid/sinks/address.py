"""Sinks by their address, on the command line and in Python: ``sqlite:FILE#TABLE``, ``postgresql://…#TABLE``,
``delta:FOLDER``, ``kafka://HOST:PORT/TOPIC``, ``env:VARIABLE#TABLE``, or a folder."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pellucid.errors import UsageError, option
from pellucid.internal.address import Address, epochs_of, from_environment

if TYPE_CHECKING:
    from pellucid.sinks.interface import Sink


def on_this_machine(path: str) -> bool:
    """Whether this is a plain path, not an address such as ``s3a://bucket/folder`` or ``file:/folder``.

    >>> on_this_machine("data/events.csv"), on_this_machine("hdfs://host/events"), on_this_machine("file:/events")
    (True, False, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is None


def absolute(path: str) -> str:
    """A plain path from the root on: the JVM may have been started in another folder.

    >>> absolute("/a/../b"), absolute("s3a://bucket/x")
    ('/b', 's3a://bucket/x')
    """
    return os.path.abspath(path) if on_this_machine(path) else path


def parsed(path: str, asked: str = "out") -> tuple[str, str, str]:
    """(kind, address, table or topic) of a sink; all empty for a path.

    >>> parsed("sqlite:shop.db#totals"), parsed("out/sums")
    (('sqlite', 'shop.db', 'totals'), ('', '', ''))
    """
    found = Address.of(path)
    kind = found.kind
    if kind == "kafka":
        host, _, topic = path[8:].partition("/")
        if not host or not topic:
            raise UsageError(f"{option(asked, path)}: expected kafka://HOST:PORT/TOPIC")
        return kind, host, topic
    if kind == "delta":
        if not path[6:]:
            raise UsageError(f"{option(asked, path)}: expected delta:FOLDER")
        return kind, path[6:], ""
    if not kind:
        return "", "", ""
    wrong = found.misspelt()
    if wrong is not None:
        raise UsageError(f"{option(asked, found)}: {wrong}")
    if not found.table:
        example = "sqlite:FILE#TABLE" if kind == "sqlite" else "postgresql://USER@HOST/DATABASE#TABLE"
        raise UsageError(f"{option(asked, path)}: which table? Expected {example}")
    return kind, found.file if kind == "sqlite" else found.connection, found.table


def is_folder(path: str) -> bool:
    """Whether this is a folder of Parquet on this machine: it is said by a ``/`` at its end, or the folder has
    manifests already.

    >>> is_folder("out/sums/"), is_folder("out/sums.csv"), is_folder("delta:out/"), is_folder("epochs:state/")
    (True, False, False, False)
    """
    if Address.of(path).kind or epochs_of(path) is not None or not on_this_machine(path):
        return False
    return path.endswith("/") or os.path.isdir(os.path.join(path, "_manifest"))


def sink_of(path: str) -> Sink:
    """The sink at an address; a path without one is a folder of Parquet files.

    >>> sink_of("sqlite:shop.db")
    Traceback (most recent call last):
    pellucid.errors.UsageError: outputs='sqlite:shop.db': which table? Expected sqlite:FILE#TABLE
    """
    from pellucid import sinks

    path = from_environment(path)
    kind, address, name = parsed(path)
    if not kind:
        return sinks.parquet(absolute(path))
    if kind == "delta":
        return sinks.delta(absolute(address))
    made: Sink = getattr(sinks, kind)(address, name)
    return made
