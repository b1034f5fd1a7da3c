"""Event time on Spark: the engine of event time in batch jobs, and in streaming queries with a clock of their own."""
