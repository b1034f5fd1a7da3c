"""Capacity: topologies, steps, bounds."""
