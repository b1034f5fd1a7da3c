"""Pictures of a pipeline: for a terminal, a page, a notebook."""
