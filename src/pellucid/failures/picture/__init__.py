"""Space-time pictures of runs with crashes."""
