"""Event time here: the plan, the clock, the literal meaning, and data through it."""
