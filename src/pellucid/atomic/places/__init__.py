"""Places: processes with a durable log, between which transactions commit as a set or are undone."""
