"""``pellucid run`` on Spark."""
