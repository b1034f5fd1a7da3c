"""A place without sockets, disk or clock: events come in, effects go out (`events` says which)."""

from pellucid.atomic.places.core.events import Asked, Effects, Event, Heard, Message, Noted, Refused, Tick
from pellucid.atomic.places.core.paths import NoWay, Tree, walk
from pellucid.atomic.places.core.place import Core
from pellucid.atomic.places.core.speaking import Timing

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
