"""The explicit engine: every state, one by one."""
