"""The process of a place: connections, messages that are carried along paths, the loop around the core."""
