"""The sinks that commit together."""
