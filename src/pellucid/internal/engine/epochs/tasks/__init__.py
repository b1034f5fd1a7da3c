"""The processes of a run: sources, workers and sinks, and what they say to one another."""
