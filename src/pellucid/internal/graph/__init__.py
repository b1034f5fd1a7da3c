"""Streams, processors and pipelines: the graph that everything else is a function of."""
