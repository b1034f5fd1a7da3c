"""Cubicle's language: what a system is (`system`), how it is read, written and literally run (`interpreter`)."""
