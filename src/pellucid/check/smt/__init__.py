"""The symbolic engine: all integers, strings and floats, by a solver."""
