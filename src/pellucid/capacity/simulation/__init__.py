"""Simulation: one run of a topology, exactly, with arrivals by the clock, by chance or as recorded."""

from pellucid.capacity.simulation.arrivals import Arrivals, Bursts, Constant, Poisson, Recorded
from pellucid.capacity.simulation.run import Simulation, simulate

__all__ = ["Arrivals", "Bursts", "Constant", "Poisson", "Recorded", "Simulation", "simulate"]
