"""Verdicts about pipelines over rich types, held against a meaning of their own: see `judge`."""
