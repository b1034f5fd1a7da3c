"""What all durable things rest on: files, containers, identities, the cache, and points at which tests strike."""
