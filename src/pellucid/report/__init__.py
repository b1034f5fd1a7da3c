"""Pictures and pages: what a graph, a trace or a verdict looks like to a person."""
