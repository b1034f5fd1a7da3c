"""Pipelines in the languages of other tools."""
