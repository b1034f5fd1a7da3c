"""Event time: windows, joins and dedup that wait for the clock."""
