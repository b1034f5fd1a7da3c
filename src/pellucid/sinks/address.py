"""Sinks by their address: ``sqlite:FILE#TABLE``, ``postgresql://…#TABLE``, ``delta:FOLDER``,
``kafka://HOST:PORT/TOPIC``."""

from __future__ import annotations

import os
import re
from typing import Any

from pellucid.address import Address
from pellucid.errors import UsageError

__all__ = ["SINKS", "absolute", "on_this_machine", "parsed", "sink_of"]

SINKS = ("postgresql://", "postgres://", "sqlite:", "delta:", "kafka://")


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


def parsed(path: str) -> tuple[str, str, str]:
    """(kind, address, table or topic) of a sink.

    >>> parsed("sqlite:shop.db#totals")
    ('sqlite', 'shop.db', 'totals')
    """
    if path.startswith("kafka://"):
        host, _, topic = path[8:].partition("/")
        if not host or not topic:
            raise UsageError(f"--out {path}: expected kafka://HOST:PORT/TOPIC")
        return "kafka", host, topic
    if path.startswith("delta:"):
        if not path[6:]:
            raise UsageError(f"--out {path}: expected delta:FOLDER")
        return "delta", path[6:], ""
    kind = "sqlite" if path.startswith("sqlite:") else "postgres"
    found = Address.of(path)
    address, table = found.connection, found.table
    wrong = found.misspelt()
    if wrong is not None:
        raise UsageError(f"--out {found}: {wrong}")
    if not table:
        example = "sqlite:FILE#TABLE" if kind == "sqlite" else "postgresql://USER@HOST/DATABASE#TABLE"
        raise UsageError(f"--out {path}: which table? Expected {example}")
    return kind, address[7:] if kind == "sqlite" else address, table


def sink_of(path: str) -> Any:
    """The sink at an address; a path without one is a folder of Parquet files.

    >>> sink_of("sqlite:shop.db")
    Traceback (most recent call last):
    pellucid.errors.UsageError: --out sqlite:shop.db: which table? Expected sqlite:FILE#TABLE
    """
    from pellucid import sinks

    if not path.startswith(SINKS):
        return sinks.parquet(absolute(path))
    kind, address, name = parsed(path)
    if kind == "delta":
        return sinks.delta(absolute(address))
    return getattr(sinks, kind)(address, name)
