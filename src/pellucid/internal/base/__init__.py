"""What everything that lasts rests on: files, containers, identities, the cache, and points at which tests strike."""
