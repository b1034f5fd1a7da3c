"""Verdicts and counterexamples for people and programs: text, pictures, JSON, JUnit, tests."""
