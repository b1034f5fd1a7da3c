"""The saved form of what an engine remembers: data only."""
