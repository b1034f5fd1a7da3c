"""Certificates of what is proved, and the small checker that each has to pass: it shares nothing with the search."""
