"""What a function reads that it is not given, and what of that differs from process to process."""
