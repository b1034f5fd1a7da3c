"""Runs that read one another: a downstream run takes the rows of an upstream's epochs before they are committed.

* ``upstream``: what a run tells others about its outputs, and what a reader finds in its state folder
* ``rows``: the rows of parts from any row on, and the checksum by which they are known again
* ``lane``: such rows as an input: what was read ahead, what of it is sure, what was given up
* ``source``: the source task around it, which tells the coordinator what may be committed and what must be undone
"""
