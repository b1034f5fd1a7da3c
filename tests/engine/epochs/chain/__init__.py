"""Runs that read one another's epochs before they are committed."""
