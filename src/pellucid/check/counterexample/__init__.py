"""Counterexamples of pipelines: the pushes, what every stream carried, what waits; as tables and as tests."""
