"""One stream without keys on all cores."""
