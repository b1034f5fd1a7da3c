"""Event time over columns: windows, sessions, joins and dedup whose state is plain arrays."""
