"""Measured jobs."""
