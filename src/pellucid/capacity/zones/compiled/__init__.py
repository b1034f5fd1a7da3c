"""What is compiled: matrices, steps of both semantics, the search; `layout` says where everything stands."""
