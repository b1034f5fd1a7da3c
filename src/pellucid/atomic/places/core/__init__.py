"""A place without sockets, disk or clock: events come in, effects go out (`events` says which)."""

from pellucid.atomic.places.core.events import (
    Asked,
    Effects,
    Event,
    Heard,
    Message,
    Noted,
    NoWay,
    Refused,
    Tick,
    Timing,
    Tree,
    walk,
)
from pellucid.atomic.places.core.place import Core

__all__ = [
    "Asked",
    "Core",
    "Effects",
    "Event",
    "Heard",
    "Message",
    "NoWay",
    "Noted",
    "Refused",
    "Tick",
    "Timing",
    "Tree",
    "walk",
]
