"""Windows and sessions whose answers come more than once: told early, or corrected."""
