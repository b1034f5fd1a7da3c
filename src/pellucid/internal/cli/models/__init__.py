"""Verbs that ask about models beside pipelines."""
