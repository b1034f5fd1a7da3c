"""From a Python function to an expression: it is run once, on symbolic values."""
