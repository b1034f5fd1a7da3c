"""Judges written from the documentation alone: they import nothing of what they judge, and use it as a stranger
would."""
