"""Committing together, as a model: what every run keeps, and what classic faults break."""

from tests.atomic.places.protocol.machine import FAULTS, Committing, committing
from tests.atomic.places.protocol.question import SAYS, places_keep

__all__ = ["FAULTS", "SAYS", "Committing", "committing", "places_keep"]
